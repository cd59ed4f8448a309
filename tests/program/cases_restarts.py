"""Restarts: on other grids, from named checkpoints, at the borders of freeze rules, with other settings."""
from rows import FAIL, Case, Run

FAILED = (1, 2)  # the second of options that exclude each other
OLDER = "run/checkpoints/step-00000004"
GRIDS = ["f64", "f64-pipe2", "f64-data2", "f64-seq2", "f64-data4", "f64-pipe2-seq2"]


def elsewhere(a, b, more="--restart latest"):
    return Case(f"{a} goes on as {b}, {more}", [], config=a, start="half", finish="close", finish_config=b, finish_more=more,
                finish_says=("restarting from",), fast=(a, b, more) == ("f64-pipe2", "f64-data2", "--restart latest"))


def again(name, more, config="one", says=("restarting from",), finish="bits", setup="", silent=(), start="half", **rest):
    return Case(name, [], config=config, start=start, setup=setup, finish=finish, finish_more=more, finish_says=says, finish_silent=silent, **rest)


def refused(name, more, says, start="half", config="one", **rest):
    return Case(name, [Run(more, codes=FAILED, says=says)], start=start, config=config, untouched="run", **rest)


def start_of_job(n, more, launch="", **rest):
    """The n-th start of batch job 5."""
    return Run(command=f"SLURM_JOB_ID=5 SLURM_RESTART_COUNT={n} exec {launch} $TRIREME train deck.toml checkpoint.async=false --run-dir run {more}", **rest)


EARLY, LATER = "write */run/history.csv 2 SIGKILL", "write */run/history.csv 6 SIGKILL"  # before, behind the first checkpoint
TWO, OVERWRITE = "$MPIEXEC -n 2", "zero.stage=1 --overwrite"  # as the configuration data2
CASES = [
    # A requeued job: what it asked for first holds until it has a checkpoint of its own.
    Case("requeued with --overwrite", [start_of_job(0, "--overwrite", faults=EARLY, codes=(137,)),
                                       start_of_job(1, "--overwrite", faults=LATER, codes=(137,), silent=("restarting from", "is finished")),
                                       start_of_job(2, "--overwrite", says=("restarting from .*step-00000004",))], start="done", fast=True),
    Case("requeued on 2 ranks with --overwrite",
         [start_of_job(0, OVERWRITE, TWO, faults=EARLY, codes=FAIL),
          start_of_job(1, OVERWRITE, TWO, faults=LATER, codes=FAIL, silent=("restarting from", "is finished")),
          start_of_job(2, OVERWRITE, TWO, says=("restarting from .*step-00000004", "done: 12 steps"))], config="data2", start="done", fast=True),
    Case("requeued with --restart DIR", [start_of_job(0, "--restart old/checkpoints/step-00000004", faults=EARLY, codes=(137,)),
                                         start_of_job(1, "--restart old/checkpoints/step-00000004", faults=LATER, codes=(137,),
                                                      says=("restarting from old.*step-00000004",)),
                                         start_of_job(3, "--restart old/checkpoints/step-00000004", says=("restarting from .*run.*step-00000008",))],
         start="half", setup="mv run old", finish="weights"),
    Case("requeued without a word", [start_of_job(0, "", faults=LATER, codes=(137,)), start_of_job(1, "", says=("restarting from .*step-00000004",))]),
    Case("requeued without a word, without a checkpoint", [start_of_job(0, "", faults=EARLY, codes=(137,)), start_of_job(1, "", says=("done: 12 steps",))]),
    Case("requeued before it overwrote", [start_of_job(1, "--overwrite", says=("done: 12 steps",), silent=("is finished", "restarting from"))], start="done"),
    Case("the same start of the same job overwrites", [start_of_job(1, "--overwrite"), start_of_job(1, "--overwrite", silent=("is finished", "restarting from"))]),
    Case("requeued with another command", [start_of_job(0, "--overwrite train.steps=4"),
                                           start_of_job(1, "--overwrite", codes=FAILED, says=("may be those of an earlier start of this job.*--restart latest",))], finish=""),
    Case("requeued without an outcome", [start_of_job(0, "--overwrite"),
                                         start_of_job(1, "--overwrite", codes=FAILED, says=("outcome.json, which names the start, cannot be read",),
                                                      before="truncate -s 20 run/outcome.json")], finish=""),
    Case("from a link to an archived checkpoint, and from what came of it",
         [Run("--restart latest train.steps=10", says=(r"\(step 8\)",)), Run("--restart latest", says=(r"\(step 10\)",))], start="half", finish="",
         setup="mkdir old && mv run/checkpoints/step-00000008 old/ && ln -s $PWD/old/step-00000008 run/checkpoints/"),
    Case("another job is refused", [start_of_job(0, "", faults=LATER, codes=(137,)),
                                    Run(command="SLURM_JOB_ID=6 SLURM_RESTART_COUNT=1 exec $TRIREME train deck.toml --run-dir run", codes=FAILED,
                                        says=("already contains a run",))]),
    *(elsewhere(a, b) for a in GRIDS for b in GRIDS if a != b),
    *(elsewhere(a, b) for a, b in (("f64-mixture", "f64-mixture-expert2"), ("f64-mixture-expert2", "f64-mixture"))),
    *(elsewhere(a, b, f"--restart {OLDER}") for a, b in zip(GRIDS, GRIDS[1:] + GRIDS[:1])),
    *(Case(f"a chain of grids: {', '.join(chain)}",
           [Run("--restart latest --or-start", config=config, faults=f"write */run/history.csv {n} then:SIGKILL", codes=FAIL)
            for config, n in zip(chain, (5, 4, 4))], config="f64", finish="close", finish_more="--restart latest")
      for chain in (("f64-pipe2", "f64-data2", "f64-seq2"), ("f64-data4", "f64", "f64-pipe2-seq2"))),
    *(again(f"{config} from a named checkpoint", f"--restart {OLDER}", config, says=(r"step-00000004 \(step 4\)", "left-step-00000008"))
      for config in ("one", "data2-zero3", "pipe2", "freeze", "lion", "llama")),
    *(again(f"{config} from the latest", "--restart latest", config, says=(r"step-00000008 \(step 8\)",), fast=config == "seq2")
      for config in ("sgd", "lion", "llama", "two-files", "untied", "spm", "freeze", "data2", "data2-zero3", "pipe2", "seq2", "pipe2-data2", "mixture", "mixture-expert2",
                     "sigmoid-expert2")),
    *(again(f"from a checkpoint named {name}", f"--restart {path}", says=(r"\(step 4\)",), setup=setup)
      for name, path, setup in (("with a slash at its end", OLDER + "/", ""), ("by its full path", "$PWD/" + OLDER, ""),
                                ("through a link", "link", f"ln -s {OLDER} link"), ("with dots", "./run/../" + OLDER, ""))),
    again("from the run directory", "--restart run", says=(r"\(step 8\)",), silent=("jumps",)),
    Case("with a learning rate that jumps", [Run("--restart latest optimizer.lr=4e-3", says=(r"warning optimizer.lr: the learning rate jumps: it was \S+ in step 8; in step 9, it is \S+ with this deck and \S+ with",))],
         start="half", finish=""),
    Case("with keys that change the course, and others", [Run("--restart latest train.batch=8 train.seed=7 optimizer.clip=0.5 run.log_every=2 checkpoint.keep_last=3",
         says=(r"warning train.batch: step 9 trains on 8 samples \(64 tokens\) instead of 4 \(32 tokens\)", "warning train.seed: from sample 32 on, samples come in another order: ",
               "warning optimizer.clip: gradient clipping is at norm 0.5 instead of at norm 1\n", "info deck changed: run.log_every: 1 -> 2"),
         silent=(r"warning \S*(run|checkpoint|evaluate)\.",))], start="half", finish="", fast=True),
    Case("on another grid, which changes the rounding", [Run("--restart latest", config="data2-zero3", says=("info .*zero.stage.*: results from step 9 on have other rounding errors",),
                                                             silent=("warning (parallel|zero)",))], start="half", finish="", fast=True),
    Case("from weights of a run, of which it says the learning rate", [Run(command="exec $TRIREME train deck.toml model.init_from=run --run-dir new train.steps=1 train.seed=9",
         says=("info compared with the run that trained model.init_from, train.steps: the learning rate was [0-9.e-]+ in the last step of the initial model, and its peak is now",),
         silent=("train.seed: ",))], start="done", finish="", fast=True),
    Case("from weights of a run with AdamW, by Muon", [Run(command="$TRIREME train deck.toml model.init_from=run --run-dir new train.steps=1 optimizer.name=muon optimizer.lr=1e-3 && "
         "$TRIREME train deck.toml model.init_from=new --run-dir newer train.steps=1 optimizer.name=muon optimizer.lr=1e-3",
         says=("info muon updates [0-9]+ matrices with", 'warning optimizer.name = "muon" trains the weights of .*/run/checkpoints/step-00000012, which was trained with optimizer.name = "adamw"'),
         silent=("trains the weights of .*/new/checkpoints",))], start="done", finish="", fast=True),
    again("from a copy of the run", "--restart old/checkpoints/step-00000004", setup="mv run old", finish="weights", says=(r"\(step 4\)",)),
    again("from a copy of the run, its directory", "--restart old", setup="mv run old", finish="weights", says=(r"\(step 8\)",)),
    again("of a run that is done", "--restart latest", says=("the run is finished",), start="done", fast=True),
    again("of a run that is done, with its outcome lost", "--restart latest", says=("the run is finished",), start="done", setup="rm run/outcome.json",
          after="grep -q done run/outcome.json"),
    Case("of a run that is done, elsewhere", [Run(command="$TRIREME train deck.toml --restart run --run-dir other",
                                                  says=("nothing was written to other: raise train.steps, .*model.init_from=",), then="! test -e other")],
         start="done", finish=""),
    again("of a run that is done, whose outcome is of before", "--restart latest", says=("the run is finished",), start="done",
          setup="sed -i s/done/running/ run/outcome.json", after="grep -q done run/outcome.json && grep -q '\"step\": 12' run/outcome.json"),
    again("of a run that was moved", "--restart latest", setup="mv run elsewhere; ln -s elsewhere run"),
    again("where there is nothing", "--restart latest --or-start", says=("starts fresh",), start="fresh"),
    Case("whose checkpoints are gone", [Run("--restart latest", codes=FAILED, says=("outcome.json names the checkpoint .*step-00000008, but .* contains no checkpoint",))],
         start="half", setup="rm -r run/checkpoints/*", untouched="run/history.csv", finish=""),
    Case("where there is no run", [Run("--restart latest", codes=FAILED, says=("there is no run in .*run.*--or-start",), then="[ -z \"$(ls run 2>/dev/null)\" ]"),
                                   Run("--restart latest", before="mkdir run", codes=FAILED, says=("there is no run in .*run.*--or-start",), then="[ -z \"$(ls run)\" ]")],
         finish="", fast=True),
    again("where there is an empty directory", "--restart latest", says=("starts fresh",), start="fresh", setup="mkdir -p run/checkpoints"),
    # A history may begin late, and lacks nothing then.
    Case("elsewhere, and again", [Run(command="exec $TRIREME train deck.toml --restart run/checkpoints/step-00000004 --run-dir other train.steps=9", silent=("history.csv:",),
                                      then="[ $(wc -l < other/history.csv) = 6 ]"),
                                  Run(command="exec $TRIREME train deck.toml --run-dir other --restart latest", silent=("history.csv:",), then="[ $(wc -l < other/history.csv) = 9 ]")],
         start="done", finish=""),
    # Its evaluation is neither lost nor made twice.
    again("evaluated where it was saved", "--restart latest", "evaluated"),
    # Checkpoints know parameters, not grids: chunks and halves of a pipeline's work, formats on the way.
    *(again(f"{config} from an early checkpoint", "--restart latest", config, start="cut", fast=config in ("grid-axes",))
      for config in ("grid-axes", "grid-chunks", "grid-halves", "data2-seq2", "pipe2-data2-bf16", "seq2-reduce-bf16", "freeze-sgd")),
    # The same steps on other grids, and digests of them.
    Case("grids change where bits are promised",
         [Run("--restart latest --or-start", config=config, faults=f"write */run/history.csv {n} then:SIGKILL", codes=FAIL) for config, n in (("exact-seq2", 4), ("exact-axes", 5))],
         config="exact", start="cut", finish_config="exact-data2", fast=True),
    # Of the tables, routing.csv but for its rounds, and digests.csv.
    *(Case(f"grids change where bits are promised to experts: {', '.join(chain)}",
           [Run("--restart latest --or-start", config=config, faults=f"write */run/history.csv {n} then:SIGKILL", codes=FAIL) for config, n in zip(chain, (5, 5))],
           config="exact-mixture", finish_config=chain[2], fast=fast)
      for chain, fast in ((("exact-mixture-expert2", "exact-mixture-expert3", "exact-mixture"), True), (("exact-mixture", "exact-mixture-expert4", "exact-mixture-expert2"), False),
                          (("exact-mixture-expert3", "exact-mixture", "exact-mixture-expert4"), False))),
    # Freeze rules begin and end at steps 2, 4, 8, 10.
    *(Case(f"freeze: killed behind step {n}", [Run("checkpoint.every_steps=1", faults=f"write */run/history.csv {n + 1} SIGKILL", codes=FAIL)],
           config="freeze", finish_silent=("starts fresh",), fast=n == 4) for n in range(2, 12)),
    *(Case(f"freeze: stopped behind step {n}", [Run(faults=f"write */run/history.csv {n} SIGTERM; write */run/history.csv {n}+ sleep:40", codes=(75,))],
           config="freeze") for n in (1, 3, 7, 9)),
    # Settings that change no number.
    *(again(f"with {setting}", f"--restart latest {setting}")
      for setting in ("checkpoint.async=false", "checkpoint.every_steps=1", "checkpoint.every_steps=0", "checkpoint.keep_last=1", "run.log_every=0",
                      "run.debug=true", "checkpoint.keep_every=3", "run.hang_timeout=10", "model.recompute=block", "checkpoint.every_minutes=0.001")),
    # Time limits.
    *(Case(f"{config}: a time limit that is near", [Run("--time-limit 5", faults="write */run/history.csv 1+ sleep:500", codes=(75,), says=("time limit", " [1-8] steps in "))],
           config=config, fast=config == "one") for config in ("one", "pipe2")),  # of half a second each: one is left
    Case("a time limit as Slurm writes days", [Run("--time-limit 1-00:30:00")]),
    Case("time limits until it is done", [Run("--restart latest --or-start --time-limit 2", faults="write */run/history.csv 1+ sleep:300", codes=(0, 75))] * 3),
    # What cannot go on.
    refused("another width", "--restart latest model.width=32", ("contains another model", r"\(256, 16\)|\[256, 16\]|16")),
    refused("more layers", "--restart latest model.layers=3", (r"blocks\.2\.",)),
    refused("fewer layers", "--restart latest model.layers=1", (r"blocks\.1\.",)),
    refused("another context", "--restart latest model.context=4", ("positions",)),
    refused("untied", "--restart latest model.tied=false", ("head",)),
    refused("a model of these shapes that computes otherwise", "--restart latest model.heads=4 model.norm_eps=1e-3",
            ("model.heads: 2 -> 4; .*model.norm_eps: 1e-5 -> 0.001", "--allow-other-model")),
    refused("other rotary frequencies", "--restart latest model.rope_theta=5e5", ("model.rope_theta: 10000 -> 5", "--allow-other-model"), config="llama"),
    Case("another model, where that is allowed", [Run("--restart latest --allow-other-model model.norm_eps=1e-3", says=("warning .*model.norm_eps: .*continues with the new values",))],
         start="half", finish=""),
    refused("another optimizer", "--restart latest optimizer.name=lion", ("moment|lion",)),
    refused("another optimizer, the other way", "--restart latest optimizer.name=adamw", ("moment",), config="lion"),
    refused("momentum where there was none", "--restart latest optimizer.name=sgd optimizer.momentum=0.9", ("momentum",)),
    refused("f64 of f32", "--restart latest run.backend=ref precision.compute=f64", ("f64",)),
    refused("without a word over a run", "", ("--restart latest", "--overwrite")),
    refused("a done run without a word", "", ("--restart latest", "--overwrite"), start="done"),
    # Nothing is overwritten before all is checked; the last has weights of 200 MB that fit, and activations of terabytes that do not.
    *(refused(f"overwriting with {wrong}", f"--overwrite {wrong}", (), start="done", fast=wrong == "model.context=9999")
      for wrong in ("--time-limit soon", "train.steps=0", "data.path=none.tokens", "model.context=9999", "data.validation=0.0001", "model.init_from=nowhere", "run.trace_steps=[3]",
                    "model.width=1024 train.batch=2000000 train.microbatch=2000000")),
    Case("another model, elsewhere", [Run(command="exec $TRIREME train deck.toml --restart run/checkpoints/step-00000004 model.layers=3 --run-dir wider", codes=FAILED,
                                          says=(r"blocks\.2\.",))], start="done", untouched=".", finish=""),
    refused("--overwrite with --restart", "--overwrite --restart latest", ("--restart",)),
    # What --overwrite would remove that no run wrote, or that the deck reads.
    *(refused(f"--overwrite with {what}", f"--overwrite {more}", ("--overwrite", says, "Nothing was removed"), start="done", setup=setup, finish="", fast=True)
      for what, more, says, setup in (
          ("its tokens among the checkpoints", "data.path=run/checkpoints/text.tokens", "checkpoints/text.tokens", "cp text.tokens run/checkpoints"),
          ("notes in a checkpoint", "", "step-00000012/notes", "echo mine > run/checkpoints/step-00000012/notes"),
          ("a renamed copy of a checkpoint", "", "best", "cp -r run/checkpoints/step-00000012 run/checkpoints/best"),
          ("a copy under another step", "", "step-00000099 is a copy of step 12", "cp -r run/checkpoints/step-00000012 run/checkpoints/step-00000099"),
          ("another's trace", "", "trace/mine.json", "mkdir -p run/trace; echo '{}' > run/trace/mine.json"),
          ("weights that it begins with", "model.init_from=run", "model.init_from", ""),
          ("weights behind a link", "model.init_from=elsewhere/step-00000012", "model.init_from", "mv run/checkpoints elsewhere; ln -s ../elsewhere run/checkpoints"))),
    Case("--overwrite with a machine file that does not exist", [Run("--overwrite run.machine=none.toml", codes=FAIL, says=("none.toml",))], start="done",
         untouched="run", finish="", fast=True),
    Case("--overwrite by its own deck", [Run(command="exec $TRIREME train run/effective.toml --run-dir run --overwrite", codes=FAILED, says=("effective.toml, which this run reads as the deck",))],
         start="done", untouched="run", finish="", fast=True),
    Case("--overwrite behind a link to the checkpoints", [Run("--overwrite", says=("done: 12 steps",), then="[ -L run/checkpoints ] && [ -e elsewhere/step-00000012 ]")],
         start="done", setup="mv run/checkpoints elsewhere; ln -s ../elsewhere run/checkpoints", finish_says=("the run is finished",), fast=True),
    refused("a grid that does not fit", "--restart latest parallel.pipe=3", ("parallel.pipe",)),
    refused("other masks of freezing that are wrong", "--restart latest 'freeze.0.pattern=x'", ("freeze",)),
]
