#!/usr/bin/env python3
"""What training keeps of its speed while other programs want the processors too.

Trains models/addition.tfm alone, and beside one endless process on each
processor, all in the default scheduling class at the same priority, with one
thread and with two. As many processes as processors leave it half of the time of
each: 50% is the most that can be kept. Where PyTorch is installed (`--venv`, as
bench/compare_pytorch.py makes it), eager PyTorch trains the same beside it.

Every round measures each side alone and then busy, one after the other; what
counts is the median of the rounds, and of the ratios of each round.

  bench/busy_machine.py [--rounds 5] [--seconds 2] [--venv DIR] [--json]
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from compare_pytorch import Binary, Comparison, Peer
import measuring
from measuring import ROOT

ADDITION = Comparison("models/addition.tfm", tied=False, wanted_speed=None)


@contextlib.contextmanager
def endless_processes(count):
    """Processes that do nothing, as fast as they can."""
    processes = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


class Tfm:
    """Training steps of the binary, in a process of their own."""

    def __init__(self, tfmc, threads, scratch):
        self.binary = Binary(tfmc, ADDITION, [], None, threads, scratch)

    def speed(self, steps):
        """Steps a second."""
        return 1 / self.binary.step_seconds(steps)


class PyTorch:
    """Training steps of eager PyTorch, in one process for all rounds."""

    def __init__(self, python, info, threads, scratch):
        self.peer = Peer(python, ADDITION, info, None, threads, scratch)
        self.peer.ask(do="time", steps=10)

    def speed(self, steps):
        """Steps a second."""
        return steps / sum(self.peer.ask(do="time", steps=steps))


def measure(side, seconds, processors):
    """Steps a second (alone, busy) of one round, each for about `seconds`."""
    steps = max(10, int(side.speed(20) * seconds))
    alone = side.speed(steps)
    with endless_processes(processors):
        busy = side.speed(max(10, steps // 3))
    return alone, busy


def has_pytorch(python):
    return python.exists() and subprocess.run([python, "-c", "import torch, numpy"], capture_output=True,
                                              check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of a measurement alone (default: %(default)s)")
    measuring.add_tfmc(parser)
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "build" / "pytorch",
                        help="a virtual environment with PyTorch (default: build/pytorch)")
    parser.add_argument("--json", action="store_true")
    arguments = measuring.parse(parser)
    if arguments.rounds < 1:
        parser.error("--rounds: at least 1")
    processors = len(os.sched_getaffinity(0))
    python = arguments.venv.absolute() / "bin" / "python"
    with_pytorch = has_pytorch(python)
    if not with_pytorch:
        print(f"no PyTorch in {arguments.venv}: tfm alone is measured", file=sys.stderr)

    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(prefix="tfm-busy-", dir=memory if os.path.isdir(memory) else None) as scratch:
        sides = {}
        for threads in (1, 2):
            tfm = Tfm(arguments.tfmc.resolve(), threads, scratch)
            sides["tfm", threads] = tfm
            if with_pytorch:
                sides["PyTorch", threads] = PyTorch(python, tfm.binary.info, threads, scratch)
        speeds = {side: [] for side in sides}
        for _ in range(arguments.rounds):
            for name, side in sides.items():
                speeds[name].append(measure(side, arguments.seconds, processors))
        for side in sides.values():
            if isinstance(side, PyTorch):
                side.peer.close()

    results = [{"program": program, "threads": threads, "alone": statistics.median(alone for alone, _ in rounds),
                "busy": statistics.median(busy for _, busy in rounds),
                "kept": statistics.median(busy / alone for alone, busy in rounds),
                "rounds": rounds} for (program, threads), rounds in speeds.items()]
    if arguments.json:
        print(json.dumps({"processors": processors, "steps_per_second": results}, indent=1))
        return
    print(f"steps/s of addition, alone and beside {processors} endless processes on {processors} processors")
    print(f"{'':<18} {'alone':>8} {'busy':>8} {'kept':>6}   kept in each round")
    for row in results:
        each = ", ".join(f"{busy / alone:.0%}" for alone, busy in row["rounds"])
        name = f"{row['program']}, {row['threads']} thread" + "s" * (row["threads"] > 1)
        print(f"{name:<18} {row['alone']:>8.1f} {row['busy']:>8.1f} {row['kept']:>6.0%}   {each}")


if __name__ == "__main__":
    main()
