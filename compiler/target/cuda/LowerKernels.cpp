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
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include <numbers>

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

/// A function of an f32 by an instruction.
static mlir::Value byInstruction(mlir::OpBuilder &b, mlir::Location loc,
                                 llvm::StringRef intrinsic, mlir::Value x) {
  return mlir::LLVM::CallIntrinsicOp::create(b, loc, x.getType(),
                                             b.getStringAttr(intrinsic),
                                             mlir::ValueRange{x})
      .getResult(0);
}

/// 2 ** x, off by two units in the last place (PTX ISA, "ex2").
static mlir::Value powerOfTwo(mlir::OpBuilder &b, mlir::Location loc,
                              mlir::Value x) {
  return byInstruction(b, loc, "llvm.nvvm.ex2.approx.ftz.f32", x);
}

namespace {

struct ExpandExp2 : mlir::OpRewritePattern<mlir::math::Exp2Op> {
  using OpRewritePattern::OpRewritePattern;
  mlir::LogicalResult
  matchAndRewrite(mlir::math::Exp2Op op,
                  mlir::PatternRewriter &rewriter) const override {
    rewriter.replaceOp(op, powerOfTwo(rewriter, op.getLoc(), op.getOperand()));
    return mlir::success();
  }
};

/// 1 / sqrt(x), off by 2 ** -22.9 of it (PTX ISA, "rsqrt"): a root that rounds
/// as IEEE wants it has a branch of its own.
struct ExpandReciprocalRoot : mlir::OpRewritePattern<mlir::arith::DivFOp> {
  using OpRewritePattern::OpRewritePattern;
  mlir::LogicalResult
  matchAndRewrite(mlir::arith::DivFOp op,
                  mlir::PatternRewriter &rewriter) const override {
    auto root = op.getRhs().getDefiningOp<mlir::math::SqrtOp>();
    if (!root || !mlir::matchPattern(op.getLhs(), mlir::m_OneFloat()))
      return mlir::failure();
    rewriter.replaceOp(op, byInstruction(rewriter, op.getLoc(),
                                         "llvm.nvvm.rsqrt.approx.ftz.f",
                                         root.getOperand()));
    return mlir::success();
  }
};

/// A bf16 that is a half of a word as f32, by one instruction on the word:
/// NVPTX would take it out into a register of 16 bits first.
struct WidenHalfOfWord : mlir::OpRewritePattern<mlir::arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;
  mlir::LogicalResult
  matchAndRewrite(mlir::arith::ExtFOp op,
                  mlir::PatternRewriter &rewriter) const override {
    auto bits = op.getIn().getDefiningOp<mlir::arith::BitcastOp>();
    auto half =
        bits ? bits.getIn().getDefiningOp<mlir::arith::TruncIOp>() : nullptr;
    if (!half || !half.getIn().getType().isInteger(32) ||
        !op.getIn().getType().isBF16() || !op.getType().isF32())
      return mlir::failure();
    mlir::Location loc = op.getLoc();
    auto number = [&](int32_t value) -> mlir::Value {
      return mlir::arith::ConstantIntOp::create(rewriter, loc,
                                                rewriter.getI32Type(), value);
    };
    mlir::Value word = half.getIn(), wide;
    mlir::APInt distance;
    if (auto shift = word.getDefiningOp<mlir::arith::ShRUIOp>();
        shift && matchPattern(shift.getRhs(), mlir::m_ConstantInt(&distance)) &&
        distance == 16)
      wide = mlir::arith::AndIOp::create(rewriter, loc, shift.getLhs(),
                                         number(-0x10000));
    else
      wide = mlir::arith::ShLIOp::create(rewriter, loc, word, number(16));
    rewriter.replaceOpWithNewOp<mlir::arith::BitcastOp>(op, op.getType(), wide);
    return mlir::success();
  }
};

/// e ** x = 2 ** y (1 + z ln 2), where y = x log2 e is rounded, and z is what
/// it has lost.
struct ExpandExp : mlir::OpRewritePattern<mlir::math::ExpOp> {
  using OpRewritePattern::OpRewritePattern;
  mlir::LogicalResult
  matchAndRewrite(mlir::math::ExpOp op,
                  mlir::PatternRewriter &rewriter) const override {
    mlir::Location loc = op.getLoc();
    auto number = [&](double value) -> mlir::Value {
      return mlir::arith::ConstantOp::create(
          rewriter, loc, rewriter.getF32FloatAttr(static_cast<float>(value)));
    };
    auto fma = [&](mlir::Value x, mlir::Value y, mlir::Value z) -> mlir::Value {
      return mlir::LLVM::FMAOp::create(rewriter, loc, x.getType(), x, y, z);
    };
    // Where it is zero, and infinite.
    mlir::Value x = mlir::arith::MaximumFOp::create(
        rewriter, loc, op.getOperand(), number(-104.0));
    x = mlir::arith::MinimumFOp::create(rewriter, loc, x, number(89.0));
    constexpr double high = 1.44269502162933349609375,
                     low = std::numbers::log2e - high;
    mlir::Value y = mlir::arith::MulFOp::create(rewriter, loc, x, number(high));
    mlir::Value z =
        fma(x, number(high), mlir::arith::NegFOp::create(rewriter, loc, y));
    z = fma(x, number(low), z);
    rewriter.replaceOpWithNewOp<mlir::arith::MulFOp>(
        op, powerOfTwo(rewriter, loc, y),
        fma(z, number(std::numbers::ln2), number(1.0)));
    return mlir::success();
  }
};

} // namespace

/// Expands powers and reciprocal roots to instructions, and tanh to a quotient
/// of polynomials, which is one of an approximation
/// (`KernelBuilder::quotient`).
static mlir::LogicalResult expandFunctions(mlir::ModuleOp module) {
  struct Quotients : mlir::RewriterBase::Listener {
    void notifyOperationInserted(mlir::Operation *op,
                                 mlir::OpBuilder::InsertPoint) override {
      if (auto quotient = mlir::dyn_cast<mlir::arith::DivFOp>(op))
        quotient.setFastmath(mlir::arith::FastMathFlags::afn);
    }
  };
  Quotients quotients;
  mlir::RewritePatternSet patterns(module.getContext());
  patterns.add<ExpandExp2, ExpandReciprocalRoot, ExpandExp, WidenHalfOfWord>(
      module.getContext());
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
    if (failed(expandFunctions(module)) ||
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
