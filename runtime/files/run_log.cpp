//===- run_log.cpp - the JSON lines that a run leaves -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/run_log.h"

#include "runtime/files/run_folder.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/read_json.h"
#include "runtime/support/system_call.h"
#include "runtime/support/utf8.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tfm {

namespace {

constexpr size_t capacity = 1 << 16;
/// What lines that cannot be written may take: hours of a small model.
constexpr size_t mostKept = 1 << 24;

/// How long the reader of a pipe may leave it full: seconds.
constexpr int patience = 10;

} // namespace

RunLog::~RunLog() {
  if (file < 0)
    return;
  flush();
  if (file >= 0)
    close(file);
}

void RunLog::openFile(const std::string &newPath, int flags) {
  path = newPath;
  buffer.reserve(capacity);
  // A pipe would wait for a reader.
  file = uninterrupted([&] {
    return ::open(path.c_str(),
                  O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC | flags, 0666);
  });
  if (file < 0)
    throw InputError("cannot write the log {}: {}", path,
                     errno == ENXIO
                         ? "it is a pipe that nobody reads: start its reader "
                           "first"
                         : whyNotMade(errno, path));
}

/// Whether the file has other names, under which it must stay as it is.
static bool isShared(const std::string &path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_nlink > 1;
}

void RunLog::open(const std::string &newPath, bool anew) {
  if (anew && isShared(newPath))
    AtomicFile(newPath).commit();
  openFile(newPath, O_APPEND);
  // Two trainings would mix their lines.
  if (isRegularFile(path) &&
      uninterrupted([&] { return flock(file, LOCK_EX | LOCK_NB); }) != 0 &&
      errno == EWOULDBLOCK)
    throw InputError("another training logs to {}: name another log with --log",
                     path);
  if (anew && isRegularFile(path) &&
      uninterrupted([&] { return ftruncate(file, 0); }) != 0)
    throw InputError("cannot write the log {}: {}", path, writeFailure(errno));
}

void RunLog::openOfRun(const std::string &newPath, uint64_t bytes,
                       const std::string &from) {
  std::string begin;
  if (bytes > 0)
    begin = readFile(from.empty() ? newPath : from, "the run's log", bytes);
  if (isShared(newPath)) {
    AtomicFile own(newPath, nextSuffix);
    if (from.empty())
      own.write(begin);
    own.commit();
  }
  if (file >= 0)
    close(file);
  openFile(newPath, 0);
  struct stat status;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
    throw InputError("cannot write the log {}: it is not a regular file", path);
  written = from.empty() ? begin.size() : 0;
  if (uninterrupted(
          [&] { return ftruncate(file, static_cast<off_t>(written)); }) != 0 ||
      lseek(file, static_cast<off_t>(written), SEEK_SET) < 0)
    throw InputError("cannot write the log {}: {}", path, writeFailure(errno));
  checksum = Checksum();
  checksum.add(begin.data(), written);
  if (from.empty())
    return;
  buffer.append(begin);
  flush();
  if (!failure.empty())
    throw InputError(failure);
}

bool RunLog::isThere() const { return isStill(file, path); }

void RunLog::line(std::string_view text, bool now) {
  if (file < 0)
    return;
  if (buffer.size() + text.size() + 1 > capacity)
    flush();
  buffer.append(text).push_back('\n');
  if (now ||
      std::chrono::steady_clock::now() - flushed > std::chrono::seconds(1))
    flush();
}

bool RunLog::waitForReader() const {
  using namespace std::chrono;
  pollfd pipe = {file, POLLOUT, 0};
  auto end = steady_clock::now() + seconds(patience);
  return uninterrupted([&] {
           auto left = duration_cast<milliseconds>(end - steady_clock::now());
           return poll(&pipe, 1, std::max(0, static_cast<int>(left.count())));
         }) == 1;
}

void RunLog::warn(int error, const char *consequence) {
  failure =
      "cannot write the log " + path + ": " +
      (error == EAGAIN ? "its reader does not read" : std::strerror(error));
  std::fprintf(stderr, "warning: %s; training goes on%s\n",
               printable(failure).c_str(), consequence);
}

void RunLog::fail(int error) {
  warn(error, " without it");
  close(file);
  file = -1;
  buffer.clear();
}

std::optional<size_t> RunLog::cutHalfLine(size_t done) const {
  struct stat status;
  if (buffer.size() > mostKept || fstat(file, &status) != 0 ||
      !S_ISREG(status.st_mode))
    return std::nullopt;
  size_t whole = done;
  while (whole > 0 && buffer[whole - 1] != '\n')
    --whole;
  off_t end = status.st_size - static_cast<off_t>(done - whole);
  if (uninterrupted([&] { return ftruncate(file, end); }) != 0 ||
      lseek(file, end, SEEK_SET) < 0)
    return std::nullopt;
  return whole;
}

void RunLog::flush() {
  flushed = std::chrono::steady_clock::now();
  size_t done = 0;
  int error = 0;
  while (file >= 0 && done < buffer.size() && error == 0) {
    ssize_t count = uninterrupted([&] {
      return write(file, buffer.data() + done, buffer.size() - done);
    });
    if (count >= 0)
      done += static_cast<size_t>(count);
    else if (int why = errno; why != EAGAIN || !waitForReader())
      error = why;
  }
  if (error != 0) {
    std::optional<size_t> whole = cutHalfLine(done);
    if (!whole)
      return fail(error);
    done = *whole;
    if (failure.empty())
      warn(error, ", and its lines are kept until there is room");
  } else if (file >= 0) {
    failure.clear();
  }
  written += done;
  checksum.add(buffer.data(), done);
  buffer.erase(0, done);
}

LogMark RunLog::sync() {
  flush();
  // Pipes and terminals have no disk to be on.
  if (file >= 0 && uninterrupted([&] { return fsync(file); }) != 0 &&
      errno != EINVAL && errno != ENOTSUP)
    fail(errno);
  return {written, checksum.text()};
}

void requireLog(const std::string &path) {
  if (!isRegularFile(path))
    return;
  std::string first = readFile(path, "the log", capacity); // more than a line
  if (first.empty())
    return;
  // Of its first line a kill leaves the beginning.
  if (first.find('\n') == std::string::npos && first.starts_with("{\"step\":"))
    return;
  nlohmann::json line = jsonOf(first.substr(0, first.find('\n')));
  if (!line.is_object() || !line.contains("step"))
    throw InputError("{} is no log of a run, and would be lost: log to another "
                     "file, or pass --overwrite",
                     path);
}

} // namespace tfm
