#!/usr/bin/env python3
"""The progress line under a launcher: there when the launcher's stderr is a terminal, nowhere else.

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
        os.environ.pop("TRIREME_TERMINAL", None)
        os.execvp("sh", ["sh", "-c", command])
    shown = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # its last process is gone
            break
        if not piece:
            break
        shown += piece
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
        for command in (train, ranks):
            shown = on_terminal(command, folder)
            assert BAR in shown and b"lr " in shown and b"left" in shown, f"no bar: {command}: {shown}"
        for command in (f"{ranks} 2> said", f"{ranks} > said 2>&1", f"{ranks} 2>&1 | cat > said",
                        f"'{mpiexec}' -n 2 sh -c \"{train} 2>&1 | cat > said.\\$PMI_RANK\""):
            shown = on_terminal(command, folder)
            files = b"".join(f.read_bytes() for f in folder.glob("said*"))
            assert b"\x1b" not in files and BAR not in shown, f"control characters: {command}: {files + shown}"
            assert b"step 6" in files, f"nothing was said: {command}: {files}"
    print("a bar on terminals alone: passed")


if __name__ == "__main__":
    main()
