#pragma once
// The hardware contract as a test: one body per kernel, run by the oracle (Ref in f64) and by a
// backend under test in its compute type on the same inputs, rounded to that type. Bodies see a
// Lab and do not know which of the two they run on.
#include <gtest/gtest.h>

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.hpp"

namespace trireme {

struct Tested {
  std::string name;  // backend_type
  std::function<std::unique_ptr<Backend>(int threads)> open;
  DType compute;
};
std::vector<Tested> tested_backends();
// False for bf16 on a processor that cannot multiply it.
bool can_compute(const Tested&);
void PrintTo(const Tested&, std::ostream*);
std::string name_of_tested(const testing::TestParamInfo<Tested>&);

// Half the distance from 1 to the next number.
double roundoff(DType);

// Bound of the error of a sum of `length` terms, each made with up to 4 roundings, that is added in
// wide(t) in any order; the terms' magnitudes add to `magnitude`. Higham, Mary 2019, Theorem 2.8:
// errors of n roundings add to less than lambda sqrt(n) u times the magnitude, but for a
// probability of 2 exp(-lambda^2 / 2): 3e-8 for lambda = 6.
double sum_error(DType t, std::int64_t length, double magnitude);

// How far a result x of type t may be off: rounded once from a number within `slack` of x.
double tolerance(DType t, double x, double slack);

// A body's run on one backend: makes its views, records its results, owns their memory.
class Lab {
 public:
  Lab(Backend&, DType compute, DType tested);
  ~Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  Backend& backend;
  const DType compute;  // of this run
  const DType tested;   // of the backend under test, from which tolerances are made

  // Dense views. Values are rounded to what the backend under test would hold.
  View values(const Shape&, const std::vector<double>&);
  View wide_values(const Shape&, const std::vector<double>&);
  View random(const Shape&, std::uint64_t seed, double amplitude = 1);
  View wide_random(const Shape&, std::uint64_t seed, double amplitude = 1);
  View fresh(const Shape&);  // NaN until a kernel writes it
  View wide_fresh(const Shape&);
  View of_type(DType, const Shape&, const std::vector<double>&);  // this type on every backend
  View ids(const std::vector<std::int32_t>&);
  View numbers(const std::vector<std::int64_t>&);
  View workspace(std::size_t bytes);

  View dense(const View&);  // a copy
  std::vector<double> read(const View& dense);
  std::vector<std::byte> bytes(const View& dense);
  double largest(const View& dense);      // magnitude; NaNs are left out
  double longest_row(const View& dense);  // Euclidean length along the last dim

  // A dense view of results, and how far a value may be off before its last rounding.
  void result(std::string name, const View& dense, double slack);

  struct Result {
    std::string name;
    DType dtype;
    std::vector<double> values;
    std::vector<std::byte> bytes;
    double slack;
  };
  std::vector<Result> results;

 private:
  View put(DType, DType held, const Shape&, const std::vector<double>&);
  View take(DType, const Shape&, MemoryKind = MemoryKind::transient);
  std::vector<Block> blocks_;
};

using Body = std::function<void(Lab&)>;

// A suite derives from this and is instantiated with ValuesIn(tested_backends()).
class ContractTest : public testing::TestWithParam<Tested> {
 public:
  ContractTest();
  ~ContractTest() override;

 protected:
  // Expects the backend's results within the tolerance of the oracle's, and the same bits when the
  // body runs again and, when the test ends, on 3 threads: so it must capture by value.
  void compare(const std::string& what, const Body&);
  // What the oracle gets from the body, in the order of its `result` calls.
  std::vector<Lab::Result> oracle(const Body&);
  // The body on the backend under test alone, on one thread.
  void run(const Body&);
  // Is it a device's? Sizes past what such a one takes at once are much work for a host, and
  // nothing new.
  static bool on_device() { return GetParam().name.starts_with("cuda"); }

  // Compares what `compare` has run so far with the same on 3 threads, and forgets it: so a test of
  // many cases does not keep them all. What is left is repeated when the test ends.
  void repeat_on_threads();

  void SetUp() override;
  void TearDown() override;

 private:
  struct Opened;
  struct Done {
    std::string what;
    Body body;
    std::vector<Lab::Result> results;
  };
  bool is_drawn();
  Opened& tested();  // on one thread
  std::unique_ptr<Opened> oracle_, tested_;
  std::vector<Done> done_;
  std::uint64_t compared_ = 0;
};

}  // namespace trireme
