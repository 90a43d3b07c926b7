//===- Jit.cpp - runs kernels inside the compiler's process ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/Jit.h"
#include "compiler/target/cpu/CpuMachine.h"
#include "compiler/target/cpu/Lower.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MemoryBuffer.h"
#include <utility>

using namespace tfm;

Jit::Jit(std::unique_ptr<llvm::orc::LLJIT> jit) : jit(std::move(jit)) {}
Jit::Jit(Jit &&) noexcept = default;
Jit::~Jit() = default;

llvm::Expected<Jit> Jit::compile(mlir::ModuleOp module,
                                 const CpuMachine &target) {
  if (mlir::failed(lowerToLLVMDialect(module, target.roundsToBf16)))
    return llvm::createStringError("lowering to the llvm dialect failed");
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code = translateToLLVM(module, context);
  if (!code)
    return llvm::createStringError("translation to LLVM IR failed");
  llvm::SmallString<0> object;
  llvm::raw_svector_ostream stream(object);
  if (llvm::Error error = emitObject(*code, target, stream))
    return std::move(error);
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit)
    return jit.takeError();
  if (llvm::Error error = (*jit)->addObjectFile(
          llvm::MemoryBuffer::getMemBufferCopy(object.str(), "kernels.o")))
    return std::move(error);
  return Jit(std::move(*jit));
}

llvm::Expected<void *> Jit::lookup(llvm::StringRef name) const {
  auto address = jit->lookup(name);
  if (!address)
    return address.takeError();
  return address->toPtr<void *>();
}

/// Calls a kernel with as many buffers as there are indices.
template <size_t... I>
static void callWith(void *kernel, const std::vector<void *> &buffers,
                     const int32_t *rng, int64_t layer, void *scratch,
                     int64_t thread, int64_t threads,
                     std::index_sequence<I...>) {
  using Function = void (*)(decltype((void)I, (void *)nullptr)...,
                            const int32_t *, int64_t, void *, int64_t, int64_t);
  reinterpret_cast<Function>(kernel)(buffers[I]..., rng, layer, scratch, thread,
                                     threads);
}

void Jit::call(void *kernel, const std::vector<void *> &buffers,
               const int32_t *rng, int64_t layer, void *scratch, int64_t thread,
               int64_t threads) {
  auto with = [&](auto indices) {
    callWith(kernel, buffers, rng, layer, scratch, thread, threads, indices);
  };
  switch (buffers.size()) {
  case 1:
    return with(std::make_index_sequence<1>());
  case 2:
    return with(std::make_index_sequence<2>());
  case 3:
    return with(std::make_index_sequence<3>());
  case 4:
    return with(std::make_index_sequence<4>());
  case 5:
    return with(std::make_index_sequence<5>());
  case 6:
    return with(std::make_index_sequence<6>());
  case 7:
    return with(std::make_index_sequence<7>());
  case 8:
    return with(std::make_index_sequence<8>());
  case 9:
    return with(std::make_index_sequence<9>());
  case 10:
    return with(std::make_index_sequence<10>());
  case 11:
    return with(std::make_index_sequence<11>());
  case 12:
    return with(std::make_index_sequence<12>());
  case 13:
    return with(std::make_index_sequence<13>());
  default:
    llvm::report_fatal_error("a kernel call needs between 1 and 13 buffers");
  }
}
