"""What the scripts of this folder have in common: their programs, words and ends."""

import pathlib
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def say(text):
    print(text, file=sys.stderr, flush=True)


def fail(text):
    say(f"error: {text}")
    sys.exit(1)


def completed(command, visible=False, **options):
    """A command that must succeed, with its standard output and, unless that is `visible`, error as text."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                          stderr=None if visible else subprocess.PIPE, text=True, check=False, **options)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{(done.stderr or '')[-2000:]}")
    return done


def checked(command, **options):
    """The standard output of a command that must succeed."""
    return completed(command, **options).stdout


def add_tfmc(parser):
    parser.add_argument("--tfmc", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "tfmc",
                        help="the compiler (default: that of scripts/build.sh)")


def parse(parser):
    """The command line, where there is a compiler. Whoever ends a script early
    (timeout) gets its temporary files removed."""
    options = parser.parse_args()
    if not options.tfmc.exists():
        parser.error(f"{options.tfmc} is missing: run scripts/build.sh tfmc, or name another with --tfmc")
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    return options
