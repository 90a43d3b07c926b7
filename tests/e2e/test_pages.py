"""tfmc report --format html and tfmc plot: one file each, with the right numbers in it."""

import base64
import json
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
from unittest import mock

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
                         ["train", "update", "evaluate", "forward", "prefill", "prefill_short",
                          "verify", "decode"])
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

    def test_truth_values_are_ones_and_zeros(self):
        text = ("model M(n = 3) {\n  const c[i: n, j: n] = j <= i\n"
                "  forward(x: [B, n, n]) -> [B, n, n] { return where(c, x, 0.0) }\n}\n")
        result = tfmc("report", "-", "--format", "html", stdin=text)
        constant, = data_of(result.stdout)["constants"]
        values = struct.unpack("<9f", base64.b64decode(constant["data"]))
        self.assertEqual(values, (1, 0, 0, 1, 1, 0, 1, 1, 1))

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
        self.assertEqual((run["name"], run["steps"], run["seen"], run["unit"]), ("poem", 100, 76800, "tokens"))
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


class Bench(Page):
    """The roofline of a model that is small, so that a run is short."""

    TEXT = ("model M(vocab = tokenizer.size, context = 8, width = 16) {\n"
            "  wte  = Embedding(vocab, width)\n  attn = SelfAttention(width, 2)\n"
            "  forward(tokens: int[B, T]) -> [B, T, vocab] {\n    x = wte(tokens)\n"
            "    return (x + attn(x)) @ wte.weight.T\n  }\n}\n"
            "tokenizer chars(\"0123456789+=.#\")\ndata sums(count = 100, max = 9)\n"
            "train { steps = 5, batch = 4, accumulate = 3, loss = cross_entropy(ignore = \"#\") }\n")

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        # Where `bench` builds.
        cls.enterClassContext(mock.patch.dict(os.environ, XDG_CACHE_HOME=folder.name))
        cls.model = cls.folder / "small.tfm"
        cls.model.write_text(cls.TEXT)
        cls.page = cls.folder / "roofline.html"
        cls.result = tfmc("bench", cls.model, "--format", "html", "-o", cls.page)

    def test_every_kernel_of_the_run_is_there(self):
        self.assertEqual((self.result.returncode, self.result.stdout, self.result.stderr), (0, "", ""))
        page = self.page.read_text()
        self.assert_stands_alone(page)
        data = data_of(page)
        self.assertEqual((data["model"], data["source"], data["precision"], data["accumulate"]),
                         ("M", "small.tfm", "f32", 3))
        self.assertGreater(data["peak_gflops"], 0)
        self.assertEqual(data["peaks_gflops"], {"f32": data["peak_gflops"]})
        self.assertGreater(data["memory_gbs"], 0)
        path = self.folder / "run.json"
        for form in (["--json"], ["--format", "json"]):
            result = tfmc("bench", self.model, *form, "-o", path)
            self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
            run = json.loads(path.read_text())
            self.assertEqual(sorted(data), sorted(run))
            self.assertEqual(sorted(data["functions"]), sorted(run["functions"]))
            for name, function in run["functions"].items():
                self.assertEqual(sorted(data["functions"][name]), sorted(function))
                # Times differ from run to run, and with them the order.
                work = [sorted((kernel["name"], kernel["path"], kernel["runs"], kernel["flops"], kernel["bytes"])
                               for kernel in which["functions"][name]["kernels"]) for which in (data, run)]
                self.assertEqual(*work)
        for name, function in data["functions"].items():
            self.assertAlmostEqual(sum(kernel["milliseconds"] for kernel in function["kernels"]),
                                   function["milliseconds"], delta=1e-6 * function["milliseconds"], msg=name)
            # All below the roof that is drawn.
            for kernel in function["kernels"]:
                if kernel["milliseconds"] > 0:
                    speed = 1e-6 * kernel["runs"] / kernel["milliseconds"]
                    shares = {"peak": speed * kernel["flops"] / data["peaks_gflops"][kernel["products"]],
                              "memory": speed * kernel["bytes"] / data["memory_gbs"]}
                    self.assertAlmostEqual(kernel["share"], max(shares.values()), delta=1e-9 * kernel["share"])
                    self.assertEqual(kernel["of"], max(shares, key=shares.get))

    def test_what_counts_no_operations_has_no_speed(self):
        result = tfmc("bench", self.model)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"(?m)^update .* - GFLOP/s$")
        self.assertRegex(result.stdout, r"(?m)^train .* \d+\.\d GFLOP/s +\d+ tokens/s$")
        self.assertRegex(result.stdout, r"machine: \d+ GFLOP/s of multiply-adds \(peak\), ")

    def test_where_it_cannot_be_written(self):
        path = self.folder / "no" / "such.html"
        result = tfmc("bench", self.model, "--format", "html", "-o", path)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn(str(path), result.stderr)
        result = tfmc("bench", self.model, "--format", "html", "-o", self.model)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(self.model.read_text(), self.TEXT)

    def test_wrong_usage(self):
        for arguments in (["--format", "svg"], ["--json", "--format", "html"], ["-o", ""]):
            result = tfmc("bench", self.model, *arguments)
            self.assertEqual((result.returncode, result.stdout), (USAGE, ""), arguments)

    def test_what_the_binary_fails_with(self):
        text = self.TEXT.replace("batch = 4", "batch = 100000000")
        path = self.folder / "huge.tfm"
        path.write_text(text)
        result = tfmc("bench", path, "--format", "html", "-o", self.folder / "huge.html")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("takes", result.stderr)
        self.assertFalse((self.folder / "huge.html").exists())


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
        return self.drawn(page)

    def drawn(self, page):
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


    def test_a_roofline(self):
        model = self.folder / "small.tfm"
        model.write_text(Bench.TEXT)
        self.enterContext(mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.folder)))
        page = self.shown("bench", model, "--format", "html")
        text = (self.folder / "page.html").read_text()
        data = data_of(text)
        step = [(name, kernel) for name in ("train", "update") for kernel in data["functions"][name]["kernels"]]
        figure = re.search(r'aria-label="Roofline of training step \(3 × train, update\)".*?</svg>', page, re.S).group(0)
        dots = re.findall(r'<circle class="kernel"[^>]*><title>(.*?)</title>', figure, re.S)
        shown = sorted(tuple(dot.split("\n")[:2]) for dot in dots)
        def runs(name, kernel):
            count = kernel["runs"] * (3 if name == "train" else 1)
            return f" ({count} runs)" if count > 1 else ""
        self.assertEqual(shown, sorted(
            (kernel["name"], name + (": " + kernel["path"] if kernel["path"] else "") + runs(name, kernel))
            for name, kernel in step if kernel["milliseconds"] > 0))
        self.assertIn(">FLOP per byte<", figure)
        self.assertEqual(re.findall(r">(peak[^<]*) [\d,.]+ GFLOP/s<", figure), ["peak"])
        # Each has a row, the longest first.
        table = re.search(r'<table class="kernels">.*?</table>', page, re.S).group(0)
        rows = [re.findall(r"<td[^>]*>(?:<code>)?(.*?)(?:</code>)?</td>", row)
                for row in re.findall(r"<tr>(.*?)</tr>", table, re.S)][1:]
        self.assertEqual(len(rows), len(step))
        shares = [float(row[5].removesuffix(" %")) for row in rows]
        self.assertEqual(shares, sorted(shares, reverse=True))
        # On a machine that multiplies bf16 as such each kind of products has a roof.
        product = next(kernel for _, kernel in step if kernel["name"].startswith("matmul"))
        product.update(products="bf16-pairs", of="peak", share=0.25)
        data["peaks_gflops"]["bf16-pairs"] = 2 * data["peak_gflops"]
        (self.folder / "page.html").write_text(text.replace(
            re.search(r'id="data">(.*?)</script>', text, re.S).group(1), json.dumps(data)))
        page = self.drawn(self.folder / "page.html")
        figure = re.search(r'aria-label="Roofline of .*?</svg>', page, re.S).group(0)
        self.assertEqual(sorted(re.findall(r">(peak[^<]*) [\d,.]+ GFLOP/s<", figure)),
                         ["peak of bf16-pairs", "peak of f32"])
        self.assertIn("limited by arithmetic: 25 % of peak of bf16-pairs", figure)
        self.assertIn("<span>peak: bf16-pairs multiply-adds on registers</span>", page)
        self.assertAlmostEqual(sum(shares), 100, delta=0.05 * len(shares) + 1e-9)
        self.assertLessEqual({row[9] for row in rows}, {"arithmetic", "memory", "caches"})


if __name__ == "__main__":
    main()
