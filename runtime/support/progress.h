//===- progress.h - what is seen while a program works ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_SUPPORT_PROGRESS_H
#define TFM_RUNTIME_SUPPORT_PROGRESS_H

#include <cstdint>
#include <string_view>

namespace tfm {

/// Seconds since some fixed moment.
double now();

/// A loss in words: four places, and of a small one as many digits.
std::string lossText(double loss);

/// Writes to stderr. A message that cannot be written there is lost: it must
/// not end the work that it is about.
void say(std::string_view text);

/// The progress of training or of another measured loss on stderr: one line
/// that is redrawn on a terminal, else a line every few seconds; `quiet` draws
/// nothing and only keeps the time. Allocates nothing.
class Progress {
public:
  /// `first` of `steps` are done already; `unit` is what one is called, and
  /// `counted` what there are so many of in each.
  Progress(int64_t first, int64_t steps, int64_t perStep, bool quiet,
           const char *unit = "step", const char *counted = "tokens");

  /// A step has been done; draws when it is time.
  void step(int64_t done, double loss);
  /// Draws now and ends the line, once for each step.
  void finish();
  /// Clears the line, so that something else can be printed.
  void clear();
  /// Time spent on something else, e.g. validation, does not count.
  void exclude(double seconds) { excluded += seconds; }
  /// What is counted, per second so far.
  double speed() const;
  /// Seconds of training so far.
  double seconds() const;

private:
  void draw();

  int64_t first;
  int64_t steps;
  int64_t perStep;
  const char *unit;
  const char *counted;
  int64_t done;
  /// The step whose line has ended.
  int64_t finished;
  double loss = 0;
  double started;
  double excluded = 0;
  double lastDrawn;
  bool quiet;
  bool live;
  bool drawn = false;
};

} // namespace tfm

#endif // TFM_RUNTIME_SUPPORT_PROGRESS_H
