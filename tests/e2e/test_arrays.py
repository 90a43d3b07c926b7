"""Data that is arrays: what a model learns of them, what `eval` and `predict` say, and what no array may be."""

import json
import math
import os
import pathlib
import random
import shutil
import subprocess

from support import MPI_ENVIRONMENT, MPI_LIBRARIES, InFolder, load_arrays, main, run, save_arrays, tfmc

# Nothing of it is drawn at random.
SERIES = """
model Series {
  param w: [3] = zeros
  param b: [1] = zeros
  forward(x: [B, T, 3]) -> [B, T, 1] { return sum(x * w) + b }
}
data arrays("train.safetensors"%s)
train { batch = %d, sequence = 4, accumulate = %d, steps = %d, loss = mse, optimizer = sgd(lr = 0.3)%s }
"""

IMAGES = """
model Images(side = 3, classes = 3) {
  param w: [side * side, classes] = zeros
  forward(image: [B, side, side], known: bool[B]) -> [B, classes] {
    y = rearrange(image, "B h w -> B (h w)") @ w
    return where(rearrange(known, "B -> B 1"), y, 0.0 * y)
  }
}
data arrays("images.safetensors", validation = 0.25)
train {
  batch = 12, steps = 20, shuffle = false, loss = cross_entropy(ignore = -1), optimizer = sgd(lr = 0.5)
  validate = every(10)
}
"""


def content(path):
    with open(path, "rb") as file:
        return file.read()


def losses_of(folder):
    with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as file:
        return [line["loss"] for line in map(json.loads, file) if "loss" in line]


def series(examples, seed=1):
    """Rows of x, and of targets that a linear function of them gives."""
    dice = random.Random(seed)
    x = [dice.randrange(-64, 64) / 64 for _ in range(examples * 4 * 3)]
    y = [x[at] - x[at + 1] / 2 + 0.25 for at in range(0, len(x), 3)]
    return x, y


def save_series(path, examples, seed=1, **others):
    x, y = series(examples, seed)
    save_arrays(path, {"x": ("F32", [examples, 4, 3], x), "targets": ("F64", [examples, 4, 1], y), **others})


class Arrays(InFolder):
    def refused(self, message, *command):
        result = run(*command, cwd=self.folder)
        self.assertEqual(result.returncode, 1, result.stderr + result.stdout)
        self.assertIn(message, result.stderr)

    def test_a_regression_follows_the_formula(self):
        # All examples in each update: gradient descent, which is computed here, too.
        save_series(self.path("train.safetensors"), 8)
        model = self.build("all", SERIES % ("", 4, 2, 12, ", shuffle = false"))
        result = self.ok(model, "train", "--out", "all_run", "--json")
        self.assertIn("examples_per_second", json.loads(result.stdout))
        x, y = series(8)
        rows = [x[at:at + 3] for at in range(0, len(x), 3)]
        w, b, expected = [0.0] * 3, 0.0, []
        for _ in range(12):
            errors = [sum(p * q for p, q in zip(row, w)) + b - target for row, target in zip(rows, y)]
            expected.append(sum(error * error for error in errors) / len(errors))
            w = [p - 0.3 * 2 * sum(e * row[i] for e, row in zip(errors, rows)) / len(errors) for i, p in enumerate(w)]
            b -= 0.3 * 2 * sum(errors) / len(errors)
        found = losses_of(self.path("all_run"))
        self.assertEqual(len(found), 12)
        for got, wanted in zip(found, expected):
            self.assertAlmostEqual(got, wanted, delta=1e-6 * max(wanted, 1e-2))
        self.assertNotIn("tokenizer.json", os.listdir(self.path("all_run")))

        # What `predict` writes has the losses of `eval`, also of a batch that is not full.
        save_series(self.path("other.safetensors"), 7, seed=2)
        told = json.loads(self.ok(model, "eval", "--weights", "all_run", "--data", "other.safetensors", "--json").stdout)
        self.ok(model, "predict", "--weights", "all_run", "--data", "other.safetensors", "-o", "out.safetensors")
        written = load_arrays(self.path("out.safetensors"))
        self.assertEqual(list(written), ["output"])
        dtype, shape, values = written["output"]
        self.assertEqual((dtype, shape), ("F32", [7, 4, 1]))
        _, y = series(7, seed=2)
        self.assertAlmostEqual(told["loss"], sum((p - q) ** 2 for p, q in zip(values, y)) / len(y), delta=1e-9)
        self.assertEqual((told["targets"], told["perplexity"], told["accuracy"]), (28, None, None))
        # It needs no targets.
        x, _ = series(7, seed=2)
        save_arrays(self.path("inputs.safetensors"), {"x": ("F32", [7, 4, 3], x)})
        self.ok(model, "predict", "--weights", "all_run", "--data", "inputs.safetensors", "-o", "again.safetensors")
        self.assertEqual(load_arrays(self.path("again.safetensors")), written)
        # In the order of the file, also where training and validation take examples in another one.
        split = self.build("split", SERIES % ("", 4, 2, 12, ", shuffle = false"), "-D", "data.split_seed=5")
        self.ok(split, "predict", "--weights", "all_run", "--data", "other.safetensors", "-o", "split.safetensors")
        self.assertEqual(load_arrays(self.path("split.safetensors")), written)

    def test_a_classifier_follows_the_formula(self):
        dice = random.Random(3)
        count, trained = 16, 12
        images = [[dice.randrange(256) / 256 for _ in range(9)] for _ in range(count)]
        classes = [max(range(3), key=lambda c, image=image: sum(image[3 * c:3 * c + 3])) for image in images]
        classes[2] = classes[13] = -1
        known = [dice.random() < 0.8 for _ in images]
        save_arrays(self.path("images.safetensors"),
             {"image": ("F16", [count, 3, 3], sum(images, [])), "known": ("BOOL", [count], known),
              "targets": ("I8", [count], classes)})
        model = self.build("images", IMAGES)
        self.ok(model, "train", "--out", "images_run")
        w, expected = [[0.0] * 3 for _ in range(9)], []

        def chances(image, is_known):
            logits = [sum(p * row[c] for p, row in zip(image, w)) * is_known for c in range(3)]
            total = sum(math.exp(logit) for logit in logits)
            return [math.exp(logit) / total for logit in logits]

        counted = [i for i in range(trained) if classes[i] >= 0]
        for _ in range(20):
            each = [chances(images[i], known[i]) for i in counted]
            expected.append(-sum(math.log(p[classes[i]]) for i, p in zip(counted, each)) / len(counted))
            for at in range(9):
                for c in range(3):
                    w[at][c] -= 0.5 * sum((p[c] - (classes[i] == c)) * images[i][at] * known[i]
                                          for i, p in zip(counted, each)) / len(counted)
        for got, wanted in zip(losses_of(self.path("images_run")), expected, strict=True):
            self.assertAlmostEqual(got, wanted, delta=2e-6)
        told = json.loads(self.ok(model, "eval", "--weights", "images_run", "--json").stdout)
        seen = [i for i in range(trained, count) if classes[i] >= 0]
        each = [chances(images[i], known[i]) for i in seen]
        self.assertEqual(told["targets"], len(seen))
        self.assertAlmostEqual(told["loss"], -sum(math.log(p[classes[i]]) for i, p in zip(seen, each)) / len(seen),
                               delta=2e-6)
        self.assertAlmostEqual(told["perplexity"], math.exp(told["loss"]), delta=1e-6)
        right = sum(max(range(3), key=p.__getitem__) == classes[i] for i, p in zip(seen, each))
        self.assertAlmostEqual(told["accuracy"], right / len(seen), delta=1e-9)

        shown = json.loads(self.ok(model, "data", "--count", "3", "--json").stdout)
        self.assertEqual((shown["train"], shown["validation"]), (12, 4))
        self.assertEqual([row["targets"] for row in shown["rows"]], [[classes[i]] for i in range(3)])
        self.assertEqual(shown["rows"][1]["image"], images[1])
        shown_to_people = self.ok(model, "data", "--count", "1").stdout
        self.assertIn("  image  float32[3, 3]  ", shown_to_people)
        self.assertIn(f"  known  bool[]  {int(known[0])}\n", shown_to_people)
        small = self.build("small", IMAGES, "-D", "generate.weights=int8")
        self.assertEqual(json.loads(self.ok(small, "data", "--count", "3", "--json").stdout), shown)

        commands = next(line for line in self.ok(model, "info").stdout.splitlines() if "commands" in line)
        self.assertIn("predict", commands)
        self.assertNotIn("generate", commands)

    def test_data_shows_the_first_numbers_of_long_arrays(self):
        save_arrays(self.path("long.safetensors"), {"x": ("F32", [1, 2, 7], range(14)), "targets": ("F32", [1, 1], [0.5])})
        model = self.build("long", "model M {\n  l = Linear(14, 1)\n  forward(x: [B, 2, 7]) -> [B, 1] "
                                   "{ return l(rearrange(x, \"B h w -> B (h w)\")) }\n}\n"
                                   "data arrays(\"long.safetensors\")\ntrain { batch = 1, steps = 1, loss = mse }\n")
        self.assertIn("\n  x  float32[2, 7]  0 1 2 3 4 5 6 7 8 9 10 11 ...\n  targets  float32[1]  0.5\n",
                      self.ok(model, "data").stdout)
        self.assertEqual(json.loads(self.ok(model, "data", "--json").stdout)["rows"][0]["x"], list(range(14)))

    def test_tokens_are_predicted_at_the_length_of_training(self):
        text = """
model M(vocab = 7, context = 12, width = 8, causal = true) {
  wte  = Embedding(vocab, width)
  attn = SelfAttention(width, 2, causal = causal)
  head = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    x = wte(tokens)
    return head(x + attn(x))
  }
}
data arrays("tokens.safetensors")
train { batch = 2, sequence = 5, steps = 4 }
"""
        dice = random.Random(5)
        tokens, targets = ([dice.randrange(7) for _ in range(3 * 5)] for _ in range(2))
        save_arrays(self.path("tokens.safetensors"), {"tokens": ("I32", [3, 5], tokens), "targets": ("I64", [3, 5], targets)})
        predict = ("predict", "--weights", "tokens_run", "--data", "tokens.safetensors", "-o")
        model = self.build("tokens", text)
        self.ok(model, "train", "--out", "tokens_run")
        self.ok(model, *predict, "five.safetensors")
        dtype, shape, logits = load_arrays(self.path("five.safetensors"))["output"]
        self.assertEqual((dtype, shape), ("F32", [3, 5, 7]))
        told = json.loads(self.ok(model, "eval", "--weights", "tokens_run", "--data", "tokens.safetensors", "--json").stdout)
        rows = [logits[at:at + 7] for at in range(0, len(logits), 7)]
        losses = [math.log(sum(map(math.exp, row))) - row[target] for row, target in zip(rows, targets)]
        self.assertAlmostEqual(told["loss"], sum(losses) / len(losses), delta=1e-6)
        self.assertIn("generate", self.ok(model, "info").stdout)
        self.ok(model, "generate", "--weights", "tokens_run", "--prompt", "1 2", "--tokens", "8")
        # Behind an example there is nothing that a model of all positions could look at.
        both = self.build("both", text, "-D", "causal=false")
        self.refused("`forward` looks at 12 tokens at once, and its result cannot be told from what fills up an example "
                     "of 5: train the model with as many as it looks at (-D train.sequence=12, or -D context=5)",
                     both, *predict, "refused.safetensors")
        self.ok(self.build("short", text, "-D", "causal=false", "-D", "context=5"), *predict, "both.safetensors")
        # Zeros, and what is below, are all the same to this one, which looks up no token.
        figures = self.build("figures", """
model M(context = 12) {
  param w: [1] = 1.0
  forward(tokens: int[B, T]) -> [B, T, 1] {
    x = rearrange(float(tokens), "B T -> B T 1")
    return w * (x - mean(relu(x), axis = T))
  }
}
data arrays("tokens.safetensors")
train { batch = 2, sequence = 5, steps = 4, loss = mse }
""")
        self.ok(figures, "export", "--seed", "1", "-o", "ones.safetensors")
        self.refused("`forward` looks at 12 tokens at once", figures, "predict", "--weights", "ones.safetensors", "--data",
                     "tokens.safetensors", "-o", "refused.safetensors")
        longer = self.build("longer", text, "-D", "train.sequence=12")
        self.refused("but the model takes [examples, 12], [B, T]: build it with -D train.sequence=5", longer, *predict,
                     "refused.safetensors")

    def test_source_and_tokens_are_arrays_like_others(self):
        model = self.build("translate", """
model M(vocab = 5, width = 4) {
  e = Embedding(vocab, width)
  h = Linear(width, vocab)
  forward(source: int[B, S], present: bool[B, S], tokens: int[B, T]) -> [B, T, vocab] {
    return h(e(tokens) + sum(e(source) * rearrange(float(present), "B S -> B S 1"), axis = S))
  }
}
data arrays("pairs.safetensors")
train { batch = 2, sequence = 3, S = 2, steps = 2 }
""")
        arrays = {"source": ("U8", [3, 2], [0, 1, 2, 3, 4, 0]), "present": ("BOOL", [3, 2], [1, 1, 1, 0, 0, 0]),
                  "tokens": ("U8", [3, 3], [1, 2, 3, 4, 0, 1, 2, 3, 4])}
        targets = [2, 3, 4, 0, 1, 2, 3, 4, 0]
        save_arrays(self.path("pairs.safetensors"), {**arrays, "targets": ("I8", [3, 3], targets)})
        result = self.ok(model, "train", "--out", "translate_run")
        self.assertNotIn("begin", result.stderr)
        told = json.loads(self.ok(model, "eval", "--weights", "translate_run", "--data", "pairs.safetensors", "--json").stdout)
        self.ok(model, "predict", "--weights", "translate_run", "--data", "pairs.safetensors", "-o", "said.safetensors")
        _, shape, logits = load_arrays(self.path("said.safetensors"))["output"]
        self.assertEqual(shape, [3, 3, 5])
        rows = [logits[at:at + 5] for at in range(0, len(logits), 5)]
        losses = [math.log(sum(map(math.exp, row))) - row[target] for row, target in zip(rows, targets)]
        self.assertAlmostEqual(told["loss"], sum(losses) / len(losses), delta=1e-6)
        self.assertNotIn("generate", next(line for line in self.ok(model, "info").stdout.splitlines() if "commands" in line))
        for command in (["generate"], ["logits", "-o", "refused.safetensors"]):
            self.refused("M takes `source`, which arrays fill, and no text: `predict` writes what it makes of the arrays of "
                         "a file", model, *command, "--weights", "translate_run", "--prompt", "1 2")

    def test_the_last_batch_is_filled_up_with_examples(self):
        # What looks across the batch meets no rows but those of the data: of 3 examples in twos the last one, and the
        # first one again.
        model = self.build("across", """
model M {
  param w: [1] = 1.0
  forward(x: [B, 1]) -> [B, 1] { return w * (x - mean(x, axis = B)) }
}
data arrays("across.safetensors")
train { batch = 2, steps = 1, loss = mse }
""")
        save_arrays(self.path("across.safetensors"), {"x": ("F32", [3, 1], [1, 5, 9]), "targets": ("F32", [3, 1], [0, 0, 0])})
        self.ok(model, "export", "--seed", "1", "-o", "ones.safetensors")
        use = ("--weights", "ones.safetensors", "--data", "across.safetensors")
        self.ok(model, "predict", *use, "-o", "said.safetensors")
        self.assertEqual(load_arrays(self.path("said.safetensors"))["output"], ("F32", [3, 1], [-2, 2, 4]))
        told = json.loads(self.ok(model, "eval", *use, "--json").stdout)
        self.assertEqual((told["loss"], told["targets"]), ((4 + 4 + 16) / 3, 3))

    def test_a_class_for_each_token_is_no_generation(self):
        with open(self.path("tags.tfm"), "w", encoding="utf-8") as file:
            file.write("""
model Tags(vocab = 9, tags = 4, width = 8) {
  wte  = Embedding(vocab, width)
  attn = SelfAttention(width, 2, causal = false)
  head = Linear(width, tags)
  forward(tokens: int[B, T]) -> [B, T, tags] {
    x = wte(tokens)
    return head(x + attn(x))
  }
}
data arrays("tags.safetensors")
train { batch = 2, sequence = 5, steps = 4 }
""")
        result = tfmc("build", "tags.tfm", "-o", "tags", cwd=self.folder)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertNotIn("generat", self.ok(self.path("tags"), "info").stdout)
        with open(self.path("tags.tfm"), encoding="utf-8") as file:
            text = file.read().replace("tags = 4", "tags = 9")
        with open(self.path("words.tfm"), "w", encoding="utf-8") as file:
            file.write(text)
        result = tfmc("build", "words.tfm", "-o", "words", cwd=self.folder)
        self.assertIn("note: generation evaluates the whole sequence for every token", result.stderr)

    def test_numbers_are_no_classes(self):
        save_arrays(self.path("plain.safetensors"), {"x": ("F32", [2, 1], [1, 2]), "targets": ("F32", [2, 1], [0.5, 1])})
        text = ("model M(classes = 1) {\n  l = Linear(1, classes)\n  forward(x: [B, 1]) -> [B, classes] { return l(x) }\n}\n"
                "data arrays(\"plain.safetensors\")\ntrain { batch = 1, steps = 1 }\n")
        model = self.build("plain", text)
        self.refused("has F32 in the array `targets`, but the model takes integers (I8 to I64, or U8 to U64): build it with "
                     "-D train.loss=mse where it is to learn these numbers; where they are classes, write it by "
                     "targets.astype(numpy.int32)", model, "train", "--out", "none")
        self.ok(self.build("numbers", text, "-D", "train.loss=mse"), "train", "--out", "numbers_run")
        ignoring = self.build("ignoring", text, "-D", "classes=2", "-D", "train.loss=cross_entropy(ignore = -1)")
        save_arrays(self.path("plain.safetensors"), {"x": ("F32", [2, 1], [1, 2]), "targets": ("I8", [2, 1], [-1, -1])})
        self.refused("but the model takes [examples], [B]: take its last axis away by targets[..., 0]", ignoring, "train",
                     "--out", "none")
        save_arrays(self.path("plain.safetensors"), {"x": ("F32", [2, 1], [1, 2]), "targets": ("I8", [2], [-1, -1])})
        self.ok(ignoring, "export", "--seed", "1", "-o", "drawn.safetensors")
        self.refused("none of the targets in the data counts", ignoring, "eval", "--weights", "drawn.safetensors", "--data",
                     "plain.safetensors")

    def test_fewer_examples_than_an_update_takes(self):
        save_series(self.path("train.safetensors"), 6)
        for name, batch, accumulate, note in (
                ("few", 4, 2, "note: there are 6 examples to train on, and an update takes 8, some of them more than once: "
                              "build with a smaller -D train.batch or train.accumulate\n"),
                ("wide", 7, 1, "takes 7, some of them more than once: build with a smaller -D train.batch\n"),
                ("all", 3, 2, "")):
            model = self.build(name, SERIES % ("", batch, accumulate, 2, ""))
            told = self.ok(model, "train", "--out", f"{name}_examples_run").stderr
            self.assertIn(note, told)
            self.assertEqual("some of them more than once" in told, bool(note))

    def test_a_resumed_run_has_the_same_bits(self):
        save_series(self.path("train.safetensors"), 10)
        model = self.build("resumed", SERIES % (", validation = 0.2, split_seed = 7", 3, 2, 6, ", validate = every(2)"))
        self.ok(model, "train", "--out", "whole")
        self.ok(model, "train", "--out", "part", "--steps", "3")
        result = self.ok(model, "train", "--resume", "part", "--steps", "6")
        self.assertNotIn("note: the data", result.stderr)
        self.assertEqual(losses_of(self.path("part")), losses_of(self.path("whole")))
        for name in ("model.safetensors", "best/model.safetensors"):
            self.assertEqual(content(self.path("whole", name)), content(self.path("part", name)), name)
        save_series(self.path("train.safetensors"), 10, seed=5)
        result = self.ok(model, "train", "--resume", "part", "--steps", "7")
        self.assertIn("note: the data are not those that the run had until now: train.safetensors has changed\n",
                      result.stderr)

    def test_files_follow_each_other(self):
        x, y = series(9)
        save_arrays(self.path("train.safetensors"), {"x": ("F32", [9, 4, 3], x), "targets": ("F32", [9, 4, 1], y)})
        for name, begin, end in (("one", 0, 2), ("two", 2, 9)):
            save_arrays(self.path(f"{name}.safetensors"), {
                "x": ("F64", [end - begin, 4, 3], x[12 * begin:12 * end]),
                "targets": ("F32", [end - begin, 4, 1], y[4 * begin:4 * end])})
        text = SERIES % ("", 3, 1, 5, "")
        whole = self.build("in_one", text)
        parts = self.build("in_two", text, "-D", 'data.files=["one.safetensors", "two.safetensors"]')
        self.ok(whole, "train", "--out", "in_one_run")
        self.ok(parts, "train", "--out", "in_two_run")
        self.assertEqual(losses_of(self.path("in_one_run")), losses_of(self.path("in_two_run")))
        apart = self.build("apart", text, "-D", "data.files=two.safetensors", "-D",
                           "data.validation_files=one.safetensors")
        shown = json.loads(self.ok(apart, "data", "--json").stdout)
        self.assertEqual((shown["train"], shown["validation"]), (7, 2))
        # What is meant to be all files may name one of them twice.
        self.assertNotIn("warning: ", self.ok(apart, "train", "--out", "apart_run").stderr)
        os.symlink(self.path("one.safetensors"), self.path("link.safetensors"))
        warning = "warning: {} is named more than once, and what it holds counts as often\n"
        for name, files in (("trained", "data.files"), ("validated", "data.validation_files")):
            twice = self.build(name, text, "-D", f'{files}=["one.safetensors", "link.safetensors"]')
            for command in (["train", "--out", f"{name}_run"], ["data"]):
                told = self.ok(twice, *command).stderr
                self.assertEqual(told.count("warning: "), 1, told)
                self.assertIn(warning.format("link.safetensors"), told)

    def test_processes_share_the_micro_batches(self):
        compiler, launcher = MPI_LIBRARIES["Open MPI"]
        if not shutil.which(compiler) or not shutil.which(launcher[0]):
            self.skipTest("Open MPI is not installed")
        save_series(self.path("train.safetensors"), 12)
        model = self.build("shared", SERIES % (", validation = 0.25", 2, 2, 6, ", sum = tree, validate = every(3)"))
        self.assertEqual(tfmc("mpi", "--mpicc", compiler, "-o", self.path("libtfm_mpi.so")).returncode, 0)
        self.ok(model, "train", "--out", "alone", "--threads", "1")
        environment = dict(os.environ, NO_COLOR="1", **MPI_ENVIRONMENT)
        result = subprocess.run([*launcher, "2", model, "train", "--out", "shared_run", "--threads", "1"],
                                cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(losses_of(self.path("shared_run")), losses_of(self.path("alone")))
        self.assertEqual(content(self.path("alone/model.safetensors")), content(self.path("shared_run/model.safetensors")))

    def test_a_loss_of_the_models_own_needs_no_targets(self):
        model = self.build("pairs", """
model Pairs {
  param w: [2] = 1.0
  forward(x: [B, 2]) -> ([B, 2], [B]) { return x * w, sum(x, axis = 1) }
  loss(a: [B, 2], b: [B, 2]) -> [B] { return rearrange(sum((a * w - b) ** 2), "B 1 -> B") }
}
data arrays("pairs.safetensors")
train { batch = 2, steps = 1, shuffle = false }
""".replace("sum(x, axis = 1)", 'rearrange(sum(x), "B 1 -> B")'))
        save_arrays(self.path("pairs.safetensors"), {"a": ("F32", [3, 2], [1, 2, 3, 4, 5, 6]), "b": ("F32", [3, 2], [0] * 6)})
        result = self.ok(model, "train", "--out", "pairs_run")
        self.assertEqual(losses_of(self.path("pairs_run")), [(1 + 4 + 9 + 16) / 2])
        self.assertNotIn("note", result.stderr)
        save_arrays(self.path("x.safetensors"), {"x": ("F32", [1, 2], [3, 4]), "y": ("F32", [1], [0])})
        self.ok(model, "export", "--seed", "1", "-o", "ones.safetensors")
        self.ok(model, "predict", "--weights", "ones.safetensors", "--data", "x.safetensors", "-o", "two.safetensors")
        self.assertEqual(load_arrays(self.path("two.safetensors")),
                         {"output.0": ("F32", [1, 2], [3, 4]), "output.1": ("F32", [1], [7])})

    def test_ids_stay_within_their_tables(self):
        model = self.build("ids", """
model Ids(kinds = 5, classes = 3) {
  table = Embedding(kinds, classes)
  forward(kind: int[B], year: int[B]) -> [B, classes] { return table(kind) + rearrange(float(year), "B -> B 1") }
}
data arrays("ids.safetensors")
train { batch = 2, steps = 1 }
""")
        good = {"kind": ("U8", [2], [0, 4]), "year": ("I64", [2], [-3, 2 ** 31 - 1]), "targets": ("I16", [2], [0, 2])}
        save_arrays(self.path("ids.safetensors"), good)
        self.ok(model, "train", "--out", "ids_run")
        for name, values, message in (
                ("kind", ("U8", [2], [0, 5]), "has 5 at kind[1], in its example 1, but the model takes ids from 0 to 4"),
                ("targets", ("I16", [2], [-1, 0]), "has -1 at targets[0], in its example 0, but the model takes ids "
                                                   "from 0 to 2"),
                ("year", ("I64", [2], [2 ** 31, 0]), "has 2147483648 at year[0], in its example 0, but the model takes "
                                                     "integers of 32 bits")):
            save_arrays(self.path("ids.safetensors"), {**good, name: values})
            self.refused(f"error: the data file ids.safetensors {message}", model, "train", "--out", "none")

    def test_arrays_that_do_not_fit_are_named(self):
        save_series(self.path("train.safetensors"), 4)
        model = self.build("strict", SERIES % ("", 2, 1, 2, ""))
        self.ok(model, "train", "--out", "strict_run")
        x, y = series(4)
        fitting = {"x": ("F32", [4, 4, 3], x), "targets": ("F32", [4, 4, 1], y)}
        longer, _ = series(8)
        for name, arrays, message in (
                ("missing", {"x": fitting["x"]}, "has no array `targets`, which the model takes ([examples, 4, 1]): it "
                                                 "has `x`"),
                ("longer", {"x": ("F32", [4, 8, 3], longer), "targets": fitting["targets"]},
                 "has the array `x` [4, 8, 3], but the model takes [examples, 4, 3], [B, T, 3]: build it with "
                 "-D train.sequence=8"),
                ("rank", {"x": ("F32", [48, 1], x), "targets": fitting["targets"]},
                 "has the array `x` [48, 1], but the model takes [examples, 4, 3], [B, T, 3]\n"),
                ("fewer", {"x": fitting["x"], "targets": ("F32", [3, 4, 1], y[:12])},
                 "has 4 examples in the array `x`, but 3 in `targets`: their first axis counts the same examples"),
                ("type", {"x": ("I32", [4, 4, 3], [1] * 48), "targets": fitting["targets"]},
                 "has I32 in the array `x`, but the model takes floats (F32, F64, F16 or BF16): write it by "
                 "x.astype(numpy.float32)"),
                ("nan", {"x": ("F32", [4, 4, 3], x[:31] + [math.nan] + x[32:]), "targets": fitting["targets"]},
                 "has nan at x[2, 2, 1], in its example 2, but the model takes finite numbers: put one in "
                 "its place, as numpy.nan_to_num does\n"),
                ("large", {"x": ("F64", [4, 4, 3], [1e300] + x[1:]), "targets": fitting["targets"]},
                 "has 1e+300 at x[0, 0, 0], in its example 0, but the model takes floats of 32 bits, up to 3.4e38: scale "
                 "these numbers\n"),
                ("axis", {"x": fitting["x"], "targets": ("F32", [4, 4], y)},
                 "has the array `targets` [4, 4], but the model takes [examples, 4, 1], [B, T, 1]: give it the last axis by "
                 "targets[..., None]\n"),
                ("none", {"x": ("F32", [0, 4, 3], []), "targets": ("F32", [0, 4, 1], [])}, "has no examples")):
            with self.subTest(name):
                save_arrays(self.path(f"{name}.safetensors"), arrays)
                self.refused(f"error: the data file {name}.safetensors {message}", model, "train", "--data",
                             f"{name}.safetensors", "--out", "none")
                self.refused(f"error: the data file {name}.safetensors {message}", model, "eval", "--weights",
                             "strict_run", "--data", f"{name}.safetensors")
        self.assertFalse(os.path.exists(self.path("none")))
        for name, text, message in (
                ("empty", b"", "empty.safetensors is not a safetensors file: it has only 0 bytes"),
                ("text", b"x,y\n1,2\n3,4\n", "text.safetensors is text, and no safetensors file: write arrays by "),
                ("zip", b"PK\3\4" + bytes(60), "zip.safetensors is a zip file, such as NumPy's .npz: write arrays by "),
                ("npy", b"\x93NUMPY\1\0" + bytes(60), "npy.safetensors is an array of NumPy's, and no safetensors file"),
                ("cut", content(self.path("train.safetensors"))[:-3], "it is cut short or damaged")):
            with self.subTest(name), open(self.path(f"{name}.safetensors"), "wb") as file:
                file.write(text)
                file.flush()
                self.refused(message, model, "train", "--data", f"{name}.safetensors", "--out", "none")
        self.refused("cannot find the data file gone.safetensors", model, "train", "--data", "gone.safetensors")
        save_series(self.path("more.safetensors"), 4, weights=("F32", [4], [1.0] * 4))
        result = self.ok(model, "eval", "--weights", "strict_run", "--data", "more.safetensors")
        self.assertIn("note: nothing in the model is called weights, as an array of more.safetensors is", result.stderr)
        # Of a long name the beginning.
        save_series(self.path("long.safetensors"), 4, **{"name" * 1000: ("F32", [4], [1.0] * 4)})
        result = self.ok(model, "eval", "--weights", "strict_run", "--data", "long.safetensors")
        self.assertIn(f"note: nothing in the model is called {('name' * 15)[:57]}..., as an array of long", result.stderr)
        save_arrays(self.path("long.safetensors"), {"name" * 1000: ("F32", [4], [1.0] * 4)})
        self.refused(f"it has `{('name' * 15)[:57]}...`\n", model, "eval", "--weights", "strict_run", "--data",
                     "long.safetensors")
        # What a terminal would take for a command is none.
        save_series(self.path("red.safetensors"), 4, **{"\x1b[31mred": ("F32", [4], [1.0] * 4)})
        result = self.ok(model, "eval", "--weights", "strict_run", "--data", "red.safetensors")
        self.assertIn("note: nothing in the model is called \N{REPLACEMENT CHARACTER}[31mred, as", result.stderr)

    def test_sizes_are_those_of_the_model(self):
        model = self.build("square", """
model Square(side = 2, wide = 3) {
  l = Linear(side * side, 1)
  m = Linear(2 * wide, 1)
  forward(image: [B, side, side], more: [B, S, 2 * wide]) -> [B, 1] {
    return l(rearrange(image, "B h w -> B (h w)")) + rearrange(mean(m(more), axis = S), "B 1 1 -> B 1")
  }
}
data arrays("square.safetensors")
train { batch = 1, S = 2, steps = 1, loss = mse }
""")
        good = {"image": ("F32", [1, 2, 2], [0] * 4), "more": ("F32", [1, 2, 6], [0] * 12),
                "targets": ("F32", [1, 1], [0])}
        save_arrays(self.path("square.safetensors"), good)
        self.ok(model, "train", "--out", "square_run")
        for array, message in (
                ({"image": ("F32", [1, 3, 3], [0] * 9)}, "`image` [1, 3, 3], but the model takes [examples, 2, 2], "
                                                         "[B, side, side]: build it with -D side=3\n"),
                ({"image": ("F32", [1, 3, 2], [0] * 6)}, "but the model takes [examples, 2, 2], [B, side, side]\n"),
                ({"more": ("F32", [1, 5, 6], [0] * 30)}, "[B, S, 2*wide]: build it with -D train.S=5\n"),
                ({"more": ("F32", [1, 2, 8], [0] * 16)}, "[B, S, 2*wide]\n")):
            save_arrays(self.path("square.safetensors"), {**good, **array})
            self.refused(message, model, "train", "--out", "none")

    def test_weights_with_a_buffer_more(self):
        model = self.build("scaled", '''
model Scaled {
  param w: [2] = 1.0
  forward(x: [B, 2]) -> [B, 2] { return x * w }
}
data arrays("scaled.safetensors")
train { batch = 2, steps = 1, loss = mse() }
''')
        save_arrays(self.path("x.safetensors"), {"x": ("F32", [1, 2], [3, 4])})
        save_arrays(self.path("buffered.safetensors"), {"w": ("F32", [2], [5, 6]), "seen": ("F32", [1], [7])})
        predict = (model, "predict", "--weights", "buffered.safetensors", "--data", "x.safetensors", "-o", "y.safetensors")
        self.refused("seen is not a parameter of this model\nUse the binary that was built for these weights, or name other "
                     "weights. If what is no parameter may be left out, such as buffers, --partial does so\n", *predict)
        self.refused("y.npy: what is written is no .npy file, but a safetensors one: name it .safetensors",
                     *predict[:-1], "y.npy", "--partial")
        self.ok(*predict, "--partial")
        self.assertEqual(load_arrays(self.path("y.safetensors")), {"output": ("F32", [1, 2], [15, 24])})

    def test_a_loss_of_the_whole_batch(self):
        text = '''
model Entire {
  param w: [2] = 1.0
  forward(x: [B, 2]) -> [B, 2] { return x * w }
  loss(x: [B, 2]) { return %s }
}
data arrays("entire.safetensors")
train { batch = 2, steps = 1, shuffle = false }
'''
        number = 'rearrange(sum(sum(forward(x)), axis = 0), "1 1 ->")'
        pathlib.Path(self.path("number.tfm")).write_text(text % number)
        refused = tfmc("check", self.path("number.tfm"))
        self.assertIn("a loss of the whole batch is given to each example, `rearrange(loss, \"-> B\", B = B)`\n", refused.stderr)
        model = self.build("entire", text % f'rearrange({number}, "-> B", B = B)')
        save_arrays(self.path("entire.safetensors"), {"x": ("F32", [2, 2], [1, 2, 3, 4])})
        self.ok(model, "train", "--out", "entire_run")
        self.assertEqual(losses_of(self.path("entire_run")), [10])

    def test_predictions_that_are_no_numbers(self):
        model = self.build("roots", '''
model Roots {
  param w: [2] = 1.0
  forward(x: [B, 2]) -> [B, 2] { return sqrt(x) * w }
}
data arrays("roots.safetensors")
train { batch = 2, steps = 1, loss = mse() }
''')
        self.ok(model, "export", "--seed", "1", "-o", "roots_1.safetensors")
        for x, told in (([1, 4, -1, 4, 9, 1], "of 1 of 3 examples results are not numbers, the first of them example 1 (from 0): "
                                              "what it reads is too large for the model, or the weights are damaged\n"),
                        ([-1, 4, 1, -4, -9, 1], "of 3 of 3 examples results are not numbers: the weights are damaged, or training "
                                                "has diverged\n")):
            save_arrays(self.path("x.safetensors"), {"x": ("F32", [3, 2], x)})
            result = self.ok(model, "predict", "--weights", "roots_1.safetensors", "--data", "x.safetensors", "-o", "r.safetensors")
            self.assertEqual(result.stderr, "warning: " + told)

    def test_predict_says_what_it_cannot_do(self):
        save_series(self.path("train.safetensors"), 4)
        model = self.build("careful", SERIES % ("", 2, 1, 2, ""))
        self.ok(model, "train", "--out", "careful_run")
        before = content(self.path("train.safetensors"))
        predict = [model, "predict", "--weights", "careful_run", "--data", "train.safetensors", "-o"]
        self.refused("write to another", *predict, "train.safetensors")
        self.assertEqual(content(self.path("train.safetensors")), before)
        # Data that this command does not read, and the weights of an earlier one, are as easily lost.
        save_series(self.path("others.safetensors"), 4)
        self.ok(model, "export", "--weights", "careful_run", "-o", "weights.safetensors")
        for name in ("others.safetensors", "weights.safetensors"):
            self.refused(f"error: {name} is not known to be written by `predict`, and would be lost: write to another file",
                         *predict, name)
        for _ in range(2):
            self.ok(*predict, "mine.safetensors")
        result = run(model, "predict", "--weights", "careful_run", "-o", "o.safetensors", cwd=self.folder)
        self.assertEqual(result.returncode, 2)
        # What an axis counts its name says, and not its size.
        turned = self.build("turned", """
model M {
  l = Linear(1, 2)
  forward(x: [B, 1]) -> ([B, 2], [2, B]) { return l(x), rearrange(l(x), "B n -> n B") }
  loss(x: [B, 1]) -> [B] {
    y, z = forward(x)
    return rearrange(sum(y * rearrange(z, "n B -> B n")), "B 1 -> B")
  }
}
data arrays("turned.safetensors")
train { batch = 2, steps = 1 }
""")
        save_arrays(self.path("turned.safetensors"), {"x": ("F32", [2, 1], [1, 2])})
        self.ok(turned, "export", "--seed", "1", "-o", "turned_weights.safetensors")
        self.refused("the result `output.1` of `forward` is [2, B], without a row for each example: give it the first axis `B`",
                     turned, "predict", "--weights", "turned_weights.safetensors", "--data", "turned.safetensors", "-o",
                     "turned_out.safetensors")
        with open(self.path("text.tfm"), "w", encoding="utf-8") as file:
            file.write("model M(vocab = 256) {\n  e = Embedding(vocab, vocab)\n"
                       "  forward(tokens: int[B, T]) -> [B, T, vocab] { return e(tokens) }\n}\n"
                       "tokenizer bytes\ndata text(\"a.txt\")\n")
        self.assertEqual(tfmc("build", "text.tfm", "-o", "text", cwd=self.folder).returncode, 0)
        self.refused("M predicts from arrays alone, and its data is `text`: `logits` writes what it makes of a text",
                     self.path("text"), "predict", "--weights", "w", "--data", "d", "-o", "o.safetensors")


if __name__ == "__main__":
    main()
