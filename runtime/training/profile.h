//===- profile.h - what training steps spend their time on --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TRAINING_PROFILE_H
#define TFM_RUNTIME_TRAINING_PROFILE_H

#include "runtime/model/model.h"
#include "runtime/support/atomic_file.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tfm {

/// Throws InputError where no trace can be written, and where there is a file
/// that is none, and would be lost. The folder of the run, `out`, need not be
/// there yet.
void requireTrace(const std::string &path, const std::string &out);

/// Seconds in which a process exchanged rows with others while kernels were
/// computed, and in which kernels waited for parameters of others.
struct HiddenExchange {
  double hidden, waited;
};

/// A trace of some steps of a training run, for chrome://tracing and
/// ui.perfetto.dev ("Trace Event Format"): a span for every step, in it one for
/// every call of a function, in it one for every run of a launch, with its
/// module, FLOPs and bytes; and one for each part of an update that processes
/// share. The first step, which touches pages and files for
/// the first time, is left out where there are more. Recording allocates
/// nothing.
class Profile {
public:
  /// Of at most `most` of the `steps` steps to come, each of `micro` calls of
  /// `train` and one of `update`. Throws InputError where `path` cannot be
  /// written.
  Profile(std::string path, Model &model, const tfm_function &train,
          const tfm_function &update, int64_t micro, int64_t steps,
          int64_t most = 10);

  /// A step begins: that of this number, from 1.
  void beginStep(int64_t number);
  /// Runs a function of the step.
  void run(const tfm_function &function);
  /// The step did something else from `begin` to `end`; `name` stays. With what
  /// it exchanged beside kernels before that, and waited for in between.
  void note(const char *name, double begin, double end,
            std::optional<HiddenExchange> hidden = {});
  /// The step is over. Returns whether that was the last one to be recorded.
  bool endStep();

  /// Writes what was recorded; false where nothing was.
  bool write();

private:
  struct Call {
    const tfm_function *function;
    size_t firstEvent;
    double begin, end; ///< seconds (`now`)
  };
  struct Step {
    int64_t number;
    size_t firstCall;
    double begin, end;
  };

  struct Other {
    const char *name = nullptr;
    double begin = 0, end = 0;
    std::optional<HiddenExchange> hidden;
  };

  std::string traceText() const;

  AtomicFile file;
  Model &model;
  /// Steps that go by before, and that are still to be recorded.
  int64_t skip, left;
  std::vector<tfm_event> events;
  size_t usedEvents = 0;
  std::vector<Call> calls;
  std::vector<Step> steps;
  std::vector<Other> others; ///< room for all of them
  size_t noted = 0;          ///< how many there are
};

} // namespace tfm

#endif // TFM_RUNTIME_TRAINING_PROFILE_H
