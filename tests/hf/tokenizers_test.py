#!/usr/bin/env python3
"""Ids of `trireme tokenize` against those of Hugging Face's tokenizers.

  python tests/hf/tokenizers_test.py BUILD [STRINGS]   STRINGS: random ones for each tokenizer (default 250000)

Vocabularies of four kinds are trained here on the project's own text. Texts: that text, and random strings of the code
points that PCRE2 and utf8proc classify as the reference does; how many they classify otherwise is printed.
"""
import ctypes
import ctypes.util
import functools
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

ROOT = pathlib.Path(__file__).resolve().parents[2]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
EVERYTHING = "".join(map(chr, [*range(0xd800), *range(0xe000, 0x110000)]))
# \s as regex.cpp writes it.
SPACES = r"\t-\r\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
CLASSES = {r"\p{L}": r"\p{L}", r"\p{N}": r"\p{N}", r"\p{M}": r"\p{M}", r"\p{Lu}": r"\p{Lu}", r"\p{Ll}": r"\p{Ll}",
           r"\p{P}": r"\p{P}", r"\p{S}": r"\p{S}", r"\s": f"[{SPACES}]"}


def own_text():
    files = [*ROOT.glob("lib/**/*.?pp"), *ROOT.glob("docs/*.md"), *ROOT.glob("tests/*.py"), *ROOT.glob("app/*.cpp")]
    return [f.read_text() for f in sorted(files)]


def byte_level(split, normalizer=None, **model):
    t = Tokenizer(models.BPE(**model))
    if normalizer:
        t.normalizer = normalizer
    if split:
        t.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(split), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    return t, {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "special_tokens": ["<|begin|>", "<|end|>"]}


def llama2(metaspace):
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    # Trained on words, as SentencePiece does, used on the whole text.
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    return t, {"special_tokens": ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]}


def finish_llama2(t, metaspace):
    if metaspace:
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        t.pre_tokenizer = None
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    # The bytes are tokens of the model alone.
    d = json.loads(t.to_str())
    d["added_tokens"] = [a for a in d["added_tokens"] if not a["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(d))


def tokenizers(size=6000):
    texts = own_text()
    for name, (t, options) in {
            "gpt2": byte_level(None), "llama3": byte_level(LLAMA3, ignore_merges=True),
            "qwen2": byte_level(QWEN2, normalizers.NFC()), "llama2": llama2(False),
            "llama2-metaspace": llama2(True)}.items():
        t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, show_progress=False, **options))
        if name.startswith("llama2"):
            t = finish_llama2(t, "metaspace" in name)
        else:
            t.add_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<pad>", rstrip=True, normalized=False),
                          AddedToken("word", single_word=True, normalized=True), AddedToken("<mask>x")])
        first = t.token_to_id("<s>") if name.startswith("llama2") else t.token_to_id("<|begin|>")
        if name in ("llama3", "llama2"):
            token = t.id_to_token(first)
            t.post_processor = processors.TemplateProcessing(single=f"{token} $A", special_tokens=[(token, first)])
        yield name, t


class Pcre:
    """The classes of the installed libpcre2-8."""

    def __init__(self):
        self.lib = ctypes.CDLL(ctypes.util.find_library("pcre2-8"))
        for f in ("pcre2_compile_8", "pcre2_match_data_create_8", "pcre2_get_ovector_pointer_8"):
            getattr(self.lib, f).restype = ctypes.c_void_p

    def matched(self, pattern):
        text = EVERYTHING.encode()
        error, at = ctypes.c_int(), ctypes.c_size_t()
        p = f"(?:{pattern})+".encode()
        code = ctypes.c_void_p(self.lib.pcre2_compile_8(p, ctypes.c_size_t(len(p)), 0x00080000 | 0x00020000,
                                                        ctypes.byref(error), ctypes.byref(at), None))
        assert code.value, pattern
        data = ctypes.c_void_p(self.lib.pcre2_match_data_create_8(1, None))
        found, begin = set(), 0
        while self.lib.pcre2_match_8(code, text, ctypes.c_size_t(len(text)), ctypes.c_size_t(begin), 0x40000000, data,
                                     None) >= 0:
            v = ctypes.cast(self.lib.pcre2_get_ovector_pointer_8(data), ctypes.POINTER(ctypes.c_size_t))
            found.update(text[v[0]:v[1]].decode())
            begin = v[1]
        return found


def composed(c, lib):
    lib.utf8proc_NFC.restype = ctypes.c_char_p
    return lib.utf8proc_NFC(c.encode()).decode()


@functools.cache
def agreed_alphabet():
    pcre, differ = Pcre(), set()
    for theirs, ours in CLASSES.items():
        pieces = pre_tokenizers.Split(Regex(f"{theirs}+"), "removed", invert=True).pre_tokenize_str(EVERYTHING)
        reference = set("".join(p for p, _ in pieces))
        other = pcre.matched(ours) ^ reference
        print(f"{theirs}: {len(other)} code points differ")
        differ |= other
    lib, nfc = ctypes.CDLL(ctypes.util.find_library("utf8proc")), normalizers.NFC()
    other = {c for c in EVERYTHING[1:] if c > "\x7f" and nfc.normalize_str(c) != composed(c, lib)}
    # Marks reorder by their combining class, which newer versions give to newer marks.
    other |= {c for c in EVERYTHING[1:] if c > "\x7f" and
              nfc.normalize_str("a" + c + "\u0323\u0301") != composed("a" + c + "\u0323\u0301", lib)}
    print(f"NFC: {len(other)} code points differ")
    differ |= other
    print(f"{len(differ)} of {len(EVERYTHING)} code points differ in some class")
    return [c for c in EVERYTHING if c not in differ]


def random_strings(alphabet, count, seed):
    r = random.Random(seed)
    ascii_ = [chr(c) for c in range(128)]
    marks = [c for c in alphabet if "\u0300" <= c < "\u0370" or c in "áéöñĀ"]
    kinds = [alphabet, ascii_, list(" \n\r\t\u00a0\u3000"), list("'stredvml ST"), list("0123456789٣²"),
             [c for c in alphabet if c < "\u3000"], marks]
    words = ["<mask>", "<mask>x", "<pad>", "word", "<|end|>", "<|begin|>", "<s>", "</s>", "▁", "the ", " if", "<0x41>"]
    for _ in range(count):
        parts = []
        for _ in range(r.randint(1, 6)):
            if r.random() < 0.15:
                parts.append(r.choice(words))
            else:
                kind = r.choice(kinds)
                parts.extend(r.choice(kind) for _ in range(r.randint(1, 6)))
        yield "".join(parts)


def ids_in(path):
    data = path.read_bytes()
    width, count = struct.unpack_from("<IQ", data, 12)
    return list(struct.unpack_from(f"<{count}{'H' if width == 2 else 'I'}", data, 256))


def trireme(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def compare(program, folder, t, texts, what):
    """Each text is a document; the separator is an id that no token has."""
    separator = max(t.get_vocab().values()) + 1
    lines, out = folder / "texts.jsonl", folder / "out.tokens"
    with lines.open("w") as f:
        for text in texts:
            f.write(json.dumps({"text": text}) + "\n")
    trireme(program, "tokenize", lines, "--overwrite", "--output", out, "--tokenizer", folder, "--separator", separator, "--vocab",
            separator + 1)
    single = json.loads(t.to_str())["post_processor"]
    first = [] if not single or single["type"] != "TemplateProcessing" else t.encode("").ids
    ours, wrong = ids_in(out), 0
    at = 0
    for k in range(0, len(texts), 10000):
        for text, one in zip(texts[k:k + 10000], t.encode_batch(texts[k:k + 10000], add_special_tokens=False)):
            end = ours.index(separator, at)
            if ours[at:end] != first + one.ids:
                wrong += 1
                if wrong <= 3:
                    print(f"{what}: {text!r}\n  reference {[t.id_to_token(i) for i in one.ids]}\n"
                          f"  trireme   {[t.id_to_token(i) for i in ours[at:end]]}")
            at = end + 1
    print(f"{what}: {len(texts)} texts, {wrong} differ", flush=True)
    return wrong == 0 and at == len(ours)


def compare_cut(program, folder, t, text, what):
    """A document of several MB, which is cut, against the whole."""
    file, out = folder / "long.txt", folder / "out.tokens"
    file.write_text(text, newline="")
    trireme(program, "tokenize", file, "--overwrite", "--output", out, "--tokenizer", folder, "--separator", "none")
    same = ids_in(out) == t.encode(text).ids
    print(f"{what}: a document of {len(text.encode()) / 1e6:.1f} MB {'is the same' if same else 'DIFFERS'}", flush=True)
    return same


def compare_all(program, t, alphabet, seed, count, name):
    files = own_text()
    long_text = "".join(files * 2) + "".join(random_strings(alphabet, 60000, 7))
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        t.save(str(folder / "tokenizer.json"))
        fine = compare(program, folder, t, files, f"{name}, own text")
        fine &= compare_cut(program, folder, t, long_text, name)
        return fine & compare(program, folder, t, list(random_strings(alphabet, count, seed)), f"{name}, random")


def cases():
    """Fewer strings than by hand: this is one test of many."""
    def case(seed, name, t):
        def run(program):
            assert compare_all(program.build / "trireme", t, agreed_alphabet(), seed, 20000, name), "ids differ, see above"
            return "20000 random strings, own text, a document that is cut"
        return run

    for seed, (name, t) in enumerate(tokenizers()):
        yield name, case(seed, name, t)


def main(build, count=250000):
    fine = [compare_all(pathlib.Path(build) / "trireme", t, agreed_alphabet(), seed, int(count), name)
            for seed, (name, t) in enumerate(tokenizers())]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
