//===- ModelReportTest.cpp - reading a module -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tied.h"

#include "compiler/support/Polynomial.h"

using namespace tfm;
using namespace tfm::test;

namespace {

const ModuleReport *findModule(const ModelReport &report,
                               llvm::StringRef path) {
  for (const ModuleReport &member : report.modules)
    if (member.path == path)
      return &member;
  ADD_FAILURE() << "no module " << path.str();
  return &report.modules.front();
}

const TensorReport *findTensor(const ModelReport &report,
                               llvm::StringRef name) {
  for (const TensorReport &tensor : report.tensors)
    if (tensor.name == name)
      return &tensor;
  ADD_FAILURE() << "no tensor " << name.str();
  return &report.tensors.front();
}

/// The value of a formula under a report's hyperparameters.
std::optional<int64_t> valueOf(const ModelReport &report,
                               const std::string &formula) {
  std::vector<Polynomial> names;
  for (const Hyperparameter &parameter : report.hyperparameters)
    if (const auto *value = std::get_if<int64_t>(&parameter.value))
      names.push_back(Polynomial::named(parameter.name, *value, names.size()));
  std::optional<Polynomial> parsed =
      Polynomial::parse(formula, names, Polynomial::Quotients::Cancelled);
  return parsed ? parsed->evaluate() : std::nullopt;
}

} // namespace

TEST(ModelReport, Totals) {
  ModelReport report = tiedReport();
  // wte 11*8, wpe 6*8, two layers of 8*16 + 16 + 16*8, ln_f 8.
  EXPECT_EQ(report.total, 88 + 48 + 2 * (128 + 16 + 128) + 8);
  EXPECT_EQ(report.trainable, report.total - 48);
  EXPECT_EQ(report.bytes, 4 * report.total);
  EXPECT_EQ(report.formula, "vocab*width + context*width + 4*width**2*layers + "
                            "2*width*layers + width");
  ASSERT_EQ(report.hyperparameters.size(), 5U);
  EXPECT_EQ(report.hyperparameters[4].name, "drop");
}

TEST(ModelReport, EveryFormulaGivesTheNumberBesideIt) {
  ModelReport report = tiedReport();
  EXPECT_EQ(valueOf(report, report.formula), report.total);
  for (const ModuleReport &member : report.modules) {
    EXPECT_EQ(valueOf(report, member.formula), member.parameters)
        << member.path;
    EXPECT_EQ(valueOf(report, member.totalFormula), member.totalParameters)
        << member.path;
    for (size_t i = 0; i != member.layerFormulas.size(); ++i)
      EXPECT_EQ(valueOf(report, member.layerFormulas[i]),
                member.layerParameters[i])
          << member.path;
  }
  for (const TensorReport &tensor : report.tensors)
    EXPECT_EQ(valueOf(report, tensor.formula), tensor.parameters)
        << tensor.name;
}

TEST(ModelReport, Modules) {
  ModelReport report = tiedReport();
  const ModuleReport *h = findModule(report, "h");
  EXPECT_EQ(h->module, "Block");
  EXPECT_EQ(h->count, 2);
  EXPECT_EQ(h->parameters, 544);
  EXPECT_EQ(h->formula, "4*width**2*layers + 2*width*layers");
  EXPECT_EQ(h->layerParameters, std::vector<int64_t>{272});
  const ModuleReport *fc = findModule(report, "h.*.fc");
  EXPECT_EQ(fc->instances, 2);
  EXPECT_EQ(fc->parameters, 144);
  EXPECT_EQ(fc->totalParameters, 288);
  EXPECT_EQ(fc->formula, "2*width**2 + 2*width");
  EXPECT_EQ(fc->instancePaths, (std::vector<std::string>{"h.0.fc", "h.1.fc"}));
  EXPECT_EQ(report.modules[fc->parent].path, "h");
  EXPECT_EQ(fc->depth, 2);
}

TEST(ModelReport, TensorsAreNamedLayerByLayer) {
  ModelReport report = tiedReport();
  std::vector<std::string> names;
  for (const TensorReport &tensor : report.tensors)
    names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "wte.weight", "wpe.weight", "h.0.fc.weight",
                       "h.1.fc.weight", "h.0.fc.bias", "h.1.fc.bias",
                       "h.0.proj.weight", "h.1.proj.weight", "ln_f.weight"}));
  const TensorReport *weight = findTensor(report, "h.1.fc.weight");
  EXPECT_EQ(weight->shape, (std::vector<int64_t>{8, 16}));
  EXPECT_EQ(weight->dims, (std::vector<std::string>{"width", "2*width"}));
  EXPECT_EQ(weight->formula, "2*width**2");
  EXPECT_EQ(weight->dtype, "f32");
  EXPECT_EQ(weight->usedBy, std::vector<std::string>{"h.1.fc"});
  EXPECT_FALSE(findTensor(report, "wpe.weight")->trainable);
}

// The tied head is one tensor, which names both of its users.
TEST(ModelReport, TiedTensorsCountOnce) {
  ModelReport report = tiedReport();
  const TensorReport *wte = findTensor(report, "wte.weight");
  EXPECT_EQ(wte->aliases, std::vector<std::string>{"lm_head.weight"});
  EXPECT_EQ(wte->usedBy, (std::vector<std::string>{"wte", "forward:9"}));
}

TEST(ModelReport, ArgumentsNamedValuesAndResultsKeepTheirWords) {
  ModelReport report = tiedReport();
  std::vector<std::pair<std::string, std::string>> names;
  for (const ValueReport &value : report.values)
    names.emplace_back(value.name, value.role);
  EXPECT_EQ(names, (std::vector<std::pair<std::string, std::string>>{
                       {"tokens", "argument"},
                       {"x", "value"},
                       {"a", "value"},
                       {"return", "result"}}));
  EXPECT_EQ(report.values[1].dims,
            (std::vector<std::string>{"B", "T", "width"}));
  EXPECT_EQ(report.values[1].shape, (std::vector<int64_t>{1, 6, 8}));
  EXPECT_EQ(report.values[2].instancePaths,
            (std::vector<std::string>{"h.0", "h.1"}));
  EXPECT_EQ(report.values[2].line, 13);
}

TEST(ModelReport, FlopsOfTheForward) {
  ModelReport report = tiedReport();
  int64_t matmuls = 2 * (2 * 6 * 8 * 16 * 2) + 2 * 6 * 8 * 11;
  // Positions; per layer bias, gelu, residual; normalisation and its gain.
  int64_t rest = 48 + 2 * (96 + 9 * 96 + 48) + 5 * 48 + 48;
  EXPECT_EQ(report.flops.forwardPerToken, (matmuls + rest) / 6);
  EXPECT_EQ(report.flops.forwardTokens, 6);
  EXPECT_EQ(report.flops.forward.front().first, "matmul");
  EXPECT_EQ(report.flops.forward.front().second, matmuls);
  // There is no @train.
  EXPECT_FALSE(report.flops.trainStep.has_value());
}

TEST(ModelReport, SensitivitiesAreOrderedByElasticity) {
  ModelReport report = tiedReport();
  ASSERT_EQ(report.sensitivities.size(), 4U);
  EXPECT_EQ(report.sensitivities[0].name, "width");
  // vocab + context + layers * (8*width + 2) + 1 at 11, 6, 8, 2.
  EXPECT_DOUBLE_EQ(report.sensitivities[0].derivative, 11 + 6 + 2 * 66 + 1);
  EXPECT_DOUBLE_EQ(report.sensitivities[0].elasticity, 150.0 * 8 / 688);
  // At a width of 9: 2 * 4 parameters more than the slope at 8 says.
  EXPECT_EQ(report.sensitivities[0].oneMore, 150 + 4 * 2);
  EXPECT_EQ(report.sensitivities[1].name, "layers");
}

// A repeat whose layers take turns: names skip the layers between.
TEST(ModelReport, PeriodicRepeat) {
  ModelReport report = reportOf(R"mlir(
module attributes {tfm.model = "Turns", tfm.source = "turns.tfm",
  tfm.hyperparameters = [{name = "n", value = 4 : i64}, {name = "d", value = 3 : i64}],
  tfm.modules = [
    {path = "h", module = "Block", line = 1 : i64, count = 4 : i64, dims = "n"},
    {path = "h.2*+0.a", module = "A", line = 2 : i64},
    {path = "h.2*+1.a", module = "A", line = 2 : i64}]} {
  tfm.param @"h.2*+0.a.w" : tensor<2x3xf32>
    {dims = ["d"], init = {kind = "ones"}, names = ["h.0.a.w", "h.2.a.w"]}
  tfm.param @"h.2*+1.a.w" : tensor<2x3x3xf32>
    {dims = ["d", "d"], init = {kind = "ones"}, names = ["h.1.a.w", "h.3.a.w"]}
})mlir");
  EXPECT_EQ(report.total, 2 * 3 + 2 * 9);
  EXPECT_EQ(report.formula, "n*d**2/2 + n*d/2");
  const ModuleReport *h = findModule(report, "h");
  EXPECT_EQ(h->parameters, 24);
  EXPECT_EQ(h->layerParameters, (std::vector<int64_t>{3, 9}));
  EXPECT_EQ(h->layerFormulas, (std::vector<std::string>{"d", "d**2"}));
  const ModuleReport *odd = findModule(report, "h.2*+1.a");
  EXPECT_EQ(odd->instancePaths, (std::vector<std::string>{"h.1.a", "h.3.a"}));
  EXPECT_EQ(odd->totalParameters, 18);
  EXPECT_EQ(odd->totalFormula, "n*d**2/2");
}

// Words that do not amount to the dimension are replaced by the number.
TEST(ModelReport, NeverPrintsAFormulaThatIsWrong) {
  ModelReport report = reportOf(R"mlir(
module attributes {tfm.model = "M", tfm.hyperparameters = [{name = "d", value = 3 : i64}]} {
  tfm.param @w : tensor<5x3xf32> {dims = ["d", "d"], init = {kind = "ones"}}
  tfm.param @v : tensor<3xf32> {dims = ["unknown(d)"], init = {kind = "ones"}}
})mlir");
  EXPECT_EQ(report.tensors[0].formula, "5*d");
  EXPECT_EQ(report.tensors[1].formula, "3");
  EXPECT_EQ(report.formula, "5*d + 3");
  EXPECT_EQ(report.total, 18);
}

TEST(ModelReport, AModuleWithoutAModelIsAnError) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<TfmDialect, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>("", &context);
  llvm::Expected<ModelReport> report = makeReport(*module);
  ASSERT_FALSE(static_cast<bool>(report));
  EXPECT_EQ(llvm::toString(report.takeError()),
            "the module has no attribute tfm.model");
}
