#!/usr/bin/env python3
"""What can be known of a model's kernels on a GPU without one: a line for each kernel of a function, with how
often it runs, its blocks and threads, what it computes and moves, and how long that takes on an A100 and an
H100: of a product what the compiler estimates, which chooses its tiles by that (waves of blocks, the second-level
cache, shared memory; compiler/target/cuda/ProductTile.cpp), and of others the least that a roofline allows (the
longer of its operations at the units' speed and its bytes at the memory's), with a launch. Where NVIDIA's `ptxas`
and `nvdisasm` are installed (or named), also registers, spills, instructions, and how many of a multiprocessor's
threads it has at once. Blocks, threads and these are of the kernel that all GPUs run, also where an H100 has
another form of it (wgmma), which its time is of.

    bench/gpu_kernels.py models/shakespeare.tfm --function train -D train.precision=bf16

Predictions, to be compared with what `./model bench` measures: docs/gpu.md holds some of both.
"""

import argparse
import math
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "release" / "bin"

# As in compiler/target/cuda/Gpu.cpp, where the sources are named: operations a second in bf16 (what of them
# `mma.sync` reaches; `wgmma` reaches all) and f32, bytes a second, and what a multiprocessor has.
GPUS = {
    "A100": {"machine": "sm_80", "tensor": 312e12, "mma": 1.0, "f32": 19.5e12, "bandwidth": 2.0e12, "launch": 1.5e-6,
             "shared": 164 << 10},
    "H100": {"machine": "sm_90", "tensor": 989e12, "mma": 0.62, "f32": 67e12, "bandwidth": 3.35e12, "launch": 1.3e-6,
             "shared": 228 << 10},
}
REGISTERS, THREADS, BLOCKS = 65536, 2048, 32

# The derivative of attention multiplies queries by keys and cotangents by values twice, for what belongs to keys
# and for what belongs to queries: seven products instead of five.
AGAIN = {"attention_backward": 1.4}


class Step:
    """What one run of a kernel computes and moves, as the compiler says, and how that goes on a GPU."""

    def __init__(self, kernel, body, attributes, forms):
        def numbers(key, convert):
            found = re.search(rf"tfm\.{key} = array<\w+: ([^>]*)>", attributes)
            return [convert(number) for number in found.group(1).split(",")] if found else []
        self.kernel = kernel
        self.name = re.search(r'tfm\.step = "([^"]*)"', attributes).group(1)
        self.flops, self.bytes = numbers("work", int)
        self.flops *= AGAIN.get(self.name.split()[0], 1)
        self.estimates = dict(zip(GPUS, numbers("seconds", float)))
        self.units = "tensor" if "nvvm.mma.sync" in body else "f32"
        self.has_form = kernel in forms
        self.blocks = math.prod(numbers("grid", int))
        self.threads = math.prod(numbers("block", int))
        shared = re.search(r"tfm\.shared = (\d+)", attributes)
        self.shared = int(shared.group(1)) if shared else 0

    def seconds(self, name):
        """What a run is taken to last on a GPU of that name."""
        return max(self.least(name), self.estimates.get(name, 0) + GPUS[name]["launch"])

    def least(self, name):
        """What it takes at least."""
        gpu = GPUS[name]
        speed = gpu[self.units]
        if self.units == "tensor" and not (name == "H100" and self.has_form):
            speed *= gpu["mma"]
        return max(self.flops / speed, self.bytes / gpu["bandwidth"]) + gpu["launch"]


def read_kernels(text):
    """All kernels, by name."""
    forms = set(re.findall(r"func\.func @(kernel\d+)_sm_90a\(", text))
    return {name: Step(name, body, attributes, forms) for name, attributes, body in re.findall(
        r"func\.func @(kernel\d+)\(.*?\) attributes \{(.*?)\} \{\n(.*?)\n    }\n", text, re.S)}


def read_runs(text, function):
    """How often a function runs each kernel."""
    lines = iter(text.splitlines())
    for line in lines:
        if re.search(rf"sched\.program @{function}\b", line):
            break
    else:
        sys.exit(f"there is no function '{function}'")
    runs, counts = {}, [1]
    for line in lines:
        stripped = line.strip()
        if found := re.match(r"sched\.(?:launch|copy|fill|group)\b.*@kernels::@(\w+)", stripped):
            runs[found.group(1)] = runs.get(found.group(1), 0) + math.prod(counts)
        if stripped.endswith("{"):
            counts.append(int(stripped.split()[1]) if stripped.startswith("sched.loop") else 1)
        elif stripped == "}":
            counts.pop()
            if not counts:
                break
    return runs


def assemble(ptxas, disassembler, machine, ptx, folder):
    """What ptxas says of each kernel."""
    cubin = Path(folder) / f"{machine}.cubin"
    done = subprocess.run([ptxas, f"-arch={machine}", "-v", ptx, "-o", cubin], text=True, capture_output=True,
                          check=True)
    kernels = {}
    for name, spills, registers, rest in re.findall(
            r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores.*?Used (\d+) registers(.*?)\n", done.stderr,
            re.S):
        static = re.search(r"(\d+) bytes smem", rest)
        kernels[name] = {"registers": int(registers), "spills": int(spills),
                         "static": int(static.group(1)) if static else 0, "instructions": 0}
    if disassembler:
        code = subprocess.run([disassembler, "-c", cubin], text=True, capture_output=True, check=False).stdout
        for name, body in re.findall(r"\.text\.(kernel\d+):(.*?)(?=\n\.text\.|\Z)", code, re.S):
            kernels[name]["instructions"] = len(re.findall(r"^\s+/\*[0-9a-f]{4,}\*/", body, re.M))
    return kernels


def occupancy(gpu, threads, registers, shared):
    """The part of a multiprocessor's threads that are there at once."""
    warps = -(-threads // 32)
    of_warp = -(-registers * 32 // 256) * 256
    blocks = min(THREADS // (warps * 32), REGISTERS // of_warp // warps, gpu["shared"] // (shared + 1024), BLOCKS)
    return blocks * warps * 32 / THREADS


def find(tool, given):
    found = shutil.which(given or tool)
    if given and not found:
        sys.exit(f"there is no program '{given}'")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("-D", dest="defines", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--function", default="train", help="whose kernels (train, decode, ...; default: train)")
    parser.add_argument("--ptxas", help="where it is not on the path")
    parser.add_argument("--nvdisasm")
    arguments = parser.parse_args()
    build = [BIN / "tfmc", "build", arguments.model]
    for define in arguments.defines:
        build += ["-D", define]
    with tempfile.TemporaryDirectory() as folder:
        tensors, kernels, ptx = (Path(folder) / name for name in ("model.mlir", "kernels.mlir", "kernels.ptx"))
        if subprocess.run([*build, "--emit", "tfm", "-o", tensors], check=False).returncode:
            sys.exit(1)
        subprocess.run([BIN / "tfm-opt", tensors, "--tfm-to-kernels=target=cuda", "-o", kernels], check=True)
        text = kernels.read_text()
        assembled = {}
        ptxas = find("ptxas", arguments.ptxas)
        if ptxas:
            subprocess.run([*build, "--target", "cuda", "--emit", "asm", "-o", ptx], check=True)
            for gpu in GPUS.values():
                assembled[gpu["machine"]] = assemble(ptxas, find("nvdisasm", arguments.nvdisasm), gpu["machine"],
                                                     ptx, folder)
    show(read_kernels(text), read_runs(text, arguments.function), assembled)


def show(kernels, runs, assembled):
    columns = ["kernel", "runs", "blocks", "threads", "MFLOP", "MB", "shared", "regs", "spill", "SASS", "occup.",
               *(f"{name} us" for name in GPUS), "what"]
    widths = [9, 5, 7, 7, 10, 9, 7, 5, 5, 6, 6, *(9 for _ in GPUS), 0]
    print(" ".join(word.rjust(width) for word, width in zip(columns, widths)))
    totals, least = dict.fromkeys(GPUS, 0.0), dict.fromkeys(GPUS, 0.0)
    slowest = list(GPUS)[-1]
    for name, count in sorted(runs.items(), key=lambda run: -run[1] * kernels[run[0]].seconds(slowest)):
        step = kernels[name]
        for gpu in GPUS:
            totals[gpu] += step.seconds(gpu) * count
            least[gpu] += step.least(gpu) * count
        known = assembled.get("sm_80", {}).get(name)
        shared = step.shared + (known["static"] if known else 0)
        of_ptxas = ["-"] * 4
        if known:
            share = occupancy(GPUS["A100"], step.threads, known["registers"], shared)
            of_ptxas = [known["registers"], known["spills"], known["instructions"] or "-", f"{share:.0%}"]
        cells = [name, count, step.blocks, step.threads, f"{step.flops / 1e6:.1f}", f"{step.bytes / 1e6:.2f}", shared,
                 *of_ptxas, *(f"{step.seconds(gpu) * 1e6:.1f}" for gpu in GPUS),
                 step.name + (" (wgmma)" if step.has_form else "")]
        print(" ".join(str(cell).rjust(width) for cell, width in zip(cells, widths)))
    flops = sum(kernels[name].flops * count for name, count in runs.items())
    print(f"\n{sum(runs.values())} launches, {flops / 1e9:.1f} GFLOP; "
          + ", ".join(f"{seconds * 1e3:.3f} ms on one {gpu} (at least {least[gpu] * 1e3:.3f})"
                      for gpu, seconds in totals.items()))


if __name__ == "__main__":
    main()
