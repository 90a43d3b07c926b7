//===- run_log.cpp - the JSON lines that a run leaves -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/run_log.h"

#include "runtime/atomic_file.h"
#include "runtime/error.h"
#include "runtime/read_json.h"
#include "runtime/tokenizer/utf8.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace tfm {

namespace {
constexpr size_t capacity = 1 << 16;
} // namespace

RunLog::~RunLog() {
  if (file < 0)
    return;
  flush();
  close(file);
}

void RunLog::open(const std::string &newPath, uint64_t keep) {
  path = newPath;
  buffer.reserve(capacity);
  file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0)
    throw InputError("cannot write the log " + path + ": " +
                     std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    return; // a terminal or a pipe
  written = std::min(keep, static_cast<uint64_t>(status.st_size));
  if (ftruncate(file, static_cast<off_t>(written)) != 0 ||
      lseek(file, static_cast<off_t>(written), SEEK_SET) < 0)
    throw InputError("cannot write the log " + path + ": " +
                     std::strerror(errno));
}

void requireLog(const std::string &path) {
  if (!isRegularFile(path))
    return;
  std::ifstream file(path, std::ios::binary);
  std::string first(capacity, '\0'); // no line of a log is as long
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  first.resize(static_cast<size_t>(file.gcount()));
  if (first.empty())
    return; // what cannot be read cannot be written either
  nlohmann::json line = jsonOf(first.substr(0, first.find('\n')));
  if (!line.is_object() || !line.contains("step"))
    throw InputError(path + " is no log of a run, and would be lost: log to "
                            "another file, or pass --overwrite");
}

void RunLog::line(std::string_view text, bool now) {
  if (file < 0)
    return;
  if (buffer.size() + text.size() + 1 > capacity)
    flush();
  buffer.append(text).push_back('\n');
  if (now)
    flush();
}

void RunLog::flush() {
  size_t done = 0;
  while (file >= 0 && done < buffer.size()) {
    ssize_t count = write(file, buffer.data() + done, buffer.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0) {
      failure = "cannot write the log " + path + ": " + std::strerror(errno);
      std::fprintf(stderr, "warning: %s; training goes on without it\n",
                   printable(failure).c_str());
      close(file);
      file = -1;
      buffer.clear();
      return;
    }
    done += static_cast<size_t>(count);
  }
  written += done;
  buffer.clear();
}

void RunLog::check() const {
  if (!failure.empty())
    throw InputError(failure);
}

} // namespace tfm
