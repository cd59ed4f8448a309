// Copies and fills of every stride.
#include <cstring>
#include <span>
#include <vector>

#include "kernels/host/kernels.hpp"
#include "tests/kernels/host_array.hpp"

namespace trireme {
namespace {

class HostCopies : public HostKernels {};

// A view of `base` with its dims in another order.
template <class V>
V permuted(const V& base, std::span<const int> order) {
  V v = base;
  for (std::size_t d = 0; d < order.size(); ++d) {
    v.extent[d] = base.extent[static_cast<std::size_t>(order[d])];
    v.stride[d] = base.stride[static_cast<std::size_t>(order[d])];
  }
  return v;
}

std::int64_t offset(const View& v, std::int64_t i) {
  std::int64_t at = 0;
  for (int d = v.dims; d-- > 0;) {
    const auto n = v.extent[static_cast<std::size_t>(d)];
    at += i % n * v.stride[static_cast<std::size_t>(d)];
    i /= n;
  }
  return at;
}

// dst and src are views into the arrays; dst and expected start with the same elements.
void expect_copied(const Array& to, const View& dst, const Array& from, const View& src,
                   Accumulate how) {
  Array expected(to);
  const auto first = [](const Array& a, const View& v) {
    return (v.data - a.view().data) / static_cast<std::ptrdiff_t>(bytes_of(v.dtype));
  };
  for (std::int64_t i = 0; i < dst.count(); ++i) {
    const auto at = first(to, dst) + offset(dst, i);
    const float x = from[first(from, src) + offset(src, i)];
    expected.set(at, how == Accumulate::add ? expected[at] + x : x);
  }
  host::run(kernel::Copy{.dst = dst, .src = src, .how = how}, {});
  EXPECT_EQ(to.bytes(), expected.bytes());
}

TEST_P(HostCopies, CopiesBetweenAnyStrides) {
  const Shape shape{35, 3, 2, 1, 2, 41};
  constexpr int orders[][6] = {{0, 1, 2, 3, 4, 5}, {0, 2, 1, 3, 4, 5}, {5, 4, 3, 2, 1, 0},
                               {4, 1, 0, 3, 5, 2}, {1, 5, 0, 4, 2, 3}, {0, 3, 2, 1, 4, 5}};
  for (const auto to_type : {DType::f32, DType::bf16}) {
    for (const auto& order : orders) {
      for (const auto how : {Accumulate::overwrite, Accumulate::add}) {
        const Array from(type(), shape, 1);
        const View src = permuted(from.view(), order);
        // Into a dense view, and into one with gaps.
        const Array dense(to_type,
                          {src.extent[0], src.extent[1], src.extent[2], src.extent[3],
                           src.extent[4], src.extent[5]},
                          2);
        expect_copied(dense, dense, from, src, how);
        const Array wide(to_type,
                         {src.extent[0], src.extent[1] + 1, src.extent[2], src.extent[3],
                          src.extent[4] + 3, src.extent[5]},
                         2);
        expect_copied(wide, wide.view().slice(1, 1, src.extent[1]).slice(4, 2, src.extent[4]), from,
                      src, how);
        // And back: dst is permuted.
        const Array back(to_type, shape, 3);
        const Array source(type(),
                           {src.extent[0], src.extent[1], src.extent[2], src.extent[3],
                            src.extent[4], src.extent[5]},
                           4);
        expect_copied(back, permuted(back.view(), order), source, source, how);
      }
    }
  }
}

TEST_P(HostCopies, CopiesBroadcastLongRowsAndNothing) {
  const Array row(type(), {70}, 1), to(type(), {9, 70}, 2);
  View src = row.view();
  src.dims = 2;
  src.extent = {9, 70};
  src.stride = {0, 1};
  expect_copied(to, to, row, src, Accumulate::add);
  src.stride = {0, 0};
  expect_copied(to, to, row, src, Accumulate::overwrite);
  const Array a(type(), {2, 100'003}, 3), b(DType::f32, {2, 100'001}, 4);
  expect_copied(b, b, a, a.view().slice(1, 1, 100'001), Accumulate::overwrite);
  expect_copied(a, a.view().slice(1, 2, 100'001), b, b, Accumulate::add);
  host::run(kernel::Copy{.dst = to.view().slice(0, 0, 0),
                         .src = row.view().reshaped({1, 70}).slice(0, 0, 0),
                         .how = Accumulate::add},
            {});
  const Array one(type(), {1, 1, 1}, 5), other(type(), {1, 1, 1}, 6);
  expect_copied(one, one, other, other, Accumulate::add);
}

// Large enough to go around the caches, and not aligned.
TEST_P(HostCopies, CopiesAndFillsLargeArrays) {
  const std::int64_t n = 4'300'007;
  const Array from(type(), {n}, 1), to(type(), {n});
  host::run(kernel::Copy{.dst = to, .src = from}, {});
  EXPECT_TRUE(to.bytes() == from.bytes());
  host::run(kernel::Fill{.dst = to.view().slice(0, 3, n - 5), .value = 0.5}, {});
  for (const std::int64_t kept : {0L, 1L, 2L, n - 2, n - 1}) EXPECT_EQ(to[kept], from[kept]);
  std::int64_t wrong = 0;
  for (std::int64_t i = 3; i < n - 2; ++i) wrong += to[i] != 0.5F;
  EXPECT_EQ(wrong, 0);
}

TEST_P(HostCopies, FillsViewsOfAnyStrides) {
  const Array x(type(), {70, 9}, 1);
  Array expected(x);
  for (std::int64_t t = 0; t < 70; ++t) {
    for (std::int64_t c = 2; c < 7; ++c) expected.set(t * 9 + c, -1.5F);
  }
  host::run(kernel::Fill{.dst = x.view().slice(1, 2, 5), .value = -1.5}, {});
  EXPECT_EQ(x.bytes(), expected.bytes());
  const List<std::int64_t> numbers{{1, 2, 3}};
  host::run(kernel::Fill{.dst = numbers.view(), .value = 7}, {});
  EXPECT_EQ(numbers.values, std::vector<std::int64_t>(3, 7));
}

INSTANTIATE_TEST_SUITE_P(Types, HostCopies, testing::Values(DType::f32, DType::bf16),
                         [](const auto& p) { return std::string(name_of(p.param)); });

}  // namespace
}  // namespace trireme
