//===- BuildOutput.h - where a build writes ---------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DRIVER_BUILDOUTPUT_H
#define TFM_DRIVER_BUILDOUTPUT_H

#include "compiler/driver/Build.h"

namespace tfm {

class SourceManager;

/// Goes to the reader where no file is named.
bool isText(Emit emit);
/// A program or a library, by the system's linker.
bool isLinked(Emit emit);

/// Where a build writes: `-` is standard output.
std::string outputOf(const BuildOptions &options);

/// Whether nothing is lost with a file but what `emit` has written earlier:
/// trees, modules and PTX begin as no source or text of somebody does. Throws
/// InputError.
bool isEarlier(llvm::StringRef path, Emit emit);

/// What keeps a build from writing to a path; else empty.
std::string whyNotWritten(llvm::StringRef path, Emit emit,
                          const SourceManager &sources);

/// Where `Emit::Asm` puts forms of kernels for sm_90a: `kernels.sm_90a.ptx`
/// beside `kernels.ptx`; nowhere, empty, beside what is no file, or what
/// standard output was redirected to.
std::string formsPath(llvm::StringRef path);

} // namespace tfm

#endif // TFM_DRIVER_BUILDOUTPUT_H
