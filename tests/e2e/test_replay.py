#!/usr/bin/env python3
"""Launches that are recorded in the emulator, repeated through a driver: here the emulator's, which does the same to
the bit (tests/emulator/replay.py; docs/gpu.md)."""

import json
import re
import sys
import tempfile
import unittest
from pathlib import Path

from support import BUILD, ROOT, main, run

REPLAY = ROOT / "tests" / "emulator" / "replay.py"


class Replay(unittest.TestCase):
    def test_what_was_recorded_is_repeated(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            for program, tests in (("cuda_top_k_test", "*/64Of1x257"),
                                   ("cuda_product_test", "CudaRowProduct.*:*AreRightForBatches/64By128")):
                result = run(BUILD / "tests" / program, f"--gtest_filter={tests}",
                             environment={"TFM_RECORD_LAUNCHES": str(folder)})
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            machines = [json.loads(path.read_text())["ptx"].split(".")[1] for path in folder.glob("*.json")]
            count, hopper = len(machines), machines.count("sm_90a")
            self.assertGreater(hopper, 0)
            self.assertGreater(count, hopper)
            result = self.replay(folder)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertIn(f"{count} the same, 0 close, 0 wrong, 0 failed, 0 hanging, 0 not of this GPU", result.stdout)
            result = self.replay(folder, "8.0")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertIn(f"{count - hopper} the same, 0 close, 0 wrong, 0 failed, 0 hanging, {hopper} not of this GPU",
                          result.stdout)

            # A kernel that fails takes what its process has, and no other one: here the second of each.
            result = self.replay(folder, launches=1)
            self.assertEqual(result.returncode, 1)
            same, failed = (self.number(result, what) for what in ("the same", "failed"))
            self.assertEqual(same + failed, count)
            self.assertLessEqual(failed, same)
            self.assertEqual(sum(line.startswith("FAILED") for line in result.stdout.splitlines()), failed)
            self.assertGreater(failed, 0)
            # So does one that does not end, and what all GPUs run comes first.
            result = self.replay(folder, arguments=("--timeout", "1e-6"))
            self.assertEqual(result.returncode, 1)
            same, hanging = (self.number(result, what) for what in ("the same", "hanging"))
            self.assertEqual(same + hanging, count)
            hangs = [".sm_90a." in line for line in result.stdout.splitlines() if line.startswith("HANGS")]
            self.assertEqual(len(hangs), hanging)
            self.assertEqual(hangs, sorted(hangs))
            self.assertTrue(hangs[-1])

            # Another result than the recorded one is told.
            data = sorted(folder.glob("*.bin"))[0]
            data.write_bytes(data.read_bytes()[:-4] + b"\x12\x34\x56\x78")
            result = self.replay(folder)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"WRONG  {data.stem}", result.stdout)
            self.assertIn(f"{count - 1} the same, 0 close, 1 wrong", result.stdout)

    def test_a_folder_without_launches(self):
        with tempfile.TemporaryDirectory() as folder:
            result = self.replay(Path(folder))
            self.assertEqual(result.returncode, 1)
            self.assertIn("there are no launches in", result.stderr)

    @staticmethod
    def number(result, what):
        return int(re.search(rf"(\d+) {what}", result.stdout)[1])

    def replay(self, folder, capability="9.0", arguments=(), **gpu):
        environment = {f"TFM_EMULATED_{name.upper()}": str(value) for name, value in gpu.items()}
        return run(sys.executable, REPLAY, folder, *arguments,
                   environment={"LD_LIBRARY_PATH": str(BUILD / "emulated"), "TFM_EMULATED_CAPABILITY": capability,
                                **environment})


if __name__ == "__main__":
    main()
