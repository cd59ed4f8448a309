#!/usr/bin/env python3
"""Writes fixtures.json: small tokenizers, texts, and the ids that Hugging Face's tokenizers give.

  python tests/tokenizer/make_fixtures.py   needs the packages of `make test-hf`
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "hf"))
from tokenizers_test import random_strings, tokenizers  # noqa: E402

TEXTS = ["", " ", "  two  spaces \n\n next\tline\r\n", "It's WE'LL don't 'S", "12345 and 3.14 ٣٤ ²", "naïve cafe\u0301 Å",
         "日本語 と 한국어 🙂👩‍👩‍👧", "a<mask> b <mask>x<pad>  c", "word sword words word.", "<|begin|>hi<|end|> <s>hi</s>",
         "\u180e\u00a0\u3000\u2028x", "\0\x01", "▁▁a ▁", "for (int i = 0; i < n; ++i) {\n    x[i] += y;\n}\n"]


def main():
    alphabet = [chr(c) for c in range(0x24f)] + list("αβгд日本語한국🙂")
    out = []
    for seed, (name, t) in enumerate(tokenizers(700)):
        texts = TEXTS + list(random_strings(alphabet, 60, 100 + seed))
        out.append({"name": name, "tokenizer": json.loads(t.to_str()), "texts": texts,
                    "ids": [t.encode(x, add_special_tokens=False).ids for x in texts],
                    "decoded": [t.decode(t.encode(x, add_special_tokens=False).ids, skip_special_tokens=False)
                                for x in texts]})
    (HERE / "fixtures.json").write_text(json.dumps(out, ensure_ascii=True) + "\n")


main()
