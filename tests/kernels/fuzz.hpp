#pragma once
// Operations on shapes, places and numbers drawn at random, some of which are none: on every
// backend against the oracle, whose NaNs and infinities must be there too.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/contract.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/values.hpp"

namespace trireme::fuzzing {

class FuzzContract : public ContractTest {
 protected:
  template <class Case>
  void fuzz(const Case& try_case) {
    trireme::fuzz(try_case, [this] { repeat_on_threads(); });
  }
};

using Numbers = std::vector<double>;
inline constexpr auto queue = Queue::compute;
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double inf = std::numeric_limits<double>::infinity();

// Which numbers that are none, or zero, some arrays of a case have among the others.
enum class Odd : std::uint8_t { none, nan, all };
inline Odd some_odd(Draw& d) {
  return d.one_of({Odd::none, Odd::none, Odd::none, Odd::nan, Odd::all});
}

inline Numbers numbers(Draw& d, std::int64_t n, Odd odd = Odd::none, double amplitude = 1,
                       double offset = 0) {
  auto values = random_values(n, d.bits(), amplitude);
  for (double& x : values) x += offset;
  if (n == 0 || odd == Odd::none || d.once_in(2)) return values;
  for (auto left = d.between(1, 3); left > 0; --left)
    values[static_cast<std::size_t>(d.between(0, n - 1))] =
        odd == Odd::nan ? nan : d.one_of({nan, inf, -inf, 0.0, -0.0});
  return values;
}

// Where an array begins and ends in its memory, in elements: at what one access moves, or not.
struct Margins {
  std::int64_t before, behind;
};
inline Margins some_margins(Draw& d) {
  return {d.one_of<std::int64_t>({0, 0, 0, 1, 3, 8}), d.between(1, 5)};
}

// A dense view between elements that nobody may change.
struct Placed {
  using Make = View (Lab::*)(const Shape&, const Numbers&);
  View all, here;
  Margins margins;

  Placed(Lab& lab, Make make, const Shape& s, const Numbers& values, Margins m) : margins(m) {
    constexpr double neighbour = 77;
    Numbers padded(static_cast<std::size_t>(m.before + s.count() + m.behind), neighbour);
    std::ranges::copy(values, padded.begin() + m.before);
    all = (lab.*make)({std::ssize(padded)}, padded);
    here = all.slice(0, m.before, s.count()).reshaped(s);
  }
  void result(Lab& lab, const std::string& name, double slack) const {
    lab.result(name, here, slack);
    lab.result("before " + name, all.slice(0, 0, margins.before), 0);
    lab.result("behind " + name, all.slice(0, all.extent[0] - margins.behind, margins.behind), 0);
  }
};
inline Numbers unwritten(std::int64_t n) {
  return Numbers(static_cast<std::size_t>(n), nan);
}

// Rows of a norm: narrow, as wide as where a device changes kernels, or a multiple of 8; none, one
// or some of them, and at times more than a device has blocks for.
struct Rows {
  std::int64_t rows, width;
};
inline Rows some_rows(Draw& d) {
  if (d.once_in(30)) return {d.between(265, 300), d.between(1, 9)};
  if (d.once_in(50)) return {d.between(2113, 2200), d.one_of<std::int64_t>({4, 8})};
  const auto near =
      d.one_of<std::int64_t>({768, 1024, 2048, 4096, 8184}) + d.one_of<std::int64_t>({-1, 0, 8});
  const auto width = d.once_in(4) ? near : d.once_in(3) ? 8 * d.between(1, 130) : d.between(1, 140);
  const auto most = std::clamp<std::int64_t>(8000 / width, 1, 70);
  return {d.once_in(15) ? 0 : d.once_in(6) ? 1 : d.between(1, most), width};
}

inline std::string describe(const Rows& s) {
  return fmt::format("{} rows of {}", s.rows, s.width);
}

}  // namespace trireme::fuzzing
