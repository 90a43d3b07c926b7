//===- export_folder.h - a model as others load it ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_EXPORT_FOLDER_H
#define TFM_RUNTIME_FILES_EXPORT_FOLDER_H

#include "runtime/formats/safetensors.h"

#include <map>
#include <string>
#include <vector>

namespace tfm {

class Model;

/// The published folder that weights are, or that their training began with;
/// empty where there is none.
std::string publishedFolderOf(const std::string &weights);

/// Whether `export` writes a folder there, not a file: there is one, or the
/// name ends in a slash.
bool isExportFolder(const std::string &path);

/// The file of weights that `export` writes: `out`, or within that folder.
std::string exportedWeights(const std::string &out);

/// The metadata of weights in a folder: `export` wrote them, and may again.
std::map<std::string, std::string> exportedMetadata();

/// Throws InputError where there are weights, or a file that goes with them,
/// that `export` has not written, and that would be lost.
void requireExported(const std::string &weights, const std::string &other);

/// All files that `export` may write.
std::vector<std::string> exportedFiles(const std::string &out);

/// Writes a model's weights, `tensors`, its config.json and what there is of
/// its tokenizer into a folder: under the names, and with the configuration, of
/// the published folder that `weights` is, or that the run in it began with;
/// else of the model's family. All of it is written, or nothing: throws
/// InputError where there is none of them, and where the folder holds something
/// that would be read with it, or instead, or lost, which `overwrite` allows of
/// another model's weights and config.json. Not to write over the weights
/// themselves, or those of a run, is the caller's (`exportedWeights`).
void exportFolder(const Model &model, std::vector<FloatTensor> tensors,
                  const std::string &weights, const std::string &out,
                  StoredType type, bool overwrite);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_EXPORT_FOLDER_H
