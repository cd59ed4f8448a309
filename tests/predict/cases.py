"""The steps that `make predict` predicts and measures: (model, ranks, dtype, overrides)."""

MODELS = {
    # The quick start's, a middle one, GPT-2's smallest at a short context: steps of seconds on two cores.
    "quick": ("inputs/quickstart.toml", {}),
    "middle": ("inputs/quickstart.toml", {"model.layers": 6, "model.width": 384, "model.heads": 6, "model.vocab": 8192,
                                           "train.batch": 8}),
    "124M": ("inputs/gpt2_124m.toml", {"model.vocab": 50304, "model.context": 128, "train.batch": 4, "train.microbatch": 4}),
}


def slow_cases():
    """On two ranks whose messages go over a slow network: what they cost shows, and may hide behind computing."""
    rows = []
    for model, half in (("quick", 8), ("middle", 4)):
        for keys in ({"parallel.data": 2, "zero.stage": 0, "train.microbatch": half},
                     {"parallel.data": 2, "zero.stage": 3, "train.microbatch": half},
                     {"parallel.data": 2, "zero.stage": 3, "train.microbatch": half // 2},
                     {"parallel.data": 2, "zero.stage": 3, "zero.gather": "step", "zero.reduce": "step",
                      "train.microbatch": half // 2},
                     {"parallel.seq": 2, "train.microbatch": 2 * half},
                     {"parallel.pipe": 2, "train.microbatch": half // 2}):
            rows.append((model, 2, keys))
    return rows


def cases():
    """At least 40; M microbatches of every size, every axis, every ZeRO stage."""
    rows = []

    def add(model, ranks, **keys):
        rows.append((model, ranks, {k.replace("__", "."): v for k, v in keys.items()}))

    for microbatch in (16, 8, 4, 2):  # M = 1, 2, 4, 8
        add("quick", 1, train__microbatch=microbatch)
    for microbatch in (8, 4, 1):
        add("middle", 1, train__microbatch=microbatch)
    for microbatch in (4, 2, 1):
        add("124M", 1, train__microbatch=microbatch)
    add("quick", 1, model__recompute="block")
    add("124M", 1, model__recompute="block")

    for model, half in (("quick", 8), ("middle", 4), ("124M", 2)):
        for stage in (0, 1, 2, 3):
            add(model, 2, parallel__data=2, zero__stage=stage, train__microbatch=half)
        add(model, 2, parallel__data=2, zero__stage=3, train__microbatch=half // 2)
        add(model, 2, parallel__data=2, zero__stage=3, zero__gather="step", zero__reduce="step", train__microbatch=half // 2)
        add(model, 2, parallel__seq=2, train__microbatch=2 * half)
        add(model, 2, parallel__seq=2, zero__stage=3, train__microbatch=half)
        add(model, 2, parallel__pipe=2, train__microbatch=half)
        add(model, 2, parallel__pipe=2, train__microbatch=half // 2)
        add(model, 2, parallel__pipe=2, zero__stage=0, train__microbatch=2 * half)
    add("quick", 2, parallel__pipe=2, train__microbatch=2)
    add("quick", 2, parallel__data=2, zero__stage=0, train__microbatch=1)
    return rows
