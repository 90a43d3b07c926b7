#!/usr/bin/env python3
"""`tfmc import`: what transformers computes from the checkpoints of tests/fixtures/families, from a folder alone; and
no key of a config.json that changes anything is passed over."""

import array
import concurrent.futures
import copy
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from support import FIXTURES, ROOT, TFMC, InFolder, main, run, tfmc  # noqa: E402

FAMILIES = FIXTURES / "families"
TABLES = ROOT / "compiler" / "families"
PAGE = ROOT / "docs" / "families.md"
EXPECTED = {path.parent.name: json.loads(path.read_text()) for path in sorted(FAMILIES.glob("*/expected.json"))}
# Those that generate, and those that programs run.
CASES = [case for case, expected in EXPECTED.items() if "inputs" not in expected]
ENCODERS = [case for case, expected in EXPECTED.items() if "inputs" in expected]
# A vocabulary of 40, and data that is one window.
TRAIN = """
tokenizer chars("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN")
data tokens("ids.bin")
train {{ batch = 1, sequence = {length}, steps = 1, optimizer = sgd(lr = {rate}), schedule = constant(warmup = 0) }}
"""
RATE = 16.0
TRAINED = """
train {{ batch = 1, sequence = {length}{sizes}, steps = 1, optimizer = sgd(lr = 1.0), schedule = constant(warmup = 0) }}
"""
C_PROGRAM = ROOT / "tests" / "e2e" / "c_api" / "main.c"


def tensors(path):
    """The f32 tensors of a safetensors file, in their order there."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: array.array("f", data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"])}


def of_text(named):
    """Of what has names of tensors those of the text model, under the names that they have where it is alone."""
    return {name.removeprefix("language_model."): values for name, values in named.items()
            if not name.startswith(("vision_tower.", "multi_modal_projector."))}


def naming(name, words, what):
    """What is wrong where a message should name a key, and not all keys there are; empty: nothing."""
    is_named = re.search(rf"(config\.json: |\.)?\b{re.escape(name)}(\.\S+)? is |\({re.escape(name)}\)|"
                         rf"\(\S+\.{re.escape(name)}\)", words)
    others = [key for key in ("vocab_size", "hidden_size", "n_embd", "d_model") if key != name]
    if not is_named or sum(f"({key})" in words for key in others) > 1:
        return f"{what}: importing does not name it: {words}"
    return ""


def lines(text):
    """Without the comment that names the folder."""
    return text.splitlines()[1:]


def unanswered(entry, imported, text):
    """Whether a changed key is of another type than its class has, in what nothing computes with, or an integer where
    it has a number: transformers has no answer then, and the file is the same."""
    is_type = re.match(r"Validation error for field|module 'torch' has no", entry["fails"])
    return is_type and (lines(imported) == lines(text) or isinstance(entry["value"], int))


def in_parallel(work, items):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(work, items))


def changed(config, path, value):
    """A configuration with another value at `a.b`."""
    config = copy.deepcopy(config)
    *within, last = path.split(".")
    place = config
    for key in within:
        place = place.setdefault(key, {}) if isinstance(place.get(key, {}), dict) else place.update({key: {}}) or place[key]
    place[last] = value
    return config


class Encoders(InFolder):
    """Models that look ahead, or have an encoder beside the decoder: a program in C runs them."""
    off = {}
    # Texts in `forward`: the tables' length, or where there is none one of our own.
    CONTEXT = {"bert": 48, "roberta": 46, "t5": 12, "mt5": 12}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.texts = {}
        cls.problems = dict(zip(ENCODERS, in_parallel(cls.make, ENCODERS)))

    @classmethod
    def make(cls, case):
        os.mkdir(cls.path(case))
        imported = tfmc("import", FAMILIES / case)
        cls.texts[case] = imported.stdout
        return imported.stderr if imported.returncode else cls.program(case, imported.stdout, cls.path(case), TRAINED)

    @classmethod
    def context(cls, case):
        return cls.CONTEXT[EXPECTED[case]["case"]["model_type"]]

    @classmethod
    def program(cls, case, text, folder, recipe=""):
        """A program with a model in it; what went wrong, or nothing."""
        length = {name: len(values) for name, values in EXPECTED[case]["inputs"].items()}
        tokens = length["tokens"]
        sizes = f", S = {length['source']}" if "source" in length else ""
        model = os.path.join(folder, "model.tfm")
        pathlib.Path(model).write_text(text + recipe.format(length=tokens, sizes=sizes))
        context = ["-D", f"context={cls.context(case)}"]
        for command in ([TFMC, "build", model, *context, "--emit", "shared", "-o", os.path.join(folder, "model.so")],
                        [os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", "-I", ROOT, C_PROGRAM,
                         os.path.join(folder, "model.so"), "-o", os.path.join(folder, "program"), "-lm", "-lpthread",
                         f"-Wl,-rpath,{folder}"]):
            result = run(*command)
            if result.returncode != 0:
                return result.stderr
        return ""

    def call(self, case, folder, weights, function, **more):
        """The results of a function, one after the other, and the gradients; or what went wrong."""
        expected = EXPECTED[case]
        files = []
        for name, values in (expected["inputs"] | more).items():
            kind = "B" if name == "present" else "f" if name == "count" else "i"
            if function == "forward":
                values = values + [0] * (self.context(case) - len(values))
            path = os.path.join(folder, name + ".bin")
            pathlib.Path(path).write_bytes(array.array(kind, values).tobytes())
            files.append(f"{name}={path}")
        out = os.path.join(folder, "out.bin")
        result = run(os.path.join(folder, "program"), weights, "1", "call", function, out, *files)
        self.assertEqual(result.returncode, 0, result.stderr)
        return array.array("f", pathlib.Path(out).read_bytes())

    def weights(self, case):
        """A file under the model's own names, as the program wants it, and the binary that wrote it."""
        binary, out = self.path(case, "model"), self.path(case, "own.safetensors")
        if not os.path.exists(out):
            self.assertEqual(self.problems[case], "")
            built = tfmc("build", self.path(case, "model.tfm"), "-o", binary)
            self.assertEqual(built.returncode, 0, built.stderr)
            result = run(binary, "export", "--weights", FAMILIES / case, "-o", out)
            self.assertEqual(result.returncode, 0, result.stderr)
        return binary, out

    def off_by(self, found, rows):
        values = [value for row in rows for value in row]
        return max(abs(a - b) for a, b in zip(found, values)) / max(map(abs, values))

    def test_results(self):
        for case in ENCODERS:
            with self.subTest(case):
                expected = EXPECTED[case]
                found = self.call(case, self.path(case), self.weights(case)[1], "forward")
                count = self.context(case) * len(expected["logits"][0])
                self.assertEqual(len(found), count + len(expected["text"]))
                self.off.setdefault(case, {})["logits"] = self.off_by(found, expected["logits"])
                self.assertLessEqual(self.off[case]["logits"], 2e-6)
                if expected["text"]:
                    self.assertLessEqual(self.off_by(found[count:], [expected["text"]]), 2e-6)

    def test_loss_and_gradients(self):
        for case in ENCODERS:
            with self.subTest(case):
                expected = EXPECTED[case]
                binary, weights = self.weights(case)
                targets = expected["targets"]
                found = self.call(case, self.path(case), weights, "train", targets=targets, count=[len(targets)],
                                  rng=[0] * 4)
                listed = run(self.path(case, "program"), "buffers").stdout
                results = [line for line in listed.splitlines() if line.startswith("train out")]
                self.assertIn("train out loss", results[0])
                self.assertAlmostEqual(found[0], expected["loss"], delta=2e-6 * expected["loss"])
                self.off.setdefault(case, {})["loss"] = abs(found[0] - expected["loss"]) / expected["loss"]
                own = tensors(weights)
                at = len(found) - sum(map(len, own.values()))
                zero = 1e-7 * math.hypot(*(norm for _, norm, _ in expected["gradients"].values()))
                names = {re.sub(r"^(bert|roberta)\.", "", name): values for name, values in expected["gradients"].items()}
                for name, values in own.items():
                    gradient = found[at:at + len(values)]
                    at += len(values)
                    weighed, norm, largest = names.pop(re.sub(r"^(bert|roberta)\.", "", name))
                    close = 1e-5 * norm + zero
                    self.assertAlmostEqual(math.hypot(*gradient), norm, delta=close, msg=name)
                    self.assertAlmostEqual(sum(g * math.cos(i) for i, g in enumerate(gradient)), weighed,
                                           delta=4 * close, msg=name)
                    self.assertAlmostEqual(max(map(abs, gradient)), largest, delta=close, msg=name)
                self.assertEqual(names, {})

    def test_exported_folders(self):
        for case in ENCODERS:
            with self.subTest(case):
                out = self.path(case, "exported")
                result = run(self.weights(case)[0], "export", "--weights", FAMILIES / case, "-o", out + "/")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(tensors(out + "/model.safetensors"), tensors(FAMILIES / case / "model.safetensors"))
                self.assertEqual(lines(tfmc("import", out).stdout), lines(self.texts[case]))

    def test_weights_of_pickle_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(FAMILIES / "bloom/config.json", folder)
            pathlib.Path(folder, "pytorch_model.bin").write_bytes(b"")
            imported = tfmc("import", folder)
            self.assertEqual(imported.returncode, 0, imported.stderr)
            self.assertIn("no model.safetensors to check the file against; pytorch_model.bin must be saved as safetensors",
                          imported.stderr)

    def test_what_other_classes_have(self):
        """Heads that the class of the configuration has not, and old names of norms."""
        folder = self.path("other")
        shutil.copytree(FAMILIES / "bert_both", folder)
        config = json.loads(pathlib.Path(folder, "config.json").read_text())
        pathlib.Path(folder, "config.json").write_text(json.dumps(dict(config, architectures=["BertForMaskedLM"])))
        weights = pathlib.Path(folder, "model.safetensors")
        data = weights.read_bytes()
        for now, before in ((b"LayerNorm.weight", b"LayerNorm.gamma"), (b"LayerNorm.bias", b"LayerNorm.beta")):
            header = data[8:8 + struct.unpack("<Q", data[:8])[0]]
            renamed = header.replace(now, before)
            data = struct.pack("<Q", len(renamed)) + renamed + data[8 + len(header):]
        weights.write_bytes(data)
        imported = tfmc("import", folder)
        self.assertEqual(imported.returncode, 0, imported.stderr)
        self.assertIn('head = "words"', imported.stdout)
        self.assertEqual(self.program("bert_both", imported.stdout, folder), "")
        built = tfmc("build", os.path.join(folder, "model.tfm"), "-o", os.path.join(folder, "model"))
        self.assertEqual(built.returncode, 0, built.stderr)
        own = os.path.join(folder, "own.safetensors")
        result = run(os.path.join(folder, "model"), "export", "--weights", folder, "-o", own)
        self.assertEqual(result.returncode, 0, result.stderr)
        found = self.call("bert_both", folder, own, "forward")
        self.assertLessEqual(self.off_by(found, EXPECTED["bert_both"]["logits"]), 2e-6)

    def test_they_do_not_generate(self):
        for name in ("bert", "roberta"):
            imported = tfmc("import", FAMILIES / name)
            self.assertNotIn("generate", imported.stdout)
            self.assertNotIn("warning", imported.stderr)
        self.assertIn("generate {", tfmc("import", FAMILIES / "llama").stdout)
        binary, _ = self.weights("bert")
        told = run(binary, "info").stdout
        self.assertNotRegex(told, r"(?m)^  generation|commands .*generate")
        result = run(binary, "generate", "--weights", FAMILIES / "bert", "--ids", "--prompt", "1 2")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the model takes `segments`, which no texts fill: what they fill is "
                      "`tokens`, int[B, T]. Let arrays fill it, `data arrays(...)`, or run the model from a program of "
                      "your own", result.stderr)

    def test_greedy_answers_through_the_cache(self):
        for case in ("t5", "t5_gated", "mt5"):
            with self.subTest(case):
                expected = EXPECTED[case]
                binary, _ = self.weights(case)
                self.assertRegex(run(binary, "info").stdout, r"(?m)^  generation +1 text, prompts in chunks")
                result = run(binary, "generate", "--weights", FAMILIES / case, "--ids", "--prompt",
                             " ".join(map(str, expected["ids"][:9])), "--greedy", "--tokens", str(len(expected["added"])),
                             "--json", "--logprobs", "0")
                self.assertEqual(result.returncode, 0, result.stderr)
                text = json.loads(result.stdout)
                self.assertEqual(text["ids"], expected["added"])
                for token, logprob in zip(text["logprobs"], expected["logprobs"]):
                    self.assertAlmostEqual(token["logprob"], logprob, delta=2e-5)

    def test_how_answers_begin(self):
        """As the folder says."""
        folder = self.path("begins")
        shutil.copytree(FAMILIES / "t5", folder)
        os.remove(os.path.join(folder, "generation_config.json"))
        config = json.loads(pathlib.Path(folder, "config.json").read_text())
        binary, _ = self.weights("t5")
        for begin, told in ((40, "config.json: decoder_start_token_id is no token id, but 40"),
                            (None, "nothing says which token answers begin with")):
            pathlib.Path(folder, "config.json").write_text(json.dumps(dict(config, decoder_start_token_id=begin)))
            result = run(binary, "generate", "--weights", folder, "--ids", "--prompt", "1 2")
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertIn(told, result.stderr)

    def judge(self, item):
        """As of decoders, below."""
        case, number, entry = item
        key, expected = entry["key"], EXPECTED[case]
        what = f"{case}: {key} = {json.dumps(entry['value'])}"
        folder = self.path(f"{case}-{number}")
        os.mkdir(folder)
        config = json.loads((FAMILIES / case / "config.json").read_text())
        pathlib.Path(folder, "config.json").write_text(json.dumps(changed(config, key, entry["value"])))
        os.symlink(FAMILIES / case / "model.safetensors", os.path.join(folder, "model.safetensors"))
        compared = tfmc("report", self.path(case, "model.tfm"), "--against", folder)
        if compared.returncode == 0 and entry.get("logits") is not None:
            return f"{what}: it is taken for the same, though transformers computes something else"
        imported = tfmc("import", folder)
        if imported.returncode != 0:
            return naming(key.split(".")[-1], imported.stderr, what)
        if "fails" in entry:
            is_fine = unanswered(entry, imported.stdout, self.texts[case])
            return "" if is_fine else f"{what}: imported, but for transformers {entry['fails']}"
        if lines(imported.stdout) == lines(self.texts[case]):
            return "" if entry["logits"] is None else f"{what}: the file is the same, but not the answer"
        if problem := self.program(case, imported.stdout, folder):
            return f"{what}: {problem}"
        rows, width = expected["logits"], len(expected["logits"][0])
        found = self.call(case, folder, self.weights(case)[1], "forward")[:len(rows) * width]
        if entry["logits"] is not None:
            middle = len(rows) // 2 * width
            rows, found = entry["logits"], found[-width:] + found[middle:middle + width]
        off = self.off_by(found, rows)
        return f"{what}: the answer is {off:.1e} off" if off > 4e-6 else ""

    def test_every_key_counts_or_is_named(self):
        items = [(case, number, entry) for case in ENCODERS for number, entry in enumerate(EXPECTED[case]["keys"])]
        self.assertGreater(len(items), 60)
        for case in ENCODERS:
            self.weights(case)
        problems = [problem for problem in in_parallel(self.judge, items) if problem]
        self.assertFalse(problems, "\n" + "\n".join(problems))


class Families(InFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.texts = {}
        # How far what was compared is off, for the page.
        cls.off = {case: {} for case in CASES}
        cls.builds = dict(zip(CASES, in_parallel(cls.make, CASES)))

    @classmethod
    def make(cls, case):
        """Imports and builds, with a recipe to train by; the binary, or what went wrong."""
        folder = cls.path(case)
        os.mkdir(folder)
        expected = EXPECTED[case]
        imported = tfmc("import", FAMILIES / case)
        if imported.returncode != 0:
            return imported.stderr
        cls.texts[case] = imported.stdout
        with open(os.path.join(folder, "ids.bin"), "wb") as file:
            file.write(struct.pack(f"<{len(expected['ids'])}H", *expected["ids"]))
        model = os.path.join(folder, "model.tfm")
        pathlib.Path(model).write_text(imported.stdout + TRAIN.format(length=len(expected["ids"]) - 1, rate=RATE))
        built = tfmc("build", model, "-o", os.path.join(folder, "model"))
        return built.stderr if built.returncode != 0 else os.path.join(folder, "model")

    def binary(self, case):
        build = self.builds[case]
        self.assertTrue(os.path.exists(build), build)
        return build

    def logits(self, binary, weights, ids):
        place = os.path.dirname(binary) if str(weights).startswith(str(FAMILIES)) else weights
        out = os.path.join(place, "logits.safetensors")
        result = run(binary, "logits", "--weights", weights, "--ids", "--prompt", " ".join(map(str, ids)), "-o", out)
        if result.returncode != 0:
            return None, result.stderr
        values = tensors(out)["logits"]
        return [values[40 * i:40 * i + 40] for i in range(len(ids))], result.stderr

    def assertLogits(self, found, expected, what):
        largest = max(abs(value) for row in expected for value in row)
        worst = max(abs(a - b) for own, row in zip(found, expected) for a, b in zip(own, row))
        self.assertLessEqual(worst, 2e-6 * largest, what)
        return worst / largest

    def test_logits(self):
        for case in CASES:
            with self.subTest(case):
                expected = EXPECTED[case]
                found, words = self.logits(self.binary(case), FAMILIES / case, expected["ids"])
                self.assertIsNotNone(found, words)
                self.assertEqual(len(found), len(expected["logits"]))
                self.off[case]["logits"] = self.assertLogits(found, expected["logits"], case)

    def test_greedy_tokens_through_the_cache(self):
        for case in CASES:
            with self.subTest(case):
                expected = EXPECTED[case]
                result = run(self.binary(case), "generate", "--weights", FAMILIES / case, "--ids", "--prompt",
                             " ".join(map(str, expected["ids"][:4])), "--greedy", "--tokens", str(len(expected["added"])),
                             "--json", "--logprobs", "1")
                self.assertEqual(result.returncode, 0, result.stderr)
                text = json.loads(result.stdout)
                self.assertEqual(text["ids"], expected["added"])
                # Those of the whole sequence, in transformers.
                for token, logprob in zip(text["logprobs"], expected["logprobs"]):
                    self.assertAlmostEqual(token["logprob"] or 0.0, logprob, delta=2e-5)

    def test_loss_and_gradients(self):
        for case in CASES:
            with self.subTest(case):
                expected = EXPECTED[case]
                out = self.path(case, "run")
                result = run(self.binary(case), "train", "--init", FAMILIES / case, "--out", out, "--json")
                self.assertEqual(result.returncode, 0, result.stderr)
                log = [json.loads(line) for line in pathlib.Path(out, "log.jsonl").read_text().splitlines()]
                loss = next(line["loss"] for line in log if "loss" in line)
                self.assertAlmostEqual(loss, expected["loss"], delta=2e-6 * expected["loss"])
                self.off[case]["loss"] = abs(loss - expected["loss"]) / expected["loss"]
                before, after = tensors(FAMILIES / case / "model.safetensors"), tensors(out + "/model.safetensors")
                before, after, gradients = of_text(before), of_text(after), of_text(expected["gradients"])
                self.assertEqual(sorted(gradients), sorted(before))
                # Some are zero, but for how sums are rounded: softmax takes no notice of the bias of keys.
                zero = 1e-7 * math.hypot(*(norm for _, norm, _ in gradients.values()))
                for name, (weighed, norm, largest) in gradients.items():
                    gradient = [(a - b) / RATE for a, b in zip(before[name], after[name])]
                    # A step is rounded as its weights are, to 24 bits.
                    rounding = 2**-24 / RATE * max(map(abs, before[name])) * math.sqrt(len(gradient)) + zero
                    self.assertAlmostEqual(math.hypot(*gradient), norm, delta=1e-5 * norm + rounding, msg=name)
                    self.assertAlmostEqual(sum(g * math.cos(i) for i, g in enumerate(gradient)), weighed,
                                           delta=1e-5 * norm + 4 * rounding, msg=name)
                    self.assertAlmostEqual(max(map(abs, gradient)), largest, delta=1e-5 * norm + rounding, msg=name)

    def export(self, case):
        """What is wrong with the folders that weights are exported to; empty: nothing."""
        binary, own = self.binary(case), FAMILIES / case
        if not os.path.exists(self.path(case, "file")):
            os.mkdir(self.path(case, "file"))
            shutil.copy(own / "model.safetensors", self.path(case, "file"))
        stored = of_text(tensors(own / "model.safetensors"))
        # With its configuration, and with that of the family, as a file of weights has none.
        for kind, weights in (("folder", own), ("family", self.path(case, "file", "model.safetensors"))):
            out = self.path(case, "as-" + kind)
            result = run(binary, "export", "--weights", weights, "-o", out + "/")
            if result.returncode != 0:
                return f"{case}: {result.stderr}"
            if tensors(out + "/model.safetensors") != stored:
                return f"{case}: {kind}: the tensors are {sorted(tensors(out + '/model.safetensors'))}"
            again = tfmc("import", out)
            if again.returncode != 0:
                return f"{case}: {kind}: {again.stderr}"
            def values(text):
                path = out + ".tfm"
                pathlib.Path(path).write_text(text)
                return json.loads(tfmc("report", path, "--format", "json").stdout)["hyperparameters"]
            if values(again.stdout) != values(self.texts[case]):
                return f"{case}: {kind}: {again.stdout}"
        return ""

    def test_exported_folders(self):
        problems = [problem for problem in in_parallel(self.export, CASES) if problem]
        self.assertFalse(problems, "\n" + "\n".join(problems))

    def judge(self, item):
        """What is wrong with the answer to one changed key; empty: nothing."""
        case, number, entry = item
        key, expected = entry["key"], EXPECTED[case]
        what = f"{case}: {key} = {json.dumps(entry['value'])}"
        name = key.split(".")[-1]
        folder = self.path(case, f"key-{number}")
        os.mkdir(folder)
        config = json.loads((FAMILIES / case / "config.json").read_text())
        pathlib.Path(folder, "config.json").write_text(json.dumps(changed(config, key, entry["value"])))
        os.symlink(FAMILIES / case / "model.safetensors", os.path.join(folder, "model.safetensors"))
        ids = expected["ids"]
        # Weights that are loaded into the model of the unchanged configuration.
        found, words = self.logits(self.binary(case), folder, ids)
        # What is null is absent, and named may be what counts then.
        if found is None and entry["value"] is not None and not re.search(
                rf"\b{re.escape(name)}(\.\S+)? is ", words):
            return f"{what}: loading does not name it: {words}"
        # Where transformers has no answer importing has to see it: weights are those of the other configuration.
        if found is not None and entry.get("logits") is not None:
            return f"{what}: loading takes it, though transformers computes something else"
        imported = tfmc("import", folder)
        if imported.returncode != 0:
            return naming(name, imported.stderr, what)
        if "fails" in entry:
            is_fine = unanswered(entry, imported.stdout, self.texts[case])
            return "" if is_fine else f"{what}: imported, but for transformers {entry['fails']}"
        rows = entry["logits"] or [expected["logits"][-1], expected["logits"][len(ids) // 2]]
        if lines(imported.stdout) == lines(self.texts[case]):
            return "" if entry["logits"] is None else f"{what}: the file is the same, but not the answer"
        model = os.path.join(folder, "model.tfm")
        pathlib.Path(model).write_text(imported.stdout)
        built = tfmc("build", model, "-o", os.path.join(folder, "model"))
        if built.returncode != 0:
            return f"{what}: {built.stderr}"
        found, words = self.logits(os.path.join(folder, "model"), folder, ids)
        if found is None:
            return f"{what}: {words}"
        os.remove(os.path.join(folder, "model"))
        largest = max(abs(value) for row in rows for value in row)
        worst = max(abs(a - b) for own, row in zip([found[-1], found[len(ids) // 2]], rows) for a, b in zip(own, row))
        return f"{what}: the answer is {worst / largest:.1e} off" if worst > 4e-6 * largest else ""

    def test_every_key_counts_or_is_named(self):
        items = [(case, number, entry) for case in CASES for number, entry in enumerate(EXPECTED[case]["keys"])]
        self.assertGreater(len(items), 400)
        problems = [problem for problem in in_parallel(self.judge, items) if problem]
        self.assertFalse(problems, "\n" + "\n".join(problems))


    def model_of(self, table):
        """Of a table that names none the one of what it includes."""
        named = json.loads(table.read_text())
        if "model" in named:
            return TABLES / named["model"]
        return self.model_of(TABLES / (named["include"][-1] + ".json"))

    def test_the_page(self):
        """docs/families.md has a line for each family; TFM_WRITE_FAMILIES=1 writes them."""
        sizes = json.loads((FAMILIES / "sizes.json").read_text())
        off = self.off | Encoders.off
        rows = ["| family | paper | checkpoints compared | keys changed | sizes counted | logits off by | loss off by |",
                "|---|---|---|---|---|---|---|"]
        for table in sorted(TABLES.glob("*.json")):
            named = json.loads(table.read_text())
            kind = named.get("model_type")
            if not kind:
                continue
            kinds = [kind, *named.get("part_of", [])]
            cases = [case for case in EXPECTED if EXPECTED[case]["case"]["model_type"] in kinds]
            self.assertTrue(cases, f"{kind} has no checkpoint")
            words = re.match(r"(?:/// .*\n)+", self.model_of(table).read_text())[0].replace("\n///", "")
            paper = re.match(r'/// (.*?)(?:, under the|, its text model)', words)[1]
            keys = sum(len(EXPECTED[case]["keys"]) for case in cases)
            worst = [max((off.get(case, {}).get(what, 0) for case in cases), default=0) for what in ("logits", "loss")]
            rows.append(f"| `{kind}` | {paper} | {len(cases)} | {keys} | " +
                        f"{sum(entry['model_type'] == kind for entry in sizes.values())} | " +
                        " | ".join(f"{math.ceil(value * 1e7) / 1e7:.0e}" for value in worst) + " |")
        page = PAGE.read_text()
        begin, end = page.index("| family |"), page.index("\n\n", page.index("| family |"))
        if os.environ.get("TFM_WRITE_FAMILIES"):
            PAGE.write_text(page[:begin] + "\n".join(rows) + page[end:])
            return
        def stable(some):
            return [row.split(" | ")[:5] for row in some]
        self.assertEqual(stable(page[begin:end].splitlines()), stable(rows), "TFM_WRITE_FAMILIES=1 writes the page")


class WithoutAFamily(InFolder):
    """Models that were written by hand: what the graph shows is compared with a config.json, and loading says what it
    does not show."""
    CHANGED = {
        "gpt2": {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True, "activation_function": "quick_gelu"},
        "gpt_neox": {"use_parallel_residual": False},
        "gpt_neox_serial": {"use_parallel_residual": True},
        "opt": {"do_layer_norm_before": False},
        "opt_350m": {"do_layer_norm_before": True},
        "gemma": {"hidden_act": "relu", "use_bidirectional_attention": True},
        "gemma2": {"final_logit_softcapping": 20.0, "query_pre_attn_scalar": 64, "hidden_activation": "gelu",
                   "use_bidirectional_attention": True},
        "qwen3": {"hidden_act": "quick_gelu"},
        "falcon_7b": {"parallel_attn": False},
    }

    def make(self, case):
        """The model of a family without its name, its binary, and what went wrong."""
        model, binary = self.path(case + ".tfm"), self.path(case)
        imported = tfmc("import", FAMILIES / case)
        pathlib.Path(model).write_text(re.sub(r'family "\w+"\n', "", imported.stdout))
        return model, binary, tfmc("build", model, "-o", binary).stderr

    def silent(self, case):
        """The changed keys that transformers answers with something else and loading is silent about; what is null is
        absent, and cannot be named."""
        _, binary, problem = self.make(case)
        if problem:
            return [f"{case}: {problem}"]
        config, keys = json.loads((FAMILIES / case / "config.json").read_text()), []
        for entry in EXPECTED[case]["keys"]:
            if entry.get("logits") is None or entry["value"] is None:
                continue
            folder = self.path(f"{case}-key-{len(keys)}")
            os.mkdir(folder)
            pathlib.Path(folder, "config.json").write_text(json.dumps(changed(config, entry["key"], entry["value"])))
            os.symlink(FAMILIES / case / "model.safetensors", os.path.join(folder, "model.safetensors"))
            result = run(binary, "generate", "--weights", folder, "--ids", "--prompt", "5 6", "--tokens", "1")
            places = itertools.accumulate(entry["key"].split("."), "{}.{}".format)
            is_named = any(re.search(rf"[\s,]{re.escape(place)}(\.\S+)?( is |,|$)", result.stderr, re.M) for place in places)
            keys.append("" if is_named else f"{case}: {entry['key']} = {json.dumps(entry['value'])}: {result.stderr}")
        return keys

    def test_no_key_is_passed_over(self):
        # What reads pictures beside a text model a family alone knows: without one loading refuses those tensors.
        judged = list(itertools.chain(*in_parallel(self.silent, [case for case in CASES if case != "gemma3"])))
        self.assertGreater(len(judged), 120)
        problems = [problem for problem in judged if problem]
        self.assertFalse(problems, "\n" + "\n".join(problems))

    def judge(self, case):
        """What is wrong; empty: nothing."""
        model, binary, problem = self.make(case)
        folder = self.path(case + "-folder")
        if problem:
            return problem
        shutil.copytree(FAMILIES / case, folder)
        config = json.loads((FAMILIES / case / "config.json").read_text())

        def load(config):
            pathlib.Path(folder, "config.json").write_text(json.dumps(config))
            return run(binary, "generate", "--weights", folder, "--ids", "--prompt", "5 6", "--tokens", "1")
        result = load(config)
        if result.returncode != 0 or "note:" in result.stderr:
            return f"{case}: {result.stderr}"
        for key, value in self.CHANGED[case].items():
            result = load(dict(config, **{key: value}))
            compared = tfmc("report", model, "--against", folder)
            if (result.returncode, compared.returncode) != (1, 1) or f"\n  {key} is " not in result.stderr:
                return f"{case}: {key} is {value}, but {result.stderr}{compared.stdout}"
        return ""

    def test_what_the_graph_shows_is_compared(self):
        problems = [problem for problem in in_parallel(self.judge, self.CHANGED) if problem]
        self.assertFalse(problems, "\n" + "\n".join(problems))

    def test_a_folder_that_is_not_found_again(self):
        """No JSON has a name that is not UTF-8, so the checkpoint cannot name it: exporting says so."""
        folder, model = self.path("folder-\udcff"), self.path("gpt2-own")
        shutil.copytree(FAMILIES / "gpt2", folder)
        length = len(EXPECTED["gpt2"]["ids"]) - 1
        pathlib.Path(self.path("ids.bin")).write_bytes(struct.pack(f"<{length + 1}H", *EXPECTED["gpt2"]["ids"]))
        text = tfmc("import", FAMILIES / "gpt2").stdout + TRAIN.format(length=length, rate=RATE)
        for family, status, words in (('family "gpt2"', 0, "names and configuration are those of the family"),
                                      ("", 1, "names no `family`")):
            pathlib.Path(model + ".tfm").write_text(text.replace('family "gpt2"', family))
            built = tfmc("build", model + ".tfm", "-o", model)
            self.assertEqual(built.returncode, 0, built.stderr)
            direct = run(model, "export", "--weights", folder, "-o", self.path(f"direct-{status}/"))
            self.assertEqual(direct.returncode, 0, direct.stderr)
            trained = run(model, "train", "--init", folder, "--out", self.path(f"run-{status}"))
            self.assertEqual(trained.returncode, 0, trained.stderr)
            result = run(model, "export", "--weights", self.path(f"run-{status}"), "-o", self.path(f"out-{status}/"))
            self.assertEqual(result.returncode, status, result.stderr)
            self.assertIn("which training began with, has no config.json, is not there any more, or had a name that is "
                          "not UTF-8", result.stderr)
            self.assertIn(words, result.stderr)

    def test_what_it_does_not_show_is_said(self):
        model, binary = self.path("llama.tfm"), self.path("llama")
        imported = tfmc("import", FAMILIES / "llama")
        pathlib.Path(model).write_text(imported.stdout.replace('family "llama"', ""))
        self.assertEqual(tfmc("build", model, "-o", binary).returncode, 0)
        folder = self.path("other")
        shutil.copytree(FAMILIES / "llama", folder)
        config = json.loads((FAMILIES / "llama" / "config.json").read_text())
        pathlib.Path(folder, "config.json").write_text(json.dumps(dict(config, alibi=True, clip_qkv=None)))
        result = run(binary, "generate", "--weights", folder, "--ids", "--prompt", "5 6", "--tokens", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"note: whether Llama computes with what {folder}/config.json says cannot be compared: alibi\n",
                      result.stderr)


class Sizes(unittest.TestCase):
    def total(self, item):
        name, entry = item
        with tempfile.TemporaryDirectory() as folder:
            config = dict(entry["config"], model_type=entry["model_type"])
            if "class" in entry:
                config["architectures"] = [entry["class"]]
            pathlib.Path(folder, "config.json").write_text(json.dumps(config))
            model = os.path.join(folder, "model.tfm")
            imported = tfmc("import", folder, "-o", model)
            if imported.returncode != 0:
                return name, imported.stderr
            report = tfmc("report", "--depth", "0", model)
            found = re.search(r"([\d,]+) parameters", report.stdout)
            return name, int(found[1].replace(",", "")) if found else report.stdout + report.stderr

    def test_published_sizes(self):
        sizes = json.loads((FAMILIES / "sizes.json").read_text())
        self.assertGreater(len(sizes), 50)
        found = dict(in_parallel(self.total, sizes.items()))
        self.assertEqual(found, {name: entry["parameters"] for name, entry in sizes.items()})


class Folders(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.model = os.path.join(self.folder.name, "m")
        shutil.copytree(FAMILIES / "llama", self.model)
        self.config = json.loads((FAMILIES / "llama" / "config.json").read_text())

    def tearDown(self):
        self.folder.cleanup()

    def write(self, config, name="config.json"):
        text = config if isinstance(config, str) else json.dumps(config)
        pathlib.Path(self.model, name).write_text(text)

    def refused(self, *words, options=()):
        result = tfmc("import", self.model, *options)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(result.stdout, "")
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertNotIn("internal error", result.stderr)

    def test_one_command(self):
        expected = EXPECTED["llama"]
        environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(self.folder.name, "cache"))
        command = [self.model, "generate", "--ids", "--prompt", " ".join(map(str, expected["ids"][:4])), "--tokens", "8"]
        texts = []
        for _ in range(2):
            os.environ["XDG_CACHE_HOME"], before = environment["XDG_CACHE_HOME"], os.environ.get("XDG_CACHE_HOME")
            try:
                result = tfmc("run", *command)
                told = [tfmc("run", self.model, "generate", *words) for words in (["--help"], ["--promt", "x"])]
            finally:
                os.environ.pop("XDG_CACHE_HOME")
                if before is not None:
                    os.environ["XDG_CACHE_HOME"] = before
            self.assertEqual(result.returncode, 0, result.stderr)
            texts.append(result.stdout.split())
            # What was typed is what the program is called.
            self.assertEqual([told[0].returncode, told[1].returncode], [0, 2])
            self.assertIn(f"tfmc run {self.model} generate", told[0].stdout)
            self.assertIn(f"`tfmc run {self.model} generate --help`", told[1].stderr)
            self.assertNotIn("model.tfm", told[0].stdout + told[1].stderr)
        # What is drawn is not that of the folder.
        drawn = tfmc("run", self.model, "export", "--seed", "1", "-o", os.path.join(self.folder.name, "drawn.safetensors"),
                     environment=environment)
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        for words in (["train"], ["data"], ["eval", "--data", "text.txt"]):
            result = tfmc("run", self.model, *words)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"`{words[0]}` needs a `train` block", result.stderr)
            self.assertIn(f"`tfmc import {self.model} -o FILE`", result.stderr)
        # Greedy, as the folder says nothing else.
        self.assertEqual(texts, 2 * [list(map(str, expected["ids"][:4] + expected["added"]))])

    def test_what_nobody_knows_is_refused(self):
        self.write(dict(self.config, parallel_attn=True))
        self.refused("config.json: parallel_attn is true: this family does not know it", "--ignore-key parallel_attn")
        accepted = tfmc("import", self.model, "--ignore-key", "parallel_attn")
        self.assertEqual(accepted.returncode, 0, accepted.stderr)
        self.assertIn("warning", accepted.stderr)
        self.assertIn('family "llama" ignoring "parallel_attn"', accepted.stdout)
        self.refused("--ignore-key nothing", options=["--ignore-key", "nothing"])
        for known in ("hidden_size", "use_cache", "generation_config.top_k"):
            self.write({"do_sample": True, "top_k": 3}, "generation_config.json")
            self.refused(f"--ignore-key {known}: the family llama knows this key", options=["--ignore-key", known])
        os.environ["TFM_FAMILIES"] = ""
        try:
            self.assertEqual(tfmc("import", self.model, "--ignore-key", "parallel_attn").returncode, 0)
        finally:
            del os.environ["TFM_FAMILIES"]
        # What says nothing is none of it.
        self.write(dict(self.config, a=None, b=False, c="", d=[], e={}))
        self.assertEqual(tfmc("import", self.model).returncode, 0)
        self.write(dict(self.config, **{"rope_parameters.rope_theta": 3.0}))
        self.refused("rope_parameters.rope_theta is 3.0: this family does not know it")

    def test_damaged_configurations(self):
        for text in ("", "[", "[]", "null", '"llama"', "{", '{"model_type": "llama",}', "\\xff", "[" * 10000):
            self.write(text)
            self.refused("config.json")
        for value in (None, 3, [], {}, "", "nothing", "../llama", "llama.json", "common", "rope"):
            self.write(dict(self.config, model_type=value))
            self.refused("config.json", "model_type")
        for key in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "rms_norm_eps", "hidden_act",
                    "tie_word_embeddings", "max_position_embeddings", "attention_bias", "num_key_value_heads"):
            for value in (-1, 0, 1.5, "x", [], {}, [1], {"a": 1}, 10**30, 1e300, 2**31, True):
                is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
                if (is_number and key == "rms_norm_eps") or (value is True and key in ("attention_bias", "tie_word_embeddings")):
                    continue
                self.write(dict(self.config, **{key: value}))
                self.refused("config.json", key)
        for value in (3, "x", [1], {"rope_type": 3}, {"rope_theta": "x"}, {"rope_type": "yarn"}, {"what": 1}):
            self.write(dict(self.config, rope_parameters=value))
            self.refused("config.json", "rope_parameters")
        os.remove(os.path.join(self.model, "config.json"))
        self.refused("there is no config.json")

    def test_heads_of_a_width_of_their_own(self):
        # What head_dim would be without being said is no integer.
        os.remove(os.path.join(self.model, "model.safetensors"))
        self.write(dict(self.config, hidden_size=30))
        imported = tfmc("import", self.model)
        self.assertEqual(imported.returncode, 0, imported.stderr)
        self.assertIn("head_width = 8", imported.stdout)
        self.write(dict(self.config, hidden_size=30, head_dim=None))
        self.refused("width / heads is no integer: 30 / 4", "config.json describes no model of the family llama")

    def test_other_weights_are_refused(self):
        shutil.copy(FAMILIES / "qwen2" / "model.safetensors", self.model)
        self.refused("model.layers.*.self_attn.q_proj.bias", "unexpected", "attention_bias")
        shutil.copy(FAMILIES / "llama" / "model.safetensors", self.model)
        # By its value and the one that the weights have, and once for all layers.
        self.write(dict(self.config, intermediate_size=56, num_hidden_layers=5))
        self.refused("intermediate_size is 56, and theirs is 40", "num_hidden_layers is 5, and theirs is 2",
                     "model.layers.*.mlp.up_proj.weight", "(2 tensors)")
        out = os.path.join(self.folder.name, "own.tfm")
        self.write(self.config)
        self.assertEqual(tfmc("import", self.model, "-o", out).returncode, 0)
        # What was added to it is not lost.
        imported = pathlib.Path(out).read_text()
        self.assertEqual(tfmc("import", self.model, "-o", out).returncode, 0)
        pathlib.Path(out).write_text(imported + "train { steps = 3 }\n")
        again = tfmc("import", self.model, "-o", out)
        self.assertEqual(again.returncode, 1)
        self.assertIn(f"{out} exists already, and says something else, which would be lost: choose another place (-o), "
                      "or pass --overwrite\n", again.stderr)
        self.assertEqual(pathlib.Path(out).read_text(), imported + "train { steps = 3 }\n")
        self.assertEqual(tfmc("import", self.model, "-o", out, "--overwrite").returncode, 0)
        self.assertEqual(pathlib.Path(out).read_text(), imported)
        compared = tfmc("report", out, "-D", "hidden=56", "-D", "layers=5", "--against", self.model)
        self.assertEqual(compared.returncode, 1, compared.stderr)
        self.assertIn("the checkpoint's sizes are those of -D hidden=40 -D layers=2", compared.stdout)
        # A number that no layer has is no number of layers.
        file = pathlib.Path(self.model, "model.safetensors")
        data = file.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = data[8:8 + size].replace(b"model.layers.1.", b"model.layers.9223372036854775806.")
        file.write_bytes(struct.pack("<Q", len(header)) + header + data[8 + size:])
        compared = tfmc("report", out, "--against", self.model)
        self.assertEqual(compared.returncode, 1, compared.stderr)
        self.assertIn("9223372036854775806", compared.stdout)
        self.assertNotIn("layers=9223372036854775807", compared.stdout)

    def test_values_are_for_whoever_loads_them(self):
        """Also NaN, which no tensor that is stored once has as a copy of itself."""
        file = pathlib.Path(self.model, "model.safetensors")
        data = file.read_bytes()
        begin = 8 + struct.unpack("<Q", data[:8])[0]
        file.write_bytes(data[:begin] + b"\xff" * (len(data) - begin))
        result = tfmc("import", self.model)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_pipes_are_no_files(self):
        for name in ("config.json", "generation_config.json", "tokenizer.json", "model.safetensors.index.json"):
            with self.subTest(name):
                path = os.path.join(self.model, name)
                kept = pathlib.Path(path).read_bytes() if os.path.exists(path) else None
                if kept is not None:
                    os.remove(path)
                if "index" in name:
                    os.remove(os.path.join(self.model, "model.safetensors"))
                os.mkfifo(path)
                self.refused(name, "it is a pipe or a device, and no file")
                os.remove(path)
                if kept is not None:
                    pathlib.Path(path).write_bytes(kept)

    def test_damaged_tokenizers_are_refused(self):
        for text in ("", "{", "[]", '{"model": 3}', '{"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}}'):
            self.write(text, "tokenizer.json")
            self.refused("tokenizer.json")
        # One of another form is none: another file may do.
        self.write('{"model": {"type": "Other"}}', "tokenizer.json")
        imported = tfmc("import", self.model)
        self.assertEqual(imported.returncode, 0, imported.stderr)
        self.assertIn('note: ' + os.path.join(self.model, 'tokenizer.json') + ': the model type "Other" is not supported',
                      imported.stderr)

    def test_what_generating_would_refuse_is_told(self):
        shutil.copy(FIXTURES / "bpe" / "bytes" / "tokenizer.json", self.model)
        imported = tfmc("import", self.model)
        self.assertEqual(imported.returncode, 0, imported.stderr)
        self.assertIn("tokenizer.json has 1000 tokens, and the model rows for 40: programs refuse it; give them a copy without the tokens "
                      "from 40 on, with --tokenizer", imported.stderr)
        for end in ("</s>", -1, [3, "</s>"]):
            self.write({"eos_token_id": end}, "generation_config.json")
            self.refused("generation_config.json: eos_token_id is neither a token id nor a list of them, but " +
                         json.dumps(end, separators=(",", ":")))

    def test_the_text_model_of_a_larger_one(self):
        shutil.rmtree(self.model)
        shutil.copytree(FAMILIES / "gemma3", self.model)
        out = os.path.join(self.folder.name, "own.tfm")
        imported = tfmc("import", self.model, "-o", out)
        self.assertEqual(imported.returncode, 0, imported.stderr)
        self.assertIn(f"note: of gemma3 in {self.model}/config.json the text model is imported (text_config), as "
                      "gemma3_text: it reads no pictures\n", imported.stderr)
        compared = tfmc("report", out, "--against", self.model)
        self.assertEqual(compared.returncode, 0, compared.stdout)
        # PEFT calls its tensors something else.
        text = pathlib.Path(out).read_text()
        query = "q_proj = Linear(width, heads * head_width, bias = bias)"
        self.assertIn(query, text)
        pathlib.Path(out).write_text(text.replace(query, query.replace("= ", "= LoRA(", 1) + ", rank = 2)") + """
tokenizer chars("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN")
data tokens("ids.bin")
train { batch = 1, sequence = 8, steps = 1, optimizer = sgd(lr = 1.0), only = "*.lora_*" }
""")
        pathlib.Path(self.folder.name, "ids.bin").write_bytes(bytes(40))
        own, trained = os.path.join(self.folder.name, "own"), os.path.join(self.folder.name, "run")
        self.assertEqual(tfmc("build", out, "-o", own).returncode, 0)
        result = run(own, "train", "--init", self.model, "--partial", "--out", trained)
        self.assertEqual(result.returncode, 0, result.stderr)
        result = run(own, "export", "--weights", trained, "--adapter", "-o", os.path.join(self.folder.name, "adapter"))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("is of a larger model than Gemma3, and PEFT has other names for its tensors: export with --merge, "
                      "or begin training with an export of ", result.stderr)
        config = json.loads(pathlib.Path(self.model, "config.json").read_text())
        self.write(dict(config, text_config=[]))
        self.refused("text_config is [], and of gemma3 it is the text model in this object that is imported")

    def test_lists_have_an_entry_for_each_layer(self):
        shutil.rmtree(self.model)
        shutil.copytree(FAMILIES / "gemma3_text", self.model)
        config = json.loads((FAMILIES / "gemma3_text" / "config.json").read_text())
        self.write(dict(config, layer_types=config["layer_types"] + ["sliding_attention"]))
        self.refused("config.json: layer_types is [", "it has 4 entries, but num_hidden_layers is 3")

    def test_a_flag_that_the_weights_show(self):
        for case, key in (("llama", "attention_bias"), ("llama_bias", "mlp_bias"), ("starcoder2", "use_bias"),
                          ("gpt2", "tie_word_embeddings"), ("gpt2_untied", "tie_word_embeddings")):
            shutil.rmtree(self.model)
            shutil.copytree(FAMILIES / case, self.model)
            config = json.loads((FAMILIES / case / "config.json").read_text())
            right = json.dumps(config[key])
            config[key] = not config[key]
            self.write(config)
            self.refused(f"its config.json describes: {key} is {json.dumps(config[key])}, and they are those of {right}\n")
            result = tfmc("import", self.model)
            self.assertNotIn("missing", result.stderr)
            self.assertNotIn("agrees", result.stderr)
        # Where no flag is to blame all of it is shown, but not what agrees.
        config[key] = not config[key]
        self.write(dict(config, n_embd=16))
        self.refused("27 with another shape", "n_embd is 16, and theirs is 32")
        self.assertNotIn("agrees", tfmc("import", self.model).stderr)

    def test_positions_as_published_configurations_have_them(self):
        shutil.rmtree(self.model)
        shutil.copytree(FAMILIES / "olmo3_yarn", self.model)
        config = json.loads((FAMILIES / "olmo3_yarn" / "config.json").read_text())
        full = config["rope_parameters"]["full_attention"]
        full["rope_theta"] = config["rope_parameters"]["sliding_attention"]["rope_theta"] = 500000.0
        self.write(config)
        imported = tfmc("import", self.model)
        self.assertEqual(imported.returncode, 0, imported.stderr)
        self.assertIn('scaling = "yarn"', imported.stdout)
        del config["rope_parameters"]
        config["rope_scaling"] = {key: value for key, value in full.items() if key != "rope_theta"}
        self.write(dict(config, rope_theta=500000))
        self.assertEqual(tfmc("import", self.model).stdout, imported.stdout)
        self.write(dict(config, rope_theta=10000.0))
        self.refused("rope_theta is 10000.0", "`rope_parameters` has one for each kind of them")

    def test_generation(self):
        def block(config):
            self.write(config, "generation_config.json")
            result = tfmc("import", self.model)
            self.assertEqual(result.returncode, 0, result.stderr)
            return re.search(r"generate {(.*)}", result.stdout, re.S)[1].split(", ")
        self.assertEqual(block({}), [" greedy = true "])
        self.assertEqual(sorted(part.strip() for part in block({"do_sample": True, "temperature": 0.6, "top_p": 0.9})),
                         ["greedy = false", "temperature = 0.6", "top_k = 50", "top_p = 0.9"])
        self.assertIn("repeat_penalty = 1.1", " ".join(block({"repetition_penalty": 1.1})))
        self.assertIn('stop = ["\\n\\n", "a \\"b\\" é\\\\"]', ", ".join(block({"stop_strings": ["\n\n", 'a "b" é\\']})))
        self.assertIn('stop = ["###"]', ", ".join(block({"stop_strings": "###"})))
        self.assertEqual(block({"stop_strings": []}), [" greedy = true "])
        for key, value in (("num_beams", 4), ("no_repeat_ngram_size", 2), ("bad_words_ids", [[3]])):
            self.write({"do_sample": True, key: value}, "generation_config.json")
            self.refused(f"generation_config.json: {key} is")
        self.write({"num_beams": 4}, "generation_config.json")
        self.refused("num_beams is 4", "; take it out of this file to generate without it")
        # In the words of the file, never in those of the one that would be written.
        for key, value in (("temperature", "x"), ("temperature", -1.0), ("top_p", 1.5), ("top_k", -1), ("min_p", 2.0), ("typical_p", -0.5),
                           ("repetition_penalty", 0.0), ("max_new_tokens", 0), ("max_new_tokens", 1e+30),
                           ("stop_strings", [3]), ("stop_strings", "\0")):
            self.write({"do_sample": True, key: value}, "generation_config.json")
            self.refused(f"generation_config.json: {key} is {json.dumps(value)}: it takes ")
            self.assertNotIn("model.tfm", tfmc("import", self.model).stderr)

    def test_a_family_of_ones_own(self):
        own = os.path.join(self.folder.name, "own")
        os.mkdir(own)
        table = {"model_type": "mine", "model": "mine.tfm", "include": ["llama"],
                 "keys": {"width": {"sets": "width", "default": 32}, "hidden_size": None, "colour": {"must": "red"}}}
        pathlib.Path(own, "mine.json").write_text(json.dumps(table))
        shutil.copy(TABLES / "llama.tfm", os.path.join(own, "mine.tfm"))
        config = dict(self.config, model_type="mine", colour="red")
        config.pop("hidden_size")
        self.write(config)
        self.refused("model_type")
        out = os.path.join(self.folder.name, "mine.tfm")
        imported = tfmc("import", self.model, "--families", own, "-o", out)
        self.assertEqual(imported.returncode, 0, imported.stderr)
        compared = tfmc("report", out, "--against", self.model)
        self.assertEqual(compared.returncode, 0, compared.stdout)
        self.assertRegex(compared.stdout, 'colour +"red" +"red" here +agrees')
        # A model beside the table, else a built-in one.
        pathlib.Path(own, "mine.json").write_text(json.dumps(dict(table, model="llama.tfm")))
        built_in = tfmc("import", self.model, "--families", own)
        self.assertEqual(built_in.returncode, 0, built_in.stderr)
        self.assertEqual(built_in.stdout, pathlib.Path(out).read_text())
        pathlib.Path(own, "mine.json").write_text(json.dumps(table))
        self.write(dict(config, colour="blue"))
        self.refused('colour is "blue": this family computes with "red" alone', options=["--families", own])
        config.pop("colour")
        self.write(config)
        for wrong, words in (({"keys": {"a": {}}}, "`a` needs one of"), ({"keys": []}, "`keys` of another kind"),
                             ({"keys": {"a": {"sets": "nothing", "default": 1}}}, "no such hyperparameter"),
                             ({"keys": {"a": {"sets": "width", "words": "no"}}}, "has no `words.no`"),
                             ({"model": "none.tfm"}, "none.tfm"), ({"include": ["mine"]}, "includes itself"),
                             ({"include": ["none"]}, "no family `none`"), ({"model_type": "other"}, "model_type"),
                             ({"what": 1}, "`what`, which is not known")):
            pathlib.Path(own, "mine.json").write_text(json.dumps(dict(table, **wrong)))
            self.refused(words, options=["--families", own])


class Lora(InFolder):
    """A correction beside layers of a published model, which are not trained."""

    SOURCE = FIXTURES / "llama_tiny"
    LAYERS = {"q_proj": "Linear(width, heads * head_width, bias = bias)",
              "o_proj": "Linear(heads * head_width, width, bias = bias)"}

    def build(self, *options, **corrected):
        """The published model with other layers, of which `lora_*` is trained."""
        text = tfmc("import", self.SOURCE).stdout
        for name, layer in corrected.items():
            self.assertIn(f"{name} = {self.LAYERS[name]}", text)
            text = text.replace(f"{name} = {self.LAYERS[name]}", f"{name} = {layer.format(self.LAYERS[name])}")
        pathlib.Path(self.path("lora.tfm")).write_text(text + """
module Other(inner: module) {
  other   = inner
  inputs  = inner.inputs
  outputs = inner.outputs
  forward(x: [.., inputs]) -> [.., outputs] { return other(x) }
}
data tokens("ids.bin", validation = 0.2)
train {
  batch = 2, sequence = 8, steps = 2, optimizer = adam(lr = 1e-2), validate = every(1)
  only  = "*.lora_*"
}
""")
        pathlib.Path(self.path("ids.bin")).write_bytes(array.array("H", [i * i % 101 for i in range(300)]).tobytes())
        made = tfmc("build", "lora.tfm", "-o", "lora", *options, cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)

    def leaves_nothing(self, *command):
        """Where files cannot be written, nor is there the folder for them; they are named as they would be."""
        result = run("./lora", *command, cwd=self.folder, file_bytes=99)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"cannot write none/such/\w+\.\w+: .*ulimit")
        self.assertFalse(os.path.exists(self.path("none")))

    def refused(self, *command):
        result = run(*command, cwd=self.folder)
        self.assertEqual(result.returncode, 1, result.stderr)
        return result.stderr

    def test_begins_with_the_published_layers(self):
        self.build(q_proj="LoRA(Other({}), rank = 2)")
        self.assertIn("model.layers.0.self_attn.q_proj.base.other.weight is missing, and as it is not trained it would "
                      "stay random",
                      self.refused("./lora", "train", "--init", self.SOURCE, "--partial", "--out", "wrong"))

        self.build(q_proj="LoRA(LoRA({}, rank = 3), rank = 2, alpha = 5.0)", o_proj="LoRA({}, rank = 2)")
        told = self.ok("./lora", "train", "--init", self.SOURCE, "--partial", "--out", "run")
        random = "what train.only does not name stays as it is, which is random"
        self.assertNotIn(random, told.stderr)
        self.assertIn(random, self.ok("./lora", "train", "--out", "random").stderr)
        self.ok("./lora", "export", "--weights", "run", "-o", "all.safetensors")
        ours = tensors(self.path("all.safetensors"))
        theirs = tensors(self.SOURCE / "model.safetensors")
        for name, values in theirs.items():
            name = name.replace("q_proj.", "q_proj.base.base.").replace("o_proj.", "o_proj.base.")
            self.assertEqual(ours.pop(name), values, name)
        self.assertEqual({name.rsplit(".")[-1] for name in ours}, {"lora_a", "lora_b"})
        for name, values in ours.items():
            self.assertNotEqual(set(values), {0.0}, name)
        against = tfmc("report", "lora.tfm", "--against", self.SOURCE, cwd=self.folder).stdout
        self.assertIn("lora_a", against)
        self.assertNotIn("base.weight", against)
        # What the folder does not tell of is not written beside its configuration.
        self.assertRegex(self.refused("./lora", "export", "--weights", "run", "-o", "folder/"),
                         r"the model has model.layers.0.self_attn.q_proj.*lora_a, and .* with --merge")

        self.leaves_nothing("export", "--weights", "run", "-o", "none/such/", "--merge")

        # Merged it is the published model with other weights.
        self.ok("./lora", "export", "--weights", "run", "-o", "merged/", "--merge")
        self.ok("./lora", "export", "--weights", "run", "-o", "merged.safetensors", "--merge")
        merged = tensors(self.path("merged", "model.safetensors"))
        self.assertEqual(merged.keys(), theirs.keys())
        self.assertEqual(merged, tensors(self.path("merged.safetensors")))
        changed = {name for name in theirs if merged[name] != theirs[name]}
        self.assertEqual(changed, {name for name in theirs if re.search(r"[qo]_proj", name)})
        self.ok("./lora", "logits", "--weights", "run", "--ids", "--prompt", "5 17 88 3 41", "-o", "ours.safetensors")
        self.ok(TFMC, "run", "merged", "logits", "--ids", "--prompt", "5 17 88 3 41", "-o", "plain.safetensors")
        logits, plain = (tensors(self.path(f"{name}.safetensors"))["logits"] for name in ("ours", "plain"))
        largest = max(map(abs, logits))
        for own, other in zip(logits, plain, strict=True):
            self.assertLessEqual(abs(own - other), 1e-6 * largest)

        # PEFT knows one correction of a layer.
        self.assertIn("q_proj.base.base.weight has 2 corrections, and PEFT knows one of a layer: export with --merge",
                      self.refused("./lora", "export", "--weights", "run", "-o", "adapter", "--adapter"))

        # Moments are there of what was trained alone.
        self.build("-D", "train.only=none", q_proj="LoRA(LoRA({}, rank = 3), rank = 2)", o_proj="LoRA({}, rank = 2)")
        self.assertIn("the run in run did not train model.embed_tokens.weight, which this build trains (train.only): "
                      "begin anew from its weights with --init run --out NEW",
                      self.refused("./lora", "train", "--resume", "run", "--steps", "3"))

    def test_an_adapter(self):
        layers = {"q_proj": "LoRA({}, rank = 2, alpha = 3.0)", "o_proj": "LoRA({}, rank = 3, alpha = 16.0)"}
        self.build(**layers)
        self.ok("./lora", "train", "--init", self.SOURCE, "--partial", "--out", "for-peft")
        self.leaves_nothing("export", "--weights", "for-peft", "-o", "none/such/", "--adapter")
        export = ["./lora", "export", "--weights", "for-peft", "-o", "peft/", "--adapter"]
        self.ok(*export)
        self.ok(*export)
        for command in ([TFMC, "import", "peft"], [TFMC, "report", "lora.tfm", "--against", "peft"],
                        ["./lora", "generate", "--weights", "peft"]):
            self.assertIn("adapter_config.json is of an adapter, which is read by PEFT alone", self.refused(*command))
        pathlib.Path(self.path("theirs")).mkdir()
        pathlib.Path(self.path("theirs", "adapter_config.json")).write_text("{}")
        self.assertIn("theirs/adapter_config.json is not known to be written by `export`, and would be lost",
                      self.refused(*export[:4], "-o", "theirs", "--adapter"))
        self.assertIn("an adapter is a folder of two files: name it without .safetensors",
                      self.refused(*export[:4], "-o", "peft.safetensors", "--adapter"))
        config = json.loads(pathlib.Path(self.path("peft", "adapter_config.json")).read_text())
        self.assertTrue(os.path.samefile(config.pop("base_model_name_or_path"), self.SOURCE))
        prefix = "model.layers.{}.self_attn."
        depth = json.loads(pathlib.Path(self.SOURCE, "config.json").read_text())["num_hidden_layers"]
        others = [f"{prefix.format(i)}o_proj" for i in range(depth)]
        self.assertEqual(config, {
            "peft_type": "LORA", "task_type": "CAUSAL_LM", "inference_mode": True, "r": 2, "lora_alpha": 3,
            "lora_dropout": 0.0, "bias": "none", "fan_in_fan_out": False, "target_modules": ["q_proj", "o_proj"],
            "rank_pattern": dict.fromkeys(others, 3), "alpha_pattern": dict.fromkeys(others, 16)})
        self.ok("./lora", "export", "--weights", "for-peft", "-o", "for-peft.safetensors")
        whole = tensors(self.path("for-peft.safetensors"))
        adapter = tensors(self.path("peft", "adapter_model.safetensors"))
        self.assertEqual({"base_model.model." + re.sub("lora_(.)", lambda m: f"lora_{m[1].upper()}.weight", name): values
                          for name, values in whole.items() if "lora" in name}, adapter)
        # It would not be all that was trained.
        self.build("-D", 'train.only=["*.lora_*", "*norm*"]', **layers)
        self.assertIn("an adapter holds corrections alone, and this build trains others, too: ",
                      self.refused(*export, "--overwrite"))
        self.ok("./lora", "train", "--init", self.SOURCE, "--partial", "--out", "for-merge")
        self.build(**layers)
        self.assertIn("and these weights have others than ",
                      self.refused("./lora", "export", "--weights", "for-merge", "-o", "other/", "--adapter"))
        pathlib.Path(self.path("peft", "config.json")).write_text("{}")
        self.assertIn("peft holds a model, which would be loaded with the adapter", self.refused(*export, "--overwrite"))

    def test_scales_by_layer(self):
        pathlib.Path(self.path("own.tfm")).write_text("""
model Own(vocab = 11, context = 8, width = 6) {
  emb  = Embedding(vocab, width)
  h    = repeat(3) as i Layer(width, 2.5 * (i + 1))
  head = LoRA(Linear(width, vocab, bias = false, weight = emb.weight), rank = 2)
  forward(tokens: int[B, T]) -> [B, T, vocab] { return head(h(emb(tokens))) }
}
module Layer(width, alpha) {
  param a: [width, 2] = normal(0.1)
  param b: [2, width] = normal(0.1)
  up = Linear(width, width)
  forward(x: [B, T, width]) -> [B, T, width] { return silu(up(x) + alpha * (x @ a @ b)) }
}
""")
        self.ok(TFMC, "build", "own.tfm", "-o", "own")
        self.ok("./own", "export", "--seed", "3", "-o", "seed.safetensors")
        note = self.ok("./own", "export", "--weights", "seed.safetensors", "-o", "sum.safetensors", "--merge").stderr
        self.assertIn("note: emb.weight keeps its correction, as something else reads it, too (it is tied)", note)
        self.assertIn("emb.weight keeps its correction",
                      self.refused("./own", "export", "--weights", "seed.safetensors", "-o", "sum/", "--merge"))
        before, after = (tensors(self.path(f"{name}.safetensors")) for name in ("seed", "sum"))
        self.assertEqual({name for name in before if name not in after},
                         {f"h.{i}.{name}" for i in range(3) for name in "ab"})
        for layer in range(3):
            a, b, old, new = (values[f"h.{layer}.{name}"] for values, name in (
                (before, "a"), (before, "b"), (before, "up.weight"), (after, "up.weight")))
            for i, (was, now) in enumerate(zip(old, new, strict=True)):
                row, column = divmod(i, 6)
                self.assertAlmostEqual(
                    now, was + 2.5 * (layer + 1) * sum(a[2 * column + k] * b[6 * k + row] for k in range(2)), 6)

    def test_merges_what_is_corrected_alone(self):
        self.build("-D", "train.only=none")
        self.assertIn("there are no corrections: ",
                      self.refused("./lora", "export", "--seed", "1", "-o", "a.safetensors", "--merge"))

    def test_the_best_weights_are_of_the_same_origin(self):
        text = tfmc("import", self.SOURCE).stdout
        pathlib.Path(self.path("llama.tfm")).write_text(text + """
data tokens("few.bin", validation = 0.2)
train { batch = 2, sequence = 8, steps = 2, optimizer = adam(lr = 1e-2), validate = every(1) }
""")
        pathlib.Path(self.path("few.bin")).write_bytes(array.array("H", [i * i % 101 for i in range(300)]).tobytes())
        made = tfmc("build", "llama.tfm", "-o", "llama", cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        trained = run("./llama", "train", "--init", self.SOURCE, "--out", "first", cwd=self.folder)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        further = run("./llama", "train", "--init", "first/best", "--out", "second", cwd=self.folder)
        self.assertEqual(further.returncode, 0, further.stderr)
        written = {}
        for weights in ("first", "first/best", "second", "second/best"):
            out = f"of-{weights.replace('/', '-')}/"
            exported = run("./llama", "export", "--weights", weights, "-o", out, cwd=self.folder)
            self.assertEqual((exported.returncode, exported.stderr), (0, ""))
            written[weights] = [sorted(os.listdir(self.path(out))), pathlib.Path(self.path(out, "config.json")).read_text()]
        self.assertEqual(len({str(files) for files in written.values()}), 1, written)
        self.assertIn("generation_config.json", written["first"][0])

    def test_an_export_that_begins_prompts_otherwise_says_so(self):
        source = self.path("begins")
        shutil.copytree(self.SOURCE, source)
        begin = {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
        pathlib.Path(source, "tokenizer.json").write_text(json.dumps({
            "version": "1.0", "normalizer": None,
            "added_tokens": [{"id": 0, "content": "<s>", "special": True, "normalized": False, "lstrip": False,
                              "rstrip": False, "single_word": False}],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "post_processor": {"type": "TemplateProcessing", "single": begin, "pair": begin,
                               "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3}, "merges": ["a b"]}}))
        pathlib.Path(self.path("ab.txt")).write_text("ab\nba\n")
        pathlib.Path(self.path("begins.tfm")).write_text(tfmc("import", source).stdout + """
data lines("ab.txt")
train { batch = 1, sequence = 4, steps = 1, loss = cross_entropy(ignore = -100) }
""")
        for defines, note in (([], "note: prompts begin with nothing for run-0, as its data did, and with <s> for out-0, "
                                   "as its tokenizer says\n"), (["-D", "data.begin=<s>"], "")):
            name = f"{len(defines)}"
            made = tfmc("build", "begins.tfm", *defines, "-o", f"begins-{name}", cwd=self.folder)
            self.assertEqual(made.returncode, 0, made.stderr)
            trained = run(f"./begins-{name}", "train", "--init", source, "--out", f"run-{name}", cwd=self.folder)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            self.assertEqual("the tokenizer puts <s> before texts" in trained.stderr, bool(note), trained.stderr)
            os.mkdir(self.path(f"out-{name}"))
            exported = run(f"./begins-{name}", "export", "--weights", f"run-{name}", "-o", f"out-{name}", cwd=self.folder)
            self.assertEqual((exported.returncode, exported.stderr), (0, note))
            texts = [json.loads(run(f"./begins-{name}", "generate", "--weights", weights, "--prompt", "ab", "--greedy",
                                    "--json", "--tokens", "3", cwd=self.folder).stdout)["ids"]
                     for weights in (f"run-{name}", f"out-{name}")]
            if not note:
                self.assertEqual(*texts)
        # A tokenizer that puts nothing there learns it.
        tokenizer = json.loads(pathlib.Path(source, "tokenizer.json").read_text())
        level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
        for post in (None, level, {"type": "Sequence", "processors": [level]}):
            tokenizer["post_processor"] = post
            pathlib.Path(source, "tokenizer.json").write_text(json.dumps(tokenizer))
            trained = run("./begins-2", "train", "--init", source, "--out", "run-3", "--overwrite", cwd=self.folder)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            exported = run("./begins-2", "export", "--weights", "run-3", "-o", "out-3/", cwd=self.folder)
            self.assertEqual((exported.returncode, exported.stderr), (0, ""))
            written = json.loads(pathlib.Path(self.path("out-3", "tokenizer.json")).read_text())
            steps = written["post_processor"]["processors"] if post else [written["post_processor"]]
            self.assertEqual(steps[:-1], [level] if post else [])
            self.assertEqual(steps[-1]["special_tokens"]["<s>"]["ids"], [0])
            self.assertEqual({key: value for key, value in written.items() if key != "post_processor"},
                             {key: value for key, value in tokenizer.items() if key != "post_processor"})

    def test_weights_alone_get_the_tokenizer_of_the_model(self):
        text = tfmc("import", self.SOURCE).stdout
        for name, tokenizer, files, note in (
                ("bare", "", ["config.json", "model.safetensors"], "note: {} gets no tokenizer: Llama has none\n"),
                ("abc", 'tokenizer chars("abc")\n', ["config.json", "model.safetensors", "tokenizer.json"], "")):
            pathlib.Path(self.path(f"{name}.tfm")).write_text(text + tokenizer)
            made = tfmc("build", f"{name}.tfm", "-o", name, cwd=self.folder)
            self.assertEqual(made.returncode, 0, made.stderr)
            lone = run(f"./{name}", "export", "--seed", "1", "-o", f"{name}.safetensors", cwd=self.folder)
            self.assertEqual(lone.returncode, 0, lone.stderr)
            for weights in (["--seed", "1"], ["--weights", f"{name}.safetensors"]):
                out = f"{name}-{weights[0][2:]}"
                exported = run(f"./{name}", "export", *weights, "-o", out + "/", cwd=self.folder)
                self.assertEqual((exported.returncode, exported.stderr.replace(out + "/", "{}").replace(out, "{}")), (0, note))
                self.assertEqual(sorted(os.listdir(self.path(out))), files)


if __name__ == "__main__":
    main()
