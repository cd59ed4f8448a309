"""What jobscripts/ decide, with stand-ins for Slurm and the program.

A row says what the program does in one start of a job, in bash, and what the script has to do then. How all this goes together
on a real Slurm is tests/jobs/slurm_test.py's.
"""
import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from rows import Case

SCRIPTS = Path(__file__).resolve().parents[2] / "jobscripts"

STAND_INS = {
    # Its own part is $RUN, that of a question $ASKED. `outcome STATUS STEP REASON` writes what the program would.
    "trireme": """
outcome() {
  mkdir -p "$WHERE"
  printf '{\\n "status": "%s",\\n "step": %s,\\n "exit_reason": "%s",\\n "job": "%s",\\n "restart": %s,\\n "recovery": %s\\n}\\n' \\
    "$1" "$2" "$3" "${JOB:-123}" "${SLURM_RESTART_COUNT:-0}" "${TRIREME_RECOVERY:-0}" > "$WHERE/outcome.json"
}
if [[ " $* " == *' --print-run-dir '* ]]; then
  eval "${ASKED:-:}"
  echo "$WHERE"
elif [ "$1" = rescue ]; then
  echo "rescue $2" >> calls
else
  echo "trireme $*" >> calls
  echo $$ > pid
  eval "$RUN"
fi""",
    "srun": """
while [[ $1 == --* ]]; do shift; done
[ "$1" = bash ] || eval "${LAUNCH:-:}"
"$@" """,
    # Behind a text a time of Slurm's clock, of which the node's is AHEAD.
    "slurm_date": 'date -u "+$1%FT%T" -d "@$(($(date +%s) - AHEAD + $2))"',
    "scontrol": """
case $1 in
  show)
    if [ "$2" = config ]; then
      slurm_date "Configuration data as of " 0
      exit
    fi
    [ -z "$STATE" ] || printf '   JobState=%s\\n   Command=%s/train_gpu.sbatch DECK\\n' $STATE "$SCRIPTS" ;;
  requeue)
    echo "requeue $2" >> calls
    exit "$REFUSED"
    ;;
esac""",
    "squeue": """
if [ -n "${SLURM_TIME_FORMAT-}" ]; then
  echo tomorrow
elif [[ $* == *%S* ]]; then
  slurm_date "" -$BEGAN
elif [[ $ENDS =~ ^-?[0-9]+$ ]]; then
  slurm_date "" $ENDS
else
  echo "$ENDS"
fi""",
    "scancel": """
echo "scancel $*" >> calls
kill -TERM $(cat pid)""",
    "sleep": '[ "$1" != 60 ] && exec /bin/sleep 0.05; exit 143',  # as Slurm ends what it requeues
    "sbatch": """
echo "sbatch $* requeue=${TRIREME_REQUEUE-}" >> calls
grep -c ^sbatch calls""",
}


@dataclass
class Row:
    name: str
    run: str                     # what the program does
    code: int                    # of the script
    requeued: bool = False
    says: str = ""               # a regular expression for its output
    before: dict = field(default_factory=dict)  # outcome.json of an earlier start
    arguments: str = "deck.toml"
    asked: list = field(default_factory=list)   # what the program's arguments must contain; with a "-" before it must not
    environment: dict = field(default_factory=dict)
    where: str = "runs/deck"
    script: str = "train.sbatch"
    around: str = ""             # bash before the script
    left: str | None = None      # the count of short starts in the run directory; empty: it is not there


def earlier(status, step, restart, job="123"):
    return {"status": status, "step": step, "exit_reason": "", "job": job, "restart": restart}


def start(n, **more):
    return {"SLURM_RESTART_COUNT": str(n), **more}


SOON = {"ENDS": "120"}
AHEAD = {"ENDS": "7200", "AHEAD": "10800"}
LIMIT = "outcome stopped 6 'the time limit is near'; exit 75"
ELEVEN = "not requeued: 11 starts in a row"
STOPPED = "outcome stopped 7 'a signal asked for it'; exit 75"
ROWS = [
    Row("done", "outcome done 9 'all steps are done'", 0),
    Row("done, and the launcher lost the code", "outcome done 9 ''; exit 15", 0),
    Row("finished before", "exit 0", 0, before=earlier("done", 9, 0, "99")),
    Row("stopped", STOPPED, 75, True, "stopped at step 7: a signal asked for it; requeueing"),
    Row("stopped, and the launcher lost the code", "outcome stopped 7 ''; exit 143", 75, True),
    Row("stopped by a file", "outcome stopped 7 'the file stop_now asked for it'; exit 75", 75, says="stopped at step 7"),
    Row("stopped where no job is requeued", STOPPED, 75, environment={"TRIREME_REQUEUE": "no"}),
    Row("cancelled", STOPPED, 75, says="not requeued: the job was cancelled", environment={"STATE": "CANCELLED"}),
    Row("Slurm does not answer", STOPPED, 75, True, environment={"STATE": ""}),
    Row("--no-requeue", STOPPED, 75, True, "stopped at step 7: .*; not requeued: Slurm refused, .*--no-requeue", environment={"REFUSED": "1"}),
    Row("failed", "outcome failed 7 'no space left'; exit 1", 1, says="code 1: no space left"),
    Row("failed, with code 0", "outcome failed 7 ''; exit 0", 1),
    Row("killed", "outcome running 5 ''; exit 137", 137, says="a process was killed"),
    # An outcome of another start says nothing.
    Row("wrong deck", "exit 1", 1, says="code 1 before it trained", before=earlier("stopped", 7, 0, "99")),
    Row("wrong deck in a later start", "exit 1", 1, before=earlier("stopped", 7, 0), environment=start(1)),
    Row("another job's outcome, touched meanwhile", "printf '%s' \"$(cat runs/deck/outcome.json)\" > runs/deck/outcome.json; exit 1", 1,
        before=earlier("stopped", 7, 0, "99")),
    Row("a later start stops", STOPPED, 75, True, before=earlier("stopped", 5, 0), environment=start(1)),
    # Stopped before it trained.
    *(Row(f"stopped before it trained, code {c}", f"exit {c}", 75, True, "before it trained; requeueing") for c in (75, 143, 138, 129, 130, 15, 10)),
    Row("stopped while it starts again", "exit 143", 75, True, before=earlier("stopped", 7, 0), environment=start(1)),
    Row("the tenth start in a row", "exit 143", 75, True, before=earlier("running", 7, 4), environment=start(14)),
    Row("the eleventh", "exit 143", 75, says="not requeued: 11 starts in a row", before=earlier("running", 7, 4), environment=start(15)),
    Row("the eleventh of the job's first starts", "exit 143", 75, says="not requeued: 11 starts in a row", before=earlier("running", 7, 4, "99"), environment=start(10)),
    Row("the eleventh trains", STOPPED, 75, True, before=earlier("running", 5, 4), environment=start(15)),
    Row("stopped before it trained, where no job is requeued", "exit 75", 75, says="(?m)before it trained$", environment={"TRIREME_REQUEUE": "no"}),
    Row("a signal to the script before the program is asked", "exit 1", 75, True, "before it trained",
        environment={"ASKED": "kill -TERM $SCRIPT; exit 143"}, asked=["-trireme"]),
    Row("a signal to the script before srun", "exit 1", 75, True, environment={"ASKED": "kill -HUP $SCRIPT"}, asked=["-trireme"]),
    Row("a signal to the script alone", "trap 'outcome stopped 3 sig; exit 75' TERM; kill -TERM $SCRIPT; for i in {1..400}; do /bin/sleep 0.02; done",
        75, True, "stopped at step 3", asked=["scancel --signal=TERM 123"]),
    Row("SIGUSR1 to the script", "kill -USR1 $SCRIPT; /bin/sleep 0.1; outcome done 9 ''", 0, asked=["-scancel"]),
    Row("a signal while srun starts", "", 75, True, environment={"LAUNCH": "kill -TERM $SCRIPT; /bin/sleep 0.1; exit 1"}),
    # Time.
    Row("no step in the time", "outcome stopped 5 'the time limit is near'; exit 75", 75, says="completed no step", before=earlier("stopped", 5, 0),
        environment=start(1, **SOON)),
    Row("a step in the time", "outcome stopped 6 'the time limit is near'; exit 75", 75, True, before=earlier("stopped", 5, 0), environment=start(1, **SOON)),
    Row("no time to train", "exit 143", 75, says="completed no step", before=earlier("stopped", 5, 0), environment=start(1, **SOON)),
    Row("a stop where it began, with time left", "outcome stopped 5 ''; exit 75", 75, True, before=earlier("stopped", 5, 0), environment=start(1)),
    Row("the time limit", "outcome done 9 ''", 0, environment=SOON, asked=["--time-limit 1"]),
    Row("no word of a time limit", "outcome done 9 ''", 0, environment={"ENDS": ""}, asked=["-time-limit"]),
    Row("an end that Slurm does not know", "outcome done 9 ''", 0, environment={"ENDS": "N/A"}, asked=["-time-limit"]),
    Row("an end that Slurm gave the job", "outcome done 9 ''", 0, environment={"ENDS": "N/A", "SLURM_JOB_END_TIME": "9999999999"}, asked=["--time-limit 8"]),
    Row("a time limit that is over", "outcome done 9 ''", 0, environment={"ENDS": "-900"}, asked=["--time-limit 1"]),
    Row("a node's clock ahead of Slurm's", "outcome done 9 ''", 0, environment=AHEAD, asked=["--time-limit 71"]),
    Row("a node's clock behind Slurm's", "outcome done 9 ''", 0, environment={"ENDS": "7200", "AHEAD": "-10800"}, asked=["--time-limit 71"]),
    Row("no step in much time, with a clock ahead", "outcome stopped 5 ''; exit 75", 75, True, before=earlier("stopped", 5, 0), environment=start(1, **AHEAD)),
    Row("times in another form and zone", "outcome done 9 ''", 0, environment={"SLURM_TIME_FORMAT": "%H:%M", "TZ": "Asia/Tokyo"}, asked=["--time-limit 71"]),
    # Few steps, and most of the time left.
    *(Row(f"a few steps: {name}", run, 75, not says, says, before=earlier("stopped", 5, 4), environment=start(n, **more),
          around=f"echo {said} > runs/deck/short_starts", left=left)
      for name, run, said, n, left, says, more in (
          ("the first", LIMIT, "", 5, "123 5 1", "", {}), ("the second", LIMIT, "123 4 1", 5, "123 5 2", "", {}),
          ("the tenth", LIMIT, "123 4 9", 5, "123 5 10", "", {}), ("the eleventh", LIMIT, "123 4 10", 5, None, ELEVEN, {}),
          ("with a start before that did not train", LIMIT, "123 4 9", 6, None, ELEVEN, {}), ("and then none", "exit 143", "123 4 10", 5, None, ELEVEN, {}),
          ("after one that trained", LIMIT, "123 3 10", 5, "123 5 1", "", {}), ("of another job", LIMIT, "99 4 10", 5, "123 5 1", "", {}),
          ("damaged", LIMIT, "123 4 x", 5, "123 5 1", "", {}), ("all of the time", LIMIT, "123 4 10", 5, "", "", {"ENDS": "600", "BEGAN": "-700"}),
          ("a signal", STOPPED, "123 4 10", 5, "", "", {}), ("many", LIMIT.replace("6", "15"), "123 4 10", 5, "", "", {}))),
    Row("a few steps: a limit of its own", LIMIT, 75, True, before=earlier("stopped", 5, 4), environment=start(5), arguments="deck.toml --time-limit 60",
        around="echo 123 4 10 > runs/deck/short_starts", left=""),
    Row("a time limit of its own", "outcome done 9 ''", 0, arguments="deck.toml --time-limit 60", environment=SOON, asked=["-time-limit 1"]),
    # Arguments.
    Row("nothing said", "outcome done 9 ''", 0, asked=["train deck.toml --restart latest --or-start"]),
    Row("nothing said, again", "outcome done 9 ''", 0, asked=["--restart latest --or-start"], environment=start(2)),
    *(Row(f"{a}, start {n}", "outcome done 9 ''", 0, arguments=f"deck.toml {a}", asked=[a, "-latest"], environment=start(n))
      for a in ("--restart old", "--restart=old", "--overwrite") for n in (0, 1)),
    Row("an override with a path", "outcome done 9 ''; exit 7", 0, arguments="deck.toml run.machine=machines/x.toml"),
    Row("a deck of another name, a folder with a space", "outcome stopped 9 ''; exit 7", 75, True, arguments="decks/mine", where="somewhere else"),
    Row("a wrong argument", "exit 7", 1, says="code 1 before it trained", environment={"ASKED": "exit 1"}, asked=["-trireme"]),
    Row("a task of an array", "JOB=120_3; outcome stopped 3 sig; exit 75", 75, environment={"SLURM_ARRAY_JOB_ID": "120", "SLURM_ARRAY_TASK_ID": "3"},
        requeued=True, asked=["requeue 120_3"]),
    Row("--export=NONE", "[ \"$SLURM_EXPORT_ENV\" = ALL ] && outcome done 9 ''", 0, environment={"SLURM_EXPORT_ENV": "NONE"}),
    # What cannot be loaded.
    Row("no program", "", 127, says="no-such-trireme is a program on", environment={"TRIREME": "no-such-trireme"}),
    Row("too few addresses", "", 127, says=r"\(ulimit -v: 9000000 KiB\)", environment={"ASKED": "exit 127"}, around="ulimit -v 9000000"),
    # The other scripts.
    Row("a GPU for each rank", "outcome done 9 ''", 0, script="train_gpu.sbatch", asked=["train deck.toml run.backend=cuda --restart latest --or-start"]),
    Row("a GPU for each rank, stopped", STOPPED, 75, True, script="train_gpu.sbatch"),
    Row("a chain", "", 0, script="chain.sh", arguments="2 --nodes=2 train.sbatch deck.toml",
        asked=["sbatch --parsable --nodes=2 train.sbatch deck.toml requeue=no", "sbatch --parsable --dependency=afterany:1 --nodes=2"]),
    *(Row(f"a chain, {a}", "", 1, script="chain.sh", arguments=f"2 train.sbatch deck.toml {a}", says="would repeat ", asked=["-sbatch"])
      for a in ("--overwrite", "--restart old")),
    Row("a chain of nothing", "", 1, script="chain.sh", arguments="x train.sbatch", says="usage"),
]


def carry_out(at, row):
    (at / "bin").mkdir()
    for name, text in STAND_INS.items():
        at.write_script(f"bin/{name}", text)
    if row.before:
        (at / row.where).mkdir(parents=True)
        at.write(f"{row.where}/outcome.json", json.dumps(row.before, indent=1) + "\n")
    variables = {"SLURM_JOB_ID": "123", "RUN": row.run, "WHERE": row.where, "STATE": "RUNNING", "REFUSED": "0", "ENDS": "7200", "AHEAD": "0", "BEGAN": "60",
                 "SCRIPTS": str(SCRIPTS), **row.environment}
    given = "".join(f"export {name}={shlex.quote(value)}; " for name, value in variables.items())
    # $SCRIPT for what runs below it.
    at(f"unset TRIREME; PATH=$PWD/bin:$PATH; {given} export SCRIPT=$$; {row.around or ':'}; exec bash {SCRIPTS}/{row.script} {row.arguments}", codes=(row.code,),
       says=(row.says,), silent=("not requeued",) if row.requeued and "REFUSED" not in row.environment else ())
    calls = at.read("calls") if (at / "calls").exists() else ""
    assert ("requeue 1" in calls) == row.requeued
    counted = at / row.where / "short_starts"
    assert row.left is None or (counted.read_text().strip() if counted.exists() else "") == row.left
    for text in row.asked:
        if text.startswith("-") and not text.startswith("--"):
            assert text[1:] not in calls
        else:
            assert text in calls


CASES = [Case(row.name, [], finish="", fast=True, story=lambda at, row=row: carry_out(at, row)) for row in ROWS]
