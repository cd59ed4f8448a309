#!/usr/bin/env python3
"""Writes docs/reference/commands.md from the program's --help: reference.py TRIREME [--check]

With --check, writes nothing, and fails if the page differs from what the program says.
"""
import difflib
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/commands.md"
VALUES = {"NONNEGATIVE": "0 or greater", "POSITIVE": "greater than 0"}
COLUMN = 30  # of --help, where meanings begin
RENEW = "tests/reference.py build/trireme"
HEAD = """# Commands

<!-- Generated from the program's --help by tests/reference.py; change the text in app. -->

This page lists all commands of `trireme` and their options. `trireme COMMAND --help` prints the same text.
[exit-codes.md](exit-codes.md) lists the exit codes.

| command | what it does |
|---|---|
"""


def help_of(program, *command):
    return subprocess.run([program, *command, "--help"], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def entries(text):
    """[(name, meaning)] of a section of --help: the meaning begins in column 30, on the next line if the name is too long."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = []
    for line, after in zip(lines, [*lines[1:], ""]):
        if not line[:COLUMN].strip():
            found[-1][1] = f"{found[-1][1]} {line.strip()}".strip()
        elif not after[:COLUMN].strip() and after:
            found.append([line.strip(), ""])
        else:
            found.append([line[:COLUMN].strip(), line[COLUMN:].strip()])
    return found


def sections(text):
    """The description and the usage of a command, {title: entries}, and the text at the end."""
    parts = re.split(r"\n\n(\w+):\n", text.rstrip("\n") + "\n")
    description, usage = parts[0].split("\nUsage: ")
    parts[-1], _, end = parts[-1].partition("\n\n")
    return description.strip(), usage.strip(), {title: entries(body) for title, body in zip(parts[1::2], parts[2::2])}, end.strip()


def cell(text):
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("<", "\\<")


def option(name):
    """`--restart TEXT` and what else its name says."""
    words, *conditions = re.split(r" (?=(?:Excludes|Needs): )", name)
    required = words.endswith(" REQUIRED")
    words, _, default = words.removesuffix(" REQUIRED").partition("=")
    words, _, values = words.partition(":")
    values = VALUES.get(values, re.sub(r"^\w+ in \[(\S+) - (\S+)\]$", r"\1 to \2", values).strip("{}").replace(",", ", "))
    said = [f"`{words}`".replace("|", "\\|")]
    if required:
        said.append("Required.")
    if values:
        said.append(f"Values: {cell(values)}.")
    if default:
        said.append(f"Default: `{default}`.")
    for condition in conditions:
        kind, _, others = condition.partition(": ")
        said.append(f"{kind} {', '.join(f'`{o}`' for o in others.split())}.")
    return said[0], " ".join(said[1:])


def page(program):
    _, _, top, _ = sections(help_of(program))
    text = HEAD + "".join(f"| [`{name}`](#{name}) | {cell(meaning)} |\n" for name, meaning in top["Subcommands"])
    text += "\n`trireme --version` prints the same as `trireme version`.\n"
    for name, _ in top["Subcommands"]:
        said = help_of(program, name)
        description, usage, parts, end = sections(said)
        if extra := set(parts) - {"Positionals", "Options"}:
            sys.exit(f"reference: --help of {name} has a section {extra}")
        text += f"\n## {name}\n\n{description}.\n\nUsage: `{usage}`\n\n| argument | meaning | conditions |\n|---|---|---|\n"
        for argument, meaning in parts.get("Positionals", []) + parts["Options"]:
            if argument != "-h,--help":
                shown, conditions = option(argument)
                text += f"| {shown} | {cell(meaning)} | {conditions} |\n"
        if end:
            text += f"\n{end}\n"
        plain = text.replace("\\", "")
        if lost := [word for word in re.findall(r"--[\w-]+", said) if word not in plain]:
            sys.exit(f"reference: of --help of {name} the page lacks {lost}")
    return text


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--check"]):
        sys.exit(__doc__)
    wanted = page(str(Path(sys.argv[1]).resolve()))
    if len(sys.argv) == 2:
        PAGE.write_text(wanted)
        return
    found = PAGE.read_text() if PAGE.is_file() else ""
    if found != wanted:
        for line in list(difflib.unified_diff(found.splitlines(), wanted.splitlines(), "docs/reference/commands.md", "--help", lineterm=""))[:40]:
            print(line)
        sys.exit(f"reference: docs/reference/commands.md differs from --help. To renew the page, run {RENEW}")


if __name__ == "__main__":
    main()
