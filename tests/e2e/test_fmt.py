"""tfmc fmt: shipped files are formatted; files are replaced whole or not at all."""

import pathlib
import re
import stat
import subprocess
import tempfile
import unittest

from support import FIXTURES, ROOT, TFMC, USAGE, main, tfmc

UGLY = "module  M( n=3 ){ // why\n a=n+1\n\n\n long = 2\n}\n"
NEAT = "module M(n = 3) {  // why\n  a = n + 1\n\n  long = 2\n}\n"


class Shipped(unittest.TestCase):
    def test_every_model_is_formatted(self):
        files = [path for folder in (ROOT / "models", ROOT / "compiler" / "std", FIXTURES,
                                     ROOT / "tests" / "e2e" / "models")
                 for path in sorted(folder.rglob("*.tfm"))]
        self.assertGreater(len(files), 15)
        result = tfmc("fmt", "--check", *files)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_examples_of_the_documents_are_formatted(self):
        whole = 0
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
            for text in re.findall(r"^```tfm\n(.*?)^```", page.read_text(), re.M | re.S):
                result = tfmc("fmt", "-", stdin=text)
                # Parts of a file are no file.
                if result.returncode == 0:
                    whole += 1
                    self.assertEqual(result.stdout, text, page)
        self.assertGreater(whole, 12)

    def test_new_files_are_formatted(self):
        for like in ("gpt2", "llama"):
            with tempfile.TemporaryDirectory() as folder:
                name = "a_name_that_is_so_long_that_the_first_line_has_to_be_broken"
                self.assertEqual(tfmc("new", name, "--like", like, cwd=folder).returncode, 0)
                result = tfmc("fmt", "--check", name + ".tfm", cwd=folder)
                self.assertEqual((result.returncode, result.stderr), (0, ""))


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "m.tfm"
        self.file.write_text(UGLY)

    def test_in_place(self):
        self.file.chmod(0o640)
        result = tfmc("fmt", self.file)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        self.assertEqual(self.file.read_text(), NEAT)
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o640)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["m.tfm"])

    def test_a_formatted_file_is_not_touched(self):
        self.file.write_text(NEAT)
        before = self.file.stat()
        self.assertEqual(tfmc("fmt", self.file).returncode, 0)
        after = self.file.stat()
        self.assertEqual((before.st_ino, before.st_mtime_ns), (after.st_ino, after.st_mtime_ns))

    def test_behind_a_link(self):
        link = self.folder / "link.tfm"
        link.symlink_to(self.file)
        self.assertEqual(tfmc("fmt", link).returncode, 0)
        self.assertTrue(link.is_symlink())
        self.assertEqual(self.file.read_text(), NEAT)

    def test_standard_input(self):
        result = tfmc("fmt", "-", stdin=UGLY)
        self.assertEqual((result.returncode, result.stdout), (0, NEAT))

    def test_check_changes_nothing(self):
        result = tfmc("fmt", "--check", self.file)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn(f"{self.file} is not formatted", result.stderr)
        self.assertEqual(self.file.read_text(), UGLY)

    def test_several_files_one_of_them_wrong(self):
        wrong = self.folder / "wrong.tfm"
        wrong.write_text("module {")
        result = tfmc("fmt", wrong, self.folder / "none.tfm", self.folder, self.file)
        self.assertEqual(result.returncode, 1)
        self.assertIn("error[E0110]", result.stderr)
        self.assertIn(f"cannot read {self.folder / 'none.tfm'}: No such file", result.stderr)
        self.assertIn(f"cannot read {self.folder}: Is a directory", result.stderr)
        self.assertEqual(wrong.read_text(), "module {")
        self.assertEqual(self.file.read_text(), NEAT)

    def test_a_disk_that_is_full(self):
        # Files may grow to no byte at all.
        script = f"ulimit -f 0; trap '' XFSZ; exec {TFMC} fmt {self.file}"
        result = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("cannot write", result.stderr)
        self.assertEqual(self.file.read_text(), UGLY)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["m.tfm"])

    def test_no_file(self):
        self.assertEqual(tfmc("fmt").returncode, USAGE)


if __name__ == "__main__":
    main()
