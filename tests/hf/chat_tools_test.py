"""Calls of tools in conversations: ids, mask and prompt of transformers' apply_chat_template, and what `export` writes makes the same."""
import json

import jinja2
from tokenizers import AddedToken

from chat_programs import TEMPLATES
from chats import EOT, byte_level, exported, read_tokens, train_tokenizer, with_metaspace

TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Of a \"place\"; größer", "parameters": {
             "type": "object", "required": ["place"], "properties": {"place": {"type": "string"}, "days": {"type": "number", "maximum": 1e16}}}}},
         {"type": "function", "function": {"name": "add", "parameters": {}}}]


def call(id, name, **arguments):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def with_tools(template):
    """[(tools, messages)], of what the template writes"""
    asked, again = {"role": "user", "content": "Rain?\n"}, {"role": "user", "content": " And now?"}
    one = call("call00001", "weather", place="Zürich\t\"ZH\"", days=[1.0, 1e-7, None, True, -3])
    calls = {"role": "assistant", "content": "", "tool_calls": [one]}
    two = {"role": "assistant", "content": "", "tool_calls": [one, call("call00002", "add", z=1, a={"b": {}, "a": []})]}
    if template == "llama3.1":
        two = calls
    if template.startswith("qwen"):
        two = {**two, "content": "\nBoth."}
    given = [{"role": "tool", "tool_call_id": "call00001", "content": "wet\n"}, {"role": "tool", "tool_call_id": "call00002", "content": ""}]
    answer = {"role": "assistant", "content": "\n\nYes."}
    system = {"role": "system", "content": "Be brief."}
    talks = [[asked, calls], [asked, two], [asked, calls, given[0], answer], [asked, two, *given, answer, again, calls, *given[::-1], answer],
             [asked, calls, given[0], two, given[1], two, *given, answer, asked], [asked, {**calls, "content": "\n"}]]
    return [(tools, messages) for talk in talks for tools in (TOOLS, TOOLS[1:], None)
            for messages in (talk, [system, *talk], [{**system, "content": ""}, *talk])]


def write(program, name, rows):
    (program.work / name).write_text("".join(json.dumps({"messages": talk, **({"tools": tools} if tools else {})}) + "\n" for tools, talk in rows))


def asked(rows):
    """The same up to their last answer."""
    return [(tools, talk if talk[-1]["role"] in ("user", "tool") else talk[:-1]) for tools, talk in rows]


def calls_of_tools(name, make, program):
    """Ids, mask and prompt of conversations with calls of tools; what `export` writes makes the same."""
    jinja, special, _ = TEMPLATES[name]
    tokenizer = train_tokenizer(program.work / "tokenizer", special, make)
    if name.startswith("qwen"):
        tokenizer.add_tokens([AddedToken(s, special=False, normalized=False) for s in ("<tool_call>", "</tool_call>")])
        tokenizer.save_pretrained(program.work / "tokenizer")
    end = tokenizer.convert_tokens_to_ids(EOT)
    rows = with_tools(name)
    write(program, "talks.jsonl", rows)
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
    questions = asked(rows)
    write(program, "asked.jsonl", questions)
    said = program.start("tests/hf_prompts", "tokenizer", name, "asked.jsonl").splitlines()
    for (tools, talk), line in zip(questions, said, strict=True):
        for which, own in ((tokenizer, jinja), (theirs, None)):
            out = which.apply_chat_template(talk, tools=tools, chat_template=own, add_generation_prompt=True, tokenize=True, return_dict=True)
            assert [int(id) for id in line.split()] == list(out["input_ids"]), talk
    return f"{len(rows)} conversations, {at} ids"


# What no template of one call a message, or of ids, writes: exported ones refuse it, too.
REFUSED = {
    "llama3.1": ([{"role": "assistant", "tool_calls": [call("a", "f"), call("b", "g")]}], [{"role": "assistant", "content": "a", "tool_calls": [call("a", "f")]}]),
    "mistral-v3": ([{"role": "assistant", "tool_calls": [call("a", "f")]}], [{"role": "assistant", "content": "a", "tool_calls": [call("call00001", "f")]}],
                   [{"role": "tool", "content": "1"}], [{"role": "tool", "content": "1", "tool_call_id": "a"}], [{"role": "user", "content": "b"}]),
}


def refused(name, program):
    _, special, _ = TEMPLATES[name]
    tokenizer = train_tokenizer(program.work / "tokenizer", special)
    asked = {"role": "user", "content": "a"}
    words = ["tokenize", "talks.jsonl", "--overwrite", "--chat", "--tokenizer", "tokenizer", "--separator", tokenizer.convert_tokens_to_ids(EOT),
             "--template", name, "-o", "talks.tokens"]
    good = json.dumps({"messages": [asked, {"role": "assistant", "content": "b"}]}) + "\n"
    (program.work / "talks.jsonl").write_text(good * 40)
    program(*words)
    theirs = exported(program, "talks.tokens")
    for talk in REFUSED[name]:
        (program.work / "talks.jsonl").write_text(good + json.dumps({"messages": [asked, *talk]}) + "\n")
        program.refuses(*words, naming=["talks.jsonl:2: the chat template refuses the conversation"])
        try:
            text = theirs.apply_chat_template([asked, *talk], tokenize=False)
        except jinja2.exceptions.TemplateError:
            continue
        raise AssertionError(f"{talk} is written as {text!r}")
    return f"{len(REFUSED[name])} conversations"


def cases():
    for name in ("qwen2.5", "qwen3", "llama3.1", "mistral-v3"):
        yield f"{name}_calls", lambda program, name=name: calls_of_tools(name, byte_level, program)
    yield "mistral-v3_metaspace_calls", lambda program: calls_of_tools("mistral-v3", with_metaspace, program)
    for name in REFUSED:
        yield f"{name}_refused", lambda program, name=name: refused(name, program)
