//===- recipe_table.h - every key of a recipe ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that says which keys the blocks `train`, `data`, `tokenizer`
// and `generate` have, of which type and in which range, what they are where a
// file says nothing, and what they mean. The frontend reads files by it, the
// runtime and the passes the JSON that the frontend writes, the command line
// takes its help from it, and RecipeTableTest compares it with docs/.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_RECIPE_TABLE_H
#define TFM_RUNTIME_RECIPE_TABLE_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace tfm::recipe {

enum class Type : uint8_t {
  Integer,
  Number,
  Flag,
  Word,  ///< one of `Field::words`
  Text,  ///< a string
  Texts, ///< a list of strings; in the language one alone, too
  /// A list of pairs of a string and a positive number; in the language one
  /// alone, too.
  Pairs,
  Token, ///< a token's id, or its text
  Betas, ///< two numbers of at least 0 and less than 1
  /// The rank from which on a parameter's weights decay; in the language
  /// `rank >= 2` or `all`, which is 0.
  Rank,
  Form, ///< an object with keys of its own; in the language `kind(...)`
  Json, ///< whatever the compiler writes
};

inline constexpr double unbounded = std::numeric_limits<double>::infinity();
/// The largest number below 1.
inline constexpr double belowOne = 1.0 - 0x1p-53;

/// From `least` to `most`, both allowed, but `least` not where it `isOpen`.
struct Range {
  double least = -unbounded;
  double most = unbounded;
  bool isOpen = false;

  constexpr bool has(double value) const {
    return (isOpen ? value > least : value >= least) && value <= most;
  }
};

/// What a key is where nothing is said: nothing at all (monostate), null, or a
/// value of its type. Of a `Form` the kind that it then has; of `Texts` and
/// `Pairs` only "", which is none.
using Default = std::variant<std::monostate, std::nullptr_t, bool, int64_t,
                             double, std::string_view, std::array<double, 2>>;

struct Field {
  /// Its place in the JSON: "train.optimizer.lr".
  std::string_view path;
  Type type;
  Default fallback = {};
  std::string_view help;
  Range range = {};
  /// Whether it may be null, in the language `none`.
  bool orNone = false;
  /// Words with blanks between them: of a `Word` those that it may be.
  std::string_view words = {};
  /// The kinds of its form that have it; empty: all of them.
  std::string_view kinds = {};
  /// What is in the JSON for the other kinds; where this is not set, the
  /// fallback. Monostate: the key is not there.
  std::optional<Default> without = {};
  /// Kinds that have a fallback of their own.
  std::string_view ownKinds = {};
  Default ownFallback = {};
  /// Whether that stands in the JSON as `fallback`, too, and is filled in by
  /// who reads it: what is written can be told from what is meant.
  bool isImplied = false;
  /// Its name in the language, where it has another.
  std::string_view entry = {};
  /// The option of `./m train` or `./m generate` that sets it.
  std::string_view option = {};
  /// Not in the language: the compiler writes it.
  bool isComputed = false;
  /// Whether it may be missing in the JSON.
  bool isOptional = false;

  /// The last part of the path: its name in the JSON.
  constexpr std::string_view key() const {
    return path.substr(path.rfind('.') + 1);
  }
  /// The path of what it is in; empty of a block.
  constexpr std::string_view parent() const {
    size_t dot = path.rfind('.');
    return dot == std::string_view::npos ? "" : path.substr(0, dot);
  }
  /// Its name in the language.
  constexpr std::string_view name() const {
    return entry.empty() ? key() : entry;
  }
};

/// Whether `words`, with blanks between them, has `word`.
constexpr bool hasWord(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    size_t length = words.substr(0, words.find(' ')).size();
    if (words.substr(0, length) == word)
      return true;
    words.remove_prefix(length == words.size() ? length : length + 1);
  }
  return false;
}

// Ranges that many keys have.
inline constexpr Range notNegative{0};
inline constexpr Range atLeastOne{1};
inline constexpr Range share{0, 1};

/// Every key, parents first, in the order of the documentation.
inline constexpr Field fields[] = {
    {.path = "train",
     .type = Type::Form,
     .fallback = nullptr,
     .help = "how the model is trained",
     .orNone = true},
    {.path = "train.batch",
     .type = Type::Integer,
     .fallback = 1,
     .help = "sequences a step",
     .range = atLeastOne},
    {.path = "train.sequence",
     .type = Type::Integer,
     .fallback = 16,
     .help = "tokens of a sequence, at most the model's `context`, which is "
             "the default where it has one",
     .range = atLeastOne},
    {.path = "train.accumulate",
     .type = Type::Integer,
     .fallback = 1,
     .help = "steps that make one update",
     .range = atLeastOne},
    {.path = "train.sum",
     .type = Type::Word,
     .fallback = "sequential",
     .help = "how the gradients of these steps are added up: one after the "
             "other, or as a balanced `tree`, which gives the same bits for 1, "
             "2, 4, ... processes",
     .words = "sequential tree"},
    {.path = "train.steps",
     .type = Type::Integer,
     .fallback = nullptr,
     .help = "number of updates",
     .range = atLeastOne,
     .orNone = true,
     .option = "--steps"},
    {.path = "train.epochs",
     .type = Type::Integer,
     .fallback = nullptr,
     .help = "how often everything is shown, instead of `steps`",
     .range = atLeastOne,
     .orNone = true},
    {.path = "train.seed",
     .type = Type::Integer,
     .fallback = 1337,
     .help = "seed of everything random",
     .range = notNegative,
     .option = "--seed"},

    {.path = "train.loss", .type = Type::Form, .help = "what is minimised"},
    {.path = "train.loss.kind",
     .type = Type::Word,
     .fallback = "cross_entropy",
     .help = "`own` where the model has a method `loss`",
     .words = "cross_entropy mse own"},
    {.path = "train.loss.ignore",
     .type = Type::Token,
     .fallback = nullptr,
     .help = "the target that does not count",
     .orNone = true,
     .kinds = "cross_entropy"},
    {.path = "train.loss.label_smoothing",
     .type = Type::Number,
     .fallback = 0.0,
     .help = "the share of a target that is spread over all tokens",
     .range = {0, belowOne},
     .kinds = "cross_entropy"},

    {.path = "train.optimizer", .type = Type::Form, .help = "the update rule"},
    {.path = "train.optimizer.kind",
     .type = Type::Word,
     .fallback = "adamw",
     .help = "which one",
     .words = "adamw adam sgd"},
    {.path = "train.optimizer.lr",
     .type = Type::Number,
     .fallback = 1e-3,
     .help = "peak learning rate",
     .range = notNegative,
     .ownKinds = "sgd",
     .ownFallback = 1e-2,
     .option = "--lr"},
    {.path = "train.optimizer.betas",
     .type = Type::Betas,
     .fallback = std::array{0.9, 0.999},
     .help = "what the means of the gradients and of their squares keep with "
             "an update",
     .kinds = "adamw adam"},
    {.path = "train.optimizer.eps",
     .type = Type::Number,
     .fallback = 1e-8,
     .help = "is added to the root of the squares' mean",
     .range = notNegative,
     .kinds = "adamw adam"},
    {.path = "train.optimizer.eps_placement",
     .type = Type::Word,
     .fallback = "torch",
     .help = "adds `eps` as PyTorch does, or before the correction as Keras",
     .words = "torch keras",
     .kinds = "adamw adam"},
    {.path = "train.optimizer.weight_decay",
     .type = Type::Number,
     .fallback = 0.0,
     .help = "how strongly weights are drawn to 0",
     .range = notNegative,
     .ownKinds = "adamw",
     .ownFallback = 0.01},
    {.path = "train.optimizer.decay_min_rank",
     .type = Type::Rank,
     .fallback = 0,
     .help = "which tensors `weight_decay` is for",
     .range = notNegative,
     .entry = "decay"},
    {.path = "train.optimizer.momentum",
     .type = Type::Number,
     .fallback = 0.0,
     .help = "what an update keeps of the one before it",
     .range = share,
     .kinds = "sgd"},
    {.path = "train.optimizer.nesterov",
     .type = Type::Flag,
     .fallback = false,
     .help = "Nesterov's form of `momentum`",
     .kinds = "sgd"},

    {.path = "train.schedule",
     .type = Type::Form,
     .help = "the learning rate over time"},
    {.path = "train.schedule.kind",
     .type = Type::Word,
     .fallback = "constant",
     .help = "which curve",
     .words = "constant linear cosine wsd inverse_sqrt"},
    {.path = "train.schedule.warmup",
     .type = Type::Integer,
     .fallback = 0,
     .help = "updates in which the rate rises to `lr`",
     .range = notNegative},
    {.path = "train.schedule.final",
     .type = Type::Number,
     .fallback = 0.0,
     .help = "the rate at the end",
     .range = notNegative,
     .kinds = "linear cosine wsd"},
    {.path = "train.schedule.decay",
     .type = Type::Integer,
     .fallback = 0,
     .help = "`cosine`: the update at which `final` is reached, 0 for the "
             "end; `wsd`: how many updates the decay has",
     .range = notNegative,
     .kinds = "cosine wsd"},
    {.path = "train.schedule.shape",
     .type = Type::Word,
     .fallback = "linear",
     .help = "the curve of the decay",
     .words = "linear cosine 1-sqrt",
     .kinds = "wsd",
     .without = Default()},
    {.path = "train.schedule.warmup_from_zero",
     .type = Type::Flag,
     .help = "whether the first update of the warmup has the rate 0; without "
             "it as below",
     .isOptional = true},

    {.path = "train.only",
     .type = Type::Texts,
     .fallback = "",
     .help = "patterns of the parameters that are trained, the others being "
             "frozen"},
    {.path = "train.rates",
     .type = Type::Pairs,
     .fallback = "",
     .help = "what the learning rate of parameters is multiplied by: a pattern "
             "of names, and a number",
     .isOptional = true},
    {.path = "train.no_decay",
     .type = Type::Texts,
     .fallback = "",
     .help = "patterns of the parameters that `weight_decay` leaves alone, "
             "beside those that `decay` does",
     .isOptional = true},
    {.path = "train.clip",
     .type = Type::Number,
     .fallback = nullptr,
     .help = "the largest norm of the gradients",
     .range = {0, unbounded, /*isOpen=*/true},
     .orNone = true},
    {.path = "train.shuffle",
     .type = Type::Flag,
     .fallback = true,
     .help = "whether training sees the data in a random order"},
    {.path = "train.precision",
     .type = Type::Word,
     .fallback = "f32",
     .help = "the numbers that the build computes with",
     .words = "f32 bf16"},

    {.path = "train.validate",
     .type = Type::Form,
     .fallback = nullptr,
     .help = "when the loss is measured on data that training does not see",
     .orNone = true},
    {.path = "train.validate.every",
     .type = Type::Integer,
     .fallback = 1000,
     .help = "how often, in `unit`",
     .range = atLeastOne,
     .entry = "n"},
    {.path = "train.validate.unit",
     .type = Type::Word,
     .fallback = "steps",
     .help = "updates or epochs",
     .words = "steps epochs"},
    {.path = "train.validate.batches",
     .type = Type::Integer,
     .fallback = 20,
     .help = "how many batches are measured",
     .range = atLeastOne},

    {.path = "train.checkpoint",
     .type = Type::Form,
     .fallback = "every",
     .help = "when the run is saved",
     .orNone = true},
    {.path = "train.checkpoint.every",
     .type = Type::Integer,
     .fallback = 1000,
     .help = "how often, in `unit`",
     .range = atLeastOne,
     .entry = "n"},
    {.path = "train.checkpoint.unit",
     .type = Type::Word,
     .fallback = "steps",
     .help = "updates or epochs",
     .words = "steps epochs"},
    {.path = "train.checkpoint.keep",
     .type = Type::Integer,
     .fallback = 1,
     .help = "how many checkpoints stay, the newest included",
     .range = atLeastOne},

    {.path = "train.sample",
     .type = Type::Form,
     .fallback = nullptr,
     .help = "when a text is generated",
     .orNone = true},
    {.path = "train.sample.every",
     .type = Type::Integer,
     .fallback = 1000,
     .help = "how often, in `unit`",
     .range = atLeastOne,
     .entry = "n"},
    {.path = "train.sample.unit",
     .type = Type::Word,
     .fallback = "steps",
     .help = "updates or epochs",
     .words = "steps epochs"},
    {.path = "train.sample.prompt",
     .type = Type::Text,
     .fallback = "",
     .help = "how it begins, of characters that the tokenizer knows; without "
             "one as for `generate`",
     .orNone = true},
    {.path = "train.sample.tokens",
     .type = Type::Integer,
     .fallback = 100,
     .help = "at most this many tokens",
     .range = atLeastOne},

    {.path = "train.stop",
     .type = Type::Form,
     .fallback = nullptr,
     .help = "ends training that no longer makes the validation loss smaller",
     .orNone = true},
    {.path = "train.stop.patience",
     .type = Type::Integer,
     .fallback = 5,
     .help = "after this many validations in a row without a smaller loss",
     .range = atLeastOne},
    {.path = "train.stop.min_delta",
     .type = Type::Number,
     .fallback = 0.0,
     .help = "by how much it must be smaller",
     .range = notNegative},

    {.path = "data",
     .type = Type::Form,
     .fallback = nullptr,
     .help = "what training sees",
     .orNone = true},
    {.path = "data.kind",
     .type = Type::Word,
     .help = "what a file holds",
     .words = "text lines json tokens pairs arrays sums products"},
    {.path = "data.files",
     .type = Type::Texts,
     .fallback = "",
     .help = "read one after the other",
     .kinds = "text lines json tokens pairs arrays"},
    {.path = "data.directory",
     .type = Type::Text,
     .fallback = "",
     .help = "where the files were when the model was built",
     .isComputed = true},
    {.path = "data.field",
     .type = Type::Text,
     .fallback = "text",
     .help =
         "the member of a document, or the column of a table, that holds the "
         "text",
     .orNone = true,
     .kinds = "json",
     .without = nullptr},
    {.path = "data.prompt",
     .type = Type::Text,
     .fallback = "prompt",
     .help = "the member of a document, or the column of a table, that holds "
             "the prompt",
     .kinds = "pairs",
     .without = Default()},
    {.path = "data.answer",
     .type = Type::Text,
     .fallback = "answer",
     .help = "the one that holds the answer",
     .kinds = "pairs",
     .without = Default()},
    {.path = "data.count",
     .type = Type::Integer,
     .fallback = 10000,
     .help = "how many expressions",
     .range = atLeastOne,
     .kinds = "sums products",
     .without = 0},
    {.path = "data.max",
     .type = Type::Integer,
     .fallback = 99,
     .help = "the largest number in them",
     .range = {1, 999'999'999},
     .kinds = "sums products",
     .without = 0},
    {.path = "data.seed",
     .type = Type::Integer,
     .fallback = 1,
     .help = "of generated data",
     .range = notNegative},
    {.path = "data.validation",
     .type = Type::Number,
     .fallback = 0.0,
     .help = "the share that training does not see: the end of the text, or "
             "the last examples",
     .range = {0, belowOne}},
    {.path = "data.validation_files",
     .type = Type::Texts,
     .fallback = "",
     .help = "files of the same kind that training does not see, instead of a "
             "share",
     .kinds = "text lines json tokens pairs arrays"},
    {.path = "data.split_seed",
     .type = Type::Integer,
     .fallback = nullptr,
     .help = "shuffles the examples before that share is cut off; without it "
             "they stay in their order",
     .range = notNegative,
     .orNone = true},
    // Filled in by `withDefaults` (data/texts.h).
    {.path = "data.answer_after",
     .type = Type::Text,
     .fallback = nullptr,
     .help = "examples are questions: what follows the first place with this "
             "text is the answer",
     .orNone = true,
     .ownKinds = "sums products",
     .ownFallback = "=",
     .isImplied = true},
    {.path = "data.answers_only",
     .type = Type::Flag,
     .fallback = false,
     .help = "targets before the answer do not count"},
    {.path = "data.begin",
     .type = Type::Text,
     .fallback = nullptr,
     .help = "is put before every example, and before prompts; one token",
     .orNone = true},
    {.path = "data.end",
     .type = Type::Text,
     .fallback = nullptr,
     .help = "is added behind every example, and ends a text while "
             "generating; one token",
     .orNone = true,
     .ownKinds = "sums products",
     .ownFallback = ".",
     .isImplied = true},
    {.path = "data.pad",
     .type = Type::Text,
     .fallback = nullptr,
     .help = "fills the window behind an example that is shorter; one token",
     .orNone = true,
     .ownKinds = "sums products",
     .ownFallback = "#",
     .isImplied = true},

    {.path = "tokenizer",
     .type = Type::Form,
     .fallback = nullptr,
     .help = "between text and tokens",
     .orNone = true},
    {.path = "tokenizer.kind",
     .type = Type::Word,
     .help = "which form",
     .words =
         "chars bytes words bpe_words huggingface gpt2 sentencepiece gguf"},
    {.path = "tokenizer.files",
     .type = Type::Texts,
     .fallback = "",
     .help = "what it is read from",
     .kinds = "words bpe_words huggingface gpt2 sentencepiece gguf"},
    {.path = "tokenizer.directory",
     .type = Type::Text,
     .fallback = "",
     .help = "where the files were when the model was built",
     .isComputed = true},
    {.path = "tokenizer.size",
     .type = Type::Integer,
     .fallback = 0,
     .help = "how many tokens it has",
     .range = notNegative,
     .isComputed = true},
    {.path = "tokenizer.json",
     .type = Type::Json,
     .fallback = nullptr,
     .help = "it itself, where it was resolved while compiling",
     .orNone = true,
     .isComputed = true},

    {.path = "generate", .type = Type::Form, .help = "how texts are drawn"},
    {.path = "generate.temperature",
     .type = Type::Number,
     .fallback = 1.0,
     .help = "divides the logits; 0 is greedy",
     .range = notNegative,
     .option = "--temperature"},
    {.path = "generate.top_k",
     .type = Type::Integer,
     .fallback = 0,
     .help = "draw from the K best",
     .range = notNegative,
     .option = "--top-k"},
    {.path = "generate.top_p",
     .type = Type::Number,
     .fallback = 1.0,
     .help = "draw from the best that add up to P",
     .range = share,
     .option = "--top-p"},
    {.path = "generate.min_p",
     .type = Type::Number,
     .fallback = 0.0,
     .help = "drop tokens below P times the best",
     .range = share,
     .option = "--min-p"},
    {.path = "generate.typical_p",
     .type = Type::Number,
     .fallback = 1.0,
     .help = "draw from the most typical that add up to P",
     .range = share,
     .option = "--typical-p"},
    // A penalty of nothing would divide by it.
    {.path = "generate.repeat_penalty",
     .type = Type::Number,
     .fallback = 1.0,
     .help = "makes tokens that occurred less likely",
     .range = {1e-3},
     .option = "--repeat-penalty"},
    {.path = "generate.tokens",
     .type = Type::Integer,
     .fallback = 100,
     .help = "at most this many tokens",
     .range = atLeastOne,
     .option = "--tokens"},
    {.path = "generate.greedy",
     .type = Type::Flag,
     .fallback = false,
     .help = "always the best token",
     .option = "--greedy"},
    {.path = "generate.overflow",
     .type = Type::Word,
     .fallback = "slide",
     .help = "when the context is full: slide over the newest tokens, or stop",
     .words = "slide stop",
     .option = "--overflow"},
    {.path = "generate.stop",
     .type = Type::Texts,
     .fallback = "",
     .help = "end at this text",
     .option = "--stop"},
    {.path = "generate.weights",
     .type = Type::Word,
     .fallback = "f32",
     .help = "how weights are stored; narrower ones are for generation and "
             "evaluation only",
     .words = "f32 bf16 int8 int4"},
    {.path = "generate.cache",
     .type = Type::Word,
     .fallback = "f32",
     .help = "how keys and values of earlier tokens are stored; `f32` is bf16 "
             "where the build computes in that",
     .words = "f32 bf16 int8"},
    {.path = "generate.batch",
     .type = Type::Integer,
     .fallback = 1,
     .help = "texts that grow together",
     .range = atLeastOne},
    {.path = "generate.context",
     .type = Type::Integer,
     .fallback = 0,
     .help = "tokens that a text may have, 0 for as many as `forward` takes",
     .range = notNegative,
     .isComputed = true},
    {.path = "generate.whole_sequence",
     .type = Type::Text,
     .help = "what prevents generation with a cache",
     .isComputed = true,
     .isOptional = true},

    {.path = "facts",
     .type = Type::Json,
     .help = "what the compiler read from the graph",
     .isComputed = true,
     .isOptional = true},
    {.path = "family",
     .type = Type::Json,
     .help = "what the keys of a config.json mean",
     .isComputed = true,
     .isOptional = true},
};

/// The key at that place in the JSON; null where there is none.
constexpr const Field *find(std::string_view path) {
  for (const Field &field : fields)
    if (field.path == path)
      return &field;
  return nullptr;
}

/// The same of a path that is written down: one that is not in the table does
/// not compile.
consteval Field field(std::string_view path) { return *find(path); }

/// What it is where a form of `kind` does not say it.
constexpr const Default &fallbackOf(const Field &field, std::string_view kind) {
  return hasWord(field.ownKinds, kind) ? field.ownFallback : field.fallback;
}

/// What is in the JSON of a form of `kind` that does not say it; monostate
/// where the key is not there.
constexpr const Default &writtenFor(const Field &field, std::string_view kind) {
  if (!field.kinds.empty() && !hasWord(field.kinds, kind))
    return field.without ? *field.without : field.fallback;
  return field.isImplied ? field.fallback : fallbackOf(field, kind);
}

/// `fallbackOf` by its type, for the structs of whoever reads the JSON. A path
/// that is not in the table, or is of another type, does not compile.
consteval int64_t integer(std::string_view path, std::string_view kind = "") {
  return std::get<int64_t>(fallbackOf(*find(path), kind));
}
consteval double number(std::string_view path, std::string_view kind = "") {
  return std::get<double>(fallbackOf(*find(path), kind));
}
consteval bool flag(std::string_view path, std::string_view kind = "") {
  return std::get<bool>(fallbackOf(*find(path), kind));
}
consteval std::string_view text(std::string_view path,
                                std::string_view kind = "") {
  return std::get<std::string_view>(fallbackOf(*find(path), kind));
}
consteval std::array<double, 2> betas(std::string_view path) {
  return std::get<std::array<double, 2>>(find(path)->fallback);
}

/// What a value of the field must be, in words: "an integer of at least 1, or
/// none", "`slide` or `stop`".
std::string takes(const Field &field);

} // namespace tfm::recipe

#endif // TFM_RUNTIME_RECIPE_TABLE_H
