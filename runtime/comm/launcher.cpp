//===- launcher.cpp - whether other processes were started with this one ===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/launcher.h"

#include "runtime/comm/witness.h"

#include "runtime/support/atomic_file.h"
#include "runtime/support/progress.h"
#include "runtime/support/shell_word.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

/// Of a program that the C library is linked into there is none.
extern ElfW(Dyn) _DYNAMIC[] __attribute__((weak));

namespace tfm {

namespace {

constexpr const char *libraryName = "libtfm_mpi.so";
/// The environment variable that names it.
constexpr const char *libraryVariable = "TFM_MPI";

/// The library beside the executable; its name alone where nobody knows where
/// that is.
std::string besideProgram() {
  std::string path(4096, '\0');
  ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  path.resize(static_cast<size_t>(std::max<ssize_t>(0, length)));
  path.resize(path.rfind('/') + 1);
  return path + libraryName;
}

/// The environment variable; empty where there is none.
const char *textOf(const char *name) {
  const char *text = std::getenv(name);
  return text ? text : "";
}

/// 0 where it is none.
int64_t numberIn(const char *text) {
  if (!text)
    return 0;
  int64_t number = 0;
  const char *end = text + std::strlen(text);
  auto [last, error] = std::from_chars(text, end, number);
  return error == std::errc() && last == end ? number : 0;
}

[[noreturn]] void vrefuse(fmt::string_view format, fmt::format_args values) {
  throw InputError(fmt::vformat(format, values));
}

/// Throws InputError.
template <typename... Values>
[[noreturn]] void refuse(fmt::format_string<Values...> format,
                         Values &&...values) {
  vrefuse(format, fmt::make_format_args(values...));
}

std::string startedBy(const Launch &launch) {
  return fmt::format("{} has started {} processes", launch.launcher,
                     launch.size);
}

/// Whether a library has all that its header tells of. The system's loader
/// crashes on one that was cut short.
bool isWhole(const std::string &path) {
  // The loader itself says what is not there, or no library.
  if (path.find('/') == std::string::npos || !fileExists(path))
    return true;
  std::string bytes = readFile(path, "the library");
  Elf64_Ehdr header{};
  bytes.copy(reinterpret_cast<char *>(&header), sizeof header);
  // What is told last lies last.
  return !bytes.starts_with(ELFMAG) ||
         header.e_shoff + uint64_t{header.e_shentsize} * header.e_shnum <=
             bytes.size();
}

bool isLinkedStatically() { return !_DYNAMIC; }

/// Open MPI hears of the other tasks of srun by PMIx, unless it was built for
/// more. Where it hears nothing it ends the process within MPI_Init, with a
/// page about how Slurm should have been built.
bool lacksPmix(void *library) {
  return dlsym(library, "ompi_mpi_comm_world") &&
         !std::getenv("PMIX_NAMESPACE");
}

} // namespace

const char *environmentVariable(const char *name) { return std::getenv(name); }

std::optional<Launch> findLaunch(const char *(*variable)(const char *)) {
  // A batch script of Slurm has variables of the job, too; these are of a step.
  struct Variables {
    const char *size, *rank, *launcher;
  };
  constexpr Variables known[] = {
      {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpirun of Open MPI"},
      {"PMI_SIZE", "PMI_RANK", "mpirun of MPICH"},
      {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"}};
  for (auto [sizeName, rankName, launcher] : known) {
    int64_t size = numberIn(variable(sizeName));
    if (size <= 0)
      continue;
    // `srun --mpi=pmi2` sets PMI_SIZE, too. MPICH's own launcher, which may run
    // within a step of Slurm, also counts the processes of each machine.
    bool isStep = variable("SLURM_STEP_NUM_TASKS") &&
                  !variable("OMPI_COMM_WORLD_SIZE") &&
                  !variable("MPI_LOCALNRANKS");
    const char *rank = variable(isStep ? "SLURM_PROCID" : rankName);
    return Launch{isStep ? "srun" : launcher, size, rank ? rank : ""};
  }
  return std::nullopt;
}

int64_t tasksOfScript(const char *(*variable)(const char *)) {
  return findLaunch(variable)
             ? 1
             : std::max<int64_t>(1, numberIn(variable("SLURM_NTASKS")));
}

int64_t Launch::number() const { return numberIn(rank.data()); }

std::string Launch::name() const {
  return rank.empty() ? "this process"
                      : fmt::format("process {} ({})", rank, ownHost().data());
}

/// In microseconds, how long `waitForTurn` waits.
static useconds_t turnOf(int64_t rank) {
  if (rank == 0)
    return 0;
  constexpr int64_t last = 6; // who comes later waits no longer
  return static_cast<useconds_t>(1'000'000 + 500'000 * std::min(rank, last));
}

static std::unique_ptr<Processes> join(const std::optional<Launch> &launch,
                                       const std::string &name, bool isAsked,
                                       double timeout) {
  std::string purpose = isAsked ? "--processes mpi needs the messages of MPI"
                                : startedBy(*launch);
  if (isLinkedStatically())
    refuse("{}, and a program built with --static loads no library of MPI: "
           "build it without, or let each process work alone with "
           "--processes none",
           purpose);
  bool isStep = launch && launch->launcher == "srun";
  // Open MPI's launcher names who dies itself.
  if (launch && (isStep || std::getenv("PMI_RANK")))
    startWitness(name, isStep);
  // The file that the user names, else that beside the program, else from where
  // the system looks for libraries.
  const std::string beside = besideProgram();
  std::string path = textOf(libraryVariable), shown, advice;
  bool isNamed = !path.empty();
  if (isNamed) {
    if (path.find('/') == std::string::npos)
      path.insert(0, "./");
    shown = fmt::format("{}, which {} names,", path, libraryVariable);
    advice = fmt::format("name there what `tfmc mpi` has made, or unset {}",
                         libraryVariable);
  } else {
    // One beside the program is not read where another is named.
    path = access(beside.c_str(), F_OK) == 0 ? beside : libraryName;
    shown = path;
    advice = fmt::format("make it with `tfmc mpi -o {}` (--mpicc PATH where "
                         "mpicc is of another MPI)",
                         shellWord(beside));
  }
  // Parts of an MPI find what they call among the symbols of the program.
  bool isWhole = tfm::isWhole(path);
  void *library =
      isWhole ? dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) : nullptr;
  if (!library)
    refuse("{}, and {} cannot be loaded ({}): {}, or let each process work "
           "alone with --processes none",
           purpose, shown, isWhole ? dlerror() : "it was cut short", advice);
  if (isStep && !isAsked && lacksPmix(library))
    refuse("{}, but tells them nothing by PMIx, which Open MPI needs: start "
           "them with `srun --mpi=pmix` (`srun --mpi=list` says what there is) "
           "or with mpirun; an Open MPI that knows Slurm's older PMI begins "
           "with --processes mpi",
           purpose);
  auto *begin =
      reinterpret_cast<tfm_join_function *>(dlsym(library, "tfm_join"));
  if (!begin)
    refuse("{}, and {} is not what sends their messages: {}", purpose, shown,
           advice);
  tfm_transport *transport = nullptr;
  {
    Deadline deadline(
        timeout + (launch ? turnOf(launch->number()) * 1e-6 : 0),
        fmt::format(
            "{}: {}, but MPI has not begun in {:g} s (MPI_Init): another "
            "one hangs, has ended before, as its own message may say, or needs "
            "more time (--timeout)",
            name, purpose, timeout));
    transport = begin(TFM_TRANSPORT_ABI);
  }
  if (!transport)
    refuse("{} is of another version of tfm: {}", shown, advice);
  if (launch && transport->size != launch->size) {
    std::string how =
        isStep
            ? fmt::format("start it with `srun --mpi={}` (`srun --mpi=list` "
                          "says what there is) or the mpirun of this MPI, or "
                          "make it with another mpicc",
                          lacksPmix(library) ? "pmix" : "pmi2")
            : "make it with the mpicc of this launcher";
    refuse("{}, but {}, which was made for {}, finds {} of them: {}, "
           "`tfmc mpi --mpicc PATH -o {}`, or let each process work alone with "
           "--processes none",
           startedBy(*launch), libraryName, transport->library, transport->size,
           how, shellWord(isNamed ? path : beside));
  }
  auto processes = std::make_unique<Processes>(*transport, timeout);
  if (processes->count() > 1)
    return processes;
  processes->leave();
  return nullptr;
}

std::unique_ptr<Processes> joinProcesses(const ProcessesOptions &options) {
  if (options.wanted == "none")
    return nullptr;
  std::optional<Launch> launch = findLaunch(environmentVariable);
  bool isAsked = options.wanted == "mpi";
  if (!isAsked && (!launch || launch->size == 1))
    return nullptr;
  std::string name = launch ? launch->name() : "this process";
  try {
    return join(launch, name, isAsked, options.timeout.value_or(600));
  } catch (const std::runtime_error &error) {
    throw NotJoined(launch ? fmt::format("{}: {}", name, error.what())
                           : error.what());
  }
}

void waitForTurn(int64_t rank) {
  if (rank == 0)
    return;
  // By this it is ended: a handler would have it go on at once.
  std::signal(SIGTERM, SIG_DFL);
  usleep(turnOf(rank));
}

int endLaunch(const std::string &message, int status) {
  std::optional<Launch> launch = findLaunch(environmentVariable);
  if (launch)
    waitForTurn(launch->number());
  say(message);
  dismissWitness(/*endsAll=*/true);
  usleep(200'000); // MPICH's launcher drops what it has not read by then
  // PMI's own words, of which MPICH's library has no call before MPI_Init.
  std::string abort = fmt::format("cmd=abort exitcode={}\n", status);
  if (auto pmi = static_cast<int>(numberIn(std::getenv("PMI_FD"))); pmi > 0)
    (void)!write(pmi, abort.data(), abort.size());
  return status;
}

void requireSameProgram(Processes &processes, const std::string &command) {
  processes.requireSame("another command", command,
                        "start all of them with the same one");
  processes.requireSame("another program",
                        readFile("/proc/self/exe", "the program itself"),
                        "copy it to all machines");
}

} // namespace tfm
