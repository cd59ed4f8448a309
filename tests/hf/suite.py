"""The cases of all *_test.py beside this file, each in a folder of its own: suite.py BUILD PATTERN

A test's cases() yields names and functions of a Program, which give a line for the log and raise what is wrong.
"""
import importlib
import re
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

import torch
import transformers

from program import Program


def all_cases(pattern):
    for file in sorted(Path(__file__).resolve().parent.glob("*_test.py")):
        for name, case in importlib.import_module(file.stem).cases():
            whole = f"{file.stem.removesuffix('_test')}.{name}"
            if re.search(pattern, whole):
                yield whole, case


def perform(build, name, case):
    begin = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix="trireme-hf-"))
    try:
        said, good = case(Program(build, work)), True
    except Exception as e:
        where = traceback.extract_tb(e.__traceback__)[-1]
        said, good = f"{type(e).__name__} at {Path(where.filename).name}:{where.lineno}: {e} (files in {work})", False
    if good:
        shutil.rmtree(work)
    print(f"{'ok' if good else 'FAILED':6} {name} ({time.monotonic() - begin:.1f} s): {said}", flush=True)
    return good


def main():
    build, pattern = sys.argv[1:]
    torch.set_num_threads(1)  # as reproducible as it gets, and small models gain nothing
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    begin = time.monotonic()
    results = [perform(build, name, case) for name, case in all_cases(pattern)]
    print(f"test-hf: torch {torch.__version__}, transformers {transformers.__version__}, {time.monotonic() - begin:.0f} s")
    if not results:
        print("no test was run")
    failed = results.count(False) + (not results)
    print(f"{results.count(True)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
