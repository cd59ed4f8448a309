#!/usr/bin/env python3
"""jobscripts/ on a real Slurm of four virtual nodes: slurm_test.py TRIREME MPIEXEC [--full] [CASE ...]

Each case is a way in which a job may be interrupted; all have to end with the weights of a run that was not. Without Slurm on
this machine it says so and ends with 77.
"""
import os
import signal
import subprocess
import sys
import time

import slurm_interruptions
import slurm_recoveries
from slurm_cluster import Cluster, Failure

FAST = slurm_interruptions.FAST
SLOW = slurm_interruptions.SLOW + slurm_recoveries.SLOW


def main():
    arguments = sys.argv[1:]
    full = "--full" in arguments
    program, launcher, *names = [a for a in arguments if a != "--full"]
    chosen = [f for f in FAST + SLOW if f.__name__ in names] if names else FAST + (SLOW if full else [])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the cluster is stopped all the same
    cluster = Cluster(os.path.abspath(program), launcher)
    wrong = 0
    try:
        for case in chosen:
            begin = time.monotonic()
            try:
                case(cluster)
                print(f"ok      {case.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
            except (Failure, subprocess.TimeoutExpired, OSError, KeyError) as e:
                wrong += 1
                print(f"FAILED  {case.__name__} ({time.monotonic() - begin:.1f} s): {e}", flush=True)
    finally:
        cluster.stop()
    return 1 if wrong else 0


sys.exit(main())
