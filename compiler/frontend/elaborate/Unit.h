//===- Unit.h - a file with what it declares --------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_UNIT_H
#define TFM_FRONTEND_ELABORATE_UNIT_H

#include "compiler/frontend/syntax/Ast.h"
#include "llvm/ADT/StringMap.h"

#include <memory>
#include <string>
#include <vector>

namespace tfm {

struct Const;

/// A file with what it declares.
struct Unit {
  std::unique_ptr<ast::File> ast;
  uint32_t file = 0;
  /// Folder of the file; empty for standard input and for std.
  std::string folder;
  bool isStd = false;
  std::vector<const Unit *> imports;
  llvm::StringMap<const ast::Module *> modules;
  llvm::StringMap<const ast::Method *> functions;
  llvm::StringMap<Const *> constants;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_UNIT_H
