"""What carries out a row of the tables.

A case starts the program one or more times in a folder of its own, each time with something going wrong, and then goes on
without faults: the run must end with the weights, history and evaluation of one that nothing happened to. A story is a
function that starts it through a CaseFolder and asserts what it likes.
"""
import json
import os
import pty
import shutil
import signal
import subprocess
import threading
import time
import traceback
from pathlib import Path

import tiny_tokenizer
from fixture import CONFIGS, DECK, MACHINE, SECTIONS
from judging import compare_bits, compare_close, judge
from reading import Failed, rows_of
from rows import FAIL, Ended, Run

OWN = (".out", ".said", ".met")  # what the program said, and which faults came


def tree(path):
    """Contents of all files below; a lock names its holder, so it may change."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {str(p.relative_to(path)): p.read_bytes() if p.is_file() else str(p.is_dir())
            for p in sorted(path.rglob("*")) if p.name not in ("lock", *OWN) and not p.is_fifo()}


def processes_of(mark):
    """Of this case, wherever launchers put them: they carry the mark in their environment."""
    found = marked(mark, looks=20)
    return sorted(pid for pid in found if state_of(pid) != "Z")


def marked(mark, looks):
    """Looks again while a process shows an executable and no environment: it is within exec, where the kernel shows none."""
    found, within_exec = set(), False
    for p in Path("/proc").iterdir():
        if p.name.isdigit():
            environment = environment_of(p.name)
            if mark in environment:
                found.add(int(p.name))
            within_exec |= not environment and executable_of(p.name) != ""
    if within_exec and looks > 1:
        time.sleep(0.003)
        found |= marked(mark, looks - 1)
    return found


def state_of(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "Z"
    return stat[stat.rindex(")") + 2]


def environment_of(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def executable_of(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def is_program(pid):
    return executable_of(pid) == "trireme"


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def read_terminal(master, file):
    try:
        while piece := os.read(master, 65536):
            file.write(piece)
            file.flush()
    except OSError:  # its last process is gone
        pass


class CaseFolder:
    """The folder of a case. Of a story: every method fails where something is not as it says."""

    def __init__(self, workshop, folder, config="one"):
        self.workshop, self.folder, self.config = workshop, folder, config
        self.mark, self.said = f"TRIREME_CASE={folder}".encode() + b"\0", ""

    def __truediv__(self, name):
        return self.folder / name

    # How the program is started.

    def line(self, run):
        if run.command:
            return run.command
        overrides, ranks = CONFIGS[run.config or self.config]
        launch = f"exec $MPIEXEC -n {ranks} $TRIREME" if ranks else "exec $TRIREME"
        quoted = " ".join(f"'{o}'" for o in overrides.split())
        return f"{launch} train deck.toml {quoted} --run-dir run {run.more}"

    def start(self, run):
        log = self / ".met"
        log.unlink(missing_ok=True)
        environment = {**self.workshop.environment, "TRIREME_CASE": str(self.folder)}
        if run.faults:
            environment |= {"LD_PRELOAD": str(self.workshop.library), "TRIREME_FAULTS": run.faults.replace("?", ""), "TRIREME_FAULTS_LOG": str(log)}
        if run.before:
            self.shell(run.before)
        begin, limit = time.monotonic(), run.limit * self.workshop.patience
        with open(self / ".out", "w+b") as out, open(self / ".said", "w+b") as said:
            streams = [subprocess.DEVNULL, out, said]
            if run.terminal:
                master, terminal = pty.openpty()
                streams = [terminal] * 3
            process = subprocess.Popen(["bash", "-c", self.line(run)], cwd=self.folder, env=environment, stdin=streams[0], stdout=streams[1],
                                       stderr=streams[2], start_new_session=True)
            if run.terminal:
                os.close(terminal)
                reader = threading.Thread(target=read_terminal, args=(master, said))
                reader.start()
            hung = False
            try:
                self.send_signals(run, process, begin + limit)
                process.wait(max(0.1, begin + limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                hung = True
            left = () if hung else self.left_behind()
            send(processes_of(self.mark), signal.SIGKILL)
            process.wait()
            if run.terminal:
                reader.join()
                os.close(master)
            out.seek(0)
            said.seek(0)
            printed = out.read().decode(errors="replace")
            text = printed + said.read().decode(errors="replace")
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        met = tuple(log.read_text().splitlines()) if log.exists() else ()
        return Ended(code, text, printed, time.monotonic() - begin, hung, left, met)

    def left_behind(self):
        end = time.monotonic() + self.workshop.farewell * self.workshop.patience
        while (pids := processes_of(self.mark)) and time.monotonic() < end:
            time.sleep(0.02)
        return tuple(map(str, pids))

    def send_signals(self, run, process, end):
        for when, name, whom in run.signals:
            kind, _, what = when.partition(" ")
            rows = int(what) if kind == "row" else 0
            due = time.monotonic() + float(kind) if what == "s" else 0

            def come():
                if kind == "row":
                    table = self / "run/history.csv"
                    return table.exists() and table.read_bytes().count(b"\n") > rows
                if kind == "file":
                    return bool(list(self.folder.glob(what)))
                if kind == "says":
                    return what.encode() in (self / ".said").read_bytes()
                return time.monotonic() >= due

            while not come():
                if process.poll() is not None:
                    return
                if time.monotonic() > end:
                    raise subprocess.TimeoutExpired("", 0)
                time.sleep(0.003)
            if name == "shell":
                self.shell(whom)
                continue
            targets = [process.pid]
            if whom != "launcher":
                targets = [p for p in processes_of(self.mark) if is_program(p)]
            if whom.startswith("rank"):
                targets = [p for p in targets if f"PMI_RANK={whom.split()[1]}\0".encode() in environment_of(p)]
            send(targets, getattr(signal, name))

    def shell(self, text):
        done = subprocess.run(["bash", "-ec", text], cwd=self.folder, env=self.workshop.environment, stdin=subprocess.DEVNULL, timeout=60,
                              capture_output=True, text=True, errors="replace")
        if done.returncode:
            raise Failed(f"`{text}` ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def complaint(self, text):
        try:
            if text:
                self.shell(text)
            return []
        except (Failed, subprocess.TimeoutExpired) as e:
            return [str(e)]

    def judged(self, run, name):
        """How a run ended, and what is wrong with that."""
        ended = self.start(run)
        self.said += f"--- {name}, {ended.seconds:.1f} s, code {ended.code}, {' | '.join(ended.met[:6])}\n{ended.text}"
        return ended, [f"{name}: {w}" for w in judge(run, ended)]

    # What a story asks for.

    def __call__(self, command, ranks=0, **more):
        """`trireme COMMAND` on so many ranks, or a command that names $TRIREME; `more` as a Run has it."""
        if "TRIREME" not in command:
            command = f"exec {f'$MPIEXEC -n {ranks} ' if ranks else ''}$TRIREME {command}"
        ended, wrong = self.judged(Run(command=command, **more), command)
        if wrong:
            raise Failed("; ".join(wrong), ended.text)
        return ended

    def train(self, more="", config="", run="run", **rest):
        """A run as the configuration says."""
        line = self.line(Run(more, config=config)).replace("--run-dir run ", f"--run-dir {run} ")
        return self(line, **rest)

    def take(self, config, start="done", run="run"):
        """A copy of a configuration's run."""
        shutil.rmtree(self / run, ignore_errors=True)
        shutil.copytree(self.workshop.template(config, start) / "run", self / run, symlinks=True)

    def write(self, name, text):
        (self / name).write_text(text)

    def write_script(self, name, text):
        """Writes a bash script, in another process: if this one did, a process that another thread starts at the same time could hold
        the file open, and the script would not run ("text file busy")."""
        subprocess.run(["install", "-m", "755", "/dev/stdin", self / name], input=f"#!/bin/bash\n{text}\n", text=True, check=True)

    def read(self, name):
        return (self / name).read_text()

    def json(self, name):
        return json.loads(self.read(name))

    def plan(self, command, **more):
        return json.loads(self(f"plan {command} --json", **more).out)

    def meta(self, run, step):
        """What a checkpoint's manifest says of it."""
        return self.json(f"{run}/checkpoints/step-{step:08}/manifest.json")["content"]["checkpoint"]

    def rows(self, run, table="history.csv"):
        return rows_of(self / run / table)

    def losses(self, run, table="history.csv"):
        return [float(row["loss"]) for row in self.rows(run, table)]

    def same(self, run, reference, tables=True):
        wrong = compare_bits(self / run, self / reference, tables)
        assert not wrong, f"{run} and {reference}: {'; '.join(wrong)}"


class Workshop:
    """A folder for all cases, with the data and the uninterrupted runs."""

    farewell = 10  # seconds that processes have for their end

    def __init__(self, program, mpiexec, work, patience=1.0, library=None):
        self.mpiexec, self.work, self.patience = mpiexec, Path(work), patience
        # Copies: somebody may build meanwhile.
        self.program, self.library = (file and Path(shutil.copy2(file, self.work / name)) for file, name in ((program, "trireme"), (library, "failing_calls.so")))
        for place in (".", "lib", "../lib/trireme"):  # what the program opens where a device answers
            if (cuda := Path(program).resolve().parent / place / "libtrireme_cuda.so").exists():
                shutil.copy2(cuda, self.work)
        self.locks, self.guard = {}, threading.Lock()
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "SLURM_", "PMI_", "TRIREME_"))}
        # A pause of a rank that has nothing to do is a turn for another: ranks outnumber cores.
        self.environment = {**kept, "OMP_WAIT_POLICY": "passive", "TRIREME": str(self.program), "MPIEXEC": mpiexec}

    def prepare(self):
        data = self.work / "data"
        data.mkdir()
        (data / "text.txt").write_text("the quick brown fox jumps over the lazy dog, " * 60)
        (data / "more.txt").write_text("pack my box with five dozen liquor jugs; " * 40)
        (data / "late.txt").write_text("sphinx of black quartz, judge my vow. " * 30)
        (data / "deck.toml").write_text(DECK)
        (data / "machine.toml").write_text(MACHINE)
        (data / "spm.model").write_bytes(tiny_tokenizer.model())
        self.must(CaseFolder(self, data), Run(command="; ".join(f"$TRIREME tokenize {options} --output {name}.tokens || exit" for name, options in (
            ("text", "text.txt"), ("more", "more.txt"), ("late", "late.txt"), ("spm", "text.txt --tokenizer spm.model")))))

    def must(self, place, run):
        ended, wrong = place.judged(run, "without any fault")
        if wrong:
            raise Failed(f"{'; '.join(wrong)}\n{ended.text[-3000:]}")

    def fresh_folder(self, folder, config):
        shutil.copytree(self.work / "data", folder)
        for word, sections in SECTIONS.items():
            if config.startswith(word):
                with open(folder / "deck.toml", "a") as deck:
                    deck.write(sections)
        return CaseFolder(self, folder, config)

    def template(self, config, start):
        """The folder of an uninterrupted run ("done") or of one that was killed after its tenth step ("half")."""
        with self.guard:
            lock = self.locks.setdefault((config, start), threading.Lock())
        with lock:
            folder = self.work / "templates" / f"{config}-{start}"
            made = folder / "made"
            if not made.exists():
                shutil.rmtree(folder, ignore_errors=True)
                if start == "cut":
                    shutil.copytree(self.template(config, "done"), folder, symlinks=True)
                    for step in (8, 12):
                        shutil.rmtree(folder / f"run/checkpoints/step-{step:08}")
                else:
                    whole = Run() if start == "done" else Run("checkpoint.async=false", codes=FAIL,
                                                              faults="write */run/history.csv 10 then:SIGKILL")
                    self.must(self.fresh_folder(folder, config), whole)
                made.touch()
            return folder

    def carry_out(self, case, folder):
        """What is wrong with a case, and what was said."""
        if case.start == "fresh":
            place = self.fresh_folder(folder, case.config)
        else:
            shutil.copytree(self.template(case.config, case.start), folder, symlinks=True)
            place = CaseFolder(self, folder, case.config)
        try:
            wrong = failure_of(case.story, place) if case.story else self.rows_of(case, place)
        finally:
            send(processes_of(place.mark), signal.SIGKILL)
        return wrong, place.said

    def rows_of(self, case, place):
        wrong = []
        if case.setup:
            place.shell(case.setup)
        for i, run in enumerate(case.runs, 1):
            before = tree(place / case.untouched) if case.untouched else None
            wrong += place.judged(run, f"run {i}")[1]
            if case.untouched and tree(place / case.untouched) != before:
                wrong.append(f"run {i}: {case.untouched} is not what it was")
            wrong += [f"run {i}: {w}" for w in place.complaint(run.then)]
        if case.finish:
            ended, found = place.judged(Run(case.finish_more, config=case.finish_config, says=case.finish_says, silent=case.finish_silent), "afterwards")
            wrong += found
            reference = self.template(case.config, "done") / "run"
            try:
                if not wrong or ended.code == 0:
                    wrong += (compare_close(place / "run", reference) if case.finish == "close" else
                              compare_bits(place / "run", reference, case.finish == "bits"))
            except (Failed, OSError, ValueError, KeyError) as e:
                wrong.append(f"afterwards: {e}")
        return wrong + [f"at the end: {w}" for w in place.complaint(case.after)]


def failure_of(story, place):
    """What is wrong with a story: the line that says so, and what its variables are."""
    try:
        story(place)
        return []
    except Exception as e:
        at = traceback.extract_tb(e.__traceback__)
        mine = [i for i, f in enumerate(at) if Path(f.filename).name.startswith("cases_")]
        frames = list(traceback.walk_tb(e.__traceback__))
        if not mine:
            return [f"{type(e).__name__}: {e}"]
        values = {k: v for k, v in frames[mine[-1]][0].f_locals.items() if k != "at" and len(repr(v)) < 300}
        return [f"{at[mine[-1]].line}: {e or type(e).__name__} with {values}"]
