"""What a mutant's suite is, and what is expected of it. A mutant names one suite, or a list, each of which is tried."""
from typing import NamedTuple

SIMULATED = "simulated_gpu_test"
DEVICE = "simulated_test"
ROWS = "rows"
FEW = "Parity.OfAFewSettings"


class Suite(NamedTuple):
    program: str
    ranks: int  # 0: without a launcher
    cases: str  # googletest's filter, or a pattern of rows
    bits: bool = False      # the bits that it prints are compared with those of the sources as they are
    survives: bool = False  # the mutant changes nothing that this suite may see

    def name(self):
        text = f"{self.program} {self.cases}" + (f" on {self.ranks}" if self.ranks else "")
        return text + (", recorded bits" if self.bits else "")


def ranks(n, cases):
    return Suite("parallel_test", n, cases)


def simulated(cases):
    return Suite(SIMULATED, 0, cases)


def device(cases):
    """The simulated device with kernels of the tests' own, or those of the backend called one by one."""
    return Suite(DEVICE, 0, cases)


def program(name, cases):
    return Suite(name, 0, cases)


def rows(pattern):
    """Rows of tests/program, whose titles hold a regular expression."""
    return Suite(ROWS, 0, pattern)


def bits(n, cases="Exactness.OfAFewSettings"):
    """Three steps with run.exactness = "invariant" on grids of n ranks: losses, norms and weights."""
    return Suite("parallel_test", n, cases, bits=True)


def fast_bits(n):
    """The same with "fast", whose bits are those of an order of sums."""
    return bits(n, "Exactness.FastRepeatsItsBits")


def survives(suite):
    return suite._replace(survives=True)
