#include "lib/io/table_rows.hpp"

#include <gtest/gtest.h>

namespace trireme {

constexpr const char* columns = "step,a,b";

static OrderedTable ordered(const std::string& rows, const TableStart& start) {
  return put_in_order(std::string(columns) + "\n" + rows, columns, start);
}

static std::string rows_of(const OrderedTable& t) {
  return t.text.substr(std::string(columns).size() + 1);
}

using Remarks = std::vector<std::string>;

TEST(TableRows, AWholeTableIsKeptAsItIs) {
  const auto t = ordered("1,0.5,\n2,nan,1e+300\n3,-inf,7\n", {.step = 2, .first = 1});
  EXPECT_EQ(rows_of(t), "1,0.5,\n2,nan,1e+300\n");
  EXPECT_EQ(t.remarks, Remarks{});
  EXPECT_FALSE(t.lossy);
}

TEST(TableRows, RangesOfNumbers) {
  const auto range = [](const char* text, std::int64_t least = 0) {
    const auto r = number_range(text, least);
    return r ? std::pair(r->first, r->last) : std::pair(std::int64_t{-1}, std::int64_t{-1});
  };
  EXPECT_EQ(range("7"), std::pair(7L, 7L));
  EXPECT_EQ(range("0-12"), std::pair(0L, 12L));
  EXPECT_EQ(range("9007199254740992"), std::pair(1L << 53, 1L << 53));
  for (const auto* wrong : {"", "-", "3-", "-3", "5-4", "1-2-3", "1.5", "x", "9007199254740993"})
    EXPECT_EQ(range(wrong), std::pair(-1L, -1L)) << wrong;
  EXPECT_EQ(range("1-2", 2), std::pair(-1L, -1L));
}

TEST(TableRows, WhatIsNoRowIsNamedByItsLine) {
  for (const char* line : {"rubbish", "2,1", "2,1,2,3", "2,x,1", "2.5,1,1", "-2,1,1", ",1,1", "",
                           "2,1,1\r", " 2,1,1"}) {
    const auto t = ordered("1,1,1\n" + std::string(line) + "\n3,1,1\n", {.step = 3});
    EXPECT_EQ(rows_of(t), "1,1,1\n3,1,1\n") << line;
    EXPECT_EQ(t.remarks, Remarks{"left out 1 line that cannot be read, beginning with line 3"})
        << line;
    EXPECT_TRUE(t.lossy);
  }
}

TEST(TableRows, ALineWithoutItsEndWasNeverWritten) {
  const auto t = ordered("1,1,1\n2,1,1", {.step = 2, .first = 1});
  EXPECT_EQ(rows_of(t), "1,1,1\n");
  EXPECT_EQ(t.remarks, Remarks{"it has no row for step 2, and neither has the checkpoint"});
}

// A checkpoint may say that any step is done: found in a time of the rows.
TEST(TableRows, MissingRowsAreCountedByTheirPlaces) {
  const auto t = ordered("2,1,1\n5,1,1\n6,1,1\n", {.step = std::int64_t{1} << 53, .first = 2});
  EXPECT_EQ(t.remarks, Remarks{"it has no row for step 3 to 4, 7 to 9007199254740992, and "
                               "neither has the checkpoint"});
}

TEST(TableRows, AStepThatMayHaveNoRowIsNotMissed) {
  const auto t = ordered("4,1,1\n6,1,1\n", {.step = 9, .first = 3, .optional = {1, 3, 6, 7}});
  EXPECT_EQ(t.remarks, Remarks{"it has no row for step 5, 8 to 9, and neither has the checkpoint"});
}

TEST(TableRows, SomeRowsAreKeptWhateverTheirStep) {
  const auto t =
      ordered("1,1,1\n4,9,1\n5,9,2\n4,1,4\n5,1,5\n",
              {.step = 4, .always = [](auto line) { return line.find(",9,") != line.npos; }});
  EXPECT_EQ(rows_of(t), "1,1,1\n4,9,1\n5,9,2\n4,1,4\n");
  EXPECT_EQ(t.remarks, Remarks{});
  EXPECT_FALSE(t.lossy);
}

TEST(TableRows, RowsOfOneStepBecomeTheLastOne) {
  const auto t = ordered("1,1,1\n3,3,3\n2,2,2\n1,5,5\n", {.step = 3, .first = 1});
  EXPECT_EQ(rows_of(t), "1,5,5\n2,2,2\n3,3,3\n");
  EXPECT_EQ(t.remarks, Remarks{"it had several rows for step 1: one is kept"});
}

TEST(TableRows, TheCheckpointsRowsAreTheRun) {
  const TableStart start{.step = 4, .carried = "2,2,2\n3,3,3\n4,4,4\n5,5,5\n", .first = 1};
  const auto gone = put_in_order({}, columns, start);
  EXPECT_EQ(rows_of(gone), "2,2,2\n3,3,3\n4,4,4\n");
  EXPECT_EQ(gone.remarks, (Remarks{"it had no row for step 2 to 4: restored from the checkpoint",
                                   "it has no row for step 1, and neither has the checkpoint"}));
  EXPECT_FALSE(gone.lossy);
  // Another timeline's row gives way.
  const auto other = ordered("1,1,1\n2,2,2\n3,9,9\n4,4,4\n", start);
  EXPECT_EQ(rows_of(other), "1,1,1\n2,2,2\n3,3,3\n4,4,4\n");
  EXPECT_EQ(other.remarks, Remarks{"it had several rows for step 3: one is kept"});
  EXPECT_TRUE(other.lossy);
}

TEST(TableRows, StepsAreToldInRanges) {
  EXPECT_EQ(steps_text(std::vector<std::int64_t>{1, 2, 3, 5, 8, 9}), "1 to 3, 5, 8 to 9");
  std::vector<std::int64_t> odd;
  for (std::int64_t i = 1; i < 40; i += 2) odd.push_back(i);
  EXPECT_EQ(steps_text(odd), "1, 3, 5, 7, 9, 11, 13, 15 and 12 more ranges");
}

}  // namespace trireme
