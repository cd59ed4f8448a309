"""`trireme tokenize --chat` writes the ids of transformers' apply_chat_template, and its assistant mask; `generate --chat` asks with
those of add_generation_prompt; and what `export` writes makes the same of them.

Each template is written here as the Jinja program of its models, with what is learnt between {% generation %} marks.
"""
import importlib.util
import json
import shutil
import struct

import jinja2
import numpy as np
import sentencepiece
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import texts
from program import ROOT

EOT = "<|endoftext|>"


def chatml(default="", last=""):
    """`last`: before the content of the last message, where the assistant has it."""
    system = "{%- if loop.first and message.role != 'system' %}{{- '<|im_start|>system\\n" + default + "<|im_end|>\\n' }}{%- endif %}"
    return ("{%- for message in messages %}" + (system if default else "") + "{{- '<|im_start|>' + message.role + '\\n' }}"
            "{%- if message.role == 'assistant' %}" +
            ("{%- set last = loop.last %}{%- if last %}{{- '" + last + "' }}{%- endif %}" if last else "{%- set last = false %}") +
            "{% generation %}{{- (message.content.lstrip('\\n') if last else message.content) + '<|im_end|>' }}{% endgeneration %}"
            "{%- else %}{{- message.content + '<|im_end|>' }}{%- endif %}{{- '\\n' }}{%- endfor %}"
            "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n" + last + "' }}{%- endif %}")


def qwen(default="", last=""):
    """With tools, as Qwen 2.5 (`default`) and Qwen 3 (`last`) have them."""
    return ("""{%- set said = messages[0].content if messages[0].role == 'system' else '""" + default + """' -%}
{%- if tools or messages[0].role == 'system' or '""" + default + """' -%}{{- '<|im_start|>system\\n' + said -}}
{%- if tools -%}{%- if messages[0].role == 'system' or said -%}{{- '\\n\\n' -}}{%- endif -%}
{{- '# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\nYou are provided with function signatures' -}}
{{- ' within <tools></tools> XML tags:\\n<tools>' -}}{%- for tool in tools -%}{{- '\\n' + (tool | tojson) -}}{%- endfor -%}
{{- '\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call>' -}}
{{- ' XML tags:\\n<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call>' -}}{%- endif -%}
{{- '<|im_end|>\\n' -}}{%- endif -%}
{%- for message in messages -%}{%- set before = messages[loop.index0 - 1].role if loop.index0 else '' -%}
{%- set behind = messages[loop.index0 + 1].role if not loop.last else '' -%}
{%- if message.role == 'assistant' -%}
{{- '<|im_start|>assistant\\n' -}}{%- if loop.last -%}{{- '""" + last + """' -}}{%- endif -%}
{%- generation -%}{{- message.content.lstrip('\\n') if loop.last and '""" + last + """' else message.content -}}
{%- for call in message.tool_calls -%}{%- if message.content or not loop.first -%}{{- '\\n' -}}{%- endif -%}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' -}}
{%- endfor -%}{{- '<|im_end|>' -}}{%- endgeneration -%}{{- '\\n' -}}
{%- elif message.role == 'tool' -%}
{{- ('<|im_start|>user' if before != 'tool' else '') + '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' -}}
{{- '<|im_end|>\\n' if behind != 'tool' else '' -}}
{%- elif message.role == 'user' or not loop.first -%}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endif -%}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n""" + last + """' -}}{%- endif -%}""")


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
{%- else -%}{{- message.content.strip() + '<|eot_id|>' -}}{%- endif -%}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}{%- endif -%}"""
MISTRAL = """{{- bos_token -}}{%- for message in messages -%}
{%- if message.role == 'user' -%}{{- '[INST] ' + message.content + ' [/INST]' -}}
{%- else -%}{%- generation -%}{{- message.content + eos_token -}}{%- endgeneration -%}{%- endif -%}{%- endfor -%}"""
ZEPHYR = """{%- for message in messages -%}{{- '<|' + message.role + '|>\\n' -}}
{%- if message.role == 'assistant' -%}
{%- generation -%}{{- message.content + eos_token -}}{%- endgeneration -%}
{%- else -%}{{- message.content + eos_token -}}{%- endif -%}{{- '\\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>\\n' -}}{%- endif -%}"""
GEMMA = """{{- bos_token -}}{%- for message in messages -%}
{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else 'user') + '\\n' -}}
{%- if message.role == 'assistant' -%}
{%- generation -%}{{- message.content.strip() + '<end_of_turn>' -}}{%- endgeneration -%}
{%- else -%}{{- message.content.strip() + '<end_of_turn>' -}}{%- endif -%}{{- '\\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\\n' -}}{%- endif -%}"""

IM = ["<|im_start|>", "<|im_end|>"]
# Name: Jinja, special tokens, has it a system's turn?
TEMPLATES = {
    "chatml": (chatml(), IM, True),
    "qwen2": (chatml("You are a helpful assistant."), IM, True),
    "qwen2.5": (qwen("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."), IM, True),
    "qwen3": (qwen(last="<think>\\n\\n</think>\\n\\n"), [*IM, "<think>", "</think>"], True),
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


def asked(talks):
    """The same up to their last answer."""
    return [talk[:-1] if talk[-1]["role"] == "assistant" else talk for talk in talks]


def prompt(tokenizer, talk, jinja=None):
    out = tokenizer.apply_chat_template(talk, chat_template=jinja, add_generation_prompt=True, tokenize=True, return_dict=True)
    return list(out["input_ids"])


def same_prompts(name, make, program):
    """What `generate --chat` begins with."""
    jinja, special, with_system = TEMPLATES[name]
    tokenizer = train_tokenizer(program.work / "tokenizer", special, make)
    talks = asked(conversations(with_system))
    write_lines(program.work / "talks.jsonl", talks)
    said = program.start("tests/hf_prompts", "tokenizer", name, "talks.jsonl").splitlines()
    assert len(said) == len(talks)
    for talk, line in zip(talks, said):
        got, want = [int(id) for id in line.split()], prompt(tokenizer, talk, jinja)
        assert got == want, f"{talk}: ids {got} for {tokenizer.convert_ids_to_tokens(want)}"
    return f"{len(talks)} conversations"


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


def same_as_exported(name, make, program):
    """apply_chat_template with the template that `export` writes."""
    _, special, with_system = TEMPLATES[name]
    tokenizer = train_tokenizer(program.work / "tokenizer", special, make)
    end = tokenizer.convert_tokens_to_ids(EOT)
    talks = conversations(with_system)
    write_lines(program.work / "talks.jsonl", talks)
    write_lines(program.work / "asked.jsonl", asked(talks))
    program("tokenize", "talks.jsonl", "--chat", "--tokenizer", "tokenizer", "--separator", end, "--template", name, "-o", "talks.tokens")
    theirs = exported(program, "talks.tokens")
    ids, _ = read_tokens(program.work / "talks.tokens")
    want = [id for talk in talks for id in [*theirs.apply_chat_template(talk, tokenize=True, return_dict=True)["input_ids"], end]]
    assert ids.tolist() == want
    said = program.start("tests/hf_prompts", "tokenizer", name, "asked.jsonl").splitlines()
    for talk, line in zip(asked(talks), said):
        assert [int(id) for id in line.split()] == prompt(theirs, talk), talk
    in_parts = [{**message, "content": [{"type": "text", "text": message["content"]}]} for message in talks[0]]
    assert theirs.apply_chat_template(in_parts, tokenize=False) == theirs.apply_chat_template(talks[0], tokenize=False)
    # What a conversation's end is, other programs know.
    ends = json.loads((program.work / "out/generation_config.json").read_text())["eos_token_id"]
    last = [id for id, learnt in zip(*read_tokens(program.work / "talks.tokens")) if learnt][-1]
    assert last in (ends if isinstance(ends, list) else [ends]), f"{last} is none of {ends}"
    assert json.loads((program.work / "out/config.json").read_text())["eos_token_id"] == ends
    # The folder is a tokenizer whose own template is known, and what it refuses is refused here.
    program("tokenize", "talks.jsonl", "--chat", "--tokenizer", "out", "--separator", end, "-o", "again.tokens")
    assert (read_tokens(program.work / "again.tokens")[0] == ids).all()
    for wrong in ([("critic", "a")], [("user", "a"), ("system", "b"), ("system", "c"), ("critic", "d")]):
        try:
            text = theirs.apply_chat_template([{"role": role, "content": text} for role, text in wrong], tokenize=False)
        except jinja2.exceptions.TemplateError:
            continue
        raise AssertionError(f"{wrong} is written as {text!r}")
    return f"{len(want)} ids"


TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Of a \"place\"; größer", "parameters": {
             "type": "object", "required": ["place"], "properties": {"place": {"type": "string"}, "days": {"type": "number", "maximum": 1e16}}}}},
         {"type": "function", "function": {"name": "add", "parameters": {}}}]


def call(name, **arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def with_tools():
    """[(tools, messages)]"""
    asked = {"role": "user", "content": "Rain?\n"}
    calls = {"role": "assistant", "content": "", "tool_calls": [call("weather", place="Zürich\t\"ZH\"", days=[1.0, 1e-7, None, True, -3])]}
    two = {"role": "assistant", "content": "\nBoth.", "tool_calls": [*calls["tool_calls"], call("add", z=1, a={"b": {}, "a": []})]}
    given = [{"role": "tool", "content": "wet\n"}, {"role": "tool", "content": ""}]
    answer = {"role": "assistant", "content": "\n\nYes."}
    system = {"role": "system", "content": "Be brief."}
    talks = [[asked, calls], [asked, two], [asked, calls, given[0], answer], [asked, two, *given, answer, asked, calls, *given[::-1], answer],
             [asked, calls, given[0], two, given[1], two, *given, answer, asked], [asked, {**calls, "content": "\n"}]]
    return [(tools, messages) for talk in talks for tools in (TOOLS, TOOLS[1:], None)
            for messages in (talk, [system, *talk], [{**system, "content": ""}, *talk])]


def calls_of_tools(name, program):
    """Ids, mask and prompt of conversations with calls of tools; what `export` writes makes the same."""
    jinja, special, _ = TEMPLATES[name]
    tokenizer = train_tokenizer(program.work / "tokenizer", special)
    tokenizer.add_tokens([AddedToken(s, special=False, normalized=False) for s in ("<tool_call>", "</tool_call>")])
    tokenizer.save_pretrained(program.work / "tokenizer")
    end = tokenizer.convert_tokens_to_ids(EOT)
    rows = with_tools()

    def write(name, rows):
        (program.work / name).write_text("".join(json.dumps({"messages": talk, **({"tools": tools} if tools else {})}) + "\n" for tools, talk in rows))

    write("talks.jsonl", rows)
    program("tokenize", "talks.jsonl", "--chat", "--tokenizer", "tokenizer", "--separator", end, "--template", name, "-o", "talks.tokens")
    ids, learnt = read_tokens(program.work / "talks.tokens")
    theirs = exported(program, "talks.tokens")
    at = 0
    for tools, talk in rows:
        out = tokenizer.apply_chat_template(talk, tools=tools, chat_template=jinja, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        want = list(out["input_ids"])
        got, taught = ids[at:at + len(want)].tolist(), learnt[at:at + len(want)].tolist()
        assert got == want, f"{talk}: {tokenizer.decode(got)!r} for {tokenizer.decode(want)!r}"
        assert taught == list(out["assistant_masks"]), f"{talk}: mask"
        assert list(theirs.apply_chat_template(talk, tools=tools, tokenize=True, return_dict=True)["input_ids"]) == want, talk
        assert ids[at + len(want)] == end
        at += len(want) + 1
    assert at == len(ids)
    questions = [(tools, talk if talk[-1]["role"] in ("user", "tool") else talk[:-1]) for tools, talk in rows]
    write("asked.jsonl", questions)
    said = program.start("tests/hf_prompts", "tokenizer", name, "asked.jsonl").splitlines()
    for (tools, talk), line in zip(questions, said, strict=True):
        for which, own in ((tokenizer, jinja), (theirs, None)):
            out = which.apply_chat_template(talk, tools=tools, chat_template=own, add_generation_prompt=True, tokenize=True, return_dict=True)
            assert [int(id) for id in line.split()] == list(out["input_ids"]), talk
    return f"{len(rows)} conversations, {at} ids"


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
    # It goes along with the model as it is; another one that was trained with takes its place.
    for template in (["--template", "zephyr"], []):
        program(*words[:-1], "own.tokens", *template)
        exported(program, "own.tokens")
        same = [(folder / name).read_bytes() == (program.work / "out" / name).read_bytes()
                for name in ("tokenizer_config.json", "chat_template.jinja") if (program.work / "out" / name).exists()]
        assert same == ([False] if template else [True, True]), f"{template}: {same}"
        asked = transformers.AutoTokenizer.from_pretrained(program.work / "out").apply_chat_template(talks[0], tokenize=False)
        assert asked.startswith("<|user|>" if template else "<|im_start|>user"), asked
    tokenizer.chat_template = jinja + "{{ 'more' }}"
    tokenizer.save_pretrained(folder)
    program.refuses(*words, naming=["looks like chatml", "--template"])
    return f"{len(ids)} ids"


def sentencepiece_exported(program):
    """A SentencePiece model's turns, as LlamaTokenizer reads them."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts.lines()), model_prefix=str(program.work / "spm"), vocab_size=400, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2)
    talks = conversations(False)
    write_lines(program.work / "talks.jsonl", talks)
    program("tokenize", "talks.jsonl", "--chat", "--tokenizer", "spm.model", "--separator", "none", "--template", "mistral", "-o", "talks.tokens")
    theirs = exported(program, "talks.tokens")
    want = [id for talk in talks for id in theirs.apply_chat_template(talk, tokenize=True, return_dict=True)["input_ids"]]
    got = read_tokens(program.work / "talks.tokens")[0].tolist()
    assert got == want, f"{theirs.convert_ids_to_tokens(got)} for {theirs.convert_ids_to_tokens(want)}"
    return f"{len(want)} ids"


ANSWERS = {"Which sea?": "Aegean.", "How many oars?": "170."}


def answers_end(name, end, program):
    """A model that was taught two answers: asked without --template, each is the whole text, and its turn's token ends it."""
    _, special, _ = TEMPLATES[name]
    tokenizer = train_tokenizer(program.work / "tokenizer", special)
    talks = [[{"role": "user", "content": asked}, {"role": "assistant", "content": answer}] for asked, answer in ANSWERS.items()]
    write_lines(program.work / "talks.jsonl", talks * 20)
    write_lines(program.work / "asked.jsonl", [talk[:1] for talk in talks])
    program("tokenize", "talks.jsonl", "--chat", "--tokenizer", "tokenizer", "--separator", tokenizer.convert_tokens_to_ids(EOT), "--template",
            name, "-o", "talks.tokens")
    program("train", ROOT / "inputs/quickstart.toml", "model.vocab=0", "data.path=talks.tokens", *SMALL, "model.context=64",
            "data.packing=documents", "data.attention=document", "train.batch=2", "optimizer.lr=1e-2", "train.steps=60", "--run-dir", "run")
    words = ["generate", "run", "--chat", "--temperature", 0, "--tokens", 40]
    for _ in range(2):  # the second time over the first one's file
        program(*words, "--prompts", "asked.jsonl", "--output", "answers.jsonl")
    rows = [json.loads(line) for line in (program.work / "answers.jsonl").read_text().splitlines()]
    for (asked, answer), row in zip(ANSWERS.items(), rows, strict=True):
        assert row["messages"][-1] == {"role": "assistant", "content": answer}, row
        assert row["ended"] == "end of text", row
        assert row["tokens"] == len(tokenizer(answer, add_special_tokens=False)["input_ids"]), row
        assert program(*words, "--prompt", asked) == answer + "\n"
        behind = program(*words[:-1], row["tokens"] + 1, "--ignore-eos", "--prompt", asked)
        assert behind == f"{answer}{end}\n", behind
    # Another template than that of the training is taken where it is asked for.
    (program.work / "plain.toml").write_text('[user]\nbefore = "Q: "\n[assistant]\nafter = "\\n"\n')
    said = program(*words, "--prompt", "How many oars?", "--template", "plain.toml")
    assert said != "170.\n", said
    return f"{rows[0]['tokens']} and {rows[1]['tokens']} tokens"


def cases():
    for name in TEMPLATES:
        yield name, lambda program, name=name: same_ids(name, byte_level, program)
    for name in ("llama2", "mistral", "zephyr", "gemma"):
        yield f"{name}_metaspace", lambda program, name=name: same_ids(name, with_metaspace, program)
    for name in TEMPLATES:
        yield f"{name}_prompts", lambda program, name=name: same_prompts(name, byte_level, program)
        yield f"{name}_exported", lambda program, name=name: same_as_exported(name, byte_level, program)
    for name in ("llama2", "mistral", "zephyr", "gemma"):
        yield f"{name}_metaspace_prompts", lambda program, name=name: same_prompts(name, with_metaspace, program)
        yield f"{name}_metaspace_exported", lambda program, name=name: same_as_exported(name, with_metaspace, program)
    if importlib.util.find_spec("google") and importlib.util.find_spec("google.protobuf"):  # transformers reads a model with it
        yield "sentencepiece_exported", sentencepiece_exported
    for name, end in (("chatml", "<|im_end|>"), ("gemma", "<end_of_turn>"), ("zephyr", "</s>")):
        yield f"{name}_answers_end", lambda program, name=name, end=end: answers_end(name, end, program)
    for name in ("qwen2.5", "qwen3"):
        yield f"{name}_calls", lambda program, name=name: calls_of_tools(name, program)
    yield "special_texts_are_text", special_texts_are_text
    yield "added_tokens_in_contents", added_tokens_in_contents
    yield "own_template", own_template
