//===- read_json.h - JSON that others wrote -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_READ_JSON_H
#define TFM_RUNTIME_SUPPORT_READ_JSON_H

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tfm {

/// A text without the mark of the byte order with which some editors begin a
/// file.
std::string_view withoutByteOrderMark(std::string_view text);

/// Whether a text has more brackets within each other than any JSON that is
/// read here. Some parsers, and whatever copies or prints a value, call
/// themselves for each and would run out of stack.
bool isNestedDeeply(std::string_view text);

/// Parses JSON; discarded (`is_discarded`) where it is none, or nested deeply.
nlohmann::json jsonOf(std::string_view text);
/// The same with the members of objects in their order.
nlohmann::ordered_json orderedJsonOf(std::string_view text);

/// A value in one line. Bytes of its strings that are no UTF-8, as metadata of
/// GGUF files may have them, are replaced.
std::string jsonText(const nlohmann::json &value);

/// Where an object has the value of a key; dots lead into the objects in it,
/// which are made where there are none: `rope_parameters.rope_theta`.
nlohmann::json &placeOf(nlohmann::json &object, const std::string &key);

/// The object in a file that may be in a folder; an empty one where there is
/// none of that name. Throws InputError that names `purpose` ("the tokenizer's
/// settings") and the file where it cannot be read, or is no JSON object.
nlohmann::ordered_json objectIn(const std::string &path,
                                std::string_view purpose);

/// What is wrong with a text that `jsonOf` discards: that it ends too early,
/// that it is nested deeply, that it has a number which is too large, or at
/// which character of which line it stops being JSON (of a text of one line
/// only the character is said).
std::string faultOfJson(std::string_view text);

/// Of a text that `jsonOf` makes no object of what it is instead, or where it
/// stops being JSON: "is not a JSON object (it is an array)".
std::string isNoObject(std::string_view text);

/// Throws InputError: `origin` is not valid JSON, by `faultOfJson`.
[[noreturn]] void refuseJson(const std::string &origin, std::string_view text);

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_READ_JSON_H
