//===- DataFit.cpp - whether the data of a recipe fits its model ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/DataFit.h"

using namespace tfm;
using namespace tfm::ast;
using llvm::StringRef;
using llvm::Twine;

bool DataFit::fills(const Method &entry,
                    llvm::ArrayRef<Emitter::Input> inputs) {
  if (!compilation.block("data"))
    return true;
  Dims each = {callerDims.get("B"), callerDims.get("T")};
  for (const Emitter::Input &input : inputs) {
    auto parameter = llvm::find_if(entry.parameters, [&](const Parameter &p) {
      return p.name == input.name;
    });
    // The targets of the recipe's loss have no place in the model.
    Range range = parameter == entry.parameters.end() ? recipe.train.lossRange
                                                      : parameter->range;
    if (input.name != "tokens" && input.name != "targets") {
      reporter
          .error(221, range,
                 "data gives `tokens` and `targets`, and nothing that is "
                 "called `" +
                     input.name + "`")
          .help("without a `data` block a program of your own fills the "
                "inputs (`tfmc build --emit obj`)");
      return false;
    }
    if (input.elem == Elem::Int && Dims(input.dims) == each)
      continue;
    Diagnostic &problem = reporter.error(221, range,
                                         "data gives `" + input.name +
                                             "`: int[B, T], but here it is " +
                                             showShape(input.dims, input.elem));
    if (parameter == entry.parameters.end() && recipe.train.lossKind == "mse")
      problem.help("a `loss` in the model can make numbers of the ids: "
                   "mse(logits, one_hot(targets, vocab))");
    return false;
  }
  return true;
}

bool DataFit::isLossPerTarget(const SymbolicTensor &losses,
                              const Method &loss) {
  if (losses.elem != Elem::Float) {
    reporter
        .error(221, loss.range,
               "`loss` gives floats, but this is " +
                   showShape(losses.dims, losses.elem))
        .help("`cast(x, float)` converts");
    return false;
  }
  if (!compilation.block("data") ||
      losses.dims == Dims{callerDims.get("B"), callerDims.get("T")})
    return true;
  reporter
      .error(221, loss.range,
             "`loss` gives one number for each target, [B, T], but this is " +
                 showShape(losses.dims, losses.elem))
      .help("give 0 to the targets that do not count");
  return false;
}

bool DataFit::tokensFit(const SymbolicTensor &logits, const Method &forward) {
  std::optional<int64_t> size =
      compilation.block("data") ? recipe.tokenizerSize() : std::nullopt;
  if (!size || *size <= logits.dims.back().value())
    return true;
  reporter
      .error(221, forward.range,
             "the tokenizer has " + Twine(*size) +
                 " tokens, but `forward` gives " + "logits for " +
                 SymbolicValue::integer(logits.dims.back()).show())
      .help("`vocab = tokenizer.size` gives one for each");
  return false;
}
