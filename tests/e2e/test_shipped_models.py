"""What the shipped models come to when they are trained as they are shipped."""

import array
import json
import pathlib
import random
import shutil
import tempfile
import unittest

from support import MODELS, ROOT, main, run, tfmc


class Shipped(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def ok(self, *command):
        result = run(*command, cwd=self.folder, timeout=600)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def build(self, source):
        binary = pathlib.Path(self.folder) / source.stem
        result = tfmc("build", source, "-o", binary)
        self.assertEqual(result.returncode, 0, result.stderr)
        return binary

    def test_addition_is_learned(self):
        binary = self.build(MODELS / "addition.tfm")
        self.ok(binary, "train", "--out", "addition-run")
        exact = json.loads(self.ok(binary, "eval", "--weights", "addition-run", "--json").stdout)["exact_match"]
        # 2,500 prompts; those that do not occur in training count.
        self.assertGreater(exact["unseen"]["prompts"], 200)
        self.assertGreaterEqual(exact["unseen"]["accuracy"], 0.995)

    def test_shakespeare_is_learned(self):
        binary = self.build(MODELS / "shakespeare.tfm")
        self.ok(binary, "train", "--data", MODELS / "tinyshakespeare.txt", "--out", "shakespeare-run")
        lines = (pathlib.Path(self.folder) / "shakespeare-run" / "log.jsonl").read_text().splitlines()
        losses = [entry["validation_loss"] for entry in map(json.loads, lines) if "validation_loss" in entry]
        # nanoGPT publishes 1.88 for this setting.
        self.assertLessEqual(losses[-1], 1.90)

    def test_gpt2_trains(self):
        binary = self.build(ROOT / "bench" / "gpt2_train.tfm")
        tokens = array.array("H", random.Random(1).choices(range(50257), k=600))
        (pathlib.Path(self.folder) / "tokens.bin").write_bytes(tokens.tobytes())
        self.ok(binary, "train", "--data", "tokens.bin", "--steps", "3", "--out", "gpt2-run")
        lines = (pathlib.Path(self.folder) / "gpt2-run" / "log.jsonl").read_text().splitlines()
        losses = [entry["loss"] for entry in map(json.loads, lines) if "loss" in entry]
        self.assertEqual(len(losses), 3)
        # Of tokens at random: ln 50257 = 10.82, and what small logits add.
        for loss in losses:
            self.assertAlmostEqual(loss, 10.9, delta=0.3)


if __name__ == "__main__":
    main()
