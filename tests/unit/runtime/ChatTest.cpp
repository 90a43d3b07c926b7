//===- ChatTest.cpp - messages as the text of a prompt ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/chat/chat_template.h"
#include "runtime/chat/jinja_render.h"
#include "runtime/support/error.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tfm {
namespace {

using jinja::Value;
using nlohmann::ordered_json;
using test::contentOf;
using test::messageOf;

const std::string fixture = TFM_FIXTURES "/chat/";

/// What a template makes of some variables; what is wrong with it as `AT:
/// MESSAGE`.
std::string rendered(const std::string &source, jinja::Members variables = {}) {
  try {
    return jinja::render(jinja::parse(source), std::move(variables), 0);
  } catch (const jinja::PlacedProblem &problem) {
    return std::to_string(problem.at) + ": " + problem.message;
  }
}

class Chat : public testing::TestWithParam<const char *> {};

// As transformers renders it, with all that the templates of the families are
// made of; where that refuses the messages, so do we.
TEST_P(Chat, MeetsTheFixture) {
  std::string source = contentOf(fixture + GetParam() + ".jinja");
  ordered_json cases =
      ordered_json::parse(contentOf(fixture + "cases.json")).at(GetParam());
  EXPECT_EQ(cases.size(), 16u);
  for (const ordered_json &entry : cases) {
    std::string text = rendered(
        source, {{"bos_token", Value::string("<s>")},
                 {"eos_token", Value::string("</s>")},
                 {"messages", Value::fromJson(entry.at("messages"))},
                 {"tools", Value::fromJson(entry.at("tools"))},
                 {"documents", Value::none()},
                 {"add_generation_prompt",
                  Value::fromJson(entry.at("add_generation_prompt"))}});
    if (entry.contains("error"))
      EXPECT_NE(text.find(entry["error"].get<std::string>()), std::string::npos)
          << text;
    else
      EXPECT_EQ(text, entry.at("text").get<std::string>()) << entry;
  }
}
INSTANTIATE_TEST_SUITE_P(All, Chat,
                         testing::Values("chatml", "headers", "inst", "tags",
                                         "thinking", "turns", "words"),
                         [](const auto &info) {
                           return std::string(info.param);
                         });

TEST(ChatTemplate, SaysWhereAndWhat) {
  const std::pair<const char *, const char *> cases[] = {
      {"a {{ b", "2: this expression has no end: `}}`"},
      {"{% if a %}", "10: `endif` is missing"},
      {"{% endif %}", "0: the block `endif` is not supported"},
      {"{% include 'x' %}", "0: the block `include` is not supported"},
      {"{{ 1 + }}", "7: expected an expression before the end of the tag"},
      {"{{ a b }}", "5: expected the end of the tag, not `b`"},
      {"{{ 'a }}", "3: this text has no end"},
      {"{{ $ }}", "3: no expression has '$' (U+0024)"},
      {"{{ a.b.c }}", "4: `a` is undefined, and has no `b`"},
      {"{{ a() }}", "4: `a` is no function that there is"},
      {"{{ 1|nope }}", "4: the filter `nope` is not supported"},
      {"{{ 1 is nope }}", "5: the test `nope` is not supported"},
      {"{{ 'a' + 1 }}", "7: `+` of a text and an integer is not supported"},
      {"{{ x + 'a' }}", "5: `x` is undefined, and `+` takes two values"},
      {"{{ 1 // 0 }}", "5: division by zero"},
      {"{{ 1 < 'a' }}", "5: there is no order between an integer and a text"},
      {"{% for a in 5 %}{% endfor %}",
       "0: there is nothing to go over in an integer"},
      {"{% set a.b = 1 %}",
       "0: only a member of a `namespace` can be set, and `a` is none"},
      {"{% break %}", "0: `break` stands in no loop"},
      {"{{ raise_exception('no!') }}",
       "18: the template refuses these messages: no!"},
      {"{{ 9223372036854775807 + 1 }}",
       "23: the result of `+` does not fit in 64 bits"}};
  for (const auto &[source, message] : cases)
    EXPECT_EQ(rendered(source), message) << source;
}

// As Jinja does: `else` is for a loop of which no body came to its end, and has
// names of its own.
TEST(ChatTemplate, ElseIsForLoopsThatCameToNothing) {
  for (auto [inside, text] : {std::pair{"{% break %}", "E"},
                              {"{% continue %}", "E"},
                              {"{% if i == 2 %}{% break %}{% endif %}", ""},
                              {"{% if i == 2 %}{% continue %}{% endif %}", ""}})
    EXPECT_EQ(rendered(std::string("{% for i in [1, 2] %}") + inside +
                       "{% else %}E{% endfor %}"),
              text)
        << inside;
  EXPECT_EQ(rendered("{% for i in [] %}{% else %}{% set x = 1 %}{{ x }}"
                     "{% endfor %}[{{ x }}]"),
            "1[]");
}

// As Jinja does, but for what has ended before the macro is called.
TEST(ChatTemplate, MacrosSeeTheNamesOfWhereTheyStand) {
  EXPECT_EQ(
      rendered("{% for i in [1, 2] %}{% macro f(n) %}{{ i }}{{ n }}{{ q }}"
               "{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}"
               "{% set q = 7 %}{{ f(1) }} {% endfor %}"),
      "117107 217207 ");
  EXPECT_EQ(rendered("{% macro g(a) %}{% macro h() %}{{ a }}{% endmacro %}"
                     "{{ h() }}{% endmacro %}{{ g(1) }}{{ g(2) }}"),
            "12");
  EXPECT_EQ(
      rendered("{% macro f() %}{{ i }}{{ z }}{% endmacro %}{% set z = 3 %}"
               "{% for i in [1] %}{{ f() }}{% endfor %}"),
      "3");
  EXPECT_EQ(
      rendered("{% set n = namespace() %}{% for i in [1] %}{% macro f() "
               "%}{% endmacro %}{% set n.f = f %}{% endfor %}{{ n.f() }}"),
      "107: the block in which `f` stands has ended");
}

// As Jinja does: out of a loop's `else`, and a block that is set, it is the
// loop around that ends.
TEST(ChatTemplate, BreakEndsTheLoopAround) {
  for (auto [inside, text] :
       {std::pair{"{% for j in [] %}{% else %}{% break %}{% endfor %}", "1z"},
        {"{% for j in [] %}{% else %}{% continue %}{% endfor %}", "123z"},
        {"{% set a %}q{% break %}{% endset %}", "1z"},
        {"{% set a %}q{% continue %}{% endset %}", "123z"}})
    EXPECT_EQ(rendered(std::string("{% for i in [1, 2, 3] %}{{ i }}") + inside +
                       "y{% endfor %}z"),
              text)
        << inside;
}

// Nothing goes on without end, whatever a template says.
TEST(ChatTemplate, Ends) {
  std::string open(5000, '('), closed(5000, ')');
  EXPECT_NE(
      rendered("{{ " + open + "1" + closed + " }}").find("nested too deeply"),
      std::string::npos);
  // Also where nothing but the tree is deep.
  for (const char *link :
       {".a", "[0]", "+a", "|f", " or a", "*a", "**a", "~a"}) {
    std::string chain = "{{ a";
    for (int i = 0; i < 100'000; ++i)
      chain += link;
    EXPECT_NE(rendered(chain + " }}").find("nested too deeply"),
              std::string::npos)
        << link;
  }
  EXPECT_NE(rendered("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")
                .find("nested too deeply"),
            std::string::npos);
  std::string loops;
  for (char c : std::string("abcd"))
    loops += std::string("{% for ") + c + " in range(1000) %}";
  for (int i = 0; i < 4; ++i)
    loops += "{% endfor %}";
  EXPECT_NE(rendered(loops).find("runs for too long"), std::string::npos);
  EXPECT_NE(rendered("{% set n = namespace(a='aaaaaaaa') %}{% for i in "
                     "range(99) %}{% set n.a = n.a + n.a %}{% endfor %}")
                .find("longer than 32 MB"),
            std::string::npos);
  EXPECT_NE(rendered("{{ range(10 ** 9) }}").find("more than 100000"),
            std::string::npos);
  // Few steps that copy, compare or take apart much.
  for (const char *costly :
       {"{% set t = 'a' * 30000000 %}{% for i in range(9999) %}{% set u = t %}"
        "{% endfor %}",
        "{% set t = 'a' * 3000000 %}{% for i in range(9999) %}"
        "{% if t is lower %}{% endif %}{% endfor %}",
        "{{ range(100000) | unique | length }}",
        "{% set r = range(100000) %}{% for i in range(99999) %}"
        "{{ r | first }}{% endfor %}"})
    EXPECT_NE(rendered(costly).find("runs for too long"), std::string::npos)
        << costly;
  // An item of a list costs what it is, however long the list.
  EXPECT_EQ(rendered("{% set r = range(100000) %}{% for i in range(30000) %}"
                     "{% set x = r[i] %}{% endfor %}a"),
            "a");
}

// What would nest, grow or divide without end is an error with its place.
TEST(ChatTemplate, BoundsWhatValuesHold) {
  const std::pair<const char *, const char *> cases[] = {
      {"{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
       "a `namespace` cannot hold another"},
      {"{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns|tojson }}",
       "a `namespace` cannot hold another"},
      {"{% set ns = namespace(a=1) %}{% for i in range(60000) %}"
       "{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a }}",
       "lists are nested too deeply"},
      {"{% set ns = namespace(a='long enough') %}{% for i in range(60) %}"
       "{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}",
       "this becomes longer than 32 MB"},
      {"{% set ns = namespace(a=[1]) %}{% for i in range(60) %}"
       "{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a|tojson }}",
       "this becomes longer than 32 MB"},
      {"{% set s = 'a' * 30000 %}{{ s|replace('a', s) }}",
       "this becomes longer than 32 MB"},
      {"{{ range(100)|map('string')|join('a' * 3000000) }}",
       "this becomes longer than 32 MB"},
      {"{{ (-9223372036854775807 - 1)|abs }}", "is none"},
      {"{{ [9223372036854775807, 1]|sum }}", "beyond 64 bits"},
      {"{{ [1.5, 'a']|sum }}", "`sum`"},
      {"{{ ['nan'|float, 1]|sort }}", "NaN has no order"},
      {"{{ 'a'|trim(b) }}", "`chars`"},
      {"{{ range(-9223372036854775807 - 1, 0) }}", "`range` has no end"},
      {"{{ strftime_now('%c' * 100) }}", "more than 255 bytes"},
      // Nor is an argument dropped.
      {"{{ {}|tojson(default=1) }}", "not supported with `default`"},
      {"{{ []|tojson(separators=[',']) }}", "`separators` are two texts"},
      {"{{ {}|dictsort(reverse=true) }}", "not supported with `reverse`"},
      {"{{ '7'|int(0, 16) }}",
       "6: the filter `int` takes 0 to 1 arguments, not 2"},
      {"{{ ['a']|map('join', d=', ')|list }}", "not supported with `d`"},
      {"{{ []|selectattr }}", "`selectattr` takes at least 1 argument, not 0"},
      {"{{ [1]|join(',', d=';') }}", "the filter `join` has `d` twice"},
      {"{{ 1 is eq(1, 2) }}", "the test `eq` takes 1 argument, not 2"},
      {"{{ 1 is defined(1) }}", "the test `defined` takes 0 arguments, not 1"},
      {"{{ [1].count(1, 0) }}", "`.count` takes 1 argument, not 2"},
      {"{{ 'a'.find() }}", "`.find` takes 1 to 3 arguments, not 0"},
      {"{{ 'a'.split(x=1) }}", "`.split` is not supported with `x`"},
      {"{{ dict({}, {}) }}", "`dict` takes 0 to 1 arguments, not 2"},
      {"{{ dict([(1, 2, 3)]) }}", "made of pairs, not of 3 values"},
      {"{{ range(stop=3) }}", "`range` is not supported with `stop`"},
      {"{% macro f(a) %}{% endmacro %}{{ f(1, b=2) }}",
       "`f` is not supported with `b`"},
      {"{{ range(*[1, 3]) }}", "arguments from a list are not supported"},
  };
  for (const auto &[source, words] : cases)
    EXPECT_NE(rendered(source).find(words), std::string::npos)
        << source << "\n"
        << rendered(source);
  EXPECT_EQ(rendered("{{ (-9223372036854775807 - 1) is divisibleby(-1) }}"),
            "True");
  EXPECT_EQ(rendered("{{ 1e-5 }} {{ 2.5E3 }} {{ 1_000 }} {{ 1e16 }}"),
            "1e-05 2500.0 1000 1e+16");
  EXPECT_EQ(rendered("{{ 3 ** 39 }} {{ 2 ** -1 }} {{ (-1) ** 100001 }}"),
            "4052555153018976267 0.5 -1");
  EXPECT_NE(rendered("{{ 2 ** 63 }}").find("does not fit in 64 bits"),
            std::string::npos);
  EXPECT_EQ(rendered("{{ ['a', 'A', 'b']|unique|join }}"), "ab");
}

TEST(ChatTemplate, TellsTheTime) {
  EXPECT_EQ(rendered("{{ strftime_now('%Y') }}").size(), 4u);
}

TEST(ChatTemplate, ReadsNumbersAsPythonDoes) {
  EXPECT_EQ(rendered("{{ '3.7'|int }} {{ '+4'|int }} {{ ' 1e3 '|int }} "
                     "{{ 'x'|int(7) }} {{ '-2.9'|int }} {{ 2.5|int }}"),
            "3 4 1000 7 -2 2");
  EXPECT_EQ(rendered("{{ ' 2.5 '|float }} {{ '+2.5'|float }} {{ 'x'|float }}"),
            "2.5 2.5 0.0");
  EXPECT_EQ(rendered("{{ '1' is lower }} {{ 'a1' is lower }} {{ '' is upper }} "
                     "{{ 'A1' is upper }}"),
            "False True False True");
}

// What transformers renders of these.
TEST(ChatTemplate, ReadsDictionariesAsPythonDoes) {
  EXPECT_EQ(rendered("{{ {1: 'a', 'b': 2, none: 3, true: 4} }}"),
            "{1: 4, 'b': 2, None: 3}");
  EXPECT_EQ(rendered("{% set d = {1: 'a', 2: 'c'} %}{{ d[2] }}{{ d.get(1) }}"
                     "{{ d.get('1') }}{{ 1 in d }}{{ '1' in d }}{{ 1.0 in d }}"
                     "{{ d.items()|list }}"),
            "caNoneTrueFalseTrue[(1, 'a'), (2, 'c')]");
  EXPECT_EQ(rendered("{% for k, v in {30:'a', 4:'b'}|dictsort %}{{ k + 1 }}"
                     "{{ v }}{% endfor %}{{ {'B': 1, 'a': 2}|dictsort }}"),
            "5b31a[('a', 2), ('B', 1)]");
  EXPECT_EQ(rendered("{{ {1: {2: none}}|tojson }}"), R"({"1": {"2": null}})");
  EXPECT_EQ(rendered("{{ {1: 2} == {1.0: 2} }}{{ {1: 2} == {'1': 2} }}"),
            "TrueFalse");
  EXPECT_EQ(rendered("{{ {[1]: 2} }}"),
            "3: a key is a text or a number, not a list");
  EXPECT_EQ(rendered("{{ {'b': 'é☃𝄞', 'a': '\"\\n'}|"
                     "tojson(ensure_ascii=True) }}"),
            R"({"b": "\u00e9\u2603\ud834\udd1e", "a": "\"\n"})");
  EXPECT_EQ(rendered("{{ {'b': [1, 2], 'a': {}}|"
                     "tojson(separators=(',', ':'), sort_keys=True) }}"),
            R"({"a":{},"b":[1,2]})");
  EXPECT_EQ(rendered("{{ {'b': [1]}|tojson(indent=1, separators=('; ', '=')) "
                     "}}{{ [1, 2]|tojson(indent=none, separators=none) }}"),
            "{\n \"b\"=[\n  1\n ]\n}[1, 2]");
  EXPECT_EQ(rendered("{{ [3, 1, 2]|min }}{{ ['b', 'A', 'c']|max }}"
                     "{{ ['b', 'B']|min(case_sensitive=true) }}{{ []|min }}"
                     "{{ [{'a': 3}, {'a': 1}]|min(attribute='a') }}"),
            "1cB{'a': 1}");
  EXPECT_EQ(rendered("{{ 'a{}b{}'.format(1, 'x') }}"
                     "{{ '{1}{0}{n}{{}}'.format(1, [2], n=none) }}"),
            "a1bx[2]1None{}");
  EXPECT_EQ(rendered("{{ '{}{}'.format(1) }}"),
            "16: `format` has no argument for `{}`");
  EXPECT_EQ(rendered("{{ '{:>3}'.format(1) }}"),
            "17: `format` is not supported with `{:>3}`");
}

// What transformers renders of these.
TEST(ChatTemplate, LooksBetweenThePlacesThatAreNamed) {
  EXPECT_EQ(rendered("{{ 'xax'.find('x', 1) }} {{ 'xéx'.find('x', -1) }} "
                     "{{ 'xax'.rfind('x', 0, 2) }} {{ 'ab'.find('', 3) }} "
                     "{{ 'ab'.find('b', none, 1) }}"),
            "2 2 0 -1 -1");
  EXPECT_EQ(rendered("{{ 'abab'.count('ab', 1) }}{{ 'ab'.count('') }} "
                     "{{ 'Q: a'.startswith('a', 3) }} "
                     "{{ 'abc'.endswith(('b', 'x'), 0, -1) }} "
                     "{{ [1, 2, 1].index(1, 1) }}"),
            "13 True True 2");
  EXPECT_EQ(
      rendered("{{ 'ab'.replace('', '-', 1) }} {{ 'ab'.replace('', '-', 0) "
               "}} {{ 'ab'.replace('', '-') }}"),
      "-ab ab -a-b-");
}
TEST(ChatTemplate, MakesDictionariesOfOthers) {
  EXPECT_EQ(rendered("{% set d = {'a': 1, 'b': 2} %}{{ dict(d, b=3) }}{{ d }}"
                     "{{ dict([('a', 1)], c=2) }}{% set n = namespace(d, c=3) "
                     "%}{% set n.a = 5 %}{{ n.a }}{{ n.b }}{{ n.c }}"),
            "{'a': 1, 'b': 3}{'a': 1, 'b': 2}{'a': 1, 'c': 2}523");
}

// What transformers renders of these.
TEST(ChatTemplate, EndsLinesAsPythonDoes) {
  EXPECT_EQ(rendered("{{ 'a\\r\\nb\\rc\\u2028\\x0b\\n\\nd\\n'.splitlines() }}"
                     "{{ ''.splitlines() }}{{ '\\r\\r\\n'.splitlines() }}"),
            "['a', 'b', 'c', '', '', '', 'd'][]['', '']");
  EXPECT_EQ(rendered("\u00a0{{- '1' -}}\u3000b {#- c -#} \u2028d\n\u00a0 "
                     "{% if 1 %}{{\u00a0'e'\u3000}}{% endif %}"),
            "1bd\ne");
  EXPECT_EQ(rendered("a {#-"), "a");
  EXPECT_EQ(rendered("{{ 'a\\r\\nb\\n'.splitlines(true) }}"),
            R"(['a\r\n', 'b\n'])");
  EXPECT_EQ(rendered("{{ 'a\\r\\nb\\r\\rc\\n'|indent(2) }}|{{ ''|indent }}|"
                     "{{ 'a\\n'|indent(1, blank=true) }}"),
            "a\n  b\n\n  c\n||a\n ");
  EXPECT_EQ(rendered("a\n{% raw %}\n{{ b }}\n {%+ endraw %}\nc"),
            "a\n\n{{ b }}\n c");
  EXPECT_EQ(rendered("{% raw -%}\n b {%- endraw +%}\nc"), "b\nc");
  EXPECT_EQ(rendered("{{ [nothing] }}{{ nothing }}"), "[Undefined]");
}

// As `apply_chat_template` prepares them.
TEST(ChatTemplate, ThoughtsHaveTheNamesThatTemplatesKnow) {
  ChatTemplate chat("{% for m in messages %}{{ m.reasoning_content }}/"
                    "{{ m.thinking }}/{{ m.reasoning }};{% endfor %}",
                    "t");
  EXPECT_EQ(chat.render(conversationOf(R"([
              {"role": "user", "content": "a"},
              {"role": "assistant", "content": "a", "reasoning_content": "x"},
              {"role": "assistant", "content": "a", "thinking": "x"},
              {"role": "assistant", "content": "a", "reasoning": "x"},
              {"role": "assistant", "content": "a", "reasoning_content": null,
               "reasoning": "x", "thinking": "y"}])",
                                       "c"),
                        0),
            "//;x/x/;x/x/;x/x/x;y/y/x;");
}
// Templates ask whether there is a content beside calls of tools.
TEST(ChatTemplate, OnlyAContentIsNullInMessages) {
  test::TemporaryFolder folder;
  std::ofstream(folder.path + "/chat_template.jinja")
      << "{{ bos_token }}{{ messages[0].content is none }} {{ "
         "messages[0].tool_calls is defined }} {{ messages[0].n }}";
  std::ofstream(folder.path + "/special_tokens_map.json")
      << R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>"})";
  std::optional<ChatTemplate> chat = ChatTemplate::ofFolder(folder.path);
  ASSERT_TRUE(chat);
  EXPECT_EQ(chat->endToken(), "</s>");
  EXPECT_EQ(chat->render(conversationOf(R"([{"role": "user", "content": null,
                                         "tool_calls": null,
                                         "n": 18446744073709551615}])",
                                        "x"),
                         0),
            "<s>True False 1.8446744073709552e+19");
}

TEST(ChatTemplate, StandsInAFolder) {
  test::TemporaryFolder folder;
  auto write = [&](const char *name, const std::string &text) {
    std::ofstream(folder.path + "/" + name) << text;
  };
  const char *withTool = R"({"messages": [{"role": "user", "content": "T"}],
                             "tools": [{"name": "f"}]})";
  EXPECT_FALSE(ChatTemplate::ofFolder(folder.path));
  write("tokenizer_config.json",
        R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>",
            "chat_template": [{"name": "tool", "template": "x"},
              {"name": "default", "template":
               "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"}]})");
  std::optional<ChatTemplate> chat = ChatTemplate::ofFolder(folder.path);
  ASSERT_TRUE(chat);
  EXPECT_EQ(chat->endToken(), "</s>");
  EXPECT_EQ(chat->render(conversationOf("Hi [1]", "x"), 0), "<s>Hi [1]</s>");
  EXPECT_EQ(chat->render(conversationOf(withTool, "x"), 0), "<s>T</s>");
  EXPECT_EQ(chat->render(conversationOf(R"([{"role": "user", "content": "a"},
                                        {"role": "assistant", "content": "b"}])",
                                        "x"),
                         0),
            "<s>a</s>b</s>");
  // Where there are tools, that for their use.
  write("tokenizer_config.json", R"({"bos_token": "<s>", "chat_template": [
    {"name": "default", "template": "d"},
    {"name": "tool_use", "template": "{{ bos_token }}{{ tools[0].name }}{{ 1.x.y }}"}]})");
  chat = ChatTemplate::ofFolder(folder.path);
  EXPECT_EQ(chat->render(conversationOf("a", "x"), 0), "d");
  EXPECT_EQ(messageOf<InputError>(
                [&] { chat->render(conversationOf(withTool, "x"), 0); }),
            folder.path + "/tokenizer_config.json: chat_template called "
                          "tool_use:1:41: `.x` is undefined, and has no `y`");
  // A file of its own goes first.
  write("chat_template.jinja", "{{ messages[0].role }}\n");
  EXPECT_EQ(ChatTemplate::ofFolder(folder.path)
                ->render(conversationOf("[a]", "x"), 0),
            "user");
  write("chat_template.jinja", "line\n  {{ messages.x.y }}");
  chat = ChatTemplate::ofFolder(folder.path);
  EXPECT_EQ(
      messageOf<InputError>([&] { chat->render(conversationOf("a", "x"), 0); }),
      folder.path + "/chat_template.jinja:2:16: `.x` is undefined, and "
                    "has no `y`");
  write("tokenizer_config.json", "{");
  EXPECT_NE(messageOf<InputError>([&] {
              ChatTemplate::ofFolder(folder.path);
            }).find("tokenizer_config.json is not a JSON object"),
            std::string::npos);
}

// A conversation has its own tools, else those of the variables.
TEST(ChatTemplate, ToolsAndVariables) {
  ChatTemplate chat("{{ thinks }} {{ tools|tojson }} {{ bos_token }} "
                    "{{ messages|length }} {{ add_generation_prompt }}",
                    "t");
  chat.set("bos_token", Value::string("<s>"));
  auto render = [&](const std::string &text) {
    return chat.render(conversationOf(text, "c"), 0);
  };
  const std::string none =
      R"({"messages": [{"role": "user", "content": "a"}]})";
  const std::string some = none.substr(0, none.size() - 1);
  EXPECT_EQ(render("a"), " null <s> 1 True");
  EXPECT_EQ(render(some + R"(, "tools": [{"name": "f"}]})"),
            R"( [{"name": "f"}] <s> 1 True)");
  EXPECT_EQ(render(some + R"(, "tools": "[{\"name\": \"f\"}]"})"),
            R"( [{"name": "f"}] <s> 1 True)");
  EXPECT_EQ(render(some + R"(, "tools": null})"), " null <s> 1 True");
  for (const char *tools : {"3", "[3]", "\"[\"", "{}"})
    EXPECT_EQ(messageOf<InputError>(
                  [&] { render(some + ", \"tools\": " + tools + "}"); }),
              "the \"tools\" of c are no list of JSON objects")
        << tools;
  chat.setVariables({{"thinks", false}, {"tools", {1}}, {"bos_token", "<b>"}});
  EXPECT_EQ(render(none), "False [1] <b> 1 True");
  EXPECT_EQ(render(some + R"(, "tools": []})"), "False [] <b> 1 True");

  EXPECT_EQ(faultOfVariables(R"({"a": [1]})"), "");
  EXPECT_EQ(faultOfVariables("[]").find("this is no JSON object"), 0u);
  EXPECT_EQ(faultOfVariables("a=1").find("this is no JSON: "), 0u);
  EXPECT_EQ(faultOfVariables(R"({"messages": 1})"),
            "messages is what --chat makes of the prompt");
  EXPECT_EQ(faultOfVariables(R"({"tools": [{}]})"), "");
  for (const char *tools : {"3", "\"[{}]\"", "[1]"})
    EXPECT_EQ(faultOfVariables(std::string("{\"tools\": ") + tools + "}"),
              "tools is no list of JSON objects");
}

TEST(ChatTemplate, MessagesHaveRoles) {
  auto problem = [](const char *text) {
    return messageOf<InputError>([&] { conversationOf(text, "m.json"); });
  };
  EXPECT_EQ(problem("[{\"content\": 1}]").find("m.json: entry 0"), 0u);
  EXPECT_EQ(problem(R"([{"role": "user", "content": "a"}, {"role": "user"}])"),
            "m.json: entry 1 of this list has no \"content\"");
  EXPECT_EQ(problem(R"([{"role": "assistant", "tool_calls": []}])"), "");
  EXPECT_EQ(problem("[{").find("m.json begins as a list"), 0u);
  EXPECT_EQ(problem("{\"messages\": []"),
            "m.json begins as a list of messages, but is not valid JSON: it "
            "ends too early");
  EXPECT_EQ(problem("{\"id\": 1, \"messages\": []}"),
            "the \"messages\" of m.json are no list of messages");
  EXPECT_EQ(problem("[]"), "");
}

} // namespace
} // namespace tfm
