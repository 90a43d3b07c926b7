"""Random numbers in a loss: what they are, that they are the same wherever and whenever they are drawn, and what is
learned of them."""

import json
import math
import os
import random
import shutil
import subprocess

from support import MPI_ENVIRONMENT, MPI_LIBRARIES, InFolder, load_arrays, main, run, save_arrays, tfmc

# What a number is expected to be, and its variance, of one draw.
MOMENTS = {
    "u": (0.5, 1 / 12),
    "u ** 2": (1 / 3, 4 / 45),
    "float(u < 0.3)": (0.3, 0.21),
    "v": (1, 16 / 12),
    "v ** 2": (7 / 3, 12.2 - 49 / 9),
    "z": (0, 1),
    "z ** 2": (1, 2),
    "z ** 3": (0, 15),
    "z ** 4": (3, 96),
    "float(abs(z) > 2.0)": (math.erfc(math.sqrt(2)), math.erfc(math.sqrt(2)) * (1 - math.erfc(math.sqrt(2)))),
    "y": (0.5, 4),
    "(y - 0.5) ** 2": (4, 32),
    # One call knows nothing of another, nor of its neighbours.
    "(u - 0.5) * z": (0, 1 / 12),
    "z * (y - 0.5)": (0, 4),
    "z * shift(z, 1)": (0, 1),
    "z * shift(z, 1, by = 16)": (0, 1),
}

# The derivative in w are the moments: with a rate of 1 a step takes them off.
DRAWS = f"""
model Draws(size = 4096) {{
  param w: [{len(MOMENTS)}] = zeros
  forward(x: [B, 1]) -> [B, 1] {{ return x * w[0:1] }}
  loss(x: [B, 1]) -> [B] {{
    u = random_uniform([B, size])
    v = random_uniform([B, size], low = -1.0, high = 3.0)
    z = random_normal([B, size])
    y = random_normal([B, size], 2.0, mean = 0.5)
    return rearrange(sum(w * concat({", ".join(f"mean({moment})" for moment in MOMENTS)})), "B 1 -> B")
  }}
}}
data arrays("x.safetensors")
train {{ batch = 16, steps = 1, optimizer = sgd(lr = 1.0) }}
"""

# In layers, a micro-batch at a time, and beside dropout.
NOISY = """
model Noisy(width = 24) {
  h    = repeat(3) Layer(width)
  head = Linear(width, width)
  forward(x: [B, T, width]) -> [B, T, width] { return head(x) }
  loss(x: [B, T, width]) -> [B, T] {
    amount = random_uniform([B, 1, 1], high = 0.5)
    return mse(forward(h(x + amount * random_normal([B, T, width]))), x)
  }
}
module Layer(width) {
  mlp = MLP(width, drop = 0.1)
  forward(x: [B, T, width]) -> [B, T, width] {
    hidden = random_uniform([B, T, 1]) < 0.1
    return x + where(hidden, 0.0, mlp(x)) + 0.01 * random_normal([B, T, width])
  }
}
data arrays("x.safetensors", validation = 0.25)
train { batch = 2, sequence = 5, accumulate = 2, sum = tree, steps = 6, validate = every(2), optimizer = adamw(lr = 1e-2) }
"""

# Auto-encoding variational Bayes (Kingma and Welling 2014), all of it linear.
AUTOENCODER = """
model Autoencoder(width = 8, latent = 2, noise = 0.1) {
  mean    = Linear(width, latent)
  decoder = Linear(latent, width)
  param log_std: [latent] = zeros
  forward(x: [B, width]) -> [B, width] { return decoder(mean(x)) }
  loss(x: [B, width]) -> [B] {
    m = mean(x)
    y = decoder(m + exp(log_std) * random_normal([B, latent]))
    divergence = sum(0.5 * (m ** 2 + exp(2.0 * log_std) - 1.0) - log_std)
    return rearrange(sum((x - y) ** 2) / (2 * noise ** 2) + divergence, "B 1 -> B")
  }
}
data arrays("plane.safetensors")
train { batch = 100, steps = 6000, optimizer = adamw(lr = 1e-2), schedule = cosine(warmup = 50) }
"""


def content(path):
    with open(path, "rb") as file:
        return file.read()


class Random(InFolder):
    def log(self, out):
        """The losses of a run, and those of its validation."""
        with open(self.path(out, "log.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return [line[key] for line in lines for key in ("loss", "validation_loss") if key in line]

    def loss(self, model, weights, *options):
        return json.loads(self.ok(model, "eval", "--weights", weights, "--json", *options).stdout)["loss"]

    def test_distributions(self):
        save_arrays(self.path("x.safetensors"), {"x": ("F32", [16, 1], [0] * 16)})
        model = self.build("draws", DRAWS)
        seen = set()
        for seed in (1, 2):
            for steps in (1, 2):
                self.ok(model, "train", "--seed", str(seed), "--steps", str(steps), "--out", "draws-run", "--overwrite")
                moved = load_arrays(self.path("draws-run", "model.safetensors"))["w"][2]
                seen.add(tuple(round(-m / steps, 7) for m in moved))
        # Other numbers in each step, and under each seed.
        self.assertEqual(len(seen), 4)
        for moments in seen:
            for (what, (mean, variance)), found in zip(MOMENTS.items(), moments, strict=True):
                # Five deviations, and what `shift` leaves out at an end.
                self.assertAlmostEqual(found, mean, delta=5 * math.sqrt(variance / (16 * 4096)), msg=what)

    def test_the_same_bits(self):
        dice = random.Random(1)
        save_arrays(self.path("x.safetensors"), {"x": ("F32", [16, 5, 24], [dice.gauss(0, 1) for _ in range(16 * 5 * 24)])})
        model = self.build("noisy", NOISY)
        self.ok(model, "train", "--out", "one", "--threads", "1")
        expected = content(self.path("one", "model.safetensors")), self.log("one")
        self.ok(model, "train", "--out", "two", "--threads", "2")
        self.ok(model, "train", "--out", "part", "--steps", "3")
        self.ok(model, "train", "--resume", "part", "--steps", "6")
        for out in ("two", "part"):
            self.assertEqual(content(self.path(out, "model.safetensors")), expected[0])
        self.assertEqual(self.log("two"), expected[1])
        self.ok(model, "train", "--out", "other", "--seed", "7")
        self.assertNotEqual(content(self.path("other", "model.safetensors")), expected[0])

        # Of the same weights there is one loss, whatever the seed, the micro-batches and the threads are.
        measured = {self.loss(model, "one", "--threads", str(threads)) for threads in (1, 2, 2)}
        self.assertEqual(len(measured), 1)
        other = self.build("otherwise", NOISY, "-D", "train.seed=7", "-D", "train.accumulate=1")
        self.assertEqual(self.loss(other, "one"), *measured)
        # Each batch draws other numbers: of the same example in all places the losses differ.
        same = [dice.gauss(0, 1) for _ in range(5 * 24)]
        for count in (2, 4):
            save_arrays(self.path(f"{count}.safetensors"), {"x": ("F32", [count, 5, 24], same * count)})
        self.assertNotEqual(*(self.loss(model, "one", "--data", f"{count}.safetensors") for count in (2, 4)))

        compiler, launcher = MPI_LIBRARIES["Open MPI"]
        if not shutil.which(compiler) or not shutil.which(launcher[0]):
            self.skipTest("Open MPI is not installed")
        self.assertEqual(tfmc("mpi", "--mpicc", compiler, "-o", self.path("libtfm_mpi.so")).returncode, 0)
        result = subprocess.run([*launcher, "2", model, "train", "--out", "shared", "--threads", "1"], cwd=self.folder,
                                env=dict(os.environ, NO_COLOR="1", **MPI_ENVIRONMENT), capture_output=True, text=True,
                                timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((content(self.path("shared", "model.safetensors")), self.log("shared")), expected)

    def test_an_autoencoder_learns(self):
        # Two normal numbers, which lead into directions at right angles, and noise.
        dice = random.Random(2)
        first, second = [1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, -1, 1, -1]
        rows = []
        for _ in range(4000):
            a, b = dice.gauss(0, 1), dice.gauss(0, 1)
            rows += [a * p + b * q + dice.gauss(0, 0.1) for p, q in zip(first, second)]
        save_arrays(self.path("plane.safetensors"), {"x": ("F32", [4000, 8], rows)})
        model = self.build("autoencoder", AUTOENCODER)
        self.ok(model, "train", "--out", "autoencoder-run")
        self.assertGreater(self.log("autoencoder-run")[0], 100)
        # Then it is the surprisal of the data, which is Gaussian (Tipping and Bishop 1999), beside that of the noise
        # of eight numbers: of a row it has the standard deviation 2.
        best = math.log(1 + 4 / 0.01) + 8 / 2
        found = self.loss(model, "autoencoder-run", "--data", "plane.safetensors")
        self.assertAlmostEqual(found, best, delta=5 * 2 / math.sqrt(4000))
        # What was sampled from has the deviation of what is known of the two.
        deviations = load_arrays(self.path("autoencoder-run", "model.safetensors"))["log_std"][2]
        for log_std in deviations:
            self.assertAlmostEqual(log_std, -math.log(1 + 4 / 0.01) / 2, delta=0.1)


if __name__ == "__main__":
    main()
