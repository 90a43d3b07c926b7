//===- ModelReport.h - what a model consists of and what it costs ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The answer to `tfmc report` as data: read once from the tfm dialect, then
// written as text, JSON or CSV (Writers.h). All numbers are exact integers;
// bytes and FLOPs where nothing else is said.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_REPORT_MODELREPORT_H
#define TFM_REPORT_MODELREPORT_H

#include "compiler/report/Flops.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace tfm {

/// A hyperparameter as the model was built with.
struct Hyperparameter {
  std::string name;
  std::variant<int64_t, double, bool, std::string> value;
};

/// One tensor of a checkpoint.
struct TensorReport {
  /// `h.0.attn.c_attn.weight`, and `h.*.attn.c_attn.weight` for all layers of
  /// it.
  std::string name;
  std::string pattern;
  /// Its shape, and that in the user's words.
  std::vector<int64_t> shape;
  std::vector<std::string> dims;
  std::string dtype;
  int64_t parameters = 0;
  std::string formula;
  bool trainable = true;
  /// What its learning rate is multiplied by; 1 of what is not trained.
  double rate = 1;
  /// Whether the recipe names it among those that do not decay.
  bool noDecay = false;
  /// The axis of its outputs, where products and gathers alone read it.
  std::optional<int64_t> outputAxis;
  /// Further names of the same tensor (ties).
  std::vector<std::string> aliases;
  /// The modules that use it, and `module.forward:LINE` for uses elsewhere.
  std::vector<std::string> usedBy;
};

/// Where the last part of a path is that of a repeat in a list, `1-11`, the
/// number of its first layer.
std::optional<int64_t> firstLayer(llvm::StringRef part);

/// A module of the tree; of a repeat, the repeat itself (`h`, in a list
/// `block.1-11`) and its body (children of `h.*`).
struct ModuleReport {
  /// With `*` for the number of a layer; `2*+1` where the layers of a repeat
  /// differ, and this is the second of each two.
  std::string path;
  std::string module;
  /// The text that declares it, the model's or one that this uses, and the
  /// line there, 0 where unknown.
  std::string file;
  int64_t line = 0;
  /// Of a repeat: how many layers, else 0; and that in the user's words.
  int64_t count = 0;
  std::string countFormula;
  /// How often this module occurs: the product of the counts around it.
  int64_t instances = 1;
  /// Parameters of one instance and of all instances. Tied tensors count where
  /// they were declared.
  int64_t parameters = 0;
  int64_t totalParameters = 0;
  std::string formula;
  std::string totalFormula;
  /// Of a repeat: one layer's. Where layers differ there is one entry for each
  /// layer of a period.
  std::vector<int64_t> layerParameters;
  std::vector<std::string> layerFormulas;
  /// What no submodule holds, of one instance (of a repeat: of one layer), and
  /// of all.
  int64_t ownParameters = 0;
  int64_t totalOwnParameters = 0;
  /// Tensors that it uses but that were declared elsewhere (ties).
  std::vector<std::string> tied;
  /// Index of the enclosing module, -1 at the top.
  int parent = -1;
  int depth = 0;
  /// Paths of the instances in order, with the layers' numbers for `*`.
  std::vector<std::string> instancePaths;
};

/// What goes into a method, has a name in it, or comes out.
struct ValueReport {
  /// Of the module; with `*` for the index of a repeat.
  std::string path;
  /// Of a result `return`, or `return[i]` where there are several.
  std::string name;
  /// `argument`, `value` or `result`.
  std::string role;
  std::vector<int64_t> shape;
  std::vector<std::string> dims;
  /// As of a module.
  std::string file;
  int64_t line = 0;
  /// Paths of the instances, with the layers' numbers for `*`.
  std::vector<std::string> instancePaths;
};

/// A `const` tensor that the model uses.
struct ConstantReport {
  /// Of the module that declares it, with `*` for the index of a repeat.
  std::string path;
  std::string name;
  /// The names of its indices, and their numbers of values in words; before
  /// them one more where layers differ (`layer`).
  std::vector<std::string> indices, dims;
  std::string formula;
  std::vector<int64_t> shape;
  /// Row-major.
  std::vector<float> values;
};

/// FLOPs by kind of op, the most expensive first.
using FlopsByKind = std::vector<std::pair<std::string, FlopCount>>;

struct FlopsReport {
  /// Of `@forward`, averaged over the positions of a full sequence.
  std::optional<FlopCount> forwardPerToken;
  /// Tokens of one call of `@forward`.
  int64_t forwardTokens = 0;
  /// What is counted so: `token`, or where none are read `example` or, of
  /// results with a row for each, `position`.
  std::string unit = "token";
  FlopsByKind forward;
  /// One optimizer step: `@train` (forward and backward) for every accumulated
  /// micro-batch, and `@update_decayed` and `@update_plain`.
  std::optional<FlopCount> trainStep;
  FlopsByKind train;
  /// Matrix products and attention of both by the type of what they multiply
  /// (`bf16`), of a whole call of `@forward`.
  FlopsByKind forwardProducts, trainProducts;
};

/// Bytes by the type of elements (`bf16`), the most first.
using BytesByType = std::vector<std::pair<std::string, int64_t>>;

/// What one function of the binary keeps in the arena while it runs, in bytes.
struct MemoryPhase {
  /// A function: `train`, `update`, ... (`builtPrograms`).
  std::string name;
  bool usesGradients = false, usesOptimizer = false, usesCache = false;
  /// Up to where its activations reach.
  int64_t activations = 0;
  /// Activations that are alive during each launch, loops counted once.
  std::vector<int64_t> live;
  /// Those of the launch during which most is alive.
  BytesByType liveTypes;
};

/// What an update is predicted to take in each of several processes, in
/// seconds.
struct StepSeconds {
  double compute = 0; ///< micro-batches
  /// Of what is sent, while these are computed; no part of the rest.
  double hidden = 0;
  double sums = 0;       ///< what is left of them, and the norm
  double update = 0;     ///< of a process's share
  double parameters = 0; ///< that are waited for, and losses
  double step = 0;       ///< all of it
};

/// Processes of following ranks that send as many bytes each.
struct SentBy {
  int64_t first, last, bytes;
};

/// What each of several processes has that share an update.
struct SharedReport {
  int64_t processes = 1;
  /// Of an update, for each of them.
  int64_t microBatches = 1;
  /// Bytes of the optimizer's state in the one that has the most; of what each
  /// has for gradients that come to it, beside the arena; and of that and the
  /// arena: what is touched of the whole one.
  int64_t optimizer = 0;
  int64_t incoming = 0;
  int64_t memory = 0;
  /// Bytes that one of them sends in an update, at most: gradients to whoever
  /// adds them up, and parameters to all.
  int64_t sent = 0;
  /// The same of each: processes that follow each other and send as much.
  std::vector<SentBy> sentBy;
  /// Where there is a network to predict it for; and how much of what so many
  /// processes could do comes of it, 1 for one.
  std::optional<StepSeconds> seconds;
  double efficiency = 1;
  /// Why so many cannot share it; empty where they can.
  std::string problem;
};

/// What the planner found, in bytes, for a build of the model.
struct MemoryReport {
  int64_t batch = 0;
  std::optional<int64_t> sequence;
  std::string precision = "f32";
  /// What weights and keys and values of generation are stored in, as recipes
  /// name it: `int4`.
  std::string weights = "f32", cacheType = "f32";
  /// The machine that it is planned for, as `--target` and `--cpu` name it.
  std::string target, machine;
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;
  /// Values of `const` tensors.
  int64_t constants = 0;
  /// Of the phase that needs most, and the cache.
  int64_t activations = 0;
  /// Keys and values of generation.
  int64_t cache = 0;
  /// Everything above, placed and aligned: what the binary allocates.
  int64_t arena = 0;
  /// Largest sum of what lives at the same time, each buffer in whole lines of
  /// 64 bytes: no plan can do with less.
  int64_t lowerBound = 0;
  /// Functions run one at a time, so their activations share the same bytes.
  std::vector<MemoryPhase> phases;
  /// What lies in the parts that outlive a step, by their names in the JSON
  /// (`parameters`), and under `saved` in the activations that forward leaves
  /// to backward: written before the loss is known, read after.
  std::vector<std::pair<std::string, BytesByType>> types;
  /// How many texts grow together with a cache (0: there is none), and how many
  /// tokens of a prompt each function takes that reads one, the most first.
  int64_t texts = 0;
  std::vector<int64_t> chunks;
  /// For each number of processes that was asked for.
  std::vector<SharedReport> shared;
};

struct ModelReport {
  std::string model;
  std::string source;
  /// What prevents generation with a cache; empty where nothing does.
  std::string wholeSequence;
  std::vector<Hyperparameter> hyperparameters;
  int64_t total = 0;
  int64_t trainable = 0;
  int64_t bytes = 0;
  std::string formula;
  /// How the total changes with each integer hyperparameter that it depends on:
  /// the partial derivative, and the elasticity (percent per percent).
  struct Sensitivity {
    std::string name;
    double derivative;
    double elasticity;
    /// What the formula grows by where this one is greater by 1 and the others
    /// stay; nothing where it has no value there.
    std::optional<int64_t> oneMore;
  };
  /// The largest elasticity first.
  std::vector<Sensitivity> sensitivities;
  /// Parents before their members, in the order of declaration. The first is
  /// the model itself, under the empty path.
  std::vector<ModuleReport> modules;
  /// One per tensor of a checkpoint, in the order of declaration, layer by
  /// layer within a repeat.
  std::vector<TensorReport> tensors;
  /// Of the training graph where there is one, else of `@forward`.
  std::vector<ValueReport> values;
  /// Of all functions, each once.
  std::vector<ConstantReport> constants;
  FlopsReport flops;
  /// Known only after planning.
  std::optional<MemoryReport> memory;
};

/// What to put into a report beside the parameters.
struct ReportOptions {
  bool values = true;
  bool flops = true;
  bool constants = false;
};

/// Reads a module of the tfm dialect (docs/design.md, "What the frontend hands
/// over"). FLOPs of training are known where the module has `@train`. Fails
/// where the module lacks the attributes of a model.
llvm::Expected<ModelReport> makeReport(mlir::ModuleOp module,
                                       const ReportOptions &options = {});

/// Counts the products of a module again, by type. What they multiply in a
/// build of another precision than f32 is known when it has been prepared.
llvm::Error countProducts(mlir::ModuleOp module, FlopsReport &flops);

} // namespace tfm

#endif // TFM_REPORT_MODELREPORT_H
