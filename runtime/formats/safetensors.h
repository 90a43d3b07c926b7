//===- safetensors.h - tensors in a file, as Hugging Face stores them ---===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The format: 8 bytes little-endian length of a JSON header, the header (names
// to dtype, shape and byte range), the bytes. See
// https://github.com/huggingface/safetensors.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_FORMATS_SAFETENSORS_H
#define TFM_RUNTIME_FORMATS_SAFETENSORS_H

#include "runtime/formats/tensor_file.h"
#include "runtime/model/quantise.h"
#include "runtime/support/atomic_file.h"

#include "runtime/device/device.h"
#include <cstdint>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tfm {

/// Checks a header against the number of bytes behind it: every tensor within
/// the data, its size that of its shape and dtype, no overlap, no gap. Throws
/// InputError that begins with `path`; any bytes are safe to pass.
TensorHeader parseSafetensorsHeader(std::string_view text, uint64_t dataBytes,
                                    const std::string &path);

/// What is read from a file, as messages say it, and what to do where it is a
/// file of another kind.
struct TensorUse {
  const char *purpose = "the weights";
  const char *insteadOfZip =
      "as torch.save writes checkpoints: save them as safetensors, "
      "`safetensors.torch.save_file(tensors, FILE)`";
  const char *insteadOfText = "name the folder that has the weights, or their "
                              "file";
};

class SafetensorsReader : public TensorFile {
public:
  /// Throws InputError naming the file.
  explicit SafetensorsReader(const std::string &path,
                             const TensorUse &use = {});

  /// The checksum that the header has of itself; empty where it has none.
  std::string headerChecksum() const;
  void requireUnchanged(const std::string &name,
                        std::span<const char> data) const override;
  void requireUnchanged(const std::string &name,
                        const TensorEntry &entry) const override;

private:
  void requireUnchangedHeader(std::string text) const;
};

/// The type that tensors are written in; what has fewer bits than a single is
/// rounded to the nearest (float16.h). Of INT8 and INT4 are those that have an
/// axis of outputs (quantise.h), the others are f32: of INT8 [..., outputs,
/// terms], with a tensor `NAME.scale`, f32 [..., outputs], behind them; of INT4
/// bytes, [..., outputs, groups * 16], with `NAME.scale` and `NAME.minimum`,
/// bf16 [..., outputs, groups].
enum class StoredType { F32, BF16, F16, INT8, INT4 };

/// The largest magnitude of a value in `type`; of INT4 so that what lies
/// between the largest weights of a group is a number, too.
float largestOf(StoredType type);

/// What a tensor is in `type`, for messages, and the largest magnitude of a
/// value that a build can compute with.
struct Reach {
  std::string type;
  float largest;
};
/// `outputAxis` is that of FloatTensor.
Reach reachOf(StoredType type, std::span<const int64_t> shape,
              int64_t outputAxis);

/// The position of the first value whose magnitude is beyond `largest`; the
/// size where there is none.
size_t firstBeyond(std::span<const float> values, float largest);

/// A tensor to be written.
struct FloatTensor {
  std::string name;
  std::vector<int64_t> shape;
  /// Begins to read its values, row-major, from the device that has them.
  std::function<PendingRead<float>()> read;
  /// As `tfm_parameter` has it.
  int64_t outputAxis = -1;
  /// Where its device has integers, in 8 bits or in 4, reads these.
  std::function<Int8Rows()> readInt8 = {};
  std::function<Int4Groups()> readInt4 = {};
  /// Other names that its model has for it.
  std::vector<std::string> aliases = {};

  size_t elements() const;
};

/// A tensor that the host has; its values must stay where they are.
FloatTensor hostTensor(std::string name, std::vector<int64_t> shape,
                       const float *values);

/// Writes tensors in the order given; the caller commits the file.
void writeSafetensors(AtomicFile &file, const std::vector<FloatTensor> &tensors,
                      const std::map<std::string, std::string> &metadata,
                      StoredType type = StoredType::F32);

/// The same with checksums, which a reader compares: in the metadata, of each
/// tensor under `tfm.checksum:NAME`, and under `tfm.checksum` of the header
/// (where its own digits are zeros). Returns the latter.
std::string
writeCheckedSafetensors(AtomicFile &file,
                        const std::vector<FloatTensor> &tensors,
                        std::map<std::string, std::string> metadata);

/// `[3, 4]`, for messages.
std::string shapeText(const std::vector<int64_t> &shape);

} // namespace tfm

#endif // TFM_RUNTIME_FORMATS_SAFETENSORS_H
