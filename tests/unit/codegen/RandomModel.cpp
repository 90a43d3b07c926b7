//===- RandomModel.cpp - random models for tests --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/unit/codegen/RandomModel.h"

#include "llvm/Support/FormatVariadic.h"

#include <random>
#include <vector>

using llvm::formatv;

namespace {

/// What is written of one module: its members, and the statements of its
/// `forward`, in which `x` is [B, T, width] and `at` the positions [B, T].
struct Body {
  std::string members, statements;
};

class Writer {
public:
  explicit Writer(unsigned seed) : random(seed), others(seed) {}

  tfm::RandomModel model() {
    heads = pick({1, 2, 3, 4});
    head = pick({2, 4, 6, 16});
    width = heads * head;
    vocab = pick({3, 7, 16, 33});
    context = pick({2, 3, 7, 8, 17});
    int64_t length = 2 + below(context - 1);
    Body body;
    std::string embedded = "wte(tokens)";
    body.members = formatv("  wte = Embedding({0}, {1})\n", vocab, width);
    if (below(3) == 0)
      embedded += formatv(" * sqrt(float({0}))", width).str();
    if (below(2) == 0) {
      body.members += formatv("  wpe = {0}({1}, {2})\n",
                              pick({"LearnedPositions", "SinusoidalPositions"}),
                              context, width);
      embedded += " + wpe(tokens)";
    }
    if (below(4) == 0)
      embedded += formatv(" + one_hot(tokens, {0}) @ wte.weight", vocab).str();
    body.statements = "    x = " + embedded + "\n";
    for (int left = 1 + below(3); left > 0; --left)
      addLayer(body, 2);
    std::string logits = "x @ wte.weight.T";
    int kind = below(3);
    if (kind == 1) {
      body.members += formatv("  head = Linear({0}, {1}, bias = {2})\n", width,
                              vocab, flag());
      logits = "head(x)";
    } else if (kind == 2) {
      body.members += formatv(
          "  head = Linear({0}, {1}, bias = false, weight = wte.weight)\n",
          width, vocab);
      logits = "head(x)";
    }
    std::string loss = "cross_entropy()", method;
    if (below(3) == 0)
      loss = formatv("cross_entropy(ignore = {0}, label_smoothing = 0.1)",
                     below(vocab));
    if (below(4) == 0)
      method = formatv("  loss(tokens: int[B, T], targets: int[B, T]) -> [B, "
                       "T] {{\n    return mse(forward(tokens), "
                       "one_hot(targets, {0}))\n  }\n",
                       vocab);
    int64_t accumulate = 1 + below(2);
    std::string text = modules;
    text += formatv("model Random(vocab = {0}, context = {1}) {{\n", vocab,
                    context);
    text += body.members;
    text += formatv("  forward(tokens: int[B, T]) -> [B, T, {0}] {{\n", vocab);
    text += "    at = positions(tokens)\n" + body.statements;
    text += "    return " + logits + "\n  }\n" + method + "}\n";
    text += formatv("train {{ batch = {0}, sequence = {1}, accumulate = {2}, "
                    "steps = 1, loss = {3} }\n",
                    pick({1, 2, 3}), length, accumulate, loss);
    return {text, vocab, context, accumulate};
  }

private:
  int64_t below(int64_t limit) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
  }
  template <typename T> T pick(std::initializer_list<T> list) {
    return *(list.begin() + below(static_cast<int64_t>(list.size())));
  }
  std::string flag() { return pick({"true", "false"}); }
  std::string fresh(const char *stem) { return stem + std::to_string(next++); }

  /// A member `name = text` and its name.
  std::string member(Body &body, const std::string &text) {
    std::string name = fresh("m");
    body.members += "  " + name + " = " + text + "\n";
    return name;
  }
  std::string parameter(Body &body, const std::string &shape) {
    std::string name = fresh("p");
    body.members += "  param " + name + ": " + shape + " = normal(0.5)" +
                    (below(6) == 0 ? ", trainable = false" : "") + "\n";
    return name;
  }
  std::string let(Body &body, const std::string &text) {
    std::string name = fresh("v");
    body.statements += "    " + name + " = " + text + "\n";
    return name;
  }
  std::string linear(Body &body, int64_t from, int64_t to) {
    return member(body, formatv("{0}({1}, {2}, bias = {3})",
                                pick({"Linear", "Conv1D"}), from, to, flag()));
  }

  /// Changes `x`, with a residual or without.
  void addLayer(Body &body, int depth) {
    std::string y = layer(body, depth);
    body.statements += "    x = ";
    switch (below(6)) {
    case 0:
      body.statements += "tanh(" + y + ")";
      break;
    case 1:
      body.statements += "normalize(x + " + y + ")";
      break;
    case 2:
      body.statements += y + " - x";
      break;
    default:
      body.statements += "x + " + y;
    }
    body.statements += "\n";
  }

  std::string layer(Body &body, int depth) {
    if (depth > 0 && below(3) == 0)
      return repeat(body, depth - 1);
    switch (below(18)) {
    case 0:
      return member(body, formatv("{0}({1})",
                                  pick({"LayerNorm", "RMSNorm", "StdNorm",
                                        "RMSNormPlusOne"}),
                                  width)) +
             "(x)";
    case 1:
      return member(body, formatv("MLP({0}, {1}, act = {2}, drop = {3})", width,
                                  1 + below(20), activation(),
                                  pick({"0.0", "0.3"}))) +
             "(x)";
    case 2:
      return member(body, formatv("GatedMLP({0}, {1}, act = {2})", width,
                                  1 + below(20), activation())) +
             "(x)";
    case 3:
      return member(body, formatv("LoRA(Linear({0}, {0}), rank = 2)", width)) +
             "(x)";
    case 4:
      return member(body, formatv("SelfAttention({0}, {1}, causal = {2}, drop "
                                  "= {3})",
                                  width, heads, flag(), pick({"0.0", "0.2"}))) +
             "(x)";
    case 5:
      return rotary(body);
    case 6:
    case 7:
      return attention(body);
    case 8:
      return elementwise("x");
    case 9:
      return elementwise(let(body, elementwise("x")));
    case 10: { // parts that change places
      int64_t first = 1 + below(width - 1);
      std::string a = fresh("v"), b = fresh("v");
      body.statements += formatv("    {0}, {1} = split(x, [{2}, {3}])\n", a, b,
                                 first, width - first);
      return "concat(" + b + ", " + a + ")";
    }
    case 11:
      return formatv("rearrange(x, \"B T (p q) -> B T (q p)\", p = {0})",
                     heads);
    case 12: { // along the sequence
      return pick<std::string>(
          {"x - mean(x, axis = 1)", "x * softmax(x, axis = 1)", "x + x[:, 0:1]",
           "concat(x[:, 1:T], x[:, 0:1], axis = 1)",
           "softmax((x @ rearrange(x, \"B T d -> B d T\")) * 0.2) @ x",
           "x / sqrt(0.1 + var(x, axis = 1))"});
    }
    case 13: // each head with weights of its own
      return formatv("rearrange(tanh(rearrange(x, \"B T (h d) -> B T h d\", h "
                     "= {0}) * {1} + {2}), \"B T h d -> B T (h d)\")",
                     heads, parameter(body, formatv("[{0}, {1}]", heads, head)),
                     parameter(body, formatv("[{0}, 1]", heads)));
    case 14:
      return "x * " + parameter(body, formatv("[{0}]", width)) + " + " +
             pick<std::string>(
                 {member(body, formatv("Embedding({0}, {1})", context, width)) +
                      "(at)",
                  "rearrange(cast(at, float) * 0.1, \"B T -> B T "
                  "1\")",
                  formatv(
                      "one_hot(at, {0}) @ {1}", context,
                      parameter(body, formatv("[{0}, {1}]", context, width)))});
    case 15: {
      std::string name = fresh("c");
      body.members +=
          formatv("  const {0}[t: {1}, j: {2}] = sin(t + j / 3.0)\n", name,
                  context, width);
      return "x * " + name + "[0:T]";
    }
    case 16:
      return pick<std::string>(
          {"dropout(x, 0.25)", "stop_gradient(tanh(x)) * x",
           "where(rearrange(at, \"B T -> B T 1\") >= 1, x, x * 0.5)",
           "x / sqrt(0.1 + var(x))", "log_softmax(x) * 0.1", "softmax(x) - x",
           "x * tanh(max(x, axis = -1))", "tanh(cumsum(x, axis = T) * 0.2)",
           "tanh(cumsum(x)) * 0.5", "x * tanh(sum(x * x))",
           "x - 0.7 * shift(x, T)", "tanh(shift(x, T, by = 3))",
           "tanh(scan(0.8, x, axis = T))",
           "scan(sigmoid(x), x, axis = T) * 0.5", "tanh(scan(tanh(x), x))"});
    default: { // weights for every other head, one product a head
      std::string w = parameter(body, formatv("[{0}, {1}, {1}]", heads, head));
      std::string h = let(body, formatv("rearrange(x, \"B T (h d) -> h (B T) "
                                        "d\", h = {0})",
                                        heads));
      return formatv("rearrange({0} @ {1}, \"h (B T) d -> B T (h d)\", B = B)",
                     h, w);
    }
    }
  }

  std::string activation() {
    return pick({"relu", "relu_squared", "gelu", "gelu_tanh", "silu",
                 "softplus", "tanh", "sigmoid", "sin"});
  }

  /// Nothing grows faster than `x`, or repeats would leave the range of an f32.
  std::string elementwise(const std::string &x) {
    return formatv(pick({"sin({0}) * {0}",
                         "cos({0})",
                         "tanh({0})",
                         "sigmoid({0}) * {0}",
                         "erf({0})",
                         "{0} * tanh({0})",
                         "tanh({0}) ** 2",
                         "sin({0}) ** 3",
                         "exp(0.0 - {0} * {0})",
                         "log(1.0 + {0} ** 2)",
                         "sqrt(1.0 + {0} * {0})",
                         "rsqrt(1.0 + {0} * {0})",
                         "abs({0})",
                         "relu({0})",
                         "relu_squared(tanh({0}))",
                         "gelu({0})",
                         "gelu_tanh({0})",
                         "silu({0})",
                         "softplus({0})",
                         "min({0}, 0.7)",
                         "max({0} * 0.5, {0})",
                         "{0} / (1.5 + sin({0}))",
                         "where({0} > 0.2, {0}, {0} * 0.3)"}),
                   x);
  }

  std::string rotary(Body &body) {
    int64_t kv = divisor(heads), d = 2 * (1 + below(4));
    return member(body,
                  formatv("RotaryAttention({0}, {1}, kv_heads = {2}, "
                          "head_width = {3}, base = 100.0, rotary = {4}, "
                          "interleaved = {5}, window = {6}, softcap = {7}, "
                          "bias = {8})",
                          width, heads, kv, d, 2 * (1 + below(d / 2)), flag(),
                          pick({"none", "1", "3"}), pick({"none", "2.0"}),
                          flag())) +
           "(x, at)";
  }

  int64_t divisor(int64_t n) {
    int64_t result = 1 + below(n);
    while (n % result != 0)
      --result;
    return result;
  }

  /// Attention spelt out, with masks and biases of all shapes.
  std::string attention(Body &body) {
    int64_t kv = divisor(heads), d = 1 + below(9), e = 1 + below(9);
    auto project = [&](const std::string &from, int64_t count, int64_t each) {
      return let(body,
                 formatv("rearrange({0}({1}), \"B T (h d) -> B h T d\", h = "
                         "{2})",
                         linear(body, width, count * each), from, count));
    };
    std::string q = project("x", heads, d), k = project("x", kv, d),
                v = project(pick({"x", "(x * tanh(x))"}), kv, e);
    std::string options;
    if (below(3) != 0)
      options += ", causal = true";
    switch (below(6)) {
    case 0:
      options += formatv(", mask = rearrange(range(T), \"t -> t 1\") + {0} >= "
                         "rearrange(range(T), \"t -> 1 t\")",
                         below(3));
      break;
    case 1:
      options += ", bias = " + parameter(body, formatv("[{0}, 1, 1]", heads)) +
                 " * rearrange(cast(range(T), float), \"t -> 1 1 t\")";
      break;
    case 2: {
      std::string name = fresh("c");
      body.members +=
          formatv("  const {0}[h: {1}, t: {2}, s: {2}] = (s - t) / (h + 2)\n",
                  name, heads, context);
      options += ", bias = " + name + "[:, 0:T, 0:T]";
      break;
    }
    case 3: {
      std::string table =
          parameter(body, formatv("[{0}, {1}, {1}]", heads, context));
      options += ", bias = " + table + "[:, 0:T, 0:T]";
      break;
    }
    default:
      break;
    }
    if (below(4) == 0)
      options += ", window = 2";
    if (below(4) == 0)
      options += ", softcap = 1.5";
    if (below(4) == 0)
      options += ", scale = 0.4";
    if (below(4) == 0)
      options += ", dropout = 0.2";
    std::string y =
        let(body, "attention(" + q + ", " + k + ", " + v + options + ")");
    return linear(body, heads * e, width) + "(rearrange(" + y +
           ", \"B h T d -> B T (h d)\"))";
  }

  /// Layers of a new module, one after another; some hand on two values.
  std::string repeat(Body &body, int depth) {
    Body inner;
    for (int left = 1 + below(3); left > 0; --left)
      addLayer(inner, depth);
    std::string name = fresh("Block");
    bool gains = below(3) == 0, hasTwo = others() % 3 == 0;
    const std::string type = formatv("[B, T, {0}]", width).str();
    modules += "module " + name + "(" + (gains ? "gain: float" : "") + ") {\n" +
               inner.members + "  forward(x: " + type +
               (hasTwo ? ", z: " + type : "") + ", at: int[B, T]) -> " +
               (hasTwo ? "(" + type + ", " + type + ")" : type) + " {\n" +
               inner.statements + "    return " + (gains ? "x * gain" : "x") +
               (hasTwo ? second() : "") + "\n  }\n}\n";
    int64_t count = 1 + below(3);
    std::string how;
    if (gains)
      how = formatv(
          "repeat({0}) as i {1}(gain = {2})", count, name,
          pick({"1.0 / (i + 2)", "if i % 2 == 0 then 1.0 else 0.5", "0.9"}));
    else if (below(3) == 0)
      how = formatv("repeat({0}) {1}", count, member(body, name + "()"));
    else
      how = formatv("repeat({0}) {1}()", count, name);
    std::string layers = member(body, how);
    if (!hasTwo)
      return layers + "(x, at)";
    std::string x = fresh("v"), z = fresh("v");
    body.statements += "    " + x + ", " + z + " = " + layers + "(" +
                       (others() % 2 ? "x, x" : "x, tanh(x)") + ", at)\n";
    return others() % 4 ? "(" + x + " + 0.5 * " + z + ")" : x;
  }

  /// What a layer makes of `z`.
  std::string second() {
    static constexpr const char *values[] = {", tanh(z + x)", ", x", ", z",
                                             ", tanh(z + cumsum(x, axis = 1))",
                                             ", normalize(z * sigmoid(x))"};
    return values[others() % std::size(values)];
  }

  std::mt19937 random;
  /// What was added to models later: the draws of the others stay.
  std::mt19937 others;
  int next = 0;
  std::string modules;
  int64_t heads = 0, head = 0, width = 0, vocab = 0, context = 0;
};

} // namespace

tfm::RandomModel tfm::randomModel(unsigned seed) {
  return Writer(seed).model();
}

tfm::RandomModel tfm::randomMixture(unsigned seed) {
  std::mt19937 random(seed);
  auto below = [&](int64_t limit) {
    return static_cast<int64_t>(random() % limit);
  };
  RandomModel model;
  model.vocab = 11;
  model.context = 17 + below(4);
  model.accumulate = 1 + below(2);
  // Rounding changes no token.
  bool byToken = seed % 2 == 0;
  int64_t chosen = byToken ? 1 : 1 + below(2), experts = 12 * chosen + below(3);
  const char *const results[] = {
      "x + weight * mlp(y)",
      "x + 1.0 + weight * mlp(y + x)",
      // What is nothing that is added.
      "0.5 * x + weight * mlp(y)",
  };
  model.text = formatv(
      R"(model Mix(vocab = {0}, context = {1}, width = 8, hidden = {2}, experts = {3}, k = {4}) {{
  token = Embedding(vocab, width)
  layer = {5}Layer(width, hidden, experts, k)
  head  = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] {{
    return head(layer(token(tokens), tokens))
  }
}
module Layer(width, hidden, experts, k) {{
  look    = SelfAttention(width, 2)
  route   = Linear(width, experts)
  experts = repeat(experts) as number Expert(width, hidden, number)
  forward(x: [B, T, width], tokens: int[B, T]) -> [B, T, width] {{
    x = x + look(x)
    gates, ids = top_k(route(x), k)
    chosen = {6}
    return experts(x, normalize(x), sigmoid(gates), chosen, only = chosen)
  }
}
module Expert(width, hidden, number) {{
  mlp = {7}(width, hidden)
  forward(x: [B, T, width], y: [B, T, width], weights: [B, T, K],
          ids: int[B, T, K]) -> [B, T, width] {{
    weight = sum(where(ids == number, weights, 0.0))
    return {8}
  }
}
train {{ batch = 2, sequence = {1}, accumulate = {9}, steps = 1, loss = cross_entropy(ignore = none) }
)",
      model.vocab, model.context, 5 + below(9), experts, chosen,
      below(2) ? "repeat(2) " : "",
      byToken ? "rearrange(tokens, \"B T -> B T 1\")" : "ids",
      below(2) ? "MLP" : "GatedMLP", results[below(3)], model.accumulate);
  return model;
}
