//===- PrintAst.h - the syntax tree as text ---------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_SYNTAX_PRINTAST_H
#define TFM_FRONTEND_SYNTAX_PRINTAST_H

#include "compiler/frontend/syntax/Ast.h"

namespace tfm {

/// An expression with every operation in parentheses: `(a + (b * c))`.
std::string printExpr(const ast::Expr &expr);

/// The items of a file, one declaration or statement a line, nested by
/// indentation; without comments and places. Two texts mean the same where
/// their trees print alike.
std::string printAst(const ast::File &file);

} // namespace tfm

#endif // TFM_FRONTEND_SYNTAX_PRINTAST_H
