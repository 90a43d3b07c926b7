//===- StoreWeights.cpp - weights as generation reads them ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Generation reads every weight once for a token, so it is as fast as weights
// are small. What may be stored in fewer bits is what products read as their
// second operand, and tables of rows: biases and norms are few, and stay f32.
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/StoreWeights.h"

#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmBuilder.h"
#include "compiler/transforms/Passes.h"
#include "compiler/transforms/ReadRecipe.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>

namespace tfm {
#define GEN_PASS_DEF_STOREWEIGHTSPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

/// Whether `op` swaps the last two axes, and no others.
bool swapsLastAxes(TransposeOp op) {
  SmallVector<int64_t> swapped(op.getPermutation().size());
  if (swapped.size() < 2)
    return false;
  std::iota(swapped.begin(), swapped.end(), 0);
  std::swap(swapped.back(), swapped[swapped.size() - 2]);
  return llvm::equal(op.getPermutation(), swapped);
}

/// The products and gathers that read a parameter, in repeats, too, and however
/// its last two axes are swapped on the way.
class Readers {
public:
  explicit Readers(ParamOp param) : layerRank(layerRankOf(param)) {}

  static int64_t layerRankOf(ParamOp param) {
    return param.getTensorType().getRank() - param.getNumStackedDims();
  }

  /// Follows `value`, the parameter or one layer of it. False where something
  /// else reads it, or its readers differ in where they have outputs.
  bool follow(Value value, bool isSwapped = false) {
    return llvm::all_of(value.getUses(), [&](OpOperand &use) {
      Operation *op = use.getOwner();
      if (auto repeat = dyn_cast<RepeatOp>(op)) {
        unsigned number = use.getOperandNumber();
        return number >= repeat.getCarried().size() &&
               follow(repeat.getBlock()->getArgument(1 + number), isSwapped);
      }
      if (auto transpose = dyn_cast<TransposeOp>(op))
        return swapsLastAxes(transpose) && follow(transpose.getY(), !isSwapped);
      int64_t rank = tensorType(value).getRank();
      if (auto product = dyn_cast<MatmulOp>(op)) {
        if (use.getOperandNumber() != 1 || rank != layerRank)
          return false;
        return add(use, rank - (product.getTransposeB() != isSwapped ? 2 : 1));
      }
      if (isa<GatherOp>(op) && use.getOperandNumber() == 0)
        return rank == 2 && layerRank == 2 && !isSwapped && add(use, 0);
      return false;
    });
  }

  /// Follows the parameter in all functions; false as above, and where nothing
  /// reads it.
  bool follow(ArrayRef<GetParamOp> gets) {
    return layerRank >= 2 &&
           llvm::all_of(
               gets, [&](GetParamOp get) { return follow(get.getValue()); }) &&
           axis;
  }

  ArrayRef<OpOperand *> all() const { return readers; }
  /// Of the parameter, where something reads it.
  std::optional<int64_t> outputAxis() const { return axis; }

private:
  bool add(OpOperand &use, int64_t outputs) {
    readers.push_back(&use);
    bool agrees = !axis || *axis == outputs;
    axis = outputs;
    return agrees;
  }

  int64_t layerRank;
  SmallVector<OpOperand *> readers;
  std::optional<int64_t> axis;
};

/// Stores one parameter in another type.
class Storer {
public:
  /// Of 8 bits in panels of so many outputs, in rows where that is 0; of bf16
  /// as checkpoints have it, or `byOutputs`.
  Storer(ParamOp param, Type element, int64_t panelOutputs, bool byOutputs)
      : param(param), element(element), panelOutputs(panelOutputs),
        byOutputs(byOutputs || element.isInteger()), b(param.getContext()) {}

  void run(ArrayRef<GetParamOp> gets, ArrayRef<OpOperand *> readers) {
    SmallVector<int64_t> shape(param.getTensorType().getShape());
    bool swaps = byOutputs && static_cast<int64_t>(*param.getOutputAxis()) ==
                                  Readers::layerRankOf(param) - 1;
    if (swaps)
      std::swap(shape.back(), shape[shape.size() - 2]);
    if (!element.isInteger())
      param.setTransposed(swaps);
    param.setType(element.isInteger() ? quantised(shape)
                                      : RankedTensorType::get(shape, element));
    for (GetParamOp get : gets)
      retype(get);
    for (OpOperand *reader : readers)
      rewrite(*reader);
    for (TransposeOp transpose : llvm::reverse(transposes))
      transpose.erase();
  }

private:
  /// The type of the integers of a parameter of [..., outputs, terms], which
  /// gets its scales, and minima where there are any.
  RankedTensorType quantised(ArrayRef<int64_t> shape) {
    Type i8 = b.getI8Type();
    SmallVector<int64_t> row(shape);
    int64_t terms = row.pop_back_val();
    if (element.isInteger(8)) {
      param.setScaleAttr(
          addTable(".scale", RankedTensorType::get(row, b.getF32Type())));
      auto rows = RankedTensorType::get(shape, i8);
      if (panelOutputs == 0)
        return rows;
      param.setTerms(terms);
      return UnpackOp::panelsOf(rows, panelOutputs);
    }
    int64_t groups = DequantiseOp::groupsOf(terms);
    row.push_back(groups);
    auto type = RankedTensorType::get(row, b.getBF16Type());
    param.setMinimumAttr(addTable(".minimum", type));
    param.setScaleAttr(addTable(".scale", type));
    param.setTerms(terms);
    row.back() = groups * DequantiseOp::groupBytes;
    return RankedTensorType::get(row, i8);
  }

  FlatSymbolRefAttr addTable(StringRef suffix, RankedTensorType type) {
    b.setInsertionPointAfter(param);
    DictionaryAttr zeros =
        b.getDictionaryAttr(b.getNamedAttr("kind", b.getStringAttr("zeros")));
    auto table = ParamOp::create(
        b, param.getLoc(), (param.getSymName() + suffix).str(), type,
        b.getStrArrayAttr({}), zeros, /*trainable=*/false,
        /*rate=*/FloatAttr(), /*no_decay=*/false, /*names=*/ArrayAttr(),
        /*aliases=*/ArrayAttr(),
        /*output_axis=*/IntegerAttr(),
        /*scale=*/FlatSymbolRefAttr(), /*minimum=*/FlatSymbolRefAttr(),
        /*terms=*/IntegerAttr(), /*transposed=*/false);
    return FlatSymbolRefAttr::get(table);
  }

  /// `get`, and every argument that it is inside of repeats, gets the new type;
  /// beside it there are its scales, and minima, from here on.
  void retype(GetParamOp get) {
    get.getValue().setType(param.getTensorType());
    b.setInsertionPointAfter(get);
    for (FlatSymbolRefAttr name :
         {param.getScaleAttr(), param.getMinimumAttr()})
      if (name) {
        auto table = SymbolTable::lookupNearestSymbolFrom<ParamOp>(param, name);
        tables[get.getValue()].push_back(
            GetParamOp::create(b, get.getLoc(), table.getTensorType(), name));
      }
    retypeUses(get.getValue());
  }

  void retypeUses(Value value) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : value.getUses())
      uses.push_back(&use);
    for (OpOperand *use : uses) {
      if (auto repeat = dyn_cast<RepeatOp>(use->getOwner()))
        enter(repeat, use->getOperandNumber(), value);
      else if (auto transpose = dyn_cast<TransposeOp>(use->getOwner()))
        pass(transpose, value);
    }
  }

  void enter(RepeatOp repeat, unsigned number, Value value) {
    Block *body = repeat.getBlock();
    BlockArgument argument = body->getArgument(1 + number);
    unsigned stackedBegin = repeat.getCarried().size();
    bool isStacked = number < stackedBegin + repeat.getStacked().size(),
         isChosen = isStacked && repeat.isChosen(number - stackedBegin);
    RankedTensorType type = tensorType(value);
    argument.setType(isStacked ? type.clone(type.getShape().drop_front())
                               : type);
    Location loc = argument.getLoc();
    for (Value table : tables.lookup(value)) {
      if (isStacked) {
        tables[argument].push_back(repeat.addStacked(table, isChosen));
      } else {
        repeat.getSharedMutable().append(table);
        tables[argument].push_back(body->addArgument(table.getType(), loc));
      }
    }
    retypeUses(argument);
  }

  void pass(TransposeOp transpose, Value value) {
    if (byOutputs) {
      SmallVector<Value> own = tables.lookup(value);
      tables[transpose.getY()] = own;
      transposes.push_back(transpose);
    } else {
      transpose.getY().setType(tensorType(transpose.getY()).clone(element));
    }
    retypeUses(transpose.getY());
  }

  void rewrite(OpOperand &reader) {
    if (element.isInteger(4))
      dequantise(reader);
    else if (element.isInteger(8))
      scale(reader);
    else
      widen(reader);
  }

  /// What reads floats in fewer bits reads them as f32.
  void widen(OpOperand &reader) {
    Operation *op = reader.getOwner();
    TfmBuilder build{b, op->getLoc()};
    if (auto gather = dyn_cast<GatherOp>(op)) {
      b.setInsertionPointAfter(op);
      Value rows =
          GatherOp::create(b, op->getLoc(), reader.get(), gather.getIds());
      replace(op, build.cast(rows, b.getF32Type()));
      return;
    }
    b.setInsertionPoint(op);
    Value weight = byOutputs ? source(reader.get()) : reader.get();
    reader.set(build.cast(weight, b.getF32Type()));
    if (byOutputs)
      cast<MatmulOp>(op).setTransposeB(true);
  }

  /// Integers are read as such, and what is made of them is scaled.
  void scale(OpOperand &reader) {
    Operation *op = reader.getOwner();
    Value scale = tables.lookup(reader.get()).front();
    b.setInsertionPointAfter(op);
    Value weight = rowsOf(source(reader.get()), scale);
    TfmBuilder build{b, op->getLoc()};
    Type f32 = b.getF32Type();
    RankedTensorType type = tensorType(op->getResult(0));
    if (auto gather = dyn_cast<GatherOp>(op)) {
      Value rows = GatherOp::create(b, op->getLoc(), weight, gather.getIds());
      Value wide = build.cast(rows, f32);
      Value each = GatherOp::create(b, op->getLoc(), scale, gather.getIds());
      SmallVector<int64_t> shape(tensorType(each).getShape());
      shape.push_back(1);
      each = build.reshape(each, RankedTensorType::get(shape, f32));
      replace(op, build.mul(wide, build.broadcast(each, type)));
      return;
    }
    auto product = cast<MatmulOp>(op);
    Value sums = MatmulOp::create(b, op->getLoc(), product.getA(), weight,
                                  product.getTransposeA(),
                                  /*transpose_b=*/true);
    SmallVector<int64_t> shape(tensorType(scale).getShape());
    shape.insert(shape.end() - 1, 1);
    Value each = build.reshape(scale, RankedTensorType::get(shape, f32));
    replace(op, build.mul(sums, build.broadcast(each, type)));
  }

  /// Groups of integers are read with their scales and minima.
  void dequantise(OpOperand &reader) {
    Operation *op = reader.getOwner();
    Value q = source(reader.get());
    ArrayRef<Value> own = tables[reader.get()];
    b.setInsertionPoint(op);
    SmallVector<int64_t> shape(tensorType(q).getShape());
    shape.back() = static_cast<int64_t>(*param.getTerms());
    Value weights = DequantiseOp::create(
        b, op->getLoc(), RankedTensorType::get(shape, b.getF32Type()), q,
        own[0], own[1]);
    reader.set(weights);
    if (auto product = dyn_cast<MatmulOp>(op))
      product.setTransposeB(true);
  }

  /// `[..., outputs, terms]` of integers that have these scales.
  Value rowsOf(Value weight, Value scale) {
    if (panelOutputs == 0)
      return weight;
    SmallVector<int64_t> shape(tensorType(scale).getShape());
    shape.push_back(static_cast<int64_t>(*param.getTerms()));
    return UnpackOp::create(b, weight.getLoc(),
                            RankedTensorType::get(shape, b.getI8Type()),
                            weight);
  }

  /// What a transpose swapped.
  static Value source(Value weight) {
    while (auto transpose = weight.getDefiningOp<TransposeOp>())
      weight = transpose.getX();
    return weight;
  }

  /// `value` in place of the result of `op`, with its name in the user's words.
  static void replace(Operation *op, Value value) {
    value.getDefiningOp()->setDiscardableAttrs(
        op->getDiscardableAttrDictionary());
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
  }

  ParamOp param;
  Type element;
  int64_t panelOutputs;
  /// Whether it is stored as [..., outputs, terms].
  bool byOutputs;
  OpBuilder b;
  /// The scales, and minima, of the forms that the parameter has in functions
  /// and repeats.
  llvm::DenseMap<Value, SmallVector<Value>> tables;
  /// Of what is stored as products read it: they go.
  SmallVector<TransposeOp> transposes;
};

struct StoreWeightsPass : tfm::impl::StoreWeightsPassBase<StoreWeightsPass> {
  using StoreWeightsPassBase::StoreWeightsPassBase;

  /// Of a parameter of so many outputs along its axis.
  int64_t panelOutputsOf(ParamOp param) {
    ArrayRef<int64_t> shape = param.getTensorType().getShape();
    bool outputsAreLast = static_cast<int64_t>(*param.getOutputAxis()) ==
                          Readers::layerRankOf(param) - 1;
    int64_t terms = shape[shape.size() - (outputsAreLast ? 2 : 1)];
    return terms <= panelTerms ? panelOutputs : 0;
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<Type> element = weightsOfGeneration(module);
    if (failed(element))
      return signalPassFailure();
    llvm::DenseMap<StringAttr, SmallVector<GetParamOp>> gets;
    for (auto function : module.getOps<func::FuncOp>()) {
      // Derivatives read weights in other ways, and no build has both.
      if (function.getSymName() == nameOf(ProgramKind::Train))
        continue;
      function.walk([&](GetParamOp get) {
        gets[get.getParamAttr().getAttr()].push_back(get);
      });
    }
    for (auto param : llvm::to_vector(module.getOps<ParamOp>())) {
      ArrayRef<GetParamOp> own = gets[param.getSymNameAttr()];
      Readers readers(param);
      if (!readers.follow(own))
        continue;
      param.setOutputAxis(*readers.outputAxis());
      if (!element->isF32())
        Storer(param, *element, panelOutputsOf(param), byOutputs)
            .run(own, readers.all());
    }
  }
};

} // namespace

std::optional<int64_t> tfm::outputAxisOf(ParamOp param,
                                         ArrayRef<GetParamOp> gets) {
  Readers readers(param);
  return readers.follow(gets) ? readers.outputAxis() : std::nullopt;
}
