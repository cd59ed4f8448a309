#pragma once
// A backend that calls somebody after each operation, who may change what it wrote: a fault of
// hardware. Operations have to be done by then, as on host and ref.
#include <cstdint>
#include <functional>
#include <utility>

#include "kernels/backend.hpp"

namespace trireme::test {

class Tampering final : public Backend {
 public:
  using After = std::function<void(const kernel::Operation&)>;
  explicit Tampering(Backend& inner) : inner_(inner) {}
  After after;

  const BackendProperties& properties() const override { return inner_.properties(); }
  void put(Queue q, const kernel::Operation& o) override {
    inner_.put(q, o);
    if (after) after(o);
  }
  AttentionBytes attention_bytes(const AttentionShape& s, DType t, Direction d) const override {
    return inner_.attention_bytes(s, t, d);
  }
  Block take(std::size_t bytes, MemoryKind k, Queue first, Memory m) override {
    return inner_.take(bytes, k, first, m);
  }
  void give(const Block& b, std::span<const Event> last) noexcept override { inner_.give(b, last); }
  const Account& account() const override { return inner_.account(); }
  void lend_workspace(View v) override { inner_.lend_workspace(v); }
  Event record(Queue q) override { return inner_.record(q); }
  void wait(Queue q, Event e) override { inner_.wait(q, e); }
  bool done(Event e) override { return inner_.done(e); }
  void* native(Queue q) override { return inner_.native(q); }
  void upload(Queue q, View dst, std::span<const std::byte> bytes) override {
    inner_.upload(q, dst, bytes);
  }
  void download(Queue q, std::span<std::byte> bytes, ConstView src) override {
    inner_.download(q, bytes, src);
  }
  void touched(Queue q, ConstView read, View written) override { inner_.touched(q, read, written); }

 private:
  Backend& inner_;
};

// One bit of element `i`, low bits first.
inline void flip(const View& v, std::int64_t i, int bit) {
  v.data[i * static_cast<std::int64_t>(bytes_of(v.dtype)) + bit / 8] ^= std::byte(1 << bit % 8);
}

// The first element from the middle on that is not zero: what is masked has no gradient to spoil.
inline std::int64_t element_to_spoil(const View& v) {
  const auto size = static_cast<std::int64_t>(bytes_of(v.dtype));
  auto i = v.count() / 2;
  const auto is_zero = [&] {  // of either sign
    auto any = std::byte{0};
    for (std::int64_t k = 0; k < size; ++k)
      any |= v.data[i * size + k] & std::byte(k + 1 == size ? 0x7f : 0xff);
    return any == std::byte{0};
  };
  while (i + 1 < v.count() && is_zero()) ++i;
  return i;
}

// An `after` that flips a bit in what the n-th operation of its kind (from 0) wrote, once.
template <class O>
Tampering::After flip_in(int n, View O::*operand, int bit) {
  return [n, operand, bit](const kernel::Operation& o) mutable {
    const auto* const it = std::get_if<O>(&o);
    if (it && n-- == 0) flip(it->*operand, element_to_spoil(it->*operand), bit);
  };
}

}  // namespace trireme::test
