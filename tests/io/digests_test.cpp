// digests.csv: rows survive the way to text and back, and what is no row is not taken for one.
#include "lib/io/digests.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "lib/io/run_tables.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

DigestRow row(std::int64_t step) {
  DigestRow r;
  r.step = step;
  r.arrays = {"gradients", "weights"};
  r.of = {{std::nullopt, 0x0123456789abcdefU}, {0U, ~std::uint64_t{0}}};
  return r;
}

constexpr auto text =
    "420,gradients weights,"
    "----------------0123456789abcdef0000000000000000ffffffffffffffff";

TEST(Digests, AreWrittenAndRead) {
  EXPECT_EQ(to_csv(row(420)), text);
  const auto read = parse_digest_row(text);
  EXPECT_EQ(read.step, 420);
  EXPECT_EQ(read.arrays, row(420).arrays);
  EXPECT_EQ(read.of, row(420).of);
}

TEST(Digests, WhatIsNoRowIsRefused) {
  for (const char* bad : {"", "1", "1,weights", "x,weights,0123456789abcdef", "1,,0123456789abcdef",
                          "1,weights,0123456789abcde", "1,weights,0123456789abcdeg",
                          "1,weights,-123456789abcdef0", "1,gradients weights,0123456789abcdef"}) {
    EXPECT_FALSE(is_digest_row(bad)) << bad;
    EXPECT_THROW(parse_digest_row(bad), Error) << bad;
  }
}

// A restart keeps the rows up to its step, leaves out what is none, and says so.
TEST(Digests, TheirTableGoesOn) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder / "digests.csv";
  {
    CsvFile file(path, digest_columns, {});
    for (const auto step : {10, 20, 30}) file.append(to_csv(row(step)));
  }
  folder.write("digests.csv", contents_of(path) + "40,weights,0123\n");

  CsvFile file(path, digest_columns, TableStart{.is_row = is_digest_row, .step = 20});

  EXPECT_THAT(file.remarks(), testing::ElementsAre(testing::HasSubstr("beginning with line 5"),
                                                   testing::HasSubstr("digests.csv.damaged")));
  file.append(to_csv(row(21)));
  EXPECT_EQ(contents_of(path), std::string(digest_columns) + "\n" + to_csv(row(10)) + "\n" +
                                   to_csv(row(20)) + "\n" + to_csv(row(21)) + "\n");
}

}  // namespace
}  // namespace trireme
