"""tfmc report: GPT-2's published counts, formulas that give their numbers."""

import contextlib
import json
import math
import pathlib
import re
import shutil
import tempfile
import unittest
from fractions import Fraction

from support import FIXTURES, MODELS, ROOT, TFMC, main, tfmc

GPT2 = MODELS / "gpt2.tfm"
COUNTS = json.loads((FIXTURES / "counts" / "counts.json").read_text())
# The .tfm's names for what the fixture calls its hyperparameters.
SETTINGS = ("vocab", "context", "width", "layers", "heads")


class Integer(Fraction):
    """An integer of the language, where `/` must be exact."""

    def __truediv__(self, other):
        quotient = Fraction(self) / Fraction(other)
        if quotient.denominator != 1:
            raise ValueError(f"{self} / {other} is not exact")
        return Integer(quotient)

    def __add__(self, other):
        return Integer(Fraction(self) + Fraction(other))

    def __radd__(self, other):
        return Integer(Fraction(other) + Fraction(self))

    def __sub__(self, other):
        return Integer(Fraction(self) - Fraction(other))

    def __mul__(self, other):
        return Integer(Fraction(self) * Fraction(other))

    def __rmul__(self, other):
        return Integer(Fraction(other) * Fraction(self))

    def __pow__(self, other):
        return Integer(Fraction(self) ** int(other))

    def __floordiv__(self, other):
        return Integer(math.floor(Fraction(self) / Fraction(other)))


def value(formula, hyperparameters):
    """A formula's value, by Python's rules for the same operators."""
    names = {name: Integer(number) for name, number in hyperparameters.items()
             if isinstance(number, int) and not isinstance(number, bool)}
    return eval(formula, {"__builtins__": {}, "min": min, "max": max}, names)  # pylint: disable=eval-used


@contextlib.contextmanager
def written(*lines):
    """A file of these lines, while it is wanted."""
    with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as folder:
        path = pathlib.Path(folder) / "model.tfm"
        path.write_text("\n".join(lines) + "\n")
        yield path


def report(*arguments):
    result = tfmc("report", *arguments, "--format", "json")
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return json.loads(result.stdout)


class Gpt2Family(unittest.TestCase):
    def check(self, name):
        expected = COUNTS[name]
        defines = []
        for setting in SETTINGS:
            defines += ["-D", f"{setting}={expected['hyperparameters'][setting]}"]
        parameters = report(GPT2, *defines)["parameters"]
        self.assertEqual(parameters["total"], expected["total"])
        self.assertEqual(parameters["bytes"], 4 * expected["total"])
        found = {"transformer." + tensor["name"]: (tensor["shape"], tensor["parameters"])
                 for tensor in parameters["tensors"]}
        wanted = {tensor["name"]: (tensor["shape"], tensor["count"])
                  for tensor in expected["tensors"]}
        self.assertEqual(found, wanted)

    def test_default_is_gpt2_small(self):
        parameters = report(GPT2)["parameters"]
        self.assertEqual(parameters["total"], 124439808)
        self.assertEqual(len(parameters["tensors"]), 148)


for model in COUNTS:
    setattr(Gpt2Family, f"test_{model.replace('-', '_')}",
            lambda self, model=model: self.check(model))


class LabTable(unittest.TestCase):
    """The parameter table of a lab on transformers, component by component."""

    PATHS = {"layer_norm": "blocks.0.norm_attention", "embedding": "embedding",
             "attention": "blocks.0.attention", "mlp": "blocks.0.mlp",
             "transformer_block": "blocks.0", "output_layer": "output"}

    def test_all_configurations(self):
        table = json.loads((FIXTURES / "counts" / "lab_counts.json").read_text())
        self.assertEqual(len(table["configurations"]), 36)
        for configuration in table["configurations"]:
            with self.subTest(configuration=configuration["name"]):
                defines = []
                for name, number in configuration["hyperparameters"].items():
                    name = "context" if name == "max_length" else name
                    defines += ["-D", f"{name}={number}"]
                parameters = report(MODELS / "lab.tfm", *defines)["parameters"]
                found = {module["path"]: module["parameters"]
                         for module in parameters["modules"]}
                true = configuration["true"]
                self.assertEqual(parameters["total"], true["transformer"])
                for component, path in self.PATHS.items():
                    self.assertEqual(found[path], true[component], component)
                # What the lab's own functions say, where they are wrong: they
                # forget 2 * embedding_dim in every block.
                missing = 2 * configuration["hyperparameters"]["embedding_dim"]
                blocks = configuration["hyperparameters"]["num_blocks"]
                self.assertEqual(true["transformer_block"] - missing,
                                 configuration["document"]["transformer_block"])
                self.assertEqual(true["transformer"] - blocks * missing,
                                 configuration["document"]["transformer"])

    def test_both_settings_of_the_lab(self):
        self.assertEqual(report(MODELS / "lab.tfm")["parameters"]["total"], 135402752)
        second = ["-D", "embedding_dim=128", "-D", "mlp_dim=512", "-D", "num_blocks=8",
                  "-D", "vocabulary_size=2048"]
        self.assertEqual(report(MODELS / "lab.tfm", *second)["parameters"]["total"], 2112512)
        refused = tfmc("report", MODELS / "lab.tfm", *second, "-D", "num_heads=6")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("error[E0405]: embedding_dim must be divisible by num_heads", refused.stderr)
        self.assertIn("embedding_dim = 128, num_heads = 6", refused.stderr)

    def test_what_moves_the_total(self):
        answer = json.loads(tfmc("report", MODELS / "lab.tfm", "--sweep", "num_blocks=2,4",
                                 "--sweep", "embedding_dim=128,256", "--format", "json").stdout)
        self.assertEqual([point["total"] for point in answer["sweep"]],
                         [67701760, 135402752, 68032512, 136325632])
        v, d, f, n, total = 262144, 256, 384, 2, 135402752
        derivatives = {"embedding_dim": 2 * v + 8 * d * n + 2 * f * n + 9 * n,
                       "vocabulary_size": 2 * d + 1, "num_blocks": 461440,
                       "mlp_dim": (2 * d + 1) * n}
        at = {"embedding_dim": d, "vocabulary_size": v, "num_blocks": n, "mlp_dim": f}
        found = {entry["name"]: entry for entry in answer["sensitivity"]}
        self.assertEqual(answer["sensitivity"][0]["name"], "embedding_dim")
        for name, derivative in derivatives.items():
            self.assertEqual(found[name]["derivative"], derivative, name)
            # The total is linear in all but the width: four square matrices a block.
            curved = 4 * n if name == "embedding_dim" else 0
            self.assertEqual(found[name]["one_more"], derivative + curved, name)
            self.assertAlmostEqual(found[name]["elasticity"], derivative * at[name] / total, 12)

    def test_values_that_the_file_lacks(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "m.tfm"
            file.write_text("model M(width: int) {\n  l = Linear(width, width)\n"
                            "  forward(x: [B, width]) -> [B, width] { return l(x) }\n}\n")
            result = tfmc("report", file, "--sweep", "width=x,2,3")
            self.assertEqual((result.returncode, result.stderr), (1, ""))
            rows = [line.split() for line in result.stdout.splitlines()[3:6]]
            self.assertEqual(rows[0][:2], ["x", "-"])
            self.assertEqual(rows[1][:2], ["2", "6"])
            self.assertEqual(rows[2][:2], ["3", "12"])
            self.assertIn("at 6 parameters", result.stdout)

    def test_how_each_component_changes(self):
        # Two values of each hyperparameter, and the components of both beside each other.
        functions = {"embedding": lambda v, d, f, n: v * d,
                     "blocks": lambda v, d, f, n: n * (4 * (d * d + d) + 2 * d * f + f + d + 4 * d),
                     "output": lambda v, d, f, n: v * (d + 1)}
        base = {"vocabulary_size": 262144, "embedding_dim": 256, "mlp_dim": 384, "num_blocks": 2}
        for name, other in (("vocabulary_size", 2048), ("embedding_dim", 128), ("mlp_dim", 512),
                            ("num_blocks", 8)):
            result = tfmc("report", MODELS / "lab.tfm", "--sweep", f"{name}={base[name]},{other}",
                          "--depth", "1")
            rows = [line.split() for line in result.stdout.splitlines()[2:5]]
            self.assertEqual(rows[0], [name, *functions, "parameters", "size"])
            for row, value in zip(rows[1:], (base[name], other)):
                at = dict(base, **{name: value})
                parts = [function(*at.values()) for function in functions.values()]
                numbers = [int(cell.replace(",", "")) for cell in row[:5]]
                self.assertEqual(numbers, [value, *parts, sum(parts)], name)

    def test_one_more_is_what_a_model_with_one_more_has(self):
        small = ["-D", "vocabulary_size=50", "-D", "embedding_dim=8", "-D", "mlp_dim=12",
                 "-D", "num_heads=1"]
        answer = json.loads(tfmc("report", MODELS / "lab.tfm", *small, "--sweep",
                                 "mlp_dim=12,13", "--sweep", "vocabulary_size=50,51",
                                 "--format", "json").stdout)
        total, vocabulary, mlp, _ = (point["total"] for point in answer["sweep"])
        found = {entry["name"]: entry["one_more"] for entry in answer["sensitivity"]}
        self.assertEqual(found["vocabulary_size"], vocabulary - total)
        self.assertEqual(found["mlp_dim"], mlp - total)


class Documents(unittest.TestCase):
    def test_reports_are_those_that_are_shown(self):
        root = MODELS.parent
        shown = [(file.name, *match.groups()) for file in (root / "README.md", *sorted((root / "docs").glob("*.md")))
                 for match in re.finditer(r"^```console\n\$ tfmc (report [^\n]*)\n(.*?)^```", file.read_text(), re.M | re.S)]
        self.assertGreater(len(shown), 3)
        for name, command, text in shown:
            with self.subTest(f"{name}: {command}"):
                # The same on every machine.
                cpu = ["--cpu", "x86-64-v3"] if "--memory" in command else []
                printed = tfmc(*command.split(), *cpu, cwd=root).stdout
                # What stands between lines of dots follows in this order.
                at = 0
                for part in re.split(r"^\.\.\.\n", text, flags=re.M):
                    found = printed.find(part, at)
                    self.assertGreaterEqual(found, 0, f"not printed:\n{part}\nbut\n{printed[at:]}")
                    at = found + len(part)


class ShippedFiles(unittest.TestCase):
    def test_each_is_right(self):
        files = sorted(MODELS.rglob("*.tfm"))
        self.assertGreater(len(files), 15)
        for file in files:
            with self.subTest(file=file.name):
                result = tfmc("check", file)
                self.assertEqual(result.stderr, "")
                self.assertEqual(result.returncode, 0)

    @staticmethod
    def facts(name):
        cases = json.loads((FIXTURES / "cs444" / "cases.json").read_text())["cases"]
        return next(case["facts"] for case in cases if case["name"] == name)

    @staticmethod
    def shapes(part, *defines):
        defines = [word for define in defines for word in ("-D", define)]
        listed = report(MODELS / "cs444" / f"{part}.tfm", "--shapes", *defines)["shapes"]
        return {(shape["path"], shape["value"], shape["role"]): shape["shape"]
                for shape in listed}

    def test_the_summary_of_an_embedding(self):
        facts = self.facts("embedding_summary")
        ids = facts["ids"]
        defines = [f"vocab={facts['vocabulary']}", f"width={facts['width']}", f"B={len(ids)}",
                   f"T={len(ids[0])}"]
        self.assertEqual(self.shapes("embedding", *defines),
                         {("", "ids", "argument"): [3, 2],
                          ("", "return", "result"): facts["output_shape"]})
        text = tfmc("report", MODELS / "cs444" / "embedding.tfm", "--shapes",
                    *(word for define in defines for word in ("-D", define))).stdout
        self.assertTrue(text.endswith("  5  ids     [B, T]         [3, 2]     argument\n"
                                      "  5  return  [B, T, width]  [3, 2, 3]  result\n"), text)

    def test_shapes_of_queries_keys_and_values(self):
        facts = self.facts("qkv_shapes")
        batch, length, inputs = facts["input_shapes"][0]
        found = self.shapes("query_key_value", f"B={batch}", f"T={length}", f"inputs={inputs}",
                            f"units={facts['units']}")
        arguments = [found["", name, "argument"] for name in ("xq", "xk", "xv")]
        self.assertEqual(arguments, facts["input_shapes"])
        for i, name in enumerate(("queries", "keys", "values")):
            self.assertEqual(found["", f"return[{i}]", "result"], facts[name])
            self.assertEqual(found["qkv"[i], "return", "result"], facts[name])

    def test_shapes_of_a_layer_norm_by_hand(self):
        listed = report(MODELS / "layer_norm.tfm", "--shapes", "-D", "B=20", "-D", "T=5")["shapes"]
        found = {shape["value"]: shape["shape"] for shape in listed if not shape["path"]}
        self.assertEqual(found, {"x": [20, 5, 10], "mu": [20, 5, 1], "variance": [20, 5, 1],
                                 "normalized": [20, 5, 10], "y": [20, 5, 10],
                                 "return[0]": [20, 5, 10], "return[1]": [20, 5, 10]})

    def test_in_which_file_a_shape_stands(self):
        """A line of a module of the library is none of the model's."""
        own = str(MODELS / "gpt2.tfm")
        answer = report(MODELS / "gpt2.tfm", "--shapes")
        files = {(shape["path"], shape["value"]): shape["file"] for shape in answer["shapes"]}
        self.assertEqual(files["", "tokens"], own)
        self.assertEqual(files["wte", "ids"], "std/Embedding.tfm")
        files = {module["path"]: module["file"] for module in answer["parameters"]["modules"]}
        self.assertEqual(files["h.0.attn.c_attn"], own)
        self.assertEqual(files["h.0.mlp.c_fc"], "std/FeedForward.tfm")
        text = tfmc("report", MODELS / "gpt2.tfm", "--shapes").stdout
        self.assertIn("\n   5  wte.ids                 [B, T]                      [1, 1024]          argument"
                      "  std/Embedding.tfm\n", text)
        table = tfmc("report", MODELS / "gpt2.tfm", "--shapes", "--format", "csv").stdout.splitlines()
        self.assertIn("wte,ids,1 x 1024,B x T,5,argument,std/Embedding.tfm", table)

    def test_every_part_of_the_course_tells_what_goes_in_and_comes_out(self):
        parts = [path.stem for path in sorted((MODELS / "cs444").glob("*.tfm"))]
        self.assertGreater(len(parts), 10)
        for part in parts:
            if part == "gelu":  # a function
                continue
            with self.subTest(part=part):
                found = {(path, role) for path, _, role in self.shapes(part)}
                self.assertIn(("", "argument"), found)
                self.assertIn(("", "result"), found)


class Formulas(unittest.TestCase):
    def check(self, *arguments):
        answer = report(*arguments)
        names = answer["hyperparameters"]
        parameters = answer["parameters"]
        self.assertEqual(value(parameters["formula"], names), parameters["total"])
        for entry in parameters["modules"] + parameters["tensors"]:
            self.assertEqual(value(entry["formula"], names), entry["parameters"],
                             entry.get("path") or entry.get("name"))
        for tensor in parameters["tensors"]:
            self.assertEqual([value(dim, names) for dim in tensor["dims"]], tensor["shape"])
            self.assertEqual(math.prod(tensor["shape"]), tensor["parameters"])
        # The modules below the model hold everything but its own tensors.
        top = sum(module["parameters"] for module in parameters["modules"]
                  if "." not in module["path"])
        own = sum(tensor["parameters"] for tensor in parameters["tensors"]
                  if "." not in tensor["name"])
        self.assertEqual(top + own, parameters["total"])
        self.assertEqual(sum(tensor["parameters"] for tensor in parameters["tensors"]),
                         parameters["total"])

    def test_gpt2(self):
        self.check(GPT2)

    def test_gpt2_xl(self):
        self.check(GPT2, "-D", "width=1600", "-D", "heads=25", "-D", "layers=48")

    def test_every_model_that_ships(self):
        models = sorted(MODELS.glob("*.tfm"))
        self.assertGreaterEqual(len(models), 3)
        for model in models:
            with self.subTest(model=model.name):
                self.check(model)


class Memory(unittest.TestCase):
    def test_a_model_without_tokens_generates_nothing(self):
        self.assertIsNone(report(MODELS / "cs444" / "embedding.tfm", "--memory")["memory"]["generation"])
        self.assertIsNotNone(report(MODELS / "addition.tfm", "--memory")["memory"]["generation"])

    def test_the_plan_of_every_model_meets_its_lower_bound(self):
        models = [path for folder in (MODELS, MODELS / "cs444") for path in sorted(folder.glob("*.tfm"))
                  if re.search(r"^model ", path.read_text(), re.MULTILINE)]
        self.assertGreaterEqual(len(models), 15)
        trained = [model for model in models if re.search(r"^train ", model.read_text(), re.MULTILINE)]
        self.assertGreaterEqual(len(trained), 4)
        narrow = ("-D", "train.precision=bf16")
        for model, options in [(model, ()) for model in models] + [(model, narrow) for model in trained]:
            with self.subTest(model=model.name, options=options):
                memory = report(model, "--memory", *options)["memory"]
                self.assertEqual(memory["precision"], "bf16" if options else "f32")
                # Where products are of bf16 keys and values are, too.
                if generation := memory["generation"]:
                    self.assertEqual(generation["cache"], memory["precision"])
                self.assertGreaterEqual(memory["arena"], memory["lower_bound"])
                self.assertLessEqual(memory["arena"], 1.01 * memory["lower_bound"])
                # Every byte of it has a type, and the parts are all of it.
                for part in ("parameters", "gradients", "optimizer", "constants", "cache"):
                    self.assertEqual(sum(memory["types"][part].values()), memory[part], part)
                self.assertEqual(sum(memory[part] for part in ("parameters", "gradients", "optimizer", "constants",
                                                               "activations")), memory["arena"])
                for phase in memory["phases"]:
                    self.assertEqual(sum(phase["live_types"].values()), phase["live"], phase)

    def test_each_chunk_of_a_prompt_is_listed_once(self):
        memory = report(GPT2, "--memory", "-D", "context=8", "-D", "layers=1")["memory"]
        self.assertEqual(memory["generation"]["chunks"], [8])

    def test_what_is_saved_grows_with_the_layers_and_the_batch(self):
        def saved(layers, batch):
            memory = report(MODELS / "shakespeare.tfm", "--memory", "-D", f"layers={layers}",
                            "-D", f"train.batch={batch}")["memory"]
            self.assertEqual(list(memory["types"]),
                             ["parameters", "gradients", "optimizer", "constants", "cache", "saved"])
            (dtype, size), = memory["types"]["saved"].items()
            self.assertEqual(dtype, "f32")
            self.assertLess(size, next(phase["live"] for phase in memory["phases"]
                                       if phase["phase"] == "train"))
            return size

        # A layer saves at least what goes through it, and what its two wide products read.
        token = 4 * 128 * (1 + 3 + 1 + 1 + 4 + 4)
        layer = saved(3, 12) - saved(2, 12)
        self.assertEqual(layer, saved(4, 12) - saved(3, 12))
        self.assertGreaterEqual(layer, 12 * 64 * token)
        self.assertLess(layer, 1.1 * 12 * 64 * token)
        self.assertEqual(2 * layer, saved(3, 24) - saved(2, 24))

    def test_without_training_nothing_is_saved(self):
        self.assertNotIn("saved", report(GPT2, "--memory")["memory"]["types"])

    def test_large_tensors_take_no_time(self):
        """Each expert of each layer lies at a multiple of a large power of two, where processes share an update."""
        with written(f'import "{ROOT / "compiler" / "families" / "mixtral.tfm"}"',
                     "model = Mixtral(width = 8192, hidden = 4096, heads = 64, context = 4096, layers = 16, experts = 128, chosen = 8)",
                     "tokenizer bytes()", 'data text("text.txt")',
                     "train {", "  batch = 4", "  sequence = 4096", "  accumulate = 2",
                     "  loss = cross_entropy(ignore = none)", "  optimizer = adamw(lr = 1e-3)", "  steps = 10", "}") as model:
            (model.parent / "text.txt").write_text("to be or not to be\n" * 4096)
            found = tfmc("report", model, "--memory", "--depth", "0", timeout=30)
            self.assertEqual(found.returncode, 0, found.stderr)


class Json(unittest.TestCase):
    def test_fields_of_the_contract(self):
        answer = report(MODELS / "shakespeare.tfm")
        self.assertEqual(list(answer), ["format", "model", "source", "hyperparameters",
                                        "parameters", "shapes", "flops", "memory", "whole_sequence"])
        self.assertEqual(answer["format"], 1)
        self.assertEqual(answer["source"], str(MODELS / "shakespeare.tfm"))
        self.assertIs(type(answer["hyperparameters"]["drop"]), float)
        self.assertEqual(list(answer["parameters"]),
                         ["total", "trainable", "bytes", "formula", "modules", "tensors"])
        self.assertEqual(list(answer["flops"]), ["unit", "forward_per_token", "train_step", "products"])
        value_names = {(entry["path"], entry["value"]) for entry in answer["shapes"]}
        self.assertIn(("h.3.attn", "q"), value_names)

    def test_flops_of_training_are_about_three_times_the_forward(self):
        answer = report(MODELS / "shakespeare.tfm")
        tokens = 12 * 64
        forward = answer["flops"]["forward_per_token"] * tokens
        self.assertGreater(answer["flops"]["train_step"], 2.2 * forward)
        self.assertLess(answer["flops"]["train_step"], 3.5 * forward)

    def test_what_nobody_uses_costs_nothing(self):
        def model(result, layer="x + a(x), s + mean(x, axis = T)"):
            return ["model M(width = 8, vocab = 16, context = 8) {", "  wte = Embedding(vocab, width)", "  h = repeat(2) Two(width)",
                    "  forward(tokens: int[B, T]) -> [B, T, vocab] {", "    x = wte(tokens)", f"    {result}",
                    "    return y @ wte.weight.T", "  }", "}", "module Two(width) {", "  a = Linear(width, width)",
                    "  forward(x: [B, T, width], s: [B, 1, width]) -> ([B, T, width], [B, 1, width]) {", f"    return {layer}",
                    "  }", "}"]
        with written(*model("y, s = h(x, x[:, 0:1])", "x + a(x), s")) as path:
            alone = report(path, "--flops", "--memory")
        # The means are of no use: as if they were not there, with the plan of a build and without one.
        with written(*model("y, s = h(x, x[:, 0:1])")) as path:
            for options in ((), ("--memory",)):
                answer = report(path, "--flops", *options)
                self.assertEqual(answer["flops"], alone["flops"])
            self.assertIsNone(answer["whole_sequence"])
        with written(*model("z, s = h(x, x[:, 0:1])", "x + a(x), s + mean(x, axis = T)")[:6], "    y = z + s",
                     *model("")[6:]) as path:
            answer = report(path, "--flops", "--memory")
            self.assertGreater(answer["flops"]["forward_per_token"], alone["flops"]["forward_per_token"])
            self.assertIsNotNone(answer["whole_sequence"])

    def test_names_of_what_each_layer_ties(self):
        """As a checkpoint has them, not with the layer left open."""
        with written("model M(width = 4) {", "  h = repeat(2) Two(width)",
                     "  forward(x: [B, width]) -> [B, width] { return h(x) }", "}",
                     "module Two(width) {", "  a = Linear(width, width, bias = false)",
                     "  b = Linear(width, width, bias = false, weight = a.weight)",
                     "  forward(x: [B, width]) -> [B, width] { return a(x) + b(x) }", "}") as path:
            listed = tfmc("report", path, "--tensors").stdout
        for layer in (0, 1):
            self.assertRegex(listed, rf"h\.{layer}\.a\.weight .* also h\.{layer}\.b\.weight\n")

    def test_a_token_is_one_that_is_read(self):
        """Also of a model that gives one answer for all of them."""
        with written("model C(vocab = 11, context = 100, width = 16) {", "  wte = Embedding(vocab, width)",
                     "  l = Linear(width, width)", "  head = Linear(width, 3)",
                     "  forward(tokens: int[B, T]) -> [B, 3] {",
                     "    return head(mean(l(wte(tokens)), axis = T)[:, 0])", "  }", "}") as path:
            flops = report(path)["flops"]
        # A product of a matrix and a row, and a hundredth of the head's.
        self.assertEqual(flops["products"]["forward_per_token"]["f32"], 2 * 16 * 16)
        self.assertLess(flops["forward_per_token"], 600)

    def test_products_by_type_are_those_of_the_plan(self):
        # Read before anything is decided, and after.
        for model in ("gpt2", "shakespeare", "llama", "lab_train"):
            with self.subTest(model=model):
                flops = report(MODELS / f"{model}.tfm")["flops"]
                self.assertEqual(report(MODELS / f"{model}.tfm", "--memory")["flops"], flops)
                for name in ("forward_per_token", "train_step"):
                    products = flops["products"][name]
                    self.assertEqual(products is None, flops[name] is None)
                    if products is not None:
                        self.assertEqual(list(products), ["f32"])
                        self.assertLess(0.7 * flops[name], products["f32"])
                        self.assertLess(products["f32"], flops[name])

    def test_products_of_experts_are_those_of_rows_that_chose_them(self):
        imported = tfmc("import", FIXTURES / "families" / "mixtral")
        self.assertEqual(imported.returncode, 0, imported.stderr)
        options = ("-D", "experts=16", "-D", "context=512")
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder, "mixture.tfm")
            model.write_text(imported.stdout)
            flops = report(model, *options)["flops"]
            self.assertEqual(report(model, *options, "--memory")["flops"], flops)
        # Two of sixteen, and their rows rounded up to groups.
        self.assertLess(flops["products"]["forward_per_token"]["f32"], 0.5 * flops["forward_per_token"])

    def test_products_of_another_precision_are_as_many(self):
        for model in ("shakespeare", "lab_train", "addition"):
            with self.subTest(model=model):
                source, narrow = MODELS / f"{model}.tfm", ("-D", "train.precision=bf16")
                single, flops = report(source)["flops"], report(source, *narrow)["flops"]
                self.assertEqual(report(source, *narrow, "--memory")["flops"], flops)
                self.assertEqual(flops["train_step"], single["train_step"])
                for name in ("forward_per_token", "train_step"):
                    products = flops["products"][name]
                    self.assertEqual(sum(products.values()), single["products"][name]["f32"])
                    # The policy leaves none of these in f32.
                    self.assertEqual(list(products), ["bf16"])

    def test_a_step_counts_the_optimizer(self):
        model = MODELS / "shakespeare.tfm"
        one, two = (report(model, "-D", f"train.batch={batch}") for batch in (1, 2))
        # What does not grow with the batch: AdamW has 10 to 20 operations a parameter.
        fixed = 2 * one["flops"]["train_step"] - two["flops"]["train_step"]
        parameters = one["parameters"]["total"]
        self.assertGreater(fixed, 10 * parameters)
        self.assertLess(fixed, 20 * parameters)

    def test_matmul_flops_dominate_and_match_two_per_weight(self):
        answer = report(GPT2)
        # Every weight but the positions is multiplied and added once a token.
        weights = 124439808 - 1024 * 768
        self.assertGreater(answer["flops"]["forward_per_token"], 2 * weights)
        self.assertLess(answer["flops"]["forward_per_token"], 2.25 * weights)

    def test_layers_of_one_instance_are_it_once(self):
        source = ("model M(vocab = 5, width = 4) {\n  wte = Embedding(vocab, width)\n  b = Linear(width, width)\n"
                  "  h = repeat(3) b\n  forward(tokens: int[B, T]) -> [B, T, vocab] { return h(wte(tokens)) @ wte.weight.T }\n}\n")
        text = tfmc("report", "-", stdin=source).stdout
        self.assertRegex(text, r"\n +h: 3 x Linear +0 +0\.0% +0  is b\n")

    def test_what_is_read_twice_again_and_again(self):
        """Ways from a value to what it is made of: 2 ** 60."""
        for first, again, last in (("i = tokens", "i = max(i, i)", "x = wte(i)"),
                                   ("i = positions(tokens)", "i = min(i + i, 15)", "x = wte(i)"),
                                   ("m = tokens > 1", "m = m and m",
                                    'x = where(rearrange(m, "B T -> B T 1"), wte(tokens), 2.0)')):
            body = "\n".join([first, *[again] * 60, last])
            source = ("model M(vocab = 16, context = 8, width = 8) {\n  wte = Embedding(vocab, width)\n"
                      f"  forward(tokens: int[B, T]) -> [B, T, vocab] {{\n{body}\nreturn x @ wte.weight.T\n  }}\n}}\n")
            result = tfmc("report", "-", "--memory", stdin=source, timeout=30)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_prevents_a_cache_is_told_of_models_that_generate(self):
        part = MODELS / "cs444" / "mlp.tfm"  # Takes [.., width], not tokens.
        self.assertNotIn("Generation", tfmc("report", part).stdout)
        whole = ("model M(vocab = 5, width = 8) {\n  wte = Embedding(vocab, width)\n"
                 "  forward(tokens: int[B, T]) -> [B, T, vocab] {\n    x = wte(tokens)\n"
                 "    x = x + mean(x, axis = T)\n    return x @ wte.weight.T\n  }\n}\n")
        told = "eneration evaluates the whole sequence for every token: <stdin>:5"
        self.assertIn("G" + told, tfmc("report", "-", stdin=whole).stdout)
        self.assertIn("note: g" + told, tfmc("build", "-", "--emit", "schedule", stdin=whole).stderr)
        # What reads more than tokens writes no texts.
        more = whole.replace("int[B, T])", "int[B, T], seen: bool[B, T])").replace("= wte(tokens)", "= wte(tokens) + wte(int(seen))")
        result = tfmc("report", "-", stdin=more)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("eneration evaluates", result.stdout + tfmc("build", "-", "--emit", "schedule", stdin=more).stderr)
        # One answer for a text: no logits to go on with.
        answer = whole.replace("-> [B, T, vocab]", "-> [B, vocab]").replace(
            "return x @ wte.weight.T", "return (x @ wte.weight.T)[:, 0]")
        result = tfmc("report", "-", stdin=answer)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("Generation", result.stdout)

    def test_without_training_the_step_is_unknown(self):
        self.assertIsNone(report(GPT2)["flops"]["train_step"])

    def test_users_of_a_tensor(self):
        tensors = {tensor["name"]: tensor for tensor in report(GPT2)["parameters"]["tensors"]}
        line = 1 + GPT2.read_text().splitlines().index(
            next(text for text in GPT2.read_text().splitlines() if "wte.weight.T" in text))
        self.assertEqual(tensors["wte.weight"]["used_by"], ["wte", f"forward:{line}"])
        self.assertEqual(tensors["h.7.attn.c_attn.bias"]["used_by"], ["h.7.attn.c_attn"])
        self.assertEqual([name for name, tensor in tensors.items() if not tensor["used_by"]], [])

    def test_depth_limits_modules(self):
        answer = report(GPT2, "--depth", "1")
        self.assertEqual([module["path"] for module in answer["parameters"]["modules"]],
                         ["wte", "wpe", "h", "ln_f"])


class Against(unittest.TestCase):
    @staticmethod
    def small(width=48, heads=4):
        """The options that make gpt2.tfm the model of the fixture, or one beside it."""
        return ["-D", "vocab=101", "-D", f"width={width}", "-D", f"heads={heads}", "-D", "layers=3",
                "-D", "context=32"]

    def test_a_published_layout_matches(self):
        result = tfmc("report", GPT2, *self.small(), "--against", FIXTURES / "gpt2_tiny")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("40 of 40 tensors match in name, shape and type (under the prefix `transformer.`)", result.stdout)

    def test_configuration(self):
        result = tfmc("report", GPT2, *self.small(), "--against", FIXTURES / "gpt2_tiny")
        rows = [line.split() for line in result.stdout.splitlines()]
        self.assertIn(["n_head", "4", "4", "here", "agrees"], rows)
        self.assertIn(["activation_function", '"gelu_new"', "gelu_tanh", "here", "agrees"], rows)
        self.assertNotIn("differs", result.stdout)
        # Eight heads have the same shapes as four.
        result = tfmc("report", GPT2, *self.small(heads=8),
                      "--against", FIXTURES / "gpt2_tiny")
        self.assertEqual(result.returncode, 1)
        self.assertIn("40 of 40 tensors match", result.stdout)
        self.assertIn(["n_head", "4", "8", "here", "differs:", "build", "it", "with", "-D", "heads=4"],
                      [line.split() for line in result.stdout.splitlines()])
        answer = json.loads(tfmc("report", GPT2, *self.small(heads=8), "--format", "json",
                                 "--against", FIXTURES / "gpt2_tiny").stdout)
        self.assertFalse(answer["agrees"])
        self.assertIn({"key": "n_head", "state": "differs", "model": "8", "checkpoint": 4},
                      answer["config"])
        # A file of weights has no configuration.
        answer = json.loads(tfmc("report", GPT2, *self.small(heads=8), "--format", "json",
                                 "--against", FIXTURES / "gpt2_tiny" / "model.safetensors").stdout)
        self.assertTrue(answer["agrees"])
        self.assertIsNone(answer["config"])

    def test_damaged_configuration(self):
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as scratch:
            folder = pathlib.Path(scratch)
            shutil.copy(FIXTURES / "gpt2_tiny" / "model.safetensors", folder)
            (folder / "config.json").write_text('{"n_head": 4')
            result = tfmc("report", GPT2, *self.small(), "--against", folder)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"{folder / 'config.json'} is not a JSON object", result.stderr)
            (folder / "config.json").write_text(json.dumps({"hidden_act": "\x9b2J" + "x" * 1000}))
            result = tfmc("report", GPT2, *self.small(), "--against", folder)
            self.assertEqual(result.returncode, 0)
            self.assertIn("not compared", result.stdout)
            self.assertNotIn("\x9b", result.stdout)
            self.assertLess(len(result.stdout), 400)

    def test_another_width_does_not(self):
        result = tfmc("report", GPT2, *self.small(width=64),
                      "--against", FIXTURES / "gpt2_tiny" / "model.safetensors")
        self.assertEqual(result.returncode, 1)
        self.assertIn("wte.weight", result.stdout)
        self.assertIn("[101, 64] here, [101, 48] in the checkpoint", result.stdout)


if __name__ == "__main__":
    main()
