#include "lib/autograd/tape.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/trace.hpp"

namespace trireme {

Value Tape::input(Tensor x, bool wanted) {
  wanted_.push_back(wanted);
  return {std::move(x), static_cast<std::int32_t>(wanted_.size()) - 1};
}

std::vector<Value> Tape::apply(const Run& run, const Op& op, std::vector<Value> in) {
  Step s{.op = &op};
  std::vector<Tensor> x;
  bool flows =
      std::ranges::any_of(op.params(), [&](ParamId p) { return run.trainable[p.index()] != 0; });
  for (auto& v : in) {
    flows = flows || wanted_[static_cast<std::size_t>(v.slot)];
    s.in.push_back(v.slot);
    x.push_back(std::move(v.data));
  }
  in.clear();
  const bool record = record_ != Record::off && flows;
  std::vector<Tensor> y;
  {
    const TraceScope span(op.name(), run.pass.microbatch);
    y = op.forward(run, std::move(x), record ? &s.saved : nullptr);
  }
  std::vector<Value> out;
  for (auto& t : y) {
    out.push_back(input(std::move(t), flows));
    s.out.push_back(out.back().slot);
  }
  if (record) steps_.push_back(std::move(s));
  run.seq.progress();
  return out;
}

Value Tape::apply(const Run& run, const Op& op, Value in) {
  std::vector<Value> one;
  one.push_back(std::move(in));
  return std::move(apply(run, op, std::move(one))[0]);
}

// Adds g to `sum`. Adds in place if no other tensor shares the memory, otherwise into new memory.
static void accumulate(Backend& b, Tensor& sum, Tensor&& g) {
  if (!sum) {
    sum = std::move(g);
    return;
  }
  if (!sum.unique() && g.unique()) std::swap(sum, g);
  if (!sum.unique()) {
    auto fresh = Tensor::empty(b, sum.shape(), sum.dtype(), MemoryKind::transient);
    b.put(Queue::compute, kernel::Copy{.dst = fresh.view(), .src = sum.view()});
    sum = std::move(fresh);
  }
  b.put(Queue::compute, kernel::Copy{.dst = sum.view(), .src = g.view(), .how = Accumulate::add});
}

// Destroys each step after its adjoint, so that its saved tensors are freed early. `adjoint`
// receives the step, the gradients of its outputs and a flag per input that says whether its
// gradient is wanted.
template <class Adjoint>
std::vector<Tensor> Tape::walk(const Run& run, std::span<const std::int32_t> roots,
                               std::vector<Tensor> seeds, std::span<const std::int32_t> leaves,
                               const Adjoint& adjoint) {
  std::vector<Tensor> grad(wanted_.size());
  for (std::size_t i = 0; i < roots.size(); ++i)
    if (auto& root = grad[static_cast<std::size_t>(roots[i])]; seeds[i])
      accumulate(run.backend, root, std::move(seeds[i]));
  while (!steps_.empty()) {
    Step s = std::move(steps_.back());
    steps_.pop_back();
    std::vector<Tensor> grad_out;
    for (auto v : s.out) grad_out.push_back(std::move(grad[static_cast<std::size_t>(v)]));
    std::vector<std::uint8_t> wanted;
    for (auto v : s.in) wanted.push_back(wanted_[static_cast<std::size_t>(v)]);
    std::vector<Tensor> grad_in;
    {
      const auto name = s.op ? s.op->name() : s.sequence->name();
      const TraceScope span(name, run.pass.microbatch, Direction::backward);
      grad_in = adjoint(s, std::move(grad_out), wanted);
    }
    for (std::size_t i = 0; i < grad_in.size(); ++i)
      if (grad_in[i] && wanted[i])
        accumulate(run.backend, grad[static_cast<std::size_t>(s.in[i])], std::move(grad_in[i]));
    run.seq.progress();
  }
  std::vector<Tensor> of_leaves;
  for (const auto leaf : leaves)
    of_leaves.push_back(std::move(grad[static_cast<std::size_t>(leaf)]));
  return of_leaves;
}

// Returns a vector that contains only `seed`. A braced initializer list would copy the tensor, and
// ops overwrite a gradient only if no other tensor shares it.
static std::vector<Tensor> alone(Tensor seed) {
  std::vector<Tensor> one;
  one.push_back(std::move(seed));
  return one;
}

std::vector<Tensor> Tape::backward(const Run& run, Slots roots, std::vector<Tensor> seeds,
                                   Slots leaves) {
  const auto whole = [](Tape& tape, const Run& here, Slots r, std::vector<Tensor> s, Slots l) {
    return tape.backward(here, r, std::move(s), l);
  };
  return walk(run, roots, std::move(seeds), leaves,
              [&](Step& s, auto grad_out, const auto& wanted) {
                if (s.sequence) return each_chunk_back(run, s, std::move(grad_out), wanted, whole);
                return s.op->backward(run, std::move(grad_out), std::move(s.saved), wanted);
              });
}

Tensor Tape::backward(const Run& run, std::int32_t root, Tensor seed, std::int32_t leaf) && {
  return std::move(backward(run, {&root, 1}, alone(std::move(seed)), {&leaf, 1})[0]);
}

std::vector<Tensor> Tape::input_gradients(const Run& run, Slots roots, std::vector<Tensor> seeds,
                                          Slots leaves) {
  const auto half = [&](Tape& tape, const Run& here, Slots r, std::vector<Tensor> s, Slots l) {
    auto grad_in = tape.input_gradients(here, r, std::move(s), l);
    std::ranges::move(tape.later_, std::back_inserter(later_));
    return grad_in;
  };
  return walk(run, roots, std::move(seeds), leaves,
              [&](Step& s, auto grad_out, const auto& wanted) {
                if (s.sequence) return each_chunk_back(run, s, std::move(grad_out), wanted, half);
                auto grad_in = s.op->input_gradients(run, grad_out, s.saved, wanted);
                if (std::ranges::any_of(s.op->params(), [&](ParamId p) { return run.wants(p); }))
                  later_.push_back({s.op, std::move(grad_out), std::move(s.saved)});
                return grad_in;
              });
}

Tensor Tape::input_gradients(const Run& run, std::int32_t root, Tensor seed, std::int32_t leaf) {
  return std::move(input_gradients(run, {&root, 1}, alone(std::move(seed)), {&leaf, 1})[0]);
}

void Tape::weight_gradients(const Run& run) && {
  std::ranges::reverse(later_);
  while (!later_.empty()) {
    Later l = std::move(later_.back());
    later_.pop_back();
    const TraceScope span(l.op->name(), run.pass.microbatch, Direction::backward);
    l.op->weight_gradients(run, std::move(l.grad_out), std::move(l.saved));
    run.seq.progress();
  }
}

}  // namespace trireme
