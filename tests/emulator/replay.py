#!/usr/bin/env python3
"""Repeats on a GPU what kernels did in the emulator: launches that tests recorded (TFM_RECORD_LAUNCHES=FOLDER), with
the driver alone.

    TFM_RECORD_LAUNCHES=launches build/release/tests/cuda_product_test
    python3 tests/emulator/replay.py launches

A line for each kernel that does not do the same: how many of the bytes of its buffers differ, and by how much where
these are floats or bf16. Sums of tensor cores have an order of their own, so that numbers may differ in their last
bits; integers, of which most tests are made, may not.

The launches of a file of PTX have a process of their own, which ends with the first that fails, or that takes longer
than --timeout seconds: nothing runs in its context any more, but the next file's do, and another process goes on
behind that launch. Kernels for all GPUs come first. The exit status is 1 where a kernel fails, hangs or is far off."""

import argparse
import array
import ctypes
import json
import math
import os
import subprocess
import sys
import threading
from pathlib import Path

# Relative to the largest number of a buffer: sums in bf16 may differ by so much, and what is wrong does by far more.
TOLERANCE = 0.02
MAX_DYNAMIC_SHARED = 8
BF16, SWIZZLE_128, PROMOTION_256 = 9, 3, 3
ERROR_LOG, ERROR_LOG_BYTES = 5, 6
HANGS = 3
KINDS = ("the same", "close", "wrong", "failed", "hanging", "not of this GPU")


class Driver:
    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, 255, device)
        self.name = name.value.decode()
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(major), 75, device)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), 76, device)
        self.capability = (major.value, minor.value)
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)

    def wait(self):
        self.call("cuStreamSynchronize", self.stream)

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def pinned(self, size):
        address = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size), 0)
        return address

    def write(self, to, data):
        through = self.pinned(len(data))
        ctypes.memmove(through, data, len(data))
        self.call("cuMemcpyHtoDAsync_v2", to, through, ctypes.c_size_t(len(data)), self.stream)
        self.wait()
        self.call("cuMemFreeHost", through)

    def read(self, address, size):
        through = self.pinned(size)
        self.call("cuMemcpyDtoHAsync_v2", through, address, ctypes.c_size_t(size), self.stream)
        self.wait()
        data = ctypes.string_at(through, size)
        self.call("cuMemFreeHost", through)
        return data

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(result, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'?').decode()}")

    def load(self, ptx):
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(ERROR_LOG, ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), 8192)
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), ptx + b"\0", 2, options, values)
        except RuntimeError as error:
            raise RuntimeError(f"{error} {log.value.decode()}") from None
        return module


def launch(driver, head, before):
    """The bytes of all buffers when the kernel has run."""
    buffers, at = [], 0
    for size in head["buffers"]:
        buffers.append(driver.allocate(size))
        driver.write(buffers[-1], before[at:at + size])
        at += size
    function, kept = ctypes.c_void_p(), []
    driver.call("cuModuleGetFunction", ctypes.byref(function), head["module"], head["name"].encode())
    if head["shared"]:
        driver.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, head["shared"])
    for argument in head["arguments"]:
        if "number" in argument:
            kept.append(ctypes.c_uint64(argument["number"]))
            continue
        address = ctypes.c_uint64(buffers[argument["buffer"]].value + argument["offset"])
        kept.append(address if "box" not in argument else tensor_map(driver, address, argument))
    parameters = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(value) for value in kept))
    driver.call("cuLaunchKernel", function, *head["grid"], *head["block"], head["shared"], driver.stream, parameters, None)
    driver.wait()
    after = b"".join(driver.read(address, size) for address, size in zip(buffers, head["buffers"]))
    for address in buffers:
        driver.call("cuMemFree_v2", address)
    return after


def tensor_map(driver, address, tensor):
    rank = len(tensor["sizes"])
    storage = ctypes.create_string_buffer(128 + 64)
    aligned = (ctypes.c_char * 128).from_buffer(storage, -ctypes.addressof(storage) % 64)
    driver.call("cuTensorMapEncodeTiled", aligned, BF16, rank, address, (ctypes.c_uint64 * rank)(*tensor["sizes"]),
                (ctypes.c_uint64 * max(1, rank - 1))(*tensor["strides"]), (ctypes.c_uint32 * rank)(*tensor["box"]),
                (ctypes.c_uint32 * rank)(*[1] * rank), 0, SWIZZLE_128, PROMOTION_256, 0)
    return aligned


def numbers(kind, data):
    if kind == "bf16":
        wide = array.array("I", (half << 16 for half in array.array("H", data[:len(data) // 2 * 2])))
        return array.array("f", wide.tobytes())
    return array.array("f", data[:len(data) // 4 * 4])


def looks_like(data):
    """What a buffer holds, by the bits of the numbers that were expected."""
    words = array.array("I", data[:len(data) // 4 * 4])
    # As floats small integers, ids and counts, would be denormal, and negative ones none.
    if all(word < 1 << 23 or word > 0xFF800000 for word in words):
        return "integers"
    # The lower halves of floats have any exponents.
    halves = [half >> 7 & 0xFF for half in array.array("H", data[:len(data) // 2 * 2]) if half & 0x7FFF]
    sensible = sum(127 - 48 <= exponent <= 127 + 48 or exponent == 0xFF for exponent in halves)
    return "bf16" if sensible >= 0.95 * len(halves) else "f32"


def distance(expected, found):
    """By how much numbers differ at most, relative to the largest of them; of integers infinitely."""
    kind = looks_like(expected)
    if kind == "integers":
        return math.inf if expected != found else 0.0
    one, other = numbers(kind, expected), numbers(kind, found)
    largest = max((abs(x) for x in one if math.isfinite(x)), default=0.0)
    worst = 0.0
    for x, y in zip(one, other):
        if x == y or (math.isnan(x) and math.isnan(y)):
            continue
        worst = max(worst, abs(x - y) / largest if largest and math.isfinite(x - y) else math.inf)
    return worst


def tell(kind, text=""):
    """What a launch came to, and what there is to say of it, to the process that asked."""
    print(json.dumps([kind, text]), flush=True)


def give_up(label, seconds, ended):
    """Ends this process, unless the launch has just ended: whatever would clean up waits for the kernel."""
    if ended.acquire(blocking=False):
        tell("hanging", f"HANGS  {label}: for {seconds:g} seconds")
        os._exit(HANGS)


def repeat(folder, ptx, names, patience):
    """Repeats launches of one file of PTX, up to the first that fails."""
    driver = Driver()
    module = None
    for name in names:
        path = folder / f"{name}.json"
        head = json.loads(path.read_text())
        label = f"{name} {head['name']} of {ptx}, grid {head['grid']}, block {head['block']}"
        data = path.with_suffix(".bin").read_bytes()
        half = sum(head["buffers"])
        # Who has it tells what the launch came to: who comes late waits for the end of this process.
        ended = threading.Lock()
        try:
            # Its translation may take longer than any launch.
            head["module"] = module = module or driver.load((folder / ptx).read_bytes())
            watch = threading.Timer(patience, give_up, (label, patience, ended))
            watch.start()
            after = launch(driver, head, data[:half])
            ended.acquire()
            watch.cancel()
        except RuntimeError as error:
            ended.acquire()
            tell("failed", f"FAILED {label}: {error}")
            os._exit(1)
        if after == data[half:]:
            tell("the same")
            continue
        at = far = 0
        for size in head["buffers"]:
            far = max(far, distance(data[half + at:half + at + size], after[at:at + size]))
            at += size
        differs = sum(x != y for x, y in zip(after, data[half:]))
        kind = "close" if far <= TOLERANCE else "wrong"
        tell(kind, f"{'close ' if kind == 'close' else 'WRONG '} {label}: {differs} bytes differ, by {far:.2g} of the largest")


def repeat_elsewhere(folder, ptx, names, patience):
    """The same in processes of their own; yields what each launch came to, of those that there was a process for."""
    kernels = json.loads((folder / f"{names[0]}.json").read_text())["kernels"]
    # Of the emulator's driver, which knows no PTX.
    environment = dict(os.environ, TFM_EMULATED_KERNELS=str(folder / kernels))
    while names:
        child = subprocess.Popen([sys.executable, __file__, folder, "--timeout", str(patience), "--only", ptx, *names],
                                 stdout=subprocess.PIPE, text=True, env=environment)
        told = 0
        for line in child.stdout:
            told += 1
            yield json.loads(line)
        if child.wait() == 0 and told == len(names):
            return
        # It may have ended without a word, by a signal.
        if told < len(names) and (told == 0 or child.returncode not in (1, HANGS)):
            yield "failed", f"FAILED {names[told]} of {ptx}: its process ends with {child.returncode}"
            told += 1
        names = names[told:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--timeout", type=float, default=20, metavar="SECONDS", help="of a launch (default: 20)")
    # What processes of its own are told: a file, and its launches.
    parser.add_argument("--only", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder = arguments.folder
    if arguments.only:
        return repeat(folder, arguments.only[0], arguments.only[1:], arguments.timeout)
    files = {}
    for path in sorted(folder.glob("*launch-*.json")):
        files.setdefault(json.loads(path.read_text())["ptx"], []).append(path.stem)
    if not files:
        sys.exit(f"there are no launches in {folder}")
    driver = Driver()
    print(f"{driver.name}, compute capability {driver.capability[0]}.{driver.capability[1]}", flush=True)
    counts = dict.fromkeys(KINDS, 0)
    for ptx in sorted(files, key=lambda name: (".sm_90a." in name, name)):
        if ".sm_90a." in ptx and driver.capability != (9, 0):
            counts["not of this GPU"] += len(files[ptx])
            continue
        for kind, text in repeat_elsewhere(folder, ptx, files[ptx], arguments.timeout):
            counts[kind] += 1
            if text:
                print(text, flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["wrong"] or counts["failed"] or counts["hanging"] else 0


if __name__ == "__main__":
    sys.exit(main())
