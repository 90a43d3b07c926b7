//===- device.h - where a model's functions run -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything that is asked of a device happens in the order in which it was
// asked: a function sees what was written before it, and a read what was
// computed before it. A device with memory of its own may return at once and do
// it later; only who looks at what was read waits. The memory of `CpuDevice` is
// the host's, so there a read and a write are views of the arena: nothing is
// copied, and nothing waits.
//
//===----------------------------------------------------------------------===//

#ifndef TFM_RUNTIME_DEVICE_DEVICE_H
#define TFM_RUNTIME_DEVICE_DEVICE_H

#include "runtime/tfm_model.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tfm {

class Peaks;
class Processes;
template <typename T> class PendingRead;
template <typename T> class PendingWrite;

/// A device has less memory left than an arena takes.
struct NoDeviceMemory : std::bad_alloc {
  NoDeviceMemory(std::string device, uint64_t left, uint64_t all)
      : device(std::move(device)), left(left), all(all) {}
  std::string device;
  uint64_t left, all;
};

/// Who wants to know how far a function is.
class LaunchWatcher {
public:
  virtual ~LaunchWatcher() = default;
  /// So many launches of the call are over. The next one may go on meanwhile;
  /// the one behind it does not begin before this returns.
  /// Called on the thread that runs functions; throws nothing. Numbers are
  /// rounded as functions round them, denormal ones to zero.
  virtual void launched(uint64_t launches) noexcept = 0;
};

/// Devices of several processes that exchange what lies in their arenas without
/// the memory of hosts. All of them ask for the same, in the same order.
class DeviceLink {
public:
  /// Floats, at the same place in all arenas.
  struct Share {
    uint64_t offset = 0;
    size_t floats = 0;
  };
  virtual ~DeviceLink() = default;

  /// Share i of process i becomes the sum of what all have there. What the
  /// others have there is of no use any more.
  virtual void sum(std::span<const Share> shares) = 0;
  /// Share i of all becomes that of process i.
  virtual void copy(std::span<const Share> shares) = 0;
  /// As `Device::wait`, but for no longer than `Processes` waits. Throws
  /// LostProcess.
  virtual void wait() = 0;
};

/// The memory of a model, its arena, and what runs its functions. Places in the
/// arena are bytes from its beginning.
class Device {
public:
  virtual ~Device() = default;

  /// Makes an arena of zeros, aligned to `alignment`, and for every thread
  /// `scratch` bytes. What is not touched costs no memory of the host. Throws
  /// bad_alloc where there is not enough, logic_error where there is an arena
  /// already.
  virtual void allocate(size_t bytes, size_t alignment, size_t scratch) = 0;
  /// Waits for all that was asked for and gives the arena back.
  virtual void release() = 0;

  /// What it is called where it is not this machine's processors; else empty.
  virtual std::string name() const { return ""; }

  /// Runs functions, one behind the other. What goes into all of them was
  /// written before, what they give is read after.
  virtual void run(std::span<const tfm_function *const> functions) = 0;
  void run(const tfm_function &function) {
    const tfm_function *one = &function;
    run(std::span(&one, 1));
  }
  virtual void zero(uint64_t offset, size_t bytes) = 0;
  /// What lies there is of no use any more: it becomes zeros, and its memory
  /// may go to others until something is written there, and then of no more
  /// than the pages that are written.
  virtual void discard(uint64_t offset, size_t bytes) { zero(offset, bytes); }

  /// Where functions note when each of their launches was over from now on, one
  /// call behind the other (`tfm_thread.events`); null: nowhere.
  virtual void recordInto(tfm_event *events) = 0;

  /// Whether reads and writes are views of the arena: what was read stays, and
  /// changes with it.
  virtual bool isHostMemory() const { return false; }
  /// Who is told how far functions are from now on; null: nobody. A device that
  /// goes on by itself tells nobody.
  virtual void watch(LaunchWatcher *) {}

  /// Joins the devices of these processes, which all call it; null where rows
  /// go through the memory of hosts. The link must go before the device.
  virtual std::unique_ptr<DeviceLink> link(Processes &) { return nullptr; }

  /// `count` values from `offset` on, to be filled; they are in the arena when
  /// what is returned goes. Before that they are anything, so all of them must
  /// be filled.
  template <typename T> PendingWrite<T> write(uint64_t offset, size_t count) {
    return PendingWrite<T>(*this, offset, count);
  }
  /// `count` values from `offset` on, as of now.
  template <typename T>
  PendingRead<T> read(uint64_t offset, size_t count) const {
    return PendingRead<T>(*this, offset, count);
  }

  /// Computes something on the host, with all threads that this device has
  /// there: calls `work(context, thread)` as a function of a model is called.
  virtual void runOnHost(void (*work)(void *, tfm_thread *), void *context) = 0;
  /// How many threads these are.
  virtual int hostThreads() const = 0;

  /// Until all that was asked for is done.
  virtual void wait() const = 0;
  /// What it can do at most: products of these kinds, and reading so many bytes
  /// over and over (peak.h).
  virtual std::unique_ptr<Peaks>
  peaks(const std::vector<std::string_view> &products, size_t reading) = 0;

protected:
  /// Where on the host bytes are, or will be after `finishRead`.
  struct HostBytes {
    const void *bytes;
    bool isPending;
  };

private:
  template <typename T> friend class PendingRead;
  template <typename T> friend class PendingWrite;

  /// Memory of the host that `endWrite` brings to the arena.
  virtual void *beginWrite(uint64_t offset, size_t bytes) = 0;
  virtual void endWrite(void *from, uint64_t offset, size_t bytes) noexcept = 0;

  virtual HostBytes beginRead(uint64_t offset, size_t bytes) const = 0;
  virtual void finishRead(const void *bytes) const = 0;
  /// Nobody looks at pending bytes any more.
  virtual void endRead(const void *bytes) const noexcept = 0;
};

/// Values that are on their way to the arena.
template <typename T> class [[nodiscard]] PendingWrite {
public:
  PendingWrite() = default;
  PendingWrite(PendingWrite &&other) noexcept
      : device(std::exchange(other.device, nullptr)), offset(other.offset),
        filled(other.filled) {}
  PendingWrite &operator=(PendingWrite &&other) noexcept {
    std::swap(device, other.device);
    std::swap(offset, other.offset);
    std::swap(filled, other.filled);
    return *this;
  }
  ~PendingWrite() {
    if (device)
      device->endWrite(filled.data(), offset, filled.size_bytes());
  }

  std::span<T> values() const { return filled; }

private:
  friend class Device;
  PendingWrite(Device &device, uint64_t offset, size_t count)
      : device(&device), offset(offset),
        filled(static_cast<T *>(device.beginWrite(offset, count * sizeof(T))),
               count) {}

  Device *device = nullptr;
  uint64_t offset = 0;
  std::span<T> filled;
};

/// Values on their way from the arena, there for as long as this is.
template <typename T> class [[nodiscard]] PendingRead {
public:
  PendingRead() = default;
  /// Values that the host has anyway.
  explicit PendingRead(std::span<const T> values) : read(values) {}
  PendingRead(PendingRead &&other) noexcept
      : read(other.read), pending(std::exchange(other.pending, nullptr)) {}
  PendingRead &operator=(PendingRead &&other) noexcept {
    std::swap(read, other.read);
    std::swap(pending, other.pending);
    return *this;
  }
  ~PendingRead() {
    if (pending)
      pending->endRead(read.data());
  }

  /// Waits until they are there. They stay until the next write or run.
  std::span<const T> values() const {
    if (pending)
      pending->finishRead(read.data());
    return read;
  }

private:
  friend class Device;
  template <typename> friend class PendingValue;
  PendingRead(const Device &device, uint64_t offset, size_t count) {
    Device::HostBytes found = device.beginRead(offset, count * sizeof(T));
    read = {static_cast<const T *>(found.bytes), count};
    pending = found.isPending ? &device : nullptr;
  }

  std::span<const T> read;
  const Device *pending = nullptr;
};

/// The first of such values, as it was then: it may be waited for when other
/// functions have been asked to run since.
template <typename T> class [[nodiscard]] PendingValue {
public:
  explicit PendingValue(PendingRead<T> from)
      : read(std::move(from)), known(read.pending ? T() : read.read[0]) {}
  T value() const { return read.pending ? read.values()[0] : known; }

private:
  PendingRead<T> read;
  T known;
};

/// Rows of so many floats that lie behind each other in an arena.
class DeviceRows {
public:
  DeviceRows() = default;
  DeviceRows(Device &device, uint64_t offset, size_t floats)
      : device(&device), offset(offset), floats(floats) {}

  PendingRead<float> read(size_t first, size_t count) const {
    return device->read<float>(placeOf(first), count * floats);
  }
  PendingWrite<float> write(size_t first, size_t count) const {
    return device->write<float>(placeOf(first), count * floats);
  }

private:
  uint64_t placeOf(size_t row) const {
    return offset + row * floats * sizeof(float);
  }

  Device *device = nullptr;
  uint64_t offset = 0;
  size_t floats = 0;
};

} // namespace tfm

#endif // TFM_RUNTIME_DEVICE_DEVICE_H
