"""What is wrong with how a run ended, and with what it left."""
import re
from array import array

from reading import NUMBERS, Failed, arrays, meta_of, rows_of
from rows import ANY, FAIL

# No message for a user contains these.
NEVER = [r"terminate called", r"std::", r"what\(\):", r"map::at", r"vector::", r"bad_alloc", r"basic_(filebuf|string|ios)",
         r"\bsto(i|l|ll|d)\b", r"[Ss]egmentation fault", r"Assertion", r"\bbacktrace\b", r"Traceback", r"Caught signal",
         r"json\.exception", r"HDF5-DIAG", r"core dumped", r"lock: Invalid argument", r"MPI_ERR_"]
MOST_OUTPUT = 90_000  # bytes, for `inspect` of several decks; UCX's dumps are longer


def spoken(codes):
    return " or ".join(map(str, codes)) if len(codes) < 5 else f"{codes[0]} to {codes[-1]}"


def judge(run, ended):
    """What is wrong with how a run ended."""
    wrong = []
    if ended.hung:
        wrong.append(f"it hung: {run.limit:g} s passed")
    elif run.codes == FAIL and ended.code == 0:
        wrong.append("it failed and ended with 0")
    elif run.codes not in (FAIL, ANY) and ended.code not in run.codes:
        wrong.append(f"exit code {ended.code} instead of {spoken(run.codes)}")
    wrong += [f"it does not say /{s}/" for s in run.says if not re.search(s, ended.text)]
    wrong += [f"it says /{s}/ {n} times" for s in run.once if (n := len(re.findall(s, ended.text))) != 1]
    wrong += [f"it says /{s}/" for s in (*NEVER, *run.silent) if re.search(s, ended.text)]
    if len(ended.text) > MOST_OUTPUT:
        wrong.append(f"it prints {len(ended.text)} bytes")
    if ended.left:
        wrong.append(f"processes stay behind: {', '.join(ended.left)}")
    came = {int(line.split()[0]) for line in ended.met}
    rules = [rule.strip() for rule in run.faults.split(";") if rule.strip()]
    wrong += [f"the fault '{rule}' never came" for i, rule in enumerate(rules) if i not in came and "sleep:" not in rule and rule[0] != "?"]
    return wrong


def verdict(case, wrong):
    """(is it as expected?, what to say)."""
    if not case.known:
        return not wrong, "; ".join(wrong)
    if wrong:
        return True, f"known: {case.known} ({wrong[0]})"
    return False, f"it is good now: take `known` away ({case.known})"


def checkpoints_of(run):
    found = {p.name: p for p in sorted((run / "checkpoints").glob("step-" + 8 * "[0-9]"))}
    if not found:
        raise Failed("no checkpoint at the end")
    return found


def compare_rows(run, reference):
    """Text by text: what differs first."""
    got, want = ([tuple(row[c] for c in NUMBERS) for row in rows_of(r / "history.csv")] for r in (run, reference))
    for a, b in zip(got, want):
        if a != b:
            column = next(i for i, c in enumerate(NUMBERS) if a[i] != b[i])
            return [f"{NUMBERS[column]} at step {b[0]}: {a[column]}, not {b[column]}"]
    return [f"{len(got)} rows of history.csv, not {len(want)}"] if len(got) != len(want) else []


def compare_routing(run, reference):
    """The same but for rounds, which another grid has more or less of."""
    got, want = ([{c: x for c, x in row.items() if c != "more_rounds"} for row in rows_of(r / "routing.csv")] for r in (run, reference))
    for a, b in zip(got, want):
        if a != b:
            column = next(c for c in b if a.get(c) != b[c])
            return [f"routing.csv, {column} at step {b['step']}: {a.get(column)}, not {b[column]}"]
    return [f"{len(got)} rows of routing.csv, not {len(want)}"] if len(got) != len(want) else []


def compare_arrays(checkpoint, reference):
    """Byte by byte: what differs first."""
    got, want = ({(group, name): array for group, named in arrays(c).items() for name, array in named.items()} for c in (checkpoint, reference))
    if got.keys() != want.keys():
        return [f"other arrays: {sorted(got.keys() ^ want.keys())}"]
    return [f"other bits of {'/'.join(key)} in {checkpoint.name}" for key in want if got[key] != want[key]][:1]


def compare_bits(run, reference, tables=True):
    """What differs between two runs that must be equal bit for bit, at the end and in every checkpoint that both have."""
    mine, whole = checkpoints_of(run), checkpoints_of(reference)
    wrong = []
    if max(mine) != max(whole):
        wrong.append(f"the last checkpoint is {max(mine)} instead of {max(whole)}")
    for name in sorted(mine.keys() & whole.keys()):
        wrong += compare_arrays(mine[name], whole[name])
        if meta_of(mine[name]).get("updates") != meta_of(whole[name]).get("updates"):
            wrong.append(f"other counts of updates in {name}")
    if tables:
        wrong += compare_rows(run, reference)
        for table in ("evaluation.csv", *(f"evaluations/{t.name}" for t in reference.glob("evaluations/*.csv")), "digests.csv"):
            if (reference / table).exists() and (run / table).read_text() != (reference / table).read_text():
                wrong.append(f"another {table}")
        if (reference / "routing.csv").exists():
            wrong += compare_routing(run, reference)
    return wrong


# Products of f64 add up to 64 terms, Adam's quotient may double the error of a gradient, and it feeds into each of 12
# steps: 64 x 2 x 12 roundoffs, of weights that are near 1, with a factor of 100 for gradients of about 1e-2 of a weight.
CLOSE = 100 * 64 * 2 * 12 * 2.0**-53


def compare_close(run, reference):
    """The same of two that differ by f64's rounding: last weights, and losses that were evaluated."""
    wrong = []
    a, b = (arrays(max(checkpoints_of(r).values()))["weights"] for r in (run, reference))
    if a.keys() != b.keys():
        return ["other parameters"]
    for name, (dtype, shape, data) in a.items():
        if (dtype, shape) != b[name][:2] or dtype != "f64":
            return [f"{name} is {dtype} {shape}"]
        distances = [abs(x - y) for x, y in zip(array("d", bytes(data)), array("d", bytes(b[name][2])))]
        if not all(d <= CLOSE for d in distances):  # a NaN is not
            wrong.append(f"final weights of {name} differ by {max(distances):.2g}, above {CLOSE:.2g}")
    for table in ("history.csv", "evaluation.csv"):
        got, want = (rows_of(r / table) for r in (run, reference))
        if [row["step"] for row in got] != [row["step"] for row in want]:
            wrong.append(f"{table} has other steps")
        # By the gradient's sum of sizes at most: sqrt(1e4 weights) times its norm, which is below 10.
        elif not all(abs(float(g["loss"]) - float(w["loss"])) <= 1e3 * CLOSE for g, w in zip(got, want)):
            wrong.append(f"{table} has other losses")
    return wrong
