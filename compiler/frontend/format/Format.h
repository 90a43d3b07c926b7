//===- Format.h - the one formatting of .tfm files --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_FORMAT_FORMAT_H
#define TFM_FRONTEND_FORMAT_FORMAT_H

#include "compiler/frontend/Diagnostics.h"

#include <optional>
#include <string>

namespace tfm {

/// A file in the one formatting (docs/language.md, "Formatting"): the same
/// tokens and comments in the same order, with other blanks and line ends. Of
/// the source's layout only three things matter: blank lines between
/// statements, whether a body stands on one line, and on which side of a line
/// end a comment is. Nothing after errors, which are in `diags`.
std::optional<std::string> formatFile(const SourceManager &sources,
                                      uint32_t file, Diagnostics &diags);

} // namespace tfm

#endif // TFM_FRONTEND_FORMAT_FORMAT_H
