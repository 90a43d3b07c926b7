#!/usr/bin/env python3
"""How long the commands take, from the start of the process to its end, and how
large what they write is: the check and report of GPT-2 XL, builds of the shipped models,
GPT-2 of 48 layers beside 12, the start of a binary.

Every command runs once in each round, one after the other, so that a slow
moment of the machine meets all of them; what counts is the median. Beside it
stand the fastest run and what is asked.

  bench/commands.py [--rounds 5] [--tfmc build/release/bin/tfmc] [--json]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import measuring
from measuring import ROOT

GPT2 = ROOT / "models" / "gpt2.tfm"
XL = ["-D", "width=1600", "-D", "heads=25", "-D", "layers=48"]


def seconds(command):
    """Wall time of a command that must succeed."""
    start = time.perf_counter()
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def rows(tfmc, folder):
    """(what, command, seconds asked or None), in the order in which they run."""
    def build(source, name, *defines):
        return [tfmc, "build", source, "-o", folder / name, *defines]

    training = ROOT / "bench" / "gpt2_train.tfm"
    return [
        ("check models/addition.tfm", [tfmc, "check", ROOT / "models" / "addition.tfm"], None),
        ("check GPT-2 XL", [tfmc, "check", GPT2, *XL], 0.020),
        ("report GPT-2 XL", [tfmc, "report", GPT2, *XL], 0.020),
        ("report GPT-2 XL --memory", [tfmc, "report", GPT2, *XL, "--memory"], None),
        ("build models/addition.tfm", build(ROOT / "models" / "addition.tfm", "addition"), 1.0),
        ("start of addition", [folder / "addition", "--help"], 0.010),
        ("build models/shakespeare.tfm", build(ROOT / "models" / "shakespeare.tfm", "shakespeare"), None),
        ("build models/gpt2.tfm", build(GPT2, "gpt2"), 5.0),
        ("build GPT-2 with training", build(training, "gpt2_12"), 5.0),
        ("build GPT-2 with training, 48 layers", build(training, "gpt2_48", "-D", "layers=48"), None),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    measuring.add_tfmc(parser)
    parser.add_argument("--json", action="store_true")
    arguments = measuring.parse(parser)
    if arguments.rounds < 1:
        parser.error("--rounds: at least 1")

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        table = rows(arguments.tfmc.resolve(), folder)
        times = {what: [] for what, _, _ in table}
        for _ in range(arguments.rounds):
            for what, command, _ in table:
                times[what].append(seconds(command))
        sizes = {file: (folder / file).stat().st_size for file in ("addition", "shakespeare", "gpt2", "gpt2_12", "gpt2_48")}

    deep, flat = (times[f"build GPT-2 with training{layers}"] for layers in (", 48 layers", ""))
    result = {
        "rounds": arguments.rounds,
        "seconds": {what: {"median": statistics.median(times[what]), "fastest": min(times[what]), "asked": asked}
                    for what, _, asked in table},
        "bytes": sizes,
        "48 layers / 12": {"build": statistics.median(a / b for a, b in zip(deep, flat)),
                           "size": sizes["gpt2_48"] / sizes["gpt2_12"]},
    }
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{'':<38} {'median':>10} {'fastest':>10} {'asked':>10}")
    for what, row in result["seconds"].items():
        asked = f"{row['asked'] * 1e3:.0f} ms" if row["asked"] else ""
        print(f"{what:<38} {row['median'] * 1e3:>7.1f} ms {row['fastest'] * 1e3:>7.1f} ms {asked:>10}")
    print("\nbinaries (at most 5 MB): " + ", ".join(f"{file} {size / 1e6:.2f} MB" for file, size in sizes.items()))
    ratios = result["48 layers / 12"]
    print(f"48 layers beside 12: {ratios['build']:.2f} of the time (at most 1.2), {ratios['size']:.4f} of the size")


if __name__ == "__main__":
    main()
