"""Models under the launchers of Open MPI and MPICH: the same training, whoever computes it."""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import MODELS, MPI_ENVIRONMENT, MPI_LIBRARIES, ROOT, TFMC, main, run, tfmc

ENVIRONMENT = dict(os.environ, NO_COLOR="1", **MPI_ENVIRONMENT)
SMALL = ["-D", "width=16", "-D", "heads=2", "-D", "layers=1", "-D", "data.count=500", "-D", "train.batch=4",
         "-D", "train.accumulate=8", "-D", "train.steps=12", "-D", "train.schedule.warmup=2",
         "-D", "train.validate=every(6)", "-D", "train.sample=every(6, prompt = \"1+2=\", tokens = 4)",
         "-D", "train.checkpoint=every(4)"]


def log_of(folder):
    """The lines of a log, without those that tell of time."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("seconds", None)
    return [line for line in lines if "checkpoint_seconds" not in line]


class SharedRuns:
    """Runs of a class's `folder` and `model` that several processes share."""

    # The variables of the environment that say which of them a process is.
    RANK = r"(OMPI_COMM_WORLD_RANK|PMI_RANK)="

    def members(self):
        """Processes of this folder's model, by rank."""
        ranks = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if os.readlink(entry / "exe") == str(self.model):
                    variables = (entry / "environ").read_bytes().decode().split("\0")
                    rank = next(int(text.split("=")[1]) for text in variables if re.match(self.RANK, text))
                    ranks[rank] = int(entry.name)
            except (OSError, StopIteration):
                continue
        return [ranks[rank] for rank in sorted(ranks)]

    def assert_same_run(self, found, expected):
        """The same bits in every file that a run leaves."""
        self.assertEqual(log_of(self.folder / found), log_of(self.folder / expected))
        for name in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual((self.folder / found / name).read_bytes(), (self.folder / expected / name).read_bytes())


class Launched(SharedRuns):
    """The tests of one library."""

    library = ""

    @classmethod
    def setUpClass(cls):
        compiler, cls.launcher = MPI_LIBRARIES.get(cls.library, ("none", ["none"]))
        if not shutil.which(compiler) or not shutil.which(cls.launcher[0]):
            raise unittest.SkipTest(f"{cls.library} is not installed")
        cls.scratch = tempfile.TemporaryDirectory(prefix="tfm-e2e-")
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.model = cls.folder / "m"
        result = tfmc("build", MODELS / "addition.tfm", "-o", cls.model, *SMALL, "-D", "train.sum=tree", "-D", 'train.rates=("h.*.attn.*", 0.5)')
        assert result.returncode == 0, result.stderr
        result = tfmc("mpi", "--mpicc", compiler, "-o", cls.folder / "libtfm_mpi.so")
        assert result.returncode == 0, result.stderr
        result = run(cls.model, "train", "--out", cls.folder / "alone", "--threads", "1")
        assert result.returncode == 0, result.stderr
        cls.alone = log_of(cls.folder / "alone")
        cls.printed = result.stdout

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def command(self, count, *arguments):
        return [*self.launcher, str(count), str(self.model), *(str(each) for each in arguments)]

    def launch(self, count, *arguments, timeout=60):
        return subprocess.run(self.command(count, *arguments), capture_output=True, text=True, timeout=timeout,
                              env=ENVIRONMENT, cwd=self.folder, check=False)

    def launch_script(self, script, *arguments):
        """Two processes of a shell script, in which each may do something else."""
        script.chmod(0o755)
        return subprocess.run([*self.launcher, "2", str(script), *arguments], capture_output=True, text=True, timeout=60,
                              env=ENVIRONMENT, cwd=self.folder, check=False)

    def train(self, count, out, *arguments):
        result = self.launch(count, "train", "--threads", "1", "--out", out, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def start(self, count, *arguments):
        """A training that takes long, once it has saved a checkpoint, and the ids of its processes."""
        before = set(self.members())
        process = subprocess.Popen(self.command(count, "train", "--threads", "1", "--steps", "1000000", *arguments),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
                                   cwd=self.folder)
        out = self.folder / arguments[arguments.index("--out") + 1]
        limit = time.monotonic() + 30
        while not (out / "state.json").exists() and time.monotonic() < limit and process.poll() is None:
            time.sleep(0.02)
        self.assertTrue((out / "state.json").exists(), process.poll())
        members = [pid for pid in self.members() if pid not in before]
        self.assertEqual(len(members), count)
        return process, members

    def test_two_and_four_train_as_one(self):
        # One log, one checkpoint and one voice, and the bits of one process, as the sum is a tree.
        for count in (2, 4):
            result = self.train(count, f"of{count}")
            self.assert_same_run(f"of{count}", "alone")
            self.assertEqual(result.stdout.count("trained 12 steps"), 1)
            self.assertEqual(result.stdout.count("--- sample at step 6 ---"), 1)
        # Threads of a process do not get past a parameter that is still on its way.
        result = self.launch(2, "train", "--threads", "2", "--out", "threads")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_same_run("threads", "alone")

    def test_resume_with_fewer_evaluate_and_generate(self):
        self.train(4, "fewer", "--steps", "4")
        self.train(2, "fewer", "--resume", "fewer", "--steps", "8")
        run(self.model, "train", "--out", "same", "--steps", "4", cwd=self.folder)
        run(self.model, "train", "--resume", "same", "--steps", "8", cwd=self.folder)
        self.assert_same_run("fewer", "same")
        for out in ("fewer", "same"):
            result = run(self.model, "train", "--resume", out, "--steps", "12", cwd=self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_same_run("fewer", "same")
        expected = run(self.model, "eval", "--weights", "fewer", "--json", cwd=self.folder).stdout
        self.assertIn('"loss"', expected)
        shared = self.launch(3, "eval", "--weights", "fewer", "--json")
        self.assertEqual(shared.stdout, expected, shared.stderr)
        # One of these prompts has a character that there is no token for; it is told once.
        (self.folder / "prompts").write_text("".join(f"{a}+{a}=\n" for a in range(7)) + "x\n12+\n")
        arguments = ("generate", "--weights", "fewer", "--prompts", "prompts", "--count", "2", "--temperature", "1",
                     "--seed", "3", "--threads", "1", "--stop", "x", "--stop", "=")
        expected = run(self.model, *arguments, cwd=self.folder)
        shared = self.launch(3, *arguments)
        self.assertEqual(shared.stdout, expected.stdout, shared.stderr)
        self.assertEqual(shared.stdout.count("---"), 15)
        self.assertNotEqual(shared.returncode, 0)
        self.assertEqual(shared.stderr.count("prompts:8"), 1)
        self.assertEqual(shared.stderr.count('note: --stop "x" ends no text: the tokenizer has no token for \'x\''), 1)
        self.assertNotIn('--stop "="', shared.stderr)

    def test_in_bf16_masters_are_shared_out(self):
        # Others get copies in bf16 of what is read in nothing else: the same bits, and whole files.
        model = self.folder / "narrow"
        result = tfmc("build", MODELS / "addition.tfm", "-o", model, *SMALL, "-D", "train.sum=tree",
                      "-D", "train.precision=bf16")
        self.assertEqual(result.returncode, 0, result.stderr)
        result = run(model, "train", "--out", "narrow1", "--threads", "1", cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.model = model
        for count in (2, 4):
            self.train(count, f"narrow{count}")
            self.assert_same_run(f"narrow{count}", "narrow1")
            best = [(self.folder / out / "best" / "model.safetensors").read_bytes() for out in (f"narrow{count}", "narrow1")]
            self.assertEqual(*best)
        # What was dropped comes back with a checkpoint, for another number of processes.
        for count, steps in ((4, 4), (2, 8), (1, 12)):
            resume = ["--resume", "narrowed"] if steps > 4 else []
            self.train(count, "narrowed", *resume, "--steps", steps)
            resume = ["--resume", "again"] if steps > 4 else []
            run(model, "train", "--out", "again", *resume, "--steps", str(steps), "--threads", "1", cwd=self.folder)
        self.assert_same_run("narrowed", "again")

    def test_a_number_that_does_not_divide(self):
        for command in (("train", "--out", "never"), ("bench",)):
            result = self.launch(3, *command)
            self.assertNotEqual(result.returncode, 0)
            self.assertEqual(result.stderr.count("3 processes cannot share a sum in pairs"), 1, result.stderr)
            self.assertIn("start a power of two of them that divides train.accumulate = 8, or build ", result.stderr)
        self.assertFalse((self.folder / "never").exists())

    def test_whoever_dies_ends_all(self):
        # Each at some step, and the last checkpoint is whole for fewer of them.
        for rank, count in enumerate((2, 2, 4, 4)):
            process, members = self.start(count, "--out", f"killed{rank}")
            time.sleep(random.uniform(0, 0.3))
            os.kill(members[rank], signal.SIGKILL)
            began = time.monotonic()
            errors = "".join(process.communicate(timeout=20)) # MPICH tells it on standard output
            self.assertLess(time.monotonic() - began, 10)
            self.assertNotEqual(process.returncode, 0)
            # Who it was: the launcher says so by rank. MPICH's names the first that it finds ended, which may be one
            # that it has ended itself; so whoever dies has a witness there.
            if self.library == "Open MPI":
                self.assertRegex(errors, rf"rank {rank} with PID \d+ on node ")
            else:
                self.assertEqual(re.findall(r"error: process (\d+) \(.+\) has died without a word", errors), [str(rank)],
                                 errors)
            self.assertIn(f"process {rank} is {members[rank]} on ", errors)
            step = json.loads((self.folder / f"killed{rank}" / "state.json").read_text())["step"]
            shutil.copytree(self.folder / f"killed{rank}", self.folder / f"copy{rank}")
            self.train(2, f"killed{rank}", "--resume", f"killed{rank}", "--steps", str(step + 1))
            result = run(self.model, "train", "--resume", f"copy{rank}", "--steps", str(step + 1), "--threads", "1",
                         cwd=self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assert_same_run(f"killed{rank}", f"copy{rank}")

    def test_whoever_crashes_says_who_it_is(self):
        process, members = self.start(2, "--out", "crashed")
        os.kill(members[1], signal.SIGSEGV)
        errors = "".join(process.communicate(timeout=20))
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(errors, r"process 1 \(.+\): internal error: invalid memory access\nThis is a bug")
        self.assertNotIn("without a word", errors)
        # UCX, which MPICH loads, would tell where it was, but for ever where the heap is in its way.
        self.assertNotIn("backtrace", errors)
        # What its MPI may do when it misses another one.
        process, members = self.start(2, "--out", "aborted")
        os.kill(members[1], signal.SIGABRT)
        errors = "".join(process.communicate(timeout=20))
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(errors, r"process 1 \(.+\): internal error: aborted\n"
                         "Where another process has died, MPI may have done this. Where none has:\nThis is a bug")

    def test_without_the_messages_of_its_launcher(self):
        # As `srun` starts them where it has not been told of this MPI: each is alone.
        result = subprocess.run([self.model, "train", "--out", "never"], capture_output=True, text=True, timeout=60,
                                env=dict(ENVIRONMENT, SLURM_STEP_NUM_TASKS="2"), cwd=self.folder, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("srun has started 2 processes, but ", result.stderr)
        self.assertIn("`srun --mpi=pmix`" if self.library == "Open MPI" else "`srun --mpi=pmi2`", result.stderr)
        # Nobody ends the others where Slurm's own program is not there.
        programs = self.folder / "programs"
        programs.mkdir()
        (programs / "sleep").symlink_to(shutil.which("sleep"))
        result = subprocess.run([self.model, "train", "--out", "never"], capture_output=True, text=True, timeout=60,
                                env=dict(ENVIRONMENT, SLURM_STEP_NUM_TASKS="2", PATH=str(programs)), cwd=self.folder,
                                check=False)
        self.assertNotIn("not found", result.stderr)
        self.assertIn("note: there is no scancel here that ends the other processes, which may wait until --timeout: "
                      "srun --kill-on-bad-exit=1 ends them\n", result.stderr)
        # Variables that somebody has set: no launcher is there.
        name = "OMPI_COMM_WORLD_SIZE" if self.library == "Open MPI" else "PMI_SIZE"
        result = subprocess.run([self.model, "train", "--out", "never"], capture_output=True, text=True, timeout=60,
                                env=dict(ENVIRONMENT, **{name: "2"}), cwd=self.folder, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("finds 1 of them: make it with the mpicc of this launcher, ", result.stderr)
        self.assertTrue(result.stderr.endswith(", or let each process work alone with --processes none\n"), result.stderr)
        self.assertFalse((self.folder / "never").exists())

    def test_under_srun(self):
        # A stand-in for it: what it says of the step, and how processes find each other is the library's affair.
        script = self.folder / "step.sh"
        script.write_text("#!/bin/sh\nexport SLURM_STEP_NUM_TASKS=2\n"
                          "[ -n \"$OMPI_COMM_WORLD_SIZE\" ] && unset OMPI_COMM_WORLD_SIZE\n"
                          f"exec {self.model} train --threads 1 --out srun\n")
        result = self.launch_script(script)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"2 processes: [0-9.]+ s of it went into exchanging gradients")
        self.assert_same_run("srun", "alone")

    def test_the_profile_shows_the_exchange(self):
        self.train(2, "profiled", "--profile", "trace.json")
        spans = json.loads((self.folder / "trace.json").read_text())["traceEvents"]
        ours = [span for span in spans if span.get("cat") == "processes"]
        self.assertEqual({span["name"] for span in ours}, {"sums of gradients", "update"})
        self.assertEqual(len(ours), 2 * sum(span.get("cat") == "step" for span in spans))
        hidden = [span["args"] for span in ours if span["name"] == "sums of gradients"]
        self.assertGreater(sum(each["hidden_exchange_seconds"] for each in hidden), 0)
        self.assertGreaterEqual(min(each["waited_for_parameters_seconds"] for each in hidden), 0)

    def test_the_benchmark_shows_the_exchange(self):
        result = self.launch(2, "bench", "--json", "--threads", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertEqual(list(answer["functions"]), ["train"])
        update = answer["update_of_processes"]
        self.assertEqual(update["processes"], 2)
        # Four of the eight micro-batches, and what is waited for.
        self.assertGreater(update["milliseconds"], 2 * answer["functions"]["train"]["fastest_milliseconds"])
        self.assertGreater(update["milliseconds"], update["exchange_milliseconds"])
        self.assertGreater(update["exchange_milliseconds"], 0)
        self.assertGreater(update["hidden_exchange_milliseconds"], 0)

        # Those of `tfmc` leave the file to the first.
        small = self.folder / "small.tfm"
        small.write_text("model Small(vocab = 7, context = 4) {\n  table = Embedding(vocab, vocab)\n"
                         "  forward(tokens: int[B, T]) -> [B, T, vocab] {\n    return table(tokens)\n  }\n}\n"
                         "train { batch = 2, sequence = 4, accumulate = 2, steps = 1 }\n")
        result = subprocess.run([*self.launcher, "2", str(TFMC), "bench", str(small), "--format", "html", "-o", "bench.html"],
                                capture_output=True, text=True, timeout=60, cwd=self.folder, check=False,
                                env=dict(ENVIRONMENT, TFM_MPI=str(self.folder / "libtfm_mpi.so"), XDG_CACHE_HOME=str(self.folder)))
        self.assertEqual(result.returncode, 0, result.stderr)
        page = (self.folder / "bench.html").read_text()
        data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))
        self.assertEqual(data["update_of_processes"]["processes"], 2)

    def test_whoever_hangs_is_named(self):
        process, members = self.start(2, "--out", "hung", "--timeout", "1")
        os.kill(members[1], signal.SIGSTOP)
        began = time.monotonic()
        _, errors = process.communicate(timeout=30)
        self.assertLess(time.monotonic() - began, 10)
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(errors, r"process 0 \(.+\): nothing has come from process 1 \(.+\) for 1 s")

    def test_the_first_one_that_hangs_is_named_once(self):
        # Not by each of those that wait for it.
        process, members = self.start(4, "--out", "hung-first", "--timeout", "3")
        os.kill(members[0], signal.SIGSTOP)
        _, errors = process.communicate(timeout=30)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual(re.findall(r"nothing has come from (process \d)", errors), ["process 0"], errors)

    def test_whoever_hangs_is_named_by_those_that_have_texts_left(self):
        (self.folder / "long").write_text("1+2=\n" * 20000)
        process = subprocess.Popen(self.command(2, "generate", "--weights", "alone", "--prompts", "long", "--threads", "1",
                                                "--logit-bias", '"."=-inf', "--overflow", "slide", "--tokens", "2000",
                                                "--timeout", "1"),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
                                   cwd=self.folder)
        time.sleep(2)
        os.kill(self.members()[1], signal.SIGSTOP)
        began = time.monotonic()
        _, errors = process.communicate(timeout=30)
        self.assertLess(time.monotonic() - began, 10)
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(errors, r"process 0 \(.+\): nothing has come from process 1 \(.+\) for 1 s")

    def test_a_sample_may_take_longer_than_one_waits(self):
        model = self.folder / "samples"
        small = ["width=16", "heads=2", "layers=1", "context=64", "train.sequence=64", "train.batch=2", "train.accumulate=2",
                 "train.steps=1", "train.schedule.warmup=0", "train.validate=none",
                 'train.sample=every(1, prompt = "A", tokens = 120000)']
        result = tfmc("build", MODELS / "shakespeare.tfm", "-o", model, *(part for one in small for part in ("-D", one)))
        self.assertEqual(result.returncode, 0, result.stderr)
        result = subprocess.run([*self.launcher, "2", str(model), "train", "--threads", "1", "--out", "sampled",
                                 "--timeout", "1"], capture_output=True, text=True, timeout=120, env=ENVIRONMENT,
                                cwd=self.folder, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        samples = [line["sample"] for line in log_of(self.folder / "sampled") if "sample" in line]
        self.assertEqual([len(sample) for sample in samples], [120000])

    def test_the_memory_of_a_machine(self):
        # Each would have room alone; nothing is touched of what is asked for.
        there = json.loads(run(self.model, "info", "--json").stdout)["device"]["memory"]
        model = self.folder / "wide"

        def build(batch):
            options = [f"train.batch={batch}" if part.startswith("train.batch=") else part for part in SMALL]
            result = tfmc("build", MODELS / "addition.tfm", "-o", model, *options)
            self.assertEqual(result.returncode, 0, result.stderr)
            return json.loads(run(model, "info", "--json").stdout)["device"]["takes"]
        build(int(4096 * 0.7 * there / build(4096)))
        result = subprocess.run([*self.launcher, "2", str(model), "train", "--threads", "1", "--out", "wide-run"],
                                capture_output=True, text=True, timeout=60, env=ENVIRONMENT, cwd=self.folder, check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"error: process 0 \(.+\): the 2 processes on this machine take .* of memory together, .* "
                                        r"each, but there is .*: start fewer of them on it, or build \w+ with a smaller train\.batch")
        self.assertFalse((self.folder / "wide-run").exists())

    def test_all_stop_together(self):
        process, members = self.start(2, "--out", "stopped")
        os.kill(members[1], signal.SIGTERM) # as a scheduler does before the end of a job's time
        _, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, errors)
        self.assertEqual(errors.count("is saved, continue with --resume stopped"), 1, errors)
        self.assertNotIn("without a word", errors)

    def test_data_that_end_stop_all_with_a_checkpoint(self):
        source = self.folder / "ids.tfm"
        source.write_text("model Ids(vocab = 50, width = 16) {\n  wte = Embedding(vocab, width)\n"
                          "  forward(tokens: int[B, T]) -> [B, T, vocab] { return wte(tokens) @ wte.weight.T }\n}\n"
                          'data tokens("ids.bin")\n'
                          "train { batch = 4, sequence = 16, accumulate = 2, steps = 10000000\n"
                          "  checkpoint = every(10000000), optimizer = adamw(lr = 1e-3) }\n")
        result = tfmc("build", source, "-o", "ids", cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        ids = bytes(byte for i in range(100000) for byte in (i * i % 50, 0))
        for rank in (0, 1):
            (self.folder / f"disk{rank}").mkdir(exist_ok=True)
            (self.folder / f"disk{rank}" / "ids.bin").write_bytes(ids)
        script = self.folder / "ids.sh"
        out = self.folder / "ended"
        script.write_text("#!/bin/sh\ncd disk${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n"
                          f'exec {self.folder}/ids train --data ids.bin --threads 1 --out {out} --log {out}.log "$@"\n')
        script.chmod(0o755)
        process = subprocess.Popen([*self.launcher, "2", str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=ENVIRONMENT, cwd=self.folder)
        limit = time.monotonic() + 30
        log = pathlib.Path(f"{out}.log")
        while not (log.exists() and log.stat().st_size) and time.monotonic() < limit and process.poll() is None:
            time.sleep(0.02)
        os.truncate(self.folder / "disk1" / "ids.bin", 2)
        _, errors = process.communicate(timeout=30)
        self.assertNotEqual(process.returncode, 0)
        told = re.findall(r"error: process 1 \(.+\): .*ids\.bin became shorter while it was read; training stopped: step "
                          rf"(\d+) is saved, continue with --resume {out} ", errors)
        self.assertEqual(len(told), 1, errors)
        self.assertEqual(json.loads((out / "state.json").read_text())["step"], int(told[0]))

    def test_interrupted_texts_are_shown(self):
        (self.folder / "many").write_text("1+2=\n" * 20000)
        process = subprocess.Popen(self.command(2, "generate", "--weights", "alone", "--prompts", "many", "--threads", "1",
                                                "--logit-bias", '"."=-inf', "--overflow", "slide", "--tokens", "2000"),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
                                   cwd=self.folder)
        time.sleep(2)
        os.kill(self.members()[1], signal.SIGINT) # which tells the other one
        texts, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, errors[-2000:])
        whole = re.search(r"interrupted: (\d+) of 20000 texts are whole", errors)
        self.assertTrue(whole, errors[-2000:])
        self.assertGreater(int(whole[1]), 10)
        self.assertGreaterEqual(texts.count("1+2="), int(whole[1]))
        self.assertNotIn("without a word", errors)

    def test_a_text_without_tokens_to_choose_ends_alone(self):
        (self.folder / "some").write_text("1+2=\n4+4=\n2+1=\n")
        # 4 alone is left, but not where it was.
        only = [part for token in "012356789+=.#" for part in ("--logit-bias", f'"{token}"=-inf')]
        result = subprocess.run(self.command(2, "generate", "--weights", "alone", "--prompts", "some", "--tokens", "1", *only,
                                             "--logit-bias", '"4"=-1000', "--repeat-penalty", "1e308", "--greedy"),
                                capture_output=True, text=True, env=ENVIRONMENT, cwd=self.folder, check=False)
        self.assertEqual(result.returncode, 1, result.stderr[-2000:])
        self.assertEqual(result.stdout, "1+2=4\n---\n4+4=\n---\n2+1=4\n")
        self.assertIn("error: some:2: text 2 of 3: no token is left to choose", result.stderr)
        self.assertIn("error: 1 of 3 prompts could not be continued, see above\n", result.stderr)

    def test_one_without_a_library_ends_all(self):
        script = self.folder / "lacks.sh"
        script.write_text("#!/bin/sh\nif [ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 1 ]; then export TFM_MPI=/lacks.so; fi\n"
                          f"exec {self.model} train --out lacks\n")
        began = time.monotonic()
        result = self.launch_script(script)
        self.assertLess(time.monotonic() - began, 10)
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"error: process 1 \(.+\): .* /lacks.so, which TFM_MPI names, cannot be loaded")

    def test_wrong_usage_is_told_once(self):
        for words, told in ((("train", "--nonsense"), "--nonsense"), (("trian",), "trian")):
            began = time.monotonic()
            result = self.launch(2, *words)
            self.assertLess(time.monotonic() - began, 10)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertEqual(result.stderr.count(told), 1, result.stderr)

    def test_data_from_standard_input(self):
        result = self.launch(2, "train", "--data", "-", "--out", "never")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("standard input reaches the first one alone: name a file", result.stderr)

    def test_other_files_are_told(self):
        # Each process has a working directory of its own, as machines have disks.
        script = self.folder / "own.sh"
        script.write_text("#!/bin/sh\nrank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n"
                          "mkdir -p at$rank; cd at$rank\nif [ $rank = 1 ]; then printf 5+5=10. ; else printf 1+5=6. ; fi"
                          " > own.txt\nfor i in 1 2 3 4 5 6 7; do cat own.txt own.txt >> text; mv text own.txt; done\n"
                          f"exec {self.model} train --out run --data own.txt\n")
        result = self.launch_script(script)
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"error: process 1 \(.+\) has other data than process 0 \(.+\)")
        script.write_text(script.read_text().replace("train --out run", f"eval --weights {self.folder}/alone"))
        result = self.launch_script(script)
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"error: process 1 \(.+\) has other data than process 0 \(.+\)")

    def test_other_commands_and_options_are_told(self):
        script = self.folder / "differ.sh"
        texts = "generate --weights alone --prompt"
        (self.folder / "other").mkdir(exist_ok=True)
        tokenizer = json.loads((self.folder / "alone" / "tokenizer.json").read_text())
        vocabulary = tokenizer["model"]["vocab"]
        vocabulary["1"], vocabulary["2"] = vocabulary["2"], vocabulary["1"]
        (self.folder / "other" / "tokenizer.json").write_text(json.dumps(tokenizer))
        shutil.copytree(self.folder / "alone", self.folder / "ends")
        (self.folder / "ends" / "generation_config.json").write_text('{"eos_token_id": 3}')
        for first, other, what in (("train --out differs", "eval --weights alone", "another command"),
                                   ("train --out differs", "train --seed 3 --out differs", "other options or checkpoints"),
                                   (texts + " 1+", texts + " 1+ --tokenizer other", "another tokenizer"),
                                   (texts + " 1+ --seed 1", texts + " 1+ --seed 2", "other options"),
                                   (texts + " 1+ --stop =", texts + " 1+", "other options"),
                                   (texts + " 1+ --top-k 2", texts + " 1+ --top-k 3", "other options"),
                                   (texts + " 1+", "generate --weights ends --prompt 1+", "other tokens that end a text")):
            script.write_text("#!/bin/sh\nif [ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 1 ]; "
                              f"then exec {self.model} {other}; else exec {self.model} {first}; fi\n")
            result = self.launch_script(script)
            self.assertNotEqual(result.returncode, 0)
            self.assertRegex(result.stderr, rf"error: process 1 \(.+\) has {what} than process 0 \(.+\)")

    def test_whoever_never_comes_ends_all(self):
        script = self.folder / "missing.sh"
        script.write_text("#!/bin/sh\nif [ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 1 ]; then exit 3; fi\n"
                          f"exec {self.model} train --out missing --timeout 2\n")
        began = time.monotonic()
        result = self.launch_script(script)
        self.assertLess(time.monotonic() - began, 12)
        self.assertNotEqual(result.returncode, 0)

    def test_other_weights_are_told(self):
        result = run(self.model, "train", "--seed", "2", "--steps", "1", "--out", "weights1", cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        script = self.folder / "weights.sh"
        script.write_text("#!/bin/sh\nrank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n"
                          "if [ $rank = 1 ]; then weights=$1; else weights=alone; fi\n"
                          f"exec {self.model} $2 --weights $weights\n")
        result = self.launch_script(script, "weights1", "eval")
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"error: process 1 \(.+\) has other weights than process 0 \(.+\)")
        # Those that it has not, and so not what is beside them: it is that process which says so.
        result = self.launch_script(script, "none", "generate --prompt 1+")
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"error: process 1 \(.+\): cannot read the weights none: No such file or directory")

    def test_what_all_of_them_lack_is_told_once(self):
        # Also by those that handle the signal by which the launcher ends them.
        result = self.launch(2, "train", "--device", "cuda", "--out", "never")
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("--device cuda"), 1, result.stderr)


class OpenMpi(Launched, unittest.TestCase):
    library = "Open MPI"

    def test_one_after_the_other(self):
        # Without a tree the order of the sum is that of the processes: they agree to rounding.
        model = self.folder / "sequential"
        often = [option.replace("every(4)", "every(1)") for option in SMALL]
        self.assertEqual(tfmc("build", MODELS / "addition.tfm", "-o", model, *often).returncode, 0)
        result = run(model, "train", "--out", "one", "--threads", "1", cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        type(self).model, tree = model, self.model
        try:
            self.train(4, "four")
            for count, message in ((3, "-D train.batch=4 -D train.accumulate=9"),
                                   (16, "-D train.batch=2 -D train.accumulate=16, the same update")):
                result = self.launch(count, "train", "--out", "never")
                self.assertNotEqual(result.returncode, 0)
                self.assertIn(message, result.stderr)
            # Only the first process sees that there is nothing to save.
            start = time.monotonic()
            result = self.launch(2, "train", "--lr", "1e300", "--out", "diverged", "--timeout", "40")
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("not finite after step 1: training has diverged", result.stderr)
            self.assertLess(time.monotonic() - start, 15)
        finally:
            type(self).model = tree
        for line, other in zip(log_of(self.folder / "four"), log_of(self.folder / "one"), strict=True):
            self.assertEqual(line.keys(), other.keys())
            for key, value in line.items():
                if isinstance(value, float):
                    self.assertAlmostEqual(value, other[key], delta=2e-5 * max(1, abs(value)), msg=(key, line))
                else:
                    self.assertEqual(value, other[key])


class Mpich(Launched, unittest.TestCase):
    library = "MPICH"


class IntelMpi(Launched, unittest.TestCase):
    library = "Intel MPI"


class WithoutALibrary(unittest.TestCase):
    def test_the_message_says_how_to_make_it(self):
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as folder:
            model = pathlib.Path(folder) / "m"
            self.assertEqual(tfmc("build", MODELS / "addition.tfm", "-o", model, *SMALL).returncode, 0)
            # As a launcher leaves it; nothing is loaded where there is one process, or none are wanted.
            for size, wanted, status in (("2", "auto", 1), ("1", "auto", 0), ("2", "none", 0)):
                result = subprocess.run([model, "train", "--steps", "1", "--processes", wanted], cwd=folder,
                                        capture_output=True, text=True, timeout=60, check=False,
                                        env=dict(os.environ, PMI_SIZE=size))
                self.assertEqual(result.returncode, status, result.stderr)
                self.assertEqual(f"tfmc mpi -o {folder}/libtfm_mpi.so" in result.stderr, status == 1, result.stderr)

    def test_a_library_that_the_environment_names(self):
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as folder:
            model = pathlib.Path(folder) / "m"
            self.assertEqual(tfmc("build", MODELS / "addition.tfm", "-o", model, *SMALL).returncode, 0)
            made = subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", "other.so"], input="int other;",
                                  cwd=folder, capture_output=True, text=True, check=False)
            self.assertEqual(made.returncode, 0, made.stderr)
            whole = (pathlib.Path(folder) / "other.so").read_bytes()
            (pathlib.Path(folder) / "cut.so").write_bytes(whole[:len(whole) // 2])
            for name, problem in (("nope.so", "cannot be loaded"), ("other.so", "is not what sends"),
                                  ("cut.so", "cannot be loaded (it was cut short)")):
                result = subprocess.run([model, "train", "--steps", "1"], cwd=folder, capture_output=True, text=True,
                                        timeout=60, check=False, env=dict(os.environ, PMI_SIZE="2", TFM_MPI=name))
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn(f"{name}, which TFM_MPI names, {problem}", result.stderr)
                # One beside the program would not be read.
                self.assertIn("name there what `tfmc mpi` has made, or unset TFM_MPI", result.stderr)
                self.assertNotIn("libtfm_mpi.so", result.stderr)

    def test_a_library_that_cannot_begin(self):
        # As Intel MPI without its server: it says why, and exits. Nobody adds that it died without a word.
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as folder:
            model, source = pathlib.Path(folder) / "m", pathlib.Path(folder) / "library.c"
            self.assertEqual(tfmc("build", MODELS / "addition.tfm", "-o", model, *SMALL).returncode, 0)
            source.write_text('#include <stdio.h>\n#include <stdlib.h>\n'
                              'void *tfm_join(void) { fputs("no server\\n", stderr); exit(15); }\n')
            subprocess.run(["cc", "-shared", "-fPIC", "-o", f"{folder}/libtfm_mpi.so", source], check=True)
            result = subprocess.run([model, "train", "--steps", "1"], cwd=folder, capture_output=True, text=True, timeout=60,
                                    check=False, env=dict(os.environ, PMI_SIZE="2", PMI_RANK="0"))
            self.assertEqual(result.returncode, 15)
            self.assertEqual(result.stderr, "no server\n")

    def test_the_report_of_memory(self):
        # 100 rows of matrices in blocks of four, and two of the rest, in turns; a row of one tensor of state is a page.
        report = tfmc("report", MODELS / "addition.tfm", "--memory", "--format", "json", "-D", "train.accumulate=4",
                      "--processes", "1,2,3,4")
        memory = json.loads(report.stdout)["memory"]
        alone, two, three, four = memory["processes"]
        self.assertEqual(memory["optimizer"], 2 * 102 * 4096)
        self.assertEqual(alone, {"processes": 1, "micro_batches": 4, "optimizer": memory["optimizer"],
                                 "incoming": 0, "memory": memory["arena"], "sent": 0, "sent_by": []})
        # 64 turns, in each of which both add up a block.
        incoming = 64 * 2 * 4 * 4096
        self.assertEqual(two, {"processes": 2, "micro_batches": 2, "optimizer": 2 * 52 * 4096, "incoming": incoming,
                               "memory": memory["arena"] - 2 * 50 * 4096 + incoming, "sent": 102 * 4096,
                               "sent_by": [{"first": 0, "last": 1, "bytes": 102 * 4096}]})
        self.assertIn("train.accumulate = 4", three["problem"])
        self.assertEqual(four["optimizer"], 2 * 28 * 4096)
        # 26 blocks are not the same number for each of four, and they say so.
        self.assertEqual(max(some["bytes"] for some in four["sent_by"]), four["sent"])
        self.assertEqual([some["first"] for some in four["sent_by"]],
                         [0] + [some["last"] + 1 for some in four["sent_by"][:-1]])
        text = tfmc("report", MODELS / "addition.tfm", "--memory", "-D", "train.accumulate=4", "--processes", "2,4").stdout
        said = re.search(r"\n  4 processes send (.*)\n", text).group(1)
        self.assertEqual([int(number.replace(",", "")) for number in re.findall(r"\d[\d,]{3,}", said)],
                         [some["bytes"] for some in four["sent_by"]])
        self.assertNotIn("2 processes send", text)
        # In bf16 the 96 rows of the layers' matrices, half of them each process's, are read as copies alone: no process
        # has others' values. Four rows of embeddings and head are read as both, and the two of the rest as values.
        narrow = tfmc("report", MODELS / "addition.tfm", "--memory", "--format", "json", "-D", "train.accumulate=4",
                      "-D", "train.precision=bf16", "--processes", "1,2")
        alone_bf16, two_bf16 = json.loads(narrow.stdout)["memory"]["processes"]
        self.assertEqual(alone_bf16["memory"] - two_bf16["memory"] + two_bf16["incoming"], (2 * 50 + 48) * 4096)
        self.assertEqual(two_bf16["sent"], 50 * 4096 + 48 * 2048 + 4 * (4096 + 2048))
        # Sums that wait are gradients: of four micro-batches two, of two one.
        tree = json.loads(tfmc("report", MODELS / "addition.tfm", "--memory", "--format", "json", "-D",
                               "train.accumulate=4", "-D", "train.sum=tree", "--processes", "1,2,4").stdout)["memory"]
        self.assertEqual(tree["gradients"], 3 * memory["gradients"])
        self.assertEqual(tree["arena"], memory["arena"] + 2 * memory["gradients"])
        for waiting, some, plain in zip((2, 1, 0), tree["processes"], (alone, two, four)):
            self.assertEqual(some["memory"], plain["memory"] + waiting * memory["gradients"])

    def test_the_report_says_what_to_build(self):
        report = tfmc("report", MODELS / "addition.tfm", "--processes", "2,3")
        for count, batch, update in (2, 64, "the same update"), (3, 43, "an update of 129 sequences instead of 128"):
            self.assertIn(f"\n  {count} does not divide train.accumulate = 1: "
                          f"build with -D train.batch={batch} -D train.accumulate={count}, {update}\n", report.stdout)
        report = tfmc("report", MODELS / "addition.tfm", "--processes", "3", "-D", "train.accumulate=6", "-D", "train.sum=tree")
        self.assertIn("\n  3 is no power of two, as train.sum = tree needs: build with -D train.sum=sequential\n", report.stdout)

    def test_the_predicted_step(self):
        def predict(*arguments):
            report = tfmc("report", MODELS / "shakespeare.tfm", "--format", "json", "-D", "train.accumulate=8", *arguments)
            self.assertEqual(report.returncode, 0, report.stderr)
            return json.loads(report.stdout)["memory"]["processes"]

        network = ("--network", "10Gbit/s", "--latency", "20us", "--step", "0.4s")
        shared = predict("--processes", "1,2,8", *network)
        self.assertEqual(shared, predict("--sweep", "processes=1,2,8", *network))
        alone, two, eight = shared
        self.assertAlmostEqual(alone["seconds"]["step"], 0.4, delta=1e-9)
        self.assertEqual(alone["efficiency"], 1)
        for count, each in ((2, two), (8, eight)):
            seconds = each["seconds"]
            self.assertAlmostEqual(seconds["step"], sum(seconds[part] for part in ("compute", "sums", "update", "parameters")),
                                   delta=1e-9)
            # No faster than its share, no slower than its share and all that is sent one after the other.
            self.assertGreater(seconds["step"], 0.4 / count)
            self.assertLess(seconds["step"], 0.4 / count + 2 * each["sent"] / 1.25e9 + 5e-3)
            self.assertAlmostEqual(each["efficiency"], 0.4 / count / seconds["step"], delta=1e-9)
            self.assertGreater(seconds["hidden"], 0)
        self.assertLess(eight["efficiency"], two["efficiency"])
        slow = predict("--processes", "2", "--network", "100Mbit/s", "--step", "0.4s")[0]
        self.assertGreater(slow["seconds"]["step"], two["seconds"]["step"])
        # What is not measured is estimated.
        self.assertGreater(predict("--processes", "2", "--network", "10Gbit/s")[0]["seconds"]["compute"], 0)
        text = tfmc("report", MODELS / "shakespeare.tfm", "--processes", "1", "--network", "10Gbit/s", "--step", "0.4s")
        self.assertIn("400.0 ms", text.stdout)
        # What is short is no zero.
        text = tfmc("report", MODELS / "shakespeare.tfm", "--processes", "1", "--network", "10Gbit/s", "--step", "20us")
        self.assertIn("  20.0 us", text.stdout)
        # Without training it is said what that takes.
        for model, define in (("gpt2.tfm", "context=64"), ("shakespeare.tfm", "generate.weights=int8")):
            text = tfmc("report", MODELS / model, "-D", define, "--processes", "2")
            self.assertIn("\n  2 cannot train: that takes a `train` block, and generate.weights = f32\n", text.stdout)
        for arguments, message in ((("--network", "10Gbit/s"), "--processes 2,8"),
                                   (("--processes", "2", "--network", "fast"),
                                    "100Gbit/s or 12.5GB/s, in Mbit/s, Gbit/s, MB/s, GB/s, not 'fast'"),
                                   (("--processes", "2", "--network", "1GB/s", "--latency", ""), "5us, 20ms or 0.65s, in us, ms, s, not ''"),
                                   (("--processes", "2", "--network", "1GB/s", "--step", ""), "5us, 20ms or 0.65s"),
                                   *((("--processes", "2", "--network", "1GB/s", option, wrong),
                                      f"{option}: must be from 0.001us to 1000000s, not '{wrong}'")
                                     for option in ("--latency", "--step") for wrong in ("0us", "1e300s", "1e999 s")),
                                   *((("--processes", "2", "--network", wrong),
                                      f"--network: must be from 0.001MB/s to 1000000GB/s, not '{wrong}'")
                                     for wrong in ("0GB/s", "1e-30Gbit/s", "inf GB/s", "nanMB/s")),
                                   (("--sweep", "processes=0"), "whole numbers from 1"),
                                   (("--processes", "3,,4"), "whole numbers from 1 to 100000, not nothing"),
                                   (("--processes", "3,"), "whole numbers from 1 to 100000, not nothing"),
                                   (("--processes", "2,1e3"), "whole numbers from 1 to 100000, not 1e3"),
                                   (("--sweep", "processes=3,,4"), "expected name=value,value"),
                                   (("--sweep", "processes=2", "--sweep", "layers=2"), "without other values")):
            result = tfmc("report", MODELS / "shakespeare.tfm", *arguments)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(message, result.stderr)

    def test_what_processes_add_to_a_program_can_be_left_out(self):
        # The script finds in the runtime what it takes out to measure that.
        sys.path.insert(0, str(ROOT / "bench"))
        self.addCleanup(sys.path.remove, str(ROOT / "bench"))
        import size_of_processes
        with tempfile.TemporaryDirectory() as folder:
            runtime = pathlib.Path(folder) / "runtime"
            shutil.copytree(ROOT / "runtime", runtime)
            size_of_processes.strip(runtime)

    def test_a_compiler_that_is_not_there(self):
        result = tfmc("mpi", "--mpicc", "no-such-mpicc")
        self.assertEqual(result.returncode, 1)
        self.assertIn("there is no no-such-mpicc", result.stderr)

    def test_a_compiler_that_makes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            result = tfmc("mpi", "--mpicc", "true", cwd=folder)
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, r"^tfmc: error: /\S+/true has made no library: name an MPI's compiler with "
                             "--mpicc\n$")
            result = tfmc("mpi", "--mpicc", "false", cwd=folder)
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, r"^tfmc: error: /\S+/false has made no library: /\S+/false has ended with "
                             r"exit status 1\nWhere it is not an MPI's compiler, name that with --mpicc\n$")
            self.assertEqual(os.listdir(folder), [])

    def test_a_folder_that_is_not_there(self):
        result = tfmc("mpi", "-o", "/no-such-folder/libtfm_mpi.so")
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot write /no-such-folder/libtfm_mpi.so: there is no folder /no-such-folder", result.stderr)


if __name__ == "__main__":
    main()
