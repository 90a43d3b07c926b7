//===- MpiCommand.cpp - tfmc mpi ------------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "MpiSource.h"
#include "Output.h"

#include "compiler/driver/WriteFile.h"
#include "runtime/commands/usage.h"
#include "runtime/error.h"
#include "runtime/files/atomic_file.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>

using namespace tfm;

namespace {

/// A folder for temporary files, removed at the end of its scope.
class WorkFolder {
public:
  static llvm::Expected<WorkFolder> create() {
    llvm::SmallString<128> path;
    if (std::error_code error =
            llvm::sys::fs::createUniqueDirectory("tfm-mpi", path))
      return llvm::createStringError("cannot create a temporary folder: " +
                                     error.message());
    return WorkFolder(path);
  }
  WorkFolder(WorkFolder &&other) : path(std::move(other.path)) {
    other.path.clear();
  }
  ~WorkFolder() {
    if (!path.empty())
      llvm::sys::fs::remove_directories(path);
  }

  std::string file(llvm::StringRef name) const {
    llvm::SmallString<128> full(path);
    llvm::sys::path::append(full, name);
    return full.str().str();
  }
  llvm::Error write(llvm::StringRef name, llvm::StringRef text) const {
    std::error_code error;
    llvm::raw_fd_ostream os(file(name), error);
    if (!error) {
      os << text;
      os.close();
      error = os.error();
      os.clear_error(); // else LLVM ends the process
    }
    return error ? llvm::createStringError("cannot write " + file(name) + ": " +
                                           error.message())
                 : llvm::Error::success();
  }

private:
  explicit WorkFolder(llvm::StringRef path) : path(path.str()) {}
  std::string path;
};

/// Enough for the headers of a library, which are at its beginning.
constexpr uint64_t mostOfHeaders = 4096;

/// Whether a file that begins so is a library, whole or damaged.
bool beginsLibrary(llvm::StringRef bytes) {
  using namespace llvm::ELF;
  if (!bytes.starts_with(ElfMagic))
    return bytes.empty();
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header)
    return true;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.e_type != ET_DYN)
    return false;
  if (header.getFileClass() != ELFCLASS64 || header.e_phoff > bytes.size())
    return true;
  // Programs whose place is free are of that type, too, but name who loads
  // them.
  bytes = bytes.drop_front(header.e_phoff);
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (bytes.size() < sizeof segment)
      break;
    std::memcpy(&segment, bytes.data(), sizeof segment);
    if (segment.p_type == PT_INTERP)
      return false;
    bytes = bytes.drop_front(sizeof segment);
  }
  return true;
}

/// An error where a file holds something else than a library, which would be
/// lost.
llvm::Error requireLibrary(llvm::StringRef path) {
  // The runtime throws.
  try {
    if (!isRegularFile(path.str()))
      return llvm::Error::success();
    if (beginsLibrary(readFile(path.str(), "the library", mostOfHeaders)))
      return llvm::Error::success();
  } catch (const InputError &error) {
    return llvm::createStringError(error.what());
  }
  return llvm::createStringError(path +
                                 " is no library, and would be lost: name "
                                 "another file with -o");
}

/// Compiles libtfm_mpi.so by `compiler`, an mpicc.
llvm::Error compile(llvm::StringRef compiler, llvm::StringRef output) {
  if (isDevice(output))
    return llvm::createStringError(
        "cannot write " + output +
        ": what is compiled replaces what has its name, and this is no file");
  llvm::StringRef parent = llvm::sys::path::parent_path(output);
  if (!parent.empty() && !llvm::sys::fs::is_directory(parent))
    return llvm::createStringError("cannot write " + output +
                                   ": there is no folder " + parent);
  if (llvm::Error error = requireLibrary(output))
    return error;
  llvm::ErrorOr<std::string> program = llvm::sys::findProgramByName(compiler);
  if (!program)
    return llvm::createStringError(
        "there is no " + compiler +
        ": load the module of the cluster's MPI, install one (on Debian: "
        "libopenmpi-dev or libmpich-dev), or name its compiler with --mpicc");
  llvm::Expected<WorkFolder> folder = WorkFolder::create();
  if (!folder)
    return folder.takeError();
  if (llvm::Error error = folder->write("tfm_transport.h", transportHeader))
    return error;
  if (llvm::Error error = folder->write("tfm_mpi.c", mpiSource))
    return error;
  std::string target = throughLinks(output.str());
  // Of this process alone, and renamed when it is whole: a running job may
  // have loaded the one before.
  std::string partial =
      (target + "." + llvm::Twine(llvm::sys::Process::getProcessId()) +
       ".partial")
          .str();
  std::string source = folder->file("tfm_mpi.c"),
              problems = folder->file("problems.txt");
  std::optional<llvm::StringRef> redirects[] = {std::nullopt, problems,
                                                problems};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(
      *program,
      {*program, "-std=c11", "-O2", "-fPIC", "-shared", "-o", partial, source},
      std::nullopt, redirects, 0, 0, &message);
  if (status != 0) {
    if (auto text = llvm::MemoryBuffer::getFile(problems))
      message += (*text)->getBuffer().str();
    llvm::sys::fs::remove(partial);
    return llvm::createStringError(*program + " says:\n" + message);
  }
  if (std::error_code error = llvm::sys::fs::rename(partial, target)) {
    llvm::sys::fs::remove(partial);
    return llvm::createStringError("cannot write " + output + ": " +
                                   error.message());
  }
  return llvm::Error::success();
}

} // namespace

void tfm::addMpiCommand(CLI::App &app, int &status) {
  struct Arguments {
    std::string compiler = "mpicc";
    std::string output = "libtfm_mpi.so";
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App *command = app.add_subcommand(
      "mpi",
      "Compile libtfm_mpi.so, by which models under mpirun or srun share "
      "their work");
  command
      ->add_option("--mpicc", arguments->compiler,
                   "The MPI's C compiler (default: mpicc)")
      ->check(usage::path());
  command
      ->add_option("-o", arguments->output,
                   "Where it goes: beside the models that use it (default: "
                   "libtfm_mpi.so)")
      ->check(usage::fileOnDisk());
  command->callback([arguments, &status] {
    if (llvm::Error error = compile(arguments->compiler, arguments->output)) {
      messages() << "tfmc: error: " << llvm::toString(std::move(error)) << "\n";
      status = 1;
    }
  });
}
