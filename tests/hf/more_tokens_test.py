"""Tokens that import adds: their ids, and the rows of the tables, as transformers makes them."""
import torch
import transformers

import flavours
import guide_test
from program import weights_of

MORE = ["<think>", "<|im_end|>", "</think>", "<think>"]
TEXT = "<|im_start|>user\nOne <think>two</think> three<|im_end|>"


def adds(name, program, rows):
    folder = program.work / "model"
    guide_test.make_theirs(name, folder)
    if rows:  # more rows than the tokenizer has ids: none are added
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        model.resize_token_embeddings(rows)
        model.save_pretrained(folder)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    before = len(theirs)
    said = program("import", folder, "imported", *[word for token in MORE for word in ("--add-token", token)])
    assert theirs.add_special_tokens({"additional_special_tokens": MORE[:1] + MORE[2:3]}, replace_extra_special_tokens=False) == 2
    for token in MORE:
        assert f"token {token} has the id {theirs.convert_tokens_to_ids(token)}\n" in said, said
    old = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    want = {"embedding.weight": old.get_input_embeddings().weight, "head.weight": old.get_output_embeddings().weight}
    got = weights_of(program.work / "imported")
    for table in ("embedding.weight", "head.weight"):
        if table not in got:
            assert name == "smollm"  # tied
            continue
        there = len(want[table])
        assert len(got[table]) == (rows or before + 2) and there == (rows or before), f"{len(got[table])} rows"
        assert torch.equal(got[table][:there].double(), want[table]), "another row has changed"
        off = (got[table][there:].double() - want[table].mean(0)).abs().max() if not rows else 0
        assert off <= 2 ** -24 * want[table].abs().max(), f"a new row is not the mean: {off}"
    program("export", "imported", "exported", "--dtype", "f32")
    again = transformers.AutoTokenizer.from_pretrained(program.work / "exported")
    assert again(TEXT)["input_ids"] == theirs(TEXT)["input_ids"] and again.decode(again(TEXT)["input_ids"]) == TEXT
    new = transformers.AutoModelForCausalLM.from_pretrained(program.work / "exported", dtype=torch.float32)
    ids = torch.tensor([theirs(TEXT)["input_ids"]])
    assert new.config.vocab_size == (rows or before + 2) and new(ids).logits.isfinite().all()
    return f"{before} tokens and 2 more, in {new.config.vocab_size} rows"


def cases():
    for name, rows in (("smollm", 0), ("llama2", 0), ("llama2", 416)):
        yield f"{name}{'-padded' if rows else ''}", lambda program, name=name, rows=rows: adds(name, program, rows)
