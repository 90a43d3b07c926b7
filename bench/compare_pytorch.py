#!/usr/bin/env python3
"""Trains the shipped models with tfm and with PyTorch, side by side.

For each model: builds it with `tfmc build`, in f32 and in bf16, then measures in
turns (A B C A B C ...) whole training steps (data, forward, backward, clipping,
AdamW) of the binaries, of eager PyTorch and of torch.compile, both also under
autocast to bf16: the same architecture, dropout, clipping, optimizer (fused
AdamW), batch and number of threads. What counts is the median of the rounds, and
the median of the ratios of each round: of our faster precision to the fastest of
PyTorch's four, and of f32 to the faster of its two. The first steps are left out
on both sides (memory is touched for the first time, torch.compile compiles).

Before that, both train from the same weights on the same batches, beside
PyTorch in f64: the losses of a binary must be as close to those in f64 as
PyTorch's own in the same precision are (times four, since two errors of rounding
are two draws of chance). They are not: exit status 1. Dropout is off for this,
as its random numbers differ.

Also: peak memory of the training processes, time of `tfmc build`, size and
start-up time of the binary.

`--parts` adds what training is made of: `kernels` holds the products and the
attention of a training step, as the binary's own `bench` times them, beside
PyTorch's of the same sizes; `decoding` the binary's share of the memory's
bandwidth, and its tokens a second beside a compiled PyTorch that keeps keys and
values.

With `--device cuda` both sides run on the GPU: binaries are built with
`--target cuda`, and of memory what is allocated there counts. With `--device
avx2` both are told to do as on a processor that has no more than AVX2. `--results FILE`
keeps what has been measured, and measures only what is missing.

PyTorch is installed into a virtual environment where `--venv` has none: from
PyTorch's index of CPU wheels, else from PyPI (which is large).

  bench/compare_pytorch.py [--models addition,lab,shakespeare,gpt2] [--quick] [--json]
  bench/compare_pytorch.py --device cuda --parts training,kernels,decoding --results gpu.json
"""

import argparse
import functools
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

import measuring
from measuring import ROOT, checked, fail, say

BENCH = ROOT / "bench"


@functools.cache
def has_tiles():
    """Whether this machine multiplies bf16 on tiles (AMX)."""
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    return cpuinfo.exists() and " amx_bf16" in cpuinfo.read_text()


class Comparison:
    """One model as both sides train it."""

    def __init__(self, file, tied, wanted_speed, wanted_on_tiles=None, wanted_f32=None, wanted_memory=None,
                 wanted_build=None, defines=(), data=None, steps=0, curve=50):
        self.file = ROOT / file
        self.tied = tied  # whether the head is the token embedding
        # Of the fastest PyTorch's.
        self.wanted_speed = wanted_on_tiles if wanted_on_tiles and has_tiles() else wanted_speed
        self.wanted_f32 = wanted_f32  # of the faster PyTorch's in f32
        self.wanted_memory = wanted_memory  # of the smaller PyTorch's
        self.wanted_build = wanted_build  # seconds
        self.defines = list(defines)
        self.data = data  # None: generated; "random": made here; "own": what the binary shows of its own; or a file
        self.steps = steps  # of a round
        self.curve = curve  # steps of the comparison of losses


SHAKESPEARE = ROOT / "models" / "tinyshakespeare.txt"


def gpt2(defines, steps=8, curve=10, wanted_speed=1.5, wanted_on_tiles=4.0):
    return Comparison("bench/gpt2_train.tfm", tied=True, wanted_speed=wanted_speed, wanted_on_tiles=wanted_on_tiles,
                      wanted_f32=wanted_speed, wanted_memory=0.85, wanted_build=2.0, defines=defines,
                      data="random", steps=steps, curve=curve)


MODELS = {
    "addition": Comparison("models/addition.tfm", tied=False, wanted_speed=4.0, wanted_build=1.0, steps=1000),
    "shakespeare": Comparison("models/shakespeare.tfm", tied=True, wanted_speed=1.6, wanted_on_tiles=2.0,
                              wanted_f32=1.5, steps=150, data=SHAKESPEARE),
    "shakespeare-large": Comparison("models/shakespeare.tfm", tied=True, wanted_speed=1.8, wanted_on_tiles=2.5,
                                    steps=2, curve=2,
                                    defines=["layers=6", "heads=6", "width=384", "context=256", "drop=0.2",
                                             "train.sequence=256", "train.batch=64"], data=SHAKESPEARE),
    # The first of docs/references.md: 240 texts are seven batches and a half.
    "lab": Comparison("models/lab_train.tfm", tied=False, wanted_speed=8.0, defines=["train.sample=none"], data="own",
                      steps=60, curve=7),
    # nanoGPT trains GPT-2 without dropout; beside it, with the 0.1 of the file.
    "gpt2": gpt2(["drop=0.0"]),
    "gpt2-2x256": gpt2(["drop=0.0", "train.batch=2", "train.sequence=256"], steps=4, curve=5),
    "gpt2-1x1024": gpt2(["drop=0.0", "train.batch=1", "train.sequence=1024"], steps=2, curve=4),
    "gpt2-dropout": gpt2([]),
    # For GPUs, in batches that fill them.
    "gpt2-8x1024": gpt2(["drop=0.0", "train.batch=8", "train.sequence=1024"], steps=20, curve=4, wanted_speed=1.0,
                        wanted_on_tiles=None),
    "gpt2-32x1024": gpt2(["drop=0.0", "train.batch=32", "train.sequence=1024"], steps=10, curve=2, wanted_speed=1.0,
                         wanted_on_tiles=None),
}
# What decodes one text.
DECODERS = {
    "gpt2": Comparison("models/gpt2.tfm", tied=True, wanted_speed=1.0),
    "gpt2-xl": Comparison("models/gpt2.tfm", tied=True, wanted_speed=1.0,
                          defines=["width=1600", "heads=25", "layers=48"]),
}
WANTED_OF_BANDWIDTH = 0.6
# Models that are measured where no others are asked for.
ON_CPUS = "addition,lab,shakespeare,gpt2,gpt2-2x256,gpt2-1x1024"
DEFAULT_MODELS = {"cpu": ON_CPUS, "avx2": ON_CPUS, "cuda": "gpt2-8x1024,gpt2-32x1024"}
PRECISIONS = {"f32": "", "bf16": " bf16"}
WANTED_BINARY_BYTES = 5e6
WANTED_START_SECONDS = 0.010
# Of the binary's error to PyTorch's, both against f64: see above.
ERRORS_ALIKE = 4
# A loss is written as an f32, whose half unit is this share of it.
F32_ROUNDING = 2.0 ** -24


# --- PyTorch ------------------------------------------------------------------


def pytorch_python(folder):
    """The Python of a virtual environment that has PyTorch, made where needed."""
    python = folder / "bin" / "python"
    works = [str(python), "-c", "import torch, numpy"]
    if python.exists() and subprocess.run(works, capture_output=True, check=False).returncode == 0:
        return python
    say(f"installing PyTorch into {folder} ...")
    if not python.exists():
        checked([sys.executable, "-m", "venv", folder])
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    from_cpu_wheels = pip + ["torch>=2", "--index-url", "https://download.pytorch.org/whl/cpu", "--retries", "1",
                             "--timeout", "15"]
    if subprocess.run(from_cpu_wheels, capture_output=True, check=False).returncode != 0:
        say("PyTorch's own index does not answer: taking PyPI's wheel, a few GB with its libraries")
        checked(pip + ["torch>=2"])
    checked(pip + ["numpy", "setuptools"])
    checked(works)
    return python


class Peer:
    """A process of bench/pytorch_peer.py, or of another file that answers alike."""

    def __init__(self, python, comparison, info, data, threads, scratch, compiled=False, dtype="float32",
                 autocast=False, device="cpu", file="pytorch_peer.py", variables=()):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), **dict(variables))
        if device == "avx2":
            environment.update(AVX2_ALONE)
        # Its own cache, so that the time of the first step is that of compiling.
        environment["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(dir=scratch)
        self.log = open(os.path.join(scratch, "pytorch.log"), "a", encoding="utf-8")
        self.process = subprocess.Popen([str(python), str(BENCH / file)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        self.tell(do="open", info=info, tied=comparison.tied, data=data and str(data), threads=threads,
                  compile=compiled, dtype=dtype, autocast=autocast, device="cuda" if device == "cuda" else "cpu")
        self.opened = None

    def tell(self, **request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # who waits for the answer learns why

    def hear(self):
        answer = self.process.stdout.readline()
        if not answer:
            self.process.wait()
            with open(self.log.name, encoding="utf-8") as log:
                fail(f"PyTorch's process ended with {self.process.returncode}:\n{log.read()[-3000:]}")
        return json.loads(answer)

    def ask(self, **request):
        """The answer to a request, once the model is there."""
        self.opened = self.opened or self.hear()
        self.tell(**request)
        return self.hear()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.log.close()


# --- tfm ----------------------------------------------------------------------


class HighWater(threading.Thread):
    """Looks at a process's peak of resident memory until it ends."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.status, self.bytes, self.ended = f"/proc/{pid}/status", 0, threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(0.005):
            try:
                with open(self.status, encoding="ascii") as file:
                    for line in file:
                        if line.startswith("VmHWM"):
                            self.bytes = int(line.split()[1]) * 1024
            except (FileNotFoundError, ProcessLookupError):
                return


def target_of(device):
    """Options of `tfmc build`."""
    return {"cpu": [], "avx2": ["--cpu", "x86-64-v3"], "cuda": ["--target", "cuda"]}[device]


# What keeps PyTorch and its libraries from using more than AVX2.
AVX2_ALONE = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


class Binary:
    """A model that `tfmc build` wrote."""

    def __init__(self, tfmc, comparison, defines, data, threads, scratch, device="cpu"):
        self.path = os.path.join(tempfile.mkdtemp(dir=scratch), "model")
        checked([tfmc, "build", comparison.file, "-o", self.path] + target_of(device) +
                [part for define in defines for part in ("-D", define)])
        self.on_gpu = device == "cuda"
        self.place = ["--device", "cuda"] if self.on_gpu else ["--threads", threads]
        self.info = json.loads(checked([self.path, "info", "--json"] + (self.place if self.on_gpu else [])))
        self.data = ["--data", data] if data and comparison.data != "own" else []
        self.scratch = scratch
        train = self.info["recipe"].get("train")
        self.tokens_per_step = train["batch"] * train["sequence"] * train["accumulate"] if train else None

    def train(self, steps, *options):
        """A run whose checkpoint is thrown away; its --json and its log."""
        out = tempfile.mkdtemp(dir=self.scratch)
        answer = json.loads(checked([self.path, "train", "--json", "--steps", steps, "--out", out] + self.place +
                                    self.data + list(options)))
        with open(os.path.join(out, "log.jsonl"), encoding="utf-8") as log:
            lines = [json.loads(line) for line in log]
        shutil.rmtree(out)
        return answer, lines

    def step_seconds(self, steps):
        """Of one of some steps in a run as users have it; its first does not count."""
        run = self.train(steps + 1)[0]
        return (run["seconds"] - run["first_step_seconds"]) / steps

    def losses(self, steps, weights):
        lines = self.train(steps, "--init", weights)[1]
        return [line["loss"] for line in lines if "loss" in line]

    def peak_memory(self, steps):
        """Bytes of a process that trains and saves; on a GPU of the arena there, which is all that it allocates."""
        if self.on_gpu:
            return self.info["memory"]["arena"]
        out = tempfile.mkdtemp(dir=self.scratch)
        command = [self.path, "train", "--json", "--steps", steps, "--out", out] + self.place + self.data
        with subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL) as process:
            mark = HighWater(process.pid)
            process.wait()
            mark.ended.set()
            mark.join()
        shutil.rmtree(out)
        return mark.bytes

    def bench(self):
        """What the binary's own `bench` says."""
        return json.loads(checked([self.path, "bench", "--json"] + self.place))

    def bench_seconds(self):
        """Of a step by it: train and update."""
        functions = self.bench()["functions"]
        return (functions["train"]["milliseconds"] + functions["update"]["milliseconds"]) / 1e3


def timed(command):
    start = time.perf_counter()
    checked(command)
    return time.perf_counter() - start


def measure_build(tfmc, comparison, scratch, device):
    """Seconds of `tfmc build` with all that training needs, bytes, seconds to start."""
    out = os.path.join(scratch, "built")
    build = statistics.median(timed([tfmc, "build", comparison.file, "-o", out] + target_of(device)) for _ in range(3))
    start = statistics.median(timed([out, "info"]) for _ in range(20))
    size = os.path.getsize(out)
    os.remove(out)
    return {"build_seconds": build, "binary_bytes": size, "start_seconds": start}


# --- The comparison -----------------------------------------------------------


def compare_losses(python, tfmc, comparison, options, data, scratch):
    """The losses of the same steps on both sides in each precision, and in f64."""
    steps = comparison.curve // 2 if options.quick else comparison.curve
    fixed = [define for define in comparison.defines if not define.startswith("drop=")] + ["train.shuffle=false"]
    shared = Binary(tfmc, comparison, fixed, data, options.threads, scratch, options.device)
    for name in ("drop", "dropout_rate"):
        if shared.info["hyperparameters"].get(name):
            fixed.append(f"{name}=0.0")
            shared = Binary(tfmc, comparison, fixed, data, options.threads, scratch, options.device)
    weights = os.path.join(scratch, "initial.safetensors")

    def of_pytorch(dtype, keep_weights=False, autocast=False):
        peer = Peer(python, comparison, shared.info, data, options.threads, scratch, dtype=dtype, autocast=autocast,
                    device=options.device)
        if keep_weights:
            peer.ask(do="initial", path=weights)
        losses = peer.ask(do="losses", steps=steps)
        peer.close()
        return losses

    theirs = {"f32": of_pytorch("float32", keep_weights=True), "bf16": of_pytorch("float32", autocast=True)}
    exact = of_pytorch("float64")

    def error(losses):
        return max(abs(loss - right) for loss, right in zip(losses, exact))

    result = {"steps": steps, "first": exact[0], "last": exact[-1]}
    for precision, pytorch in theirs.items():
        binary = Binary(tfmc, comparison, fixed + [f"train.precision={precision}"], data, options.threads, scratch,
                        options.device)
        ours = binary.losses(steps, weights)
        if len(ours) != steps:
            fail(f"the log of {comparison.file.name} has {len(ours)} losses, not {steps}")
        allowed = ERRORS_ALIKE * error(pytorch) + F32_ROUNDING * max(exact)
        result[precision] = {"error": error(ours), "pytorch_error": error(pytorch),
                             "difference": max(abs(a - b) for a, b in zip(ours, pytorch)), "allowed": allowed,
                             "agree": error(ours) <= allowed,
                             "losses": {"tfm": ours, "pytorch": pytorch, "f64": exact}}
    os.remove(weights)
    return result


def compare_speed(python, tfmc, comparison, options, data, scratch):
    """Rounds of whole training steps, in turns."""
    binaries = {f"tfm{suffix}": Binary(tfmc, comparison, comparison.defines + [f"train.precision={precision}"],
                                       data, options.threads, scratch, options.device)
                for precision, suffix in PRECISIONS.items()}
    binary = binaries["tfm"]
    rounds = 2 if options.quick else options.rounds
    steps = max(2, comparison.steps // 4) if options.quick else comparison.steps
    warm = max(2, steps // 20)
    peers, first = {}, {}
    for precision, suffix in PRECISIONS.items():
        for mode in ("eager", "compiled"):
            name = mode + suffix
            peers[name] = Peer(python, comparison, binary.info, data, options.threads, scratch, mode == "compiled",
                               autocast=precision == "bf16", device=options.device)
            first[name] = peers[name].ask(do="time", steps=1)[0]
            peers[name].ask(do="time", steps=warm)
    seconds = {name: [] for name in (*binaries, *peers)}
    for number in range(rounds):
        latest = {}
        for name, own in binaries.items():
            seconds[name].append(own.step_seconds(steps))
            latest[name] = seconds[name][-1]
        for name, peer in peers.items():
            seconds[name].append(sum(peer.ask(do="time", steps=steps)) / steps)
            latest[name] = seconds[name][-1]
        say(f"  round {number + 1} of {rounds}: " + ", ".join(
            f"{side} {binary.tokens_per_step / time:,.0f}" for side, time in latest.items()) + " tokens/s")

    def fastest(names):
        return min(names, key=lambda name: statistics.median(seconds[name]))

    def ratios(ours, theirs):
        return [b / a for a, b in zip(seconds[ours], seconds[theirs])]

    own, theirs, f32 = fastest(binaries), fastest(peers), fastest(["eager", "compiled"])
    result = {
        "batch": binary.info["recipe"]["train"]["batch"],
        "sequence": binary.info["recipe"]["train"]["sequence"],
        "steps_of_a_round": steps, "rounds": rounds, "pytorch": peers["eager"].opened["torch"],
        "tokens_per_second": {side: binary.tokens_per_step / statistics.median(times)
                              for side, times in seconds.items()},
        "bench_tokens_per_second": {name: own.tokens_per_step / own.bench_seconds()
                                    for name, own in binaries.items()},
        "faster": own, "fastest_pytorch": theirs,
        "ratio": statistics.median(ratios(own, theirs)), "ratios": ratios(own, theirs),
        "ratio_f32": statistics.median(ratios("tfm", f32)), "ratios_f32": ratios("tfm", f32),
        "ratio_bf16_to_f32": statistics.median(ratios("tfm bf16", "tfm")),
        "first_step_seconds": first,
        "memory": {mode: peer.ask(do="memory") for mode, peer in peers.items()},
        "memory_of_import": peers["eager"].opened["imported"],
    }
    for peer in peers.values():
        peer.close()
    for name, own in binaries.items():
        result["memory"][name] = own.peak_memory(warm + 2)
    result["memory_ratios"] = {
        precision: result["memory"][f"tfm{suffix}"] /
                   min(result["memory"][f"eager{suffix}"], result["memory"][f"compiled{suffix}"])
        for precision, suffix in PRECISIONS.items()}
    return result


def compare_kernels(python, tfmc, comparison, options, data, scratch):
    """The products and the attention of a training step in bf16, one by one, beside PyTorch's."""
    binary = Binary(tfmc, comparison, comparison.defines + ["train.precision=bf16"], data, options.threads, scratch,
                    options.device)
    bench = binary.bench()
    peer = Peer(python, comparison, binary.info, data, options.threads, scratch, device=options.device)
    runs = 3 if options.quick else 20
    rows = []
    for kernel in bench["functions"]["train"]["kernels"]:
        row = {"name": kernel["name"], "runs": kernel["runs"], "seconds": kernel["milliseconds"] / 1e3 / kernel["runs"],
               "of": kernel["of"], "share": kernel["share"]}
        sizes = re.match(r"matmul (\d+)x(\d+)x(\d+)(?: |$)", kernel["name"])
        if sizes:
            row["pytorch_seconds"] = peer.ask(do="product", sizes=[int(size) for size in sizes.groups()], runs=runs)
        elif kernel["name"].split()[0] in ("attention", "attention_backward"):
            row["pytorch_seconds"] = peer.ask(do=kernel["name"].split()[0], runs=runs)
        rows.append(row)
    peer.close()
    return {"kernels": rows, **{name: bench[name] for name in ("device", "peaks_gflops", "memory_gbs")}}


def compare_decoding(python, tfmc, comparison, options, scratch):
    """One text's tokens a second, and the share of bandwidth that the binary reads with."""
    defines = comparison.defines + ["generate.weights=bf16", "drop=0.0"]
    binary = Binary(tfmc, comparison, defines, None, options.threads, scratch, options.device)
    bench = binary.bench()
    decode = bench["functions"]["decode"]
    peer = Peer(python, comparison, binary.info, None, options.threads, scratch, device=options.device,
                compiled=True, dtype="bfloat16")
    seconds = peer.ask(do="decode", steps=4 if options.quick else 64)
    peer.close()
    bytes_read = binary.info["memory"]["parameters"]
    return {"tokens_per_second": 1e3 / decode["milliseconds"], "pytorch_tokens_per_second": 1 / seconds,
            "ratio": seconds * 1e3 / decode["milliseconds"],
            "share": bytes_read / decode["milliseconds"] / 1e6 / bench["memory_gbs"]}


def make_random_tokens(scratch):
    """Token ids of GPT-2's vocabulary for `data tokens`, the same every time."""
    state, ids = 1, bytearray()
    for _ in range(200_000):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        ids += ((state >> 33) % 50257).to_bytes(2, "little")
    path = os.path.join(scratch, "tokens.bin")
    with open(path, "wb") as file:
        file.write(ids)
    return path


def shown_by_binary(tfmc, comparison, scratch):
    """The rows of a model's own data, in a file."""
    binary = Binary(tfmc, comparison, comparison.defines + ["train.shuffle=false"], None, 1, scratch)
    path = os.path.join(scratch, "rows.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(checked([binary.path, "data", "--json", "--count", 1_000_000]))
    return path


# --- What is printed ----------------------------------------------------------


def table(rows):
    """Columns as wide as their longest cell; the first is a name."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))))
    print()


def against(value, wanted, is_met):
    """How a number is shown beside the one that is wanted."""
    if wanted is None:
        return ["-", ""]
    return [wanted, "yes" if is_met(value) else "NO"]


def megabytes(count):
    return f"{count / 1e6:,.0f}"


def print_kernels(name, result):
    print(f"{name}: kernels above 1% of a training step in bf16")
    rows = [["kernel", "runs", "ms", "reaches", "PyTorch, ms", "PyTorch to ours"]]
    whole = sum(kernel["seconds"] * kernel["runs"] for kernel in result["kernels"])
    for kernel in result["kernels"]:
        if kernel["seconds"] * kernel["runs"] < whole / 100:
            continue
        theirs = kernel.get("pytorch_seconds")
        rows.append([textwrap.shorten(kernel["name"], 60, placeholder=" ..."), str(kernel["runs"]),
                     f"{kernel['seconds'] * 1e3:.3f}", f"{kernel['share']:.0%} of {kernel['of']}",
                     f"{theirs * 1e3:.3f}" if theirs else "-", f"{theirs / kernel['seconds']:.2f}" if theirs else "-"])
    table(rows)


def print_decoding(results):
    rows = [["decoding one text, bf16", "tfm", "compiled", "ratio", "wanted", "met", "of bandwidth", "wanted", "met"]]
    for name, result in results.items():
        rows.append([name, f"{result['tokens_per_second']:.1f}", f"{result['pytorch_tokens_per_second']:.1f}",
                     f"{result['ratio']:.2f}"] +
                    against(result["ratio"], f"{DECODERS[name].wanted_speed:.1f}",
                            lambda ratio, least=DECODERS[name].wanted_speed: ratio >= least) +
                    [f"{result['share']:.0%}"] +
                    against(result["share"], f"{WANTED_OF_BANDWIDTH:.0%}", lambda share: share >= WANTED_OF_BANDWIDTH))
    table(rows)


def print_results(results):
    sides = [mode + suffix for mode in ("tfm", "eager", "compiled") for suffix in PRECISIONS.values()]
    rows = [["tokens/s of training", *sides, "best to best", "wanted", "met", "f32 to f32", "wanted", "met",
             "bf16 to our f32"]]
    for name, result in results.items():
        speed, comparison = result["speed"], MODELS[name]
        rows.append([f"{name} ({speed['batch']} x {speed['sequence']})"] +
                    [f"{speed['tokens_per_second'][side]:,.0f}" for side in sides] + [f"{speed['ratio']:.2f}"] +
                    against(speed["ratio"], f"{comparison.wanted_speed:.1f}",
                            lambda ratio, least=comparison.wanted_speed: ratio >= least) +
                    [f"{speed['ratio_f32']:.2f}"] +
                    against(speed["ratio_f32"], comparison.wanted_f32 and f"{comparison.wanted_f32:.1f}",
                            lambda ratio, least=comparison.wanted_f32: ratio >= least) +
                    [f"{speed['ratio_bf16_to_f32']:.2f}"])
    table(rows)
    rows = [["peak memory, MB", *sides, "import torch", "f32", "bf16", "wanted", "met"]]
    for name, result in results.items():
        speed, most = result["speed"], MODELS[name].wanted_memory
        ratios = speed["memory_ratios"]
        rows.append([name] + [megabytes(speed["memory"][side]) for side in sides] +
                    [megabytes(speed["memory_of_import"]), f"{ratios['f32']:.2f}", f"{ratios['bf16']:.2f}"] +
                    against(max(ratios.values()), most and f"{most:.2f}", lambda ratio, most=most: ratio <= most))
    table(rows)
    rows = [["loss of the same steps", "steps", "first", "last", "tfm - f64", "PyTorch - f64", "allowed", "agree"]]
    for name, result in results.items():
        for precision in PRECISIONS:
            loss, own = result["loss"], result["loss"][precision]
            rows.append([f"{name} {precision}", str(loss["steps"]), f"{loss['first']:.4f}", f"{loss['last']:.4f}",
                         f"{own['error']:.1e}", f"{own['pytorch_error']:.1e}", f"{own['allowed']:.1e}",
                         "yes" if own["agree"] else "NO"])
    table(rows)
    rows = [["tfmc build", "seconds", "wanted", "met", "binary, MB", "met", "start, ms", "met"]]
    for name, result in results.items():
        build, most = result["build"], MODELS[name].wanted_build
        rows.append([name, f"{build['build_seconds']:.2f}"] +
                    against(build["build_seconds"], most and f"{most:.0f}",
                            lambda seconds, most=most: seconds <= most) +
                    [f"{build['binary_bytes'] / 1e6:.1f}",
                     "yes" if build["binary_bytes"] <= WANTED_BINARY_BYTES else "NO",
                     f"{build['start_seconds'] * 1e3:.1f}",
                     "yes" if build["start_seconds"] <= WANTED_START_SECONDS else "NO"])
    table(rows)


class Results:
    """What has been measured, by part and model, kept in a file where one is named."""

    def __init__(self, path, settings):
        self.path, self.all = path, {"format": 1, **settings}
        if path and path.exists():
            with open(path, encoding="utf-8") as file:
                self.all = json.load(file)
            other = [name for name, value in settings.items() if self.all.get(name) != value]
            if other:
                fail(f"{path} was measured with another {other[0]}: name another file")

    def measure(self, part, name, how):
        """Calls `how` where there is no result yet."""
        measured = self.all.setdefault(part, {})
        if name not in measured:
            measured[name] = how()
            if self.path:
                unfinished = self.path.with_suffix(".part")
                unfinished.write_text(json.dumps(self.all, indent=1), encoding="utf-8")
                unfinished.replace(self.path)
        return measured[name]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="which, with commas (default: "
                        f"{DEFAULT_MODELS['cpu']}; with --device cuda: {DEFAULT_MODELS['cuda']})")
    parser.add_argument("--decoders", default=",".join(DECODERS),
                        help="which models decode in the part `decoding` (default: %(default)s)")
    parser.add_argument("--parts", default="training", help="of training, kernels, decoding (default: %(default)s)")
    parser.add_argument("--device", choices=("cpu", "avx2", "cuda"), default="cpu", help="of both sides (default: %(default)s)")
    parser.add_argument("--results", type=pathlib.Path, help="a file that keeps what has been measured")
    parser.add_argument("--rounds", type=int, default=5, help="of measuring each side (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="two short rounds: a look, not a measurement")
    parser.add_argument("--threads", type=int, default=2, help="of both sides (default: %(default)s)")
    measuring.add_tfmc(parser)
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "build" / "pytorch",
                        help="a virtual environment with PyTorch, made if missing (default: build/pytorch)")
    parser.add_argument("--json", action="store_true", help="everything measured, instead of tables")
    options = measuring.parse(parser)
    options.models = (options.models or DEFAULT_MODELS[options.device]).split(",")
    options.decoders, options.parts = options.decoders.split(","), options.parts.split(",")
    for kind, names, known in (("model", options.models, MODELS), ("decoder", options.decoders, DECODERS),
                               ("part", options.parts, ("training", "kernels", "decoding"))):
        for name in names:
            if name not in known:
                parser.error(f"there is no {kind} {name}: choose from {', '.join(known)}")
    return options


def main():
    options = parse()
    python = pytorch_python(options.venv.absolute())
    if options.device == "cuda" and subprocess.run(
            [str(python), "-c", "import torch; assert torch.cuda.is_available()"], capture_output=True,
            check=False).returncode != 0:
        fail(f"the PyTorch in {options.venv} sees no GPU")
    # Checkpoints of runs that are thrown away stay off the disk where they can.
    memory = "/dev/shm"
    in_memory = os.path.isdir(memory) and shutil.disk_usage(memory).free > 6e9
    results = Results(options.results, {"device": options.device, "threads": options.threads,
                                        "rounds": options.rounds, "quick": options.quick})
    with tempfile.TemporaryDirectory(prefix="tfm-compare-", dir=memory if in_memory else None) as scratch:
        for name in options.models:
            comparison = MODELS[name]
            data = comparison.data
            if data == "random":
                data = make_random_tokens(scratch)
            elif data == "own":
                data = shown_by_binary(options.tfmc, comparison, scratch)
            arguments = (python, options.tfmc, comparison, options, data, scratch)
            if "training" in options.parts:
                def train(name=name, comparison=comparison, arguments=arguments):
                    say(f"{name}: building")
                    build = measure_build(options.tfmc, comparison, scratch, options.device)
                    say(f"{name}: the same steps on both sides")
                    loss = compare_losses(*arguments)
                    say(f"{name}: speed")
                    return {"build": build, "loss": loss, "speed": compare_speed(*arguments)}
                results.measure("models", name, train)
            if "kernels" in options.parts:
                say(f"{name}: kernels")
                results.measure("kernels", name, lambda arguments=arguments: compare_kernels(*arguments))
        if "decoding" in options.parts:
            for name in options.decoders:
                say(f"{name}: decoding")
                results.measure("decoding", name, lambda name=name: compare_decoding(
                    python, options.tfmc, DECODERS[name], options, scratch))
    models = results.all.get("models", {})
    if options.json:
        print(json.dumps(results.all, indent=1))
    else:
        if models:
            print_results(models)
        for name, result in results.all.get("kernels", {}).items():
            print_kernels(name, result)
        if "decoding" in results.all:
            print_decoding(results.all["decoding"])
    return 0 if all(result["loss"][precision]["agree"] for result in models.values() for precision in PRECISIONS) else 1


if __name__ == "__main__":
    sys.exit(main())
