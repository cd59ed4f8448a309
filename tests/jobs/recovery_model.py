#!/usr/bin/env python3
"""Searches a model of recovery inside an allocation (jobscripts/recover.sh) over all orders of events.

Three nodes train and one is spare. At any moment a process is killed, a node dies with its memory, a node's network is cut while
its processes live, or comes back. In every state that can be reached:
  - new processes start only on nodes that answered, beside no process of an earlier start
  - their number is higher than that of any process that lives anywhere, so that they may take over the lock
  - the run continues from the newest step of which every shard has a copy on a node that answered, or from the disk
  - the script ends: the run is done, or it gave up for a reason that holds
The model asks recover.sh itself which nodes to use. It finds each rule's absence when that is planted.
  recovery_model.py [--full]    with three events, else with two
"""
import collections
import subprocess
import sys
import time
from pathlib import Path

CORE = Path(__file__).resolve().parents[2] / "jobscripts/recover.sh"
NODES, WANTED, END, RETRIES, TRIES = 4, 3, 2, 2, 3
NAMES = [f"n{i}" for i in range(NODES)]

State = collections.namedtuple("State", "phase up memory processes use answers failed in_vain fruitless reached disk step victim events tries")
# up: per node "up", "cut" or "dead". memory: per node the copies (step, shard, shards). processes: per node the ages of its
# processes: 0 for those of the newest start, and more by each number that was given since. step: of the present start, or None.


class Core:
    """recover.sh in a process that answers one question a line."""

    def __init__(self):
        self.process = subprocess.Popen(["bash", "-c", f"set -u; . {CORE}; nodes=({' '.join(NAMES)}) wanted={WANTED}; while read -r line; do eval \"$line\"; choose_nodes; echo \"${{use[*]-}}\"; done"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.known = {}

    def choose(self, *key):
        if key not in self.known:
            use, answers, failed, in_vain = key
            numbers = lambda counts: " ".join(f"[{n}]={c}" for n, c in zip(NAMES, counts))
            self.process.stdin.write(f"use=({' '.join(NAMES[i] for i in use)}) answers=({' '.join(f'[{NAMES[i]}]=yes' for i in answers)}) "
                                     f"failed=({numbers(failed)}) failed_in_vain=({numbers(in_vain)})\n")
            self.known[key] = tuple(NAMES.index(n) for n in self.process.stdout.readline().split())
        return self.known[key]

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


def put(values, at, value):
    return values[:at] + (value,) + values[at + 1:]


def copies_of(use, step):
    """Per node the copies of a step: its own shard, and that of the node before it."""
    shards = len(use)
    return {n: {(step, i, shards), (step, (i - 1) % shards, shards)} for i, n in enumerate(use)}


def newest_complete(memory, nodes):
    held = set().union(*(memory[n] for n in nodes)) if nodes else set()
    steps = [s for s, _, shards in held if all((s, i, shards) in held for i in range(shards))]
    return max(steps, default=0)


class Search:
    def __init__(self, core, events, flaw=""):
        self.core, self.flaw, self.wrong, self.ends = core, flaw, "", collections.Counter()
        nothing, no = (frozenset(),) * NODES, (0,) * NODES
        first = State("start", ("up",) * NODES, nothing, nothing, tuple(range(WANTED)), frozenset(range(NODES)), no, no, 0, 0, 0, None, None, events, 0)
        self.after = {}
        open_states = [first]
        while open_states and not self.wrong:
            state = open_states.pop()
            if state in self.after:
                continue
            self.after[state] = list(self.steps(state))
            open_states += self.after[state] + list(self.happenings(state))
        if not self.wrong:
            self.require_ends(first)

    def expect(self, holds, what):
        if not holds and not self.wrong:
            self.wrong = what

    def happenings(self, s):
        """Events that do not come from the script."""
        if s.events == 0 or s.phase.startswith("over"):
            return
        less = s._replace(events=s.events - 1)
        for n in range(NODES):
            if s.up[n] == "up":
                yield less._replace(up=put(s.up, n, "cut"))
                yield less._replace(up=put(s.up, n, "dead"), memory=put(s.memory, n, frozenset()), processes=put(s.processes, n, frozenset()))
                if 0 in s.processes[n]:
                    killed = less._replace(processes=put(s.processes, n, s.processes[n] - {0}), victim=n)
                    yield killed
                    if s.step is not None and s.step < END:  # in a copy that some nodes have and others do not
                        some = copies_of(s.use, s.step + 1)
                        for having in s.use:
                            yield killed._replace(memory=put(s.memory, having, s.memory[having] | some[having]))
            elif s.up[n] == "cut":
                yield less._replace(up=put(s.up, n, "up"))

    def steps(self, s):
        """What the script and the ranks do next."""
        if s.phase == "run":
            whole = all(s.up[n] == "up" and 0 in s.processes[n] for n in s.use)
            if whole and s.step >= END:
                yield s._replace(phase="over: done")
            elif whole:
                memory = s.memory
                for n, new in copies_of(s.use, s.step + 1).items():  # two generations
                    memory = put(memory, n, frozenset(c for c in memory[n] if c[0] == s.step) | frozenset(new))
                yield s._replace(step=s.step + 1, memory=memory)
            else:
                yield s._replace(phase="ask", tries=0, step=None)  # the other ranks live on
                ended = tuple(p - {0} if s.up[n] == "up" else p for n, p in enumerate(s.processes))
                yield s._replace(phase="ask", tries=0, step=None, processes=ended)
        elif s.phase == "ask":
            answers = frozenset(n for n in range(NODES) if s.up[n] == "up")
            processes = s.processes if self.flaw == "no sweep" else tuple(
                frozenset() if n in answers else s.processes[n] for n in range(NODES))
            yield s._replace(phase="rescue", answers=answers, processes=processes)
        elif s.phase == "rescue":
            s = self.numbered(s)
            asked = s.answers - {s.use[0]} if self.flaw == "a node left out" else s.answers
            if not asked:
                yield self.decided(s)
            elif all(s.up[n] == "up" for n in asked):
                found = newest_complete(s.memory, asked)
                best = newest_complete(s.memory, s.answers)
                rescued = s._replace(disk=max(s.disk, found))
                self.expect(rescued.disk >= best, "a step in memory was left behind")
                yield self.decided(rescued)
            elif s.tries + 1 < TRIES:
                yield s._replace(phase="ask", tries=s.tries + 1)
            else:
                yield self.decided(self.numbered(s))
        elif s.phase == "start":
            use = s.use
            self.expect(set(use) <= s.answers, "a start on a node that did not answer")
            if all(s.up[n] == "up" for n in use):
                living = [p for node in s.processes for p in node]
                self.expect(not any(s.processes[n] for n in use), "a start beside a process of an earlier one")
                self.expect(0 not in living, "a number that is not new")
                processes = tuple(p | {0} if n in use else p for n, p in enumerate(s.processes))
                yield s._replace(phase="run", processes=processes, step=s.disk, victim=None)
            else:
                yield s._replace(phase="ask", tries=0, step=None)

    def numbered(self, s):
        """The state after another number was given, of which ages above 2 mean the same."""
        if self.flaw == "same number":
            return s
        return s._replace(processes=tuple(frozenset(min(age + 1, 2) for age in p) for p in s.processes))

    def decided(self, s):
        """The state after recover() has a checkpoint: who is to blame, and which nodes come next."""
        progress = s.disk > s.reached
        fruitless = 0 if progress else s.fruitless + 1
        in_vain = tuple(c if c >= 2 else 0 for c in s.in_vain) if progress else s.in_vain
        blamed = [n for n in s.use if n not in s.answers] or ([s.victim] if s.victim is not None else [])
        failed = tuple(c + (n in blamed) for n, c in enumerate(s.failed))
        if fruitless:
            in_vain = tuple(c + (n in blamed) for n, c in enumerate(in_vain))
        clamp = lambda counts: tuple(min(c, 2) for c in counts)
        s = s._replace(failed=clamp(failed), in_vain=clamp(in_vain), fruitless=fruitless, reached=max(s.reached, s.disk), victim=None, tries=0)
        answers = frozenset(range(NODES)) if self.flaw == "unasked nodes" else s.answers
        use = self.core.choose(s.use, answers, s.failed, s.in_vain)
        if s.fruitless > RETRIES:
            return s._replace(phase="over: no progress")
        if not use:
            self.expect(not s.answers, "no nodes, although some answer")
            return s._replace(phase="over: no nodes")
        return s._replace(phase="start", use=use)

    def require_ends(self, first):
        """Without further events every way ends, and within few steps. A run whose nodes are well ends done."""
        depth, path = {}, set()

        def longest(state):
            if state in depth:
                return depth[state]
            if state in path:
                self.wrong = "the script never ends"
                return 0
            path.add(state)
            nexts = self.after[state]
            if state.phase.startswith("over"):
                self.ends[state.phase] += 1
                if state.phase == "over: no progress":
                    self.expect(state.events < first.events - RETRIES, "it gave up after too few failures")
                if state.phase == "over: done":
                    self.expect(state.step >= END, "done too early")
            else:
                self.expect(nexts, f"stuck in {state.phase}")
            depth[state] = 1 + max((longest(n) for n in nexts), default=0)
            path.discard(state)
            return depth[state]

        sys.setrecursionlimit(10_000)
        for state in self.after:
            self.expect(longest(state) < 60, "the script does not end soon")
            if self.wrong:
                return


FLAWS = {"no sweep": "a start beside a process of an earlier one", "same number": "a number that is not new",
         "a node left out": "a step in memory was left behind", "unasked nodes": "a start on a node that did not answer"}


def main():
    begin, core, bad = time.monotonic(), Core(), 0
    search = Search(core, 3 if "--full" in sys.argv else 2)
    if search.wrong:
        print(f"recovery: {search.wrong}")
        bad = 1
    for flaw, expected in FLAWS.items():
        found = Search(core, 2, flaw).wrong
        if found != expected:
            print(f"recovery: with the flaw '{flaw}' the search found '{found}', not '{expected}'")
            bad = 1
    core.close()
    if len(search.ends) < 1 or "over: done" not in search.ends:
        print(f"recovery: no end is reached: {search.ends}")
        bad = 1
    print(f"recovery: {len(search.after)} states, {len(core.known)} choices of nodes, ends {dict(search.ends)}, {time.monotonic() - begin:.1f} s")
    return bad


sys.exit(main())
