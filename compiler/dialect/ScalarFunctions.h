//===- ScalarFunctions.h - the functions of one number ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one table of functions behind the language, its constants, the oracle and
// kernels. A function is an op of the class Tfm_ScalarFunctionOp, which names
// it, and a formula here of the same name, over anything that has arithmetic
// and elementary functions: doubles, or the numbers of a kernel that is being
// emitted. The elementary functions are `abs`, `exp`, `exp2`, `log`, `log1p`,
// `sqrt`, `tanh`, `erf`, `sin`, `cos` and `max`.
//
// In which order a formula computes is in which order kernels do: changing it
// changes bits.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DIALECT_SCALARFUNCTIONS_H
#define TFM_DIALECT_SCALARFUNCTIONS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cmath>

namespace tfm {
namespace scalar {

using std::abs;
using std::cos;
using std::erf;
using std::exp;
using std::exp2;
using std::log;
using std::log1p;
using std::sin;
using std::sqrt;
using std::tanh;

/// As IEEE 754 has `maximum`: NaN where either is, and 0 of 0 and -0 if that is
/// `y`.
inline double max(double x, double y) { return x > y || std::isnan(x) ? x : y; }

template <typename Real> Real rsqrt(Real x) { return 1.0 / sqrt(x); }

template <typename Real> Real sigmoid(Real x) { return 1.0 / (1.0 + exp(-x)); }

template <typename Real> Real relu(Real x) { return max(x, 0.0); }

template <typename Real> Real relu_squared(Real x) {
  Real positive = max(x, 0.0);
  return positive * positive;
}

template <typename Real> Real gelu(Real x) {
  constexpr double rootOfHalf = 0.70710678118654752440;
  return 0.5 * x * (1.0 + erf(x * rootOfHalf));
}

/// (1 + tanh(u)) / 2 is sigmoid(2 u), with u = root (x + 0.044715 x ** 3), and
/// e ** -2 u a power of two, which is cheaper.
template <typename Real> Real gelu_tanh(Real x) {
  constexpr double root = 0.79788456080286535588;               // sqrt(2 / pi)
  constexpr double factor = -2 * root * 1.44269504088896340736; // log2(e)
  return x / (1.0 + exp2(x * (x * x * (factor * 0.044715) + factor)));
}

template <typename Real> Real silu(Real x) { return x * sigmoid(x); }

/// Without overflow for a large x, and precise for a small e ** x.
template <typename Real> Real softplus(Real x) {
  return max(x, 0.0) + log1p(exp(-abs(x)));
}

} // namespace scalar

/// What it says of a model that it has some function (see ModelFacts.h).
enum class FunctionUse {
  /// Nothing.
  Any,
  /// It is the model's activation.
  Activation,
  /// An activation may be made of it, a norm, or a rotation of positions.
  PartOfActivation,
  PartOfNorm,
  PartOfRotation,
};

/// A function of the language.
struct ScalarFunction {
  /// Also the op's mnemonic.
  llvm::StringRef name;
  double (*value)(double);
};

/// All of them, in the order of their names.
llvm::ArrayRef<ScalarFunction> scalarFunctions();
/// Null where there is none of that name.
const ScalarFunction *findScalarFunction(llvm::StringRef name);

} // namespace tfm

#endif // TFM_DIALECT_SCALARFUNCTIONS_H
