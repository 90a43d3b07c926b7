//===- ReportCommand.cpp - tfmc report ------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "ModelInput.h"
#include "Output.h"

#include "compiler/dialect/Programs.h"
#include "compiler/driver/Build.h"
#include "compiler/driver/MemoryPlan.h"
#include "compiler/report/Against.h"
#include "compiler/report/Sweep.h"
#include "compiler/report/Writers.h"
#include "compiler/transforms/ChooseLayers.h"
#include "compiler/transforms/ReadRecipe.h"
#include "compiler/transforms/SequenceAxis.h"
#include "compiler/transforms/SimplifyPatterns.h"
#include "runtime/commands/usage.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <limits>

using namespace tfm;

namespace {

struct ReportArguments {
  std::string file;
  std::vector<std::string> defines;
  ReportView view;
  int depth = -1;
  std::string format = "text";
  std::string target = "cpu";
  std::string cpu = "native";
  std::string precision;
  std::string output;
  std::vector<std::string> sweep;
  std::string against;
  bool values = false;
  std::vector<std::string> counts; ///< of processes: `2,4,8`
  std::vector<int64_t> processes;  ///< the same
  std::optional<std::string> network;
  std::optional<std::string> latency, step;

  /// Whether FLOPs are counted, for which a model is differentiated.
  bool countsFlops() const {
    return against.empty() && (view.flops || format != "text");
  }
};

} // namespace

/// The report of a compiled model. FLOPs cost a differentiation, so they are
/// counted only for who asks.
static ModelReport makeModelReport(CompiledModel &model, const ReportView &view,
                                   bool flops, bool constants = false) {
  ReportOptions options;
  options.values = view.shapes;
  options.constants = constants;
  options.flops = flops;
  if (flops)
    differentiate(model);
  llvm::Expected<ModelReport> report = makeReport(*model.module, options);
  if (!report)
    llvm::report_fatal_error(report.takeError());
  return std::move(*report);
}

/// What `--sweep` asks for; empty without one.
static std::vector<SweepAxis> sweepAxes(const ReportArguments &arguments) {
  std::vector<SweepAxis> axes;
  for (const std::string &text : arguments.sweep) {
    llvm::Expected<SweepAxis> axis = parseSweepAxis(text);
    if (!axis)
      throw CLI::ValidationError("--sweep", llvm::toString(axis.takeError()));
    for (const SweepAxis &other : axes)
      if (other.name == axis->name)
        throw CLI::ValidationError("--sweep", axis->name +
                                                  " is given twice: list all "
                                                  "of its values once");
    axes.push_back(std::move(*axis));
  }
  // Each point is a model that is elaborated.
  constexpr size_t mostPoints = 10'000;
  size_t count = 1;
  for (const SweepAxis &axis : axes)
    count = std::min(count * axis.values.size(), mostPoints + 1);
  if (count > mostPoints)
    throw CLI::ValidationError(
        "--sweep", "the grid has more than " + std::to_string(mostPoints) +
                       " points: leave some of the values out");
  return axes;
}

/// The model at one point of a grid. Each is elaborated anew, so that defaults
/// that depend on others follow.
static CompiledModel loadPoint(const ReportArguments &arguments,
                               llvm::ArrayRef<SweepAxis> axes,
                               const SweepPoint &point, std::string &problem) {
  Defines defines = parseDefines(arguments.defines);
  llvm::append_range(defines, definesOf(axes, point));
  return loadModel(arguments.file, defines, &problem);
}

/// The model that a report is about. Of a grid it is the file as it stands; a
/// file that lacks what only the grid says is that of the first point possible.
static CompiledModel loadSubject(const ReportArguments &arguments,
                                 llvm::ArrayRef<SweepAxis> axes) {
  Defines defines = parseDefines(arguments.defines);
  std::string problem;
  if (!axes.empty() && !loadModel(arguments.file, defines, &problem).module)
    for (const SweepPoint &point : gridOf(axes))
      if (CompiledModel model = loadPoint(arguments, axes, point, problem);
          model.module)
        return model;
  return loadModel(arguments.file, defines);
}

static int sweep(const ReportArguments &arguments,
                 llvm::ArrayRef<SweepAxis> axes, const ModelReport &base,
                 llvm::raw_ostream &os) {
  std::vector<SweepPoint> points = gridOf(axes);
  for (SweepPoint &point : points)
    if (CompiledModel model = loadPoint(arguments, axes, point, point.problem);
        model.module)
      point.report =
          makeModelReport(model, ReportView(), arguments.countsFlops());
  // Where nothing is possible there is one reason, and no table.
  bool possible = llvm::any_of(
      points, [](const SweepPoint &point) { return point.report.has_value(); });
  if (!possible) {
    messages() << "tfmc: error: no point of the grid is possible, such as "
               << pointText(axes, points.front()) << "\n";
    return 1;
  }
  if (arguments.format == "json")
    writeSweepJson(base, axes, points, arguments.view, os);
  else if (arguments.format == "csv")
    writeSweepCsv(axes, points, arguments.view, os);
  else
    writeSweepText(base, axes, points, arguments.view, os);
  int status = 0;
  for (const SweepPoint &point : points)
    if (!point.report) {
      // The other forms have a place for the reason.
      if (arguments.format == "csv" && status == 0)
        messages() << "tfmc: error: a point of the grid is not possible: "
                   << pointText(axes, point) << "\n";
      status = 1;
    }
  return status;
}

static int against(const ReportArguments &arguments, const ModelReport &report,
                   const ModelDescription &description, llvm::raw_ostream &os) {
  llvm::Expected<std::vector<CheckpointTensor>> checkpoint =
      readCheckpoint(arguments.against, description.family);
  if (!checkpoint) {
    messages() << "tfmc: error: " << llvm::toString(checkpoint.takeError())
               << "\n";
    return 1;
  }
  Comparison comparison =
      compareWithCheckpoint(report, *checkpoint, description.family);
  if (llvm::Error error =
          compareConfig(arguments.against, report, description, comparison)) {
    messages() << "tfmc: error: " << llvm::toString(std::move(error)) << "\n";
    return 1;
  }
  if (arguments.values)
    if (llvm::Error error =
            compareValues(arguments.against, comparison, description.family)) {
      messages() << "tfmc: error: " << llvm::toString(std::move(error)) << "\n";
      return 1;
    }
  if (arguments.format == "json")
    writeComparisonJson(comparison, arguments.against, os);
  else
    writeComparison(comparison, arguments.against, arguments.view.tensors, os);
  return comparison.agrees() ? 0 : 1;
}

/// Options that the form asked for has no place for are mistakes: a report that
/// leaves out what was asked for looks as if there were nothing to tell.
static void checkCombination(const ReportArguments &arguments) {
  const ReportView &view = arguments.view;
  const bool sweep = !arguments.sweep.empty();
  const bool against = !arguments.against.empty();
  const bool csv = arguments.format == "csv";
  if (arguments.format == "html" && (sweep || against))
    throw CLI::ValidationError(
        "--format",
        sweep ? "a table over values has no page; use text, json or csv"
              : "a comparison has no page; use text or json");
  if (csv && against)
    throw CLI::ValidationError("--format",
                               "a comparison has no table; use text or json");
  auto refuse = [](bool given, const char *option, const std::string &why) {
    if (given)
      throw CLI::ValidationError(option, why);
  };
  refuse(arguments.target != "cpu" && arguments.cpu != "native", "--cpu",
         "with --target " + arguments.target +
             " the memory of a GPU is planned, and its code is one for all: "
             "leave --cpu out");
  const bool depth = arguments.depth >= 0;
  if (sweep || against) {
    std::string why = sweep ? "a table over values (--sweep) has no such part"
                            : "a comparison (--against) has no such part";
    refuse(!arguments.processes.empty(), "--processes", why);
    refuse(view.tensors && sweep, "--tensors", why);
    refuse(view.formulas, "--formulas", why);
    refuse(view.shapes, "--shapes", why);
    refuse(view.flops && against, "--flops", why);
    refuse(view.memory, "--memory", why);
    refuse(depth && against, "--depth", why);
  } else if (csv) {
    std::string why = "CSV is one table, of modules, --tensors or --shapes; "
                      "use text, json or html";
    refuse(view.flops, "--flops", why);
    refuse(view.memory, "--memory", why);
    refuse(!arguments.processes.empty(), "--processes", why);
    refuse(view.tensors && view.shapes, "--shapes",
           "CSV is one table: take --tensors or --shapes");
    refuse(depth && (view.tensors || view.shapes), "--depth",
           "CSV is one table: take the tree or --tensors or --shapes");
  }
}

/// Whether the products of a build are those that its file says: of f32, and in
/// every layer of all rows.
static bool multipliesAsWritten(mlir::ModuleOp module) {
  mlir::FailureOr<mlir::FloatType> precision = precisionOf(module);
  return (failed(precision) || precision->isF32()) && !choosesLayers(module);
}

/// Why generation evaluates the whole sequence for every token; empty where it
/// keeps what it computed.
static std::string whyWholeSequence(mlir::ModuleOp module) {
  auto forward = findProgram(module, ProgramKind::Forward);
  if (!forward || !generates(forward) || !decodeObstacle(module))
    return "";
  // A build does not compute what nobody uses.
  mlir::OwningOpRef<mlir::ModuleOp> used(module.clone());
  removeUnused(findProgram(*used, ProgramKind::Forward));
  std::optional<DecodeObstacle> obstacle = decodeObstacle(*used);
  return obstacle ? obstacle->str() : "";
}

static void takeCount(ReportArguments &arguments, const char *option,
                      llvm::StringRef text) {
  constexpr int64_t most = 100'000;
  int64_t count = 0;
  if (text.getAsInteger(10, count) || count < 1 || count > most)
    throw CLI::ValidationError(
        option, "must be whole numbers from 1 to " + std::to_string(most) +
                    ", not " + (text.empty() ? "nothing" : text.str()));
  arguments.processes.push_back(count);
}

/// `--processes 1,8,64`, and `--sweep processes=1,8,64`, which is the same.
static void takeProcesses(ReportArguments &arguments) {
  for (llvm::StringRef list : arguments.counts)
    for (llvm::StringRef text : llvm::split(list, ','))
      takeCount(arguments, "--processes", text);
  auto axis = llvm::find_if(arguments.sweep, [](const std::string &text) {
    return llvm::StringRef(text).starts_with("processes=");
  });
  if (axis == arguments.sweep.end())
    return;
  llvm::Expected<SweepAxis> values = parseSweepAxis(*axis);
  if (!values)
    throw CLI::ValidationError("--sweep", llvm::toString(values.takeError()));
  if (arguments.sweep.size() > 1)
    throw CLI::ValidationError(
        "--sweep", "processes share one model: give them without other values");
  for (llvm::StringRef value : values->values)
    takeCount(arguments, "--sweep processes", value);
  arguments.sweep.clear();
}

/// What `--processes`, `--network`, `--latency` and `--step` ask for.
static ShareRequest shareRequest(const ReportArguments &arguments) {
  ShareRequest request{arguments.processes, std::nullopt};
  auto parse = [](const char *option, const std::string &text, auto parser) {
    llvm::Expected<double> value = parser(text);
    if (!value)
      throw CLI::ValidationError(option, llvm::toString(value.takeError()));
    return *value;
  };
  if (!arguments.network)
    return request;
  if (arguments.processes.empty())
    throw CLI::ValidationError(
        "--network", "say how many processes share an update: --processes 2,8");
  request.network.emplace();
  request.network->bytesPerSecond =
      parse("--network", *arguments.network, parseSpeed);
  if (arguments.latency)
    request.network->latency =
        parse("--latency", *arguments.latency, parseDuration);
  if (arguments.step)
    request.network->step = parse("--step", *arguments.step, parseDuration);
  return request;
}

/// Takes into view what the form asked for shows of every model, and what
/// belongs to something that is asked for.
static void completeView(ReportArguments &arguments) {
  ReportView &view = arguments.view;
  if (arguments.depth >= 0)
    view.depth = arguments.depth;
  bool html = arguments.format == "html";
  view.shapes |= html || arguments.format == "json";
  view.memory |= html || !arguments.processes.empty();
}

/// Writes what is asked for; gives the exit status.
static int writeReport(const ReportArguments &arguments,
                       llvm::ArrayRef<SweepAxis> axes,
                       const CompiledModel &model, const ModelReport &result,
                       llvm::raw_ostream &os) {
  if (!arguments.sweep.empty())
    return sweep(arguments, axes, result, os);
  if (!arguments.against.empty())
    return against(arguments, result, describe(model), os);
  if (arguments.format == "json")
    writeJson(result, arguments.view, os);
  else if (arguments.format == "html")
    writeHtml(result, os);
  else if (arguments.format == "csv")
    writeCsv(result, arguments.view, os);
  else
    writeText(result, arguments.view, os);
  return 0;
}

static int report(ReportArguments arguments) {
  takeProcesses(arguments);
  checkCombination(arguments);
  ShareRequest shares = shareRequest(arguments);
  completeView(arguments);
  if (isInput(arguments.output, arguments.against))
    return 1;

  // Without a plan a name that is none is a mistake, too.
  const KernelTarget *target = nullptr;
  if (arguments.view.memory || arguments.cpu != "native") {
    target = findTarget(arguments.target, arguments.cpu);
    if (!target)
      return 2;
    if (!arguments.processes.empty() && target->exchangesOnDevices()) {
      messages() << "tfmc: error: what processes on GPUs share is not "
                    "predicted: --processes is for `--target cpu`\n";
      return 2;
    }
  }
  std::vector<SweepAxis> axes = sweepAxes(arguments);
  CompiledModel model = loadSubject(arguments, axes);
  if (!model.module || isInput(arguments.output, model.files) ||
      isModelFile(arguments.output))
    return 1;
  if (std::string why = wrongPrecision(*model.module, arguments.precision);
      !why.empty()) {
    messages() << "tfmc: error: " << why << '\n';
    return 1;
  }
  bool flops = arguments.countsFlops();
  bool asksProducts = flops && !arguments.view.memory &&
                      arguments.sweep.empty() &&
                      !multipliesAsWritten(*model.module);
  if (asksProducts && !target) {
    target = findTarget(arguments.target, arguments.cpu);
    if (!target)
      return 2;
  }
  if (target)
    target = fastestOf(target, *model.module);
  ModelReport result =
      makeModelReport(model, arguments.view, flops,
                      /*constants=*/arguments.format == "html");
  result.wholeSequence = whyWholeSequence(*model.module);
  if (arguments.view.memory) {
    result.memory = planModelMemory(*model.module, *target,
                                    flops ? &result.flops : nullptr, shares);
    // Planned, the module is a schedule.
    if (std::string why = target->whyNot(*model.module); !why.empty()) {
      messages() << "tfmc: error: " << why << '\n';
      return 1;
    }
  } else if (asksProducts)
    prepareForPlan(*model.module, *target, &result.flops);

  std::string text;
  llvm::raw_string_ostream os(text);
  int status = writeReport(arguments, axes, model, result, os);
  return writeOutput(arguments.output, text) ? status : 1;
}

/// What a report shows of a model.
static void addViewOptions(CLI::App &command, ReportView &view) {
  command.add_flag("--tensors", view.tensors, "Every tensor of a checkpoint");
  command.add_flag("--formulas", view.formulas,
                   "The formula beside each number of parameters");
  command.add_flag("--shapes", view.shapes,
                   "The shapes of all arguments, named values and results");
  command.add_flag("--flops", view.flops,
                   "FLOPs of a token forward and of a training step");
  command.add_flag("--memory", view.memory,
                   "The memory of a build, from the plan that it would use");
}

/// Of what processes share: those of `shareRequest`.
static void addShareOptions(CLI::App &command, ReportArguments &arguments) {
  command
      .add_option("--processes", arguments.counts,
                  "What each of so many processes has and sends that share an "
                  "update (2, or 2,4,8), with --memory")
      ->type_name("N,N,...")
      ->allow_extra_args(false);
  CLI::Option *network =
      command
          .add_option("--network", arguments.network,
                      "Of processes: predict a step's time where each sends "
                      "so much in a second (100Gbit/s)")
          ->type_name("SPEED");
  command
      .add_option("--latency", arguments.latency,
                  "With --network: how long a message is on its way (5us)")
      ->type_name("TIME")
      ->needs(network);
  command
      .add_option("--step", arguments.step,
                  "With --network: what an update takes one process (0.65s), "
                  "where it was measured")
      ->type_name("TIME")
      ->needs(network);
}

/// Of the build that is planned.
static void addBuildOptions(CLI::App &command, ReportArguments &arguments) {
  addTargetOption(command, arguments.target, "Plan for cpu or cuda");
  command.add_option("--cpu", arguments.cpu,
                     "Plan for this CPU, by LLVM's name");
  command
      .add_option("--precision", arguments.precision,
                  "f32 or bf16: what the recipe has to say")
      ->check(CLI::IsMember({"f32", "bf16"}));
}

static void addFormOptions(CLI::App &command, ReportArguments &arguments) {
  command
      .add_option("--depth", arguments.depth,
                  "Levels of the tree; with --sweep: a column for each module "
                  "down to this level")
      ->transform(usage::wholeNumber(0, std::numeric_limits<int>::max()));
  command.add_option("--format", arguments.format, "text, json, csv or html")
      ->check(CLI::IsMember({"text", "json", "csv", "html"}));
  command
      .add_option("-o,--output", arguments.output,
                  "Write to a file instead of standard output")
      ->check(usage::path());
}

/// Of what a report is instead: a table of many models, or a comparison.
static void addOtherReports(CLI::App &command, ReportArguments &arguments) {
  CLI::Option *sweep =
      command
          .add_option("--sweep", arguments.sweep,
                      "A table over values of a hyperparameter "
                      "(layers=2,4,8); repeatable: the grid of all. Of "
                      "`processes` that of --processes")
          ->type_name("NAME=V,V,...")
          ->allow_extra_args(false);
  CLI::Option *against =
      command
          .add_option("--against", arguments.against,
                      "Compare with a checkpoint, tensor by tensor: names, "
                      "shapes and types; exit status 1 where they differ")
          ->type_name("DIR|FILE")
          ->transform(usage::folder())
          ->excludes(sweep);
  command
      .add_flag("--values", arguments.values,
                "With --against: read the values, too; copies of one tensor "
                "must be equal, and all values finite")
      ->needs(against);
}

void tfm::addReportCommand(CLI::App &app, int &status) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App &command = *app.add_subcommand(
      "report", "What a model consists of and what it costs");
  command
      .add_option("FILE", arguments->file, "The model, - for standard input")
      ->required()
      ->check(usage::path());
  addDefineOption(command, arguments->defines);
  addViewOptions(command, arguments->view);
  addShareOptions(command, *arguments);
  addBuildOptions(command, *arguments);
  addFormOptions(command, *arguments);
  addOtherReports(command, *arguments);
  command.callback([arguments, &status] { status = report(*arguments); });
}
