//===- launcher.h - whether other processes were started with this one --===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_COMM_LAUNCHER_H
#define TFM_RUNTIME_COMM_LAUNCHER_H

#include "runtime/comm/processes.h"
#include "runtime/support/error.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tfm {

/// What a launcher has told a process.
struct Launch {
  std::string_view launcher;
  int64_t size;          ///< processes that it has started
  std::string_view rank; ///< of this one; empty where nobody says it

  /// The rank, 0 where nobody says it.
  int64_t number() const;
  /// For messages: `process 3 (node-7)`, or of `this process`.
  std::string name() const;
};

/// This process cannot join the others. The message begins with its name.
class NotJoined : public InputError {
public:
  using InputError::InputError;
};

/// std::getenv.
const char *environmentVariable(const char *name);

/// Looks for the variables that the launchers of Open MPI, MPICH (and Intel
/// MPI, which is made of it) and Slurm set (`environmentVariable`, but for
/// tests). Nothing where none of them started this process.
std::optional<Launch> findLaunch(const char *(*variable)(const char *));

/// How many tasks a job of Slurm has, where its script runs this process by
/// itself, without `srun`, and so alone; 1 elsewhere.
int64_t tasksOfScript(const char *(*variable)(const char *));

/// How a command is shared.
struct ProcessesOptions {
  /// `auto`: with those that a launcher started; `mpi`; `none`: this process
  /// works alone, whoever started it.
  std::string wanted = "auto";
  std::optional<double> timeout; ///< `Processes`; 600 s
};

/// Joins the processes that a launcher started with this one, through
/// libtfm_mpi.so. Null where this one works alone: then nothing is loaded.
/// Throws NotJoined where the library is missing or not of this launcher.
std::unique_ptr<Processes> joinProcesses(const ProcessesOptions &options);

/// Lets the processes before `rank` tell what ends all of them: often all make
/// the same mistake or miss the same one, and once told it is enough. Who tells
/// it ends the others, Open MPI a second after it.
void waitForTurn(int64_t rank);

/// Tells, in whole lines, why this process does not join the others, and has
/// the launcher end them, as MPICH's would wait for ever. Returns the exit
/// status.
int endLaunch(const std::string &message, int status);

/// Throws AgreedError where not all processes run the same executable, or
/// another command of it.
void requireSameProgram(Processes &processes, const std::string &command);

} // namespace tfm

#endif // TFM_RUNTIME_COMM_LAUNCHER_H
