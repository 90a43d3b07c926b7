//===- Recipe.h - train, data, tokenizer, generate --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TFM_FRONTEND_RECIPE_RECIPE_H
#define TFM_FRONTEND_RECIPE_RECIPE_H

#include "compiler/frontend/elaborate/RecipeContext.h"
#include "runtime/recipe.h"

namespace tfm {

/// A kind that can stand under a path such as `train.schedule`; empty where
/// there is a plain value.
llvm::StringRef exampleKind(llvm::StringRef path);

/// The kinds of a form that have an entry, each in backticks; empty of an entry
/// that all of them have, or none.
std::string kindsWith(llvm::StringRef path, llvm::StringRef entry);

/// Reads the blocks of the main file into the recipe of docs/design.md, with
/// every default filled in, and what the functions need of it into
/// `RecipeContext::train`.
class RecipeBuilder {
public:
  explicit RecipeBuilder(RecipeContext &e) : e(e) {}
  void build();

private:
  friend class RecipeContext;
  /// `kind(a, name = b)`, or a block's entries; the values can be overridden
  /// with `-D path.name=...`.
  struct Form {
    std::string kind;
    Range range;
    std::string path;
    std::vector<ast::Argument> args;
    std::vector<bool> used;
    /// Names that were asked for: what exists.
    std::vector<std::string> known;
  };
  struct Found {
    const ast::Expr *expr = nullptr;
    Range range;
  };
  /// A text of the recipe, such as that of a token, and where it stands.
  struct Marker {
    std::string text;
    Range range;
  };
  Form form(const ast::Expr &expr, llvm::StringRef path);
  Form form(const ast::Block &block);
  /// What `found` says, or where nothing is said `kind` with its defaults,
  /// which `-D` may still set.
  Form formOr(const Found &found, llvm::StringRef kind, llvm::StringRef path);
  /// The value given for `name`, or as positional argument `position`.
  Found find(Form &form, llvm::StringRef name, int position = -1,
             Wanted wanted = Wanted::Value);
  /// Reports entries that nobody asked for.
  void finish(Form &form, llvm::StringRef what);
  /// Of a value without a name that stands in no place for one.
  void reportNoPlace(const Form &form, const ast::Expr &value,
                     llvm::StringRef what);
  SymbolicValue value(const Found &found);
  /// The same for an entry that takes `expected`: of a word of the command line
  /// that has no meaning that is said.
  SymbolicValue value(const Found &found, llvm::StringRef name,
                      llvm::StringRef expected);

  // Entries by their names in the language. Type, range, default and what is
  // said of a value that is none of these are those of runtime/recipe_table.h.
  int64_t integer(Form &form, llvm::StringRef name, int position = -1);
  int64_t integer(Form &form, llvm::StringRef name, int64_t absent,
                  const recipe::Field &field, int position);
  double number(Form &form, llvm::StringRef name, int position = -1);
  bool flag(Form &form, llvm::StringRef name);
  /// A string in quotes.
  llvm::json::Value text(Form &form, llvm::StringRef name);
  llvm::json::Value text(Form &form, llvm::StringRef name,
                         llvm::json::Value absent, int position = -1,
                         bool mayBeWord = false);
  /// Strings in quotes: one, several or `none`; and where each stands.
  std::vector<Marker> texts(Form &form, llvm::StringRef name);
  /// One of a few words, which may stand without quotes: `overflow = slide`.
  /// Another is reported at `range`, or where it stands, as what `what` is not.
  llvm::json::Value word(Form &form, llvm::StringRef name,
                         std::optional<Range> range = std::nullopt,
                         llvm::StringRef what = "", int position = -1);
  llvm::json::Value integerOrNull(Form &form, llvm::StringRef name);
  void wrong(const Found &found, llvm::StringRef name, llvm::StringRef expected,
             const SymbolicValue &value);
  /// Whether a form is of one of these kinds. What it says of another one ends
  /// in `help`, or else in what may have been meant.
  bool known(const Form &form, llvm::ArrayRef<llvm::StringRef> kinds,
             llvm::StringRef what, llvm::StringRef help = "");

  /// What is in the JSON of a form of `kind` that says nothing.
  static llvm::json::Object defaults(llvm::StringRef path,
                                     llvm::StringRef kind);
  /// The kinds that can stand under a path.
  static llvm::SmallVector<llvm::StringRef> kindsOf(llvm::StringRef path);

  llvm::json::Value trainBlock(const ast::Block &block);
  /// How long a sequence is; reports one that is longer than the context.
  int64_t sequence(Form &train);
  /// Writes `steps` and `epochs`, of which one may have a number. Whether the
  /// block says something of its end.
  bool end(Form &train, const ast::Block &block, llvm::json::Object &out);
  llvm::json::Value clip(const Found &found);
  llvm::json::Value stop(const Found &found, bool isValidated);
  /// Further dimensions of the caller, whose names are the file's: `S = 32`.
  void extents(Form &train, llvm::json::Object &out);
  /// A pattern of names, and what an entry says of what it fits.
  struct NameRule {
    Marker pattern;
    double value;
  };
  /// Calls `visit` with every parameter and the last of the rules of `entry`
  /// that fits it, null where none does; before that reports patterns that are
  /// none and layers of a repeat that differ, and returns false, and behind it
  /// patterns that fit nothing.
  bool eachParameter(llvm::StringRef entry, llvm::ArrayRef<NameRule> rules,
                     llvm::function_ref<void(Param &, const NameRule *)> visit);
  /// Warns of those of the rules that count for no parameter, and says why.
  void warnOfIdle(llvm::ArrayRef<NameRule> rules,
                  const std::vector<bool> &counts, const char *why);
  /// Freezes the parameters that `only` does not name.
  llvm::json::Value only(Form &train);
  /// The patterns of an entry that names parameters.
  std::vector<NameRule> patterns(Form &train, llvm::StringRef entry,
                                 llvm::json::Array &out);
  /// Keeps weight decay, where an optimizer has some, off those that `no_decay`
  /// names.
  llvm::json::Array noDecay(Form &train, const llvm::json::Object &optimizer);
  /// Sets the rates of those that `rates` names.
  llvm::json::Array rates(Form &train);
  llvm::json::Value loss(const Found &found);
  /// Of a loss that leaves nothing out, where the data is padded.
  void warnAboutPadding();
  /// Where an entry was given that says something, if it was.
  std::optional<Range> given(const Form &form, llvm::StringRef name);
  /// Warns of an entry that does nothing beside the others.
  void hasNoEffect(Range range, const std::string &what,
                   const std::string &help);
  /// A program follows its recipe, whatever size its functions were given.
  void refuseExtents(const ast::Block *train);
  llvm::json::Value optimizer(const Found &found);
  /// `steps`: how many the training has, if the recipe says that.
  llvm::json::Value schedule(const Found &found, std::optional<int64_t> steps,
                             std::optional<double> lr);
  llvm::json::Value every(const Found &found, llvm::StringRef name);
  /// Reports a prompt with characters that the tokenizer lacks.
  void checkPrompt(const Found &found, llvm::StringRef prompt);
  /// The `data` block; nothing where there is none of a known kind.
  std::optional<Form> dataForm(const ast::Block *block);
  llvm::json::Value dataBlock(const ast::Block *block);
  /// Writes in which fields examples of `pairs` have both.
  void promptAndAnswer(Form &data, llvm::json::Object &out);
  /// Whether only its answers count; reports data that knows none.
  bool answersOnly(Form &data, const llvm::json::Value &answerAfter);
  /// Its files for validation, and where they are named.
  std::vector<std::string>
  validationFiles(Form &data, std::vector<Range> *ranges = nullptr);
  /// The `begin`, `end` or `pad` that data has, by its entry or as the kind has
  /// it
  /// (`absent`), if any; reports a text that cannot be one token.
  std::optional<Marker> marker(Form &data, llvm::StringRef name,
                               llvm::StringRef absent);
  /// Its id; reports a text that is not one token, with what to do (`help`).
  std::optional<int64_t> tokenId(const Marker &token, const TokenizerInfo &info,
                                 llvm::StringRef help);
  llvm::json::Value generateBlock(const ast::Block *block);
  llvm::json::Value tokenizerJson();
  llvm::json::Value familyJson();
  std::optional<TokenizerInfo> tokenizer(const ast::Block &block);
  /// What `chars(from = ...)` learns from, and where its files are named;
  /// reports errors.
  std::optional<DataSpec> alphabetSource(const Found &from,
                                         std::vector<Range> &ranges);
  /// Where the files that the recipe names are, beside the main file; empty
  /// after one that cannot be read, which is reported at its range, or the last
  /// one. Patterns of names stay what they are where these `mayMatch`.
  std::vector<std::string> locate(llvm::ArrayRef<std::string> names,
                                  llvm::ArrayRef<Range> ranges,
                                  bool mayMatch = false);
  /// The files of a form, and where they are named.
  std::vector<std::string> fileNames(Form &form,
                                     std::vector<Range> *ranges = nullptr);
  /// Adds those that an entry of a form names, one or several.
  void addFileNames(const Found &found, llvm::StringRef name,
                    std::vector<std::string> &files,
                    std::vector<Range> *ranges);

  RecipeContext &e;
  /// What ends examples, and what fills the windows behind them.
  std::optional<Marker> ending, padding;
  /// Whether the data is a list of examples, each with a window of its own.
  bool hasExamples = false;
  /// Where the data says that only answers count, if it does.
  std::optional<Range> answersAlone;
};

} // namespace tfm

#endif // TFM_FRONTEND_RECIPE_RECIPE_H
