#!/usr/bin/env python3
"""Event files of a run and its restart, read by TensorBoard's own reader: the steps of history.csv, each once.

  tests/report/tensorboard_test.py PROGRAM    77: the Python of TRIREME_HF_PYTHON (or this one) has no tensorboard
"""
import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

DECK = """
[model]
layers = 1
width = 16
heads = 2
context = 16
[data]
path = "text.tokens"
validation = 0.2
[train]
batch = 2
steps = 12
[evaluate]
every_steps = 4
batches = 1
sample_prompt = "the"
sample_tokens = 5
[checkpoint]
every_steps = 4
[run]
backend = "host"
threads = 1
tensorboard = true
"""
READ = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(sys.argv[1], size_guidance={"tensors": 0, "scalars": 0}); a.Reload()
out = {t: [[e.step, e.value] for e in a.Scalars(t)] for t in a.Tags()["scalars"]}
out["texts"] = [[e.step, e.tensor_proto.string_val[0].decode(errors="replace")] for t in a.Tags()["tensors"] for e in a.Tensors(t)]
print(json.dumps(out))
"""


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    python = os.environ.get("TRIREME_HF_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import tensorboard"], capture_output=True).returncode:
        print(f"SKIP: {python} has no tensorboard; TRIREME_HF_PYTHON names one that has")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog, " * 200)
        (folder / "deck.toml").write_text(DECK)

        def run(*arguments):
            done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return done.stderr

        run("tokenize", "text.txt", "--output", "text.tokens")
        run("train", "deck.toml", "--run-dir", "run", "train.steps=10")
        # Back to step 8: what the first process wrote of 9 and 10 is no longer history.
        shutil.rmtree(folder / "run/checkpoints/step-00000010")
        run("train", "deck.toml", "--run-dir", "run", "--restart", "latest")
        # Without TensorBoard and texts: the same bits.
        run("train", "deck.toml", "--run-dir", "plain", "train.steps=10", "run.tensorboard=false", "evaluate.sample_prompt=")
        run("train", "deck.toml", "--run-dir", "written", "train.steps=10")
        kept = [[{k: r[k] for k in ("step", "loss", "grad_norm", "bytes_peak")} for r in csv.DictReader(open(folder / d / "history.csv"))]
                for d in ("plain", "written")]
        assert kept[0] == kept[1], "a text of the model changed the training"
        assert not (folder / "plain/tensorboard").exists()
        # No event file can be made: one warning, and the run goes on.
        (folder / "blocked").mkdir()
        (folder / "blocked/tensorboard").write_text("")
        said = run("train", "deck.toml", "--run-dir", "blocked", "train.steps=4")
        assert said.count("writes no more TensorBoard events") == 1, said

        read = subprocess.run([python, "-c", READ, folder / "run/tensorboard"], capture_output=True, text=True)
        assert read.returncode == 0, read.stderr
        found = json.loads(read.stdout)
        rows = list(csv.DictReader(open(folder / "run/history.csv")))
        assert len(list((folder / "run/tensorboard").iterdir())) == 2
        for tag, name in (("train/loss", "loss"), ("train/grad_norm", "grad_norm"), ("train/lr", "lr"),
                          ("train/tokens_per_second", "tokens_per_second"), ("train/trained_tokens", "trained_tokens")):
            assert [s for s, _ in found[tag]] == list(range(1, 13)), (tag, found[tag])
            for (_, x), row in zip(found[tag], rows):  # f32: a relative error of 2^-24
                assert abs(x - float(row[name])) <= abs(float(row[name])) * 2**-24, (tag, x, row)
        assert [s for s, _ in found["held_out/loss"]] == [4, 8, 12], found["held_out/loss"]
        # The reader forgets scalars that a restart made again, not texts: that of the first process' end stays.
        assert [s for s, _ in found["texts"]] == [4, 8, 10, 12] and all(t.startswith("the") for _, t in found["texts"]), found["texts"]
        timing = json.loads((folder / "run/timing.json").read_text())["processes"]
        assert [(p["first_step"], p["last_step"]) for p in timing] == [(0, 10), (8, 12)], timing
        for p in timing:
            wall = sum(p["ranks"][0]["seconds"].values())
            steps = sum(p["ranks"][0]["seconds"][t] for t in ("reading", "forward", "backward", "optimizer"))
            assert 0 < steps <= p["steps_seconds"] < wall, p
    print("TensorBoard reads every step once: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
