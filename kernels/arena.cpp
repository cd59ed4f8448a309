#include "kernels/arena.hpp"

#include <algorithm>
#include <iterator>

namespace trireme {

std::string describe(const Account& a) {
  std::string text;
  const auto mib = [](std::size_t n) { return static_cast<double>(n) / (1 << 20); };
  for (std::size_t k = 0; k < memory_kind_count; ++k)
    if (a.peak[k])
      text += fmt::format("  {:<10} {:>12.1f} MiB live {:>12.1f} MiB peak\n",
                          name_of(static_cast<MemoryKind>(k)), mib(a.live[k]), mib(a.peak[k]));
  return text + fmt::format("  {:<10} {:>12.1f} MiB live {:>12.1f} MiB peak, {:.1f} MiB reserved",
                            "all", mib(a.live_all), mib(a.peak_all), mib(a.reserved));
}

static void merge(Tickets& into, const Tickets& other) {
  for (std::size_t q = 0; q < queue_count; ++q) into[q] = std::max(into[q], other[q]);
}

Arena::Arena(std::size_t device_capacity, std::size_t pinned_capacity) {
  range(Memory::device).capacity = device_capacity;
  range(Memory::pinned).capacity = pinned_capacity;
}

void Arena::insert(Range& r, std::size_t offset, Free f) {
  r.by_size.emplace(f.bytes, offset);
  r.by_offset.emplace(offset, f);
}

Arena::Free Arena::remove(Range& r, std::size_t offset) {
  const auto it = r.by_offset.find(offset);
  const Free f = it->second;
  r.by_size.erase({f.bytes, offset});
  r.by_offset.erase(it);
  return f;
}

Arena::Taken Arena::take(std::size_t bytes, MemoryKind kind, Memory memory) {
  bytes = std::max<std::size_t>(1, (bytes + granule - 1) / granule) * granule;
  auto& r = range(memory);
  Taken t{0, bytes, {}};
  auto fit = r.by_size.lower_bound({bytes, 0});
  if (fit != r.by_size.end() && fit->second + fit->first == r.end) ++fit;
  if (fit != r.by_size.end()) {
    t.offset = fit->second;
    const Free f = remove(r, t.offset);
    t.last = f.last;
    if (f.bytes > bytes) insert(r, t.offset + bytes, {f.bytes - bytes, f.last});
  } else {
    // No free range before the end fits. The block begins in the free range at the end, if there is
    // one, and the arena grows by the rest.
    t.offset = r.end;
    Free tail{};
    if (!r.by_offset.empty()) {
      const auto& [offset, f] = *r.by_offset.rbegin();
      if (offset + f.bytes == r.end) t.offset = offset, tail = f;
    }
    if (t.offset + bytes > r.capacity)
      fail(
          "out of memory: {} bytes for {} do not fit, because {} of {} bytes are already reserved. "
          "Reduce train.microbatch or model.context, or set model.recompute = \"block\". Memory by "
          "kind:\n{}",
          bytes, name_of(kind), r.end, r.capacity, describe(account_));
    if (t.offset < r.end) t.last = remove(r, t.offset).last;
    if (tail.bytes > bytes) insert(r, t.offset + bytes, {tail.bytes - bytes, tail.last});
    r.end = std::max(r.end, t.offset + bytes);
  }
  const auto k = static_cast<std::size_t>(kind);
  account_.live[k] += bytes;
  account_.live_all += bytes;
  account_.peak[k] = std::max(account_.peak[k], account_.live[k]);
  account_.peak_all = std::max(account_.peak_all, account_.live_all);
  account_.reserved = range(Memory::device).end;
  account_.pinned_reserved = range(Memory::pinned).end;
  return t;
}

void Arena::give(std::size_t offset, std::size_t bytes, MemoryKind kind, Memory memory,
                 std::span<const Event> last) noexcept {
  auto& r = range(memory);
  Free f{bytes, {}};
  for (const Event& e : last) {
    auto& ticket = f.last[static_cast<std::size_t>(e.queue)];
    ticket = std::max(ticket, e.ticket);
  }
  auto next = r.by_offset.lower_bound(offset);
  if (next != r.by_offset.end() && next->first == offset + bytes) {
    const Free n = remove(r, next->first);
    f.bytes += n.bytes;
    merge(f.last, n.last);
    next = r.by_offset.lower_bound(offset);
  }
  if (next != r.by_offset.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.bytes == offset) {
      offset = before->first;
      const Free p = remove(r, offset);
      f.bytes += p.bytes;
      merge(f.last, p.last);
    }
  }
  insert(r, offset, f);
  account_.live[static_cast<std::size_t>(kind)] -= bytes;
  account_.live_all -= bytes;
}

}  // namespace trireme
