//===- DecodeTest.cpp - generation with a cache against whole sequences ---===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/codegen/CompiledModel.h"
#include "tests/unit/oracle/Gradients.h"

#include "compiler/dialect/TfmDialect.h"
#include "compiler/driver/Compile.h"
#include "compiler/frontend/Frontend.h"
#include "compiler/transforms/Passes.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "runtime/device/cpu_device.h"
#include "runtime/generation/generator.h"
#include "runtime/support/error.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/training/initialise.h"
#include "gtest/gtest.h"

using namespace tfm;
using oracle::Tensor;

namespace {

constexpr int64_t kBatch = 3, kChunk = 3;

struct Source {
  const char *name;
  /// Of the program, or of a file of the fixtures, cut down by `defines`.
  std::string text;
  std::vector<std::pair<std::string, std::string>> defines = {};
  /// What the rows of a ring of keys are a multiple of.
  int64_t ringMultiple = 1;
  bool isFile() const { return llvm::StringRef(text).ends_with(".tfm"); }
};

void PrintTo(const Source &source, std::ostream *os) { *os << source.name; }

/// A program whose forward takes `batch` sequences, with its decode derived; or
/// whose decode takes `texts`, and `prefill` one of them. `verify` takes `few`
/// tokens, where that is not 0, and `prefill_short` two segments of `segment`.
struct Program {
  explicit Program(const Source &source, int64_t batch = kBatch,
                   int64_t texts = 1, int64_t few = 0, int64_t segment = 0) {
    SourceManager sources;
    Diagnostics diags(sources);
    FrontendOptions options;
    options.defines = source.defines;
    options.functions.push_back({FunctionRequest::Forward, batch, 0, ""});
    if (texts > 1)
      options.functions.push_back(
          {FunctionRequest::Forward, texts, 0, "forward_batch"});
    if (source.isFile())
      module =
          compileToTfm(context, sources, TFM_FIXTURES "/models/" + source.text,
                       options, diags);
    else
      module = compileTextToTfm(context, sources, "model.tfm", source.text,
                                options, diags);
    EXPECT_TRUE(module) << diags.str();
    if (!module)
      return;
    DeriveDecodePassOptions decode;
    decode.chunk = std::max(kChunk, 4 * segment);
    decode.segment = segment;
    decode.segments = 2;
    decode.few = few;
    decode.ringMultiple = source.ringMultiple;
    mlir::PassManager passes(&context);
    passes.addPass(createQuantiseCachePass());
    passes.addPass(createDeriveDecodePass(decode));
    EXPECT_TRUE(succeeded(passes.run(*module)));
    EXPECT_TRUE(succeeded(mlir::verify(*module)));
  }

  mlir::func::FuncOp function(llvm::StringRef name) {
    return module->lookupSymbol<mlir::func::FuncOp>(name);
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// Runs @encode, @prefill and @decode on tensors.
class Steps {
public:
  virtual ~Steps() = default;
  virtual Tensor run(llvm::StringRef name, std::vector<Tensor> inputs) = 0;
};

class OracleSteps : public Steps {
public:
  OracleSteps(Program &program, const oracle::Environment &environment)
      : program(program), environment(environment) {
    mlir::func::FuncOp decode = program.function("decode");
    for (unsigned i = 0; i < decode.getNumArguments(); ++i)
      if (decode.getArgAttr(i, "tfm.region"))
        // What nobody may read shows when somebody does.
        caches.push_back(
            Tensor(tensorType(decode.getArgument(i)).getShape(), 1e3));
  }

  Tensor run(llvm::StringRef name, std::vector<Tensor> inputs) override {
    if (name != "encode")
      llvm::append_range(inputs, caches);
    std::vector<Tensor> results =
        oracle::evaluateOrFail(program.function(name), inputs, environment);
    // What an encoder leaves stands before the caches.
    if (name == "encode")
      return std::copy(results.begin(), results.end(), caches.begin()),
             Tensor();
    std::copy(results.begin() + 1, results.end(),
              caches.end() - static_cast<ptrdiff_t>(results.size() - 1));
    return results.front();
  }

private:
  Program &program;
  const oracle::Environment &environment;
  std::vector<Tensor> caches;
};

class CompiledSteps : public Steps {
public:
  explicit CompiledSteps(CompiledModel &model) : model(model) {}
  Tensor run(llvm::StringRef name, std::vector<Tensor> inputs) override {
    std::vector<Tensor> results = model.run(name, inputs, 2);
    return results.empty() ? Tensor() : results.front();
  }

private:
  CompiledModel &model;
};

/// Feeds `tokens` [batch, context]: of sequence b the first `prompts[b]` by
/// prefill, chunk by chunk, the others one by one, and expects the logits of
/// `forward`. A sequence whose prompt has ended waits for the others.
void expectSameLogits(Steps &steps, const Tensor &tokens, const Tensor &forward,
                      llvm::ArrayRef<int64_t> prompts, double tolerance) {
  int64_t batch = tokens.shape[0], context = tokens.shape[1],
          vocab = forward.shape[2];
  double scale = 0;
  for (double value : forward.data)
    scale = std::max(scale, std::abs(value));
  auto expectRow = [&](const Tensor &logits, int64_t b, int64_t t) {
    for (int64_t v = 0; v < vocab; ++v)
      ASSERT_NEAR(logits.at({b, v}), forward.at({b, t, v}), tolerance * scale)
          << "sequence " << b << ", position " << t << ", token " << v;
  };
  std::vector<int64_t> done(batch, 0);
  while (true) {
    Tensor chunk({batch, kChunk}), position({batch}), length({batch});
    int64_t longest = 0;
    for (int64_t b = 0; b < batch; ++b) {
      int64_t count = std::min(kChunk, prompts[b] - done[b]);
      for (int64_t i = 0; i < count; ++i)
        chunk.at({b, i}) = tokens.at({b, done[b] + i});
      position.data[b] = static_cast<double>(done[b]);
      length.data[b] = static_cast<double>(count);
      longest = std::max(longest, count);
    }
    if (longest == 0)
      break;
    Tensor logits = steps.run("prefill", {chunk, position, length});
    for (int64_t b = 0; b < batch; ++b) {
      if (length.data[b] == 0)
        continue;
      done[b] += static_cast<int64_t>(length.data[b]);
      expectRow(logits, b, done[b] - 1);
    }
  }
  while (true) {
    Tensor next({batch, 1}), position({batch});
    bool any = false;
    for (int64_t b = 0; b < batch; ++b) {
      // A sequence at its end repeats its last token.
      int64_t t = std::min(done[b], context - 1);
      any |= done[b] < context;
      next.data[b] = tokens.at({b, t});
      position.data[b] = static_cast<double>(t);
    }
    if (!any)
      break;
    Tensor logits = steps.run("decode", {next, position});
    for (int64_t b = 0; b < batch; ++b) {
      expectRow(logits, b, static_cast<int64_t>(position.data[b]));
      done[b] = std::min(done[b] + 1, context);
    }
  }
}

class Decode : public testing::TestWithParam<Source> {};

/// Tests of the runtime on the CPUs; the stand-in driver has those of GPUs.
class OnCpus : public testing::Test {
  void SetUp() override {
    if (testsGpu())
      GTEST_SKIP() << "of CPUs";
  }
};

class DecodeOnCpus : public OnCpus,
                     public testing::WithParamInterface<Source> {};

/// A program in the runtime, with random weights.
struct LoadedProgram {
  explicit LoadedProgram(const Program &program, int threads = 2)
      : compiled(prepared(program)), device(threads),
        model(*compiled.model, device) {
    initialise(model, 5);
  }

  static mlir::ModuleOp prepared(const Program &program) {
    EXPECT_TRUE(program.module &&
                succeeded(prepare(*program.module, testedTarget())));
    return *program.module;
  }

  CompiledModel compiled;
  CpuDevice device;
  Model model;
};

/// The rows of the caches of @decode.
std::vector<int64_t> cacheRows(Program &program) {
  std::vector<int64_t> rows;
  mlir::func::FuncOp decode = program.function("decode");
  for (unsigned i = 0; i < decode.getNumArguments(); ++i)
    if (decode.getArgAttr(i, "tfm.region"))
      rows.push_back(
          *std::prev(tensorType(decode.getArgument(i)).getShape().end(), 2));
  return rows;
}

/// By the oracle, and by compiled code.
void expectLogitsOfForward(const Source &source) {
  for (int64_t batch : {int64_t(1), kBatch}) {
    Program program(source, batch);
    ASSERT_TRUE(program.module);
    auto obstacle =
        program.module->getOperation()->getAttrOfType<mlir::StringAttr>(
            "tfm.whole_sequence");
    ASSERT_FALSE(obstacle) << obstacle.getValue().str();
    ASSERT_TRUE(program.function("prefill") && program.function("decode"));

    std::mt19937 random(11);
    std::uniform_real_distribution<float> uniform(-0.5F, 0.5F);
    oracle::Environment environment;
    for (auto param : program.module->getOps<ParamOp>()) {
      Tensor value(param.getTensorType().getShape());
      for (double &element : value.data)
        element = uniform(random);
      environment.parameters[param.getSymName()] = value;
    }
    mlir::func::FuncOp forward = program.function("forward");
    std::vector<Tensor> inputs, sources;
    Tensor tokens;
    for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
      mlir::RankedTensorType type = tensorType(forward.getArgument(i));
      bool isMask = type.getElementType().isInteger(1);
      Tensor &input = inputs.emplace_back(type.getShape());
      for (auto [j, value] : llvm::enumerate(input.data))
        value = isMask ? double(j % type.getDimSize(1) == 0 || random() % 2)
                       : static_cast<double>(random() % 11);
      if (forward.getArgAttrOfType<mlir::StringAttr>(i, "tfm.name") == "tokens")
        tokens = input;
      else
        sources.push_back(input);
    }
    int64_t context = tokens.shape[1];
    Tensor expected =
        oracle::evaluateOrFail(forward, inputs, environment).front();

    const std::vector<std::vector<int64_t>> prompts = {
        {1, 5, context}, {context - 1, 2, 3}, {kChunk, kChunk + 1, 2 * kChunk}};
    OracleSteps oracleSteps(program, environment);
    if (!sources.empty())
      oracleSteps.run("encode", sources);
    for (const std::vector<int64_t> &prompt : prompts)
      expectSameLogits(oracleSteps, tokens, expected, prompt, 1e-10);
    ASSERT_FALSE(testing::Test::HasFatalFailure());

    ASSERT_TRUE(succeeded(prepare(*program.module, testedTarget())));
    CompiledModel compiled(*program.module);
    for (auto &entry : environment.parameters)
      compiled.setParameter(entry.getKey(), entry.getValue());
    CompiledSteps compiledSteps(compiled);
    if (!sources.empty())
      compiledSteps.run("encode", sources);
    for (const std::vector<int64_t> &prompt : prompts)
      expectSameLogits(compiledSteps, tokens, expected, prompt, 2e-5);
    // One after another in the same cache, `forward` in between.
    compiled.run("forward", inputs);
    expectSameLogits(compiledSteps, tokens, expected, prompts.front(), 2e-5);
    ASSERT_FALSE(testing::Test::HasFatalFailure());
  }
}

TEST_P(Decode, GivesTheLogitsOfForward) { expectLogitsOfForward(GetParam()); }

// Far beyond a full context, where every token moves the positions of all.
TEST_P(DecodeOnCpus, SlidesAsWholeSequencesDo) {
  Program program(GetParam(), 1);
  ASSERT_TRUE(program.module);
  LoadedProgram loaded(program);
  Model &model = loaded.model;
  std::unique_ptr<LogitsSource> cached = openLogits(model, 0),
                                whole = wholeSequence(model, 0);
  ASSERT_EQ(cached->context(), whole->context());
  std::mt19937 random(3);
  std::vector<int32_t> prompt;
  for (int i = 0; i < 5; ++i)
    prompt.push_back(static_cast<int32_t>(random() % 11));
  for (int i = 0; i < 3 * cached->context(); ++i) {
    auto token = static_cast<int32_t>(random() % 11);
    std::span<const float> logits =
        i ? whole->next(token) : whole->start(prompt);
    std::vector<float> expected(logits.begin(), logits.end());
    std::span<const float> got =
        i ? cached->next(token) : cached->start(prompt);
    ASSERT_EQ(got.size(), expected.size());
    float scale = 0;
    for (float value : expected)
      scale = std::max(scale, std::abs(value));
    for (size_t v = 0; v < expected.size(); ++v)
      ASSERT_NEAR(got[v], expected[v], 2e-5 * scale) << "after token " << i;
  }
}

// Texts come and go at places of their own, and slide; none has an effect on
// the bits of another, nor has the place.
TEST_P(DecodeOnCpus, GivesATextTheSameBitsWhateverGrowsBesideIt) {
  Program program(GetParam(), 1, kBatch);
  ASSERT_TRUE(program.module);
  LoadedProgram loaded(program);
  Model &model = loaded.model;
  std::unique_ptr<LogitsSource> source = openLogits(model, 0),
                                whole = wholeSequence(model, 0);
  ASSERT_EQ(source->places(), kBatch);
  auto context = static_cast<size_t>(source->context());
  std::mt19937 random(7);
  struct Text {
    std::vector<int32_t> tokens;
    size_t prompt;
    std::vector<std::vector<float>> logits = {}; ///< alone
    size_t next = 0;
    auto rest() const { return std::span(tokens).subspan(prompt); }
  };
  std::vector<Text> texts;
  for (size_t prompt : {size_t(1), 2 * kChunk + size_t(1), context + 2}) {
    std::vector<int32_t> tokens(2 * context);
    for (int32_t &token : tokens)
      token = static_cast<int32_t>(random() % 11);
    texts.push_back({tokens, prompt});
  }
  for (Text &text : texts) {
    auto keep = [&](std::span<const float> logits) {
      text.logits.emplace_back(logits.begin(), logits.end());
    };
    keep(source->start(std::span(text.tokens).first(text.prompt)));
    for (int32_t token : text.rest())
      keep(source->next(token));
    std::span<const float> expected =
        whole->start(std::span(text.tokens).first(text.prompt));
    for (size_t i = 0; i < text.logits.size(); ++i) {
      if (i > 0)
        expected = whole->next(text.rest()[i - 1]);
      float scale = 0;
      for (float value : expected)
        scale = std::max(scale, std::abs(value));
      for (size_t v = 0; v < expected.size(); ++v)
        ASSERT_NEAR(text.logits[i][v], expected[v], 2e-5 * scale)
            << "after " << i;
    }
  }
  // The second begins after two steps of the first, the third after four.
  auto expectBits = [&](size_t i, std::span<const float> logits) {
    ASSERT_TRUE(std::ranges::equal(logits, texts[i].logits[texts[i].next]))
        << "text " << i << ", token " << texts[i].next;
  };
  for (size_t round = 0; round < 4 * context; ++round) {
    std::vector<LogitsSource::Step> steps;
    for (size_t i = 0; i < texts.size(); ++i) {
      Text &text = texts[i];
      auto place = static_cast<int64_t>(kBatch - 1 - i);
      if (round == 2 * i) {
        expectBits(
            i, source->start(place, std::span(text.tokens).first(text.prompt)));
        ++text.next;
      } else if (round > 2 * i && text.next < text.logits.size()) {
        steps.push_back({place, text.rest()[text.next - 1]});
      }
    }
    source->next(steps, [&](std::span<const LogitsSource::Given> given) {
      for (const auto &[place, logits] : given) {
        auto i = static_cast<size_t>(kBatch - 1 - place);
        expectBits(i, logits);
        ++texts[i].next;
      }
    });
    ASSERT_FALSE(HasFatalFailure());
  }
  for (const Text &text : texts)
    EXPECT_EQ(text.next, text.logits.size());
}

// Which thread draws a text's tokens makes no difference, nor how many there
// are.
TEST_P(DecodeOnCpus, DrawsTheSameOnAnyNumberOfThreads) {
  Program program(GetParam(), 1, kBatch);
  ASSERT_TRUE(program.module &&
              succeeded(prepare(*program.module, testedTarget())));
  CompiledModel compiled(*program.module);
  struct Texts : TextAudience {
    void show(size_t, std::string_view) override {}
    void end(size_t text, Generated generated) override {
      texts[text] = std::move(generated);
    }
    std::map<size_t, Generated> texts;
  };
  std::vector<std::vector<int32_t>> prompts = {{1, 2, 3}, {4}, {5, 6}};
  GenerateOptions options;
  options.tokens = 2 * kChunk;
  options.logprobs = 2;
  std::map<size_t, Generated> alone;
  for (int threads : {1, 2, 5}) {
    CpuDevice device(threads);
    Model model(*compiled.model, device);
    initialise(model, 5);
    std::unique_ptr<LogitsSource> source = openLogits(model, 0);
    EXPECT_EQ(source->readers(), std::min<int64_t>(threads, kBatch));
    Texts audience;
    generateAll(*source, *makeBytesTokenizer(), prompts, 3, options, audience);
    ASSERT_EQ(audience.texts.size(), 9u);
    if (threads == 1)
      alone = std::move(audience.texts);
    for (const auto &[number, text] : audience.texts) {
      EXPECT_EQ(text.ids, alone[number].ids) << "text " << number;
      EXPECT_EQ(text.chances, alone[number].chances) << "text " << number;
    }
  }
}

// Parts of prompts are read together, several of one text too. A text has the
// bits that it has alone, and so has what follows it.
TEST_P(DecodeOnCpus, ReadsPromptsTogether) {
  Program program(GetParam(), 1, kBatch, /*few=*/0, /*segment=*/2);
  ASSERT_TRUE(program.module);
  LoadedProgram loaded(program);
  Model &model = loaded.model;
  std::unique_ptr<LogitsSource> source = openLogits(model, 0),
                                whole = wholeSequence(model, 0);
  auto context = static_cast<size_t>(source->context());
  std::mt19937 random(9);
  // Of odd lengths, so that parts are not full, and neither are functions.
  std::vector<std::vector<int32_t>> prompts;
  for (size_t length : {size_t(5), size_t(1), context - 1}) {
    prompts.emplace_back(length);
    for (int32_t &token : prompts.back())
      token = static_cast<int32_t>(random() % 11);
  }
  auto copyOf = [](std::span<const float> logits) {
    return std::vector<float>(logits.begin(), logits.end());
  };
  constexpr int32_t next = 7;
  std::vector<std::vector<float>> alone, after;
  for (const std::vector<int32_t> &prompt : prompts) {
    alone.push_back(copyOf(source->start(prompt)));
    std::vector<float> expected = copyOf(whole->start(prompt));
    float scale = 0;
    for (float value : expected)
      scale = std::max(scale, std::abs(value));
    for (size_t v = 0; v < expected.size(); ++v)
      ASSERT_NEAR(alone.back()[v], expected[v], 2e-5 * scale);
    after.push_back(copyOf(source->next(next)));
  }
  for (std::vector<int64_t> order :
       {std::vector<int64_t>{0, 1, 2}, {2, 0, 1}, {1, 2}}) {
    std::vector<LogitsSource::Start> starts;
    std::vector<LogitsSource::Step> steps;
    for (int64_t place : order) {
      starts.push_back({place, prompts[place]});
      steps.push_back({place, next});
    }
    std::vector<int64_t> taken;
    source->startAll(starts, [&](std::span<const LogitsSource::Given> given) {
      for (const auto &[place, logits] : given) {
        EXPECT_EQ(copyOf(logits), alone[place]) << "text " << place;
        taken.push_back(place);
      }
    });
    EXPECT_TRUE(std::ranges::is_permutation(taken, order));
    source->next(steps, [&](std::span<const LogitsSource::Given> given) {
      for (const auto &[place, logits] : given)
        EXPECT_EQ(copyOf(logits), after[place]) << "text " << place;
    });
  }
}

// Segments of different texts, and then of one, of which the second sees the
// first.
TEST_P(Decode, GivesTheLogitsOfForwardInSegments) {
  Program program(GetParam(), 1, kBatch, /*few=*/0, /*segment=*/2);
  ASSERT_TRUE(program.module);
  // Of causal ops segments know attention without masks alone.
  bool knows = llvm::StringRef(GetParam().name) != "RunningMeans" &&
               llvm::StringRef(GetParam().name) != "Shifts" &&
               llvm::StringRef(GetParam().name) != "Recurrences" &&
               llvm::StringRef(GetParam().name) != "BiasByDistance";
  ASSERT_EQ(program.function("prefill_short") != nullptr, knows);
  if (!knows)
    return;
  ASSERT_TRUE(succeeded(prepare(*program.module, testedTarget())));
  CompiledModel compiled(*program.module);
  std::mt19937 random(4);
  std::uniform_real_distribution<float> uniform(-0.5F, 0.5F);
  for (auto param : program.module->getOps<ParamOp>()) {
    Tensor value(param.getTensorType().getShape());
    for (double &element : value.data)
      element = uniform(random);
    compiled.setParameter(param.getSymName(), value);
  }
  int64_t context =
      tensorType(program.function("forward").getArgument(0)).getDimSize(1);
  std::vector<Tensor> texts, logits;
  for (int i = 0; i < 2; ++i) {
    texts.emplace_back(std::vector<int64_t>{1, context});
    for (double &token : texts.back().data)
      token = static_cast<double>(random() % 11);
    logits.push_back(compiled.run("forward", {texts.back()}, 2).front());
  }
  struct Segment {
    int64_t text, at, count;
  };
  // The texts stand at places 0 and 2.
  for (std::array<Segment, 2> segments :
       {std::array<Segment, 2>{{{0, 0, 2}, {1, 0, 2}}},
        {{{1, 2, 2}, {1, 4, 1}}},
        {{{1, 5, 2}, {0, 2, 1}}}}) {
    Tensor tokens({2, 2}), position({2}), length({2}), row({2});
    for (int64_t s = 0; s < 2; ++s) {
      auto [text, at, count] = segments[s];
      for (int64_t i = 0; i < count; ++i)
        tokens.at({s, i}) = texts[text].data[at + i];
      position.data[s] = static_cast<double>(at);
      length.data[s] = static_cast<double>(count);
      row.data[s] = static_cast<double>(2 * text);
    }
    Tensor found =
        compiled.run("prefill_short", {tokens, position, length, row}, 2)
            .front();
    for (int64_t s = 0; s < 2; ++s) {
      auto [text, at, count] = segments[s];
      const Tensor &expected = logits[text];
      double scale = 0;
      for (double value : expected.data)
        scale = std::max(scale, std::abs(value));
      for (int64_t v = 0; v < expected.shape[2]; ++v)
        ASSERT_NEAR(found.at({s, v}), expected.at({0, at + count - 1, v}),
                    2e-5 * scale)
            << "text " << text << " from " << at;
    }
  }
}

// The logits after each of some tokens, of which wrong ones are taken back, are
// those after one at a time, to the bit.
void expectVerified(const Source &text) {
  constexpr int64_t few = 4;
  Program program(text, 1, kBatch, few);
  ASSERT_TRUE(program.module);
  LoadedProgram loaded(program);
  Model &model = loaded.model;
  std::unique_ptr<LogitsSource> source = openLogits(model, 0);
  auto context = static_cast<size_t>(source->context());
  std::mt19937 random(7);
  std::vector<int32_t> tokens(context);
  for (int32_t &token : tokens)
    token = static_cast<int32_t>(random() % 11);
  std::vector<std::vector<float>> expected;
  auto keep = [&](std::span<const float> logits) {
    expected.emplace_back(logits.begin(), logits.end());
  };
  keep(source->start(std::span(tokens).first(1)));
  for (size_t i = 1; i < context; ++i)
    keep(source->next(tokens[i]));
  auto expectBits = [&](std::span<const float> logits, size_t at) {
    ASSERT_TRUE(std::ranges::equal(logits, expected[at])) << "after " << at;
  };
  for (int64_t place = 0; place < kBatch; ++place) {
    source->start(place, std::span(tokens).first(1));
    size_t at = 1;
    while (int64_t extent = source->extent(place)) {
      ASSERT_EQ(extent, std::min(few, static_cast<int64_t>(context - at)));
      // Of those that are asked the last one is wrong, but for a single one.
      auto count = static_cast<size_t>(1 + random() % extent);
      std::vector<int32_t> asked(tokens.begin() + static_cast<ptrdiff_t>(at),
                                 tokens.begin() +
                                     static_cast<ptrdiff_t>(at + count));
      size_t right = count > 1 ? count - 1 : 1;
      if (count > 1)
        asked.back() = (asked.back() + 1) % 11;
      LogitRows &rows = source->extend(place, asked);
      for (size_t i = 0; i < right; ++i)
        expectBits(rows.all(static_cast<int64_t>(i)), at + i);
      source->takeBack(place, static_cast<int64_t>(count - right));
      at += right;
      ASSERT_FALSE(testing::Test::HasFatalFailure());
    }
    EXPECT_EQ(at, context);
  }
}

TEST_P(DecodeOnCpus, VerifiesSeveralTokensAtOnce) {
  expectVerified(GetParam());
}

/// Every layer keeps a ring of its window, the first a longer one.
const char *const windowed = R"tfm(
model Windowed(vocab = 11, context = 17, width = 8, heads = 2, window = 3) {
  token = Embedding(vocab, width)
  first = RotaryAttention(width, heads, window = 2 * window)
  layer = repeat(2) RotaryAttention(width, heads, kv_heads = 1, window = window)
  head  = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    x = token(tokens)
    x = x + first(x, positions(tokens))
    return head(x + layer(x, positions(tokens)))
  }
}
)tfm";

/// Of one text or a few the experts that are chosen are fewer than all.
const char *const chosenExperts = R"tfm(
model Mixture(vocab = 11, context = 8, width = 8, hidden = 12, experts = 9, heads = 2) {
  token = Embedding(vocab, width)
  layer = repeat(2) Layer(width, hidden, experts, heads)
  head  = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] { return head(layer(token(tokens))) }
}
module Layer(width, hidden, experts, heads) {
  look    = SelfAttention(width, heads)
  route   = Linear(width, experts)
  experts = repeat(experts) as number Expert(width, hidden, number)
  forward(x: [B, T, width]) -> [B, T, width] {
    x = x + look(x)
    gates, ids = top_k(route(x), 2)
    return experts(x, normalize(x), softmax(gates), ids, only = ids)
  }
}
module Expert(width, hidden, number) {
  mlp = MLP(width, hidden)
  // What would be there for all tokens if all layers ran: 1.
  forward(y: [B, T, width], x: [B, T, width], weights: [B, T, K],
          ids: int[B, T, K]) -> [B, T, width] {
    return y + 1.0 + sum(where(ids == number, weights, 0.0)) * mlp(x)
  }
}
)tfm";

const Source kModels[] = {
    {"LearnedPositions", R"tfm(
model Zebra(vocab = 11, context = 10, stripes = 12, hooves = 3, herd = 2) {
  grass = Embedding(vocab, stripes)
  where = Embedding(context, stripes)
  zoo   = repeat(herd) Gallop(stripes, hooves)
  last  = LayerNorm(stripes)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    return last(zoo(grass(tokens) + where(positions(tokens)))) @ grass.weight.T
  }
}
module Gallop(stripes, hooves) {
  a = LayerNorm(stripes)
  look = SelfAttention(stripes, hooves)
  b = LayerNorm(stripes)
  think = MLP(stripes, 4 * stripes, act = gelu_tanh)
  forward(x: [B, T, stripes]) -> [B, T, stripes] {
    x = x + look(a(x))
    return x + think(b(x))
  }
}
)tfm"},
    {"Sinusoids", R"tfm(
model Waves(vocab = 11, context = 9, width = 8, heads = 2) {
  token = Embedding(vocab, width)
  const pe[t: context, j: width] = if j % 2 == 0 then sin(t / 100 ** (j / width)) else cos(t / 100 ** ((j - 1) / width))
  layer = repeat(3) Post(width, heads)
  head  = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    return head(layer(token(tokens) * sqrt(float(width)) + pe[0:T]))
  }
}
module Post(width, heads) {
  look = SelfAttention(width, heads)
  norm = LayerNorm(width)
  mlp  = MLP(width, 2 * width)
  forward(x: [B, T, width]) -> [B, T, width] {
    x = norm(x + look(x))
    return normalize(x + mlp(x), 1e-5)
  }
}
)tfm"},
    {"RotaryGroupedParallel", R"tfm(
model Parallel(vocab = 11, context = 12, width = 16, heads = 4, kv_heads = 2) {
  token = Embedding(vocab, width)
  layer = repeat(4) as i Layer(width, heads, kv_heads, window = if i % 2 == 0 then 4 else none)
  norm  = RMSNorm(width)
  head  = Linear(width, vocab, bias = false)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    return head(norm(layer(token(tokens), positions(tokens))))
  }
}
module Layer(width, heads, kv_heads, window: int = none) {
  norm = RMSNorm(width)
  attn = RotaryAttention(width, heads, kv_heads = kv_heads, window = window, softcap = 5.0)
  mlp  = SwiGLU(width, 2 * width)
  forward(x: [B, T, width], at: int[B, T]) -> [B, T, width] {
    y = norm(x)
    return x + attn(y, at) + mlp(y)
  }
}
)tfm"},
    {"ShortWindow", windowed, {{"window", "1"}}},
    {"OddWindow", windowed, {{"window", "5"}}},
    {"WindowOfTheContext", windowed, {{"window", "17"}}},
    // Kernels of few queries read whole groups of keys.
    {"RingOfGroups", windowed, {{"context", "100"}, {"window", "20"}}, 64},
    {"BiasByDistance", R"tfm(
model Distance(vocab = 11, context = 8, width = 8, heads = 2) {
  token = Embedding(vocab, width)
  one   = Layer(width, heads, context)
  two   = Layer(width, heads, context)
  head  = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    x = two(one(token(tokens)))
    return tanh(head(x) / 5.0) * 5.0
  }
}
module Layer(width, heads, context) {
  q = Linear(width, width)
  k = Linear(width, width)
  v = Linear(width, width)
  const slope[h: heads, t: context, s: context] = (s - t) / 2 ** (h + 1)
  forward(x: [B, T, width]) -> [B, T, width] {
    a = rearrange(q(x), "B T (heads d) -> B heads T d")
    b = rearrange(k(x), "B T (heads d) -> B heads T d")
    c = rearrange(v(x), "B T (heads d) -> B heads T d")
    y = attention(a, b, c, causal = true, bias = slope)
    return x + rearrange(y, "B heads T d -> B T (heads d)")
  }
}
)tfm"},
    {"AlibiInARing", R"tfm(
model Alibis(vocab = 11, context = 17, width = 8, heads = 2) {
  token = Embedding(vocab, width)
  alibi = Alibi(heads, context)
  layer = [Layer(width, heads), repeat(3) as i Layer(width, heads, window = if i == 1 then 3 else none)]
  head  = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    x = layer(token(tokens), alibi())
    return head(layer[2](x, 2.0 * alibi()))
  }
}
module Layer(width, heads, window: int = none) {
  q = Linear(width, width)
  k = Linear(width, width)
  v = Linear(width, width)
  forward(x: [B, T, width], bias) -> [B, T, width] {
    a = rearrange(q(x), "B T (heads d) -> B heads T d")
    b = rearrange(k(x), "B T (heads d) -> B heads T d")
    c = rearrange(v(x), "B T (heads d) -> B heads T d")
    y = attention(a, b, c, causal = true, distance_bias = bias, window = window)
    return x + rearrange(y, "B heads T d -> B T (heads d)")
  }
}
)tfm"},
    {"RelativeBiases", R"tfm(
model Relative(vocab = 11, context = 12, width = 8, heads = 2) {
  token = Embedding(vocab, width)
  near  = RelativeBias(heads, context, buckets = 6, reach = 9)
  layer = repeat(2) Layer(width, heads)
  norm  = LayerNorm(width)
  head  = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    return head(norm(layer(token(tokens), near(), positions(tokens))))
  }
}
module Layer(width, heads) {
  q = Linear(width, width)
  k = Linear(width, width)
  v = Linear(width, width)
  turn = YarnRope(width // heads, factor = 4.0, original = 8, fast = 2.0)
  forward(x: [B, T, width], bias: [heads, N], at: int[B, T]) -> [B, T, width] {
    a = rearrange(q(x), "B T (heads d) -> B heads T d")
    b = rearrange(k(x), "B T (heads d) -> B heads T d")
    c = rearrange(v(x), "B T (heads d) -> B heads T d")
    y = attention(turn(a, at), turn(b, at), c, causal = true, distance_bias = bias)
    return x + rearrange(y, "B heads T d -> B T (heads d)")
  }
}
)tfm"},
    {"RunningMeans", R"tfm(
model Means(vocab = 11, context = 10, width = 8, heads = 2) {
  token = Embedding(vocab, width)
  layer = repeat(3) Layer(width, heads)
  head  = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    x = token(tokens)
    // Heads side by side: the positions are the second axis but one.
    y = rearrange(x, "B T (h d) -> B h T d", h = heads)
    z = rearrange(cumsum(y, axis = T), "B h T d -> B T (h d)")
    return head(layer(x + 0.1 * z, positions(tokens)))
  }
}
module Layer(width, heads) {
  mix  = Linear(width, width)
  look = SelfAttention(width, heads)
  forward(x: [B, T, width], at: int[B, T]) -> [B, T, width] {
    count = rearrange(float(at + 1), "B T -> B T 1")
    x = x + mix(cumsum(x, axis = T) / count)
    return x + look(x)
  }
}
)tfm"},
    {"Shifts", R"tfm(
model Shifts(vocab = 11, context = 10, width = 8, heads = 2) {
  token = Embedding(vocab, width)
  layer = repeat(3) Layer(width, heads)
  head  = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    x = token(tokens)
    // Heads side by side, and further back than there are positions.
    y = rearrange(x, "B T (h d) -> B h T d", h = heads)
    z = rearrange(shift(y, T, by = 4) + shift(y, T, by = 12), "B h T d -> B T (h d)")
    return head(layer(x + z))
  }
}
/// A short convolution, attention, and a token shift (RWKV: Peng et al. 2023).
module Layer(width, heads) {
  param taps: [2, width] = normal(0.3)
  look = SelfAttention(width, heads)
  param blend: [width] = 0.3
  mix  = Linear(width, width)
  forward(x: [B, T, width]) -> [B, T, width] {
    x = x + look(x + taps[0] * shift(x, T) + taps[1] * shift(x, axis = 1, by = 2))
    y = normalize(x)
    return x + mix(y + blend * (shift(y, T) - y))
  }
}
)tfm"},
    {"Recurrences", R"tfm(
model Recurrences(vocab = 11, context = 10, width = 8, heads = 2) {
  token = Embedding(vocab, width)
  layer = repeat(3) Layer(width)
  param slopes: [heads, 1, 1] = 0.7
  const steps[t: context, j: width] = sin(t + j / 3.0)
  head  = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    x = token(tokens)
    // Heads side by side, and a decay for each of them.
    y = rearrange(x, "B T (h d) -> B h T d", h = heads)
    z = rearrange(scan(slopes, y, axis = T), "B h T d -> B T (h d)")
    // Decays, and then what they are of, that are those of positions alone.
    z = z + scan(steps[0:T], x, axis = T)
    z = z + scan(sigmoid(x), rearrange(steps[0:T], "T d -> B T d", B = B), axis = T)
    return head(layer(x + 0.3 * z))
  }
}
/// A selective recurrence, whose decays depend on the tokens (Gu and Dao 2023),
/// one for each position, and a moving average.
module Layer(width) {
  gate = Linear(width, width)
  keep = Linear(width, 1)
  mix  = Linear(width, width)
  forward(x: [B, T, width]) -> [B, T, width] {
    a = sigmoid(gate(x))
    x = x + mix(scan(a, (1.0 - a) * x, axis = T))
    return x + 0.5 * scan(sigmoid(keep(x)), x, axis = T) - 0.1 * scan(0.9, x, 1)
  }
}
)tfm"},
    {"Experts", R"tfm(
model Experts(vocab = 11, context = 8, width = 8, experts = 5, heads = 2) {
  token = Embedding(vocab, width)
  look  = SelfAttention(width, heads)
  route = Linear(width, experts)
  param bias: [experts, width] = normal(0.02)
  head  = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    x = token(tokens)
    x = x + look(x)
    gates, ids = top_k(route(x), 2)
    weights = rearrange(softmax(gates), "B T k -> B T k 1")
    chosen = sum(gather(bias, ids) * weights, axis = 2)
    return head(x + rearrange(chosen, "B T 1 d -> B T d"))
  }
}
)tfm"},
    {"ChosenExperts", chosenExperts},
    {"OnlyAHiddenLayer", R"tfm(
model Bigram(vocab = 11, context = 8, width = 4) {
  token = Embedding(vocab, width)
  mlp   = MLP(width, 4 * width)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    x = token(tokens)
    return (x + mlp(x)) @ token.weight.T
  }
}
)tfm"},
    {"Gemma2",
     "gemma2.tfm",
     {{"vocab", "11"},
      {"context", "10"},
      {"width", "16"},
      {"hidden", "24"},
      {"heads", "4"},
      {"kv_heads", "2"},
      {"head_width", "6"},
      {"depth", "4"},
      {"window", "4"}}},
    {"Neox",
     "neox.tfm",
     {{"vocab", "11"},
      {"context", "10"},
      {"width", "32"},
      {"heads", "4"},
      {"depth", "3"}}},
    {"Opt",
     "opt.tfm",
     {{"vocab", "11"},
      {"context", "10"},
      {"width", "16"},
      {"heads", "4"},
      {"depth", "2"}}},
    {"Lab", "lab.tfm", {}},
    {"Cs444", "cs444.tfm", {}}};

std::string nameOf(const testing::TestParamInfo<Source> &info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Models, Decode, testing::ValuesIn(kModels), nameOf);
INSTANTIATE_TEST_SUITE_P(Models, DecodeOnCpus, testing::ValuesIn(kModels),
                         nameOf);

// An encoder reads a prompt once: a layer's keys and values of it, too.
const Source kEncoders[] = {
    {"LikeT5", R"tfm(
model Two(vocab = 11, context = 10, width = 8, heads = 2, layers = 2) {
  embed   = Embedding(vocab, width)
  near    = RelativeBias(heads, context, 6, 8, true)
  encoder = repeat(layers) Reader(width, heads)
  decoder = [Writer(width, heads), repeat(layers) Writer(width, heads)]
  forward(source: int[B, S], present: bool[B, S], tokens: int[B, T]) -> [B, T, vocab] {
    mask = rearrange(present, "B S -> B 1 1 S")
    memory = encoder(embed(source), mask)
    return normalize(decoder(embed(tokens), memory, mask, near())) @ embed.weight.T
  }
}
module Reader(width, heads) {
  look = SelfAttention(width, heads, causal = false)
  forward(x: [B, S, width], mask: bool[B, 1, 1, S]) -> [B, S, width] {
    return normalize(x + look(x, mask))
  }
}
module Writer(width, heads) {
  qkv   = Linear(width, 3 * width)
  cross = CrossAttention(width, heads)
  mlp   = MLP(width, 2 * width)
  forward(x: [B, T, width], memory: [B, S, width], mask: bool[B, 1, 1, S],
          near: [heads, N]) -> [B, T, width] {
    q, k, v = split(rearrange(qkv(x), "B T (heads d) -> B heads T d", heads = heads), 3)
    y = attention(q, k, v, causal = true, distance_bias = near)
    x = x + rearrange(y, "B heads T d -> B T (heads d)")
    x = x + cross(normalize(x), memory, mask)
    return x + mlp(normalize(x))
  }
}
)tfm"},
    // Of a prompt as long as texts, with a mask of the model's own, and numbers
    // that every layer and the head read.
    {"OneNumberOfAPrompt", R"tfm(
model Mean(vocab = 11, context = 9, width = 8, heads = 2) {
  embed = Embedding(vocab, width)
  layer = repeat(3) as i Turn(width, heads, i)
  head  = Linear(width, vocab)
  forward(tokens: int[B, T], source: int[B, S]) -> [B, T, vocab] {
    there = cast(source != 3, float)
    read = embed(source) * rearrange(there, "B S -> B S 1")
    about = mean(read, axis = 1)
    return head(layer(embed(tokens), about, rearrange(source == 2, "B S -> B S 1")) + 0.5 * about)
  }
}
module Turn(width, heads, i) {
  look = SelfAttention(width, heads)
  mix  = Linear(width, width)
  forward(x: [B, T, width], about: [B, 1, width], twos: bool[B, S, 1]) -> [B, T, width] {
    seen = where(max(cast(twos, float), axis = 1) > 0.0, tanh(mix(about)), about)
    return normalize(x + look(x) + float(i) * seen)
  }
}
)tfm"}};

TEST(Decode, ReadsAPromptWithItsEncoder) {
  for (const Source &source : kEncoders) {
    SCOPED_TRACE(source.name);
    expectLogitsOfForward(source);
  }
}

// Keys and values that are the same floats become the same integers.
TEST_F(OnCpus, VerifiesTokensOfACacheOfIntegers) {
  std::string text = std::string(windowed) + "generate { cache = int8 }\n";
  for (const char *window : {"5", "20", "100"}) {
    Source model{
        "Integers", text, {{"context", "100"}, {"window", window}}, 64};
    Program program(model, 1, kBatch, 4);
    ASSERT_TRUE(program.module);
    EXPECT_EQ(cacheRows(program).size(), 8u) << "with the scales";
    expectVerified(model);
  }
}

// One token runs the experts that it chose, a few tokens all of them.
TEST(Decode, VerifiesTokensOfExpertsInFewerBits) {
  for (const char *weights : {"bf16", "int8", "int4"})
    expectVerified({"Experts",
                    std::string(chosenExperts) +
                        "generate { weights = " + weights + " }\n",
                    {{"experts", "8"}, {"width", "32"}, {"hidden", "64"}}});
}

// The window, and what one function writes at once: of a prompt, or of a guess.
TEST(Decode, KeepsARingOfTheWindow) {
  auto rows = [](const char *window, int64_t few, int64_t multiple) {
    Program program({"Windowed", windowed, {{"window", window}}, multiple}, 1,
                    1, few);
    return cacheRows(program);
  };
  EXPECT_EQ(rows("1", 0, 1), (std::vector<int64_t>{5, 5, 4, 4}));
  EXPECT_EQ(rows("5", 0, 1), (std::vector<int64_t>{13, 13, 8, 8}));
  EXPECT_EQ(rows("5", 4, 1), (std::vector<int64_t>{14, 14, 9, 9}));
  EXPECT_EQ(rows("1", 4, 4), (std::vector<int64_t>{8, 8, 8, 8}));
  // No more than whole sequences take.
  EXPECT_EQ(rows("7", 0, 1), (std::vector<int64_t>{17, 17, 10, 10}));
  EXPECT_EQ(rows("17", 0, 1), (std::vector<int64_t>{17, 17, 17, 17}));
}

/// What prevents the derivation for a model whose forward has `body`.
std::string obstacleOf(const std::string &body) {
  std::string text = R"tfm(
model Other(vocab = 11, context = 8, width = 8, heads = 2) {
  token = Embedding(vocab, width)
  attn  = SelfAttention(width, heads, causal = false)
  head  = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    x = token(tokens)
)tfm" + body + R"tfm(
    return head(x)
  }
}
)tfm";
  Program program({"Other", text});
  if (!program.module)
    return "";
  EXPECT_FALSE(program.function("prefill") || program.function("decode"));
  auto obstacle =
      program.module->getOperation()->getAttrOfType<mlir::StringAttr>(
          "tfm.whole_sequence");
  return obstacle ? obstacle.getValue().str() : "none";
}

/// A model of 8 positions that cannot be derived, and its weights.
class Fallback {
public:
  explicit Fallback(const std::string &attention)
      : program({"Other", R"tfm(
model Other(vocab = 11, context = 8, width = 8) {
  token = Embedding(vocab, width)
  head  = Linear(width, vocab)
  const future[t: context, s: context] = if s > t then -1e9 else 0.0
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    x = token(tokens)
    return head(x + )tfm" + attention +
                              R"tfm()
  }
}
)tfm"},
                1) {
    EXPECT_FALSE(program.function("prefill") || program.function("decode"));
  }

  /// The oracle's logits of @forward on 8 tokens.
  Tensor forward(llvm::ArrayRef<int32_t> tokens) {
    oracle::Environment environment;
    for (const tfm_parameter &parameter : loaded.model.parameters()) {
      Tensor value({parameter.shape, parameter.shape + parameter.rank});
      llvm::copy(loaded.model.readValue(parameter).values(),
                 value.data.begin());
      environment.parameters[parameter.name] = value;
    }
    Tensor input({1, 8});
    llvm::copy(tokens, input.data.begin());
    return oracle::evaluateOrFail(program.function("forward"), {input},
                                  environment)
        .front();
  }

  Program program;
  LoadedProgram loaded{program};
};

const std::vector<int32_t> kTokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};

void expectRow(std::span<const float> got, const Tensor &expected, int64_t t) {
  double scale = 0;
  for (double value : expected.data)
    scale = std::max(scale, std::abs(value));
  ASSERT_EQ(got.size(), 11u);
  for (int64_t v = 0; v < 11; ++v)
    ASSERT_NEAR(got[v], expected.at({0, t, v}), 2e-5 * scale)
        << "position " << t << ", token " << v;
}

// Causal in a way that the derivation does not follow: what pads a short text
// cannot be seen, and each of its positions has the logits of the whole.
TEST_F(OnCpus, OfACausalModelTakesShortTexts) {
  Fallback fallback("softmax(x @ x.T + future) @ x");
  Tensor expected = fallback.forward(llvm::ArrayRef(kTokens).take_front(8));
  std::unique_ptr<LogitsSource> logits = openLogits(fallback.loaded.model, 0);
  std::span<const int32_t> prompt = std::span(kTokens).first(1);
  expectRow(logits->start(prompt), expected, 0);
  for (int64_t t = 1; t < 8; ++t)
    expectRow(logits->next(kTokens[t]), expected, t);
  for (size_t end = 9; end <= kTokens.size(); ++end)
    expectRow(logits->next(kTokens[end - 1]),
              fallback.forward(llvm::ArrayRef(kTokens).slice(end - 8, 8)), 7);
}

// In a model that looks ahead, only a text that fills all positions has logits.
TEST_F(OnCpus, OfAModelThatLooksAheadNeedsWholeTexts) {
  Fallback fallback("softmax(x @ x.T) @ x");
  std::unique_ptr<LogitsSource> logits = openLogits(fallback.loaded.model, 0);
  for (size_t count : {size_t(1), size_t(3), size_t(7)})
    try {
      logits->start(std::span(kTokens).first(count));
      ADD_FAILURE() << count << " tokens were taken";
    } catch (const InputError &error) {
      EXPECT_NE(
          std::string(error.what())
              .find("has no logits of its own: this model looks at all 8 "
                    "positions at once (model.tfm:8: a matrix product over "
                    "positions); begin with more tokens (8 are enough)"),
          std::string::npos)
          << error.what();
    }
  expectRow(logits->start(std::span(kTokens).first(8)),
            fallback.forward(llvm::ArrayRef(kTokens).take_front(8)), 7);
  for (size_t end = 9; end <= kTokens.size(); ++end)
    expectRow(logits->next(kTokens[end - 1]),
              fallback.forward(llvm::ArrayRef(kTokens).slice(end - 8, 8)), 7);
  // A window that never fills the positions has none either.
  EXPECT_THROW(openLogits(fallback.loaded.model, 5)->start(kTokens),
               InputError);
}

// A matrix for every position, and sequences at different ones: no product of
// one step can do that, while a single sequence has one matrix at a time.
TEST(DecodeObstacle, MatricesByPosition) {
  const char *text = R"tfm(
model Matrices(vocab = 11, context = 8, width = 4) {
  token = Embedding(vocab, width)
  head  = Linear(width, vocab)
  param each: [context, width, width] = normal(0.5)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    x = rearrange(token(tokens), "B T d -> T B d") @ each[0:T]
    return head(rearrange(x, "T B d -> B T d"))
  }
}
)tfm";
  Program several({"Matrices", text}), one({"Matrices", text}, 1);
  ASSERT_TRUE(several.module && one.module);
  EXPECT_FALSE(several.function("decode"));
  EXPECT_TRUE(one.function("decode"));
}

TEST(DecodeObstacle, NamesTheLine) {
  EXPECT_EQ(obstacleOf("    x = x + mean(x, axis = 1)"),
            "model.tfm:8: a reduction over the positions");
  EXPECT_EQ(obstacleOf("    x = x + 1.0\n    x = x + concat(x[:, 1:T], x[:, "
                       "0:1], axis = 1)"),
            "model.tfm:9: a slice of the positions (`shift` has a cache)");
  EXPECT_NE(obstacleOf("    x = attn(x)")
                .find("attention that is not causal, in attn"),
            std::string::npos);
}

} // namespace
