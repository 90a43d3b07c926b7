//===- processes.h - the processes that work on one command -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_COMM_PROCESSES_H
#define TFM_RUNTIME_COMM_PROCESSES_H

#include "runtime/comm/tfm_transport.h"
#include <array>
#include <cstddef>
#include <cstdint>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tfm {

/// Messages of a channel come in the order in which they are sent, whatever
/// there is on others.
enum class Channel : int32_t { Talk, Sums, Copies, NarrowCopies };

/// What this machine calls itself.
std::array<char, 64> ownHost();

/// How a process waits for others, which may be in need of the processor that
/// it waits on: who has waited for `watch` seconds looks but now and then.
class Patience {
public:
  Patience(double watch, double timeout);
  /// Something has come.
  void reward() { waited = 0; }
  /// Nothing has: lets others go on, and returns `lasts()`.
  bool wait();
  /// False when nothing has come for `timeout` seconds, at each of which this
  /// process was there to look.
  bool lasts();

private:
  double watch, timeout, last, waited = 0;
};

/// Ends the program with a message and exit status 1 where it stands for more
/// than so many seconds: for calls of a library that may never come back.
class Deadline {
public:
  Deadline(double seconds, std::string message);
  ~Deadline();
  Deadline(const Deadline &) = delete;
  Deadline &operator=(const Deadline &) = delete;

private:
  /// Of a deadline, until it is over.
  static void *watch(void *deadline);

  double seconds;
  std::string message;
  sem_t over;
  pthread_t guard;
  bool isWatched; ///< else the system has no thread for it
};

class Processes;

/// What each process gives, by rank.
template <typename T> class Gathered {
  static_assert(std::is_trivially_copyable_v<T>);

public:
  Gathered() = default;
  Gathered(Processes &processes, const T &own);
  const T *begin() const { return reinterpret_cast<const T *>(bytes.data()); }
  const T *end() const { return begin() + bytes.size() / sizeof(T); }
  const T &operator[](size_t rank) const { return begin()[rank]; }

private:
  std::string bytes;
};

/// The processes of a job, of which this is one. All of them call the same
/// methods in the same order; each returns when all that it needs of the others
/// is there. Whoever is waited for longer than `timeout` seconds is named in an
/// InputError.
class Processes {
public:
  /// Exchanges hosts with the others.
  Processes(tfm_transport &transport, double timeout);
  Processes(const Processes &) = delete;
  Processes &operator=(const Processes &) = delete;

  int rank() const { return transport.rank; }
  int count() const { return transport.size; }
  /// The one that writes files and speaks for all.
  bool isFirst() const { return rank() == 0; }
  /// How many before it are on the same host.
  int placeOnHost() const { return before; }
  /// How many of them may use just the processors that this one may use.
  int neighbours() const { return sharing; }
  /// How many of them share its memory: they are on its host, in the same
  /// control groups.
  int companions() const { return inMemory; }
  /// For messages: `process 3 (node-7)`.
  std::string name(int rank) const;
  /// Who is who, for messages: `process 0 is 4711 on node-7`, a line each, as
  /// some launchers name who has died by its number in the system alone.
  std::string list() const;
  std::string name() const { return name(rank()); }

  /// What each of them gives, by rank: `all` has room for `count()` times as
  /// many as `own`.
  template <typename T> void gather(std::span<const T> own, std::span<T> all) {
    static_assert(std::is_trivially_copyable_v<T>);
    gatherBytes(std::as_bytes(own), std::as_writable_bytes(all));
  }
  template <typename T> Gathered<T> gather(const T &own) {
    return Gathered<T>(*this, own);
  }
  int64_t sum(int64_t own);
  /// What the first process gives, in all of them.
  template <typename T> T ofFirst(T own) {
    static_assert(std::is_trivially_copyable_v<T>);
    spread(std::as_writable_bytes(std::span(&own, 1)));
    return own;
  }
  std::string fromFirst(std::string own);
  /// What each of them gives, by rank, in the first process; in the others
  /// nothing.
  std::vector<std::string> collect(const std::string &own);
  /// Returns when all of them are here.
  void meet();

  /// Throws AgreedError where not all of them are `told` the same (of which
  /// checksums are compared): it says who has `what`, another one than the
  /// first process, and `advice`.
  void requireSame(const char *what, const std::string &told,
                   const char *advice);

  /// A message that is on its way, or one that is over.
  struct Request {
    int64_t number = -1; ///< below 0: over
    int peer = 0;

    bool isUnderWay() const { return number >= 0; }
  };
  /// Begin a message, of TFM_TRANSPORT_BYTES at most. The bytes must stay, and
  /// those to come must not be looked at, until it is over.
  Request send(int to, Channel channel, std::span<const std::byte> bytes);
  Request receive(int from, Channel channel, std::span<std::byte> bytes);
  /// Also moves on whatever there is to be moved.
  bool isOver(Request &request);
  Patience patience() const { return Patience(watch, timeout); }
  /// For how many seconds one waits for another.
  double longestWait() const { return timeout; }
  /// Adds to `names` whom a message waits for that is not over by now, once.
  void nameIfLate(Request &request, std::string &names);
  /// Throws LostProcess: these have been waited for long enough.
  [[noreturn]] void giveUp(const std::string &whom) const;

  /// Ends this process's part, when all have come so far; the last call. Where
  /// the library's own end takes longer than `timeout` seconds, the program
  /// ends, with a message and exit status 1.
  void leave();
  /// Ends all processes at once, with an exit status.
  void abort(int status) { transport.abort(&transport, status); }

private:
  template <typename T> friend class Gathered;
  void say(int to, std::span<const std::byte> bytes);
  void hear(int from, std::span<std::byte> bytes);
  /// Until all that was said and is to be heard is over.
  void wait();
  /// Those of the first process come to all.
  void spread(std::span<std::byte> bytes);
  void gatherBytes(std::span<const std::byte> own, std::span<std::byte> all);
  std::string gatherBytes(std::span<const std::byte> own);
  [[noreturn]] void fail() const;

  tfm_transport &transport;
  double timeout, watch = 0;
  int sharing = 0, before = 0, inMemory = 0;
  /// What a process tells of itself.
  struct Introduction {
    std::array<char, 64> host{};
    cpu_set_t processors{};
    uint64_t groups = 0; ///< a checksum of their names
    int64_t number = 0;  ///< in the system
  };
  static Introduction introduction();
  Gathered<Introduction> members; ///< none until all have told it
  std::vector<Request> pending;
  std::vector<int64_t> counts; ///< of `sum`
};

template <typename T>
Gathered<T>::Gathered(Processes &processes, const T &own)
    : bytes(processes.gatherBytes(std::as_bytes(std::span(&own, 1)))) {}

} // namespace tfm

#endif // TFM_RUNTIME_COMM_PROCESSES_H
