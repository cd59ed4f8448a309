"""Text of the project and tokenizers trained on it by the package `tokenizers`."""
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from program import ROOT

SPECIAL = ["<|begin|>", "<|end|>"]


def lines():
    text = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        text += page.read_text().splitlines()
    return [line for line in text if line.strip()]


def train_tokenizer(folder, vocab):
    """Byte-level BPE as GPT-2's, with two special tokens; writes it as transformers does."""
    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bare.train_from_iterator(lines(), trainers.BpeTrainer(vocab_size=vocab, special_tokens=SPECIAL,
                                                          initial_alphabet=alphabet, show_progress=False))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=bare, bos_token=SPECIAL[0], eos_token=SPECIAL[1])
    tokenizer.save_pretrained(folder)
    assert len(tokenizer) == vocab, f"{len(tokenizer)} tokens, not {vocab}"
    return tokenizer
