//===- run_log.h - the JSON lines that a run leaves ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_RUN_LOG_H
#define TFM_RUNTIME_RUN_LOG_H

#include <cstdint>
#include <string>
#include <string_view>

namespace tfm {

/// Appends lines to a file through a buffer of fixed size, so that logging a
/// step allocates nothing. A log that cannot be written any more (a full disk)
/// must not cost the training itself: the first failure is said on stderr, and
/// kept for `check`.
class RunLog {
public:
  RunLog() = default;
  ~RunLog();
  RunLog(const RunLog &) = delete;
  RunLog &operator=(const RunLog &) = delete;

  /// Opens the file and cuts it to `keep` bytes: what a run logged after the
  /// checkpoint that it is resumed from happens again.
  void open(const std::string &path, uint64_t keep);
  /// One line without its end; written at once if `now` or the buffer is full.
  void line(std::string_view text, bool now = false);
  void flush();
  /// Throws InputError if something could not be written.
  void check() const;
  /// Bytes of the file once everything is flushed.
  uint64_t size() const { return written + buffer.size(); }

private:
  std::string path;
  int file = -1;
  std::string buffer;
  std::string failure;
  uint64_t written = 0;
};

/// Throws InputError where a log of that name would replace, or go on behind,
/// what is no log of a run.
void requireLog(const std::string &path);

} // namespace tfm

#endif // TFM_RUNTIME_RUN_LOG_H
