"""Runs the program in a folder of its own."""
import hashlib
import json
import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path

from bits.reading import Failed

ROOT = Path(__file__).resolve().parents[2]


def cpu():
    info = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", info, re.M)
    flags = re.search(r"^flags\s*: (.*)$", info, re.M)
    flags = flags.group(1).split() if flags else []
    name = " ".join(model.group(1).split()) if model else "unknown"
    return name, hashlib.sha256(" ".join(sorted(flags)).encode()).hexdigest()[:8], "avx512bw" in flags


class Program:
    def __init__(self, binary, work, options):
        self.binary, self.work, self.options = Path(binary).resolve(), work, options
        if not os.access(self.binary, os.X_OK):
            raise Failed(f"{binary}: no program")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "SLURM_", "TRIREME_"))}

    def call(self, what, command):
        limit = 120 * self.options.patience
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen([str(c) for c in command], cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
                                       stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                code = f"a time limit of {limit:g} s"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            if code == 0:
                return
            said.seek(0)
            tail = "".join(said.readlines()[-15:])
        raise Failed(f"{what} ended with {code}: {' '.join(str(c) for c in command)}\n{tail}")

    def make_data(self):
        """Tokens with a loss everywhere, and some with masks and documents."""
        licence = ROOT / "LICENSE"
        lines = [line.strip() for line in licence.read_text().splitlines() if line.strip()]
        with open(self.work / "chat.jsonl", "w") as f:
            for a, b in zip(lines[::2], lines[1::2]):
                f.write(json.dumps({"p": a, "c": b}) + "\n")
        self.call("tokenize", [self.binary, "tokenize", licence, "-o", "text.tokens"])
        self.call("tokenize", [self.binary, "tokenize", "chat.jsonl", "--prompt", "p", "--completion", "c", "-o", "chat.tokens"])

    def train(self, what, ranks, arguments, run="run"):
        self.call(what, [*self.options.mpiexec.split(), "-n", ranks, self.binary, "train", "deck.toml", "--run-dir", run,
                         *arguments, *self.options.override])
