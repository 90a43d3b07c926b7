//===- adapter.h - corrections alone, as PEFT loads them ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_ADAPTER_H
#define TFM_RUNTIME_FILES_ADAPTER_H

#include "runtime/formats/safetensors.h"

#include <string>

namespace tfm {

class Model;

/// The files of an adapter in the folder `out`.
std::vector<std::string> adapterFiles(const std::string &out);

/// Writes the low-rank corrections of a model into the folder `out`, under the
/// names that PEFT has for them beside those of the published folder that the
/// training of `weights` began with; both files, or none. Throws InputError
/// where such an adapter would not be all that was trained.
void exportAdapter(const Model &model, const std::string &weights,
                   const std::string &out, StoredType type, bool overwrite);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_ADAPTER_H
