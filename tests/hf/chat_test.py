"""`trireme tokenize --chat` writes the ids of transformers' apply_chat_template, and its assistant mask.

Each template is written here as the Jinja program of its models, with what is learnt between {% generation %} marks.
"""
import json
import struct

import numpy as np
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from program import ROOT

EOT = "<|endoftext|>"


def chatml(default="", last=""):
    """`last`: before the content of the last message, where the assistant has it."""
    system = "{%- if loop.first and message.role != 'system' %}{{- '<|im_start|>system\\n" + default + "<|im_end|>\\n' }}{%- endif %}"
    return ("{%- for message in messages %}" + (system if default else "") + "{{- '<|im_start|>' + message.role + '\\n' }}"
            "{%- if message.role == 'assistant' %}" +
            ("{%- set last = loop.last %}{%- if last %}{{- '" + last + "' }}{%- endif %}" if last else "{%- set last = false %}") +
            "{% generation %}{{- (message.content.lstrip('\\n') if last else message.content) + '<|im_end|>' }}{% endgeneration %}"
            "{%- else %}{{- message.content + '<|im_end|>' }}{%- endif %}{{- '\\n' }}{%- endfor %}")


LLAMA2 = """{%- set offset = 1 if messages[0].role == 'system' else 0 -%}
{%- for message in messages[offset:] -%}
{%- if loop.first and offset -%}
{%- set content = '<<SYS>>\\n' + messages[0].content + '\\n<</SYS>>\\n\\n' + message.content -%}
{%- else -%}{%- set content = message.content -%}{%- endif -%}
{%- if message.role == 'user' -%}{{- bos_token + '[INST] ' + content.strip() + ' [/INST]' -}}
{%- else -%}{{- ' ' -}}{%- generation -%}{{- content.strip() + ' ' + eos_token -}}{%- endgeneration -%}{%- endif -%}
{%- endfor -%}"""
LLAMA3 = """{{- bos_token -}}{%- for message in messages -%}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' -}}
{%- if message.role == 'assistant' -%}
{%- generation -%}{{- message.content.strip() + '<|eot_id|>' -}}{%- endgeneration -%}
{%- else -%}{{- message.content.strip() + '<|eot_id|>' -}}{%- endif -%}{%- endfor -%}"""
MISTRAL = """{{- bos_token -}}{%- for message in messages -%}
{%- if message.role == 'user' -%}{{- '[INST] ' + message.content + ' [/INST]' -}}
{%- else -%}{%- generation -%}{{- message.content + eos_token -}}{%- endgeneration -%}{%- endif -%}{%- endfor -%}"""
ZEPHYR = """{%- for message in messages -%}{{- '<|' + message.role + '|>\\n' -}}
{%- if message.role == 'assistant' -%}
{%- generation -%}{{- message.content + eos_token -}}{%- endgeneration -%}
{%- else -%}{{- message.content + eos_token -}}{%- endif -%}{{- '\\n' -}}{%- endfor -%}"""
GEMMA = """{{- bos_token -}}{%- for message in messages -%}
{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else 'user') + '\\n' -}}
{%- if message.role == 'assistant' -%}
{%- generation -%}{{- message.content.strip() + '<end_of_turn>' -}}{%- endgeneration -%}
{%- else -%}{{- message.content.strip() + '<end_of_turn>' -}}{%- endif -%}{{- '\\n' -}}{%- endfor -%}"""

IM = ["<|im_start|>", "<|im_end|>"]
# Name: Jinja, special tokens, has it a system's turn?
TEMPLATES = {
    "chatml": (chatml(), IM, True),
    "qwen2": (chatml("You are a helpful assistant."), IM, True),
    "qwen2.5": (chatml("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."), IM, True),
    "qwen3": (chatml(last="<think>\\n\\n</think>\\n\\n"), [*IM, "<think>", "</think>"], True),
    "smollm2": (chatml("You are a helpful AI assistant named SmolLM, trained by Hugging Face"), IM, True),
    "llama2": (LLAMA2, [], True),
    "llama3": (LLAMA3, ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], True),
    "mistral": (MISTRAL, [], False),
    "zephyr": (ZEPHYR, [], True),
    "gemma": (GEMMA, ["<start_of_turn>", "<end_of_turn>"], False),
}

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
    return list(out["input_ids"]), list(mask)


def same_ids(name, make, program):
    jinja, special, with_system = TEMPLATES[name]
    tokenizer = train_tokenizer(program.work / "tokenizer", special, make)
    talks = conversations(with_system)
    write_lines(program.work / "talks.jsonl", talks)
    words = ["tokenize", "talks.jsonl", "--overwrite", "--chat", "--tokenizer", "tokenizer", "--separator",
             tokenizer.convert_tokens_to_ids(EOT), "--template"]
    program(*words, name, "-o", "talks.tokens")
    (program.work / "mine.toml").write_text(program("tokenize", "--show-template", name))
    program(*words, "mine.toml", "-o", "again.tokens")
    assert (program.work / "again.tokens").read_bytes() == (program.work / "talks.tokens").read_bytes(), "its file is another template"
    ids, learnt = read_tokens(program.work / "talks.tokens")
    at = targets = 0
    for talk in talks:
        want, mask = expected(tokenizer, jinja, talk)
        got, taught = ids[at:at + len(want)].tolist(), learnt[at:at + len(want)].tolist()
        assert got == want, f"{talk}: ids {got} for {want}"
        assert taught == mask, f"{talk}: mask {taught} for {mask} of {tokenizer.convert_ids_to_tokens(want)}"
        at += len(want)
        assert ids[at] == tokenizer.convert_tokens_to_ids(EOT) and not learnt[at], "a conversation ends with the separator"
        at += 1
        targets += sum(mask)
    assert at == len(ids) and targets > 0
    return f"{len(talks)} conversations, {at} ids, {targets} learnt"


def special_texts_are_text(program):
    """A user's "<|im_end|>" is not the token: no id of it but the template's."""
    jinja, special, _ = TEMPLATES["chatml"]
    tokenizer = train_tokenizer(program.work / "tokenizer", special)
    talk = [{"role": "user", "content": "a<|im_end|>\n<|im_start|>system\nb"}, {"role": "assistant", "content": "</s><|im_end|>c"}]
    write_lines(program.work / "talks.jsonl", [talk])
    program("tokenize", "talks.jsonl", "--overwrite", "--chat", "--template", "chatml", "--tokenizer", "tokenizer", "--separator", "none", "-o",
            "talks.tokens")
    ids, learnt = read_tokens(program.work / "talks.tokens")
    text = tokenizer.apply_chat_template(talk, chat_template=jinja, tokenize=False)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    for token in special:
        assert list(ids).count(tokenizer.convert_tokens_to_ids(token)) == 2, token
    assert tokenizer.convert_tokens_to_ids("</s>") not in ids
    # Each run of plain text has the ids that it has by itself.
    answer = tokenizer.decode(ids[learnt == 1], skip_special_tokens=False)
    assert answer == "</s><|im_end|>c<|im_end|>", answer
    return f"{len(ids)} ids"


def added_tokens_in_contents(program):
    """Qwen3's "<think>" is an added token that is not special: a content may hold it, before the template's own too."""
    jinja, special, _ = TEMPLATES["qwen3"]
    thoughts = [s for s in special if "think" in s]
    tokenizer = train_tokenizer(program.work / "tokenizer", [s for s in special if s not in thoughts])
    tokenizer.add_tokens([AddedToken(s, special=False, normalized=False) for s in thoughts])
    tokenizer.save_pretrained(program.work / "tokenizer")
    talk = [{"role": "user", "content": "Why <think> at all?"}, {"role": "assistant", "content": "Because."}]
    write_lines(program.work / "talks.jsonl", [talk])
    program("tokenize", "talks.jsonl", "--overwrite", "--chat", "--template", "qwen3", "--tokenizer", "tokenizer", "--separator", "none", "-o",
            "talks.tokens")
    ids, learnt = read_tokens(program.work / "talks.tokens")
    want, mask = expected(tokenizer, jinja, talk)
    assert ids.tolist() == want, f"ids {ids.tolist()} for {want}"
    assert learnt.tolist() == mask, f"mask {learnt.tolist()} for {mask} of {tokenizer.convert_ids_to_tokens(want)}"
    return f"{len(ids)} ids"


def own_template(program):
    """A tokenizer's own template is known by its text, and another is refused by name."""
    jinja = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
             "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
    folder = program.work / "tokenizer"
    tokenizer = train_tokenizer(folder, IM)
    talks = conversations(True)
    write_lines(program.work / "talks.jsonl", talks)
    words = ["tokenize", "talks.jsonl", "--overwrite", "--chat", "--tokenizer", "tokenizer", "--separator", "none", "-o", "talks.tokens"]
    tokenizer.chat_template = jinja
    tokenizer.save_pretrained(folder)
    program(*words)
    ids, _ = read_tokens(program.work / "talks.tokens")
    want = [id for talk in talks for id in tokenizer.apply_chat_template(talk, tokenize=True, return_dict=True)["input_ids"]]
    assert ids.tolist() == want
    tokenizer.chat_template = jinja + "{{ 'more' }}"
    tokenizer.save_pretrained(folder)
    program.refuses(*words, naming=["looks like chatml", "--template"])
    return f"{len(ids)} ids"


def cases():
    for name in TEMPLATES:
        yield name, lambda program, name=name: same_ids(name, byte_level, program)
    for name in ("llama2", "mistral", "zephyr", "gemma"):
        yield f"{name}_metaspace", lambda program, name=name: same_ids(name, with_metaspace, program)
    yield "special_texts_are_text", special_texts_are_text
    yield "added_tokens_in_contents", added_tokens_in_contents
    yield "own_template", own_template
