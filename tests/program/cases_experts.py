"""What reads a mixture's run: comparisons of grids, files of other programs, reports; and what --overwrite leaves of it."""
import re

from fixture import EXACT, MIXTURE, SIGMOID
from rows import Case, Run, story

DENSE = "exec $TRIREME train deck.toml --overwrite --run-dir run"

CASES = [
    Case("a run of another model overwrites it", [Run(command=DENSE, then="! ls run | grep routing")], start="done", config="mixture",
         setup="cp run/routing.csv run/routing.csv.damaged", finish="", fast=True),
    Case("it overwrites itself", [Run("--overwrite", then="[ $(wc -l < run/routing.csv) = 13 ]")], start="done", config="mixture", finish_says=("the run is finished",)),
    Case("another run goes on from it", [Run(command="exec $TRIREME train deck.toml --restart run --run-dir other train.steps=14 " + MIXTURE,
                                             then='[ "$(cut -d, -f1 other/routing.csv | tr "\\n" " ")" = "step 13 14 " ]')], start="done", config="mixture", finish=""),
    Case("guards of memory change no bit", [Run("run.guards=true")], config="mixture-expert2"),
    Case("a save at once is one behind training", [Run("checkpoint.async=false")], config="sigmoid-expert2"),
    Case("labels of collectives are compared", [Run("run.debug=true")], config="mixture-expert2"),
    Case("steps are replayed", [Run("run.replay_every=2 run.digest_every=1")], config="sigmoid-expert2"),
]


def trained(at, model, more=""):
    """On one rank, and with experts over two."""
    base = f"train deck.toml {model} {more} train.steps=4 train.microbatch=1 run.digest_every=1 run.log_every=0 checkpoint.every_steps=2 --run-dir"
    at(f"{base} one")
    at(f"{base} two parallel.expert=2 zero.stage=3", ranks=2)


@story(CASES, fast=True)
def equal(at):
    """runs of two grids are equal where bits are promised"""
    trained(at, MIXTURE, EXACT)
    assert "verdict: equal in everything that both have recorded" in at("compare one two").out


@story(CASES, each=("sample", "bias"))
def near(at, balance):
    """runs of two grids differ by rounding alone, those that are balanced otherwise do not"""
    model, key = {"sample": (MIXTURE, "balance_weight"), "bias": (SIGMOID, "balance_rate")}[balance]
    trained(at, model)
    said = at("compare one two").out
    assert "parallel.expert: 1 -> 2" in said and "verdict: they differ by rounding" in said
    at(f"train deck.toml {model} train.{key}=0.1 train.steps=4 train.microbatch=1 run.digest_every=1 run.log_every=0 checkpoint.every_steps=2 --run-dir other")
    assert "verdict: they differ\n" in at("compare one other", codes=(1,)).out


@story(CASES, fast=True)
def readers(at):
    """a grid's checkpoint is exported, repaired and reported"""
    at.take("grid-experts")
    assert "Qwen2MoeForCausalLM" in at("export run hf").text
    at("import hf back")
    assert at("generate back --prompt the --tokens 8 --temperature 0").out == at("generate run --prompt the --tokens 8 --temperature 0").out
    at("export run model.h5 --format hdf5")
    assert (at / "model.h5").stat().st_size > (at / "hf/model.safetensors").stat().st_size // 2
    at("report run -o run.html")
    assert re.search(r'"least_load":\{"step":\[1,2,3', at.read("run.html"))
    last = "run/checkpoints/step-00000012"
    (at / last / "manifest.json").unlink()
    at(f"inspect {last} --repair")
    at(f"inspect {last} --verify", says=("intact, every hash is right",))
