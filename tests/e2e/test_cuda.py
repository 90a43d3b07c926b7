"""Kernels of a GPU as far as they can be looked at without one: NVIDIA's assembler, where it is installed, takes
all of them, and finds registers and shared memory enough."""

import re
import shutil
import tempfile
import unittest
from pathlib import Path

from support import MODELS, ROOT, main, run, tfmc

PTXAS = shutil.which("ptxas")

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
    ("bench/gpt2_train.tfm", ["train.precision=bf16", "train.batch=8", "train.sequence=1024"]),
)


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

    def assemble(self, machine, ptx):
        result = run(PTXAS, f"-arch={machine}", "-v", ptx, "-o", ptx.with_suffix(".cubin"))
        self.assertEqual(result.returncode, 0, result.stderr)
        kernels = re.findall(r"Compiling entry function '(\w+)'", result.stderr)
        self.assertEqual(len(kernels), ptx.read_text().count(".visible .entry"))
        # Nothing that a kernel keeps in registers goes to memory.
        self.assertEqual(set(re.findall(r"(\d+) bytes spill stores", result.stderr)), {"0"})
        self.assertEqual(set(re.findall(r"(\d+) bytes stack frame", result.stderr)), {"0"})
        for shared in re.findall(r"(\d+) bytes smem", result.stderr):
            self.assertLessEqual(int(shared), SHARED)

    def test_no_program_yet(self):
        result = tfmc("build", MODELS / "addition.tfm", "--target", "cuda", "-o", "/dev/null/never")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "tfmc: error: this version compiles for `--target cpu` only\n")


if __name__ == "__main__":
    main()
