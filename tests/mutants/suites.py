"""What a mutant's suite is: (program, ranks or 0, googletest's filter)."""
SIMULATED = "simulated_gpu_test"
FEW = "Parity.OfAFewSettings"


def ranks(n, cases):
    return ("parallel_test", n, cases)


def simulated(cases):
    return (SIMULATED, 0, cases)


def program(name, cases):
    return (name, 0, cases)
