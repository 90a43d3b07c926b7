//===- ExplainCommand.cpp - tfmc explain ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Output.h"

#include "compiler/frontend/Diagnostics.h"

#include "llvm/Support/raw_ostream.h"

using namespace tfm;

/// `E0203`, `e203` or `203` as a number; 0 where it is none.
static ErrorCode parseCode(llvm::StringRef text) {
  text.consume_front_insensitive("E");
  ErrorCode code = 0;
  return text.getAsInteger(10, code) ? 0 : code;
}

/// Every code with the title of its page.
static int listCodes() {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (ErrorCode code : explainedCodes()) {
    llvm::StringRef title = explanation(code).split('\n').first;
    title.consume_front("# ");
    auto [number, words] = title.split(": ");
    os << number << "  " << words << "\n";
  }
  return writeOutput("", text) ? 0 : 1;
}

static int explain(const std::string &text) {
  llvm::StringRef page = explanation(parseCode(text));
  if (!page.empty())
    return writeOutput("", page) ? 0 : 1;
  messages() << "tfmc: error: no error has the code '" << text
             << "'; `tfmc explain` lists those that there are\n";
  return 1;
}

void tfm::addExplainCommand(CLI::App &app, int &status) {
  auto code = std::make_shared<std::string>();
  CLI::App *command = app.add_subcommand(
      "explain", "What an error code means, with an example");
  command->add_option("CODE", *code,
                      "A code such as E0203; without one all are listed");
  command->callback([code, &status] {
    status = code->empty() ? listCodes() : explain(*code);
  });
}
