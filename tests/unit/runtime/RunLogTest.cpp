//===- RunLogTest.cpp - when lines of a log are in its file ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/files/run_log.h"
#include "runtime/support/error.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <chrono>
#include <gtest/gtest.h>
#include <thread>

namespace tfm::test {
namespace {

TEST(RunLog, CanBeFollowedWhileStepsAreSlow) {
  TemporaryFolder folder;
  RunLog log;
  log.open(folder / "log.jsonl", /*anew=*/true);
  log.line("one");
  EXPECT_EQ(contentOf(folder / "log.jsonl"), "one\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  log.line("two");
  EXPECT_EQ(contentOf(folder / "log.jsonl"), "one\ntwo\n");
  // Not for each of many fast ones.
  log.line("three");
  EXPECT_EQ(contentOf(folder / "log.jsonl"), "one\ntwo\n");
}

TEST(RunLog, IsWrittenAtOnceOnDemandAndAtItsEnd) {
  TemporaryFolder folder;
  {
    RunLog log;
    log.open(folder / "log.jsonl", /*anew=*/true);
    log.line("one");
    log.line("two", /*now=*/true);
    EXPECT_EQ(contentOf(folder / "log.jsonl"), "one\ntwo\n");
    log.line("three");
  }
  EXPECT_EQ(contentOf(folder / "log.jsonl"), "one\ntwo\nthree\n");
}

TEST(RunLog, IsKnownByItsFirstLineAlsoByItsBeginning) {
  TemporaryFolder folder;
  for (const char *text :
       {"", "{\"step\":", "{\"step\":1,\"lo", "{\"step\":1,\"loss\":2}\n{\"st"})
    EXPECT_EQ(messageOf<InputError>(
                  [&] { requireLog(folder.write("log.jsonl", text)); }),
              "")
        << text;
  for (const char *text : {"x", "{", "{\"stop\"", "{\"step\n", "{\"a\":1}\n"})
    EXPECT_NE(messageOf<InputError>(
                  [&] { requireLog(folder.write("log.jsonl", text)); }),
              "")
        << text;
}

} // namespace
} // namespace tfm::test
