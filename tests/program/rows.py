"""What a row of the tables says."""
import inspect
from dataclasses import dataclass, field

FAIL = "fail"  # any code but 0: the process may have been killed
ANY = "any"
REFUSED = tuple(range(1, 124))  # neither a signal nor 0


@dataclass
class Run:
    """One start of the program."""
    more: str = ""            # behind `train deck.toml OVERRIDES --run-dir run`
    command: str = ""         # instead of all of that, for a shell: $TRIREME, $MPIEXEC
    faults: str = ""          # rules for failing_calls.cpp; each must come true but those with a "?" before them and waits
    signals: tuple = ()       # ("row 5" or "file PATH" or "says TEXT" or "0.2 s", a signal, "all" or "rank 1" or "launcher");
                              # or a moment, "shell" and a command for it
    before: str = ""          # shell, in the case's folder
    codes: object = (0,)      # exit codes, FAIL or ANY
    says: tuple = ()          # regular expressions for what the program must print
    once: tuple = ()          # and for what it must print once, whatever the number of ranks
    silent: tuple = ()        # and must not
    then: str = ""            # shell that must end with 0 behind it
    config: str = ""          # instead of the case's
    limit: float = 60
    terminal: bool = False    # stdin, stdout and stderr are one


@dataclass
class Case:
    name: str
    runs: list
    config: str = "one"
    start: str = "fresh"      # or "half": killed after step 10 of 12; or "done"; or "cut": done, with the checkpoint of step 4 alone
    setup: str = ""           # shell, before the first run
    finish: str = "bits"      # "bits", "close" (another grid: by rounding), "weights" (no history) or ""
    finish_config: str = ""   # on another grid
    finish_more: str = "--restart latest --or-start"
    finish_says: tuple = ()
    finish_silent: tuple = ()
    untouched: str = ""       # a path whose files keep their bytes over the runs before the last
    after: str = ""           # shell that must end with 0 at the end
    fast: bool = False
    known: str = ""           # why it is not good yet: it must fail until it is mended
    story: object = None      # instead of all this: a function of the case's folder (engine.CaseFolder)
    group: str = field(default="", init=False)

    @property
    def title(self):
        return f"{self.group}: {self.name}"


@dataclass
class Ended:
    """What is known of a process that ended."""
    code: int
    text: str                 # all that was printed
    out: str = ""             # on stdout
    seconds: float = 0.0
    hung: bool = False
    left: tuple = ()
    met: tuple = ()


def story(cases, fast=(), each=(None,)):
    """Makes a function a case of the table `cases`, or one for each of its arguments in `each`; its docstring is the title, `fast` True
    or those arguments that are."""
    def add(function):
        title = inspect.cleandoc(function.__doc__)
        for one in each:
            call = function if one is None else lambda at, one=one: function(at, one)
            cases.append(Case(title if one is None else f"{title}: {one}", [], finish="", fast=fast is True or one in fast, story=call))
        return function
    return add
