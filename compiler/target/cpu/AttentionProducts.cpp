//===- AttentionProducts.cpp - products of queries and keys ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/AttentionProducts.h"

using namespace mlir;
using namespace tfm;

void AttentionProducts::scaleSums(Value sums, int64_t columns, Value factors) {
  int64_t stride = llvm::alignTo(columns, kb.lanes);
  kb.loop(kb.i64(0), cut.blockQueries, 1, [&](Value t) {
    Value factor = kb.splat(kb.loadScalar(kb.at(factors, t)));
    Value row = kb.at(sums, kb.mul(t, stride));
    for (int64_t column = 0; column < columns; column += kb.lanes) {
      Value to = kb.at(row, column);
      kb.store(kb.mulf(kb.load(to), factor), to);
    }
  });
}

void AttentionProducts::overTiles(
    int64_t count, function_ref<void(int64_t, int64_t)> run) const {
  int64_t panels = llvm::divideCeil(count, cut.tileRows);
  int64_t first = 0;
  for (int64_t panel = 0; panel < panels; ++panel) {
    int64_t rows = (count - first) / (panels - panel);
    run(rows, first);
    first += rows;
  }
}
