//===- ToyModel.cpp - a bigram model written by hand --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/runtime/ToyModel.h"

#include "runtime/tokenizer/tokenizer.h"
#include "tests/unit/CompleteRecipe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace tfm::test {

namespace {

/// Lies at the start of the arena as a constant, so that the functions, which
/// get nothing but the arena, know the shape and all offsets.
struct Layout {
  ToyShape shape;
  uint64_t table, bias, tableGradient, biasGradient;
  uint64_t tableMean, biasMean, tableSquare, biasSquare;
  uint64_t tokens, targets, count, rng, hyper, loss, losses, norm, row, scale;
  uint64_t forwardTokens, logits, right, surprisals;
  uint64_t prefillTokens, decodeTokens, position, length, cache, nextLogits;
  uint64_t end;
};

const Layout &layoutOf(void *arena) { return *static_cast<Layout *>(arena); }

template <typename T> T *at(void *arena, uint64_t offset) {
  return reinterpret_cast<T *>(static_cast<char *>(arena) + offset);
}

/// Row `token` of the logits.
void logitsOf(void *arena, int32_t token, float *out) {
  const Layout &layout = layoutOf(arena);
  int64_t width = layout.shape.vocabulary;
  const float *table = at<float>(arena, layout.table) + token * width;
  const float *bias = at<float>(arena, layout.bias);
  for (int64_t i = 0; i < width; ++i)
    out[i] = table[i] + bias[i];
}

/// Loss of one position; adds its share of the gradient where `scale` > 0.
float crossEntropy(const float *logits, int64_t width, int32_t target,
                   float *probabilities) {
  float highest = *std::max_element(logits, logits + width);
  float sum = 0;
  for (int64_t i = 0; i < width; ++i)
    sum += probabilities[i] = std::exp(logits[i] - highest);
  for (int64_t i = 0; i < width; ++i)
    probabilities[i] /= sum;
  return std::log(sum) + highest - logits[target];
}

/// One launch: `work` on the pieces of it that this thread gets. Outside of
/// them nothing of the arena is touched.
template <typename Work> void launch(tfm_thread *thread, Work work) {
  for (int64_t piece; (piece = thread->claim(thread)) >= 0;)
    work(piece);
}

/// A launch with all of its work in one piece.
template <typename Work> void launchOnce(tfm_thread *thread, Work work) {
  launch(thread, [&](int64_t piece) {
    if (piece == 0)
      work();
  });
}

void computeLosses(void *arena, tfm_thread *thread, bool measures) {
  launch(thread, [&](int64_t piece) {
    const Layout &layout = layoutOf(arena);
    const ToyShape &shape = layout.shape;
    const auto *tokens = at<int32_t>(arena, layout.tokens);
    const auto *targets = at<int32_t>(arena, layout.targets);
    float *losses = at<float>(arena, layout.losses);
    float logits[512], probabilities[512];
    for (int64_t i = piece; i < shape.batch * shape.sequence;
         i += thread->count) {
      logitsOf(arena, tokens[i], logits);
      losses[i] = targets[i] == shape.ignore
                      ? 0.0f
                      : crossEntropy(logits, shape.vocabulary, targets[i],
                                     probabilities);
      if (!measures)
        continue;
      const float *best = std::max_element(logits, logits + shape.vocabulary);
      at<float>(arena, layout.right)[i] = best - logits == targets[i];
      at<float>(arena, layout.surprisals)[i] = losses[i];
    }
  });
  launchOnce(thread, [&] {
    const Layout &layout = layoutOf(arena);
    const float *losses = at<float>(arena, layout.losses);
    float sum = 0;
    for (int64_t i = 0; i < layout.shape.batch * layout.shape.sequence; ++i)
      sum += losses[i];
    *at<float>(arena, layout.loss) = sum / *at<float>(arena, layout.count);
  });
}

/// The launches of `train` before the one that first reads parameters, and up
/// to the one that adds to gradients.
constexpr uint64_t valueLaunches = 2, gradientLaunches = 6;

void runTrain(void *arena, tfm_thread *thread) {
  for (uint64_t i = 0; i < valueLaunches; ++i)
    launchOnce(thread, [] {});
  computeLosses(arena, thread, /*measures=*/false);
  launchOnce(thread, [&] {
    const Layout &layout = layoutOf(arena);
    int64_t width = layout.shape.vocabulary;
    if (layout.shape.accumulate == 1) {
      std::fill_n(at<float>(arena, layout.tableGradient), width * width, 0.0f);
      std::fill_n(at<float>(arena, layout.biasGradient), width, 0.0f);
    }
  });
  // Each piece has some columns, so that every sum has one fixed order.
  launch(thread, [&](int64_t piece) {
    const Layout &layout = layoutOf(arena);
    const ToyShape &shape = layout.shape;
    int64_t width = shape.vocabulary;
    float *tableGradient = at<float>(arena, layout.tableGradient);
    float *biasGradient = at<float>(arena, layout.biasGradient);
    const auto *tokens = at<int32_t>(arena, layout.tokens);
    const auto *targets = at<int32_t>(arena, layout.targets);
    float count = *at<float>(arena, layout.count);
    float logits[512], probabilities[512];
    for (int64_t i = 0; i < shape.batch * shape.sequence; ++i) {
      if (targets[i] == shape.ignore)
        continue;
      logitsOf(arena, tokens[i], logits);
      crossEntropy(logits, width, targets[i], probabilities);
      for (int64_t j = piece; j < width; j += thread->count) {
        float share =
            (probabilities[j] - (targets[i] == j ? 1.0f : 0.0f)) / count;
        tableGradient[tokens[i] * width + j] += share;
        biasGradient[j] += share;
      }
    }
  });
  launchOnce(thread, [&] {
    const Layout &layout = layoutOf(arena);
    if (at<int32_t>(arena, layout.rng)[2] == layout.shape.poisonedStep)
      *at<float>(arena, layout.loss) = std::nanf("");
  });
}

void runEvaluate(void *arena, tfm_thread *thread) {
  computeLosses(arena, thread, /*measures=*/true);
}

/// The logits after `count` tokens of a row.
void logitsAfter(void *arena, const int32_t *row, int64_t count, float *out) {
  const ToyShape &shape = layoutOf(arena).shape;
  logitsOf(arena, row[count - 1], out);
  const float *table = at<float>(arena, layoutOf(arena).table);
  for (int64_t t = 0; shape.chunk > 0 && t < count; ++t)
    for (int64_t i = 0; i < shape.vocabulary; ++i)
      out[i] += 0.01f * static_cast<float>(t + 1) *
                table[row[t] * shape.vocabulary + i];
}

void runForward(void *arena, tfm_thread *thread) {
  launch(thread, [&](int64_t piece) {
    const Layout &layout = layoutOf(arena);
    const ToyShape &shape = layout.shape;
    const auto *tokens = at<int32_t>(arena, layout.forwardTokens);
    float *logits = at<float>(arena, layout.logits);
    for (int64_t i = piece; i < shape.rows * shape.context; i += thread->count)
      logitsAfter(arena, tokens + i / shape.context * shape.context,
                  i % shape.context + 1, logits + i * shape.vocabulary);
  });
}

/// Appends `length` tokens at `position` to the first row's cache.
void appendTokens(void *arena, const int32_t *tokens, int32_t length) {
  const Layout &layout = layoutOf(arena);
  int32_t position = *at<int32_t>(arena, layout.position);
  auto *cache = at<int32_t>(arena, layout.cache);
  std::copy_n(tokens, length, cache + position);
  logitsAfter(arena, cache, position + length,
              at<float>(arena, layout.nextLogits));
}

void runPrefill(void *arena, tfm_thread *thread) {
  launchOnce(thread, [&] {
    const Layout &layout = layoutOf(arena);
    appendTokens(arena, at<int32_t>(arena, layout.prefillTokens),
                 *at<int32_t>(arena, layout.length));
  });
}

void runDecode(void *arena, tfm_thread *thread) {
  launchOnce(thread, [&] {
    appendTokens(arena, at<int32_t>(arena, layoutOf(arena).decodeTokens), 1);
  });
}

/// A parameter, and what an update has to do with it.
struct Group {
  float *value, *gradient, *mean, *square;
  int64_t size;
  float decay;
};

std::array<Group, 2> groupsOf(void *arena) {
  const Layout &layout = layoutOf(arena);
  int64_t width = layout.shape.vocabulary;
  return {
      {{at<float>(arena, layout.table), at<float>(arena, layout.tableGradient),
        at<float>(arena, layout.tableMean),
        at<float>(arena, layout.tableSquare), width * width,
        static_cast<float>(layout.shape.weightDecay)},
       {at<float>(arena, layout.bias), at<float>(arena, layout.biasGradient),
        at<float>(arena, layout.biasMean), at<float>(arena, layout.biasSquare),
        width, 0.0f}}};
}

/// AdamW as in docs/design.md, of some elements.
void updateSome(void *arena, const Group &group, int64_t first, int64_t last,
                float scale) {
  const Layout &layout = layoutOf(arena);
  const float *hyper = at<float>(arena, layout.hyper);
  auto beta1 = static_cast<float>(layout.shape.beta1);
  auto beta2 = static_cast<float>(layout.shape.beta2);
  for (int64_t i = first; i < last; ++i) {
    float g = group.gradient[i] * scale;
    group.value[i] *= 1 - hyper[0] * group.decay;
    group.mean[i] = beta1 * group.mean[i] + (1 - beta1) * g;
    group.square[i] = beta2 * group.square[i] + (1 - beta2) * g * g;
    group.value[i] -= hyper[0] * (group.mean[i] / hyper[1]) /
                      (std::sqrt(group.square[i] / hyper[2]) +
                       static_cast<float>(layout.shape.eps));
  }
}

/// Clips by the norm over both parameters.
void updateAll(void *arena) {
  const Layout &layout = layoutOf(arena);
  const float *hyper = at<float>(arena, layout.hyper);
  float squares = 0;
  for (const Group &group : groupsOf(arena))
    for (int64_t i = 0; i < group.size; ++i)
      squares += group.gradient[i] * group.gradient[i];
  float norm = std::sqrt(squares);
  *at<float>(arena, layout.norm) = norm;
  float scale = hyper[3] > 0 && norm > hyper[3] ? hyper[3] / norm : 1.0f;
  for (const Group &group : groupsOf(arena))
    updateSome(arena, group, 0, group.size, scale);
}

/// One row of a parameter.
template <int number> void runUpdateRow(void *arena, tfm_thread *thread) {
  launchOnce(thread, [&] {
    const Layout &layout = layoutOf(arena);
    Group group = groupsOf(arena)[number];
    int64_t first = *at<int32_t>(arena, layout.row) * int64_t{TFM_ROW};
    updateSome(arena, group, first, std::min(first + TFM_ROW, group.size),
               *at<float>(arena, layout.scale));
  });
}

void runUpdate(void *arena, tfm_thread *thread) {
  launchOnce(thread, [&] { updateAll(arena); });
}

} // namespace

struct ToyModel::Parts {
  Layout layout;
  std::string recipe;
  int64_t tableShape[2], biasShape[1], tokenShape[2], forwardShape[2],
      logitsShape[3], rngShape[1], hyperShape[1], chunkShape[2], oneShape[2],
      rowShape[1], nextShape[2], numberShape[1];
  tfm_buffer trainInputs[4], trainOutputs[2], evaluateInputs[3],
      evaluateOutputs[4], forwardInputs[1], forwardOutputs[1], updateInputs[3],
      updateOutputs[1], prefillInputs[3], decodeInputs[2], nextOutputs[1];
  tfm_parameter parameters[2];
  tfm_place places[2];
  tfm_function functions[8];
  tfm_constant constants[1];
  tfm_variant variant;
  tfm_model model;
};

ToyModel::ToyModel(const ToyShape &shape, std::string recipe)
    : parts(std::make_unique<Parts>()) {
  Parts &p = *parts;
  p.variant = {};
  p.recipe = std::move(recipe);
  Layout &l = p.layout;
  std::memset(static_cast<void *>(&l), 0, sizeof l);
  l.shape = shape;
  uint64_t position = sizeof(Layout);
  auto take = [&](int64_t elements) {
    position = (position + 63) / 64 * 64;
    uint64_t offset = position;
    position += static_cast<uint64_t>(elements) * 4;
    return offset;
  };
  int64_t v = shape.vocabulary;
  // Where processes can share an update, whole rows.
  bool hasRows = shape.accumulate > 1;
  auto rowsOf = [](int64_t elements) {
    return (elements + TFM_ROW - 1) / TFM_ROW;
  };
  auto takeRows = [&](int64_t elements) {
    return take(hasRows ? rowsOf(elements) * TFM_ROW : elements);
  };
  l.table = takeRows(v * v);
  l.bias = takeRows(v);
  l.tableGradient = takeRows(v * v);
  l.biasGradient = takeRows(v);
  l.tableMean = takeRows(v * v);
  l.biasMean = takeRows(v);
  l.tableSquare = takeRows(v * v);
  l.biasSquare = takeRows(v);
  // As many sums as `train.sum = tree` has wait at most.
  uint64_t gradientBytes = l.tableMean - l.tableGradient;
  int waiting = std::countr_zero(static_cast<uint64_t>(shape.accumulate));
  uint64_t sums = take(0);
  position += static_cast<uint64_t>(waiting) * gradientBytes;
  int64_t positions = shape.batch * shape.sequence;
  l.tokens = take(positions);
  l.targets = take(positions);
  l.count = take(1);
  l.rng = take(4);
  l.hyper = take(4);
  l.loss = take(1);
  l.losses = take(positions);
  l.norm = take(1);
  l.row = take(1);
  l.scale = take(1);
  l.forwardTokens = take(shape.rows * shape.context);
  l.logits = take(shape.rows * shape.context * v);
  l.right = take(positions);
  l.surprisals = take(positions);
  l.prefillTokens = take(shape.rows * shape.chunk);
  l.decodeTokens = take(shape.rows);
  l.position = take(shape.rows);
  l.length = take(shape.rows);
  l.cache = take(shape.rows * shape.context);
  l.nextLogits = take(shape.rows * v);
  l.end = position;

  auto set = [](int64_t *to, std::initializer_list<int64_t> from) {
    std::copy(from.begin(), from.end(), to);
  };
  set(p.tableShape, {v, v});
  set(p.biasShape, {v});
  set(p.tokenShape, {shape.batch, shape.sequence});
  set(p.forwardShape, {shape.rows, shape.context});
  set(p.logitsShape, {shape.rows, shape.context, v});
  set(p.rngShape, {4});
  set(p.hyperShape, {4});
  tfm_buffer tokens{"tokens", TFM_I32, 2, p.tokenShape, l.tokens};
  tfm_buffer targets{"targets", TFM_I32, 2, p.tokenShape, l.targets};
  tfm_buffer count{"count", TFM_F32, 0, nullptr, l.count};
  tfm_buffer loss{"loss", TFM_F32, 0, nullptr, l.loss};
  p.trainInputs[0] = p.evaluateInputs[0] = tokens;
  p.trainInputs[1] = p.evaluateInputs[1] = targets;
  p.trainInputs[2] = p.evaluateInputs[2] = count;
  p.trainInputs[3] = {"rng", TFM_I32, 1, p.rngShape, l.rng};
  p.trainOutputs[0] = p.evaluateOutputs[0] = loss;
  p.trainOutputs[1] =
      p.evaluateOutputs[1] = {"losses", TFM_F32, 2, p.tokenShape, l.losses};
  p.evaluateOutputs[2] = {"right", TFM_F32, 2, p.tokenShape, l.right};
  p.evaluateOutputs[3] = {"surprisals", TFM_F32, 2, p.tokenShape, l.surprisals};
  p.forwardInputs[0] = {"tokens", TFM_I32, 2, p.forwardShape, l.forwardTokens};
  p.forwardOutputs[0] = {"logits", TFM_F32, 3, p.logitsShape, l.logits};
  p.updateInputs[0] = {"hyper", TFM_F32, 1, p.hyperShape, l.hyper};
  set(p.numberShape, {1});
  p.updateInputs[1] = {"row", TFM_I32, 1, p.numberShape, l.row};
  p.updateInputs[2] = {"scale", TFM_F32, 0, nullptr, l.scale};
  p.updateOutputs[0] = {"grad_norm", TFM_F32, 0, nullptr, l.norm};
  p.parameters[0] = {.name = "table",
                     .dtype = TFM_F32,
                     .rank = 2,
                     .shape = p.tableShape,
                     .output_axis = -1,
                     .trainable = 1,
                     .decayed = 1,
                     .init = TFM_INIT_NORMAL,
                     .alias_count = 0,
                     .aliases = nullptr,
                     .init_args = {0.0, 0.02},
                     .init_stream = 1};
  p.places[0] = {l.table,
                 TFM_NONE,
                 TFM_NONE,
                 l.tableGradient,
                 {l.tableMean, l.tableSquare},
                 gradientLaunches,
                 valueLaunches,
                 1,
                 0,
                 0,
                 0};
  p.parameters[1] = {.name = "bias",
                     .dtype = TFM_F32,
                     .rank = 1,
                     .shape = p.biasShape,
                     .output_axis = -1,
                     .trainable = 1,
                     .decayed = 0,
                     .init = TFM_INIT_ZEROS,
                     .alias_count = 0,
                     .aliases = nullptr,
                     .init_args = {0.0, 0.0},
                     .init_stream = 2};
  p.places[1] = {l.bias,
                 TFM_NONE,
                 TFM_NONE,
                 l.biasGradient,
                 {l.biasMean, l.biasSquare},
                 gradientLaunches,
                 valueLaunches,
                 1,
                 0,
                 0,
                 0};
  auto function = [](const char *name, auto run, auto &inputs,
                     int32_t inputCount, auto &outputs, int32_t outputCount) {
    return tfm_function{.name = name,
                        .run = run,
                        .enqueue = nullptr,
                        .input_count = inputCount,
                        .output_count = outputCount,
                        .inputs = inputs,
                        .outputs = outputs,
                        .flops = 0,
                        .threads = 1024,
                        .launch_count = 0,
                        .launches = nullptr};
  };
  p.functions[0] =
      function("train", runTrain, p.trainInputs, 4, p.trainOutputs, 2);
  p.functions[1] =
      function("update", runUpdate, p.updateInputs, 1, p.updateOutputs, 1);
  p.functions[2] =
      function("evaluate", runEvaluate, p.evaluateInputs, 3, p.evaluateOutputs,
               shape.measuresPredictions ? 4 : 2);
  p.functions[3] =
      function("forward", runForward, p.forwardInputs, 1, p.forwardOutputs, 1);
  set(p.chunkShape, {shape.rows, shape.chunk});
  set(p.oneShape, {shape.rows, 1});
  set(p.rowShape, {shape.rows});
  set(p.nextShape, {shape.rows, v});
  tfm_buffer position1{"position", TFM_I32, 1, p.rowShape, l.position};
  p.prefillInputs[0] = {"tokens", TFM_I32, 2, p.chunkShape, l.prefillTokens};
  p.prefillInputs[1] = p.decodeInputs[1] = position1;
  p.prefillInputs[2] = {"length", TFM_I32, 1, p.rowShape, l.length};
  p.decodeInputs[0] = {"tokens", TFM_I32, 2, p.oneShape, l.decodeTokens};
  p.nextOutputs[0] = {"logits", TFM_F32, 2, p.nextShape, l.nextLogits};
  int32_t functions = 4;
  auto add = [&](const tfm_function &one) { p.functions[functions++] = one; };
  if (shape.chunk > 0) {
    add(function("prefill", runPrefill, p.prefillInputs, 3, p.nextOutputs, 1));
    add(function("decode", runDecode, p.decodeInputs, 2, p.nextOutputs, 1));
  }
  if (hasRows) {
    add(function("update_decayed", runUpdateRow<0>, p.updateInputs, 3,
                 p.updateOutputs, 0));
    add(function("update_plain", runUpdateRow<1>, p.updateInputs, 3,
                 p.updateOutputs, 0));
    auto rows = static_cast<uint64_t>(rowsOf(v * v));
    p.variant.decayed = {0, rows, 1};
    p.variant.plain = {rows, static_cast<uint64_t>(rowsOf(v)), 1};
  }
  p.constants[0] = {0, sizeof(Layout), &p.layout};
  uint64_t bytes = static_cast<uint64_t>(v * v + v) * 4;
  p.variant.target = "cpu";
  p.variant.machine = "cpu";
  p.variant.features = "";
  p.variant.arena_bytes = l.end;
  p.variant.arena_alignment = 64;
  p.variant.parameters = {l.table, bytes};
  p.variant.gradients = {l.tableGradient, gradientBytes};
  p.variant.sums = {sums, static_cast<uint64_t>(waiting) * gradientBytes};
  p.variant.optimizer = {l.tableMean, hasRows ? 2 * gradientBytes : 2 * bytes};
  p.variant.activations = {l.tokens, l.end - 4 * bytes};
  p.variant.places = p.places;
  p.variant.function_count = functions;
  p.variant.functions = p.functions;
  p.variant.constant_count = 1;
  p.variant.constants = p.constants;
  p.model = {};
  p.model.abi = TFM_ABI_VERSION;
  p.model.name = "Toy";
  p.model.source = "models/toy.tfm";
  p.model.hyperparameters = R"([{"name": "vocab", "value": 14}])";
  p.model.recipe = p.recipe.c_str();
  p.model.parameter_count = 2;
  p.model.parameters = p.parameters;
  p.model.variant_count = 1;
  p.model.variants = &p.variant;
}

ToyModel::~ToyModel() = default;

const tfm_model &ToyModel::descriptor() const { return parts->model; }

std::string sumsRecipe(const ToyShape &shape, const std::string &train,
                       int64_t count) {
  return completeRecipe(
      R"({"train": {"batch": )" + std::to_string(shape.batch) +
      R"(, "sequence": )" + std::to_string(shape.sequence) +
      R"(, "accumulate": )" + std::to_string(shape.accumulate) +
      R"(, "optimizer": {"kind": "adamw", "lr": 0.05, "betas": [0.9, 0.99]},
             "loss": {"kind": "cross_entropy", "ignore": )" +
      (shape.ignore < 0 ? "null" : std::to_string(shape.ignore)) + "}" +
      (train.empty() ? "" : ", ") + train +
      R"(}, "data": {"kind": "sums", "count": )" + std::to_string(count) +
      R"(, "max": 99, "seed": 1, "validation": 0.1, "answer_after": "="},
             "tokenizer": {"kind": "chars", "size": 14, "json": )" +
      makeCharsTokenizer("0123456789+=.#")->json() +
      R"(}, "generate": {"temperature": 1.0, "tokens": 20}})");
}

} // namespace tfm::test
