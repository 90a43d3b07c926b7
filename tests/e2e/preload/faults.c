//===- faults.c - file calls that are counted and broken ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loaded before libc by a test, like test_syscall.c of SQLite: a table of the
// calls that programs make on files. Those of the main thread below the folder
// FAULTS_FOLDER are numbered from 1 in the order of the program, so that a run
// of the same program makes the same calls. FAULTS_LOG names a file that gets a
// line for each one before it is made. FAULTS says what happens to which:
//
//   kill before 17   SIGKILL instead of call 17
//   kill within 17   half of what call 17 writes, then SIGKILL
//   kill after 17    call 17, then SIGKILL
//   EIO at 17        call 17 fails, once
//   EIO from 17      call 17 and all behind it fail
//   ENOSPC from 17   the same, for calls that need room on the disk
//   EINTR from 1     every call that may be interrupted is, once
//   short from 1     every read and write does half of what it was asked
//
// Programs that the program starts are left alone. Nothing is synced: that is
// for a machine that loses power, and no kill of a process shows it.
//
//===----------------------------------------------------------------------===//

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum fault { NONE, KILL_BEFORE, KILL_WITHIN, KILL_AFTER, SHORT, FAIL };

/// What there is to know about a call.
enum kind {
  PLAIN = 0,
  INTERRUPTIBLE = 1, ///< POSIX lets it fail with EINTR
  TRANSFER = 2,      ///< may do less than it was asked
  WRITES = 4,        ///< a transfer that changes a file
  RELEASES = 8,      ///< close: done, also where it fails
  SYNCS = 16,
  TAKES_ROOM = 32, ///< may find the disk full
};

static char folder[PATH_MAX];
static enum fault fault;
static int errorToGive;
static long chosen;
static bool allBehind;
static int record = -1;
static long made;
static const char *interrupted;

struct call {
  int error;  ///< given instead of the call's own result; 0 for none
  bool half;  ///< only half of what it was asked
  bool fatal; ///< the process ends with it
};

static void end(void) { syscall(SYS_kill, getpid(), SIGKILL); }

__attribute__((constructor)) static void begin(void) {
  const char *text = getenv("FAULTS"), *place = getenv("FAULTS_FOLDER"),
             *log = getenv("FAULTS_LOG");
  // For this program alone.
  unsetenv("LD_PRELOAD");
  if (!place)
    return;
  char what[16] = "", when[16] = "";
  if (text &&
      sscanf(text, "%15[A-Za-z] %15[a-z] %ld", what, when, &chosen) == 3) {
    allBehind = !strcmp(when, "from");
    fault = strcmp(what, "kill")      ? !strcmp(what, "short") ? SHORT : FAIL
            : !strcmp(when, "before") ? KILL_BEFORE
            : !strcmp(when, "within") ? KILL_WITHIN
                                      : KILL_AFTER;
    errorToGive = !strcmp(what, "EINTR") ? EINTR
                  : !strcmp(what, "EIO") ? EIO
                                         : ENOSPC;
  }
  if (log)
    record = (int)syscall(SYS_openat, AT_FDCWD, log,
                          O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  strncpy(folder, place, sizeof folder - 1);
}

/// Whether a path, or the link of an open file in /proc, is below the folder.
static bool isBelow(const char *path) {
  size_t size = strlen(folder);
  return size && !strncmp(path, folder, size) &&
         (!path[size] || path[size] == '/');
}

static const char *follow(const char *link, char *path) {
  ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
  path[size < 0 ? 0 : size] = '\0';
  return path;
}

static const char *ofFile(int file, char *path) {
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  return follow(link, path);
}

static const char *ofPath(int at, const char *name, char *path) {
  if (!name || !name[0] || name[0] == '/')
    return strncpy(path, name ? name : "", PATH_MAX - 1);
  if (at == AT_FDCWD)
    follow("/proc/self/cwd", path);
  else
    ofFile(at, path);
  size_t size = strlen(path);
  snprintf(path + size, PATH_MAX - size, "/%s", name);
  return path;
}

/// Numbers the call and says what becomes of it.
static struct call enter(const char *name, enum kind kind, const char *path,
                         const char *to, size_t size) {
  struct call call = {0, false, false};
  if (!isBelow(path) && !(to && isBelow(to)))
    return call;
  if (syscall(SYS_gettid) != getpid())
    return call;
  ++made;
  if (record >= 0) {
    char line[2 * PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%ld %s %s", made, name, path);
    if (to)
      length +=
          snprintf(line + length, sizeof line - (size_t)length, " -> %s", to);
    if (kind & TRANSFER)
      length +=
          snprintf(line + length, sizeof line - (size_t)length, " %zu", size);
    line[length++] = '\n';
    syscall(SYS_write, record, line, length);
  }
  bool again = interrupted == name;
  interrupted = NULL;
  if (allBehind ? made < chosen : made != chosen)
    return call;
  if (fault == KILL_BEFORE)
    end();
  call.fatal = fault == KILL_AFTER || (fault == KILL_WITHIN && kind & WRITES);
  call.half = kind & TRANSFER && (fault == SHORT || fault == KILL_WITHIN);
  if (fault == FAIL &&
      (errorToGive == EIO || (errorToGive == ENOSPC && kind & TAKES_ROOM)))
    call.error = errorToGive;
  if (fault == FAIL && errorToGive == EINTR && kind & INTERRUPTIBLE && !again) {
    call.error = EINTR;
    interrupted = name;
  }
  return call;
}

static size_t some(const struct call *call, size_t size) {
  return call->half && size > 1 ? size / 2 : size;
}

static size_t sumOf(const struct iovec *pieces, int count) {
  size_t sum = 0;
  for (int i = 0; i != count; ++i)
    sum += pieces[i].iov_len;
  return sum;
}

// A row is: result, result of a failure, name, kind, path, second path, bytes,
// parameters, arguments. A function of ours under the name of libc's, which
// does not hold what it says of itself against ours.
#define CALL(result, failure, name, kind, path, to, size, parameters, given)   \
  result our_##name parameters __asm__(#name);                                 \
  result our_##name parameters {                                               \
    static result(*real) parameters;                                           \
    char one[PATH_MAX] = "", two[PATH_MAX] = "";                               \
    (void)two;                                                                 \
    int before = errno;                                                        \
    if (!real)                                                                 \
      real = (result(*) parameters)dlsym(RTLD_NEXT, #name);                    \
    struct call call = enter(#name, kind, path, to, size);                     \
    bool isMade = !call.error || (kind) & RELEASES;                            \
    result answer = failure;                                                   \
    errno = before;                                                            \
    if (isMade)                                                                \
      answer = (kind) & SYNCS ? (result)0 : real given;                        \
    if (call.fatal)                                                            \
      end();                                                                   \
    if (!call.error)                                                           \
      return answer;                                                           \
    errno = call.error;                                                        \
    return failure;                                                            \
  }

// The same function under another name: sizes of files have 64 bits anyway.
#define ALIAS(result, name, of, parameters)                                    \
  result our_##name parameters __asm__(#name) __attribute__((alias(#of)));

#define FILE_OF(file) ofFile(file, one)
#define PATH(name) ofPath(AT_FDCWD, name, one)
#define PATH_AT(at, name) ofPath(at, name, one)
#define TO(name) ofPath(AT_FDCWD, name, two)
#define TO_AT(at, name) ofPath(at, name, two)

typedef const char *name_t;
typedef struct stat stat_t;
typedef struct statvfs statvfs_t;
typedef struct dirent dirent_t;

CALL(int, -1, open, INTERRUPTIBLE | TAKES_ROOM, PATH(path), NULL, 0,
     (name_t path, int flags, mode_t mode), (path, flags, mode))
ALIAS(int, open64, open, (name_t path, int flags, mode_t mode))
CALL(int, -1, openat, INTERRUPTIBLE | TAKES_ROOM, PATH_AT(at, path), NULL, 0,
     (int at, name_t path, int flags, mode_t mode), (at, path, flags, mode))
ALIAS(int, openat64, openat, (int at, name_t path, int flags, mode_t mode))
CALL(int, -1, creat, INTERRUPTIBLE | TAKES_ROOM, PATH(path), NULL, 0,
     (name_t path, mode_t mode), (path, mode))
ALIAS(int, creat64, creat, (name_t path, mode_t mode))
CALL(FILE *, NULL, fopen, TAKES_ROOM, PATH(path), NULL, 0,
     (name_t path, name_t mode), (path, mode))
ALIAS(FILE *, fopen64, fopen, (name_t path, name_t mode))
CALL(int, -1, close, INTERRUPTIBLE | RELEASES | TAKES_ROOM, FILE_OF(file), NULL,
     0, (int file), (file))
CALL(int, -1, fclose, RELEASES | TAKES_ROOM, FILE_OF(fileno(file)), NULL, 0,
     (FILE * file), (file))

CALL(ssize_t, -1, read, INTERRUPTIBLE | TRANSFER, FILE_OF(file), NULL, size,
     (int file, void *data, size_t size), (file, data, some(&call, size)))
CALL(ssize_t, -1, pread, INTERRUPTIBLE | TRANSFER, FILE_OF(file), NULL, size,
     (int file, void *data, size_t size, off_t at),
     (file, data, some(&call, size), at))
ALIAS(ssize_t, pread64, pread, (int file, void *data, size_t size, off_t at))
CALL(void *, MAP_FAILED, mmap, PLAIN, FILE_OF(file), NULL, 0,
     (void *place, size_t size, int access, int flags, int file, off_t at),
     (place, size, access, flags, file, at))
ALIAS(void *, mmap64, mmap,
      (void *place, size_t size, int access, int flags, int file, off_t at))
CALL(ssize_t, -1, write, INTERRUPTIBLE | TRANSFER | WRITES | TAKES_ROOM,
     FILE_OF(file), NULL, size, (int file, const void *data, size_t size),
     (file, data, some(&call, size)))
CALL(ssize_t, -1, pwrite, INTERRUPTIBLE | TRANSFER | WRITES | TAKES_ROOM,
     FILE_OF(file), NULL, size,
     (int file, const void *data, size_t size, off_t at),
     (file, data, some(&call, size), at))
ALIAS(ssize_t, pwrite64, pwrite,
      (int file, const void *data, size_t size, off_t at))
CALL(ssize_t, -1, writev, INTERRUPTIBLE | TRANSFER | WRITES | TAKES_ROOM,
     FILE_OF(file), NULL, sumOf(pieces, count),
     (int file, const struct iovec *pieces, int count),
     (file, pieces, call.half &&pieces[0].iov_len ? 1 : count))
CALL(off_t, -1, lseek, PLAIN, FILE_OF(file), NULL, 0,
     (int file, off_t at, int from), (file, at, from))
ALIAS(off_t, lseek64, lseek, (int file, off_t at, int from))
CALL(int, -1, ftruncate, INTERRUPTIBLE | TAKES_ROOM, FILE_OF(file), NULL, 0,
     (int file, off_t size), (file, size))
ALIAS(int, ftruncate64, ftruncate, (int file, off_t size))
CALL(int, -1, truncate, INTERRUPTIBLE | TAKES_ROOM, PATH(path), NULL, 0,
     (name_t path, off_t size), (path, size))
ALIAS(int, truncate64, truncate, (name_t path, off_t size))
CALL(int, -1, fsync, INTERRUPTIBLE | SYNCS | TAKES_ROOM, FILE_OF(file), NULL, 0,
     (int file), (file))
CALL(int, -1, fdatasync, INTERRUPTIBLE | SYNCS | TAKES_ROOM, FILE_OF(file),
     NULL, 0, (int file), (file))
CALL(int, -1, flock, INTERRUPTIBLE, FILE_OF(file), NULL, 0,
     (int file, int what), (file, what))

CALL(int, -1, rename, TAKES_ROOM, PATH(from), TO(to), 0,
     (name_t from, name_t to), (from, to))
CALL(int, -1, renameat, TAKES_ROOM, PATH_AT(at, from), TO_AT(there, to), 0,
     (int at, name_t from, int there, name_t to), (at, from, there, to))
CALL(int, -1, renameat2, TAKES_ROOM, PATH_AT(at, from), TO_AT(there, to), 0,
     (int at, name_t from, int there, name_t to, unsigned flags),
     (at, from, there, to, flags))
CALL(int, -1, link, TAKES_ROOM, PATH(from), TO(to), 0, (name_t from, name_t to),
     (from, to))
CALL(int, -1, linkat, TAKES_ROOM, PATH_AT(at, from), TO_AT(there, to), 0,
     (int at, name_t from, int there, name_t to, int flags),
     (at, from, there, to, flags))
CALL(int, -1, symlink, TAKES_ROOM, PATH(to), NULL, 0, (name_t from, name_t to),
     (from, to))
CALL(int, -1, unlink, PLAIN, PATH(path), NULL, 0, (name_t path), (path))
CALL(int, -1, unlinkat, PLAIN, PATH_AT(at, path), NULL, 0,
     (int at, name_t path, int flags), (at, path, flags))
CALL(int, -1, remove, PLAIN, PATH(path), NULL, 0, (name_t path), (path))
CALL(int, -1, rmdir, PLAIN, PATH(path), NULL, 0, (name_t path), (path))
CALL(int, -1, mkdir, TAKES_ROOM, PATH(path), NULL, 0,
     (name_t path, mode_t mode), (path, mode))
CALL(int, -1, mkdirat, TAKES_ROOM, PATH_AT(at, path), NULL, 0,
     (int at, name_t path, mode_t mode), (at, path, mode))
CALL(int, -1, chmod, PLAIN, PATH(path), NULL, 0, (name_t path, mode_t mode),
     (path, mode))
CALL(int, -1, fchmod, PLAIN, FILE_OF(file), NULL, 0, (int file, mode_t mode),
     (file, mode))
CALL(int, -1, fchmodat, PLAIN, PATH_AT(at, path), NULL, 0,
     (int at, name_t path, mode_t mode, int flags), (at, path, mode, flags))

CALL(int, -1, stat, PLAIN, PATH(path), NULL, 0, (name_t path, stat_t *status),
     (path, status))
ALIAS(int, stat64, stat, (name_t path, stat_t *status))
CALL(int, -1, lstat, PLAIN, PATH(path), NULL, 0, (name_t path, stat_t *status),
     (path, status))
ALIAS(int, lstat64, lstat, (name_t path, stat_t *status))
CALL(int, -1, fstat, PLAIN, FILE_OF(file), NULL, 0, (int file, stat_t *status),
     (file, status))
ALIAS(int, fstat64, fstat, (int file, stat_t *status))
CALL(int, -1, fstatat, PLAIN, PATH_AT(at, path), NULL, 0,
     (int at, name_t path, stat_t *status, int flags),
     (at, path, status, flags))
ALIAS(int, fstatat64, fstatat, (int at, name_t path, stat_t *status, int flags))
CALL(int, -1, statvfs, INTERRUPTIBLE, PATH(path), NULL, 0,
     (name_t path, statvfs_t *status), (path, status))
ALIAS(int, statvfs64, statvfs, (name_t path, statvfs_t *status))
CALL(int, -1, access, PLAIN, PATH(path), NULL, 0, (name_t path, int how),
     (path, how))
CALL(int, -1, faccessat, PLAIN, PATH_AT(at, path), NULL, 0,
     (int at, name_t path, int how, int flags), (at, path, how, flags))
CALL(ssize_t, -1, readlink, PLAIN, PATH(path), NULL, 0,
     (name_t path, char *link, size_t size), (path, link, size))
CALL(DIR *, NULL, opendir, PLAIN, PATH(path), NULL, 0, (name_t path), (path))
CALL(dirent_t *, NULL, readdir, PLAIN, FILE_OF(dirfd(entries)), NULL, 0,
     (DIR * entries), (entries))
ALIAS(dirent_t *, readdir64, readdir, (DIR * entries))
CALL(int, -1, closedir, RELEASES, FILE_OF(dirfd(entries)), NULL, 0,
     (DIR * entries), (entries))
