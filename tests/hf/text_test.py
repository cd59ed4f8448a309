"""With a tokenizer: `trireme generate` writes what transformers' generate does."""
import torch

import flavours
import texts

VOCAB, NEW = 400, 20


def same_text(flavour, program):
    folder = program.work / "model"
    model = flavours.make(flavour, folder, vocab_size=VOCAB)
    tokenizer = texts.train_tokenizer(folder, VOCAB)
    program("import", folder, "imported")
    prompts = ["A checkpoint is", "The   café № 7", "let x = 1;\n\treturn"]
    for prompt in prompts:
        ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).input_ids
        assert ids.shape[1] + NEW <= flavours.CONTEXT, f"{prompt!r} has {ids.shape[1]} tokens"
        with torch.no_grad():
            out = model.generate(ids, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, eos_token_id=None,
                                 pad_token_id=0)[0]
        assert out.numel() == ids.shape[1] + NEW
        want = tokenizer.decode(out)
        got = program("generate", "imported", "--prompt", prompt, "--tokens", NEW, "--temperature", 0, "--backend", "host",
                      "--threads", 1, "--ignore-eos")
        assert got == want + "\n", f"{got!r} for {want!r}"
    return f"{len(prompts)} prompts, {NEW} tokens each"


def cases():
    for flavour in ("gpt2", "llama3", "qwen3"):
        yield flavour, lambda program, flavour=flavour: same_text(flavour, program)
