//===- WorkFolder.h - where a file is made before it has its name -*- C++ -*-=//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_DRIVER_WORKFOLDER_H
#define TFM_DRIVER_WORKFOLDER_H

#include "runtime/support/temporaries.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <set>
#include <string>

namespace tfm {

/// A folder beside a file that another program is to make of some others. It
/// goes with all that this leaves in it, also where a signal ends us.
class WorkFolder {
public:
  /// Beside `target`, where links lead. Errors do not name the target.
  static llvm::Expected<std::unique_ptr<WorkFolder>>
  create(llvm::StringRef target);
  ~WorkFolder();

  /// The path of a file in it.
  std::string file(llvm::StringRef name) const;
  llvm::Error write(llvm::StringRef name, llvm::StringRef bytes) const;
  /// Runs a program, whose own temporary files are in the folder, too. Fails
  /// with all that it says where it does.
  llvm::Error run(llvm::ArrayRef<std::string> command) const;
  /// Gives a file of the folder the target's name, in place of what has it.
  llvm::Error moveToTarget(llvm::StringRef name) const;

private:
  WorkFolder(std::string folder, std::string target)
      : folder(std::move(folder)), target(std::move(target)),
        temporary(this->folder) {}

  std::string folder, target;
  /// Those that somebody has asked for.
  mutable std::set<std::string> files;
  Temporary temporary;
};

} // namespace tfm

#endif // TFM_DRIVER_WORKFOLDER_H
