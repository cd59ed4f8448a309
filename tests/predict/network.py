"""A slow network on one machine: a network namespace for each of two ranks, joined by a link of limited rate."""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

RATE = "1gbit"  # as an old cluster's Ethernet


def run(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)


def why_not():
    """What is missing here; empty: nothing."""
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    missing = [tool for tool in ("ip", "tc") if not shutil.which(tool)]
    return f"{' and '.join(missing)} (iproute2) is missing" if missing else ""


class SlowNetwork:
    """While it is entered, launch() starts rank r in the r-th namespace, on a node of its own."""

    def __init__(self, ranks=2):
        assert ranks == 2, "one link has two ends"
        self.names = [f"trireme-{os.getpid()}-{r}" for r in range(ranks)]
        self.folder = tempfile.TemporaryDirectory()

    def __enter__(self):
        try:
            for name in self.names:
                run("ip", "netns", "add", name)
            first, second = self.names
            run("ip", "link", "add", "slow0", "netns", first, "type", "veth", "peer", "name", "slow0", "netns", second)
            for r, name in enumerate(self.names):
                inside = ("ip", "netns", "exec", name)
                run(*inside, "ip", "address", "add", f"10.77.0.{r + 1}/24", "dev", "slow0")
                run(*inside, "ip", "link", "set", "slow0", "up")
                run(*inside, "ip", "link", "set", "lo", "up")
                run(*inside, "tc", "qdisc", "add", "dev", "slow0", "root", "tbf", "rate", RATE, "burst", "256kb", "latency", "50ms")
            for name in self.names:  # a link is up a moment after both of its ends are
                run("ip", "netns", "exec", name, "sh", "-c",
                    "for i in $(seq 100); do grep -q up /sys/class/net/slow0/operstate && exit; sleep 0.1; done; exit 1")
        except subprocess.CalledProcessError as e:
            self.__exit__()
            raise RuntimeError(f"{' '.join(e.cmd)}: {e.stderr.strip()}") from e
        script = Path(self.folder.name) / "in_namespace"
        script.write_text(f'#!/bin/sh\nexec ip netns exec trireme-{os.getpid()}-"$PMI_RANK" "$@"\n')
        script.chmod(0o755)
        self.script = script
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        self.folder.cleanup()

    def launch(self, mpiexec):
        """What to put before a program, and its environment."""
        return [mpiexec, "-n", "2", str(self.script)], {
            "MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "slow0"}
