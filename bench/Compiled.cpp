//===- Compiled.cpp - tfm functions compiled into this process ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bench/Compiled.h"
#include "compiler/dialect/ReverseSweep.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/driver/Compile.h"
#include "compiler/driver/Pipelines.h"
#include "compiler/frontend/Diagnostics.h"
#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/Source.h"
#include "compiler/target/KernelTarget.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include <cstdlib>

using namespace mlir;
using namespace tfm;
using namespace tfm::bench;

/// The target that TFM_BENCH_CPU names, or this machine.
static const KernelTarget &benchedTarget() {
  registerTargets();
  const char *named = std::getenv("TFM_BENCH_CPU");
  return *llvm::cantFail(
      KernelTarget::named(std::string("cpu:") + (named ? named : "native")));
}

static std::unique_ptr<llvm::orc::LLJIT> load(ModuleOp module) {
  const KernelTarget &target = benchedTarget();
  if (failed(prepare(module, target)))
    llvm::report_fatal_error("cannot transform the model");
  if (failed(scheduleModel(module, target)))
    llvm::report_fatal_error("the model could not be scheduled");
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code =
      emitModel(ScheduledModel{module, target}, context);
  if (!code)
    llvm::report_fatal_error("cannot generate code");
  SmallVector<char, 0> object;
  llvm::raw_svector_ostream os(object);
  llvm::cantFail(target.writeObject(*code, os));
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  llvm::cantFail(
      jit->addObjectFile(std::make_unique<llvm::SmallVectorMemoryBuffer>(
          std::move(object), /*RequiresNullTerminator=*/false)));
  return jit;
}

/// Adds `NAME.derivative` for a function.
static void addDerivative(func::FuncOp function) {
  auto copy = cast<func::FuncOp>(function->clone());
  copy.setSymName((function.getSymName() + ".derivative").str());
  function->getParentOfType<ModuleOp>().push_back(copy);
  Block &block = copy.getBody().front();
  Operation *end = block.getTerminator();
  OpBuilder builder(end);
  ReverseSweep sweep(builder);
  SmallVector<Value> arguments(block.getArguments());
  for (Value argument : arguments)
    sweep.activate(argument);
  sweep.propagateActivity(block);
  for (Value result : end->getOperands())
    sweep.accumulate(result,
                     block.addArgument(result.getType(), function.getLoc()));
  if (failed(sweep.run(block)))
    llvm::report_fatal_error("cannot derive the function");
  SmallVector<Value> results;
  for (Value argument : arguments)
    if (Value cotangent = sweep.cotangent(argument))
      results.push_back(cotangent);
  end->setOperands(results);
  copy.setArgAttrsAttr(nullptr);
  copy.setType(builder.getFunctionType(block.getArgumentTypes(),
                                       ValueRange(results).getTypes()));
  eraseDeadOps(block);
}

Compiled::Compiled(std::unique_ptr<llvm::orc::LLJIT> loaded)
    : jit(std::move(loaded)),
      model(llvm::cantFail(jit->lookup("tfm_model_descriptor"))
                .toPtr<const tfm_model *>()) {}
Compiled::Compiled(Compiled &&) = default;
Compiled::~Compiled() = default;

Compiled Compiled::file(
    const std::string &path,
    const std::vector<std::pair<std::string, std::string>> &defines) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  SourceManager sources;
  Diagnostics diagnostics(sources);
  FrontendOptions options;
  options.defines = defines;
  OwningOpRef<ModuleOp> module =
      compileToTfm(context, sources, path, options, diagnostics);
  diagnostics.print(llvm::errs());
  if (!module)
    llvm::report_fatal_error("the model has errors");
  return Compiled(load(*module));
}

static OwningOpRef<ModuleOp> parse(MLIRContext &context, StringRef text) {
  context.loadDialect<TfmDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    llvm::report_fatal_error("the text is not tfm");
  return module;
}

Compiled Compiled::functions(StringRef text) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> parsed = parse(context, text);
  for (auto function : llvm::to_vector(parsed->getOps<func::FuncOp>()))
    addDerivative(function);
  return Compiled(load(*parsed));
}

Compiled Compiled::module(StringRef text) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  return Compiled(load(*parse(context, text)));
}
