"""Models under a Slurm of this machine: `srun` with both MPI libraries, batch scripts, and what ends them.

The daemons are the test's own, in its folder and on ports that are free: two nodes, which are this machine. Where Slurm
is not installed (Debian: slurm-wlm, munge), or its daemons do not start, the tests are skipped.
"""

import getpass
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import subprocess
import time
import unittest

from support import MODELS, MPI_ENVIRONMENT, MPI_LIBRARIES, InFolder, main, run, tfmc
from test_processes import SMALL, SharedRuns

NEEDED = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "squeue", "sinfo")
NODES = ("node1", "node2")
# How each library learns of the others, `srun --mpi=`: what the program recommends first.
KINDS = {"Open MPI": ["pmix"], "MPICH": ["pmi2"], "Intel MPI": ["pmi2", "pmix"]}
LONG = ("--steps", "1000000")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Daemons:
    """munged, slurmctld and a slurmd for each node, in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.running = []
        path = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
        self.programs = {name: shutil.which(name, path=path) for name in NEEDED}
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}

    def start(self):
        """Why there are none, or nothing."""
        missing = [name for name, program in self.programs.items() if not program]
        if missing:
            return f"Slurm is not installed: there is no {', '.join(missing)}"
        key, socket_folder = self.folder / "munge", self.folder / "socket"
        names = ["munge", "socket", "state", *(f"{kind}-{node}" for node in NODES for kind in ("spool", "tmp"))]
        for name in names:
            (self.folder / name).mkdir(mode=0o700 if name == "munge" else 0o755)
        (key / "key").write_bytes(os.urandom(128))
        (key / "key").chmod(stat.S_IRUSR)
        self.configure()
        self.run("munged", "--foreground", "--force", f"--key-file={key}/key", f"--socket={socket_folder}/munge",
                 f"--pid-file={key}/pid", f"--log-file={key}/log", f"--seed-file={key}/seed")
        self.wait_for((socket_folder / "munge").exists)
        self.run("slurmctld", "-D", "-f", self.folder / "slurm.conf")
        for node in NODES:
            self.run("slurmd", "-D", "-f", self.folder / "slurm.conf", "-N", node)
        if self.wait_for(lambda: self.ask("sinfo", "-h", "-o", "%T %D").split() == ["idle", str(len(NODES))]):
            return None
        lines = "\n".join((self.folder / f"{name}.out").read_text(errors="replace") for name in ("slurmctld", "slurmd"))
        said = [line for line in lines.splitlines() if re.search("error|fatal", line)]
        return f"the daemons of Slurm do not start here: {'; '.join(said[-3:]) or self.ask('sinfo')}"

    def configure(self):
        user, host = getpass.getuser(), socket.gethostname().split(".")[0]
        control, *ports = free_ports(1 + len(NODES))
        lines = [
            "ClusterName=test", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={control}",
            f"SlurmUser={user}", f"SlurmdUser={user}", "AuthType=auth/munge", "CredType=cred/munge",
            f"AuthInfo=socket={self.folder}/socket/munge", f"StateSaveLocation={self.folder}/state",
            f"SlurmdSpoolDir={self.folder}/spool-%n", f"TmpFS={self.folder}/tmp-%n",
            f"SlurmctldPidFile={self.folder}/slurmctld.pid", f"SlurmdPidFile={self.folder}/slurmd-%n.pid",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_CPU", "SwitchType=switch/none", "MpiDefault=none", "ReturnToService=2",
            "JobAcctGatherType=jobacct_gather/none", "AccountingStorageType=accounting_storage/none",
            "MailProg=/bin/true", "SlurmdParameters=config_overrides", "KillWait=5"]
        lines += [f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 State=UNKNOWN"
                  for node, port in zip(NODES, ports)]
        lines.append(f"PartitionName=all Nodes={','.join(NODES)} Default=YES MaxTime=INFINITE State=UP")
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n")

    def run(self, name, *arguments):
        with open(self.folder / f"{name}.out", "ab") as output:
            self.running.append(subprocess.Popen([self.programs[name], *(str(each) for each in arguments)],
                                                 stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                                 env=dict(os.environ, **self.environment)))

    def ask(self, name, *arguments):
        return run(self.programs[name], *arguments, environment=self.environment, timeout=30).stdout

    @staticmethod
    def wait_for(condition, seconds=10):
        limit = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > limit:
                return False
            time.sleep(0.05)
        return True

    def stop(self):
        if len(self.running) > 1:
            self.ask("scancel", "--full", "-s", "KILL", "-u", getpass.getuser())
            self.wait_for(lambda: not self.ask("squeue", "-h"))
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Slurm(SharedRuns, InFolder):
    RANK = "SLURM_PROCID="

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = pathlib.Path(cls.folder)
        cls.folder.chmod(0o755)
        cls.slurm = Daemons(cls.folder)
        cls.addClassCleanup(cls.slurm.stop)
        if problem := cls.slurm.start():
            raise unittest.SkipTest(problem)
        known = run(cls.slurm.programs["srun"], "--mpi=list", environment=cls.slurm.environment)
        known = (known.stdout + known.stderr).split()
        cls.libraries = {}
        for library, (mpicc, _) in MPI_LIBRARIES.items():
            if shutil.which(mpicc) and KINDS[library][0] in known:
                cls.libraries[library] = cls.folder / f"{cls.short(library)}.so"
        if not cls.libraries:
            raise unittest.SkipTest(f"no MPI is installed that this srun can start ({' '.join(known)})")
        cls.model = cls.folder / "m"
        result = tfmc("build", MODELS / "addition.tfm", "-o", cls.model, *SMALL, "-D", "train.sum=tree")
        assert result.returncode == 0, result.stderr
        for library, file in cls.libraries.items():
            result = tfmc("mpi", "--mpicc", MPI_LIBRARIES[library][0], "-o", file)
            assert result.returncode == 0, result.stderr
        cls.train_alone("alone")

    @staticmethod
    def short(library):
        return library.replace(" ", "")

    @classmethod
    def train_alone(cls, out, *arguments):
        result = run(cls.model, "train", "--out", out, "--threads", "1", *arguments, cwd=cls.folder)
        assert result.returncode == 0, result.stderr

    def environment(self, library):
        return dict(os.environ, NO_COLOR="1", TFM_MPI=str(self.libraries[library]), **MPI_ENVIRONMENT,
                    **self.slurm.environment)

    def command(self, *arguments, kind):
        return [self.slurm.programs["srun"], f"--mpi={kind}", *(str(each) for each in arguments)]

    def srun(self, library, *arguments, kind=None):
        return subprocess.run(self.command(*arguments, kind=kind or KINDS[library][0]), capture_output=True, text=True,
                              timeout=60, env=self.environment(library), cwd=self.folder, check=False)

    def submit(self, library, script, *options):
        """A job's number."""
        (self.folder / "job.sh").write_text("#!/bin/sh\n" + script)
        result = subprocess.run([self.slurm.programs["sbatch"], "--parsable", "--output=job.out", *options, "job.sh"],
                                capture_output=True, text=True, timeout=30, env=self.environment(library),
                                cwd=self.folder, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.strip()

    def wait_for_end(self, job):
        """What it has written."""
        self.assertTrue(self.slurm.wait_for(lambda: not self.slurm.ask("squeue", "-h", "-j", job), 40))
        return (self.folder / "job.out").read_text()

    def wait_for_checkpoint(self, out):
        self.assertTrue(self.slurm.wait_for((self.folder / out / "state.json").exists, 30))

    def assert_whole(self, out):
        """One process goes on from the checkpoint, in a copy of it and by srun, with the same bits."""
        step = json.loads((self.folder / out / "state.json").read_text())["step"]
        shutil.copytree(self.folder / out, self.folder / f"{out}-alone")
        self.train_alone(f"{out}-alone", "--resume", f"{out}-alone", "--steps", str(step + 2))
        library = next(iter(self.libraries))
        result = self.srun(library, "-n2", self.model, "train", "--threads", "1", "--out", out, "--resume", out,
                           "--steps", step + 2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_same_run(out, f"{out}-alone")

    def test_tasks_train_as_one_process(self):
        # Two of one node, then two of each; what one process writes, once.
        for library in self.libraries:
            for options in (("-N1", "-n2"), ("-N2", "-n4")):
                with self.subTest(library=library, options=options):
                    out = f"{self.short(library)}{options[1]}"
                    result = self.srun(library, *options, self.model, "train", "--threads", "1", "--out", out)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assert_same_run(out, "alone")
                    self.assertEqual(result.stdout.count("trained 12 steps"), 1, result.stdout)
                    self.assertNotIn("note:", result.stderr)

    def test_tasks_that_do_not_know_each_other(self):
        # Each would train alone, and all of them write the same files.
        for library in self.libraries:
            for kind in {"none", "pmi2", "pmix"} - set(KINDS[library]):
                with self.subTest(library=library, kind=kind):
                    result = self.srun(library, "-n2", self.model, "train", "--out", "never", kind=kind)
                    self.assertNotEqual(result.returncode, 0)
                    self.assertIn(f"`srun --mpi={KINDS[library][0]}`", result.stderr)
                    self.assertFalse((self.folder / "never").exists())
        # With one task there is nobody to know.
        result = self.srun(library, "-n1", self.model, "train", "--threads", "1", "--out", "one", kind="none")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_same_run("one", "alone")

    def test_a_script_without_srun(self):
        # It runs once, and what Slurm says of the job's tasks is not of this process.
        job = self.submit(next(iter(self.libraries)), f"{self.model} train --threads 1 --out script\n", "--ntasks=2")
        out = self.wait_for_end(job)
        self.assertEqual(out.count("trained 12 steps"), 1, out)
        self.assertEqual(out.count("note: this job of Slurm has 2 tasks, but one process trains, alone"), 1, out)
        self.assert_same_run("script", "alone")

    def test_a_job_that_is_cancelled_goes_on(self):
        # The script of docs/cluster.md: cancelled, submitted again.
        for library in self.libraries:
            with self.subTest(library=library):
                out = f"cancelled-{self.short(library)}"
                script = (f"srun --mpi={KINDS[library][0]} {self.model} train --threads 1 {' '.join(LONG)} --out {out} "
                          f"$([ -e {out}/state.json ] && echo --resume {out})\n")
                for _ in range(2):
                    job = self.submit(library, script, "--nodes=2", "--ntasks-per-node=1")
                    self.wait_for_checkpoint(out)
                    self.assertTrue(self.slurm.wait_for(lambda: len(self.members()) == 2))
                    before = json.loads((self.folder / out / "state.json").read_text())["step"]
                    self.assertTrue(self.slurm.wait_for(lambda: json.loads(
                        (self.folder / out / "state.json").read_text())["step"] > before))
                    began = time.monotonic()
                    self.slurm.ask("scancel", job)
                    said = self.wait_for_end(job)
                    self.assertLess(time.monotonic() - began, 10)
                    self.assertEqual(said.count(f"is saved, continue with --resume {out}"), 1, said)
                self.assert_whole(out)

    def test_whoever_is_killed_ends_all(self):
        # srun itself would let the others wait for one that is gone.
        endings = signal.SIGKILL, signal.SIGSEGV
        for library, ending, nodes in itertools.product(self.libraries, endings, ("-N1", "-N2")):
            with self.subTest(library=library, ending=ending, nodes=nodes):
                out = f"ended-{ending}{nodes}-{self.short(library)}"
                process = subprocess.Popen(
                    self.command(nodes, "-n2", self.model, "train", "--threads", "1", *LONG, "--out", out,
                                 kind=KINDS[library][0]),
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment(library),
                    cwd=self.folder)
                self.wait_for_checkpoint(out)
                members = self.members()
                self.assertEqual(len(members), 2)
                os.kill(members[1], ending)
                began = time.monotonic()
                said, _ = process.communicate(timeout=30)
                self.assertLess(time.monotonic() - began, 10)
                self.assertNotEqual(process.returncode, 0)
                self.assertRegex(said, r"process 1 \(.*\) has died without a word" if ending == signal.SIGKILL
                                 else r"process 1 \(.*\): internal error")
                self.assertIn(f"process 1 is {members[1]} on ", said)
                self.assert_whole(out)


if __name__ == "__main__":
    main()
