"""What is wrong with how a run ended, and with what it left."""
import csv
import re
from array import array

from rows import ANY, FAIL
from setting import same_bits

# No message for a user contains these.
NEVER = [r"terminate called", r"std::", r"what\(\):", r"map::at", r"vector::", r"bad_alloc", r"basic_(filebuf|string|ios)",
         r"\bsto(i|l|ll|d)\b", r"[Ss]egmentation fault", r"Assertion", r"\bbacktrace\b", r"Traceback", r"Caught signal",
         r"json\.exception", r"HDF5-DIAG", r"core dumped", r"lock: Invalid argument", r"MPI_ERR_"]
MOST_OUTPUT = 40_000  # bytes; UCX's dumps are longer


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


def history(run, columns=("step", "loss", "grad_norm", "lr")):
    with open(run / "history.csv", newline="") as f:
        return [tuple(row[c] for c in columns) for row in csv.DictReader(f)]


def last_checkpoint(run):
    last = max((run / "checkpoints").glob("step-" + 8 * "[0-9]"), default=None)
    if last is None:
        raise same_bits.Failed("no checkpoint at the end")
    return last


def compare_bits(run, reference, tables):
    """What differs between two runs that must be equal bit for bit."""
    wrong = []
    mine, whole = last_checkpoint(run), last_checkpoint(reference)
    if mine.name != whole.name:
        wrong.append(f"the last checkpoint is {mine.name} instead of {whole.name}")
    (weights, state), (w, s) = same_bits.digest_checkpoint(mine), same_bits.digest_checkpoint(whole)
    if weights != w:
        wrong.append("other final weights than without the fault")
    if state != s:
        wrong.append("other optimizer state than without the fault")
    if tables:
        if history(run) != history(reference):
            wrong.append("another history.csv than without the fault")
        if (run / "evaluation.csv").read_text() != (reference / "evaluation.csv").read_text():
            wrong.append("another evaluation.csv than without the fault")
        if (reference / "digests.csv").exists() and (run / "digests.csv").read_text() != (reference / "digests.csv").read_text():
            wrong.append("another digests.csv than without the fault")
    return wrong


# Products of f64 add up to 64 terms, Adam's quotient may double the error of a gradient, and it feeds into each of 12
# steps: 64 x 2 x 12 roundoffs, of weights that are near 1, with a factor of 100 for gradients of about 1e-2 of a weight.
CLOSE = 100 * 64 * 2 * 12 * 2.0**-53


def compare_close(run, reference):
    wrong = []
    a, b = (same_bits.arrays(last_checkpoint(r))["weights"] for r in (run, reference))
    if a.keys() != b.keys():
        return ["other parameters than without the fault"]
    for name, (dtype, shape, data) in a.items():
        if (dtype, shape) != b[name][:2] or dtype != "f64":
            return [f"{name} is {dtype} {shape}"]
        distances = [abs(x - y) for x, y in zip(array("d", bytes(data)), array("d", bytes(b[name][2])))]
        if not all(d <= CLOSE for d in distances):  # a NaN is not
            wrong.append(f"final weights of {name} differ by {max(distances):.2g}, above {CLOSE:.2g}")
    if [row[0] for row in history(run)] != [row[0] for row in history(reference)]:
        wrong.append("history.csv has other steps than without the fault")
    return wrong
