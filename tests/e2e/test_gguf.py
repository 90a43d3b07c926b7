#!/usr/bin/env python3
"""Weights of llama.cpp: the files of tests/fixtures/gguf, imported, built, loaded and compared."""

import json
import os
import pathlib
import shutil
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from support import FIXTURES, InFolder, main, run, tfmc  # noqa: E402
from test_families import in_parallel, tensors  # noqa: E402

FILES = FIXTURES / "gguf"
EXPECTED = json.loads((FILES / "expected.json").read_text())


class Gguf(InFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.builds = dict(zip(EXPECTED, in_parallel(cls.make, EXPECTED)))

    @classmethod
    def make(cls, case):
        """Imports and builds; what went wrong, or nothing."""
        model = cls.path(case + ".tfm")
        for command in (("import", FILES / f"{case}.gguf", "-o", model), ("build", model, "-o", cls.path(case))):
            result = tfmc(*command)
            if result.returncode != 0:
                return result.stderr
        return ""

    def file(self, name, data):
        path = self.path(name + ".gguf")
        pathlib.Path(path).write_bytes(data)
        return path

    def changed(self, name, key, kind, value):
        """llama.gguf with another value of a number in its metadata."""
        data = bytearray((FILES / "llama.gguf").read_bytes())
        at = data.index(key.encode()) + len(key) + 4
        data[at:at + 4] = struct.pack("<" + kind, value)
        return self.file(name, data)

    def with_key(self, name, source, key, kind, value):
        """A file with one more key, and with one that says nothing, so that tensors lie where they may."""
        data = (FILES / source).read_bytes()
        added = struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value
        rest = -(len(added) + 8 + 4 + 4 + 8) % 32
        added += struct.pack("<Q", 4) + b"none" + struct.pack("<IQ", 8, rest) + b" " * rest
        count = struct.unpack_from("<Q", data, 16)[0]
        return self.file(name, data[:16] + struct.pack("<Q", count + 2) + added + data[24:])

    def test_keys_and_types(self):
        # What is of no architecture says nothing of a model; 32 blocks of four bits have two types.
        for key, kind, value in (("split.no", 2, struct.pack("<H", 0)), ("training.notes", 8, struct.pack("<Q", 2) + b"ok"),
                                 ("llama.attention.causal", 7, b"\1")):
            result = tfmc("import", self.with_key("key", "llama.gguf", key, kind, value))
            self.assertEqual(result.returncode, 0, result.stderr)
        for key, kind, value, words in (
                ("llama.attention.causal", 7, b"\0", "is_causal is false"),
                ("split.count", 2, struct.pack("<H", 3), "it is part 1 of 3 of a model, which are found by their names: give it one that ends in -00001-of-00003.gguf"),
                ("llama.rope.scaling.type", 8, struct.pack("<Q", 6) + b"linear", "factor")):
            result = tfmc("import", self.with_key("key", "llama.gguf", key, kind, value))
            self.assertEqual(result.returncode, 1)
            self.assertIn(words, result.stderr)
        both = self.with_key("both", "chat.gguf", "llama.rope.scaling.type", 8, struct.pack("<Q", 6) + b"linear")
        self.assertIn("rotation is scaled by rope_freqs.weight, and by", tfmc("import", both).stderr)
        data = bytearray((FILES / "llama.gguf").read_bytes())
        at = data.index(b"blk.0.attn_output.weight") + 24 + 4 + 16
        while struct.unpack_from("<I", data, at)[0] != 2:
            at = data.index(b".weight", at) + 7 + 4 + 16
        struct.pack_into("<I", data, at, 20)
        result = tfmc("import", self.file("uneven", data))
        self.assertEqual(result.returncode, 0, result.stderr)
        swapped = self.file("swapped", data[:4] + data[7:3:-1] + data[8:])
        self.assertIn("a big-endian machine", tfmc("import", swapped).stderr)

    def test_a_file_is_named(self):
        # Of other weights it is not a config.json that is blamed, which there is none of.
        other = tfmc("import", self.changed("other", "llama.feed_forward_length", "I", 99)).stderr
        self.assertIn("are not those of the model that its metadata describes", other)
        self.assertNotIn("config.json", other)
        none = tfmc("import", FILES / "tokens_llama.gguf")
        self.assertEqual(none.returncode, 1)
        self.assertRegex(none.stderr, r"tokens_llama.gguf has no tensors, so there are no weights to read\n$")
        alone = pathlib.Path(self.path("alone"))
        alone.mkdir()
        for part in (2, 1):
            (alone / f"m-0000{part}-of-00002.gguf").write_bytes(b"")
        self.assertIn(f"of a model in a .gguf file that is named: {alone}/m-00001-of-00002.gguf", tfmc("import", alone).stderr)
        weights = shutil.copy(FIXTURES / "gpt2_tiny/model.safetensors", alone)
        self.assertIn(f"of weights the folder is named: `tfmc run {alone}`", tfmc("run", weights, "generate").stderr)

    def test_an_exported_folder_has_the_tokenizer(self):
        model, program, out = self.path("whole.tfm"), self.path("whole"), self.path("folder")
        self.assertEqual(tfmc("import", FILES / "chat.gguf", "-o", model).returncode, 0)
        self.assertEqual(tfmc("build", model, "-o", program).returncode, 0)
        result = run(program, "export", "--weights", FILES / "chat.gguf", "-o", out + "/")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        expected = json.loads((FILES / "chat.json").read_text())
        environment = {"XDG_CACHE_HOME": self.path("cache")}
        for name, options in (("text", []), ("chat", ["--chat"])):
            result = tfmc("run", out, "generate", "--greedy", "--json", "--tokens", "24", "--prompt", "Hello, world!",
                          *options, environment=environment)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(json.loads(result.stdout)["ids"], expected[name]["ids"], name)
        generation = json.loads(pathlib.Path(out, "generation_config.json").read_text())
        self.assertEqual(generation["eos_token_id"], [1, 4])
        # What it has written it replaces, another model with --overwrite alone.
        export = [program, "export", "--weights", FILES / "chat.gguf", "-o", out]
        written = pathlib.Path(out, "model.safetensors").read_bytes()
        self.assertEqual(run(*export).returncode, 0)
        pathlib.Path(out, "model.safetensors").write_bytes(b"own")
        for name in ("model.safetensors", "config.json"):
            result = run(*export)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"{out}/{name} is not known to be written by `export`", result.stderr)
            self.assertIn("--overwrite", result.stderr)
            pathlib.Path(out, "model.safetensors").unlink(missing_ok=True)
        self.assertEqual(run(*export, "--overwrite").returncode, 0)
        self.assertEqual(pathlib.Path(out, "model.safetensors").read_bytes(), written)

    def test_logits(self):
        for case, expected in EXPECTED.items():
            with self.subTest(case):
                self.assertEqual(self.builds[case], "")
                out = self.path(case + ".safetensors")
                result = run(self.path(case), "logits", "--weights", FILES / f"{case}.gguf", "--ids", "--prompt",
                             " ".join(map(str, expected["ids"])), "-o", out)
                self.assertEqual(result.returncode, 0, result.stderr)
                found, rows = tensors(out)["logits"], [value for row in expected["logits"] for value in row]
                worst = max(abs(a - b) for a, b in zip(found, rows)) / max(map(abs, rows))
                self.assertEqual(len(found), len(rows))
                self.assertLessEqual(worst, 2e-6)
                compared = tfmc("report", self.path(case + ".tfm"), "--against", FILES / f"{case}.gguf", "--values")
                self.assertEqual(compared.returncode, 0, compared.stdout)

    def test_one_command(self):
        environment = {"XDG_CACHE_HOME": self.path("cache")}
        result = tfmc("run", FILES / "llama.gguf", "generate", "--ids", "--prompt", "5 15", "--tokens", "3",
                      environment=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(result.stdout.split()), 5)

    def test_a_file_with_everything(self):
        # Weights, scaled rotation, tokenizer, template, end tokens: what transformers makes of the same.
        expected = json.loads((FILES / "chat.json").read_text())
        environment = {"XDG_CACHE_HOME": self.path("cache")}
        for name, options in (("text", []), ("chat", ["--chat"])):
            result = tfmc("run", FILES / "chat.gguf", "generate", "--greedy", "--json", "--tokens", "24", "--prompt",
                          "Hello, world!", *options, environment=environment)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(json.loads(result.stdout)["ids"], expected[name]["ids"], name)
        model = self.path("everything.tfm")
        self.assertEqual(tfmc("import", FILES / "chat.gguf", "-o", model).returncode, 0)
        text = pathlib.Path(model).read_text()
        self.assertIn('scaling = "llama3", factor = 32.0, low = 1.0', " ".join(text.split()))
        self.assertIn("chat.gguf\")", text)
        # A model of one's own takes the tokenizer of its weights.
        own = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("tokenizer"))
        pathlib.Path(model).write_text(own)
        self.assertEqual(tfmc("build", model, "-o", self.path("everything")).returncode, 0)
        for options in ([], ["--tokenizer", FILES / "chat.gguf"]):
            result = run(self.path("everything"), "generate", "--weights", FILES / "chat.gguf", "--greedy", "--json",
                         "--tokens", "24", "--prompt", "Hello, world!", *options)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(json.loads(result.stdout)["ids"], expected["text"]["ids"])
        # The template within the tokenizer that is named comes before one that stands beside the weights.
        for name in ("tokens", "weights"):
            os.makedirs(self.path(name), exist_ok=True)
            shutil.copy(FILES / "chat.gguf", self.path(name + "/x.gguf"))
        pathlib.Path(self.path("weights/chat_template.jinja")).write_text("beside {{ messages[0].content }}")
        for options, begin in ((["--tokenizer", self.path("tokens/x.gguf")], "<|begin_of_text|>"), ([], "beside Hi")):
            result = run(self.path("everything"), "generate", "--weights", self.path("weights/x.gguf"), "--chat",
                         "--json", "--tokens", "1", "--prompt", "Hi", *options)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(json.loads(result.stdout)["prompt"].startswith(begin), result.stdout)
        # A list of tokens that is damaged is of no use to whom names another tokenizer.
        data = (FILES / "chat.gguf").read_bytes().replace(b"tokenizer.ggml.tokens", b"tokenizer.ggml.tokenz")
        damaged = self.file("damaged", data)
        for options, code in ((["--tokenizer", FILES / "chat.gguf"], 0), (["--ids"], 0)):
            result = run(self.path("everything"), "generate", "--weights", damaged, "--prompt", "5", "--tokens", "1",
                         *options)
            self.assertEqual(result.returncode, code, result.stderr)
        # Factors beside another scaling, or for other heads.
        data = (FILES / "chat.gguf").read_bytes()
        at = data.index(b"llama.rope.dimension_count") + 26 + 4
        result = tfmc("import", self.file("heads", data[:at] + struct.pack("<I", 16) + data[at + 4:]))
        self.assertEqual(result.returncode, 1)
        self.assertIn("rope_freqs.weight has 4 factors for heads of 16", result.stderr)
        # Other factors are of another model.
        data = bytearray((FILES / "chat.gguf").read_bytes())
        at = data.index(struct.pack("<ff", 1.0, 1.0)) + 12  # the last of four
        data[at:at + 4] = struct.pack("<f", 16.0)
        result = tfmc("import", self.file("factors", data))
        self.assertEqual(result.returncode, 1)
        self.assertIn("rope_freqs.weight divides frequency", result.stderr)

    def test_training_and_export(self):
        out = self.path("exported")
        result = run(self.path("llama"), "export", "--weights", FILES / "llama.gguf", "-o", out + "/")
        self.assertEqual(result.returncode, 0, result.stderr)
        again = tfmc("import", out)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(sorted(tensors(out + "/model.safetensors")),
                         sorted(tensors(FIXTURES / "families" / "llama" / "model.safetensors")))

    def test_a_run_keeps_what_it_began_with(self):
        # End tokens and template, for generation from the run, its best weights, older checkpoints and what is
        # exported, whatever becomes of the file.
        model, program, run_folder = self.path("tuned.tfm"), self.path("tuned"), self.path("run")
        self.assertEqual(tfmc("import", FILES / "chat.gguf", "-o", model).returncode, 0)
        text = pathlib.Path(model).read_text()
        pathlib.Path(model).write_text(text + """
            train { batch = 1, sequence = 8, steps = 2, optimizer = adamw(lr = 1e-12), loss = cross_entropy,
                    checkpoint = every(1, keep = 2), validate = every(1) }
            """)
        built = tfmc("build", model, "-o", program)
        self.assertEqual(built.returncode, 0, built.stderr)
        beginning = self.path("beginning.gguf")
        shutil.copy(FILES / "chat.gguf", beginning)
        data = self.file("data.txt", b"Hello, world! " * 40)
        result = run(program, "train", "--init", beginning, "--data", data, "--out", run_folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        os.remove(beginning)
        expected = json.loads((FILES / "chat.json").read_text())
        exported = self.path("tuned_folder")
        result = run(program, "export", "--weights", run_folder, "-o", exported + "/")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(pathlib.Path(exported, "config.json").read_text())["eos_token_id"], [1, 4])
        for weights in (run_folder, run_folder + "/best", run_folder + "/step-1", run_folder + "/model.safetensors",
                        exported):
            result = run(program, "generate", "--weights", weights, "--greedy", "--json", "--tokens", "24", "--chat",
                         "--prompt", "Hello, world!")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(json.loads(result.stdout)["ids"], expected["chat"]["ids"], weights)
        # A run in its place that begins with nothing has nothing of that.
        result = run(program, "train", "--data", data, "--out", run_folder, "--overwrite")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse(pathlib.Path(run_folder, "tokenizer_config.json").exists())
        # What stands in a folder that is no run's is somebody's own.
        own = pathlib.Path(self.path("own"))
        own.mkdir()
        (own / "generation_config.json").write_text("{}")
        result = run(program, "train", "--init", FILES / "chat.gguf", "--data", data, "--out", own)
        self.assertEqual(result.returncode, 1)
        self.assertIn("generation_config.json is not of a run, and would be lost", result.stderr)

    def test_fewer_bits_are_told(self):
        model = self.path("int8.tfm")
        text = pathlib.Path(self.path("llama.tfm")).read_text()
        pathlib.Path(model).write_text(text.replace("generate {", "generate { weights = int8,"))
        built = tfmc("build", model, "-o", self.path("int8"))
        self.assertEqual(built.returncode, 0, built.stderr)
        result = run(self.path("int8"), "generate", "--weights", FILES / "llama.gguf", "--ids", "--prompt", "5",
                     "--tokens", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("are requantised", result.stderr)
        for options, said in (([], False), (["--dtype", "bf16"], False), (["--dtype", "int8"], True)):
            result = run(self.path("llama"), "export", "--weights", FILES / "llama.gguf", *options, "-o",
                         self.path("out.safetensors"))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual("are requantised: its blocks are not those of int8" in result.stderr, said)

    def test_text_that_is_no_utf8_is_shown(self):
        path = self.with_key("bytes", "llama.gguf", "llama.rope.scaling.type", 8, struct.pack("<Q", 2) + b"\xff\xff")
        compared = tfmc("report", self.path("llama.tfm"), "--against", path)
        self.assertEqual(compared.returncode, 1, compared.stderr)
        self.assertIn("rope_type", compared.stdout)
        result = run(self.path("llama"), "generate", "--weights", path, "--ids", "--prompt", "5")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("rope_type", result.stderr)

    def test_another_configuration_is_refused(self):
        for key, kind, value, own in (("llama.attention.layer_norm_rms_epsilon", "f", 0.01, "rms_norm_eps"),
                                      ("llama.rope.freq_base", "f", 500.0, "rope_theta")):
            with self.subTest(key):
                path = self.changed("other", key, kind, value)
                result = run(self.path("llama"), "generate", "--weights", path, "--ids", "--prompt", "5")
                self.assertEqual(result.returncode, 1)
                self.assertIn(f"{own} is {value}, here", result.stderr)
                compared = tfmc("report", self.path("llama.tfm"), "--against", path)
                self.assertEqual(compared.returncode, 1)
                self.assertIn(own, compared.stdout)
        for key, value, words in (("llama.attention.head_count", 3, "heads = 3 (num_attention_heads)"),
                                  ("llama.block_count", 3, "num_hidden_layers is 3, and theirs is 2"),
                                  ("llama.rope.dimension_count", 4, "head_dim")):
            result = tfmc("import", self.changed("other", key, "I", value))
            self.assertEqual(result.returncode, 1, key)
            self.assertIn(words, result.stderr)

    def test_what_nobody_knows_is_refused(self):
        data = (FILES / "llama.gguf").read_bytes()
        unknown = self.file("unknown", data.replace(b"llama.rope.freq_base", b"llama.rope.freq_bose"))
        result = tfmc("import", unknown)
        self.assertEqual(result.returncode, 1)
        self.assertIn("llama.rope.freq_bose is 10000.0: this family does not know it", result.stderr)
        tensor = self.file("tensor", data.replace(b"blk.0.ffn_up.weight", b"blk.0.ffn_op.weight"))
        result = run(self.path("llama"), "generate", "--weights", tensor, "--ids", "--prompt", "5")
        self.assertEqual(result.returncode, 1)
        self.assertIn("blk.0.ffn_op.weight is not a parameter of this model", result.stderr)
        for name, words in (("qwen2", 'general.architecture is "qwen2"'), ("gpt2", 'general.architecture is "gpt2"')):
            result = run(self.path("llama"), "generate", "--weights", FILES / f"{name}.gguf", "--ids", "--prompt", "5")
            self.assertEqual(result.returncode, 1)
            self.assertIn(words, result.stderr)
        result = tfmc("import", self.file("bloom", data.replace(b"llama", b"bloom", 2)))
        self.assertEqual(result.returncode, 1)
        self.assertIn('general.architecture is "bloom", and those that are read are gemma, gemma2, gemma3, gpt2, llama', result.stderr)
        # What scores are divided by is known of heads of 256.
        data = (FILES / "gemma2.gguf").read_bytes()
        for key in (b"gemma2.attention.key_length", b"gemma2.attention.value_length"):
            at = data.index(key) + len(key) + 4
            data = data[:at] + struct.pack("<I", 128) + data[at + 4:]
        result = tfmc("import", self.file("heads", data))
        self.assertEqual(result.returncode, 1)
        self.assertIn("head_dim is 128, not 256: what scores are divided by is not in such a file", result.stderr)
        # Experts: those of a layer have to be one tensor, and Mixtral's are not read.
        result = tfmc("import", self.with_key("mixtral", "llama.gguf", "llama.expert_count", 4, struct.pack("<I", 8)))
        self.assertEqual(result.returncode, 1)
        self.assertIn("num_local_experts is 8, not null: a file of this architecture with experts (Mixtral)", result.stderr)
        data = (FILES / "olmoe.gguf").read_bytes()
        for old, new in ((b"1.ffn_up_exps", b"1.up_ffn_exps"), (b"1.attn_q_norm", b"1.ffn_up_exps")):
            self.assertEqual(data.count(old), 1)
            data = data.replace(old, new)
        result = run(self.path("olmoe"), "generate", "--weights", self.file("flat", data), "--ids", "--prompt", "5")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the tensor blk.1.ffn_up_exps.weight is [32], not [experts, outputs, inputs]", result.stderr)
        # Without a family nobody knows what the tensors are called.
        own = self.path("own.tfm")
        text = pathlib.Path(self.path("llama.tfm")).read_text()
        pathlib.Path(own).write_text(text.replace('family "llama"', ""))
        result = tfmc("report", own, "--against", FILES / "llama.gguf")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the model's file names no `family`", result.stderr)

    def test_what_it_has_to_say(self):
        data = (FILES / "llama.gguf").read_bytes()
        for key in ("attention.head_count", "attention.layer_norm_rms_epsilon", "context_length", "block_count"):
            name = f"llama.{key}"
            at = data.index(struct.pack("<Q", len(name)) + name.encode()) + 8 # not the longer head_count_kv
            result = tfmc("import", self.file("without", data[:at] + b"other" + data[at + 5:]))
            self.assertEqual(result.returncode, 1, key)
            self.assertIn(f"without.gguf: {name} is absent, and nothing else says it", result.stderr)

    def test_damaged_files(self):
        data = (FILES / "llama.gguf").read_bytes()
        for size in (0, 3, 8, 23, 24, 100, 400, 1500, len(data) // 2, len(data) - 40):
            result = tfmc("import", self.file("cut", data[:size]))
            self.assertEqual(result.returncode, 1, size)
            self.assertIn("cut.gguf is not a usable gguf file", result.stderr)
            self.assertNotIn("internal error", result.stderr)
        for at, value, words in ((0, b"GGML", "it does not begin as one"), (4, b"\x09", "its version is 9"),
                                 (8, b"\xff" * 8, "not a usable gguf file"), (16, b"\xff" * 8, "not a usable gguf file"),
                                 (24, b"\xff" * 8, "a text in it is said to have")):
            result = tfmc("import", self.file("other", data[:at] + value + data[at + len(value):]))
            self.assertEqual(result.returncode, 1, words)
            self.assertIn(words, result.stderr)
        folder = self.path("folder.gguf")
        shutil.copytree(FIXTURES / "families" / "llama", folder)
        self.assertEqual(tfmc("import", folder).returncode, 0)


if __name__ == "__main__":
    main()
