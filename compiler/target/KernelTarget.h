//===- KernelTarget.h - what is asked of a target ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_KERNELTARGET_H
#define TFM_TARGET_KERNELTARGET_H

#include "compiler/schedule/SchedDialect.h"
#include "compiler/schedule/View.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "runtime/tfm_model.h"
#include "llvm/Support/Error.h"

#include <array>
#include <future>
#include <memory>
#include <string>
#include <vector>

namespace llvm {
class Function;
class LLVMContext;
class Module;
class raw_pwrite_stream;
} // namespace llvm

namespace mlir {
class DialectRegistry;
class OpPassManager;
} // namespace mlir

namespace tfm {

/// A kernel of a device, and how it is launched (`tfm_kernel` of
/// runtime/tfm_model.h).
struct DeviceKernel {
  std::string name;
  std::array<uint32_t, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  uint32_t sharedBytes = 0, resident = 0, arguments = 0;
  std::vector<tfm_boxed_tensor> tensors = {};
  /// Of a form of another kernel that one: its name; else empty.
  std::string formOf;
};

/// The code of some kernels as a driver loads it (`tfm_image`).
struct DeviceImage {
  int32_t kind, major, minor;
  bool exact;
  /// Which kernels it has: a `tfm_image_part`.
  int16_t part = 0;
  std::string bytes;
};

/// Images that other threads are making. `get` waits for them, and fails after
/// an error at the module of their kernels.
using ImagesInWork = std::future<mlir::FailureOr<std::vector<DeviceImage>>>;

/// What a device is given, beside what the host runs.
struct DeviceCode {
  std::vector<DeviceKernel> kernels;
  /// Invalid where there is no device.
  ImagesInWork images;
};

/// A machine that kernels are made for. Whatever depends on it stands behind
/// this: the layouts that kernels take, how work is cut up, how a kernel is
/// computed, how a program launches its kernels, and the machine code.
///
/// A target is named `KIND`, as `--target` does, or `KIND:MACHINE`, with what
/// `--cpu` says: `cpu`, `cpu:znver4`. Without a machine it is the one that this
/// program runs on.
class KernelTarget {
public:
  virtual ~KernelTarget() = default;

  /// The target of that name, which lives as long as the program. Fails for a
  /// name that is none, with a message for the user.
  static llvm::Expected<const KernelTarget *> named(llvm::StringRef name);

  /// The same for passes: null after an error at `op`.
  static const KernelTarget *find(llvm::StringRef name, mlir::Operation *op);

  using Factory =
      llvm::Expected<std::unique_ptr<KernelTarget>> (*)(llvm::StringRef);
  /// Makes a kind of target known: `create` is given the machine's name,
  /// `native` where there is none. `portable` lists the machines that code for
  /// all is made for, separated by commas.
  static void add(llvm::StringRef kind, Factory create,
                  llvm::StringRef portable);

  /// The numbers of a model: what its products are computed in, and what
  /// generation stores weights and caches in.
  struct Numbers {
    mlir::FloatType precision;
    mlir::Type weights, cache;
  };
  /// Adds what is `faster` with such numbers than one of the targets of a list.
  static void addFaster(std::vector<const KernelTarget *> &targets,
                        const Numbers &numbers);

  /// The targets of a kind for a list of machines, separated by commas, where
  /// `portable` stands for several; those that need more come first. Fails for
  /// a name that is none or twice there, and for machines whose code cannot be
  /// in one file.
  static llvm::Expected<std::vector<const KernelTarget *>>
  variants(llvm::StringRef kind, llvm::StringRef machines);

  /// The one target of a kind for `machine`, for what only one can have
  /// (`what`: "a plan"). Fails where that lists several, too.
  static llvm::Expected<const KernelTarget *>
  one(llvm::StringRef kind, llvm::StringRef machine, llvm::StringRef what);

  //===--------------------------------------------------------------------===//
  // The machine
  //===--------------------------------------------------------------------===//

  /// What it was asked for by (`named`).
  llvm::StringRef name() const { return fullName; }
  /// `cpu`.
  virtual llvm::StringRef kind() const = 0;
  /// `znver4`; never `native`.
  virtual llvm::StringRef machine() const = 0;
  /// What a machine must have to run the code: LLVM's names of features,
  /// separated by commas (runtime/device/cpu_features.h for CPUs).
  virtual std::string features() const = 0;
  /// The machines with more features that are faster with such numbers: this
  /// one with all of its own, or one that this one stands for with others. What
  /// they need a program may be refused, so that a build has code for all.
  virtual std::vector<std::string> faster(const Numbers &numbers) const = 0;
  /// Everything that machine code depends on, as text, to tell two apart.
  virtual std::string identity() const = 0;
  /// Where programs for it run, as LLVM's triple.
  virtual llvm::StringRef triple() const = 0;

  //===--------------------------------------------------------------------===//
  // Before and while a model is scheduled
  //===--------------------------------------------------------------------===//

  /// Adds passes that give a prepared model, still in the tfm dialect, the form
  /// that suits its kernels.
  virtual void addTensorPasses(mlir::OpPassManager &passes) const = 0;

  /// Of how many tokens a prompt is read at a time: `longest`, with which
  /// products are about as fast as with any more, and for the rest of one
  /// `shorter`, which costs a part of that, and `few`, which take little longer
  /// than one token does. Where several texts grow together the rests of their
  /// prompts are read together, `segments` parts of `segment` tokens at a time.
  /// And what the rows of a ring of keys are a multiple of, so that kernels
  /// read several at a time.
  struct PromptChunks {
    int64_t longest, shorter, segment, segments, few, ringMultiple;
  };
  virtual PromptChunks promptChunks() const = 0;

  /// How many of the best logits of a token its functions give beside all of
  /// them, `least` to `most`, and how many there are in all at least where they
  /// do (tfm-add-candidates). 0 of a target whose logits the host reads anyway.
  struct Candidates {
    int64_t least = 0, most = 0, leastLogits = 0;
  };
  virtual Candidates candidates() const { return {}; }

  /// Whether a program can find out on its way which layers it runs
  /// (tfm-choose-layers).
  virtual bool choosesLayers() const { return false; }

  /// Whether a kernel scans rows: adds up what stands before each element.
  virtual bool scansRows() const { return false; }

  /// Whether processes that share the update of a training exchange rows from
  /// device to device, where a library adds them up in an order of its own;
  /// else the runtime does, in the memory of hosts.
  virtual bool exchangesOnDevices() const { return false; }

  /// How many outputs a panel has in which products read weights of 8 bits, of
  /// `mostTerms` terms at most: 0 where they read rows.
  struct WeightPanels {
    int64_t outputs = 0, mostTerms = 0;
  };
  virtual WeightPanels weightPanels() const { return {}; }
  /// The fewest rows of a chunk in which the loss over a vocabulary is
  /// computed, so that the logits of a whole batch are never there; 0: all rows
  /// at once.
  struct LossChunks {
    /// With its derivative.
    int64_t trained = 0;
    /// Without: a head is read for each chunk, and multiplies that many rows.
    int64_t evaluated = 256;
  };
  virtual LossChunks lossChunks() const { return {}; }
  /// Whether products read weights of bf16 fastest where the terms of an output
  /// follow each other.
  virtual bool readsWeightsByOutputs() const { return false; }

  /// Whether a kernel counts on what steps only read (`isOnlyRead`), so that
  /// one is not that of a step which writes there.
  virtual bool countsOnReads() const { return false; }

  /// From one row of `elements` to the next, of what products read and kernels
  /// compute: more elements than that where products bring rows faster that
  /// have gaps between them.
  virtual int64_t operandRowStride(mlir::Type, int64_t elements) const {
    return elements;
  }

  /// Whether a kernel may run a launch beside others that do not wait for it,
  /// each in blocks of its own (`sched.group`).
  virtual bool groups(sched::LaunchOp) const { return false; }
  /// Whether the blocks of a `launch` that may be in a group had better compute
  /// for themselves what they read of `rows`, than wait until a kernel has.
  virtual bool computesInBlocks(sched::LaunchOp /*rows*/,
                                sched::LaunchOp /*launch*/) const {
    return false;
  }

  /// Into how many chunks a sum over so many rows is cut: a number that depends
  /// on nothing else, so that neither do the bits of the sum.
  virtual int64_t chunksOf(int64_t rows) const = 0;

  //===--------------------------------------------------------------------===//
  // Costs, to compare what could be done
  //===--------------------------------------------------------------------===//

  /// About how many seconds one thread takes for a step of so many
  /// floating-point operations, which reads and writes so many bytes.
  virtual double stepSeconds(int64_t flops, int64_t bytes) const = 0;
  /// About how many seconds pass between the end of a step and the beginning of
  /// the next, where `threads` share both.
  virtual double handOverSeconds(int64_t threads) const = 0;

  /// A step that takes one thread less is not worth sharing: 0 where threads
  /// share no steps.
  virtual double smallStepSeconds() const { return 0; }

  /// What the products of a step are made of: a TFM_PRODUCTS_... of
  /// runtime/tfm_model.h.
  virtual llvm::StringRef productsOf(mlir::Operation *step) const = 0;

  //===--------------------------------------------------------------------===//
  // Code
  //===--------------------------------------------------------------------===//

  /// Adds the dialects that kernels are written in, and their translation to
  /// LLVM IR.
  virtual void registerDialects(mlir::DialectRegistry &registry) const = 0;

  /// Why it has no kernels for a scheduled model, in words for whoever wrote
  /// that, with the place; empty where it has.
  virtual std::string whyNot(mlir::ModuleOp) const { return ""; }

  /// Kernels may be made for operands that begin at multiples of so many bytes,
  /// and others for those that do not: steps that differ in it share none.
  virtual int64_t operandAlignment() const { return 1; }

  /// Emits the kernel of a launch, copy, fill or group as a function of that
  /// name into `kernels`; its arguments are what the step reads and writes, in
  /// the step's order, and then what docs/design.md lists under "Kernels".
  /// Returns the bytes of scratch that each thread needs for it. Fails, after
  /// an error at the step, where there is no kernel that does it.
  virtual mlir::FailureOr<int64_t> emitKernel(mlir::Operation *step,
                                              llvm::StringRef name,
                                              mlir::ModuleOp kernels) const = 0;

  /// Adds the passes that lower a module of kernels to the llvm dialect.
  virtual void addLoweringPasses(mlir::OpPassManager &passes) const = 0;

  /// Translates lowered kernels to the host's LLVM IR, in which every function
  /// says what machine it is for; null after an error at the module. Kernels
  /// of a device are not in it, but in `deviceCode`.
  virtual std::unique_ptr<llvm::Module>
  translate(mlir::ModuleOp kernels, llvm::LLVMContext &context) const = 0;

  /// The code of lowered kernels for a device with memory and a driver of its
  /// own; none where the host runs them. For a program (`assembled`) it comes
  /// in parts, with what takes an assembler beside the compiler, and its time;
  /// else as text, in as few images as there can be. Fails after an error at
  /// the module.
  virtual mlir::FailureOr<DeviceCode> deviceCode(mlir::ModuleOp,
                                                 bool /*assembled*/) const {
    return DeviceCode();
  }

  /// Adds the function that runs `program` (`tfm_function.run` of
  /// runtime/tfm_model.h), or queues its kernels on a device
  /// (`tfm_function.enqueue`), to the module of its translated kernels.
  virtual llvm::Function *emitProgram(sched::ProgramOp program,
                                      llvm::Module &module) const = 0;

  /// Optimises `module` and writes it as an object file.
  virtual llvm::Error writeObject(llvm::Module &module,
                                  llvm::raw_pwrite_stream &out) const = 0;
  /// The same as assembly, for tests and `--emit asm`.
  virtual llvm::Error writeAssembly(llvm::Module &module,
                                    llvm::raw_pwrite_stream &out) const = 0;

private:
  std::string fullName;
};

} // namespace tfm

#endif // TFM_TARGET_KERNELTARGET_H
