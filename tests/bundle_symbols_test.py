#!/usr/bin/env python3
"""A bundle that would not start on its oldest target is refused: bundle_symbols_test.py CXX"""
import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "cmake"))
import bundle  # noqa: E402

WAITING = """
#include <condition_variable>
void wait(std::condition_variable& c, std::unique_lock<std::mutex>& l) { c.wait(l); }
"""
RANDOM = """
#include <cstdint>
extern "C" std::uint32_t arc4random();
std::uint32_t number() { return arc4random(); }
"""


def compiled(cxx, folder, name, text, *options):
    source, made = folder / f"{name}.cpp", folder / f"{name}.so"
    source.write_text(text)
    subprocess.run([cxx, "-std=c++20", "-shared", "-fPIC", *options, source, "-o", made], check=True)
    return made


def refused(files):
    try:
        bundle.require_old_enough(files)
    except SystemExit as e:
        return str(e)
    return None


def main():
    cxx = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        waiting = compiled(cxx, folder, "waiting", WAITING)
        bound = compiled(cxx, folder, "bound", WAITING, "-include", ROOT / "cmake/bundle/older_symbols.hpp")
        unused = compiled(cxx, folder, "unused", "int number() { return 1; }", "-include", ROOT / "cmake/bundle/older_symbols.hpp")
        assert "condition_variable" not in str(bundle.symbols(unused, "undefined")), "an unused symbol is asked for"
        assert refused([bound, unused]) is None, refused([bound])
        young = [s for s in bundle.too_young(waiting) if "condition_variable" in s]
        if young:  # this compiler's library is younger than the targets'
            text = refused([bound, waiting])
            assert text and str(waiting) in text and young[0] in text and str(bound) not in text, text
        if hasattr(ctypes.CDLL(None), "arc4random"):  # glibc 2.36
            text = refused([compiled(cxx, folder, "random", RANDOM)])
            assert text and "arc4random@GLIBC_2.36" in text, text
        print("bundle: symbols are compared with those of the oldest targets")


if __name__ == "__main__":
    main()
