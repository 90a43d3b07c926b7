//===- ModelFactsTest.cpp - what a graph says of itself -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/transforms/ModelFacts.h"

#include "compiler/dialect/IntegerRange.h"
#include "compiler/frontend/Frontend.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace tfm;

namespace {

using Defines = std::vector<std::pair<std::string, std::string>>;

std::string factsOfFile(const std::string &file, const Defines &defines = {}) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  SourceManager sources;
  Diagnostics diags(sources);
  FrontendOptions options;
  options.defines = defines;
  auto module = compileToTfm(context, sources, file, options, diags);
  EXPECT_TRUE(module) << diags.str();
  return module ? modelFacts(*module) : "";
}

/// The facts of a text.
llvm::json::Object factsOfText(const std::string &text) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  SourceManager sources;
  Diagnostics diags(sources);
  auto module = compileTextToTfm(context, sources, "mix.tfm", text,
                                 FrontendOptions(), diags);
  EXPECT_TRUE(module) << diags.str();
  if (!module)
    return {};
  return *llvm::cantFail(llvm::json::parse(modelFacts(*module))).getAsObject();
}

/// The facts of a model of 4 heads over 16 tokens with a method `mix` of its
/// one layer.
llvm::json::Object factsOf(const std::string &mix) {
  return factsOfText(
      "model Mix(vocab = 11, context = 16, width = 8, heads = 4) {\n"
      "  emb = Embedding(vocab, width)\n"
      "  out = Linear(width, vocab, bias = false)\n"
      "  forward(tokens: int[B, T]) -> [B, T, vocab] {\n"
      "    return out(mix(emb(tokens), positions(tokens)))\n"
      "  }\n"
      "  mix(x: [B, T, width], at: int[B, T]) -> [B, T, width] {\n"
      "    q = rearrange(x, \"B T (heads d) -> B heads T d\")\n" +
      mix + "\n  }\n}\n");
}

const std::string join =
    "\n    return rearrange(y, \"B heads T d -> B T (heads d)\")";
const std::string zoo = TFM_FIXTURES "/models/";

} // namespace

TEST(ModelFacts, OfPublishedFamilies) {
  EXPECT_EQ(factsOfFile(TFM_MODELS "/gpt2.tfm", {{"layers", "2"}}),
            R"({"activation":["gelu_tanh"],"attentions":2,"causal":[true],)"
            R"("context":1024,"eps":[1.0000000000000001e-05],)"
            R"("head_width":[64],"heads":[12],"kv_heads":[12],)"
            R"("logit_cap":[null],)"
            R"("names":{"heads":"heads","kv_heads":"heads"},)"
            R"("norm_first":[true],"parallel":[false],"scale":[0.125],)"
            R"("softcap":[null],"tied":true,"tokens":50257,"window":[null]})");
  EXPECT_EQ(factsOfFile(TFM_MODELS "/llama.tfm", {{"kv_heads", "8"}}),
            R"({"activation":["silu"],"attentions":32,"causal":[true],)"
            R"("context":4096,"eps":[1.0000000000000001e-05],)"
            R"("head_width":[128],"heads":[32],"kv_heads":[8],)"
            R"("logit_cap":[null],)"
            R"("names":{"heads":"heads","kv_heads":"kv_heads"},)"
            R"("norm_first":[true],"parallel":[false],)"
            R"("rope_base":[10000],"rope_dims":[128],)"
            R"("scale":[0.088388347648318433],"softcap":[null],)"
            R"("tied":false,"tokens":32000,"window":[null]})");
  // A quarter of each head rotates, and MLPs are beside attention.
  EXPECT_EQ(factsOfFile(zoo + "neox.tfm"),
            R"({"activation":["gelu"],"attentions":44,"causal":[true],)"
            R"("context":2048,"eps":[1.0000000000000001e-05],)"
            R"("head_width":[96],"heads":[64],"kv_heads":[64],)"
            R"("logit_cap":[null],)"
            R"("names":{"heads":"heads","kv_heads":"heads"},)"
            R"("norm_first":[true],"parallel":[true],)"
            R"("rope_base":[10000],"rope_dims":[24],)"
            R"("scale":[0.10206207261596577],"softcap":[null],)"
            R"("tied":false,"tokens":50432,"window":[null]})");
  // Every second layer has a window; the cap of the logits is no activation.
  EXPECT_EQ(factsOfFile(zoo + "gemma2.tfm"),
            R"({"activation":["gelu_tanh"],"attentions":26,"causal":[true],)"
            R"("context":8192,"eps":[9.9999999999999995e-07],)"
            R"("head_width":[256],"heads":[8],"kv_heads":[4],)"
            R"("logit_cap":[30],)"
            R"("names":{"heads":"heads","kv_heads":"kv_heads"},)"
            R"("norm_first":[true],"parallel":[false],)"
            R"("rope_base":[10000],"rope_dims":[256],"scale":[0.0625],)"
            R"("softcap":[50],"tied":true,"tokens":256000,"window":[4096],)"
            R"("windowed":[[true,false,true,false,true,false,true,false,)"
            R"(true,false,true,false,true,false,true,false,true,false,)"
            R"(true,false,true,false,true,false,true,false]]})");
  // A window as long as the context is none.
  EXPECT_NE(factsOfFile(zoo + "mistral.tfm").find(R"("window":[4096])"),
            std::string::npos);
  EXPECT_NE(factsOfFile(zoo + "mistral.tfm", {{"context", "4096"}})
                .find(R"("window":[null])"),
            std::string::npos);
}

TEST(ModelFacts, SeveralValues) {
  llvm::json::Object facts =
      factsOf("    x = rms_normalize(normalize(x, 0.25), 0.5)\n"
              "    y = attention(rope(q, at), rope(q, at, base = 500.0), "
              "relu(gelu(silu(q))), causal = true, window = 3)\n"
              "    y = attention(y, y, y, causal = true, window = 5)" +
              join);
  EXPECT_EQ(*facts.get("eps"), llvm::json::Value({0.25, 0.5}));
  EXPECT_EQ(*facts.get("window"), llvm::json::Value({3, 5}));
  EXPECT_EQ(*facts.get("rope_base"), llvm::json::Value({10000.0, 500.0}));
  EXPECT_EQ(*facts.get("activation"),
            llvm::json::Value({"silu", "gelu", "relu"}));
  EXPECT_EQ(facts.getInteger("attentions"), 2);
}

namespace {

/// What a model of four layers may do in other ways, in the language.
struct Layers {
  std::string layer = "    x = x + mix(a(x), at)\n"
                      "    return x + down(gelu(b(x)))\n";
  std::string attention = "attention(q, k, v, causal = true)";
  std::string logits = "y";
};

llvm::json::Object factsOf(const Layers &parts) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  SourceManager sources;
  Diagnostics diags(sources);
  auto module = compileTextToTfm(
      context, sources, "layers.tfm",
      "model Layers(vocab = 11, context = 16, width = 8) {\n"
      "  emb = Embedding(vocab, width)\n"
      "  layers = repeat(4) as i Layer(width, i + 1)\n"
      "  out = Linear(width, vocab)\n"
      "  forward(tokens: int[B, T]) -> [B, T, vocab] {\n"
      "    y = out(layers(emb(tokens), positions(tokens)))\n"
      "    return " +
          parts.logits +
          "\n  }\n}\n"
          "module Layer(width, number) {\n"
          "  a = LayerNorm(width)\n"
          "  b = LayerNorm(width)\n"
          "  qkv = Linear(width, 3 * width)\n"
          "  down = Linear(width, width)\n"
          "  mix(x: [B, T, width], at: int[B, T]) -> [B, T, width] {\n"
          "    qkvs = rearrange(qkv(x), \"B T (heads d) -> B heads T d\", "
          "heads = 6)\n"
          "    q, k, v = split(qkvs, 3, axis = 1)\n"
          "    y = " +
          parts.attention +
          "\n    return rearrange(y, \"B heads T d -> B T (heads d)\")\n  }\n"
          "  forward(x: [B, T, width], at: int[B, T]) -> [B, T, width] {\n" +
          parts.layer + "  }\n}\n",
      FrontendOptions(), diags);
  EXPECT_TRUE(module) << diags.str();
  if (!module)
    return {};
  return *llvm::cantFail(llvm::json::parse(modelFacts(*module))).getAsObject();
}

llvm::json::Value one(llvm::json::Value value) {
  return llvm::json::Array{std::move(value)};
}

/// Which ids an array may hold, `1 to 10` or `0 to 2 and -1`; empty where any.
std::string idsOf(const llvm::json::Object &facts, const char *name) {
  const llvm::json::Object &input = *facts.getObject("inputs")->getObject(name);
  const llvm::json::Array *ids = input.getArray("ids");
  std::string text;
  if (ids)
    text = std::to_string(*ids->front().getAsInteger()) + " to " +
           std::to_string(*ids->back().getAsInteger());
  if (auto ignored = input.getInteger("ignored"))
    text += " and " + std::to_string(*ignored);
  return text;
}

// Of arrays each input has bounds of its own: none are narrower for another
// one's table.
TEST(ModelFacts, BoundsTheIdsOfEachArray) {
  llvm::json::Object facts = factsOfText(
      "model M(vocab = 11, kinds = 5, classes = 3) {\n"
      "  emb  = Embedding(vocab, classes)\n"
      "  kind = Embedding(kinds, classes)\n"
      "  both = Embedding(30, classes)\n"
      "  forward(tokens: int[B, T], half: int[B, T], more: int[B, T],\n"
      "          year: int[B, T], x: [B, T, classes]) -> [B, T, classes] {\n"
      "    y = emb(tokens) + kind(half / 2) + both(tokens + more)\n"
      "    return y + x * rearrange(float(year), \"B T -> B T 1\")\n"
      "  }\n"
      "}\n"
      "data arrays(\"a.safetensors\")\n"
      "train { batch = 2, sequence = 4, steps = 1 }\n");
  EXPECT_EQ(facts.getInteger("tokens"), 11);
  EXPECT_EQ(idsOf(facts, "tokens"), "0 to 10");
  EXPECT_EQ(idsOf(facts, "half"), "-1 to 9"); // quotients go towards 0
  EXPECT_EQ(idsOf(facts, "more"), "0 to 19"); // beside any token
  EXPECT_EQ(idsOf(facts, "targets"), "0 to 2");
  EXPECT_EQ(idsOf(facts, "year"), "");
  EXPECT_EQ(idsOf(facts, "x"), "");
}

// They need not begin at 0.
TEST(ModelFacts, BoundsIdsThatAreComputed) {
  llvm::json::Object facts = factsOfText(
      "model M(width = 3) {\n"
      "  e = Embedding(10, width)\n"
      "  forward(one: int[B], less: int[B], least: int[B], any: int[B],\n"
      "          far: int[B]) -> [B, width] {\n"
      "    return e(one - 1) + e(0 - less) + e(max(least, 0)) + e(any % 10) +\n"
      "           e(far - 1000)\n"
      "  }\n"
      "}\n"
      "data arrays(\"a.safetensors\")\n"
      "train { batch = 2, steps = 1 }\n");
  EXPECT_EQ(idsOf(facts, "one"), "1 to 10");
  EXPECT_EQ(idsOf(facts, "less"), "-9 to 0");
  EXPECT_EQ(idsOf(facts, "least"), "-2147483648 to 9");
  EXPECT_EQ(idsOf(facts, "any"), "");
  EXPECT_EQ(idsOf(facts, "far"), "0 to -1"); // none is found
}

// A target that a loss leaves out needs no row there, but in a table.
TEST(ModelFacts, BoundsTargetsThatAreLeftOut) {
  auto boundsOf = [](const std::string &loss, const std::string &recipe = "") {
    return idsOf(factsOfText("model M(width = 3) {\n"
                             "  e = Embedding(5, width)\n"
                             "  forward(x: [B, width]) -> [B, width] "
                             "{ return x * 2.0 }\n" +
                             loss +
                             "}\n"
                             "data arrays(\"a.safetensors\")\n"
                             "train { batch = 2, steps = 1" +
                             recipe + " }\n"),
                 loss.empty() ? "targets" : "y");
  };
  auto lossOf = [](const std::string &value) {
    return "  loss(x: [B, width], y: int[B]) -> [B] { return " + value + " }\n";
  };
  EXPECT_EQ(boundsOf("", ", loss = cross_entropy(ignore = -100)"),
            "0 to 2 and -100");
  EXPECT_EQ(boundsOf("", ", loss = cross_entropy(ignore = 2)"), "0 to 2");
  EXPECT_EQ(boundsOf(lossOf("cross_entropy(x, y, ignore = -1)")),
            "0 to 2 and -1");
  EXPECT_EQ(boundsOf(lossOf("cross_entropy(x, y)"),
                     ", loss = cross_entropy(ignore = -1)"),
            "0 to 2");
  EXPECT_EQ(boundsOf(lossOf("cross_entropy(x + e(max(y, 0)), y, ignore = -1)")),
            "0 to 2 and -1");
  EXPECT_EQ(boundsOf(lossOf("cross_entropy(x + e(y), y, ignore = -1)")),
            "0 to 2");
  EXPECT_EQ(boundsOf(lossOf("cross_entropy(x, y, ignore = -1) + "
                            "cross_entropy(x, y, ignore = -2)")),
            "0 to 2");
  EXPECT_EQ(boundsOf(lossOf("cross_entropy(x, y - 1, ignore = -1)")), "1 to 3");
}

} // namespace

TEST(ModelFacts, OrderOfALayer) {
  llvm::json::Object facts = factsOf(Layers());
  EXPECT_EQ(*facts.get("parallel"), one(false));
  EXPECT_EQ(*facts.get("norm_first"), one(true));
  facts =
      factsOf({.layer = "    return x + mix(a(x), at) + down(gelu(b(x)))\n"});
  EXPECT_EQ(*facts.get("parallel"), one(true));
  EXPECT_EQ(*facts.get("norm_first"), one(true));
  facts = factsOf({.layer = "    x = a(x + mix(x, at))\n"
                            "    return b(x + down(gelu(x)))\n"});
  EXPECT_EQ(*facts.get("parallel"), one(false));
  EXPECT_EQ(*facts.get("norm_first"), one(false));
  // Norms of queries and keys are not before attention.
  facts = factsOf({.layer = "    x = a(x + mix(x, at))\n"
                            "    return b(x + down(gelu(x)))\n",
                   .attention = "attention(normalize(q), normalize(k), v)"});
  EXPECT_EQ(*facts.get("norm_first"), one(false));
  EXPECT_EQ(*facts.get("causal"), one(false));
  // Some function may be an activation; and there may be none.
  EXPECT_FALSE(factsOf({.layer = "    x = x + mix(a(x), at)\n"
                                 "    return x + down(sigmoid(b(x)))\n"})
                   .get("parallel"));
  EXPECT_FALSE(
      factsOf({.layer = "    return x + mix(a(x), at)\n"}).get("parallel"));
}

TEST(ModelFacts, ScaleOfScores) {
  auto scale = [](const std::string &attention) {
    llvm::json::Object facts = factsOf({.attention = attention});
    const llvm::json::Value *found = facts.get("scale");
    return found ? *found : llvm::json::Value(nullptr);
  };
  EXPECT_EQ(scale("attention(q, k, v)"), one(1 / std::sqrt(4.0)));
  EXPECT_EQ(scale("attention(q, k, v, scale = 0.25)"), one(0.25));
  // What queries and keys are multiplied by counts, wherever that stands.
  EXPECT_EQ(scale("attention(q * 0.5, k / 4.0, v, scale = 1.0)"), one(0.125));
  EXPECT_EQ(scale("attention(rope(0.5 * q, at), rope(k, at), v, scale = 1.0)"),
            one(0.5));
  EXPECT_EQ(scale("attention(0.5 * q + 0.5 * q, k, v, scale = 1.0)"), one(0.5));
  // Another number for each layer, for some of the elements, or none.
  EXPECT_EQ(scale("attention(q / number, k, v)"), nullptr);
  EXPECT_EQ(scale("attention(q + 0.5 * q, k, v)"), nullptr);
  EXPECT_EQ(scale("attention((0.5 * q) * normalize(q), k, v)"), nullptr);
  EXPECT_EQ(scale("attention(q / sum(q, axis = 3), k, v)"), nullptr);
}

TEST(ModelFacts, CapOfLogits) {
  auto cap = [](const std::string &logits) {
    llvm::json::Object facts = factsOf({.logits = logits});
    const llvm::json::Value *found = facts.get("logit_cap");
    // A cap is no activation, whatever is.
    EXPECT_EQ(facts.get("activation") != nullptr, found != nullptr);
    return found ? *found : llvm::json::Value("unknown");
  };
  EXPECT_EQ(cap("y"), one(nullptr));
  EXPECT_EQ(cap("0.5 * y"), one(nullptr));
  EXPECT_EQ(cap("30.0 * tanh(y / 30.0)"), one(30));
  EXPECT_EQ(cap("30.0 * tanh(y / 20.0)"), "unknown");
  EXPECT_EQ(cap("30.0 * tanh(y / 30.0) + 1.0"), "unknown");
  EXPECT_EQ(cap("tanh(tanh(y))"), "unknown");
}

// What a user writes out may be anything: then nothing is said.
TEST(ModelFacts, WhatIsNotCertainIsLeftOut) {
  const std::string attend = "    y = attention(q, q, q, causal = true)" + join;
  EXPECT_TRUE(factsOf(attend).get("heads"));
  EXPECT_TRUE(factsOf("    x = normalize(x)\n" + attend).get("eps"));
  EXPECT_FALSE(factsOf("    q = q / sqrt(mean(q * q) + 0.1)\n"
                       "    q = normalize(q)\n" +
                       attend)
                   .get("eps"));
  EXPECT_TRUE(factsOf("    q = relu(q)\n" + attend).get("activation"));
  EXPECT_EQ(*factsOf("    q = relu_squared(q)\n" + attend).get("activation"),
            llvm::json::Value(llvm::json::Array{"relu_squared"}));
  EXPECT_FALSE(
      factsOf("    q = relu(q) * sigmoid(q)\n" + attend).get("activation"));
  EXPECT_FALSE(
      factsOf("    q = relu(max(q, 0.1 * q))\n" + attend).get("activation"));
  EXPECT_TRUE(factsOf("    q = rope(q, at)\n" + attend).get("rope_base"));
  EXPECT_FALSE(factsOf("    q = rope(sin(q), at)\n" + attend).get("rope_base"));
  // A mask may be a window.
  EXPECT_FALSE(factsOf("    y = attention(q, q, q, causal = true, "
                       "mask = range(T) > 3)" +
                       join)
                   .get("window"));
  // Heads as sequences of a larger batch.
  llvm::json::Object folded =
      factsOf("    q = rearrange(q, \"B heads T d -> (B heads) 1 T d\")\n"
              "    y = attention(q, q, q, causal = true)\n"
              "    return rearrange(y, \"(B heads) 1 T d -> B T (heads d)\", "
              "B = B)");
  EXPECT_FALSE(folded.get("heads"));
  EXPECT_FALSE(folded.get("kv_heads"));
  EXPECT_FALSE(folded.get("head_width"));
  EXPECT_EQ(folded.getInteger("attentions"), 1);
}

// The tables that are too small for some ids say how many there may be.
TEST(ModelFacts, TokensThatEveryTableHasRowsFor) {
  auto tokens = [](const std::string &ids) {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    SourceManager sources;
    Diagnostics diags(sources);
    auto module = compileTextToTfm(
        context, sources, "ids.tfm",
        "model Ids(width = 8) {\n"
        "  emb  = Embedding(10, width)\n"
        "  more = Embedding(30, width)\n"
        "  forward(tokens: int[B, T]) -> [B, T, 40] {\n"
        "    return (emb(" +
            ids +
            ") + more(tokens)) @ rearrange(emb.weight, \"(a r) w -> w (a r)\", "
            "a = 2)[:, 0:1] * one_hot(tokens, 40)\n  }\n}\n",
        FrontendOptions(), diags);
    EXPECT_TRUE(module) << diags.str();
    return module ? countTokens(*module) : -1;
  };
  EXPECT_EQ(tokens("tokens"), 10);
  EXPECT_EQ(tokens("tokens + 2"), 8);
  EXPECT_EQ(tokens("tokens / 2"), 20);
  EXPECT_EQ(tokens("2 * tokens"), 5);
  EXPECT_EQ(tokens("9 - tokens"), 10);
  EXPECT_EQ(tokens("min(tokens, 9)"), 30);
  EXPECT_EQ(tokens("min(max(tokens - 5, 0), 9)"), 30);
  EXPECT_EQ(tokens("where(tokens > 9, 0, tokens)"), 10);
  EXPECT_EQ(tokens("cast(tokens > 3, int)"), 30);
}

// Another input shows the batch and the context: the first of ids, or any.
TEST(ModelFacts, ModelsWithoutTokens) {
  EXPECT_EQ(factsOfFile(TFM_MODELS "/cs444/transformer_block.tfm"),
            R"({"attentions":1,"causal":[true],"context":16,)"
            R"("head_width":[2],"heads":[3],)"
            R"("kv_heads":[3],"names":{"heads":"heads","kv_heads":"heads"},)"
            R"("scale":[0.70710678118654746],"softcap":[null],)"
            R"("window":[null]})");
  auto facts = [](const std::string &inputs) {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    SourceManager sources;
    Diagnostics diags(sources);
    auto module = compileTextToTfm(
        context, sources, "ids.tfm",
        "model Ids(context = 16) {\n  emb = Embedding(11, 8)\n"
        "  norm = LayerNorm(8, eps = 0.5)\n"
        "  forward(" +
            inputs +
            ") -> [B, T, 8] {\n    return norm(emb(ids) + x)\n  }\n}\n",
        FrontendOptions(), diags);
    EXPECT_TRUE(module) << diags.str();
    return module ? modelFacts(*module) : "";
  };
  for (const char *inputs :
       {"ids: int[B, T], x: [B, T, 8]", "x: [B, T, 8], ids: int[B, T]"})
    EXPECT_EQ(facts(inputs), R"({"attentions":0,"context":16,"eps":[0.5],)"
                             R"("names":{}})");
}

// What `export --merge` adds to weights: whatever the modules are called, and
// only where nothing else reads a weight or a factor.
TEST(ModelFacts, Corrections) {
  auto corrections = [](const std::string &members, const std::string &mix) {
    const llvm::json::Object facts = factsOfText(
        "model Mix(vocab = 11, context = 16, width = 8) {\n"
        "  emb = Embedding(vocab, width)\n" +
        members +
        "\n  forward(tokens: int[B, T]) -> [B, T, vocab] {\n"
        "    x = emb(tokens)\n" +
        mix +
        "\n    return x @ emb.weight.T\n  }\n}\n"
        "module Layer(width, alpha = 16.0) {\n"
        "  up = LoRA(Conv1D(width, width), rank = 2, alpha = alpha)\n"
        "  forward(x: [B, T, width]) -> [B, T, width] {\n"
        "    return x + silu(up(x))\n  }\n}\n");
    std::string text;
    llvm::raw_string_ostream out(text);
    if (const auto *list = facts.getArray("corrections"))
      for (const llvm::json::Value &one : *list) {
        const llvm::json::Object &object = *one.getAsObject();
        out << *object.getString("weight")
            << (*object.getBoolean("transposed") ? ".T" : "");
        for (const llvm::json::Value &term : *object.getArray("terms")) {
          out << " + " << *term.getAsObject()->getNumber("scale");
          for (const llvm::json::Value &factor :
               *term.getAsObject()->getArray("factors"))
            out << " " << *factor.getAsObject()->getString("name")
                << (*factor.getAsObject()->getBoolean("transposed") ? ".T"
                                                                    : "");
        }
        out << (object.getBoolean("shared") ? " (shared)\n" : "\n");
      }
    return text;
  };
  EXPECT_EQ(corrections("  h = repeat(2) Layer(width)", "    x = h(x)"),
            "h.0.up.base.weight + 8.000000e+00 h.0.up.lora_a.T "
            "h.0.up.lora_b.T\n"
            "h.1.up.base.weight + 8.000000e+00 h.1.up.lora_a.T "
            "h.1.up.lora_b.T\n");
  // Another scale in each layer.
  EXPECT_EQ(
      corrections("  h = repeat(2) as i Layer(width, alpha = 3.0 * i + 1)",
                  "    x = h(x)"),
      "h.0.up.base.weight + 5.000000e-01 h.0.up.lora_a.T "
      "h.0.up.lora_b.T\n"
      "h.1.up.base.weight + 2.000000e+00 h.1.up.lora_a.T "
      "h.1.up.lora_b.T\n");
  EXPECT_EQ(
      corrections("  q = LoRA(LoRA(Linear(width, width), rank = 2), rank = 4)",
                  "    x = x + q(x)"),
      "q.base.base.weight.T + 4.000000e+00 q.lora_a.T q.lora_b.T + "
      "8.000000e+00 q.base.lora_a.T q.base.lora_b.T\n");
  const std::string own = "  param w: [width, width] = he\n"
                          "  param a: [width, 2] = he\n"
                          "  param b: [2, 3] = he\n"
                          "  param c: [3, width] = zeros";
  EXPECT_EQ(corrections(own, "    x = 2.0 * (x @ w) + dropout(x, 0.1) @ a @ b "
                             "@ (c / 1.0)"),
            "");
  EXPECT_EQ(corrections(own, "    x = 2.0 * (x @ w) + (dropout(x, 0.1) @ a / "
                             "4.0) @ b @ c"),
            "w + 1.250000e-01 a b c\n");
  // Of another input, and beside a second weight.
  EXPECT_EQ(corrections(own, "    x = x @ w + silu(x) @ a @ b @ c"), "");
  EXPECT_EQ(corrections(own + "\n  param v: [width, width] = he",
                        "    x = x @ w + x @ v + x @ a @ b @ c"),
            "");
  // A factor, a weight and a product that are used twice.
  EXPECT_EQ(
      corrections(own, "    x = x @ w + x @ a @ b @ c + sum(sum(a), axis = 0)"),
      "w + 1.000000e+00 a b c (shared)\n");
  EXPECT_EQ(
      corrections(own, "    x = x @ w + x @ a @ b @ c + sum(sum(w), axis = 0)"),
      "w + 1.000000e+00 a b c (shared)\n");
  EXPECT_EQ(corrections(own, "    y = x @ w\n    x = y * (y + x @ a @ b @ c)"),
            "");
  EXPECT_EQ(corrections("  q = LoRA(Linear(width, vocab, bias = false, weight "
                        "= emb.weight), rank = 2)",
                        "    x = q(x) @ emb.weight"),
            "emb.weight.T + 8.000000e+00 q.lora_a.T q.lora_b.T (shared)\n");
}
