//===- parts.cpp - the tensors of a member of a model -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/parts.h"

#include "runtime/support/closest.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fmt/format.h>
#include <set>

namespace tfm {

namespace {

bool isNameOfPart(const std::string &text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.';
  });
}

} // namespace

std::optional<std::string> nameInPart(const std::string &name,
                                      const std::string &part) {
  if (part.empty())
    return name;
  if (!name.starts_with(part + "."))
    return std::nullopt;
  return name.substr(part.size() + 1);
}

namespace {

template <typename Aliases>
std::vector<std::string> namesIn(const std::string &part,
                                 const std::string &name,
                                 const Aliases &aliases) {
  std::vector<std::string> names;
  auto add = [&](const std::string &each) {
    if (std::optional<std::string> inner = nameInPart(each, part))
      names.push_back(std::move(*inner));
  };
  add(name);
  std::ranges::for_each(aliases, add);
  return names;
}

} // namespace

std::vector<std::string> namesInPart(const tfm_parameter &parameter,
                                     const std::string &part) {
  return namesIn(part, parameter.name,
                 std::span(parameter.aliases, parameter.alias_count));
}

std::vector<std::string> namesInPart(const FloatTensor &tensor,
                                     const std::string &part) {
  return namesIn(part, tensor.name, tensor.aliases);
}

void requirePart(const tfm_model &model, const std::string &part) {
  std::set<std::string> parts; // but for those within others
  for (const tfm_parameter &parameter :
       std::span(model.parameters, model.parameter_count)) {
    if (!namesInPart(parameter, part).empty())
      return;
    for (const std::string &name : namesInPart(parameter, ""))
      if (const size_t dot = name.find('.'); dot != std::string::npos)
        parts.insert(name.substr(0, dot));
  }
  const std::string meant = closest(part, {parts.begin(), parts.end()});
  throw InputError(
      "{} has no part `{}`: its parts are {}, and what they have within{}",
      model.name, part, fmt::join(parts, ", "),
      meant.empty() ? "" : ". Did you mean `" + meant + "`?");
}

InitialWeights InitialWeights::parse(const std::string &text) {
  const size_t sign = text.find('=');
  std::error_code none;
  if (sign == std::string::npos || !isNameOfPart(text.substr(0, sign)) ||
      std::filesystem::exists(text, none))
    return {"", text};
  return {text.substr(0, sign), text.substr(sign + 1)};
}

void requireApart(const tfm_model &model,
                  std::span<const InitialWeights> weights) {
  if (weights.size() == 1 && weights[0].part.empty())
    return;
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto &[part, path] = weights[i];
    if (part.empty())
      throw InputError("--init {} is for the whole model: beside "
                       "another one name the part that it is for, "
                       "--init PART={}",
                       path, path);
    requirePart(model, part);
    for (const auto &[other, otherPath] : weights.first(i)) {
      if (part == other)
        throw InputError("--init has two files for the part {}: "
                         "{} and {}",
                         part, otherPath, path);
      for (const tfm_parameter &parameter :
           std::span(model.parameters, model.parameter_count))
        if (!namesInPart(parameter, part).empty() &&
            !namesInPart(parameter, other).empty())
          throw InputError(
              "{} is of both parts that --init names, {} and {}: name one",
              parameter.name, other, part);
    }
  }
}

} // namespace tfm
