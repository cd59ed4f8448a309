"""Which tokens a sample has, as docs/token_file.md says it under 'Samples': written anew from that text, and held to the loss of each
step of a model whose loss is known in closed form: its blocks add nothing, so a token's logits follow from its id and position."""
import json
import math
import random
import re
import struct

from reading import rows_of
from rows import story

CASES = []
T, VOCAB, WIDTH, POSITIONS, SEPARATOR, SEED, BATCH = 12, 23, 6, 16, 7, 3, 3
MASK64 = (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK64
    return x ^ (x >> 31)


def H(a, *rest):
    for b in rest:
        a = mix(mix(a) ^ b)
    return a


def text_hash(seed, text):
    return H(seed, len(text), *text.encode())


def permuted(size, key):
    """P(0), P(1), ..."""
    if size <= 8:
        places = list(range(size))
        for i in range(size):
            j = H(key, i) % (i + 1)
            places[i], places[j] = places[j], places[i]
        return places
    bits = (size - 1).bit_length()
    low = bits // 2
    high = bits - low

    def once(x):
        a, b = x & ((1 << low) - 1), x >> low
        for r in (0, 2, 4, 6):
            b ^= H(key, r, a) & ((1 << high) - 1)
            a ^= H(key, r + 1, b) & ((1 << low) - 1)
        return b << low | a

    all_of = []
    for i in range(size):
        x = once(i)
        while x >= size:
            x = once(x)
        all_of.append(x)
    return all_of


class File:
    def __init__(self, draw, documents, pairs=False, weighted=False):
        self.ids, self.counts, self.pairs, self.ranges = [], [], pairs, []
        for length in documents:
            if weighted:
                self.ranges.append((len(self.ids) + length + 1, draw.choice((0.125, 0.75, 1, 3, 20))))
            self.ids += [draw.choice([i for i in range(VOCAB) if i != SEPARATOR]) for _ in range(length)] + [SEPARATOR]
        if not pairs:
            self.ids.pop()  # the last document ends with the file
        while self.ranges and self.ranges[-1][0] > len(self.ids):
            self.ranges.pop()
            if len(self.ids) > (self.ranges[-1][0] if self.ranges else 0):
                self.ranges.append((len(self.ids), 0.75))
        while len(self.counts) < len(self.ids):
            self.counts += [1] * draw.randint(1, 6) + [0] * draw.choice((0, 1, 2, 3, 14))
        del self.counts[len(self.ids):]

    def write(self, path):
        n = len(self.ids)
        mask = [sum(self.counts[i + b] << b for b in range(8) if i + b < n) for i in range(0, n, 8)]
        header = b"TRITOKEN" + struct.pack("<IIQQQqQIIQ", 3 if self.pairs else 5 if self.ranges else 1, 2, n, VOCAB, max(self.ids), SEPARATOR, 0, 1, 0, 0)
        weights = [w for _, w in self.ranges] or [0]
        header = (header.ljust(96, b"\0") + struct.pack("<IfQf", self.pairs, min(weights), len(self.ranges), max(weights))).ljust(256, b"\0")
        path.write_bytes(header + struct.pack(f"<{n}H", *self.ids) + bytes(mask) + b"".join(struct.pack("<Qf", *r) for r in self.ranges))

    def weight(self, token):
        return next((w for end, w in self.ranges if token < end), 1)

    def documents(self, begin, end):
        """(first input, inputs) of those that begin in [begin, end)."""
        found, first = [], 0
        for at, token in enumerate(self.ids):
            if token == SEPARATOR:
                found.append((first, at - first))
                first = at + 1
        if first < len(self.ids):
            found.append((first, len(self.ids) - 1 - first))
        return [(f, n) for f, n in found if begin <= f < end and n > 0]

    def targets(self, first, n):
        return sum(self.counts[first + 1:first + 1 + n])

    def pieces(self, begin, end, rule):
        kept = []
        for first, n in self.documents(begin, end):
            while n > T and rule != "drop":
                ends = [c for c in range(1, T + 1) if self.counts[first + c] and not self.counts[first + c + 1]]
                c = max(ends, default=T)
                kept.append((first, c))
                if rule == "cut":
                    n = 0
                    break
                first, n = first + c, n - c
            if 0 < n <= T:
                kept.append((first, n))
        return [p for p in kept if self.targets(*p)]

    def pair_items(self):
        two = self.documents(0, len(self.ids))
        items = [two[i:i + 2] for i in range(0, len(two), 2)]
        fitting = [i for i in items if i[0][1] + i[1][1] <= T]
        return items, fitting, [i for i in fitting if all(self.targets(*p) for p in i)]


def packed(items, order):
    """Lists of pieces; an item is a list of them."""
    size = [sum(n for _, n in item) for item in items]
    turns = list(range(len(items)))
    if order == "random" and items:
        turns = sorted(permuted(len(items), text_hash(SEED, "packing")), key=lambda i: -size[i])
    room, sample_of, samples = {}, {}, 0
    for i in turns:
        fits = [left for left, of in room.items() if left >= size[i] and of]
        if fits:
            left = min(fits)
            sample = room[left].pop()
        else:
            left, sample, samples = T, samples, samples + 1
        sample_of[i] = sample
        room.setdefault(left - size[i], []).append(sample)
        if left == size[i]:
            room[0] = []
    return [[p for i in range(len(items)) if sample_of[i] == s for p in items[i]] for s in range(samples)]


def samples_of(file, begin, end, packing, order, attention, masks):
    """(id, position, target or None, the target's weight) of each input of each sample."""
    def target(i):
        return file.ids[i + 1] if file.counts[i + 1] and not (masks and file.ids[i] == SEPARATOR) else None
    found = []
    if packing == "windows":
        for first in range(begin, end - T, T):
            sample, start = [], 0
            for t in range(T):
                if attention == "document" and t > 0 and file.ids[first + t - 1] == SEPARATOR:
                    start = t
                sample.append((file.ids[first + t], t - start, target(first + t), file.weight(first + t + 1)))
            found.append(sample)
        return found
    for pieces in packed([[p] for p in file.pieces(begin, end, packing)], order):
        found.append([(file.ids[first + i], i, target(first + i), file.weight(first + i + 1)) for first, n in pieces for i in range(n)])
    return found


def all_begins(file):
    """(first token, tokens) of all documents with an input, as `inspect --document` counts them."""
    return file.documents(0, len(file.ids))


def write_model(folder, draw):
    """GPT-2 with random tables and blocks of zeros, as Hugging Face has it; its tables."""
    def table(rows):
        return [[draw.randrange(-64, 65) / 16 for _ in range(WIDTH)] for _ in range(rows)]
    tables = table(VOCAB), table(POSITIONS)
    tensors = {"wte.weight": tables[0], "wpe.weight": tables[1], "ln_f.weight": [1.0] * WIDTH, "ln_f.bias": [0.0] * WIDTH}
    for name, rows, columns in (("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH), ("mlp.c_fc", WIDTH, 4 * WIDTH), ("mlp.c_proj", 4 * WIDTH, WIDTH)):
        tensors[f"h.0.{name}.weight"] = [[0.0] * columns] * rows
        tensors[f"h.0.{name}.bias"] = [0.0] * columns
    for norm in ("ln_1", "ln_2"):
        tensors[f"h.0.{norm}.weight"], tensors[f"h.0.{norm}.bias"] = [1.0] * WIDTH, [0.0] * WIDTH
    header, data = {}, b""
    for name, values in tensors.items():
        flat = [x for row in values for x in row] if isinstance(values[0], list) else values
        shape = [len(values), len(values[0])] if isinstance(values[0], list) else [len(values)]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(flat)]}
        data += struct.pack(f"<{len(flat)}f", *flat)
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps({
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": WIDTH, "n_head": 1, "n_layer": 1, "n_positions": POSITIONS,
        "vocab_size": VOCAB, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}))
    return tables


def loss_of(tables, samples, weighted=False):
    """Mean over the targets that count."""
    embedding, places = tables
    losses, weights = [], []
    for sample in samples:
        for token, position, target, weight in sample:
            if target is None:
                continue
            x = [a + b for a, b in zip(embedding[token], places[position])]
            mean = sum(x) / WIDTH
            scale = math.sqrt(sum((a - mean) ** 2 for a in x) / WIDTH + 1e-5)
            logits = [sum((a - mean) / scale * b for a, b in zip(x, row)) for row in embedding]
            weights.append(weight if weighted else 1)
            losses.append(weights[-1] * (math.log(sum(map(math.exp, logits))) - logits[target]))
    return sum(losses) / sum(weights)


def shown(text):
    """What `samples` printed: the lines of one sample together."""
    lines = []
    for line in map(json.loads, text.splitlines()):
        if lines and lines[-1]["sample"] == line["sample"]:
            lines[-1]["ids"] += line["ids"]
            lines[-1].get("weights", []).extend(line.get("weights", []))
        else:
            lines.append(line)
    return lines


DECK = f"""
[model]
preset = "from:base"
init_from = "base"
context = {T}
[data]
path = ["a.tokens", "b.tokens"]
validation = 0.25
[train]
batch = {BATCH}
seed = {SEED}
[optimizer]
lr = 0
[evaluate]
batches = 0
[precision]
compute = "f64"
[run]
backend = "ref"
threads = 1
"""
SETTINGS = ("windows", "windows document", "windows masks", "cut", "split", "drop", "cut sequential", "split sequential",
            "windows weights", "windows masks weights", "split weights", "cut sequential weights")


@story(CASES, fast=True, each=SETTINGS)
def samples(at, setting):
    """steps and evaluations are of the samples that the documentation names"""
    draw = random.Random(11)
    tables = write_model(at / "hf", draw)
    weighted = "weights" in setting
    files = [File(draw, [draw.choice((0, 1, 2, 5, 9, 11, 12, 13, 20, 31)) for _ in range(n)], weighted=weighted and n == 31) for n in (31, 24)]
    for file, name in zip(files, "ab"):
        file.write(at / f"{name}.tokens")
    packing, order = setting.split()[0], "sequential" if "sequential" in setting else "random"
    keys = [f"data.order={order}"]
    if packing == "windows":
        attention = "document" if "document" in setting else "causal"
    else:
        attention = "document"
        keys += ["data.packing=documents", f"data.long_documents={packing}"]
    masks = "masks" in setting
    if weighted:  # the second file has none of its own
        keys.append("data.loss_weights=[0.5,2]")
    keys.append(f"data.attention={attention} data.separator_masks={str(masks).lower()}")
    trained, held = [], []
    for file in files:
        border = len(file.ids) - math.floor(len(file.ids) * 0.25 + 0.5)
        factor = 0.5 if file.ranges else 2
        trained += [[(*most, w * factor) for *most, w in sample] for sample in samples_of(file, 0, border, packing, order, attention, masks)]
        held += samples_of(file, border, len(file.ids), packing, "sequential", attention, masks)
    size = len(trained)
    steps = 2 * size // BATCH  # two epochs
    at.write("deck.toml", DECK)
    at("import hf base")
    at(f"train deck.toml {' '.join(keys)} train.steps={steps} --run-dir run")
    rows = rows_of(at / "run/history.csv")
    assert len(rows) == steps
    seen_of = [set() for _ in range(size)]  # steps
    for step, row in enumerate(rows):
        now = []
        for n in range(step * BATCH, (step + 1) * BATCH):
            place = n % size
            if order == "random":
                place = permuted(size, H(text_hash(SEED, "data order"), n // size, 0))[place]
            now.append(trained[place])
            seen_of[place].add(step + 1)
        if step % 7 == 0:
            listed = shown(at(f"samples run --step {step + 1} --show ids").out)
            assert [line["ids"] for line in listed] == [[token for token, *_ in sample] for sample in now], (setting, step)
            if weighted:
                of_targets = [[w for w, n in line["weights"] for _ in range(n)] for line in listed]
                assert of_targets == [[w if target is not None else 0 for *_, target, w in sample] for sample in now], (setting, step)
            else:
                assert all("weights" not in line for line in listed)
        wanted = loss_of(tables, now, weighted)
        assert abs(float(row["loss"]) - wanted) < 1e-6 * wanted, (setting, step, row["loss"], wanted)
    if packing != "windows":  # the losses of documents are those of their inputs
        at("evaluate run --documents losses.jsonl")
        lines = [json.loads(text) for text in at.read("losses.jsonl").splitlines()]
        pieces = {(f"{name}.tokens", first): n for file, name in zip(files, "ab")
                  for first, n in file.pieces(len(file.ids) - math.floor(len(file.ids) * 0.25 + 0.5), len(file.ids), packing)}
        assert {(line["file"].split("/")[-1], line["tokens"][0]): line["tokens"][1] - line["tokens"][0] + 1 for line in lines} == pieces, setting
        for line in lines:
            name, first = line["file"].split("/")[-1], line["tokens"][0]
            file, n = files["ab".index(name[0])], pieces[name, first]
            piece = [(file.ids[first + i], i, file.ids[first + i + 1] if file.counts[first + i + 1] else None, 1) for i in range(n)]
            loss = loss_of(tables, [piece])
            assert abs(line["loss"] - loss) < 1e-6 * loss and abs(line["perplexity"] - math.exp(loss)) < 1e-5 * math.exp(loss), (setting, line, loss)
            assert line["targets"] == file.targets(first, n)
            begins = [at_ for at_, _ in all_begins(file)]
            assert begins[line["document"]] <= first < (begins + [len(file.ids)])[line["document"] + 1]
    wanted = loss_of(tables, held)
    seen = float(rows_of(at / "run/evaluation.csv")[-1]["loss"])
    assert abs(seen - wanted) < 1e-6 * wanted, (setting, seen, wanted)
    # A document that step 1 reads is read by exactly the steps that list it.
    for line in [json.loads(text) for text in at("samples run --step 1").out.splitlines()][:2]:
        name, number = line["file"], line["documents"][0]
        found = {json.loads(text)["step"] for text in at(f"samples run --document {name}:{number}").out.splitlines()}
        listed = {step for step in range(1, steps + 1) for text in at(f"samples run --step {step}").out.splitlines()
                  if (of := json.loads(text))["file"] == name and of["documents"][0] <= number <= of["documents"][1]} if setting == "windows" else found
        assert 1 in found and found == listed, (setting, line, found, listed)


@story(CASES, fast=True)
def pairs(at):
    """pairs share samples as the documentation says"""
    draw = random.Random(5)
    file = File(draw, [draw.choice((1, 2, 3, 4, 5, 9)) for _ in range(60)], pairs=True)
    file.write(at / "pairs.tokens")
    items, fitting, kept = file.pair_items()
    made = packed(kept, "random")
    keys = "data.path=pairs.tokens data.validation=[] data.packing=documents data.attention=document train.objective=dpo adapter.rank=1 train.steps=1"
    write_model(at / "hf", draw)
    at.write("deck.toml", DECK)
    at("import hf base")
    said = at(f"check deck.toml {keys}").text
    count, samples, filled = re.search(r"pairs.tokens \(training\): (\d+) pairs packed into (\d+) samples \(([\d.]+)% full\)", said).groups()
    assert (int(count), int(samples)) == (len(kept), len(made))
    assert abs(float(filled) - 100 * sum(n for s in made for _, n in s) / (T * len(made))) < 0.051
    longer, without = re.search(r"of 30 pairs, (\d+) longer than a sample and (\d+) with a document without", said).groups()
    assert (int(longer), int(without)) == (len(items) - len(fitting), len(fitting) - len(kept))


@story(CASES, fast=True)
def weights(at):
    """equal weights of documents change no bit, others change the loss alike on every grid, and evaluations have none"""
    draw = random.Random(2)
    texts = ["".join(draw.choices("abcde ", k=draw.randint(1, 30))) for _ in range(120)]
    for name, of in (("none", None), ("twos", lambda i: 2), ("mixed", lambda i: (0.5, 3, 1e-3)[i % 3]), ("zeros", lambda i: i % 4)):
        at.write(f"{name}.jsonl", "".join(json.dumps({"text": text, **({} if of is None else {"quality": of(i)})}) + "\n" for i, text in enumerate(texts)))
        at(f"tokenize {name}.jsonl -o {name}.tokens" + ("" if of is None else " --weight quality"))
    said = at("inspect mixed.tokens").text
    least, mean, most = map(float, re.search(r"weights of documents: minimum (\S+), mean over tokens (\S+), maximum (\S+)\n", said).groups())
    ids = [len(text) + 1 for text in texts]
    assert (least, most) == (0.001, 3.0) and abs(mean - sum(n * (0.5, 3, 1e-3)[i % 3] for i, n in enumerate(ids)) / sum(ids)) < 1e-4, said
    assert "weights" not in at("inspect none.tokens").text
    at("inspect mixed.tokens --document 1", says=(", weight 3\n",))
    keys = "run.exactness=invariant run.exact_chunk=4 train.steps=6 checkpoint.every_steps=6"

    def run(name, more="", config="", run=None):
        at.train(f"data.path={name}.tokens {keys} {more}", config=config, run=run or name)
        return [(row["loss"], row["grad_norm"]) for row in at.rows(run or name)], [row["loss"] for row in at.rows(run or name, "evaluation.csv")]
    for more in ("", "data.packing=documents data.attention=document"):
        plain = run("none", more + " --overwrite")
        assert run("twos", more + " --overwrite") == plain, more
        assert run("none", more + " data.loss_weights=[0.25] --overwrite") == plain, more
        mixed = run("mixed", more + " --overwrite")
        assert mixed[0] != plain[0], more
        for config in ("data2", "seq2", "pipe2"):
            assert run("mixed", more + " --overwrite", config=config, run=config) == mixed, (more, config)
    assert at("evaluate mixed --data none.tokens").out.replace("none", "") == at("evaluate mixed --data mixed.tokens").out.replace("mixed", ""), "evaluations have weights"
    at.write("pairs.jsonl", '{"prompt": "a", "chosen": "b", "rejected": "c", "quality": 2}\n')
    at("tokenize pairs.jsonl --preference --weight quality -o pairs.tokens", codes=(1,), says=("--weight is for single documents, but preference pairs",))
    at.write("bad.jsonl", '{"text": "a", "quality": 1}\n{"text": "b", "quality": -1}\n')
    at("tokenize bad.jsonl --weight quality -o bad.tokens", codes=(1,), says=("bad.jsonl:2: ", '"quality" is -1'))
    at("check deck.toml data.path=none.tokens data.loss_weights=[1,2]", codes=(1,), says=("data.loss_weights has 2 entries, but data.path has 1",))
