//===- MicroKernel.cpp - tiles in registers, and packing ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/MicroKernel.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"
#include <array>

using namespace mlir;
using namespace tfm;

static Value bitcast(KernelBuilder &kb, Value x, Type element, int64_t count) {
  return LLVM::BitcastOp::create(kb.b, kb.loc,
                                 VectorType::get({count}, element), x);
}

static Value bytesOf(KernelBuilder &kb, Value quads) {
  return bitcast(kb, quads, kb.b.getI8Type(), 4 * kb.lanes);
}

static Value callIntrinsic(KernelBuilder &kb, Type type, StringRef name,
                           ValueRange arguments) {
  return LLVM::CallIntrinsicOp::create(kb.b, kb.loc, type,
                                       kb.b.getStringAttr(name), arguments)
      .getResult(0);
}

/// VPDPBUSD, of quads in any types: sum + a b, those of `a` without a sign.
static Value addQuads(KernelBuilder &kb, Value a, Value b, Value sum) {
  sum = bitcast(kb, sum, kb.b.getI32Type(), kb.lanes);
  return callIntrinsic(kb, sum.getType(),
                       kb.lanes == 16 ? "llvm.x86.avx512.vpdpbusd.512"
                                      : "llvm.x86.avx512.vpdpbusd.256",
                       {sum, bytesOf(kb, a), bytesOf(kb, b)});
}

/// Sums of two products of bytes each, those of `a` without a sign.
static Value multiplyPairs(KernelBuilder &kb, Value a, Value b) {
  auto shorts = VectorType::get({2 * kb.lanes}, kb.b.getI16Type());
  return callIntrinsic(kb, shorts, "llvm.x86.avx2.pmadd.ub.sw",
                       {bytesOf(kb, a), bytesOf(kb, b)});
}

/// Sums of two of those each.
static Value addPairs(KernelBuilder &kb, Value pairs) {
  Value ones = arith::ConstantOp::create(
      kb.b, kb.loc,
      DenseElementsAttr::get(cast<VectorType>(pairs.getType()),
                             llvm::APInt(16, 1)));
  return callIntrinsic(kb, VectorType::get({kb.lanes}, kb.b.getI32Type()),
                       "llvm.x86.avx2.pmadd.wd", {pairs, ones});
}

/// SDOT, of quads in any types: sum + a b, all with their signs.
static Value addSignedQuads(KernelBuilder &kb, Value a, Value b, Value sum) {
  sum = bitcast(kb, sum, kb.b.getI32Type(), kb.lanes);
  return callIntrinsic(kb, sum.getType(), "llvm.aarch64.neon.sdot",
                       {sum, bytesOf(kb, a), bytesOf(kb, b)});
}

Terms tfm::integerTerms(const CpuMachine &target) {
  return target.int8Quads         ? Terms::I8Quads
         : target.int8SignedQuads ? Terms::I8SignedQuads
                                  : Terms::I8Pairs;
}

Value tfm::offsetQuads(KernelBuilder &kb, Value quads) {
  Value integers = bitcast(kb, quads, kb.b.getI32Type(), kb.lanes);
  auto signs = DenseElementsAttr::get(cast<VectorType>(integers.getType()),
                                      llvm::APInt(32, 0x80808080u));
  return bitcast(
      kb,
      arith::XOrIOp::create(kb.b, kb.loc, integers,
                            arith::ConstantOp::create(kb.b, kb.loc, signs)),
      kb.f32Type, kb.lanes);
}

Value tfm::offsetOfRow(KernelBuilder &kb, Value a, Value k) {
  int64_t perVector = 4 * kb.lanes;
  auto bytes = VectorType::get({perVector}, kb.b.getI8Type());
  auto sums = VectorType::get({kb.lanes}, kb.b.getI32Type());
  Value offset = arith::ConstantOp::create(
      kb.b, kb.loc, DenseElementsAttr::get(bytes, llvm::APInt(8, 0x80)));
  Value zero = arith::ConstantOp::create(kb.b, kb.loc, kb.b.getZeroAttr(sums));
  auto add = [&](Value i, Value sum, Value mask) {
    Value x = kb.loadAs(bytes, kb.at(a, i, kb.b.getI8Type()), mask);
    return addQuads(kb, offset, x, sum);
  };
  Value whole = kb.sub(k, kb.rem(k, kb.i64(perVector)));
  SmallVector<Value> sum{zero};
  sum = kb.loop(kb.i64(0), whole, perVector, sum, [&](Value i, ValueRange sum) {
    return SmallVector<Value>{add(i, sum[0], Value())};
  });
  sum = kb.loop(whole, k, perVector, sum, [&](Value i, ValueRange sum) {
    return SmallVector<Value>{
        add(i, sum[0], kb.maskOf(kb.sub(k, i), perVector))};
  });
  return vector::ReductionOp::create(kb.b, kb.loc, vector::CombiningKind::ADD,
                                     sum[0]);
}

Value tfm::multiplyAdd(KernelBuilder &kb, Terms terms, Value a, Value b,
                       Value sum) {
  if (terms == Terms::I8Quads)
    return bitcast(kb, addQuads(kb, b, a, sum), kb.f32Type, kb.lanes);
  if (terms == Terms::I8SignedQuads)
    return bitcast(kb, addSignedQuads(kb, offsetQuads(kb, b), a, sum),
                   kb.f32Type, kb.lanes);
  if (terms == Terms::I8Pairs) {
    // Those of B without their signs, which those of A take: two products of
    // 127 and 128 fit into 16 bits.
    Value signs = bytesOf(kb, offsetQuads(kb, b));
    Value magnitudes = LLVM::AbsOp::create(kb.b, kb.loc, signs.getType(), signs,
                                           /*is_int_min_poison=*/false);
    Value factors = callIntrinsic(kb, signs.getType(), "llvm.x86.avx2.psign.b",
                                  {bytesOf(kb, a), signs});
    Value products = addPairs(kb, multiplyPairs(kb, magnitudes, factors));
    sum = kb.add(bitcast(kb, sum, kb.b.getI32Type(), kb.lanes), products);
    return bitcast(kb, sum, kb.f32Type, kb.lanes);
  }
  if (terms != Terms::Bf16Pairs)
    return kb.fma(a, b, sum);
  auto pairs = VectorType::get({2 * kb.lanes}, kb.bf16Type);
  auto cast = [&](Value slots) -> Value {
    return LLVM::BitcastOp::create(kb.b, kb.loc, pairs, slots);
  };
  if (kb.lanes == 16)
    return callIntrinsic(kb, kb.vecType, "llvm.x86.avx512bf16.dpbf16ps.512",
                         {sum, cast(a), cast(b)});
  // The last operand may be one lane of a register.
  return callIntrinsic(kb, kb.vecType, "llvm.aarch64.neon.bfdot",
                       {sum, cast(b), cast(a)});
}

/// Of two parts of the terms, in the type in which sums travel.
static Value addSums(KernelBuilder &kb, Terms terms, Value x, Value y) {
  if (!areQuads(terms))
    return arith::AddFOp::create(kb.b, kb.loc, x, y);
  auto integers = [&](Value x) {
    return bitcast(kb, x, kb.b.getI32Type(), kb.lanes);
  };
  return bitcast(kb, kb.add(integers(x), integers(y)), kb.f32Type, kb.lanes);
}

Value tfm::noFourBitSums(KernelBuilder &kb, Terms terms) {
  int64_t pairs = terms == Terms::I8Pairs ? 2 : 1;
  auto type =
      VectorType::get({pairs * kb.lanes},
                      kb.b.getIntegerType(static_cast<unsigned>(32 / pairs)));
  return arith::ConstantOp::create(kb.b, kb.loc, kb.b.getZeroAttr(type));
}

Value tfm::multiplyAddFourBits(KernelBuilder &kb, Terms terms, Value a, Value b,
                               Value sum) {
  // Of two products each 3,840 at most, so that 16 bits hold eight sums.
  if (terms == Terms::I8Pairs)
    return kb.add(sum, multiplyPairs(kb, b, a));
  auto add = terms == Terms::I8Quads ? addQuads : addSignedQuads;
  return add(kb, b, a, sum);
}

Value tfm::fourBitSums(KernelBuilder &kb, Terms terms, Value sum) {
  return terms == Terms::I8Pairs ? addPairs(kb, sum) : sum;
}

Value tfm::multiplyFourBits(KernelBuilder &kb, Terms terms, ArrayRef<Value> a,
                            ArrayRef<Value> b) {
  Value sum = noFourBitSums(kb, terms);
  for (auto [x, y] : llvm::zip_equal(a, b))
    sum = multiplyAddFourBits(kb, terms, x, y, sum);
  return fourBitSums(kb, terms, sum);
}

/// Slots of A, of which each lane is to be multiplied by itself, in the types
/// of which LLVM finds that the instruction can do so: SDOT takes lanes of
/// integers, BFDOT those of what has been bf16 in a register, which a load is
/// only where it stays one.
static Value lanesToTake(KernelBuilder &kb, Terms terms, Value slots) {
  if (areQuads(terms))
    return bitcast(kb, slots, kb.b.getI32Type(), kb.lanes);
  if (terms != Terms::Bf16Pairs)
    return slots;
  Value pairs = bitcast(kb, slots, kb.bf16Type, 2 * kb.lanes);
  pairs = callIntrinsic(kb, pairs.getType(), "llvm.arithmetic.fence", pairs);
  return bitcast(kb, pairs, kb.f32Type, kb.lanes);
}

func::FuncOp tfm::microKernel(KernelBuilder &kb, const MicroKernel &kernel) {
  auto [rows, vectors, layout, terms, copiesB, matricesAhead, rowsAhead,
        linesOfA, linesAhead, addsLast] = kernel;
  bool byRows = layout == ALayout::Rows;
  // LLVM pairs the loads of neighbours in a row of A, and then spills them.
  // NEON multiplies by one lane of a register: load several rows of A at once.
  bool byLane = !byRows && kb.lanes == 4 && rows % kb.lanes == 0;
  // Four lanes leave LLVM too few registers to overlap two steps, and so do
  // stores between them.
  int64_t unroll = byRows || copiesB || kb.lanes == 4 ? 1 : 2;
  std::string name = "tfm.micro." + std::to_string(rows) + "x" +
                     std::to_string(vectors) + (byRows ? ".rows" : ".columns");
  if (terms != Terms::F32)
    name += terms == Terms::Bf16Pairs ? ".pairs"
            : areQuads(terms)         ? ".quads"
                                      : ".bf16";
  if (copiesB)
    name += ".copy";
  if (linesAhead > 0)
    name += ".ahead" + std::to_string(linesAhead);
  if (matricesAhead > 0)
    name += ".matrices" + std::to_string(matricesAhead);
  if (matricesAhead > 0 && rowsAhead > 1)
    name += ".rows" + std::to_string(rowsAhead);
  if (linesOfA > 0)
    name += ".a" + std::to_string(linesOfA);
  if (addsLast)
    name += ".last";
  Type elementOfB = terms == Terms::F32TimesBf16 ? kb.bf16Type : kb.f32Type;
  SmallVector<Type> types{kb.ptrType, kb.i64Type, kb.ptrType, kb.i64Type,
                          kb.ptrType, kb.i64Type, kb.i64Type, kb.b.getI1Type()};
  if (copiesB)
    types.push_back(kb.ptrType);
  for (int64_t i = 0; i < matricesAhead; ++i)
    types.append({kb.ptrType, kb.i64Type});
  if (linesAhead > 0)
    types.append({kb.ptrType, kb.i64Type, kb.i64Type});
  return kb.sharedFunction(
      name, types, [&](KernelBuilder &kb, ValueRange args) {
        Value a = args[0], aStride = args[1], b = args[2], bStride = args[3],
              c = args[4], cStride = args[5], k = args[6], accumulate = args[7];
        int64_t tile = rows * vectors;
        auto cAt = [&](int64_t row, int64_t vector) {
          return kb.at(kb.at(c, kb.mul(cStride, row)), vector * kb.lanes);
        };
        auto initial = scf::IfOp::create(
            kb.b, kb.loc, addsLast ? kb.i1(false) : accumulate,
            [&](OpBuilder &, Location) {
              SmallVector<Value> values;
              for (int64_t i = 0; i < tile; ++i)
                values.push_back(kb.load(cAt(i / vectors, i % vectors)));
              scf::YieldOp::create(kb.b, kb.loc, values);
            },
            [&](OpBuilder &, Location) {
              SmallVector<Value> values(tile, kb.splat(0.0));
              scf::YieldOp::create(kb.b, kb.loc, values);
            });

        // Rows of A by one pointer: row 2^i * o lies 2^i times the offset of
        // row o further, and x86 scales an offset by up to 8. A pointer to
        // every row needs more registers than there are, and one that walks
        // down the rows takes a quarter of the issue slots of the FMAs.
        SmallVector<Value> oddRows(rows);
        for (int64_t row = 1; byRows && row < rows; row += 2)
          oddRows[row] = kb.mul(aStride, 4 * row);
        auto rowOfA = [&](Value a, int64_t row) {
          if (row == 0)
            return a;
          int64_t twos = row & -row;
          Value bytes = oddRows[row / twos];
          if (twos > 1)
            bytes = kb.mul(bytes, twos);
          return LLVM::GEPOp::create(kb.b, kb.loc, kb.ptrType, kb.b.getI8Type(),
                                     a, ValueRange{bytes})
              .getResult();
        };

        SmallVector<Value> carried{a, b};
        if (copiesB)
          carried.push_back(args[8]);
        size_t pointers = carried.size();
        llvm::append_range(carried, initial.getResults());
        // Steps k, k + 1, ..., k + steps - 1 on the accumulators.
        auto body = [&](ValueRange carried, int64_t steps) {
          Value a = carried[0], b = carried[1];
          Value panel = copiesB ? carried[2] : Value();
          SmallVector<Value> tile(carried.drop_front(pointers));
          for (int64_t step = 0; step < steps; ++step) {
            SmallVector<Value> bs;
            for (int64_t v = 0; v < vectors; ++v)
              bs.push_back(kb.load(kb.at(b, v * kb.lanes, elementOfB), Value(),
                                   elementOfB));
            b = kb.at(b, bStride, elementOfB);
            if (copiesB) {
              for (int64_t v = 0; v < vectors; ++v)
                kb.store(bs[v], kb.at(panel, v * kb.lanes));
              panel = kb.at(panel, vectors * kb.lanes);
            }
            SmallVector<Value> several;
            if (byLane)
              for (int64_t row = 0; row < rows; row += kb.lanes)
                several.push_back(
                    lanesToTake(kb, terms, kb.load(kb.at(a, row))));
            for (int64_t row = 0; row < rows; ++row) {
              Value element;
              if (byLane) {
                Value some = several[row / kb.lanes];
                element = kb.shuffle(
                    some, some, SmallVector<int64_t>(kb.lanes, row % kb.lanes));
              } else {
                element = kb.splat(
                    kb.loadScalar(byRows ? rowOfA(a, row) : kb.at(a, row)));
              }
              for (int64_t v = 0; v < vectors; ++v) {
                Value &sum = tile[row * vectors + v];
                sum = multiplyAdd(kb, terms, element, bs[v], sum);
              }
            }
            a = byRows ? kb.at(a, 1) : kb.at(a, aStride);
          }
          SmallVector<Value> next{a, b};
          if (copiesB)
            next.push_back(panel);
          llvm::append_range(next, tile);
          return next;
        };
        // As many whole turns of `steps` as lead to `limit` at most.
        Value done = kb.i64(0);
        auto turns = [&](Value limit, int64_t steps,
                         KernelBuilder::LoopBody turn) {
          Value to = kb.sub(limit, kb.rem(limit, kb.i64(steps)));
          carried = kb.loop(done, to, steps, carried, turn);
          done = to;
        };
        // Of each of some places `lines` at a time, `second` bytes apart, of
        // `rows` rows that are `stride` bytes apart, and those behind the next
        // time.
        struct Ahead {
          Value first, second, stride;
          int64_t lines;
        };
        auto prefetchBeside = [&](Value limit, ArrayRef<Ahead> places,
                                  int64_t rows, int64_t level) {
          Type byte = kb.b.getI8Type();
          for (const Ahead &place : places)
            carried.push_back(place.first);
          turns(limit, prefetchedEvery, [&](Value, ValueRange carried) {
            ValueRange firsts = carried.take_back(places.size());
            SmallVector<Value> behind;
            for (auto [place, first] : llvm::zip_equal(places, firsts)) {
              Value row = first;
              for (int64_t i = 0; i < rows; ++i) {
                Value line = row;
                for (int64_t j = 0; j < place.lines; ++j) {
                  kb.prefetch(line, level);
                  line = kb.at(line, place.second, byte);
                }
                row = kb.at(row, place.stride, byte);
              }
              behind.push_back(row);
            }
            auto next = kb.loop(kb.i64(0), kb.i64(prefetchedEvery), unroll,
                                carried.drop_back(places.size()),
                                [&](Value, ValueRange carried) {
                                  return body(carried, unroll);
                                });
            llvm::append_range(next, behind);
            return next;
          });
          carried.truncate(carried.size() - places.size());
        };
        ValueRange ahead = args.drop_front(copiesB ? 9 : 8);
        if (matricesAhead > 0) {
          int64_t linesOfRow =
              std::max<int64_t>(vectors * kb.lanes * 4 / cacheLine, 2);
          SmallVector<Ahead> matrices;
          for (int64_t i = 0; i < matricesAhead;
               ++i, ahead = ahead.drop_front(2))
            matrices.push_back(
                {ahead[0], kb.i64(cacheLine), ahead[1],
                 i == 0 && linesOfA > 0 ? linesOfA : linesOfRow});
          int64_t most = prefetchedEvery * llvm::divideCeil(rows, rowsAhead);
          prefetchBeside(kb.min(k, kb.i64(most)), matrices, rowsAhead,
                         /*level=*/1);
        }
        if (linesAhead > 0)
          prefetchBeside(k, Ahead{ahead[0], ahead[1], ahead[2], linesAhead},
                         /*rows=*/1, /*level=*/2);
        auto plain = [&](int64_t steps) {
          turns(k, steps, [&](Value, ValueRange carried) {
            return body(carried, steps);
          });
        };
        plain(unroll);
        if (unroll > 1)
          plain(1);
        auto store = [&](bool adds) {
          for (int64_t i = 0; i < tile; ++i) {
            Value at = cAt(i / vectors, i % vectors);
            Value sum = carried[pointers + i];
            kb.store(adds ? addSums(kb, terms, kb.load(at), sum) : sum, at);
          }
        };
        if (addsLast)
          kb.ifThen(accumulate, [&] { store(true); }, [&] { store(false); });
        else
          store(false);
      });
}

/// What distinguishes the functions for different packings.
static std::string suffix(Packing packing) {
  std::string name = packing.fromName();
  if (packing.quads)
    return name + (packing.offset ? ".offset.quads" : ".quads");
  if (packing.pairs)
    return name + ".pairs";
  return packing.rounds && packing.from == Packing::From::F32 ? ".rounded"
                                                              : name;
}

func::FuncOp tfm::microKernel(KernelBuilder &kb, int64_t rows, int64_t vectors,
                              ALayout layout) {
  return microKernel(kb, MicroKernel{rows, vectors, layout});
}

func::FuncOp tfm::packRows(KernelBuilder &kb, int64_t vectors,
                           Packing packing) {
  SmallVector<Type> types{kb.ptrType, kb.i64Type, kb.i64Type, kb.i64Type,
                          kb.ptrType, kb.i64Type, kb.i64Type, kb.i64Type};
  return kb.sharedFunction(
      "tfm.pack.rows" + std::to_string(vectors) + suffix(packing), types,
      [&](KernelBuilder &kb, ValueRange args) {
        Value source = args[0], sourceStride = args[1], k = args[2],
              columns = args[3], panel = args[4], panelStride = args[5],
              panels = args[6], panelLength = args[7];
        Type element = packing.element(kb);
        auto integers = kb.vecType.clone(kb.b.getI32Type());
        auto bits = [&](Value x) -> Value {
          return arith::BitcastOp::create(kb.b, kb.loc, integers, x);
        };
        // The slots of the vector at `at` and of the row below it, if any.
        auto slots = [&](Value at, Value mask, bool below) -> Value {
          auto row = [&](Value at) {
            Value x = kb.load(at, mask, element);
            return packing.rounds ? kb.toF32(kb.toBf16(x)) : x;
          };
          Value x = row(at);
          if (!packing.pairs)
            return x;
          // As f32, a bf16 is the upper half.
          Value half = arith::ConstantOp::create(
              kb.b, kb.loc,
              DenseElementsAttr::get(integers, static_cast<int32_t>(16)));
          Value pair = arith::ShRUIOp::create(kb.b, kb.loc, bits(x), half);
          if (below)
            pair = arith::OrIOp::create(
                kb.b, kb.loc, pair,
                bits(row(kb.at(at, sourceStride, element))));
          return arith::BitcastOp::create(kb.b, kb.loc, kb.vecType, pair);
        };
        auto copy = [&](bool masked) {
          SmallVector<Value> masks(vectors);
          if (masked)
            for (int64_t v = 0; v < vectors; ++v)
              masks[v] = kb.maskOf(kb.sub(columns, kb.i64(v * kb.lanes)));
          auto row = [&](ValueRange row, bool below) {
            kb.loop(kb.i64(0), panels, 1, row, [&](Value, ValueRange at) {
              for (int64_t v = 0; v < vectors; ++v)
                kb.store(
                    slots(kb.at(at[0], v * kb.lanes, element), masks[v], below),
                    kb.at(at[1], v * kb.lanes));
              return SmallVector<Value>{kb.at(at[0], columns, element),
                                        kb.at(at[1], panelLength)};
            });
          };
          int64_t step = packing.perSlot();
          Value rest = kb.rem(k, kb.i64(step));
          Value sourceStep = kb.mul(sourceStride, step);
          auto last = kb.loop(kb.i64(0), kb.sub(k, rest), step, {source, panel},
                              [&](Value, ValueRange at) {
                                row(at, true);
                                return SmallVector<Value>{
                                    kb.at(at[0], sourceStep, element),
                                    kb.at(at[1], panelStride)};
                              });
          if (packing.pairs)
            kb.ifThen(kb.less(kb.i64(0), rest), [&] { row(last, false); });
        };
        kb.ifThen(
            kb.less(columns, kb.i64(vectors * kb.lanes)), [&] { copy(true); },
            [&] { copy(false); });
      });
}

SmallVector<Value> tfm::transpose(KernelBuilder &kb, ArrayRef<Value> rows) {
  int64_t lanes = kb.lanes;
  // Lane numbers of a shuffle that takes, within each block of four lanes,
  // those of `pattern`; 4 and more come from the second register.
  auto within = [&](std::array<int64_t, 4> pattern) {
    SmallVector<int64_t> numbers;
    for (int64_t block = 0; block < lanes; block += 4)
      for (int64_t lane : pattern)
        numbers.push_back(block + lane % 4 + (lane >= 4 ? lanes : 0));
    return numbers;
  };
  auto low = within({0, 4, 1, 5}), high = within({2, 6, 3, 7});
  auto lowPair = within({0, 1, 4, 5}), highPair = within({2, 3, 6, 7});
  // columns[j][g]: column 4 * block + j of rows 4 * g ... 4 * g + 3, in each
  // block of four lanes.
  SmallVector<SmallVector<Value>> columns(4);
  for (int64_t g = 0; g < lanes; g += 4) {
    Value t0 = kb.shuffle(rows[g], rows[g + 1], low);
    Value t1 = kb.shuffle(rows[g], rows[g + 1], high);
    Value t2 = kb.shuffle(rows[g + 2], rows[g + 3], low);
    Value t3 = kb.shuffle(rows[g + 2], rows[g + 3], high);
    columns[0].push_back(kb.shuffle(t0, t2, lowPair));
    columns[1].push_back(kb.shuffle(t0, t2, highPair));
    columns[2].push_back(kb.shuffle(t1, t3, lowPair));
    columns[3].push_back(kb.shuffle(t1, t3, highPair));
  }
  // Whole blocks of four lanes by their number in both registers.
  auto blocks = [&](Value x, Value y, ArrayRef<int64_t> numbers) {
    SmallVector<int64_t> lanesOfBoth;
    for (int64_t block : numbers)
      for (int64_t lane = 0; lane < 4; ++lane)
        lanesOfBoth.push_back(4 * block + lane);
    return kb.shuffle(x, y, lanesOfBoth);
  };
  SmallVector<Value> result(lanes);
  for (int64_t j = 0; j < 4; ++j) {
    ArrayRef<Value> u = columns[j];
    if (lanes == 4) {
      result[j] = u[0];
    } else if (lanes == 8) {
      result[j] = blocks(u[0], u[1], {0, 2});
      result[4 + j] = blocks(u[0], u[1], {1, 3});
    } else {
      Value even01 = blocks(u[0], u[1], {0, 2, 4, 6});
      Value odd01 = blocks(u[0], u[1], {1, 3, 5, 7});
      Value even23 = blocks(u[2], u[3], {0, 2, 4, 6});
      Value odd23 = blocks(u[2], u[3], {1, 3, 5, 7});
      result[j] = blocks(even01, even23, {0, 2, 4, 6});
      result[4 + j] = blocks(odd01, odd23, {0, 2, 4, 6});
      result[8 + j] = blocks(even01, even23, {1, 3, 5, 7});
      result[12 + j] = blocks(odd01, odd23, {1, 3, 5, 7});
    }
  }
  return result;
}

func::FuncOp tfm::packTransposed(KernelBuilder &kb, Packing packing) {
  SmallVector<Type> types{kb.ptrType, kb.i64Type, kb.i64Type,
                          kb.i64Type, kb.ptrType, kb.i64Type};
  return kb.sharedFunction(
      "tfm.pack.transposed" + suffix(packing), types,
      [&](KernelBuilder &kb, ValueRange args) {
        Value source = args[0], sourceStride = args[1], k = args[2],
              rows = args[3], panel = args[4], panelStride = args[5];
        Type element = packing.element(kb);
        SmallVector<Value> offsets;
        Value last = kb.sub(rows, kb.i64(1));
        for (int64_t row = 0; row < kb.lanes; ++row)
          offsets.push_back(kb.mul(kb.min(kb.i64(row), last), sourceStride));
        // `step` elements of a row become `lanes` slots.
        int64_t step = kb.lanes * packing.perSlot();
        auto elements = VectorType::get({step}, element);
        auto slots = [&](Value at, Value mask) -> Value {
          Value x = kb.loadAs(elements, at, mask);
          if (packing.quads) {
            x = LLVM::BitcastOp::create(kb.b, kb.loc, kb.vecType, x);
            return packing.offset ? offsetQuads(kb, x) : x;
          }
          if (packing.pairs)
            return LLVM::BitcastOp::create(kb.b, kb.loc, kb.vecType,
                                           kb.toBf16(x));
          return kb.toF32(packing.rounds ? kb.toBf16(x) : x);
        };
        auto block = [&](Value source, Value panel, Value mask) {
          SmallVector<Value> loaded;
          for (Value offset : offsets)
            loaded.push_back(slots(kb.at(source, offset, element), mask));
          for (Value column : transpose(kb, loaded)) {
            kb.store(column, panel);
            panel = kb.at(panel, panelStride);
          }
          return panel;
        };
        Value rest = kb.rem(k, kb.i64(step));
        auto carried = kb.loop(
            kb.i64(0), kb.sub(k, rest), step, {source, panel},
            [&](Value, ValueRange carried) {
              Value next = block(carried[0], carried[1], Value());
              return SmallVector<Value>{kb.at(carried[0], step, element), next};
            });
        kb.ifThen(kb.less(kb.i64(0), rest), [&] {
          block(carried[0], carried[1], kb.maskOf(rest, step));
        });
      });
}

int64_t tfm::packedLength(int64_t k, int64_t stride, int64_t width,
                          int64_t lanes) {
  return llvm::alignTo(llvm::alignTo(k, lanes) * stride + width, lanes);
}
