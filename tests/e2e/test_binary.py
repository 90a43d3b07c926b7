"""A binary of a small model from build to text: what it reports, allocates, writes
and says, for one and two threads, across resumes, kills and full disks."""

import array
import functools
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from support import BUILD, MODELS, ROOT, main, run, tfmc

HERE = ROOT / "tests" / "e2e"
INPUT_ERROR = 1
CC = shutil.which("cc") or shutil.which("clang-22")


class Folder(unittest.TestCase):
    """Builds models in a folder of its own, from the text beside them."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="tfm-e2e-")
        cls.folder = pathlib.Path(cls.scratch.name)
        text = (MODELS / "tinyshakespeare.txt").read_text()[:20000]
        (cls.folder / "text.txt").write_text(text)
        shutil.copy(HERE / "models" / "tiny.tfm", cls.folder)
        cls.model = cls.build("tiny")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def build(cls, name, *options, source="tiny.tfm"):
        result = tfmc("build", source, "-o", name, *options, cwd=cls.folder)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        return cls.folder / name

    def ok(self, program, *arguments, **options):
        result = run(program, *arguments, cwd=self.folder, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def train(self, out, *arguments, program=None):
        self.ok(program or self.model, "train", "--json", "--out", out, *arguments)
        return self.folder / out

    def losses(self, out):
        lines = (self.folder / out / "log.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in lines if '"lr"' in line]


def digest(folder):
    """The checkpoint's files, by content."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.iterdir()) if path.suffix in (".safetensors", ".json")}


def tensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    return {name: data[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]]
            for name, entry in header.items() if name != "__metadata__"}


class Memory(Folder):
    def info(self, program):
        return json.loads(self.ok(program, "info", "--json").stdout)

    def test_the_report_is_what_the_binary_takes(self):
        for source, defines in [("tiny.tfm", []), ("tiny.tfm", ["-D", "train.accumulate=2"]),
                                (MODELS / "shakespeare.tfm", []), (MODELS / "addition.tfm", [])]:
            with self.subTest(source=str(source), defines=defines):
                report = tfmc("report", "--memory", "--format", "json", source, *defines,
                              cwd=self.folder)
                self.assertEqual(report.returncode, 0, report.stderr)
                predicted = json.loads(report.stdout)["memory"]
                taken = self.info(self.build("sized", *defines, source=source))["memory"]
                for part in ("parameters", "gradients", "optimizer", "activations", "arena"):
                    self.assertEqual(predicted[part], taken[part], part)
                self.assertLessEqual(predicted["arena"], 1.01 * predicted["lower_bound"])

    def test_resident_memory_is_the_arena(self):
        for name in ("shakespeare", "lab_train"):
            with self.subTest(model=name):
                self.check_resident(name)

    def check_resident(self, name):
        program = self.build(name, source=MODELS / f"{name}.tfm")
        memory = self.info(program)["memory"]
        arena = memory["arena"]
        report = tfmc("report", "--memory", "--format", "json", MODELS / f"{name}.tfm")
        predicted = json.loads(report.stdout)["memory"]
        self.assertEqual(predicted["arena"], arena)
        # Training leaves alone the cache of generation, and what only other
        # functions reach of the bytes that all share.
        reach = {phase["phase"]: phase["activations"] for phase in predicted["phases"]}
        used = arena - predicted["cache"] - (max(reach.values()) -
                                             max(reach["train"], reach["update"]))
        self.assertGreater(used, 0.9 * arena)
        process = subprocess.Popen(
            [program, "train", "--json", "--steps", "1000000", "--threads", "2",
             "--out", f"resident-{name}"],
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # The arena is a mapping of its own, in whole pages.
        pages = -(-arena // resource.getpagesize()) * resource.getpagesize()
        try:
            # Until the first step is done, every byte that it uses is there.
            resident, deadline = 0, time.monotonic() + 60
            while resident < used:
                self.assertIsNone(process.poll())
                self.assertLess(time.monotonic(), deadline, (resident, used))
                time.sleep(0.05)
                resident = max((there for size, there in self.mappings(process.pid)
                                if size == pages), default=0)
        finally:
            process.kill()
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = -signal.SIGKILL
        # The text as bytes and as 4-byte tokens; the program, its stacks and scratch.
        text = (MODELS / "tinyshakespeare.txt").stat().st_size
        self.assertLess(usage.ru_maxrss * 1024, arena + 6 * text + (16 << 20))

    @staticmethod
    def mappings(pid):
        """Size and resident bytes of every mapping of a process."""
        text = pathlib.Path(f"/proc/{pid}/smaps").read_text()
        sizes, resident = ([1024 * int(number) for number in
                            re.findall(rf"^{what}: +(\d+) kB$", text, re.MULTILINE)]
                           for what in ("Size", "Rss"))
        return list(zip(sizes, resident))

    def preload(self):
        library = self.folder / "preload.so"
        if not library.exists():
            result = run(CC, "-O1", "-shared", "-fPIC", "-o", library,
                         HERE / "preload" / "preload.c", "-ldl")
            self.assertEqual(result.returncode, 0, result.stderr)
        return library

    def preloaded(self, *arguments, **variables):
        environment = dict(os.environ, LD_PRELOAD=str(self.preload()), **variables)
        return subprocess.run([self.model, *arguments], cwd=self.folder, env=environment,
                              text=True, capture_output=True, check=False, timeout=300)

    def test_steps_do_not_allocate(self):
        def allocations(steps, threads):
            count = self.folder / "count"
            result = self.preloaded("train", "--json", "--steps", str(steps), "--threads",
                                    str(threads), "--out", f"allocating-{steps}-{threads}",
                                    COUNT_ALLOCATIONS=str(count))
            self.assertEqual(result.returncode, 0, result.stderr)
            return int(count.read_text())

        for threads in (1, 2):
            few, many = allocations(100, threads), allocations(400, threads)
            self.assertGreater(few, 100)
            # All of training but its steps, which differ by 300.
            self.assertLess(abs(many - few), 10, (few, many))

    def test_full_disk_keeps_the_old_checkpoint(self):
        out = self.train("full", "--steps", "4", "--threads", "1")
        before = digest(out)
        bytes_taken = sum(path.stat().st_size for path in out.glob("*.safetensors"))
        # In the weights, in the optimizer's state, and in the last bytes.
        for room in (1000, 3 * bytes_taken // 10, 6 * bytes_taken // 10, bytes_taken + 100):
            with self.subTest(room=room):
                result = self.preloaded("train", "--json", "--resume", "full", "--steps", "8",
                                        "--threads", "1", DISK_BYTES=str(room))
                self.assertEqual(result.returncode, INPUT_ERROR, result.stderr)
                self.assertIn("disk is full", result.stderr)
                self.assertIn("full/", result.stderr)
                self.assertEqual(digest(out), before)
                self.assertEqual(list(out.glob("*.next")), [])
        # And it goes on from there when there is room again.
        self.ok(self.model, "train", "--json", "--resume", "full", "--steps", "8",
                "--threads", "1")
        self.train("unbroken", "--steps", "8", "--threads", "1")
        self.assertEqual(tensors(out / "model.safetensors"),
                         tensors(self.folder / "unbroken" / "model.safetensors"))

    def test_file_size_limit_keeps_the_old_checkpoint(self):
        out = self.train("limited", "--steps", "3", "--threads", "1")
        before = digest(out)
        limit = (out / "model.safetensors").stat().st_size // 2
        result = run(self.model, "train", "--json", "--resume", "limited", "--steps", "6",
                     cwd=self.folder, file_bytes=limit)
        self.assertEqual(result.returncode, INPUT_ERROR, result.stderr)
        self.assertRegex(result.stderr, r"writes more than .* into a file of limited, and the size limit of this process is .*ulimit -f")
        self.assertEqual(digest(out), before)
        # Where nothing can be written, nor is there the folder.
        result = run(self.model, "train", "--out", "none/such", cwd=self.folder, file_bytes=9)
        self.assertEqual(result.returncode, INPUT_ERROR, result.stderr)
        self.assertRegex(result.stderr, r"writes more than [\d.]+ KiB into a file of none/such, and the size limit of this process is "
                         r"9 bytes \(ulimit -f\)")
        self.assertFalse((self.folder / "none").exists())

    def test_size_of_the_binary(self):
        self.assertLess(self.model.stat().st_size, 5_000_000)
        needed = run("readelf", "-d", self.model)
        if needed.returncode == 0:
            libraries = [line.split("[")[1].split("]")[0] for line in needed.stdout.splitlines()
                         if "NEEDED" in line]
            for library in libraries:
                self.assertRegex(library, r"^(libc|libm|libpthread|ld-linux.*)\.so")

    def test_programs_have_what_is_of_use_to_them(self):
        """No driver of GPUs where there is no code for them, and nothing that shares updates which nobody can share."""
        gpus, shares = b"libcuda.so.1", b"has no updates for a sum of gradients as a tree"
        by_hand = self.folder / "by-hand"
        for options, has_shares in (((), False), (("-D", "train.accumulate=2"), True)):
            with self.subTest(options):
                program = self.build("parts", *options).read_bytes()
                self.assertEqual((gpus in program, shares in program), (False, has_shares))
                # Who links an object has the same of the archive; alone it needs nothing.
                self.build("parts.o", "--emit", "obj", *options)
                undefined = run("nm", "--undefined-only", self.folder / "parts.o").stdout
                self.assertNotIn("tfm_", undefined)
                linked = run("c++", self.folder / "parts.o", BUILD / "lib" / "libtfm_runtime.a", "-static-libstdc++",
                             "-static-libgcc", "-Wl,--gc-sections", "-s", "-lm", "-lpthread", "-o", by_hand)
                self.assertEqual(linked.returncode, 0, linked.stderr)
                self.assertEqual((gpus in by_hand.read_bytes(), shares in by_hand.read_bytes()), (False, has_shares))
                self.ok(by_hand, "info")

    def test_a_static_program_needs_nothing_of_the_machine(self):
        program = self.build("static", "--static")
        headers = run("readelf", "-lW", program)
        if headers.returncode == 0:
            self.assertNotRegex(headers.stdout, "INTERP|DYNAMIC")
        self.train("of-static", "--steps", "3", program=program)
        self.train("of-dynamic", "--steps", "3")
        self.assertEqual(tensors(self.folder / "of-static" / "model.safetensors"),
                         tensors(self.folder / "of-dynamic" / "model.safetensors"))
        # The library of MPI is one of the machine.
        result = run(program, "train", cwd=self.folder,
                     environment={"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"})
        self.assertEqual(result.returncode, INPUT_ERROR, result.stderr)
        self.assertIn("a program built with --static loads no library of MPI: build it without", result.stderr)
        for option, value in (("--emit", "shared"), ("--target", "cuda")):
            result = tfmc("build", "tiny.tfm", "--static", option, value, "-o", "none", cwd=self.folder)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("--static is for", result.stderr)


class SameBits(Folder):
    def weights(self, out):
        return tensors(self.folder / out / "model.safetensors")

    def test_threads_and_resume(self):
        self.train("one", "--steps", "30", "--threads", "1")
        self.train("two", "--steps", "30", "--threads", "2")
        self.assertEqual(self.weights("one"), self.weights("two"))
        self.assertEqual(self.losses("one"), self.losses("two"))
        self.train("part", "--steps", "13", "--threads", "2")
        self.ok(self.model, "train", "--json", "--resume", "part", "--steps", "30")
        self.assertEqual(self.weights("one"), self.weights("part"))
        self.assertEqual(self.losses("one"), self.losses("part"))
        self.train("other", "--steps", "30", "--seed", "7")
        self.assertNotEqual(self.weights("one"), self.weights("other"))

    def test_samples_are_in_every_log(self):
        program = self.build("sampled", "-D", 'train.sample=every(n = 10, prompt = "to", tokens = 5)')
        samples = []
        for out, *options in ("told",), ("in-json", "--json"):
            self.ok(program, "train", "--steps", "20", "--out", out, *options)
            log = (self.folder / out / "log.jsonl").read_text().splitlines()
            samples.append([line for line in log if '"sample"' in line])
        self.assertEqual(len(samples[0]), 2)
        self.assertEqual(*samples)

    def test_it_learns(self):
        self.train("learns", "--steps", "300", "--threads", "2")
        losses = self.losses("learns")
        self.assertGreater(losses[0], 3.9)  # near log(58)
        self.assertLess(losses[-1], 3.0)

    def test_accumulation_is_a_larger_batch(self):
        whole = self.build("whole", "-D", "drop=0.0")
        halves = self.build("halves", "-D", "drop=0.0", "-D", "train.batch=6",
                            "-D", "train.accumulate=2")
        self.train("whole-run", "--steps", "20", "--threads", "1", program=whole)
        self.train("halves-run", "--steps", "20", "--threads", "1", program=halves)
        for a, b in zip(self.losses("whole-run"), self.losses("halves-run"), strict=True):
            self.assertAlmostEqual(a, b, delta=2e-4)
        self.assertAlmostEqual(self.losses("whole-run")[0], self.losses("halves-run")[0],
                               delta=2e-6)
        self.train("halves-2", "--steps", "20", "--threads", "2", program=halves)
        self.assertEqual(self.weights("halves-run"), self.weights("halves-2"))

    def test_accumulation_with_dropout_keeps_its_bits(self):
        program = self.build("dropped", "-D", "train.batch=6", "-D", "train.accumulate=2")
        self.train("dropped-1", "--steps", "10", "--threads", "1", program=program)
        self.train("dropped-2", "--steps", "10", "--threads", "2", program=program)
        self.assertEqual(self.weights("dropped-1"), self.weights("dropped-2"))

    def test_killed_at_any_moment(self):
        source = (self.folder / "tiny.tfm").read_text()
        (self.folder / "often.tfm").write_text(
            source.replace("steps     = 60", "steps = 1000000\n  checkpoint = every(1)"))
        program = self.build("often", source="often.tfm")
        moments = random.Random(5)
        resumed = 0
        for attempt in range(10):
            arguments = ["--resume", "killed"] if resumed else ["--out", "killed", "--overwrite"]
            process = subprocess.Popen([program, "train", "--json", *arguments], cwd=self.folder,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(moments.uniform(0.02, 0.4))
            process.send_signal(signal.SIGKILL)
            process.wait()
            if not (self.folder / "killed" / "state.json").exists():
                continue
            resumed = attempt + 1
            # Both weights and optimizer are whole and of one step.
            step = json.loads((self.folder / "killed" / "state.json").read_text())["step"]
            result = run(program, "train", "--json", "--resume", "killed", "--out", "checked",
                         "--overwrite", "--steps", str(step + 2), cwd=self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(resumed, 0)


class BadInput(Folder):
    def fails(self, *arguments):
        result = run(self.model, *arguments, cwd=self.folder)
        self.assertEqual(result.returncode, INPUT_ERROR, result)
        self.assertNotIn("terminate", result.stderr)
        return result.stderr

    def test_an_input_that_nothing_fills(self):
        source = (self.folder / "tiny.tfm").read_text()
        source = source.replace("forward(tokens: int[B, T])",
                                "forward(tokens: int[B, T], memory: [B, T, width])")
        source = source.replace("x = h(x)", "x = h(x) + memory")
        (self.folder / "two.tfm").write_text(source)
        refused = tfmc("check", self.folder / "two.tfm")
        self.assertEqual(refused.returncode, INPUT_ERROR)
        self.assertIn("nothing that is called `memory`", refused.stderr)
        # A program of one's own may fill it.
        alphabet = json.dumps("".join(sorted(set((self.folder / "text.txt").read_text()))))
        lines = [line.replace("from = data", alphabet) for line in source.splitlines() if not line.startswith("data")]
        (self.folder / "two.tfm").write_text("\n".join(lines))
        two = self.build("two", source="two.tfm")
        for arguments in (["train", "--data", "text.txt", "--out", "two-run"],
                          ["generate", "--weights", self.train("one-run", "--steps", "1")]):
            result = run(two, *arguments, cwd=self.folder)
            self.assertEqual(result.returncode, INPUT_ERROR, result)
            self.assertIn("takes `memory`", result.stderr)

    def test_tokens_by_another_name(self):
        source = (self.folder / "tiny.tfm").read_text().replace("data text", "// data text").replace(
            "forward(tokens: int[B, T])", "forward(ids: int[B, T])").replace("from = data", '"ab"')
        source = re.sub(r"\b(wte|positions)\(tokens\)", r"\1(ids)", source)
        (self.folder / "ids.tfm").write_text(source)
        ids = self.build("ids", source="ids.tfm")
        self.ok(ids, "export", "--seed", "1", "-o", "ids.safetensors")
        for arguments in (["train", "--data", "text.txt"], ["generate", "--weights", "ids.safetensors", "--prompt", "a"]):
            result = run(ids, *arguments, cwd=self.folder)
            self.assertEqual(result.returncode, INPUT_ERROR, result)
            self.assertRegex(result.stderr, r"takes `ids`, .* `tokens`, int\[B, T\].* Call it `tokens`, or")
        timed = json.loads(self.ok(ids, "bench", "--json").stdout)["functions"]
        self.assertIn("prefill", timed)
        self.assertIsNone(timed["prefill"]["tokens_per_second"])

    def test_data(self):
        (self.folder / "empty.txt").write_text("")
        (self.folder / "short.txt").write_text("To be")
        (self.folder / "foreign.txt").write_text("Ωmega and more of it\n" * 50)
        for name in ("empty", "short", "foreign", "missing"):
            with self.subTest(name=name):
                message = self.fails("train", "--data", f"{name}.txt", "--out", f"bad-{name}")
                self.assertIn(f"{name}.txt", message)
                self.assertFalse((self.folder / f"bad-{name}" / "model.safetensors").exists())
        self.assertIn("Ω", self.fails("train", "--data", "foreign.txt", "--out", "bad-foreign"))

    def test_help_that_cannot_be_written(self):
        for option in ("--help", "--version"):
            with open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run([self.model, option], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual((result.returncode, result.stderr),
                             (INPUT_ERROR, "error: cannot write to standard output: No space left on device\n"))

    def test_more_than_the_memory(self):
        for define in ("train.batch=100000000", "train.accumulate=1000000000000000000"):
            huge = self.build("huge", "-D", define)
            for command in (["train", "--out", "huge-run"], ["bench"]):
                result = run(huge, *command, cwd=self.folder)
                self.assertEqual(result.returncode, INPUT_ERROR, result)
                self.assertRegex(result.stderr, r"^error: training .* takes [\d.]+ TiB of memory \(")
                self.assertIn(define.replace("=", " (now "), result.stderr)
                self.assertNotIn("accumulate (now 1)", result.stderr)  # which cannot be smaller
            self.assertFalse((self.folder / "huge-run").exists())

    def test_the_functions_that_bench_times(self):
        bench = json.loads(self.ok(self.model, "bench", "--json", "--function", "decode", "--function", "train").stdout)
        self.assertEqual(list(bench["functions"]), ["train", "decode"])
        coarse = self.build("coarse", "-D", "generate.weights=int8")
        for model, name, status, message in ((coarse, "train", INPUT_ERROR, r"has no function train: it has .*decode"),
                                             (self.model, "trian", 2, "decode, .*train, .*not trian")):
            result = run(model, "bench", "--function", name, cwd=self.folder)
            self.assertEqual(result.returncode, status, result)
            self.assertRegex(result.stderr, message)

    def test_caches_larger_than_the_memory(self):
        # Before the weights are looked for, let alone the memory touched.
        many = self.build("many", "-D", "generate.batch=1000000000")
        for command in (["generate", "--weights", "none"], ["bench"]):
            result = run(many, *command, cwd=self.folder)
            self.assertEqual(result.returncode, INPUT_ERROR, result)
            self.assertRegex(result.stderr, r"^error: generating with \w+ takes [\d.]+ TiB of memory \(weights "
                                            r"[\d.]+ \w+, caches [\d.]+ TiB\), but there is [\d.]+ GiB: build it with "
                                            r"a smaller generate.batch \(now 1000000000\) or a shorter context \(now ")

    def test_weights_of_another_model(self):
        other = self.build("other", "-D", "width=16")
        self.train("other-run", "--steps", "1", program=other)
        message = self.fails("generate", "--weights", "other-run", "--prompt", "A")
        self.assertIn("another model", message)
        self.assertIn("wte.weight", message)
        # No other checkpoint of that run would do, and none is proposed.
        remedy = ": use the binary that the run was made with, or train anew with --out NEW\n"
        self.assertEqual(self.fails("train", "--resume", "other-run"),
                         "error: other-run/optimizer.safetensors does not fit this model: wte.weight.m has another "
                         "shape" + remedy)
        source = (self.folder / "tiny.tfm").read_text().replace("Tiny(", "Small(")
        (self.folder / "small.tfm").write_text(source)
        small = self.build("small", source="small.tfm")
        self.train("small-run", "--steps", "1", program=small)
        self.assertEqual(self.fails("train", "--resume", "small-run"),
                         "error: small-run/state.json is of the model Small, this is Tiny" + remedy)

    def test_damaged_weights(self):
        out = self.train("damaged", "--steps", "1")
        path = out / "model.safetensors"
        whole = path.read_bytes()
        for size in (0, 7, 100, len(whole) - 1):
            path.write_bytes(whole[:size])
            self.assertIn("model.safetensors",
                          self.fails("generate", "--weights", "damaged", "--prompt", "A"))


class CProgram(Folder):
    """The object file and the shared library, used by a program in C."""

    def programs(self, *defines):
        objects = [("obj", "model.o"), ("shared", "model.so")]
        for kind, name in objects:
            self.build(name, "--emit", kind, *self.DEFINES, *defines, source="c.tfm")
            program = self.folder / f"main-{kind}"
            result = run(CC, "-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror",
                         "-I", ROOT, HERE / "c_api" / "main.c", self.folder / name, "-o", program,
                         "-lm", "-lpthread", f"-Wl,-rpath,{self.folder}")
            self.assertEqual(result.returncode, 0, result.stderr)
            yield program

    DEFINES = ()

    @functools.cached_property
    def binary(self):
        # One window of text only, so that the batch is known.
        source = (self.folder / "tiny.tfm").read_text()
        source = source.replace("text.txt", "window.txt").replace("validation = 0.1",
                                                                  "validation = 0.0")
        (self.folder / "c.tfm").write_text(source)
        (self.folder / "window.txt").write_text("to be or not tobe"[:17])
        return self.build("binary", *self.DEFINES, source="c.tfm")

    def test_training_steps_and_generation(self):
        binary = self.binary
        recipe = json.loads(self.ok(binary, "info", "--json").stdout)["recipe"]
        vocabulary = recipe["tokenizer"]["json"]["model"]["vocab"]
        self.train("start", "--steps", "1", "--lr", "0", program=binary)
        self.train("stepped", "--steps", "2", "--init", "start", "--threads", "1", program=binary)
        ids = [vocabulary[c] for c in (self.folder / "window.txt").read_text()]
        rows = recipe["train"]["batch"]
        (self.folder / "tokens.i32").write_bytes(array.array("i", ids[:16] * rows).tobytes())
        (self.folder / "targets.i32").write_bytes(array.array("i", ids[1:17] * rows).tobytes())
        expected = tensors(self.folder / "stepped" / "model.safetensors")
        losses = self.losses("stepped")
        # Weights that give each letter a clear successor.
        self.train("trained", "--steps", "150", program=binary)
        text = self.ok(binary, "generate", "--weights", "trained", "--greedy", "--tokens", "10",
                       "--prompt", "to be").stdout
        names = {number: letter for letter, number in vocabulary.items()}
        for program in self.programs():
            for threads in ("1", "3"):
                answer = self.ok(program, "start/model.safetensors", threads, "train", "2",
                                 "tokens.i32", "targets.i32", "stepped.f32").stdout.split()
                self.assertEqual(len(answer), 2)
                for found, loss in zip(answer, losses, strict=True):
                    self.assertAlmostEqual(float(found), loss, delta=1e-6)
                found = (self.folder / "stepped.f32").read_bytes()
                self.assertEqual(len(found), sum(map(len, expected.values())))
                at = 0
                for name in self.order(program):
                    self.assertEqual(found[at:at + len(expected[name])], expected[name], name)
                    at += len(expected[name])
                answer = self.ok(program, "trained/model.safetensors", threads, "generate", "10",
                                 *ids[:5]).stdout
                letters = "".join(names[int(number)] for number in answer.split())
                self.assertIn(letters, text)

    def of_arm(self):
        """The compiler for it, and what runs its programs here."""
        programs = "aarch64-linux-gnu-gcc", "qemu-aarch64"
        for name in programs:
            if not shutil.which(name):
                self.skipTest(f"{name} is not installed")
        return programs

    def program_for(self, cpu, cc, *defines):
        self.binary  # writes the model
        self.build(f"{cpu}.o", "--emit", "obj", "--cpu", cpu, *defines, source="c.tfm")
        program = self.folder / f"main-{cpu}"
        result = run(cc, "-static", "-std=c11", "-D_GNU_SOURCE", "-O1", "-I", ROOT, HERE / "c_api" / "main.c",
                     self.folder / f"{cpu}.o", "-o", program, "-lm", "-lpthread")
        self.assertEqual(result.returncode, 0, result.stderr)
        return program

    def test_in_the_code_of_arm(self):
        """Emulated, and to rounding what this machine's code gives; the same bits for any number of threads."""
        compiler, emulator = self.of_arm()
        self.train("arm-start", "--steps", "1", "--lr", "0", program=self.binary)
        numbers = random.Random(1)
        for name in ("arm-tokens.i32", "arm-targets.i32"):
            ids = [numbers.randrange(8) for _ in range(16 * 16)]
            (self.folder / name).write_bytes(array.array("i", ids).tobytes())
        answers = {}
        for cpu, cc, run_by in (("native", CC, ()), ("cortex-a72", compiler, (emulator,)),
                                ("neoverse-n2", compiler, (emulator, "-cpu", "max"))):
            program = self.program_for(cpu, cc, *self.DEFINES)
            for threads in ("1", "3"):
                for command in (("train", "3", "arm-tokens.i32", "arm-targets.i32", "arm-out.f32"), ("generate", "8", "1", "2", "3")):
                    result = run(*run_by, program, "arm-start/model.safetensors", threads, *command, cwd=self.folder)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    answer = [float(word) for word in result.stdout.split()]
                    self.assertEqual(answers.setdefault((cpu, command[0]), answer), answer)
        tolerance = 1e-3 if self.DEFINES else 1e-6
        for (_, command), answer in answers.items():
            expected = answers["native", command]
            if command == "train" or not self.DEFINES:
                for found, value in zip(answer, expected, strict=True):
                    self.assertAlmostEqual(found, value, delta=tolerance)

    def test_integers_in_the_code_of_arm(self):
        """Products of four (SDOT) give the sums that pairs (AVX2) give, and logits are the same to rounding."""
        compiler, emulator = self.of_arm()
        # The last group of an output's terms is half full.
        size = "-D", "width=48"
        self.binary  # writes the model
        binary = self.build("binary-48", *size, source="c.tfm")
        self.train("integers-start", "--steps", "1", program=binary)
        numbers = random.Random(2)
        for weights in ("int8", "int4"):
            self.ok(binary, "export", "--weights", "integers-start", "--dtype", weights, "-o", f"{weights}.safetensors")
            logits = {}
            for cpu, cc, run_by in (("x86-64-v3", CC, ()), ("neoverse-n1", compiler, (emulator, "-cpu", "neoverse-n1"))):
                program = self.program_for(cpu, cc, *size, "-D", f"generate.weights={weights}")
                if not logits:
                    [(begin, end)] = re.findall(r"forward in tokens i32 (\d+) (\d+)", self.ok(program, "buffers").stdout)
                    tokens = [numbers.randrange(8) for _ in range((int(end) - int(begin)) // 4)]
                    (self.folder / "integers.i32").write_bytes(array.array("i", tokens).tobytes())
                for threads in ("1", "3"):
                    result = run(*run_by, program, f"{weights}.safetensors", threads, "call", "forward", "logits.f32",
                                 "tokens=integers.i32", cwd=self.folder)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    found = array.array("f", (self.folder / "logits.f32").read_bytes())
                    self.assertEqual(logits.setdefault(cpu, found), found)
            self.assertGreater(max(map(abs, logits["x86-64-v3"])), 0.1)
            for found, expected in zip(logits["neoverse-n1"], logits["x86-64-v3"], strict=True):
                self.assertAlmostEqual(found, expected, delta=1e-5)

    # `//   in  hyper      f32 [4]     update, train: what it holds`
    LISTED = re.compile(r"^//   (in|out) +(\w+) +(f32|i32|u8) \[[^]]*\] +([\w, ]+(?:\n// +[\w, ]+)*):",
                        re.MULTILINE)

    def test_the_header_lists_inputs_and_outputs(self):
        self.binary  # writes the model
        header = (ROOT / "runtime" / "tfm_model.h").read_text()
        documented = {(function, direction, name, dtype)
                      for direction, name, dtype, functions in self.LISTED.findall(header)
                      for function in re.split(r",(?: |\n// +)", functions)}
        # What devices sum up and choose is of no variant for CPUs: test_cuda runs it. This loss draws nothing while it is
        # evaluated: test_random has one that does.
        elsewhere = {("squares", "out", "squares", "f32"), ("evaluate", "in", "rng", "i32")}
        for function in ("prefill", "prefill_short", "verify", "decode"):
            elsewhere |= {(function, "out", "candidates", "f32"), (function, "out", "candidate_ids", "i32")}
        self.assertLessEqual(elsewhere, documented)
        documented -= elsewhere
        # Texts long enough for chunks of all lengths, several of them, updates that can be shared, smoothed labels.
        for program in self.programs("-D", "context=64", "-D", "generate.batch=2", "-D", "train.accumulate=2",
                                     "-D", "train.loss.label_smoothing=0.1"):
            lines = [line.split() for line in self.ok(program, "buffers").stdout.splitlines()]
            self.assertEqual(documented, {tuple(line[:4]) for line in lines})
            # As it says, a call leaves other bytes in its inputs.
            places = {(function, direction, name): range(int(begin), int(end))
                      for function, direction, name, _, begin, end in lines}
            shared = [(ours, theirs) for ours, mine in places.items() for theirs, other in places.items()
                      if ours[1] == "in" and theirs[1] == "out" and
                      max(mine.start, other.start) < min(mine.stop, other.stop)]
            self.assertTrue(shared)

    def test_a_library_exports_its_descriptor_alone(self):
        """Whatever else it exported would be that of the program, or of another model, which has the same name there."""
        self.binary  # writes the model
        library = self.build("alone.so", "--emit", "shared", *self.DEFINES, source="c.tfm")
        exported = run("nm", "-D", "--defined-only", "--format=just-symbols", library)
        self.assertEqual(exported.stdout.split(), ["tfm_model_descriptor"], exported)
        # C libraries that do not know packed relocations would use it without them.
        sections = run("readelf", "-SW", library).stdout
        self.assertIn(" .rela.dyn ", sections)
        self.assertNotIn(" .relr.dyn ", sections)
        # Else a program that was linked with it looks for it where it lay then.
        self.assertIn("soname: [alone.so]", run("readelf", "-dW", library).stdout)

    def order(self, _program):
        """Parameters as the descriptor lists them: the order in which files hold them."""
        data = (self.folder / "start" / "model.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + length])
        header.pop("__metadata__", None)
        return sorted(header, key=lambda name: header[name]["data_offsets"])



class CProgramInBf16(CProgram):
    """It fills in weights, of which products read copies."""
    DEFINES = ("-D", "train.precision=bf16")
    test_integers_in_the_code_of_arm = None # builds with integers have no `train`

if __name__ == "__main__":
    main()
