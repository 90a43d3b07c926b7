//===- parts.h - the tensors of a member of a model ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model may hold others: a policy beside its reference, a teacher beside its
// student, two towers. Each of them is a part: the tensors whose names begin
// with its own and a dot. What lies behind that is the name which the tensor
// has in a model that is this part alone.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_PARTS_H
#define TFM_RUNTIME_FILES_PARTS_H

#include "runtime/formats/safetensors.h"
#include "runtime/tfm_model.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tfm {

/// What `name` is within `part`, if it is of that part; `part` may be empty,
/// for the whole model.
std::optional<std::string> nameInPart(const std::string &name,
                                      const std::string &part);
/// The names of a parameter, its own before its aliases, within `part`: none
/// where it is not of that part.
std::vector<std::string> namesInPart(const tfm_parameter &parameter,
                                     const std::string &part);
std::vector<std::string> namesInPart(const FloatTensor &tensor,
                                     const std::string &part);

/// Throws InputError, which names parts that there are, where `model` has no
/// tensor of `part`.
void requirePart(const tfm_model &model, const std::string &part);

/// What a training begins with: a file or folder, and of which part of the
/// model it has the weights; empty where of all.
struct InitialWeights {
  std::string part;
  std::string path;

  /// Reads `FILE` or `PART=FILE`; the name of a file that is there is no part.
  static InitialWeights parse(const std::string &text);
};

/// Throws InputError where not each of these can be loaded: the whole model
/// beside another one, a part that the model has not, one that is given twice,
/// or two that have a parameter in common.
void requireApart(const tfm_model &model,
                  std::span<const InitialWeights> weights);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_PARTS_H
