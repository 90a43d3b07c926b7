//===- NewCommand.cpp - tfmc new ------------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Output.h"
#include "Templates.h"

#include "compiler/frontend/format/Format.h"
#include "runtime/support/shell_word.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace tfm;

/// A template with the names of the new model filled in.
static std::string fill(llvm::StringRef text, llvm::StringRef name,
                        llvm::StringRef file, llvm::StringRef stem) {
  const std::pair<llvm::StringRef, llvm::StringRef> words[] = {
      {"@NAME@", name}, {"@FILE@", file}, {"@STEM@", stem}};
  std::string filled;
  while (!text.empty()) {
    size_t at = text.find('@');
    filled += text.take_front(at);
    text = text.substr(at);
    bool found = false;
    for (auto [word, value] : words)
      if (!found && text.consume_front(word)) {
        filled += value;
        found = true;
      }
    // Also the language's operator for matrix products.
    if (!found && text.consume_front("@"))
      filled += '@';
  }
  return filled;
}

/// Whether code of the template has this word, as a module that it makes or
/// takes from std.
static bool hasWord(llvm::StringRef text, llvm::StringRef word) {
  auto isLetter = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  while (!text.empty()) {
    text = text.drop_until(isLetter);
    llvm::StringRef next = text.take_while(isLetter);
    if (next == word)
      return true;
    text = text.drop_front(next.size());
  }
  return false;
}

/// The text in the one formatting: names have their own widths.
static std::string formatted(const std::string &text) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  std::optional<std::string> result =
      formatFile(sources, sources.add("template", text), diagnostics);
  if (!result)
    llvm::report_fatal_error("a template does not parse");
  return *result;
}

static int create(llvm::StringRef given, const std::string &like) {
  llvm::StringRef path = given;
  path.consume_back(".tfm");
  llvm::StringRef stem = llvm::sys::path::filename(path);
  bool isName =
      !stem.empty() && !llvm::isDigit(stem.front()) &&
      llvm::all_of(stem, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  if (!isName) {
    messages() << "tfmc: error: '" << stem
               << "' cannot name a model: use letters, digits and _, and "
                  "begin with a letter\n";
    return 1;
  }
  std::string file = (path + ".tfm").str();
  std::error_code error =
      llvm::sys::fs::access(file, llvm::sys::fs::AccessMode::Exist);
  if (error != std::errc::no_such_file_or_directory) {
    messages() << "tfmc: error: "
               << (error ? "cannot write " + file + ": " + error.message()
                         : file + " exists already; nothing was changed")
               << "\n";
    return 1;
  }
  std::string text = like == "llama" ? llamaTemplate : gpt2Template;
  std::string name = stem.str();
  name[0] = llvm::toUpper(name[0]);
  if (hasWord(text, name))
    name += "Model";
  text = fill(text, name, llvm::sys::path::filename(file), stem);
  if (!writeOutput(file, formatted(text)))
    return 1;
  messages() << "wrote " << file
             << "; put a text into input.txt beside it, then\n  tfmc build "
             << shellWord(file) << " -o " << stem << " && ./" << stem
             << " train\n";
  return 0;
}

void tfm::addNewCommand(CLI::App &app, int &status) {
  struct Arguments {
    std::string name;
    std::string like = "gpt2";
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App *command = app.add_subcommand(
      "new", "A commented file to start a model of your own from");
  command->add_option("NAME", arguments->name, "Writes NAME.tfm")->required();
  command->add_option("--like", arguments->like, "gpt2 (default) or llama")
      ->check(CLI::IsMember({"gpt2", "llama"}));
  command->callback([arguments, &status] {
    status = create(arguments->name, arguments->like);
  });
}
