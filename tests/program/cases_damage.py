"""Files that are not what was written: of checkpoints, tables, token files. Damage is named and passed over, or refused."""
from rows import Case, Run

FAILED = (1,)
INSPECTED = (1,)  # it shows an older one, and says that something is damaged
LAST, OLDER = "run/checkpoints/step-00000008", "run/checkpoints/step-00000004"  # of a run that was killed after step 10
HALF = "$(( $(stat -c %s $f) / 2 ))"
FLIP = "python3 -c 'import sys; f, at = sys.argv[1], int(sys.argv[2]); d = bytearray(open(f, \"rb\").read()); d[at] ^= 16; open(f, \"wb\").write(d)' $f "



def flip_in(array):
    """shell that flips a byte of the first chunk of such an array in the shard $f"""
    find = (f"import json, sys; files = json.load(open(sys.argv[1]))[\"content\"][\"files\"]; "
            f"print(next(s[\"chunks\"][0][0] for f in files if f[\"name\"] == sys.argv[2] for s in f[\"slices\"] if s[\"group\"] == \"{array}\"))")
    return f"at=$(python3 -c '{find}' $(dirname $f)/manifest.json $(basename $f)); {FLIP}$at"


# (way, shell with $f and $older, the same file of the checkpoint before)
WAYS = [
    ("first byte flipped", FLIP + "0"),
    ("byte 100 flipped", FLIP + "100"),
    ("middle byte flipped", FLIP + HALF),
    ("last byte flipped", FLIP + "-1"),
    ("emptied", "truncate -s 0 $f"),
    ("cut in half", f"truncate -s {HALF} $f"),
    ("one byte short", "truncate -s -1 $f"),
    ("one byte long", "printf x >> $f"),
    ("missing", "rm $f"),
    ("zeroed", "n=$(stat -c %s $f); truncate -s 0 $f; truncate -s $n $f"),
    ("end zeroed", f"h={HALF}; n=$(stat -c %s $f); truncate -s $h $f; truncate -s $n $f"),
    ("that of another step", "cp $older $f"),
    ("a directory", "rm $f; mkdir $f"),
    ("a dangling link", "ln -sf nowhere $f"),
    ("a link to itself", "ln -sf $(basename $f) $f"),
    ("a pipe", "rm $f; mkfifo $f"),
]
FILES = ["manifest.json", "master.h5", "rank-00000.h5"]
NO_DAMAGE = [("manifest.json", "one byte short")]  # it is the end of its last line


def damage(path, way):
    return f"f={path}; older={path.replace('00000008', '00000004')}; {way}"


def passed_over(name, setup, config="one", says=("skipped: ",), **rest):
    return Case(name, [Run("--restart latest train.steps=12", says=says)], config=config, start="half", setup=setup, **rest)


def refused(name, setup, more, says, codes=FAILED, start="half", config="one", **rest):
    """Nothing is changed, and once the file is as it was the run goes on."""
    setup = f"cp -a run ../$(basename $PWD).kept; {setup}"
    back = "rm -rf run; mv ../$(basename $PWD).kept run"
    return Case(name, [Run(more, codes=codes, says=says, then=back)], setup=setup, start=start, config=config, **rest)


def table(name, file, way, says=(), **rest):
    return Case(f"{file} {name}", [Run("--restart latest", says=says)], start="half", setup=f"f=run/{file}; {way}", **rest)


def lacks(steps):
    return rf"routing\.csv: it has no row for step {steps}, and neither has the checkpoint"


TABLE_WAYS = [
    ("missing", "rm $f"),
    ("emptied", "truncate -s 0 $f"),
    ("cut within a row", "truncate -s -20 $f"),
    ("without its last rows", "sed -i '4,$d' $f"),
    ("with a row of rubbish", "sed -i '2s/.*/rubbish/' $f"),
    ("with a row twice", "sed -i 2p $f"),
    ("with a row of zeros", "head -c 100 /dev/zero >> $f"),
    ("with a row that is too long", "sed -i '2s/$/,1/' $f"),
    ("with a row of step 99", "sed '2s/^[0-9]*/99/;2q' $f | tail -1 >> $f"),
    ("with other numbers", "sed -i '2s/,[0-9.]*/,7/2' $f"),
    ("with rows of letters where numbers are", "sed -i '2s/,[0-9.]*/,seven/2' $f"),
    ("of zeros", "n=$(stat -c %s $f); truncate -s 0 $f; truncate -s $n $f; cp $f zeros"),
    ("with zeros at its begin", "dd if=/dev/zero of=$f bs=1 count=100 conv=notrunc status=none"),
    ("cut within its first line", "truncate -s 20 $f"),
]

# (field, offset) of a token file's header
FIELDS = [("magic", 0), ("version", 8), ("bytes a token", 12), ("count", 16), ("high count", 22), ("vocabulary", 25), ("vocabulary, high", 30),
          ("largest", 32), ("mask", 56), ("tokenizer", 60), ("tokenizer size", 64)]
TOKEN_WAYS = [
    *((f"{name} flipped", FLIP + str(at)) for name, at in FIELDS),
    ("emptied", "truncate -s 0 $f"),
    ("cut within the header", "truncate -s 100 $f"),
    ("cut in half", f"truncate -s {HALF} $f"),
    ("one byte short", "truncate -s -1 $f"),
    ("one byte long", "printf x >> $f"),
    ("missing", "rm $f"),
    ("a directory", "rm $f; mkdir $f"),
    ("a dangling link", "ln -sf nowhere $f"),
    ("a pipe", "rm $f; mkfifo $f"),
    ("a text", "cp text.txt $f"),
    ("a checkpoint", "head -c 5000 /dev/urandom > $f"),
]
TOKENS_BACK = Run(command="rm -rf text.tokens; cp ../../data/text.tokens .")

CASES = [
    *(passed_over(f"{file} {way}", damage(f"{LAST}/{file}", how), says=("skipped: ", "step-00000008"),
                  fast=(file, way) in (("manifest.json", "middle byte flipped"), ("rank-00000.h5", "end zeroed")))
      for file in FILES for way, how in WAYS if (file, way) not in NO_DAMAGE),
    *(passed_over(f"data2-zero3: rank-00001.h5 {way}", damage(f"{LAST}/rank-00001.h5", how), "data2-zero3",
                  says=("skipped: ", "rank-00001.h5"), fast=way == "that of another step") for way, how in WAYS[2::3]),
    *(passed_over(f"pipe2-data2: rank-00003.h5 {way}", damage(f"{LAST}/rank-00003.h5", how), "pipe2-data2",
                  says=("skipped: ", "rank-00003.h5")) for way, how in WAYS[2::5]),
    passed_over("shards of two ranks exchanged", f"cd {LAST}; mv rank-00000.h5 x; mv rank-00001.h5 rank-00000.h5; mv x rank-00001.h5",
                "data2-zero3"),
    passed_over("the last checkpoint has the first one's files", f"rm -r {LAST}; cp -r {OLDER} {LAST}", says=("skipped: ", "move it elsewhere")),
    passed_over("checkpoints exchanged", f"mv {LAST} x; mv {OLDER} {LAST}; mv x {OLDER}; cp -r x {LAST} || true; "
                f"rm -rf {LAST}; cp -r {OLDER} {LAST}; rm -r {OLDER}", says=("starts fresh|goes on|restarting",)),
    passed_over("the last checkpoint is empty", f"rm {LAST}/*"),
    passed_over("the last checkpoint is a file", f"rm -r {LAST}; echo x > {LAST}"),
    passed_over("the last checkpoint is a link to nothing", f"rm -r {LAST}; ln -s nowhere {LAST}"),
    passed_over("a strange name among the checkpoints", f"mkdir {LAST}x run/checkpoints/step-9 run/checkpoints/step-; touch run/checkpoints/x",
                says=("restarting from run/checkpoints/step-00000008",)),
    passed_over("a strange file in the last checkpoint", f"echo x > {LAST}/notes.txt", says=("step-00000008",)),
    passed_over("debris of a save", f"cp -r {LAST} run/checkpoints/.step-00000012.partial; rm run/checkpoints/.*12.partial/manifest.json",
                says=("removed .*step-00000012.partial",)),
    passed_over("debris of a removal", f"mv {OLDER} run/checkpoints/.step-00000004.removed", says=("removed .*step-00000004.removed",)),
    Case("a checkpoint that was being replaced is read", [Run(command="$TRIREME evaluate run", says=("step 12:",))], start="done",
         setup="cd run/checkpoints; cp -r step-00000012 .step-00000012.partial; mv step-00000012 .step-00000012.replaced", finish_says=("finished",),
         after="$TRIREME inspect run/checkpoints/step-00000012 --verify"),
    passed_over("a checkpoint that was being replaced", f"mv {LAST} run/checkpoints/.step-00000008.replaced", says=("step-00000008",)),
    # A checkpoint's tokenizer.
    *(passed_over(f"tokenizer.bin {way}", damage(f"{LAST}/tokenizer.bin", how), "spm", says=("skipped: ", "tokenizer.bin"), fast=way == "zeroed")
      for way, how in WAYS if way != "that of another step"),
    Case("repaired: tokenizer.bin missing", [Run(command=f"$TRIREME inspect {LAST} --repair && $TRIREME inspect {LAST} --verify", says=("intact",))],
         setup=f"rm {LAST}/tokenizer.bin", start="half", config="spm", finish_more=f"--restart {LAST}"),
    *(Case(f"{command.split()[0]} with the last tokenizer {way}", [Run(command=f"$TRIREME {command}", codes=INSPECTED if "inspect" in command else (0,), says=("skipped: .*tokenizer.bin|step 4",))],
           setup=damage(f"{LAST}/tokenizer.bin", how), start="half", config="spm")
      for way, how in (WAYS[2], WAYS[8]) for command in ("evaluate run", "generate run --prompt the --tokens 4", "inspect run")),
    *(Case(f"a tokenizer's model {way}", [Run(command="$TRIREME tokenize text.txt --tokenizer spm.model --output x.tokens", codes=FAILED, says=("spm.model",))],
           setup=f"f=spm.model; {how}", finish="", untouched=".") for way, how in (WAYS[4], WAYS[8], WAYS[9], WAYS[12], WAYS[13])),
    *(Case(f"check --verify: spm.tokens, {way}", [Run(command="$TRIREME check --verify deck.toml data.path=spm.tokens", codes=FAILED, says=("spm.tokens",))],
           setup=f"f=spm.tokens; {how}", finish="", untouched=".") for way, how in (WAYS[3], WAYS[6], WAYS[7], WAYS[10])),
    # A damaged newest checkpoint, and what reads the newest.
    *(Case(f"{command.split()[0]} with the last {file} {way}", [Run(command=f"$TRIREME {command}", codes=INSPECTED if "inspect" in command else (0,), says=("skipped: |step 4",))],
           setup=damage(f"{LAST}/{file}", how), start="half")
      for file in FILES for way, how in (WAYS[4], WAYS[8]) for command in ("evaluate run", "generate run --prompt the --tokens 4", "inspect run")),
    *(Case(f"{command.split()[0]} with elements of the last shard damaged", [Run(command=f"$TRIREME {command}", codes=FAILED, says=("is damaged", "rank-00000.h5"))],
           setup=damage(f"{LAST}/rank-00000.h5", WAYS[10][1]), start="half")
      for command in ("train deck.toml --run-dir x --restart run", f"evaluate {LAST}")),
    # Those that read weights alone use what they can: the checkpoint before where a weight is damaged, the newest where a moment is.
    *(Case(f"{command.split()[0]}{' on 2 ranks' * bool(launch)} with a flipped byte in {array} of the last shard",
           [Run(command=f"{launch} $TRIREME {command}", once=(r"skipped: .*step-00000008 is damaged: .*rank-00000\.h5",) if array == "weights" else (),
                silent=() if array == "weights" else ("skipped",), says=(says.replace("STEP", "4" if array == "weights" else "8"),)),
            Run(command="$TRIREME inspect run --verify", codes=INSPECTED, says=("every hash is right in .*step-00000004",))],
           setup=damage(f"{LAST}/rank-00000.h5", flip_in(array)), start="half", finish="", config="data2" if launch else "one", fast=array == "weights")
      for array in ("weights", "moment1")
      for launch, command, says in (("", "evaluate run", "step STEP: loss"), ("exec $MPIEXEC -n 2", "evaluate run", "step STEP: loss"), ("", "generate run --prompt the --tokens 4", "the"),
                                    ("", "export run out", "out: .* tensors"))),
    # The same of averages, which commands read with --ema alone.
    *(Case(f"{command} with a flipped byte in ema of the last shard",
           [Run(command=f"$TRIREME {command}", says=("step STEP: loss".replace("STEP", step),), once=(r"skipped: .*step-00000008 is damaged: rank-00000\.h5: chunk \d+ of ema/",) * (step == "4")),
            Run("--restart latest train.steps=12", says=(r"skipped: .*step-00000008",))],
           setup=damage(f"{LAST}/rank-00000.h5", flip_in("ema")), start="half", config="ema") for command, step in (("evaluate run --ema", "4"), ("evaluate run", "8"))),
    Case("evaluate before the first checkpoint", [Run(command="$TRIREME evaluate run", codes=FAILED, says=("the run has not saved one yet", "checkpoint_now"), silent=("intact",))],
         setup="rm -r run/checkpoints/*", start="half", finish="", fast=True),
    # What a run prunes while one looks is no damage.
    Case("inspect --verify while a checkpoint is pruned",
         [Run(command="$TRIREME inspect run --verify & p=$!; until grep -q open $TRIREME_FAULTS_LOG; do sleep 0.05; done; cd run/checkpoints; mv step-00000004 .step-00000004.removed; "
              "rm -r .step-00000004.removed; cd ../..; touch go; wait $p", faults="open */step-00000004/rank-00000.h5 1 until:go",
              says=("step-00000004: removed while it was read", "damaged checkpoints: 0 of 1"))], start="half", finish=""),
    *(Case(f"a restart that passes over {file} names --repair", [Run("--restart latest train.steps=12", says=(f"skipped: .*{file}.*inspect .*step-00000008 --repair",))],
           setup=damage(f"{LAST}/{file}", "rm $f"), start="half", finish="", fast=True) for file in ("manifest.json", "master.h5")),
    *(Case(f"a restart that passes over a shard {way}", [Run("--restart latest train.steps=12", says=("skipped: .*rank-00000.h5",), silent=("inspect .*--repair",))],
           setup=damage(f"{LAST}/rank-00000.h5", how), start="half", finish="", fast=True) for way, how in (WAYS[5], WAYS[8])),
    # Named, or all of them: an error.
    *(refused(f"named: {file} {way}", damage(f"{LAST}/{file}", how), f"--restart {LAST}", ("step-00000008", "--repair|older checkpoint|is damaged"),
              untouched="run/history.csv", fast=(file, way) == ("master.h5", "middle byte flipped"))
      for file in FILES for way, how in (WAYS[2], WAYS[4], WAYS[7], WAYS[8], WAYS[11])),
    *(refused(f"all: {file} {way}", damage(f"{LAST}/{file}", how) + "; " + damage(f"{OLDER}/{file}", how.replace("$older", f"{LAST}/{file}")),
              "--restart latest", ("all checkpoints in .* are damaged or cannot be read .2 found", "--overwrite"), untouched="run/history.csv")
      for file in FILES for way, how in (WAYS[2], WAYS[5], WAYS[8])),
    refused("the newest checkpoint is of another run", "$TRIREME train deck.toml --run-dir other train.steps=12 checkpoint.every_steps=0 >/dev/null 2>&1; "
            "mv other/checkpoints/step-00000012 run/checkpoints", "--restart latest train.steps=16",
            ("step-00000012 belongs to the run .*step-00000008 in the same folder belongs to the run",), untouched="run"),
    Case("data2: rank 1 sees an older copy of the run", [Run("--restart latest", faults="open */step-00000008/manifest.json 1+ ENOENT @1", codes=FAILED,
         says=("rank 0 finds the manifest .*, rank 1 finds no manifest .*No such file", "file system that all nodes share"), then="test -e run/checkpoints/step-00000008")], config="data2", start="half"),
    refused("named: a step that is not there", "true", "--restart run/checkpoints/step-00000099", ("step-00000099",), untouched="run"),
    refused("named: a file", "true", "--restart deck.toml", ("deck.toml",), untouched="run"),
    # Made whole again from the shards.
    *(Case(f"repaired: {file} {way}",
           [Run(command=f"$TRIREME inspect {LAST} --repair && $TRIREME inspect {LAST} --verify", says=("intact",))],
           setup=damage(f"{LAST}/{file}", how), start="half", finish_more=f"--restart {LAST}", fast=(file, way) == ("manifest.json", "missing"))
      for file in FILES[:2] for way, how in WAYS[:12] if way != "that of another step"),
    Case("repaired: manifest.json that of another step", [Run(command=f"$TRIREME inspect {LAST} --repair", codes=(0, 1))],
         setup=damage(f"{LAST}/manifest.json", "cp $older $f"), start="half"),
    *(Case(f"not to be repaired: rank-00001.h5 {way}", [Run(command=f"$TRIREME inspect {LAST} --repair", codes=FAILED, says=("rank-00001.h5",))],
           setup=damage(f"{LAST}/rank-00001.h5", how) + f"; rm {LAST}/manifest.json", start="half", config="data2-zero3", untouched=LAST)
      for way, how in (WAYS[10], WAYS[5], WAYS[8])),
    # Tables and small files of the run.
    *(table(name, file, way, says=(() if "cut" in name or "99" in name else (file.replace(".", r"\."),)), fast=name in ("emptied", "of zeros") and file == "history.csv")
      for file in ("history.csv", "evaluation.csv") for name, way in TABLE_WAYS if not (file == "evaluation.csv" and "last rows" in name)),
    *(Case(f"digests.csv {name}", [Run("--restart latest")], start="half", config="digests", setup=f"f=run/digests.csv; {way}")
      for name, way in (TABLE_WAYS[2], TABLE_WAYS[6])),
    *(Case(f"digests.csv {name}", [Run("--restart latest", says=(r"digests\.csv: its first line is damaged", f"digests.*: {says}", r"the original is kept as digests\.csv\.damaged"))],
           start="half", config="digests", setup=f"f=run/digests.csv; {way}", finish="weights", fast=name == "of zeros")
      for (name, way), says in ((TABLE_WAYS[11], "its rows up to step 8 are lost"), (TABLE_WAYS[12], "rows before step 2 may be lost"))),
    *(Case(f"routing.csv {name}", [Run("--restart latest", says=(r"routing\.csv: its first line is damaged", lacks(steps)), then=then)], start="half", config="mixture",
           setup=f"f=run/routing.csv; {way}", finish="weights", fast=name == "of zeros")
      for (name, way), steps, then in ((TABLE_WAYS[11], "1 to 8", "cmp zeros run/routing.csv.damaged"), (TABLE_WAYS[12], "1", "true"))),
    *(Case(f"routing.csv {name}", [Run("--restart latest", says=says)], start="half", config="mixture", setup=f"f=run/routing.csv; {way}", fast=name == "with a row twice")
      for (name, way), says in ((TABLE_WAYS[2], ()), (TABLE_WAYS[5], (r"routing\.csv: it had several rows for step 1",)), (TABLE_WAYS[6], ()))),
    # No checkpoint has its rows: those that are left stay.
    *(Case(f"routing.csv {name}", [Run("--restart latest", says=says)], start="half", config="mixture", setup=f"f=run/routing.csv; {way}", finish="weights", fast=name == "missing",
           after=f'[ "$(cut -d, -f1 run/routing.csv | tr "\\n" " ")" = "step {steps} " ]')
      for (name, way), steps, says in ((TABLE_WAYS[0], "9 10 11 12", (lacks("1 to 8"),)), (TABLE_WAYS[1], "9 10 11 12", (lacks("1 to 8"),)),
                                       (TABLE_WAYS[3], "1 2 9 10 11 12", (lacks("3 to 8"),)),
                                       *((TABLE_WAYS[i], "2 3 4 5 6 7 8 9 10 11 12", (r"routing\.csv: left out 1 line that cannot be read", lacks("1"))) for i in (4, 7, 10)))),
    *(refused(f"{file} with other columns", f"sed -i 1s/step/row/ run/{file}", "--restart latest", (file, "does not have the columns"), config=config, untouched="run")
      for file, config in (("history.csv", "one"), ("evaluation.csv", "one"), ("routing.csv", "mixture"))),
    table("of zeros", "timing.json", "head -c 1000 /dev/zero > $f"),
    *(table(name, "outcome.json", way) for name, way in (TABLE_WAYS[0], TABLE_WAYS[1], TABLE_WAYS[2], TABLE_WAYS[11], ("rubbish", "echo rubbish > $f"))),
    *(table(name, "effective.toml", way) for name, way in (TABLE_WAYS[0], TABLE_WAYS[1], TABLE_WAYS[11], ("rubbish", "echo rubbish > $f"))),
    *(table(name, "log", way) for name, way in (TABLE_WAYS[0], TABLE_WAYS[1], ("rubbish", "head -c 1000 /dev/zero > $f"))),
    *(table(name, "lock", way) for name, way in (TABLE_WAYS[0], TABLE_WAYS[1], TABLE_WAYS[11], ("rubbish", "head -c 1000 /dev/urandom > $f"))),
    *(refused(f"{file} is a directory", f"rm -f run/{file}; mkdir run/{file}", "--restart latest", (file,), untouched="run/checkpoints")
      for file in ("history.csv", "outcome.json", "log", "lock", "effective.toml")),
    *(refused(f"{file} is a pipe, {more or 'without a word'}", f"rm -f run/{file}; mkfifo run/{file}", more, (file, "regular file"), fast=(file, more) == ("log", ""))
      for file in ("log", "history.csv", "outcome.json", "lock") for more in ("--restart latest", "--overwrite", "")),
    *(refused(f"routing.csv is a {what}", f"rm run/routing.csv; mk{what} run/routing.csv", "--restart latest", (r"routing\.csv", "regular file"), config="mixture",
              untouched="run/checkpoints") for what in ("dir", "fifo")),
    refused("the folder of checkpoints is a file", "rm -r run/checkpoints; echo x > run/checkpoints", "--restart latest", ("checkpoints",)),
    refused("the run directory is a link to nothing", "rm -r run; ln -s nowhere run", "--restart latest", ("run",)),
    # Token files.
    *(Case(f"text.tokens: {name}", [Run(codes=FAILED, says=("text.tokens",)), TOKENS_BACK], setup=f"f=text.tokens; {how}",
           fast=name == "cut in half") for name, how in TOKEN_WAYS),
    *(Case(f"restart with text.tokens {name}", [Run("--restart latest", codes=FAILED, says=("text.tokens",)), TOKENS_BACK],
           setup=f"f=text.tokens; {how}", start="half", untouched="run/history.csv") for name, how in TOKEN_WAYS[-10:-4]),
    # An id beyond what its own header promises is found when its window is read.
    Case("text.tokens: an id that is none", [Run("data.path=hurt.tokens", codes=FAILED, says=("hurt.tokens", "65535"))], finish="",
         setup="cp text.tokens hurt.tokens; printf '\\377\\377' | dd of=hurt.tokens bs=1 conv=notrunc seek=$(( 256 + 2 * 300 ))", config="sequential",
         after="[ ! -e run/checkpoints/step-00000012 ]"),
    *(Case(f"check --verify: text.tokens, byte {at} flipped", [Run(command="$TRIREME check --verify deck.toml", codes=FAILED, says=("text.tokens",))],
           setup=f"f=text.tokens; {FLIP} {at}", finish="") for at in (72, 80, 256, 2000, -1)),
    *(Case(f"pipe2: text.tokens {name}", [Run(codes=FAILED, says=("text.tokens",)), TOKENS_BACK], setup=f"f=text.tokens; {how}", config="pipe2")
      for name, how in (TOKEN_WAYS[0], TOKEN_WAYS[13], TOKEN_WAYS[16])),
    *(Case(f"restart with other tokens, {name}", [Run("--restart latest", says=("not those that the checkpoint was trained on",)), TOKENS_BACK],
           setup=how, start="half", finish="") for name, how in (("longer", "mv more.tokens text.tokens"), ("tokenized again", "tac text.txt | sed s/fox/cow/ > t; "
                                                                "$TRIREME tokenize t --overwrite --output text.tokens"))),
    Case("restart with a copy of the tokens", [], setup="cp text.tokens t; mv t text.tokens", start="half", finish_silent=("not those that",)),
    # While it runs.
    Case("text.tokens is cut off while it runs",
         [Run("checkpoint.every_steps=0", faults="write */run/history.csv 1+ sleep:30", signals=(("row 5", "shell", "truncate -s 1000 text.tokens"),), codes=FAILED,
              says=("text.tokens ends before byte",), then="grep -q '\"failed\"' run/outcome.json && $TRIREME inspect run --verify"), TOKENS_BACK], fast=True),
    Case("text.tokens is removed while it runs",
         [Run(faults="write */run/history.csv 1+ sleep:30", signals=(("row 5", "shell", "rm text.tokens"),)), TOKENS_BACK]),
    Case("text.tokens is replaced while it runs",
         [Run(faults="write */run/history.csv 1+ sleep:30", signals=(("row 5", "shell", "cp more.tokens x; mv x text.tokens"),)), TOKENS_BACK]),
    Case("the first checkpoint is removed while it runs",
         [Run(faults="write */run/history.csv 5+ sleep:50", signals=(("file run/checkpoints/step-00000004", "shell", f"rm -r {OLDER}"),))]),
]
