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

/// Links object files with the runtime into an executable at `output`, or alone
/// into a shared library, by the system's C++ compiler as linker driver.
llvm::Error link(std::vector<llvm::StringRef> objects, llvm::StringRef output,
                 bool shared);

} // namespace tfm

#endif // TFM_DRIVER_LINK_H
