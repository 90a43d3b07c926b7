//===- CpuMachine.cpp - what code generation knows of a CPU ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/target/cpu/CpuMachine.h"
#include "runtime/device/cpu_features.h"
#include "runtime/device/variant.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/Function.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "llvm/TargetParser/Triple.h"
#include <algorithm>
#include <mutex>
#include <unistd.h>

using namespace tfm;

namespace {

/// LLVM's registry of targets is global: fill it once.
void initializeTargets() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  });
}

/// The subtarget of `cpu` under `triple`, null where LLVM does not know it.
std::unique_ptr<llvm::MCSubtargetInfo> subtarget(const llvm::Triple &triple,
                                                 llvm::StringRef cpu,
                                                 llvm::StringRef features) {
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  // An unknown name makes LLVM print a warning; ask for the generic CPU first.
  std::unique_ptr<llvm::MCSubtargetInfo> generic(
      target->createMCSubtargetInfo(triple, "", ""));
  if (!generic || (!cpu.empty() && !generic->isCPUStringValid(cpu)))
    return nullptr;
  return std::unique_ptr<llvm::MCSubtargetInfo>(
      target->createMCSubtargetInfo(triple, cpu, features));
}

/// What x86 processors may have that LLVM would use and the runtime does not
/// ask for (runtime/device/cpu_features.h): code that does without runs
/// wherever `requirements` says.
constexpr llvm::StringLiteral unasked[] = {"sse4a",
                                           "xop",
                                           "fma4",
                                           "tbm",
                                           "avx512vp2intersect",
                                           "avxifma",
                                           "avxvnniint8",
                                           "avxvnniint16",
                                           "avxneconvert",
                                           "avx10.1",
                                           "avx10.2",
                                           "egpr",
                                           "push2pop2",
                                           "ppx",
                                           "ndd",
                                           "ccmp",
                                           "nf",
                                           "cf",
                                           "zu"};

/// Tiles, and with them all of AMX: a program needs the system's permission for
/// them, which code without products for them does not ask for.
constexpr llvm::StringLiteral tiles = "amx-tile";

/// Leaves them out of the code for an x86 processor.
void leaveOutUnasked(CpuMachine &machine, const llvm::MCSubtargetInfo &info) {
  if (!llvm::Triple(machine.triple).isX86())
    return;
  auto leaveOut = [&](llvm::StringRef name) {
    if (info.checkFeatures(("+" + name).str()))
      machine.features += (machine.features.empty() ? "-" : ",-") + name.str();
  };
  llvm::for_each(unasked, leaveOut);
  leaveOut(tiles);
}

/// Fills in vector length, register count and what suits bf16 from the
/// features.
llvm::Error describeRegisters(CpuMachine &target,
                              const llvm::MCSubtargetInfo &info) {
  llvm::Triple triple(target.triple);
  // AMD's cores, which alone have SSE4a (measured on Zen 4,
  // docs/performance/few-rows.md; Intel's read several rows as fast as one).
  target.readsInOrder = triple.isX86() && info.checkFeatures("+sse4a");
  // Of those the ones that have AVX-VNNI, too (Zen 5).
  target.foreseesRows = target.readsInOrder && info.checkFeatures("+avxvnni");
  if (triple.isAArch64()) {
    target.lanes = 4;
    target.registers = 32;
    // The runtime asks Linux for them.
    auto has = [&](llvm::StringRef name) {
      return triple.isOSLinux() && info.checkFeatures(("+" + name).str()) &&
             !(target.isNative && !missingFeatures(name).empty());
    };
    llvm::SmallVector<std::string> used;
    for (std::string_view name : aarch64Features)
      if (has(name))
        used.push_back("+" + std::string(name));
    target.features = llvm::join(used, ",");
    target.int8SignedQuads = has("dotprod");
    target.roundsToBf16 = target.bf16Pairs = has("bf16");
    return llvm::Error::success();
  }
  if (info.checkFeatures("+avx512f") && info.checkFeatures("+avx512vl") &&
      info.checkFeatures("+avx512bw") && info.checkFeatures("+avx512dq")) {
    target.lanes = 16;
    target.registers = 32;
    target.roundsToBf16 = info.checkFeatures("+avx512bf16");
    // Zen 4 and Zen 5 issue as many VDPBF16PS as multiply-adds of f32, with
    // twice the FLOPs each. Intel's cores, which have AVX512-FP16 as well,
    // issue one every second cycle: half of the FLOPs of f32 (measured on
    // Emerald Rapids). No feature says so itself.
    target.bf16Pairs =
        target.roundsToBf16 && !info.checkFeatures("+avx512fp16");
    target.int8Quads = info.checkFeatures("+avx512vnni");
    return llvm::Error::success();
  }
  if (info.checkFeatures("+avx2") && info.checkFeatures("+fma")) {
    target.lanes = 8;
    target.registers = 16;
    target.int8Quads = info.checkFeatures("+avxvnni");
    target.int8Pairs = !target.int8Quads;
    return llvm::Error::success();
  }
  return llvm::createStringError(
      "the CPU '" + target.cpu +
      "' has no fused multiply-add on vectors (AVX2 and FMA are the least "
      "that is supported on x86: x86-64-v3 has them)");
}

/// What is named where a CPU is asked for and is none: instructions, kinds of
/// processors, and what is no processor; and what of them to write.
struct Misnomer {
  llvm::StringLiteral names; ///< with blanks between them
  llvm::StringLiteral meant;
};
constexpr Misnomer misnomers[] = {
    {"avx2 fma x86_64 x86 x64 amd64 intel amd",
     "did you mean 'x86-64-v3', or `portable` for all x86 that is supported?"},
    {"avx512 avx512f avx-512 avx10", "did you mean 'x86-64-v4'?"},
    {"amx amx-bf16 amx-tile", "did you mean 'sapphirerapids+amx'?"},
    {"neon sve arm arm64 aarch64 armv8 graviton",
     "name one of AArch64 as LLVM does, such as 'neoverse-n1' or 'apple-m1'"},
    {"cuda gpu nvidia", "did you mean `--target cuda`?"},
    {"all any auto", "did you mean `portable`, or `native` for this "
                     "machine's?"},
    {"cpu host local", "did you mean `native` for this machine's?"},
};

/// What is meant by a name that stands for something else; or nothing.
llvm::StringRef meantBy(llvm::StringRef name) {
  for (const Misnomer &misnomer : misnomers)
    for (llvm::StringRef known : llvm::split(misnomer.names, ' '))
      if (known.equals_insensitive(name))
        return misnomer.meant;
  return "";
}

/// The CPU that `name` most probably means, of those that code can be made for;
/// empty where none is near.
std::string closestCpu(llvm::StringRef name,
                       llvm::ArrayRef<const char *> triples) {
  std::string guess;
  size_t best = (name.size() + 2) / 3 + 1;
  for (const char *triple : triples) {
    CpuMachine machine;
    machine.triple = triple;
    std::unique_ptr<llvm::MCSubtargetInfo> generic =
        subtarget(llvm::Triple(triple), "", "");
    if (!generic)
      continue;
    for (const auto &known : generic->getAllProcessorDescriptions()) {
      size_t distance = name.edit_distance_insensitive(known.Key, true, best);
      if (distance >= best)
        continue;
      machine.cpu = known.Key;
      if (llvm::Error none = describeRegisters(
              machine, *subtarget(llvm::Triple(triple), known.Key, ""))) {
        llvm::consumeError(std::move(none));
        continue;
      }
      best = distance;
      guess = known.Key;
    }
  }
  return guess;
}

int64_t cacheSize(int name, int64_t otherwise) {
  long size = ::sysconf(name);
  return size > 0 ? size : otherwise;
}

} // namespace

llvm::Expected<CpuMachine> CpuMachine::native() {
  initializeTargets();
  CpuMachine target;
  target.isNative = true;
  target.triple = llvm::sys::getProcessTriple();
  target.cpu = llvm::sys::getHostCPUName().str();
  llvm::SubtargetFeatures features;
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    features.AddFeature(feature.first(), feature.second);
  if (llvm::Triple(target.triple).isX86())
    features.AddFeature("prefer-256-bit", false);
  std::vector<std::string> list = features.getFeatures();
  // The host's features come out of a hash table; sort them, so that the same
  // machine always gives the same object file.
  std::sort(list.begin(), list.end());
  target.features =
      llvm::Triple(target.triple).isX86() ? llvm::join(list, ",") : "";
  std::unique_ptr<llvm::MCSubtargetInfo> info =
      subtarget(llvm::Triple(target.triple), target.cpu, target.features);
  if (!info)
    return llvm::createStringError("LLVM does not know this machine's CPU, '" +
                                   target.cpu + "'");
  if (llvm::Error error = describeRegisters(target, *info))
    return std::move(error);
  leaveOutUnasked(target, *info);
  target.l1Bytes = cacheSize(_SC_LEVEL1_DCACHE_SIZE, 32 << 10);
  target.l2Bytes = cacheSize(_SC_LEVEL2_CACHE_SIZE, 1 << 20);
  return target;
}

/// Follows the name of a CPU whose tiles are used.
constexpr static llvm::StringLiteral tilesSuffix = "+amx";

std::string CpuMachine::name() const {
  return bf16Tiles ? cpu + tilesSuffix.str() : cpu;
}

std::optional<CpuMachine> CpuMachine::withTiles() const {
  // What is left out of other code is left out last.
  llvm::SmallVector<llvm::StringRef> list;
  llvm::StringRef(features).split(list, ',');
  llvm::erase(list, ("-" + tiles).str());
  std::string own = llvm::join(list, ",");
  std::unique_ptr<llvm::MCSubtargetInfo> info =
      subtarget(llvm::Triple(triple), cpu, own);
  if (!llvm::Triple(triple).isX86() || lanes != 16 ||
      !info->checkFeatures("+amx-tile") || !info->checkFeatures("+amx-bf16") ||
      !info->checkFeatures("+amx-int8"))
    return std::nullopt;
  // `requirements` lists what this machine lets programs use.
  if (isNative && !missingFeatures("amx-tile,amx-bf16,amx-int8").empty())
    return std::nullopt;
  CpuMachine result = *this;
  result.features = own;
  result.bf16Tiles = result.int8Tiles = true;
  return result;
}

llvm::Expected<CpuMachine> CpuMachine::named(llvm::StringRef cpu) {
  if (cpu.ends_with(tilesSuffix)) {
    llvm::Expected<CpuMachine> plain = named(cpu.drop_back(tilesSuffix.size()));
    if (!plain)
      return plain.takeError();
    if (std::optional<CpuMachine> tiles = plain->withTiles())
      return *tiles;
    return llvm::createStringError("the CPU '" + plain->cpu +
                                   "' has no tiles for bf16 and int8 (AMX)");
  }
  if (cpu == "native")
    return native();
  initializeTargets();
  CpuMachine target;
  target.cpu = cpu.str();
  target.l1Bytes = 32 << 10;
  target.l2Bytes = 1 << 20;
  const char *triples[] = {"x86_64-unknown-linux-gnu",
                           cpu.starts_with("apple-")
                               ? "arm64-apple-macosx11.0"
                               : "aarch64-unknown-linux-gnu"};
  // As this machine calls its own kind, so that their code can be in one file;
  // `generic` is one of its kind.
  llvm::Triple here(llvm::sys::getProcessTriple());
  if (here.isAArch64())
    std::swap(triples[0], triples[1]);
  for (const char *triple : triples) {
    llvm::Triple there(triple);
    bool isHere =
        there.getArch() == here.getArch() && there.getOS() == here.getOS();
    target.triple = isHere ? here.str() : triple;
    target.features =
        llvm::Triple(target.triple).isX86() ? "-prefer-256-bit" : "";
    if (std::unique_ptr<llvm::MCSubtargetInfo> info = subtarget(
            llvm::Triple(target.triple), target.cpu, target.features)) {
      if (llvm::Error error = describeRegisters(target, *info))
        return std::move(error);
      leaveOutUnasked(target, *info);
      return target;
    }
  }
  if (llvm::StringRef meant = meantBy(cpu); !meant.empty())
    return llvm::createStringError("unknown CPU '" + cpu + "'; " + meant);
  if (std::string guess = closestCpu(cpu, triples); !guess.empty())
    return llvm::createStringError("unknown CPU '" + cpu + "'; did you mean '" +
                                   guess + "'?");
  return llvm::createStringError(
      "unknown CPU '" + cpu +
      "'; name it as LLVM does, such as skylake-avx512, znver4 or haswell, or "
      "`native` for this machine's");
}

std::string CpuMachine::requirements() const {
  initializeTargets();
  std::unique_ptr<llvm::MCSubtargetInfo> info =
      subtarget(llvm::Triple(triple), codeCpu(), features);
  std::vector<std::string> names;
  auto add = [&](std::string_view name) {
    if (info->checkFeatures("+" + std::string(name)) &&
        !(isNative && !missingFeatures(name).empty()))
      names.emplace_back(name);
  };
  if (llvm::Triple(triple).isX86())
    llvm::for_each(x86Features, add);
  else
    llvm::for_each(aarch64Features, add);
  return llvm::join(names, ",");
}

llvm::StringRef CpuMachine::codeCpu() const {
  return llvm::Triple(triple).isAArch64() ? "generic" : llvm::StringRef(cpu);
}

void CpuMachine::describe(llvm::Function &function) const {
  function.addFnAttr("target-cpu", codeCpu());
  function.addFnAttr("tune-cpu", cpu);
  if (!features.empty())
    function.addFnAttr("target-features", features);
}

int64_t CpuMachine::tileVectors() const { return lanes >= 8 ? 2 : 3; }

int64_t CpuMachine::tileVectorsInPlace() const {
  // Measured on Intel's cores alone.
  return lanes == 16 && !readsInOrder ? 4 : tileVectors();
}

int64_t CpuMachine::tileRows(int64_t vectors) const {
  // Besides the accumulators, one row of B and one broadcast element of A stay
  // in registers; an even number of rows keeps packed panels aligned.
  int64_t rows = (registers - vectors - 1) / vectors;
  return rows - rows % 2;
}

int64_t CpuMachine::pairTileRows() const {
  // Besides the accumulators B and its magnitudes, an element of A, its product
  // and ones.
  return (registers - 2 * tileVectors() - 3) / tileVectors();
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
CpuMachine::createMachine() const {
  initializeTargets();
  std::string error;
  llvm::Triple parsed(triple);
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(parsed, error);
  if (!target)
    return llvm::createStringError(error);
  llvm::TargetOptions options;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      parsed, codeCpu(), features, options, llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOptLevel::Default));
  if (!machine)
    return llvm::createStringError("LLVM cannot generate code for " + triple);
  return machine;
}
