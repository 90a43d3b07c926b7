//===- run_log.h - the JSON lines that a run leaves ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FILES_RUN_LOG_H
#define TFM_RUNTIME_FILES_RUN_LOG_H

#include "runtime/support/checksum.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tfm {

/// The beginning of a log: how long it is, and the checksum of its bytes.
struct LogMark {
  uint64_t bytes = 0;
  std::string checksum;
};

/// Appends lines to a file through a buffer of fixed size, so that logging a
/// step allocates nothing. A log that cannot be written (a full disk) must not
/// cost the training itself: the failure is said on stderr, and kept for
/// `problem`. What a regular file has no room for is kept for another try.
class RunLog {
public:
  RunLog() = default;
  ~RunLog();
  RunLog(const RunLog &) = delete;
  RunLog &operator=(const RunLog &) = delete;

  /// Opens a file that the user names and goes on behind what is there, or
  /// `anew`; also a terminal, or a pipe that somebody reads.
  void open(const std::string &path, bool anew);
  /// Opens the log of a run, which is a regular file, and keeps its first
  /// `bytes`: what came after the checkpoint that training goes on from happens
  /// again. With `from`, these are the first ones of that file. Lines that are
  /// not written yet go there, too.
  void openOfRun(const std::string &path, uint64_t bytes,
                 const std::string &from = "");
  /// Whether the file of that name still is the one that is written.
  bool isThere() const;
  /// One line without its end; written at once if `now`, if the buffer is full,
  /// or if nothing was for a second: somebody may follow it.
  void line(std::string_view text, bool now = false);
  void flush();
  /// Everything is written and, as far as it could be, on the disk.
  LogMark sync();
  /// Why something is not written; empty where all was.
  const std::string &problem() const { return failure; }

private:
  void openFile(const std::string &path, int flags);
  void warn(int error, const char *consequence);
  void fail(int error);
  /// After the first `done` bytes of the buffer were written and the next could
  /// not be: cuts off a line that is half there. Returns how many bytes of the
  /// buffer are in the file then, or nothing where it cannot be tried again.
  std::optional<size_t> cutHalfLine(size_t done) const;
  /// Waits until a pipe takes more; false where its reader does not read.
  bool waitForReader() const;

  std::string path;
  int file = -1;
  std::string buffer;
  std::chrono::steady_clock::time_point flushed = {};
  std::string failure;
  uint64_t written = 0;
  Checksum checksum; ///< of what is written
};

/// Throws InputError where a log of that name would replace, or go on behind,
/// what is no log of a run.
void requireLog(const std::string &path);

} // namespace tfm

#endif // TFM_RUNTIME_FILES_RUN_LOG_H
