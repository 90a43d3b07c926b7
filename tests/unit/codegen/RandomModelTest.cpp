//===- RandomModelTest.cpp - random models against the oracle -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random models in the language, and those in models/ at a small size, compiled
// as `tfmc build` does: loss, every gradient, logits, and generation with a
// cache, against the f64 oracle. TFM_RANDOM_MODELS=FIRST:COUNT runs other seeds
// than those of the test suite.
//
//===----------------------------------------------------------------------===//

#include "tests/unit/codegen/RandomModel.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/driver/Compile.h"
#include "compiler/frontend/Frontend.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/Passes.h"
#include "compiler/transforms/Passes.h"
#include "runtime/model/quantise.h"
#include "runtime/support/float16.h"
#include "tests/unit/codegen/CompiledModel.h"
#include "tests/unit/codegen/ExpectCompiled.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringSet.h"
#include "gtest/gtest.h"

#include <cmath>
#include <optional>
#include <tuple>

using namespace tfm;
using oracle::Tensor;

namespace {

/// The largest difference; infinite where one side is not a number.
double distance(const Tensor &a, const Tensor &b) {
  double result = 0;
  for (auto [x, y] : llvm::zip_equal(a.data, b.data))
    result = std::isnan(x - y) ? INFINITY : std::max(result, std::abs(x - y));
  return result;
}

/// The results of a function, how far rounding in parameters carries each, and
/// how far it may be off.
struct Expected {
  std::vector<Tensor> results;
  std::vector<double> carried, tolerances;
};

/// What a build computes in, what it stores weights in, and what it keeps of
/// earlier tokens; with other weights than f32 it does not train.
enum class Precision {
  F32,
  Bf16,
  Bf16Weights,
  Int8Weights,
  Int4Weights,
  Int8Cache
};

/// A model of models/, and what makes it small.
struct ShippedSmall {
  const char *file;
  std::vector<std::pair<std::string, std::string>> defines;
  bool trains = true;
};

class Trial {
public:
  Trial(const ShippedSmall &shipped, Precision precision)
      : random(1), precision(precision), shipped(shipped) {
    if (precision == Precision::Bf16)
      this->shipped->defines.emplace_back(
          shipped.trains ? "train.precision" : "generate.weights", "bf16");
  }

  Trial(unsigned seed, Precision precision)
      : Trial(seed, precision, randomModel(seed)) {}

  Trial(unsigned seed, Precision precision, RandomModel some)
      : random(seed), precision(precision), model(std::move(some)) {
    if (precision == Precision::Bf16)
      model.text.insert(model.text.find("train {") + 7, " precision = bf16,");
    else if (precision == Precision::Bf16Weights)
      model.text += "generate { weights = bf16 }\n";
    else if (precision == Precision::Int8Weights)
      model.text += "generate { weights = int8, cache = bf16 }\n";
    else if (precision == Precision::Int4Weights)
      model.text += "generate { weights = int4 }\n";
    else if (precision == Precision::Int8Cache)
      model.text += "generate { cache = int8 }\n";
  }

  void run() {
    SCOPED_TRACE(model.text);
    reference = parse();
    subject = parse();
    if (!reference || !subject)
      return;
    if (shipped)
      measure();
    for (auto param : reference->getOps<ParamOp>()) {
      Tensor value(param.getTensorType().getShape());
      for (double &element : value.data)
        element = static_cast<float>(uniform(random));
      environment.parameters[param.getSymName()] = value;
    }
    mlir::PassManager passes(&context);
    passes.addPass(createDifferentiatePass());
    KernelTarget::WeightPanels panels = testedTarget().weightPanels();
    passes.addPass(
        createStoreWeightsPass({panels.outputs, panels.mostTerms,
                                testedTarget().readsWeightsByOutputs()}));
    passes.addPass(createMixedPrecisionPass());
    passes.addPass(createQuantiseCachePass());
    if (quantisesActivations())
      passes.addPass(cpu::createQuantiseActivationsPass());
    ASSERT_TRUE(succeeded(passes.run(*reference)));
    ASSERT_TRUE(succeeded(mlir::verify(*reference)));
    for (auto param : reference->getOps<ParamOp>())
      if (param.getScale())
        quantiseParameter(param);
      else if (param.getTransposed()) // other numbers, as random
        environment.parameters[param.getSymName()].shape =
            param.getTensorType().getShape().vec();
    // Every other one as where there are more rows than those of a chunk.
    mlir::PassManager chunks(&context);
    if (testedTarget().choosesLayers())
      chunks.addPass(createChooseLayersPass({/*trained=*/true}));
    chunks.addPass(createDifferentiatePass());
    chunks.addPass(createSimplifyPass());
    chunks.addPass(createChunkLossPass({/*leastRows=*/1}));
    if (random() % 2)
      ASSERT_TRUE(succeeded(chunks.run(*subject)));
    ASSERT_TRUE(succeeded(prepare(*subject, testedTarget())));
    ASSERT_TRUE(succeeded(mlir::verify(*subject)));
    subject->walk([](RepeatOp repeat) { grouped += repeat.getUpdated() != 0; });
    compiled = std::make_unique<CompiledModel>(*subject);
    for (auto &entry : environment.parameters)
      compiled->setParameter(entry.getKey(), entry.getValue());
    if (precision == Precision::F32 || precision == Precision::Bf16)
      if (reference->lookupSymbol("train"))
        training();
    generation();
  }

private:
  /// Finds out how long and of how many ids texts are.
  void measure() {
    auto forward = reference->lookupSymbol<mlir::func::FuncOp>("forward");
    auto logits =
        mlir::cast<mlir::RankedTensorType>(forward.getResultTypes()[0]);
    model.context = logits.getDimSize(1);
    model.vocab = logits.getDimSize(2);
  }

  /// Whether integers of weights meet integers.
  bool quantisesActivations() const {
    static const bool multiplies = testedMachine().multipliesIntegers();
    return (precision == Precision::Int8Weights ||
            precision == Precision::Int4Weights) &&
           multiplies && !testsGpu();
  }

  /// As a checkpoint is when it is loaded.
  void quantiseParameter(ParamOp param) {
    Tensor &value = environment.parameters[param.getSymName()];
    std::vector<float> values(value.data.begin(), value.data.end());
    int64_t stacked = param.getNumStackedDims();
    OutputRows rows(value.shape,
                    stacked + static_cast<int64_t>(*param.getOutputAxis()));
    llvm::ArrayRef<int64_t> shape = param.getTensorType().getShape();
    auto set = [&](llvm::StringRef name, llvm::ArrayRef<int64_t> shape,
                   const auto &numbers) {
      environment.parameters[name] =
          Tensor(shape, std::vector<double>(numbers.begin(), numbers.end()));
    };
    ++quantised;
    if (!param.getMinimum()) {
      std::vector<int8_t> integers(values.size());
      std::vector<float> scales(rows.outputs());
      quantise(values, rows, integers, scales);
      auto table = reference->lookupSymbol<ParamOp>(*param.getScale());
      set(*param.getScale(), table.getTensorType().getShape(), scales);
      if (!param.getTerms())
        return set(param.getSymName(), shape, integers);
      Panels panels(rows, static_cast<size_t>(shape.drop_back().back()));
      std::vector<uint8_t> bytes(panels.bytes());
      panels.store(integers, 0, 0, rows.terms(), bytes);
      set(param.getSymName(), shape, bytes);
      inBytes.insert(param.getSymName());
      return;
    }
    size_t groups = rows.outputs() * groupsOf(rows.terms());
    std::vector<uint8_t> bytes(groups * TFM_GROUP_BYTES);
    std::vector<uint16_t> scales(groups), minima(groups);
    quantise(values, rows, bytes, scales, minima);
    llvm::SmallVector<int64_t> table(shape);
    table.back() /= TFM_GROUP_BYTES;
    auto wide = [](const std::vector<uint16_t> &halves) {
      std::vector<float> result(halves.size());
      llvm::transform(halves, result.begin(), fromBFloat16);
      return result;
    };
    set(param.getSymName(), shape, bytes);
    set(*param.getScale(), table, wide(scales));
    set(*param.getMinimum(), table, wide(minima));
    inBytes.insert(param.getSymName());
  }

  mlir::OwningOpRef<mlir::ModuleOp> parse() {
    SourceManager sources;
    Diagnostics diags(sources);
    FrontendOptions options;
    FunctionRequest forward, loss;
    forward.batch = batch;
    loss.kind = FunctionRequest::Loss;
    options.functions = {forward, loss};
    if (shipped) {
      options.defines = shipped->defines;
      auto module = compileToTfm(context, sources,
                                 std::string(TFM_MODELS "/") + shipped->file,
                                 options, diags);
      EXPECT_TRUE(module) << diags.str();
      return module;
    }
    auto module = compileTextToTfm(context, sources, "random.tfm", model.text,
                                   options, diags);
    EXPECT_TRUE(module) << diags.str();
    return module;
  }

  Expected evaluate(llvm::StringRef name, llvm::ArrayRef<Tensor> inputs) {
    auto function = reference->lookupSymbol<mlir::func::FuncOp>(name);
    Expected expected;
    expected.results = oracle::evaluateOrFail(function, inputs, environment);
    std::vector<double> condition(expected.results.size(), 0.0);
    for (int sample = 0; sample < 3; ++sample) {
      oracle::Environment moved = environment;
      for (auto &entry : moved.parameters)
        if (!inBytes.contains(entry.getKey()))
          for (double &x : entry.getValue().data)
            x *= 1 + std::ldexp(random() % 2 ? 1.0 : -1.0, rounding().exponent);
      auto results = oracle::evaluateOrFail(function, inputs, moved);
      for (size_t i = 0; i < results.size(); ++i)
        condition[i] =
            std::max(condition[i], distance(results[i], expected.results[i]));
    }
    for (size_t i = 0; i < expected.results.size(); ++i) {
      double largest = 0.01;
      for (double x : expected.results[i].data)
        largest = std::max(largest, std::abs(x));
      expected.carried.push_back(rounding().times * condition[i]);
      expected.tolerances.push_back(expected.carried[i] +
                                    rounding().share * largest);
    }
    return expected;
  }

  Tensor tokens(llvm::ArrayRef<int64_t> shape) {
    Tensor result(shape);
    for (double &token : result.data)
      token = static_cast<double>(random() % model.vocab);
    return result;
  }

  /// Tokens, which of them are present (of each text the first is), and how
  /// many targets count.
  std::vector<Tensor> inputsOf(mlir::func::FuncOp function) {
    std::vector<Tensor> inputs;
    for (mlir::BlockArgument argument : function.getArguments()) {
      mlir::RankedTensorType type = tensorType(argument);
      inputs.push_back(type.getRank() == 0 ? Tensor({}, 3.0)
                                           : tokens(type.getShape()));
      if (!type.getElementType().isInteger(1))
        continue;
      for (auto [i, is] : llvm::enumerate(inputs.back().data))
        is = i % type.getDimSize(1) == 0 || random() % 2;
    }
    return inputs;
  }

  void training() {
    auto train = reference->lookupSymbol<mlir::func::FuncOp>("train");
    std::vector<Tensor> inputs = inputsOf(train);
    environment.seedLow = 77;
    environment.seedHigh = 5;
    environment.counter = 9 * model.accumulate;
    Expected expected = evaluate("train", inputs);
    double largest = 0, carried = 0;
    for (unsigned i = 0; i < train.getNumResults(); ++i) {
      if (!train.getResultAttr(i, "tfm.gradient"))
        continue;
      carried = std::max(carried, expected.carried[i]);
      for (double x : expected.results[i].data)
        largest = std::max(largest, std::abs(x));
    }
    // Where gradients explode, how far rounding carries them says nothing.
    bool chaotic =
        !(carried <= 10 * rounding().share * std::max(largest, 0.01));
    compared += chaotic ? 0 : 1;
    std::vector<Tensor> given = inputs;
    given.push_back(dropoutCounter);
    compiled->clearGradients();
    Tensor loss = compiled->run("train", given)[0];
    EXPECT_LE(distance(loss, expected.results[0]), expected.tolerances[0]);
    for (unsigned i = 0; i < train.getNumResults(); ++i) {
      auto param =
          train.getResultAttrOfType<mlir::FlatSymbolRefAttr>(i, "tfm.gradient");
      if (!param || chaotic)
        continue;
      // What is zero in exact arithmetic (a shift of all scores changes
      // nothing), or nearly so (behind a tanh or softmax at its end), is made
      // of terms as large as those of its neighbours.
      EXPECT_LE(
          distance(compiled->gradient(param.getValue()), expected.results[i]),
          expected.tolerances[i] + 10 * rounding().share * largest)
          << "gradient of " << param.getValue().str();
    }
    std::vector<float> gradients = compiled->gradients();
    compiled->clearGradients();
    EXPECT_EQ(compiled->run("train", given, 3)[0].data, loss.data);
    EXPECT_TRUE(compiled->gradients() == llvm::ArrayRef(gradients))
        << "with three threads";
    if (!testsGpu())
      expectUses(given, gradients);
    if (model.accumulate == 1 || chaotic)
      return;
    compiled->run("train", given, 2);
    for (auto [twice, once] : llvm::zip_equal(compiled->gradients(), gradients))
      ASSERT_NEAR(twice, 2 * once, 1e-4 * (0.01 + std::abs(once)));
  }

  /// Parameters are not looked at before, and gradients not touched after the
  /// launches that the descriptor names: whoever fills those in only then, and
  /// takes these then, has the same. What it says that nobody reads, the value
  /// or its copy, is never there.
  void expectUses(llvm::ArrayRef<Tensor> given,
                  llvm::ArrayRef<float> gradients) {
    struct Part {
      char *bytes;
      std::string kept;
      bool isRead;
    };
    struct Parameter {
      const tfm_place *place;
      /// The value, and its copy where there is one.
      std::vector<Part> values;
      llvm::ArrayRef<float> gradient;
      std::vector<float> done;
    };
    const tfm_variant &variant = *compiled->variant;
    std::vector<Parameter> parameters;
    for (int i = 0; i < compiled->model->parameter_count; ++i) {
      const tfm_parameter &of = compiled->model->parameters[i];
      Parameter &parameter = parameters.emplace_back();
      parameter.place = &variant.places[i];
      size_t count = 1;
      for (int axis = 0; axis < of.rank; ++axis)
        count *= of.shape[axis];
      auto hide = [&](uint64_t offset, size_t bytes, bool isRead) {
        char *at = compiled->bytesAt(offset);
        parameter.values.push_back({at, std::string(at, bytes), isRead});
        std::memset(at, 0xff, bytes); // NaN
      };
      uint64_t value = parameter.place->value;
      hide(value, count * sizeof(float), parameter.place->reads_value);
      if (variant.copies.bytes)
        hide(variant.copies.offset + (value - variant.parameters.offset) / 2,
             count * sizeof(uint16_t), parameter.place->reads_copy);
      if (parameter.place->gradient != TFM_NONE)
        parameter.gradient = {reinterpret_cast<const float *>(
                                  compiled->bytesAt(parameter.place->gradient)),
                              count};
    }
    auto between = [&](uint64_t launches) {
      for (Parameter &parameter : parameters) {
        if (parameter.place->value_used == launches)
          for (const Part &part : parameter.values)
            if (part.isRead)
              llvm::copy(part.kept, part.bytes);
        if (parameter.place->gradient_done == launches)
          parameter.done = parameter.gradient.vec();
      }
    };
    compiled->clearGradients();
    between(0);
    compiled->betweenLaunches = between;
    compiled->run("train", given, 2);
    compiled->betweenLaunches = nullptr;
    EXPECT_TRUE(compiled->gradients() == gradients);
    for (const Parameter &parameter : parameters) {
      EXPECT_TRUE(parameter.gradient == llvm::ArrayRef(parameter.done));
      for (const Part &part : parameter.values)
        llvm::copy(part.kept, part.bytes);
    }
  }

  /// @forward, and the same by prefill and decode where they are.
  void generation() {
    auto forward = reference->lookupSymbol<mlir::func::FuncOp>("forward");
    forward.walk(
        [](AttentionOp op) { ofIntegers += op.getKeyScale() ? 1 : 0; });
    std::vector<Tensor> inputs = inputsOf(forward);
    Expected expected = evaluate("forward", inputs);
    const Tensor &logits = expected.results[0];
    EXPECT_LE(distance(compiled->run("forward", inputs, 2)[0], logits),
              expected.tolerances[0]);
    auto prefill = subject->lookupSymbol<mlir::func::FuncOp>("prefill");
    if (!prefill || inputs.size() > 1)
      return;
    const Tensor &ids = inputs[0];
    ++cached;
    int64_t chunk = tensorType(prefill.getArgument(0)).getDimSize(1);
    ASSERT_EQ(chunk, model.context) << "a prompt is one chunk";
    Tensor start({batch, chunk}), length({batch}), zero({batch});
    for (int64_t b = 0; b < batch; ++b) {
      length.data[b] = static_cast<double>(1 + random() % model.context);
      for (int64_t t = 0; t < static_cast<int64_t>(length.data[b]); ++t)
        start.at({b, t}) = ids.at({b, t});
    }
    auto expectRow = [&](const Tensor &found, int64_t b, int64_t t) {
      for (int64_t v = 0; v < model.vocab; ++v)
        ASSERT_NEAR(found.at({b, v}), logits.at({b, t, v}),
                    expected.tolerances[0])
            << "sequence " << b << ", position " << t;
    };
    Tensor found = compiled->run("prefill", {start, zero, length}, 2)[0];
    std::vector<int64_t> done;
    for (int64_t b = 0; b < batch; ++b) {
      done.push_back(static_cast<int64_t>(length.data[b]));
      expectRow(found, b, done[b] - 1);
    }
    for (int64_t step = 0; step < model.context; ++step) {
      Tensor next({batch, 1}), position({batch});
      for (int64_t b = 0; b < batch; ++b) {
        done[b] = std::min(done[b], model.context - 1);
        next.data[b] = ids.at({b, done[b]});
        position.data[b] = static_cast<double>(done[b]);
      }
      found = compiled->run("decode", {next, position}, 2)[0];
      for (int64_t b = 0; b < batch; ++b)
        expectRow(found, b, done[b]++);
    }
  }

  /// How far rounding carries a result is measured with parameters that are off
  /// by a power of two; every op of a chain may do `times` as much, and `share`
  /// of the largest element may come of terms that cancel. Of bf16 and integers
  /// a last bit in f32 decides which way a value is rounded: what is measured
  /// is how much it matters when many are rounded the other way.
  struct Rounding {
    int exponent;
    double times, share;
  };
  Rounding rounding() const {
    if (precision != Precision::F32)
      return {-13, 4, 2e-3};
    return {-24, 64, 1e-5};
  }

  static constexpr int64_t batch = 2;
  std::mt19937 random;
  std::uniform_real_distribution<double> uniform{-0.6, 0.6};
  const Precision precision;
  /// Nothing of a random model.
  std::optional<ShippedSmall> shipped;
  RandomModel model;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> reference, subject;
  oracle::Environment environment;
  /// Parameters that are bytes, of which no fraction has a meaning.
  llvm::StringSet<> inBytes;
  std::unique_ptr<CompiledModel> compiled;

public:
  /// How many models had their gradients compared, how many generated with a
  /// cache, how many parameters were of integers, and how many layers' keys;
  /// how many mixtures trained the rows of each layer by themselves.
  static inline unsigned compared = 0, cached = 0, quantised = 0,
                         ofIntegers = 0, grouped = 0;
};

class RandomModels : public testing::TestWithParam<Precision> {};

TEST_P(RandomModels, TrainAndGenerate) {
  Trial::compared = Trial::cached = Trial::quantised = Trial::ofIntegers = 0;
  unsigned first = 0, count = testsGpu() ? 6 : 16;
  if (const char *seeds = std::getenv("TFM_RANDOM_MODELS"))
    ASSERT_EQ(std::sscanf(seeds, "%u:%u", &first, &count), 2);
  for (unsigned seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Trial(seed, GetParam()).run();
    if (HasFatalFailure())
      return;
  }
  if (GetParam() == Precision::F32 || GetParam() == Precision::Bf16)
    EXPECT_GT(Trial::compared, testsGpu() ? 0 : count / 4);
  if (GetParam() == Precision::Int8Weights ||
      GetParam() == Precision::Int4Weights)
    EXPECT_GT(Trial::quantised, count);
  EXPECT_EQ(Trial::ofIntegers > count / 4, GetParam() == Precision::Int8Cache);
  EXPECT_GT(Trial::cached, count / 8);
}

std::string nameOf(const testing::TestParamInfo<Precision> &info) {
  switch (info.param) {
  case Precision::F32:
    return "f32";
  case Precision::Bf16:
    return "bf16";
  case Precision::Bf16Weights:
    return "bf16Weights";
  case Precision::Int8Weights:
    return "int8Weights";
  case Precision::Int4Weights:
    return "int4Weights";
  case Precision::Int8Cache:
    return "int8Cache";
  }
  return "";
}

class RandomMixtures : public testing::TestWithParam<Precision> {};

TEST_P(RandomMixtures, TrainAndGenerate) {
  Trial::compared = Trial::grouped = 0;
  unsigned count = 4;
  for (unsigned seed = 0; seed < count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Trial(seed, GetParam(), randomMixture(seed)).run();
    if (HasFatalFailure())
      return;
  }
  EXPECT_GE(Trial::compared, count / 2);
  EXPECT_EQ(Trial::grouped, testsGpu() ? 0 : count);
}

INSTANTIATE_TEST_SUITE_P(Precisions, RandomMixtures,
                         testing::Values(Precision::F32, Precision::Bf16),
                         nameOf);

class ShippedModels
    : public testing::TestWithParam<std::tuple<ShippedSmall, Precision>> {};

TEST_P(ShippedModels, TrainAndGenerate) {
  auto [model, precision] = GetParam();
  Trial(model, precision).run();
}

std::string nameOfShipped(
    const testing::TestParamInfo<std::tuple<ShippedSmall, Precision>> &info) {
  auto [model, precision] = info.param;
  return llvm::StringRef(model.file).split('.').first.str() +
         (precision == Precision::F32 ? "_f32" : "_bf16");
}

INSTANTIATE_TEST_SUITE_P(
    Small, ShippedModels,
    testing::Combine(testing::Values(ShippedSmall{"gpt2.tfm",
                                                  {{"width", "32"},
                                                   {"heads", "2"},
                                                   {"layers", "2"},
                                                   {"context", "12"},
                                                   {"vocab", "61"}},
                                                  /*trains=*/false},
                                     ShippedSmall{"llama.tfm",
                                                  {{"width", "32"},
                                                   {"hidden", "48"},
                                                   {"heads", "4"},
                                                   {"kv_heads", "2"},
                                                   {"layers", "2"},
                                                   {"context", "12"},
                                                   {"vocab", "61"}},
                                                  /*trains=*/false},
                                     ShippedSmall{"addition.tfm",
                                                  {{"width", "32"},
                                                   {"heads", "2"},
                                                   {"train.batch", "3"}}},
                                     ShippedSmall{"multiplication.tfm",
                                                  {{"width", "24"},
                                                   {"heads", "3"},
                                                   {"train.batch", "2"}}},
                                     ShippedSmall{"encoder_decoder.tfm",
                                                  {{"width", "32"},
                                                   {"heads", "2"},
                                                   {"drop", "0.1"},
                                                   {"train.batch", "2"}}},
                                     ShippedSmall{"shakespeare.tfm",
                                                  {{"width", "32"},
                                                   {"heads", "2"},
                                                   {"layers", "2"},
                                                   {"context", "12"},
                                                   {"drop", "0.1"},
                                                   {"train.sequence", "12"},
                                                   {"train.batch", "2"}}},
                                     ShippedSmall{"mingru.tfm",
                                                  {{"width", "24"},
                                                   {"layers", "2"},
                                                   {"context", "12"},
                                                   {"train.sequence", "12"},
                                                   {"train.batch", "2"}}},
                                     ShippedSmall{"lab_train.tfm",
                                                  {{"context", "13"},
                                                   {"embedding_dim", "32"},
                                                   {"mlp_dim", "48"},
                                                   {"train.sequence", "7"},
                                                   {"train.batch", "2"}}}),
                     testing::Values(Precision::F32, Precision::Bf16)),
    nameOfShipped);

INSTANTIATE_TEST_SUITE_P(Precisions, RandomModels,
                         testing::Values(Precision::F32, Precision::Bf16,
                                         Precision::Bf16Weights,
                                         Precision::Int8Weights,
                                         Precision::Int4Weights,
                                         Precision::Int8Cache),
                         nameOf);

} // namespace
