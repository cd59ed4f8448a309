"""Chat templates of models as `tokenize --chat` and `generate --chat` run them: ids of transformers' apply_chat_template for every
template that TRL carries, the masks of those with {% generation %}, and, for the others, the masks of TRL's variants with it."""
import importlib.util
import itertools
import json
import re
from pathlib import Path

import jinja2
from tokenizers import AddedToken

from chats import EOT, read_tokens, train_tokenizer
from program import Refused

FOLDER = Path(importlib.util.find_spec("trl").submodule_search_locations[0]) / "chat_templates"
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Of a \"place\"; größer", "parameters": {
    "type": "object", "required": ["place"], "properties": {"place": {"type": "string", "description": "Where"},
                                                            "days": {"type": "number", "description": "How many"}}}}}]
# What a token may look like in a template.
TOKEN = re.compile(r"<[|｜][^|｜<>\s]+[|｜]>|<\|[^|<>\s]+>|<[^|<>\s]+\|>|</?(?:start_of_turn|end_of_turn|s|bos|eos|think|end|image_soft_token)>"
                   r"|\[/?(?:INST|gMASK|SYSTEM_PROMPT)\]|<sop>|]~!b\[|\[e~\[")


def said(role, content, **more):
    return {"role": role, "content": content, **more}


def call(name, **arguments):
    return {"id": "call00001", "type": "function", "function": {"name": name, "arguments": arguments}}


def conversations():
    """Rows of JSON lines: systems, turns, thoughts, tools."""
    asked, again, system = said("user", "Which sea?\n"), said("user", " How many oars?"), said("system", "Be brief.")
    answer, other = said("assistant", "Aegean."), said("assistant", "\n170 of them\n")
    thought = said("assistant", "Aegean.", reasoning_content="It is near Athens.")
    inline = said("assistant", "<think>\nNear Athens.\n</think>\n\nAegean.")
    calling = said("assistant", "", tool_calls=[call("weather", place="Zürich \"ZH\"", days=[1.0, True, None])])
    speaking = said("assistant", "I look.", tool_calls=[call("weather", place="a", days=2), call("weather", place="b", days=0)])
    given = said("tool", "wet", tool_call_id="call00001", name="weather")
    talks = [[asked, answer], [asked, answer, again, other], [system, asked, answer, again, other], [asked, thought],
             [asked, thought, again, thought], [system, asked, inline, again, inline], [asked, inline, again, other, asked, thought],
             [system, asked, answer, again]]
    rows = [{"messages": talk} for talk in talks]
    for talk in ([asked, calling, given, answer], [system, asked, speaking, given, given, answer, again, other],
                 [asked, {**calling, "reasoning_content": "Ask."}, given, thought], [system, asked, answer]):
        rows.append({"messages": talk, "tools": TOOLS})
    rows.append({"messages": talks[3], "chat_template_kwargs": {"enable_thinking": False}})
    return rows


def in_parts(message):
    return {**message, "content": [{"type": "text", "text": message["content"]}]}


def applied(tokenizer, jinja, row, **options):
    """What transformers makes of a row; None if the template refuses it. Templates of models with pictures may need contents in parts."""
    asked = said("user", "Aegean")
    try:
        needs_parts = "Aegean" not in tokenizer.apply_chat_template([asked], chat_template=jinja, tokenize=False)
    except (jinja2.exceptions.TemplateError, TypeError):
        needs_parts = False
    messages = [(in_parts if needs_parts else dict)(message) for message in row["messages"]]
    messages = [{**message, **({"thinking": message["reasoning_content"], "reasoning": message["reasoning_content"]}
                               if "reasoning_content" in message else {})} for message in messages]
    try:
        return tokenizer.apply_chat_template(messages, tools=row.get("tools"), chat_template=jinja, **row.get("chat_template_kwargs", {}),
                                             **options)
    except (jinja2.exceptions.TemplateError, TypeError, AttributeError, KeyError, ValueError):
        return None


def tokenizer_for(folder, jinja):
    """With the tokens that the template writes. As in the models, those of thoughts and calls are not special."""
    texts = sorted(set(TOKEN.findall(jinja)) - {"<s>", "</s>", EOT})
    plain = [text for text in texts if text.strip("</>") in ("think", "tool_call", "tool_response")]
    tokenizer = train_tokenizer(folder, [text for text in texts if text not in plain])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in plain])
    tokenizer.chat_template = jinja
    tokenizer.save_pretrained(folder)
    return tokenizer


def pieces(tokenizer, ids, mask):
    """The learnt texts, without white space at their ends, which templates and TRL's variants of them give to different sides."""
    runs = itertools.groupby(zip(ids, mask), key=lambda pair: pair[1])
    texts = [tokenizer.decode([id for id, _ in run], skip_special_tokens=False).strip() for learnt, run in runs if learnt]
    return [text for text in texts if text]


def agree(ours, theirs):
    """TRL's variants also learn a turn's header and an empty or opened thought, which the prompt has, and the end of all the text. Gemma 4 stops at
    the token that begins a tool's answer."""
    ours = ours.removesuffix("<|tool_response>")
    begin, found, end = theirs.partition(ours)
    return found and re.fullmatch(r"(<.start.>|<.Assistant.>|assistant|<think>|</think>|\s)*", begin) and re.fullmatch(r"(</s>|\s)*", end)


def tokenized(program, name, rows):
    write_rows(program.work / name, rows)
    program("tokenize", name, "--chat", "--tokenizer", "tokenizer", "--separator", EOT, "-o", "talks.tokens", "--overwrite")
    return read_tokens(program.work / "talks.tokens")


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=n % 2 == 0) + "\n" for n, row in enumerate(rows)))


def same_as_transformers(path, program):
    jinja = path.read_text()
    tokenizer = tokenizer_for(program.work / "tokenizer", jinja)
    variant = path.with_name(path.stem + "_training.jinja")
    variant = variant.read_text() if variant.exists() else None
    rows = conversations()
    written = [(row, text) for row in rows if (text := applied(tokenizer, jinja, row, tokenize=False)) is not None]
    # Tools and calls that the template ignores are refused instead of left out. Gemma 4 writes results of tools inside an
    # answer that has both text and calls.
    mixes = re.match(r"(gemma4(_v[345])?|diffusion_gemma)$", path.stem)
    silent = [row for row, _ in written if (mixes and "I look" in json.dumps(row)) or ("tools" in row and not re.search(r"\btools\b", jinja)) or
              ("tool_calls" in json.dumps(row) and not re.search(r"\btool_calls\b", jinja))]
    good = [(row, text) for row, text in written if row not in silent]
    assert good, "no conversation can be written"
    for row in [row for row in rows if row not in [r for r, _ in written]][:2] + silent[:1]:
        write_rows(program.work / "bad.jsonl", [row])
        program.refuses("tokenize", "bad.jsonl", "--chat", "--tokenizer", "tokenizer", "-o", "bad.tokens", naming=["bad.jsonl:1"])
    ids, learnt = tokenized(program, "talks.jsonl", [row for row, _ in good])
    end, at, compared = tokenizer.convert_tokens_to_ids(EOT), 0, 0
    for row, text in good:
        want = tokenizer(text, add_special_tokens=False)["input_ids"]
        got, taught = ids[at:at + len(want)].tolist(), learnt[at:at + len(want)].tolist()
        assert got == want, f"{row}: {tokenizer.decode(got)!r} for {text!r}"
        assert ids[at + len(want)] == end, f"{row}: it is longer than {text!r}"
        at += len(want) + 1
        marked = jinja if "{% generation" in jinja or "{%- generation" in jinja else variant
        if not marked or applied(tokenizer, marked, row, tokenize=False) != text:
            continue
        out = applied(tokenizer, marked, row, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        mask = list(out["assistant_masks"])
        if marked is jinja:
            assert taught == mask, f"{row}: learnt {pieces(tokenizer, got, taught)} for {pieces(tokenizer, got, mask)}"
        else:
            ours, theirs = pieces(tokenizer, got, taught), pieces(tokenizer, got, mask)
            assert len(ours) == len(theirs) and all(map(agree, ours, theirs)), f"{row}: learnt {ours} for {theirs} in {text!r}"
        compared += 1
    assert at == len(ids)
    asked = [{**row, "messages": row["messages"][:-1]} for row, _ in good if row["messages"][-1]["role"] == "assistant"]
    prompts = [(row, out["input_ids"]) for row in asked
               if (out := applied(tokenizer, jinja, row, add_generation_prompt=True, tokenize=True, return_dict=True)) is not None]
    write_rows(program.work / "asked.jsonl", [row for row, _ in prompts])
    lines = program.start("tests/hf_prompts", "tokenizer", "", "asked.jsonl").splitlines()
    for (row, want), line in zip(prompts, lines, strict=True):
        assert [int(id) for id in line.split()] == list(want), f"prompt of {row}"
    return f"{len(good)} of {len(rows)} conversations, {compared} masks, {len(prompts)} prompts"


# Templates that Trireme knows by name, and those of the models.
NAMED = {"qwen2.5": "qwen2_5", "qwen3": "qwen3", "llama3": "llama3", "llama3.1": "llama3_1", "gemma": "gemma"}


def named_as_the_models(name, program):
    """The same ids, where both write the conversation."""
    jinja = (FOLDER / f"{NAMED[name]}.jinja").read_text()
    tokenizer = tokenizer_for(program.work / "tokenizer", jinja)
    end, compared = tokenizer.convert_tokens_to_ids(EOT), 0
    for row in conversations():
        row.setdefault("chat_template_kwargs", {})["date_string"] = "26 Jul 2024"
        text = applied(tokenizer, jinja, row, tokenize=False)
        write_rows(program.work / "one.jsonl", [row])
        try:
            program("tokenize", "one.jsonl", "--chat", "--tokenizer", "tokenizer", "--template", name, "--separator", EOT, "-o", "one.tokens",
                    "--overwrite")
        except Refused:
            continue
        assert text is not None, f"{row} is refused by the model's template"
        got = read_tokens(program.work / "one.tokens")[0].tolist()
        assert got == [*tokenizer(text, add_special_tokens=False)["input_ids"], end], f"{row}: {tokenizer.decode(got)!r} for {text!r}"
        compared += 1
    assert compared >= 4
    return f"{compared} conversations"


def cases():
    for name in NAMED:
        yield f"named_{name}", lambda program, name=name: named_as_the_models(name, program)
    for path in sorted(FOLDER.glob("*.jinja")):
        yield path.stem, lambda program, path=path: same_as_transformers(path, program)
