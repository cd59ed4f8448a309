#include "lib/compare/tables.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lib/base/error.hpp"
#include "lib/compare/tensors.hpp"
#include "tests/io/sample_checkpoint.hpp"

namespace trireme {
namespace {

HistoryRow row(std::int64_t step, double loss, double norm = 1, double lr = 0.1) {
  HistoryRow r;
  r.step = step;
  r.loss = loss;
  r.grad_norm = norm;
  r.lr = lr;
  r.seconds = loss + static_cast<double>(step);  // not compared
  return r;
}

TEST(Histories, AreComparedInTheStepsThatBothHave) {
  const std::vector<HistoryRow> a{row(1, 5), row(2, 4), row(3, 3), row(5, 2), row(6, 1)},
      b{row(2, 4), row(3, std::nextafter(3, 4), 1, 0.2), row(4, 9), row(5, 7), row(6, 1)};
  const auto c = compare_histories(a, b);
  EXPECT_EQ(c.steps, 4);
  EXPECT_EQ(c.last, 6);
  EXPECT_EQ(c.equal_until, 2);
  EXPECT_EQ(c.first, 3);
  ASSERT_EQ(c.differ.size(), 2U);
  EXPECT_EQ(c.differ[0].column, "loss");
  EXPECT_EQ(c.differ[1].column, "lr");
  EXPECT_EQ(c.differ[1].b, 0.2);
}

TEST(Histories, OfSkippedStepsAreEqual) {
  const double nan = std::nan("");
  const std::vector<HistoryRow> a{row(1, nan, nan)}, b{row(1, 5)};
  EXPECT_FALSE(compare_histories(a, a).first);
  EXPECT_EQ(compare_histories(a, b).first, 1);
  EXPECT_EQ(compare_histories(a, {}).steps, 0);
}

TEST(Histories, KnownNumbersOfTrainedTokensAreCompared) {
  auto few = row(1, 5), many = row(1, 5);
  few.trained_tokens = 10;
  many.trained_tokens = 20;
  const std::vector<HistoryRow> unknown{row(1, 5)}, a{few}, b{many};
  EXPECT_FALSE(compare_histories(unknown, a).first);
  EXPECT_FALSE(compare_histories(a, a).first);
  const auto c = compare_histories(a, b);
  ASSERT_EQ(c.differ.size(), 1U);
  EXPECT_EQ(c.differ[0].column, "trained_tokens");
  EXPECT_EQ(c.differ[0].b, 20);
}

TEST(Histories, AreReadAsTheyWereWritten) {
  test::Folder folder;
  const auto path = folder.path() / "history.csv";
  const HistoryRow first = row(1, 5.505690368540854, 1e-300, 3e-3), third = row(3, std::nan(""));
  folder.write("history.csv", std::string(history_columns.plain) + "\n" + to_csv(third) + "\n" +
                                  to_csv(first) + "\nrubbish\n" + to_csv(row(4, 1)).substr(0, 3));
  const auto rows = read_history(path);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(to_csv(rows[0]), to_csv(first));
  EXPECT_EQ(to_csv(rows[1]), to_csv(third));
  EXPECT_TRUE(read_evaluations(folder.path() / "evaluation.csv").empty());
}

DigestRow digests(std::int64_t step, std::vector<std::vector<std::optional<std::uint64_t>>> of) {
  DigestRow r;
  r.step = step;
  r.arrays = {"gradients", "weights", "moment1"};
  r.arrays.resize(of.size());
  r.of = std::move(of);
  return r;
}

TEST(Digests, ADifferingGradientComesBeforeTheWeightItMakes) {
  const std::vector<DigestRow> a{digests(2, {{1, 2}, {3, 4}, {5, 6}}),
                                 digests(4, {{1, 2}, {3, 4}, {5, 6}})},
      b{digests(2, {{1, 2}, {3, 4}, {5, 6}}), digests(4, {{1, 9}, {9, 9}, {5, {}}})};
  const auto c = compare_digests(a, b);
  EXPECT_EQ(c.equal_until, 2);
  EXPECT_EQ(c.first, 4);
  EXPECT_EQ(c.tensors, 6U);
  ASSERT_EQ(c.differ.size(), 4U);
  EXPECT_EQ(c.differ[0].array, "gradients");
  EXPECT_EQ(c.differ[0].param, ParamId{1});
  EXPECT_EQ(c.differ[1].array, "weights");
  EXPECT_EQ(c.differ[1].param, ParamId{0});
  EXPECT_EQ(c.differ[3].missing, "B");
}

TEST(Digests, OfOtherArraysOrModels) {
  const std::vector<DigestRow> a{digests(1, {{1, 2}, {3, 4}, {5, 6}})},
      fewer{digests(1, {{1, 2}, {3, 4}})}, other{digests(1, {{1}, {3}})};
  EXPECT_FALSE(compare_digests(a, fewer).first);
  EXPECT_THROW(compare_digests(a, other), Error);
}

TEST(Digests, AreReadFromTheirFile) {
  test::Folder folder;
  const auto path = folder.path() / "digests.csv";
  EXPECT_TRUE(read_digests(path).empty());
  const auto x = digests(2, {{1, {}}, {3, 4}}), y = digests(1, {{7, 7}, {7, 7}});
  const std::string head = std::string(digest_columns) + "\n";
  folder.write("digests.csv", head + to_csv(digests(2, {{9, 9}, {9, 9}})) + "\n" + to_csv(x) +
                                  "\n" + to_csv(y) +
                                  "\n3,gradients,00");  // that row was never written
  const auto rows = read_digests(path);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(to_csv(rows[0]), to_csv(y));
  EXPECT_EQ(to_csv(rows[1]), to_csv(x));
  folder.write("digests.csv", head + to_csv(x) + "\nrubbish\n");
  EXPECT_TRUE(test::contains(message_of([&] { read_digests(path); }), "line 3"));
}

// Units of a table and positions, four blocks, a norm and a head.
TEST(Stages, OfUnits) {
  ModelConfig c;
  c.layers = 4;
  c.width = 8;
  c.heads = 2;
  c.vocab = 10;
  c.max_context = 4;
  const std::vector<std::int64_t> blocks{1, 3};
  EXPECT_EQ(stages_of_units(make_spec(completed(c)), blocks),
            (std::vector<int>{0, 0, 0, 1, 1, 1, 1}));
  c.tied = false;
  EXPECT_EQ(stages_of_units(make_spec(completed(c)), blocks),
            (std::vector<int>{0, 0, 0, 1, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace trireme
