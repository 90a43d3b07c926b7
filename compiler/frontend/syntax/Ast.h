//===- Ast.h - the syntax tree ----------------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_SYNTAX_AST_H
#define TFM_FRONTEND_SYNTAX_AST_H

#include "compiler/frontend/syntax/Lexer.h"
#include "llvm/ADT/SmallVector.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tfm::ast {

struct Expr;

/// One argument of a call: `x` or `eps = 1e-5`.
struct Argument {
  /// Empty for a positional argument.
  llvm::StringRef name;
  Range nameRange;
  Expr *value = nullptr;
};

/// One entry of an index: `3`, `:`, `1:`, `:n`, `a:b`.
struct Subscript {
  bool isSlice = false;
  /// The index itself, or the slice's bounds; null where left out.
  Expr *first = nullptr;
  Expr *last = nullptr;
};

enum class ExprKind {
  Integer,
  Float,
  String,
  Name,
  Member,  ///< `kids[0].text`
  Call,    ///< `kids[0](args)`
  Index,   ///< `kids[0][subscripts]`
  Unary,   ///< `text kids[0]`: `-`, `not`
  Binary,  ///< `kids[0] text kids[1]`
  If,      ///< `if kids[0] then kids[1] else kids[2]`
  List,    ///< `[a, b]`
  Tuple,   ///< `(a, b)`, `()`
  Repeat,  ///< `repeat(kids[0]) as text kids[1]`
  Invalid, ///< a syntax error stands here
};

/// An expression. One struct for all kinds: `kind` says which fields count.
struct Expr {
  ExprKind kind = ExprKind::Invalid;
  Range range;
  /// Of the operator, member name or loop variable.
  Range textRange;
  llvm::StringRef text;
  int64_t integer = 0;
  double number = 0;
  /// Of a binary expression: whether it stands in parentheses of its own.
  bool isGrouped = false;
  llvm::SmallVector<Expr *, 2> kids;
  std::vector<Argument> args;
  std::vector<Subscript> subscripts;

  bool isName(llvm::StringRef name) const {
    return kind == ExprKind::Name && text == name;
  }
};

/// A dimension of a shape, or the ellipsis `..`.
struct ShapeEntry {
  bool isEllipsis = false;
  Expr *dim = nullptr;
  Range range;
};

/// `[B, T, width]`, `int[B, T]`, `float`, `bool`, or nothing (`isGiven` false).
struct TypeExpr {
  bool isGiven = false;
  /// `float`, `int`, `bool`, ...; empty for plain shapes, which are floats.
  llvm::StringRef element;
  bool hasShape = false;
  std::vector<ShapeEntry> shape;
  Range range;
};

/// A hyperparameter or an argument: `width: int = 768`.
struct Parameter {
  llvm::StringRef name;
  Range range;
  TypeExpr type;
  Expr *value = nullptr;
  std::string doc;
};

enum class StmtKind {
  Assign,  ///< `targets = values[0]`, with an optional type
  Return,  ///< `return values`
  Require, ///< `require values[0], values[1]`
};

struct Target {
  llvm::StringRef name;
  Range range;
};

struct Stmt {
  StmtKind kind = StmtKind::Assign;
  Range range;
  std::vector<Target> targets;
  TypeExpr type;
  std::vector<Expr *> values;
};

/// `forward(x: [B, T, width]) -> [B, T, width] { ... }`, and free functions.
struct Method {
  llvm::StringRef name;
  Range range;
  std::vector<Parameter> parameters;
  /// One entry per result; empty where the signature has no `->`.
  std::vector<TypeExpr> results;
  std::vector<Stmt> body;
  std::string doc;
};

enum class MemberKind { Value, Param, Const, Require, Method };

/// The index of a `const` tensor: `t: context`.
struct IndexVariable {
  llvm::StringRef name;
  Range range;
  Expr *extent = nullptr;
};

/// Something that stands in the body of a module.
struct Member {
  MemberKind kind = MemberKind::Value;
  llvm::StringRef name;
  Range range;
  std::string doc;
  /// Value, Param, Const: the right hand side. Require: the condition.
  Expr *value = nullptr;
  /// Require: the message. Param: the condition behind `if`.
  Expr *condition = nullptr;
  /// Param.
  TypeExpr type;
  Expr *trainable = nullptr;
  /// Const: the value's whole text, whose parentheses no expression has.
  std::vector<IndexVariable> indices;
  Range formula;
  /// Method.
  std::unique_ptr<Method> method;
};

/// `module Block(width) { ... }` or `model GPT2(...) { ... }`.
struct Module {
  bool isModel = false;
  llvm::StringRef name;
  Range range;
  std::vector<Parameter> parameters;
  std::vector<Member> members;
  std::string doc;
};

/// `key = value` of a block.
struct Entry {
  llvm::StringRef key;
  Range range;
  Expr *value = nullptr;
};

/// `train { ... }`, `generate { ... }`, `tokenizer chars(...)`, `data
/// text(...)`.
struct Block {
  llvm::StringRef keyword;
  Range range;
  /// `train` and `generate`.
  std::vector<Entry> entries;
  /// `tokenizer` and `data`.
  Expr *value = nullptr;
};

struct Import {
  std::string path;
  Range range;
};

/// `family "llama" ignoring "key"`: whose config.json the model is of.
struct Family {
  std::string name;
  Range range;
  /// Keys that the family does not know and the model does not need.
  std::vector<std::string> ignored;
};

enum class ItemKind { Import, Family, Module, Function, Const, Model, Block };

/// The items of a file in their order, by index into the file's lists.
struct Item {
  ItemKind kind;
  size_t index;
};

/// A parsed file. Owns its tree; names refer to the source text.
struct File {
  uint32_t id = 0;
  std::vector<Item> items;
  std::vector<Import> imports;
  std::optional<Family> family;
  std::vector<std::unique_ptr<Module>> modules;
  std::vector<std::unique_ptr<Method>> functions;
  std::vector<std::unique_ptr<Member>> constants;
  /// `model = GPT2(width = 128)`, null where there is none.
  Expr *model = nullptr;
  Range modelRange;
  std::vector<Block> blocks;
  /// Bytes where items, members, statements and entries begin, ascending: for
  /// the formatter.
  std::vector<uint32_t> statements;

  std::vector<std::unique_ptr<Expr>> storage;
};

} // namespace tfm::ast

#endif // TFM_FRONTEND_SYNTAX_AST_H
