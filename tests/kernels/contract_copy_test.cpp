#include <fmt/format.h>

#include "tests/support/contract.hpp"

namespace trireme {
namespace {

class CopyContract : public ContractTest {};
INSTANTIATE_TEST_SUITE_P(Backends, CopyContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

constexpr auto queue = Queue::compute;

View permuted(const View& v, const std::vector<int>& order) {
  View p = v;
  std::size_t to = 0;
  for (const int d : order) {
    const auto from = static_cast<std::size_t>(d);
    p.extent[to] = v.extent[from];
    p.stride[to++] = v.stride[from];
  }
  return p;
}

std::vector<double> random_of(Lab& lab, const Shape& s, std::uint64_t seed) {
  return lab.read(lab.wide_random(s, seed));
}

// An addition is rounded in the wide type first.
double slack_of(const Lab& lab, Accumulate how) {
  return how == Accumulate::add ? 2 * roundoff(wide(lab.tested)) : 0;
}

TEST_P(CopyContract, PermutesDims) {
  for (const auto how : {Accumulate::overwrite, Accumulate::add})
    for (const auto& order :
         {std::vector<int>{0, 1, 2, 3}, {0, 2, 1, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}})
      compare(fmt::format("order {}", fmt::join(order, " ")), [=](Lab& lab) {
        const View src = permuted(lab.random({5, 33, 7, 65}, 1), order);
        const auto& n = src.extent;
        const Shape s{n[0], n[1], n[2], n[3]};
        const View dst = how == Accumulate::add ? lab.random(s, 2) : lab.fresh(s);
        lab.backend.put(queue, kernel::Copy{.dst = dst, .src = src, .how = how});
        lab.result("dst", dst, slack_of(lab, how));
      });
}

TEST_P(CopyContract, WritesStridedParts) {
  for (const auto how : {Accumulate::overwrite, Accumulate::add})
    compare(how == Accumulate::add ? "add" : "overwrite", [how](Lab& lab) {
      const View src = lab.random({33, 5, 9}, 1).slice(2, 1, 7), dst = lab.random({5, 40, 7}, 2);
      lab.backend.put(
          queue,
          kernel::Copy{.dst = permuted(dst.slice(1, 3, 33), {1, 0, 2}), .src = src, .how = how});
      lab.result("dst", dst, slack_of(lab, how));
    });
}

TEST_P(CopyContract, RepeatsRows) {
  compare("rows of stride 0", [](Lab& lab) {
    View rows = lab.random({33, 65}, 1);
    rows.dims = 3;
    rows.extent = {5, 33, 65};
    rows.stride = {0, 65, 1};
    const View dst = lab.random({5, 33, 65}, 2);
    lab.backend.put(queue, kernel::Copy{.dst = dst, .src = rows, .how = Accumulate::add});
    lab.result("dst", dst, slack_of(lab, Accumulate::add));
  });
}

TEST_P(CopyContract, CastsBetweenTypes) {
  for (const auto from : {DType::f32, DType::bf16})
    for (const auto to : {DType::f32, DType::bf16})
      for (const auto how : {Accumulate::overwrite, Accumulate::add})
        for (const std::int64_t n : {1, 7, 65, 5000})
          compare(fmt::format("{} to {}, {}", name_of(from), name_of(to), n), [=](Lab& lab) {
            const View src = lab.of_type(from, {n}, random_of(lab, {n}, 1));
            const View dst = lab.of_type(to, {n}, random_of(lab, {n}, 2));
            const View turned = lab.of_type(to, {65, 7}, random_of(lab, {65, 7}, 3));
            const View across = lab.of_type(from, {7, 65}, random_of(lab, {7, 65}, 4));
            lab.backend.put(queue, kernel::Copy{.dst = dst, .src = src, .how = how});
            lab.backend.put(queue,
                            kernel::Copy{.dst = turned, .src = across.transposed(), .how = how});
            lab.result("dst", dst, slack_of(lab, how));
            lab.result("turned", turned, slack_of(lab, how));
          });
}

TEST_P(CopyContract, MovesIdsAndNumbers) {
  run([](Lab& lab) {
    const View ids = lab.ids({1, -1, 50000, 4, 5, 6}).reshaped({2, 3});
    const View turned = lab.ids({0, 0, 0, 0, 0, 0}).reshaped({3, 2});
    lab.backend.put(queue, kernel::Copy{.dst = turned, .src = ids.transposed()});
    EXPECT_EQ(lab.read(turned), (std::vector<double>{1, 4, -1, 5, 50000, 6}));
    const View numbers = lab.numbers({(1LL << 62) + 1}), moved = lab.numbers({0});
    lab.backend.put(queue, kernel::Copy{.dst = moved, .src = numbers});
    EXPECT_EQ(lab.bytes(moved), lab.bytes(numbers));
  });
}

TEST_P(CopyContract, Fills) {
  compare("fill", [](Lab& lab) {
    const View x = lab.random({33, 9, 65}, 1), sums = lab.wide_fresh({257});
    const View ids = lab.ids({1, 2, 3, 4, 5});
    lab.backend.put(queue, kernel::Fill{.dst = x.slice(1, 1, 7), .value = 0.1});
    lab.backend.put(queue, kernel::Fill{.dst = sums, .value = -2});
    lab.backend.put(queue, kernel::Fill{.dst = ids.slice(0, 1, 3), .value = -1});
    lab.result("x", x, roundoff(wide(lab.tested)));  // 0.1 may be rounded to f32 first
    lab.result("sums", sums, 0);
    lab.result("ids", ids, 0);
  });
}

}  // namespace
}  // namespace trireme
