//===- Embedded.h - files that are part of the compiler ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_EMBEDDED_H
#define TFM_FRONTEND_EMBEDDED_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace tfm {

/// The contents of an embedded file (`Linear.tfm`, `E0203.md`) by its name
/// without folder; a null reference where there is none.
llvm::StringRef embeddedFile(llvm::StringRef name);

/// Names of all embedded files, sorted.
llvm::ArrayRef<llvm::StringRef> embeddedFileNames();

/// The same for the families: `llama.json`, `llama.tfm`.
llvm::StringRef familyFile(llvm::StringRef name);
llvm::ArrayRef<llvm::StringRef> familyFileNames();

} // namespace tfm

#endif // TFM_FRONTEND_EMBEDDED_H
