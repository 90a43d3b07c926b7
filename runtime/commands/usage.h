//===- usage.h - wrong usage, said in words -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `tfmc` and the binaries that it writes say where their command lines
// are wrong.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_COMMANDS_USAGE_H
#define TFM_RUNTIME_COMMANDS_USAGE_H

#include "runtime/support/atomic_file.h"
#include "runtime/support/closest.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

namespace tfm::usage {

/// What was given, as messages say it.
inline std::string given(const std::string &text) {
  return text.empty() ? "nothing" : text;
}

/// A finite number from `low` (itself allowed or not) to `high`; `what` says
/// so.
inline CLI::Validator number(double low, bool withLow, double high,
                             const std::string &what) {
  return CLI::Validator(
      [=](std::string &text) {
        char *end = nullptr;
        double value = std::strtod(text.c_str(), &end);
        if (end == text.c_str() || *end != '\0')
          return "expected a number, not " + given(text);
        bool isFinite = std::isfinite(value);
        bool holds =
            isFinite && (withLow ? value >= low : value > low) && value <= high;
        return holds
                   ? std::string()
                   : std::string("must be ") + (isFinite ? "" : "finite and ") +
                         what + ", not " + text;
      },
      "");
}

inline constexpr double unbounded = std::numeric_limits<double>::infinity();

inline CLI::Validator positive() {
  return number(0, false, unbounded, "above 0");
}
inline CLI::Validator nonNegative() {
  return number(0, true, unbounded, "0 or more");
}
inline CLI::Validator between(int low, int high) {
  return number(low, true, high,
                "from " + std::to_string(low) + " to " + std::to_string(high));
}

/// A whole number in decimal from `low` to `high`: none is cut to fit. To be
/// given to `transform`.
inline CLI::Validator wholeNumber(uint64_t low, uint64_t high) {
  return CLI::Validator(
      [=](std::string &text) -> std::string {
        uint64_t value = 0;
        const char *last = text.data() + text.size();
        auto [end, error] = std::from_chars(text.data(), last, value);
        bool isNumber = end == last && !text.empty();
        if (isNumber && error == std::errc() && value >= low && value <= high) {
          // Zeros in front would make it octal.
          text = std::to_string(value);
          return "";
        }
        bool isLarge = isNumber && (error == std::errc::result_out_of_range ||
                                    value > high);
        return (isLarge ? "must be at most " + std::to_string(high)
                        : "must be a whole number of at least " +
                              std::to_string(low)) +
               ", not " + given(text);
      },
      "");
}

/// The name of a file or folder. An empty one is a variable of the shell that
/// was not set, and would pass for an option that was not given.
inline CLI::Validator path() {
  return CLI::Validator(
      [](std::string &text) -> std::string {
        return text.empty() ? "must name a file or folder, not nothing" : "";
      },
      "");
}

/// The name of a folder, or of a file instead of one. Slashes at its end go, as
/// messages name what is in it.
inline CLI::Validator folder() {
  return CLI::Validator(
             [](std::string &text) -> std::string {
               text = withoutSlashes(std::move(text));
               return "";
             },
             "") &
         path();
}

/// `PART=FILE`: of these the file.
inline CLI::Validator afterSign() {
  return CLI::Validator(
      [](std::string &text) -> std::string {
        return text.ends_with('=') ? "must name a file behind " + given(text)
                                   : "";
      },
      "");
}

/// A file that only makes sense on the disk.
inline CLI::Validator fileOnDisk() {
  return path() & CLI::Validator(
                      [](std::string &text) -> std::string {
                        return text == "-" ? "must name a file: this is not "
                                             "written to standard output"
                                           : "";
                      },
                      "");
}

/// What stands behind a program's name, from the last word to the first, as
/// CLI11 takes it. `--name=` becomes `--name` and an empty value, for which
/// CLI11 would take the next word.
inline std::vector<std::string> wordsOf(const CLI::App &app, int argc,
                                        char **argv) {
  auto takesValue = [&](const std::string &name) {
    auto has = [&](const CLI::App *command) {
      const CLI::Option *option = command->get_option_no_throw(name);
      return option && option->get_items_expected_min() > 0;
    };
    std::vector<const CLI::App *> commands =
        app.get_subcommands([](const CLI::App *) { return true; });
    return has(&app) || std::any_of(commands.begin(), commands.end(), has);
  };
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    bool isEmpty = word.starts_with("--") && word.ends_with("=") &&
                   word.find('=') + 1 == word.size();
    std::string name = word.substr(0, word.find('='));
    if (isEmpty && takesValue(name)) {
      words.push_back(name);
      words.emplace_back();
    } else {
      words.push_back(word);
    }
  }
  std::reverse(words.begin(), words.end());
  return words;
}

/// The names of a program's commands; those that its help leaves out only
/// `withHidden`.
inline std::vector<std::string> commandNames(const CLI::App &app,
                                             bool withHidden = false) {
  std::vector<std::string> names;
  for (const CLI::App *command : app.get_subcommands([&](const CLI::App *each) {
         return withHidden || !each->get_group().empty();
       }))
    names.push_back(command->get_name());
  return names;
}

/// Words with `separator` between them.
inline std::string join(const std::vector<std::string> &words,
                        const std::string &separator) {
  std::string all;
  for (const std::string &word : words)
    all += (all.empty() ? "" : separator) + word;
  return all;
}

/// `Did you mean `train`?` as a line of its own, or nothing.
inline std::string suggestion(const std::string &guess) {
  return guess.empty() ? "" : "Did you mean `" + guess + "`?\n";
}

/// An option of a command, with its dashes, that was most probably meant by one
/// that it has not; or empty.
inline std::string closestOption(const CLI::App &command,
                                 const std::vector<std::string> &words) {
  std::vector<std::string> names;
  for (const CLI::Option *option : command.get_options())
    for (const std::string &name : option->get_lnames())
      names.push_back(name);
  for (const std::string &word : words) {
    size_t begin = word.find_first_not_of('-');
    if (begin == 0 || begin == std::string::npos)
      continue;
    std::string name = word.substr(begin, word.find('=') - begin);
    std::string guess = closest(name, names);
    // What the command does have stands before it.
    if (!guess.empty() && guess != name)
      return "--" + guess;
  }
  return "";
}

/// The first of `words` that is an option of another command of `app` than
/// `chosen`, or stands before it, said in a line; or nothing.
inline std::string optionElsewhere(const CLI::App &app, const CLI::App &chosen,
                                   const std::vector<std::string> &words) {
  for (const std::string &word : words) {
    std::string name = word.substr(0, word.find('='));
    std::vector<std::string> commands;
    for (const CLI::App *command :
         app.get_subcommands([](const CLI::App *) { return true; }))
      if (name.starts_with("-") && command->get_option_no_throw(name))
        commands.push_back("`" + command->get_name() + "`");
    bool isBefore = &chosen == &app || chosen.get_option_no_throw(name);
    if (!commands.empty())
      return "`" + name + "` is an option of " + join(commands, ", ") +
             (isBefore ? ", behind which it stands.\n" : ".\n");
  }
  return "";
}

/// The one of `members` that others call `word`; empty where none is known.
inline std::string calledElsewhere(const std::string &word,
                                   const std::vector<std::string> &members) {
  // What others call it, and what it is called here.
  constexpr std::string_view names[][2] = {
      {"half", "f16"},      {"fp16", "f16"},    {"float16", "f16"},
      {"half", "bf16"},     {"fp16", "bf16"},   {"float16", "bf16"},
      {"bfloat16", "bf16"}, {"float32", "f32"}, {"fp32", "f32"},
      {"float", "f32"},     {"single", "f32"},  {"q8_0", "int8"},
      {"q4_0", "int4"},     {"q4_1", "int4"}};
  for (const auto &[other, own] : names)
    for (const std::string &member : members)
      if (word == other && member == own)
        return member;
  return "";
}

/// What CLI11 says of an option's value in plain words: of one that is missing,
/// that is there too often, or that is none of a few.
inline std::string plainWords(const std::string &what) {
  size_t missing = what.find(": 1 required ");
  if (missing != std::string::npos && what.ends_with(" missing"))
    return what.substr(0, missing) + " needs a value";
  constexpr std::string_view often = ": At Most 1 required but received ";
  if (size_t at = what.find(often); at != std::string::npos)
    return what.substr(0, at) + " is given " + what.substr(at + often.size()) +
           " times";
  size_t in = what.find(" not in {"), value = what.find(": ");
  if (in == std::string::npos || value == std::string::npos || value > in ||
      !what.ends_with("}"))
    return what;
  value += 2;
  std::string member = what.substr(value, in - value);
  std::vector<std::string> members = {""};
  for (char c : what.substr(in + 9, what.size() - in - 10)) {
    if (c == ',')
      members.emplace_back();
    else
      members.back() += c;
  }
  std::string guess = calledElsewhere(member, members);
  if (guess.empty())
    guess = closest(member, members);
  return what.substr(0, value) + "must be one of " + join(members, ", ") +
         ", not " + given(member) +
         (guess.empty() ? "" : "\nDid you mean `" + guess + "`?");
}

/// `tfmc report: --depth: must be 0 or more, not -1`, and where help is.
inline std::string failure(const CLI::App *app, const CLI::Error &error) {
  std::string command = app->get_name(), what = plainWords(error.what()), help;
  const CLI::App *last = app;
  for (const CLI::App *chosen : app->get_subcommands()) {
    command += " " + chosen->get_name();
    last = chosen;
  }
  std::vector<std::string> extras = app->remaining(/*recurse=*/true);
  if (what == "A subcommand is required")
    what = (extras.empty() ? "" : "did not expect " + extras.front() + "; ") +
           "name a command: " + join(commandNames(*app), ", ");
  bool isExtra =
      error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  // CLI11 lists them from the last to the first.
  if (isExtra)
    what = "did not expect " + join(extras, " ");
  std::string required = what.substr(0, what.find(" is required"));
  bool isMissing = required.size() < what.size();
  if (isExtra) {
    help = suggestion(closestOption(*last, extras));
  } else if (isMissing) {
    // What is said to be missing may have been given before the command, or
    // under another name.
    for (const std::string &word : extras)
      if (word.substr(0, word.find('=')) == required) {
        what = "did not expect " + word + " there";
        help = optionElsewhere(*app, *last, {word});
        break;
      } else if (closestOption(*last, {word}) == required) {
        what = "did not expect " + word;
        help = suggestion(required);
        break;
      }
  }
  if (const CLI::Option *format = last->get_option_no_throw("--format");
      isExtra && help.empty() && format)
    for (const std::string &word : extras)
      if (word == "--json" || word == "--html")
        help = suggestion("--format " + word.substr(2));
  if (isExtra && extras.front().starts_with("="))
    help = "No blanks stand around `=`: NAME=VALUE is one word.\n";
  if (isExtra && help.empty())
    help = optionElsewhere(*app, *last, extras);
  // `--width=64`, `width=64` and `--define width=64`.
  if (isExtra && help.empty() && last->get_option_no_throw("-D"))
    for (const std::string &word : extras) {
      std::string define =
          word.substr(std::min(word.find_first_not_of('-'), word.size()));
      size_t name = define.find('=');
      if (name != std::string::npos && name > 0 && name + 1 < define.size())
        help = suggestion("-D " + define);
    }
  // `generate run` for `generate --weights run`.
  if (isMissing && !isExtra && help.empty() && !extras.empty() &&
      required.starts_with("--") && !extras.front().starts_with("-"))
    help = suggestion(required + " " + extras.front());
  return command + ": " + what + "\n" + help + "Run `" + command +
         " --help` for more information.\n";
}

/// What is wrong where the first argument is no command, and which one may have
/// been meant; else empty.
inline std::string unknownCommand(const CLI::App &app, int argc, char **argv) {
  if (argc < 2 || argv[1][0] == '-' || argv[1][0] == '\0')
    return "";
  std::string word = argv[1];
  std::vector<std::string> names = commandNames(app, /*withHidden=*/true);
  if (std::find(names.begin(), names.end(), word) != names.end())
    return "";
  return app.get_name() + ": there is no command `" + word + "`; there are " +
         join(commandNames(app), ", ") + "\n" +
         suggestion(closest(word, names)) + "Run `" + app.get_name() +
         " --help` for more information.\n";
}

} // namespace tfm::usage

#endif // TFM_RUNTIME_COMMANDS_USAGE_H
