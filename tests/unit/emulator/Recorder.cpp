//===- Recorder.cpp - launches to be repeated on a GPU --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For each launch `N.json` says how the kernel is launched, and `N.bin` has the
// bytes of all buffers before and then those after:
//
//   {"name": ..., "ptx": "K.sm_80.ptx", "kernels": "K.mlir",
//    "grid": [..], "block": [..], "shared": bytes,
//    "buffers": [bytes, ...],
//    "arguments": [{"buffer": i, "offset": bytes} | {"number": n} |
//                  {"buffer": i, "offset": bytes, "sizes": [..],
//                   "strides": [..], "box": [..]}, ...]}
//
//===----------------------------------------------------------------------===//

#include "tests/unit/emulator/Recorder.h"

#include "compiler/target/cuda/Ptx.h"
#include "tests/emulator/Observer.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <cstdlib>
#include <unistd.h>

using namespace mlir;
using namespace tfm;
using namespace tfm::emulator;

namespace {

class Recorder final : public Observer {
public:
  explicit Recorder(std::string path) : folder(std::move(path)) {
    // Several programs may record into one folder.
    prefix = std::to_string(getpid()) + "-";
    EXPECT_FALSE(llvm::sys::fs::create_directories(folder));
  }

  void load(ModuleOp module, llvm::ArrayRef<Kernel> kernels) override {
    files.clear();
    std::string stem = prefix + std::to_string(modules++);
    {
      std::string text;
      llvm::raw_string_ostream os(text);
      module.print(os, OpPrintingFlags().useLocalScope());
      write(stem + ".mlir", text);
    }
    for (bool isHopper : {false, true}) {
      llvm::StringRef sm = isHopper ? "sm_90a" : "sm_80";
      auto isOf = [&](LLVM::LLVMFuncOp function) {
        return llvm::any_of(kernels, [&](const Kernel &kernel) {
          return kernel.readsAsync == isHopper &&
                 kernel.name == function.getName();
        });
      };
      OwningOpRef<ModuleOp> some = cuda::extractKernels(module, isOf);
      if (some->getBody()->empty())
        continue;
      llvm::LLVMContext context;
      std::unique_ptr<llvm::Module> code =
          cuda::translateToNvptx(*some, context);
      ASSERT_TRUE(code);
      llvm::Expected<std::string> ptx = cuda::toPtx(*code, sm);
      if (!ptx) {
        ADD_FAILURE() << toString(ptx.takeError());
        return;
      }
      write((stem + "." + sm + ".ptx").str(), *ptx);
      for (const Kernel &kernel : kernels)
        if (kernel.readsAsync == isHopper)
          files[kernel.name] = {(stem + "." + sm + ".ptx").str(),
                                stem + ".mlir", 0};
    }
  }

  void begin(const Kernel &kernel, void *const *arguments,
             Buffers all) override {
    launch.reset();
    auto file = files.find(kernel.name);
    if (file == files.end() || file->second.launches++ == mostLaunches)
      return;
    Launch &now = launch.emplace();
    auto place = [&](uint64_t address) -> std::optional<llvm::json::Object> {
      auto *pointer = reinterpret_cast<char *>(address);
      for (auto [first, bytes] : all)
        if (pointer >= first && pointer < first + bytes) {
          auto known = llvm::find(now.buffers, std::pair(first, bytes));
          int64_t number = known - now.buffers.begin();
          if (known == now.buffers.end())
            now.buffers.push_back({first, bytes});
          return llvm::json::Object{{"buffer", number},
                                    {"offset", pointer - first}};
        }
      return std::nullopt;
    };
    llvm::json::Array list;
    for (uint32_t i = 0; i != kernel.arguments; ++i) {
      if (i >= kernel.arguments - kernel.tensors) {
        const auto &map = *static_cast<const TensorMap *>(arguments[i]);
        std::optional<llvm::json::Object> tensor = place(map.first);
        ASSERT_TRUE(tensor) << kernel.name;
        auto numbers = [&](const auto &array, uint32_t count) {
          llvm::json::Array values;
          for (uint32_t axis = 0; axis != count; ++axis)
            values.push_back(static_cast<int64_t>(array[axis]));
          return values;
        };
        (*tensor)["sizes"] = numbers(map.sizes, map.rank);
        (*tensor)["strides"] = numbers(map.strides, map.rank - 1);
        (*tensor)["box"] = numbers(map.box, map.rank);
        list.push_back(std::move(*tensor));
        continue;
      }
      uint64_t value = *static_cast<const uint64_t *>(arguments[i]);
      if (auto pointer = place(value))
        list.push_back(std::move(*pointer));
      else
        list.push_back(
            llvm::json::Object{{"number", static_cast<int64_t>(value)}});
    }
    llvm::json::Array sizes;
    for (auto [first, bytes] : now.buffers) {
      sizes.push_back(static_cast<int64_t>(bytes));
      now.before.append(first, bytes);
    }
    auto three = [](const std::array<uint32_t, 3> &numbers) {
      return llvm::json::Array{numbers[0], numbers[1], numbers[2]};
    };
    now.head = llvm::json::Object{{"name", kernel.name},
                                  {"ptx", file->second.ptx},
                                  {"kernels", file->second.kernels},
                                  {"grid", three(kernel.grid)},
                                  {"block", three(kernel.block)},
                                  {"shared", kernel.dynamicShared},
                                  {"buffers", std::move(sizes)},
                                  {"arguments", std::move(list)}};
  }

  void end() override {
    if (!launch)
      return;
    std::string number = prefix + "launch-" + std::to_string(launches++),
                bytes = std::move(launch->before);
    for (auto [first, count] : launch->buffers)
      bytes.append(first, count);
    write(number + ".bin", bytes);
    std::string text;
    llvm::raw_string_ostream(text)
        << llvm::json::Value(std::move(launch->head));
    write(number + ".json", text);
    launch.reset();
  }

private:
  /// Of one kernel of a program.
  static constexpr int mostLaunches = 2;

  void write(const std::string &name, llvm::StringRef text) {
    std::error_code error;
    llvm::raw_fd_ostream(folder + "/" + name, error) << text;
    EXPECT_FALSE(error) << name;
  }

  struct File {
    std::string ptx, kernels;
    int launches = 0;
  };
  struct Launch {
    llvm::json::Object head;
    std::vector<std::pair<char *, size_t>> buffers;
    std::string before;
  };

  std::string folder, prefix;
  int modules = 0, launches = 0;
  /// Of the kernels that were loaded last.
  std::map<std::string, File> files;
  std::optional<Launch> launch;
};

} // namespace

void tfm::emulator::recordLaunches() {
  const char *folder = std::getenv("TFM_RECORD_LAUNCHES");
  if (!folder || Observer::current)
    return;
  static Recorder recorder(folder);
  Observer::current = &recorder;
}
