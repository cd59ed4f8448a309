"""Signals, at every kind of moment, and two jobs on one run directory."""
from rows import ANY, FAIL, Case, Run

STOPPED = (75,)
LAUNCHED = (0, 75)  # after a signal, mpiexec of MPICH may lose the code (its pull request 5930)
SLOW = "write */run/history.csv 1+ sleep:30"
FROM_ROW_5 = "write */run/history.csv 5+ sleep:200"  # a signal from outside may take as long to come
HEARD = "; write */run/history.csv 1+ sleep:40"  # steps are shorter than a signal takes on a busy machine
ASLEEP = "outcome=$(cat run/outcome.json); [[ $outcome == *'\"stopped\"'* ]]"
BEFORE_MPI = "open /sys/devices/system/cpu/* 1"  # by the MPI library, which looks for cores
EARLY = ("before training began; nothing was changed",)


def stopped(name, rule, config="one", start="fresh", more="", codes=STOPPED, then=ASLEEP, **rest):
    return Case(name, [Run(more, faults=rule + HEARD, codes=codes, then=then)], config=config, start=start, **rest)


# (moment, call and which)
MOMENTS = [
    ("at the lock", "open *run/lock 1"),
    ("before the first outcome", "rename *outcome.json 1"),
    ("at the first sample", "read *text.tokens 6"),
    ("at row 1", "write */run/history.csv 1"),
    ("before a save", "write */run/history.csv 4"),
    ("in the shard of a save", "write *00008.partial/rank-00000.h5 20"),
    ("in the publishing of a save", "rename *checkpoints/step-00000008 1"),
    ("at the evaluation", "write */run/evaluation.csv 1"),
    ("at row 11", "write */run/history.csv 11"),
]
LATE = [  # the run may as well end
    ("at row 12", "write */run/history.csv 12"),
    ("in the last save", "write *00012.partial/rank-00000.h5 10"),
    ("in the last evaluation", "write */run/evaluation.csv 2"),
    ("at the last outcome", "rename *outcome.json 5"),
]


def beside(name, command, expect, config="at-once"):
    """A second command while a job waits in step 9: what it says is in the file `second`."""
    shell = (f"{{ {command}; }} > second 2>&1 || echo code $? >> second; touch second.done; "
             f"grep -Eq '{expect}' second || {{ cat second >&2; false; }}")
    return Case(name, [Run(faults="write */run/history.csv 9 until:second.done", signals=(("row 8", "shell", shell),))], config=config, fast=name.endswith(", restarted"))


def in_between(name, command, config):
    """The same while checkpoints come and go."""
    shell = f"for i in 1 2 3; do {command}; done"
    return Case(name, [Run(faults=SLOW, signals=(("file run/checkpoints/step-00000004", "shell", shell),))], config=config)


SLOW_STEP = "$TRIREME train deck.toml model.width=256 train.batch=60000 train.microbatch=1 --run-dir run"
ONE_LONG_MICROBATCH = "$TRIREME train deck.toml model.width=256 train.batch=4000 train.microbatch=4000 --run-dir run"
TRAINS = "until [ -e run/outcome.json ]; do sleep 0.01; done"
TRAIN = "$TRIREME train deck.toml checkpoint.async=false --run-dir run"
DONE = "grep -q '\"done\"' run/outcome.json"
OTHER = "another process is training|already contains a run"
CASES = [
    *(stopped(f"{s} {name}", f"{rule} {s}", fast=(s, name) == ("SIGTERM", "in the shard of a save"))
      for s in ("SIGTERM", "SIGINT") for name, rule in MOMENTS),
    *(stopped(f"{s} {name}", f"{rule} {s}") for s in ("SIGHUP",) for name, rule in MOMENTS[2::2]),
    *(stopped(f"SIGTERM {name}", f"{rule} SIGTERM", codes=(0, 75), then="") for name, rule in LATE),
    # Before training begins nothing is changed.
    *(Case(f"{config}: {s} before {name}", [Run(faults=f"{rule} {s}", codes=STOPPED, says=EARLY, then="[ ! -e run ]")], config=config, fast=fast)
      for config, s, name, rule, fast in (("one", "SIGTERM", "MPI starts", BEFORE_MPI, True), ("one", "SIGHUP", "MPI starts", BEFORE_MPI, False),
                                          ("data2", "SIGTERM @1", "MPI starts", BEFORE_MPI, False), ("one", "SIGINT", "the deck is read", "open *deck.toml 1", False))),
    Case("SIGUSR1 before MPI starts", [Run(faults=f"{BEFORE_MPI} SIGUSR1")]),
    *(Case(f"restart, SIGTERM {name}", [Run("--restart latest", faults=f"{rule} SIGTERM", codes=STOPPED, says=EARLY)], start="half", untouched="run")
      for name, rule in (("at the manifest", "read *manifest.json 1"), ("at the weights", "read *rank-00000.h5 9"))),
    Case("restart, SIGTERM while another host's lock is watched",
         [Run(command="TRIREME_FAULTS_HOST=b exec $TRIREME train deck.toml --run-dir run --restart latest", faults="?open nothing 1 EIO",
              signals=(("says waiting for a heartbeat", "SIGTERM", "all"),), codes=STOPPED, says=EARLY)], start="half", untouched="run"),
    stopped("restart, SIGTERM at its first row", "write */run/history.csv 1 SIGTERM", start="half", more="--restart latest"),
    *(stopped(f"SIGTERM {name}, nothing else saved", f"{rule} SIGTERM", more="checkpoint.every_steps=0") for name, rule in MOMENTS[3:5]),
    *(Case(f"SIGUSR1 {name}", [Run(faults=f"{rule} SIGUSR1")]) for name, rule in MOMENTS + LATE),
    *(Case(f"SIGUSR1 at row {n} makes a checkpoint", fast=n == 2, runs=[Run("checkpoint.every_steps=0", faults=f"write */run/history.csv {n} SIGUSR1" + HEARD,
                                                        then="[ $(ls run/checkpoints | wc -l) = 2 ] && $TRIREME inspect run --verify")]) for n in (2, 7)),
    # An evaluation that a stop comes before, or breaks off, is only postponed.
    stopped("SIGTERM before an evaluation", "write */run/history.csv 6 SIGTERM", fast=True),
    Case("the last evaluation is made however often it is broken off",
         [Run(faults="read *text.tokens 300 SIGTERM; read *text.tokens 300+ sleep:5", codes=STOPPED, then=ASLEEP + " && [ $(wc -l < run/evaluation.csv) = 2 ]"),
          Run("--restart latest", faults="read *text.tokens 90 SIGKILL", codes=(137,), then="grep -q '\"running\"' run/outcome.json && [ $(wc -l < run/evaluation.csv) = 2 ]")],
         config="evaluated-whole", fast=True),
    # Steps of minutes. The first signal waits for the end of the step, if there is time, as do those of a batch system; whoever
    # types ^C again does not.
    Case("a step that a signal cannot wait for is dropped",
         [Run(command=f"{SLOW_STEP} run.signal_grace=15 & p=$!; {TRAINS}; SECONDS=0; kill -TERM $p; wait $p; code=$?; [ $SECONDS -lt 10 ] && exit $code", codes=STOPPED,
              says=("SIGTERM arrived: the run completes step 1, or drops it if that would take longer than run.signal_grace = 15 s", "step 1 is dropped"), then=f"{ASLEEP} && [ $(wc -l < run/history.csv) = 1 ] && $TRIREME inspect run --verify")], finish="", fast=True),
    Case("a step of one micro-batch is completed, and the log says so at once",
         [Run(command=f"{ONE_LONG_MICROBATCH} run.signal_grace=0.001 & p=$!; {TRAINS}; kill -TERM $p; until grep -q 'SIGTERM arrived' run/log; do sleep 0.01; done; "
                      "[ $(wc -l < run/history.csv) = 1 ] || exit 99; kill -TERM $p; wait $p",
              codes=STOPPED, once=("SIGTERM arrived: the run completes step 1, saves a checkpoint and ends",), silent=("is dropped",), then="[ $(wc -l < run/history.csv) = 2 ]")],
         finish="", fast=True),
    Case("SIGUSR1 is logged at once", [Run("checkpoint.every_steps=0", faults=SLOW, signals=(("row 5", "SIGUSR1", "all"),), once=(r"SIGUSR1 arrived: the run (completes step \d+, )?saves a checkpoint and continues",))], config="data2"),
    Case("a second SIGINT, later, ends the process",
         [Run(command=f"{SLOW_STEP} run.signal_grace=1e6 & p=$!; {TRAINS}; kill -TERM $p; sleep 3.1; kill -TERM $p; kill -HUP $p; sleep 0.2; kill -INT $p; sleep 2.3; "
                      "kill -0 $p || exit 99; kill -INT $p; wait $p", codes=(130,), then="grep -q '\"running\"' run/outcome.json && [ $(wc -l < run/history.csv) = 1 ]")],
         finish="", fast=True),
    *(Case(f"{config}: a step that is too long for a signal is dropped",
           [Run("run.signal_grace=0.001 run.log_every=0", signals=(("row 5", "SIGTERM", "all"),), faults="read *text.tokens 200+ sleep:1", codes=(75,), once=(r"step \d+ is dropped",), then=ASLEEP)],
           config=config) for config in ("freeze-long-pipe2", "freeze-long-data2")),
    # Several of them.
    Case("SIGTERM twice at once", [Run(faults="write */run/history.csv 5 SIGTERM; write */run/history.csv 5 SIGTERM" + HEARD, codes=STOPPED)], fast=True),
    *(Case(f"{a} and {b} {pause} s later", [Run(faults=SLOW, signals=(("row 3", a, "all"), (f"{pause} s", b, "all")), codes=STOPPED)])
      for a, b, pause in (("SIGTERM", "SIGTERM", 0.05), ("SIGINT", "SIGTERM", 0.05), ("SIGTERM", "SIGUSR1", 0.01), ("SIGUSR1", "SIGTERM", 0.01),
                          ("SIGTERM", "SIGHUP", 0.05))),
    Case("SIGTERM until the process is gone",
         [Run(command="for i in 1 2 3; do $TRIREME train deck.toml train.steps=1000000 checkpoint.every_steps=0 run.log_every=0 --overwrite --run-dir run & p=$!; "
                      "rm -f run/history.csv; until [ $(cat run/history.csv 2>/dev/null | wc -l) -gt 4 ]; do sleep 0.01; done; "
                      "kill -TERM $p; while kill -TERM $p 2>/dev/null; do sleep 0.001; done; wait $p; [ $? = 75 ] || exit 1; done")], finish=""),
    Case("SIGTERM while the last save is slow, again", [Run(faults="write */run/history.csv 5 SIGTERM; write *00005.partial/rank-00000.h5 3+ sleep:5; "
                                                            "sync *00005.partial/rank-00000.h5 1 SIGTERM" + HEARD, codes=STOPPED)]),
    Case("SIGTERM, and SIGINT while the last save is slow", [Run(faults="write */run/history.csv 5 SIGTERM; write *00005.partial/rank-00000.h5 3+ sleep:5; "
                                                                 "sync *00005.partial/rank-00000.h5 1 SIGINT" + HEARD, codes=STOPPED)]),
    Case("SIGTERM, and SIGKILL in the save it asked for", [Run(faults="write */run/history.csv 5 SIGTERM; write *00005.partial/rank-00000.h5 20 torn" + HEARD,
                                                              codes=(137,))], fast=True),
    Case("SIGUSR1 at every row", [Run(faults="write */run/history.csv 1+ SIGUSR1")]),
    Case("a stop at every start", [Run("--restart latest --or-start", faults="write */run/history.csv 2 SIGTERM" + HEARD, codes=STOPPED)] * 4),
    # Others.
    *(Case(f"{s} at row 5", [Run(faults=f"write */run/history.csv 5 {s}", codes=FAIL)]) for s in ("SIGQUIT", "SIGABRT", "SIGUSR2")),
    Case("SIGSTOP and SIGCONT", [Run(faults=SLOW, signals=(("row 3", "SIGSTOP", "all"), ("0.2 s", "SIGCONT", "all")))]),
    Case("SIGSTOP and SIGCONT of one rank", [Run(faults=SLOW, signals=(("row 3", "SIGSTOP", "rank 1"), ("0.3 s", "SIGCONT", "rank 1")))], config="pipe2"),
    Case("data2: a rank that stops for good", [Run("run.hang_timeout=2", faults="read *text.tokens 9 SIGSTOP @1", codes=FAIL, limit=40,
                                                       then="[ $(grep -c 'is not finished after 2 s' run/log) = 1 ]")], config="data2"),
    Case("pipe2-data2: a rank that stops for good, and rank 0 is slow to write that down",
         [Run("run.hang_timeout=2", faults="read *text.tokens 9 SIGSTOP @3; rename *outcome.json 2+ sleep:3000 @0", codes=FAIL,
              says=("rank 0: .*\n(.*\n)*.*rank 3 .process .* does not answer",), limit=40)], config="pipe2-data2"),
    Case("data2: rank 0 stops for good", [Run("run.hang_timeout=2", faults="read *text.tokens 9 SIGSTOP @0", codes=FAIL, says=("rank 0 .process .* does not answer",),
                                             limit=40)], config="data2"),
    # What is slow on rank 0 for longer than run.hang_timeout, but not for good.
    *(Case(f"data2: a slow {name} of rank 0", [Run("run.hang_timeout=2", faults=f"{rule} sleep:5000 @0", limit=60)], config="data2")
      for name, rule in (("first outcome", "rename *outcome.json* 1"), ("last outcome", "rename *outcome.json* 5"), ("history", "sync *history.csv 1"),
                         ("shard", "write *00004.partial/rank-00000.h5 3"))),
    # A reader that goes away, a terminal that closes.
    Case("stderr ends: | head", [Run(command="{ $TRIREME train deck.toml --run-dir run --progress yes 2>&1; echo $? > code; } | grep -m 1 info; exit $(cat code)",
                                     faults=SLOW, codes=STOPPED, then=ASLEEP)], fast=True),
    Case("stderr is closed", [Run(command="exec $TRIREME train deck.toml --run-dir run 2>&-")]),
    Case("stderr is full", [Run(command="exec $TRIREME train deck.toml --run-dir run --progress yes 2>/dev/full")]),
    Case("stdin, stdout and stderr are closed", [Run(command="exec $TRIREME train deck.toml --run-dir run <&- >&- 2>&-")]),
    # Ranks.
    *(stopped(f"{config}: {s} to rank {rank} at {name}", f"{rule} {s} @{rank}", config, fast=(config, rank, s) == ("pipe2", 1, "SIGTERM") and "shard" not in name)
      for config, rank, s in (("data2", 0, "SIGTERM"), ("data2", 1, "SIGINT"), ("pipe2", 1, "SIGTERM"), ("seq2", 1, "SIGTERM"), ("pipe2-data2", 3, "SIGTERM"),
                              ("mixture-expert2", 1, "SIGTERM"))
      for name, rule in (("a sample", "read *text.tokens 12"), (f"its shard", f"write *00008.partial/rank-0000{rank}.h5 5"))),
    *(Case(f"{config}: {s} to all ranks at row 5", [Run(faults=FROM_ROW_5, signals=(("row 5", s, "all"),), codes=(0, 75), then=ASLEEP)], config=config)
      for config, s in (("data2", "SIGTERM"), ("pipe2-data2", "SIGTERM"), ("pipe2", "SIGINT"))),
    Case("seq2: SIGHUP to all ranks at row 5", [Run(faults=FROM_ROW_5, signals=(("row 5", "SIGHUP", "all"),), codes=(0, 75), then=ASLEEP)], config="seq2"),
    *(Case(f"{config}: {s} to mpiexec at row 5", [Run(faults=FROM_ROW_5, signals=(("row 5", s, "launcher"),), codes=codes, once=once)], config=config, fast=(config, s) == ("data2", "SIGTERM"))
      for config, s, codes, once in (("data2", "SIGTERM", LAUNCHED, ("To resume: mpiexec -n 2 trireme train .*--restart latest",)),
                                     ("pipe2-data2", "SIGTERM", LAUNCHED, ("To resume: mpiexec -n 4 trireme train .*--restart latest",)),
                                     ("pipe2", "SIGINT", ANY, ()), ("data2", "SIGHUP", ANY, ()))),
    *(Case(f"{config}: SIGUSR1 to {whom}", [Run("checkpoint.every_steps=0", faults=SLOW, signals=(("row 5", "SIGUSR1", whom),),
                                               then="[ $(ls run/checkpoints | wc -l) -ge 2 ]")], config=config)
      for config, whom in (("data2", "rank 1"), ("pipe2", "rank 0"), ("pipe2-data2", "all"), ("seq2", "launcher"))),
    # Two jobs on one run directory.
    *(beside(f"a second job, {name}", f"timeout 30 $TRIREME train deck.toml --run-dir run {more}", OTHER)
      for name, more in (("new", ""), ("restarted", "--restart latest"), ("that overwrites", "--overwrite"), ("of another deck", "--restart latest train.batch=2"))),
    beside("a second job of two ranks", "timeout 30 $MPIEXEC -n 2 $TRIREME train deck.toml --run-dir run --restart latest", OTHER),
    beside("a second job beside one of two ranks", "timeout 30 $TRIREME train deck.toml --run-dir run --restart latest", OTHER, config="data2-at-once"),
    beside("evaluate beside a job", "until [ -e run/checkpoints/step-00000008 ]; do sleep 0.01; done; $TRIREME evaluate run", "step 8: loss"),
    *(in_between(f"{command.split()[0]} beside a job that prunes", f"$TRIREME {command}", config) for config in ("pruned",)
      for command in ("evaluate run", "inspect run --verify", "generate run --prompt the --tokens 4")),
    beside("a copy that goes on elsewhere", "$TRIREME train deck.toml --run-dir copy --restart run/checkpoints/step-00000004", "done: 12 steps"),
    Case("a second job as soon as the first is killed",
         [Run(command="(exec $TRIREME train deck.toml --run-dir run) & p=$!; until [ -e run/checkpoints/step-00000004 ]; do sleep 0.01; done; kill -9 $p; "
                      "exec $TRIREME train deck.toml --run-dir run --restart latest", faults="write */run/history.csv 4+ sleep:20")]),
    Case("two jobs start at once", [Run(command="$TRIREME train deck.toml --run-dir run --restart latest --or-start & $TRIREME train deck.toml --run-dir run --restart latest --or-start; a=$?; "
                                                "wait $!; b=$?; [ $((a * b)) = 0 ]", faults=SLOW, codes=(0,), says=("another process is training|began a run in|the run is finished",))]),
    Case("two jobs start at once on two hosts, where writes are slow",
         [Run(command=f"TRIREME_FAULTS_HOST=a {TRAIN} & TRIREME_FAULTS_HOST=b {TRAIN}; a=$?; wait $!; b=$?; [ $((a + b)) = 1 ]",
              faults=SLOW + "; write */run/lock* 1+ sleep:200; lock * 1+ ENOSYS", codes=(0,), says=(OTHER + "|began a run in",))]),
    # One that goes on while another took its place.
    Case("the lock is removed while it runs, and a second job starts",
         [Run(command=f"(exec {TRAIN}) & p=$!; until [ -e run/checkpoints/step-00000004 ]; do sleep 0.01; done; rm run/lock; "
                      f"{TRAIN} --restart latest; a=$?; wait $p; [ $a$? = 01 ] && {DONE}",
              faults="write */run/history.csv 5+ sleep:300", says=("run/lock (was taken over by|is gone)",), silent=("--restart latest resumes",))], fast=True),
    Case("the lock is removed while it runs", [Run(faults=SLOW, signals=(("row 5", "shell", "rm run/lock"),), codes=FAIL, says=("run/lock is gone",),
                                                   then="grep -q '\"status\": \"failed\"' run/outcome.json && grep -q 'exit_reason.*lock is gone' run/outcome.json")], fast=True),
    Case("the lock is removed while a step is long", [Run(faults="read *text.tokens 30 sleep:15000", signals=(("row 1", "shell", "rm run/lock"),), codes=FAIL, says=("run/lock is gone",),
                                                          then="grep -q '\"status\": \"failed\"' run/outcome.json")]),
    *(Case(f"requeued on another host while the old process {name}",
           [Run(command=f"export SLURM_JOB_ID=7; (exec {launch} {TRAIN}) & p=$!; until [ -e run/checkpoints/step-00000004 ]; do sleep 0.01; done; "
                        f"SLURM_RESTART_COUNT=1 TRIREME_FAULTS_HOST=b {TRAIN} --restart latest; a=$?; wait $p; b=$?; [ $a = 0 ] && [ $b != 0 ] && {DONE}",
                faults=f"write */run/history.csv {pause}", says=("run/lock was taken over by job 7 restart 1 ",), silent=("--restart latest resumes",),
                then="[ $(wc -l < run/history.csv) = 13 ] && $TRIREME inspect run --verify")], finish="" if launch else "bits")
      for name, launch, pause in (("saves", "", "5+ sleep:300"), ("computes", "", "5 sleep:15000"), ("of two ranks saves", "$MPIEXEC -n 2", "5+ sleep:300"),
                                  ("of two ranks computes", "$MPIEXEC -n 2", "5 sleep:15000"))),
    Case("a second job where the file system has no locks",
         [Run(command="(exec $TRIREME train deck.toml --run-dir run) & until [ -e run/checkpoints/step-00000004 ]; do sleep 0.01; done; "
                      "timeout 30 $TRIREME train deck.toml --run-dir run --restart latest; a=$?; wait; [ $a = 1 ]",
              faults="write */run/history.csv 4+ sleep:500; lock * 1+ ENOSYS", codes=(0,), says=("another process is training",))]),
    # The run directory while it runs.
    Case("history.csv is removed while it runs", [Run(faults=SLOW, signals=(("row 6", "shell", "rm run/history.csv"),), says=("history.csv was removed or replaced",))], fast=True),
    Case("history.csv is replaced while it runs", [Run(faults=SLOW, signals=(("row 6", "shell", "echo mine > t; mv t run/history.csv"),), says=("history.csv was removed or replaced",),
                                                      then="[ $(cat run/history.csv.damaged) = mine ]")]),
    Case("routing.csv is removed while it runs", [Run(faults=SLOW, signals=(("row 6", "shell", "rm run/routing.csv"),), says=("routing.csv was removed or replaced",))], config="sigmoid"),
    *(Case(f"the run directory is {what} while it runs", [Run(faults=SLOW, signals=(("row 6", "shell", how),), codes=FAIL, says=("is gone: (the run directory was removed or renamed|this process ends)",), then=back)], finish=finish)
      for what, how, back, finish in (("renamed", "mv run away", "[ ! -e run ]; mv away run", "bits"), ("removed", "until rm -rf run; do true; done", "[ ! -e run/checkpoints ]; rm -rf run", "bits"))),
    Case("an empty trap: SIGTERM is ignored from the start", [Run(command="trap '' TERM; exec $TRIREME train deck.toml --run-dir run",
                                                                 faults="write */run/history.csv 5 SIGTERM" + HEARD, codes=(0, 75))]),
    Case("SIGTERM is blocked from the start", [Run(command="exec python3 -c 'import os, signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1]); "
                                                           "os.execv(os.environ[\"TRIREME\"], [\"trireme\", \"train\", \"deck.toml\", \"--run-dir\", \"run\"])'",
                                                   faults="write */run/history.csv 5 SIGTERM" + HEARD, codes=STOPPED)]),
]
