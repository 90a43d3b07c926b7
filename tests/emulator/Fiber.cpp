//===- Fiber.cpp - stacks to switch between -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/emulator/Fiber.h"

#include <cstdint>
#include <cstring>

#if __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
// What the compiler calls where a scope begins. ASAN_UNPOISON_MEMORY_REGION is
// of no effect where users may not poison memory (scripts/run_tests.py).
extern "C" void __asan_unpoison_stack_memory(uintptr_t begin, size_t size);
#endif

using namespace tfm::emulator;

/// A fiber that ended has not left its functions: what the address sanitizer
/// keeps away from on their part of the stack would be that of the next one.
static void forgetFrames([[maybe_unused]] char *stack,
                         [[maybe_unused]] size_t size) {
#if __has_feature(address_sanitizer)
  __asan_unpoison_stack_memory(reinterpret_cast<uintptr_t>(stack), size);
#endif
}

#ifdef __x86_64__

// Pushes the registers that a callee keeps, stores the stack's top at `from`
// and goes on with what was pushed at `to`. A switch of `swapcontext` takes
// four times as long: it calls the kernel for the mask of signals.
extern "C" void tfmSwitchStacks(void **from, void *to);
asm(R"(
  .text
  .type tfmSwitchStacks, @function
tfmSwitchStacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size tfmSwitchStacks, .-tfmSwitchStacks
)");

void Fiber::start(char *stack, size_t size, void (*entry)()) {
  bottom = stack;
  this->size = size;
  fakeStack = nullptr;
  forgetFrames(stack, size);
  // Six registers, `entry` to return to, and what looks like the address that
  // it was called from: the stack is 8 bytes off a multiple of 16, as after a
  // call.
  auto *end = reinterpret_cast<uintptr_t *>(stack + size) - 1;
  std::memset(end - 7, 0, 8 * sizeof(uintptr_t));
  end[-1] = reinterpret_cast<uintptr_t>(entry);
  top = end - 7;
}

#else

void Fiber::start(char *stack, size_t size, void (*entry)()) {
  bottom = stack;
  this->size = size;
  fakeStack = nullptr;
  forgetFrames(stack, size);
  getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = size;
  context.uc_link = nullptr;
  makecontext(&context, entry, 0);
}

#endif

void Fiber::arrived([[maybe_unused]] Fiber &from) {
#if __has_feature(address_sanitizer)
  __sanitizer_finish_switch_fiber(nullptr, &from.bottom, &from.size);
#endif
}

void Fiber::resume(Fiber &from) {
#if __has_feature(address_sanitizer)
  __sanitizer_start_switch_fiber(&from.fakeStack, bottom, size);
#endif
#ifdef __x86_64__
  tfmSwitchStacks(&from.top, top);
#else
  swapcontext(&from.context, &context);
#endif
#if __has_feature(address_sanitizer)
  // Back on the stack of `from`.
  __sanitizer_finish_switch_fiber(from.fakeStack, nullptr, nullptr);
#endif
}
