"""Published weights and tokenizers: Hugging Face folders as they come, the greedy
tokens and logits of the fixtures, and the tokenizer that `tfmc tokenizer` learns."""

import array
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

from support import FIXTURES, MODELS, ROOT, TFMC, main, run, tfmc

INPUT_ERROR = 1
ITEM = {"F32": 4, "F64": 8, "I32": 4}
CODE = {"F32": "f", "F64": "d", "I32": "i"}


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}"""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"],
                   data[8 + length:][slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def values(tensor):
    dtype, _, data = tensor
    return array.array(CODE[dtype], data)


class Folder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="tfm-e2e-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)

    @classmethod
    def build(cls, source, *options):
        program = cls.folder / "program"
        result = tfmc("build", source, "-o", program, *options)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        return program

    def ok(self, *command, **options):
        result = run(*command, cwd=self.folder, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def fails(self, *command):
        result = run(*command, cwd=self.folder)
        self.assertEqual(result.returncode, INPUT_ERROR, result)
        self.assertTrue(result.stderr.startswith("error: "), result.stderr)
        return result.stderr


class Fixture:
    """Tests of a folder with config.json and model.safetensors, as `save_pretrained` writes it."""

    NAME = None
    IDS = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.source = FIXTURES / cls.NAME
        cls.program = cls.build(cls.source / "model.tfm")
        cls.greedy = json.loads((cls.source / "expected.json").read_text())["greedy"]

    def generated(self, weights):
        prompt = " ".join(map(str, self.greedy["prompt"]))
        answer = json.loads(self.ok(self.program, "generate", "--weights", weights, "--greedy",
                                    "--prompt", prompt, "--tokens", len(self.greedy["tokens"]),
                                    "--json", *self.IDS))
        return answer["ids"]

    def test_greedy_tokens(self):
        self.assertEqual(self.generated(self.source), self.greedy["tokens"])

    def test_logits(self):
        expected = read_safetensors(self.source / "expected.safetensors")
        _, (rows, length), _ = expected["input_ids"]
        ids = values(expected["input_ids"])
        reference = values(expected["logits_f64"])
        width = expected["logits_f64"][1][2]
        largest = max(map(abs, reference))
        for row in range(rows):
            prompt = " ".join(map(str, ids[row * length:(row + 1) * length]))
            self.ok(self.program, "logits", "--weights", self.source, "--prompt", prompt, "-o",
                    "logits.safetensors", *self.IDS)
            logits = read_safetensors(self.folder / "logits.safetensors")["logits"]
            self.assertEqual(logits[1], [length, width])
            for a, b in zip(values(logits), reference[row * length * width:], strict=False):
                self.assertLessEqual(abs(a - b), 1e-5 * largest)


class Gpt2Folder(Fixture, Folder):
    NAME = "gpt2_tiny"

    def variant(self, name, change=lambda tensors: None, shards=1):
        """The fixture's folder with other tensors in it."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        tensors = read_safetensors(self.source / "model.safetensors")
        tensors = change(tensors) or tensors
        if shards == 1:
            write_safetensors(folder / "model.safetensors", tensors)
            return folder
        names = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
        places = {tensor: names[i % shards] for i, tensor in enumerate(tensors)}
        for file in names:
            write_safetensors(folder / file, {tensor: tensors[tensor] for tensor in tensors
                                              if places[tensor] == file})
        (folder / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {"total_size": 0}, "weight_map": places}))
        return folder

    def test_damaged_configuration(self):
        folder = self.variant("configured")
        for name in ("config.json", "generation_config.json"):
            for text, part in [("{", "is not a JSON object"), ("[" * 100000, "is not a JSON object"),
                               ('{"eos_token_id": "end"}', 'but "end"'),
                               ('{"eos_token_id": [1, -2]}', "but [1,-2]")]:
                (folder / name).write_text(text)
                message = self.fails(self.program, "generate", "--weights", folder, "--prompt", "1")
                self.assertIn(f"{folder / name}", message)
                self.assertIn(part, message)
            for text in ('{"eos_token_id": null}', "{}", '{"eos_token_id": [1, 100000]}'):
                (folder / name).write_text(text)
                self.ok(self.program, "generate", "--weights", folder, "--prompt", "1")

    def test_links_that_lead_nowhere(self):
        """A copy of a cache's folder that did not follow the links in it."""
        folder = self.folder / "links"
        generate = [self.program, "generate", "--weights", folder, "--prompt", "1"]
        imports = [TFMC, "import", folder]
        for name, commands in (("model.safetensors", [generate, imports]), ("config.json", [generate, imports]),
                               ("generation_config.json", [generate, imports]), ("tokenizer.json", [generate, imports]),
                               ("tokenizer_config.json", [[*generate, "--chat"]])):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(self.source, folder, copy_function=shutil.copyfile)
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to("../../blobs/0123")
            for command in commands:
                result = run(*command)
                self.assertEqual((result.returncode, result.stdout), (INPUT_ERROR, ""), result)
                self.assertIn(f"error: {folder / name} is a link to ../../blobs/0123, which is not there: copy the "
                              "folder with what its links lead to (cp -rL), or download it again\n", result.stderr)

    @unittest.skipIf(os.geteuid() == 0, "root may look anywhere")
    def test_folders_of_others(self):
        folder = self.variant("others")
        folder.chmod(0)
        self.addCleanup(folder.chmod, 0o755)
        self.assertIn(f"cannot look at {folder / 'model.safetensors'}: Permission denied",
                      self.fails(self.program, "generate", "--weights", folder, "--prompt", "1"))

    def test_configuration_of_another_model(self):
        """What shapes do not show: every command that computes with the weights refuses them."""
        folder = self.folder / "other"
        shutil.copytree(self.source, folder, copy_function=shutil.copyfile)
        config = json.loads((folder / "config.json").read_text())
        config.update(n_head=6, layer_norm_epsilon=1e-6, activation_function="relu")
        (folder / "config.json").write_text(json.dumps(config))
        for command in (["generate", "--prompt", "1"], ["logits", "--prompt", "1", "-o", "x"]):
            message = self.fails(self.program, *command, "--weights", folder)
            self.assertIn(f"{folder / 'config.json'} is of another model than GPT2", message)
            self.assertIn("n_head is 6, here 4: build it with -D heads=6\n", message)
            self.assertIn("layer_norm_epsilon is 1e-06, here 1e-05: change it in ", message)
            self.assertIn('activation_function is "relu", here gelu_tanh: change it in ', message)
            self.assertNotIn("n_positions", message)
        # A build as the message says goes on to the other two.
        other = self.folder / "other_program"
        self.ok(TFMC, "build", self.source / "model.tfm", "-D", "heads=6", "-o", other)
        self.assertNotIn("n_head", self.fails(other, "generate", "--weights", folder, "--prompt", "1"))
        # The file alone says nothing of it; nor does what is not in the file.
        self.assertEqual(self.generated(folder / "model.safetensors"), self.greedy["tokens"])
        for key in ("n_head", "layer_norm_epsilon", "activation_function"):
            del config[key]
        (folder / "config.json").write_text(json.dumps(config))
        self.assertEqual(self.generated(folder), self.greedy["tokens"])

    def test_weights_are_a_regular_file(self):
        os.mkfifo(self.folder / "pipe")
        for path in (self.folder / "pipe", "/dev/null"):
            message = self.fails(self.program, "generate", "--weights", path, "--prompt", "1")
            self.assertIn(f"{path}: not a regular file", message)

    def test_text_is_ids_without_a_tokenizer(self):
        text = self.ok(self.program, "generate", "--weights", self.source, "--greedy", "--prompt",
                       " ".join(map(str, self.greedy["prompt"])), "--tokens", 12)
        self.assertEqual([int(word) for word in text.split()],
                         self.greedy["prompt"] + self.greedy["tokens"])
        message = self.fails(self.program, "generate", "--weights", self.source, "--prompt", "101")
        self.assertIn('"101" is not a token id', message)
        self.assertIn("0 to 100", message)
        self.assertIn("--tokenizer", message)

    def test_types_of_16_bits(self):
        # Half of the bytes; what such weights compute is what their roundings in f32 compute.
        source = (self.source / "model.safetensors").stat().st_size
        for name, dtype in (("bf16", "BF16"), ("f16", "F16")):
            path = self.folder / f"{name}.safetensors"
            self.ok(self.program, "export", "--weights", self.source, "-o", path, "--dtype", name)
            self.assertEqual({tensor[0] for tensor in read_safetensors(path).values()}, {dtype})
            self.assertLess(path.stat().st_size, 0.6 * source)
            self.assertEqual(tfmc("report", self.source / "model.tfm", "--against", path,
                                  "--values").returncode, 0)
            self.ok(self.program, "export", "--weights", path, "-o", "wide.safetensors")
            logits = []
            for weights in (path, "wide.safetensors"):
                self.ok(self.program, "logits", "--weights", weights, "--prompt", "1 2 3", "-o",
                        "logits.safetensors")
                logits.append(read_safetensors(self.folder / "logits.safetensors")["logits"])
            self.assertEqual(logits[0], logits[1])

    def test_shards(self):
        folder = self.variant("shards", shards=3)
        self.assertEqual(self.generated(folder), self.greedy["tokens"])
        self.assertEqual(self.generated(folder / "model.safetensors.index.json"),
                         self.greedy["tokens"])
        (folder / "model-00002-of-00003.safetensors").unlink()
        message = self.fails(self.program, "generate", "--weights", folder, "--prompt", "1")
        self.assertIn("model-00002-of-00003.safetensors is missing", message)

    def test_without_prefix(self):
        folder = self.variant("plain", lambda tensors: {
            name.removeprefix("transformer."): tensor for name, tensor in tensors.items()})
        self.assertEqual(self.generated(folder), self.greedy["tokens"])

    def test_buffers_and_a_tied_head(self):
        def more(tensors):
            for layer in range(3):
                tensors[f"transformer.h.{layer}.attn.bias"] = ("F32", [1, 1, 2, 2], bytes(16))
            tensors["lm_head.weight"] = tensors["transformer.wte.weight"]

        self.assertEqual(self.generated(self.variant("more", more)), self.greedy["tokens"])

        def untied(tensors):
            dtype, shape, data = tensors["transformer.wte.weight"]
            tensors["lm_head.weight"] = (dtype, shape, bytes(len(data)))

        message = self.fails(self.program, "generate", "--weights",
                             self.variant("untied", untied), "--prompt", "1")
        self.assertIn("lm_head.weight differs from transformer.wte.weight", message)

    def test_values_that_are_no_numbers(self):
        def damage(tensors):
            dtype, shape, data = tensors["transformer.ln_f.weight"]
            tensors["transformer.ln_f.weight"] = (dtype, shape, b"\0\0\xc0\x7f" + data[4:])

        message = self.fails(self.program, "generate", "--weights",
                             self.variant("nan", damage), "--prompt", "1")
        self.assertIn("transformer.ln_f.weight has the value nan (element 0)", message)

    def test_an_empty_stop_text_takes_back_the_recipes(self):
        sampled = ["generate", "--weights", self.source, "--prompt", "1", "--seed", "2", "--temperature", "2"]
        words = self.ok(self.program, *sampled, "--tokens", "8").split()
        stops = self.folder / "stops"
        self.ok(TFMC, "build", self.source / "model.tfm", "-D", f'generate.stop=[" {words[4]} "]', "-o", stops)
        for options, tokens in ([], 3), (["--stop", ""], 8), (["--stop", "", "--stop", f" {words[3]} "], 2):
            answer = json.loads(self.ok(stops, *sampled, "--tokens", "8", "--json", *options))
            self.assertEqual(answer["tokens"], tokens)

    def test_a_text_that_breaks_off_ends_its_line(self):
        def huge(tensors):
            dtype, shape, data = tensors["transformer.ln_f.weight"]
            tensors["transformer.ln_f.weight"] = (dtype, shape, struct.pack("<f", 3e38) * (len(data) // 4))

        result = run(self.program, "generate", "--weights", self.variant("huge", huge), "--prompt", "1")
        self.assertEqual((result.returncode, result.stdout), (INPUT_ERROR, "1\n"))
        self.assertIn("logits that are not numbers", result.stderr)
        result = run(self.program, "logits", "--weights", self.folder / "huge", "--prompt", "1", "-o", self.folder / "huge.logits")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("warning: at 1 of 1 positions logits are not numbers: the weights are damaged", result.stderr)

    def test_trained_weights_continue(self):
        """What was published can be trained on, and what was trained loads again."""
        ids = [i * 7 % 101 for i in range(400)]
        (self.folder / "ids.bin").write_bytes(array.array("H", ids).tobytes())
        source = (self.source / "model.tfm").read_text()
        source = source.replace("../../../models", str(MODELS)) + '\ndata tokens("ids.bin")\n'
        (self.folder / "train.tfm").write_text(source)
        trainer = self.folder / "trainer"
        self.ok(TFMC, "build", "train.tfm", "-o", trainer)
        other = self.variant("untrained")
        (other / "config.json").write_text('{"n_layer": 3, "n_head": 2}')
        for command in (["train", "--steps", "5", "--out", "none", "--init"], ["eval", "--weights"]):
            self.assertIn("n_head is 2, here 4", self.fails(trainer, *command, other))
        self.assertFalse((self.folder / "none").exists())
        self.ok(trainer, "train", "--init", self.source, "--steps", "5", "--out", "run", "--json")
        self.assertEqual(len(self.generated(self.folder / "run")), 12)


class Trained(Folder):
    """What we train is what transformers reads: tests/peers/transformers_round_trip.py."""

    def test_logits_that_transformers_gave(self):
        source = FIXTURES / "trained"
        sizes = json.loads((source / "sizes.json").read_text())
        defines = [part for name, value in sizes.items() for part in ("-D", f"{name}={value}")]
        (self.folder / "ids.bin").write_bytes(array.array("H", range(101)).tobytes())
        text = (FIXTURES / "gpt2_tiny" / "model.tfm").read_text()
        text = text.replace("../../../models", str(MODELS)) + '\ndata tokens("ids.bin")\n'
        (self.folder / "model.tfm").write_text(text)
        program = self.build(self.folder / "model.tfm", *defines)
        # A run of today has the tensors of the one that transformers has read.
        self.ok(program, "train", "--steps", "1", "--out", "run", "--json")

        def tensors(path):
            return {name: tensor[:2] for name, tensor in read_safetensors(path).items()}

        self.assertEqual(tensors(self.folder / "run" / "model.safetensors"),
                         tensors(source / "model.safetensors"))
        expected = read_safetensors(source / "expected.safetensors")
        self.ok(program, "logits", "--weights", source, "--prompt",
                " ".join(map(str, values(expected["ids"]))), "-o", "logits.safetensors")
        found = values(read_safetensors(self.folder / "logits.safetensors")["logits"])
        reference = values(expected["logits_f64"])
        largest = max(map(abs, reference))
        for a, b in zip(found, reference, strict=True):
            self.assertLessEqual(abs(a - b), 1e-5 * largest)


class LayerNormByHand(Folder):
    """models/layer_norm.tfm, as the notebook on GPT-2 goes through it."""

    # What it prints of its random numbers: the first row, normalised.
    PRINTED = [0.9932, -0.3416, -0.4775, -1.2895, 0.0837, -2.1132, 0.9516, 0.7095, 0.8504, 0.6334]

    def test_values(self):
        rows = [self.PRINTED]
        rows += [[math.sin(10 * i + j) * (1 + i % 7) + i % 3 for j in range(10)] for i in range(19)]
        (self.folder / "rows.tfm").write_text(
            f'import "{MODELS}/layer_norm.tfm"\n'
            "model Rows(context = 20) {\n  manual = ManualLayerNorm(10)\n"
            "  param rows: [20, 10] = zeros, trainable = false\n"
            "  forward(tokens: int[B, T]) -> [B, T, 20] {\n"
            "    by_hand, standard = manual(gather(rows, tokens))\n"
            "    return concat(by_hand, standard)\n  }\n}\n")
        program = self.build(self.folder / "rows.tfm")

        def tensor(numbers, *shape):
            return "F32", list(shape), array.array("f", numbers).tobytes()

        write_safetensors(self.folder / "rows.safetensors", {
            "rows": tensor([x for row in rows for x in row], 20, 10),
            "manual.ln.weight": tensor([1] * 10, 10), "manual.ln.bias": tensor([0] * 10, 10)})
        self.ok(program, "logits", "--ids", "--weights", "rows.safetensors", "--prompt",
                " ".join(map(str, range(20))), "-o", "logits.safetensors")
        found = values(read_safetensors(self.folder / "logits.safetensors")["logits"])
        for i, row in enumerate(rows):
            mean = sum(row) / 10
            deviation = math.sqrt(sum((x - mean) ** 2 for x in row) / 10 + 1e-5)
            by_hand, standard = found[20 * i:20 * i + 10], found[20 * i + 10:20 * i + 20]
            for x, a, b in zip(row, by_hand, standard, strict=True):
                self.assertLessEqual(abs(a - b), 1e-6)
                self.assertLessEqual(abs(a - (x - mean) / deviation), 2e-6)
        # Its mean is 0 and its variance 1: the norm of it is itself.
        self.assertEqual([round(x, 4) for x in found[:10]], self.PRINTED)


class ManyTexts(Folder):
    """Texts that grow together, and proposals from the text so far: the same tokens."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.source = FIXTURES / "gpt2_tiny"
        cls.one = cls.build(cls.source / "model.tfm")
        cls.one = cls.one.rename(cls.folder / "one")
        cls.three = cls.build(cls.source / "model.tfm", "-D", "generate.batch=3").rename(cls.folder / "three")
        cls.narrow = cls.build(cls.source / "model.tfm", "-D", "generate.batch=3", "-D", "generate.cache=int8")
        state, cls.prompts = 7, []
        for length in (1, 20, 5, 12, 2, 25, 9):
            ids = []
            for _ in range(length):
                state = state * 1103515245 + 12345 & 0x7fffffff
                ids.append(state // 65536 % 101)
            cls.prompts.append(" ".join(map(str, ids)))

    def texts(self, program, prompts, *options, tokens=20):
        (self.folder / "prompts.txt").write_text("\n".join(prompts) + "\n")
        lines = self.ok(program, "generate", "--weights", self.source, "--prompts", "prompts.txt",
                        "--tokens", tokens, "--json", *options).splitlines()
        texts = [json.loads(line) for line in lines]
        return {text["index"]: text["ids"] for text in texts}

    def expect_own_text(self, program, seeded):
        together = self.texts(program, self.prompts, "--count", "2", *seeded)
        self.assertEqual(sorted(together), list(range(14)))
        self.assertNotEqual(together[0], together[1])
        for kept in (1, 4):
            others = [prompt if i == kept else self.prompts[-1 - i] + " 3"
                      for i, prompt in enumerate(self.prompts)]
            again = self.texts(program, others, "--count", "2", *seeded)
            self.assertEqual([again[2 * kept], again[2 * kept + 1]],
                             [together[2 * kept], together[2 * kept + 1]])
        # The first text of the file, alone.
        alone = json.loads(self.ok(program, "generate", "--weights", self.source, "--prompt",
                                   self.prompts[0], "--tokens", "20", "--json", *seeded))
        self.assertEqual(alone["ids"], together[0])

    def test_a_text_does_not_depend_on_its_neighbours(self):
        info = self.ok(self.three, "info")
        self.assertIn("3 texts together, prompts in chunks of ", info)
        self.assertIn("1 text, prompts in chunks of ", self.ok(self.one, "info"))
        for program in (self.one, self.three, self.narrow):
            sizes = re.search(r"chunks of ([\d, ]+) tokens", self.ok(program, "info"))[1].split(", ")
            self.assertEqual(len(sizes), len(set(sizes)), sizes)
        # Some end early, and others take their places.
        seeded = ["--seed", "5", "--temperature", "1.5", "--stop", "9 "]
        for program in (self.three, self.narrow):
            self.expect_own_text(program, seeded)
        # Other builds agree to rounding; the best tokens of this model are clear.
        self.assertEqual(self.texts(self.three, self.prompts, "--greedy"),
                         self.texts(self.one, self.prompts, "--greedy"))

    def test_what_lookahead_does_otherwise_is_said(self):
        said = run(self.three, "generate", "--weights", self.source, "--prompt", "1 2", "--tokens", "2", "--lookahead", "50",
                   cwd=self.folder).stderr
        self.assertIn("note: --lookahead 50: no more than 7 tokens are proposed at a time\n", said)
        self.assertIn("note: --lookahead generates one text after the other, and not 3 together", said)

    def test_output_keeps_the_order_of_the_prompts(self):
        prompts = self.prompts[:2] + [""] + self.prompts[2:] + ["101"]
        (self.folder / "wrong.txt").write_text("\n".join(prompts))
        options = ["generate", "--weights", self.source, "--prompts", "wrong.txt", "--greedy",
                   "--tokens", "4", "--stop", " 7"]
        result = run(self.three, *options, cwd=self.folder)
        self.assertEqual(result.returncode, INPUT_ERROR)
        self.assertIn("error: wrong.txt:3: this line is empty", result.stderr)
        self.assertIn("error: wrong.txt:9: ", result.stderr)
        self.assertIn("7 texts, ", result.stderr)
        # By their places among the prompts.
        self.assertIn("text 2 of 9: ", result.stderr)
        self.assertIn("text 4 of 9: ", result.stderr)
        self.assertEqual(result.stderr.count("; ended "), 7)
        texts = result.stdout.split("---\n")
        self.assertEqual(len(texts), 7)
        for prompt, text in zip(self.prompts, texts, strict=True):
            self.assertTrue(text.startswith(prompt + " "), text)
        self.assertEqual(run(self.one, *options, cwd=self.folder).stdout, result.stdout)
        result = run(self.one, *options, "--json", "--logprobs", "1", cwd=self.folder)
        texts = {text["index"]: text for text in map(json.loads, result.stdout.splitlines())}
        self.assertEqual(sorted(texts), list(range(9)))
        for i, text in texts.items():
            self.assertEqual(text["ended"] == "failed", i in (2, 8))
            self.assertEqual(len(text["logprobs"]), text["tokens"])
        self.assertEqual(texts[2]["ended_by"], "wrong.txt:3: this line is empty, and so no prompt")
        self.assertEqual((texts[2]["seconds"], texts[2]["tokens_per_second"]), (0, 0))

    def test_a_text_without_tokens_to_choose_ends_alone(self):
        (self.folder / "some.txt").write_text("5\n7 3\n6\n")
        # 7 alone is left, but not where it was.
        only = [part for token in range(101) if token != 7 for part in ("--logit-bias", f"{token}=-inf")]
        only += ["--logit-bias", "7=-1000", "--repeat-penalty", "1e308", "--greedy", "--tokens", "1"]
        reason = ("no token is left to choose: --logit-bias or --repeat-penalty forbids all that the model "
                  "could say")
        for program in self.one, self.three:
            options = [program, "generate", "--weights", self.source, *only]
            result = run(*options, "--prompts", "some.txt", cwd=self.folder)
            self.assertEqual(result.returncode, INPUT_ERROR)
            self.assertEqual(result.stdout, "5 7\n---\n7 3\n---\n6 7\n")
            self.assertIn(f"error: some.txt:2: text 2 of 3: {reason}\n", result.stderr)
            self.assertTrue(result.stderr.endswith("error: 1 of 3 prompts could not be continued, see above\n"),
                            result.stderr)
            result = run(*options, "--prompts", "some.txt", "--json", "--count", "2", cwd=self.folder)
            self.assertEqual(result.returncode, INPUT_ERROR)
            texts = sorted(map(json.loads, result.stdout.splitlines()), key=lambda text: text["index"])
            self.assertEqual([text["ended"] for text in texts], 2 * ["tokens"] + 2 * ["failed"] + 2 * ["tokens"])
            self.assertEqual((texts[2]["text"], texts[2]["ended_by"]), ("", reason))
            self.assertTrue(result.stderr.endswith("error: 1 of 3 prompts could not be continued, see above\n"),
                            result.stderr)
            # It alone is the error.
            result = run(*options, "--prompt", "7 3", cwd=self.folder)
            self.assertEqual((result.returncode, result.stderr), (INPUT_ERROR, f"error: {reason}\n"))
            result = run(*options, "--prompt", "7 3", "--json", cwd=self.folder)
            self.assertEqual((result.returncode, result.stderr), (INPUT_ERROR, f"error: {reason}\n"))
            text = json.loads(result.stdout)
            self.assertEqual((text["ended"], text["ended_by"]), ("failed", reason))

    def test_logits_that_are_no_numbers_end_one_text(self):
        """A row of a table is damaged that only long texts come to: the others are what they are without it, also those
        that take the places of these."""
        tensors = read_safetensors(self.source / "model.safetensors")
        dtype, shape, data = tensors["transformer.wpe.weight"]
        row = 4 * shape[1]
        tensors["transformer.wpe.weight"] = (dtype, shape, data[:18 * row] + struct.pack("<f", 3e38) * shape[1] + data[19 * row:])
        write_safetensors(self.folder / "row18.safetensors", tensors)
        prompts = [self.prompts[1], *self.prompts]
        (self.folder / "rows.txt").write_text("\n".join(prompts))
        reason = "the model gives logits that are not numbers: the weights are damaged, or training has diverged"
        for program in (self.one, self.three, self.narrow):
            whole = self.texts(program, prompts, "--greedy", tokens=8)
            for options in ([], ["--lookahead", "4"]):
                generate = [program, "generate", "--weights", "row18.safetensors", "--prompts", "rows.txt", "--greedy",
                            "--tokens", "8", *options]
                result = run(*generate, "--json", cwd=self.folder)
                self.assertEqual(result.returncode, INPUT_ERROR)
                texts = {text["index"]: text for text in map(json.loads, result.stdout.splitlines())}
                self.assertEqual(sorted(texts), list(range(8)))
                for i, text in texts.items():
                    # The prompt alone, or the seventh token behind it.
                    tokens = {0: 0, 2: 0, 4: 7, 6: 0}.get(i, 8)
                    self.assertEqual(text["ids"], whole[i][:tokens])
                    self.assertEqual((text["ended"], text["ended_by"]), ("tokens", None) if tokens == 8 else ("failed", reason))
                    if tokens < 8:
                        self.assertIn(f"error: rows.txt:{i + 1}: text {i + 1} of 8: {reason}\n", result.stderr)
                self.assertTrue(result.stderr.endswith("error: 4 of 8 prompts could not be continued, see above\n"),
                                result.stderr)

    def test_standard_input_is_read_from_where_it_is(self):
        options = [self.one, "generate", "--weights", self.source, "--greedy", "--tokens", "2", "--prompts", "-"]
        (self.folder / "two.txt").write_text("5\n7 8\n")
        with open(self.folder / "two.txt", "rb", buffering=0) as file:
            self.assertEqual(file.readline(), b"5\n") # by somebody else
            left = run(*options, stdin=file)
        self.assertEqual(left.returncode, 0, left.stderr)
        self.assertTrue(left.stdout.startswith("7 8 "), left.stdout)
        # A socket has no name to be opened by.
        own, its = socket.socketpair()
        own.sendall(b"7 8\n")
        own.close()
        with its:
            self.assertEqual(run(*options, stdin=its).stdout, left.stdout)
        # Nor is anything passed over that somebody may have meant.
        more = run(*options, stdin='{"prompt": "7 8", "tokens": 1, "id": 5}\n')
        self.assertEqual(more.stdout, left.stdout)
        self.assertIn("note: of an object in standard input `prompt` is read, and not id, tokens beside it\n", more.stderr)
        closed = run("/bin/sh", "-c", 'exec "$0" "$@" <&-', *options)
        self.assertEqual(closed.returncode, INPUT_ERROR)
        self.assertIn("cannot read the prompts /dev/stdin: Bad file descriptor", closed.stderr)

    def test_ctrl_c_ends_the_texts_and_counts_the_whole(self):
        prompts = ["5", "101"] + self.prompts
        (self.folder / "long.txt").write_text("\n".join(prompts))
        endless = ["--prompts", "long.txt", "--tokens", "1000000000", "--overflow", "slide"]
        for options, begun in ((endless, 3), ([*endless, "--lookahead", "4"], 1),
                               (["--prompt", "5", *endless[2:]], 1)):
            process = subprocess.Popen([self.three, "generate", "--weights", self.source, *options], cwd=self.folder,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            start = process.stdout.read(40)  # it writes
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, err)
            self.assertEqual(len(re.findall(r"; interrupted(; seed \d+)?\n", err)), begun, err)
            texts = (start + out).split("---\n")
            self.assertEqual(len(texts), begun)
            for prompt, text in zip(["5"] + self.prompts, texts, strict=False):
                self.assertTrue(text.startswith(prompt + " "), text)
            if options[0] == "--prompts":
                self.assertIn("interrupted: 0 of 8 texts are whole, ", err)

    def test_without_a_cache_they_come_one_after_the_other(self):
        model = self.folder / "mixes.tfm"
        model.write_text("model Mixes(vocab = 256, context = 8, width = 8) {\n  wte = Embedding(vocab, width)\n"
                         "  forward(tokens: int[B, T]) -> [B, T, vocab] {\n    x = wte(tokens)\n"
                         "    return softmax(x @ x.T) @ x @ wte.weight.T\n  }\n}\ntokenizer bytes()\n")
        for batch, end in ((1, "a matrix product over positions\n"),
                           (4, "a matrix product over positions; texts come one after the other, whatever `generate.batch` is\n")):
            result = tfmc("build", model, "-D", f"generate.batch={batch}", "-o", self.folder / "mixes")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(result.stderr.endswith(end), result.stderr)

    def test_ctrl_c_ends_the_reading_of_prompts(self):
        (self.folder / "far.tfm").write_text(
            f'import "{ROOT}/models/llama.tfm"\nmodel = Llama(vocab = 256, context = 65536, width = 64, hidden = 128, heads = 4,'
            ' layers = 2)\ntokenizer bytes()\n')
        (self.folder / "far.txt").write_text("\n".join(["x" * 60000] * 6))
        for batch, options in ((1, ["--prompts", "far.txt"]), (4, ["--prompts", "far.txt"]),
                               (1, ["--prompts", "far.txt", "--lookahead", "4"])):
            with self.subTest(batch=batch, options=options):
                self.assertEqual(tfmc("build", self.folder / "far.tfm", "-D", f"generate.batch={batch}", "-o",
                                      self.folder / "far").returncode, 0)
                run(self.folder / "far", "export", "--seed", "1", "-o", "far.safetensors", cwd=self.folder)
                process = subprocess.Popen([self.folder / "far", "generate", "--weights", "far.safetensors", "--json", *options],
                                           cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                time.sleep(0.5)  # that of all takes half a minute
                process.send_signal(signal.SIGINT)
                began = time.monotonic()
                out, err = process.communicate(timeout=60)
                self.assertLess(time.monotonic() - began, 5)
                self.assertEqual(process.returncode, 130, err)
                texts = [json.loads(line) for line in out.splitlines()]
                self.assertEqual([(text["tokens"], text["ended"]) for text in texts], [(0, "interrupted")] * batch)

    def test_lines_without_a_terminal(self):
        result = run(self.one, "generate", "--weights", self.source, "-i", "--tokens", "2", stdin="5\nx\n6\n")
        self.assertEqual(result.returncode, INPUT_ERROR)
        self.assertRegex(result.stdout, r"^5 \d+ \d+\n6 \d+ \d+\n$")
        self.assertIn("error: standard input:2: ", result.stderr)
        self.assertTrue(result.stderr.endswith("error: 1 of 3 lines could not be continued, see above\n"), result.stderr)
        forbidden = [part for token in range(101) for part in ("--logit-bias", f"{token}=-inf")]
        result = run(self.one, "generate", "--weights", self.source, "-i", *forbidden, stdin="5\n6\n")
        self.assertEqual((result.returncode, result.stdout), (INPUT_ERROR, "5\n6\n"))
        for line in 1, 2:
            self.assertIn(f"error: standard input:{line}: no token is left to choose", result.stderr)

    def test_standard_input_that_cannot_be_read(self):
        descriptor = os.open(self.folder, os.O_RDONLY)
        self.addCleanup(os.close, descriptor)
        result = run(self.one, "generate", "--weights", self.source, "-i", stdin=descriptor)
        self.assertEqual((result.returncode, result.stdout, result.stderr),
                         (INPUT_ERROR, "", "error: cannot read standard input: Is a directory\n"))

    def test_an_empty_prompt_parts_nothing_from_its_text(self):
        generate = [self.one, "generate", "--weights", self.source, "--greedy", "--tokens", "2"]
        alone = run(*generate, "--prompt", "").stdout
        self.assertRegex(alone, r"^\d+ \d+\n$")
        result = run(*generate, "--json", "--prompts", "-", stdin='{"prompt": ""}\n{"prompt": "5"}\n')
        texts = {text["index"]: text["text"] for text in map(json.loads, result.stdout.splitlines())}
        self.assertEqual(texts[0], alone[:-1])
        self.assertRegex(texts[1], r"^ \d+ \d+$")
        self.assertRegex(run(*generate, "-i", stdin="\n\n").stdout, r"^\d+ \d+\n \d+ \d+\n$")

    def test_a_byte_order_mark_is_no_part_of_a_prompt(self):
        (self.folder / "marked.txt").write_text("\ufeff5 6")
        generate = [self.one, "generate", "--weights", self.source, "--greedy", "--tokens", "2"]
        text = run(*generate, "--prompt", "5 6").stdout
        self.assertEqual(run(*generate, "--prompt-file", self.folder / "marked.txt").stdout, text)
        self.assertEqual(run(*generate, "-i", stdin="\ufeff5 6\n\ufeff5\n").stdout, text)

    def test_what_has_no_effect_is_said(self):
        generate = ["generate", "--weights", self.source, "--tokens", "1"]
        for options, note in ((["--greedy", "--temperature", "2", "--top-k", "3"],
                               "note: --temperature, --top-k have no effect: with --greedy the most"),
                              (["--temperature", "0", "--min-p", "0.1"],
                               "note: --min-p has no effect: with --temperature 0 the most"),
                              (["--greedy", "--seed", "5"],
                               "note: --seed has no effect: with --greedy the most")):
            self.assertIn(note, run(self.one, *generate, *options).stderr)
        for options in (["--greedy"], ["--temperature", "0"], ["--top-k", "3"], ["--seed", "5"]):
            self.assertNotIn("note: ", run(self.one, *generate, *options).stderr)

    def test_looking_ahead_gives_the_same_text(self):
        for program in (self.one, self.three, self.narrow):
            for options in (["--greedy"], ["--seed", "3", "--temperature", "0.3"],
                            ["--seed", "4", "--top-k", "5", "--overflow", "stop"]):
                plain = self.texts(program, self.prompts, *options, tokens=70)
                for most in ("1", "7", "50"):
                    ahead = self.texts(program, self.prompts, "--lookahead", most, *options, tokens=70)
                    self.assertEqual(ahead, plain)


class Windows(Folder):
    """Layers that see a window keep a ring of it, beside others that keep everything."""

    MODEL = """
model Windowed(vocab = 61, context = 600, width = 32, heads = 4, kv_heads = 2, window = 20) {
  token = Embedding(vocab, width)
  layer = repeat(4) as i Layer(width, heads, kv_heads, window = if i % 2 == 0 then window else none)
  norm  = RMSNorm(width)
  head  = Linear(width, vocab, bias = false)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    return head(norm(layer(token(tokens), positions(tokens))))
  }
}
module Layer(width, heads, kv_heads, window: int = none) {
  attn = RotaryAttention(width, heads, kv_heads = kv_heads, window = window)
  mlp  = SwiGLU(width, 2 * width)
  forward(x: [B, T, width], at: int[B, T]) -> [B, T, width] {
    x = x + attn(x, at)
    return x + mlp(x)
  }
}
"""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.source = cls.folder / "windowed.tfm"
        cls.source.write_text(cls.MODEL)
        report = json.loads(tfmc("report", cls.source, "--tensors", "--memory", "--format", "json").stdout)
        cls.memory = report["memory"]
        numbers = random.Random(5)
        tensors = {}
        for tensor in report["parameters"]["tensors"]:
            count = math.prod(tensor["shape"])
            scale = 1.0 if len(tensor["shape"]) == 1 else 1.2 / math.sqrt(tensor["shape"][-1])
            numbers_of = array.array("f", (numbers.gauss(0, scale) for _ in range(count)))
            tensors[tensor["name"]] = ("F32", tensor["shape"], numbers_of.tobytes())
        write_safetensors(cls.folder / "weights.safetensors", tensors)
        # Shorter than a chunk, longer than the ring of 320, and a multiple of a chunk.
        cls.prompts = [" ".join(str(numbers.randrange(61)) for _ in range(length)) for length in (3, 431, 256)]

    def texts(self, program, *options):
        (self.folder / "prompts.txt").write_text("\n".join(self.prompts) + "\n")
        lines = self.ok(program, "generate", "--weights", "weights.safetensors", "--prompts", "prompts.txt",
                        "--tokens", "140", "--json", *options).splitlines()
        texts = {text["index"]: text["ids"] for text in map(json.loads, lines)}
        return [texts[i] for i in range(len(self.prompts))]

    def test_caches(self):
        # Keys and values of 2 heads of 8 numbers, of 2 layers each.
        self.assertEqual(self.memory["cache"], 2 * 2 * 2 * 8 * 4 * (320 + 600))

    def test_tokens_are_those_of_whole_sequences(self):
        one = self.build(self.source).rename(self.folder / "one")
        many = self.build(self.source, "-D", "generate.batch=2").rename(self.folder / "many")
        greedy = self.texts(one, "--greedy")
        for prompt, ids in zip(self.prompts, greedy, strict=True):
            self.assertEqual(len(ids), 140)
            count = len(prompt.split())
            self.ok(one, "logits", "--weights", "weights.safetensors", "--prompt",
                    prompt + " " + " ".join(map(str, ids)), "-o", "logits.safetensors")
            logits = read_safetensors(self.folder / "logits.safetensors")["logits"]
            rows = values(logits)
            largest = max(map(abs, rows))
            for i, token in enumerate(ids):
                row = rows[(count + i - 1) * 61:(count + i) * 61]
                # The best, or as good as that but for rounding.
                self.assertGreaterEqual(row[token], max(row) - 1e-5 * largest, (count, i))
        self.assertEqual(self.texts(many, "--greedy"), greedy)
        narrow = self.build(self.source, "-D", "generate.batch=2", "-D", "generate.cache=int8").rename(
            self.folder / "narrow")
        for program in (one, many, narrow):
            for options in (["--greedy"], ["--seed", "3", "--temperature", "0.5"]):
                self.assertEqual(self.texts(program, "--lookahead", "7", *options), self.texts(program, *options))


class LlamaFolder(Fixture, Folder):
    NAME = "llama_tiny"
    IDS = ("--ids",)

    def test_configuration_of_another_model(self):
        folder = self.folder / "other"
        shutil.copytree(self.source, folder, copy_function=shutil.copyfile)
        config = json.loads((folder / "config.json").read_text())
        config.update(num_key_value_heads=3, rms_norm_eps=1e-5, tie_word_embeddings=True)
        # As transformers wrote it before version 5, and Llama 3.1 has it.
        config.update(rope_parameters=None, rope_theta=500000.0,
                      rope_scaling={"factor": 8.0, "rope_type": "llama3"})
        (folder / "config.json").write_text(json.dumps(config))
        message = self.fails(self.program, "generate", "--weights", folder, "--prompt", "1", "--ids")
        for part in ("num_key_value_heads is 3, here 2: build it with -D kv_heads=3",
                     "rms_norm_eps is 1e-05, here 1e-06: change it in",
                     "rope_theta is 500000.0, here 10000: change it in",
                     'rope_scaling.rope_type is "llama3", here default: `rope` has no such scaling',
                     "tie_word_embeddings is true, here false: give the output layer the weight"):
            self.assertIn(part, message)


class Tokenizers(Folder):
    """The tokenizer beside the weights."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        source = (MODELS / "gpt2.tfm").read_text()
        source = source[:source.index("tokenizer gpt2(")]
        (cls.folder / "bare.tfm").write_text(source)
        cls.sizes = {"context": 64, "width": 16, "heads": 2, "layers": 1}

    def weights(self, folder, vocabulary):
        """A folder with weights of no meaning for the model above."""
        folder.mkdir()
        report = json.loads(tfmc("report", "--format", "json", self.folder / "bare.tfm", "-D",
                                 f"vocab={vocabulary}", *self.defines()).stdout)
        tensors, state = {}, 1
        for tensor in report["parameters"]["tensors"]:
            data = array.array("f")
            for _ in range(tensor["parameters"]):
                state = state * 1103515245 + 12345 & 0x7fffffff
                data.append((state / 0x7fffffff - 0.5) * 0.2)
            tensors[tensor["name"]] = ("F32", tensor["shape"], data.tobytes())
        write_safetensors(folder / "model.safetensors", tensors)
        return folder

    def defines(self):
        return [part for name, value in self.sizes.items() for part in ("-D", f"{name}={value}")]

    def check(self, folder, cases, vocabulary):
        program = self.build(self.folder / "bare.tfm", "-D", f"vocab={vocabulary}",
                             *self.defines())

        def answer(prompt, *more):
            return json.loads(self.ok(program, "generate", "--weights", folder, "--greedy",
                                      "--tokens", "5", "--json", "--prompt-file", "-", *more,
                                      stdin=prompt))

        compared = 0
        for case in cases:
            # Standard input here is text: no lone surrogates, and no end-of-line games.
            if not 0 < len(case["ids"]) <= 50 or "\r" in case["text"]:
                continue
            text = answer(case["text"])
            ids = answer(" ".join(map(str, case["ids"])), "--ids")
            self.assertEqual(text["ids"], ids["ids"], case["text"])
            compared += 1
            if compared == 40:
                break
        self.assertEqual(compared, 40)
        return program

    def test_vocabulary_and_merges_of_gpt2(self):
        folder = self.weights(self.folder / "gpt2", 50257)
        for name in ("vocab.json", "merges.txt"):
            shutil.copy(MODELS / "gpt2" / name, folder)
        cases = json.loads((FIXTURES / "bpe" / "gpt2_true_vocabulary.json").read_text())["encode"]
        self.check(folder, cases, 50257)

    def test_tokenizer_json(self):
        folder = self.weights(self.folder / "bytes", 1000)
        shutil.copy(FIXTURES / "bpe" / "bytes" / "tokenizer.json", folder)
        cases = json.loads((FIXTURES / "bpe" / "bytes" / "cases.json").read_text())["encode"]
        program = self.check(folder, cases, 1000)
        # A tokenizer of another model.
        for name in ("vocab.json", "merges.txt"):
            shutil.copy(MODELS / "gpt2" / name, self.folder)
        message = self.fails(program, "generate", "--weights", folder, "--tokenizer", ".")
        self.assertIn("vocab.json has 50257 tokens", message)
        self.assertIn("vocabulary of 1000", message)
        # Faults have the name of their file.
        broken = self.folder / "broken"
        broken.mkdir()
        (broken / "vocab.json").write_text('{"a": 0}')
        (broken / "merges.txt").write_text("#version: 0.2\na  b\n")
        message = self.fails(program, "generate", "--weights", folder, "--tokenizer", broken)
        self.assertIn(f"{broken}/merges.txt:2: a merge is two tokens", message)
        (broken / "vocab.json").write_text("{")
        message = self.fails(program, "generate", "--weights", folder, "--tokenizer", broken)
        self.assertIn(f"{broken}/vocab.json is not valid JSON: it ends too early", message)

    def test_chat(self):
        cases = json.loads((FIXTURES / "bpe" / "steps" / "cases.json").read_text())["smollm"]["texts"]
        size = len(json.loads((FIXTURES / "bpe" / "steps" / "smollm.json").read_text())
                   ["model"]["vocab"])
        folder = self.weights(self.folder / "chat", size)
        shutil.copy(FIXTURES / "bpe" / "steps" / "smollm.json", folder / "tokenizer.json")
        program = self.check(folder, cases, size)
        generate = [program, "generate", "--weights", folder, "--greedy", "--tokens", "5", "--chat"]
        self.assertIn("there is no chat template", self.fails(*generate, "--prompt", "Hi"))
        (folder / "tokenizer_config.json").write_text(json.dumps({
            "eos_token": "<|endoftext|>",
            "chat_template": "{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}\n{% endfor %}"
                             "{% if messages[-1].role != 'user' %}{{ raise_exception('odd') }}{% endif %}"
                             "{% if add_generation_prompt %}[assistant]{% endif %}"}))
        rendered = "[user] Hi\n[assistant]"
        answer = json.loads(self.ok(*generate, "--prompt", " Hi ", "--json"))
        self.assertEqual(answer["prompt"], rendered)
        plain = json.loads(self.ok(*generate[:-1], "--prompt", rendered, "--json"))
        self.assertEqual(answer["ids"], plain["ids"])
        # People see the answer alone.
        self.assertEqual(self.ok(*generate, "--prompt", "Hi"), answer["text"] + "\n")
        # That of another folder is not taken in silence.
        bare = self.folder / "bare_tokenizer"
        bare.mkdir()
        shutil.copy(folder / "tokenizer.json", bare)
        result = run(*generate, "--tokenizer", bare, "--prompt", "Hi", cwd=self.folder)
        self.assertEqual(result.stdout, answer["text"] + "\n")
        self.assertIn(f"note: {bare} has a tokenizer and no chat template: that of {folder} is taken\n", result.stderr)
        self.assertNotIn("is taken", run(*generate, "--prompt", "Hi", cwd=self.folder).stderr)
        messages = [{"role": "system", "content": "Be."}, {"role": "user", "content": "A"},
                    {"role": "assistant", "content": "b"}, {"role": "user", "content": "C"}]
        (self.folder / "messages.json").write_text(json.dumps(messages))
        answer = json.loads(self.ok(*generate, "--prompt-file", "messages.json", "--json"))
        self.assertEqual(answer["prompt"],
                         "[system] Be.\n[user] A\n[assistant] b\n[user] C\n[assistant]")
        # Of many, that which the template refuses is named.
        (self.folder / "refused.txt").write_text("Hi\n" + json.dumps(messages[:3]) + "\n")
        result = run(*generate, "--prompts", "refused.txt", cwd=self.folder)
        self.assertRegex(result.stderr, r"error: refused\.txt:2: \S+tokenizer_config\.json: chat_template:2:\d+: the template refuses these "
                         "messages: odd\n")
        # A conversation: the second answer is that to all that was said.
        first, second = self.ok(*generate, "-i", stdin="A\n\nC\n").split("\n", 1)
        (self.folder / "messages.json").write_text(json.dumps(
            [messages[1], {"role": "assistant", "content": first}, messages[3]]))
        self.assertEqual(self.ok(*generate, "--prompt-file", "messages.json"), second)
        # In a file of prompts such a list is JSON, with the escapes of JSON alone.
        lines = [json.dumps([{"role": "user", "content": "a\nb\\tc"}]), "a\\nb\\\\tc"]
        (self.folder / "prompts.txt").write_text("\n".join(lines) + "\n")
        answers = [json.loads(line) for line in self.ok(*generate, "--prompts", "prompts.txt", "--json").splitlines()]
        self.assertEqual([answer["prompt"] for answer in answers], ["[user] a\nb\\tc\n[assistant]"] * 2)
        # Objects as requests to servers, and data sets, have them.
        (self.folder / "messages.json").write_text(json.dumps({"model": "m", "messages": messages}))
        whole = json.loads(self.ok(*generate, "--prompt-file", "messages.json", "--json"))
        self.assertEqual(whole["ids"], answer["ids"])
        lines = [{"messages": messages}, {"prompt": messages}, {"prompt": "Hi", "messages": 1}, {"prompt": []},
                 {"messages": []}, {"id": 1}]
        (self.folder / "prompts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        result = run(*generate, "--prompts", "prompts.jsonl", "--json", cwd=self.folder)
        self.assertEqual(result.returncode, INPUT_ERROR)
        for part in ("jsonl:4: the \"prompt\" of this object is no text", "3 of 6 prompts",
                     "jsonl:5: the \"messages\" of this object are no list of messages",
                     "jsonl:6: this object has neither \"prompt\" nor \"messages\"", "not id, messages beside it\n"):
            self.assertIn(part, result.stderr)
        texts = map(json.loads, result.stdout.splitlines())
        self.assertEqual([text["prompt"] for text in texts if text["ended"] != "failed"],
                         [answer["prompt"]] * 2 + [rendered])
        # What else the template may look at.
        config = json.loads((folder / "tokenizer_config.json").read_text())
        config["chat_template"] += "{{ tools | tojson }}{{ thinks }}"
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        lines = [{"messages": messages[1:2], "tools": [{"name": "f"}]}, {"prompt": "A"}]
        (self.folder / "prompts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        result = run(*generate, "--prompts", "prompts.jsonl", "--json", "--chat-template-kwargs", '{"thinks": false}',
                     cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([json.loads(line)["prompt"] for line in result.stdout.splitlines()],
                         ['[user] A\n[assistant][{"name": "f"}]False', "[user] A\n[assistant]nullFalse"])
        for options, message in ((["--chat", "--chat-template-kwargs", "thinks=false"], "this is no JSON"),
                                 (["--chat-template-kwargs", "{}"], "--chat-template-kwargs requires --chat")):
            result = run(*generate[:-1], "--prompt", "A", *options, cwd=self.folder)
            self.assertEqual(result.returncode, 2)
            self.assertIn(message, result.stderr)
        (self.folder / "messages.json").write_text(json.dumps(messages[:3]))
        self.assertIn("tokenizer_config.json: chat_template:2:",
                      self.fails(*generate, "--prompt-file", "messages.json"))

    def test_messages_are_data(self):
        folder = self.folder / "talk"
        folder.mkdir()
        shutil.copy(FIXTURES / "bpe" / "steps" / "smollm.json", folder / "tokenizer.json")
        (folder / "chat_template.jinja").write_text(
            "{{ day }}{{ tools | tojson }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}")
        (folder / "talk.jsonl").write_text(json.dumps(
            {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}], "tools": [{}]}))
        (folder / "talk.tfm").write_text((self.folder / "bare.tfm").read_text() + """
            tokenizer huggingface("tokenizer.json")
            data json("talk.jsonl", field = "messages")
            train { batch = 1, sequence = 32, steps = 1, loss = cross_entropy(ignore = -100) }
            """)
        program = self.build(folder / "talk.tfm", *self.defines())
        variables = ["--chat-template-kwargs", '{"day": "1 May"}']
        row = json.loads(self.ok(program, "data", "--json", *variables))["rows"][0]
        self.assertEqual(row["text"].partition("<|endoftext|>")[0], "1 May[{}][user]Hi[assistant]Ho")
        self.ok(program, "train", "--out", "talk/run", *variables)
        # Others are another loss.
        losses = {self.ok(program, "eval", "--weights", "talk/run", "--data", "talk/talk.jsonl", *more)
                  for more in (variables, variables, [])}
        self.assertEqual(len(losses), 2)
        # The run needs no longer what it was put into, nor has it what its weights began with.
        (folder / "chat_template.jinja").rename(folder / "template")
        other = folder / "other"
        other.mkdir()
        shutil.copy(folder / "tokenizer.json", other)
        (other / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages[0].content }}"}))
        own = (folder / "run" / "chat_template.jinja").read_text()
        self.assertEqual(own, (folder / "template").read_text())
        self.ok(program, "train", "--resume", "talk/run", "--steps", "2", *variables)
        answer = self.ok(program, "generate", "--weights", "talk/run", "--chat", "--prompt", "Hi", "--json", "--tokens", "1",
                         *variables)
        self.assertEqual(json.loads(answer)["prompt"], "1 Maynull[user]Hi")
        shutil.copy(folder / "template", other / "chat_template.jinja")
        (folder / "run" / "chat_template.jinja").write_text("{{ messages[0].role }}")
        self.ok(program, "train", "--init", "talk/run", "--tokenizer", other, "--out", "talk/next", *variables)
        self.assertEqual((folder / "next" / "chat_template.jinja").read_text(), own)
        # In place, too.
        (other / "chat_template.jinja").unlink()
        self.ok(program, "train", "--resume", "talk/next", "--tokenizer", other, "--steps", "2", *variables)
        self.assertFalse((folder / "next" / "chat_template.jinja").exists())
        self.assertIn("chat_template", json.loads((folder / "next" / "tokenizer_config.json").read_text()))

    def test_any_bytes_are_a_prompt_and_text_is_printed(self):
        (self.folder / "any.tfm").write_text((self.folder / "bare.tfm").read_text()
                                             + "tokenizer bytes\n")
        program = self.build(self.folder / "any.tfm", *self.defines())
        folder = self.weights(self.folder / "any", 256)
        (self.folder / "prompt.bin").write_bytes(b"a\xff\xc3b\xe2\x82")
        # Decoding what is printed as UTF-8 would fail.
        text = self.ok(program, "generate", "--weights", folder, "--prompt-file", "prompt.bin",
                       "--tokens", "3", "--seed", "1")
        self.assertTrue(text.startswith("a\ufffd\ufffdb\ufffd"), text)

    def test_words_are_parted_and_nothing_follows_the_last(self):
        for name in ("vocab.json", "merges.txt"):
            shutil.copy(FIXTURES / "bpe" / "word" / name, self.folder)
        (self.folder / "words.tfm").write_text(
            (self.folder / "bare.tfm").read_text()
            + 'tokenizer bpe_words("vocab.json", "merges.txt")\n')
        program = self.build(self.folder / "words.tfm", *self.defines())
        folder = self.weights(self.folder / "words", 276)
        vocabulary = json.loads((self.folder / "vocab.json").read_text())
        word = vocabulary["Africa</w>"]
        bias = ["--logit-bias", f"{word}=1e6", "--greedy", "--tokens", "2"]
        answer = json.loads(self.ok(program, "generate", "--weights", folder, "--prompt", "Africa",
                                    "--json", *bias))
        self.assertEqual(answer["ids"], [word, word])
        self.assertEqual(answer["text"], " Africa Africa")
        self.assertEqual(self.ok(program, "generate", "--weights", folder, "--prompt", "Africa",
                                 *bias), "Africa Africa Africa\n")

    def test_a_model_over_a_sentencepiece_vocabulary(self):
        shutil.copy(FIXTURES / "bpe" / "sentencepiece" / "llama.model", self.folder)
        source = (self.folder / "bare.tfm").read_text()
        (self.folder / "pieces.tfm").write_text(source + """
tokenizer sentencepiece("llama.model")
data text("play.txt", validation = 0.1)
train { batch = 2, sequence = 16, steps = 2, sample = every(1, prompt = "To be", tokens = 3) }
""")
        play = (MODELS / "tinyshakespeare.txt").read_text()[:5000]
        (self.folder / "play.txt").write_text(play)
        program = self.build(self.folder / "pieces.tfm", *self.defines())
        out = self.ok(program, "train", "--out", "pieces-run")
        self.assertIn("--- sample at step 1 ---\nTo be", out)

        def ids(*arguments):
            answer = self.ok(program, "generate", "--weights", "pieces-run", "--greedy", "--json",
                             "--tokens", "4", *arguments)
            return json.loads(answer)["ids"]

        # The text of this run did not begin with <s>, so its prompts do not either; under the
        # tokenizer as it was published they do.
        tokenizer = json.loads((self.folder / "pieces-run" / "tokenizer.json").read_text())
        self.assertIsNone(tokenizer["post_processor"])
        vocabulary = tokenizer["model"]["vocab"]
        begin = [vocabulary[token] for token in ("▁To", "▁be")]
        plain = " ".join(map(str, begin))
        self.assertEqual(ids("--prompt", "To be"), ids("--ids", "--prompt", plain))
        self.assertEqual(ids("--prompt", "To be", "--tokenizer", "llama.model"),
                         ids("--ids", "--prompt", f"{vocabulary['<s>']} {plain}"))
        for tokenizer, count in ([], 0), (["--tokenizer", "llama.model"], 1):
            measured = run(program, "eval", "--weights", "pieces-run", *tokenizer, cwd=self.folder)
            self.assertEqual(measured.returncode, 0, measured.stderr)
            self.assertEqual(measured.stderr.count("note: prompts begin with <s> here"), count, measured.stderr)

    def test_what_the_tokenizer_begins_texts_with(self):
        shutil.copy(FIXTURES / "bpe" / "sentencepiece" / "llama.model", self.folder)
        (self.folder / "begins.tfm").write_text((self.folder / "bare.tfm").read_text() + """
tokenizer sentencepiece("llama.model")
data lines("begins.txt")
train { batch = 2, sequence = 4, steps = 1, loss = cross_entropy(ignore = -1) }
""")
        (self.folder / "begins.txt").write_text("To be\nor not to be\n")
        note = ("note: the tokenizer puts <s> before texts, but the examples have none: build with "
                "-D 'data.begin=<s>' to train with it.")
        for defines, begins, notes in ([], [], 1), (["-D", "data.begin=<s>"], [1], 0):
            program = self.build(self.folder / "begins.tfm", *self.defines(), *defines)
            trained = run(program, "train", "--out", "begun", "--overwrite", cwd=self.folder)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            self.assertEqual(trained.stderr.count(note), notes, trained.stderr)
            # Once: the tokenizer of the run is that of its data.
            again = run(program, "train", "--init", "begun", "--out", "more", "--overwrite", cwd=self.folder)
            self.assertNotIn("note: the tokenizer puts", again.stderr)
            row = json.loads(self.ok(program, "data", "--json", "--count", "1"))["rows"][0]
            (self.folder / "written.txt").write_text("<s>To be\nor not to be\n")
            written = run(program, "train", "--data", "written.txt", "--out", "more", "--overwrite", cwd=self.folder)
            self.assertNotIn("note: the tokenizer puts", written.stderr)
            plain = [token for token in row["tokens"] if token != 1][:2]
            self.assertEqual(row["tokens"][:len(begins)], begins)
            # Generation begins as the data does, with the tokenizer of the run or the recipe's.
            for weights in ["begun"] + ["begun/model.safetensors"] * len(begins):
                ids = [json.loads(self.ok(program, "generate", "--weights", weights, "--greedy", "--json",
                                          "--tokens", "4", *prompt))["ids"]
                       for prompt in (["--prompt", "To be"],
                                      ["--ids", "--prompt", " ".join(map(str, begins + plain))])]
                self.assertEqual(*ids)


class Learning(Folder):
    def test_word_tokenizer_of_the_fixture(self):
        fixture = FIXTURES / "bpe" / "word"
        documents = [{"text": line} for line in
                     (fixture / "corpus.txt").read_text().splitlines()]
        (self.folder / "corpus.json").write_text(json.dumps(documents))
        (self.folder / "corpus.csv").write_text("text,number\n" + "".join(
            '"{}",{}\n'.format(document["text"].replace('"', '""'), i) for i, document in enumerate(documents)))
        for name, arguments in {"plain": [fixture / "corpus.txt"],
                                "json": ["corpus.json", "--field", "text"],
                                "table": ["corpus.csv", "--field", "text"]}.items():
            result = tfmc("tokenizer", *arguments, "--merges", "200", "-o", name, cwd=self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("200 merges, 276 tokens", result.stderr)
            learned = self.folder / name
            self.assertEqual((learned / "merges.txt").read_text(),
                             (fixture / "merges.txt").read_text())
            self.assertEqual(json.loads((learned / "vocab.json").read_text()),
                             json.loads((fixture / "vocab.json").read_text()))

    def test_bad_texts(self):
        (self.folder / "empty.txt").write_text("")
        (self.folder / "blank.txt").write_text(" \n")
        (self.folder / "bad.txt").write_bytes(b"good\nb\xffd\n")
        (self.folder / "other.json").write_text('[{"body": "x"}]')
        for arguments, part in [(["empty.txt"], "empty.txt is empty"),
                                (["none.txt"], "none.txt"),
                                (["blank.txt"], "no words"),
                                (["bad.txt"], "bad.txt:2: not UTF-8 text"),
                                (["other.json", "--field", "text"], 'field "text", but in "body": --field "body"\n')]:
            result = tfmc("tokenizer", *arguments, cwd=self.folder)
            self.assertEqual(result.returncode, INPUT_ERROR)
            self.assertIn(part, result.stderr)
            self.assertFalse((self.folder / "vocab.json").exists())


if __name__ == "__main__":
    main()
