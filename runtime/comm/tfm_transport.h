//===- tfm_transport.h - how processes send each other bytes --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one thing that a compiled model and a library of messages share. A
// library offers `tfm_join`, which a process that a launcher started finds by
// dlopen; `tfm_mpi.c` is the one for MPI. It moves bytes and nothing else:
// what is added up is added up by the runtime, in an order of its own, so that
// no library decides about a bit of it.
//
// All calls come from the one thread that has called `tfm_join`.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_COMM_TFM_TRANSPORT_H
#define TFM_RUNTIME_COMM_TFM_TRANSPORT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TFM_TRANSPORT_ABI 2
/// The most bytes of a message.
#define TFM_TRANSPORT_BYTES (UINT64_C(1) << 30)

/// What a request has come to.
#define TFM_REQUEST_OVER 1
#define TFM_REQUEST_PENDING 0
#define TFM_REQUEST_FAILED (-1)

/// The processes of a job, as one of them sees them.
typedef struct tfm_transport { // NOLINT(readability-identifier-naming): C
  /// 0 <= rank < size.
  int32_t rank;
  int32_t size;
  /// What the library calls itself, with its version, in one line.
  const char *library;
  /// Begin to send bytes to a process on a channel (a small number), or to take
  /// those that it sends there, in the order in which it sends them; both sides
  /// name the same number of bytes.
  /// They return at once with the number of a request, or -1 where it fails.
  /// The bytes must stay (and those to come must not be looked at) until the
  /// request is over.
  int64_t (*send)(struct tfm_transport *, int32_t to, int32_t channel,
                  const void *bytes, uint64_t count);
  int64_t (*receive)(struct tfm_transport *, int32_t from, int32_t channel,
                     void *bytes, uint64_t count);
  /// Moves on whatever there is to be moved, and says what a request has come
  /// to: a TFM_REQUEST_...; after another one than TFM_REQUEST_PENDING its
  /// number may stand for a new one.
  int32_t (*test)(struct tfm_transport *, int64_t request);
  /// What the last failure was, in a line of the library's own words.
  const char *(*problem)(struct tfm_transport *);
  /// Ends this process's part; returns when all processes have called it.
  void (*leave)(struct tfm_transport *);
  /// Ends all processes at once, with this exit status; does not return.
  void (*abort)(struct tfm_transport *, int32_t status);
} tfm_transport;

/// Joins the job that this process was started for. Null where the library was
/// made for another TFM_TRANSPORT_ABI. A job that cannot be joined ends the
/// process, with a message of the library.
tfm_transport *tfm_join(uint32_t abi);
typedef tfm_transport *tfm_join_function(uint32_t abi);

#ifdef __cplusplus
}
#endif

#endif // TFM_RUNTIME_COMM_TFM_TRANSPORT_H
