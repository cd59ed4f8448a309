"""Little memory, few descriptors, odd environments, odd names: the run works, or says what it lacks."""
from rows import ANY, Case, Run

REFUSED = tuple(range(1, 124))
RANKS = "exec $MPIEXEC -n 2 $TRIREME train deck.toml --run-dir run"
BAR = r"\x1b\[K\[####"
TRAIN = "exec $TRIREME train deck.toml --run-dir run"


def limited(name, limit, config="one", codes=(0, 1), says=(), **rest):
    return Case(name, [Run(command=f"{limit}; {TRAIN}", codes=codes, says=says)], config=config, **rest)


def works(name, command, setup="", finish="", after="", says=(), **rest):
    return Case(name, [Run(command=command, says=says)], setup=setup, finish=finish, after=after, **rest)


ODD = {"a space": "a b", "quotes": "a'b\"c", "a dollar": "a$b", "a backslash": "a\\b", "an umlaut": "\u00e4", "a newline": "a\nb", "a percent": "a%s%n", "braces": "a{}b",
       "a star": "a*b", "a leading dash": "./-a", "a colon": "a:b", "bytes that are no UTF-8": "$(printf 'a\\377b')", "200 letters": "a" * 200, "many levels": "a/b/c/d/e/f"}


# (command, the file that it writes, before it, start)
WRITERS = [("tokenize more.txt --output new", "", "", "fresh"), ("export run new", "model.safetensors", "", "done"),
           ("import hf new", "rank-00000.h5", "$TRIREME export run hf", "done"), ("report run -o new", "", "", "done")]


def quoted(name):
    return name.replace("\\", "\\\\").replace('"', '\\"').replace("$b", "\\$b")


CASES = [
    # Memory, in kB of address space: enough, or too little at some point.
    *(limited(f"{kb} kB of memory", f"ulimit -v {kb}", codes=(0, *REFUSED, 127), fast=kb == 2_000_000)  # 127: of the loader
      for kb in (60_000, 100_000, 150_000, 200_000, 250_000, 300_000, 400_000, 500_000, 700_000, 1_000_000, 2_000_000)),
    *(limited(f"{n} descriptors", f"ulimit -n {n}", codes=(0, *REFUSED)) for n in (8, 12, 24, 32, 64)),
    *(limited(f"a stack of {kb} kB", f"ulimit -s {kb}", codes=(0,)) for kb in (512, 2048)),
    Case("files of at most 1 kB: MPI's", [Run(command="ulimit -f 1; exec $TRIREME train deck.toml --run-dir run", codes=(1,), once=("MPI needs larger files than `ulimit -f` allows",))],
         finish="", fast=True),
    *(limited(f"files of at most {kb} kB", f"ulimit -f {kb}", codes=ANY) for kb in (1, 8, 40, 120)),
    limited("no core files", "ulimit -c 0", codes=(0,)),
    limited("a umask of 077", "umask 077", codes=(0,)),
    # The environment.
    works("an empty environment", "exec env -i $TRIREME train deck.toml --run-dir run", finish="bits"),
    works("no home", "unset HOME USER LOGNAME; " + TRAIN, finish="bits"),
    works("another language", "LC_ALL=de_DE.UTF-8 LANG=de_DE.UTF-8 " + TRAIN[5:], finish="bits"),
    works("a language that is none", "LC_ALL=xx " + TRAIN[5:], finish="bits"),
    works("another time zone", "TZ=Asia/Kathmandu " + TRAIN[5:], finish="bits"),
    works("a folder for temporary files that is none", "TMPDIR=/nowhere " + TRAIN[5:], finish="bits"),
    works("more threads than cores", "OMP_NUM_THREADS=32 $TRIREME train deck.toml run.threads=auto --run-dir run", after="$TRIREME inspect run --verify"),
    works("nice", "nice -n 19 $TRIREME train deck.toml --run-dir run", finish="bits"),
    works("in the background of a shell that ends", "($TRIREME train deck.toml --run-dir run >/dev/null 2>&1 &) ; until grep -q done run/outcome.json 2>/dev/null; do sleep 0.05; done",
          finish="bits"),
    Case("the working directory is removed", [Run(command="mkdir gone; cd gone; rmdir ../gone; exec $TRIREME train ../deck.toml", codes=REFUSED)], finish=""),
    Case("the working directory is removed while it runs", [Run(
        command='mkdir work; cp deck.toml text.tokens work; cd work; exec $TRIREME train deck.toml --run-dir ../run', faults="write */run/history.csv 1+ sleep:30",
        signals=(("row 3", "shell", "rm -r work"),), codes=(0, *REFUSED))]),
    # Names.
    *(works(f"a run directory with {what}", f'$TRIREME train deck.toml --run-dir "{quoted(name)}" && $TRIREME train deck.toml --run-dir "{quoted(name)}" --restart latest '
            f'&& $TRIREME inspect "{quoted(name)}" --verify', says=("the run is finished",), fast=what == "a newline") for what, name in ODD.items()),
    *(works(f"a deck with {what} in its name", f'cp deck.toml "{quoted(name)}.toml"; exec $TRIREME train "{quoted(name)}.toml" --run-dir run', finish="bits")
      for what, name in ODD.items() if what != "many levels"),
    *(works(f"a token file with {what} in its name",
            f'cp text.tokens "{quoted(name)}.tokens"; exec $TRIREME train deck.toml data.path="{quoted(name)}.tokens" --run-dir run')
      for what, name in ODD.items() if what in ("a space", "an umlaut", "a percent", "a colon", "a star", "200 letters")),
    *(works(f"a text with {what} in its name", f'cp text.txt "{quoted(name)}.txt"; $TRIREME tokenize "{quoted(name)}.txt" --output again.tokens && cmp again.tokens text.tokens')
      for what, name in ODD.items() if what not in ("many levels", "a star")),
    # The progress line: where stderr is a terminal, which is none of a launcher's ranks, or where it is asked for.
    *(Case(f"on a terminal: {name}", [Run(command=command, terminal=True, says=says, silent=silent)], finish="", fast=True)
      for says, silent, commands in (((BAR, "lr ", "left"), (), (("one rank", TRAIN), ("two ranks that are asked to", f"{RANKS} --progress yes"))),
                                     (("step 12",), (r"\x1b\[K",), (("one rank that is asked not to", f"{TRAIN} --progress no"), ("into a pipe", f"{TRAIN[5:]} 2>&1 | cat"),
                                                                    ("two ranks", RANKS))))
      for name, command in commands),
    # What commands that write a file leave: nothing when a signal ends them, and what SIGKILL leaves the next start removes.
    *(Case(f"{command.split()[0]} is ended by {s}", [Run(command=f"exec $TRIREME {command}", faults=f"sync *.partial.*{file} 1 {s}; sync *.partial.*{file} 1 sleep:1000", codes=(code,),
                                                 then="! ls -A | grep partial && [ ! -e new ]")],
           setup=setup, start=start, finish="", fast=s == "SIGTERM")
      for command, file, setup, start in WRITERS for s, code in (("SIGTERM", 143), ("SIGINT", 130), ("SIGHUP", 129))),
    *(Case(f"{command.split()[0]} is killed, and starts again",
           [Run(command=f"exec $TRIREME {command}", faults=f"sync *.partial.*{file} 1 SIGKILL", codes=(137,), then="ls -A | grep partial"),
            Run(command=f"$TRIREME {command}", says=("removed .*partial.*, left by a process that died",), then="! ls -A | grep partial && [ -e new ]")],
           setup=setup, start=start, finish="", fast=True) for command, file, setup, start in WRITERS),
    # What `tokenize` leaves when it is killed: the file that was there, whole.
    *(Case(f"tokenize is killed {name}", [Run(command="exec $TRIREME tokenize more.txt --overwrite --output text.tokens", faults=rule, codes=(137,),
                                             then="cmp text.tokens ../../data/text.tokens; $TRIREME tokenize more.txt --output new.tokens; cmp new.tokens more.tokens")])
      for name, rule in (("at its input", "read *more.txt 1 SIGKILL"), ("at its output", "open *text.tokens* 1 then:SIGKILL"), ("in its output", "write *text.tokens* 1 torn"),
                         ("before its output is synced", "sync *text.tokens* 1 SIGKILL"), ("before its output gets its name", "rename *text.tokens 1 SIGKILL"))),
    *(Case(f"tokenize gets {s}", [Run(command="exec $TRIREME tokenize more.txt --overwrite --output text.tokens", faults=f"write *text.tokens* 1 {s}", codes=ANY,
                                     then="cmp text.tokens ../../data/text.tokens || cmp text.tokens more.tokens; cp ../../data/text.tokens .")])
      for s in ("SIGTERM", "SIGINT", "SIGHUP")),
    *(Case(f"tokenize, files of at most {kb} kB", [Run(command=f"ulimit -f {kb}; exec $TRIREME tokenize more.txt --overwrite --output text.tokens", codes=REFUSED,
                                                      says=("File too large",), then="cmp text.tokens ../../data/text.tokens; ! ls -A | grep -E 'tokens.+'")])
      for kb in (1, 2)),
    *(Case(f"tokenize into {what}", [Run(command=f"exec $TRIREME tokenize more.txt --output {path}", codes=REFUSED, says=(path,), then=then)],
           setup="mkdir folder", finish="")
      for what, path, then in (("a folder", "./folder", "[ -d folder ]"),)),
    *(Case(f"tokenize into {what}", [Run(command=f"exec $TRIREME tokenize more.txt --output {path}", codes=REFUSED, says=(path,), then=then)],
           setup="mkfifo pipe", finish="")
      for what, path, then in (("a pipe", "./pipe", "[ -p pipe ]"),)),
]
