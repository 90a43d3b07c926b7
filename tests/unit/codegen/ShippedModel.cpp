//===- ShippedModel.cpp - models/*.tfm, ready for code generation ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/codegen/ShippedModel.h"

#include "compiler/frontend/Diagnostics.h"
#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/Source.h"

#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

using namespace tfm;

static const std::filesystem::path models = TFM_MODELS;

ShippedModel::ShippedModel(const std::string &name, const Defines &defines,
                           const KernelTarget &target) {
  FrontendOptions options;
  options.defines = defines;
  SourceManager sources;
  Diagnostics diags(sources);
  module =
      compileToTfm(context, sources, (models / name).string(), options, diags);
  std::string errors;
  llvm::raw_string_ostream stream(errors);
  diags.print(stream);
  EXPECT_TRUE(module) << errors;
  if (module)
    EXPECT_TRUE(mlir::succeeded(prepare(*module, target)));
}

std::vector<std::string> tfm::shippedModels() {
  std::vector<std::string> names;
  for (const char *folder : {"", "cs444"})
    for (const auto &entry :
         std::filesystem::directory_iterator(models / folder)) {
      if (entry.path().extension() != ".tfm")
        continue;
      std::ifstream file(entry.path());
      std::string line;
      while (std::getline(file, line))
        if (line.starts_with("model ")) {
          names.push_back(std::filesystem::relative(entry.path(), models));
          break;
        }
    }
  std::sort(names.begin(), names.end());
  return names;
}

std::string tfm::testName(const std::string &model) {
  std::string name = model.substr(0, model.rfind('.'));
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}
