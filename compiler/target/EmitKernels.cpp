//===- EmitKernels.cpp - the code of every launch, copy and fill ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Attributes.h"
#include "compiler/schedule/Launches.h"
#include "compiler/target/KernelTarget.h"
#include "compiler/target/Passes.h"

#include "mlir/IR/OperationSupport.h"
#include <map>

namespace tfm {
#define GEN_PASS_DEF_EMITKERNELSPASS
#include "compiler/target/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;
using namespace tfm::sched;

namespace {

/// A hash that equal kernels have in common.
size_t hashOf(Operation *step) {
  llvm::hash_code hash =
      llvm::hash_combine(step->getName(), step->getAttrDictionary(),
                         llvm::hash_combine_range(step->getOperandTypes()));
  step->walk([&](Operation *op) {
    // What buffers of a group are called makes no difference.
    if (op != step && !isa<BufferOp, ViewOp>(op))
      hash = llvm::hash_combine(hash, op->getName(), op->getAttrDictionary());
  });
  return hash;
}

/// What a row of a view takes, where the program is told which (`ViewOp`).
std::optional<uint64_t> rowStepOf(Value operand) {
  auto view = operand.getDefiningOp<ViewOp>();
  return view ? view.getRowStep() : std::nullopt;
}

/// Whether two steps do the same to other bytes, which begin at multiples of
/// what the target's operands do for both or for neither, and are only read by
/// both or by neither where it counts on that.
bool sameKernel(Operation *a, Operation *b, const KernelTarget &target) {
  if (a->getName() != b->getName() ||
      a->getAttrDictionary() != b->getAttrDictionary() ||
      !llvm::equal(a->getOperandTypes(), b->getOperandTypes()) ||
      !llvm::equal(llvm::map_range(a->getOperands(), rowStepOf),
                   llvm::map_range(b->getOperands(), rowStepOf)))
    return false;
  if (!llvm::equal(llvm::map_range(a->getOperands(), isOfBlocks),
                   llvm::map_range(b->getOperands(), isOfBlocks)))
    return false;
  const int64_t alignment = target.operandAlignment();
  auto begins = [&](Value view) {
    return alignment == 1 ? 1 : std::min(alignment, alignmentOf(view));
  };
  for (auto [ofA, ofB] : llvm::zip_equal(a->getOperands(), b->getOperands()))
    if (begins(ofA) != begins(ofB))
      return false;
  if (target.countsOnReads())
    for (unsigned i = 0; i != a->getNumOperands(); ++i)
      if (isOnlyRead(a, i) != isOnlyRead(b, i))
        return false;
  if (isa<GroupOp>(a))
    return llvm::equal(partsOf(a), partsOf(b),
                       [&](Operation *ofA, Operation *ofB) {
                         return sameKernel(ofA, ofB, target);
                       });
  auto launch = dyn_cast<LaunchOp>(a);
  return !launch || OperationEquivalence::isRegionEquivalentTo(
                        &launch.getBody(), &cast<LaunchOp>(b).getBody(),
                        OperationEquivalence::IgnoreLocations);
}

struct EmitKernelsPass : tfm::impl::EmitKernelsPassBase<EmitKernelsPass> {
  using EmitKernelsPassBase::EmitKernelsPassBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    EmitKernelsPassBase::getDependentDialects(registry);
    if (llvm::Expected<const KernelTarget *> known =
            KernelTarget::named(target))
      (*known)->registerDialects(registry);
    else
      llvm::consumeError(known.takeError()); // the pass itself tells of it
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const KernelTarget *known = KernelTarget::find(target, module);
    if (!known)
      return signalPassFailure();
    auto kernels = ModuleOp::create(module.getLoc(), "kernels");
    module.push_back(kernels);
    // The first step of every kernel, and the kernel, by the hash.
    std::multimap<size_t, std::pair<Operation *, StringAttr>> first;
    std::vector<std::pair<Operation *, StringAttr>> named;
    int64_t scratch = 0;
    auto kernelOf = [&](Operation *step) -> FailureOr<StringAttr> {
      size_t hash = hashOf(step);
      auto [begin, end] = first.equal_range(hash);
      for (auto candidate = begin; candidate != end; ++candidate)
        if (sameKernel(candidate->second.first, step, *known))
          return candidate->second.second;
      auto name = StringAttr::get(&getContext(),
                                  "kernel" + std::to_string(first.size()));
      FailureOr<int64_t> bytes =
          known->emitKernel(step, name.getValue(), kernels);
      if (failed(bytes))
        return failure();
      scratch = std::max(scratch, *bytes);
      first.insert({hash, {step, name}});
      return name;
    };
    bool ok = true;
    for (auto program : module.getOps<ProgramOp>())
      forEachStep(program, [&](Operation *step, int64_t) {
        for (Operation *each : kernelSteps(step)) {
          FailureOr<StringAttr> name = kernelOf(each);
          ok &= succeeded(name);
          if (ok)
            named.push_back({each, *name});
        }
      });
    if (!ok)
      return signalPassFailure();
    // Only now: a step with a name is no longer equal to one without.
    for (auto [step, name] : named)
      step->setAttr("kernel", SymbolRefAttr::get(kernels.getSymNameAttr(),
                                                 FlatSymbolRefAttr::get(name)));
    kernels->setAttr(scratchAttribute,
                     Builder(&getContext()).getI64IntegerAttr(scratch));
  }
};

} // namespace
