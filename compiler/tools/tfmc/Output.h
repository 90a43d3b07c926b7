//===- Output.h - where a command writes its result -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TOOLS_TFMC_OUTPUT_H
#define TFM_TOOLS_TFMC_OUTPUT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include <string>

namespace tfm {

/// Standard error, for texts with names from files in them: what a terminal
/// would obey is replaced.
llvm::raw_ostream &messages();

/// Whether writing `output` would destroy one of the files that a command
/// reads; says so.
bool isInput(llvm::StringRef output, llvm::ArrayRef<std::string> inputs);

/// Writes `text` to a file, or to standard output where `path` is empty or `-`.
/// On failure prints a message that names the file, and returns false.
bool writeOutput(llvm::StringRef path, llvm::StringRef text);

/// Gives a file that exists new contents, all or nothing: they are written
/// beside it and renamed, with its permissions; behind a link the file itself
/// is replaced. On failure prints a message and returns false.
bool replaceFile(llvm::StringRef path, llvm::StringRef text);

} // namespace tfm

#endif // TFM_TOOLS_TFMC_OUTPUT_H
