//===- BlockBuilder.h - a kernel of blocks of threads -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CUDA_BLOCKBUILDER_H
#define TFM_TARGET_CUDA_BLOCKBUILDER_H

#include "compiler/schedule/SchedDialect.h"
#include "compiler/target/cuda/Gpu.h"
#include "compiler/target/emit/KernelBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <array>

namespace tfm::cuda {

/// Threads that run together.
inline constexpr int64_t warpSize = 32;
/// Most threads of a block.
inline constexpr int64_t maxBlock = 1024;
/// Bytes of shared memory that every kernel may have.
inline constexpr int64_t maxStaticShared = 48 * 1024;
/// Of its banks, 4 of each.
inline constexpr int64_t bankBytes = 128;

/// The attributes of a kernel that hold its grid, three numbers of i64, and its
/// block, three of i32, which is `nvvm.reqntid` once it is lowered, and how
/// many bytes of dynamic shared memory it is launched with, where there are
/// any. And how many blocks of it a multiprocessor is to have at once at least,
/// for which ptxas gives it few enough registers; then it is `nvvm.minctasm`.
inline constexpr llvm::StringLiteral gridAttribute = "tfm.grid",
                                     blockAttribute = "tfm.block",
                                     sharedAttribute = "tfm.shared",
                                     residentAttribute = "tfm.resident";
/// Of a kernel whose blocks live until all is done, and do what the grid's
/// blocks have to do in turns, however many they are: how many of them a
/// multiprocessor has room for at once, more than which are not launched.
inline constexpr llvm::StringLiteral persistentAttribute = "tfm.persistent";

/// Of a kernel that has boxes copied: its `BoxedTensor`s.
inline constexpr llvm::StringLiteral tensorsAttribute = "tfm.tensors";

/// A kernel for sm_90a that computes the same as another one, which every GPU
/// runs, has its name with something behind it, and the name as an attribute.
inline constexpr llvm::StringLiteral hopperSuffix = "_sm_90a",
                                     hopperFormAttribute = "tfm.form_of";
/// Has `emit` add such a form of the kernel of that name.
void addHopperForm(mlir::ModuleOp module, llvm::StringRef name,
                   llvm::function_ref<void(llvm::StringRef form)> emit);

/// For whoever reads the kernels (bench/gpu_kernels.py): what a kernel's step
/// is; how many floating-point operations and bytes that computes and moves;
/// and of a product about how many seconds it takes on an A100 and an H100.
inline constexpr llvm::StringLiteral stepAttribute = "tfm.step",
                                     workAttribute = "tfm.work",
                                     secondsAttribute = "tfm.seconds";

/// How many blocks of how many threads a kernel is launched with.
struct Grid {
  std::array<int64_t, 3> blocks = {1, 1, 1};
  int64_t threads = 256;
  /// Blocks that a multiprocessor is to have at once; 0: as many as may be.
  int64_t resident = 0;
  /// Whether fewer blocks do the same, so that no more are launched.
  bool persistent = false;
};

/// A tensor of bf16 in memory, of which boxes of some size are copied
/// (`tfm_boxed_tensor` of runtime/tfm_model.h): its axes, first the one along
/// which elements follow each other.
struct BoxedTensor {
  /// The number of the kernel's argument that points to its first element.
  int64_t argument;
  /// Elements along each axis, from one to the next, and in a box.
  llvm::SmallVector<int64_t> sizes, strides, box;

  mlir::Attribute toAttribute(mlir::MLIRContext *context) const;
  static BoxedTensor from(mlir::Attribute attribute);
};

/// What a step reads or writes, by the number of the kernel's argument.
struct Operand {
  unsigned number;
  sched::ViewOp view;
};
/// Those of which the program is told the row; the kernel finds it.
llvm::SmallVector<Operand> rowOperands(mlir::Operation *step);

/// Begins a kernel with such arguments, at the end of `module`: a function that
/// returns, before which `builder` then stands.
mlir::func::FuncOp beginKernel(mlir::OpBuilder &builder, mlir::ModuleOp module,
                               llvm::StringRef name, mlir::TypeRange arguments,
                               const Grid &grid);

/// Memory of a kernel's block, of which it has `maxStaticShared` bytes in all.
class SharedMemory {
public:
  /// What there is of that kernel.
  explicit SharedMemory(mlir::func::FuncOp kernel);

  int64_t bytes();
  /// Makes it larger, and says from where on: at the first of its banks.
  int64_t add(int64_t more);
  /// A pointer to it from a byte on.
  mlir::Value from(KernelBuilder &k, int64_t byte);
  /// Null where there is none.
  mlir::LLVM::GlobalOp global() { return memory; }

private:
  std::string name();

  mlir::func::FuncOp kernel;
  mlir::LLVM::GlobalOp memory;
};

/// A kernel in the making, as each of its threads computes it: a `func.func`
/// whose arguments are pointers to what its step reads and writes, then `rng`,
/// the layer, and for each of `rowOperands` a pointer to its row's number
/// (docs/gpu.md). LLVM is told of those that nothing is written behind while
/// the kernel runs, so that loads need not wait for stores.
class BlockBuilder {
public:
  /// Begins the kernel of `step`, with `buffers` pointers, at the end of
  /// `module`.
  BlockBuilder(mlir::ModuleOp module, llvm::StringRef name,
               mlir::Operation *step, unsigned buffers, const Grid &grid);

private:
  mlir::OpBuilder builder;
  mlir::func::FuncOp func;

public:
  /// Of one lane: what it loads and computes are scalars.
  KernelBuilder k;
  KernelArguments arguments;
  llvm::SmallVector<mlir::Value> pointers;

  /// This thread's number in its block, and its block's along an axis; i64.
  mlir::Value thread();
  mlir::Value block(unsigned axis = 0);
  /// How many blocks have been launched along x; i64.
  mlir::Value launchedBlocks();
  /// Of a warp: this thread's lane, and its warp's number in the block.
  mlir::Value lane() { return k.rem(thread(), k.i64(warpSize)); }
  mlir::Value warp() { return k.div(thread(), warpSize); }
  /// The number of this thread among those of all blocks along x.
  mlir::Value everyThread();

  int64_t threads() const { return grid.threads; }
  /// Blocks that a multiprocessor is to have at once.
  int64_t resident() const { return grid.resident; }

  /// Waits for all threads of the block; what they wrote can be read then.
  void barrier();
  /// The same of so many threads, whole warps, at a barrier of that number,
  /// from 1 to 15; some of them may arrive and go on.
  void barrier(mlir::Value number, int64_t threads);
  void arriveAtBarrier(mlir::Value number, int64_t threads);
  /// Has all loads so far under way before what follows begins: ptxas (CUDA 13)
  /// saves registers by moving each to where it is needed, and a thread then
  /// waits for one after the other.
  void gatherLoads();
  /// Has `gatherLoads` and barriers hold all loads: nobody is told any more
  /// what is only read, loads of which ptxas (CUDA 13) moves over both.
  void holdLoads();
  /// Waits for the threads of the warp.
  void warpBarrier();

  /// `count` elements of 4 bytes of the block's memory, of which a kernel has
  /// `maxStaticShared` bytes in all.
  mlir::Value shared(int64_t count);
  /// So many bytes of shared memory that each launch asks for, which may be
  /// more than `maxStaticShared` (`maxDynamicShared`): once in a kernel. They
  /// begin at a multiple of `alignment`.
  mlir::Value dynamicShared(int64_t bytes, int64_t alignment = 128);

  /// Begins to copy `bytes`, 4 or 16, of which only the first `count` (null:
  /// all) are read and the others 0; both sides lie at multiples of `bytes`.
  void copyAsync(mlir::Value to, mlir::Value from, int64_t bytes,
                 mlir::Value count = {});
  /// Ends a group of copies, which may be empty.
  void commitCopies();
  /// Waits until no more than so many of the last groups of this thread's
  /// copies are under way. Those of others need a barrier, too.
  void awaitCopies(int64_t groups);

  /// Has `bytes`, a multiple of 16 and at one, brought to the second-level
  /// cache (GPUs of 9.0 and newer).
  void prefetch(mlir::Value from, mlir::Value bytes);

  /// What `copyBox` is told of a tensor: an argument more, behind all others.
  mlir::Value boxed(const BoxedTensor &tensor);
  /// Begins to copy the box that begins at these indices to shared memory,
  /// swizzled by 128 bytes; what is outside of the tensor becomes zeros. Its
  /// bytes arrive at an mbarrier.
  void copyBox(mlir::Value to, mlir::Value tensor,
               llvm::ArrayRef<mlir::Value> first, mlir::Value barrier);

  /// An mbarrier of 8 bytes in shared memory: a phase of it is over when so
  /// many have arrived, and all bytes that were announced. A thread that makes
  /// some fences them before others, or copies, may know of them.
  void makeBarrier(mlir::Value barrier, int64_t arrivals);
  void fenceBarriers();
  void arrive(mlir::Value barrier);
  /// The same, of one who announces so many bytes.
  void arriveBefore(mlir::Value barrier, int64_t bytes);
  /// Until the phase of that parity, 0 or 1 as i64, is over.
  void await(mlir::Value barrier, mlir::Value parity);

  /// The block's last warpgroup multiplies nothing: one thread of it does what
  /// `bring` is. The others `multiply`, with the registers that it gives up.
  void divideWork(const Gpu &gpu, llvm::function_ref<void()> multiply,
                  llvm::function_ref<void()> bring);

  /// What the lane whose number differs in that bit, a power of two, has.
  mlir::Value fromLane(mlir::Value x, int64_t distance);

  /// A bit for each lane of the warp: whether `condition` holds there; i32.
  mlir::Value ballot(mlir::Value condition);

  using Combine = llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>;
  /// What the `width` neighbouring lanes that share a number (a power of two)
  /// have in sum, in all of them: a tree, the same each time.
  mlir::Value reduceLanes(mlir::Value x, int64_t width, Combine combine);
  /// The same of all threads of the block, in all of them. Each call has memory
  /// of its own: in a loop a barrier must stand between two turns.
  mlir::Value reduceBlock(mlir::Value x, double neutral, Combine combine);

  /// An f32, or what becomes one, at `ptr`.
  mlir::Value loadFloat(mlir::Value ptr, mlir::Type element);
  /// Stores an f32 as an `element`.
  void storeFloat(mlir::Value x, mlir::Value ptr, mlir::Type element);
  /// x where the condition holds, else a constant.
  mlir::Value orElse(mlir::Value condition, mlir::Value x, double other);
  mlir::Value both(mlir::Value x, mlir::Value y);
  mlir::Value exclusiveOr(mlir::Value x, mlir::Value y);
  /// Adds the product of fragments of 16 by 16 and 16 by 8 numbers of bf16,
  /// four and two registers, to one of 16 by 8 f32 (PTX ISA, "Matrix Fragments
  /// for mma.m16n8k16"). All lanes of a warp come here together.
  void multiplyFragments(mlir::ValueRange x, mlir::ValueRange y,
                         llvm::MutableArrayRef<mlir::Value> sums);
  /// Adds products of 64 by 16 and 16 by N numbers of bf16 in shared memory,
  /// one after the other, to sums that a warpgroup has in its registers (PTX
  /// ISA, "Matrix Fragments for wgmma.mma_async.m64nNk16"): begins to do so, as
  /// a group. All its threads come here together. What descriptors name was
  /// brought by `copyBox`, and awaited. Of the columns several parts of equal
  /// size may be multiplied by an instruction each, with as many of the sums.
  struct WarpgroupStep {
    /// A descriptor, or the four registers of a fragment.
    llvm::SmallVector<mlir::Value, 4> a;
    llvm::SmallVector<mlir::Value, 2> b;
  };
  /// `fromZero`: whatever sums there were do not count.
  void multiplyWarpgroup(llvm::ArrayRef<WarpgroupStep> steps, bool aAlongTerms,
                         bool bAlongTerms,
                         llvm::MutableArrayRef<mlir::Value> sums,
                         bool fromZero = false);
  /// Waits until no more than so many of the last groups of products are under
  /// way. Only other products may touch sums that are.
  void awaitProducts(int64_t groups);
  /// The same for what reads these sums, of products that are over then: nobody
  /// may move it before that.
  void awaitProducts(llvm::MutableArrayRef<mlir::Value> sums,
                     int64_t groups = 0);
  /// Two f32, rounded to bf16, in a register.
  mlir::Value packBf16(mlir::Value low, mlir::Value high);

  /// `count` neighbouring f32 at a multiple of their size, to and from
  /// registers.
  llvm::SmallVector<mlir::Value> loadVector(mlir::Value ptr, int64_t count);
  void storeVector(mlir::ValueRange values, mlir::Value ptr);

private:
  mlir::Value multiplyRegisters(mlir::Value sums, mlir::ValueRange a,
                                mlir::Value b, bool bAlongTerms);
  /// How many registers a thread of this warpgroup has from here on.
  void takeRegisters(int64_t count);
  void giveRegisters(int64_t count);
  mlir::Value special(mlir::Value number);
  mlir::Value i32(mlir::Value number);

  mlir::ModuleOp module;
  const Grid grid;
  SharedMemory ownMemory;
};

} // namespace tfm::cuda

#endif // TFM_TARGET_CUDA_BLOCKBUILDER_H
