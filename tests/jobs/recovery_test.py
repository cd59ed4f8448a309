#!/usr/bin/env python3
"""Recovery inside an allocation (jobscripts/recover.sh), without Slurm, MPI and the program: stand-ins play them.

A story says in bash what the program does in each of its starts, and what the script has to start then, on which nodes. Decisions
that need no story are compared with their rules in all cases. tests/jobs/slurm_test.py does the same on a real Slurm.
  recovery_test.py [--full] [--only 'a PATTERN of names']     --full: each story with both scripts, else with one of them
"""
import concurrent.futures
import re
import sys
import tempfile
import time

from recovery_rules import RULES
from recovery_stories import STORIES
from recovery_story import run, write_stand_ins


def main():
    full = "--full" in sys.argv
    pattern = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    wrong = []
    with tempfile.TemporaryDirectory(prefix="trireme-recovery-") as name:
        write_stand_ins(name)
        jobs = {rule.__doc__: rule for rule in RULES}
        for i, story in enumerate(STORIES):
            both = (False, True) if full or pattern else (i % 2 == 1,)
            for hosts in {"slurm": (False,), "hosts": (True,), "both": both}[story.scripts]:
                jobs[story.name + (", without Slurm" if hosts else "")] = lambda s=story, h=hosts, i=i: run(s, h, name, i)
        jobs = {title: job for title, job in jobs.items() if re.search(pattern, title)}
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            done = {pool.submit(job): title for title, job in jobs.items()}
            for future in concurrent.futures.as_completed(done):
                error = future.exception()
                if error:
                    wrong.append(done[future])
                    print(f"FAILED  {done[future]}: {error}", flush=True)
        print(f"{len(jobs) - len(wrong)} of {len(jobs)} cases passed in {time.monotonic() - begin:.1f} s")
    return 1 if wrong or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
