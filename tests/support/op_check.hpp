#pragma once
// One op run forward and backward on a backend, in all the ways that a tape may ask it to.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/autograd/op.hpp"
#include "tests/support/contract.hpp"

namespace trireme {

// The one place in the tests of ops that knows what a Run consists of.
Run make_run(Backend&, const Weights&, Gradients*, std::span<const std::uint8_t> trainable,
             const Place& = {});

// Numbers of the compute type, or token ids.
struct OpNumbers {
  Shape shape;
  std::vector<double> values;
  std::vector<std::int32_t> ids;
};
OpNumbers random_numbers(const Shape&, std::uint64_t seed, double amplitude = 1);

// An op, and what it is tried on.
struct OpCase {
  std::string name;
  std::function<std::unique_ptr<Op>(Backend&, DType compute)> make;
  std::vector<OpNumbers> in;
  std::vector<OpNumbers> params;  // the i-th is ParamId i
  OpNumbers grad_out;             // of y's shape; no values: the op's own seed, and y is f64
  std::vector<OpNumbers> more_grad_out{};  // of the outputs after the first
  std::int64_t rows = 0;                   // that go through the door to each parameter
  Place place;                             // where its views and positions come from these:
  std::vector<std::int64_t> samples{0};
  std::int64_t t0 = 0;
  std::vector<std::int32_t> targets;
  // How far an f32 result may be off: y, the inputs' gradients, the parameters', further outputs.
  struct Slack {
    double y = 0;
    std::vector<double> in, params, more{};
  } slack;
};

// How the door cuts rows: `leaf` rows at a time (0: all), each into memory of its own that is added
// afterwards, or added where the sum is.
struct Cut {
  std::int64_t leaf = 0;
  bool backwards = false;
  Accumulate into = Accumulate::overwrite;
};

// backward, or its two halves, between which a schedule may do other things.
enum class Adjoint : std::uint8_t { together, in_halves };

// What is asked of a run. Lists that are empty mean yes for each (`shared`: no).
struct Ask {
  bool record = true;
  bool door = true;
  std::vector<std::uint8_t> wanted, trainable;
  std::vector<std::uint8_t> shared;  // inputs that somebody else holds too
  bool shared_gradient = false;
  Cut cut;
  Adjoint adjoint = Adjoint::together;
};

struct OpRun {
  std::vector<Lab::Result> results;  // "y", "y1".., and as asked "dx0".., "dw0".., with slack
  std::int64_t rows = 0;             // that went through the door to each parameter
  // Before the op, with its output and what it saved, and after all that is gone.
  Account before, forward, after;

  const Lab::Result& operator[](std::string_view name) const;
  bool has(std::string_view name) const;
};

// Runs the op on the Lab's backend in its compute type, and expects what holds in every run: shared
// tensors keep their bits, frozen parameters are absent, no memory stays behind.
OpRun run_op(Lab&, const OpCase&, const Ask& = {});

// The same on a backend opened for it alone.
OpRun run_op(const std::function<std::unique_ptr<Backend>()>& open, DType compute, const OpCase&,
             const Ask& = {});

}  // namespace trireme
