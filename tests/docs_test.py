#!/usr/bin/env python3
"""Runs the documents' code blocks word for word, in order, in a scratch folder: docs_test.py TRIREME MPIEXEC

A block of `toml` is the deck that the next ones call mine.toml, unless its first line is a comment with another name. A block of
`jinja` is the chat template that its first line names. `train`
gets a tiny model and two more steps at each call, whatever the deck says; all else is the program as it is. Links to files have
to lead somewhere, and so do the paths that pages name. What a tutorial shows as output has to be what its command prints, but for
numbers, or, in a log line, what some source file can say. Commands that submit a job are not run, but have to name a job script,
options of sbatch that the script names, a deck, options of `train` and deck keys that exist.
"""
import functools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", "docs/checkpoint.md", "docs/exchange.md", "docs/token_file.md", "docs/decks.md", "docs/planning.md",
         "docs/long-contexts.md", "docs/conversations.md", "docs/finetune.md", "docs/adapters.md", "docs/dpo.md",
         "docs/distillation.md", "docs/packing.md", "docs/experts.md", "docs/optimizers.md", "docs/tutorials/first-model.md",
         "docs/tutorials/lora-chat.md", "docs/tutorials/slurm.md", "docs/tutorials/choosing-a-grid.md", "docs/results.md",
         "docs/best-checkpoint.md", "docs/samples.md", "docs/data.md", "docs/profile.md", "docs/jobs.md", "docs/install.md",
         "docs/reference/exit-codes.md", "docs/reference/tables.md", "docs/admin.md"]  # the last asks how a run of exit-codes.md ended
ERRORS = "docs/reference/errors.md"
LIMIT_S = 240  # of a block

# How a block begins that cannot run here, and why.
NOT_RUN = {
    ("README.md", "make run"): "tests/bare_debian_test.sh runs them on a system of their own",
    ("README.md", "TRIREME="): "tests/jobs/slurm_test.py submits jobs",
    ("docs/finetune.md", "build/trireme import theirs"): "tests/hf/guide_test.py runs the whole page with a model of transformers",
    **{("docs/finetune.md", begin): "tests/hf/guide_test.py does"
       for begin in ("build/trireme tokenize talks", "build/trireme check inputs/lora", "build/trireme export runs/first",
                     "build/trireme plan mine.toml --ranks 2", "build/trireme tokenize pairs", "build/trireme deck learning_rate")},
    ("docs/finetune.md", "from transformers"): "tests/hf/guide_test.py does",
    ("docs/adapters.md", "build/trireme check lora.toml"): "tests/hf/guide_test.py does",
    ("docs/adapters.md", "mpiexec -n 2 build/trireme train lora_more.toml"): "tests/hf/guide_test.py does",
    ("docs/adapters.md", "build/trireme import theirs more"): "tests/hf/guide_test.py does",
    ("docs/adapters.md", "from peft"): "tests/hf/guide_test.py does",
    ("docs/adapters.md", "build/trireme import lora"): "tests/hf/guide_test.py does",
    ("docs/dpo.md", "build/trireme import lora-merged"): "tests/hf/guide_test.py does",
    ("docs/adapters.md", "mpiexec -n 2 build/trireme train lora.toml --restart"): "tests/hf/guide_test.py does",
    ("docs/adapters.md", "mpiexec -n 2 build/trireme train lora.toml adapter.base"): "tests/hf/guide_test.py does",
    ("docs/experts.md", "build/trireme import theirs"): "tests/hf/guide_test.py runs the whole page with a model of transformers",
    ("docs/experts.md", "from transformers"): "tests/hf/guide_test.py does",
    ("docs/install.md", "trireme tokenize"): "tests/install_test.sh runs them in an empty folder",
    ("docs/checkpoint.md", "mpiexec -n 3 --hosts"): "it needs three nodes; tests/program/cases_rescue.py does the same on one machine",
    ("docs/token_file.md", "sbatch"): "tests/program/cases_tokens.py runs the script with stand-ins for Slurm",
    **{("docs/jobs.md", begin): "tests/jobs/slurm_test.py submits jobs" for begin in ("sbatch", "TRIREME_SPARES=1 sbatch --no-kill", "TRIREME_SPARES=1 sbatch --dependency")},
    ("docs/jobs.md", "jobscripts/train_hosts.sh"): "tests/jobs/recovery_test.py runs the script with stand-ins",
    ("docs/tutorials/first-model.md", "make build"): "tests/bare_debian_test.sh runs it on a system of its own",
    ("docs/tutorials/lora-chat.md", "from transformers"): "tests/hf/guide_test.py does",
    ("docs/tutorials/choosing-a-grid.md", "build/trireme calibrate"): "it takes minutes; tests/calibrate measures",
    ("docs/tutorials/choosing-a-grid.md", "build/trireme plan inputs/quickstart.toml"): "it needs the machine file of the block before",
    **{("docs/tutorials/slurm.md", begin): "tests/jobs/slurm_test.py submits jobs"
       for begin in ("export TRIREME", "sbatch --nodes=2", "squeue", "scancel --signal", "cat trireme-1.out", "scancel 1",
                     "cat runs/batch", "sbatch --nodes=1")},
}

# Commands that fail, as their page says. A run that is to be stopped early has no end of its own.
STOPPED_EARLY = 75
EXIT_CODES = {
    ("docs/tutorials/choosing-a-grid.md", "--device-memory 10G"): 1,
    ("docs/reference/exit-codes.md", "missing.tokens"): 1,
    ("docs/reference/exit-codes.md", "--no-such-option"): 2,
    ("docs/reference/exit-codes.md", "--time-limit 1 "): STOPPED_EARLY,
    ("docs/reference/exit-codes.md", "runs/missing"): 2,
}

# Files whose columns the page TABLES lists, by their titles there.
TABLES = "docs/reference/tables.md"
HEADERS = {"history.csv": "runs/dpo/history.csv", "evaluation.csv": "runs/dpo/evaluation.csv",
           "routing.csv": "runs/experts/routing.csv", "digests.csv": "runs/digests/digests.csv"}

# Behind the words of `train`; DOCS_STEPS grows with each training. Decks that compare evaluations make theirs.
TINY = ("model.layers=2 model.width=32 model.heads=2 model.context=$DOCS_CONTEXT $DOCS_EVALUATE evaluate.batches=1 "
        "run.threads=1 run.log_every=$DOCS_LOG_EVERY train.steps=$DOCS_STEPS")
TUTORIALS = "docs/tutorials/"


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


def anchors(file):
    """The names of a page's headings in links."""
    text = re.sub(r"^```.*?^```", "", file.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)", text, re.MULTILINE)}


def dead_links(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", (ROOT / page).read_text()):
        file = (ROOT / page).parent / target if target else ROOT / page
        if "://" not in target and (not file.exists() or anchor and anchor not in anchors(file)):
            yield f"{target}#{anchor}"


def dead_paths(page):
    """Of `lib/x.cpp`, `tests/x.py ARGUMENT` and the like those that are no file or folder; * stands for any text."""
    for code in re.findall(r"`([^`\n]+)`", (ROOT / page).read_text()):
        path = re.match(r"(?:app|cmake|docs|inputs|jobscripts|kernels|lib|tests)/[\w./*-]*", code)
        if path and "NAME" not in path[0] and not any(ROOT.glob(path[0])):
            yield path[0]


@functools.cache
def source_literals():
    sources = [re.sub(r'"\s*\n\s*"', "", p.read_text()).replace("\n      ", " ")
               for folder in ("app", "lib", "kernels") for p in (ROOT / folder).rglob("*.cpp")]
    return [m for text in sources for m in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text)]


@functools.cache
def log_lines():
    """What source files can say, as patterns; {} stands for anything."""
    parts = [re.split(r"\{[^{}]*\}", literal) for literal in source_literals()]
    return [re.compile(".*".join(map(re.escape, p)), re.DOTALL) for p in parts if re.search(r"[a-z]{3}", "".join(p))]


def unsaid_errors():
    """Of the table of errors those that no source file says; ... stands for anything."""
    literals = source_literals()
    table = (ROOT / ERRORS).read_text()
    quoted = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    if len(quoted) < 10:
        yield "(the table itself is not found)"
    for text in quoted:
        parts = [part.strip() for part in text.split("...")]
        if not any(re.search(".*".join(map(re.escape, parts)), literal) for literal in literals):
            yield text


@functools.cache
def names_of_command(command):
    """The options of a command and, for `train`, all deck keys as section.key."""
    own = re.search(rf"^## {command}$(.*?)^## ", (ROOT / "docs/reference/commands.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    sections = re.split(r"^## \[+(\w+)\]+$", (ROOT / "docs/deck.md").read_text(), flags=re.MULTILINE)
    keys = {f"{section}.{key}" for section, rows in zip(sections[1::2], sections[2::2])
            for key in re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)}
    return set(re.findall(r"^\| `(?:-\w, ?)?(--[\w-]+)", own, re.MULTILINE)) | (keys if command == "train" else set())


def submissions(page):
    """(line's number, script, its options of sbatch, its arguments) of each command that submits a job script."""
    for begin, language, text in blocks(page):
        for number, line in enumerate(text.splitlines(), begin):
            if language == "sh" and ".sbatch " in line:
                words = shlex.split(line, comments=True)
                at = next(at for at, word in enumerate(words) if word.endswith(".sbatch"))
                yield number, words[at], [word.split("=")[0] for word in words[:at] if word.startswith("--")], words[at + 1:]


def unknown_in_submission(script, options, arguments):
    if not (ROOT / script).is_file():
        return [script]
    known = set(re.findall(r"--[a-z-]+", (ROOT / script).read_text()))
    unknown = [option for option in options if option not in known]
    if "/" in arguments[0] and not (ROOT / arguments[0]).is_file():
        unknown.append(arguments[0])
    names = [word.split("=")[0] for word in arguments if re.match(r"--|\w+\.\w+=", word)]
    return unknown + [name for name in names if name not in names_of_command("tokenize" if "tokenize" in script else "train")]


def wrong_columns(folder):
    """Titles of tables whose columns are not those of the file that a page's commands wrote."""
    sections = re.split(r"^## ", (ROOT / TABLES).read_text(), flags=re.MULTILINE)
    listed = {section.split("\n")[0]: re.findall(r"^\| `(\w+)`", section, re.MULTILINE) for section in sections}
    for title, file in HEADERS.items():
        with open(folder / file) as f:
            if (header := f.readline().strip().split(",")) != listed.get(title):
                yield f"{title}: {listed.get(title)}, but {file} has {header}"


@functools.cache
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
        self.folder, self.trainings, self.said = folder, 0, ""
        for name in ("inputs", "jobscripts", "lib"):
            (folder / name).symlink_to(ROOT / name)
        for name in ("build", "bin", "books"):
            (folder / name).mkdir()
        for i in range(20):
            shutil.copy(ROOT / "LICENSE", folder / f"books/{i}.txt")
        write_program(folder / "bin/mpiexec", f'exec "{mpiexec}" "$@"\n')
        write_program(folder / "build/trireme", f'[ "$1" = train ] && set -- "$@" {TINY}\nexec "{program}" "$@"\n')
        self.environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}

    def run(self, command, page, code=0):
        """What went wrong, or nothing. self.said is what it printed."""
        self.trainings += any("train " in word for word in command)
        tutorial = page.startswith(TUTORIALS)
        self.environment.update(DOCS_STEPS="1000000" if code == STOPPED_EARLY else str(2 * self.trainings), DOCS_CONTEXT="64" if tutorial else "16",
                                DOCS_LOG_EVERY="1" if tutorial else "0",
                                DOCS_EVALUATE="" if any("best.toml" in word for word in command) else "evaluate.every_steps=0")
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment,
                                   stdin=subprocess.DEVNULL, text=True, errors="replace", stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            self.said = said = process.communicate(timeout=LIMIT_S)[0]
            return "" if process.returncode == code else f"exit code {process.returncode}\n{said[-3000:]}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"did not end within {LIMIT_S} s\n{process.communicate()[0][-3000:]}"


def file_of(text):
    """The name that a block has in its first line, as a comment."""
    named = re.match(r"(?:# |\{#- )(\w+\.(?:toml|jinja))(?: -#\})?\n", text)
    return named[1] if named else "mine.toml"


def masked(line):
    """Without numbers and their units, folders and the widths of columns, and 1 rank like 2 ranks."""
    line = re.sub(r"(/[\w.-]+)+/(?=runs/|theirs)", "", line)
    line = re.sub(r"\d[\d.,:e-]*( ?(GiB|MiB|KiB|GB|MB|KB|TB|ms|s|M|K|B|TFLOP)\b)?", "#", line)
    return re.sub(r"# (\w+?)s\b", r"# \1", " ".join(line.split()))


def unsaid_output(text, printed):
    """Lines of shown output that were not printed and that no source file says; where nothing ran (None), of log lines."""
    nothing_ran = printed is None
    printed = {masked(line) for line in (printed or "").splitlines()}
    for line in text.splitlines():
        if line == "..." or masked(line) in printed:
            continue
        stamped = re.match(r"[\d-]{10} [\d:]{8} \w+ (.*)", line)
        if not stamped and nothing_ran:
            continue
        if not stamped or not any(pattern.fullmatch(stamped[1]) for pattern in log_lines()):
            yield line


def perform(page, wrong, scratch):
    """The blocks of a page; wrong(line, what) for each that is."""
    unused = {begin for where, begin in NOT_RUN if where == page}
    python = python_with_h5py()
    ran, restarts = 0, {}
    printed = None  # by the block of commands before, if its output is to be as shown
    for number, language, text in blocks(page):
        if language == "text" and page.startswith(TUTORIALS):
            for line in unsaid_output(text, printed):
                wrong(number, f"shows what is not printed: {line}\n{(printed or '')[-3000:]}")
        printed = None
        reason = next((begin for begin in unused if text.startswith(begin)), None)
        if reason:
            unused.remove(reason)
            print(f"docs: {page}:{number} is not run: {NOT_RUN[page, reason]}")
        elif language in ("toml", "jinja"):
            if language == "toml" and text.startswith(f"# {file_of(text)}") and "[model]" not in text:
                wrong(number, f"{file_of(text)} is shown as a deck of its own, but has no [model]")
            (scratch.folder / file_of(text)).write_text(text)
        elif language == "python" and not python:
            print(f"docs: {page}:{number} is skipped: no python3 with h5py")
        elif language == "python":
            ran += 1
            if said := scratch.run([python, "-c", text], page):
                wrong(number, said)
        elif language == "sh":
            printed = None if "trireme generate" in text else ""
            for i, command in enumerate(text.splitlines()):
                ran += 1
                code = next((c for (where, part), c in EXIT_CODES.items() if where == page and part in command), 0)
                said = scratch.run(["sh", "-c", command], page, code)
                printed = None if printed is None else printed + scratch.said
                if said:
                    wrong(number + i, f"{command}\n{said}")
                elif "--restart latest" in command:
                    run = re.search(r"--run-dir (\S+)", command)[1]
                    restarts[run] = restarts.get(run, 0) + 1
                    log = (scratch.folder / run / "log").read_text()
                    if log.count("restarting from") != restarts[run]:
                        wrong(number + i, f"{command}\ndid not restart from a checkpoint:\n{log[-1000:]}")
        elif language != "text":
            wrong(number, f"a block that is {language or 'of no language'}: sh, python, toml, jinja or text between ```")
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
        mistakes += [f"{TABLES}: {what}" for what in wrong_columns(scratch.folder)]
    submitted = 0
    for page in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").rglob("*.md")))]:
        mistakes += [f"{page}: the link to {target} leads nowhere" for target in dead_links(page)]
        if page != "CHANGELOG.md":  # it tells of the past
            mistakes += [f"{page}: there is no {path}" for path in dead_paths(page)]
        for number, *command in submissions(page):
            submitted += 1
            mistakes += [f"{page}:{number}: submits a job with {name}, which does not exist" for name in unknown_in_submission(*command)]
    if submitted < 5:
        mistakes.append(f"{submitted} commands that submit a job were found, which is too few")
    mistakes += [f"{ERRORS}: no source says '{text}'" for text in unsaid_errors()]
    for text in mistakes:
        print(f"docs: WRONG: {text}")
    print(f"docs: {ran} commands and blocks ran, {len(mistakes)} mistakes")
    return 1 if mistakes or ran < 15 else 0


if __name__ == "__main__":
    sys.exit(main())
