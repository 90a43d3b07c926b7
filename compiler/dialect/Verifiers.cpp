//===- Verifiers.cpp - what types alone do not say ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mlir;
using namespace tfm;

namespace {

ArrayRef<int64_t> shapeOf(Value value) { return tensorType(value).getShape(); }

Type elementOf(Value value) { return tensorType(value).getElementType(); }

template <typename Op> LogicalResult verifyNormalization(Op op) {
  double eps = op.getEps().convertToDouble();
  if (!(eps >= 0.0 && std::isfinite(eps)))
    return op.emitOpError("eps is not a finite number of at least 0");
  return success();
}

/// The site is the upper half of a word of Philox' counter, and its top bit
/// marks what the runtime draws: 32768 sites times 65536 layers are told apart.
LogicalResult verifySite(Operation *op, int64_t site) {
  if (site < 0 || site >= 32768)
    return op->emitOpError("site is not in 0 <= site < 32768");
  return success();
}

/// Dropout of `op` at a rate called `name`.
LogicalResult verifyDropout(Operation *op, StringRef name, const APFloat &rate,
                            std::optional<int64_t> site) {
  double value = rate.convertToDouble();
  if (!(value >= 0.0 && value < 1.0))
    return op->emitOpError() << name << " is not in 0 <= " << name << " < 1";
  if (!site)
    return op->emitOpError("dropout needs a site");
  return verifySite(op, *site);
}

/// A layer is the index that the enclosing repeat gives to its body, or that is
/// passed on to the body of a kernel.
LogicalResult verifyLayer(Operation *op, Value layer) {
  if (!layer)
    return success();
  auto argument = dyn_cast<BlockArgument>(layer);
  Operation *around = argument ? argument.getOwner()->getParentOp() : nullptr;
  auto repeat = op->getParentOfType<RepeatOp>();
  bool isIndex = repeat && layer == repeat.getLayer();
  bool isPassedOn = around && around == op->getParentOp() &&
                    !isa<RepeatOp, FunctionOpInterface>(around);
  if (!isIndex && !isPassedOn)
    return op->emitOpError("layer is not the index of the enclosing repeat");
  return success();
}

/// What attention and its derivative have in common.
template <typename Op> LogicalResult verifyAttention(Op op) {
  ArrayRef<int64_t> q = shapeOf(op.getQ()), k = shapeOf(op.getK()),
                    v = shapeOf(op.getV());
  if (q.size() != 4 || k.size() != 4 || v.size() != 4 || k[0] != q[0] ||
      v[0] != q[0] || k[3] != q[3] || k[2] != v[2] || k[1] != v[1])
    return op.emitOpError("expected q [B, heads, T, d], k [B, kv_heads, S, d], "
                          "v [B, kv_heads, S, e]");
  if (q[1] % k[1] != 0)
    return op.emitOpError("heads are not a multiple of kv_heads");
  Type element = elementOf(op.getQ()), keys = elementOf(op.getK());
  if ((keys != element && !keys.isInteger(8)) || elementOf(op.getV()) != keys)
    return op.emitOpError("q, k and v differ in their element type");
  if (Value value = op.getMask()) {
    ArrayRef<int64_t> mask = shapeOf(value);
    if (mask.size() != 4 || (mask[0] != q[0] && mask[0] != 1) ||
        (mask[1] != q[1] && mask[1] != 1) || mask[2] != q[2] || mask[3] != k[2])
      return op.emitOpError("the mask is not [B or 1, heads or 1, T, S]");
    if (!elementOf(value).isInteger(1) &&
        elementOf(value) != arithmeticType(element))
      return op.emitOpError("the mask's elements are neither i1 nor ")
             << arithmeticType(element);
  }
  if (Value value = op.getDistanceBias()) {
    ArrayRef<int64_t> bias = shapeOf(value);
    if (bias.size() != 2 || bias[0] != q[1])
      return op.emitOpError("the distance bias is not [heads, n]");
    if (!op.getCausal() && bias[1] % 2 == 0)
      return op.emitOpError("the distance bias has no column in its middle");
  }
  if (!op.getScale().isFinite())
    return op.emitOpError("scale is not finite");
  if (op.getWindow() && static_cast<int64_t>(*op.getWindow()) < 1)
    return op.emitOpError("window is not positive");
  if (op.getSoftcap() &&
      !(op.getSoftcap()->isFinite() && *op.getSoftcap() > APFloat(0.0)))
    return op.emitOpError("softcap is not a positive number");
  if (op.getDropout() &&
      failed(verifyDropout(op, "dropout", *op.getDropout(), op.getSite())))
    return failure();
  return verifyLayer(op, op.getLayer());
}

/// What cross entropy and its derivative have in common.
template <typename Op> LogicalResult verifyCrossEntropy(Op op) {
  ArrayRef<int64_t> logits = shapeOf(op.getLogits());
  if (logits.empty())
    return op.emitOpError("logits have no axis");
  if (shapeOf(op.getTargets()) != logits.drop_back())
    return op.emitOpError("targets do not have the shape of the rows of "
                          "logits");
  double smoothing = op.getLabelSmoothing().convertToDouble();
  if (!(smoothing >= 0.0 && smoothing < 1.0))
    return op.emitOpError("label_smoothing is not in 0 <= label_smoothing < 1");
  return success();
}

} // namespace

LogicalResult ParamOp::verify() {
  RankedTensorType type = getTensorType();
  int64_t stacked = getNumStackedDims();
  if (stacked > type.getRank())
    return emitOpError("has ") << stacked << " repeats in its path but only "
                               << type.getRank() << " axes";
  int64_t layers = 1;
  for (int64_t size : type.getShape().take_front(stacked))
    layers *= size;
  if (std::optional<ArrayAttr> names = getNames()) {
    if (static_cast<int64_t>(names->size()) != layers)
      return emitOpError("names ") << names->size() << " layers of " << layers;
    llvm::DenseSet<Attribute> seen;
    for (Attribute name : *names)
      if (!seen.insert(name).second)
        return emitOpError("names two layers ") << name;
  }
  // Of one layer, as checkpoints have it: panels have two axes for each of the
  // last two.
  bool inPanels = getTerms() && !getMinimum();
  int64_t rank = type.getRank() - stacked - (inPanels ? 2 : 0);
  if (inPanels && rank < 2)
    return emitOpError("has panels of ")
           << rank + 2 << " axes: each of the last two is two of them";
  if (!getDims().empty() && static_cast<int64_t>(getDims().size()) != rank)
    return emitOpError("names ")
           << getDims().size() << " dimensions of " << rank;
  auto kind = getInit().getAs<StringAttr>("kind");
  if (!kind)
    return emitOpError("has an `init` without a `kind`");
  auto wanted = llvm::StringSwitch<int>(kind.getValue())
                    .Cases({"zeros", "ones"}, 0)
                    .Case("constant", 1)
                    .Cases({"normal", "truncated_normal", "uniform"}, 2)
                    .Default(-1);
  if (wanted < 0)
    return emitOpError("has an `init` of no known kind: ") << kind;
  auto args = getInit().getAs<ArrayAttr>("args");
  if (args && !llvm::all_of(args, llvm::IsaPred<FloatAttr, IntegerAttr>))
    return emitOpError("has an `init` with `args` that are no numbers");
  if (int given = args ? static_cast<int>(args.size()) : 0; given != wanted)
    return emitOpError("has an `init` with ")
           << given << " `args`; " << kind.getValue() << " takes " << wanted;
  SmallVector<double> numbers = getInitArgs();
  if (!llvm::all_of(numbers,
                    [](double number) { return std::isfinite(number); }))
    return emitOpError("has an `init` with `args` that are not finite");
  if (kind.getValue() == "uniform" && numbers[0] > numbers[1])
    return emitOpError("has an `init` from high to low");
  if (kind.getValue().ends_with("normal") && numbers[1] < 0)
    return emitOpError("has an `init` with a negative deviation");
  if (double rate = getRateOrOne(); !(rate > 0 && std::isfinite(rate)))
    return emitOpError("has a rate of ") << rate << ": expected a positive one";
  if (std::optional<int64_t> axis = getOutputAxis();
      axis && (rank < 2 || (*axis != rank - 1 && *axis != rank - 2)))
    return emitOpError("has its outputs along axis ")
           << *axis << " of " << rank << ": expected one of the last two";
  if (getScale().has_value() != type.getElementType().isInteger(8))
    return emitOpError("of ") << type.getElementType()
                              << ": those of i8, and no others, have a scale";
  if (getScale() && !getOutputAxis())
    return emitOpError("has a scale, but no `output_axis`");
  if ((getMinimum() && !getTerms()) || (getTerms() && !getScale()))
    return emitOpError("has only some of `scale`, `minimum` and `terms`");
  if (getTransposed() &&
      (!type.getElementType().isBF16() || getOutputAxis() != rank - 1))
    return emitOpError("is transposed: expected bf16, and outputs along the "
                       "last axis");
  int64_t bytes = getMinimum() ? DequantiseOp::groupsOf(*getTerms()) *
                                     DequantiseOp::groupBytes
                               : 0;
  if (getMinimum() && type.getShape().back() != bytes)
    return emitOpError("has rows of ")
           << type.getShape().back() << " bytes: " << *getTerms()
           << " terms of 4 bits take " << bytes;
  return success();
}

/// Whether a parameter in panels has those of as many outputs as scales.
static LogicalResult verifyPanels(ParamOp op, SymbolTableCollection &tables) {
  auto scale = tables.lookupNearestSymbolFrom<ParamOp>(op, op.getScaleAttr());
  RankedTensorType type = op.getTensorType();
  if (!scale || type.getRank() < 4)
    return op.emitOpError("has no panels, or no scales of them");
  SmallVector<int64_t> shape(scale.getTensorType().getShape());
  shape.push_back(static_cast<int64_t>(*op.getTerms()));
  auto rows = RankedTensorType::get(shape, type.getElementType());
  int64_t outputs = type.getShape().drop_back().back();
  if (RankedTensorType wanted = UnpackOp::panelsOf(rows, outputs);
      type != wanted)
    return op.emitOpError("has panels of type ")
           << type << ": expected " << wanted;
  return success();
}

LogicalResult ParamOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (!getScale())
    return success();
  RankedTensorType type = getTensorType();
  SmallVector<int64_t> shape(type.getShape().drop_back());
  Type element = Float32Type::get(getContext());
  if (getMinimum()) {
    shape.push_back(DequantiseOp::groupsOf(*getTerms()));
    element = BFloat16Type::get(getContext());
  } else if (getTerms()) {
    return verifyPanels(*this, tables);
  }
  auto wanted = RankedTensorType::get(shape, element);
  auto verifyTable = [&](FlatSymbolRefAttr name,
                         StringRef what) -> LogicalResult {
    auto table = tables.lookupNearestSymbolFrom<ParamOp>(*this, name);
    if (!table)
      return emitOpError("names no parameter as its ")
             << what << ": " << name.getValue();
    if (table.getTensorType() != wanted)
      return emitOpError("has a ")
             << what << " of type " << table.getTensorType() << ": expected "
             << wanted;
    return success();
  };
  if (failed(verifyTable(getScaleAttr(), "scale")) ||
      (getMinimum() && failed(verifyTable(getMinimumAttr(), "minimum"))))
    return failure();
  return success();
}

LogicalResult GetParamOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto param = tables.lookupNearestSymbolFrom<ParamOp>(*this, getParamAttr());
  if (!param)
    return emitOpError("names no parameter: ") << getParam();
  RankedTensorType type = param.getTensorType();
  bool isCopy = getType() == type.clone(BFloat16Type::get(getContext()));
  if (getType() != type && !isCopy)
    return emitOpError("has type ")
           << getType() << " but the parameter " << param.getTensorType();
  if ((*this)->getParentOfType<RepeatOp>())
    return emitOpError("stands inside a repeat");
  return success();
}

LogicalResult MatmulOp::verify() {
  Type element = tensorType(getA()).getElementType(), sums = getAccumulator();
  // Integers beside floats are floats.
  if (element.isInteger(8))
    element = tensorType(getB()).getElementType();
  if (isa<FloatType>(sums) != isa<FloatType>(element))
    return emitOpError("adds up terms of ")
           << element << " in " << sums
           << ": expected floats for floats, integers for integers";
  if (sums.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth())
    return emitOpError("adds up terms of ")
           << element << " in " << sums
           << ": expected a type that is no narrower";
  return success();
}

LogicalResult DequantiseOp::verify() {
  SmallVector<int64_t> shape(getY().getType().getShape());
  if (shape.empty())
    return emitOpError("gives no rows of terms");
  int64_t groups = groupsOf(shape.back());
  auto verifyType = [&](Value value, int64_t row,
                        StringRef what) -> LogicalResult {
    shape.back() = row;
    RankedTensorType type = tensorType(value);
    if (RankedTensorType wanted = type.clone(shape); type != wanted)
      return emitOpError("has ")
             << what << " of type " << type << ": expected " << wanted;
    return success();
  };
  if (failed(verifyType(getQ(), groups * groupBytes, "integers")))
    return failure();
  return verifyType(getScale(), groups, "scales and minima");
}

LogicalResult UnpackOp::verify() {
  RankedTensorType type = getY().getType();
  if (type.getRank() < 2 || getPanels().getType().getRank() < 4)
    return emitOpError("takes matrices from panels");
  if (RankedTensorType wanted = panelsOf(type, getPanelOutputs());
      getPanels().getType() != wanted)
    return emitOpError("has panels of type ")
           << getPanels().getType() << ": expected " << wanted;
  return success();
}

LogicalResult ConstantOp::verify() {
  if (!isa<DenseElementsAttr>(getValue()))
    return emitOpError("has elements that are not in the module");
  return success();
}

LogicalResult IotaOp::verify() {
  int64_t rank = tensorType(getY()).getRank();
  int64_t axis = getAxis();
  if (axis < 0 || axis >= rank)
    return emitOpError("axis ") << axis << " is not in 0 <= axis < " << rank;
  return success();
}

LogicalResult PositionsOp::verify() {
  if (shapeOf(getTokens()).size() != 2)
    return emitOpError("expected tokens [B, T]");
  return success();
}

LogicalResult NormalizeOp::verify() { return verifyNormalization(*this); }

LogicalResult RmsNormalizeOp::verify() { return verifyNormalization(*this); }

LogicalResult BroadcastOp::verify() {
  RankedTensorType from = tensorType(getX()), to = tensorType(getY());
  if (from.getElementType() != to.getElementType())
    return emitOpError("changes the element type");
  if (from.getRank() > to.getRank())
    return emitOpError("lowers the rank");
  ArrayRef<int64_t> tail = to.getShape().take_back(from.getRank());
  for (auto [a, b] : llvm::zip_equal(from.getShape(), tail))
    if (a != b && a != 1)
      return emitOpError("cannot repeat an axis of size ") << a << " to " << b;
  return success();
}

LogicalResult ReshapeOp::verify() {
  RankedTensorType from = tensorType(getX()), to = tensorType(getY());
  if (from.getElementType() != to.getElementType())
    return emitOpError("changes the element type");
  if (from.getNumElements() != to.getNumElements())
    return emitOpError("changes the number of elements");
  return success();
}

LogicalResult ScatterAddOp::verify() {
  if (shapeOf(getBase()).empty())
    return emitOpError("the table has no axis");
  SmallVector<int64_t> expected(shapeOf(getIds()));
  llvm::append_range(expected, shapeOf(getBase()).drop_front());
  if (shapeOf(getUpdates()) != ArrayRef(expected))
    return emitOpError("updates are not [ids..., table dimensions...]");
  if (elementOf(getUpdates()) != elementOf(getBase()))
    return emitOpError("base and updates differ in their element type");
  return success();
}

LogicalResult CacheUpdateOp::verify() {
  ArrayRef<int64_t> base = shapeOf(getBase()), updates = shapeOf(getUpdates()),
                    positions = shapeOf(getPositions());
  if (base.size() != 4 || updates.size() != 4 ||
      (base[0] != updates[0] && base[0] != 1) || base[1] != updates[1] ||
      base[3] != updates[3] || positions != updates.take_front(1))
    return emitOpError(
        "expected base [B or 1, heads, S, d], updates [B, heads, "
        "T, d], positions [B]");
  if (elementOf(getUpdates()) != elementOf(getBase()))
    return emitOpError("base and updates differ in their element type");
  if (getRing() && updates[2] > base[2])
    return emitOpError("has more updates than its ring has rows");
  return success();
}

LogicalResult AttentionOp::verify() {
  if (failed(verifyAttention(*this)))
    return failure();
  if (getStart() && !getCausal())
    return emitOpError("has a start, but is not causal");
  if (getStart() && shapeOf(getStart()) != shapeOf(getQ()).take_front(1))
    return emitOpError("start is not [B]");
  bool isQuantised = elementOf(getK()).isInteger(8);
  SmallVector<int64_t> scales(shapeOf(getK()));
  scales.back() = 1;
  for (Value scale : {getKeyScale(), getValueScale()})
    if (isQuantised != static_cast<bool>(scale) ||
        (scale && (shapeOf(scale) != ArrayRef(scales) ||
                   elementOf(scale) != arithmeticType(elementOf(getQ())))))
      return emitOpError("keys and values of i8, and no others, have scales "
                         "[B, kv_heads, S, 1] of ")
             << arithmeticType(elementOf(getQ()));
  if (!getRing())
    return success();
  if (!getStart() || !getWindow() || getMask())
    return emitOpError("a ring needs a start and a window, and no mask");
  int64_t rows = shapeOf(getK())[2],
          needed = static_cast<int64_t>(*getWindow()) + shapeOf(getQ())[2] - 1;
  if (rows < needed)
    return emitOpError("a ring of ")
           << rows << " rows is too small: its queries see " << needed;
  return success();
}

LogicalResult AttentionBackwardOp::verify() {
  if (failed(verifyAttention(*this)))
    return failure();
  SmallVector<int64_t> expected(shapeOf(getQ()));
  expected.back() = shapeOf(getV()).back();
  if (shapeOf(getOut()) != ArrayRef(expected))
    return emitOpError("expected out and dout [B, heads, T, e]");
  if (shapeOf(getLse()) != shapeOf(getQ()).drop_back())
    return emitOpError("expected lse [B, heads, T]");
  Type element = elementOf(getQ());
  if (elementOf(getOut()) != element)
    return emitOpError("q and out differ in their element type");
  if (elementOf(getLse()) != arithmeticType(element))
    return emitOpError("lse is not of ") << arithmeticType(element);
  if (getInner() && getInner().getType() != getLse().getType())
    return emitOpError("inner does not have the type of lse");
  if (getDdistance() && (!getDistanceBias() || getDdistance().getType() !=
                                                   getDistanceBias().getType()))
    return emitOpError("ddistance does not have the type of a distance bias");
  if (!getDmask())
    return success();
  if (!getMask() || !isa<FloatType>(elementOf(getMask())))
    return emitOpError("has a dmask, but no mask of floats");
  if (getDmask().getType() != getMask().getType())
    return emitOpError("dmask does not have the type of the mask");
  return success();
}

LogicalResult RopeOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getX()), positions = shapeOf(getPositions());
  auto dims = static_cast<int64_t>(getDims());
  if (x.size() != 4 || positions.size() != 2 || positions[0] != x[0] ||
      positions[1] != x[2])
    return emitOpError("expected x [B, heads, T, d] and positions [B, T]");
  if (dims < 2 || dims % 2 != 0 || dims > x[3])
    return emitOpError("dims is not an even number in 2 <= dims <= ") << x[3];
  if (!getBase().isFinite() || !(getBase() > APFloat(0.0)))
    return emitOpError("base is not a positive number");
  if (std::optional<ArrayRef<double>> own = getFrequencies();
      own && (static_cast<int64_t>(own->size()) != dims / 2 ||
              !llvm::all_of(*own, [](double x) { return std::isfinite(x); })))
    return emitOpError("frequencies are not dims / 2 finite numbers");
  if (getAmplitude() && !getAmplitude()->isFinite())
    return emitOpError("amplitude is not finite");
  return success();
}

LogicalResult DropoutOp::verify() {
  if (failed(verifyDropout(*this, "rate", getRate(), getSite())))
    return failure();
  return verifyLayer(*this, getLayer());
}

LogicalResult UniformOp::verify() {
  if (failed(verifySite(*this, getSite())))
    return failure();
  return verifyLayer(*this, getLayer());
}

LogicalResult CrossEntropyOp::verify() { return verifyCrossEntropy(*this); }

LogicalResult CrossEntropyBackwardOp::verify() {
  if (failed(verifyCrossEntropy(*this)))
    return failure();
  if (shapeOf(getLse()) != shapeOf(getTargets()))
    return emitOpError("lse and dlosses do not have the shape of the rows of "
                       "logits");
  if (elementOf(getLse()) != arithmeticType(elementOf(getLogits())))
    return emitOpError("lse is not of ")
           << arithmeticType(elementOf(getLogits()));
  return success();
}

LogicalResult RepeatOp::verify() {
  Block *block = getBlock();
  int64_t count = getCount();
  if (count < 1)
    return emitOpError("repeats ") << count << " times";
  size_t operands =
      getCarried().size() + getStacked().size() + getShared().size();
  if (block->getNumArguments() != operands + 1 ||
      !block->getArgument(0).getType().isIndex())
    return emitOpError("expected a body with the layer's index and one "
                       "argument per operand");
  for (auto [arg, value] : llvm::zip_equal(getCarriedArgs(), getCarried()))
    if (arg.getType() != value.getType())
      return emitOpError("a carried argument differs from its operand");
  for (auto [arg, value] : llvm::zip_equal(getSharedArgs(), getShared()))
    if (arg.getType() != value.getType())
      return emitOpError("a shared argument differs from its operand");
  auto stack = [](Type slice, int64_t layers) -> Type {
    auto type = dyn_cast<RankedTensorType>(slice);
    return type ? stackedType(type, layers) : RankedTensorType();
  };
  if (getOrder()) {
    if (getOrder().getType().getShape() != ArrayRef(count))
      return emitOpError("has an order that is not [count]");
    if (!getLayer().use_empty())
      return emitOpError("has an order, and so uses no index of a layer");
  } else if (getChosen() != 0) {
    return emitOpError("chooses slices without an order");
  }
  if (getChosen() > getStacked().size() || getUpdated() > getChosen())
    return emitOpError("chooses ")
           << getChosen() << " and updates " << getUpdated() << " of "
           << getStacked().size() << " stacked operands";
  for (auto [i, arg, value] : llvm::enumerate(getStackedArgs(), getStacked())) {
    auto type = cast<RankedTensorType>(value.getType());
    bool isAny = isChosen(i) && type.getRank() > 0;
    if (stack(arg.getType(), isAny ? type.getDimSize(0) : count) != type)
      return emitOpError(
          "a stacked operand is not [count, ...] of its argument");
  }
  YieldOp yield = getYield();
  const size_t carried = getCarried().size(), whole = carried + getUpdated();
  if (yield.getNumOperands() != getNumResults() || getNumResults() < whole)
    return emitOpError("yields ") << yield.getNumOperands() << " values for "
                                  << getNumResults() << " results";
  for (auto [i, value] : llvm::enumerate(yield.getOperands())) {
    Type expected = value.getType(), type = getResult(i).getType();
    if (i >= whole) {
      expected = stack(expected, count);
    } else if (i >= carried) {
      expected = getUpdatedOperands()[i - carried].getType();
      if (value.getType() != getUpdatedArgs()[i - carried].getType())
        return emitOpError("updated slice ")
               << i - carried << " changes its type";
    }
    if (type != expected)
      return emitOpError("result ") << i << " does not match what is yielded";
    if (i < carried && type != getCarried()[i].getType())
      return emitOpError("carried value ") << i << " changes its type";
  }
  return success();
}
