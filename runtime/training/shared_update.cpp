//===- shared_update.cpp - an update in parts ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/training/shared_update.h"

#include "runtime/device/variant.h"
#include "runtime/support/error.h"
#include "runtime/support/progress.h"
#include "runtime/training/row_arithmetic.h"
#include "runtime/training/row_exchange.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <exception>
#include <span>
#include <vector>

namespace tfm {

namespace {

/// Numbers are rounded as outside of functions while this is there: what is
/// added up has the same bits wherever it is.
class UsualRounding {
public:
  UsualRounding() {
    std::fegetenv(&before);
    std::fesetenv(FE_DFL_ENV);
  }
  ~UsualRounding() { std::fesetenv(&before); }
  UsualRounding(const UsualRounding &) = delete;
  UsualRounding &operator=(const UsualRounding &) = delete;

private:
  std::fenv_t before;
};

size_t blocksIn(const tfm_rows &rows) {
  return rows.block == 0 ? 0 : (rows.count + rows.block - 1) / rows.block;
}

/// By rows, which go through the memory of hosts, or from device to device.
class RowUpdate final : public SharedUpdate,
                        public LaunchWatcher,
                        private RowSum::Steps {
public:
  RowUpdate(Model &model, Processes *processes);

  void begin(std::optional<int64_t> waiting) override;
  void end() override;
  float run(const std::array<float, 4> &hyper) override;
  void awaitParameters() override;
  bool keepsMasters() const override;
  void gatherMasters() override { gather(Model::Rows::Values); }
  void gatherState() override;
  void dropStateOfOthers() override;

private:
  /// The parameters that weight decay applies to, or the others.
  struct Part {
    const tfm_function *function;
    const tfm_buffer *row, *hyper, *scale;
    tfm_rows rows;
  };
  struct Block {
    const Part *part;
    RowBlock rows;
    /// Launches of `train` behind which nothing touches the gradients, and
    /// before which nothing reads the values.
    uint64_t gradientDone = 0, valueUsed = TFM_NONE;
    /// Whether others than its owner need the values, and their copies in bf16.
    bool sharesValues = true, sharesCopies = false;
  };

  /// Numbers of blocks, each behind what they are sorted by.
  using Sorted = std::vector<std::pair<uint64_t, size_t>>;

  void addPart(Part &part, const char *name, const tfm_rows &rows,
               std::span<Block> itsBlocks);
  /// Where keys are the same the earlier block comes first.
  Sorted sorted(uint64_t (*key)(const Block &)) const;
  /// Such that each process's own follow each other, for devices that exchange
  /// what they have in one piece.
  Sorted inRuns() const;
  /// Puts blocks in such an order.
  void put(const Sorted &order);
  /// Of each process then.
  std::vector<RowBlock> runs() const;
  std::vector<DeviceLink::Share> sharesOf(Model::Rows of) const;
  /// Has devices sum up gradients, and the squares of those of this process's.
  void sumOnDevices();
  /// All blocks, or of those that are not `wanted` no rows.
  SharedRows shared(Model::Rows of, bool Block::*wanted = nullptr) const;
  void gather(Model::Rows of);
  /// What is updated goes on on its way to all.
  void advanceCopies(size_t readyRounds);
  void launched(uint64_t launches) noexcept override;
  /// Adds what waits to gradients of this process's own.
  void prepare(const RowBlock &rows) override;
  /// Adds to the squares of a block of this process's own.
  void done(size_t block, std::span<const float> sums) override;
  /// The norm of what the owners have.
  float normOfGradients();
  /// The rounds of copies that have to be there before the launch behind the
  /// next one begins.
  size_t neededAfter(uint64_t launches);
  /// Waits for so many rounds of copies.
  void awaitCopies(size_t rounds);
  void update(const Block &block, const std::array<float, 4> &hyper,
              float scale);
  bool isOwn(size_t block) const { return block % count == rank; }
  /// Rounds whose gradients are done.
  size_t readyRounds() const {
    return ready == blocks.size() ? squares.size() : ready / count;
  }

  Model &model;
  Processes *processes;
  size_t rank = 0, count = 1;
  Part decayed, plain;
  /// In the order in which their gradients are done, and their numbers in the
  /// order of the rows. Block i belongs to process i % count.
  std::vector<Block> blocks;
  Sorted inOrder;
  /// Null where one process does it all, or devices do it by themselves.
  std::unique_ptr<RowExchange> sums;
  /// Of values, and where the build computes in bf16 of what it reads instead.
  std::unique_ptr<RowExchange> valueCopy, narrowCopy;
  std::array<RowExchange *, 2> bothCopies{};
  std::span<RowExchange *const> copies; ///< those that there are
  std::unique_ptr<DeviceLink> link;     ///< of such devices
  int64_t waiting = 0;
  /// Whether this micro-batch is the last one of its update, and whether copies
  /// are under way.
  bool isSumming = false, isCopying = false;
  /// Blocks whose gradients are done.
  size_t ready = 0;
  /// Launches in their order, each with the rounds of copies up to one that has
  /// its parameters, and how many of these are behind.
  Sorted needs;
  size_t passed = 0;
  /// What went wrong in `launched`.
  std::exception_ptr failure;
  /// Sums of squares of this process's blocks, and of those of all.
  std::vector<double> squares, allSquares;
};

} // namespace

RowUpdate::RowUpdate(Model &model, Processes *processes)
    : model(model), processes(processes) {
  if (processes) {
    rank = static_cast<size_t>(processes->rank());
    count = static_cast<size_t>(processes->count());
  }
  const tfm_variant &variant = model.variant();
  size_t first = blocksIn(variant.decayed);
  blocks = std::vector<Block>(first + blocksIn(variant.plain));
  addPart(decayed, TFM_UPDATE_DECAYED, variant.decayed,
          std::span(blocks).first(first));
  addPart(plain, TFM_UPDATE_PLAIN, variant.plain,
          std::span(blocks).subspan(first));
  if (blocks.empty() && model.rowCount() > 0)
    throw InputError(
        "this build of {} for {} has no updates for a sum of gradients as a "
        "tree: build it with -D train.sum=sequential, or run with --device cpu",
        model.descriptor().name, variant.target);
  if (count > 1)
    link = model.device().link(*processes);
  // NCCL's devices have all values, and make copies of these themselves.
  bool hasMasters = count > 1 && !link && model.find(TFM_REFRESH);
  for (Block &block : blocks) {
    Model::RowUse use = model.useOf(block.rows.first, block.rows.count);
    block.gradientDone = use.gradientDone;
    block.valueUsed = use.valueUsed;
    block.sharesCopies = hasMasters && use.readsCopy;
    block.sharesValues = use.readsValue || !hasMasters;
  }
  put(link ? inRuns()
           : sorted([](const Block &block) { return block.gradientDone; }));
  inOrder =
      sorted([](const Block &block) -> uint64_t { return block.rows.first; });
  squares.resize((blocks.size() + count - 1) / count);
  allSquares.resize(squares.size() * count);
  if (count == 1)
    return;
  // Shares lie between each other: memory comes page by page from now on.
  for (Model::Rows state : model.stateRows())
    model.discardRows(state, 0, model.rowCount());
  if (link)
    return;
  sums.reset(new RowSum(*processes, shared(Model::Rows::Gradients), *this));
  valueCopy.reset(new RowCopy(*processes,
                              shared(Model::Rows::Values, &Block::sharesValues),
                              RowCopy::To::All));
  if (hasMasters)
    narrowCopy.reset(new RowCopy(
        *processes, shared(Model::Rows::Copies, &Block::sharesCopies),
        RowCopy::To::All, Channel::NarrowCopies));
  bothCopies = {valueCopy.get(), narrowCopy.get()};
  copies = std::span(bothCopies).first(hasMasters ? 2 : 1);
  needs = sorted([](const Block &block) { return block.valueUsed; });
  // The last round is copied first.
  size_t most = 0;
  for (auto &[launch, rounds] : needs)
    rounds = most = std::max(most, sums->rounds() - rounds / count);
}

RowUpdate::Sorted RowUpdate::sorted(uint64_t (*key)(const Block &)) const {
  Sorted order(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i)
    order[i] = {key(blocks[i]), i};
  std::ranges::sort(order);
  return order;
}

RowUpdate::Sorted RowUpdate::inRuns() const {
  size_t each = blocks.size() / count, more = blocks.size() % count;
  Sorted order(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    size_t owner = i % count;
    order[i].second = owner * each + std::min(owner, more) + i / count;
  }
  return order;
}

void RowUpdate::addPart(Part &part, const char *name, const tfm_rows &rows,
                        std::span<Block> itsBlocks) {
  if (rows.block == 0)
    return;
  const tfm_function &function = model.function(name);
  part = {&function, &Model::input(function, TFM_IN_ROW),
          Model::findInput(function, TFM_IN_HYPER),
          &Model::input(function, TFM_IN_SCALE), rows};
  for (size_t i = 0; i < itsBlocks.size(); ++i)
    itsBlocks[i] = {&part, {rows.first + i * rows.block, rows.block}};
}

void RowUpdate::put(const Sorted &order) {
  std::vector<Block> ordered(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i)
    ordered[i] = blocks[order[i].second];
  blocks.swap(ordered);
}

std::vector<RowBlock> RowUpdate::runs() const {
  std::vector<RowBlock> runs(count);
  for (size_t i = 0; i < blocks.size(); ++i) {
    RowBlock &run = runs[i % count];
    if (run.count == 0)
      run.first = blocks[i].rows.first;
    run.count += blocks[i].rows.count;
  }
  return runs;
}

std::vector<DeviceLink::Share> RowUpdate::sharesOf(Model::Rows of) const {
  std::vector<RowBlock> rows = runs();
  std::vector<DeviceLink::Share> shares(count);
  for (size_t i = 0; i < count; ++i)
    shares[i] = model.placeOfRows(of, rows[i].first, rows[i].count);
  return shares;
}

SharedRows RowUpdate::shared(Model::Rows of, bool Block::*wanted) const {
  SharedRows rows = {std::vector<RowBlock>(blocks.size()), model.rows(of),
                     model.device().isHostMemory()};
  for (size_t i = 0; i < blocks.size(); ++i)
    rows.blocks[i] = {blocks[i].rows.first, wanted && !(blocks[i].*wanted)
                                                ? 0
                                                : blocks[i].rows.count};
  return rows;
}

void RowUpdate::begin(std::optional<int64_t> newWaiting) {
  isSumming = newWaiting.has_value();
  if (isSumming) {
    waiting = *newWaiting;
    ready = 0;
    std::ranges::fill(squares, 0.0);
    if (sums)
      sums->begin();
  }
  if (isCopying) {
    passed = 0;
    awaitCopies(neededAfter(0));
  }
  if (sums && (isSumming || isCopying))
    model.device().watch(this);
}

void RowUpdate::end() {
  model.device().watch(nullptr);
  if (failure)
    std::rethrow_exception(failure);
  awaitParameters(); // of parameters that nothing reads
}

size_t RowUpdate::neededAfter(uint64_t launches) {
  while (passed < needs.size() && needs[passed].first <= launches + 1)
    ++passed;
  return passed == 0 ? 0 : needs[passed - 1].second;
}

void RowUpdate::awaitCopies(size_t rounds) {
  double began = now();
  RowExchange::finish(copies, rounds);
  latest.waited += now() - began;
}

void RowUpdate::advanceCopies(size_t readyRounds) {
  for (RowExchange *copy : copies)
    copy->advance(readyRounds);
}

void RowUpdate::awaitParameters() {
  if (!isCopying)
    return;
  awaitCopies(sums->rounds());
  isCopying = false;
}

void RowUpdate::launched(uint64_t launches) noexcept {
  if (failure)
    return;
  UsualRounding rounding;
  double began = now(), waited = latest.waited;
  try {
    if (isCopying) {
      advanceCopies(sums->rounds());
      awaitCopies(neededAfter(launches));
      isCopying = !std::ranges::all_of(
          copies, [](const RowExchange *copy) { return copy->isOver(); });
    }
    if (isSumming) {
      while (ready < blocks.size() && blocks[ready].gradientDone <= launches)
        ++ready;
      sums->advance(readyRounds());
    }
  } catch (...) {
    failure = std::current_exception();
  }
  latest.hidden += now() - began - (latest.waited - waited);
}

void RowUpdate::prepare(const RowBlock &rows) {
  for (int64_t place = 0; place < waiting; ++place)
    model.addWaitingSum(place, rows.first, rows.count);
}

void RowUpdate::done(size_t block, std::span<const float> sums) {
  addSquares(sums, squares[block / count]);
}

void RowUpdate::sumOnDevices() {
  link->sum(sharesOf(Model::Rows::Gradients));
  std::vector<RowBlock> rows = runs();
  for (size_t i = 0; i < rows.size(); ++i)
    if (i != rank)
      model.zeroRows(Model::Rows::Gradients, rows[i].first, rows[i].count);
  const tfm_function &function = model.function(TFM_SQUARES);
  model.run(function);
  link->wait();
  squares[0] = static_cast<double>(
      model.read<float>(Model::output(function, TFM_OUT_SQUARES)).values()[0]);
}

float RowUpdate::normOfGradients() {
  // A sum for each block, and these in the order of the rows: the same for any
  // shares.
  if (processes)
    processes->gather<double>(squares, allSquares);
  else
    std::ranges::copy(squares, allSquares.begin());
  double total = 0;
  for (auto [row, block] : inOrder)
    total += allSquares[block % count * squares.size() + block / count];
  return static_cast<float>(std::sqrt(total));
}

void RowUpdate::update(const Block &block, const std::array<float, 4> &hyper,
                       float scale) {
  const Part &part = *block.part;
  model.write<int32_t>(*part.row).values()[0] =
      static_cast<int32_t>(block.rows.first - part.rows.first);
  model.write<float>(*part.scale).values()[0] = scale;
  if (part.hyper)
    std::ranges::copy(hyper, model.write<float>(*part.hyper).values().begin());
  model.run(*part.function);
}

float RowUpdate::run(const std::array<float, 4> &hyper) {
  if (link) { // who hangs is named before devices wait for each other
    model.device().wait();
    processes->meet();
  }
  latest.began = now();
  if (link)
    sumOnDevices();
  else if (sums)
    sums->finish();
  else
    for (size_t block = 0; block < blocks.size(); ++block) {
      const RowBlock &rows = blocks[block].rows;
      prepare(rows);
      done(block, model.readRows(Model::Rows::Gradients, rows.first, rows.count)
                      .values());
    }
  float norm = normOfGradients();
  latest.summed = latest.updated = now();
  if (!std::isfinite(norm))
    return norm;
  // As `update` clips.
  float clip = hyper[3];
  float scale = clip > 0 ? std::min(1.0f, clip / (norm + 1e-6f)) : 1.0f;
  for (RowExchange *copy : copies)
    copy->begin();
  // What is read first in the next update comes first.
  size_t rounds = squares.size();
  for (size_t round = 0; round < rounds; ++round) {
    size_t block = (rounds - 1 - round) * count + rank;
    if (block < blocks.size())
      update(blocks[block], hyper, scale);
    // Others get it while the next one is computed.
    if (model.device().isHostMemory())
      advanceCopies(round + 1);
  }
  if (link) {
    model.device().wait();
    latest.updated = now();
    link->copy(sharesOf(Model::Rows::Values));
    link->wait();
    latest.waited += now() - latest.updated;
    model.parametersChanged();
    return norm;
  }
  latest.updated = now();
  if (!copies.empty()) {
    isCopying = true;
    if (!model.device().isHostMemory()) // it goes on by itself
      awaitParameters();
  }
  return norm;
}

bool RowUpdate::keepsMasters() const {
  return std::ranges::any_of(
      blocks, [](const Block &block) { return !block.sharesValues; });
}

void RowUpdate::gather(Model::Rows of) {
  RowCopy copy(*processes, shared(of), RowCopy::To::First);
  copy.begin();
  copy.finish();
}

void RowUpdate::gatherState() {
  if (count == 1)
    return;
  for (Model::Rows state : model.stateRows())
    gather(state);
  if (keepsMasters())
    gatherMasters();
}

void RowUpdate::dropStateOfOthers() {
  model.refreshCopies(); // of what is dropped
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block &block = blocks[i];
    if (isOwn(i))
      continue;
    for (Model::Rows state : model.stateRows())
      model.discardRows(state, block.rows.first, block.rows.count);
    if (!block.sharesValues)
      model.discardRows(Model::Rows::Values, block.rows.first,
                        block.rows.count);
  }
}

static std::unique_ptr<SharedUpdate> shareUpdate(Model &model,
                                                 Processes *processes) {
  return std::make_unique<RowUpdate>(model, processes);
}
ShareUpdate *const tfm_share_update = shareUpdate;

} // namespace tfm
