//===- LowerKernels.cpp - kernels of a GPU to the llvm dialect ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/BlockBuilder.h"
#include "compiler/target/cuda/Passes.h"
#include "compiler/target/emit/LowerToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tfm::cuda {
#define GEN_PASS_DEF_LOWERKERNELSPASS
#include "compiler/target/cuda/Passes.h.inc"
} // namespace tfm::cuda

/// Every GPU has an instruction that rounds to bf16; what reads one moves bits,
/// so that LLVM never computes in it.
static void roundByInstruction(mlir::ModuleOp module) {
  module.walk([](mlir::arith::TruncFOp op) {
    if (!op.getType().isBF16())
      return;
    mlir::OpBuilder b(op);
    op.replaceAllUsesWith(
        mlir::LLVM::FPTruncOp::create(b, op.getLoc(), op.getType(), op.getIn())
            .getResult());
    op.erase();
  });
}

/// Expands tanh to a quotient of polynomials, which is one of an approximation
/// (`KernelBuilder::quotient`).
static mlir::LogicalResult expandTanh(mlir::ModuleOp module) {
  struct Quotients : mlir::RewriterBase::Listener {
    void notifyOperationInserted(mlir::Operation *op,
                                 mlir::OpBuilder::InsertPoint) override {
      if (auto quotient = mlir::dyn_cast<mlir::arith::DivFOp>(op))
        quotient.setFastmath(mlir::arith::FastMathFlags::afn);
    }
  };
  Quotients quotients;
  mlir::RewritePatternSet patterns(module.getContext());
  mlir::populatePolynomialApproximateTanhPattern(patterns);
  mlir::GreedyRewriteConfig config;
  config.enableFolding(false).enableConstantCSE(false).setListener(&quotients);
  config.setRegionSimplificationLevel(
      mlir::GreedySimplifyRegionLevel::Disabled);
  return applyPatternsGreedily(module, std::move(patterns), config);
}

namespace {

struct LowerKernelsPass
    : tfm::cuda::impl::LowerKernelsPassBase<LowerKernelsPass> {
  void runOnOperation() override {
    mlir::ModuleOp module = getOperation();
    roundByInstruction(module);
    if (failed(expandTanh(module)) ||
        failed(tfm::lowerToLLVMDialect(module, /*roundsToBf16=*/false,
                                       /*kept=*/"nvvm")))
      return signalPassFailure();
    // As NVPTX is told of kernels, which are functions of the llvm dialect
    // only.
    using mlir::NVVM::NVVMDialect;
    for (auto function : module.getOps<mlir::LLVM::LLVMFuncOp>())
      if (mlir::Attribute block =
              function->removeAttr(tfm::cuda::blockAttribute)) {
        function->setAttr(NVVMDialect::getKernelFuncAttrName(),
                          mlir::UnitAttr::get(&getContext()));
        function->setAttr(NVVMDialect::getReqntidAttrName(), block);
        for (unsigned i = 0; i != function.getNumArguments(); ++i)
          if (function.getArgAttr(i,
                                  mlir::LLVM::LLVMDialect::getByValAttrName()))
            function.setArgAttr(i, NVVMDialect::getGridConstantAttrName(),
                                mlir::UnitAttr::get(&getContext()));
        if (mlir::Attribute resident =
                function->removeAttr(tfm::cuda::residentAttribute))
          function->setAttr(NVVMDialect::getMinctasmAttrName(), resident);
      }
  }
};

} // namespace
