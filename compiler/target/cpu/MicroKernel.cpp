//===- MicroKernel.cpp - a tile of a product in registers -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/MicroKernel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tfm;

namespace {

/// The sums of a tile in registers, while the steps over k go on.
class RegisterTile {
public:
  /// `args` are those of `microKernel`.
  RegisterTile(KernelBuilder &kb, const MicroKernel &kernel, ValueRange args)
      : kb(kb), kernel(kernel), args(args), c(args[4]), cStride(args[5]),
        k(args[6]), accumulate(args[7]), done(kb.i64(0)) {}

  void compute() {
    begin();
    ValueRange ahead = args.drop_front(kernel.copiesB ? 9 : 8);
    if (kernel.matricesAhead > 0)
      prefetchMatrices(ahead.take_front(2 * kernel.matricesAhead));
    if (kernel.linesAhead > 0)
      prefetchLines(ahead.take_back(3));
    int64_t several = stepsOfTurn();
    turns(k, several);
    if (several > 1)
      turns(k, 1);
    if (kernel.addsLast)
      kb.ifThen(accumulate, [&] { store(true); }, [&] { store(false); });
    else
      store(false);
  }

private:
  /// Where the steps have come to.
  struct State {
    Value a, b;
    Value panel; ///< where B is copied to, if it is
    SmallVector<Value> sums;
  };
  State stateOf(ValueRange carried) const {
    return {carried[0], carried[1], kernel.copiesB ? carried[2] : Value(),
            llvm::to_vector(carried.drop_front(pointers()))};
  }
  SmallVector<Value> carriedOf(const State &at) const {
    SmallVector<Value> values{at.a, at.b};
    if (kernel.copiesB)
      values.push_back(at.panel);
    llvm::append_range(values, at.sums);
    return values;
  }
  size_t pointers() const { return kernel.copiesB ? 3 : 2; }

  bool byRows() const { return kernel.layout == ALayout::Rows; }
  /// LLVM pairs the loads of neighbours in a row of A, and then spills them.
  /// NEON multiplies by one lane of a register: load several rows of A at once.
  bool byLane() const {
    return !byRows() && kb.lanes == 4 && kernel.rows % kb.lanes == 0;
  }
  /// Four lanes leave LLVM too few registers to overlap two steps, and so do
  /// stores between them.
  int64_t stepsOfTurn() const {
    return byRows() || kernel.copiesB || kb.lanes == 4 ? 1 : 2;
  }

  Value cAt(int64_t row, int64_t vector) {
    return kb.at(kb.at(c, kb.mul(cStride, row)), vector * kb.lanes);
  }

  void begin();
  Value rowOfA(Value a, int64_t row);
  SmallVector<Value> loadRowOfB(State &at);
  void step(State &at);
  SmallVector<Value> steps(ValueRange carried, int64_t count);
  void turns(Value limit, int64_t count);
  void turns(Value limit, int64_t count, KernelBuilder::LoopBody turn);
  void prefetchMatrices(ValueRange matrices);
  void prefetchLines(ValueRange lines);
  struct Ahead;
  void prefetchBeside(Value limit, ArrayRef<Ahead> places, int64_t rows,
                      int64_t level);
  void store(bool adds);

  KernelBuilder &kb;
  const MicroKernel &kernel;
  ValueRange args;
  Value c, cStride, k, accumulate;
  SmallVector<Value> oddRows; ///< in bytes from the first row of A, or none
  Value done;                 ///< how many steps are
  SmallVector<Value> carried; ///< the state behind them
};

} // namespace

/// The sums begin with what is in C, or with zeros.
void RegisterTile::begin() {
  int64_t sums = kernel.rows * kernel.vectors;
  auto initial = scf::IfOp::create(
      kb.b, kb.loc, kernel.addsLast ? kb.i1(false) : accumulate,
      [&](OpBuilder &, Location) {
        SmallVector<Value> values;
        for (int64_t i = 0; i < sums; ++i)
          values.push_back(
              kb.load(cAt(i / kernel.vectors, i % kernel.vectors)));
        scf::YieldOp::create(kb.b, kb.loc, values);
      },
      [&](OpBuilder &, Location) {
        SmallVector<Value> values(sums, kb.splat(0.0));
        scf::YieldOp::create(kb.b, kb.loc, values);
      });
  oddRows.resize(kernel.rows);
  for (int64_t row = 1; byRows() && row < kernel.rows; row += 2)
    oddRows[row] = kb.mul(args[1], 4 * row);
  carried = carriedOf({args[0], args[2], kernel.copiesB ? args[8] : Value(),
                       llvm::to_vector_of<Value>(initial.getResults())});
}

/// Rows of A by one pointer: row 2^i * o lies 2^i times the offset of row o
/// further, and x86 scales an offset by up to 8. A pointer to every row needs
/// more registers than there are, and one that walks down the rows takes a
/// quarter of the issue slots of the FMAs.
Value RegisterTile::rowOfA(Value a, int64_t row) {
  if (row == 0)
    return a;
  int64_t twos = row & -row;
  Value bytes = oddRows[row / twos];
  if (twos > 1)
    bytes = kb.mul(bytes, twos);
  return LLVM::GEPOp::create(kb.b, kb.loc, kb.ptrType, kb.b.getI8Type(), a,
                             ValueRange{bytes});
}

/// The vectors of B in this step, copied where they are to be.
SmallVector<Value> RegisterTile::loadRowOfB(State &at) {
  Type element = kernel.terms == Terms::F32TimesBf16 ? kb.bf16Type : kb.f32Type;
  SmallVector<Value> row;
  for (int64_t v = 0; v < kernel.vectors; ++v)
    row.push_back(
        kb.load(kb.at(at.b, v * kb.lanes, element), Value(), element));
  at.b = kb.at(at.b, args[3], element);
  if (kernel.copiesB) {
    for (int64_t v = 0; v < kernel.vectors; ++v)
      kb.store(row[v], kb.at(at.panel, v * kb.lanes));
    at.panel = kb.at(at.panel, kernel.vectors * kb.lanes);
  }
  return row;
}

void RegisterTile::step(State &at) {
  SmallVector<Value> b = loadRowOfB(at);
  SmallVector<Value> several;
  if (byLane())
    for (int64_t row = 0; row < kernel.rows; row += kb.lanes)
      several.push_back(
          lanesToTake(kb, kernel.terms, kb.load(kb.at(at.a, row))));
  for (int64_t row = 0; row < kernel.rows; ++row) {
    Value a;
    if (byLane()) {
      Value some = several[row / kb.lanes];
      a = kb.shuffle(some, some,
                     SmallVector<int64_t>(kb.lanes, row % kb.lanes));
    } else {
      a = kb.splat(
          kb.loadScalar(byRows() ? rowOfA(at.a, row) : kb.at(at.a, row)));
    }
    for (int64_t v = 0; v < kernel.vectors; ++v) {
      Value &sum = at.sums[row * kernel.vectors + v];
      sum = multiplyAdd(kb, kernel.terms, a, b[v], sum);
    }
  }
  at.a = byRows() ? kb.at(at.a, 1) : kb.at(at.a, args[1]);
}

SmallVector<Value> RegisterTile::steps(ValueRange carried, int64_t count) {
  State at = stateOf(carried);
  for (int64_t i = 0; i < count; ++i)
    step(at);
  return carriedOf(at);
}

/// As many whole turns of `count` steps as lead to `limit` at most.
void RegisterTile::turns(Value limit, int64_t count,
                         KernelBuilder::LoopBody turn) {
  Value to = kb.sub(limit, kb.rem(limit, kb.i64(count)));
  carried = kb.loop(done, to, count, carried, turn);
  done = to;
}

void RegisterTile::turns(Value limit, int64_t count) {
  turns(limit, count,
        [&](Value, ValueRange carried) { return steps(carried, count); });
}

/// What is prefetched while steps go on: `lines` at a time that are `second`
/// bytes apart, of rows that are `stride` bytes apart.
struct RegisterTile::Ahead {
  Value first, second, stride;
  int64_t lines;
};

/// Each turn prefetches of each place `rows` rows, the next one those behind.
void RegisterTile::prefetchBeside(Value limit, ArrayRef<Ahead> places,
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
    int64_t unroll = stepsOfTurn();
    auto next = kb.loop(
        kb.i64(0), kb.i64(prefetchedEvery), unroll,
        carried.drop_back(places.size()),
        [&](Value, ValueRange carried) { return steps(carried, unroll); });
    llvm::append_range(next, behind);
    return next;
  });
  carried.truncate(carried.size() - places.size());
}

/// The tile's rows in what is read or written once it is finished: a first row
/// and the bytes to the next one, of each matrix.
void RegisterTile::prefetchMatrices(ValueRange matrices) {
  int64_t linesOfRow =
      std::max<int64_t>(kernel.vectors * kb.lanes * 4 / cacheLine, 2);
  SmallVector<Ahead> places;
  for (int64_t i = 0; i < kernel.matricesAhead; ++i)
    places.push_back(
        {matrices[2 * i], kb.i64(cacheLine), matrices[2 * i + 1],
         i == 0 && kernel.linesOfA > 0 ? kernel.linesOfA : linesOfRow});
  int64_t most =
      prefetchedEvery * llvm::divideCeil(kernel.rows, kernel.rowsAhead);
  prefetchBeside(kb.min(k, kb.i64(most)), places, kernel.rowsAhead,
                 /*level=*/1);
}

/// What is to be packed next: a first line, the bytes to the next of those at
/// a time, and to the next time.
void RegisterTile::prefetchLines(ValueRange lines) {
  prefetchBeside(k, Ahead{lines[0], lines[1], lines[2], kernel.linesAhead},
                 /*rows=*/1, /*level=*/2);
}

void RegisterTile::store(bool adds) {
  ValueRange sums = ValueRange(carried).drop_front(pointers());
  for (auto [i, sum] : llvm::enumerate(sums)) {
    auto number = static_cast<int64_t>(i);
    Value at = cAt(number / kernel.vectors, number % kernel.vectors);
    kb.store(adds ? addSums(kb, kernel.terms, kb.load(at), sum) : sum, at);
  }
}

static std::string nameOf(const MicroKernel &kernel) {
  std::string name = "tfm.micro." + std::to_string(kernel.rows) + "x" +
                     std::to_string(kernel.vectors) +
                     (kernel.layout == ALayout::Rows ? ".rows" : ".columns");
  if (kernel.terms != Terms::F32)
    name += kernel.terms == Terms::Bf16Pairs ? ".pairs"
            : areQuads(kernel.terms)         ? ".quads"
                                             : ".bf16";
  if (kernel.copiesB)
    name += ".copy";
  if (kernel.linesAhead > 0)
    name += ".ahead" + std::to_string(kernel.linesAhead);
  if (kernel.matricesAhead > 0)
    name += ".matrices" + std::to_string(kernel.matricesAhead);
  if (kernel.matricesAhead > 0 && kernel.rowsAhead > 1)
    name += ".rows" + std::to_string(kernel.rowsAhead);
  if (kernel.linesOfA > 0)
    name += ".a" + std::to_string(kernel.linesOfA);
  if (kernel.addsLast)
    name += ".last";
  return name;
}

func::FuncOp tfm::microKernel(KernelBuilder &kb, const MicroKernel &kernel) {
  SmallVector<Type> types{kb.ptrType, kb.i64Type, kb.ptrType, kb.i64Type,
                          kb.ptrType, kb.i64Type, kb.i64Type, kb.b.getI1Type()};
  if (kernel.copiesB)
    types.push_back(kb.ptrType);
  for (int64_t i = 0; i < kernel.matricesAhead; ++i)
    types.append({kb.ptrType, kb.i64Type});
  if (kernel.linesAhead > 0)
    types.append({kb.ptrType, kb.i64Type, kb.i64Type});
  return kb.sharedFunction(nameOf(kernel), types,
                           [&](KernelBuilder &kb, ValueRange args) {
                             RegisterTile(kb, kernel, args).compute();
                           });
}

func::FuncOp tfm::microKernel(KernelBuilder &kb, int64_t rows, int64_t vectors,
                              ALayout layout) {
  return microKernel(kb, MicroKernel{rows, vectors, layout});
}
