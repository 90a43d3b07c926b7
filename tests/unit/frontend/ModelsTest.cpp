//===- ModelsTest.cpp - tests of models from text to the tfm dialect ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/frontend/Frontend.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"

using namespace tfm;

namespace {

struct Compiled {
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  SourceManager sources;
  Diagnostics diags{sources};
  mlir::OwningOpRef<mlir::ModuleOp> module;

  std::string ir() {
    std::string text;
    llvm::raw_string_ostream os(text);
    (*module)->print(os);
    return text;
  }
  mlir::func::FuncOp function(llvm::StringRef name) {
    return module->lookupSymbol<mlir::func::FuncOp>(name);
  }
  std::vector<ParamOp> params() {
    auto ops = module->getOps<ParamOp>();
    return {ops.begin(), ops.end()};
  }
  int64_t count() {
    int64_t total = 0;
    for (ParamOp param : params())
      total += param.getTensorType().getNumElements();
    return total;
  }
};

std::unique_ptr<Compiled>
compileFile(llvm::StringRef name,
            std::vector<std::pair<std::string, std::string>> defines = {}) {
  auto c = std::make_unique<Compiled>();
  FrontendOptions options;
  options.defines = std::move(defines);
  c->module = compileToTfm(c->context, c->sources,
                           std::string(TFM_MODELS) + "/" + name.str(), options,
                           c->diags);
  EXPECT_TRUE(c->module) << c->diags.str();
  return c;
}

std::unique_ptr<Compiled> compileText(llvm::StringRef text,
                                      FrontendOptions options = {}) {
  auto c = std::make_unique<Compiled>();
  c->module = compileTextToTfm(c->context, c->sources, "test.tfm", text,
                               options, c->diags);
  return c;
}

TEST(Models, Gpt2HasThePublishedTensors) {
  struct Size {
    const char *name;
    std::vector<std::pair<std::string, std::string>> defines;
  };
  const Size sizes[] = {
      {"gpt2", {}},
      {"gpt2-medium", {{"width", "1024"}, {"heads", "16"}, {"layers", "24"}}},
      {"gpt2-large", {{"width", "1280"}, {"heads", "20"}, {"layers", "36"}}},
      {"gpt2-xl", {{"width", "1600"}, {"heads", "25"}, {"layers", "48"}}},
      {"distilgpt2", {{"layers", "6"}}},
  };
  auto buffer = llvm::MemoryBuffer::getFile(TFM_FIXTURES "/counts/counts.json");
  ASSERT_TRUE(bool(buffer));
  auto counts = llvm::json::parse((*buffer)->getBuffer());
  ASSERT_TRUE(bool(counts));
  for (const Size &size : sizes) {
    SCOPED_TRACE(size.name);
    auto c = compileFile("gpt2.tfm", size.defines);
    ASSERT_TRUE(c->module);
    const llvm::json::Object *expected =
        counts->getAsObject()->getObject(size.name);
    EXPECT_EQ(c->count(), expected->getInteger("total"));
    std::map<std::string, std::vector<int64_t>> found, wanted;
    for (ParamOp param : c->params()) {
      auto shape = param.getTensorType().getShape().drop_front(
          param.getNumStackedDims());
      for (const std::string &name : param.getLayerNames())
        found[name] = shape.vec();
    }
    for (const llvm::json::Value &tensor : *expected->getArray("tensors")) {
      llvm::StringRef name = *tensor.getAsObject()->getString("name");
      name.consume_front("transformer.");
      for (const llvm::json::Value &dim :
           *tensor.getAsObject()->getArray("shape"))
        wanted[name.str()].push_back(*dim.getAsInteger());
    }
    EXPECT_EQ(found, wanted);
  }
}

TEST(Models, ShakespeareTrainsOnItsCharacters) {
  auto c = compileFile("shakespeare.tfm");
  ASSERT_TRUE(c->module);
  mlir::func::FuncOp loss = c->function("loss");
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss.getArgAttrOfType<mlir::StringAttr>(1, "tfm.name"), "targets");
  std::string type;
  llvm::raw_string_ostream(type) << loss.getFunctionType();
  EXPECT_EQ(type, "(tensor<12x64xi32>, tensor<12x64xi32>, tensor<f32>) -> "
                  "(tensor<f32>, tensor<12x64xf32>)");
  // 65 different characters; nothing of the imported file's own blocks.
  auto recipe = llvm::json::parse(
      (*c->module)->getAttrOfType<mlir::StringAttr>("tfm.recipe").getValue());
  ASSERT_TRUE(bool(recipe));
  const llvm::json::Object &r = *recipe->getAsObject();
  EXPECT_EQ(r.getObject("tokenizer")->getInteger("size"), 65);
  EXPECT_EQ(r.getObject("tokenizer")->getString("kind"), "chars");
  EXPECT_EQ(r.getObject("train")->getInteger("steps"), 2000);
  EXPECT_EQ(r.getObject("train")->getObject("optimizer")->getNumber("lr"),
            1e-3);
  EXPECT_EQ(r.getObject("data")->getNumber("validation"), 0.1);
  EXPECT_EQ(r.getObject("generate")->getInteger("context"), 64);
}

TEST(Models, ShakespeareLargeByOverrides) {
  auto c = compileFile("shakespeare.tfm", {{"layers", "6"},
                                           {"heads", "6"},
                                           {"width", "384"},
                                           {"context", "256"},
                                           {"drop", "0.2"},
                                           {"train.sequence", "256"},
                                           {"train.batch", "64"},
                                           {"train.optimizer.lr", "5e-4"}});
  ASSERT_TRUE(c->module);
  std::string ir = c->ir();
  EXPECT_NE(ir.find("tensor<64x256x384xf32>"), std::string::npos);
  EXPECT_NE(ir.find("rate = 2.000000e-01"), std::string::npos);
  // Inference has no dropout; the sites of training are numbered in order.
  int sites = 0;
  c->function("forward").walk([&](DropoutOp) { ++sites; });
  EXPECT_EQ(sites, 0);
  std::vector<int64_t> numbers;
  c->function("loss").walk<mlir::WalkOrder::PreOrder>([&](mlir::Operation *op) {
    if (auto site = op->getAttrOfType<mlir::IntegerAttr>("site")) {
      numbers.push_back(site.getInt());
      // Inside of the layers the mask depends on the layer.
      if (auto dropout = llvm::dyn_cast<DropoutOp>(op))
        EXPECT_EQ(bool(dropout.getLayer()),
                  llvm::isa<RepeatOp>(op->getParentOp()));
    }
  });
  EXPECT_EQ(numbers, (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(Models, AdditionIgnoresPadding) {
  auto c = compileFile("addition.tfm");
  ASSERT_TRUE(c->module);
  int64_t ignore = -1;
  c->function("loss").walk(
      [&](CrossEntropyOp op) { ignore = op.getIgnore().value_or(-1); });
  EXPECT_EQ(ignore, 13);
}

TEST(Models, TiesAreOneParameter) {
  auto c = compileText(R"tfm(
model M(vocab = 11, context = 8, width = 4) {
  wte = Embedding(vocab, width)
  lm_head = Linear(width, vocab, bias = false, weight = wte.weight)
  forward(tokens: int[B, T]) -> [B, T, vocab] { return lm_head(wte(tokens)) }
}
)tfm");
  ASSERT_TRUE(c->module) << c->diags.str();
  ASSERT_EQ(c->params().size(), 1u);
  ParamOp param = c->params()[0];
  EXPECT_EQ(param.getSymName(), "wte.weight");
  ASSERT_TRUE(param.getAliases());
  EXPECT_EQ(llvm::cast<mlir::StringAttr>((*param.getAliases())[0]).getValue(),
            "lm_head.weight");
}

TEST(Models, SharedModulesCountOnce) {
  auto c = compileText(R"tfm(
model M(width = 4) {
  shared = Linear(width, width)
  encoder = Half(shared)
  decoder = Half(shared)
  forward(x: [B, T, width]) -> [B, T, width] { return decoder(encoder(x)) }
}
module Half(layer: module) {
  inner = layer
  norm = LayerNorm(layer.inputs)
  forward(x: [.., layer.inputs]) -> [.., layer.inputs] { return norm(inner(x)) }
}
)tfm");
  ASSERT_TRUE(c->module) << c->diags.str();
  EXPECT_EQ(c->count(), 4 * 4 + 4 + 2 * 8);
  EXPECT_EQ(c->params()[0].getSymName(), "shared.weight");
  EXPECT_EQ(c->params()[0].getAliases()->size(), 2u);
}

TEST(Models, ModuleArgumentsAndLists) {
  auto c = compileText(R"tfm(
model M(width = 8) {
  q_proj = LoRA(Linear(width, width), rank = 2)
  layer = [Linear(width, 3 * width), Linear(3 * width, width)]
  forward(x: [B, T, width]) -> [B, T, width] { return layer[1](layer.0(q_proj(x))) }
}
)tfm");
  ASSERT_TRUE(c->module) << c->diags.str();
  std::vector<std::string> names;
  for (ParamOp param : c->params())
    names.push_back(param.getSymName().str());
  EXPECT_EQ(names, (std::vector<std::string>{
                       "q_proj.base.weight", "q_proj.base.bias",
                       "q_proj.lora_a", "q_proj.lora_b", "layer.0.weight",
                       "layer.0.bias", "layer.1.weight", "layer.1.bias"}));
}

TEST(Models, RepeatWithPeriodIsALoopOverThePeriod) {
  auto c = compileText(R"tfm(
model M(width = 8, heads = 2, depth = 6) {
  layers = repeat(depth) as i Layer(width, heads, window = if i % 2 == 0 then 4 else none)
  forward(x: [B, T, width]) -> [B, T, width] { return layers(x) }
}
module Layer(width, heads, window: int = none) {
  qkv = Linear(width, 3 * width)
  forward(x: [B, T, width]) -> [B, T, width] {
    q, k, v = split(rearrange(qkv(x), "B T (three heads d) -> three B heads T d", three = 3), 3, axis = 0)
    y = attention(q[0], k[0], v[0], causal = true, window = window)
    return x + rearrange(y, "B heads T d -> B T (heads d)")
  }
}
)tfm");
  ASSERT_TRUE(c->module) << c->diags.str();
  int64_t count = 0;
  int windows = 0, attentions = 0;
  c->function("forward").walk([&](RepeatOp op) { count = op.getCount(); });
  c->function("forward").walk([&](AttentionOp op) {
    ++attentions;
    windows += op.getWindow().has_value();
  });
  EXPECT_EQ(count, 3);
  EXPECT_EQ(attentions, 2);
  EXPECT_EQ(windows, 1);
  ASSERT_EQ(c->params().size(), 4u);
  EXPECT_EQ(c->params()[2].getSymName(), "layers.2*+1.qkv.weight");
  EXPECT_EQ(c->params()[2].getLayerNames(),
            (llvm::SmallVector<std::string>{"layers.1.qkv.weight",
                                            "layers.3.qkv.weight",
                                            "layers.5.qkv.weight"}));
}

TEST(Models, NumbersThatDependOnTheLayerAreStackedConstants) {
  auto c = compileText(R"tfm(
model M(width = 8, depth = 5) {
  layers = repeat(depth) as i Layer(width, scale = 1.0 / (i + 1))
  forward(x: [B, T, width]) -> [B, T, width] { return layers(x) }
}
module Layer(width, scale: float) {
  const ramp[j: width] = j * scale
  forward(x: [B, T, width]) -> [B, T, width] { return x * scale + ramp }
}
)tfm");
  ASSERT_TRUE(c->module) << c->diags.str();
  int stacked = 0;
  c->function("forward").walk(
      [&](RepeatOp op) { stacked = op.getStacked().size(); });
  EXPECT_EQ(stacked, 2);
  EXPECT_NE(c->ir().find("tensor<5x8xf32>"), std::string::npos);
}

TEST(Models, RepeatsNest) {
  auto c = compileText(R"tfm(
model M(width = 4, outer = 3, inner = 3) {
  scale = Scale(width)
  groups = repeat(outer) as g Group(width, inner, 1.0 / (g + 1), scale)
  forward(x: [B, T, width]) -> [B, T, width] { return groups(x) }
}
module Scale(width) {
  param w: [width] = ones
  forward(x: [.., width]) -> [.., width] { return x * w }
}
module Group(width, inner, shift: float, scale: module) {
  blocks = repeat(inner) as i Layer(width, shift, i * 0.5, scale)
  forward(x: [B, T, width]) -> [B, T, width] { return blocks(x) + shift }
}
module Layer(width, shift: float, own: float, scale: module) {
  f = Linear(width, width)
  forward(x: [B, T, width]) -> [B, T, width] { return f(scale(x)) * own + shift }
}
)tfm");
  ASSERT_TRUE(c->module) << c->diags.str();
  // Stacked in both repeats, in none, and constants of either one.
  ASSERT_EQ(c->params().size(), 3u);
  EXPECT_EQ(c->params()[0].getSymName(), "scale.w");
  EXPECT_EQ(c->params()[1].getNumStackedDims(), 2);
  EXPECT_EQ(c->params()[1].getLayerNames()[4], "groups.1.blocks.1.f.weight");
  std::vector<std::pair<size_t, size_t>> operands;
  c->function("forward").walk<mlir::WalkOrder::PreOrder>([&](RepeatOp op) {
    operands.push_back({op.getStacked().size(), op.getShared().size()});
  });
  // Outer: weight, bias, shift twice (its own use and the layers'); inner:
  // weight, bias, own; shared with it: scale.w and shift.
  EXPECT_EQ(operands, (std::vector<std::pair<size_t, size_t>>{{4, 2}, {3, 2}}));
}

TEST(Models, EveryStandardModuleCompiles) {
  auto c = compileText(R"tfm(
model M(vocab = 11, context = 16, width = 8, heads = 4) {
  wte = Embedding(vocab, width)
  learned = LearnedPositions(context, width)
  sinusoid = SinusoidalPositions(context, width)
  halves = SinusoidalPositionsHalves(context, width)
  norms = [LayerNorm(width), LayerNorm(width, bias = false), RMSNorm(width), RMSNormPlusOne(width), StdNorm(width)]
  attn = SelfAttention(width, heads)
  rotary = RotaryAttention(width, heads, kv_heads = 2, softcap = 30.0, window = 4)
  cross = CrossAttention(width, heads)
  mlp = MLP(width, act = gelu)
  gated = [GatedMLP(width, 12, act = relu), SwiGLU(width, 12), GeGLU(width, 12)]
  head = Linear(width, vocab)
  low = Conv1D(width, width, init = xavier)

  forward(tokens: int[B, T]) -> [B, T, vocab] {
    at = positions(tokens)
    x = wte(tokens) + learned(tokens) + sinusoid(tokens) + halves(tokens)
    x = norms(x)
    x = x + attn(x)
    x = x + rotary(x, at)
    x = x + cross(x, x)
    x = x + mlp(x)
    return head(low(gated(x)))
  }
}
train { steps = 1, batch = 2, sequence = 16 }
)tfm");
  ASSERT_TRUE(c->module) << c->diags.str();
}

TEST(Models, LossMethodsTakeFieldsByName) {
  auto c = compileText(R"tfm(
model M(width = 4) {
  f = Linear(width, width)
  forward(x: [B, T, width]) -> [B, T, width] { return f(x) }
  loss(x: [B, T, width], wanted: [B, T, width]) -> [B, T] {
    return mse(forward(x), wanted)
  }
}
train { steps = 1, batch = 3, sequence = 5 }
)tfm");
  ASSERT_TRUE(c->module) << c->diags.str();
  std::string type;
  llvm::raw_string_ostream(type) << c->function("loss").getFunctionType();
  EXPECT_EQ(type, "(tensor<3x5x4xf32>, tensor<3x5x4xf32>, tensor<f32>) -> "
                  "(tensor<f32>, tensor<3x5xf32>)");
}

TEST(Models, ConstantsAreComputedInDoublePrecision) {
  auto c = compileText(R"tfm(
model M(width = 2) {
  const pe[t: 3, j: width] = if j % 2 == 0 then sin(t / 10000 ** (j / width)) else t // 2
  forward(x: [B, 3, width]) -> [B, 3, width] { return x + pe }
}
)tfm");
  ASSERT_TRUE(c->module) << c->diags.str();
  mlir::DenseElementsAttr values;
  c->function("forward").walk([&](ConstantOp op) {
    values = llvm::cast<mlir::DenseElementsAttr>(op.getValue());
  });
  std::vector<float> found;
  for (float value : values.getValues<float>())
    found.push_back(value);
  EXPECT_EQ(found,
            (std::vector<float>{0, 0, static_cast<float>(std::sin(1.0)), 0,
                                static_cast<float>(std::sin(2.0)), 1}));
}

TEST(Models, RequestsChooseBatchAndLength) {
  FrontendOptions options;
  options.functions = {{FunctionRequest::Forward, 2, 5, "prefill"},
                       {FunctionRequest::Loss, 3, 4, ""}};
  auto c = compileText(R"tfm(
model M(vocab = 7, width = 2) {
  wte = Embedding(vocab, width)
  forward(tokens: int[B, T]) -> [B, T, vocab] { return wte(tokens) @ wte.weight.T }
}
)tfm",
                       options);
  ASSERT_TRUE(c->module) << c->diags.str();
  std::string type;
  llvm::raw_string_ostream(type) << c->function("prefill").getFunctionType();
  EXPECT_EQ(type, "(tensor<2x5xi32>) -> tensor<2x5x7xf32>");
  EXPECT_TRUE(c->function("loss"));
}

} // namespace
