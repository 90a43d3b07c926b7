//===- commands.h - what each command of a compiled model does ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_COMMANDS_COMMANDS_H
#define TFM_RUNTIME_COMMANDS_COMMANDS_H

#include "runtime/comm/launcher.h"
#include "runtime/formats/safetensors.h"
#include "runtime/generation/generator.h"
#include "runtime/tfm_model.h"
#include "runtime/training/trainer.h"

#include <array>
#include <atomic>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tfm {

struct Unmatched;

/// Options that several commands have.
struct CommonOptions {
  std::string data;
  std::string tokenizer;
  std::string weights;
  int threads = 0;             ///< 0: as many as pay
  std::string device = "auto"; ///< see choose_device.h
  bool json = false;
  /// Of the weights: what only they have may be left out.
  bool partial = false;
  std::string chatVariables; ///< JSON: what else the chat template gets
  ProcessesOptions sharing;
  /// Who shares the work; null: this process alone.
  Processes *processes = nullptr;

  /// Whether this process speaks for all.
  bool speaks() const { return !processes || processes->isFirst(); }
};

/// Loads the weights of a command, and says what of them was left out.
void loadWeights(const CommonOptions &options, Model &model);

/// Throws InputError where the processes that share this machine's memory need
/// more of it together, to train or to generate; the first of them says so.
void requireMemoryOfMachine(const CommonOptions &options,
                            const tfm_model &model, const Recipe &recipe,
                            bool trains);

/// The threads that a command shall use: by default as many as there are
/// processors for this process, but no more than the function that gains the
/// most by them.
int threadCount(const CommonOptions &options, const tfm_model &model);

/// The data of the recipe, from the files that the user names, if any.
DataSpec dataOf(const tfm_model &model, const Recipe &recipe,
                const std::string &named);

/// `openTexts` for a command: where the tokenizer has no token for something
/// in the data, the message says what to do.
std::unique_ptr<TextDataset> openTextsFor(const CommonOptions &options,
                                          const Recipe &recipe,
                                          const DataRequest &request);

/// The same of any data, for what a model learns, or is measured, with; says
/// what of the data is not used.
std::unique_ptr<Dataset> openData(const CommonOptions &options,
                                  const Recipe &recipe,
                                  const DataRequest &request);

/// Warns of a file that the data names twice, as a pattern beside a name easily
/// does.
void warnOfSameFiles(const DataSpec &data);

/// The tokenizer of what a model is trained with, or tested, whose weights may
/// bring one. Data that is token ids needs none, and arrays even less: without
/// one the tokenizer of no tokens.
TokenizerPtr dataTokenizer(const tfm_model &model, const Recipe &recipe,
                           const DataSpec &data, const CommonOptions &options,
                           const std::string &weights);

/// What the tokenizer puts before texts, where those that fill a function have
/// not.
std::string missingBegin(const tfm_function &function,
                         const Tokenizer &tokenizer, const Dataset &data);

/// Throws InputError if `path`, which is to be written, is this program, or a
/// file that the model was made of: its source, data or tokenizer.
void requireNoneOfModel(const std::string &path, const tfm_model &model);

/// The same where it is a file that a command reads.
void requireNotRead(const std::string &path, const CommonOptions &options,
                    const tfm_model &model);

/// Says what was left out, and throws InputError where the weights have not all
/// that the model needs.
void requireAll(const CommonOptions &options, const Unmatched &unmatched);

/// Writes to standard output, at once.
void printText(std::string_view text);
/// Paths need not be UTF-8, as JSON must be.
std::string jsonText(const nlohmann::ordered_json &value, int indent = -1);

/// Null where the model has none of that name.
const tfm_function *findFunction(const tfm_model &model, std::string_view name);
/// How many tokens of a prompt an encoder reads in it; 0 where there is none.
int64_t sourceLength(const tfm_model &model, std::string_view function);

/// The commands that this model refuses whatever they are given: of one without
/// a `train` block `train`, of one that gives no logits `generate`, and so on.
std::vector<std::string> refusedCommands(const tfm_model &model);

/// Commands print results on stdout, progress on stderr, and throw what goes
/// wrong; see runtime/support/error.h.
void info(const tfm_model &descriptor, const CommonOptions &options);

struct TrainCommand : CommonOptions {
  TrainOptions options;
};
/// Throws AgreedError where processes cannot share the micro-batches of an
/// update, with what to build instead.
void requireShares(const TrainSpec &train, const Processes &processes);
void train(const tfm_model &model, TrainCommand command,
           const std::atomic<bool> &interrupt);

struct GenerateCommand : CommonOptions {
  std::string prompt;
  std::string promptFile;
  std::string prompts; ///< a file with many
  std::optional<int64_t> tokens;
  std::optional<double> temperature;
  std::optional<int64_t> topK;
  std::optional<double> topP;
  std::optional<double> minP;
  std::optional<double> typicalP;
  std::optional<double> repeatPenalty;
  bool greedy = false;
  std::optional<uint64_t> seed;
  std::vector<std::string> logitBias; ///< TOKEN=BIAS
  std::vector<std::string> stop;
  std::string overflow;            ///< slide, stop; empty: as the recipe says
  bool ignoreEos = false;          ///< end tokens end nothing
  std::optional<int64_t> logprobs; ///< `GenerateOptions::logprobs`
  int64_t lookahead = 0;           ///< `GenerateOptions::lookahead`
  int64_t count = 1;
  bool ids = false;  ///< prompt and text are token ids
  bool chat = false; ///< prompts are messages
  bool interactive = false;
};
void generate(const tfm_model &model, const GenerateCommand &command);

/// Writes the logits after every token of a prompt: `logits` [tokens,
/// vocabulary] in a safetensors file.
void writeLogits(const tfm_model &model, const GenerateCommand &command,
                 const std::string &out);

struct PredictCommand : CommonOptions {
  std::string out;
};
/// Writes what `forward` gives of each example of arrays: `output`, or
/// `output.0`, `output.1` of several results, in a safetensors file.
void predict(const tfm_model &model, const PredictCommand &command);

void evaluate(const tfm_model &model, const CommonOptions &command);

/// What the model is trained on: sizes, and the first rows of a part.
struct DataCommand : CommonOptions {
  int64_t count = 5;
  std::string part = "train"; ///< train, validation
};
void showData(const tfm_model &model, const DataCommand &command);

struct ExportCommand : CommonOptions {
  std::string out;
  std::optional<uint64_t> seed; ///< of the initial weights, instead of a file
  StoredType dtype = StoredType::F32;
  std::string dtypeName = "f32"; ///< as recipes and options say it
  bool overwrite = false;        ///< replace another model in `out`
  bool merge = false;            ///< corrections into the weights
  bool adapter = false;          ///< corrections alone
  std::string part;              ///< of the model; empty: all of it
};
void exportWeights(const tfm_model &model, const ExportCommand &command);

struct BenchCommand : CommonOptions {
  std::vector<std::string> functions; ///< of timedFunctions; none: all
};
/// The functions that `bench` times, in its order.
inline constexpr std::array timedFunctions = {
    TFM_TRAIN,   TFM_UPDATE,        TFM_EVALUATE, TFM_FORWARD, TFM_ENCODE,
    TFM_PREFILL, TFM_PREFILL_SHORT, TFM_VERIFY,   TFM_DECODE};
void bench(const tfm_model &model, const BenchCommand &command);

} // namespace tfm

#endif // TFM_RUNTIME_COMMANDS_COMMANDS_H
