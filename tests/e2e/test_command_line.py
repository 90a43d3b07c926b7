"""The conventions of tfmc's command line: exit codes, streams, wrong usage."""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from support import FIXTURES, MODELS, ROOT, TFMC, USAGE, main, run, tfmc

GPT2 = MODELS / "gpt2.tfm"


class Usage(unittest.TestCase):
    def assert_wrong_usage(self, *arguments):
        result = tfmc(*arguments)
        self.assertEqual(result.returncode, USAGE, result)
        self.assertEqual(result.stdout, "")
        self.assertIn("--help", result.stderr)

    def test_a_library_is_a_file(self):
        self.assert_wrong_usage("mpi", "-o", "-")

    def test_no_command(self):
        self.assert_wrong_usage()

    def test_unknown_command(self):
        self.assert_wrong_usage("frobnicate")

    def test_unknown_flag(self):
        self.assert_wrong_usage("report", GPT2, "--frobnicate")

    def test_missing_file(self):
        self.assert_wrong_usage("check")
        self.assert_wrong_usage("report")

    def test_two_files(self):
        self.assert_wrong_usage("check", GPT2, GPT2)

    def test_define_without_value(self):
        self.assert_wrong_usage("check", GPT2, "-D", "width")
        self.assert_wrong_usage("check", GPT2, "-D", "=3")
        self.assert_wrong_usage("check", GPT2, "-D")

    def test_bad_format(self):
        self.assert_wrong_usage("report", GPT2, "--format", "xml")

    def test_bad_depth(self):
        self.assert_wrong_usage("report", GPT2, "--depth", "-1")
        self.assert_wrong_usage("report", GPT2, "--depth", "few")

    def test_bad_sweep(self):
        self.assert_wrong_usage("report", GPT2, "--sweep", "layers")
        self.assert_wrong_usage("report", GPT2, "--sweep", "layers=2", "--against", "x")

    def test_a_crash_is_a_bug(self):
        waiting = subprocess.Popen([TFMC, "check", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        caught = 0  # the signals that it handles; from its start on
        while not caught >> (signal.SIGSEGV - 1) & 1:
            status = pathlib.Path(f"/proc/{waiting.pid}/status").read_text()
            caught = int(status.split("SigCgt:")[1].split()[0], 16)
        waiting.send_signal(signal.SIGSEGV)
        _, said = waiting.communicate()
        self.assertEqual(waiting.returncode, 70)
        self.assertEqual(said.splitlines()[0], "internal error: invalid memory access")
        self.assertIn("Please report it", said)

    def test_a_processor_of_another_kind(self):
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder, "model")
            result = tfmc("build", MODELS / "addition.tfm", "--cpu", "cortex-a72", "-o", target)
            self.assertEqual(result.returncode, 1)
            self.assertIn("'cortex-a72' is a processor of aarch64 linux, and this machine links for ", result.stderr)
            self.assertIn("`--emit obj`", result.stderr)
            self.assertFalse(target.exists())
            self.assertEqual(tfmc("build", MODELS / "addition.tfm", "--cpu", "cortex-a72", "--emit", "obj",
                                  "-o", target).returncode, 0)

    def test_several_processors_in_one_binary(self):
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder, "model")
            # Those that need more come first, whatever their order was.
            self.assertEqual(tfmc("build", MODELS / "addition.tfm", "--cpu", "x86-64-v3,native",
                                  "-o", target).returncode, 0)
            variants = json.loads(run(target, "info", "--json").stdout)["variants"]
            self.assertEqual(len(variants), 2)
            self.assertEqual(variants[1]["cpu"], "x86-64-v3")
            self.assertEqual([variant["chosen"] for variant in variants], [True, False])
            self.assertGreater(len(variants[0]["features"]), len(variants[1]["features"]))
            portable = tfmc("build", MODELS / "addition.tfm", "--cpu", "portable", "-o", target)
            self.assertEqual(portable.returncode, 0, portable.stderr)
            names = [variant["cpu"] for variant in json.loads(run(target, "info", "--json").stdout)["variants"]]
            self.assertEqual(names, ["x86-64-v4", "x86-64-v3"])
            self.assertIn("\n  variants         x86-64-v4, x86-64-v3\n", run(target, "info").stdout)
            # It trains and generates as any other.
            trained = run(target, "train", "--steps", "3", "--out", "run", cwd=folder)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            # Where the machine runs none of them: `popcnt` is what all need.
            target.write_bytes(target.read_bytes().replace(b"popcnt,", b"pupcnt,"))
            info = run(target)
            self.assertEqual(info.returncode, 0, info.stderr)
            told = "this processor lacks instructions that the program was compiled for (x86-64-v3: pupcnt); build it on this machine"
            self.assertIn(f"\n  does not run     {told}", info.stdout)
            variants = json.loads(run(target, "info", "--json").stdout)["variants"]
            self.assertEqual([variant["chosen"] for variant in variants], [False, False])
            exported = run(target, "export", "--weights", "run", "--dtype", "bf16", "-o", "w.safetensors", cwd=folder)
            self.assertEqual(exported.returncode, 0, exported.stderr)
            self.assertEqual(run(target, "data", cwd=folder).returncode, 0)
            refused = run(target, "train", "--out", "other", cwd=folder)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("error: " + told, refused.stderr)

    def test_tiles_for_what_multiplies_bf16_or_int8(self):
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder, "model")
            for define, names in (("train.precision=f32", ["sapphirerapids"]),
                                  ("train.precision=bf16", ["sapphirerapids+amx", "sapphirerapids"]),
                                  ("generate.weights=int8", ["sapphirerapids+amx", "sapphirerapids"]),
                                  ("generate.cache=int8", ["sapphirerapids"])):
                # The second one runs on processors without those instructions, too.
                cpus = "sapphirerapids,x86-64-v3"
                built = tfmc("build", MODELS / "addition.tfm", "--cpu", cpus, "-D", define, "-o", target)
                self.assertEqual(built.returncode, 0, built.stderr)
                variants = json.loads(run(target, "info", "--json").stdout)["variants"]
                self.assertEqual(variants.pop()["cpu"], "x86-64-v3")
                self.assertEqual([variant["cpu"] for variant in variants], names)
                self.assertEqual(["amx-bf16" in variant["features"] for variant in variants],
                                 ["+amx" in name for name in names])
            # A level stands for processors with such instructions, too.
            for define, names in (("train.precision=bf16", ["sapphirerapids+amx", "znver4", "x86-64-v4", "x86-64-v3"]),
                                  ("generate.weights=int8",
                                   ["sapphirerapids+amx", "cascadelake", "x86-64-v4", "x86-64-v3"]),
                                  ("generate.weights=int4", ["cascadelake", "x86-64-v4", "x86-64-v3"])):
                built = tfmc("build", MODELS / "addition.tfm", "--cpu", "portable", "-D", define, "-o", target)
                self.assertEqual(built.returncode, 0, built.stderr)
                variants = json.loads(run(target, "info", "--json").stdout)["variants"]
                self.assertEqual([variant["cpu"] for variant in variants], names)
        result = tfmc("build", MODELS / "addition.tfm", "--cpu", "znver4+amx", "-o", "/dev/null")
        self.assertEqual(result.returncode, USAGE)
        self.assertIn("the CPU 'znver4' has no tiles", result.stderr)

    def test_several_processors_that_do_not_go_together(self):
        for cpus, words in (("haswell,haswell", "'haswell' is listed twice"),
                            ("portable,x86-64-v4", "'x86-64-v4' is listed twice (`portable` stands for x86-64-v4,x86-64-v3)"),
                            ("haswell,pentium9", "unknown CPU 'pentium9'"),
                            ("haswell,", "a CPU without a name"), ("", "a CPU without a name"),
                            ("+amx", "'+amx' stands behind the name of a CPU, as in 'sapphirerapids+amx'"),
                            ("haswell,cortex-a72", "code for 'haswell' and 'cortex-a72'")):
            result = tfmc("build", MODELS / "addition.tfm", "--cpu", cpus, "-o", "/dev/null")
            self.assertEqual(result.returncode, USAGE, cpus)
            self.assertIn(words, result.stderr)
        for command, what in ((("build", "--emit", "schedule"), "a schedule"), (("report", "--memory"), "a plan")):
            for cpus, names in (("haswell,znver4", "znver4 or haswell"),
                                ("portable", "x86-64-v4 or x86-64-v3")):
                result = tfmc(*command, MODELS / "addition.tfm", "--cpu", cpus)
                self.assertEqual((result.returncode, result.stdout), (USAGE, ""))
                self.assertIn(f"{what} is that of one CPU, and '{cpus}' names several: choose one with "
                              f"--cpu, {names}\n", result.stderr)

    def test_a_processor_that_is_none(self):
        for command in ["build"], ["report", "--memory"]:
            result = tfmc(*command, MODELS / "addition.tfm", "--cpu", "pentium9")
            self.assertEqual(result.returncode, USAGE)
            self.assertIn("unknown CPU 'pentium9'", result.stderr)
            # Of those that there is code for: pentium4 is none.
            self.assertNotIn("pentium4", result.stderr)
            for wrong, meant in (("haswel", "haswell"), ("Znver4", "znver4"), ("skylake-avx51", "skylake-avx512")):
                result = tfmc(*command, MODELS / "addition.tfm", "--cpu", wrong)
                self.assertEqual(result.returncode, USAGE)
                self.assertIn(f"unknown CPU '{wrong}'; did you mean '{meant}'?\n", result.stderr)
            # Instructions and kinds of processors, and what is no processor.
            for wrong, meant in (("avx2", "'x86-64-v3'"), ("X86_64", "'x86-64-v3', or `portable`"),
                                 ("avx512", "'x86-64-v4'"), ("amx", "'sapphirerapids+amx'"), ("neon", "'neoverse-n1'"),
                                 ("cuda", "`--target cuda`"), ("any", "`portable`"), ("host", "`native`")):
                result = tfmc(*command, MODELS / "addition.tfm", "--cpu", wrong)
                self.assertEqual(result.returncode, USAGE)
                self.assertIn(f"unknown CPU '{wrong}'; ", result.stderr)
                self.assertIn(meant, result.stderr)
            for level in "x86-64", "x86-64-v2":
                result = tfmc(*command, MODELS / "addition.tfm", "--cpu", level)
                self.assertEqual(result.returncode, USAGE)
                self.assertIn(f"'{level}' has no fused multiply-add on vectors (AVX2 and FMA are the least that is "
                              "supported on x86: x86-64-v3 has them)\n", result.stderr)

    def test_a_target_that_is_none(self):
        for command in ["build"], ["report", "--memory"]:
            for target, said in (("gpu", "--target: NVIDIA's GPUs are cuda\n"),
                                 ("tpu", "--target: must be one of cpu, cuda, not tpu\n")):
                result = tfmc(*command, MODELS / "addition.tfm", "--target", target)
                self.assertEqual(result.returncode, USAGE)
                self.assertIn(said, result.stderr)
        result = tfmc("build", MODELS / "addition.tfm", "--precision", "half")
        self.assertEqual(result.returncode, USAGE)
        self.assertIn("--precision: must be one of f32, bf16, not half\nDid you mean `bf16`?\n", result.stderr)

    def test_an_empty_value_does_not_take_the_next_word(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "out")
            for option, said in (("--precision=", "must be one of f32, bf16, not nothing"),
                                 ("--emit=", "must be one of"), ("--output=", "not nothing")):
                result = tfmc("build", MODELS / "addition.tfm", option, "-o", out)
                self.assertEqual((result.returncode, result.stdout), (USAGE, ""))
                self.assertIn(said, result.stderr)
                self.assertNotIn(" -o", result.stderr)
            self.assertFalse(out.exists())

    def test_help_is_no_error(self):
        for arguments in (["--help"], ["-h"], ["report", "--help"], ["check", "-h"],
                          ["diff", "--help"], ["explain", "--help"]):
            result = tfmc(*arguments)
            self.assertEqual(result.returncode, 0, arguments)
            self.assertIn("Usage", result.stdout)
            self.assertEqual(result.stderr, "")

    def test_version(self):
        result = tfmc("--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"^tfmc \d+\.\d+\.\d+ \(LLVM \d+\.\d+\.\d+\)\n$")


class Words(unittest.TestCase):
    """What is said of wrong usage names the command, the option and what to do."""

    def assert_says(self, text, *arguments):
        result = tfmc(*arguments)
        self.assertEqual((result.returncode, result.stdout), (USAGE, ""), result)
        self.assertEqual(result.stderr, text)

    def test_a_command_that_is_none(self):
        result = tfmc("reprot", GPT2)
        self.assertEqual(result.returncode, USAGE)
        self.assertRegex(result.stderr, r"^tfmc: there is no command `reprot`; there are check, "
                                        r"build, .*\nDid you mean `report`\?\nRun `tfmc --help` ")

    def test_an_option_that_is_misspelt(self):
        for command, option, meant in (("report", "--flop", "--flops"),
                                       ("report", "--formulae", "--formulas"), ("report", "--json", "--format json"),
                                       ("build", "--out", "--output"),
                                       ("fmt", "--chek", "--check")):
            self.assert_says(f"tfmc {command}: did not expect {option}\nDid you mean `{meant}`?\n"
                             f"Run `tfmc {command} --help` for more information.\n",
                             command, GPT2, option)
        self.assert_says("tfmc check: did not expect --flops\n`--flops` is an option of `report`.\n"
                         "Run `tfmc check --help` for more information.\n",
                         "check", GPT2, "--flops")
        self.assert_says("tfmc check: did not expect = 64\nNo blanks stand around `=`: NAME=VALUE is one word.\n"
                         "Run `tfmc check --help` for more information.\n",
                         "check", GPT2, "-D", "width", "=", "64")
        for words in (["width=64"], ["--width=64"], ["--define", "width=64"]):
            self.assert_says(f"tfmc check: did not expect {' '.join(words)}\nDid you mean `-D width=64`?\n"
                             "Run `tfmc check --help` for more information.\n",
                             "check", GPT2, *words)

    def test_an_argument_that_is_missing(self):
        self.assert_says("tfmc check: FILE is required\nRun `tfmc check --help` for more "
                         "information.\n", "check")

    def test_a_number_that_is_not_whole(self):
        for text in ("-1", "1.5", "abc", ""):
            self.assert_says("tfmc report: --depth: must be a whole number of at least 0, not "
                             f"{text or 'nothing'}\nRun `tfmc report --help` for more information.\n",
                             "report", GPT2, "--depth", text)
        self.assert_says("tfmc report: --depth: must be at most 2147483647, not 99999999999\nRun "
                         "`tfmc report --help` for more information.\n",
                         "report", GPT2, "--depth", "99999999999")

    def test_a_kind_that_is_none(self):
        self.assert_says("tfmc build: --emit: must be one of asm, ast, exe, llvm, obj, schedule, shared, "
                         "tfm, not foo"
                         "\nRun `tfmc build --help` for more information.\n",
                         "build", GPT2, "--emit", "foo")

    def test_forms_that_do_not_exist(self):
        for arguments, told in ((["--sweep", "layers=2", "--format", "html"], "use text, json or csv"),
                                (["--against", "x", "--format", "html"], "use text or json"),
                                (["--against", "x", "--format", "csv"], "use text or json")):
            result = tfmc("report", GPT2, *arguments)
            self.assertEqual((result.returncode, result.stdout), (USAGE, ""))
            self.assertIn(told, result.stderr)

    def test_parts_that_a_form_has_no_place_for(self):
        for arguments, option in (
                (["--format", "csv", "--memory"], "--memory"),
                (["--format", "csv", "--flops"], "--flops"),
                (["--format", "csv", "--tensors", "--shapes"], "--shapes"),
                (["--format", "csv", "--tensors", "--depth", "1"], "--depth"),
                (["--format", "csv", "--shapes", "--depth", "1"], "--depth"),
                (["--sweep", "layers=2", "--memory"], "--memory"),
                (["--sweep", "layers=2", "--formulas"], "--formulas"),
                (["--against", "x", "--memory"], "--memory"),
                (["--against", "x", "--flops"], "--flops")):
            result = tfmc("report", GPT2, *arguments)
            self.assertEqual((result.returncode, result.stdout), (USAGE, ""), arguments)
            self.assertTrue(result.stderr.startswith(f"tfmc report: {option}: "), result.stderr)

    def test_an_override_without_value(self):
        result = tfmc("check", GPT2, "-D", "width=")
        self.assertEqual(result.returncode, USAGE)
        self.assertIn("expected name=value, found 'width='", result.stderr)

    def test_an_override_that_is_given_twice(self):
        for command in (["check"], ["report"], ["build"], ["run"]):
            self.assert_says(f"tfmc {command[0]}: -D: width is given twice, as 96 and as 192\n"
                             f"Run `tfmc {command[0]} --help` for more information.\n",
                             *command, "-D", "width=96", "-D", "layers=1", "-D", "width=192", GPT2)

    def test_an_option_before_the_file_that_run_has_not(self):
        for option, value in ("--cpu", "x86-64-v3"), ("--precision", "bf16"):
            self.assert_says(f"tfmc run: {option}: what stands before the file is -D, --families or --ignore-key\n"
                             "Run `tfmc run --help` for more information.\n", "run", option, value, GPT2, "info")

    def test_a_path_that_is_empty(self):
        for command, option in (("build", "--output"), ("report", "--output"),
                                ("report", "--against"), ("tokenizer", "--out")):
            self.assert_says(f"tfmc {command}: {option}: must name a file or folder, not nothing\n"
                             f"Run `tfmc {command} --help` for more information.\n",
                             command, GPT2, option, "")
        self.assert_says("tfmc mpi: -o: must name a file or folder, not nothing\n"
                         "Run `tfmc mpi --help` for more information.\n", "mpi", "-o", "")
        for command in ("check", "report", "build", "run", "bench", "fmt", "tokenizer"):
            self.assert_says(f"tfmc {command}: FILE: must name a file or folder, not nothing\n"
                             f"Run `tfmc {command} --help` for more information.\n", command, "")


class Input(unittest.TestCase):
    def assert_fault(self, result, *words):
        self.assertEqual(result.returncode, 1, result)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_check_says_nothing_when_all_is_well(self):
        result = tfmc("check", GPT2)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_standard_input(self):
        text = "model M(n = 3) {\n  param w: [n] = ones\n  forward(x: [B, n]) -> [B, n] { return x * w }\n}\n"
        result = tfmc("report", "-", "-D", "n=5", stdin=text)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Total: 5 parameters", result.stdout)

    def test_no_such_file(self):
        result = tfmc("check", "no/such.tfm")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "no/such.tfm: error[E0910]: cannot read `no/such.tfm`: "
                                        "No such file or directory\n")

    def test_a_file_without_its_ending(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mine")
            with open(path + ".tfm", "w") as file:
                file.write("model M(n = 3) {\n  forward(x: [B, n]) -> [B, n] { return x }\n}\n")
            result = tfmc("check", path)
        self.assertEqual(result.returncode, 1)
        self.assertTrue(result.stderr.endswith(f"help: did you mean `{path}.tfm`?\n"), result.stderr)

    def test_a_file_that_is_no_text(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.tfm")
            with open(path, "wb") as file:
                file.write(b"\x7fELF\x02\x01\x00\x1b[31m\n" * 100)
            for command in (["check"], ["report"], ["fmt"]):
                result = tfmc(*command, path)
                self.assert_fault(result, "this is not a text file")
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_a_text_that_is_no_model(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.tfm")
            with open(path, "wb") as file:
                file.write(b"ROMEO:\n" * (3 << 20))
            for command in (["check"], ["report"], ["fmt"], ["build"]):
                result = tfmc(*command, path)
                self.assert_fault(result, "this is no model: it has more than 16 MiB")
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_no_control_character_reaches_the_terminal(self):
        text = 'model M(n = 3) {\n  param \x1b[31mw: [n] = "\x1b]0;x\x07\u009b31m"\n}\n'
        result = tfmc("check", "-", stdin=text)
        self.assert_fault(result, "unexpected byte 0x1B")
        for character in result.stderr:
            self.assertFalse(ord(character) < 32 and character != "\n" or
                             127 <= ord(character) < 160, repr(result.stderr))

    def test_sums_within_calls_within_sums(self):
        chain = " + 1.0" * 900
        text = "".join(f"function f{i}(x: [B, C]) -> [B, C] {{ return f{i + 1}(x){chain} }}\n"
                       for i in range(30))
        text += ("function f30(x: [B, C]) -> [B, C] { return x }\n"
                 "model M(n = 8) {\n  forward(x: [B, n]) -> [B, n] { return f0(x) }\n}\n")
        result = tfmc("check", "-", stdin=text)
        self.assert_fault(result, "error[E0112]: this is nested more than 2000 levels deep")
        self.assertEqual(result.stderr.count("error["), 1)

    def test_a_grid_without_any_point(self):
        result = tfmc("report", GPT2, "--sweep", "layres=2,4")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertEqual(result.stderr, "tfmc: error: no point of the grid is possible, such as layres = 2: "
                                        "`GPT2` has no hyperparameter `layres`; did you mean `layers`?\n")
        result = tfmc("report", GPT2, "--sweep", "width=64..128")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertEqual(result.stderr, "tfmc: error: no point of the grid is possible, such as width = 64..128: "
                                        "expected the end of the value, found `..`; `-D` takes one value, and "
                                        "`tfmc report --sweep` several, each between commas: `width=64,96,128`; numbers "
                                        "that are one value stand in parentheses: `betas=(0.9, 0.99)`\n")

    def test_a_grid_without_some_points(self):
        for form in ("text", "json", "csv"):
            result = tfmc("report", GPT2, "--sweep", "layers=1,x", "--format", form)
            self.assertEqual(result.returncode, 1)
            self.assertIn("46473216", result.stdout.replace(",", "" if form == "text" else ","))
            self.assertIn("takes an integer, not `x`",
                          result.stderr if form == "csv" else result.stdout)

    def test_a_wrong_override_of_two_models_is_said_once(self):
        result = tfmc("diff", GPT2, GPT2, "-D", "widht=3")
        self.assertEqual(result.stderr, "-D widht=3: error[E0903]: `GPT2` has no hyperparameter "
                                        "`widht`\n      | -D widht=3\n      |    ^^^^^\n"
                                        "help: did you mean `width`?\n")

    def test_where_a_build_cannot_be_written(self):
        for kind in ("tfm", "obj", "exe"):
            result = tfmc("build", GPT2, "--emit", kind, "-o", MODELS)
            self.assert_fault(result, f"cannot write {MODELS}: it is a folder\n")
            result = tfmc("build", GPT2, "--emit", kind, "-o", "/no/such/file")
            self.assert_fault(result, "cannot write /no/such/file: there is no folder /no/such\n")
        self.assert_fault(tfmc("build", GPT2, "-o", "-"), "cannot write -: what is linked goes to "
                                                          "a file: name one\n")
        with tempfile.TemporaryDirectory() as folder:
            library = pathlib.Path(folder) / "library.tfm"
            library.write_text(GPT2.read_text())
            (pathlib.Path(folder) / "gpt2").symlink_to(MODELS / "gpt2")
            result = tfmc("build", "-", "--emit", "tfm", "-o", library,
                          stdin=f'import "{library}"\nmodel = GPT2(vocab = 16)\n')
            self.assert_fault(result, f"cannot write {library}: the model is made of it\n")
            self.assertEqual(library.read_text(), GPT2.read_text())

    def test_what_a_recipe_reads_and_runs_are_not_written_over(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            kept = {folder / "tale.txt": "one fish two fish\n" * 10}
            (folder / "model.tfm").write_text(f"""
import "{GPT2}"
model = GPT2()
tokenizer chars(from = data)
data text("tale.txt", validation = 0.0)
""")
            # What a checkpoint is known by.
            (folder / "run").mkdir()
            kept |= {folder / "run" / name: "{}" for name in
                     ("state.json", "model.safetensors", "optimizer.safetensors")}
            for file, text in kept.items():
                file.write_text(text)
            model = folder / "model.tfm"
            for arguments, why in ((("-o", folder / "tale.txt"), ("the model's recipe reads it", "would overwrite")),
                                   (("-o", folder / "run/model.safetensors"), ("a file of the run in", ) * 2)):
                self.assert_fault(tfmc("build", model, "--emit", "obj", *arguments), why[0])
                self.assert_fault(tfmc("report", model, *arguments), why[1])
            for file, text in kept.items():
                self.assertEqual(file.read_text(), text)

    def test_a_folder_is_no_file(self):
        self.assert_fault(tfmc("check", MODELS), str(MODELS))

    def test_unknown_hyperparameter(self):
        self.assert_fault(tfmc("check", GPT2, "-D", "widht=3"), "widht", "width")

    def test_bytes_that_are_no_text(self):
        for junk in (b"\x00\xff\xfe" * 100, b"\x00", bytes(range(256)) * 20):
            result = subprocess.run([TFMC, "check", "-"], input=junk, capture_output=True,
                                    check=False)
            self.assertEqual(result.returncode, 1)
            self.assertIn(b"error[E", result.stderr)

    def test_characters_of_what_is_no_utf_8(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "data.bin")
            with open(path, "wb") as file:
                file.write(b"ab\xff\xfe\xe4c")
            text = ("model M(vocab = tokenizer.size) {\n  forward(tokens: int[B, T]) -> [B, T, "
                    "vocab] { return one_hot(tokens, vocab) }\n}\n"
                    f'tokenizer chars(from = data)\ndata text("{path}")\n')
            self.assert_fault(tfmc("check", "-", stdin=text), "E0808",
                              f"{path}:1: not UTF-8 text: only a tokenizer of bytes takes it")

    def test_tokenizers_that_a_binary_would_refuse(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokenizer.json")
            text = ("model M(vocab = tokenizer.size) {\n  forward(tokens: int[B, T]) -> [B, T, "
                    "vocab] { return one_hot(tokens, vocab) }\n}\n"
                    f'tokenizer huggingface("{path}")\n')
            for content, part in (("[" * 300000, "is not valid JSON"),
                                  ('{"model": {"type": "BPE", "vocab": {"a": 1099511627776}}}',
                                   'the id of the token "a" is too large')):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
                for command in ("check", "report"):
                    self.assert_fault(tfmc(command, "-", stdin=text), "E0808", path, part)
            # A vocabulary without merges has a size, which is all that checking and
            # reporting read; a binary cannot open it.
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"model": {"type": "BPE", "vocab": {"a": 4}}}')
            self.assertIn("vocab = 5", tfmc("report", "-", stdin=text).stdout)
            self.assertEqual(tfmc("check", "-", stdin=text).returncode, 0)
            binary = os.path.join(folder, "m")
            self.assert_fault(tfmc("build", "-o", binary, "-", stdin=text), "E0808", "`merges`")
            self.assertFalse(os.path.exists(binary))

    def test_names_are_printed_without_control_characters(self):
        result = tfmc("plot", "no\x1b[31m\x9bsuch", "-o", "x.html")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no\ufffd[31m\ufffdsuch", result.stderr)

    def test_checkpoint_that_is_not_there(self):
        self.assert_fault(tfmc("report", GPT2, "--against", "no/such.safetensors"),
                          "no/such.safetensors")

    def test_texts_to_learn_a_tokenizer_from_that_are_not_there(self):
        result = tfmc("tokenizer", "no/such.txt")
        self.assertEqual((result.returncode, result.stderr),
                         (1, "tfmc: error: cannot read no/such.txt: No such file or directory\n"))

    def test_a_tokenizer_is_learnt_from_standard_input(self):
        with tempfile.TemporaryDirectory() as folder:
            text = 'the quick brown fox\n'
            (pathlib.Path(folder) / "text.txt").write_text(text)
            for name, source in (("file", "text.txt"), ("input", "-")):
                result = tfmc("tokenizer", source, "-o", name, stdin=text, cwd=folder)
                self.assertEqual(result.returncode, 0, result.stderr)
            merges = [(pathlib.Path(folder) / name / "merges.txt").read_text() for name in ("file", "input")]
            self.assertEqual(*merges)
            result = tfmc("tokenizer", "-", "--field", "text", stdin=json.dumps([{"text": text}]), cwd=folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual((pathlib.Path(folder) / "merges.txt").read_text(), merges[0])
            result = tfmc("tokenizer", "-", "--field", "nope", stdin=json.dumps([{"text": text}]), cwd=folder)
            self.assert_fault(result, 'in the field "nope", but in "text": --field "text"\n')

    def test_every_error_code(self):
        result = tfmc("explain")
        self.assertEqual(result.returncode, 0)
        self.assertIn("E0203  the inner dimensions of a product differ\n", result.stdout)
        for line in result.stdout.splitlines():
            self.assertRegex(line, r"^E\d{4}  \S")

    def test_unknown_error_code(self):
        self.assert_fault(tfmc("explain", "E9999"), "E9999")


class Output(unittest.TestCase):
    def test_to_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "report.txt"
            result = tfmc("report", GPT2, "-o", path)
            self.assertEqual((result.returncode, result.stdout), (0, ""))
            self.assertIn("124,439,808", path.read_text())

    def test_to_a_place_that_cannot_be_written(self):
        result = tfmc("report", GPT2, "-o", "/no/such/folder/report.txt")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "tfmc: error: cannot write /no/such/folder/report.txt: there is no folder "
                                        "/no/such/folder\n")

    def test_links_and_pipes_stay_what_they_are(self):
        model = MODELS / "cs444" / "embedding.tfm"
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "place").mkdir()
            log = folder / "log.jsonl"
            log.write_text('{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 2.0}\n')
            commands = [["build", model, "--emit", kind] for kind in ("schedule", "obj", "exe")]
            commands += [["report", model, "--format", kind] for kind in ("text", "csv", "html")]
            commands += [["plot", log]]
            for number, command in enumerate(commands):
                for old in ("old", None):  # a link may also lead to where nothing is yet
                    real, link = folder / "place" / f"{number}-{old}", folder / f"{number}-{old}"
                    if old:
                        real.write_text(old)
                    link.symlink_to(real)
                    result = tfmc(*command, "-o", link)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertTrue(link.is_symlink())
                    self.assertNotIn(real.read_bytes(), (b"", b"old"))
            self.assertEqual(len(list((folder / "place").iterdir())), 2 * len(commands))
            pipe = folder / "pipe"
            os.mkfifo(pipe)
            reader = os.open(pipe, os.O_RDWR)
            result = tfmc("build", model, "--emit", "schedule", "-o", pipe)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(b"sched.program @forward", os.read(reader, 1 << 16))
            result = tfmc("report", model, "-o", pipe)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(os.read(reader, 1 << 16).decode(), tfmc("report", model).stdout)
            result = tfmc("build", model, "-o", pipe)
            self.assertEqual(result.returncode, 1)
            self.assertIn("pipe: what is linked replaces", result.stderr)
            result = tfmc("mpi", "-o", pipe)
            self.assertEqual(result.returncode, 1)
            self.assertIn("tfmc: error: cannot write", result.stderr)
            self.assertIn("pipe: what is compiled replaces", result.stderr)
            os.close(reader)
            self.assertTrue(pipe.is_fifo())

    def test_only_a_library_makes_way_for_one(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "m.tfm"
            model.write_text("model M\n")
            result = tfmc("mpi", "-o", "m.tfm", cwd=folder)
            self.assertEqual((result.returncode, result.stderr),
                             (1, "tfmc: error: m.tfm is no library, and would be lost: name another file with -o\n"))
            self.assertEqual(model.read_text(), "model M\n")
            # A program is none, also one that is linked as libraries are, to be loaded anywhere.
            for option in ("-pie", "-no-pie"):
                program = pathlib.Path(folder) / f"program{option}"
                made = subprocess.run(["cc", "-fPIE", option, "-x", "c", "-", "-o", program], input="int main() {}",
                                      capture_output=True, text=True, check=False)
                self.assertEqual(made.returncode, 0, made.stderr)
                result = tfmc("mpi", "--mpicc", "no-such-mpicc", "-o", program.name, cwd=folder)
                self.assertEqual((result.returncode, result.stderr),
                                 (1, f"tfmc: error: {program.name} is no library, and would be lost: name another "
                                     "file with -o\n"))
            # What is one may be compiled anew.
            library = pathlib.Path(folder) / "libtfm_mpi.so"
            made = subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input="int tfm_join;",
                                  capture_output=True, text=True, check=False)
            self.assertEqual(made.returncode, 0, made.stderr)
            for content in (library.read_bytes(), b"\x7fELF...", b""):
                library.write_bytes(content)
                result = tfmc("mpi", "--mpicc", "no-such-mpicc", cwd=folder)
                self.assertIn("there is no no-such-mpicc", result.stderr)

    def test_standard_output_by_its_name(self):
        with tempfile.TemporaryDirectory() as folder:
            for number, command in enumerate((["build", GPT2, "--emit", "ast"], ["report", GPT2])):
                expected = tfmc(*command).stdout
                self.assertEqual(tfmc(*command, "-o", "/dev/stdout").stdout, expected)
                # What others write there stays.
                path = pathlib.Path(folder) / str(number)
                with open(path, "w", encoding="utf-8") as file:
                    file.write("before\n")
                    file.flush()
                    subprocess.run([TFMC, *command, "-o", "/dev/stdout"], stdout=file, check=True)
                self.assertEqual(path.read_text(), "before\n" + expected)

    def test_a_file_that_does_not_fit_leaves_the_old_one(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "out"
            for command in (["build", GPT2, "--emit", "ast"], ["report", GPT2]):
                path.write_text("model = old")
                path.chmod(0o640)
                words = shlex.join(str(word) for word in (TFMC, *command, "-o", path))
                # Files may grow to one block of 512 bytes.
                script = f"ulimit -f 1; trap '' XFSZ; exec {words}"
                result = run("sh", "-c", script)
                self.assertEqual(result.returncode, 1, result)
                self.assertIn(f"cannot write {path}: the file would pass the size limit", result.stderr)
                self.assertEqual(path.read_text(), "model = old")
                self.assertEqual(os.listdir(folder), ["out"])
                self.assertEqual(tfmc(*command, "-o", path).returncode, 0)
                self.assertEqual(path.read_text(), tfmc(*command).stdout)
                self.assertEqual(path.stat().st_mode & 0o777, 0o640)

    def test_text_for_the_reader_is_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            for kind in ("ast", "tfm", "schedule", "llvm", "asm"):
                path = pathlib.Path(folder) / kind
                model = MODELS / "addition.tfm"
                self.assertEqual(tfmc("build", model, "--emit", kind, "-o", path).returncode, 0)
                self.assertEqual(tfmc("build", model, "--emit", kind).stdout, path.read_text())

    def test_values_of_a_grid_are_given_once(self):
        result = tfmc("report", GPT2, "--sweep", "layers=1,2", "--sweep", "layers=3")
        self.assertEqual((result.returncode, result.stdout), (USAGE, ""))
        self.assertIn("layers is given twice", result.stderr)

    def test_a_source_is_not_overwritten(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "mine.tfm"
            text = (MODELS / "addition.tfm").read_text()
            source.write_text(text)
            for arguments in (["build", source, "--emit", "tfm"], ["build", source],
                              ["report", source], ["plot", source]):
                result = tfmc(*arguments, "-o", source)
                self.assertEqual(result.returncode, 1, arguments)
                self.assertIn("would overwrite", result.stderr)
                self.assertEqual(source.read_text(), text)
            # Nor what it imports.
            user = pathlib.Path(folder) / "user.tfm"
            user.write_text((MODELS / "multiplication.tfm").read_text().replace("addition", "mine"))
            for arguments in (["report", user], ["bench", user, "--format", "html"]):
                result = tfmc(*arguments, "-o", source)
                self.assertEqual(result.returncode, 1, arguments)
                self.assertIn("would overwrite", result.stderr)
                self.assertEqual(source.read_text(), text)

    def test_another_model_is_not_overwritten(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            other = folder / "other.tfm"
            other.write_text("mine")
            (folder / "log.jsonl").write_text('{"step": 1, "loss": 2.5}\n')
            source = MODELS / "addition.tfm"
            for arguments in (["build", source], ["build", source, "--emit", "llvm"], ["report", source],
                              ["bench", source, "--format", "html"], ["plot", folder]):
                result = tfmc(*arguments, "-o", other)
                self.assertEqual(result.returncode, 1, arguments)
                self.assertRegex(result.stderr, "other.tfm(: it is| would overwrite) a file of a model")
                self.assertEqual(other.read_text(), "mine")

    def test_a_tree_is_written_over_a_tree_alone(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            kept = {"data.txt": "model of all\n", "other.tfm": "import \"mine.tfm\"\n", "library.txt": "module M() {\n"}
            for file, text in kept.items():
                (folder / file).write_text(text)
            for file, why in (("data.txt", "it is no tree that `--emit ast` wrote: name another file, or remove it"),
                              ("library.txt", "it is no tree that"), ("other.tfm", "it is a file of a model"),
                              (".", "it is a folder")):
                result = tfmc("build", GPT2, "--emit", "ast", "-o", file, cwd=folder)
                self.assertEqual(result.returncode, 1, result)
                self.assertIn(f"cannot write {file}: {why}", result.stderr)
            for file, text in kept.items():
                self.assertEqual((folder / file).read_text(), text)
            for model in ("gpt2", "multiplication", "gpt2"):
                result = tfmc("build", MODELS / f"{model}.tfm", "--emit", "ast", "-o", "tree", cwd=folder)
                self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue((folder / "tree").read_text().startswith("model GPT2("))

    def test_a_module_is_written_over_no_source(self):
        with tempfile.TemporaryDirectory() as name:
            out = pathlib.Path(name) / "out.tfm"
            for text in ("/// Mine.\nmodel M() {\n", "module attributes() {\n"):
                out.write_text(text)
                result = tfmc("build", MODELS / "addition.tfm", "--emit", "tfm", "-o", out)
                self.assertEqual((result.returncode, result.stderr),
                                 (1, f"tfmc: error: cannot write {out}: it is a file of a model\n"))
                self.assertEqual(out.read_text(), text)
            out.unlink()
            for _ in range(2):
                self.assertEqual(tfmc("build", MODELS / "addition.tfm", "--emit", "tfm", "-o", out).returncode, 0)

    def test_what_weights_are_read_with_is_not_overwritten(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            shutil.copytree(FIXTURES / "gpt2_tiny", folder / "whole")
            shards = folder / "shards"
            shutil.copytree(FIXTURES / "gpt2_tiny", shards)
            shard = (shards / "model.safetensors").rename(shards / "model-00001-of-00001.safetensors")
            header = shard.read_bytes()[8:]
            header = json.loads(header[:header.index(b"}}") + 2])
            header.pop("__metadata__", None)
            (shards / "model.safetensors.index.json").write_text(
                json.dumps({"weight_map": dict.fromkeys(header, shard.name)}))
            for place in (folder / "whole", shards):
                for kept in ("tokenizer_config.json", "chat_template.jinja", "merges.txt"):
                    (place / kept).write_text("")
            # Of a model in several files the first is named.
            parts = [folder / f"chat-0000{part}-of-00002.gguf" for part in (1, 2)]
            for part in parts:
                shutil.copy(FIXTURES / "gguf/chat.gguf", part)
            gguf = folder / "gguf.tfm"
            self.assertEqual(tfmc("import", parts[0], "-o", gguf).returncode, 0)
            model = folder / "model.tfm"
            model.write_text((FIXTURES / "gpt2_tiny/model.tfm").read_text().replace("../../../models/gpt2.tfm", str(GPT2)))
            # A family of the user's.
            families = folder / "families"
            families.mkdir()
            for ending in ("json", "tfm"):
                shutil.copy(ROOT / f"compiler/families/gpt2.{ending}", families)
            of_family = folder / "family.tfm"
            self.assertEqual(tfmc("import", folder / "whole", "--families", families, "-o", of_family).returncode, 0)
            (folder / "data").mkdir()
            (folder / "data/a.txt").write_text("one fish two fish\n" * 10)
            patterns = folder / "patterns.tfm"
            patterns.write_text(f'import "{GPT2}"\nmodel = GPT2()\ntokenizer chars(from = data)\n'
                                'data text("data/*.txt", validation = 0.0)\n')
            own = ("config.json", "generation_config.json", "tokenizer_config.json", "chat_template.jinja", "merges.txt")
            cases = [(command, place / output) for place, weights in
                     ((folder / "whole", "model.safetensors"), (shards, shard.name), (shards, "model.safetensors.index.json"))
                     for command in (["import", place], ["report", model, "--against", place])
                     for output in (weights, *own)]
            cases += [(["report", model, "--against", shards / "model.safetensors.index.json"], shard)]
            cases += [(command, output) for output in parts
                      for command in (["import", parts[0]], ["build", gguf], ["report", gguf], ["report", of_family, "--against", parts[0]])]
            cases += [(["import", folder / "whole", "--families", families], families / f"gpt2.{ending}") for ending in ("json", "tfm")]
            cases += [(["report", of_family], families / "gpt2.json"), (["build", of_family], families / "gpt2.json")]
            cases += [([command, patterns], folder / "data/a.txt") for command in ("build", "report")]
            for command, output in cases:
                with self.subTest(command=command, output=output.name):
                    before = output.read_bytes()
                    result = tfmc(*command, "-o", output)
                    self.assertEqual(result.returncode, 1, result)
                    self.assertIn("reads it" if command[0] == "build" else "would overwrite", result.stderr)
                    self.assertEqual(output.read_bytes(), before)
            # What is not read is written: a report beside the weights, and again.
            for _ in range(2):
                result = tfmc("report", model, "--against", shards, "-o", shards / "report.json", "--format", "json")
                self.assertEqual(result.returncode, 0, result)

    def test_the_log_of_a_run_is_not_overwritten(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log.jsonl"
            text = '{"step": 1, "loss": 2.5}\n'
            log.write_text(text)
            for output in (log, folder):
                result = tfmc("plot", folder, "-o", output)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("would overwrite", result.stderr)
            self.assertEqual(log.read_text(), text)

    def test_a_page_is_no_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            result = tfmc("plot", folder, "-o", "curves.png", cwd=folder)
            self.assertEqual(result.returncode, 2)
            self.assertIn("curves.png would be a page for a browser and no picture: end its name with .html",
                          result.stderr)
            self.assertEqual(os.listdir(folder), [])

    def test_a_text_that_a_tokenizer_is_learnt_from_is_not_overwritten(self):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder) / "merges.txt"
            text.write_text("the quick brown fox\n")
            result = tfmc("tokenizer", "merges.txt", cwd=folder)
            self.assertEqual(result.returncode, 1, result)
            self.assertIn("would overwrite merges.txt", result.stderr)
            self.assertEqual(text.read_text(), "the quick brown fox\n")
            self.assertEqual(os.listdir(folder), ["merges.txt"])

    def test_a_tokenizer_of_something_else_is_not_overwritten(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "text.txt").write_text("the quick brown fox\n")
            vocabulary = pathlib.Path(folder) / "vocab.json"
            vocabulary.write_text("{}")
            for there in ([], ["-o", "."], ["-o", folder]):
                result = tfmc("tokenizer", "text.txt", *there, cwd=folder)
                self.assertEqual(result.returncode, 1, result)
                self.assertIn("/vocab.json exists already, and says something else, which would be lost: choose "
                              "another place (-o), or pass --overwrite", result.stderr)
                self.assertEqual(vocabulary.read_text(), "{}")
                self.assertEqual(sorted(os.listdir(folder)), ["text.txt", "vocab.json"])
            result = tfmc("tokenizer", "text.txt", "-o", "none/such", cwd=folder, file_bytes=9)
            self.assertEqual(result.returncode, 1, result)
            self.assertIn("cannot write none/such/vocab.json: ", result.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["text.txt", "vocab.json"])
            result = tfmc("tokenizer", "text.txt", "--overwrite", cwd=folder)
            self.assertEqual(result.returncode, 0, result)
            self.assertNotEqual(vocabulary.read_text(), "{}")
            # What says the same already is no loss.
            result = tfmc("tokenizer", "text.txt", cwd=folder)
            self.assertEqual(result.returncode, 0, result)

    def test_a_source_without_an_ending_is_not_overwritten(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "mine"
            text = "model M(n = 3) {\n  forward(x: [B, n]) -> [B, n] { return x }\n}\n"
            source.write_text(text)
            result = tfmc("build", "mine", cwd=folder)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(source.read_text(), text)
            self.assertTrue(os.access(source.with_suffix(".out"), os.X_OK))

    def test_full_disk(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([TFMC, "report", GPT2], stdout=full, stderr=subprocess.PIPE,
                                    text=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("No space left", result.stderr)

    def test_help_that_cannot_be_written(self):
        for option in ("--help", "--version"):
            with open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run([TFMC, option], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual((result.returncode, result.stderr),
                             (1, "tfmc: error: cannot write to standard output: No space left on device\n"))

    def test_colour_on_a_terminal(self):
        environment = {name: text for name, text in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
        for added, is_coloured in (({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False)):
            terminal, other = os.openpty()
            result = subprocess.run([TFMC, "check", "-"], input="model", stdout=subprocess.PIPE, stderr=other, text=True,
                                    env=environment | added, check=False)
            os.close(other)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(b"\x1b" in os.read(terminal, 10000), is_coloured, added)
            os.close(terminal)

    def test_no_colour_where_no_terminal_is(self):
        environment = {name: text for name, text in os.environ.items() if name != "NO_COLOR"}
        result = subprocess.run([TFMC, "check", "-"], input="model", capture_output=True, text=True,
                                env=environment, check=False)
        self.assertNotIn("\x1b", result.stderr)


class Diff(unittest.TestCase):
    NOTHING = ("no difference in hyperparameters, parameters, modules, tensors, shapes, FLOPs, memory and precision "
               "(what functions compute is not compared)\n")

    def test_precision_changes_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "half.tfm"
            other.write_text((MODELS / "addition.tfm").read_text().replace("train {", "train {\n  precision = bf16"))
            result = tfmc("diff", MODELS / "addition.tfm", other)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"\n  precision +f32 +-> +bf16\n")

    def test_a_model_and_itself(self):
        result = tfmc("diff", GPT2, GPT2)
        self.assertEqual((result.returncode, result.stdout), (0, self.NOTHING))

    def test_what_functions_compute_is_not_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder) / f"{function}.tfm" for function in ("relu", "abs")]
            for file in files:
                file.write_text("model M { forward(x: [B, T, 4]) -> [B, T, 4] { return %s(x) } }\n" % file.stem)
            result = tfmc("diff", *files, "-D", "B=1", "-D", "T=2")
        self.assertEqual((result.returncode, result.stdout), (0, self.NOTHING), result.stderr)

    def test_an_edit(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "wide.tfm"
            (pathlib.Path(folder) / "gpt2").symlink_to(MODELS / "gpt2")
            other.write_text(GPT2.read_text().replace("4 * width", "2 * width"))
            result = tfmc("diff", GPT2, other)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("h.*.mlp.c_fc", result.stdout)
        self.assertRegex(result.stdout, r"arena bytes +[0-9,]+ +-> +[0-9,]+ +-[0-9,]+\n")
        self.assertRegex(result.stdout, r"parameters +124,439,808 +-> +96,109,824 +-28,329,984")


    def test_layers_that_the_report_tells_apart(self):
        # A choice by layer gives other paths, but the same tensors.
        block = """module Block(width, scale: float) {
  l = Linear(width, width)
  forward(x: [B, T, width]) -> [B, T, width] { return x + scale * l(x) }
}
"""
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder) / name for name in ("same.tfm", "turns.tfm", "wide.tfm")]
            for file, scale, size in zip(files, ("0.5", "if i % 2 == 0 then 0.5 else 2.0", "0.5"), (8, 8, 16)):
                file.write_text(f"""model M(width = {size}) {{
  h = repeat(4) as i Block(width, {scale})
  forward(x: [B, T, width]) -> [B, T, width] {{ return h(x) }}
}}
{block}""")
            same = tfmc("diff", *files[:2], "-D", "B=1", "-D", "T=2")
            wide = tfmc("diff", *files[1:], "-D", "B=1", "-D", "T=2")
        self.assertEqual(same.returncode, 0, same.stderr)
        for kind in ("Modules", "Tensors", "Shapes"):
            self.assertNotIn(kind, same.stdout)
        self.assertRegex(wide.stdout, r"h\.\*\.l +Linear, 288 parameters +-> +Linear, 1,088 parameters +\+800\n")

    def test_numbers_are_numbers_for_programs(self):
        result = tfmc("diff", "-", GPT2, "--json",
                      stdin="model M(width = 3) {\n  param w: [width] = ones\n"
                            "  forward(x: [B, width]) -> [B, width] { return x * w }\n}\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = {(entry["kind"], entry["name"]): (entry["before"], entry["after"], entry["change"])
                 for entry in json.loads(result.stdout)["differences"]}
        self.assertEqual(found["hyperparameter", "width"], (3, 768, None))
        self.assertEqual(found["hyperparameter", "drop"], (None, 0.1, None))
        self.assertEqual(found["total", "parameters"], (3, 124439808, 124439805))
        self.assertEqual(found["tensor", "w"], ("[3] = [width]", None, None))


LIBRARY = """
module Block(width, heads = 2) {
  require width % heads == 0, "width must be a multiple of heads"
  up = Linear(width, 4 * width)
  down = Linear(4 * width, width)
  forward(x: [B, T, width]) -> [B, T, width] { return x + down(relu(up(x))) }
}
module Scale(size = 4) {
  param w: [size] = ones
  forward(x: [.., size]) -> [.., size] { return x * w }
}
"""


class Library(unittest.TestCase):
    """A file of modules is checked as far as values are known."""

    def test_what_lacks_values_is_named(self):
        result = tfmc("check", "-", stdin=LIBRARY)
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertIn("only the syntax of Block(width) could be checked", result.stderr)
        self.assertIn("-D name=value", result.stderr)

    def test_values_are_those_of_all_modules(self):
        result = tfmc("check", "-", "-D", "width=8", stdin=LIBRARY)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_mistakes_are_found_once(self):
        for text, wrong, line in (
                (LIBRARY.replace("relu(up(x))", "relu(down(x))"), "E0205", 6),
                (LIBRARY.replace("x * w", "x * v"), "E0301", 10),
                (LIBRARY + "const half[i: 4] = i / zwei\n", "E0301", 12),
                (LIBRARY + "module Scale(size = 4) { }\n", "E0905", 12),
                (LIBRARY + "function f(x: [..]) -> [..] { return x * y }\n", "E0301", 12)):
            result = tfmc("check", "-", "-D", "width=8", stdin=text)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(result.stderr.count("error["), 1, result.stderr)
            self.assertIn(f"<stdin>:{line}:", result.stderr)
            self.assertIn(f"error[{wrong}]", result.stderr)

    def test_functions(self):
        result = tfmc("check", "-", stdin="function f(x: [B, T], y: [..], n = 2) -> [B, T] "
                                          "{ return g(x, n) }\n"
                                          "function g(x: [..], n: int) { return x * float(n) }\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("only the syntax of g could be checked", result.stderr)

    def test_a_requirement_that_fails(self):
        result = tfmc("check", "-", "-D", "width=9", stdin=LIBRARY)
        self.assertEqual(result.returncode, 1)
        self.assertIn("width must be a multiple of heads", result.stderr)

    def test_an_override_that_no_module_has(self):
        result = tfmc("check", "-", "-D", "widht=9", stdin=LIBRARY)
        self.assertEqual(result.returncode, 1)
        self.assertIn("no module of this file has a hyperparameter `widht`", result.stderr)
        self.assertIn("did you mean `width`?", result.stderr)

    def test_what_nothing_uses(self):
        # Nothing is known of the file that will import this, but of its modules.
        text = ('import "nothing.tfm"\nconst ramp[j: 8] = j\n'
                "module Scale(factor = 2.0, context = 8, rate = 0.1) {\n"
                "  forward(x: [..]) -> [..] { return factor * x }\n}\n")
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "nothing.tfm").write_text("")
            result = tfmc("check", "-", stdin=text, cwd=folder)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("warning["), 1, result.stderr)
        self.assertIn("<stdin>:3:41: warning[E0308]: the hyperparameter `rate` of `Scale`",
                      result.stderr)

    def test_a_build_needs_a_model(self):
        result = tfmc("build", "-", stdin=LIBRARY)
        self.assertEqual(result.returncode, 1)
        self.assertIn("`model = Scale(...)`", result.stderr)


class Warnings(unittest.TestCase):
    def test_every_command_says_them(self):
        text = ("model M(vocab = 10, width = 8, drop = 0.1) {\n  wte = Embedding(vocab, width)\n"
                "  forward(tokens: int[B, T]) -> [B, T, vocab] {\n"
                "    return wte(tokens) @ wte.weight.T\n  }\n}\n"
                "train { steps = 20, schedule = cosine(warmup = 30) }\n")
        with tempfile.TemporaryDirectory() as folder:
            for command in (["check", "-"], ["report", "-"], ["build", "-", "-o", f"{folder}/m"]):
                with self.subTest(command=command):
                    result = tfmc(*command, stdin=text)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertRegex(result.stderr, r"(?s)^<stdin>:1:32: warning\[E0308\]: .*\n"
                                     r"<stdin>:7:48: warning\[E0809\]: [^[]*$")

    def test_shipped_files_have_none(self):
        files = [path for folder in (MODELS, FIXTURES / "models", ROOT / "bench",
                                     ROOT / "compiler" / "std") for path in folder.rglob("*.tfm")]
        self.assertGreater(len(files), 30)
        for path in files:
            with self.subTest(file=path):
                self.assertNotIn("warning[", tfmc("check", path).stderr)
        large = [part for setting in ("layers=6", "heads=6", "width=384", "context=256", "drop=0.2",
                                      "train.sequence=256", "train.batch=64", "train.steps=5000")
                 for part in ("-D", setting)]
        result = tfmc("check", MODELS / "shakespeare.tfm", *large)
        self.assertEqual((result.returncode, result.stderr), (0, ""))


class Run(unittest.TestCase):
    def test_warnings_are_said_once(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "mine.tfm"
            source.write_text("model M(n = 3) {\n  forward(x: [B, n]) -> [B, n] {\n"
                              "    y = x\n    return x\n  }\n}\n")
            environment = dict(os.environ, XDG_CACHE_HOME=folder)
            for _ in range(2):
                result = subprocess.run([TFMC, "run", source, "info"], capture_output=True,
                                        text=True, env=environment, check=False)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stderr.count("warning["), 1, result.stderr)
            # A part of a program is built again.
            program, = pathlib.Path(folder).glob("tfm/*/mine")
            whole = program.read_bytes()
            for size in (0, 100, len(whole) // 2):
                program.write_bytes(whole[:size])
                result = subprocess.run([TFMC, "run", source, "info"], capture_output=True,
                                        text=True, env=environment, check=False)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(program.stat().st_size, len(whole))

    def test_what_was_not_used_for_a_month_leaves_the_cache(self):
        with tempfile.TemporaryDirectory() as folder:
            cache = pathlib.Path(folder) / "tfm"
            source = pathlib.Path(folder) / "mine.tfm"
            month_ago = time.time() - 31 * 86400
            files = {"old": cache / ("a" * 40) / "old", "used": cache / ("b" * 40) / "used",
                     "not ours": cache / "mine" / "file"}
            for name, file in files.items():
                file.parent.mkdir(parents=True)
                file.write_text(name)
                for path in (file, file.parent):
                    os.utime(path, None if name == "used" else (month_ago, month_ago))
            for width in (3, 4):
                source.write_text(f"model M(n = {width}) {{\n  forward(x: [B, n]) -> [B, n] {{ return x }}\n}}\n")
                for _ in range(2):
                    result = subprocess.run([TFMC, "run", source, "info"], capture_output=True, check=False,
                                            text=True, env=dict(os.environ, XDG_CACHE_HOME=folder))
                    self.assertEqual(result.returncode, 0, result.stderr)
                    for program in cache.glob("*/mine"): # to be used again, or to go
                        for path in (program, program.parent):
                            os.utime(path, (month_ago, month_ago))
                self.assertEqual([file.exists() for file in files.values()], [False, True, True])
            self.assertEqual(len(list(cache.glob("*/mine"))), 1)

    def test_an_override_behind_the_command(self):
        for define in (["-D", "n=4"], ["-Dn=4"]):
            result = tfmc("run", GPT2, "generate", "--greedy", *define)
            self.assertEqual((result.returncode, result.stdout), (USAGE, ""))
            self.assertEqual(result.stderr, "tfmc run: -D: what follows `generate` belongs to the "
                             "binary: write -D n=4 before it\nRun `tfmc run --help` for more "
                             "information.\n")


    def test_a_variable_that_is_empty_is_none(self):
        with tempfile.TemporaryDirectory() as folder:
            result = tfmc("run", MODELS / "addition.tfm", "info", cwd=folder,
                          environment={"XDG_CACHE_HOME": "", "HOME": folder})
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(os.listdir(folder), [".cache"])

    def test_a_text_that_begins_as_an_override(self):
        with tempfile.TemporaryDirectory() as folder:
            for option in ("--prompt", "--stop"):
                result = tfmc("run", MODELS / "addition.tfm", "generate", option, "-D1=2", "--weights", "no/such",
                              environment={"XDG_CACHE_HOME": folder})
                # The binary tells of it, which has no such letter or file.
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertRegex(result.stderr, "(?m)^error: .*('-'|no/such)")


class New(unittest.TestCase):
    def test_what_it_writes_is_a_model(self):
        for like in ("gpt2", "llama"):
            with self.subTest(like=like), tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / "input.txt").write_text("the quick brown fox.\n" * 200)
                result = tfmc("new", "poem", "--like", like, cwd=folder)
                self.assertEqual(result.returncode, 0, result.stderr)
                text = (pathlib.Path(folder) / "poem.tfm").read_text()
                self.assertIn("model Poem(", text)
                self.assertIn("tfmc build poem.tfm -o poem", text)
                commands = re.findall(r"^///   (.*  )(?:tfmc|\./poem) ", text, re.MULTILINE)
                self.assertEqual([len(what) for what in commands], [len(commands[0])] * 4, text)
                self.assertNotIn("@NAME@", text)
                checked = tfmc("check", "poem.tfm", cwd=folder)
                self.assertEqual((checked.returncode, checked.stderr), (0, ""))

    def test_names_that_its_modules_have(self):
        # Modules of the templates and of std, and other words in them.
        words = ("block", "embedding", "layerNorm", "selfAttention", "MLP", "layer", "rotaryAttention", "swiGLU",
                 "linear", "RMSNorm", "b", "T", "x", "model", "train", "_a", "poem_2")
        for like in ("gpt2", "llama"):
            with tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / "input.txt").write_text("the quick brown fox.\n" * 200)
                for word in words:
                    with self.subTest(like=like, word=word):
                        self.assertEqual(tfmc("new", word, "--like", like, cwd=folder).returncode, 0)
                        checked = tfmc("check", f"{word}.tfm", cwd=folder)
                        self.assertEqual((checked.returncode, checked.stderr), (0, ""))

    def test_never_overwrites(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "poem.tfm").write_text("mine")
            result = tfmc("new", "poem", cwd=folder)
            self.assertEqual(result.returncode, 1)
            self.assertIn("poem.tfm exists", result.stderr)
            self.assertEqual((pathlib.Path(folder) / "poem.tfm").read_text(), "mine")

    def test_a_name_that_is_none(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("2nd", "a-b", "", "x y"):
                result = tfmc("new", name, cwd=folder)
                self.assertEqual(result.returncode, 1, name)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])


class Standalone(unittest.TestCase):
    def test_needs_no_shared_llvm(self):
        libraries = run("ldd", TFMC).stdout
        self.assertNotIn("LLVM", libraries)
        self.assertNotIn("MLIR", libraries)


if __name__ == "__main__":
    main()
