#!/usr/bin/env python3
"""Weights that we train, in Hugging Face transformers, and the other way round.

Trains small GPT-2 and Llama models with our binaries, loads the run directories
with `from_pretrained` and compares the logits at every position with those of
`./m logits`; then lets transformers save them in shards, and our binary load these.
Needs the packages torch, transformers and safetensors:

    python3 tests/peers/transformers_round_trip.py [--fixture tests/fixtures/trained]

`--fixture` writes the GPT-2 run and the logits that transformers gave for it: what
tests/e2e/test_generate.py compares with where these packages are not installed.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TFMC = pathlib.Path(os.environ.get("TFM_BUILD", ROOT / "build" / "release")) / "bin" / "tfmc"
FIXTURES = ROOT / "tests" / "fixtures"

# As in the README of the fixtures: of the largest logit, in f64.
TOLERANCE = 1e-5

GPT2 = {
    "fixture": "gpt2_tiny",
    "sizes": {"vocab": 101, "context": 32, "width": 16, "heads": 2, "layers": 2},
    "config": lambda s: transformers.GPT2Config(
        vocab_size=s["vocab"], n_positions=s["context"], n_embd=s["width"], n_head=s["heads"],
        n_layer=s["layers"], bos_token_id=None, eos_token_id=None),
    "model": transformers.GPT2LMHeadModel,
}
LLAMA = {
    "fixture": "llama_tiny",
    "sizes": {"vocab": 101, "width": 24, "hidden": 40, "layers": 2, "heads": 6, "kv_heads": 2,
              "context": 64},
    "config": lambda s: transformers.LlamaConfig(
        vocab_size=s["vocab"], hidden_size=s["width"], intermediate_size=s["hidden"],
        num_hidden_layers=s["layers"], num_attention_heads=s["heads"],
        num_key_value_heads=s["kv_heads"], max_position_embeddings=s["context"],
        tie_word_embeddings=False, bos_token_id=None, eos_token_id=None),
    "model": transformers.LlamaForCausalLM,
}


def run(*command, cwd):
    result = subprocess.run([str(part) for part in command], cwd=cwd, text=True,
                            capture_output=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr}")


def train(peer, folder):
    """A binary, and a run directory with a config.json for transformers."""
    source = (FIXTURES / peer["fixture"] / "model.tfm").read_text()
    source = source.replace("../../..", str(ROOT)).replace("tokenizer bytes\n", "")
    (folder / "model.tfm").write_text(source + '\ndata tokens("ids.bin")\n')
    ids = torch.tensor([(i * i + 3 * i) % 101 for i in range(2000)], dtype=torch.int16)
    (folder / "ids.bin").write_bytes(ids.numpy().tobytes())
    defines = [part for name, value in peer["sizes"].items() if f"{name} =" in source
               for part in ("-D", f"{name}={value}")]
    run(TFMC, "build", "model.tfm", "-o", "m", *defines, cwd=folder)
    run("./m", "train", "--out", "run", "--steps", 60, "--lr", 3e-3, cwd=folder)
    peer["config"](peer["sizes"]).save_pretrained(folder / "run")
    return folder / "m", folder / "run"


def our_logits(program, weights, ids, folder):
    run(program, "logits", "--ids", "--weights", weights, "--prompt", " ".join(map(str, ids)),
        "-o", "logits.safetensors", cwd=folder)
    return load_file(folder / "logits.safetensors")["logits"]


def their_logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]


def compare(what, ours, theirs):
    error = ((ours.double() - theirs).abs().max() / theirs.abs().max()).item()
    print(f"{what}: logits differ by {error:.1e} of the largest")
    if ours.shape != theirs.shape or not error <= TOLERANCE:
        sys.exit(f"{what}: more than {TOLERANCE:.0e}")


def round_trip(name, peer, fixture):
    ids = [(7 * i + 5) % 101 for i in range(24)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        program, weights = train(peer, folder)
        model, info = peer["model"].from_pretrained(weights, dtype=torch.float64,
                                                    output_loading_info=True)
        unread = {key: names for key, names in info.items() if names}
        if unread:
            sys.exit(f"{name}: transformers does not read the run as it is: {unread}")
        theirs = their_logits(model, ids)
        compare(f"{name}, trained here", our_logits(program, weights, ids, folder), theirs)

        model.float().save_pretrained(folder / "saved", max_shard_size="8KB")
        shards = len(list((folder / "saved").glob("model-*.safetensors")))
        if shards < 2:
            sys.exit(f"{name}: transformers wrote {shards} shards")
        compare(f"{name}, {shards} shards saved there",
                our_logits(program, folder / "saved", ids, folder), theirs)
        if fixture and name == "gpt2":
            fixture.mkdir(parents=True, exist_ok=True)
            shutil.copy(weights / "model.safetensors", fixture)
            save_file({"ids": torch.tensor(ids, dtype=torch.int32), "logits_f64": theirs},
                      fixture / "expected.safetensors")
            (fixture / "sizes.json").write_text(json.dumps(peer["sizes"]) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fixture", type=pathlib.Path)
    fixture = parser.parse_args().fixture
    transformers.logging.set_verbosity_error()
    for name, peer in {"gpt2": GPT2, "llama": LLAMA}.items():
        round_trip(name, peer, fixture.resolve() if fixture else None)


if __name__ == "__main__":
    main()
