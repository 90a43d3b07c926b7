//===- Value.h - what expressions evaluate to -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_VALUE_H
#define TFM_FRONTEND_ELABORATE_VALUE_H

#include "compiler/frontend/elaborate/Dim.h"
#include "compiler/frontend/syntax/Ast.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

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
struct Tensor {
  /// Opaque to everything but the emitter.
  void *handle = nullptr;
  Elem elem = Elem::Float;
  Dims dims;
};

/// What an expression evaluates to while elaborating.
class Value {
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

  Value() = default;
  static Value none() { return Value(None); }
  static Value integer(Dim dim);
  static Value real(double number);
  static Value boolean(bool flag);
  static Value string(std::string text);
  static Value list(std::vector<Value> items);
  static Value named(Kind kind, llvm::StringRef name);
  static Value object(Kind kind, const void *object,
                      const Unit *unit = nullptr);
  static Value tensor(Tensor tensor);
  static Value perLayer(std::vector<Value> items, Node *repeat);

  Kind kind() const { return tag; }
  bool is(Kind kind) const { return tag == kind; }
  bool isPoison() const { return tag == Poison; }
  bool isNumber() const { return tag == Int || tag == Float; }
  /// Whether it is, or can be read as, a tensor.
  bool isTensorLike() const {
    return tag == TensorRef || tag == ParamRef || tag == ConstRef;
  }

  const Dim &dim() const { return whole; }
  double number() const {
    return tag == Int ? static_cast<double>(whole.value()) : fraction;
  }
  bool flag() const { return truth; }
  const std::string &text() const { return name; }
  const std::vector<Value> &items() const { return *elements; }
  /// How many values there are to visit: of a list all that are in it and in
  /// the lists in it, of a number for each layer one for each.
  size_t size() const { return count; }
  const Tensor &tensor() const { return *tensorValue; }
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
  void setItems(std::vector<Value> items);

  /// Whether two compile-time values are the same.
  bool sameAs(const Value &other) const;
  /// "an integer", "a tensor", "a module": for messages.
  std::string describe() const;
  /// `width = 768`, `0.1`, `none`: for messages.
  std::string show() const;

private:
  explicit Value(Kind kind) : tag(kind) {}
  Kind tag = Poison;
  bool truth = false;
  double fraction = 0;
  Dim whole;
  std::string name;
  std::shared_ptr<const std::vector<Value>> elements;
  size_t count = 1;
  std::shared_ptr<const Tensor> tensorValue;
  const void *target = nullptr;
  const Unit *home = nullptr;
  Node *self = nullptr;
};

/// A place in the tree of members: an instance of a module, a repeat, or a list
/// of instances.
struct Node {
  enum class Kind { Module, Repeat, List };
  Kind kind = Kind::Module;
  Node *parent = nullptr;
  /// The last part of the path; empty for the model itself.
  std::string name;
  /// Whether a member holds it already; else it may still be renamed.
  bool bound = false;
  /// Whether a requirement failed: what its methods would say is no news.
  bool broken = false;
  Range range;

  // Module.
  const ast::Module *decl = nullptr;
  const Unit *unit = nullptr;
  llvm::MapVector<llvm::StringRef, Value> hyperparameters;
  llvm::MapVector<llvm::StringRef, Value> members;
  std::vector<Param *> params;

  // Repeat: `count` layers, as a loop over bodies.size() different ones.
  Dim count;
  std::vector<Node *> bodies;

  // List.
  std::vector<Node *> elements;

  /// Dotted path below the model, `*` for the index of each repeat; empty for
  /// the model itself.
  std::string path() const;
  /// As a person reads it, with the model's name: `GPT2.h.0.attn`.
  std::string readablePath() const;
  /// The repeats around this node, outermost first.
  llvm::SmallVector<Node *, 2> repeats() const;
};

/// A declared parameter of an instance.
struct Param {
  Node *owner = nullptr;
  std::string name;
  Range range;
  Dims dims;
  std::string initKind;
  std::vector<double> initArgs;
  bool trainable = true;
  /// Whether a function that was emitted reads it.
  bool used = false;
  /// Further places (ties, shared modules): a name below a node. Their paths
  /// are known once everything has its name.
  std::vector<std::pair<const Node *, std::string>> aliases;
  std::string path() const;
};

/// A `const` tensor; evaluated at its first use.
struct Const {
  const ast::Member *decl = nullptr;
  /// The instance it belongs to, null for one of a file.
  Node *owner = nullptr;
  const Unit *unit = nullptr;
  Dims dims;
  bool poisoned = false;
  bool evaluated = false;
  /// Row-major; with a value per layer, all layers. Of a large one that is only
  /// checked no more than the first of them.
  std::vector<float> values;
  Node *perLayer = nullptr;
};

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

/// `[B, T, 3 * width]`.
std::string showShape(llvm::ArrayRef<Dim> dims, Elem elem = Elem::Float);
/// `[2, 64, 2304]`.
std::string showNumbers(llvm::ArrayRef<Dim> dims);

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_VALUE_H
