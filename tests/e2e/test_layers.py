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
    "compiler/target": ["compiler/dialect", "compiler/schedule", "runtime/philox.h"],
    # No kernels: `tfmc check` is a frontend alone.
    "compiler/frontend": ["compiler/support", "compiler/dialect", "runtime"],
    "compiler/report": ["compiler/support", "compiler/dialect", "compiler/transforms", "runtime"],
    "compiler/driver": ["compiler/dialect", "compiler/transforms", "compiler/schedule", "compiler/target",
                        "compiler/frontend", "runtime"],
    "compiler/tools": ["compiler", "runtime"],
}

# A target's folder, and who reaches into it from outside: its registration alone, as everything else
# asks for a target by its name.
TARGETS = {
    "compiler/target/cpu": {
        "compiler/tools/tfm-opt/tfm-opt.cpp",
        # Until a target's interface emits code, too.
        "compiler/driver/Build.cpp",
        "compiler/driver/Compile.cpp",
        "compiler/tools/tfmc/ReportCommand.cpp",
        "compiler/tools/tfmc/RunCommand.cpp",
    },
}


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

    def test_no_folder_knows_what_is_above_it(self):
        wrong = []
        for file, included in includes():
            (layer,) = (folder for folder in LAYERS if within(file, folder))
            if included != "runtime/tfm_model.h" and \
                    not any(within(included, allowed) for allowed in [layer, *LAYERS[layer]]):
                wrong.append(f"{file} includes {included}")
        self.assertEqual(wrong, [])

    def test_only_its_registration_knows_a_target(self):
        for target, allowed in TARGETS.items():
            self.assertTrue((ROOT / target).is_dir(), target)
            found = {file: included for file, included in includes()
                     if within(included, target) and not within(file, target)}
            self.assertEqual({f"{file} includes {found[file]}" for file in set(found) - allowed}, set())
            self.assertEqual({f"{file} no longer includes from {target}" for file in allowed - set(found)}, set())


if __name__ == "__main__":
    main()
