"""Kernels of a GPU as far as they can be looked at without one: NVIDIA's assembler, where it is installed, takes
all of them, and finds registers and shared memory enough."""

import re
import shutil
import tempfile
import unittest
from pathlib import Path

from support import MODELS, main, run, tfmc

PTXAS = shutil.which("ptxas")

# Of a block of all GPUs, without asking for more.
SHARED = 48 * 1024


class Ptx(unittest.TestCase):
    @unittest.skipUnless(PTXAS, "there is no ptxas")
    def test_the_assembler_takes_all_kernels(self):
        for model in ("shakespeare", "llama"):
            with self.subTest(model=model), tempfile.TemporaryDirectory() as folder:
                ptx = Path(folder) / "kernels.ptx"
                result = tfmc("build", MODELS / f"{model}.tfm", "--target", "cuda", "--emit", "asm", "-o", ptx)
                self.assertEqual(result.returncode, 0, result.stderr)
                result = run(PTXAS, "-arch=sm_80", "-v", ptx, "-o", Path(folder) / "kernels.cubin")
                self.assertEqual(result.returncode, 0, result.stderr)
                kernels = re.findall(r"Compiling entry function '(\w+)'", result.stderr)
                self.assertEqual(len(kernels), ptx.read_text().count(".visible .entry"))
                # Nothing that a kernel keeps in registers goes to memory.
                self.assertEqual(set(re.findall(r"(\d+) bytes spill stores", result.stderr)), {"0"})
                for shared in re.findall(r"(\d+) bytes smem", result.stderr):
                    self.assertLessEqual(int(shared), SHARED)

    def test_no_program_yet(self):
        result = tfmc("build", MODELS / "addition.tfm", "--target", "cuda", "-o", "/dev/null/never")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "tfmc: error: this version compiles for `--target cpu` only\n")


if __name__ == "__main__":
    main()
