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

#ifndef TFM_RUNTIME_USAGE_H
#define TFM_RUNTIME_USAGE_H

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>

#include <cstdlib>
#include <limits>
#include <string>

namespace tfm::usage {

/// A number from `low` (itself allowed or not) to `high`; `what` says so.
inline CLI::Validator number(double low, bool withLow, double high,
                             const std::string &what) {
  return CLI::Validator(
      [=](std::string &text) {
        char *end = nullptr;
        double value = std::strtod(text.c_str(), &end);
        if (end == text.c_str() || *end != '\0')
          return "expected a number, not " + text;
        bool holds = (withLow ? value >= low : value > low) && value <= high;
        return holds ? std::string() : "must be " + what + ", not " + text;
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

/// The commands of a program, separated by commas.
inline std::string commands(const CLI::App &app) {
  std::string names;
  for (const CLI::App *command :
       app.get_subcommands([](const CLI::App *) { return true; }))
    names += (names.empty() ? "" : ", ") + command->get_name();
  return names;
}

/// `tfmc report: --depth: must be 0 or more, not -1`, and where help is.
inline std::string failure(const CLI::App *app, const CLI::Error &error) {
  std::string command = app->get_name(), what = error.what();
  for (const CLI::App *chosen : app->get_subcommands())
    command += " " + chosen->get_name();
  if (what == "A subcommand is required")
    what = "name a command: " + commands(*app);
  return command + ": " + what + "\nRun `" + command +
         " --help` for more information.\n";
}

/// What is wrong where the first argument is no command; else empty.
inline std::string unknownCommand(const CLI::App &app, int argc, char **argv) {
  if (argc < 2 || argv[1][0] == '-' || argv[1][0] == '\0')
    return "";
  std::string word = argv[1];
  for (const CLI::App *command :
       app.get_subcommands([](const CLI::App *) { return true; }))
    if (command->get_name() == word)
      return "";
  return "there is no command `" + word + "`; there are " + commands(app);
}

} // namespace tfm::usage

#endif // TFM_RUNTIME_USAGE_H
