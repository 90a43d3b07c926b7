//===- written_by.h - which command wrote a file of tensors -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A command writes over what it wrote itself, as whoever repeats it expects.
// Any other file is somebody's own, and stays.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_WRITTEN_BY_H
#define TFM_RUNTIME_FILES_WRITTEN_BY_H

#include <string>

namespace tfm {

/// In the metadata of a file of tensors: the command that wrote it.
inline constexpr const char *writtenByKey = "tfm.written_by";

/// Throws InputError where a file of tensors is to have the name of one of
/// another kind, which whoever reads it by that name would take it for.
void requireNoOtherKind(const std::string &path);

/// Whether a file of tensors says that `command` wrote it.
bool isWrittenBy(const std::string &path, const std::string &command);

/// Throws InputError where there is a file that is not empty and that `command`
/// did not write; it ends with `advice`.
void requireWrittenBy(const std::string &path, const std::string &command,
                      const std::string &advice);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_WRITTEN_BY_H
