"""Models of other programs: ids that begin and end texts, and weights whose results are not finite."""
import json
import math
import re
import struct

from fixture import DOCUMENTS
from rows import story

CASES = []


def fill_row(file, tensor, row, value):
    """All of a row of a tensor of two dimensions in a file of safetensors, in f32."""
    data = bytearray(file.read_bytes())
    header = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + header])[tensor]
    width = entry["shape"][1]
    at = 8 + header + entry["data_offsets"][0] + 4 * row * width
    data[at:at + 4 * width] = struct.pack(f"<{width}f", *[value] * width)
    file.write_bytes(data)


@story(CASES, fast=True)
def overflowing(at):
    """a result that is not finite is no success: of an evaluation, questions, scores, a text, and a run whose steps are all good"""
    at.take("untied", run="base")
    text = at.read("text.txt")
    assert "~" not in text
    at("export base large-hf")
    fill_row(at / "large-hf/model.safetensors", "transformer.wte.weight", ord("~"), 3e38)
    at("import large-hf large")
    at.write("held.txt", text[:40] + "~" + text[40:80])
    at.write("questions.jsonl", json.dumps({"ctx": "a ~", "endings": ["b", "c"], "label": 0}))
    at.write("pairs.jsonl", json.dumps({"prompt": "a~", "chosen": "b", "rejected": "c"}))
    at("tokenize held.txt --output held.tokens")
    at("tokenize pairs.jsonl --preference --output pairs.tokens")
    at("evaluate large --data text.tokens --samples 4")
    for ranks in (0, 2):
        at("evaluate large --data held.tokens", ranks=ranks, codes=(1,), says=("the validation loss is -?nan, over [0-9]+ targets",))
    at("evaluate large --multiple-choice questions.jsonl", codes=(1,), says=("not finite",))
    at("generate large --prompt a~ --tokens 2", codes=(1,), says=("not finite",))
    pairs = f"{DOCUMENTS} train.objective=dpo data.path=pairs.tokens data.validation=[] evaluate.every_steps=0 evaluate.batches=0"
    at(f"score deck.toml model.tied=false model.init_from=large {pairs} train.dpo_scores=a.scores", codes=(1,), says=("no scores were written",))
    at(f"train deck.toml model.tied=false model.init_from=large {pairs} adapter.rank=2 train.steps=1 --run-dir scored", codes=(0,))
    at("evaluate scored --data pairs.tokens", codes=(1,), says=("the validation loss is -?nan with margin",))
    said = at.train("model.tied=false model.init_from=large data.validation=[held.tokens] train.steps=2 evaluate.every_steps=1 evaluate.batches=0", run="run", codes=(1,),
                    says=("step 1: the validation loss is -?nan", "step 2, the last: the validation loss is -?nan"))
    assert "skipped" not in said.text and all(math.isfinite(loss) for loss in at.losses("run")) and at.json("run/outcome.json")["status"] == "failed"
    at("export run hf")  # of which every step was good


@story(CASES, fast=True)
def ends(at):
    """a model that was imported without a tokenizer keeps the ids that begin and end its texts, through a run that begins with it"""
    at.take("one", run="base")
    at("export base theirs")
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (at / "theirs" / name).unlink()
    ids = {"bos_token_id": 7, "eos_token_id": list(range(256))}
    at.write("theirs/config.json", json.dumps(at.json("theirs/config.json") | ids))
    at("import theirs model")
    assert "\nB: checkpoint " in (said := at("compare model model").out) and "grid" not in said, said
    described = at("inspect model").out
    assert "\nmodel\n  # A model: every key with its value." in described and re.search(r"\n  width += 16\b", described) and "\ndeck\n" not in described, described
    for words, said in (("--prompt words", '^[^:]*:[^:]*:[^:]* error model has no tokenizer, and "words" in the prompt is not an id below [0-9]+: give ids, such as --prompt \'1 2 3\'. '
                                           "To give text, import the model from a folder that contains its tokenizer"),
                        ("--prompt ''", "error model has no tokenizer: give the prompt as ids"),
                        ("--chat --template chatml --prompt words", "error model has no tokenizer, and --chat needs one: leave out --chat, and give the prompt as ids")):
        at(f"generate model {words}", codes=(1,), says=(said,), silent=("--tokenizer", "prompt 1", "show-template"))
    (at / "ids.bin").write_bytes(struct.pack("<2000H", *(i % 256 for i in range(2000))))
    at("tokenize ids.bin --from raw-u16 --vocab 256 --output ids.tokens")
    at.train("model.init_from=model data.path=ids.tokens train.steps=1", run="tuned")
    at.write("prompts.jsonl", '{"prompt": "1 2"}')
    for model in ("model", "tuned"):
        assert json.loads(at(f"generate {model} --prompts prompts.jsonl --tokens 3").out)["ended"] == "end of text"
        at(f"export {model} {model}-hf")
        for file in ("config.json", "generation_config.json"):
            assert ids.items() <= at.json(f"{model}-hf/{file}").items(), file
    # Of SentencePiece's the class of transformers begins texts unless it is told not to.
    at.take("spm", run="spelled")
    at("export spelled spelled-hf")
    at("import spelled-hf told", silent=("warning",))
    (at / "spelled-hf/tokenizer_config.json").unlink()
    at("import spelled-hf not-told", says=("puts a begin-of-text token before each text",))
