"""tokenize on several ranks: the bytes of one process, whatever a job was killed in or what its ranks see."""
import gzip
import json
import os
import random
import shutil
import subprocess
from pathlib import Path

from rows import FAIL, REFUSED, story

CASES = []
SCRIPTS = Path(__file__).resolve().parent.parent.parent / "jobscripts"
SIZE = "--part-size 2000B"
PARTS = ".x.tokens.parts"


def words(seed, n):
    draw = random.Random(seed)
    return " ".join("".join(draw.choices("abcdefgh\u00e9", k=draw.randint(1, 9))) for _ in range(n))


def lines(n, **fields):
    """Lines of JSON whose fields are functions of their number; some are blank."""
    return "".join(json.dumps({name: of(i) for name, of in fields.items()}) + ("\n \n" if i % 7 == 3 else "\n") for i in range(n))


def corpus(at):
    """Some files of each kind."""
    at.write("a.jsonl", lines(60, text=lambda i: words(i, i % 40)))
    at.write("b.txt", words("b", 3000).replace(" ", "\n", 40))
    for i in range(5):
        at.write(f"c{i}.txt", words(f"c{i}", 100 * i))
    (at / "d.jsonl.gz").write_bytes(gzip.compress(lines(40, text=lambda i: words(-i, 30)).encode()))
    inputs = "a.jsonl b.txt c0.txt c1.txt c2.txt c3.txt c4.txt d.jsonl.gz"
    if shutil.which("zstd"):
        at.write("e.jsonl", lines(30, text=lambda i: words(f"e{i}", 20)))
        subprocess.run(["zstd", "-q", "-f", "--rm", at / "e.jsonl"], check=True)
        inputs += " e.jsonl.zst"
    return inputs


def left(at):
    return [name for name in os.listdir(at.folder) if "parts" in name or "partial" in name]


def warnings(ended):
    return [line.partition(" warning ")[2] for line in ended.text.splitlines() if " warning " in line]


def same_on_ranks(at, command, ranks=(1, 2, 3, 4)):
    """The file of one process, and of these numbers of ranks."""
    alone = at(f"tokenize {command} -o want.tokens --overwrite")
    for n in ranks:
        several = at(f"tokenize {command} {SIZE} -o x.tokens --overwrite", ranks=n)
        assert warnings(several) == warnings(alone), several.text
        assert (at / "x.tokens").read_bytes() == (at / "want.tokens").read_bytes(), f"{command}: other bytes on {n} ranks"
        assert several.out.count("\n") == 1 and several.out.partition(" from ")[0].replace("x.tokens", "want.tokens") == alone.out.partition(" from ")[0], several.out
        assert not left(at), left(at)
    return alone


@story(CASES, fast=True)
def ranks_make_the_file_of_one_process(at):
    """texts, JSON lines and compressed files become the same file on 1, 2, 3 and 4 ranks"""
    inputs = corpus(at)
    same_on_ranks(at, inputs)


@story(CASES)
def ranks_make_other_forms(at):
    """masks, conversations, pairs, labeled answers and ids of other programs become the same file on several ranks"""
    inputs = corpus(at)
    same_on_ranks(at, f"{inputs} --tokenizer spm.model", ranks=(3,))
    same_on_ranks(at, f"{inputs} --separator none --threads 2", ranks=(2,))
    same_on_ranks(at, f"- {inputs} <a.jsonl --from text", ranks=(2,))
    at.write("m.jsonl", lines(50, prompt=lambda i: words(i, i % 30), completion=lambda i: words(-i, 1 + i % 3)))
    same_on_ranks(at, "m.jsonl --prompt prompt --completion completion", ranks=(2, 4))
    at.write("w.jsonl", lines(50, text=lambda i: words(i, i % 30), w=lambda i: i // 9))
    same_on_ranks(at, "w.jsonl --weight w", ranks=(2, 3))
    at.write("p.jsonl", lines(50, prompt=lambda i: words(i, i % 30), chosen=lambda i: "yes", rejected=lambda i: "yes" if i == 33 else "no"))
    assert "p.jsonl:39" in same_on_ranks(at, "p.jsonl --preference", ranks=(2, 3)).text  # behind 33 pairs and 5 blank lines
    at.write("l.jsonl", lines(50, prompt=lambda i: words(i, i % 30), completion=lambda i: words(-i, 3), label=lambda i: i % 3 == 0, source=lambda i: "web"))
    assert '"source" is not read' in same_on_ranks(at, "l.jsonl --labeled", ranks=(2, 3, 4)).text
    at.write("turns.jinja", "{% for m in messages %}{{ m.role[0] + ':' + m.content + ';' }}{% endfor %}{{ 'a:' if add_generation_prompt }}")
    at.write("t.jsonl", lines(40, messages=lambda i: [{"role": "user", "content": words(i, 20)}, {"role": "assistant", "content": words(-i, 5)}]))
    same_on_ranks(at, "t.jsonl --chat --template turns.jinja", ranks=(2,))
    (at / "ids.bin").write_bytes(bytes(range(200)) * 100)
    same_on_ranks(at, "ids.bin --from raw-u16", ranks=(2, 3))


@story(CASES, fast=("a rank",), each=("a rank", "the rank that joins the parts", "all ranks"))
def a_killed_job_continues(at, whom):
    """a job that is killed continues with what is finished"""
    inputs = corpus(at)
    at(f"tokenize {inputs} -o want.tokens")
    rule = {"a rank": "write *.part.writing* 8 torn @1", "the rank that joins the parts": "sync *.partial.* 1 SIGKILL @0", "all ranks": "rename *.part 4 SIGKILL"}[whom]
    at(f"tokenize {inputs} {SIZE} -o x.tokens", ranks=3, faults=rule, codes=FAIL)
    assert not (at / "x.tokens").exists() and (at / PARTS).is_dir()
    made = [p.name for p in (at / PARTS).glob("*.part")]
    assert made
    times = {name: (at / PARTS / name).stat().st_mtime_ns for name in made}
    # Another number of ranks has the same parts.
    at(f"tokenize {inputs} {SIZE} -o x.tokens", ranks=2, says=(f"continuing an earlier job: {len(made)} of [0-9]+ parts are finished",), faults="sync *.partial.* 1 SIGKILL @0", codes=FAIL)
    assert all((at / PARTS / name).stat().st_mtime_ns == time for name, time in times.items())
    assert not list((at / PARTS).glob("*writing*"))
    at(f"tokenize {inputs} {SIZE} -o x.tokens")
    assert (at / "x.tokens").read_bytes() == (at / "want.tokens").read_bytes() and not left(at)


@story(CASES, fast=("SIGTERM to the launcher",), each=("SIGTERM to the launcher", "SIGINT to all ranks", "SIGTERM to one rank"))
def a_stopped_job_says_so(at, what):
    """a signal ends all ranks with one message and the code 75, and the same command continues"""
    inputs = corpus(at)
    at(f"tokenize {inputs} -o want.tokens")
    name, _, whom = what.partition(" to ")
    whom = {"the launcher": "launcher", "all ranks": "all", "one rank": "rank 2"}[whom]
    at(f"tokenize {inputs} {SIZE} -o x.tokens", ranks=4, faults="rename *.part 2+ sleep:300", signals=((f"file {PARTS}/*.part", name, whom),), codes=(75,),
       once=(f"stopped by {name}. To resume, run the same command again", "the same command continues with [0-9]+ finished parts?"), silent=(" error ",))
    made = [p.name for p in (at / PARTS).glob("*.part")]
    assert made and left(at) == [PARTS] and not list((at / PARTS).glob("*writing*"))
    at(f"tokenize {inputs} {SIZE} -o x.tokens", ranks=4, says=(f"continuing an earlier job: {len(made)} of [0-9]+ parts are finished",))
    assert (at / "x.tokens").read_bytes() == (at / "want.tokens").read_bytes() and not left(at)


@story(CASES)
def a_job_that_writes_no_parts_stops(at):
    """while ids of other programs are converted, and while parts are joined, a signal ends the job, too"""
    (at / "ids.bin").write_bytes(bytes(range(200)) * 20000)
    slow = dict(ranks=2, codes=(75,), once=("stopped by SIGTERM. To resume",), silent=(" error ",))
    at("tokenize ids.bin --from raw-u16 -o x.tokens", faults="write *.partial.* 2+ sleep:1000", signals=(("file .x.tokens.partial.*", "SIGTERM", "all"),), **slow)
    assert not left(at) and not (at / "x.tokens").exists()
    inputs = corpus(at)
    at(f"tokenize {inputs} {SIZE} -o x.tokens", faults="write *.partial.* 1+ sleep:300", signals=(("file .x.tokens.partial.*", "SIGTERM", "all"),), **slow)
    assert left(at) == [PARTS]
    at(f"tokenize {inputs} {SIZE} -o x.tokens", ranks=2, says=("continuing an earlier job: ([0-9]+) of \\1 parts are finished",))


@story(CASES, fast=(4,), each=(1, 4))
def a_file_that_is_not_utf8(at, ranks):
    """a file that is not UTF-8 ends the job with its name and place, and the corrected job continues, also without the file"""
    for i in range(120):
        at.write(f"c{i:03}.txt", words(f"c{i}", 150))
    at.write("d.jsonl", lines(20, text=lambda i: words(i, 20)))
    good = {name: (at / name).read_bytes() for name in ("c077.txt", "d.jsonl")}
    command = f"tokenize 'c*.txt' d.jsonl {SIZE} -o x.tokens"
    (at / "c077.txt").write_bytes(b"Gr\xfc\xdfe,\nStra\xdfe\n" + good["c077.txt"].translate(None, "\u00e9".encode()))
    at(command, ranks=ranks, codes=(1,), once=("c077.txt is not UTF-8 in line 1, at byte 2, but probably ISO-8859-1",), says=("the same command continues with [0-9]+ finished parts?",))
    made = {p.name for p in (at / PARTS).glob("*.part")}
    (at / "c077.txt").write_bytes(good["c077.txt"])
    (at / "d.jsonl").write_bytes(good["d.jsonl"].replace(b'"text": "', b'"text": "\xfc', 5).replace(b"\xfc", b"", 4))
    at(command, ranks=ranks, codes=(1,), once=("d.jsonl:[0-9]+: this is not JSON",), says=("continuing an earlier job: [0-9]+ of",))
    now = {p.name for p in (at / PARTS).glob("*.part")}
    assert len(made - now) == 0 and len(now) > len(made), (len(made), len(now))
    # Without a file, most of the parts fit.
    (at / "d.jsonl").write_bytes(good["d.jsonl"])
    (at / "c020.txt").unlink()
    ended = at(command, ranks=ranks, says=("continuing an earlier job",))
    used = int(ended.text.partition("continuing an earlier job: ")[2].split()[0])
    assert used >= len(now) - 4, (used, len(now))
    at("tokenize 'c*.txt' d.jsonl -o want.tokens")
    assert (at / "x.tokens").read_bytes() == (at / "want.tokens").read_bytes() and not left(at)


@story(CASES)
def words_for_documents(at):
    """a warning about masks calls plain documents what they are"""
    at.write("w.jsonl", lines(200, text=lambda i: words(i, i % 30), w=lambda i: i % 2))
    at("tokenize w.jsonl --weight w -o text.tokens --overwrite")
    for command in ("check deck.toml", "train deck.toml --run-dir words"):
        at(command, says=("in the middle of a document, which|samples? .*start of their document. To train on whole documents",), silent=("conversation",))


@story(CASES)
def changes_between_jobs(at):
    """parts of other inputs, options or tokenizers are not used, and damaged parts are not trusted"""
    inputs = corpus(at)
    killed = dict(faults="sync *.partial.* 1 SIGKILL @0", codes=FAIL)

    def finished(more="", **rest):
        at(f"tokenize {inputs} {more} -o want.tokens --overwrite")
        at(f"tokenize {inputs} {SIZE} {more} -o x.tokens --overwrite", ranks=3, **rest)
        assert (at / "x.tokens").read_bytes() == (at / "want.tokens").read_bytes() and not left(at)

    at(f"tokenize {inputs} {SIZE} -o x.tokens", ranks=2, **killed)
    total = len(list((at / PARTS).glob("*.part")))
    kept = at / "kept"
    shutil.copytree(at / PARTS, kept)
    # The same size, other letters: the parts of this file alone are made again.
    at.write("c3.txt", at.read("c3.txt").translate(str.maketrans("ab", "ba")))
    finished(says=(f"continuing an earlier job: {total - 1} of {total} parts are finished",))
    for more in ("--separator none", "--tokenizer spm.model", "--field text --from jsonl"):
        if more.startswith("--field"):
            inputs = "a.jsonl d.jsonl.gz"
        shutil.copytree(kept, at / PARTS)
        finished(more, silent=("continuing",), says=("finished parts? of an earlier job in .* fit neither these options nor these inputs",))
    # A part whose end is missing is made again. One with other bytes ends the job, and the output that is there stays.
    inputs = corpus(at)
    at(f"tokenize {inputs} {SIZE} -o x.tokens --overwrite", ranks=2, **killed)
    parts = sorted((at / PARTS).glob("*.part"))
    os.truncate(parts[0], parts[0].stat().st_size - 1)
    finished(says=(f"{total - 1} of {total} parts",))
    before = (at / "x.tokens").read_bytes()
    at(f"tokenize {inputs} {SIZE} -o x.tokens --overwrite", ranks=2, **killed)
    largest = max((at / PARTS).glob("*.part"), key=lambda p: p.stat().st_size)  # with tokens in its middle
    whole = bytearray(largest.read_bytes())
    whole[len(whole) // 4] ^= 1
    largest.write_bytes(whole)
    at(f"tokenize {inputs} {SIZE} -o x.tokens --overwrite", ranks=2, codes=(1,), once=(f"{largest.name} is damaged: remove it",))
    assert (at / "x.tokens").read_bytes() == before and not [n for n in left(at) if "partial" in n]
    largest.unlink()
    finished(says=(f"{total - 1} of {total} parts",))


@story(CASES)
def disks_that_fail(at):
    """a full disk ends all ranks with one error, and the job continues when there is space"""
    inputs = corpus(at)
    at(f"tokenize {inputs} -o want.tokens")
    for rule, file in (("write *.part.writing* 8+ ENOSPC @1", r"parts/\w+\.part\.writing"), ("open *.part.writing* 2 EDQUOT @0", r"\.part\.writing"), ("sync *.part.writing* 2 EIO @1", r"\.part\.writing"),
                       ("rename *.part 1 EIO @1", r"\.part"), ("write *.partial.* 1+ ENOSPC @0", r"x\.tokens\.partial"), ("sync *.partial.* 1 EIO @0", r"x\.tokens\.partial")):
        at(f"tokenize {inputs} {SIZE} -o x.tokens", ranks=2, faults=rule, codes=(1,), once=(" error ",), says=(file, "the same command continues with [0-9]+ finished parts? in .x.tokens.parts"))
        assert not (at / "x.tokens").exists() and left(at) == [PARTS] and not list((at / PARTS).glob("*writing*"))
    at(f"tokenize {inputs} {SIZE} -o x.tokens", ranks=2)
    assert (at / "x.tokens").read_bytes() == (at / "want.tokens").read_bytes() and not left(at)


@story(CASES)
def errors_of_one_rank(at):
    """an error in the inputs is the one that a process would report, once, and all ranks end"""
    text = lines(60, text=lambda i: words(i, 30)).splitlines()
    text[41] = text[41][:-1] + ",]"
    at.write("a.jsonl", "\n".join(text) + "\n")
    alone = at("tokenize a.jsonl -o x.tokens", codes=(1,)).text.partition(" error ")[2]
    assert "a.jsonl:42:" in alone
    assert at(f"tokenize a.jsonl {SIZE} -o x.tokens", ranks=4, codes=(1,), once=(alone.strip()[:12],)).text.partition(" error ")[2].strip() == alone.strip()
    for command, says in (("none.txt", "there is no file none.txt"), ("text.txt --tokenizer none.model", "none.model"), ("text.txt --part-size 0", "give a size"),
                          ("text.txt --separator 300", "not in the vocabulary"), ("more.txt -o text.tokens", "it exists"), ("more.txt -o none/x.tokens", "does not exist")):
        output = "" if " -o " in command else "-o x.tokens"
        at(f"tokenize {command} {output}", ranks=3, codes=REFUSED, once=(" error ",), says=(says,))
    (at / "empty.jsonl").write_text("\n\n")
    at("tokenize empty.jsonl -o x.tokens", ranks=3, codes=(1,), once=(" error ",), says=("the inputs contain no tokens",))
    at("exec $MPIEXEC -n 1 $TRIREME tokenize text.txt -o x.tokens : -n 1 $TRIREME tokenize more.txt -o x.tokens", codes=FAIL, says=("rank 1 was started with different arguments",))
    assert not (at / "x.tokens").exists() and at("tokenize --show-template chatml", ranks=2).out == at("tokenize --show-template chatml").out


@story(CASES)
def nodes_with_other_files(at):
    """ranks that see other files, tokenizers or folders than rank 0 are refused"""
    at.write("a.txt", words("a", 3000))
    at.write("b.txt", words("b", 3000))
    (at / "elsewhere").mkdir()
    at.write("elsewhere/a.txt", at.read("a.txt"))
    line = f"$TRIREME tokenize a.txt /proc/self/cwd/b.txt {SIZE} -o {{}}x.tokens"
    other = "exec $MPIEXEC -n 1 {0} : -n 1 -wdir $PWD/elsewhere {0}"
    # The output of rank 1 is elsewhere.
    at(other.format(line.format("")), codes=(1,), once=(" error ",), says=("is not the folder that rank 0 has created",))
    assert not left(at)
    # Finished parts of an earlier job stay.
    (at / PARTS).mkdir()
    at.write(f"{PARTS}/0.part", "x")
    at(other.format(line.format("")), codes=(1,), says=("is not the folder that rank 0 has created",))
    assert (at / PARTS / "0.part").exists()
    shutil.rmtree(at / PARTS)
    absolute = line.format(f"{at.folder}/")
    for text, says in ((at.read("b.txt") + "x", "b.txt has [0-9]+ bytes, but had [0-9]+ bytes when rank 0 listed"), (at.read("b.txt"), "b.txt has another modification time")):
        at.write("elsewhere/b.txt", text)
        os.utime(at / "elsewhere/a.txt", ns=(0, (at / "a.txt").stat().st_mtime_ns))
        at(other.format(absolute), codes=(1,), once=(" error ",), says=(says,))
    (at / "elsewhere/b.txt").unlink()
    at(other.format(absolute), codes=(1,), once=(" error ",), says=("cannot open /proc/self/cwd/b.txt",))
    shutil.copy2(at / "b.txt", at / "elsewhere/b.txt")
    shutil.copy2(at / "a.txt", at / "elsewhere/a.txt")
    shutil.rmtree(at / PARTS, ignore_errors=True)
    at(other.format(absolute))
    at("tokenize a.txt b.txt -o want.tokens")
    assert (at / "x.tokens").read_bytes() == (at / "want.tokens").read_bytes()
    # The tokenizers of two nodes.
    shutil.copy(at / "spm.model", at / "elsewhere/spm.model")
    with open(at / "elsewhere/spm.model", "ab") as model:
        model.write(b"\x1a\x00")  # another message of the same model
    at(other.format(absolute + " --overwrite --tokenizer /proc/self/cwd/spm.model"), codes=REFUSED, once=(" error ",), says=("rank 1",))
    # Another job.
    (at / PARTS).mkdir()
    at(f"touch {PARTS}/lock; exec flock {PARTS}/lock $MPIEXEC -n 2 $TRIREME tokenize a.txt {SIZE} -o x.tokens --overwrite", codes=(1,), once=(" error ",),
       says=("another job writes x.tokens",))


@story(CASES)
def job_script(at):
    """the job script passes its arguments to all ranks, and its code to Slurm"""
    at.write_script("srun", "echo \"srun $*; threads $SRUN_CPUS_PER_TASK $SLURM_EXPORT_ENV\" >> calls\nwhile [[ $1 == --* ]]; do shift; done\nexec $MPIEXEC -n 2 \"$@\"")
    start = f"export PATH=$PWD:$PATH SLURM_CPUS_PER_TASK=3; exec bash {SCRIPTS}/tokenize.sbatch"
    at(f": $TRIREME; {start} text.txt 'mor*.txt' --output 'a b.tokens'")
    at("tokenize text.txt more.txt -o want.tokens")
    assert (at / "a b.tokens").read_bytes() == (at / "want.tokens").read_bytes()
    assert at.read("calls") == f"srun --mpi=pmi2 --kill-on-bad-exit=1 {at.workshop.program} tokenize text.txt mor*.txt --output a b.tokens; threads 3 ALL\n"
    at(f": $TRIREME; {start} none.txt -o x.tokens", codes=FAIL, says=("there is no file none.txt",))
