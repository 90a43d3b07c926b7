#!/usr/bin/env python3
"""Weights of every family that we export, in Hugging Face transformers.

Imports and builds each checkpoint of tests/fixtures/families, exports its weights as a folder with a config.json that
the family's table makes, and loads that with `from_pretrained`: no tensor may be missing or unexpected, and the logits
must be those of the checkpoint. Needs the packages torch, transformers and safetensors:

    python3 tests/peers/transformers_families.py [CASE...]
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TFMC = pathlib.Path(os.environ.get("TFM_BUILD", ROOT / "build" / "release")) / "bin" / "tfmc"
FAMILIES = ROOT / "tests" / "fixtures" / "families"
TOLERANCE = 2e-6
# What its classes call the inputs of models that are no decoders.
INPUTS = {"tokens": "input_ids", "segments": "token_type_ids", "present": "attention_mask", "source": "input_ids",
          "target": "decoder_input_ids"}


def run(*command, cwd):
    result = subprocess.run([str(part) for part in command], cwd=cwd, text=True, capture_output=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr}")


def export(case, folder):
    """The folder of weights without a config.json of their own."""
    folder.mkdir()
    run(TFMC, "import", FAMILIES / case, "-o", "m.tfm", cwd=folder)
    run(TFMC, "build", "m.tfm", "-o", "m", cwd=folder)
    run("./m", "export", "--weights", FAMILIES / case / "model.safetensors", "-o", "out/", cwd=folder)
    return folder / "out"


def compare(case, folder):
    expected = json.loads((FAMILIES / case / "expected.json").read_text())
    # Tokens with a meaning are the tokenizer's; what they are by default lies beyond so small a vocabulary.
    config = json.loads((folder / "config.json").read_text())
    stored = json.loads((FAMILIES / case / "config.json").read_text())
    config.update({key: value for key, value in stored.items() if key.endswith("_token_id")})
    (folder / "config.json").write_text(json.dumps(config))
    kind = getattr(transformers, expected["case"].get("class", "AutoModelForCausalLM"))
    # Falcon's `eager` attention adds the biases of ALiBi twice.
    attention = "sdpa" if config.get("alibi") else "eager"
    model, info = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation=attention,
                                       output_loading_info=True)
    wrong = {kind: names for kind, names in info.items() if names}
    if wrong:
        sys.exit(f"{case}: transformers does not read it as it is: {wrong}")
    with torch.no_grad():
        inputs = expected.get("inputs", {"tokens": expected["ids"]})
        found = model.eval()(**{INPUTS[name]: torch.tensor([values]) for name, values in inputs.items()})
    logits = next(found[name] for name in ("logits", "prediction_logits", "last_hidden_state") if name in found)[0]
    theirs = torch.tensor(expected["logits"])
    error = ((logits - theirs).abs().max() / theirs.abs().max()).item()
    print(f"{case}: {model.__class__.__name__}, logits differ by {error:.1e} of the largest")
    if not error <= TOLERANCE or json.loads((folder / "config.json").read_text())["architectures"] != \
            [model.__class__.__name__]:
        sys.exit(f"{case}: more than {TOLERANCE:.0e}, or another class")


def main():
    transformers.logging.set_verbosity_error()
    cases = sys.argv[1:] or sorted(path.parent.name for path in FAMILIES.glob("*/expected.json"))
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        folders = list(pool.map(lambda case: export(case, pathlib.Path(scratch) / case), cases))
        for case, folder in zip(cases, folders):
            compare(case, folder)


if __name__ == "__main__":
    main()
