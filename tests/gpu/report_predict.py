"""Predicted times for the measured parts of report.py: `trireme plan --machine` with a machine file. Needs no GPU.

The machine file is the one that `trireme calibrate` wrote on the device, if the part `calibration` passed. Otherwise it is a file in
inputs/machines/ for GPUs of this name.
"""
import json
import random
import re
import shutil
from pathlib import Path

from machine import Failed

STAND_IN = Path(__file__).resolve().parent / "stand_in_machine.toml"
PLAN_SECONDS = 60
DOCUMENT_TOKENS = 1 << 20  # of which plan reads half a million

# Options of bench_gpu and the keys of a deck that they set.
KEYS = {"model": "model.preset", "layers": "model.layers", "width": "model.width", "heads": "model.heads", "vocab": "model.vocab",
        "context": "model.context", "batch": "train.batch", "products": "precision.products", "adapter": "adapter.rank",
        "base": "adapter.base"}


def calibration(machine, file, tiny):
    """Writes a machine file for the device. Returns its description."""
    if tiny:
        shutil.copy(STAND_IN, file)
        return ["not measured: the rates of the stand-in are made up"]
    said = machine.run([machine.trireme, "calibrate", str(file), "--backend", machine.backend, "--overwrite"], 300)
    return [said.strip().splitlines()[-1]]


def shipped(root, device):
    """Returns the machine file in inputs/machines for a device of this name, or None."""
    files = sorted((root / "inputs/machines").glob("*.toml"))
    return next((f for f in files if re.search(rf"\b{f.stem}\b", device, re.IGNORECASE)), None)


def machine_file(root, given, calibrated, device):
    """Returns the machine file for predictions and a label that says where its rates come from, or (None, the reason)."""
    if given:
        return given.resolve(), "given by --machine"  # trireme runs in another folder
    if calibrated and calibrated.is_file():
        made_up = calibrated.read_bytes() == STAND_IN.read_bytes()
        return calibrated, "made up, for tests of this script" if made_up else "calibrated on this device"
    if file := shipped(root, device):
        return file, "shipped, from data sheets and public measurements"
    return None, f"inputs/machines has no file for {device}"


def options_of(text):
    """Maps the options in a command line of bench_gpu to their values. If an option is repeated, the last one counts."""
    words = text.split()
    return {name[2:]: value for name, value in zip(words[::2], words[1::2])}


def overrides_of(options, result):
    """Returns the deck of a measured training or generation as overrides. `result` has what bench_gpu chose itself."""
    deck = {KEYS[name]: value for name, value in options.items() if name in KEYS}
    if "width" in options:
        deck.update({"model.kv_heads": "auto", "model.ffn_width": "auto"})  # as bench_gpu has it
    # A CPU without bf16 measures fp8 with f32, which decks do not allow.
    deck["precision.compute"] = "bf16" if options.get("products") == "fp8" else result["dtype"]
    deck["train.steps"] = "1"
    if "microbatch" in result:
        deck["train.microbatch"] = str(result["microbatch"])
        deck["train.batch"] = str(result["tokens"] // result["context"])
        deck["model.recompute"] = result["recompute"]
    if "prompt" in result:
        deck["model.context"] = str(result["prompt"] + 1)  # plan predicts a prompt that leaves room for one token
    if result.get("documents"):
        deck["data.attention"] = "document"
    return [f"{key}={value}" for key, value in deck.items()]


def tokens_of_documents(machine, mean):
    """Returns a token file whose documents have random lengths as in bench_gpu."""
    file = machine.work / f"documents-{mean}.tokens"
    if not file.is_file():
        draw, left = random.Random(1), DOCUMENT_TOKENS
        text = machine.work / "documents.jsonl"
        with open(text, "w") as lines:
            while left > 0:
                length = max(1, round(draw.expovariate(1 / mean)))  # with the separator
                lines.write(json.dumps({"text": "x" * (length - 1)}) + "\n")
                left -= length
        machine.run([machine.trireme, "tokenize", str(text), "--tokenizer", "bytes", "-o", str(file)], PLAN_SECONDS)
    return file


def predicted(machine, options, result, file):
    """Returns the predicted milliseconds for the measurements of one part."""
    options = options_of(options)
    tokens = tokens_of_documents(machine, result["documents"]) if result.get("documents") else "none.tokens"
    deck = machine.work / "predicted.toml"
    deck.write_text("")
    command = [machine.trireme, "plan", str(deck), f"data.path={tokens}", *overrides_of(options, result), "--ranks", "1", "--machine",
               str(file), "--json"]
    if "sequences" in result:
        got = machine.json_of([*command, "train.batch=1", "--generate", str(result["sequences"])], PLAN_SECONDS)["predicted"]["generation"]
        return {"prefill_ms": 1e3 * got["prefill_seconds"], "token_ms": 1e3 * got["token_seconds"]}
    got = machine.json_of(command, PLAN_SECONDS)["predicted"]
    times = {"step_ms": 1e3 * got["step_seconds"]}
    if got["slower_attention"]:
        times["note"] = "too low: no rate for this attention"
    if options.get("products") == "fp8" and '"fp8"' not in file.read_text():
        times["note"] = "too high: no rate for fp8"
    return times


def add_predictions(parts, machine, commands, file, label):
    """Adds the key `predicted` to each measured part: times and the origin of the machine file, or the reason why there is none."""
    for name, options in commands.items():
        part = parts.get(name)
        if not part or part["ending"] != "ok":
            continue
        if not file:
            part["predicted"] = {"why": label}
            continue
        try:
            part["predicted"] = {**predicted(machine, options, part["result"], file), "machine_file": file.name, "origin": label}
        except Failed as e:
            part["predicted"] = {"why": str(e).strip().splitlines()[-1].strip(), "machine_file": file.name, "origin": label}


def compared(part, key):
    """Returns the measured and the predicted time, and the error of the prediction, as three cells of a table."""
    measured, times = part["result"][key], part.get("predicted", {})
    digits = 2 if key == "token_ms" else 1
    if key not in times:
        return f"{measured:.{digits}f} | |"
    note = f" ({times['note']})" if "note" in times else ""
    return f"{measured:.{digits}f} | {times[key]:.{digits}f}{note} | {100 * (times[key] / measured - 1):+.0f}%"


def print_origin(parts):
    """Prints which machine files the predictions come from, and why some are missing."""
    print()
    origins = sorted({(p["predicted"]["machine_file"], p["predicted"]["origin"]) for p in parts.values() if "origin" in p.get("predicted", {})})
    for file, origin in origins:
        print(f"Predicted times: `trireme plan --machine` with {file} ({origin}).")
    for name, part in parts.items():
        if "why" in part.get("predicted", {}):
            print(f"No prediction for {name.split(' of ', 1)[1]}: {part['predicted']['why']}.")
