#!/usr/bin/env python3
"""Runs the tests of a finished build and counts them.

Three kinds, each asked for its own machine-readable results, so that the counts
are of individual tests:

  lit         tests/lit, through LLVM's lit
  GoogleTest  every program in build/<preset>/tests
  end to end  tests/e2e/test_*.py (unittest) and tests/e2e/*.sh (one test each)

A program that crashes before it wrote its results counts as one failed test.
The last line is `N passed, N failed`; the one before it says how many were
skipped.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIT = "/usr/lib/llvm-22/bin/lit"
# No single program takes longer; a hang must not eat the whole run.
TIMEOUT_SECONDS = 900
# Programs that run once more, and which of their tests do: for the target cuda, whose kernels run in an
# emulator, also those that GPUs of 9.0 have, and in the code of an older CPU, where this one runs it.
AGAIN = {"cuda": {"program_test": "*", "optimizer_test": "*", "ends_test": "*", "cs444_test": "*/Cs444.Compiled/*",
                  "random_model_test": "*/f32:*/bf16*:*/int8Cache:*/int4Weights:Small/*",
                  "decode_test": "*InSegments/LearnedPositions:*InSegments/RingOfGroups:*OfForward/Recurrences",
                  "random_compiled_test": "AttentionCompiled.*OfBf16:*InParts:GroupsCompiled.*:ScanCompiled.*"},
         "cuda:sm_90a": {"random_compiled_test": "AttentionCompiled.OfBf16:AttentionCompiled.TilesOfBf16"}}
if platform.machine() == "x86_64":
    AGAIN["x86-64-v3"] = {"random_model_test": "*/int8*:*/int4*:Small/*"}
# End-to-end tests that keep one core busy, as the emulator does. The others use every core for moments,
# and wait or compile on one in between: two at a time.
ON_ONE_CORE = {"test_cuda.py"}


class Outcome:
    """What one group of tests came to, and what to show of it."""

    def __init__(self, name, passed=0, failed=0, skipped=0, output=""):
        self.name = name
        self.passed = passed
        self.failed = failed
        self.skipped = skipped
        self.output = output
        self.seconds = 0.0


# In the sanitize preset: LLVM's archives are built without the address
# sanitizer, so containers that cross into them look damaged; and a stack of
# returned functions for each of the emulator's threads would be tens of GB.
os.environ.setdefault("ASAN_OPTIONS", "detect_container_overflow=0:allow_user_poisoning=0:"
                      "detect_stack_use_after_return=0")


def run(command, environment=None):
    """Runs a command; returns (exit status or None for a timeout, its output)."""
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired as expired:
        return None, (expired.output or b"").decode(errors="replace") + "\ntimed out\n"
    return done.returncode, done.stdout.decode(errors="replace")


def run_lit(build, results):
    """tests/lit through lit; its JSON has one entry per test."""
    answer = results / "lit.json"
    status, output = run([LIT, "-s", "-v", "--no-progress-bar", "-o", str(answer), "--param", f"build={build}",
                          str(ROOT / "tests" / "lit")])
    outcome = Outcome("lit", output=output)
    try:
        tests = json.loads(answer.read_text())["tests"]
    except (OSError, ValueError, KeyError):
        outcome.failed = 1
        return outcome
    for test in tests:
        if test["code"] == "PASS":
            outcome.passed += 1
        elif test["code"] in ("UNSUPPORTED", "SKIPPED", "EXCLUDED"):
            outcome.skipped += 1
        else:
            outcome.failed += 1
    if status != 0 and outcome.failed == 0:
        outcome.failed = 1
    return outcome


def run_googletest(program, results, target="cpu"):
    """One GoogleTest program; its JSON has one entry per test."""
    name = program.name if target == "cpu" else f"{program.name} ({target})"
    answer = results / f"{name}.json"
    tests = "*" if target == "cpu" else AGAIN[target][program.name]
    chosen = {"TFM_TEST_CPU" if target.startswith("x86") else "TFM_TEST_TARGET": target}
    status, output = run([str(program), f"--gtest_output=json:{answer}", "--gtest_brief=1",
                          f"--gtest_filter={tests}"], dict(os.environ, **chosen))
    outcome = Outcome(name, output=output)
    try:
        suites = json.loads(answer.read_text())["testsuites"]
    except (OSError, ValueError, KeyError):
        outcome.failed = 1
        return outcome
    for suite in suites:
        for test in suite["testsuite"]:
            if test.get("failures"):
                outcome.failed += 1
            elif test["result"] == "SKIPPED" or test["status"] != "RUN":
                outcome.skipped += 1
            else:
                outcome.passed += 1
    if status != 0 and outcome.failed == 0:
        outcome.failed = 1
    return outcome


def run_end_to_end(test, build, results):
    """One end-to-end file. A Python one writes its counts where
    TFM_TEST_RESULTS says (tests/e2e/support.py); a shell one is one test."""
    answer = results / f"{test.name}.json"
    environment = dict(os.environ, TFM_BUILD=str(build), TFM_TEST_RESULTS=str(answer))
    shell = test.suffix == ".sh"
    status, output = run([str(test)] if shell else [sys.executable, str(test)], environment)
    outcome = Outcome(test.name, output=output)
    if shell:
        outcome.passed, outcome.failed = (1, 0) if status == 0 else (0, 1)
        return outcome
    try:
        counts = json.loads(answer.read_text())
        outcome.passed, outcome.failed = counts["passed"], counts["failed"]
        outcome.skipped = counts["skipped"]
    except (OSError, ValueError, KeyError):
        outcome.failed = 1
    if status != 0 and outcome.failed == 0:
        outcome.failed = 1
    return outcome


def timed(function, *arguments):
    start = time.monotonic()
    outcome = function(*arguments)
    outcome.seconds = time.monotonic() - start
    return outcome


def show(outcome):
    skipped = f", {outcome.skipped} skipped" if outcome.skipped else ""
    print(f"{outcome.name:<36} {outcome.passed:>5} passed, {outcome.failed} failed{skipped}"
          f"   {outcome.seconds:6.1f} s", flush=True)
    if outcome.failed:
        print(outcome.output, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=ROOT / "build" / "release", type=pathlib.Path)
    parser.add_argument("--only", choices=["lit", "unit", "e2e"], action="append",
                        help="run only tests of this kind (repeatable)")
    options = parser.parse_args()
    build = options.build.resolve()
    kinds = options.only or ["lit", "unit", "e2e"]

    outcomes = []

    def note(outcome):
        show(outcome)
        outcomes.append(outcome)

    def note_all(tests, at_a_time):
        with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
            futures = [pool.submit(timed, *test) for test in tests]
            for future in concurrent.futures.as_completed(futures):
                note(future.result())

    with tempfile.TemporaryDirectory(prefix="tfm-tests-") as folder:
        results = pathlib.Path(folder)
        if "lit" in kinds:
            note(timed(run_lit, build, results))
        # Those on one core, as many at a time as there are; what takes long comes first.
        beside = []
        end_to_end = []
        if "e2e" in kinds:
            tests = sorted((ROOT / "tests" / "e2e").glob("test_*.py"))
            tests += sorted((ROOT / "tests" / "e2e").glob("*.sh"))
            for test in tests:
                (beside if test.name in ON_ONE_CORE else end_to_end).append((run_end_to_end, test, build, results))
        if "unit" in kinds:
            programs = sorted(path for path in (build / "tests").glob("*")
                              if path.is_file() and os.access(path, os.X_OK))
            if not programs:
                note(Outcome("unit", failed=1, output=f"no test programs in {build / 'tests'}\n"))
            beside += [(run_googletest, program, results, target)
                       for target, again in AGAIN.items() for program in programs if program.name in again]
            beside += [(run_googletest, program, results) for program in programs]
        note_all(beside, os.cpu_count())
        note_all(end_to_end, 2)

    passed = sum(outcome.passed for outcome in outcomes)
    failed = sum(outcome.failed for outcome in outcomes)
    skipped = sum(outcome.skipped for outcome in outcomes)
    print(f"{skipped} skipped")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
