//===- Descriptor.cpp - what a compiled model says of itself --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The bytes of these structs go into object files as they are (`DataBuilder`),
// so there must be none between the fields.
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"
#include "runtime/tfm_model.h"
#pragma GCC diagnostic pop

#include "compiler/dialect/LayerAlias.h"
#include "compiler/dialect/Programs.h"
#include "compiler/schedule/Attributes.h"
#include "compiler/schedule/Launches.h"
#include "compiler/schedule/Sharing.h"
#include "compiler/schedule/View.h"
#include "compiler/target/Descriptor.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Module.h"
#include <cstring>
#include <lz4hc.h>

using namespace tfm;
using namespace tfm::sched;

namespace {

/// Makes constant data of the structs of runtime/tfm_model.h, which are filled
/// in here as a program of the target has them: of 64 bits, little-endian. So
/// there is one definition of their fields, which both sides are compiled with.
///
/// A pointer in them is, until the data are written, a number that stands for a
/// constant of the module (`pointerTo`): no offset, size or finite number of
/// the descriptor has its upper bits.
class DataBuilder {
public:
  explicit DataBuilder(llvm::Module &module)
      : module(module), context(module.getContext()) {}

  template <typename Pointer> Pointer pointerTo(llvm::Constant *constant) {
    targets.push_back(constant);
    return reinterpret_cast<Pointer>(tag | (targets.size() - 1));
  }

  const char *string(llvm::StringRef text) {
    return pointerTo<const char *>(
        global(llvm::ConstantDataArray::getString(context, text)));
  }

  /// Null for no elements.
  const int64_t *numbers(llvm::ArrayRef<int64_t> values) {
    if (values.empty())
      return nullptr;
    llvm::SmallVector<uint64_t> words(values.begin(), values.end());
    return pointerTo<const int64_t *>(
        global(llvm::ConstantDataArray::get(context, words)));
  }

  /// Null for no elements.
  template <typename T> const T *array(const std::vector<T> &elements) {
    return elements.empty()
               ? nullptr
               : pointerTo<const T *>(global(
                     words(elements.data(), elements.size() * sizeof(T))));
  }

  const void *bytes(llvm::StringRef data) {
    return pointerTo<const void *>(global(
        llvm::ConstantDataArray::getString(context, data, /*AddNull=*/false)));
  }

  /// A function as this module refers to it.
  llvm::Constant *own(llvm::Function *function) {
    if (function->getParent() == &module)
      return function;
    return llvm::cast<llvm::Constant>(
        module
            .getOrInsertFunction(function->getName(),
                                 function->getFunctionType())
            .getCallee());
  }

  llvm::Constant *words(const void *data, size_t size) {
    assert(size % sizeof(uint64_t) == 0 && "half a word is left over");
    llvm::Type *i64 = llvm::Type::getInt64Ty(context);
    llvm::SmallVector<llvm::Constant *> fields;
    for (size_t at = 0; at != size; at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, static_cast<const char *>(data) + at, sizeof(word));
      fields.push_back((word & mask) == tag
                           ? targets[word & ~mask]
                           : llvm::ConstantInt::get(i64, word));
    }
    return llvm::ConstantStruct::getAnon(context, fields);
  }

  llvm::Module &module;
  llvm::LLVMContext &context;

private:
  static_assert(sizeof(void *) == sizeof(uint64_t));
  static constexpr uint64_t mask = uint64_t{0xFFFF} << 48;
  static constexpr uint64_t tag = uint64_t{0xFFFA} << 48;

  llvm::Constant *global(llvm::Constant *value) {
    auto *variable =
        new llvm::GlobalVariable(module, value->getType(), true,
                                 llvm::GlobalValue::PrivateLinkage, value);
    variable->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
    return variable;
  }

  std::vector<llvm::Constant *> targets;
};

/// The bytes as a block of LZ4.
std::string packed(llvm::StringRef bytes) {
  auto size = static_cast<int>(bytes.size());
  std::string block(static_cast<size_t>(LZ4_compressBound(size)), '\0');
  // The highest takes ten times as long for 2% less.
  constexpr int level = 6;
  int taken = LZ4_compress_HC(bytes.data(), block.data(), size,
                              static_cast<int>(block.size()), level);
  if (taken <= 0)
    llvm::report_fatal_error("LZ4 does not take a GPU's code");
  block.resize(static_cast<size_t>(taken));
  return block;
}

static_assert(DequantiseOp::groupTerms == TFM_GROUP_TERMS &&
              DequantiseOp::groupBytes == TFM_GROUP_BYTES &&
              UnpackOp::termsTogether == TFM_PANEL_TERMS);

tfm_dtype dtypeOf(mlir::Type element) {
  if (element.isF32())
    return TFM_F32;
  if (element.isInteger(32))
    return TFM_I32;
  if (element.isInteger(1))
    return TFM_U8;
  if (element.isBF16())
    return TFM_BF16;
  if (element.isInteger(8))
    return TFM_I8;
  llvm::report_fatal_error("the descriptor has no name for a type of elements");
}

/// An initialiser; the verifier of `tfm.param` has seen to its arguments.
tfm_init initOf(ParamOp param) {
  llvm::StringRef kind =
      param.getInit().getAs<mlir::StringAttr>("kind").getValue();
  std::optional<tfm_init> known =
      llvm::StringSwitch<std::optional<tfm_init>>(kind)
          .Case("zeros", TFM_INIT_ZEROS)
          .Case("ones", TFM_INIT_ONES)
          .Case("normal", TFM_INIT_NORMAL)
          .Case("truncated_normal", TFM_INIT_TRUNCATED_NORMAL)
          .Case("uniform", TFM_INIT_UNIFORM)
          .Case("constant", TFM_INIT_CONSTANT)
          .Default(std::nullopt);
  if (!known)
    llvm::report_fatal_error("the descriptor has no name for an initialiser");
  return *known;
}

int64_t offsetInRegion(ParamOp param) {
  return param->getAttrOfType<mlir::IntegerAttr>(offsetAttribute).getInt();
}

/// Those that checkpoints hold, as they lie in their region.
std::vector<ParamOp> parametersInOrder(mlir::ModuleOp schedule) {
  std::vector<ParamOp> params(schedule.getOps<ParamOp>().begin(),
                              schedule.getOps<ParamOp>().end());
  llvm::StringSet<> tables;
  for (ParamOp param : params)
    for (std::optional<llvm::StringRef> name :
         {param.getScale(), param.getMinimum()})
      if (name)
        tables.insert(*name);
  llvm::erase_if(params, [&](ParamOp param) {
    return tables.contains(param.getSymName());
  });
  llvm::sort(params, [](ParamOp a, ParamOp b) {
    return offsetInRegion(a) < offsetInRegion(b);
  });
  return params;
}

/// One layer of a parameter.
mlir::RankedTensorType layerType(ParamOp param) {
  mlir::RankedTensorType type = param.getTensorType();
  return type.clone(type.getShape().drop_front(param.getNumStackedDims()));
}

/// The shape of one layer of a parameter in a checkpoint.
llvm::SmallVector<int64_t> checkpointShape(ParamOp param) {
  llvm::SmallVector<int64_t> shape(layerType(param).getShape());
  size_t rank = shape.size();
  if (param.getMinimum()) {
    shape.back() = static_cast<int64_t>(*param.getTerms());
  } else if (param.getTerms()) {
    auto scale = mlir::SymbolTable::lookupNearestSymbolFrom<ParamOp>(
        param, param.getScaleAttr());
    shape.assign(layerType(scale).getShape());
    shape.push_back(static_cast<int64_t>(*param.getTerms()));
    rank = shape.size();
  }
  if ((param.getScale() && *param.getOutputAxis() == rank - 1) ||
      param.getTransposed())
    std::swap(shape[rank - 1], shape[rank - 2]);
  return shape;
}

/// What the runtime copies into the arena for a constant.
std::string bytesOf(mlir::Attribute value) {
  auto dense = mlir::cast<mlir::DenseElementsAttr>(value);
  std::string bytes;
  auto append = [&](auto number) {
    bytes.append(reinterpret_cast<const char *>(&number), sizeof(number));
  };
  switch (dtypeOf(dense.getElementType())) {
  case TFM_U8:
    for (bool bit : dense.getValues<bool>())
      bytes.push_back(bit ? 1 : 0);
    break;
  case TFM_I32:
    for (int32_t number : dense.getValues<int32_t>())
      append(number);
    break;
  case TFM_BF16:
  case TFM_I8:
  case TFM_I4:
    llvm::report_fatal_error("a constant of a type that only weights have");
  case TFM_F32:
    for (const llvm::APFloat &number : dense.getValues<llvm::APFloat>())
      append(number.convertToFloat());
    break;
  }
  return bytes;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

std::vector<tfm_parameter> parametersOf(mlir::ModuleOp schedule,
                                        DataBuilder &d) {
  std::vector<tfm_parameter> records;
  for (ParamOp param : parametersInOrder(schedule)) {
    mlir::RankedTensorType type = layerType(param);
    llvm::SmallVector<double> numbers = param.getInitArgs();
    numbers.resize(2, 0.0);
    llvm::SmallVector<int64_t> shape = checkpointShape(param);
    const int64_t *sizes = d.numbers(shape);
    for (auto [layer, name] : llvm::enumerate(param.getLayerNames())) {
      std::vector<const char *> aliases;
      if (auto list = param.getAliases())
        for (auto alias : list->getAsRange<mlir::StringAttr>())
          aliases.push_back(d.string(layerAlias(alias, param, layer)));
      records.push_back(tfm_parameter{
          .name = d.string(name),
          .dtype = param.getMinimum() ? TFM_I4 : dtypeOf(type.getElementType()),
          .rank = static_cast<int32_t>(shape.size()),
          .shape = sizes,
          .output_axis =
              static_cast<int64_t>(param.getOutputAxis().value_or(-1)),
          .trainable = param.getTrainable(),
          .decayed = param->hasAttr(decayedAttribute),
          .init = initOf(param),
          .alias_count = static_cast<int32_t>(aliases.size()),
          .aliases = d.array(aliases),
          .init_args = {numbers[0], numbers[1]},
          .init_stream = records.size(),
      });
    }
  }
  return records;
}

//===----------------------------------------------------------------------===//
// Variants
//===----------------------------------------------------------------------===//

/// The permanent buffers of a kind, as one range; of 0 bytes where there are
/// none.
tfm_range rangeOf(mlir::ModuleOp schedule, BufferKind kind) {
  tfm_range range{0, 0};
  for (auto buffer : schedule.getOps<BufferOp>()) {
    if (buffer.getKind() != kind)
      continue;
    if (range.bytes == 0)
      range.offset = *buffer.getOffset();
    assert(*buffer.getOffset() == range.offset + range.bytes &&
           "buffers of one kind lie behind each other");
    range.bytes += buffer.getBytes();
  }
  return range;
}

/// The gradients themselves, before the sums that wait.
tfm_range gradientsOf(mlir::ModuleOp schedule) {
  tfm_range range = rangeOf(schedule, BufferKind::Gradient);
  for (auto buffer : schedule.getOps<BufferOp>())
    if (buffer.getKind() == BufferKind::Gradient) {
      range.bytes = buffer.getBytes();
      break;
    }
  return range;
}

/// The sums of gradients that wait for another one.
tfm_range sumsOf(mlir::ModuleOp schedule) {
  tfm_range all = rangeOf(schedule, BufferKind::Gradient);
  tfm_range gradients = gradientsOf(schedule);
  return {gradients.offset + gradients.bytes, all.bytes - gradients.bytes};
}

/// The rows that weight decay applies to (0) or the other trained ones (1).
tfm_rows rowsOf(mlir::ModuleOp schedule, int64_t part) {
  auto rows = schedule->getAttrOfType<mlir::DenseI64ArrayAttr>(
           regionRowsAttribute),
       blocks = schedule->getAttrOfType<mlir::DenseI64ArrayAttr>(
           regionBlocksAttribute);
  if (!rows || rows[part] == 0)
    return {0, 0, 0};
  return {static_cast<uint64_t>(part == 0 ? 0 : rows[0]),
          static_cast<uint64_t>(rows[part]),
          static_cast<uint64_t>(blocks[part])};
}

/// Of the panels that integers of 8 bits lie in, 0 where they lie in rows.
uint16_t panelOutputsOf(ParamOp param) {
  bool inPanels = param.getTerms() && !param.getMinimum();
  return static_cast<uint16_t>(
      inPanels ? param.getTensorType().getShape().drop_back().back() : 0);
}

std::vector<tfm_place> placesOf(mlir::ModuleOp schedule) {
  tfm_range values = rangeOf(schedule, BufferKind::Parameter);
  tfm_range gradients = rangeOf(schedule, BufferKind::Gradient);
  // A buffer for each tensor of state that a parameter has.
  llvm::SmallVector<uint64_t> states;
  for (auto buffer : schedule.getOps<BufferOp>())
    if (buffer.getKind() == BufferKind::State)
      states.push_back(*buffer.getOffset());
  llvm::DenseMap<uint64_t, ParameterUse> uses = parameterUses(schedule);
  std::vector<tfm_place> places;
  for (ParamOp param : parametersInOrder(schedule)) {
    int64_t size = contiguousView(layerType(param)).numBytes();
    bool trained = param.getTrainable();
    auto table = [&](std::optional<llvm::StringRef> name,
                     size_t layer) -> uint64_t {
      if (!name)
        return TFM_NONE;
      auto table = schedule.lookupSymbol<ParamOp>(*name);
      return values.offset + offsetInRegion(table) +
             layer * contiguousView(layerType(table)).numBytes();
    };
    size_t layers = param.getLayerNames().size();
    for (size_t layer = 0; layer != layers; ++layer) {
      uint64_t offset = offsetInRegion(param) + layer * size;
      auto state = [&](size_t number) {
        return trained && number < states.size() ? states[number] + offset
                                                 : TFM_NONE;
      };
      ParameterUse use = uses.lookup(offsetInRegion(param) + layer * size);
      places.push_back({
          .value = values.offset + offset,
          .scale = table(param.getScale(), layer),
          .minimum = table(param.getMinimum(), layer),
          .gradient =
              trained && gradients.bytes ? gradients.offset + offset : TFM_NONE,
          .state = {state(0), state(1)},
          .gradient_done = static_cast<uint64_t>(use.gradientDone),
          .value_used = static_cast<uint64_t>(use.valueUsed),
          .reads_value = use.readsValue,
          .reads_copy = use.readsCopy,
          .panel_outputs = panelOutputsOf(param),
          .transposed = param.getTransposed(),
      });
    }
  }
  return places;
}

template <typename Port>
std::vector<tfm_buffer> portsOf(ProgramOp program, DataBuilder &d) {
  std::vector<tfm_buffer> ports;
  for (Port port : program.getBlock()->getOps<Port>()) {
    auto view = port.getView().template getDefiningOp<ViewOp>();
    auto buffer = view.getBuffer().template getDefiningOp<BufferOp>();
    mlir::MemRefType type = view.getView().getType();
    ports.push_back({
        .name = d.string(port.getName()),
        .dtype = dtypeOf(type.getElementType()),
        .rank = static_cast<int32_t>(type.getRank()),
        .shape = d.numbers(type.getShape()),
        .offset = *buffer.getOffset() + view.getOffset(),
    });
  }
  return ports;
}

/// With how many threads a program takes the least time that shares `seconds`
/// of work, cut into so many steps one after the other.
int64_t bestThreads(double seconds, double steps, const KernelTarget &target) {
  constexpr int64_t most = 1024;
  int64_t best = 1;
  double least = seconds;
  for (int64_t threads = 2; threads <= most; ++threads) {
    double time = seconds / static_cast<double>(threads) +
                  steps * target.handOverSeconds(threads);
    if (time < least) {
      best = threads;
      least = time;
    }
  }
  return best;
}

/// The number of a kernel among those of a device; -1 where there is none.
int64_t kernelNamed(llvm::StringRef name,
                    llvm::ArrayRef<DeviceKernel> kernels) {
  const auto *kernel = llvm::find_if(
      kernels, [&](const DeviceKernel &kernel) { return kernel.name == name; });
  return kernel == kernels.end() ? -1 : kernel - kernels.begin();
}

/// The same of a step's kernel.
int64_t kernelOf(mlir::Operation *step, llvm::ArrayRef<DeviceKernel> kernels) {
  if (kernels.empty())
    return -1;
  return kernelNamed(step->getAttrOfType<mlir::SymbolRefAttr>("kernel")
                         .getLeafReference()
                         .getValue(),
                     kernels);
}

tfm_function functionOf(ProgramOp program, llvm::Function *code,
                        const Variant &variant, DataBuilder &d) {
  const KernelTarget &target = variant.target;
  bool onDevice = !variant.images.empty();
  uint64_t productFlops = 0;
  double seconds = 0, steps = 0;
  std::vector<tfm_launch> launches;
  forEachStep(program, [&](mlir::Operation *step, int64_t runs) {
    productFlops += runs * stepProductFlops(step);
    // What is not shared takes any number of threads as long.
    auto serial = llvm::dyn_cast<SerialOp>(step);
    if (mlir::Operation *shared = serial ? serial.getShared() : step)
      seconds += static_cast<double>(runs) *
                 target.stepSeconds(stepFlops(shared), stepBytes(shared));
    steps += static_cast<double>(runs);
    launches.push_back({
        .name = d.string(describe(step)),
        .path = d.string(pathOf(step)),
        .products = d.string(target.productsOf(largestStep(step))),
        .runs = static_cast<uint64_t>(runs),
        .flops = static_cast<uint64_t>(stepFlops(step)),
        .bytes = static_cast<uint64_t>(stepBytes(step)),
        .kernel = kernelOf(step, variant.kernels),
    });
  });
  std::vector<tfm_buffer> inputs = portsOf<InputOp>(program, d);
  std::vector<tfm_buffer> outputs = portsOf<OutputOp>(program, d);
  return {
      .name = d.string(program.getSymName()),
      .run = onDevice
                 ? nullptr
                 : d.pointerTo<void (*)(void *, tfm_thread *)>(d.own(code)),
      .enqueue = onDevice
                     ? d.pointerTo<void (*)(uint64_t, tfm_queue *)>(d.own(code))
                     : nullptr,
      .input_count = static_cast<int32_t>(inputs.size()),
      .output_count = static_cast<int32_t>(outputs.size()),
      .inputs = d.array(inputs),
      .outputs = d.array(outputs),
      .flops = productFlops,
      .threads = bestThreads(seconds, steps, target),
      .launch_count = static_cast<int64_t>(launches.size()),
      .launches = d.array(launches),
  };
}

tfm_variant variantOf(const Variant &variant, DataBuilder &d) {
  mlir::ModuleOp schedule = variant.schedule;
  auto total = [](mlir::ModuleOp module, llvm::StringRef name) {
    return static_cast<uint64_t>(
        module->getAttrOfType<mlir::IntegerAttr>(name).getInt());
  };
  std::vector<tfm_function> functions;
  for (auto [program, run] :
       llvm::zip_equal(schedule.getOps<ProgramOp>(), variant.programs))
    functions.push_back(functionOf(program, run, variant, d));
  std::vector<tfm_kernel> kernels;
  for (const DeviceKernel &kernel : variant.kernels) {
    tfm_kernel record = {.name = d.string(kernel.name),
                         .grid = {},
                         .block = {},
                         .shared_bytes = kernel.sharedBytes,
                         .resident = kernel.resident,
                         .argument_count = kernel.arguments,
                         .tensor_count =
                             static_cast<uint32_t>(kernel.tensors.size()),
                         .tensors = d.array(kernel.tensors),
                         .form = -1};
    llvm::copy(kernel.grid, record.grid);
    llvm::copy(kernel.block, record.block);
    kernels.push_back(record);
  }
  for (auto [number, kernel] : llvm::enumerate(variant.kernels))
    if (auto other = kernelNamed(kernel.formOf, variant.kernels); other >= 0)
      kernels[other].form = static_cast<int64_t>(number);
  std::vector<tfm_image> images;
  for (const DeviceImage &image : variant.images) {
    std::string block = packed(image.bytes);
    images.push_back({.kind = static_cast<tfm_image_kind>(image.kind),
                      .major = image.major,
                      .minor = image.minor,
                      .exact = image.exact,
                      .part = image.part,
                      .data = d.bytes(block),
                      .packed = block.size(),
                      .size = image.bytes.size()});
  }
  std::vector<tfm_constant> constants;
  uint64_t caches = 0;
  for (auto buffer : schedule.getOps<BufferOp>()) {
    if (buffer.getKind() == BufferKind::Cache)
      caches += static_cast<uint64_t>(buffer.getArenaBytes());
    if (buffer.getValue())
      constants.push_back({
          .offset = *buffer.getOffset(),
          .size = static_cast<uint64_t>(buffer.getBytes()),
          .data = d.bytes(bytesOf(*buffer.getValue())),
      });
  }
  uint64_t arena = total(schedule, arenaAttribute);
  uint64_t activations = total(schedule, activationsAttribute);
  return {
      .target = d.string(variant.target.kind()),
      .machine = d.string(variant.target.machine()),
      .features = d.string(variant.target.features()),
      .arena_bytes = arena,
      .arena_alignment = bufferAlignment,
      .scratch_bytes = total(schedule.lookupSymbol<mlir::ModuleOp>("kernels"),
                             scratchAttribute),
      .parameters = rangeOf(schedule, BufferKind::Parameter),
      .copies = rangeOf(schedule, BufferKind::ParameterCopy),
      .gradients = gradientsOf(schedule),
      .sums = sumsOf(schedule),
      .optimizer = rangeOf(schedule, BufferKind::State),
      .activations = {arena - activations, activations},
      .cache_bytes = caches,
      .decayed = rowsOf(schedule, 0),
      .plain = rowsOf(schedule, 1),
      .places = d.array(placesOf(schedule)),
      .function_count = static_cast<int32_t>(functions.size()),
      .constant_count = static_cast<int32_t>(constants.size()),
      .functions = d.array(functions),
      .constants = d.array(constants),
      .kernel_count = static_cast<int64_t>(kernels.size()),
      .kernels = d.array(kernels),
      .image_count = static_cast<int64_t>(images.size()),
      .images = d.array(images),
  };
}

/// Defines a pointer of the runtime's as null; other models in the program may
/// do so, too.
void defineNull(llvm::Module &module, llvm::StringRef symbol) {
  auto *type = llvm::PointerType::getUnqual(module.getContext());
  auto *pointer = new llvm::GlobalVariable(
      module, type, true, llvm::GlobalValue::WeakAnyLinkage,
      llvm::Constant::getNullValue(type), symbol);
  pointer->setVisibility(llvm::GlobalValue::HiddenVisibility);
}

bool sharesUpdates(const Variant &variant) {
  mlir::ModuleOp schedule = variant.schedule;
  return llvm::any_of(schedule.getOps<ProgramOp>(), [](ProgramOp program) {
    std::optional<ProgramKind> kind = programKind(program.getSymName());
    return kind == ProgramKind::UpdateDecayed ||
           kind == ProgramKind::UpdatePlain;
  });
}

} // namespace

void tfm::leaveOut(llvm::Module &module, llvm::ArrayRef<Variant> variants) {
  if (llvm::all_of(variants, [](const Variant &variant) {
        return variant.images.empty();
      }))
    defineNull(module, "tfm_gpus");
  if (llvm::none_of(variants, sharesUpdates))
    defineNull(module, "tfm_share_update");
}

void tfm::addDescriptor(llvm::Module &module, llvm::ArrayRef<Variant> variants,
                        const ModelText &text) {
  for (llvm::Function &function : module)
    if (!function.isDeclaration())
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
  DataBuilder d(module);
  // All variants have the same parameters, in the same order.
  std::vector<tfm_parameter> parameters =
      parametersOf(variants.front().schedule, d);
  std::vector<tfm_variant> records;
  for (const Variant &variant : variants)
    records.push_back(variantOf(variant, d));
  tfm_model model = {
      .abi = TFM_ABI_VERSION,
      .parameter_count = static_cast<int32_t>(parameters.size()),
      .name = d.string(text.name),
      .source = d.string(text.source),
      .hyperparameters = d.string(text.hyperparameters),
      .recipe = d.string(text.recipe),
      .parameters = d.array(parameters),
      .variant_count = static_cast<int64_t>(records.size()),
      .variants = d.array(records),
  };
  llvm::Constant *value = d.words(&model, sizeof(model));
  auto *global = new llvm::GlobalVariable(module, value->getType(), true,
                                          llvm::GlobalValue::ExternalLinkage,
                                          value, "tfm_model_descriptor");
  global->setAlignment(llvm::Align(16));
}
