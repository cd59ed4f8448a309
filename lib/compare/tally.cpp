#include "lib/compare/tally.hpp"

#include <bit>
#include <limits>

#include "lib/base/error.hpp"

namespace trireme {

template <class Bits>
static std::optional<std::uint64_t> distance(Bits a, Bits b) {
  const auto ordered = [](Bits x) { return x < 0 ? std::numeric_limits<Bits>::min() - x : x; };
  const auto x = static_cast<std::uint64_t>(static_cast<std::int64_t>(ordered(a))),
             y = static_cast<std::uint64_t>(static_cast<std::int64_t>(ordered(b)));
  return ordered(a) < ordered(b) ? y - x : x - y;  // modulo 2^64, where the difference fits
}

std::optional<std::uint64_t> ulps_between(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return {};
  return distance(std::bit_cast<std::int32_t>(a), std::bit_cast<std::int32_t>(b));
}

std::optional<std::uint64_t> ulps_between(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return {};
  return distance(std::bit_cast<std::int64_t>(a), std::bit_cast<std::int64_t>(b));
}

std::optional<std::uint64_t> ulps_between(std::int64_t a, std::int64_t b) {
  return a < b ? static_cast<std::uint64_t>(b) - static_cast<std::uint64_t>(a)
               : static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b);
}

static std::int64_t bits_of(std::int64_t x) {
  return x;
}
static std::uint32_t bits_of(float x) {
  return std::bit_cast<std::uint32_t>(x);
}
static std::uint64_t bits_of(double x) {
  return std::bit_cast<std::uint64_t>(x);
}

static double unit_of(std::int64_t) {
  return 1;
}
template <class T>
static double unit_of(T x) {
  const T size = std::fabs(x);
  return std::isfinite(size)
             ? static_cast<double>(std::nextafter(size, std::numeric_limits<T>::infinity())) -
                   static_cast<double>(size)
             : 0;
}

template <class T>
void Tally::add(std::int64_t begin, std::span<const T> a, std::span<const T> b) {
  require(a.size() == b.size(), "cannot compare two arrays of different sizes ({} and {} elements)",
          a.size(), b.size());
  elements += std::ssize(a);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]);
    a_squares += x * x;
    const double unit = unit_of(a[i]), unit_square = unit * unit / 12;
    unit_squares += unit_square;
    unit_products += x * x * unit_square;
    if (bits_of(a[i]) == bits_of(b[i])) continue;
    const auto at = begin + static_cast<std::int64_t>(i);
    ++differ;
    if (first < 0 || at < first) first = at;
    const double d = static_cast<double>(b[i]) - x;
    d_squares += d * d;
    product += x * d;
    const auto ulps = ulps_between(a[i], b[i]);
    if (!ulps) {
      ++nans;
    } else if (largest_at < 0 || *ulps > largest_ulps ||
               (*ulps == largest_ulps && at < largest_at)) {
      largest_ulps = *ulps;
      largest_at = at;
      largest_a = x;
      largest_b = static_cast<double>(b[i]);
    }
  }
}

template void Tally::add(std::int64_t, std::span<const float>, std::span<const float>);
template void Tally::add(std::int64_t, std::span<const double>, std::span<const double>);
template void Tally::add(std::int64_t, std::span<const std::int64_t>,
                         std::span<const std::int64_t>);

}  // namespace trireme
