#include "tests/support/operands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/support/contract.hpp"
#include "tests/support/elements.hpp"
#include "tests/support/values.hpp"

namespace trireme {
namespace {

constexpr std::int64_t around_bytes = 256;  // as blocks are aligned
constexpr std::byte nans{0xff}, others{0x5a};
constexpr std::uint8_t is_read = 1, is_written = 2, is_scratch = 4;  // an element

std::uint8_t use_of(Role r) {
  if (r == Role::scratch) return is_scratch;
  return static_cast<std::uint8_t>((reads(r) ? is_read : 0) | (writes(r) ? is_written : 0));
}

std::string describe(const Operand& o) {
  constexpr const char* names[] = {"read", "write", "add", "scratch"};
  return fmt::format("operand {} ({})", o.place, names[static_cast<int>(o.role)]);
}

}  // namespace

Operands::Operands(Backend& b, DType c, DType tested) : backend(b), compute(c), tested_(tested) {}

Operands::~Operands() {
  const Event last = backend.record(Queue::compute);
  for (const auto& b : blocks_) backend.give(b, {&last, 1});
}

View Operands::take(DType t, const Shape& s, const std::vector<double>& values, MemoryKind kind) {
  const auto size = static_cast<std::int64_t>(bytes_of(t)), around = around_bytes / size;
  const auto all = s.count() + 2 * around;
  blocks_.push_back(
      backend.take(static_cast<std::size_t>(all * size), kind, Queue::compute, Memory::device));
  Allocation p{{blocks_.back().data, t, {all}}, {}, {}};
  std::vector<double> start(static_cast<std::size_t>(all));
  std::ranges::copy(values, start.begin() + around);
  p.start = encode(t, start);
  p.uses.resize(start.size());
  allocations_.push_back(std::move(p));
  return {blocks_.back().data + around * size, t, s};
}

View Operands::random(DType t, DType held, const Shape& s, double amplitude) {
  const auto exact = random_values(s.count(), allocations_.size() + 1, amplitude);
  return take(t, s, decode(held, encode(held, exact)));
}

View Operands::values(const Shape& s, double amplitude) {
  return random(compute, tested_, s, amplitude);
}
View Operands::wide_values(const Shape& s, double amplitude) {
  return random(wide(compute), wide(tested_), s, amplitude);
}
View Operands::of_type(DType t, const Shape& s, double amplitude) {
  return random(t, t, s, amplitude);
}
View Operands::around(double x, DType t, DType held, const Shape& s) {
  auto values = random_values(s.count(), allocations_.size() + 1, x / 2);
  for (double& v : values) v += x;
  return take(t, s, decode(held, encode(held, values)));
}

View Operands::positive(const Shape& s) {
  return around(1, wide(compute), wide(tested_), s);
}
View Operands::large(const Shape& s) {
  return around(100, DType::f32, DType::f32, s);
}
View Operands::given(DType t, const Shape& s, const std::vector<double>& values) {
  return take(t, s, values);
}
View Operands::ids(const std::vector<std::int32_t>& v) {
  return take(DType::i32, {static_cast<std::int64_t>(v.size())}, {v.begin(), v.end()});
}
View Operands::numbers(const std::vector<std::int64_t>& v) {
  return take(DType::i64, {static_cast<std::int64_t>(v.size())}, {v.begin(), v.end()});
}
View Operands::workspace(std::size_t bytes) {
  if (bytes == 0) return {};
  return take(DType::f32, {static_cast<std::int64_t>((bytes + 3) / 4)}, {}, MemoryKind::workspace);
}

std::size_t Operands::allocation_of(const ConstView& v) const {
  const auto found = std::ranges::find_if(allocations_, [&](const Allocation& p) {
    return v.data >= p.all.data && v.data < p.all.data + p.all.span_bytes();
  });
  require(found != allocations_.end(), "an operand is no view of these operands' memory");
  require(found->all.dtype == v.dtype, "an operand is not of its memory's type");
  return static_cast<std::size_t>(found - allocations_.begin());
}

// Indices in its allocation, in the view's order.
std::vector<std::size_t> Operands::elements_of(const ConstView& v) const {
  std::vector<std::size_t> places;
  places.reserve(static_cast<std::size_t>(v.count()));
  const auto first = (v.data - allocations_[allocation_of(v)].all.data) /
                     static_cast<std::ptrdiff_t>(bytes_of(v.dtype));
  for (std::int64_t i = 0; i < v.count(); ++i) {
    auto at = first;
    auto rest = i;
    for (int d = v.dims; d-- > 0;) {
      const auto n = static_cast<std::size_t>(d);
      at += rest % v.extent[n] * v.stride[n];
      rest /= v.extent[n];
    }
    places.push_back(static_cast<std::size_t>(at));
  }
  return places;
}

void Operands::declare(std::vector<Operand> operands) {
  operands_ = std::move(operands);
  for (const auto& o : operands_) {
    auto& allocation = allocations_[allocation_of(o.view)];
    for (const auto at : elements_of(o.view)) allocation.uses[at] |= use_of(o.role);
  }
}

// Elements that are read have their numbers, all others are filled with `before`.
Operands::Contents Operands::start(std::byte before, const Operand* with_other_numbers) const {
  Contents contents;
  for (const auto& p : allocations_) {
    const auto size = bytes_of(p.all.dtype);
    auto numbers = decode(p.all.dtype, p.start);
    if (with_other_numbers && &allocations_[allocation_of(with_other_numbers->view)] == &p)
      for (const auto at : elements_of(with_other_numbers->view))
        numbers[at] = numbers[at] * 0.75 + 0.125;  // positive ones stay positive
    auto bytes = encode(p.all.dtype, numbers);
    for (std::size_t i = 0; i < p.uses.size(); ++i)
      if (!(p.uses[i] & is_read)) std::memset(bytes.data() + i * size, int(before), size);
    contents.push_back(std::move(bytes));
  }
  return contents;
}

Operands::Contents Operands::run_from(const Contents& start,
                                      const std::function<void()>& run) const {
  for (std::size_t i = 0; i < allocations_.size(); ++i)
    backend.upload(Queue::compute, allocations_[i].all, start[i]);
  run();
  Contents after = start;
  for (std::size_t i = 0; i < allocations_.size(); ++i)
    backend.download(Queue::compute, after[i], allocations_[i].all);
  return after;
}

std::vector<std::byte> Operands::bytes_of_operand(const Contents& contents,
                                                  const Operand& o) const {
  const auto& all = contents[allocation_of(o.view)];
  const auto size = bytes_of(o.view.dtype);
  std::vector<std::byte> bytes(static_cast<std::size_t>(o.view.count()) * size);
  std::size_t n = 0;
  for (const auto at : elements_of(o.view))
    std::memcpy(bytes.data() + size * n++, all.data() + at * size, size);
  return bytes;
}

std::vector<std::string> Operands::broken_promises(const std::function<void()>& run) {
  const Contents start_a = start(nans, nullptr), start_b = start(others, nullptr);
  const Contents a = run_from(start_a, run), b = run_from(start_b, run);
  std::vector<std::string> broken;

  for (const auto& o : operands_) {
    const auto allocation = allocation_of(o.view);
    const auto size = bytes_of(o.view.dtype);
    const auto same = [&](const Contents& x, const Contents& y, std::size_t at) {
      return std::memcmp(x[allocation].data() + at * size, y[allocation].data() + at * size,
                         size) == 0;
    };
    // Reports the first of its elements that is wrong.
    const auto find = [&](const char* what, const auto& wrong) {
      std::int64_t n = 0;
      for (const auto at : elements_of(o.view)) {
        if (wrong(at, allocations_[allocation].uses[at])) {
          broken.push_back(fmt::format("{}: element {} {}", describe(o), n, what));
          return;
        }
        ++n;
      }
    };
    if (o.role == Role::scratch) continue;
    if (!writes(o.role)) {
      find("was changed", [&](std::size_t at, int uses) {
        return !(uses & is_written) && !(same(a, start_a, at) && same(b, start_b, at));
      });
      continue;
    }
    bool on_its_own = true;  // none of its elements is read
    find("was not written", [&](std::size_t at, int uses) {
      on_its_own &= !(uses & is_read);
      return !(uses & is_read) && same(a, start_a, at) && same(b, start_b, at);
    });
    find("depends on what was there, or on memory of no operand",
         [&](std::size_t at, int) { return !same(a, b, at); });
    if (on_its_own) continue;
    const auto c = run_from(start(nans, &o), run);
    if (bytes_of_operand(c, o) == bytes_of_operand(a, o))
      broken.push_back(fmt::format("{}: does not depend on what was there", describe(o)));
  }

  for (std::size_t p = 0; p < allocations_.size(); ++p) {
    const auto size = bytes_of(allocations_[p].all.dtype);
    const auto around = around_bytes / static_cast<std::int64_t>(size);
    for (std::size_t i = 0; i < allocations_[p].uses.size(); ++i) {
      const auto changed = [&](const Contents& from, const Contents& to) {
        return std::memcmp(from[p].data() + i * size, to[p].data() + i * size, size) != 0;
      };
      if (allocations_[p].uses[i] || !(changed(start_a, a) || changed(start_b, b))) continue;
      const auto beside = std::ranges::find_if(
          operands_, [&](const Operand& o) { return allocation_of(o.view) == p; });
      broken.push_back(
          fmt::format("{}: element {} of its memory belongs to no operand and was changed",
                      beside == operands_.end() ? "no operand" : describe(*beside),
                      static_cast<std::int64_t>(i) - around));
      break;
    }
  }
  return broken;
}

std::vector<Operands::Result> Operands::results(const std::function<void()>& run) {
  const auto after = run_from(start(nans, nullptr), run);
  std::vector<Result> all;
  for (const auto& o : operands_)
    if (writes(o.role) && o.role != Role::scratch) {
      auto bytes = bytes_of_operand(after, o);
      all.push_back({o, decode(o.view.dtype, bytes), std::move(bytes)});
    }
  return all;
}

std::vector<std::string> differences(const std::vector<Operands::Result>& got,
                                     const std::vector<Operands::Result>& want, DType compute) {
  expect(got.size() == want.size(), "both are results of one operation");
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto &x = got[i].values, &exact = want[i].values;
    expect(x.size() == exact.size(), "both are results of one example");
    double largest = 0;
    for (const double v : exact) largest = std::max(largest, std::abs(v));
    const double unit = std::max(roundoff(compute), roundoff(got[i].operand.view.dtype)) * largest;
    double worst = 16;
    std::size_t at = x.size();
    for (std::size_t n = 0; n < x.size(); ++n)
      if (const double off = std::abs(x[n] - exact[n]); !(off <= worst * unit)) {
        worst = off / unit;
        at = n;
        if (std::isnan(off)) break;
      }
    if (at < x.size())
      lines.push_back(fmt::format("{}: element {} is {}, not {}: {} roundings of {} off",
                                  describe(got[i].operand), at, x[at], exact[at], worst, largest));
  }
  return lines;
}

}  // namespace trireme
