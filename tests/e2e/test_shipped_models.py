"""What the shipped models come to when they are trained as they are shipped."""

import array
import collections
import json
import pathlib
import random
import shutil
import tempfile
import unittest

from support import MODELS, ROOT, load_arrays, main, run, save_arrays, tfmc


def pixels_of(cross):
    """Those of one of ten crosses in images of 8 by 8 pixels."""
    row, column = [(row, column) for row in (1, 3, 5) for column in (1, 3, 5)][cross] if cross < 9 else (6, 6)
    return {8 * row + column + step for step in (0, 1, -1, 8, -8)}


def save_crosses(path, count, seed):
    """Images of one cross each, with noise everywhere, and which it is."""
    dice = random.Random(seed)
    images, classes = [], []
    for _ in range(count):
        classes.append(dice.randrange(10))
        images += [dice.randrange(5) + 12 * (at in pixels_of(classes[-1])) for at in range(64)]
    save_arrays(path, {"image": ("U8", [count, 8, 8], images), "targets": ("U8", [count], classes)})


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

    def test_mingru_is_learned(self):
        binary = self.build(MODELS / "mingru.tfm")
        self.ok(binary, "train", "--data", MODELS / "tinyshakespeare.txt", "--steps", "400", "--out", "mingru-run")
        told = json.loads(self.ok(binary, "eval", "--weights", "mingru-run", "--data", MODELS / "tinyshakespeare.txt",
                                  "--json").stdout)
        # That of letters by those before them alone, which no state is needed for, is 2.45.
        self.assertLess(told["loss"], 2.1)
        # What a scan keeps of the text before is no key and no value.
        self.assertIsNone(json.loads(self.ok(binary, "info", "--json").stdout)["cache"])

    def test_vit_is_learned(self):
        folder = pathlib.Path(self.folder)
        save_crosses(folder / "digits.safetensors", 640, seed=1)
        save_crosses(folder / "unseen.safetensors", 200, seed=2)
        binary = self.build(MODELS / "vit.tfm")
        self.ok(binary, "train", "--steps", "250", "--out", "vit-run")
        told = json.loads(self.ok(binary, "eval", "--weights", "vit-run", "--data", "unseen.safetensors", "--json").stdout)
        self.assertEqual(told["targets"], 200)
        self.assertGreater(told["accuracy"], 0.95)

    def test_flow_makes_images(self):
        folder = pathlib.Path(self.folder)
        save_crosses(folder / "digits.safetensors", 640, seed=1)
        dice = random.Random(2)
        save_arrays(folder / "noise.safetensors",
                    {"noise": ("F32", [200, 64], [dice.gauss(0, 1) for _ in range(200 * 64)])})
        binary = self.build(MODELS / "flow.tfm")
        self.ok(binary, "train", "--steps", "1000", "--out", "flow-run")
        self.ok(binary, "predict", "--weights", "flow-run", "--data", "noise.safetensors", "-o", "made.safetensors")
        _, shape, pixels = load_arrays(folder / "made.safetensors")["output"]
        self.assertEqual(shape, [200, 64])
        made = collections.Counter(tuple(x > 8 for x in pixels[at:at + 64]) for at in range(0, len(pixels), 64))
        # Of 64 pixels at random not one image in 2**64 would be one of the ten crosses, and nothing beside it.
        crosses = [made[tuple(at in pixels_of(cross) for at in range(64))] for cross in range(10)]
        self.assertGreater(sum(crosses), 30)
        self.assertGreaterEqual(sum(count > 0 for count in crosses), 8)

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
