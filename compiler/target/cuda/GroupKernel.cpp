//===- GroupKernel.cpp - launches that one kernel runs --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/GroupKernel.h"

#include "compiler/schedule/Launches.h"
#include "compiler/schedule/View.h"
#include "compiler/target/cuda/BlockBuilder.h"
#include "compiler/target/cuda/MoveRows.h"
#include "compiler/target/cuda/RowKernel.h"
#include "compiler/target/cuda/RowProduct.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using namespace tfm::sched;

/// Points that all multiprocessors have a block of threads for.
static int64_t fewPoints() { return a100.multiprocessors * rowBlock; }

bool cuda::canBeInGroup(LaunchOp launch) {
  switch (launch.getKind()) {
  case KernelKind::Row:
    return launch.getRows() * launch.getCols() <=
               static_cast<uint64_t>(fewPoints()) &&
           isOfPoints(launch);
  case KernelKind::CacheUpdate:
    return true;
  case KernelKind::Matmul:
    return isRowProduct(ProductLaunch(launch));
  default:
    return false;
  }
}

bool cuda::isForEachBlock(LaunchOp rows, LaunchOp launch) {
  if (!isForBlock(rows) || rows.getRng() ||
      launch.getKind() != KernelKind::Matmul)
    return false;
  ProductLaunch product(launch);
  Value buffer = rows.getWrites().front().getDefiningOp<ViewOp>().getBuffer();
  auto isRead = [&](Value operand) {
    BlockArgument argument = argumentOf(operand);
    return argument && launch.getReads()[argument.getArgNumber()]
                               .getDefiningOp<ViewOp>()
                               .getBuffer() == buffer;
  };
  // Nothing of B may wait for it.
  return product.m == 1 && isRead(product.op.getA()) &&
         !isRead(product.op.getB());
}

namespace {

/// A launch of the group: first a kernel of its own, then a piece of the
/// group's.
struct Part {
  Part(LaunchOp launch, func::FuncOp kernel)
      : launch(launch), kernel(kernel), memory(kernel) {
    assert(kernel->getAttrOfType<DenseI32ArrayAttr>(blockAttribute)[0] ==
           rowBlock);
  }

  LaunchOp launch;
  func::FuncOp kernel;
  SharedMemory memory;
  /// Where that begins in the group's.
  int64_t memoryBegin = 0;
  /// The kernel's arguments in that of the group; null: memory of blocks.
  SmallVector<Value> arguments = {};

  int64_t blocks() {
    return kernel->getAttrOfType<DenseI64ArrayAttr>(gridAttribute)[0];
  }
  int64_t resident() {
    auto blocks = kernel->getAttrOfType<IntegerAttr>(residentAttribute);
    return blocks ? blocks.getInt() : 0;
  }
  /// Whether an argument points to memory of blocks.
  bool isOfBlocks(unsigned argument) {
    SmallVector<Value> views(launch.getReads());
    llvm::append_range(views, launch.getWrites());
    return argument < views.size() && tfm::isOfBlocks(views[argument]);
  }
};

class GroupKernel {
public:
  GroupKernel(ModuleOp module, StringRef name, GroupOp group)
      : module(module), name(name), group(group), builder(module.getContext()),
        k(builder, module, /*lanes=*/1) {
    k.loc = group.getLoc();
  }

  void emit() {
    makeParts();
    begin();
    Type i32 = builder.getI32Type();
    Value number = NVVM::BlockIdYOp::create(builder, k.loc, i32),
          block = NVVM::BlockIdXOp::create(builder, k.loc, i32);
    auto compare = [&](arith::CmpIPredicate predicate, Value x,
                       int64_t y) -> Value {
      Value other = arith::ConstantIntOp::create(builder, k.loc, i32, y);
      return arith::CmpIOp::create(builder, k.loc, predicate, x, other);
    };
    for (auto [i, part] : llvm::enumerate(shared)) {
      Value isHere =
          compare(arith::CmpIPredicate::eq, number, static_cast<int64_t>(i));
      if (part.blocks() != blocks)
        isHere = arith::AndIOp::create(
            builder, k.loc, isHere,
            compare(arith::CmpIPredicate::ult, block, part.blocks()));
      k.ifThen(isHere, [&] { insert(part); });
    }
    for (Part *part : parts())
      end(*part);
  }

private:
  SmallVector<Part *> parts() {
    SmallVector<Part *> all;
    if (own)
      all.push_back(&*own);
    llvm::append_range(all, llvm::make_pointer_range(shared));
    return all;
  }

  /// Emits the kernel of every launch.
  void makeParts() {
    auto nameOf = [&](const Twine &part) { return (name + "_" + part).str(); };
    auto kernelOf = [&](StringRef part) {
      return module.lookupSymbol<func::FuncOp>(part);
    };
    if (LaunchOp launch = group.getOwn()) {
      std::string part = nameOf("own");
      emitRowKernelForBlock(module, part, launch);
      own.emplace(launch, kernelOf(part));
    }
    for (auto [i, launch] : llvm::enumerate(group.getShared())) {
      std::string part = nameOf(Twine(i));
      if (launch.getKind() == KernelKind::Row)
        emitRowKernel(module, part, launch);
      else if (launch.getKind() == KernelKind::CacheUpdate)
        emitCacheUpdateKernel(module, part, launch);
      else
        emitRowProduct(module, part, ProductLaunch(launch),
                       /*firstApart=*/own.has_value());
      shared.emplace_back(launch, kernelOf(part));
      blocks = std::max(blocks, shared.back().blocks());
    }
  }

  /// Begins the kernel, with the arguments of all parts.
  void begin() {
    SmallVector<Type> types;
    SmallVector<DictionaryAttr> promises;
    for (Part *part : parts())
      for (BlockArgument argument : part->kernel.getArguments())
        if (unsigned i = argument.getArgNumber(); !part->isOfBlocks(i)) {
          types.push_back(argument.getType());
          promises.push_back(
              function_interface_impl::getArgAttrDict(part->kernel, i));
        }
    int64_t all = 0, resident = shared.front().resident();
    for (Part &part : shared) {
      all += part.blocks();
      resident = std::min(resident, part.resident());
    }
    if (all > resident * a100.multiprocessors)
      resident = 0;
    kernel = beginKernel(
        builder, module, name, types,
        {{blocks, static_cast<int64_t>(shared.size()), 1}, rowBlock, resident});
    kernel.setAllArgAttrs(promises);
    auto next = kernel.getArguments().begin();
    for (Part *part : parts())
      for (BlockArgument argument : part->kernel.getArguments())
        part->arguments.push_back(
            part->isOfBlocks(argument.getArgNumber()) ? Value() : *next++);
    memory.emplace(kernel);
    if (own)
      memory->add(
          viewOf(cast<MemRefType>(own->launch.getWrites().front().getType()))
              .spanBytes());
    auto roomFor = [&](int64_t bytes) {
      return bytes ? memory->add(bytes) : 0;
    };
    if (own)
      own->memoryBegin = roomFor(own->memory.bytes());
    // A block is one of these: they have the same bytes.
    int64_t most = 0;
    for (Part &part : shared)
      most = std::max(most, part.memory.bytes());
    int64_t begin = roomFor(most);
    for (Part &part : shared)
      part.memoryBegin = begin;
  }

  /// The ops of a part, in two pieces where it has a `gatherLoads`: its first
  /// loads, and the rest.
  class Inserter {
  public:
    Inserter(GroupKernel &group, Part &part)
        : builder(group.builder), next(part.kernel.front().begin()),
          end(part.kernel.front().getTerminator()->getIterator()) {
      for (auto [argument, value] :
           llvm::zip_equal(part.kernel.getArguments(), part.arguments)) {
        Value to = value;
        if (!to) // as pointers of kernels are, which say of no memory
          to = LLVM::AddrSpaceCastOp::create(builder, group.k.loc,
                                             group.k.ptrType,
                                             group.memory->from(group.k, 0));
        mapping.map(argument, to);
      }
    }
    void insertLoads() {
      insertTo(std::find_if(next, end, llvm::IsaPred<NVVM::MembarOp>));
      ++next; // a barrier holds them, too, and waits for none to arrive
    }
    void insertRest() { insertTo(end); }

  private:
    void insertTo(Block::iterator last) {
      for (; next != last; ++next)
        builder.clone(*next, mapping);
    }

    OpBuilder &builder;
    Block::iterator next, end;
    IRMapping mapping;
  };

  /// Inserts what a part does. What each block computes for itself is on its
  /// way before weights are, and computed while these are.
  void insert(Part &part) {
    if (!own)
      return Inserter(*this, part).insertRest();
    Inserter row(*this, *own), product(*this, part);
    row.insertLoads();
    product.insertLoads();
    // Else ptxas (CUDA 13) waits for the row before the last loads of weights.
    NVVM::Barrier0Op::create(builder, k.loc);
    row.insertRest();
    NVVM::Barrier0Op::create(builder, k.loc);
    product.insertRest();
  }

  /// Gives what was inserted of a part its place in the memory of all, and
  /// leaves nothing else of it.
  void end(Part &part) {
    if (LLVM::GlobalOp own = part.memory.global()) {
      kernel.walk([&](LLVM::AddressOfOp address) {
        if (address.getGlobalName() != own.getName())
          return;
        builder.setInsertionPoint(address);
        address.replaceAllUsesWith(memory->from(k, part.memoryBegin));
        address.erase();
      });
      own.erase();
    }
    part.kernel.erase();
  }

  ModuleOp module;
  StringRef name;
  GroupOp group;
  OpBuilder builder;
  KernelBuilder k;
  /// What each block computes for itself, and what blocks share.
  std::optional<Part> own;
  SmallVector<Part> shared;
  /// Of the part that has most.
  int64_t blocks = 0;
  func::FuncOp kernel;
  std::optional<SharedMemory> memory;
};

} // namespace

void cuda::emitGroupKernel(ModuleOp module, StringRef name, GroupOp group) {
  GroupKernel(module, name, group).emit();
}
