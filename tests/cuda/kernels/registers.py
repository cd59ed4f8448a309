#!/usr/bin/env python3
"""Reads the compiler's reports (nvcc -Xptxas -v) of the device kernels.

  tests/cuda/kernels/registers.py REPORT...            fails when a kernel of ours spills registers to memory
  tests/cuda/kernels/registers.py --table REPORT...    the same, as the table in docs/kernels.md
  tests/cuda/kernels/registers.py --docs REPORT...     fails too when the table there is another; TRIREME_RENEW_DOCS=1 writes it
  tests/cuda/kernels/registers.py --self-test
"""
import os
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs/kernels.md"
ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def demangled(names):
    out = subprocess.run(["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True)
    return out.stdout.splitlines()


def kernels(text):
    """name, architecture, registers, shared bytes, stack bytes, spilled bytes of each entry in a report."""
    found, entry = [], None
    for line in text.splitlines():
        if m := ENTRY.search(line):
            entry = {"name": m[1], "arch": m[2], "registers": None, "shared": 0, "stack": 0, "spilled": 0}
            found.append(entry)
        elif entry and (m := FRAME.search(line)):
            entry["stack"], entry["spilled"] = int(m[1]), int(m[2]) + int(m[3])
        elif entry and (m := USED.search(line)):
            entry["registers"] = int(m[1])
            if s := SHARED.search(line):
                entry["shared"] = int(s[1])
    for k, name in zip(found, demangled([k["name"] for k in found])):
        k["name"] = re.sub(r"trireme::(cuda::)?|\(anonymous namespace\)::|^void ", "", name)
        k["ours"] = "trireme::cuda::" in name and not name.startswith(("cub::", "void cub::"))
    return found


def table(rows):
    lines = [f"| `{k['name']}` | {k['registers']} | {k['shared'] or ''} |" for k in rows]
    return "\n".join(["| kernel | registers | shared memory |", "|---|---|---|", *lines]) + "\n"


def check_docs(rows):
    text = DOCS.read_text()
    kept = text[: text.index("| kernel |")] + table(rows)
    if os.environ.get("TRIREME_RENEW_DOCS"):
        DOCS.write_text(kept)
    elif text != kept:
        sys.exit(f"{DOCS} is not what the compiler reports: TRIREME_RENEW_DOCS=1 with this command renews it")


def self_test():
    report = """ptxas info    : Compiling entry function '_ZN7trireme4cuda3oneEv' for 'sm_90'
ptxas info    : Function properties for _ZN7trireme4cuda3oneEv
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 8 bytes stack frame, 1024 bytes smem, 400 bytes cmem[0]
"""
    got = kernels(report)
    assert [(k["name"], k["arch"], k["registers"], k["shared"], k["spilled"], k["ours"]) for k in got] == [
        ("one", "sm_90", 40, 1024, 16, True)], got
    assert kernels("nothing") == []
    print("registers.py reads a report and sees its spills")


def main():
    if "--self-test" in sys.argv:
        return self_test()
    files = [Path(a) for a in sys.argv[1:] if not a.startswith("--")]
    rows = sorted((k for f in files for k in kernels(f.read_text())), key=lambda k: k["name"])
    rows = [k for k in rows if k["ours"]]
    if not rows or any(k["registers"] is None for k in rows):
        sys.exit("no kernel in these reports: was nvcc called with -Xptxas -v?")
    if "--table" in sys.argv:
        print(table(rows), end="")
    if "--docs" in sys.argv:
        check_docs(rows)
    bad = [k for k in rows if k["spilled"]]
    for k in bad:
        print(f"{k['name']} for {k['arch']}: {k['spilled']} bytes of registers spilled")
    print(f"{len(rows)} kernels, most registers {max(k['registers'] for k in rows)}, {len(bad)} spill", file=sys.stderr)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
