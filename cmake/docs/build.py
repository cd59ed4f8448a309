#!/usr/bin/env python3
"""Builds the documents as a site with navigation and search: build.py BUILD

The site is BUILD/docs/site. Sphinx comes into BUILD/docs/venv, as requirements.txt says. A broken link, a missing anchor and a page
that docs/README.md does not list are errors.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
INDEX = "docs/README.md"
OUTSIDE = ["CONTRIBUTING.md", "CHANGELOG.md"]  # pages outside docs
FRONT = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=docs/README.html"><title>Trireme</title>\n'


def run(command, log):
    with log.open("w") as out:
        if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT).returncode != 0:
            sys.exit(f"{log.read_text()[-3000:]}\ndocs: this command failed: {' '.join(map(str, command))}\ndocs: its output is in {log}")


def sphinx(folder):
    """A Python with requirements.txt; stamped last, so that what an interruption leaves is made again."""
    python, stamp, wanted = folder / "venv/bin/python", folder / "venv/made-from.txt", (HERE / "requirements.txt").read_text()
    if not (stamp.is_file() and stamp.read_text() == wanted):
        print(f"docs: installs Sphinx into {folder / 'venv'}", flush=True)
        shutil.rmtree(folder / "venv", ignore_errors=True)
        run([sys.executable, "-m", "venv", folder / "venv"], folder / "venv.log")
        run([python, "-m", "pip", "install", "--no-input", "-r", HERE / "requirements.txt"], folder / "pip.log")
        stamp.write_text(wanted)
    return python


def navigation(index):
    """Hidden tables of contents, one for each section of the index that links to pages in tables."""
    text = ""
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        pages = re.findall(r"^\| \[[^]]*\]\(([^)#]+\.md)\)", body, re.MULTILINE)
        if pages:
            text += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "".join(f"{p}\n" for p in pages) + "```\n"
    return text


def stage(source):
    """The pages where they are in the tree, with the files that they link to. A link to a folder becomes plain text."""
    shutil.rmtree(source, ignore_errors=True)
    (source / "extra").mkdir(parents=True)
    (source / "extra/index.html").write_text(FRONT)
    shutil.copy(HERE / "conf.py", source)
    for page in [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in OUTSIDE)]:
        text = page.read_text()
        for label, target in re.findall(r"\[([^]]*)\]\(([^)#]+)[^)]*\)", text):
            file = (page.parent / target).resolve()
            if "://" in target or file.suffix == ".md" or not file.is_relative_to(ROOT) or not file.exists():
                continue
            if file.is_dir():
                text = text.replace(f"[{label}]({target})", label)
            else:
                copy = source / file.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copy)
        if page == ROOT / INDEX:
            text += navigation(text)
        copy = source / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).resolve() / "docs"
    folder.mkdir(parents=True, exist_ok=True)
    python = sphinx(folder)
    stage(folder / "source")
    shutil.rmtree(folder / "site", ignore_errors=True)
    run([python, "-m", "sphinx", "--builder", "html", "--fail-on-warning", "--keep-going", "--nitpicky", "--quiet",
         "--doctree-dir", folder / "doctrees", folder / "source", folder / "site"], folder / "sphinx.log")
    print(f"docs: {folder / 'site/index.html'}")


if __name__ == "__main__":
    main()
