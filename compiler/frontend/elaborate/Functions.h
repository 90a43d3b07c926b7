//===- Functions.h - emits the functions of a model -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_FUNCTIONS_H
#define TFM_FRONTEND_ELABORATE_FUNCTIONS_H

#include "compiler/frontend/elaborate/CallerDims.h"
#include "compiler/frontend/elaborate/CurrentFunction.h"
#include "compiler/frontend/elaborate/Emitter.h"

namespace tfm {

class Builtins;
class DataFit;
class MethodCalls;
class TableLookups;
class Tensors;
class TreeDeclarer;

/// Emits the functions that a build needs: `forward` as it is called to
/// generate, and the loss of a training step.
class Functions {
public:
  Functions(Diagnostics &diags, const FrontendOptions &options,
            Emitter &emitter, const Compilation &compilation,
            InstanceTree &tree, Reporter &reporter, CallStack &callStack,
            Dimensions &dimensions, Tensors &tensors, CallerDims &callerDims,
            Builtins &builtins, MethodCalls &methodCalls, TableLookups &lookups,
            DataFit &dataFit, TreeDeclarer &declarer, CurrentFunction &current,
            const RecipeContext &recipe)
      : diags(diags), options(options), emitter(emitter),
        compilation(compilation), tree(tree), reporter(reporter),
        callStack(callStack), dimensions(dimensions), tensors(tensors),
        callerDims(callerDims), builtins(builtins), methodCalls(methodCalls),
        lookups(lookups), dataFit(dataFit), declarer(declarer),
        current(current), recipe(recipe) {}

  /// Declares the tree and emits all functions; false after errors.
  bool emitAll();
  /// Emits a function of a file alone, to check it.
  void check(const ast::Method &function);
  /// Warns where samples are wanted of a model that looks ahead: until a text
  /// fills the context nothing can be said of its next token.
  void warnAboutLookingAhead();
  /// Warns where `generate.cache` is to store what the model never keeps.
  void warnAboutCache();

private:
  /// Of a `generate` block beside an input that could be `tokens`, but is
  /// called otherwise.
  void warnAboutOtherNames(const ast::Method &forward,
                           llvm::ArrayRef<Emitter::Input> inputs);
  /// A function of the model that is being emitted.
  struct Function {
    const ast::Method &forward;
    /// The model's own, where the function is a loss and the model has one.
    const ast::Method *loss = nullptr;
    /// Those of the methods, and of a loss the targets and how many of them
    /// `count`.
    std::vector<Emitter::Input> inputs = {};
    /// The values of the inputs.
    std::vector<Emitter::Handle> handles = {};

    /// The method that is called.
    const ast::Method &entry() const { return loss ? *loss : forward; }
  };

  bool emit(const FunctionRequest &request);
  /// Null after an error.
  const ast::Method *forwardOfModel();
  /// Whether `forward` takes arrays, other than a generated text has.
  bool computesExamples() const;
  /// Begins a function with the `B` and `T` that the request, or the recipe
  /// for it, says.
  void beginDims(const FunctionRequest &request);
  /// Fills in the inputs of a function; false after errors.
  bool findInputs(Function &function);
  /// One target for each row of logits; of the outputs' type for `mse`. Nothing
  /// after errors.
  std::optional<Emitter::Input> targetsOf(const ast::Method &forward);
  /// Calls the method of a function. Its results; nothing after errors.
  std::optional<std::vector<Emitter::Handle>>
  emitBody(const Function &function);
  /// The mean loss and those of all targets, of what the method gave.
  std::optional<std::vector<Emitter::Handle>>
  emitLoss(const Function &function, const SymbolicValue &result);
  /// Shapes of a method's arguments with the caller's dimensions bound.
  bool argumentShapes(const ast::Method &method,
                      std::vector<Emitter::Input> &out);
  /// The inputs of the function that is being emitted that a method takes.
  static std::vector<CallArg> inputsOf(const ast::Method &method,
                                       llvm::ArrayRef<Emitter::Input> inputs,
                                       llvm::ArrayRef<Emitter::Handle> handles);
  /// Losses of the model's own, 0 where the recipe ignores the target.
  SymbolicTensor countingOnes(const SymbolicTensor &losses,
                              llvm::ArrayRef<Emitter::Input> inputs,
                              llvm::ArrayRef<Emitter::Handle> handles);
  /// The loss that the recipe asks for.
  SymbolicValue lossOf(const SymbolicTensor &output,
                       const SymbolicTensor &targets);

  Diagnostics &diags;
  const FrontendOptions &options;
  Emitter &emitter;
  const Compilation &compilation;
  InstanceTree &tree;
  Reporter &reporter;
  CallStack &callStack;
  Dimensions &dimensions;
  Tensors &tensors;
  CallerDims &callerDims;
  Builtins &builtins;
  MethodCalls &methodCalls;
  TableLookups &lookups;
  DataFit &dataFit;
  TreeDeclarer &declarer;
  CurrentFunction &current;
  const RecipeContext &recipe;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_FUNCTIONS_H
