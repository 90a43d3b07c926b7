//===- ObjectModule.cpp - functions and descriptor of the object file -----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/cpu/ObjectModule.h"

#include "compiler/codegen/cpu/KernelLibrary.h"
#include "compiler/dialect/TfmDialect.h"
#include "runtime/tfm_model.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicsAArch64.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/Module.h"
#include <cstddef>

using namespace tfm;

namespace {

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

class ProgramEmitter {
public:
  ProgramEmitter(llvm::Module &module, const Schedule &schedule,
                 const llvm::DenseMap<const Launch *, std::string> &kernels)
      : module(module), schedule(schedule), kernels(kernels),
        b(module.getContext()),
        ptr(llvm::PointerType::get(module.getContext(), 0)),
        i64(b.getInt64Ty()) {}

  llvm::Function *emit(const Program &program) {
    auto *type = llvm::FunctionType::get(b.getVoidTy(), {ptr, ptr}, false);
    auto *function = llvm::Function::Create(
        type, llvm::Function::InternalLinkage, "run_" + program.name, module);
    b.SetInsertPoint(
        llvm::BasicBlock::Create(module.getContext(), "entry", function));
    arena = function->getArg(0);
    thread = function->getArg(1);
    count = field(offsetof(tfm_thread, count), i64);
    claim = field(offsetof(tfm_thread, claim), ptr);
    scratch = field(offsetof(tfm_thread, scratch), ptr);
    ticks = field(offsetof(tfm_thread, ticks), ptr);
    llvm::Value *mode = flushDenormals();
    launches.clear();
    runs = 1;
    last = launchCount(program.steps);
    // The clock starts here.
    b.CreateCall(tickFunction(), {ticks, b.getInt64(last), b.getInt64(last)});
    rng = llvm::ConstantPointerNull::get(ptr);
    for (const Port &port : program.inputs)
      if (port.name == "rng")
        rng = pointer(port.view);
    emitSteps(program.steps);
    restoreMode(mode);
    b.CreateRetVoid();
    return function;
  }

private:
  llvm::Value *field(uint64_t offset, llvm::Type *type) {
    return b.CreateLoad(type,
                        b.CreateConstGEP1_64(b.getInt8Ty(), thread, offset));
  }

  /// Has the thread take denormal numbers for zero, in operands and results:
  /// moments that fade away would come to them, and processors compute with
  /// them a hundred times more slowly. Returns the mode before: on x86 a
  /// pointer to what MXCSR held, on AArch64 the value of FPCR.
  llvm::Value *flushDenormals() {
    llvm::Type *i32 = b.getInt32Ty();
    if (module.getTargetTriple().isX86()) {
      constexpr uint32_t flushToZero = 1 << 15, denormalsAreZero = 1 << 6;
      llvm::Value *before = b.CreateAlloca(i32), *during = b.CreateAlloca(i32);
      b.CreateIntrinsic(llvm::Intrinsic::x86_sse_stmxcsr, {before});
      b.CreateStore(b.CreateOr(b.CreateLoad(i32, before),
                               b.getInt32(flushToZero | denormalsAreZero)),
                    during);
      b.CreateIntrinsic(llvm::Intrinsic::x86_sse_ldmxcsr, {during});
      return before;
    }
    assert(module.getTargetTriple().isAArch64());
    constexpr uint64_t flushToZero = 1 << 24;
    llvm::Value *before =
        b.CreateIntrinsic(i64, llvm::Intrinsic::aarch64_get_fpcr, {});
    b.CreateIntrinsic(llvm::Intrinsic::aarch64_set_fpcr,
                      {b.CreateOr(before, b.getInt64(flushToZero))});
    return before;
  }

  void restoreMode(llvm::Value *before) {
    if (module.getTargetTriple().isX86())
      b.CreateIntrinsic(llvm::Intrinsic::x86_sse_ldmxcsr, {before});
    else
      b.CreateIntrinsic(llvm::Intrinsic::aarch64_set_fpcr, {before});
  }

  llvm::Value *pointer(const View &view) {
    int64_t size = elementBytes(view.element);
    int64_t offset = schedule.buffers[view.buffer].offset + view.offset * size;
    llvm::Value *at = b.CreateConstGEP1_64(b.getInt8Ty(), arena, offset);
    for (auto [depth, stride] : llvm::enumerate(view.loopStrides))
      if (stride)
        at = b.CreateGEP(b.getInt8Ty(), at,
                         b.CreateMul(layers[depth], b.getInt64(stride * size)));
    return at;
  }

  void emitSteps(const std::vector<Step> &steps) {
    for (const Step &step : steps)
      step.isLoop() ? emitLoop(step) : emitLaunch(*step.launch);
  }

  void emitLaunch(const Launch &launch) {
    llvm::Function *kernel = module.getFunction(kernels.lookup(&launch));
    llvm::SmallVector<llvm::Value *> arguments;
    for (const View *view : kernelBuffers(launch))
      arguments.push_back(pointer(*view));
    llvm::Value *layer =
        launch.layerDepth < 0 ? b.getInt64(0) : flatLayer(launch.layerDepth);
    // while ((piece = claim(thread)) >= 0) kernel(..., piece, count);
    llvm::BasicBlock *next = block("claim"), *compute = block("compute"),
                     *done = block("done");
    b.CreateBr(next);
    b.SetInsertPoint(next);
    llvm::Value *piece = b.CreateCall(
        llvm::FunctionType::get(i64, {ptr}, false), claim, {thread});
    b.CreateCondBr(b.CreateICmpSLT(piece, b.getInt64(0)), done, compute);
    b.SetInsertPoint(compute);
    arguments.append({rng, layer, scratch, piece, count});
    b.CreateCall(kernel, arguments);
    b.CreateBr(next);
    b.SetInsertPoint(done);
    b.CreateCall(tickFunction(),
                 {ticks, b.getInt64(launches.size()), b.getInt64(last)});
    launches.push_back({&launch, runs});
  }

  llvm::BasicBlock *block(llvm::StringRef name) {
    return llvm::BasicBlock::Create(module.getContext(), name,
                                    b.GetInsertBlock()->getParent());
  }

  /// The layer of the loop at `depth`, counted through the loops around it.
  llvm::Value *flatLayer(int depth) {
    llvm::Value *flat = layers[0];
    for (int i = 1; i <= depth; ++i)
      flat = b.CreateAdd(b.CreateMul(flat, b.getInt64(counts[i])), layers[i]);
    return flat;
  }

  static size_t launchCount(const std::vector<Step> &steps) {
    size_t count = 0;
    for (const Step &step : steps)
      count += step.isLoop() ? launchCount(step.body) : 1;
    return count;
  }

  /// `tick(ticks, launch, last)`: adds the time since `ticks[last]` to
  /// `ticks[launch]` and sets the former to now, unless `ticks` is null.
  llvm::Function *tickFunction() {
    if (llvm::Function *known = module.getFunction("tick"))
      return known;
    auto *type = llvm::FunctionType::get(b.getVoidTy(), {ptr, i64, i64}, false);
    auto *function = llvm::Function::Create(
        type, llvm::Function::InternalLinkage, "tick", module);
    llvm::LLVMContext &context = module.getContext();
    auto *measured = llvm::BasicBlock::Create(context, "measured", function);
    auto *entry =
        llvm::BasicBlock::Create(context, "entry", function, measured);
    auto *done = llvm::BasicBlock::Create(context, "done", function);
    llvm::IRBuilder<> t(entry);
    llvm::Value *base = function->getArg(0);
    t.CreateCondBr(t.CreateIsNull(base), done, measured);
    t.SetInsertPoint(measured);
    llvm::Value *now = t.CreateIntrinsic(llvm::Intrinsic::readcyclecounter,
                                         llvm::ArrayRef<llvm::Type *>(),
                                         llvm::ArrayRef<llvm::Value *>());
    llvm::Value *slot = t.CreateGEP(i64, base, function->getArg(1));
    llvm::Value *previous = t.CreateGEP(i64, base, function->getArg(2));
    llvm::Value *spent = t.CreateSub(now, t.CreateLoad(i64, previous));
    t.CreateStore(t.CreateAdd(t.CreateLoad(i64, slot), spent), slot);
    t.CreateStore(now, previous);
    t.CreateBr(done);
    t.SetInsertPoint(done);
    t.CreateRetVoid();
    return function;
  }

  void emitLoop(const Step &step) {
    auto *before = b.GetInsertBlock();
    llvm::BasicBlock *body = block("layer"), *after = block("layers_done");
    b.CreateBr(body);
    b.SetInsertPoint(body);
    auto *turn = b.CreatePHI(i64, 2);
    turn->addIncoming(b.getInt64(0), before);
    runs *= step.count;
    layers.push_back(step.reverse
                         ? b.CreateSub(b.getInt64(step.count - 1), turn)
                         : static_cast<llvm::Value *>(turn));
    counts.push_back(step.count);
    emitSteps(step.body);
    counts.pop_back();
    layers.pop_back();
    runs /= step.count;
    llvm::Value *next = b.CreateAdd(turn, b.getInt64(1));
    turn->addIncoming(next, b.GetInsertBlock());
    b.CreateCondBr(b.CreateICmpULT(next, b.getInt64(step.count)), body, after);
    b.SetInsertPoint(after);
  }

  llvm::Module &module;
  const Schedule &schedule;
  const llvm::DenseMap<const Launch *, std::string> &kernels;
  llvm::IRBuilder<> b;
  llvm::PointerType *ptr;
  llvm::Type *i64;
  llvm::Value *arena = nullptr, *thread = nullptr, *count = nullptr,
              *claim = nullptr, *scratch = nullptr, *rng = nullptr;
  /// The layer of each enclosing loop, and how many it has.
  llvm::SmallVector<llvm::Value *> layers;
  llvm::SmallVector<int64_t> counts;
  llvm::Value *ticks = nullptr;
  int64_t last = 0, runs = 1;

public:
  /// The launches of the program emitted last and how often each runs.
  std::vector<std::pair<const Launch *, int64_t>> launches;
};

//===----------------------------------------------------------------------===//
// Descriptor
//===----------------------------------------------------------------------===//

/// Builds constant data laid out as the C structs of tfm_model.h: an anonymous
/// LLVM struct of the same fields has the same natural layout.
class DescriptorBuilder {
public:
  explicit DescriptorBuilder(llvm::Module &module)
      : module(module), context(module.getContext()),
        ptr(llvm::PointerType::get(context, 0)) {}

  llvm::Constant *null() { return llvm::ConstantPointerNull::get(ptr); }
  llvm::Constant *i32(int64_t value) {
    return llvm::ConstantInt::getSigned(llvm::Type::getInt32Ty(context), value);
  }
  llvm::Constant *u64(uint64_t value) {
    return llvm::ConstantInt::get(llvm::Type::getInt64Ty(context), value);
  }
  llvm::Constant *f64(double value) {
    return llvm::ConstantFP::get(llvm::Type::getDoubleTy(context), value);
  }

  llvm::Constant *global(llvm::Constant *value) {
    auto *variable =
        new llvm::GlobalVariable(module, value->getType(), true,
                                 llvm::GlobalValue::PrivateLinkage, value);
    return variable;
  }
  llvm::Constant *string(llvm::StringRef text) {
    return global(llvm::ConstantDataArray::getString(context, text));
  }
  llvm::Constant *array(llvm::ArrayRef<llvm::Constant *> elements) {
    if (elements.empty())
      return null();
    auto *type =
        llvm::ArrayType::get(elements.front()->getType(), elements.size());
    return global(llvm::ConstantArray::get(type, elements));
  }
  llvm::Constant *record(llvm::ArrayRef<llvm::Constant *> fields) {
    return llvm::ConstantStruct::getAnon(context, fields);
  }
  llvm::Constant *shape(llvm::ArrayRef<int64_t> sizes) {
    if (sizes.empty())
      return null();
    llvm::SmallVector<uint64_t> values(sizes.begin(), sizes.end());
    return global(llvm::ConstantDataArray::get(context, values));
  }

  llvm::Module &module;
  llvm::LLVMContext &context;
  llvm::PointerType *ptr;
};

int dtypeOf(mlir::Type element) {
  return element.isInteger(32)  ? TFM_I32
         : element.isInteger(1) ? TFM_U8
                                : TFM_F32;
}

/// An initialiser as the runtime's kind and two numbers; the verifier of
/// `tfm.param` has seen to its arguments.
std::pair<int, std::pair<double, double>> initOf(ParamOp param) {
  llvm::StringRef kind =
      param.getInit().getAs<mlir::StringAttr>("kind").getValue();
  llvm::SmallVector<double> numbers = param.getInitArgs();
  numbers.resize(2, 0.0);
  int known = llvm::StringSwitch<int>(kind)
                  .Case("ones", TFM_INIT_ONES)
                  .Case("normal", TFM_INIT_NORMAL)
                  .Case("truncated_normal", TFM_INIT_TRUNCATED_NORMAL)
                  .Case("uniform", TFM_INIT_UNIFORM)
                  .Case("constant", TFM_INIT_CONSTANT)
                  .Default(TFM_INIT_ZEROS);
  return {known, {numbers[0], numbers[1]}};
}

class ModelDescriptor {
public:
  ModelDescriptor(llvm::Module &module, const Schedule &schedule)
      : d(module), schedule(schedule) {}

  using Launches = std::vector<std::pair<const Launch *, int64_t>>;

  void emit(llvm::ArrayRef<llvm::Function *> functions,
            llvm::ArrayRef<Launches> launches, int64_t scratchBytes,
            const ModelText &text) {
    llvm::SmallVector<llvm::Constant *> parameters = parameterRecords();
    llvm::SmallVector<llvm::Constant *> programs;
    for (auto [program, function, own] :
         llvm::zip_equal(schedule.programs, functions, launches)) {
      int64_t productFlops = 0;
      for (auto &[launch, runs] : own)
        productFlops += runs * productFlopsOf(*launch);
      programs.push_back(d.record(
          {d.string(program.name), function, d.i32(program.inputs.size()),
           buffers(program.inputs), d.i32(program.outputs.size()),
           buffers(program.outputs), d.u64(productFlops), d.i32(own.size()),
           launchRecords(own)}));
    }
    llvm::SmallVector<llvm::Constant *> constants;
    for (auto &[value, buffer] : schedule.constants)
      constants.push_back(
          d.record({d.u64(schedule.buffers[buffer].offset),
                    d.u64(schedule.buffers[buffer].bytes), data(value)}));
    auto regionBytes = [&](int buffer) {
      return d.u64(buffer < 0 ? 0 : schedule.buffers[buffer].bytes);
    };
    int64_t state = 0;
    for (int region : schedule.stateRegion)
      if (region >= 0)
        state += schedule.buffers[region].bytes;
    llvm::Constant *model = d.record(
        {d.i32(TFM_ABI_VERSION), d.string(text.name), d.string(text.source),
         d.string(text.target), d.string(text.hyperparameters),
         d.string(text.recipe), d.u64(schedule.arenaBytes),
         d.u64(bufferAlignment), d.u64(scratchBytes),
         regionBytes(schedule.parameterRegion),
         regionBytes(schedule.gradientRegion), d.u64(state),
         d.u64(schedule.activationBytes + schedule.cacheBytes()),
         d.i32(parameters.size()), d.array(parameters), d.i32(programs.size()),
         d.array(programs), d.i32(constants.size()), d.array(constants)});
    auto *global = new llvm::GlobalVariable(d.module, model->getType(), true,
                                            llvm::GlobalValue::ExternalLinkage,
                                            model, "tfm_model_descriptor");
    global->setAlignment(llvm::Align(16));
  }

private:
  llvm::Constant *buffers(const std::vector<Port> &ports) {
    llvm::SmallVector<llvm::Constant *> records;
    for (const Port &port : ports) {
      uint64_t offset = schedule.buffers[port.view.buffer].offset +
                        port.view.offset * elementBytes(port.view.element);
      records.push_back(
          d.record({d.string(port.name), d.i32(dtypeOf(port.view.element)),
                    d.i32(port.view.shape.size()), d.shape(port.view.shape),
                    d.u64(offset)}));
    }
    return d.array(records);
  }

  llvm::Constant *launchRecords(const Launches &launches) {
    llvm::SmallVector<llvm::Constant *> records;
    for (auto &[launch, runs] : launches)
      records.push_back(d.record(
          {d.string(describe(*launch)), d.string(pathOf(*launch)), d.u64(runs),
           d.u64(flopsOf(*launch)), d.u64(bytesOf(*launch))}));
    return d.array(records);
  }

  llvm::SmallVector<llvm::Constant *> parameterRecords() {
    llvm::SmallVector<llvm::Constant *> records;
    uint64_t stream = 0;
    for (const ParameterSlot &slot : schedule.parameters) {
      auto param = mlir::cast<ParamOp>(slot.param);
      llvm::ArrayRef<int64_t> shape =
          param.getTensorType().getShape().drop_front(
              param.getNumStackedDims());
      int64_t size = 1;
      for (int64_t dim : shape)
        size *= dim;
      auto [init, args] = initOf(param);
      llvm::Constant *shapeData = d.shape(shape);
      for (auto [layer, name] : llvm::enumerate(param.getLayerNames())) {
        int64_t offset = 4 * (slot.offset + static_cast<int64_t>(layer) * size);
        auto place = [&](int region, bool present) {
          return d.u64(region < 0 || !present
                           ? TFM_NONE
                           : schedule.buffers[region].offset + offset);
        };
        bool trained = param.getTrainable();
        llvm::SmallVector<llvm::Constant *> aliases;
        if (auto list = param.getAliases())
          for (mlir::Attribute alias : *list)
            aliases.push_back(d.string(
                layerName(mlir::cast<mlir::StringAttr>(alias), param, layer)));
        auto *pair = llvm::ArrayType::get(llvm::Type::getInt64Ty(d.context), 2);
        auto *doubles =
            llvm::ArrayType::get(llvm::Type::getDoubleTy(d.context), 2);
        records.push_back(d.record(
            {d.string(name), d.i32(shape.size()), shapeData,
             place(schedule.parameterRegion, true),
             place(schedule.gradientRegion, trained),
             llvm::ConstantArray::get(
                 pair, {place(schedule.stateRegion[0], trained),
                        place(schedule.stateRegion[1], trained)}),
             d.i32(trained), d.i32(slot.decayed), d.i32(init),
             llvm::ConstantArray::get(doubles,
                                      {d.f64(args.first), d.f64(args.second)}),
             d.u64(stream++), d.i32(aliases.size()), d.array(aliases)}));
      }
    }
    return records;
  }

  /// The alias of one layer: its `*` count as the parameter's own do.
  static std::string layerName(mlir::StringAttr alias, ParamOp param,
                               size_t layer) {
    std::string result;
    llvm::SmallVector<int64_t> indices;
    llvm::ArrayRef<int64_t> shape =
        param.getTensorType().getShape().take_front(param.getNumStackedDims());
    for (size_t i = shape.size(); i-- > 0; layer /= shape[i])
      indices.insert(indices.begin(), layer % shape[i]);
    size_t next = 0;
    for (char c : alias.getValue())
      if (c == '*' && next < indices.size())
        result += std::to_string(indices[next++]);
      else
        result += c;
    return result;
  }

  llvm::Constant *data(mlir::Attribute value) {
    auto dense = mlir::cast<mlir::DenseElementsAttr>(value);
    std::string bytes;
    auto append = [&](auto number) {
      bytes.append(reinterpret_cast<const char *>(&number), sizeof(number));
    };
    mlir::Type element = dense.getElementType();
    if (element.isInteger(1))
      for (bool bit : dense.getValues<bool>())
        bytes.push_back(bit ? 1 : 0);
    else if (element.isInteger(32))
      for (int32_t number : dense.getValues<int32_t>())
        append(number);
    else
      for (const llvm::APFloat &number : dense.getValues<llvm::APFloat>())
        append(static_cast<float>(number.convertToDouble()));
    return d.global(llvm::ConstantDataArray::getString(d.context, bytes,
                                                       /*AddNull=*/false));
  }

  DescriptorBuilder d;
  const Schedule &schedule;
};

} // namespace

void tfm::addProgramsAndDescriptor(
    llvm::Module &module, const Schedule &schedule,
    const llvm::DenseMap<const Launch *, std::string> &kernels,
    int64_t scratchBytes, const ModelText &text) {
  for (llvm::Function &function : module)
    if (!function.isDeclaration())
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
  llvm::SmallVector<llvm::Function *> functions;
  std::vector<ModelDescriptor::Launches> launches;
  ProgramEmitter emitter(module, schedule, kernels);
  for (const Program &program : schedule.programs) {
    functions.push_back(emitter.emit(program));
    launches.push_back(emitter.launches);
  }
  ModelDescriptor(module, schedule)
      .emit(functions, launches, scratchBytes, text);
}
