//===- CodeTest.cpp - machine code of the models that ship ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
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
      : machine(llvm::cantFail(CpuMachine::named(cpu))),
        target(targetNamed(cpu)), model(name, defines, target) {
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

  CpuMachine machine;
  const KernelTarget &target;
  ShippedModel model;
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
    for (const auto &loop : innermostLoops(function)) {
      if (llvm::any_of(
              loop,
              [](const auto *each) { return computesWithOneFloat(*each); }) &&
          llvm::none_of(loop, [](const auto *each) {
            return llvm::StringRef(each->mnemonic).ends_with("ps");
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

//===----------------------------------------------------------------------===//
// Registers
//===----------------------------------------------------------------------===//

/// Accesses to the stack of a loop: of instructions with vectors, masks or
/// tiles alone, as pointers that wait there cost little.
int64_t stackAccesses(llvm::ArrayRef<const DecodedInstruction *> loop) {
  return llvm::count_if(loop, [](const DecodedInstruction *each) {
    return each->accessesStack && each->usesVectors;
  });
}

TEST(MachineCode, StackAccessesInLoopsAreFound) {
  // Each turn of the loop wants `count` vectors that are known before it.
  auto accesses = [](const char *cpu, int count) {
    std::string text = "define void @f(ptr %x, i64 %n) {\nentry:\n";
    llvm::raw_string_ostream os(text);
    for (int i = 0; i < count; ++i)
      os << "  %p" << i << " = getelementptr <8 x float>, ptr %x, i64 " << i
         << "\n  %v" << i << " = load <8 x float>, ptr %p" << i << "\n";
    os << "  br label %loop\nloop:\n"
          "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n"
          "  %at = getelementptr <8 x float>, ptr %x, i64 %i\n"
          "  %s0 = load <8 x float>, ptr %at\n";
    for (int i = 0; i < count; ++i)
      os << "  %s" << i + 1 << " = fadd <8 x float> %s" << i << ", %v" << i
         << "\n";
    os << "  store <8 x float> %s" << count
       << ", ptr %at\n"
          "  %next = add i64 %i, 1\n"
          "  %last = icmp eq i64 %next, %n\n"
          "  br i1 %last, label %exit, label %loop\nexit:\n  ret void\n}\n";
    llvm::LLVMContext context;
    llvm::SMDiagnostic problem;
    std::unique_ptr<llvm::Module> code =
        llvm::parseAssemblyString(text, problem, context);
    EXPECT_TRUE(code) << problem.getMessage().str();
    CpuMachine target = llvm::cantFail(CpuMachine::named(cpu));
    llvm::SmallString<0> object;
    llvm::raw_svector_ostream out(object);
    llvm::cantFail(emitObject(*code, target, out));
    std::vector<DecodedFunction> functions =
        llvm::cantFail(decodeFunctions({object, "object"}, target));
    int64_t found = 0;
    for (const DecodedFunction &function : functions)
      for (const auto &loop : innermostLoops(function))
        found += stackAccesses(loop);
    return found;
  };
  EXPECT_EQ(accesses("x86-64-v3", 15), 0);
  EXPECT_EQ(accesses("x86-64-v3", 20), 5);
  // Two registers each.
  EXPECT_EQ(accesses("neoverse-n1", 15), 0);
  EXPECT_GT(accesses("neoverse-n1", 20), 0);
}

/// What kind of kernel computes a step, by what `describe` says of it.
std::string kindOf(mlir::Operation *step) {
  std::string description = describe(step);
  llvm::StringRef what = description;
  auto has = [&](llvm::StringRef op) { return what.contains(op); };
  if (what.starts_with("attention")) {
    bool drops = false;
    step->walk([&](mlir::Operation *op) {
      drops |= mlir::isa<AttentionOp, AttentionBackwardOp>(op) &&
               op->hasAttr("dropout");
    });
    return what.take_until([](char c) { return c == ' '; }).str() +
           (drops ? ", dropout" : "");
  }
  if (what.starts_with("matmul"))
    return has("dropout") ? "product, dropout"
           : has("gelu") || has("sigmoid") || has("silu")
               ? "product, activation"
               : "product";
  if (!what.starts_with("row"))
    return what.take_until([](char c) { return c == ' '; }).str();
  return has("dropout")                ? "row, dropout"
         : has("exp")                  ? "row, softmax"
         : has("sqrt mul mul add div") ? "row, optimizer"
         : has("abs")                  ? "row, quantised"
         : has("cos")                  ? "row, rotations"
         : has("reduce_chunks")        ? "row, derivative"
         : has("rsqrt")                ? "row, norm"
                                       : "row";
}

/// Kinds of kernels, each with a number of something.
using Kinds = std::map<std::string, int64_t>;

/// Kernels of one CPU by their kind.
class KernelKinds {
public:
  explicit KernelKinds(const char *cpu) : cpu(cpu) {}

  void add(const std::string &name, const ShippedModel::Defines &defines) {
    Compiled compiled(name, defines, cpu);
    ASSERT_TRUE(compiled.code);
    std::map<std::string, std::set<std::string>> kindsOf;
    for (sched::ProgramOp program : compiled.programs())
      for (const KernelRun &run : runsOf(program, *compiled.code)) {
        std::set<std::string> called;
        collect(*run.kernel, called);
        for (const std::string &function : called)
          kindsOf[function].insert(kindOf(run.step));
      }
    for (const DecodedFunction &function : compiled.decode()) {
      bool isShared = llvm::StringRef(function.name).starts_with("tfm.");
      for (const std::string &kind : kindsOf[function.name]) {
        for (const DecodedInstruction &each : function.instructions)
          instructions[kind].insert(each.mnemonic);
        // What kernels share is no part of one kind.
        note(isShared ? "shared" : kind, function);
      }
    }
  }

  /// The most accesses to the stack in an innermost loop, where there are any.
  Kinds onStack;
  std::map<std::string, std::set<std::string>> instructions;

private:
  void note(const std::string &kind, const DecodedFunction &function) {
    for (const auto &loop : innermostLoops(function)) {
      // A kernel's loop around calls is not innermost.
      if (llvm::any_of(loop, [](const auto *each) { return each->isCall; }))
        continue;
      if (int64_t accesses = stackAccesses(loop)) {
        int64_t &most = onStack[kind];
        most = std::max(most, accesses);
      }
    }
  }

  const char *cpu;
};

struct CpuCase {
  const char *name, *cpu, *precision;
  /// The most that a loop of a kind has on the stack. Of all other kinds none
  /// has anything there.
  Kinds onStack;
  /// Instructions that a kind has, with the functions that it calls.
  std::vector<std::pair<const char *, const char *>> instructions;
  /// Those that a kind does not have.
  std::vector<std::pair<const char *, const char *>> without = {};
};

/// What remains on the stack, and why:
/// - Dropout: a generator's round keys and what they are made of, which are
///   known before the loop and read as operands; in attention also masks, four
///   for each vector of queries. One vector after the other has less on the
///   stack, but recomputes as much.
/// - Rows in softmax, of 65 columns here, and with AVX2 those that are normed,
///   of 128: short ones are unrolled. Read again in a loop they take up to 1.2
///   times as long with AVX2 (bench_rows, cross_entropy/shakespeare and
///   layer_norm/shakespeare).
/// - Derivatives of norms: with AVX-512 rows of up to 16 vectors are unrolled;
///   with AVX2 a loop over four vectors instead of eight has nothing there, and
///   took as long or longer.
/// - Rows that are quantised: the largest of four vectors, and constants.
/// - Activations behind products, with NEON: constants, which register tiles
///   leave no register for. They would be loaded otherwise.
/// - Attention: one vector that is known before the loop.
/// - AMX: 32 columns of bf16 are turned in 32 registers.
const CpuCase cpuCases[] = {
    {"avx2",
     "x86-64-v3",
     "f32",
     {{"attention", 1},
      {"attention, dropout", 37},
      {"attention_backward, dropout", 134},
      {"product, activation", 1},
      {"product, dropout", 39},
      {"row, derivative", 10},
      {"row, dropout", 62},
      {"row, norm", 22},
      {"row, quantised", 18},
      {"row, softmax", 62}},
     {{"product", "vfmadd231ps"},
      {"product", "vpmaddubsw"},
      {"product", "prefetcht0"},
      {"attention", "vfmadd231ps"},
      {"attention_backward", "vfmadd231ps"},
      {"row, dropout", "vpmuludq"},
      {"row, softmax", "vmaxps"},
      {"row, softmax", "prefetcht0"},
      {"row, optimizer", "vsqrtps"},
      {"row, optimizer", "prefetcht0"}}},
    {"avx512",
     "x86-64-v4",
     "f32",
     {{"attention", 1},
      {"attention, dropout", 9},
      {"attention_backward, dropout", 95},
      {"product, dropout", 2},
      {"row, derivative", 4},
      {"row, dropout", 51},
      {"row, softmax", 2}},
     {{"product", "vfmadd231ps"},
      {"product", "prefetcht0"},
      {"attention", "vfmadd231ps"},
      {"attention", "vreduceps"},
      {"attention", "vscalefps"},
      {"attention_backward", "vfmadd231ps"},
      {"attention_backward", "vscalefps"},
      {"row, dropout", "vpmuludq"},
      {"row, softmax", "vmaxps"},
      {"row, softmax", "prefetcht0"},
      {"row, optimizer", "vsqrtps"},
      {"row, optimizer", "prefetcht0"}}},
    {"avx512_bf16",
     "znver4",
     "bf16",
     {{"attention", 1},
      {"attention, dropout", 9},
      {"attention_backward, dropout", 70},
      {"row, derivative", 12},
      {"row, dropout", 50}},
     {{"product", "vdpbf16ps"},
      {"product", "vpdpbusd"},
      {"attention", "vdpbf16ps"},
      {"attention", "vscalefps"},
      {"attention_backward", "vdpbf16ps"},
      {"attention_backward", "vscalefps"},
      {"row, dropout", "vpmuludq"},
      {"row, norm", "vcvtneps2bf16"},
      {"row, optimizer", "vcvtneps2bf16"}},
     {{"row, softmax", "prefetcht0"}, {"row, optimizer", "prefetcht0"}}},
    {"amx",
     "sapphirerapids+amx",
     "bf16",
     {{"attention", 1},
      {"attention, dropout", 9},
      {"attention_backward, dropout", 91},
      {"product, dropout", 2},
      {"row, derivative", 4},
      {"row, dropout", 51},
      {"shared", 72}},
     {{"product", "tdpbf16ps"},
      {"product", "tdpbsud"},
      {"attention", "tdpbf16ps"},
      {"attention", "vscalefps"},
      {"attention_backward", "tdpbf16ps"},
      {"attention_backward", "vscalefps"},
      {"row, dropout", "vpmuludq"},
      {"row, norm", "vcvtneps2bf16"},
      {"row, softmax", "prefetcht0"},
      {"row, optimizer", "vcvtneps2bf16"},
      {"row, optimizer", "prefetcht0"}}},
    {"neon",
     "neoverse-n1",
     "f32",
     {{"attention", 1},
      {"attention, dropout", 25},
      {"attention_backward, dropout", 193},
      {"product, activation", 8},
      {"product, dropout", 16},
      {"row, derivative", 15},
      {"row, dropout", 5},
      {"row, quantised", 14},
      {"row, softmax", 99}},
     {{"product", "fmla"},
      {"product", "sdot"},
      {"product", "prfm"},
      {"attention", "fmla"},
      {"attention_backward", "fmla"},
      {"row, dropout", "umull"},
      {"row, optimizer", "fsqrt"}}},
    {"neon_bf16",
     "neoverse-n2",
     "bf16",
     {{"attention", 1},
      {"attention, dropout", 18},
      {"attention_backward, dropout", 200},
      {"product, activation", 8},
      {"product, dropout", 16},
      {"row, dropout", 4},
      {"row, quantised", 14},
      {"row, softmax", 105}},
     {{"product", "bfdot"},
      {"product", "sdot"},
      {"attention", "fmla"},
      {"attention_backward", "fmla"},
      {"row, dropout", "umull"},
      {"row, norm", "bfcvtn"},
      {"row, optimizer", "bfcvtn"}}},
};

// Inner loops keep to the registers, and kernels have the instructions that
// they are fast by.
class Registers : public testing::TestWithParam<CpuCase> {};
TEST_P(Registers, InnerLoopsKeepToThem) {
  const CpuCase &wanted = GetParam();
  KernelKinds kinds(wanted.cpu);
  kinds.add("shakespeare.tfm", {{"drop", "0.1"}});
  kinds.add("shakespeare.tfm", {{"layers", "1"},
                                {"heads", "12"},
                                {"width", "768"},
                                {"context", "1024"},
                                {"vocab", "50257"},
                                {"train.batch", "4"},
                                {"train.sequence", "1024"},
                                {"train.precision", wanted.precision}});
  kinds.add("gpt2.tfm", {{"layers", "1"},
                         {"generate.weights", "int8"},
                         {"generate.cache", "int8"}});
  for (auto [kind, accesses] : kinds.onStack) {
    auto known = wanted.onStack.find(kind);
    EXPECT_LE(accesses, known == wanted.onStack.end() ? 0 : known->second)
        << kind;
  }
  for (auto [kind, instruction] : wanted.instructions)
    EXPECT_TRUE(kinds.instructions[kind].count(instruction))
        << kind << " without " << instruction;
  for (auto [kind, instruction] : wanted.without)
    EXPECT_FALSE(kinds.instructions[kind].count(instruction))
        << kind << " with " << instruction;
}
INSTANTIATE_TEST_SUITE_P(Cpus, Registers, testing::ValuesIn(cpuCases),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

} // namespace
