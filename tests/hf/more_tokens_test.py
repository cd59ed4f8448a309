"""Tokens that import adds: their ids, and the rows of the tables, as transformers makes them."""
import json

import numpy as np
import torch
import transformers

import flavours
import guide_test
from program import weights_of

PLAIN, SPECIAL = ["<think>", "</think>"], ["<|im_end|>", "<|tool|>"]  # the third is known
TEXT = "<|im_start|>user\nOne <think>two</think> three<|tool|><|im_end|>"


def adds(name, program, rows):
    folder = program.work / "model"
    guide_test.make_theirs(name, folder)
    if rows:  # more rows than the tokenizer has ids: none are added
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        model.resize_token_embeddings(rows)
        model.save_pretrained(folder)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    before = len(theirs)
    said = program("import", folder, "imported", *[word for token in PLAIN for word in ("--add-token", token)],
                   *[word for token in SPECIAL for word in ("--add-special-token", token)])
    assert theirs.add_tokens(PLAIN) == 2 and theirs.add_tokens(SPECIAL, special_tokens=True) == 1
    for token in PLAIN + SPECIAL:
        known = ", as before" if token == "<|im_end|>" else ""
        assert f"token {token} has the id {theirs.convert_tokens_to_ids(token)}{known}\n" in said, said
    old = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    want = {"embedding.weight": old.get_input_embeddings().weight, "head.weight": old.get_output_embeddings().weight}
    got = weights_of(program.work / "imported")
    for table in ("embedding.weight", "head.weight"):
        if table not in got:
            assert name == "smollm"  # tied
            continue
        there = len(want[table])
        assert len(got[table]) == (rows or before + 3) and there == (rows or before), f"{len(got[table])} rows"
        assert torch.equal(got[table][:there].double(), want[table]), "another row has changed"
        off = (got[table][there:].double() - want[table].mean(0)).abs().max() if not rows else 0
        assert off <= 2 ** -24 * want[table].abs().max(), f"a new row is not the mean: {off}"
    program("export", "imported", "exported", "--dtype", "f32")
    again = transformers.AutoTokenizer.from_pretrained(program.work / "exported")
    assert again(TEXT)["input_ids"] == theirs(TEXT)["input_ids"] and again.decode(again(TEXT)["input_ids"]) == TEXT
    skipped = [tokenizer.decode(theirs(TEXT)["input_ids"], skip_special_tokens=True) for tokenizer in (theirs, again)]
    assert skipped[0] == skipped[1] and "<think>two</think>" in skipped[1], skipped
    new = transformers.AutoModelForCausalLM.from_pretrained(program.work / "exported", dtype=torch.float32)
    ids = torch.tensor([theirs(TEXT)["input_ids"]])
    assert new.config.vocab_size == (rows or before + 3) and new(ids).logits.isfinite().all()
    return f"{before} tokens and 3 more, in {new.config.vocab_size} rows"


def odd(program, gap):
    """A vocabulary with a gap, or with a word that no merge reaches."""
    folder = program.work / "model"
    guide_test.make_theirs("llama2", folder)
    path = folder / "tokenizer.json"
    whole = json.loads(path.read_text())
    last = max(whole["model"]["vocab"], key=whole["model"]["vocab"].get)
    whole["model"]["merges"] = [pair for pair in whole["model"]["merges"] if "".join(pair) != last]
    whole["model"]["vocab"]["<think>" if not gap else last] = 404 if gap else whole["model"]["vocab"].pop(last)
    path.write_text(json.dumps(whole))
    config = json.loads((folder / "config.json").read_text())
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.resize_token_embeddings(410)
    model.save_pretrained(folder)
    assert config["vocab_size"] == 400
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    new = ["<|tool|>"] if gap else ["<think>"]
    said = program("import", folder, "imported", "--add-special-token", *new)
    theirs.add_tokens(new, special_tokens=True)
    for token in new:
        assert f"token {token} has the id {theirs.convert_tokens_to_ids(token)}\n" in said, said
    program("export", "imported", "exported")
    again = transformers.AutoTokenizer.from_pretrained(program.work / "exported")
    text = "a <think> b <|tool|>"
    assert again(text)["input_ids"] == theirs(text)["input_ids"]
    (program.work / "t.jsonl").write_text(json.dumps({"text": text}) + "\n")
    program("tokenize", "t.jsonl", "--tokenizer", program.work / "exported", "--output", "t.tokens")
    ids = np.fromfile(program.work / "t.tokens", dtype="<u2")
    want = np.array(theirs(text)["input_ids"], dtype="<u2")
    assert any((ids[i:i + len(want)] == want).all() for i in range(len(ids) - len(want) + 1)), "Trireme has other ids"
    return f"ids {theirs.convert_tokens_to_ids(new)}"


def cases():
    for gap in (True, False):
        yield "a-gap" if gap else "a-word", lambda program, gap=gap: odd(program, gap)
    for name, rows in (("smollm", 0), ("llama2", 0), ("llama2", 416)):
        yield f"{name}{'-padded' if rows else ''}", lambda program, name=name, rows=rows: adds(name, program, rows)
