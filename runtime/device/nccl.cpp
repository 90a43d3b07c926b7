//===- nccl.cpp - GPUs that exchange what they hold -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/nccl.h"

#include "runtime/support/error.h"

#include <dlfcn.h>
#include <exception>
#include <fmt/format.h>

namespace tfm {

static constexpr const char *library = "libnccl.so.2";

Nccl::Nccl() {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  auto refuse = [](const std::string &why) {
    throw InputError(
        "GPUs of several processes exchange gradients by NCCL, and {}: install "
        "it (NVIDIA's package libnccl2, or nvidia-nccl-cu12 of pip, with its "
        "folder in LD_LIBRARY_PATH), or run with --device cpu",
        why);
  };
  if (!handle)
    refuse(fmt::format("it cannot be loaded ({})", dlerror()));
#define TFM_NCCL_NAME(result, name, arguments) #name "\0"
  if (const char *missing = findFunctions(
          handle, TFM_NCCL_FUNCTIONS(TFM_NCCL_NAME), &call, sizeof call))
    refuse(fmt::format("{} is too old, it has no {}", library, missing));
#undef TFM_NCCL_NAME
}

std::string Nccl::version() const {
  int number = 0;
  check(call.ncclGetVersion(&number), "tell its version");
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100,
                     number % 100);
}

void Nccl::check(nccl::Result result, const char *what,
                 nccl::Communicator communicator) const {
  if (result == nccl::success)
    return;
  const char *more = call.ncclGetLastError(communicator);
  bool hasMore = more && *more;
  throw DeviceError("NCCL cannot {}: {}{}{}{}", what,
                    call.ncclGetErrorString(result), hasMore ? " (" : "",
                    hasMore ? more : "", hasMore ? ")" : "");
}

NcclLink::NcclLink(const CudaDriver &driver, cuda::DeviceNumber gpu,
                   cuda::Stream stream, const cuda::Address &arena,
                   Processes &processes)
    : driver(driver), stream(stream), arena(arena), processes(processes) {
  requireOwnGpus(gpu);
  nccl::UniqueId id = {};
  if (processes.isFirst())
    library.check(library.call.ncclGetUniqueId(&id), "begin");
  id = processes.ofFirst(id);
  library.check(library.call.ncclCommInitRank(&communicator, processes.count(),
                                              id, processes.rank()),
                "join the GPUs of the processes");
}

NcclLink::~NcclLink() {
  // What fails does not wait for others, which may wait for it.
  if (std::uncaught_exceptions() > 0)
    library.call.ncclCommAbort(communicator);
  else
    library.call.ncclCommDestroy(communicator);
}

void NcclLink::requireOwnGpus(cuda::DeviceNumber gpu) const {
  cuda::Uuid own = {};
  driver.check(driver.call.cuDeviceGetUuid(&own, gpu), "identify its GPU");
  Gathered<cuda::Uuid> all = processes.gather(own);
  for (size_t i = 0; all.begin() + i < all.end(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (all[i] == all[j])
        throw AgreedError(
            "{} and {} have the same GPU: start a process for each GPU",
            processes.name(static_cast<int>(j)),
            processes.name(static_cast<int>(i)));
}

void NcclLink::ask(std::span<const Share> shares, bool sums) {
  const char *what = sums ? "sum up gradients" : "copy parameters";
  library.check(library.call.ncclGroupStart(), what, communicator);
  int owner = 0;
  for (const Share &share : shares) {
    auto *values = reinterpret_cast<void *>(arena + share.offset);
    if (share.floats > 0)
      library.check(sums ? library.call.ncclReduce(values, values, share.floats,
                                                   nccl::float32, nccl::sum,
                                                   owner, communicator, stream)
                         : library.call.ncclBroadcast(
                               values, values, share.floats, nccl::float32,
                               owner, communicator, stream),
                    what, communicator);
    ++owner;
  }
  library.check(library.call.ncclGroupEnd(), what, communicator);
}

void NcclLink::sum(std::span<const Share> shares) {
  ask(shares, /*sums=*/true);
}

void NcclLink::copy(std::span<const Share> shares) {
  ask(shares, /*sums=*/false);
}

void NcclLink::wait() {
  Patience patience = processes.patience();
  while (true) {
    // What has failed may also be over.
    nccl::Result failed = nccl::success;
    library.check(library.call.ncclCommGetAsyncError(communicator, &failed),
                  "go on", communicator);
    library.check(failed, "reach the GPUs of the others", communicator);
    cuda::Result state = driver.call.cuStreamQuery(stream);
    if (state != cuda::notReady)
      return driver.check(state, "go on");
    if (!patience.wait())
      processes.giveUp("the GPUs of others");
  }
}

} // namespace tfm
