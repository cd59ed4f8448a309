#!/usr/bin/env python3
"""Reads the machine code of the host's kernels and names the functions whose loops work on one number at a time.

  tests/kernels/vector_code.py OBJECT...   fails when there is one
  tests/kernels/vector_code.py --self-test

A compiler leaves a loop scalar without a word, at a fraction of the speed. The rest of a vectorised loop is scalar, too: a
function counts when its innermost loops hold arithmetic on single floats and none holds any on vectors of them.
"""
import re
import subprocess
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
INSTRUCTION = re.compile(r"^\s+([0-9a-f]+):\s+(\S+)(?:\s+([0-9a-f]+)\b)?")
ARITHMETIC = re.compile(r"^v?(?:add|sub|mul|div|sqrt|min|max|fn?m(?:add|sub)(?:132|213|231))(s|p)([sd])$")

# Scalar on purpose. The losses of rows are added in their order, in double precision. Dropout's run() computes 1 / (1 - p) once,
# between jumps that look like a loop; its loops are functions of their own.
SCALAR = ("trireme::host::run(trireme::kernel::CrossEntropy const&", "trireme::host::run(trireme::kernel::RouterLosses const&",
          "trireme::host::run(trireme::kernel::Dropout const&")


def functions(listing):
    """name, [(address, operation, address it jumps to or None)] of each; clones share a name."""
    found = []
    for line in listing.splitlines():
        if m := FUNCTION.match(line):
            found.append((m[1], []))
        elif found and (m := INSTRUCTION.match(line)):
            target = int(m[3], 16) if m[3] and m[2].startswith("j") else None
            found[-1][1].append((int(m[1], 16), m[2], target))
    return found


def innermost_loops(code):
    """The loops of a function that hold no other: a jump back, and what stands between."""
    loops = {(to, at) for at, _, to in code if to is not None and code[0][0] <= to <= at}
    inner = [l for l in loops if not any(o != l and l[0] <= o[0] and o[1] <= l[1] for o in loops)]
    return [[op for at, op, _ in code if first <= at <= last] for first, last in inner]


def kinds(code):
    """How often the innermost loops of a function compute on one number, and on vectors of them."""
    single = packed = 0
    for loop in innermost_loops(code):
        for op in loop:
            if m := ARITHMETIC.match(op):
                single += m[1] == "s"
                packed += m[1] == "p"
    return single, packed


def scalar_functions(listing):
    for name, code in functions(listing):
        single, packed = kinds(code)
        if single and not packed and not name.startswith(SCALAR):
            yield name, single


def disassembled(path):
    return subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", path], capture_output=True, text=True,
                          check=True).stdout


def self_test():
    vectors = "0 <vectors>:\n  0:\tvmulps %a\n  8:\tjne    0 <v>\n c:\tvmulss %a\n  10:\tjne    c <v+0xc>\n"
    single = "0 <single>:\n  0:\tvmulps %a\n  4:\tvfmadd231ss %a\n  8:\tjne    4 <s>\n"
    nested = "0 <nested>:\n  0:\tvmulps %a\n  4:\tvmulss %a\n  8:\tjne    4 <s>\n c:\tjmp    0 <s>\n"
    forward = "0 <forward>:\n  0:\tvmulss %a\n  4:\tje     8 <f>\n  8:\tret\n"
    found = [name for name, _ in scalar_functions("\n".join([vectors, single, nested, forward]))]
    assert found == ["single", "nested"], found


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    seen, bad = 0, []
    for path in sys.argv[1:]:
        listing = disassembled(path)
        seen += sum(kinds(code)[1] > 0 for _, code in functions(listing))
        bad += [f"{path}: {name}: {n} operations on single numbers in its loops, none on vectors" for name, n
                in scalar_functions(listing)]
    if not seen:
        sys.exit("no vectorised loop in any object: these are not the host's kernels, or not optimised")
    print("\n".join(bad) if bad else f"{seen} functions with vectorised loops")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
