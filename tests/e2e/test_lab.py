"""The lab on trainable parameters from its tokenizer to text: models/lab_train.tfm in
a smaller setting."""

import json
import pathlib
import shutil
import tempfile
import unittest

from support import MODELS, main, run, tfmc

SMALL = ["-D", "context=24", "-D", "train.sequence=24", "-D", "train.batch=16", "-D",
         "train.epochs=4", "-D", "embedding_dim=32", "-D", "mlp_dim=64"]


class Lab(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="tfm-e2e-"))
        # The file of the recipe, with samples as often as there are epochs.
        text = (MODELS / "lab_train.tfm").read_text()
        assert 'every(10, unit = epochs' in text
        text = text.replace("every(10, unit = epochs", "every(2, unit = epochs")
        # As if somebody had brought texts of their own: other names, fewer texts.
        texts = json.loads((MODELS / "data" / "descriptions.json").read_text())[:60]
        (cls.folder / "mine.json").write_text(
            json.dumps([{"id": i, "body": item["description"]} for i, item in enumerate(texts)]))
        text = text.replace('data/descriptions.json", field = "description"',
                            'mine.json", field = "body"')
        text = text.replace("data/descriptions/", "learned/")
        text = text.replace('"lab.tfm"', f'"{MODELS / "lab.tfm"}"')
        (cls.folder / "mine.tfm").write_text(text)
        learned = tfmc("tokenizer", cls.folder / "mine.json", "--field", "body", "--merges", "150",
                       "--out", cls.folder / "learned")
        assert learned.returncode == 0, learned.stderr
        cls.model = cls.folder / "mine"
        built = tfmc("build", cls.folder / "mine.tfm", *SMALL, "-o", cls.model)
        assert built.returncode == 0, built.stderr
        cls.trained = run(cls.model, "train", "--out", cls.folder / "run")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def generate(self, prompt, tokens):
        result = run(self.model, "generate", "--weights", self.folder / "run", "--prompt", prompt,
                     "--tokens", str(tokens), "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["text"]

    def test_trains_by_epochs(self):
        self.assertEqual(self.trained.returncode, 0, self.trained.stderr)
        log = [json.loads(line) for line in
               (self.folder / "run" / "log.jsonl").read_text().splitlines()]
        losses = [entry["loss"] for entry in log if "loss" in entry]
        # 4 times 60 texts, 16 at a time.
        self.assertEqual(len(losses), 15)
        self.assertLess(losses[-1], losses[0] - 0.5)
        samples = [entry for entry in log if "sample" in entry]
        self.assertEqual([entry["step"] for entry in samples], [8, 15])
        self.assertEqual({entry["prompt"] for entry in samples}, {"Jide"})
        self.assertEqual(self.trained.stdout.count("Jide"), 2)

    def test_steps_instead_of_epochs(self):
        result = run(self.model, "train", "--out", self.folder / "steps", "--steps", "3")
        self.assertEqual(result.returncode, 0, result.stderr)
        log = (self.folder / "steps" / "log.jsonl").read_text().splitlines()
        self.assertEqual(sum("loss" in json.loads(line) for line in log), 3)

    def test_generates_greedily(self):
        prompt = "Jide was thirsty so she went looking for a"
        self.assertEqual(self.generate(prompt, 5), self.generate(prompt, 5))
        # A word after a word, not a part of it.
        self.assertTrue(self.generate(prompt, 1).startswith(" "))

    def test_the_window_slides(self):
        """24 tokens are the context. Texts that outgrow it go on, and what stands
        before the newest 24 tokens does not matter."""
        start = "The road from here was dusty and nobody else was walking on it. "
        self.assertGreater(len(self.generate(start, 60).split()), 10)
        tail = "j i d e " * 12  # 12 x 4 words of one token each at least
        self.assertEqual(self.generate("market " + tail, 20), self.generate("river " + tail, 20))

    def test_report_of_both_hyperparameter_names(self):
        answer = json.loads(tfmc("report", MODELS / "lab_train.tfm", "--format", "json").stdout)
        self.assertEqual(answer["hyperparameters"]["context"], 299)
        d, f, n = 64, 128, 2
        v = answer["hyperparameters"]["vocabulary_size"]
        block = 4 * (d + 1) * d + (d + 1) * f + (f + 1) * d + 4 * d
        self.assertEqual(answer["parameters"]["total"], v * d + n * block + (d + 1) * v)


if __name__ == "__main__":
    main()
