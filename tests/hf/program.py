"""Trireme from the outside: its program, its decks and files."""
import os
import re
import shlex
import signal
import struct
import subprocess
from pathlib import Path

import h5py
import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 120  # of one command

# Ranks; the grid in the deck's words.
ONE_RANK = (1, [])
GRID = (4, ["parallel.pipe=2", "parallel.seq=2", "zero.stage=3"])


class Refused(Exception):
    """The program ended with another exit code than 0."""


class Program:
    def __init__(self, build, work):
        self.build, self.work = Path(build).resolve(), Path(work)
        cache = (self.build / "CMakeCache.txt").read_text()
        self.mpiexec = re.search(r"^MPIEXEC_EXECUTABLE:[^=]*=(.*)$", cache, re.M)[1]
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}

    def start(self, program, *words, ranks=1):
        """What it printed; Refused with that when it fails."""
        command = [str(self.build / program), *map(str, words)]
        if ranks > 1:
            command = [self.mpiexec, "-n", str(ranks), *command]
        process = subprocess.Popen(command, cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            # Not in text mode, which takes a carriage return for a line's end.
            said, errors = (out.decode(errors="replace") for out in process.communicate(timeout=LIMIT_S))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise AssertionError(f"{shlex.join(command)} did not end within {LIMIT_S} s") from None
        if process.returncode != 0:
            raise Refused(f"{shlex.join(command)}\nexit code {process.returncode}\n{said[-1000:]}{errors[-3000:]}")
        return said

    def __call__(self, *words, ranks=1):
        return self.start("trireme", *words, ranks=ranks)

    def refuses(self, *words, naming):
        """That it fails and says all of these."""
        try:
            said = self(*words)
        except Refused as e:
            said = str(e)
            code = int(re.search(r"^exit code (-?\d+)$", said, re.M)[1])
            assert code > 0, f"ended by a signal\n{said}"
            message = said.split("\n", 2)[2]  # without the command's own words
            missing = [word for word in naming if word not in message]
            assert not missing, f"does not name {missing}\n{said}"
            return message.strip()
        raise AssertionError(f"trireme {shlex.join(map(str, words))} ended well\n{said}")

    def logits(self, checkpoint, ids_BT, grid=ONE_RANK, overrides=()):
        ids, out = self.work / "ids.bin", self.work / "logits.bin"
        ids_BT.numpy().astype("<i4").tofile(ids)
        self.start("tests/hf_logits", checkpoint, ids, out, *grid[1], *overrides, ranks=grid[0])
        return torch.from_numpy(np.fromfile(out, "<f8").reshape(*ids_BT.shape, -1))

    def write_tokens(self, name, ids, vocab):
        """A token file without a tokenizer, as docs/token_file.md says."""
        tokens = np.asarray(ids).astype("<u2")
        header = b"TRITOKEN" + struct.pack("<IIQQQqQIIQ", 1, 2, tokens.size, vocab, int(tokens.max()), -1, 0, 0, 0, 0)
        (self.work / name).write_bytes(header.ljust(256, b"\0") + tokens.tobytes())
        return self.work / name

    def write_deck(self, name, text):
        (self.work / name).write_text(text)
        return self.work / name

    def newest(self, run):
        return sorted((self.work / run / "checkpoints").glob("step-*"))[-1]

    def history(self, run):
        """Columns of history.csv by name."""
        header, *rows = [line.split(",") for line in (self.work / run / "history.csv").read_text().splitlines()]
        return {name: [float(row[i] or "nan") for row in rows] for i, name in enumerate(header)}


def weights_of(checkpoint):
    """Trireme's names -> whole arrays."""
    with h5py.File(Path(checkpoint) / "master.h5") as f:
        return {name: torch.from_numpy(w[()]) for name, w in f["weights"].items()}
