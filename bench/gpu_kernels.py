#!/usr/bin/env python3
"""What can be known of a model's kernels on a GPU without one: a line for each kernel of a function, with how
often it runs, its blocks and threads, what it computes and moves, and how long that takes on an A100 and an
H100: of a product what the compiler estimates, which chooses its tiles by that (waves of blocks, the second-level
cache, shared memory; compiler/target/cuda/ProductTile.cpp), and of others the least that a roofline allows (the
longer of its operations at the units' speed and its bytes at the memory's), with a launch. Where NVIDIA's `ptxas`
and `nvdisasm` are installed (or named), also registers, spills, instructions, and how many of a multiprocessor's
threads it has at once.

    bench/gpu_kernels.py models/shakespeare.tfm --function train -D train.precision=bf16

Predictions, to be compared with measurements once there are any (`./model bench`).
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

ELEMENT_BYTES = {"f32": 4, "i32": 4, "bf16": 2, "i8": 1, "i1": 1}
# Operations at an element, roughly, where it is not one.
COSTS = {"exp": 12, "tanh": 16, "gelu_tanh": 24, "gelu": 30, "sigmoid": 16, "silu": 18, "log": 14, "dropout": 25,
         "sin": 16, "cos": 16, "rsqrt": 4, "sqrt": 4, "div": 4, "read": 0, "write": 0, "reshape": 0,
         "transpose": 0, "broadcast": 0, "slice": 0, "iota": 0, "constant": 0, "cast": 1, "gather": 0}


def shape_of(kind, text):
    """The sizes and bytes of the elements of each `KIND<4x8xf32...>` in a text."""
    found = []
    for dims, element in re.findall(kind + r"<((?:\d+x)*)(\w+)", text):
        found.append(([int(size) for size in dims.split("x") if size], ELEMENT_BYTES.get(element, 4), element))
    return found


class Step:
    """A launch, copy or fill: its kernel, whether that has a form for `wgmma`, and what one run of it computes and
    moves."""

    def __init__(self, line, body, tensor, forms, estimates):
        self.kernel = re.search(r"@kernels::@(\w+)", line).group(1)
        self.has_form = self.kernel in forms
        self.estimates = estimates.get(self.kernel, {})
        self.bytes = 0
        for group in re.findall(r"(?:reads|writes|from|to|sched\.fill)[^:{]*: ([^{\[]*)", line) or [line]:
            for sizes, each, _ in shape_of("memref", group):
                self.bytes += each * math.prod(sizes)
        self.units, self.flops = "tensor" if self.kernel in tensor else "f32", 0
        kind = re.search(r"sched\.(?:launch\s+)?(\w+)(?: (\d+) by (\d+))?", line)
        self.name = kind.group(1)
        points = int(kind.group(2) or 0) * int(kind.group(3) or 0)
        for operation in body:
            self.add(operation, points)

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

    def add(self, text, points):
        match = re.search(r"tfm\.(\w+)", text)
        if not match:
            return
        name = match.group(1)
        types = shape_of("tensor", text)
        if name == "matmul":
            a, b = types[0], types[1]
            terms = a[0][-2] if "transpose_a" in text else a[0][-1]
            rows = math.prod(a[0]) // terms
            columns = b[0][-2] if "transpose_b" in text else b[0][-1]
            self.flops += 2 * rows * columns * terms
            self.name = f"product {rows} x {columns} x {terms}"
        elif name.startswith("attention"):
            q, k = types[0][0], types[1][0]
            pairs = q[0] * q[1] * q[2] * k[2] * (0.5 if "causal" in text and q[2] == k[2] else 1)
            self.flops += int((14 if "backward" in name else 4) * pairs * q[3])
            self.name = f"{name} {q[1]} heads, {q[2]} x {k[2]} x {q[3]}"
        else:
            self.flops += COSTS.get(name, 1) * points


def read_steps(text, function):
    """The steps of a program, each with how often it runs."""
    tensor = {name for name, body in re.findall(r"func\.func @(kernel\d+)\((.*?)\n    }\n", text, re.S)
              if "nvvm.mma.sync" in body}
    forms = set(re.findall(r"func\.func @(kernel\d+)_sm_90a\(", text))
    estimates = {name: dict(zip(GPUS, (float(number) for number in numbers.split(","))))
                 for name, numbers in re.findall(
                     r"func\.func @(kernel\d+)\(.*?tfm\.seconds = array<f64: ([^>]*)>", text)}
    lines = iter(text.splitlines())
    for line in lines:
        if re.search(rf"sched\.program @{function}\b", line):
            break
    else:
        sys.exit(f"there is no function '{function}'")
    counts, steps, body = [1], [], None
    for line in lines:
        stripped = line.strip()
        if body is not None:
            if stripped == "}":
                steps.append((Step(header, body, tensor, forms, estimates), math.prod(counts)))
                body = None
            else:
                body.append(stripped)
        elif stripped.startswith("sched.loop"):
            counts.append(int(stripped.split()[1]))
        elif stripped.startswith("sched.launch"):
            header, body = stripped, []
        elif stripped.startswith(("sched.copy", "sched.fill")):
            steps.append((Step(stripped, [], tensor, forms, estimates), math.prod(counts)))
        elif stripped == "}":
            if len(counts) == 1:
                break
            counts.pop()
    return steps


def read_launches(text):
    """Blocks, threads and bytes of shared memory that each kernel is launched with."""
    launches = {}
    for name, attributes in re.findall(r"func\.func @(kernel\d+)\(.*?attributes \{(.*?)\}", text):
        def numbers(key):
            found = re.search(rf"tfm\.{key} = (?:array<i\d+: )?([\d, ]+)", attributes)
            return math.prod(int(number) for number in found.group(1).split(",")) if found else 0
        launches[name] = {"blocks": numbers("grid"), "threads": numbers("block"), "shared": numbers("shared")}
    return launches


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
    return given or shutil.which(tool)


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
        subprocess.run([*build, "--emit", "tfm", "-o", tensors], check=True)
        subprocess.run([BIN / "tfm-opt", tensors, "--tfm-to-kernels=target=cuda", "-o", kernels], check=True)
        text = kernels.read_text()
        assembled = {}
        ptxas = find("ptxas", arguments.ptxas)
        if ptxas:
            subprocess.run([*build, "--target", "cuda", "--emit", "asm", "-o", ptx], check=True)
            for gpu in GPUS.values():
                assembled[gpu["machine"]] = assemble(ptxas, find("nvdisasm", arguments.nvdisasm), gpu["machine"],
                                                     ptx, folder)
    show(read_steps(text, arguments.function), read_launches(text), assembled)


def show(steps, launches, assembled):
    rows = {}
    for step, count in steps:
        row = rows.setdefault(step.kernel, [step, 0])
        row[1] += count
    columns = ["kernel", "runs", "blocks", "threads", "MFLOP", "MB", "shared", "regs", "spill", "SASS", "occup.",
               *(f"{name} us" for name in GPUS), "what"]
    widths = [9, 5, 7, 7, 10, 9, 7, 5, 5, 6, 6, *(9 for _ in GPUS), 0]
    print(" ".join(word.rjust(width) for word, width in zip(columns, widths)))
    totals, least = dict.fromkeys(GPUS, 0.0), dict.fromkeys(GPUS, 0.0)
    flops = 0
    for name, (step, count) in sorted(rows.items(), key=lambda row: -row[1][1] * row[1][0].flops):
        launch = launches[name]
        times = []
        for gpu in GPUS:
            seconds = step.seconds(gpu)
            totals[gpu] += seconds * count
            least[gpu] += step.least(gpu) * count
            times.append(f"{seconds * 1e6:.1f}")
        flops += step.flops * count
        known = assembled.get("sm_80", {}).get(name)
        shared = launch["shared"] + (known["static"] if known else 0)
        of_ptxas = ["-"] * 4
        if known:
            share = occupancy(GPUS["A100"], launch["threads"], known["registers"], shared)
            of_ptxas = [known["registers"], known["spills"], known["instructions"] or "-", f"{share:.0%}"]
        cells = [name, count, launch["blocks"], launch["threads"], f"{step.flops / 1e6:.1f}",
                 f"{step.bytes / 1e6:.2f}", shared, *of_ptxas, *times, step.name + (" (wgmma)" if step.has_form else "")]
        print(" ".join(str(cell).rjust(width) for cell, width in zip(cells, widths)))
    print(f"\n{sum(count for _, count in steps)} launches, {flops / 1e9:.1f} GFLOP; "
          + ", ".join(f"{seconds * 1e3:.3f} ms on one {gpu} (at least {least[gpu] * 1e3:.3f})"
                      for gpu, seconds in totals.items()))


if __name__ == "__main__":
    main()
