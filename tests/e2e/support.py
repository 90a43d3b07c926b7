"""What the end-to-end tests share: the programs under test, and a `main` that
runs a file's unittest cases and writes their counts for scripts/run_tests.py.

Every test file can be run by itself: `python3 tests/e2e/test_report.py`.
"""

import json
import os
import pathlib
import resource
import signal
import struct
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("TFM_BUILD", ROOT / "build" / "release"))
TFMC = BUILD / "bin" / "tfmc"
MODELS = ROOT / "models"
FIXTURES = ROOT / "tests" / "fixtures"

USAGE = 2

# Whoever runs the tests in the background may ignore Ctrl-C, and so would the programs.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Each library's compiler and launcher. Processes have a thread each, and may be more than processors.
MPI_LIBRARIES = {
    "Open MPI": ("mpicc.openmpi", ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-np"]),
    "MPICH": ("mpicc.mpich", ["mpiexec.hydra", "-n"]),
}
if "I_MPI_ROOT" in os.environ: # as Intel's own scripts set it
    INTEL = os.path.join(os.environ["I_MPI_ROOT"], "bin")
    MPI_LIBRARIES["Intel MPI"] = (f"{INTEL}/mpicc", [f"{INTEL}/mpiexec.hydra", "-n"])
# Open MPI asks root whether it means it.
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def run(*command, stdin="", cwd=None, timeout=300, environment=None, file_bytes=None):
    """Runs a program to its end; returns what `subprocess.run` does, as text. Its standard input is a text, or a file.
    With `file_bytes` no file that it writes can have more."""
    limit = file_bytes and (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes)))
    source = {"input": stdin} if isinstance(stdin, str) else {"stdin": stdin}
    return subprocess.run([str(part) for part in command], cwd=cwd, text=True,
                          capture_output=True, timeout=timeout, check=False, preexec_fn=limit,
                          env=dict(os.environ, NO_COLOR="1", **(environment or {})), **source)


def tfmc(*arguments, **options):
    return run(TFMC, *arguments, **options)


# What `struct` calls the types of arrays.
FORMATS = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "I32": "i", "I16": "h", "I8": "b", "U16": "H", "U8": "B",
           "BOOL": "?"}


def save_arrays(path, arrays):
    """Writes a safetensors file: of each array its dtype, shape and values, row by row."""
    header, data = {}, b""
    for name, (dtype, shape, values) in arrays.items():
        raw = struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def load_arrays(path):
    """The arrays of a safetensors file, as `save_arrays` takes them."""
    raw = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    header.pop("__metadata__", None)
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        part = raw[8 + length + begin:8 + length + end]
        form = FORMATS[entry["dtype"]]
        arrays[name] = (entry["dtype"], entry["shape"],
                        list(struct.unpack(f"<{len(part) // struct.calcsize(form)}{form}", part)))
    return arrays


class InFolder(unittest.TestCase):
    """Tests that share a folder, which goes with them."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tfm-e2e-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder, *names)

    def build(self, name, text, *defines):
        """A program of the model that `text` is, in the folder."""
        with open(self.path(f"{name}.tfm"), "w", encoding="utf-8") as file:
            file.write(text)
        result = tfmc("build", f"{name}.tfm", "-o", name, *defines, cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.path(name)

    def ok(self, *command):
        result = run(*command, cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result


def main():
    """unittest's main, with the counts in the file that TFM_TEST_RESULTS names."""
    result = unittest.main(exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    skipped = len(result.skipped)
    # An error in setUpClass stands for tests that did not run.
    passed = max(0, result.testsRun - failed - skipped)
    if "TFM_TEST_RESULTS" in os.environ:
        with open(os.environ["TFM_TEST_RESULTS"], "w", encoding="utf-8") as file:
            json.dump({"passed": passed, "failed": failed, "skipped": skipped}, file)
    raise SystemExit(0 if result.wasSuccessful() else 1)
