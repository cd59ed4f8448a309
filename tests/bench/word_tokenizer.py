"""A byte-level tokenizer.json with the merges that build the most frequent words of a text from their left, a character at
a time: as large as a trained one, made in a second."""
import collections
import json
import re

SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
ALPHABET = {b: chr(b) for b in PRINTABLE} | {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in PRINTABLE)}


def tokenizer_of(text, tokens):
    vocab = {c: i for i, c in enumerate(ALPHABET.values())}
    merges = []
    for word, _ in collections.Counter(re.findall(r" ?[A-Za-z]+|[^A-Za-z\s]+|\s+", text)).most_common():
        characters = [ALPHABET[b] for b in word.encode()]
        for i in range(1, len(characters)):
            left = "".join(characters[:i])
            if left + characters[i] not in vocab and len(vocab) < tokens:
                vocab[left + characters[i]] = len(vocab)
                merges.append([left, characters[i]])
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False}
    return json.dumps({"added_tokens": [], "normalizer": None, "post_processor": None, "decoder": level,
                       "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
                       "model": {"type": "BPE", "vocab": vocab, "merges": merges}})
