//===- Link.cpp - linking object files ------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/Link.h"

#include "compiler/driver/WorkFolder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <gnu/libc-version.h>
#include <string>
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
/// same, and strings at the end of others, once.
std::vector<std::string> chooseLld(Linked kind) {
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
                                        "-Wl,--icf=safe", "-Wl,-O2"};
    // A library needs no version of a C library, by which one that does not
    // know packed relocations could tell: it would use it without.
    if (kind == Linked::Program && knowsPackedRelocations())
      options.push_back("-Wl,-z,pack-relative-relocs");
    return options;
  }
  return {};
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
                      llvm::StringRef output, Linked kind) {
  llvm::Expected<std::string> linker = findLinker();
  if (!linker)
    return linker.takeError();
  auto folder = WorkFolder::create(output);
  if (!folder)
    return folder.takeError();
  const WorkFolder &work = **folder;
  std::vector<std::string> arguments = {*linker, "-o", work.file("linked")};
  for (auto [i, object] : llvm::enumerate(objects)) {
    std::string name = std::to_string(i) + ".o";
    if (llvm::Error error = work.write(name, object))
      return error;
    arguments.push_back(work.file(name));
  }
  if (kind == Linked::Library) {
    // Programs that are linked with it look for its name, not where it lay.
    std::string name = llvm::sys::path::filename(output).str();
    llvm::append_range(
        arguments,
        llvm::ArrayRef<std::string>{"-shared", "-Xlinker", "-soname=" + name});
  } else {
    llvm::Expected<std::string> runtime = findRuntime();
    if (!runtime)
      return runtime.takeError();
    llvm::append_range(arguments,
                       llvm::ArrayRef<std::string>{
                           *runtime, "-static-libstdc++", "-static-libgcc",
                           "-Wl,--gc-sections", "-s", "-lm", "-lpthread"});
  }
  if (kind == Linked::StaticProgram)
    arguments.push_back("-static");
  llvm::append_range(arguments, chooseLld(kind));
#ifdef TFM_MODEL_LINK_FLAG
  arguments.push_back(TFM_MODEL_LINK_FLAG);
#endif
  if (llvm::Error error = work.run(arguments))
    return error;
  return work.moveToTarget("linked");
}
