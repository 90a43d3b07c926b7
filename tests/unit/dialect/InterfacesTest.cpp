//===- InterfacesTest.cpp - every op answers what it is asked -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An op that lacks an interface is named here with the reason why it may.
// (FlopsOpInterface needs no such list: without it tfm does not link.) That
// what an axis map says is true is tested where ops are run
// (RandomGradientTest).
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/Pipelines.h"
#include "compiler/schedule/SchedDialect.h"
#include "tests/unit/oracle/Draw.h"

#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <map>

using namespace mlir;
using namespace tfm;
using namespace tfm::oracle;

namespace {

std::set<std::string> join(std::initializer_list<std::set<std::string>> sets) {
  std::set<std::string> all;
  for (const std::set<std::string> &set : sets)
    all.insert(set.begin(), set.end());
  return all;
}

/// Neither reads a tensor, or nothing but other ops.
const std::set<std::string> withoutOperands = {"constant", "get_param", "iota",
                                               "param", "uniform"};
const std::set<std::string> loops = {"repeat", "yield"};

TEST(Interfaces, EveryOpOnTensorsMapsAxes) {
  EXPECT_EQ(registeredOps([](RegisteredOperationName name) {
              return !name.hasInterface<AxisMapOpInterface>();
            }),
            join({withoutOperands, loops}));
}

TEST(Interfaces, EveryOpCountsItsOperations) {
  EXPECT_EQ(registeredOps([](RegisteredOperationName name) {
              return !name.hasInterface<FlopsOpInterface>();
            }),
            std::set<std::string>());
}

/// One function for each op that is replaced before kernels are formed.
const std::map<std::string, std::string> replaced = {
    {"cross_entropy", R"(
      func.func @f(%x: tensor<4x8xf32>, %t: tensor<4xi32>) -> tensor<4xf32> {
        %y, %lse = tfm.cross_entropy %x, %t : tensor<4x8xf32>, tensor<4xi32>
        return %y : tensor<4xf32>
      })"},
    {"cross_entropy_backward", R"(
      func.func @f(%x: tensor<4x8xf32>, %t: tensor<4xi32>, %l: tensor<4xf32>) -> tensor<4x8xf32> {
        %y = tfm.cross_entropy_backward %x, %t, %l, %l
            : tensor<4x8xf32>, tensor<4xi32>, tensor<4xf32>
        return %y : tensor<4x8xf32>
      })"},
    {"cumsum", R"(
      func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
        %y = tfm.cumsum %x axis 1 : tensor<4x8xf32>
        return %y : tensor<4x8xf32>
      })"},
    {"log_softmax", R"(
      func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
        %y = tfm.log_softmax %x : tensor<4x8xf32>
        return %y : tensor<4x8xf32>
      })"},
    {"normalize", R"(
      func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
        %y = tfm.normalize %x eps 1.0e-5 : tensor<4x8xf32>
        return %y : tensor<4x8xf32>
      })"},
    {"pad", R"(
      func.func @f(%x: tensor<4x8xf32>) -> tensor<4x11xf32> {
        %y = tfm.pad %x axis 1 low 1 high 2 : tensor<4x8xf32>
        return %y : tensor<4x11xf32>
      })"},
    {"rms_normalize", R"(
      func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
        %y = tfm.rms_normalize %x eps 1.0e-6 : tensor<4x8xf32>
        return %y : tensor<4x8xf32>
      })"},
    {"rope", R"(
      func.func @f(%x: tensor<1x2x4x8xf32>, %p: tensor<1x4xi32>) -> tensor<1x2x4x8xf32> {
        %y = tfm.rope %x, %p {base = 10000.0 : f64, dims = 8 : i64}
            : tensor<1x2x4x8xf32>, tensor<1x4xi32>
        return %y : tensor<1x2x4x8xf32>
      })"},
    {"scan", R"(
      func.func @f(%a: tensor<4x8xf32>, %x: tensor<4x8xf32>) -> tensor<4x8xf32> {
        %y = tfm.scan %a, %x axis 1 : tensor<4x8xf32>
        return %y : tensor<4x8xf32>
      })"},
    {"shift", R"(
      func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
        %y = tfm.shift %x axis 0 by 1 : tensor<4x8xf32>
        return %y : tensor<4x8xf32>
      })"},
    {"softmax", R"(
      func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
        %y = tfm.softmax %x : tensor<4x8xf32>
        return %y : tensor<4x8xf32>
      })"},
    {"top_k", R"(
      func.func @f(%x: tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>) {
        %y, %i = tfm.top_k %x, 2 : tensor<4x8xf32>
        return %y, %i : tensor<4x2xf32>, tensor<4x2xi32>
      })"}};

// An op is of some kind of kernel, is a copy, is memory that is there, or is
// replaced before. What is forgotten is named here, and by the pass that forms
// kernels.
TEST(Interfaces, EveryOpSaysHowItIsComputed) {
  std::set<std::string> before;
  for (const auto &[op, function] : replaced)
    before.insert(op);
  const std::set<std::string> copies = {"concat"};
  // Of some targets these have a kernel.
  for (const char *op : {"cumsum", "scan", "top_k"})
    EXPECT_EQ(before.erase(op), 1u);
  const std::set<std::string> memory = {"constant", "get_param", "param"};
  // Part of the product or gather that reads it.
  const std::set<std::string> inReaders = {"dequantise", "unpack"};
  EXPECT_EQ(registeredOps([](RegisteredOperationName name) {
              return !sched::kindOf(name);
            }),
            join({before, copies, memory, inReaders, loops}));
}

// What kernels are formed of holds none of them any more.
TEST(Interfaces, WhatNoKernelComputesIsReplaced) {
  registerTargets();
  for (const char *machine : {"cpu", "cuda"})
    for (const auto &[name, function] : replaced) {
      const KernelTarget &target =
          *llvm::cantFail(KernelTarget::named(machine));
      TestModule test(function);
      ASSERT_TRUE(test.function("f")) << name;
      EXPECT_EQ(test.function("f").front().front().getName().stripDialect(),
                name);
      PassManager passes(test.context.get());
      addPreparePasses(passes, target);
      ASSERT_TRUE(succeeded(passes.run(*test.module))) << name;
      bool hasScan = false;
      test.module->walk([&, &op = name](Operation *left) {
        if (target.scansRows() && isa<ScanOpInterface>(left)) {
          hasScan = true;
          return;
        }
        EXPECT_FALSE(replaced.count(left->getName().stripDialect().str()))
            << op << " leaves " << left->getName().getStringRef().str()
            << " of " << machine;
      });
      EXPECT_EQ(hasScan,
                target.scansRows() && (name == "cumsum" || name == "scan"));
    }
}

/// The row kernel's side of the one op in `body` that is `name`.
void withOp(const std::string &arguments, const std::string &body,
            llvm::function_ref<void(RowKernelOpInterface)> check) {
  TestModule test("func.func @f(" + arguments + ") {\n" + body + "\nreturn\n}");
  ASSERT_TRUE(test.function("f")) << body;
  check(cast<RowKernelOpInterface>(test.function("f").front().front()));
}

TEST(RowKernels, ElementwiseOpsGoOverTheirResult) {
  withOp("%x: tensor<2x3x5xf32>", "%y = tfm.exp %x : tensor<2x3x5xf32>",
         [](RowKernelOpInterface op) {
           EXPECT_EQ(op.getDomain(), (Domain{6, 5}));
           EXPECT_TRUE(op.readsAtPoint(0));
           EXPECT_EQ(op.getReducedAxis(), std::nullopt);
         });
  withOp("%x: tensor<2x3x1xf32>", "%y = tfm.exp %x : tensor<2x3x1xf32>",
         [](RowKernelOpInterface op) {
           EXPECT_EQ(op.getDomain(), (Domain{1, 6}));
         });
  withOp("%x: tensor<f32>", "%y = tfm.exp %x : tensor<f32>",
         [](RowKernelOpInterface op) {
           EXPECT_EQ(op.getDomain(), (Domain{1, 1}));
         });
}

TEST(RowKernels, ReductionsGoOverTheirOperand) {
  withOp("%x: tensor<2x3x5xf32>",
         "%y = tfm.reduce_sum %x axis 2 : tensor<2x3x5xf32>",
         [](RowKernelOpInterface op) {
           EXPECT_EQ(op.getDomain(), (Domain{6, 5}));
           EXPECT_EQ(op.getReducedAxis(), 2);
         });
  withOp("%x: tensor<2x3x5xf32>",
         "%y = tfm.reduce_max %x axis 0 : tensor<2x3x5xf32>",
         [](RowKernelOpInterface op) {
           EXPECT_EQ(op.getDomain(), (Domain{2, 15}));
           EXPECT_EQ(op.getReducedAxis(), 0);
         });
}

TEST(RowKernels, AGatherHasARowForEachId) {
  withOp("%t: tensor<7x3x5xf32>, %i: tensor<2x4xi32>",
         "%y = tfm.gather %t, %i : tensor<7x3x5xf32>, tensor<2x4xi32>",
         [](RowKernelOpInterface op) {
           EXPECT_EQ(op.getDomain(), (Domain{8, 15}));
           EXPECT_FALSE(op.readsAtPoint(0));
           EXPECT_TRUE(op.readsAtPoint(1));
         });
}

// The counters of its random numbers go by rows of the last axis.
TEST(RowKernels, DropoutKeepsRowsOfOneElement) {
  withOp("%x: tensor<6x1xf32>",
         "%y = tfm.dropout %x {rate = 0.5 : f64, site = 0 : i64} : "
         "tensor<6x1xf32>",
         [](RowKernelOpInterface op) {
           EXPECT_EQ(op.getDomain(), (Domain{6, 1}));
         });
}

// Where what a product is cut along comes from.
TEST(AxisMaps, OfAMatrixProduct) {
  TestModule test(R"(
    func.func @f(%a: tensor<2x8x4xf32>, %b: tensor<2x8x6xf32>) {
      %y = tfm.matmul %a, %b transpose_a : tensor<2x8x4xf32>, tensor<2x8x6xf32>
      return
    })");
  auto op = cast<AxisMapOpInterface>(test.function("f").front().front());
  EXPECT_EQ(op.mapAxis(0, {0, 1}, 2).place, (AxisPlace{0, 1}));
  EXPECT_EQ(op.mapAxis(0, {2, 2}, 2).place, (AxisPlace{1, 2}));
  EXPECT_EQ(op.mapAxis(1, {2, 3}, 2).place, (AxisPlace{2, 3}));
  EXPECT_TRUE(op.mapAxis(0, {1, 1}, 8).isMixed());
  EXPECT_TRUE(op.mapAxis(1, {1, 1}, 8).isMixed());
}

// A head of keys serves neighbouring heads of queries, and a query sees what
// came before it.
TEST(AxisMaps, OfAttention) {
  auto withAttributes = [](const std::string &attributes,
                           llvm::function_ref<void(AxisMapOpInterface)> check) {
    TestModule test(
        "func.func @f(%q: tensor<2x6x8x4xf32>, %k: tensor<2x2x8x4xf32>) {\n"
        "%o, %l = tfm.attention %q, %k, %k {" +
        attributes +
        "scale = 1.0 : f64} : tensor<2x6x8x4xf32>, tensor<2x2x8x4xf32>, "
        "tensor<2x2x8x4xf32>\nreturn\n}");
    check(cast<AxisMapOpInterface>(test.function("f").front().front()));
  };
  withAttributes("causal, ", [](AxisMapOpInterface op) {
    EXPECT_EQ(op.mapAxis(1, {1, 1}, 2).place, (AxisPlace{1, 3}));
    EXPECT_EQ(op.mapAxis(2, {2, 1}, 8).kind, AxisMap::Kind::Causal);
    EXPECT_TRUE(op.mapAxis(0, {2, 1}, 8).isKept());
    EXPECT_TRUE(op.mapAxis(0, {3, 1}, 4).isMixed());
  });
  withAttributes("", [](AxisMapOpInterface op) {
    EXPECT_EQ(op.mapAxis(1, {2, 1}, 8).reason, "attention that is not causal");
  });
}

} // namespace
