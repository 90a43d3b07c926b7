"""Learning rates of a whole run, from the words of the language to the log, against
the fixture."""

import json
import pathlib
import tempfile
import unittest

from support import FIXTURES, main, run, tfmc

MODEL = """
model Bigram(vocab = tokenizer.size, context = 8, width = 4) {
  wte = Embedding(vocab, width)
  forward(tokens: int[B, T]) -> [B, T, vocab] { return wte(tokens) @ wte.weight.T }
}
tokenizer bytes
data text("text.txt")
train {
  batch = 2, sequence = 8, steps = %d
  optimizer = adamw(lr = 6e-4)
  schedule = %s
}
"""

SCHEDULES = {
    "cosine": (100, "cosine(warmup = 10, final = 6e-5, decay = 80)"),
    "cosine_warmup_from_zero":
        (100, "cosine(warmup = 10, final = 6e-5, decay = 80, warmup_from_zero = true)"),
    "cosine_no_warmup": (100, "cosine(final = 0, decay = 99)"),
    "linear": (100, "linear(warmup = 10)"),
    "constant": (100, "constant"),
    "constant_with_warmup": (100, "constant(warmup = 10)"),
    "inverse_sqrt": (100, "inverse_sqrt(warmup = 10)"),
    "wsd": (100, "wsd(warmup = 10, decay = 30, final = 6e-5)"),
    "wsd_cosine": (90, "wsd(warmup = 10, decay = 20, shape = cosine)"),
    "wsd_1_sqrt": (100, 'wsd(warmup = 10, decay = 30, shape = "1-sqrt")'),
}


class Schedules(unittest.TestCase):
    def test_learning_rates_of_the_fixture(self):
        fixture = json.loads((FIXTURES / "optimizers" / "schedules.json").read_text())
        self.assertEqual(set(fixture), set(SCHEDULES))
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as scratch:
            folder = pathlib.Path(scratch)
            (folder / "text.txt").write_text("to be or not to be, " * 20)
            for name, (steps, words) in SCHEDULES.items():
                with self.subTest(name=name):
                    (folder / "model.tfm").write_text(MODEL % (steps, words))
                    result = tfmc("build", "model.tfm", "-o", "model", cwd=folder)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    result = run(folder / "model", "train", "--out", name, "--json", cwd=folder)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    log = [json.loads(line) for line in
                           (folder / name / "log.jsonl").read_text().splitlines()]
                    rates = [line["lr"] for line in log if "lr" in line]
                    self.assertEqual(len(rates), steps)
                    for found, expected in zip(rates, fixture[name]["values"], strict=False):
                        self.assertAlmostEqual(found, expected, delta=1e-12)


if __name__ == "__main__":
    main()
