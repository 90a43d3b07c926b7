#!/usr/bin/env python3
"""How the speed of training grows with width, length, batch and threads.

Builds models/shakespeare.tfm with one of these changed at a time, in f32 and in
bf16, and asks each binary's own `bench` for the time of a step and its update.
Draws what comes of it: docs/performance-NAME.svg, tokens/s over what was
changed, both axes logarithmic.

  bench/scaling.py [--only width,length] [--out docs]
"""

import argparse
import json
import math
import pathlib
import sys
import tempfile

import measuring
from measuring import ROOT, checked

PRECISIONS = ("f32", "bf16")
# What a point changes, beside a model of 4 layers, 256 wide, on 8 texts of 128.
BASE = {"layers": 4, "width": 256, "heads": 4, "context": 128, "train.sequence": 128, "train.batch": 8}
STUDIES = {
    "width": ("width", [64, 128, 256, 512, 1024], lambda size: {"width": size, "heads": max(1, size // 64)}),
    "length": ("positions of a text", [32, 64, 128, 256, 512, 1024],
               lambda size: {"context": size, "train.sequence": size, "train.batch": max(1, 1024 // size)}),
    "batch": ("texts of a batch", [1, 2, 4, 8, 16, 32], lambda size: {"train.batch": size}),
    "threads": ("threads", [1, 2], lambda size: {}),
}


def tokens_per_second(tfmc, folder, changed, precision, threads):
    """Of a training step with its update."""
    sizes = {**BASE, **changed}
    binary = folder / "model"
    defines = [f"{name}={value}" for name, value in sizes.items()] + [f"train.precision={precision}"]
    checked([tfmc, "build", ROOT / "models" / "shakespeare.tfm", "-o", binary] +
            [part for define in defines for part in ("-D", define)])
    functions = json.loads(checked([binary, "bench", "--json", "--threads", threads]))["functions"]
    milliseconds = functions["train"]["milliseconds"] + functions["update"]["milliseconds"]
    return 1e3 * sizes["train.batch"] * sizes["train.sequence"] / milliseconds


def ticks(low, high):
    """1, 2 and 5 times powers of ten between two numbers, and one on each side."""
    all_ticks = [factor * 10 ** power for power in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
                 for factor in (1, 2, 5)]
    below = [tick for tick in all_ticks if tick <= low]
    above = [tick for tick in all_ticks if tick >= high]
    return [tick for tick in all_ticks if below[-1] <= tick <= above[0]]


def draw(title, label, sizes, series):
    """An SVG of lines over `sizes`; `series` has their names and points."""
    width, height, left, right, top, bottom = 640, 400, 80, 90, 40, 56
    values = [value for points in series.values() for value in points]
    marks = ticks(min(values), max(values))

    def across(size):
        span = math.log(sizes[-1] / sizes[0])
        return left + (width - left - right) * math.log(size / sizes[0]) / span

    def up(value):
        share = math.log(value / marks[0]) / math.log(marks[-1] / marks[0])
        return height - bottom - (height - top - bottom) * share

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
             'font-size="13">',
             '<style>text{fill:#333}line{stroke:#ccc}@media(prefers-color-scheme:dark)'
             '{text{fill:#ddd}line{stroke:#555}}</style>',
             f'<text x="{left}" y="22" font-size="15">{title}</text>']
    for mark in marks:
        lines.append(f'<line x1="{left}" x2="{width - right}" y1="{up(mark):.1f}" y2="{up(mark):.1f}"/>')
        lines.append(f'<text x="{left - 8}" y="{up(mark) + 4:.1f}" text-anchor="end">{mark:,.0f}</text>')
    for size in sizes:
        lines.append(f'<text x="{across(size):.1f}" y="{height - bottom + 20}" text-anchor="middle">{size}</text>')
    lines.append(f'<text x="{(left + width - right) / 2}" y="{height - 12}" text-anchor="middle">{label}</text>')
    for (name, points), colour in zip(series.items(), ("#1f77b4", "#d62728")):
        places = [(across(size), up(value)) for size, value in zip(sizes, points)]
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="' +
                     " ".join(f"{x:.1f},{y:.1f}" for x, y in places) + '"/>')
        lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{name}, {size}: {value:,.0f} '
                  'tokens/s</title></circle>' for (x, y), size, value in zip(places, sizes, points)]
        lines.append(f'<text x="{places[-1][0] + 8:.1f}" y="{places[-1][1] + 4:.1f}" style="fill:{colour}">{name}</text>')
    return "\n".join(lines + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(STUDIES), help="which, with commas (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="but for `threads` (default: %(default)s)")
    measuring.add_tfmc(parser)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs", help="a folder (default: docs)")
    options = measuring.parse(parser)
    for name in options.only.split(","):
        if name not in STUDIES:
            parser.error(f"there is no {name}: choose from {', '.join(STUDIES)}")
        label, sizes, change = STUDIES[name]
        series = {precision: [] for precision in PRECISIONS}
        with tempfile.TemporaryDirectory(prefix="tfm-scaling-") as folder:
            for size in sizes:
                # Both precisions in turn, so that a slow moment of the machine is one of both.
                for precision, points in series.items():
                    threads = size if name == "threads" else options.threads
                    points.append(tokens_per_second(options.tfmc, pathlib.Path(folder), change(size), precision, threads))
                print(f"{name} {size}: " + ", ".join(f"{precision} {points[-1]:,.0f}" for precision, points in
                                                     series.items()) + " tokens/s", file=sys.stderr, flush=True)
        title = f"Training: tokens/s over {label}"
        (options.out / f"performance-{name}.svg").write_text(draw(title, label, sizes, series), encoding="utf-8")


if __name__ == "__main__":
    main()
