"""Cases drawn at random: a training that one to three faults in a row hit at any call, and that must still end with the bits of
an undisturbed one.

Each fault is a system call of one rank or of all, on any file of the run directory, that fails, writes too little, is late or is
the last thing that the process does. A run may end with any code after a fault; it must not hang, must not speak C++, and the
next start must go on.
"""
import random

from rows import ANY, Case, Run

CALLS = {"open": "*run/*", "write": "*run/*", "sync": "*run*", "rename": "*run/*", "mkdir": "*run*", "link": "*run/lock", "close": "*run/*",
         "read": "*run/*", "stat": "*run*", "remove": "*run/*", "truncate": "*run/*"}
FILES = ("*history.csv*", "*evaluation.csv*", "*evaluations/*.csv*", "*effective.toml*", "*outcome.json*", "*manifest.json", "*rank-0000?.h5", "*master.h5", "*.partial*", "*/log")
KILLS = ("SIGKILL", "then:SIGKILL")
ERRORS = ("ENOSPC", "EIO", "EDQUOT", "ESTALE")
CONFIGS = ("one", "at-once", "digests", "pruned", "evaluated", "data2", "data2-zero3", "data2-at-once", "pipe2", "seq2", "exact-seq2", "mixture",
           "mixture-expert2", "pipe2-data2", "freeze")
RANKS = {"one": 1, "at-once": 1, "digests": 1, "pruned": 1, "evaluated": 1, "mixture": 1, "freeze": 1, "pipe2-data2": 4}  # others: 2


def fault(draw, ranks):
    call = draw.choice(list(CALLS))
    # A reading call that fails for ever may rightly refuse each start; writes are what a full or broken disk refuses.
    actions = [*KILLS, "sleep:100"]
    if call in ("write", "sync", "rename", "mkdir", "open"):
        actions += draw.sample(ERRORS, 2)
    if call == "write":
        actions += ["torn", "torn", "short"]
    pattern = draw.choice(FILES) if call in ("open", "write", "sync", "rename", "close") and draw.random() < 0.6 else CALLS[call]
    count = round(2 ** draw.uniform(0, 6))
    rank = f" @{draw.randrange(ranks)}" if ranks > 1 and draw.random() < 0.7 else ""
    return f"?{call} {pattern} {count} {draw.choice(actions)}{rank}"


def case(seed, number):
    draw = random.Random(f"{seed}/{number}")
    config = draw.choice(CONFIGS)
    start = draw.choice(("fresh", "half", "half"))
    runs = [Run("--restart latest --or-start" if start == "half" or i else "", faults=fault(draw, RANKS.get(config, 2)), codes=ANY, limit=40)
            for i in range(draw.choice((1, 1, 2, 3)))]
    drawn = Case(f"{config} from {start}", runs, config=config, start=start, finish_more="--restart latest --or-start")
    drawn.group = f"--random {seed} --first {number}"
    return drawn
