#!/usr/bin/env python3
"""The progress line: where stderr is a terminal, which is none of a launcher's ranks, or where it is asked for.

  tests/terminal/pty_test.py PROGRAM MPIEXEC      ends with 77 where there are no pseudo-terminals
"""
import os
import pathlib
import pty
import subprocess
import sys
import tempfile

DECK = """
[model]
layers = 1
width = 16
heads = 2
context = 16
[data]
path = "text.tokens"
[train]
batch = 2
microbatch = 1
steps = 6
[run]
backend = "host"
threads = 1
"""
BAR = b"\x1b[K[####"


def on_terminal(command, where):
    """What a terminal shows of a shell's command."""
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(where)
        os.execvp("sh", ["sh", "-c", command])
    shown = b""
    try:
        while piece := os.read(master, 65536):
            shown += piece
    except OSError:  # its last process is gone
        pass
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, f"{command}: {shown.decode(errors='replace')}"
    return shown


def why_no_terminals():
    try:
        for end in pty.openpty():
            os.close(end)
    except OSError as e:
        return f"there are no pseudo-terminals here (/dev/ptmx, /dev/pts): {e}"
    return ""


def main():
    if why := why_no_terminals():
        print(f"terminal: skipped: {why}")
        sys.exit(77)
    program, mpiexec = (str(pathlib.Path(p).resolve()) if os.sep in p else p for p in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog, " * 200)
        (folder / "deck.toml").write_text(DECK)
        subprocess.run([program, "tokenize", "text.txt", "--output", "text.tokens"], cwd=folder, check=True, capture_output=True)
        train = f"'{program}' train deck.toml --overwrite --run-dir run"
        ranks = f"'{mpiexec}' -n 2 {train}"
        for command, bar in ((train, True), (f"{train} --progress no", False), (f"{train} 2>&1 | cat", False),
                             (ranks, False), (f"{ranks} --progress yes", True)):
            shown = on_terminal(command, folder)
            assert (BAR in shown and b"lr " in shown and b"left" in shown) == bar and (b"\x1b[K" in shown) == bar, f"{command}: {shown}"
            assert bar or b"step 6" in shown, f"nothing was said: {command}: {shown}"
    print("a bar on terminals and where it is asked for: passed")


if __name__ == "__main__":
    main()
