// What tests/cases/run.py has to distinguish, for its own test: cases that go wrong in every way.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

TEST(Sample, Passes) {
  std::printf("text without an end of its line");
}

TEST(Sample, Fails) {
  EXPECT_EQ(1, 2) << "said by a case that fails";
}

TEST(Sample, Skips) {
  GTEST_SKIP() << "no such machine";
}

TEST(Sample, Crashes) {
  std::fprintf(stderr, "said before the crash\n");
  std::raise(SIGSEGV);
}

TEST(Sample, Hangs) {
  for (;;) pause();
}

TEST(Sample, EndsTheProgramWell) {
  std::exit(0);
}

// A child that lives on has the program's output.
TEST(Sample, LeavesAChild) {
  if (fork() == 0) {
    sleep(60);
    _exit(0);
  }
}

TEST(Sample, DISABLED_IsNotListed) {}

class Values : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Of, Values, testing::Values("a # b\nof two lines", "c"));
TEST_P(Values, AreShown) {
  EXPECT_STREQ(GetParam(), "c");
}

template <class T>
class Typed : public testing::Test {};
using Types = testing::Types<int, double>;
TYPED_TEST_SUITE(Typed, Types);
TYPED_TEST(Typed, Passes) {}

// As where a sanitizer finds a leak at the end.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  const char* code = std::getenv("SAMPLE_CODE");
  return code && !testing::GTEST_FLAG(list_tests) ? std::atoi(code) : failed;
}
