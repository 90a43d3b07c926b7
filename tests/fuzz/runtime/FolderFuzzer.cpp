//===- FolderFuzzer.cpp - a folder of weights that is nearly right ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The input is a folder: for each file a line with its name and size, its bytes
// and a line end. It is loaded as weights (one file, or shards with their
// index, beside a config.json), as a run's checkpoint, and for its tokenizer.
// Nothing but InputError may come out, and a model that was refused its
// parameters has not got half of them.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu_device.h"
#include "runtime/files/checkpoint.h"
#include "runtime/files/find_tokenizer.h"
#include "runtime/files/weights.h"
#include "runtime/model/model.h"
#include "runtime/support/error.h"
#include "tests/fuzz/runtime/JsonMutator.h"
#include "tests/fuzz/runtime/SafetensorsMutator.h"
#include "tests/fuzz/support/Folder.h"
#include "tests/fuzz/support/TimeLimit.h"
#include "tests/unit/CompleteRecipe.h"
#include "tests/unit/runtime/ToyModel.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

using namespace tfm::fuzz;

namespace {

struct File {
  std::string name, bytes;
};

/// At most 16 files; what does not follow the form is one without a name.
std::vector<File> filesOf(std::string_view input) {
  std::vector<File> files;
  while (!input.empty() && files.size() < 16) {
    size_t line = std::min(input.find('\n'), input.size());
    std::string_view head = input.substr(0, line);
    size_t space = std::min(head.rfind(' '), head.size());
    size_t size = 0;
    std::from_chars(head.data() + std::min(space + 1, head.size()),
                    head.data() + head.size(), size);
    input.remove_prefix(std::min(line + 1, input.size()));
    size = std::min(size, input.size());
    files.push_back({std::string(head.substr(0, space)),
                     std::string(input.substr(0, size))});
    input.remove_prefix(std::min(size + 1, input.size()));
  }
  return files;
}

std::string inputOf(const std::vector<File> &files) {
  std::string input;
  for (const File &file : files)
    input += file.name + " " + std::to_string(file.bytes.size()) + "\n" +
             file.bytes + "\n";
  return input;
}

constexpr const char *fileNames[] = {"model.safetensors",
                                     "model-00001-of-00002.safetensors",
                                     "model-00002-of-00002.safetensors",
                                     "model.safetensors.index.json",
                                     "config.json",
                                     "optimizer.safetensors",
                                     "state.json",
                                     "model.safetensors.next",
                                     "optimizer.safetensors.next",
                                     "state.json.next",
                                     "tokenizer.json",
                                     "vocab.json",
                                     "merges.txt",
                                     "tokenizer.model",
                                     "pytorch_model.bin"};

constexpr const char *tensorNames[] = {"table",
                                       "bias",
                                       "transformer.table",
                                       "transformer.bias",
                                       "other.table",
                                       "head.weight",
                                       "lm_head.weight",
                                       "model.lm_head.weight",
                                       "h.0.attn.bias",
                                       "position_ids",
                                       "table.m",
                                       "table.v",
                                       "bias.m",
                                       "bias.v",
                                       "step",
                                       "format"};

constexpr const char *keys[] = {"weight_map",
                                "metadata",
                                "table",
                                "bias",
                                "model-00001-of-00002.safetensors",
                                "model-00002-of-00002.safetensors",
                                "n_head",
                                "step",
                                "steps",
                                "seed",
                                "lr",
                                "log_bytes",
                                "best_validation",
                                "worse_validations",
                                "vocab",
                                "merges",
                                "model",
                                "added_tokens"};

void mutateFiles(std::vector<File> &files, Dice &dice) {
  size_t roll = files.empty() ? 0 : dice.below(16);
  if (roll == 0) {
    files.push_back({dice.pick(fileNames), "{}"});
    return;
  }
  File &file = dice.pick(files);
  if (roll == 1) {
    files.erase(files.begin() + (&file - files.data()));
  } else if (roll == 2) {
    file.name = dice.pick(fileNames);
  } else if (roll == 3) {
    files.push_back({dice.pick(fileNames), file.bytes});
  } else if (roll == 4) {
    std::swap(file.name, dice.pick(files).name);
  } else if (file.name.find(".safetensors") != std::string::npos &&
             file.name.find(".json") == std::string::npos) {
    file.bytes = mutateSafetensors(file.bytes, dice, tensorNames);
  } else if (file.name.find(".json") != std::string::npos) {
    file.bytes = mutateJson(file.bytes, dice, keys);
  } else {
    file.bytes = dice.bytes(file.bytes);
  }
}

/// Writes the files whose names are of one file, in this folder.
void fill(const Folder &folder, const std::vector<File> &files) {
  folder.clear();
  for (const File &file : files)
    if (!file.name.empty() && file.name.size() <= 100 && file.name[0] != '.' &&
        file.name.find('/') == std::string::npos &&
        file.name.find('\0') == std::string::npos)
      folder.write(file.name, file.bytes);
}

/// The toy model, whose table has a further name, with facts.
class Target {
public:
  Target()
      : toy(shape(), tfm::test::completeRecipe(
                         R"({"facts": {"attentions": 1, "heads": [2],
                    "context": 9, "eps": [1e-5], "tokens": 3}})")),
        descriptor(toy.descriptor()),
        parameters{toy.descriptor().parameters[0],
                   toy.descriptor().parameters[1]},
        model(named(), device) {}

  static tfm::test::ToyShape shape() {
    tfm::test::ToyShape shape;
    shape.vocabulary = 3;
    return shape;
  }

  void fill(float value) {
    for (const tfm_parameter &parameter : model.parameters())
      model.setValue(parameter, [&](size_t, std::span<float> values) {
        std::ranges::fill(values, value);
      });
  }
  bool allAre(float value) {
    return std::ranges::all_of(
        model.parameters(), [&](const tfm_parameter &parameter) {
          return std::ranges::all_of(model.readValue(parameter).values(),
                                     [&](float x) { return x == value; });
        });
  }

private:
  const tfm_model &named() {
    static const char *const aliases[] = {"head.weight"};
    parameters[0].aliases = aliases;
    parameters[0].alias_count = 1;
    descriptor.parameters = parameters;
    return descriptor;
  }

  tfm::test::ToyModel toy;
  tfm_model descriptor;
  tfm_parameter parameters[2];
  tfm::CpuDevice device{1};

public:
  tfm::Model model;
};

/// Whether the call was done without a message to the user.
template <typename Call> bool succeeds(Call call) {
  try {
    call();
    return true;
  } catch (const tfm::InputError &) {
    return false;
  }
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t limit, unsigned seed) {
  Dice dice(seed);
  std::vector<File> files =
      filesOf({reinterpret_cast<const char *>(data), size});
  for (size_t changes = 1 + dice.below(3); changes > 0; --changes)
    mutateFiles(files, dice);
  return handOver(inputOf(files), data, size, limit);
}

/// A file of the other folder in place of, or beside, those of this one.
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t size,
                                            const uint8_t *other,
                                            size_t otherSize, uint8_t *out,
                                            size_t limit, unsigned seed) {
  Dice dice(seed);
  auto files = filesOf({reinterpret_cast<const char *>(data), size});
  auto donors = filesOf({reinterpret_cast<const char *>(other), otherSize});
  if (!donors.empty()) {
    const File &donor = dice.pick(donors);
    std::erase_if(files,
                  [&](const File &file) { return file.name == donor.name; });
    files.push_back(donor);
  }
  return handOver(inputOf(files), out, 0, limit);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const Folder folder;
  static Target target;
  fill(folder, filesOf({reinterpret_cast<const char *>(data), size}));
  TimeLimit limit(2);

  target.fill(7.0f);
  bool loaded = succeeds([&] {
    tfm::loadParameters(target.model, tfm::WeightFiles(folder.path));
  });
  if (!loaded && !target.allAre(7.0f) && !target.allAre(0.0f))
    std::abort();
  succeeds([&] { tfm::loadWeights(folder.path, target.model); });
  succeeds([&] { tfm::loadCheckpoint(folder.path, target.model); });
  succeeds([&] {
    tfm::TokenizerRequest request;
    request.weights = folder.path;
    tfm::findTokenizer(target.model.descriptor(), tfm::Recipe(), request);
  });
  return 0;
}
