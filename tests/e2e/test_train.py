"""From a .tfm file to a binary that trains, resumes, evaluates and generates."""

import array
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from support import FIXTURES, MODELS, TFMC, USAGE, main, run, tfmc


def binary(folder, source, *arguments):
    """Builds a model; returns the executable."""
    path = pathlib.Path(folder) / pathlib.Path(source).stem
    result = tfmc("build", source, "-o", path, *arguments)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return path


class Multiplication(unittest.TestCase):
    """The shipped file, for a few steps."""

    def test_trains_and_is_asked(self):
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as folder:
            model = binary(folder, MODELS / "multiplication.tfm")
            out = pathlib.Path(folder) / "run"
            result = run(model, "train", "--steps", "100", "--out", out)
            self.assertEqual(result.returncode, 0, result.stderr)
            answer = json.loads(run(model, "eval", "--weights", out, "--json").stdout)
            self.assertEqual(answer["exact_match"]["prompts"], 2500)
            self.assertEqual(answer["exact_match"]["unseen"]["prompts"], 247)
            # 14 tokens: guessing costs log(14) = 2.64.
            self.assertLess(answer["loss"], 1.9)
            text = run(model, "generate", "--weights", out, "--prompt", "47*51=").stdout
            self.assertRegex(text, r"47\*51=[0-9*=.#]*\n")


class ProfileOfSteps(unittest.TestCase):
    """`train --profile`: a trace of real steps."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tfm-e2e-")
        cls.model = binary(cls.folder.name, MODELS / "addition.tfm", "-D", "train.accumulate=2")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def train(self, *arguments):
        return run(self.model, "train", "--out", "run", "--overwrite", *arguments, cwd=self.folder.name)

    def trace(self, steps):
        result = self.train("--steps", str(steps), "--profile", "trace.json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("trace.json", result.stderr)
        return json.loads(pathlib.Path(self.folder.name, "trace.json").read_text())["traceEvents"]

    def test_every_step_has_its_calls_and_every_call_its_kernels(self):
        spans = [event for event in self.trace(14) if event["ph"] == "X"]
        steps = [span for span in spans if span["cat"] == "step"]
        self.assertEqual([step["name"] for step in steps], [f"step {number}" for number in range(2, 12)])

        def nanoseconds(span):
            # As viewers read them; what overlaps another span without being inside of it they do not show.
            begin = int(span["ts"] * 1000)
            return begin, begin + int(span["dur"] * 1000)

        def inside(outer, category):
            begin, end = nanoseconds(outer)
            return [span for span in spans if span["cat"] == category and nanoseconds(span)[0] >= begin and
                    nanoseconds(span)[1] <= end]

        kernels = json.loads(run(self.model, "bench", "--json").stdout)["functions"]
        for step in steps:
            calls = inside(step, "function")
            self.assertEqual([call["name"] for call in calls], ["train", "train", "update"])
            for call in calls:
                expected = {(kernel["name"], kernel["path"]): 0 for kernel in kernels[call["name"]]["kernels"]}
                for kernel in kernels[call["name"]]["kernels"]:
                    expected[kernel["name"], kernel["path"]] += kernel["runs"]
                found = dict.fromkeys(expected, 0)
                launches = inside(call, "kernel")
                for launch in launches:
                    found[launch["name"], launch["args"]["module"]] += 1
                self.assertEqual(found, expected)
                # One after the other.
                for before, behind in zip(launches, launches[1:]):
                    self.assertEqual(nanoseconds(before)[1], nanoseconds(behind)[0])

    def test_a_short_run_has_the_steps_that_there_are(self):
        for count, numbers in ((1, [1]), (3, [2, 3])):
            steps = [event["name"] for event in self.trace(count) if event.get("cat") == "step"]
            self.assertEqual(steps, [f"step {number}" for number in numbers])

    def test_the_same_weights(self):
        weights = pathlib.Path(self.folder.name, "run", "model.safetensors")
        self.assertEqual(self.train("--steps", "5").returncode, 0)
        plain = weights.read_bytes()
        self.trace(5)
        self.assertEqual(weights.read_bytes(), plain)

    def test_where_it_cannot_be_written(self):
        result = run(self.model, "train", "--steps", "5", "--out", "unmade", "--profile", "nowhere/trace.json",
                     cwd=self.folder.name)
        self.assertEqual(result.returncode, 1)
        self.assertIn("nowhere", result.stderr)
        self.assertFalse(pathlib.Path(self.folder.name, "unmade").exists())
        # The run's own folder is made for it.
        self.assertEqual(self.train("--steps", "2", "--profile", "run/trace.json").returncode, 0)
        self.assertEqual(self.train("--steps", "2").returncode, 0)
        result = self.train("--steps", "5", "--profile", "run/model.safetensors")
        self.assertEqual(result.returncode, 1)
        self.assertIn("run/model.safetensors", result.stderr)

    def test_a_full_disk_costs_no_training(self):
        self.assertEqual(self.train("--steps", "14").returncode, 0)
        weights = pathlib.Path(self.folder.name, "run", "model.safetensors")
        plain = weights.read_bytes()
        result = self.train("--steps", "14", "--profile", "/dev/full")
        self.assertEqual(result.returncode, 1)
        self.assertIn("warning: cannot write /dev/full: ", result.stderr)
        self.assertIn("; training goes on\n", result.stderr)
        self.assertIn("; all else is saved in run", result.stderr)
        self.assertEqual(weights.read_bytes(), plain)

    def test_writes_over_nothing_but_a_trace(self):
        folder = pathlib.Path(self.folder.name)
        (folder / "notes.txt").write_text("mine")
        for options, words in ((["--profile", "notes.txt"], "notes.txt is no trace"),
                               (["--profile", "run/log.jsonl"], "run/log.jsonl"),
                               (["--profile", "a.json", "--log", "a.json"], "where this run logs")):
            result = self.train("--steps", "2", *options)
            self.assertEqual(result.returncode, 1)
            self.assertIn(words, result.stderr)
        self.assertEqual((folder / "notes.txt").read_text(), "mine")
        for _ in range(2):
            self.assertEqual(self.train("--steps", "2", "--profile", "twice.json").returncode, 0)
        json.loads((folder / "twice.json").read_text())


class Perplexity(unittest.TestCase):
    """What the model gives the targets, whatever the loss adds to that."""

    def test_depends_on_the_loss(self):
        module = """model M(vocab = tokenizer.size, width = 16) {
  wte = Embedding(vocab, width, init = normal(0.5))
  forward(tokens: int[B, T]) -> [B, T, vocab] { return wte(tokens) @ wte.weight.T }
LOSS}
tokenizer chars("0123456789+=.#")
data sums(400, 99, validation = 0.2)
train { batch = 8, sequence = 10, steps = 20, loss = cross_entropy(ignore = "#" SMOOTHED) }
"""
        own = """  loss(tokens: int[B, T], targets: int[B, T]) -> [B, T] {
    return 2 * cross_entropy(forward(tokens), targets, ignore = 13)
  }
"""
        answers, texts = {}, {}
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as folder:
            for name, smoothed, loss in (("plain", "", ""), ("own", "", own), ("other", "", own.replace("2 * ", "").replace("forward", "-forward")),
                                         ("smoothed", ", label_smoothing = 0.2", "")):
                source = pathlib.Path(folder) / f"{name}.tfm"
                source.write_text(module.replace("LOSS", loss).replace("SMOOTHED", smoothed))
                model = binary(folder, source)
                weights = pathlib.Path(folder) / "weights"
                if name == "plain":
                    trained = run(model, "train", "--out", weights)
                    self.assertEqual(trained.returncode, 0, trained.stderr)
                result = run(model, "eval", "--weights", weights, "--json")
                self.assertEqual(result.returncode, 0, result.stderr)
                answers[name] = json.loads(result.stdout)
                texts[name] = run(model, "eval", "--weights", weights).stdout
        plain, smoothed, doubled = answers["plain"], answers["smoothed"], answers["own"]
        self.assertAlmostEqual(math.log(plain["perplexity"]), plain["loss"], delta=1e-9)
        self.assertGreater(abs(smoothed["loss"] - plain["loss"]), 0.01)
        # The loss is a sum in single precision, the logits are read in double.
        self.assertAlmostEqual(smoothed["perplexity"] / plain["perplexity"], 1, delta=1e-6)
        self.assertAlmostEqual(doubled["loss"] / plain["loss"], 2, delta=1e-6)
        self.assertIsNone(doubled["perplexity"])
        # Of a loss of the model's own it comes from the logits of `forward`.
        self.assertEqual([answers[name]["accuracy"] for name in ("smoothed", "own", "other")], [plain["accuracy"]] * 3)
        self.assertGreater(plain["accuracy"], 0)
        self.assertEqual({name: "perplexity" in text for name, text in texts.items()},
                         {"plain": True, "smoothed": True, "own": False, "other": False})


class WholeRun:
    """One build of addition and one run of it; what holds in any precision."""
    options = []

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tfm-e2e-")
        # Validating more often, the log is written out more often.
        cls.source = pathlib.Path(cls.folder) / "addition.tfm"
        text = (MODELS / "addition.tfm").read_text()
        assert "every(500)" in text
        cls.source.write_text(text.replace("every(500)", "every(30)"))
        cls.model = binary(cls.folder, cls.source, *cls.options)
        # One run that most tests look at.
        cls.run_folder = pathlib.Path(cls.folder) / "whole"
        cls.trained = run(cls.model, "train", "--steps", "120", "--threads", "2",
                          "--out", cls.run_folder)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def path(self, name):
        return pathlib.Path(self.folder) / name

    def weights(self, name):
        return (self.path(name) / "model.safetensors").read_bytes()

    def test_takes_the_memory_that_the_report_predicts(self):
        info = json.loads(run(self.model, "info", "--json").stdout)
        report = json.loads(tfmc("report", self.source, *self.options, "--memory", "--format",
                                 "json").stdout)
        for part in ("arena", "parameters", "gradients", "optimizer", "activations"):
            self.assertEqual(info["memory"][part], report["memory"][part], part)
        self.assertEqual(info["parameters"]["total"], report["parameters"]["total"])
        # The planner meets its lower bound.
        self.assertLessEqual(report["memory"]["arena"], 1.01 * report["memory"]["lower_bound"])
        # And for people, in the same unit.
        table = tfmc("report", self.source, *self.options, "--memory").stdout
        rows = re.findall(r"^  (arena|parameters|activations) +[\d,]+ +(.*iB)$", table, re.M)
        figures = dict(rows)
        self.assertEqual(set(figures), {"arena", "parameters", "activations"}, table)
        text = run(self.model, "info").stdout
        self.assertIn(f"memory           {figures['arena']} (parameters {figures['parameters']},",
                      text)
        self.assertIn(f"activations {figures['activations']})", text)

    def test_training_learns(self):
        self.assertEqual(self.trained.returncode, 0, self.trained.stderr)
        steps = [json.loads(line) for line in
                 (self.run_folder / "log.jsonl").read_text().splitlines()]
        losses = [step["loss"] for step in steps if "loss" in step]
        validations = [step for step in steps if "validation_loss" in step]
        self.assertEqual([step["step"] for step in validations], [30, 60, 90, 120])
        for step in validations:
            self.assertLessEqual(step["exact_match_unseen"], 1)
            self.assertLessEqual(step["exact_match_seen"], 1)
        # 14 tokens: guessing costs log(14) = 2.64.
        self.assertGreater(losses[0], 2.4)
        self.assertLess(losses[-1], 1.5)

    def test_the_number_of_threads_does_not_change_a_bit(self):
        result = run(self.model, "train", "--steps", "120", "--threads", "1",
                     "--out", self.path("one-thread"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.weights("one-thread"), self.weights("whole"))

    def test_an_interrupted_run_resumes_to_the_same_bits(self):
        folder = self.path("interrupted")
        process = subprocess.Popen(
            [self.model, "train", "--steps", "120", "--threads", "2", "--out", folder],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        # Somewhere behind the first validation.
        log = folder / "log.jsonl"
        for _ in range(6000):
            if log.exists() and "\n" in log.read_text():
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        step = json.loads((folder / "state.json").read_text())["step"]
        self.assertGreater(step, 0)
        self.assertLess(step, 120)
        resumed = run(self.model, "train", "--steps", "120", "--resume", folder)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual(self.weights("interrupted"), self.weights("whole"))

    def test_what_is_said_twice_is_meant_once(self):
        # The end of a terminal by the shell and the system, that of processor time by the system (later, as often
        # as the process goes on), others by launchers and `timeout`.
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGXCPU):
            with self.subTest(number):
                folder = self.path(f"ended-by-{number}")
                process = subprocess.Popen([self.model, "train", "--steps", "1000000", "--out", folder],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                           # Whoever runs the tests may do so under nohup.
                                           preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
                self.addCleanup(process.kill)
                while not (folder / "log.jsonl").exists():
                    time.sleep(0.01)
                process.send_signal(number)
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=60), 130)
                self.assertTrue((folder / "state.json").exists())

    def test_what_was_ignored_stays_ignored(self):
        # As nohup has it, and a script whose commands run in the background.
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                folder = self.path(f"ignores-{number}")
                process = subprocess.Popen([self.model, "train", "--steps", "120", "--out", folder],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                           preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
                self.addCleanup(process.kill)
                while not (folder / "log.jsonl").exists():
                    time.sleep(0.01)
                process.send_signal(number)
                errors = process.communicate(timeout=60)[1]
                self.assertEqual(process.returncode, 0, errors)
                self.assertNotIn("interrupted", errors)

    def test_ctrl_c_before_the_first_step(self):
        folder = self.path("not-begun")
        process = subprocess.Popen([self.model, "train", "--data", "-", "--out", folder], stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        process.stdin.write("1+2=3." * 20000) # more than a pipe holds: it reads
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("interrupted before the first step: nothing was changed", errors)
        self.assertNotIn("checkpoint is saved", errors) # none is
        self.assertFalse(folder.exists())

    def test_a_folder_that_is_moved_or_removed_meanwhile(self):
        for name in ("moved", "removed", "resumed", "log", "taken"):
            with self.subTest(name):
                folder, other = self.path(name), self.path(f"{name}-away")
                log, begin, size = folder / "log.jsonl", ["--out", folder], -1
                if name == "resumed":
                    first = run(self.model, "train", "--steps", "2", *begin)
                    self.assertEqual(first.returncode, 0, first.stderr)
                    (folder / "tokenizer_config.json").write_text("{}")
                    begin, size = ["--resume", folder], log.stat().st_size
                process = subprocess.Popen([self.model, "train", "--steps", "1000000", *begin],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                self.addCleanup(process.kill)
                while not log.exists() or log.stat().st_size == size:
                    time.sleep(0.01)
                process.send_signal(signal.SIGSTOP) # or it finds out before all is done
                if name == "log":
                    log.unlink()
                else:
                    folder.rename(other)
                if name == "removed":
                    shutil.rmtree(other)
                if name == "taken":
                    self.assertEqual(run(self.model, "train", "--steps", "1", *begin).returncode, 0)
                    before = self.weights("taken")
                process.send_signal(signal.SIGINT)
                process.send_signal(signal.SIGCONT)
                errors = process.communicate(timeout=60)[1]
                if name == "taken":
                    self.assertEqual(process.returncode, 1, errors)
                    self.assertIn(f"error: {folder} was moved or removed while it was trained in, and what has its name "
                                  "now holds other weights: move that away\n", errors)
                    self.assertEqual(self.weights("taken"), before)
                    continue
                self.assertEqual(process.returncode, 130, errors)
                self.assertIn(f"warning: {folder}, or files in it, were moved or removed: training goes on there", errors)
                self.assertEqual((folder / "tokenizer_config.json").exists(), name == "resumed")
                step = json.loads((folder / "state.json").read_text())["step"]
                resumed = run(self.model, "train", "--resume", folder, "--steps", step + 1)
                self.assertEqual(resumed.returncode, 0, resumed.stderr)
                self.assertIn(f"going on from step {step} of {step + 1}", resumed.stderr)
                self.assertEqual(tfmc("plot", folder, "-o", self.path("lost.html")).returncode, 0)

    def test_what_a_run_keeps_is_said(self):
        folder = self.path("kept")
        self.assertEqual(run(self.model, "train", "--steps", "2", "--lr", "0.5", "--out", folder).returncode, 0)
        notes = [line for line in run(self.model, "train", "--resume", folder).stderr.splitlines() if "note: the run" in line]
        self.assertEqual(len(notes), 2, notes)
        self.assertRegex(notes[0], r"note: the run keeps its 2 steps, where this build's recipe has \d+: --steps changes them")
        self.assertRegex(notes[1], r"note: the run keeps its learning rate 0.5, where this build's recipe has [\d.e-]+: --lr changes it")
        self.assertNotIn("note: the run", run(self.model, "train", "--resume", folder, "--steps", "3", "--lr", "0.1").stderr)
        # Behind the warm-up what has come down goes up again.
        self.assertNotIn("schedule", run(self.model, "train", "--resume", folder, "--steps", "110").stderr)
        self.assertIn("note: the schedule ends at step 120 and no longer at 110: the learning rate goes on with 0.05 "
                      "instead of 2e-05", run(self.model, "train", "--resume", folder, "--steps", "120").stderr)


class Addition(WholeRun, unittest.TestCase):
    """The model that needs no file; everything here is one build of it."""

    def test_shows_its_data_as_the_course_does(self):
        cases = json.loads((FIXTURES / "cs444" / "cases.json").read_text())["cases"]
        facts = {case["name"]: case["facts"] for case in cases if "facts" in case}
        samples, split = facts["addition_samples_labels"], facts["addition_split"]
        data = json.loads(run(self.model, "data", "--json").stdout)
        self.assertEqual([data["train"], data["sequence"]], split["train_samples"])
        self.assertEqual([data["validation"], data["sequence"]], split["validation_samples"])
        self.assertEqual(data["vocabulary"], facts["addition_vocabulary"]["size"])
        rows = data["rows"]
        self.assertEqual([row["text"] for row in rows],
                         facts["addition_expressions"]["first_expressions"])
        self.assertEqual([row["tokens"] for row in rows], samples["first_samples"])
        self.assertEqual([row["targets"] for row in rows], samples["first_labels"])
        # The course's answers are what nine characters leave of them.
        for row, pair in zip(rows, facts["addition_prompt_answer"]["first"], strict=True):
            self.assertEqual(row["prompt"], pair["prompt"])
            self.assertEqual((row["prompt"] + row["answer"] + "##")[:9],
                             pair["prompt"] + pair["answer"])
        # All 25,000 lines of the listing, in both parts.
        listing = (FIXTURES / "cs444" / "addition_25000.txt").read_text().split()
        for part, lines in (("train", listing[:22500]), ("validation", listing[22500:])):
            rows = json.loads(run(self.model, "data", "--json", "--count", "25000", "--part",
                                  part).stdout)["rows"]
            self.assertEqual([row["text"] for row in rows], lines)

    def test_short_functions_run_on_one_thread(self):
        functions = json.loads(run(self.model, "info", "--json").stdout)["functions"]
        self.assertEqual(functions["decode"]["threads"], 1)
        self.assertGreater(functions["train"]["threads"], 1)
        self.assertRegex(run(self.model, "info").stdout, r"threads +(1|\d+, but 1 for .*decode)\n")

    def test_one_small_executable_that_stands_alone(self):
        self.assertLess(self.model.stat().st_size, 5_000_000)
        libraries = run("ldd", self.model).stdout
        self.assertNotIn("LLVM", libraries)
        self.assertNotIn("libomp", libraries)

    def test_a_run_directory_is_whole(self):
        names = {path.name for path in self.run_folder.iterdir()}
        self.assertEqual(names, {"best", "model.safetensors", "optimizer.safetensors", "state.json",
                                 "tokenizer.json", "generation_config.json", "log.jsonl"})
        self.assertEqual(json.loads((self.run_folder / "state.json").read_text())["step"], 120)

    def test_another_seed_is_another_run(self):
        result = run(self.model, "train", "--steps", "2", "--seed", "7",
                     "--out", self.path("seed-7"))
        self.assertEqual(result.returncode, 0, result.stderr)
        other = run(self.model, "train", "--steps", "2", "--out", self.path("seed-default"))
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertNotEqual(self.weights("seed-7"), self.weights("seed-default"))

    def test_never_overwrites_a_run_unasked(self):
        before = self.weights("whole")
        result = run(self.model, "train", "--steps", "1", "--out", self.run_folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn(str(self.run_folder), result.stderr)
        self.assertEqual(self.weights("whole"), before)

    def test_what_it_begins_with_is_kept(self):
        before = self.weights("whole")
        for init in (self.run_folder, self.run_folder / "model.safetensors"):
            result = run(self.model, "train", "--steps", "1", "--init", init, "--out", self.run_folder, "--overwrite")
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"{self.run_folder} has what training begins with (--init {init}), and would be overwritten: "
                          "choose another --out", result.stderr)
            self.assertEqual(self.weights("whole"), before)

    def test_a_configuration_of_another_model_stays_alone(self):
        folder = self.path("configured")
        os.mkdir(folder)
        config = pathlib.Path(folder, "config.json")
        for text in ('{"vocab_size": 7, "hidden_act": "relu"}', "no JSON"):
            config.write_text(text)
            for more in ([], ["--overwrite"]):
                result = run(self.model, "train", "--steps", "1", "--out", folder, *more)
                self.assertEqual(result.returncode, 1)
                self.assertIn("config.json is of another model, and would be read with the weights of this run: move it, or "
                              "choose another --out", result.stderr)
                self.assertEqual(os.listdir(folder), ["config.json"])

    def test_a_run_that_came_meanwhile_is_kept(self):
        # The one reads its data slowly, the other is done before it: what it has written is not removed.
        program = binary(self.folder, MODELS / "shakespeare.tfm", "-D", "layers=1", "-D", "width=16", "-D", "heads=2",
                         "-D", "train.batch=2")
        pipe, out = self.path("pipe"), self.path("meanwhile")
        os.mkfifo(pipe)
        slow = subprocess.Popen([program, "train", "--out", out, "--data", pipe, "--steps", "2"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        text = (MODELS / "tinyshakespeare.txt").read_text()[:20000]
        with open(pipe, "w") as data: # which it opens after it has chosen its folder
            first = run(program, "train", "--out", out, "--data", MODELS / "tinyshakespeare.txt", "--steps", "3")
            self.assertEqual(first.returncode, 0, first.stderr)
            data.write(text)
        before = self.weights("meanwhile")
        errors = slow.communicate(timeout=60)[1]
        self.assertEqual(slow.returncode, 1, errors)
        self.assertIn(f"{out} holds a run by now", errors)
        self.assertEqual(self.weights("meanwhile"), before)

    def test_runs_that_begin_together_have_folders_of_their_own(self):
        program = binary(self.folder, MODELS / "shakespeare.tfm", "-D", "layers=1", "-D", "width=16", "-D", "heads=2",
                         "-D", "train.batch=2")
        with tempfile.TemporaryDirectory() as folder:
            runs = pathlib.Path(folder) / "runs"
            text = (MODELS / "tinyshakespeare.txt").read_text()[:20000]

            def begin(steps):
                """A run that has chosen its folder, and waits for its data."""
                pipe = pathlib.Path(folder) / f"data-{steps}"
                os.mkfifo(pipe)
                process = subprocess.Popen([program, "train", "--data", pipe, "--steps", str(steps)], cwd=folder,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.addCleanup(process.kill)
                return process, open(pipe, "w")

            def feed(data):
                data.write(text)
                data.close()

            # While the first one trains, and when it is over.
            waiting = [begin(steps) for steps in (1000000, 2, 3)]
            (first, data), *others = waiting
            feed(data)
            while not (runs / "shakespeare" / "log.jsonl").exists():
                time.sleep(0.01)
            for number, (process, data) in enumerate(others, 2):
                feed(data)
                printed, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 0, errors)
                self.assertIn(f"saved in runs/shakespeare-{number}\n", printed)
                self.assertTrue((runs / f"shakespeare-{number}" / "state.json").exists())
                if number == 2:
                    first.send_signal(signal.SIGINT)
                    first.communicate(timeout=60)
                    self.assertEqual(first.returncode, 130)
            self.assertEqual(len(list(runs.iterdir())), 3)

    def test_what_is_no_run_is_not_written_over(self):
        out = self.path("own")
        os.makedirs(out)
        pathlib.Path(out, "tokenizer.json").write_text("{}")
        result = run(self.model, "train", "--steps", "1", "--out", out)
        self.assertEqual(result.returncode, 1)
        self.assertIn("own/tokenizer.json is not of a run, and would be lost", result.stderr)
        self.assertEqual(pathlib.Path(out, "tokenizer.json").read_text(), "{}")
        # Of a run that was ended before its first checkpoint.
        pathlib.Path(out, "log.jsonl").write_text("")
        result = run(self.model, "train", "--steps", "1", "--out", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in ("log.jsonl", "state.json", "tokenizer.json"):
            result = run(self.model, "train", "--steps", "1", "--out", self.path("logs"), "--log",
                         f"{self.path('logs')}/{name}")
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"{name} is a file that the run in", result.stderr)

    def test_zeros_in_front_of_a_number(self):
        for given, steps in (("012", 12), ("08", 8)):
            result = run(self.model, "train", "--steps", given, "--out", self.path("zeros" + given), "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(json.loads((self.path("zeros" + given) / "state.json").read_text())["step"], steps)

    def test_nothing_is_left_to_train_into_a_new_run(self):
        whole = run(self.model, "train", "--resume", self.run_folder)
        self.assertEqual((whole.returncode, whole.stdout),
                         (0, f"the run in {self.run_folder} is complete after 120 steps: train on with "
                             "--steps 240\n"))
        fewer = run(self.model, "train", "--resume", self.run_folder, "--steps", "5")
        self.assertEqual((fewer.returncode, fewer.stdout),
                         (0, f"the run in {self.run_folder} has 120 steps already, and --steps 5 are those of the "
                             "whole run\n"))
        result = run(self.model, "train", "--resume", self.run_folder, "--out", self.path("new"))
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{whole.stdout.strip()}; there is no run in {self.path('new')} now", result.stderr)

    def test_a_prompt_that_cannot_be_used_is_named(self):
        pathlib.Path(self.path("prompt.txt")).write_bytes(b"1+\xff")
        result = run(self.model, "generate", "--weights", self.run_folder, "--prompt-file", self.path("prompt.txt"))
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"error: {self.path('prompt.txt')}: not UTF-8 text", result.stderr)

    def test_overwriting_begins_when_all_is_well(self):
        before = self.weights("whole")
        for wrong in (["--init", self.run_folder / "nothing"], ["--data", self.path("no.txt")]):
            result = run(self.model, "train", "--out", self.run_folder, "--overwrite", *wrong)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(self.weights("whole"), before)

    def test_eval_counts_exact_answers(self):
        result = run(self.model, "eval", "--weights", self.run_folder, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        exact = answer["exact_match"]
        self.assertEqual(exact["prompts"], exact["seen"]["prompts"] + exact["unseen"]["prompts"])
        self.assertGreater(exact["unseen"]["prompts"], 0)
        self.assertLess(answer["loss"], 1.6)

    def test_eval_on_all_of_another_file(self):
        text = self.path("sums.txt")
        text.write_text("12+13=25.#" * 50)
        result = run(self.model, "eval", "--weights", self.run_folder, "--data", text, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreaterEqual(json.loads(result.stdout)["targets"], 400)
        text.write_text("12+13")
        result = run(self.model, "eval", "--weights", self.run_folder, "--data", text)
        self.assertEqual(result.returncode, 1)
        self.assertIn("is too short: it has 5 tokens", result.stderr)

    def test_generates_an_answer(self):
        result = run(self.model, "generate", "--weights", self.run_folder, "--prompt", "47+51=")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"47\+51=[0-9.]*\n")
        again = run(self.model, "generate", "--weights", self.run_folder, "--prompt", "47+51=")
        self.assertEqual(again.stdout, result.stdout)

    def test_export_writes_the_same_weights(self):
        exported = self.path("alone.safetensors")
        result = run(self.model, "export", "--weights", self.run_folder, "-o", exported)
        self.assertEqual(result.returncode, 0, result.stderr)
        compared = tfmc("report", self.source, "--against", exported)
        self.assertEqual(compared.returncode, 0, compared.stdout)
        answers = [run(self.model, "generate", "--weights", weights, "--prompt", "9+9=").stdout
                   for weights in (exported, self.run_folder)]
        self.assertEqual(answers[0], answers[1])

    def test_export_writes_the_weights_that_training_begins_with(self):
        initial = self.path("initial.safetensors")
        result = run(self.model, "export", "--seed", "5", "-o", initial)
        self.assertEqual(result.returncode, 0, result.stderr)
        for out, begin in ("drawn", []), ("given", ["--init", initial]):
            result = run(self.model, "train", "--seed", "5", "--steps", "2", "--out", self.path(out), *begin)
            self.assertEqual(result.returncode, 0, result.stderr)
        drawn, given = ((self.path(out) / "model.safetensors").read_bytes() for out in ("drawn", "given"))
        self.assertEqual(drawn, given)
        self.assertEqual(tfmc("report", self.source, "--against", initial).returncode, 0)
        for weights in ([], ["--seed", "5", "--weights", self.run_folder]):
            result = run(self.model, "export", *weights, "-o", self.path("none.safetensors"))
            self.assertEqual(result.returncode, USAGE)
            self.assertIn("--weights", result.stderr)

    def test_wrong_usage(self):
        for arguments in (["frobnicate"], ["train", "--steps", "-3"], ["generate"],
                          ["train", "--frobnicate"], ["generate", "--weights"]):
            result = run(self.model, *arguments)
            self.assertEqual(result.returncode, USAGE, arguments)
        result = run(self.model, "generate", "--weights", "x", "--top-p", "2")
        self.assertIn("--top-p: must be from 0 to 1, not 2", result.stderr)
        result = run(self.model, "train", "--steps", "-3")
        self.assertEqual(result.stderr, f"{self.model} train: --steps: must be a whole number of "
                                        "at least 1, not -3\n"
                                        f"Run `{self.model} train --help` for more information.\n")

    def test_bad_input_names_what_is_wrong(self):
        empty = self.path("empty.safetensors")
        empty.write_bytes(b"")
        lost = self.path("lost")
        lost.symlink_to("nowhere")
        for arguments, word in (
                (["train", "--out", lost], f"cannot make the folder {lost}: {lost} is a link to nowhere, which is not "
                                           "there\n"),
                (["generate", "--weights", "no/such/run", "--prompt", "1+1="], "no/such/run"),
                (["generate", "--weights", empty, "--prompt", "1+1="], "empty.safetensors"),
                (["generate", "--weights", self.run_folder, "--prompt", "what?"], "w"),
                (["eval", "--weights", self.path("nothing")], "nothing"),
                (["train", "--resume", "no/such/run"], "no/such/run"),
                (["train", "--resume", empty], f"{empty} is a file: name the run directory in which it lies"),
                (["train", "--init", "no.safetensors", "--out", self.path("x")],
                 "no.safetensors")):
            result = run(self.model, *arguments)
            self.assertEqual(result.returncode, 1, (arguments, result))
            self.assertIn(word, result.stderr)


class AdditionInBf16(WholeRun, unittest.TestCase):
    """What is stored in bf16 is half as much, and trains all the same."""
    options = ["-D", "train.precision=bf16"]

    def test_a_trace_of_the_only_step(self):
        trace = self.path("trace.json")
        result = run(self.model, "train", "--steps", "1", "--out", self.path("traced"),
                     "--profile", trace)
        self.assertEqual(result.returncode, 0, result.stderr)
        names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
        self.assertIn("step 1", names)
        self.assertNotIn("refresh", names)

    def test_stores_half(self):
        narrow, wide = (json.loads(tfmc("report", self.source, *options, "--memory", "--format",
                                        "json").stdout)["memory"]
                        for options in (self.options, []))
        self.assertEqual(narrow["parameters"], 1.5 * wide["parameters"])
        self.assertEqual(narrow["types"]["parameters"],
                         {"f32": wide["parameters"], "bf16": wide["parameters"] // 2})
        self.assertEqual(narrow["optimizer"], wide["optimizer"])
        self.assertEqual(narrow["gradients"], wide["gradients"])
        saved, whole = narrow["types"]["saved"], wide["types"]["saved"]["f32"]
        self.assertLessEqual(sum(saved.values()), 0.6 * whole)

    def test_losses_are_those_of_f32(self):
        self.path("wide").mkdir()
        wide = binary(self.path("wide"), self.source)
        result = run(wide, "train", "--steps", "120", "--out", self.path("in-f32"))
        self.assertEqual(result.returncode, 0, result.stderr)
        losses = [[json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text()
                   .splitlines() if '"loss"' in line]
                  for folder in (self.run_folder, self.path("in-f32"))]
        self.assertEqual(*map(len, losses))
        self.assertNotEqual(*losses)
        # Numbers of 8 bits, added up in 24.
        for narrow, whole in zip(*losses):
            self.assertAlmostEqual(narrow / whole, 1, delta=0.02)

    def test_a_run_goes_on_in_another_precision_and_back(self):
        self.path("single").mkdir()
        single = binary(self.path("single"), self.source)
        out = self.path("changing")

        def train(program, steps, *where):
            result = run(program, "train", "--steps", steps, *where)
            self.assertEqual(result.returncode, 0, result.stderr)
            notes = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
            state = json.loads((pathlib.Path(where[-1]) / "state.json").read_text())
            return notes, state["precision"]

        def exported(program, *options):
            path = self.path("exported.safetensors")
            result = run(program, "export", "--weights", out, "-o", path, *options)
            self.assertEqual(result.returncode, 0, result.stderr)
            return path.read_bytes()

        changes = "note: the run in {} was trained in {} until now, and goes on in {}: "
        self.assertEqual(train(single, 40, "--out", out), ([], "f32"))
        (note,), precision = train(self.model, 80, "--resume", out)
        self.assertTrue(note.startswith(changes.format(out, "f32", "bf16")), note)
        self.assertEqual(precision, "bf16")
        # What is saved is f32 and whole: neither binary rounds it.
        for options in ((), ("--dtype", "bf16"), ("--dtype", "f16")):
            self.assertEqual(exported(self.model, *options), exported(single, *options))
        (note,), precision = train(single, 120, "--resume", out)
        self.assertTrue(note.startswith(changes.format(out, "bf16", "f32")), note)
        self.assertEqual(precision, "f32")
        losses = [[json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text().splitlines()
                   if '"loss"' in line] for folder in (out, self.run_folder)]
        self.assertEqual(*map(len, losses))
        for changing, narrow in zip(*losses):
            self.assertAlmostEqual(changing / narrow, 1, delta=0.02)


class Shakespeare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tfm-e2e-")
        cls.model = binary(cls.folder, MODELS / "shakespeare.tfm")
        cls.run_folder = pathlib.Path(cls.folder) / "run"
        cls.trained = run(cls.model, "train", "--data", MODELS / "tinyshakespeare.txt",
                          "--steps", "100", "--out", cls.run_folder)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_training_reaches_the_loss_of_a_bigram_model(self):
        self.assertEqual(self.trained.returncode, 0, self.trained.stderr)
        match = re.search(r"validation loss (\d\.\d+)", self.trained.stdout + self.trained.stderr)
        self.assertTrue(match, self.trained)
        # Guessing costs log(65) = 4.17; the best bigram model about 2.45.
        self.assertLess(float(match.group(1)), 2.75)

    def test_text_streams_on_standard_output_only(self):
        result = run(self.model, "generate", "--weights", self.run_folder, "--prompt", "ROMEO:",
                     "--tokens", "80", "--seed", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.startswith("ROMEO:"))
        self.assertGreater(len(result.stdout), 80)
        self.assertIn("tokens/s", result.stderr)
        other = run(self.model, "generate", "--weights", self.run_folder, "--prompt", "ROMEO:",
                    "--tokens", "80", "--seed", "2")
        self.assertNotEqual(result.stdout, other.stdout)

    def test_data_that_cannot_be_used(self):
        for name, text, word in (("empty.txt", "", "empty.txt"), ("short.txt", "To be", "short.txt"),
                                 ("greek.txt", "Ω" * 100000, "greek.txt")):
            data = pathlib.Path(self.folder) / name
            data.write_text(text, encoding="utf-8")
            result = run(self.model, "train", "--data", data, "--steps", "1",
                         "--out", pathlib.Path(self.folder) / "bad")
            self.assertEqual(result.returncode, 1, (name, result))
            self.assertIn(word, result.stderr)

    def test_what_a_run_goes_on_with(self):
        def resumed(name, *more):
            return run(self.model, "train", "--resume", self.run_folder, "--steps", "101",
                       "--out", pathlib.Path(self.folder) / name, *more)
        data = MODELS / "tinyshakespeare.txt"
        self.assertNotIn("was trained on", resumed("same", "--data", data).stderr)
        other = resumed("data")
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertIn(f"note: the run was trained on --data {data} until now, and goes on with the data of this "
                      "build's recipe\n", other.stderr)
        # Its weights mean nothing to tokens of other numbers.
        tokenizer = json.loads((self.run_folder / "tokenizer.json").read_text())
        vocabulary = tokenizer["model"]["vocab"]
        vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
        path = pathlib.Path(self.folder) / "swapped.json"
        path.write_text(json.dumps(tokenizer))
        other = resumed("tokens", "--data", data, "--tokenizer", path)
        self.assertEqual(other.returncode, 1)
        self.assertIn(f"the run in {self.run_folder} has a tokenizer of its own: train with another one in a new "
                      f"run, --init {self.run_folder} --out NEW", other.stderr)

    def test_weights_of_another_model(self):
        with tempfile.TemporaryDirectory() as folder:
            wider = binary(folder, MODELS / "shakespeare.tfm", "-D", "width=64")
            result = run(wider, "generate", "--weights", self.run_folder, "--prompt", "O")
        self.assertEqual(result.returncode, 1)
        self.assertIn("wte.weight", result.stderr)


class OneAnswerForAText(unittest.TestCase):
    """Models whose result is not the logits of the next token after each one."""

    LOSSES = {
        "[B, 1, vocab]": ("out(e(tokens)[:, -1:])",
                          "cross_entropy(forward(tokens), targets[:, -1:]) + 0.0 * float(targets)"),
        "[B, vocab]": ('rearrange(out(e(tokens)[:, -1:]), "B 1 V -> B V")',
                       'cross_entropy(rearrange(forward(tokens), "B V -> B 1 V"), targets[:, -1:])'
                       " + 0.0 * float(targets)"),
        "[B, T, 1]": ("out(e(tokens))[:, :, :1]",
                      'mse(forward(tokens), rearrange(float(targets) / 255.0, "B T -> B T 1"))'),
        "[B, T, 3]": ("out(e(tokens))[:, :, :3]",
                      "cross_entropy(forward(tokens), max(min(targets, 2), 0))"),
    }

    def test_trains_and_does_not_generate(self):
        for shape, (result, loss) in self.LOSSES.items():
            with self.subTest(shape), tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
                folder = pathlib.Path(name)
                (folder / "tale.txt").write_text("one fish two fish red fish blue fish\n" * 30)
                (folder / "answer.tfm").write_text(f"""
model Answer(vocab = tokenizer.size, context = 16, width = 8) {{
  e   = Embedding(vocab, width)
  out = Linear(width, vocab)
  forward(tokens: int[B, T]) -> {shape} {{ return {result} }}
  loss(tokens: int[B, T], targets: int[B, T]) -> [B, T] {{ return {loss} }}
}}
tokenizer bytes
data text("tale.txt", validation = 0.1)
train {{ batch = 4, sequence = 16, steps = 4, optimizer = adam(lr = 1e-3), sample = every(2) }}
""")
                model = binary(folder, folder / "answer.tfm")
                trained = run(model, "train", "--out", "run", cwd=folder)
                self.assertEqual(trained.returncode, 0, trained.stderr)
                measured = run(model, "eval", "--weights", "run", "--json", cwd=folder)
                self.assertEqual(measured.returncode, 0, measured.stderr)
                self.assertGreater(json.loads(measured.stdout)["loss"], 0)
                self.assertIn("--- no sample: Answer gives [1, ", trained.stdout)
                self.assertIsNone(json.loads(measured.stdout)["accuracy"])
                for command in (["generate", "--prompt", "one"],
                                ["logits", "--prompt", "one", "-o", "logits.safetensors"]):
                    refused = run(model, *command, "--weights", "run", cwd=folder)
                    self.assertEqual(refused.returncode, 1)
                    self.assertIn("which are no logits of the next token after each one, "
                                  "[1, 16, 256]", refused.stderr)
                self.assertFalse((folder / "logits.safetensors").exists())

    def test_classes_are_no_vocabulary(self):
        # No table says how many tokens there are, and what comes out is less than the tokenizer has.
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
            folder = pathlib.Path(name)
            (folder / "digits.txt").write_text("0254=x\n7311=y\n0231=x\n" * 20)
            (folder / "classes.tfm").write_text("""
model Classes(classes = 2) {
  head = Linear(4, classes)
  forward(tokens: int[B, T]) -> [B, classes] { return head(float(tokens[:, 0:4])) }
  loss(tokens: int[B, T], targets: int[B, T]) -> [B, T] {
    kind = min(max(targets[:, 4] - 8, 0), 1)
    return rearrange(cross_entropy(forward(tokens), kind), "B -> B 1") + 0.0 * float(targets)
  }
}
tokenizer chars("01234567xy=")
data lines("digits.txt", validation = 0.2)
train { batch = 4, sequence = 5, steps = 4, optimizer = adam(lr = 1e-3) }
""")
            model = binary(folder, folder / "classes.tfm")
            for command in (["train", "--out", "run"], ["data"], ["eval", "--weights", "run"]):
                result = run(model, *command, cwd=folder)
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_no_eps_is_named_where_it_is_the_cause(self):
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
            folder = pathlib.Path(name)
            (folder / "tale.txt").write_text("one fish two fish red fish blue fish\n" * 30)
            (folder / "eps.tfm").write_text("""
model Eps(vocab = tokenizer.size, context = 8, width = 8) {
  wte = Embedding(vocab, width)
  out = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] { return out(wte(tokens)) }
}
tokenizer bytes
data text("tale.txt")
train { batch = 4, sequence = 8, steps = 4, optimizer = adamw(lr = 1e-3, eps = 0) }
""")
            result = run(binary(folder, folder / "eps.tfm"), "train", "--out", "run", cwd=folder)
            self.assertEqual(result.returncode, 1)
            self.assertIn("the loss is nan at step 2: with eps = 0 what has had no gradient yet is changed by 0 / 0. "
                          "Build with an eps, such as 1e-8", result.stderr)


class ClassesOfTexts(unittest.TestCase):
    def test_are_answers(self):
        # As docs/language.md says it.
        kinds = {"+": ("good", "great", "fine"), "-": ("bad", "poor", "dull")}
        texts = [(f"a {word} {thing} by {who}", kind) for kind, words in kinds.items() for word in words
                 for thing in ("film", "book", "meal", "song", "play", "walk", "trip", "poem") for who in "abcdefgh"]
        random.Random(1).shuffle(texts)
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
            folder = pathlib.Path(name)
            (folder / "reviews.txt").write_text("".join(f"{text}\t{kind}\n" for text, kind in texts))
            (folder / "mood.tfm").write_text("""
model Mood(vocab = tokenizer.size, context = 24, width = 32) {
  wte  = Embedding(vocab, width)
  wpe  = LearnedPositions(context, width)
  ln_1 = LayerNorm(width)
  attn = SelfAttention(width, heads = 2)
  ln_2 = LayerNorm(width)
  mlp  = MLP(width)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    x = wte(tokens) + wpe(tokens)
    x = x + attn(ln_1(x))
    return (x + mlp(ln_2(x))) @ wte.weight.T
  }
}
tokenizer chars(from = data)
data pairs("reviews.txt", answers_only = true, pad = "#", validation = 0.2)
train { loss = cross_entropy(ignore = "#"), batch = 32, steps = 200, optimizer = adamw(lr = 3e-3) }
""")
            model = binary(folder, folder / "mood.tfm")
            trained = run(model, "train", "--out", "run", cwd=folder)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            measured = json.loads(run(model, "eval", "--weights", "run", "--json", cwd=folder).stdout)
            self.assertEqual(measured["exact_match"]["accuracy"], 1.0, measured)
            for text, kind in (("a dull tale by a", "-"), ("a fine tale by a", "+")):
                told = run(model, "generate", "--weights", "run", "--prompt", text, "--tokens", "1", "--temperature", "0",
                           cwd=folder)
                self.assertEqual(told.stdout.strip(), text + kind, told.stderr)


class MaskedTokens(unittest.TestCase):
    """The encoder of docs/language.md that fills in what is hidden."""

    def test_learns_and_is_measured(self):
        guide = (MODELS.parent / "docs" / "language.md").read_text()
        text = guide[guide.index("/// Masked tokens"):]
        text = text[:text.index("```")]
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
            folder = pathlib.Path(name)
            (folder / "my.txt").write_text("one fish two fish red fish blue fish\n" * 200)
            (folder / "fill.tfm").write_text(text)
            model = binary(folder, folder / "fill.tfm", "-D", "width=32", "-D", "train.steps=150",
                           "-D", "train.optimizer.lr=5e-3")
            trained = run(model, "train", "--out", "run", cwd=folder)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            lines = (folder / "run" / "log.jsonl").read_text().splitlines()
            losses = [line["loss"] for line in map(json.loads, lines) if "loss" in line]
            # The share of the places is hidden: untrained each costs log(256).
            self.assertAlmostEqual(losses[0], math.log(256), delta=1.2)
            self.assertLess(losses[-1], 3)
            # Other places in each step.
            self.assertGreater(len(set(losses[-10:])), 5)
            measured = [run(model, "eval", "--weights", "run", "--json", cwd=folder).stdout
                        for _ in range(2)]
            self.assertEqual(*measured)
            loss = json.loads(measured[0])["loss"]
            self.assertGreater(loss, 0.05)
            self.assertLess(loss, 3)


class LooksRight(unittest.TestCase):
    """Positions that only some tokens look right from, or at: a text has no logits of its own all the same."""

    def test_is_refused_whatever_the_tokens_are(self):
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
            folder = pathlib.Path(name)
            (folder / "chosen.tfm").write_text("""
model Chosen(vocab = tokenizer.size, context = 12, width = 8) {
  e   = Embedding(vocab, width)
  out = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    seven = max(float(tokens == 7), axis = T)
    return out(e(tokens) + rearrange(seven, "B 1 -> B 1 1"))
  }
}
tokenizer chars("0123456789+=.#")
data text("digits.txt")
train { batch = 4, sequence = 7, steps = 1 }
""")
            (folder / "digits.txt").write_text("0123456789+=.#" * 20)
            model = binary(folder, folder / "chosen.tfm")
            trained = run(model, "train", "--out", "run", cwd=folder)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            made = run(model, "generate", "--weights", "run", "--prompt", "12", "--greedy", cwd=folder)
            self.assertEqual((made.returncode, made.stdout), (1, ""), made.stderr)
            self.assertIn("a text of 2 tokens has no logits of its own: this model looks at all 12 positions at once", made.stderr)
            # Of many it is one line's error.
            made = run(model, "generate", "--weights", "run", "--prompts", "-", "--greedy", "--tokens", "2", "--json", cwd=folder,
                       stdin="12\n123456123456\n")
            self.assertEqual(made.returncode, 1)
            self.assertIn("error: standard input:1: a text of 2 tokens has no logits of its own", made.stderr)
            self.assertTrue(made.stderr.endswith("error: 1 of 2 prompts could not be continued, see above\n"), made.stderr)
            self.assertEqual([json.loads(line)["ended"] for line in made.stdout.splitlines()], ["failed", "tokens"])
            # Where nothing is right of it.
            made = run(model, "generate", "--weights", "run", "--prompt", "123456123456", "--greedy", "--tokens", "2", cwd=folder)
            self.assertEqual(made.returncode, 0, made.stderr)


class NoAnswers(unittest.TestCase):
    """Data with questions that the model cannot answer: it trains on them all the same."""

    MODELS = {
        "a table in it has rows for 14": ("vocab + 3", "true"),
        "this model looks at all 12 positions at once": ("vocab", "false"),
    }

    def test_trains_and_is_evaluated(self):
        for why, (logits, causal) in self.MODELS.items():
            with self.subTest(why), tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
                folder = pathlib.Path(name)
                (folder / "sums.tfm").write_text(f"""
model Sums(vocab = tokenizer.size, context = 12, width = 8) {{
  e    = Embedding(vocab, width)
  attn = SelfAttention(width, heads = 2, drop = 0.0, causal = {causal})
  out  = Linear(width, {logits})
  forward(tokens: int[B, T]) -> [B, T, {logits}] {{ return out(attn(e(tokens))) }}
}}
tokenizer chars("0123456789+=.#")
data sums(count = 50, max = 9, validation = 0.2)
train {{ batch = 4, sequence = 7, steps = 4, loss = cross_entropy(ignore = "#"),
  validate = every(2) }}
""")
                model = binary(folder, folder / "sums.tfm")
                trained = run(model, "train", "--out", "run", cwd=folder)
                self.assertEqual(trained.returncode, 0, trained.stderr)
                measured = run(model, "eval", "--weights", "run", "--json", cwd=folder)
                self.assertEqual(measured.returncode, 0, measured.stderr)
                for output in (trained.stderr, measured.stderr):
                    self.assertEqual(output.count("note: no answers are compared: "), 1)
                    self.assertIn(why, output)
                answer = json.loads(measured.stdout)
                self.assertIsNotNone(answer["accuracy"])
                self.assertIsNone(answer["exact_match"])


class ResumedByAnotherBuild(unittest.TestCase):
    """A run goes on as the binary has it, and the user is told what is no longer as it was."""

    SOURCE = """
model Pairs(vocab = 3, context = 8, width = 8, drop = 0.0) {
  e = Embedding(vocab, width)
  forward(tokens: int[B, T]) -> [B, T, vocab] { return dropout(e(tokens), drop) @ e.weight.T }
}
tokenizer chars("ab ")
data text("pairs.txt", validation = 0.1)
train { batch = 2, sequence = 8, steps = 2, clip = 1.0, schedule = cosine(warmup = 1) }
"""

    def test_what_was_another_until_now(self):
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
            folder = pathlib.Path(name)
            (folder / "pairs.tfm").write_text(self.SOURCE)
            (folder / "pairs.txt").write_text("ab aba b" * 40)

            def built(name, *defines):
                return binary(folder, folder / "pairs.tfm", *defines).rename(folder / name)

            def notes(model, out, *more):
                trained = run(model, "train", "--resume", "run", "--steps", "4", "--out", out, *more, cwd=folder)
                self.assertEqual(trained.returncode, 0, trained.stderr)
                # Two more steps have the schedule end later.
                return [line for line in trained.stderr.splitlines()
                        if line.startswith("note: ") and not line.startswith("note: the schedule ends at step 4 ")]

            same = built("as-it-was")
            self.assertEqual(run(same, "train", "--out", "run", cwd=folder).returncode, 0)
            state = json.loads((folder / "run/state.json").read_text())
            self.assertEqual(state["settings"]["train.clip"], 1.0)
            self.assertEqual(state["settings"]["drop"], 0.0)
            self.assertEqual(notes(same, "same"), [])
            other = built("changed", "-D", "train.clip=none", "-D", "drop=0.5", "-D", "train.schedule=constant")
            changed = notes(other, "other")
            self.assertEqual(changed, ["note: until now the run had drop = 0 (here 0.5), train.clip = 1 (here none), "
                                       'train.schedule.kind = "cosine" (here "constant"), train.schedule.warmup = 1 '
                                       "(here 0)"])
            # The next time that is how it was.
            again = run(other, "train", "--resume", "other", "--steps", "5", cwd=folder)
            self.assertNotIn("until now", again.stderr)
            # The same name, and other data: also where they have the same size.
            (folder / "pairs.txt").write_text("ab abb a" * 40)
            told = "note: the data are not those that the run had until now"
            self.assertEqual(notes(same, "text"), [told + ": pairs.txt has changed"])
            (folder / "more.txt").write_text("ba" * 40)
            more = built("more", "-D", 'data.files=["pairs.txt", "more.txt"]', "-D", "data.validation=0")
            self.assertEqual(notes(more, "more-run"), [told + ": more.txt is new, pairs.txt has changed"])
            fewer = run(same, "train", "--resume", "more-run", "--steps", "6", "--out", "fewer", cwd=folder)
            self.assertIn(told + ": more.txt is none of them any more\n", fewer.stderr)
            # The file, but not the part that is trained on.
            halved = run(built("halved", "-D", "data.validation=0.5"), "train", "--resume", "fewer", "--steps", "8",
                         "--out", "other-part", cwd=folder)
            self.assertIn(told + ", or are read in another way\n", halved.stderr)
            # A file that nothing is trained on.
            aside = built("aside", "-D", "data.validation_files=more.txt")
            self.assertEqual(run(aside, "train", "--resume", "fewer", "--steps", "8", "--out", "aside-run",
                                 cwd=folder).returncode, 0)
            (folder / "more.txt").write_text("ab" * 40)
            after = run(aside, "train", "--resume", "aside-run", "--steps", "9", cwd=folder)
            self.assertIn(told + ": more.txt has changed\n", after.stderr)
            # A run whose state has no checksums of files.
            state = json.loads((folder / "run/state.json").read_text())
            self.assertEqual(list(state["checksums"]["data_files"]), ["pairs.txt"])
            # Other windows are told of alone.
            changed = notes(built("shorter", "-D", "train.sequence=4"), "short")
            self.assertEqual(changed, ["note: until now the run had train.sequence = 8 (here 4)",
                                       "note: an update of this build has 8 tokens; those of the run had others until "
                                       "now, 16 on average"])


class DataOfOthers(unittest.TestCase):
    """What nanoGPT, llm.c and NumPy users have is trained on as it is."""

    def test_a_pipe_is_none_of_the_files(self):
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
            folder = pathlib.Path(name)
            (folder / "unseen.txt").write_text("one fish two fish\n" * 9)
            (folder / "piped.tfm").write_text("""
model Bytes(width = 8) {
  e = Embedding(256, width)
  forward(tokens: int[B, T]) -> [B, T, 256] { return e(tokens) @ e.weight.T }
}
tokenizer bytes
data text("seen.txt", validation_files = "unseen.txt")
train { batch = 2, sequence = 8, steps = 3, loss = cross_entropy(ignore = none) }
""")
            model = binary(folder, folder / "piped.tfm")
            trained = run(model, "train", "--data", "-", "--out", "run", "--json", cwd=folder, stdin="red fish\n" * 9)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            self.assertEqual(json.loads(trained.stdout)["steps"], 3)

    def test_the_form_of_a_file_does_not_matter(self):
        ids = [(i * i + 3 * i) % 251 for i in range(600)]
        raw, unseen = array.array("H", ids).tobytes(), array.array("H", ids[::-1][:70]).tobytes()
        header = b"{'descr': '<u2', 'fortran_order': False, 'shape': (600,), }\n"
        forms = {"train.bin": raw, "val.bin": unseen,
                 "train.npy": b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + raw,
                 "gpt2_train.bin": struct.pack("<256i", 20240520, 1, 600, *[0] * 253) + raw,
                 "gpt2_val.bin": struct.pack("<256i", 20240520, 1, 70, *[0] * 253) + unseen}
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
            folder = pathlib.Path(name)
            for file, content in forms.items():
                (folder / file).write_bytes(content)
            (folder / "ids.tfm").write_text("""
model Ids(vocab = 256, context = 16, width = 8) {
  e = Embedding(vocab, width)
  forward(tokens: int[B, T]) -> [B, T, vocab] { return e(tokens) @ e.weight.T }
}
data tokens("train.bin", validation_files = "val.bin")
train { batch = 4, sequence = 16, steps = 6, optimizer = adam(lr = 1e-2), validate = every(3) }
""")
            logs = set()
            for number, files in enumerate((["train.bin", "val.bin"], ["train.npy", "val.bin"],
                                            ["gpt2_train.bin", "gpt2_val.bin"])):
                made = tfmc("build", "ids.tfm", "-D", f"data.files={files[0]}", "-D",
                            f"data.validation_files={files[1]}", "-o", "ids", cwd=folder)
                self.assertEqual(made.returncode, 0, made.stderr)
                trained = run("./ids", "train", "--out", f"run{number}", "--json", cwd=folder)
                self.assertEqual(trained.returncode, 0, trained.stderr)
                answer = json.loads(trained.stdout)
                logs.add((answer["loss"], answer["validation_loss"]))
                measured = run("./ids", "eval", "--weights", f"run{number}", "--json", cwd=folder)
                self.assertEqual(json.loads(measured.stdout)["targets"], 69)
            self.assertEqual(len(logs), 1)
            # Whose updates see more or less than before is told so.
            again = run("./ids", "train", "--resume", "run2", "--steps", "8", "--out", "run2-on", cwd=folder)
            self.assertNotIn("note: an update", again.stderr)
            made = tfmc("build", "ids.tfm", "-D", "train.batch=2", "-o", "ids", cwd=folder)
            self.assertEqual(made.returncode, 0, made.stderr)
            again = run("./ids", "train", "--resume", "run2", "--steps", "8", "--out", "run2-less", cwd=folder)
            self.assertIn("note: an update of this build has 32 tokens; those of the run had others until now, "
                          "64 on average\n", again.stderr)
            # A pattern easily names what is to stay unseen, too.
            self.assertNotIn("warning: ", again.stderr)
            made = tfmc("build", "ids.tfm", "-D", "data.files=gpt2_*.bin", "-D", "data.validation_files=gpt2_val.bin",
                        "-o", "both", cwd=folder)
            self.assertEqual(made.returncode, 0, made.stderr)
            both = run("./both", "train", "--steps", "1", "--out", "run-both", cwd=folder)
            self.assertIn("warning: gpt2_val.bin is trained on, too: validation with it says nothing of unseen data\n",
                          both.stderr)
            # A file that the command names is for training alone, and evaluated whole.
            other = run("./ids", "train", "--data", "gpt2_val.bin", "--out", "run3", "--json", cwd=folder)
            self.assertIsNotNone(json.loads(other.stdout)["validation_loss"], other.stderr)
            measured = run("./ids", "eval", "--data", "train.npy", "--weights", "run3", "--json", cwd=folder)
            self.assertEqual(json.loads(measured.stdout)["targets"], 599)


class NothingToValidate(unittest.TestCase):
    """Training ends as it should where no target of the validation part counts, or none is there."""

    def test_trains_and_says_so(self):
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
            folder = pathlib.Path(name)
            # The last line has one character, and no next one.
            (folder / "lines.txt").write_text("one fish\n" * 9 + ".\n")
            (folder / "lines.tfm").write_text("""
model Lines(vocab = tokenizer.size, context = 16, width = 8) {
  e    = Embedding(vocab, width)
  attn = SelfAttention(width, heads = 2, drop = 0.0)
  out  = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] { return out(attn(e(tokens))) }
}
tokenizer chars(from = data)
data lines("lines.txt", pad = "#", validation = 0.1)
train { batch = 2, sequence = 16, steps = 4, loss = cross_entropy(ignore = "#"),
  validate = every(2), stop = early(patience = 2) }
""")
            for defines, why in (((), "no target in the validation part of the data counts"),
                                 (("-D", "data.validation=0.0"), "the data has no validation part")):
                model = binary(folder, folder / "lines.tfm", *defines)
                trained = run(model, "train", "--out", "run", "--overwrite", cwd=folder)
                self.assertEqual(trained.returncode, 0, trained.stderr)
                self.assertEqual(trained.stderr.count("note: nothing is validated, and `train.validate` "
                                                      f"and `train.stop` do nothing: {why}"), 1, trained.stderr)
                self.assertTrue((folder / "run/model.safetensors").exists())
                measured = run(model, "eval", "--weights", "run", cwd=folder)
                self.assertEqual(measured.returncode, 1)
                self.assertIn("there is nothing to evaluate: ", measured.stderr)
            log = run(model, "train", "--data", "lines.txt", "--log", "lines.txt", "--overwrite", cwd=folder)
            self.assertEqual(log.returncode, 1)
            self.assertIn("lines.txt is a file that this training reads", log.stderr)
            self.assertTrue((folder / "lines.txt").read_text().startswith("one fish"))


class WordsWithoutTokens(unittest.TestCase):
    """What to do depends on where the tokenizer has its tokens from."""

    def test_the_advice_fits(self):
        model = """
model Lines(vocab = tokenizer.size, width = 8) {
  e   = Embedding(vocab, width)
  out = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] { return out(e(tokens)) }
}
tokenizer TOKENIZER
data text("text.txt")
train { batch = 2, sequence = 4, steps = 4 }
"""
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
            folder = pathlib.Path(name)
            (folder / "vocab.json").write_text(json.dumps({"one": 0, "two": 1}))
            (folder / "other.txt").write_text("one six two\n")
            changed = "Build the model again if its data has changed since, else add what is missing to the alphabet"
            other = "The model was built with another text: name this file in its `data` and build again"
            vocabulary = "Add one to the vocabulary that `tokenizer` names, or name one there that has it, and build"
            for tokenizer, own, named in (("chars(from = data)", changed, other),
                                          ('words("vocab.json")', vocabulary, vocabulary)):
                (folder / "text.txt").write_text("one two\n" * 9)
                (folder / "lines.tfm").write_text(model.replace("TOKENIZER", tokenizer))
                program = binary(folder, folder / "lines.tfm")
                (folder / "text.txt").write_text("one six\n" * 9)
                for options, advice in (((), own), (("--data", "other.txt"), named)):
                    for command in ("train", "data"):
                        result = run(program, command, *options, cwd=folder)
                        self.assertEqual(result.returncode, 1)
                        self.assertIn("txt:1: the tokenizer has no token for ", result.stderr)
                        self.assertIn(f". {advice}", result.stderr)


class WhatAModelIsMadeOf(unittest.TestCase):
    """Neither the program nor what it was built from makes way for what it writes."""

    def test_is_not_overwritten(self):
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
            folder = pathlib.Path(name)
            (folder / "elsewhere").mkdir()
            (folder / "lines.txt").write_text("one fish\ntwo fish\n" * 9)
            (folder / "vocab.json").write_text(json.dumps({"one": 0, "two": 1, "fish": 2, "#": 3}))
            (folder / "lines.tfm").write_text("""
model Lines(vocab = tokenizer.size, width = 8) {
  e   = Embedding(vocab, width)
  out = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] { return out(e(tokens)) }
}
tokenizer words("vocab.json")
data lines("lines.txt", pad = "#")
train { batch = 2, sequence = 4, steps = 4, loss = cross_entropy(ignore = 3) }
""")
            built = tfmc("build", "lines.tfm", cwd=folder)
            self.assertEqual(built.returncode, 0, built.stderr)
            model = folder / "lines"
            trained = run(model, "train", "--out", "run", cwd=folder)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            kinds = {model.name: "this program itself", "lines.tfm": "what this program was built from",
                     "lines.txt": "a data file of Lines", "vocab.json": "a file of the tokenizer of Lines",
                     "another": "a program or library", "script": "a program or library"}
            shutil.copy(model, folder / "another")
            (folder / "script").write_text("#!/bin/sh\n")
            (folder / "script").chmod(0o755)
            for file, kind in kinds.items():
                before = (folder / file).read_bytes()
                for cwd in (folder, folder / "elsewhere"):
                    out = pathlib.Path(os.path.relpath(folder / file, cwd))
                    for command in (("export", "--weights", folder / "run", "--overwrite", "-o"),
                                    ("logits", "--weights", folder / "run", "--prompt", "one", "-o"),
                                    ("train", "--overwrite", "--out", folder / "other", "--profile"),
                                    ("train", "--overwrite", "--out", folder / "other", "--log")):
                        result = run(model, *command, out, cwd=cwd)
                        self.assertEqual(result.returncode, 1, command)
                        self.assertEqual(result.stderr, f"error: {out} is {kind}, and would be overwritten: "
                                                        "write to another file\n")
                self.assertEqual((folder / file).read_bytes(), before)
            result = run(model, "export", "--weights", "run", "-o", "./", cwd=folder)
            self.assertEqual(result.returncode, 1)
            self.assertIn("vocab.json is a file of the tokenizer of Lines", result.stderr)
            result = run(model, "export", "--weights", "run", "-o", "new.safetensors", cwd=folder)
            self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_a_command_writes_over_what_it_wrote_alone(self):
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
            folder = pathlib.Path(name)
            model = binary(folder, MODELS / "addition.tfm")
            commands = {"export": [model, "export", "--seed", "1", "-o"],
                        "logits": [model, "logits", "--weights", "export.safetensors", "--prompt", "1+1", "-o"]}
            for command, line in commands.items():
                for _ in range(2):
                    result = run(*line, f"{command}.safetensors", cwd=folder)
                    self.assertEqual((result.returncode, result.stderr), (0, ""))
            (folder / "notes.txt").write_text("mine\n")
            (folder / "empty").write_text("") # as of `mktemp`
            shutil.copy(folder / "export.safetensors", folder / "copy.safetensors")
            for command, other in (("export", "logits.safetensors"), ("export", "notes.txt"),
                                   ("logits", "copy.safetensors"), ("logits", "notes.txt")):
                before = (folder / other).read_bytes()
                result = run(*commands[command], other, cwd=folder)
                self.assertEqual(result.returncode, 1)
                self.assertIn(f"error: {other} is not known to be written by `{command}`, and would be lost: ",
                              result.stderr)
                self.assertEqual((folder / other).read_bytes(), before)
            for line in ([*commands["export"], "notes.txt", "--overwrite"], [*commands["logits"], "empty"]):
                result = run(*line, cwd=folder)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
            # Earlier versions did not say which command it was.
            for command in commands:
                path = folder / f"{command}.safetensors"
                content = path.read_bytes()
                size = struct.unpack("<Q", content[:8])[0]
                header = json.loads(content[8:8 + size])
                self.assertEqual(header["__metadata__"].pop("tfm.written_by"), command)
                text = json.dumps(header).encode()
                path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size:])
            for command, other in (("export", "logits"), ("logits", "export")):
                self.assertEqual(run(*commands[command], f"{other}.safetensors", cwd=folder).returncode, 1)
            for command, line in commands.items():
                result = run(*line, f"{command}.safetensors", cwd=folder)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
            # What it reads it does not replace even then.
            result = run(model, "export", "--weights", "copy.safetensors", "-o", "copy.safetensors", "--overwrite", cwd=folder)
            self.assertEqual(result.returncode, 1)
            self.assertIn("copy.safetensors is a file that this command reads", result.stderr)


class Json(unittest.TestCase):
    """Questions and answers in JSON, some of them longer than a window."""

    SOURCE = """
tokenizer chars("0123456789+=.# ")
data json("sums.jsonl", field = "text", validation = 0.2, answer_after = "=", end = ".",
          pad = "#")
"""

    def test_trains_and_evaluates(self):
        lines = [json.dumps({"id": i, "text": f"{i % 20}+{i % 7}={i % 20 + i % 7}"})
                 for i in range(200)]
        source = (MODELS / "addition.tfm").read_text()
        source = re.sub(r"tokenizer chars.*\ndata sums.*\n", self.SOURCE, source)
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
            folder = pathlib.Path(name)
            (folder / "sums.jsonl").write_text("\n".join(lines) + "\n\n")
            (folder / "model.tfm").write_text(source)
            model = binary(folder, folder / "model.tfm")

            def ok(*arguments):
                result = run(model, *arguments, cwd=folder)
                self.assertEqual(result.returncode, 0, result.stderr)
                return result
            ok("train", "--steps", "30", "--out", "run")
            part = json.loads(ok("eval", "--weights", "run", "--json").stdout)
            self.assertEqual(part["exact_match"]["prompts"], 40)
            # All of a file that is named, as an array too.
            other = folder / "other.json"
            other.write_text("[" + ",".join(lines[:70]) + "]")
            result = ok("eval", "--weights", "run", "--data", other, "--json")
            answer = json.loads(result.stdout)
            self.assertEqual(answer["exact_match"]["prompts"], 70)
            # Which of them training has seen nobody knows.
            self.assertIsNone(answer["exact_match"]["seen"])
            # Each with its end, less its first character.
            self.assertEqual(answer["targets"],
                             sum(len(json.loads(line)["text"]) for line in lines[:70]))
            self.assertEqual(result.stderr, "")
            piped = run(model, "eval", "--weights", "run", "--data", "-", "--json", cwd=folder,
                        stdin=other.read_text())
            self.assertEqual(piped.stdout, result.stdout)
            # Of no prompts there is no share to show.
            other.write_text(lines[0] + "\n")
            shown = ok("eval", "--weights", "run", "--data", other).stdout
            self.assertIn("exact match ", shown)
            self.assertNotIn("training part", shown)
            self.assertNotIn("of 0)", shown)
            other.write_text('{"text": "1+1=2"}\n{"text": "1 + 1 = 1 + 1 = 2"}\n')
            result = ok("eval", "--weights", "run", "--data", other, "--json")
            self.assertIn(f"note: 1 of the 2 examples of {other} have more than sequence + 1 = 10 "
                          "tokens, up to 18;", result.stderr)
            other.write_text('{"text": "1+1=2"}\n\n{"text": "1-1=0"}\n')
            result = run(model, "eval", "--weights", "run", "--data", other)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"{other}:3: the tokenizer has no token for '-'", result.stderr)
            other.write_text('{"text": "1+1=2"}\n{"txt": "1+1=2"}\n')
            result = run(model, "eval", "--weights", "run", "--data", other)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f'{other}:2: there is no text in the field "text"', result.stderr)


class AnswersOnly(unittest.TestCase):
    """Questions count for nothing, also in the measures."""

    def test_measures_are_means_over_answers(self):
        source = (MODELS / "addition.tfm").read_text()
        source = re.sub(r"data sums.*\n", 'data pairs("sums.txt", end = ".", pad = "#", '
                        "validation = 0.5, answers_only = true)\n", source)
        source = re.sub(r"cross_entropy\(.*?\)", "cross_entropy(ignore = -100)", source)
        pairs = [(f"{a}+{b}=", str(a + b)) for a, b in ((1, 2), (30, 4), (5, 66), (77, 8))]
        ids = {character: i for i, character in enumerate("0123456789+=.#")}
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
            folder = pathlib.Path(name)
            (folder / "sums.txt").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
            (folder / "model.tfm").write_text(source)
            model = binary(folder, folder / "model.tfm")
            result = run(model, "train", "--steps", "3", "--seed", "1", "--out", "run", cwd=folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            # What the logits of each whole text say of its answer and its end.
            losses, right = [], 0
            for prompt, answer in pairs:
                text = prompt + answer + "."
                result = run(model, "logits", "--weights", "run", "--prompt", text[:-1], "-o", "l.safetensors",
                             cwd=folder)
                self.assertEqual(result.returncode, 0, result.stderr)
                raw = (folder / "l.safetensors").read_bytes()
                size = struct.unpack("<Q", raw[:8])[0]
                values = array.array("f", raw[8 + size:])
                for at in range(len(prompt), len(text)):
                    row = values[14 * (at - 1):14 * at]
                    target = ids[text[at]]
                    losses.append(math.log(sum(map(math.exp, row))) - row[target])
                    right += max(row) == row[target]
            # All of a file that is named.
            measured = json.loads(run(model, "eval", "--weights", "run", "--data", "sums.txt", "--json",
                                      cwd=folder).stdout)
            self.assertEqual(measured["targets"], len(losses))
            loss = sum(losses) / len(losses)
            self.assertAlmostEqual(measured["loss"], loss, delta=1e-5)
            self.assertAlmostEqual(measured["perplexity"], math.exp(loss), delta=1e-3)
            self.assertAlmostEqual(measured["accuracy"], right / len(losses), delta=1e-9)
            # The first loss of training is that mean, too: of its half.
            result = run(model, "train", "--steps", "1", "--init", "run", "--out", "more", cwd=folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            first = json.loads((folder / "more" / "log.jsonl").read_text().splitlines()[0])
            half = losses[:sum(len(answer) + 1 for _, answer in pairs[:2])]
            self.assertAlmostEqual(first["loss"], sum(half) / len(half), delta=1e-5)


class Run(unittest.TestCase):
    def test_builds_once_and_passes_everything_on(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, XDG_CACHE_HOME=folder)

            def tfmc_run(*arguments):
                return subprocess.run([TFMC, "run", MODELS / "addition.tfm", *arguments], text=True,
                                      capture_output=True, env=environment, check=False)
            info = tfmc_run("-D", "width=32", "info", "--json")
            self.assertEqual(info.returncode, 0, info.stderr)
            self.assertEqual(json.loads(info.stdout)["hyperparameters"]["width"], 32)
            built = sorted(pathlib.Path(folder).rglob("addition"))
            self.assertEqual(len(built), 1)
            file = built[0].stat().st_ino # another one where it is built again
            self.assertEqual(tfmc_run("-D", "width=32", "info", "--json").stdout, info.stdout)
            self.assertEqual(built[0].stat().st_ino, file)
            self.assertEqual(tfmc_run("frobnicate").returncode, USAGE)
            self.assertEqual(len(list(pathlib.Path(folder).rglob("addition"))), 2)
            self.assertEqual(tfmc_run("eval", "--weights", "no/such").returncode, 1)

            # No file of a model makes way for weights, whoever imports it.
            other = pathlib.Path(folder) / "other.tfm"
            other.write_text("mine")
            result = tfmc_run("export", "--seed", "1", "-o", other)
            self.assertEqual((result.returncode, other.read_text()), (1, "mine"), result.stderr)
            self.assertIn("other.tfm is a file of a model, and would be overwritten", result.stderr)


class Build(unittest.TestCase):
    def test_depth_costs_no_code(self):
        # Nor time, which bench/commands.py measures.
        sizes, code = {}, {}
        with tempfile.TemporaryDirectory() as folder:
            for layers in (12, 48):
                path = binary(folder, MODELS / "shakespeare.tfm", "-D", f"layers={layers}")
                sizes[layers] = path.stat().st_size
                code[layers] = int(re.search(r"\.text +(\d+)", run("size", "-A", path).stdout)[1])
        # Names and places of more tensors: 3 kB a layer, which a file has in whole pages.
        self.assertLess(sizes[48] - sizes[12], 36 * 3000)
        self.assertLess(code[48] - code[12], 1000)

    def test_what_does_not_exist_yet_is_refused(self):
        result = tfmc("report", MODELS / "addition.tfm", "--target", "cuda", "--memory", "--processes", "2")
        self.assertEqual(result.returncode, USAGE)
        self.assertEqual(result.stderr, "tfmc: error: what processes on GPUs share is not predicted: --processes is for "
                         "`--target cpu`\n")
        for command in ("build", "report"):
            # The recipe decides it, not the command.
            with tempfile.TemporaryDirectory() as folder:
                out = pathlib.Path(folder, "out")
                result = tfmc(command, MODELS / "addition.tfm", "-o", out, "--precision", "bf16")
                self.assertEqual(result.returncode, 1)
                self.assertIn("the recipe computes in f32: a `train` block decides, with "
                              "`precision = bf16`, or `-D train.precision=bf16`", result.stderr)
                self.assertFalse(out.exists())
                # Advice does not lead from one error to another.
                result = tfmc(command, MODELS / "gpt2.tfm", "-o", out, "--precision", "bf16")
                self.assertEqual(result.returncode, 1)
                self.assertIn("without a `train` block `weights = bf16` in a `generate` block decides, or "
                              "`-D generate.weights=bf16` where there is one\n", result.stderr)
                self.assertFalse(out.exists())
                result = tfmc(command, MODELS / "gpt2.tfm", "-o", out, "--precision", "bf16", "-D",
                              "generate.weights=bf16")
                self.assertEqual(result.returncode, 0, result.stderr)
                for precision in ("f32", "bf16"):
                    result = tfmc(command, MODELS / "addition.tfm", "-o", out, "--precision",
                                  precision, "-D", f"train.precision={precision}")
                    self.assertEqual(result.returncode, 0, result.stderr)

    def test_precision_is_that_of_the_recipe(self):
        with tempfile.TemporaryDirectory() as folder:
            for options, precision in ((), "f32"), (("-D", "train.precision=bf16"), "bf16"):
                path = binary(folder, MODELS / "addition.tfm", *options)
                info = json.loads(run(path, "info", "--json").stdout)
                self.assertEqual(info["precision"], precision)
                self.assertRegex(run(path, "info").stdout, f"compiled for .*, {precision}\n")

    def test_errors_leave_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model"
            result = tfmc("build", MODELS / "addition.tfm", "-D", "heads=7", "-o", path)
            self.assertEqual(result.returncode, 1)
            self.assertIn("error[E", result.stderr)
            self.assertFalse(path.exists())
            result = tfmc("build", MODELS / "addition.tfm", "-o", "/no/such/folder/model")
            self.assertEqual(result.returncode, 1)
            self.assertIn("/no/such/folder", result.stderr)


if __name__ == "__main__":
    main()
