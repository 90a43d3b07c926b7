//===- MethodCalls.h - calls of forward, statements -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_METHODCALLS_H
#define TFM_FRONTEND_ELABORATE_METHODCALLS_H

#include "compiler/frontend/elaborate/ArgumentBinder.h"
#include "compiler/frontend/elaborate/Budget.h"
#include "compiler/frontend/elaborate/Emitter.h"

namespace tfm {

class Expressions;
class Signatures;
class Tensors;
struct Scope;

/// The method of a module without `forward` that is probably meant to be it, as
/// other libraries call it or misspelt; empty: none.
std::string meantAsForward(const ast::Module &module);

/// Calls instances, repeats, methods and the user's functions, by running their
/// statements on symbolic shapes.
class MethodCalls {
public:
  MethodCalls(const SourceManager &sources, Emitter &emitter, Budget &budget,
              Reporter &reporter, CallStack &callStack,
              ArgumentBinder &arguments, Tensors &tensors,
              Signatures &signatures, Expressions &expressions)
      : sources(sources), emitter(emitter), budget(budget), reporter(reporter),
        callStack(callStack), arguments(arguments), tensors(tensors),
        signatures(signatures), expressions(expressions) {}

  /// `forward` of an instance, the layers of a repeat, or the elements of a
  /// list one after another.
  SymbolicValue callNode(Node &node, std::vector<CallArg> &args, Range range,
                         Scope &scope);
  /// A method of `node`, or a function where that is null, which stands in
  /// `unit`. Where it fails although its arguments are right, its signature
  /// says what it would have returned.
  SymbolicValue callMethod(Node *node, const ast::Method &method,
                           const Unit *unit, std::vector<CallArg> &args,
                           Range range);

private:
  /// Calls one layer of a repeat.
  SymbolicValue callLayer(Node &node, std::vector<CallArg> &args, Range range,
                          Scope &scope);
  SymbolicValue callRepeat(Node &node, std::vector<CallArg> &args, Range range,
                           Scope &scope);
  SymbolicValue callList(Node &node, std::vector<CallArg> &args, Range range,
                         Scope &scope);
  /// The arguments that a call of a repeat carries through its layers. Nothing
  /// after an error, or where one is poison.
  std::optional<std::vector<SymbolicTensor>>
  carriedBy(const Node &repeat, llvm::ArrayRef<CallArg> args, Range range);
  /// What a layer has made of these, of the same types. Nothing after an error.
  std::optional<std::vector<SymbolicTensor>>
  nextOf(const Node &repeat, const SymbolicValue &result,
         llvm::ArrayRef<SymbolicTensor> carried, Range range);
  /// What `only` of a call of a repeat is: for each row of what the repeat
  /// carries the numbers of the layers that it goes through. Nothing after an
  /// error.
  std::optional<SymbolicTensor> choiceOfLayers(const CallArg &only,
                                               const SymbolicTensor &carried);
  /// Within a repeat: whether the layer, of the body with that number, is among
  /// those of each row, for all elements of a tensor of `dims`.
  Emitter::Handle isAmong(const Node &repeat, int64_t body,
                          const SymbolicTensor &ids, const Dims &dims);
  SymbolicValue runBody(const ast::Method &method, Scope &scope,
                        llvm::StringRef where);
  void assign(const ast::Stmt &stmt, Scope &scope);
  void storeLocal(const ast::Target &target, SymbolicValue value, Scope &scope);
  /// Adds what `where` gives a name to the function's list of shapes.
  void listShape(Emitter::Role role, llvm::StringRef path, llvm::StringRef name,
                 const SymbolicTensor &tensor, Range where);
  /// The same for what a method returns.
  void listResults(const SymbolicValue &value, const Scope &scope, Range where);

  const SourceManager &sources;
  Emitter &emitter;
  Budget &budget;
  Reporter &reporter;
  CallStack &callStack;
  ArgumentBinder &arguments;
  Tensors &tensors;
  Signatures &signatures;
  Expressions &expressions;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_METHODCALLS_H
