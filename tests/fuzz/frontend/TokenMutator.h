//===- TokenMutator.h - programs that are nearly right -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_FUZZ_FRONTEND_TOKENMUTATOR_H
#define TFM_TESTS_FUZZ_FRONTEND_TOKENMUTATOR_H

#include "tests/fuzz/support/Dice.h"

namespace tfm::fuzz {

/// A `.tfm` file with one to four changes to its tokens: one, what a pair of
/// brackets holds, a line or a declaration is taken away, comes twice or
/// elsewhere; numbers become those at the edges of their types; names are
/// exchanged for others of the file.
std::string mutateProgram(std::string_view text, Dice &dice);

/// A file with a part of another one in place of a part of its own.
std::string crossPrograms(std::string_view text, std::string_view other,
                          Dice &dice);

} // namespace tfm::fuzz

#endif // TFM_TESTS_FUZZ_FRONTEND_TOKENMUTATOR_H
