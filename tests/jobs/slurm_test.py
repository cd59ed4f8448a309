#!/usr/bin/env python3
"""jobscripts/ on a real Slurm of four virtual nodes: slurm_test.py TRIREME MPIEXEC [--full | --nodes] [CASE ...]

Each case is a way in which a job may be interrupted; all have to end with the weights of a run that was not. With --nodes, nodes
fail that have a network, processes, a memory file system and a clock of their own, which needs root. Where Slurm or root is
missing, it says so and ends with 77. On a busy machine, export TRIREME_TEST_PATIENCE=N: recoveries then have N times as long.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import slurm_chance
import slurm_copies
import slurm_failures
import slurm_interruptions
import slurm_recoveries
from slurm_cluster import Cluster, Failure
from slurm_nodes import APART, Nodes, can_be_apart

FAST = slurm_interruptions.FAST
SLOW = slurm_interruptions.SLOW + slurm_recoveries.SLOW
NODES = slurm_failures.SLOW + slurm_copies.SLOW + slurm_chance.SLOW


def judge(cluster, cases):
    """Returns 1 if a case fails."""
    wrong = 0
    try:
        for case in cases:
            begin = time.monotonic()
            try:
                cluster.restore()
                case(cluster)
                print(f"ok      {case.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
            except (Failure, subprocess.SubprocessError, OSError, KeyError, ValueError) as e:
                wrong = 1
                print(f"FAILED  {case.__name__} ({time.monotonic() - begin:.1f} s): {e}", flush=True)
    finally:
        cluster.stop()
    return wrong


def judge_apart(program, launcher, folder, cases):
    """Cases of nodes in namespaces: this program runs them itself, in the namespaces of their network."""
    if not can_be_apart():
        print(f"{', '.join(case.__name__ for case in cases)}: nodes of their own need root", file=sys.stderr)
        return 77
    inside = subprocess.Popen([*APART, sys.executable, __file__, program, launcher, f"--inside={folder}", *(case.__name__ for case in cases)])
    try:
        return inside.wait()
    finally:
        inside.kill()  # and with it all nodes


def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    program, launcher, *names = [a for a in sys.argv[1:] if not a.startswith("--")]
    program = os.path.abspath(program)
    plain, apart = [f for f in FAST + SLOW if f.__name__ in names], [f for f in NODES if f.__name__ in names]
    if missing := set(names) - {f.__name__ for f in plain + apart}:
        sys.exit(f"no case {', '.join(missing)}; there are {', '.join(f.__name__ for f in FAST + SLOW + NODES)}")
    if not names:
        plain, apart = ([], NODES) if "--nodes" in options else (FAST + SLOW if "--full" in options else FAST, [])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the cluster is stopped all the same
    if inside := [a.removeprefix("--inside=") for a in options if a.startswith("--inside=")]:
        return judge(Nodes(program, launcher, Path(inside[0])), apart)
    results = []
    folder = Path(tempfile.mkdtemp(prefix="trireme-slurm-"))
    try:
        for part, cases in (("together", plain), ("apart", apart)):
            if cases:
                (folder / part).mkdir()
                folder.chmod(0o755), (folder / part).chmod(0o755)  # munge insists
                results.append(judge(Cluster(program, launcher, folder / part), cases) if part == "together"
                               else judge_apart(program, launcher, folder / part, cases))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return max(results, key=lambda code: (code == 1, code))


sys.exit(main())
