#include "kernels/dry/dry.hpp"

#include <algorithm>
#include <cstring>

namespace trireme {

Dry::Dry(DryTarget target)
    : target_(std::move(target)),
      properties_(target_.properties),
      arena_(target_.capacity, target_.capacity) {
  properties_.name = "dry";
}

// Returns the first address of a pretended memory. Device memory begins at 4 KiB and pinned memory
// at 2^62. The addresses are never accessed.
static std::uintptr_t base(Memory m) {
  return m == Memory::device ? 4096 : std::uintptr_t{1} << 62;
}

Block Dry::take(std::size_t bytes, MemoryKind kind, Queue first, Memory memory) {
  const auto t = arena_.take(bytes, kind, memory);
  for (std::size_t q = 0; q < queue_count; ++q) wait(first, {static_cast<Queue>(q), t.last[q]});
  return {reinterpret_cast<std::byte*>(base(memory) + t.offset), t.bytes, kind, memory};
}

void Dry::give(const Block& b, std::span<const Event> last) noexcept {
  arena_.give(reinterpret_cast<std::uintptr_t>(b.data) - base(b.memory), b.bytes, b.kind, b.memory,
              last);
}

// Returns true if p is an address of pretended pinned memory. Transfers to and from this memory are
// recorded but move no data.
static bool pinned(const std::byte* p) {
  return reinterpret_cast<std::uintptr_t>(p) >= base(Memory::pinned);
}

void Dry::begin(std::string_view what, Queue q) {
  if (target_.order) accesses_.begin(what, q);
}

void Dry::access(Role role, const ConstView& v) {
  if (!target_.order) return;
  if (reads(role)) accesses_.touch(Touch::read, v);
  if (writes(role)) accesses_.touch(Touch::write, v);
}

void Dry::transfer(std::string_view what, Queue q, const ConstView& src, const View& dst) {
  begin(what, q);
  access(Role::read, src);
  access(Role::write, dst);
}

void Dry::put(Queue q, const kernel::Operation& operation) {
  kernel::check_operands(operation);
  begin(name_of(operation), q);
  std::visit(
      [this](const auto& o) {
        each_operand(o, [this](const auto& view, Role role) { access(role, view); });
        flops_ += work_of(o).flops;
      },
      operation);
}

void Dry::touched(Queue q, ConstView read, View written) {
  transfer("the host", q, read, written);
}

void Dry::upload(Queue q, View dst, std::span<const std::byte> bytes) {
  ConstView src = dst;
  src.data = pinned(bytes.data()) ? bytes.data() : nullptr;
  transfer("upload", q, src, dst);
}

void Dry::download(Queue q, std::span<std::byte> bytes, ConstView src) {
  if (pinned(bytes.data()))
    return transfer("download", q, src, View(bytes.data(), src.dtype, {src.count()}));
  transfer("download", q, src, {});
  std::ranges::fill(bytes, std::byte{0});
  const double one = 1;
  if (src.dtype == DType::f64)
    for (std::size_t i = 0; i + sizeof one <= bytes.size(); i += sizeof one)
      std::memcpy(bytes.data() + i, &one, sizeof one);
}

}  // namespace trireme
