//===- Emitter.cpp - writes the tfm dialect -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/elaborate/Emitter.h"

#include "compiler/dialect/Attributes.h"
#include "compiler/dialect/IntegerRange.h"
#include "compiler/dialect/TfmDialect.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace tfm;
using namespace mlir;
using llvm::StringRef;
using Handle = Emitter::Handle;

namespace {
/// A function or a repeat that is being built.
struct OpenBlock {
  Block *block = nullptr;
  const Node *key = nullptr;
  int64_t count = 0;
  SmallVector<mlir::Value> carried;
  SmallVector<mlir::Value> stacked;
  SmallVector<mlir::Value> shared;
  llvm::DenseMap<mlir::Value, mlir::Value> stackedArgs;
  llvm::DenseMap<mlir::Value, mlir::Value> sharedArgs;
};

mlir::Value toValue(Handle handle) {
  return mlir::Value::getFromOpaquePointer(handle);
}
Handle toHandle(mlir::Value value) { return value.getAsOpaquePointer(); }
} // namespace

struct Emitter::Impl {
  explicit Impl(MLIRContext &context)
      : context(context), builder(&context),
        module(ModuleOp::create(UnknownLoc::get(&context))) {
    builder.setInsertionPointToEnd(&nowhere);
  }

  ~Impl() { abandon(); }

  void abandon() {
    while (open.size() > 1) {
      delete open.back().block;
      open.pop_back();
    }
    open.clear();
    builder.setInsertionPointToEnd(&nowhere);
    if (function)
      function.erase();
    function = nullptr;
    ranges = IntegerRanges();
    params.clear();
    constants.clear();
    shapes.clear();
  }

  Location place() {
    if (!located && !file)
      located = UnknownLoc::get(&context);
    if (!located)
      located = NameLoc::get(builder.getStringAttr(node ? node->path() : ""),
                             FileLineColLoc::get(&context, file->name(),
                                                 file->line(offset),
                                                 file->column(offset)));
    return *located;
  }

  Type elementType(Elem elem) {
    switch (elem) {
    case Elem::Float:
      return builder.getF32Type();
    case Elem::Int:
      return builder.getI32Type();
    case Elem::Bool:
      return builder.getI1Type();
    }
    llvm_unreachable("every kind of elements has a type");
  }

  RankedTensorType type(Elem elem, Shape shape) {
    return RankedTensorType::get(shape, elementType(elem));
  }

  RankedTensorType typeOf(mlir::Value value) {
    return llvm::cast<RankedTensorType>(value.getType());
  }

  /// The value as the innermost block sees it.
  mlir::Value use(mlir::Value value) {
    return open.empty() ? value : use(value, open.size() - 1);
  }

  mlir::Value use(mlir::Value value, size_t depth) {
    if (depth == 0 || value.getParentBlock() == open[depth].block)
      return value;
    OpenBlock &f = open[depth];
    mlir::Value outer = use(value, depth - 1);
    mlir::Value &arg = f.sharedArgs[outer];
    if (!arg) {
      f.shared.push_back(outer);
      arg = f.block->addArgument(outer.getType(), place());
    }
    return arg;
  }

  /// One layer's slice of a stacked value that depth - 1 sees.
  mlir::Value stack(mlir::Value value, size_t depth) {
    OpenBlock &f = open[depth];
    mlir::Value &arg = f.stackedArgs[value];
    if (!arg) {
      f.stacked.push_back(value);
      RankedTensorType whole = typeOf(value);
      auto layer = RankedTensorType::get(whole.getShape().drop_front(),
                                         whole.getElementType());
      arg = f.block->insertArgument(f.carried.size() + f.stacked.size(), layer,
                                    place());
    }
    return arg;
  }

  /// Brings a value with one leading dimension per repeat of `keys` from the
  /// function to the innermost block.
  mlir::Value bring(mlir::Value value, ArrayRef<const Node *> keys) {
    int64_t axis = 0;
    for (const Node *key : keys) {
      if (auto turn = turns.find(key); turn != turns.end())
        value = pick(value, axis, turn->second);
      else if (key)
        ++axis;
    }
    for (size_t i = 1; i < open.size(); ++i)
      value = llvm::is_contained(keys, open[i].key) ? stack(value, i)
                                                    : use(value, i);
    return value;
  }

  /// Of a value of the function what lies at `index` of an axis.
  mlir::Value pick(mlir::Value value, int64_t axis, int64_t index) {
    return atFunction([&]() -> mlir::Value {
      RankedTensorType whole = typeOf(value);
      SmallVector<int64_t> shape(whole.getShape());
      shape.erase(shape.begin() + axis);
      return ReshapeOp::create(
          builder, place(), whole.clone(shape),
          SliceOp::create(builder, place(), value, axis, index, 1));
    });
  }

  /// The value as the innermost block sees it, null for null.
  mlir::Value use(Handle handle) {
    return handle ? use(toValue(handle)) : mlir::Value();
  }

  /// The first result of a new op.
  template <typename Op, typename... Args> Handle make(const Args &...args) {
    return toHandle(Op::create(builder, place(), args...)->getResult(0));
  }

  /// An op by its name, whose result has the type of its operands.
  Handle makeNamed(StringRef name, ValueRange operands) {
    return toHandle(builder
                        .create(place(), builder.getStringAttr("tfm." + name),
                                operands, operands.front().getType())
                        ->getResult(0));
  }

  mlir::Value layer() {
    return open.size() > 1 ? open.back().block->getArgument(0) : mlir::Value();
  }

  ArrayAttr strings(ArrayRef<std::string> texts) {
    SmallVector<Attribute> attrs;
    for (const std::string &text : texts)
      attrs.push_back(builder.getStringAttr(text));
    return builder.getArrayAttr(attrs);
  }

  ArrayAttr dimStrings(ArrayRef<Dim> dims) {
    SmallVector<Attribute> attrs;
    for (const Dim &dim : dims)
      attrs.push_back(builder.getStringAttr(dim.str()));
    return builder.getArrayAttr(attrs);
  }

  /// Inserts at the end of the function rather than of the current repeat;
  /// where there is none, by a mistake, with what such mistakes emit.
  template <typename Fn> mlir::Value atFunction(Fn &&fn) {
    OpBuilder::InsertionGuard guard(builder);
    if (!open.empty())
      builder.setInsertionPointToEnd(open[0].block);
    return fn();
  }

  MLIRContext &context;
  OpBuilder builder;
  /// Takes what mistakes emit outside of functions, such as a product of
  /// tensors for a dimension.
  Block nowhere;
  OwningOpRef<ModuleOp> module;
  /// Of what is made next (`at`).
  const Node *node = nullptr;
  const SourceFile *file = nullptr;
  uint32_t offset = 0;
  std::optional<Location> located;
  func::FuncOp function;
  std::vector<OpenBlock> open;
  /// Of the repeats of which one layer is called, the turn that it is.
  llvm::DenseMap<const Node *, int64_t> turns;
  llvm::DenseMap<const Param *, mlir::Value> params;
  llvm::DenseMap<const Const *, mlir::Value> constants;
  SmallVector<Attribute> hyperparameters;
  SmallVector<Attribute> modules;
  /// Of the function that is being built.
  llvm::SetVector<Attribute> shapes;
  /// What is known of the values of functions that are finished.
  IntegerRanges ranges;
};

static SmallVector<int64_t> numbers(ArrayRef<Dim> dims) {
  SmallVector<int64_t> shape;
  for (const Dim &dim : dims)
    shape.push_back(dim.value());
  return shape;
}

Emitter::Emitter(MLIRContext &context) {
  context.loadDialect<TfmDialect, func::FuncDialect>();
  impl = std::make_unique<Impl>(context);
}
Emitter::~Emitter() = default;

void Emitter::at(const Node *node, const SourceFile &file, uint32_t offset) {
  impl->node = node;
  impl->file = &file;
  impl->offset = offset;
  impl->located.reset();
}

//===----------------------------------------------------------------------===//
// Functions and repeats
//===----------------------------------------------------------------------===//

std::vector<Handle> Emitter::beginFunction(StringRef name,
                                           ArrayRef<Input> inputs) {
  Impl &m = *impl;
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attrs;
  for (const Input &input : inputs) {
    types.push_back(m.type(input.elem, numbers(input.dims)));
    attrs.push_back(m.builder.getDictionaryAttr(
        {{m.builder.getStringAttr(nameAttribute),
          m.builder.getStringAttr(input.name)},
         {m.builder.getStringAttr(dimsAttribute), m.dimStrings(input.dims)}}));
  }
  m.builder.setInsertionPointToEnd(m.module->getBody());
  m.function = func::FuncOp::create(m.builder, m.place(), name,
                                    m.builder.getFunctionType(types, {}));
  m.function.setAllArgAttrs(attrs);
  OpenBlock opened;
  opened.block = m.function.addEntryBlock();
  m.open.push_back(opened);
  m.builder.setInsertionPointToEnd(opened.block);
  std::vector<Handle> handles;
  for (BlockArgument arg : opened.block->getArguments())
    handles.push_back(toHandle(arg));
  return handles;
}

void Emitter::endFunction(ArrayRef<Handle> results) {
  Impl &m = *impl;
  SmallVector<mlir::Value> values;
  SmallVector<Type> types;
  for (Handle handle : results) {
    values.push_back(toValue(handle));
    types.push_back(values.back().getType());
  }
  func::ReturnOp::create(m.builder, m.place(), values);
  m.function.setFunctionType(m.builder.getFunctionType(
      m.function.getFunctionType().getInputs(), types));
  m.function->setAttr(shapesAttribute,
                      m.builder.getArrayAttr(m.shapes.getArrayRef()));
  m.function = nullptr;
  m.open.clear();
  m.params.clear();
  m.constants.clear();
  m.shapes.clear();
  m.builder.setInsertionPointToEnd(&m.nowhere);
}

void Emitter::abandonFunction() { impl->abandon(); }

std::vector<Handle> Emitter::beginRepeat(const Node *key, int64_t count,
                                         ArrayRef<Handle> carried) {
  Impl &m = *impl;
  OpenBlock opened;
  opened.block = new Block();
  opened.key = key;
  opened.count = count;
  opened.block->addArgument(m.builder.getIndexType(), m.place());
  std::vector<Handle> arguments;
  for (Handle value : carried) {
    opened.carried.push_back(m.use(toValue(value)));
    arguments.push_back(toHandle(
        opened.block->addArgument(opened.carried.back().getType(), m.place())));
  }
  m.open.push_back(std::move(opened));
  m.builder.setInsertionPointToEnd(m.open.back().block);
  return arguments;
}

std::vector<Handle> Emitter::endRepeat(ArrayRef<Handle> carried) {
  Impl &m = *impl;
  SmallVector<mlir::Value> next;
  for (Handle value : carried)
    next.push_back(m.use(toValue(value)));
  YieldOp::create(m.builder, m.place(), next);
  OpenBlock opened = std::move(m.open.back());
  m.open.pop_back();
  m.builder.setInsertionPointToEnd(m.open.back().block);
  auto repeat = RepeatOp::create(
      m.builder, m.place(), mlir::ValueRange(opened.carried).getTypes(),
      static_cast<uint64_t>(opened.count), /*reverse=*/false, opened.carried,
      opened.stacked, opened.shared, /*order=*/nullptr);
  repeat.getBody().push_back(opened.block);
  std::vector<Handle> results;
  for (mlir::Value result : repeat.getResults())
    results.push_back(toHandle(result));
  return results;
}

void Emitter::abandonRepeat() {
  Impl &m = *impl;
  delete m.open.back().block;
  m.open.pop_back();
  m.builder.setInsertionPointToEnd(m.open.back().block);
}

bool Emitter::insideRepeat(const Node *key) const {
  return impl->turns.contains(key) ||
         llvm::any_of(impl->open, [&](const OpenBlock &opened) {
           return opened.key == key;
         });
}

void Emitter::beginLayer(const Node *repeat, int64_t turn) {
  impl->turns[repeat] = turn;
}

void Emitter::endLayer(const Node *repeat) { impl->turns.erase(repeat); }

//===----------------------------------------------------------------------===//
// Leaves
//===----------------------------------------------------------------------===//

static RankedTensorType parameterType(OpBuilder &builder, const Param &param) {
  SmallVector<int64_t> shape;
  for (const Node *repeat : param.owner->repeats())
    shape.push_back(repeat->iterations());
  llvm::append_range(shape, numbers(param.dims));
  return RankedTensorType::get(shape, builder.getF32Type());
}

Handle Emitter::param(const Param &param) {
  Impl &m = *impl;
  mlir::Value &value = m.params[&param];
  if (!value)
    value = m.atFunction([&]() -> mlir::Value {
      return GetParamOp::create(m.builder, m.place(),
                                parameterType(m.builder, param), param.path());
    });
  SmallVector<const Node *> keys;
  for (const Node *repeat : param.owner->repeats())
    keys.push_back(repeat);
  return toHandle(m.bring(value, keys));
}

/// What a report says of a `const`, beside its values.
static DictionaryAttr describe(OpBuilder &b, const Const &constant,
                               ArrayAttr dims, StringRef formula) {
  SmallVector<StringRef> indices;
  for (const ast::IndexVariable &index : constant.decl->indices)
    indices.push_back(index.name);
  auto entry = [&](StringRef name, Attribute value) {
    return b.getNamedAttr(name, value);
  };
  return b.getDictionaryAttr(
      {entry("path", b.getStringAttr(constant.owner ? constant.owner->path()
                                                    : std::string())),
       entry("name", b.getStringAttr(constant.decl->name)),
       entry("indices", b.getStrArrayAttr(indices)), entry("dims", dims),
       entry("formula", b.getStringAttr(formula))});
}

static DenseElementsAttr splatAttr(RankedTensorType type, double value) {
  Type element = type.getElementType();
  if (element.isF32())
    return DenseElementsAttr::get(type, static_cast<float>(value));
  if (element.isInteger(1))
    return DenseElementsAttr::get(type, value != 0);
  if (!element.isInteger(32))
    llvm::report_fatal_error("a constant of elements of no known type");
  return DenseElementsAttr::get(type, static_cast<int32_t>(value));
}

/// Truth values: what is not 0 is true.
template <typename Number>
static DenseElementsAttr truthsAttr(RankedTensorType type,
                                    ArrayRef<Number> values) {
  return DenseElementsAttr::get(
      type, ArrayRef<bool>(llvm::map_to_vector(
                values, [](Number value) { return value != 0; })));
}

Handle Emitter::constant(const Const &constant, StringRef formula) {
  Impl &m = *impl;
  SmallVector<int64_t> shape = numbers(constant.dims);
  if (constant.perLayer)
    shape.insert(shape.begin(), constant.perLayer->iterations());
  // Outside of functions nothing is kept for the next of them.
  mlir::Value unkept;
  mlir::Value &value = m.open.empty() ? unkept : m.constants[&constant];
  if (!value)
    value = m.atFunction([&]() -> mlir::Value {
      RankedTensorType type = m.type(constant.elem, shape);
      ArrayRef<float> values(constant.values);
      bool isWhole =
          type.getNumElements() == static_cast<int64_t>(values.size());
      auto data = !isWhole ? splatAttr(type, 0)
                  : constant.elem == Elem::Bool
                      ? truthsAttr(type, values)
                      : DenseElementsAttr::get(type, values);
      auto op = ConstantOp::create(m.builder, m.place(), data);
      op->setAttr(
          constAttribute,
          describe(m.builder, constant, m.dimStrings(constant.dims), formula));
      return op;
    });
  return toHandle(m.bring(value, {constant.perLayer}));
}

Handle Emitter::splat(double value, Elem elem, Shape shape) {
  Impl &m = *impl;
  return toHandle(ConstantOp::create(m.builder, m.place(),
                                     splatAttr(m.type(elem, shape), value))
                      .getResult());
}

Handle Emitter::perLayer(const Node *key, ArrayRef<double> values, Elem elem) {
  Impl &m = *impl;
  RankedTensorType type = m.type(elem, {static_cast<int64_t>(values.size())});
  mlir::Value value = m.atFunction([&]() -> mlir::Value {
    DenseElementsAttr data;
    if (elem == Elem::Float) {
      data = DenseElementsAttr::get(
          type, ArrayRef<float>(llvm::map_to_vector(
                    values, [](double v) { return static_cast<float>(v); })));
    } else if (elem == Elem::Int) {
      data = DenseElementsAttr::get(
          type, ArrayRef<int32_t>(llvm::map_to_vector(
                    values, [](double v) { return static_cast<int32_t>(v); })));
    } else {
      data = truthsAttr(type, values);
    }
    return ConstantOp::create(m.builder, m.place(), data);
  });
  return toHandle(m.bring(value, {key}));
}

Handle Emitter::iota(int64_t axis, Shape shape) {
  return impl->make<IotaOp>(impl->type(Elem::Int, shape), axis);
}

Handle Emitter::positions(Handle tokens) {
  return impl->make<PositionsOp>(impl->use(tokens));
}

//===----------------------------------------------------------------------===//
// Elementwise and shapes
//===----------------------------------------------------------------------===//

Handle Emitter::unary(StringRef name, Handle x) {
  return impl->makeNamed(name, impl->use(x));
}

Handle Emitter::binary(StringRef name, Handle a, Handle b) {
  return impl->makeNamed(name, {impl->use(a), impl->use(b)});
}

Handle Emitter::compare(StringRef kind, Handle a, Handle b) {
  return impl->make<CompareOp>(*symbolizeCompareKind(kind), impl->use(a),
                               impl->use(b));
}

Handle Emitter::select(Handle condition, Handle a, Handle b) {
  return impl->make<SelectOp>(impl->use(condition), impl->use(a), impl->use(b));
}

Handle Emitter::cast(Handle x, Elem elem) {
  mlir::Value value = impl->use(x);
  return impl->make<CastOp>(impl->type(elem, impl->typeOf(value).getShape()),
                            value);
}

Handle Emitter::broadcast(Handle x, Shape shape) {
  RankedTensorType type = impl->typeOf(toValue(x));
  if (type.getShape() == shape)
    return x;
  return impl->make<BroadcastOp>(type.clone(shape), impl->use(x));
}

Handle Emitter::reshape(Handle x, Shape shape) {
  RankedTensorType type = impl->typeOf(toValue(x));
  if (type.getShape() == shape)
    return x;
  return impl->make<ReshapeOp>(type.clone(shape), impl->use(x));
}

Handle Emitter::transpose(Handle x, ArrayRef<int64_t> permutation) {
  if (llvm::is_sorted(permutation))
    return x;
  return impl->make<TransposeOp>(impl->use(x), permutation);
}

Handle Emitter::slice(Handle x, int64_t axis, int64_t start, int64_t size) {
  return impl->make<SliceOp>(impl->use(x), axis, start, size);
}

Handle Emitter::concat(ArrayRef<Handle> xs, int64_t axis) {
  auto values = llvm::map_to_vector(xs, [&](Handle x) { return impl->use(x); });
  return impl->make<ConcatOp>(values, axis);
}

//===----------------------------------------------------------------------===//
// Reductions, products, attention
//===----------------------------------------------------------------------===//

Handle Emitter::reduceSum(Handle x, int64_t axis) {
  return impl->make<ReduceSumOp>(impl->use(x), axis);
}

Handle Emitter::reduceMax(Handle x, int64_t axis) {
  return impl->make<ReduceMaxOp>(impl->use(x), axis, /*keeps_nan=*/true);
}

Handle Emitter::normalize(Handle x, double eps) {
  return impl->make<NormalizeOp>(impl->use(x), llvm::APFloat(eps));
}

Handle Emitter::rmsNormalize(Handle x, double eps) {
  return impl->make<RmsNormalizeOp>(impl->use(x), llvm::APFloat(eps));
}

std::vector<Handle> Emitter::op(StringRef name, ArrayRef<Handle> operands,
                                Integers attributes) {
  Impl &m = *impl;
  OperationState state(m.place(), ("tfm." + name).str());
  for (Handle operand : operands)
    state.addOperands(m.use(operand));
  SmallVector<NamedAttribute> named;
  for (const auto &[key, value] : attributes)
    named.push_back(
        m.builder.getNamedAttr(key, m.builder.getI64IntegerAttr(value)));
  DictionaryAttr dictionary = m.builder.getDictionaryAttr(named);
  // The op's own storage for attributes, for as long as its types are inferred.
  // Where there are none they are made there, too, in no bytes of it.
  std::vector<std::max_align_t> storage(1 + state.name.getOpPropertyByteSize() /
                                                sizeof(std::max_align_t));
  OpaqueProperties properties(storage.data());
  state.name.initOpProperties(properties, OpaqueProperties(nullptr));
  bool fits = true;
  if (!attributes.empty()) {
    fits = succeeded(state.name.setOpPropertiesFromAttribute(
        state.name, properties, dictionary,
        [&] { return mlir::emitError(state.location); }));
    state.propertiesAttr = dictionary;
  }
  fits = fits &&
         succeeded(
             state.name.getInterface<InferTypeOpInterface>()->inferReturnTypes(
                 &m.context, state.location, state.operands, dictionary,
                 properties, {}, state.types));
  state.name.destroyOpProperties(properties);
  if (!fits)
    llvm::report_fatal_error("a call of `" + name + "` was not checked");
  std::vector<Handle> results;
  for (mlir::Value result : m.builder.create(state)->getResults())
    results.push_back(toHandle(result));
  return results;
}

Handle Emitter::matmul(Handle a, Handle b) {
  return impl->make<MatmulOp>(impl->use(a), impl->use(b));
}

Handle Emitter::gather(Handle table, Handle ids) {
  return impl->make<GatherOp>(impl->use(table), impl->use(ids));
}

std::optional<std::pair<int64_t, int64_t>>
Emitter::idsOutside(Handle gathered) {
  auto op = toValue(gathered).getDefiningOp<GatherOp>();
  IntegerRange ids = impl->ranges.of(op.getIds());
  int64_t rows = impl->typeOf(op.getTable()).getDimSize(0);
  if (ids.isGiven || (ids.low >= 0 && ids.high < rows))
    return std::nullopt;
  return std::pair(ids.low, ids.high);
}

bool Emitter::looksUp(Handle gathered, Handle given, int64_t id) {
  auto op = toValue(gathered).getDefiningOp<GatherOp>();
  if (!op)
    return false;
  SetVector<Operation *> users;
  mlir::getForwardSlice(toValue(given), &users);
  if (!users.contains(op))
    return false;
  IntegerRange ids = impl->ranges.of(op.getIds());
  return id < 0 ? ids.low < 0
                : ids.high >= impl->typeOf(op.getTable()).getDimSize(0);
}

int64_t Emitter::countTokens(Handle &least) {
  Operation *op = nullptr;
  int64_t count = tfm::countTokens(*impl->module, IntegerRange::highest, &op);
  least = op ? toHandle(op->getResult(0)) : nullptr;
  return count;
}

Handle Emitter::attention(const Attention &options) {
  Impl &m = *impl;
  OpBuilder &b = m.builder;
  bool drops = options.dropout > 0;
  mlir::Value layer = drops ? m.layer() : mlir::Value();
  return m.make<AttentionOp>(
      m.use(options.q), m.use(options.k), m.use(options.v), m.use(options.mask),
      /*start=*/mlir::Value(), layer, /*key_scale=*/mlir::Value(),
      /*value_scale=*/mlir::Value(), m.use(options.distanceBias),
      options.causal ? b.getUnitAttr() : UnitAttr(),
      b.getF64FloatAttr(options.scale),
      options.window ? b.getI64IntegerAttr(*options.window) : IntegerAttr(),
      options.softcap ? b.getF64FloatAttr(*options.softcap) : FloatAttr(),
      drops ? b.getF64FloatAttr(options.dropout) : FloatAttr(),
      drops ? b.getI64IntegerAttr(options.site) : IntegerAttr());
}

Handle Emitter::rope(const Rope &options) {
  Impl &m = *impl;
  OpBuilder &b = m.builder;
  return m.make<RopeOp>(
      m.use(options.x), m.use(options.positions),
      b.getF64FloatAttr(options.base), b.getI64IntegerAttr(options.dims),
      options.interleaved ? b.getUnitAttr() : UnitAttr(),
      /*inverse=*/UnitAttr(),
      options.frequencies.empty() ? DenseF64ArrayAttr()
                                  : b.getDenseF64ArrayAttr(options.frequencies),
      options.amplitude ? b.getF64FloatAttr(*options.amplitude) : FloatAttr());
}

Handle Emitter::dropout(Handle x, double rate, int64_t site) {
  return impl->make<DropoutOp>(impl->use(x), impl->layer(), llvm::APFloat(rate),
                               site);
}

Handle Emitter::uniform(Shape shape, int64_t site) {
  return impl->make<UniformOp>(impl->type(Elem::Float, shape), impl->layer(),
                               site);
}

Handle Emitter::crossEntropy(Handle logits, Handle targets,
                             std::optional<int64_t> ignore, double smoothing) {
  OpBuilder &b = impl->builder;
  return impl->make<CrossEntropyOp>(impl->use(logits), impl->use(targets),
                                    ignore ? b.getI64IntegerAttr(*ignore)
                                           : IntegerAttr(),
                                    b.getF64FloatAttr(smoothing));
}

void Emitter::nameValue(Handle value, StringRef path, StringRef name,
                        ArrayRef<Dim> dims, unsigned line) {
  Impl &m = *impl;
  Operation *op = toValue(value).getDefiningOp();
  if (!op || op->hasAttr(valueAttribute))
    return;
  OpBuilder &b = m.builder;
  op->setAttr(
      valueAttribute,
      b.getDictionaryAttr({b.getNamedAttr("path", b.getStringAttr(path)),
                           b.getNamedAttr("name", b.getStringAttr(name)),
                           b.getNamedAttr("dims", m.dimStrings(dims)),
                           b.getNamedAttr("line", b.getI64IntegerAttr(line))}));
}

void Emitter::listShape(Role role, StringRef path, StringRef name,
                        ArrayRef<Dim> dims, StringRef file, unsigned line) {
  Impl &m = *impl;
  OpBuilder &b = m.builder;
  StringRef word = role == Role::Argument ? "argument"
                   : role == Role::Result ? "result"
                                          : "value";
  m.shapes.insert(b.getDictionaryAttr(
      {b.getNamedAttr("path", b.getStringAttr(path)),
       b.getNamedAttr("name", b.getStringAttr(name)),
       b.getNamedAttr("role", b.getStringAttr(word)),
       b.getNamedAttr("shape", b.getDenseI64ArrayAttr(numbers(dims))),
       b.getNamedAttr("dims", m.dimStrings(dims)),
       b.getNamedAttr("file", b.getStringAttr(file)),
       b.getNamedAttr("line", b.getI64IntegerAttr(line))}));
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

void Emitter::declareParam(const Param &param) {
  Impl &m = *impl;
  OpBuilder &b = m.builder;
  SmallVector<Attribute> args;
  for (double arg : param.initArgs)
    args.push_back(b.getF64FloatAttr(arg));
  DictionaryAttr init = b.getDictionaryAttr(
      {b.getNamedAttr("kind", b.getStringAttr(param.initKind)),
       b.getNamedAttr("args", b.getArrayAttr(args))});
  // Without a period, counting the `*` gives the names.
  SmallVector<const Node *> repeats;
  bool counts = true;
  for (const Node *repeat : param.owner->repeats()) {
    repeats.push_back(repeat);
    counts &= repeat->bodies.size() == 1 && !repeat->first;
  }
  std::vector<std::string> names;
  if (!counts)
    names = layerNames(param.owner, param.name, {});
  std::vector<std::string> aliases;
  for (const auto &[node, name] : param.aliases)
    llvm::append_range(aliases, layerNames(node, name, repeats));
  b.setInsertionPointToEnd(m.module->getBody());
  ParamOp::create(b, m.place(), param.path(), parameterType(b, param),
                  m.dimStrings(param.dims), init, param.trainable,
                  param.rate == 1 ? FloatAttr() : b.getF64FloatAttr(param.rate),
                  /*no_decay=*/!param.decays,
                  names.empty() ? ArrayAttr() : m.strings(names),
                  aliases.empty() ? ArrayAttr() : m.strings(aliases),
                  /*output_axis=*/IntegerAttr(), /*scale=*/FlatSymbolRefAttr(),
                  /*minimum=*/FlatSymbolRefAttr(), /*terms=*/IntegerAttr(),
                  /*transposed=*/false);
}

void Emitter::setModel(StringRef name, StringRef source, StringRef recipe) {
  Impl &m = *impl;
  OpBuilder &b = m.builder;
  ModuleOp module = *m.module;
  module->setAttr(modelAttribute, b.getStringAttr(name));
  module->setAttr(sourceAttribute, b.getStringAttr(source));
  module->setAttr(hyperparametersAttribute, b.getArrayAttr(m.hyperparameters));
  module->setAttr(modulesAttribute, b.getArrayAttr(m.modules));
  module->setAttr(recipeAttribute, b.getStringAttr(recipe));
}

void Emitter::setResults(ArrayRef<Dims> shapes) {
  SmallVector<Attribute> results;
  for (const Dims &dims : shapes)
    results.push_back(impl->dimStrings(dims));
  ModuleOp module = *impl->module;
  module->setAttr(resultsAttribute, impl->builder.getArrayAttr(results));
}

void Emitter::addHyperparameter(StringRef name, const SymbolicValue &value) {
  OpBuilder &b = impl->builder;
  Attribute attr;
  switch (value.kind()) {
  case SymbolicValue::Int:
    attr = b.getI64IntegerAttr(value.dim().value());
    break;
  case SymbolicValue::Float:
    attr = b.getF64FloatAttr(value.number());
    break;
  case SymbolicValue::Bool:
    attr = b.getBoolAttr(value.flag());
    break;
  case SymbolicValue::String:
  case SymbolicValue::Builtin:
    attr = b.getStringAttr(value.text());
    break;
  case SymbolicValue::Function:
    attr = b.getStringAttr(value.function()->name);
    break;
  case SymbolicValue::Init: {
    // In the language the deviation comes before the mean.
    SmallVector<std::string> words;
    for (const SymbolicValue &item : value.items())
      words.push_back(item.show());
    if (value.text() == "normal" || value.text() == "truncated_normal")
      std::swap(words[0], words[1]);
    attr = b.getStringAttr(value.text() + "(" + llvm::join(words, ", ") + ")");
    break;
  }
  // Reports tell of numbers, words and truth values.
  case SymbolicValue::Poison:
  case SymbolicValue::None:
  case SymbolicValue::List:
  case SymbolicValue::Type:
  case SymbolicValue::Method:
  case SymbolicValue::Module:
  case SymbolicValue::NodeRef:
  case SymbolicValue::ParamRef:
  case SymbolicValue::ConstRef:
  case SymbolicValue::TensorRef:
  case SymbolicValue::PerLayer:
    return;
  }
  impl->hyperparameters.push_back(
      b.getDictionaryAttr({b.getNamedAttr("name", b.getStringAttr(name)),
                           b.getNamedAttr("value", attr)}));
}

void Emitter::addModule(const Node &node, StringRef file, unsigned line) {
  OpBuilder &b = impl->builder;
  SmallVector<NamedAttribute> attrs = {
      b.getNamedAttr("path", b.getStringAttr(node.path())),
      b.getNamedAttr("file", b.getStringAttr(file)),
      b.getNamedAttr("line", b.getI64IntegerAttr(line))};
  if (node.kind == Node::Kind::Repeat) {
    attrs.push_back(
        b.getNamedAttr("module", b.getStringAttr(node.bodies[0]->decl->name)));
    attrs.push_back(
        b.getNamedAttr("count", b.getI64IntegerAttr(node.count.value())));
    attrs.push_back(b.getNamedAttr("dims", b.getStringAttr(node.count.str())));
  } else {
    attrs.push_back(b.getNamedAttr("module", b.getStringAttr(node.decl->name)));
  }
  impl->modules.push_back(b.getDictionaryAttr(attrs));
}

OwningOpRef<ModuleOp> Emitter::finish(std::string &problem) {
  Impl &m = *impl;
  ScopedDiagnosticHandler handler(&m.context, [&](mlir::Diagnostic &d) {
    problem += d.str() + "\n";
    return success();
  });
  if (failed(verify(*m.module))) {
    if (problem.empty())
      problem = "the tfm module does not verify";
    return nullptr;
  }
  return std::move(m.module);
}
