//===- JsonFields.h - what several writers of JSON write ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_REPORT_JSONFIELDS_H
#define TFM_REPORT_JSONFIELDS_H

#include "compiler/report/ModelReport.h"

#include "llvm/Support/JSON.h"

namespace tfm {

/// A field with all of `values`: numbers or texts.
template <typename Range>
void arrayField(llvm::json::OStream &json, llvm::StringRef name,
                const Range &values) {
  json.attributeArray(name, [&] {
    for (const auto &value : values)
      json.value(value);
  });
}

/// A number of FLOPs: one that takes more than 64 bits is rounded to an f64.
inline llvm::json::Value jsonOf(FlopCount number) {
  auto narrow = static_cast<int64_t>(number);
  return narrow == number ? llvm::json::Value(narrow)
                          : llvm::json::Value(static_cast<double>(number));
}

/// A field that is `null` where nothing is known.
inline void optionalField(llvm::json::OStream &json, llvm::StringRef name,
                          std::optional<FlopCount> value) {
  json.attribute(name, value ? jsonOf(*value) : llvm::json::Value(nullptr));
}

/// How the total changes with each hyperparameter, the largest change first.
inline void sensitivityField(llvm::json::OStream &json, llvm::StringRef name,
                             const ModelReport &report) {
  json.attributeArray(name, [&] {
    for (const ModelReport::Sensitivity &entry : report.sensitivities)
      json.object([&] {
        json.attribute("name", entry.name);
        json.attribute("derivative", entry.derivative);
        json.attribute("elasticity", entry.elasticity);
        optionalField(json, "one_more", entry.oneMore);
      });
  });
}

/// `{"f32": 12, "bf16": 3}`, each count for one of `parts`.
template <typename Count>
void typesField(llvm::json::OStream &json, llvm::StringRef name,
                const std::vector<std::pair<std::string, Count>> &byType,
                int64_t parts = 1) {
  json.attributeObject(name, [&] {
    for (const auto &[type, count] : byType)
      json.attribute(type, jsonOf(count / parts));
  });
}

/// What products multiply, forward for a token and in a step of training.
inline void productsField(llvm::json::OStream &json, const FlopsReport &flops) {
  json.attributeObject("products", [&] {
    if (flops.forwardPerToken)
      typesField(json, "forward_per_token", flops.forwardProducts,
                 flops.forwardTokens);
    else
      json.attribute("forward_per_token", nullptr);
    if (flops.trainStep)
      typesField(json, "train_step", flops.trainProducts);
    else
      json.attribute("train_step", nullptr);
  });
}

/// What a build is planned for and what of its arena is which, in bytes.
inline void memoryFields(llvm::json::OStream &json,
                         const MemoryReport &memory) {
  json.attribute("batch", memory.batch);
  json.attribute("sequence", memory.sequence
                                 ? llvm::json::Value(*memory.sequence)
                                 : llvm::json::Value(nullptr));
  json.attribute("precision", memory.precision);
  json.attribute("target", memory.target);
  json.attribute("cpu", memory.machine);
  json.attribute("parameters", memory.parameters);
  json.attribute("gradients", memory.gradients);
  json.attribute("optimizer", memory.optimizer);
  json.attribute("activations", memory.activations);
  json.attribute("constants", memory.constants);
  json.attribute("cache", memory.cache);
  json.attribute("arena", memory.arena);
  json.attribute("lower_bound", memory.lowerBound);
  json.attributeObject("types", [&] {
    for (const auto &[part, byType] : memory.types)
      typesField(json, part, byType);
  });
}

/// What each of several processes has of an update; nothing where nobody asked.
inline void sharedField(llvm::json::OStream &json, const MemoryReport &memory) {
  if (memory.shared.empty())
    return;
  json.attributeArray("processes", [&] {
    for (const SharedReport &shared : memory.shared)
      json.object([&] {
        json.attribute("processes", shared.processes);
        if (!shared.problem.empty()) {
          json.attribute("problem", shared.problem);
          return;
        }
        json.attribute("micro_batches", shared.microBatches);
        json.attribute("optimizer", shared.optimizer);
        json.attribute("incoming", shared.incoming);
        json.attribute("memory", shared.memory);
        json.attribute("sent", shared.sent);
        json.attributeArray("sent_by", [&] {
          for (const SentBy &some : shared.sentBy)
            json.object([&] {
              json.attribute("first", some.first);
              json.attribute("last", some.last);
              json.attribute("bytes", some.bytes);
            });
        });
        if (!shared.seconds)
          return;
        json.attributeObject("seconds", [&] {
          const StepSeconds &seconds = *shared.seconds;
          json.attribute("compute", seconds.compute);
          json.attribute("hidden", seconds.hidden);
          json.attribute("sums", seconds.sums);
          json.attribute("update", seconds.update);
          json.attribute("parameters", seconds.parameters);
          json.attribute("step", seconds.step);
        });
        json.attribute("efficiency", shared.efficiency);
      });
  });
}

} // namespace tfm

#endif // TFM_REPORT_JSONFIELDS_H
