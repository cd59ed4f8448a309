#!/usr/bin/env python3
"""Recovery inside an allocation (jobscripts/recover.sh), without Slurm, MPI and the program: stand-ins play them.

A story says in bash what the program does in each of its starts, and what the script has to start then, on which nodes. Decisions
that need no story are compared with their rules in all cases. tests/jobs/slurm_test.py does the same on a real Slurm.
  recovery_test.py [--full] [--only 'a PATTERN of names']     --full: each story with both scripts, else with one of them
"""
import concurrent.futures
import csv
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "jobscripts"

# A node in down/ refuses every command; one in mute/ does not answer. $ON is the list of nodes on which a command runs.
STAND_INS = {
    "trireme": r"""
outcome() { # STATUS STEP [REASON]
  printf '{\n "status": "%s",\n "step": %s,\n "exit_reason": "%s",\n "job": "%s",\n "restart": %s,\n "recovery": %s\n}\n' \
    "$1" "$2" "${3-}" "${SLURM_JOB_ID:-$TRIREME_JOB}" "${SLURM_RESTART_COUNT:-0}" "$TRIREME_RECOVERY" > run/outcome.json.new
  mv run/outcome.json.new run/outcome.json
}
begins() { outcome running "$1"; touch run/lock; echo step,loss > run/history.csv; row "$1"; /bin/sleep "${2-0}"; } # STEP [SECONDS]
row() { echo "$1,0.5" >> run/history.csv; }
saved() { mkdir -p "run/checkpoints/step-0000000$1"; touch "run/checkpoints/step-0000000$1/manifest.json"; }
dies() { echo "srun: error: $1: task 1: Killed" >&2; exit 137; }                     # a process on a node that is well
goes() { for n; do touch "down/$n"; done; echo "srun: error: Node failure on $1" >&2; exit 137; } # nodes fail
copies() { touch run/memory_copies.json; }                                             # the run keeps memory copies
finish() { rm -f run/memory_copies.json; outcome done 9; row 9; exit 0; }
hangs() { exec /bin/sleep 60; }
mkdir -p run
case $1 in
  train)
    [[ " $* " != *' --print-run-dir '* ]] || { echo run; exit; }
    k=$(grep -c ^train calls)
    echo "train ${ON-n1}" >> calls
    echo "$TRIREME_RECOVERY $*" >> arguments
    eval "$(cat "train.$k" 2> /dev/null || echo finish)" ;;
  rescue)
    k=$(grep -c ^rescue calls)
    echo "rescue ${ON-n1}" >> calls
    eval "$(cat "rescue.$k" 2> /dev/null || echo "echo 'nothing to rescue: no copies'")" ;;
  check) eval "$CHECK" ;;
  plan) printf '%s\n' '3 configurations: 0 need too much memory' '   0.5 s    1.5 GiB  parallel.pipe=2 zero.stage=1' '  time lost: 1%' ;;
esac""",
    "on": r"""
list=$1
shift
for n in ${list//,/ }; do
  [ ! -e mute/$n ] || exec /bin/sleep 60
  [ ! -e down/$n ] || { echo "no answer from $n" >&2; exit 1; }
done
ON=$list exec "$@" """,
    "srun": r"""
list=$ALL
while [[ $1 == --* ]]; do
  [[ $1 != --nodelist=* ]] || list=${1#*=}
  shift
done
exec on "$list" "$@" """,
    "mpiexec": r"""
list=$ALL
while [[ $1 == -* ]]; do
  [ "$1" != -hosts ] || list=$(sed 's/:[0-9]*//g' <<< "$2")
  shift 2
done
exec on "$list" "$@" """,
    "ssh": r"""
while [[ $1 == -* ]]; do shift 2; done
exec on "$1" dash -c "${*:2}" """,
    "scontrol": r"""
case "$1 $2" in
  "show hostnames") tr , '\n' <<< "$3" ;;
  "show job") echo "   JobState=$STATE" ;;
  requeue*) echo requeue >> calls ;;
esac""",
    "squeue": '[ -n "$STEP" ] && /bin/sleep 1 && echo "$STEP trireme"',
    "scancel": '[[ $* == *KILL* ]] && echo "kill ${*: -1}" >> calls',
    "hostname": "echo n1",
    "sleep": 'case $1 in 60) exit 143 ;; 5) exec /bin/sleep 5 ;; *) exec /bin/sleep 0.05 ;; esac',
}


@dataclass
class Story:
    name: str
    trains: list               # what the program does in its starts; in later ones it finishes
    calls: list                # what is started in order: "train NODES", "rescue NODES", "requeue"
    code: int = 0              # of the script
    rescues: list = field(default_factory=list)
    rows: list = field(default_factory=list)  # of recoveries.csv: died, nodes_before, nodes_after, ranks, last_step, step
    says: str = ""
    nodes: str = "n1,n2,n3"
    environment: dict = field(default_factory=dict)
    arguments: str = "deck.toml --run-dir run"
    asked: dict = field(default_factory=dict)  # by number of the start: a text that its arguments have, or with one "-" before it have not
    hosts: bool = True         # the same with train_hosts.sh
    before: str = ""           # what an earlier job left in the run directory
    keeps: bool = False        # the copies in memory stay


ALL, SPARE = "n1,n2,n3", {"nodes": "n1,n2,n3,n4", "environment": {"TRIREME_SPARES": "1"}}
SAVED = "saved 4; echo rescued step 4"
NOTHING = "echo nothing to rescue: no copies"
LOST = "echo nothing to rescue: no process has an intact copy of rank-00001.h5 of step 4"
TRAIN, RESCUE = f"train {ALL}", f"rescue {ALL}"
OPAQUE = {"TRIREME_LAUNCH": "mpiexec -n 3"}
STORIES = [
    Story("nothing fails", [], [TRAIN]),
    Story("a process dies", ["begins 0; row 4; dies n2", "begins 4; finish"], [TRAIN, RESCUE, TRAIN], rescues=[SAVED],
          rows=["n2 Killed|n1 n2 n3|n1 n2 n3|3|4|4"], says="recovery 1: continuing after step 4 with 3 ranks on n1 n2 n3"),
    Story("a node fails", ["begins 0; row 4; goes n2", "begins 4; finish"], [TRAIN, "rescue n1,n3", "train n1,n3"], rescues=[SAVED],
          rows=["no answer from n2|n1 n2 n3|n1 n3|2|4|4"]),
    Story("a node fails, and a spare takes its place", ["begins 0; row 4; goes n2", "begins 4; finish"],
          [TRAIN, "rescue n1,n3,n4", "train n1,n3,n4"], rescues=[SAVED], rows=["no answer from n2|n1 n2 n3|n1 n3 n4|3|4|4"], **SPARE),
    Story("a node does not even refuse", ["begins 0; touch mute/n3; dies n3"], [TRAIN, "rescue n1,n2", "train n1,n2"]),
    Story("two nodes at once: from the disk", ["begins 0; saved 2; goes n2 n3", "begins 2; finish"], [TRAIN, "rescue n1", "train n1"],
          rows=["no answer from n2 n3|n1 n2 n3|n1|1|0|2"]),
    Story("all processes stop", ["begins 0; hangs"], [TRAIN, RESCUE, TRAIN], environment={"TRIREME_SILENCE": "1"}, says="no heartbeat for 1 s"),
    Story("a clock 90 s late is not compared", ["begins 0; for i in {1..12}; do touch -d \"90 seconds ago\" run/lock; /bin/sleep 0.15; done; finish"],
          [TRAIN], environment={"TRIREME_SILENCE": "2"}),
    Story("the launcher does not end after its run", ["begins 0; outcome done 9; hangs"], [TRAIN], environment={"TRIREME_SILENCE": "1"}),
    Story("a recovered start does not begin", ["begins 0; dies n2", "hangs"], [TRAIN, RESCUE, TRAIN, RESCUE, TRAIN],
          environment={"TRIREME_START_LIMIT": "2"}, says="did not train within 2 s", rows=["n2 Killed|n1 n2 n3|n1 n2 n3|3|0|", None]),
    Story("a node fails during the rescue", ["begins 0; goes n2"], [TRAIN, "rescue n1,n3", "rescue n1", "train n1"], rescues=["touch down/n3; exit 1", SAVED]),
    Story("a rescue that always fails", ["begins 0; copies; saved 2; dies n2"], [TRAIN, *[RESCUE] * 3], 137, rescues=["exit 1"] * 3,
          says="remove run/memory_copies.json first", keeps=True),
    Story("a rescue that always fails, while a node is gone", ["begins 0; copies; goes n2"], [TRAIN, *["rescue n1,n3"] * 3, "requeue"], 75, rescues=["exit 1"] * 3,
          says="copies of the run may remain", keeps=True),
    Story("a rescue that fails where there are no copies", ["begins 0; saved 2; dies n2"], [TRAIN, *[RESCUE] * 3, TRAIN], rescues=["exit 1"] * 3),
    Story("a launcher that loses the code of a failed rescue", ["begins 0; copies; dies n2"], [TRAIN, RESCUE, RESCUE, TRAIN], rescues=["exit 0", SAVED]),
    Story("copies of an earlier job", ["begins 4; finish"], [RESCUE, TRAIN], rescues=[SAVED], before="mkdir run; touch run/memory_copies.json"),
    Story("copies of an earlier job whose rescue fails", [], [RESCUE] * 3, 1, rescues=["exit 1"] * 3, before="mkdir run; touch run/memory_copies.json",
          says="remove run/memory_copies.json first", keeps=True),
    Story("copies of an earlier job, while a node is gone", [], ["rescue n1,n3", "rescue n1,n3", "requeue"], 75, rescues=["exit 1"] * 2,
          before="mkdir run; touch run/memory_copies.json down/n2", keeps=True),
    Story("copies of an earlier job that is overwritten", [], [TRAIN], before="mkdir run; touch run/memory_copies.json", arguments="deck.toml --run-dir run --overwrite"),
    Story("a signal during the rescue of earlier copies", [], [RESCUE, "requeue"], 75, rescues=["kill -TERM $SCRIPT; /bin/sleep 0.2; " + SAVED],
          before="mkdir run; touch run/memory_copies.json", keeps=True),
    Story("a shard is on a node that is gone", ["begins 0; copies; goes n2"], [TRAIN, "rescue n1,n3", "requeue"], 75, rescues=[LOST],
          environment={"TRIREME_RETRIES": "0"}, says="copies of the run may remain", keeps=True),
    Story("a shard is on no node", ["begins 0; copies; dies n2"], [TRAIN, RESCUE], 137, rescues=[LOST], environment={"TRIREME_RETRIES": "0"}),
    Story("processes are killed while they save after a signal", ["trap : TERM; begins 0; copies; kill -TERM $SCRIPT; /bin/sleep 0.3; exit 137"], [TRAIN, RESCUE], 137, rescues=[SAVED]),
    Story("a device fails", ["begins 0; copies; outcome failed 3 \"rank 1: CUDA: waiting failed: an illegal memory access (cudaErrorIllegalAddress)\"; exit 1"],
          [TRAIN, RESCUE, TRAIN], rescues=[SAVED]),
    Story("a device fails each time", ["begins 0; outcome failed 3 \"rank 1: cuBLASLt: cublasLtMatmul failed: x (y)\"; exit 1"] * 3, [TRAIN, *[RESCUE, TRAIN] * 2, RESCUE], 1,
          environment={"TRIREME_RETRIES": "2"}, says="2 recoveries in a row made no progress"),
    Story("an error of one rank's own", ["begins 0; copies; outcome failed 3 \"rank 1: no space left\"; exit 1"], [TRAIN, RESCUE], 1, rescues=[SAVED]),
    Story("a folder of copies with a variable", ["begins 0; copies; dies n2"], [TRAIN, RESCUE, TRAIN], environment={"TRIREME_MEMORY_DIR": "${PWD}/memory"}),
    Story("a node fails at the start", ["touch down/n2; exit 1"], [TRAIN, "rescue n1,n3", "train n1,n3"]),
    Story("a process is killed at the start", ["exit 137"], [TRAIN, RESCUE, TRAIN]),
    Story("a deck that is wrong", ["exit 1"], [TRAIN], 1),
    Story("an error of the run's own", ["begins 0; outcome failed 3 \"no space left\"; exit 1"], [TRAIN], 1, says="code 1: no space left"),
    Story("an error of the run's own, while no node can be asked", ["begins 0; touch down/n1 down/n2 down/n3; outcome failed 3 \"no space left\"; exit 1"], [TRAIN], 1,
          says="code 1: no space left", hosts=False),
    Story("an error that another rank's death caused", ["begins 0; outcome failed 3 \"MPI_Test failed: a process has failed\"; exit 1"], [TRAIN, RESCUE, TRAIN]),
    Story("an error while a node is gone", ["begins 0; touch down/n3; outcome failed 3 \"cannot read\"; exit 1"], [TRAIN, "rescue n1,n2", "train n1,n2"]),
    Story("a stop that nobody asked for, after a death", ["begins 0; outcome stopped 3 \"a signal asked for it\"; dies n2"], [TRAIN, RESCUE, TRAIN]),
    Story("a stop for the time limit, after which a process dies", ["begins 0; outcome stopped 3 \"the time limit is near\"; dies n2"], [TRAIN, "requeue"], 75),
    Story("a stop", ["begins 0; outcome stopped 3 asked; exit 75"], [TRAIN], 75, hosts=False, environment={"TRIREME_REQUEUE": "no"}),
    Story("a node whose process dies twice makes room for a spare",
          ["begins 0; saved 1; dies n2", "begins 1; saved 2; dies n2"], [TRAIN, "rescue n1,n2,n3,n4", TRAIN, "rescue n1,n2,n3,n4", "train n1,n3,n4"], **SPARE),
    Story("without a spare it stays, where the run makes progress", [f"begins 0; saved {i}; dies n2" for i in range(1, 5)], [TRAIN, *[RESCUE, TRAIN] * 4]),
    Story("and does not, where it makes none", [*["begins 0; dies n2"] * 2, "begins 0; saved 1; dies n3"],
          [TRAIN, RESCUE, TRAIN, *[RESCUE, "train n1,n3"] * 2]),
    Story("a failure with progress and one without exclude no node", ["begins 0; saved 1; dies n2", "begins 1; dies n2"], [TRAIN, *[RESCUE, TRAIN] * 2]),
    Story("nor do two without, with progress between them", ["begins 0; dies n2", "begins 0; saved 1; dies n1", "begins 1; dies n2"], [TRAIN, *[RESCUE, TRAIN] * 3]),
    Story("progress allows as many failures again", ["begins 0; dies n1", "begins 0; saved 1; dies n2", "begins 1; dies n3"], [TRAIN, *[RESCUE, TRAIN] * 3],
          environment={"TRIREME_RETRIES": "1"}),
    Story("a node comes back", ["begins 0; saved 1; goes n2", "begins 1; saved 2; rm down/n2; goes n3"],
          [TRAIN, "rescue n1,n3,n4", "train n1,n3,n4", "rescue n1,n2,n4", "train n1,n2,n4"], **SPARE),
    Story("the grid of the deck returns with the node", ["begins 0; saved 1; goes n2", "begins 1; saved 2; rm down/n2; dies n3"],
          [TRAIN, "rescue n1,n3", "train n1,n3", RESCUE, TRAIN], environment={"TRIREME_MACHINE": "m.toml"},
          asked={1: "parallel.pipe=2 zero.stage=1", 2: "-parallel.pipe"}),
    Story("no progress", ["begins 0; dies n1", "begins 0; dies n2", "begins 0; dies n3"], [TRAIN, RESCUE, TRAIN, RESCUE, TRAIN, RESCUE], 137,
          environment={"TRIREME_RETRIES": "2"}, says="2 recoveries in a row made no progress"),
    Story("progress between failures", [f"begins {i}; saved {i + 1}; dies n{i % 3 + 1}" for i in range(8)], [TRAIN, *[RESCUE, TRAIN] * 8], environment={"TRIREME_RETRIES": "1"}),
    Story("no node is left", ["begins 0; goes n1 n2 n3"], [TRAIN, "requeue"], 75, says="no node answers", hosts=False),
    Story("no node is left, for the 13th time", ["begins 0; goes n1 n2 n3"], [TRAIN], 75, says="13 starts in a row", hosts=False,
          environment={"SLURM_RESTART_COUNT": "12"}),
    Story("no node is left, for the 13th time, after progress", ["begins 0; saved 1; goes n1 n2 n3"], [TRAIN, "requeue"], 75, hosts=False,
          environment={"SLURM_RESTART_COUNT": "12"}),
    Story("a node fails, and no recovery is wanted", ["begins 0; goes n2"], [TRAIN, "rescue n1,n3", "requeue"], 75, environment={"TRIREME_RETRIES": "0"}),
    Story("a process dies, and no recovery is wanted", ["begins 0; dies n2"], [TRAIN, RESCUE], 137, environment={"TRIREME_RETRIES": "0"}),
    Story("no grid fits fewer nodes", ["begins 0; goes n2"], [TRAIN, "rescue n1,n3", "requeue"], 75, environment={"CHECK": "exit 1"}, says="no grid fits"),
    Story("a grid fits one node", ["begins 0; goes n2"], [TRAIN, "rescue n1,n3", "train n1"], environment={"CHECK": '[[ $* == *"--ranks 1" ]]'}),
    Story("--overwrite is not repeated after a checkpoint", ["begins 0; dies n2", "begins 0; saved 3; dies n3"], [TRAIN, *[RESCUE, TRAIN] * 2],
          arguments="deck.toml --run-dir run --overwrite", asked={0: "--overwrite", 1: "--overwrite", 2: "--run-dir run --restart latest"}),
    Story("a signal during the rescue", ["begins 0; dies n2"], [TRAIN, RESCUE, "requeue"], 75, rescues=["kill -TERM $SCRIPT; /bin/sleep 0.2; " + NOTHING],
          says="a signal arrived"),
    Story("a signal during a rescue that hangs", ["begins 0; dies n2"], [TRAIN, RESCUE, "requeue"], 75, rescues=["kill -TERM $SCRIPT; exec /bin/sleep 600"],
          environment={"TRIREME_END_LIMIT": "1"}, says="a signal arrived", keeps=True),
    Story("a signal while a grid is chosen", ["begins 0; goes n2"], [TRAIN, "rescue n1,n3", "requeue"], 75, environment={"CHECK": "kill -TERM $SCRIPT; exec /bin/sleep 600"},
          says="a signal arrived"),
    Story("a slow command that kills steps ends before the next start", ["begins 0; hangs"], [TRAIN, "kill 7.0", RESCUE, TRAIN], hosts=False,
          environment={"TRIREME_SILENCE": "1", "STEP": "7.0"}),
    Story("a cancelled job", ["begins 0; dies n2"], [TRAIN], 137, environment={"STATE": "CANCELLED"}, hosts=False),
    Story("a launcher that cannot choose nodes: the same nodes", ["begins 0; dies n2"], [TRAIN, RESCUE, TRAIN], environment=OPAQUE, hosts=False),
    Story("a launcher that cannot choose nodes: fewer nodes", ["begins 0; goes n2"], [TRAIN, "requeue"], 75, environment=OPAQUE, hosts=False,
          says="cannot choose nodes"),
    Story("a launcher that cannot choose nodes: this node alone", ["begins 0; goes n2"], ["train n1,n2", "rescue n1", "train n1"], nodes="n1,n2", hosts=False,
          environment={"TRIREME_LAUNCH": "mpiexec -n 2"}),
    Story("a launcher that cannot choose nodes: this node and a spare", [], ["train n1"], nodes="n1,n2", hosts=False,
          environment={"TRIREME_LAUNCH": "mpiexec -n 2", "TRIREME_SPARES": "1"}),
    Story("a signal to a program without a launcher", ["trap \"outcome stopped 3 asked; exit 75\" TERM; begins 0; kill -TERM $SCRIPT; for i in {1..80}; do /bin/sleep 0.1; done; exit 1"],
          ["train n1"], 75, nodes="n1,n2", hosts=False, environment={"TRIREME_LAUNCH": "mpiexec -n 2", "TRIREME_SPARES": "1", "TRIREME_REQUEUE": "no"}),
    Story("another job took the run over", ["begins 0; echo job 99 restart 0 process 1 on n9 > run/lock; dies n2"], [TRAIN], 137, says="job 99 has taken over run"),
    Story("no folder for temporary files", ["begins 0; echo TEXT; row 4; dies n2", "begins 4; finish"], [TRAIN, RESCUE, TRAIN], rescues=[SAVED],
          environment={"TMPDIR": "/nowhere"}, says="TEXT"),
    Story("more spares than nodes", [], [], 1, environment={"TRIREME_SPARES": "3"}, says="leaves none of 3 nodes"),
    Story("no core beside the script", [], [], 1, says="recover.sh is not in the folder", environment={"COPY": "yes"}, hosts=False),
]


def require(holds, text):
    if not holds:
        raise AssertionError(text)


def run(story, hosts, bin_folder, number):
    with tempfile.TemporaryDirectory(prefix="trireme-recovery-") as name:
        at = Path(name)
        for folder in ("down", "mute"):
            (at / folder).mkdir()
        for k, text in enumerate(story.trains):
            (at / f"train.{k}").write_text(text)
        for k, text in enumerate(story.rescues):
            (at / f"rescue.{k}").write_text(text)
        (at / "calls").touch()
        subprocess.run(["bash", "-c", story.before], cwd=at, check=True)
        variables = {"PATH": f"{bin_folder}:/usr/bin:/bin", "ALL": story.nodes, "STATE": "RUNNING", "CHECK": "exit 0", "STEP": "", "TRIREME_ASK_LIMIT": "2",
                     "TRIREME_MEMORY_DIR": str(at / "memory"), **story.environment}
        memory = at / f"memory/trireme-{os.getuid()}"
        nodes = len(story.nodes.split(","))
        script = SCRIPTS / "train.sbatch"
        if "COPY" in variables:
            script = shutil.copy(script, at / "slurm_script")
        if hosts:
            variables["TRIREME_LAUNCH"] = story.environment.get("TRIREME_LAUNCH", "mpiexec -hosts {hosts} -n {ranks}")
            command = f"{SCRIPTS}/train_hosts.sh {story.nodes} 1"
        else:
            variables |= {"SLURM_JOB_ID": f"{os.getpid()}{number}", "SLURM_JOB_NODELIST": story.nodes, "SLURM_NTASKS": str(nodes), "SLURM_NTASKS_PER_NODE": "1"}
            (memory / variables["SLURM_JOB_ID"]).mkdir(parents=True)
            command = f"bash {script}"
        done = subprocess.run(["bash", "-c", f"export SCRIPT=$$; exec {command} {story.arguments}"], cwd=at, env=variables, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        text, code, calls = done.stdout, story.code, list(story.calls)
        if hosts and "requeue" in calls:
            code = 75
            calls.remove("requeue")
        made = (at / "calls").read_text().splitlines()
        require(made == calls, f"started {made}, not {calls}:\n{text}")
        require(done.returncode == code, f"code {done.returncode}, not {code}:\n{text}")
        require(re.search(story.says, text), f"no '{story.says}':\n{text}")
        table = at / "run/recoveries.csv"
        rows = list(csv.DictReader(table.open())) if table.exists() else []
        for row, expected in zip(rows, story.rows):
            shown = "|".join(row[c] for c in ("died", "nodes_before", "nodes_after", "ranks", "last_step", "step"))
            require(expected is None or shown == expected or hosts and "Killed" in expected and "|".join(expected.split("|")[1:]) in shown,
                    f"recoveries.csv has {shown}, not {expected}")
        require(len(rows) == max(0, made.count("requeue") * -1 + sum(c.startswith("train") for c in made) - 1) or "requeue" in made, f"{len(rows)} rows:\n{table.read_text() if rows else ''}")
        arguments = (at / "arguments").read_text().splitlines() if any(c.startswith("train") for c in made) else []
        numbers = [int(line.split()[0]) for line in arguments]
        require(numbers == sorted(set(numbers)), f"the numbers of the recoveries do not grow: {numbers}")
        for k, asked in story.asked.items():
            without = asked[0] == "-" != asked[1]
            require((asked[without:] in arguments[k]) != without, f"start {k} has {arguments[k]}, not {asked}")
        recovered = any(c.startswith("rescue") for c in made)
        if not hosts and (recovered or story.keeps):
            require((memory / variables["SLURM_JOB_ID"]).exists() == story.keeps, f"the copies in memory are {'gone' if story.keeps else 'still there'}:\n{text}")


CORE = f"set -u\njob=1 own=n1 start=0 run=. per_node=1 signalled=\nnodes=(n1 n2 n3)\nTRIREME_LAUNCH=srun\n. {SCRIPTS}/recover.sh\n"


def bash(text):
    done = subprocess.run(["bash"], input=CORE + text, text=True, capture_output=True, timeout=60)
    require(done.returncode == 0 and not done.stderr, done.stderr)
    return done.stdout.splitlines()


def choices_of_nodes():
    """All states of three nodes of which two are wanted."""
    names = ["n1", "n2", "n3"]
    # In use, answers, failed, failed in vain.
    states = [s for s in itertools.product((0, 1), (0, 1), (0, 1, 2), (0, 2)) if s[3] <= s[2]]
    cases = list(itertools.product(states, repeat=3))
    lines = []
    for case in cases:
        at = dict(zip(names, case))
        lines.append("use=(%s) answers=(%s) failed=(%s) failed_in_vain=(%s); choose_nodes; echo ${use[*]-}" % (
            " ".join(n for n in names if at[n][0]), " ".join(f"[{n}]=yes" for n in names if at[n][1]),
            " ".join(f"[{n}]={at[n][2]}" for n in names), " ".join(f"[{n}]={at[n][3]}" for n in names)))
    for case, chosen in zip(cases, bash("wanted=2\n" + "\n".join(lines)), strict=True):
        at, chosen = dict(zip(names, case)), chosen.split()
        answer = {n for n in names if at[n][1]}
        allowed = {n for n in answer if at[n][3] < 2} or answer
        require(set(chosen) <= allowed, f"{at}: {chosen} has a node that does not answer or is excluded")
        require(len(chosen) == min(2, len(allowed)), f"{at}: {chosen} of {allowed}")
        require(chosen == sorted(chosen), f"{at}: {chosen} is not in the order of the allocation")
        for left, taken in itertools.product(allowed - set(chosen), chosen):
            require(not (at[left][2] < 2 <= at[taken][2]), f"{at}: {taken} failed twice and {left} did not")
            both = at[left][2] < 2 and at[taken][2] < 2
            require(not (both and at[left][0] and not at[taken][0]), f"{at}: {left}, in use, was given up for {taken}")
            require(not (both and not at[left][0] and not at[taken][0] and at[left][2] < at[taken][2]), f"{at}: {taken} failed more often than {left}")


def verdicts():
    """Every end of a start."""
    codes = (0, 1, 2, 9, 10, 15, 75, 124, 126, 127, 129, 130, 134, 137, 138, 139, 143)
    reasons = ("", "no space left", "MPI_Wait failed: x", "all-gather is not finished after 30 s (x): another rank has died", "a signal asked for it",
               "the time limit is near", "rank 2: CUDA: copying failed: x (y)", "CUDA: copying failed: x (y)",
               "rank 2: CUDA: cudaMalloc failed: out of memory (cudaErrorMemoryAllocation)", "rank 2: cuDNN 91900: running failed: x")
    deaths = ("", "n2 Killed", "n1 Exited with exit code 75")
    cases = list(itertools.product(("", "yes"), ("", "no heartbeat"), ("", "running", "done", "stopped", "failed"), codes, reasons, deaths))
    text = "".join("verdict '%s' '%s' '%s' %d '%s' '%s'\n" % c for c in cases)
    for case, verdict in zip(cases, bash(text), strict=True):
        signalled, hung, status, code, reason, death = case
        killed = "Killed" in death
        by_others = "MPI" in reason or "not finished" in reason
        device = reason.startswith("rank 2") and "memory" not in reason
        if signalled or status == "done":
            expected = "over"
        elif status == "stopped":
            expected = "died" if killed and "signal" in reason else "over"
        elif hung or status == "running":
            expected = "died"
        elif status == "failed":
            expected = "died" if by_others or device else "ask"
        elif code in (0, 10, 15, 75, 129, 130, 138, 143):
            expected = "over"
        else:
            expected = "died" if code == 9 or code > 128 else "ask"
        require(verdict == expected, f"{case}: {verdict}, not {expected}")


def deaths():
    """What launchers write."""
    texts = {
        "srun: error: n2: task 1: Killed\nsrun: error: n1: task 0: Exited with exit code 1": "n2 Killed",
        "slurmstepd: x\nsrun: error: Node failure on n3\nsrun: error: n1: task 0: Killed": "n3 node failure",
        "srun: error: n[1-2]: tasks 0-1: Killed": "",
        "srun: error: n3: task 2: Aborted\nsrun: error: n2: task 1: Killed": "n2 Killed",
        "srun: error: n3: task 2: Aborted\nsrun: error: n2: task 1: Aborted": "n3 Aborted",
        "srun: error: n1: tasks 0-7: Segmentation fault (core dumped)": "n1 Segmentation fault (core dumped)",
        "=   PID 4711 RUNNING AT n2\n=   EXIT CODE: 9": "a process on n2 ended",
        "mpiexec noticed that process rank 1 with PID 0 on node n2 exited on signal 9 (Killed).": "a process on n2 exited on signal 9 (Killed).",
        "an error": "",
    }
    for text, expected in texts.items():
        found = "".join(bash(f"first_death <(grep -E \"$death_lines\" <<< '{text}')\n"))
        require(found == expected, f"{text}: {found}, not {expected}")
        node = "".join(bash(f"node_of_death '{expected}'"))
        require(node == "".join(re.findall(r"\bn\d\b", expected)), f"{expected}: on {node}")
    silent = "  rank 1 (process 659 on vm) does not answer: it has died"
    for text, expected in ((f"{silent}\nsrun: error: n4: task 2: Killed", "rank 1 does not answer"),
                           (f"{silent}\n{silent.replace('1', '2')}\nsrun: error: n4: task 2: Killed", "n4 Killed")):
        found = "".join(bash(f"first_death <(grep -E \"$death_lines\" <<< '{text}')\n"))
        require(found == expected, f"{text}: {found}, not {expected}")


def looks():
    """A run is looked at before and after the script was suspended."""
    looks = [(0, ""), (5, ""), (11, ""), (100, ""), (109, ""), (112, "no heartbeat for 12 s")]  # second, what is wrong then
    text = "TRIREME_SILENCE=12 deaths=/nowhere trains=yes seen='' seen_at=0 looked_at=0 died='' died_at='' hung='' killed=x\nuptime() { echo $time; }\n"
    text += "".join(f"time={second}; watch; echo \"{second} $hung\"\n" for second, _ in looks)
    require(bash(text) == [f"{second} {wrong}" for second, wrong in looks], str(bash(text)))


def variables():
    """The folder of copies contains variables."""
    texts = {"/dev/shm": "/dev/shm", "/a/${ONE}/b${TWO_2}": "/a/1/b2 2", "/${ONE}$${TWO_2}$x": "/1${TWO_2}$x", "/${NONE}": "fails", "/${}": "fails", "/${ONE": "fails", "/${EMPTY}x": "/x",
             "/$(touch x)`touch x`": "/$(touch x)`touch x`"}
    found = bash("ONE=1 TWO_2='2 2' EMPTY=\n" + "".join(f"expand '{t}' || echo fails\n" for t in texts))
    require(found == list(texts.values()), str(found))


def sweeping():
    """Old processes are ended, and launchers, later and other processes are not, where the job's id is no plain word."""
    job = "12[34].*"
    with tempfile.TemporaryDirectory(prefix="trireme-sweep-") as name:
        processes = {}
        for what, mark, expected in (("trireme", f"{job}/1.1", False), ("python", f"{job}/0.7", False), ("prterun", f"{job}/1.0", True), ("later", f"{job}/1.2", True),
                                     ("other", "123x/1.0", True), ("mentions", f"x TRIREME_LAUNCHED={job}/1.0", True)):
            program = shutil.copy("/bin/sleep", f"{name}/{what}")
            processes[what] = subprocess.Popen([program, "30"], env={"TRIREME_LAUNCHED": mark}), expected
        # A process whose environment vanishes one second before it ends.
        code = ("import ctypes, os, signal, time\nlibc = ctypes.CDLL(None)\nlibc.getenv.restype = ctypes.c_void_p\n"
                "signal.signal(signal.SIGUSR1, lambda *_: (ctypes.memset(libc.getenv(b'TRIREME_LAUNCHED') - 17, 0, 17), time.sleep(1.2), os._exit(0)))\n"
                "print(flush=True)\ntime.sleep(30)")
        slow = subprocess.Popen([sys.executable, "-c", code], env={"TRIREME_LAUNCHED": f"{job}/1.0"}, stdout=subprocess.PIPE)
        slow.stdout.readline()
        kill = f"kill() {{ if [ $2 = {slow.pid} ]; then builtin kill -USR1 $2; else builtin kill \"$@\"; fi; }}; export -f kill\n"
        ended = bash(f"{kill}bash -c \"$sweep\" node '{job}/1.1' m && echo ended\n")
        state = Path(f"/proc/{slow.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        lives = {what: process.poll() is None for what, (process, _) in processes.items()}
        for process in [slow] + [p for p, _ in processes.values()]:
            process.kill()
            process.wait()
        require(ended == ["ended"] and state == "Z", f"{ended}: the process that is about to end is in state {state}")
        require(lives == {what: expected for what, (_, expected) in processes.items()}, str(lives))


def deadlines():
    """Commands that do not end, not even when they are killed."""
    lines = bash("say() { echo \"$*\"; }; on_nodes() { :; }; end_processes() { :; }\nTRIREME_END_LIMIT=1 TRIREME_ASK_LIMIT=1 mark=1/0.0 memory=/nowhere\n"
                 "(bash -c \"trap '' TERM; exec /bin/sleep 60\" > /dev/null & within 1 $!; echo $?) 2> /dev/null\n"
                 "bash -c 'exit 7' & within 5 $!; echo $?\n"
                 "heed 1 0 bash -c \"trap '' TERM; echo one; while :; do /bin/sleep 0.1; done\"; echo $? $words\n"
                 "heed 5 0 bash -c 'printf one; sleep 0.7; echo two; exit 3'; echo $? $words\n"
                 "stuck=; runs() { [ $1 = 99999999 ]; }; end_launcher 99999999; echo stuck $stuck\n")
    require(lines == ["124", "7", "137 one", "3 onetwo", "the launcher, process 99999999, does not end although it was killed. The script does not wait for it any more",
                      "stuck yes"], str(lines))


def defaults():
    """docs/jobs.md has the defaults of the scripts."""
    given = {}
    for script in ("recover.sh", "train.sbatch", "train_hosts.sh"):
        for name, value in re.findall(r": \"\$\{(TRIREME\w*):=([^\"]*)\}\"|(?!x)x", (SCRIPTS / script).read_text()):
            given.setdefault(name, value.replace("\\}", "}"))
        given |= {n: v for n, v in re.findall(r"\"\$\{(TRIREME\w*):=(\d+)\}\"", (SCRIPTS / script).read_text())}
    table = dict(re.findall(r"^\| `(TRIREME\w*)` \| ([^|]*) \|", (SCRIPTS.parent / "docs/jobs.md").read_text(), re.M))
    require({"TRIREME_RETRIES", "TRIREME_SPARES", "TRIREME_SILENCE", "TRIREME_START_LIMIT", "TRIREME_LAUNCH", "TRIREME_SSH"} <= set(given), str(given))
    for name, value in given.items():
        require(table.get(name, "").strip("`") == value, f"docs/jobs.md has '{table.get(name)}' as the default of {name}, and the script '{value}'")


def main():
    full = "--full" in sys.argv
    pattern = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    wrong = []
    with tempfile.TemporaryDirectory(prefix="trireme-recovery-") as name:
        for command, text in STAND_INS.items():
            file = Path(name) / command
            file.write_text(f"#!/bin/bash\n{text}\n")
            file.chmod(0o755)
        jobs = {f.__doc__: f for f in (choices_of_nodes, verdicts, deaths, looks, variables, sweeping, deadlines, defaults)}
        for i, story in enumerate(STORIES):
            for hosts in (False,) if not story.hosts else (False, True) if full or pattern else (i % 2 == 1,):
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
