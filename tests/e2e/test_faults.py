"""What a kill, an interruption, a full disk and a broken one leave behind, at every
file call that the programs make. faults.py has the machinery."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import threading
import time
import unittest

from faults import (ALL, KILLED, Call, Lab, content, differences, digest, in_parallel, report,
                    spread, without_times)
from support import TFMC, main, run, save_arrays

TALE = "one fish two fish red fish blue fish\n" * 20
# Few parameters, and everything that writes: validation, samples, checkpoints. The
# last step has a checkpoint of its own, and a validation as it is the last.
TINY = """
model Tiny(vocab = tokenizer.size, context = 8, width = 4) {
  e   = Embedding(vocab, width)
  out = Linear(width, vocab)
  forward(tokens: int[B, T]) -> [B, T, vocab] { return out(e(tokens)) }
}
tokenizer chars("\\n abdefhilnorstuw")
data text("tale.txt", validation = 0.1)
train {
  batch = 2, sequence = 8, steps = 15, optimizer = adamw(lr = 0.1),
  validate = every(2), sample = every(3, prompt = "red", tokens = 4), CHECKPOINT
}
"""
STEPS = 15
CHECKPOINTS = (5, 10, 15)


def plain(files):
    """The files of a run without what a clock says in them, and what depends on that."""
    result = dict(files)
    for name, data in files.items():
        if name.endswith("state.json"):
            try:
                state = json.loads(data)
            except ValueError:  # half of it
                continue
            state.pop("checksum", None)
            state.get("checksums", {}).pop("log.jsonl", None)
            result[name] = json.dumps(state).encode()
        elif name.endswith("log.jsonl"):
            # That of an older checkpoint is the run's, which goes on behind what it counts.
            state = files.get(name.replace("log.jsonl", "state.json"))
            counted = json.loads(state)["log_bytes"] if state and "step-" in name else len(data)
            result[name] = "\n".join(without_times(line) for line in
                                     data[:counted].decode().splitlines(keepends=True)).encode()
    return result


@dataclasses.dataclass(frozen=True)
class State:
    """A run that was broken off: its folder, and what must be true of it."""
    folder: pathlib.Path
    required: int  # the step of the last checkpoint that was complete
    how: str


def samples(ended):
    """What a training printed, but for the last line, which says how long it took."""
    return ended.stdout.splitlines()[:-1]


# The end of a temporary name.
TEMPORARY = re.compile(r"(\.[0-9a-f]{8})?\.(next|tmp|partial)($|[./].*)")


def unnamed(ended, number, outputs):
    """Whether a failure at a call is told without the name of its file: the path, or where that
    is temporary, the output it was for."""
    names = set()
    for call in ended.calls[number - 1:]:
        for path in (call.path, call.to):
            names |= {pathlib.PurePath(path).name, TEMPORARY.sub("", path)}
            names |= {output for output in outputs if path == "." or path.startswith((output, ".tfm-"))}
    if any(name and name in ended.stderr for name in names):
        return ""
    return f"no file is named: {ended}"


class Training(unittest.TestCase):
    """A training that writes everything, killed, interrupted and refused room."""

    @classmethod
    def setUpClass(cls):
        cls.lab = Lab()
        (cls.lab.inputs / "tale.txt").write_text(TALE)
        source = cls.lab.root / "tiny.tfm"
        source.write_text(TINY.replace("CHECKPOINT", "checkpoint = every(5, keep = 2)"))
        binary = cls.lab.root / "tiny"
        built = run(TFMC, "build", "../tiny.tfm", "-o", binary, cwd=cls.lab.inputs)
        if built.returncode != 0:
            raise AssertionError(built.stderr)
        cls.train = [binary, "train", "--seed", "7", "--threads", "1", "--out", "run"]
        cls.another = [binary, "train", "--seed", "8", "--threads", "1", "--out", "run"]
        cls.resume = [binary, "train", "--threads", "1", "--resume", "run"]
        cls.export = [binary, "export", "--weights", "run", "-o", "weights.safetensors"]
        folder = cls.lab.folder()
        cls.whole = cls.lab.run(folder, cls.train)
        assert cls.whole.status == 0, cls.whole
        cls.files = plain(content(folder / "run"))
        cls.gone_on = {}
        cls.lock = threading.Lock()

    @classmethod
    def tearDownClass(cls):
        cls.lab.remove()

    # What must be true of a run that was broken off.

    @staticmethod
    def checkpoint_after(calls):
        """The step of the last checkpoint that is complete after the calls."""
        done = sum(call.to == "run/state.json.next" for call in calls)
        return (0, *CHECKPOINTS)[min(done, len(CHECKPOINTS))]

    def go_on(self, folder):
        """Goes on as a user does: with --resume, or with the same command where it says that
        there is nothing to resume. What is wrong with that, and the step it went on from."""
        resumed = ended = self.lab.run(folder, self.resume)
        if resumed.status == 1:
            ended = self.lab.run(folder, self.train)
        if ended.status != 0:
            anew = "" if ended is resumed else f"; anew: {ended}"
            return f"cannot go on: {resumed}{anew}", 0
        since = re.search(r"\((\d+) to \d+\)", ended.stdout)
        first = int(since[1]) if since else STEPS if "is complete" in ended.stdout else 0
        return differences(plain(content(folder / "run")), self.files), first

    def problem(self, state):
        """What is wrong with a run that was broken off, if anything; its folder is used up."""
        found = plain(content(state.folder))
        key = digest(found), state.required > 0
        with self.lock:
            known = self.gone_on.get(key)
        if known is None:
            words = []
            if state.required > 0:
                before = content(state.folder / "run")
                anew = self.lab.run(state.folder, self.train)
                if anew.status != 1 or content(state.folder / "run") != before:
                    words.append(f"the same command is not refused: {anew}")
                weights = self.lab.run(state.folder, self.export)
                if weights.status != 0:
                    words.append(f"no whole weights: {weights}")
            words_of_resume, first = self.go_on(state.folder)
            known = "; ".join(words + [words_of_resume] * bool(words_of_resume)), first
            with self.lock:
                self.gone_on[key] = known
        words, first = known
        shutil.rmtree(state.folder)
        if not words and first < state.required:
            words = f"goes on from step {first}, though {state.required} was saved"
        return words and (state.how, words)

    # Kills.

    @staticmethod
    def kills(calls):
        """Every place to kill at. Behind a call the disk is as it is before the next one."""
        for call in calls:
            yield call, "before"
            if call.writes and call.size > 1:
                yield call, "within"
        yield calls[-1], "after"

    def killed(self, command, kill, like=None):
        """What a kill at a call leaves."""
        call, moment = kill
        folder = self.lab.folder(like.folder if like else None)
        fault = f"kill {moment} {call.number}"
        ended = self.lab.run(folder, command, fault)
        how = f"{like.how + ', then ' if like else ''}{fault} ({call.name} {call.path})"
        if ended.status != KILLED:
            raise AssertionError(f"{how} was not killed: {ended}")
        # Of a resumed run it is not known which of its renames finish an older checkpoint.
        required = like.required if like else self.checkpoint_after(
            ended.calls if moment == "after" else ended.calls[:-1])
        return State(folder, required, how)

    def test_a_kill_at_any_call_loses_nothing(self):
        self.assertEqual(self.checkpoint_after(self.whole.calls), STEPS)
        places = list(self.kills(self.whole.calls))
        if ALL:  # all the same
            places += [(call, "after") for call in self.whole.calls[:-1]]
        findings = in_parallel(lambda kill: self.problem(self.killed(self.train, kill)), places)
        report(self, "a kill", len(places), findings)

    def test_a_second_kill_at_any_call_loses_nothing(self):
        # One for each thing that a first kill leaves.
        states = {}
        for kill in self.kills(self.whole.calls):
            state = self.killed(self.train, kill)
            states.setdefault(digest(plain(content(state.folder))), state)
            if states[digest(plain(content(state.folder)))] is not state:
                shutil.rmtree(state.folder)
        attempts = []
        for state in spread(states.values(), 5):
            for command in (self.resume, self.train):
                copy = self.lab.folder(state.folder)
                ended = self.lab.run(copy, command)
                shutil.rmtree(copy)
                if ended.status == 0:  # else the test above says what is wrong
                    attempts += [(command, kill, state)
                                 for kill in spread(self.kills(ended.calls), 120)]
        findings = in_parallel(lambda attempt: self.problem(self.killed(*attempt)), attempts)
        self.assertTrue(attempts)
        report(self, "a second kill", len(attempts), findings)

    def test_a_kill_while_a_run_is_overwritten_is_mended_by_the_same_command(self):
        old = self.lab.folder()
        self.assertEqual(self.lab.run(old, self.another).status, 0)
        command = [*self.train, "--overwrite"]
        copy = self.lab.folder(old)
        calls = self.lab.run(copy, command).calls
        self.assertEqual(plain(content(copy / "run")), self.files)

        def problem(kill):
            state = self.killed(command, kill, State(old, 0, "a run"))
            ended = self.lab.run(state.folder, command)
            words = differences(plain(content(state.folder / "run")), self.files)
            shutil.rmtree(state.folder)
            return (state.how, f"{ended}; {words}") if ended.status or words else None

        places = spread(self.kills(calls), 200)
        report(self, "a kill while overwriting", len(places), in_parallel(problem, places))

    # Interruptions, and what is not done.

    def test_interruptions_and_short_transfers_leave_no_trace(self):
        def trace(fault):
            folder = self.lab.folder()
            ended = self.lab.run(folder, self.train, fault)
            found = plain(content(folder / "run"))
            shutil.rmtree(folder)
            words = differences(found, self.files)
            if ended.status != 0 or words or samples(ended) != samples(self.whole):
                return fault, f"{ended}; {words}"
            return None

        numbers = range(1, len(self.whole.calls) + 1)
        faults = spread((f"{kind} at {number}" for kind in ("EINTR", "short") for number in numbers), 200)
        faults += ["EINTR from 1", "short from 1"]
        report(self, "an interruption", len(faults), in_parallel(trace, faults))

    # A disk that is full or broken.

    def broken(self, attempt):
        """What is wrong with a training at whose calls the disk fails, if anything."""
        command, fault, number, state = attempt
        folder = self.lab.folder(state.folder if state else None)
        ended = self.lab.run(folder, command, fault)
        call = Call.of(ended.calls, number)
        how = f"{state.how + ', then ' if state else ''}{fault} ({call})"
        found = plain(content(folder / "run")) if (folder / "run").exists() else {}
        # The log and the best weights are not worth a training: it ends, then says it again.
        last = (ended.stderr.splitlines() or [""])[-1].removeprefix("error: ")
        last = last.split("; all else is saved in ")[0]
        if any(line.startswith(f"warning: {last}") for line in ended.stderr.splitlines()[:-1]):
            shutil.rmtree(folder)
            isLog = "cannot write the log" in ended.stderr
            lost = r"(.*/)?(log\.jsonl|state\.json)" if isLog else r"best/.*"
            found, expected = ({name: data for name, data in files.items()
                                if not re.fullmatch(lost, name)} for files in (found, self.files))
            words = differences(found, expected)
            if ended.status != 1 or words:
                return how, f"without the log or the best weights: {ended}; {words}"
            return None
        if ended.status == 0:
            shutil.rmtree(folder)
            expected = self.files
            # Nor is a checkpoint on the way: it is missing among the older ones, and in the log.
            if "the next checkpoint is another try" in ended.stderr:
                found, expected = ({name: data for name, data in files.items()
                                    if not re.fullmatch(r"step-.*|(.*/)?(log\.jsonl|state\.json)", name)}
                                   for files in (found, expected))
            # Lines of the log that come later are not among those that a checkpoint counts.
            if "its lines are kept until there is room" in ended.stderr:
                found, expected = ({name: data for name, data in files.items()
                                    if not re.fullmatch(r"step-.*/log\.jsonl|(.*/)?state\.json", name)}
                                   for files in (found, expected))
            words = differences(found, expected)
            return words and (how, f"exit status 0, but {words}")
        if ended.status != 1:
            shutil.rmtree(folder)
            return how, f"{ended}"
        words = unnamed(ended, number, ())
        # Where nothing can be removed, nothing is; and a checkpoint that counts is finished later.
        removes = call.name in ("remove", "unlink", "rmdir") or fault.startswith("EIO from")
        if not words and not removes and "run/state.json.next" not in content(folder):
            before = content(state.folder) if state else {}
            words = ", ".join(f"{name} is left" for name in content(folder)
                              if TEMPORARY.search(name) and name not in before)
        if words:
            shutil.rmtree(folder)
            return how, words
        required = state.required if state else self.checkpoint_after(ended.calls[:number - 1])
        return self.problem(State(folder, required, how))

    def failures(self, command, ended, state=None):
        return [(command, f"{error} {kind} {call.number}", call.number, state)
                for call in ended.calls for error in ("EIO", "ENOSPC") for kind in ("at", "from")
                if error == "EIO" or call.takes_room]

    def test_a_disk_that_fails_at_any_call_keeps_the_checkpoint(self):
        attempts = spread(self.failures(self.train, self.whole), 500)
        report(self, "a failing disk", len(attempts), in_parallel(self.broken, attempts))

    def test_a_disk_that_fails_at_any_call_does_not_free_the_folder_of_a_run(self):
        folder = self.lab.folder()
        self.assertEqual(self.lab.run(folder, self.train).status, 0)
        # The folder of a run that names none.
        shutil.copytree(folder / "run", folder / "runs" / "tiny")
        before = content(folder)

        def problem(attempt):
            command, fault, number = attempt
            copy = self.lab.folder(folder)
            ended = self.lab.run(copy, command, fault)
            after = {name: data for name, data in content(copy).items()
                     if not name.startswith("runs/tiny-2")}
            words = differences(after, before)
            shutil.rmtree(copy)
            if words or ended.status not in (0, 1):
                return f"{fault} ({Call.of(ended.calls, number)})", f"{ended}; {words}"
            return None

        attempts = []
        for command in (self.another, self.another[:-2]):
            copy = self.lab.folder(folder)
            attempts += [(command, f"EIO {kind} {call.number}", call.number)
                         for call in self.lab.run(copy, command).calls for kind in ("at", "from")]
            shutil.rmtree(copy)
        attempts = spread(attempts, 200)
        report(self, "a run in the way", len(attempts), in_parallel(problem, attempts))

    def test_a_disk_that_fails_while_a_run_is_resumed_keeps_the_checkpoint(self):
        attempts = []
        for call in spread([call for call in self.whole.calls if call.to == "run/state.json"][1:], 2):
            state = self.killed(self.train, (call, "before"))
            copy = self.lab.folder(state.folder)
            ended = self.lab.run(copy, self.resume)
            if ended.status == 0:  # else a test above says what is wrong
                attempts += spread(self.failures(self.resume, ended, state), 200)
        self.assertTrue(attempts)
        report(self, "a failing disk on resume", len(attempts), in_parallel(self.broken, attempts))


@dataclasses.dataclass(frozen=True)
class Command:
    """A command that writes files, and what is there before it."""
    arguments: tuple
    outputs: tuple = ()
    status: int = 0

    def __str__(self):
        return " ".join(pathlib.PurePath(part).name for part in self.arguments)


class Commands(unittest.TestCase):
    """Everything else that writes or reads files: one call broken after the other."""

    @classmethod
    def setUpClass(cls):
        cls.lab = Lab()
        inputs = cls.lab.inputs
        (inputs / "tale.txt").write_text(TALE)
        tiny = TINY.replace("CHECKPOINT", "checkpoint = every(5)")
        (inputs / "tiny.tfm").write_text(tiny)
        (inputs / "wide.tfm").write_text(tiny.replace("  e   =", "  e =  "))
        (inputs / "arrays.tfm").write_text("model Arrays {\n  l = Linear(2, 1)\n"
                                           "  forward(x: [B, 2]) -> [B, 1] { return l(x) }\n}\n"
                                           "data arrays(\"arrays.safetensors\")\n")
        save_arrays(inputs / "arrays.safetensors", {"x": ("F16", [2, 2], [1, 2, 3, 4])})
        binary, arrays = cls.lab.root / "tiny", cls.lab.root / "arrays"
        for command in ([TFMC, "build", "tiny.tfm", "-o", binary],
                        [binary, "train", "--out", "run", "--threads", "1"],
                        [TFMC, "build", "arrays.tfm", "-o", arrays],
                        [arrays, "export", "--seed", "1", "-o", "weights.safetensors"]):
            result = run(*command, cwd=inputs)
            if result.returncode != 0:
                raise AssertionError(result.stderr)
        shutil.copy(inputs / "run" / "model.safetensors", inputs / "fish.safetensors")
        (inputs / "merges.txt").write_text(TALE)
        # In the place of the linker, which takes longer than all the rest.
        programs = cls.lab.root / "programs"
        programs.mkdir()
        (programs / "c++").write_text('#!/bin/sh\ncat "$3" > "$2"\n')
        (programs / "c++").chmod(0o755)
        cls.path = f"{programs}:{os.environ['PATH']}"
        weights = (binary, "--weights", "run")
        cls.commands = [
            Command((TFMC, "fmt", "wide.tfm"), ("wide.tfm",)),
            Command((TFMC, "check", "tiny.tfm")),
            Command((TFMC, "report", "tiny.tfm", "--format", "html", "-o", "page.html"), ("page.html",)),
            Command((TFMC, "report", "tiny.tfm", "--against", "run", "--values")),
            Command((TFMC, "tokenizer", "tale.txt", "--merges", "5", "-o", "words", "--overwrite"),
                    ("words/vocab.json", "words/merges.txt")),
            Command((TFMC, "plot", "run", "-o", "curves.html"), ("curves.html",)),
            Command((TFMC, "new", "fresh")),
            Command((TFMC, "build", "tiny.tfm", "--emit", "obj", "-o", "tiny.o"), ("tiny.o",)),
            Command((TFMC, "build", "tiny.tfm", "-o", "program"), ("program",)),
            Command((binary, "export", *weights[1:], "-o", "alone.safetensors"), ("alone.safetensors",)),
            Command((binary, "logits", *weights[1:], "--prompt", "red", "-o", "logits.safetensors"),
                    ("logits.safetensors",)),
            Command((arrays, "predict", "--weights", "weights.safetensors", "--data", "arrays.safetensors", "-o",
                     "results.safetensors"), ("results.safetensors",)),
            Command((binary, "eval", *weights[1:])),
            Command((binary, "generate", *weights[1:], "--prompt", "red", "--tokens", "5", "--greedy")),
            Command((binary, "data", "--count", "1")),
            # What is refused, lest it destroy what is read or kept.
            Command((TFMC, "new", "tiny"), status=1),
            Command((TFMC, "report", "tiny.tfm", "-o", "./tiny.tfm"), status=1),
            Command((TFMC, "build", "tiny.tfm", "--emit", "ast", "-o", "./tiny.tfm"), status=1),
            Command((TFMC, "tokenizer", "merges.txt", "-o", "."), status=1),
            Command((TFMC, "plot", "run", "-o", "run/log.jsonl"), status=1),
            Command((binary, "export", *weights[1:], "-o", "run/optimizer.safetensors"), status=1),
            Command((binary, "export", "--weights", "fish.safetensors", "-o", "fish.safetensors"), status=1),
            Command((arrays, "predict", "--weights", "weights.safetensors", "--data", "arrays.safetensors", "-o",
                     "arrays.safetensors"), status=1),
            Command((binary, "train", "--threads", "1", "--log", "run/model.safetensors"), status=1),
            Command((binary, "train", "--threads", "1", "--log", "tale.txt"), status=1),
        ]

    @classmethod
    def tearDownClass(cls):
        cls.lab.remove()

    def folder(self, command, is_new):
        """Inputs, and what the outputs are to replace."""
        folder = self.lab.folder()
        (folder / "temporary").mkdir()
        for output in () if is_new else command.outputs:
            path = folder / output
            path.parent.mkdir(exist_ok=True)
            if path.suffix == ".safetensors": # which is the command's own
                header = json.dumps({"__metadata__": {"tfm.written_by": command.arguments[1]}}).encode()
                path.write_bytes(struct.pack("<Q", len(header)) + header)
            elif not path.exists():
                path.write_text("what was there before\n")
        return folder

    def run_in(self, folder, command, fault=""):
        return self.lab.run(folder, command.arguments, fault, PATH=self.path,
                            TMPDIR=str(folder / "temporary"))

    @staticmethod
    def removes(ended, number):
        """Whether the broken call is to remove a file, or looks whether it is there for that."""
        calls = ended.calls[number - 1:number + 1]
        return any(call.name in ("unlink", "unlinkat", "remove", "rmdir") and call.path == calls[0].path for call in calls)

    def problem(self, attempt):
        """What is wrong with a command of which one call is broken, if anything."""
        command, fault, number, is_new, whole = attempt
        folder = self.folder(command, is_new)
        before = content(folder)
        ended = self.run_in(folder, command, fault)
        found = content(folder)
        shutil.rmtree(folder)
        how = f"{command}: {fault} ({Call.of(ended.calls, number)})"
        expected, expected_files = whole
        if fault.startswith("kill"):
            # What is temporary stays.
            found = {name: data for name, data in found.items()
                     if name in before or name in expected_files}
            if ended.status != KILLED:
                return how, f"{ended}"
        elif ended.status == expected.status:
            if self.removes(ended, number):
                found = {name: data for name, data in found.items()
                         if name in before or name in expected_files}
            words = differences(found, expected_files)
            if ended.status == 0 and ended.stdout != expected.stdout:
                words += f"; standard output is {ended.stdout!r}"
            return words and (how, f"exit status {ended.status}, but {words}")
        elif ended.status != 1 or fault.startswith(("EINTR", "short")):
            return how, f"{ended}"
        elif words := unnamed(ended, number, command.outputs):
            return how, words
        words = [f"{name} is {'neither' if name in found else 'gone, not'} what was there nor the "
                 "new one" for name, data in {**before, **expected_files}.items()
                 if found.get(name) not in (before.get(name), expected_files.get(name))]
        # Where nothing can be removed, nothing is.
        if not fault.startswith("EIO from") and not self.removes(ended, number):
            words += [f"{name} is left" for name in found
                      if name not in before and name not in expected_files]
        return words and (how, "; ".join(words))

    @staticmethod
    def some(command, calls):
        """The calls to break. Compiling takes long, and has few calls that others have not."""
        return spread(calls, 8 if "build" in command.arguments else 18)

    def attempts(self, faults):
        """Each command with each of its calls, and what the faults of that are."""
        result = []
        for command in self.commands:
            for is_new in (False, True) if command.outputs else (False,):
                folder = self.folder(command, is_new)
                ended = self.run_in(folder, command)
                self.assertEqual(ended.status, command.status, (str(command), ended))
                whole = ended, content(folder)
                shutil.rmtree(folder)
                result += [(command, fault, call.number, is_new, whole)
                           for call in self.some(command, ended.calls) for fault in faults(call)]
        return result

    def test_a_disk_that_fails_at_any_call(self):
        attempts = self.attempts(lambda call: [
            f"{error} {kind} {call.number}" for error in ("EIO", "ENOSPC") for kind in ("at", "from")
            if error == "EIO" or call.takes_room])
        report(self, "a failing disk", len(attempts), in_parallel(self.problem, attempts))

    def test_a_disk_that_fails_at_what_only_a_build_needs(self):
        # Files in the folder that it works in, of which the test above breaks few.
        command = next(command for command in self.commands if command.outputs == ("program",))
        folder = self.folder(command, is_new=True)
        ended = self.run_in(folder, command)
        whole = ended, content(folder)
        shutil.rmtree(folder)
        attempts = [(command, f"{error} at {call.number}", call.number, True, whole)
                    for call in ended.calls if call.path.startswith(".tfm-")
                    for error in ("EIO", "ENOSPC") if error == "EIO" or call.takes_room]
        self.assertTrue(attempts)
        report(self, "a failing disk at temporary files", len(attempts),
               in_parallel(self.problem, attempts))

    def test_interruptions_and_short_transfers(self):
        attempts = self.attempts(lambda call: [f"{kind} at {call.number}" for kind in ("EINTR", "short")])
        report(self, "an interruption", len(attempts), in_parallel(self.problem, attempts))

    def test_a_kill_at_any_call(self):
        attempts = self.attempts(lambda call: [
            f"kill {moment} {call.number}" for moment in ("before", "within", "after")
            if moment == "before" or moment == "after" and ALL or moment == "within" and call.writes])
        report(self, "a kill", len(attempts), in_parallel(self.problem, attempts))


    def test_a_build_that_is_ended_leaves_nothing(self):
        programs = self.lab.root / "slow"
        programs.mkdir()
        linker = programs / "c++"
        linker.write_text("#!/bin/sh\ntouch \"${2%/*}/begun\"\nexec sleep 60\n")
        linker.chmod(0o755)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number):
                folder = self.folder(Command((), ("program",)), is_new=False)
                before = content(folder)
                with subprocess.Popen([TFMC, "build", "tiny.tfm", "-o", "program"], cwd=folder,
                                      env=dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}"),
                                      preexec_fn=lambda: (os.setpgrp(), signal.signal(number, signal.SIG_DFL)),
                                      stderr=subprocess.DEVNULL) as process:
                    while not list(folder.glob(".tfm-*/begun")):
                        self.assertIsNone(process.poll())
                        time.sleep(0.01)
                    process.send_signal(number)
                    self.assertEqual(process.wait(), -number)
                    os.killpg(process.pid, signal.SIGKILL)
                self.assertEqual(content(folder), before)
                self.assertEqual(list(folder.glob(".tfm-*")), [])

    def test_a_linker_that_fails(self):
        programs = self.lab.root / "linkers"
        programs.mkdir()
        linker = programs / "c++"
        command = (TFMC, "build", "tiny.tfm", "-o", "program")
        for script, word in (('head -c 9 "$3" > "$2"; echo no room >&2; exit 1', "no room"),
                             ('head -c 9 "$3" > "$2"; kill -9 $$', "c++ says"),
                             ("exit 0", "No such file"), ("exit 1", "c++ has ended with exit status 1")):
            linker.write_text(f"#!/bin/sh\n{script}\n")
            linker.chmod(0o755)
            for is_new in (False, True):
                with self.subTest(script, is_new=is_new):
                    folder = self.folder(Command(command, ("program",)), is_new)
                    before = content(folder)
                    ended = self.lab.run(folder, command, PATH=f"{programs}:{os.environ['PATH']}",
                                         TMPDIR=str(folder / "temporary"))
                    self.assertEqual(ended.status, 1, ended)
                    self.assertIn("cannot write program: ", ended.stderr)
                    self.assertIn(word, ended.stderr)
                    self.assertEqual(content(folder), before)


if __name__ == "__main__":
    main()
