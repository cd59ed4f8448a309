#include "lib/ops/head.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/ref/ref.hpp"
#include "tests/ops/cases.hpp"

namespace trireme {
namespace {

constexpr double scale = 0.37;

struct Size {
  std::int64_t tokens, width, vocab;
};

// Logits are sums of C terms below 1, off by z; then softmax is relatively off by 2 z and what
// contract_token_test.cpp says, dz = scale (softmax - one) adds to at most 2 scale a row, and the
// loss of a row is off by 2 z and the rest.
OpCase::Slack slack(const Size& s) {
  constexpr auto t = DType::f32;
  const double u = roundoff(t), C = static_cast<double>(s.width), V = static_cast<double>(s.vocab);
  const double rows = static_cast<double>(s.tokens), z = sum_error(t, s.width, C) + u * C;
  const double relative = sum_error(t, s.vocab, 1) + 2 * u * C + 4 * u + 2 * z;
  OpCase::Slack slack;
  slack.y = rows * (relative + 4 * u * (std::log(V) + 1));
  slack.in = {scale * 2 * (relative + u) + sum_error(t, s.vocab, 2 * scale)};
  slack.params = {rows * scale * (relative + u) + sum_error(t, s.tokens, rows * scale)};
  return slack;
}

// About every fourth target is masked.
OpCase head(std::string name, const Size& s) {
  OpCase c;
  c.name = std::move(name);
  c.make = [=](Backend&, DType) { return std::make_unique<ops::Head>(ParamId{0}, s.vocab); };
  c.in = {random_numbers({1, s.tokens, s.width}, 1)};
  c.params = {random_numbers({s.vocab, s.width}, 2)};
  c.grad_out.shape = {1};
  c.rows = s.tokens;
  for (std::int64_t t = 0; t < s.tokens; ++t)
    c.targets.push_back(t % 4 == 2 ? -1 : static_cast<std::int32_t>((5 * t + 1) % s.vocab));
  c.pass.scale = scale;
  c.slack = slack(s);
  return c;
}

const std::int64_t head_rows = Ref().head_rows();
const Size chunks{2 * head_rows + 13, 3, 5};

OpRun on_ref(const OpCase& c, const Ask& ask = {}) {
  return run_op([] { return std::make_unique<Ref>(); }, DType::f64, c, ask);
}

bool all_zero(const std::vector<double>& v) {
  return std::ranges::all_of(v, [](double x) { return x == 0; });
}

// Every chunk without a target adds nothing, and its tokens get a gradient of zero.
TEST(Head, AllTargetsMasked) {
  OpCase c = head("masked", chunks);
  std::ranges::fill(c.targets, -1);

  const auto run = on_ref(c);

  EXPECT_TRUE(all_zero(run["y"].values));
  EXPECT_TRUE(all_zero(run["dx0"].values));
  EXPECT_TRUE(all_zero(run["dw0"].values));
}

TEST(Head, TargetsOfOneChunkAlone) {
  OpCase c = head("the second chunk", chunks);
  const auto first = c.targets.begin();
  std::fill(first, first + head_rows, -1);
  std::fill(first + 2 * head_rows, c.targets.end(), -1);
  OpCase alone = head("alone", {head_rows, chunks.width, chunks.vocab});
  const auto from = head_rows * chunks.width, to = 2 * from;
  const auto& x = c.in[0].values;
  alone.in[0].values.assign(x.begin() + from, x.begin() + to);
  alone.params = c.params;
  alone.targets.assign(first + head_rows, first + 2 * head_rows);

  const auto all = on_ref(c), one = on_ref(alone);

  EXPECT_EQ(all["y"].values, one["y"].values);
  EXPECT_EQ(all["dw0"].values, one["dw0"].values);
  auto dx = all["dx0"].values;
  const std::vector<double> inside(dx.begin() + from, dx.begin() + to);
  EXPECT_EQ(inside, one["dx0"].values);
  std::fill(dx.begin() + from, dx.begin() + to, 0);
  EXPECT_TRUE(all_zero(dx));
}

// One target more or less: the chunk's end is no special token.
TEST(Head, LossIsTheSumOverTokensAtEveryEnd) {
  for (const std::int64_t tokens :
       {head_rows - 1, head_rows, head_rows + 1, 2 * head_rows, 2 * head_rows + 1}) {
    const OpCase c = head("whole", {tokens, 3, 5});
    double sum = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      if (c.targets[static_cast<std::size_t>(t)] < 0) continue;
      double total = 0, own = 0;
      for (std::int64_t v = 0; v < 5; ++v) {
        double z = 0;
        for (std::int64_t i = 0; i < 3; ++i)
          z += c.in[0].values[static_cast<std::size_t>(3 * t + i)] *
               c.params[0].values[static_cast<std::size_t>(3 * v + i)];
        total += std::exp(z);
        if (v == c.targets[static_cast<std::size_t>(t)]) own = z;
      }
      sum += std::log(total) - own;
    }

    const auto run = on_ref(c);

    EXPECT_NEAR(run["y"].values[0], sum, 1e-13 * sum) << tokens;  // 513 terms and 20 roundings each
    EXPECT_EQ(run.rows, tokens);
  }
}

// Runs of rows that chunks cut: each is what it is where all other targets are masked.
TEST(Head, RowsHaveTheirOwnSumsAndScales) {
  const std::vector<LossRows> runs{{{0, head_rows - 5}, 1, 0.37},
                                   {{head_rows - 5, head_rows + 7}, 0, -2},
                                   {{head_rows + 7, chunks.tokens}, 2, 0.5}};
  OpCase c = head("runs", chunks);
  c.pass.losses = runs;
  c.pass.loss_sums = 3;
  c.grad_out.shape = {3};
  const auto all = on_ref(c);
  std::vector<double> dw(all["dw0"].values.size(), 0);
  for (const auto& [rows, sum, weight] : runs) {
    OpCase alone = head("alone", chunks);
    alone.pass.scale = weight;
    for (std::int64_t t = 0; t < chunks.tokens; ++t)
      if (t < rows.begin || t >= rows.end) alone.targets[static_cast<std::size_t>(t)] = -1;
    const auto one = on_ref(alone);
    const auto y = one["y"].values[0];
    EXPECT_NEAR(all["y"].values[static_cast<std::size_t>(sum)], y, 1e-13 * y);
    for (auto i = rows.begin * chunks.width; i < rows.end * chunks.width; ++i)
      EXPECT_EQ(all["dx0"].values[static_cast<std::size_t>(i)],
                one["dx0"].values[static_cast<std::size_t>(i)]);
    for (std::size_t i = 0; i < dw.size(); ++i) dw[i] += one["dw0"].values[i];
  }
  for (std::size_t i = 0; i < dw.size(); ++i) EXPECT_NEAR(all["dw0"].values[i], dw[i], 1e-11);
}

// At most one chunk's logits exist at a time: the peak does not grow with tokens but by x and dx.
TEST(Head, HoldsTheLogitsOfOneChunk) {
  const auto peak = [](std::int64_t tokens) {
    const auto run = on_ref(head("peak", {tokens, 2, 1000}));
    return run.after.peak_all - run.before.live_all;
  };
  const std::size_t logits = head_rows * 1000 * sizeof(double);

  EXPECT_LT(peak(8 * head_rows), logits + logits / 10);
  EXPECT_GE(peak(head_rows), logits);
}

}  // namespace

std::vector<OpCase> head_cases() {
  return {head("head", {10, 19, 21}), head("head of several chunks", chunks)};
}

}  // namespace trireme
