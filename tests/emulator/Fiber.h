//===- Fiber.h - stacks to switch between -----------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_EMULATOR_FIBER_H
#define TFM_TESTS_EMULATOR_FIBER_H

#include <cstddef>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace tfm::emulator {

/// A place in a program with a stack of its own, which goes on where it was
/// left. One that is not finished may be forgotten: nothing on its stack is
/// destroyed.
class Fiber {
public:
  /// The program that is running: its stack is the one it has.
  Fiber() = default;

  /// Makes `entry` run on the `size` bytes at `stack` at the first switch to
  /// this fiber. It must not return.
  void start(char *stack, size_t size, void (*entry)());

  /// What `entry` calls first, with the fiber that it was switched to from.
  static void arrived(Fiber &from);

  /// Leaves the running fiber, which is `from`, and goes on with this one.
  void resume(Fiber &from);

private:
#ifdef __x86_64__
  /// Where registers were pushed when the fiber was left.
  void *top = nullptr;
#else
  ucontext_t context;
#endif
  // What the address sanitizer wants to know of a stack.
  const void *bottom = nullptr;
  size_t size = 0;
  void *fakeStack = nullptr;
};

} // namespace tfm::emulator

#endif // TFM_TESTS_EMULATOR_FIBER_H
