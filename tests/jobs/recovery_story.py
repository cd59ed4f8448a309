"""Runs a story of recovery (recovery_stories.py): stand-ins play Slurm, MPI, ssh and the program."""
import csv
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "jobscripts"

# A node in down/ refuses every command; one in mute/ does not answer. Each time that a node is asked for its processes, it first takes a
# line of slow/NODE, if there is one, and runs it. $ON is the list of nodes on which a command runs.
STAND_INS = {
    "trireme": r"""
outcome() { # STATUS STEP [REASON]
  printf '{\n "status": "%s",\n "step": %s,\n "exit_reason": "%s",\n "job": "%s",\n "restart": %s,\n "recovery": %s\n}\n' \
    "$1" "$2" "${3-}" "${SLURM_JOB_ID:-$TRIREME_JOB}" "${SLURM_RESTART_COUNT:-0}" "$TRIREME_RECOVERY" > run/outcome.json.new
  mv run/outcome.json.new run/outcome.json
}
begins() { rm -rf memory/*/*/f00d; outcome running "$1"; touch run/lock; echo step,loss > run/history.csv; row "$1"; /bin/sleep "${2-0}"; } # STEP [SECONDS]
row() { echo "$1,0.5" >> run/history.csv; }
saved() { mkdir -p "run/checkpoints/step-0000000$1"; touch "run/checkpoints/step-0000000$1/manifest.json"; }
dies() { echo "srun: error: $1: task 1: Killed" >&2; exit 137; }                     # a process on a node that is well
goes() { for n; do touch "down/$n"; done; echo "srun: error: Node failure on $1" >&2; exit 137; } # nodes fail
copies() { # [STEP]: the run keeps memory copies, of which that of the step is complete
  printf '{\n "run": "f00d",\n "start": "s%s"\n}\n' "$TRIREME_RECOVERY" > run/memory_copies.json
  mkdir -p "$held/f00d/s$TRIREME_RECOVERY/node-0/step-0000000${1-4}"
  touch "$held/f00d/s$TRIREME_RECOVERY/node-0/step-0000000${1-4}/copy.json"
}
finish() { rm -rf run/memory_copies.json "$held"/*; outcome done 9; row 9; exit 0; }
hangs() { exec /bin/sleep 600; }
asks() { mkdir -p slow; printf '%s\n' "${@:2}" > "slow/$1"; } # NODE LINE...: what the node does when it is asked the next times
soon() { env -u TRIREME_LAUNCHED bash -c "until [ -e asked ]; do /bin/sleep 0.2; done; $1" > /dev/null 2>&1 & } # COMMAND, while the script recovers
held=memory/trireme-$(id -u)/${SLURM_JOB_ID:-$TRIREME_JOB}
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
  if [ -s slow/$n ] && [[ " $* " != *" rescue "* && " $* " != *" train "* ]]; then
    eval "$(flock slow/$n sed -i -e '1{w /dev/stdout' -e 'd}' slow/$n)"
  fi
  [ ! -e mute/$n ] || { echo $n >> asked; exec /bin/sleep 60; }
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
  "show job") [ ! -e cancelled ] || STATE=CANCELLED; echo "   JobState=$STATE" ;;
  requeue*)
    echo requeue >> calls
    eval "$(cat "requeue.$(grep -c ^requeue calls)" 2> /dev/null)" ;;
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
    scripts: str = "both"      # or "slurm" for train.sbatch alone, or "hosts" for train_hosts.sh alone
    listed: str = ""           # the hosts as train_hosts.sh gets them, where they are not `nodes`
    limit: int = 200          # seconds in which the script must end
    before: str = ""           # what an earlier job left in the run directory
    keeps: bool = False        # the copies in memory stay


def write_stand_ins(folder):
    for command, text in STAND_INS.items():
        file = Path(folder) / command
        file.write_text(f"#!/bin/bash\n{text}\n")
        file.chmod(0o755)


def require(holds, text):
    if not holds:
        raise AssertionError(text)


def require_no_processes(at, text):
    """No process of a story outlives its script, except on nodes that cannot be reached. Children that wait for half a second may."""
    end = time.monotonic() + 3
    while living := [p for p in Path("/proc").glob("[0-9]*") if of_story(p, at)]:
        names = [(p / "cmdline").read_text().replace("\0", " ") for p in living if of_story(p, at)]
        require(time.monotonic() < end, f"processes live on: {names}\n{text}")
        time.sleep(0.1)


def of_story(process, at):
    try:
        return f"STORY={at}\0".encode() in (process / "environ").read_bytes()
    except OSError:
        return False


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
        variables = {"PATH": f"{bin_folder}:/usr/bin:/bin", "ALL": story.nodes, "STATE": "RUNNING", "CHECK": "exit 0", "STEP": "", "TRIREME_ASK_LIMIT": "5", "STORY": name,
                     "TRIREME_MEMORY_DIR": str(at / "memory"), **story.environment}
        memory = at / f"memory/trireme-{os.getuid()}"
        nodes = len(story.nodes.split(","))
        script = SCRIPTS / "train.sbatch"
        if "COPY" in variables:
            script = shutil.copy(script, at / "slurm_script")
        if hosts:
            variables["TRIREME_LAUNCH"] = story.environment.get("TRIREME_LAUNCH", "mpiexec -hosts {hosts} -n {ranks}")
            command = f"{SCRIPTS}/train_hosts.sh {story.listed or story.nodes} 1"
        else:
            variables |= {"SLURM_JOB_ID": f"{os.getpid()}{number}", "SLURM_JOB_NODELIST": story.nodes, "SLURM_NTASKS": str(nodes), "SLURM_NTASKS_PER_NODE": "1"}
            command = f"bash {script}"
        done = subprocess.run(["bash", "-c", f"export SCRIPT=$$; exec {command} {story.arguments}"], cwd=at, env=variables, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=story.limit)
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
        left = sorted(str(f.relative_to(memory)) for f in memory.glob("*"))
        require(bool(left) == story.keeps, f"in memory are {left}:\n{text}")
        require_no_processes(at, text)
