// The checks of operands' roles find operations that break them: each of these is wrong in one
// way, and reported so.
#include "tests/support/operands.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "kernels/ref/ref.hpp"

namespace trireme {
namespace {

constexpr int rows = 3, columns = 5, width = 8;  // of y's memory: its rows have gaps

// y [3, 5], part of a wider matrix, and a dense x [3, 5], in memory that the host may touch.
class Roles : public testing::Test {
 protected:
  float& y(int i, int j) { return at(y_)[i * width + j]; }
  float& x(int i, int j) { return at(x_)[i * columns + j]; }
  float& scratch(int i) { return at(scratch_)[i]; }

  // What is found where y has this role, and x and the scratch theirs.
  std::vector<std::string> broken(Role of_y, const std::function<void()>& run) {
    memory_.declare({{0, y_, of_y}, {1, x_, Role::read}, {2, scratch_, Role::scratch}});
    return memory_.broken_promises(run);
  }
  // f(i, j) of each element.
  template <class F>
  static void each(const F& f) {
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j) f(i, j);
  }
  void double_x() {
    each([this](int i, int j) { y(i, j) = 2 * x(i, j); });
  }

  Ref ref_;
  Operands memory_{ref_, DType::f32, DType::f32};
  View y_ = memory_.values({rows, width}).slice(1, 1, columns);
  View x_ = memory_.values({rows, columns});
  View scratch_ = memory_.workspace(12);

 private:
  static float* at(const View& v) { return reinterpret_cast<float*>(v.data); }
};

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(Roles, AreKept) {
  EXPECT_THAT(broken(Role::write, [&] { double_x(); }), IsEmpty());
}

TEST_F(Roles, AreKeptByWhatAdds) {
  EXPECT_THAT(broken(Role::add, [&] { each([&](int i, int j) { y(i, j) += x(i, j); }); }),
              IsEmpty());
}

TEST_F(Roles, AreKeptInPlaceAndOnScratch) {
  memory_.declare({{0, y_, Role::write}, {1, y_, Role::read}, {2, scratch_, Role::scratch}});
  EXPECT_THAT(memory_.broken_promises([&] {
    each([&](int i, int j) {
      scratch(0) = y(i, j);
      y(i, j) = 2 * scratch(0);
    });
  }),
              IsEmpty());
}

TEST_F(Roles, WhatIsWrittenIsNotAddedTo) {
  EXPECT_THAT(broken(Role::write, [&] { each([&](int i, int j) { y(i, j) += x(i, j); }); }),
              Contains(HasSubstr("operand 0 (write): element 0 depends on what was there")));
}

TEST_F(Roles, AllOfItIsWritten) {
  EXPECT_THAT(broken(Role::write,
                     [&] {
                       const float last = y(2, 4);
                       double_x();
                       y(2, 4) = last;
                     }),
              Contains("operand 0 (write): element 14 was not written"));
}

TEST_F(Roles, WhatIsAddedToIsNotOverwritten) {
  EXPECT_THAT(broken(Role::add, [&] { double_x(); }),
              ElementsAre("operand 0 (add): does not depend on what was there"));
}

TEST_F(Roles, WhatIsReadIsNotWritten) {
  EXPECT_THAT(broken(Role::write,
                     [&] {
                       double_x();
                       x(1, 2) = 0;
                     }),
              ElementsAre("operand 1 (read): element 7 was changed"));
}

TEST_F(Roles, NothingIsWrittenBetweenRows) {
  EXPECT_THAT(
      broken(Role::write,
             [&] {
               double_x();
               y(1, columns) = 0;
             }),
      ElementsAre(HasSubstr("operand 0 (write): element 14 of its memory belongs to no operand")));
}

TEST_F(Roles, NothingIsWrittenBeforeOrBehindAnOperand) {
  for (const auto& [i, element] : {std::pair(-1, "element -1 of"), {rows, "element 15 of"}})
    EXPECT_THAT(broken(Role::write,
                       [&, i = i] {
                         double_x();
                         x(0, 0 + (i < 0 ? -1 : rows * columns)) = 0;
                       }),
                ElementsAre(HasSubstr(element)));
}

// Also where what is written there is what was there in one of the runs.
TEST_F(Roles, NothingIsWrittenBesideWhateverItIs) {
  EXPECT_THAT(broken(Role::write,
                     [&] {
                       double_x();
                       std::memset(&y(0, columns), 0xff, sizeof(float));
                     }),
              ElementsAre(HasSubstr("belongs to no operand")));
}

TEST_F(Roles, NothingIsReadBesideAnOperand) {
  EXPECT_THAT(broken(Role::write,
                     [&] {
                       double_x();
                       y(0, 3) += 0 * x(rows, 0);  // NaN or not
                     }),
              ElementsAre(HasSubstr("operand 0 (write): element 3 depends on")));
}

TEST_F(Roles, ScratchTellsNothing) {
  EXPECT_THAT(
      broken(Role::add, [&] { each([&](int i, int j) { y(i, j) += x(i, j) * scratch(2); }); }),
      Contains(HasSubstr("operand 0 (add): element 0 depends on what was there")));
}

TEST_F(Roles, ResultsAreTheSameEachTime) {
  int calls = 0;
  EXPECT_THAT(broken(Role::add,
                     [&] {
                       each([&](int i, int j) { y(i, j) += x(i, j); });
                       y(2, 2) += static_cast<float>(calls++);
                     }),
              ElementsAre(HasSubstr("operand 0 (add): element 12 depends")));
}

TEST_F(Roles, ResultsThatAreFarFromTheReferenceAreFound) {
  memory_.declare({{0, y_, Role::write}, {1, x_, Role::read}});
  const auto times = [&](float factor, float last) {
    return memory_.results([&, factor, last] {
      each([&](int i, int j) { y(i, j) = factor * x(i, j); });
      if (last != 0) y(2, 4) = last;
    });
  };
  const auto want = times(2, 0);
  EXPECT_THAT(differences(times(2 + 0x1p-21F, 0), want, DType::f32), IsEmpty());
  EXPECT_THAT(differences(times(2 + 0x1p-18F, 0), want, DType::f32),
              ElementsAre(HasSubstr("operand 0 (write)")));
  EXPECT_THAT(differences(times(2 + 0x1p-18F, 0), want, DType::bf16), IsEmpty());
  EXPECT_THAT(differences(times(2, 3), want, DType::bf16),
              ElementsAre(HasSubstr("element 14 is 3, not ")));
  EXPECT_THAT(differences(times(2, std::nanf("")), want, DType::bf16),
              ElementsAre(HasSubstr("element 14 is nan")));
}

}  // namespace
}  // namespace trireme
