#!/usr/bin/env python3
"""Generates with tfm and with llama.cpp, side by side, from the same weights.

A model with random weights, written once as safetensors and once as GGUF: tfm
with weights in f32, bf16, int8 and int4, llama.cpp in f32, bf16, q8_0 and q4_1.
In turns (A B C ... A B C ...) each continues a prompt of one token by some, and
reads a prompt of 512 tokens. What counts is the median of the rounds, and the
median of the ratios of each round, of types that belong together. Every round
also measures how fast as many bytes as the weights are can be read (`./m bench`),
which is what decoding cannot exceed: a token reads every weight once.

tfm's speeds are those of a whole `./m generate`, sampling included: tokens drawn
after the first one by the time since then, and the prompt's length by the time
until the first token. llama.cpp's are those of its own llama-bench, which draws
nothing.

llama.cpp is built on demand from the source that PyPI has of llama-cpp-python,
into a folder outside of the sources (`--peer DIR`), with whatever instructions
this processor has, but for AMX, where it crashes on some machines.

  bench/compare_llama_cpp.py [--model gpt2|gpt2-xl|llama-1.1b] [--types f32,bf16,int8,int4] [--rounds 5] [--quick] [--json]
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile

import measuring
from measuring import ROOT, checked, say

PROMPT = 512
# Of the weights, as each side names them; what decoding should reach of the
# peer's speed, and prefill.
TYPES = {"f32": "f32", "bf16": "bf16", "int8": "q8_0", "int4": "q4_1"}
# Beside AMD's cores, by their SSE4a: there its weights, which lie in small
# pages, cost it less.
IS_AMD = " sse4a " in pathlib.Path("/proc/cpuinfo").read_text()
WANTED_DECODE = ({"f32": 1.05, "bf16": 1.05, "int8": 1.5, "int4": 1.3} if IS_AMD else
                 {"f32": 1.8, "bf16": 2.2, "int8": 2.5, "int4": 2.0})
WANTED_PREFILL = 1.2
WANTED_OF_READING = 0.85
# What products and the head read of each parameter.
BITS = {"f32": 32, "bf16": 16, "int8": 8, "int4": 5}


# --- llama.cpp ----------------------------------------------------------------


class Peer:
    """llama.cpp's programs, and a Python with what writes its files."""

    def __init__(self, folder):
        self.python = folder / "venv" / "bin" / "python"
        self.build = folder / "build"
        self.bench, self.quantize = (self.build / "bin" / name for name in ("llama-bench", "llama-quantize"))
        folder.mkdir(parents=True, exist_ok=True)
        works = [str(self.python), "-c", "import gguf, numpy"]
        if not self.python.exists() or subprocess.run(works, capture_output=True, check=False).returncode != 0:
            say(f"installing the package gguf into {folder / 'venv'} ...")
            checked([sys.executable, "-m", "venv", folder / "venv"])
            checked([self.python, "-m", "pip", "install", "--quiet", "gguf", "numpy"])
        if not (self.bench.exists() and self.quantize.exists()):
            self.make(folder)

    def make(self, folder):
        say(f"building llama.cpp in {folder}: some minutes ...")
        archives = list(folder.glob("llama_cpp_python-*.tar.gz"))
        if not archives:
            checked([self.python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "llama-cpp-python",
                     "--dest", folder, "llama-cpp-python"])
            archives = list(folder.glob("llama_cpp_python-*.tar.gz"))
        with tarfile.open(archives[0]) as archive:
            archive.extractall(folder, filter="data")
        source = folder / archives[0].name.removesuffix(".tar.gz") / "vendor" / "llama.cpp"
        off = ["GGML_AMX_INT8", "GGML_AMX_TILE", "LLAMA_CURL", "LLAMA_OPENSSL", "LLAMA_BUILD_TESTS", "BUILD_SHARED_LIBS",
               "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_SERVER"]
        # Its code for tiles ends with an illegal instruction, and is there wherever the compiler may use them.
        without = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16" if platform.machine() == "x86_64" else ""
        checked(["cmake", "-S", source, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                 "-DGGML_NATIVE=ON", f"-DCMAKE_C_FLAGS={without}", f"-DCMAKE_CXX_FLAGS={without}"] +
                [f"-D{name}=OFF" for name in off])
        checked(["nice", "-n", "19", "cmake", "--build", self.build, "--target", "llama-bench", "llama-quantize"])

    def write(self, kind, scratch):
        """A file of the weights in a type; f32 is there."""
        path = os.path.join(scratch, f"{kind}.gguf")
        if kind != "f32":
            checked([self.quantize, os.path.join(scratch, "f32.gguf"), path, kind])
        return path

    def speeds(self, path, threads, tokens):
        """Tokens/s of reading a prompt, and of drawing tokens behind an empty one."""
        answer = json.loads(checked([self.bench, "-m", path, "-t", threads, "-p", PROMPT, "-n", tokens, "-r", 1,
                                     "-o", "json"]))
        return {"prefill" if test["n_prompt"] else "decode": test["avg_ts"] for test in answer}


# Reads what `Gpt2` or `Llama` describe, and writes a file for each side.
WRITER = """
import sys, json, gguf, numpy
folder, model = sys.argv[1], json.load(sys.stdin)
random = numpy.random.default_rng(1)
out = gguf.GGUFWriter(folder + "/f32.gguf", model["architecture"])
for name, value in model["facts"].items():
    getattr(out, "add_" + name)(value)
out.add_tokenizer_model("no_vocab"); out.add_file_type(0)
header, position = {}, 0
for tensor in model["tensors"]:
    size = 4 * int(numpy.prod(tensor["shape"]))
    header[tensor["name"]] = {"dtype": "F32", "shape": tensor["shape"], "data_offsets": [position, position + size]}
    position += size
text = json.dumps(header).encode()
with open(folder + "/model.safetensors", "wb") as file:
    file.write(len(text).to_bytes(8, "little") + text)
    for tensor in model["tensors"]:
        values = random.standard_normal(tensor["shape"], dtype=numpy.float32) * numpy.float32(0.02)
        values += numpy.float32(tensor["around"])
        file.write(values.tobytes())
        out.add_tensor(tensor["peer"], numpy.ascontiguousarray(values.T) if tensor["transposed"] else values)
out.write_header_to_file(); out.write_kv_data_to_file(); out.write_tensors_to_file(); out.close()
"""


# --- The models ---------------------------------------------------------------


def tensor(name, peer, *shape, around=0, transposed=False):
    return {"name": name, "peer": peer, "shape": shape, "around": around, "transposed": transposed}


class Gpt2:
    """GPT-2 (Radford et al. 2019) of a width, whose products' weights are [in, out]."""

    def __init__(self, width=768, heads=12, layers=12):
        self.source, self.vocabulary, self.context = "models/gpt2.tfm", 50257, 1024
        self.defines = [f"width={width}", f"heads={heads}", f"layers={layers}"]
        self.parameters = layers * 12 * width * width + self.vocabulary * width
        self.width, self.heads, self.layers = width, heads, layers

    def description(self):
        width = self.width
        tensors = [tensor("wte.weight", "token_embd.weight", self.vocabulary, width),
                   tensor("wpe.weight", "position_embd.weight", self.context, width)]
        for i in range(self.layers):
            own, peer = f"h.{i}.", f"blk.{i}."
            for name, its in ("ln_1", "attn_norm"), ("ln_2", "ffn_norm"):
                tensors += [tensor(own + name + ".weight", peer + its + ".weight", width, around=1),
                            tensor(own + name + ".bias", peer + its + ".bias", width)]
            for name, its, read, made in (("attn.c_attn", "attn_qkv", 1, 3), ("attn.c_proj", "attn_output", 1, 1),
                                          ("mlp.c_fc", "ffn_up", 1, 4), ("mlp.c_proj", "ffn_down", 4, 1)):
                tensors += [tensor(own + name + ".weight", peer + its + ".weight", read * width, made * width,
                                   transposed=True),
                            tensor(own + name + ".bias", peer + its + ".bias", made * width)]
        tensors += [tensor("ln_f.weight", "output_norm.weight", width, around=1),
                    tensor("ln_f.bias", "output_norm.bias", width)]
        facts = {"block_count": self.layers, "context_length": self.context, "embedding_length": width,
                 "feed_forward_length": 4 * width, "head_count": self.heads, "layer_norm_eps": 1e-5,
                 "vocab_size": self.vocabulary}
        return {"architecture": "gpt2", "facts": facts, "tensors": tensors}


class Llama:
    """The sizes of TinyLlama (Zhang et al. 2024): 1.1 billion parameters."""

    source, vocabulary, context = "models/llama.tfm", 32000, 2048
    width, hidden, heads, kv_heads, layers = 2048, 5632, 32, 4, 22
    defines = [f"{name}={value}" for name, value in (("vocab", vocabulary), ("context", context), ("width", width),
                                                     ("hidden", hidden), ("heads", heads), ("kv_heads", kv_heads),
                                                     ("layers", layers))]
    keys = width // heads * kv_heads
    parameters = layers * (2 * width * width + 2 * width * keys + 3 * width * hidden) + vocabulary * width

    def description(self):
        width, hidden, keys = self.width, self.hidden, self.keys
        tensors = [tensor("model.embed_tokens.weight", "token_embd.weight", self.vocabulary, width)]
        for i in range(self.layers):
            own, peer = f"model.layers.{i}.", f"blk.{i}."
            for name, its in ("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm"):
                tensors.append(tensor(own + name + ".weight", peer + its + ".weight", width, around=1))
            for name, its, made, read in (
                    ("self_attn.q_proj", "attn_q", width, width), ("self_attn.k_proj", "attn_k", keys, width),
                    ("self_attn.v_proj", "attn_v", keys, width), ("self_attn.o_proj", "attn_output", width, width),
                    ("mlp.gate_proj", "ffn_gate", hidden, width), ("mlp.up_proj", "ffn_up", hidden, width),
                    ("mlp.down_proj", "ffn_down", width, hidden)):
                tensors.append(tensor(own + name + ".weight", peer + its + ".weight", made, read))
        tensors += [tensor("model.norm.weight", "output_norm.weight", width, around=1),
                    tensor("lm_head.weight", "output.weight", self.vocabulary, width)]
        facts = {"block_count": self.layers, "context_length": self.context, "embedding_length": width,
                 "feed_forward_length": hidden, "head_count": self.heads, "head_count_kv": self.kv_heads,
                 "layer_norm_rms_eps": 1e-5, "rope_dimension_count": width // self.heads,
                 "vocab_size": self.vocabulary}
        return {"architecture": "llama", "facts": facts, "tensors": tensors}


MODELS = {"gpt2": Gpt2(), "gpt2-xl": Gpt2(1600, 25, 48), "llama-1.1b": Llama()}


# --- tfm ----------------------------------------------------------------------


class Binary:
    """A model as `tfmc build` makes it for weights in a type."""

    def __init__(self, tfmc, model, kind, threads, scratch):
        self.path = os.path.join(scratch, f"tfm-{kind}")
        defines = model.defines + [f"generate.weights={kind}"]
        checked([tfmc, "build", ROOT / model.source, "-o", self.path] +
                [part for define in defines for part in ("-D", define)])
        self.vocabulary = model.vocabulary
        self.weights = os.path.join(scratch, "model.safetensors")
        self.threads = threads

    def generate(self, prompt, tokens):
        ids = " ".join(str(i * 977 % self.vocabulary) for i in range(prompt))
        return json.loads(checked([self.path, "generate", "--weights", self.weights, "--threads", self.threads, "--json",
                                   "--ids", "--prompt", ids, "--tokens", tokens, "--greedy", "--ignore-eos"]))

    def speeds(self, tokens):
        long, short = self.generate(PROMPT, 1), self.generate(1, tokens + 1)
        return {"prefill": PROMPT / long["first_token_seconds"],
                "decode": (short["tokens"] - 1) / (short["seconds"] - short["first_token_seconds"])}

    def bandwidth(self):
        """Bytes a second that reading as many bytes as the weights are reaches."""
        return json.loads(checked([self.path, "bench", "--json", "--function", "decode", "--threads", self.threads]))["reading_gbs"] * 1e9


# --- The comparison -----------------------------------------------------------


def compare(peer, options, scratch):
    say("writing weights")
    model = MODELS[options.model]
    checked([peer.python, "-c", WRITER, scratch], input=json.dumps(model.description()))
    ours = {kind: Binary(options.tfmc, model, kind, options.threads, scratch) for kind in options.types}
    theirs = {TYPES[kind]: peer.write(TYPES[kind], scratch) for kind in options.types}
    rounds = 2 if options.quick else options.rounds
    measured = {"tfm": {kind: [] for kind in ours}, "llama.cpp": {kind: [] for kind in theirs},
                "reading": {kind: [] for kind in ours}}
    for number in range(rounds):
        # Type by type: memory changes its speed within a minute.
        for kind, binary in ours.items():
            measured["reading"][kind].append(binary.bandwidth())
            measured["tfm"][kind].append(binary.speeds(options.tokens))
            their = TYPES[kind]
            measured["llama.cpp"][their].append(peer.speeds(theirs[their], options.threads, options.tokens))
        say(f"  round {number + 1} of {rounds}: decoding " + ", ".join(
            f"{side} {kind} {speeds[-1]['decode']:.0f}" for side in ("tfm", "llama.cpp")
            for kind, speeds in measured[side].items()) +
            " tokens/s, reading " + ", ".join(f"{speeds[-1] / 1e9:.0f}" for speeds in measured["reading"].values()) + " GB/s")
    return measured


def summary(measured, model, kind):
    """Medians of one type, and of the ratios of each round."""
    result = {}
    own, theirs = measured["tfm"][kind], measured["llama.cpp"][TYPES[kind]]
    for work in ("decode", "prefill"):
        result[work] = {"tfm": statistics.median(speed[work] for speed in own),
                        "llama.cpp": statistics.median(speed[work] for speed in theirs),
                        "ratio": statistics.median(a[work] / b[work] for a, b in zip(own, theirs))}
    result["of_reading"] = statistics.median(
        speed["decode"] * model.parameters * BITS[kind] / 8 / reading
        for speed, reading in zip(own, measured["reading"][kind]))
    return result


def table(rows):
    """Columns as wide as their longest cell; the first is a name."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))))
    print()


def print_results(summaries, measured):
    for work, wanted in ("decode", WANTED_DECODE), ("prefill", {kind: WANTED_PREFILL for kind in TYPES}):
        rows = [[f"{work}, tokens/s", "tfm", "llama.cpp", "ratio", "wanted", "met"]]
        for kind, result in summaries.items():
            own = result[work]
            rows.append([f"{kind} beside {TYPES[kind]}", f"{own['tfm']:.1f}", f"{own['llama.cpp']:.1f}",
                         f"{own['ratio']:.2f}", f"{wanted[kind]:.2f}", "yes" if own["ratio"] >= wanted[kind] else "NO"])
        table(rows)
    rows = [["weights read by decoding", "reading alone", "share", "wanted", "met"]]
    for kind, result in summaries.items():
        share = result["of_reading"]
        rows.append([kind, f"{statistics.median(measured['reading'][kind]) / 1e9:.1f} GB/s", f"{100 * share:.0f}%",
                     f"{100 * WANTED_OF_READING:.0f}%", "yes" if share >= WANTED_OF_READING else "NO"])
    table(rows)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="gpt2", help="with random weights (default: %(default)s)")
    parser.add_argument("--types", default="f32,bf16,int8,int4", help="of weights, with commas (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of measuring each side (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=64, help="that are drawn in a round (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="two rounds: a look, not a measurement")
    parser.add_argument("--threads", type=int, default=2, help="of both sides (default: %(default)s)")
    measuring.add_tfmc(parser)
    parser.add_argument("--peer", type=pathlib.Path, default=ROOT / "build" / "llama.cpp",
                        help="a folder with llama.cpp, made if missing (default: build/llama.cpp)")
    parser.add_argument("--json", action="store_true", help="everything measured, instead of tables")
    options = measuring.parse(parser)
    options.types = options.types.split(",")
    for kind in options.types:
        if kind not in TYPES:
            parser.error(f"there are no weights of type {kind}: choose from {', '.join(TYPES)}")
    return options


def main():
    options = parse()
    peer = Peer(options.peer.absolute())
    memory = "/dev/shm"
    in_memory = os.path.isdir(memory) and shutil.disk_usage(memory).free > 40 * MODELS[options.model].parameters
    with tempfile.TemporaryDirectory(prefix="tfm-compare-", dir=memory if in_memory else None) as scratch:
        measured = compare(peer, options, scratch)
    summaries = {kind: summary(measured, MODELS[options.model], kind) for kind in options.types}
    if options.json:
        print(json.dumps({"format": 1, "model": options.model, "threads": options.threads, "prompt": PROMPT, "tokens": options.tokens,
                          "measured": measured, "medians": summaries}, indent=1))
    else:
        print_results(summaries, measured)


if __name__ == "__main__":
    main()
