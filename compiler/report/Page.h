//===- Page.h - pages for a browser -----------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pages are files of page/, which are part of the compiler. A page is one
// file that loads nothing: its style, its script and its data stand in it.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_REPORT_PAGE_H
#define TFM_REPORT_PAGE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace tfm {

/// A file of page/ by its name, and all their names.
llvm::StringRef pageFile(llvm::StringRef name);
llvm::ArrayRef<llvm::StringRef> pageFileNames();

/// How a page calls a file: as the user did, but of an absolute path only the
/// last `parts` parts. Where it lies on this machine is nothing to others.
std::string nameOnPage(llvm::StringRef path, unsigned parts = 1);

/// Writes page.html with the title, the shared style and script, the script
/// `script` (a file of page/) and `json` as its data.
void writePage(llvm::StringRef title, llvm::StringRef script,
               llvm::StringRef json, llvm::raw_ostream &os);

} // namespace tfm

#endif // TFM_REPORT_PAGE_H
