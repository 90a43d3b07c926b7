//===- jinja_syntax.h - the tree of a chat template ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_CHAT_JINJA_SYNTAX_H
#define TFM_RUNTIME_CHAT_JINJA_SYNTAX_H

#include "runtime/chat/jinja_value.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tfm::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum Kind {
    Literal,
    Name,
    List,      ///< `[a, b]`, and `(a, b)` with `flag`
    Dict,      ///< keys and values in turn
    Unary,     ///< `-`, `+`, `not`
    Binary,    ///< `+`, `and`, `~`, ...
    Compare,   ///< `a < b <= c`: `words` has the operators
    Choose,    ///< `a if b else c`, `a` first; without `else` two
    Member,    ///< `a.name`
    Subscript, ///< `a[b]`
    Slice,     ///< `a[b:c:d]`, null where left out
    Call,      ///< the callee, then arguments; `words` names the last of them
    Filter,    ///< `a | name(...)`: as a call
    Test,      ///< `a is name(...)`: as a call; `flag`: `is not`
  };
  Kind kind = Literal;
  /// Where in the template, in bytes.
  size_t at = 0;
  std::string text;
  Value value;
  bool flag = false;
  std::vector<ExpressionPtr> kids;
  std::vector<std::string> words;

  Expression() = default;
  Expression(const Expression &) = delete;
  Expression &operator=(const Expression &) = delete;
  /// Takes the tree apart without a call for each level: `a.b.c...` is as deep
  /// as a template is long.
  ~Expression() {
    std::vector<ExpressionPtr> rest = std::move(kids);
    while (!rest.empty()) {
      ExpressionPtr last = std::move(rest.back());
      rest.pop_back();
      if (!last)
        continue;
      std::ranges::move(last->kids, std::back_inserter(rest));
      last->kids.clear();
    }
  }
};

struct Statement;
using Statements = std::vector<Statement>;

struct Statement {
  enum Kind {
    Text,
    Print,
    If,    ///< conditions, and a body for each and for `else`
    For,   ///< `words` in `expressions[0]`, if `expressions[1]`
    Set,   ///< `words`, or a member of one: `a.b`
    Block, ///< `{% set a %}...{% endset %}`
    Macro, ///< `words` after its name: parameters, the last with defaults
    Break,
    Continue,
    Scope, ///< `{% generation %}`: just what stands in it
  };
  Kind kind = Text;
  size_t at = 0;
  std::string text;
  std::vector<std::string> words;
  std::vector<ExpressionPtr> expressions;
  std::vector<Statements> bodies;
};

/// What is wrong at a place of the template.
struct PlacedProblem {
  size_t at;
  std::string message;
};

/// Reads a template with the settings of transformers (`trim_blocks`,
/// `lstrip_blocks`). Throws PlacedProblem.
Statements parse(std::string_view source);

} // namespace tfm::jinja

#endif // TFM_RUNTIME_CHAT_JINJA_SYNTAX_H
