"""What carries out a row of the fault tables and judges what came of it.

A case starts the program one or more times in a folder of its own, each time with something going wrong, and then goes on
without faults: the run must end with the weights, history and evaluation of one that nothing happened to.
"""
import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from array import array
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import same_bits  # noqa: E402

DECK = """
[model]
layers = 2
width = 16
heads = 2
context = 8
dropout = 0.1

[data]
path = "text.tokens"
validation = 0.2

[train]
batch = 4
microbatch = 2
steps = 12

[optimizer]
lr = 3e-3

[schedule]
warmup_steps = 2

[evaluate]
every_steps = 6
batches = 1

[checkpoint]
every_steps = 4
keep_last = 0

[run]
backend = "host"
threads = 1
hang_timeout = 40
"""
F64 = "run.backend=ref precision.compute=f64 model.dropout=0"

# How the runs of a case are set up: overrides and ranks. The uninterrupted run of each is made once.
CONFIGS = {
    "one": ("", 0),
    "at-once": ("checkpoint.async=false", 0),
    "sgd": ("optimizer.name=sgd optimizer.momentum=0.9", 0),
    "lion": ("optimizer.name=lion", 0),
    "llama": (same_bits.GQA + " model.recompute=block", 0),
    "two-files": ('data.path=["text.tokens","more.tokens"] data.weights=[1,3]', 0),
    "spaced": ("model.tied=false", 0),
    "pruned": ("checkpoint.keep_last=1", 0),
    "pruned-at-once": ("checkpoint.keep_last=1 checkpoint.async=false", 0),
    "freeze": ("", 0),
    "data2": ("zero.stage=1", 2),
    "data2-zero3": ("zero.stage=3", 2),
    "data2-at-once": ("zero.stage=3 checkpoint.async=false", 2),
    "pipe2": ("parallel.pipe=2 train.microbatch=1", 2),
    "seq2": ("parallel.seq=2 zero.stage=2", 2),
    "pipe2-data2": ("parallel.pipe=2 zero.stage=3 train.microbatch=1", 4),
    "f64": (F64, 0),
    "f64-pipe2": (F64 + " parallel.pipe=2 train.microbatch=1", 2),
    "f64-data2": (F64 + " zero.stage=3 train.microbatch=1", 2),
    "f64-seq2": (F64 + " parallel.seq=2 zero.stage=1", 2),
    "f64-data4": (F64 + " zero.stage=2 train.microbatch=1", 4),
    "f64-pipe2-seq2": (F64 + " parallel.pipe=2 parallel.seq=2 zero.stage=3 train.microbatch=1", 4),
}
FREEZE = """
[[freeze]]
pattern = "blocks.0.*"
from_step = 4
to_step = 8

[[freeze]]
pattern = "*_norm.*"
from_step = 2
to_step = 10
moments = "keep"
"""

FAIL = "fail"  # any code but 0: the process may have been killed
ANY = "any"
STOPPED = (75,)

# No message for a user contains these.
NEVER = [r"terminate called", r"std::", r"what\(\):", r"map::at", r"vector::", r"bad_alloc", r"basic_(filebuf|string|ios)",
         r"\bsto(i|l|ll|d)\b", r"[Ss]egmentation fault", r"Assertion", r"\bbacktrace\b", r"Traceback", r"Caught signal",
         r"json\.exception", r"HDF5-DIAG", r"core dumped", r"lock: Invalid argument", r"MPI_ERR_"]
OWN = (".said", ".met")  # what the program said, and which faults came
MOST_OUTPUT = 40_000  # bytes; UCX's dumps are longer


@dataclass
class Run:
    """One start of the program."""
    more: str = ""            # behind `train deck.toml OVERRIDES --run-dir run`
    command: str = ""         # instead of all of that; {trireme} and {mpiexec} are filled in by a shell
    faults: str = ""          # rules for failing_calls.cpp; each must come true but those with a "?" before them and waits
    signals: tuple = ()       # ("row 5" or "file PATH" or "says TEXT" or "0.2 s", a signal, "all" or "rank 1" or "launcher");
                              # or a moment, "shell" and a command for it
    before: str = ""          # shell, in the case's folder
    codes: object = (0,)      # exit codes, FAIL or ANY
    says: tuple = ()          # regular expressions for what the program must print
    silent: tuple = ()        # and must not
    then: str = ""            # shell that must end with 0 behind it
    config: str = ""          # instead of the case's
    limit: float = 60


@dataclass
class Case:
    name: str
    runs: list
    config: str = "one"
    start: str = "fresh"      # or "half": killed after step 10 of 12; or "done"
    setup: str = ""           # shell, before the first run
    finish: str = "bits"      # "bits", "close" (another grid: by rounding), "weights" (no history) or ""
    finish_config: str = ""   # on another grid
    finish_more: str = "--restart latest"
    finish_says: tuple = ()
    finish_silent: tuple = ()
    untouched: str = ""       # a path whose files keep their bytes over the runs before the last
    after: str = ""           # shell that must end with 0 at the end
    fast: bool = False
    known: str = ""           # why it is not good yet: it must fail until it is mended
    group: str = field(default="", init=False)

    @property
    def title(self):
        return f"{self.group}: {self.name}"


class Ended:
    """What is known of a process that ended."""

    def __init__(self, code, text, seconds=0.0, hung=False, left=(), met=()):
        self.code, self.text, self.seconds, self.hung, self.left, self.met = code, text, seconds, hung, left, met


def spoken(codes):
    return " or ".join(map(str, codes)) if len(codes) < 5 else f"{codes[0]} to {codes[-1]}"


def judge(run, ended):
    """What is wrong with how a run ended."""
    wrong = []
    if ended.hung:
        wrong.append(f"it hung: {run.limit:g} s passed")
    elif run.codes == FAIL and ended.code == 0:
        wrong.append("it failed and ended with 0")
    elif run.codes not in (FAIL, ANY) and ended.code not in run.codes:
        wrong.append(f"exit code {ended.code} instead of {spoken(run.codes)}")
    wrong += [f"it does not say /{s}/" for s in run.says if not re.search(s, ended.text)]
    wrong += [f"it says /{s}/" for s in (*NEVER, *run.silent) if re.search(s, ended.text)]
    if len(ended.text) > MOST_OUTPUT:
        wrong.append(f"it prints {len(ended.text)} bytes")
    if ended.left:
        wrong.append(f"processes stay behind: {', '.join(ended.left)}")
    came = {int(line.split()[0]) for line in ended.met}
    rules = [rule.strip() for rule in run.faults.split(";") if rule.strip()]
    wrong += [f"the fault '{rule}' never came" for i, rule in enumerate(rules) if i not in came and "sleep:" not in rule and rule[0] != "?"]
    return wrong


def verdict(case, wrong):
    """(is it as expected?, what to say)."""
    if not case.known:
        return not wrong, "; ".join(wrong)
    if wrong:
        return True, f"known: {case.known} ({wrong[0]})"
    return False, f"it is good now: take `known` away ({case.known})"


def history(run, columns=("step", "loss", "grad_norm", "lr")):
    with open(run / "history.csv", newline="") as f:
        return [tuple(row[c] for c in columns) for row in csv.DictReader(f)]


def last_checkpoint(run):
    last = max((run / "checkpoints").glob("step-" + 8 * "[0-9]"), default=None)
    if last is None:
        raise same_bits.Failed("no checkpoint at the end")
    return last


def compare_bits(run, reference, tables):
    """What differs between two runs that must be equal bit for bit."""
    wrong = []
    mine, whole = last_checkpoint(run), last_checkpoint(reference)
    if mine.name != whole.name:
        wrong.append(f"the last checkpoint is {mine.name} instead of {whole.name}")
    (weights, state), (w, s) = same_bits.digest_checkpoint(mine), same_bits.digest_checkpoint(whole)
    if weights != w:
        wrong.append("other final weights than without the fault")
    if state != s:
        wrong.append("other optimizer state than without the fault")
    if tables:
        if history(run) != history(reference):
            wrong.append("another history.csv than without the fault")
        if (run / "evaluation.csv").read_text() != (reference / "evaluation.csv").read_text():
            wrong.append("another evaluation.csv than without the fault")
    return wrong


# Products of f64 add up to 64 terms, Adam's quotient may double the error of a gradient, and it feeds into each of 12
# steps: 64 x 2 x 12 roundoffs, of weights that are near 1, with a factor of 100 for gradients of about 1e-2 of a weight.
CLOSE = 100 * 64 * 2 * 12 * 2.0**-53


def compare_close(run, reference):
    wrong = []
    a, b = (same_bits.arrays(last_checkpoint(r))["weights"] for r in (run, reference))
    if a.keys() != b.keys():
        return ["other parameters than without the fault"]
    largest = 0.0
    for name, (dtype, shape, data) in a.items():
        if (dtype, shape) != b[name][:2] or dtype != "f64":
            return [f"{name} is {dtype} {shape}"]
        largest = max(largest, max(abs(x - y) for x, y in zip(array("d", bytes(data)), array("d", bytes(b[name][2])))))
    if not largest <= CLOSE:
        wrong.append(f"final weights differ by {largest:.2g}, above {CLOSE:.2g}")
    if [row[0] for row in history(run)] != [row[0] for row in history(reference)]:
        wrong.append("history.csv has other steps than without the fault")
    return wrong


def tree(path):
    """Contents of all files below; a lock names its holder, so it may change."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {str(p.relative_to(path)): p.read_bytes() if p.is_file() else str(p.is_dir())
            for p in sorted(path.rglob("*")) if p.name not in ("lock", *OWN) and not p.is_fifo()}


def processes_of(mark):
    """Of this case, wherever launchers put them: they carry the mark in their environment."""
    found = []
    for p in Path("/proc").iterdir():
        try:
            if p.name.isdigit() and mark in (p / "environ").read_bytes():
                stat = (p / "stat").read_text()
                if stat[stat.rindex(")") + 2] != "Z":
                    found.append(int(p.name))
        except (OSError, ValueError):
            pass
    return found


def environment_of(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def is_program(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "trireme"
    except OSError:
        return False


class Bench:
    """A folder for all cases, with the data and the uninterrupted runs."""

    def __init__(self, build, mpiexec, work, patience=1.0):
        self.build, self.mpiexec, self.work, self.patience = Path(build).resolve(), mpiexec, Path(work), patience
        self.program = self.build / "trireme"
        self.library = self.build / "tests/failing_calls.so"
        self.locks, self.guard = {}, threading.Lock()
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "SLURM_", "PMI_", "TRIREME_"))}
        # A pause of a rank that has nothing to do is a turn for another: ranks outnumber cores.
        self.environment = {**kept, "OMP_WAIT_POLICY": "passive", "TRIREME": str(self.program), "MPIEXEC": mpiexec}

    def prepare(self):
        data = self.work / "data"
        data.mkdir()
        (data / "text.txt").write_text("the quick brown fox jumps over the lazy dog, " * 60)
        (data / "more.txt").write_text("pack my box with five dozen liquor jugs; " * 40)
        (data / "deck.toml").write_text(DECK)
        for name in ("text", "more"):
            self.must(data, Run(command=f"$TRIREME tokenize {name}.txt --output {name}.tokens"), "one")

    def must(self, folder, run, config):
        wrong = judge(run, ended := self.start(folder, run, config))
        if wrong:
            raise same_bits.Failed(f"without any fault: {'; '.join(wrong)}\n{ended.text[-3000:]}")

    def line(self, run, config):
        if run.command:
            return run.command
        overrides, ranks = CONFIGS[config]
        launch = f"exec $MPIEXEC -n {ranks} $TRIREME" if ranks else "exec $TRIREME"
        quoted = " ".join(f"'{o}'" for o in overrides.split())
        return f"{launch} train deck.toml {quoted} --run-dir run {run.more}"

    def start(self, folder, run, config):
        mark = f"TRIREME_FAULT_CASE={folder}".encode() + b"\0"
        log = folder / OWN[1]
        log.unlink(missing_ok=True)
        environment = {**self.environment, "TRIREME_FAULT_CASE": str(folder)}
        if run.faults:
            environment |= {"LD_PRELOAD": str(self.library), "TRIREME_FAULTS": run.faults.replace("?", ""), "TRIREME_FAULTS_LOG": str(log)}
        if run.before:
            self.shell(folder, run.before)
        begin, limit = time.monotonic(), run.limit * self.patience
        with open(folder / OWN[0], "w+b") as said:
            process = subprocess.Popen(["bash", "-c", self.line(run, run.config or config)], cwd=folder, env=environment,
                                       stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
            hung = False
            try:
                self.send_signals(folder, run, process, mark, begin + limit)
                process.wait(max(0.1, begin + limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                hung = True
            left = [] if hung else self.left_behind(mark)
            for pid in processes_of(mark):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait()
            said.seek(0)
            text = said.read().decode(errors="replace")
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        met = log.read_text().splitlines() if log.exists() else []
        return Ended(code, text, time.monotonic() - begin, hung, left, met)

    def left_behind(self, mark, patience=10):
        end = time.monotonic() + patience * self.patience
        while (pids := processes_of(mark)) and time.monotonic() < end:
            time.sleep(0.02)
        return [str(p) for p in pids]

    def send_signals(self, folder, run, process, mark, end):
        for when, name, whom in run.signals:
            kind, _, what = when.partition(" ")
            rows = int(what) if kind == "row" else 0
            due = time.monotonic() + float(kind) if what == "s" else 0

            def come():
                if kind == "row":
                    table = folder / "run/history.csv"
                    return table.exists() and table.read_bytes().count(b"\n") > rows
                if kind == "file":
                    return bool(list(folder.glob(what)))
                if kind == "says":
                    return what.encode() in (folder / OWN[0]).read_bytes()
                return time.monotonic() >= due

            while not come():
                if process.poll() is not None:
                    return
                if time.monotonic() > end:
                    raise subprocess.TimeoutExpired("", 0)
                time.sleep(0.005)
            if name == "shell":
                self.shell(folder, whom)
                continue
            if whom == "launcher":
                targets = [process.pid]
            else:
                targets = [p for p in processes_of(mark) if is_program(p)]
                if whom.startswith("rank"):
                    targets = [p for p in targets if f"PMI_RANK={whom.split()[1]}\0".encode() in environment_of(p)]
            for pid in targets:
                try:
                    os.kill(pid, getattr(signal, name))
                except ProcessLookupError:
                    pass

    def shell(self, folder, text):
        done = subprocess.run(["bash", "-ec", text], cwd=folder, env=self.environment, stdin=subprocess.DEVNULL, timeout=60,
                              capture_output=True, text=True, errors="replace")
        if done.returncode:
            raise same_bits.Failed(f"`{text}` ended with {done.returncode}: {done.stdout}{done.stderr}")

    def complaint(self, folder, text):
        try:
            if text:
                self.shell(folder, text)
            return []
        except (same_bits.Failed, subprocess.TimeoutExpired) as e:
            return [str(e)]

    def fresh_folder(self, folder, config):
        shutil.copytree(self.work / "data", folder)
        if config == "freeze":
            with open(folder / "deck.toml", "a") as deck:
                deck.write(FREEZE)

    def template(self, config, start):
        """The folder of an uninterrupted run ("done") or of one that was killed after its tenth step ("half")."""
        with self.guard:
            lock = self.locks.setdefault((config, start), threading.Lock())
        with lock:
            folder = self.work / "templates" / f"{config}-{start}"
            made = folder / "made"
            if not made.exists():
                shutil.rmtree(folder, ignore_errors=True)
                self.fresh_folder(folder, config)
                whole = Run() if start == "done" else Run("checkpoint.async=false", codes=FAIL,
                                                          faults="write */run/history.csv 10 then:SIGKILL")
                self.must(folder, whole, config)
                made.touch()
            return folder

    def carry_out(self, case, folder):
        """What is wrong with a case."""
        if case.start == "fresh":
            self.fresh_folder(folder, case.config)
        else:
            shutil.copytree(self.template(case.config, case.start), folder, symlinks=True)
        wrong, said = [], ""
        if case.setup:
            self.shell(folder, case.setup)
        for i, run in enumerate(case.runs, 1):
            before = tree(folder / case.untouched) if case.untouched else None
            ended = self.start(folder, run, case.config)
            found = judge(run, ended)
            if case.untouched and tree(folder / case.untouched) != before:
                found.append(f"{case.untouched} is not what it was")
            found += self.complaint(folder, run.then)
            wrong += [f"run {i}: {w}" for w in found]
            said += f"--- run {i}, {ended.seconds:.1f} s, code {ended.code}, {' | '.join(ended.met[:6])}\n{ended.text}"
        if case.finish:
            config = case.finish_config or case.config
            ended = self.start(folder, run := Run(case.finish_more, says=case.finish_says, silent=case.finish_silent), config)
            wrong += [f"afterwards: {w}" for w in judge(run, ended)]
            said += f"--- afterwards, {ended.seconds:.1f} s, code {ended.code}\n{ended.text}"
            reference = self.template(case.config, "done") / "run"
            try:
                if not wrong or ended.code == 0:
                    wrong += (compare_close(folder / "run", reference) if case.finish == "close" else
                              compare_bits(folder / "run", reference, case.finish == "bits"))
            except (same_bits.Failed, OSError, ValueError, KeyError) as e:
                wrong.append(f"afterwards: {e}")
        wrong += [f"at the end: {w}" for w in self.complaint(folder, case.after)]
        return wrong, said
