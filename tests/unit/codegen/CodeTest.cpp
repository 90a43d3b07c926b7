//===- CodeTest.cpp - machine code of the models that ship ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/Pipelines.h"
#include "compiler/schedule/Launches.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/Lower.h"
#include "tests/unit/codegen/MachineCode.h"
#include "tests/unit/codegen/ShippedModel.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/SourceMgr.h"
#include "gtest/gtest.h"

#include <map>
#include <set>

using namespace tfm;
using mlir::succeeded;

namespace {

const KernelTarget &targetNamed(const char *cpu) {
  registerTargets();
  return *llvm::cantFail(KernelTarget::named(std::string("cpu:") + cpu));
}

/// A model that ships as LLVM IR for one CPU.
struct Compiled {
  explicit Compiled(const std::string &name,
                    const ShippedModel::Defines &defines = {},
                    const char *cpu = "native")
      : model(name, defines), machine(llvm::cantFail(CpuMachine::named(cpu))),
        target(targetNamed(cpu)) {
    if (!model.module)
      return;
    EXPECT_TRUE(succeeded(scheduleModel(*model.module, target)));
    code = emitModel(ScheduledModel{*model.module, target}, context);
    EXPECT_TRUE(code) << "emission failed";
  }

  /// The instructions that it comes to.
  std::vector<DecodedFunction> decode() {
    llvm::SmallString<0> object;
    llvm::raw_svector_ostream os(object);
    llvm::cantFail(target.writeObject(*code, os));
    return llvm::cantFail(decodeFunctions({object, "object"}, machine));
  }

  /// The programs of the model.
  std::vector<sched::ProgramOp> programs() {
    auto all = model.module->getOps<sched::ProgramOp>();
    return {all.begin(), all.end()};
  }

  ShippedModel model;
  CpuMachine machine;
  const KernelTarget &target;
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
    llvm::cantFail(compiled.target.writeObject(*compiled.code, os));
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

/// Whether an instruction writes the register that says how floats are
/// computed: MXCSR on x86-64, FPCR on AArch64.
bool setsFloatMode(const DecodedInstruction &instruction) {
  // As `MSR` names it: op0 = 3, op1 = 3, CRn = 4, CRm = 4, op2 = 0.
  constexpr int64_t fpcr = 0b11'011'0100'0100'000;
  llvm::StringRef name = instruction.mnemonic;
  return name == "ldmxcsr" || name == "vldmxcsr" ||
         (name == "msr" && instruction.inst.getOperand(0).isImm() &&
          instruction.inst.getOperand(0).getImm() == fpcr);
}

// Every function sets the mode in which denormal numbers are zero and sets back
// the one that it found.
TEST(MachineCode, FunctionsFlushDenormals) {
  for (const char *cpu : {"x86-64-v3", "x86-64-v4", "cortex-a72"}) {
    Compiled compiled("addition.tfm", {}, cpu);
    ASSERT_TRUE(compiled.code);
    EXPECT_GT(compiled.programs().size(), 1u);
    std::map<std::string, int> times;
    for (const DecodedFunction &function : compiled.decode())
      if (int count = llvm::count_if(function.instructions, setsFloatMode))
        times[function.name] = count;
    std::map<std::string, int> expected;
    for (sched::ProgramOp program : compiled.programs())
      expected[("run_" + program.getSymName()).str()] = 2;
    EXPECT_EQ(times, expected) << cpu;
  }
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// Whether an instruction of x86-64 computes with one float. Moves, conversions
/// and comparisons do not.
bool computesWithOneFloat(const DecodedInstruction &instruction) {
  llvm::StringRef name = instruction.mnemonic;
  name.consume_front("v");
  return name.ends_with("ss") &&
         llvm::any_of(llvm::ArrayRef<llvm::StringRef>(
                          {"add", "sub", "mul", "div", "max", "min", "sqrt",
                           "rsqrt", "rcp", "fmadd", "fmsub", "fnmadd", "fnmsub",
                           "round", "rndscale", "scalef"}),
                      [&](llvm::StringRef op) { return name.starts_with(op); });
}

/// The functions (of x86-64) with an innermost loop that computes with one
/// float at a time and never with a vector of them.
std::set<std::string>
functionsWithScalarLoops(llvm::ArrayRef<DecodedFunction> functions) {
  std::set<std::string> found;
  for (const DecodedFunction &function : functions)
    for (const CodeRange &loop : innermostLoops(function)) {
      auto body = llvm::ArrayRef(function.instructions)
                      .slice(loop.begin, loop.end - loop.begin);
      if (llvm::any_of(body, computesWithOneFloat) &&
          llvm::none_of(body, [](const DecodedInstruction &instruction) {
            return llvm::StringRef(instruction.mnemonic).ends_with("ps");
          }))
        found.insert(function.name);
    }
  return found;
}

TEST(MachineCode, ScalarLoopsAreFound) {
  // `one` adds floats in their order. `two` multiplies one float around a loop
  // that adds vectors, which runs more often.
  const char *text = R"(
    define float @one(ptr %x, i64 %n) {
    entry:
      br label %loop
    loop:
      %i = phi i64 [ 0, %entry ], [ %next, %loop ]
      %sum = phi float [ 0.0, %entry ], [ %more, %loop ]
      %at = getelementptr float, ptr %x, i64 %i
      %value = load float, ptr %at
      %more = fadd float %sum, %value
      %next = add i64 %i, 1
      %last = icmp eq i64 %next, %n
      br i1 %last, label %exit, label %loop
    exit:
      ret float %more
    }
    define float @two(ptr %x, i64 %n, float %factor) {
    entry:
      br label %outer
    outer:
      %i = phi i64 [ 0, %entry ], [ %nexti, %latch ]
      %power = phi float [ 1.0, %entry ], [ %more, %latch ]
      %more = fmul float %power, %factor
      br label %inner
    inner:
      %j = phi i64 [ 0, %outer ], [ %nextj, %inner ]
      %at = getelementptr <8 x float>, ptr %x, i64 %j
      %value = load <8 x float>, ptr %at
      %sum = fadd <8 x float> %value, %value
      store <8 x float> %sum, ptr %at
      %nextj = add i64 %j, 1
      %lastj = icmp eq i64 %nextj, %n
      br i1 %lastj, label %latch, label %inner
    latch:
      %nexti = add i64 %i, 1
      %lasti = icmp eq i64 %nexti, %n
      br i1 %lasti, label %exit, label %outer
    exit:
      ret float %more
    })";
  llvm::LLVMContext context;
  llvm::SMDiagnostic problem;
  std::unique_ptr<llvm::Module> code =
      llvm::parseAssemblyString(text, problem, context);
  ASSERT_TRUE(code) << problem.getMessage().str();
  CpuMachine target = llvm::cantFail(CpuMachine::named("x86-64-v3"));
  code->setTargetTriple(llvm::Triple(target.triple));
  llvm::SmallString<0> object;
  llvm::raw_svector_ostream os(object);
  llvm::cantFail(emitObject(*code, target, os));
  std::vector<DecodedFunction> functions =
      llvm::cantFail(decodeFunctions({object, "object"}, target));
  ASSERT_EQ(functions.size(), 2u);
  for (const DecodedFunction &function : functions)
    EXPECT_GT(llvm::count_if(function.instructions, computesWithOneFloat), 0);
  EXPECT_EQ(functionsWithScalarLoops(functions), std::set<std::string>{"one"});
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

/// A step that a kernel computes, how often it runs, and its kernel.
struct KernelRun {
  mlir::Operation *step;
  int64_t count;
  llvm::Function *kernel = nullptr;
};

/// The steps of `program` in order. Its function calls their kernels in the
/// same order.
std::vector<KernelRun> runsOf(sched::ProgramOp program, llvm::Module &code) {
  std::vector<KernelRun> runs;
  forEachStep(program, [&](mlir::Operation *step, int64_t count) {
    for (mlir::Operation *each : kernelSteps(step))
      runs.push_back({each, count});
  });
  size_t next = 0;
  for (llvm::Instruction &instruction : llvm::instructions(
           *code.getFunction(("run_" + program.getSymName()).str()))) {
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
  double limit = 0.02 / static_cast<double>(compiled.machine.lanes);
  std::set<std::string> scalar = functionsWithScalarLoops(compiled.decode());
  for (sched::ProgramOp program : compiled.programs()) {
    std::vector<KernelRun> runs = runsOf(program, *compiled.code);
    double flops = 0, bytes = 0;
    for (const KernelRun &run : runs) {
      flops += static_cast<double>(run.count * stepFlops(run.step));
      bytes += static_cast<double>(run.count * stepBytes(run.step));
    }
    for (const KernelRun &run : runs) {
      ASSERT_TRUE(run.kernel);
      std::set<std::string> called;
      collect(*run.kernel, called);
      if (llvm::none_of(called, [&](auto &name) { return scalar.count(name); }))
        continue;
      std::string what = describe(run.step);
      SCOPED_TRACE(program.getSymName().str() + ": " + what);
      EXPECT_TRUE(
          llvm::Regex("^row [0-9]+x1 \\(reduce_(sum|chunks)\\)$").match(what));
      EXPECT_LT(static_cast<double>(run.count * stepFlops(run.step)),
                limit * flops);
      EXPECT_LT(static_cast<double>(run.count * stepBytes(run.step)),
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
