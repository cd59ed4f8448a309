"""Calls of the system that fail: a full disk, a quota, a broken one, one that comes and goes, short writes.

The run says which file and why, ends with 1 (or goes on where it may), leaves older checkpoints as they are and no debris,
and goes on from them when the disk is in order again.
"""
from rows import FAIL, Case, Run

ERRORS = {"ENOSPC": "No space left on device", "EIO": "Input/output error", "EDQUOT": "Disk quota exceeded",
          "EROFS": "Read-only file system", "ESTALE": "Stale file handle", "EACCES": "Permission denied",
          "EMFILE": "Too many open files", "EFBIG": "File too large"}
FAILED = (1,)
# Time for a save behind training to fail before the last step.
SLOW_END = "; write */run/history.csv 9+ sleep:150"
OUTCOME = "grep -q '\"failed\"' run/outcome.json"
NO_DEBRIS = "! ls -A run/checkpoints | grep '^\\.'"
INTACT = "$TRIREME inspect run --verify >/dev/null"


def failing(name, rule, file, config="one", start="fresh", more="", says=(), then="", **rest):
    """The fault's error ends the run with its text and the name of the file."""
    error = next(e for e in ERRORS if f" {e}" in rule.partition(";")[0])
    advice = ("free some space there" if "start" in name else "free some space there.*--restart latest resumes from",) if error in ("ENOSPC", "EDQUOT") else ()
    return Case(name, [Run(more, faults=rule, codes=FAILED, says=(ERRORS[error], file, *advice, *says), silent=("--restart latest.*--restart latest",),
                           then=then)], config=config, start=start, **rest)


def harmless(name, rule, config="one", start="fresh", more="", says=(), **rest):
    return Case(name, [Run(more, faults=rule, says=says)], config=config, start=start, **rest)


# (place, call and file of a save of step 8 with nth, what the message names)
SAVE = [
    ("mkdir of its folder", "mkdir *step-00000008.partial 1", "step-00000008.partial"),
    ("open of the shard", "open *00008.partial/rank-00000.h5 1", "rank-00000.h5"),
    ("first write of the shard", "write *00008.partial/rank-00000.h5 1", "rank-00000.h5"),
    ("a late write of the shard", "write *00008.partial/rank-00000.h5 25", "rank-00000.h5"),
    ("fsync of the shard", "sync *00008.partial/rank-00000.h5 1", "rank-00000.h5"),
    ("open of the master", "open *00008.partial/master.h5 1", "master.h5"),
    ("write of the master", "write *00008.partial/master.h5 2", "master.h5"),
    ("fsync of the master", "sync *00008.partial/master.h5 1", "master.h5"),
    ("write of the manifest", "write *00008.partial/manifest.json 1", "manifest.json"),
    ("fsync of the manifest", "sync *00008.partial/manifest.json 1", "manifest.json"),
    ("fsync of its folder", "sync *step-00000008.partial 1", "step-00000008.partial"),
    ("rename", "rename *checkpoints/step-00000008 1", "step-00000008"),
]
SAVE_ERRORS = ["ENOSPC", "EIO", "EDQUOT"]

# (place, rule, what the message names) of a start in a new directory
START = [
    ("mkdir of the run directory", "mkdir *run 1", "run directory run"),
    ("probe", "open *.probe-* 1", "run directory run"),
    ("fsync of the probe", "sync *.probe-* 1", "run directory run"),
    ("open of the lock", "open *run/lock 1", "run/lock"),
    ("write of the lock", "write *run/lock.* 1", "run/lock"),
    ("link of the lock", "link *run/lock 1", "run/lock"),
    ("folder of checkpoints", "mkdir *run/checkpoints 1", "run/checkpoints"),
    ("log", "open *run/log 1+", "run/log"),
    ("write of the deck", "write *effective.toml.new 1", "effective.toml"),
    ("rename of the deck", "rename *effective.toml 1", "effective.toml"),
    ("write of the history's head", "write *history.csv.new 1", "history.csv"),
    ("rename of the evaluations", "rename *evaluation.csv 1", "evaluation.csv"),
    ("fsync of the first outcome", "sync *outcome.json.new 1", "outcome.json"),
]

# While it runs: rows, samples
RUNNING = [
    ("row 5", "write */run/history.csv 5", "history.csv"),
    ("row 12", "write */run/history.csv 12", "history.csv"),
    ("the first evaluation's row", "write */run/evaluation.csv 1", "evaluation.csv"),
    ("the last evaluation's row", "write */run/evaluation.csv 2", "evaluation.csv"),
    ("fsync of the history", "sync */run/history.csv 2", "history.csv"),
    ("the last outcome", "write *outcome.json.new 5", "outcome.json"),
]

# When a run goes on: its newest checkpoint is that of step 8.
PASSED_OVER = [
    ("open of the manifest", "open *00008/manifest.json 1"),
    ("read of the manifest", "read *00008/manifest.json 1"),
    ("open of the shard", "open *00008/rank-00000.h5 1"),
    ("read of the shard", "read *00008/rank-00000.h5 3"),
    ("read of the master", "read *00008/master.h5 1"),
]
RESTART = [
    ("all manifests", "read *manifest.json 1+", "all checkpoints in .* are damaged or cannot be read .2 found"),
    ("all shards", "open *rank-00000.h5 1+", "all checkpoints in .* are damaged or cannot be read .2 found"),
    ("the folder of checkpoints", "open *run/checkpoints 1+", "checkpoints"),
    ("lock", "open *run/lock 1", "run/lock"),
    ("history", "read */run/history.csv 1", "history.csv"),
    ("evaluations", "read */run/evaluation.csv 1", "evaluation.csv"),
]

OTHER = [  # commands beside train: (name, command, rule, file, error)
    ("tokenize: open", "tokenize text.txt --overwrite --output text.tokens", "open *text.tokens* 1 EACCES", "text.tokens"),
    ("tokenize: full disk", "tokenize text.txt --overwrite --output text.tokens", "write *text.tokens* 1 ENOSPC", "text.tokens"),
    ("tokenize: late", "tokenize text.txt --overwrite --output text.tokens", "sync *text.tokens* 1 EIO", "text.tokens"),
    ("tokenize: rename", "tokenize text.txt --overwrite --output text.tokens", "rename *text.tokens 1 EDQUOT", "text.tokens"),
    ("tokenize: input", "tokenize text.txt --overwrite --output text.tokens", "read *text.txt 1 EIO", "text.txt"),
    ("tokenize: input opens not", "tokenize text.txt --overwrite --output text.tokens", "open *text.txt 1 EACCES", "text.txt"),
    ("evaluate: shard", "evaluate run", "read *00012/rank-00000.h5 2 EIO", "rank-00000.h5"),
    ("evaluate: tokens", "evaluate run --data text.tokens", "read *text.tokens 3 ESTALE", "text.tokens"),
    ("generate: shard", "generate run --prompt the --tokens 5", "open *rank-00000.h5 1+ EACCES", "rank-00000.h5"),
    ("export: full disk", "export run hf", "write *model.safetensors* 1 ENOSPC", "model.safetensors"),
    ("average: full disk", "average run --output mean", "write *mean*.h5 2 ENOSPC", "mean"),
    ("average: late", "average run --output mean", "sync *mean* 1 EIO", "mean"),
    ("average: shard", "average run --output mean", "read *00012/rank-00000.h5 2 EIO", "rank-00000.h5"),
    ("inspect: manifest", "inspect run/checkpoints/step-00000012", "read *manifest.json 1 EIO", "manifest.json"),
    ("inspect --verify: shard", "inspect run --verify", "read *00012/rank-00000.h5 4 EIO", "rank-00000.h5"),
    ("plan: deck", "plan deck.toml", "read *deck.toml 1 EIO", "deck.toml"),
    ("check: tokens", "check --verify deck.toml", "read *text.tokens 3 EIO", "text.tokens"),
]

CASES = [
    # A head that alone is trained, by a decay that takes it out of f32 in step 7: no checkpoint is made of it, whatever the deck says of
    # failing writes, and none is pruned for it.
    *(Case(f"a state that is not finite, {name}",
           [Run("model.tied=false optimizer.lr=1e3 optimizer.weight_decay=1e3 schedule.shape=constant checkpoint.every_steps=1 schedule.warmup_steps=0 "
                "checkpoint.keep_last=2 checkpoint.on_error=continue " + more, codes=FAILED,
                says=(r"after step 7 is not saved: rank \d: element \d+ of weights/head.weight is infinite or NaN",
                      "--restart latest resumes from .*run/checkpoints/step-00000006"),
                then="[ \"$(echo $(ls -A run/checkpoints))\" = 'step-00000005 step-00000006' ]")],
           setup="for p in 'embedding*' 'positions*' 'blocks*' 'final*'; do printf '\\n[[freeze]]\\npattern = \"%s\"\\n' \"$p\" >> deck.toml; done",
           config=config, finish="")
      for name, config, more in (("behind training", "data2", "zero.stage=3"), ("at once", "one", "checkpoint.async=false"))),
    *(failing(f"{error} at once, {name}", f"{rule} {error}", file, "at-once", then=f"{OUTCOME}; {NO_DEBRIS}; {INTACT}",
              fast=(error, name) == ("ENOSPC", "a late write of the shard"))
      for error in SAVE_ERRORS for name, rule, file in SAVE),
    *(failing(f"{error} behind training, {name}", f"{rule} {error}{SLOW_END}", file, then=f"{OUTCOME}; {NO_DEBRIS}; {INTACT}",
              fast=(error, name) == ("EIO", "fsync of the master"))
      for error in SAVE_ERRORS[:2] for name, rule, file in SAVE),
    *(harmless(f"passed over: {name}", f"{rule} EDQUOT", more="checkpoint.on_error=continue", says=(ERRORS["EDQUOT"], "the checkpoint was not saved"))
      for name, rule, _ in SAVE[1:9:2]),
    *(failing(f"the last checkpoint, {name}", rule.replace("00008", "00012") + " ENOSPC", file,
              more="checkpoint.on_error=continue", then=f"{OUTCOME}; {NO_DEBRIS}; {INTACT}", fast=i == 1) for i, (name, rule, file) in enumerate(SAVE[2:11:3])),
    *(failing(f"start, {error}: {name}", f"{rule} {error}", file, fast=(error, name) == ("EROFS", "probe"))
      for i, (name, rule, file) in enumerate(START) for error in (("EROFS", "ENOSPC")[i % 2], "EACCES")),
    *(failing(f"running, {error}: {name}", f"{rule} {error}", file, then=OUTCOME if "outcome" not in name else "",
              fast=(error, name) == ("ENOSPC", "row 5")) for name, rule, file in RUNNING for error in ("ENOSPC", "EIO")),
    *(failing(f"row {n} of the digests, {error}", f"write */run/digests.csv {n} {error}", "digests.csv", "digests",
              then=f"{OUTCOME}; {INTACT}") for n in (5, 12) for error in ("ENOSPC", "EIO")),
    *(failing(f"routing.csv, {error}: {name}", f"{rule} {error}", "routing.csv", "sigmoid", then=f"{OUTCOME}; {INTACT}", fast=error == "ENOSPC")
      for name, rule, error in (("row 5", "write */run/routing.csv 5", "ENOSPC"), ("fsync", "sync */run/routing.csv 2", "EIO"))),
    failing("restart, EIO: routing.csv", "read */run/routing.csv 1 EIO", "routing.csv", "mixture", "half", "--restart latest", untouched="run/checkpoints"),
    *(failing(f"samples, {error}", f"read *text.tokens {n} {error}", "text.tokens", then=f"{OUTCOME}; {INTACT}")
      for n, error in ((20, "EIO"), (30, "ESTALE"))),
    *(Case(f"restart passes over, {error}: {name}", [Run("--restart latest", faults=f"{rule} {error}", says=("skipped: ",))],
           start="half", fast=(error, name) == ("ESTALE", "read of the shard"))
      for name, rule in PASSED_OVER for error in ("EIO", "ESTALE", "EACCES")[:2 if "read" in name else 3]),
    *(failing(f"restart, {error}: {name}", f"{rule} {error}", file, start="half", more="--restart latest", untouched="run",
              fast=(error, name) == ("ESTALE", "all manifests"))
      for name, rule, file in RESTART for error in ("EIO", "ESTALE")),
    *(Case(name, [Run(command=f"exec $TRIREME {command}", faults=rule, codes=FAILED,
                      says=(ERRORS[rule.split()[-1]], file), silent=("--restart",))], start="done", untouched=".", finish="")
      for name, command, rule, file in OTHER),
    # A rank among others.
    *(failing(f"{config}, rank {rank}, {error}: {name}", f"{rule.replace('00000.h5', f'0000{rank}.h5')} {error} @{rank}{SLOW_END}",
              f"0000{rank}.h5", config, then=f"{OUTCOME}; {NO_DEBRIS}; {INTACT}", fast=(config, rank, i) == ("pipe2", 1, 2))
      for config, rank, error in (("pipe2", 1, "ENOSPC"), ("data2-zero3", 0, "EIO"), ("data2-at-once", 1, "EDQUOT"), ("pipe2-data2", 2, "ENOSPC"), ("mixture-expert2", 1, "EIO"))
      for i, (name, rule, _) in enumerate(SAVE[1:5])),
    *(failing(f"{config}, rank {rank}: samples", f"read *text.tokens 12 EIO @{rank}", "text.tokens", config, then=OUTCOME)
      for config, rank in (("data2", 1), ("pipe2", 0))),
    *(failing(f"data2, rank 1 restarts: {name}", f"{rule} EIO @1", "", "data2", "half", "--restart latest", untouched="run/checkpoints")
      for name, rule in (("all manifests", "read *manifest.json 1+"), ("all shards", "read *.h5 1+"))),
    failing("data2, rank 1 restarts: manifest, once", "read *00008/manifest.json 1 EIO @1", "", "data2", "half", "--restart latest", untouched="run/checkpoints"),
    Case("data2, rank 1 passes over: shard", [Run("--restart latest", faults="read *00008/rank-00001.h5 1 EIO @1", says=("skipped: ",))],
         config="data2", start="half"),
    # What does not matter.
    *(harmless(f"short: {file}", f"write *{file} 1+ short") for file in
      ("rank-00000.h5", "master.h5", "manifest.json", "history.csv", "outcome.json.new")),
    harmless("short: all writes of tables and checkpoints", "write */run/*.* 1+ short", fast=True),
    harmless("short: the lock", "write */run/lock.* 1+ short"),
    harmless("interrupted: writes", "write */run/* 40 EINTR"),
    harmless("interrupted: reads", "read *text.tokens 9 EINTR"),
    harmless("interrupted: restart", "read *.h5 5 EINTR", start="half", more="--restart latest"),
    harmless("short reads", "read */run/* 1+ short", start="half", more="--restart latest"),
    harmless("a file system that cannot sync a directory", "sync *checkpoints 1+ EINVAL"),
    harmless("a file system without locks", "lock * 1+ ENOSYS"),
    harmless("passed over: a look at the lock", "open */lock 9 EIO", more="checkpoint.on_error=continue", says=("step 8: the checkpoint was not saved",)),
    harmless("a file system without hard links", "link * 1+ EPERM"),
    harmless("a file system whose locks fail", "lock * 1+ ENOLCK"),
    harmless("a restart on a file system whose locks fail", "lock * 1+ ENOLCK", start="half", more="--restart latest"),
    *(harmless(f"pruning: {name}", rule, "pruned", says=("the checkpoint is saved, but", ERRORS[rule.split()[-1]]))
      for name, rule in (("rename", "rename *.removed 1 EIO"), ("remove", "remove *rank-00000.h5 1 EACCES"))),
    *(harmless(f"outcome of a checkpoint: {e}", f"write *outcome.json.new 3 {e}", says=("the checkpoint is saved, but", ERRORS[e]))
      for e in ("ENOSPC", "EIO")),
    *(harmless(f"log: {e}", f"fwrite *run/log 3+ {e}", says=("some lines could not be written to the log file", ERRORS[e])) for e in ("ENOSPC", "EIO")),
    *(Case(f"{config}: a row that fails beside a save, which is finished",
           [Run(faults="write *00004.partial/rank-00000.h5 5 sleep:1500; write */run/history.csv 7 ENOSPC", codes=FAIL, says=("history.csv", ERRORS["ENOSPC"]),
                then=f"{OUTCOME}; [ -d run/checkpoints/step-00000004 ] && {INTACT}")], config=config) for config in ("one", "data2")),
    Case("no thread for the writer", [Run(faults="thread *00004.partial 1 EAGAIN", codes=FAILED, says=("cannot start a thread",), then=OUTCOME)]),
    Case("no thread for the writer, passed over", [Run("checkpoint.on_error=continue", faults="thread *00004.partial 1 EAGAIN", says=("cannot start a thread", "step 4: the checkpoint was not saved"))]),
    *(Case(f"no thread at the start, {n}", [Run(faults=f"thread * {n} EAGAIN", codes=FAILED, says=("cannot start a thread",))]) for n in (2, 3, 4, 5)),
    # Disks that stay full.
    Case("full from step 5 on, restarted while it is still full",
         [Run(faults="write *.h5 100+ ENOSPC", codes=FAILED, says=(ERRORS["ENOSPC"],)),
          Run("--restart latest", faults="write *.h5 1+ ENOSPC", codes=FAILED, says=(ERRORS["ENOSPC"],)),
          Run("--restart latest", faults="open *run/* 1+ EROFS", codes=FAILED, says=(ERRORS["EROFS"],))]),
    Case("everything below the run directory is full", [Run(faults="write */run/* 30+ ENOSPC", codes=FAILED, says=(ERRORS["ENOSPC"],))],
         fast=True),
    Case("the file size is limited", [Run(command="ulimit -S -f 16000; exec $TRIREME train deck.toml model.layers=1 model.width=384 train.steps=4 --run-dir run",  # MPI's shared memory needs 4 MB, a checkpoint 22
                                               codes=FAILED, says=("rank-00000.h5: File too large",), then=f"{OUTCOME}; {NO_DEBRIS}")], finish=""),
    Case("a save that one rank cannot make is said once", [Run("checkpoint.on_error=continue", faults="write *00004.partial/rank-00001.h5 5 ENOSPC @1", once=("step 4: the checkpoint was not saved",))],
         config="data2"),
]
