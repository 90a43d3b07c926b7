//===- Cs444Test.cpp - transformer components against a university lab ----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every component in models/cs444 against its cases of tests/fixtures/cs444:
// the tables that the lab prints, gradients, dropout with given masks, whole
// models and their training (tests/fixtures/cs444_document has more of the
// tables); evaluated in f64, and as machine code. What to
// compare, and how closely, is in cases.json.
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/TfmDialect.h"
#include "compiler/driver/Compile.h"
#include "compiler/frontend/Diagnostics.h"
#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/Source.h"
#include "compiler/transforms/Passes.h"
#include "compiler/transforms/ReadRecipe.h"
#include "tests/unit/codegen/CompiledModel.h"
#include "tests/unit/codegen/MaskedDropout.h"
#include "tests/unit/oracle/Gradients.h"
#include "tests/unit/oracle/Safetensors.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <cmath>
#include <tuple>

using namespace tfm;
using oracle::Tensor;

namespace {

using Tensors = std::map<std::string, Tensor>;

/// A case of the fixture, and a model around the component it is about.
struct Case {
  std::string name;
  Tensors tensors;
  const llvm::json::Object *entry = nullptr;
  /// Imports of files in models/cs444.
  std::vector<std::string> imports;
  /// The member `inner`, if any, and the output as an expression over it.
  std::string inner, output;
  /// What the fixture writes before the names of the component's parameters.
  std::string prefix;
  int64_t batch = 1, length = 1;

  const Tensor &at(const std::string &tensor) const {
    return tensors.at(tensor);
  }
  std::string shape(const std::string &tensor) const {
    std::string text;
    for (int64_t size : at(tensor).shape)
      text += (text.empty() ? "" : ", ") + std::to_string(size);
    return "[" + text + "]";
  }
  const llvm::json::Object &hyper() const {
    return *entry->getObject("hyperparameters");
  }
  int64_t integer(const char *key) const { return *hyper().getInteger(key); }
  double rate() const { return hyper().getNumber("dropout").value_or(0); }
  bool has(const std::string &tensor) const { return tensors.contains(tensor); }
  /// Names, without the prefix, of the tensors whose names start so.
  std::vector<std::string> names(llvm::StringRef start) const {
    std::vector<std::string> result;
    for (const auto &[name, tensor] : tensors)
      if (llvm::StringRef(name).starts_with(start))
        result.push_back(llvm::StringRef(name).drop_front(start.size()).str());
    return result;
  }
  std::vector<int64_t> shapeOfOut() const {
    for (const char *name : {"expected.out", "printed.out"})
      if (has(name))
        return at(name).shape;
    // Queries, keys and values joined.
    std::vector<int64_t> shape = at("expected.q").shape;
    shape.back() *= 3;
    return shape;
  }
  /// Float inputs, which the model has as parameters so that they get
  /// gradients.
  std::vector<std::string> floatInputs() const {
    std::vector<std::string> result;
    for (const std::string &input : names("input."))
      if (input != "cotangent" && input != "ids" && input != "labels")
        result.push_back(input);
    return result;
  }
};

/// The fixture, and further tables of the lab's text.
const char *const folders[] = {"cs444", "cs444_document"};

const llvm::json::Array &casesOf(const std::string &folder) {
  static std::map<std::string, llvm::json::Value> read;
  auto [found, isNew] = read.try_emplace(folder, nullptr);
  if (isNew)
    found->second = oracle::readFixtureJson(folder + "/cases.json");
  return *found->second.getAsObject()->getArray("cases");
}

/// The folder and the entry of a case.
std::pair<std::string, const llvm::json::Object *>
findCase(llvm::StringRef name) {
  for (const char *folder : folders)
    for (const llvm::json::Value &value : casesOf(folder))
      if (value.getAsObject()->getString("name") == name)
        return {folder, value.getAsObject()};
  return {"", nullptr};
}

std::string flag(const llvm::json::Object &hyper, const char *key) {
  return hyper.getBoolean(key).value_or(false) ? "true" : "false";
}

/// The model that has the component of case `name` in it.
Case load(const std::string &name) {
  Case c;
  c.name = name;
  std::string folder;
  std::tie(folder, c.entry) = findCase(name);
  EXPECT_TRUE(c.entry) << name;
  c.tensors = oracle::readFixture(
      folder + "/" + c.entry->getString("file").value_or("").str());
  std::string component = c.entry->getString("component")->str();
  const llvm::json::Object &hyper = c.hyper();
  auto last = [&](const char *tensor) { return c.at(tensor).shape.back(); };
  auto fromInput = [&](const char *tensor) {
    c.batch = c.at(tensor).shape[0];
    c.length = c.at(tensor).rank() > 1 ? c.at(tensor).shape[1] : 1;
  };
  if (component == "embedding") {
    c.imports = {"embedding"};
    c.inner = llvm::formatv("Embedding({0}, {1})", c.integer("vocabulary"),
                            c.integer("width"));
    c.output = "inner(tokens)";
    c.prefix = "embedding.";
    fromInput("input.ids");
  } else if (name == "gelu_range") {
    c.imports = {"gelu"};
    c.output = "gelu(x)";
  } else if (component == "dense_norm" || component == "gelu") {
    c.imports = {"dense", "gelu"};
    std::string activation = hyper.getString("activation")->str();
    c.inner = llvm::formatv("Dense({0}, {1}, activation = {2}, layer_norm = "
                            "{3})",
                            last("input.x"), c.integer("units"),
                            activation == "linear" ? "none" : activation,
                            flag(hyper, "layer_norm"));
    c.output = "inner(x)";
    c.prefix = "dense.";
  } else if (component == "query_key_value") {
    c.imports = {"query_key_value"};
    c.inner = llvm::formatv("QueryKeyValueBlock({0}, {1})", last("input.xq"),
                            c.integer("units"));
    c.output = "joined(inner(xq, xk, xv))";
  } else if (component == "attention") {
    c.imports = {"attention"};
    c.inner = llvm::formatv("AttentionBlock({0}, {1}, rate = {2:F2}, causal = "
                            "{3})",
                            c.integer("heads"), c.integer("units"), c.rate(),
                            flag(hyper, "causal"));
    c.output = "inner(q, k, v)";
  } else if (component == "multi_head_attention") {
    c.imports = {"multi_head_attention"};
    c.inner = llvm::formatv(
        "MultiHeadAttentionBlock({0}, {1}, {2}, rate = {3:F2})",
        last("input.x"), c.integer("units"), c.integer("heads"), c.rate());
    c.output = "inner(x)";
  } else if (component == "mlp") {
    c.imports = {"mlp"};
    c.inner = llvm::formatv("MLPBlock({0}, {1}, rate = {2:F2})",
                            last("input.x"), c.integer("units"), c.rate());
    c.output = "inner(x)";
  } else if (component == "transformer_block") {
    c.imports = {"transformer_block"};
    c.inner = llvm::formatv("TransformerBlock({0}, {1}, rate = {2:F2})",
                            c.integer("units"), c.integer("heads"), c.rate());
    c.output = "inner(x)";
  } else if (llvm::StringRef(component).starts_with("positional_encoding")) {
    bool isBlock = component != "positional_encoding";
    c.imports = {isBlock ? "positional_encoding_block" : "positional_encoding"};
    c.batch = c.shapeOfOut()[0];
    c.length = c.integer("length");
    c.inner = llvm::formatv(
        "{0}({1}, {2}{3})",
        isBlock ? "PositionalEncodingBlock" : "PositionalEncoding", c.length,
        c.integer("width"),
        isBlock ? llvm::formatv(", rate = {0:F2}", c.rate()).str() : "");
    c.output = "inner(x, positions(tokens))";
    // The lab prints the encoding itself: added to zeros.
    if (!c.has("input.x"))
      c.tensors["input.x"] = Tensor(c.shapeOfOut());
  } else if (component == "loss") {
    c.output = "logits";
    fromInput("input.labels");
  } else if (component == "model") {
    c.imports = {"transformer"};
    c.inner = llvm::formatv(
        "Transformer(vocab = {0}, context = {1}, width = {2}, heads = {3}, "
        "blocks = {4})",
        c.integer("vocabulary"), c.integer("length"), c.integer("width"),
        c.integer("heads"), c.integer("blocks"));
    c.output = "inner(tokens)";
    fromInput("input.ids");
  } else {
    ADD_FAILURE() << "no component " << component;
  }
  return c;
}

/// The case as a .tfm file. Component cases weigh the output with a cotangent
/// and sum it; others have the loss of their training.
std::string textOf(const Case &c, llvm::StringRef placement = "keras") {
  std::string text;
  for (const std::string &import : c.imports)
    text += "import \"" TFM_MODELS "/cs444/" + import + ".tfm\"\n";
  text += "model Around() {\n";
  if (!c.inner.empty())
    text += "  inner = " + c.inner + "\n";
  for (const std::string &input : c.floatInputs())
    text +=
        "  param " + input + ": " + c.shape("input." + input) + " = zeros\n";
  bool classifies = c.has("input.labels");
  std::string result =
      classifies ? "[B, T, " + std::to_string(c.integer("vocabulary")) + "]"
                 : "[..]";
  std::string output = c.output;
  std::string prelude;
  if (llvm::StringRef(output).consume_front("joined(")) {
    prelude = "a, b, d = inner(xq, xk, xv)\n    ";
    output = "concat(a, b, d)";
  }
  text += "  forward(tokens: int[B, T]) -> " + result + " { " + prelude +
          "return " + output + " }\n";
  if (!classifies)
    text +=
        "  loss(tokens: int[B, T], cotangent: " + c.shape("input.cotangent") +
        ") -> [..] { " + prelude + "return " + output + " * cotangent }\n";
  text += "}\n";
  if (classifies)
    text += llvm::formatv(
        "train {{ steps = 3, batch = {0}, sequence = {1}, loss = "
        "cross_entropy(ignore = 13), optimizer = adam(lr = 1e-3, betas = (0.9, "
        "0.999), eps = 1e-7, eps_placement = {2}) }\n",
        c.batch, c.length, placement);
  return text;
}

class Cs444 : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    test = load(GetParam());
    // What a case without gradients is summed with.
    if (!test.has("input.labels") && !test.has("input.cotangent"))
      test.tensors["input.cotangent"] = Tensor(test.shapeOfOut(), 1.0);
  }

  void compile(llvm::StringRef placement = "keras") {
    model.reset();
    module = nullptr;
    context = std::make_unique<mlir::MLIRContext>(
        mlir::MLIRContext::Threading::DISABLED);
    FrontendOptions options;
    FunctionRequest forward;
    forward.batch = test.batch;
    forward.sequence = test.length;
    FunctionRequest loss = forward;
    loss.kind = FunctionRequest::Loss;
    options.functions = {forward, loss};
    SourceManager sources;
    Diagnostics diags(sources);
    module = compileTextToTfm(*context, sources, "around.tfm",
                              textOf(test, placement), options, diags);
    ASSERT_TRUE(module) << diags.str();
  }

  /// The fixture's name of parameter `symbol`, without `param.` or `input.`.
  std::string nameOf(llvm::StringRef symbol) const {
    if (!symbol.consume_front("inner."))
      return symbol.str();
    std::string name = test.prefix + symbol.str();
    // Queries, keys and values are a block of their own here.
    if (size_t at = name.find("qkv."); at != std::string::npos)
      name.erase(at, 4);
    return name;
  }

  /// The tensor of all layers of `param`, whose names follow `start`.
  Tensor stack(ParamOp param, const std::string &start) {
    Tensor result(param.getTensorType().getShape());
    size_t at = 0;
    for (const std::string &layer : param.getLayerNames()) {
      std::string name = start + nameOf(layer);
      if (!test.has(name))
        name = "input." + nameOf(layer);
      EXPECT_TRUE(test.has(name)) << name;
      llvm::copy(test.at(name).data, result.data.begin() + at);
      at += test.at(name).data.size();
    }
    EXPECT_EQ(at, result.data.size());
    return result;
  }

  /// Cuts `all` into the layers of `param`, each as `ours[start + its name]`.
  void unstack(ParamOp param, const Tensor &all, const std::string &start) {
    size_t at = 0, layers = param.getLayerNames().size();
    size_t size = all.data.size() / layers;
    for (const std::string &layer : param.getLayerNames()) {
      auto from = all.data.begin() + static_cast<ptrdiff_t>(at);
      ours[start + nameOf(layer)] = Tensor(
          param.getTensorType().getShape().drop_front(
              param.getNumStackedDims()),
          std::vector<double>(from, from + static_cast<ptrdiff_t>(size)));
      at += size;
    }
  }

  Tensor tokens() const {
    if (test.has("input.ids"))
      return test.at("input.ids");
    return Tensor({test.batch, test.length});
  }

  /// What @train takes; `cotangent` is for component cases.
  std::vector<Tensor> inputs(const Tensor &cotangent) const {
    if (!test.has("input.labels"))
      return {tokens(), cotangent, Tensor({}, 1.0)};
    const Tensor &labels = test.at("input.labels");
    auto count = llvm::count_if(labels.data, [](double l) { return l != 13; });
    return {tokens(), labels, Tensor({}, static_cast<double>(count))};
  }
  Tensor cotangent() const {
    return test.has("input.labels") ? Tensor() : test.at("input.cotangent");
  }

  /// The masks of the case in the order of dropout's sites.
  std::vector<Tensor> masks() const {
    std::vector<Tensor> result;
    for (const char *name : {"mask.attention", "mask.attn.attention",
                             "mask.out", "mask.attn.out", "mask.mlp.out"})
      if (test.has(name))
        result.push_back(test.at(name));
    return result;
  }
  bool isTraining() const {
    return test.hyper().getBoolean("training").value_or(false);
  }

  /// Files `out` under the names of the fixture.
  void keepOutput(const Tensor &out) {
    if (test.has("expected.logits")) {
      ours["expected.logits"] = out;
      Tensor probs = out;
      for (int64_t i = 0; i < probs.rows(); ++i) {
        double largest = *llvm::max_element(out.row(i)), sum = 0;
        for (double &p : probs.row(i))
          sum += p = std::exp(p - largest);
        for (double &p : probs.row(i))
          p /= sum;
      }
      ours["expected.probs"] = probs;
    } else if (test.has("expected.q")) {
      const char *parts[] = {"expected.q", "expected.k", "expected.v"};
      for (int part = 0; part < 3; ++part) {
        Tensor one(test.at(parts[part]).shape);
        for (int64_t i = 0; i < one.rows(); ++i)
          llvm::copy(out.row(i).slice(part * one.rowSize(), one.rowSize()),
                     one.row(i).begin());
        ours[parts[part]] = one;
      }
    } else {
      ours["expected.out"] = out;
    }
  }

  /// A component's output is the second result of @train, without a cotangent.
  Tensor ones() const { return Tensor(test.shapeOfOut(), 1.0); }

  /// Compares all that cases.json lists.
  void compare() {
    // The derivative of GELU is that of its sum.
    if (test.has("expected.dout"))
      ours["expected.dout"] = ours.at("grad.x");
    int compared = 0;
    for (const llvm::json::Value &value : *test.entry->getArray("compare")) {
      const llvm::json::Object &item = *value.getAsObject();
      std::string name = item.getString("tensor")->str();
      if (skip(name))
        continue;
      auto found = ours.find(name);
      ASSERT_NE(found, ours.end()) << "nothing to compare with " << name;
      const Tensor &wanted = test.at(name);
      ASSERT_EQ(found->second.data.size(), wanted.data.size()) << name;
      if (name == "expected.out") {
        EXPECT_EQ(found->second.shape, wanted.shape);
      }
      double most = 0, scale = 1;
      for (auto [a, b] : llvm::zip_equal(found->second.data, wanted.data))
        most = std::isnan(a - b) ? INFINITY : std::max(most, std::abs(a - b));
      auto limit = item.getNumber("atol");
      if (!limit) {
        limit = item.getNumber("rtol");
        scale =
            std::abs(*llvm::max_element(wanted.data, [](double a, double b) {
              return std::abs(a) < std::abs(b);
            }));
      }
      EXPECT_LE(most, *limit * scale) << name;
      ++compared;
    }
    const llvm::json::Array *printed = test.entry->getArray("printed");
    for (size_t i = 0; printed && i < printed->size(); ++i, ++compared)
      comparePrinted(*(*printed)[i].getAsObject());
    EXPECT_GT(compared, 0);
  }

  /// The four decimals that the lab prints.
  void comparePrinted(const llvm::json::Object &item) {
    std::string name = item.getString("tensor")->str();
    const Tensor &table = test.at(item.getString("printed_tensor")->str());
    // Weights are drawn from the lab's seed: theirs, not ours.
    bool isGiven = llvm::StringRef(name).starts_with("param.");
    ASSERT_TRUE(isGiven || ours.contains(name)) << name;
    const Tensor &all = isGiven ? test.at(name) : ours.at(name);
    size_t from = static_cast<size_t>(item.getInteger("index").value_or(0)) *
                  table.data.size();
    ASSERT_LE(from + table.data.size(), all.data.size()) << name;
    for (size_t i = 0; i < table.data.size(); ++i)
      EXPECT_NEAR(all.data[from + i], table.data[i], *item.getNumber("atol"))
          << name << " " << i;
  }

  /// Whether `name` is no value of this run.
  virtual bool skip(const std::string &name) const {
    return llvm::StringRef(name).starts_with("adam_") ||
           name == "expected.losses" || name == "expected.normed";
  }

  Case test;
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::unique_ptr<CompiledModel> model;
  /// What we computed, under the fixture's names.
  Tensors ours;
};

TEST_P(Cs444, InDoublePrecision) {
  ASSERT_NO_FATAL_FAILURE(compile());
  oracle::Environment environment;
  for (auto param : module->getOps<ParamOp>())
    environment.parameters[param.getSymName()] = stack(param, "param.");
  std::vector<Tensor> given = masks();
  for (size_t site = 0; site < given.size(); ++site)
    environment.masks[static_cast<int64_t>(site)] = given[site];

  mlir::PassManager passes(context.get());
  passes.addPass(createDifferentiatePass());
  passes.addPass(createStripDropoutPass());
  ASSERT_TRUE(mlir::succeeded(passes.run(*module)));
  auto function = [&](llvm::StringRef name) {
    return module->lookupSymbol<mlir::func::FuncOp>(name);
  };
  if (isTraining())
    keepOutput(
        evaluateOrFail(function("train"), inputs(ones()), environment)[1]);
  else
    keepOutput(evaluateOrFail(function("forward"), {tokens()}, environment)[0]);
  auto results =
      evaluateOrFail(function("train"), inputs(cotangent()), environment);
  ours["expected.loss"] = results[0];
  for (unsigned i = 2; i < results.size(); ++i) {
    auto symbol =
        function("train").getResultAttrOfType<mlir::FlatSymbolRefAttr>(
            i, "tfm.gradient");
    unstack(module->lookupSymbol<ParamOp>(symbol.getValue()), results[i],
            "grad.");
  }
  compare();
}

TEST_P(Cs444, Compiled) {
  ASSERT_NO_FATAL_FAILURE(compile());
  std::vector<Tensor> given;
  if (isTraining()) {
    given = masks();
    ASSERT_EQ(maskDropout(*module), static_cast<int64_t>(given.size()));
  }
  ASSERT_TRUE(mlir::succeeded(prepare(*module, testedTarget())));
  model = std::make_unique<CompiledModel>(*module);
  for (auto param : module->getOps<ParamOp>())
    model->setParameter(param.getSymName(), stack(param, "param."));
  auto train = [&](const Tensor &weights) {
    std::vector<Tensor> all = inputs(weights);
    llvm::append_range(all, given);
    all.push_back(Tensor({4}, {0, 0, 0, 0}));
    model->clearGradients();
    return model->run("train", all);
  };
  keepOutput(isTraining() ? train(ones())[1]
                          : model->run("forward", {tokens()})[0]);
  ours["expected.loss"] = train(cotangent())[0];
  for (auto param : module->getOps<ParamOp>())
    unstack(param, model->gradient(param.getSymName()), "grad.");
  compare();
}

std::vector<std::string> casesWithTensors() {
  std::vector<std::string> names;
  for (const char *folder : folders)
    for (const llvm::json::Value &value : casesOf(folder)) {
      const llvm::json::Object &entry = *value.getAsObject();
      if (entry.getArray("compare"))
        names.push_back(entry.getString("name")->str());
    }
  return names;
}
INSTANTIATE_TEST_SUITE_P(Cases, Cs444, testing::ValuesIn(casesWithTensors()),
                         [](const auto &info) { return info.param; });

// Where epsilon is added shows in what comes out of the norm: that of a layer
// that passes its normalised input on.
class Cs444Normed : public Cs444 {
protected:
  void SetUp() override {
    Cs444::SetUp();
    int64_t width = test.at("input.x").shape.back();
    test.inner = llvm::formatv("Dense({0}, {0}, layer_norm = true)", width);
    Tensor identity({width, width});
    for (int64_t i = 0; i < width; ++i)
      identity.at({i, i}) = 1;
    test.tensors["param.dense.weight"] = identity;
    test.tensors["param.dense.bias"] = Tensor({width});
    test.tensors["input.cotangent"] = test.at("expected.normed");
  }
  bool skip(const std::string &name) const override {
    return name != "expected.normed";
  }
};
TEST_P(Cs444Normed, AddsEpsilonToTheDeviation) {
  ASSERT_NO_FATAL_FAILURE(compile());
  ASSERT_TRUE(mlir::succeeded(prepare(*module, testedTarget())));
  model = std::make_unique<CompiledModel>(*module);
  for (auto param : module->getOps<ParamOp>())
    model->setParameter(param.getSymName(), stack(param, "param."));
  ours["expected.normed"] = model->run("forward", {tokens()})[0];
  compare();
}
INSTANTIATE_TEST_SUITE_P(Cases, Cs444Normed,
                         testing::Values("dense_norm_small_variance"),
                         [](const auto &info) { return info.param; });

// Three steps of Adam, with epsilon where Keras and where the paper has it.
class Cs444Training : public Cs444 {
protected:
  void train(llvm::StringRef placement, const std::string &start) {
    ASSERT_NO_FATAL_FAILURE(compile(placement));
    ASSERT_TRUE(mlir::succeeded(prepare(*module, testedTarget())));
    model = std::make_unique<CompiledModel>(*module);
    for (auto param : module->getOps<ParamOp>())
      model->setParameter(param.getSymName(), stack(param, "param."));
    auto optimizer = Optimizer::read(*module);
    ASSERT_TRUE(mlir::succeeded(optimizer) && *optimizer);
    std::vector<Tensor> all = inputs(Tensor());
    all.push_back(Tensor({4}, {0, 0, 0, 0}));
    Tensor losses({4});
    for (int step = 1; step <= 4; ++step) {
      losses.data[step - 1] = model->run("train", all)[0].data[0];
      if (step == 4)
        break;
      double lr = 1e-3;
      model->run("update",
                 {Tensor({4}, {lr, 1 - std::pow((*optimizer)->beta1, step),
                               1 - std::pow((*optimizer)->beta2, step), 0.0})});
    }
    if (placement == "keras")
      ours["expected.losses"] = losses;
    for (auto param : module->getOps<ParamOp>())
      unstack(param, model->parameter(param.getSymName()), start);
  }

  bool skip(const std::string &name) const override {
    return !llvm::StringRef(name).starts_with("adam_") &&
           name != "expected.losses";
  }
};
TEST_P(Cs444Training, ThreeStepsOfAdam) {
  ASSERT_NO_FATAL_FAILURE(train("keras", "adam_keras."));
  ASSERT_NO_FATAL_FAILURE(train("torch", "adam_paper."));
  compare();
}
INSTANTIATE_TEST_SUITE_P(Cases, Cs444Training,
                         testing::Values("model_1block", "model_2blocks"),
                         [](const auto &info) { return info.param; });

// Parameters by component, which the lab's text leaves to be worked out.
TEST(Cs444Counts, AreThoseOfTheFixture) {
  const llvm::json::Object &counts = *findCase("parameter_counts")
                                          .second->getObject("facts")
                                          ->getObject("counts");
  const std::pair<const char *, const char *> components[] = {
      {"embedding(14, 24)", "inner.embedding."},
      {"positional_encoding", "inner.encoding."},
      {"dense_norm(24, 24)", "inner.blocks.0.attn.qkv.q."},
      {"attention(any)", "inner.blocks.0.attn.attention."},
      {"mha(width 24)", "inner.blocks.0.attn."},
      {"mlp(width 24)", "inner.blocks.0.mlp."},
      {"block(width 24)", "inner.blocks.0."},
      {"output(24, 14)", "inner.output."},
      {"model(vocabulary 14, width 24, blocks 1)", "inner."}};
  auto count = [](const std::string &name, llvm::StringRef start) {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    SourceManager sources;
    Diagnostics diags(sources);
    auto module = compileTextToTfm(context, sources, "around.tfm",
                                   textOf(load(name)), {}, diags);
    EXPECT_TRUE(module) << diags.str();
    int64_t sum = 0;
    for (auto param : module->getOps<ParamOp>()) {
      auto layers = param.getLayerNames();
      for (const std::string &layer : layers)
        if (llvm::StringRef(layer).starts_with(start))
          sum += param.getTensorType().getNumElements() /
                 static_cast<int64_t>(layers.size());
    }
    return sum;
  };
  for (auto [name, start] : components)
    EXPECT_EQ(count("model_1block", start), *counts.getInteger(name)) << name;
  EXPECT_EQ(count("model_2blocks", ""),
            *counts.getInteger("model(vocabulary 14, width 32, blocks 2)"));
}

} // namespace
