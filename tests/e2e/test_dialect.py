"""Every op of the dialects: described in TfmOps.td or SchedOps.td, and printed and read
again by the lit tests. The ops are those that mlir-tblgen finds, so a new one is asked
for here."""

import json
import pathlib
import re
import subprocess
import unittest

from support import ROOT, main

LLVM = pathlib.Path("/usr/lib/llvm-22")
# How a lit test asks for the way through the generic form and back.
GENERIC = "tfm-opt %s --mlir-print-op-generic | tfm-opt | FileCheck %s"


# The dialects: their definitions, their lit tests, and at least so many ops.
DIALECTS = {
    "tfm": (ROOT / "compiler" / "dialect" / "TfmOps.td", ROOT / "tests" / "lit" / "dialect", 50),
    "sched": (ROOT / "compiler" / "schedule" / "SchedOps.td", ROOT / "tests" / "lit" / "schedule",
              15),
}


def ops(definitions, dialect):
    """The records of a dialect's ops, by name."""
    result = subprocess.run(
        [LLVM / "bin" / "llvm-tblgen", "--dump-json", "-I", LLVM / "include", "-I", ROOT,
         "-I", definitions.parent, definitions],
        check=True, capture_output=True, text=True)
    records = json.loads(result.stdout)
    found = {}
    for name in records["!instanceof"]["Op"]:
        record = records[name]
        if record["opDialect"]["def"] == f"{dialect.capitalize()}_Dialect":
            found[record["opName"]] = record
    return found


class Ops(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ops = {dialect: ops(definitions, dialect)
                   for dialect, (definitions, _, _) in DIALECTS.items()}

    def test_there_are_ops(self):
        self.assertIn("matmul", self.ops["tfm"])
        self.assertIn("launch", self.ops["sched"])
        for dialect, (_, _, least) in DIALECTS.items():
            self.assertGreaterEqual(len(self.ops[dialect]), least)

    def test_every_op_has_summary_description_and_example(self):
        for dialect, found in self.ops.items():
            for name, record in found.items():
                with self.subTest(op=f"{dialect}.{name}"):
                    self.assertTrue(record["summary"].strip())
                    text, _, rest = record["description"].partition("Example:")
                    # More than a word, and before the example.
                    self.assertGreater(len(text.split()), 5)
                    example = re.search(r"```mlir\n(.*?)```", rest, re.DOTALL)
                    self.assertTrue(example)
                    self.assertRegex(example[1], rf"{dialect}\.{name}\b(?!\.)")

    def test_every_op_survives_the_generic_form(self):
        for dialect, (_, folder, _) in DIALECTS.items():
            checked = set()
            for path in folder.glob("*.mlir"):
                text = path.read_text()
                if GENERIC not in text:
                    continue
                for line in re.findall(r"^\s*// CHECK(?:-\w+)?: (.*)$", text, re.MULTILINE):
                    checked.update(re.findall(rf"(?<![\w%]){dialect}\.(\w+)", line))
            self.assertEqual(set(self.ops[dialect]) - checked, set(), dialect)


if __name__ == "__main__":
    main()
