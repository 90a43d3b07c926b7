#!/usr/bin/env python3
"""What processes that share their work add to a program: its size beside one that is linked with a copy of the runtime
in which nobody has other processes, and of which nothing is left that only they need.

    bench/size_of_processes.py models/shakespeare.tfm [-D train.accumulate=4] [--build build/release]

Without a further micro-batch to an update nobody can share its training, and nothing of that is there.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Files of which nothing is left, and what takes the place of the uses of what is in them.
GONE = ["comm/launcher", "comm/processes", "comm/separate_work", "comm/witness", "training/row_arithmetic",
        "training/row_exchange", "training/shared_update", "device/nccl"]
NOBODY = "static constexpr Processes *processes = nullptr;"
EDITS = {
    "commands/commands.h": [(r"Processes \*processes = nullptr;", NOBODY), (r"  ProcessesOptions sharing;\n", "")],
    "commands/train.cpp": [(r"  options\.processes = command\.processes;\n", "")],
    "commands/cli.cpp": [
        (r"\n/// Of commands that share.*?\n}\n", "\n"), (r"\n  addSharing\(.*?\);", ""), (r" *dismissWitness\(\);\n", ""),
        (r"  CommonOptions \*shared = nullptr;.*?(?=  if \(!processes \|\| )", ""),
        (r"std::unique_ptr<Processes> processes;", "constexpr Processes *processes = nullptr;"),
        (r"std::unique_ptr<Processes> &processes\) {", "const Processes *) {\n  constexpr Processes *processes = nullptr;"),
        (r"endWithError\(Processes \*processes,(.*?) {\n",
         r"endWithError(Processes *,\1 {\n  constexpr Processes *processes = nullptr;\n"),
        (r"processes\.get\(\)", "nullptr"), (r"  \} catch \(const NotJoined.*?(?=  \} catch)", ""),
        (r"    if \(findLaunch\(.*?;\n", ""), (r"endBySignal\(signal\)", "std::raise(SIGKILL)")],
    "commands/generate.cpp": [(r"endBySignal\(signal\)", "std::raise(SIGKILL)")],
    "commands/crash.cpp": [(r" *dismissWitness\(.*?\);\n", "")],
    "training/trainer.h": [
        (r"Processes \*processes = nullptr;", NOBODY),
        (r"std::unique_ptr<SharedUpdate> shared;", "static constexpr SharedUpdate *shared = nullptr;")],
    "training/trainer.cpp": [
        (r"void Trainer::sample\(\) {.*?\n}\n", "void Trainer::sample() { drawSample([] {}); }\n"),
        (r"  if \(isTree \|\| this->options\.processes\)\n.*?;\n", ""), (r"bool isTree = .*?;", "constexpr bool isTree = false;")],
    "training/evaluator.h": [(r"  Processes \*processes;", "  " + NOBODY)],
    "training/evaluator.cpp": [
        (r"Processes \*processes\)", "Processes *)"), (r", processes\(processes\)", ""),
        (r"(?=  if \(!questions\.empty\(\)\) {\n    model\.requireLogits)", "  constexpr Processes *processes = nullptr;\n")],
    "device/gpus.cpp": [
        (r"  if \(processes\)\n.*?;\n", ""), (r"  try {\n    return Nccl\(\)\.version.*?\n  }\n}", "  return std::nullopt;\n}")],
    "device/cuda_device.cpp": [(r"return std::make_unique<NcclLink>\(.*?;", "return (void)processes, nullptr;")],
}


def strip(runtime):
    for name, edits in EDITS.items():
        text = (runtime / name).read_text()
        for pattern, replacement in edits:
            text, count = re.subn(pattern, replacement, text, flags=re.S)
            assert count, f"{name} has no {pattern} any more"
        (runtime / name).write_text(text)


def commands_of(build):
    """How files of the runtime are compiled, by name."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.is_relative_to(ROOT / "runtime") and re.search(r"/tfm_runtime(_core)?\.dir/", entry["command"]):
            yield str(path.relative_to(ROOT / "runtime").with_suffix("")), entry


def link(model, archive, out):
    """As `tfmc build` does."""
    found = shutil.which("ld.lld-22") or shutil.which("ld.lld")
    lld = ["-fuse-ld=lld", f"-B{pathlib.Path(found).resolve().parent}", "-Wl,--icf=safe", "-Wl,-O2",
           "-Wl,-z,pack-relative-relocs"] if found else []
    subprocess.run(["c++", "-o", out, model, archive, "-static-libstdc++", "-static-libgcc", "-Wl,--gc-sections", "-s", "-lm",
                    "-lpthread", *lld], check=True)
    sizes = subprocess.run(["size", "-A", "-d", out], check=True, capture_output=True, text=True).stdout
    # What fills a page up is nothing that anybody has written.
    return {line.split()[0]: int(line.split()[1]) for line in sizes.splitlines()
            if line.startswith(".") and not line.startswith(".relro_padding")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("-D", dest="defines", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tfm-size-") as scratch:
        scratch = pathlib.Path(scratch)
        shutil.copytree(ROOT / "runtime", scratch / "runtime")
        strip(scratch / "runtime")
        archive = scratch / "libtfm_runtime.a"
        shutil.copy(options.build / "lib/libtfm_runtime.a", archive)

        def compile_without(item):
            name, entry = item
            out = scratch / (pathlib.Path(name).name + ".cpp.o")
            command = entry["command"].replace(f"-I{ROOT} ", f"-I{scratch} -I{ROOT} ")
            command = command.replace(f"{ROOT}/runtime/", f"{scratch}/runtime/").replace("-Werror", "-w")
            # Headers that are parsed already are not those of the copy.
            command = re.sub(r"( -Xclang -include(-pch)? -Xclang \S+| -Winvalid-pch)", "", command)
            subprocess.run(re.sub(r" -o \S+", f" -o {out}", command), shell=True, check=True, cwd=entry["directory"])
            return out

        changed = [(name, entry) for name, entry in commands_of(options.build)
                   if name not in GONE and (name.startswith(("commands/", "training/", "main")) or name + ".cpp" in EDITS)]
        with ThreadPoolExecutor() as pool:
            objects = list(pool.map(compile_without, changed))
        subprocess.run(["ar", "d", archive, *(pathlib.Path(name).name + ".cpp.o" for name in GONE)], check=True)
        subprocess.run(["ar", "r", archive, *objects], check=True)
        model = scratch / "model.o"
        subprocess.run([options.build / "bin/tfmc", "build", options.model, "--emit", "obj", "-o", model,
                        *(f"-D{define}" for define in options.defines)], check=True)
        present = link(model, options.build / "lib/libtfm_runtime.a", scratch / "with")
        absent = link(model, archive, scratch / "without")
    for name in sorted(present, key=lambda name: absent.get(name, 0) - present[name]):
        if present[name] != absent.get(name, 0):
            print(f"{name:<20} {present[name] - absent.get(name, 0):>8,}")
    print(f"{'all':<20} {sum(present.values()) - sum(absent.values()):>8,} of {sum(present.values()):,} bytes")


if __name__ == "__main__":
    main()
