#!/usr/bin/env python3
"""Tests the predictions of report.py with a fake trireme program."""
import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from unittest import mock

import report
import report_predict
from machine import Machine

# Predicts a step of 5 ms, a prompt of 20 ms and a token of 3 ms, but fails for models with experts. Writes its arguments to a file.
TRIREME = """#!/bin/sh
echo "$@" >> CALLS
case "$*" in
  *olmoe*) echo "error: no [[attention]] with head_dim 128" >&2; exit 1;;
  *--json*) echo '{"predicted": {"step_seconds": 0.005, "slower_attention": false, "generation": {"prefill_seconds": 0.02, "token_seconds": 0.003}}}';;
esac
"""

STEP = {"dtype": "bf16", "tokens": 65536, "context": 1024, "microbatch": 32, "recompute": "none", "documents": 0, "step_ms": 4.0,
        "tokens_per_s": 1e6, "tflops": 100, "reserved_GiB": 1}
DECODE = {"dtype": "bf16", "sequences": 8, "prompt": 4073, "prefill_ms": 10.0, "token_ms": 2.0, "GB_per_s": 100}
MEASURED = {"rate of 124M": STEP, "rate of 124M, documents of 512": {**STEP, "documents": 512},
            "rate of OLMoE 1B-7B, 6 of 16 layers": STEP, "rate of 1.5B in fp8": STEP,
            "decode of Llama 3 8B, 8 sequences": DECODE}


def tables(parts):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        report.print_tables(parts)
    return out.getvalue()


def replay(folder, name):
    """Returns the exit code of report.py --replay for a record of one part."""
    record = folder / "record.json"
    record.write_text(json.dumps({name: {"ending": "ok", "seconds": 1, "result": MEASURED[name]}}))
    command = ["report.py", str(folder), "--replay", str(record), "--machine", str(folder / "nowhere.toml")]
    with mock.patch.object(sys, "argv", command), contextlib.redirect_stdout(io.StringIO()):
        return report.main()


def main():
    wrong = []

    def expect(what, good):
        if not good:
            wrong.append(what)

    root = Path(report_predict.__file__).resolve().parent.parent.parent
    for device, file in (("NVIDIA H200, 143771 MiB", "h200.toml"), ("NVIDIA H100 80GB HBM3", "h100.toml"), ("NVIDIA A100-SXM4", "a100.toml")):
        expect(device, report_predict.shipped(root, device).name == file)
    expect("an unknown device", report_predict.machine_file(root, None, None, "NVIDIA B200") == (None, "inputs/machines has no file for NVIDIA B200"))
    expect("a similar name", report_predict.shipped(root, "NVIDIA GH200 480GB") is None)
    expect("a machine file in this folder", report_predict.machine_file(root, Path("my.toml"), None, "")[0] == Path.cwd() / "my.toml")
    expect("a tiny model", "model.width=64" in report_predict.overrides_of(report_predict.options_of(f"--width 8 {report.TINY}"), STEP))

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "quickstart.tokens").write_text("")
        program = folder / "trireme"
        program.write_text(TRIREME.replace("CALLS", str(folder / "calls")))
        program.chmod(0o755)
        machine = Machine(folder, "cuda", folder, 60, 1)
        parts = {name: {"ending": "ok", "seconds": 1, "result": result} for name, result in MEASURED.items()}
        parts["rate of 1.5B"] = {"ending": "FAILED", "seconds": 1, "result": "out of memory"}
        report_predict.add_predictions(parts, machine, report.MEASURED, *report_predict.machine_file(root, None, None, "NVIDIA H200"))
        calls = (folder / "calls").read_text().splitlines()
        text = tables(parts)
        for name, code in (("rate of 124M", 0), ("rate of OLMoE 1B-7B, 6 of 16 layers", 1)):
            expect(f"code {code} after a replay of the {name}", replay(folder, name) == code)

    plan = next(c for c in calls if c.startswith("plan") and "gpt2-124M" in c)
    for word in ("model.preset=gpt2-124M", "train.batch=64", "train.microbatch=32", "model.recompute=none", "h200.toml", "--ranks 1"):
        expect(f"{word} in {plan}", word in plan.replace(str(root), ""))
    expect("a token file of documents", any(c.startswith("tokenize") for c in calls))
    expect("attention within documents", any("data.attention=document" in c and "documents-512.tokens" in c for c in calls))
    generation = next((c for c in calls if "--generate 8" in c), "")
    expect(f"a prompt of the measured length in {generation}", "model.context=4074" in generation and "model.context=4096" not in generation)
    expect("a prediction in the record", parts["rate of 124M"]["predicted"] == {
        "step_ms": 5.0, "machine_file": "h200.toml", "origin": "shipped, from data sheets and public measurements"})
    expect("no prediction of what failed", "predicted" not in parts["rate of 1.5B"])
    for line in ("| 124M | 4.0 | 5.0 | +25% |", "| 1.5B in fp8 | 4.0 | 5.0 (too high: no rate for fp8) | +25% |", "| OLMoE 1B-7B, 6 of 16 layers | 4.0 | | |", "| Llama 3 8B, 8 sequences | 10.0 | 20.0 | +100% | 2.00 | 3.00 | +50% |",
                 "Predicted times: `trireme plan --machine` with h200.toml (shipped", "No prediction for OLMoE 1B-7B, 6 of 16 layers: error: no [[attention]]"):
        expect(f"{line} in:\n{text}", line in text)
    print("\n".join(wrong) or "gpu-report puts predicted times beside measured ones")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
