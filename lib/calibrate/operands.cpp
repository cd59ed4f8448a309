#include "lib/calibrate/operands.hpp"

#include <algorithm>

#include "lib/base/rng.hpp"

namespace trireme {

constexpr std::int64_t random_numbers = 1 << 16;

SampleOperands::SampleOperands(Backend& b) : backend_(b) {
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < random_numbers; ++i)
    numbers.push_back(2 * unit_float(static_cast<std::uint32_t>(hash64(1, i))) - 1);
  random_ = Tensor::empty(b, {random_numbers}, DType::f32, MemoryKind::transient);
  b.upload(Queue::compute, random_.view(), std::as_bytes(std::span(numbers)));
}

View SampleOperands::take(DType t, const Shape& s) {
  tensors_.push_back(Tensor::empty(backend_, s, t, MemoryKind::transient));
  const View v = tensors_.back().view();
  if (t == DType::i32 || t == DType::i64) {
    backend_.put(Queue::compute, kernel::Fill{.dst = v, .value = 5});
    return v;
  }
  const View flat = v.reshaped({v.count()});
  for (std::int64_t begin = 0; begin < v.count(); begin += random_numbers) {
    const auto n = std::min(random_numbers, v.count() - begin);
    backend_.put(Queue::compute,
                 kernel::Copy{.dst = flat.slice(0, begin, n), .src = random_.slice(0, {n}).view()});
  }
  return v;
}

View SampleOperands::numbers(const Shape& s, std::int64_t end) {
  constexpr std::int64_t prime = 7919;
  std::vector<std::int32_t> numbers;
  for (std::int64_t i = 0; i < s.count(); ++i)
    numbers.push_back(static_cast<std::int32_t>(i * prime % end));
  tensors_.push_back(Tensor::empty(backend_, s, DType::i32, MemoryKind::transient));
  backend_.upload(Queue::compute, tensors_.back().view(), std::as_bytes(std::span(numbers)));
  return tensors_.back().view();
}

double seconds_of_calls(Backend& b, const Stopwatch& watch,
                        const std::function<kernel::Operation(SampleOperands&)>& make) {
  constexpr double beyond_caches = 64 << 20;
  constexpr std::size_t most = 48;
  SampleOperands memory(b);
  std::vector<kernel::Operation> all{make(memory)};
  const double bytes = std::visit([](const auto& o) { return work_of(o).bytes; }, all[0]);
  const auto wanted = static_cast<std::size_t>(beyond_caches / std::max(bytes, 1.0));
  while (all.size() < std::clamp<std::size_t>(wanted, 2, most)) all.push_back(make(memory));
  return watch.seconds(Queue::compute, [&](int i) {
    b.put(Queue::compute, all[static_cast<std::size_t>(i) % all.size()]);
  });
}

}  // namespace trireme
