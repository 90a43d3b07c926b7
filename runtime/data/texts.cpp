//===- texts.cpp - the texts of a data source ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/texts.h"

#include "runtime/chat/chat_template.h"
#include "runtime/data/numpy_random.h"
#include "runtime/data/table.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/checksum.h"
#include "runtime/support/closest.h"
#include "runtime/support/error.h"
#include "runtime/support/memory.h"
#include "runtime/support/read_json.h"
#include "runtime/support/regular_file.h"
#include "runtime/support/utf8.h"

#include <algorithm>
#include <climits>
#include <ctime>
#include <fmt/format.h>
#include <glob.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <unistd.h>

using json = nlohmann::ordered_json;

namespace tfm {

namespace {

bool isGenerated(const DataSpec &data) {
  return data.kind == "sums" || data.kind == "products";
}

std::vector<Example> makeExpressions(const DataSpec &data) {
  bool isSum = data.kind == "sums";
  if (data.count < 1 || data.max < 1 || data.max >= 1'000'000'000)
    throw InputError("data {} needs count >= 1 and 1 <= max < 10^9", data.kind);
  // Of each no more is known yet.
  constexpr uint64_t least = sizeof(Example);
  if (static_cast<uint64_t>(data.count) > memoryLimit() / least)
    throw InputError(
        "data {} with count = {} takes at least {} bytes for each, but there "
        "is {} of memory: build it with a smaller -D data.count",
        data.kind, data.count, least, byteText(memoryLimit()));
  NumpyRandom random(data.seed);
  auto bound = static_cast<uint32_t>(data.max + 1);
  std::vector<Example> examples;
  examples.reserve(static_cast<size_t>(data.count));
  for (int64_t i = 0; i < data.count; ++i) {
    uint64_t a = random.below(bound);
    uint64_t b = random.below(bound);
    Example &example = examples.emplace_back();
    example.text = std::to_string(a) + (isSum ? '+' : '*') + std::to_string(b) +
                   '=' + std::to_string(isSum ? a + b : a * b) + data.end;
    example.number = static_cast<uint32_t>(i + 1);
  }
  return examples;
}

/// Calls `use` with every line, without its end.
template <typename Use> void eachLine(std::string_view text, Use use) {
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r')
      line.remove_suffix(1);
    use(line);
  }
}

/// Whether a member of a document is a text: numbers and truth values are as
/// JSON writes them.
bool isText(const json &value) {
  return value.is_string() || value.is_number() || value.is_boolean();
}

/// How many bytes two texts begin with alike, in whole characters.
size_t commonPrefix(std::string_view a, std::string_view b) {
  auto count = static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  while (count > 0 && count < a.size() &&
         (static_cast<unsigned char>(a[count]) & 0xC0) == 0x80)
    --count;
  return count;
}

/// Puts messages into the template, which is looked for at the first of them.
class Messages {
public:
  Messages(const FindChat &find, bool answersOnly)
      : find(find), answersOnly(answersOnly) {}

  /// Texts that are taken as they are among messages that are put into a
  /// template are a mistake, which nobody would see. `field` as it is shown.
  void requireLikeFirst(bool areMessages, const std::string &field,
                        const std::string &where) {
    if (first.empty()) {
      first = where;
      areFirstMessages = areMessages;
    }
    if (areMessages != areFirstMessages)
      throw InputError("{}: the field {}{}{}", where, field,
                       areMessages ? " is a list of messages, unlike that of "
                                   : " is no list of messages, unlike that of ",
                       first);
  }

  /// Their text, and where it has what the assistant says; `told` are the tools
  /// that it may use, or null.
  Example read(const json &messages, json told, const std::string &where) {
    requireMessages(messages, where);
    tools = std::move(told);
    if (!find)
      throw InputError(
          "{} has messages, of which only a chat template makes text: name a "
          "field with text, or write the alphabet out",
          where);
    try {
      if (!chat)
        chat = find();
    } catch (const InputError &error) {
      throw InputError("{} has messages, and {}", where, error.what());
    }
    Example example;
    example.text = render(messages, where, /*forAnswer=*/false);
    if (answersOnly)
      for (size_t i = 0; i < messages.size(); ++i)
        if (messages[i]["role"] == "assistant")
          example.answers.push_back(answerAt(messages, i, example.text, where));
    return example;
  }

private:
  std::string render(const json &messages, const std::string &where,
                     bool forAnswer) const {
    return chat->render({messages, tools, where}, now, forAnswer);
  }

  /// From where a prompt for this answer ends to where the next message begins.
  Example::Range answerAt(const json &messages, size_t index,
                          const std::string &whole,
                          const std::string &where) const {
    auto first = [&](size_t count) {
      return json(json::array_t(
          messages.begin(), messages.begin() + static_cast<ptrdiff_t>(count)));
    };
    // Many templates look at the first message, or want a question: of what
    // stands before an answer there may be no text.
    auto before = [&](bool forAnswer) -> std::optional<std::string> {
      try {
        return render(first(index), where, forAnswer);
      } catch (const InputError &) {
        return std::nullopt;
      }
    };
    const json soFar = first(index + 1);
    std::optional<std::string> prompt = before(/*forAnswer=*/true);
    std::string with = render(soFar, where, /*forAnswer=*/false);
    if (prompt && with.starts_with(*prompt) && whole.starts_with(with))
      return {prompt->size(), with.size()};
    // Templates write a message otherwise where it is not the last one, or
    // begin an answer with what this one has not (`<think>`): what changes with
    // its content is its content, and what it has alone behind that ends it.
    auto changing = [&](json list, const std::string &text) -> Example::Range {
      list[index]["content"] = "\x01"; // which no text has
      std::string other = render(list, where, /*forAnswer=*/false);
      size_t begin = commonPrefix(text, other);
      size_t end = text.size();
      for (size_t rest = other.size();
           end > begin && rest > begin && text[end - 1] == other[rest - 1];
           --rest)
        --end;
      return {begin, end};
    };
    Example::Range answer = changing(messages, whole);
    if (std::optional<std::string> told = before(/*forAnswer=*/false);
        prompt && told && whole.starts_with(*told) &&
        told->size() <= answer.begin)
      answer.begin =
          std::clamp(commonPrefix(*prompt, whole), told->size(), answer.begin);
    std::string_view ends =
        std::string_view(with).substr(changing(soFar, with).end);
    answer.end +=
        commonPrefix(ends, std::string_view(whole).substr(answer.end));
    return answer;
  }

  const FindChat &find;
  std::string first; ///< where the first document is that has the field
  bool areFirstMessages = false;
  bool answersOnly;
  std::optional<ChatTemplate> chat;
  json tools;
  std::time_t now = std::time(nullptr);
};

/// An entry of the recipe that names the member of a document, or the column of
/// a table, that holds a text.
struct TextField {
  std::string_view entry;
  std::string name;
};

/// One data file with examples; adds what it reads to `examples`.
class ExampleFile {
public:
  ExampleFile(const DataSpec &data, uint32_t index, std::string path,
              Messages &messages, std::vector<Example> &examples,
              std::string_view option)
      : data(data), index(index), path(std::move(path)), messages(messages),
        examples(examples), option(option) {
    if (data.kind == "json")
      fields = {{"field", data.field}};
    else if (data.kind == "pairs")
      fields = {{"prompt", data.prompt}, {"answer", data.answer}};
  }

  /// One JSON document per line, or an array of them.
  void readJson(std::string_view text) {
    size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin != std::string::npos && text[begin] == '[') {
      json all = orderedJsonOf(text);
      if (all.is_discarded())
        refuseJson(path, text);
      for (size_t i = 0; i < all.size(); ++i)
        addDocument(all[i], i + 1, /*isLine=*/false,
                    path + ", document " + std::to_string(i + 1));
      return;
    }
    size_t number = 0;
    eachLine(text, [&](std::string_view line) {
      ++number;
      if (line.find_first_not_of(" \t") == std::string_view::npos)
        return;
      std::string where = path + ":" + std::to_string(number);
      json document = orderedJsonOf(line);
      if (document.is_discarded())
        throw InputError("{}: not valid JSON: {}", where, faultOfJson(line));
      addDocument(document, number, /*isLine=*/true, where);
    });
  }

  /// Lines, or lines with a tab between prompt and answer.
  void readLines(std::string_view text) {
    if (data.kind == "pairs")
      requireNoNames();
    size_t number = 0;
    eachLine(text, [&](std::string_view line) {
      ++number;
      if (line.empty())
        return;
      if (data.kind == "lines") {
        add(std::string(line), std::string::npos, number, /*isLine=*/true);
        return;
      }
      size_t tab = line.find('\t');
      if (tab == std::string_view::npos)
        throw InputError("{}:{}: a pair is a prompt, a tab and an answer", path,
                         number);
      add(std::string(line.substr(0, tab)) + std::string(line.substr(tab + 1)),
          tab, number, /*isLine=*/true);
    });
  }

  /// Whether a file that could be a table by its name is one. Lines of a
  /// prompt, a tab and an answer may be in such a file, too, where nobody names
  /// columns and the first line has none of the usual names.
  bool isTable(std::string_view text, char separator) const {
    if (data.kind != "pairs" || namesFields())
      return true;
    std::string_view line = text.substr(0, text.find_first_of("\r\n"));
    const bool hasTab = line.find('\t') != std::string_view::npos;
    while (true) {
      const size_t end = line.find(separator);
      const std::string_view cell = line.substr(0, end);
      for (const TextField &field : fields)
        if (cell == field.name || cell == '"' + field.name + '"')
          return true;
      if (end == std::string_view::npos)
        return !hasTab;
      line.remove_prefix(end + 1);
    }
  }

  /// A table whose first row names its columns.
  void readTable(std::string_view text, char separator) {
    TableReader table(path, text, separator);
    const std::vector<std::string> names = table.next();
    if (names.empty())
      return;
    auto where = [&] { return path + ":" + std::to_string(table.line()); };
    if (names.size() == 1 &&
        (fields.size() > 1 || names[0].find_first_of(";,\t") != names[0].npos))
      throw InputError("{} names one column, {}: between columns stands a "
                       "comma in a .csv file, a tab in a .tsv file",
                       where(), shown(names[0]));
    std::vector<size_t> columns;
    for (const TextField &field : fields)
      columns.push_back(columnOf(names, field, where()));
    const size_t before = examples.size();
    for (auto row = table.next(); !row.empty(); row = table.next()) {
      if (row.size() != names.size())
        throw InputError(
            "{}: there {} {} column{}, but {} in the first row: {} has to "
            "stand in quotes",
            where(), row.size() == 1 ? "is" : "are", row.size(),
            row.size() == 1 ? "" : "s", names.size(),
            row.size() < names.size()
                ? "cells are missing, or a text with a line break"
            : separator == ',' ? "a text with a comma"
                               : "a text with a tab");
      std::vector<std::string> texts;
      for (size_t column : columns)
        texts.push_back(row[column]);
      addTexts(std::move(texts), table.line(), /*isLine=*/true);
    }
    if (examples.size() == before)
      throw InputError(
          "the data file {} has no row behind the one that names its columns",
          path);
  }

  /// Whether any text has more than white space.
  bool hasText = false;

private:
  /// Whether an entry names other fields than the usual ones.
  bool namesFields() const {
    const DataSpec usual;
    return data.prompt != usual.prompt || data.answer != usual.answer;
  }

  /// What names fields is meant for a file that has some.
  void requireNoNames() const {
    if (!namesFields())
      return;
    const TextField &named =
        data.prompt != DataSpec().prompt ? fields[0] : fields[1];
    throw InputError(
        "{} has lines of a prompt, a tab and an answer, and so no field {}: "
        "leave out `{}`, or name a file .csv or .tsv whose first row names its "
        "columns",
        path, shown(named.name), named.entry);
  }

  void addDocument(const json &document, size_t number, bool isLine,
                   const std::string &where) {
    if (data.kind == "json" && document.is_object())
      if (auto field = document.find(data.field); field != document.end()) {
        bool areMessages = field->is_array();
        if (areMessages || isText(*field))
          messages.requireLikeFirst(areMessages, shown(data.field), where);
        if (areMessages)
          return add(messages.read(*field, toolsOf(document, where), where),
                     number, isLine);
      }
    std::vector<std::string> texts;
    for (const TextField &field : fields)
      texts.push_back(textOf(document, field, where));
    addTexts(std::move(texts), number, isLine);
  }

  /// Whether an entry names the member or column.
  bool isNamed(const std::string &name) const {
    return std::ranges::find(fields, name, &TextField::name) != fields.end();
  }

  /// The members of a document that could be meant by an entry which names
  /// none: other texts, for what is no answer strings alone if there are any.
  std::vector<std::string> othersOf(const json &document,
                                    const TextField &field) const {
    if (!document.is_object())
      return {};
    if (document.contains("messages"))
      return {"messages"};
    std::vector<std::string> strings, texts;
    for (const auto &[name, value] : document.items()) {
      if (isNamed(name))
        continue;
      if (value.is_string())
        strings.push_back(name);
      if (isText(value))
        texts.push_back(name);
    }
    return strings.empty() || field.entry == "answer" ? texts : strings;
  }

  std::string textOf(const json &document, const TextField &field,
                     const std::string &where) const {
    if (!document.is_object() || !document.contains(field.name))
      refuseMissing(field, where + ": there is no text in the field", "but in ",
                    othersOf(document, field));
    const json &value = document[field.name];
    if (!isText(value))
      throw InputError("{}: the field {} is no text, but {}", where,
                       shown(field.name),
                       value.is_null()    ? "null"
                       : value.is_array() ? "a list"
                                          : "an object");
    return value.is_string() ? value.get<std::string>() : value.dump();
  }

  /// The column of a table that holds a text.
  size_t columnOf(const std::vector<std::string> &names, const TextField &field,
                  const std::string &where) const {
    auto found = std::ranges::find(names, field.name);
    if (found == names.end()) {
      std::vector<std::string> others = names;
      std::erase_if(others, [&](const auto &name) { return isNamed(name); });
      refuseMissing(field, where + " names no column", "but ", others);
    }
    if (std::find(found + 1, names.end(), field.name) != names.end())
      throw InputError("{} names two columns {}", where, shown(field.name));
    return static_cast<size_t>(found - names.begin());
  }

  /// The name of a field or column, in quotes, of a long one its beginning.
  static std::string shown(const std::string &name) {
    return jsonText(beginningOf(name));
  }

  /// Reports `what`, that there is no such field, `but` the first `others`, and
  /// how to name one of them.
  [[noreturn]] void
  refuseMissing(const TextField &field, const std::string &what,
                const std::string &but,
                const std::vector<std::string> &others) const {
    std::string message = what + " " + shown(field.name);
    constexpr size_t most = 8;
    for (size_t i = 0; i < std::min(others.size(), most); ++i)
      message += (i > 0 ? " or " : ", " + but) + shown(others[i]);
    if (!others.empty()) {
      std::string guess =
          others.size() == 1 ? others[0] : closest(field.name, others);
      std::string name = guess.empty() ? "NAME" : jsonText(guess);
      // What holds messages is read in one way alone.
      message +=
          !option.empty() ? fmt::format(": {} {}", option, name)
          : guess == "messages"
              ? ": json(..., field = \"messages\")"
              : fmt::format(": {}(..., {} = {})", data.kind, field.entry, name);
    }
    throw InputError(message);
  }

  /// Adds an example of the texts of `fields`.
  void addTexts(std::vector<std::string> texts, size_t number, bool isLine) {
    size_t prompt = texts.size() > 1 ? texts[0].size() : std::string::npos;
    if (texts.size() > 1)
      texts[0] += texts[1];
    add(std::move(texts[0]), prompt, number, isLine);
  }

  void add(std::string text, size_t prompt, size_t number, bool isLine) {
    Example example;
    example.text = std::move(text);
    example.prompt = prompt;
    add(std::move(example), number, isLine);
  }

  void add(Example example, size_t number, bool isLine) {
    hasText |= !isBlank(example.text);
    // What ends the last answer is the answer's.
    if (!example.answers.empty() &&
        example.answers.back().end == example.text.size())
      example.answers.back().end += data.end.size();
    example.text += data.end;
    example.file = index;
    example.number = static_cast<uint32_t>(number);
    example.isLine = isLine;
    examples.push_back(std::move(example));
  }

  const DataSpec &data;
  uint32_t index;
  std::string path;
  Messages &messages;
  std::vector<Example> &examples;
  std::string_view option; ///< what names `data.field` instead of a recipe
  std::vector<TextField> fields;
};

/// Whether pairs are JSON documents. A prompt may begin with a bracket, too:
/// what has a tab in its first line and does not parse is lines.
bool looksLikeJson(std::string_view text) {
  size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos ||
      (text[begin] != '[' && text[begin] != '{'))
    return false;
  text.remove_prefix(text.substr(0, begin).rfind('\n') + 1);
  std::string_view line = text.substr(0, text.find('\n'));
  auto isJson = [](std::string_view all) {
    return !orderedJsonOf(all).is_discarded();
  };
  return line.find('\t') == std::string_view::npos || isJson(line) ||
         isJson(text);
}

/// The text of a file, without a byte order mark. Tokenizers of bytes would
/// take whatever it is.
std::string readTextFile(const std::string &path) {
  std::string text = readFile(path, "the data file");
  auto fail = [&](const std::string &what) {
    throw InputError("the data file {} {}", path, what);
  };
  if (text.starts_with("\x1F\x8B"))
    fail("is compressed by gzip: unpack it (gunzip)");
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    fail("is text in UTF-16: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)");
  // Where there are some, they are soon.
  constexpr size_t looked = size_t{1} << 16;
  if (size_t at = std::string_view(text).substr(0, looked).find('\0');
      at != std::string::npos)
    fail("is no text: byte " + std::to_string(at) +
         " is NUL. Save it as text in UTF-8");
  text.erase(0, text.size() - withoutByteOrderMark(text).size());
  return text;
}

void readFiles(const DataSpec &data, const FindChat &chat,
               std::vector<Example> &examples, std::string_view option) {
  Messages messages(chat, data.answersOnly);
  if (data.kind != "lines" && data.kind != "json" && data.kind != "pairs")
    throw InputError("data {} is not supported", data.kind);
  if (data.files.empty())
    throw InputError("the model names no data file: use --data FILE");
  for (size_t i = 0; i < data.files.size(); ++i) {
    std::string path =
        locateFile(data.files[i], data.directory, "the data file", "--data");
    std::string documents = readTextFile(path);
    size_t before = examples.size();
    ExampleFile file(data, static_cast<uint32_t>(i), path, messages, examples,
                     option);
    std::optional<char> separator = tableSeparator(path);
    const bool isJson = data.kind != "lines" && looksLikeJson(documents);
    if (separator && data.kind != "lines" && !isJson &&
        file.isTable(documents, *separator))
      file.readTable(documents, *separator);
    else if (data.kind == "json" || isJson)
      file.readJson(documents);
    else
      file.readLines(documents);
    if (examples.size() == before)
      throw InputError("the data file {} is empty", path);
    if (!file.hasText)
      throw InputError(
          "the data file {} has no text: all of its {} texts are blank", path,
          examples.size() - before);
  }
}

} // namespace

/// What a name is in the folder where the model was built; empty where it is
/// the same from everywhere.
static std::string inFolder(const std::string &directory,
                            const std::string &name) {
  return directory.empty() || name.starts_with('/') ? ""
                                                    : directory + "/" + name;
}

std::string locateFile(const std::string &name, const std::string &directory,
                       const char *purpose, const char *option) {
  if (name == "-")
    return std::string(standardInput);
  if (fileExists(name))
    return name;
  std::string other = inFolder(directory, name);
  if (!other.empty() && fileExists(other))
    return other;
  if (char here[PATH_MAX]; getcwd(here, sizeof here) && directory == here)
    other.clear();
  folderHas(name); // not to be found is not the same as not to be seen
  throw InputError("cannot find {} {}{}: run from the folder that has it, or "
                   "name its path with {}",
                   purpose, name, other.empty() ? "" : " (nor " + other + ")",
                   option);
}

/// The files that a pattern matches, in the order of their names.
static std::vector<std::string> matchesOf(const std::string &pattern) {
  glob_t found = {};
  std::vector<std::string> names;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return names;
}

/// A pattern that only this text matches.
static std::string asPattern(std::string_view text) {
  std::string pattern;
  for (char c : text) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos)
      pattern += '\\';
    pattern += c;
  }
  return pattern;
}

DataSpec withMatches(DataSpec data) {
  for (auto *files : {&data.files, &data.validationFiles}) {
    std::vector<std::string> all;
    for (const std::string &name : *files) {
      std::string other = inFolder(data.directory, name);
      if (name.find_first_of("*?[") == std::string::npos || fileExists(name) ||
          (!other.empty() && fileExists(other))) {
        all.push_back(name);
        continue;
      }
      std::vector<std::string> matches = matchesOf(name);
      if (matches.empty() && !other.empty())
        matches = matchesOf(inFolder(asPattern(data.directory), name));
      if (matches.empty())
        throw InputError("no data file is like {}{}", name,
                         other.empty() ? "" : " (nor like " + other + ")");
      all.insert(all.end(), matches.begin(), matches.end());
    }
    *files = std::move(all);
  }
  return data;
}

DataSpec withFiles(const DataSpec &named) {
  DataSpec data = withMatches(named);
  for (const std::string &name : data.validationFiles)
    locateFile(name, data.directory, "the validation file",
               "-D data.validation_files when you build it");
  return data;
}

std::map<std::string, std::string> fileChecksums(const DataSpec &spec) {
  const DataSpec data = withMatches(spec);
  std::vector<std::string> names = data.files;
  names.insert(names.end(), data.validationFiles.begin(),
               data.validationFiles.end());
  constexpr uint64_t mostPieces = 64;
  std::vector<char> piece(size_t{1} << 16);
  std::map<std::string, std::string> checksums;
  for (const std::string &name : names) {
    const std::string path =
        locateFile(name, data.directory, "the data file", "--data");
    if (!isRegularFile(path))
      continue;
    const RegularFile file(path, "the data file");
    const uint64_t size = file.size(),
                   all = (size + piece.size() - 1) / piece.size(),
                   wanted = std::min(
                       all, std::max<uint64_t>(mostPieces / names.size(), 1));
    Checksum checksum;
    checksum.add(&size, sizeof size);
    for (uint64_t i = 0; i < wanted; ++i) {
      const uint64_t begin = i * all / wanted * piece.size(),
                     count = std::min<uint64_t>(piece.size(), size - begin);
      file.readAt(piece.data(), count, begin);
      checksum.add(piece.data(), count);
    }
    checksums[name] = checksum.text();
  }
  return checksums;
}

bool isBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

bool isStream(const DataSpec &data) {
  return data.kind == "text" || data.kind == "tokens";
}

DataSpec withDefaults(DataSpec data) {
  if (isGenerated(data)) {
    if (data.end.empty())
      data.end = recipe::text("data.end", "sums");
    if (data.pad.empty())
      data.pad = recipe::text("data.pad", "sums");
    if (data.answerAfter.empty())
      data.answerAfter = recipe::text("data.answer_after", "sums");
  }
  return data;
}

DataSpec validationOf(DataSpec data) {
  data.files = std::move(data.validationFiles);
  data.validationFiles.clear();
  return data;
}

Text readText(const DataSpec &data) {
  if (data.files.empty())
    throw InputError("the model names no data file: use --data FILE");
  Text all;
  for (const std::string &name : data.files) {
    std::string path =
        locateFile(name, data.directory, "the data file", "--data");
    std::string part = readTextFile(path);
    if (part.empty())
      throw InputError("the data file {} is empty", path);
    all.files.push_back({path, all.text.size()});
    if (all.text.empty())
      all.text = std::move(part);
    else
      all.text += part;
  }
  return all;
}

std::string Text::placeOf(size_t at) const {
  auto next = std::ranges::upper_bound(files, at, {}, &File::begin);
  const File &file = *std::prev(next);
  auto lines = std::count(text.begin() + static_cast<ptrdiff_t>(file.begin),
                          text.begin() + static_cast<ptrdiff_t>(at), '\n');
  return file.path + ":" + std::to_string(lines + 1);
}

std::string Example::place(const DataSpec &data) const {
  if (data.files.empty())
    return "data " + data.kind + ", example " + std::to_string(number);
  const std::string &name =
      file < data.files.size() ? data.files[file]
                               : data.validationFiles[file - data.files.size()];
  std::string path =
      locateFile(name, data.directory, "the data file", "--data");
  return path + (isLine ? ":" : ", document ") + std::to_string(number);
}

std::vector<Example> readExamples(const DataSpec &spec, const FindChat &chat,
                                  std::string_view option) {
  DataSpec data = withDefaults(spec);
  std::vector<Example> examples;
  if (isGenerated(data))
    examples = makeExpressions(data);
  else
    readFiles(data, chat, examples, option);
  if (!data.answerAfter.empty())
    for (Example &example : examples) {
      // What ends the example begins no answer.
      std::string_view text = example.text;
      if (text.ends_with(data.end))
        text.remove_suffix(data.end.size());
      size_t found = text.find(data.answerAfter);
      if (found != std::string_view::npos)
        example.prompt = found + data.answerAfter.size();
    }
  return examples;
}

} // namespace tfm
