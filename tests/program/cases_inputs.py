"""What a user gets wrong: decks, overrides, options, files. One message that names it, an exit code, nothing written."""
from fixture import EXPERTS, LLAMA, MIXTURE, SIGMOID
from rows import REFUSED, Case, Run

# Titles of what is not refused yet as it should be, and why.
KNOWN = {}


def bad(name, command, *says, setup="", start="fresh", **rest):
    """The folder keeps every file. The deck is checked by `check`, which is what `train` does first."""
    return Case(name, [Run(command=f"$TRIREME {command}", codes=REFUSED, says=says, limit=30)], setup=setup, start=start,
                untouched=".", finish="", **rest)


def good(name, command, *says, setup="", start="done", **rest):
    return Case(name, [Run(command=f"$TRIREME {command}", says=says, limit=30)], setup=setup, start=start, finish="", **rest)


# An override, and what is said of it beside its key.
OVERRIDES = [
    ("model.layers=two", "layers"), ("model.layers=0", "layers"), ("model.layers=-1", "layers"), ("model.layers=1.5", "layers"),
    ("model.layers=99999999999999999999", "layers"), ("model.layers=", "layers"), ("model.layres=2", "model.layers"),
    ("model.heads=3", "heads"), ("model.width=0", "width"), ("model.dropout=1", "dropout"), ("model.dropout=-0.1", "dropout"),
    ("model.dropout=nan", "dropout"), ("model.dropout=inf", "dropout"), ("model.norm=batch", "norm"), ("model.tied=maybe", "tied"),
    ("model.preset=gpt9", "preset"), ("model.context=99999999999", "context"), ("model.context=4000", "text.tokens|context"),
    ("model.vocab=100", "vocab"), ("model.init_from=nowhere", "nowhere"), ("model.kv_heads=3", "kv_heads"), ("data.path=[]", "data.path"),
    ("data.path=none.tokens", "none.tokens"), ("data.path=deck.toml", "deck.toml"), ("data.path=.", "data.path|directory|regular"),
    ("data.validation=1", "validation"), ("data.validation=-1", "validation"), ("data.validation=0.0001", "validation"),
    ("data.weights=[1]x", "weights"), ("data.weights=[1,2]", "weights"), ("data.weights=[0]", "weights"), ("data.weights=[nan]", "weights"),
    ("data.order=reverse", "order"), ("train.batch=0", "batch"), ("train.batch=5", "microbatch|batch"), ("train.microbatch=3", "microbatch"),
    ("train.steps=0", "steps"), ("train.steps=ten", "steps"), ("train.seed=-1", "seed"),
    ("train.seed=99999999999999999999", "seed"), ("train.seed=abc", "seed"), ("optimizer.name=adam", "adamw"), ("optimizer.lr=fast", "lr"),
    ("optimizer.lr=-1", "lr"), ("optimizer.lr=nan", "lr"), ("optimizer.lr=inf", "lr"), ("optimizer.betas=[0.9]", "betas"),
    ("optimizer.betas=[0.9,1.0]", "betas"), ("optimizer.betas=0.9", "betas"), ("optimizer.eps=0", "eps"), ("optimizer.momentum=0.5", "momentum"),
    ("schedule.shape=square", "shape"), ("schedule.warmup_steps=-1", "warmup_steps"), ("precision.compute=f16", "compute"),
    ("precision.compute=f64", "f64"), ("parallel.pipe=0", "pipe"), ("parallel.pipe=3", "pipe"), ("parallel.seq=2", "ranks|seq"),
    ("parallel.data=-1", "data"), ("parallel.stage_layers=[1]", "stage_layers"), ("zero.stage=4", "stage"), ("zero.shard=-1", "shard"),
    ("evaluate.every_steps=-1", "every_steps"), ("checkpoint.every_minutes=-1", "every_minutes"), ("checkpoint.keep_last=-1", "keep_last"),
    ("checkpoint.on_error=ignore", "on_error"), ("run.backend=tpu", "backend"),
    ("run.threads=99999", "threads"), ("run.threads=-3", "threads"), ("run.time_limit=soon", "time_limit"),
    ("run.time_limit=1:99:00", "time_limit"), ("run.time_limit=-5", "time_limit"), ("run.hang_timeout=x", "hang_timeout"),
    ("run.trace_steps=[3]", "trace_steps"), ("run.exactness=exact", "exactness"), ("layers=2", r"\[model\]|model.layers"), ("nonsense", "nonsense"),
    ("=3", "="), ("model.=3", "model"), (".layers=3", "layers"), ("model.layers.x=3", "layers"), ("model.layers=[2]", "layers"),
    ("model.width=1e300", "width"), ("model.layers=0x10000000000000000", "layers"), ("model.layers='2'", "layers"), ("train.steps=1e5x", "steps"),
]

# (model, what is wrong with it, what is said)
MIXTURES = [
    *((LLAMA, f"{key}={value}", f"{key} needs model.experts: set that, or remove {key}") for key, value in (
        ("model.experts_per_token", 2), ("model.expert_width", 8), ("model.shared_expert_width", 8), ("model.dense_layers", "[0]"), ("model.router", "sigmoid"),
        ("model.norm_topk", "false"), ("train.balance", "sample"), ("train.balance", "bias"), ("train.router_z", 0.1), ("parallel.expert", 2), ("parallel.expert_tokens", 16))),
    (LLAMA, "model.experts=5", "model.experts_per_token = 0 is not between 1 and model.experts = 5: give the number of experts that process each token"),
    (EXPERTS, "model.experts_per_token=0", "model.experts_per_token = 0 is not between 1 and model.experts = 5"),
    (EXPERTS, "model.experts_per_token=6", "model.experts_per_token = 6 is not between 1 and model.experts = 5"),
    (EXPERTS, "model.experts=65537", "model.experts = 65537 is out of range"), (EXPERTS, "model.experts=-5", "model.experts = -5 is out of range"),
    (EXPERTS, "model.expert_width=-1", "model.expert_width = -1 is out of range"), (EXPERTS, "model.activation=gelu", "experts need a gated activation"),
    (EXPERTS, "model.dense_layers=[2]", "model.dense_layers names block 2, but with model.layers = 2 the last block is 1"),
    (EXPERTS, "model.dense_layers=[1,1]", "model.dense_layers names a block twice"), (EXPERTS, "model.dense_layers=[-1]", "model.dense_layers = -1 is out of range"),
    (EXPERTS, "model.shared_expert_gate=true", "model.shared_expert_gate needs a shared expert: set model.shared_expert_width"),
    (LLAMA, "model.shared_expert_gate=true", "model.shared_expert_gate needs a shared expert"),
    (EXPERTS, "train.balance=bias", "train.balance = \"bias\" needs model.router = \"sigmoid\"; with \"softmax\", use train.balance = \"sample\""),
    (SIGMOID, "model.router=softmax", "train.balance = \"bias\" needs model.router = \"sigmoid\""), (EXPERTS, "model.router=top", "\"softmax\" or \"sigmoid\""),
    (EXPERTS, "train.balance_weight=0.5", "train.balance_weight needs train.balance = \"sample\""), (MIXTURE, "train.balance_weight=nan", "train.balance_weight = nan is out of range"),
    (MIXTURE, "train.balance_rate=0.5", "train.balance_rate needs train.balance = \"bias\""), (EXPERTS, "train.router_z=-1", "train.router_z = -1 is out of range"),
    (EXPERTS, "parallel.expert=6", "parallel.expert = 6 is more than model.experts = 5; each rank needs at least one expert"), (EXPERTS, "parallel.expert=0", "parallel.expert = 0 is out of range"),
    (EXPERTS, "parallel.expert=2", "on 1 rank: parallel.expert = 2 does not divide .*; sizes that do: 1"), (EXPERTS, "parallel.expert=auto", "parallel.expert takes a whole number"),
    (EXPERTS, "parallel.expert_tokens=-1", "parallel.expert_tokens = -1 is out of range"),
    (EXPERTS, "run.exactness=invariant run.exact_chunk=3", "run.exact_chunk = 3 does not divide"),
]
# (what a checkpoint of MIXTURE meets in place of it, how that is said)
OTHER_MIXTURES = [
    (MIXTURE + " model.experts=6", r"contains another model: blocks.0.router.weight is \[5, 16\] instead of \[6, 16\]"),
    (MIXTURE + " model.expert_width=10", r"blocks.0.experts.0.ffn_in.weight is \[24, 16\] instead of \[20, 16\]"),
    (MIXTURE + " model.router=sigmoid", "blocks.0.router.bias is missing"), (MIXTURE + " model.dense_layers=[1]", "blocks.1.ffn_in.weight is missing"),
    (EXPERTS, "blocks.0.shared_expert.ffn_in.weight is unexpected"), (LLAMA, "blocks.0.ffn_in.weight is missing"),
]


def quoted(overrides):
    return " ".join(f"'{o}'" for o in overrides.split())


# (name, deck in place of the good one, what is said)
DECKS = [
    ("empty", ": > deck.toml", ("required|data.path",)),
    ("of random bytes", "head -c 3000 /dev/urandom > deck.toml", ("deck.toml",)),
    ("of zeros", "head -c 3000 /dev/zero > deck.toml", ("deck.toml",)),
    ("of 3 MB", "head -c 3000000 /dev/zero | tr '\\0' '#' > deck.toml", ("deck.toml",)),
    ("missing", "rm deck.toml", ("deck.toml", "No such file")),
    ("a directory", "rm deck.toml; mkdir deck.toml", ("directory",)),
    ("a dangling link", "ln -sf nowhere deck.toml", ("deck.toml",)),
    ("a pipe", "rm deck.toml; mkfifo deck.toml", ("regular file",)),
    ("a checkpoint's manifest", "echo '{\"content\": 3}' > deck.toml", ("deck.toml:1",)),
    ("cut within a line", "truncate -s 30 deck.toml", ("deck.toml|required|data.path",)),
    ("with an open text", "echo 'a = \"x' >> deck.toml", ("deck.toml:",)),
    ("with an open array", "printf '[parallel]\\nstage_layers = [1,' >> deck.toml", ("deck.toml:",)),
    ("with a section twice", "printf '[model]\\nlayers = 2\\n' >> deck.toml", ("deck.toml:",)),
    ("with a key twice", "sed -i 's/^width = 16/width = 16\\nwidth = 32/' deck.toml", ("deck.toml:", "width")),
    ("with a key of another's words", "printf '[optimizer]\\nlearning_rate = 1\\n' > deck.toml", ("deck.toml:2:1", "learning_rate")),
    ("with a key that is none", "printf '[optimise]\\nlr = 1\\n' >> deck.toml", ("optimise",)),
    ("with a key of another section", "sed -i 's/^width = 16/width = 16\\nlr = 1/' deck.toml", ("deck.toml:", "lr")),
    ("with a key above all sections", "sed -i '1i layers = 3' deck.toml", ("layers",)),
    ("with a text for a number", "sed -i 's/^width = 16/width = \"16\"/' deck.toml", ("deck.toml:", "width")),
    ("with a date for a number", "sed -i 's/^width = 16/width = 2020-01-01/' deck.toml", ("deck.toml:", "width")),
    ("with a table for a number", "sed -i 's/^width = 16/width = {a = 1}/' deck.toml", ("width",)),
    ("with Windows' line ends and a fault", "sed -i 's/^width = 16/width = x/; s/$/\\r/' deck.toml", ("deck.toml:",)),
    ("with bytes that are no UTF-8", "printf '# \\377\\376\\n' >> deck.toml", ("deck.toml", "UTF-8|utf-8")),
    ("nested 100,000 deep", "python3 -c 'print(\"[a]\\nb = \" + \"[\" * 100000)' > deck.toml", ("deck.toml",)),
    ("with a key of 100,000 parts", "python3 -c 'print(\".\".join(\"a\" * 100000) + \" = 1\")' > deck.toml", ("deck.toml",)),
    ("with an inner key of 100,000 parts", "python3 -c 'print(\"x = {\" + \".\".join(\"a\" * 100000) + \" = 1}\")' > deck.toml", ("deck.toml",)),
    ("with a section of 100,000 parts", "python3 -c 'print(\"[\" + \".\".join([\"\\\"a\\\"\"] * 100000) + \"]\")' > deck.toml", ("deck.toml",)),
    ("with tables 100,000 deep", "python3 -c 'print(\"x = \" + \"{a = \" * 100000)' > deck.toml", ("deck.toml",)),
    ("with an environment variable that is not set", "sed -i 's/text.tokens/${NOT_SET_AT_ALL}.tokens/' deck.toml", ("NOT_SET_AT_ALL",)),
    ("with an open variable", "sed -i 's/text.tokens/${HOME/' deck.toml", (r"\$\{|HOME",)),
    ("without data.path", "sed -i /path/d deck.toml", ("data.path",)),
    ("with steps and tokens", "sed -i 's/^steps = 12/steps = 12\\ntokens = 99/' deck.toml", ("steps", "tokens")),
    ("with a freeze rule without a pattern", "printf '[[freeze]]\\nfrom_step = 2\\n' >> deck.toml", ("pattern",)),
    ("with a freeze rule that meets nothing", "printf '[[freeze]]\\npattern = \"nothing.*\"\\n' >> deck.toml", ("nothing",)),
    ("with a freeze rule that ends first", "printf '[[freeze]]\\npattern = \"*\"\\nfrom_step = 5\\nto_step = 3\\n' >> deck.toml", ("has to_step = 3, which is not above from_step = 5",)),
    ("with freeze as a section", "printf '[freeze]\\npattern = \"*\"\\n' >> deck.toml", ("freeze",)),
]

OPTIONS = [  # (command line, what is said)
    ("", "subcommand"), ("fly", "fly"), ("train", "deck"), ("train deck.toml --fly", "--fly"), ("train deck.toml --run-dir", "--run-dir"),
    ("train deck.toml --restart", "--restart"), ("train deck.toml --time-limit soon", "--time-limit|time.limit"),
    ("train deck.toml --time-limit 99:99:99", "--time-limit|time.limit"), ("train deck.toml --time-limit -3", "time.limit"),
    ("train deck.toml --overwrite --restart latest", "--restart"), ("train deck.toml --restart nowhere", "nowhere"),
    ("train deck.toml --run-dir text.txt", "text.txt"), ("train deck.toml --run-dir text.txt/x", "text.txt"), ("train deck.toml --run-dir /proc/x", "/proc/x"),
    ("train deck.toml --run-dir /dev/null", "/dev/null"), ("train deck.toml --run-dir $(printf 'x%.0s' {1..300})", "name too long|File name too long"),
    ("train text.tokens", "text.tokens"), ("train /dev/null", "/dev/null"), ("train /dev/zero", "/dev/zero"),
    ("plan", "deck"), ("plan deck.toml --ranks 0", "ranks"), ("plan deck.toml --ranks -1", "ranks"), ("plan deck.toml --ranks x", "ranks"),
    ("plan deck.toml --ranks 3", "3|batch"), ("plan deck.toml --device-memory lots", "device-memory"), ("plan deck.toml --device-memory -1G", "device-memory"),
    ("deck model.layer", "model.layers"), ("check", "deck"), ("tokenize", "output|input"), ("tokenize none.txt --output x.tokens", "none.txt"),
    ("tokenize text.txt", "--output"), ("tokenize --show-template chatm", "did you mean chatml"), ("tokenize text.txt --output /proc/x", "/proc/[.]x"), ("tokenize text.txt --output .", "."),
    ("tokenize text.txt --output text.txt", "text.txt"), ("tokenize text.txt --output x.tokens --tokenizer none.model", "none.model"),
    ("tokenize text.txt --output x.tokens --tokenizer text.txt", "text.txt"), ("tokenize text.txt --output x.tokens --field text", "text.txt"),
    ("tokenize text.txt --output x.tokens --from llmc", "text.txt"), ("tokenize text.txt --output x.tokens --from other", "from"),
    ("tokenize text.txt --output x.tokens --threads -1", "threads"),
    ("tokenize 'none*.txt' --output x.tokens", r"none\*"), ("tokenize text.txt --output none/x.tokens", "none/x.tokens"),
    ("evaluate", "required"), ("evaluate nowhere", "nowhere"), ("evaluate deck.toml", "deck.toml"), ("generate nowhere --prompt a", "nowhere"),
    ("inspect", "checkpoint"), ("inspect nowhere", "nowhere"), ("inspect text.txt", "text.txt"), ("inspect .", "."), ("inspect nowhere --repair", "nowhere"),
    # A key of the deck, in our words or another's, written as an option.
    ("check deck.toml --model.layers=2", "hint: write model.layers=VALUE"), ("check deck.toml --learning-rate 1", "learning_rate is optimizer.lr"),
    ("train deck.toml --lr=1", "hint: write optimizer.lr=VALUE"), ("generat run", "did you mean trireme generate.*"),
    # A misspelt option before the one that is missing for it; dashes of documents.
    ("tokenize text.txt --ouput x.tokens", "--ouput(.|\n)*did you mean --output"), ("generate runs \u2013-prompt a", "\u2013-prompt.*type --prompt"),
    ("train deck.toml \u2014lr 3", "\u2014lr.*type --lr"), ("tokenize text.txt -o x.tokens --tokenizer gpt2/none", "gpt2/none(.|\n)*hf download gpt2/none"),
    ("tokenize text.txt --threads 99999 --output x.tokens", "threads"), ("tokenize text.txt --output /dev/null", "/dev/null.*regular file"), ("report .", "not a run directory"),
    ("check deck.toml train.steps=9007199254740992", "2\\^53"), ("check \"$(printf 'a\\033[2Jb\\nc')\"", r"a\\x1b\[2Jb\n  c"),  # a name may hold what a terminal obeys
    ("train deck.toml --restart ''", "--restart.*is empty"), ("plan deck.toml --machine ''", "--machine.*is empty"),
    ("calibrate deck.toml", "deck.toml exists and is not a machine file"), ("calibrate text.tokens", "text.tokens exists and is not a machine file"),
    ("plan deck.toml model.vocab=100", "ids up to 122"), ("train deck.toml model.vocab=100", "ids up to 122"),
]

ON_A_RUN = [
    ("generate run --prompt a --tokens -5", "tokens"), ("generate run --prompt a --tokens x", "tokens"), ("generate run --prompt a --temperature -1", "temperature"),
    ("generate run --prompt a --temperature nan", "temperature"), ("generate run --prompt a --temperature inf", "temperature"),
    ("generate run --prompt a --seed -1", "seed"), ("generate run --prompt a --seed 99999999999999999999", "seed"), ("generate run --prompt a --samples -1", "samples"),
    ("generate run --prompt a --threads -1", "threads"), ("generate run --prompt a --top-p 2", "top"),
    ("generate run --prompt a --top-k -1", "top"), ("generate run --fly", "fly"), ("evaluate run --data none.tokens", "none.tokens"),
    ("evaluate run --data text.txt", "text.txt"), ("evaluate run --batches -1", "batches"), ("evaluate run extra", "extra"),
    ("inspect run/checkpoints", "checkpoints"), ("inspect run/history.csv", "history.csv"), ("inspect run --repair", "--repair"),
    ("generate run --prompt-file . --tokens 2", "cannot read \\."), ("generate run --prompts many.jsonl", "many.jsonl:1.*tokens"),
    ("evaluate run --data text.tokens --samples -3", "samples"), ("evaluate unheld", "--data"),
    # A model of one form where another is asked for.
    ("import run new", "already a Trireme checkpoint(.|\n)*model.init_from"), ("import run/checkpoints/step-00000012 new", "already a Trireme checkpoint"), ("export hf new", "trireme import hf NEW"),
    ("tokenize chat.jsonl --chat --output x.tokens", "--tokenizer"), ("evaluate run --multiple-choice choice.jsonl", r'choice.jsonl:1(.|\n)*at least two(.|\n)*"endings": \['),
    ("evaluate run --multiple-choice choice.jsonl --output choice.jsonl", "choice.jsonl is the input file"),
    ("generate run --prompts choice.jsonl --output choice.jsonl", "choice.jsonl is the input file"), ("report run -o text.txt", "text.txt(.|\n)*is not a report page"),
    ("report run -o run", "run is a folder"), ("generate run --prompts asked.jsonl --output corpus.jsonl", "corpus.jsonl exists and is not a continuation file"),
    ("generate run --prompts asked.jsonl --output text.txt", "text.txt exists and is not a continuation file"),
    ("evaluate run --multiple-choice sound.jsonl --output text.txt", "text.txt exists and is not a question score file"),
    # What is there is replaced only when that is asked for.
    ("generate run --prompts asked.jsonl --output made.jsonl", "made.jsonl already exists.*--overwrite"), ("report run -o made.html", "made.html already exists.*--overwrite"),
    ("evaluate run --multiple-choice sound.jsonl --output answers.jsonl", "answers.jsonl already exists.*--overwrite"), ("calibrate made.toml", "made.toml already exists.*--overwrite"),
    ("train deck.toml --run-dir run --restart run --or-start", "--or-start.*latest"),
]
FOR_A_RUN = """$TRIREME export run hf; $TRIREME train deck.toml data.validation=0 train.steps=1 --run-dir unheld
echo '{"prompt": "a", "tokens": 9223372036854775807}' > many.jsonl
echo '{"prompt": "a", "tokens": 2}' > asked.jsonl
echo '{"url":"x","text":"a corpus"}' > corpus.jsonl
echo '{"ctx": "a", "endings": ["b", "c"], "label": 0}' > sound.jsonl
echo '{"messages": [{"role": "user", "content": "a"}]}' > chat.jsonl
echo '{"ctx": "a", "endings": ["b"], "label": 0}' > choice.jsonl
$TRIREME generate run --prompts asked.jsonl --output made.jsonl; $TRIREME evaluate run --multiple-choice sound.jsonl --output answers.jsonl
$TRIREME report run -o made.html; printf '[machine]\nname = "m"\n' > made.toml"""
# Each with a path that is a loop of links: it is named, and no defect of the program.
LOOPS = ["train loop", "train deck.toml --run-dir loop", "train deck.toml --run-dir loop --overwrite", "train deck.toml --restart loop", "train deck.toml --run-dir loop --restart latest",
         "train deck.toml --run-dir loop --restart latest --or-start", "train deck.toml data.path=loop", "train deck.toml data.validation=loop", "train deck.toml model.init_from=loop",
         "train deck.toml model.preset=from:loop", "train deck.toml run.machine=loop", "train deck.toml train.objective=distill distill.teacher=loop", "train deck.toml data.packing=documents data.attention=document train.objective=dpo train.dpo_scores=loop model.init_from=run",
         "check loop", "check --verify deck.toml data.path=loop", "plan loop", "plan deck.toml data.path=loop", "plan deck.toml --machine loop", "plan deck.toml --machine made.toml --trace loop",
         "calibrate loop", "calibrate new.toml --operations-from loop", "tokenize loop --output x.tokens", "tokenize text.txt --output loop", "tokenize text.txt --tokenizer loop --output x.tokens",
         "tokenize chat.jsonl --chat --template loop --output x.tokens", "tokenize loop/a --output x.tokens", "tokenize text.txt --output loop/x", "evaluate loop", "evaluate run --data loop",
         "evaluate run --multiple-choice loop", "evaluate run --multiple-choice sound.jsonl --output loop", "generate loop --prompt a", "generate run --prompt-file loop", "generate run --prompts loop",
         "generate run --prompts asked.jsonl --output loop", "generate run --chat --template loop --prompt a", "inspect loop", "inspect loop --repair", "inspect loop --verify", "compare loop run", "compare run loop",
         "export loop out", "export run loop", "export run loop/x", "import loop new", "import hf loop", "import hf loop/new", "report loop", "report run -o loop",
         "score deck.toml data.packing=documents data.attention=document train.objective=dpo train.dpo_scores=loop model.init_from=run", "score deck.toml data.packing=documents data.attention=document train.objective=dpo train.dpo_scores=s model.init_from=loop"]
FULL = ["plan deck.toml", "plan deck.toml --json", "check deck.toml", "deck", "tokenize --show-template chatml", "version", "inspect run", "evaluate run", "generate run --prompt a --tokens 5",
        "tokenize text.txt --output text.tokens --overwrite"]
ENVIRONMENT = [  # (variable, what is said): of a launcher that this MPI does not understand, or of nonsense
    ("PMI_SIZE=4", "4"), ("SLURM_STEP_NUM_TASKS=3", "3"), ("OMPI_COMM_WORLD_SIZE=2", "2"), ("OMP_NUM_THREADS=99999 run.threads=auto", "OMP_NUM_THREADS.*4096"),
]

CASES = [
    *(bad(f"override {text}", f"check deck.toml \"{text}\"", says, fast=text in ("model.layers=two", "run.threads=99999")) for text, says in OVERRIDES),
    # In one folder: none of them makes anything, and each is one message.
    Case("mixtures of experts", [Run(command=f"$TRIREME check deck.toml {quoted(f'{model} {wrong}')}", codes=REFUSED, once=(" error ",), says=(says,), limit=30)
                                 for model, wrong, says in MIXTURES], untouched=".", finish="", fast=True),
    *(Case(f"a checkpoint of other experts: {how}", [Run(command=f"$TRIREME train deck.toml {more} {quoted(other)} train.steps=14 --run-dir new", codes=REFUSED, once=(" error ",),
                                                         says=(says,), limit=30, then="[ ! -e new/history.csv ]") for other, says in OTHER_MIXTURES],
           start="done", config="mixture", untouched="run", finish="", fast=fast)
      for how, more, fast in (("restarted", "--restart run/checkpoints/step-00000008", True), ("a run begins with its weights", "model.init_from=run", False))),
    Case("a checkpoint of experts that compute otherwise", [Run(f"--restart latest {other}", codes=REFUSED, says=(f"model.{says}", "--allow-other-model"))
                                                            for other, says in (("model.experts_per_token=3", "experts_per_token: 2 -> 3"), ("model.norm_topk=false", "norm_topk: true -> false"))],
         start="half", config="mixture", untouched="run", finish=""),
    *(bad(f"deck {name}", "check deck.toml", *says, setup=setup, fast=name == "with a key of 100,000 parts") for name, setup, says in DECKS),
    *(bad(f"train, deck {name}", "train deck.toml --run-dir run", *says, setup=setup) for name, setup, says in DECKS[:12:3]),
    *(bad(f"option: {command[:60]}", command, says) for command, says in OPTIONS),
    # In one folder: none of them makes anything.
    Case("options on a run", [Run(command=f"$TRIREME {command}", codes=REFUSED, says=(says,), limit=30) for command, says in ON_A_RUN], start="done",
         setup=FOR_A_RUN, untouched=".", finish=""),
    Case("mistakes of the command line", [Run(command=f"$TRIREME {command}", codes=(2,)) for command in (
        "", "fly", "train", "train deck.toml --fly", "train deck.toml --overwrite --restart latest", "plan deck.toml --ranks x", "compare run", "tokenize text.txt --threads 0 --output x",
        "train deck.toml --restart ''", "generate run \u2013-prompt a --tokens 2", "export", "train deck.toml --restart run --or-start")], untouched=".", finish="", fast=True),
    Case("to a full device: compare", [Run(command=f"$TRIREME compare run other {more} >/dev/full", codes=(2,), says=("No space left on device",))
                                       for more in ("--no-replay", "--no-replay --json")],
         start="done", setup="cp -r run other; sed -i 's/^3,/3,9/' other/history.csv", finish="", fast=True),
    *(Case(name, [Run(command=f"$TRIREME {command}", codes=REFUSED, says=("loop",), silent=("please report", "unexpected"), limit=30) for command in commands], start="done",
           setup=FOR_A_RUN + "; ln -s loop loop", untouched=".", finish="", fast=fast)
      for name, commands, fast in (("loops of links", LOOPS, False), ("some loops of links", LOOPS[3::9], True))),
    # Its own option is wrong, a text may begin so: no key of a deck, no dash is meant.
    *(Case(f"no hint: {command}", [Run(command=f"$TRIREME {command}", codes=REFUSED, silent=("hint", "typographic"))], start="done", untouched=".", finish="")
      for command in ("generate run --prompt a --tokens 2 --seed abc", "generate none --prompt '\u2014tokens'")),
    Case("a plan of 80 bytes", [Run(command="exec $TRIREME plan deck.toml --device-memory 80 2>/dev/null", codes=REFUSED, silent=(".",))], untouched=".", finish=""),
    bad("option: train over a file of another's", "train deck.toml --run-dir other/thesis.txt", "thesis.txt", setup="mkdir other; echo mine > other/thesis.txt"),
    bad("check --verify and an id that is none", "check --verify deck.toml data.path=hurt.tokens", "hurt.tokens",
        setup="cp text.tokens hurt.tokens; printf '\\377\\377' | dd of=hurt.tokens bs=1 conv=notrunc seek=2000"),
    # Refused, or started as far as the system goes, which is not tried on everybody else's account.
    *(Case(f"option: {command} --threads 99999", [Run(command=f"$TRIREME {command} --threads 99999", faults="?thread * 20+ EAGAIN", codes=REFUSED,
                                                      says=("thread|Resource temporarily",))], start="done", untouched=".", finish="")
      for command in ("tokenize text.txt --output x.tokens", "generate run --prompt a --tokens 3")),
    *(Case(f"to a full device: {command}", [Run(command=f"$TRIREME {command} >/dev/full", codes=(1,), says=("No space left on device",))], start="done",
           untouched="run", finish="", fast=command == "version") for command in FULL),
    Case("to a full device: --help", [Run(command="$TRIREME --help >/dev/full", codes=(1,))], finish=""),
    *(Case(f"environment {variable}", [Run(command=f"{variable.split()[0]} $TRIREME train deck.toml --run-dir run {' '.join(variable.split()[1:])}", codes=REFUSED,
                                           says=(says,))], untouched=".", finish="") for variable, says in ENVIRONMENT),
    # What belongs to another program says how it is used here.
    Case("forms of other programs", [Run(command=f"$TRIREME {command}", codes=REFUSED, says=(says,)) for command, says in (
        ("check deck.yaml", "deck.yaml is not a deck: decks are TOML files"), ("inspect peft", "trireme import peft NEW --base"), ("inspect hf", "trireme import hf NEW`"),
        ("check deck.toml model.init_from=peft", "trireme import .*peft NEW --base"))],
        setup="mkdir peft hf; echo '{}' > peft/adapter_config.json; echo '{}' > hf/config.json; echo 'model:' > deck.yaml", untouched=".", finish="", fast=True),
    # On ranks: one message, and no rank stays.
    *(Case(f"on two ranks: {name}", [Run(command=f"$MPIEXEC -n 2 $TRIREME {command}", codes=REFUSED, says=(says,))], untouched=".", finish="", fast="deck" in name)
      for name, command, says in (("no deck", "train none.toml", "none.toml"), ("an override", "train deck.toml model.layers=two", "layers"),
                                  ("tokens", "train deck.toml data.path=none.tokens", "none.tokens"), ("an option", "train deck.toml --fly", "--fly"),
                                  ("a grid", "train deck.toml parallel.pipe=3", "pipe"), ("a restart", "train deck.toml --restart nowhere", "nowhere"),
                                  ("a time limit", "train deck.toml --time-limit soon", "time.limit"), ("a run directory", "train deck.toml --run-dir /proc/x", "/proc/x"))),
    Case("ranks with other arguments", [Run(command="$MPIEXEC -n 1 $TRIREME train deck.toml --run-dir a : -n 1 $TRIREME train deck.toml --run-dir b", codes=REFUSED,
                                            says=("(other|different) arguments",))], untouched=".", finish=""),
    Case("ranks in other folders", [Run(command="mkdir other; $MPIEXEC -n 1 $TRIREME train deck.toml data.path=$PWD/text.tokens : "
                                                "-n 1 -wdir $PWD/other $TRIREME train deck.toml data.path=$PWD/text.tokens")], finish=""),
    # Text files of others.
    *(bad(f"tokenize: JSON lines {name}", "tokenize bad.jsonl --field text --output x.tokens", "bad.jsonl", *says, setup=setup)
      for name, setup, says in (("with a fault in line 2", "printf '{\"text\": \"a\"}\\n{\"text\": \\n' > bad.jsonl", ("bad.jsonl:2",)),
                                ("without the field", "echo '{\"other\": 1}' > bad.jsonl", ("text",)), ("with a number", "echo '{\"text\": 1}' > bad.jsonl", ("text",)),
                                ("with an array", "echo '[1]' > bad.jsonl", ("object",)), ("with bytes that are no UTF-8", "printf '{\"text\": \"\\377\"}\\n' > bad.jsonl", ()),
                                ("that is a folder", "mkdir bad.jsonl", ()),
                                ("with a separator", "printf '{\"text\": \"a\"}\\n{\"text\": \"a\\\\u0000b\"}\\n' > bad.jsonl", (r'bad.jsonl:2: the separator 0 \("\\x00"\)',)),
                                ("in UTF-16", "printf '\\377\\376{\\0' > bad.jsonl", ("UTF-16", "iconv")),
                                ("nested deep", "python3 -c 'print(\"[\" * 200000)' > bad.jsonl", ()))),
    bad("tokenize: JSON lines on standard input", "tokenize - --output x.tokens < lines", "standard input is JSON lines", "--from jsonl", "--from text",
        setup="echo '{\"text\": \"a\"}' > lines"),
    bad("tokenize: to standard output", "tokenize text.txt --output -", "cannot be written to standard output"),
    good("tokenize: into the folder that is read", "tokenize texts --output texts/x.tokens", "1 document, 4 tokens", start="fresh", setup="mkdir texts; printf abc > texts/a.txt"),
    bad("report: to standard output", "report run -o -", "this command prints other text to standard output"),
    good("tokenize: separators that a text has", "tokenize numbers --output x.tokens --separator 10", "3 documents", setup="printf '1\\n\\n2\\n3\\n' > numbers"),
    good("generate: - is standard output", "generate run --prompts p.txt --tokens 3 --output - && [ ! -e ./- ]", '"prompt"', setup="echo a > p.txt"),
    # What looks odd and is right.
    *(good(name, command, *says, setup=setup) for name, command, says, setup in (
        ("a deck with Windows' line ends", "check deck.toml", (), "sed -i 's/$/\\r/' deck.toml"),
        ("a deck with a byte order mark", "check deck.toml", (), "sed -i '1s/^/\\xef\\xbb\\xbf/' deck.toml"),
        ("whole numbers with an exponent", "check deck.toml train.steps=1e3", (), ""),
        ("a variable in a text", "check deck.toml", (), "sed -i 's/\"text.tokens\"/\"${PWD}\\/text.tokens\"/' deck.toml"),
        ("an empty prompt", "generate run --prompt '' --tokens 3", (), ""), 
        ("help", "--help", ("train",), ""), ("help of train", "train --help", ("--restart",), ""))),
]
for case in CASES:
    case.known = KNOWN.pop(case.name, "")
if KNOWN:
    raise SystemExit(f"no case is called {', '.join(KNOWN)}")
