#!/usr/bin/env python3
"""Tests Machine.plan() with a fake trireme program that also prints a warning."""
import sys
import tempfile
from pathlib import Path

from machine import Failed, Machine

TRIREME = """#!/bin/sh
echo "2026-01-01 00:00:00 warning: cores are idle" >&2
[ "$ENDING" = 0 ] && echo '{"ranks": [3]}'
exit $ENDING
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder) / "build"
        build.mkdir()
        (build / "quickstart.tokens").write_text("")
        program = build / "trireme"
        mistakes = []
        for ending in (0, 1):
            program.write_text(TRIREME.replace("$ENDING", str(ending)))
            program.chmod(0o755)
            try:
                got = Machine(build, "host", Path(folder), 60, 1, [], None).plan(1)
            except Failed as e:
                got = str(e)
            good = got == {"ranks": [3]} if ending == 0 else "code 1" in got and "cores are idle" in got
            mistakes += [] if good else [f"ending {ending}: {got}"]
    print("\n".join(mistakes) or "gpu-test reads plans of programs that warn")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
