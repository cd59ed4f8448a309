#pragma once
// How two arrays of one tensor differ, element by element: taken in pieces, in any order. Pure.
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

namespace trireme {

// Units in the last place from a to b: how many representable numbers one is behind the other. The
// bits of a number of its sign and magnitude are put in order as integers, so that neighbours are
// one apart through zero too; -0 and +0 are 0 apart, and infinity is one behind the largest number.
// None where one of them is NaN.
std::optional<std::uint64_t> ulps_between(float a, float b);
std::optional<std::uint64_t> ulps_between(double a, double b);
// Of counts of quanta: how many.
std::optional<std::uint64_t> ulps_between(std::int64_t a, std::int64_t b);

struct Tally {
  std::int64_t elements = 0;
  std::int64_t differ = 0;  // in their bits
  std::int64_t nans = 0;    // of these: one or both are NaN, so that no distance is known
  std::int64_t first = -1;  // index of the first that differs, -1: none
  // Of those with a distance, the largest: its index (the lowest of several), -1 where none is.
  std::uint64_t largest_ulps = 0;
  std::int64_t largest_at = -1;
  double largest_a = 0, largest_b = 0;
  // Sums over all elements, with d = b - a, for lib/compare/rounding.hpp.
  double a_squares = 0;  // a a
  double d_squares = 0;  // d d
  double product = 0;    // a d
  // What rounding a to its type may have moved it by: u u / 12 for a unit u in the last place; and
  // a a u u / 12.
  double unit_squares = 0, unit_products = 0;

  bool equal() const { return differ == 0; }

  // Elements [begin, begin + a.size()) of both.
  template <class T>
  void add(std::int64_t begin, std::span<const T> a, std::span<const T> b);
};

}  // namespace trireme
