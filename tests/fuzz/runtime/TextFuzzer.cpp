//===- TextFuzzer.cpp - any bytes as text -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Byte-level BPE must give back any bytes; text cut anywhere into a stream must
// come out the same.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/atomic_file.h"
#include "runtime/support/utf8.h"
#include "runtime/tokenizer/tokenizer.h"
#include "tests/fuzz/support/TimeLimit.h"

#include <cstdlib>

namespace {

const tfm::Tokenizer &tokenizer() {
  static const tfm::TokenizerPtr bpe = tfm::makeByteBpeTokenizer(
      {tfm::readFile(TFM_FIXTURES "/bpe/bytes/vocab.json", "the fixture"),
       "vocab.json"},
      {tfm::readFile(TFM_FIXTURES "/bpe/bytes/merges.txt", "the fixture"),
       "merges.txt"});
  return *bpe;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tfm::fuzz::TimeLimit limit(2);
  std::string_view text(reinterpret_cast<const char *>(data), size);
  std::string back;
  for (int32_t id : tokenizer().ids(text))
    tokenizer().decode(id, -1, back);
  if (back != text)
    std::abort();
  tfm::Utf8Stream stream;
  std::string all;
  for (size_t at = 0; at < size; at += 1 + at % 3)
    all += stream.push(text.substr(at, 1 + at % 3));
  all += stream.finish();
  if (all != tfm::replaceInvalidUtf8(text))
    std::abort();
  return 0;
}
