#!/usr/bin/env python3
"""Models in and out, held to transformers and to a torch reference: tests/hf/run.py [BUILD] [--only PATTERN]

Runs every tests/hf/*_test.py with BUILD's trireme in a Python that has tests/hf/requirements.txt: $TRIREME_HF_PYTHON, or
BUILD/hf/venv, which is made where it is missing. Where it cannot be made it says "skipped" and why, and ends with 0; with
--required it fails.
"""
import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
INSTALL_LIMIT_S = 1800
ALONE = ["trl==1.16.0"]  # its chat templates are read, its code is not run
MODULES = ["torch", "transformers", "tokenizers", "safetensors", "sentencepiece", "numpy", "h5py", "peft", "trl"]


class Skipped(Exception):
    pass


def lacks(python):
    """What a Python lacks of the modules; empty: nothing."""
    probe = f"import importlib.util as u; print(*(m for m in {MODULES} if u.find_spec(m) is None))"
    ran = subprocess.run([python, "-c", probe], capture_output=True, text=True)
    return ran.stdout.strip() if ran.returncode == 0 else ran.stderr.strip().splitlines()[-1]


def make_venv(folder):
    """Made under another name and stamped last: what an interruption leaves is made again."""
    stamp, wanted = folder / "made-from.txt", REQUIREMENTS.read_text() + "\n".join(ALONE)
    python = folder / "bin/python"
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.parent / "venv.log"
    print(f"test-hf: makes {folder} with torch and transformers; pip writes {log}", flush=True)
    pip = [str(python), "-m", "pip", "install", "--no-input"]
    with log.open("w") as out:
        def run(command):
            try:
                return subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, timeout=INSTALL_LIMIT_S).returncode == 0
            except subprocess.TimeoutExpired:
                out.write(f"not done within {INSTALL_LIMIT_S} s\n")
                return False

        made = run([sys.executable, "-m", "venv", str(folder)])
        if not made or not run([*pip, "-r", str(REQUIREMENTS)]) or not run([*pip, "--no-deps", *ALONE]):
            out.flush()
            said = log.read_text().strip().splitlines()
            raise Skipped(f"torch and transformers cannot be had here ({said[-1] if said else 'nothing is said'}): see {log}, "
                          "or name a Python that has them in TRIREME_HF_PYTHON")
    stamp.write_text(wanted)
    return python


def find_python(build):
    given = os.environ.get("TRIREME_HF_PYTHON")
    if not given:
        return str(make_venv(build / "hf/venv"))
    if not os.access(given, os.X_OK):
        sys.exit(f"test-hf: TRIREME_HF_PYTHON = {given} is no program")
    if missing := lacks(given):
        sys.exit(f"test-hf: TRIREME_HF_PYTHON = {given} lacks {missing}: see {REQUIREMENTS}")
    return given


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", nargs="?", type=Path, default=HERE.parent.parent / "build")
    p.add_argument("--only", default="", metavar="PATTERN", help="cases whose names match this regular expression")
    p.add_argument("--required", action="store_true", help="fail where torch and transformers cannot be installed")
    a = p.parse_args()
    build = a.build.resolve()
    for program in ("trireme", "tests/hf_logits", "tests/hf_prompts"):
        if not (build / program).is_file():
            sys.exit(f"test-hf: there is no {build / program}: `make test-hf` builds it")
    try:
        python = find_python(build)
    except Skipped as e:
        print(f"test-hf: {'FAILED' if a.required else 'skipped'}: {e}")
        return 1 if a.required else 0
    # Nothing may be fetched: models are made here.
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    return subprocess.run([python, str(HERE / "suite.py"), str(build), a.only], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
