#!/usr/bin/env python3
"""What a checkpoint of GPT-2 124M takes (1.5 GB: weights and the optimizer's
state), beside what writing and syncing as many bytes takes.

Training saves a checkpoint after each step and tells its time in the log. After
each it is stopped, and the bytes that it wrote are written from memory to two
files of the same folder and synced, with as little free memory as the training
had. What counts is the median of the ratios.

  bench/checkpoints.py [--rounds 5] [--folder DIR] [--tfmc build/release/bin/tfmc]

--folder is on the disk to be measured (default: the working directory).
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time

import measuring
from measuring import ROOT

ASKED = 1.25


def plain_write(contents, folder):
    """Seconds to write and sync files of these contents."""
    start = time.perf_counter()
    for number, content in enumerate(contents):
        file = os.open(folder / f"plain{number}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        view = memoryview(content)
        while view:
            view = view[os.write(file, view):]
        os.fsync(file)
        os.close(file)
    seconds = time.perf_counter() - start
    for number in range(len(contents)):
        (folder / f"plain{number}").unlink()
    return seconds


def wait_for(run, step):
    """The seconds of a step's checkpoint, once state.json is of that step."""
    while True:
        time.sleep(0.01)
        try:
            if json.loads((run / "state.json").read_text())["step"] < step:
                continue
        except OSError:
            continue
        lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
        return [line["checkpoint_seconds"] for line in lines if "checkpoint_seconds" in line][-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("."))
    measuring.add_tfmc(parser)
    arguments = measuring.parse(parser)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = pathlib.Path(name)
        binary, run, data = folder / "gpt2", folder / "run", folder / "tokens.bin"
        data.write_bytes(bytes(20000))
        subprocess.run([arguments.tfmc, "build", ROOT / "bench" / "gpt2_train.tfm", "-o", binary,
                        "-D", "train.checkpoint=every(1)"], check=True)
        training = subprocess.Popen([binary, "train", "--data", data, "--json", "--out", run, "--steps",
                                     str(arguments.rounds + 2)], stdout=subprocess.DEVNULL)
        ratios = []
        for step in range(1, arguments.rounds + 1):
            checkpoint = wait_for(run, step)
            training.send_signal(signal.SIGSTOP)
            contents = [(run / f"{part}.safetensors").read_bytes() for part in ("model", "optimizer")]
            plain = plain_write(contents, folder)
            del contents
            training.send_signal(signal.SIGCONT)
            ratios.append(checkpoint / plain)
            print(f"checkpoint {checkpoint:.2f} s, written and synced {plain:.2f} s, ratio {ratios[-1]:.2f}", flush=True)
        training.kill()
        training.wait()
        print(f"median ratio {statistics.median(ratios):.2f} (asked: at most {ASKED})")


if __name__ == "__main__":
    main()
