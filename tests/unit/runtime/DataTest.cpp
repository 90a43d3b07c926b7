//===- DataTest.cpp - what a model is trained on ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/chat/chat_template.h"
#include "runtime/data/characters.h"
#include "runtime/data/dataset.h"
#include "runtime/data/order.h"
#include "runtime/data/texts.h"
#include "runtime/support/error.h"
#include "tests/unit/runtime/TemporaryFolder.h"
#include "tests/unit/runtime/TokenRows.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sys/resource.h>
#include <unistd.h>

namespace tfm {
namespace {

using test::contentOf;
using test::messageOf;
using test::TemporaryFolder;

DataSpec sums(int64_t count, const char *kind = "sums") {
  DataSpec spec;
  spec.kind = kind;
  spec.count = count;
  spec.max = 99;
  spec.seed = 1;
  spec.validation = 0.1;
  return spec;
}

TokenizerPtr digits() { return makeCharsTokenizer("0123456789+=.#"); }

std::unique_ptr<TextDataset>
open(const DataSpec &spec, const Tokenizer &tokenizer, int64_t sequence,
     std::optional<int32_t> ignore = std::nullopt) {
  return openTexts({spec, tokenizer, sequence, ignore});
}

// The published notebook's 25,000 expressions, to the letter.
TEST(Sums, AreTheFixture) {
  std::vector<Example> examples = readExamples(sums(25000));
  std::istringstream lines(contentOf(TFM_FIXTURES "/cs444/addition_25000.txt"));
  std::string line;
  size_t index = 0;
  while (std::getline(lines, line)) {
    std::string padded = examples.at(index++).text;
    padded.resize(10, '#');
    ASSERT_EQ(padded, line);
  }
  EXPECT_EQ(index, examples.size());
}

TEST(Sums, BecomeSamplesAndLabels) {
  TokenizerPtr tokenizer = digits();
  std::unique_ptr<TextDataset> data = open(sums(25000), *tokenizer, 9, 13);
  EXPECT_EQ(data->windows(Part::Train), 22500);
  EXPECT_EQ(data->windows(Part::Validation), 2500);
  std::vector<int32_t> tokens(9), targets(9);
  // 3+14=17.## is the third.
  EXPECT_EQ(data->read(Part::Train, 2, tokens, targets), 7);
  EXPECT_EQ(tokens, (std::vector<int32_t>{3, 10, 1, 4, 11, 1, 7, 12, 13}));
  EXPECT_EQ(targets, (std::vector<int32_t>{10, 1, 4, 11, 1, 7, 12, 13, 13}));
  std::optional<Question> question = data->question(Part::Train, 0);
  EXPECT_EQ(question->prompt, tokenizer->ids("47+51="));
  EXPECT_EQ(question->answer, tokenizer->ids("98."));
}

/// An i32 tensor of a safetensors file.
std::vector<int32_t> integers(const std::string &bytes, const char *name) {
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof size);
  auto entry = nlohmann::json::parse(bytes.substr(8, size)).at(name);
  EXPECT_EQ(entry.at("dtype"), "I32");
  uint64_t begin = entry.at("data_offsets")[0],
           end = entry.at("data_offsets")[1];
  std::vector<int32_t> values((end - begin) / sizeof(int32_t));
  std::memcpy(values.data(), bytes.data() + 8 + size + begin, end - begin);
  return values;
}

TEST(Texts, BlankTextsAreNoData) {
  test::TemporaryFolder folder;
  TokenizerPtr tokenizer = makeCharsTokenizer(" \nab");
  struct Case {
    const char *kind, *text, *message;
  };
  for (const Case &c : std::initializer_list<Case>{
           {"json", R"([{"x": ""}, {"x": " \t"}])",
            " has no text: all of its 2 texts are blank"},
           {"lines", "  \n\n \n", " has no text: all of its 2 texts are blank"},
           {"pairs", " \t \n", " has no text: all of its 1 texts are blank"},
           {"text", " \n \n", " has no text: it is blank"}}) {
    DataSpec data;
    data.kind = c.kind;
    data.field = "x";
    data.files = {folder.write("data", c.text)};
    EXPECT_EQ(messageOf<InputError>([&] { open(data, *tokenizer, 2); }),
              "the data file " + data.files[0] + c.message);
  }
}

// The notebook's encoding, its split, and its prompts and answers: of a sample,
// whose last character it has cut off.
TEST(Sums, AreEncodedAndCutAsTheNotebookDoes) {
  std::string file =
      contentOf(TFM_FIXTURES "/cs444/addition_samples_labels.safetensors");
  std::vector<int32_t> samples = integers(file, "input.ids");
  std::vector<int32_t> labels = integers(file, "input.labels");
  auto facts =
      nlohmann::json::parse(contentOf(TFM_FIXTURES "/cs444/cases.json"));
  auto factsOf = [&](const char *name) {
    for (const auto &entry : facts.at("cases"))
      if (entry.at("name") == name)
        return entry.at("facts");
    return nlohmann::json();
  };
  TokenizerPtr tokenizer = digits();
  const nlohmann::json ids = factsOf("addition_vocabulary").at("char_to_id");
  EXPECT_EQ(ids.size(), 14u);
  for (const auto &[character, id] : ids.items())
    EXPECT_EQ(tokenizer->ids(character),
              std::vector<int32_t>{id.get<int32_t>()});
  std::unique_ptr<TextDataset> data = open(sums(25000), *tokenizer, 9, 13);
  std::vector<int32_t> tokens(9), targets(9);
  ASSERT_EQ(samples.size(), 9000u);
  for (int64_t i = 0; i < 1000; ++i) {
    data->read(Part::Train, i, tokens, targets);
    for (size_t j = 0; j < 9; ++j) {
      ASSERT_EQ(tokens[j], samples[static_cast<size_t>(9 * i) + j]) << i;
      ASSERT_EQ(targets[j], labels[static_cast<size_t>(9 * i) + j]) << i;
    }
  }
  auto split = factsOf("addition_split");
  EXPECT_EQ(data->windows(Part::Train),
            split["train_samples"][0].get<int64_t>());
  EXPECT_EQ(data->windows(Part::Validation),
            split["validation_samples"][0].get<int64_t>());
  auto pairs = factsOf("addition_prompt_answer")["first"];
  ASSERT_EQ(pairs.size(), 5u);
  for (size_t i = 0; i < pairs.size(); ++i) {
    data->read(Part::Train, static_cast<int64_t>(i), tokens, targets);
    std::string sample = tokenizer->text(tokens);
    size_t cut = sample.find('=') + 1;
    EXPECT_EQ(sample.substr(0, cut), pairs[i]["prompt"].get<std::string>());
    EXPECT_EQ(sample.substr(cut), pairs[i]["answer"].get<std::string>());
  }
}

TEST(Sums, AnotherIgnoredTargetReplacesThePadding) {
  TokenizerPtr tokenizer = digits();
  std::unique_ptr<TextDataset> data = open(sums(100), *tokenizer, 9, -100);
  std::vector<int32_t> tokens(9), targets(9);
  data->read(Part::Train, 2, tokens, targets);
  EXPECT_EQ(tokens[8], 13);
  EXPECT_EQ(targets[8], -100);
}

TEST(Products, AreProducts) {
  std::string first = readExamples(sums(1, "products"))[0].text;
  EXPECT_EQ(first, "47*51=2397.");
}

TEST(Sums, AreNotMoreThanTheMemoryHolds) {
  for (int64_t count :
       {int64_t{100'000'000'000'000}, std::numeric_limits<int64_t>::max()}) {
    DataSpec spec;
    spec.kind = "sums";
    spec.max = 99;
    spec.count = count;
    try {
      readExamples(spec);
      FAIL();
    } catch (const InputError &error) {
      EXPECT_NE(std::string(error.what())
                    .find("data sums with count = " + std::to_string(count)),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(Sums, RefuseAWindowThatIsTooShort) {
  TokenizerPtr tokenizer = digits();
  EXPECT_NE(messageOf<InputError>([&] {
              open(sums(100), *tokenizer, 8, 13);
            }).find("train.sequence"),
            std::string::npos);
}

DataSpec text(const std::string &path, double validation = 0.1) {
  DataSpec spec;
  spec.kind = "text";
  spec.files = {path};
  spec.validation = validation;
  return spec;
}

TEST(Text, IsCutByCharactersInOrder) {
  TemporaryFolder folder;
  // 20 characters of two bytes: 18 for training, 2 for validation.
  std::string content;
  for (int i = 0; i < 20; ++i)
    content += "\xC3" + std::string(1, static_cast<char>(0xA0 + i));
  std::string path = folder.write("a.txt", content);
  TokenizerPtr tokenizer = makeCharsTokenizer(content);
  std::unique_ptr<TextDataset> data = open(text(path), *tokenizer, 4);
  EXPECT_EQ(data->starts(Part::Train), 14);
  EXPECT_EQ(data->windows(Part::Train), 4);
  EXPECT_EQ(data->windows(Part::Validation), 1);
  std::vector<int32_t> tokens(4), targets(4);
  EXPECT_EQ(data->read(Part::Train, 13, tokens, targets), 4);
  EXPECT_EQ(tokens, (std::vector<int32_t>{13, 14, 15, 16}));
  EXPECT_EQ(targets, (std::vector<int32_t>{14, 15, 16, 17}));
  EXPECT_EQ(data->read(Part::Validation, 0, tokens, targets), 1);
  EXPECT_EQ(tokens[0], 18);
  EXPECT_EQ(targets[0], 19);
}

// Also of its last tokens, which are less than a window that follows others.
TEST(Text, HasAChecksumOfAllThatWindowsShow) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = makeCharsTokenizer("abc");
  auto checksum = [&](const std::string &content) {
    return open(text(folder.write("a.txt", content), 0), *tokenizer, 4)
        ->checksum({Part::Train, Part::Validation}, 4);
  };
  std::set<std::string> all;
  for (const char *content :
       {"abcabcabcab", "abcabcabcabc", "abcabcabcabb", "abcabcabcabcab"})
    all.insert(checksum(content));
  EXPECT_EQ(all.size(), 4u);
  EXPECT_EQ(checksum("abcabcabcab"), checksum("abcabcabcab"));
  // Of one that is read in several pieces, each token.
  std::string large(300'000, 'a');
  all = {checksum(large)};
  size_t changed[] = {0, 65'535, 65'536, 150'000, 299'999};
  for (size_t at : changed) {
    large[at] = 'b';
    all.insert(checksum(large));
    large[at] = 'a';
  }
  EXPECT_EQ(all.size(), 1 + std::size(changed));
}

/// A text that would take a day to read.
class EndlessText : public TextDataset {
public:
  int64_t starts(Part) const override { return count; }
  int64_t windows(Part) const override { return count / 16; }
  int64_t windowStart(Part, int64_t window) const override {
    return 16 * window;
  }
  int64_t read(Part part, int64_t start, std::span<int32_t> tokens,
               std::span<int32_t>) const override {
    places[part].push_back(start);
    tokens[0] = static_cast<int32_t>(start);
    return std::ssize(tokens);
  }
  bool isStream() const override { return true; }

  int64_t count = int64_t{1} << 40;
  mutable std::map<Part, std::vector<int64_t>> places;
};

TEST(Text, HasAChecksumOfPlacesWhereItIsLong) {
  EndlessText data;
  std::string checksum = data.checksum({Part::Validation}, 16);
  EXPECT_FALSE(data.places.contains(Part::Train));
  const std::vector<int64_t> &places = data.places[Part::Validation];
  EXPECT_EQ(places.size(), 2049u);
  EXPECT_EQ(places.front(), 0);
  EXPECT_EQ(places[1024], data.count / 2);
  EXPECT_EQ(places.back(), data.count - 1);
  data.count += 16;
  EXPECT_NE(data.checksum({Part::Validation}, 16), checksum);
}

#ifndef TFM_SANITIZED
// Of the size that a vector which doubles grows at last for.
TEST(Text, IsInMemoryOnceAndItsTokensToo) {
  TemporaryFolder folder;
  constexpr int64_t count = 17'000'000;
  DataSpec spec = text(folder.write("a.txt", std::string(count, '1')), 0);
  auto mostResident = [] {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return 1024 * usage.ru_maxrss;
  };
  TokenizerPtr ofDigits = digits(), ofBytes = makeBytesTokenizer();
  for (const Tokenizer *tokenizer : {ofDigits.get(), ofBytes.get()})
    EXPECT_EXIT(
        {
          int64_t before = mostResident();
          open(spec, *tokenizer, 4);
          std::exit(mostResident() - before < 6 * count ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
}
#endif

TEST(Text, InAFolderOfOthersIsNotMissing) {
  TemporaryFolder folder;
  std::string path = folder.write("a.txt", "abc");
  // Root may look anywhere.
  const uid_t user = geteuid();
  if (user == 0 && seteuid(65534) != 0)
    GTEST_SKIP() << "root cannot be another user";
  if (user != 0)
    std::filesystem::permissions(folder.path, std::filesystem::perms::none);
  auto problem = [](const std::string &name, const std::string &directory) {
    return messageOf<InputError>(
        [&] { locateFile(name, directory, "the data file", "--data"); });
  };
  std::string named = problem(path, ""), found = problem("a.txt", folder.path);
  ASSERT_EQ(seteuid(user), 0);
  std::filesystem::permissions(folder.path, std::filesystem::perms::owner_all);
  EXPECT_EQ(named, "cannot look at " + path + ": Permission denied");
  // Where a model was built is nothing that whoever runs it has to know.
  EXPECT_EQ(found,
            "cannot find the data file a.txt (nor " + path +
                "): run from the folder that has it, or name its path with "
                "--data");
}

TEST(Text, NamesTheFileAndTheFix) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = makeCharsTokenizer("ab");
  auto problem = [&](const std::string &content) {
    std::string path = folder.write("a.txt", content);
    std::string message =
        messageOf<InputError>([&] { open(text(path), *tokenizer, 8); });
    EXPECT_NE(message.find(path), std::string::npos) << message;
    return message;
  };
  EXPECT_NE(problem("").find("is empty"), std::string::npos);
  EXPECT_NE(problem("abab").find("too short"), std::string::npos);
  EXPECT_NE(problem("ababababababcabababab").find("'c'"), std::string::npos);
  EXPECT_NE(problem("\x1F\x8B\b").find("is compressed by gzip: unpack it"),
            std::string::npos);
  for (const char *utf16 : {"\xFF\xFE", "\xFE\xFF"})
    EXPECT_NE(problem(std::string(utf16) + "ab").find("is text in UTF-16"),
              std::string::npos);
  EXPECT_NE(problem(std::string("aba\0a", 5)).find("byte 3 is NUL"),
            std::string::npos);
  DataSpec elsewhere = text("not-here.txt");
  elsewhere.directory = "/nowhere";
  std::string missing =
      messageOf<InputError>([&] { open(elsewhere, *tokenizer, 8); });
  EXPECT_NE(missing.find("/nowhere/not-here.txt"), std::string::npos);
  EXPECT_NE(missing.find("--data"), std::string::npos);
}

// The line is that of the file, wherever the validation part begins, and the
// file that which has it.
TEST(Text, NamesTheLineOfWhatCannotBeEncoded) {
  TemporaryFolder folder;
  std::string good;
  for (int i = 0; i < 30; ++i)
    good += "ab\n";
  std::string first = folder.write("first.txt", good);
  std::string second = folder.write("second.txt", good + "abcab\nab\n");
  TokenizerPtr tokenizer = makeCharsTokenizer("ab\n");
  DataSpec spec = text(first);
  spec.files = {first, second};
  for (double validation : {0.0, 0.1, 0.9, 1.0}) {
    spec.validation = validation;
    std::string message =
        messageOf<InputError>([&] { open(spec, *tokenizer, 4); });
    EXPECT_EQ(message.find("the data file " + second +
                           ":31: the tokenizer has no token for 'c' (U+0063), "
                           "after \"ab\""),
              0u)
        << message;
  }
  // A file need not end with a line.
  folder.write("first.txt", "abab");
  folder.write("second.txt", "ab\xff\n");
  EXPECT_EQ(messageOf<InputError>([&] { open(spec, *tokenizer, 4); }),
            "the data file " + second +
                ":1: not UTF-8 text: only a tokenizer of bytes takes it");
}

// A mark of the byte order is no character of the first line.
TEST(Lines, BeginBehindAByteOrderMark) {
  TemporaryFolder folder;
  DataSpec spec = text(folder.write("a.txt", "\xEF\xBB\xBF"
                                             "ab\nba\n"),
                       0);
  spec.kind = "lines";
  EXPECT_EQ(readExamples(spec).at(0).text, "ab");
  EXPECT_EQ(readText(spec).text, "ab\nba\n");
}

TEST(Lines, ArePadded) {
  TemporaryFolder folder;
  DataSpec spec = text(folder.write("a.txt", "ab\n\nabab\r\nb\n"), 0);
  spec.kind = "lines";
  TokenizerPtr tokenizer = makeCharsTokenizer("abE#");
  EXPECT_EQ(messageOf<InputError>([&] { open(spec, *tokenizer, 4); }),
            "the examples of " + spec.files[0] +
                " have different lengths: name a pad token in `data` and let "
                "the loss ignore it, e.g. `pad = \"#\"` and `loss = "
                "cross_entropy(ignore = \"#\")`");
  spec.end = "E";
  spec.pad = "#";
  std::unique_ptr<TextDataset> data = open(spec, *tokenizer, 4, 3);
  EXPECT_EQ(data->windows(Part::Train), 3);
  std::vector<int32_t> tokens(4), targets(4);
  EXPECT_EQ(data->read(Part::Train, 0, tokens, targets), 2);
  EXPECT_EQ(tokens, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(targets, (std::vector<int32_t>{1, 2, 3, 3}));
  EXPECT_EQ(data->read(Part::Train, 1, tokens, targets), 4);
}

// They are of one length, but not of that of a window.
TEST(Lines, AreAllTooShort) {
  TemporaryFolder folder;
  DataSpec spec = text(folder.write("a.txt", "abab\nbbbb\n"), 0);
  spec.kind = "lines";
  TokenizerPtr tokenizer = makeCharsTokenizer("ab");
  EXPECT_EQ(messageOf<InputError>([&] { open(spec, *tokenizer, 4); }),
            "the examples of " + spec.files[0] +
                " have 4 tokens, less than a window of sequence + 1 = 5: build "
                "with -D train.sequence=3, or name a pad token in `data` and "
                "let the loss ignore it, e.g. `pad = \"#\"` and `loss = "
                "cross_entropy(ignore = \"#\")`");
  EXPECT_EQ(open(spec, *tokenizer, 3)->windows(Part::Train), 2);
  // No sequence is shorter than a token.
  spec.files = {folder.write("b.txt", "a\nb\n")};
  EXPECT_NE(messageOf<InputError>([&] { open(spec, *tokenizer, 4); })
                .find("1 token, less than a window of sequence + 1 = 5: name a "
                      "pad token"),
            std::string::npos);
}

TEST(Lines, NameThePlaceOfWhatCannotBeEncoded) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = makeCharsTokenizer("ab#");
  DataSpec spec = text(folder.write("a.txt", "ab\n\nab\n"), 0.5);
  spec.files.push_back(folder.write("b.txt", "ab\n\naxb\n"));
  spec.kind = "lines";
  spec.pad = "#";
  // Also where the order is drawn.
  for (std::optional<uint64_t> seed : {std::optional<uint64_t>(), {7}}) {
    spec.splitSeed = seed;
    std::string message =
        messageOf<InputError>([&] { open(spec, *tokenizer, 4); });
    EXPECT_EQ(message.find(spec.files[1] + ":3: "), 0u) << message;
  }
  spec.kind = "json";
  spec.field = "t";
  spec.files = {folder.write("a.json", R"([{"t": "ab"}, {"t": "ax"}])")};
  std::string message =
      messageOf<InputError>([&] { open(spec, *tokenizer, 4); });
  EXPECT_EQ(message.find(spec.files[0] + ", document 2: "), 0u) << message;
}

TEST(Lines, SayHowManyAreCut) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = makeCharsTokenizer("ab#");
  DataSpec spec =
      text(folder.write("a.txt", "abababa\nab\nababab\nababa\n"), 0);
  spec.kind = "lines";
  spec.pad = "#";
  std::unique_ptr<TextDataset> data = open(spec, *tokenizer, 4);
  ASSERT_EQ(data->notes().size(), 1u);
  EXPECT_EQ(data->notes()[0].find("2 of the 4 examples of " + spec.files[0] +
                                  " have more than sequence + 1 = 5 tokens, up "
                                  "to 7; "),
            0u)
      << data->notes()[0];
  EXPECT_TRUE(open(spec, *tokenizer, 6)->notes().empty());
}

TEST(Begin, StandsOnceBeforeEveryExample) {
  TemporaryFolder folder;
  const char *path = TFM_FIXTURES "/bpe/llama/first.json";
  TokenizerPtr tokenizer = parseTokenizerJson(contentOf(path), path);
  DataSpec spec =
      text(folder.write("a.txt", "To\t be\n<s>To\t be\n\tTo be\n"), 0);
  spec.kind = "pairs";
  spec.begin = "<s>";
  spec.answersOnly = true;
  // Words behind it are cut as those of a text are.
  std::vector<int32_t> whole = tokenizer->ids("To be");
  std::unique_ptr<TextDataset> data = open(spec, *tokenizer, 2, -100);
  std::vector<int32_t> tokens(2), targets(2);
  ASSERT_EQ(whole.size(), 2u);
  data->read(Part::Train, 0, tokens, targets);
  EXPECT_EQ(tokens, (std::vector<int32_t>{1, whole[0]}));
  EXPECT_EQ(targets, (std::vector<int32_t>{-100, whole[1]}));
  EXPECT_EQ(data->question(Part::Train, 0)->prompt, tokens);
  data->read(Part::Train, 1, tokens, targets);
  EXPECT_EQ(tokens[0], 1);
  EXPECT_NE(tokens[1], 1);
  // It alone is the prompt where there is no other.
  data->read(Part::Train, 2, tokens, targets);
  EXPECT_EQ(tokens, (std::vector<int32_t>{1, whole[0]}));
  EXPECT_EQ(targets, whole);
  EXPECT_EQ(data->question(Part::Train, 2)->prompt, std::vector<int32_t>{1});
}

/// Pairs of which the answers alone count.
DataSpec answers(const std::string &path, const char *end, const char *pad) {
  DataSpec spec = text(path, 0);
  spec.kind = "pairs";
  spec.end = end;
  spec.pad = pad;
  spec.answersOnly = true;
  return spec;
}

TEST(End, IsATokenOfItsOwn) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = makeWordsTokenizer(
      {R"({"a": 0, "b": 1, "</s>": 2, "<pad>": 3})", "vocab.json"});
  DataSpec spec =
      answers(folder.write("a.txt", "a b \ta\nb \tb\n"), "</s>", "<pad>");
  std::unique_ptr<TextDataset> data = open(spec, *tokenizer, 4, -100);
  std::vector<int32_t> tokens(4), targets(4);
  data->read(Part::Train, 0, tokens, targets);
  EXPECT_EQ(tokens, (std::vector<int32_t>{0, 1, 0, 2}));
  EXPECT_EQ(targets, (std::vector<int32_t>{-100, 0, 2, -100}));
  data->read(Part::Train, 1, tokens, targets);
  EXPECT_EQ(tokens, (std::vector<int32_t>{1, 1, 2, 3}));
  EXPECT_EQ(data->question(Part::Train, 1)->answer,
            (std::vector<int32_t>{1, 2}));
}

TEST(AnswersOnly, CountFromTheFirstTokenOfTheAnswer) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = digits();
  DataSpec spec =
      answers(folder.write("a.txt", "3+14=\t17\n1+1=\t2\n"), ".", "#");
  // What stands before them is what stands behind them, and not the padding.
  std::unique_ptr<TextDataset> data = open(spec, *tokenizer, 8, -100);
  std::vector<int32_t> tokens(8), targets(8);
  data->read(Part::Train, 0, tokens, targets);
  EXPECT_EQ(tokens, tokenizer->ids("3+14=17."));
  EXPECT_EQ(targets,
            (std::vector<int32_t>{-100, -100, -100, -100, 1, 7, 12, -100}));
  data->read(Part::Train, 1, tokens, targets);
  EXPECT_EQ(tokens, tokenizer->ids("1+1=2.##"));
  EXPECT_EQ(targets,
            (std::vector<int32_t>{-100, -100, -100, 2, 12, -100, -100, -100}));
  EXPECT_TRUE(data->notes().empty());
}

TEST(AnswersOnly, HaveATokenThatIsPartlyThePrompt) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = makeByteBpeTokenizer(
      {R"({"a": 0, "b": 1, "c": 2, "bc": 3})", "vocab.json"},
      {"#version: 0.2\nb c\n", "merges.txt"});
  DataSpec spec = text(folder.write("a.txt", "ab\tca\na\tbc\n"), 0);
  spec.kind = "pairs";
  spec.answersOnly = true;
  std::unique_ptr<TextDataset> data = open(spec, *tokenizer, 2, -1);
  std::vector<int32_t> tokens(2), targets(2);
  data->read(Part::Train, 0, tokens, targets);
  EXPECT_EQ(tokens, (std::vector<int32_t>{0, 3}));
  EXPECT_EQ(targets, (std::vector<int32_t>{3, 0}));
  data->read(Part::Train, 1, tokens, targets);
  EXPECT_EQ(targets, (std::vector<int32_t>{3, -1}));
}

TEST(Messages, ArePutIntoTheTemplate) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = makeBytesTokenizer();
  DataSpec spec =
      text(folder.write("a.jsonl",
                        R"({"id": 1, "talk": [{"role": "user", "content": "hi"},
                      {"role": "assistant", "content": "yo"},
                      {"role": "user", "content": "a"},
                      {"role": "assistant", "content": "b"}]})"),
           0);
  // A document a line.
  std::string file = contentOf(spec.files[0]);
  std::erase(file, '\n');
  folder.write("a.jsonl", file);
  spec.kind = "json";
  spec.field = "talk";
  spec.end = "$";
  std::string source =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  int found = 0;
  FindChat chat = [&] {
    ++found;
    return ChatTemplate(source, "chat");
  };
  const std::string whole = "<user>hi;<assistant>yo;<user>a;<assistant>b;$";
  auto length = static_cast<int64_t>(whole.size()) - 1;
  auto counted = [&] {
    std::unique_ptr<TextDataset> data =
        openTexts({spec, *tokenizer, length, -100, chat});
    std::vector<int32_t> tokens(length), targets(length);
    data->read(Part::Train, 0, tokens, targets);
    std::string text;
    for (int32_t target : targets)
      text += target == -100 ? '_' : static_cast<char>(target);
    return text;
  };
  EXPECT_EQ(counted(), whole.substr(1));
  // What the assistant says, each time, and what ends the text.
  spec.answersOnly = true;
  const std::string none(19, '_');
  EXPECT_EQ(counted(), none + "yo;" + none + "b;$");
  EXPECT_EQ(found, 2);
  // A template may write an answer otherwise where it is the last one, begin
  // it with what this one has not, or leave it out.
  const std::string begin = "{% for m in messages %}<{{ m.role }}>",
                    end = ";{% endfor %}{% if add_generation_prompt %}"
                          "<assistant>{% endif %}";
  source = begin +
           "{% if loop.last and m.role == 'assistant' %}<t>{% endif %}"
           "{{ m.content }}" +
           end;
  length += 3;
  EXPECT_EQ(counted(), none + "yo;" + none + "<t>b;$");
  source = begin + "{{ m.content }}" + end +
           "{% if add_generation_prompt %}<t>{% endif %}";
  length -= 3;
  EXPECT_EQ(counted(), none + "yo;" + none + "b;$");
  source = begin + "{{ m.content if loop.last else '' }}" + end;
  length -= 5;
  EXPECT_EQ(counted(), std::string(length - 3, '_') + "b;$");
  // It may refuse what stands before the first answer, here nothing.
  source = "{{ messages[0].role[:0] }}" + begin + "{{ m.content }}" + end;
  folder.write("a.jsonl", R"({"talk": [{"role": "assistant", "content": "a"},)"
                          R"({"role": "assistant", "content": "b"}]})");
  length = 26;
  EXPECT_EQ(counted(),
            std::string(10, '_') + "a;" + std::string(11, '_') + "b;$");
  // The tools of a document.
  source = begin + "{{ m.content }}" + end + "{{ tools|tojson }}";
  file.insert(file.rfind('}'), R"(, "tools": [{}])");
  folder.write("a.jsonl", file);
  length = static_cast<int64_t>(whole.size() - 1 + 4);
  spec.answersOnly = false;
  EXPECT_EQ(counted(), whole.substr(1, whole.size() - 2) + "[{}]$");
  std::string message;
  source = "{{ raise_exception('no') }}";
  message = messageOf<InputError>(counted);
  EXPECT_EQ(message.find(spec.files[0] + ":1: chat:1:"), 0u) << message;
  chat = []() -> ChatTemplate { throw InputError("there is none"); };
  EXPECT_EQ(messageOf<InputError>(counted),
            spec.files[0] + ":1 has messages, and there is none");
  chat = {};
  message = messageOf<InputError>(counted);
  EXPECT_EQ(message.find(spec.files[0] + ":1 has messages, of which only"), 0u)
      << message;
  // One that is a text would be taken as it is, which nobody would see.
  chat = [&] { return ChatTemplate(source, "chat"); };
  source = begin + "{{ m.content }}" + end;
  folder.write("a.jsonl", R"({"talk": [{"role": "user", "content": "a"}]})"
                          "\n"
                          R"({"talk": "b"})");
  EXPECT_EQ(messageOf<InputError>(counted),
            spec.files[0] +
                ":2: the field \"talk\" is no list of messages, unlike that "
                "of " +
                spec.files[0] + ":1");
  // Of several files, too, and not of what is no text.
  folder.write("a.jsonl", R"({"talk": [{"role": "user", "content": "a"}]})");
  const std::string one = spec.files[0];
  spec.files.push_back(folder.write("b.jsonl", R"({"talk": "b"})"));
  EXPECT_NE(
      messageOf<InputError>(counted).find(
          spec.files[1] + ":1: the field \"talk\" is no list of messages"),
      std::string::npos);
  folder.write("b.jsonl", R"({"talk": null})");
  EXPECT_NE(messageOf<InputError>(counted).find("is no text, but null"),
            std::string::npos);
  spec.files = {one};
  spec.field = "text";
  message = messageOf<InputError>(counted);
  EXPECT_NE(message.find("there is no text in the field \"text\""),
            std::string::npos);
  for (const char *bad : {R"({"talk": []})", R"({"talk": [1]})",
                          R"({"talk": [{"role": "user"}]})"}) {
    folder.write("a.jsonl", bad);
    spec.field = "talk";
    EXPECT_NE(messageOf<InputError>(counted).find(spec.files[0] + ":1"),
              std::string::npos);
  }
}

TEST(AnswersOnly, TellOfExamplesWithoutOne) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = digits();
  DataSpec spec =
      text(folder.write("a.txt", "1+1=2\n12345\n1111+1111=2222\n2+\n"), 0);
  spec.kind = "lines";
  spec.answerAfter = "=";
  spec.answersOnly = true;
  std::unique_ptr<TextDataset> data = open(spec, *tokenizer, 8, -100);
  std::vector<std::string> notes = data->notes();
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[1], "3 of the 4 examples of " + spec.files[0] +
                          " have no answer within their window, the first " +
                          spec.files[0] +
                          ":2: with data.answers_only they count for nothing");
  std::vector<int32_t> tokens(8), targets(8);
  for (int64_t i : {1, 2, 3}) {
    data->read(Part::Train, i, tokens, targets);
    EXPECT_EQ(targets, std::vector<int32_t>(8, -100)) << i;
  }
  spec.answerAfter = "*";
  EXPECT_EQ(messageOf<InputError>([&] { open(spec, *tokenizer, 8, -100); }),
            "no example of " + spec.files[0] +
                " has an answer within its window of sequence + 1 = 9 tokens, "
                "and with data.answers_only nothing else counts: an answer "
                "follows the first \"*\" (data.answer_after)");
}

// What ends an example is no begin of an answer, though it may look like one.
TEST(AnswersOnly, BeginNotInTheEnd) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = digits();
  DataSpec spec = text(folder.write("a.txt", "1=2\n12\n"), 0);
  spec.kind = "lines";
  spec.answerAfter = spec.end = "=";
  spec.answersOnly = true;
  std::unique_ptr<TextDataset> data = open(spec, *tokenizer, 3, -100);
  std::vector<int32_t> tokens(3), targets(3);
  data->read(Part::Train, 0, tokens, targets);
  EXPECT_EQ(targets, (std::vector<int32_t>{-100, tokens[2], tokens[1]}));
  data->read(Part::Train, 1, tokens, targets);
  EXPECT_EQ(targets, std::vector<int32_t>(3, -100));
}

TEST(Json, ReadsLinesAndArrays) {
  TemporaryFolder folder;
  DataSpec spec;
  spec.kind = "json";
  spec.field = "text";
  // Some editors begin a file with a mark of the byte order.
  for (const char *content :
       {"{\"text\": \"ab\"}\n\n{\"text\": \"b\"}\n",
        "[{\"text\": \"ab\"}, {\"text\": \"b\"}]",
        "\xEF\xBB\xBF{\"text\": \"ab\"}\n{\"text\": \"b\"}\n",
        "\xEF\xBB\xBF\n[{\"text\": \"ab\"}, {\"text\": \"b\"}]"}) {
    spec.files = {folder.write("a.json", content)};
    std::vector<Example> examples = readExamples(spec);
    ASSERT_EQ(examples.size(), 2u);
    EXPECT_EQ(examples[0].text, "ab");
    EXPECT_EQ(examples[1].text, "b");
    EXPECT_EQ(dataCharacters(spec), (std::vector<std::string>{"a", "b"}));
  }
  spec.files = {folder.write("a.json", "[{\"text\": 3.5}, {\"text\": true}]")};
  EXPECT_EQ(readExamples(spec)[0].text, "3.5");
  EXPECT_EQ(readExamples(spec)[1].text, "true");
  for (const char *content : {"", "{", "{\"other\": 1}", "[1]", "[{}"}) {
    spec.files = {folder.write("a.json", content)};
    EXPECT_NE(messageOf<InputError>([&] { readExamples(spec); }).find("a.json"),
              std::string::npos)
        << content;
  }
  for (const auto &[content, where] :
       {std::pair(
            "[{\"text\": \"ab\"},\n {\"text\" \"b\"}]\n",
            " is not valid JSON: it goes wrong in line 2 at character 12"),
        std::pair("[{\"text\":\n\"ab\"}\n",
                  " is not valid JSON: it ends too early"),
        std::pair("{\"text\": \"ab\"}\n{\"text\": ab}\n",
                  ":2: not valid JSON: it goes wrong at character 10"),
        std::pair("{\"text\": \"hi\", \"n\": 1e999}\n",
                  ":1: not valid JSON: a number in it is too large: none is "
                  "read beyond 1.8e308")}) {
    spec.files = {folder.write("a.json", content)};
    EXPECT_EQ(messageOf<InputError>([&] { readExamples(spec); }),
              spec.files[0] + where);
  }
}

// Where white space alone parts words the tab does, too: the last word of the
// prompt and the first of the answer are not one.
TEST(Pairs, AreNoWordTogether) {
  TemporaryFolder folder;
  TokenizerPtr words = makeWordsTokenizer(
      {R"({"a": 0, "b": 1, "ab": 2, "</s>": 3, "<pad>": 4})", "vocab.json"});
  DataSpec spec = answers(folder.write("a.txt", "b a\tb a\n"), "</s>", "<pad>");
  std::unique_ptr<TextDataset> data = open(spec, *words, 5, -100);
  std::vector<int32_t> tokens(5), targets(5);
  data->read(Part::Train, 0, tokens, targets);
  EXPECT_EQ(tokens, (std::vector<int32_t>{1, 0, 1, 0, 3}));
  EXPECT_EQ(targets, (std::vector<int32_t>{-100, 1, 0, 3, -100}));
  EXPECT_EQ(data->question(Part::Train, 0)->prompt,
            (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(data->question(Part::Train, 0)->answer,
            (std::vector<int32_t>{1, 0, 3}));
}

// What begins with a bracket may be a prompt as well as JSON.
TEST(Pairs, MayBeginWithABracket) {
  TemporaryFolder folder;
  DataSpec spec;
  spec.kind = "pairs";
  for (const auto &[content, text, prompt] :
       {std::tuple("[0,1]\t1\n[2]\t3\n", "[0,1]1", 5u),
        {"\n{a}\t[b]\n", "{a}[b]", 3u},
        {"\t[1]x\n", "[1]x", 0u},
        {"{\"prompt\":\t\"a\", \"answer\":\t\"bc\"}\nnot read", "", 0u},
        {"{\"prompt\":\t\"a\", \"answer\":\t\"bc\"}\n", "abc", 1u},
        {"[\t{\"prompt\": \"a\",\n\"answer\": \"bc\"}]", "abc", 1u}}) {
    spec.files = {folder.write("a.txt", content)};
    if (*text == '\0') {
      EXPECT_EQ(messageOf<InputError>([&] {
                  readExamples(spec);
                }).find(spec.files[0] + ":2: not valid JSON"),
                0u);
      continue;
    }
    std::vector<Example> examples = readExamples(spec);
    ASSERT_FALSE(examples.empty()) << content;
    EXPECT_EQ(examples[0].text, text);
    EXPECT_EQ(examples[0].prompt, prompt);
  }
}

TEST(Pairs, KeepThePromptApart) {
  TemporaryFolder folder;
  DataSpec spec;
  spec.kind = "pairs";
  spec.end = ".";
  spec.pad = "#";
  spec.validation = 0.5;
  TokenizerPtr tokenizer = digits();
  for (const char *content :
       {"1+\t2\n3\t45\n",
        "{\"prompt\": \"1+\", \"answer\": \"2\"}\n"
        "{\"prompt\": \"3\", \"answer\": \"45\"}",
        "\xEF\xBB\xBF[{\"prompt\": \"1+\", \"answer\": \"2\"}, "
        "{\"prompt\": \"3\", \"answer\": \"45\"}]"}) {
    spec.files = {folder.write("a.txt", content)};
    std::unique_ptr<TextDataset> data = open(spec, *tokenizer, 5, 13);
    ASSERT_EQ(data->windows(Part::Validation), 1);
    std::optional<Question> question = data->question(Part::Validation, 0);
    EXPECT_EQ(question->prompt, tokenizer->ids("3"));
    EXPECT_EQ(question->answer, tokenizer->ids("45."));
  }
  spec.files = {folder.write("a.txt", "1+\t2\n")};
  EXPECT_EQ(messageOf<InputError>([&] { open(spec, *tokenizer, 5, 13); }),
            spec.files[0] +
                " has 1 example, too few for a training part beside "
                "data.validation = 0.5: add examples, or build with a smaller "
                "-D data.validation");
  // Who has no prompt cannot be asked, and who has no answer cannot answer.
  spec.validation = 1;
  spec.end = "";
  spec.files = {folder.write("a.txt", "\t2\n3\t\n1+\t2\n")};
  std::unique_ptr<TextDataset> data = open(spec, *tokenizer, 5, 13);
  for (int64_t window : {0, 1, 2})
    EXPECT_EQ(data->question(Part::Validation, window).has_value(),
              window == 2);
  spec.files = {folder.write("a.txt", "1+\t2\n345\n")};
  EXPECT_NE(messageOf<InputError>([&] {
              open(spec, *tokenizer, 5, 13);
            }).find("a.txt:2"),
            std::string::npos);
}

// A file whose name ends in .tsv has them as before, unless its first line, or
// an entry, names columns.
TEST(Pairs, MayStandInAFileOfTabs) {
  TemporaryFolder folder;
  DataSpec spec;
  spec.kind = "pairs";
  auto textsOf = [&](const std::string &content) {
    spec.files = {folder.write("a.tsv", content)};
    std::string all;
    for (Example &example : readExamples(spec))
      all += example.text.insert(example.prompt, "|") + "\n";
    return all;
  };
  EXPECT_EQ(textsOf("1+\t2\n\"3\t4\n"), "1+|2\n\"3|4\n");
  EXPECT_EQ(textsOf("{\"prompt\": \"1+\", \"answer\": 2}"), "1+|2\n");
  EXPECT_EQ(textsOf("id\tanswer\tprompt\n7\t2\t1+\n"), "1+|2\n");
  spec.answer = "sum";
  EXPECT_EQ(textsOf("prompt\tsum\n1+\t2\n"), "1+|2\n");
  // So in a .csv file, and of documents.
  spec.files = {folder.write("a.csv", "1+\t2, or 3\n")};
  spec.answer = "answer";
  EXPECT_EQ(readExamples(spec)[0].text, "1+2, or 3");
  spec.files = {folder.write("b.csv", "{\"prompt\": 1, \"answer\": 2}\n")};
  EXPECT_EQ(readExamples(spec)[0].text, "12");
}

// Whatever they are called, and with the texts that JSON has for numbers.
TEST(Pairs, AreOfNamedFields) {
  TemporaryFolder folder;
  DataSpec spec;
  spec.kind = "pairs";
  spec.prompt = "question";
  spec.answer = "label";
  auto textsOf = [&](const std::string &content) {
    spec.files = {folder.write("a.jsonl", content)};
    std::string all;
    for (Example &example : readExamples(spec))
      all += example.text.insert(example.prompt, "|") + "\n";
    return all;
  };
  EXPECT_EQ(textsOf(R"({"question": "a", "label": 1}
{"label": true, "question": "b", "prompt": "x", "answer": "y"}
{"question": -0.5, "label": 1e3}
{"question": false, "label": "1e3"})"),
            "a|1\nb|true\n-0.5|1000.0\nfalse|1e3\n");
  EXPECT_EQ(textsOf(R"([{"question": "a", "label": 18446744073709551615}])"),
            "a|18446744073709551615\n");
  auto fault = [&](const char *content) {
    std::string message =
        messageOf<InputError>([&] { textsOf(std::string("\n") + content); });
    EXPECT_EQ(message.find(spec.files[0]), 0u) << message;
    return message.substr(spec.files[0].size());
  };
  for (auto [value, what] : {std::pair("null", "null"),
                             {"[1]", "a list"},
                             {R"({"text": "a"})", "an object"}})
    EXPECT_EQ(
        fault((R"({"question": "a", "label": )" + std::string(value) + "}")
                  .c_str()),
        std::string(":2: the field \"label\" is no text, but ") + what);
  EXPECT_EQ(fault(R"([{"question": "a", "label": 1}, {"question": null}])"),
            ", document 2: the field \"question\" is no text, but null");
  // Which texts there are, and how they are named: prompts are no numbers
  // where there is any string.
  const std::string none = ":2: there is no text in the field ";
  EXPECT_EQ(fault(R"({"id": 7, "text": "a", "label": 1})"),
            none + "\"question\", but in \"text\": pairs(..., prompt = "
                   "\"text\")");
  EXPECT_EQ(fault(R"({"id": 7, "question": "a", "class": 1, "x": null})"),
            none + "\"label\", but in \"id\" or \"class\": pairs(..., answer "
                   "= NAME)");
  EXPECT_EQ(fault(R"({"id": 7, "question": "a", "lable": "b"})"),
            none + "\"label\", but in \"id\" or \"lable\": pairs(..., answer "
                   "= \"lable\")");
  EXPECT_EQ(fault(R"({"id": 7, "label": "a"})"),
            none + "\"question\", but in \"id\": pairs(..., prompt = "
                   "\"id\")");
  EXPECT_EQ(fault(R"({"id": "7", "messages": []})"),
            none + "\"question\", but in \"messages\": json(..., field = "
                   "\"messages\")");
  for (const char *other : {"{}", R"({"x": null})", R"(["a", "b"])"})
    EXPECT_EQ(fault((std::string("[") + other + "]").c_str()),
              ", document 1: there is no text in the field \"question\"");
  // Lines have none: those of a table would be read with the names in them.
  EXPECT_EQ(fault("question\tlabel\na\tb\n"),
            " has lines of a prompt, a tab and an answer, and so no field "
            "\"question\": leave out `prompt`, or name a file .csv or .tsv "
            "whose first row names its columns");
  spec.prompt = "prompt";
  EXPECT_NE(fault("a\tb\n").find("no field \"label\": leave out `answer`"),
            std::string::npos);
}

TEST(Tokens, ChecksIds) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = digits();
  DataSpec spec =
      text(folder.write("a.bin", std::string("\x01\0\x02\0\x03\0", 6)), 0);
  spec.kind = "tokens";
  std::unique_ptr<TextDataset> data = open(spec, *tokenizer, 2);
  std::vector<int32_t> tokens(2), targets(2);
  data->read(Part::Train, 0, tokens, targets);
  EXPECT_EQ(targets, (std::vector<int32_t>{2, 3}));
  folder.write("a.bin", std::string("\x01\0\xff\0\x03\0", 6));
  std::string message =
      messageOf<InputError>([&] { open(spec, *tokenizer, 2); });
  EXPECT_NE(message.find("a.bin has the token id 255 at place 1 (byte 2)"),
            std::string::npos)
      << message;
  folder.write("a.bin", "abc");
  EXPECT_THROW(open(spec, *tokenizer, 2), InputError);
}

/// The integers, little-endian, with so many bytes each.
std::string bytesOf(std::initializer_list<int64_t> numbers, int width) {
  std::string bytes;
  for (int64_t number : numbers)
    for (int i = 0; i < width; ++i)
      bytes += static_cast<char>(number >> (8 * i) & 255);
  return bytes;
}

/// As numpy.save writes it, but for the blanks behind the dictionary.
std::string numpyFile(const std::string &type, const std::string &shape,
                      const std::string &content) {
  std::string header = "{'descr': '" + type +
                       "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  return "\x93NUMPY" + bytesOf({1, 0}, 1) + bytesOf({std::ssize(header)}, 2) +
         header + content;
}

/// As llm.c writes it.
std::string llmcFile(int64_t magic, int64_t version, int64_t count,
                     const std::string &content) {
  return bytesOf({magic, version, count}, 4) + std::string(253 * 4, '\0') +
         content;
}

DataSpec tokenFiles(std::vector<std::string> files) {
  DataSpec spec = text("", 0);
  spec.kind = "tokens";
  spec.files = std::move(files);
  return spec;
}

TEST(Tokens, HaveTheFormsOfOthers) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = digits();
  std::vector<int32_t> tokens(4), targets(4);
  for (const std::string &content :
       {bytesOf({5, 1, 2, 3, 4}, 2),
        numpyFile("<u2", "(5,)", bytesOf({5, 1, 2, 3, 4}, 2)),
        numpyFile("|u1", "(5,)", bytesOf({5, 1, 2, 3, 4}, 1)),
        numpyFile("<i4", "(5,)", bytesOf({5, 1, 2, 3, 4}, 4)),
        numpyFile("<i8", "(5,)", bytesOf({5, 1, 2, 3, 4}, 8)),
        llmcFile(20240520, 1, 5, bytesOf({5, 1, 2, 3, 4}, 2)),
        llmcFile(20240801, 7, 5, bytesOf({5, 1, 2, 3, 4}, 4))}) {
    DataSpec spec = tokenFiles({folder.write("a", content)});
    std::unique_ptr<TextDataset> data = open(spec, *tokenizer, 4);
    EXPECT_EQ(data->starts(Part::Train), 1);
    EXPECT_EQ(data->read(Part::Train, 0, tokens, targets), 4);
    EXPECT_EQ(tokens, (std::vector<int32_t>{5, 1, 2, 3}));
    EXPECT_EQ(targets, (std::vector<int32_t>{1, 2, 3, 4}));
  }
}

// Also where a vocabulary has as many tokens as so many bits have numbers.
TEST(Tokens, AreNotNegative) {
  TemporaryFolder folder;
  TokenizerPtr bytes = makeBytesTokenizer();
  DataSpec spec = tokenFiles(
      {folder.write("a", numpyFile("|i1", "(3,)", bytesOf({5, -1, 2}, 1)))});
  std::string message = messageOf<InputError>([&] { open(spec, *bytes, 2); });
  EXPECT_NE(message.find("has the token id -1 at place 1"), std::string::npos)
      << message;
}

TEST(Tokens, GoOnInTheNextFile) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = digits();
  DataSpec spec = tokenFiles({folder.write("a", bytesOf({1, 2, 3}, 2)),
                              folder.write("b", bytesOf({4}, 2)),
                              folder.write("c", bytesOf({5, 6, 7, 8}, 2))});
  spec.validation = 0.25;
  std::unique_ptr<TextDataset> data = open(spec, *tokenizer, 4);
  std::vector<int32_t> tokens(4), targets(4);
  EXPECT_EQ(data->starts(Part::Train), 2);
  EXPECT_EQ(data->read(Part::Train, 1, tokens, targets), 4);
  EXPECT_EQ(tokens, (std::vector<int32_t>{2, 3, 4, 5}));
  EXPECT_EQ(targets, (std::vector<int32_t>{3, 4, 5, 6}));
  EXPECT_EQ(data->read(Part::Validation, 0, tokens, targets), 1);
  EXPECT_EQ(tokens[0], 7);
  EXPECT_EQ(targets[0], 8);
}

// Also of validation files, and where the model was built.
TEST(Tokens, AreOfAllFilesThatAPatternMatches) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = digits();
  folder.write("part_2", bytesOf({3, 4}, 2));
  folder.write("part_1", bytesOf({1, 2}, 2));
  folder.write("other[1]", bytesOf({7, 8, 9}, 2));
  std::vector<int32_t> tokens(2), targets(2);
  DataSpec spec = tokenFiles({"part_*"});
  spec.directory = folder.path;
  spec.validationFiles = {folder / "other[1]"};
  std::unique_ptr<TextDataset> data = open(spec, *tokenizer, 2);
  data->read(Part::Train, 1, tokens, targets);
  EXPECT_EQ(targets, (std::vector<int32_t>{3, 4}));
  data->read(Part::Validation, 0, tokens, targets);
  EXPECT_EQ(targets, (std::vector<int32_t>{8, 9}));
  spec.files = {"port_*"};
  EXPECT_EQ(messageOf<InputError>([&] { open(spec, *tokenizer, 2); }),
            "no data file is like port_* (nor like " + folder.path +
                "/port_*)");
  spec.kind = "text";
  spec.files = {"part_*"};
  folder.write("part_1", "ab");
  folder.write("part_2", "ca");
  spec.validationFiles.clear();
  EXPECT_EQ(dataCharacters(spec), (std::vector<std::string>{"a", "b", "c"}));
  // The folder's own name is none of the pattern.
  for (const char *name : {"ex[1]", "a*b", "what?", "back\\slash"}) {
    spec.directory = folder / name;
    std::filesystem::create_directory(spec.directory);
    folder.write(std::string(name) + "/part_1", "z");
    EXPECT_EQ(withMatches(spec).files,
              std::vector<std::string>{spec.directory + "/part_1"});
  }
}

TEST(Tokens, NameTheFileAndWhatIsWrong) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = digits();
  std::string outside = "but the vocabulary has 14 tokens";
  for (const auto &[content, expected] :
       {std::pair(std::string(), std::string("is empty")),
        {"abc", "is not made of 16-bit token ids"},
        {numpyFile("<u2", "(9,)", bytesOf({5, 1, 2}, 2)),
         "is cut off: it should have 9 token ids, and has 3"},
        {numpyFile("<u2", "(99999999999999999999999,)", bytesOf({5}, 2)),
         "is cut off: it should have 18446744073709551615 token ids"},
        {numpyFile("<u2", "(0,)", ""), "has no token ids"},
        {numpyFile("<f4", "(1,)", bytesOf({0}, 4)),
         "is a NumPy array of type '<f4' and shape (1,), but token ids are "
         "integers in one dimension: save it by numpy.save(FILE, "
         "ids.reshape(-1).astype(numpy.uint16))"},
        {numpyFile(">u2", "(3,)", bytesOf({5, 1, 2}, 2)), "of type '>u2'"},
        {numpyFile("<u2", "(3, 1)", bytesOf({5, 1, 2}, 2)), "shape (3, 1)"},
        {numpyFile("<u2", "()", bytesOf({5}, 2)), "shape ()"},
        {numpyFile("<i2", "(2,)", bytesOf({5, -7}, 2)),
         "has the token id -7 at place 1"},
        {numpyFile("<u2", "(1,)", "").substr(0, 30),
         "is cut off: it ends within its header"},
        {std::string("\x93NUMPY\1\0", 8),
         "is cut off: it ends within its header"},
        {llmcFile(20240520, 1, 4, bytesOf({5, 1, 2}, 2)),
         "one of llm.c's, is cut off: it should have 4 token ids, and has 3"},
        {llmcFile(20240520, 1, 2, bytesOf({5, 14}, 2)),
         "has the token id 14 at place 1 (byte 1026), " + outside},
        {bytesOf({20240520, 1, 9}, 4), "it should have 9 token ids, and has 0"},
        {bytesOf({20240520, 2, 9}, 4),
         "one of llm.c's, is of version 2: what is read is version 1"},
        {"PK\3\4 and so on", "is a zip file, such as NumPy's .npz"}}) {
    DataSpec spec = tokenFiles({folder.write("a", content)});
    std::string message =
        messageOf<InputError>([&] { open(spec, *tokenizer, 2); });
    EXPECT_TRUE(message.starts_with("the data file " + spec.files[0]))
        << message;
    EXPECT_NE(message.find(expected), std::string::npos) << message << "\n"
                                                         << expected;
  }
}

// As arrays are that nobody has made narrower.
TEST(Tokens, AreNotWiderThanTheyAreRead) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = digits();
  std::string ids;
  for (int i = 0; i < 20; ++i)
    ids += bytesOf({3}, 4);
  DataSpec spec = tokenFiles({folder.write("a", ids + ids)});
  EXPECT_TRUE(messageOf<InputError>([&] { open(spec, *tokenizer, 2); })
                  .starts_with("the data file " + spec.files[0] +
                               " looks like ids of 32 bits or more, where 16"));
  // A few may be as they are.
  open(tokenFiles({folder.write("a", ids)}), *tokenizer, 2);
}

// Of such a file only the ends are looked at before they are wanted.
TEST(Tokens, MayBeMoreThanTheMemoryHolds) {
  TemporaryFolder folder;
  TokenizerPtr tokenizer = digits();
  std::string path = folder.write("a", "");
  constexpr int64_t all = int64_t{1} << 35, wrong = all / 2 + 1;
  std::filesystem::resize_file(path, 2 * all);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(2 * wrong);
  file << bytesOf({300}, 2);
  file.seekp(2 * (all - 3));
  file << bytesOf({7, 8, 9}, 2);
  file.close();
  std::unique_ptr<TextDataset> data = open(tokenFiles({path}), *tokenizer, 2);
  EXPECT_EQ(data->starts(Part::Train), all - 2);
  std::vector<int32_t> tokens(2), targets(2);
  data->read(Part::Train, all - 3, tokens, targets);
  EXPECT_EQ(tokens, (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(targets, (std::vector<int32_t>{8, 9}));
  data->read(Part::Train, wrong - 3, tokens, targets);
  std::string message = messageOf<InputError>(
      [&] { data->read(Part::Train, wrong - 2, tokens, targets); });
  EXPECT_NE(
      message.find("has the token id 300 at place " + std::to_string(wrong)),
      std::string::npos)
      << message;
  std::filesystem::resize_file(path, 2 * all - 2);
  message = messageOf<InputError>(
      [&] { data->read(Part::Train, all - 3, tokens, targets); });
  EXPECT_EQ(message, path + " became shorter while it was read");
}

TEST(ValidationFiles, AreNotTrainedOn) {
  TemporaryFolder folder;
  std::vector<int32_t> tokens(2), targets(2);
  TokenizerPtr tokenizer = digits();
  for (const char *kind : {"text", "tokens", "lines"}) {
    auto write = [&](const char *name, std::initializer_list<int64_t> ids) {
      std::string content = bytesOf(ids, 2);
      return folder.write(name, kind == std::string_view("tokens")
                                    ? content
                                    : tokenizer->text(std::vector<int32_t>(
                                          ids.begin(), ids.end())));
    };
    DataSpec spec = tokenFiles({write("train", {1, 2, 3})});
    spec.kind = kind;
    spec.validationFiles = {write("other", {4, 5, 6})};
    std::unique_ptr<TextDataset> data = open(spec, *tokenizer, 2);
    EXPECT_EQ(data->windows(Part::Train), 1) << kind;
    EXPECT_EQ(data->windows(Part::Validation), 1) << kind;
    data->read(Part::Train, 0, tokens, targets);
    EXPECT_EQ(targets, (std::vector<int32_t>{2, 3})) << kind;
    data->read(Part::Validation, 0, tokens, targets);
    EXPECT_EQ(targets, (std::vector<int32_t>{5, 6})) << kind;
    spec.validationFiles = {"nowhere"};
    EXPECT_EQ(
        messageOf<InputError>([&] { open(spec, *tokenizer, 2); }),
        "cannot find the validation file nowhere: run from the folder "
        "that has it, or name its path with -D data.validation_files when you "
        "build it");
    if (kind != std::string_view("lines")) {
      spec.validationFiles = {write("other", {4})};
      EXPECT_EQ(messageOf<InputError>([&] { open(spec, *tokenizer, 2); }),
                "the data file " + spec.validationFiles[0] +
                    " is too short to validate with: it has one token, and "
                    "nothing follows that");
    }
    if (kind == std::string_view("tokens"))
      continue;
    spec.validationFiles = {folder.write("other", "12x")};
    EXPECT_NE(messageOf<InputError>([&] {
                open(spec, *tokenizer, 2);
              }).find(spec.validationFiles[0] + ":1"),
              std::string::npos)
        << kind;
  }
}

TrainSpec recipe(int64_t batch, int64_t sequence) {
  TrainSpec train;
  train.batch = batch;
  train.sequence = sequence;
  return train;
}

TEST(Order, AnEpochShowsEveryExampleOnce) {
  TokenizerPtr tokenizer = digits();
  std::unique_ptr<TextDataset> data = open(sums(100), *tokenizer, 9, 13);
  TrainSpec train = recipe(10, 9);
  DataOrder order(*data, train, 42);
  EXPECT_EQ(order.stepsOf(1), 9);
  EXPECT_EQ(order.epochsAfter(8), 0);
  EXPECT_EQ(order.epochsAfter(9), 1);
  // Batches that do not come out even go on into the next epoch.
  TrainSpec uneven = recipe(40, 9);
  DataOrder other(*data, uneven, 42);
  EXPECT_EQ(other.stepsOf(1), 3);
  EXPECT_EQ(other.stepsOf(4), 9);
  EXPECT_EQ(other.epochsAfter(2), 0);
  EXPECT_EQ(other.epochsAfter(3), 1);
  EXPECT_EQ(other.epochsAfter(9), 4);
  TokenRows batch(10, 9);
  const std::vector<int32_t> &tokens = batch.tokens();
  auto epoch = [&](int64_t first) {
    std::multiset<std::vector<int32_t>> rows;
    for (int64_t step = first; step < first + 9; ++step) {
      order.fill(step, 0, batch);
      for (int row = 0; row < 10; ++row)
        rows.emplace(tokens.begin() + 9 * row, tokens.begin() + 9 * row + 9);
    }
    return rows;
  };
  std::multiset<std::vector<int32_t>> all;
  for (int i = 0; i < 90; ++i) {
    std::vector<int32_t> row(9), next(9);
    data->read(Part::Train, i, row, next);
    all.insert(row);
  }
  EXPECT_EQ(epoch(0), all);
  EXPECT_EQ(epoch(9), all);
}

/// A text of 81 characters, none of them twice: 20 windows of 4.
struct TwentyWindows {
  TwentyWindows() {
    std::string content(81, ' ');
    std::iota(content.begin(), content.end(), ' ');
    tokenizer = makeCharsTokenizer(content);
    data = open(text(folder.write("a.txt", content), 0), *tokenizer, 4);
  }

  TemporaryFolder folder;
  TokenizerPtr tokenizer;
  std::unique_ptr<TextDataset> data;
};

TEST(Order, EpochsOfATextShowEveryWindowOnce) {
  TwentyWindows windows;
  TrainSpec train = recipe(5, 4);
  train.epochs = 2;
  DataOrder order(*windows.data, train, 1);
  EXPECT_EQ(order.stepsOf(2), 8);
  EXPECT_NE(messageOf<InputError>([&] {
              (void)order.stepsOf(std::numeric_limits<int64_t>::max());
            }).find("more steps than can be counted"),
            std::string::npos);
  TokenRows batch(5, 4);
  const std::vector<int32_t> &tokens = batch.tokens();
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::set<int32_t> starts;
    for (int64_t step = 4 * epoch; step < 4 * epoch + 4; ++step) {
      order.fill(step, 0, batch);
      for (int row = 0; row < 5; ++row)
        starts.insert(tokens[row * 4]);
    }
    ASSERT_EQ(starts.size(), 20u);
    for (int32_t start : starts)
      EXPECT_EQ(start % 4, 0);
  }
}

TEST(Order, WithoutShuffleIsTheOrderOfTheFile) {
  TokenizerPtr tokenizer = digits();
  std::unique_ptr<TextDataset> data = open(sums(100), *tokenizer, 9, 13);
  TrainSpec train = recipe(1, 9);
  train.shuffle = false;
  DataOrder order(*data, train, 1);
  TokenRows batch(1, 9);
  const std::vector<int32_t> &tokens = batch.tokens();
  std::vector<int32_t> row(9), next(9);
  for (int64_t step : {0, 1, 89, 90}) {
    order.fill(step, 0, batch);
    data->read(Part::Train, step % 90, row, next);
    EXPECT_EQ(tokens, row);
  }
}

// Without epochs, too: nothing is drawn.
TEST(Order, WithoutShuffleATextIsReadFromItsBeginning) {
  TwentyWindows windows;
  TrainSpec train = recipe(5, 4);
  train.shuffle = false;
  DataOrder order(*windows.data, train, 1);
  TokenRows batch(5, 4);
  const std::vector<int32_t> &tokens = batch.tokens();
  std::vector<int32_t> expected(20);
  for (int64_t step : {0, 1, 3, 4}) {
    order.fill(step, 0, batch);
    std::iota(expected.begin(), expected.end(), 20 * (step % 4));
    EXPECT_EQ(tokens, expected) << step;
  }
}

// Epochs count what was shown before, by whatever build.
TEST(Order, EpochsGoOnWithAnotherBatch) {
  TokenizerPtr tokenizer = digits();
  std::unique_ptr<TextDataset> data = open(sums(100), *tokenizer, 9, 13);
  TrainSpec train = recipe(10, 9);
  DataOrder order(*data, train, 42);
  order.goOn(/*step=*/4, /*windows=*/80); // of 90 in an epoch
  EXPECT_EQ(order.epochsAfter(4), 0);
  EXPECT_EQ(order.epochsAfter(5), 1);
}

TEST(Split, ASeedDrawsTheValidationPart) {
  TokenizerPtr tokenizer = digits();
  auto part = [&](std::optional<uint64_t> seed, Part which) {
    DataSpec spec = sums(200);
    spec.splitSeed = seed;
    std::unique_ptr<TextDataset> data = open(spec, *tokenizer, 9, 13);
    std::multiset<std::vector<int32_t>> rows;
    std::vector<int32_t> tokens(9), targets(9);
    for (int64_t i = 0; i < data->windows(which); ++i) {
      data->read(which, i, tokens, targets);
      rows.insert(tokens);
    }
    return rows;
  };
  EXPECT_EQ(part(5, Part::Validation), part(5, Part::Validation));
  EXPECT_NE(part(5, Part::Validation), part(6, Part::Validation));
  EXPECT_NE(part(5, Part::Validation), part(std::nullopt, Part::Validation));
  EXPECT_EQ(part(5, Part::Validation).size(), 20u);
  // Both parts together are all of the data.
  auto all = part(5, Part::Train);
  all.merge(part(5, Part::Validation));
  auto ordered = part(std::nullopt, Part::Train);
  ordered.merge(part(std::nullopt, Part::Validation));
  EXPECT_EQ(all, ordered);
}

TEST(Order, IsAFunctionOfSeedAndStep) {
  TokenizerPtr tokenizer = digits();
  std::unique_ptr<TextDataset> data = open(sums(100), *tokenizer, 9, 13);
  TrainSpec train = recipe(7, 9);
  auto at = [&](uint64_t seed, std::vector<int64_t> steps) {
    DataOrder order(*data, train, seed);
    TokenRows batch(7, 9);
    const std::vector<int32_t> &tokens = batch.tokens();
    for (int64_t step : steps)
      order.fill(step, 0, batch);
    return tokens;
  };
  EXPECT_EQ(at(1, {0, 1, 2, 30, 31}), at(1, {31}));
  EXPECT_NE(at(1, {31}), at(2, {31}));
  EXPECT_NE(at(1, {31}), at(1, {32}));
}

TEST(Order, CountsTargetsThatMatter) {
  TokenizerPtr tokenizer = digits();
  std::unique_ptr<TextDataset> data = open(sums(100), *tokenizer, 9, 13);
  TrainSpec train = recipe(1, 9);
  train.shuffle = false;
  DataOrder order(*data, train, 1);
  order.setIgnored(13);
  TokenRows batch(1, 9);
  EXPECT_EQ(order.fill(0, 0, batch), 8); // 47+51=98.
  EXPECT_EQ(order.fill(1, 0, batch), 9); // 75+95=170.
  EXPECT_EQ(order.fill(2, 0, batch), 7); // 3+14=17.
}

TEST(Order, DrawsWindowsFromTheWholeTrainingText) {
  TemporaryFolder folder;
  std::string content;
  for (int i = 0; i < 100; ++i)
    content += static_cast<char>(' ' + i % 90);
  TokenizerPtr tokenizer = makeCharsTokenizer(content);
  std::unique_ptr<TextDataset> data =
      open(text(folder.write("a.txt", content), 0), *tokenizer, 4);
  TrainSpec train = recipe(8, 4);
  DataOrder order(*data, train, 1);
  TokenRows batch(8, 4);
  const std::vector<int32_t> &tokens = batch.tokens(),
                             &targets = batch.targets();
  std::set<int32_t> starts;
  for (int64_t step = 0; step < 300; ++step) {
    order.fill(step, 0, batch);
    for (int row = 0; row < 8; ++row) {
      starts.insert(tokens[row * 4]);
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(targets[row * 4 + i], tokens[row * 4 + i + 1]);
    }
  }
  EXPECT_EQ(starts.size(), 90u);
}

} // namespace
} // namespace tfm
