//===- jinja_render.h - evaluates a chat template -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_CHAT_JINJA_RENDER_H
#define TFM_RUNTIME_CHAT_JINJA_RENDER_H

#include "runtime/chat/jinja_syntax.h"

#include <ctime>

namespace tfm::jinja {

/// The text of a template with these variables; `strftime_now` tells the time
/// `now`. Throws PlacedProblem, also for a template that runs for too long or
/// makes more than some megabytes.
std::string render(const Statements &program, Members variables,
                   std::time_t now);

/// The filter or test `name` on `arguments`, the first of which it is applied
/// to; nothing where there is none of that name. Throws Problem.
std::optional<Value> applyFilter(std::string_view name,
                                 const Arguments &arguments);
std::optional<bool> applyTest(std::string_view name,
                              const Arguments &arguments);
/// The method of a value, to be called; undefined where it has none.
Value methodOf(const Value &object, const std::string &name);

} // namespace tfm::jinja

#endif // TFM_RUNTIME_CHAT_JINJA_RENDER_H
