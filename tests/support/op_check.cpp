#include "tests/support/op_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tests/support/values.hpp"

namespace trireme {

Run make_run(Backend& b, const Weights& weights, Gradients* gradients,
             std::span<const std::uint8_t> trainable, const PassContext& pass) {
  static const Communicator alone;
  return {b, alone, weights, gradients, trainable, pass};
}

OpNumbers random_numbers(const Shape& s, std::uint64_t seed, double amplitude) {
  return {s, random_values(s.count(), seed, amplitude), {}};
}

const Lab::Result& OpRun::operator[](std::string_view name) const {
  for (const auto& r : results)
    if (r.name == name) return r;
  fail("the run has no result {}", name);
}

bool OpRun::has(std::string_view name) const {
  return std::ranges::any_of(results, [&](const auto& r) { return r.name == name; });
}

namespace {

std::vector<std::uint8_t> or_all(std::vector<std::uint8_t> given, std::size_t n, bool value) {
  if (given.empty()) given.assign(n, value);
  return given;
}

class GivenWeights final : public Weights {
 public:
  explicit GivenWeights(std::vector<View> views) : views_(std::move(views)) {}
  ConstView operator[](ParamId p) const override { return views_.at(p.index()); }

 private:
  std::vector<View> views_;
};

// Keeps the sums in the Lab and calls `fill` for the rows as the cut says.
class SumsInLab final : public Gradients {
 public:
  SumsInLab(Lab& lab, const OpCase& c, const std::vector<std::uint8_t>& trainable, const Cut& cut)
      : lab_(lab), cut_(cut) {
    for (std::size_t i = 0; i < c.params.size(); ++i) {
      sums.push_back(trainable[i] ? lab.wide_fresh(c.params[i].shape) : View{});
      scratch_.push_back(trainable[i] ? lab.wide_fresh(c.params[i].shape) : View{});
    }
    rows.resize(sums.size());
  }

  void add(std::span<const ParamId> params, std::int64_t n, const Fill& fill) override {
    ASSERT_FALSE(params.empty());
    const auto first = params[0].index();
    ASSERT_LE(first + params.size(), sums.size());
    for (std::size_t i = 0; i < params.size(); ++i) ASSERT_EQ(params[i].index(), first + i);
    const auto to = std::span(sums).subspan(first, params.size());
    ASSERT_TRUE(std::ranges::any_of(to, [](const View& v) { return bool(v); }))
        << "gradients are added for parameters that are all frozen";
    ASSERT_GT(n, 0);
    if (cut_.leaf == 0) {
      fill({0, n}, to, rows[first] == 0 ? Accumulate::overwrite : Accumulate::add);
    } else {
      if (rows[first] == 0) clear(to);
      const auto leaves = (n + cut_.leaf - 1) / cut_.leaf;
      for (std::int64_t i = 0; i < leaves; ++i) {
        const auto begin = (cut_.backwards ? leaves - 1 - i : i) * cut_.leaf;
        one_leaf({begin, std::min(n, begin + cut_.leaf)}, fill, to,
                 std::span(scratch_).subspan(first, params.size()));
      }
    }
    for (std::size_t i = 0; i < params.size(); ++i) rows[first + i] += n;
  }
  // Kernels add all rows at once.
  void add_whole(std::span<const ParamId> params, std::int64_t n, const FillWhole& fill) override {
    ASSERT_EQ(params.size(), 1U);
    const auto p = params[0].index();
    ASSERT_LT(p, sums.size());
    ASSERT_TRUE(sums[p]) << "a gradient is added for a frozen parameter";
    ASSERT_GT(n, 0);
    const View no_largest;
    fill({&sums[p], 1}, {&no_largest, 1}, rows[p] == 0 ? Accumulate::overwrite : Accumulate::add);
    rows[p] += n;
  }

  // Rows added to each parameter: the same for all that are trainable.
  std::int64_t rows_of_each() const {
    std::int64_t each = 0;
    for (std::size_t i = 0; i < sums.size(); ++i)
      if (sums[i]) {
        EXPECT_TRUE(each == 0 || rows[i] == each) << "parameter " << i << " got other rows";
        each = rows[i];
      }
    return each;
  }

  std::vector<View> sums;          // absent where the parameter is frozen
  std::vector<std::int64_t> rows;  // added to each

 private:
  void clear(std::span<const View> views) {
    for (const View& v : views)
      if (v) lab_.backend.put(Queue::compute, kernel::Fill{.dst = v, .value = 0});
  }
  void one_leaf(Rows r, const Fill& fill, std::span<const View> to, std::span<const View> scratch) {
    if (cut_.into == Accumulate::add) return fill(r, to, Accumulate::add);
    fill(r, scratch, Accumulate::overwrite);
    for (std::size_t i = 0; i < to.size(); ++i)
      if (to[i])
        lab_.backend.put(Queue::compute,
                         kernel::Copy{.dst = to[i], .src = scratch[i], .how = Accumulate::add});
  }

  Lab& lab_;
  Cut cut_;
  std::vector<View> scratch_;
};

// The case's numbers as views of a Lab.
struct Staged {
  Staged(Lab& lab, const OpCase& c) : pass(c.pass) {
    for (const auto& p : c.params) weights.push_back(lab.values(p.shape, p.values));
    for (const auto& x : c.in)
      in.push_back(x.ids.empty() ? lab.values(x.shape, x.values) : lab.ids(x.ids));
    if (!c.grad_out.values.empty()) grad_out = lab.values(c.grad_out.shape, c.grad_out.values);
    for (const auto& g : c.more_grad_out) more_grad_out.push_back(lab.values(g.shape, g.values));
    pass.rows = {lab.numbers(c.samples), c.t0};
    if (!c.targets.empty()) pass.targets_BT = lab.ids(c.targets);
    if (c.starts.empty()) return;
    const auto B = c.in[0].shape[0], T = c.in[0].shape[1];
    std::vector<std::int32_t> position;
    for (std::size_t i = 0; i < c.starts.size(); ++i)
      position.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(i) % T) - c.starts[i]);
    pass.start_BT = lab.ids(c.starts).reshaped({B, T});
    pass.position_BT = lab.ids(position).reshaped({B, T});
  }
  std::vector<View> weights, in, more_grad_out;
  View grad_out;
  PassContext pass;
};

// A tensor of its own with a view's numbers.
Tensor tensor_of(Backend& b, const OpNumbers& n, const View& staged) {
  if (!staged) return {};
  Tensor t = Tensor::empty(b, n.shape, staged.dtype, MemoryKind::transient);
  if (n.ids.empty())
    b.put(Queue::compute, kernel::Copy{.dst = t.view(), .src = staged});
  else
    b.upload(Queue::compute, t.view(), std::as_bytes(std::span(n.ids)));
  return t;
}

// Tensors that somebody else holds while an op gets them, and must keep their bits.
class Kept {
 public:
  explicit Kept(Lab& lab) : lab_(lab) {}
  void keep(const Tensor& t) { held_.emplace_back(t, lab_.bytes(t.view())); }
  void expect_untouched(const char* when) {
    for (const auto& [t, bytes] : held_)
      EXPECT_TRUE(lab_.bytes(t.view()) == bytes) << "a shared tensor was written in " << when;
  }

 private:
  Lab& lab_;
  std::vector<std::pair<Tensor, std::vector<std::byte>>> held_;
};

// The second half of an adjoint gets none.
struct NoWeights final : Weights {
  ConstView operator[](ParamId) const override { fail("weight gradients read a weight"); }
};

std::vector<Tensor> run_adjoint(const Op& op, const Run& run, std::vector<Tensor> grad_out,
                                Saved saved, std::span<const std::uint8_t> wanted, Adjoint how) {
  if (how == Adjoint::together)
    return op.backward(run, std::move(grad_out), std::move(saved), wanted);
  auto grad_in = op.input_gradients(run, grad_out, saved, wanted);
  const NoWeights none;
  const Run later{run.backend, run.seq,    none,       run.gradients,   run.trainable,
                  run.pass,    run.cached, run.totals, run.expert_group};
  op.weight_gradients(later, std::move(grad_out), std::move(saved));
  return grad_in;
}

}  // namespace

OpRun run_op(Lab& lab, const OpCase& c, const Ask& ask) {
  SCOPED_TRACE(c.name);
  auto& b = lab.backend;
  const auto trainable = or_all(ask.trainable, c.params.size(), true);
  auto wanted = or_all(ask.wanted, c.in.size(), true);
  for (std::size_t i = 0; i < c.in.size(); ++i) wanted[i] = wanted[i] && c.in[i].ids.empty();
  const auto shared = or_all(ask.shared, c.in.size(), false);
  const Staged staged(lab, c);
  const GivenWeights weights(staged.weights);
  SumsInLab gradients(lab, c, trainable, ask.cut);
  const Run run =
      make_run(b, weights, ask.gradients ? &gradients : nullptr, trainable, staged.pass);
  const auto op = c.make(b, lab.compute);

  OpRun done;
  done.before = b.account();
  const auto record = [&](std::string name, const Tensor& t, double slack) {
    lab.result(std::move(name), t.view(), slack);
  };
  {
    Kept kept(lab);
    std::vector<Tensor> in;
    for (std::size_t i = 0; i < c.in.size(); ++i) {
      in.push_back(tensor_of(b, c.in[i], staged.in[i]));
      if (shared[i]) kept.keep(in[i]);
    }
    Saved saved;
    auto out = op->forward(run, std::move(in), ask.record ? &saved : nullptr);
    EXPECT_EQ(out.size(), 1 + c.more_grad_out.size());
    kept.expect_untouched("forward");
    done.forward = b.account();
    record("y", out[0], c.slack.y);
    for (std::size_t i = 1; i < out.size(); ++i)
      record(fmt::format("y{}", i), out[i], c.slack.more[i - 1]);
    out.clear();
    if (ask.record) {
      Tensor grad = tensor_of(b, c.grad_out, staged.grad_out);
      if (ask.shared_gradient && grad) kept.keep(grad);
      std::vector<Tensor> grad_out;
      grad_out.push_back(std::move(grad));
      for (std::size_t i = 0; i < c.more_grad_out.size(); ++i)
        grad_out.push_back(tensor_of(b, c.more_grad_out[i], staged.more_grad_out[i]));
      const auto grad_in =
          run_adjoint(*op, run, std::move(grad_out), std::move(saved), wanted, ask.adjoint);
      EXPECT_EQ(grad_in.size(), c.in.size());
      kept.expect_untouched("backward");
      for (std::size_t i = 0; i < c.in.size(); ++i)
        if (wanted[i]) record(fmt::format("dx{}", i), grad_in[i], c.slack.in[i]);
    }
  }
  done.after = b.account();
  EXPECT_EQ(done.after.live_all, done.before.live_all) << "memory stays behind";
  for (std::size_t i = 0; i < gradients.sums.size(); ++i)
    if (gradients.sums[i] && gradients.rows[i] > 0)
      lab.result(fmt::format("dw{}", i), gradients.sums[i], c.slack.params[i]);
  done.rows = gradients.rows_of_each();
  done.results = lab.results;
  return done;
}

OpRun run_op(const std::function<std::unique_ptr<Backend>()>& open, DType compute, const OpCase& c,
             const Ask& ask) {
  const auto backend = open();
  const Workspace workspace(*backend);
  Lab lab(*backend, compute, compute);
  return run_op(lab, c, ask);
}

}  // namespace trireme
