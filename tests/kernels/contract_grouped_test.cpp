// Products with a matrix an expert: many rows, rows by themselves, counts of quanta. Biases of
// experts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/base/fixed.hpp"
#include "tests/support/contract.hpp"

namespace trireme {
namespace {

constexpr auto queue = Queue::compute;

using Offsets = std::vector<std::int32_t>;

class GroupedContract : public ContractTest {};
INSTANTIATE_TEST_SUITE_P(Backends, GroupedContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

Offsets offsets_of(const std::vector<std::int32_t>& rows) {
  Offsets offset{0};
  for (const auto n : rows) offset.push_back(offset.back() + n);
  return offset;
}

// All rows with one expert, some without any, few and many.
const std::vector<std::vector<std::int32_t>> groups{
    {1},          {0, 0, 9},          {9, 0, 0},
    {1, 1, 1, 1}, {2, 3, 1},          {5, 0, 12, 3},
    {33, 7},      {64, 66, 0, 1},     {0, 300, 4, 17},
    {257},        {40, 40, 40, 40},   {0, 0},
    {130, 0, 70}, {1, 0, 0, 0, 24, 8}};

std::string text_of(const std::vector<std::int32_t>& rows) {
  return fmt::format("rows {}", fmt::join(rows, " "));
}

enum class Lies { in_rows, in_columns, between };

View matrix(Lab& lab, Lies lies, std::int64_t K, std::int64_t N, std::uint64_t seed) {
  switch (lies) {
    case Lies::in_rows:
      return lab.random({K, N}, seed);
    case Lies::in_columns:
      return lab.random({N, K}, seed).transposed();
    default:
      return lab.random({N, K + 3}, seed).slice(1, 1, K).transposed();
  }
}

View multiply(Lab& lab, const View& a, const Offsets& offset, const std::vector<ConstView>& b,
              SumOrder order) {
  const View c = lab.fresh({a.extent[0], b[0].extent[1]});
  lab.backend.put(
      queue, kernel::GroupedMatmul{
                 .c_RN = c, .a_RK = a, .offset_E1 = lab.ids(offset), .b_KN = b, .order = order});
  return c;
}

TEST_P(GroupedContract, Products) {
  for (const auto& rows : groups)
    for (const auto& [N, K] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {7, 33}, {65, 129}})
      for (const auto lies : {Lies::in_rows, Lies::in_columns, Lies::between})
        for (const auto order : {SumOrder::any, SumOrder::by_row}) {
          compare(fmt::format("{} N {} K {} {} {}", text_of(rows), N, K, static_cast<int>(lies),
                              order == SumOrder::any ? "any order" : "by row"),
                  [=, N = N, K = K](Lab& lab) {
                    const auto offset = offsets_of(rows);
                    const View a = lab.random({offset.back(), K}, 1);
                    std::vector<ConstView> b;
                    for (std::size_t e = 0; e < rows.size(); ++e)
                      b.emplace_back(matrix(lab, lies, K, N, e + 2));
                    const View c = multiply(lab, a.slice(0, 0, offset.back()), offset, b, order);
                    lab.result("c", c, sum_error(lab.tested, K, static_cast<double>(K)));
                  });
        }
}

// Larger than what is computed at once.
TEST_P(GroupedContract, LargeProducts) {
  for (const auto lies : {Lies::in_rows, Lies::in_columns})
    compare(fmt::format("{}", static_cast<int>(lies)), [=](Lab& lab) {
      const std::int64_t N = 1100, K = 700;
      const auto offset = offsets_of({300, 0, 5, 43});
      const View a = lab.random({offset.back(), K}, 1);
      std::vector<ConstView> b;
      for (std::size_t e = 0; e + 1 < offset.size(); ++e)
        b.emplace_back(matrix(lab, lies, K, N, e + 2));
      lab.result("c", multiply(lab, a, offset, b, SumOrder::any),
                 sum_error(lab.tested, K, static_cast<double>(K)));
    });
}

// By row, a row has the bits it has alone, and with a matrix that lies otherwise.
TEST_P(GroupedContract, RowsByThemselves) {
  for (const auto& [N, K] : {std::pair<std::int64_t, std::int64_t>{7, 5}, {65, 96}, {130, 77}})
    run([N = N, K = K](Lab& lab) {
      const auto offset = offsets_of({1, 0, 2, 7, 70});
      const auto R = offset.back();
      const View a = lab.random({R, K}, 1);
      std::vector<ConstView> b, turned;
      for (std::size_t e = 0; e + 1 < offset.size(); ++e) {
        const View one = lab.random({K, N}, e + 2);
        b.emplace_back(one);
        turned.push_back(ConstView(lab.dense(one.transposed())).transposed());
      }
      const View c = multiply(lab, a, offset, b, SumOrder::by_row);
      EXPECT_EQ(lab.bytes(multiply(lab, a, offset, turned, SumOrder::by_row)), lab.bytes(c));
      for (std::int32_t r = 0; r < R; ++r) {
        Offsets alone;
        for (const auto o : offset) alone.push_back(std::clamp(o - r, 0, 1));
        EXPECT_EQ(lab.bytes(multiply(lab, a.slice(0, r, 1), alone, turned, SumOrder::by_row)),
                  lab.bytes(c.slice(0, r, 1)));
      }
      // As many rows of a plain product.
      const View plain = lab.fresh({70, N});
      lab.backend.put(queue, kernel::Matmul{.c_MN = plain,
                                            .a_MK = a.slice(0, R - 70, 70),
                                            .b_KN = b.back(),
                                            .order = SumOrder::by_row});
      EXPECT_EQ(lab.bytes(plain), lab.bytes(c.slice(0, R - 70, 70)));
    });
}

// Every third matrix is not wanted. One without rows is zero, or as it was.
TEST_P(GroupedContract, WeightGradients) {
  for (const auto& rows : groups)
    for (const auto& [N, M] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {7, 33}, {65, 8}, {200, 129}})
      for (const auto how : {Accumulate::overwrite, Accumulate::add})
        for (const std::size_t unwanted : {1, 9})
          compare(fmt::format("{} N {} M {}", text_of(rows), N, M), [=, N = N, M = M](Lab& lab) {
            const auto R = offsets_of(rows).back();
            kernel::GroupedMatmulGrad o{.c_MN = {},
                                        .how = how,
                                        .a_RM = lab.random({R, M}, 1),
                                        .b_RN = lab.random({R, N}, 2),
                                        .offset_E1 = lab.ids(offsets_of(rows))};
            for (std::size_t e = 0; e < rows.size(); ++e)
              o.c_MN.push_back(e % 3 == unwanted              ? View{}
                               : how == Accumulate::overwrite ? lab.wide_fresh({M, N})
                                                              : lab.wide_random({M, N}, 3 + e));
            lab.backend.put(queue, o);
            const View none = lab.random({1}, 9);
            lab.result("nothing", none, 0);  // of a single expert that is not wanted
            for (std::size_t e = 0; e < rows.size(); ++e)
              if (o.c_MN[e])
                lab.result(fmt::format("c of {}", e), o.c_MN[e],
                           sum_error(lab.tested, rows[e] + 1, static_cast<double>(rows[e] + 1)));
          });
}

TEST_P(GroupedContract, LargeGradients) {
  for (const auto how : {Accumulate::overwrite, Accumulate::add})
    compare(how == Accumulate::add ? "add" : "overwrite", [=](Lab& lab) {
      const std::int64_t M = 300, N = 1100;
      const auto offset = offsets_of({301, 0, 30});
      const auto R = offset.back();
      kernel::GroupedMatmulGrad o{.c_MN = {},
                                  .how = how,
                                  .a_RM = lab.random({R, M}, 1),
                                  .b_RN = lab.random({R, N}, 2),
                                  .offset_E1 = lab.ids(offset)};
      for (std::size_t e = 0; e < 3; ++e)
        o.c_MN.push_back(how == Accumulate::add ? lab.wide_random({M, N}, e + 3)
                                                : lab.wide_fresh({M, N}));
      lab.backend.put(queue, o);
      for (std::size_t e = 0; e < 3; ++e)
        lab.result(fmt::format("c {}", e), o.c_MN[e], sum_error(lab.tested, 302, 302));
    });
}

// Tokens of each expert's rows: every second one from its number on.
std::vector<std::int32_t> tokens_of(const std::vector<std::int32_t>& rows) {
  std::vector<std::int32_t> token;
  for (std::size_t e = 0; e < rows.size(); ++e)
    for (std::int32_t r = 0; r < rows[e]; ++r)
      token.push_back(static_cast<std::int32_t>(e) + 2 * r);
  return token;
}

// Some rows by expert, and counts that their gradients are added to.
struct Counted {
  Counted(Lab& l, const std::vector<std::int32_t>& rows, std::int64_t M, std::int64_t N,
          std::int64_t leaf_, Accumulate how_)
      : lab(l),
        token(tokens_of(rows)),
        offset(offsets_of(rows)),
        a(lab.random({offset.back(), M}, 1)),
        b(lab.random({offset.back(), N}, 2)),
        leaf(leaf_),
        how(how_) {
    for (std::size_t e = 0; e < rows.size(); ++e) {
      const std::vector<std::int64_t> before(static_cast<std::size_t>(M * N), 1000);
      c.push_back(lab.numbers(before).reshaped({M, N}));
      largest.push_back(lab.of_type(DType::f32, {1}, {0.01}));
    }
  }

  // Of rows `taken`, in order.
  void put(const std::vector<std::int32_t>& taken) {
    Offsets offsets;
    for (const auto o : offset)
      offsets.push_back(static_cast<std::int32_t>(
          std::ranges::count_if(taken, [&](std::int32_t r) { return r < o; })));
    std::vector<std::int32_t> tokens;
    for (const auto r : taken) tokens.push_back(token[static_cast<std::size_t>(r)]);
    const auto n = std::ssize(taken);
    const auto rows_of = [&](const View& x) {
      const View all = lab.fresh({n + 1, x.extent[1]});
      lab.backend.put(
          queue,
          kernel::Embedding{.y_TC = all.slice(0, 0, n), .ids_T = lab.ids(taken), .table_VC = x});
      return all.slice(0, 0, n);
    };
    lab.backend.put(queue, kernel::GroupedMatmulGrad{.c_MN = c,
                                                     .how = how,
                                                     .a_RM = rows_of(a),
                                                     .b_RN = rows_of(b),
                                                     .offset_E1 = lab.ids(offsets),
                                                     .token_R = lab.ids(tokens),
                                                     .leaf = leaf,
                                                     .largest = largest});
  }
  std::vector<std::int32_t> all_rows() const {
    std::vector<std::int32_t> all(token.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  Lab& lab;
  std::vector<std::int32_t> token;
  Offsets offset;
  View a, b;
  std::vector<View> c, largest;
  std::int64_t leaf;
  Accumulate how;
};

TEST_P(GroupedContract, CountsOfLeaves) {
  if (on_device()) GTEST_SKIP() << "a GPU counts no quanta";
  for (const auto& rows : groups)
    for (const auto& [M, N] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {7, 33}, {129, 65}})
      for (const auto how : {Accumulate::overwrite, Accumulate::add})
        compare(fmt::format("{} M {} N {} {}", text_of(rows), M, N,
                            how == Accumulate::add ? "add" : "overwrite"),
                [=, M = M, N = N](Lab& lab) {
                  const std::int64_t leaf = 16, of_leaf = leaf / 2;  // rows
                  Counted x(lab, rows, M, N, leaf, how);
                  x.put(x.all_rows());
                  const double off = sum_error(lab.tested, of_leaf, static_cast<double>(of_leaf)),
                               quanta = std::ldexp(off, fixed::gradient_bits) + 1;
                  for (std::size_t e = 0; e < rows.size(); ++e) {
                    lab.result(
                        fmt::format("c {}", e), x.c[e],
                        (static_cast<double>(rows[e]) / static_cast<double>(of_leaf) + 2) * quanta);
                    lab.result(fmt::format("largest {}", e), x.largest[e], off);
                  }
                });
}

// Leaves one by one, in another order, give the same counts.
TEST_P(GroupedContract, LeavesAreAddedInAnyOrder) {
  if (on_device()) GTEST_SKIP() << "a GPU counts no quanta";
  for (const auto& rows : {std::vector<std::int32_t>{33, 0, 7}, {1, 90}})
    run([=](Lab& lab) {
      const std::int64_t M = 70, N = 130, leaf = 16;
      Counted whole(lab, rows, M, N, leaf, Accumulate::add),
          parts(lab, rows, M, N, leaf, Accumulate::add);
      whole.put(whole.all_rows());
      for (std::int64_t of = 12; of >= 0; --of) {
        std::vector<std::int32_t> taken;
        for (const auto r : parts.all_rows())
          if (parts.token[static_cast<std::size_t>(r)] / leaf == of) taken.push_back(r);
        parts.put(taken);
      }
      for (std::size_t e = 0; e < rows.size(); ++e) {
        EXPECT_EQ(lab.bytes(parts.c[e]), lab.bytes(whole.c[e]));
        EXPECT_EQ(lab.bytes(parts.largest[e]), lab.bytes(whole.largest[e]));
      }
    });
}

std::vector<ConstView> biases(Lab& lab, std::size_t experts, std::int64_t N) {
  std::vector<ConstView> all;
  for (std::size_t e = 0; e < experts; ++e) all.emplace_back(lab.random({N}, e + 20));
  return all;
}

constexpr std::int64_t bias_widths[] = {1, 7, 64, 130, 1100};

TEST_P(GroupedContract, Biases) {
  for (const auto& rows : groups)
    for (const auto N : bias_widths)
      for (const bool weighted : {false, true})
        compare(fmt::format("{} N {} weighted {}", text_of(rows), N, weighted), [=](Lab& lab) {
          const auto offset = offsets_of(rows);
          const View y = lab.random({offset.back() + 1, N}, 1),
                     weight = lab.wide_random({offset.back() + 1}, 2);
          const auto used = [&](const View& v) { return v.slice(0, 0, offset.back()); };
          lab.backend.put(queue, kernel::GroupedBias{.y_RN = used(y),
                                                     .offset_E1 = lab.ids(offset),
                                                     .bias_N = biases(lab, rows.size(), N),
                                                     .weight_R = weighted ? used(weight) : View{}});
          lab.result("y", y, sum_error(lab.tested, 2, 2));  // the last row is as it was
        });
}

// Every third gradient is not wanted. One without rows is zero, or as it was.
TEST_P(GroupedContract, BiasGradients) {
  for (const auto& rows : groups)
    for (const auto N : bias_widths)
      for (const auto how : {Accumulate::overwrite, Accumulate::add})
        for (const bool weighted : {false, true})
          compare(fmt::format("{} N {}", text_of(rows), N), [=](Lab& lab) {
            const auto R = offsets_of(rows).back();
            const View dweight = lab.wide_random({R + 1}, 4);
            kernel::GroupedBiasGrad o{
                .how = how,
                .dweight_R = dweight.slice(0, 0, R),
                .dy_RN = lab.random({R + 1, N}, 1).slice(0, 0, R),
                .offset_E1 = lab.ids(offsets_of(rows)),
                .bias_N = biases(lab, rows.size(), N),
                .weight_R = weighted ? lab.wide_random({R + 1}, 2).slice(0, 0, R) : View{}};
            for (std::size_t e = 0; e < rows.size(); ++e)
              o.dbias_N.push_back(e % 3 == 1                     ? View{}
                                  : how == Accumulate::overwrite ? lab.wide_fresh({N})
                                                                 : lab.wide_random({N}, 5 + e));
            lab.backend.put(queue, o);
            lab.result("dweight", dweight,
                       sum_error(lab.tested, N + 1, static_cast<double>(N + 1)));
            for (std::size_t e = 0; e < rows.size(); ++e)
              if (o.dbias_N[e])
                lab.result(fmt::format("dbias {}", e), o.dbias_N[e],
                           sum_error(lab.tested, rows[e] + 1, static_cast<double>(rows[e] + 1)));
          });
}

// One of the two results alone has the bits that it has together with the other one.
TEST_P(GroupedContract, BiasGradientsAlone) {
  run([](Lab& lab) {
    const auto offset = offsets_of({33, 0, 7});
    const std::int64_t R = offset.back(), N = 70;
    const View before = lab.wide_random({R}, 4);
    kernel::GroupedBiasGrad both{.dweight_R = lab.dense(before),
                                 .dy_RN = lab.random({R, N}, 1),
                                 .offset_E1 = lab.ids(offset),
                                 .bias_N = biases(lab, 3, N),
                                 .weight_R = lab.wide_random({R}, 2)};
    for (int e = 0; e < 3; ++e) both.dbias_N.push_back(lab.wide_fresh({N}));
    auto first = both, second = both;
    for (auto& d : first.dbias_N) d = lab.wide_fresh({N});
    first.dweight_R = {};
    first.bias_N.clear();
    second.dbias_N.clear();
    second.dweight_R = lab.dense(before);
    for (const auto& o : {both, first, second}) lab.backend.put(queue, o);
    for (std::size_t e = 0; e < 3; ++e)
      EXPECT_EQ(lab.bytes(first.dbias_N[e]), lab.bytes(both.dbias_N[e]));
    EXPECT_EQ(lab.bytes(second.dweight_R), lab.bytes(both.dweight_R));
  });
}

// The counts have the same bits on all backends: each row is one term.
TEST_P(GroupedContract, CountsOfBiases) {
  if (on_device()) GTEST_SKIP() << "a GPU counts no quanta";
  for (const auto& rows : groups)
    for (const auto how : {Accumulate::overwrite, Accumulate::add})
      compare(text_of(rows), [=](Lab& lab) {
        const std::int64_t N = 270;
        const auto R = offsets_of(rows).back();
        kernel::GroupedBiasGrad o{.how = how,
                                  .dy_RN = lab.random({R + 1, N}, 1).slice(0, 0, R),
                                  .offset_E1 = lab.ids(offsets_of(rows)),
                                  .weight_R = lab.wide_random({R + 1}, 2).slice(0, 0, R)};
        for (std::size_t e = 0; e < rows.size(); ++e) {
          o.dbias_N.push_back(lab.numbers(std::vector<std::int64_t>(N, 1000)));
          o.largest.push_back(lab.of_type(DType::f32, {1}, {0.01}));
        }
        lab.backend.put(queue, o);
        for (std::size_t e = 0; e < rows.size(); ++e) {
          lab.result(fmt::format("dbias {}", e), o.dbias_N[e], 0);
          lab.result(fmt::format("largest {}", e), o.largest[e], 0);
        }
      });
}

}  // namespace
}  // namespace trireme
