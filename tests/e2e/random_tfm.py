"""Writes `.tfm` files at random, most of which are almost right: modules in
modules, repeats in repeats, numbers that depend on the layer, odd values of
hyperparameters, slices, gathers, constants, functions and modules that contain
themselves, and what doubles with every level. The same seed gives the same
file. By itself: `random_tfm.py SEED` prints one.
"""

import random
import sys

ODD_NUMBERS = ["-1", "0", "1", "2", "3", "7", "255", "65536", "65537", "100000", "2**31", "2**31 - 1", "2**32",
               "2**62", "9223372036854775807", "-9223372036854775807", "1e-308", "1e308", "0.5", "8.0", "none", "true",
               '"text"']
FLOAT_FUNCTIONS = ["exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "relu", "relu_squared", "gelu", "silu",
                   "softplus", "abs", "stop_gradient", "softmax", "log_softmax", "cumsum"]
REDUCTIONS = ["sum", "mean", "var", "std", "max", "min"]
STD_LAYERS = ["Linear({w}, {w})", "LayerNorm({w})", "RMSNorm({w})", "MLP({w}, 4 * {w})", "Conv1D({w}, {w})",
              "SelfAttention({w}, {n})", "SwiGLU({w}, {n} * {w})", "LoRA(Linear({w}, {w}), rank = {n})"]


class Writer:
    """One file. `odd` is how often something is not what it should be."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.odd = self.random.choice([0.0, 0.0, 0.01, 0.03, 0.1, 0.3])
        # Half of what is not odd is right, as far as that can be known here.
        self.careful = self.odd == 0 and self.chance(0.8)
        # How large numbers, lists and levels are: mostly a few, sometimes very many.
        self.size = self.random.choice([2, 3, 4, 6, 10, 40])
        self.modules = []
        self.functions = []

    def chance(self, probability):
        return self.random.random() < probability

    def pick(self, options):
        return self.random.choice(options)

    # Numbers -------------------------------------------------------------

    def integer(self, names, depth=3):
        """A formula over names of integers."""
        if self.chance(self.odd):
            return self.pick(ODD_NUMBERS)
        if self.careful:
            a, b = self.pick(names + ["2"]), str(self.random.randint(1, 4))
            return self.pick([b, a, f"({a} + {b})", f"({a} * {b})", f"max({a}, {b})", f"({a} // {a})",
                              f"(if {a} > {b} then {a} else {b})", f"[{a}, {b}][1]"])
        if depth == 0 or self.chance(0.4):
            return self.pick(names) if names and self.chance(0.7) else str(self.random.randint(1, 16))
        a, b = self.integer(names, depth - 1), self.integer(names, depth - 1)
        form = self.random.randrange(12)
        if form < 7:
            return f"({a} {self.pick(['+', '-', '*', '*', '//', '%', '/'])} {b})"
        if form == 7:
            return f"({a})**{self.pick(['2', '3', b, '64'])}"
        if form == 8:
            return f"{self.pick(['min', 'max'])}({a}, {b})"
        if form == 9:
            return f"(if {a} {self.pick(['<', '>', '==', '!=', '<=', '>='])} {b} then {a} else {b})"
        if form == 10:
            return f"int({self.pick(['sqrt', 'exp', 'log', 'abs'])}(float({a})))"
        items = ", ".join(self.integer(names, depth - 1) for _ in range(self.random.randint(1, 4)))
        return f"[{items}][{self.pick(['0', '-1', a])}]"

    def count(self, names):
        """How often something is repeated."""
        if self.careful:
            return self.pick(["1", "2", "3", "12", "100"])
        if self.chance(0.1):
            return self.pick(["65536", "4096", "1000", "2**31", "0", "-1", self.integer(names)])
        return self.pick(["1", "2", "3", "4"] + names)

    # Tensors -------------------------------------------------------------

    def tensor(self, values, numbers, layers, depth=3):
        """An expression over names of tensors [B, T, width]."""
        if depth == 0 or self.chance(0.15):
            return self.pick(values)
        x = self.tensor(values, numbers, layers, depth - 1)
        form = self.random.randrange(17)
        if self.careful:
            return self.careful_tensor(x, form, values, numbers, layers, depth)
        if form < 3:
            return f"({x} {self.pick(['+', '-', '*', '/'])} {self.tensor(values, numbers, layers, depth - 1)})"
        if form == 3:
            return f"({x} {self.pick(['+', '*', '-', '/', '**'])} {self.integer(numbers, 1)})"
        if form == 4:
            return f"{self.pick(FLOAT_FUNCTIONS)}({x})"
        if form == 5:
            return f"({x} - {self.pick(REDUCTIONS + ['shift'])}({x}, axis = {self.pick(['-1', 'T', '0', '1', 'B', '5'])}))"
        if form == 6:
            return f"concat(split({x}, {self.count(numbers)}))"
        if form == 7 and layers:
            return f"{self.pick(layers)}({x})"
        if form == 8 and self.functions:
            return f"{self.pick(self.functions)}({x})"
        if form == 9:
            axes = self.pick(["[:, :, 0:{}]", "[0:{}]", "[:, {}]", "[:, -1:{}]", "[..., {}]"])
            return f"({x} + {x}" + axes.format(self.integer(numbers, 1)) + ")"
        if form == 10:
            return f'rearrange({x}, "B T (h d) -> {self.pick(["B T (h d)", "B h T d", "(B T) h d", "B T (d h)"])}", h = {self.integer(numbers, 1)})'
        if form == 11:
            ids = self.pick(["positions(cast({}[:, :, 0], int))", "cast({}, int)", "range({n})",
                             "min(max(cast({}[:, :, 0], int), 0), {n} - 1) + {n}"])
            ids = ids.replace("{n}", self.integer(numbers, 1)).replace("{}", x)
            table = self.pick([x, "one_hot(range(8), 8)", f"{x}[0]", f"{x}[0, 0]"])
            return f"({x} + gather({table}, {ids}))"
        if form == 12:
            return f"where({x} > {self.integer(numbers, 0)}, {x}, {self.tensor(values, numbers, layers, depth - 1)})"
        if form == 13:
            return f"({x} @ {self.tensor(values, numbers, layers, depth - 1)}.T @ {x})"
        if form == 14:
            number = self.pick(["0.1", "0.0", self.integer(numbers, 1)])
            return self.pick([f"dropout({x}, {number})", f"({x} + random_normal([B, T, {number}]))",
                              f"({x} * random_uniform([B, 1, 1], {number}, {number}))", f"random_uniform({x})"])
        if form == 15:
            return f"scan({self.pick([x, '0.5', self.integer(numbers, 1)])}, {x}, axis = {self.pick(['-1', 'T', '0', '5'])})"
        return f"(if {self.integer(numbers, 1)} > {self.integer(numbers, 1)} then {x} else {self.pick(values)})"

    def careful_tensor(self, x, form, values, numbers, layers, depth):
        """One of the same shape, whatever the model is."""
        if form < 3:
            return f"({x} {self.pick(['+', '-', '*'])} {self.tensor(values, numbers, layers, depth - 1)})"
        if form < 6 and layers:
            return f"{self.pick(layers)}({x})"
        if form < 8 and self.functions:
            return f"{self.pick(self.functions)}({x})"
        if form == 8:
            return f"({x} * {self.integer(numbers, 1)})"
        if form == 9:
            return f"({x} - {self.pick(REDUCTIONS)}({x}))"
        if form == 10:
            return f"({x} + {self.pick(values)}[:, :, 0:1])"
        if form == 11:
            return f"({x} + gather(one_hot(range(64), 1), min(max(cast({x}, int), 0), 63))[:, :, :, 0])"
        if form == 12:
            return f"where({x} > {self.integer(numbers, 0)}, {x}, {self.pick(values)})"
        if form == 13:
            return f"dropout({x}, 0.1)"
        if form == 14:
            return f"scan(sigmoid({self.pick(values)}), {x}, axis = T)"
        return f"{self.pick(['exp', 'tanh', 'gelu', 'silu', 'softmax', 'stop_gradient'])}({x})"

    def statements(self, numbers, layers, indent):
        values = ["x"]
        lines = []
        for i in range(self.random.randint(0, self.size)):
            name = self.pick(["x", "x", f"y{i}"])
            lines.append(f"{indent}{name} = {self.tensor(values, numbers, layers)}")
            values.append(name)
        lines.append(f"{indent}return {self.tensor(values, numbers, layers, 1)}")
        return lines

    # Members -------------------------------------------------------------

    def layer(self, numbers, index=None):
        """An expression that makes an instance."""
        numbers = numbers + ([index] if index else [])
        form = self.random.randrange(10)
        if form < 4 and self.modules:
            name, count = self.pick(self.modules)
            args = ["width"] + [self.integer(numbers, 2) for _ in range(count - 1)]
            return f"{name}({', '.join(args)})"
        if form < 8:
            width = "width" if self.careful or self.chance(0.9) else self.integer(numbers, 1)
            heads = "1" if self.careful else self.integer(numbers, 0)
            return self.pick(STD_LAYERS).format(w=width, n=heads)
        if form == 8:
            own = self.pick(["i", "j", "k"])
            return f"repeat({self.count(numbers)}) as {own} {self.layer(numbers, own)}"
        return f"[{', '.join(self.layer(numbers) for _ in range(self.random.randint(1, 3)))}]"

    def members(self, numbers):
        """Lines, and the names of what can be called."""
        numbers, layers, lines = list(numbers), [], []
        for i in range(self.random.randint(0, self.size)):
            form = self.random.randrange(10)
            if form < 4:
                lines.append(f"  l{i} = {self.layer(numbers)}")
                layers.append(f"l{i}")
            elif form < 6:
                lines.append(f"  n{i} = {self.integer(numbers)}")
                numbers.append(f"n{i}")
            elif form == 6:
                lines.append(f"  param p{i}: [{self.integer(numbers, 2)}, width] = {self.pick(['zeros', 'normal(0.02)', 'xavier', 'he', self.integer(numbers, 1)])}")
            elif form == 7:
                shape = f"a: {self.integer(numbers, 2)}, b: {self.integer(numbers, 1)}"
                lines.append(f"  const c{i}[{shape}] = {self.pick(['a * b', 'sin(a / (b + 1))'] if self.careful else ['a * b', 'sin(a / (b + 1))', 'a ** b', 'log(a)', self.integer(numbers + ['a', 'b'])])}")
            elif form == 8:
                lines.append("  require width > 0" if self.careful else f"  require {self.integer(numbers, 1)} {self.pick(['<', '>', '!='])} {self.integer(numbers, 1)}, \"no\"")
            elif layers and not self.careful:
                lines.append(f"  l{i} = {self.pick(layers)}")
                layers.append(f"l{i}")
        return lines, layers, numbers

    def hyperparameters(self, count):
        names = ["width"] + self.random.sample(["heads", "n", "m", "depth", "rate", "context"], count - 1)
        texts = []
        for i, name in enumerate(names):
            value = self.integer(names[:i], 1) if self.chance(0.3) and not self.careful else self.pick(["1", "2", "4", "8", "16", "64"])
            if self.chance(self.odd):
                value = self.pick(ODD_NUMBERS)
            texts.append(f"{name} = {value}")
        return names, ", ".join(texts)

    def module(self, word, name):
        count = self.random.randint(1, 4)
        names, texts = self.hyperparameters(count)
        lines, layers, numbers = self.members(names)
        own = self.pick(["[B, T, width]", "[B, T, width]", "[.., width]", "[..]"])
        if self.careful:
            own = "[B, T, width]"
        if word == "model":
            own = "[B, T, width]"
        body = self.statements(numbers, layers, "    ")
        text = [f"{word} {name}({texts}) {{"] + lines + [f"  forward(x: {own}) -> {own} {{"] + body + ["  }", "}", ""]
        if word == "module":
            self.modules.append((name, count))
        return text

    def function(self, name):
        body = self.statements(["2", "3"], [], "  ")
        if self.chance(0.1) and not self.careful:
            body[-1] = f"  return {name}(x)"
        self.functions.append(name)
        own = "[B, T, D]" if self.careful else "[..]"
        return [f"function {name}(x: {own}) -> {own} {{"] + body + ["}", ""]

    def doubling(self):
        """What grows with every level."""
        levels = self.pick([3, 10, 20, 40])
        form = self.random.randrange(4)
        if form == 0:
            text = ["function d0(x) { return x + 1.0 }"]
            text += [f"function d{i}(x) {{ return d{i - 1}(d{i - 1}(x)) }}" for i in range(1, levels)]
            self.functions.append(f"d{levels - 1}")
        elif form == 1:
            text = ["module D0(width) { forward(x: [..]) -> [..] { return x } }"]
            text += [f"module D{i}(width) {{\n  a = D{i - 1}(width)\n  b = D{i - 1}(width)\n"
                     "  forward(x: [..]) -> [..] { return b(a(x)) }\n}" for i in range(1, levels)]
            self.modules.append((f"D{levels - 1}", 1))
        elif form == 2:
            lists = [f"  a{i} = [a{i - 1}, a{i - 1}]" for i in range(1, levels)]
            text = ["module D(width) {", f"  a0 = {self.pick(['[1, 2]', 'Linear(width, width)'])}"] + lists
            text += [f"  forward(x: [..]) -> [..] {{ return {self.pick(['x', f'a{levels - 1}(x)'])} }}", "}"]
            self.modules.append(("D", 1))
        else:
            formula = "(" + " + ".join(f"h{i}" for i in range(10)) + ")"
            hypers = ", ".join(f"h{i} = {2 * i + 2}" for i in range(10))
            steps = [f"  q{i} = {'q%d * ' % (i - 1) if i else ''}{formula} {self.pick(['/ 2', '// 3', '% 1000', '* 2'])}"
                     for i in range(levels)]
            text = [f"module D(width, {hypers}) {{"] + steps + ["  forward(x: [..]) -> [..] { return x }", "}"]
            self.modules.append(("D", 1))
        return text + [""]

    def file(self):
        text = []
        if self.chance(0.2):
            text += self.doubling()
        for i in range(self.random.randint(0, min(self.size, 6))):
            text += self.function(f"f{i}") if self.chance(0.3) else self.module("module", f"M{i}")
        if self.chance(0.05) and not self.careful:
            # Two that contain each other.
            text += ["module P(width) {\n  q = Q(width)\n  forward(x: [..]) -> [..] { return q(x) }\n}",
                     "module Q(width) {\n  p = P(width)\n  forward(x: [..]) -> [..] { return p(x) }\n}"]
            self.modules.append(("P", 1))
        if self.careful or self.chance(0.9):
            text += self.module("model", "Main")
        if self.chance(0.3) and not self.careful:
            entries = [f"batch = {self.integer([], 1)}", f"sequence = {self.integer([], 1)}",
                       f"steps = {self.integer([], 1)}", f"accumulate = {self.integer([], 1)}", "loss = mse"]
            text += ["train { " + ", ".join(self.random.sample(entries, self.random.randint(1, 5))) + " }"]
        if self.chance(0.05):
            text += ['tokenizer chars("' + "".join(chr(self.random.randint(0x61, 0x3000)) for _ in range(self.size)) + '")']
        result = "\n".join(text) + "\n"
        if self.chance(0.05) and not self.careful:
            # Cut off anywhere, or a part of it twice.
            at, to = sorted(self.random.randrange(len(result)) for _ in range(2))
            result = self.pick([result[:at], result[:to] + result[at:]])
        return result


def random_file(seed):
    return Writer(seed).file()


if __name__ == "__main__":
    print(random_file(int(sys.argv[1])), end="")
