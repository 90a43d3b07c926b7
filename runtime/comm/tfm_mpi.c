//===- tfm_mpi.c - messages by MPI ----------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The whole of libtfm_mpi.so. `tfmc mpi` has this file and tfm_transport.h
// within it and compiles them with the site's `mpicc`, as every MPI has a
// binary interface of its own.
//
//===----------------------------------------------------------------------===//

#include "tfm_transport.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/// Requests that are not over: a slot each, free where it is MPI_REQUEST_NULL.
static MPI_Request *requests;
static int64_t capacity;
static int last_error;
static char error_text[MPI_MAX_ERROR_STRING];
static char library[MPI_MAX_LIBRARY_VERSION_STRING];

/// The number of a free slot, -1 where there is no memory.
static int64_t free_slot(void) {
  for (int64_t i = 0; i < capacity; ++i)
    if (requests[i] == MPI_REQUEST_NULL)
      return i;
  int64_t more = capacity ? 2 * capacity : 64;
  MPI_Request *grown = realloc(requests, (size_t)more * sizeof *grown);
  if (!grown) {
    last_error = MPI_ERR_NO_MEM;
    return -1;
  }
  for (int64_t i = capacity; i < more; ++i)
    grown[i] = MPI_REQUEST_NULL;
  int64_t slot = capacity;
  requests = grown;
  capacity = more;
  return slot;
}

static int64_t start_send(tfm_transport *self, int32_t to, int32_t channel,
                          const void *bytes, uint64_t count) {
  (void)self;
  int64_t slot = free_slot();
  if (slot < 0)
    return -1;
  last_error = MPI_Isend(bytes, (int)count, MPI_BYTE, to, channel,
                         MPI_COMM_WORLD, &requests[slot]);
  return last_error == MPI_SUCCESS ? slot : -1;
}

static int64_t start_receive(tfm_transport *self, int32_t from, int32_t channel,
                             void *bytes, uint64_t count) {
  (void)self;
  int64_t slot = free_slot();
  if (slot < 0)
    return -1;
  last_error = MPI_Irecv(bytes, (int)count, MPI_BYTE, from, channel,
                         MPI_COMM_WORLD, &requests[slot]);
  return last_error == MPI_SUCCESS ? slot : -1;
}

static int32_t test(tfm_transport *self, int64_t request) {
  (void)self;
  int over = 0;
  last_error = MPI_Test(&requests[request], &over, MPI_STATUS_IGNORE);
  if (last_error != MPI_SUCCESS)
    return TFM_REQUEST_FAILED;
  return over ? TFM_REQUEST_OVER : TFM_REQUEST_PENDING;
}

static const char *problem(tfm_transport *self) {
  (void)self;
  int length = 0;
  if (MPI_Error_string(last_error, error_text, &length) != MPI_SUCCESS)
    return "an error without a name";
  return error_text;
}

static void leave(tfm_transport *self) {
  (void)self;
  MPI_Finalize();
}

static void abort_all(tfm_transport *self, int32_t status) {
  (void)self;
  MPI_Abort(MPI_COMM_WORLD, status);
  _Exit(status);
}

tfm_transport *tfm_join(uint32_t abi) {
  static tfm_transport transport = {.library = library,
                                    .send = start_send,
                                    .receive = start_receive,
                                    .test = test,
                                    .problem = problem,
                                    .leave = leave,
                                    .abort = abort_all};
  int given = 0, length = 0;
  if (abi != TFM_TRANSPORT_ABI)
    return NULL;
  // The model's own threads never call MPI.
  MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &transport.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &transport.size);
  MPI_Get_library_version(library, &length);
  library[strcspn(library, "\r\n")] = 0; // MPICH has a page of it,
  for (char *tab = library; (tab = strchr(tab, '\t'));) // and tabs
    *tab = ' ';
  return &transport;
}
