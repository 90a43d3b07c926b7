//===- CompleteRecipe.h - recipes that say little -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_TESTS_UNIT_COMPLETERECIPE_H
#define TFM_TESTS_UNIT_COMPLETERECIPE_H

#include "runtime/recipe_table.h"

#include <nlohmann/json.hpp>
#include <string>

namespace tfm::test {

/// A default as JSON.
inline nlohmann::json jsonOf(const recipe::Field &field,
                             const recipe::Default &value) {
  if (field.type == recipe::Type::Texts)
    return nlohmann::json::array();
  if (const bool *flag = std::get_if<bool>(&value))
    return *flag;
  if (const int64_t *integer = std::get_if<int64_t>(&value))
    return *integer;
  if (const double *number = std::get_if<double>(&value))
    return *number;
  if (const auto *betas = std::get_if<std::array<double, 2>>(&value))
    return *betas;
  if (const auto *text = std::get_if<std::string_view>(&value))
    return *text;
  return nullptr;
}

/// Fills what an object of a recipe does not say with the table's defaults.
inline void complete(nlohmann::json &object, const std::string &path) {
  // In the order of the table the kind comes before what depends on it.
  for (const recipe::Field &field : recipe::fields) {
    if (field.parent() != path || field.isOptional)
      continue;
    std::string key(field.key());
    bool isForm = field.type == recipe::Type::Form;
    if (!object.contains(key)) {
      const recipe::Default &value =
          recipe::writtenFor(field, object.value("kind", ""));
      bool isNull = std::holds_alternative<std::nullptr_t>(value);
      if (isForm)
        object[key] = isNull ? nlohmann::json() : nlohmann::json::object();
      else if (!std::holds_alternative<std::monostate>(value))
        object[key] = jsonOf(field, value);
    }
    if (isForm && object[key].is_object())
      complete(object[key], std::string(field.path));
  }
}

/// The recipe that `text`, an object with some of its keys, is the beginning
/// of: the others are as in a file that does not say them.
inline std::string completeRecipe(const std::string &text) {
  nlohmann::json recipe = nlohmann::json::parse(text);
  complete(recipe, "");
  return recipe.dump();
}

} // namespace tfm::test

#endif // TFM_TESTS_UNIT_COMPLETERECIPE_H
