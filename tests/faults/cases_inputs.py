from engine import FAIL, Case, Run

CASES = []
