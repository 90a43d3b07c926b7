//===- progress.cpp - what is seen while a program works ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/progress.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <string>
#include <unistd.h>

namespace tfm {

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string lossText(double loss) {
  bool isSmall = loss != 0 && std::abs(loss) < 0.001;
  return isSmall ? fmt::format("{:.4g}", loss) : fmt::format("{:.4f}", loss);
}

void say(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

Progress::Progress(int64_t first, int64_t steps, int64_t perStep, bool quiet,
                   const char *unit, const char *counted)
    : first(first), steps(steps), perStep(perStep), unit(unit),
      counted(counted), done(first), finished(first), started(now()),
      lastDrawn(started), quiet(quiet),
      live(!quiet && isatty(STDERR_FILENO) != 0) {}

double Progress::seconds() const {
  return std::max(1e-9, now() - started - excluded);
}

double Progress::speed() const {
  return static_cast<double>((done - first) * perStep) / seconds();
}

void Progress::step(int64_t newDone, double newLoss) {
  done = newDone;
  loss = newLoss;
  double interval = live ? 0.1 : 5.0;
  if (!quiet && now() - lastDrawn >= interval)
    draw();
}

void Progress::finish() {
  if (quiet || done == finished)
    return;
  finished = done;
  draw();
  if (live)
    say("\n");
  drawn = false;
}

void Progress::clear() {
  if (live && drawn)
    say("\r\x1b[K");
  drawn = false;
}

void Progress::draw() {
  lastDrawn = now();
  // What is excluded is to come again, too: who waits wants to know of all.
  double secondsPerStep =
      (now() - started) /
      static_cast<double>(std::max<int64_t>(1, done - first));
  auto left =
      static_cast<int64_t>(secondsPerStep * static_cast<double>(steps - done));
  char line[200];
  auto end =
      fmt::format_to_n(
          line, sizeof line,
          "{}{} {}/{}  loss {}  {:.0f} {}/s  {}:{:02}:{:02} left{}",
          live ? "\r" : "", unit, done, steps, lossText(loss), speed(), counted,
          left / 3600, left / 60 % 60, left % 60, live ? "\x1b[K" : "\n")
          .out;
  say({line, static_cast<size_t>(end - line)});
  drawn = true;
}

} // namespace tfm
