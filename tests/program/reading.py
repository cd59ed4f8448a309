"""Reads what a run left, without the program's own code: arrays out of the places that a checkpoint's manifest names,
columns of tables as text."""
import csv
import hashlib
import json
import math
import re
from pathlib import Path

NUMBERS = ("step", "loss", "grad_norm", "lr")  # of a row of history.csv
COLUMNS = (*NUMBERS, "bytes_sent")
BYTES = {"f32": 4, "f64": 8}


class Failed(Exception):
    """With what a program said, if it was one."""

    def __init__(self, what, said=""):
        super().__init__(what)
        self.said = said


def rows_of(table):
    with open(table, newline="") as f:
        return list(csv.DictReader(f))


def meta_of(checkpoint):
    """What a manifest says of its checkpoint."""
    return json.loads((checkpoint / "manifest.json").read_text())["content"].get("checkpoint", {})


def cpu():
    """Name, digest of what it can do, and whether bf16 has vector instructions there."""
    info = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", info, re.M)
    flags = re.search(r"^flags\s*: (.*)$", info, re.M)
    flags = flags.group(1).split() if flags else []
    name = " ".join(model.group(1).split()) if model else "unknown"
    return name, hashlib.sha256(" ".join(sorted(flags)).encode()).hexdigest()[:8], "avx512bw" in flags


def has_bf16():
    return cpu()[2]


def short(digest):
    return digest.hexdigest()[:20]


def arrays(checkpoint):
    """{group: {name: (dtype, shape, bytes)}}: every array whole, out of the places that the manifest names."""
    content = json.loads((checkpoint / "manifest.json").read_text())["content"]
    found, filled = {}, {}
    for file in content["files"]:
        slices = file.get("slices", [])
        data = (checkpoint / file["name"]).read_bytes() if slices else b""
        for s in slices:
            size = BYTES[s["dtype"]]
            group, key = found.setdefault(s["group"], {}), (s["group"], s["name"])
            if s["name"] not in group:
                group[s["name"]] = (s["dtype"], s["shape"], bytearray(size * math.prod(s["shape"])))
            whole, begin, left = group[s["name"]][2], s["begin"], s["count"]
            for at, _ in s["chunks"]:
                n = min(left, s["chunk_elements"])
                part = data[at:at + n * size]
                if len(part) != n * size or (begin + n) * size > len(whole):
                    raise Failed(f"{checkpoint}/{file['name']}: {key} does not fit its file")
                whole[begin * size:(begin + n) * size] = part
                filled[key] = filled.get(key, 0) + n
                begin, left = begin + n, left - n
            if left:
                raise Failed(f"{checkpoint}/{file['name']}: chunks of {key} end {left} elements early")
    for (group, name), n in filled.items():
        if n != math.prod(found[group][name][1]):
            raise Failed(f"{checkpoint}: {n} elements of {group}/{name} of shape {found[group][name][1]}")
    if not found.get("weights"):
        raise Failed(f"{checkpoint}: no weights")
    return found


def digest_group(group):
    d = hashlib.sha256()
    for name, (dtype, shape, data) in sorted(group.items()):
        d.update(f"{name} {dtype} {shape}\n".encode())
        d.update(data)
    return d


def digest_checkpoint(checkpoint):
    groups = arrays(checkpoint)
    weights = short(digest_group(groups.pop("weights")))
    # By content, not by the names of the groups: a state array may be renamed.
    state = hashlib.sha256()
    for text in sorted(digest_group(g).hexdigest() for g in groups.values()):
        state.update(text.encode())
    return weights, short(state)


def digest_history(file):
    rows = rows_of(file)
    if not rows or any(not row.get(c) for row in rows for c in COLUMNS):
        raise Failed(f"{file}: rows without {', '.join(COLUMNS)}")
    d = hashlib.sha256()
    for row in rows:
        d.update((",".join(row[c] for c in COLUMNS) + "\n").encode())
    return short(d)


def digest_run(run):
    """The fields of a case's line."""
    last = max((run / "checkpoints").glob("step-*"), default=None)
    if last is None:
        raise Failed(f"{run}: no checkpoint")
    weights, state = digest_checkpoint(last)
    fields = [f"weights={weights}", f"state={state}", f"history={digest_history(run / 'history.csv')}"]
    evaluation = run / "evaluation.csv"
    if evaluation.is_file():
        fields.append("evaluation=" + hashlib.sha256(evaluation.read_bytes()).hexdigest()[:20])
    return " ".join(fields)


def loss_of(said):
    """what `evaluate` says"""
    return float(re.search(r"loss ([\d.]+)", said)[1])
