#pragma once
// Statistics about the differences between two arrays of one tensor, element by element. Elements
// can be added in pieces and in any order.
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

namespace trireme {

// Returns the distance from a to b in units in the last place (ulp): the number of steps between
// adjacent representable numbers. Numbers of different sign are connected through zero. -0 and +0
// have distance 0, and infinity is one step beyond the largest finite number. Returns nullopt if a
// or b is NaN.
std::optional<std::uint64_t> ulps_between(float a, float b);
std::optional<std::uint64_t> ulps_between(double a, double b);
// Returns the difference of two fixed-point gradients, in units of their last place.
std::optional<std::uint64_t> ulps_between(std::int64_t a, std::int64_t b);

// The statistics of two arrays a and b.
struct Tally {
  std::int64_t elements = 0;
  std::int64_t differ = 0;  // elements that differ in their bits
  // Number of differing elements for which a or b is NaN, so that their distance is unknown.
  std::int64_t nans = 0;
  std::int64_t first = -1;  // index of the first element that differs; -1 means none
  // Largest known distance, the lowest index at which it occurs (-1 means none), and the two
  // numbers at that index.
  std::uint64_t largest_ulps = 0;
  std::int64_t largest_at = -1;
  double largest_a = 0, largest_b = 0;
  // Sums over all elements, with d = b - a. The statistics in lib/compare/rounding.hpp use these
  // sums.
  double a_squares = 0;  // a a
  double d_squares = 0;  // d d
  double product = 0;    // a d
  // `unit_squares` is the expected squared error of rounding a to its type: the sum of u u / 12 for
  // a unit u in the last place. `unit_products` is the sum of a a u u / 12.
  double unit_squares = 0, unit_products = 0;

  bool equal() const { return differ == 0; }

  // Adds the elements [begin, begin + a.size()) of both arrays.
  template <class T>
  void add(std::int64_t begin, std::span<const T> a, std::span<const T> b);
};

}  // namespace trireme
