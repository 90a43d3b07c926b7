//===- ObjectModule.cpp - functions and descriptor of the object file -----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/ObjectModule.h"

#include "compiler/schedule/Launches.h"
#include "compiler/schedule/View.h"
#include "runtime/tfm_model.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicsAArch64.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/Module.h"
#include <cstddef>
#include <map>

using namespace tfm;
using namespace tfm::sched;

namespace {

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

class ProgramEmitter {
public:
  ProgramEmitter(llvm::Module &module,
                 const llvm::DenseMap<mlir::Operation *, std::string> &kernels)
      : module(module), kernels(kernels), b(module.getContext()),
        ptr(llvm::PointerType::get(module.getContext(), 0)),
        i64(b.getInt64Ty()) {}

  llvm::Function *emit(ProgramOp program) {
    auto *type = llvm::FunctionType::get(b.getVoidTy(), {ptr, ptr}, false);
    auto *function =
        llvm::Function::Create(type, llvm::Function::InternalLinkage,
                               "run_" + program.getSymName(), module);
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
    last = 0;
    forEachStep(program, [&](mlir::Operation *, int64_t) { ++last; });
    // The clock starts here.
    b.CreateCall(tickFunction(), {ticks, b.getInt64(last), b.getInt64(last)});
    emitSteps(*program.getBlock());
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

  llvm::Value *pointer(mlir::Value value) {
    auto view = value.getDefiningOp<ViewOp>();
    auto buffer = view.getBuffer().getDefiningOp<BufferOp>();
    auto offset = static_cast<int64_t>(*buffer.getOffset() + view.getOffset());
    llvm::Value *at = b.CreateConstGEP1_64(b.getInt8Ty(), arena, offset);
    for (auto [layer, step] :
         llvm::zip_equal(view.getLayers(), view.getSteps()))
      at = b.CreateGEP(b.getInt8Ty(), at,
                       b.CreateMul(layers.lookup(layer), b.getInt64(step)));
    return at;
  }

  void emitSteps(mlir::Block &block) {
    for (mlir::Operation &op : block)
      if (auto loop = llvm::dyn_cast<LoopOp>(op))
        emitLoop(loop);
      else if (llvm::isa<LaunchOp, CopyOp, FillOp>(op))
        emitStep(&op);
  }

  void emitStep(mlir::Operation *step) {
    llvm::Function *kernel = module.getFunction(kernels.lookup(step));
    llvm::SmallVector<llvm::Value *> arguments;
    llvm::Value *rng = llvm::ConstantPointerNull::get(ptr);
    llvm::Value *layer = b.getInt64(0);
    if (auto launch = llvm::dyn_cast<LaunchOp>(step)) {
      // As the kernel has them: what is read, then what is written.
      for (mlir::Value view : launch.getReads())
        arguments.push_back(pointer(view));
      for (mlir::Value view : launch.getWrites())
        arguments.push_back(pointer(view));
      if (launch.getRng())
        rng = pointer(launch.getRng());
      if (launch.getLayer())
        layer = flatLayer(launch.getLayer());
    } else {
      for (mlir::Value view : step->getOperands())
        arguments.push_back(pointer(view));
    }
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
    launches.push_back({step, runs});
  }

  llvm::BasicBlock *block(llvm::StringRef name) {
    return llvm::BasicBlock::Create(module.getContext(), name,
                                    b.GetInsertBlock()->getParent());
  }

  /// The layer of a loop, counted through the loops around it.
  llvm::Value *flatLayer(mlir::Value layer) {
    mlir::Operation *loop =
        llvm::cast<mlir::BlockArgument>(layer).getOwner()->getParentOp();
    llvm::Value *own = layers.lookup(layer);
    auto outer = llvm::dyn_cast<LoopOp>(loop->getParentOp());
    if (!outer)
      return own;
    auto count = static_cast<int64_t>(llvm::cast<LoopOp>(loop).getCount());
    return b.CreateAdd(
        b.CreateMul(flatLayer(outer.getLayer()), b.getInt64(count)), own);
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

  void emitLoop(LoopOp loop) {
    auto count = static_cast<int64_t>(loop.getCount());
    auto *before = b.GetInsertBlock();
    llvm::BasicBlock *body = block("layer"), *after = block("layers_done");
    b.CreateBr(body);
    b.SetInsertPoint(body);
    auto *turn = b.CreatePHI(i64, 2);
    turn->addIncoming(b.getInt64(0), before);
    runs *= count;
    layers[loop.getLayer()] = loop.getReverse()
                                  ? b.CreateSub(b.getInt64(count - 1), turn)
                                  : static_cast<llvm::Value *>(turn);
    emitSteps(*loop.getBlock());
    runs /= count;
    llvm::Value *next = b.CreateAdd(turn, b.getInt64(1));
    turn->addIncoming(next, b.GetInsertBlock());
    b.CreateCondBr(b.CreateICmpULT(next, b.getInt64(count)), body, after);
    b.SetInsertPoint(after);
  }

  llvm::Module &module;
  const llvm::DenseMap<mlir::Operation *, std::string> &kernels;
  llvm::IRBuilder<> b;
  llvm::PointerType *ptr;
  llvm::Type *i64;
  llvm::Value *arena = nullptr, *thread = nullptr, *count = nullptr,
              *claim = nullptr, *scratch = nullptr;
  /// The layer that each loop is at.
  llvm::DenseMap<mlir::Value, llvm::Value *> layers;
  llvm::Value *ticks = nullptr;
  int64_t last = 0, runs = 1;

public:
  /// The steps of the program emitted last and how often each runs.
  std::vector<std::pair<mlir::Operation *, int64_t>> launches;
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
  if (element.isF32())
    return TFM_F32;
  if (element.isInteger(32))
    return TFM_I32;
  if (element.isInteger(1))
    return TFM_U8;
  llvm::report_fatal_error("the descriptor has no name for a type of elements");
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
  ModelDescriptor(llvm::Module &module, mlir::ModuleOp schedule)
      : d(module), schedule(schedule) {
    for (auto buffer : schedule.getOps<BufferOp>()) {
      int64_t &kind = bytes[static_cast<int>(buffer.getKind())];
      kind += buffer.getBytes();
      // State has a region for each tensor of it that a parameter has.
      if (buffer.getKind() == BufferKind::State)
        state.push_back(buffer);
      else
        regions[static_cast<int>(buffer.getKind())] = buffer;
    }
  }

  using Launches = std::vector<std::pair<mlir::Operation *, int64_t>>;

  void emit(llvm::ArrayRef<llvm::Function *> functions,
            llvm::ArrayRef<Launches> launches, int64_t scratchBytes,
            const ModelText &text) {
    llvm::SmallVector<llvm::Constant *> parameters = parameterRecords();
    llvm::SmallVector<llvm::Constant *> programs;
    for (auto [program, function, own] :
         llvm::zip_equal(schedule.getOps<ProgramOp>(), functions, launches)) {
      int64_t productFlops = 0;
      for (auto &[step, runs] : own)
        productFlops += runs * stepProductFlops(step);
      auto [inputCount, inputs] = ports<InputOp>(program);
      auto [outputCount, outputs] = ports<OutputOp>(program);
      programs.push_back(
          d.record({d.string(program.getSymName()), function, inputCount,
                    inputs, outputCount, outputs, d.u64(productFlops),
                    d.i32(own.size()), launchRecords(own)}));
    }
    llvm::SmallVector<llvm::Constant *> constants;
    for (auto buffer : schedule.getOps<BufferOp>())
      if (buffer.getValue())
        constants.push_back(
            d.record({d.u64(*buffer.getOffset()), d.u64(buffer.getBytes()),
                      data(*buffer.getValue())}));
    auto bytesOf = [&](BufferKind kind) {
      return bytes[static_cast<int>(kind)];
    };
    auto total = [&](llvm::StringRef name) {
      return schedule->getAttrOfType<mlir::IntegerAttr>(name).getInt();
    };
    llvm::Constant *model = d.record(
        {d.i32(TFM_ABI_VERSION), d.string(text.name), d.string(text.source),
         d.string(text.target), d.string(text.hyperparameters),
         d.string(text.recipe), d.u64(total("sched.arena")),
         d.u64(bufferAlignment), d.u64(scratchBytes),
         d.u64(bytesOf(BufferKind::Parameter)),
         d.u64(bytesOf(BufferKind::Gradient)),
         d.u64(bytesOf(BufferKind::State)),
         d.u64(total("sched.activations") + bytesOf(BufferKind::Cache)),
         d.i32(parameters.size()), d.array(parameters), d.i32(programs.size()),
         d.array(programs), d.i32(constants.size()), d.array(constants)});
    auto *global = new llvm::GlobalVariable(d.module, model->getType(), true,
                                            llvm::GlobalValue::ExternalLinkage,
                                            model, "tfm_model_descriptor");
    global->setAlignment(llvm::Align(16));
  }

private:
  template <typename Port>
  std::pair<llvm::Constant *, llvm::Constant *> ports(ProgramOp program) {
    llvm::SmallVector<llvm::Constant *> records;
    for (Port port : program.getBlock()->getOps<Port>()) {
      auto view = port.getView().template getDefiningOp<ViewOp>();
      auto buffer = view.getBuffer().template getDefiningOp<BufferOp>();
      mlir::MemRefType type = view.getView().getType();
      records.push_back(d.record(
          {d.string(port.getName()), d.i32(dtypeOf(type.getElementType())),
           d.i32(type.getRank()), d.shape(type.getShape()),
           d.u64(*buffer.getOffset() + view.getOffset())}));
    }
    return {d.i32(records.size()), d.array(records)};
  }

  llvm::Constant *launchRecords(const Launches &launches) {
    llvm::SmallVector<llvm::Constant *> records;
    for (auto &[step, runs] : launches)
      records.push_back(d.record(
          {d.string(describe(step)), d.string(pathOf(step)), d.u64(runs),
           d.u64(stepFlops(step)), d.u64(stepBytes(step))}));
    return d.array(records);
  }

  llvm::SmallVector<llvm::Constant *> parameterRecords() {
    llvm::SmallVector<llvm::Constant *> records;
    uint64_t stream = 0;
    for (ParamOp param : parametersInOrder()) {
      int64_t first =
          param->getAttrOfType<mlir::IntegerAttr>("sched.offset").getInt();
      mlir::RankedTensorType type = param.getTensorType();
      llvm::ArrayRef<int64_t> shape =
          type.getShape().drop_front(param.getNumStackedDims());
      int64_t size = contiguousView(type.clone(shape)).numBytes();
      auto [init, args] = initOf(param);
      llvm::Constant *shapeData = d.shape(shape);
      for (auto [layer, name] : llvm::enumerate(param.getLayerNames())) {
        int64_t offset = first + static_cast<int64_t>(layer) * size;
        auto place = [&](BufferOp region, bool present) {
          return d.u64(!region || !present ? TFM_NONE
                                           : *region.getOffset() + offset);
        };
        auto regionOf = [&](BufferKind kind) {
          return regions[static_cast<int>(kind)];
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
        auto stateAt = [&](size_t i) {
          return place(i < state.size() ? state[i] : BufferOp(), trained);
        };
        records.push_back(d.record(
            {d.string(name), d.i32(shape.size()), shapeData,
             place(regionOf(BufferKind::Parameter), true),
             place(regionOf(BufferKind::Gradient), trained),
             llvm::ConstantArray::get(pair, {stateAt(0), stateAt(1)}),
             d.i32(trained), d.i32(param->hasAttr("sched.decayed")),
             d.i32(init),
             llvm::ConstantArray::get(doubles,
                                      {d.f64(args.first), d.f64(args.second)}),
             d.u64(stream++), d.i32(aliases.size()), d.array(aliases)}));
      }
    }
    return records;
  }

  /// As they lie in their region.
  std::vector<ParamOp> parametersInOrder() {
    std::vector<ParamOp> params(schedule.getOps<ParamOp>().begin(),
                                schedule.getOps<ParamOp>().end());
    auto offset = [](ParamOp param) {
      return param->getAttrOfType<mlir::IntegerAttr>("sched.offset").getInt();
    };
    llvm::sort(params,
               [&](ParamOp a, ParamOp b) { return offset(a) < offset(b); });
    return params;
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
  mlir::ModuleOp schedule;
  /// By kind: bytes of all buffers, and the one that there is one of.
  std::map<int, int64_t> bytes;
  std::map<int, BufferOp> regions;
  llvm::SmallVector<BufferOp> state;
};

} // namespace

void tfm::addProgramsAndDescriptor(
    llvm::Module &module, mlir::ModuleOp schedule,
    const llvm::DenseMap<mlir::Operation *, std::string> &kernels,
    int64_t scratchBytes, const ModelText &text) {
  for (llvm::Function &function : module)
    if (!function.isDeclaration())
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
  llvm::SmallVector<llvm::Function *> functions;
  std::vector<ModelDescriptor::Launches> launches;
  ProgramEmitter emitter(module, kernels);
  for (auto program : schedule.getOps<ProgramOp>()) {
    functions.push_back(emitter.emit(program));
    launches.push_back(emitter.launches);
  }
  ModelDescriptor(module, schedule)
      .emit(functions, launches, scratchBytes, text);
}
