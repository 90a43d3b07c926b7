"""Which folder may know which: what `#include` lines say, beside the table here."""

import re
import unittest

from support import ROOT, main

INCLUDE = re.compile(r'^\s*#\s*include\s+"((?:compiler|runtime)/[^"]+)"', re.MULTILINE)

# What each folder (with those below it) may include from, beside itself. `runtime/tfm_model.h`, the
# interface of a compiled model, is everybody's.
LAYERS = {
    "runtime": [],
    "compiler/support": [],
    "compiler/dialect": [],
    "compiler/oracle": ["compiler/dialect"],
    "compiler/transforms": ["compiler/dialect", "runtime/recipe_table.h"],
    "compiler/schedule": ["compiler/dialect", "compiler/transforms", "compiler/target/KernelTarget.h"],
    "compiler/target": ["compiler/dialect", "compiler/schedule", "runtime/philox.h",
                        "runtime/device/cpu_features.h", "runtime/device/variant.h",
                        "runtime/support/temporaries.h"],
    # No kernels: `tfmc check` is a frontend alone.
    "compiler/frontend": ["compiler/support", "compiler/dialect", "runtime"],
    "compiler/report": ["compiler/support", "compiler/dialect", "compiler/transforms", "runtime"],
    "compiler/driver": ["compiler/dialect", "compiler/transforms", "compiler/schedule", "compiler/target",
                        "compiler/frontend", "compiler/report", "runtime"],
    "compiler/tools": ["compiler", "runtime"],
}

# The folders of the runtime, from the lowest: each may include from those before it. `runtime` is the
# files beside them; `main.cpp`, the entry, is above all.
RUNTIME = ["support", "runtime", "comm", "device", "model", "formats", "tokenizer", "chat", "data", "files",
           "generation", "training", "commands"]

# A target's folder, and who reaches into it from outside: its registration alone, as everything else
# asks for a target by its name.
TARGETS = {
    "compiler/target/cpu": {"compiler/driver/Pipelines.cpp"},
    "compiler/target/cuda": {"compiler/driver/Pipelines.cpp"},
}

# Who has a device, and with it the arena's bytes, by name: it itself and the commands that make one.
# Everybody else knows `Device`, which reads and writes what it is asked for.
DEVICE = "runtime/device/cpu_device.h"
HAVE_A_DEVICE = {
    "runtime/device/choose_device.cpp",
    "runtime/device/cpu_device.cpp",
    "runtime/commands/export.cpp",
}
# What names a place in the arena: fields of the descriptor that `Model` alone turns into reads and
# writes, and the arena's first byte, which is there for tests.
PLACE = re.compile(r"(?:\.|->)(?:offset|gradient)\b|\bparameter\.(?:value|state)\b|\bmodel(?:\.|->)place\(|\barenaBytes\b")
KNOW_PLACES = {"runtime/model/model.cpp", "runtime/model/model.h"}


def within(path, folder):
    return path == folder or path.startswith(folder + "/")


def includes():
    """(file, what it includes), by their paths from the root, of all sources that ship."""
    for top in ("compiler", "runtime"):
        for file in sorted((ROOT / top).rglob("*")):
            if file.suffix in (".h", ".cpp", ".c", ".in"):
                for included in INCLUDE.findall(file.read_text()):
                    yield file.relative_to(ROOT).as_posix(), included


class Layers(unittest.TestCase):
    def test_every_folder_has_a_layer(self):
        folders = {f"compiler/{path.name}" for path in (ROOT / "compiler").iterdir()
                   if path.is_dir() and any(path.rglob("*.cpp"))}
        self.assertEqual(folders | {"runtime"}, set(LAYERS))

    def test_includes_are_named_from_the_root(self):
        # Else the tables do not see them.
        relative = [f"{file.relative_to(ROOT)}: {line}" for top in ("compiler", "runtime")
                    for file in (ROOT / top).rglob("*") if file.suffix in (".h", ".cpp", ".c")
                    for line in file.read_text().splitlines() if re.match(r'\s*#\s*include\s+"\.', line)]
        self.assertEqual(relative, [])

    def test_no_folder_knows_what_is_above_it(self):
        wrong = []
        for file, included in includes():
            (layer,) = (folder for folder in LAYERS if within(file, folder))
            if included != "runtime/tfm_model.h" and \
                    not any(within(included, allowed) for allowed in [layer, *LAYERS[layer]]):
                wrong.append(f"{file} includes {included}")
        self.assertEqual(wrong, [])

    def test_no_folder_of_the_runtime_knows_what_is_above_it(self):
        self.assertEqual({path.name for path in (ROOT / "runtime").iterdir() if path.is_dir()} | {"runtime"},
                         set(RUNTIME))
        height = {folder: i for i, folder in enumerate(RUNTIME)}
        wrong = [f"{file} includes {included}" for file, included in includes()
                 if within(file, "runtime") and file != "runtime/main.cpp"
                 and height[included.split("/")[-2]] > height[file.split("/")[-2]]]
        self.assertEqual(wrong, [])

    def test_only_its_registration_knows_a_target(self):
        for target, allowed in TARGETS.items():
            self.assertTrue((ROOT / target).is_dir(), target)
            found = {file: included for file, included in includes()
                     if within(included, target) and not within(file, target)}
            self.assertEqual({f"{file} includes {found[file]}" for file in set(found) - allowed}, set())
            self.assertEqual({f"{file} no longer includes from {target}" for file in allowed - set(found)}, set())

    def test_the_arena_is_reached_through_the_device(self):
        found = {file for file, included in includes() if included == DEVICE}
        self.assertEqual(found, HAVE_A_DEVICE)
        places = [f"{file.relative_to(ROOT)}: {line.strip()}"
                  for file in sorted((ROOT / "runtime").rglob("*.[hc]*"))
                  if file.parent.name != "device" and file.relative_to(ROOT).as_posix() not in KNOW_PLACES
                  for line in file.read_text().splitlines() if PLACE.search(line.partition("//")[0])]
        self.assertEqual(places, [])


if __name__ == "__main__":
    main()
