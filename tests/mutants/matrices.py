"""Mutants of optimizers that see whole matrices: name, file, right, wrong, suite."""
from suites import program

MUON = program("matrix_test", "*NewtonSchulz*")
SHAMPOO = program("matrix_test", "*Shampoo*:InverseRoot.*")

MUTANTS = [
    # Newton-Schulz iterations
    ("wide matrices are transposed", "lib/matrix/newton_schulz.cpp", "rows > columns ? v.transposed() : v", "rows < columns ? v.transposed() : v", MUON),
    ("a coefficient of Jordan's has two digits exchanged", "lib/matrix/newton_schulz.cpp", "2.0315}", "2.0135}", MUON),
    ("a coefficient of Polar Express has another sign", "lib/matrix/newton_schulz.cpp", "-2.772484153217685", "2.772484153217685", MUON),
    ("matrices below eps become orthogonal", "lib/matrix/newton_schulz.cpp", "method.factor, method.eps,", "method.factor, 0,", MUON),
    ("the norm has no factor", "lib/matrix/newton_schulz.cpp", "method.factor, method.eps,", "1, method.eps,", MUON),
    ("scratch for one square too few", "lib/matrix/newton_schulz.cpp", "rows * columns + 3 * small * small", "rows * columns + 2 * small * small", MUON),
    ("the diagonal is a column", "lib/matrix/scaling.cpp", "a_NN.stride[0] + a_NN.stride[1]", "a_NN.stride[0]", SHAMPOO),
    # scales
    ("Jordan's scale exchanges out and in", "lib/matrix/matrix_rule.cpp", "std::max(1.0, rows / columns)", "std::max(1.0, columns / rows)", program("matrix_test", "MatrixRule.*")),
    ("the scale of AdamW's steps is that of the smaller side", "lib/matrix/matrix_rule.cpp", "std::max(rows, columns)", "std::min(rows, columns)", program("matrix_test", "MatrixRule.*")),
    # Shampoo
    ("averages add whole products", "lib/matrix/shampoo.cpp", ".factor = 1 - beta}", ".factor = 1}", SHAMPOO),
    ("roots wait for the first multiple", "lib/matrix/shampoo.cpp", "matrix.count == 1 || ", "", SHAMPOO),
    ("squares that overflow reach the averages", "lib/matrix/shampoo.cpp", "  drop_extremes(b, g_MN, Scratch(wide));\n", "", SHAMPOO),
    ("roots have no eps", "lib/matrix/inverse_root.cpp", "  add_to_diagonal(b, m_NN, z * eps, wide);\n", "", SHAMPOO),
    ("roots have one factor too few", "lib/matrix/inverse_root.cpp", "for (int factor = 1; factor <", "for (int factor = 2; factor <", SHAMPOO),
    ("the largest eigenvalue does not count", "lib/matrix/inverse_root.cpp", "std::max(1 - least, std::abs(1 - most)) > 1e-12", "1 - least > 1e-12", SHAMPOO),
    ("a trace is divided by, however small", "lib/matrix/inverse_root.cpp",
     "  b.put(Queue::compute, kernel::Copy{.dst = trace_1, .src = least_1, .how = Accumulate::add});\n", "", SHAMPOO),
]
