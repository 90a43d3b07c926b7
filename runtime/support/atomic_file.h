//===- atomic_file.h - files that appear whole or not at all ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_ATOMIC_FILE_H
#define TFM_RUNTIME_SUPPORT_ATOMIC_FILE_H

#include "runtime/support/temporaries.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace tfm {

/// Writes a file under a temporary name beside its final one. Nothing is seen
/// under the final name until `commit`, which syncs and renames; a writer that
/// is destroyed before that removes what it wrote, as a signal does that ends
/// the program (`removeTemporariesOnSignals`). A file that is replaced
/// keeps its permissions, and must be one that may be written. What is there
/// and no regular file (a terminal, a pipe, /dev/null) is written to as it is,
/// and never replaced. Throws InputError that names the file when the disk is
/// full or the folder cannot be written, and where there is a folder of that
/// name.
class AtomicFile {
public:
  /// The temporary name is one that no other file has, so that several
  /// processes may write the same file. With a `suffix` it is `path + suffix`,
  /// for who alone writes into a folder and cleans up after a kill: to a
  /// regular file, not through links, and in place of what has that name.
  explicit AtomicFile(std::string path, const std::string &suffix = "");
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  void write(const void *data, size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// All bytes are on the disk, under the temporary name.
  void sync();
  /// `sync`, and the writer no longer removes the file.
  void keep();
  /// `keep`, then the final name.
  void commit();

private:
  [[noreturn]] void fail(const char *what);
  void writeThrough(const char *data, size_t size);

  std::string path;   ///< as it was named
  std::string target; ///< where links lead
  std::string temporary;
  /// Where that name is one that no other file has.
  std::optional<Temporary> goes;
  std::optional<mode_t> permissions; ///< of the file that is replaced
  bool isDevice = false;
  int file = -1;
  /// Small writes wait here, so that many small tensors are few system calls.
  std::string pending;
  bool kept = false;
};

/// Where links lead, whether there is a file or not: what is renamed onto a
/// link would take its place.
std::string throughLinks(const std::string &path);

/// Renames; throws InputError naming `to`. The new name survives a crash of the
/// system only after `syncFolder`.
void renameFile(const std::string &from, const std::string &to);

/// Removes a file, or a link, that need not be there; throws InputError.
void removeFile(const std::string &path);

/// What was renamed, made and removed in a folder is on the disk, as far as its
/// file system can do that. Throws InputError.
void syncFolder(const std::string &folder);

/// The folder of a file: "." for a name alone.
std::string folderOf(const std::string &path);

/// The name of a folder without slashes at its end: "/" stays.
std::string withoutSlashes(std::string path);

/// Why a file cannot be written, from `errno`, and what to do.
std::string writeFailure(int error);
/// The same of a file that cannot be made: there may be no folder for it.
std::string whyNotMade(int error, const std::string &path);

/// Makes a folder and its parents, which are there after a crash of the system,
/// too; throws InputError.
void makeFolder(const std::string &path);

/// A folder for files that may not come: makes it and its parents as
/// `makeFolder` does. At its end those that it made and that are empty go.
class FolderForFiles {
public:
  explicit FolderForFiles(const std::string &path);
  ~FolderForFiles();
  FolderForFiles(const FolderForFiles &) = delete;
  FolderForFiles &operator=(const FolderForFiles &) = delete;

  /// They stay, empty or not: somebody else is going to write there.
  void keep() { made.clear(); }

private:
  FolderForFiles() = default;
  std::vector<std::string> made; ///< parents first
};

/// What files are called that are read from standard input.
inline constexpr std::string_view standardInput = "/dev/stdin";

/// The whole content of a file; throws InputError naming `purpose` ("the
/// tokenizer") and the file, also where there is not the memory for it. Of what
/// is no regular file, and may have no end, a quarter of all memory is read.
/// With `most` the first so many bytes, or all where there are fewer.
std::string readFile(const std::string &path, std::string_view purpose,
                     uint64_t most = UINT64_MAX);
/// The same of a file that nobody named, but a folder holds or another file
/// leads to: a pipe there, which nobody may ever write to, is an InputError.
std::string readRegularFile(const std::string &path, std::string_view purpose);

/// Whether there is a file (or folder) of that name. Where the system cannot
/// tell, as the disk fails, they throw InputError.
bool fileExists(const std::string &path);
/// The same of what a folder of a model may have. What is there and cannot be
/// had is an InputError, too: a link that leads nowhere, as copies of caches
/// have, and what lies in a folder that nobody but others may enter.
bool folderHas(const std::string &path);
bool isRegularFile(const std::string &path);
bool isFolder(const std::string &path);
/// Whether the name itself is a link, wherever that leads.
bool isLink(const std::string &path);
/// Whether two paths lead to one file, so that writing one of them would
/// destroy the other.
bool isSameFile(const std::string &path, const std::string &other);
/// Whether what has that name is the open `file` (below 0: whatever it is), and
/// no other that was put in its place.
bool isStill(int file, const std::string &path);

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_ATOMIC_FILE_H
