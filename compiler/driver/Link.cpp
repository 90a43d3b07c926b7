//===- Link.cpp - linking object files ------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/Link.h"

#include "runtime/files/atomic_file.h"
#include "runtime/files/system_call.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <gnu/libc-version.h>
#include <list>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace tfm;

namespace {

llvm::Expected<std::string> findLinker() {
#ifdef TFM_MODEL_LINKER
  return TFM_MODEL_LINKER;
#endif
  for (llvm::StringRef name : {"c++", "g++", "clang++", "clang++-22"})
    if (llvm::ErrorOr<std::string> path = llvm::sys::findProgramByName(name))
      return *path;
  return llvm::createStringError("no C++ compiler found to link with: install "
                                 "g++ or clang, or use `--emit obj`");
}

/// Whether programs of this C library may have their relocations packed: those
/// before 2.36 would start them without.
bool knowsPackedRelocations() {
  unsigned major = 0, minor = 0;
  llvm::StringRef version = gnu_get_libc_version();
  return !version.consumeInteger(10, major) && version.consume_front(".") &&
         !version.consumeInteger(10, minor) &&
         std::pair(major, minor) >= std::pair(2u, 36u);
}

/// What has a compiler driver link with LLVM's linker, where it is installed:
/// that takes a third of the time of GNU's, and keeps functions that are the
/// same once.
std::vector<std::string> chooseLld() {
  for (llvm::StringRef name : {"ld.lld-22", "ld.lld"}) {
    llvm::ErrorOr<std::string> path = llvm::sys::findProgramByName(name);
    llvm::SmallString<128> real;
    if (!path || llvm::sys::fs::real_path(*path, real))
      continue;
    // Drivers look for it by this name alone.
    llvm::StringRef folder = llvm::sys::path::parent_path(real);
    if (!llvm::sys::fs::exists(folder + "/ld.lld"))
      continue;
    std::vector<std::string> options = {"-fuse-ld=lld", ("-B" + folder).str(),
                                        "-Wl,--icf=safe"};
    if (knowsPackedRelocations())
      options.push_back("-Wl,-z,pack-relative-relocs");
    return options;
  }
  return {};
}

/// Removes a file at the end of its scope. llvm::FileRemover looks at the file
/// first, and leaves it where it cannot.
class Remover {
public:
  explicit Remover(llvm::StringRef path) : path(path.str()) {}
  ~Remover() {
    (void)uninterrupted([&] { return unlink(path.c_str()); });
  }
  Remover(const Remover &) = delete;
  Remover &operator=(const Remover &) = delete;

private:
  std::string path;
};

llvm::Error noTemporary(std::error_code error) {
  llvm::SmallString<128> folder;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, folder);
  return llvm::createStringError("cannot create a temporary file in " + folder +
                                 ": " + error.message());
}

} // namespace

llvm::Expected<std::string> tfm::findRuntime() {
  static int anchor;
  std::string program = llvm::sys::fs::getMainExecutable("", &anchor);
  llvm::StringRef folder = llvm::sys::path::parent_path(program);
  for (llvm::StringRef place : {"lib", "../lib", "../lib/tfm"}) {
    llvm::SmallString<256> path(folder);
    llvm::sys::path::append(path, place, "libtfm_runtime.a");
    if (llvm::sys::fs::exists(path))
      return std::string(path);
  }
  return llvm::createStringError("cannot find libtfm_runtime.a in lib beside " +
                                 program);
}

llvm::Error tfm::link(std::vector<llvm::StringRef> objects,
                      llvm::StringRef output, bool shared) {
  llvm::Expected<std::string> linker = findLinker();
  if (!linker)
    return linker.takeError();
  std::list<Remover> removeObjects;
  std::vector<std::string> objectPaths;
  for (llvm::StringRef object : objects) {
    llvm::SmallString<128> path;
    int descriptor = -1;
    if (std::error_code error =
            llvm::sys::fs::createTemporaryFile("tfm", "o", descriptor, path))
      return noTemporary(error);
    removeObjects.emplace_back(path);
    objectPaths.push_back(path.str().str());
    llvm::raw_fd_ostream os(descriptor, /*shouldClose=*/true);
    os << object;
    os.close();
    std::error_code error = os.error();
    os.clear_error(); // else LLVM ends the process
    // A close that a signal interrupts has closed the file all the same.
    if (error && error != std::errc::interrupted)
      return llvm::createStringError("cannot write " + path + ": " +
                                     error.message());
  }
  llvm::SmallString<128> errorPath;
  if (std::error_code error =
          llvm::sys::fs::createTemporaryFile("tfm", "txt", errorPath))
    return noTemporary(error);
  Remover removeErrors(errorPath);

  // Of this process alone: others may build the same model.
  std::string target = throughLinks(output.str());
  std::string partial =
      (target + "." + llvm::Twine(llvm::sys::Process::getProcessId()) +
       ".partial")
          .str();
  Remover removePartial(partial); // unless it is renamed
  llvm::SmallVector<std::string> arguments = {*linker, "-o", partial};
  llvm::append_range(arguments, objectPaths);
  if (shared) {
    arguments.push_back("-shared");
  } else {
    llvm::Expected<std::string> runtime = findRuntime();
    if (!runtime)
      return runtime.takeError();
    llvm::append_range(arguments,
                       llvm::ArrayRef<std::string>{
                           *runtime, "-static-libstdc++", "-static-libgcc",
                           "-Wl,--gc-sections", "-s", "-lm", "-lpthread"});
  }
  llvm::append_range(arguments, chooseLld());
#ifdef TFM_MODEL_LINK_FLAG
  arguments.push_back(TFM_MODEL_LINK_FLAG);
#endif
  llvm::SmallVector<llvm::StringRef> references(arguments.begin(),
                                                arguments.end());
  std::optional<llvm::StringRef> redirects[] = {std::nullopt, std::nullopt,
                                                errorPath.str()};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(*linker, references, std::nullopt,
                                         redirects, 0, 0, &message);
  if (status != 0) {
    if (auto text = llvm::MemoryBuffer::getFile(errorPath))
      message += (*text)->getBuffer().str();
    // lld maps what it writes: where there is no room the kernel ends it.
    if (llvm::StringRef(message).contains("Bus error") ||
        llvm::StringRef(message).contains("No space left on device"))
      return llvm::createStringError(
          "the disk is full: free some space or choose another folder");
    return llvm::createStringError(*linker + " says:\n" + message);
  }
  if (std::error_code error = llvm::sys::fs::rename(partial, target))
    return llvm::createStringError(error.message());
  return llvm::Error::success();
}
