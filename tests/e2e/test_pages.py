"""tfmc report --format html and tfmc plot: one file each, with the right numbers in it."""

import base64
import json
import math
import pathlib
import re
import struct
import tempfile
import unittest

from support import MODELS, USAGE, main, tfmc

GPT2 = MODELS / "gpt2.tfm"
ENCODING = MODELS / "cs444" / "positional_encoding.tfm"


def data_of(page):
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(text.group(1))


class Page(unittest.TestCase):
    def assert_stands_alone(self, page):
        self.assertTrue(page.startswith("<!DOCTYPE html>"))
        self.assertIn("default-src 'none'", page)
        self.assertNotIn("{{", re.sub(r"<script.*?</script>", "", page, flags=re.S))
        # The name space of SVG is no address that anything is loaded from.
        self.assertEqual(set(re.findall(r"https?://[^\"]*", page)), {"http://www.w3.org/2000/svg"})
        self.assertNotRegex(page, r"<(link|img|iframe)|src=|@import|url\(|fetch\(|XMLHttp")

    def report(self, *arguments):
        result = tfmc("report", *arguments, "--format", "html")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_stands_alone(result.stdout)
        return data_of(result.stdout)


class Report(Page):
    def test_the_numbers_are_those_of_the_report(self):
        page = self.report(GPT2)
        report = json.loads(tfmc("report", GPT2, "--memory", "--format", "json").stdout)
        self.assertEqual(page["total"], 124439808)
        self.assertEqual(page["formula"], report["parameters"]["formula"])
        self.assertEqual(page["flops"]["perToken"], report["flops"]["forward_per_token"])
        self.assertEqual(page["memory"]["arena"], report["memory"]["arena"])
        root = page["modules"][0]
        below = [module for module in page["modules"] if module["parent"] == 0]
        self.assertEqual(sum(module["parameters"] for module in below) + root["own"], 124439808)
        self.assertEqual(sum(tensor["count"] for tensor in page["tensors"]), 148)

    def test_the_page_does_not_grow_with_the_depth(self):
        sizes = [len(tfmc("report", GPT2, "-D", f"layers={n}", "--format", "html").stdout)
                 for n in (12, 96)]
        self.assertLess(abs(sizes[1] - sizes[0]), 500)

    def test_phases_fit_the_arena(self):
        memory = self.report(MODELS / "shakespeare.tfm")["memory"]
        self.assertEqual([phase["name"] for phase in memory["phases"]],
                         ["train", "update", "evaluate", "forward", "prefill", "decode"])
        most = 0
        for phase in memory["phases"]:
            self.assertGreaterEqual(phase["activations"], max(phase["live"]))
            most = max(most, phase["activations"])
        kept = sum(-(-memory[name] // 64) * 64
                   for name in ("parameters", "gradients", "constants", "cache"))
        kept += memory["optimizer"]
        self.assertLessEqual(abs(memory["arena"] - kept - most), 128)

    def test_a_positional_encoding_is_a_picture(self):
        constant, = self.report(ENCODING, "-D", "width=100", "-D", "context=50")["constants"]
        self.assertEqual((constant["height"], constant["width"]), (50, 100))
        self.assertEqual(constant["indices"], ["t", "j"])
        self.assertEqual(constant["dims"], ["context", "width"])
        values = struct.unpack("<5000f", base64.b64decode(constant["data"]))
        for t in (0, 1, 49):
            for j in (0, 1, 50, 99):
                angle = t / 10000 ** ((j - j % 2) / 100)
                expected = math.cos(angle) if j % 2 else math.sin(angle)
                self.assertAlmostEqual(values[t * 100 + j], expected, places=6)

    def test_large_constants_become_means(self):
        text = ("model M(n = 3000) {\n  const c[i: 2, j: n] = j\n"
                "  forward(x: [B, 2, n]) -> [B, 2, n] { return x + c }\n}\n")
        result = tfmc("report", "-", "--format", "html", stdin=text)
        constant, = data_of(result.stdout)["constants"]
        self.assertEqual((constant["height"], constant["width"], constant["blockColumns"]),
                         (2, 1000, 3))
        values = struct.unpack("<2000f", base64.b64decode(constant["data"]))
        self.assertEqual(values[:3], (1.0, 4.0, 7.0))

    def test_names_cannot_leave_the_data(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "<script>{{title}}&.tfm"
            path.write_text("model M(n = 3, s = \"<b>\") {\n  param w: [n] = ones\n"
                            "  forward(x: [B, n]) -> [B, n] { return x * w }\n}\n")
            page = self.report(path)
        self.assertEqual(page["source"], str(path))
        self.assertEqual(page["hyperparameters"][1], ["s", "<b>"])


class Plot(Page):
    STEP = '{"step":%d,"loss":%g,"lr":0.001,"grad_norm":1.5,"tokens":%d}\n'

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_folder = self.folder / "poem"
        self.run_folder.mkdir()
        self.log = self.run_folder / "log.jsonl"
        self.log.write_text("".join(self.STEP % (i, 4 / i, 768 * i) for i in range(1, 101))
                            + '{"step":100,"validation_loss":0.5,"seconds":2.5}\n'
                            + '{"step":100,"prompt":"A","sample":"B</script>"}\n')

    def test_a_run(self):
        page = self.folder / "loss.html"
        result = tfmc("plot", self.run_folder, "-o", page)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        self.assert_stands_alone(page.read_text())
        run, = data_of(page.read_text())["runs"]
        self.assertEqual((run["name"], run["steps"], run["tokens"]), ("poem", 100, 76800))
        self.assertEqual(run["points"][1][:2], [2, 2])
        self.assertEqual(run["validations"], [[100, 0.5, 2.5, None, None]])
        self.assertEqual(run["samples"][0]["text"], "B</script>")

    def test_many_steps_become_means(self):
        self.log.write_text("".join(self.STEP % (i, i, i) for i in range(1, 10001)))
        run, = data_of(tfmc("plot", self.log, "-o", "-").stdout)["runs"]
        self.assertEqual((run["block"], len(run["points"])), (3, 3334))
        self.assertEqual(run["points"][0][:2], [3, 2])

    def test_a_run_that_goes_on(self):
        self.log.write_text(self.STEP % (1, 2, 3) + '{"step":2,"lo')
        run, = data_of(tfmc("plot", self.log, "-o", "-").stdout)["runs"]
        self.assertEqual(run["steps"], 1)

    def assert_fault(self, path, *words):
        result = tfmc("plot", self.run_folder, path, "-o", self.folder / "x.html")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertFalse((self.folder / "x.html").exists())

    def test_what_is_no_log(self):
        self.assert_fault(self.folder / "none", "none", "No such file")
        self.assert_fault(self.folder, str(self.folder), "has no log.jsonl")
        other = self.folder / "other.jsonl"
        other.write_text('{"step":1,"loss":2}\nnonsense\n')
        self.assert_fault(other, "other.jsonl:2:", "no line of a training log")
        other.write_text("")
        self.assert_fault(other, "no step yet")

    def test_usage(self):
        self.assertEqual(tfmc("plot", "-o", "x.html").returncode, USAGE)
        self.assertEqual(tfmc("plot", self.run_folder).returncode, USAGE)


if __name__ == "__main__":
    main()
