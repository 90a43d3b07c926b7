//===- Fuse.cpp - which ops share a kernel --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Fuse.h"

#include "compiler/dialect/TfmDialect.h"
#include "runtime/tfm_model.h"

#include <set>
#include <unordered_map>

using namespace mlir;
using namespace tfm;
using sched::KernelKind;

namespace {

/// Ops of a kernel at most. It has an argument for each thing that they read or
/// write, four an op.
constexpr size_t mostOps = 100;
static_assert(4 * mostOps < TFM_MAX_ARGUMENTS);

/// Ops that are no kernel with others: loops, and copies.
bool standsAlone(Operation *op) {
  return isa<RepeatOp, ConcatOp, ReshapeOp>(op);
}

/// Whether a row kernel has no op beside this one: sums so far depend on the
/// order in which a row is walked.
bool isAlone(Operation *op) { return isa<ScanOpInterface>(op); }

class Fuser {
public:
  Fuser(Block &block, const OpSet &materialised)
      : block(block), materialised(materialised) {}

  FailureOr<FusedBlock> run() {
    for (Operation &op : block) {
      if (op.hasTrait<OpTrait::IsTerminator>() ||
          isa<GetParamOp, ConstantOp>(op) ||
          (isFree(&op) && !materialised.contains(&op)))
        continue;
      if (failed(place(&op)))
        return failure();
    }
    while (mergeOnce())
      ;
    return std::move(result);
  }

private:
  LogicalResult place(Operation *op) {
    Domain own = naturalDomain(op);
    std::optional<KernelKind> kind;
    if (!standsAlone(op)) {
      kind = sched::kindOf(op->getName());
      if (!kind)
        return op->emitError() << "no kernel computes " << op->getName();
    }
    if (kind == KernelKind::Row) {
      bringToProduct(op, own);
      for (int k = std::max(earliest(op), 0); k < size(); ++k) {
        if (!canJoin(op, k, own))
          continue;
        result.groupOf[op] = k;
        result.groups[k].ops.push_back(op);
        return success();
      }
    }
    result.groupOf[op] = size();
    result.groups.push_back({kind, {op}, own});
    return success();
  }

  int size() const { return static_cast<int>(result.groups.size()); }

  int groupOfValue(Value value) const {
    auto it = result.groupOf.find(value.getDefiningOp());
    return it == result.groupOf.end() ? -1 : it->second;
  }

  /// The last kernel that computes something that `op` reads.
  int earliest(Operation *op) const {
    int last = -1;
    forEachRead(op, naturalDomain(op), materialised, [&](const Leaf &leaf) {
      last = std::max(last, groupOfValue(leaf.base));
    });
    return last;
  }

  /// Whether one kernel of these groups would compute `value` of something that
  /// it looks up: what rows are looked up by are scalars of its rows, and what
  /// is looked up is none.
  bool isLookedUp(Value value, ArrayRef<int> groups) const {
    SmallVector<Value> left = {value};
    llvm::DenseSet<Value> seen;
    while (!left.empty()) {
      Value next = left.pop_back_val();
      Operation *op = next.getDefiningOp();
      bool isWithin =
          op && (isFree(op) || llvm::is_contained(groups, groupOfValue(next)));
      if (!isWithin || !seen.insert(next).second)
        continue;
      if (isa<GatherOp>(op))
        return true;
      llvm::append_range(left, op->getOperands());
    }
    return false;
  }

  bool canJoin(Operation *op, int k, const Domain &own) const {
    const Group &group = result.groups[k];
    if (group.ops.size() >= mostOps || isAlone(op) ||
        isAlone(group.ops.front()))
      return false;
    if (auto gather = dyn_cast<GatherOp>(op);
        gather && isLookedUp(gather.getIds(), k))
      return false;
    const Domain &domain = group.domain;
    bool elementwise = op->hasTrait<OpTrait::Elementwise>();
    if (group.kind == KernelKind::Matmul) {
      // An epilogue sees single elements, in no order.
      if ((!elementwise && !isa<DropoutOp>(op)) || domain != own ||
          !paysInEpilogue(op, k))
        return false;
    } else if (group.kind != KernelKind::Row) {
      return false;
    } else if (domain != own) {
      // A scalar of each row, next to what it is computed from.
      if (!elementwise || domain.cols == 1 ||
          domain.roleOf(op->getResult(0).getType()) != Role::Scalar)
        return false;
    }
    bool reachable = true, related = false;
    llvm::DenseSet<Value> bases;
    forEachRead(op, domain, materialised, [&](const Leaf &leaf) {
      int producer = groupOfValue(leaf.base);
      if (isWorthSharing(leaf.base))
        bases.insert(leaf.base);
      if (producer > k)
        reachable = false;
      if (producer != k)
        return;
      related = true;
      if (!leaf.inRegister || isColumnReduction(leaf.base.getDefiningOp()))
        reachable = false;
    });
    for (Operation *member : group.ops)
      if (reachable && !related)
        forEachRead(member, domain, materialised, [&](const Leaf &leaf) {
          related |= bases.contains(leaf.base);
        });
    return reachable && related;
  }

  /// Where `op` would end the epilogue of a matmul, but for operands that row
  /// kernels after it compute for `op` alone, they are computed in that
  /// epilogue, too: GELU's derivative, of what was saved, meets the cotangent
  /// that the matmul gives.
  void bringToProduct(Operation *op, const Domain &own) {
    if (!op->hasTrait<OpTrait::Elementwise>())
      return;
    int product = -1;
    for (Value operand : op->getOperands())
      if (int k = groupOfValue(throughViews(operand));
          k >= 0 && result.groups[k].kind == KernelKind::Matmul &&
          result.groups[k].domain == own && paysInEpilogue(op, k))
        product = std::max(product, k);
    std::set<int> later;
    forEachRead(op, own, materialised, [&](const Leaf &leaf) {
      if (groupOfValue(leaf.base) > product)
        later.insert(groupOfValue(leaf.base));
    });
    if (product < 0 || later.empty() ||
        !llvm::all_of(
            later, [&](int k) { return isForEpilogue(k, product, op); }))
      return;
    size_t ops = result.groups[product].ops.size();
    for (int k : later)
      ops += result.groups[k].ops.size();
    if (ops >= mostOps)
      return;
    for (int k : llvm::reverse(later))
      moveOps(k, product);
  }

  /// Whether row kernel `k` has nothing but elementwise ops that only `reader`
  /// wants, and that the epilogue of `product` can compute.
  bool isForEpilogue(int k, int product, Operation *reader) const {
    const Group &group = result.groups[k];
    if (group.kind != KernelKind::Row ||
        group.domain != result.groups[product].domain)
      return false;
    bool isReady = true;
    for (Operation *op : group.ops) {
      if (!op->hasTrait<OpTrait::Elementwise>() ||
          !isOnlyFor(op->getResult(0), k, reader))
        return false;
      forEachRead(op, group.domain, materialised, [&](const Leaf &leaf) {
        int producer = groupOfValue(leaf.base);
        isReady &= producer == k || producer < product ||
                   (producer == product && leaf.inRegister);
      });
    }
    return isReady;
  }

  /// Whether nothing but kernel `k` and `reader` reads `value`.
  bool isOnlyFor(Value value, int k, Operation *reader) const {
    SmallVector<Operation *> left(value.getUsers());
    llvm::DenseSet<Operation *> seen;
    while (!left.empty()) {
      Operation *user = left.pop_back_val();
      if (user == reader || !seen.insert(user).second)
        continue;
      auto group = result.groupOf.find(user);
      if (isFree(user) && !materialised.contains(user))
        llvm::append_range(left, user->getUsers());
      else if (group == result.groupOf.end() || group->second != k)
        return false;
    }
    return true;
  }

  /// Whether an elementwise op is better computed where the matmul of kernel
  /// `k` leaves its result than by a row kernel: it replaces what would be
  /// stored, or no row kernel is going to read that anyway in order to reduce
  /// it.
  bool paysInEpilogue(Operation *op, int k) const {
    bool replaces = true;
    for (Value operand : op->getOperands())
      if (groupOfValue(throughViews(operand)) == k)
        replaces &= onlyReaderIs(throughViews(operand), op);
    if (replaces)
      return true;
    Value value = op->getResult(0);
    if (isCheapOfStored(op, k) &&
        !leadsTo(value, k, [](Operation *user) { return !isCheap(user); }))
      return false;
    return !leadsTo(value, k, [](Operation *user) {
      return reducedAxis(user).has_value();
    });
  }

  static bool isCheap(Operation *op) {
    return op->hasTrait<OpTrait::Elementwise>() &&
           op->hasTrait<CheapToRebuild>();
  }

  /// Whether `op` is a cheap function of nothing but results of kernel `k` that
  /// are stored for other kernels anyway. Those that want it compute it again.
  bool isCheapOfStored(Operation *op, int k) const {
    return isCheap(op) && llvm::all_of(op->getOperands(), [&](Value operand) {
             Value from = throughViews(operand);
             if (isSplat(viewBase(from, materialised)))
               return true;
             return groupOfValue(from) == k && isReadElsewhere(from, k);
           });
  }

  /// Whether another kernel than `k` is known to read `value`.
  bool isReadElsewhere(Value value, int k) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      if (passesOn(user))
        return isReadElsewhere(user->getResult(0), k);
      auto group = result.groupOf.find(user);
      return group != result.groupOf.end() && group->second != k;
    });
  }

  /// Whether the elements of what `op` gives are those that it takes.
  static bool passesOn(Operation *op) {
    return isa<ReshapeOp>(op) || isWidening(op);
  }

  static Value throughViews(Value value) {
    for (Operation *op = value.getDefiningOp(); op && passesOn(op);
         op = value.getDefiningOp())
      value = op->getOperand(0);
    return value;
  }

  static bool onlyReaderIs(Value value, Operation *op) {
    return llvm::all_of(value.getUsers(), [&](Operation *user) {
      return user == op ||
             (passesOn(user) && onlyReaderIs(user->getResult(0), op));
    });
  }

  /// Whether ops that could join kernel `k` lead from `value` to one that is
  /// `wanted`.
  bool leadsTo(Value value, int k, function_ref<bool(Operation *)> wanted,
               int depth = 0) const {
    constexpr int farthest = 8;
    for (Operation *user : value.getUsers()) {
      if (wanted(user))
        return true;
      if (depth == farthest || !(user->hasTrait<OpTrait::Elementwise>() ||
                                 isa<ReshapeOp, DropoutOp>(user)))
        continue;
      bool reachable = llvm::all_of(user->getOperands(), [&](Value operand) {
        Value base = viewBase(operand, materialised);
        Operation *def = base.getDefiningOp();
        return throughViews(operand) == throughViews(value) || !def ||
               def->getBlock() != &block || isFree(def) ||
               isa<GetParamOp, ConstantOp>(def) ||
               (result.groupOf.contains(def) && groupOfValue(base) <= k);
      });
      if (reachable && leadsTo(user->getResult(0), k, wanted, depth + 1))
        return true;
    }
    return false;
  }

  /// Whether any op of kernel `reader` reads a result of kernel `producer`;
  /// `inRegister` says whether all of them do so at their own point.
  bool reads(int reader, int producer, bool &inRegister) const {
    const auto &links = linked().of[reader];
    auto found = llvm::find_if(
        links, [&](const Link &link) { return link.producer == producer; });
    if (found == links.end())
      return false;
    inRegister = found->inRegister;
    return true;
  }

  /// Whether to read it once for two kernels is a reason to make them one: a
  /// single number only ties the one kernel to what the other waits for.
  static bool isWorthSharing(Value base) {
    return tensorType(base).getNumElements() > 1;
  }

  /// That a kernel reads results of another one.
  struct Link {
    int producer;
    bool inRegister; ///< at its own point, all of them
  };
  struct Links {
    std::vector<llvm::SmallVector<Link, 4>> of; ///< of each kernel
    std::vector<llvm::SmallVector<int, 4>> readers;
    /// What is worth to be read once, of each kernel, and who reads it.
    std::vector<llvm::SmallVector<Value, 4>> inputs;
    llvm::DenseMap<Value, llvm::SmallVector<int, 4>> readersOfInput;
  };
  /// What an op reads in its kernel. To join kernels changes nothing of it.
  ArrayRef<Leaf> leavesOf(Operation *op, const Domain &domain) const {
    auto [place, isNew] = leaves.try_emplace(op);
    if (isNew)
      forEachRead(op, domain, materialised,
                  [&](const Leaf &leaf) { place->second.push_back(leaf); });
    return place->second;
  }
  /// Computed when they are asked for after kernels have changed.
  const Links &linked() const {
    if (links)
      return *links;
    size_t count = result.groups.size();
    links.emplace();
    links->of.resize(count);
    links->readers.resize(count);
    links->inputs.resize(count);
    for (auto [reader, group] : llvm::enumerate(result.groups)) {
      auto &own = links->of[reader];
      for (Operation *op : group.ops)
        for (const Leaf &leaf : leavesOf(op, group.domain)) {
          auto &inputs = links->inputs[reader];
          if (isWorthSharing(leaf.base) &&
              !llvm::is_contained(inputs, leaf.base)) {
            inputs.push_back(leaf.base);
            links->readersOfInput[leaf.base].push_back(
                static_cast<int>(reader));
          }
          int producer = groupOfValue(leaf.base);
          if (producer < 0)
            continue;
          bool inRegister =
              leaf.inRegister && !isColumnReduction(leaf.base.getDefiningOp());
          auto found = llvm::find_if(
              own, [&](const Link &link) { return link.producer == producer; });
          if (found != own.end()) {
            found->inRegister &= inRegister;
            continue;
          }
          own.push_back({producer, inRegister});
          links->readers[producer].push_back(static_cast<int>(reader));
        }
    }
    return *links;
  }

  /// Joins two row kernels over one domain where one can move to the other
  /// without passing anything that it depends on.
  bool mergeOnce() {
    for (int b = 1; b < size(); ++b) {
      // Those before it that it reads results of, or shares an input with.
      std::set<int> related;
      for (const Link &link : linked().of[b])
        if (link.producer < b)
          related.insert(link.producer);
      for (Value input : linked().inputs[b])
        for (int reader : linked().readersOfInput.at(input))
          if (reader < b)
            related.insert(reader);
      for (int a : related)
        if (tryMerge(a, b))
          return true;
    }
    return false;
  }

  /// Of kernels that are related.
  bool tryMerge(int a, int b) {
    const Group &first = result.groups[a], &second = result.groups[b];
    if (first.kind != KernelKind::Row || second.kind != KernelKind::Row ||
        first.domain != second.domain || isAlone(first.ops.front()) ||
        isAlone(second.ops.front()) ||
        first.ops.size() + second.ops.size() > mostOps)
      return false;
    bool inRegister;
    if (reads(b, a, inRegister) && !inRegister)
      return false;
    if (llvm::any_of(second.ops, [&](Operation *op) {
          auto gather = dyn_cast<GatherOp>(op);
          return gather && isLookedUp(gather.getIds(), {a, b});
        }))
      return false;
    auto isBetween = [&](int k) { return a < k && k < b; };
    bool canSink = llvm::none_of(linked().readers[a], isBetween);
    bool canHoist = llvm::none_of(linked().of[b], [&](const Link &link) {
      return isBetween(link.producer);
    });
    if (!canSink && !canHoist) {
      std::optional<int> moved = moveBefore(a, b);
      if (!moved)
        return false;
      a += *moved;
      canHoist = true;
    }
    int target = canHoist ? a : b, source = canHoist ? b : a;
    moveOps(source, target);
    return true;
  }

  /// Moves the kernels between `a` and `b` that `b` depends on before `a`, and
  /// says how many they are; nothing where one of them depends on `a`.
  std::optional<int> moveBefore(int a, int b) {
    std::vector<bool> needed(b + 1, false);
    needed[b] = true;
    for (int reader = b; reader > a; --reader)
      if (needed[reader])
        for (const Link &link : linked().of[reader]) {
          if (link.producer == a && reader != b)
            return std::nullopt;
          if (link.producer > a)
            needed[link.producer] = true;
        }
    std::vector<Group> first, rest;
    for (int between = a + 1; between < b; ++between)
      (needed[between] ? first : rest)
          .push_back(std::move(result.groups[between]));
    rest.insert(rest.begin(), std::move(result.groups[a]));
    auto next =
        std::move(first.begin(), first.end(), result.groups.begin() + a);
    std::move(rest.begin(), rest.end(), next);
    number();
    return static_cast<int>(first.size());
  }

  /// Makes the ops of one kernel part of another.
  void moveOps(int source, int target) {
    Group &into = result.groups[target];
    llvm::append_range(into.ops, result.groups[source].ops);
    llvm::sort(into.ops, [](Operation *x, Operation *y) {
      return x->isBeforeInBlock(y);
    });
    result.groups.erase(result.groups.begin() + source);
    number();
  }

  /// Notes which kernel each op is in.
  void number() {
    for (auto [index, group] : llvm::enumerate(result.groups))
      for (Operation *op : group.ops)
        result.groupOf[op] = static_cast<int>(index);
    links.reset();
  }

  Block &block;
  const OpSet &materialised;
  FusedBlock result;
  mutable std::optional<Links> links;
  mutable std::unordered_map<Operation *, SmallVector<Leaf, 4>> leaves;
};

} // namespace

FailureOr<FusedBlock> tfm::fuse(Block &block, const OpSet &materialised) {
  return Fuser(block, materialised).run();
}

Domain tfm::naturalDomain(Operation *op) {
  if (auto row = dyn_cast<RowKernelOpInterface>(op))
    return row.getDomain();
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return rowsOf(matmul.getY());
  return {};
}

/// What is read where an op reads `value` anywhere.
static void forEachInMemory(Value value, function_ref<void(Value)> visit) {
  Operation *def = value.getDefiningOp();
  if (!def || !isPartOfReader(def))
    return visit(value);
  for (Value operand : def->getOperands())
    visit(operand);
}

void tfm::forEachRead(Operation *op, const Domain &domain,
                      const OpSet &materialised,
                      function_ref<void(const Leaf &)> visit) {
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (!isa<RankedTensorType>(value.getType()))
      continue;
    if (readsAtPoint(op, operand.getOperandNumber()) && !standsAlone(op)) {
      forEachLeaf(value, domain.roleOf(value.getType()), domain, materialised,
                  visit);
      continue;
    }
    forEachInMemory(value, [&](Value read) {
      Value base = viewBase(read, materialised);
      Operation *def = base.getDefiningOp();
      if (!def || !isFree(def) || isSplat(base) || materialised.contains(def))
        visit({base, read, Role::Other, /*inRegister=*/false});
    });
  }
}

void tfm::findMaterialised(Block &block, OpSet &result) {
  auto require = [&](Value value) {
    Value base = viewBase(value, result);
    Operation *def = base.getDefiningOp();
    if (def && isFree(def) && !isSplat(base))
      result.insert(def);
  };
  // Free ops may lead to one of them on many ways.
  llvm::DenseSet<std::pair<Value, int>> seen;
  std::function<void(Value, Role, const Domain &)> visit =
      [&](Value value, Role role, const Domain &domain) {
        Operation *op = value.getDefiningOp();
        if (!op || !isFree(op) || result.contains(op) || isa<PositionsOp>(op) ||
            !seen.insert({value, static_cast<int>(role)}).second)
          return;
        if (!isViewOp(op)) {
          for (Value operand : op->getOperands())
            visit(operand, role, domain);
          return;
        }
        switch (passageThrough(op, role, domain)) {
        case Passage::Same:
          return visit(op->getOperand(0), role, domain);
        case Passage::RowScalar:
          return visit(op->getOperand(0), Role::Scalar, domain);
        case Passage::Memory:
          return require(op->getOperand(0));
        }
      };
  auto visitReads = [&](Operation &op) {
    Domain domain = naturalDomain(&op);
    for (OpOperand &operand : op.getOpOperands()) {
      Value value = operand.get();
      if (!isa<RankedTensorType>(value.getType()))
        continue;
      // A scatter computes its ids row by row.
      bool ids = isa<ScatterAddOp>(&op) && operand.getOperandNumber() == 1 &&
                 isa_and_nonnull<PositionsOp, IotaOp>(value.getDefiningOp());
      seen.clear();
      if (!standsAlone(&op) && readsAtPoint(&op, operand.getOperandNumber()))
        visit(value, domain.roleOf(value.getType()), domain);
      else if (!ids)
        forEachInMemory(value, require);
    }
  };
  // What is written to memory is computed like any other op, so what it reads
  // counts as well: again, until nothing new turns up.
  for (unsigned before = ~0u; before != result.size();) {
    before = result.size();
    for (Operation &op : block)
      if (!isFree(&op) || result.contains(&op))
        visitReads(op);
  }
}
