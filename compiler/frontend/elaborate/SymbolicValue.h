//===- SymbolicValue.h - what expressions evaluate to -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_SYMBOLICVALUE_H
#define TFM_FRONTEND_ELABORATE_SYMBOLICVALUE_H

#include "compiler/frontend/elaborate/Dim.h"
#include "compiler/frontend/syntax/Ast.h"

#include <memory>
#include <string>
#include <vector>

namespace tfm {

struct Node;
struct Param;
struct Const;
struct Unit;

enum class Elem { Float, Int, Bool };

/// The element type of `int[...]`, `bool[...]` or, without a word, floats.
inline Elem elemOf(llvm::StringRef word) {
  return word == "int" ? Elem::Int : word == "bool" ? Elem::Bool : Elem::Float;
}

using Dims = llvm::SmallVector<Dim, 4>;

/// A tensor value of the program under construction, with its symbolic shape.
struct SymbolicTensor {
  /// Opaque to everything but the emitter.
  void *handle = nullptr;
  Elem elem = Elem::Float;
  Dims dims;
};

/// What an expression evaluates to while elaborating.
class SymbolicValue {
public:
  enum Kind {
    Poison, ///< an error was reported; everything made from it is poison
    None,
    Int,
    Float,
    Bool,
    String,
    List,     ///< `[a, b]`, `(a, b)`, several results
    Type,     ///< `int`, `float`, `bool` as an argument of `cast`
    Builtin,  ///< a function of the language, by name
    Function, ///< a user's `function`
    Method,   ///< `node.method`, to be called
    Module,   ///< a module's declaration
    Init,     ///< `normal(0.02)`
    NodeRef,  ///< a module's instance, a repeat, or a list of instances
    ParamRef,
    ConstRef,
    TensorRef,
    PerLayer, ///< a number for each layer of a repeat
  };

  SymbolicValue() = default;
  static SymbolicValue none() { return SymbolicValue(None); }
  static SymbolicValue integer(Dim dim);
  static SymbolicValue real(double number);
  static SymbolicValue boolean(bool flag);
  static SymbolicValue string(std::string text);
  static SymbolicValue list(std::vector<SymbolicValue> items);
  static SymbolicValue named(Kind kind, llvm::StringRef name);
  static SymbolicValue object(Kind kind, const void *object,
                              const Unit *unit = nullptr);
  static SymbolicValue tensor(SymbolicTensor tensor);
  static SymbolicValue perLayer(std::vector<SymbolicValue> items, Node *repeat);

  Kind kind() const { return tag; }
  bool is(Kind kind) const { return tag == kind; }
  bool isPoison() const { return tag == Poison; }
  bool isNumber() const { return tag == Int || tag == Float; }
  /// Whether it is, or can be read as, a tensor.
  bool isTensorLike() const {
    return tag == TensorRef || tag == ParamRef || tag == ConstRef;
  }

  const Dim &dim() const { return whole; }
  /// Of a number; of a truth value 1 or 0.
  double number() const {
    return tag == Int    ? static_cast<double>(whole.value())
           : tag == Bool ? static_cast<double>(truth)
                         : fraction;
  }
  bool flag() const { return truth; }
  const std::string &text() const { return name; }
  const std::vector<SymbolicValue> &items() const { return *elements; }
  /// How many values there are to visit: of a list all that are in it and in
  /// the lists in it, of a number for each layer one for each.
  size_t size() const { return count; }
  const SymbolicTensor &tensor() const { return *tensorValue; }
  Node *node() const {
    return const_cast<Node *>(static_cast<const Node *>(target));
  }
  Param *param() const {
    return const_cast<Param *>(static_cast<const Param *>(target));
  }
  Const *constant() const {
    return const_cast<Const *>(static_cast<const Const *>(target));
  }
  const ast::Module *module() const {
    return static_cast<const ast::Module *>(target);
  }
  const ast::Method *function() const {
    return static_cast<const ast::Method *>(target);
  }
  /// The file in which `module` or `function` is declared.
  const Unit *unit() const { return home; }
  /// Of a method: the instance it belongs to.
  Node *owner() const { return self; }
  void setOwner(Node *node) { self = node; }
  void setText(llvm::StringRef text) { name = text.str(); }
  void setItems(std::vector<SymbolicValue> items);

  /// Whether two compile-time values are the same.
  bool sameAs(const SymbolicValue &other) const;
  /// "an integer", "a tensor", "a module": for messages.
  std::string describe() const;
  /// `width = 768`, `0.1`, `none`: for messages.
  std::string show() const;

private:
  explicit SymbolicValue(Kind kind) : tag(kind) {}
  Kind tag = Poison;
  bool truth = false;
  double fraction = 0;
  Dim whole;
  std::string name;
  std::shared_ptr<const std::vector<SymbolicValue>> elements;
  size_t count = 1;
  std::shared_ptr<const SymbolicTensor> tensorValue;
  const void *target = nullptr;
  const Unit *home = nullptr;
  Node *self = nullptr;
};

/// `[B, T, 3 * width]`.
std::string showShape(llvm::ArrayRef<Dim> dims, Elem elem = Elem::Float);
/// `[2, 64, 2304]`.
std::string showNumbers(llvm::ArrayRef<Dim> dims);

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_SYMBOLICVALUE_H
