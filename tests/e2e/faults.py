"""Programs whose file calls are counted and broken (preload/faults.c), and what
is on the disk after that. tests/e2e/test_faults.py says what must be true then.

TFM_FAULTS=all (scripts/faults.sh) takes every call where the tests take a spread.
"""

import concurrent.futures
import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from support import run

HERE = pathlib.Path(__file__).resolve().parent
CC = shutil.which("cc") or shutil.which("clang-22")
ALL = os.environ.get("TFM_FAULTS") == "all"
# What a process that ends by SIGKILL gives to its parent.
KILLED = -9


def spread(items, count):
    """Of the items `count`, evenly, with the first and the last; or all of them."""
    items = list(items)
    if ALL or len(items) <= count:
        return items
    return [items[i * (len(items) - 1) // (count - 1)] for i in range(count)]


@dataclasses.dataclass(frozen=True)
class Call:
    """One line of the library's log; paths are below the folder of the run."""
    number: int
    name: str
    path: str
    to: str
    size: int

    @property
    def writes(self):
        return self.name in ("write", "pwrite", "writev")

    @property
    def takes_room(self):
        """Whether preload/faults.c lets it find the disk full."""
        return self.writes or self.name in ("open", "openat", "fopen", "close", "fclose", "ftruncate",
                                            "fsync", "fdatasync", "rename", "renameat", "mkdir")

    @staticmethod
    def of(calls, number):
        """The call of a number, where the program came as far."""
        return calls[number - 1] if number <= len(calls) else Call(number, "none", "", "", 0)

    def __str__(self):
        return f"call {self.number}, {self.name} {self.path}" + (f" -> {self.to}" if self.to else "")


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a program ended, and which calls it made until then."""
    status: int
    stdout: str
    stderr: str
    calls: tuple

    @property
    def text(self):
        return self.stdout + self.stderr

    def __str__(self):
        lines = self.stderr.strip().splitlines() or [""]
        return f"exit status {self.status}, {lines[-1]!r}"


class Lab:
    """A folder to work in, with a copy of the inputs for every attempt."""

    def __init__(self):
        self.root = pathlib.Path(os.path.realpath(tempfile.mkdtemp(prefix="tfm-faults-")))
        self.inputs = self.root / "inputs"
        self.inputs.mkdir()
        self.library = self.root / "faults.so"
        self.numbers = itertools.count()
        built = run(CC, "-O1", "-shared", "-fPIC", "-o", self.library, HERE / "preload" / "faults.c",
                    "-ldl")
        if built.returncode != 0:
            raise AssertionError(built.stderr)

    def remove(self):
        shutil.rmtree(self.root)

    def folder(self, like=None):
        """A new folder with what is in another one, by default the inputs."""
        folder = self.root / f"attempt-{next(self.numbers):06}"
        shutil.copytree(like or self.inputs, folder, symlinks=True)
        return folder

    def run(self, folder, command, fault="", **variables):
        """Runs a command in a folder, with a fault at its file calls there."""
        log = folder.with_suffix(".calls")
        environment = dict(os.environ, LD_PRELOAD=str(self.library), FAULTS_FOLDER=str(folder),
                           FAULTS_LOG=str(log), FAULTS=fault, NO_COLOR="1", **variables)
        try:
            done = subprocess.run([str(part) for part in command], cwd=folder, env=environment,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                                  check=False)
        except subprocess.TimeoutExpired:
            return Ended("none: it hangs", "", "", ())
        calls = []
        for line in log.read_text().splitlines() if log.exists() else ():
            calls.append(self.call(line, str(folder)))
        log.unlink(missing_ok=True)
        return Ended(done.returncode, done.stdout.decode(errors="replace"),
                     done.stderr.decode(errors="replace"), tuple(calls))

    @staticmethod
    def call(line, folder):
        number, name, rest = line.split(" ", 2)
        size = 0
        if match := re.fullmatch(r"(.*) (\d+)", rest):
            rest, size = match[1], int(match[2])
        path, _, to = rest.partition(" -> ")
        path, to = (text.removeprefix(folder).removeprefix("/") or "." if text else ""
                    for text in (path, to))
        return Call(int(number), name, path, to, size)


def content(folder):
    """Every file below a folder: name and bytes, the same wherever the folder is."""
    return {str(path.relative_to(folder)): path.read_bytes().replace(os.fsencode(folder), b"FOLDER")
            for path in sorted(folder.rglob("*")) if path.is_file()}


def digest(files):
    """One number for the same files with the same bytes."""
    whole = hashlib.sha256()
    for name, data in files.items():
        whole.update(f"{name} {len(data)}\n".encode() + data)
    return whole.digest()


def differences(found, expected):
    """What is other than expected among files, in words; empty where nothing is."""
    words = [f"{name} is missing" for name in expected if name not in found]
    words += [f"there is {name}" for name in found if name not in expected]
    words += [f"{name} differs" for name in expected
              if name in found and found[name] != expected[name]]
    return "; ".join(words)


def in_parallel(function, items):
    """What the function finds for each item: (where, what is wrong), or nothing."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [finding for finding in pool.map(function, items) if finding]


def report(test, what, attempts, findings):
    """Fails a test with its findings, once each; the whole run counts the attempts."""
    if ALL:
        print(f"{what}: {attempts} attempts, {len(findings)} findings", file=sys.stderr, flush=True)
    grouped = {}
    for where, problem in findings:
        grouped.setdefault(problem, []).append(where)
    if findings:
        test.fail(f"{what}: {len(findings)} findings in {attempts} attempts" + "".join(
            f"\n- {problem}\n  {len(places)} times; {places[0]}"
            for problem, places in grouped.items()))


def without_times(line):
    """A line of a log without what a clock says in it; half a line as it is."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    return json.dumps({name: value for name, value in entry.items() if "seconds" not in name})
