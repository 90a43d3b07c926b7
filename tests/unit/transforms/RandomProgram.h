//===- RandomProgram.h - random programs for tests --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_TRANSFORMS_RANDOMPROGRAM_H
#define TFM_TESTS_UNIT_TRANSFORMS_RANDOMPROGRAM_H

#include <string>

/// A function `@f` of two tensors [rows, columns] with two such results, each a
/// smooth function of moderate size of the arguments: random dataflow with
/// repeats in repeats, products, row ops, slices, transposes, dropout and
/// random numbers. `columns` must be at least 2.
std::string randomProgram(unsigned seed, int rows = 2, int columns = 3);

#endif // TFM_TESTS_UNIT_TRANSFORMS_RANDOMPROGRAM_H
