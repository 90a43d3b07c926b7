"""Programs for a GPU as far as they can be looked at without one. NVIDIA's assembler, where it is installed, takes
all kernels, and finds registers and shared memory enough. And whole programs run on a driver that is not NVIDIA's,
whose GPU is the emulator of tests/emulator."""

import ctypes
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import (BUILD, MODELS, MPI_ENVIRONMENT, MPI_LIBRARIES, ROOT, TFMC, USAGE, load_arrays, main, run, save_arrays,
                     tfmc)

HERE = Path(__file__).resolve().parent
PTXAS = shutil.which("ptxas")
EMULATED = BUILD / "emulated"

# Of a block of all GPUs, without asking for more.
SHARED = 48 * 1024

# What is built of each model; together every kind of kernel with every kind of operand.
BUILDS = (
    ("models/addition.tfm", []),
    ("models/shakespeare.tfm", []),
    ("models/shakespeare.tfm", ["train.precision=bf16", "generate.weights=int4"]),
    ("models/llama.tfm", []),
    ("models/llama.tfm", ["generate.weights=int8", "generate.cache=int8"]),
    ("models/gpt2.tfm", []),
    ("models/gpt2.tfm", ["generate.weights=int4"]),
    ("models/gpt2.tfm", ["width=1600", "heads=25", "generate.weights=bf16"]),
    ("models/lab_train.tfm", ["train.precision=bf16"]),
    ("models/shakespeare.tfm", ["layers=6", "heads=6", "width=384", "context=256", "train.sequence=256", "train.batch=64"]),
    ("bench/gpt2_train.tfm", ["train.batch=8", "train.sequence=1024"]),
    ("bench/gpt2_train.tfm", ["train.precision=bf16", "train.batch=8", "train.sequence=1024"]),
    ("tests/e2e/models/long_epilogues.tfm", []),
    ("tests/e2e/models/long_epilogues.tfm", ["train.precision=bf16", "train.batch=8", "train.sequence=255",
                                             "width=1260", "hidden=2051", "heads=21"]),
)


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
        return True
    except OSError:
        return False


class Ptx(unittest.TestCase):
    @unittest.skipUnless(PTXAS, "there is no ptxas")
    def test_the_assembler_takes_all_kernels(self):
        for model, defines in BUILDS:
            with tempfile.TemporaryDirectory() as folder:
                ptx = Path(folder) / "kernels.ptx"
                result = tfmc("build", ROOT / model, *(word for define in defines for word in ("-D", define)),
                              "--target", "cuda", "--emit", "asm", "-o", ptx)
                self.assertEqual(result.returncode, 0, result.stderr)
                for machine in ("sm_80", "sm_90"):
                    with self.subTest(model=model, defines=defines, machine=machine):
                        self.assemble(machine, ptx)
                forms = ptx.with_suffix(".sm_90a.ptx")
                self.assertTrue(forms.exists() or "gpt2_train" not in model or "train.precision=bf16" not in defines)
                if forms.exists():
                    with self.subTest(model=model, defines=defines, machine="sm_90a"):
                        self.assertIn("wgmma.mma_async", forms.read_text())
                        self.assemble("sm_90a", forms)

    def assemble(self, machine, ptx):
        result = run(PTXAS, f"-arch={machine}", "-v", ptx, "-o", ptx.with_suffix(".cubin"))
        self.assertEqual(result.returncode, 0, result.stderr)
        kernels = re.findall(r"Compiling entry function '(\w+)'", result.stderr)
        self.assertEqual(len(kernels), ptx.read_text().count(".visible .entry"))
        # Nothing that a kernel keeps in registers goes to memory.
        kept = re.findall(r"Function properties for (\w+)\n +(\d+) bytes stack frame, (\d+) bytes spill stores, "
                          r"(\d+) bytes spill loads", result.stderr)
        self.assertEqual([kernel for kernel, *_ in kept], kernels)
        for kernel, *sizes in kept:
            self.assertEqual(max(map(int, sizes)), 0, kernel)
        # It says so where products have to wait for each other, or registers cannot be handed over.
        self.assertNotRegex(result.stderr, "(?i)serialized|ignored|loss")
        for shared in re.findall(r"(\d+) bytes smem", result.stderr):
            self.assertLessEqual(int(shared), SHARED)

    def test_an_assembler_that_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            ptxas = Path(folder) / "ptxas"
            ptxas.touch(0o755)
            unknown = "echo \"ptxas fatal   : Value '$1' is not defined for option 'gpu-name'\" >&2; exit 255"
            for script, told in (
                    ("exit 255", " for sm_80, sm_90"),
                    ("echo 'ptxas fatal   : no memory' >&2; exit 1", " for sm_80, sm_90 (ptxas fatal   : no memory)"),
                    # One that is older than these GPUs.
                    (unknown, " for sm_80, sm_90 (ptxas fatal   : Value '-arch=sm_80' is not defined for option 'gpu-name')"),
                    (f"case $1 in *90) {unknown};; *) echo code > $4;; esac", None),
                    ("case $1 in *90) exit 1;; *) echo code > $4;; esac", " for sm_90")):
                ptxas.write_text(f"#!/bin/sh\n{script}\n")
                result = tfmc("build", MODELS / "addition.tfm", "--target", "cuda", "-o", Path(folder) / "m",
                              environment={"PATH": f"{folder}:{os.environ['PATH']}"})
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stderr, "" if told is None else
                                 f"note: `ptxas` in PATH makes no machine code{told}: drivers translate the program's PTX "
                                 "when it first starts on a machine\n")
            result = tfmc("build", MODELS / "addition.tfm", "--target", "cuda", "-o", Path(folder) / "m",
                          environment={"PATH": f"{folder}:{os.environ['PATH']}", "TMPDIR": "/no-such-folder"})
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(" for sm_80, sm_90 (a temporary file cannot be written: No such file or directory): ",
                          result.stderr)

    def test_forms_of_an_earlier_build_go(self):
        with tempfile.TemporaryDirectory() as folder:
            ptx, forms = Path(folder) / "kernels.ptx", Path(folder) / "kernels.sm_90a.ptx"
            forms.write_text("mine")
            result = tfmc("build", MODELS / "addition.tfm", "--target", "cuda", "--emit", "asm", "-o", ptx)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"cannot write {forms}, beside the kernels: it is no PTX of an earlier build", result.stderr)
            self.assertEqual(forms.read_text(), "mine")
            self.assertFalse(ptx.exists())
            forms.write_text("//\n// Generated by LLVM NVPTX Back-End\n//\n\n.version 8.0\n.target sm_90a\n")
            result = tfmc("build", MODELS / "addition.tfm", "--target", "cuda", "--emit", "asm", "-o", ptx)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(".visible .entry", ptx.read_text())
            self.assertFalse(forms.exists())

            # But nothing that the build was not to replace.
            source = Path(folder) / "k.sm_90a.tfm"
            source.write_text((MODELS / "addition.tfm").read_text())
            result = tfmc("build", source, "--target", "cuda", "--emit", "asm", "-o", Path(folder) / "k.tfm")
            self.assertEqual(result.returncode, 1)
            self.assertEqual(result.stderr, f"tfmc: error: cannot write {source}: the model is made of it\n")
            self.assertTrue(source.exists())
            forms.mkdir()
            result = tfmc("build", MODELS / "addition.tfm", "--target", "cuda", "--emit", "asm", "-o", ptx)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(result.stderr, f"tfmc: error: cannot write {forms}: it is a folder\n")

    def test_kernels_for_a_pipe(self):
        result = tfmc("build", MODELS / "addition.tfm", "--target", "cuda", "--emit", "asm", "-o", "/dev/stdout")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(".visible .entry", result.stdout)
        self.assertFalse(Path("/dev/stdout.sm_90a").exists())
        self.assertEqual(result.stderr, "")
        # What has no place there is not passed over in silence.
        result = tfmc("build", MODELS / "gpt2.tfm", "--target", "cuda", "--emit", "asm", "-D", "layers=1",
                      "-D", "generate.weights=bf16")
        self.assertIn(".visible .entry", result.stdout)
        left_out = "note: what GPUs of compute capability 9.0 run instead of some of these kernels is left out"
        self.assertIn(left_out, result.stderr)
        # Nor is it written beside what standard output was redirected to.
        with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "kernels.ptx", "w") as file:
            for name in "/dev/stdout", "/dev/fd/1":
                result = subprocess.run([TFMC, "build", MODELS / "gpt2.tfm", "--target", "cuda", "--emit", "asm", "-D", "layers=1",
                                         "-D", "generate.weights=bf16", "-o", name], stdout=file, stderr=subprocess.PIPE,
                                        text=True, check=False)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(left_out, result.stderr)
                self.assertEqual(list(Path("/dev").glob("*sm_90a*")), [])

    def test_no_object_files(self):
        for kind in ("llvm", "obj", "shared"):
            result = tfmc("build", MODELS / "addition.tfm", "--target", "cuda", "--emit", kind)
            self.assertEqual(result.returncode, USAGE)
            self.assertEqual(result.stderr, f"tfmc: error: --emit {kind} is for `--target cpu` alone: with `--target cuda` "
                             "there are programs (exe), the GPU's kernels (asm) and their schedule\n")


class Program(unittest.TestCase):
    """A program with code for GPUs where there is none."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.program = Path(cls.folder.name) / "addition"
        result = tfmc("build", MODELS / "addition.tfm", "--target", "cuda", "-o", cls.program)
        assert result.returncode == 0, result.stderr

    def variants(self, *arguments):
        info = json.loads(run(self.program, "info", "--json", *arguments).stdout)
        return [(variant["target"], variant["chosen"]) for variant in info["variants"]]

    def test_it_runs_on_the_processor(self):
        # The variants of the build are there, whichever is chosen.
        self.assertEqual(self.variants("--device", "cpu")[0], ("cuda", False))
        self.assertIn(("cpu", True), self.variants("--device", "cpu"))
        out = Path(self.folder.name) / "run"
        result = run(self.program, "train", "--device", "cpu", "--steps", "2", "--threads", "1", "--out", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((out / "model.safetensors").exists())

    def test_no_such_device(self):
        result = run(self.program, "train", "--device", "gpu")
        self.assertEqual(result.returncode, USAGE)
        self.assertIn("there is no device 'gpu': auto, cpu, cuda (an NVIDIA GPU), or cuda:1", result.stderr)

    @unittest.skipIf(has_driver(), "there is a driver")
    def test_no_driver(self):
        self.assertIn(("cpu", True), self.variants())
        result = run(self.program, "train", "--device", "cuda")
        self.assertEqual(result.returncode, 1)
        self.assertIn("error: there is no NVIDIA driver here", result.stderr)
        self.assertIn("install it, or run with --device cpu", result.stderr)

    def test_heads_that_are_too_wide(self):
        model, sizes = MODELS / "addition.tfm", ("-D", "width=1024", "-D", "heads=2", "-D", "layers=1")
        for command in (("build", "--emit", "asm", "-o", self.program.with_name("wide")), ("report", "--memory")):
            result = tfmc(*command, model, "--target", "cuda", *sizes)
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, r"^tfmc: error: std/Attention\.tfm:\d+: the attention of `h\.\*\.attn` has heads "
                             r"of more than 363 numbers, which no kernel of a GPU takes: have more heads, which are narrower, "
                             r"or build with --target cpu\n$")

    def test_a_build_without_code_for_it(self):
        alone = self.program.with_name("alone")
        self.assertEqual(tfmc("build", MODELS / "addition.tfm", "-o", alone).returncode, 0)
        result = run(alone, "train", "--device", "cuda")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "error: --device cuda, but Addition was built for CPUs alone: build it with "
                         "`tfmc build --target cuda`\n")
        self.assertEqual(json.loads(run(alone, "info", "--json").stdout)["device"]["kind"], "cpu")


@unittest.skipUnless((EMULATED / "libcuda.so.1").exists(), "the emulated driver is not built")
class OnAGpu(unittest.TestCase):
    """What a program does on a GPU is what it does on a processor."""

    SIZES = ("width=16", "context=16", "train.batch=2", "train.sequence=8", "generate.batch=3")

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tfm-e2e-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        (cls.folder / "text.txt").write_text((MODELS / "tinyshakespeare.txt").read_text()[:2000])
        shutil.copy(HERE / "models" / "tiny.tfm", cls.folder)
        cls.build("tiny")

    @classmethod
    def build(cls, name, *defines, file="tiny.tfm"):
        """A program, and the kernels that its PTX was made of, in NAME.mlir."""
        sizes = dict(define.split("=") for define in (*cls.SIZES, *defines))
        source = [file] + [word for define in sizes.items() for word in ("-D", "=".join(define))]
        result = tfmc("build", *source, "--target", "cuda", "-o", name, cwd=cls.folder)
        assert result.returncode == 0, result.stderr
        model = tfmc("build", *source, "--emit", "tfm", cwd=cls.folder)
        schedule = run(BUILD / "bin" / "tfm-opt", "--tfm-to-llvm=target=cuda", "--mlir-print-local-scope",
                       stdin=model.stdout).stdout.split("\n")
        begin = next(i for i, line in enumerate(schedule) if line.startswith("  module @kernels"))
        kernels = schedule[begin:schedule.index("  }", begin) + 1]
        (cls.folder / f"{name}.mlir").write_text("\n".join(kernels) + "\n")

    def run_on(self, device, *arguments, name="tiny", **gpu):
        """Runs a command there; `gpu` is what the GPU is like."""
        environment = {"LD_LIBRARY_PATH": str(EMULATED), "TFM_EMULATED_KERNELS": str(self.folder / f"{name}.mlir")}
        environment.update({f"TFM_EMULATED_{key.upper()}": str(value) for key, value in gpu.items()})
        result = run(self.folder / name, *arguments, "--device", device, cwd=self.folder, environment=environment)
        # No kernel does what it must not.
        if "launches" not in gpu:
            self.assertNotIn("emulated GPU", result.stderr)
        return result

    def ok(self, device, *arguments, **options):
        result = self.run_on(device, *arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def log(self, out):
        lines = [json.loads(line) for line in (self.folder / out / "log.jsonl").read_text().splitlines()]
        return [(line["loss"], line["grad_norm"]) for line in lines if "loss" in line]

    def expect_close(self, one, other, tolerance):
        self.assertEqual(len(one), len(other))
        for step, (a, b) in enumerate(zip(one, other)):
            for x, y in zip(a, b):
                self.assertLessEqual(abs(x - y), tolerance * abs(y), f"step {step + 1}")

    def test_a_report_knows_the_arena(self):
        source = ["tiny.tfm"] + [word for define in self.SIZES for word in ("-D", define)]
        plans = [json.loads(tfmc("report", *source, "--target", target, "--memory", "--format", "json",
                                 cwd=self.folder).stdout)["memory"] for target in ("cpu", "cuda")]
        self.assertEqual(plans[1]["target"], "cuda")
        for device, plan in zip(("cpu", "cuda"), plans):
            self.assertEqual(json.loads(self.ok(device, "info", "--json"))["memory"]["arena"], plan["arena"])

    def test_arrays_fill_its_memory(self):
        (self.folder / "arrays.tfm").write_text("""
model Arrays(width = 16, context = 16) {
  table = Embedding(5, width)
  head  = Linear(width, 2)
  forward(x: [B, T, width], kind: int[B, T], known: bool[B, T]) -> ([B, T, 2], int[B, T]) {
    y = where(rearrange(known, "B T -> B T 1"), x, 0.0 * x)
    return head(y + table(kind)), kind + 1
  }
  loss(x: [B, T, width], kind: int[B, T], known: bool[B, T], targets: [B, T, 2]) -> [B, T] {
    noise = random_normal([B, T, width], 0.1) * random_uniform([B, 1, 1])
    y, more = forward(x + noise, kind, known)
    return rearrange(mse(y, targets), "B T 1 -> B T")
  }
}
data arrays("arrays.safetensors")
train { steps = 4, accumulate = 2, optimizer = sgd(lr = 0.1) }
""".replace('rearrange(mse(y, targets), "B T 1 -> B T")', "mse(y, targets)"))
        count = 5 * 8
        save_arrays(self.folder / "arrays.safetensors", {
            "x": ("F16", [5, 8, 16], [(i * 7 % 16 - 8) / 8 for i in range(count * 16)]),
            "kind": ("U8", [5, 8], [i % 5 for i in range(count)]),
            "known": ("BOOL", [5, 8], [i % 3 > 0 for i in range(count)]),
            "targets": ("F32", [5, 8, 2], [i % 7 / 7 for i in range(count * 2)])})
        self.build("arrays", file="arrays.tfm")
        for device in ("cpu", "cuda"):
            self.ok(device, "train", "--out", f"arrays-{device}", name="arrays")
            self.ok(device, "predict", "--weights", "arrays-cpu", "--data", "arrays.safetensors", "-o",
                    f"{device}.safetensors", name="arrays")
        self.expect_close(self.log("arrays-cuda"), self.log("arrays-cpu"), 1e-5)
        # They draw the same numbers.
        losses = [json.loads(self.ok(device, "eval", "--weights", "arrays-cpu", "--data", "arrays.safetensors",
                                     "--json", name="arrays"))["loss"] for device in ("cpu", "cuda")]
        self.assertAlmostEqual(losses[0], losses[1], delta=1e-6)
        one, other = (load_arrays(self.folder / f"{device}.safetensors") for device in ("cpu", "cuda"))
        self.assertEqual(one["output.1"], ("F32", [5, 8], [i % 5 + 1.0 for i in range(count)]))
        self.assertEqual(other["output.1"], one["output.1"])
        self.assertEqual(other["output.0"][:2], ("F32", [5, 8, 2]))
        for a, b in zip(one["output.0"][2], other["output.0"][2], strict=True):
            self.assertAlmostEqual(a, b, delta=1e-6)

    def test_forms_of_kernels_for_hopper(self):
        # One layer whose MLP is wide enough for `wgmma` to pay.
        tiny = (self.folder / "tiny.tfm").read_text()
        (self.folder / "wide.tfm").write_text(tiny.replace("4 * width", "128 * width"))
        self.build("wide", "layers=1", "width=64", "context=64", "train.sequence=64", "train.precision=bf16",
                   file="wide.tfm")
        kernels = (self.folder / "wide.mlir").read_text()
        self.assertIn("nvvm.wgmma.mma_async", kernels)
        steps = ("train", "--steps", "1", "--seed", "7", "--out")
        self.ok("cpu", *steps, "wide-cpu", name="wide")
        self.ok("cuda", *steps, "wide-cuda", name="wide", capability="9.0")
        self.expect_close(self.log("wide-cuda"), self.log("wide-cpu"), 1e-3)
        # Blocks that live until all is done are as many as have room, and compute the same however many they are.
        self.assertIn("tfm.persistent", kernels)
        self.ok("cuda", *steps, "wide-large", name="wide", capability="9.0", multiprocessors=7)
        self.assertEqual(self.log("wide-large"), self.log("wide-cuda"))
        # They are what is loaded and launched there, and nowhere else: without the kernels that they are forms of a GPU
        # of 9.0 runs, and none of 8.0.
        general = set(re.findall(r"@(kernel\d+)_sm_90a\(", kernels))
        kept, skips = [], False
        for line in kernels.split("\n"):
            function = re.match(r"    llvm.func @(kernel\d+)\(", line)
            skips = skips or bool(function) and function[1] in general
            if not skips:
                kept.append(line)
            skips = skips and line != "    }"
        (self.folder / "wide.mlir").write_text("\n".join(kept))
        self.ok("cuda", *steps, "wide-forms", name="wide", capability="9.0")
        self.assertEqual(self.log("wide-forms"), self.log("wide-cuda"))
        result = self.run_on("cuda", *steps, "wide-none", name="wide", capability="8.0")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the PTX has no kernel", result.stderr)

    def test_it_trains_and_generates(self):
        for device in ("cpu", "cuda"):
            self.ok(device, "train", "--steps", "20", "--out", device)
        # Dropout has the same masks, so that nothing but the order of sums differs.
        self.expect_close(self.log("cuda"), self.log("cpu"), 2e-5)
        self.assertLess(self.log("cuda")[-1][0], self.log("cuda")[0][0] - 0.05)

        # A run that is cut in two has the same bits; one that changes the device in between does not notice.
        self.ok("cuda", "train", "--steps", "9", "--out", "parts")
        self.ok("cuda", "train", "--steps", "20", "--resume", "parts")
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual((self.folder / "parts" / file).read_bytes(), (self.folder / "cuda" / file).read_bytes())
        self.ok("cpu", "train", "--steps", "7", "--out", "both")
        self.ok("auto", "train", "--steps", "14", "--resume", "both")
        self.ok("cpu", "train", "--steps", "20", "--resume", "both")
        self.expect_close(self.log("both"), self.log("cpu"), 2e-5)

        # More texts than are generated together, of several lengths, some longer than a context.
        prompts = self.folder / "prompts.txt"
        prompts.write_text("First\nA\nBefore we proceed\nB\nhear me speak\n")
        texts = [self.ok(device, "generate", "--weights", "cuda", "--prompts", prompts, "--tokens", "12", "--json")
                 for device in ("cpu", "cuda")]
        texts = [[json.loads(line)["text"] for line in text.splitlines()] for text in texts]
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(len(texts[0]), 5)
        losses = [json.loads(self.ok(device, "eval", "--weights", "cuda", "--json"))["loss"]
                  for device in ("cpu", "cuda")]
        self.assertAlmostEqual(losses[0], losses[1], delta=1e-5)

    def test_candidates_alone_come_to_the_host(self):
        # As many characters as a GPU chooses among.
        text = "".join(chr(0x4E00 + i) for i in range(4100))
        (self.folder / "many.txt").write_text(text)
        tiny = (self.folder / "tiny.tfm").read_text()
        (self.folder / "many.tfm").write_text(tiny.replace("text.txt", "many.txt"))
        self.build("many", "layers=1", "generate.top_k=130", file="many.tfm")
        self.ok("cpu", "train", "--steps", "2", "--out", "many-run", name="many")
        # More than grow at a time, and one that slides.
        prompts = self.folder / "many-prompts.txt"
        prompts.write_text("\n".join([text[7:9], text[99], text[500:515], text[3000:3003]]) + "\n")

        def generate(*options, device="cuda", lines=prompts):
            reads = self.folder / "reads.txt"
            reads.unlink(missing_ok=True)
            said = self.ok(device, "generate", "--weights", "many-run", "--prompts", lines, "--tokens", "4", "--json",
                           "--seed", "5", *options, name="many", reads=reads)
            texts = [json.loads(line)["ids"] for line in said.splitlines()]
            return texts, [int(size) for size in reads.read_text().split()] if reads.exists() else []

        # Candidates of decode's three texts, of prefill's one, and after each token of verify; else whole rows.
        # Loading the weights reads some back, too.
        def of_logits(reads):
            return {size for size in reads if size in (row, 131 * 4, 3 * 131 * 4, 8 * 131 * 4)}

        row = 4100 * 4
        for options in (["--greedy"], ["--temperature", "1.2", "--top-p", "0.9", "--min-p", "0.001"]):
            with self.subTest(options=options):
                texts, reads = generate(*options)
                self.assertEqual([len(ids) for ids in texts], [4] * 4)
                self.assertEqual(of_logits(reads), {131 * 4, 3 * 131 * 4, 8 * 131 * 4})
                # Chances want all of a row: the same bits go through the whole of them.
                whole, reads = generate(*options, "--logprobs", "0")
                self.assertEqual(of_logits(reads), {row})
                self.assertEqual(whole, texts)
                self.assertEqual(generate(*options, device="cpu")[0], texts)
        # What candidates do not decide.
        one = self.folder / "one.txt"
        one.write_text(text[50:52] + "\n")
        for options in (["--temperature", "0.9", "--top-k", "131"], ["--greedy", "--repeat-penalty", "1.3"]):
            with self.subTest(options=options):
                texts, reads = generate(*options, lines=one)
                self.assertIn(row, reads)
                self.assertEqual(generate(*options, device="cpu", lines=one)[0], texts)
        # Looking ahead draws from candidates, too.
        alone = generate("--greedy", lines=one)[0]
        ahead, reads = generate("--greedy", "--lookahead", "4", lines=one)
        self.assertEqual(ahead, alone)
        self.assertNotIn(row, reads)

    def test_in_bf16(self):
        self.build("half", "train.precision=bf16")
        for device in ("cpu", "cuda"):
            self.ok(device, "train", "--steps", "4", "--out", f"half-{device}", name="half")
        self.expect_close(self.log("half-cuda"), self.log("half-cpu"), 1e-2)

    def test_what_it_is(self):
        text = self.ok("cuda", "info")
        self.assertRegex(text, r"Emulated GPU, compute capability 8\.0, 1\.0 GiB of memory, \d+\.\d KiB of it for this")
        info = json.loads(self.ok("cuda:0", "info", "--json"))
        self.assertEqual(info["device"], {"kind": "cuda", "number": 0, "name": "Emulated GPU",
                                          "compute_capability": "8.0", "multiprocessors": 1, "memory": 1 << 30,
                                          "takes": info["memory"]["arena"], "nccl": "2.21.5"})
        self.assertRegex(text, r"\n  NCCL             2\.21\.5\n")
        self.assertEqual([variant["chosen"] for variant in info["variants"]][0], True)

    def test_bench_and_profile(self):
        # Times mean nothing here; each kernel of each function has its own.
        bench = json.loads(self.ok("cuda", "bench", "--json", memory=8 << 20))
        self.assertEqual(bench["device"], "Emulated GPU")
        self.assertEqual(list(bench["functions"]),
                         ["train", "update", "evaluate", "forward", "prefill", "verify", "decode"])
        for function in bench["functions"].values():
            self.assertGreater(sum(kernel["milliseconds"] for kernel in function["kernels"]), 0)
        self.ok("cuda", "train", "--steps", "3", "--out", "profiled", "--profile", "trace.json")
        trace = json.loads((self.folder / "trace.json").read_text())["traceEvents"]
        kernels = [event for event in trace if event.get("cat") == "kernel"]
        self.assertEqual(len(kernels), 2 * sum(
            kernel["runs"] for name in ("train", "update") for kernel in bench["functions"][name]["kernels"]))

    def test_too_little_memory(self):
        # What is left is told, not what there is in all; where nobody asks for the GPU the processors do it.
        result = self.run_on("cuda", "train", "--steps", "1", "--out", "small", memory=100000)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"error: Tiny needs \d+\.\d KiB of memory, and Emulated GPU has 97\.7 KiB left "
                         r"of 97\.7 KiB: parameters, gradients and the optimizer's state alone take \d+\.\d KiB: build a "
                         r"smaller model; or run with --device cpu\n$")
        self.assertFalse((self.folder / "small").exists())
        # A little less than it takes: what of it may be less, to train and for all else.
        takes = json.loads(self.ok("cuda", "info", "--json"))["device"]["takes"]
        result = self.run_on("cuda", "train", "--steps", "1", "--out", "small", memory=takes - 256)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r": most of what may be less is (activations: build it with a smaller train\.batch"
                         r"|caches of the samples that it generates: build it with a shorter context)")
        run(self.folder / "tiny", "export", "--seed", "1", "-o", "drawn.safetensors", cwd=self.folder)
        result = self.run_on("cuda", "generate", "--weights", "drawn.safetensors", "--prompt", "a", memory=takes - 256)
        self.assertEqual(result.returncode, 1)
        self.assertIn(": some of it is for training alone: a build without the `train` block takes less; or run with "
                      "--device cpu\n", result.stderr)
        result = self.run_on("auto", "train", "--steps", "1", "--out", "small", memory=100000)
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"^note: no GPU is used: Emulated GPU has 97\.7 KiB of memory, and Tiny takes ")
        # The driver has as much, but does not give it: it gives multiples of 256 bytes.
        self.assertNotEqual(takes % 256, 0)
        result = self.run_on("auto", "train", "--steps", "1", "--out", "small", "--overwrite", memory=takes)
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr, "^note: no GPU is used: the driver of Emulated GPU does not give the .* that Tiny takes\n")
        # Another may do.
        result = self.run_on("auto", "train", "--steps", "1", "--out", "small", "--overwrite", memory=100000, count=2)
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"^note: no GPU is used \(the first one is looked at; --device cuda:1 is the next\): "
                         r"Emulated GPU has 97\.7 KiB of memory, and Tiny takes ")

    def test_info_of_a_gpu_that_does_not_run_it(self):
        result = self.run_on("cuda", "info", memory=100000)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"error: Tiny needs \d+\.\d KiB of memory, and Emulated GPU has 97\.7 KiB left ")
        self.assertEqual(self.run_on("cuda", "info", "--json", capability="7.5").returncode, 1)

    def test_too_old(self):
        result = self.run_on("cuda", "train", capability="7.5")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "error: the program has no code for Emulated GPU, which has compute capability "
                         "7.5 and not 8.0 or newer: run with --device cpu\n")

    def test_refused_kernels(self):
        result = self.run_on("cuda", "train", refusal="ptxas: line 7: no")
        self.assertEqual(result.returncode, 1)
        self.assertIn("error: the NVIDIA driver refuses the program's kernels: CUDA_ERROR_INVALID_PTX (no): run with "
                      "--device cpu\nptxas: line 7: no\n", result.stderr)
        # Where nobody asks for the GPU the processors do it, and the driver's words are told.
        result = self.run_on("auto", "train", "--steps", "1", "--out", "refused", refusal="ptxas: line 7: no")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stderr.startswith(
            "note: no GPU is used: the NVIDIA driver refuses the program's kernels: CUDA_ERROR_INVALID_PTX (no)\n"
            "ptxas: line 7: no\n"), result.stderr)

    def train_together(self, library, out, *arguments, count=2, libraries=EMULATED, **gpu):
        """Processes of a launcher, each with a GPU of its own."""
        compiler, launcher = MPI_LIBRARIES[library]
        made = tfmc("mpi", "--mpicc", compiler, "-o", self.folder / "libtfm_mpi.so")
        self.assertEqual(made.returncode, 0, made.stderr)
        environment = {**MPI_ENVIRONMENT, "LD_LIBRARY_PATH": str(libraries),
                       "TFM_EMULATED_KERNELS": str(self.folder / "shared.mlir"),
                       **{f"TFM_EMULATED_{key.upper()}": str(value) for key, value in gpu.items()}}
        return run(*launcher, count, self.folder / "shared", "train", "--device", "cuda", "--threads", "1",
                   "--out", out, *arguments, cwd=self.folder, environment=environment)

    def test_processes_with_a_gpu_each(self):
        self.build("shared", "train.accumulate=4", "train.checkpoint=every(2)")
        self.ok("cuda", "train", "--steps", "4", "--out", "alone", name="shared")
        for library, (compiler, launcher) in MPI_LIBRARIES.items():
            if not shutil.which(compiler) or not shutil.which(launcher[0]):
                self.skipTest(f"{library} is not installed")
            out = f"together-{launcher[0]}"
            result = self.train_together(library, out, "--steps", "3", count=4 if library == "MPICH" else 2)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("emulated GPU", result.stderr)
            # The library adds gradients up in an order of its own.
            self.expect_close(self.log(out), self.log("alone")[:3], 2e-5)
        # One process goes on with what several saved.
        self.ok("cuda", "train", "--steps", "4", "--resume", out, name="shared")
        self.expect_close(self.log(out), self.log("alone"), 2e-5)

    def test_processes_that_cannot(self):
        if not shutil.which("mpirun.openmpi"):
            self.skipTest("Open MPI is not installed")
        self.build("shared", "train.accumulate=4", "train.checkpoint=every(2)")
        result = self.train_together("Open MPI", "same", "--steps", "2", uuid=7)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"error: process 0 \(\S+\) and process 1 \(\S+\) have the same GPU: start a "
                         r"process for each GPU\n")
        # The others are out of reach after some updates; the last checkpoint is whole.
        result = self.train_together("Open MPI", "unreachable", "--steps", "20", nccl_calls=5)
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"error: process 0 \(\S+\): after step 2: NCCL cannot reach the GPUs of the others: "
                         r"remote process exited; the checkpoint of step 2 in unreachable is untouched")
        self.ok("cuda", "train", "--steps", "3", "--resume", "unreachable", name="shared")
        # Without a library that could be loaded.
        libraries = self.folder / "libraries"
        libraries.mkdir()
        (libraries / "libnccl.so.2").touch()
        (libraries / "libcuda.so.1").symlink_to(EMULATED / "libcuda.so.1")
        result = self.train_together("Open MPI", "without", "--steps", "2", libraries=libraries)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"GPUs of several processes exchange gradients by NCCL, and it cannot be "
                         r"loaded \(\S+libnccl\.so\.2: file too short\): install it")
        # Nobody asks for GPUs, and not all processes have one: none uses it.
        script = self.folder / "some.sh"
        nothing = self.folder / "nothing"
        nothing.mkdir()
        (nothing / "libcuda.so.1").touch()
        script.write_text(f"#!/bin/sh\n[ $OMPI_COMM_WORLD_RANK = 1 ] && export LD_LIBRARY_PATH={nothing}\n"
                          "exec ./shared train --threads 1 --steps 2 --out some $(eval echo \\$DEVICE$OMPI_COMM_WORLD_RANK)\n")
        script.chmod(0o755)
        _, launcher = MPI_LIBRARIES["Open MPI"]
        environment = {**MPI_ENVIRONMENT, "LD_LIBRARY_PATH": str(EMULATED), "TFM_EMULATED_KERNELS": str(self.folder / "shared.mlir")}
        result = run(*launcher, 2, script, cwd=self.folder, environment=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("note: no GPU is used: process 1 (", result.stderr)
        # Where one of them has named its own all are told.
        result = run(*launcher, 2, script, cwd=self.folder, environment={**environment, "DEVICE1": "--device=cpu"})
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"error: process 0 \(\S+\) computes on a GPU, and process 1 \(\S+\) does not: give all "
                         "of them the same --device\n")
        # In an order that NCCL does not know, nor does one GPU.
        self.build("shared", "train.accumulate=4", "train.sum=tree")
        result = self.run_on("auto", "train", "--steps", "2", "--out", "trees", name="shared")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("note: no GPU is used: with train.sum = tree processors train\n", result.stderr)
        result = self.run_on("cuda", "train", "--steps", "2", "--out", "none", name="shared")
        self.assertEqual(result.returncode, 1)
        self.assertIn("has no updates for a sum of gradients as a tree", result.stderr)
        result = self.train_together("Open MPI", "tree", "--steps", "2")
        self.assertEqual(result.returncode, 1)
        self.assertIn("has no updates for a sum of gradients as a tree: build it with -D train.sum=sequential, or run "
                      "with --device cpu", result.stderr)

    def test_a_device_that_is_lost(self):
        self.build("saves", "train.checkpoint=every(2)")
        result = self.run_on("cuda", "train", "--steps", "50", "--out", "lost", name="saves", launches=500)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"error: after step \d+: the NVIDIA driver cannot .* on Emulated GPU \(cuda:0\): "
                         r"CUDA_ERROR_LAUNCH_FAILED \(unspecified launch failure\); --device cpu runs without it; the checkpoint of step \d+ in lost is untouched: "
                         r"--resume lost goes on from it\n$")
        # Before anything was logged.
        result = self.run_on("cuda", "train", "--steps", "50", "--out", "lost-first", name="saves", launches=3)
        self.assertRegex(result.stderr, r"error: after step 0: .*; --device cpu runs without it; no checkpoint was saved: "
                         r"the same command begins anew\n$")
        # On what there is.
        result = self.run_on("cuda", "eval", "--weights", "lost", name="saves", launches=3)
        self.assertRegex(result.stderr, r"error: the NVIDIA driver cannot run .* on Emulated GPU \(cuda:0\): "
                         r"CUDA_ERROR_LAUNCH_FAILED \(unspecified launch failure\); --device cpu runs without it\n$")
        self.ok("cpu", "train", "--steps", "20", "--resume", "lost", name="saves")
        self.ok("cpu", "train", "--steps", "20", "--out", "whole", name="saves")
        self.expect_close(self.log("lost"), self.log("whole"), 2e-5)


if __name__ == "__main__":
    main()
