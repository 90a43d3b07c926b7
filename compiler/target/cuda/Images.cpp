//===- Images.cpp - kernels as the driver of GPUs loads them --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/Images.h"

#include "compiler/target/cuda/Assemble.h"
#include "compiler/target/cuda/BlockBuilder.h"
#include "compiler/target/cuda/Ptx.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/tfm_model.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include <list>
#include <map>

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;

namespace {

/// What some images are made of: kernels, for all GPUs from `sm` on, and
/// machine code for some of them.
struct Source {
  Source(const char *sm, tfm_image_part part, std::vector<CodeFor> gpus)
      : sm(sm), part(part), gpus(std::move(gpus)) {}

  const char *sm;
  tfm_image_part part;
  std::vector<CodeFor> gpus;
  llvm::LLVMContext context = {};
  std::unique_ptr<llvm::Module> module = nullptr;
  /// What could not be made, once the images are there, and why.
  std::map<std::string, std::string> failures = {};
  /// Made by another thread, for which all else lives long enough.
  std::future<llvm::Expected<std::vector<DeviceImage>>> images = {};
};

/// Kernels, the part of each.
class Parts {
public:
  explicit Parts(ModuleOp kernels) {
    for (Operation &op : *kernels.getBody())
      if (auto name = op.getAttrOfType<StringAttr>(hopperFormAttribute))
        withForm.insert(name.getValue());
  }
  tfm_image_part of(LLVM::LLVMFuncOp kernel) const {
    if (kernel->hasAttr(hopperFormAttribute))
      return TFM_PART_FORMS;
    return withForm.contains(kernel.getName()) ? TFM_PART_GENERAL
                                               : TFM_PART_COMMON;
  }
  bool hasForms() const { return !withForm.empty(); }

private:
  llvm::StringSet<> withForm;
};

} // namespace

static llvm::Expected<std::vector<DeviceImage>> imagesOf(Source &source) {
  llvm::Expected<std::string> ptx = toPtx(*source.module, source.sm);
  if (!ptx)
    return ptx.takeError();
  std::vector<DeviceImage> images;
  if (!source.gpus.empty())
    images = assemble(*ptx, source.gpus, source.failures);
  // Drivers find its end by the null byte.
  ptx->push_back('\0');
  bool ofForms = source.part == TFM_PART_FORMS;
  images.push_back({.kind = TFM_IMAGE_PTX,
                    .major = ofForms ? 9 : 8,
                    .minor = 0,
                    .exact = ofForms,
                    .bytes = std::move(*ptx)});
  for (DeviceImage &image : images)
    image.part = static_cast<int16_t>(source.part);
  return images;
}

FailureOr<ImagesInWork> cuda::beginImages(ModuleOp kernels, bool assembled) {
  Parts parts(kernels);
  auto sources = std::make_shared<std::list<Source>>();
  auto add = [&](const char *sm, tfm_image_part part,
                 std::vector<CodeFor> gpus) {
    sources->emplace_back(sm, part,
                          assembled ? std::move(gpus) : std::vector<CodeFor>());
  };
  // What takes longest first. GPUs that have the forms need no machine code of
  // the general part.
  add("sm_80", TFM_PART_COMMON, {{"sm_90", 9, false}, {"sm_80", 8, false}});
  if (parts.hasForms())
    add("sm_90a", TFM_PART_FORMS, {{"sm_90a", 9, true}});
  if (parts.hasForms() && assembled)
    add("sm_80", TFM_PART_GENERAL, {{"sm_80", 8, false}});
  for (Source &source : *sources) {
    bool ofForms = source.part == TFM_PART_FORMS;
    OwningOpRef<ModuleOp> some =
        extractKernels(kernels, [&](LLVM::LLVMFuncOp kernel) {
          tfm_image_part part = parts.of(kernel);
          return assembled ? part == source.part
                           : (part == TFM_PART_FORMS) == ofForms;
        });
    source.module = translateToNvptx(*some, source.context);
    if (!source.module)
      return failure();
    // From here on it has nothing in common with others.
    source.images =
        std::async(std::launch::async, [&source] { return imagesOf(source); });
  }
  return std::async(
      std::launch::deferred,
      [=]() mutable -> FailureOr<std::vector<DeviceImage>> {
        std::vector<DeviceImage> all;
        std::string error;
        for (Source &source : *sources)
          if (auto images = source.images.get())
            llvm::append_range(all, std::move(*images));
          else
            error = llvm::toString(images.takeError());
        if (!error.empty())
          return kernels.emitError() << error;
        std::map<std::string, std::string> failures;
        for (Source &source : *sources)
          failures.merge(source.failures);
        bool hasCode = llvm::any_of(all, [](const DeviceImage &image) {
          return image.kind == TFM_IMAGE_CUBIN;
        });
        // An assembler need not know every kind of GPU.
        if (hasCode)
          std::erase_if(failures, [](const auto &failure) {
            return isUnknownGpu(failure.second);
          });
        std::string of = llvm::join(llvm::make_first_range(failures), ", ");
        std::string why = failures.empty() ? "" : failures.begin()->second;
        if (!failures.empty() || (assembled && hasAssembler() && !hasCode))
          kernels.emitWarning() << "`ptxas` in PATH makes no machine code"
                                << (of.empty() ? "" : " for " + of)
                                << (why.empty() ? "" : " (" + why + ")")
                                << ": drivers translate the program's PTX when "
                                   "it first starts on "
                                   "a machine";
        return all;
      });
}
