//===- Output.cpp - where a command writes its result ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Output.h"

#include "runtime/tokenizer/utf8.h"

#include "llvm/ADT/SmallString.h"
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
    bool same = false;
    if (input == "-" || output.empty() ||
        llvm::sys::fs::equivalent(output, input, same) || !same)
      continue;
    messages() << "tfmc: error: -o " << output << " would overwrite " << input
               << ", which this command reads: give another file\n";
    return true;
  }
  return false;
}

bool tfm::writeOutput(llvm::StringRef path, llvm::StringRef text) {
  bool toFile = !path.empty() && path != "-";
  std::error_code error;
  llvm::raw_fd_ostream os(toFile ? path : "-", error);
  if (!error) {
    os << text;
    os.flush();
    error = os.error();
    os.clear_error();
  }
  if (!error)
    return true;
  messages() << "tfmc: cannot write " << (toFile ? path : "to standard output")
             << ": " << error.message() << "\n";
  return false;
}

bool tfm::replaceFile(llvm::StringRef path, llvm::StringRef text) {
  llvm::SmallString<128> real, temporary;
  llvm::sys::fs::file_status status;
  int descriptor = -1;
  std::error_code error = llvm::sys::fs::real_path(path, real);
  if (!error)
    error = llvm::sys::fs::status(real, status);
  // A file that nobody may write to is not ours to replace.
  if (!error)
    error = llvm::sys::fs::access(real, llvm::sys::fs::AccessMode::Write);
  if (!error)
    error = llvm::sys::fs::createUniqueFile(real + ".%%%%%%.tmp", descriptor,
                                            temporary);
  if (!error) {
    llvm::raw_fd_ostream os(descriptor, /*shouldClose=*/true);
    os << text;
    os.close();
    error = os.error();
    os.clear_error();
    if (!error)
      error = llvm::sys::fs::setPermissions(temporary, status.permissions());
    if (!error)
      error = llvm::sys::fs::rename(temporary, real);
    if (error)
      (void)llvm::sys::fs::remove(temporary);
  }
  if (!error)
    return true;
  messages() << "tfmc: cannot write " << path << ": " << error.message()
             << "\n";
  return false;
}
