//===- PlantedFaultsTest.cpp - wrong kernels in the emulator --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each kernel of EmulatorTest with one mistake in it that people make. The
// emulator must find it, name the place and say what is wrong there; where
// values alone can tell (`WrongValues`) they must.
//
//===----------------------------------------------------------------------===//

#include "tests/unit/emulator/Emulated.h"

#include <ostream>

using namespace tfm::emulator;
using Kind = Fault::Kind;

namespace {

constexpr std::nullopt_t WrongValues = std::nullopt;

struct Planted {
  const char *name;
  Outcome (*run)(Emulated &);
  const char *file;
  Emulated::Changes changes;
  std::optional<Kind> kind;
  /// What the message says, in this order.
  std::vector<std::string> says;
};

std::ostream &operator<<(std::ostream &os, const Planted &planted) {
  return os << planted.name;
}

class PlantedFaults : public testing::TestWithParam<Planted> {};

TEST_P(PlantedFaults, AreFound) {
  const Planted &planted = GetParam();
  Emulated kernels(planted.file, planted.changes);
  ASSERT_TRUE(kernels.program) << kernels.error;
  Outcome outcome = planted.run(kernels);
  if (!planted.kind) {
    EXPECT_FALSE(outcome.fault) << outcome.fault->text;
    EXPECT_FALSE(outcome.right);
    return;
  }
  ASSERT_TRUE(outcome.fault)
      << "values are " << (outcome.right ? "right" : "wrong");
  EXPECT_EQ(outcome.fault->kind, *planted.kind) << outcome.fault->text;
  size_t at = 0;
  for (const std::string &piece : planted.says) {
    at = outcome.fault->text.find(piece, at);
    EXPECT_NE(at, std::string::npos)
        << "no \"" << piece << "\" in: " << outcome.fault->text;
    if (at == std::string::npos)
      break;
  }
}

const char *const Arrive = "%pState = nvvm.mbarrier.arrive %pFull : "
                           "!llvm.ptr<3> -> i64\n";

const Planted all[] = {
    // Threads and warps.
    {"MissingBarrier",
     runRowSum,
     "row_sum.mlir",
     {{"nvvm.barrier0", ""}},
     Kind::Unwritten,
     {"thread 0", "reads byte 0 of shared memory, which nobody"}},
    {"DivergentBarrier",
     runRowSum,
     "row_sum.mlir",
     {{"llvm.br ^meet", "nvvm.barrier0\n  llvm.br ^meet"}},
     Kind::Divergence,
     {"block (0, 0, 0)",
      "lane 0) is at row_sum.mlir:", "lanes 31 of warp 0 wait for it"}},
    {"LanesEndBeforeABarrier",
     runRowSum,
     "row_sum.mlir",
     {{"%leads, ^write, ^meet", "%leads, ^write, ^end"}},
     Kind::Divergence,
     {"lane 0) is at row_sum.mlir:53:3 (nvvm.barrier0), but lanes 31 of warp 0 "
      "have ended"}},
    {"ShuffleInABranch",
     runRowSum,
     "row_sum.mlir",
     {{"  %place = ", "  %o5 = nvvm.shfl.sync bfly %all, %s7, %1, %31 : f32 -> "
                      "f32\n  %place = "}},
     Kind::Divergence,
     {"lane 0) is at row_sum.mlir:", "lanes 31 of warp 0 wait"}},
    {"WrongLaneInAShuffle",
     runRowSum,
     "row_sum.mlir",
     {{"%all, %s5, %2,", "%all, %s5, %1,"}},
     WrongValues,
     {}},
    {"LaneOutsideOfItsMask",
     runRowSum,
     "row_sum.mlir",
     {{"%all, %s5, %2,", "%1, %s5, %2,"}},
     Kind::Misuse,
     {"is not in the mask 0x1 at row_sum.mlir:"}},
    {"TwoLanesWriteOnePlace",
     runRowSum,
     "row_sum.mlir",
     {{"\"eq\" %lane, %0", "\"ule\" %lane, %1"}},
     Kind::Race,
     {"thread 1 (warp 0, lane 1) writes byte 0 of shared memory at "
      "row_sum.mlir:",
      "thread 0 wrote at row_sum.mlir:"}},
    {"TwoBlocksWriteOnePlace",
     runRowSum,
     "row_sum.mlir",
     {{"%y[%row]", "%y[%0]"}},
     Kind::Race,
     {"block (1, 0, 0)", "writes byte 0 of y", "another block wrote"}},
    {"OneBlockTooMany",
     runRowSum,
     "row_sum.mlir",
     {{"array<i64: 3, 1, 1>", "array<i64: 4, 1, 1>"}},
     Kind::OutOfBounds,
     {"block (3, 0, 0)", "reads 16 bytes at byte 6144 of x"}},
    {"WriteBeforeABuffer",
     runRowSum,
     "row_sum.mlir",
     {{"%begin = llvm.mul %row, %512", "%begin = llvm.mul %all, %512"}},
     Kind::OutOfBounds,
     {"thread 0", "reads 16 bytes"}},
    {"MisalignedVector",
     runRowSum,
     "row_sum.mlir",
     {{"llvm.add %begin, %mine", "llvm.add %begin, %tid"}},
     Kind::Misaligned,
     {"thread 1", "byte 4 of x, which is no multiple of 16"}},

    // Copies and matrices.
    {"BarrierMissingInALoop",
     runGemm,
     "gemm.mlir",
     {{"nvvm.barrier0", ""}},
     Kind::Race,
     {"reads byte", "of shared memory at gemm.mlir:", "thread",
      "wrote at gemm.mlir:"}},
    {"TooFewStages",
     runGemm,
     "gemm.mlir",
     {{"urem %step, %3", "urem %step, %2"}, {"urem %now, %3", "urem %now, %2"}},
     Kind::Race,
     {"writes byte", "of shared memory", "read at gemm.mlir:"}},
    {"WaitGroupOffByOne",
     runGemm,
     "gemm.mlir",
     {{"wait.group 1", "wait.group 2"}},
     Kind::CopyInFlight,
     {"reads byte", "has waited for the copy to it at gemm.mlir:"}},
    {"MissingCommit",
     runGemm,
     "gemm.mlir",
     {{"nvvm.cp.async.commit.group", ""}},
     Kind::CopyInFlight,
     {"has waited for the copy"}},
    {"CopyNeverAwaited",
     runGemm,
     "gemm.mlir",
     {{"\"eq\" %now, %3", "\"eq\" %now, %2"}},
     Kind::CopyNotAwaited,
     {"ends and has not waited for 2 of its copies, the first at gemm.mlir:"}},
    {"WrongTransposition",
     runGemm,
     "gemm.mlir",
     {{"ldmatrix %bRows {num = 4 : i32, layout = #nvvm.mma_layout<col>",
       "ldmatrix %bRows {num = 4 : i32, layout = #nvvm.mma_layout<row>"}},
     WrongValues,
     {}},
    {"MatrixRowsMisaligned",
     runGemm,
     "gemm.mlir",
     {{"%highBytes = llvm.mul %high, %16", "%highBytes = llvm.mul %high, %8"}},
     Kind::Misaligned,
     {"lane 16) reads 16 bytes"}},
    {"TileFilledInPart",
     runGemm,
     "gemm.mlir",
     {{"\"ult\" %tid, %32", "\"ult\" %tid, %16"}},
     Kind::Unwritten,
     {"of shared memory, which nobody has written, at gemm.mlir:"}},
    {"TooLittleSharedMemory",
     runGemm,
     "gemm.mlir",
     {{"tfm.shared = 4608", "tfm.shared = 4096"}},
     Kind::OutOfBounds,
     {"writes 16 bytes at byte 4",
      "of shared memory, which is outside of it, at gemm.mlir:"}},

    // Objects that count arrivals.
    {"MissingArrive",
     runPipeline,
     "pipeline.mlir",
     {{Arrive, ""}},
     Kind::Deadlock,
     {"threads 32 to 63 wait for phase 0 of the mbarrier at byte 0 of shared "
      "memory, to which 32 of 32 arrivals are missing, at pipeline.mlir:"}},
    {"WrongParity",
     runPipeline,
     "pipeline.mlir",
     {{"%pWait = llvm.xor %pParity, %1", "%pWait = llvm.xor %pParity, %0"}},
     Kind::Deadlock,
     {"threads 0 to 31 wait for phase 0 of the mbarrier at byte 16"}},
    {"WrongParityOfTheReader",
     runPipeline,
     "pipeline.mlir",
     {{"%cParity = llvm.and %cTurn, %1", "%cParity = llvm.xor %cTurn, %1"}},
     Kind::Unwritten,
     {"thread 63",
      "of shared memory, which nobody has written, at pipeline.mlir:"}},
    {"MissingWait",
     runPipeline,
     "pipeline.mlir",
     {{"nvvm.mbarrier.try_wait.parity %pEmpty, %pWait, %ticks : !llvm.ptr<3>, "
       "i32, i32",
       ""}},
     Kind::Race,
     {"of shared memory at pipeline.mlir:",
      "nothing orders that with what thread"}},
    {"CountTooSmall",
     runPipeline,
     "pipeline.mlir",
     {{"init %full0, %32", "init %full0, %31"}},
     Kind::Race,
     {"nothing orders that"}},
    {"BarrierUsedBeforeItsMakingIsKnown",
     runPipeline,
     "pipeline.mlir",
     {{"nvvm.barrier0", ""}},
     Kind::Race,
     {"thread 1 ", "thread 0 wrote at pipeline.mlir:"}},
    {"NoBarrierThere",
     runPipeline,
     "pipeline.mlir",
     {{"nvvm.mbarrier.init %empty1, %32 : !llvm.ptr<3>, i32", ""}},
     Kind::Misuse,
     {"uses byte 24 of shared memory as an mbarrier"}},
    {"WarpNotSynchronised",
     runHandOver,
     "hand_over.mlir",
     {{"nvvm.bar.warp.sync %all : i32\n  // Read", "// Read"}},
     Kind::Unwritten,
     {"(warp 1", "which nobody has written, at hand_over.mlir:"}},
    {"WarpWritesWhatOthersRead",
     runHandOver,
     "hand_over.mlir",
     {{"nvvm.bar.warp.sync %all : i32\n  llvm.store", "llvm.store"}},
     Kind::Race,
     {"(warp 1", "of shared memory at hand_over.mlir:",
      "nothing orders that with what thread"}},
    {"NobodyArrives",
     runHandOver,
     "hand_over.mlir",
     {{"nvvm.barrier.arrive id = %1 number_of_threads = %64", ""}},
     Kind::Deadlock,
     {"threads 0 to 31 wait at barrier 1, where 32 of 64 threads are",
      "threads 32 to 63 have ended"}},
    {"CopyReadBeforeItsBarrier",
     runHandOver,
     "hand_over.mlir",
     {{"%done, ^copied, ^poll", "%done, ^copied, ^copied"}},
     Kind::Race,
     {"reads byte 16 of shared memory", "thread 0 wrote at hand_over.mlir:"}},
};

INSTANTIATE_TEST_SUITE_P(Emulator, PlantedFaults, testing::ValuesIn(all),
                         [](const auto &info) { return info.param.name; });

} // namespace
