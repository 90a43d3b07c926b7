//===- separate_work.h - parts of a work that take as long as they do ---===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_COMM_SEPARATEWORK_H
#define TFM_RUNTIME_COMM_SEPARATEWORK_H

#include "runtime/comm/processes.h"

#include <vector>

namespace tfm {

/// A work of which each process has a part of its own, perhaps for hours longer
/// than others. Meanwhile each tells the first, and the first all, that it
/// still works and whether one is to stop.
class SeparateWork {
public:
  explicit SeparateWork(Processes &processes);
  SeparateWork(const SeparateWork &) = delete;
  SeparateWork &operator=(const SeparateWork &) = delete;

  /// Between two pieces of the own part. Returns whether any process `stops`.
  /// Throws LostProcess, which names whoever is not heard of for `timeout`
  /// seconds.
  bool goOn(bool stops);
  /// Behind the last piece: the same when the parts of all are over.
  bool end(bool stops);

private:
  struct Word {
    bool stops, ends;
  };
  struct Peer {
    Patience patience; ///< with which words are awaited
    int rank = 0;
    Word said{}, heard{};
    Processes::Request going{}, coming{};
  };
  /// Takes what has come, and begins to tell what is to be told by now.
  void exchange();
  void tell(Peer &peer, bool ends);
  void listen(Peer &peer);
  /// Until the peer's work has come `toEnd`, or the latest word to it has gone,
  /// for as long as words come from it.
  void wait(Peer &peer, bool toEnd);

  Processes &processes;
  std::vector<Peer> peers; ///< all others for the first, which is theirs
  bool stops = false;
  double looked = 0, told = 0; ///< when
};

} // namespace tfm

#endif // TFM_RUNTIME_COMM_SEPARATEWORK_H
