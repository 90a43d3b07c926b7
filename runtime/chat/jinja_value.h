//===- jinja_value.h - what a chat template computes with ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_CHAT_JINJA_VALUE_H
#define TFM_RUNTIME_CHAT_JINJA_VALUE_H

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tfm::jinja {

/// What is wrong with an expression; whoever knows the place adds it.
struct Problem {
  std::string message;
};

/// Bytes that no text of a template has more of.
inline constexpr size_t mostText = 32 << 20;
/// Throws Problem for a text of more.
void requireRoom(size_t bytes);

/// While one is alive its thread may copy and compare so many bytes of values:
/// a template that goes over a long text again and again ends.
class Allowance {
public:
  explicit Allowance(uint64_t bytes);
  ~Allowance();
  Allowance(const Allowance &) = delete;
  Allowance &operator=(const Allowance &) = delete;

private:
  uint64_t before;
};
/// Throws Problem where that is more than is left.
void spend(uint64_t bytes);

struct Value;
/// What has a name, in the order in which names came.
using Members = std::vector<std::pair<std::string, Value>>;
/// What a dictionary holds, likewise: keys are texts, numbers or `none`.
using Items = std::vector<std::pair<Value, Value>>;

/// What a function takes: how many arguments at least, how many of them by
/// place, and their names, which are empty where they go by place alone.
struct Parameters {
  size_t least = 0, places = 0;
  std::vector<std::string_view> names;
};
inline constexpr size_t anyNumber = SIZE_MAX;
inline constexpr std::string_view anyName = "**";

/// What a function is called with.
struct Arguments {
  std::vector<Value> positional;
  Members named;

  /// The argument at a place or of a name; null where there is none.
  const Value *find(size_t place, std::string_view name) const;
  /// Throws Problem for too few arguments, and for those that `callee` would
  /// not look at: the text would be another one than Jinja's. Those before
  /// `from` do not count.
  void require(const std::string &callee, const Parameters &takes,
               size_t from = 0) const;
};
using Function = std::function<Value(const Arguments &)>;

/// A value with Python's meaning: text is counted in characters, numbers are
/// integers of 64 bits or doubles, lists and dictionaries are shared.
struct Value {
  enum Kind { Undefined, None, Bool, Int, Float, String, List, Dict, Callable };
  Kind kind = Undefined;
  bool flag = false;
  int64_t integer = 0;
  double real = 0;
  /// Of a string; of an undefined value its name, of a function its own.
  std::string text;
  std::shared_ptr<std::vector<Value>> list;
  std::shared_ptr<Items> dict;
  std::shared_ptr<Function> function;
  /// Of a dictionary: `namespace()`, whose members may be set.
  bool isNamespace = false;
  /// Of a list: `(a, b)`.
  bool isTuple = false;
  /// How deep lists and dictionaries are nested in it, and whether one of them
  /// is a namespace.
  int depth = 0;
  bool holdsNamespace = false;

  static Value undefined(std::string name);
  static Value none();
  static Value boolean(bool flag);
  static Value number(int64_t integer);
  static Value number(double real);
  static Value string(std::string text);
  /// These throw Problem where they would be nested too deeply.
  static Value array(std::vector<Value> items);
  static Value object(Items items);
  static Value object(Members members);
  static Value callable(std::string name, Function function);
  static Value fromJson(const nlohmann::ordered_json &json);

  bool is(Kind other) const { return kind == other; }
  bool isNumber() const { return kind == Int || kind == Float || kind == Bool; }
  double asReal() const;
  /// Throws Problem naming `what` where it is no integer.
  int64_t asInteger(const char *what) const;
  /// Throws Problem naming `what` where it is no text.
  const std::string &asText(const char *what) const;
  bool truth() const;
  /// A member of a dictionary; null where it has none of that name.
  Value *find(std::string_view key) const;
  Value *find(const Value &key) const;
  void set(const Value &key, Value value) const;

  /// As it is printed: `str(x)` of Python.
  std::string str() const;
  /// As it stands in a printed list: `repr(x)`.
  std::string repr() const;
  /// "a text", "a list": for messages.
  const char *describe() const;
};

/// `a == b`.
bool equal(const Value &a, const Value &b);
/// Below 0, 0 or above it; throws Problem where the two have no order.
int compare(const Value &a, const Value &b);
/// `a in b`.
bool contains(const Value &b, const Value &a);
/// What a loop goes over: the items of a list, the keys of a dictionary, the
/// characters of a text; throws Problem for any other but an undefined one.
std::vector<Value> itemsOf(const Value &value);
/// How JSON is written: the arguments of Python's `json.dumps`.
struct JsonForm {
  int64_t indent = -1; ///< below 0 on one line
  bool ascii = false;  ///< other characters are escapes
  bool sorts = false;  ///< by their keys
  std::string comma = ", ", colon = ": ";
};
/// `json.dumps(value)`.
std::string toJson(const Value &value, const JsonForm &form = {});

/// The characters of a text, each a text of its own.
std::vector<std::string> charactersOf(std::string_view text);

} // namespace tfm::jinja

#endif // TFM_RUNTIME_CHAT_JINJA_VALUE_H
