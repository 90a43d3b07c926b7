//===- gguf.h - tensors in a file, as llama.cpp stores them -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The format: `GGUF`, a version, how many tensors and how many values of
// metadata there are, these values, where the tensors lie, and their bytes. See
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Names, and in what
// order some tensors have their rows, are its own: the table of a family
// (docs/families.md) tells what they are in a folder of the hub.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FORMATS_GGUF_H
#define TFM_RUNTIME_FORMATS_GGUF_H

#include "runtime/formats/tensor_file.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

namespace tfm {

/// Whether the name of a file says that it is one.
bool isGguf(const std::string &path);

/// Whether a type of tensors is blocks of integers, with a scale each.
bool isBlockType(std::string_view dtype);

class GgufReader : public TensorFile {
public:
  /// Reads where everything is; tensors have the names that the file has. Of a
  /// model in several files, `-00001-of-00003.gguf`, the first brings the
  /// others. Throws InputError naming the file; any bytes are safe to read.
  explicit GgufReader(const std::string &path)
      : GgufReader(path, /*isWhole=*/true) {}

  /// `general.architecture`, `llama.block_count`, ...; of long lists, and of
  /// numbers that are none, a text that says what they are.
  const nlohmann::json &metadata() const { return values; }
  /// A list of any length, whole; null where no key of that name has one.
  nlohmann::json list(const std::string &key) const;

  /// What a config.json of a family would say; `gguf` is that member of its
  /// table. What the table does not know has its name here.
  nlohmann::json config(const nlohmann::json &gguf) const;
  /// Gives tensors the names and shapes that they have in a folder of the hub.
  /// Those that the table does not know keep theirs.
  void rename(const nlohmann::json &gguf);

  bool isRead(const std::string &path) const override;
  void readFloats(const std::string &name, const TensorEntry &entry,
                  uint64_t first, std::span<float> out) const override;
  void readBytes(const TensorEntry &entry, uint64_t first,
                 std::span<char> out) const override;
  /// It has no checksums.
  void requireUnchanged(const std::string &,
                        std::span<const char>) const override {}
  void requireUnchanged(const std::string &,
                        const TensorEntry &) const override {}

private:
  /// Another file of the same model; its tensors begin behind those of the
  /// files before it.
  struct Part {
    uint64_t begin;
    std::unique_ptr<GgufReader> file;
  };

  GgufReader(const std::string &path, bool isWhole);
  void openParts();
  /// One of the numbers that files of several have in their metadata; 0 without
  /// it.
  int64_t partNumber(const char *key) const;
  /// Of all its tensors.
  uint64_t dataBytes() const;

  /// How the values that a folder of the hub has come of those in the file.
  struct Change {
    /// Rows of each of so many heads: its first half and its second one take
    /// turns in the file.
    int64_t heads = 0;
    bool isTransposed = false;
    /// To be added.
    float more = 0;
  };
  /// Elements as the file has them, from `first` on.
  void decode(const std::string &name, const TensorEntry &entry, uint64_t first,
              std::span<float> out) const;
  /// Those of a whole tensor where a folder of the hub has them.
  static void rearrange(std::vector<float> &values, const TensorEntry &entry,
                        const Change &by);

  /// How a tensor of factors says that frequencies of rotation are scaled:
  /// `scaling` with what they show. Throws InputError where they are others
  /// than `scaling` comes to.
  nlohmann::json scalingBy(const std::string &tensor, nlohmann::json scaling,
                           const nlohmann::json &config) const;
  /// Reads so many bytes from a position of the file on.
  std::function<void(void *, uint64_t, uint64_t)> reading() const;

  /// Those behind this one, in their order.
  std::vector<Part> parts;
  nlohmann::json values = nlohmann::json::object();
  /// Where lists stand in the file.
  std::map<std::string, uint64_t> lists;
  std::map<std::string, Change> changes;
  /// The tensor whose elements were rearranged last, as it is asked for part by
  /// part.
  mutable std::mutex lock;
  mutable std::string rearrangedName;
  mutable std::vector<float> rearranged;
};

} // namespace tfm

#endif // TFM_RUNTIME_FORMATS_GGUF_H
