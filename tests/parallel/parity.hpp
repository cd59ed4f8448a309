#pragma once
// The same training on a grid and on one rank. The grid's losses, norms and weights are held
// against the one rank's, weights by each rank for what it holds; what each rank takes and sends
// against its plan.
#include <string>
#include <vector>

#include "kernels/open/open.hpp"
#include "tests/support/parity_cases.hpp"

namespace trireme::test {

// Of sums of some 1,000 terms of f64, over five steps of a gradient descent that does not amplify.
constexpr double f64_bound = 1e-11;

// A case's backend with one thread. On a GPU equal inputs give equal bits, so that what is
// bit-identical on a CPU is there, too.
BackendChoice backend_of(const ParityCase&, bool debug);
// $TRIREME_TEST_BACKEND, where that is set, for cases in f32 and bf16: cuda, say. All ranks share
// the first device, but cases between devices have one for each rank, and NCCL.
std::string backend_or(const char* usual);

double learning_rate(const ParityCase&);

// The whole of microbatch `m` of data rank `d`. Masks are uneven; one
// sample in four has no valid target, one none in its first half.
Batch parity_batch(const ParityCase&, int step, int m, int d);
// This rank's microbatches of a step.
std::vector<Batch> parity_step(const ParityCase&, const Trainer&, int step);

// Of the world, made once for each grid: a split is a blocking call of MPI, slow where ranks
// outnumber cores.
const Axes& parity_axes(const ParityCase&);

// What this rank holds of a parameter's weights; empty: none.
std::vector<double> weights_here(Store&, ParamId);
// Its averages; empty also where the parameter has none.
std::vector<double> averages_here(Store&, ParamId);

// What a training came to.
struct Course {
  std::vector<double> losses, norms;
  std::vector<std::vector<double>> weights, averages;  // by ParamId, whole
};
// On one rank, made once for all cases that train the same, on rank 0, and sent to the others.
const Course& one_rank_course(const ParityCase&);
// On the case's grid; weights from all ranks, whose copies must be equal.
Course grid_course(const ParityCase&);
// 32 hex digits of all its bits.
std::string digest_of(const Course&);

// Trains and compares; failures are GoogleTest's. |a - b| <= bound * max(max |b|, 0.02).
void expect_parity(const ParityCase&, double bound);

}  // namespace trireme::test
