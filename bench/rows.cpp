//===- rows.cpp - emitted row kernels beside the machine's limits ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Normalisation, cross entropy and the optimizer's update (also of denormal
// gradients and moments, `adamw_denormal`, which is to take as long) as the
// compiler emits them for the shapes of the shipped models. Each reports the
// bytes of its tensors a second (`GBs`), as a share of the bandwidth of memory
// (`ofMemory`) and its operations as a share of the peak of multiply-adds
// (`ofPeak`), both measured in the same run with the same threads. The tensors
// of a small model stay in the caches: there `ofMemory` is above 1.
//
//   bench_rows [--benchmark_filter=...]

#include "bench/Compiled.h"
#include "bench/TimeFunction.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <benchmark/benchmark.h>
#include <map>

using namespace tfm;
using namespace tfm::bench;

namespace {

struct Rows {
  const char *what;
  int64_t rows, width, vocabulary;
};

const Rows shapes[] = {{"addition", 1152, 64, 14},
                       {"shakespeare", 768, 128, 65},
                       {"nanogpt", 16384, 384, 65},
                       {"gpt2", 256, 768, 50257}};

std::string layerNorm(const Rows &s) {
  return llvm::formatv(R"(
    func.func @f(%x: tensor<{0}x{1}xf32>, %w: tensor<{1}xf32>, %b: tensor<{1}xf32>) -> tensor<{0}x{1}xf32> {{
      %n = tfm.normalize %x eps 1.0e-5 : tensor<{0}x{1}xf32>
      %wb = tfm.broadcast %w : tensor<{1}xf32> to tensor<{0}x{1}xf32>
      %bb = tfm.broadcast %b : tensor<{1}xf32> to tensor<{0}x{1}xf32>
      %y = tfm.mul %n, %wb : tensor<{0}x{1}xf32>
      %z = tfm.add %y, %bb : tensor<{0}x{1}xf32>
      return %z : tensor<{0}x{1}xf32>
    })",
                       s.rows, s.width);
}

std::string rmsNorm(const Rows &s) {
  return llvm::formatv(R"(
    func.func @f(%x: tensor<{0}x{1}xf32>, %w: tensor<{1}xf32>) -> tensor<{0}x{1}xf32> {{
      %n = tfm.rms_normalize %x eps 1.0e-6 : tensor<{0}x{1}xf32>
      %wb = tfm.broadcast %w : tensor<{1}xf32> to tensor<{0}x{1}xf32>
      %y = tfm.mul %n, %wb : tensor<{0}x{1}xf32>
      return %y : tensor<{0}x{1}xf32>
    })",
                       s.rows, s.width);
}

std::string crossEntropy(const Rows &s) {
  return llvm::formatv(R"(
    func.func @f(%x: tensor<1x{0}x{1}xf32>, %t: tensor<1x{0}xi32>) -> tensor<1x{0}xf32> {{
      %losses, %lse = tfm.cross_entropy %x, %t : tensor<1x{0}x{1}xf32>, tensor<1x{0}xi32>
      return %losses : tensor<1x{0}xf32>
    })",
                       s.rows, s.vocabulary);
}

std::string dropout(const Rows &s) {
  return llvm::formatv(R"(
    func.func @f(%x: tensor<{0}x{1}xf32>) -> tensor<{0}x{1}xf32> {{
      %y = tfm.dropout %x {{rate = 0.2 : f64, site = 1 : i64} : tensor<{0}x{1}xf32>
      return %y : tensor<{0}x{1}xf32>
    })",
                       s.rows, s.width);
}

/// AdamW with clipping over that many parameters.
std::string adamw(int64_t parameters) {
  return llvm::formatv(R"(
    module attributes {{tfm.recipe = "{{\22train\22: {{\22optimizer\22: {{\22kind\22: \22adamw\22, \22betas\22: [0.9, 0.99], \22eps\22: 1e-8, \22eps_placement\22: \22torch\22, \22weight_decay\22: 0.1, \22decay_min_rank\22: 2, \22momentum\22: 0.0, \22nesterov\22: false}, \22accumulate\22: 1}}"} {{
      tfm.param @w : tensor<{0}x1024xf32> {{init = {{kind = "zeros"}}
      func.func @loss(%count: tensor<f32> {{tfm.name = "count"}) -> tensor<f32> {{
        %w = tfm.get_param @w : tensor<{0}x1024xf32>
        %a = tfm.reduce_sum %w axis 1 : tensor<{0}x1024xf32>
        %b = tfm.reduce_sum %a axis 0 : tensor<{0}x1xf32>
        %c = tfm.reshape %b : tensor<1x1xf32> to tensor<f32>
        return %c : tensor<f32>
      }
    })",
                       parameters / 1024);
}

/// The inputs: small numbers, for integers zero.
void setInputs(Model &model, const tfm_function &function) {
  for (int32_t i = 0; i < function.input_count; ++i) {
    const tfm_buffer &buffer = function.inputs[i];
    if (buffer.dtype != TFM_F32) {
      std::ranges::fill(model.write<int32_t>(buffer).values(), 0);
      continue;
    }
    uint32_t state = 1;
    PendingWrite<float> write = model.write<float>(buffer);
    for (float &value : write.values()) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(state >> 8) / (1 << 24) - 0.5f;
    }
    if (std::string_view(buffer.name) == "hyper")
      std::ranges::fill(write.values(), 1.0f);
  }
}

/// Gradients so small that the moments that follow them stay denormal.
void setDenormalState(Model &model) {
  for (const tfm_parameter &parameter : model.parameters())
    for (const tfm_place &place = model.place(parameter);
         uint64_t at : {place.gradient, place.state[0], place.state[1]})
      std::ranges::fill(model.device()
                            .write<float>(at, Model::elements(parameter.rank,
                                                              parameter.shape))
                            .values(),
                        1e-39f);
}

enum class Kind { Functions, Module, DenormalState };

/// Times a function of a compiled text.
void time(benchmark::State &state, const Compiled &compiled,
          const std::string &name, Kind kind, int threads) {
  Crew &crew = Crew::of(threads);
  Model model(compiled.descriptor(), crew.device);
  const tfm_function &function = model.function(name);
  setInputs(model, function);
  if (kind == Kind::DenormalState)
    setDenormalState(model);
  double flops = 0;
  for (int32_t i = 0; i < function.launch_count; ++i)
    flops += static_cast<double>(function.launches[i].flops *
                                 function.launches[i].runs);
  // Inputs stay in the caches that they are in, whatever they hold.
  timeFunction(state, crew, model, function, flops, [] {});
}

void add(const std::string &name, const std::string &function,
         const std::string &text, Kind kind = Kind::Functions) {
  for (int threads : {1, 2})
    benchmark::RegisterBenchmark(
        (name + "/threads:" + std::to_string(threads)).c_str(),
        [=](benchmark::State &state) {
          // Compiled once for all that use it.
          static std::map<std::string, Compiled> programs;
          auto found = programs.find(text);
          if (found == programs.end())
            found = programs
                        .emplace(text, kind == Kind::Functions
                                           ? Compiled::functions(text)
                                           : Compiled::module(text))
                        .first;
          time(state, found->second, function, kind, threads);
        })
        ->UseManualTime()
        ->MinTime(0.1)
        ->Unit(benchmark::kMicrosecond);
}

} // namespace

int main(int argc, char **argv) {
  for (const Rows &shape : shapes)
    for (bool derivative : {false, true}) {
      std::string function = derivative ? "f.derivative" : "f";
      std::string end =
          std::string("/") + shape.what + (derivative ? "/derivative" : "");
      add("layer_norm" + end, function, layerNorm(shape));
      add("rms_norm" + end, function, rmsNorm(shape));
      add("cross_entropy" + end, function, crossEntropy(shape));
      if (!derivative)
        add("dropout" + end, function, dropout(shape));
    }
  for (auto [what, parameters] : {std::pair("addition", int64_t{102464}),
                                  {"shakespeare", int64_t{809856}},
                                  {"gpt2", int64_t{124439808}}}) {
    add(std::string("adamw/") + what, "update", adamw(parameters),
        Kind::Module);
    add(std::string("adamw_denormal/") + what, "update", adamw(parameters),
        Kind::DenormalState);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
