"""What carries out a row of the fault tables.

A case starts the program one or more times in a folder of its own, each time with something going wrong, and then goes on
without faults: the run must end with the weights, history and evaluation of one that nothing happened to.
"""
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import tiny_tokenizer
from judging import compare_bits, compare_close, judge
from rows import FAIL, Ended, Run
from setting import CONFIGS, DECK, FREEZE, same_bits

OWN = (".said", ".met")  # what the program said, and which faults came


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
        self.mpiexec, self.work, self.patience = mpiexec, Path(work), patience
        # Copies: somebody may build meanwhile.
        self.program, self.library = (Path(shutil.copy2(Path(build) / file, self.work)) for file in ("trireme", "tests/failing_calls.so"))
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
        (data / "spm.model").write_bytes(tiny_tokenizer.model())
        for name, options in (("text", "text.txt"), ("more", "more.txt"), ("spm", "text.txt --tokenizer spm.model")):
            self.must(data, Run(command=f"$TRIREME tokenize {options} --output {name}.tokens"), "one")

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
