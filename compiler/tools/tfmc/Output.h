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
/// reads, or may, as the system cannot tell; says so. Those of a folder, and
/// the parts of a file, are all that `isReadOf` knows.
bool isInput(llvm::StringRef output, llvm::ArrayRef<std::string> inputs);

/// Whether `output` is the file of a model, which what is none would destroy;
/// says so.
bool isModelFile(llvm::StringRef output);

/// Whether there is a file with another text than `text`, which would be lost;
/// says so.
bool saysOther(const std::string &path, llvm::StringRef text);

/// Writes `text` to standard output where `path` is empty, else as `writeWhole`
/// does. On failure prints a message that names the file, and returns false.
bool writeOutput(llvm::StringRef path, llvm::StringRef text);

} // namespace tfm

#endif // TFM_TOOLS_TFMC_OUTPUT_H
