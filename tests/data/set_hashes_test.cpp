#include "lib/data/set_hashes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SetHashes : public testing::Test {
 protected:
  SetHashes() {
    write_token_file(scratch / "train", counting(1000));
    write_token_file(scratch / "one", counting(100));
    write_token_file(scratch / "two", counting(200));
    write_token_file(scratch / "moved", counting(100));
  }
  DataConfig with(std::vector<ValidationSet> sets) {
    DataConfig config;
    config.path = {scratch / "train"};
    config.sets = std::move(sets);
    return config;
  }
  static std::string hashes(const DataConfig& config) {
    return hashes_of_sets(validation_data(config, 8, 256));
  }
  ScratchFolder scratch;
};

TEST_F(SetHashes, TellTokensAndNotPathsApart) {
  auto config = with({{"a", {scratch / "one"}}, {"b", {scratch / "two"}}});
  config.validation_files = {scratch / "one"};
  const auto before = hashes(config);
  EXPECT_THAT(changed_sets(before, before), IsEmpty());
  config.sets[0].path = config.validation_files = {scratch / "moved"};
  EXPECT_THAT(changed_sets(before, hashes(config)), IsEmpty());
  config.sets[0].path = {scratch / "two"};
  EXPECT_THAT(changed_sets(before, hashes(config)), ElementsAre("a"));
  config.sets[0].path = {scratch / "one", scratch / "two"};
  config.validation_files = {scratch / "two"};
  EXPECT_THAT(changed_sets(before, hashes(config)), ElementsAre("", "a"));
  write_token_file(scratch / "two", counting(201));
  config.sets[0].path = {scratch / "one"};
  config.validation_files = {scratch / "one"};
  EXPECT_THAT(changed_sets(before, hashes(config)), ElementsAre("b"));
}

TEST_F(SetHashes, AFractionIsAPartOfItsFile) {
  auto config = with({});
  config.validation_fraction = 0.1;
  const auto before = hashes(config);
  config.validation_fraction = 0.2;
  EXPECT_THAT(changed_sets(before, hashes(config)), ElementsAre(""));
}

// A set that is left out for a while keeps its table.
TEST_F(SetHashes, OfFormerSetsAreKept) {
  const auto both = hashes(with({{"a", {scratch / "one"}}, {"b", {scratch / "two"}}}));
  const auto without = with_former_sets(hashes(with({{"b", {scratch / "one"}}})), both);
  EXPECT_THAT(changed_sets(both, without), ElementsAre("b"));
  EXPECT_THAT(changed_sets(without, hashes(with({{"a", {scratch / "two"}}}))), ElementsAre("a"));
  EXPECT_EQ(with_former_sets(both, ""), both);
}

TEST_F(SetHashes, OtherTextsAreRefused) {
  EXPECT_THROW(changed_sets("x", "{}"), Error);
  EXPECT_THROW(changed_sets("[1]", "{}"), Error);
}

}  // namespace
}  // namespace trireme
