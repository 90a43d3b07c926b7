//===- separate_work.cpp - parts of a work that take as long as they do -===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/separate_work.h"

#include "runtime/support/progress.h"

#include <algorithm>

namespace tfm {

SeparateWork::SeparateWork(Processes &processes)
    : processes(processes),
      peers(
          static_cast<size_t>(processes.isFirst() ? processes.count() - 1 : 1),
          Peer{processes.patience()}) {
  int rank = processes.isFirst() ? 1 : 0;
  for (Peer &peer : peers) {
    peer.rank = rank++;
    listen(peer);
  }
}

void SeparateWork::listen(Peer &peer) {
  peer.coming =
      processes.receive(peer.rank, Channel::Talk,
                        std::as_writable_bytes(std::span(&peer.heard, 1)));
}

void SeparateWork::tell(Peer &peer, bool ends) {
  peer.said = {stops, ends};
  peer.going = processes.send(peer.rank, Channel::Talk,
                              std::as_bytes(std::span(&peer.said, 1)));
}

void SeparateWork::exchange() {
  for (Peer &peer : peers) {
    (void)processes.isOver(peer.going);
    if (peer.coming.isUnderWay() && processes.isOver(peer.coming)) {
      peer.patience.reward();
      stops |= peer.heard.stops;
      if (!peer.heard.ends)
        listen(peer);
    }
  }
  double time = now();
  if (time - told < std::min(0.5, processes.longestWait() / 4))
    return;
  told = time;
  for (Peer &peer : peers)
    if (!peer.going.isUnderWay() && !peer.said.ends)
      tell(peer, /*ends=*/false);
}

bool SeparateWork::goOn(bool ownStops) {
  constexpr double pause = 0.01; // s: a token may take less
  stops |= ownStops;
  if (double time = now(); time - looked >= pause) {
    looked = time;
    exchange();
    for (Peer &peer : peers)
      if (!peer.heard.ends && !peer.patience.lasts())
        processes.giveUp(processes.name(peer.rank));
  }
  return stops;
}

void SeparateWork::wait(Peer &peer, bool toEnd) {
  for (peer.patience.reward();
       toEnd ? !peer.heard.ends : peer.going.isUnderWay(); exchange())
    if (!peer.patience.wait())
      processes.giveUp(processes.name(peer.rank));
}

bool SeparateWork::end(bool ownStops) {
  stops |= ownStops;
  // The last words are those of the first process, when all others have ended.
  for (bool tells : {!processes.isFirst(), processes.isFirst()})
    for (Peer &peer : peers) {
      wait(peer, /*toEnd=*/!tells);
      if (!tells)
        continue;
      tell(peer, /*ends=*/true);
      wait(peer, /*toEnd=*/false);
    }
  return stops;
}

} // namespace tfm
