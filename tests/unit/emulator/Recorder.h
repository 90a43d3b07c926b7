//===- Recorder.h - launches to be repeated on a GPU ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_EMULATOR_RECORDER_H
#define TFM_TESTS_UNIT_EMULATOR_RECORDER_H

namespace tfm::emulator {

/// Where TFM_RECORD_LAUNCHES names a folder, writes there what is launched in
/// the emulator from now on, for tests/emulator/replay.py to repeat on a GPU:
/// the kernels as PTX, and of every kernel's first launches what buffers held
/// before and after.
void recordLaunches();

} // namespace tfm::emulator

#endif // TFM_TESTS_UNIT_EMULATOR_RECORDER_H
