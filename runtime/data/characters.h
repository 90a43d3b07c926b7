//===- characters.h - the characters of a data source -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DATA_CHARACTERS_H
#define TFM_RUNTIME_DATA_CHARACTERS_H

#include "runtime/recipe.h"

#include <string>
#include <vector>

namespace tfm {

/// The different characters of a source's texts, of its `end` and its `pad`, in
/// the order of their code points: the vocabulary of `chars(from = data)`. The
/// source is read as training reads it; `tokens` has no characters. Throws
/// InputError with the file and line of what cannot be read or is not UTF-8.
std::vector<std::string> dataCharacters(const DataSpec &data);

} // namespace tfm

#endif // TFM_RUNTIME_DATA_CHARACTERS_H
