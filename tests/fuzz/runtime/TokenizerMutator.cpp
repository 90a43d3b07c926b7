//===- TokenizerMutator.cpp - tokenizers that are nearly right ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/fuzz/runtime/TokenizerMutator.h"

#include "tests/fuzz/runtime/JsonMutator.h"

#include <algorithm>

namespace tfm::fuzz {

namespace {

constexpr const char *keys[] = {"added_tokens",
                                "normalizer",
                                "pre_tokenizer",
                                "decoder",
                                "post_processor",
                                "model",
                                "vocab",
                                "merges",
                                "type",
                                "unk_token",
                                "fuse_unk",
                                "byte_fallback",
                                "ignore_merges",
                                "end_of_word_suffix",
                                "continuing_subword_prefix",
                                "add_prefix_space",
                                "use_regex",
                                "prepend_scheme",
                                "replacement",
                                "split",
                                "pattern",
                                "String",
                                "Regex",
                                "content",
                                "behavior",
                                "invert",
                                "normalizers",
                                "pretokenizers",
                                "decoders",
                                "id",
                                "lstrip",
                                "rstrip",
                                "single_word",
                                "normalized",
                                "special",
                                "single",
                                "special_tokens",
                                "SpecialToken",
                                "ids",
                                "tokens"};

struct Part {
  const char *key, *value;
};

/// How tokenizers that are published cut, change and put together.
constexpr Part parts[] = {
    {"pre_tokenizer", R"({"type": "ByteLevel", "add_prefix_space": false,
                          "use_regex": true})"},
    {"pre_tokenizer", R"({"type": "ByteLevel", "use_regex": false})"},
    {"pre_tokenizer", R"({"type": "Metaspace", "replacement": "▁",
                          "prepend_scheme": "first", "split": true})"},
    {"pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}|\\s+(?!\\S)|\\S+"},
         "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "use_regex": false}]})"},
    {"pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "(a*)*b|."},
         "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "use_regex": false}]})"},
    {"pre_tokenizer", R"({"type": "Split", "pattern": {"String": " "},
                          "behavior": "MergedWithPrevious"})"},
    {"pre_tokenizer", R"({"type": "Whitespace"})"},
    {"pre_tokenizer", "null"},
    {"normalizer", R"({"type": "NFC"})"},
    {"normalizer", R"({"type": "NFKD"})"},
    {"normalizer", R"({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})"},
    {"normalizer", R"({"type": "Replace", "pattern": {"String": "a"},
                       "content": "aa"})"},
    {"normalizer", "null"},
    {"decoder", R"({"type": "ByteLevel"})"},
    {"decoder", R"({"type": "Metaspace"})"},
    {"decoder", R"({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})"},
    {"post_processor", R"({"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "<s>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {
        "<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}})"},
    {"post_processor", "null"}};

constexpr const char *models[] = {"BPE", "WordLevel", "Unigram", ""};

/// A token of a table `{"token": id}`, or an empty text.
std::string tokenOf(const Json &vocabulary, Dice &dice) {
  if (!vocabulary.is_object() || vocabulary.empty())
    return "";
  return std::next(vocabulary.begin(),
                   static_cast<ptrdiff_t>(dice.below(vocabulary.size())))
      .key();
}

/// Two tokens that become one, with the one in the vocabulary.
void addMerge(Json &model, Dice &dice) {
  if (!model.contains("vocab") || !model.contains("merges"))
    return;
  Json &vocabulary = model["vocab"];
  Json &merges = model["merges"];
  if (!vocabulary.is_object() || !merges.is_array())
    return;
  std::string left = tokenOf(vocabulary, dice);
  std::string right = tokenOf(vocabulary, dice);
  if (left.size() + right.size() > 40)
    return;
  size_t id = vocabulary.size();
  if (!vocabulary.contains(left + right))
    vocabulary[left + right] = id;
  bool asPair = merges.empty() ? dice.oneIn(2) : merges[0].is_array();
  Json merge = asPair ? Json::array({left, right}) : Json(left + " " + right);
  merges.insert(merges.begin() +
                    static_cast<ptrdiff_t>(dice.below(merges.size() + 1)),
                merge);
}

void addToken(Json &root, Dice &dice) {
  Json &tokens = root["added_tokens"];
  if (!tokens.is_array())
    tokens = Json::array();
  const Json &vocabulary = root["model"]["vocab"];
  size_t size = vocabulary.is_object() ? vocabulary.size() : 0;
  std::string text = tokenOf(vocabulary, dice);
  bool isNew = dice.oneIn(2);
  size_t id = size + tokens.size();
  if (!isNew && vocabulary.contains(text) &&
      vocabulary[text].is_number_unsigned())
    id = vocabulary[text].get<size_t>();
  if (isNew)
    text = dice.oneIn(2) ? "<" + text + ">" : text + " ";
  tokens.push_back({{"id", id},
                    {"content", text},
                    {"single_word", dice.oneIn(8)},
                    {"lstrip", dice.oneIn(2)},
                    {"rstrip", dice.oneIn(2)},
                    {"normalized", dice.oneIn(2)},
                    {"special", dice.oneIn(2)}});
}

void mutateTokenizer(Json &root, Dice &dice) {
  Json &model = root["model"];
  if (!model.is_object())
    return;
  switch (dice.below(6)) {
  case 0: {
    const Part &part = dice.pick(parts);
    root[part.key] = Json::parse(part.value);
    break;
  }
  case 1:
    addToken(root, dice);
    break;
  case 2:
    model["type"] = dice.pick(models);
    break;
  case 3:
    if (dice.oneIn(4))
      model["end_of_word_suffix"] = "</w>";
    else
      model[dice.oneIn(2) ? "byte_fallback" : "ignore_merges"] = dice.oneIn(2);
    break;
  default:
    addMerge(model, dice);
  }
}

std::vector<std::string> linesOf(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

//===----------------------------------------------------------------------===//
// Protobuf
//===----------------------------------------------------------------------===//

struct Field {
  uint64_t number = 0;
  unsigned wire = 0;
  uint64_t value = 0; ///< of a varint
  std::string bytes;  ///< of the others
};

bool readVarint(std::string_view &bytes, uint64_t &value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    auto byte = static_cast<unsigned char>(bytes[0]);
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (!(byte & 0x80))
      return true;
  }
  return false;
}

/// False for what is no message.
bool readFields(std::string_view bytes, std::vector<Field> &fields) {
  while (!bytes.empty()) {
    Field &field = fields.emplace_back();
    uint64_t tag = 0, size = 0;
    if (!readVarint(bytes, tag))
      return false;
    field.number = tag >> 3;
    field.wire = tag & 7;
    if (field.wire == 0) {
      if (!readVarint(bytes, field.value))
        return false;
      continue;
    }
    if (field.wire == 1)
      size = 8;
    else if (field.wire == 5)
      size = 4;
    else if (field.wire != 2 || !readVarint(bytes, size))
      return false;
    if (size > bytes.size())
      return false;
    field.bytes = bytes.substr(0, size);
    bytes.remove_prefix(size);
  }
  return true;
}

void writeVarint(uint64_t value, std::string &out) {
  for (; value >= 0x80; value >>= 7)
    out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

std::string write(const std::vector<Field> &fields) {
  std::string out;
  for (const Field &field : fields) {
    writeVarint(field.number << 3 | field.wire, out);
    if (field.wire == 0)
      writeVarint(field.value, out);
    if (field.wire == 2)
      writeVarint(field.bytes.size(), out);
    out += field.bytes;
  }
  return out;
}

constexpr uint64_t extremes[] = {
    0, 1, 2, 3, 4, 5, 6, 41, 255, 0x7FFFFFFF, 0xFFFFFFFF, ~uint64_t{0}};
constexpr std::string_view floats[] = {
    std::string_view("\0\0\0\0", 4),     std::string_view("\0\0\x80\x3f", 4),
    std::string_view("\0\0\x80\xbf", 4), std::string_view("\0\0\x80\x7f", 4),
    std::string_view("\0\0\xc0\x7f", 4), std::string_view("\1\0\0\0", 4)};
constexpr const char *pieces[] = {"",  "a", "▁", "▁a",  "ab",     "\xff",
                                  " ", "b", "é", "<s>", "<0x41>", "<0xFF>"};

void mutateFields(std::vector<Field> &fields, Dice &dice, int depth) {
  if (fields.empty()) {
    fields.push_back({dice.below(5), 0, dice.pick(extremes), ""});
    return;
  }
  size_t at = dice.below(fields.size());
  Field &field = fields[at];
  // Most of a model is in the messages of its message.
  if (depth < 3 && field.wire == 2 && !dice.oneIn(4)) {
    std::vector<Field> inner;
    if (readFields(field.bytes, inner) && !inner.empty()) {
      mutateFields(inner, dice, depth + 1);
      field.bytes = write(inner);
      return;
    }
  }
  switch (dice.below(6)) {
  case 0:
    fields.erase(fields.begin() + static_cast<ptrdiff_t>(at));
    return;
  case 1: {
    Field copy = field;
    fields.insert(fields.begin() +
                      static_cast<ptrdiff_t>(dice.below(fields.size() + 1)),
                  copy);
    return;
  }
  case 2:
    std::swap(field, dice.pick(fields));
    return;
  case 3:
    if (dice.oneIn(4)) {
      field.number = dice.oneIn(2) ? dice.below(6) : dice.pick(extremes);
      field.number &= ~uint64_t{0} >> 3;
      return;
    }
    [[fallthrough]];
  default:
    if (field.wire == 0)
      field.value = dice.oneIn(2) ? dice.pick(extremes) : field.value + 1;
    else if (field.wire == 5)
      field.bytes = dice.pick(floats);
    else if (field.wire == 2)
      field.bytes = dice.oneIn(2) ? std::string(dice.pick(pieces))
                                  : dice.bytes(field.bytes, 4);
  }
}

} // namespace

std::string mutateTokenizerJson(std::string_view text, Dice &dice) {
  if (!dice.oneIn(3))
    return mutateJson(text, dice, keys);
  Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object())
    return dice.bytes(text);
  for (size_t changes = 1 + dice.below(4); changes > 0; --changes)
    mutateTokenizer(root, dice);
  return textOf(root);
}

std::string mutateVocabulary(std::string_view text, Dice &dice) {
  Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_object() && !dice.oneIn(3)) {
    size_t id = root.size();
    root[tokenOf(root, dice) + tokenOf(root, dice)] = id;
    return textOf(root);
  }
  static constexpr const char *tokens[] = {
      "<UNK>", "</w>", "a", "a</w>", "Ġ", "Ġa", "<|endoftext|>"};
  return mutateJson(text, dice, tokens);
}

std::string mutateMerges(std::string_view text, Dice &dice) {
  std::vector<std::string> lines = linesOf(text);
  if (lines.empty() || dice.oneIn(8))
    return dice.bytes(text);
  size_t one = dice.below(lines.size()), two = dice.below(lines.size());
  switch (dice.below(5)) {
  case 0:
    lines.erase(lines.begin() + static_cast<ptrdiff_t>(one));
    break;
  case 1:
    lines.insert(lines.begin() + static_cast<ptrdiff_t>(two),
                 std::string(lines[one]));
    break;
  case 2:
    std::swap(lines[one], lines[two]);
    break;
  case 3:
    lines[one] += lines[two];
    break;
  default:
    lines[one] = dice.bytes(lines[one], 4);
  }
  std::string result;
  for (const std::string &line : lines)
    result += line + "\n";
  return result;
}

std::string mutateProtobuf(std::string_view bytes, Dice &dice) {
  std::vector<Field> fields;
  if (!readFields(bytes, fields) || dice.oneIn(20))
    return dice.bytes(bytes);
  for (size_t changes = 1 + dice.below(4); changes > 0; --changes)
    mutateFields(fields, dice, 0);
  return write(fields);
}

std::string mutateText(std::string_view text, std::string_view tokenizer,
                       Dice &dice) {
  if (dice.oneIn(2))
    return dice.bytes(text);
  Json root = Json::parse(tokenizer, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded())
    return dice.bytes(text);
  std::string token = " ";
  const Json *model =
      root.is_object() && root.contains("model") ? &root["model"] : nullptr;
  if (model && model->is_object() && model->contains("vocab"))
    token = tokenOf((*model)["vocab"], dice);
  else if (!model)
    token = tokenOf(root, dice);
  std::string result(text);
  size_t at = dice.below(result.size() + 1);
  size_t most = dice.oneIn(8) ? 200 : 2;
  for (size_t count = 1 + dice.below(most); count > 0; --count)
    result.insert(at, token);
  return result;
}

} // namespace tfm::fuzz
