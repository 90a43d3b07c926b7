//===- Compiled.h - tfm functions compiled into this process ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_BENCH_COMPILED_H
#define TFM_BENCH_COMPILED_H

#include "runtime/tfm_model.h"
#include "llvm/ADT/StringRef.h"
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace tfm::bench {

/// A model as `tfmc build` makes it, loaded instead of linked: the same passes,
/// schedule, kernels and machine code. What goes wrong ends the program.
class Compiled {
public:
  /// `.tfm` file with `-D` definitions.
  static Compiled
  file(const std::string &path,
       const std::vector<std::pair<std::string, std::string>> &defines);
  /// Functions in the text form of the tfm dialect. Each gets a derivative
  /// beside it, `NAME.derivative`: of the same arguments and a cotangent for
  /// each result, the cotangents of the float arguments.
  static Compiled functions(llvm::StringRef text);
  /// A whole module in that form, as the frontend would hand it over.
  static Compiled module(llvm::StringRef text);

  Compiled(Compiled &&);
  ~Compiled();
  const tfm_model &descriptor() const { return *model; }

private:
  explicit Compiled(std::unique_ptr<llvm::orc::LLJIT> jit);
  std::unique_ptr<llvm::orc::LLJIT> jit;
  const tfm_model *model;
};

} // namespace tfm::bench

#endif // TFM_BENCH_COMPILED_H
