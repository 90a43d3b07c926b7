//===- exchange.c - how fast processes send each other blocks -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// exchange BLOCKS: every process sends so many blocks of 256 KiB, in turn to
// all the others, and receives as many from these, a few at a time. Prints the
// bytes a second that each sends meanwhile, and the seconds that a message of
// one byte takes.
//
//===----------------------------------------------------------------------===//

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { block_bytes = 256 << 10, slots = 8, messages = 200 };

static char *bytes_of(int blocks) {
  char *bytes = calloc((size_t)blocks, block_bytes);
  if (!bytes)
    MPI_Abort(MPI_COMM_WORLD, 1);
  return bytes;
}

/* The seconds of an exchange of so many blocks. */
static double exchange(int rank, int count, int blocks) {
  static char *out, *in;
  if (!out) {
    out = bytes_of(slots);
    in = bytes_of(slots);
  }
  MPI_Request requests[2 * slots];
  for (int slot = 0; slot < 2 * slots; ++slot)
    requests[slot] = MPI_REQUEST_NULL;
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int block = 0; block < blocks; ++block) {
    int slot = block % slots, far = 1 + block % (count - 1);
    MPI_Waitall(2, requests + 2 * slot, MPI_STATUSES_IGNORE);
    MPI_Irecv(in + slot * (long)block_bytes, block_bytes, MPI_CHAR,
              (rank + count - far) % count, 0, MPI_COMM_WORLD,
              requests + 2 * slot);
    MPI_Isend(out + slot * (long)block_bytes, block_bytes, MPI_CHAR,
              (rank + far) % count, 0, MPI_COMM_WORLD, requests + 2 * slot + 1);
  }
  MPI_Waitall(2 * slots, requests, MPI_STATUSES_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Wtime() - start;
}

/* The seconds of a message between the first two. */
static double message(int rank) {
  char byte = 0;
  double start = MPI_Wtime();
  for (int i = 0; i < messages; ++i)
    if (rank == i % 2)
      MPI_Send(&byte, 1, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD);
    else if (rank < 2)
      MPI_Recv(&byte, 1, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  return (MPI_Wtime() - start) / messages;
}

int main(int argc, char **argv) {
  int rank, count, blocks = argc > 1 ? atoi(argv[1]) : 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  if (blocks < 1 || count < 2)
    MPI_Abort(MPI_COMM_WORLD, 2);
  exchange(rank, count, slots); // connects
  double seconds = exchange(rank, count, blocks), latency = message(rank);
  if (rank == 0) {
    printf("%.0f %.9f\n", (double)blocks * block_bytes / seconds, latency);
    fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
