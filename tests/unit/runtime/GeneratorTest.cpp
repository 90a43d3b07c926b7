//===- GeneratorTest.cpp - text, token by token -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/generation/generator.h"
#include "runtime/device/cpu_device.h"
#include "runtime/files/find_tokenizer.h"
#include "runtime/generation/lookahead.h"
#include "runtime/philox.h"
#include "runtime/support/error.h"
#include "runtime/training/initialise.h"
#include "tests/unit/CompleteRecipe.h"
#include "tests/unit/runtime/ToyModel.h"

#include <cmath>
#include <gtest/gtest.h>
#include <map>

namespace tfm {
namespace {

/// Says a fixed text, one byte a token, whatever it is given (at `?` logits
/// that are no numbers); at each place behind the letter that its prompt ends
/// with.
class Reciter : public LogitsSource {
public:
  Reciter(std::string text, int64_t limit = 1 << 20, size_t places = 1)
      : text(std::move(text)), limit(limit), at(places), logits(256) {}

  int64_t context() const override { return limit; }
  int64_t vocabulary() const override { return 256; }
  int64_t places() const override { return static_cast<int64_t>(at.size()); }
  Logits start(int64_t place, std::span<const int32_t> prompt) override {
    size_t found = text.find(static_cast<char>(prompt.back()));
    at[place] = found == std::string::npos ? 0 : found + 1;
    return say(place);
  }
  void next(std::span<const Step> steps, const Take &take) override {
    most = std::max(most, steps.size());
    ++rounds;
    // In any order.
    for (size_t i = steps.size(); i-- > 0;) {
      Given given{steps[i].place, say(steps[i].place)};
      take({&given, 1});
    }
  }

  /// Texts together at most, and how often there was a token more.
  size_t most = 0, rounds = 0;

private:
  std::span<const float> say(int64_t place) {
    std::fill(logits.begin(), logits.end(), 0.0f);
    char next = text[at[place]++ % text.size()];
    logits[static_cast<unsigned char>(next)] = next == '?' ? NAN : 9;
    return logits;
  }

  std::string text;
  int64_t limit;
  std::vector<size_t> at;
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

// A stop text of three bytes may begin with the last two of what there is:
// these wait, and nothing before them.
TEST(Generate, PrintsAllThatCannotBePartOfAStopText) {
  GenerateOptions options = tokens(6);
  options.stop = {"xyz"};
  Printed printed = recite(Reciter("abcdef"), options);
  EXPECT_EQ(printed.parts,
            (std::vector<std::string>{"a", "b", "c", "d", "ef"}));
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
  // One that is not whole is there with what there is.
  Generated half = recite(Reciter("a\xC3STOP"), options).result;
  EXPECT_EQ(half.text, "a\uFFFD");
  EXPECT_EQ(half.ids, (std::vector<int32_t>{'a', 0xC3}));
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

TEST(Generate, SaysWhyATextEnded) {
  GenerateOptions options = tokens(3);
  auto ending = [&](const std::string &text, int64_t context = 1 << 20) {
    Generated result = recite(Reciter(text, context), options).result;
    EXPECT_LE(result.firstSeconds, result.seconds);
    return std::pair(result.ended, result.endedBy);
  };
  using Why = std::pair<Ending, std::string>;
  EXPECT_EQ(ending("abc."), Why(Ending::Tokens, ""));
  options.endTokens = {'.', '!'};
  options.stop = {"xy", "z"};
  // Also where nothing came before it.
  EXPECT_EQ(ending("!abc"), Why(Ending::EndToken, "!"));
  EXPECT_EQ(ending("z"), Why(Ending::Stop, "z"));
  EXPECT_EQ(ending("axyz"), Why(Ending::Stop, "xy"));
  options.stopWhenFull = true;
  EXPECT_EQ(ending("abc", 3), Why(Ending::Context, ""));
  std::atomic<bool> interrupt{true};
  options.interrupt = &interrupt;
  EXPECT_EQ(ending("abc"), Why(Ending::Interrupted, ""));
}

TEST(Generate, ChancesAreThoseOfTheTokensOfTheText) {
  GenerateOptions options = tokens(9);
  options.stop = {"STOP"};
  EXPECT_TRUE(recite(Reciter("goSTOP"), options).result.chances.empty());
  options.logprobs = 1;
  // No filter changes them.
  options.sampler.bias = {{'o', -3.0}};
  Generated result = recite(Reciter("goSTOP"), options).result;
  double all = std::log(std::exp(9.0) + 255);
  ASSERT_EQ(result.chances.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(result.chances[i].token, "ggoo"[i]);
    EXPECT_NEAR(result.chances[i].logprob, 9 - all, 1e-9);
  }
}

/// Keeps what it is told.
struct Listener : TextAudience {
  void show(size_t text, std::string_view part) override {
    parts[text] += part;
  }
  void end(size_t text, Generated generated) override {
    EXPECT_EQ(parts[text], generated.text);
    texts[text] = std::move(generated);
    order.push_back(text);
  }
  void drew(size_t tokens) override { drawn += tokens; }

  std::map<size_t, std::string> parts;
  std::map<size_t, Generated> texts;
  std::vector<size_t> order;
  size_t drawn = 0;
};

// Each ends on its own and makes room for the next.
TEST(GenerateAll, KeepsAllPlacesBusy) {
  std::vector<std::vector<int32_t>> prompts = {{'a'}, {}, {'h'}, {'.'}, {'c'}};
  GenerateOptions options = tokens(100);
  options.sampler.greedy = true;
  options.endTokens = {'.'};
  for (size_t places : {1, 2, 3, 9}) {
    Reciter source("abcdefghijk.", 1 << 20, places);
    Listener listener;
    generateAll(source, *makeBytesTokenizer(), prompts, 2, options, listener);
    ASSERT_EQ(listener.texts.size(), 8u);
    for (size_t i : {0, 1})
      EXPECT_EQ(listener.texts[i].text, "bcdefghijk");
    for (size_t i : {4, 5})
      EXPECT_EQ(listener.texts[i].text, "ijk");
    for (size_t i : {6, 7})
      EXPECT_EQ(listener.texts[i].text, "abcdefghijk");
    for (size_t i : {8, 9})
      EXPECT_EQ(listener.texts[i].text, "defghijk");
    EXPECT_EQ(source.most, std::min<size_t>(places, 8));
    // Every draw but the first of a text is one of a round's.
    EXPECT_EQ(listener.drawn, 2u * (11 + 4 + 12 + 9));
    if (places == 1) {
      EXPECT_EQ(listener.order, (std::vector<size_t>{0, 1, 4, 5, 6, 7, 8, 9}));
    }
  }
  // Rounds that the four texts need: 10, 3, 11, 8. In pairs they would be 21.
  Reciter two("abcdefghijk.", 1 << 20, 2);
  Listener listener;
  generateAll(two, *makeBytesTokenizer(), prompts, 1, options, listener);
  EXPECT_EQ(two.rounds, 18u);
}

/// The numbers of the texts that fail, in their order.
std::vector<size_t> failuresOf(LogitsSource &source,
                               std::span<const std::vector<int32_t>> prompts,
                               const GenerateOptions &options,
                               Listener &listener) {
  std::vector<size_t> failed =
      generateAll(source, *makeBytesTokenizer(), prompts, 1, options, listener);
  std::ranges::sort(failed);
  return failed;
}

// One that has no token left to choose ends alone.
TEST(GenerateAll, AFailureEndsNoOtherText) {
  GenerateOptions options = tokens(1);
  options.sampler.greedy = true;
  const double none = -std::numeric_limits<double>::infinity();
  for (int32_t token = 0; token < 256; ++token)
    if (token != 'b')
      options.sampler.bias.emplace_back(token, none);
  options.sampler.bias.emplace_back('b', -100);
  // Forbids what a text has had.
  options.sampler.repeatPenalty = 1e308;
  std::vector<std::vector<int32_t>> prompts = {{'b'}, {'a'}, {'b'}};
  for (int64_t lookahead : {0, 3})
    for (size_t places : {1, 2, 5}) {
      options.lookahead = lookahead;
      Reciter source("ab", 1 << 20, places);
      Listener listener;
      std::vector<size_t> failed =
          failuresOf(source, prompts, options, listener);
      EXPECT_EQ(failed, (std::vector<size_t>{0, 2}));
      ASSERT_EQ(listener.texts.size(), 3u);
      EXPECT_EQ(listener.texts[1].text, "b");
      EXPECT_EQ(listener.texts[1].ended, Ending::Tokens);
      for (size_t i : failed) {
        const Generated &text = listener.texts[i];
        EXPECT_EQ(text.text, "");
        EXPECT_EQ(text.ended, Ending::Failed);
        EXPECT_EQ(text.endedBy.find("no token is left to choose"), 0u);
      }
    }
  Reciter source("ab");
  EXPECT_THROW(generate(source, *makeBytesTokenizer(), prompts[0], options,
                        [](std::string_view) {}),
               NothingToChoose);
}

// So does one whose logits are not numbers, however far it has come.
TEST(GenerateAll, LogitsThatAreNoNumbersEndOneText) {
  GenerateOptions options = tokens(4);
  std::vector<std::vector<int32_t>> prompts = {{'a'}, {'b'}, {'e'}, {'d'}};
  for (bool greedy : {true, false})
    for (int64_t lookahead : {0, 3})
      for (size_t places : {1, 2, 5}) {
        options.sampler.greedy = greedy;
        options.sampler.temperature = 0.1;
        options.lookahead = lookahead;
        Reciter source("abcd?efghij", 1 << 20, places);
        Listener listener;
        std::vector<size_t> failed =
            failuresOf(source, prompts, options, listener);
        EXPECT_EQ(failed, (std::vector<size_t>{0, 1, 3}));
        ASSERT_EQ(listener.texts.size(), 4u);
        EXPECT_EQ(listener.texts[0].text, "bcd");
        EXPECT_EQ(listener.texts[1].text, "cd");
        EXPECT_EQ(listener.texts[2].text, "fghi");
        EXPECT_EQ(listener.texts[2].ended, Ending::Tokens);
        EXPECT_EQ(listener.texts[3].text, "");
        for (size_t i : failed)
          EXPECT_EQ(listener.texts[i].endedBy.find("the model gives logits "
                                                   "that are not numbers"),
                    0u);
      }
}

// A text's random numbers are those of its number, whatever runs beside it.
TEST(GenerateAll, TextsDoNotDependOnTheirNeighbours) {
  std::vector<std::vector<int32_t>> prompts = {{'a'}, {'b'}, {'c'}};
  GenerateOptions options = tokens(20);
  options.sampler.temperature = 100; // nearly uniform
  options.endTokens = {};
  for (int32_t token = 0; token < 16; ++token)
    options.endTokens.push_back(token);
  std::map<size_t, std::vector<int32_t>> expected;
  for (size_t places : {1, 2, 5}) {
    Reciter source("abc", 1 << 20, places);
    Listener listener;
    generateAll(source, *makeBytesTokenizer(), prompts, 3, options, listener);
    ASSERT_EQ(listener.texts.size(), 9u);
    for (auto &[number, text] : listener.texts) {
      options.sequence = static_cast<uint32_t>(number);
      std::vector<int32_t> &ids = expected[number];
      if (places == 1)
        ids = generate(source, *makeBytesTokenizer(), prompts[number / 3],
                       options, [](std::string_view) {})
                  .ids;
      EXPECT_EQ(text.ids, ids);
    }
    options.sequence = 0;
  }
}

/// Gives logits that depend on all tokens so far, mostly on the last one: texts
/// run in circles, and leave them now and then.
class Wanderer : public LogitsSource, public LogitRows {
public:
  explicit Wanderer(int64_t limit = 1 << 20) : limit(limit) {}
  int64_t context() const override { return limit; }
  int64_t vocabulary() const override { return 256; }
  Logits start(int64_t, std::span<const int32_t> prompt) override {
    tokens.assign(prompt.begin(), prompt.end());
    return write(1);
  }
  void next(std::span<const Step> steps, const Take &take) override {
    tokens.push_back(steps[0].token);
    Given given{0, write(1)};
    take({&given, 1});
  }
  int64_t extent(int64_t) const override {
    return std::min<int64_t>(8, limit - static_cast<int64_t>(tokens.size()));
  }
  LogitRows &extend(int64_t, std::span<const int32_t> more) override {
    EXPECT_LE(static_cast<int64_t>(more.size()), extent(0));
    ++extended;
    tokens.insert(tokens.end(), more.begin(), more.end());
    kept += more.size();
    write(more.size());
    return *this;
  }
  std::span<const float> all(int64_t row) override {
    return std::span(logits).subspan(static_cast<size_t>(row) * 256, 256);
  }
  Candidates candidates(int64_t) override { return {}; }
  void takeBack(int64_t, int64_t count) override {
    tokens.resize(tokens.size() - static_cast<size_t>(count));
    kept -= static_cast<size_t>(count);
  }

  std::vector<int32_t> tokens;
  /// Calls of `extend`, and tokens of them that were not taken back.
  size_t extended = 0, kept = 0;

private:
  std::span<const float> write(size_t count) {
    logits.assign(count * 256, 0.0f);
    for (size_t i = 0; i < count; ++i) {
      size_t length = tokens.size() - count + i + 1;
      uint32_t sum = 0;
      for (size_t t = 0; t < length; ++t)
        sum = sum * 31 + static_cast<uint32_t>(tokens[t]);
      int32_t last = tokens[length - 1];
      logits[i * 256 + static_cast<size_t>(97 + (last + 1) % 6)] = 8;
      logits[i * 256 + static_cast<size_t>(97 + sum % 6)] += 2;
    }
    return logits;
  }

  int64_t limit;
  std::vector<float> logits;
};

// Whatever is proposed, and whatever of it is taken back.
TEST(Generate, LooksAheadToTheSameText) {
  std::vector<int32_t> prompt = {'a', 'b', 'c'};
  size_t extended = 0, kept = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    GenerateOptions options = tokens(150);
    options.seed = seed;
    options.sampler.greedy = seed == 0;
    options.sampler.repeatPenalty = seed % 3 == 1 ? 1.1 : 1.0;
    options.stopWhenFull = true;
    options.logprobs = 1;
    if (seed % 2)
      options.stop = {"fab", "dee"};
    auto write = [&](Wanderer &source) {
      return generate(source, *makeBytesTokenizer(), prompt, options,
                      [](std::string_view) {});
    };
    Wanderer plain(seed < 10 ? 1 << 20 : 90);
    Generated expected = write(plain);
    for (int64_t most : {1, 3, 7, 100}) {
      options.lookahead = most;
      Wanderer source(seed < 10 ? 1 << 20 : 90);
      Generated found = write(source);
      EXPECT_EQ(found.text, expected.text);
      EXPECT_EQ(found.ids, expected.ids);
      EXPECT_EQ(found.ended, expected.ended);
      EXPECT_EQ(found.chances, expected.chances);
      extended += source.extended;
      kept += source.kept;
    }
  }
  // Some proposals were right.
  EXPECT_GT(kept, extended);
}

TEST(LookUp, FindsTheLongestAndThenTheLastPart) {
  auto found = [](const std::string &text, size_t most) {
    std::vector<int32_t> tokens(text.begin(), text.end());
    std::vector<int32_t> next;
    lookUp(tokens, most, next);
    return std::string(next.begin(), next.end());
  };
  EXPECT_EQ(found("", 5), "");
  EXPECT_EQ(found("abc", 5), "");
  // Two tokens may be equal by chance.
  EXPECT_EQ(found("abXYZab", 5), "");
  EXPECT_EQ(found("abcXYZabc", 2), "XY");
  EXPECT_EQ(found("abcXYZabc", 9), "XYZabcXYZ");
  EXPECT_EQ(found("abcX.abcY.abc", 1), "Y");
  EXPECT_EQ(found("zabcX.abcY.zabc", 1), "X");
  EXPECT_EQ(found("1abcX2abcY3abc", 1), "Y");
  // A part may overlap the end: the text goes round in a circle.
  EXPECT_EQ(found("aaaa", 5), "aaaaa");
  EXPECT_EQ(found("abababa", 7), "bababab");
}

TEST(LookaheadAccount, RestsWhereLookingAheadDoesNotPay) {
  LookaheadAccount account;
  // Nothing is known of the time of a token.
  EXPECT_FALSE(account.wants());
  account.plain(1.0);
  EXPECT_TRUE(account.wants());
  // As long as it pays.
  for (int i = 0; i < 10; ++i) {
    account.ahead(1.5, 3);
    EXPECT_TRUE(account.wants());
  }
  // Every proposal wrong: of 3000 tokens it costs less than one in a hundred.
  double time = 0;
  int tries = 0, longest = 0, since = 0;
  for (int token = 0; token < 3000; ++token) {
    ++since;
    if (account.wants()) {
      account.ahead(2.0, 1);
      time += 2.0;
      longest = std::max(longest, since);
      since = 0;
      ++tries;
    } else {
      account.plain(1.0);
      time += 1.0;
    }
  }
  EXPECT_LT(time, 3030);
  // It does not give up.
  EXPECT_GT(tries, 10);
  EXPECT_LE(longest, 513);
  // A single one that pays ends the long rests.
  while (!account.wants())
    account.plain(1.0);
  account.ahead(1.0, 5);
  EXPECT_TRUE(account.wants());
}

// However much was saved before, it rests after a few proposals that are wrong.
TEST(LookaheadAccount, RestsSoonAfterALongTimeInWhichItPaid) {
  LookaheadAccount account;
  account.plain(1.0);
  for (int i = 0; i < 1000; ++i)
    account.ahead(1.5, 8);
  int tries = 0;
  for (; account.wants() && tries < 100; ++tries)
    account.ahead(2.0, 1);
  EXPECT_EQ(tries, 5);
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
  model.setValue(model.parameters()[0], [](size_t, std::span<float> table) {
    for (int i = 0; i < 14; ++i)
      table[i * 14 + (i + 1) % 14] = 5;
  });
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
    if (tokens == 14) {
      EXPECT_EQ(openLogits(model, 0)->vocabulary(), 14);
      continue;
    }
    // Fewer numbers than there are tokens may be hidden states.
    const char *words =
        tokens < 14 ? "gives logits for 14 tokens, but a table in it has rows "
                      "for 10"
                    : "are no logits of the next token after each one, [4, 9, "
                      "20]";
    try {
      openLogits(model, 0);
      FAIL();
    } catch (const InputError &error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos)
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
    // No longer than the model, whatever is asked for.
    EXPECT_EQ(openLogits(model, 20)->context(), 10);
    EXPECT_EQ(openLogits(model, 0)->context(), 10);
    EXPECT_EQ(openLogits(model, 6)->context(), 6);
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

/// A model of functions that only note what they are given, for two texts: a
/// chunk is read of one of them, or of two segments.
class NotingModel {
public:
  /// One line a call: the function, and of each row its place, position and
  /// how many tokens count.
  std::vector<std::string> calls;

  /// `segments`: of `prefill_short`, each of 32 tokens.
  explicit NotingModel(int64_t segments, const char *products) {
    launch.products = products;
    int64_t places = 2;
    set(prefill, "prefill", 1, 256, {"tokens", "position", "length", "row"},
        run<&NotingModel::prefill>);
    set(prefillShort, "prefill_short", segments, 32,
        {"tokens", "position", "length", "row"},
        run<&NotingModel::prefillShort>);
    set(verify, "verify", 1, 8, {"tokens", "position", "row"},
        run<&NotingModel::verify>);
    set(decode, "decode", places, 1, {"tokens", "position"},
        run<&NotingModel::decode>);
    for (Function *one : {&prefill, &prefillShort, &verify, &decode})
      functions.push_back(one->function);
    variant.target = variant.machine = "cpu";
    variant.features = "";
    variant.arena_bytes = end;
    variant.arena_alignment = 64;
    variant.function_count = static_cast<int32_t>(functions.size());
    variant.functions = functions.data();
    variant.constant_count = 1;
    variant.constants = &constant;
    model.abi = TFM_ABI_VERSION;
    model.name = "Noting";
    model.variant_count = 1;
    model.variants = &variant;
  }
  NotingModel(const NotingModel &) = delete;

  tfm_model model = {};

private:
  struct Function {
    int64_t tokens[2], rows[1], logits[3];
    std::vector<tfm_buffer> inputs;
    tfm_buffer output;
    tfm_function function;
  };
  /// Where inputs and outputs of all functions lie.
  static constexpr uint64_t at[] = {64, 2048, 2064, 2080}, logitsAt = 2112,
                            end = 4096;

  void set(Function &f, const char *name, int64_t rows, int64_t size,
           const std::vector<const char *> &inputs,
           void (*code)(void *, tfm_thread *)) {
    f.tokens[0] = f.rows[0] = f.logits[0] = rows;
    f.tokens[1] = f.logits[1] = size;
    bool all = std::string_view(name) == TFM_VERIFY;
    f.logits[all ? 2 : 1] = 1;
    for (const char *input : inputs) {
      std::string_view kind = input;
      f.inputs.push_back({input, TFM_I32, kind == "tokens" ? 2 : 1,
                          kind == "tokens" ? f.tokens : f.rows,
                          at[kind == "tokens"     ? 0
                             : kind == "position" ? 1
                             : kind == "length"   ? 2
                                                  : 3]});
    }
    f.output = {"logits", TFM_F32, all ? 3 : 2, f.logits, logitsAt};
    f.function = {};
    f.function.name = name;
    f.function.run = code;
    f.function.input_count = static_cast<int32_t>(f.inputs.size());
    f.function.output_count = 1;
    f.function.inputs = f.inputs.data();
    f.function.outputs = &f.output;
    f.function.threads = 1;
    f.function.launch_count = 1;
    f.function.launches = &launch;
  }

  template <Function NotingModel::*which>
  static void run(void *arena, tfm_thread *thread) {
    while (thread->claim(thread) >= 0) {
      auto *bytes = static_cast<char *>(arena);
      NotingModel &self = **reinterpret_cast<NotingModel **>(bytes);
      self.note(self.*which, bytes);
    }
  }

  /// The logits of a row, or after each of its tokens, are its first token.
  void note(const Function &f, char *arena) {
    auto numbers = [&](size_t i) {
      return reinterpret_cast<int32_t *>(arena + at[i]);
    };
    auto *logits = reinterpret_cast<float *>(arena + logitsAt);
    std::string line = f.function.name;
    for (int64_t row = 0; row < f.rows[0]; ++row) {
      int64_t each = f.output.rank == 3 ? f.tokens[1] : 1;
      std::fill_n(logits + row * each, each,
                  static_cast<float>(numbers(0)[row * f.tokens[1]]));
      line += ' ';
      if (f.inputs.size() > 2)
        line += std::to_string(numbers(3)[row]) + "@";
      line += std::to_string(numbers(1)[row]);
      if (f.inputs.size() > 3)
        line += "+" + std::to_string(numbers(2)[row]);
    }
    calls.push_back(line);
  }

  Function prefill, prefillShort, verify, decode;
  std::vector<tfm_function> functions;
  tfm_launch launch = {};
  tfm_variant variant = {};
  NotingModel *self = this;
  tfm_constant constant = {0, sizeof(self), &self};
};

using Calls = std::vector<std::string>;

/// What reads prompts of so many tokens that begin together, from place 0 on.
Calls callsFor(NotingModel &noting, std::initializer_list<size_t> lengths) {
  CpuDevice device(1);
  Model model(noting.model, device);
  std::unique_ptr<LogitsSource> source = cachedSequence(model, 1024);
  std::vector<std::vector<int32_t>> prompts;
  std::vector<LogitsSource::Start> starts;
  for (size_t length : lengths)
    prompts.emplace_back(length, 100 + static_cast<int32_t>(prompts.size()));
  for (const std::vector<int32_t> &prompt : prompts)
    starts.push_back({static_cast<int64_t>(starts.size()), prompt});
  std::vector<std::vector<float>> taken(prompts.size());
  source->startAll(starts, [&](std::span<const LogitsSource::Given> given) {
    for (const auto &[place, logits] : given)
      taken[static_cast<size_t>(place)].push_back(logits.all()[0]);
  });
  // Once, when all of it has been read.
  for (size_t i = 0; i < prompts.size(); ++i)
    EXPECT_EQ(taken[i], std::vector<float>{100.0f + static_cast<float>(i)})
        << "text " << i;
  return std::exchange(noting.calls, {});
}

// The rest of a prompt is read by what takes the least time: tiles multiply 32
// rows about as fast as one.
TEST(Prompt, IsReadInChunks) {
  NotingModel vectors(1, TFM_PRODUCTS_F32), tiles(1, TFM_PRODUCTS_INT8_TILES);
  for (NotingModel *model : {&vectors, &tiles}) {
    EXPECT_EQ(callsFor(*model, {8}), Calls{"verify 0@0"});
    EXPECT_EQ(callsFor(*model, {17}), Calls{"prefill_short 0@0+17"});
    EXPECT_EQ(callsFor(*model, {256}), Calls{"prefill 0@0+256"});
    EXPECT_EQ(callsFor(*model, {520, 256}),
              (Calls{"prefill 0@0+256", "prefill 0@256+256", "verify 0@512",
                     "prefill 1@0+256"}));
  }
  EXPECT_EQ(callsFor(vectors, {16}), (Calls{"verify 0@0", "verify 0@8"}));
  EXPECT_EQ(callsFor(tiles, {16}), Calls{"prefill_short 0@0+16"});
  EXPECT_EQ(callsFor(vectors, {192}).size(), 6u);
  EXPECT_EQ(callsFor(vectors, {193}), Calls{"prefill 0@0+193"});
  EXPECT_EQ(callsFor(tiles, {128}).size(), 4u);
  EXPECT_EQ(callsFor(tiles, {129}), Calls{"prefill 0@0+129"});
}

// Which function reads a token depends on its own text alone; what is left free
// of a chunk repeats its first part.
TEST(Prompt, IsReadBesideOthers) {
  NotingModel noting(2, TFM_PRODUCTS_INT8_TILES);
  EXPECT_EQ(callsFor(noting, {1}), Calls{"prefill_short 0@0+1 0@0+1"});
  EXPECT_EQ(callsFor(noting, {40}), Calls{"prefill_short 0@0+32 0@32+8"});
  EXPECT_EQ(callsFor(noting, {256}), Calls{"prefill 0@0+256"});
  EXPECT_EQ(callsFor(noting, {8, 5}), Calls{"prefill_short 0@0+8 1@0+5"});
  EXPECT_EQ(callsFor(noting, {40, 264}),
            (Calls{"prefill_short 0@0+32 0@32+8", "prefill 1@0+256",
                   "prefill_short 1@256+8 1@256+8"}));
  EXPECT_EQ(callsFor(noting, {8, 40}), (Calls{"prefill_short 0@0+8 1@0+32",
                                              "prefill_short 1@32+8 1@32+8"}));
}

// Rows without a step get a token, too: behind their text, and where that fills
// the context in place of its last one, never behind the cache.
TEST(CachedSequence, WritesNothingBehindTheCache) {
  NotingModel noting(1, TFM_PRODUCTS_F32);
  CpuDevice device(1);
  Model model(noting.model, device);
  std::unique_ptr<LogitsSource> source = cachedSequence(model, 4);
  std::vector<int32_t> full = {1, 2, 3, 4}, prompt = {5};
  source->start(0, full);
  source->start(1, prompt);
  noting.calls.clear();
  LogitsSource::Step step{1, 6};
  source->next({&step, 1}, [](std::span<const LogitsSource::Given>) {});
  EXPECT_EQ(noting.calls, Calls{"decode 3 1"});
}

// What an encoder reads ends with an end token, which is there once.
TEST(Prompt, OfAnEncoderEndsOnce) {
  TokenizerPtr tokenizer = makeCharsTokenizer("ab.");
  std::vector<int32_t> end = tokenizer->ids("."), both = tokenizer->ids("ab."),
                       none;
  EXPECT_EQ(sourceTokens(*tokenizer, "ab", end, "the prompt"), both);
  EXPECT_EQ(sourceTokens(*tokenizer, "ab.", end, "the prompt"), both);
  EXPECT_EQ(sourceTokens(*tokenizer, "", end, "the prompt"), end);
  EXPECT_EQ(sourceTokens(*tokenizer, "ab.", none, "the prompt"), both);
  EXPECT_THROW(sourceTokens(*tokenizer, "", none, "the prompt"), InputError);
}

TEST(Prompt, AnEmptyOneBeginsSomewhere) {
  EXPECT_EQ(promptTokens(*makeCharsTokenizer("a\nb"), "", {}),
            (std::vector<int32_t>{1}));
  EXPECT_EQ(promptTokens(*makeCharsTokenizer("ab"), "", {}),
            (std::vector<int32_t>{0}));
  EXPECT_THROW(promptTokens(*makeCharsTokenizer("ab"), "c", {}), InputError);
}

} // namespace
} // namespace tfm
