//===- BlockBuilder.cpp - a kernel of blocks of threads -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cuda/BlockBuilder.h"

#include "compiler/schedule/Launches.h"
#include "compiler/schedule/View.h"
#include "compiler/target/emit/GroupedTerms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace tfm;
using namespace tfm::cuda;
using sched::ViewOp;

/// Of the address spaces of NVPTX.
static constexpr unsigned globalSpace = 1, sharedSpace = 3, clusterSpace = 7;

void cuda::addHopperForm(ModuleOp module, StringRef name,
                         llvm::function_ref<void(StringRef)> emit) {
  std::string form = (name + hopperSuffix).str();
  emit(form);
  module.lookupSymbol(form)->setAttr(
      hopperFormAttribute, StringAttr::get(module.getContext(), name));
}

SmallVector<Operand> cuda::rowOperands(Operation *step) {
  SmallVector<Operand> found;
  for (auto [number, operand] : llvm::enumerate(step->getOperands()))
    if (auto view = operand.getDefiningOp<ViewOp>(); view && view.getRow())
      found.push_back({static_cast<unsigned>(number), view});
  return found;
}

Attribute BoxedTensor::toAttribute(MLIRContext *context) const {
  Builder b(context);
  return b.getDictionaryAttr(
      {b.getNamedAttr("argument", b.getI64IntegerAttr(argument)),
       b.getNamedAttr("sizes", b.getDenseI64ArrayAttr(sizes)),
       b.getNamedAttr("strides", b.getDenseI64ArrayAttr(strides)),
       b.getNamedAttr("box", b.getDenseI64ArrayAttr(box))});
}

BoxedTensor BoxedTensor::from(Attribute attribute) {
  auto fields = cast<DictionaryAttr>(attribute);
  auto numbers = [&](StringRef name) {
    return SmallVector<int64_t>(
        fields.getAs<DenseI64ArrayAttr>(name).asArrayRef());
  };
  return {fields.getAs<IntegerAttr>("argument").getInt(), numbers("sizes"),
          numbers("strides"), numbers("box")};
}

static SmallVector<Type> argumentTypes(Builder &builder, unsigned buffers,
                                       size_t rows) {
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  SmallVector<Type> arguments(buffers, pointer);
  arguments.push_back(MemRefType::get({4}, builder.getI32Type()));
  arguments.push_back(builder.getIndexType());
  arguments.append(rows, pointer);
  return arguments;
}

func::FuncOp cuda::beginKernel(OpBuilder &builder, ModuleOp module,
                               StringRef name, TypeRange arguments,
                               const Grid &grid) {
  builder.setInsertionPointToEnd(module.getBody());
  auto func =
      func::FuncOp::create(builder, module.getLoc(), name,
                           builder.getFunctionType(arguments, TypeRange()));
  func->setAttr(
      blockAttribute,
      builder.getDenseI32ArrayAttr({static_cast<int32_t>(grid.threads), 1, 1}));
  func->setAttr(gridAttribute, builder.getDenseI64ArrayAttr(grid.blocks));
  auto resident =
      builder.getI32IntegerAttr(static_cast<int32_t>(grid.resident));
  if (grid.resident > 0)
    func->setAttr(residentAttribute, resident);
  if (grid.persistent)
    func->setAttr(persistentAttribute, resident);
  Block *entry = func.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  auto end = func::ReturnOp::create(builder, module.getLoc());
  builder.setInsertionPoint(end);
  return func;
}

BlockBuilder::BlockBuilder(ModuleOp module, StringRef name, Operation *step,
                           unsigned buffers, const Grid &grid)
    : builder(module.getContext()),
      func(beginKernel(
          builder, module, name,
          argumentTypes(builder, buffers, rowOperands(step).size()), grid)),
      k(builder, module, /*lanes=*/1),
      arguments(func.getArgument(buffers), func.getArgument(buffers + 1)),
      module(module), grid(grid), ownMemory(func) {
  // Whoever finds a fault in it tells the line of the model.
  k.loc = step->getLoc();
  auto promise = [&](unsigned argument) {
    for (StringRef name : {LLVM::LLVMDialect::getNoAliasAttrName(),
                           LLVM::LLVMDialect::getReadonlyAttrName()})
      func.setArgAttr(argument, name, builder.getUnitAttr());
  };
  for (unsigned i = 0; i != buffers; ++i) {
    pointers.push_back(func.getArgument(i));
    if (isOnlyRead(step, i))
      promise(i);
  }
  promise(buffers); // rng
  unsigned next = buffers + 2;
  for (auto [number, view] : rowOperands(step)) {
    promise(next);
    Value row = k.loadInteger(func.getArgument(next++));
    pointers[number] = k.at(
        pointers[number], k.mul(row, static_cast<int64_t>(*view.getRowStep())),
        k.b.getI8Type());
  }
}

Value BlockBuilder::special(Value number) {
  return arith::ExtUIOp::create(k.b, k.loc, k.i64Type, number);
}

Value BlockBuilder::i32(Value number) {
  return arith::TruncIOp::create(k.b, k.loc, k.b.getI32Type(), number);
}

Value BlockBuilder::thread() {
  return special(NVVM::ThreadIdXOp::create(k.b, k.loc, k.b.getI32Type()));
}

Value BlockBuilder::block(unsigned axis) {
  if (grid.blocks[axis] == 1)
    return k.i64(0);
  Type i32 = k.b.getI32Type();
  switch (axis) {
  case 0:
    return special(NVVM::BlockIdXOp::create(k.b, k.loc, i32));
  case 1:
    return special(NVVM::BlockIdYOp::create(k.b, k.loc, i32));
  default:
    return special(NVVM::BlockIdZOp::create(k.b, k.loc, i32));
  }
}

Value BlockBuilder::launchedBlocks() {
  return special(NVVM::GridDimXOp::create(k.b, k.loc, k.b.getI32Type()));
}

Value BlockBuilder::everyThread() {
  if (grid.blocks[0] == 1)
    return thread();
  Type i32 = k.b.getI32Type();
  if (grid.blocks[0] * grid.threads > INT32_MAX)
    return k.add(k.mul(block(), grid.threads), thread());
  // Of 32 bits, so that it is divided in one instruction or two.
  Value first = arith::MulIOp::create(
      k.b, k.loc, NVVM::BlockIdXOp::create(k.b, k.loc, i32),
      arith::ConstantIntOp::create(k.b, k.loc, i32, grid.threads));
  return special(arith::AddIOp::create(
      k.b, k.loc, first, NVVM::ThreadIdXOp::create(k.b, k.loc, i32)));
}

void BlockBuilder::barrier() { NVVM::Barrier0Op::create(k.b, k.loc); }

void BlockBuilder::barrier(Value number, int64_t threads) {
  NVVM::BarrierOp::create(k.b, k.loc, TypeRange(), i32(number),
                          i32(k.i64(threads)), NVVM::BarrierReductionAttr(),
                          Value());
}

void BlockBuilder::arriveAtBarrier(Value number, int64_t threads) {
  NVVM::BarrierArriveOp::create(k.b, k.loc, i32(number), i32(k.i64(threads)));
}

void BlockBuilder::gatherLoads() {
  NVVM::MembarOp::create(k.b, k.loc, NVVM::MemScopeKind::CTA);
}

void BlockBuilder::holdLoads() {
  for (unsigned i = 0; i != func.getNumArguments(); ++i)
    func.setArgAttrs(i, DictionaryAttr::get(k.b.getContext()));
}

void BlockBuilder::warpBarrier() {
  NVVM::SyncWarpOp::create(
      k.b, k.loc,
      arith::ConstantIntOp::create(k.b, k.loc, k.b.getI32Type(), -1));
}

SharedMemory::SharedMemory(func::FuncOp kernel)
    : kernel(kernel),
      memory(kernel->getParentOfType<ModuleOp>().lookupSymbol<LLVM::GlobalOp>(
          name())) {}

std::string SharedMemory::name() {
  return (kernel.getName() + "_shared").str();
}

int64_t SharedMemory::bytes() {
  return memory ? static_cast<int64_t>(
                      cast<LLVM::LLVMArrayType>(memory.getGlobalType())
                          .getNumElements())
                : 0;
}

int64_t SharedMemory::add(int64_t more) {
  Builder b(kernel.getContext());
  auto first = static_cast<int64_t>(llvm::alignTo(bytes(), bankBytes));
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), first + more);
  if (memory) {
    memory.setGlobalType(type);
  } else {
    OpBuilder before(kernel);
    memory = LLVM::GlobalOp::create(before, kernel.getLoc(), type,
                                    /*isConstant=*/false,
                                    LLVM::Linkage::Internal, name(),
                                    Attribute(), /*alignment=*/16, sharedSpace);
  }
  return first;
}

Value SharedMemory::from(KernelBuilder &k, int64_t byte) {
  auto pointer = LLVM::LLVMPointerType::get(k.b.getContext(), sharedSpace);
  Value base = LLVM::AddressOfOp::create(k.b, k.loc, pointer, memory.getName());
  return k.at(base, byte, k.b.getI8Type());
}

Value BlockBuilder::shared(int64_t count) {
  return ownMemory.from(k, ownMemory.add(count * 4));
}

Value BlockBuilder::dynamicShared(int64_t bytes, int64_t alignment) {
  // Each kernel's own alignment, of what is one memory.
  std::string name = "dynamic_shared_" + std::to_string(alignment);
  auto pointer = LLVM::LLVMPointerType::get(k.b.getContext(), sharedSpace);
  if (!module.lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(k.b);
    k.b.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(
        k.b, module.getLoc(), LLVM::LLVMArrayType::get(k.b.getI8Type(), 0),
        /*isConstant=*/false, LLVM::Linkage::External, name, Attribute(),
        static_cast<uint64_t>(alignment), sharedSpace);
  }
  func->setAttr(sharedAttribute, k.b.getI64IntegerAttr(bytes));
  return LLVM::AddressOfOp::create(k.b, k.loc, pointer, name);
}

void BlockBuilder::copyAsync(Value to, Value from, int64_t bytes, Value count) {
  auto global = LLVM::LLVMPointerType::get(k.b.getContext(), globalSpace);
  from = LLVM::AddrSpaceCastOp::create(k.b, k.loc, global, from);
  if (count)
    count = arith::TruncIOp::create(k.b, k.loc, k.b.getI32Type(), count);
  // Copies of 16 bytes need not pass the first-level cache.
  NVVM::CpAsyncOp::create(k.b, k.loc, to, from, static_cast<uint32_t>(bytes),
                          bytes == 16 ? NVVM::LoadCacheModifierKind::CG
                                      : NVVM::LoadCacheModifierKind::CA,
                          count);
}

void BlockBuilder::commitCopies() {
  NVVM::CpAsyncCommitGroupOp::create(k.b, k.loc);
}

void BlockBuilder::awaitCopies(int64_t groups) {
  NVVM::CpAsyncWaitGroupOp::create(k.b, k.loc, static_cast<uint32_t>(groups));
}

Value BlockBuilder::boxed(const BoxedTensor &tensor) {
  MLIRContext *context = k.b.getContext();
  // 128 bytes that only the hardware understands, and the driver makes
  // ("Tensor-map"), in the arguments themselves.
  auto map = LLVM::LLVMArrayType::get(k.b.getI8Type(), 128);
  SmallVector<Attribute> tensors;
  if (auto before = func->getAttrOfType<ArrayAttr>(tensorsAttribute))
    llvm::append_range(tensors, before);
  tensors.push_back(tensor.toAttribute(context));
  func->setAttr(tensorsAttribute, k.b.getArrayAttr(tensors));
  unsigned number = func.getNumArguments();
  auto attributes = k.b.getDictionaryAttr(
      {k.b.getNamedAttr(LLVM::LLVMDialect::getByValAttrName(),
                        TypeAttr::get(map)),
       k.b.getNamedAttr(LLVM::LLVMDialect::getAlignAttrName(),
                        k.b.getI64IntegerAttr(128))});
  if (failed(func.insertArgument(number, LLVM::LLVMPointerType::get(context),
                                 attributes, k.loc)))
    llvm_unreachable("a function takes one argument more");
  return func.getArgument(number);
}

void BlockBuilder::copyBox(Value to, Value tensor, ArrayRef<Value> first,
                           Value barrier) {
  SmallVector<Value> coordinates;
  for (Value index : first)
    coordinates.push_back(i32(index));
  // This block is all of its cluster.
  auto cluster = LLVM::LLVMPointerType::get(k.b.getContext(), clusterSpace);
  NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
      k.b, k.loc, LLVM::AddrSpaceCastOp::create(k.b, k.loc, cluster, to),
      tensor, coordinates, barrier, /*im2colOffsets=*/ValueRange(),
      /*multicastMask=*/Value(), /*l2CacheHint=*/Value(),
      NVVM::TMALoadMode::TILE, /*isCTAOnly=*/false,
      /*group=*/NVVM::CTAGroupKindAttr(), /*predicate=*/Value());
}

void BlockBuilder::prefetch(Value from, Value bytes) {
  auto global = LLVM::LLVMPointerType::get(k.b.getContext(), globalSpace);
  NVVM::CpAsyncBulkPrefetchOp::create(
      k.b, k.loc, LLVM::AddrSpaceCastOp::create(k.b, k.loc, global, from),
      i32(bytes), /*l2CacheHint=*/Value());
}

void BlockBuilder::makeBarrier(Value barrier, int64_t arrivals) {
  NVVM::MBarrierInitOp::create(k.b, k.loc, barrier, i32(k.i64(arrivals)),
                               /*predicate=*/Value());
}

void BlockBuilder::fenceBarriers() {
  NVVM::FenceMbarrierInitOp::create(k.b, k.loc);
}

void BlockBuilder::arrive(Value barrier) {
  NVVM::MBarrierArriveOp::create(k.b, k.loc, k.i64Type, barrier,
                                 /*count=*/Value());
}

void BlockBuilder::arriveBefore(Value barrier, int64_t bytes) {
  NVVM::MBarrierArriveExpectTxOp::create(
      k.b, k.loc, /*res=*/k.i64Type, barrier, i32(k.i64(bytes)),
      NVVM::MemScopeKind::CTA, /*relaxed=*/false, /*predicate=*/Value());
}

void BlockBuilder::await(Value barrier, Value parity) {
  // Nanoseconds until it looks again by itself.
  constexpr int64_t patience = 10'000'000;
  NVVM::MBarrierTryWaitParityOp::create(k.b, k.loc, barrier, i32(parity),
                                        i32(k.i64(patience)));
}

void BlockBuilder::divideWork(const Gpu &gpu,
                              llvm::function_ref<void()> multiply,
                              llvm::function_ref<void()> bring) {
  // Who multiplies has sums in registers, of which the others need few.
  constexpr int64_t few = 32, most = 240, granule = 8;
  int64_t multiplying = threads() - warpgroupThreads;
  int64_t all = std::min(gpu.registers / (resident() * threads()), most) /
                granule * granule;
  int64_t rest = threads() * all - warpgroupThreads * few;
  int64_t many = std::min(rest / multiplying, most) / granule * granule;
  k.ifThen(
      k.less(thread(), k.i64(multiplying)),
      [&] {
        takeRegisters(many);
        multiply();
      },
      [&] {
        giveRegisters(few);
        k.ifThen(k.equal(thread(), k.i64(multiplying)), [&] { bring(); });
      });
}

void BlockBuilder::takeRegisters(int64_t count) {
  NVVM::SetMaxRegisterOp::create(k.b, k.loc, static_cast<uint32_t>(count),
                                 NVVM::SetMaxRegisterAction::increase);
}

void BlockBuilder::giveRegisters(int64_t count) {
  NVVM::SetMaxRegisterOp::create(k.b, k.loc, static_cast<uint32_t>(count),
                                 NVVM::SetMaxRegisterAction::decrease);
}

Value BlockBuilder::fromLane(Value x, int64_t distance) {
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(k.b, k.loc, k.b.getI32Type(), value);
  };
  return NVVM::ShflOp::create(k.b, k.loc, x.getType(), number(-1), x,
                              number(distance), number(warpSize - 1),
                              NVVM::ShflKind::bfly, UnitAttr());
}

Value BlockBuilder::ballot(Value condition) {
  Type i32 = k.b.getI32Type();
  Value all = arith::ConstantIntOp::create(k.b, k.loc, i32, -1);
  return NVVM::VoteSyncOp::create(k.b, k.loc, i32, all, condition,
                                  NVVM::VoteSyncKind::ballot);
}

Value BlockBuilder::reduceLanes(Value x, int64_t width, Combine combine) {
  for (int64_t distance = width / 2; distance > 0; distance /= 2)
    x = combine(x, fromLane(x, distance));
  return x;
}

Value BlockBuilder::reduceBlock(Value x, double neutral, Combine combine) {
  x = reduceLanes(x, warpSize, combine);
  int64_t warps = grid.threads / warpSize;
  if (warps == 1)
    return x;
  Value partial = shared(warps), own = lane();
  k.ifThen(k.equal(own, k.i64(0)),
           [&] { k.storeScalar(x, k.at(partial, warp())); });
  barrier();
  Value clamped = k.min(own, k.i64(warps - 1));
  Value part = orElse(k.less(own, k.i64(warps)),
                      k.loadScalar(k.at(partial, clamped)), neutral);
  return reduceLanes(part, warpSize, combine);
}

Value BlockBuilder::loadFloat(Value ptr, Type element) {
  auto load = [&](Type type) -> Value {
    return LLVM::LoadOp::create(k.b, k.loc, type, ptr,
                                static_cast<unsigned>(elementBytes(element)));
  };
  if (element.isF32())
    return load(element);
  if (element.isBF16())
    return tfm::loadBf16(k, ptr);
  Value number = load(element);
  return arith::SIToFPOp::create(k.b, k.loc, k.f32Type, number);
}

void BlockBuilder::storeFloat(Value x, Value ptr, Type element) {
  if (element.isBF16())
    x = arith::BitcastOp::create(
        k.b, k.loc, k.b.getIntegerType(16),
        arith::TruncFOp::create(k.b, k.loc, k.bf16Type, x));
  LLVM::StoreOp::create(k.b, k.loc, x, ptr,
                        static_cast<unsigned>(elementBytes(element)));
}

Value BlockBuilder::orElse(Value condition, Value x, double other) {
  return k.select(condition, x, k.splat(other));
}

Value BlockBuilder::both(Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  return arith::AndIOp::create(k.b, k.loc, x, y);
}

Value BlockBuilder::exclusiveOr(Value x, Value y) {
  return arith::XOrIOp::create(k.b, k.loc, x, y);
}

SmallVector<Value> BlockBuilder::loadVector(Value ptr, int64_t count) {
  auto type = VectorType::get({count}, k.f32Type);
  Value loaded = LLVM::LoadOp::create(k.b, k.loc, type, ptr,
                                      static_cast<unsigned>(count * 4));
  SmallVector<Value> values;
  for (int64_t i = 0; i != count; ++i)
    values.push_back(
        LLVM::ExtractElementOp::create(k.b, k.loc, loaded, k.i64(i)));
  return values;
}

void BlockBuilder::storeVector(ValueRange values, Value ptr) {
  auto count = static_cast<int64_t>(values.size());
  auto type = VectorType::get({count}, k.f32Type);
  Value vector = LLVM::PoisonOp::create(k.b, k.loc, type);
  for (int64_t i = 0; i != count; ++i)
    vector =
        LLVM::InsertElementOp::create(k.b, k.loc, vector, values[i], k.i64(i));
  LLVM::StoreOp::create(k.b, k.loc, vector, ptr,
                        static_cast<unsigned>(count * 4));
}

void BlockBuilder::multiplyFragments(ValueRange x, ValueRange y,
                                     MutableArrayRef<Value> sums) {
  auto type = LLVM::LLVMStructType::getLiteral(
      k.b.getContext(), SmallVector<Type>(sums.size(), k.f32Type));
  Value result = NVVM::MmaOp::create(
      k.b, k.loc, type, x, y, ValueRange(sums), {16, 8, 16}, std::nullopt,
      std::nullopt, std::array{NVVM::MMATypes::bf16, NVVM::MMATypes::bf16},
      std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
  for (auto [i, sum] : llvm::enumerate(sums))
    sum = LLVM::ExtractValueOp::create(k.b, k.loc, result,
                                       static_cast<int64_t>(i));
}

void BlockBuilder::multiplyWarpgroup(ArrayRef<WarpgroupStep> steps,
                                     bool aAlongTerms, bool bAlongTerms,
                                     MutableArrayRef<Value> sums,
                                     bool fromZero) {
  MLIRContext *context = k.b.getContext();
  constexpr size_t sumsOfColumn = 2; // of 64 by 8 each thread has 4
  const size_t parts = steps.front().b.size(), ofPart = sums.size() / parts;
  auto type = LLVM::LLVMStructType::getLiteral(
      context, SmallVector<Type>(ofPart, k.f32Type));
  SmallVector<Value> all(parts, LLVM::PoisonOp::create(k.b, k.loc, type));
  if (!fromZero)
    for (auto [i, sum] : llvm::enumerate(sums))
      all[i / ofPart] = LLVM::InsertValueOp::create(
          k.b, k.loc, all[i / ofPart], sum, static_cast<int64_t>(i % ofPart));
  // A lies [M, K] and B [N, K] where terms follow each other.
  auto layout = [](bool isRow) {
    return isRow ? NVVM::MMALayout::row : NVVM::MMALayout::col;
  };
  NVVM::WgmmaFenceAlignedOp::create(k.b, k.loc);
  auto shape = NVVM::MMAShapeAttr::get(
      context, 64, static_cast<int>(ofPart * sumsOfColumn), 16);
  for (auto [number, step] : llvm::enumerate(steps)) {
    auto scale = fromZero && number == 0 ? NVVM::WGMMAScaleOut::zero
                                         : NVVM::WGMMAScaleOut::one;
    for (auto [part, b] : llvm::zip_equal(all, step.b))
      if (step.a.size() == 1)
        part = NVVM::WgmmaMmaAsyncOp::create(
            k.b, k.loc, type, part, step.a.front(), b, shape,
            NVVM::WGMMATypes::bf16, NVVM::WGMMATypes::bf16,
            NVVM::WGMMATypes::f32, scale, NVVM::WGMMAScaleIn::one,
            NVVM::WGMMAScaleIn::one, layout(aAlongTerms), layout(!bAlongTerms),
            NVVM::MMAIntOverflowAttr());
      else
        part = multiplyRegisters(part, step.a, b, bAlongTerms);
  }
  NVVM::WgmmaGroupSyncAlignedOp::create(k.b, k.loc);
  for (auto [i, sum] : llvm::enumerate(sums))
    sum = LLVM::ExtractValueOp::create(k.b, k.loc, all[i / ofPart],
                                       static_cast<int64_t>(i % ofPart));
}

void BlockBuilder::awaitProducts(int64_t groups) {
  NVVM::WgmmaWaitGroupSyncOp::create(k.b, k.loc, static_cast<uint64_t>(groups));
}

/// What assembly takes and gives in the same registers, of f32.
static std::pair<std::string, std::string> inPlace(size_t count) {
  std::string results, operands;
  for (size_t i = 0; i != count; ++i) {
    results += "=f,";
    operands += std::to_string(i) + ",";
  }
  return {results, operands};
}

/// Of A in registers, which the nvvm dialect has no op for.
Value BlockBuilder::multiplyRegisters(Value sums, ValueRange a, Value b,
                                      bool bAlongTerms) {
  auto type = cast<LLVM::LLVMStructType>(sums.getType());
  size_t count = type.getBody().size();
  SmallVector<Value> operands;
  std::string ofSums, ofA;
  for (size_t i = 0; i != count; ++i) {
    operands.push_back(LLVM::ExtractValueOp::create(k.b, k.loc, sums,
                                                    static_cast<int64_t>(i)));
    ofSums += (i ? ", $" : "$") + std::to_string(i);
  }
  for (size_t i = 0; i != a.size(); ++i)
    ofA += (i ? ", $" : "$") + std::to_string(2 * count + i);
  operands.append(a.begin(), a.end());
  operands.push_back(b);
  std::string text = "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n" +
                     std::to_string(count * 2) + "k16.f32.bf16.bf16 {" +
                     ofSums + "}, {" + ofA + "}, $" +
                     std::to_string(2 * count + a.size()) + ", p, 1, 1, " +
                     (bAlongTerms ? "0" : "1") + ";\n}";
  auto [results, same] = inPlace(count);
  return LLVM::InlineAsmOp::create(
             k.b, k.loc, type, operands, text, results + same + "r,r,r,r,l",
             /*has_side_effects=*/true, /*is_align_stack=*/false,
             LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr())
      .getResult(0);
}

void BlockBuilder::awaitProducts(MutableArrayRef<Value> sums, int64_t groups) {
  // The instruction has no operands; in assembly it takes and gives all sums.
  auto [results, operands] = inPlace(sums.size());
  std::string text =
      "wgmma.wait_group.sync.aligned " + std::to_string(groups) + ";";
  auto type = LLVM::LLVMStructType::getLiteral(
      k.b.getContext(), SmallVector<Type>(sums.size(), k.f32Type));
  Value waited =
      LLVM::InlineAsmOp::create(
          k.b, k.loc, type, ValueRange(sums), text,
          results + operands + "~{memory}", /*has_side_effects=*/true,
          /*is_align_stack=*/false, LLVM::TailCallKind::None,
          /*asm_dialect=*/LLVM::AsmDialectAttr(), /*operand_attrs=*/ArrayAttr())
          .getResult(0);
  for (auto [i, sum] : llvm::enumerate(sums))
    sum = LLVM::ExtractValueOp::create(k.b, k.loc, waited,
                                       static_cast<int64_t>(i));
}

Value BlockBuilder::packBf16(Value low, Value high) {
  auto pair = VectorType::get({2}, k.bf16Type);
  Value rounded = NVVM::ConvertF32x2ToBF16x2Op::create(
      k.b, k.loc, pair, high, low, Value(), NVVM::FPRoundingMode::RN);
  return LLVM::BitcastOp::create(k.b, k.loc, k.b.getI32Type(), rounded);
}
