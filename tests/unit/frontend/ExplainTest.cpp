//===- ExplainTest.cpp - tests of the pages on errors ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/frontend/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "gtest/gtest.h"

#include <set>

using namespace tfm;

namespace {

TEST(Explain, EveryPageNamesItsCode) {
  std::vector<ErrorCode> codes = explainedCodes();
  EXPECT_GE(codes.size(), 80u);
  for (ErrorCode code : codes) {
    std::string number = std::to_string(code);
    number.insert(0, 4 - number.size(), '0');
    EXPECT_TRUE(explanation(code).starts_with("# E" + number + ": ")) << number;
  }
  EXPECT_EQ(explanation(9998), "");
}

// Whatever code an error can have, there is a page on it.
TEST(Explain, EveryCodeOfTheSourceHasAPage) {
  std::error_code failure;
  std::set<unsigned> used;
  for (llvm::sys::fs::recursive_directory_iterator
           it(TFM_FRONTEND_SOURCES, failure),
       end;
       it != end && !failure; it.increment(failure)) {
    if (!llvm::StringRef(it->path()).ends_with(".cpp"))
      continue;
    auto buffer = llvm::MemoryBuffer::getFile(it->path());
    ASSERT_TRUE(bool(buffer));
    llvm::StringRef text = (*buffer)->getBuffer();
    // error(203, ...), also where the line breaks after the parenthesis.
    while (!text.empty()) {
      size_t at = text.find("error(");
      if (at == llvm::StringRef::npos)
        break;
      text = text.drop_front(at + 6);
      llvm::StringRef rest = text.ltrim();
      llvm::StringRef digits = rest.take_while(llvm::isDigit);
      unsigned code;
      if (digits.size() == 3 && !digits.getAsInteger(10, code))
        used.insert(code);
    }
  }
  ASSERT_FALSE(failure) << failure.message();
  EXPECT_GE(used.size(), 70u);
  for (unsigned code : used)
    EXPECT_NE(explanation(code), "") << code;
}

TEST(Explain, ClosestNames) {
  EXPECT_EQ(closestName("widht", {"height", "width"}), "width");
  EXPECT_EQ(closestName("modul", {"model", "module"}), "module");
  EXPECT_EQ(closestName("foo", {"attention", "softmax"}), "");
  EXPECT_EQ(closestName("x", {"y", "z"}), "");
}

} // namespace
