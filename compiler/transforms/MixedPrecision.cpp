//===- MixedPrecision.cpp - what is stored in bf16 ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arithmetic is done in f32 (the oracle's f64), and a value is rounded once,
// where it is stored: `tfm.cast` to bf16 next to what makes it, and back where
// something other than a product reads it. Kernels are fused around both.
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmBuilder.h"
#include "compiler/transforms/ParameterRegions.h"
#include "compiler/transforms/Passes.h"
#include "compiler/transforms/ReadRecipe.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"

namespace tfm {
#define GEN_PASS_DEF_MIXEDPRECISIONPASS
#include "compiler/transforms/Passes.h.inc"
} // namespace tfm

using namespace mlir;
using namespace tfm;

namespace {

/// What of an op is of bf16. This is the whole policy, but for what a repeat
/// saves (`narrowSaved`).
struct Stored {
  SmallVector<OpOperand *> operands;
  SmallVector<Value> results;
};

Stored storedNarrow(Operation *op) {
  auto operandsOf = [](auto &...operands) {
    return SmallVector<OpOperand *>{&operands...};
  };
  return llvm::TypeSwitch<Operation *, Stored>(op)
      .Case([&](MatmulOp op) -> Stored {
        // Weights of 4 bits become f32 where they are multiplied.
        if (op.getB().getDefiningOp<DequantiseOp>())
          return {};
        return {operandsOf(op.getAMutable(), op.getBMutable()), {}};
      })
      .Case([&](AttentionOp op) -> Stored {
        return {
            operandsOf(op.getQMutable(), op.getKMutable(), op.getVMutable()),
            {op.getOut()}};
      })
      .Case([&](AttentionBackwardOp op) -> Stored {
        return {operandsOf(op.getQMutable(), op.getKMutable(), op.getVMutable(),
                           op.getOutMutable(), op.getDoutMutable()),
                {op.getDq(), op.getDk(), op.getDv()}};
      })
      .Case([&](CrossEntropyOp op) -> Stored {
        // What no derivative reads, too, is there for its own sake.
        if (llvm::none_of(op.getLogits().getUsers(),
                          llvm::IsaPred<CrossEntropyBackwardOp>))
          return {};
        return {operandsOf(op.getLogitsMutable()), {}};
      })
      .Case([&](CrossEntropyBackwardOp op) -> Stored {
        return {operandsOf(op.getLogitsMutable()), {op.getDlogits()}};
      })
      .Default(Stored());
}

class Narrower {
public:
  /// `hasCopies`: whether parameters may be read as copies of them.
  Narrower(MLIRContext *context, bool hasCopies)
      : b(context), bf16(BFloat16Type::get(context)),
        f32(Float32Type::get(context)), hasCopies(hasCopies) {}

  void run(func::FuncOp function) {
    function.walk([&](CrossEntropyBackwardOp derivative) {
      narrowUnderLogits(derivative.getLogits());
    });
    narrowOps(function, [](Operation *) { return true; });
    function.walk([&](CastOp cast) {
      if (cast.getType() == narrowType(cast.getX()))
        sumWhatIsStored(cast);
    });
    SmallVector<RepeatOp> repeats;
    function.walk([&](RepeatOp repeat) { repeats.push_back(repeat); });
    for (RepeatOp repeat : repeats)
      narrowSaved(repeat);
  }

  /// What goes to the caches of generation, and what meets it.
  void runOnAttention(func::FuncOp function) {
    narrowOps(function, llvm::IsaPred<AttentionOp>);
  }

private:
  void narrowOps(func::FuncOp function,
                 llvm::function_ref<bool(Operation *)> chosen) {
    SmallVector<Operation *> ops;
    function.walk([&](Operation *op) {
      if (Stored stored = storedNarrow(op);
          chosen(op) && (!stored.operands.empty() || !stored.results.empty()))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      Stored stored = storedNarrow(op);
      for (OpOperand *operand : stored.operands)
        operand->set(narrow(operand->get()));
      for (Value result : stored.results)
        narrowResult(result);
    }
  }

  /// Logits may be what a function gives of the last product, times a number (a
  /// soft cap, as Gemma 2 has). Its derivative is made of that: all read it as
  /// it is stored, in bf16, so that nothing as large is kept in f32.
  void narrowUnderLogits(Value logits) {
    Value value = logits;
    for (Operation *op = value.getDefiningOp(); op;
         op = value.getDefiningOp()) {
      if (isa<MulOp, DivOp>(op) && isFloatConstant(op->getOperand(1)))
        value = op->getOperand(0);
      else if (isa<MulOp>(op) && isFloatConstant(op->getOperand(0)))
        value = op->getOperand(1);
      else
        break;
    }
    if (!value.getDefiningOp<ScalarFunctionOpInterface>() ||
        tensorType(value).getElementType() != f32 || narrowed.contains(value))
      return;
    RankedTensorType wide = tensorType(value);
    Value stored = narrow(value);
    b.setInsertionPointAfterValue(stored);
    Value read = CastOp::create(b, value.getLoc(), wide, stored);
    value.replaceAllUsesExcept(read, stored.getDefiningOp());
  }

  /// What products read of a function of another product is stored in bf16, and
  /// where nothing but sums read it in f32, too, these add up what is stored:
  /// so the product's kernel computes it, and it is there once. Its rounding is
  /// to either side, and nothing in a sum over all rows.
  void sumWhatIsStored(CastOp cast) {
    Value wide = cast.getX();
    if (wide.hasOneUse() || !isMadeOfProduct(wide) ||
        !llvm::all_of(wide.getUsers(), [&](Operation *user) {
          return user == cast || isSummed(user);
        }))
      return;
    b.setInsertionPointAfter(cast);
    Value read = CastOp::create(b, cast.getLoc(), wide.getType(), cast.getY());
    wide.replaceAllUsesExcept(read, cast);
  }

  /// Whether an op is a sum over rows, or a view of which nothing but such sums
  /// are taken. Those within rows are statistics, of f32.
  static bool isSummed(Operation *op) {
    if (auto sum = dyn_cast<ReduceSumOp>(op))
      return static_cast<int64_t>(sum.getAxis()) !=
             tensorType(sum.getX()).getRank() - 1;
    return isa<ReshapeOp>(op) && llvm::all_of(op->getUsers(), isSummed);
  }

  /// Whether `value` is what elementwise ops make of a product that they alone
  /// read.
  static bool isMadeOfProduct(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || isa<MatmulOp>(op))
      return op;
    return (isa<ReshapeOp, DropoutOp>(op) ||
            op->hasTrait<OpTrait::Elementwise>()) &&
           llvm::any_of(op->getOperands(), [](Value operand) {
             return operand.hasOneUse() && isMadeOfProduct(operand);
           });
  }

  RankedTensorType narrowType(Value value) const {
    return tensorType(value).clone(bf16);
  }

  /// An op computes `result` in bf16 from now on; others see it in f32.
  void narrowResult(Value result) {
    RankedTensorType wide = tensorType(result);
    result.setType(narrowType(result));
    b.setInsertionPointAfterValue(result);
    auto cast = CastOp::create(b, result.getLoc(), wide, result);
    result.replaceAllUsesExcept(cast.getY(), cast);
  }

  /// `value` rounded to bf16, as close to where it is made as may be: under
  /// views, outside of a repeat that only passes it on, and in the copy of a
  /// parameter.
  Value narrow(Value value) {
    if (tensorType(value).getElementType() != f32)
      return value;
    if (Value known = narrowed.lookup(value))
      return known;
    if (auto repeat = value.getDefiningOp<RepeatOp>()) {
      unsigned number = cast<OpResult>(value).getResultNumber();
      if (number >= repeat.getCarried().size() + repeat.getUpdated()) {
        Value inside = narrow(repeat.getYield().getOperand(number));
        Value result = yieldAlso(repeat, inside);
        return narrowed[repeat->getResult(number)] = result;
      }
    }
    Value result = makeNarrow(value);
    return narrowed[value] = result;
  }

  Value makeNarrow(Value value) {
    RankedTensorType type = narrowType(value);
    Location loc = value.getLoc();
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto repeat = dyn_cast<RepeatOp>(argument.getOwner()->getParentOp());
      unsigned number = argument.getArgNumber();
      if (repeat && number > repeat.getCarried().size() &&
          !llvm::is_contained(repeat.getUpdatedArgs(), value))
        return passIn(repeat, number);
    } else if (auto cast = value.getDefiningOp<CastOp>();
               cast && tensorType(cast.getX()).getElementType() == bf16) {
      return cast.getX();
    } else if (auto get = value.getDefiningOp<GetParamOp>(); get && hasCopies) {
      b.setInsertionPointAfter(get);
      return GetParamOp::create(b, loc, type, get.getParamAttr());
    } else if (isFloatConstant(value)) {
      b.setInsertionPointAfterValue(value);
      return splat(b, loc, type, *floatSplat(value));
    } else if (Operation *op = value.getDefiningOp();
               isa<ReshapeOp, TransposeOp, BroadcastOp, SliceOp>(op)) {
      Value x = narrow(op->getOperand(0));
      b.setInsertionPointAfter(op);
      Operation *view = b.clone(*op);
      view->setOperand(0, x);
      view->getResult(0).setType(type);
      return view->getResult(0);
    }
    b.setInsertionPointAfterValue(value);
    return CastOp::create(b, loc, type, value);
  }

  /// A stacked or shared operand that comes into the body in bf16, too.
  Value passIn(RepeatOp repeat, unsigned number) {
    Value operand = narrow(repeat->getOperand(number - 1));
    unsigned stackedBegin = 1 + repeat.getCarried().size();
    if (number < stackedBegin + repeat.getStacked().size())
      return repeat.addStacked(operand, repeat.isChosen(number - stackedBegin));
    repeat.getSharedMutable().append(operand);
    return repeat.getBlock()->addArgument(operand.getType(), operand.getLoc());
  }

  /// A further stacked result of `repeat`: `value` of every layer. `repeat` is
  /// made anew.
  Value yieldAlso(RepeatOp &repeat, Value value) {
    repeat.getYield().getValuesMutable().append(value);
    SmallVector<Type> types(repeat->getResultTypes());
    types.push_back(stackedType(tensorType(value),
                                static_cast<int64_t>(repeat.getCount())));
    b.setInsertionPoint(repeat);
    auto longer = RepeatOp::create(
        b, repeat.getLoc(), types, repeat.getCount(), repeat.getReverse(),
        repeat.getCarried(), repeat.getStacked(), repeat.getShared(),
        repeat.getOrder(), repeat.getChosen(), repeat.getUpdated());
    longer->setDiscardableAttrs(repeat->getDiscardableAttrDictionary());
    longer.getBody().takeBody(repeat.getBody());
    for (auto [from, to] :
         llvm::zip(repeat->getResults(), longer->getResults())) {
      from.replaceAllUsesWith(to);
      if (Value known = narrowed.lookup(from)) {
        narrowed.erase(from);
        narrowed[to] = known;
      }
    }
    for (auto &[wide, narrow] : narrowed)
      if (auto result = dyn_cast<OpResult>(narrow);
          result && result.getOwner() == repeat)
        narrow = longer->getResult(result.getResultNumber());
    repeat.erase();
    repeat = longer;
    return longer->getResults().back();
  }

  //===--------------------------------------------------------------------===//
  // What a repeat saves for its derivative
  //===--------------------------------------------------------------------===//

  /// Values that other repeats take layer by layer are stacked in bf16 where
  /// they are what a product gives or takes, but not the stream of residuals:
  /// what is added to it would be lost in its rounding.
  void narrowSaved(RepeatOp repeat) {
    llvm::DenseSet<Value> stream;
    size_t carried = repeat.getCarried().size(),
           whole = carried + repeat.getUpdated();
    for (Value next : repeat.getYield().getValues().take_front(carried))
      collectStream(next, stream);
    for (Value argument : repeat.getCarriedArgs())
      stream.insert(argument);
    for (size_t i = whole; i < repeat->getNumResults(); ++i) {
      Value result = repeat->getResult(i);
      Value value = repeat.getYield().getOperand(i);
      bool savedOnly = llvm::all_of(result.getUses(), [](OpOperand &use) {
        auto reader = dyn_cast<RepeatOp>(use.getOwner());
        unsigned number = use.getOperandNumber();
        return reader && number >= reader.getCarried().size() &&
               number < reader.getCarried().size() + reader.getStacked().size();
      });
      if (result.use_empty() || !savedOnly ||
          tensorType(value).getElementType() != f32 || stream.contains(value) ||
          !(narrowed.contains(value) || comesFromProduct(value)))
        continue;
      readNarrow(repeat, i);
    }
  }

  /// The terms that a carried value is the sum of.
  static void collectStream(Value value, llvm::DenseSet<Value> &stream) {
    if (!stream.insert(value).second)
      return;
    Operation *op = value.getDefiningOp();
    if (isa_and_nonnull<AddOp, ReshapeOp, TransposeOp, DropoutOp>(op))
      for (Value operand : op->getOperands())
        if (isa<RankedTensorType>(operand.getType()))
          collectStream(operand, stream);
  }

  /// Whether `value` is a product, or one with a bias.
  static bool comesFromProduct(Value value) {
    // A sum may be reached on many ways.
    llvm::DenseSet<Value> seen;
    auto comes = [&](auto &&self, Value value) -> bool {
      Operation *op = value.getDefiningOp();
      if (isa_and_nonnull<MatmulOp>(op))
        return true;
      if (!seen.insert(value).second)
        return false;
      if (isa_and_nonnull<ReshapeOp, TransposeOp, SliceOp>(op))
        return self(self, op->getOperand(0));
      auto add = dyn_cast_or_null<AddOp>(op);
      return add && (self(self, add.getA()) || self(self, add.getB()));
    };
    return comes(comes, value);
  }

  /// Readers of a stacked result take its bf16 form and widen it inside.
  void readNarrow(RepeatOp &repeat, size_t number) {
    Value stacked = narrow(repeat->getResult(number));
    repeat = stacked.getDefiningOp<RepeatOp>();
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : repeat->getResult(number).getUses())
      uses.push_back(&use);
    for (OpOperand *use : uses) {
      auto reader = cast<RepeatOp>(use->getOwner());
      BlockArgument argument =
          reader.getBlock()->getArgument(1 + use->getOperandNumber());
      RankedTensorType wide = tensorType(argument);
      use->set(stacked);
      argument.setType(narrowType(argument));
      b.setInsertionPointToStart(reader.getBlock());
      auto cast = CastOp::create(b, argument.getLoc(), wide, argument);
      argument.replaceAllUsesExcept(cast.getY(), cast);
    }
  }

  OpBuilder b;
  Type bf16, f32;
  bool hasCopies;
  /// The bf16 form of values of f32.
  llvm::DenseMap<Value, Value> narrowed;
};

/// Adds `@refresh`: the copies of all parameters.
void addRefresh(ModuleOp module, const Optimizer &optimizer) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Type element = typeOfParameters(module), bf16 = builder.getBF16Type();
  ParameterRegions regions = parameterRegions(module, optimizer.decayMinRank);
  SmallVector<ArenaRegion::Part> parts;
  SmallVector<Type> wide, narrow;
  for (auto [part, size] :
       {std::pair(ArenaRegion::Part::Decayed, regions.decayed.elements),
        std::pair(ArenaRegion::Part::Plain, regions.plain.elements),
        std::pair(ArenaRegion::Part::Frozen, regions.frozen.elements)}) {
    if (size == 0)
      continue;
    parts.push_back(part);
    auto type = RankedTensorType::get({size / regionRow, regionRow}, element);
    wide.push_back(type);
    narrow.push_back(type.clone(bf16));
  }
  auto function = func::FuncOp::create(builder, module.getLoc(),
                                       nameOf(ProgramKind::Refresh),
                                       builder.getFunctionType(wide, narrow));
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToStart(block);
  TfmBuilder b{builder, module.getLoc()};
  SmallVector<Value> copies;
  for (auto [i, part] : llvm::enumerate(parts)) {
    using Kind = ArenaRegion::Kind;
    ArenaRegion::ofParameters(Kind::Parameters, part).setArgument(function, i);
    ArenaRegion::ofParameters(Kind::Copies, part).setResult(function, i);
    copies.push_back(b.cast(block->getArgument(i), bf16));
  }
  func::ReturnOp::create(builder, module.getLoc(), copies);
}

struct MixedPrecisionPass
    : tfm::impl::MixedPrecisionPassBase<MixedPrecisionPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<FloatType> precision = precisionOf(module);
    FailureOr<Type> weights = weightsOfGeneration(module);
    FailureOr<std::optional<Optimizer>> optimizer = Optimizer::read(module);
    FailureOr<Type> cache = cacheOfGeneration(module);
    if (failed(precision) || failed(weights) || failed(optimizer) ||
        failed(cache))
      return signalPassFailure();
    if (!precision->isBF16()) {
      for (ProgramKind kind : {ProgramKind::Forward, ProgramKind::ForwardBatch})
        if (auto forward = findProgram(module, kind);
            forward && cache->isBF16())
          Narrower(&getContext(), /*hasCopies=*/false).runOnAttention(forward);
      return;
    }
    // Weights that only generation reads are stored once, in their own type.
    bool hasCopies = weights->isF32();
    for (auto function : module.getOps<func::FuncOp>())
      Narrower(&getContext(), hasCopies).run(function);
    if (!hasCopies)
      return;
    bool readsCopies = false;
    module.walk([&](GetParamOp get) {
      readsCopies |= tensorType(get).getElementType().isBF16();
    });
    if (readsCopies)
      addRefresh(module, **optimizer);
  }
};

} // namespace
