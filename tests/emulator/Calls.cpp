//===- Calls.cpp - what kernels call --------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/emulator/Lower.h"

#include "runtime/support/float16.h"

#include <cmath>

using namespace tfm::emulator;

namespace {

Machine &machine() { return Machine::running(); }

uint32_t special(uint32_t index) { return machine().special(index); }

void access(Site site, uint64_t address, uint32_t size, uint32_t alignment,
            uint32_t writes) {
  machine().access(site, address, size, alignment, writes);
}

void collective(Site site, uint32_t op, uint32_t kind, uint32_t mask,
                uint32_t *words) {
  machine().collective(site, static_cast<WarpOp>(op), kind, mask, words);
}

void barrier(Site site, uint32_t id, uint32_t count, uint32_t waits) {
  machine().barrier(site, id, count, waits);
}

void copyAsync(Site site, uint64_t to, uint64_t from, uint32_t size,
               uint32_t sourceSize) {
  machine().copyAsync(site, to, from, size, sourceSize);
}

void commitCopies() { machine().commitCopies(); }

void awaitCopies(uint32_t groups) { machine().awaitCopies(groups); }

void fenceAsync() { machine().fenceAsync(); }

void initBarrier(Site site, uint64_t address, uint32_t count) {
  machine().initBarrier(site, address, count);
}

void invalidateBarrier(Site site, uint64_t address) {
  machine().invalidateBarrier(site, address);
}

uint64_t arrive(Site site, uint64_t address, uint32_t count) {
  return machine().arrive(site, address, count);
}

void arriveWithCopies(Site site, uint64_t address, uint32_t counted) {
  machine().arriveWithCopies(site, address, counted);
}

uint64_t arriveBefore(Site site, uint64_t address, uint32_t bytes) {
  return machine().arriveBefore(site, address, bytes);
}

void fenceBarriers() { machine().fenceBarriers(); }

void copyBox(Site site, uint64_t to, const TensorMap *tensor, uint64_t barrier,
             int32_t x, int32_t y, int32_t z, int32_t v, int32_t w) {
  machine().copyBox(site, to, *tensor, {x, y, z, v, w}, barrier);
}

void awaitParity(Site site, uint64_t address, uint32_t parity) {
  machine().awaitParity(site, address, parity);
}

uint32_t testPhase(Site site, uint64_t address, uint64_t phase,
                   uint32_t isParity) {
  return machine().testPhase(site, address, phase, isParity);
}

// There is one NaN (PTX ISA, cvt: "the result is canonical NaN").
uint32_t roundToBF16(float value) {
  return std::isnan(value) ? 0x7FFFu : tfm::toBFloat16(value);
}

// What the hardware approximates to 22 bits or so is exact here.
float exp2Approx(float x) { return std::exp2(x); }
float log2Approx(float x) { return std::log2(x); }
float rsqrtApprox(float x) { return 1.0f / std::sqrt(x); }
float sqrtApprox(float x) { return std::sqrt(x); }
float rcpApprox(float x) { return 1.0f / x; }
float tanhApprox(float x) { return std::tanh(x); }
float sinApprox(float x) { return std::sin(x); }
float cosApprox(float x) { return std::cos(x); }

template <typename Function> void *address(Function *function) {
  return reinterpret_cast<void *>(function);
}

const HostFunction functions[] = {
    {"emulator.special", address(special)},
    {"emulator.access", address(access)},
    {"emulator.collective", address(collective)},
    {"emulator.barrier", address(barrier)},
    {"emulator.copy_async", address(copyAsync)},
    {"emulator.commit_copies", address(commitCopies)},
    {"emulator.await_copies", address(awaitCopies)},
    {"emulator.fence_async", address(fenceAsync)},
    {"emulator.init_barrier", address(initBarrier)},
    {"emulator.invalidate_barrier", address(invalidateBarrier)},
    {"emulator.arrive", address(arrive)},
    {"emulator.arrive_with_copies", address(arriveWithCopies)},
    {"emulator.arrive_before", address(arriveBefore)},
    {"emulator.fence_barriers", address(fenceBarriers)},
    {"emulator.copy_box", address(copyBox)},
    {"emulator.await_parity", address(awaitParity)},
    {"emulator.test_phase", address(testPhase)},
    {"emulator.round_to_bf16", address(roundToBF16)},
    {"emulator.ex2.approx", address(exp2Approx)},
    {"emulator.lg2.approx", address(log2Approx)},
    {"emulator.rsqrt.approx", address(rsqrtApprox)},
    {"emulator.sqrt.approx", address(sqrtApprox)},
    {"emulator.rcp.approx", address(rcpApprox)},
    {"emulator.tanh.approx", address(tanhApprox)},
    {"emulator.sin.approx", address(sinApprox)},
    {"emulator.cos.approx", address(cosApprox)},
};

} // namespace

const llvm::ArrayRef<HostFunction> tfm::emulator::hostFunctions(functions);
