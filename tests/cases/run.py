#!/usr/bin/env python3
"""Runs a GoogleTest program in one process: tests/cases/run.py [options] PROGRAM

A case that crashes or does not end is named and counts as failed; what has not run by then runs in a new process. Prints what
failing cases said, names the skipped ones, and ends with "N passed, N failed, N skipped".
  --cases PATTERN   as behind --gtest_filter=: these alone
  --launch COMMAND  what stands before PROGRAM, such as "mpiexec -n 4"
  --limit S         seconds that a case may take
  --part I/N        every N-th case alone, from the I-th on (1 is the first)
  --counts FILE     writes "PASSED FAILED SKIPPED" there, and a line for each case: seconds, verdict, name
"""
import argparse
import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
import time

ENOUGH = 3  # cases that hang: then whatever is wrong is known, and the rest is not waited for
BEGINS = re.compile(r"\[ RUN      \] (\S+)$")
ENDS = re.compile(r"\[ *(OK|FAILED|SKIPPED) *\] ([^\s,]+)")  # what it was tried with may follow, on several lines
ELSEWHERE = re.compile(r"\[  ELSEWHERE \] (\S+) failed")  # on another rank than the one that reports
OUTPUT_TAIL = 400  # lines of a failing case that are shown


def listed(program, pattern):
    """Names of the program's cases that fit."""
    found = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={pattern}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    names, suite = [], None
    for line in found.stdout.splitlines():
        words = line.split("#")[0].rstrip()
        if re.fullmatch(r"\S+\.", words):
            suite = words
        elif suite and re.fullmatch(r"  \S+", words) and "DISABLED_" not in suite + words:
            names.append(suite + words.strip())
    if found.returncode != 0 or not names:
        print(f"{found.stdout}{program} lists no cases of {pattern} (code {found.returncode})\n0 passed, 1 failed, 0 skipped")
        sys.exit(1)
    return names


class Suite:
    """What is known of all cases: `todo` have not run yet, `verdicts` are [(name, verdict, seconds)]. `pattern` fits all."""

    def __init__(self, names, command, limit, pattern):
        self.todo, self.command, self.limit, self.pattern = dict.fromkeys(names), command, limit, pattern
        self.verdicts, self.hung, self.troubles = [], 0, 0
        self.case, self.begin, self.said, self.elsewhere = None, 0.0, [], False

    def ended(self, verdict):
        shown = self.said[-OUTPUT_TAIL:] if verdict == "failed" else [self.reason()] if verdict == "skipped" else []
        print("".join(shown), end="")
        self.verdicts.append((self.case, verdict, time.monotonic() - self.begin))
        self.todo.pop(self.case, None)
        self.case, self.said = None, []

    def reason(self):
        text = " ".join(line for line in self.said[1:-1] if not re.search(r": Skipped$", line)).strip()
        return f"skipped {self.case}: {text}\n"

    def lost(self, why):
        self.said.append(f"[  FAILED  ] {self.case}: {why}\n")
        self.ended("failed")

    def line(self, text):
        begins, ends, elsewhere = BEGINS.search(text), ENDS.search(text), ELSEWHERE.search(text)
        if begins and begins[1] in self.todo and self.case is None:
            self.case, self.begin, self.said, self.elsewhere = begins[1], time.monotonic(), [], False
        self.said.append(text + "\n")
        if self.case and elsewhere and elsewhere[1] == self.case:
            self.elsewhere = True
        if self.case and ends and ends[2] == self.case:
            verdict = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[ends[1]]
            self.ended("failed" if self.elsewhere else verdict)

    def run_once(self):
        """One process with all that is to do. True where another one can do more."""
        command = [*self.command, "--gtest_color=no", f"--gtest_filter={self.pattern or ':'.join(self.todo)}"]
        self.pattern = None
        before = len(self.verdicts)
        failed_before = self.failed()
        self.case, self.said = None, []
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as process:
            try:
                code = self.watch(process)
            finally:
                if process.poll() is None:
                    end(process)
        how = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"code {code}"
        if code is not None and self.case:
            self.lost(f"the program ended in it with {how}")
        elif code and self.failed() == failed_before:
            self.troubles += 1
            print("".join(self.said[-OUTPUT_TAIL:]) + f"[  FAILED  ] the program ended with {how}, though no case failed")
        elif code == 0 and self.todo:
            self.troubles += 1
            print(f"[  FAILED  ] the program ended well, and did not run {', '.join(self.todo)}")
            return False
        return bool(self.todo) and len(self.verdicts) > before and self.hung < ENOUGH

    def watch(self, process):
        """Reads what it says to its end; its code, negative for a signal, or None where it had to be ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            os.set_blocking(process.stdout.fileno(), False)
            text, self.begin, over = b"", time.monotonic(), None
            while True:
                if not selector.get_map():
                    time.sleep(0.05)
                elif selector.select(timeout=0.2):
                    piece = process.stdout.read()
                    *lines, text = (text + (piece or b"")).split(b"\n")
                    for line in lines:
                        self.line(line.decode(errors="replace").rstrip("\r"))
                    if piece == b"":  # it may go on without its output
                        selector.unregister(process.stdout)
                if process.poll() is not None:  # somebody whom it started may hold the pipe for longer
                    over = over or time.monotonic()
                    if time.monotonic() - over > 0.5 or not selector.get_map():
                        break
                elif time.monotonic() - self.begin > self.limit:
                    end(process)
                    self.hung += 1
                    self.case = self.case or "(between cases)"
                    self.lost(f"no end after {self.limit:g} s")
                    return None
            if text:
                self.line(text.decode(errors="replace"))
            code = process.wait()
            end(process)  # what it left behind
            return code

    def failed(self):
        return sum(verdict == "failed" for _, verdict, _ in self.verdicts) + self.troubles

    def counts(self):
        said = [verdict for _, verdict, _ in self.verdicts]
        return said.count("passed"), self.failed() + len(self.todo), said.count("skipped")


def end(process):
    """A launcher is asked first: it ends its ranks, which are not of its process group."""
    for number, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
            process.wait(patience)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--cases", default="*")
    parser.add_argument("--launch", default="")
    parser.add_argument("--limit", type=float, default=240)
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--counts")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and ends what it started
    part, parts = map(int, options.part.split("/"))
    names = listed(options.program, options.cases)[part - 1::parts]
    suite = Suite(names, [*shlex.split(options.launch), options.program], options.limit, options.cases if parts == 1 else None)
    while names and suite.run_once():
        pass
    for name in suite.todo:
        print(f"[  FAILED  ] {name} did not run")
    passed, failed, skipped = suite.counts()
    if options.counts:
        lines = "".join(f"{seconds:.3f} {verdict} {name}\n" for name, verdict, seconds in suite.verdicts)
        with open(options.counts, "w", encoding="utf-8") as file:
            file.write(f"{passed} {failed} {skipped}\n{lines}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
