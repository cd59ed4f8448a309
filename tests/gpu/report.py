#!/usr/bin/env python3
"""Checks new features on a GPU and measures them, in a few minutes: report.py BUILD --record FILE

BUILD is a build folder or an unpacked bundle. The most informative parts run first. The result of each part is written to FILE
(JSON) as soon as the part ends. A second call with the same FILE runs only the parts that did not pass. At the end, `trireme plan`
predicts the measured times, and the tables of docs/gpu.md are printed. --replay FILE prints only these tables.

  report.py BUILD --replay FILE           predicts the times again, which needs no GPU, and prints the tables
  report.py BUILD --replay FILE --machine MACHINE   the same with another machine file
  report.py BUILD --list                  lists the parts
  report.py BUILD --only contract         runs one part; may be repeated
  report.py BUILD --backend host --tiny   runs the same commands with tiny shapes on the CPU, to test this script
"""
import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import checks
from machine import Failed, Machine, Skipped
from report_parts import DECODES, DEVICE_PARTS, RATES, TINY, features, fp8, generation, measured, parity
from report_predict import add_predictions, calibration, compared, machine_file, print_origin


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", nargs="?", type=Path)
    p.add_argument("--record", type=Path, help="the file with the results")
    p.add_argument("--replay", type=Path, metavar="FILE", help="print the tables of this file")
    p.add_argument("--machine", type=Path, metavar="FILE", help="the machine file for predictions")
    p.add_argument("--only", action="append", metavar="NAME")
    p.add_argument("--list", action="store_true")
    p.add_argument("--backend", default="cuda", choices=["cuda", "host", "fenced"])
    p.add_argument("--tiny", action="store_true")
    p.add_argument("--limit", type=float, default=720, metavar="SECONDS", help="for all parts together")
    p.add_argument("--patience", type=float, default=1, metavar="FACTOR", help="for a machine that is busy: longer limits")
    return p.parse_args()


MEASURED = {**{f"rate of {name}": options for name, options in RATES.items()},
            **{f"decode of {name}": options for name, options in DECODES.items()}}


def parts_of(machine, tiny, calibrated):
    """Maps each part's name to a function that returns its result as a JSON value."""
    parts = {
        "contract": lambda: checks.said(machine.gtest(checks.contract(machine), 100, 8)),
        "features": lambda: features(machine),
        "fp8": lambda: fp8(machine),
        "generation": lambda: generation(machine),
        **{name: lambda ranks=ranks: parity(machine, ranks) for name, ranks in DEVICE_PARTS.items()},
    }
    for kind, command, models in (("rate", "step", RATES), ("decode", "decode", DECODES)):
        for name, model in models.items():
            parts[f"{kind} of {name}"] = lambda command=command, model=model: measured(machine, command, model, tiny)
    parts["calibration"] = lambda: calibration(machine, calibrated, tiny)
    return parts


class Record:
    """Results of parts, of one program, device and size: those of others are dropped."""

    def __init__(self, file, of):
        self.file = file
        self.parts = json.loads(file.read_text()) if file and file.is_file() else {}
        if self.parts.get("of", {}).get("result") != of:
            self.parts = {}
            self.add("of", "ok", 0, of)

    def passed(self, name):
        return self.parts.get(name, {}).get("ending") == "ok"

    def add(self, name, ending, seconds, result):
        self.parts[name] = {"ending": ending, "seconds": round(seconds, 1), "result": result}
        self.write()

    def write(self):
        if self.file:
            fresh = self.file.with_suffix(".new")
            fresh.write_text(json.dumps(self.parts, indent=1) + "\n")
            fresh.replace(self.file)


def device_name():
    try:
        asked = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        return subprocess.run(asked, capture_output=True, text=True, timeout=30).stdout.strip()
    except OSError:
        return "no nvidia-smi"


def perform(name, function, record, machine):
    begin = time.monotonic()
    if begin + 5 > machine.end:
        print(f"left out {name}: --limit is over", flush=True)
        return "left out"
    try:
        ending, result = "ok", function()
    except Skipped as e:
        ending, result = "skipped", str(e)
    except Failed as e:
        ending, result = "FAILED", str(e)
    except Exception as e:  # a file that is not there, a text that does not parse
        ending, result = "FAILED", f"{type(e).__name__}: {e}"
    took = time.monotonic() - begin
    record.add(name, ending, took, result)
    print(f"{ending:8} {name} ({took:.1f} s): {result if isinstance(result, str) else json.dumps(result)[:1500]}", flush=True)
    return ending


def print_tables(parts):
    print("\n| check | result | s |\n|---|---|---|")
    for name, part in parts.items():
        if not name.startswith(("rate of ", "decode of ")):
            result = part["result"]
            text = result if isinstance(result, str) else "; ".join(map(str, result))
            print(f"| {name} | {part['ending']}: {' '.join(text.split())[:300]} | {part['seconds']} |")
    print("\n| model | ms per step | predicted, ms | error | tokens/s | TFLOP/s | GPU memory, GiB | most time in |\n|---|---|---|---|---|---|---|---|")
    for name, part in parts.items():
        if not name.startswith("rate of "):
            continue
        r = part["result"]
        if part["ending"] != "ok":
            print(f"| {name[8:]} | {part['ending']}: {' '.join(str(r).split())[:200]} | | | | | | |")
            continue
        most = sorted(r.get("classes", []), key=lambda k: -k["ms"])[:4]
        print(f"| {name[8:]} | {compared(part, 'step_ms')} | {r['tokens_per_s']:,.0f} | {'' if r['documents'] else format(r['tflops'], '.0f')} | {r['reserved_GiB']:.1f} | "
              + ", ".join(f"{k['name']} {k['ms']:.1f}" for k in most) + " |")
    print("\n| model | prefill, ms | predicted, ms | error | ms per token | predicted, ms | error | tokens/s | GB/s read |\n|---|---|---|---|---|---|---|---|---|")
    for name, part in parts.items():
        if not name.startswith("decode of "):
            continue
        r = part["result"]
        if part["ending"] != "ok":
            print(f"| {name[10:]} | {part['ending']}: {' '.join(str(r).split())[:200]} | | | | | | | |")
            continue
        print(f"| {name[10:]} | {compared(part, 'prefill_ms')} | {compared(part, 'token_ms')} | {1e3 * r['sequences'] / r['token_ms']:,.0f} | {r['GB_per_s']:,.0f} |")
    print_origin(parts)


def predict(parts, machine, a, calibrated):
    """Adds predictions to the measured parts. Returns the number of missing predictions that the machine file should allow. A
    calibration counts if its part passed."""
    machine.end = float("inf")  # needs no device, whose time --limit limits
    passed = parts.get("calibration", {}).get("ending") == "ok"
    commands = {name: f"{options} {TINY}" if a.tiny else options for name, options in MEASURED.items()}
    device = " ".join(parts.get("of", {}).get("result", []))
    file, label = machine_file(machine.root, a.machine, calibrated if passed else None, device)
    add_predictions(parts, machine, commands, file, label)
    # Files in inputs/machines lack rates for some models, but others must have them all.
    complete = file and file.parent != machine.root / "inputs/machines"
    return sum("why" in part.get("predicted", {}) for part in parts.values()) if complete else 0


def main():
    a = arguments()
    if a.replay and not a.build:
        print_tables(json.loads(a.replay.read_text()))
        return 0
    if not a.build:
        print("gpu-report: name the build folder, or --replay FILE")
        return 2
    work = Path(tempfile.mkdtemp(prefix="trireme-gpu-report-"))
    try:
        machine = Machine(a.build, a.backend, work, a.limit, a.patience)
        calibrated = a.record.with_suffix(".machine.toml").resolve() if a.record else work / "machine.toml"
        if a.replay:
            recorded = json.loads(a.replay.read_text())
            missing = predict(recorded, machine, a, a.replay.with_suffix(".machine.toml").resolve())
            print_tables(recorded)
            return 1 if missing else 0
        parts = parts_of(machine, a.tiny, calibrated)
        if a.list:
            print("\n".join(parts))
            return 0
        if unknown := [n for n in a.only or [] if n not in parts]:
            print(f"gpu-report: no part is named {unknown[0]}; they are {', '.join(parts)}")
            return 2
        if a.backend == "cuda" and machine.devices()[0] == 0:
            print(f"gpu-report: no device answers: {machine.devices()[1].splitlines()[-1]}")
            return 1
        record = Record(a.record, [*machine.devices()[1].splitlines(), device_name(), f"backend {a.backend}{', tiny' if a.tiny else ''}"])
        begin = time.monotonic()
        endings = [perform(name, function, record, machine) for name, function in parts.items()
                   if (not a.only or name in a.only) and not record.passed(name)]
        missing = predict(record.parts, machine, a, calibrated)
        record.write()
        print_tables(record.parts)
        bad = missing + sum(e in ("FAILED", "left out") for e in endings)
        print(f"gpu-report: {endings.count('ok')} passed, {endings.count('FAILED')} failed, {endings.count('left out')} left out, "
              f"{missing} not predicted, in {time.monotonic() - begin:.0f} s")
        return 1 if bad else 0
    except Failed as e:
        print(f"gpu-report: {e}")
        return 1
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
