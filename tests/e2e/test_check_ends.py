"""`tfmc check` ends with 0 or 1, whatever the file or the values of its
hyperparameters.

TFM_GENERATED=10000 says how many files are generated, TFM_CHECK_SECONDS how many
seconds each may take, of the processor: a busy machine makes a command wait, and
that is none of its doing. What is slowest is shown.
"""

import concurrent.futures
import json
import math
import os
import pathlib
import resource
import subprocess
import tempfile
import threading
import unittest

from random_tfm import random_file
from support import BUILD, FIXTURES, MODELS, ROOT, TFMC, main, tfmc

GENERATED = int(os.environ.get("TFM_GENERATED", "500"))
# Sanitizers take their share.
SECONDS = float(os.environ.get("TFM_CHECK_SECONDS", "2" if BUILD.name == "release" else "20"))
# On the clock, for one that waits for something and takes none.
PATIENCE = 30 * SECONDS
VALUES = ["-1", "0", "1", "2**31", "2**63 - 1", "1e-308"]
TOO_SMALL = ["-1", "0", "1e-308"]


def check(file, *arguments):
    """The exit status (None: it did not end in time), standard error, seconds."""
    process = subprocess.Popen([TFMC, "check", file, *arguments], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               env=dict(os.environ, NO_COLOR="1"))
    limit = math.ceil(SECONDS)
    resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit, limit))
    patience = threading.Timer(PATIENCE, process.kill)
    patience.start()
    with process.stderr:
        message = process.stderr.read().decode(errors="replace")
    # It is not waited for by `subprocess`, which does not tell its time.
    _, status, usage = os.wait4(process.pid, 0)
    patience.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = usage.ru_utime + usage.ru_stime
    in_time = seconds <= SECONDS and process.returncode != -9
    return process.returncode if in_time else None, message, seconds


class CheckEnds(unittest.TestCase):
    def check_all(self, commands):
        """Runs `tfmc check` with each tuple of arguments; returns the answers."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            answers = list(pool.map(lambda command: check(*command), commands))
        bad = [(command, status, message[:500]) for command, (status, message, _) in zip(commands, answers)
               if status not in (0, 1)]
        self.assertEqual(bad, [])
        seconds, slowest = max((answer[2], command) for command, answer in zip(commands, answers))
        valid = sum(status == 0 for status, _, _ in answers)
        print(f"{len(commands)} files, {valid} of them right; the slowest took {seconds:.2f} s of CPU time: {slowest[0]}")
        return answers

    def test_files_that_are_imported_by_many_ways(self):
        """2 ** 40 of them."""
        with tempfile.TemporaryDirectory(prefix="tfm-e2e-") as name:
            folder = pathlib.Path(name)
            module = "module {0}(width) {{\n  forward(x: [B, width]) -> [B, width] {{ return x }}\n}}\n"
            for level in range(40):
                imports = f'import "a{level + 1}.tfm"\nimport "b{level + 1}.tfm"\n' if level < 39 else ""
                for side in "ab":
                    (folder / f"{side}{level}.tfm").write_text(imports + module.format(f"{side.upper()}{level}"))
            (folder / "m.tfm").write_text(
                'import "a0.tfm"\nimport "b0.tfm"\nmodel M(vocab = 5) {\n  wte = Embedding(vocab, 4)\n  last = A39(4)\n'
                "  forward(tokens: int[B, T]) -> [B, T, vocab] { return wte(tokens) @ wte.weight.T }\n}\n")
            self.assertEqual(check(folder / "m.tfm")[0], 0)

    def test_every_hyperparameter_of_every_model(self):
        commands, names = [], []
        for file in sorted([*MODELS.glob("*.tfm"), *MODELS.glob("cs444/*.tfm"), *FIXTURES.glob("models/*.tfm")]):
            report = tfmc("report", file, "--format", "json")
            if "no model" in report.stderr:
                continue
            self.assertEqual(report.returncode, 0, report.stderr)
            for name in json.loads(report.stdout)["hyperparameters"]:
                for value in VALUES:
                    commands.append((file, "-D", f"{name}={value}"))
                    names.append(name)
        self.assertGreater(len(commands), 900)
        for command, name, (status, message, _) in zip(commands, names, self.check_all(commands)):
            value = command[2].split("=")[1]
            # No model takes a context that is none, whether or not a table has so many rows.
            if name == "context" and value in TOO_SMALL:
                self.assertEqual(status, 1, command)
            if status == 1:
                self.assertIn(name, message, command)

    def test_a_default_is_refused_like_a_value_of_the_command_line(self):
        llama = (FIXTURES / "models" / "qwen2.tfm").read_text()
        self.assertIn("context = 32768", llama)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "own.tfm"
            for value, code in ("-1", "E0213"), ("0", "E0213"), ("1e-308", "E0704"), ("64.0", "E0704"):
                file.write_text(llama.replace("context = 32768", f"context = {value}"))
                status, message, _ = check(file)
                self.assertEqual(status, 1, value)
                self.assertIn(f"error[{code}]: the length T of the model's texts is", message)

    def test_every_file_of_the_corpora(self):
        files = sorted(path for path in (ROOT / "tests" / "fuzz").glob("*/corpus/**/*") if path.is_file())
        self.assertGreater(len(files), 50)
        self.check_all([(file,) for file in files])

    def test_generated_files(self):
        with tempfile.TemporaryDirectory() as folder:
            commands = []
            for seed in range(GENERATED):
                file = pathlib.Path(folder) / f"{seed}.tfm"
                file.write_text(random_file(seed))
                commands.append((file,))
            answers = self.check_all(commands)
        # Files of which every one is wrong would not go far.
        self.assertGreater(sum(status == 0 for status, _, _ in answers), GENERATED / 10)

    def test_a_file_that_does_not_end(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "endless.tfm"
            file.write_text('import "/dev/zero"\nmodel M(w = 1) { forward(x: [B, w]) -> [B, w] { return x } }\n')
            status, message, _ = check(file)
            self.assertEqual(status, 1)
            self.assertIn("cannot read `/dev/zero`", message)

    def test_many_members_in_the_first_column(self):
        """Each of which could be the next item, were a `}` missing."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "members.tfm"
            members = "".join(f"const c{i}[i: n] = i\n" for i in range(30000))
            file.write_text("model M(n = 3) {\n" + members + "forward(x: [B, n]) -> [B, n] { return x }\n}\n")
            self.check_all([(file,)])

    def test_a_grid_with_too_many_points(self):
        values = ",".join(map(str, range(1, 200)))
        result = tfmc("report", MODELS / "gpt2.tfm", "--sweep", f"width={values}", "--sweep", f"vocab={values}")
        self.assertEqual(result.returncode, 2)
        self.assertIn("the grid has more than 10000 points", result.stderr)


if __name__ == "__main__":
    main()
