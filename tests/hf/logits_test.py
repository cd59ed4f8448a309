"""A model of transformers, imported: its logits in f32 against transformers, in f64 against the reference."""
import torch

import flavours
import reference
from program import GRID, ONE_RANK
from reference_test import difference

F32 = ["run.backend=host", "run.threads=1", "precision.compute=f32"]
F64 = ["run.backend=ref", "run.threads=1", "precision.compute=f64", "precision.reduce=f64"]
AGREES = {"f32": 1e-4, "f64": 1e-10}


def expect(off, dtype, what):
    assert off <= AGREES[dtype], f"{what}: {dtype} logits differ by {off:.1e} of their scale, more than {AGREES[dtype]:g}"
    return f"{what} {off:.1e}"


def compares(name, program, prepare=None):
    folder = program.work / "model"
    model = flavours.make(name, folder)
    shape, w = reference.load(folder, torch.float64)
    if prepare:
        prepare(folder)
    program("import", folder, "imported")
    ids = flavours.random_ids(2, flavours.CONTEXT)
    with torch.no_grad():
        want32 = model(ids).logits
        want64 = reference.logits(w, shape, ids)
    said = [expect(difference(program.logits("imported", ids, ONE_RANK, F32), want32), "f32", "f32"),
            expect(difference(program.logits("imported", ids, ONE_RANK, F64), want64), "f64", "f64")]
    if not prepare:  # one sample: each position is a program of its own on four ranks
        said.append(expect(difference(program.logits("imported", ids[:1], GRID, F64), want64[:1]), "f64", "f64 on a grid"))
    return "logits differ from transformers and the reference by " + ", ".join(said)


def cases():
    for name in flavours.CONFIGS:
        yield name, lambda program, name=name: compares(name, program)
    # What published folders look like.
    for name in ("llama2", "llama3", "gemma2", "gemma3", "qwen2", "qwen3-moe", "smollm3", "granite", "glm4"):
        yield f"{name}-old-keys", lambda program, name=name: compares(name, program, flavours.old_keys)
    for name in ("mixtral", "qwen2-moe"):
        yield f"{name}-experts-together", lambda program, name=name: compares(name, program, flavours.experts_together)
    yield "llama-linear-beside-rope-parameters", lambda program: compares("llama-linear", program, flavours.both_keys)
    yield "gpt2-without-prefix", lambda program: compares("gpt2", program, flavours.as_published_gpt2)
