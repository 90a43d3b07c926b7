//===- Instances.h - makes instances of modules -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_INSTANCES_H
#define TFM_FRONTEND_ELABORATE_INSTANCES_H

#include "compiler/frontend/elaborate/ArgumentBinder.h"
#include "compiler/frontend/elaborate/Budget.h"

namespace tfm {

class Consts;
class Expressions;
class Hyperparameters;
class ParamMembers;
struct Compilation;
struct Scope;

/// Makes the tree of instances: binds hyperparameters, then elaborates the
/// members of a module from top to bottom. An instance learns its path when a
/// member holds it, so one that is passed as an argument is named by where it
/// ends up.
class Instances {
public:
  Instances(const SourceManager &sources, Compilation &compilation,
            InstanceTree &tree, Budget &budget, Reporter &reporter,
            CallStack &callStack, Hyperparameters &hyperparameters,
            ParamMembers &paramMembers, Consts &consts,
            Expressions &expressions)
      : sources(sources), compilation(compilation), tree(tree), budget(budget),
        reporter(reporter), callStack(callStack),
        hyperparameters(hyperparameters), paramMembers(paramMembers),
        consts(consts), expressions(expressions) {}

  /// One layer of a repeat, to be called alone.
  Node *layer(Node &repeat, int64_t index);
  /// An instance of `decl`, which stands in `unit`, below the node of `caller`;
  /// poison after errors in the call. The first of `tree.rootDecl` is the
  /// model.
  SymbolicValue instantiate(const ast::Module &decl, const Unit *unit,
                            std::vector<CallArg> &args, Range range,
                            Scope &caller);
  /// Whether the module whose body is read stands within itself with the same
  /// hyperparameters, and so without end: then that is reported.
  bool isEndless(Range range);

private:
  /// Reports the modules of the call stack that contain themselves.
  void reportEndless(Range range);
  void elaborateBody(Node &node, std::vector<CallArg> &ties);
  void elaborateMember(Node &node, const ast::Member &member, Scope &scope,
                       std::vector<CallArg> &ties);
  /// Makes an instance that came as an argument, or those of a list, members
  /// under the argument's name, or aliases where something else holds them. If
  /// another member has this name, it hides them: then they are neither.
  void bindArgument(Node &node, const std::string &name,
                    const SymbolicValue &value, bool isHidden);
  void bindMember(Node &node, llvm::StringRef name, const SymbolicValue &value,
                  Range range);
  /// Makes an instance, a repeat or a list a member of this name.
  void hold(Node &parent, std::string name, Node &instance);
  /// The node of a list of instances, and of the lists in it; null after an
  /// error where anything else is in it.
  Node *makeList(Node &parent, llvm::StringRef name, const SymbolicValue &value,
                 Range range);
  /// Gives the parameters below `shared` the further name `at`.`name`.
  void addAliases(const Node &shared, const Node &at, llvm::StringRef name);
  /// The same of an element of a list that is `at`.`prefix`, at a place in it;
  /// returns how many places it takes.
  int64_t addElementAliases(const Node &shared, const Node &at,
                            const std::string &prefix, int64_t place);
  /// The same of the layers of a repeat, whose first one has the number
  /// `place`; at the repeat itself of layers that are instances from elsewhere.
  void addLayerAliases(const Node &repeat, const Node &at,
                       const std::string &prefix, int64_t place);
  /// Drops the names that parameters have below what nothing holds.
  void dropUnnamedAliases();

  const SourceManager &sources;
  Compilation &compilation;
  InstanceTree &tree;
  Budget &budget;
  Reporter &reporter;
  CallStack &callStack;
  Hyperparameters &hyperparameters;
  ParamMembers &paramMembers;
  Consts &consts;
  Expressions &expressions;

  unsigned depth = 0;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_INSTANCES_H
