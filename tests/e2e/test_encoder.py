"""Models whose encoder reads the prompt: data, training, evaluation, generation."""

import array
import json
import pathlib
import struct
import tempfile
import unittest

from support import MODELS, main, run, tfmc

SMALL = {"batch     = 128": "batch     = 8", "steps     = 4000": "steps     = 60", "warmup = 100": "warmup = 5", "width = 64": "width = 32",
         "context = 8": "context = 9", "sequence  = 4": "sequence  = 7", 'ignore = "#"': 'ignore = "_"'}
DATA = 'data pairs("pairs.txt", begin = "<", end = ">", pad = "_", validation = 0.2)\ntokenizer chars("abcdefghij<>_")\n'


def logits_of(path):
    """The rows of a safetensors file with one tensor."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    width = json.loads(data[8:8 + size])["logits"]["shape"][1]
    values = array.array("f", data[8 + size:])
    return [list(values[i:i + width]) for i in range(0, len(values), width)]


class Encoder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="tfm-e2e-")
        cls.folder = cls.scratch.name
        texts = ["abc", "hgfed", "jjja", "ba", "cdefg", "ihij", "aabbcc", "dd", "efghij", "ja", "cab", "fade", "bead"]
        pathlib.Path(cls.folder, "pairs.txt").write_text("".join(f"{text}\t{text[::-1]}\n" for text in texts))
        shipped = (MODELS / "encoder_decoder.tfm").read_text()
        cls.text = shipped[:shipped.index("// 47+51=")] + DATA + shipped[shipped.index("\ntrain {"):]
        for there, here in SMALL.items():
            assert there in cls.text, there
            cls.text = cls.text.replace(there, here)
        cls.build("model")
        result = cls.ask("model", "train", "--out", "run", "--json")
        assert result.returncode == 0, result.stderr

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def build(cls, name, *options, text=None):
        pathlib.Path(cls.folder, name + ".tfm").write_text(text or cls.text)
        result = tfmc("build", name + ".tfm", "-o", name, *options, cwd=cls.folder)
        assert result.returncode == 0, result.stderr

    @classmethod
    def ask(cls, program, *arguments, **options):
        return run(f"./{program}", *arguments, cwd=cls.folder, **options)

    def refused(self, text, *words):
        result = tfmc("check", "-", stdin=text, cwd=self.folder)
        self.assertEqual(result.returncode, 1)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_data(self):
        rows = json.loads(self.ask("model", "data", "--json", "--count", "2").stdout)["rows"]
        a, begin, end, pad = 0, 10, 11, 12
        self.assertEqual(rows[0]["source"], [a, a + 1, a + 2, end, pad, pad, pad])
        self.assertEqual(rows[0]["tokens"], [begin, a + 2, a + 1, a, end, pad, pad])
        self.assertEqual(rows[0]["targets"], [a + 2, a + 1, a, end, pad, pad, pad])
        self.assertEqual((rows[1]["prompt"], rows[1]["answer"]), ("hgfed>", "defgh>"))
        self.assertIn("  source   0 1 2 11 12 12 12\n", self.ask("model", "data", "--count", "1").stdout)
        self.build("short", "-D", "train.S=4")
        told = self.ask("short", "train", "--steps", "1", "--out", "short_run")
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("8 of the 13 prompts of pairs.txt have more than the 4 tokens of `source`, up to 7", told.stderr)

    def test_memory_is_what_the_report_says(self):
        # What the source leaves to the answer fills no whole lines of memory.
        memory = json.loads(tfmc("report", "model.tfm", "--memory", "--format", "json", cwd=self.folder).stdout)["memory"]
        here = json.loads(self.ask("model", "info", "--json").stdout)["memory"]
        self.assertEqual(here, {part: memory[part] for part in here})

    def test_it_learns_and_is_asked(self):
        log = [json.loads(line) for line in pathlib.Path(self.folder, "run", "log.jsonl").read_text().splitlines()]
        losses = [line["loss"] for line in log if "loss" in line]
        self.assertLess(losses[-1], 0.8 * losses[0])
        found = json.loads(self.ask("model", "eval", "--weights", "run", "--data", "pairs.txt", "--json").stdout)
        self.assertEqual(found["exact_match"]["prompts"], 13)
        # The targets are the answers and their ends.
        self.assertEqual(found["targets"], sum(len(line) // 2 + 1 for line in pathlib.Path(
            self.folder, "pairs.txt").read_text().splitlines()))

    def test_padding_is_not_seen(self):
        """`present` says what is there: other tokens behind it, and longer sources, change nothing."""
        self.build("longer", "-D", "train.S=9")
        self.build("padded", text=self.text.replace('pad = "_"', 'pad = "j"').replace('ignore = "_"', 'ignore = "j"'))
        # A mask of the model's own says so, too.
        self.build("masked", text=self.text.replace(", present: bool[B, S]", "").replace("rearrange(present,", "rearrange(source != 12,"))
        self.assertEqual(self.answers("masked"), self.answers("model"))
        self.assertEqual(*(self.ask(program, "eval", "--weights", "run", "--data", "pairs.txt", "--json").stdout
                           for program in ("masked", "model")))
        whole = self.ask("model", "eval", "--weights", "run", "--json").stdout
        loss = json.loads(whole)["loss"]
        self.assertAlmostEqual(json.loads(self.ask("longer", "eval", "--weights", "run", "--json").stdout)["loss"], loss, 5)
        for program in ("longer", "padded"):
            self.assertEqual(self.answers(program), self.answers("model"), program)

    def test_micro_batches_are_parts_of_one(self):
        self.build("parts", "-D", "train.batch=4", "-D", "train.accumulate=2")
        for program in ("model", "parts"):
            result = self.ask(program, "train", "--steps", "4", "--out", program + "_4", "--seed", "3", "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
        losses = [json.loads(self.ask("model", "eval", "--weights", run, "--json").stdout)["loss"]
                  for run in ("model_4", "parts_4")]
        self.assertAlmostEqual(*losses, 5)

    def answers(self, program, prompts="abc\nhgfed\njjja\n"):
        result = self.ask(program, "generate", "--weights", "run", "--prompts", "-", "--greedy", "--tokens", "6", "--json",
                          stdin=prompts)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line)["ids"] for line in result.stdout.splitlines()]

    def test_with_a_cache_as_without(self):
        # A product over positions, which no cache keeps, of hardly anything.
        self.build("whole", "-D", "train.sequence=9", text=self.text.replace(
            "decoder(embed(tokens),", "decoder(embed(tokens) + 1e-9 * low @ embed(tokens),").replace(
                "  head      =", "  const low[i: context, j: context] = if j <= i then 1 else 0\n  head      ="))
        self.assertIn("whole sequences, because of", self.ask("whole", "info").stdout)
        # Texts come one after the other, with a cache, whatever `generate.batch` is.
        self.build("several", "-D", "generate.batch=2")
        self.assertIn("generation       1 text", self.ask("several", "info").stdout)
        self.assertEqual(self.answers("model"), self.answers("several"))
        self.assertIn("generation       1 text", self.ask("model", "info").stdout)
        self.assertEqual(self.answers("model"), self.answers("whole"))
        # And as the most probable ones of all logits at once.
        (answer,) = self.answers("model", "hgfed\n")
        letters = "abcdefghij<>_"
        text = "hgfed\t" + "".join(letters[i] for i in answer)
        result = self.ask("model", "logits", "--weights", "run", "--prompt", text, "-o", "logits.safetensors")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = logits_of(pathlib.Path(self.folder, "logits.safetensors"))
        self.assertEqual(len(rows), len(answer) + 1)
        self.assertEqual([row.index(max(row)) for row in rows[:-1]], answer)

    def test_how_answers_begin(self):
        config = json.loads(pathlib.Path(self.folder, "run", "generation_config.json").read_text())
        self.assertEqual((config["decoder_start_token_id"], config["eos_token_id"]), (10, [11]))
        typed = self.ask("model", "generate", "--weights", "run", "--ids", "--prompt", "7 6 5 4 3 11", "--greedy", "--json",
                         "--tokens", "6")
        self.assertEqual(typed.returncode, 0, typed.stderr)
        answer = json.loads(typed.stdout)
        self.assertEqual([answer["ids"]], self.answers("model", "hgfed\n"))
        self.assertEqual(answer["text"], " ".join(map(str, answer["ids"])))

    def test_answers_alone_are_shown(self):
        answer = self.ask("model", "generate", "--weights", "run", "--prompt", "abc", "--greedy", "--tokens", "2").stdout
        self.assertNotIn("abc", answer)
        for lines in ("abc\n\nabc\n", "abc\r\n\r\nabc\r\n"):
            typed = self.ask("model", "generate", "--weights", "run", "-i", "--greedy", "--tokens", "2", stdin=lines)
            self.assertEqual(typed.stdout, 3 * answer)

    def test_what_cannot_be_read(self):
        long = self.ask("model", "generate", "--weights", "run", "--prompts", "-", "--json", stdin="abcabcabc\nab\n")
        self.assertEqual(long.returncode, 1)
        self.assertIn("standard input:1: the prompt has 10 tokens, and the encoder reads 7 at most", long.stderr)
        self.assertEqual([json.loads(line)["ended"] == "failed" for line in long.stdout.splitlines()], [True, False])
        self.build("samples", text=self.text.replace("train {", 'train {\n  sample = every(1, prompt = "abcabcabc")'))
        result = self.ask("samples", "train", "--out", "none")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the prompt of train.sample in the recipe has 10 tokens, and the encoder reads 7", result.stderr)
        pathlib.Path(self.folder, "sums.txt").write_text("1=a\nb\n")
        self.build("asked", text=self.text.replace('pairs("pairs.txt"', 'lines("sums.txt", answer_after = "="').replace(
            'chars("abc', 'chars("1=abc'))
        result = self.ask("asked", "train", "--out", "none")
        self.assertEqual(result.returncode, 1)
        self.assertIn('sums.txt:2: the model reads prompts with its encoder, and this example has no answer behind one '
                      '(data.answer_after is "=")', result.stderr)

    def test_a_decoder_that_looks_ahead(self):
        text = self.text.replace("attention = SelfAttention(width, heads, drop)", "attention = SelfAttention(width, heads, drop, causal = false)")
        self.build("ahead", text=text)
        told = self.ask("ahead", "generate", "--weights", "run", "--prompt", "abc")
        self.assertEqual(told.returncode, 1)
        self.assertIn("the next token of an answer has no logits of its own: this model looks at all 9 positions of `tokens` at once",
                      told.stderr)
        self.assertIn("causal in ahead.tfm", told.stderr)

    def test_errors_while_compiling(self):
        self.refused(self.text.replace('begin = "<", ', ""), "E0221", "which token the answer begins with",
                     'begin = "<s>"')
        self.refused(self.text.replace("pairs(", "lines("), "E0221",
                     "`source` is the prompt of an example, and `lines` has none")
        self.refused(self.text.replace("source: int[B, S], present: bool[B, S]", "source: int[B, S, 1], present: bool[B, S]").replace(
                                  "embed(source)", "embed(rearrange(source, \"B S 1 -> B S\"))"), "E0221",
                     "data gives `source`, what an encoder reads: int[B, S], but here it is int[B, S, 1]")
        self.refused(self.text.replace(", tokens: int[B, T]) -> [B, T, vocab]", ") -> [B, S, vocab]").replace(
            "decoder(embed(tokens), memory, mask)", "memory"), "E0221", "data gives `tokens`", "`forward` takes none")
        self.refused(self.text.replace("embed(source)", "small(source)").replace(
            "  head      =", "  small     = Embedding(9, width)\n  head      ="),
            "E0221", "9")
        self.refused(self.text.replace("present: bool[B, S]", "present: int[B, S]").replace(
            "rearrange(present,", "rearrange(present == 1,"), "E0221", "data gives `present`", "bool[B, S]")


if __name__ == "__main__":
    main()
