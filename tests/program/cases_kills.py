"""kill -9 of one rank or of all, at every kind of moment: a job that died goes on from its last whole checkpoint."""
from rows import ANY, FAIL, Case, Run, story

KILLED = (137,)  # without a launcher
SLOW = "write */run/history.csv 1+ sleep:30; "  # steps that leave time to hit one


def killed(name, rule, config="one", codes=FAIL, start="fresh", more="", **rest):
    return Case(name, [Run(more, faults=rule, codes=codes)], config=config, start=start, **rest)


# (moment, rule): of the start of a run
STARTING = [
    ("before the run directory is made", "mkdir *run 1 SIGKILL"),
    ("behind the making of the run directory", "mkdir *run 1 then:SIGKILL"),
    ("at the lock", "open *run/lock 1 SIGKILL"),
    ("while the lock is written", "write *run/lock.* 1 torn"),
    ("before the lock gets its name", "link *run/lock 1 SIGKILL"),
    ("behind the lock", "link *run/lock 1 then:SIGKILL"),
    ("before the folder of checkpoints is made", "mkdir *run/checkpoints 1 SIGKILL"),
    ("at the log", "open *run/log 1 then:SIGKILL"),
    ("while the deck is written", "write *effective.toml.new 1 torn"),
    ("before the deck gets its name", "rename *effective.toml 1 SIGKILL"),
    ("behind the deck's name", "rename *effective.toml 1 then:SIGKILL"),
    ("while the head of the history is written", "write *history.csv.new 1 torn"),
    ("before the history gets its name", "rename *history.csv 1 SIGKILL"),
    ("before the evaluations get their name", "rename *evaluation.csv 1 SIGKILL"),
    ("while the outcome is written", "write *outcome.json.new 1 torn"),
    ("behind the first outcome", "rename *outcome.json 1 then:SIGKILL"),
]

# of a step
STEPPING = [(f"{how} row {n}", f"write */run/history.csv {n} {action}")
            for n, how, action in ((1, "before", "SIGKILL"), (1, "within", "torn"), (4, "behind", "then:SIGKILL"),
                                   (5, "within", "torn"), (6, "behind", "then:SIGKILL"), (7, "before", "SIGKILL"),
                                   (8, "behind", "then:SIGKILL"), (9, "within", "torn"), (11, "before", "SIGKILL"),
                                   (12, "within", "torn"), (12, "behind", "then:SIGKILL"))]
DIGESTING = [
    ("before row 1", "write */run/digests.csv 1 SIGKILL"),
    ("within row 5", "write */run/digests.csv 5 torn"),
    ("behind row 6", "write */run/digests.csv 6 then:SIGKILL"),
    ("within row 9", "write */run/digests.csv 9 torn"),
    ("while the table is put in order", "write *digests.csv.new 1 torn"),
]
ROUTING = [(name, rule.replace("digests.csv", "routing.csv")) for name, rule in DIGESTING]
SETS = [
    ("before the table gets its name", "rename *evaluations/more.csv 1 SIGKILL"),
    ("between data.validation and a set", "write */run/evaluation.csv 2 then:SIGKILL"),
    ("within the row of a set", "write */run/evaluations/more.csv 3 torn"),
    ("between two sets", "write */run/evaluations/more.csv 2 then:SIGKILL"),
    ("before the row of the last set", "write */run/evaluations/both-2.csv 4 SIGKILL"),
    ("behind the row of the last set", "write */run/evaluations/both-2.csv 4 then:SIGKILL"),
]
STEPPING += [
    ("before the first evaluation's row", "write */run/evaluation.csv 1 SIGKILL"),
    ("within the first evaluation's row", "write */run/evaluation.csv 1 torn"),
    ("behind the first evaluation's row", "write */run/evaluation.csv 1 then:SIGKILL"),
    ("before the last evaluation's row", "write */run/evaluation.csv 2 SIGKILL"),
    ("behind the last evaluation's row", "write */run/evaluation.csv 2 then:SIGKILL"),
    ("before the last outcome", "rename *outcome.json 5 SIGKILL"),
    ("at the first sample", "read *text.tokens 2 SIGKILL"),
]

# of a save
SAVING = [
    ("before its folder is made", "mkdir *step-00000008.partial 1 SIGKILL"),
    ("behind the making of its folder", "mkdir *step-00000008.partial 1 then:SIGKILL"),
    ("at the shard", "open *00008.partial/rank-00000.h5 1 SIGKILL"),
    ("in the first write of the shard", "write *00008.partial/rank-00000.h5 1 torn"),
    ("in the middle of the shard", "write *00008.partial/rank-00000.h5 60 torn"),
    ("before the shard is synced", "sync *00008.partial/rank-00000.h5 1 SIGKILL"),
    ("behind the sync of the shard", "sync *00008.partial/rank-00000.h5 1 then:SIGKILL"),
    ("in the master", "write *00008.partial/master.h5 3 torn"),
    ("behind the sync of the master", "sync *00008.partial/master.h5 1 then:SIGKILL"),
    ("within the manifest", "write *00008.partial/manifest.json 1 torn"),
    ("before the manifest is synced", "sync *00008.partial/manifest.json 1 SIGKILL"),
    ("before its folder is synced", "sync *step-00000008.partial 1 SIGKILL"),
    ("before it gets its name", "rename *checkpoints/step-00000008 1 SIGKILL"),
    ("behind its name", "rename *checkpoints/step-00000008 1 then:SIGKILL"),
    ("within the outcome that names it", "write *outcome.json.new 3 torn"),
    ("before the outcome that names it gets its name", "rename *outcome.json 3 SIGKILL"),
]
LAST_SAVE = [
    ("in the last shard", "write *00012.partial/rank-00000.h5 30 torn"),
    ("before the last checkpoint gets its name", "rename *checkpoints/step-00000012 1 SIGKILL"),
    ("behind the last checkpoint's name", "rename *checkpoints/step-00000012 1 then:SIGKILL"),
]
PRUNING = [
    ("before the old checkpoint steps aside", "rename *step-00000004.removed 1 SIGKILL"),
    ("behind the old checkpoint's stepping aside", "rename *step-00000004.removed 1 then:SIGKILL"),
    ("at the first file of the old checkpoint", "remove *.h5 1 then:SIGKILL"),
    ("in the middle of the old checkpoint", "remove *manifest.json 1 SIGKILL"),
]

# of a restart; "half" was killed after step 10, so its last checkpoint is that of step 8
RESTARTING = [
    ("at the lock", "open *run/lock 1 SIGKILL"),
    ("while the manifest is read", "read *00008/manifest.json 1 SIGKILL"),
    ("while the weights are read", "read *00008/rank-00000.h5 5 SIGKILL"),
    ("while the deck is replaced", "write *effective.toml.new 1 torn"),
    ("before the deck is replaced", "rename *effective.toml 1 SIGKILL"),
    ("while the history is put in order", "write *history.csv.new 1 torn"),
    ("before the history is replaced", "rename *history.csv 1 SIGKILL"),
    ("behind the replacing of the history", "rename *history.csv 1 then:SIGKILL"),
    ("before the evaluations are replaced", "rename *evaluation.csv 1 SIGKILL"),
    ("before the outcome", "rename *outcome.json 1 SIGKILL"),
    ("within the first row", "write */run/history.csv 1 torn"),
    ("before the last checkpoint", "rename *checkpoints/step-00000012 1 SIGKILL"),
]

# of a rank among others
RANKS = [
    ("at its first sample", "read *text.tokens 3 SIGKILL"),
    ("in the middle", "read *text.tokens 12 SIGKILL"),
    ("in its shard of the first save", "write *00004.partial/rank-0000{r}.h5 10 torn"),
    ("behind its shard of a save", "sync *00008.partial/rank-0000{r}.h5 1 then:SIGKILL"),
    ("before its shard of the last save", "open *00012.partial/rank-0000{r}.h5 1 SIGKILL"),
]
PUBLISHING = [
    ("before a checkpoint gets its name", "rename *checkpoints/step-00000008 1 SIGKILL"),
    ("behind a checkpoint's name", "rename *checkpoints/step-00000008 1 then:SIGKILL"),
    ("at row 10", "write */run/history.csv 10 SIGKILL"),
    ("behind the last row", "write */run/history.csv 12 then:SIGKILL"),
]
GRIDS = [("data2", 2), ("data2-zero3", 2), ("data2-at-once", 2), ("pipe2", 2), ("seq2", 2), ("pipe2-data2", 4), ("mixture-expert2", 2), ("sigmoid-expert2", 2)]

CASES = [
    *(killed(f"start: {name}", rule, codes=KILLED, fast=i in (3, 9)) for i, (name, rule) in enumerate(STARTING)),
    *(killed(f"step: {name}", rule, codes=KILLED, fast=name == "within row 5") for name, rule in STEPPING),
    *(killed(f"digests: {name}", rule, "digests", KILLED) for name, rule in DIGESTING),
    *(killed(f"routing: {name}", rule, "sigmoid", KILLED) for name, rule in ROUTING),
    *(killed(f"validation sets: {name}", rule, "sets", KILLED, fast=name == "between two sets") for name, rule in SETS),
    *(killed(f"save behind training: {name}", rule, codes=KILLED, fast=i in (4, 12)) for i, (name, rule) in enumerate(SAVING)),
    *(killed(f"save at once: {name}", rule, "at-once", KILLED, fast=i == 7) for i, (name, rule) in enumerate(SAVING)),
    *(killed(f"end: {name}", rule, codes=KILLED) for name, rule in LAST_SAVE),
    *(killed(f"{config}: {name}", rule, config, KILLED) for config in ("pruned", "pruned-at-once") for name, rule in PRUNING),
    *(killed(f"restart: {name}", rule, codes=KILLED, start="half", more="--restart latest", fast=i == 7)
      for i, (name, rule) in enumerate(RESTARTING)),
    *(killed(f"{config}, rank {rank}: {name}", "; ".join(f"{r.strip()} @{rank}" for r in rule.format(r=rank).split(";")), config,
             fast=(config, rank, i) in (("pipe2", 1, 1), ("data2-zero3", 0, 2), ("mixture-expert2", 1, 3)))
      for config, ranks in GRIDS for rank in sorted({0, ranks - 1}) for i, (name, rule) in enumerate(RANKS)
      # The ranks of a pipe's last stage read samples as well, but those of replicas at stage 1 hold no shard of their own.
      ),
    *(killed(f"{config}: {name}", rule, config) for config in ("data2-zero3", "pipe2-data2", "mixture-expert2") for name, rule in PUBLISHING),
    *(killed(f"{config}, all at once: at a sample", "read *text.tokens 8 SIGKILL", config) for config, _ in GRIDS),
    *(killed(f"{config} killed before row 9", "write */run/history.csv 9 SIGKILL", config)
      for config in ("sgd", "lion", "llama", "two-files", "freeze", "mixture", "sigmoid")),
    *(Case(f"launcher of {config}, at row {row}", [Run(faults=SLOW, signals=((f"row {row}", "SIGKILL", "launcher"),), codes=FAIL)],
           config=config) for config in ("data2", "pipe2-data2") for row in (2, 7)),
    *(Case(f"{whom} of {config} from outside, at row {row}",
           [Run(faults=SLOW, signals=((f"row {row}", "SIGKILL", whom),), codes=FAIL)], config=config, fast=row == 9 and config in ("one", "data2"))
      for config, whom in (("one", "all"), ("pipe2", "rank 0"), ("data2", "rank 1"), ("seq2", "all")) for row in (5, 9)),
    # Whatever the moment is.
    *(Case(f"{config}: {whom} after {ms} ms", [Run(faults=SLOW, signals=((f"{ms / 1000} s", "SIGKILL", whom),), codes=ANY)], config=config)
      for config, whom, moments in (("one", "all", range(20, 620, 50)), ("data2-zero3", "rank 1", range(100, 1000, 100)),
                                    ("pipe2-data2", "all", range(200, 1400, 150)), ("pipe2", "launcher", range(50, 800, 150))) for ms in moments),
    # While ranks restart.
    *(killed(f"{config} restarts, rank {rank}: {name}", f"{rule} @{rank}", config, start="half", more="--restart latest")
      for config, rank in (("data2-zero3", 0), ("data2-zero3", 1), ("pipe2-data2", 3), ("seq2", 1), ("sigmoid-expert2", 1))
      for name, rule in (("while it reads the manifest", "read *manifest.json 1 SIGKILL"), ("while it reads weights", f"read *rank-0000{rank}.h5 4 SIGKILL"),
                         ("at its first sample", "read *text.tokens 3 SIGKILL"), ("in its shard of the last save", f"write *00012.partial/rank-0000{rank}.h5 9 torn"))),
    # One after the other.
    Case("a full disk, then a kill, then a damaged checkpoint",
         [Run("checkpoint.async=false", faults="write *00008.partial/rank-00000.h5 20 ENOSPC", codes=(1,)),
          Run("--restart latest", faults="write */run/history.csv 6 then:SIGKILL", codes=KILLED),
          Run("--restart latest", before="rm -f run/checkpoints/step-00000008/master.h5", says=("restarting from",))]),
    Case("a stop, then a kill of it, on other grids",
         [Run("--restart latest --or-start", config="f64-pipe2", faults="write */run/history.csv 3 SIGTERM; write */run/history.csv 1+ sleep:40", codes=(75, 0)),
          Run("--restart latest", config="f64-seq2", faults="write */run/history.csv 2 SIGKILL", codes=FAIL)], config="f64", finish="close"),
    # Again and again.
    Case("killed at each of five restarts",
         [Run("--restart latest --or-start", faults=f"write */run/history.csv {n} {how}", codes=KILLED)
          for n, how in ((5, "SIGKILL"), (2, "torn"), (5, "then:SIGKILL"), (1, "torn"), (4, "SIGKILL"))]),
    Case("killed in a save, then in the removal of its debris",
         [Run(faults="write *00008.partial/rank-00000.h5 60 torn", codes=KILLED),
          Run("--restart latest", faults="remove *rank-00000.h5 1 then:SIGKILL", codes=KILLED)]),
    Case("killed in the same save three times",
         [Run("--restart latest --or-start", faults="write *00008.partial/manifest.json 1 torn", codes=KILLED)] * 3, fast=True),
    # What --overwrite removes.
    *(Case(f"overwrite: {name}", [Run("--overwrite", faults=rule, codes=KILLED)], start="done", finish_more="--overwrite")
      for name, rule in (("before the first file goes", "remove * 2 SIGKILL"), ("among the checkpoints", "remove *.h5 2 then:SIGKILL"),
                         ("among the tables", "remove *history.csv 1 then:SIGKILL"),
                         ("before the deck goes", "remove *effective.toml 1 SIGKILL"),
                         ("before the new deck", "rename *effective.toml 1 SIGKILL"))),
]


@story(CASES, each=("write *mean*.h5 2 SIGKILL", "sync *mean* 1 SIGKILL", "rename *mean* 1 SIGKILL"))
def average(at, fault):
    """a killed average leaves the checkpoints as they are and no result, and the next one gives the same"""
    at.take("one")
    at("average run --output whole")
    before = {p: p.read_bytes() for p in sorted((at / "run/checkpoints").rglob("*")) if p.is_file()}
    at("average run --output mean", faults=fault, codes=FAIL)
    assert not (at / "mean").exists()
    assert {p: p.read_bytes() for p in sorted((at / "run/checkpoints").rglob("*")) if p.is_file()} == before
    at("average run --output mean")
    for name in ("mean", "whole"):
        at(f"export {name} {name}-hf")
    assert (at / "mean-hf/model.safetensors").read_bytes() == (at / "whole-hf/model.safetensors").read_bytes()
    assert not [p.name for p in at.folder.iterdir() if "mean" in p.name and p.name not in ("mean", "mean-hf")]
