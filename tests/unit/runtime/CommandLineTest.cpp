//===- CommandLineTest.cpp - the commands of a linked binary ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Runs the toy model's binary as a user does.
//
//===----------------------------------------------------------------------===//

#include "runtime/formats/safetensors.h"
#include "runtime/support/float16.h"
#include "runtime/support/folder_lock.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace tfm::test {
namespace {

using nlohmann::json;

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

class CommandLine : public testing::Test {
protected:
  /// Runs `toy ARGUMENTS` in the test's own folder; `before` comes before it in
  /// the shell.
  Outcome run(const std::string &arguments, const std::string &before = "") {
    std::string command = "cd " + folder.path + " && " + before +
                          " " TFM_TOY " " + arguments + " >out.txt 2>err.txt";
    int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            contentOf(folder / "out.txt"), contentOf(folder / "err.txt")};
  }

  /// Expects a failure of the user's with one message that says all `parts`.
  void expectError(const std::string &arguments,
                   const std::vector<std::string> &parts,
                   const std::string &before = "") {
    Outcome outcome = run(arguments, before);
    EXPECT_EQ(outcome.code, 1) << arguments;
    EXPECT_NE(("\n" + outcome.err).find("\nerror: "), std::string::npos)
        << outcome.err;
    for (const std::string &part : parts)
      EXPECT_NE(outcome.err.find(part), std::string::npos)
          << arguments << ": " << outcome.err;
  }

  /// Starts a training that does not end by itself, and returns once it has
  /// left its first checkpoint in `run`. It writes to files of its own: `run`
  /// may go on meanwhile.
  pid_t startEndlessTraining(std::vector<const char *> more = {}) {
    std::vector<const char *> arguments = {
        TFM_TOY,   "train",      "--out",      "run",
        "--steps", "1000000000", "--overwrite"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.push_back(nullptr);
    pid_t child = fork();
    if (child == 0) {
      if (chdir(folder.path.c_str()) != 0 ||
          !freopen("endless-out.txt", "w", stdout) ||
          !freopen("endless-err.txt", "w", stderr))
        _exit(99);
      // Whoever runs the tests in the background may ignore it.
      std::signal(SIGINT, SIG_DFL);
      execv(TFM_TOY, const_cast<char **>(arguments.data()));
      _exit(99);
    }
    while (!std::filesystem::exists(folder / "run/state.json")) {
      // Where it has ended instead, nothing would ever come.
      siginfo_t ended{};
      waitid(P_PID, static_cast<id_t>(child), &ended,
             WEXITED | WNOHANG | WNOWAIT);
      if (ended.si_pid == child) {
        ADD_FAILURE() << "training ended: "
                      << contentOf(folder / "endless-err.txt");
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return child;
  }

  TemporaryFolder folder;
};

TEST_F(CommandLine, InfoIsTheDefault) {
  Outcome outcome = run("");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("parameters       210"), std::string::npos);
  EXPECT_EQ(run("info").out, outcome.out);
  json info = json::parse(run("info --json").out);
  EXPECT_EQ(info.at("parameters").at("total"), 210);
  EXPECT_EQ(info.at("hyperparameters").at("vocab"), 14);
}

// What the machine can do is measured in the same run, and every function is
// compared with it.
TEST_F(CommandLine, BenchComparesWithTheMachine) {
  Outcome outcome = run("bench --threads 1");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("of multiply-adds (peak)"), std::string::npos)
      << outcome.out;
  json answer = json::parse(run("bench --json --threads 1").out);
  EXPECT_GT(answer.at("peak_gflops"), 0);
  EXPECT_GT(answer.at("memory_gbs"), 0);
  EXPECT_GT(answer.at("reading_gbs"), 0);
  for (const json &function : answer.at("functions"))
    EXPECT_TRUE(function.at("of") == "peak" || function.at("of") == "memory");
}

// The listing, the encodings and the questions of the published notebook.
TEST_F(CommandLine, DataShowsWhatTrainingSees) {
  json data = json::parse(run("data --json --count 3").out);
  json sizes = {data.at("train"), data.at("validation"), data.at("vocabulary"),
                data.at("sequence")};
  EXPECT_EQ(sizes, json({1800, 200, 14, 9}));
  ASSERT_EQ(data.at("rows").size(), 3u);
  const json &third = data.at("rows").at(2);
  EXPECT_EQ(third.at("text"), "3+14=17.##");
  EXPECT_EQ(third.at("tokens"), json({3, 10, 1, 4, 11, 1, 7, 12, 13}));
  EXPECT_EQ(third.at("targets"), json({10, 1, 4, 11, 1, 7, 12, 13, 13}));
  EXPECT_EQ(third.at("prompt"), "3+14=");
  EXPECT_EQ(third.at("answer"), "17.");

  Outcome outcome = run("data --count 1");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "data        sums, 2000 examples of 9 tokens; 14 tokens in the "
            "vocabulary\ntrain       1800\nvalidation  200\n"
            "\n\"47+51=98.#\"\n  tokens   4 7 10 5 1 11 9 8 12\n"
            "  targets  7 10 5 1 11 9 8 12 13\n  prompt   \"47+51=\"\n"
            "  answer   \"98.\"\n");
  // No more rows than there are; none of the other part.
  json validation =
      json::parse(run("data --part validation --count 999 --json").out);
  EXPECT_EQ(validation.at("rows").size(), 200u);
  EXPECT_EQ(json::parse(run("data --count 0 --json").out).at("rows").size(),
            0u);
}

TEST_F(CommandLine, DataOfAFile) {
  folder.write("text.txt", "1+1=2.\n3+4=7.\n5+5=10.\n");
  expectError("data --data text.txt", {"text.txt", "has no token"});
  folder.write("digits.txt", "1+1=2.3+4=7.5+5=10.6+6=12.");
  json data = json::parse(run("data --data digits.txt --json").out);
  EXPECT_EQ(data.at("data"), "text");
  EXPECT_EQ(data.at("train"), 2);
  EXPECT_EQ(data.at("rows").at(1).at("text"), "=7.5+5=10.");
  EXPECT_EQ(data.at("rows").at(1).at("prompt"), nullptr);
  // The end of the text is shown without what fills its window.
  data =
      json::parse(run("data --data digits.txt --part validation --json").out);
  EXPECT_EQ(data.at("rows").size(), 1u);
  EXPECT_EQ(data.at("rows").at(0).at("text"), "12.");
}

TEST_F(CommandLine, WrongUsageExitsWith2) {
  for (const char *arguments :
       {"--nonsense",
        "data --count x",
        "data --part test",
        "nonsense",
        "train --steps",
        "train --steps -3",
        "train --steps x",
        "train --threads 0",
        "train --log -",
        "train --profile -",
        "generate",
        "generate --weights x --top-p 2",
        "generate --weights x --prompt a --prompt-file b",
        "export --weights x",
        "export --weights x -o -",
        "logits --weights x -o -",
        "export --weights x -o y --dtype f64",
        "generate --weights x --logit-bias 3",
        "generate --weights x --logit-bias 3=x",
        "generate --weights x --logit-bias '[=3]'",
        "generate --weights x --logit-bias 3=1 4=1",
        "generate --weights x --logit-bias 3=inf",
        "generate --weights x --overflow x",
        "generate --weights x --stop a --stop '\xA9'",
        "generate --weights x -i --prompt a",
        "generate --weights x --prompts a --prompt a",
        "logits --weights x",
        "eval",
        "train generate",
        "train --resume x --seed 1",
        "train --resume x --init y"}) {
    Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_NE(outcome.err, "") << arguments;
  }
}

// A variable of the shell that is not set is not taken for an option that was
// not given.
TEST_F(CommandLine, EmptyPathsAreWrongUsage) {
  for (const char *arguments :
       {"train --data", "train --tokenizer", "train --out", "train --init",
        "train --resume", "train --log", "eval --weights", "eval --data",
        "data --data", "generate --weights", "generate --prompt-file",
        "logits --out", "export --out"})
    for (const char *empty : {" ''", "="}) {
      std::string option = std::strchr(arguments, '-');
      Outcome outcome = run(std::string(arguments) + empty);
      EXPECT_EQ(outcome.code, 2) << arguments << empty;
      EXPECT_NE(outcome.err.find(option), std::string::npos) << outcome.err;
      EXPECT_NE(outcome.err.find("not nothing"), std::string::npos)
          << outcome.err;
    }
  // Nor does it take what follows.
  EXPECT_NE(
      run("export --weights x --out= --dtype f16").err.find("not nothing"),
      std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "runs"));
}

// Numbers are taken as they are written or not at all.
TEST_F(CommandLine, OddNumbersAreWrongUsage) {
  const std::pair<const char *, const char *> cases[] = {
      {"generate --weights x --temperature nan", "0 or more, not nan"},
      {"generate --weights x --temperature inf",
       "must be finite and 0 or more, not inf"},
      {"generate --weights x --temperature -1", "must be 0 or more, not -1"},
      {"generate --weights x --repeat-penalty nan", "0.001 or more, not nan"},
      {"generate --weights x --repeat-penalty 0", "0.001 or more, not 0"},
      {"generate --weights x --top-p nan", "from 0 to 1, not nan"},
      {"generate --weights x --min-p nan", "from 0 to 1, not nan"},
      {"generate --weights x --typical-p nan", "from 0 to 1, not nan"},
      {"generate --weights x --logit-bias 3=nan", "not a number"},
      {"train --lr nan", "0 or more, not nan"},
      {"train --lr inf", "0 or more, not inf"},
      {"train --lr x", "expected a number, not x"},
      {"train --steps 1.5", "whole number of at least 1, not 1.5"},
      {"train --steps 99999999999999999999", "at most 4294967295"},
      {"train --seed 99999999999999999999", "at most 18446744073709551615"},
      {"train --seed -1", "whole number of at least 0, not -1"},
      {"train --threads 0", "whole number of at least 1, not 0"},
      {"generate --weights x --tokens 0", "whole number of at least 1, not 0"},
      {"generate --weights x --tokens abc", "of at least 1, not abc"},
      {"generate --weights x --tokens=", "of at least 1, not nothing"},
      {"generate --weights x --temperature=", "a number, not nothing"},
      {"generate --weights x --tokens 2 --tokens 3",
       "--tokens is given 2 times"},
      {"generate --weights x --tokens 9223372036854775807", "at most"},
      {"generate --weights x --tokens 99999999999999999999", "at most"},
      {"generate --weights x --seed 99999999999999999999", "at most"},
      {"generate --weights x --count 5000000000", "at most"},
      {"generate --weights x --top-k -1", "of at least 0, not -1"}};
  for (auto [arguments, words] : cases) {
    Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_NE(outcome.err.find(words), std::string::npos)
        << arguments << ": " << outcome.err;
  }
}

TEST_F(CommandLine, NamesTheCommandThatMayHaveBeenMeant) {
  Outcome outcome = run("genrate --weights run");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("there is no command `genrate`; there are info, "
                             "train, generate, "),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("\nDid you mean `generate`?\n"),
            std::string::npos);
  // Those that `info` lists: this model predicts nothing from arrays.
  std::string info = run("info").out;
  size_t begin = info.find("info, train, "), end = info.find(';', begin);
  ASSERT_NE(begin, std::string::npos) << info;
  std::string listed = info.substr(begin, end - begin);
  EXPECT_EQ(listed.find("predict"), std::string::npos) << listed;
  std::string unknown = run("xyz").err;
  EXPECT_NE(unknown.find("; there are " + listed + "\n"), std::string::npos)
      << unknown;
  EXPECT_EQ(unknown.find("Did you mean"), std::string::npos);
  EXPECT_NE(run("info one two").err.find("did not expect one two\n"),
            std::string::npos)
      << run("info one two").err;
}

TEST_F(CommandLine, NamesTheOptionThatMayHaveBeenMeant) {
  auto expectHelp = [&](const std::string &arguments, const std::string &what,
                        const std::string &help) {
    Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_NE(outcome.err.find(": " + what + "\n" + help + "Run `"),
              std::string::npos)
        << arguments << ": " << outcome.err;
  };
  expectHelp("train --treads 2", "did not expect --treads 2",
             "Did you mean `--threads`?\n");
  expectHelp("train --step=2", "did not expect --step=2",
             "Did you mean `--steps`?\n");
  expectHelp("generate --weights run --temp 1", "did not expect --temp 1",
             "Did you mean `--temperature`?\n");
  expectHelp("generate --weights run --top_k 1", "did not expect --top_k 1",
             "Did you mean `--top-k`?\n");
  // What is missing was given under another name.
  expectHelp("eval --weight run", "did not expect --weight",
             "Did you mean `--weights`?\n");
  expectHelp("--steps 3 train", "did not expect --steps 3",
             "`--steps` is an option of `train`, behind which it stands.\n");
  expectHelp("train --greedy", "did not expect --greedy",
             "`--greedy` is an option of `generate`.\n");
  expectHelp("eval run", "--weights is required",
             "Did you mean `--weights run`?\n");
  expectHelp("eval --weights", "--weights needs a value", "");
  expectHelp("export -o F", "--weights is required, or --seed", "");
  expectHelp("train --steps 0 extra",
             "--steps: must be a whole number of at least 1, not 0", "");
  expectHelp("data --part validate",
             "--part: must be one of train, validation, not validate",
             "Did you mean `validation`?\n");
  expectHelp("export --weights W -o F --dtype half",
             "--dtype: must be one of bf16, f16, f32, int4, int8, not half",
             "Did you mean `f16`?\n");
  for (auto [block, key] :
       {std::pair("train", "batch"), std::pair("train", "stop"),
        std::pair("train", "shuffle"), std::pair("generate", "cache"),
        std::pair("generate", "batch")})
    EXPECT_NE(run(std::string(block) + " --" + key + " 4")
                  .err.find(std::string("The recipe has it: build with -D ") +
                            block + "." + key + "=...\n"),
              std::string::npos)
        << key;
  EXPECT_NE(
      run("train -D train.steps=4")
          .err.find("`-D` is for the build: tfmc build FILE -D NAME=VALUE\n"),
      std::string::npos);
  expectHelp("train --xyzzy", "did not expect --xyzzy", "");
  expectHelp("train now", "did not expect now", "");
}

TEST_F(CommandLine, HelpAndVersion) {
  EXPECT_NE(run("--help").out.find("generate"), std::string::npos);
  EXPECT_NE(run("train --help").out.find("--resume"), std::string::npos);
  EXPECT_EQ(run("--version").code, 0);
}

TEST_F(CommandLine, TrainsEvaluatesGeneratesExports) {
  Outcome trained = run("train --out run --threads 1");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.out.find("trained 300 steps"), std::string::npos);
  EXPECT_NE(trained.out.find("--- sample at step 150 ---\n12+"),
            std::string::npos);
  EXPECT_NE(trained.err.find("step 300: validation loss"), std::string::npos);

  json evaluation = json::parse(run("eval --weights run --json").out);
  EXPECT_LT(evaluation.at("loss"), 2.4);
  EXPECT_NEAR(std::exp(evaluation.at("loss").get<double>()),
              evaluation.at("perplexity").get<double>(), 1e-6);
  const json &match = evaluation.at("exact_match");
  EXPECT_EQ(match.at("prompts"), 200);
  EXPECT_EQ(match.at("seen").at("prompts").get<int>() +
                match.at("unseen").at("prompts").get<int>(),
            200);

  ASSERT_EQ(run("export --weights run -o w.safetensors").code, 0);
  Outcome first = run("generate --weights run --prompt 1+ --seed 7");
  EXPECT_EQ(first.code, 0);
  EXPECT_TRUE(first.out.starts_with("1+"));
  EXPECT_NE(first.err.find("tokens/s"), std::string::npos);
  EXPECT_EQ(run("generate --weights w.safetensors --prompt 1+ --seed 7").out,
            first.out);
  json text = json::parse(
      run("generate --weights run --prompt 1+ --seed 7 --json").out);
  EXPECT_EQ("1+" + text.at("text").get<std::string>() + "\n", first.out);
  Outcome two = run("generate --weights run --prompt 1+ --count 2 --greedy");
  size_t middle = two.out.find("---\n");
  ASSERT_NE(middle, std::string::npos);
  EXPECT_EQ(two.out.substr(0, middle), two.out.substr(middle + 4));
  folder.write("prompt.txt", "9+");
  EXPECT_TRUE(run("generate --weights run --prompt-file prompt.txt --tokens 2")
                  .out.starts_with("9+"));
  EXPECT_TRUE(
      run("generate --weights run --prompt-file - --tokens 2", "printf 9+ |")
          .out.starts_with("9+"));
}

TEST_F(CommandLine, GenerationOptions) {
  ASSERT_EQ(run("train --out run --steps 150").code, 0);
  auto text = [&](const std::string &options) {
    Outcome outcome =
        run("generate --weights run --prompt 1+ --json --seed 3 " + options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out.substr(0, outcome.out.find('\n')));
  };
  json free = text("--tokens 8");
  EXPECT_EQ(free.at("ids").size(), free.at("text").get<std::string>().size());
  // A forbidden token never comes, one with a large bias always.
  std::string first = free.at("text").get<std::string>().substr(0, 1);
  EXPECT_EQ(text("--tokens 8 --logit-bias " + first + "=-inf")
                .at("text")
                .get<std::string>()
                .find(first),
            std::string::npos);
  EXPECT_EQ(text("--tokens 3 --logit-bias '+=99'").at("text"), "+++");
  EXPECT_EQ(text("--tokens 3 --logit-bias 10=99").at("text"), "+++");
  // In quotes a number, too, is text.
  EXPECT_EQ(text("--tokens 3 --logit-bias '\"7\"=99'").at("text"), "777");
  EXPECT_EQ(text("--tokens 3 --logit-bias '\"+\"=99'").at("text"), "+++");
  // Brackets are text like any other.
  EXPECT_EQ(text("--tokens 3 --logit-bias 1=99 --stop '[1]'").at("text"),
            "111");
  EXPECT_EQ(text("--tokens 3 --logit-bias 1=99 --stop 11 --stop 2").at("text"),
            "");
  expectError("generate --weights run --logit-bias 14=1",
              {"no token 14", "0 to 13"});
  expectError("generate --weights run --logit-bias xy=1", {"\"xy\""});
  expectError("generate --weights run --logit-bias '\"10\"=1'",
              {"\"10\" is not one token"});
  // The same as token ids.
  Outcome ids = run("generate --weights run --ids --prompt '1 10' --tokens 3 "
                    "--logit-bias 10=99 --seed 3");
  EXPECT_EQ(ids.out, "1 10 10 10 10\n") << ids.err;
  expectError("generate --weights run --ids --prompt '1 14'",
              {"\"14\"", "0 to 13", "for words leave out --ids"});
  // A full context.
  expectError("generate --weights run --prompt 1+1+1+1+1+1+1+1+1+1+1+1+1+1 "
              "--overflow stop",
              {"fills the context", "--overflow slide"});
  Outcome slides = run("generate --weights run --tokens 2 --prompt "
                       "1+1+1+1+1+1+1+1+1+1+1+1+1+1");
  EXPECT_EQ(slides.code, 0);
  EXPECT_NE(slides.err.find("note: the prompt has 27 tokens"),
            std::string::npos)
      << slides.err;
}

TEST_F(CommandLine, SaysHowATextEnded) {
  ASSERT_EQ(run("train --out run --steps 20").code, 0);
  auto answer = [&](const std::string &options) {
    Outcome outcome =
        run("generate --weights run --prompt 1+ --seed 3 " + options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("s; ended "), std::string::npos) << outcome.err;
    json text = json::parse(
        run("generate --weights run --prompt 1+ --json " + options).out);
    EXPECT_GE(text.at("seconds"), text.at("first_token_seconds"));
    return std::tuple(text.at("ended").get<std::string>(), text.at("ended_by"),
                      text.at("text").get<std::string>(),
                      outcome.err.substr(outcome.err.find("ended")));
  };
  using Answer = std::tuple<std::string, json, std::string, std::string>;
  EXPECT_EQ(answer("--tokens 3 --logit-bias 1=99"),
            Answer("tokens", nullptr, "111", "ended by --tokens 3\n"));
  EXPECT_EQ(answer("--logit-bias 1=99 --stop 11 --stop 2"),
            Answer("stop", "11", "", "ended before the stop text \"11\"\n"));
  EXPECT_EQ(answer("--logit-bias .=99"),
            Answer("end token", ".", "", "ended by the end token \".\"\n"));
  EXPECT_EQ(answer("--logit-bias .=99 --ignore-eos --tokens 2"),
            Answer("tokens", nullptr, "..", "ended by --tokens 2\n"));
  EXPECT_EQ(answer("--logit-bias 1=99 --overflow stop"),
            Answer("context", nullptr, "1111111",
                   "ended with its context of 9 tokens full\n"));
}

TEST_F(CommandLine, SaysASeedThatNobodyHasNamed) {
  ASSERT_EQ(run("train --out run --steps 20").code, 0);
  std::string generate = "generate --weights run --prompt 1+ --tokens 5 ";
  for (const char *options : {"", "--count 3 "}) {
    Outcome random = run(generate + options);
    size_t at = random.err.find("; seed ");
    ASSERT_NE(at, std::string::npos) << random.err;
    std::string seed = random.err.substr(at + 7);
    // Once, at the end of the last line.
    EXPECT_EQ(seed.find_first_not_of("0123456789"), seed.size() - 1)
        << random.err;
    seed.pop_back();
    Outcome again = run(generate + options + "--seed " + seed);
    EXPECT_EQ(again.out, random.out);
    EXPECT_EQ(again.err.find("seed"), std::string::npos) << again.err;
  }
  json text = json::parse(run(generate + "--json").out);
  json again = json::parse(
      run(generate + "--json --seed " + text.at("seed").dump()).out);
  EXPECT_EQ(again.at("ids"), text.at("ids"));
  EXPECT_EQ(again.at("seed"), text.at("seed"));
  // Where nothing is drawn there is none.
  for (const char *options : {"--greedy", "--temperature 0"}) {
    EXPECT_EQ(run(generate + options).err.find("seed"), std::string::npos);
    EXPECT_EQ(json::parse(run(generate + "--json " + options).out).at("seed"),
              nullptr);
  }
}

TEST_F(CommandLine, GivesProbabilitiesOfTheModel) {
  ASSERT_EQ(run("train --out run --steps 20").code, 0);
  std::string options = "generate --weights run --prompt 1+ --tokens 3 --seed "
                        "3 --temperature 5 --json";
  json text = json::parse(run(options + " --logprobs 14").out);
  const json &all = text.at("logprobs");
  ASSERT_EQ(all.size(), 3u);
  std::string spelled;
  for (size_t i = 0; i < 3; ++i) {
    const json &token = all[i];
    EXPECT_EQ(token.at("id"), text.at("ids")[i]);
    spelled += token.at("text").get<std::string>();
    double sum = 0, before = 0;
    ASSERT_EQ(token.at("best").size(), 14u);
    for (const json &best : token.at("best")) {
      EXPECT_LE(best.at("logprob"), before);
      before = best.at("logprob");
      sum += std::exp(before);
      if (best.at("id") == token.at("id")) {
        EXPECT_EQ(best.at("logprob"), token.at("logprob"));
      }
    }
    EXPECT_NEAR(sum, 1, 1e-9);
  }
  EXPECT_EQ(json(spelled), text.at("text"));
  json own = json::parse(run(options + " --logprobs 0").out).at("logprobs");
  EXPECT_TRUE(own[0].at("best").empty());
  EXPECT_EQ(own[2].at("logprob"), all[2].at("logprob"));
  EXPECT_EQ(run("generate --weights run --logprobs 1").code, 2);
}

TEST_F(CommandLine, ContinuesThePromptsOfAFile) {
  ASSERT_EQ(run("train --out run --steps 20").code, 0);
  std::string generate = "generate --weights run --tokens 3 --seed 5 ";
  folder.write("p.txt", "1+\r\n2+\n\n\\n\nx+1\n1+1+1+1+1+1\n3+");
  Outcome plain =
      run(generate + "--logit-bias 1=99 --overflow stop --prompts p.txt");
  EXPECT_EQ(plain.code, 1);
  EXPECT_EQ(plain.out, "1+111\n---\n2+111\n---\n3+111\n");
  for (const char *part :
       {"error: p.txt:3: this line is empty",
        "error: p.txt:4: ", "error: p.txt:5: ", "'x'",
        "error: p.txt:6: the prompt has 11 tokens and fills the context of 9",
        "\n3 texts, 9 tokens in ", "tokens/s\nerror: 4 of 7 prompts could not"})
    EXPECT_NE(plain.err.find(part), std::string::npos) << plain.err;
  // The same texts as one by one; numbers count lines that are wrong.
  auto lines = [](const std::string &out) {
    std::vector<json> all;
    std::istringstream stream(out);
    for (std::string line; std::getline(stream, line);)
      all.push_back(json::parse(line));
    return all;
  };
  std::string jsonl = "\xEF\xBB\xBF{\"prompt\": \"1+\", \"id\": 7}\n"
                      "{\"prompt\": 1}\n[1]\n{\"promt\": \"\"}\n"
                      "{\"prompt\": \"2+\"}\n{\"prompt\": \"2\n{]\n"
                      "{\"prompt\": \"1\", \"id\": -1e999}\n"
                      "{\"messages\": []}\n";
  folder.write("p.jsonl", jsonl);
  Outcome many = run(generate + "--count 2 --json --prompts p.jsonl");
  EXPECT_EQ(many.code, 1);
  for (const char *part :
       {"p.jsonl:2: the \"prompt\" of this object is no text",
        "p.jsonl:3: this line is no JSON object",
        "p.jsonl:4: this object has no \"prompt\"",
        "p.jsonl:6: this line is no JSON, as all lines are where the first one "
        "begins with {: it ends too early",
        "p.jsonl:7: this line is no JSON, as all lines are where the first one "
        "begins with {: it goes wrong at character 2",
        "p.jsonl:8: this line is no JSON, as all lines are where the first one "
        "begins with {: a number in it is too large",
        "p.jsonl:9: this object has \"messages\", which are read with --chat, "
        "and no \"prompt\"",
        "7 of 9 prompts"})
    EXPECT_NE(many.err.find(part), std::string::npos) << many.err;
  std::vector<json> texts = lines(many.out);
  ASSERT_EQ(texts.size(), 18u);
  // Those of wrong lines come first.
  for (const json &text : std::span(texts).first(14)) {
    EXPECT_EQ(text.at("ended"), "failed");
    std::string line =
        "p.jsonl:" + std::to_string(text.at("index").get<int>() / 2 + 1) + ": ";
    EXPECT_NE(text.at("ended_by").get<std::string>().find(line),
              std::string::npos)
        << text;
  }
  texts.erase(texts.begin(), texts.begin() + 14);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(texts[i].at("index"), std::vector<int>({0, 1, 8, 9})[i]);
    EXPECT_EQ(texts[i].at("prompt"), json(i < 2 ? "1+" : "2+"));
  }
  std::vector<json> first =
      lines(run(generate + "--count 2 --json --prompt 1+").out);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(first[i].at("ids"), texts[i].at("ids"));
  EXPECT_NE(texts[0].at("ids"), texts[1].at("ids"));
  EXPECT_EQ(
      run(generate + "--greedy --prompts - --count 2", "printf '1+\\n' |").code,
      0);
  expectError(generate + "--prompts -", {"standard input has no prompts"},
              "printf '' |");
  expectError(generate + "--prompts -", {"standard input:1: "},
              "printf '1\\377\\n' |");
}

TEST_F(CommandLine, TalksLineByLine) {
  ASSERT_EQ(run("train --out run --steps 150").code, 0);
  std::string options = " --tokens 4 --logit-bias '+=99' --seed 3";
  Outcome talk =
      run("generate --weights run -i" + options, "printf '1+\\n2+\\n\\n' |");
  // An empty line goes on with the text before it.
  EXPECT_EQ(talk.out, "1+++++\n2+++++\n++++\n") << talk.err;
  EXPECT_EQ(run("generate --weights run -i", "printf 'xyz\\n' |").code, 1);
  EXPECT_EQ(run("generate --weights run -i", "printf '' |").code, 0);
}

TEST_F(CommandLine, WritesLogits) {
  ASSERT_EQ(run("train --out run --steps 20").code, 0);
  ASSERT_EQ(run("logits --weights run --prompt 1+2 -o l.safetensors").code, 0);
  EXPECT_NE(contentOf(folder / "l.safetensors").find("\"shape\":[3,14]"),
            std::string::npos);
  ASSERT_EQ(run("logits --weights run --ids --prompt '1 10 2' "
                "-o ids.safetensors")
                .code,
            0);
  EXPECT_EQ(contentOf(folder / "l.safetensors"),
            contentOf(folder / "ids.safetensors"));
  expectError("logits --weights run --prompt 1+1+1+1+1+1+1+1+1+1+1+1+1+1+1 "
              "-o x.safetensors",
              {"29 tokens", "shorten"});
  // Nothing that is read makes way for them.
  ASSERT_EQ(run("export --weights run -o w.safetensors").code, 0);
  std::string weights = contentOf(folder / "w.safetensors");
  std::filesystem::create_directory(folder / "own");
  std::filesystem::copy_file(folder / "run/tokenizer.json",
                             folder / "own/tokenizer.json");
  for (const char *file : {"own/chat_template.jinja", "generation_config.json"})
    std::ofstream(folder / file) << "{}";
  for (const char *out : {"./w.safetensors", "own/tokenizer.json",
                          "own/chat_template.jinja", "generation_config.json"})
    expectError(
        "logits --weights w.safetensors --tokenizer own --prompt 1 -o " +
            std::string(out),
        {std::string(out) + " is a file that this command reads"});
  expectError("train --overwrite --out other --init w.safetensors --profile "
              "w.safetensors",
              {"w.safetensors is a file that this training reads"});
  EXPECT_EQ(contentOf(folder / "w.safetensors"), weights);
}

TEST_F(CommandLine, BenchTimesEveryFunction) {
  json result = json::parse(run("bench --json --threads 2").out);
  EXPECT_EQ(result.at("threads"), 2);
  for (const char *name : {"train", "update", "evaluate", "forward"})
    EXPECT_GT(result.at("functions").at(name).at("milliseconds"), 0.0);
  EXPECT_GT(result.at("functions").at("train").at("tokens_per_second"), 0.0);
}

TEST_F(CommandLine, LogIsJsonLines) {
  ASSERT_EQ(run("train --out run --steps 150").code, 0);
  std::istringstream log(contentOf(folder / "run/log.jsonl"));
  std::string line;
  int64_t steps = 0, validations = 0, samples = 0;
  while (std::getline(log, line)) {
    json entry = json::parse(line);
    steps += entry.contains("loss");
    validations += entry.contains("validation_loss");
    samples += entry.contains("sample");
  }
  EXPECT_EQ(steps, 150);
  EXPECT_EQ(validations, 2); // at 100 and at the end
  EXPECT_EQ(samples, 1);
}

TEST_F(CommandLine, SameBitsForAnyNumberOfThreadsAndAfterResume) {
  ASSERT_EQ(run("train --out one --threads 1").code, 0);
  ASSERT_EQ(run("train --out two --threads 2").code, 0);
  std::string weights = contentOf(folder / "one/model.safetensors");
  EXPECT_EQ(weights, contentOf(folder / "two/model.safetensors"));
  // The first part must plan for all 300 steps: the schedule depends on it.
  // In the foreground `timeout` waits for what it has killed, which holds the
  // folder until it has ended.
  Outcome killed =
      run("train --out three --threads 2", "timeout --foreground -s KILL 0.02");
  if (!std::filesystem::exists(folder / "three/state.json"))
    ASSERT_EQ(run("train --out three --overwrite").code, 0);
  else
    ASSERT_EQ(run("train --resume three").code, 0);
  EXPECT_EQ(weights, contentOf(folder / "three/model.safetensors"));
}

TEST_F(CommandLine, ACrashIsSaidToBeABug) {
  auto endOf = [&](int signal) {
    pid_t child = startEndlessTraining();
    kill(child, signal);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(endOf(SIGSEGV), 70);
  std::string err = contentOf(folder / "endless-err.txt");
  EXPECT_NE(err.find("internal error: invalid memory access\nThis is a bug in "
                     "tfm, not in your data."),
            std::string::npos)
      << err;
  // A binary for another processor.
  std::filesystem::remove_all(folder / "run");
  EXPECT_EQ(endOf(SIGILL), 1);
  err = contentOf(folder / "endless-err.txt");
  EXPECT_NE(err.find("error: this processor lacks an instruction"),
            std::string::npos)
      << err;
}

TEST_F(CommandLine, CtrlCSavesAndExits130) {
  pid_t child = startEndlessTraining();
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  std::string err = contentOf(folder / "endless-err.txt");
  EXPECT_NE(err.find("once more ends at once"), std::string::npos) << err;
  EXPECT_NE(err.find("--resume run"), std::string::npos) << err;
  int64_t step = json::parse(contentOf(folder / "run/state.json")).at("step");
  // Not only the regular checkpoints, which come every 100 steps: the last step
  // of all is saved, and the log ends with it.
  std::string log = contentOf(folder / "run/log.jsonl");
  EXPECT_NE(log.find("\"step\":" + std::to_string(step) + ","),
            std::string::npos);
  EXPECT_EQ(log.find("\"step\":" + std::to_string(step + 1) + ","),
            std::string::npos);
  EXPECT_EQ(run("train --resume run --steps " + std::to_string(step + 5)).code,
            0);
}

// Two trainings would mix their files.
TEST_F(CommandLine, AFolderIsForOneTraining) {
  pid_t child = startEndlessTraining();
  expectError("train --out run --overwrite --steps 3",
              {"another process is training in run: choose another --out"});
  expectError("train --resume run --steps 2000000000", {"another process"});
  // To look at it is no harm.
  EXPECT_EQ(run("generate --weights run --tokens 1").code, 0);
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(run("train --out run --overwrite --steps 3").code, 0);
  std::filesystem::create_directories(folder / "runs/toy");
  FolderLock lock(folder / "runs/toy");
  EXPECT_NE(run("train --steps 3").out.find("saved in runs/toy-2"),
            std::string::npos);
}

TEST_F(CommandLine, AKillAtAnyMomentLeavesAWholeCheckpoint) {
  for (int i = 0; i < 8; ++i) {
    std::filesystem::remove(folder / "run/state.json");
    pid_t child = startEndlessTraining();
    std::this_thread::sleep_for(std::chrono::microseconds(700 * i));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    json state = json::parse(contentOf(folder / "run/state.json"));
    EXPECT_GT(state.at("step"), 0);
    EXPECT_EQ(run("generate --weights run --prompt 1+ --tokens 1").code, 0);
    Outcome resumed =
        run("train --resume run --steps " +
            std::to_string(state.at("step").get<int64_t>() + 250));
    EXPECT_EQ(resumed.code, 0) << resumed.err;
  }
}

TEST_F(CommandLine, BadInputNamesTheFileAndTheFix) {
  ASSERT_EQ(run("train --out run --steps 20").code, 0);
  std::string weights = contentOf(folder / "run/model.safetensors");

  expectError("train --out run", {"run already holds a run", "--resume run"});
  // What is to be typed is in quotes where a shell needs them.
  std::filesystem::copy(folder / "run", folder / "my;run");
  expectError("train --out 'my;run'",
              {"my;run already holds a run", "--resume 'my;run'"});
  expectError("train --resume nowhere", {"nowhere"});
  folder.write("half.safetensors", weights.substr(0, weights.size() / 2));
  expectError("generate --weights half.safetensors", {"half.safetensors"});
  expectError("generate --weights nowhere", {"nowhere"});
  expectError("generate --weights .", {"model.safetensors"});
  expectError("generate --weights run --prompt xyz",
              {"the prompt", "'x'", "text had that the model was built with"});
  expectError("generate --weights run --prompt-file none.txt", {"none.txt"});
  folder.write("invalid.txt", "1+\xff");
  expectError("generate --weights run --prompt-file invalid.txt",
              {"invalid.txt", "not UTF-8"});
  // Nothing to begin with is no error.
  for (const char *empty : {"--prompt ''", "--prompt="})
    EXPECT_EQ(
        run(std::string("generate --weights run ") + empty + " --tokens 2")
            .code,
        0);
  // A run knows its own tokenizer; weights alone take what lies beside them.
  std::filesystem::create_directory(folder / "other");
  folder.write("other/model.safetensors", weights);
  folder.write("other/tokenizer.json", "{");
  expectError("generate --weights other",
              {"other/tokenizer.json is damaged", "--tokenizer"});
  ASSERT_EQ(
      run("export --weights run -o other/model.safetensors --overwrite").code,
      0);
  expectError("generate --weights other", {"other/tokenizer.json"});
  folder.write("other/tokenizer.json",
               R"({"model": {"type": "BPE", "vocab": {"a": 0}}})");
  expectError("generate --weights other", {"other/tokenizer.json", "merges"});
  folder.write("other/tokenizer.json",
               R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}})");
  expectError("generate --weights other",
              {"other/tokenizer.json has 1 tokens", "--tokenizer"});
  expectError("generate --weights run --tokenizer .", {"no tokenizer in ."});
  folder.write("empty.txt", "");
  folder.write("short.txt", "1+1");
  folder.write("letters.txt", std::string(500, 'q'));
  expectError("train --data empty.txt --out a", {"empty.txt", "empty"});
  expectError("train --data short.txt --out a", {"short.txt", "too short"});
  expectError("train --data letters.txt --out a",
              {"letters.txt", "'q'", "in its `data` and build again"});
  expectError("train --data nowhere.txt --out a", {"nowhere.txt", "--data"});
  expectError("eval --weights run --data empty.txt", {"empty.txt"});
  folder.write("bad.json", "{");
  expectError("train --tokenizer bad.json --out a", {"bad.json"});
  expectError("train --init half.safetensors --out a", {"half.safetensors"});
  expectError("train --out /dev/null/x", {"/dev/null/x"});
  folder.write("damaged/state.json", "");
  std::filesystem::create_directory(folder / "damaged");
  folder.write("damaged/state.json", "{");
  folder.write("damaged/model.safetensors", weights);
  expectError("train --resume damaged",
              {"damaged holds no checkpoint (optimizer.safetensors is missing)",
               "--init damaged"});
  folder.write("damaged/optimizer.safetensors", weights);
  expectError("train --resume damaged", {"damaged/state.json", "--init"});
  std::filesystem::remove(folder / "damaged/model.safetensors");
  expectError("train --resume damaged",
              {"damaged holds no checkpoint (model.safetensors is missing)\n"});
  std::filesystem::remove(folder / "damaged/state.json");
  expectError("train --resume damaged",
              {"(model.safetensors, state.json are missing)\n"});
}

// Weights are f32 in a run, and of the type that is asked for in a file of
// their own, which loads like any other.
TEST_F(CommandLine, ExportsTypesOf16Bits) {
  ASSERT_EQ(run("train --out run --steps 20").code, 0);
  ASSERT_EQ(run("export --weights run -o f32").code, 0);
  ASSERT_EQ(run("export --weights run -o named --dtype f32").code, 0);
  EXPECT_EQ(contentOf(folder / "named"), contentOf(folder / "f32"));
  SafetensorsReader exact(folder / "f32");
  std::vector<float> table(14 * 14), rounded(14 * 14);
  exact.readFloats("table", *exact.find("table"), table.data());
  for (std::string type : {"bf16", "f16"}) {
    ASSERT_EQ(run("export --weights run --dtype " + type + " -o " + type).code,
              0);
    SafetensorsReader file(folder / type);
    EXPECT_EQ(file.find("table")->dtype, type == "f16" ? "F16" : "BF16");
    file.readFloats("table", *file.find("table"), rounded.data());
    for (size_t i = 0; i < table.size(); ++i)
      EXPECT_EQ(rounded[i], type == "f16" ? fromHalf(toHalf(table[i]))
                                          : fromBFloat16(toBFloat16(table[i])));
    EXPECT_NE(rounded, table);
    // Those numbers are in every wider type, and come back from it.
    ASSERT_EQ(run("export --weights " + type + " -o wide").code, 0);
    ASSERT_EQ(run("export --weights wide --dtype " + type + " -o again").code,
              0);
    EXPECT_EQ(contentOf(folder / "again"), contentOf(folder / type));
    EXPECT_EQ(run("eval --weights " + type).code, 0);
    EXPECT_EQ(
        run("train --init " + type + " --out init-" + type + " --steps 2").code,
        0);
  }
}

// What a type cannot hold is no infinity in a file.
TEST_F(CommandLine, ExportsNothingThatATypeDoesNotReach) {
  std::vector<float> table(14 * 14, 0.5f), bias(14, -1.0f);
  auto write = [&](float value) {
    table[20] = value;
    AtomicFile file(folder / "w");
    writeSafetensors(file,
                     {hostTensor("table", {14, 14}, table.data()),
                      hostTensor("bias", {14}, bias.data())},
                     {});
    file.commit();
  };
  write(65504.0f);
  EXPECT_EQ(run("export --weights w -o half --dtype f16").code, 0);
  std::string before = contentOf(folder / "half");
  write(-65505.0f);
  expectError(
      "export --weights w -o half --dtype f16",
      {"error: w: the parameter table has the value -65505 (element 20), "
       "and f16 reaches to 65504: export it with --dtype bf16\n"});
  // Of all values, not of the first one that f16 does not reach to.
  bias[0] = 3.395e38f;
  write(-65505.0f);
  expectError("export --weights w -o half --dtype f16",
              {"the parameter table has the value -65505 (element 20), and f16 "
               "reaches to 65504: export it with --dtype f32\n"});
  bias[0] = -1.0f;
  write(-65505.0f);
  EXPECT_EQ(contentOf(folder / "half"), before);
  expectError("export --weights w -o new --dtype f16", {"65504"});
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
  // Nor in one that is within a folder.
  std::filesystem::create_directory(folder / "from");
  folder.write("from/config.json", "{}");
  folder.write("from/model.safetensors", contentOf(folder / "w"));
  expectError("export --weights from -o new/ --dtype f16", {"65504"});
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
  EXPECT_EQ(run("export --weights w -o new --dtype bf16").code, 0);
  write(3.4e38f);
  expectError(
      "export --weights w -o other --dtype bf16",
      {"error: w: the parameter table has the value 3.4e+38 (element 20), "
       "and bf16 reaches to "
       "3.3895314e+38: export it with --dtype f32\n"});
  EXPECT_EQ(run("export --weights w -o other").code, 0);
  write(NAN);
  for (const char *type : {"f32", "bf16", "f16"})
    expectError(std::string("export --weights w -o nan --dtype ") + type,
                {"the tensor table has the value nan"});
  EXPECT_FALSE(std::filesystem::exists(folder / "nan"));
}

// What was there stays where anything is wrong.
TEST_F(CommandLine, ExportsWholeFolders) {
  ASSERT_EQ(run("train --out run --steps 20").code, 0);
  std::filesystem::create_directory(folder / "from");
  folder.write("from/config.json", R"({"architectures": ["Toy"],
                     "quantization_config": {"quant_method": "fp8"}})");
  folder.write("from/vocab.json", "{}");
  ASSERT_EQ(run("export --weights run -o from/model.safetensors").code, 0);
  std::filesystem::copy(folder / "from/model.safetensors",
                        folder / "from/other.safetensors");
  const std::string weights = contentOf(folder / "from/model.safetensors");
  EXPECT_EQ(run("export --weights from -o to/ --dtype bf16").code, 0);
  const std::string exported = contentOf(folder / "to/model.safetensors");
  EXPECT_NE(exported, weights);
  EXPECT_EQ(json::parse(contentOf(folder / "to/config.json")).at("dtype"),
            "bfloat16");
  EXPECT_EQ(contentOf(folder / "to/config.json").find("quant"),
            std::string::npos);
  EXPECT_EQ(contentOf(folder / "to/vocab.json"), "{}");
  auto refuse = [&](const std::string &arguments, const std::string &why) {
    expectError("export --weights " + arguments, {why});
    EXPECT_EQ(contentOf(folder / "to/model.safetensors"), exported);
    EXPECT_EQ(contentOf(folder / "from/model.safetensors"), weights);
  };
  refuse("from/model.safetensors -o from/",
         "from/model.safetensors is what the weights come from");
  refuse("from/other.safetensors -o from",
         "from is where the weights come from");
  folder.write("to/tokenizer.json", "{}");
  refuse("from -o to", "to/tokenizer.json is of another model");
  std::filesystem::remove(folder / "to/tokenizer.json");
  std::filesystem::create_directory(folder / "from/tokenizer.json");
  refuse("from -o to", "from/tokenizer.json");
  std::filesystem::remove(folder / "from/tokenizer.json");
  std::filesystem::remove(folder / "to/config.json");
  std::filesystem::create_directory(folder / "to/config.json");
  refuse("from -o to", "to/config.json: it is a folder");
  std::filesystem::remove(folder / "to/config.json");
  EXPECT_EQ(run("export --weights from -o to").code, 0);
  EXPECT_NE(contentOf(folder / "to/model.safetensors"), exported);
  // A tokenizer of another's that stands there alone.
  std::filesystem::create_directory(folder / "mine");
  folder.write("mine/vocab.json", "mine");
  expectError("export --weights from -o mine",
              {"mine/vocab.json is not known to be written by `export`"});
  EXPECT_EQ(contentOf(folder / "mine/vocab.json"), "mine");
  EXPECT_EQ(run("export --weights from -o mine --overwrite").code, 0);
  EXPECT_EQ(contentOf(folder / "mine/vocab.json"), "{}");
}

TEST_F(CommandLine, NothingButTrainingWritesIntoARun) {
  ASSERT_EQ(run("train --out run --steps 20").code, 0);
  std::string weights = contentOf(folder / "run/model.safetensors");
  std::string log = contentOf(folder / "run/log.jsonl");
  expectError("export --weights run -o run/model.safetensors",
              {"run/model.safetensors is a file of the run in run"});
  expectError("export --weights run -o run/state.json", {"run/state.json"});
  expectError("logits --weights run --prompt 1 -o run/model.safetensors",
              {"run/model.safetensors"});
  expectError("train --steps 2 --out b --log run/log.jsonl", {"run/log.jsonl"});
  std::filesystem::create_symlink("run/model.safetensors", folder / "link");
  expectError("export --weights run -o link", {"link is a file of the run in"});
  std::filesystem::create_directory(folder / "run/best");
  expectError("export --weights run -o run/best/",
              {"run/best/model.safetensors is a file of the run in run/best"});
  std::filesystem::create_directory_symlink("run/best", folder / "best-of-it");
  expectError("export --weights run -o best-of-it/",
              {"best-of-it/model.safetensors is a file of the run in"});
  ASSERT_EQ(run("train --out . --steps 20").code, 0);
  expectError("export --weights run -o model.safetensors",
              {"model.safetensors is a file of the run in ."});
  ASSERT_EQ(run("export --weights run -o alone.safetensors").code, 0);
  std::string alone = contentOf(folder / "alone.safetensors");
  expectError("export --weights alone.safetensors -o ./alone.safetensors",
              {"./alone.safetensors is a file that this command reads"});
  EXPECT_EQ(contentOf(folder / "alone.safetensors"), alone);
  EXPECT_EQ(contentOf(folder / "run/model.safetensors"), weights);
  EXPECT_EQ(contentOf(folder / "run/log.jsonl"), log);
  // Steps and seconds are of the same steps.
  Outcome resumed = run("train --resume run --steps 30");
  EXPECT_NE(resumed.out.find("trained 10 steps (20 to 30) in "),
            std::string::npos)
      << resumed.out << resumed.err;
  // Weights from elsewhere do not become those of the run.
  std::filesystem::copy_file(folder / "alone.safetensors",
                             folder / "run/model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  expectError("train --resume run --steps 40",
              {"run/model.safetensors names no step", "--init run/model"});
}

// Whoever sets a run back names another folder: neither may the run make way
// for what comes of its own checkpoint, nor be mixed with it.
TEST_F(CommandLine, AnOlderCheckpointGoesOnInAnotherFolder) {
  ASSERT_EQ(run("train --out run --steps 250").code, 0);
  std::filesystem::create_directory(folder / "run/step-200");
  for (const char *name : {"model.safetensors", "optimizer.safetensors",
                           "state.json", "tokenizer.json", "log.jsonl"})
    std::filesystem::copy_file(folder / (std::string("run/") + name),
                               folder / (std::string("run/step-200/") + name));
  for (const char *out :
       {"", "--out run", "--out ./run/", "--out run/step-200"})
    for (const char *overwrite : {"", " --overwrite"})
      expectError(std::string("train --resume run/step-200 --steps 300 ") +
                      out + overwrite,
                  {"run/step-200 is an older checkpoint of the run in run"});
  for (const char *out : {"run/step-300", "run/best"})
    expectError(std::string("train --overwrite --steps 3 --out ") + out,
                {" is a place for checkpoints of the run in run"});
  for (const char *out : {"", " --out new"})
    expectError(std::string("train --resume run/best") + out,
                {"no checkpoint to go on from: begin with them with --init "
                 "run/best/model.safetensors\n"});
  EXPECT_EQ(run("train --resume run/step-200 --out new --steps 300").code, 0);
  EXPECT_EQ(run("train --resume run --steps 300").code, 0);
}

// A run makes way only once the log of the other one can be written.
TEST_F(CommandLine, ALogThatCannotBeOpenedCostsNothing) {
  ASSERT_EQ(run("train --out run --steps 20").code, 0);
  std::string weights = contentOf(folder / "run/model.safetensors");
  expectError("train --out run --overwrite --steps 3 --log /nonexistent/x",
              {"/nonexistent/x"});
  EXPECT_EQ(contentOf(folder / "run/model.safetensors"), weights);
  // Of two trainings that log to one file the second is refused.
  folder.write("log.jsonl", "");
  int file = open((folder / "log.jsonl").c_str(), O_RDWR);
  ASSERT_EQ(flock(file, LOCK_EX), 0);
  expectError("train --out other --steps 3 --log log.jsonl",
              {"another training logs to log.jsonl"});
  close(file);
}

// Nothing waits for the reader of a pipe that never comes.
TEST_F(CommandLine, APipeAsALogEndsAtOnceOrLater) {
  const std::string limit = "timeout 30";
  auto makePipe = [&](const char *name) {
    std::filesystem::remove(folder / name);
    EXPECT_EQ(mkfifo((folder / name).c_str(), 0666), 0);
  };
  makePipe("pipe");
  expectError("train --out other --steps 3 --log pipe",
              {"cannot write the log pipe", "nobody reads"}, limit);
  // A log is made anew; one to go on with is no pipe.
  std::filesystem::create_directory(folder / "run");
  makePipe("run/log.jsonl");
  EXPECT_EQ(run("train --out run --steps 3", limit).code, 0);
  EXPECT_TRUE(std::filesystem::is_regular_file(folder / "run/log.jsonl"));
  makePipe("run/log.jsonl");
  expectError("train --resume run --steps 6", {"run/log.jsonl"}, limit);
  // One that is opened and never read fills up: training goes on without it,
  // and still obeys.
  int reader = open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  std::filesystem::remove_all(folder / "run");
  pid_t child = startEndlessTraining({"--log", "pipe"});
  const auto isSaid = [&] {
    return contentOf(folder / "endless-err.txt").find("does not read") !=
           std::string::npos;
  };
  for (int i = 0; i < 300 && !isSaid(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(isSaid());
  kill(child, SIGTERM);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130) << status;
  close(reader);
}

// What is no log of a run is not replaced, or gone on with, by one.
TEST_F(CommandLine, ALogReplacesLogsOnly) {
  for (const char *text : {"{\"mine\": 1}\n", "step 1\n", "7\n", "{"}) {
    folder.write("keep.jsonl", text);
    expectError("train --steps 2 --out a --log keep.jsonl",
                {"keep.jsonl is no log of a run", "--overwrite"});
    EXPECT_EQ(contentOf(folder / "keep.jsonl"), text);
    EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  }
  EXPECT_EQ(run("train --steps 2 --out a --log keep.jsonl --overwrite").code,
            0);
  std::string log = contentOf(folder / "keep.jsonl");
  EXPECT_EQ(log.find("{\"step\":1,"), 0u);
  EXPECT_EQ(run("train --steps 2 --out b --log keep.jsonl").code, 0);
  EXPECT_EQ(run("train --resume b --steps 3 --log keep.jsonl").code, 0);
  EXPECT_EQ(contentOf(folder / "keep.jsonl").find("{\"step\":1,"), 0u);
  EXPECT_GT(contentOf(folder / "keep.jsonl").size(), log.size());
  folder.write("empty.jsonl", "");
  EXPECT_EQ(run("train --steps 2 --out c --log empty.jsonl").code, 0);
  EXPECT_EQ(run("train --steps 2 --out d --log /dev/null").code, 0);
  folder.write("keep.jsonl", "mine\n");
  expectError("train --resume b --steps 4 --log keep.jsonl",
              {"keep.jsonl is no log"});
  EXPECT_EQ(contentOf(folder / "keep.jsonl"), "mine\n");
}

TEST_F(CommandLine, BeginsWithAFolderOfAnyName) {
  const std::string name = "from\xff";
  std::filesystem::create_directory(folder / name);
  ASSERT_EQ(run("train --out run --steps 2").code, 0);
  std::filesystem::copy(folder / "run/model.safetensors",
                        folder / (name + "/model.safetensors"));
  EXPECT_EQ(run("train --init '" + name + "' --out next --steps 2").code, 0);
  EXPECT_EQ(run("train --resume next --steps 3").code, 0);
}

// Published weights are no run, and yet nothing to train over.
TEST_F(CommandLine, TrainingDoesNotReplaceWeightsUnasked) {
  ASSERT_EQ(run("train --out run --steps 20").code, 0);
  for (const char *name :
       {"model.safetensors", "model.safetensors.index.json"}) {
    std::filesystem::remove_all(folder / "published");
    std::filesystem::create_directory(folder / "published");
    folder.write(std::string("published/") + name, "weights");
    expectError("train --init run --out published --steps 20",
                {"published already holds weights", "--init published"});
    EXPECT_EQ(contentOf(folder / (std::string("published/") + name)),
              "weights");
  }
  EXPECT_EQ(run("train --out published --steps 20 --overwrite").code, 0);
}

TEST_F(CommandLine, ReplacesFilesAndNothingElse) {
  ASSERT_EQ(run("train --out run --steps 20").code, 0);
  EXPECT_EQ(run("export --weights run -o /dev/null").code, 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_EQ(run("export --weights run -o whole").code, 0);
  EXPECT_EQ(run("export --weights run -o /dev/stdout | cat >piped; #").code, 0);
  EXPECT_EQ(contentOf(folder / "piped"), contentOf(folder / "whole"));
  expectError("export --weights run -o run",
              {"run/model.safetensors is a file of the run in run"});
  expectError("export --weights run -o published/",
              {"what config.json is to say of Toy is unknown", "`family`"});
  EXPECT_FALSE(std::filesystem::exists(folder / "published"));
  // A link stays a link.
  folder.write("file", "");
  std::filesystem::create_symlink("file", folder / "link");
  EXPECT_EQ(run("export --weights run -o link").code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(contentOf(folder / "file"), contentOf(folder / "whole"));
  // Also one to where nothing is yet.
  std::filesystem::create_symlink("later", folder / "dangling");
  EXPECT_EQ(run("export --weights run -o dangling").code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "dangling"));
  EXPECT_EQ(contentOf(folder / "later"), contentOf(folder / "whole"));
}

// Who looks at a training may go away.
TEST_F(CommandLine, TrainingGoesOnWithoutAReader) {
  auto step = [&] {
    return json::parse(contentOf(folder / "run/state.json")).at("step");
  };
  EXPECT_EQ(run("train --out run >out.txt 2>/dev/full; exit $? #").code, 0);
  EXPECT_EQ(step(), 300);
  (void)run(
      "train --out run --overwrite --steps 310 2>&1 | head -c 1 >out.txt; #");
  EXPECT_EQ(step(), 310);
  Outcome closed =
      run("train --out run --overwrite --steps 320 >&- 2>err.txt; exit $? #");
  EXPECT_EQ(closed.code, 1);
  EXPECT_NE(closed.err.find("cannot write to standard output"),
            std::string::npos)
      << closed.err;
  EXPECT_EQ(step(), 320);
  EXPECT_EQ(run("generate --weights run --tokens 2").code, 0);
  EXPECT_EQ(run("bench --threads 1 >/dev/full 2>err.txt; exit $? #").code, 1);
}

TEST_F(CommandLine, MessagesHoldWhatTheyAreAboutSafely) {
  ASSERT_EQ(run("train --json --out 'odd\xff' --steps 2").code, 0);
  folder.write("prompt.txt", "1\x1b[31m");
  expectError("generate --weights 'odd\xff' --prompt-file prompt.txt",
              {"U+001B"});
  folder.write("prompt.txt", "1\x1b");
  folder.write("words.json", R"({"model": {"type": "WordLevel", "vocab":
      {"a": 0}}, "pre_tokenizer": {"type": "WhitespaceSplit"}})");
  Outcome words = run("generate --weights 'odd\xff' --tokenizer words.json "
                      "--prompt-file prompt.txt");
  EXPECT_EQ(words.code, 1);
  EXPECT_EQ(words.err.find('\x1b'), std::string::npos) << words.err;
}

#ifndef TFM_SANITIZED
TEST_F(CommandLine, TooManyThreadsAreTheUsersToChange) {
  ASSERT_EQ(run("train --out run --steps 2").code, 0);
  expectError("generate --weights run --threads 1024",
              {"cannot start 1024 threads", "--threads"}, "ulimit -v 500000;");
}

TEST_F(CommandLine, WhatTheMemoryCannotHoldIsNamed) {
  expectError("train --data /dev/zero --out a",
              {"the data file /dev/zero: it does not end within 122.1 MiB"},
              "ulimit -v 500000;");
  expectError("train --data - --out a", {"/dev/stdin: it does not end within"},
              "ulimit -v 500000; yes |");
  std::ofstream(folder / "large.txt") << "1+1=2.";
  std::filesystem::resize_file(folder / "large.txt", uint64_t{1} << 30);
  expectError("train --data large.txt --out a",
              {"the data file large.txt: it has 1.0 GiB, which 488.3 MiB of "
               "memory cannot hold"},
              "ulimit -v 500000;");
  // Beside the program.
  std::filesystem::resize_file(folder / "large.txt", uint64_t{487} << 20);
  expectError("train --data large.txt --out a",
              {"large.txt: it has 487.0 MiB, which 488.3 MiB of memory"},
              "ulimit -v 500000;");
  // The text finds a place, its tokens do not.
  folder.write("large.txt", std::string(size_t{200} << 20, '1'));
  expectError("train --data large.txt --out a",
              {"out of memory: the tokens of large.txt take more"},
              "ulimit -v 500000;");
}
#endif

TEST_F(CommandLine, DivergenceSaysWhatIsLeft) {
  Outcome first = run("train --out a --lr 1e30");
  EXPECT_EQ(first.code, 1);
  EXPECT_NE(first.err.find("training has diverged. Try a smaller learning rate "
                           "(--lr 0.0"),
            std::string::npos)
      << first.err;
  EXPECT_EQ(first.err.find("checkpoint"), std::string::npos) << first.err;
  EXPECT_NE(first.err.find("what was logged is in a/log.jsonl"),
            std::string::npos);
  // The folder is free for another attempt.
  EXPECT_EQ(run("train --out a --steps 20").code, 0);
  ASSERT_EQ(run("train --out run --steps 20").code, 0);
  std::string weights = contentOf(folder / "run/model.safetensors");
  expectError("train --resume run --steps 40 --lr 1e30",
              {"the checkpoint of step 20 in run is untouched: --resume run"});
  // Seen only by what comes after the last step.
  expectError("train --resume run --steps 21 --lr 1e300",
              {"the validation loss is nan at step 21", "--resume run"});
  expectError("train --resume run --out b --steps 21 --lr 1e300",
              {"the checkpoint in run is untouched"});
  EXPECT_TRUE(contentOf(folder / "run/model.safetensors") == weights);
  for (const char *log : {"run/log.jsonl", "b/log.jsonl"}) {
    std::istringstream lines(contentOf(folder / log));
    for (std::string line; std::getline(lines, line);)
      EXPECT_TRUE(json::accept(line)) << line;
  }
  EXPECT_EQ(run("train --resume run --steps 30").code, 0);
}

TEST_F(CommandLine, ADamagedOptimizerIsNotGoneOnFrom) {
  ASSERT_EQ(run("train --out run --steps 20").code, 0);
  std::string path = folder / "run/optimizer.safetensors";
  std::string whole = contentOf(path);
  for (const char *value : {"\x00\x00\xc0\x7f", "\x00\x00\x80\x7f"}) {
    std::string bytes = whole;
    bytes.replace(bytes.size() - 4, 4, value, 4);
    folder.write("run/optimizer.safetensors", bytes);
    expectError("train --resume run --steps 30",
                {"run/optimizer.safetensors is damaged: the tensor bias.v",
                 "--init run/model.safetensors"});
  }
  folder.write("run/optimizer.safetensors", whole);
  EXPECT_EQ(run("train --resume run --steps 30").code, 0);
}

TEST_F(CommandLine, AFullDiskIsNoticedAndNothingIsLost) {
  ASSERT_EQ(run("train --out run --steps 20").code, 0);
  std::string weights = contentOf(folder / "run/model.safetensors");
  // No file may grow beyond 1024 bytes: the optimizer's state takes more.
  expectError("train --resume run --steps 22",
              {"writes more than 1.6 KiB into a file of run",
               "the size limit of this process is 1.0 KiB (ulimit -f)"},
              "ulimit -f 2; trap '' XFSZ;");
  EXPECT_EQ(contentOf(folder / "run/model.safetensors"), weights);
  EXPECT_EQ(run("train --resume run --steps 22").code, 0);
  expectError("train --steps 2 --out b --log /dev/full", {"/dev/full"});
  Outcome full =
      run("generate --weights run --prompt 1 > /dev/full; exit $? #");
  EXPECT_EQ(full.code, 1);
}

TEST_F(CommandLine, ACompleteRunStaysAsItIs) {
  ASSERT_EQ(run("train --out run --steps 20").code, 0);
  std::string weights = contentOf(folder / "run/model.safetensors");
  Outcome again = run("train --resume run");
  EXPECT_EQ(again.code, 0);
  EXPECT_NE(again.out.find("complete after 20 steps"), std::string::npos);
  EXPECT_TRUE(
      json::parse(run("train --resume run --json").out).at("loss").is_null());
  EXPECT_EQ(contentOf(folder / "run/model.safetensors"), weights);
  // Nor is there anything to begin another one with.
  expectError("train --resume run --out new",
              {"with --steps 40; there is no run in new now\n"});
  ASSERT_EQ(run("train --out other --steps 10").code, 0);
  std::string others = contentOf(folder / "other/model.safetensors");
  expectError("train --resume run --out other --overwrite --steps 2",
              {"the run in run has 20 steps already, and --steps 2 are those "
               "of the whole run; what is in other stays as it is\n"});
  EXPECT_EQ(contentOf(folder / "other/model.safetensors"), others);
}

TEST_F(CommandLine, RunsGetTheirOwnFolders) {
  ASSERT_EQ(run("train --steps 10").code, 0);
  ASSERT_EQ(run("train --steps 10").code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "runs/toy/model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder / "runs/toy-2/model.safetensors"));
  // What is somebody's is none of theirs; what a kill has left is.
  folder.write("runs/toy-3", "a file");
  std::filesystem::create_symlink("nowhere", folder / "runs/toy-4");
  std::filesystem::create_directories(folder / "runs/toy-5");
  folder.write("runs/toy-5/notes.tmp", "mine");
  std::filesystem::create_directories(folder / "runs/toy-6/best");
  folder.write("runs/toy-6/log.jsonl", "");
  folder.write("runs/toy-6/tokenizer.json.0123abcd.tmp", "");
  EXPECT_NE(run("train --steps 10").out.find("saved in runs/toy-6"),
            std::string::npos);
}

#ifndef TFM_SANITIZED
TEST_F(CommandLine, IsSmall) {
  ASSERT_EQ(std::system(("strip -o " + (folder / "toy") + " " TFM_TOY).c_str()),
            0);
  EXPECT_LT(std::filesystem::file_size(folder / "toy"), 4'060'000u);
}
#endif

} // namespace
} // namespace tfm::test
