//===- KernelBuilder.cpp - short spellings for the IR of kernels ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/emit/KernelBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;

KernelBuilder::KernelBuilder(OpBuilder &builder, ModuleOp module, int64_t lanes)
    : b(builder), loc(module.getLoc()), lanes(lanes),
      ptrType(LLVM::LLVMPointerType::get(builder.getContext())),
      i64Type(builder.getI64Type()), f32Type(builder.getF32Type()),
      bf16Type(builder.getBF16Type()),
      vecType(VectorType::get({lanes}, f32Type)),
      maskType(VectorType::get({lanes}, builder.getI1Type())), module(module) {}

Type KernelBuilder::registerOf(Type element) const {
  return lanes == 1 ? element : Type(VectorType::get({lanes}, element));
}
Value KernelBuilder::broadcast(Value scalar) {
  if (lanes == 1)
    return scalar;
  return vector::BroadcastOp::create(b, loc, registerOf(scalar.getType()),
                                     scalar);
}
Value KernelBuilder::broadcast(int64_t value) {
  if (lanes == 1)
    return i64(value);
  auto type = VectorType::get({lanes}, i64Type);
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, value));
}

Value KernelBuilder::i64(int64_t value) {
  return arith::ConstantIntOp::create(b, loc, i64Type, value);
}
Value KernelBuilder::i1(bool value) {
  return arith::ConstantIntOp::create(b, loc, b.getI1Type(), value);
}
Value KernelBuilder::splat(double value) {
  if (lanes == 1)
    return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value));
  return arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(vecType, static_cast<float>(value)));
}
Value KernelBuilder::splat(Value scalar) { return broadcast(scalar); }

Value KernelBuilder::add(Value x, Value y) {
  return b.createOrFold<arith::AddIOp>(loc, x, y);
}
Value KernelBuilder::sub(Value x, Value y) {
  return b.createOrFold<arith::SubIOp>(loc, x, y);
}
Value KernelBuilder::mul(Value x, Value y) {
  return b.createOrFold<arith::MulIOp>(loc, x, y);
}
Value KernelBuilder::div(Value x, Value y) {
  return b.createOrFold<arith::DivUIOp>(loc, x, y);
}
Value KernelBuilder::rem(Value x, Value y) {
  return b.createOrFold<arith::RemUIOp>(loc, x, y);
}
Value KernelBuilder::min(Value x, Value y) {
  return b.createOrFold<arith::MinSIOp>(loc, x, y);
}
Value KernelBuilder::max(Value x, Value y) {
  return b.createOrFold<arith::MaxSIOp>(loc, x, y);
}
Value KernelBuilder::less(Value x, Value y) {
  return b.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::slt, x, y);
}
Value KernelBuilder::equal(Value x, Value y) {
  return b.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, x, y);
}
Value KernelBuilder::select(Value condition, Value x, Value y) {
  return b.createOrFold<arith::SelectOp>(loc, condition, x, y);
}

Value KernelBuilder::addf(Value x, Value y) {
  return arith::AddFOp::create(b, loc, x, y);
}
Value KernelBuilder::subf(Value x, Value y) {
  return arith::SubFOp::create(b, loc, x, y);
}
Value KernelBuilder::mulf(Value x, Value y) {
  return arith::MulFOp::create(b, loc, x, y);
}
Value KernelBuilder::divf(Value x, Value y) {
  return arith::DivFOp::create(b, loc, x, y);
}
Value KernelBuilder::quotient(Value x, Value y) {
  auto flags =
      lanes == 1 ? arith::FastMathFlags::afn : arith::FastMathFlags::none;
  return arith::DivFOp::create(b, loc, x, y, flags);
}
Value KernelBuilder::maxf(Value x, Value y) {
  // One instruction; no operand is NaN unless the result is meaningless anyway.
  return arith::MaxNumFOp::create(
      b, loc, x, y, arith::FastMathFlags::nnan | arith::FastMathFlags::nsz);
}
Value KernelBuilder::fma(Value x, Value y, Value z) {
  return LLVM::FMAOp::create(b, loc, x.getType(), x, y, z);
}

Value KernelBuilder::toIndex(Value x) {
  return b.createOrFold<arith::IndexCastOp>(loc, b.getIndexType(), x);
}
Value KernelBuilder::toI64(Value x) {
  return b.createOrFold<arith::IndexCastOp>(loc, i64Type, x);
}

Value KernelBuilder::pointer(Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  int64_t offset = 0;
  SmallVector<int64_t> strides;
  if (failed(type.getStridesAndOffset(strides, offset)))
    llvm::report_fatal_error("a kernel's memory has no strides");
  Value address =
      memref::ExtractAlignedPointerAsIndexOp::create(b, loc, memref);
  Value base = LLVM::IntToPtrOp::create(b, loc, ptrType, toI64(address));
  return at(base, offset, type.getElementType());
}
Value KernelBuilder::at(Value ptr, Value offset, Type element) {
  return LLVM::GEPOp::create(b, loc, ptr.getType(), element ? element : f32Type,
                             ptr, ValueRange{offset});
}
Value KernelBuilder::at(Value ptr, int64_t offset, Type element) {
  if (offset == 0)
    return ptr;
  // Constant indices of a getelementptr are 32 bits wide.
  if (!llvm::isInt<32>(offset))
    return at(ptr, i64(offset), element);
  return LLVM::GEPOp::create(
      b, loc, ptr.getType(), element ? element : f32Type, ptr,
      ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
}

Value KernelBuilder::loadScalar(Value ptr) {
  return LLVM::LoadOp::create(b, loc, f32Type, ptr, /*alignment=*/4);
}
Value KernelBuilder::loadInteger(Value ptr) {
  Value loaded =
      LLVM::LoadOp::create(b, loc, b.getI32Type(), ptr, /*alignment=*/4);
  return arith::ExtSIOp::create(b, loc, i64Type, loaded);
}
Value KernelBuilder::splatInteger(Value ptr) {
  Type i32 = b.getI32Type();
  Value scalar = LLVM::LoadOp::create(b, loc, i32, ptr, /*alignment=*/4);
  return vector::BroadcastOp::create(b, loc, vecType.clone(i32), scalar);
}
void KernelBuilder::storeScalar(Value value, Value ptr) {
  LLVM::StoreOp::create(b, loc, value, ptr, /*alignment=*/4);
}
/// The type in which a vector passes between registers and memory: LLVM rounds
/// bf16 that it moves lane by lane, by calls where the processor cannot.
static VectorType movedType(VectorType type) {
  Type element = type.getElementType();
  return element.isBF16() ? type.clone(IntegerType::get(type.getContext(), 16))
                          : type;
}
Value KernelBuilder::loadAs(VectorType type, Value ptr, Value mask) {
  VectorType moved = movedType(type);
  unsigned alignment = type.getElementTypeBitWidth() / 8;
  Value loaded;
  if (!mask) {
    loaded = LLVM::LoadOp::create(b, loc, moved, ptr, alignment);
  } else {
    Value zeros = arith::ConstantOp::create(b, loc, b.getZeroAttr(moved));
    loaded = LLVM::MaskedLoadOp::create(b, loc, moved, ptr, mask, zeros,
                                        b.getI32IntegerAttr(alignment));
  }
  return moved == type ? loaded
                       : arith::BitcastOp::create(b, loc, type, loaded);
}
Value KernelBuilder::load(Value ptr, Value mask, Type element) {
  return toF32(loadAs(element ? vecType.clone(element) : vecType, ptr, mask));
}
void KernelBuilder::store(Value value, Value ptr, Value mask, Type element) {
  if (element && element.isBF16())
    value = toBf16(value);
  auto type = cast<VectorType>(value.getType());
  VectorType moved = movedType(type);
  if (moved != type)
    value = arith::BitcastOp::create(b, loc, moved, value);
  unsigned alignment = type.getElementTypeBitWidth() / 8;
  if (!mask)
    LLVM::StoreOp::create(b, loc, value, ptr, alignment);
  else
    LLVM::MaskedStoreOp::create(b, loc, value, ptr, mask,
                                b.getI32IntegerAttr(alignment));
}
void KernelBuilder::prefetch(Value ptr, int64_t level) {
  LLVM::Prefetch::create(b, loc, ptr, /*rw=*/0, /*hint=*/4 - level,
                         /*cache=*/1);
}
Value KernelBuilder::toBf16(Value x) {
  auto type = cast<VectorType>(x.getType());
  return type.getElementType().isBF16()
             ? x
             : arith::TruncFOp::create(b, loc, type.clone(bf16Type), toF32(x));
}
Value KernelBuilder::toF32(Value x) {
  auto type = cast<VectorType>(x.getType());
  if (type.getElementType().isF32())
    return x;
  VectorType wide = type.clone(f32Type);
  if (type.getElementType().isInteger())
    return arith::SIToFPOp::create(b, loc, wide, x);
  return arith::ExtFOp::create(b, loc, wide, x);
}
Value KernelBuilder::maskOf(Value count, int64_t size) {
  if (size == 0)
    size = lanes;
  auto type = VectorType::get({size}, b.getI32Type());
  SmallVector<int32_t> numbers(size);
  for (int64_t i = 0; i < size; ++i)
    numbers[i] = static_cast<int32_t>(i);
  Value iota = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(type, ArrayRef<int32_t>(numbers)));
  Value clamped = min(max(count, i64(0)), i64(size));
  Value narrow = arith::TruncIOp::create(b, loc, b.getI32Type(), clamped);
  Value all = vector::BroadcastOp::create(b, loc, type, narrow);
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, iota, all);
}

Value KernelBuilder::within(Value first, Value count) {
  Value below = maskOf(sub(i64(0), first)), upTo = maskOf(sub(count, first));
  Value all =
      arith::ConstantOp::create(b, loc, DenseElementsAttr::get(maskType, true));
  return arith::AndIOp::create(b, loc, upTo,
                               arith::XOrIOp::create(b, loc, below, all));
}

Value KernelBuilder::shuffle(Value x, Value y, ArrayRef<int64_t> lanesOfBoth) {
  return vector::ShuffleOp::create(b, loc, x, y, lanesOfBoth);
}

/// The bits of a register's number and of a lane's trade places one by one: for
/// each two registers that differ in one bit of their number are shuffled.
/// Lanes that lie in the same 128 bits take turns, as processors' instructions
/// have it, and then whole ones of 128 bits change places.
void KernelBuilder::transpose(MutableArrayRef<Value> registers) {
  Type element = cast<VectorType>(registers.front().getType()).getElementType();
  int64_t inner = std::min<int64_t>(
      lanes, 128 / static_cast<int64_t>(element.getIntOrFloatBitWidth()));
  auto swap = [&](int64_t bit, ArrayRef<int64_t> low, ArrayRef<int64_t> high) {
    for (int64_t i = 0; i < lanes; ++i) {
      if (i & bit)
        continue;
      Value x = registers[i], y = registers[i + bit];
      registers[i] = shuffle(x, y, low);
      registers[i + bit] = shuffle(x, y, high);
    }
  };
  SmallVector<int64_t> low, high;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    int64_t of = lane / inner * inner + lane % inner / 2 + lane % 2 * lanes;
    low.push_back(of);
    high.push_back(of + inner / 2);
  }
  for (int64_t bit = inner / 2; bit > 0; bit /= 2)
    swap(bit, low, high);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    // Every second 128 bits of both, one register after the other.
    int64_t of = lane / inner * 2 * inner + lane % inner;
    low[lane] = of;
    high[lane] = of + inner;
  }
  for (int64_t bit = inner; bit < lanes; bit *= 2)
    swap(bit, low, high);
}

static scf::ForOp makeLoop(KernelBuilder &k, Value from, Value to, Value step,
                           ValueRange init, KernelBuilder::LoopBody body) {
  return scf::ForOp::create(
      k.b, k.loc, from, to, step, init,
      [&](OpBuilder &, Location, Value i, ValueRange carried) {
        // The body builds with `b`; leave it where the loop wants it.
        scf::YieldOp::create(k.b, k.loc, body(i, carried));
      });
}

SmallVector<Value> KernelBuilder::loop(Value from, Value to, Value step,
                                       ValueRange init, LoopBody body) {
  return SmallVector<Value>(
      makeLoop(*this, from, to, step, init, body).getResults());
}
void KernelBuilder::loop(Value from, Value to, int64_t step,
                         llvm::function_ref<void(Value)> body) {
  loop(from, to, step, {}, [&](Value i, ValueRange) {
    body(i);
    return SmallVector<Value>();
  });
}
SmallVector<Value> KernelBuilder::rolledLoop(Value from, Value to, int64_t step,
                                             ValueRange init, LoopBody body) {
  scf::ForOp loop = makeLoop(*this, from, to, i64(step), init, body);
  MLIRContext *context = b.getContext();
  auto unroll = LLVM::LoopUnrollAttr::get(context, b.getBoolAttr(true), {}, {},
                                          {}, {}, {}, {});
  auto annotation = LLVM::LoopAnnotationAttr::get(
      context, {}, {}, {}, unroll, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {});
  loop->setAttr("llvm.loop_annotation", annotation);
  return SmallVector<Value>(loop.getResults());
}
void KernelBuilder::rolledLoop(Value from, Value to, int64_t step,
                               llvm::function_ref<void(Value)> body) {
  rolledLoop(from, to, step, {}, [&](Value i, ValueRange) {
    body(i);
    return SmallVector<Value>();
  });
}
void KernelBuilder::ifThen(Value condition, llvm::function_ref<void()> then,
                           llvm::function_ref<void()> otherwise) {
  auto yield = [&](llvm::function_ref<void()> part) {
    return [this, part](OpBuilder &, Location) {
      part();
      scf::YieldOp::create(b, loc);
    };
  };
  if (otherwise)
    scf::IfOp::create(b, loc, condition, yield(then), yield(otherwise));
  else
    scf::IfOp::create(b, loc, condition, yield(then));
}

SmallVector<Value> KernelBuilder::either(Value condition, Branch then,
                                         Branch otherwise) {
  auto yield = [&](Branch part) {
    return [this, part](OpBuilder &, Location) {
      scf::YieldOp::create(b, loc, part());
    };
  };
  auto branch =
      scf::IfOp::create(b, loc, condition, yield(then), yield(otherwise));
  return SmallVector<Value>(branch.getResults());
}

std::pair<Value, Value> KernelBuilder::share(Value count, Value thread,
                                             Value threads) {
  return {div(mul(count, thread), threads),
          div(mul(count, add(thread, 1)), threads)};
}

func::FuncOp KernelBuilder::sharedFunction(
    StringRef name, ArrayRef<Type> arguments,
    llvm::function_ref<void(KernelBuilder &, ValueRange)> body) {
  auto symbols = cast<ModuleOp>(module);
  if (auto existing = symbols.lookupSymbol<func::FuncOp>(name))
    return existing;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(symbols.getBody());
  auto function = func::FuncOp::create(
      b, loc, name, b.getFunctionType(arguments, TypeRange()));
  function.setPrivate();
  function->setAttr(
      "llvm.linkage",
      LLVM::LinkageAttr::get(b.getContext(), LLVM::Linkage::Internal));
  Block *entry = function.addEntryBlock();
  b.setInsertionPointToStart(entry);
  body(*this, entry->getArguments());
  func::ReturnOp::create(b, loc);
  return function;
}
void KernelBuilder::call(func::FuncOp function, ValueRange arguments) {
  func::CallOp::create(b, loc, function, arguments);
}

func::FuncOp tfm::beginKernel(OpBuilder &builder, ModuleOp module,
                              StringRef name, ArrayRef<Type> buffers,
                              int64_t scratchBytes) {
  Location loc = module.getLoc();
  SmallVector<Type> arguments(buffers);
  Type index = builder.getIndexType();
  arguments.push_back(MemRefType::get({4}, builder.getI32Type()));
  arguments.push_back(index);
  arguments.push_back(MemRefType::get({std::max<int64_t>(scratchBytes, 1)},
                                      builder.getIntegerType(8)));
  arguments.push_back(index);
  arguments.push_back(index);
  builder.setInsertionPointToEnd(module.getBody());
  auto kernel = func::FuncOp::create(
      builder, loc, name, builder.getFunctionType(arguments, TypeRange()));
  // Nothing that a kernel writes overlaps the random state, so that it is read
  // once and not after every store.
  unsigned rng = buffers.size();
  for (StringRef promise : {"llvm.noalias", "llvm.readonly"})
    kernel.setArgAttr(rng, promise, builder.getUnitAttr());
  Block *entry = kernel.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  auto end = func::ReturnOp::create(builder, loc);
  builder.setInsertionPoint(end);
  return kernel;
}

KernelArguments::KernelArguments(func::FuncOp kernel) {
  unsigned first = kernel.getNumArguments() - 5;
  rng = kernel.getArgument(first);
  layer = kernel.getArgument(first + 1);
  scratch = kernel.getArgument(first + 2);
  thread = kernel.getArgument(first + 3);
  threads = kernel.getArgument(first + 4);
}
