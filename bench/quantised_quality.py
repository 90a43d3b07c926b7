#!/usr/bin/env python3
"""What fewer bits of weights cost a model that was really trained.

Trains `models/shakespeare.tfm` by its recipe on the shipped text, and evaluates
it on what validation keeps of that text in builds for generation: with weights
in f32, bf16, in 8 and in 4 bits. Prints their losses, and fails where one is
further from that of f32 than it may be.

  bench/quantised_quality.py [--run FOLDER] [--json]
"""

import argparse
import json
import pathlib
import sys
import tempfile

import measuring
from measuring import ROOT, checked

MODEL = ROOT / "models" / "shakespeare.tfm"
# Of the loss, as a share of that of f32.
ALLOWED = {"f32": 0.0, "bf16": 0.001, "int8": 0.001, "int4": 0.02}


def losses(options, scratch):
    run = options.run
    if run is None:
        trainer, run = scratch / "train", scratch / "run"
        checked([options.tfmc, "build", MODEL, "-o", trainer])
        checked([trainer, "train", "--out", run], visible=True)
    result = {}
    for kind in ALLOWED:
        binary = scratch / kind
        checked([options.tfmc, "build", MODEL, "-D", f"generate.weights={kind}", "-o", binary])
        result[kind] = json.loads(checked([binary, "eval", "--weights", run, "--json"]))["loss"]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=pathlib.Path, help="of a training that is over, in place of a new one")
    measuring.add_tfmc(parser)
    parser.add_argument("--json", action="store_true", help="the losses as one JSON object")
    options = measuring.parse(parser)
    with tempfile.TemporaryDirectory(prefix="tfm-quality-") as scratch:
        measured = losses(options, pathlib.Path(scratch))
    apart = {kind: measured[kind] / measured["f32"] - 1 for kind in ALLOWED}
    met = {kind: abs(apart[kind]) <= allowed for kind, allowed in ALLOWED.items()}
    if options.json:
        print(json.dumps({"format": 1, "loss": measured, "apart": apart, "met": met}, indent=1))
    else:
        for kind, loss in measured.items():
            print(f"{kind:5} loss {loss:.5f}  {100 * apart[kind]:+.3f}% (at most {100 * ALLOWED[kind]:.1f}%)"
                  f"  {'yes' if met[kind] else 'NO'}")
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
