//===- Objects.h - machine code of a module, in parts -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DRIVER_OBJECTS_H
#define TFM_DRIVER_OBJECTS_H

#include "compiler/target/KernelTarget.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include <vector>

namespace tfm {

/// The object files of a module: of as many parts of it as there are
/// processors, which make them at the same time. A function's code does not
/// depend on its part. Functions that were the module's own are those of what
/// the files are linked to. Changes the module. Fails where the target does.
llvm::Expected<std::vector<llvm::SmallString<0>>>
writeObjects(llvm::Module &module, const KernelTarget &target);

} // namespace tfm

#endif // TFM_DRIVER_OBJECTS_H
