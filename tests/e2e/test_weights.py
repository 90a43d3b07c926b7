#!/usr/bin/env python3
"""Weights of generation in fewer bits: builds, files, and what they cost in quality."""

import json
import math
import os
import pathlib
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from support import MODELS, main, run, tfmc  # noqa: E402

SMALL = ["layers=2", "heads=4", "width=64", "context=32", "drop=0.0", "train.sequence=32", "train.batch=8",
         "train.steps=150", "train.validate=none", "train.sample=none", "train.schedule.warmup=10"]


def read_weights(path):
    """The tensors of a safetensors file as lists, those of 8 bits as the numbers that they stand for: the layout
    that docs/cli.md describes, in plain Python."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(size)), file.read()
    transposed = json.loads(header.pop("__metadata__").get("tfm.transposed", "[]"))
    stored = {name: struct.unpack("<" + str(math.prod(entry["shape"])) + {"F32": "f", "I8": "b"}[entry["dtype"]],
                                  data[entry["data_offsets"][0]:entry["data_offsets"][1]])
              for name, entry in header.items()}
    weights = {}
    for name, values in stored.items():
        if header[name]["dtype"] == "I8":
            outputs, terms = header[name]["shape"]
            scales = stored[name + ".scale"]
            values = [value * scales[i // terms] for i, value in enumerate(values)]
            if name in transposed:
                values = [values[output * terms + term] for term in range(terms) for output in range(outputs)]
        if not (name.endswith(".scale") and name[:-len(".scale")] in stored):
            weights[name] = values
    return weights


class Weights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.run_folder = cls.path("run")
        cls.builds = {kind: cls.build(kind) for kind in ("f32", "bf16", "int8")}
        trained = run(cls.builds["f32"], "train", "--out", cls.run_folder)
        assert trained.returncode == 0, trained.stderr
        cls.file = cls.path("int8.safetensors")
        exported = run(cls.builds["f32"], "export", "--weights", cls.run_folder, "--dtype", "int8", "-o", cls.file)
        assert exported.returncode == 0, exported.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def build(cls, kind):
        out = cls.path(kind)
        result = tfmc("build", MODELS / "shakespeare.tfm", "-o", out, "-D", f"generate.weights={kind}",
                      *(part for define in SMALL for part in ("-D", define)))
        assert result.returncode == 0, result.stderr
        assert ("does not train" in result.stderr) == (kind != "f32"), result.stderr
        return out

    def loss(self, kind, weights):
        result = run(self.builds[kind], "eval", "--weights", weights, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["loss"]

    def test_the_loss_is_nearly_that_of_f32(self):
        exact = self.loss("f32", self.run_folder)
        self.assertLess(exact, 3.2, "nothing was learned")
        self.assertLess(abs(self.loss("bf16", self.run_folder) - exact), 1e-3 * exact)
        int8 = self.loss("int8", self.run_folder)
        self.assertNotEqual(int8, exact)
        self.assertLess(abs(int8 - exact), 1e-3 * exact)

    def test_a_quantised_file_is_what_loading_makes(self):
        self.assertEqual(self.loss("int8", self.file), self.loss("int8", self.run_folder))
        # The same weights in f32: activations may be of 8 bits, too.
        self.assertAlmostEqual(self.loss("f32", self.file), self.loss("int8", self.file), delta=2e-3)

    def test_the_layout_of_a_file(self):
        exact = self.path("f32.safetensors")
        run(self.builds["f32"], "export", "--weights", self.run_folder, "-o", exact)
        expected, found = read_weights(exact), read_weights(self.file)
        self.assertEqual(sorted(expected), sorted(found))
        for name, values in expected.items():
            largest = max(map(abs, values))
            for value, other in zip(values, found[name]):
                self.assertLessEqual(abs(value - other), largest / 250, name)
        self.assertNotEqual(expected["h.0.mlp.c_fc.weight"], found["h.0.mlp.c_fc.weight"])
        self.assertEqual(expected["h.0.ln_1.weight"], found["h.0.ln_1.weight"])

    def test_reports_tell_bytes_and_types(self):
        report = tfmc("report", MODELS / "shakespeare.tfm", "--memory", "--format", "json", "-D",
                      "generate.weights=int8")
        memory = json.loads(report.stdout)["memory"]
        types = memory["types"]["parameters"]
        self.assertEqual(sum(types.values()), memory["parameters"])
        self.assertGreater(types["i8"], 10 * types["f32"])
        self.assertEqual((memory["gradients"], memory["optimizer"]), (0, 0))
        halved = tfmc("report", MODELS / "shakespeare.tfm", "--memory", "--format", "json", "-D",
                      "generate.cache=bf16")
        self.assertEqual(json.loads(halved.stdout)["memory"]["types"]["cache"], {"bf16": memory["cache"] // 2})
        info = json.loads(run(self.builds["int8"], "info", "--json").stdout)
        self.assertEqual((info["precision"], info["weights"]), ("f32", "int8"))
        info = json.loads(run(self.builds["bf16"], "info", "--json").stdout)
        self.assertEqual((info["precision"], info["weights"]), ("bf16", "bf16"))

    def test_such_a_build_does_not_train(self):
        result = run(self.builds["int8"], "train", "--out", self.path("none"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("int8, too coarse for training: build it again without `generate.weights`", result.stderr)
        self.assertFalse(os.path.exists(self.path("none")))

    def test_generates(self):
        texts = [json.loads(run(self.builds[kind], "generate", "--weights", weights, "--greedy", "--tokens", "20",
                                "--prompt", "ROMEO:", "--json").stdout)["text"]
                 for kind, weights in (("int8", self.file), ("int8", self.run_folder))]
        self.assertEqual(texts[0], texts[1])
        self.assertTrue(texts[0])

    def damaged(self, change):
        """The quantised file with another header."""
        with open(self.file, "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            header, data = json.loads(file.read(size)), bytearray(file.read())
        change(header, data)
        text = json.dumps(header).encode()
        path = self.path("damaged.safetensors")
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)
        return run(self.builds["int8"], "eval", "--weights", path)

    def expect_error(self, change, *words):
        result = self.damaged(change)
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
            header[name + ".scale"]["shape"] = [2, header[name + ".scale"]["shape"][0] // 2]

        def bias_in_integers(header, _):
            entry = header["h.0.ln_1.weight"]
            entry["dtype"], entry["shape"] = "I8", [4 * entry["shape"][0]]

        self.expect_error(rename_scale, name + ".scale is missing")
        self.expect_error(scale_is_nan, f"{name}.scale has the value nan (element 0), which is no scale")
        self.expect_error(other_shape, name + ".scale is [2, ")
        self.expect_error(bias_in_integers, "h.0.ln_1.weight")


if __name__ == "__main__":
    main()
