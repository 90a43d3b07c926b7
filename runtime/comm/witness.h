//===- witness.h - who tells that a process has been killed ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_COMM_WITNESS_H
#define TFM_RUNTIME_COMM_WITNESS_H

#include <string>

namespace tfm {

/// Starts a shell beside this process that says when it ends without a word,
/// as killed ones do. The launchers of MPICH and Intel MPI look at no more than
/// that a process's connection to them is closed, end all others at once, and
/// then name any of them: the shell keeps that connection open until it has
/// named the right one. Where the process `isStep`, of Slurm, whose srun lets
/// the others wait for one that is gone, the shell ends the step as well. Where
/// there is no shell nobody does. Who is asked to end by a signal, and does,
/// has not died without a word.
void startWitness(const std::string &name, bool isStep);

/// This process has said itself why it ends, or need not; whether the others
/// have to end, too, and do not know. May be called after a crash.
void dismissWitness(bool endsAll = false);

/// A handler of signals: ends the process by the signal, and dismisses the
/// shell.
extern "C" void endBySignal(int signal);

} // namespace tfm

#endif // TFM_RUNTIME_COMM_WITNESS_H
