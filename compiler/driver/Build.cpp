//===- Build.cpp - from a source file to a binary -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/driver/Build.h"

#include "compiler/dialect/Attributes.h"
#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/driver/BuildOutput.h"
#include "compiler/driver/Compile.h"
#include "compiler/driver/Link.h"
#include "compiler/driver/Objects.h"
#include "compiler/driver/Pipelines.h"
#include "compiler/driver/WriteFile.h"
#include "compiler/frontend/Diagnostics.h"
#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/Source.h"
#include "compiler/frontend/syntax/Parser.h"
#include "compiler/frontend/syntax/PrintAst.h"
#include "compiler/transforms/ReadRecipe.h"
#include "compiler/transforms/SequenceAxis.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/utf8.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include <chrono>
#include <optional>

using namespace tfm;

namespace {

/// Prints the time since the last stage ended.
class Stopwatch {
public:
  explicit Stopwatch(bool enabled) : enabled(enabled) {}
  void stage(llvm::StringRef name) {
    auto now = std::chrono::steady_clock::now();
    if (enabled)
      llvm::errs()
          << llvm::format(
                 "%8.1f ms  ",
                 std::chrono::duration<double, std::milli>(now - last).count())
          << name << '\n';
    last = now;
  }

private:
  bool enabled;
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};

BuildStatus fail(const llvm::Twine &message, BuildStatus status) {
  llvm::errs() << "tfmc: error: " << printable(message.str()) << '\n';
  return status;
}

BuildStatus write(llvm::StringRef path, llvm::StringRef bytes) {
  if (llvm::Error error = writeWhole(path, bytes))
    return fail(llvm::toString(std::move(error)), BuildStatus::InputError);
  return BuildStatus::Ok;
}

/// Writes what `print` prints.
BuildStatus
writeText(llvm::StringRef path,
          llvm::function_ref<llvm::Error(llvm::raw_pwrite_stream &)> print) {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream os(text);
  if (llvm::Error error = print(os))
    return fail(llvm::toString(std::move(error)), BuildStatus::Bug);
  return write(path, text);
}

/// The syntax tree of the file itself; nothing is elaborated.
BuildStatus buildAst(const BuildOptions &options, SourceManager &sources,
                     Diagnostics &diagnostics) {
  llvm::Expected<uint32_t> file = sources.load(options.source);
  if (!file)
    return fail("cannot read " + options.source + ": " +
                    llvm::toString(file.takeError()),
                BuildStatus::InputError);
  std::unique_ptr<ast::File> parsed = parseFile(sources, *file, diagnostics);
  diagnostics.print(llvm::errs());
  if (diagnostics.hasErrors())
    return BuildStatus::InputError;
  std::string output = outputOf(options);
  if (std::string why = whyNotWritten(output, options.emit, sources);
      !why.empty())
    return fail("cannot write " + output + ": " + why, BuildStatus::InputError);
  return writeText(output, [&](llvm::raw_pwrite_stream &os) {
    os << printAst(*parsed);
    return llvm::Error::success();
  });
}

/// Takes what passes say of a module. Whatever goes wrong in them is ours, not
/// the user's; warnings, which are printed, are of what is less than it could
/// be.
class PassMessages {
public:
  explicit PassMessages(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Warning)
            llvm::errs() << "note: " << diagnostic.str() << '\n';
          else if (bug.empty())
            bug = diagnostic.str();
          return mlir::success();
        }) {}

  /// The first error.
  llvm::StringRef firstError() const { return bug; }

private:
  std::string bug;
  mlir::ScopedDiagnosticHandler handler;
};

/// One build; members are what its stages share.
class Builder {
public:
  explicit Builder(const BuildOptions &options)
      : options(options), watch(options.time),
        context(mlir::MLIRContext::Threading::DISABLED), diagnostics(sources) {}

  BuildStatus build();

private:
  BuildStatus chooseTargets();
  /// Whether what is built for the processors can be linked here.
  BuildStatus checkLinking() const;
  BuildStatus loadModule();
  BuildStatus checkOutput() const;
  /// Whether the recipe is what the options want; adds variants and the device
  /// to the targets that suit it.
  BuildStatus readRecipe();
  /// A module for every target.
  BuildStatus scheduleVariants();
  /// Where texts cannot be generated with a cache.
  void noteWholeSequence() const;
  BuildStatus writeModule(mlir::ModuleOp written) const;
  BuildStatus writeDeviceAssembly();
  BuildStatus removeEarlierForms() const;
  BuildStatus writeCode();
  BuildStatus writeObjects(ModelCode &code, const KernelTarget &target);

  /// Fails for what a pass has said.
  BuildStatus bug(const llvm::Twine &what) const {
    return fail(what + ": " + messages->firstError(), BuildStatus::Bug);
  }
  bool isProgram() const { return options.emit == Emit::Exe; }
  Linked linked() const {
    return !isProgram()       ? Linked::Library
           : options.isStatic ? Linked::StaticProgram
                              : Linked::Program;
  }
  /// Whether the kernels of a device are all that is written.
  bool isDeviceAssembly() const { return device && options.emit == Emit::Asm; }
  /// Whether the descriptor is an object of its own: it has the images of
  /// devices, which are in work while code for processors is made, and that is
  /// made in parts.
  bool isDescribedApart() const { return isLinked(options.emit); }

  const BuildOptions &options;
  Stopwatch watch;
  /// Null where only processors run the model.
  const KernelTarget *device = nullptr;
  /// The device first, once the recipe has been read.
  std::vector<const KernelTarget *> targets;
  mlir::MLIRContext context;
  SourceManager sources;
  Diagnostics diagnostics;
  std::string output;
  /// Once there is a module.
  std::optional<PassMessages> messages;
  /// As the frontend made it, until it is one of `modules`.
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
  std::vector<ScheduledModel> variants;
  /// Whether the recipe wants several texts to be generated together.
  bool isOfSeveralTexts = false;
};

} // namespace

std::string tfm::wrongPrecision(mlir::ModuleOp module, llvm::StringRef wanted) {
  mlir::FailureOr<mlir::FloatType> precision = precisionOf(module);
  std::string own =
      mlir::failed(precision) || precision->isF32() ? "f32" : "bf16";
  if (wanted.empty() || wanted == own)
    return "";
  if (!findProgram(module, ProgramKind::Loss))
    return "--precision " + wanted.str() + ", but the recipe computes in " +
           own + ": without a `train` block `weights = " + wanted.str() +
           "` in a `generate` block decides, or `-D generate.weights=" +
           wanted.str() + "` where there is one";
  if (mlir::FailureOr<mlir::Type> weights = weightsOfGeneration(module);
      succeeded(weights) && weights->isBF16() &&
      trainingPrecision(module)->isF32())
    return "--precision " + wanted.str() + ", but the recipe computes in " +
           own + ": `weights` of its `generate` block decides, with `" +
           wanted.str() + "`, or `-D generate.weights=" + wanted.str() + "`";
  return "--precision " + wanted.str() + ", but the recipe computes in " + own +
         ": a `train` block decides, with `precision = " + wanted.str() +
         "`, or `-D train.precision=" + wanted.str() + "` where there is one";
}

BuildStatus Builder::chooseTargets() {
  registerTargets();
  if (options.target != "cpu") {
    llvm::Expected<const KernelTarget *> named =
        KernelTarget::named(options.target);
    if (!named)
      return fail(llvm::toString(named.takeError()), BuildStatus::WrongUsage);
    device = *named;
    for (auto [emit, word] :
         {std::pair(Emit::Llvm, "llvm"), std::pair(Emit::Obj, "obj"),
          std::pair(Emit::Shared, "shared")})
      if (options.emit == emit)
        return fail("--emit " + llvm::Twine(word) +
                        " is for `--target cpu` alone: with `--target " +
                        options.target +
                        "` there are programs (exe), the GPU's kernels (asm) "
                        "and their schedule",
                    BuildStatus::WrongUsage);
  }
  llvm::Expected<std::vector<const KernelTarget *>> processors =
      KernelTarget::variants("cpu", options.cpu);
  if (!processors) // this machine's own is what is taken where none is named
    return fail(llvm::toString(processors.takeError()),
                options.cpu == "native" ? BuildStatus::InputError
                                        : BuildStatus::WrongUsage);
  targets = std::move(*processors);
  if (options.emit == Emit::Schedule && !device)
    if (llvm::Expected<const KernelTarget *> one =
            KernelTarget::one(options.target, options.cpu, "a schedule");
        !one)
      return fail(llvm::toString(one.takeError()), BuildStatus::WrongUsage);
  return checkLinking();
}

BuildStatus Builder::checkLinking() const {
  if (options.isStatic && !isProgram())
    return fail("--static is for programs (`--emit exe`)",
                BuildStatus::WrongUsage);
  if (options.isStatic && device)
    return fail("--static is for `--target cpu` alone: a program finds the "
                "driver of a GPU as a library when it starts, which one "
                "without the machine's C library cannot",
                BuildStatus::WrongUsage);
  llvm::Triple there(targets.front()->triple()),
      here(llvm::sys::getProcessTriple());
  if (!isLinked(options.emit) ||
      (there.getArch() == here.getArch() && there.getOS() == here.getOS()))
    return BuildStatus::Ok;
  return fail("'" + options.cpu + "' is a processor of " + there.getArchName() +
                  " " + llvm::Triple::getOSTypeName(there.getOS()) +
                  ", and this machine links for " + here.getArchName() + " " +
                  llvm::Triple::getOSTypeName(here.getOS()) + ": " +
                  (device ? ""
                          : "write an object file with `--emit obj` and "
                            "link it there (docs/cli.md), or ") +
                  "build there",
              BuildStatus::InputError);
}

BuildStatus Builder::loadModule() {
  context.loadDialect<TfmDialect, mlir::func::FuncDialect>();
  FrontendOptions frontend;
  frontend.defines = options.defines;
  frontend.recipeDecides = true;
  module =
      compileToTfm(context, sources, options.source, frontend, diagnostics);
  if (!module || options.warn)
    diagnostics.print(llvm::errs());
  if (!module)
    return diagnostics.hasBug() ? BuildStatus::Bug : BuildStatus::InputError;
  watch.stage("frontend");

  output = outputOf(options);
  if (BuildStatus status = checkOutput(); status != BuildStatus::Ok)
    return status;
  messages.emplace(&context);
  return BuildStatus::Ok;
}

BuildStatus Builder::checkOutput() const {
  std::vector<std::string> paths = {output};
  if (isDeviceAssembly())
    if (std::string path = formsPath(output); !path.empty())
      paths.push_back(std::move(path));
  for (const std::string &path : paths)
    if (std::string why = whyNotWritten(path, options.emit, sources);
        !why.empty())
      return fail("cannot write " + path + ": " + why, BuildStatus::InputError);
  // The second one is nobody's to name, and goes where there are no forms.
  try {
    if (paths.size() > 1 && !isEarlier(paths.back(), options.emit))
      return fail("cannot write " + paths.back() +
                      ", beside the kernels: it is no PTX of an earlier build; "
                      "name another file with -o, or remove it",
                  BuildStatus::InputError);
  } catch (const InputError &error) {
    return fail(error.what(), BuildStatus::InputError);
  }
  return BuildStatus::Ok;
}

BuildStatus Builder::readRecipe() {
  mlir::FailureOr<mlir::FloatType> precision = precisionOf(*module);
  if (mlir::failed(precision))
    return bug("cannot read the recipe");
  if (std::string why = wrongPrecision(*module, options.precision);
      !why.empty())
    return fail(why, BuildStatus::InputError);
  mlir::FailureOr<mlir::Type> weights = weightsOfGeneration(*module),
                              cache = cacheOfGeneration(*module);
  if (mlir::failed(weights) || mlir::failed(cache))
    return bug("cannot read the recipe");
  if (!weights->isF32() && options.warn &&
      findProgram(*module, ProgramKind::Loss))
    llvm::errs()
        << "note: weights are stored in fewer bits than training needs "
           "(`generate.weights`): this build does not train"
        << (weights->isBF16() && cache->isBF16()
                ? "; `generate.cache` is bf16, too\n"
                : "\n");
  isOfSeveralTexts =
      static_cast<bool>(findProgram(*module, ProgramKind::ForwardBatch));
  if (options.emit != Emit::Schedule)
    KernelTarget::addFaster(targets, {*precision, *weights, *cache});
  if (device) {
    // A program has code for processors beside it.
    if (!isProgram())
      targets.clear();
    targets.insert(targets.begin(), device);
  }
  return BuildStatus::Ok;
}

BuildStatus Builder::scheduleVariants() {
  for (size_t i = 1; i != targets.size(); ++i)
    modules.push_back(module->clone());
  modules.push_back(std::move(module));
  for (auto [model, target] : llvm::zip_equal(modules, targets))
    if (mlir::failed(prepare(*model, *target)))
      return bug("cannot transform the model");
  noteWholeSequence();
  watch.stage("transforms");
  for (auto [model, target] : llvm::zip_equal(modules, targets)) {
    if (mlir::failed(scheduleModel(*model, *target)))
      return bug("cannot schedule the model");
    if (std::string why = target->whyNot(*model); !why.empty())
      return fail(why, BuildStatus::InputError);
    variants.push_back({*model, *target});
  }
  watch.stage("schedule");
  return BuildStatus::Ok;
}

void Builder::noteWholeSequence() const {
  mlir::ModuleOp transformed = *modules.front();
  auto why =
      transformed->getAttrOfType<mlir::StringAttr>(wholeSequenceAttribute);
  mlir::func::FuncOp forward = findProgram(transformed, ProgramKind::Forward);
  if (why && options.warn && generates(forward))
    llvm::errs() << "note: generation evaluates the whole sequence for every "
                    "token: "
                 << why.getValue()
                 << (isOfSeveralTexts
                         ? "; texts come one after the other, whatever "
                           "`generate.batch` is\n"
                         : "\n");
}

BuildStatus Builder::writeModule(mlir::ModuleOp written) const {
  return writeText(output, [&](llvm::raw_pwrite_stream &os) {
    written.print(os);
    return llvm::Error::success();
  });
}

BuildStatus Builder::removeEarlierForms() const {
  std::string path = formsPath(output);
  if (!llvm::sys::fs::is_regular_file(path))
    return BuildStatus::Ok;
  if (std::error_code error = llvm::sys::fs::remove(path))
    return fail("cannot remove " + path +
                    ", which is of an earlier build: " + error.message(),
                BuildStatus::InputError);
  return BuildStatus::Ok;
}

BuildStatus Builder::writeDeviceAssembly() {
  mlir::FailureOr<std::vector<DeviceImage>> images =
      emitDeviceCode(variants.front());
  if (mlir::failed(images))
    return bug("cannot generate code");
  watch.stage("kernels");
  // What an assembler takes at once is a file: the kernels that all GPUs run,
  // and beside them the forms of some for one kind. Those of an earlier build
  // are none of these.
  if (BuildStatus status = removeEarlierForms(); status != BuildStatus::Ok)
    return status;
  for (const DeviceImage &image : *images) {
    std::string path =
        image.part == TFM_PART_FORMS ? formsPath(output) : output;
    if (path.empty()) {
      llvm::errs() << "tfmc: note: what GPUs of compute capability 9.0 run "
                      "instead of some of these kernels is left out: name a "
                      "file with -o, and it is written beside that\n";
      continue;
    }
    BuildStatus written = writeText(path, [&](llvm::raw_pwrite_stream &os) {
      os << llvm::StringRef(image.bytes).rtrim('\0');
      return llvm::Error::success();
    });
    if (written != BuildStatus::Ok)
      return written;
  }
  return BuildStatus::Ok;
}

BuildStatus Builder::writeCode() {
  llvm::LLVMContext llvmContext;
  const KernelTarget &target = *targets[device ? 1 : 0];
  mlir::FailureOr<ModelCode> code =
      emitCode(variants, llvmContext, /*assembled=*/isProgram());
  if (mlir::failed(code) ||
      (!isDescribedApart() && mlir::failed(describe(*code, *code->module))))
    return bug("cannot generate code");
  watch.stage("kernels");
  if (options.emit == Emit::Llvm)
    return writeText(output, [&](llvm::raw_pwrite_stream &os) {
      code->module->print(os, nullptr);
      return llvm::Error::success();
    });
  if (options.emit == Emit::Asm)
    return writeText(output, [&](llvm::raw_pwrite_stream &os) {
      return target.writeAssembly(*code->module, os);
    });
  return writeObjects(*code, target);
}

BuildStatus Builder::writeObjects(ModelCode &code, const KernelTarget &target) {
  llvm::Module &functions = *code.module;
  if (options.emit == Emit::Obj) {
    leaveOut(functions, code.variants);
    BuildStatus written = writeText(output, [&](llvm::raw_pwrite_stream &os) {
      return target.writeObject(functions, os);
    });
    watch.stage("machine code");
    return written;
  }
  llvm::Expected<std::vector<llvm::SmallString<0>>> objects =
      tfm::writeObjects(functions, target);
  if (!objects)
    return fail(llvm::toString(objects.takeError()), BuildStatus::Bug);
  watch.stage("machine code");
  llvm::Module description("description", functions.getContext());
  description.setTargetTriple(functions.getTargetTriple());
  if (mlir::failed(describe(code, description)))
    return bug("cannot generate code");
  if (isProgram())
    leaveOut(description, code.variants);
  llvm::raw_svector_ostream os(objects->emplace_back());
  if (llvm::Error error = target.writeObject(description, os))
    return fail(llvm::toString(std::move(error)), BuildStatus::Bug);
  watch.stage(device ? "images" : "descriptor");
  if (llvm::Error error =
          link({objects->begin(), objects->end()}, output, linked()))
    return fail("cannot write " + output + ": " +
                    llvm::toString(std::move(error)),
                BuildStatus::InputError);
  watch.stage("link");
  return BuildStatus::Ok;
}

BuildStatus Builder::build() {
  if (BuildStatus status = chooseTargets(); status != BuildStatus::Ok)
    return status;
  if (options.emit == Emit::Ast)
    return buildAst(options, sources, diagnostics);
  if (BuildStatus status = loadModule(); status != BuildStatus::Ok)
    return status;
  if (options.emit == Emit::Tfm)
    return writeModule(*module);
  if (BuildStatus status = readRecipe(); status != BuildStatus::Ok)
    return status;
  if (BuildStatus status = scheduleVariants(); status != BuildStatus::Ok)
    return status;
  if (options.emit == Emit::Schedule)
    return writeModule(*modules.front());
  return isDeviceAssembly() ? writeDeviceAssembly() : writeCode();
}

BuildStatus tfm::build(const BuildOptions &options) {
  return Builder(options).build();
}
