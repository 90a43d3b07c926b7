//===- show_texts.h - generated texts, as they are shown ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_COMMANDS_SHOW_TEXTS_H
#define TFM_RUNTIME_COMMANDS_SHOW_TEXTS_H

#include "runtime/commands/prompts.h"
#include "runtime/generation/generator.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tfm {

/// For messages: in quotes, and on one line.
std::string quoted(const std::string &text);

/// Tells on standard error how long a text is, how fast it came and why it
/// ended; `context` is that of the logits. `which` of several it is stands
/// before it; of a single one it says the seed, too, which nobody has named.
void saySummary(const Generated &text, const GenerateOptions &options,
                int64_t context, const std::string &which = "");

/// The texts of a command.
struct Texts {
  const Tokenizer &tokenizer;
  const GenerateOptions &options;
  int64_t context; ///< of the logits
  const std::vector<Prompt> &prompts;
  /// Their tokens; none of those that cannot be continued.
  const std::vector<std::vector<int32_t>> &tokens;
  int64_t copies; ///< of each

  const Prompt &promptOf(size_t text) const { return prompts[placeOf(text)]; }
  const std::vector<int32_t> &tokensOf(size_t text) const {
    return tokens[placeOf(text)];
  }
  bool standsAlone(size_t text) const {
    return options.standsAlone(placeOf(text));
  }
  /// Of a text's prompt.
  size_t placeOf(size_t text) const {
    return text / static_cast<size_t>(copies);
  }
  /// How many there are, with those of prompts that cannot be continued.
  size_t size() const { return prompts.size() * static_cast<size_t>(copies); }
};

/// How many texts there are, and how fast they come, on standard error: one
/// line that is rewritten on a terminal, else one every few seconds. Of a
/// single text nothing is told.
class TextProgress {
public:
  /// Of so many texts; `what` says of whose, where not of all.
  explicit TextProgress(size_t count, std::string what = "");

  void drew(size_t tokens);
  void end() { ++ended; }
  /// Clears the line, so that something else can be printed.
  void clear();

private:
  size_t count, ended = 0, tokens = 0;
  std::string what;
  bool isLive, isDrawn = false;
  double began, lastDrawn;
};

/// Shows texts on standard output, and on standard error how fast they come.
class TextShow : public TextAudience {
public:
  explicit TextShow(const Texts &texts);
  void end(size_t text, Generated generated) override;
  /// Tells how fast all of them were, where there were several, and how many
  /// are whole where they were interrupted.
  virtual void finish();
  /// Whether no text was interrupted.
  bool isWhole() const { return whole == count; }
  /// Why the text of the command's one prompt failed, which is left to be told;
  /// else empty.
  const std::string &whyOnlyFailed() const { return whyFailed; }
  /// Instead: an error has ended what is shown, and is told next.
  virtual void breakOff() {}

protected:
  /// Whether there is one text alone, of no file.
  bool isOnly() const {
    return texts.size() == 1 && texts.prompts[0].origin.empty();
  }

  Texts texts;
  double began;
  /// Of those that can be continued: how many there are, have ended, and have
  /// done so by themselves.
  size_t count = 0, ended = 0, whole = 0;
  /// How many tokens those have that have ended.
  size_t tokens = 0;
  std::string whyFailed;
};

/// What there is of a text that is not to be shown yet.
struct KeptText {
  std::string shown;
  std::optional<Generated> ended;
};

/// In their order, with lines `---` between them: the text whose turn it is as
/// it grows, one that is ahead of it when its turn comes. A summary behind
/// each.
class PlainTexts : public TextShow {
public:
  explicit PlainTexts(const Texts &texts);
  void show(size_t text, std::string_view part) override;
  void end(size_t text, Generated generated) override;
  void finish() override;
  void breakOff() override;

private:
  /// Goes to the next text, and begins it unless it was interrupted: then it
  /// begins only where there is something of it.
  void awaitTurn();
  /// Shows the prompt of the text whose turn it is.
  void beginTurn();

  /// The text whose turn it is: what was before it has been shown.
  size_t turn = 0;
  bool isBegun = false;
  std::map<size_t, KeptText> ahead;
};

/// An object a line, as they end; first those of prompts that cannot be
/// continued.
class JsonTexts : public TextShow {
public:
  explicit JsonTexts(const Texts &texts);
  void show(size_t, std::string_view) override {}
  void end(size_t text, Generated generated) override;
  void drew(size_t count) override;
  void finish() override;
  void breakOff() override { progress.clear(); }

private:
  void print(size_t text, const Generated &generated);

  TextProgress progress;
};

} // namespace tfm

#endif // TFM_RUNTIME_COMMANDS_SHOW_TEXTS_H
