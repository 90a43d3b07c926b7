"""Every command of docs/tutorial.md, in its order, in a folder with a small model and a text."""

import json
import os
import pathlib
import re
import shutil
import tempfile
import unittest

from support import FIXTURES, MODELS, ROOT, TFMC, main, run

# What the model of 40 tokens knows.
ALPHABET = "abcdefghijklmnopqrstuvwxyz \n.,;:!?'-&3KL"


class Tutorial(unittest.TestCase):
    def test_every_command(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder, "model")
            shutil.copytree(FIXTURES / "families" / "llama", model)
            (model / "tokenizer.json").write_text(json.dumps({
                "pre_tokenizer": {"type": "Split", "pattern": {"Regex": ""}, "behavior": "Isolated", "invert": False},
                "decoder": {"type": "Fuse"},
                "model": {"type": "WordLevel", "unk_token": "?",
                          "vocab": {letter: i for i, letter in enumerate(ALPHABET)}}}))
            text = (MODELS / "tinyshakespeare.txt").read_text()[:20000].lower()
            pathlib.Path(folder, "input.txt").write_text("".join(c for c in text if c in ALPHABET))
            blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "tutorial.md").read_text(), re.S)
            self.assertGreater(len(blocks), 7)
            environment = {"PATH": f"{TFMC.parent}:{os.environ['PATH']}", "HOME": folder,
                           "XDG_CACHE_HOME": os.path.join(folder, "cache")}
            words = ["env", *(f"{name}={value}" for name, value in environment.items()), "bash", "-ec"]
            texts = []
            for block in blocks:
                # What is shown to fail has to.
                block = re.sub(r"^! (.*)$", r"if \1; then exit 9; fi", block, flags=re.M)
                result = run(*words, block, cwd=folder)
                self.assertEqual(result.returncode, 0, f"{block}\n{result.stdout}\n{result.stderr}")
                texts.append(result.stdout)
            # One command and its steps give the same text; of the run it is another one.
            self.assertIn("the king", texts[0])
            self.assertIn("agrees", texts[1])
            self.assertIn("parameters", texts[4])
            exported = json.loads(pathlib.Path(folder, "tuned-model", "config.json").read_text())
            self.assertEqual(exported, dict(json.loads((model / "config.json").read_text()), dtype="float32"))
            self.assertNotEqual(texts[0], texts[-1])


if __name__ == "__main__":
    main()
