#!/usr/bin/env python3
"""Holds the step that `tfmc report --processes N` predicts beside the measured one, by network.

Trains a model with two and four processes of one thread, under each MPI that is
installed: on this machine, through its shared memory, and on "hosts", a network
namespace each, which reach each other by TCP over a bridge that lets them send
and receive no faster than each of --rates. Namespaces need root. The prediction
is made of what a whole update takes one process; as many of these train at the
same time, each alone, so that they have the share of processors, caches and
memory that the measured ones have. And of what the network gives so many
processes that send each other blocks (exchange.c). Measured in turns (A B C A B
C ...); what counts is the median of the ratios of each round. A prediction that
is off by more than 15%: exit status 1.

  bench/compare_hosts.py [--models shakespeare] [--processes 2,4] [--rates 1Gbit/s,100Mbit/s] [--quick]
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

import measuring
from compare_processes import COMPARISONS, LIBRARIES, MICRO_BATCHES, WANTED_PREDICTION, Launched
from compare_pytorch import Binary, make_random_tokens, table
from measuring import ROOT, checked, fail, say

PREFIX = "tfmhost"
BRIDGE = f"{PREFIX}s"
# What takes the place of ssh: it runs a command on a host, whose name it has, too.
AGENT = f"""#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1; shift
exec ip netns exec $host unshare --uts sh -c "hostname $host; $*"
"""
# Messages by TCP alone, over the one network that there is between hosts.
OVER_TCP = {
    "Open MPI": (["mpirun.openmpi", "--mca", "plm_rsh_agent", "AGENT", "--mca", "btl", "tcp,self",
                  "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0", "--bind-to", "none",
                  "--host", "HOSTS", "-np"], {}),
    "MPICH": (["mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", "AGENT", "-iface", "eth0", "-ppn", "1",
               "-hosts", "HOSTS", "-n"], {"UCX_TLS": "tcp,self"}),
}


class Hosts:
    """Network namespaces on a bridge, an address and a name each."""

    def __init__(self, count, scratch):
        self.names = [f"{PREFIX}{number}" for number in range(count)]
        self.agent = pathlib.Path(scratch) / "agent"
        self.agent.write_text(AGENT)
        self.agent.chmod(0o755)
        self.links = [f"{PREFIX}v{number}" for number in range(count)]

    def __enter__(self):
        self.remove() # what a script left that was killed
        checked(["ip", "link", "add", BRIDGE, "type", "bridge"])
        checked(["ip", "link", "set", BRIDGE, "up"])
        for number, (host, link) in enumerate(zip(self.names, self.links)):
            checked(["ip", "netns", "add", host])
            checked(["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", host])
            checked(["ip", "link", "set", link, "master", BRIDGE, "up"])
            checked(["ip", "-n", host, "address", "add", f"10.77.0.{number + 1}/24", "dev", "eth0"])
            for device in ("lo", "eth0"):
                checked(["ip", "-n", host, "link", "set", device, "up"])
            # Of those that every kernel has, and lets hosts choose.
            checked(["ip", "netns", "exec", host, "sysctl", "-w", "net.ipv4.tcp_congestion_control=reno"])
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        with contextlib.suppress(OSError):
            present = checked(["ip", "netns", "list"])
            for host in [line.split()[0] for line in present.splitlines() if line.startswith(PREFIX)]:
                checked(["ip", "netns", "delete", host]) # and its link
            if os.path.exists(f"/sys/class/net/{BRIDGE}"):
                checked(["ip", "link", "delete", BRIDGE])

    def limit(self, rate):
        """Lets each host send and receive at a rate."""
        shape = ["root", "tbf", "rate", rate.replace("/s", ""), "burst", "128kb", "latency", "50ms"]
        for host, link in zip(self.names, self.links):
            checked(["tc", "qdisc", "replace", "dev", link, *shape])
            checked(["tc", "-n", host, "qdisc", "replace", "dev", "eth0", *shape])

    def kill(self):
        """Ends what still runs on them."""
        for host in self.names:
            for process in checked(["ip", "netns", "pids", host]).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)


class LaunchedOnHosts(Launched):
    """A process on each host, started on the first of them, as a user would."""

    # How long the launcher may take behind the answer: seconds. MPI's own end hangs where UCX goes over TCP
    # (MPICH; openucx/ucx#8738).
    PATIENCE = 2

    def __init__(self, tfmc, library, binary, hosts):
        super().__init__(tfmc, library, binary)
        self.hosts = hosts
        self.words, self.variables = OVER_TCP[library]

    def start(self, count):
        words = {"AGENT": self.hosts.agent, "HOSTS": ",".join(self.hosts.names[:count])}
        return [self.hosts.agent, self.hosts.names[0], *(words.get(word, word) for word in self.words), count]

    def answer(self, command, environment):
        with tempfile.TemporaryFile("w+") as errors:
            job = subprocess.Popen([str(word) for word in command], env={**environment, **self.variables},
                                   stdout=subprocess.PIPE, stderr=errors, text=True)
            line = job.stdout.readline()
            try:
                job.wait(self.PATIENCE)
            except subprocess.TimeoutExpired:
                self.hosts.kill()
                job.wait()
            if not line:
                errors.seek(0)
                fail(f"{' '.join(map(str, command))} gave no answer:\n{errors.read()[-2000:]}")
        return line


def alone_seconds(binary, count, steps):
    """What a step takes one of so many processes that know nothing of each other."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return statistics.mean(pool.map(lambda _: binary.step_seconds(steps), range(count)))


def compiled_exchange(library, scratch):
    program = os.path.join(scratch, f"exchange-{library.replace(' ', '')}")
    checked([LIBRARIES[library][0], "-O2", ROOT / "bench" / "exchange.c", "-o", program])
    return program


def measured_network(side, program, count, megabytes):
    """The bytes a second that processes send while they receive as many, and the seconds that a message takes."""
    answer = side.answer([*side.start(count), program, megabytes * 4], dict(os.environ))
    return (float(word) for word in answer.split())


def compare(comparison, options, libraries, hosts, scratch):
    data = comparison.data
    if data == "random":
        data = make_random_tokens(scratch)
    most = max(options.processes)
    defines = comparison.defines + [f"train.accumulate={most}", *MICRO_BATCHES[1:]]
    binary = Binary(options.tfmc, comparison, defines, data, 1, scratch)
    on_machine = [Launched(options.tfmc, library, binary) for library in libraries]
    on_hosts = [LaunchedOnHosts(options.tfmc, library, binary, hosts) for library in libraries]
    programs = {library: compiled_exchange(library, scratch) for library in libraries}
    steps = options.steps or max(2, comparison.steps // 8)

    def predicted(count, bytes_per_second, latency, alone):
        report = json.loads(checked(
            [options.tfmc, "report", comparison.file, "--processes", count, "--format", "json",
             "--network", f"{bytes_per_second / 1e6:.3f}MB/s", "--latency", f"{1e6 * latency:.3f}us",
             "--step", f"{alone:.6f}s", *(part for define in defines for part in ("-D", define))]))
        return report["memory"]["processes"][0]["seconds"]["step"]

    results = {}
    for number in range(1 if options.quick else options.rounds):
        for count in options.processes:
            alone = alone_seconds(binary, count, steps)
            for network in ["shared memory"] + (options.rates if hosts else []):
                is_shared = network == "shared memory"
                if not is_shared:
                    hosts.limit(network)
                for library, side in zip(libraries, on_machine if is_shared else on_hosts):
                    speed, latency = measured_network(side, programs[library], count, 1000 if is_shared else 10)
                    seconds = side.step_seconds(steps, count)
                    results.setdefault((count, network, library), []).append(
                        (speed, latency, seconds, predicted(count, speed, latency, alone) / seconds))
        say(f"  round {number + 1}")
    return {key: [statistics.median(column) for column in zip(*rounds)] for key, rounds in results.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="shakespeare", help="with commas (default: %(default)s)")
    parser.add_argument("--processes", default="2,4", help="how many (default: %(default)s)")
    parser.add_argument("--rates", default="1Gbit/s,100Mbit/s", help="of hosts' links (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="of a measurement (default: by model)")
    parser.add_argument("--quick", action="store_true", help="one round")
    measuring.add_tfmc(parser)
    options = measuring.parse(parser)
    options.processes = [int(count) for count in options.processes.split(",")]
    options.rates = [rate for rate in options.rates.split(",") if rate and rate != "none"]
    names = options.models.split(",")
    if unknown := [name for name in names if name not in COMPARISONS]:
        parser.error(f"there is no {unknown[0]}: choose from {', '.join(COMPARISONS)}")
    libraries = [library for library, (compiler, launcher) in LIBRARIES.items()
                 if shutil.which(compiler) and shutil.which(launcher[0])]
    if not libraries:
        fail("neither Open MPI nor MPICH is installed")
    if options.rates and os.geteuid() != 0:
        fail("network namespaces need root: --rates none leaves them out")
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    rows = [["model", "processes", "network", "library", "exchange", "message", "step", "predicted"]]
    with tempfile.TemporaryDirectory(prefix="tfm-hosts-") as scratch, contextlib.ExitStack() as stack:
        hosts = stack.enter_context(Hosts(max(options.processes), scratch)) if options.rates else None
        holds = True
        for name in names:
            say(f"{name}:")
            results = compare(COMPARISONS[name][0], options, libraries, hosts, scratch)
            for (count, network, library), (speed, latency, seconds, ratio) in results.items():
                near = abs(ratio - 1) <= WANTED_PREDICTION
                holds &= near
                rows.append([name, str(count), network, library, f"{speed / 1e6:,.1f} MB/s", f"{1e6 * latency:.0f} us",
                             f"{1e3 * seconds:.1f} ms",
                             f"{ratio:.2f} {'yes' if near else 'NO'}"])
    table(rows)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
