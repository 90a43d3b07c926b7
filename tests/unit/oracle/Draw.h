//===- Draw.h - random shapes and attributes for tests of ops ---*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_ORACLE_DRAW_H
#define TFM_TESTS_UNIT_ORACLE_DRAW_H

#include "tests/unit/oracle/Gradients.h"

#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <set>

namespace tfm::oracle {

using Shape = std::vector<int64_t>;

/// Random choices that follow from a seed.
struct Draw {
  explicit Draw(unsigned seed) : seed(seed), random(seed) {}

  int64_t below(int64_t limit) { return random() % limit; }
  bool coin() { return random() % 2; }
  template <typename T> T oneOf(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int64_t>(choices.size()))];
  }
  Shape shape(int64_t rank) { return randomShape(random, rank); }
  /// Of `least` to `most` axes.
  Shape shape(int64_t least, int64_t most) {
    return shape(least + below(most - least + 1));
  }
  /// An axis size worth trying.
  int64_t size() { return shape(1)[0]; }
  /// The same for ops that cost the product of many sizes.
  int64_t smallSize() { return oneOf<int64_t>({1, 2, 3, 5}); }

  const unsigned seed;
  std::mt19937 random;
};

inline std::string tensor(llvm::ArrayRef<int64_t> shape,
                          llvm::StringRef element = "f32") {
  return "tensor<" + spell(shape, element) + ">";
}

/// `{0}`, `{1}`, ... in `text` replaced by `args`.
template <typename... Args>
std::string format(const char *text, const Args &...args) {
  return llvm::formatv(text, args...).str();
}

/// `@f` of `arguments` that returns `%y`, of `type`.
inline std::string program(const std::string &arguments,
                           const std::string &body, const std::string &type) {
  return "func.func @f(" + arguments + ") -> " + type + " {\n  " + body +
         "\n  return %y : " + type + "\n}\n";
}

/// The registered ops of the tfm dialect, without `tfm.`, for which `wanted`
/// holds.
inline std::set<std::string>
registeredOps(llvm::function_ref<bool(mlir::RegisteredOperationName)> wanted) {
  TestModule module("");
  std::set<std::string> names;
  for (mlir::RegisteredOperationName name :
       module.context->getRegisteredOperations())
    if (name.getDialectNamespace() == "tfm" && wanted(name))
      names.insert(name.stripDialect().str());
  return names;
}

} // namespace tfm::oracle

#endif // TFM_TESTS_UNIT_ORACLE_DRAW_H
