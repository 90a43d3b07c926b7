//===- Objects.cpp - machine code of a module, in parts -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/Objects.h"
#include "runtime/device/threads.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include <algorithm>
#include <functional>
#include <future>
#include <map>

using namespace tfm;

namespace {

/// A part has a target machine, passes and a context of its own to set up.
constexpr size_t fewestInstructions = 2000, mostParts = 8;

using Part = llvm::SmallPtrSet<const llvm::GlobalValue *, 32>;

} // namespace

/// Functions in parts that take about as long, the largest first, as many as
/// there are processors and as it pays; data are in the first part.
static std::vector<Part> partsOf(const llvm::Module &module) {
  std::multimap<size_t, const llvm::Function *, std::greater<>> functions;
  size_t all = 0;
  for (const llvm::Function &function : module)
    if (!function.isDeclaration()) {
      size_t size = function.getInstructionCount();
      functions.emplace(size, &function);
      all += size;
    }
  size_t processors =
      std::min<size_t>(static_cast<size_t>(availableProcessors()), mostParts);
  std::vector<Part> parts(
      std::clamp<size_t>(all / fewestInstructions, 1, processors));
  std::vector<size_t> sizes(parts.size());
  for (auto [size, function] : functions) {
    auto least = std::min_element(sizes.begin(), sizes.end());
    *least += size;
    parts[least - sizes.begin()].insert(function);
  }
  for (const llvm::GlobalVariable &variable : module.globals())
    parts.front().insert(&variable);
  return parts;
}

/// What is local to a module has a name for all of its parts, and for nobody
/// who uses what they are linked to.
static void shareLocals(llvm::Module &module) {
  for (llvm::GlobalValue &value : module.global_values())
    if (value.hasLocalLinkage()) {
      if (!value.hasName())
        value.setName("tfm.data");
      value.setLinkage(llvm::GlobalValue::ExternalLinkage);
      value.setVisibility(llvm::GlobalValue::HiddenVisibility);
    }
}

/// As bytes for a context of its own: none is for two threads.
static llvm::SmallVector<char> bitcodeOf(const llvm::Module &module,
                                         const Part &part) {
  llvm::ValueToValueMapTy map;
  std::unique_ptr<llvm::Module> copy =
      llvm::CloneModule(module, map, [&](const llvm::GlobalValue *value) {
        return part.contains(value);
      });
  llvm::SmallVector<char> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::WriteBitcodeToFile(*copy, out);
  return bytes;
}

static llvm::Error writePart(llvm::ArrayRef<char> bitcode,
                             const KernelTarget &target,
                             llvm::raw_pwrite_stream &out) {
  llvm::LLVMContext context;
  llvm::Expected<std::unique_ptr<llvm::Module>> part = llvm::parseBitcodeFile(
      {llvm::StringRef(bitcode.data(), bitcode.size()), "part"}, context);
  return part ? target.writeObject(**part, out) : part.takeError();
}

llvm::Expected<std::vector<llvm::SmallString<0>>>
tfm::writeObjects(llvm::Module &module, const KernelTarget &target) {
  std::vector<Part> parts = partsOf(module);
  if (parts.size() > 1)
    shareLocals(module);
  std::vector<llvm::SmallString<0>> objects(parts.size());
  std::vector<std::future<llvm::Error>> others;
  for (size_t i = 1; i < parts.size(); ++i)
    others.push_back(
        std::async(std::launch::async, [&target, &object = objects[i],
                                        bitcode = bitcodeOf(module, parts[i])] {
          llvm::raw_svector_ostream out(object);
          return writePart(bitcode, target, out);
        }));
  // This thread makes the first part, of the module itself.
  for (llvm::Function &function : module)
    if (!parts.front().contains(&function))
      function.deleteBody();
  llvm::raw_svector_ostream out(objects.front());
  llvm::Error error = target.writeObject(module, out);
  for (std::future<llvm::Error> &other : others)
    error = llvm::joinErrors(std::move(error), other.get());
  if (error)
    return error;
  return objects;
}
