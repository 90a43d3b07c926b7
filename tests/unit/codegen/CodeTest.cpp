//===- CodeTest.cpp - machine code of the models that ship ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/cpu/Lower.h"
#include "compiler/codegen/cpu/Target.h"
#include "tests/unit/codegen/ShippedModel.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/Regex.h"
#include "gtest/gtest.h"

#include <set>

using namespace tfm;

namespace {

/// A model that ships as LLVM IR for one CPU.
struct Compiled {
  explicit Compiled(const std::string &name,
                    const ShippedModel::Defines &defines = {},
                    const char *cpu = "native")
      : model(name, defines), target(llvm::cantFail(CpuTarget::named(cpu))) {
    if (!model.module)
      return;
    schedule = scheduleModel(*model.module);
    code = emitModel(*model.module, schedule, target, context);
    EXPECT_TRUE(code) << "emission failed";
  }

  ShippedModel model;
  CpuTarget target;
  Schedule schedule;
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code;
};

/// What a model comes to as an object file.
struct Object {
  explicit Object(const std::string &name,
                  const ShippedModel::Defines &defines = {}) {
    Compiled compiled(name, defines);
    if (!compiled.code)
      return;
    compiled.model.module->walk([&](mlir::Operation *) { ++ops; });
    for (const llvm::Function &function : *compiled.code)
      functions += !function.isDeclaration();
    llvm::SmallString<0> object;
    llvm::raw_svector_ostream os(object);
    llvm::cantFail(emitObject(*compiled.code, compiled.target, os));
    llvm::MemoryBufferRef buffer(object, name);
    undefined = llvm::cantFail(undefinedSymbols(buffer));
    auto file =
        llvm::cantFail(llvm::object::ObjectFile::createObjectFile(buffer));
    for (const llvm::object::SectionRef &section : file->sections())
      if (section.isText())
        textBytes += static_cast<int64_t>(section.getSize());
  }
  /// Of the tfm dialect, and of machine code.
  int64_t ops = 0, functions = 0, textBytes = 0;
  std::vector<std::string> undefined;
};

// Layers stay a loop: deeper is not more code, but for the numbers in it.
TEST(Code, DoesNotGrowWithDepth) {
  ShippedModel::Defines small = {{"width", "48"},      {"heads", "4"},
                                 {"context", "32"},    {"train.sequence", "32"},
                                 {"train.batch", "2"}, {"drop", "0.1"}};
  ShippedModel::Defines shallow = small, deep = small;
  shallow.push_back({"layers", "12"});
  deep.push_back({"layers", "48"});
  Object twelve("shakespeare.tfm", shallow),
      fortyEight("shakespeare.tfm", deep);
  EXPECT_GT(twelve.ops, 100);
  EXPECT_EQ(twelve.ops, fortyEight.ops);
  EXPECT_GT(twelve.functions, 10);
  EXPECT_EQ(twelve.functions, fortyEight.functions);
  EXPECT_NEAR(static_cast<double>(fortyEight.textBytes),
              static_cast<double>(twelve.textBytes),
              0.01 * static_cast<double>(twelve.textBytes));
}

// Nothing is called but `claim`, through its pointer: no libm, no libc.
class UndefinedSymbols : public testing::TestWithParam<std::string> {};
TEST_P(UndefinedSymbols, None) {
  Object object(GetParam());
  EXPECT_GT(object.textBytes, 0);
  EXPECT_EQ(object.undefined, std::vector<std::string>());
}
INSTANTIATE_TEST_SUITE_P(Models, UndefinedSymbols,
                         testing::ValuesIn(shippedModels()),
                         [](const auto &info) { return testName(info.param); });

// Every function sets the mode in which denormal numbers are zero and sets back
// the one that it found.
TEST(Assembly, FunctionsFlushDenormals) {
  for (auto [cpu, instruction] : {std::pair("x86-64-v3", "ldmxcsr"),
                                  {"x86-64-v4", "ldmxcsr"},
                                  {"cortex-a72", "msr\tFPCR"}}) {
    Compiled compiled("addition.tfm", {}, cpu);
    ASSERT_TRUE(compiled.code);
    llvm::SmallString<0> assembly;
    llvm::raw_svector_ostream os(assembly);
    llvm::cantFail(emitAssembly(*compiled.code, compiled.target, os));
    EXPECT_GT(compiled.schedule.programs.size(), 1u);
    EXPECT_EQ(llvm::StringRef(assembly).count(instruction),
              2 * compiled.schedule.programs.size())
        << cpu;
  }
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// The functions in `assembly` (of x86-64, in AT&T's syntax) with an innermost
/// loop that computes with one float at a time and never with a vector of them.
std::set<std::string> functionsWithScalarLoops(llvm::StringRef assembly) {
  // A loop is what lies between a label and a jump back to it.
  struct Line {
    bool scalar, vector;
  };
  std::vector<Line> lines;
  std::vector<std::pair<size_t, size_t>> loops;
  llvm::StringMap<size_t> labels;
  std::string function;
  std::set<std::string> found;
  auto finish = [&] {
    for (auto [begin, end] : loops) {
      bool innermost = true, scalar = false, vector = false;
      for (auto other : loops)
        innermost &= other == std::pair(begin, end) || other.first < begin ||
                     other.second > end;
      for (size_t i = begin; i < end; ++i) {
        scalar |= lines[i].scalar;
        vector |= lines[i].vector;
      }
      if (innermost && scalar && !vector)
        found.insert(function);
    }
    lines.clear();
    loops.clear();
    labels.clear();
  };
  llvm::Regex scalar(
      "^v?(add|sub|mul|div|max|min|sqrt|rsqrt|rcp|fm|fnm)[a-z0-9]*ss$"),
      vector("^v?[a-z0-9]+ps$");
  for (llvm::StringRef line : llvm::split(assembly, '\n')) {
    if (!line.starts_with("\t")) {
      llvm::StringRef label = line.take_until([](char c) { return c == ':'; });
      if (label.size() == line.size())
        continue;
      if (!label.starts_with(".L")) {
        finish();
        function = label.str();
      }
      labels[label] = lines.size();
      continue;
    }
    auto [name, operands] = line.trim().split('\t');
    if (name.starts_with("."))
      continue;
    if (name.starts_with("j")) {
      auto target = labels.find(operands.take_until(llvm::isSpace));
      if (target != labels.end())
        loops.push_back({target->second, lines.size()});
    }
    lines.push_back({scalar.match(name), vector.match(name)});
  }
  finish();
  return found;
}

TEST(Assembly, ScalarLoopsAreFound) {
  const char *sum = "one:\n\tmovl\t$0, %eax\n.LBB0_1:\n"
                    "\tvaddss\t(%rdi), %xmm0, %xmm0\n\tincq\t%rax\n"
                    "\tjl\t.LBB0_1\n\tretq\n";
  const char *both = "two:\n.LBB1_1:\n\tvmulss\t%xmm1, %xmm0, %xmm0\n"
                     ".LBB1_2:\n\tvaddps\t(%rdi), %zmm0, %zmm0\n"
                     "\tjl\t.LBB1_2\n\tjmp\t.LBB1_1\n";
  EXPECT_EQ(functionsWithScalarLoops(sum), std::set<std::string>{"one"});
  // The inner loop adds vectors; what is around it runs less often.
  EXPECT_EQ(functionsWithScalarLoops(both), std::set<std::string>{});
  EXPECT_EQ(functionsWithScalarLoops(std::string(both) + sum),
            std::set<std::string>{"one"});
}

/// The functions that `function` may run: itself and what it calls.
void collect(llvm::Function &function, std::set<std::string> &all) {
  if (function.isDeclaration() || !all.insert(function.getName().str()).second)
    return;
  for (llvm::Instruction &instruction : llvm::instructions(function))
    if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction))
      if (llvm::Function *callee = call->getCalledFunction())
        collect(*callee, all);
}

/// A launch of a program, how often it runs, and its kernel.
struct KernelRun {
  const Launch *launch;
  int64_t count;
  llvm::Function *kernel = nullptr;
};

void addRuns(const std::vector<tfm::Step> &steps, int64_t count,
             std::vector<KernelRun> &runs) {
  for (const tfm::Step &step : steps)
    if (step.isLoop())
      addRuns(step.body, count * step.count, runs);
    else
      runs.push_back({step.launch.get(), count});
}

/// The launches of `program` in order. Its function calls their kernels in the
/// same order.
std::vector<KernelRun> runsOf(const Program &program, llvm::Module &code) {
  std::vector<KernelRun> runs;
  addRuns(program.steps, 1, runs);
  size_t next = 0;
  for (llvm::Instruction &instruction :
       llvm::instructions(*code.getFunction("run_" + program.name))) {
    auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
    llvm::Function *callee = call ? call->getCalledFunction() : nullptr;
    if (callee && callee->getName().starts_with("kernel") && next < runs.size())
      runs[next++].kernel = callee;
  }
  EXPECT_EQ(next, runs.size());
  return runs;
}

struct LoopCase {
  const char *name, *model;
  ShippedModel::Defines defines;
};

// A kernel that computes with one float at a time takes at most as many times
// as long as a vector has lanes. With less than 1 / lanes of 2 % of a
// function's FLOPs and bytes, it takes less than 2 % of its time. The only such
// kernels are sums of one column: of the losses of a batch, and of the chunks
// of a gradient's norm.
class ScalarLoops
    : public testing::TestWithParam<std::tuple<LoopCase, const char *>> {};
TEST_P(ScalarLoops, AreNegligible) {
  const auto &[model, cpu] = GetParam();
  Compiled compiled(model.model, model.defines, cpu);
  ASSERT_TRUE(compiled.code);
  double limit = 0.02 / static_cast<double>(compiled.target.lanes);
  llvm::SmallString<0> assembly;
  llvm::raw_svector_ostream os(assembly);
  llvm::cantFail(emitAssembly(*compiled.code, compiled.target, os));
  std::set<std::string> scalar = functionsWithScalarLoops(assembly);
  for (const Program &program : compiled.schedule.programs) {
    std::vector<KernelRun> runs = runsOf(program, *compiled.code);
    double flops = 0, bytes = 0;
    for (const KernelRun &run : runs) {
      flops += static_cast<double>(run.count * flopsOf(*run.launch));
      bytes += static_cast<double>(run.count * bytesOf(*run.launch));
    }
    for (const KernelRun &run : runs) {
      ASSERT_TRUE(run.kernel);
      std::set<std::string> called;
      collect(*run.kernel, called);
      if (llvm::none_of(called, [&](auto &name) { return scalar.count(name); }))
        continue;
      std::string what = describe(*run.launch);
      SCOPED_TRACE(program.name + ": " + what);
      EXPECT_TRUE(llvm::Regex("^row [0-9]+x1 \\(reduce_sum\\)$").match(what));
      EXPECT_LT(static_cast<double>(run.count * flopsOf(*run.launch)),
                limit * flops);
      EXPECT_LT(static_cast<double>(run.count * bytesOf(*run.launch)),
                limit * bytes);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(
    Models, ScalarLoops,
    testing::Combine(
        testing::Values(LoopCase{"addition", "addition.tfm", {}},
                        LoopCase{"shakespeare", "shakespeare.tfm", {}},
                        LoopCase{
                            "dropout", "shakespeare.tfm", {{"drop", "0.2"}}},
                        LoopCase{"gpt2", "gpt2.tfm", {}},
                        LoopCase{"gpt2_trained",
                                 "shakespeare.tfm",
                                 {{"layers", "12"},
                                  {"heads", "12"},
                                  {"width", "768"},
                                  {"context", "1024"},
                                  {"vocab", "50257"},
                                  {"train.batch", "4"}}}),
        testing::Values("x86-64-v3", "x86-64-v4")),
    [](const auto &info) {
      return std::string(std::get<0>(info.param).name) +
             (llvm::StringRef(std::get<1>(info.param)).ends_with("v3")
                  ? "_avx2"
                  : "_avx512");
    });

} // namespace
