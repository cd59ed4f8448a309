"""The decisions of recovery (jobscripts/recover_rules.sh, recover_processes.sh, train_hosts.sh): each function is compared with its rule in all cases."""
import itertools
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from recovery_story import SCRIPTS, require

CORE = f"set -u\njob=1 own=n1 start=0 run=. per_node=1 signalled=\nnodes=(n1 n2 n3)\nTRIREME_LAUNCH=srun\n. {SCRIPTS}/recover.sh\n"


def bash(text):
    done = subprocess.run(["bash"], input=CORE + text, text=True, capture_output=True, timeout=200)
    require(done.returncode == 0 and not done.stderr, done.stderr)
    return done.stdout.splitlines()


def choices_of_nodes():
    """All states of three nodes of which two are wanted."""
    names = ["n1", "n2", "n3"]
    # In use, answers, failed, failed in vain.
    states = [s for s in itertools.product((0, 1), (0, 1), (0, 1, 2), (0, 2)) if s[3] <= s[2]]
    cases = list(itertools.product(states, repeat=3))
    lines = []
    for case in cases:
        at = dict(zip(names, case))
        lines.append("use=(%s) answers=(%s) failed=(%s) failed_in_vain=(%s); choose_nodes; echo ${use[*]-}" % (
            " ".join(n for n in names if at[n][0]), " ".join(f"[{n}]=yes" for n in names if at[n][1]),
            " ".join(f"[{n}]={at[n][2]}" for n in names), " ".join(f"[{n}]={at[n][3]}" for n in names)))
    for case, chosen in zip(cases, bash("wanted=2\n" + "\n".join(lines)), strict=True):
        at, chosen = dict(zip(names, case)), chosen.split()
        answer = {n for n in names if at[n][1]}
        allowed = {n for n in answer if at[n][3] < 2} or answer
        require(set(chosen) <= allowed, f"{at}: {chosen} has a node that does not answer or is excluded")
        require(len(chosen) == min(2, len(allowed)), f"{at}: {chosen} of {allowed}")
        require(chosen == sorted(chosen), f"{at}: {chosen} is not in the order of the allocation")
        for left, taken in itertools.product(allowed - set(chosen), chosen):
            require(not (at[left][2] < 2 <= at[taken][2]), f"{at}: {taken} failed twice and {left} did not")
            both = at[left][2] < 2 and at[taken][2] < 2
            require(not (both and at[left][0] and not at[taken][0]), f"{at}: {left}, in use, was given up for {taken}")
            require(not (both and not at[left][0] and not at[taken][0] and at[left][2] < at[taken][2]), f"{at}: {taken} failed more often than {left}")


def verdicts():
    """Every end of a start."""
    codes = (0, 1, 2, 9, 10, 15, 75, 124, 126, 127, 129, 130, 134, 137, 138, 139, 143)
    reasons = ("", "no space left", "MPI_Wait failed: x", "all-gather is not finished after 30 s (x): another rank has died", "a signal asked for it",
               "the time limit is near", "rank 2: CUDA: copying failed: x (y)", "CUDA: copying failed: x (y)",
               "rank 2: CUDA: cudaMalloc failed: out of memory (cudaErrorMemoryAllocation)", "rank 2: cuDNN 91900: running failed: x")
    deaths = ("", "n2 Killed", "n1 Exited with exit code 75")
    cases = list(itertools.product(("", "yes"), ("", "no heartbeat"), ("", "running", "done", "stopped", "failed"), codes, reasons, deaths))
    text = "".join("verdict '%s' '%s' '%s' %d '%s' '%s'\n" % c for c in cases)
    for case, verdict in zip(cases, bash(text), strict=True):
        signalled, hung, status, code, reason, death = case
        killed = "Killed" in death
        by_others = "MPI" in reason or "not finished" in reason
        device = reason.startswith("rank 2") and "memory" not in reason
        if signalled or status == "done":
            expected = "over"
        elif status == "stopped":
            expected = "died" if killed and "signal" in reason else "over"
        elif hung or status == "running":
            expected = "died"
        elif status == "failed":
            expected = "died" if by_others or device else "ask"
        elif code in (0, 10, 15, 75, 129, 130, 138, 143):
            expected = "over"
        else:
            expected = "died" if code == 9 or code > 128 else "ask"
        require(verdict == expected, f"{case}: {verdict}, not {expected}")


def deaths():
    """What launchers write."""
    texts = {
        "srun: error: n2: task 1: Killed\nsrun: error: n1: task 0: Exited with exit code 1": "n2 Killed",
        "slurmstepd: x\nsrun: error: Node failure on n3\nsrun: error: n1: task 0: Killed": "n3 node failure",
        "srun: error: n[1-2]: tasks 0-1: Killed": "",
        "srun: error: n3: task 2: Aborted\nsrun: error: n2: task 1: Killed": "n2 Killed",
        "srun: error: n3: task 2: Aborted\nsrun: error: n2: task 1: Aborted": "n3 Aborted",
        "srun: error: n1: tasks 0-7: Segmentation fault (core dumped)": "n1 Segmentation fault (core dumped)",
        "=   PID 4711 RUNNING AT n2\n=   EXIT CODE: 9": "a process on n2 ended",
        "mpiexec noticed that process rank 1 with PID 0 on node n2 exited on signal 9 (Killed).": "a process on n2 exited on signal 9 (Killed).",
        "an error": "",
    }
    for text, expected in texts.items():
        found = "".join(bash(f"first_death <(grep -E \"$death_lines\" <<< '{text}')\n"))
        require(found == expected, f"{text}: {found}, not {expected}")
        node = "".join(bash(f"node_of_death '{expected}'"))
        require(node == "".join(re.findall(r"\bn\d\b", expected)), f"{expected}: on {node}")
    silent = "  rank 1 (process 659 on vm) does not answer: it has died"
    for text, expected in ((f"{silent}\nsrun: error: n4: task 2: Killed", "rank 1 does not answer"),
                           (f"{silent}\n{silent.replace('1', '2')}\nsrun: error: n4: task 2: Killed", "n4 Killed")):
        found = "".join(bash(f"first_death <(grep -E \"$death_lines\" <<< '{text}')\n"))
        require(found == expected, f"{text}: {found}, not {expected}")


def looks():
    """A run is looked at before and after the script was suspended."""
    looks = [(0, ""), (5, ""), (11, ""), (100, ""), (109, ""), (112, "no heartbeat for 12 s")]  # second, what is wrong then
    text = "TRIREME_SILENCE=12 deaths=/nowhere trains=yes has_trained=yes seen='' seen_at=0 looked_at=0 died='' died_at='' hung='' killed=x\nclock() { now=$time; }\n"
    text += "".join(f"time={second}; watch; echo \"{second} $hung\"\n" for second, _ in looks)
    require(bash(text) == [f"{second} {wrong}" for second, wrong in looks], str(bash(text)))


def variables():
    """The folder of copies contains variables."""
    texts = {"/dev/shm": "/dev/shm", "/a/${ONE}/b${TWO_2}": "/a/1/b2 2", "/${ONE}$${TWO_2}$x": "/1${TWO_2}$x", "/${NONE}": "fails", "/${}": "fails", "/${ONE": "fails", "/${EMPTY}x": "/x",
             "/$(touch x)`touch x`": "/$(touch x)`touch x`"}
    found = bash("ONE=1 TWO_2='2 2' EMPTY=\n" + "".join(f"expand '{t}' || echo fails\n" for t in texts))
    require(found == list(texts.values()), str(found))


def variables_on_hosts():
    """On another host, whose environment is another one, the folder of copies has the same name."""
    texts = {"/${ONE}/b": "/1/b", "/${ONE}$${TWO}/$x": "/1${TWO}/$x", "/$${ONE}$$${ONE}": "/${ONE}$${ONE}"}
    functions = f"eval \"$(sed -n '/^on_nodes() {{/,/^}}/p' {SCRIPTS}/train_hosts.sh)\"\n"
    given = "export ONE=1 TWO=2; own= mark=m TRIREME_ASK_LIMIT=5 TRIREME_SSH='env -i PATH=/usr/bin:/bin bash -s --'\n"
    found = bash(functions + given + "".join(f"memory='{t}'; on_nodes \"$(declare -f expand); expand \\\"\\$2\\\"\" n1 || echo fails\n" for t in texts))
    require(found == list(texts.values()), str(found))


def sleeper(program, mark):
    """Starts a process with this name and mark. Its program is a link: a copy could still be open in a process that another thread starts, and would not run ("text file busy")."""
    Path(program).symlink_to("/bin/sleep")
    return subprocess.Popen([program, "30"], env={"TRIREME_LAUNCHED": mark})


def sweeping():
    """Old processes are ended, and launchers, later and other processes are not, where the job's id is no plain word."""
    job = "12[34].*"
    with tempfile.TemporaryDirectory(prefix="trireme-sweep-") as name:
        processes = {}
        for what, mark, expected in (("trireme", f"{job}/1.1", False), ("python", f"{job}/0.7", False), ("prterun", f"{job}/1.0", True), ("later", f"{job}/1.2", True),
                                     ("other", "123x/1.0", True), ("mentions", f"x TRIREME_LAUNCHED={job}/1.0", True)):
            processes[what] = sleeper(f"{name}/{what}", mark), expected
        # A process whose environment vanishes one second before it ends.
        code = ("import ctypes, os, signal, time\nlibc = ctypes.CDLL(None)\nlibc.getenv.restype = ctypes.c_void_p\n"
                "signal.signal(signal.SIGUSR1, lambda *_: (ctypes.memset(libc.getenv(b'TRIREME_LAUNCHED') - 17, 0, 17), time.sleep(1.2), os._exit(0)))\n"
                "print(flush=True)\ntime.sleep(30)")
        slow = subprocess.Popen([sys.executable, "-c", code], env={"TRIREME_LAUNCHED": f"{job}/1.0"}, stdout=subprocess.PIPE)
        slow.stdout.readline()
        kill = f"kill() {{ if [ $2 = {slow.pid} ]; then builtin kill -USR1 $2; else builtin kill \"$@\"; fi; }}; export -f kill\n"
        ended = bash(f"{kill}bash -c \"$sweep\" node '{job}/1.1' m && echo ended\n")
        state = Path(f"/proc/{slow.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        lives = {what: process.poll() is None for what, (process, _) in processes.items()}
        for process in [slow] + [p for p, _ in processes.values()]:
            process.kill()
            process.wait()
        require(ended == ["ended"] and state == "Z", f"{ended}: the process that is about to end is in state {state}")
        require(lives == {what: expected for what, (_, expected) in processes.items()}, str(lives))


def deadlines():
    """Commands that do not end, not even when they are killed."""
    lines = bash("say() { echo \"$*\"; }; on_nodes() { :; }; end_processes() { :; }\nTRIREME_END_LIMIT=1 TRIREME_ASK_LIMIT=1 mark=1/0.0 memory=/nowhere\n"
                 "(bash -c \"trap '' TERM; exec /bin/sleep 60\" > /dev/null & within 1 $!; echo $?) 2> /dev/null\n"
                 "bash -c 'exit 7' & within 5 $!; echo $?\n"
                 "heed 1 0 bash -c \"trap '' TERM; echo one; while :; do /bin/sleep 0.1; done\"; echo $? $words\n"
                 "heed 5 0 bash -c 'printf one; sleep 0.7; echo two; exit 3'; echo $? $words\n"
                 "stuck=; runs() { [ $1 = 99999999 ]; }; end_launcher 99999999; echo stuck $stuck\n")
    require(lines == ["124", "7", "137 one", "3 onetwo", "the launcher, process 99999999, does not end although it was killed. The script does not wait for it any more",
                      "stuck yes"], str(lines))


def slow_sweep():
    """A node whose processes do not end says so before it counts as one that does not answer."""
    with tempfile.TemporaryDirectory(prefix="trireme-sweep-") as name:
        process = sleeper(f"{name}/trireme", "slow/1.0")
        found = bash(f"kill() {{ :; }}; export -f kill; . <(echo TRIREME_ASK_LIMIT=5; cat {SCRIPTS}/recover_processes.sh)\n"
                     "here() { timeout 5 bash -c \"$1\" node slow/1.1 m; }; here \"$sweep\"; echo $?\n")
        process.kill()
        process.wait()
        require(found == ["1"], f"the sweep ended with {found}")


def places():
    """At most 64 nodes are asked at a time. One that does not answer does not make all others wait, and one of 64 is given up after a time."""
    found = bash("live=() pids=(); clock; begin=$now\nfor i in {1..140}; do have_place 60; if [ $i = 1 ]; then sleep 60 & else true & fi; live+=($!); pids+=($!); done\n"
                 "clock; echo $((now - begin < 30)); runs ${pids[0]}; echo $?; kill ${pids[0]}; wait ${pids[0]} 2> /dev/null\n"
                 "{ live=(); for i in {1..64}; do sleep 60 & live+=($!); done; clock; from=$now; have_place 2; clock; echo $((now - from >= 2)) ${#live[@]}\n"
                 "kill ${live[@]}; wait; } 2> /dev/null; have_place 60; echo ${#live[@]}\n")
    require(found == ["1", "0", "1 63", "0"], str(found))


def defaults():
    """docs/jobs.md has the defaults of the scripts."""
    given = {}
    for script in ("recover.sh", "train.sbatch", "train_hosts.sh"):
        for name, value in re.findall(r": \"\$\{(TRIREME\w*):=([^\"]*)\}\"|(?!x)x", (SCRIPTS / script).read_text()):
            given.setdefault(name, value.replace("\\}", "}"))
        given |= {n: v for n, v in re.findall(r"\"\$\{(TRIREME\w*):=(\d+)\}\"", (SCRIPTS / script).read_text())}
    table = dict(re.findall(r"^\| `(TRIREME\w*)` \| ([^|]*) \|", (SCRIPTS.parent / "docs/jobs.md").read_text(), re.M))
    require({"TRIREME_RETRIES", "TRIREME_SPARES", "TRIREME_SILENCE", "TRIREME_START_LIMIT", "TRIREME_LAUNCH", "TRIREME_SSH"} <= set(given), str(given))
    for name, value in given.items():
        require(table.get(name, "").strip("`") == value, f"docs/jobs.md has '{table.get(name)}' as the default of {name}, and the script '{value}'")


RULES = (choices_of_nodes, verdicts, deaths, looks, variables, variables_on_hosts, sweeping, deadlines, slow_sweep, places, defaults)
