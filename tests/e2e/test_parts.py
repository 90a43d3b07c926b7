"""Weights into and out of a member of a model: a policy that is trained beside its reference."""

import json
import math
import os
import pathlib

from support import InFolder, load_arrays, main, run, tfmc

GPT = """model GPT(vocab = tokenizer.size, width = 8) {
  wte  = Embedding(vocab, width)
  h    = repeat(2) Linear(width, width)
  head = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] { return head(h(wte(tokens))) }
}
tokenizer chars("abcdef")
data lines("rows.txt")
train { batch = 2, sequence = 4, steps = 3, optimizer = adamw(lr = 1e-2) }
"""
# Both halves of a row are answers, of which the first is preferred.
PREFERENCE = """import "gpt.tfm"
model Preference(vocab = tokenizer.size) {
  policy    = GPT(vocab)
  reference = GPT(vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] { return policy(tokens) }
  logp(logits: [B, N, vocab], ids: int[B, N]) -> [B, 1] { return -sum(cross_entropy(shift(logits, N), ids)) }
  loss(tokens: int[B, T], targets: int[B, T]) -> [B, T] {
    a = tokens[:, 0:2]
    b = tokens[:, 2:4]
    margin = logp(policy(a), a) - logp(reference(a), a) - logp(policy(b), b) + logp(reference(b), b)
    return softplus(-margin) + 0.0 * float(targets)
  }
}
tokenizer chars("abcdef")
data lines("rows.txt")
train { batch = 2, sequence = 4, steps = 3, only = "policy.*", loss = cross_entropy(ignore = none), optimizer = adamw(lr = 1e-2) }
"""


class Parts(InFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("rows.txt", "abcde\nfedcb\naabbc\nbadcf\n")
        for name, text in {"gpt": GPT, "preference": PREFERENCE}.items():
            cls.write(f"{name}.tfm", text)
            built = tfmc("build", f"{name}.tfm", "-o", name, cwd=cls.folder)
            assert built.returncode == 0, built.stderr
        for seed in ("1", "2"):
            trained = cls.ask("gpt", "train", "--seed", seed, "--out", "gpt" + seed)
            assert trained.returncode == 0, trained.stderr

    @classmethod
    def write(cls, name, text):
        pathlib.Path(cls.path(name)).write_text(text)

    @classmethod
    def ask(cls, program, *arguments):
        return run(f"./{program}", *arguments, cwd=cls.folder)

    def ok(self, program, *arguments):
        result = self.ask(program, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def refused(self, *arguments, code=1):
        result = self.ask("preference", *arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stderr

    def weights(self, name):
        return load_arrays(self.path(name))

    def test_each_part_begins_with_its_own(self):
        # Where both are the same neither answer is preferred.
        self.ok("preference", "train", "--init", "policy=gpt1", "--init", "reference=gpt1", "--steps", "1", "--out", "same")
        first = json.loads(pathlib.Path(self.path("same/log.jsonl")).read_text().splitlines()[0])
        self.assertAlmostEqual(first["loss"], math.log(2), places=6)
        told = self.ok("preference", "train", "--init", "policy=gpt1", "--init", "reference=gpt2", "--out", "run")
        self.assertNotIn("note", told.stderr)
        run, frozen = self.weights("run/model.safetensors"), self.weights("gpt2/model.safetensors")
        for name, values in frozen.items():
            self.assertEqual(run["reference." + name], values)
        # What is trained, and what is not, come out as programs of that part alone take them.
        for part in ("policy", "reference"):
            self.ok("preference", "export", "--weights", "run", "--part", part, "-o", part + ".safetensors")
            written = self.weights(part + ".safetensors")
            self.assertEqual(written, {name: run[f"{part}.{name}"] for name in frozen})
            self.ok("gpt", "generate", "--weights", part + ".safetensors", "--prompt", "ab", "--tokens", "2")
        self.assertEqual(self.weights("reference.safetensors"), frozen)
        # A part of a part.
        self.ok("preference", "export", "--weights", "run", "--part", "policy.h", "-o", "h.safetensors")
        self.assertEqual(set(self.weights("h.safetensors")), {f"{i}.{name}" for i in (0, 1) for name in ("weight", "bias")})

    def test_what_no_part_covers_begins_fresh(self):
        told = self.ok("preference", "train", "--init", "reference=gpt1", "--lr", "0", "--seed", "5", "--out", "fresh")
        self.assertIn("note: starting fresh: policy.wte.weight, policy.h.*.weight (2 layers)", told.stderr)
        # From the seed, as without weights.
        self.ok("preference", "export", "--seed", "5", "-o", "seed.safetensors")
        expected = self.weights("seed.safetensors")
        for name, values in self.weights("fresh/model.safetensors").items():
            if name.startswith("policy."):
                self.assertEqual(values, expected[name], name)
        told = self.ask("preference", "train", "--init", "policy=gpt1", "--out", "no")
        self.assertEqual(told.returncode, 1)
        self.assertIn("reference.wte.weight is in no part that --init names, and as it is not trained it would stay random: add "
                      "--init reference=FILE", told.stderr)

    def test_a_part_may_be_partial(self):
        self.write("h.tfm", GPT.replace("head = Linear(width, vocab)", "last = Linear(width, vocab)").replace("head(", "last("))
        self.assertEqual(tfmc("build", "h.tfm", "-o", "h", cwd=self.folder).returncode, 0)
        self.ok("h", "train", "--out", "h1")
        arguments = ("train", "--init", "policy=h1", "--init", "reference=gpt1", "--out", "partial")
        self.assertIn("head.weight is missing", self.refused(*arguments).replace("policy.", ""))
        told = self.ok("preference", *arguments, "--partial")
        self.assertIn("note: left out of h1: last.bias, last.weight\n", told.stderr)
        self.assertIn("note: starting fresh: policy.head.weight, policy.head.bias\n", told.stderr)

    def test_what_fits_two_parts(self):
        told = self.refused("train", "--init", "gpt1", "--partial", "--out", "no")
        self.assertIn("they may be those of policy or of reference", told)
        self.assertIn("`train --init policy=gpt1 --init reference=gpt1` begins both with them", told)
        self.ok("preference", "train", "--init", "policy=gpt1", "--init", "reference=gpt2", "--out", "two")
        told = self.ask("gpt", "eval", "--weights", "two", "--partial")
        self.assertEqual(told.returncode, 1)
        self.assertIn("they have both policy and reference, which fit alike", told.stderr)
        self.assertIn("`export --part policy` of the program that trained them writes it alone", told.stderr)

    def test_wrong_parts(self):
        for arguments, message in {
            ("policy=gpt1", "polcy=gpt1"): "Preference has no part `polcy`: its parts are policy, reference, and what they have "
                                             "within. Did you mean `policy`?",
            ("policy=gpt1", "policy=gpt2"): "--init has two files for the part policy: gpt1 and gpt2",
            ("policy=gpt1", "gpt2"): "--init gpt2 is for the whole model: beside another one name the part that it is for, --init PART=gpt2",
            ("policy=gpt1", "policy.h=gpt2"): "policy.h.0.weight is of both parts that --init names, policy and policy.h: name one",
            ("policy=gpt1", "reference=none"): "cannot read the weights none: No such file or directory",
        }.items():
            with self.subTest(arguments):
                told = self.refused("train", *(word for part in arguments for word in ("--init", part)), "--out", "no")
                self.assertIn(message, told)
        # What the files have besides is not meant.
        self.assertIn("`export --part wte` of the program that trained them writes it alone",
                      self.refused("train", "--init", "policy.wte=gpt1", "--out", "no"))
        self.assertIn("must name a file behind policy=", self.refused("train", "--init", "policy=", code=2))
        self.assertIn("cannot read the weights none", self.refused("train", "--init", "policy=none", "--out", "no"))
        self.assertIn("must name a member of the model",
                      self.refused("export", "--weights", "gpt1", "--part", "", "-o", "x.safetensors", code=2))
        self.assertIn("has no part `table`", self.refused("export", "--weights", "gpt1", "--part", "table", "-o", "x.safetensors"))
        self.assertIn("a part of a model is written to a .safetensors file",
                      self.refused("export", "--weights", "gpt1", "--part", "policy", "-o", "x/"))
        self.assertFalse(os.path.exists(self.path("no")) or os.path.exists(self.path("x.safetensors")))
        # A file may have such a name.
        os.symlink("gpt1", self.path("policy=gpt1"))
        self.addCleanup(os.remove, self.path("policy=gpt1"))
        self.assertIn("policy=gpt1 holds the weights of another model", self.refused("train", "--init", "policy=gpt1", "--out", "no"))


if __name__ == "__main__":
    main()
