//===- Link.h - linking object files ----------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DRIVER_LINK_H
#define TFM_DRIVER_LINK_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace tfm {

/// The archive of the runtime: `lib/libtfm_runtime.a` beside or above the
/// running program. Fails where it is not there.
llvm::Expected<std::string> findRuntime();

/// What object files become.
enum class Linked {
  Program,       ///< with the runtime; the C library is the machine's
  StaticProgram, ///< with the runtime and the C library
  Library,       ///< alone
};

/// Links object files into a file at `output`, by the system's C++ compiler as
/// linker driver.
llvm::Error link(std::vector<llvm::StringRef> objects, llvm::StringRef output,
                 Linked kind);

} // namespace tfm

#endif // TFM_DRIVER_LINK_H
