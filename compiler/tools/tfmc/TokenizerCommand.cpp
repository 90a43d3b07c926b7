//===- TokenizerCommand.cpp - tfmc tokenizer ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Output.h"

#include "runtime/commands/usage.h"
#include "runtime/data/texts.h"
#include "runtime/support/atomic_file.h"
#include "runtime/support/error.h"
#include "runtime/support/temporaries.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/train_word_bpe.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <limits>

using namespace tfm;

namespace {

struct Arguments {
  std::vector<std::string> files;
  std::string field;
  std::string folder = ".";
  bool overwrite = false;
  int64_t merges = 1000;
};

} // namespace

/// The text of all files, or of a field of their documents.
static std::string readTexts(const Arguments &arguments) {
  DataSpec data;
  data.files = arguments.files;
  if (arguments.field.empty()) {
    Text texts = readText(data);
    for (size_t at = 0; at < texts.text.size();) {
      CodePoint character = decodeUtf8(texts.text, at);
      if (character.value < 0)
        throw InputError(texts.placeOf(at) + ": not UTF-8 text");
      at += character.bytes;
    }
    return std::move(texts.text);
  }
  data.kind = "json";
  data.field = arguments.field;
  std::string text;
  for (const Example &example : readExamples(data, {}, "--field"))
    text += example.text + "\n";
  return text;
}

static int learn(const Arguments &arguments) {
  for (const std::string &file : arguments.files)
    if (std::error_code error =
            llvm::sys::fs::access(file, llvm::sys::fs::AccessMode::Exist);
        error && file != "-") {
      messages() << "tfmc: error: cannot read " << file << ": "
                 << error.message() << "\n";
      return 1;
    }
  const std::string &folder = arguments.folder;
  std::string vocab = folder + "/vocab.json", merges = folder + "/merges.txt";
  if (isInput(vocab, arguments.files) || isInput(merges, arguments.files))
    return 1;
  // The runtime throws.
  try {
    TrainedWordBpe trained =
        trainWordBpe(readTexts(arguments), arguments.merges);
    const std::string vocabText = trained.vocabJson(),
                      mergesText = trained.mergesText();
    if (!arguments.overwrite &&
        (saysOther(vocab, vocabText) || saysOther(merges, mergesText)))
      return 1;
    FolderForFiles made(folder);
    AtomicFile vocabFile(vocab), mergesFile(merges);
    vocabFile.write(vocabText);
    mergesFile.write(mergesText);
    vocabFile.sync();
    mergesFile.sync();
    SignalsWait wait; // both or none
    vocabFile.commit();
    mergesFile.commit();
    messages() << llvm::formatv("{0} merges, {1} tokens: wrote {2} and {3}\n",
                                trained.merges.size(), trained.tokens.size(),
                                vocab, merges);
    return 0;
  } catch (const InputError &error) {
    messages() << "tfmc: error: " << error.what() << "\n";
    return 1;
  }
}

void tfm::addTokenizerCommand(CLI::App &app, int &status) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App *command = app.add_subcommand(
      "tokenizer", "Learns a word-level byte-pair tokenizer (`bpe_words`)");
  command
      ->add_option("FILE", arguments->files,
                   "Texts to learn from, - for standard input")
      ->required()
      ->check(usage::path());
  command->add_option("--field", arguments->field,
                      "Learn from this field of JSON documents, or column of "
                      ".csv and .tsv files");
  command
      ->add_option("--merges", arguments->merges,
                   "Pairs to merge (default: 1000)")
      ->transform(usage::wholeNumber(0, std::numeric_limits<int64_t>::max()));
  command
      ->add_option("-o,--out", arguments->folder,
                   "The folder for vocab.json and merges.txt (default: .)")
      ->transform(usage::folder());
  command->add_flag("--overwrite", arguments->overwrite,
                    "Replace another tokenizer that is there");
  command->callback([arguments, &status] { status = learn(*arguments); });
}
