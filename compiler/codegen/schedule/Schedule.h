//===- Schedule.h - kernels over one planned arena --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//
// A schedule is what a function of the tfm dialect becomes before any machine
// code exists: an ordered list of kernel launches, with loops over repeated
// layers, each launch on views of buffers that the planner places in the arena.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_CODEGEN_SCHEDULE_SCHEDULE_H
#define TFM_CODEGEN_SCHEDULE_SCHEDULE_H

#include "compiler/codegen/schedule/Domain.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"
#include <memory>
#include <string>
#include <vector>

namespace tfm {

/// Where in the arena a buffer lives, and for how long.
enum class BufferKind {
  Parameter,  ///< lives always
  Gradient,   ///< lives always
  State,      ///< the optimizer's; lives always
  Cache,      ///< keys and values of generation; lives always
  Constant,   ///< filled when the program starts
  Activation, ///< lives in one program from its first write to its last read
};

/// Buffers begin on cache lines.
inline constexpr int64_t bufferAlignment = 64;

/// A range of the arena.
struct Buffer {
  std::string name;
  BufferKind kind = BufferKind::Activation;
  int64_t bytes = 0;
  /// The program that an activation belongs to.
  int program = -1;
  /// Times of the first write and the last read, in launches; activations only.
  int64_t begin = INT64_MAX;
  int64_t end = -1;
  /// Bytes from the start of the arena; set by planning.
  int64_t offset = -1;
};

/// A strided window on a buffer. Sizes, strides and offsets count elements.
struct View {
  int buffer = -1;
  mlir::Type element;
  int64_t offset = 0;
  llvm::SmallVector<int64_t, 4> shape;
  llvm::SmallVector<int64_t, 4> strides;
  /// By how much each enclosing loop's index advances the window, outermost
  /// first.
  llvm::SmallVector<int64_t, 2> loopStrides;

  bool operator==(const View &) const = default;
  bool isValid() const { return buffer >= 0; }
  int64_t numElements() const;
  bool isContiguous() const;
  View transposed(llvm::ArrayRef<int64_t> permutation) const;
  View sliced(int64_t axis, int64_t start, int64_t size) const;
  /// Without its leading axis, at index 0 of it.
  View dropLeading() const;
  /// Without its leading axis, which the loop at `depth` walks instead.
  View perLayer(unsigned depth) const;
  /// With size-1 and missing axes repeated by stride 0, as NumPy broadcasts.
  View broadcastTo(llvm::ArrayRef<int64_t> to) const;
  /// The same elements under another shape; invalid where strides cannot say
  /// it.
  View reshaped(llvm::ArrayRef<int64_t> to) const;
};

enum class KernelKind {
  Row,
  Matmul,
  Attention,
  AttentionBackward,
  ScatterAdd,
  CacheUpdate
};

/// Ops that one kernel computes, in program order. For a matmul the first is
/// that op and the rest is its epilogue.
struct Group {
  KernelKind kind = KernelKind::Row;
  llvm::SmallVector<mlir::Operation *> ops;
  /// The iteration space of a row kernel or an epilogue.
  Domain domain;
};

/// One run of a kernel.
struct Launch {
  Group group;
  /// What the group reads from and writes to memory: a value of the function,
  /// or a view op's result, and where it is. A kernel may write where it reads
  /// (in place). A launch without ops copies its read to its write; without a
  /// read it fills with `fill`.
  llvm::SmallVector<std::pair<mlir::Value, View>> reads;
  llvm::SmallVector<std::pair<mlir::Value, View>> writes;
  double fill = 0;
  /// Column reductions write one partial result per chunk of rows; 0 where
  /// there are none.
  int64_t chunks = 0;
  /// Set where the launch adds up the partial results of this reduction.
  mlir::Operation *fold = nullptr;
  /// Micro-steps in an update, for dropout's counters.
  int64_t accumulate = 1;
  /// The depth of the loop whose layer the kernel wants to know, or -1.
  int layerDepth = -1;
};

/// A launch, or a loop over layers.
struct Step {
  std::unique_ptr<Launch> launch;
  int64_t count = 0;
  bool reverse = false;
  std::vector<Step> body;
  bool isLoop() const { return !launch; }
};

/// A named input or output of a function.
struct Port {
  std::string name;
  View view;
};

/// One function of the model.
struct Program {
  std::string name;
  std::vector<Step> steps;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
};

/// Where a parameter and what belongs to it lies: the same offset in each of
/// the schedule's regions.
struct ParameterSlot {
  mlir::Operation *param = nullptr;
  bool decayed = false;
  int64_t offset = 0; ///< elements
};

/// Everything that a build computes, over one arena.
struct Schedule {
  std::vector<Buffer> buffers;
  std::vector<Program> programs;
  std::vector<ParameterSlot> parameters;
  /// Constants and the buffers that they fill.
  std::vector<std::pair<mlir::Attribute, int>> constants;
  /// Regions that hold all parameters, gradients and optimizer state, each one
  /// buffer; -1 where absent. The first `decayedElements` are those that weight
  /// decay applies to, then come `plainElements` others that are trained.
  int parameterRegion = -1, gradientRegion = -1, stateRegion[2] = {-1, -1};
  int64_t decayedElements = 0, plainElements = 0;
  /// The buffers of the caches, by their number.
  std::vector<int> caches;
  int64_t arenaBytes = 0;
  int64_t activationBytes = 0;
  /// The largest sum of sizes of activations that live at one time, each in
  /// whole lines of `bufferAlignment` bytes: no plan can do with less.
  int64_t lowerBound = 0;
  /// The free ops that are written to memory, over all programs.
  OpSet materialised;

  /// Bytes of all caches.
  int64_t cacheBytes() const;
  int addBuffer(std::string name, BufferKind kind, int64_t bytes);
  void print(llvm::raw_ostream &os) const;
};

/// The ops of a launch as a line of text: `matmul 768x128x512 (add gelu)`.
std::string describe(const Launch &launch);
/// The path of the module whose text a launch computes, or the derivative of;
/// empty for the model itself, and where none is known.
std::string pathOf(const Launch &launch);
/// Multiplications and additions of a matrix product or attention; 0 for other
/// kernels.
int64_t productFlopsOf(const Launch &launch);
/// The same, but for other kernels one per op and element.
int64_t flopsOf(const Launch &launch);
/// Bytes of all that a launch reads and writes, each once.
int64_t bytesOf(const Launch &launch);

/// Bytes of one element in memory; booleans take a byte.
int64_t elementBytes(mlir::Type element);
/// A row-major view of a whole buffer.
View contiguousView(int buffer, mlir::RankedTensorType type);

} // namespace tfm

#endif // TFM_CODEGEN_SCHEDULE_SCHEDULE_H
