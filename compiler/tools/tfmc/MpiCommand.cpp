//===- MpiCommand.cpp - tfmc mpi ------------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "MpiSource.h"
#include "Output.h"

#include "compiler/driver/WorkFolder.h"
#include "compiler/driver/WriteFile.h"
#include "runtime/commands/usage.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <cstring>

using namespace tfm;

namespace {

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
  auto cannotWrite = [&](llvm::Error error) {
    return llvm::createStringError("cannot write " + output + ": " +
                                   llvm::toString(std::move(error)));
  };
  auto folder = WorkFolder::create(output);
  if (!folder)
    return cannotWrite(folder.takeError());
  const WorkFolder &work = **folder;
  if (llvm::Error error = work.write("tfm_transport.h", transportHeader))
    return cannotWrite(std::move(error));
  if (llvm::Error error = work.write("tfm_mpi.c", mpiSource))
    return cannotWrite(std::move(error));
  if (llvm::Error error =
          work.run({*program, "-std=c11", "-O2", "-fPIC", "-shared", "-o",
                    work.file("compiled"), work.file("tfm_mpi.c")}))
    return llvm::createStringError(
        *program + " has made no library: " +
        llvm::StringRef(llvm::toString(std::move(error))).rtrim() +
        "\nWhere it is not an MPI's compiler, name that with --mpicc");
  if (!llvm::sys::fs::exists(work.file("compiled")))
    return llvm::createStringError(
        *program + " has made no library: name an MPI's compiler with --mpicc");
  // Renamed when it is whole: a running job may have loaded the one before.
  if (llvm::Error error = work.moveToTarget("compiled"))
    return cannotWrite(std::move(error));
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
