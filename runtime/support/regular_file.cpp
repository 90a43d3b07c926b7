//===- regular_file.cpp - a file that is read anywhere ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/regular_file.h"

#include "runtime/support/error.h"
#include "runtime/support/system_call.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tfm {

RegularFile::RegularFile(std::string path, std::string_view purpose)
    : name(std::move(path)) {
  auto fail = [&](const char *why) {
    throw InputError("cannot read {} {}: {}", purpose, name, why);
  };
  // A pipe would wait for a writer before it can be told that it is no file.
  file = uninterrupted(
      [&] { return open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (file < 0)
    fail(std::strerror(errno));
  struct stat status;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file);
    fail("not a regular file");
  }
  bytes = static_cast<uint64_t>(status.st_size);
}

RegularFile::~RegularFile() {
  if (file >= 0)
    close(file);
}

RegularFile::RegularFile(RegularFile &&other) noexcept
    : name(std::move(other.name)), file(std::exchange(other.file, -1)),
      bytes(other.bytes) {}

void RegularFile::readAt(void *out, uint64_t count, uint64_t position) const {
  char *next = static_cast<char *>(out);
  while (count > 0) {
    ssize_t got = uninterrupted(
        [&] { return pread(file, next, count, static_cast<off_t>(position)); });
    if (got < 0)
      throw InputError("cannot read {}: {}", name, std::strerror(errno));
    if (got == 0)
      throw InputError("{} became shorter while it was read", name);
    next += got;
    position += static_cast<uint64_t>(got);
    count -= static_cast<uint64_t>(got);
  }
}

} // namespace tfm
