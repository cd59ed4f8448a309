#pragma once
// Ops made of two functions, and a tape's surroundings to try them in.
#include <gtest/gtest.h>

#include <functional>

#include "kernels/ref/ref.hpp"
#include "lib/autograd/tape.hpp"
#include "tests/support/op_check.hpp"

namespace trireme {

using Tensors = std::vector<Tensor>;
using Flags = std::vector<std::uint8_t>;

struct NoWeights final : Weights {
  ConstView operator[](ParamId) const override { return {}; }
};

// Says that gradients are wanted.
struct NoGradients final : Gradients {
  void add(std::span<const ParamId>, std::int64_t, const Fill&) override {}
  void add_whole(std::span<const ParamId>, std::int64_t, const FillWhole&) override {}
};

// An op made of two functions, which notes how it was called.
class Fake final : public Op {
 public:
  std::function<Tensors(Tensors, Saved*)> go;
  std::function<Tensors(Tensors, Saved)> back;
  std::function<void(Tensors, Saved)> weigh;  // weight gradients, where there are any
  std::vector<ParamId> parameters;
  mutable int forwards = 0, backwards = 0;
  mutable bool recorded = false;
  mutable Flags wanted;

  std::string_view name() const override { return "fake"; }
  std::span<const ParamId> params() const override { return parameters; }
  Tensors forward(const Run&, Tensors in, Saved* saved) const override {
    ++forwards;
    recorded = saved != nullptr;
    return go(std::move(in), saved);
  }
  Tensors input_gradients(const Run&, Tensors& grad_out, Saved& saved,
                          std::span<const std::uint8_t> w) const override {
    ++backwards;
    wanted.assign(w.begin(), w.end());
    if (weigh) return back(grad_out, saved);
    return back(std::move(grad_out), std::move(saved));
  }
  void weight_gradients(const Run&, Tensors grad_out, Saved saved) const override {
    if (weigh) weigh(std::move(grad_out), std::move(saved));
  }
};

class TapeTest : public testing::Test {
 protected:
  Tensor tensor(const std::vector<double>& v) {
    Tensor t = Tensor::empty(backend, {static_cast<std::int64_t>(v.size())}, DType::f64,
                             MemoryKind::transient);
    backend.upload(Queue::compute, t.view(), std::as_bytes(std::span(v)));
    return t;
  }
  std::vector<double> values(const Tensor& t) {
    std::vector<double> v(static_cast<std::size_t>(t.shape().count()));
    backend.download(Queue::compute, std::as_writable_bytes(std::span(v)), t.view());
    return v;
  }
  Tensor scaled(const Tensor& x, double factor) {
    auto v = values(x);
    for (double& e : v) e *= factor;
    return tensor(v);
  }

  // y = factor x, in memory of its own both ways; saves x where it is told to.
  Fake scale(double factor, bool saves = false) {
    Fake op;
    op.go = [=, this](Tensors in, Saved* saved) {
      if (saved && saves) saved->keep(in[0]);
      return Tensors{scaled(in[0], factor)};
    };
    op.back = [=, this](Tensors dy, Saved) { return Tensors{scaled(dy[0], factor)}; };
    return op;
  }
  // y = a + b; backward hands on the same dy twice, as a residual connection does.
  Fake add() {
    Fake op;
    op.go = [this](Tensors in, Saved*) {
      auto v = values(in[0]);
      const auto w = values(in[1]);
      for (std::size_t i = 0; i < v.size(); ++i) v[i] += w[i];
      return Tensors{tensor(v)};
    };
    op.back = [](Tensors dy, Saved) { return Tensors{dy[0], dy[0]}; };
    return op;
  }

  Value both(Tape& tape, const Op& op, Value a, Value b) {
    std::vector<Value> in;
    in.push_back(std::move(a));
    in.push_back(std::move(b));
    return std::move(tape.apply(run, op, std::move(in))[0]);
  }
  std::size_t live() const { return backend.account().live_all; }

  Ref backend{Poison::on};
  NoWeights weights;
  Flags trainable{0, 1};  // parameter 0 is frozen, 1 is not
  trireme::Run run = make_run(backend, weights, nullptr, trainable);
};

inline constexpr ParamId frozen{0}, learning{1};

}  // namespace trireme
