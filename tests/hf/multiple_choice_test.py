"""`trireme evaluate --multiple-choice` scores endings as the reference in f64 does, with tokens as lm-evaluation-harness cuts them."""
import json

import torch
from tokenizers import processors

import flavours
import reference
import texts
from program import GRID

VOCAB = 400
QUESTIONS = [
    ("A checkpoint is written by", ["all ranks.", "nobody", "the moon, late at night", "h5py"], 0),
    ("The run ends ", [" with a table", "with exit code 75", "never"], 1),  # spaces at the end move to the ending
    ("x" * 90, ["y", "of the context " * 4], 0),                           # longer than the context
    ("Größe: 你好", ["café", "№ 7"], 1),
    ("", ["An ending", "alone"], 0),
    (f"{texts.SPECIAL[0]}written out", ["once", "twice"], 1),
]


def log_likelihoods(w, shape, tokenizer, context, ending):
    """By the words of lm-evaluation-harness (EleutherAI): its encode_pair, which leaves the begin of a text to the tokenizer and does not
    double it, its context of none, its cut, a sum of log probabilities."""
    ending = ending if ending.startswith(" ") else " " + ending
    spaces = len(context) - len(context.rstrip())
    if spaces:
        context, ending = context[:-spaces], context[-spaces:] + ending
    if context:
        special = not context.startswith(tokenizer.bos_token)
        whole, start = (tokenizer(t, add_special_tokens=special).input_ids for t in (context + ending, context))
        added = whole[len(start):]
    else:
        start, added = [tokenizer.bos_token_id], tokenizer(ending, add_special_tokens=False).input_ids
    ids = (start + added)[-(flavours.CONTEXT + 1):]
    logp = torch.log_softmax(reference.logits(w, shape, torch.tensor([ids[:-1]]))[0], dim=-1)
    seen = min(len(added), len(ids) - 1)
    targets = torch.tensor(ids[-seen:])
    return float(logp[-seen:].gather(1, targets[:, None]).sum()), seen


def scores(flavour, program, begins):
    folder = program.work / "model"
    flavours.make(flavour, folder, vocab_size=VOCAB)
    tokenizer = texts.train_tokenizer(folder, VOCAB)
    if begins:
        begin = texts.SPECIAL[0]
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{begin} $A", special_tokens=[(begin, tokenizer.bos_token_id)])
        tokenizer.save_pretrained(folder)
        assert tokenizer("x").input_ids[0] == tokenizer.bos_token_id
    program("import", folder, "imported")
    with (program.work / "questions.jsonl").open("w") as file:
        for context, endings, label in QUESTIONS:
            file.write(json.dumps({"ctx": context, "endings": endings, "label": str(label)}) + "\n")
    shape, w = reference.load(folder, torch.float64)
    want = []
    with torch.no_grad():
        for context, endings, label in QUESTIONS:
            want.append([log_likelihoods(w, shape, tokenizer, context, e) for e in endings])
    f64 = ["run.backend=ref", "run.threads=1", "precision.compute=f64", "precision.reduce=f64"]
    f32 = ["run.backend=host", "run.threads=1", "precision.compute=f32"]
    worst = {}
    for name, ranks, words, bound in (("f64", 1, f64, 1e-10), ("f64 on a grid", GRID[0], [*f64, *GRID[1]], 1e-10),
                                      ("f32", 1, f32, 1e-4)):
        said = program("evaluate", "imported", *words, "--multiple-choice", "questions.jsonl", "--output", "out.jsonl", "--overwrite", ranks=ranks)
        rows = [json.loads(line) for line in (program.work / "out.jsonl").read_text().splitlines()]
        assert len(rows) == len(QUESTIONS)
        right = 0
        for row, expected, (_, _, label) in zip(rows, want, QUESTIONS):
            sums, counts = zip(*expected)
            assert row["tokens"] == list(counts), f"{name}: {row['tokens']} tokens, not {counts}"
            off = max(abs(a - b) / abs(b) for a, b in zip(row["log_likelihood"], sums))
            worst[name] = max(worst.get(name, 0), off)
            assert off <= bound, f"{name}: log-likelihoods {row['log_likelihood']} differ from {sums} by {off:.1e}"
            best = max(range(len(sums)), key=lambda i: sums[i])
            mean = max(range(len(sums)), key=lambda i: sums[i] / counts[i])
            assert (row["by_sum"], row["by_mean"], row["label"]) == (best, mean, label), row
            right += best == label
        assert f"{right} of {len(QUESTIONS)}" in said, said
    return ", ".join(f"{name} {off:.1e}" for name, off in worst.items())


def diverged(program):
    """Of a model whose logits overflow nothing is said to be right."""
    folder = program.work / "model"
    flavours.make("smollm", folder, vocab_size=VOCAB)
    texts.train_tokenizer(folder, VOCAB)
    flavours.edit_tensors(folder, lambda tensors: tensors["model.norm.weight"].fill_(3e38))
    program("import", folder, "imported")
    (program.work / "questions.jsonl").write_text(json.dumps({"ctx": "a", "endings": ["b", "c"], "label": 0}) + "\n")
    return program.refuses("evaluate", "imported", "--multiple-choice", "questions.jsonl", naming=["not finite"])


def more_ids_than_rows(program):
    """A tokenizer whose ids go beyond the model's table is refused, not read beyond it."""
    folder = program.work / "model"
    flavours.make("smollm", folder, vocab_size=300)
    tokenizer = texts.train_tokenizer(folder, VOCAB)
    # The vocabulary is learned from this tree, so its last word differs from commit to commit.
    word = next(t for t, i in sorted(tokenizer.get_vocab().items(), key=lambda item: -item[1])
                if t.isascii() and t.isalpha() and tokenizer(t).input_ids == [i])
    assert tokenizer(word).input_ids[0] >= 300
    program("import", folder, "imported")
    (program.work / "questions.jsonl").write_text(json.dumps({"ctx": word, "endings": ["b", "c"], "label": 0}) + "\n")
    program.refuses("evaluate", "imported", "--multiple-choice", "questions.jsonl", naming=["the model's ids are below 300"])
    return program.refuses("generate", "imported", "--prompt", word, naming=["the model's ids are below 300"])


def cases():
    yield "diverged", diverged
    yield "more_ids_than_rows", more_ids_than_rows
    for flavour, begins in (("gpt2", False), ("qwen3", False), ("llama2", True)):
        yield flavour, lambda program, flavour=flavour, begins=begins: scores(flavour, program, begins)
