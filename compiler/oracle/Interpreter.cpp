//===- Interpreter.cpp - functions, repeats and elementwise ops -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/oracle/Interpreter.h"

#include "compiler/oracle/Frame.h"

#include "llvm/Support/SaveAndRestore.h"

#include <cmath>

using namespace mlir;
using namespace tfm;
using namespace tfm::oracle;

namespace {

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

double neg(double x) { return -x; }
double identity(double x) { return x; }
double logicalNot(double x) { return x == 0.0; }

double add(double a, double b) { return a + b; }
double sub(double a, double b) { return a - b; }
double mul(double a, double b) { return a * b; }
double power(double a, double b) { return std::pow(a, b); }
double logicalAnd(double a, double b) { return a != 0.0 && b != 0.0; }
double logicalOr(double a, double b) { return a != 0.0 || b != 0.0; }

template <typename Op, double (*function)(double)> void addUnary(Rules &rules) {
  rules[Op::getOperationName()] = [](Frame &frame, Operation *op) {
    Tensor y = frame.get(op->getOperand(0));
    for (double &value : y.data)
      value = function(value);
    frame.set(op->getResult(0), std::move(y));
  };
}

template <typename Op, double (*function)(double, double)>
void addBinary(Rules &rules) {
  rules[Op::getOperationName()] = [](Frame &frame, Operation *op) {
    Tensor y = frame.get(op->getOperand(0));
    const Tensor &b = frame.get(op->getOperand(1));
    for (auto [left, right] : llvm::zip_equal(y.data, b.data))
      left = function(left, right);
    frame.set(op->getResult(0), std::move(y));
  };
}

void div(Frame &frame, DivOp op) {
  bool isInteger = tensorType(op.getY()).getElementType().isInteger();
  Tensor y = frame.get(op.getA());
  for (auto [a, b] : llvm::zip_equal(y.data, frame.get(op.getB()).data))
    a = !isInteger ? a / b : b == 0.0 ? 0.0 : std::trunc(a / b);
  frame.set(op.getY(), std::move(y));
}

void fma(Frame &frame, FmaOp op) {
  Tensor y = frame.get(op.getC());
  for (auto [a, b, c] : llvm::zip_equal(frame.get(op.getA()).data,
                                        frame.get(op.getB()).data, y.data))
    c = std::fma(a, b, c);
  frame.set(op.getY(), std::move(y));
}

bool compares(CompareKind kind, double a, double b) {
  switch (kind) {
  case CompareKind::eq:
    return a == b;
  case CompareKind::ne:
    return a != b;
  case CompareKind::lt:
    return a < b;
  case CompareKind::le:
    return a <= b;
  case CompareKind::gt:
    return a > b;
  case CompareKind::ge:
    return a >= b;
  }
  llvm_unreachable("all kinds are above");
}

void compare(Frame &frame, CompareOp op) {
  Tensor y = frame.get(op.getA());
  for (auto [a, b] : llvm::zip_equal(y.data, frame.get(op.getB()).data))
    a = compares(op.getKind(), a, b);
  frame.set(op.getY(), std::move(y));
}

void select(Frame &frame, SelectOp op) {
  Tensor y = frame.get(op.getA());
  for (auto [keep, a, b] : llvm::zip_equal(frame.get(op.getCondition()).data,
                                           y.data, frame.get(op.getB()).data))
    a = keep != 0.0 ? a : b;
  frame.set(op.getY(), std::move(y));
}

void cast(Frame &frame, CastOp op) {
  Type to = tensorType(op.getY()).getElementType();
  Tensor y = frame.get(op.getX());
  for (double &value : y.data) {
    if (to.isInteger(1))
      value = value != 0.0;
    else if (to.isInteger(8))
      value = std::nearbyint(value);
    else if (to.isInteger())
      value = std::trunc(value);
  }
  frame.set(op.getY(), std::move(y));
}

template <typename... Ops>
void addScalarFunctions(Rules &rules, OpList<Ops...>) {
  auto add = [&]<typename Op>() {
    if constexpr (isScalarFunction<Op>)
      addUnary<Op, Op::valueAt>(rules);
  };
  (add.template operator()<Ops>(), ...);
}

void addElementwiseRules(Rules &rules) {
  addScalarFunctions(rules, AllOps());
  addUnary<NegOp, neg>(rules);
  addUnary<StopGradientOp, identity>(rules);
  addUnary<NotOp, logicalNot>(rules);
  addBinary<AddOp, add>(rules);
  addBinary<SubOp, sub>(rules);
  addBinary<MulOp, mul>(rules);
  addBinary<PowOp, power>(rules);
  addBinary<MinOp, minimum>(rules);
  addBinary<MaxOp, maximum>(rules);
  addBinary<AndOp, logicalAnd>(rules);
  addBinary<OrOp, logicalOr>(rules);
  addRule<DivOp, div>(rules);
  addRule<FmaOp, fma>(rules);
  addRule<CompareOp, compare>(rules);
  addRule<SelectOp, select>(rules);
  addRule<CastOp, cast>(rules);
}

//===----------------------------------------------------------------------===//
// Functions and repeats
//===----------------------------------------------------------------------===//

Rules allRules() {
  Rules rules;
  addElementwiseRules(rules);
  addShapeRules(rules);
  addRowRules(rules);
  addAttentionRules(rules);
  return rules;
}

class Interpreter {
public:
  explicit Interpreter(const Environment &environment)
      : environment(environment), rules(allRules()) {}

  /// The operands of the terminator of `block`, run on `arguments`.
  llvm::Expected<std::vector<Tensor>> run(Block &block,
                                          llvm::ArrayRef<Tensor> arguments) {
    Frame frame(environment);
    for (auto [argument, value] :
         llvm::zip_equal(block.getArguments(), arguments))
      frame.set(argument, value);
    for (Operation &op : block.without_terminator()) {
      if (auto repeat = dyn_cast<RepeatOp>(op)) {
        if (llvm::Error error = runRepeat(frame, repeat))
          return std::move(error);
        continue;
      }
      if (auto get = dyn_cast<GetParamOp>(op)) {
        auto found = environment.parameters.find(get.getParam());
        if (found == environment.parameters.end())
          return fail("no value for parameter " + get.getParam());
        if (ArrayRef(found->second.shape) != tensorType(get).getShape())
          return fail("parameter " + get.getParam() + " has another shape");
        frame.set(get, found->second);
        round(frame, &op);
        continue;
      }
      auto rule = rules.find(op.getName().getStringRef());
      if (rule == rules.end())
        return fail("no meaning is known of " + op.getName().getStringRef());
      rule->second(frame, &op);
      round(frame, &op);
    }
    std::vector<Tensor> results;
    for (Value value : block.getTerminator()->getOperands())
      results.push_back(frame.get(value));
    return results;
  }

private:
  /// Results of bf16 have the 8 bits that it has: the nearest, of two the even
  /// one.
  static void round(Frame &frame, Operation *op) {
    for (Value result : op->getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      if (!type || !type.getElementType().isBF16())
        continue;
      Tensor rounded = frame.get(result);
      for (double &value : rounded.data) {
        llvm::APFloat number(value);
        bool ignored;
        number.convert(llvm::APFloat::BFloat(),
                       llvm::APFloat::rmNearestTiesToEven, &ignored);
        number.convert(llvm::APFloat::IEEEdouble(),
                       llvm::APFloat::rmNearestTiesToEven, &ignored);
        value = number.convertToDouble();
      }
      frame.set(result, std::move(rounded));
    }
  }

  static llvm::Error fail(const llvm::Twine &message) {
    return llvm::createStringError(message);
  }

  llvm::Error runRepeat(Frame &frame, RepeatOp op) {
    int64_t count = op.getCount();
    size_t numCarried = op.getCarried().size();
    std::vector<Tensor> carried;
    for (Value value : op.getCarried())
      carried.push_back(frame.get(value));
    std::vector<Tensor> updated, stacked;
    for (Value value : op.getUpdatedOperands())
      updated.push_back(frame.get(value));
    for (Value value : op.getStackedResults())
      stacked.push_back(Frame::like(value));

    llvm::SaveAndRestore outer(flatLayer);
    for (int64_t i = 0; i < count; ++i) {
      int64_t layer = op.getReverse() ? count - 1 - i : i;
      flatLayer = outer.get() * count + layer;
      std::vector<Tensor> arguments = {Tensor({}, double(flatLayer))};
      llvm::append_range(arguments, carried);
      int64_t chosen =
          op.getOrder()
              ? static_cast<int64_t>(frame.get(op.getOrder()).data[layer])
              : layer;
      size_t firstUpdated = op.getStacked().size() - updated.size();
      for (auto [j, value] : llvm::enumerate(op.getStacked())) {
        const Tensor &all =
            j < firstUpdated ? frame.get(value) : updated[j - firstUpdated];
        int64_t size = all.size() / all.shape.front();
        auto first =
            all.data.begin() + (op.isChosen(j) ? chosen : layer) * size;
        arguments.push_back(Tensor(ArrayRef(all.shape).drop_front(),
                                   std::vector(first, first + size)));
      }
      for (Value value : op.getShared())
        arguments.push_back(frame.get(value));
      auto yielded = run(*op.getBlock(), arguments);
      if (!yielded)
        return yielded.takeError();
      carried.assign(yielded->begin(), yielded->begin() + numCarried);
      auto slices = ArrayRef(*yielded).drop_front(numCarried);
      for (auto [all, value] : llvm::zip(updated, slices))
        llvm::copy(value.data, all.data.begin() + chosen * value.size());
      for (auto [all, value] :
           llvm::zip_equal(stacked, slices.drop_front(updated.size())))
        llvm::copy(value.data, all.data.begin() + layer * value.size());
    }
    for (auto [result, value] :
         llvm::zip_equal(op.getCarriedResults(), carried))
      frame.set(result, value);
    for (auto [result, value] :
         llvm::zip_equal(op.getUpdatedResults(), updated))
      frame.set(result, value);
    for (auto [result, value] :
         llvm::zip_equal(op.getStackedResults(), stacked))
      frame.set(result, value);
    return llvm::Error::success();
  }

  const Environment &environment;
  Rules rules;
  /// The layer that is evaluated, over all enclosing repeats.
  int64_t flatLayer = 0;
};

} // namespace

llvm::Expected<std::vector<Tensor>>
tfm::oracle::evaluate(func::FuncOp function, llvm::ArrayRef<Tensor> inputs,
                      const Environment &environment) {
  if (function.getNumArguments() != inputs.size())
    return llvm::createStringError("@" + function.getSymName() + " takes " +
                                   llvm::Twine(function.getNumArguments()) +
                                   " inputs");
  for (auto [argument, input] :
       llvm::zip_equal(function.getArguments(), inputs))
    if (tensorType(argument).getShape() != ArrayRef(input.shape))
      return llvm::createStringError(
          "input " + llvm::Twine(argument.getArgNumber()) + " of @" +
          function.getSymName() + " has another shape");
  return Interpreter(environment).run(function.getBody().front(), inputs);
}
