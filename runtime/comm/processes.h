//===- processes.h - the processes that work on one command -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_COMM_PROCESSES_H
#define TFM_RUNTIME_COMM_PROCESSES_H

#include "runtime/comm/tfm_transport.h"
#include "runtime/device/device.h"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tfm {

/// Rows of TFM_ROW floats, of which every process has its own, or a copy, at
/// the same place of its device. Process p owns those from `begins[p]` to
/// `begins[p + 1]`.
struct SharedRows {
  std::function<PendingRead<float>(size_t first, size_t count)> read;
  std::function<PendingWrite<float>(size_t first, size_t count)> write;
  std::vector<size_t> begins;

  size_t share(size_t rank) const { return begins[rank + 1] - begins[rank]; }
  size_t longestShare() const;
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
  /// How many of them may use just the processors that this one may use.
  int neighbours() const { return sharing; }
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
  template <typename T> std::vector<T> gather(const T &own) {
    std::vector<T> all(static_cast<size_t>(count()));
    gather<T>(std::span(&own, 1), all);
    return all;
  }
  int64_t sum(int64_t own);
  /// What each of them gives, by rank, in the first process; in the others
  /// nothing.
  std::vector<std::string> collect(const std::string &own);
  /// What the first process gives, in all of them.
  std::string fromFirst(std::string own);
  /// Returns when all of them are here.
  void meet();

  /// Throws AgreedError, which says who has another `what` than the first
  /// process, and `advice`.
  void requireSame(std::string_view what, std::string_view checksum,
                   std::string_view advice);

  /// The sum over all processes of what each has, in its owner's place; of the
  /// others the values stay. It is that of a balanced binary tree over the
  /// ranks, so that its bits depend on nothing else.
  void sumToOwners(const SharedRows &rows);
  /// What its owner has, in every process.
  void spreadFromOwners(const SharedRows &rows) { send(rows, /*toAll=*/true); }
  /// What its owner has, in the first process.
  void gatherAtFirst(const SharedRows &rows) { send(rows, /*toAll=*/false); }

  /// Ends this process's part, when all have come so far; the last call.
  void leave() { transport.leave(&transport); }
  /// Ends all processes at once, with an exit status.
  void abort(int status) { transport.abort(&transport, status); }

private:
  struct Request {
    int64_t number;
    int peer;
  };
  void send(int to, const void *bytes, size_t count);
  void receive(int from, void *bytes, size_t count);
  void send(int to, std::string_view bytes);
  void receive(int from, std::span<char> bytes);
  void send(const SharedRows &rows, bool toAll);
  /// Until all that was begun is over.
  void wait();
  void gatherBytes(std::span<const std::byte> own, std::span<std::byte> all);
  [[noreturn]] void fail() const;

  tfm_transport &transport;
  double timeout;
  int sharing = 1;
  std::vector<std::string> hosts;
  std::vector<int64_t> numbers; ///< in the system, by rank
  std::vector<Request> pending;
  /// What the others send to be added up.
  std::vector<float> room;
};

/// Adds up `terms`, each of `sum.size()` floats, as a balanced binary tree:
/// neighbours first, then their sums. `sum` may be one of the terms.
void addAsTree(std::span<const float *const> terms, std::span<float> sum);

/// Where the shares of `count` processes of `rows` begin, and the end of the
/// last one.
std::vector<size_t> sharesOf(size_t rows, int count);

} // namespace tfm

#endif // TFM_RUNTIME_COMM_PROCESSES_H
