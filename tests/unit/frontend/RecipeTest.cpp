//===- RecipeTest.cpp - what files without entries are filled with --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The JSON that the frontend writes, beside runtime/recipe_table.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/recipe.h"
#include "compiler/frontend/Frontend.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "tests/unit/CompleteRecipe.h"
#include "gtest/gtest.h"

using namespace tfm;

namespace {

/// The recipe of a small model with these blocks.
nlohmann::json recipeOf(const std::string &blocks) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  SourceManager sources;
  Diagnostics diags(sources);
  auto module = compileTextToTfm(context, sources, "recipe.tfm",
                                 "model M(vocab = 256, width = 8) {\n"
                                 "  wte = Embedding(vocab, width)\n"
                                 "  forward(tokens: int[B, T]) -> [B, T, "
                                 "vocab] { return wte(tokens) @ wte.weight.T }"
                                 "\n}\n" +
                                     blocks,
                                 FrontendOptions(), diags);
  for (const Diagnostic &d : diags.errors())
    ADD_FAILURE() << d.message << " in\n" << blocks;
  if (!module)
    return {};
  llvm::StringRef text =
      (*module)->getAttrOfType<mlir::StringAttr>("tfm.recipe").getValue();
  parseRecipe(text); // throws where it is not as the table has it
  return nlohmann::json::parse(text.str());
}

/// The members of `object`, the form `path` of a file that says nothing but its
/// kind, are those of the table, with its defaults.
void expectDefaults(const nlohmann::json &object, const std::string &path,
                    const std::set<std::string> &said = {}) {
  SCOPED_TRACE(path + " " + object.value("kind", ""));
  std::set<std::string> keys;
  for (const recipe::Field &field : recipe::fields) {
    if (field.parent() != path)
      continue;
    std::string key(field.key());
    keys.insert(key);
    const recipe::Default &value =
        recipe::writtenFor(field, object.value("kind", ""));
    bool isWritten =
        !field.isOptional &&
        !(std::holds_alternative<std::monostate>(value) && field.without);
    EXPECT_EQ(object.contains(key), isWritten) << key;
    if (!isWritten || key == "kind" || field.isComputed ||
        field.type == recipe::Type::Form || said.contains(key))
      continue;
    EXPECT_EQ(object.at(key), test::jsonOf(field, value)) << key;
  }
  for (const auto &[key, value] : object.items())
    EXPECT_TRUE(keys.contains(key)) << key << " is not in the table";
}

TEST(Recipe, HasTheTablesDefaults) {
  nlohmann::json recipe = recipeOf("train { steps = 3 }");
  expectDefaults(recipe.at("train"), "train", {"steps"});
  expectDefaults(recipe.at("train").at("loss"), "train.loss");
  expectDefaults(recipe.at("train").at("optimizer"), "train.optimizer");
  expectDefaults(recipe.at("train").at("schedule"), "train.schedule");
  expectDefaults(recipe.at("train").at("checkpoint"), "train.checkpoint");
  expectDefaults(recipe.at("generate"), "generate");
  for (const char *none : {"validate", "sample", "stop"})
    EXPECT_TRUE(recipe.at("train").at(none).is_null()) << none;
  for (const char *none : {"data", "tokenizer"})
    EXPECT_TRUE(recipe.at(none).is_null()) << none;
}

TEST(Recipe, HasThePrecisionOfTheFile) {
  for (const char *word : {"f32", "bf16", "\"bf16\""})
    EXPECT_EQ(recipeOf(std::string("train { steps = 3, precision = ") + word +
                       " }")["train"]["precision"],
              llvm::StringRef(word).trim('"').str());
}

TEST(Recipe, HasTheTablesDefaultsOfEveryKind) {
  for (const char *form : {"loss", "optimizer", "schedule"}) {
    std::string path = std::string("train.") + form;
    llvm::SmallVector<llvm::StringRef> kinds;
    llvm::StringRef(recipe::find(path + ".kind")->words).split(kinds, ' ');
    for (llvm::StringRef kind : kinds)
      // One is no kind to write, and the model's output is no mean of squares.
      if (kind != "own" && kind != "mse")
        expectDefaults(recipeOf("train { steps = 3, " + std::string(form) +
                                " = " + kind.str() + " }")
                           .at("train")
                           .at(form),
                       path);
  }
  nlohmann::json train =
      recipeOf("train {\n steps = 3\n validate = every(1000)\n sample = "
               "every(1000)\n stop = early\n}\ndata sums\n")
          .at("train");
  for (const char *form : {"validate", "sample", "stop"})
    expectDefaults(train.at(form), std::string("train.") + form);
}

TEST(Recipe, HasTheTablesDefaultsOfData) {
  for (const char *kind : {"sums", "products"})
    expectDefaults(recipeOf(std::string("data ") + kind).at("data"), "data");
  for (const char *kind : {"text", "lines", "json", "tokens", "pairs"})
    expectDefaults(
        recipeOf(std::string("data ") + kind + "(\"a.txt\")").at("data"),
        "data", {"files"});
  nlohmann::json bytes = recipeOf("tokenizer bytes").at("tokenizer");
  expectDefaults(bytes, "tokenizer");
  EXPECT_EQ(bytes.at("size"), 256);
}

} // namespace
