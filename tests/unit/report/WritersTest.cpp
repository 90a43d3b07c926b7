//===- WritersTest.cpp - reports as text, JSON and CSV --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tied.h"

#include "compiler/report/Page.h"
#include "compiler/report/Writers.h"

#include "llvm/Support/JSON.h"

using namespace tfm;
using namespace tfm::test;

namespace {

std::string text(void (*write)(const ModelReport &, const ReportView &,
                               llvm::raw_ostream &),
                 const ReportView &view = {}) {
  std::string result;
  llvm::raw_string_ostream os(result);
  write(tiedReport(), view, os);
  return result;
}

/// The keys of an object in the order of the text.
std::vector<std::string> keysInOrder(llvm::StringRef json) {
  std::vector<std::string> keys;
  int depth = 0;
  while (!json.empty()) {
    char c = json.front();
    json = json.drop_front();
    if (c == '{' || c == '[')
      ++depth;
    if (c == '}' || c == ']')
      --depth;
    if (c != '"')
      continue;
    size_t end = json.find('"');
    llvm::StringRef word = json.take_front(end);
    json = json.drop_front(end + 1);
    if (depth == 1 && json.ltrim().starts_with(":"))
      keys.push_back(word.str());
  }
  return keys;
}

} // namespace

TEST(Writers, Numbers) {
  EXPECT_EQ(withThousands(0), "0");
  EXPECT_EQ(withThousands(999), "999");
  EXPECT_EQ(withThousands(124439808), "124,439,808");
  EXPECT_EQ(withThousands(-1000), "-1,000");
  EXPECT_EQ(withByteUnit(1023), "1023 bytes");
  EXPECT_EQ(withByteUnit(497759232), "474.7 MiB");
  EXPECT_EQ(withFlopUnit(1500), "1.5 kFLOP");
  EXPECT_EQ(valueText({"drop", 0.1}), "0.1");
  EXPECT_EQ(valueText({"lr", 6e-4}), "0.0006");
  EXPECT_EQ(valueText({"eps", 1e-8}), "1e-8");
  EXPECT_EQ(valueText({"drop", 0.0}), "0.0");
  EXPECT_EQ(valueText({"cap", 30.0}), "30.0");
  EXPECT_EQ(valueText({"base", 500000.0}), "500000.0");
  EXPECT_EQ(valueText({"huge", 1e30}), "1e+30");
  EXPECT_EQ(valueText({"third", 1.0 / 3}), "0.3333333333333333");
}

TEST(Writers, TextShowsARepeatOnce) {
  EXPECT_EQ(text(writeText), R"(Tied (tied.tfm)
  vocab = 11, context = 6, width = 8, layers = 2, drop = 0.1

                     parameters   share  per layer
  Tied                      688  100.0%
    wte: Embedding           88   12.8%
    wpe: Embedding           48    7.0%
    h: 2 x Block            544   79.1%        272
      fc: Linear            288   41.9%        144
      proj: Linear          256   37.2%        128
    ln_f: LayerNorm           8    1.2%

Total: 688 parameters (640 trained), 2.7 KiB
)");
}

// Where layers take turns, each half says which layers it is.
TEST(Writers, TextOfAPeriodicRepeat) {
  ModelReport report = reportOf(R"mlir(
module attributes {tfm.model = "Turns", tfm.source = "turns.tfm",
  tfm.hyperparameters = [{name = "n", value = 4 : i64}],
  tfm.modules = [
    {path = "h", module = "Block", line = 1 : i64, count = 4 : i64, dims = "n"},
    {path = "h.2*+0.a", module = "A", line = 2 : i64},
    {path = "h.2*+1.b", module = "B", line = 2 : i64}]} {
  tfm.param @"h.2*+0.a.w" : tensor<2x3xf32>
    {dims = ["3"], init = {kind = "ones"}, names = ["h.0.a.w", "h.2.a.w"]}
  tfm.param @"h.2*+1.b.w" : tensor<2x5xf32>
    {dims = ["5"], init = {kind = "ones"}, names = ["h.1.b.w", "h.3.b.w"]}
})mlir");
  std::string result;
  llvm::raw_string_ostream os(result);
  writeText(report, {}, os);
  EXPECT_EQ(result, R"(Turns (turns.tfm)
  n = 4

                          parameters   share  per layer
  Turns                           16  100.0%
    h: 4 x Block                  16  100.0%    differs
      a (layers 0, 2): A           6   37.5%          3
      b (layers 1, 3): B          10   62.5%          5

Total: 16 parameters, 64 bytes
)");
  EXPECT_EQ(pathText(report, "h.2*+1.b.w"), "h.[1, 3].b.w");
  EXPECT_EQ(pathText(report, "h.*.w"), "h.*.w");
}

TEST(Writers, TextWithFormulasAndDepth) {
  ReportView view;
  view.formulas = true;
  view.depth = 1;
  EXPECT_EQ(text(writeText, view), R"(Tied (tied.tfm)
  vocab = 11, context = 6, width = 8, layers = 2, drop = 0.1

                     parameters   share  per layer  formula
  Tied                      688  100.0%             vocab*width + context*width + 4*width**2*layers + 2*width*layers + width
    wte: Embedding           88   12.8%             vocab*width
    wpe: Embedding           48    7.0%             context*width
    h: 2 x Block            544   79.1%        272  4*width**2*layers + 2*width*layers
    ln_f: LayerNorm           8    1.2%             width

Total: 688 parameters (640 trained), 2.7 KiB
     = vocab*width + context*width + 4*width**2*layers + 2*width*layers + width
)");
}

TEST(Writers, TextTables) {
  ReportView view;
  view.tensors = view.shapes = view.flops = true;
  view.depth = 0;
  std::string result = text(writeText, view);
  for (const char *line :
       {"Tensors (9)\n",
        "  wte.weight       [vocab, width]    [11, 8]   88  also "
        "lm_head.weight\n",
        "  wpe.weight       [context, width]  [6, 8]    48  not trained\n",
        "  h.1.proj.weight  [2*width, width]  [16, 8]  128\n",
        "   7  tokens  [B, T]           [1, 6]      argument\n",
        "   8  x       [B, T, width]    [1, 6, 8]\n",
        "  13  h.*.a   [B, T, 2*width]  [6, 16]\n",
        "   9  return  [B, T, vocab]    [1, 6, 11]  result\n",
        "  forward, per token: 1,592 (1.6 kFLOP), the mean over 6 positions\n"
        "    matmul"})
    EXPECT_NE(result.find(line), std::string::npos) << line << result;
}

TEST(Writers, JsonHasTheFieldsOfTheContract) {
  std::string json = text(writeJson);
  EXPECT_EQ(keysInOrder(json),
            (std::vector<std::string>{"format", "model", "source",
                                      "hyperparameters", "parameters", "shapes",
                                      "flops", "memory", "whole_sequence"}));
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(json);
  ASSERT_TRUE(static_cast<bool>(parsed));
  const llvm::json::Object &root = *parsed->getAsObject();
  EXPECT_EQ(root.getInteger("format"), 1);
  EXPECT_NE(json.find("\"drop\": 0.1\n"), std::string::npos);
  EXPECT_EQ(root.getObject("hyperparameters")->getInteger("width"), 8);
  const llvm::json::Object &parameters = *root.getObject("parameters");
  EXPECT_EQ(parameters.getInteger("total"), 688);
  EXPECT_EQ(parameters.getInteger("bytes"), 4 * 688);

  std::vector<std::string> paths;
  for (const llvm::json::Value &member : *parameters.getArray("modules"))
    paths.push_back(member.getAsObject()->getString("path")->str());
  EXPECT_EQ(paths, (std::vector<std::string>{"wte", "wpe", "h", "h.0", "h.0.fc",
                                             "h.0.proj", "h.1", "h.1.fc",
                                             "h.1.proj", "ln_f"}));
  const llvm::json::Object &layer =
      *(*parameters.getArray("modules"))[3].getAsObject();
  EXPECT_EQ(layer.getString("module"), "Block");
  EXPECT_EQ(layer.getInteger("parameters"), 272);
  EXPECT_EQ(layer.getString("formula"), "4*width**2 + 2*width");

  const llvm::json::Object &tensor =
      *(*parameters.getArray("tensors"))[0].getAsObject();
  EXPECT_EQ(tensor.getString("name"), "wte.weight");
  EXPECT_EQ(*tensor.getArray("shape"), (llvm::json::Array{11, 8}));
  EXPECT_EQ(*tensor.getArray("dims"), (llvm::json::Array{"vocab", "width"}));
  EXPECT_EQ(*tensor.getArray("used_by"),
            (llvm::json::Array{"wte", "forward:9"}));

  const llvm::json::Object &value =
      *(*root.getArray("shapes"))[3].getAsObject();
  EXPECT_EQ(value.getString("path"), "h.1");
  EXPECT_EQ(value.getString("value"), "a");
  EXPECT_EQ(value.getString("role"), "value");

  // Products are matmul and attention, all of them in f32.
  const llvm::json::Object &products =
      *root.getObject("flops")->getObject("products");
  const llvm::json::Object &forward = *products.getObject("forward_per_token");
  EXPECT_EQ(forward.size(), 1u);
  EXPECT_GT(*forward.getInteger("f32"), 0);
  EXPECT_LT(*forward.getInteger("f32"), 1592);
  EXPECT_TRUE(products.get("train_step")->getAsNull());

  // What is not known is null.
  EXPECT_EQ(root.getObject("flops")->getInteger("forward_per_token"), 1592);
  EXPECT_TRUE(root.getObject("flops")->get("train_step")->getAsNull());
  EXPECT_TRUE(root.get("memory")->getAsNull());
  EXPECT_TRUE(root.get("whole_sequence")->getAsNull());
}

TEST(Writers, JsonOfKnownMemory) {
  ModelReport report = tiedReport();
  MemoryPhase train{
      "train", true, false, false, 4, {1, 3, 2}, {{"bf16", 2}, {"f32", 1}}};
  report.memory = MemoryReport{
      4,
      64,
      "bf16",
      "int4",
      "int8",
      "cpu",
      "znver4",
      1,
      2,
      3,
      5,
      4,
      7,
      10,
      9,
      {train},
      {{"parameters", {{"f32", 1}}}, {"saved", {{"bf16", 2}, {"f32", 1}}}},
      8,
      {256, 32},
      {}};
  std::string json;
  llvm::raw_string_ostream os(json);
  writeJson(report, {}, os);
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(json);
  ASSERT_TRUE(static_cast<bool>(parsed));
  const llvm::json::Object &memory =
      *parsed->getAsObject()->getObject("memory");
  EXPECT_EQ(
      memory,
      (llvm::json::Object{
          {"batch", 4},
          {"sequence", 64},
          {"precision", "bf16"},
          {"target", "cpu"},
          {"cpu", "znver4"},
          {"parameters", 1},
          {"gradients", 2},
          {"optimizer", 3},
          {"activations", 4},
          {"arena", 10},
          {"lower_bound", 9},
          {"peak", nullptr},
          {"constants", 5},
          {"cache", 7},
          {"generation",
           llvm::json::Object{{"batch", 8},
                              {"weights", "int4"},
                              {"cache", "int8"},
                              {"chunks", llvm::json::Array{256, 32}}}},
          {"types",
           llvm::json::Object{
               {"parameters", llvm::json::Object{{"f32", 1}}},
               {"saved", llvm::json::Object{{"bf16", 2}, {"f32", 1}}}}},
          {"phases", llvm::json::Array{llvm::json::Object{
                         {"phase", "train"},
                         {"activations", 4},
                         {"live", 3},
                         {"live_types",
                          llvm::json::Object{{"bf16", 2}, {"f32", 1}}}}}}}));
}

TEST(Writers, Csv) {
  ReportView view;
  view.depth = 1;
  EXPECT_EQ(text(writeCsv, view),
            "path,module,count,parameters,formula\n"
            ",Tied,1,688,vocab*width + context*width + 4*width**2*layers + "
            "2*width*layers + width\n"
            "wte,Embedding,1,88,vocab*width\n"
            "wpe,Embedding,1,48,context*width\n"
            "h,Block,2,544,4*width**2*layers + 2*width*layers\n"
            "ln_f,LayerNorm,1,8,width\n");
  view.tensors = true;
  EXPECT_NE(text(writeCsv, view)
                .find("h.0.fc.weight,8 x 16,width x 2*width,f32,128,"
                      "2*width**2,true\n"),
            std::string::npos);
  view = {};
  view.shapes = true;
  EXPECT_EQ(text(writeCsv, view),
            "path,value,shape,dims,line,role,file\n"
            ",tokens,1 x 6,B x T,7,argument,\n"
            ",x,1 x 6 x 8,B x T x width,8,value,\n"
            "h.*,a,6 x 16,B x T x 2*width,13,value,\n"
            ",return,1 x 6 x 11,B x T x vocab,9,result,\n");
}

// What a page draws is the run itself.
TEST(Writers, BenchPageHasTheRun) {
  const std::string run =
      R"({"model": "Tied", "source": "/home/me/tied.tfm", "target": "znver4",
          "precision": "f32", "accumulate": 2, "threads": 2,
          "peak_gflops": 123.45678901234567, "memory_gbs": 40.5,
          "functions": {"train": {"milliseconds": 0.1, "kernels": [
            {"name": "matmul 8x8x8", "path": "<h>", "runs": 2, "flops": 1024,
             "bytes": 768, "milliseconds": 0.1, "of": "peak", "share": 0.5}]}}})";
  std::string page;
  llvm::raw_string_ostream os(page);
  ASSERT_FALSE(static_cast<bool>(writeBench(run, os)));
  llvm::StringRef begin = R"(<script type="application/json" id="data">)";
  llvm::StringRef text = llvm::StringRef(page).split(begin).second;
  text = text.take_front(text.find("</script>"));
  EXPECT_EQ(text.find('<'), llvm::StringRef::npos);
  llvm::Expected<llvm::json::Value> data = llvm::json::parse(text);
  llvm::Expected<llvm::json::Value> expected = llvm::json::parse(run);
  ASSERT_TRUE(static_cast<bool>(data) && static_cast<bool>(expected));
  (*expected->getAsObject())["source"] = "tied.tfm";
  EXPECT_EQ(*data, *expected);
  EXPECT_NE(page.find("<title>Tied: roofline</title>"), std::string::npos);
}

TEST(Writers, BenchPageIsOfARun) {
  for (const char *run : {"", "nonsense", "[]", "{}", R"({"model": "M"})"}) {
    std::string page;
    llvm::raw_string_ostream os(page);
    llvm::Error error = writeBench(run, os);
    EXPECT_TRUE(static_cast<bool>(error)) << run;
    llvm::consumeError(std::move(error));
    EXPECT_EQ(page, "") << run;
  }
}

// Others, to whom a page goes, need not see where its files were.
TEST(Writers, PagesNameFilesWithoutTheirFolders) {
  EXPECT_EQ(nameOnPage("models/gpt.tfm"), "models/gpt.tfm");
  EXPECT_EQ(nameOnPage("<stdin>"), "<stdin>");
  EXPECT_EQ(nameOnPage("/home/me/gpt.tfm"), "gpt.tfm");
  EXPECT_EQ(nameOnPage("/home/me/runs/poem/log.jsonl", 2), "poem/log.jsonl");
  EXPECT_EQ(nameOnPage("/log.jsonl", 2), "log.jsonl");
}
