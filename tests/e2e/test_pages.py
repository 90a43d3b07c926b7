"""tfmc report --format html and tfmc plot: one file each, with the right numbers in it."""

import base64
import json
import math
import pathlib
import re
import shutil
import struct
import subprocess
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
        flops = page["flops"]
        self.assertEqual(flops["perToken"], report["flops"]["forward_per_token"])
        # The bars below that number add up to it; it is rounded down.
        self.assertEqual(int(sum(count for _, count in flops["forward"])), flops["perToken"])
        self.assertEqual(flops["tokens"], 1024)
        width = next(entry for entry in page["sensitivities"] if entry["name"] == "width")
        self.assertGreater(width["one_more"], width["derivative"])
        roles = {(value["name"], value["role"]) for value in page["values"]}
        self.assertIn(("h.*.attn.x", "argument"), roles)
        for field in ("arena", "types"):
            self.assertEqual(page["memory"][field], report["memory"][field])
        self.assertEqual(flops["products"], report["flops"]["products"])
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
            path.write_text("model M(n = 3, _s = \"<b>\") {\n  param w: [n] = ones\n"
                            "  forward(x: [B, n]) -> [B, n] { return x * w }\n}\n")
            page = self.report(path)
        # The file's name: whom the page is for knows nothing of this machine's folders.
        self.assertEqual(page["source"], path.name)
        self.assertEqual(page["hyperparameters"][1], ["_s", "<b>"])


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
        self.assertEqual((run["loss"], run["path"]), (0.04, "poem/log.jsonl"))
        self.assertEqual(run["validations"], [[100, 0.5, 2.5, None, None]])
        self.assertEqual(run["samples"][0]["text"], "B</script>")

    def test_many_steps_become_means(self):
        self.log.write_text("".join(self.STEP % (i, i, i) for i in range(1, 10001)))
        run, = data_of(tfmc("plot", self.log, "-o", "-").stdout)["runs"]
        self.assertEqual((run["block"], len(run["points"])), (3, 3334))
        self.assertEqual(run["points"][0][:2], [3, 2])
        # What training printed at its end, not a mean.
        self.assertEqual(run["loss"], 10000)

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
        # A parser that calls itself for every bracket has no stack for this.
        other.write_text("[" * 300000 + "\n")
        self.assert_fault(other, "other.jsonl:1:", "no line of a training log")
        other.write_text("")
        self.assert_fault(other, "no step yet")

    def test_runs_of_one_name_keep_their_paths(self):
        other = self.folder / "b" / "poem"
        other.mkdir(parents=True)
        (other / "log.jsonl").write_text(self.STEP % (1, 2, 3))
        runs = data_of(tfmc("plot", self.run_folder, other, "-o", "-").stdout)["runs"]
        self.assertEqual([run["path"] for run in runs],
                         [str(self.log), str(other / "log.jsonl")])

    def test_usage(self):
        self.assertEqual(tfmc("plot", "-o", "x.html").returncode, USAGE)
        self.assertEqual(tfmc("plot", self.run_folder).returncode, USAGE)


CHROMIUM = next((path for path in map(shutil.which, ("chromium", "chromium-browser",
                                                     "google-chrome")) if path), None)


@unittest.skipUnless(CHROMIUM, "there is no Chromium here")
class InABrowser(unittest.TestCase):
    """What the scripts of the pages make of their data."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def shown(self, command, *arguments):
        page = self.folder / "page.html"
        result = tfmc(command, *arguments, "-o", page)
        self.assertEqual(result.returncode, 0, result.stderr)
        # All is drawn when the page is loaded.
        dump = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu",
                               f"--user-data-dir={self.folder / 'profile'}",
                               "--window-size=1200,900", "--virtual-time-budget=3000",
                               "--dump-dom", page.as_uri()],
                              text=True, capture_output=True, timeout=120, check=True)
        return re.sub(r"<script.*?</script>", "", dump.stdout, flags=re.S)

    def test_flops_of_a_token(self):
        page = self.shown("report", GPT2, "--format", "html")
        self.assertIn("266,894,184 per token, the mean over 1,024 positions", page)
        bars = re.search(r'aria-label="FLOPs of a token forward.*?</svg>', page, re.S).group(0)
        self.assertIn(">247 MFLOP, 93 %<", bars)
        self.assertNotIn("GFLOP", bars)

    def test_a_short_run(self):
        log = self.folder / "log.jsonl"
        log.write_text("".join(json.dumps({"step": i, "loss": 2.3 - 0.0948 * i, "lr": 1e-3,
                                           "grad_norm": 1.9 - 0.04 * i, "tokens": 64 * i}) + "\n"
                               for i in range(1, 21))
                       + '{"step":20,"validation_loss":0.8420,"seconds":1}\n')
        page = self.shown("plot", log)
        # As `train` printed them, and with one precision.
        self.assertIn("<strong>0.4040</strong><span>training loss of the last step", page)
        self.assertIn("<strong>0.8420</strong>", page)
        self.assertIn(">training 0.4040<", page)
        self.assertIn(">validation 0.8420<", page)
        # Few steps are shown as they are: a mean over ten of them would lag behind.
        loss = re.search(r'aria-label="Loss by step".*?</svg>', page, re.S).group(0)
        self.assertNotIn('stroke-opacity="0.28"', loss)
        # An axis needs more than one tick to be read.
        norm = re.search(r'aria-label="Norm of the gradient by step".*?</svg>', page, re.S).group(0)
        ticks = re.findall(r'text-anchor="end">([\d.]+)<', norm)
        self.assertGreater(len(ticks), 2, norm)


if __name__ == "__main__":
    main()
