#!/usr/bin/env python3
"""Runs the documents' code blocks word for word, in order, in a scratch folder: docs_test.py TRIREME MPIEXEC

A block of `toml` is the deck that the next ones call mine.toml, unless its first line is a comment with another name. `train`
gets a tiny model and two more steps at each call, whatever the deck says; all else is the program as it is. Links to files have
to lead somewhere, and so do the paths that pages name.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", "docs/checkpoint.md", "docs/token_file.md", "docs/guide.md", "docs/finetune.md", "docs/experts.md", "docs/results.md", "docs/jobs.md", "docs/install.md"]
LIMIT_S = 240  # of a block

# How a block begins that cannot run here, and why.
NOT_RUN = {
    ("README.md", "make run"): "tests/bare_debian_test.sh runs them on a system of their own",
    ("README.md", "TRIREME="): "tests/jobs/slurm_test.py submits jobs",
    ("docs/finetune.md", "build/trireme import theirs"): "tests/hf/guide_test.py runs the whole page with a model of transformers",
    ("docs/finetune.md", "build/trireme plan mine.toml --ranks 2"): "tests/hf/guide_test.py does",
    ("docs/finetune.md", "from transformers"): "tests/hf/guide_test.py does",
    ("docs/finetune.md", "build/trireme check lora.toml"): "tests/hf/guide_test.py does",
    ("docs/finetune.md", "from peft"): "tests/hf/guide_test.py does",
    ("docs/finetune.md", "build/trireme import lora"): "tests/hf/guide_test.py does",
    ("docs/finetune.md", "build/trireme import lora-merged"): "tests/hf/guide_test.py does",
    ("docs/finetune.md", "mpiexec -n 2 build/trireme train lora.toml adapter.base"): "tests/hf/guide_test.py does",
    ("docs/experts.md", "build/trireme import theirs"): "tests/hf/guide_test.py runs the whole page with a model of transformers",
    ("docs/experts.md", "from transformers"): "tests/hf/guide_test.py does",
    ("docs/install.md", "trireme tokenize"): "tests/install_test.sh runs them in an empty folder",
    ("docs/jobs.md", "sbatch"): "tests/jobs/slurm_test.py submits jobs",
}

# Behind the words of `train`; DOCS_STEPS grows with each command.
TINY = ("model.layers=2 model.width=32 model.heads=2 model.context=16 evaluate.every_steps=0 evaluate.batches=1 "
        "run.threads=1 run.log_every=0 train.steps=$DOCS_STEPS")


def blocks(page):
    """[(first line's number, language, text)] of a page; an indented block would go unseen, so there may be none."""
    found, language, begin, before = [], None, 0, ""
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        fence = re.match(r"```(\S*)$", line)
        if fence and language is None:
            language, begin, text = fence[1], number + 1, []
        elif fence:
            found.append((begin, language, "\n".join(text) + "\n"))
            language = None
        elif language is not None:
            text.append(line)
        elif line.startswith("    ") and not before.strip():
            found.append((number, "indented", line))
        before = line
    if language is not None:
        found.append((begin, "unclosed", ""))
    return found


def dead_links(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / page).read_text()):
        if "://" not in target and not ((ROOT / page).parent / target).exists():
            yield target


def dead_paths(page):
    """Of `lib/x.cpp`, `tests/x.py ARGUMENT` and the like those that are no file or folder; * stands for any text."""
    for code in re.findall(r"`([^`\n]+)`", (ROOT / page).read_text()):
        path = re.match(r"(?:app|cmake|docs|inputs|jobscripts|kernels|lib|tests)/[\w./*-]*", code)
        if path and "NAME" not in path[0] and not any(ROOT.glob(path[0])):
            yield path[0]


def unsaid_errors():
    """Of the guide's table of errors those that no source file says; ... stands for anything."""
    sources = [re.sub(r'"\s*\n\s*"', "", p.read_text()).replace("\n      ", " ")
               for folder in ("app", "lib", "kernels") for p in (ROOT / folder).rglob("*.cpp")]
    literals = [m for text in sources for m in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text)]
    table = (ROOT / "docs/guide.md").read_text().split("## When something goes wrong")[1]
    quoted = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    if len(quoted) < 10:
        yield "(the table itself is not found)"
    for text in quoted:
        parts = [part.strip() for part in text.split("...")]
        if not any(re.search(".*".join(map(re.escape, parts)), literal) for literal in literals):
            yield text


def python_with_h5py():
    for candidate in (sys.executable, "/usr/bin/python3"):
        probe = [candidate, "-c", "import h5py"]
        if os.access(candidate, os.X_OK) and subprocess.run(probe, capture_output=True).returncode == 0:
            return candidate
    return None


def write_program(file, text):
    file.write_text("#!/bin/sh\n" + text)
    file.chmod(0o755)


class Scratch:
    def __init__(self, folder, program, mpiexec):
        self.folder, self.commands = folder, 0
        for name in ("inputs", "jobscripts"):
            (folder / name).symlink_to(ROOT / name)
        for name in ("build", "bin", "books"):
            (folder / name).mkdir()
        for i in range(20):
            shutil.copy(ROOT / "LICENSE", folder / f"books/{i}.txt")
        write_program(folder / "bin/mpiexec", f'exec "{mpiexec}" "$@"\n')
        write_program(folder / "build/trireme", f'[ "$1" = train ] && set -- "$@" {TINY}\nexec "{program}" "$@"\n')
        self.environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}

    def run(self, command):
        """What went wrong, or nothing."""
        self.commands += 1
        process = subprocess.Popen(command, cwd=self.folder, env={**self.environment, "DOCS_STEPS": str(2 * self.commands)},
                                   stdin=subprocess.DEVNULL, text=True, errors="replace", stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            said = process.communicate(timeout=LIMIT_S)[0]
            return "" if process.returncode == 0 else f"exit code {process.returncode}\n{said[-3000:]}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"did not end within {LIMIT_S} s\n{process.communicate()[0][-3000:]}"


def toml_file(text):
    """The name that a block has in its first line, as a comment."""
    named = re.match(r"# (\w+\.toml)\n", text)
    return named[1] if named else "mine.toml"


def perform(page, wrong, scratch):
    """The blocks of a page; wrong(line, what) for each that is."""
    unused = {begin for where, begin in NOT_RUN if where == page}
    python = python_with_h5py()
    ran, restarts = 0, {}
    for number, language, text in blocks(page):
        reason = next((begin for begin in unused if text.startswith(begin)), None)
        if reason:
            unused.remove(reason)
            print(f"docs: {page}:{number} is not run: {NOT_RUN[page, reason]}")
        elif language == "toml":
            (scratch.folder / toml_file(text)).write_text(text)
        elif language == "python" and not python:
            print(f"docs: {page}:{number} is skipped: no python3 with h5py")
        elif language == "python":
            ran += 1
            if said := scratch.run([python, "-c", text]):
                wrong(number, said)
        elif language == "sh":
            for i, command in enumerate(text.splitlines()):
                ran += 1
                if said := scratch.run(["sh", "-c", command]):
                    wrong(number + i, f"{command}\n{said}")
                elif "--restart latest" in command:
                    run = re.search(r"--run-dir (\S+)", command)[1]
                    restarts[run] = restarts.get(run, 0) + 1
                    log = (scratch.folder / run / "log").read_text()
                    if log.count("restarting from") != restarts[run]:
                        wrong(number + i, f"{command}\ndid not restart from a checkpoint:\n{log[-1000:]}")
        elif language != "text":
            wrong(number, f"a block that is {language or 'of no language'}: sh, python, toml or text between ```")
    for begin in unused:
        wrong(0, f"NOT_RUN has a block that begins with '{begin}'; the page has none")
    return ran


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    mistakes = []
    ran = 0
    with tempfile.TemporaryDirectory(prefix="docs_test.") as folder:
        scratch = Scratch(Path(folder), *(Path(a).resolve() for a in sys.argv[1:]))
        for page in PAGES:
            ran += perform(page, lambda line, what: mistakes.append(f"{page}:{line}: {what}"), scratch)
    for page in ["README.md", "CONTRIBUTING.md", *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").glob("*.md")))]:
        mistakes += [f"{page}: the link to {target} leads nowhere" for target in dead_links(page)]
        mistakes += [f"{page}: there is no {path}" for path in dead_paths(page)]
    mistakes += [f"docs/guide.md: no source says '{text}'" for text in unsaid_errors()]
    for text in mistakes:
        print(f"docs: WRONG: {text}")
    print(f"docs: {ran} commands and blocks ran, {len(mistakes)} mistakes")
    return 1 if mistakes or ran < 15 else 0


if __name__ == "__main__":
    sys.exit(main())
