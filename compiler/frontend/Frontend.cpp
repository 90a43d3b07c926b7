//===- Frontend.cpp - from a .tfm file to the tfm dialect -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/Frontend.h"

#include "compiler/frontend/elaborate/Elaborator.h"
#include "compiler/frontend/elaborate/Emitter.h"
#include "compiler/frontend/syntax/Parser.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/support/shell_word.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace tfm;
using llvm::StringRef;

static mlir::OwningOpRef<mlir::ModuleOp>
compile(mlir::MLIRContext &context, SourceManager &sources, uint32_t file,
        StringRef path, const FrontendOptions &options, Diagnostics &diags) {
  Emitter emitter(context);
  Compilation compilation;
  Elaborator elaborator(sources, diags, options, emitter, compilation);
  if (!elaborator.run(file, path))
    return nullptr;
  std::string problem;
  mlir::OwningOpRef<mlir::ModuleOp> module = emitter.finish(problem);
  if (!module)
    diags
        .error(bugCode, {file, 0, 0},
               "the compiler made an invalid program of this file; please "
               "report it with the file")
        .note(problem);
  return module;
}

/// Loads the main file; reports E0910.
static std::optional<uint32_t> load(SourceManager &sources, StringRef path,
                                    Diagnostics &diags) {
  llvm::Expected<uint32_t> file = sources.load(path);
  if (file)
    return *file;
  std::string why = llvm::toString(file.takeError());
  Diagnostic &d = diags.error(910, {sources.add(path, ""), 0, 0},
                              "cannot read `" + path + "`: " + why);
  if (llvm::sys::fs::is_directory(path) ||
      (path.ends_with(".gguf") && llvm::sys::fs::exists(path)))
    d.help("of a folder of the hub, or a .gguf file, `tfmc import " +
           shellWord(path) + " -o model.tfm` writes the model's file");
  else if (path.ends_with(".safetensors") && llvm::sys::fs::exists(path)) {
    StringRef folder = llvm::sys::path::parent_path(path);
    folder = folder.empty() ? "." : folder;
    d.help("of weights the folder is named: `tfmc run " + shellWord(folder) +
           "`, and `tfmc import " + shellWord(folder) +
           " -o model.tfm` writes the model's file");
  } else if (std::string full = (path + ".tfm").str();
             llvm::sys::fs::exists(full))
    d.help("did you mean `" + full + "`?");
  return std::nullopt;
}

mlir::OwningOpRef<mlir::ModuleOp>
tfm::compileToTfm(mlir::MLIRContext &context, SourceManager &sources,
                  StringRef path, const FrontendOptions &options,
                  Diagnostics &diags) {
  std::optional<uint32_t> file = load(sources, path, diags);
  if (!file)
    return nullptr;
  return compile(context, sources, *file, path, options, diags);
}

mlir::OwningOpRef<mlir::ModuleOp>
tfm::compileTextToTfm(mlir::MLIRContext &context, SourceManager &sources,
                      StringRef name, StringRef text,
                      const FrontendOptions &options, Diagnostics &diags) {
  return compile(context, sources, sources.add(name, text), name, options,
                 diags);
}

//===----------------------------------------------------------------------===//
// Checking
//===----------------------------------------------------------------------===//

/// Whether a file is there to be imported: it has neither a model nor a recipe.
static bool isLibrary(const ast::File &file) {
  return !file.model && file.blocks.empty() &&
         !(file.modules.empty() && file.functions.empty() &&
           file.constants.empty()) &&
         llvm::none_of(file.modules,
                       [](const auto &module) { return module->isModel; });
}

static bool isDefined(const FrontendOptions &options, StringRef name) {
  return llvm::any_of(options.defines,
                      [&](const auto &define) { return define.first == name; });
}

/// Whether every input has a shape, or may be left out.
static bool hasShapes(const ast::Method &method) {
  return llvm::all_of(method.parameters, [](const ast::Parameter &input) {
    return input.type.hasShape || input.value;
  });
}

/// `Block(width, heads)`, where one of its hyperparameters has no value or one
/// of its inputs no shape; else empty.
static std::string missingValues(const ast::Module &module,
                                 const FrontendOptions &options) {
  bool isMissing = false;
  std::string names;
  for (const ast::Parameter &parameter : module.parameters) {
    if (parameter.value || isDefined(options, parameter.name))
      continue;
    isMissing = true;
    names += (names.empty() ? "" : ", ") + parameter.name.str();
  }
  for (const ast::Member &member : module.members)
    if (member.method && member.name == "forward")
      isMissing |= !hasShapes(*member.method);
  return isMissing ? module.name.str() + "(" + names + ")" : std::string();
}

/// Reports overrides that none of the modules has a hyperparameter for.
static void reportUnusedDefines(const ast::File &file, SourceManager &sources,
                                const FrontendOptions &options,
                                Diagnostics &diags) {
  std::vector<std::string> names;
  for (const auto &module : file.modules)
    for (const ast::Parameter &parameter : module->parameters)
      names.push_back(parameter.name.str());
  for (const auto &[name, value] : options.defines) {
    bool isDim = name.size() == 1 && llvm::isUpper(name[0]);
    if (isDim || llvm::is_contained(names, name))
      continue;
    uint32_t define = sources.addDefine(name + "=" + value);
    Diagnostic &d = diags.error(
        903, {define, 0, static_cast<uint32_t>(name.size())},
        "no module of this file has a hyperparameter `" + name + "`");
    std::string guess = closestName(name, names);
    if (!guess.empty())
      d.help("did you mean `" + guess + "`?");
  }
}

void tfm::checkFile(mlir::MLIRContext &context, SourceManager &sources,
                    StringRef path, const FrontendOptions &options,
                    Diagnostics &diags, std::vector<std::string> &unchecked) {
  std::optional<uint32_t> file = load(sources, path, diags);
  if (!file)
    return;
  Diagnostics syntax(sources);
  std::unique_ptr<ast::File> parsed = parseFile(sources, *file, syntax);
  if (syntax.hasErrors() || !isLibrary(*parsed)) {
    compile(context, sources, *file, path, options, diags);
    return;
  }
  FrontendOptions forward = options;
  forward.functions = {FunctionRequest()};
  // The empty name: what holds without any of them.
  std::vector<std::string> names = {""};
  for (const auto &module : parsed->modules) {
    std::string missing = missingValues(*module, options);
    if (missing.empty())
      names.push_back(module->name.str());
    else
      unchecked.push_back(missing);
  }
  for (const auto &function : parsed->functions) {
    if (hasShapes(*function))
      names.push_back(function->name.str());
    else
      unchecked.push_back(function->name.str());
  }
  Compilation compilation;
  for (const std::string &name : names) {
    Diagnostics own(sources);
    Emitter emitter(context);
    Elaborator(sources, own, forward, emitter, compilation)
        .check(*file, path, name);
    diags.add(own);
    if (diags.isFull() || compilation.stepsLeft == 0 ||
        (name.empty() && diags.hasErrors()))
      return;
  }
  reportUnusedDefines(*parsed, sources, options, diags);
}
