# The lit suite: run with
#   /usr/lib/llvm-22/bin/lit -sv --param build=build/release tests/lit
import os

import lit.formats

config.name = "tfm"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".tfm", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
root = os.path.dirname(os.path.dirname(config.test_source_root))
build = os.path.abspath(lit_config.params.get("build", os.path.join(root, "build", "release")))
config.test_exec_root = os.path.join(build, "lit")

# Output must not depend on the terminal or the language of who runs the tests.
if "ASAN_OPTIONS" in os.environ:
    config.environment["ASAN_OPTIONS"] = os.environ["ASAN_OPTIONS"]
config.environment["NO_COLOR"] = "1"
config.environment["LC_ALL"] = "C.UTF-8"
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(build, "bin"), "/usr/lib/llvm-22/bin", os.environ["PATH"]])

config.substitutions.append(("%root", root))
config.substitutions.append(("%models", os.path.join(root, "models")))
