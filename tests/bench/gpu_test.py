#!/usr/bin/env python3
"""The tables of gpu.py of a recording whose numbers were made up to be divided by hand."""
import argparse
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import gpu  # noqa: E402

# Ceilings: 500 TFLOP/s and 4000 GB/s. By class: calls, GB, TFLOP, expected ms, seen ms, share, rate, % of ceiling, lost ms.
WANTED = {
    # 40 TFLOP at 500 take 80 ms, 10 GB at 4000 only 2.5.
    "matmul": "200 10.000 40.000 80.000 100.000 58.8% 400 TFLOP/s 80 20.000",
    "norm_grad": "25 40.000 0.000 10.000 20.000 11.8% 2000 GB/s 50 10.000 MISSED (at least 85%)",
    "attention_grad": "12 2.000 3.000 6.000 14.999 8.8% 200 TFLOP/s 40 8.999",
    "cross_entropy": "16 19.000 0.000 4.750 5.000 2.9% 3800 GB/s 95 0.250",
    # Too short to be held to a goal.
    "fill": "3 0.000 0.000 0.000 0.001 0.0% 1 GB/s 0 0.001",
    "all kernels": "256 71.000 43.000 100.750 140.000 82.4% 72 39.250",
    "between kernels": "0.000 30.000 17.6% 30.000",
    "a step": "100.750 170.000 100.0% 59 69.250",
}


class Replayed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        run = subprocess.run([sys.executable, HERE / "gpu.py", "--replay", HERE / "gpu_sample.json", "--only", "124M"],
                             capture_output=True, text=True, timeout=30)
        assert run.returncode == 0, run.stderr
        cls.lines = run.stdout.splitlines()

    def test_each_class_has_its_work_what_is_expected_and_what_is_seen(self):
        for name, wanted in WANTED.items():
            found = [" ".join(line[len(name):].split()) for line in self.lines if line.startswith(name + " ")]
            self.assertEqual(found, [wanted], name)

    def test_the_longest_class_is_first(self):
        at = [next(i for i, line in enumerate(self.lines) if line.startswith(name + " ")) for name in WANTED]
        self.assertEqual(at, sorted(at))

    def test_it_says_where_the_time_goes(self):
        self.assertIn("most is lost in: between kernels 30.00 ms, matmul 20.00 ms, norm_grad 10.00 ms, attention_grad 9.00 ms",
                      self.lines)
        # 40 TFLOP at 400 TFLOP/s.
        self.assertIn("products by themselves, in these shapes, would take 100.00 ms of it", self.lines)

    def test_what_repeatable_bits_cost_and_that_torch_is_not_there(self):
        text = "\n".join(self.lines)
        self.assertIn("+15.0%", text)
        self.assertIn("No module named 'torch'", text)


class Recording(unittest.TestCase):
    def test_what_is_recorded_is_what_is_replayed(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "bench_gpu"
            program.write_text('#!/bin/sh\necho "a word before"\necho "{\\"asked\\": \\"$*\\"}"\n')
            program.chmod(0o755)
            args = argparse.Namespace(backend="host", limit=20, tiny=False)
            bench = gpu.Bench(Path(folder), args)
            said = [bench.measure("device", ""), bench.measure("step", "--batch 4")]
            bench.record(Path(folder) / "kept.json")

            again = gpu.Recorded(Path(folder) / "kept.json", args)

            self.assertEqual(said[1], {"asked": "step --backend host --batch 4"})
            self.assertEqual([again.measure("device", ""), again.measure("step", "--batch 4")], said)
            self.assertIn("not in the recording", again.measure("rates", "")["error"])


class Arithmetic(unittest.TestCase):
    rates = {"gemm_tflops": 500.0, "copy_GBs": 4000.0, "model_tflops": 400.0}

    def test_goals(self):
        step = {"step_ms": 15.0, "tokens_per_s": 100.0, "tflops": 300.0}
        goal = {"tokens_per_s": 100, "tflops": 301, "percent": 60, "times_torch": 1.2}
        self.assertEqual(gpu.missed(step, self.rates, {"tokens_per_s": 90.0}, goal),
                         "  MISSED (at least 301 TFLOP/s, at least 1.2 x torch)")

    def test_kernels_that_overlap_leave_nothing_between_them(self):
        step = {"step_ms": 1.0, "classes": [{"name": "a", "calls": 1, "ms": 2.0, "bytes": 4e9, "flops": 0}]}
        rows = gpu.class_rows(step, self.rates)
        self.assertEqual(gpu.between_kernels(step, rows), 0)
        self.assertEqual(gpu.losses_of(step, rows), [("a", 1.0)])

    def test_a_class_without_time_has_no_rate(self):
        step = {"step_ms": 1.0, "classes": [{"name": "a", "calls": 1, "ms": 0.0, "bytes": 8, "flops": 0}]}
        (row,) = gpu.class_rows(step, self.rates)
        self.assertEqual((row.rate, row.percent, row.missed), ("", 0, False))


if __name__ == "__main__":
    unittest.main()
