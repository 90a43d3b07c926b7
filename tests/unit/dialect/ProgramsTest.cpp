//===- ProgramsTest.cpp - names of functions and of parts of the arena ----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/dialect/Programs.h"

#include "gtest/gtest.h"

using namespace tfm;

namespace {

TEST(Programs, AreKnownByTheirNames) {
  for (ProgramKind kind : builtPrograms())
    EXPECT_EQ(programKind(nameOf(kind)), kind);
  EXPECT_EQ(programKind("update_plain"), ProgramKind::UpdatePlain);
  EXPECT_EQ(programKind("Train"), std::nullopt);
  EXPECT_EQ(programKind(""), std::nullopt);
}

TEST(ArenaRegions, AreReadAsTheyAreWritten) {
  using Kind = ArenaRegion::Kind;
  using Part = ArenaRegion::Part;
  auto expectRead = [](Kind kind, Part part) {
    ArenaRegion region = ArenaRegion::ofParameters(kind, part);
    EXPECT_EQ(ArenaRegion::parse(region.name()), region) << region.name();
  };
  for (Kind kind : {Kind::Parameters, Kind::Copies, Kind::Gradients,
                    Kind::State0, Kind::State1})
    for (Part part : {Part::Decayed, Part::Plain})
      expectRead(kind, part);
  expectRead(Kind::Parameters, Part::Frozen);
  expectRead(Kind::Copies, Part::Frozen);
  EXPECT_EQ(ArenaRegion::ofParameters(Kind::State1, Part::Decayed).name(),
            "state1.decayed");
  EXPECT_EQ(ArenaRegion::ofCache(12).name(), "cache.12");
  EXPECT_EQ(ArenaRegion::parse("cache.12"), ArenaRegion::ofCache(12));
}

TEST(ArenaRegions, AreNothingElse) {
  for (const char *text : {"", "parameters", "parameters.", "cache", "cache.",
                           "cache.-1", "cache.1.2", "state2.plain",
                           "gradients.frozen", "parameters.decayed.plain"})
    EXPECT_EQ(ArenaRegion::parse(text), std::nullopt) << text;
}

} // namespace
