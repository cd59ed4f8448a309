"""A SentencePiece model of some letters, written by hand as the protocol buffer that it is."""
import struct


def varint(n):
    low = b""
    while n > 127:
        low += bytes([n & 127 | 128])
        n >>= 7
    return low + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def whole(number, value):
    return varint(number << 3) + varint(value)


def model():
    unknown, control, normal, unigram = 2, 3, 1, 1
    pieces = [("<unk>", unknown), ("<s>", control), ("</s>", control), *((c, normal) for c in "\u2581,;abcdefghijklmnopqrstuvwxyz"), ("\u2581the", normal)]
    body = b"".join(field(1, field(1, text.encode()) + varint(2 << 3 | 5) + struct.pack("<f", -1 - i / 100) + whole(3, kind))
                    for i, (text, kind) in enumerate(pieces))
    trainer = whole(3, unigram) + whole(4, len(pieces))
    normalizer = field(1, b"identity") + whole(3, 1) + whole(4, 1) + whole(5, 1)
    return body + field(2, trainer) + field(3, normalizer)
