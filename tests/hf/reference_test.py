"""The oracle of the other tests against transformers, in f32."""
import torch

import flavours
import reference


def roundings(dtype):
    """Of a number that passes 3 layers of 7 products and norms of up to 88 terms: n roundings add up to sqrt(n) of them.
    Three times that, for two programs and the spread of their largest differences."""
    return 3 * torch.finfo(dtype).eps / 2 * (3 * 7 * 88) ** 0.5


def difference(got, want):
    """Largest, relative to the scale of what is wanted."""
    assert got.shape == want.shape, f"{tuple(got.shape)} for {tuple(want.shape)}"
    assert torch.isfinite(got).all(), "not all numbers are finite"
    return float((got.double() - want.double()).abs().max() / want.abs().max())


def agrees(name, program):
    model = flavours.make(name, program.work / "model")
    ids = flavours.random_ids(3, flavours.CONTEXT)
    shape, w = reference.load(program.work / "model", torch.float32)
    with torch.no_grad():
        off = difference(reference.logits(w, shape, ids), model(ids).logits)
    bound = roundings(torch.float32)
    assert off <= bound, f"logits differ by {off:.1e} of their scale, bound {bound:.1e}"
    return f"logits differ by {off:.1e} of their scale, bound {bound:.1e}"


def cases():
    for name in flavours.CONFIGS:
        yield name, lambda program, name=name: agrees(name, program)
