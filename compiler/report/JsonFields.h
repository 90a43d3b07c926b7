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

/// A field that is `null` where nothing is known.
inline void optionalField(llvm::json::OStream &json, llvm::StringRef name,
                          std::optional<int64_t> value) {
  json.attribute(name, value ? llvm::json::Value(*value)
                             : llvm::json::Value(nullptr));
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

/// What a build is planned for and what of its arena is which, in bytes.
inline void memoryFields(llvm::json::OStream &json,
                         const MemoryReport &memory) {
  json.attribute("batch", memory.batch);
  json.attribute("sequence", memory.sequence);
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
}

} // namespace tfm

#endif // TFM_REPORT_JSONFIELDS_H
