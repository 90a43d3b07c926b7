"""Every op of the dialect: described in TfmOps.td, and printed and read again by the
lit tests. The ops are those that mlir-tblgen finds, so a new one is asked for here."""

import json
import pathlib
import re
import subprocess
import unittest

from support import ROOT, main

LLVM = pathlib.Path("/usr/lib/llvm-22")
# How a lit test asks for the way through the generic form and back.
GENERIC = "tfm-opt %s --mlir-print-op-generic | tfm-opt | FileCheck %s"


def ops():
    """The records of TfmOps.td's ops, by name."""
    result = subprocess.run(
        [LLVM / "bin" / "llvm-tblgen", "--dump-json", "-I", LLVM / "include", "-I", ROOT,
         "-I", ROOT / "compiler" / "dialect", ROOT / "compiler" / "dialect" / "TfmOps.td"],
        check=True, capture_output=True, text=True)
    records = json.loads(result.stdout)
    found = {}
    for name in records["!instanceof"]["Op"]:
        record = records[name]
        if record["opDialect"]["def"] == "Tfm_Dialect":
            found[record["opName"]] = record
    return found


class Ops(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ops = ops()

    def test_there_are_ops(self):
        self.assertIn("matmul", self.ops)
        self.assertGreater(len(self.ops), 50)

    def test_every_op_has_summary_description_and_example(self):
        for name, record in self.ops.items():
            with self.subTest(op=name):
                self.assertTrue(record["summary"].strip())
                text, _, rest = record["description"].partition("Example:")
                # More than a word, and before the example.
                self.assertGreater(len(text.split()), 5)
                example = re.search(r"```mlir\n(.*?)```", rest, re.DOTALL)
                self.assertTrue(example)
                self.assertRegex(example[1], rf"tfm\.{name}\b(?!\.)")

    def test_every_op_survives_the_generic_form(self):
        checked = set()
        for path in (ROOT / "tests" / "lit" / "dialect").glob("*.mlir"):
            text = path.read_text()
            if GENERIC not in text:
                continue
            for line in re.findall(r"^\s*// CHECK(?:-\w+)?: (.*)$", text, re.MULTILINE):
                checked.update(re.findall(r"(?<![\w%])tfm\.(\w+)", line))
        self.assertEqual(set(self.ops) - checked, set())


if __name__ == "__main__":
    main()
