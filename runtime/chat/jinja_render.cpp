//===- jinja_render.cpp - evaluates a chat template ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/chat/jinja_render.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace tfm::jinja {

namespace {

/// The names that a block sees. A loop and a macro have names of their own,
/// which end with them; `if` has not. Macros see those of where they stand.
struct Scope : std::enable_shared_from_this<Scope> {
  Members names;
  Scope *around = nullptr;

  /// That of a block within.
  std::shared_ptr<Scope> inner() {
    auto scope = std::make_shared<Scope>();
    scope->around = this;
    return scope;
  }
  Value *find(std::string_view name) {
    for (Scope *scope = this; scope; scope = scope->around)
      for (auto &[key, value] : scope->names)
        if (key == name)
          return &value;
    return nullptr;
  }
  void set(const std::string &name, Value value) {
    for (auto &[key, old] : names)
      if (key == name) {
        old = std::move(value);
        return;
      }
    names.emplace_back(name, std::move(value));
  }
};

/// What ends a body early.
enum class Flow { On, Break, Continue };

class Renderer {
public:
  Renderer(Members variables, std::time_t now) {
    root->names = std::move(variables);
    auto define = [&](const char *name, Parameters takes, auto function) {
      root->set(name, Value::callable(name, [=](const Arguments &arguments) {
                  arguments.require("`" + std::string(name) + "`", takes);
                  return function(arguments);
                }));
    };
    define("raise_exception", {1, 1, {"message"}},
           [](const Arguments &arguments) -> Value {
             throw Problem{"the template refuses these messages: " +
                           arguments.find(0, "message")->str()};
           });
    define("strftime_now", {1, 1, {"format"}},
           [now](const Arguments &arguments) {
             return timeAs(now, *arguments.find(0, "format"));
           });
    define("range", {1, 3, {}}, range);
    define("namespace", {0, 1, {anyName}}, [](const Arguments &arguments) {
      Value result = dictionary(arguments);
      result.isNamespace = true;
      return result;
    });
    define("dict", {0, 1, {anyName}}, dictionary);
  }

  std::string run(const Statements &program) {
    Allowance allowance(mostBytes);
    body(program, *root);
    return std::move(out);
  }

private:
  static constexpr int64_t mostSteps = 300'000;
  static constexpr uint64_t mostBytes = 1 << 30;
  static constexpr int deepest = 200;

  static Value timeAs(std::time_t now, const Value &format) {
    std::tm local = {};
    localtime_r(&now, &local);
    char text[256];
    const std::string &wanted = format.asText("the format");
    size_t size = std::strftime(text, sizeof text, wanted.c_str(), &local);
    if (size == 0 && !wanted.empty())
      throw Problem{"`strftime_now` gives a text of more than 255 bytes"};
    return Value::string(std::string(text, size));
  }

  /// A dictionary, or pairs of keys and values, and behind them what has names.
  static Value dictionary(const Arguments &arguments) {
    Items items;
    if (const Value *first = arguments.find(0, "")) {
      if (first->is(Value::Undefined))
        throw Problem{"a dictionary is made of another or of pairs, not of "
                      "what is undefined"};
      items = first->is(Value::Dict) ? *first->dict : pairsIn(*first);
    }
    for (const auto &[name, value] : arguments.named)
      items.emplace_back(Value::string(name), value);
    spend(items.size() * items.size()); // each is looked for among the others
    return Value::object(std::move(items));
  }

  static Items pairsIn(const Value &list) {
    Items pairs;
    for (const Value &item : itemsOf(list)) {
      std::vector<Value> pair = itemsOf(item);
      if (pair.size() != 2)
        throw Problem{"a dictionary is made of pairs, not of " +
                      std::to_string(pair.size()) + " values"};
      pairs.emplace_back(std::move(pair[0]), std::move(pair[1]));
    }
    return pairs;
  }

  static Value range(const Arguments &arguments) {
    int64_t from = 0, to = 0, step = 1;
    if (arguments.positional.size() == 1) {
      to = arguments.positional[0].asInteger("`range`");
    } else {
      from = arguments.positional[0].asInteger("`range`");
      to = arguments.positional[1].asInteger("`range`");
      if (arguments.positional.size() == 3)
        step = arguments.positional[2].asInteger("`range`");
    }
    constexpr int64_t far = int64_t{1} << 40;
    auto isFar = [](int64_t number) { return number > far || number < -far; };
    if (step == 0 || isFar(from) || isFar(to) || isFar(step) ||
        (to - from) / step > 100'000)
      throw Problem{"`range` has no end, or more than 100000 numbers"};
    std::vector<Value> items;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
      items.push_back(Value::number(i));
    return Value::array(std::move(items));
  }

  /// Runs `work`; what goes wrong there is at this place.
  template <typename Work> auto placed(size_t at, Work work) {
    try {
      return work();
    } catch (const Problem &problem) {
      throw PlacedProblem{at, problem.message};
    }
  }

  void step(size_t at) {
    if (++steps > mostSteps)
      throw PlacedProblem{at, "the template runs for too long"};
  }

  void print(const std::string &text, size_t at) {
    if (out.size() + text.size() > mostText)
      throw PlacedProblem{at, "the text becomes longer than 32 MB"};
    out += text;
  }

  //===--------------------------------------------------------------------===//
  // Statements
  //===--------------------------------------------------------------------===//

  Flow body(const Statements &statements, Scope &scope) {
    for (const Statement &statement : statements)
      if (Flow flow = one(statement, scope); flow != Flow::On)
        return flow;
    return Flow::On;
  }

  /// What a body prints goes to `text`.
  Flow capture(const Statements &statements, Scope &scope, std::string &text) {
    std::string before = std::exchange(out, {});
    Flow flow = body(statements, scope);
    text = std::exchange(out, std::move(before));
    return flow;
  }

  Flow one(const Statement &statement, Scope &scope) {
    step(statement.at);
    switch (statement.kind) {
    case Statement::Text:
      print(statement.text, statement.at);
      return Flow::On;
    case Statement::Print:
      print(placed(statement.at,
                   [&] {
                     return evaluate(*statement.expressions[0], scope).str();
                   }),
            statement.at);
      return Flow::On;
    case Statement::If:
      for (size_t i = 0; i < statement.expressions.size(); ++i)
        if (evaluate(*statement.expressions[i], scope).truth())
          return body(statement.bodies[i], scope);
      if (statement.bodies.size() > statement.expressions.size())
        return body(statement.bodies.back(), scope);
      return Flow::On;
    case Statement::For:
      return loop(statement, scope);
    case Statement::Set:
      assign(statement, scope);
      return Flow::On;
    case Statement::Block: {
      std::string text;
      Flow flow = capture(statement.bodies[0], *scope.inner(), text);
      // What ends a loop around it leaves the name as it was.
      if (flow == Flow::On)
        scope.set(statement.words[0], Value::string(std::move(text)));
      return flow;
    }
    case Statement::Macro:
      scope.set(statement.text, macro(statement, scope));
      return Flow::On;
    case Statement::Break:
      return Flow::Break;
    case Statement::Continue:
      return Flow::Continue;
    case Statement::Scope:
      return body(statement.bodies[0], scope);
    }
    return Flow::On;
  }

  /// Gives a value, or the items of one, their names.
  void bind(const std::vector<std::string> &names, const Value &value,
            Scope &scope, size_t at) {
    if (names.size() == 1)
      return scope.set(names[0], value);
    std::vector<Value> items = placed(at, [&] { return itemsOf(value); });
    if (items.size() != names.size())
      throw PlacedProblem{at, std::to_string(items.size()) + " values for " +
                                  std::to_string(names.size()) + " names"};
    for (size_t i = 0; i < names.size(); ++i)
      scope.set(names[i], items[i]);
  }

  void assign(const Statement &statement, Scope &scope) {
    Value value = evaluate(*statement.expressions[0], scope);
    if (statement.text.empty())
      return bind(statement.words, value, scope, statement.at);
    Value *object = scope.find(statement.words[0]);
    if (!object || !object->isNamespace)
      throw PlacedProblem{statement.at, "only a member of a `namespace` can be "
                                        "set, and `" +
                                            statement.words[0] + "` is none"};
    if (value.isNamespace || value.holdsNamespace)
      throw PlacedProblem{statement.at, "a `namespace` cannot hold another"};
    object->set(Value::string(statement.text), std::move(value));
  }

  Flow loop(const Statement &statement, Scope &scope) {
    Value over = evaluate(*statement.expressions[0], scope);
    std::vector<Value> items =
        placed(statement.at, [&] { return itemsOf(over); });
    if (statement.expressions.size() > 1)
      std::erase_if(items, [&](const Value &item) {
        std::shared_ptr<Scope> own = scope.inner();
        bind(statement.words, item, *own, statement.at);
        return !evaluate(*statement.expressions[1], *own).truth();
      });
    auto count = static_cast<int64_t>(items.size());
    bool isThrough = false; // whether a body was left at its end
    for (int64_t i = 0; i < count; ++i) {
      step(statement.at);
      std::shared_ptr<Scope> own = scope.inner();
      bind(statement.words, items[static_cast<size_t>(i)], *own, statement.at);
      auto item = [&](int64_t j) {
        return j >= 0 && j < count ? items[static_cast<size_t>(j)]
                                   : Value::undefined("there is no such item");
      };
      own->set("loop",
               Value::object({{"index", Value::number(i + 1)},
                              {"index0", Value::number(i)},
                              {"revindex", Value::number(count - i)},
                              {"revindex0", Value::number(count - i - 1)},
                              {"first", Value::boolean(i == 0)},
                              {"last", Value::boolean(i == count - 1)},
                              {"length", Value::number(count)},
                              {"previtem", item(i - 1)},
                              {"nextitem", item(i + 1)}}));
      Flow flow = body(statement.bodies[0], *own);
      if (flow == Flow::Break)
        break;
      isThrough |= flow == Flow::On;
    }
    // What ends a loop there ends the one around.
    if (!isThrough && statement.bodies.size() > 1)
      return body(statement.bodies[1], *scope.inner());
    return Flow::On;
  }

  Value macro(const Statement &statement, Scope &scope) {
    return Value::callable(
        statement.text, [this, &statement, where = scope.weak_from_this()](
                            const Arguments &arguments) {
          arguments.require("`" + statement.text + "`",
                            {0,
                             statement.words.size(),
                             {statement.words.begin(), statement.words.end()}});
          std::shared_ptr<Scope> around = where.lock();
          if (!around) // a namespace has taken it out of a loop
            throw Problem{"the block in which `" + statement.text +
                          "` stands has ended"};
          std::shared_ptr<Scope> own = around->inner();
          size_t plain = statement.words.size() - statement.expressions.size();
          for (size_t i = 0; i < statement.words.size(); ++i) {
            const std::string &name = statement.words[i];
            if (const Value *given = arguments.find(i, name))
              own->set(name, *given);
            else if (i >= plain)
              own->set(name, evaluate(*statement.expressions[i - plain], *own));
            else
              own->set(name, Value::undefined(name));
          }
          std::string text;
          capture(statement.bodies[0], *own, text);
          return Value::string(std::move(text));
        });
  }

  //===--------------------------------------------------------------------===//
  // Expressions
  //===--------------------------------------------------------------------===//

  Value evaluate(const Expression &e, Scope &scope) {
    Value value = evaluated(e, scope);
    placed(e.at, [&] { spend(value.text.size()); });
    return value;
  }

  Value evaluated(const Expression &e, Scope &scope) {
    step(e.at);
    struct Depth {
      explicit Depth(int &depth) : depth(++depth) {}
      ~Depth() { --depth; }
      int &depth;
    } guard(depth);
    if (depth > deepest)
      throw PlacedProblem{e.at, "this is nested too deeply"};
    switch (e.kind) {
    case Expression::Literal:
      return e.value;
    case Expression::Name:
      if (Value *value = scope.find(e.text))
        return *value;
      return Value::undefined("`" + e.text + "`");
    case Expression::List: {
      std::vector<Value> items;
      for (const ExpressionPtr &kid : e.kids)
        items.push_back(evaluate(*kid, scope));
      Value list = placed(e.at, [&] { return Value::array(std::move(items)); });
      list.isTuple = e.flag;
      return list;
    }
    case Expression::Dict: {
      Items items;
      for (size_t i = 0; i + 1 < e.kids.size(); i += 2) {
        Value key = evaluate(*e.kids[i], scope);
        items.emplace_back(std::move(key), evaluate(*e.kids[i + 1], scope));
      }
      return placed(e.at, [&] { return Value::object(std::move(items)); });
    }
    case Expression::Unary: {
      Value x = evaluate(*e.kids[0], scope);
      if (e.text == "not")
        return Value::boolean(!x.truth());
      return placed(e.at, [&] {
        if (!x.isNumber())
          throw Problem{"`" + e.text + "` takes a number, not " + x.describe()};
        if (x.is(Value::Float))
          return Value::number(e.text == "-" ? -x.real : x.real);
        auto integer = static_cast<uint64_t>(x.asInteger(""));
        return Value::number(
            static_cast<int64_t>(e.text == "-" ? 0 - integer : integer));
      });
    }
    case Expression::Binary:
      return binary(e, scope);
    case Expression::Compare:
      return comparison(e, scope);
    case Expression::Choose:
      if (evaluate(*e.kids[1], scope).truth())
        return evaluate(*e.kids[0], scope);
      return e.kids.size() > 2 ? evaluate(*e.kids[2], scope)
                               : Value::undefined("nothing was chosen");
    case Expression::Member: {
      Value object = evaluate(*e.kids[0], scope);
      return placed(e.at, [&] { return member(object, e.text, *e.kids[0]); });
    }
    case Expression::Subscript: {
      Value object = evaluate(*e.kids[0], scope),
            index = evaluate(*e.kids[1], scope);
      return placed(e.at, [&] { return subscript(object, index, *e.kids[0]); });
    }
    case Expression::Slice:
      return slice(e, scope);
    case Expression::Call: {
      Value callee = evaluate(*e.kids[0], scope);
      Arguments arguments = argumentsOf(e, scope, 1);
      return placed(e.at, [&] {
        if (callee.is(Value::Undefined))
          throw Problem{nameOf(*e.kids[0]) + " is no function that there is"};
        if (!callee.is(Value::Callable))
          throw Problem{nameOf(*e.kids[0]) + " is " + callee.describe() +
                        ", and no function"};
        return (*callee.function)(arguments);
      });
    }
    case Expression::Filter:
    case Expression::Test: {
      Arguments arguments = argumentsOf(e, scope, 0);
      return placed(e.at, [&] {
        if (e.kind == Expression::Filter) {
          if (auto result = applyFilter(e.text, arguments))
            return std::move(*result);
          throw Problem{"the filter `" + e.text + "` is not supported"};
        }
        if (auto result = applyTest(e.text, arguments))
          return Value::boolean(*result != e.flag);
        throw Problem{"the test `" + e.text + "` is not supported"};
      });
    }
    }
    return {};
  }

  Arguments argumentsOf(const Expression &e, Scope &scope, size_t from) {
    Arguments arguments;
    size_t named = e.kids.size() - e.words.size();
    for (size_t i = from; i < e.kids.size(); ++i) {
      Value value = evaluate(*e.kids[i], scope);
      if (i < named)
        arguments.positional.push_back(std::move(value));
      else
        arguments.named.emplace_back(e.words[i - named], std::move(value));
    }
    return arguments;
  }

  /// An expression in the template's words, for messages.
  static std::string nameOf(const Expression &e) {
    if (e.kind == Expression::Name)
      return "`" + e.text + "`";
    if (e.kind == Expression::Member)
      return "`." + e.text + "`";
    return "this";
  }

  static Value member(const Value &object, const std::string &name,
                      const Expression &of) {
    if (object.is(Value::Undefined))
      throw Problem{nameOf(of) + " is undefined, and has no `" + name + "`"};
    Value method = object.isNamespace ? Value() : methodOf(object, name);
    if (!method.is(Value::Undefined))
      return method;
    const Value *found = object.find(name);
    return found ? *found : Value::undefined("`" + name + "`");
  }

  static Value subscript(const Value &object, const Value &index,
                         const Expression &of) {
    switch (object.kind) {
    case Value::Undefined:
      throw Problem{nameOf(of) + " is undefined, and has no items"};
    case Value::Dict: {
      const Value *found = object.find(index);
      if (found)
        return *found;
      return index.is(Value::String) ? methodOf(object, index.text)
                                     : Value::undefined("this item");
    }
    case Value::List:
    case Value::String: {
      if (index.is(Value::String))
        return methodOf(object, index.text);
      std::vector<Value> characters;
      if (object.is(Value::String))
        characters = itemsOf(object);
      const std::vector<Value> &items =
          object.is(Value::List) ? *object.list : characters;
      int64_t i = index.asInteger("an index");
      auto size = static_cast<int64_t>(items.size());
      if (i < 0)
        i += size;
      return i < 0 || i >= size ? Value::undefined("this item")
                                : items[static_cast<size_t>(i)];
    }
    default:
      return Value::undefined("this item");
    }
  }

  Value slice(const Expression &e, Scope &scope) {
    Value object = evaluate(*e.kids[0], scope);
    std::optional<int64_t> bounds[3];
    for (size_t i = 0; i < 3; ++i)
      if (e.kids[i + 1]) {
        Value value = evaluate(*e.kids[i + 1], scope);
        if (!value.is(Value::None))
          bounds[i] = placed(
              e.at, [&] { return value.asInteger("the bound of a slice"); });
      }
    return placed(e.at, [&] {
      if (!object.is(Value::List) && !object.is(Value::String))
        throw Problem{std::string("there are no slices of ") +
                      object.describe()};
      std::vector<Value> items = itemsOf(object), result;
      auto size = static_cast<int64_t>(items.size());
      int64_t by = bounds[2].value_or(1);
      if (by == 0)
        throw Problem{"a slice has no step of 0"};
      auto place = [&](std::optional<int64_t> bound, int64_t absent) {
        if (!bound)
          return absent;
        int64_t i = *bound < 0 ? *bound + size : *bound;
        return by > 0 ? std::clamp<int64_t>(i, 0, size)
                      : std::clamp<int64_t>(i, -1, size - 1);
      };
      int64_t from = place(bounds[0], by > 0 ? 0 : size - 1),
              to = place(bounds[1], by > 0 ? size : -1);
      by = std::clamp<int64_t>(by, -size - 1, size + 1);
      for (int64_t i = from; by > 0 ? i < to : i > to; i += by)
        result.push_back(items[static_cast<size_t>(i)]);
      if (object.is(Value::List)) {
        Value list = Value::array(std::move(result));
        list.isTuple = object.isTuple;
        return list;
      }
      std::string text;
      for (const Value &character : result)
        text += character.text;
      return Value::string(text);
    });
  }

  Value comparison(const Expression &e, Scope &scope) {
    Value left = evaluate(*e.kids[0], scope);
    for (size_t i = 0; i < e.words.size(); ++i) {
      Value right = evaluate(*e.kids[i + 1], scope);
      const std::string &word = e.words[i];
      bool holds = placed(e.at, [&] {
        if (word == "==")
          return equal(left, right);
        if (word == "!=")
          return !equal(left, right);
        if (word == "in")
          return contains(right, left);
        if (word == "not in")
          return !contains(right, left);
        int order = compare(left, right);
        return word == "<"    ? order < 0
               : word == "<=" ? order <= 0
               : word == ">"  ? order > 0
                              : order >= 0;
      });
      if (!holds)
        return Value::boolean(false);
      left = std::move(right);
    }
    return Value::boolean(true);
  }

  Value binary(const Expression &e, Scope &scope) {
    Value a = evaluate(*e.kids[0], scope);
    if (e.text == "and")
      return a.truth() ? evaluate(*e.kids[1], scope) : a;
    if (e.text == "or")
      return a.truth() ? a : evaluate(*e.kids[1], scope);
    Value b = evaluate(*e.kids[1], scope);
    return placed(e.at, [&] { return arithmetic(e.text, a, b); });
  }

  Value arithmetic(const std::string &word, const Value &a, const Value &b) {
    if (word == "~") {
      std::string left = a.str(), right = b.str();
      requireRoom(left.size() + right.size());
      return Value::string(left + right);
    }
    for (const Value *value : {&a, &b})
      if (value->is(Value::Undefined))
        throw Problem{value->text + " is undefined, and `" + word +
                      "` takes two values"};
    if (word == "+" && a.is(Value::String) && b.is(Value::String)) {
      requireRoom(a.text.size() + b.text.size());
      return Value::string(a.text + b.text);
    }
    if (word == "+" && a.is(Value::List) && b.is(Value::List)) {
      std::vector<Value> items = *a.list;
      requireRoom((items.size() + b.list->size()) * sizeof(Value));
      items.insert(items.end(), b.list->begin(), b.list->end());
      return Value::array(std::move(items));
    }
    if (word == "*" && a.is(Value::String) && b.is(Value::Int)) {
      std::string result;
      int64_t times = std::max<int64_t>(0, b.integer);
      requireRoom(a.text.empty() ? 0
                  : times > static_cast<int64_t>(mostText)
                      ? SIZE_MAX
                      : a.text.size() * static_cast<size_t>(times));
      for (int64_t i = 0; i < times && !a.text.empty(); ++i)
        result += a.text;
      return Value::string(result);
    }
    if (!a.isNumber() || !b.isNumber())
      throw Problem{"`" + word + "` of " + a.describe() + " and " +
                    b.describe() + " is not supported"};
    return numbers(word, a, b);
  }

  static bool powerOverflows(int64_t base, int64_t exponent, int64_t &result) {
    bool overflows = false;
    for (result = 1; exponent > 0; exponent /= 2) {
      if (exponent % 2 == 1)
        overflows |= __builtin_mul_overflow(result, base, &result);
      if (exponent > 1)
        overflows |= __builtin_mul_overflow(base, base, &base);
    }
    return overflows;
  }

  static Value numbers(const std::string &word, const Value &a,
                       const Value &b) {
    bool isReal = a.is(Value::Float) || b.is(Value::Float) || word == "/";
    double x = a.asReal(), y = b.asReal();
    if ((word == "/" || word == "//" || word == "%") && y == 0)
      throw Problem{"division by zero"};
    if (isReal || (word == "**" && y < 0)) {
      double result = word == "+"    ? x + y
                      : word == "-"  ? x - y
                      : word == "*"  ? x * y
                      : word == "/"  ? x / y
                      : word == "//" ? std::floor(x / y)
                      : word == "%"  ? x - std::floor(x / y) * y
                                     : std::pow(x, y);
      return Value::number(result);
    }
    int64_t i = a.asInteger(""), j = b.asInteger(""), result = 0;
    bool overflows = false;
    if (word == "+")
      overflows = __builtin_add_overflow(i, j, &result);
    else if (word == "-")
      overflows = __builtin_sub_overflow(i, j, &result);
    else if (word == "**")
      overflows = powerOverflows(i, j, result);
    else if (word == "*")
      overflows = __builtin_mul_overflow(i, j, &result);
    else if (j == -1)
      overflows =
          word == "//" && __builtin_sub_overflow(int64_t{0}, i, &result);
    else if (word == "//")
      result = i / j - (i % j != 0 && (i < 0) != (j < 0));
    else
      result = i % j + (i % j != 0 && (i < 0) != (j < 0) ? j : 0);
    if (overflows)
      throw Problem{"the result of `" + word + "` does not fit in 64 bits"};
    return Value::number(result);
  }

  std::shared_ptr<Scope> root = std::make_shared<Scope>();
  std::string out;
  int64_t steps = 0;
  int depth = 0;
};

} // namespace

std::string render(const Statements &program, Members variables,
                   std::time_t now) {
  return Renderer(std::move(variables), now).run(program);
}

} // namespace tfm::jinja
