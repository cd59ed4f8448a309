"""Plants differences in a run and looks for them."""
import argparse
import json
import tempfile
from pathlib import Path

from bits.reading import Failed, digest_run
from bits.trainings import CASES


def plant_run(folder):
    """A run of two parameters as the checkpoint format has it, one of them cut in two."""
    checkpoint = folder / "checkpoints/step-00000002"
    checkpoint.mkdir(parents=True)
    data = bytes(range(64))

    def piece(group, name, begin, count, at, shape):
        return {"group": group, "name": name, "shape": shape, "begin": begin, "count": count, "dtype": "f32",
                "chunk_elements": 2, "chunks": [[at + 8 * i, ""] for i in range((count + 1) // 2)]}

    files = [{"name": "rank-00000.h5", "slices": [piece("weights", "a", 0, 3, 0, [5]), piece("moment1", "a", 0, 5, 12, [5])]},
             {"name": "rank-00001.h5", "slices": [piece("weights", "a", 3, 2, 0, [5]), piece("weights", "b", 0, 4, 8, [2, 2])]},
             {"name": "master.h5", "slices": []}]
    for file in files[:2]:
        (checkpoint / file["name"]).write_bytes(data)
    (checkpoint / "manifest.json").write_text(json.dumps({"content": {"files": files}}))
    (folder / "history.csv").write_text("step,loss,grad_norm,lr,seconds,bytes_sent\n1,5.5,2.5,0.1,9.0,0\n")
    (folder / "evaluation.csv").write_text("step,loss\n1,5.5\n")
    return checkpoint


def flip(file, at):
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def replace(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def self_test(differences, lines_of):
    """Of same_bits.py's comparison."""
    plants = {  # what is done to a run, and the fields that have to show it
        "nothing": (lambda c, r: None, ""),
        "a bit of a weight": (lambda c, r: flip(c / "rank-00001.h5", 4), "weights"),
        "a bit of a weight's last element": (lambda c, r: flip(c / "rank-00001.h5", 23), "weights"),
        "a bit of a moment": (lambda c, r: flip(c / "rank-00000.h5", 31), "state"),
        "a parameter's name": (lambda c, r: replace(c / "manifest.json", '"b"', '"c"'), "weights"),
        "another name of a state array": (lambda c, r: replace(c / "manifest.json", "moment1", "momentum"), ""),
        "a loss": (lambda c, r: replace(r / "history.csv", "5.5", "5.500000000000001"), "history"),
        "a gradient norm": (lambda c, r: replace(r / "history.csv", "2.5", "2.4"), "history"),
        "bytes sent": (lambda c, r: replace(r / "history.csv", "9.0,0", "9.0,1"), "history"),
        "a time": (lambda c, r: replace(r / "history.csv", "9.0", "8.0"), ""),
        "an evaluation": (lambda c, r: replace(r / "evaluation.csv", "5.5", "5.6"), "evaluation"),
    }
    broken = {
        "elements that nobody holds": lambda c, r: replace(c / "manifest.json", '"begin": 3, "count": 2', '"begin": 3, "count": 1'),
        "a file cut short": lambda c, r: (c / "rank-00001.h5").write_bytes(bytes(12)),
        "no weights": lambda c, r: replace(c / "manifest.json", '"weights"', '"other"'),
        "no column grad_norm": lambda c, r: replace(r / "history.csv", "grad_norm", "norm"),
    }
    mistakes = []
    with tempfile.TemporaryDirectory(prefix="same_bits.") as work:
        work = Path(work)

        def planted(name, plant):
            run = work / name.replace(" ", "_")
            plant(plant_run(run), run)
            return {"#cpu": "one", "case": digest_run(run)}

        right = planted("right", lambda c, r: None)
        for name, (plant, field) in plants.items():
            want = [f"case: {field}"] if field else []
            got = differences(right, planted(name, plant))
            if got != want:
                mistakes.append(f"{name}: {got}, not {want}")
        for name, plant in broken.items():
            try:
                mistakes.append(f"{name}: taken as {planted(name, plant)}")
            except Failed:
                pass
        if len(differences(right, {"#cpu": "one", "other": right["case"]})) != 2:
            mistakes.append("cases that only one side has")
        if len(differences(right, {**right, "#cpu": "two"})) != 1:
            mistakes.append("another CPU")
        # A training that fails is no digest.
        (work / "program").write_text("#!/bin/sh\n[ $1 = tokenize ] || { echo the disk is full >&2; exit 3; }\n")
        (work / "program").chmod(0o755)
        options = argparse.Namespace(mpiexec=str(work / "launch"), patience=1, override=[], only=[])
        (work / "launch").write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
        (work / "launch").chmod(0o755)
        try:
            lines_of(work / "program", options, lambda line: None)
            mistakes.append("a failing training has a digest")
        except Failed as e:
            if not str(e).startswith("gpt2 ended with 3") or "the disk is full" not in str(e):
                mistakes.append(f"a failing training is told as: {e}")
    names = [case.name for case in CASES]
    if len(set(names)) != len(names):
        mistakes.append("two cases of one name")
    for text in mistakes:
        print(f"same_bits: {text}")
    print(f"same_bits: {len(plants) + len(broken) + 4} plants, {len(mistakes)} mistakes")
    return 1 if mistakes else 0
