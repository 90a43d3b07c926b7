//===- system_call.h - calls that a signal may interrupt ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_SYSTEM_CALL_H
#define TFM_RUNTIME_SUPPORT_SYSTEM_CALL_H

#include <cerrno>

namespace tfm {

/// What `call` returns once no signal interrupts it. Not for `close`: there the
/// file is closed all the same, and its number may be another's by now.
template <typename Call> auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR)
    result = call();
  return result;
}

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_SYSTEM_CALL_H
