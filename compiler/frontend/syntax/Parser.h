//===- Parser.h - tokens to the syntax tree ---------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_SYNTAX_PARSER_H
#define TFM_FRONTEND_SYNTAX_PARSER_H

#include "compiler/frontend/syntax/Ast.h"

namespace tfm {

/// Parses a whole file. Syntax errors (E01xx) are reported and skipped up to
/// the next statement, member or item, so that one run reports several; the
/// tree holds what could be understood.
std::unique_ptr<ast::File> parseFile(const SourceManager &sources,
                                     uint32_t file, Diagnostics &diags);

/// Parses a text that is one expression from the byte `begin` on, as `-D
/// name=value` has it; its nodes go to `owner`. Null after an error.
ast::Expr *parseExpression(const SourceManager &sources, uint32_t file,
                           ast::File &owner, Diagnostics &diags,
                           uint32_t begin = 0);

} // namespace tfm

#endif // TFM_FRONTEND_SYNTAX_PARSER_H
