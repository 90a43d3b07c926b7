#!/usr/bin/env python3
"""Repeats on a GPU what kernels did in the emulator: launches that tests recorded (TFM_RECORD_LAUNCHES=FOLDER), with
the driver alone.

    TFM_RECORD_LAUNCHES=launches build/release/tests/cuda_product_test
    python3 tests/emulator/replay.py launches

A line for each kernel that does not do the same: how many of the bytes of its buffers differ, and by how much where
these are floats or bf16. Sums of tensor cores have an order of their own, so that numbers may differ in their last
bits; integers, of which most tests are made, may not. The exit status is 1 where a kernel fails or is far off."""

import argparse
import array
import ctypes
import json
import math
import os
import sys
from pathlib import Path

# Relative to the largest number of a buffer: sums in bf16 may differ by so much, and what is wrong does by far more.
TOLERANCE = 0.02
MAX_DYNAMIC_SHARED = 8
BF16, SWIZZLE_128, PROMOTION_256 = 9, 3, 3
ERROR_LOG, ERROR_LOG_BYTES = 5, 6


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    driver = Driver()
    print(f"{driver.name}, compute capability {driver.capability[0]}.{driver.capability[1]}")
    heads = [(path, json.loads(path.read_text())) for path in folder.glob("*launch-*.json")]
    heads.sort(key=lambda entry: (entry[1]["ptx"], entry[0].name))
    if not heads:
        sys.exit(f"there are no launches in {folder}")
    counts = dict.fromkeys(("the same", "close", "wrong", "not of this GPU"), 0)
    loaded = module = None
    for path, head in heads:
        if ".sm_90a." in head["ptx"] and driver.capability != (9, 0):
            counts["not of this GPU"] += 1
            continue
        label = f"{path.stem} {head['name']} of {head['ptx']}, grid {head['grid']}, block {head['block']}"
        if loaded != head["ptx"]:
            if module:
                driver.call("cuModuleUnload", module)
            # Of the emulator's driver, which knows no PTX.
            os.environ["TFM_EMULATED_KERNELS"] = str(folder / head["kernels"])
            ctypes.CDLL(None).setenv(b"TFM_EMULATED_KERNELS", str(folder / head["kernels"]).encode(), 1)
            loaded, module = head["ptx"], driver.load((folder / head["ptx"]).read_bytes())
        head["module"] = module
        data = path.with_suffix(".bin").read_bytes()
        half = sum(head["buffers"])
        try:
            after = launch(driver, head, data[:half])
        except RuntimeError as error:
            print(f"FAILED {label}: {error}")
            # Nothing runs in this context any more.
            sys.exit(1)
        if after == data[half:]:
            counts["the same"] += 1
            continue
        at = far = 0
        for size in head["buffers"]:
            far = max(far, distance(data[half + at:half + at + size], after[at:at + size]))
            at += size
        differs = sum(x != y for x, y in zip(after, data[half:]))
        counts["close" if far <= TOLERANCE else "wrong"] += 1
        print(f"{'close ' if far <= TOLERANCE else 'WRONG '} {label}: {differs} bytes differ, by {far:.2g} of the largest")
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    sys.exit(1 if counts["wrong"] else 0)


if __name__ == "__main__":
    main()
