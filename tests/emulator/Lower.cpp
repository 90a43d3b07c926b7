//===- Lower.cpp - kernels for a GPU in terms of the CPU ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/emulator/Lower.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/DataLayoutInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tfm::emulator;
namespace em = tfm::emulator;

namespace {

constexpr unsigned SharedSpace = 3, GlobalSpace = 1;

class Lowering {
public:
  Lowering(ModuleOp module, std::vector<Kernel> &kernels,
           std::vector<std::string> &sites)
      : module(module), builder(module.getContext()), layout(module),
        kernels(kernels), sites(sites) {
    sites.push_back("the end of the kernel");
  }

  LogicalResult run() {
    SmallVector<LLVM::LLVMFuncOp> functions(module.getOps<LLVM::LLVMFuncOp>());
    for (LLVM::LLVMFuncOp function : functions) {
      if (function->hasAttr("nvvm.kernel") && failed(describe(function)))
        return failure();
      SmallVector<Operation *> ops;
      words = nullptr;
      awaited.clear();
      numbers.clear();
      current = function;
      function.walk([&](Operation *op) { ops.push_back(op); });
      for (Operation *op : ops)
        if (isWarpgroupProduct(op) && failed(checkSums(op)))
          return failure();
      for (Operation *op : ops)
        if (op != function && failed(lower(op)))
          return failure();
      if (function->hasAttr("nvvm.kernel"))
        addRun(function);
      stripForGpu(function);
    }
    for (auto global :
         llvm::make_early_inc_range(module.getOps<LLVM::GlobalOp>()))
      if (global.getAddrSpace() == SharedSpace)
        global.erase();
      else
        global.setLinkage(LLVM::Linkage::External);
    return success();
  }

private:
  //===--------------------------------------------------------------------===//
  // Kernels
  //===--------------------------------------------------------------------===//

  /// Reads how a kernel is launched, and finds places for its shared memory.
  LogicalResult describe(LLVM::LLVMFuncOp function) {
    Kernel kernel;
    kernel.name = function.getSymName();
    kernel.arguments = function.getNumArguments();
    for (unsigned i = 0; i != function.getNumArguments(); ++i) {
      kernel.tensors += function.getArgAttr(i, "llvm.byval") ? 1 : 0;
      if (function.getArgAttr(i, "llvm.noalias") ||
          function.getArgAttr(i, "llvm.readonly"))
        kernel.onlyRead.push_back(i);
    }
    if (auto block = function->getAttrOfType<DenseI32ArrayAttr>("nvvm.reqntid"))
      llvm::copy(block.asArrayRef(), kernel.block.begin());
    if (auto grid = function->getAttrOfType<DenseI64ArrayAttr>("tfm.grid"))
      llvm::copy(grid.asArrayRef(), kernel.grid.begin());
    if (auto blocks = function->getAttrOfType<IntegerAttr>("tfm.persistent"))
      kernel.resident = blocks.getInt();
    if (auto bytes = function->getAttrOfType<IntegerAttr>("tfm.shared"))
      kernel.dynamicShared = bytes.getInt();
    function.walk(
        [&](Operation *op) { kernel.readsAsync |= isWarpgroupProduct(op); });
    sharedOffsets.clear();
    SmallVector<StringRef> dynamic;
    uint64_t dynamicAlignment = 16;
    function.walk([&](LLVM::AddressOfOp address) {
      auto global =
          module.lookupSymbol<LLVM::GlobalOp>(address.getGlobalName());
      if (!global || global.getAddrSpace() != SharedSpace)
        return;
      uint64_t bytes = layout.getTypeSize(global.getGlobalType());
      if (bytes == 0) {
        dynamicAlignment =
            std::max(dynamicAlignment, global.getAlignment().value_or(16));
        return dynamic.push_back(global.getSymName());
      }
      auto [place, isNew] = sharedOffsets.try_emplace(global.getSymName());
      if (!isNew)
        return;
      uint64_t alignment = global.getAlignment().value_or(16);
      place->second = llvm::alignTo(kernel.staticShared, alignment);
      kernel.staticShared = place->second + bytes;
    });
    kernel.staticShared = llvm::alignTo(
        kernel.staticShared, dynamic.empty() ? 16 : dynamicAlignment);
    for (StringRef name : dynamic)
      sharedOffsets[name] = kernel.staticShared;
    kernels.push_back(std::move(kernel));
    return success();
  }

  /// Adds the function that calls a kernel with arguments from memory.
  void addRun(LLVM::LLVMFuncOp function) {
    Location loc = function.getLoc();
    builder.setInsertionPointAfter(function);
    auto type = LLVM::LLVMFunctionType::get(voidType(), {pointer()});
    auto run = LLVM::LLVMFuncOp::create(
        builder, loc, ("emulator.run." + function.getSymName()).str(), type);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(run.addEntryBlock(builder));
    SmallVector<Value> arguments;
    for (auto [i, argument] : llvm::enumerate(function.getArgumentTypes())) {
      Value at = element(run.getArgument(0), pointer(), i);
      Value address = LLVM::LoadOp::create(builder, loc, pointer(), at);
      // A grid constant stays where it is.
      if (function.getArgAttr(i, "llvm.byval"))
        arguments.push_back(address);
      else
        arguments.push_back(
            LLVM::LoadOp::create(builder, loc, argument, address));
    }
    LLVM::CallOp::create(builder, loc, function, arguments);
    LLVM::ReturnOp::create(builder, loc, ValueRange());
  }

  /// Takes off what only NVPTX understands.
  void stripForGpu(LLVM::LLVMFuncOp function) {
    SmallVector<StringRef> gone;
    for (NamedAttribute attribute : function->getDiscardableAttrs())
      gone.push_back(attribute.getName());
    for (StringRef name : gone)
      function->removeDiscardableAttr(name);
    function.removeTargetCpuAttr();
    function.removeTargetFeaturesAttr();
    function.removePassthroughAttr();
    function.setCConv(LLVM::CConv::C);
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      function.setArgAttrs(i, ArrayRef<NamedAttribute>());
  }

  //===--------------------------------------------------------------------===//
  // Ops
  //===--------------------------------------------------------------------===//

  LogicalResult lower(Operation *op) {
    builder.setInsertionPoint(op);
    at = op->getLoc();
    opName = op->getName().getStringRef().str();
    if (isa_and_nonnull<NVVM::NVVMDialect>(op->getDialect()))
      return lowerNvvm(op);
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case([&](LLVM::LoadOp load) {
          return announce(load, load.getAddr(), load.getType(),
                          load.getAlignment(), false);
        })
        .Case([&](LLVM::StoreOp store) {
          return announce(store, store.getAddr(), store.getValue().getType(),
                          store.getAlignment(), true);
        })
        .Case([&](LLVM::AddressOfOp address) { return lowerAddress(address); })
        .Case([&](LLVM::FPTruncOp round) { return lowerRounding(round); })
        .Case([&](LLVM::CallIntrinsicOp call) { return lowerIntrinsic(call); })
        .Case([&](LLVM::InlineAsmOp assembly) -> LogicalResult {
          if (awaitedGroups(assembly))
            return lowerWait(assembly);
          if (isWarpgroupProduct(assembly))
            return lowerWarpgroupProduct(assembly);
          return unknown(assembly);
        })
        .Case<LLVM::CallOp, LLVM::AllocaOp>([](auto) { return success(); })
        .Default([&](Operation *other) -> LogicalResult {
          if (isa<LLVM::LLVMDialect>(other->getDialect()) &&
              (other->hasTrait<OpTrait::IsTerminator>() ||
               isMemoryEffectFree(other)))
            return success();
          return unknown(other);
        });
  }

  static LogicalResult unknown(Operation *op) {
    return op->emitError("the emulator does not know ")
           << op->getName() << " in this form";
  }

  LogicalResult lowerNvvm(Operation *op) {
    StringRef name = op->getName().stripDialect();
    if (name.consume_front("read.ptx.sreg.")) {
      const auto *found = llvm::find(specialRegisters, name);
      if (found == specialRegisters.end())
        return unknown(op);
      return replace(op, call("special", i32(),
                              {constant(found - specialRegisters.begin())}));
    }
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case([&](NVVM::Barrier0Op) {
          return replace(
              op, call("barrier", {}, {site(), zero(), zero(), constant(1)}));
        })
        .Case([&](NVVM::BarrierOp barrier) -> LogicalResult {
          if (barrier.getReductionOp())
            return unknown(op);
          return replace(
              op, call("barrier", {},
                       {site(), orZero(barrier.getBarrierId()),
                        orZero(barrier.getNumberOfThreads()), constant(1)}));
        })
        .Case([&](NVVM::BarrierArriveOp barrier) {
          return replace(op, call("barrier", {},
                                  {site(), orZero(barrier.getBarrierId()),
                                   barrier.getNumberOfThreads(), zero()}));
        })
        .Case([&](NVVM::SyncWarpOp sync) {
          return collective(op, WarpOp::Synchronize, 0, sync.getMask(), {});
        })
        .Case([&](NVVM::ShflOp shuffle) {
          return collective(op, WarpOp::Shuffle,
                            static_cast<uint32_t>(shuffle.getKind()),
                            shuffle.getThreadMask(),
                            {shuffle.getVal(), shuffle.getOffset(),
                             shuffle.getMaskAndClamp()});
        })
        .Case([&](NVVM::VoteSyncOp vote) {
          return collective(op, WarpOp::Vote,
                            static_cast<uint32_t>(vote.getKind()),
                            vote.getMask(), {vote.getPred()});
        })
        .Case([&](NVVM::ReduxOp reduce) {
          return collective(op, WarpOp::Reduce,
                            static_cast<uint32_t>(reduce.getKind()),
                            reduce.getMaskAndClamp(), {reduce.getVal()});
        })
        .Case([&](NVVM::ElectSyncOp elect) {
          Value mask = elect.getMembermask();
          return collective(op, WarpOp::Elect, 0, mask ? mask : allLanes(), {});
        })
        .Case([&](NVVM::LdMatrixOp load) -> LogicalResult {
          if (!isB16(load.getShape(), load.getEltType()))
            return unknown(op);
          bool transposed = load.getLayout() == NVVM::MMALayout::col;
          return collective(op, WarpOp::LoadMatrix,
                            load.getNum() + (transposed ? 8 : 0), allLanes(),
                            {load.getPtr()});
        })
        .Case([&](NVVM::StMatrixOp store) -> LogicalResult {
          if (!isB16(store.getShape(), store.getEltType()))
            return unknown(op);
          bool transposed = store.getLayout() == NVVM::MMALayout::col;
          uint32_t count = store.getSources().size();
          return collective(op, WarpOp::StoreMatrix,
                            count + (transposed ? 8 : 0), allLanes(),
                            SmallVector<Value>(op->getOperands()));
        })
        .Case([&](NVVM::MmaOp product) -> LogicalResult {
          NVVM::MMAShapeAttr shape = product.getShape();
          if (shape.getM() != 16 || shape.getN() != 8 || shape.getK() != 16 ||
              product.getMultiplicandAPtxType() != NVVM::MMATypes::bf16 ||
              product.getMultiplicandBPtxType() != NVVM::MMATypes::bf16)
            return unknown(op);
          return collective(op, WarpOp::MultiplyBF16, 0, allLanes(),
                            SmallVector<Value>(op->getOperands()));
        })
        .Case([&](NVVM::WgmmaFenceAlignedOp) {
          return collective(op, WarpOp::WarpgroupFence, 0, allLanes(), {});
        })
        .Case([&](NVVM::WgmmaGroupSyncAlignedOp) {
          return collective(op, WarpOp::WarpgroupCommit, 0, allLanes(), {});
        })
        .Case([&](NVVM::WgmmaWaitGroupSyncOp wait) {
          return collective(op, WarpOp::WarpgroupAwait, wait.getGroup(),
                            allLanes(), {});
        })
        .Case([&](NVVM::WgmmaMmaAsyncOp product) {
          return lowerWarpgroupProduct(product);
        })
        .Case([&](NVVM::FenceProxyOp fence) -> LogicalResult {
          if (fence.getKind() != NVVM::ProxyKind::async_shared ||
              fence.getSpace() != NVVM::SharedSpace::shared_cta)
            return unknown(op);
          return replace(op, call("fence_async", {}, {}));
        })
        .Case([&](NVVM::CpAsyncOp copy) {
          Value size = constant(copy.getSize());
          Value source = copy.getCpSize();
          return replace(
              op, call("copy_async", {},
                       {site(), generic(copy.getDst()), generic(copy.getSrc()),
                        size, source ? source : size}));
        })
        .Case([&](NVVM::CpAsyncCommitGroupOp) {
          return replace(op, call("commit_copies", {}, {}));
        })
        .Case([&](NVVM::CpAsyncWaitGroupOp wait) {
          return replace(op, call("await_copies", {}, {constant(wait.getN())}));
        })
        .Case([&](NVVM::CpAsyncMBarrierArriveOp arrive) {
          return replace(op, call("arrive_with_copies", {},
                                  {site(), generic(arrive.getAddr()),
                                   constant(arrive.getNoinc())}));
        })
        .Case([&](NVVM::MBarrierInitOp init) -> LogicalResult {
          if (init.getPredicate())
            return unknown(op);
          return replace(
              op, call("init_barrier", {},
                       {site(), generic(init.getAddr()), init.getCount()}));
        })
        .Case([&](NVVM::MBarrierInvalOp end) {
          return replace(op, call("invalidate_barrier", {},
                                  {site(), generic(end.getAddr())}));
        })
        .Case([&](NVVM::MBarrierArriveOp arrive) -> LogicalResult {
          if (arrive.getRelaxed())
            return unknown(op);
          Value count = arrive.getCount();
          return replace(op, call("arrive", i64(),
                                  {site(), generic(arrive.getAddr()),
                                   count ? count : constant(1)}));
        })
        .Case([&](NVVM::MBarrierArriveExpectTxOp arrive) -> LogicalResult {
          if (arrive.getRelaxed() || arrive.getPredicate())
            return unknown(op);
          return replace(op, call("arrive_before", i64(),
                                  {site(), generic(arrive.getAddr()),
                                   arrive.getTxcount()}));
        })
        // Orders a thread's own accesses, which it makes in order here.
        .Case([&](NVVM::MembarOp) { return replace(op, {}); })
        // There is no second-level cache.
        .Case([&](NVVM::CpAsyncBulkPrefetchOp) { return replace(op, {}); })
        .Case([&](NVVM::FenceMbarrierInitOp) {
          return replace(op, call("fence_barriers", {}, {}));
        })
        .Case([&](NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp copy) {
          return lowerCopyOfBox(copy);
        })
        // Here a thread has all registers that it wants.
        .Case([&](NVVM::SetMaxRegisterOp) { return replace(op, {}); })
        .Case([&](NVVM::MBarrierTryWaitParityOp wait) {
          return replace(
              op, call("await_parity", {},
                       {site(), generic(wait.getAddr()), wait.getPhase()}));
        })
        .Case<NVVM::MBarrierTestWaitOp, NVVM::MBarrierTryWaitOp>(
            [&](auto test) -> LogicalResult {
              if (test.getRelaxed())
                return unknown(op);
              return replace(op, testPhase(generic(test.getAddr()),
                                           test.getStateOrPhase()));
            })
        .Case([&](NVVM::RcpApproxFtzF32Op) {
          return replace(op, call("rcp.approx", op->getResult(0).getType(),
                                  op->getOperands()));
        })
        .Case([&](NVVM::ConvertF32x2ToBF16x2Op round) -> LogicalResult {
          if (round.getRelu() || round.getRandomBits())
            return unknown(op);
          Value pair = LLVM::PoisonOp::create(builder, at, round.getType());
          pair = insert(pair, rounded(round.getSrcLo()), 0);
          return replace(op, insert(pair, rounded(round.getSrcHi()), 1));
        })
        // What an earlier kernel wrote is there when one begins.
        .Case([&](NVVM::GriddepcontrolOp) { return replace(op, {}); })
        .Default(unknown);
  }

  /// With the indices of all axes that a tensor may have.
  LogicalResult
  lowerCopyOfBox(NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp op) {
    if (op.getMode() != NVVM::TMALoadMode::TILE || op.getMulticastMask() ||
        op.getL2CacheHint() || op.getPredicate() || op.getGroup())
      return unknown(op);
    SmallVector<Value> arguments = {site(), generic(op.getDstMem()),
                                    op.getTmaDescriptor(),
                                    generic(op.getMbar())};
    for (uint32_t axis = 0; axis != TensorMap::MaxRank; ++axis)
      arguments.push_back(axis < op.getCoordinates().size()
                              ? op.getCoordinates()[axis]
                              : zero());
    return replace(op, call("copy_box", {}, arguments));
  }

  /// Of bf16, added to sums in f32. `kind`: N, and whether A lies along M (bit
  /// 16), B along N (bit 17), sums begin at zero (bit 18), and A is in
  /// registers (bit 19).
  LogicalResult lowerWarpgroupProduct(NVVM::WgmmaMmaAsyncOp op) {
    NVVM::MMAShapeAttr shape = op.getShape();
    if (shape.getM() != 64 || shape.getK() != 16 || shape.getN() > 256 ||
        op.getTypeA() != NVVM::WGMMATypes::bf16 ||
        op.getTypeB() != NVVM::WGMMATypes::bf16 ||
        op.getTypeD() != NVVM::WGMMATypes::f32 ||
        op.getScaleA() != NVVM::WGMMAScaleIn::one ||
        op.getScaleB() != NVVM::WGMMAScaleIn::one)
      return unknown(op);
    SmallVector<Value> registers = halvesOf(op.getDescriptorA());
    registers.append(halvesOf(op.getDescriptorB()));
    auto sums = cast<LLVM::LLVMStructType>(op.getInouts().getType());
    for (int64_t i = 0, end = sums.getBody().size(); i != end; ++i)
      registers.push_back(
          LLVM::ExtractValueOp::create(builder, at, op.getInouts(), i));
    auto kind = static_cast<uint32_t>(shape.getN());
    kind |= (op.getLayoutA() == NVVM::MMALayout::col ? 1u : 0u) << 16;
    kind |= (op.getLayoutB() == NVVM::MMALayout::row ? 1u : 0u) << 17;
    kind |= (op.getScaleD() == NVVM::WGMMAScaleOut::zero ? 1u : 0u) << 18;
    return collective(op, WarpOp::WarpgroupMultiply, kind, allLanes(),
                      registers, numberOf(op));
  }

  SmallVector<Value> halvesOf(Value descriptor) {
    Value high = LLVM::LShrOp::create(
        builder, at, descriptor,
        LLVM::ConstantOp::create(builder, at, i64(),
                                 builder.getI64IntegerAttr(32)));
    return {LLVM::TruncOp::create(builder, at, i32(), descriptor),
            LLVM::TruncOp::create(builder, at, i32(), high)};
  }

  /// How many registers assembly hands on: results, each in that of one of the
  /// first operands, with `others` behind them; none where it does not.
  static std::optional<size_t> handedOn(LLVM::InlineAsmOp op,
                                        StringRef others) {
    auto type = dyn_cast_or_null<LLVM::LLVMStructType>(
        op->getNumResults() ? op.getResult(0).getType() : Type());
    if (!type || !op.getHasSideEffects())
      return std::nullopt;
    std::string constraints;
    for (size_t i = 0; i != type.getBody().size(); ++i)
      constraints += "=f,";
    for (size_t i = 0; i != type.getBody().size(); ++i)
      constraints += std::to_string(i) + ",";
    if (op.getConstraints() != constraints + others.str())
      return std::nullopt;
    return type.getBody().size();
  }

  /// Assembly that multiplies four registers of A by what a descriptor tells of
  /// B: whether B lies along N; none of other assembly.
  static std::optional<bool> liesAlongN(LLVM::InlineAsmOp op) {
    std::optional<size_t> count = handedOn(op, "r,r,r,r,l");
    if (!count)
      return std::nullopt;
    auto list = [](size_t first, size_t count) {
      std::string names;
      for (size_t i = 0; i != count; ++i)
        names += (i ? ", $" : "$") + std::to_string(first + i);
      return names;
    };
    std::string text = "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                       "wgmma.mma_async.sync.aligned.m64n" +
                       std::to_string(2 * *count) + "k16.f32.bf16.bf16 {" +
                       list(0, *count) + "}, {" + list(2 * *count, 4) + "}, $" +
                       std::to_string(2 * *count + 4) + ", p, 1, 1, ";
    if (op.getAsmString() == text + "1;\n}")
      return true;
    if (op.getAsmString() == text + "0;\n}")
      return false;
    return std::nullopt;
  }
  static bool isWarpgroupProduct(Operation *op) {
    auto assembly = dyn_cast<LLVM::InlineAsmOp>(op);
    return isa<NVVM::WgmmaMmaAsyncOp>(op) || (assembly && liesAlongN(assembly));
  }

  LogicalResult lowerWarpgroupProduct(LLVM::InlineAsmOp op) {
    SmallVector<Value> operands(op.getOperands());
    size_t count = operands.size() - 5;
    SmallVector<Value> registers(ArrayRef(operands).slice(count, 4));
    registers.append(halvesOf(operands.back()));
    registers.append(operands.begin(), operands.begin() + count);
    uint32_t kind = static_cast<uint32_t>(2 * count) | 1u << 19 |
                    (*liesAlongN(op) ? 1u : 0u) << 17;
    return collective(op, WarpOp::WarpgroupMultiply, kind, allLanes(),
                      registers, numberOf(op));
  }

  /// Of assembly that waits for products and hands on their sums: how many
  /// groups may be under way; none of other assembly.
  static std::optional<uint32_t> awaitedGroups(LLVM::InlineAsmOp op) {
    StringRef text = op.getAsmString();
    uint32_t groups = 0;
    if (!text.consume_front("wgmma.wait_group.sync.aligned ") ||
        text.consumeInteger(10, groups) || text != ";" ||
        !handedOn(op, "~{memory}"))
      return std::nullopt;
    return groups;
  }

  /// Whose sums it hands on may not be under way any more.
  LogicalResult lowerWait(LLVM::InlineAsmOp op) {
    Value sums = LLVM::PoisonOp::create(builder, at, op.getResult(0).getType());
    for (auto [i, sum] : llvm::enumerate(op.getOperands()))
      sums = LLVM::InsertValueOp::create(builder, at, sums, sum,
                                         static_cast<int64_t>(i));
    call("collective", {},
         {site(), constant(static_cast<uint32_t>(WarpOp::WarpgroupAwait)),
          constant(*awaitedGroups(op)), allLanes(), wordsOfFunction()});
    for (Operation *product : awaited.lookup(op))
      call("collective", {},
           {site(), constant(static_cast<uint32_t>(WarpOp::WarpgroupSums)),
            constant(numberOf(product)), allLanes(), wordsOfFunction()});
    return replace(op, sums);
  }

  /// What `wgmma` adds up is in registers once it has been waited for, of which
  /// nothing in a program of values tells but that they pass through the wait:
  /// until then only other products may have them.
  LogicalResult checkSums(Operation *product) {
    SmallVector<Value> inFlight = {product->getResult(0)};
    llvm::SmallPtrSet<Value, 16> seen;
    while (!inFlight.empty()) {
      Value value = inFlight.pop_back_val();
      if (!seen.insert(value).second)
        continue;
      for (OpOperand &use : value.getUses()) {
        Operation *user = use.getOwner();
        if (isWarpgroupProduct(user))
          continue;
        if (auto assembly = dyn_cast<LLVM::InlineAsmOp>(user);
            assembly && awaitedGroups(assembly)) {
          awaited[assembly].insert(product);
          continue;
        }
        auto branch = dyn_cast<BranchOpInterface>(user);
        if (branch) {
          if (auto to =
                  branch.getSuccessorBlockArgument(use.getOperandNumber()))
            inFlight.push_back(*to);
        } else if (isa<LLVM::ExtractValueOp, LLVM::InsertValueOp>(user)) {
          inFlight.push_back(user->getResult(0));
        } else {
          return user->emitError("reads sums of a product of a warpgroup that "
                                 "nobody has waited for");
        }
      }
    }
    return success();
  }

  static bool isB16(NVVM::LdStMatrixShapeAttr shape,
                    NVVM::LdStMatrixEltType type) {
    return shape.getM() == 8 && shape.getN() == 8 &&
           type == NVVM::LdStMatrixEltType::B16;
  }

  Value testPhase(Value address, Value phase) {
    bool isParity = phase.getType().isInteger(32);
    if (isParity)
      phase = LLVM::ZExtOp::create(builder, at, i64(), phase);
    Value done =
        call("test_phase", i32(), {site(), address, phase, constant(isParity)});
    return LLVM::TruncOp::create(builder, at, builder.getI1Type(), done);
  }

  LogicalResult lowerIntrinsic(LLVM::CallIntrinsicOp op) {
    StringRef name = op.getIntrin();
    if (!name.consume_front("llvm.nvvm.") || op->getNumOperands() != 1 ||
        !op->getResultTypes().front().isF32())
      return unknown(op);
    for (const HostFunction &function : hostFunctions) {
      StringRef known = function.name;
      known.consume_front("emulator.");
      if (known.ends_with(".approx") && name.starts_with(known))
        return replace(op, call(known, builder.getF32Type(), op.getArgs()));
    }
    return unknown(op);
  }

  /// Shared memory lies at fixed addresses.
  LogicalResult lowerAddress(LLVM::AddressOfOp op) {
    auto global = module.lookupSymbol<LLVM::GlobalOp>(op.getGlobalName());
    if (!global || global.getAddrSpace() != SharedSpace)
      return success();
    auto place = sharedOffsets.find(op.getGlobalName());
    if (place == sharedOffsets.end())
      return op.emitError("shared memory of a function that is no kernel");
    Value address = LLVM::ConstantOp::create(
        builder, at, i64(),
        builder.getI64IntegerAttr(SharedBase + place->second));
    return replace(
        op, LLVM::IntToPtrOp::create(builder, at, op.getType(), address));
  }

  /// Not every CPU has an instruction that rounds to bf16, and LLVM would call
  /// a function that not every runtime library has.
  LogicalResult lowerRounding(LLVM::FPTruncOp op) {
    Type type = op.getType();
    if (!getElementTypeOrSelf(type).isBF16())
      return success();
    auto vector = dyn_cast<VectorType>(type);
    if (!vector)
      return replace(op, rounded(op.getArg()));
    Value result = LLVM::PoisonOp::create(builder, at, type);
    for (int64_t i = 0; i < vector.getNumElements(); ++i) {
      Value one =
          LLVM::ExtractElementOp::create(builder, at, op.getArg(), constant(i));
      result = insert(result, rounded(one), i);
    }
    return replace(op, result);
  }

  Value rounded(Value value) {
    Value bits = call("round_to_bf16", i32(), {value});
    bits = LLVM::TruncOp::create(builder, at, builder.getI16Type(), bits);
    return LLVM::BitcastOp::create(builder, at, builder.getBF16Type(), bits);
  }

  Value insert(Value vector, Value element, int64_t i) {
    return LLVM::InsertElementOp::create(builder, at, vector, element,
                                         constant(i));
  }

  /// Tells the machine of an access; to a thread's own memory none is told.
  LogicalResult announce(Operation *op, Value address, Type type,
                         std::optional<uint64_t> alignment, bool writes) {
    Value base = address;
    while (auto step = base.getDefiningOp<LLVM::GEPOp>())
      base = step.getBase();
    if (base.getDefiningOp<LLVM::AllocaOp>())
      return success();
    unsigned space =
        cast<LLVM::LLVMPointerType>(address.getType()).getAddressSpace();
    if (space != 0 && space != GlobalSpace && space != SharedSpace)
      return unknown(op);
    call("access", {},
         {site(), generic(address), constant(layout.getTypeSize(type)),
          constant(alignment.value_or(layout.getTypeABIAlignment(type))),
          constant(writes)});
    return success();
  }

  /// An op of all lanes in `mask`: its registers go to memory, and the results
  /// are read from there when all lanes have come.
  LogicalResult collective(Operation *op, WarpOp what, uint32_t kind,
                           Value mask, ArrayRef<Value> registers,
                           std::optional<int64_t> number = std::nullopt) {
    Value words = wordsOfFunction();
    for (auto [i, value] : llvm::enumerate(registers)) {
      Value word = value;
      if (isa<LLVM::LLVMPointerType>(value.getType()))
        word = LLVM::PtrToIntOp::create(builder, at, i32(), value);
      else if (value.getType().isInteger(1))
        word = LLVM::ZExtOp::create(builder, at, i32(), value);
      if (layout.getTypeSize(word.getType()) != 4)
        return unknown(op);
      LLVM::StoreOp::create(builder, at, word, element(words, i32(), i));
    }
    call("collective", {},
         {number ? constant(*number) : site(),
          constant(static_cast<uint32_t>(what)), constant(kind), mask, words});
    if (op->getNumResults() == 0)
      return replace(op, {});
    Type type = op->getResult(0).getType();
    auto fields = dyn_cast<LLVM::LLVMStructType>(type);
    if (!fields)
      return replace(op, loadWord(type, words, 0));
    Value result = LLVM::PoisonOp::create(builder, at, type);
    for (auto [i, field] : llvm::enumerate(fields.getBody()))
      result = LLVM::InsertValueOp::create(builder, at, result,
                                           loadWord(field, words, i), i);
    return replace(op, result);
  }

  Value loadWord(Type type, Value words, unsigned i) {
    bool isBit = type.isInteger(1);
    Value word = LLVM::LoadOp::create(builder, at, isBit ? i32() : type,
                                      element(words, i32(), i));
    return isBit ? LLVM::TruncOp::create(builder, at, type, word) : word;
  }

  /// One place for all of a function: no two ops need it at once.
  Value wordsOfFunction() {
    if (!words) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(&current.getBody().front());
      words = LLVM::AllocaOp::create(builder, at, pointer(), i32(),
                                     constant(WordCount));
    }
    return words;
  }

  //===--------------------------------------------------------------------===//
  // Small things
  //===--------------------------------------------------------------------===//

  /// Calls `emulator.NAME`; null where it returns nothing.
  Value call(StringRef name, Type result, ValueRange arguments) {
    std::string full = ("emulator." + name).str();
    if (!module.lookupSymbol(full)) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(module.getBody());
      LLVM::LLVMFuncOp::create(
          builder, module.getLoc(), full,
          LLVM::LLVMFunctionType::get(result ? result : voidType(),
                                      SmallVector<Type>(arguments.getTypes())));
    }
    auto op = LLVM::CallOp::create(
        builder, at, result ? TypeRange(result) : TypeRange(), full, arguments);
    return result ? op.getResult() : Value();
  }

  static LogicalResult replace(Operation *op, Value with) {
    if (op->getNumResults())
      op->getResult(0).replaceAllUsesWith(with);
    op->erase();
    return success();
  }

  /// The number of the op that is lowered. All ops of a kernel may have one
  /// location, so that its name is told, too.
  Value site() { return constant(numberOf(at, opName)); }
  int64_t numberOf(Location location, StringRef name) {
    sites.push_back(describe(location) + " (" + name.str() + ")");
    return static_cast<int64_t>(sites.size()) - 1;
  }
  /// The same before or while it is lowered, of a product.
  int64_t numberOf(Operation *product) {
    auto [number, isNew] = numbers.try_emplace(product);
    if (isNew)
      number->second =
          numberOf(product->getLoc(), product->getName().getStringRef());
    return number->second;
  }

  static std::string describe(Location location) {
    if (auto file = dyn_cast<FileLineColLoc>(location))
      return (file.getFilename().getValue() + ":" + Twine(file.getLine()) +
              ":" + Twine(file.getColumn()))
          .str();
    if (auto name = dyn_cast<NameLoc>(location))
      return name.getName().str() + " (" + describe(name.getChildLoc()) + ")";
    if (auto call = dyn_cast<CallSiteLoc>(location))
      return describe(call.getCallee());
    if (auto fused = dyn_cast<FusedLoc>(location))
      return describe(fused.getLocations().front());
    return "an unknown place";
  }

  Value generic(Value address) {
    if (address.getType() == pointer())
      return address;
    return LLVM::AddrSpaceCastOp::create(builder, at, pointer(), address);
  }
  Value element(Value base, Type type, int64_t i) {
    return LLVM::GEPOp::create(builder, at, pointer(), type, base,
                               ArrayRef<LLVM::GEPArg>{int32_t(i)});
  }
  Value constant(int64_t value) {
    return LLVM::ConstantOp::create(
        builder, at, i32(),
        builder.getI32IntegerAttr(static_cast<int32_t>(value)));
  }
  Value zero() { return constant(0); }
  Value orZero(Value value) { return value ? value : zero(); }
  Value allLanes() { return constant(-1); }
  Type i32() { return builder.getI32Type(); }
  Type i64() { return builder.getI64Type(); }
  Type pointer() { return LLVM::LLVMPointerType::get(builder.getContext()); }
  Type voidType() { return LLVM::LLVMVoidType::get(builder.getContext()); }

  ModuleOp module;
  OpBuilder builder;
  DataLayout layout;
  std::vector<Kernel> &kernels;
  std::vector<std::string> &sites;

  /// The function that is lowered, where its lanes exchange words, and where
  /// its shared memory lies.
  LLVM::LLVMFuncOp current;
  Value words;
  llvm::StringMap<uint64_t> sharedOffsets;
  /// Of its products of warpgroups, whose sums a wait hands on, and numbers.
  llvm::DenseMap<Operation *, llvm::SmallPtrSet<Operation *, 4>> awaited;
  llvm::DenseMap<Operation *, int64_t> numbers;
  Location at = module.getLoc();
  std::string opName;
};

} // namespace

LogicalResult em::lowerForHost(ModuleOp module, std::vector<Kernel> &kernels,
                               std::vector<std::string> &sites) {
  return Lowering(module, kernels, sites).run();
}
