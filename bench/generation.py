#!/usr/bin/env python3
"""How generation of a quantised GPT-2 goes: many texts at once, looking ahead,
the first token, and memory.

GPT-2 124M with random weights in 8 bits, and so are its caches. In turns
(A B C ... A B C ...):

- texts together: prompts of 16 tokens, 48 tokens each, as many at once as
  `generate.batch` says and four times as many in all, since memory that is
  touched for the first time takes its time; tokens/s of all beside those of as
  many texts of a build that takes one at once;
- looking ahead (`--lookahead`): a text whose greedy tokens repeat themselves,
  and one that is drawn from all tokens, with and without;
- the first token after the start of the process, whose file is in the cache;
- resident memory beside what `info` says of the model.

What counts is the median of the rounds, and of the ratios of each round.

  bench/generation.py [--texts 1,8,32] [--cache int8] [--rounds 5] [--json]
"""

import argparse
import json
import os
import pathlib
import random
import re
import statistics
import struct
import subprocess
import tempfile
import time

import measuring
from measuring import ROOT, completed, say

VOCABULARY, CONTEXT, WIDTH, LAYERS = 50257, 1024, 768, 12
PROMPT, TOKENS, WAVES, AHEAD_TOKENS, AHEAD = 16, 48, 4, 256, 7
WANTED = {8: 5.0, 32: 8.0}
WANTED_AHEAD = {"repeats itself": 2.0, "does not": 0.95}
WANTED_FIRST_MS, WANTED_MIB = 60, 64


def write_weights(path):
    """Random integers in the layout of `export --dtype int8`: [outputs, terms],
    with a scale for each output."""
    numbers = random.Random(1)
    tensors = []
    transposed = []

    def quantised(name, outputs, terms):
        # None is -128.
        tensors.append((name, "I8", [outputs, terms], numbers.randbytes(outputs * terms).replace(b"\x80", b"\0")))
        tensors.append((name + ".scale", "F32", [outputs], struct.pack("f", 0.035 / 127) * outputs))

    def plain(name, value):
        count = {"c_attn": 3, "c_fc": 4}.get(name.split(".")[-2], 1) * WIDTH
        tensors.append((name, "F32", [count], struct.pack("f", value) * count))

    def norm(name):
        plain(name + ".weight", 1.0)
        plain(name + ".bias", 0.0)

    quantised("wte.weight", VOCABULARY, WIDTH)
    quantised("wpe.weight", CONTEXT, WIDTH)
    for layer in range(LAYERS):
        norm(f"h.{layer}.ln_1")
        norm(f"h.{layer}.ln_2")
        for name, read, made in (("attn.c_attn", 1, 3), ("attn.c_proj", 1, 1), ("mlp.c_fc", 1, 4), ("mlp.c_proj", 4, 1)):
            quantised(f"h.{layer}.{name}.weight", made * WIDTH, read * WIDTH)
            transposed.append(f"h.{layer}.{name}.weight")
            plain(f"h.{layer}.{name}.bias", 0.0)
    norm("ln_f")
    header, position = {"__metadata__": {"tfm.transposed": json.dumps(transposed)}}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, position + len(data)]}
        position += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, _, _, data in tensors:
            file.write(data)


class Binary:
    """GPT-2 in 8 bits for so many texts at once."""

    def __init__(self, options, texts, scratch):
        self.path = os.path.join(scratch, f"gpt2-{texts}")
        completed([options.tfmc, "build", ROOT / "models" / "gpt2.tfm", "-D", "generate.weights=int8", "-D",
                 f"generate.cache={options.cache}", "-D", f"generate.batch={texts}", "-o", self.path])
        self.weights = os.path.join(scratch, "model.safetensors")
        self.prompts = os.path.join(scratch, f"prompts-{texts}")
        with open(self.prompts, "w", encoding="utf-8") as file:
            for text in range(WAVES * texts):
                file.write(" ".join(str((i * 977 + text * 131) % VOCABULARY) for i in range(PROMPT)) + "\n")
        self.threads = options.threads

    def command(self, *arguments):
        return [self.path, "generate", "--weights", self.weights, "--ids", "--ignore-eos", "--threads", self.threads,
                "--json", *arguments]

    def texts(self):
        """Tokens/s of all prompts, from the first token read to the last one drawn."""
        done = completed(self.command("--prompts", self.prompts, "--tokens", TOKENS, "--greedy"))
        texts = [json.loads(line) for line in done.stdout.splitlines()]
        time, unit = re.search(r"tokens in ([0-9.]+) (m?s)", done.stderr).groups()
        seconds = float(time) * (1e-3 if unit == "ms" else 1)
        return sum(text["tokens"] for text in texts) / seconds

    def ahead(self, *arguments):
        """Tokens/s of a text behind its first token."""
        answer = json.loads(completed(self.command("--prompt", "464 2068 7586", "--tokens", AHEAD_TOKENS, *arguments)).stdout)
        return (answer["tokens"] - 1) / (answer["seconds"] - answer["first_token_seconds"])

    def first_token(self):
        """Milliseconds from the start of the process to its end, with one token."""
        began = time.perf_counter()
        completed(self.command("--prompt", "464", "--tokens", 1, "--greedy"))
        return 1e3 * (time.perf_counter() - began)

    def resident(self):
        """MiB that the process has at most, and those of the arena that `info` says."""
        process = subprocess.Popen([str(part) for part in self.command("--prompt", "464", "--tokens", CONTEXT - 1, "--greedy")],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        info = json.loads(completed([self.path, "info", "--json"]).stdout)
        return usage.ru_maxrss / 1024, info["memory"]["arena"] / 2**20


def measure(options, scratch):
    say("writing weights, building")
    write_weights(os.path.join(scratch, "model.safetensors"))
    binaries = {texts: Binary(options, texts, scratch) for texts in options.texts}
    one = binaries.get(1) or Binary(options, 1, scratch)
    one.texts()
    kinds = {"repeats itself": ["--greedy"], "does not": ["--temperature", "1", "--top-k", "0"]}
    measured = {"texts": {texts: [] for texts in binaries}, "first_ms": [],
                "ahead": {name: {"with": [], "without": []} for name in kinds}}
    for number in range(options.rounds):
        for texts, binary in binaries.items():
            measured["texts"][texts].append(binary.texts())
        for name, arguments in kinds.items():
            measured["ahead"][name]["without"].append(one.ahead(*arguments))
            measured["ahead"][name]["with"].append(one.ahead(*arguments, "--lookahead", AHEAD))
        measured["first_ms"].append(one.first_token())
        say(f"  round {number + 1} of {options.rounds}: " + ", ".join(
            f"{texts} texts {speeds[-1]:.0f}" for texts, speeds in measured["texts"].items()) + " tokens/s")
    measured["resident_mib"], measured["arena_mib"] = one.resident()
    return measured


def ratio(own, base):
    return statistics.median(a / b for a, b in zip(own, base))


def print_results(measured):
    base = measured["texts"].get(1)
    for texts, speeds in measured["texts"].items():
        line = f"{texts:3} texts at once: {statistics.median(speeds):8.0f} tokens/s"
        if base and texts > 1:
            line += f", {ratio(speeds, base):.2f} times one" + (
                f" (wanted {WANTED[texts]:.2f})" if texts in WANTED else "")
        print(line)
    for name, speeds in measured["ahead"].items():
        print(f"looking {AHEAD} ahead where a text {name}: {ratio(speeds['with'], speeds['without']):.2f} times "
              f"{statistics.median(speeds['without']):.0f} tokens/s (wanted {WANTED_AHEAD[name]:.2f})")
    print(f"first token: {statistics.median(measured['first_ms']):.0f} ms after the start (wanted {WANTED_FIRST_MS})")
    print(f"memory: {measured['resident_mib']:.0f} MiB resident, {measured['arena_mib']:.0f} of them the arena "
          f"(wanted at most {WANTED_MIB} more)")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", default="1,8,32", help="how many at once, with commas (default: %(default)s)")
    parser.add_argument("--cache", choices=("f32", "bf16", "int8"), default="int8",
                        help="what caches are stored in (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    measuring.add_tfmc(parser)
    parser.add_argument("--json", action="store_true", help="everything measured, instead of sentences")
    options = measuring.parse(parser)
    options.texts = [int(texts) for texts in options.texts.split(",")]
    return options


def main():
    options = parse()
    with tempfile.TemporaryDirectory(prefix="tfm-generation-") as scratch:
        measured = measure(options, scratch)
    if options.json:
        print(json.dumps({"format": 1, "threads": options.threads, "measured": measured}, indent=1))
    else:
        print_results(measured)


if __name__ == "__main__":
    main()
