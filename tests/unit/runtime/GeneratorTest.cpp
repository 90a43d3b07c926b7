//===- GeneratorTest.cpp - text, token by token -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/generation/generator.h"
#include "runtime/device/cpu_device.h"
#include "runtime/error.h"
#include "runtime/philox.h"
#include "runtime/tokenizer/find_tokenizer.h"
#include "runtime/training/initialise.h"
#include "tests/unit/CompleteRecipe.h"
#include "tests/unit/runtime/ToyModel.h"

#include <gtest/gtest.h>

namespace tfm {
namespace {

/// Says a fixed text, one byte a token, whatever it is given.
class Reciter : public LogitsSource {
public:
  Reciter(std::string text, int64_t limit = 1 << 20)
      : text(std::move(text)), limit(limit), logits(256) {}

  int64_t context() const override { return limit; }
  int64_t vocabulary() const override { return 256; }
  std::span<const float> start(std::span<const int32_t>) override {
    at = 0;
    return say();
  }
  std::span<const float> next(int32_t) override { return say(); }

private:
  std::span<const float> say() {
    std::fill(logits.begin(), logits.end(), 0.0f);
    logits[static_cast<unsigned char>(text[at++ % text.size()])] = 9;
    return logits;
  }

  std::string text;
  int64_t limit;
  size_t at = 0;
  std::vector<float> logits;
};

struct Printed {
  Generated result;
  std::vector<std::string> parts;
  std::string all() const {
    std::string text;
    for (const std::string &part : parts)
      text += part;
    return text;
  }
};

Printed recite(Reciter source, GenerateOptions options) {
  options.sampler.greedy = true;
  TokenizerPtr tokenizer = makeBytesTokenizer();
  std::vector<int32_t> prompt = {0};
  Printed printed;
  printed.result =
      generate(source, *tokenizer, prompt, options, [&](std::string_view part) {
        printed.parts.emplace_back(part);
      });
  EXPECT_EQ(printed.all(), printed.result.text);
  return printed;
}

GenerateOptions tokens(int64_t count) {
  GenerateOptions options;
  options.tokens = count;
  return options;
}

TEST(Generate, PrintsWholeCharactersAsTheyCome) {
  std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
  Printed printed = recite(text, tokens(11));
  EXPECT_EQ(printed.parts,
            (std::vector<std::string>{"a", "\xC3\xA9", "\xE2\x82\xAC",
                                      "\xF0\x9F\x98\x80", "z"}));
  // Cut within the last character but one.
  EXPECT_EQ(recite(text, tokens(8)).result.text,
            "a\xC3\xA9\xE2\x82\xAC\xEF\xBF\xBD");
}

TEST(Generate, EndsBeforeAStopText) {
  GenerateOptions options = tokens(100);
  options.stop = {"STOP", "END."};
  Printed printed = recite(Reciter("go STO on STOP, END."), options);
  EXPECT_EQ(printed.result.text, "go STO on ");
  // The tokens are those of the text, whatever else was drawn.
  EXPECT_EQ(printed.result.ids.size(), 10u);
  EXPECT_EQ(printed.result.drawn, 14u);
  Generated nothing = recite(Reciter("STOP"), options).result;
  EXPECT_EQ(nothing.text, "");
  EXPECT_TRUE(nothing.ids.empty());
  // A character of several tokens is there with all of them.
  Generated accent = recite(Reciter("\xC3\xA9STOP"), options).result;
  EXPECT_EQ(accent.text, "\xC3\xA9");
  EXPECT_EQ(accent.ids, (std::vector<int32_t>{0xC3, 0xA9}));
  options.stop = {"zzz"};
  EXPECT_EQ(recite(Reciter("abz"), options).result.text.size(), 100u);
}

TEST(Generate, EndsAtAnEndToken) {
  GenerateOptions options = tokens(100);
  options.endTokens = {'.'};
  Generated result = recite(Reciter("123.456"), options).result;
  EXPECT_EQ(result.text, "123");
  EXPECT_EQ(result.ids, (std::vector<int32_t>{'1', '2', '3'}));
}

TEST(Generate, EndsWhenInterrupted) {
  GenerateOptions options = tokens(100);
  std::atomic<bool> interrupt{true};
  options.interrupt = &interrupt;
  EXPECT_EQ(recite(Reciter("123"), options).result.text, "1");
}

TEST(Generate, EndsWhenTheContextIsFullIfAsked) {
  GenerateOptions options = tokens(100);
  EXPECT_EQ(recite(Reciter("x", 8), options).result.ids.size(), 100u);
  options.stopWhenFull = true;
  EXPECT_EQ(recite(Reciter("x", 8), options).result.ids.size(), 7u);
}

TEST(Generate, SeedsAndSequencesDiffer) {
  auto draw = [](uint64_t seed, uint32_t sequence) {
    GenerateOptions options = tokens(50);
    options.seed = seed;
    options.sequence = sequence;
    Reciter source("a");
    TokenizerPtr tokenizer = makeBytesTokenizer();
    std::vector<int32_t> prompt = {0};
    options.sampler.temperature = 100; // nearly uniform
    return generate(source, *tokenizer, prompt, options,
                    [](std::string_view) {})
        .text;
  };
  EXPECT_EQ(draw(1, 0), draw(1, 0));
  EXPECT_NE(draw(1, 0), draw(2, 0));
  EXPECT_NE(draw(1, 0), draw(1, 1));
}

TEST(WholeSequence, SlidesOverTheNewestTokens) {
  test::ToyShape shape;
  shape.context = 5;
  test::ToyModel toy(shape, "");
  CpuDevice device(1);
  Model model(toy.descriptor(), device);
  // After token i comes i + 1.
  PendingWrite<float> write = model.writeValue(model.parameters()[0]);
  std::span<float> table = write.values();
  for (int i = 0; i < 14; ++i)
    table[i * 14 + (i + 1) % 14] = 5;
  std::unique_ptr<LogitsSource> source = wholeSequence(model, 0);
  EXPECT_EQ(source->context(), 5);
  EXPECT_EQ(source->vocabulary(), 14);
  const tfm_buffer &input = Model::input(model.function("forward"), "tokens");
  auto row = [&] {
    std::span<const int32_t> values = model.read<int32_t>(input).values();
    return std::vector<int32_t>(values.begin(), values.begin() + 5);
  };
  std::vector<int32_t> prompt = {1, 2, 3};
  EXPECT_EQ(greedyToken(source->start(prompt)), 4);
  EXPECT_EQ(row(), (std::vector<int32_t>{1, 2, 3, 0, 0}));
  EXPECT_EQ(greedyToken(source->next(4)), 5);
  EXPECT_EQ(greedyToken(source->next(7)), 8);
  EXPECT_EQ(row(), (std::vector<int32_t>{1, 2, 3, 4, 7}));
  EXPECT_EQ(greedyToken(source->next(9)), 10);
  EXPECT_EQ(row(), (std::vector<int32_t>{2, 3, 4, 7, 9}));
  std::vector<int32_t> longPrompt = {1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(greedyToken(source->start(longPrompt)), 8);
  EXPECT_EQ(row(), (std::vector<int32_t>{3, 4, 5, 6, 7}));
  EXPECT_EQ(wholeSequence(model, 3)->context(), 3);
  EXPECT_EQ(wholeSequence(model, 99)->context(), 5);
}

// A token that the model has no row for is neither read nor said.
TEST(Rows, LimitTheTokens) {
  for (auto [facts, tokens] : {std::pair(R"({"facts": {"tokens": 10}})", 10),
                               {R"({"facts": {"tokens": 20}})", 20},
                               {R"({"facts": {"tokens": 14}})", 14},
                               {R"({"facts": {}})", 14},
                               {"", 14}}) {
    // A descriptor that was written by hand may have no recipe at all.
    test::ToyModel toy(test::ToyShape(),
                       *facts ? test::completeRecipe(facts) : "");
    EXPECT_EQ(vocabularyOf(toy.descriptor()), tokens);
    EXPECT_EQ(findTokenizer(toy.descriptor(), Recipe(), {"", "", true})->size(),
              tokens);
    CpuDevice device(1);
    Model model(toy.descriptor(), device);
    if (tokens >= 14) {
      EXPECT_EQ(openLogits(model, 0)->vocabulary(), 14);
      continue;
    }
    try {
      openLogits(model, 0);
      FAIL();
    } catch (const InputError &error) {
      EXPECT_NE(std::string(error.what())
                    .find("gives logits for 14 tokens, but a table in it has "
                          "rows for 10"),
                std::string::npos)
          << error.what();
    }
  }
}

// Prefill and decode must give what the whole sequence gives, at every
// position, for prompts that are and are not whole chunks, and when the context
// slides.
TEST(CachedSequence, GivesTheLogitsOfTheWholeSequence) {
  for (int64_t chunk : {1, 3, 4, 20}) {
    test::ToyShape shape;
    shape.context = 10;
    shape.chunk = chunk;
    test::ToyModel toy(shape, "");
    CpuDevice device(2);
    Model model(toy.descriptor(), device);
    initialise(model, 3);
    std::unique_ptr<LogitsSource> cached = openLogits(model, 10);
    std::unique_ptr<LogitsSource> whole = wholeSequence(model, 10);
    EXPECT_EQ(cached->context(), 10);
    EXPECT_EQ(cached->vocabulary(), 14);
    for (size_t length : {1u, 3u, 4u, 7u, 10u, 13u}) {
      std::vector<int32_t> prompt;
      for (uint32_t i = 0; i < length; ++i)
        prompt.push_back(static_cast<int32_t>(philox(1, {i, 0, 0, 0})[0] % 14));
      auto same = [&](std::span<const float> left,
                      std::span<const float> right) {
        // Both may lie in the same arena, but never in the same bytes.
        return std::equal(left.begin(), left.end(), right.begin(), right.end());
      };
      EXPECT_TRUE(same(cached->start(prompt), whole->start(prompt)));
      for (int32_t i = 0; i < 15; ++i) {
        int32_t token = (i * 5 + 1) % 14;
        EXPECT_TRUE(same(cached->next(token), whole->next(token)))
            << "chunk " << chunk << ", prompt " << length << ", token " << i;
      }
    }
  }
}

TEST(Prompt, AnEmptyOneBeginsSomewhere) {
  EXPECT_EQ(promptTokens(*makeCharsTokenizer("a\nb"), ""),
            (std::vector<int32_t>{1}));
  EXPECT_EQ(promptTokens(*makeCharsTokenizer("ab"), ""),
            (std::vector<int32_t>{0}));
  EXPECT_THROW(promptTokens(*makeCharsTokenizer("ab"), "c"), InputError);
}

} // namespace
} // namespace tfm
