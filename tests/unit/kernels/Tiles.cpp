//===- Tiles.cpp - AMX where there is none --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/kernels/Tiles.h"

#include "compiler/target/cpu/TileKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "gtest/gtest.h"

#include <array>
#include <cstring>
#include <numeric>

using namespace mlir;
using namespace tfm;

namespace {

/// Rows of 16 slots of 32 bits: an f32 or an i32, two bf16 or four integers.
using Tile = uint32_t[tileSide][tileSide];
thread_local Tile tiles[8];

void zero(uint8_t tile) { std::memset(tiles[tile], 0, sizeof(Tile)); }

void load(uint8_t tile, const char *from, int64_t stride) {
  for (int64_t row = 0; row < tileSide; ++row)
    std::memcpy(tiles[tile][row], from + row * stride, sizeof(tiles[0][0]));
}

void store(uint8_t tile, char *to, int64_t stride) {
  for (int64_t row = 0; row < tileSide; ++row)
    std::memcpy(to + row * stride, tiles[tile][row], sizeof(tiles[0][0]));
}

float asFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// TDPBF16PS of Intel's manual: sums are of f32, denormal numbers zero.
void multiplyAdd(uint8_t sum, uint8_t a, uint8_t b) {
  for (int64_t row = 0; row < tileSide; ++row)
    for (int64_t column = 0; column < tileSide; ++column) {
      float total = asFloat(tiles[sum][row][column]);
      for (int64_t slot = 0; slot < tileSide; ++slot) {
        uint32_t x = tiles[a][row][slot], y = tiles[b][slot][column];
        total += asFloat(x << 16) * asFloat(y << 16);
        total += asFloat(x & 0xffff0000) * asFloat(y & 0xffff0000);
      }
      std::memcpy(&tiles[sum][row][column], &total, sizeof(total));
    }
}

/// TDPBSUD: sums are of i32, and integers of `b` have no sign.
void multiplyAddQuads(uint8_t sum, uint8_t a, uint8_t b) {
  for (int64_t row = 0; row < tileSide; ++row)
    for (int64_t column = 0; column < tileSide; ++column)
      for (int64_t slot = 0; slot < tileSide; ++slot)
        for (int byte = 0; byte < 32; byte += 8)
          tiles[sum][row][column] +=
              static_cast<int8_t>(tiles[a][row][slot] >> byte) *
              static_cast<uint8_t>(tiles[b][slot][column] >> byte);
}

const void *emulationOf(StringRef intrinsic) {
  if (intrinsic == "llvm.x86.tilezero")
    return reinterpret_cast<const void *>(zero);
  if (intrinsic == "llvm.x86.tileloadd64" ||
      intrinsic == "llvm.x86.tileloaddt164")
    return reinterpret_cast<const void *>(load);
  if (intrinsic == "llvm.x86.tilestored64")
    return reinterpret_cast<const void *>(store);
  if (intrinsic == "llvm.x86.tdpbf16ps")
    return reinterpret_cast<const void *>(multiplyAdd);
  if (intrinsic == "llvm.x86.tdpbsud")
    return reinterpret_cast<const void *>(multiplyAddQuads);
  return nullptr;
}

/// VCVTNEPS2BF16 and VCVTNE2PS2BF16, which processors with tiles have: a
/// vector, and two as one, the second in its lower half.
constexpr llvm::StringLiteral roundOne = "llvm.x86.avx512bf16.cvtneps2bf16.512",
                              roundTwo =
                                  "llvm.x86.avx512bf16.cvtne2ps2bf16.512";

void emulateRoundings(ModuleOp module) {
  module.walk([&](LLVM::CallIntrinsicOp call) {
    if (call.getIntrin() != roundOne && call.getIntrin() != roundTwo)
      return;
    OpBuilder b(call);
    Location loc = call.getLoc();
    Value from = call.getArgs()[0];
    if (call.getIntrin() == roundTwo) {
      SmallVector<int64_t> lanes(2 * tileSide);
      std::iota(lanes.begin(), lanes.end(), 0);
      from = vector::ShuffleOp::create(b, loc, call.getArgs()[1], from, lanes);
    }
    auto type = cast<VectorType>(call.getResult(0).getType());
    call.getResult(0).replaceAllUsesWith(
        arith::TruncFOp::create(b, loc, type, from));
    call.erase();
  });
}

} // namespace

#ifdef __x86_64__
__attribute__((target("amx-tile"))) void tfm::shapeTiles() {
  static const std::array<uint8_t, 64> shape = tileConfiguration();
  __builtin_ia32_tile_loadconfig(shape.data());
}
#else
void tfm::shapeTiles() {}
#endif

void tfm::emulateTiles(ModuleOp module) {
  emulateRoundings(module);
  SmallVector<LLVM::CallIntrinsicOp> calls;
  module.walk([&](LLVM::CallIntrinsicOp call) {
    if (emulationOf(call.getIntrin()))
      calls.push_back(call);
    else
      EXPECT_FALSE(call.getIntrin().contains("tile")) << call.getIntrin().str();
  });
  for (LLVM::CallIntrinsicOp call : calls) {
    OpBuilder b(call);
    Location loc = call.getLoc();
    auto address = reinterpret_cast<intptr_t>(emulationOf(call.getIntrin()));
    Value number =
        LLVM::ConstantOp::create(b, loc, b.getI64IntegerAttr(address));
    Value function = LLVM::IntToPtrOp::create(
        b, loc, LLVM::LLVMPointerType::get(b.getContext()), number);
    SmallVector<Value> operands = {function};
    llvm::append_range(operands, call.getArgs());
    SmallVector<Type> types(call.getArgs().getTypes());
    LLVM::CallOp::create(b, loc,
                         LLVM::LLVMFunctionType::get(
                             LLVM::LLVMVoidType::get(b.getContext()), types),
                         operands);
    call.erase();
  }
}
