//===- TreeDeclarer.h - declares instances and parameters -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_TREEDECLARER_H
#define TFM_FRONTEND_ELABORATE_TREEDECLARER_H

#include "compiler/frontend/elaborate/Budget.h"
#include "compiler/frontend/elaborate/Emitter.h"

namespace tfm {

class Tensors;

/// Declares the instances below a node and their parameters in the module that
/// is emitted, under the names that they ended up with.
class TreeDeclarer {
public:
  TreeDeclarer(const SourceManager &sources, Reporter &reporter,
               Emitter &emitter, Budget &budget, Tensors &tensors)
      : sources(sources), reporter(reporter), emitter(emitter), budget(budget),
        tensors(tensors) {}

  /// Reports E0218 where all parameters together are too many to count their
  /// bytes.
  void declare(const Node &node);

private:
  void count(const Param &param);

  const SourceManager &sources;
  Reporter &reporter;
  Emitter &emitter;
  Budget &budget;
  Tensors &tensors;
  double elements = 0; ///< of the parameters so far
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_TREEDECLARER_H
