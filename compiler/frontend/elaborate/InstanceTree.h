//===- InstanceTree.h - the instances and parameters of a model -*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_INSTANCETREE_H
#define TFM_FRONTEND_ELABORATE_INSTANCETREE_H

#include "compiler/frontend/Diagnostics.h"
#include "compiler/frontend/elaborate/SymbolicValue.h"
#include "llvm/ADT/MapVector.h"

#include <deque>
#include <optional>

namespace tfm {

/// A place in the tree of members: an instance of a module, a repeat, a list of
/// both, or one layer of a repeat.
struct Node {
  enum class Kind { Module, Repeat, List, Layer };
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
  llvm::MapVector<llvm::StringRef, SymbolicValue> hyperparameters;
  llvm::MapVector<llvm::StringRef, SymbolicValue> members;
  std::vector<Param *> params;
  /// Instances that came as arguments and that no member holds: they are
  /// members under the argument's name, those of lists under `name.0`.
  std::vector<Node *> arguments;

  // Repeat: `count` layers, as a loop over bodies.size() different ones.
  Dim count;
  std::vector<Node *> bodies;
  /// The number of its first layer, where it is an element of a list, which
  /// numbers the layers of all its elements through. Its own name is then that
  /// of its layers, `1-11`, and no part of theirs.
  std::optional<int64_t> first;
  /// Of a part of a `repeat`: the number of its first layer within that repeat,
  /// which messages use until `first` is known.
  int64_t begin = 0;

  // List.
  std::vector<Node *> elements;

  // Layer: number `index` of the repeat that is its parent.
  int64_t index = 0;

  /// How many numbers a repeat, or a list with its repeats, gives to layers.
  int64_t layers() const;
  /// How often the loop of a repeat runs.
  int64_t iterations() const;

  /// Dotted path below the model, `*` for the index of each repeat; empty for
  /// the model itself.
  std::string path() const;
  /// As a person reads it, with the model's name: `GPT2.h.0.attn`.
  std::string readablePath() const;
  /// The outermost node around this one, or itself, that nothing holds, so that
  /// what is below it has no names; null where all is held.
  const Node *unnamed() const;
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
  /// What the learning rate is multiplied by for it.
  double rate = 1;
  /// Whether weight decay may apply to it.
  bool decays = true;
  /// Whether a function that was emitted reads it.
  bool used = false;
  /// Further places (ties, shared modules): a name below a node. Their paths
  /// are known once everything has its name.
  std::vector<std::pair<const Node *, std::string>> aliases;
  std::string path() const;
};

/// The names of something below a node, one for each layer of the repeats
/// around it, in row-major order over them; the repeats of `kept` stay `*`.
std::vector<std::string> layerNames(const Node *node, llvm::StringRef name,
                                    llvm::ArrayRef<const Node *> kept = {});

/// A `const` tensor; evaluated at its first use.
struct Const {
  const ast::Member *decl = nullptr;
  /// The instance it belongs to, null for one of a file.
  Node *owner = nullptr;
  const Unit *unit = nullptr;
  Dims dims;
  /// Truth values where the formula is one; known when it is evaluated.
  Elem elem = Elem::Float;
  bool poisoned = false;
  bool evaluated = false;
  /// Row-major; with a value per layer, all layers. Of a large one that is only
  /// checked no more than the first of them.
  std::vector<float> values;
  Node *perLayer = nullptr;
};

/// The instances of modules and the parameters of a model, as `Instances` makes
/// them. They are known by their addresses, and stay where they are.
struct InstanceTree {
  std::deque<Node> nodes;
  std::deque<Param> params;
  /// The model; null until it is being made, and where that failed.
  Node *root = nullptr;
  /// The model's declaration, while its instance is being made.
  const ast::Module *rootDecl = nullptr;

  /// The model's hyperparameter `context`; 0 without one.
  int64_t contextLength() const;
};

/// The method of a module's instance; null where it has none of this name.
const ast::Method *findMethod(const Node &node, llvm::StringRef name);

/// Whether an encoder reads the prompts of a model with this `forward`.
bool readsPrompts(const ast::Method &forward);

/// Whether it takes nothing but `tokens: int[.., ..]`, which a text goes on
/// with also where arrays are what the model is trained with.
bool takesTokensAlone(const ast::Method &forward);

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_INSTANCETREE_H
