"""A new user's path: a folder of others comes in, is trained on own text on two ranks, and goes back to transformers."""
import math
import re

import numpy as np
import torch
import transformers

import flavours
import texts

VOCAB, NEW = 400, 12

DECK = """
[model]
preset = "from:imported"
init_from = "imported"

[data]
path = "own.tokens"
validation = 0.1

[train]
batch = 8
steps = 30

[optimizer]
lr = 3e-3

[zero]
stage = 3

[evaluate]
every_steps = 0
batches = 0

[run]
backend = "host"
threads = 1
"""


def token_ids(path):
    """Of a file with tokens of 2 bytes, by docs/token_file.md."""
    data = path.read_bytes()
    assert data[:8] == b"TRITOKEN" and data[12] == 2
    return np.frombuffer(data, "<u2", int.from_bytes(data[16:24], "little"), 256).astype(np.int64)


def held_out_loss(model, ids):
    """Over the tail that data.validation holds out, in samples of the context."""
    # Halves are rounded up, as those of C are.
    tail = torch.from_numpy(ids[len(ids) - math.floor(len(ids) * 0.1 + 0.5):])
    samples = (len(tail) - 1) // flavours.CONTEXT
    n = samples * flavours.CONTEXT
    inputs, targets = (tail[k:k + n].view(samples, -1) for k in (0, 1))
    with torch.no_grad():
        z = model(inputs).logits
    return float(torch.nn.functional.cross_entropy(z.flatten(0, 1).double(), targets.flatten())), n


def path_of_a_user(flavour, program):
    folder, mine = program.work / "theirs", program.work / "mine"
    flavours.make(flavour, folder, vocab_size=VOCAB)
    theirs = texts.train_tokenizer(folder, VOCAB)
    text = "\n".join(texts.lines())
    (program.work / "own.txt").write_text(text)

    program("import", folder, "imported")
    program("tokenize", "own.txt", "--overwrite", "--tokenizer", folder, "--output", "own.tokens")
    ids = token_ids(program.work / "own.tokens")
    want = theirs(text, add_special_tokens=False).input_ids
    got = ids.tolist()
    assert got[:len(want)] == want and len(got) <= len(want) + 1, "other tokens than those of tokenizers"

    deck = program.write_deck("mine.toml", DECK)
    program("tokenize", "own.txt", "--overwrite", "--output", "bytes.tokens")
    for command in ("check", "train"):
        program.refuses(command, deck, "data.path=bytes.tokens", naming=["tokenizer bytes", "tokenizer huggingface"])
    program("train", deck, "--run-dir", "run", ranks=2)
    program.refuses("evaluate", "run", "--data", "bytes.tokens", naming=["tokenizer bytes"])
    losses = program.history("run")["loss"]
    before, after = sum(losses[:3]) / 3, sum(losses[-3:]) / 3
    assert after < before - 0.5, f"the loss went from {before:.3f} to {after:.3f}"

    program("export", "run", mine, "--format", "safetensors", "--dtype", "f32")
    model = transformers.AutoModelForCausalLM.from_pretrained(mine).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(mine)
    assert tokenizer(text, add_special_tokens=False).input_ids == want, "another tokenizer"
    loss, count = held_out_loss(model, ids)
    said = program("evaluate", "run")
    ours, valid = re.search(r"loss ([\d.]+), .* over (\d+) targets", said).groups()
    assert int(valid) == count, f"{said} for {count} targets"
    assert abs(float(ours) - loss) < 1e-5, f"{said} for {loss}"

    prompt = "A checkpoint"
    start = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).input_ids
    out = model.generate(start, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, eos_token_id=None, pad_token_id=0)
    written = program("generate", "run", "--prompt", prompt, "--tokens", NEW, "--temperature", 0, "--ignore-eos")
    assert written == tokenizer.decode(out[0]) + "\n", f"{written!r} for {tokenizer.decode(out[0])!r}"
    return f"loss {before:.3f} to {after:.3f}, held-out loss {loss:.6f} in both, same text"


def cases():
    for flavour in ("smollm", "qwen3"):
        yield flavour, lambda program, flavour=flavour: path_of_a_user(flavour, program)
