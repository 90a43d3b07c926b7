//===- trainer.h - the training loop ------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_TRAINING_TRAINER_H
#define TFM_RUNTIME_TRAINING_TRAINER_H

#include "runtime/comm/processes.h"
#include "runtime/data/order.h"
#include "runtime/data/source_input.h"
#include "runtime/files/checkpoint.h"
#include "runtime/files/parts.h"
#include "runtime/files/run_folder.h"
#include "runtime/files/run_log.h"
#include "runtime/generation/generator.h"
#include "runtime/recipe.h"
#include "runtime/support/progress.h"
#include "runtime/training/evaluator.h"
#include "runtime/training/profile.h"
#include "runtime/training/shared_update.h"

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace tfm {

/// What the command line can change about a recipe.
struct TrainOptions {
  std::optional<int64_t> steps;
  std::optional<double> lr;
  std::optional<uint64_t> seed;
  std::string out; ///< the run directory
  /// The next name of a run that names none, where others took the one before.
  std::function<std::string()> nextOut;
  std::string resume;               ///< a run directory to go on from
  std::vector<InitialWeights> init; ///< to begin with
  std::string data; ///< what is trained on instead of the recipe's
  /// `fileChecksums` of what is trained on.
  std::map<std::string, std::string> fileChecksums;
  /// What has the chat template that data of messages was put into, a folder or
  /// gguf file; empty: there are no messages.
  std::string chat;
  std::string chatVariables; ///< what that template gets beside messages
  std::string log;           ///< instead of `out`/log.jsonl
  std::string profile;       ///< a trace of some steps; empty: none
  bool overwrite = false;    ///< replace the run in `out`
  /// What only one of `init` and the model has is left out, or starts fresh.
  bool partial = false;
  bool quiet = false; ///< no progress, no samples on stdout
  /// Who shares the work; null: this process alone.
  Processes *processes = nullptr;

  /// The run that goes on, or the first weights that another begins with, if
  /// there is one the first folder: a tokenizer and a chat template may lie in
  /// it. Empty where there are none.
  std::string begun() const {
    if (!resume.empty() || init.empty())
      return resume;
    auto folder = std::ranges::find_if(init, [](const InitialWeights &weights) {
      return isFolder(weights.path);
    });
    return (folder == init.end() ? init.front() : *folder).path;
  }
};

struct TrainResult {
  int64_t steps = 0;
  /// Of these, done before: the run was resumed.
  int64_t firstStep = 0;
  double loss = 0;
  double seconds = 0;
  /// Of these, its first step, which touches all memory for the first time.
  double firstStepSeconds = 0;
  /// Of the unit that the data is counted in.
  DataUnit unit{};
  double unitsPerSecond = 0;
  /// Of the seconds, those in which processes exchanged gradients and
  /// parameters: while nothing was computed, and while something was.
  double exchangeSeconds = 0;
  double hiddenSeconds = 0;
  std::optional<double> validationLoss;
  bool stoppedEarly = false;
  /// The run that was resumed had already come to its end: nothing was done.
  bool wasComplete = false;
};

/// The token that the loss ignores, where the recipe names one.
std::optional<int32_t> ignoredTarget(const TrainSpec &train,
                                     const Tokenizer &tokenizer);

/// One training run. The steps themselves allocate nothing.
///
/// Processes share the micro-batches of an update: each has as many, one behind
/// the other. What is drawn depends on the seed, the update and the number of
/// the micro-batch, whoever computes it. The first process alone writes files
/// and speaks; all of them throw the same and stop at the same update.
class Trainer {
public:
  Trainer(Model &model, const Recipe &recipe, const Dataset &data,
          const Tokenizer &tokenizer, TrainOptions options);

  /// Initialises or resumes, trains to the end, leaves a checkpoint. Throws
  /// Interrupted, after a checkpoint, once `interrupt` is set; InputError when
  /// loss, gradient or weights are no longer finite (the last checkpoint
  /// stays).
  TrainResult run(const std::atomic<bool> &interrupt);

  /// The parts of `run`, for tests: begin or resume, then one update.
  void prepare();
  double step();
  const RunState &state() const { return position; }

  /// The run directory, which has another name than it was to have where others
  /// took that (`nextOut`).
  const std::string &out() const { return options.out; }

private:
  /// Loads the weights that training begins with.
  void beginWith(std::span<const InitialWeights> all);
  /// The parameters that are in none of their parts.
  std::vector<std::string> outsideOf(std::span<const InitialWeights> all) const;
  /// Notes for the checkpoints which folder that is.
  void rememberInit(const std::string &path);
  /// Throws InputError: what shows that training has diverged, and what to do.
  [[noreturn]] void failDiverged(const std::string &what);
  /// Throws what all processes know of, or an InputError where this one is
  /// alone.
  [[noreturn]] void failTogether(const std::string &text) const;
  /// What is said of it.
  std::string divergence(const std::string &what) const;
  /// Behind which step, and how to go on: the end of a message.
  std::string whereItStopped() const;
  /// What there is of a run that fails, for the end of its message.
  std::string whatIsLeft() const;
  /// An update, behind which parameters of other processes may still be on
  /// their way (`SharedUpdate::awaitParameters`). Where training `goesOn` the
  /// next update may be asked for, too.
  double beginStep(bool goesOn);
  /// Reads what the next update learns from. Where it cannot be read, training
  /// stops before that update.
  void fillAhead(int64_t step);
  /// Why some process, which is named, cannot read them; empty where all can.
  std::string whoseDataEnded();
  /// Asks for the next update.
  void launch();
  /// Waits for what the update gave that was asked for first.
  double collect();
  /// Whether the next update may be asked for before this one is over.
  bool runsAhead() const;
  /// Whether training is to stop behind the update that is under way.
  bool stops() const;
  /// Waits for them; all processes do where one does.
  void awaitParameters() {
    if (shared)
      shared->awaitParameters();
  }
  /// Trains to the end. Throws as `run`, and DeviceError.
  void trainOn(TrainResult &result);
  /// Reads the micro-batches of an update.
  void fill(int64_t step);
  /// Runs a function of a step, or what ends one: `train` of the last
  /// micro-batch, and `update`.
  void call(const tfm_function &function);
  void callBoth();
  bool isFirst() const {
    return !options.processes || options.processes->isFirst();
  }
  /// Adds the gradients of a leaf of the tree (`leafMicros`) to those that it
  /// can be added to; `leaf` counts those of this process.
  void endLeaf(int64_t leaf);
  /// What `update` takes, at a learning rate.
  std::array<float, 4> hyper(int64_t step, double lr) const;
  /// The update that processes share, or of sums as a tree; returns the
  /// gradients' norm.
  float updateShared(int64_t step, double lr);
  struct Launched;
  /// The sum of the losses of all micro-batches. Also learns whether a process
  /// is to stop.
  double sumLosses(Launched &update);
  /// Throws AgreedError where the processes do not begin with the same data,
  /// options and weights.
  void requireSameBeginning();
  /// As with the log: that something beside checkpoints cannot be written must
  /// not cost the training. A warning says so now, an error at the end.
  void goOnWithout(const std::string &failure);
  /// Writes what was recorded, and records no more.
  void endProfile();
  void logStep(double loss, double lr, float gradientNorm);
  /// After so many updates.
  bool due(const Interval &interval, int64_t step) const;
  /// Of a state what this build and its data say.
  RunState ofThisBuild() const;
  /// What a resumed run has from its checkpoint and not from this build, and
  /// what else was another until now.
  void sayWhatIsKept(const RunState &here);
  /// False where the run that is resumed has come to its end already; says
  /// where training goes on.
  bool resumeWhere(TrainResult &result);
  /// Locks `out` for a new run.
  void takeFolder();
  /// Makes way in `out` where the run is new, and opens the log.
  void openRun();
  void openLog();
  void saveTexts() const;
  /// Has in `texts` the chat template that the data was put into, wherever that
  /// stood; whether this changes them.
  bool takeChat();
  /// Makes again what somebody has moved or removed: the run's folder, and what
  /// a checkpoint needs beside it. Throws InputError.
  void regainFolder();
  /// Checkpoints that training will write at most.
  int64_t checkpointsToCome() const;
  /// Leaves out validations that nothing could be measured by, and says so
  /// where the recipe asks for them; chooses what the others ask.
  void checkValidation();
  void chooseQuestions();
  /// Leaves them out, and says why.
  void askNothing(const std::string &why);
  /// Returns false when training should stop early.
  bool validate(TrainResult &result);
  void keepBest(double loss);
  void sample();
  /// Draws and shows it; `goOn` is called as it grows.
  void drawSample(const std::function<void()> &goOn);
  /// Writes a checkpoint. Where that fails and training `goesOn` a warning says
  /// so; else throws InputError.
  void save(bool goesOn);

  Model &model;
  const Recipe &recipe;
  const Dataset &data;
  const Tokenizer &tokenizer;
  TrainOptions options;
  std::optional<int32_t> ignored;
  /// What each validation asks; none where the data has no answers.
  std::vector<AskedQuestion> questions;
  const tfm_function &trainFunction;
  const tfm_function &updateFunction;
  /// What every step fills and reads.
  struct Buffers {
    const tfm_buffer *count = nullptr;
    const tfm_buffer *random = nullptr; ///< null where nothing is random
    const tfm_buffer *loss = nullptr;
    const tfm_buffer *hyper = nullptr;
    const tfm_buffer *norm = nullptr; ///< null where the optimizer has none
  };
  Buffers buffers;
  RunState position;
  /// That a run which is resumed was to have, until now.
  int64_t stepsBefore = 0;
  std::optional<RunFolder> folder; ///< `out`
  /// The step of the checkpoint that `out` holds, if any.
  std::optional<int64_t> savedAt;
  /// The loss of the weights in `best/`.
  std::optional<double> lowestLoss;
  /// Of this run's first update, and of the one before.
  std::optional<double> firstLoss, lossBefore;
  bool lastSaveFailed = false;
  bool isFolderLost = false; ///< moved or removed, and not made again
  /// What the run knows of its texts beside the tokenizer, by name.
  std::map<std::string, std::string> texts;
  std::string unreadable; ///< why the data of the next update are not known
  std::string unwritten;  ///< why `best/` or the trace could not be written
  std::optional<DataOrder> order;
  std::optional<Evaluator> evaluator;
  std::optional<Progress> progress;
  std::optional<Profile> profile;
  RunLog log;
  /// The micro-batches of an update that this process computes: how many there
  /// are, and the first of them.
  int64_t microCount;
  int64_t firstMicro;
  /// How many of them, one behind the other, are added up as they come.
  int64_t leafMicros;
  /// In place of `updateFunction` where processes share an update, or its bits
  /// shall be those of a shared one.
  std::unique_ptr<SharedUpdate> shared;
  /// `TrainResult`
  double exchangeSeconds = 0, hiddenSeconds = 0;
  /// Those of the update `filled`, batch for batch of its micro-batches, and
  /// how many of their losses count.
  Rows rows;
  int64_t counted = 0, filled = -1;
  DataUnit unit;
  /// An update that was asked for.
  struct Launched {
    double lr = 0;
    std::vector<PendingValue<float>> losses; ///< of micro-batches, as they come
    std::optional<PendingValue<float>> norm;
    float sharedNorm = 0;
  };
  /// By the last bit of their steps; and how many were asked for.
  std::array<Launched, 2> launched;
  int64_t launchedSteps = 0;
  /// Of an update, and 1 where this process is to stop; then those of all.
  std::vector<float> losses;
  std::vector<float> allLosses;
  /// Whether this process is to stop, and whether one of all is.
  const std::atomic<bool> *interrupt = nullptr;
  bool isStopped = false;
  /// What an encoder reads of a sample's prompt.
  SourceInput source;
  std::vector<int32_t> samplePrompt;
  /// The tokens that end a sample, beside the recipe's.
  std::vector<int32_t> sampleEnds;
};

} // namespace tfm

#endif // TFM_RUNTIME_TRAINING_TRAINER_H
