//===- ProductKernel.h - what kernels of products share ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_CPU_PRODUCTKERNEL_H
#define TFM_TARGET_CPU_PRODUCTKERNEL_H

#include "compiler/target/cpu/GroupedRows.h"
#include "compiler/target/cpu/Matmul.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace tfm {

/// Elements of an operand of a product, and its strides, counted in them: along
/// its batch axes, its rows and its columns.
struct Matrix {
  mlir::Type element;
  llvm::SmallVector<int64_t> batch;
  int64_t row = 0, column = 0;

  /// Of a type of rank 2 or more with static strides, else nothing. Rows of
  /// what is `transposed` are columns in memory.
  static std::optional<Matrix> of(mlir::MemRefType type, bool transposed);

  /// The address of an element of the matrix at `base`.
  mlir::Value at(KernelBuilder &kb, mlir::Value base, mlir::Value i,
                 mlir::Value j) const {
    return kb.at(base, kb.add(kb.mul(i, row), kb.mul(j, column)), element);
  }
};

/// The operands of a product, as its kernel sees them: A is [m, k], B [k, n], C
/// [m, n].
struct ProductOperands {
  /// C has no element where there is none; `scale` is of minima, too, and has
  /// none where B is not of 4 bits.
  Matrix a, b, c, scale;

  /// Nothing where a kernel cannot read an operand's strides: of A and of B one
  /// must be 1, of C that of columns.
  static std::optional<ProductOperands> of(const MatmulSpec &spec);
};

/// Emits one product: its function, its operands batch by batch, and where a
/// finished vector goes.
class ProductKernel {
protected:
  ProductKernel(mlir::OpBuilder &builder, mlir::ModuleOp module,
                const MatmulSpec &spec, const ProductOperands &operands,
                const CpuMachine &target);

  const MatmulSpec &spec;
  const Matrix a, b, c, scale;
  KernelBuilder kb;
  mlir::func::FuncOp kernel;

  /// Begins the kernel, and returns where its scratch is.
  mlir::Value begin(llvm::StringRef name, int64_t scratchBytes);
  /// The operands at a batch, of all of them by number.
  void enterBatch(mlir::Value number);
  mlir::Value aBase, bBase, cBase, scaleBase, minimumBase;

  /// The rows of a B of 4 bits from a column of C on, and a group along k.
  GroupedRows groupsAt(mlir::Value column, mlir::Value group);

  /// Threads share the `strips` of columns of all batches, or thread 0 does
  /// them all where that is `serial`: calls `body` with the strips [begin, end)
  /// of a batch that has been entered.
  void shareStrips(bool serial, int64_t strips,
                   llvm::function_ref<void(mlir::Value, mlir::Value)> body);

  /// Stores a finished vector of a row of C, or hands it to the epilogue.
  void storeVector(mlir::Value row, mlir::Value column, mlir::Value value);

private:
  mlir::ModuleOp module;
  llvm::SmallVector<mlir::Value> batchIndices;
};

/// An error at the module that the product `name` has operands which no kernel
/// reads; a kernel with a null `func`.
Kernel refuseProduct(mlir::ModuleOp module, llvm::StringRef name);

} // namespace tfm

#endif // TFM_TARGET_CPU_PRODUCTKERNEL_H
