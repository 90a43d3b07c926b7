//===- KernelBuilder.h - short spellings for the IR of kernels --*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_EMIT_KERNELBUILDER_H
#define TFM_TARGET_EMIT_KERNELBUILDER_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/ValueRange.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <limits>

namespace mlir {
class ModuleOp;
namespace func {
class FuncOp;
} // namespace func
} // namespace mlir

namespace tfm {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// A kernel and what its callers must know of it.
struct Kernel {
  /// Null where emission failed.
  mlir::Operation *func = nullptr;
  /// Bytes of `%scratch` that the kernel uses, for each thread.
  int64_t scratchBytes = 0;
};

/// Builds the address arithmetic, loads and loops of kernels. All integers are
/// i64; memory is addressed through bare pointers (`!llvm.ptr`), with offsets
/// in elements, because the shared functions (micro-kernels, packing) take
/// strides at run time, which memrefs passed as bare pointers cannot. Elements
/// are f32 where nothing else is said.
class KernelBuilder {
public:
  /// For kernels of `module` on vectors of `lanes` f32; on scalars with 1,
  /// where a lane is a thread of its own.
  KernelBuilder(mlir::OpBuilder &builder, mlir::ModuleOp module, int64_t lanes);

  mlir::OpBuilder &b;
  mlir::Location loc;
  const int64_t lanes;
  mlir::Type ptrType, i64Type, f32Type, bf16Type;
  /// vector<lanes x f32>, vector<lanes x i1>.
  mlir::VectorType vecType, maskType;

  /// What holds elements of a type in all lanes: a vector, or with one lane a
  /// scalar.
  mlir::Type registerOf(mlir::Type element) const;
  /// A scalar, or a whole number as i64, in all lanes.
  mlir::Value broadcast(mlir::Value scalar);
  mlir::Value broadcast(int64_t value);

  mlir::Value i64(int64_t value);
  mlir::Value i1(bool value);
  /// All lanes equal to a constant or a scalar f32.
  mlir::Value splat(double value);
  mlir::Value splat(mlir::Value scalar);

  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value add(mlir::Value x, int64_t y) { return add(x, i64(y)); }
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, int64_t y) { return mul(x, i64(y)); }
  /// Unsigned: both operands are known not to be negative.
  mlir::Value div(mlir::Value x, mlir::Value y);
  mlir::Value div(mlir::Value x, int64_t y) { return div(x, i64(y)); }
  mlir::Value rem(mlir::Value x, mlir::Value y);
  mlir::Value min(mlir::Value x, mlir::Value y);
  mlir::Value max(mlir::Value x, mlir::Value y);
  mlir::Value less(mlir::Value x, mlir::Value y);
  mlir::Value equal(mlir::Value x, mlir::Value y);
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y);

  /// On vectors or scalars of f32.
  mlir::Value addf(mlir::Value x, mlir::Value y);
  mlir::Value subf(mlir::Value x, mlir::Value y);
  mlir::Value mulf(mlir::Value x, mlir::Value y);
  mlir::Value divf(mlir::Value x, mlir::Value y);
  /// x / y in a function that is an approximation anyway: of a thread it may be
  /// off by two units in the last place (PTX ISA, "div"), as what rounds as
  /// IEEE wants takes ten instructions and a branch.
  mlir::Value quotient(mlir::Value x, mlir::Value y);
  mlir::Value maxf(mlir::Value x, mlir::Value y);
  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z);

  /// i64 to index and back.
  mlir::Value toIndex(mlir::Value x);
  mlir::Value toI64(mlir::Value x);

  /// The first element of a memref.
  mlir::Value pointer(mlir::Value memref);
  /// `ptr` advanced by elements.
  mlir::Value at(mlir::Value ptr, mlir::Value offset, mlir::Type element = {});
  mlir::Value at(mlir::Value ptr, int64_t offset, mlir::Type element = {});

  mlir::Value loadScalar(mlir::Value ptr);
  /// The i32 at `ptr` in every lane.
  mlir::Value splatInteger(mlir::Value ptr);
  /// An i32 in memory, as i64.
  mlir::Value loadInteger(mlir::Value ptr);
  void storeScalar(mlir::Value value, mlir::Value ptr);
  /// Loads and stores of `lanes` f32 of any alignment, in memory f32 or bf16
  /// (`element`). Where `mask` is not null only its lanes are touched, and the
  /// others load as 0.
  mlir::Value load(mlir::Value ptr, mlir::Value mask = {},
                   mlir::Type element = {});
  void store(mlir::Value value, mlir::Value ptr, mlir::Value mask = {},
             mlir::Type element = {});
  /// As they lie in memory, as many as `type` says.
  mlir::Value loadAs(mlir::VectorType type, mlir::Value ptr,
                     mlir::Value mask = {});
  /// Starts to bring the cache line at `ptr` into the first-level cache, or the
  /// second.
  void prefetch(mlir::Value ptr, int64_t level);
  /// A vector of f32 or bf16 as one of bf16, rounded to nearest even, and back.
  mlir::Value toBf16(mlir::Value x);
  mlir::Value toF32(mlir::Value x);
  /// The first `count` lanes, of `size` (by default `lanes`); none where
  /// `count <= 0`.
  mlir::Value maskOf(mlir::Value count, int64_t size = 0);
  /// The lanes that `first`, `first + 1`, ... are in 0 <= x < count in.
  mlir::Value within(mlir::Value first, mlir::Value count);
  /// Two registers' lanes by their number in the concatenation of both.
  mlir::Value shuffle(mlir::Value x, mlir::Value y,
                      llvm::ArrayRef<int64_t> lanesOfBoth);
  /// Lane i of register k to lane k of register i: `registers` are `lanes`
  /// vectors of as many elements.
  void transpose(llvm::MutableArrayRef<mlir::Value> registers);

  using LoopBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      mlir::Value, mlir::ValueRange)>;
  /// `for (i = from; i < to; i += step)` with loop-carried values.
  llvm::SmallVector<mlir::Value> loop(mlir::Value from, mlir::Value to,
                                      mlir::Value step, mlir::ValueRange init,
                                      LoopBody body);
  llvm::SmallVector<mlir::Value> loop(mlir::Value from, mlir::Value to,
                                      int64_t step, mlir::ValueRange init,
                                      LoopBody body) {
    return loop(from, to, i64(step), init, body);
  }
  void loop(mlir::Value from, mlir::Value to, int64_t step,
            llvm::function_ref<void(mlir::Value)> body);
  /// A loop that stays one: no later stage unrolls it.
  llvm::SmallVector<mlir::Value> rolledLoop(mlir::Value from, mlir::Value to,
                                            int64_t step, mlir::ValueRange init,
                                            LoopBody body);
  void rolledLoop(mlir::Value from, mlir::Value to, int64_t step,
                  llvm::function_ref<void(mlir::Value)> body);
  void ifThen(mlir::Value condition, llvm::function_ref<void()> then,
              llvm::function_ref<void()> otherwise = nullptr);
  using Branch = llvm::function_ref<llvm::SmallVector<mlir::Value>()>;
  /// What the one or the other makes; only that is computed.
  llvm::SmallVector<mlir::Value> either(mlir::Value condition, Branch then,
                                        Branch otherwise);

  /// Thread `thread`'s share [from, to) of `count` things.
  std::pair<mlir::Value, mlir::Value>
  share(mlir::Value count, mlir::Value thread, mlir::Value threads);

  /// The function `name` of the module, internal to the object file; made by
  /// `body`, given its arguments, where it does not exist yet. It returns
  /// nothing.
  mlir::func::FuncOp sharedFunction(
      llvm::StringRef name, llvm::ArrayRef<mlir::Type> arguments,
      llvm::function_ref<void(KernelBuilder &, mlir::ValueRange)> body);
  void call(mlir::func::FuncOp function, mlir::ValueRange arguments);

private:
  mlir::Operation *module;
};

/// Starts a kernel of the convention of docs/design.md, "Kernels": buffers,
/// then %rng, %layer, %scratch, %thread, %threads. The builder's insertion
/// point moves into its body, before the return.
mlir::func::FuncOp beginKernel(mlir::OpBuilder &builder, mlir::ModuleOp module,
                               llvm::StringRef name,
                               llvm::ArrayRef<mlir::Type> buffers,
                               int64_t scratchBytes);

/// The arguments after the buffers; of kernels of a device the first two alone.
struct KernelArguments {
  mlir::Value rng, layer, scratch, thread, threads;
  KernelArguments(mlir::Value rng, mlir::Value layer)
      : rng(rng), layer(layer) {}
  explicit KernelArguments(mlir::func::FuncOp kernel);
};

} // namespace tfm

#endif // TFM_TARGET_EMIT_KERNELBUILDER_H
