#!/usr/bin/env python3
"""Weights of generation in fewer bits: builds, files, and what they cost in quality."""

import json
import math
import os
import pathlib
import platform
import random
import re
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from support import MODELS, InFolder, main, run, tfmc  # noqa: E402

SMALL = ["layers=2", "heads=4", "width=64", "context=32", "drop=0.0", "train.sequence=32", "train.batch=8",
         "train.steps=150", "train.validate=none", "train.sample=none", "train.schedule.warmup=10"]


def read_weights(path):
    """The tensors of a safetensors file as lists, those of 8 and of 4 bits as the numbers that they stand for: the
    layout that docs/cli.md describes, in plain Python."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(size)), file.read()
    metadata = header.pop("__metadata__", {})
    codes = {"F32": "f", "I8": "b", "U8": "B", "BF16": "H"}
    stored = {name: struct.unpack("<" + str(math.prod(entry["shape"])) + codes[entry["dtype"]],
                                  data[entry["data_offsets"][0]:entry["data_offsets"][1]])
              for name, entry in header.items()}
    weights = {}
    for name, values in stored.items():
        outputs = header[name]["shape"][0]
        terms = len(values) // outputs
        if header[name]["dtype"] == "I8":
            scales = stored[name + ".scale"]
            values = [value * scales[i // terms] for i, value in enumerate(values)]
        elif header[name]["dtype"] == "U8":
            groups, terms = terms // 16, int(metadata["tfm.terms:" + name])
            scales, minima = (struct.unpack(f"<{len(table)}f", b"".join(struct.pack("<HH", 0, half) for half in table))
                              for table in (stored[name + ".scale"], stored[name + ".minimum"]))
            values = [minima[group] + scales[group] * (values[16 * group + i % 16] >> i // 16 * 4 & 15)
                      for output in range(outputs)
                      for group, i in ((groups * output + term // 32, term % 32) for term in range(terms))]
        if name in json.loads(metadata.get("tfm.transposed", "[]")):
            values = [values[output * terms + term] for term in range(terms) for output in range(outputs)]
        if not name.endswith((".scale", ".minimum")):
            weights[name] = values
    return weights


class Weights(InFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_folder = cls.path("run")
        cls.builds = {kind: cls.build(kind) for kind in ("f32", "bf16", "int8", "int4")}
        cls.builds["cache"] = cls.build("f32", name="cache", cache="int8")
        trained = run(cls.builds["f32"], "train", "--out", cls.run_folder)
        assert trained.returncode == 0, trained.stderr
        cls.files = {kind: cls.path(kind + ".safetensors") for kind in ("int8", "int4")}
        for kind, file in cls.files.items():
            exported = run(cls.builds["f32"], "export", "--weights", cls.run_folder, "--dtype", kind, "-o", file)
            assert exported.returncode == 0, exported.stderr

    @classmethod
    def build(cls, kind, name=None, cache="f32"):
        out = cls.path(name or kind)
        result = tfmc("build", MODELS / "shakespeare.tfm", "-o", out, "-D", f"generate.weights={kind}",
                      "-D", f"generate.cache={cache}", *(part for define in SMALL for part in ("-D", define)))
        assert result.returncode == 0, result.stderr
        assert ("this build does not train" in result.stderr) == (kind != "f32"), result.stderr
        return out

    def loss(self, kind, weights):
        result = run(self.builds[kind], "eval", "--weights", weights, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        others = [file for other, file in self.files.items() if kind in self.files and other != kind]
        self.assertEqual("are requantised" in result.stderr, weights in others, result.stderr)
        return json.loads(result.stdout)["loss"]

    def test_the_loss_is_nearly_that_of_f32(self):
        exact = self.loss("f32", self.run_folder)
        self.assertLess(exact, 3.2, "nothing was learned")
        self.assertLess(abs(self.loss("bf16", self.run_folder) - exact), 1e-3 * exact)
        int8 = self.loss("int8", self.run_folder)
        self.assertNotEqual(int8, exact)
        self.assertLess(abs(int8 - exact), 1e-3 * exact)
        int4 = self.loss("int4", self.run_folder)
        self.assertNotEqual(int4, int8)
        self.assertLess(abs(int4 - exact), 2e-2 * exact)

    def test_a_quantised_file_is_what_loading_makes(self):
        for kind, file in self.files.items():
            self.assertEqual(self.loss(kind, file), self.loss(kind, self.run_folder))
            # The same weights in f32: activations may be of 8 bits, too.
            self.assertAlmostEqual(self.loss("f32", file), self.loss(kind, file), delta=2e-3)

    def test_a_file_of_other_bits_is_converted(self):
        exact = self.loss("f32", self.run_folder)
        self.assertLess(abs(self.loss("int4", self.files["int8"]) - exact), 2e-2 * exact)
        self.assertLess(abs(self.loss("int8", self.files["int4"]) - self.loss("int4", self.files["int4"])), 1e-2)

    def test_integers_are_exported_as_they_are(self):
        """Numbers far from zero: made again of the numbers that they stand for, groups of 4 bits would be others."""
        plain, far = self.path("plain.safetensors"), self.path("far.safetensors")
        run(self.builds["f32"], "export", "--weights", self.run_folder, "-o", plain)
        data = pathlib.Path(plain).read_bytes()
        start = 8 + struct.unpack("<Q", data[:8])[0]
        numbers = [number + 2 for number, in struct.iter_unpack("<f", data[start:])]
        pathlib.Path(far).write_bytes(data[:start] + struct.pack(f"<{len(numbers)}f", *numbers))
        files = {kind: self.path(f"far-{kind}.safetensors") for kind in self.files}
        for kind, file in files.items():
            run(self.builds["f32"], "export", "--weights", far, "--dtype", kind, "-o", file)
        for build in ("f32", *files):
            for kind, file in files.items():
                for dtype in files:
                    with self.subTest(build=build, file=kind, dtype=dtype):
                        again = self.path("again.safetensors")
                        result = run(self.builds[build], "export", "--weights", file, "--dtype", dtype, "-o", again)
                        self.assertEqual(result.returncode, 0, result.stderr)
                        stays = kind == dtype and build in {"int8": ("f32", "int8"), "int4": ("int4",)}[kind]
                        self.assertEqual(pathlib.Path(file).read_bytes() == pathlib.Path(again).read_bytes(), stays)
                        self.assertEqual("are requantised" in result.stderr, not stays, result.stderr)
        # Those of other numbers may come back, and then nothing is said.
        for kind, file in self.files.items():
            again = self.path("again.safetensors")
            result = run(self.builds["f32"], "export", "--weights", file, "--dtype", kind, "-o", again)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(pathlib.Path(file).read_bytes(), pathlib.Path(again).read_bytes())

    def test_what_a_build_has_rounded_is_said(self):
        """And not of numbers that were in its type already: then every build exports the same."""
        half, out = self.path("half.safetensors"), self.path("out.safetensors")
        run(self.builds["f32"], "export", "--weights", self.run_folder, "--dtype", "bf16", "-o", half)
        for kind, file in (*self.files.items(), ("bf16", half)):
            exported = []
            for build, weights in ((kind, file), ("f32", file), (kind, self.run_folder)):
                result = run(self.builds[build], "export", "--weights", weights, "-o", out)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(f"this build has made {kind} of the weights" in result.stderr, weights == self.run_folder,
                                 result.stderr)
                exported.append(read_weights(out))
            self.assertEqual(*exported[:2])

    def test_products_over_one_number(self):
        """Integers of activations that are computed once for a row, and every product in the code of an older CPU."""
        source = self.path("one.tfm")
        pathlib.Path(source).write_text("""
model One(vocab = 16, context = 9) {
  wte  = Embedding(vocab, 8)
  head = Linear(1, vocab, bias = false, init = normal(1.0))

  forward(tokens: int[B, T]) -> [B, T, vocab] {
    return head(mean(wte(tokens)) * 10.0)
  }
}
""")
        weights, found = self.path("one.safetensors"), {}
        for kind in ("f32", "int8", "int4"):
            for cpu in ("native", "x86-64-v3") if platform.machine() == "x86_64" else ("native",):
                program = self.path(f"one-{kind}-{cpu}")
                built = tfmc("build", source, "-D", f"generate.weights={kind}", "--cpu", cpu, "-o", program)
                self.assertEqual(built.returncode, 0, built.stderr)
                if not found:
                    run(program, "export", "--seed", "1", "-o", weights)
                told = run(program, "generate", "--weights", weights, "--ids", "--prompt", "5 6 7", "--tokens", "4",
                           "--greedy", "--json", "--logprobs", "1")
                self.assertEqual(told.returncode, 0, told.stderr)
                found[kind, cpu] = [each["logprob"] for each in json.loads(told.stdout)["logprobs"]]
        for logprobs in found.values():
            for value, exact in zip(logprobs, found["f32", "native"], strict=True):
                self.assertAlmostEqual(value, exact, delta=0.02)

    def test_weights_of_bf16_come_back(self):
        """However the build for them stores weights, it gives back the tensors that it was given, rounded."""
        written = []
        for kind in ("f32", "bf16"):
            path = self.path(f"from-{kind}.safetensors")
            result = run(self.builds[kind], "export", "--weights", self.run_folder, "--dtype", "bf16", "-o", path)
            self.assertEqual(result.returncode, 0, result.stderr)
            written.append(pathlib.Path(path).read_bytes())
        self.assertEqual(*written)

    def test_the_layout_of_a_file(self):
        exact = self.path("f32.safetensors")
        run(self.builds["f32"], "export", "--weights", self.run_folder, "-o", exact)
        expected = read_weights(exact)
        # Half a step: of 254, or of the 15 of a group.
        for kind, steps in (("int8", 250), ("int4", 14.5)):
            found = read_weights(self.files[kind])
            self.assertEqual(sorted(expected), sorted(found))
            for name, values in expected.items():
                largest = max(map(abs, values))
                for value, other in zip(values, found[name]):
                    self.assertLessEqual(abs(value - other), largest / steps, name)
            self.assertNotEqual(expected["h.0.mlp.c_fc.weight"], found["h.0.mlp.c_fc.weight"])
            self.assertEqual(expected["h.0.ln_1.weight"], found["h.0.ln_1.weight"])
            # The numbers of the file, as a build of f32 reads them.
            again = self.path("again.safetensors")
            run(self.builds["f32"], "export", "--weights", self.files[kind], "-o", again)
            for name, values in read_weights(again).items():
                for value, other in zip(values, found[name]):
                    self.assertAlmostEqual(value, other, delta=1e-6 * max(1, abs(value)), msg=name)
        self.assertLess(os.path.getsize(self.files["int4"]), 0.7 * os.path.getsize(self.files["int8"]))

    def test_names_of_other_files_are_refused(self):
        for command, ending in (("export", ".gguf"), ("export", ".bin"), ("logits", ".npy"), ("logits", ".json")):
            prompt = ["--ids", "--prompt", "1"] if command == "logits" else []
            result = run(self.builds["f32"], command, "--weights", self.run_folder, *prompt, "-o", self.path("x" + ending))
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"what is written is no {ending} file, but a safetensors one: name it .safetensors", result.stderr)
            self.assertFalse(os.path.exists(self.path("x" + ending)))

    def test_reports_tell_bytes_and_types(self):
        report = tfmc("report", MODELS / "shakespeare.tfm", "--memory", "--format", "json", "-D",
                      "generate.weights=int8")
        memory = json.loads(report.stdout)["memory"]
        types = memory["types"]["parameters"]
        self.assertEqual(sum(types.values()), memory["parameters"])
        self.assertGreater(types["i8"], 10 * types["f32"])
        self.assertEqual((memory["gradients"], memory["optimizer"]), (0, 0))
        quarter = json.loads(tfmc("report", MODELS / "shakespeare.tfm", "--memory", "--format", "json", "-D",
                                  "generate.weights=int4").stdout)["memory"]["types"]["parameters"]
        # 16 bytes of integers and 4 of scale and minimum for 32 weights.
        self.assertLess(abs(quarter["i8"] // 4 - quarter["bf16"]), quarter["bf16"] // 100)
        self.assertLess(abs(quarter["i8"] - types["i8"] // 2), types["i8"] // 100)
        halved = tfmc("report", MODELS / "shakespeare.tfm", "--memory", "--format", "json", "-D",
                      "generate.cache=bf16")
        self.assertEqual(json.loads(halved.stdout)["memory"]["types"]["cache"], {"bf16": memory["cache"] // 2})
        quarter = tfmc("report", MODELS / "shakespeare.tfm", "--memory", "--format", "json", "-D",
                       "generate.cache=int8")
        # A scale for the 32 numbers of each head.
        self.assertEqual(json.loads(quarter.stdout)["memory"]["types"]["cache"],
                         {"i8": memory["cache"] // 4, "f32": memory["cache"] // 32})
        info = json.loads(run(self.builds["int8"], "info", "--json").stdout)
        self.assertEqual((info["precision"], info["weights"], info["cache"]), ("f32", "int8", "f32"))
        info = json.loads(run(self.builds["int4"], "info", "--json").stdout)
        self.assertEqual((info["precision"], info["weights"]), ("f32", "int4"))
        info = json.loads(run(self.builds["bf16"], "info", "--json").stdout)
        self.assertEqual((info["precision"], info["weights"]), ("bf16", "bf16"))
        self.assertIn(" tokens, keys and values in int8\n", run(self.builds["cache"], "info").stdout)

    def logits(self, build, weights):
        out = self.path("logits.safetensors")
        text = "First Citizen:\nBefore we proce"
        result = run(self.builds[build], "logits", "--weights", weights, "--prompt", text, "-o", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        return read_weights(out)["logits"]

    def test_a_cache_of_8_bits(self):
        # Rounding to 127 steps of a row's largest number moves each number by a 254th of that at most. How far moving
        # each by a 254th of itself carries the logits is measured: they are half as large in the mean, and signs may
        # conspire.
        weights = self.path("f32.safetensors")
        run(self.builds["f32"], "export", "--weights", self.run_folder, "-o", weights)
        with open(weights, "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            header, data = json.loads(file.read(size)), bytearray(file.read())
        numbers = random.Random(3)
        for layer in range(2):
            factors = [1.0] * 64 + [1 + numbers.choice((-1, 1)) / 254 for _ in range(128)]
            for name in ("weight", "bias"):
                begin, end = header[f"h.{layer}.attn.c_attn.{name}"]["data_offsets"]
                values = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
                data[begin:end] = struct.pack(f"<{len(values)}f",
                                              *(value * factors[i % 192] for i, value in enumerate(values)))
        moved = self.path("moved.safetensors")
        with open(moved, "wb") as file:
            header.pop("__metadata__")
            text = json.dumps(header).encode()
            file.write(struct.pack("<Q", len(text)) + text + data)
        exact = self.logits("f32", self.run_folder)
        bound = 4 * max(abs(a - b) for a, b in zip(self.logits("f32", moved), exact, strict=True))
        self.assertLess(bound, 0.2 * max(map(abs, exact)), "which says nothing")
        found = self.logits("cache", self.run_folder)
        self.assertNotEqual(found, exact)
        self.assertLess(max(abs(a - b) for a, b in zip(found, exact, strict=True)), bound)

        # The same tokens, as far as others are not as good, and their probabilities.
        def text(build):
            answer = run(self.builds[build], "generate", "--weights", self.run_folder, "--greedy", "--tokens", "20",
                         "--prompt", "ROMEO:", "--json", "--logprobs", "2")
            return json.loads(answer.stdout)["logprobs"]
        for own, f32 in zip(text("cache"), text("f32"), strict=True):
            best, second = f32["best"]
            if own["id"] != f32["id"]:
                self.assertLess(best["logprob"] - second["logprob"], 2 * bound)
                break
            self.assertLess(abs(own["logprob"] - f32["logprob"]), 2 * bound)
        # Training and evaluation know no cache.
        self.assertEqual(self.loss("cache", self.run_folder), self.loss("f32", self.run_folder))

    def test_products_with_one_output(self):
        # Their weights lie as if the outputs were rows: they are the last axis all the same.
        source = self.path("gate.tfm")
        pathlib.Path(source).write_text("""model Gate(vocab = 10, context = 12, width = 40) {
  wte  = Embedding(vocab, width)
  gate = Conv1D(width, 1)
  head = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    x = wte(tokens)
    return head(x * sigmoid(gate(x)))
  }
}
""")
        builds = {}
        for kind in ("f32", "int8", "int4"):
            builds[kind] = self.path("gate-" + kind)
            built = tfmc("build", source, "-o", builds[kind], "-D", f"generate.weights={kind}")
            self.assertEqual(built.returncode, 0, built.stderr)
        exact = self.path("gate.safetensors")
        self.assertEqual(run(builds["f32"], "export", "--seed", "1", "-o", exact).returncode, 0)

        def logits(build, weights):
            out = self.path("logits.safetensors")
            result = run(builds[build], "logits", "--weights", weights, "--ids", "--prompt", "1 2 3", "-o", out)
            self.assertEqual(result.returncode, 0, result.stderr)
            return read_weights(out)["logits"]
        for kind in ("int8", "int4"):
            for build in ("f32", kind):
                file = self.path(f"gate-{build}-{kind}.safetensors")
                result = run(builds[build], "export", "--weights", exact, "--dtype", kind, "-o", file)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(len(read_weights(file)["gate.weight"]), 40)
                self.assertEqual(logits(kind, file), logits(kind, exact))
                self.assertEqual(tfmc("report", source, "--against", file).returncode, 0)
                worst = max(abs(a - b) for a, b in zip(read_weights(file)["gate.weight"], read_weights(exact)["gate.weight"]))
                self.assertLess(worst, {"int8": 0.001, "int4": 0.02}[kind])

    def test_such_a_file_agrees_with_its_model(self):
        def against(file, *options):
            return tfmc("report", MODELS / "shakespeare.tfm", *(part for define in SMALL for part in ("-D", define)),
                        "--against", file, *options)
        for file in self.files.values():
            for options in ([], ["--values"]):
                result = against(file, *options)
                self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
                self.assertRegex(result.stdout, r": (\d+) of \1 tensors match in name, shape and type\n$")
        # A scale that is no number, in the last bytes of a tensor of scales.
        with open(self.files["int8"], "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            header, data = json.loads(file.read(size)), bytearray(file.read())
        name = "h.0.mlp.c_fc.weight"
        end = header[name + ".scale"]["data_offsets"][1]
        data[end - 4:end] = struct.pack("<f", math.nan)
        header["__metadata__"] = {"tfm.transposed": header["__metadata__"]["tfm.transposed"]}
        wrong = self.path("wrong.safetensors")

        def write():
            with open(wrong, "wb") as file:
                text = json.dumps(header).encode()
                file.write(struct.pack("<Q", len(text)) + text + data)
        write()
        self.assertEqual(against(wrong).returncode, 0)
        result = against(wrong, "--values")
        self.assertEqual(result.returncode, 1)
        self.assertIn(name + ".scale has the value nan (element ", result.stderr)
        # Neither of both needs the list of what is transposed: the graph says which axis has the outputs.
        header["__metadata__"] = {}
        write()
        self.assertEqual(against(wrong).returncode, 0)
        data[end - 4:end] = struct.pack("<f", 1.0)
        write()
        result = run(self.builds["f32"], "generate", "--weights", wrong, "--tokens", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        # A norm of integers is none.
        norm = header["h.0.ln_1.weight"]
        header["h.0.ln_1.weight"] = dict(norm, dtype="I8", shape=[4 * norm["shape"][0]])
        write()
        result = against(wrong)
        self.assertEqual(result.returncode, 1)
        loaded = run(self.builds["f32"], "generate", "--weights", wrong, "--tokens", "1")
        self.assertEqual(loaded.returncode, 1)
        for words in (result.stdout, loaded.stderr):
            self.assertIn("h.0.ln_1.weight is of 8 bits, but the model does more with it than multiply by it", words)
        header["h.0.ln_1.weight"] = norm
        # Scales under another name.
        header[name + ".other"] = header.pop(name + ".scale")
        write()
        result = against(wrong)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, f"{name} +dtype differs +{name} is of 8 bits, and {name}.scale is missing")
        self.assertRegex(result.stdout, name + r".other +unexpected")
        # The table as the head that is tied to it, without its scales.
        header["unlike"] = header.pop("wte.weight.scale")
        header["lm_head.weight"] = header.pop("wte.weight")
        write()
        for options in ([], ["--values"]):
            result = against(wrong, *options)
            self.assertEqual(result.returncode, 1)
            self.assertIn("lm_head.weight.scale is missing", result.stdout + result.stderr)

    def test_such_a_build_does_not_train(self):
        result = run(self.builds["int8"], "train", "--out", self.path("none"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("int8, too coarse for training: build it again without `generate.weights`", result.stderr)
        self.assertFalse(os.path.exists(self.path("none")))
        # Also where there is a run: it is none to go on with.
        result = run(self.builds["int8"], "train", "--out", self.run_folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("too coarse for training", result.stderr)

    def test_reports_plan_what_runs_here(self):
        model, options = MODELS / "shakespeare.tfm", ["-D", "context=256", "-D", "generate.batch=4"]
        for kind in ("f32", "bf16", "int8", "int4"):
            options[4:] = ["-D", f"generate.weights={kind}"]
            chunks = r"4 texts together, prompts in chunks of [\d, ]+ tokens"
            report = tfmc("report", model, "--memory", "--depth", "0", *options).stdout
            self.assertEqual(tfmc("build", model, "-o", self.path("chunks"), *options).returncode, 0)
            self.assertEqual(re.search(chunks, report)[0], re.search(chunks, run(self.path("chunks"), "info").stdout)[0])

    def test_a_precision_that_the_weights_decide(self):
        result = tfmc("build", MODELS / "shakespeare.tfm", "-D", "generate.weights=bf16", "--precision", "f32", "-o",
                      self.path("none"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("--precision f32, but the recipe computes in bf16: `weights` of its `generate` block decides, with `f32`, "
                      "or `-D generate.weights=f32`\n", result.stderr)

    def test_generates(self):
        for kind, file in self.files.items():
            texts = [json.loads(run(self.builds[kind], "generate", "--weights", weights, "--greedy", "--tokens", "20",
                                    "--prompt", "ROMEO:", "--json").stdout)["text"]
                     for weights in (file, self.run_folder)]
            self.assertEqual(texts[0], texts[1])
            self.assertTrue(texts[0])

    def damaged(self, kind, change):
        """A quantised file with another header or other data."""
        with open(self.files[kind], "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            header, data = json.loads(file.read(size)), bytearray(file.read())
        change(header, data)
        text = json.dumps(header).encode()
        path = self.path("damaged.safetensors")
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)
        return run(self.builds[kind], "eval", "--weights", path)

    def expect_error(self, kind, change, *words):
        result = self.damaged(kind, change)
        self.assertEqual(result.returncode, 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_damaged_files(self):
        name = "h.0.mlp.c_fc.weight"

        def rename_scale(header, _):
            header["other"] = header.pop(name + ".scale")

        def scale_is_nan(header, data):
            at = header[name + ".scale"]["data_offsets"][0]
            data[at:at + 4] = struct.pack("<f", math.nan)

        def other_shape(header, _):
            outputs, *rest = header[name + ".scale"]["shape"]
            header[name + ".scale"]["shape"] = [2, outputs // 2, *rest]

        def bias_in_integers(header, _):
            entry = header["h.0.ln_1.weight"]
            entry["dtype"], entry["shape"] = "I8", [4 * entry["shape"][0]]

        for kind in self.files:
            self.expect_error(kind, rename_scale, name + ".scale is missing")
            self.expect_error(kind, other_shape, name + ".scale is [2, ")
        self.expect_error("int8", scale_is_nan, f"{name}.scale has the value nan (element 0), which is no scale")
        self.expect_error("int8", bias_in_integers, "h.0.ln_1.weight")

    def test_damaged_files_of_4_bits(self):
        name = "h.0.mlp.c_fc.weight"

        def rename_minimum(header, _):
            header["other"] = header.pop(name + ".minimum")

        def number_is(table, half):
            def change(header, data):
                at = header[name + table]["data_offsets"][0]
                data[at:at + 2] = struct.pack("<H", half)
            return change

        def other_groups(header, _):
            header["__metadata__"]["tfm.group"] = "64"

        def no_groups(header, _):
            header["__metadata__"]["tfm.group"] = "many"

        def no_terms(header, _):
            header["__metadata__"]["tfm.terms:" + name] = "-5"

        def wide_scales(header, _):
            header[name + ".scale"]["dtype"] = "F16"

        def other_terms(header, _):
            header["__metadata__"]["tfm.terms:" + name] = "63"

        def no_list(header, _):
            header["__metadata__"]["tfm.transposed"] = "[oops"

        def overflows(header, data):
            number_is(".scale", 0x7d00)(header, data)
            number_is(".minimum", 0x7f40)(header, data)

        def bias_in_integers(header, _):
            entry = header["h.0.ln_1.weight"]
            entry["dtype"], entry["shape"] = "U8", [4 * entry["shape"][0]]

        self.expect_error("int4", rename_minimum, name + ".minimum is missing")
        self.expect_error("int4", number_is(".scale", 0x7fc0), ".scale has the value nan (element 0), which is no scale")
        self.expect_error("int4", number_is(".scale", 0xbf80), ".scale has the value -1 (element 0), which is no scale")
        self.expect_error("int4", number_is(".minimum", 0xff80), ".minimum has the value -inf (element 0), which is no "
                                                                 "minimum")
        self.expect_error("int4", overflows, f"the weights of {name} overflow (group 0: the scale ")
        self.expect_error("int4", number_is(".minimum", 0x7f7f), f"the weights of {name} overflow (group 0: the scale ")
        self.expect_error("int4", other_groups, "does not hold quantised weights as they are read",
                          "wte.weight has groups of 64 terms, and they are read in groups of 32",
                          "Export them again from the original weights")
        self.expect_error("int4", no_list, "tfm.transposed is no list of names")
        self.expect_error("int4", no_groups, 'tfm.group is "many", no number of terms')
        self.expect_error("int4", no_terms, f'tfm.terms:{name} is "-5", no number of terms')
        self.expect_error("int4", wide_scales, f"{name}.scale is F16, that of {name} would be BF16")
        self.expect_error("int4", other_terms, name + " is [63, 256], the model's is [64, 256]")
        self.expect_error("int4", bias_in_integers, "h.0.ln_1.weight")

    def test_weights_that_are_not_finite(self):
        exact = self.path("f32.safetensors")
        run(self.builds["f32"], "export", "--weights", self.run_folder, "-o", exact)
        with open(exact, "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            header, data = json.loads(file.read(size)), bytearray(file.read())
        at = header["h.1.mlp.c_proj.weight"]["data_offsets"][0]
        data[at + 40:at + 44] = struct.pack("<f", math.inf)
        text = json.dumps(header).encode()
        with open(exact, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)
        result = run(self.builds["int4"], "eval", "--weights", exact)
        self.assertEqual(result.returncode, 1)
        self.assertIn("h.1.mlp.c_proj.weight has the value inf (element 10)", result.stderr)
        # Finite numbers that a narrow type does not reach to become no infinities.
        data[at + 40:at + 48] = struct.pack("<2I", 0x7f7fffff, 0xff7fffff)
        with open(exact, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)
        out = self.path("narrow.safetensors")
        terms = math.prod(header["h.1.mlp.c_proj.weight"]["shape"]) // header["h.1.mlp.c_proj.bias"]["shape"][0]
        # Of integers sums must be numbers before they are scaled.
        beyond = {"bf16": r"bf16 reaches to 3\.38\d+e\+38: ",
                  "int8": rf"int8, in sums of {terms} terms, reaches to 1\.046\d+e\+34: ",
                  "int4": rf"int4, in sums of {terms} terms, reaches to 2\.61\d+e\+33: "}
        for kind, told in beyond.items():
            for build, dtype, message in ((kind, "f32", r"build with generate\.weights = f32\n$"),
                                          ("f32", kind, "export it with --dtype f32\n$")):
                result = run(self.builds[build], "export", "--weights", exact, "--dtype", dtype, "-o", out)
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                self.assertRegex(result.stderr, rf"^error: {re.escape(str(exact))}: the (tensor|parameter) "
                                 r"h\.1\.mlp\.c_proj\.weight has the value 3\.4028235e\+38 \(element 10\), and " + told + message)
                self.assertFalse(os.path.exists(out))
        # Nor do a file's own integers.
        for kind, scale, told in (("int8", struct.pack("<f", 2e36), r"the scale 2e\+36 \(output 1\), a weight of 2\.5\d+e\+38"),
                                  ("int4", b"\x80\x7a", r"a weight of 4\.98\d+e\+36 \(group 1\)")):
            stored = bytearray(pathlib.Path(self.files[kind]).read_bytes())
            size, = struct.unpack("<Q", stored[:8])
            at = 8 + size + json.loads(stored[8:8 + size])["h.1.mlp.c_proj.weight.scale"]["data_offsets"][0] + len(scale)
            stored[at:at + len(scale)] = scale
            pathlib.Path(out).write_bytes(stored)
            result = run(self.builds[kind], "eval", "--weights", out)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertRegex(result.stderr, f"^error: {re.escape(str(out))}: the tensor h\\.1\\.mlp\\.c_proj\\.weight has "
                             rf"{told}, and {beyond[kind]}build with generate\.weights = f32\n$")
        # With such numbers behind the last norm there is no loss.
        at = header["wte.weight"]["data_offsets"][0]
        data[at:at + 8] = struct.pack("<2I", 0x7f7fffff, 0x7f7fffff)
        with open(exact, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)
        result = run(self.builds["f32"], "eval", "--weights", exact)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("the loss is not a number", result.stderr)


if __name__ == "__main__":
    main()
