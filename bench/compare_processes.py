#!/usr/bin/env python3
"""Trains with two processes of one thread each, beside one of two threads.

For each model: builds it with `tfmc build` and two micro-batches to an update,
then measures in turns (A B C A B C ...) whole training steps of one process with
two threads, of two with one thread under each MPI that is installed, and of
PyTorch's DistributedDataParallel over gloo with two processes of one thread (the
same model, optimizer and micro-batches). What counts is the median of the
rounds, and the median of the ratios of each round. Steps are as
`tfmc report --processes 2` predicts them from that of one process with one
thread, which is measured, too, and from how fast two processes send each other
bytes (--network). Also: how long four processes take to start, train a step of a
small model, save it and end, beside one. A number that is not as wanted: exit
status 1.

  bench/compare_processes.py [--precision bf16] [--models shakespeare,gpt2-1x1024,gpt2-4x64] [--quick] [--json]
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import statistics
import sys
import tempfile
import time

import compare_pytorch
import measuring
from compare_pytorch import MODELS, Binary, Peer, table
from measuring import ROOT, checked, fail, say

# As tests/e2e/test_processes.py starts them.
LIBRARIES = {
    "Open MPI": ("mpicc.openmpi", ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-np"]),
    "MPICH": ("mpicc.mpich", ["mpiexec.hydra", "-n"]),
}
MICRO_BATCHES = ["train.accumulate=2", "train.validate=none", "train.sample=none", "train.checkpoint=none"]
# The least share of the tokens/s of one process with two threads.
COMPARISONS = {"shakespeare": (MODELS["shakespeare"], 0.97), "gpt2-1x1024": (MODELS["gpt2-1x1024"], 0.95),
               "gpt2-4x64": (MODELS["gpt2"], 0.85)}
WANTED_TO_DDP = 1.5
WANTED_START_SECONDS = 0.5
WANTED_PREDICTION = 0.15


class Launched:
    """A binary under a launcher, with the library of messages for it."""

    def __init__(self, tfmc, library, binary):
        compiler, self.launcher = LIBRARIES[library]
        self.binary = binary
        self.library = os.path.join(tempfile.mkdtemp(dir=binary.scratch), "libtfm_mpi.so")
        checked([tfmc, "mpi", "--mpicc", compiler, "-o", self.library])

    def run(self, count, steps):
        out = tempfile.mkdtemp(dir=self.binary.scratch)
        command = [*self.start(count), self.binary.path, "train", "--json", "--steps", steps, "--threads", 1,
                   "--out", out, "--overwrite", *self.binary.data]
        answer = json.loads(self.answer(command, dict(os.environ, TFM_MPI=self.library)))
        shutil.rmtree(out)
        return answer

    def start(self, count):
        """The words that start so many processes of a program."""
        return [*self.launcher, count]

    def answer(self, command, environment):
        return checked(command, env=environment)

    def step_seconds(self, steps, count=2):
        run = self.run(count, steps + 1)
        return (run["seconds"] - run["first_step_seconds"]) / steps


class Ddp:
    """Two processes of bench/ddp_peer.py."""

    def __init__(self, python, comparison, info, data, scratch, autocast):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        self.peers = [Peer(python, comparison, info, data, 1, scratch, file="ddp_peer.py",
                           autocast=autocast, variables={**shared, "RANK": str(rank)}) for rank in range(2)]
        for peer in self.peers:
            peer.opened = peer.hear()

    def step_seconds(self, steps):
        for peer in self.peers:
            peer.tell(do="time", steps=steps)
        return max(sum(peer.hear()) for peer in self.peers) / steps

    def close(self):
        for peer in self.peers:
            peer.process.stdin.close()
        for peer in self.peers:
            peer.close()


def compare(comparison, options, python, libraries, scratch):
    data = comparison.data
    if data == "random":
        data = compare_pytorch.make_random_tokens(scratch)
    defines = comparison.defines + MICRO_BATCHES + [f"train.precision={options.precision}"]
    binary = Binary(options.tfmc, comparison, defines, data, 2, scratch)
    alone = Binary(options.tfmc, comparison, defines, data, 1, scratch)
    sides = {"1 x 2": binary, "1 x 1": alone}
    sides |= {library: Launched(options.tfmc, library, binary) for library in libraries}
    steps = max(2, comparison.steps // (16 if options.quick else 2))
    rounds = 1 if options.quick else options.rounds
    if python:
        sides["DDP"] = Ddp(python, comparison, binary.info, data, scratch, options.precision == "bf16")
        sides["DDP"].step_seconds(2)
    seconds = {name: [] for name in sides}
    for number in range(rounds):
        for name, side in sides.items():
            seconds[name].append(side.step_seconds(steps))
        say(f"  round {number + 1} of {rounds}: " + ", ".join(
            f"{name} {binary.tokens_per_step / times[-1]:,.0f}" for name, times in seconds.items()) + " tokens/s")
    if python:
        sides["DDP"].close()

    def ratio(ours, theirs):
        return statistics.median(b / a for a, b in zip(seconds[ours], seconds[theirs]))

    report = json.loads(checked(
        [options.tfmc, "report", comparison.file, "--processes", 2, "--format", "json", "--network", options.network,
         "--latency", options.latency, "--step", f"{statistics.median(seconds['1 x 1']):.6f}s",
         *(part for define in defines for part in ("-D", define))]))
    predicted = report["memory"]["processes"][0]["seconds"]["step"]
    return {"tokens_per_second": {name: binary.tokens_per_step / statistics.median(times)
                                  for name, times in seconds.items()},
            "to_threads": {library: ratio(library, "1 x 2") for library in libraries},
            "to_ddp": {library: ratio(library, "DDP") for library in libraries} if python else {},
            "predicted": {library: predicted / statistics.median(seconds[library]) for library in libraries}}


def start_seconds(options, libraries, scratch):
    """What four processes take longer than one for a step of a small model."""
    comparison = MODELS["addition"]
    binary = Binary(options.tfmc, comparison, ["train.accumulate=4", *MICRO_BATCHES[1:]], None, 1, scratch)

    def timed(run):
        times = []
        for _ in range(3 if options.quick else 11):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    alone = timed(lambda: binary.train(1))
    launched = {library: Launched(options.tfmc, library, binary) for library in libraries}
    return {library: timed(lambda run=each.run: run(4, 1)) - alone for library, each in launched.items()}


def print_results(results, starts):
    """Tables; returns whether all is as wanted."""
    met = []

    def judged(value, text, holds):
        met.append(holds)
        return f"{text.format(value)} {'yes' if holds else 'NO'}"

    rows = [["two processes", "library", "1 x 2 threads", "2 x 1", "DDP", "to 1 x 2", "wanted", "to DDP", "wanted",
             "predicted step", "wanted"]]
    for name, result in results.items():
        wanted, speed = COMPARISONS[name][1], result["tokens_per_second"]
        for library, share in result["to_threads"].items():
            to_ddp, predicted = result["to_ddp"].get(library), result["predicted"][library]
            rows.append([name, library, f"{speed['1 x 2']:,.0f}", f"{speed[library]:,.0f}",
                         f"{speed['DDP']:,.0f}" if to_ddp else "-", judged(share, "{:.2f}", share >= wanted),
                         f"{wanted:.2f}", judged(to_ddp, "{:.2f}", to_ddp >= WANTED_TO_DDP) if to_ddp else "-",
                         f"{WANTED_TO_DDP:.1f}",
                         judged(predicted, "{:.2f}", abs(predicted - 1) <= WANTED_PREDICTION),
                         f"+-{WANTED_PREDICTION:.2f}"])
    if len(rows) > 1:
        table(rows)
    for library, seconds in starts.items():
        print(f"four processes start {judged(seconds, '{:.2f} s', seconds <= WANTED_START_SECONDS)} later than one "
              f"({library}; wanted: {WANTED_START_SECONDS} s)")
    return all(met)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(COMPARISONS), help="with commas; none: starts alone (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32",
                        help="of both sides; PyTorch's by autocast (default: %(default)s)")
    parser.add_argument("--no-pytorch", action="store_true", help="leave PyTorch out")
    parser.add_argument("--network", default="4GB/s", help="of two processes on this machine (default: %(default)s)")
    parser.add_argument("--latency", default="1us", help="the same (default: %(default)s)")
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "build" / "pytorch", help="where PyTorch is (default: build/pytorch)")
    parser.add_argument("--json", action="store_true")
    measuring.add_tfmc(parser)
    options = measuring.parse(parser)
    names = [name for name in options.models.split(",") if name and name != "none"]
    if unknown := [name for name in names if name not in COMPARISONS]:
        parser.error(f"there is no {unknown[0]}: choose from {', '.join(COMPARISONS)}")
    libraries = [library for library, (compiler, launcher) in LIBRARIES.items()
                 if shutil.which(compiler) and shutil.which(launcher[0])]
    if not libraries:
        fail("neither Open MPI nor MPICH is installed")
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    python = None if options.no_pytorch or not names else compare_pytorch.pytorch_python(options.venv)
    results = {}
    with tempfile.TemporaryDirectory(prefix="tfm-processes-") as scratch:
        for name in names:
            say(f"{name}:")
            results[name] = compare(COMPARISONS[name][0], options, python, libraries, scratch)
        starts = start_seconds(options, libraries, scratch)
    if options.json:
        print(json.dumps({"models": results, "start_seconds": starts}))
        return 0
    return 0 if print_results(results, starts) else 1


if __name__ == "__main__":
    sys.exit(main())
