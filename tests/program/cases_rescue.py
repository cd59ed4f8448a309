"""Memory copies, and `trireme rescue`: a job that died continues from the memory of its nodes, and ends with the bits of an undisturbed run."""
from pathlib import Path

from reading import Failed
from rows import FAIL, Run, story

CASES = []
COPIES = "checkpoint.every_steps=100 checkpoint.memory_every=3"
SLOW = "write */run/history.csv 1+ sleep:40"  # steps that leave time for a copy
DIES = f"{SLOW}; write */run/history.csv 9 SIGKILL"
RESCUED = r"rescued step [36]\n"  # on a busy machine the copy of step 6 may not have been complete


def on_nodes(nodes, command):
    """The nodes of the ranks, each with a memory of its own."""
    return f'export TRIREME_MEMORY_DIR="$PWD/memory" TRIREME_TEST_NODES={nodes}; {command}'


def train(at, nodes, config, more=COPIES, **rest):
    return at(on_nodes(nodes, at.line(Run(more, config=config))), **rest)


def killed(at, nodes="a,b", config="exact-data2", faults=DIES, **rest):
    train(at, nodes, config, faults=faults, codes=FAIL, **rest)


def rescue(at, nodes, says=RESCUED, **rest):
    return at(on_nodes(nodes, f"exec $MPIEXEC -n {nodes.count(',') + 1} $TRIREME rescue run"), says=(says,), **rest)


def go_on(at, nodes="a,b", config="exact-data2", like="exact-data2", restarts=True):
    train(at, nodes, config, f"{COPIES} --restart latest --or-start", says=("restarting from",) if restarts else ())
    at.take(like, run="whole")
    at.same("run", "whole")
    assert not files_in(at / "memory"), files_in(at / "memory")


def files_in(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def copy_of(at, node, name):
    found = sorted(at.folder.glob(f"memory/{node}/trireme-*/local/*/*/*/step-*/{name}"))
    assert found, files_in(at / "memory")
    return found[-1]


def flip_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@story(CASES, fast=True)
def both(at):
    """ranks on two nodes die, and a rescue on both makes a checkpoint"""
    killed(at)
    for node in ("a", "b"):  # each has the shards of both
        assert {copy_of(at, node, f"rank-0000{r}.h5").parent.name for r in (0, 1)} == {copy_of(at, node, "copy.json").parent.name}
    ended = rescue(at, "a,b")
    step = int(ended.out.split()[-1])
    at("inspect run --verify")
    assert at.meta("run", step)["step"] == step
    outcome = at.json("run/outcome.json")  # names the checkpoint of the rescue, and otherwise describes the start that died
    assert (outcome["status"], outcome["step"], Path(outcome["last_good_checkpoint"]).name) == ("running", step, f"step-0000000{step}"), outcome
    rescue(at, "a,b", f"nothing to rescue: the checkpoint of step {step} on disk is as new")
    go_on(at)


@story(CASES, fast=("a",), each=("a", "b"))
def lost(at, node):
    """one of two nodes is lost, and the run continues on the other node: the remaining node is"""
    killed(at)
    at.shell(f"rm -r memory/{'b' if node == 'a' else 'a'}")
    rescue(at, node)
    go_on(at, node, "exact")


@story(CASES)
def replaced(at):
    """one of two nodes is lost, and a new one without copies takes its place"""
    killed(at)
    at.shell("rm -r memory/a")
    rescue(at, "c,b")
    go_on(at, "c,b")


@story(CASES)
def alone(at):
    """a process on one node dies, and its node's own copy is enough"""
    train(at, "a", "exact", faults=DIES, codes=(137,))
    at(on_nodes("a", "exec $TRIREME rescue run"), says=(RESCUED,))
    go_on(at, "a", "exact", like="exact")


@story(CASES, each=("exact-axes on a,a,b,b", "exact-axes on a,b,a,b", "exact-mixture-expert2 on a,b,c,d", "exact-mixture-expert4 on a,a,a,b"))
def grids(at, case):
    """a node of a grid of four ranks is lost"""
    config, nodes = case.split(" on ")
    killed(at, nodes, config)
    at.shell("rm -r memory/b")
    rescue(at, ",".join(sorted(set(nodes.split(",")) - {"b"})))
    go_on(at, nodes, config, like=config)


@story(CASES)
def adapters(at):
    """a node of a run that trains adapters is lost, and the base model is not in the copies"""
    at.take("one", run="base")
    more = f"{COPIES} model.init_from=base adapter.rank=2"
    killed(at, more=more)
    assert copy_of(at, "b", "rank-00000.h5").stat().st_size < next((at / "base/checkpoints").glob("step-*/rank-00000.h5")).stat().st_size
    at.shell("rm -r memory/a")
    rescue(at, "b")
    train(at, "a,b", "exact-data2", f"{more} --restart latest", says=("restarting from",))
    at.train(more.replace(" checkpoint.memory_every=3", ""), config="exact-data2", run="whole")
    at.same("run", "whole")


@story(CASES)
def flipped(at):
    """a copy with a flipped bit is not used, and its other copy is"""
    killed(at)
    flip_bit(copy_of(at, "a", "rank-00000.h5"))
    flip_bit(copy_of(at, "b", "rank-00001.h5"))
    flip_bit(copy_of(at, "a", "copy.json"))
    rescue(at, "a,b")
    go_on(at)


@story(CASES)
def flipped_twice(at):
    """a shard without an intact copy is not rescued, and the reason names it"""
    killed(at)
    for node in ("a", "b"):
        flip_bit(copy_of(at, node, "rank-00001.h5"))
    rescue(at, "a,b", r"nothing to rescue: no process has an intact copy of rank-00001.h5 of step [36]\. A restart uses the newest checkpoint on disk")
    assert not list((at / "run/checkpoints").iterdir())
    go_on(at, restarts=False)


@story(CASES)
def gone(at):
    """copies that are gone from all nodes are not rescued, and the run continues from disk"""
    train(at, "a,b", "exact-data2", "checkpoint.memory_every=3 checkpoint.async=false", faults=f"{SLOW}; write */run/history.csv 7 SIGKILL", codes=FAIL)
    at.shell("rm -r memory")
    rescue(at, "a,b", "nothing to rescue: no memory copy of the run is in ")
    train(at, "a,b", "exact-data2", "--restart latest", says=("restarting from .*step-00000004",))
    at.take("exact-data2", run="whole")
    at.same("run", "whole")


@story(CASES)
def older(at):
    """copies that are older than the newest checkpoint on disk are not rescued, but they are if it is damaged"""
    train(at, "a,b", "exact-data2", "checkpoint.memory_every=3 checkpoint.async=false", faults=DIES, codes=FAIL)
    rescue(at, "a,b", "nothing to rescue: the checkpoint of step 8 on disk is as new as the newest memory copy, of step [36]")
    flip_bit(at / "run/checkpoints/step-00000008/rank-00000.h5")
    rescue(at, "a,b")
    train(at, "a,b", "exact-data2", "checkpoint.memory_every=3 --restart latest", says=("skipped: .*step-00000008",))
    at.take("exact-data2", run="whole")
    at.same("run", "whole")


@story(CASES)
def other_start(at):
    """copies of an earlier start are never used"""
    killed(at)
    killed(at, faults="write */run/history.csv 2 SIGKILL", more=COPIES + " --overwrite")
    rescue(at, "a,b", "nothing to rescue: no memory copy of the run is in ")
    go_on(at, restarts=False)


@story(CASES, each=("write */memory/*00006.partial/rank-00000.h5 3 SIGKILL @0", "write */memory/*00006.partial/copy.json 1 torn @1",
                    "rename */memory/*/step-00000006 1 SIGKILL @0", "rename */memory/*/step-00000006 1 then:SIGKILL @1",
                    "rename */memory/*/.spare 1 SIGKILL @0"))
def in_a_copy(at, fault):
    """a rank dies while it writes a copy, and the newest whole one is used"""
    killed(at, faults=f"{SLOW}; {fault}")
    rescue(at, "a,b")
    go_on(at)


@story(CASES, each=("rename */memory/*/.step-00000006.partial 1 then:SIGKILL @0", "write */memory/*00006.partial/rank-00000.h5 3 SIGKILL @0",
                    "rename */memory/*/step-00000006 1 SIGKILL @1"))
def over_an_older_copy(at, fault):
    """a rank dies while it writes a copy over the copy before the newest, and the newest is used"""
    killed(at, more=COPIES.replace("every=3", "every=2"), faults=f"{SLOW.replace('40', '150')}; {fault}")
    rescue(at, "a,b", r"rescued step [246]\n")
    go_on(at)


@story(CASES)
def beside_a_checkpoint(at):
    """copies are made while a checkpoint is being written"""
    killed(at, more="checkpoint.every_steps=4 checkpoint.memory_every=1",
           faults=f"{SLOW.replace('40', '150')}; write *run/checkpoints/*/rank-00000.h5 1 sleep:60000; write */run/history.csv 8 SIGKILL")
    assert not list((at / "run/checkpoints").glob("step-*"))
    rescue(at, "a,b", r"rescued step [567]\n")
    go_on(at)


@story(CASES)
def from_a_copy(at):
    """a checkpoint that is written from a memory copy is like any other"""
    killed(at, more="checkpoint.every_steps=4 checkpoint.memory_every=3", faults=f"{SLOW}; write */run/history.csv 11 SIGKILL")
    at.shell("rm -r memory")
    at("inspect run --verify")
    train(at, "a,b", "exact-data2", "checkpoint.memory_every=3 --restart latest", says=("restarting from .*step-0000000[48]",))
    at.take("exact-data2", run="whole")
    at.same("run", "whole")


@story(CASES, each=("open *run/lock 1 then:SIGKILL @0", "write *run/checkpoints/*.partial/rank-00001.h5 1 torn", "write *run/checkpoints/*.partial/manifest.json 1 torn",
                    "rename *run/checkpoints/step-0000000* 1 SIGKILL"))
def in_a_rescue(at, fault):
    """a rescue dies, and the next one succeeds"""
    killed(at)
    at(on_nodes("a,b", "exec $MPIEXEC -n 2 $TRIREME rescue run"), faults=fault, codes=FAIL)
    rescue(at, "a,b")
    go_on(at)


@story(CASES)
def full_disk(at):
    """a rescue that finds the disk full fails, and leaves the copies"""
    killed(at)
    at(on_nodes("a,b", "exec $MPIEXEC -n 2 $TRIREME rescue run"), faults="write *run/checkpoints/*.partial/rank-00000.h5 1 ENOSPC", codes=(1,),
       says=("No space left on device",))
    assert not list((at / "run/checkpoints").iterdir())
    rescue(at, "a,b")
    go_on(at)


@story(CASES, each=("0", "1"))
def full_memory(at, rank):
    """full memory of a rank drops a copy with a warning, and keeps the older one"""
    fault = f"write */memory/*00006.partial/rank-0000{rank}.h5 2 ENOSPC @{rank}"
    killed(at, faults=f"{SLOW}; {fault}; write */run/history.csv 9 SIGKILL", says=("step 6: no memory copy was made: .*No space left on device.*The copy of step 3 remains",))
    rescue(at, "a,b", r"rescued step 3\n")
    go_on(at)


def mounted(at, mounts, config, more, nodes="", environment="", **rest):
    """Trains with file systems of its own. `mounts` is in bash. Returns False and does nothing if this system allows no mounts."""
    line = at.line(Run(more, config=config)).replace("'", "")
    try:
        at.shell("mkdir -p memory/a memory/b; unshare -Urm mount -t tmpfs none memory")
    except Failed:
        return False
    at(f"export TRIREME_MEMORY_DIR=$PWD/memory TRIREME_TEST_NODES={nodes} {environment}; exec unshare -Urm bash -c '{mounts}; {line}'", **rest)
    return True


@story(CASES)
def small_memory(at):
    """a run whose copies do not fit into the memory fails before it begins, unless it continues after a failure"""
    small, needs = "mount -t tmpfs -o size=2m none memory", "checkpoint.memory_every needs .*iB in .*iB are free"
    if not mounted(at, small, "exact", COPIES, codes=(1,), says=(f"error {needs}",)):
        return
    assert not (at / "run/history.csv").exists()
    mounted(at, small, "exact", COPIES, environment="TRIREME_RECOVERY=1", says=(f"warning {needs}",))
    at.take("exact", run="whole")
    at.same("run", "whole")


@story(CASES, fast=True)
def shared_memory(at):
    """two nodes that share a memory file system need twice the memory of nodes that do not, which is checked before the run begins"""
    # Each node needs two copies of two shards, and each shard takes a little more than 4 MB.
    each = "for n in a b; do mount -t tmpfs -o size=24m none memory/$n; done"
    one = "mount -t tmpfs -o size=24m none memory"
    mounted(at, one, "exact-data2", COPIES, "a,b", codes=(1,), says=(r"checkpoint.memory_every needs 3[123]\.\d MiB in .*, but only 2[34]\.\d MiB are free",))
    assert not (at / "run/history.csv").exists()
    mounted(at, each, "exact-data2", COPIES, "a,b")
    mounted(at, one.replace("24m", "40m"), "exact-data2", f"{COPIES} --overwrite", "a,b")


@story(CASES, each=("60 MiB, and the GPU as much", "72 MiB, and the GPU as much", "90 MiB, without a GPU", "120 MiB, without a GPU"))
def memory_of_a_node(at, size):
    """memory copies take the memory of the node, and none of a GPU, whose memory is another one: the node has"""
    # Copies and snapshots take 68 MiB. The rest of the run takes 42 MiB, which are of the GPU if there is one.
    refusal = {"60": "checkpoint.memory_every needs .* and .*iB for the snapshots .*, but the job has only 60.0 MiB of memory there",
               "90": "this run would reserve 0.10 GiB, and .* has 0.09 GiB: set checkpoint.async = false and checkpoint.memory_every = 0"}.get(size.split()[0])
    # The program takes this limit as the memory of the node, and the fenced backend also as that of its GPU.
    limit = ("mount -t tmpfs none memory; mount -t tmpfs none /sys/fs/cgroup; mkdir -p /sys/fs/cgroup/memory; "
             f"echo $(({size.split()[0]} << 20)) | tee /sys/fs/cgroup/memory.max > /sys/fs/cgroup/memory/memory.limit_in_bytes")
    more = "checkpoint.every_steps=100 checkpoint.memory_every=1 model.width=128 model.heads=4 model.layers=8 train.steps=1"
    device = "run.backend=host" if "without" in size else "run.backend=fenced run.device_headroom=0.001"
    mounted(at, limit, "one", f"{more} {device}", codes=(1,) if refusal else (0,), says=(refusal,) if refusal else ())


@story(CASES)
def ended(at):
    """a run that ends by itself removes its copies, and keeps no trace of them"""
    train(at, "a,b", "exact-data2", faults=SLOW)
    assert not files_in(at / "memory")
    assert not (at / "run/memory_copies.json").exists()
    at.take("exact-data2", run="whole")
    at.same("run", "whole")
    rescue(at, "a,b", "nothing to rescue: the run keeps no memory copies")


@story(CASES)
def stopped(at):
    """a run that is stopped removes its copies, because it saves a checkpoint"""
    train(at, "a,b", "exact-data2", faults=f"{SLOW}; write */run/history.csv 7 SIGTERM", codes=(75,))
    assert not files_in(at / "memory")
    go_on(at)


@story(CASES)
def own_error(at):
    """a run that ends with an error keeps a copy that is newer than its checkpoints, and a restart without a rescue warns of it"""
    faults = f"{SLOW}; write */run/history.csv 9 ENOSPC"
    train(at, "a,b", "exact-data2", faults=faults, codes=(1,), says=(r"the memory copy of step [36] remains. `trireme rescue ",))
    at.shell("cp -r run kept; cp -r memory kept-memory")
    train(at, "a,b", "exact-data2", f"{COPIES} --restart latest --or-start", says=(r"the memory copy of step [36] of an earlier start is removed, because the run continues from step 0",))
    at.shell("rm -r run memory; mv kept run; mv kept-memory memory")
    rescue(at, "a,b")
    go_on(at)
    train(at, "a,b", "exact-data2", f"{COPIES.replace('=100', '=4')} --overwrite", faults=faults, codes=(1,), silent=("remains. `trireme rescue",))
    assert not files_in(at / "memory")


@story(CASES)
def alive(at):
    """the copies of a run that still trains are not rescued"""
    train(at, "a,b", "exact-data2", faults=SLOW.replace("40", "600"), signals=(
        ("row 6", "shell", "! $TRIREME rescue run 2> refusal && grep -q 'another process is training' refusal"),))
    at.take("exact-data2", run="whole")
    at.same("run", "whole")


@story(CASES)
def no_run(at):
    """a directory without a run is refused, and a run without copies has nothing to rescue"""
    at("rescue nowhere", codes=(1,), says=("nowhere is not a run directory",))
    at.take("one")
    at("rescue run", says=("nothing to rescue: the run keeps no memory copies",))
