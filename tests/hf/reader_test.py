"""The reader that docs/exchange.md prints, word for word: it finds the weights that went in."""
import contextlib
import io
import re

import torch

import flavours
import names
import reference
from program import ROOT


def printed_reader():
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/exchange.md").read_text(), re.M | re.S)
    found = [text for text in blocks if '"mine.h5"' in text]
    assert len(found) == 1, f"docs/exchange.md has {len(found)} blocks of Python that read mine.h5"
    return found[0]


def reads(name, program):
    folder = program.work / "model"
    flavours.make(name, folder)
    shape, theirs = reference.load(folder, torch.float32)
    program("import", folder, "imported")
    program("export", "imported", "mine.h5", "--format", "hdf5")
    after = {}
    with contextlib.chdir(program.work), contextlib.redirect_stdout(io.StringIO()):
        exec(compile(printed_reader(), "docs/exchange.md", "exec"), after)
    want = names.from_hf(theirs, shape)
    assert sorted(after["weights"]) == sorted(want)
    for key, w in want.items():
        assert torch.equal(torch.from_numpy(after["weights"][key]), w), key
    if not shape.gpt2:
        for letter in "qkv":
            part = theirs[f"model.layers.0.self_attn.{letter}_proj.weight"]
            assert torch.equal(torch.from_numpy(after[letter]), part), letter
    return f"{len(want)} weights"


def cases():
    for name in ("gpt2", "llama2", "qwen3", "qwen2-moe"):
        yield name, lambda program, name=name: reads(name, program)
