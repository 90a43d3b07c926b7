//===- UnitReader.h - reads files, what they import, and std ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_ELABORATE_UNITREADER_H
#define TFM_FRONTEND_ELABORATE_UNITREADER_H

#include "compiler/frontend/Diagnostics.h"
#include "compiler/frontend/elaborate/Compilation.h"

namespace tfm {

class Consts;

/// Reads and parses the main file, what it imports and std into the
/// compilation, and declares what stands in them.
class UnitReader {
public:
  UnitReader(SourceManager &sources, Diagnostics &diags,
             Compilation &compilation, Consts &consts)
      : sources(sources), diags(diags), compilation(compilation),
        consts(consts) {}

  /// The main file with what it imports, unless it is there already.
  void readMain(uint32_t mainFile, llvm::StringRef path);
  /// The standard modules, at their first use.
  void loadStd();

private:
  Unit *addUnit(uint32_t file, llvm::StringRef path);
  void declare(Unit &unit);
  void resolveImports(Unit &unit, std::vector<const Unit *> &open);

  SourceManager &sources;
  Diagnostics &diags;
  Compilation &compilation;
  Consts &consts;
};

} // namespace tfm

#endif // TFM_FRONTEND_ELABORATE_UNITREADER_H
