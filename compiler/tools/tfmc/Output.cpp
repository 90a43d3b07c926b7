//===- Output.cpp - where a command writes its result ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Output.h"

#include "compiler/driver/WriteFile.h"
#include "runtime/files/model_files.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/utf8.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace {

class Messages : public llvm::raw_ostream {
public:
  Messages() : raw_ostream(/*unbuffered=*/true) {}

private:
  void write_impl(const char *text, size_t size) override {
    llvm::errs() << tfm::printable({text, size});
  }
  uint64_t current_pos() const override { return llvm::errs().tell(); }
};

} // namespace

llvm::raw_ostream &tfm::messages() {
  static Messages stream;
  return stream;
}

bool tfm::isInput(llvm::StringRef output, llvm::ArrayRef<std::string> inputs) {
  for (const std::string &input : inputs) {
    if (input == "-" || output.empty())
      continue;
    // The runtime throws.
    try {
      if (!isReadOf(output.str(), input))
        continue;
      messages() << "tfmc: error: -o " << output << " would overwrite "
                 << (isSameFile(output.str(), input) ? "" : "a file of ")
                 << input << ", which this command reads: give another file\n";
    } catch (const InputError &error) {
      messages() << "tfmc: error: " << error.what() << "\n";
    }
    return true;
  }
  return false;
}

bool tfm::isModelFile(llvm::StringRef output) {
  if (!output.ends_with(".tfm") || !llvm::sys::fs::exists(output))
    return false;
  messages() << "tfmc: error: -o " << output
             << " would overwrite a file of a model: give another file\n";
  return true;
}

bool tfm::saysOther(const std::string &path, llvm::StringRef text) {
  // The runtime throws.
  try {
    if (path == "-" || !isRegularFile(path) ||
        readFile(path, "the file") == text)
      return false;
    messages() << "tfmc: error: " << path
               << " exists already, and says something else, which would be "
                  "lost: choose another place (-o), or pass --overwrite\n";
  } catch (const InputError &error) {
    messages() << "tfmc: error: " << error.what() << "\n";
  }
  return true;
}

bool tfm::writeOutput(llvm::StringRef path, llvm::StringRef text) {
  llvm::Error error = writeWhole(path.empty() ? "-" : path, text);
  if (!error)
    return true;
  messages() << "tfmc: error: " << llvm::toString(std::move(error)) << "\n";
  return false;
}
