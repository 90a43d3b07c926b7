//===- AttentionRule.h - what attention computes ----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TARGET_EMIT_ATTENTIONRULE_H
#define TFM_TARGET_EMIT_ATTENTIONRULE_H

#include "compiler/schedule/SchedDialect.h"

#include <optional>

namespace tfm {

/// What `tfm.attention` says beside its operands.
struct AttentionRule {
  bool causal = false;
  /// With a window and positions of their own: position p lies in row p mod S
  /// of the keys.
  bool ring = false;
  double scale = 1.0;
  std::optional<int64_t> window;
  std::optional<double> softcap, dropout;
  /// Of dropout's counter: its number, and the micro-steps of an update.
  int64_t site = 0, microSteps = 1;
  /// Whether the layer counts there, too.
  bool hasLayer = false;
};

/// The rule of attention or of its derivative.
template <typename Op> AttentionRule ruleOf(Op op, sched::LaunchOp launch) {
  AttentionRule rule;
  rule.causal = op.getCausal();
  if constexpr (requires { op.getRing(); })
    rule.ring = op.getRing();
  rule.scale = op.getScale().convertToDouble();
  if (auto window = op.getWindow())
    rule.window = static_cast<int64_t>(*window);
  if (auto softcap = op.getSoftcap())
    rule.softcap = softcap->convertToDouble();
  if (auto dropout = op.getDropout())
    rule.dropout = dropout->convertToDouble();
  rule.site = static_cast<int64_t>(op.getSite().value_or(0));
  rule.microSteps = static_cast<int64_t>(launch.getMicroSteps());
  rule.hasLayer = static_cast<bool>(op.getLayer());
  return rule;
}

} // namespace tfm

#endif // TFM_TARGET_EMIT_ATTENTIONRULE_H
