//===- atomic_file.cpp - files that appear whole or not at all ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/atomic_file.h"

#include "runtime/support/error.h"
#include "runtime/support/memory.h"
#include "runtime/support/system_call.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

namespace tfm {

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string withoutSlashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/'))
    path.pop_back();
  return path;
}

std::string writeFailure(int error) {
  if (error == ENOSPC || error == EDQUOT)
    return "the disk is full: free some space or choose another folder";
  if (error == EFBIG)
    return "the file would pass the size limit of this process (ulimit -f)";
  return std::strerror(error);
}

std::string whyNotMade(int error, const std::string &path) {
  const std::string folder = folderOf(path);
  return (error == ENOENT || error == ENOTDIR) && !isFolder(folder)
             ? "there is no folder " + folder
             : writeFailure(error);
}

/// Creates a file that is not there yet; links are not followed.
static int createNew(const std::string &path) {
  return uninterrupted([&] {
    return open(path.c_str(),
                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  });
}

/// Creates a file of a name that none has, beside `target`; sets `path`.
static int createUnique(const std::string &target, std::string &path) {
  std::random_device random;
  int file = -1;
  do {
    path = fmt::format("{}.{:08x}.tmp", target, random());
    file = createNew(path);
  } while (file < 0 && errno == EEXIST);
  return file;
}

std::string throughLinks(const std::string &path) {
  std::filesystem::path real(path);
  std::error_code error;
  // No more than the system follows: links can lead back to themselves.
  for (int i = 0; i != 40 && std::filesystem::is_symlink(real, error); ++i)
    real = real.parent_path() / std::filesystem::read_symlink(real, error);
  return real.string();
}

/// What there is at a path; false where there is nothing. Not to know is not
/// the same: what is there would be written over.
static bool look(const std::string &path, struct stat &status) {
  if (stat(path.c_str(), &status) == 0)
    return true;
  for (int nothing : {ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EACCES})
    if (errno == nothing)
      return false;
  throw InputError("cannot look at {}: {}", path, std::strerror(errno));
}

AtomicFile::AtomicFile(std::string finalPath, const std::string &suffix)
    : path(std::move(finalPath)), target(path) {
  // What standard output was redirected to is not ours to replace either.
  bool isOutput = path == "/dev/stdout";
  isDevice = isOutput || (fileExists(path) && !isRegularFile(path));
  if (isDevice && (!suffix.empty() || isFolder(path)))
    throw InputError("cannot write {}: it is {}", path,
                     isFolder(path) ? "a folder" : "not a regular file");
  if (suffix.empty() && !isDevice) {
    std::error_code error;
    target = throughLinks(path);
    if (std::filesystem::is_symlink(target, error))
      throw InputError("cannot write {}: {}", path, writeFailure(ELOOP));
  }
  struct stat old;
  if (suffix.empty() && !isDevice && look(target, old)) {
    if (access(target.c_str(), W_OK) != 0)
      throw InputError("cannot write {}: {}", path, writeFailure(errno));
    permissions = old.st_mode & 07777;
  }
  if (isOutput) {
    file = dup(STDOUT_FILENO);
  } else if (isDevice) {
    file =
        uninterrupted([&] { return open(path.c_str(), O_WRONLY | O_CLOEXEC); });
  } else if (suffix.empty()) {
    file = createUnique(target, temporary);
    if (file >= 0)
      goes.emplace(temporary);
  } else {
    temporary = target + suffix;
    unlink(temporary.c_str()); // what a kill has left, or somebody planted
    file = createNew(temporary);
  }
  if (file < 0)
    throw InputError("cannot write {}: {}", path,
                     whyNotMade(errno, isDevice ? path : target));
}

AtomicFile::~AtomicFile() {
  if (file >= 0)
    close(file);
  if (!kept && !isDevice)
    unlink(temporary.c_str());
}

void AtomicFile::fail(const char *what) {
  std::string why = writeFailure(errno);
  throw InputError("cannot {} {}: {}", what, path, why);
}

void AtomicFile::write(const void *data, size_t size) {
  constexpr size_t capacity = 1 << 18;
  if (pending.size() + size > capacity) {
    writeThrough(pending.data(), pending.size());
    pending.clear();
  }
  if (size > capacity)
    writeThrough(static_cast<const char *>(data), size);
  else
    pending.append(static_cast<const char *>(data), size);
}

void AtomicFile::writeThrough(const char *next, size_t size) {
  while (size > 0) {
    ssize_t written = uninterrupted([&] { return ::write(file, next, size); });
    if (written < 0)
      fail("write");
    next += written;
    size -= static_cast<size_t>(written);
  }
}

void AtomicFile::sync() {
  writeThrough(pending.data(), pending.size());
  pending.clear();
  if (!isDevice && uninterrupted([&] { return fsync(file); }) != 0)
    fail("write");
}

void AtomicFile::keep() {
  sync();
  int closing = file;
  file = -1;
  if (close(closing) != 0 && errno != EINTR)
    fail("write");
  kept = true;
}

void AtomicFile::commit() {
  if (permissions && fchmod(file, *permissions) != 0)
    fail("write");
  keep();
  if (isDevice)
    return;
  kept = false;
  renameFile(temporary, target);
  kept = true;
  goes.reset();
  syncFolder(folderOf(target));
}

void renameFile(const std::string &from, const std::string &to) {
  if (uninterrupted([&] { return std::rename(from.c_str(), to.c_str()); }) != 0)
    throw InputError("cannot write {}: {}", to, writeFailure(errno));
}

void removeFile(const std::string &path) {
  if (uninterrupted([&] { return std::remove(path.c_str()); }) == 0)
    return;
  int error = errno;
  // Where nothing can be written, nothing may be there either.
  if (error != ENOENT && (isLink(path) || fileExists(path)))
    throw InputError("cannot remove {}: {}", path, std::strerror(error));
}

void syncFolder(const std::string &folder) {
  int file = uninterrupted(
      [&] { return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  int error = file < 0 ? errno : 0;
  if (file >= 0 && uninterrupted([&] { return fsync(file); }) != 0)
    error = errno;
  if (file >= 0)
    close(file);
  // Some file systems cannot sync a folder, and some folders cannot be read.
  if (error == EIO || error == ENOSPC || error == EDQUOT)
    throw InputError("cannot write {}: {}", folder, writeFailure(error));
}

/// What a link says that leads nowhere; empty for any other path.
static std::string asDeadLink(const std::string &path) {
  std::error_code none;
  std::filesystem::path to = std::filesystem::read_symlink(path, none);
  return to.empty() || fileExists(path)
             ? ""
             : "a link to " + to.string() + ", which is not there";
}

/// Makes a folder and its parents; adds to `made` what was not there.
static void makeFolders(const std::string &path,
                        std::vector<std::string> &made) {
  for (size_t end = 0; end < path.size();) {
    end = std::min(path.find('/', end + 1), path.size());
    std::string part = path.substr(0, end);
    int error = uninterrupted([&] { return mkdir(part.c_str(), 0777); }) == 0
                    ? 0
                    : errno;
    if (error == 0) {
      made.push_back(part);
      syncFolder(folderOf(part));
    } else if (!isFolder(part)) {
      std::string link = asDeadLink(part);
      std::string why = error == EEXIST
                            ? part + " is " + (link.empty() ? "a file" : link)
                            : writeFailure(error);
      throw InputError("cannot make the folder {}: {}", path, why);
    }
  }
}

void makeFolder(const std::string &path) {
  std::vector<std::string> made;
  makeFolders(path, made);
}

// One that delegates is destroyed where it throws.
FolderForFiles::FolderForFiles(const std::string &path) : FolderForFiles() {
  makeFolders(path, made);
}

FolderForFiles::~FolderForFiles() {
  for (auto folder = made.rbegin(); folder != made.rend(); ++folder)
    rmdir(folder->c_str()); // refused where there is something in it
}

std::string readFile(const std::string &path, std::string_view purpose,
                     uint64_t most) {
  // What there is to read is what this process was given, from where it is: to
  // open it again would begin anew, and a socket cannot be.
  int file = path == standardInput
                 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                 : uninterrupted([&] {
                     return open(path.c_str(), O_RDONLY | O_CLOEXEC);
                   });
  struct Closer {
    int file;
    ~Closer() {
      if (file >= 0)
        close(file);
    }
  } closer{file};
  auto failWith = [&](const std::string &why) {
    throw InputError("cannot read {} {}: {}", purpose, path, why);
  };
  auto fail = [&]() { failWith(std::strerror(errno)); };
  if (file < 0)
    fail();
  std::string content;
  struct stat status;
  bool isRegular = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  uint64_t limit = isRegular ? memoryLimit() : memoryLimit() / 4;
  if (isRegular) {
    uint64_t size = std::min(static_cast<uint64_t>(status.st_size), most);
    std::string tooLarge = "it has " + byteText(size) + ", which " +
                           byteText(limit) + " of memory cannot hold";
    if (size > limit)
      failWith(tooLarge);
    try {
      content.reserve(size);
    } catch (const std::bad_alloc &) {
      failWith(tooLarge);
    }
  }
  char buffer[1 << 16];
  while (content.size() < most) {
    size_t wanted = std::min<uint64_t>(sizeof buffer, most - content.size());
    ssize_t got = uninterrupted([&] { return read(file, buffer, wanted); });
    if (got < 0)
      fail();
    if (got == 0)
      break;
    if (content.size() + static_cast<size_t>(got) > limit)
      failWith("it does not end within " + byteText(limit) +
               (isRegular ? ", all of the memory"
                          : ", a quarter of the memory: write what is needed "
                            "of it to a file"));
    content.append(buffer, static_cast<size_t>(got));
  }
  return content;
}

std::string readRegularFile(const std::string &path, std::string_view purpose) {
  if (fileExists(path) && !isRegularFile(path) && !isFolder(path))
    throw InputError("cannot read {} {}: it is a pipe or a device, and no file",
                     purpose, path);
  return readFile(path, purpose);
}

static bool isSame(const struct stat &one, const struct stat &other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

bool isLink(const std::string &path) {
  std::error_code none;
  return std::filesystem::is_symlink(path, none);
}

bool isSameFile(const std::string &path, const std::string &other) {
  struct stat status, otherStatus;
  return look(path, status) && look(other, otherStatus) &&
         isSame(status, otherStatus);
}

bool isStill(int file, const std::string &path) {
  struct stat named, open;
  if (!look(path, named))
    return false;
  if (file >= 0 && fstat(file, &open) != 0)
    throw InputError("cannot look at {}: {}", path, std::strerror(errno));
  return file < 0 || isSame(named, open);
}

bool fileExists(const std::string &path) {
  struct stat status;
  return look(path, status);
}

bool folderHas(const std::string &path) {
  struct stat status;
  if (look(path, status))
    return true;
  if (errno == EACCES)
    throw InputError("cannot look at {}: {}", path, std::strerror(EACCES));
  if (std::string link = asDeadLink(path); !link.empty())
    throw InputError("{} is {}: copy the folder with what its links lead to "
                     "(cp -rL), or download it again",
                     path, link);
  return false;
}

bool isRegularFile(const std::string &path) {
  struct stat status;
  return look(path, status) && S_ISREG(status.st_mode);
}

bool isFolder(const std::string &path) {
  struct stat status;
  return look(path, status) && S_ISDIR(status.st_mode);
}

} // namespace tfm
