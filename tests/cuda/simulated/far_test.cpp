// Arrays of more than 2^31 elements. They lie in memory that is reserved and not there until it is
// touched; of each grid the last block runs, which ends at the last element, and what it makes of
// that has the bits of the same computation on a small array.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cuda/kernels/kernels.hpp"
#include "lib/base/digest.hpp"
#include "lib/base/error.hpp"
#include "tests/cuda/simulated/block.hpp"
#include "tests/cuda/simulated/streams.hpp"
#include "tests/support/values.hpp"

namespace trireme::cuda {
namespace {

constexpr std::int64_t two_31 = std::int64_t{1} << 31;
constexpr std::int64_t most_threads = 8192 * 256;  // of a kernel whose threads stride over the rest

// Zeros.
template <class T>
class Far {
 public:
  explicit Far(std::int64_t n) : n_(n) {
    void* p = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(p != MAP_FAILED, "{} bytes of addresses are not to be had", bytes());
    madvise(p, bytes(), MADV_NOHUGEPAGE);
    data_ = static_cast<T*>(p);
  }
  ~Far() { munmap(data_, bytes()); }
  Far(const Far&) = delete;
  Far& operator=(const Far&) = delete;

  T* data() const { return data_; }
  T* last(std::int64_t n) const { return data_ + n_ - n; }
  const Far& ends_in(const std::vector<T>& values) const {
    std::memcpy(last(std::ssize(values)), values.data(), values.size() * sizeof(T));
    return *this;
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(n_) * sizeof(T); }
  std::int64_t n_;
  T* data_;
};

template <class T>
std::vector<T> numbers(std::int64_t n, std::uint64_t seed) {
  std::vector<T> all;
  for (const double x : random_values(n, seed)) all.push_back(T(static_cast<float>(x)));
  return all;
}
template <class T>
std::vector<T> nothing(std::int64_t n) {
  return std::vector<T>(static_cast<std::size_t>(n));
}

// The last elements of `far`, and all of `near`.
template <class T>
void expect_same(const Far<T>& far, const std::vector<T>& near, const char* what) {
  EXPECT_EQ(std::memcmp(far.last(std::ssize(near)), near.data(), near.size() * sizeof(T)), 0)
      << what;
  const auto zeros = nothing<T>(std::ssize(near));
  EXPECT_NE(std::memcmp(zeros.data(), near.data(), near.size() * sizeof(T)), 0) << what;
}

// Where the kernel promises no more memory than there is (vm.overcommit_memory = 2, ulimit -v).
bool sparse_arrays_are_to_be_had() {
  constexpr std::size_t most = std::size_t{128} << 30;
  void* p = mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
  if (p == MAP_FAILED) return false;
  munmap(p, most);
  return true;
}

class OnSparseArrays : public testing::Test {
 protected:
  void SetUp() override {
    if (!sparse_arrays_are_to_be_had()) GTEST_SKIP() << "128 GiB of addresses are not to be had";
  }
};

template <class T>
class FarElements : public OnSparseArrays {
 protected:
  FarElements() { cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0); }
  ~FarElements() override { simulated::mend(); }

  // `kernel` puts its work on the stream.
  template <class F>
  void last_block(const F& kernel) {
    const simulated::LastBlocks one(1);
    all_blocks(kernel);
  }
  template <class F>
  void all_blocks(const F& kernel) {
    kernel(stream_);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess) << simulated::fault();
  }

  static constexpr std::int64_t pack = 16 / sizeof(T);
  // Of a kernel that strides: its last element is the last block's.
  static constexpr std::int64_t strided = two_31 + most_threads * pack;

 private:
  cudaStream_t stream_ = nullptr;
};
using Types = testing::Types<float, bf16>;
TYPED_TEST_SUITE(FarElements, Types);

TYPED_TEST(FarElements, Activate) {
  using T = TypeParam;
  constexpr std::int64_t n = TestFixture::strided, some = 64;
  const Far<T> x(n), y(n), dy(n), dx(n);
  const auto x1 = numbers<T>(some, 1), dy1 = numbers<T>(some, 2);
  auto y1 = nothing<T>(some), dx1 = y1;
  x.ends_in(x1);
  dy.ends_in(dy1);
  const auto gelu = Activation::gelu;
  this->last_block([&](Stream s) {
    activate(s, gelu, y.data(), x.data(), n);
    activate_grad(s, gelu, dx.data(), dy.data(), x.data(), n);
  });
  this->all_blocks([&](Stream s) {
    activate(s, gelu, y1.data(), x1.data(), some);
    activate_grad(s, gelu, dx1.data(), dy1.data(), x1.data(), some);
  });
  expect_same(y, y1, "y");
  expect_same(dx, dx1, "dx");
}

TYPED_TEST(FarElements, Swiglu) {
  using T = TypeParam;
  constexpr std::int64_t width = 64, rows = TestFixture::strided / width;
  const Far<T> gate_up(rows * 2 * width), y(rows * width), dy(rows * width), d(rows * 2 * width);
  const auto gate_up1 = numbers<T>(2 * width, 1), dy1 = numbers<T>(width, 2);
  auto y1 = nothing<T>(width), d1 = nothing<T>(2 * width);
  gate_up.ends_in(gate_up1);
  dy.ends_in(dy1);
  this->last_block([&](Stream s) {
    swiglu(s, y.data(), gate_up.data(), rows, width);
    swiglu_grad(s, d.data(), dy.data(), gate_up.data(), rows, width);
  });
  this->all_blocks([&](Stream s) {
    swiglu(s, y1.data(), gate_up1.data(), 1, width);
    swiglu_grad(s, d1.data(), dy1.data(), gate_up1.data(), 1, width);
  });
  expect_same(y, y1, "y");
  expect_same(d, d1, "dgate_up");
}

TYPED_TEST(FarElements, Rotary) {
  using T = TypeParam;
  constexpr std::int64_t dim = 128, tokens = (two_31 + most_threads * dim) / dim;
  const Far<T> x(tokens * dim);
  const Far<float> table(tokens * dim);
  auto x1 = numbers<T>(dim, 1);
  const auto table1 = numbers<float>(dim, 2);
  x.ends_in(x1);
  table.ends_in(table1);
  this->last_block([&](Stream s) {
    rotary(s, Heads<T>{x.data(), 0, dim, dim}, table.data(), 1, 1, tokens, 1, dim);
  });
  this->all_blocks([&](Stream s) {
    rotary(s, Heads<T>{x1.data(), 0, dim, dim}, table1.data(), 1, 1, 1, 1, dim);
  });
  expect_same(x, x1, "x");
}

TYPED_TEST(FarElements, Dropout) {
  using T = TypeParam;
  constexpr std::int64_t width = 512, rows = TestFixture::strided / width;
  const std::array<std::int64_t, 1> sample{(std::int64_t{1} << 40) + 7};
  const DropoutKey key{1234567, 0.5F};
  const Far<T> x(rows * width), skip(rows * width), y(rows * width);
  const auto x1 = numbers<T>(width, 1), skip1 = numbers<T>(width, 2);
  auto y1 = nothing<T>(width);
  x.ends_in(x1);
  skip.ends_in(skip1);
  this->last_block([&](Stream s) {
    dropout(s,
            Dropped<T>{y.data(), x.data(), skip.data(), key, {1, rows, width, 0, sample.data()}});
  });
  this->all_blocks([&](Stream s) {
    dropout(s,
            Dropped<T>{
                y1.data(), x1.data(), skip1.data(), key, {1, 1, width, rows - 1, sample.data()}});
  });
  expect_same(y, y1, "y");
}

TYPED_TEST(FarElements, Copy) {
  using T = TypeParam;
  constexpr std::int64_t n = TestFixture::strided, some = 64;
  const auto x1 = numbers<T>(some, 1), one = numbers<T>(1, 2);
  const Far<T> x(n), y(n), sum(n);
  x.ends_in(x1);
  sum.ends_in(x1);
  const CopyShape whole{1, {n}, {1}, {1}};
  this->last_block([&](Stream s) {
    copy(s, y.data(), x.data(), whole, Accumulate::overwrite);
    copy(s, sum.data(), x.data(), whole, Accumulate::add);
  });
  expect_same(y, x1, "whole");
  auto twice = nothing<T>(some);
  for (std::size_t i = 0; i < twice.size(); ++i) twice[i] = T(2 * static_cast<float>(x1[i]));
  expect_same(sum, twice, "added");

  // One by one, with gaps: the columns of a matrix become the rows of another.
  constexpr std::int64_t rows = 8, columns = two_31 / rows + most_threads / rows;
  const Far<T> turned(rows * columns);
  const CopyShape turn{2, {rows, columns}, {1, rows}, {columns, 1}};
  const Far<T> matrix(rows * columns);
  matrix.ends_in(x1);
  this->last_block(
      [&](Stream s) { copy(s, turned.data(), matrix.data(), turn, Accumulate::overwrite); });
  expect_same(turned, std::vector<T>{x1.back()}, "turned");

  this->last_block([&](Stream s) { fill(s, y.data(), one[0], whole); });
  expect_same(y, std::vector<T>(64, one[0]), "filled");
}

TYPED_TEST(FarElements, Norm) {
  using T = TypeParam;
  constexpr std::int64_t width = 8192, rows = two_31 / width + 8;
  const Far<T> x(rows * width), y(rows * width), skip(rows * width), sum(rows * width);
  const Far<float> means(rows), rstds(rows);
  const auto x1 = numbers<T>(width, 1), skip1 = numbers<T>(width, 2), w = numbers<T>(width, 3),
             b = numbers<T>(width, 4);
  auto y1 = nothing<T>(width), sum1 = y1;
  auto mean1 = nothing<float>(1), rstd1 = mean1;
  x.ends_in(x1);
  skip.ends_in(skip1);
  const std::array<std::int64_t, 1> sample{3};
  const DropoutKey key{99, 0.3F};
  const auto norm_of = [&](T* to, float* mean, float* rstd, const T* from, std::int64_t n) {
    return NormRows<T>{
        to,   mean, rstd, from, w.data(), b.data(), n, width, 1.0F / static_cast<float>(width),
        1e-5F};
  };
  this->last_block(
      [&](Stream s) { norm(s, norm_of(y.data(), means.data(), rstds.data(), x.data(), rows)); });
  this->all_blocks(
      [&](Stream s) { norm(s, norm_of(y1.data(), mean1.data(), rstd1.data(), x1.data(), 1)); });
  expect_same(y, y1, "y");
  expect_same(means, mean1, "mean");
  expect_same(rstds, rstd1, "rstd");

  this->last_block([&](Stream s) {
    residual_norm(s,
                  Dropped<T>{sum.data(), x.data(), skip.data(), key,
                             DropoutRows{1, rows, width, 0, sample.data()}},
                  norm_of(y.data(), means.data(), rstds.data(), sum.data(), rows));
  });
  this->all_blocks([&](Stream s) {
    residual_norm(s,
                  Dropped<T>{sum1.data(), x1.data(), skip1.data(), key,
                             DropoutRows{1, 1, width, rows - 1, sample.data()}},
                  norm_of(y1.data(), mean1.data(), rstd1.data(), sum1.data(), 1));
  });
  expect_same(sum, sum1, "sum");
  expect_same(y, y1, "y of the sum");
  expect_same(rstds, rstd1, "rstd of the sum");
}

TYPED_TEST(FarElements, NormGradient) {
  using T = TypeParam;
  // The 528 blocks take rows in turns, one each at this width: the last row is the last block's.
  constexpr std::int64_t width = 8192, rows = 528 * 497;
  static_assert(rows * width > two_31);
  const Far<T> dx(rows * width), onto(rows * width), dy(rows * width), x(rows * width);
  const Far<float> means(rows), rstds(rows);
  const auto onto1 = numbers<T>(width, 1), dy1 = numbers<T>(width, 2), x1 = numbers<T>(width, 3),
             w = numbers<T>(width, 4);
  const std::vector<float> mean1{0.25F}, rstd1{1.5F};
  onto.ends_in(onto1);
  dy.ends_in(dy1);
  x.ends_in(x1);
  means.ends_in(mean1);
  rstds.ends_in(rstd1);
  auto dx1 = nothing<T>(width);
  auto db = nothing<float>(width), scratch = nothing<float>(2 * 528 * width);
  this->last_block([&](Stream s) {
    norm_grad(s, NormGradRows<T>{dx.data(), nullptr, db.data(), Accumulate::overwrite, onto.data(),
                                 dy.data(), x.data(), w.data(), means.data(), rstds.data(), rows,
                                 width, 1.0F / static_cast<float>(width), scratch.data()});
  });
  this->all_blocks([&](Stream s) {
    norm_grad(s, NormGradRows<T>{dx1.data(), nullptr, nullptr, Accumulate::overwrite, onto1.data(),
                                 dy1.data(), x1.data(), w.data(), mean1.data(), rstd1.data(), 1,
                                 width, 1.0F / static_cast<float>(width), scratch.data()});
  });
  expect_same(dx, dx1, "dx");
  EXPECT_EQ(db.back(), static_cast<float>(dy1.back()));
}

TYPED_TEST(FarElements, ColumnSum) {
  using T = TypeParam;
  constexpr std::int64_t width = 8192, rows = two_31 / width + 200;
  const Far<T> x(rows * width);
  const auto x1 = numbers<T>(width, 1);
  x.ends_in(x1);
  auto out = nothing<float>(width), scratch = nothing<float>(width * (rows / 256 + 1));
  this->last_block([&](Stream s) {
    column_sum(s, out.data(), Accumulate::overwrite, x.data(), rows, width, scratch.data());
  });
  EXPECT_EQ(out.back(), static_cast<float>(x1.back()));
}

TYPED_TEST(FarElements, SumOfSquares) {
  using T = TypeParam;
  constexpr std::int64_t part = 8192, n = two_31 + part;
  const Far<T> x(n);
  const auto x1 = numbers<T>(part, 1);
  x.ends_in(x1);
  const std::array<Array<T>, 1> far{Array<T>{x.data(), n}}, near{Array<T>{x1.data(), part}};
  auto scratch = nothing<double>(n / part);
  double sum = 0, sum1 = 1;
  this->last_block([&](Stream s) { sum_squares<T>(s, &sum, far, scratch.data()); });
  this->all_blocks([&](Stream s) { sum_squares<T>(s, &sum1, near, scratch.data()); });
  EXPECT_EQ(sum, sum1);
}

TYPED_TEST(FarElements, Embedding) {
  using T = TypeParam;
  constexpr std::int64_t width = 8192, rows = two_31 / width + 2048, vocab = rows;
  const Far<T> table(vocab * width), y(rows * width);
  const Far<float> dtable(vocab * width);
  const auto row = numbers<T>(width, 1);
  table.ends_in(row);
  auto ids = nothing<std::int32_t>(rows);
  ids.back() = static_cast<std::int32_t>(vocab - 1);
  this->last_block(
      [&](Stream s) { embedding(s, y.data(), ids.data(), table.data(), rows, width); });
  expect_same(y, std::vector<T>(row.end() - 256 * TestFixture::pack, row.end()), "y");

  auto scratch = nothing<std::byte>(static_cast<std::int64_t>(embedding_scratch(rows)));
  this->last_block([&](Stream s) {
    embedding_grad(s, dtable.data(), y.data(), ids.data(), rows, width, vocab, scratch.data());
  });
  expect_same(dtable, std::vector<float>{static_cast<float>(row.back())}, "dtable");
}

TYPED_TEST(FarElements, CrossEntropy) {
  using T = TypeParam;
  constexpr std::int64_t vocab = 65536, rows = two_31 / vocab + 4;
  const Far<T> z(rows * vocab);
  auto z1 = numbers<T>(vocab, 1);
  z.ends_in(z1);
  auto targets = nothing<std::int32_t>(rows);
  targets.back() = static_cast<std::int32_t>(vocab - 1);
  auto of_rows = nothing<double>(rows);
  double loss = 0, loss1 = 1;
  const auto how = Accumulate::overwrite;
  this->last_block([&](Stream s) {
    cross_entropy(s, &loss, how, z.data(), targets.data(), rows, vocab, 0.5F, true, of_rows.data());
  });
  this->all_blocks([&](Stream s) {
    cross_entropy(s, &loss1, how, z1.data(), &targets.back(), 1, vocab, 0.5F, true, of_rows.data());
  });
  EXPECT_EQ(loss, loss1);
  expect_same(z, z1, "gradient");
}

TYPED_TEST(FarElements, Update) {
  using T = TypeParam;
  constexpr std::int64_t part = 4096, n = two_31 + part;
  const Far<float> w(n), g(n), m(n), v(n);
  const Far<T> kept(n);
  auto w1 = numbers<float>(part, 1), g1 = numbers<float>(part, 2), m1 = numbers<float>(part, 3),
       v1 = std::vector<float>(part, 0.5F);
  auto kept1 = nothing<T>(part);
  w.ends_in(w1);
  g.ends_in(g1);
  m.ends_in(m1);
  v.ends_in(v1);
  const UpdateFactors factors{.lr = 0.1, .decay = 0.1, .count = 3};
  const UpdateRule rule = rule::AdamW{};
  using Shard = UpdateShard<T>;
  const std::array<Shard, 1> far{
      Shard{w.data(), kept.data(), g.data(), {m.data(), v.data()}, n, factors}},
      near{Shard{w1.data(), kept1.data(), g1.data(), {m1.data(), v1.data()}, part, factors}};
  this->last_block([&](Stream s) { update<T>(s, rule, far); });
  this->all_blocks([&](Stream s) { update<T>(s, rule, near); });
  expect_same(w, w1, "w");
  expect_same(kept, kept1, "copy");
  expect_same(m, m1, "m");
  expect_same(v, v1, "v");
}

TYPED_TEST(FarElements, Attention) {
  using T = TypeParam;
  // All samples and heads read the same rows; what there is of each is beyond 2^31.
  constexpr std::int64_t D = 8, tokens = two_31 / 65535 + 40, samples = 65535;
  static_assert(samples * tokens > two_31);
  const auto q1 = numbers<T>(tokens * D, 1), k1 = numbers<T>(tokens * D, 2),
             v1 = numbers<T>(tokens * D, 3), do1 = numbers<T>(tokens * D, 4);
  const std::int64_t apart = two_31;  // from the first sample of two to the second
  const auto far_rows = [&](const std::vector<T>& rows) {
    auto far = std::make_unique<Far<T>>(apart + tokens * D);
    far->ends_in(rows);
    return far;
  };
  const auto q = far_rows(q1), k = far_rows(k1), v = far_rows(v1), d_o = far_rows(do1),
             o = far_rows(nothing<T>(1)), dq = far_rows(nothing<T>(1)),
             dk = far_rows(nothing<T>(1)), dv = far_rows(nothing<T>(1));
  const auto heads_of = [&]<class U>(U* data, std::int64_t sample) {
    return Heads<U>{data, sample, D, D};
  };
  const auto inputs = [&](const T* qs, const T* ks, const T* vs, std::int64_t sample,
                          std::int64_t n) {
    return AttentionInputs<T>{heads_of(qs, sample), heads_of(ks, sample), heads_of(vs, sample),
                              AttentionDims{n, tokens, 1, 1, D, 0.5F}};
  };
  auto o1 = nothing<T>(tokens * D), dq1 = o1, dk1 = o1, dv1 = o1;
  auto lse1 = nothing<float>(tokens), delta1 = lse1;
  // The last 8 positions of the second of two samples, and what they would be alone.
  std::vector<float> lse2(static_cast<std::size_t>(2 * tokens)), delta2 = lse2;
  this->last_block([&](Stream s) {
    attention(s, heads_of(o->data(), apart), lse2.data(),
              inputs(q->data(), k->data(), v->data(), apart, 2));
    attention(s, heads_of(o1.data(), 0), lse1.data(),
              inputs(q1.data(), k1.data(), v1.data(), 0, 1));
  });
  const auto tail = [](const auto& all) {
    return std::remove_cvref_t<decltype(all)>(all.end() - 8, all.end());
  };
  expect_same(*o, tail(o1), "o");
  EXPECT_EQ(lse2.back(), lse1.back());

  this->last_block([&](Stream s) {
    const auto gradients = [&](auto& to_q, auto& to_k, auto& to_v, const T* d_rows, const T* rows,
                               const float* lse, float* delta, std::int64_t sample) {
      return AttentionGradients<T>{heads_of(to_q.data(), sample),
                                   heads_of(to_k.data(), sample),
                                   heads_of(to_v.data(), sample),
                                   heads_of(d_rows, sample),
                                   heads_of(rows, sample),
                                   lse,
                                   delta};
    };
    const T *const far_do = d_o->data(), *const far_o = o->data();
    attention_grad(s, gradients(*dq, *dk, *dv, far_do, far_o, lse2.data(), delta2.data(), apart),
                   inputs(q->data(), k->data(), v->data(), apart, 2));
    attention_grad(s,
                   gradients(dq1, dk1, dv1, do1.data(), o1.data(), lse1.data(), delta1.data(), 0),
                   inputs(q1.data(), k1.data(), v1.data(), 0, 1));
  });
  expect_same(*dq, tail(dq1), "dq");
  expect_same(*dk, tail(dk1), "dk");
  expect_same(*dv, tail(dv1), "dv");

  // Statistics of more than 2^31 rows.
  const Far<float> lse(samples * tokens);
  this->last_block([&](Stream s) {
    attention(s, heads_of(o1.data(), 0), lse.data(),
              inputs(q1.data(), k1.data(), v1.data(), 0, samples));
  });
  expect_same(lse, {lse1.back()}, "lse");
}

class FarGrids : public FarElements<float> {};

TEST_F(FarGrids, Digest) {
  constexpr std::int64_t part = std::int64_t{1024} * digest::bytes_a_block,
                         bytes = (two_31 << 2) + part;
  const Far<std::byte> x(bytes);
  std::vector<std::byte> x1;
  for (std::int64_t i = 0; i < part; ++i)
    x1.push_back(static_cast<std::byte>(hash64(1, static_cast<std::uint64_t>(i))));
  x.ends_in(x1);
  const std::array<DigestPart, 1> far{DigestPart{x.data(), bytes, 5}},
      near{DigestPart{x1.data(), part, 5 + (bytes - part) / digest::bytes_a_block}};
  auto scratch = nothing<std::byte>(static_cast<std::int64_t>(digest_scratch(far)));
  std::int64_t sum = 0, sum1 = 1;
  last_block([&](Stream s) { digest_parts(s, &sum, far, scratch.data()); });
  all_blocks([&](Stream s) { digest_parts(s, &sum1, near, scratch.data()); });
  EXPECT_EQ(sum, sum1);
}

TEST_F(FarGrids, PartialSumsOfTwoArrays) {
  constexpr std::int64_t width = 8192, parts = two_31 / width + 4;
  const Far<float> partials(2 * parts * width);
  auto a = nothing<float>(width), b = a;
  partials.ends_in({3.5F});
  last_block([&](Stream s) {
    add_partials(s, a.data(), b.data(), Accumulate::overwrite, partials.data(), parts, width);
  });
  EXPECT_EQ(b.back(), 3.5F);
}

// Rows that would be more than 65,535 blocks along y.
TEST_F(FarGrids, ColumnSumOfManyRows) {
  constexpr std::int64_t rows = 256 * 65536 + 1;
  const Far<float> x(rows);
  x.ends_in({2.5F});
  auto scratch = nothing<float>(rows / 256 + 1);
  float out = 0;
  last_block([&](Stream s) {
    column_sum(s, &out, Accumulate::overwrite, x.data(), rows, 1, scratch.data());
  });
  EXPECT_EQ(out, 2.5F);
}

// 2^40 threads' worth: 2^32 blocks before they are cut to what a device has use for.
TEST_F(FarGrids, MoreBlocksThanANumberHolds) {
  const Far<bf16> x(64);
  const CopyShape same{2, {std::int64_t{1} << 40, 1}, {0, 1}, {0, 1}};
  const simulated::LastBlocks none(0);
  all_blocks([&](Stream s) { fill(s, x.data(), bf16(1.0F), same); });
}

// What a grid has no place for is refused: the rows left out would be wrong in silence.
TEST_F(FarGrids, RefusesMoreRowsThanAGridHas) {
  constexpr std::int64_t many = (std::int64_t{1} << 32) + 8;
  float some = 0;
  double loss = 0;
  std::int32_t target = 0;
  const NormRows<float> rows{&some, &some, &some, &some, &some, &some, many, 1, 1, 1e-5F};
  const simulated::LastBlocks none(0);
  const auto how = Accumulate::add;
  all_blocks([&](Stream s) {
    EXPECT_THROW(norm(s, rows), Error);
    EXPECT_THROW(residual_norm(s, Dropped<float>{}, rows), Error);
    EXPECT_THROW(cross_entropy(s, &loss, how, &some, &target, many, 1, 1, false, &loss), Error);
    EXPECT_THROW(column_sum(s, &some, how, &some, many << 8, 1, &some), Error);
  });
  EXPECT_THROW(embedding_scratch(many), Error);
}

}  // namespace
}  // namespace trireme::cuda
