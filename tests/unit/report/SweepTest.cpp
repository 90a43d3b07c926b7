//===- SweepTest.cpp - grids and differences ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tied.h"

#include "compiler/report/Diff.h"
#include "compiler/report/Sweep.h"

#include "llvm/Support/JSON.h"

using namespace tfm;
using namespace tfm::test;

namespace {

/// A model of width * layers parameters that wants an even width.
std::optional<ModelReport>
makeSmall(llvm::ArrayRef<std::pair<std::string, std::string>> defines,
          std::string &problem) {
  int64_t total = 1;
  for (const auto &[name, value] : defines) {
    if (name == "width" && std::stoi(value) % 2 != 0) {
      problem = "width must be even";
      return std::nullopt;
    }
    total *= std::stoi(value);
  }
  ModelReport report;
  report.total = total;
  report.bytes = 4 * total;
  ModuleReport model, head, inner;
  model.ownParameters = model.totalOwnParameters = 10;
  head.path = "head";
  head.module = "Head";
  head.depth = 1;
  head.totalParameters = total - 10;
  inner.path = "head.inner";
  inner.depth = 2;
  inner.totalParameters = 1;
  report.modules = {model, head, inner};
  return report;
}

std::vector<SweepPoint> sweepSmall(const std::vector<SweepAxis> &axes) {
  std::vector<SweepPoint> points = gridOf(axes);
  for (SweepPoint &point : points)
    point.report = makeSmall(definesOf(axes, point), point.problem);
  return points;
}

} // namespace

TEST(Sweep, ParsesAnAxis) {
  auto axis = parseSweepAxis("layers=2, 4,8");
  ASSERT_TRUE(static_cast<bool>(axis));
  EXPECT_EQ(axis->name, "layers");
  EXPECT_EQ(axis->values, (std::vector<std::string>{"2", "4", "8"}));
  for (const char *text : {"layers=2,,4", "layers=2,", "", "layers",
                           "layers=", "=2", "layers=,"}) {
    auto bad = parseSweepAxis(text);
    EXPECT_FALSE(static_cast<bool>(bad)) << text;
    llvm::consumeError(bad.takeError());
  }
}

TEST(Sweep, TablesTheGrid) {
  std::vector<SweepAxis> axes = {{"layers", {"2", "4"}},
                                 {"width", {"128", "129"}}};
  std::vector<SweepPoint> points = sweepSmall(axes);
  ASSERT_EQ(points.size(), 4U);
  EXPECT_EQ(points[2].report->total, 512);
  EXPECT_FALSE(points[3].report.has_value());

  std::string text;
  llvm::raw_string_ostream os(text);
  writeSweepText(tiedReport(), axes, points, {}, os);
  EXPECT_EQ(text, R"(Tied

  layers  width  parameters     size
       2    128         256  1.0 KiB
       2    129           -
       4    128         512  2.0 KiB
       4    129           -

Not possible (-)
  layers = 2, width = 129: width must be even
  layers = 4, width = 129: width must be even

What moves the total most, at 688 parameters
           1 more adds  derivative  elasticity
  width            158         150       1.744
  layers           272         272       0.791
  vocab              8           8       0.128
  context            8           8       0.070
)");
  text.clear();
  writeSweepCsv(axes, points, {}, os);
  EXPECT_EQ(text, "layers,width,total,bytes,forward_per_token,train_step\n"
                  "2,128,256,1024,,\n2,129,,,,\n4,128,512,2048,,\n4,129,,,,\n");
}

// With a depth, which of the components grew: they add up to the total.
TEST(Sweep, TablesTheComponents) {
  std::vector<SweepAxis> axes = {{"width", {"128", "129"}}};
  std::vector<SweepPoint> points = sweepSmall(axes);
  ReportView view;
  view.depth = 1;
  ModelReport base;
  base.model = "Small";
  std::string text;
  llvm::raw_string_ostream os(text);
  writeSweepText(base, axes, points, view, os);
  EXPECT_EQ(text, R"(Small

  width  (its own)  head  parameters       size
    128         10   118         128  512 bytes
    129          -     -           -

Not possible (-)
  width = 129: width must be even
)");
  text.clear();
  writeSweepCsv(axes, points, view, os);
  EXPECT_EQ(text, "width,(its own),head,total,bytes,forward_per_token,"
                  "train_step\n"
                  "128,10,118,128,512,,\n129,,,,,,\n");
  text.clear();
  writeSweepJson(base, axes, points, view, os);
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(text);
  ASSERT_TRUE(static_cast<bool>(json));
  const llvm::json::Object &point =
      *(*json->getAsObject()->getArray("sweep"))[0].getAsObject();
  EXPECT_EQ(*point.getArray("modules"),
            (llvm::json::Array{llvm::json::Object{
                {"path", "head"}, {"module", "Head"}, {"parameters", 118}}}));
}

TEST(Diff, EqualModelsHaveNoDifference) {
  EXPECT_TRUE(diffReports(tiedReport(), tiedReport()).empty());
}

TEST(Diff, TellsWhatChanged) {
  ModelReport a = tiedReport(), b = tiedReport();
  b.hyperparameters[2].value = int64_t{16};
  b.total += 8;
  b.tensors[0].shape = {11, 16};
  b.tensors.pop_back();
  b.modules.back().path = "norm";
  std::string text;
  llvm::raw_string_ostream os(text);
  writeDiffText(diffReports(a, b), os);
  EXPECT_EQ(text, R"(Hyperparameters
  width  8  ->  16

Totals
  parameters  688  ->  696  +8

Modules
  ln_f  LayerNorm, 8 parameters  ->  -                        -8
  norm  -                        ->  LayerNorm, 8 parameters  +8

Tensors
  wte.weight   [11, 8] = [vocab, width]  ->  [11, 16] = [vocab, width]
  ln_f.weight  [8] = [width]             ->  -
)");
}
