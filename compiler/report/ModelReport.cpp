//===- ModelReport.cpp - what a model consists of and what it costs -------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/report/ModelReport.h"

#include "compiler/dialect/Attributes.h"
#include "compiler/dialect/LayerAlias.h"
#include "compiler/dialect/Programs.h"
#include "compiler/dialect/TfmDialect.h"
#include "compiler/report/Flops.h"
#include "compiler/support/Polynomial.h"
#include "compiler/transforms/ReadRecipe.h"
#include "compiler/transforms/SimplifyPatterns.h"
#include "compiler/transforms/StoreWeights.h"
#include "runtime/tfm_model.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>
#include <set>

using namespace mlir;
using namespace tfm;

namespace {

/// A part of a path that stands for the number of a layer: `*`, or `2*+1` for
/// the layers 1, 3, 5, ...; with what stands before it of layers that do not
/// begin with 0: `1-11.*`.
struct Star {
  /// From the dot before it to its end.
  size_t begin, end;
  int64_t period = 1, phase = 0;
  /// The number of the first layer, and where the path of the repeat ends.
  int64_t first = 0;
  size_t repeatEnd;
};

/// The names of formulas, which products list in this order.
std::vector<Polynomial>
namesOf(ArrayRef<std::pair<std::string, int64_t>> values) {
  std::vector<Polynomial> names;
  for (const auto &[name, value] : values)
    names.push_back(Polynomial::named(name, value, names.size()));
  return names;
}

/// Words of the frontend as a formula whose quotients cancel.
std::optional<Polynomial> parse(StringRef text, ArrayRef<Polynomial> names) {
  return Polynomial::parse(text, names, Polynomial::Quotients::Cancelled);
}

std::string print(const Polynomial &formula) {
  return formula.str(Polynomial::Style::ByName);
}

/// A `tfm.param` with what its repeats multiply it by.
struct ParamInfo {
  ParamOp op;
  StringRef path;
  /// Module that declares it.
  int owner = 0;
  int64_t parameters = 0;
  Polynomial formula;
};

/// Reads one module; the steps are called in the order of declaration.
class Reader {
public:
  explicit Reader(ModuleOp module) : module(module) {}

  llvm::Error readModel();
  void readModules();
  void readParams();
  void sumModules();
  void sumModel();
  void listTensors();
  void listValues();
  void listConstants();
  /// Fails where the recipe cannot be read.
  llvm::Error countAllFlops();

  ModelReport report;

private:
  StringRef text(DictionaryAttr dict, StringRef name) {
    auto attr = dict.getAs<StringAttr>(name);
    return attr ? attr.getValue() : StringRef();
  }
  int64_t number(DictionaryAttr dict, StringRef name) {
    auto attr = dict.getAs<IntegerAttr>(name);
    return attr ? attr.getInt() : 0;
  }
  /// The innermost module around a path: of a parameter its declarer.
  int enclosing(StringRef path);
  /// `text` as a formula, or the plain value where it does not amount to it.
  Polynomial formulaOf(StringRef text, int64_t value);
  /// The sum and the product; the plain `value` of it on overflow.
  Polynomial sum(const Polynomial &a, const Polynomial &b, int64_t value);
  Polynomial product(const Polynomial &a, const Polynomial &b, int64_t value);
  /// How many layers the `*` of `path` from `skip` on stand for, and in words.
  std::pair<int64_t, Polynomial> layersOf(StringRef path, unsigned skip);
  std::pair<int64_t, Polynomial> layersOf(StringRef path, const Star &star);
  /// The paths that the `*` of `path` stand for, in row-major order.
  std::vector<std::string> expand(StringRef path);
  /// Where products have the outputs of a parameter.
  std::vector<std::vector<std::string>> usesOf(ParamOp op,
                                               const ParamInfo &param);

  ModuleOp module;
  /// The hyperparameters that formulas are made of.
  std::vector<std::pair<std::string, int64_t>> integers;
  /// The same as polynomials.
  std::vector<Polynomial> names;
  llvm::StringMap<int> moduleOf;
  /// The number of layers of each repeat, and in words.
  llvm::StringMap<std::pair<int64_t, std::string>> repeats;
  std::vector<ParamInfo> params;
  /// Where `@forward` reads each.
  llvm::StringMap<llvm::SmallVector<GetParamOp>> reads;
};

} // namespace

std::optional<int64_t> tfm::firstLayer(StringRef part) {
  auto [first, last] = part.split('-');
  int64_t from = 0, to = 0;
  if (first.getAsInteger(10, from) || last.getAsInteger(10, to))
    return std::nullopt;
  return from;
}

static SmallVector<Star, 2> starsOf(StringRef path) {
  SmallVector<Star, 2> stars;
  for (size_t at = path.find('*'); at != StringRef::npos;
       at = path.find('*', at + 1)) {
    Star star;
    star.begin = star.repeatEnd = path.rfind('.', at);
    star.end = std::min(path.find('.', at), path.size());
    StringRef part = path.slice(star.begin + 1, star.end);
    auto [period, phase] = part.split("*+");
    if (period.getAsInteger(10, star.period) ||
        phase.getAsInteger(10, star.phase)) {
      star.period = 1;
      star.phase = 0;
    }
    size_t before = path.take_front(star.begin).rfind('.');
    if (before != StringRef::npos)
      if (auto first = firstLayer(path.slice(before + 1, star.begin))) {
        star.first = *first;
        star.begin = before;
      }
    stars.push_back(star);
  }
  return stars;
}

llvm::Error Reader::readModel() {
  auto name = module->getAttrOfType<StringAttr>(modelAttribute);
  if (!name)
    return llvm::createStringError("the module has no attribute tfm.model");
  report.model = name.str();
  if (auto source = module->getAttrOfType<StringAttr>(sourceAttribute))
    report.source = source.str();

  auto list = module->getAttrOfType<ArrayAttr>(hyperparametersAttribute);
  for (auto entry : list ? list.getAsRange<DictionaryAttr>()
                         : ArrayAttr::get(module.getContext(), {})
                               .getAsRange<DictionaryAttr>()) {
    Hyperparameter parameter;
    parameter.name = text(entry, "name").str();
    Attribute value = entry.get("value");
    if (auto flag = dyn_cast_or_null<BoolAttr>(value)) {
      parameter.value = flag.getValue();
    } else if (auto integer = dyn_cast_or_null<IntegerAttr>(value)) {
      parameter.value = integer.getInt();
      integers.emplace_back(parameter.name, integer.getInt());
    } else if (auto real = dyn_cast_or_null<FloatAttr>(value)) {
      parameter.value = real.getValueAsDouble();
    } else if (auto string = dyn_cast_or_null<StringAttr>(value)) {
      parameter.value = string.str();
    } else {
      return llvm::createStringError("the hyperparameter " + parameter.name +
                                     " has a value of no known kind");
    }
    report.hyperparameters.push_back(std::move(parameter));
  }
  names = namesOf(integers);
  return llvm::Error::success();
}

int Reader::enclosing(StringRef path) {
  while (!path.empty()) {
    path = path.contains('.') ? path.rsplit('.').first : StringRef();
    if (auto place = moduleOf.find(path); place != moduleOf.end())
      return place->second;
  }
  return 0;
}

void Reader::readModules() {
  ModuleReport root;
  root.module = report.model;
  report.modules.push_back(root);
  moduleOf[""] = 0;

  auto list = module->getAttrOfType<ArrayAttr>(modulesAttribute);
  if (!list)
    return;
  for (auto entry : list.getAsRange<DictionaryAttr>()) {
    StringRef path = text(entry, "path");
    if (path.empty()) {
      report.modules.front().file = text(entry, "file").str();
      report.modules.front().line = number(entry, "line");
      continue;
    }
    // The body of a repeat is told of with the repeat.
    if (path.rsplit('.').second.contains('*'))
      continue;
    ModuleReport member;
    member.path = path.str();
    member.module = text(entry, "module").str();
    member.file = text(entry, "file").str();
    member.line = number(entry, "line");
    member.count = number(entry, "count");
    if (member.count != 0) {
      member.countFormula = text(entry, "dims").str();
      repeats[path] = {member.count, member.countFormula};
    }
    member.parent = enclosing(path);
    member.depth = report.modules[member.parent].depth + 1;
    if (moduleOf.try_emplace(path, report.modules.size()).second)
      report.modules.push_back(std::move(member));
  }
}

Polynomial Reader::formulaOf(StringRef text, int64_t value) {
  if (std::optional<Polynomial> formula = parse(text, names))
    if (formula->evaluate() == value)
      return *formula;
  return Polynomial(value);
}

Polynomial Reader::sum(const Polynomial &a, const Polynomial &b,
                       int64_t value) {
  return Polynomial::add(a, b).value_or(Polynomial(value));
}

Polynomial Reader::product(const Polynomial &a, const Polynomial &b,
                           int64_t value) {
  return Polynomial::multiply(a, b).value_or(Polynomial(value));
}

std::pair<int64_t, Polynomial> Reader::layersOf(StringRef path, unsigned skip) {
  int64_t layers = 1;
  Polynomial formula(1);
  for (const Star &star : starsOf(path)) {
    if (skip > 0) {
      --skip;
      continue;
    }
    auto [count, inWords] = layersOf(path, star);
    layers *= count;
    formula = product(formula, inWords, layers);
  }
  return {layers, formula};
}

std::pair<int64_t, Polynomial> Reader::layersOf(StringRef path,
                                                const Star &star) {
  auto place = repeats.find(path.take_front(star.repeatEnd));
  if (place == repeats.end())
    return {1, Polynomial(1)};
  int64_t count = place->second.first / star.period;
  std::string inWords =
      ("(" + place->second.second + ")/" + Twine(star.period)).str();
  return {count, formulaOf(inWords, count)};
}

void Reader::readParams() {
  for (ParamOp op : module.getOps<ParamOp>()) {
    ParamInfo info{op, op.getSymName(), 0, 1, Polynomial(1)};
    info.owner = enclosing(info.path);
    ArrayRef<int64_t> shape =
        op.getTensorType().getShape().drop_front(op.getNumStackedDims());
    ArrayRef<Attribute> dims = op.getDims().getValue();
    for (auto [axis, size] : llvm::enumerate(shape)) {
      info.parameters *= size;
      StringRef words = axis < dims.size()
                            ? cast<StringAttr>(dims[axis]).getValue()
                            : StringRef();
      info.formula =
          product(info.formula, formulaOf(words, size), info.parameters);
    }
    params.push_back(std::move(info));
  }
}

std::vector<std::string> Reader::expand(StringRef path) {
  std::vector<std::string> paths = {""};
  size_t done = 0;
  for (const Star &star : starsOf(path)) {
    StringRef piece = path.slice(done, star.begin);
    int64_t count = layersOf(path, star).first;
    std::vector<std::string> longer;
    for (const std::string &prefix : paths)
      for (int64_t i = 0; i != count; ++i)
        longer.push_back((prefix + piece + "." +
                          Twine(star.first + i * star.period + star.phase))
                             .str());
    paths = std::move(longer);
    done = star.end;
  }
  for (std::string &prefix : paths)
    prefix += path.drop_front(done);
  return paths;
}

void Reader::sumModules() {
  std::vector<Polynomial> sums(report.modules.size());
  std::vector<std::vector<Polynomial>> layerSums(report.modules.size());
  for (auto [member, layers] : llvm::zip(report.modules, layerSums)) {
    member.instances = layersOf(member.path, 0).first;
    member.instancePaths = expand(member.path);
  }
  for (ParamInfo &param : params) {
    SmallVector<Star, 2> stars = starsOf(param.path);
    for (int i = param.owner; i != -1; i = report.modules[i].parent) {
      ModuleReport &member = report.modules[i];
      unsigned around = starsOf(member.path).size();
      auto [layers, inWords] = layersOf(param.path, around);
      int64_t count = layers * param.parameters;
      member.parameters += count;
      sums[i] = sum(sums[i], product(param.formula, inWords, count),
                    member.parameters);
      if (i == param.owner) {
        member.ownParameters += param.parameters;
        member.totalOwnParameters += count * member.instances;
      }
      if (member.count == 0)
        continue;
      const Star &star = stars[around];
      member.layerParameters.resize(star.period);
      layerSums[i].resize(star.period);
      auto [inner, innerWords] = layersOf(param.path, around + 1);
      count = inner * param.parameters;
      int64_t &layer = member.layerParameters[star.phase];
      layer += count;
      layerSums[i][star.phase] =
          sum(layerSums[i][star.phase],
              product(param.formula, innerWords, count), layer);
    }
    if (auto aliases = param.op.getAliases())
      for (auto alias : aliases->getAsRange<StringAttr>()) {
        auto &tied = report.modules[enclosing(alias.getValue())].tied;
        // Layers of one instance are it each.
        if (!llvm::is_contained(tied, param.path))
          tied.push_back(param.path.str());
      }
  }
  for (auto [member, formula, layers] :
       llvm::zip(report.modules, sums, layerSums)) {
    member.totalParameters = member.parameters * member.instances;
    member.formula = print(formula);
    member.totalFormula = print(product(
        formula, layersOf(member.path, 0).second, member.totalParameters));
    if (member.count != 0 && layers.empty()) {
      member.layerParameters.resize(1);
      layers.resize(1);
    }
    for (const Polynomial &layer : layers)
      member.layerFormulas.push_back(print(layer));
  }
}

void Reader::sumModel() {
  Polynomial total;
  for (ParamInfo &param : params) {
    auto [layers, inWords] = layersOf(param.path, 0);
    int64_t count = layers * param.parameters;
    report.total += count;
    if (param.op.getTrainable())
      report.trainable += count;
    report.bytes +=
        count * (param.op.getTensorType().getElementTypeBitWidth() / 8);
    total = sum(total, product(param.formula, inWords, count), report.total);
  }
  report.formula = print(total);
  // By the formula, as the derivative: a model with one more may break a
  // `require`.
  auto oneMore = [&](const std::string &name) -> std::optional<int64_t> {
    std::vector<std::pair<std::string, int64_t>> values = integers;
    for (auto &[other, value] : values)
      value += other == name;
    std::optional<Polynomial> formula = parse(report.formula, namesOf(values));
    std::optional<int64_t> sum = formula ? formula->evaluate() : std::nullopt;
    return sum ? std::optional(*sum - report.total) : std::nullopt;
  };
  for (const Polynomial &itself : names) {
    std::string name = itself.name().str();
    double slope = total.differentiate(name);
    if (slope == 0)
      continue;
    report.sensitivities.push_back(
        {name, slope,
         slope * itself.evaluateReal() / static_cast<double>(report.total),
         oneMore(name)});
  }
  llvm::sort(report.sensitivities, [](const auto &a, const auto &b) {
    double x = std::abs(a.elasticity), y = std::abs(b.elasticity);
    return x != y ? x > y : a.name < b.name;
  });
}

//===----------------------------------------------------------------------===//
// Tensors and where they are used
//===----------------------------------------------------------------------===//

/// Where in the user's program an op comes from: the path of the module whose
/// `forward` holds it, and the line there.
static std::pair<StringRef, unsigned> placeOf(Location location) {
  StringRef path;
  bool known = false;
  if (auto named = dyn_cast<NameLoc>(location)) {
    path = named.getName().getValue();
    known = true;
    location = named.getChildLoc();
  }
  auto file = dyn_cast<FileLineColLoc>(location);
  return known && file ? std::make_pair(path, file.getLine())
                       : std::make_pair(StringRef(), 0U);
}

/// Calls `visit` for every op that computes with a value, looking through the
/// arguments of repeats.
static void forEachUser(Value value,
                        llvm::function_ref<void(Operation *)> visit) {
  // Uses are listed last first.
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : value.getUses())
    uses.push_back(&use);
  for (OpOperand *use : llvm::reverse(uses)) {
    auto repeat = dyn_cast<RepeatOp>(use->getOwner());
    if (!repeat) {
      visit(use->getOwner());
      continue;
    }
    // The body's arguments: the layer, then the operands in order.
    forEachUser(repeat.getBlock()->getArgument(1 + use->getOperandNumber()),
                visit);
  }
}

/// For each layer of a parameter, who uses it in `@forward`.
std::vector<std::vector<std::string>> Reader::usesOf(ParamOp op,
                                                     const ParamInfo &param) {
  size_t layers = op.getLayerNames().size();
  std::vector<std::vector<std::string>> uses(layers);
  auto note = [&](size_t layer, std::string use) {
    if (!llvm::is_contained(uses[layer], use))
      uses[layer].push_back(std::move(use));
  };
  // Its declarer, as long as something uses the tensor there or no op says
  // where it comes from.
  StringRef declarer =
      param.path.contains('.') ? param.path.rsplit('.').first : StringRef();
  std::vector<std::string> owners = expand(declarer);

  for (GetParamOp get : reads.lookup(op.getSymName())) {
    forEachUser(get.getValue(), [&](Operation *user) {
      auto [path, line] = placeOf(user->getLoc());
      if (line == 0 || path == declarer) {
        for (size_t layer = 0; layer != layers; ++layer)
          note(layer, owners[layer]);
        return;
      }
      // A module that holds the tensor under another name counts as a user;
      // any other place is named by its line.
      std::string use = path.str();
      bool tiedThere = false;
      if (auto aliases = op.getAliases())
        for (auto alias : aliases->getAsRange<StringAttr>())
          tiedThere |= alias.getValue().rsplit('.').first == path;
      if (!tiedThere)
        use += (use.empty() ? "forward:" : ".forward:") + std::to_string(line);
      for (size_t layer = 0; layer != layers; ++layer)
        note(layer, use);
    });
  }
  return uses;
}

void Reader::listTensors() {
  auto forward = findProgram(module, ProgramKind::Forward);
  if (forward)
    for (GetParamOp get : forward.getOps<GetParamOp>())
      reads[get.getParam()].push_back(get);
  for (ParamInfo &param : params) {
    ParamOp op = param.op;
    RankedTensorType type = op.getTensorType();
    TensorReport tensor;
    tensor.pattern = param.path.str();
    tensor.shape = type.getShape().drop_front(op.getNumStackedDims()).vec();
    for (Attribute dim : op.getDims())
      tensor.dims.push_back(cast<StringAttr>(dim).str());
    tensor.dtype = dtypeOf(type.getElementType());
    tensor.parameters = param.parameters;
    tensor.formula = print(param.formula);
    tensor.trainable = op.getTrainable();
    tensor.rate = op.getTrainable() ? op.getRateOrOne() : 1;
    tensor.noDecay = op.getTrainable() && op.getNoDecay();
    if (forward)
      tensor.outputAxis = outputAxisOf(op, reads.lookup(op.getSymName()));
    auto uses = usesOf(op, param);
    for (auto [layer, name] : llvm::enumerate(op.getLayerNames())) {
      tensor.name = name;
      tensor.usedBy = uses[layer];
      tensor.aliases.clear();
      if (auto aliases = op.getAliases())
        for (auto alias : aliases->getAsRange<StringAttr>())
          tensor.aliases.push_back(layerAlias(alias, op, layer));
      report.tensors.push_back(tensor);
    }
  }
}

//===----------------------------------------------------------------------===//
// Values and FLOPs
//===----------------------------------------------------------------------===//

void Reader::listValues() {
  auto function = findProgram(module, ProgramKind::Loss);
  if (!function)
    function = findProgram(module, ProgramKind::Forward);
  if (!function)
    return;
  auto list = function->getAttrOfType<ArrayAttr>(shapesAttribute);
  if (!list)
    return;
  for (auto words : list.getAsRange<DictionaryAttr>()) {
    ValueReport value;
    value.path = text(words, "path").str();
    value.name = text(words, "name").str();
    value.role = text(words, "role").str();
    if (auto shape = words.getAs<DenseI64ArrayAttr>("shape"))
      value.shape = shape.asArrayRef().vec();
    if (auto dims = words.getAs<ArrayAttr>("dims"))
      for (auto dim : dims.getAsRange<StringAttr>())
        value.dims.push_back(dim.str());
    value.file = text(words, "file").str();
    value.line = number(words, "line");
    value.instancePaths = expand(value.path);
    report.values.push_back(std::move(value));
  }
}

void Reader::listConstants() {
  std::set<std::pair<std::string, std::string>> seen;
  auto words = [](ArrayAttr list) {
    std::vector<std::string> result;
    for (auto word : list.getAsRange<StringAttr>())
      result.push_back(word.str());
    return result;
  };
  module.walk([&](ConstantOp op) {
    auto about = op->getAttrOfType<DictionaryAttr>(constAttribute);
    auto values = dyn_cast<DenseElementsAttr>(op.getValue());
    if (!about || !values)
      return;
    ConstantReport constant;
    constant.path = text(about, "path").str();
    constant.name = text(about, "name").str();
    if (!seen.insert({constant.path, constant.name}).second)
      return;
    constant.formula = text(about, "formula").str();
    constant.indices = words(about.getAs<ArrayAttr>("indices"));
    constant.dims = words(about.getAs<ArrayAttr>("dims"));
    constant.shape = values.getType().getShape().vec();
    if (constant.shape.size() > constant.dims.size()) {
      constant.indices.insert(constant.indices.begin(), "layer");
      constant.dims.insert(constant.dims.begin(),
                           std::to_string(constant.shape.front()));
    }
    if (values.getElementType().isInteger(1))
      llvm::append_range(constant.values, values.getValues<bool>());
    else
      llvm::append_range(constant.values, values.getValues<float>());
    report.constants.push_back(std::move(constant));
  });
}

/// Puts the counts into `list`, the largest first, and returns their sum.
static FlopCount collect(const llvm::StringMap<FlopCount> &counts,
                         FlopsByKind &list) {
  FlopCount sum = 0;
  for (const auto &entry : counts) {
    list.emplace_back(entry.getKey().str(), entry.getValue());
    sum += entry.getValue();
  }
  llvm::sort(list, [](const auto &a, const auto &b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return sum;
}

/// Sets how many tokens a function reads, those of its input `tokens`, else as
/// many as it gives rows for, and what they are.
static void countTokens(func::FuncOp forward, FlopsReport &flops) {
  auto result = cast<RankedTensorType>(forward.getResultTypes().front());
  ArrayRef<int64_t> rows = result.getShape().drop_back(result.getRank() > 1);
  if (auto tokens = findArgument(forward, TFM_IN_TOKENS))
    rows =
        cast<RankedTensorType>(forward.getArgumentTypes()[*tokens]).getShape();
  else
    flops.unit = rows.size() > 1 ? "position" : "example";
  flops.forwardTokens = 1;
  for (int64_t size : rows)
    flops.forwardTokens *= size;
}

/// A function without what nobody uses, which costs nothing.
static OwningOpRef<func::FuncOp> usedOf(func::FuncOp function) {
  OwningOpRef<func::FuncOp> used(function.clone());
  removeUnused(*used);
  return used;
}

llvm::Error Reader::countAllFlops() {
  FlopsReport &flops = report.flops;
  if (auto forward = findProgram(module, ProgramKind::Forward);
      forward && forward.getNumResults() != 0) {
    countTokens(forward, flops);
    llvm::StringMap<FlopCount> counts;
    countFlops(usedOf(forward)->getBody(), 1, counts);
    flops.forwardPerToken =
        collect(counts, flops.forward) / flops.forwardTokens;
  }
  if (auto train = findProgram(module, ProgramKind::Train)) {
    FailureOr<int64_t> steps = microSteps(module);
    if (failed(steps))
      return llvm::createStringError("the model's recipe cannot be read");
    llvm::StringMap<FlopCount> counts;
    countFlops(usedOf(train)->getBody(), *steps, counts);
    for (ProgramKind kind :
         {ProgramKind::UpdateDecayed, ProgramKind::UpdatePlain})
      if (auto update = findProgram(module, kind))
        countFlops(update.getBody(), 1, counts);
    flops.trainStep = collect(counts, flops.train);
  }
  return tfm::countProducts(module, flops);
}

llvm::Error tfm::countProducts(ModuleOp module, FlopsReport &flops) {
  flops.forwardProducts.clear();
  flops.trainProducts.clear();
  if (auto forward = findProgram(module, ProgramKind::Forward)) {
    llvm::StringMap<FlopCount> counts;
    countProducts(usedOf(forward)->getBody(), 1, counts);
    collect(counts, flops.forwardProducts);
  }
  if (auto train = findProgram(module, ProgramKind::Train)) {
    FailureOr<int64_t> steps = microSteps(module);
    if (failed(steps))
      return llvm::createStringError("the model's recipe cannot be read");
    llvm::StringMap<FlopCount> counts;
    countProducts(usedOf(train)->getBody(), *steps, counts);
    collect(counts, flops.trainProducts);
  }
  return llvm::Error::success();
}

llvm::Expected<ModelReport> tfm::makeReport(ModuleOp module,
                                            const ReportOptions &options) {
  Reader reader(module);
  if (llvm::Error error = reader.readModel())
    return std::move(error);
  reader.readModules();
  reader.readParams();
  reader.sumModules();
  reader.sumModel();
  reader.listTensors();
  if (options.values)
    reader.listValues();
  if (options.constants)
    reader.listConstants();
  if (options.flops)
    if (llvm::Error error = reader.countAllFlops())
      return std::move(error);
  return std::move(reader.report);
}
