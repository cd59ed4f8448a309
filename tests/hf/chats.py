"""Conversations, tokenizers for them, and what transformers and trireme make of both."""
import itertools
import json
import shutil
import struct

import numpy as np
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from program import ROOT

EOT = "<|endoftext|>"

# Contents that run into what is around them: line ends, spaces, digits, other scripts, nothing.
CONTENTS = ["Hello there.", "\nStarts with a line end", "ends with two\n\n", "  spaces  ", "1234567890 + 1 = ?", "",
            "def f(x):\n    return x  # tabs\t\there", "Größe, 你好, emoji 🚀, ﬁ ligature", "\n", "It's I'll WE'VE"]


def conversations(with_system):
    talks = []
    for n, content in enumerate(CONTENTS):
        other = CONTENTS[(n + 3) % len(CONTENTS)]
        talk = [("user", content), ("assistant", other), ("user", other), ("assistant", content)]
        talks.append(talk[:2 + 2 * (n % 2)])
        talks.append(talk[:3])  # a question is left without an answer
        if with_system:
            talks.append([("system", content), *talk])
    return [[{"role": role, "content": text} for role, text in talk] for talk in talks]


def byte_level():
    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    return bare, pre_tokenizers.ByteLevel.alphabet()


def with_metaspace():
    """As Llama 2 and Mistral have it: a space becomes a sign of its own, one is put before each text, bytes where nothing else is."""
    bare = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    bare.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    bare.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                      decoders.Strip(content=" ", left=1)])
    return bare, []


def train_tokenizer(folder, special, make=byte_level):
    text = [line for page in sorted((ROOT / "docs").glob("*.md")) for line in page.read_text().splitlines(keepends=True)]
    bare, alphabet = make()
    bytes_of_fallback = [f"<0x{b:02X}>" for b in range(256)] if make is with_metaspace else []
    bare.train_from_iterator(text, trainers.BpeTrainer(
        vocab_size=900, special_tokens=["<unk>", "<s>", "</s>", EOT, *bytes_of_fallback], show_progress=False,
        initial_alphabet=alphabet, max_token_length=16))
    if bytes_of_fallback:  # they are pieces of the vocabulary, not special
        description = json.loads(bare.to_str())
        description["added_tokens"] = [t for t in description["added_tokens"] if t["content"] not in bytes_of_fallback]
        bare = Tokenizer.from_str(json.dumps(description))
    bare.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in special])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=bare, bos_token="<s>", eos_token="</s>")
    tokenizer.save_pretrained(folder)
    return tokenizer


def read_tokens(path):
    """Ids, and which are targets."""
    data = path.read_bytes()
    width, count = struct.unpack_from("<IQ", data, 12)
    ids = np.frombuffer(data, f"<u{width}", count, 256)
    mask = np.frombuffer(data, "u1", (count + 7) // 8, 256 + width * count)
    return ids.astype(int), np.unpackbits(mask, bitorder="little")[:count]


def write_lines(path, talks):
    path.write_text("".join(json.dumps({"messages": talk}, ensure_ascii=n % 2 == 0) + "\n" for n, talk in enumerate(talks)))


def expected(tokenizer, jinja, talk):
    out = tokenizer.apply_chat_template(talk, chat_template=jinja, tokenize=True, return_dict=True,
                                        return_assistant_tokens_mask=True)
    mask = out["assistant_masks"] if "assistant_masks" in out else out["assistant_tokens_mask"]
    return list(out["input_ids"]), without_empty_answers(talk, list(mask))


def without_empty_answers(talk, mask):
    """transformers marks the end of an empty answer; `tokenize` does not learn it. Each answer is a run of ones."""
    answers = [message for message in talk if message["role"] == "assistant"]
    if all((message.get("content") or "").strip() or message.get("tool_calls") for message in answers):
        return mask
    runs = [list(run) for _, run in itertools.groupby(range(len(mask)), key=lambda i: mask[i])]
    runs = [run for run in runs if mask[run[0]]]
    assert len(runs) == len(answers), (talk, mask)
    for message, run in zip(answers, runs):
        if not (message.get("content") or "").strip() and not message.get("tool_calls"):
            for i in run:
                mask[i] = 0
    return mask


def asked(talks):
    """The same up to their last answer."""
    return [talk[:-1] if talk[-1]["role"] == "assistant" else talk for talk in talks]


def prompt(tokenizer, talk, jinja=None):
    out = tokenizer.apply_chat_template(talk, chat_template=jinja, add_generation_prompt=True, tokenize=True, return_dict=True)
    return list(out["input_ids"])


# A model that learns little, but fast.
SMALL = ["model.layers=2", "model.width=32", "model.heads=2", "data.validation=[]", "schedule.warmup_steps=0", "run.threads=1",
         "evaluate.every_steps=0"]


def exported(program, tokens, more=()):
    """The folder of a model that was trained on them for one step."""
    program("train", ROOT / "inputs/quickstart.toml", "model.vocab=0", f"data.path={tokens}", *SMALL, "train.steps=1", "--run-dir", "run",
            "--overwrite", *more)
    shutil.rmtree(program.work / "out", ignore_errors=True)
    program("export", "run", "out")
    return transformers.AutoTokenizer.from_pretrained(program.work / "out")
