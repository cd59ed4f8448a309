#pragma once
// Runs one op forward and backward on a backend, in all the ways in which a tape may use it.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/autograd/op.hpp"
#include "tests/support/contract.hpp"

namespace trireme {

// The one place in the tests of ops that knows what a Run consists of.
Run make_run(Backend&, const Weights&, Gradients*, std::span<const std::uint8_t> trainable,
             const PassContext& = {});

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
  std::int64_t rows = 0;                   // added to each parameter's gradient
  PassContext pass;                        // where its views and positions come from these:
  std::vector<std::int64_t> samples{0};
  std::int64_t t0 = 0;
  std::vector<std::int32_t> targets;
  std::vector<std::int32_t> starts{};  // of documents, B x T of them, all of which are here
  // How far an f32 result may be off: y, the inputs' gradients, the parameters', further outputs.
  struct Slack {
    double y = 0;
    std::vector<double> in, params, more{};
  } slack;
};

// How rows are cut: `leaf` at a time (0: all), each summed in memory of its own that is added
// afterwards, or added to the sum itself.
struct Cut {
  std::int64_t leaf = 0;
  bool backwards = false;
  Accumulate into = Accumulate::overwrite;
};

// backward, or its two halves, between which a schedule may do other things.
enum class Adjoint : std::uint8_t { together, in_halves };

// How to run. An empty list means yes for each (`shared`: no).
struct Ask {
  bool record = true;
  bool gradients = true;  // else no weight gradient is wanted
  std::vector<std::uint8_t> wanted, trainable;
  std::vector<std::uint8_t> shared;  // inputs that other tensors share
  bool shared_gradient = false;
  Cut cut;
  Adjoint adjoint = Adjoint::together;
};

struct OpRun {
  std::vector<Lab::Result> results;  // "y", "y1".., and as asked "dx0".., "dw0".., with slack
  std::int64_t rows = 0;             // added to each parameter's gradient
  // Before the op; with its output and what it saved; after all of that is given back.
  Account before, forward, after;

  const Lab::Result& operator[](std::string_view name) const;
  bool has(std::string_view name) const;
};

// Runs the op on the Lab's backend in its compute type, and checks what holds in every run: shared
// tensors keep their bits, frozen parameters are absent, no memory stays behind.
OpRun run_op(Lab&, const OpCase&, const Ask& = {});

// The same on a backend opened for it alone.
OpRun run_op(const std::function<std::unique_ptr<Backend>()>& open, DType compute, const OpCase&,
             const Ask& = {});

}  // namespace trireme
