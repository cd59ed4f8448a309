#!/usr/bin/env python3
"""Digests of short trainings, to show that a change leaves the numbers as they are, bit for bit.

  tests/same_bits.py BINARY > FILE           a line for each training of a fixed table
  tests/same_bits.py BINARY --compare FILE   names the trainings that differ from FILE; exit code 1 when there are any
  tests/same_bits.py OLD NEW                 the same for two binaries

A line has digests of the last checkpoint's weights and optimizer state, of history.csv's loss, grad_norm, lr and
bytes_sent, and of evaluation.csv. Digests of two kinds of CPU differ: take FILE on the machine where it is compared.
"""
import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "program"))
from reading import Failed, cpu, digest_run  # noqa: E402
from trainings import CASES, Trainings, add_options  # noqa: E402


def digest(place, case):
    """The fields of a case's line."""
    place.write("deck.toml", case.text())
    shutil.rmtree(place / "run", ignore_errors=True)
    if case.then:
        place.carry_out(case.name, case.ranks, case.overrides + ["checkpoint.every_steps=2", "checkpoint.keep_last=0"])
        shutil.rmtree(place / "run/checkpoints/step-00000004")
        of_grid = ("parallel.", "zero.")
        kept = [o for o in case.overrides if not case.then[1] or not o.startswith(of_grid)]
        place.carry_out(case.name, case.then[0], [*kept, *case.then[1], "--restart", "latest"])
    else:
        place.carry_out(case.name, case.ranks, case.overrides)
    return digest_run(place / "run")


def lines_of(binary, options, show):
    """{name: fields} of all cases, shown as they come."""
    name, flags, has_bf16 = cpu()
    lines = {"#cpu": f"{name} {flags}"}
    show(f"#cpu {lines['#cpu']}")
    with tempfile.TemporaryDirectory(prefix="same_bits.") as work:
        place = Trainings(binary, work, options)
        for case in CASES:
            if options.only and case.name not in options.only:
                continue
            # Where bf16 has no vector instructions the host backend refuses it.
            lines[case.name] = "left-out" if case.bf16() and not has_bf16 else digest(place, case)
            show(f"{case.name} {lines[case.name]}")
    return lines


def read_lines(file):
    lines = {}
    for line in Path(file).read_text().splitlines():
        name, _, fields = line.partition(" ")
        lines[name] = fields
    return lines


def differences(old, new):
    """A text for each case that is not the same in both."""
    if old.get("#cpu") != new.get("#cpu"):
        return [f"the CPUs differ, and with them the bits: {old.get('#cpu')}, now {new.get('#cpu')}"]
    found = []
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            found.append(f"{name}: only in the {'new' if name not in old else 'old'} one")
        elif old[name] != new[name]:
            a, b = (dict(f.partition("=")[::2] for f in lines[name].split()) for lines in (old, new))
            found.append(f"{name}: {', '.join(k for k in sorted(a.keys() | b.keys()) if a.get(k) != b.get(k))}")
    return found


def report(old, new):
    found = differences(old, new)
    for text in found:
        print(f"DIFFERS {text}")
    print(f"same_bits: {len(new) - 1} trainings, {len(found)} differ")
    return 1 if found else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("binary", nargs="*", help="one or two builds of trireme")
    p.add_argument("--compare", metavar="FILE", help="lines of an earlier call")
    p.add_argument("--only", action="append", metavar="NAME", help="this training; may be given again")
    add_options(p)
    options = p.parse_args()
    if not options.binary or len(options.binary) > 2 or (len(options.binary) == 2 and options.compare):
        p.error("one binary, or two, or one and --compare FILE")
    unknown = set(options.only or []) - {case.name for case in CASES}
    if unknown:
        p.error(f"no training is called {', '.join(sorted(unknown))}")
    old = None
    if options.compare:
        old = read_lines(options.compare)
        if options.only:
            old = {name: fields for name, fields in old.items() if name in options.only or name == "#cpu"}
    elif len(options.binary) == 2:
        old = lines_of(options.binary[0], options, lambda line: None)
    if old is None:
        lines_of(options.binary[0], options, lambda line: print(line, flush=True))
        return 0
    return report(old, lines_of(options.binary[-1], options, lambda line: None))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as e:
        print(f"same_bits: {e}", file=sys.stderr)
        sys.exit(2)
