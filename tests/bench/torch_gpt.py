#!/usr/bin/env python3
"""A GPT-2 in PyTorch as it is usually trained, timed: what Trireme's speed stands beside.

Master weights in f32, bf16 by autocast (which leaves the residual stream and the norms in f32),
fused AdamW, torch.compile, scaled_dot_product_attention, the gradient's norm clipped, random tokens.
--dtype f32 without autocast. Where torch.compile fails, for want of a C compiler say, it goes on
without and says so. Prints one line of JSON; without torch one line that says so and exit code 1.
"""
import argparse
import json
import math
import statistics
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as e:
    sys.exit(f"python3 without torch: nothing to compare with ({e})")

SHAPES = {  # layers, width, heads
    "gpt2-124M": (12, 768, 12),
    "gpt2-350M": (24, 1024, 16),
    "gpt2-774M": (36, 1280, 20),
    "gpt2-1558M": (48, 1600, 25),
}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x_BTC):
        B, T, C = x_BTC.shape
        qkv_3BHTD = self.qkv(self.norm1(x_BTC)).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        o_BHTD = F.scaled_dot_product_attention(*qkv_3BHTD.unbind(0), is_causal=True)
        x_BTC = x_BTC + self.out(o_BHTD.transpose(1, 2).reshape(B, T, C))
        return x_BTC + self.down(F.gelu(self.up(self.norm2(x_BTC)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, vocab, context):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                scale = 0.02 / math.sqrt(2 * layers) if name.endswith(("out.weight", "down.weight")) else 0.02
                nn.init.normal_(p, std=scale)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids_BT, targets_BT):
        x_BTC = self.token(ids_BT) + self.position.weight[:ids_BT.shape[1]]
        for block in self.blocks:
            x_BTC = block(x_BTC)
        logits_BTV = F.linear(self.norm(x_BTC), self.token.weight)
        return F.cross_entropy(logits_BTV.flatten(0, 1), targets_BT.flatten())


class Training:
    def __init__(self, args, microbatch):
        layers, width, heads = (args.layers, args.width, args.heads) if args.layers else SHAPES[args.model]
        torch.manual_seed(1)
        self.device, self.microbatch, self.bf16 = args.device, microbatch, args.dtype == "bf16"
        with torch.device(args.device):
            model = Gpt(layers, width, heads, args.vocab, args.context)
            shape = (args.batch // microbatch, microbatch, args.context)
            self.ids, self.targets = (torch.randint(args.vocab, shape) for _ in range(2))
        self.parameters = list(model.parameters())
        self.model = model if args.eager else torch.compile(model)
        decayed = [p for p in self.parameters if p.dim() == 2]
        rest = [p for p in self.parameters if p.dim() != 2]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), fused=True)
        n = sum(p.numel() for p in self.parameters)
        self.flops = args.batch * args.context * (6 * n + 6 * layers * width * args.context)

    def wait(self):
        if self.device != "cpu":
            torch.cuda.synchronize()

    def step(self):
        """Milliseconds."""
        begin = time.perf_counter()
        for ids_BT, targets_BT in zip(self.ids, self.targets):
            with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.bf16):
                loss = self.model(ids_BT, targets_BT) / len(self.ids)
            loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.wait()
        return 1e3 * (time.perf_counter() - begin)


def measured(args, microbatch):
    begin = time.perf_counter()
    training = Training(args, microbatch)
    training.step()
    compile_s = time.perf_counter() - begin
    for _ in range(2):
        training.step()
    ms = statistics.median(training.step() for _ in range(args.steps))
    tokens = args.batch * args.context
    memory = torch.cuda.max_memory_reserved() / 2**30 if args.device != "cpu" else 0
    return {"torch": torch.__version__, "eager": args.eager, "dtype": args.dtype, "model": args.model, "microbatch": microbatch, "tokens": tokens, "step_ms": ms,
            "tokens_per_s": 1e3 * tokens / ms, "tflops": training.flops / ms * 1e-9, "compile_s": compile_s,
            "memory_GiB": memory}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=SHAPES, default="gpt2-124M")
    for name in ("layers", "width", "heads"):
        parser.add_argument(f"--{name}", type=int, default=0, help="all three replace the model's shape")
    parser.add_argument("--vocab", type=int, default=50304)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=64, help="samples a step")
    parser.add_argument("--microbatch", type=int, default=16, help="samples at a time; halved while they do not fit")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--threads", type=int, default=1, help="of a CPU")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="bf16")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit(f"torch {torch.__version__} finds no GPU: nothing to compare with")
    if args.device == "cpu":
        torch.set_num_threads(args.threads)
    if args.dtype == "bf16":
        torch.set_float32_matmul_precision("high")
    microbatch = args.microbatch
    while True:
        try:
            print(json.dumps(measured(args, microbatch)))
            return
        except torch.cuda.OutOfMemoryError:
            if microbatch == 1:
                sys.exit(f"torch: {args.model} does not fit into this GPU's memory")
            microbatch //= 2
        except Exception as e:  # of the compiler: it has many kinds
            if args.eager:
                raise
            print(f"torch.compile: {type(e).__name__}: {e}", file=sys.stderr)
            args.eager = True
        if args.device != "cpu":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
