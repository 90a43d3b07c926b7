//===- ZooTest.cpp - tests of other model families ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Other families, written from their papers: the number of parameters and the
// names of tensors are those of the published checkpoints.

#include "compiler/dialect/TfmDialect.h"
#include "compiler/frontend/Frontend.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"

#include <set>

using namespace tfm;

namespace {

struct Family {
  std::string file;
  std::vector<std::pair<std::string, std::string>> defines;
  int64_t parameters;
  /// Some tensors that have to be there.
  std::vector<std::string> names;
};

void PrintTo(const Family &family, std::ostream *os) { *os << family.file; }

class Zoo : public testing::TestWithParam<Family> {};

TEST_P(Zoo, HasThePublishedParameters) {
  const Family &family = GetParam();
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  SourceManager sources;
  Diagnostics diags(sources);
  FrontendOptions options;
  options.defines = family.defines;
  auto module = compileToTfm(context, sources, family.file, options, diags);
  ASSERT_TRUE(module) << diags.str();
  int64_t total = 0;
  std::set<std::string> names;
  for (ParamOp param : module->getOps<ParamOp>()) {
    total += param.getTensorType().getNumElements();
    for (const std::string &name : param.getLayerNames())
      names.insert(name);
    if (auto aliases = param.getAliases())
      for (mlir::Attribute alias : *aliases)
        names.insert(llvm::cast<mlir::StringAttr>(alias).getValue().str());
  }
  EXPECT_EQ(total, family.parameters);
  for (const std::string &name : family.names)
    EXPECT_TRUE(names.count(name)) << name;
}

const std::string models = TFM_FIXTURES "/models/";

INSTANTIATE_TEST_SUITE_P(
    Families, Zoo,
    testing::Values(
        Family{TFM_MODELS "/llama.tfm",
               {},
               6738415616,
               {"model.layers.31.self_attn.q_proj.weight", "lm_head.weight"}},
        Family{TFM_MODELS "/llama.tfm",
               {{"vocab", "128256"},
                {"hidden", "14336"},
                {"kv_heads", "8"},
                {"base", "500000.0"},
                {"context", "8192"}},
               8030261248,
               {"model.norm.weight"}},
        Family{models + "mistral.tfm",
               {},
               7241732096,
               {"model.layers.0.mlp.gate_proj.weight"}},
        Family{models + "qwen2.tfm",
               {},
               494032768,
               {"model.layers.23.self_attn.k_proj.bias", "lm_head.weight",
                "model.embed_tokens.weight"}},
        Family{models + "gemma2.tfm",
               {},
               2614341888,
               {"model.layers.0.pre_feedforward_layernorm.weight",
                "model.layers.25.post_feedforward_layernorm.weight"}},
        Family{models + "neox.tfm",
               {},
               20554567680,
               {"gpt_neox.layers.43.attention.query_key_value.bias",
                "embed_out.weight"}},
        Family{models + "opt.tfm",
               {},
               125239296,
               {"model.decoder.embed_positions.weight",
                "model.decoder.layers.11.self_attn.out_proj.bias"}},
        Family{models + "bert.tfm",
               {},
               109482240,
               {"embeddings.LayerNorm.bias",
                "encoder.layer.11.attention.self.query.weight",
                "encoder.layer.0.attention.output.LayerNorm.weight",
                "pooler.dense.weight"}},
        Family{models + "t5.tfm",
               {},
               60506624,
               {"shared.weight", "encoder.embed_tokens.weight",
                "encoder.block.0.layer.0.SelfAttention."
                "relative_attention_bias.weight",
                "decoder.block.5.layer.1.EncDecAttention.q.weight",
                "decoder.block.5.layer.2.DenseReluDense.wo.weight"}}));

// The guide's whole files compile.
TEST(Guide, ExamplesCompile) {
  auto buffer = llvm::MemoryBuffer::getFile(TFM_DOCS "/language.md");
  ASSERT_TRUE(bool(buffer));
  llvm::StringRef text = (*buffer)->getBuffer();
  int compiled = 0;
  while (true) {
    size_t at = text.find("```tfm\n");
    if (at == llvm::StringRef::npos)
      break;
    text = text.drop_front(at + 7);
    std::string block = text.take_front(text.find("```")).str();
    // A module alone gets a model around it.
    auto around = [&](const char *module, const char *instance,
                      const char *call) {
      if (llvm::StringRef(block).contains(std::string("module ") + module))
        block += llvm::formatv("model Around(width = 8) {{\n  inner = {0}\n"
                               "  forward(x: [B, T, width]) -> [B, T, width] "
                               "{{\n    return {1}\n  }\n}\n",
                               instance, call)
                     .str();
    };
    around("Norm(", "Norm(width)", "inner(x)");
    around("AlibiAttention(", "AlibiAttention(width, 2, 64)", "inner(x)");
    around("CloserRope(", "CloserRope(width, 4.0)",
           "rearrange(inner(rearrange(x, \"B T d -> B 1 T d\"), "
           "positions(int(mean(x)[:, :, 0]))), \"B 1 T d -> B T d\")");
    if (block.find("model ") == std::string::npos)
      continue;
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    SourceManager sources;
    Diagnostics diags(sources);
    auto module =
        compileTextToTfm(context, sources, "language.md", block, {}, diags);
    EXPECT_TRUE(module) << diags.str();
    ++compiled;
  }
  EXPECT_GE(compiled, 5);
}

} // namespace
