"""The pages on fine-tuning and the tutorial on chat word for word, on small models and a tokenizer that transformers made."""
import os
import re
import subprocess
import sys

import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

import flavours
import texts
from program import ROOT

sys.path.insert(0, str(ROOT / "tests"))
from docs_test import blocks, file_of

# As the repositories of SmolLM2 have it.
CHAT = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
        "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
        "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VOCAB = 400


def make_theirs(flavour, folder):
    flavours.make(flavour, folder, vocab_size=VOCAB, max_position_embeddings=256, bos_token_id=1, eos_token_id=0)
    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    bare.train_from_iterator(texts.lines(), trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=[AddedToken(t, special=True) for t in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=bare, bos_token=SPECIAL[1], eos_token=SPECIAL[0])
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)


FINE_TUNING = [f"docs/{name}.md" for name in ("conversations", "finetune", "adapters", "dpo", "distillation", "packing")]
CHAT_PAGES = [f"docs/tutorials/{name}.md" for name in ("first-model", "lora-chat")]


def run_pages(program, pages, flavour, more):
    """What their blocks print. `more`: words behind those of `train`; without a flavour the pages make their own model."""
    work = program.work
    if flavour:
        make_theirs(flavour, work / "theirs")
    for name in ("build", "bin", "books"):
        (work / name).mkdir()
    for name in ("inputs", "lib"):
        (work / name).symlink_to(ROOT / name)
    (work / "books/a.txt").write_text("\n".join(texts.lines()) * 20)
    (work / "build/trireme").write_text(f"""#!/bin/sh
[ "$1" = train ] && set -- "$@" run.threads=1 {more}
exec "{program.build}/trireme" "$@"
""")
    (work / "bin/mpiexec").write_text(f'#!/bin/sh\nexec "{program.mpiexec}" "$@"\n')
    for name in ("build/trireme", "bin/mpiexec"):
        (work / name).chmod(0o755)
    environment = {**program.environment, "PATH": f"{work}/bin:{os.environ['PATH']}"}
    said = []
    for _, language, text in (block for page in pages for block in blocks(page)):
        if language in ("toml", "jinja"):
            (work / file_of(text)).write_text(text)
        if language in ("toml", "jinja", "text") or text == "make build\n":
            continue
        text = text.replace("--time-limit 30", "--time-limit 280")  # few steps, on a machine that may be busy
        command = [sys.executable, "-c", text] if language == "python" else ["sh", "-ec", text]
        ran = subprocess.run(command, cwd=work, env=environment, stdin=subprocess.DEVNULL, text=True, errors="replace", timeout=300,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert ran.returncode == 0, f"{text}\nexit code {ran.returncode}\n{ran.stdout[-1000:]}{ran.stderr[-3000:]}"
        said.append(ran.stdout)
    return said


def page_of_fine_tuning(program):
    # The page's rate is for models that have learnt; this one begins with nothing.
    said = run_pages(program, FINE_TUNING, "smollm",
                     'optimizer.lr=1e-2 && [ "$2" != mine.toml ] && set -- "$@" train.steps=2')
    losses = program.history("runs/tuned")["loss"]
    assert losses[-1] < 0.5 * losses[0], f"the loss went from {losses[0]} to {losses[-1]}"
    answer = next((text for text in said if text.startswith("170.")), None)
    assert answer, f"it answers {said!r}"
    return f"loss {losses[0]:.2f} to {losses[-1]:.2f}; it answers {answer.strip()!r}"


def page_of_experts(program):
    book = program.work / "book.txt"
    book.write_text("\n".join(texts.lines()) * 20)
    program("tokenize", str(book), "--output", str(program.work / "books.tokens"))
    run_pages(program, ["docs/experts.md"], "qwen3-moe", "optimizer.lr=1e-3")
    losses = program.history("runs/tuned_experts")["loss"]
    assert losses[-1] < losses[0] - 0.1, f"the loss went from {losses[0]} to {losses[-1]}"
    return f"loss {losses[0]:.2f} to {losses[-1]:.2f}"


def page_of_chat(program):
    # With fewer steps, adapters of the first model do not learn to tell the questions apart.
    said = run_pages(program, CHAT_PAGES, None, '&& [ "$2" = inputs/quickstart.toml ] && set -- "$@" train.steps=300 schedule.warmup_steps=10')
    answers = [text.strip() for text in said if text.startswith("170.")]
    assert len(answers) == 2, f"it and transformers answer {said!r}"
    return f"it and transformers answer {answers!r}"


def cases():
    yield "fine-tuning", page_of_fine_tuning
    yield "experts over ranks", page_of_experts
    yield "a tutorial on chat", page_of_chat
