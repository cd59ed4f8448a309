// What moves between ranks is a linear map A, and what runs backward is its transpose: <A x, y> =
// <x, A' y>, both sides summed over ranks. In f64: random numbers, so a wrong map fails by orders
// of magnitude more than rounding.
#include <cmath>

#include "lib/ops/collective.hpp"
#include "lib/ops/token_dispatch.hpp"
#include "tests/parallel/collective_test.hpp"

namespace trireme::test {
namespace {

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Numbers are below 1: rounding of a sum of n products.
void expect_adjoint(double forward, double backward, std::size_t n) {
  double both[] = {forward, backward, static_cast<double>(n)};
  world().all_reduce(both);
  EXPECT_NEAR(both[0], both[1], both[2] * 0x1p-53 * std::sqrt(both[2]));
  EXPECT_GT(std::fabs(both[0]), 1e-6);
}

class Adjoint : public testing::Test {
 protected:
  static int rank() { return world().rank(); }
  static int ranks() { return world().size(); }

  Tensor tensor(const Shape& shape, const std::vector<double>& values) {
    auto t = Tensor::empty(*backend_, shape, DType::f64, MemoryKind::transient);
    write(*backend_, Queue::compute, t.view(), values);
    return t;
  }
  std::vector<double> values(const Tensor& t) { return read(*backend_, Queue::compute, t.view()); }
  // Different on every rank.
  static std::vector<double> random(std::int64_t n, std::uint64_t seed) {
    return numbers(n, world().rank(), DType::f64, seed);
  }
  Queue after_compute(Queue q) {
    backend_->wait(q, backend_->record(Queue::compute));
    return q;
  }

  // Among all ranks.
  trireme::Run run() { return {*backend_, world(), nothing_, nullptr, {}, {}}; }
  std::vector<double> forward(const Op& op, const Shape& in, const std::vector<double>& x,
                              const Shape& out) {
    const auto ax = op.forward(run(), {tensor(in, x)}, nullptr)[0];
    EXPECT_EQ(ax.shape(), out);
    return values(ax);
  }
  std::vector<double> backward(const Op& op, const Shape& in, const std::vector<double>& y,
                               const Shape& out) {
    const std::uint8_t wanted = 1;
    const auto aty = op.backward(run(), {tensor(out, y)}, {}, {&wanted, 1})[0];
    EXPECT_EQ(aty.shape(), in);
    return values(aty);
  }
  void expect_adjoint_op(const Op& op, const Shape& in, const Shape& out) {
    const auto x = random(in.count(), 1), y = random(out.count(), 2);

    const auto ax = forward(op, in, x, out), aty = backward(op, in, y, out);

    expect_adjoint(dot(ax, y), dot(x, aty), x.size() + y.size());
  }

  std::unique_ptr<Backend> backend_ = open_backend({"ref", 1, true});

 private:
  class Nothing final : public Weights {
    ConstView operator[](ParamId) const override { fail("these ops have no weights"); }
  } nothing_;
};

constexpr std::int64_t t = 3, dim = 4;

std::vector<ops::Heads> all_heads() {
  std::vector<ops::Heads> all;
  for (const auto& [query, kv] : {std::pair{12, 12}, {12, 3}, {12, 1}, {9, 3}, {7, 7}, {4, 2}})
    if (query >= world().size()) all.push_back({query, kv, dim});
  return all;
}

TEST_F(Adjoint, HeadsAreSplit) {
  for (const auto& h : all_heads())
    for (const std::int64_t batch : {1, 3}) {
      SCOPED_TRACE(testing::Message() << h.query << " heads, " << h.kv << " kv, batch " << batch);
      const auto s = ops::head_share(h, rank(), ranks());
      const auto own = (s.query.count + 2 * s.kv.count) * dim;
      expect_adjoint_op(ops::SplitHeads(h), {batch, t, h.packed()}, {batch, t * ranks(), own});
    }
}

TEST_F(Adjoint, HeadsAreJoined) {
  for (const auto& h : all_heads())
    for (const std::int64_t batch : {1, 3}) {
      SCOPED_TRACE(testing::Message() << h.query << " heads, " << h.kv << " kv, batch " << batch);
      const auto s = ops::head_share(h, rank(), ranks());
      expect_adjoint_op(ops::JoinHeads(h), {batch, t * ranks(), s.query.count * dim},
                        {batch, t, h.query * dim});
    }
}

// That it is the right map: each number names its sample, position and head.
TEST_F(Adjoint, SplittingPutsHeadsWhereTheyBelong) {
  for (const auto& h : all_heads()) {
    SCOPED_TRACE(testing::Message() << h.query << " heads, " << h.kv << " kv");
    const std::int64_t batch = 3, all = h.query + 2 * h.kv;
    const auto number = [&](std::int64_t b, std::int64_t at, std::int64_t head) {
      return static_cast<double>((b * t * ranks() + at) * all + head);
    };
    std::vector<double> packed;
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t i = 0; i < t; ++i)
        for (std::int64_t head = 0; head < all; ++head)
          packed.insert(packed.end(), dim, number(b, rank() * t + i, head));
    const auto s = ops::head_share(h, rank(), ranks());
    std::vector<double> expected;
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t i = 0; i < t * ranks(); ++i)
        for (const auto& [first, count] :
             {s.query, ops::HeadRange{h.query + s.kv.begin, s.kv.count},
              ops::HeadRange{h.query + h.kv + s.kv.begin, s.kv.count}})
          for (std::int64_t head = first; head < first + count; ++head)
            expected.insert(expected.end(), dim, number(b, i, head));

    const auto own = (s.query.count + 2 * s.kv.count) * dim;

    const auto here =
        forward(ops::SplitHeads(h), {batch, t, all * dim}, packed, {batch, t * ranks(), own});

    EXPECT_EQ(here, expected);
  }
}

constexpr std::int64_t odd = 253;

TEST_F(Adjoint, GatherAndScatter) {
  const auto x = random(odd, 3), y = random(odd * ranks(), 4);
  const auto part = tensor({odd}, x), whole = tensor({odd * ranks()}, y);
  const auto gathered = tensor({odd * ranks()}, y), scattered = tensor({odd}, x);

  auto gather = world().all_gather(*backend_, after_compute(Queue::gather), gathered.view(),
                                   part.view(), {OperationKind::gather});
  auto scatter = world().reduce_scatter(*backend_, after_compute(Queue::scatter), scattered.view(),
                                        whole.view(), Accumulate::overwrite, DType::f64,
                                        {OperationKind::scatter});
  scatter.wait(Queue::compute);
  gather.wait(Queue::compute);

  expect_adjoint(dot(values(gathered), y), dot(x, values(scattered)), x.size() + y.size());
}

std::int64_t passed(int a, int b) {
  return a == b || (a + b) % 5 == 4 ? 0 : 20 * a + 7 * b + 1;
}

// Its inverse passes the same back the other way.
TEST_F(Adjoint, ExchangeAndItsInverse) {
  std::vector<Tensor> x, y, ax, aty;
  for (int r = 0; r < ranks(); ++r) {
    const auto to = passed(rank(), r), from = passed(r, rank());
    const auto blank = [&](std::int64_t n) {
      return n ? tensor({n}, std::vector<double>(static_cast<std::size_t>(n))) : Tensor();
    };
    const auto seed = static_cast<std::uint64_t>(r);
    x.push_back(to ? tensor({to}, random(to, 10 + seed)) : Tensor());
    aty.push_back(blank(to));
    y.push_back(from ? tensor({from}, random(from, 30 + seed)) : Tensor());
    ax.push_back(blank(from));
  }
  const auto run = [&](const std::vector<Tensor>& dst, const std::vector<Tensor>& src) {
    std::vector<View> to;
    std::vector<ConstView> from;
    for (const auto& d : dst) to.push_back(d.view());
    for (const auto& s : src) from.push_back(s.view());
    world()
        .exchange(*backend_, after_compute(Queue::exchange), to, from, {OperationKind::exchange})
        .wait(Queue::compute);
  };

  run(ax, x);
  run(aty, y);

  double forward = 0, backward = 0;
  std::size_t n = 0;
  for (std::size_t r = 0; r < x.size(); ++r) {
    if (ax[r]) forward += dot(values(ax[r]), values(y[r]));
    if (x[r]) backward += dot(values(x[r]), values(aty[r]));
    if (x[r]) n += values(x[r]).size();
  }
  if (ranks() > 1) expect_adjoint(forward, backward, n);
}

// Rows to the ranks of their experts, and back: the way back is the transpose of the way there.
// Every rank chooses otherwise; one has no rows.
TEST_F(Adjoint, TokensTravelToTheirExperts) {
  constexpr std::int64_t width = 5;
  ops::ExpertCounts counts{.ranks = ranks(), .experts = 2 * ranks() + 1};
  for (int r = 0; r < ranks(); ++r)
    for (std::int64_t e = 0; e < counts.experts; ++e)
      counts.rows.push_back(r == 1 ? 0 : (3 * r + 2 * e * e) % 7);
  std::int64_t rows = 0;
  for (std::int64_t e = 0; e < counts.experts; ++e) rows += counts.at(rank(), 0, e);
  for (const std::int64_t wanted : {0, 4}) {
    const auto most_of = [&](int r) {
      return ops::rows_of_round(counts, owned_experts(counts.experts, r, ranks()), wanted);
    };
    const ops::RoundPlan rounds{counts, ops::make_expert_rounds(counts, rank(), wanted, 4),
                                most_of(rank()), most_of(0)};
    const auto most = rounds.most;
    if (wanted == 4 && ranks() > 1) {
      EXPECT_GT(rounds.all.size(), 1U);
    }
    const Shape here{std::max<std::int64_t>(rows, 1), width};
    const auto x = random(here.count(), 7);
    const auto from = tensor(here, x), back = tensor(here, std::vector<double>(x.size()));
    double forward = 0;
    std::size_t n = 0;
    auto with_experts = run();
    const ExpertGroup group{world()};
    with_experts.expert_group = &group;
    for (std::size_t i = 0; i < rounds.all.size(); ++i) {
      const ops::TokenDispatch travel(with_experts, rounds, i);
      const auto ax =
          tensor({most, width}, std::vector<double>(static_cast<std::size_t>(most * width)));
      const auto y = random(most * width, 8 + i);
      const auto there = tensor(ax.shape(), y);
      const auto compute = [&](const ops::TokenDispatch::Chunk& chunk, const auto&) {
        const Shape some{chunk.count, width};
        return ops::TokenDispatch::ChunkResults{
            {{chunk.count > 0 ? there.slice(chunk.first * width, some) : Tensor{}, back}}};
      };
      travel.through({{from, ax}}, compute).wait();
      const auto count = static_cast<std::size_t>(travel.rows() * width);
      const auto arrived = values(ax);
      for (std::size_t k = 0; k < count; ++k) forward += arrived[k] * y[k];
      n += count;
    }
    const auto aty = values(back);
    double backward = 0;
    for (std::size_t k = 0; k < static_cast<std::size_t>(rows * width); ++k)
      backward += x[k] * aty[k];
    expect_adjoint(forward, backward, n + 1);
  }
}

// Down the ranks, and back up: what has no neighbour there sends or gets nothing.
TEST_F(Adjoint, SendAndReceive) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has nobody to send to";
  const bool below = rank() + 1 < ranks(), above = rank() > 0;
  const auto x = random(odd, 5), y = random(odd, 6);
  const auto out = tensor({odd}, x), back = tensor({odd}, y);
  const auto ax = tensor({odd}, x), aty = tensor({odd}, y);
  std::vector<Pending> pending;
  const auto down = after_compute(Queue::down), up = after_compute(Queue::up);
  constexpr Label sending{OperationKind::send, {}, 0}, receiving{OperationKind::receive, {}, 0};

  if (below) pending.push_back(world().send(*backend_, down, out.view(), rank() + 1, sending));
  if (above) pending.push_back(world().receive(*backend_, down, ax.view(), rank() - 1, receiving));
  if (above) pending.push_back(world().send(*backend_, up, back.view(), rank() - 1, sending));
  if (below) pending.push_back(world().receive(*backend_, up, aty.view(), rank() + 1, receiving));
  for (auto& p : pending) p.wait(Queue::compute);

  expect_adjoint(above ? dot(values(ax), y) : 0, below ? dot(x, values(aty)) : 0, x.size());
}

}  // namespace
}  // namespace trireme::test
