#!/usr/bin/env python3
"""What training in bf16 costs: the losses of GPT-2 beside those of f32.

Trains GPT-2 124M on the shipped text, 4 sequences of 64 tokens a step, with
each seed in f32 and in bf16. Compares the losses of training, as means over
the seeds of the ten steps up to every 50th one, and those of validation at the
end; fails where they are further apart than they may be.

  bench/training_quality.py [--cpu NAME] [--seeds 1337,1,2] [--steps 500] [--runs FOLDER] [--json]

With --runs a run that is over there is not trained again, so that a comparison
that takes an hour can be ended and gone on with.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import measuring
from measuring import ROOT, checked, say

# By tokens and steps as GPT-2 is compared with PyTorch (gpt2_train.tfm).
MODEL = f"""import "{ROOT}/models/gpt2.tfm"

model = GPT2(drop = 0.0)
tokenizer gpt2("{ROOT}/models/gpt2/vocab.json", "{ROOT}/models/gpt2/merges.txt")
data text("{ROOT}/models/tinyshakespeare.txt", validation = 0.1)

train {{
  batch      = 4
  sequence   = 64
  optimizer  = adamw(lr = 6e-4, betas = (0.9, 0.95), weight_decay = 0.1, decay = rank >= 2)
  schedule   = cosine(warmup = 100, final = 6e-5)
  clip       = 1.0
  steps      = 500
  checkpoint = none
}}
"""
PRECISIONS = ("f32", "bf16")
EVERY, WINDOW = 50, 10
ALLOWED = 0.005


def train(binary, folder, seed, steps):
    """The losses of the steps, and that of validation at the end."""
    log = folder / "log.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    if not any("validation_loss" in line for line in lines):
        say(f"training {folder.name}")
        checked([binary, "train", "--seed", seed, "--steps", steps, "--out", folder, "--overwrite"])
        for weights in folder.rglob("*.safetensors"): # 2 GB that nobody asks for
            weights.unlink()
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    if len(losses) != steps:
        measuring.fail(f"{folder} has {len(losses)} steps and not {steps}: remove it, or name another folder with --runs")
    return losses, next(line["validation_loss"] for line in lines if "validation_loss" in line)


def compare(options, folder):
    """By step, and at the end: means over the seeds in both precisions."""
    model = folder / "model.tfm"
    model.write_text(MODEL)
    losses, final = {}, {}
    for precision in PRECISIONS:
        binary = folder / precision
        checked([options.tfmc, "build", model, "-D", f"train.precision={precision}", "--cpu", options.cpu, "-o", binary])
        runs = [train(binary, folder / f"{options.cpu}-{precision}-{seed}", seed, options.steps) for seed in options.seeds]
        losses[precision] = [statistics.fmean(step) for step in zip(*(run[0] for run in runs))]
        final[precision] = statistics.fmean(run[1] for run in runs)
    compared = {}
    for step in range(EVERY, options.steps + 1, EVERY):
        compared[f"steps to {step}"] = {precision: statistics.fmean(losses[precision][step - WINDOW:step])
                                        for precision in PRECISIONS}
    compared["validation"] = final
    for means in compared.values():
        means["apart"] = means["bf16"] / means["f32"] - 1
    return compared


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", default="native", help="the processor to compile for: znver4 multiplies pairs of bf16, "
                        "also on Intel's processors that have AVX512-BF16 (default: %(default)s)")
    parser.add_argument("--seeds", default="1337,1,2", type=lambda text: [int(seed) for seed in text.split(",")],
                        help="(default: %(default)s)")
    parser.add_argument("--steps", default=500, type=int, help="of each training (default: %(default)s)")
    parser.add_argument("--runs", type=pathlib.Path, help="where the runs are, and stay")
    measuring.add_tfmc(parser)
    parser.add_argument("--json", action="store_true", help="the losses as one JSON object")
    options = measuring.parse(parser)
    with tempfile.TemporaryDirectory(prefix="tfm-quality-") as scratch:
        folder = pathlib.Path(options.runs or scratch).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        compared = compare(options, folder)
    met = all(abs(means["apart"]) <= ALLOWED for means in compared.values())
    if options.json:
        print(json.dumps({"format": 1, "losses": compared, "met": met}, indent=1))
    else:
        for name, means in compared.items():
            print(f"{name:12} f32 {means['f32']:.4f}  bf16 {means['bf16']:.4f}  {100 * means['apart']:+.2f}%")
        print(f"at most {100 * ALLOWED:.1f}% apart: {'yes' if met else 'NO'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
