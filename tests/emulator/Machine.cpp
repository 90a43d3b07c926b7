//===- Machine.cpp - a GPU that runs on the CPU ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tests/emulator/Machine.h"
#include "tests/emulator/Observer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FormatVariadic.h"

#include <cstring>
#include <sys/mman.h>
#include <tuple>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

using namespace tfm::emulator;
using llvm::formatv;

/// More than a block can have; `SharedBase` is a multiple of it.
static constexpr uint64_t SharedBytes = 256 << 10;
/// Of what fences of the async proxy are told apart by.
static constexpr uint64_t PieceBytes = 16;
/// Of a thread; what it does not use is never touched.
static constexpr size_t StackBytes = 256 << 10, MaxThreads = 1024;

static thread_local Machine *runningMachine = nullptr;

Machine &Machine::running() { return *runningMachine; }

/// Reserves memory, at `at` where that is not null.
static char *reserve(uint64_t at, size_t bytes) {
  int fixed = at ? MAP_FIXED_NOREPLACE : 0;
  void *memory =
      mmap(reinterpret_cast<void *>(at), bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
  if (memory == MAP_FAILED || (at && reinterpret_cast<uint64_t>(memory) != at))
    llvm::report_fatal_error("no memory for the emulator, or two of them");
  return static_cast<char *>(memory);
}

Machine::Machine()
    : shared(reserve(SharedBase, SharedBytes)),
      stacks(reserve(0, StackBytes * MaxThreads)), sharedShadow(SharedBytes) {
  // A stack that overflows ends the process and does not damage its neighbour.
  for (size_t i = 0; i < MaxThreads; ++i)
    mprotect(stacks + i * StackBytes, 4096, PROT_NONE);
}

Machine::~Machine() {
  munmap(shared, SharedBytes);
  munmap(stacks, StackBytes * MaxThreads);
}

void Machine::addBuffer(llvm::StringRef name, void *begin, size_t bytes) {
  lastBuffer = nullptr;
  buffers.insert_or_assign(reinterpret_cast<uint64_t>(begin),
                           Buffer{name.str(), bytes, Shadow(bytes)});
}

void Machine::removeBuffer(const void *begin) {
  lastBuffer = nullptr;
  buffers.erase(reinterpret_cast<uint64_t>(begin));
}

//===----------------------------------------------------------------------===//
// Blocks and threads
//===----------------------------------------------------------------------===//

namespace {

/// Flushes denormal numbers to zero, as kernels ask for, while it lives.
class FlushDenormals {
public:
#ifdef __x86_64__
  FlushDenormals() : before(_mm_getcsr()) { _mm_setcsr(before | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(before); }

private:
  unsigned before;
#elif defined(__aarch64__)
  FlushDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(before));
    asm volatile("msr fpcr, %0" ::"r"(before | uint64_t{1} << 24));
  }
  ~FlushDenormals() { asm volatile("msr fpcr, %0" ::"r"(before)); }

private:
  uint64_t before;
#else
#error "how does this CPU flush denormal numbers?"
#endif
};

} // namespace

std::optional<Fault> Machine::launch(const Kernel &kernel,
                                     void *const *arguments) {
  this->kernel = &kernel;
  this->arguments = arguments;
  fault.reset();
  conflicts = 0;
  threadCount = kernel.block[0] * kernel.block[1] * kernel.block[2];
  auto refuse = [&](std::string why) {
    return Fault{Fault::Kind::Misuse,
                 formatv("kernel {0}: {1}", kernel.name, why).str()};
  };
  if (threadCount == 0 || threadCount > MaxThreads || threadCount % 32 != 0)
    return refuse(formatv("blocks of {0} threads", threadCount));
  if (kernel.staticShared > 48 << 10)
    return refuse(
        formatv("{0} bytes of static shared memory", kernel.staticShared));
  if (kernel.staticShared + kernel.dynamicShared > 227 << 10)
    return refuse(formatv("{0} bytes of shared memory",
                          kernel.staticShared + kernel.dynamicShared));
  if (Observer::current) {
    std::vector<std::pair<char *, size_t>> all;
    for (const auto &[begin, buffer] : buffers)
      all.push_back({reinterpret_cast<char *>(begin), buffer.bytes});
    Observer::current->begin(kernel, arguments, all);
  }
  Machine *outer = std::exchange(runningMachine, this);
  FlushDenormals flush;
  races.beginLaunch();
  auto [nx, ny, nz] = kernel.grid;
  for (uint32_t z = 0; z < nz && !fault; ++z)
    for (uint32_t y = 0; y < ny && !fault; ++y)
      for (uint32_t x = 0; x < nx && !fault; ++x) {
        blockIndex = {x, y, z};
        fault = runBlock();
      }
  runningMachine = outer;
  if (Observer::current && !fault)
    Observer::current->end();
  return fault;
}

std::optional<Fault> Machine::runBlock() {
  races.beginBlock(threadCount);
  // All bits set are NaN in each type of floating-point numbers.
  std::memset(shared, 0xff, kernel->staticShared + kernel->dynamicShared);
  warps.assign(threadCount / 32, {});
  readers.assign(threadCount / 32, {});
  unfenced.assign(kernel->readsAsync ? SharedBytes / PieceBytes : 0, 0);
  for (BlockBarrier &barrier : barriers)
    barrier = {};
  mbarriers.clear();
  ready.clear();
  endedCount = polls = 0;
  threads.clear();
  threads.resize(threadCount);
  for (auto [i, thread] : llvm::enumerate(threads)) {
    thread.id = i;
    char *stack = stacks + i * StackBytes;
    thread.fiber.start(stack + 4096, StackBytes - 4096, enter);
    ready.push_back(&thread);
  }
  while (endedCount < threadCount && !fault) {
    if (ready.empty())
      return deadlock();
    if (seed)
      std::swap(ready.front(), ready[order() % ready.size()]);
    current = ready.front();
    ready.pop_front();
    current->fiber.resume(scheduler);
  }
  if (!fault)
    for (const auto &[address, barrier] : mbarriers)
      if (!barrier.pieces.empty())
        return Fault{
            Fault::Kind::CopyNotAwaited,
            formatv("kernel {0}, block ({1}, {2}, {3}): it ends before the "
                    "copy at {4} has arrived",
                    kernel->name, blockIndex[0], blockIndex[1], blockIndex[2],
                    location(barrier.pieces.front().copy.site))};
  return std::move(fault);
}

void Machine::enter() {
  Machine &machine = running();
  Fiber::arrived(machine.scheduler);
  machine.kernel->run(machine.arguments);
  machine.end();
  llvm_unreachable("a thread that has ended goes on");
}

void Machine::leave(Wait wait) {
  Thread &thread = *current;
  Warp &warp = warps[thread.id / 32];
  warp.waits[thread.id % 32] = wait;
  if (needs(wait)) {
    if (std::exchange(warp.site, wait.site) != wait.site)
      warp.together = 0;
    warp.waiting |= 1u << thread.id % 32;
    warp.together |= 1u << thread.id % 32;
  }
  scheduler.resume(thread.fiber);
}

void Machine::wake(Thread &thread) {
  Warp &warp = warps[thread.id / 32];
  warp.waits[thread.id % 32] = {};
  warp.waiting &= ~(1u << thread.id % 32);
  warp.together &= ~(1u << thread.id % 32);
  ready.push_back(&thread);
}

void Machine::end() {
  polls = 0;
  Thread &thread = *current;
  warps[thread.id / 32].ended |= 1u << thread.id % 32;
  ++endedCount;
  Site site = 0;
  size_t count = 0;
  auto note = [&](const std::vector<Copy> &copies) {
    if (!count && !copies.empty())
      site = copies.front().site;
    count += copies.size();
  };
  llvm::for_each(thread.groups, note);
  note(thread.open);
  if (count)
    fail(Fault::Kind::CopyNotAwaited,
         formatv("{0} ends and has not waited for {1} of its copies, the first "
                 "at {2}",
                 name(thread), count, location(site)));
  const Warpgroup &warp = readers[thread.id / 32];
  if (!warp.open.sites.empty() || !warp.groups.empty())
    fail(Fault::Kind::CopyNotAwaited,
         formatv("{0} ends and has not waited for its products at {1}",
                 name(thread),
                 location(*(warp.open.sites.empty() ? warp.groups.front()
                                                    : warp.open)
                               .sites.begin())));
  checkConverged(0, 0);
  leave({});
}

void Machine::fail(Fault::Kind kind, std::string text) {
  fault = Fault{kind,
                formatv("kernel {0}, block ({1}, {2}, {3}): {4}", kernel->name,
                        blockIndex[0], blockIndex[1], blockIndex[2], text)};
  std::string().swap(text);
  scheduler.resume(current->fiber);
  llvm_unreachable("a launch that failed goes on");
}

uint32_t Machine::special(uint32_t index) const {
  uint32_t id = current->id, lane = id % 32;
  const std::array<uint32_t, 3> &block = kernel->block;
  uint32_t values[] = {
      lane,
      32,
      id / 32,
      threadCount / 32,
      1u << lane,
      (2u << lane) - 1,
      (1u << lane) - 1,
      ~((1u << lane) - 1),
      ~((2u << lane) - 1),
      id % block[0],
      id / block[0] % block[1],
      id / block[0] / block[1],
      block[0],
      block[1],
      block[2],
      blockIndex[0],
      blockIndex[1],
      blockIndex[2],
      kernel->grid[0],
      kernel->grid[1],
      kernel->grid[2],
      kernel->dynamicShared,
  };
  return values[index];
}

static constexpr llvm::StringLiteral registerNames[] = {
    "laneid",      "warpsize",
    "warpid",      "nwarpid",
    "lanemask.eq", "lanemask.le",
    "lanemask.lt", "lanemask.ge",
    "lanemask.gt", "tid.x",
    "tid.y",       "tid.z",
    "ntid.x",      "ntid.y",
    "ntid.z",      "ctaid.x",
    "ctaid.y",     "ctaid.z",
    "nctaid.x",    "nctaid.y",
    "nctaid.z",    "dynamic.smem.size"};
const llvm::ArrayRef<llvm::StringLiteral>
    tfm::emulator::specialRegisters(registerNames);

//===----------------------------------------------------------------------===//
// Words for faults
//===----------------------------------------------------------------------===//

std::string Machine::name(const Thread &thread) const {
  return formatv("thread {0} (warp {1}, lane {2})", thread.id, thread.id / 32,
                 thread.id % 32);
}

/// "lanes 0-3, 7 of warp 1".
std::string Machine::name(uint32_t warp, uint32_t lanes) const {
  std::string list;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if (!(lanes >> lane & 1))
      continue;
    uint32_t last = lane;
    while (last < 31 && lanes >> (last + 1) & 1)
      ++last;
    list += formatv("{0}{1}", list.empty() ? "" : ", ", lane);
    if (last > lane)
      list += formatv("-{0}", last);
    lane = last;
  }
  return formatv("lanes {0} of warp {1}", list, warp);
}

std::string Machine::place(uint64_t address) const {
  if (address >= SharedBase && address < SharedBase + SharedBytes)
    return formatv("byte {0} of shared memory", address - SharedBase);
  auto after = buffers.upper_bound(address);
  if (after == buffers.begin())
    return formatv("address {0:x}", address);
  --after;
  return formatv("byte {0} of {1}", address - after->first, after->second.name);
}

const std::string &Machine::location(Site site) const {
  return (*kernel->sites)[site];
}

std::string Machine::waitsFor(const Wait &wait) const {
  switch (wait.what) {
  case Wait::For::Nothing:
    return "for nothing";
  case Wait::For::Warp:
    return formatv("for lanes of their warp at {0}", location(wait.site));
  case Wait::For::Barrier: {
    const BlockBarrier &barrier = barriers[wait.object];
    return formatv("at barrier {0}, where {1} of {2} threads are, at {3}",
                   wait.object, barrier.arrived, barrier.expected,
                   location(wait.site));
  }
  case Wait::For::Phase: {
    const MBarrier &barrier = mbarriers.at(wait.object);
    return formatv("for phase {0} of the mbarrier at {1}, to which {2} of {3} "
                   "arrivals are missing, at {4}",
                   barrier.phase, place(wait.object), barrier.pending,
                   barrier.expected, location(wait.site));
  }
  }
  llvm_unreachable("no such wait");
}

Fault Machine::deadlock() const {
  std::string text =
      formatv("kernel {0}, block ({1}, {2}, {3}): nobody can go "
              "on",
              kernel->name, blockIndex[0], blockIndex[1], blockIndex[2]);
  for (size_t begin = 0; begin < threads.size();) {
    const Thread &first = threads[begin];
    auto state = [&](const Thread &thread) {
      const Wait &wait = waitOf(thread);
      return std::tuple(hasEnded(thread), wait.what, wait.site, wait.object);
    };
    size_t end = begin + 1;
    while (end < threads.size() && state(threads[end]) == state(first))
      ++end;
    text += formatv("; threads {0} to {1} {2}", begin, end - 1,
                    hasEnded(first) ? std::string("have ended")
                                    : "wait " + waitsFor(waitOf(first)));
    begin = end;
  }
  return {Fault::Kind::Deadlock, std::move(text)};
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

bool Machine::mayWrite(uint64_t address, uint32_t size) const {
  return !writable || llvm::any_of(*writable, [&](const Range &range) {
    return address >= range.begin && address + size <= range.end;
  });
}

Machine::Place Machine::find(Site site, uint64_t address, uint32_t size,
                             bool writes) {
  uint64_t sharedUsed = kernel->staticShared + kernel->dynamicShared;
  if (address >= SharedBase && address < SharedBase + SharedBytes) {
    if (address + size <= SharedBase + sharedUsed)
      return {&sharedShadow, address - SharedBase, Races::Memory::Shared};
  } else {
    if (!lastBuffer || address < lastBuffer->first ||
        address - lastBuffer->first >= lastBuffer->second.bytes) {
      auto after = buffers.upper_bound(address);
      lastBuffer = after == buffers.begin() ? nullptr : &*std::prev(after);
    }
    if (lastBuffer &&
        address - lastBuffer->first + size <= lastBuffer->second.bytes &&
        (!writes || mayWrite(address, size)))
      return {&lastBuffer->second.shadow, address - lastBuffer->first,
              Races::Memory::Global};
  }
  fail(Fault::Kind::OutOfBounds,
       formatv("{0} {1} {2} bytes at {3}, which is outside of it{4}, at {5}",
               name(*current), writes ? "writes" : "reads", size,
               place(address), writes && writable ? " or only to be read" : "",
               location(site)));
}

void Machine::access(Site site, uint64_t address, uint32_t size,
                     uint32_t alignment, bool writes) {
  check(*current, site, address, size, alignment, writes);
}

void Machine::check(Thread &thread, Site site, uint64_t address, uint32_t size,
                    uint32_t alignment, bool writes, bool inFlight) {
  if (address % alignment)
    fail(
        Fault::Kind::Misaligned,
        formatv("{0} {1} {2} bytes at {3}, which is no multiple of {4}, at {5}",
                name(thread), writes ? "writes" : "reads", size, place(address),
                alignment, location(site)));
  Place place = find(site, address, size, writes);
  auto found = place.shadow->forEach(place.offset, size, [&](Cell &cell) {
    return writes
               ? races.write(cell, place.memory, thread.id, thread.clock, site,
                             inFlight)
               : races.read(cell, place.memory, thread.id, thread.clock, site);
  });
  if (!found) {
    if (writes && kernel->readsAsync && place.memory == Races::Memory::Shared) {
      checkNotRead(thread, site, address, size);
      if (!inFlight)
        noteWritten(thread, address, size);
    }
    return;
  }
  using Found = Races::Conflict::Kind;
  const char *does = writes ? "writes" : "reads";
  if (found->kind == Found::Unwritten)
    fail(Fault::Kind::Unwritten,
         formatv("{0} reads {1}, which nobody has written, at {2}",
                 name(thread), this->place(address), location(site)));
  if (found->kind == Found::InFlight)
    fail(Fault::Kind::CopyInFlight,
         formatv("{0} {1} {2} at {3} before thread {4} has waited for the copy "
                 "to it at {5}",
                 name(thread), does, this->place(address), location(site),
                 found->thread, location(found->site)));
  fail(Fault::Kind::Race,
       formatv("{0} {1} {2} at {3}, and nothing orders that with what {4} {5} "
               "at {6}",
               name(thread), does, this->place(address), location(site),
               found->otherBlock ? std::string("another block")
                                 : formatv("thread {0}", found->thread).str(),
               found->earlierWrote ? "wrote" : "read", location(found->site)));
}

/// A thread writes to shared memory, or begins a copy to it, where no product
/// may be reading.
void Machine::checkNotRead(const Thread &thread, Site site, uint64_t address,
                           uint32_t size) {
  for (const Warpgroup &warp : readers)
    for (const Group &group : warp.groups)
      for (const Reading &reading : group.reads)
        if (address < reading.bytes.end && reading.bytes.begin < address + size)
          fail(Fault::Kind::CopyInFlight,
               formatv("{0} writes {1} at {2} while the product at {3} reads "
                       "it, for which nobody has waited",
                       name(thread), this->place(address), location(site),
                       location(reading.site)));
}

void Machine::noteWritten(Thread &thread, uint64_t address, uint32_t size) {
  auto first = static_cast<uint32_t>((address - SharedBase) / PieceBytes);
  auto last =
      static_cast<uint32_t>((address + size - 1 - SharedBase) / PieceBytes);
  for (uint32_t piece = first; piece <= last; ++piece) {
    ++unfenced[piece];
    thread.unfenced.push_back(piece);
  }
}

void Machine::fenceAsync() {
  for (uint32_t piece : std::exchange(current->unfenced, {}))
    --unfenced[piece];
}

/// A warp begins to read through the async proxy.
void Machine::readAsync(const Collective &collective, Range bytes) {
  Thread &thread = threads[collective.first];
  check(thread, collective.site, bytes.begin,
        static_cast<uint32_t>(bytes.end - bytes.begin), 16, false);
  for (uint64_t at = bytes.begin; at < bytes.end; at += PieceBytes)
    if (unfenced[(at - SharedBase) / PieceBytes])
      fail(Fault::Kind::Misuse,
           formatv("{0} reads {1}, which was written without a fence of the "
                   "async proxy since, at {2}",
                   name(collective.first / 32, ~0u), place(at),
                   location(collective.site)));
  readers[collective.first / 32].open.reads.push_back({bytes, collective.site});
}

void Machine::copyAsync(Site site, uint64_t to, uint64_t from, uint32_t size,
                        uint32_t sourceSize) {
  if (sourceSize > size)
    fail(Fault::Kind::Misuse,
         formatv("{0} copies {1} bytes of {2} at {3}", name(*current),
                 sourceSize, size, location(site)));
  if (sourceSize)
    check(*current, site, from, sourceSize, size, false);
  check(*current, site, to, size, size, true, true);
  std::memset(reinterpret_cast<void *>(to), 0xff, size);
  current->open.push_back({to, from, size, sourceSize, site});
}

void Machine::commitCopies() {
  current->groups.push_back(std::move(current->open));
  current->open.clear();
}

void Machine::awaitCopies(uint32_t groups) {
  while (current->groups.size() > groups) {
    for (const Copy &copy : current->groups.front())
      arriveAt(copy, current->id, current->clock.own);
    current->groups.erase(current->groups.begin());
  }
}

/// What a copy brings is there, as if its thread had written it at `time`.
void Machine::arriveAt(const Copy &copy, uint32_t thread, uint32_t time) {
  bring(copy, thread, time);
  if (kernel->readsAsync)
    noteWritten(threads[thread], copy.to, copy.size);
}

void Machine::bring(const Copy &copy, uint32_t thread, uint32_t time) {
  auto *to = reinterpret_cast<char *>(copy.to);
  std::memcpy(to, reinterpret_cast<const void *>(copy.from), copy.sourceSize);
  std::memset(to + copy.sourceSize, 0, copy.size - copy.sourceSize);
  sharedShadow.forEach(copy.to - SharedBase, copy.size,
                       [&](Cell &cell) -> std::optional<int> {
                         races.arrive(cell, thread, time);
                         return std::nullopt;
                       });
}

//===----------------------------------------------------------------------===//
// Who is after whom
//===----------------------------------------------------------------------===//

/// Whoever hears `clock` is after what the thread has done so far.
void Machine::tell(Thread &thread, std::vector<uint32_t> &clock) const {
  clock.resize(threadCount);
  if (thread.clock.known)
    for (auto [mine, theirs] : llvm::zip_equal(clock, *thread.clock.known))
      mine = std::max(mine, theirs);
  clock[thread.id] = std::max(clock[thread.id], thread.clock.own++);
}

void Machine::hear(Thread &thread, const std::vector<uint32_t> &clock) const {
  std::vector<uint32_t> known = clock;
  known.resize(threadCount);
  if (thread.clock.known)
    for (auto [mine, theirs] : llvm::zip_equal(known, *thread.clock.known))
      mine = std::max(mine, theirs);
  thread.clock.known =
      std::make_shared<const std::vector<uint32_t>>(std::move(known));
}

/// All of them are after what each of them has done.
void Machine::meet(llvm::ArrayRef<Thread *> those) const {
  auto clock = std::make_shared<std::vector<uint32_t>>();
  for (Thread *thread : those)
    tell(*thread, *clock);
  for (Thread *thread : those)
    thread->clock.known = clock;
}
