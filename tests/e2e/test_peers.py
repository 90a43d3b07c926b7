"""The scripts of tests/peers, where the programs that they compare with are installed."""

import importlib.util
import sys
import unittest

from support import ROOT, main, run

PEERS = ROOT / "tests" / "peers"
# Found, not imported: that takes seconds.
MISSING = [package for package in ("torch", "transformers", "safetensors")
           if importlib.util.find_spec(package) is None]


class Peers(unittest.TestCase):
    @unittest.skipIf(MISSING, f"without {', '.join(MISSING)}")
    def test_transformers_reads_our_weights_and_we_read_its(self):
        result = run(sys.executable, PEERS / "transformers_round_trip.py")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        # Both ways, for both models.
        for name in ("gpt2", "llama"):
            self.assertRegex(result.stdout, rf"{name}, trained here: logits differ by")
            self.assertRegex(result.stdout, rf"{name}, \d+ shards saved there: logits differ by")

    @unittest.skipIf(MISSING, f"without {', '.join(MISSING)}")
    def test_transformers_reads_what_we_export_of_every_family(self):
        result = run(sys.executable, PEERS / "transformers_families.py")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertGreaterEqual(result.stdout.count("logits differ by"), 35)


if __name__ == "__main__":
    main()
