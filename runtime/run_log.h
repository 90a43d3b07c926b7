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
/// step allocates nothing.
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
  /// Bytes of the file once everything is flushed.
  uint64_t size() const { return written + buffer.size(); }

private:
  std::string path;
  int file = -1;
  std::string buffer;
  uint64_t written = 0;
};

} // namespace tfm

#endif // TFM_RUNTIME_RUN_LOG_H
