"""What the checks of source text share: their command line."""
import pathlib
import sys


def main(findings, self_test, all_is_well):
    """`[ROOT]` prints findings(ROOT), a line each, and exits with 1 when there are any; --self-test runs self_test()."""
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    found = findings(root)
    print("\n".join(found) if found else all_is_well)
    sys.exit(1 if found else 0)
