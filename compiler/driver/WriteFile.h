//===- WriteFile.h - files that are written whole or not at all -*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DRIVER_WRITEFILE_H
#define TFM_DRIVER_WRITEFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tfm {

/// Whether there is something at `path` that is no regular file: a terminal, a
/// pipe, /dev/null. It is written to as it is, and never replaced.
bool isDevice(llvm::StringRef path);

/// Writes `bytes` to standard output where `path` is `-` or `/dev/stdout`, else
/// to a file as the runtime's AtomicFile does, whole or not at all, and
/// never to one of a run. Errors say what cannot be written, and why.
llvm::Error writeWhole(llvm::StringRef path, llvm::StringRef bytes);

} // namespace tfm

#endif // TFM_DRIVER_WRITEFILE_H
