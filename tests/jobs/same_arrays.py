#!/usr/bin/env python3
"""same_arrays.py CHECKPOINT CHECKPOINT: both have the same arrays, bit for bit, however their ranks share them. Reads the shard
files with h5py and knows nothing of Trireme but that each dataset says which elements of its array it holds."""
import sys
from pathlib import Path

import h5py
import numpy


def arrays(checkpoint):
    """By name: the elements of each array, all of them."""
    parts = {}

    def add(name, item):
        if isinstance(item, h5py.Dataset) and "offset" in item.attrs:
            size = int(numpy.prod(item.attrs["shape"], dtype=numpy.int64))
            parts.setdefault((name, size), []).append((int(item.attrs["offset"][0]), item[()].ravel()))

    for shard in sorted(Path(checkpoint).glob("rank-*.h5")):
        with h5py.File(shard) as file:
            file.visititems(add)
    whole = {}
    for (name, size), pieces in parts.items():
        pieces.sort(key=lambda piece: piece[0])
        at = 0
        for offset, elements in pieces:
            if offset != at:
                sys.exit(f"{checkpoint}: {name} has a gap or an overlap at element {at}")
            at += len(elements)
        if at != size:
            sys.exit(f"{checkpoint}: {name} has {at} of {size} elements")
        whole[name] = numpy.concatenate([elements for _, elements in pieces])
    return whole


a, b = (arrays(checkpoint) for checkpoint in sys.argv[1:])
if not a or a.keys() != b.keys():
    sys.exit(f"arrays of one alone: {sorted(a.keys() ^ b.keys())}")
for name in a:
    if a[name].dtype != b[name].dtype or a[name].tobytes() != b[name].tobytes():
        sys.exit(f"{name} differs")
print(f"{len(a)} arrays are the same")
