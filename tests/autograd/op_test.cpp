#include "lib/autograd/op.hpp"

#include <gtest/gtest.h>

#include <any>

#include "tests/autograd/fake.hpp"

namespace trireme {
namespace {

struct Pair {
  Tensor x{}, y{};
};

using SavedTest = TapeTest;

TEST_F(SavedTest, GivesBackWhatWasKept) {
  Saved saved;
  saved.keep(Pair{.x = tensor({1}), .y = tensor({2})});

  Saved moved = std::move(saved);

  EXPECT_EQ(values(moved.as<Pair>().x), std::vector<double>{1});
  EXPECT_EQ(values(moved.as<Pair>().y), std::vector<double>{2});
  EXPECT_TRUE(moved.as<Pair>().x.unique());
}

TEST_F(SavedTest, FreesATensorThatTheOpReleases) {
  const auto start = live(), one = Arena::granule;
  Saved saved;
  saved.keep(Pair{.x = tensor({1}), .y = tensor({2})});
  ASSERT_EQ(live(), start + 2 * one);

  saved.as<Pair>().x = {};

  EXPECT_EQ(live(), start + one);
  saved.keep(tensor({3}));
  EXPECT_EQ(live(), start + one);
  saved = {};
  EXPECT_EQ(live(), start);
}

// An op that reads another struct than it saved fails, and reads no memory of another type.
TEST_F(SavedTest, RefusesAnotherType) {
  Saved saved;
  EXPECT_THROW(saved.as<Tensor>(), std::bad_any_cast);
  saved.keep(Pair{});
  EXPECT_THROW(saved.as<Tensor>(), std::bad_any_cast);
}

}  // namespace
}  // namespace trireme
