//===- Assemble.cpp - machine code of GPUs, where there is an assembler ---===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/Assemble.h"

#include "runtime/support/temporaries.h"
#include "runtime/tfm_model.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include <list>
#include <optional>

using namespace tfm;

namespace {

/// A temporary file, removed at the end, and where a signal ends us; without a
/// path where there is none.
struct ScratchFile {
  explicit ScratchFile(llvm::StringRef ending)
      : error(llvm::sys::fs::createTemporaryFile("tfm", ending, path)) {
    if (error) {
      path.clear();
      return;
    }
    remover.setFile(path);
    temporary.emplace(path.str().str());
  }
  llvm::SmallString<128> path;
  std::error_code error;
  llvm::FileRemover remover;
  std::optional<Temporary> temporary;
};

/// Who hangs for so long makes nothing; the largest models take minutes.
constexpr unsigned mostSeconds = 900;

std::string firstLineOf(llvm::StringRef path) {
  auto text = llvm::MemoryBuffer::getFile(path);
  return text ? (*text)->getBuffer().split('\n').first.str() : "";
}

} // namespace

bool cuda::hasAssembler() {
  return static_cast<bool>(llvm::sys::findProgramByName("ptxas"));
}

bool cuda::isUnknownGpu(llvm::StringRef failure) {
  return failure.contains("is not defined for option");
}

std::vector<DeviceImage>
cuda::assemble(llvm::StringRef ptx, llvm::ArrayRef<CodeFor> gpus,
               std::map<std::string, std::string> &failures) {
  auto program = llvm::sys::findProgramByName("ptxas");
  if (!program)
    return {};
  ScratchFile source("ptx");
  std::error_code error = source.error;
  if (!error) {
    llvm::raw_fd_ostream file(source.path, error);
    file << ptx;
    file.close();
    if (file.has_error()) {
      error = file.error();
      file.clear_error();
    }
  }
  if (error) {
    for (const CodeFor &gpu : gpus)
      failures[gpu.sm] =
          "a temporary file cannot be written: " + error.message();
    return {};
  }
  struct Job {
    explicit Job(const CodeFor &gpu) : gpu(gpu) {}
    CodeFor gpu;
    ScratchFile made{"cubin"}, said{"log"};
    llvm::sys::ProcessInfo process;
  };
  // All at once.
  std::list<Job> jobs;
  for (const CodeFor &gpu : gpus) {
    Job &job = jobs.emplace_back(gpu);
    std::string capability = std::string("-arch=") + gpu.sm;
    llvm::StringRef said = job.said.path;
    std::optional<llvm::StringRef> redirected[] = {llvm::StringRef(), said,
                                                   said};
    job.process = llvm::sys::ExecuteNoWait(
        *program, {*program, capability, source.path, "-o", job.made.path},
        std::nullopt, redirected);
  }
  std::vector<DeviceImage> images;
  for (Job &job : jobs) {
    std::string why;
    if (job.process.Pid == llvm::sys::ProcessInfo::InvalidPid ||
        llvm::sys::Wait(job.process, mostSeconds, &why).ReturnCode != 0) {
      std::string said = firstLineOf(job.said.path);
      failures[job.gpu.sm] = why.empty() ? said : why;
      continue;
    }
    auto code = llvm::MemoryBuffer::getFile(job.made.path);
    if (code && !(*code)->getBuffer().empty())
      images.push_back({.kind = TFM_IMAGE_CUBIN,
                        .major = job.gpu.major,
                        .minor = 0,
                        .exact = job.gpu.exact,
                        .bytes = (*code)->getBuffer().str()});
  }
  return images;
}
