"""Nodes of slurm_test.py with a network, processes, a memory file system and a clock of their own, and ways in which they fail."""
import os
import subprocess
import time
from pathlib import Path

from slurm_cluster import CLUSTER, Cluster, require

SUBNET = "10.99.0"
# unshare makes the namespaces in which this cluster has its network. They end with their first process.
APART = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]


def can_be_apart():
    """Whether this user may make such nodes."""
    return os.geteuid() == 0 and subprocess.run([*APART, "true"], capture_output=True).returncode == 0


class Nodes(Cluster):
    """Four nodes in namespaces. Their ranks reach each other by TCP alone."""

    def __init__(self, program, mpiexec, folder):
        super().__init__(program, mpiexec, folder, SUBNET)
        self.environment |= {"UCX_TLS": "tcp,self", "NO_FAKE_STAT": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1"}

    names = ("n1", "n2", "n3", "n4")

    def is_up(self, node):
        return Path(f"/proc/{self.first(node)}").exists()

    def first(self, node):
        """The first process of a node, without which the others end."""
        return int((self.folder / f"slurm/run/node.{node}.pid").read_text())

    def root(self, node):
        return Path(f"/proc/{self.first(node)}/root")

    def memory(self, node):
        return self.root(node) / "dev/shm"

    def ranks(self, node, job):
        """The ranks of a job on a node, and the processes that rescue its copies. The job's script and launchers are none."""
        space = os.readlink(f"/proc/{self.first(node)}/ns/pid")
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "ns/pid") == space and (process / "comm").read_text() == "trireme\n" \
                        and f"TRIREME_LAUNCHED={job}/".encode() in (process / "environ").read_bytes():
                    found.append(int(process.name))
            except OSError:
                pass
        return found

    def signal_ranks(self, node, job, number):
        for process in self.ranks(node, job):
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

    def cut(self, node):
        """Nothing reaches the node any more, and nobody is told."""
        subprocess.run(["ip", "link", "set", node, "down"], check=True)

    def join(self, node):
        subprocess.run(["ip", "link", "set", node, "up"], check=True)

    def lose_power(self, *nodes):
        """All at once, and nobody is told: their connections are not closed."""
        for node in nodes:
            self.cut(node)
        for node in nodes:
            os.kill(self.first(node), 9)

    def set_clock(self, node, seconds):
        """The clock of a node is this much ahead, by Debian's libfaketime, for all processes that start there from now on. Further
        calls set it in the middle of these processes. Files get the times of the machine, like those of a file server."""
        library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
        require(os.path.exists(library), f"no {library}: apt-get install libfaketime")
        etc = self.root(node) / "etc"
        (etc / "faketimerc").write_text(f"{seconds:+}\n")
        (etc / "ld.so.preload").write_text(library + "\n")

    def clock(self, node):
        """What a process on the node takes for the time, in seconds, less the time of the machine."""
        text = subprocess.run(["nsenter", f"--target={self.first(node)}", "--mount", "--pid", "date", "+%s.%N"], check=True, capture_output=True,
                              text=True, env={**os.environ, **self.environment}).stdout
        return float(text) - time.time()

    def boot(self, node):
        subprocess.run([CLUSTER, "boot", self.folder / "slurm", node], check=True, stdout=subprocess.DEVNULL)

    def restore(self):
        """No job, and all nodes are there again, with the time of this machine."""
        self.call("scancel", "--user=root")
        for node in self.names:
            if not self.is_up(node):
                self.boot(node)
            self.join(node)
            (self.root(node) / "etc/ld.so.preload").unlink(missing_ok=True)
            subprocess.run(["scontrol", "update", f"NodeName={node}", "State=RESUME"], env=self.environment, capture_output=True)
        self.until_idle()

    def until_idle(self):
        ready = lambda: len(self.call("sinfo", "-h", "-N", "-p", "main", "-t", "idle").split("\n")) > 4
        self.until("four idle nodes", ready)
