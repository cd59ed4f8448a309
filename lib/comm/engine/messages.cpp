#include "lib/comm/engine/messages.hpp"

#include <algorithm>

namespace trireme::engine {
namespace {

// Returns elements [begin, begin + n) of a dense view.
template <class V>
V elements(const V& v, std::int64_t begin, std::int64_t n) {
  return V(v.data + begin * static_cast<std::int64_t>(bytes_of(v.dtype)), v.dtype, {n});
}

template <class V>
V equal_slice(const V& v, int rank, int size) {
  const auto n = v.count() / size;
  return elements(v, rank * n, n);
}

// Calls body(begin, count) for each chunk of n elements.
template <class Body>
void for_chunks(std::int64_t n, std::int64_t chunk, const Body& body) {
  for (std::int64_t begin = 0; begin < n; begin += chunk) body(begin, std::min(chunk, n - begin));
}

// Adds one message for each chunk of the view.
template <class Message, class V>
void add_chunks(std::vector<Message>& messages, int peer, const V& v, std::int64_t chunk) {
  for_chunks(v.count(), chunk, [&](std::int64_t begin, std::int64_t n) {
    messages.push_back({peer, elements(v, begin, n)});
  });
}

// Reserves memory for the messages to and from the other ranks: one per rank and chunk of n
// elements.
void reserve_for_others(Messages& m, int size, std::int64_t n, std::int64_t chunk) {
  const auto all = static_cast<std::size_t>(n == 0 ? 0 : ((n - 1) / chunk + 1) * (size - 1));
  m.out.reserve(all);
  m.in.reserve(all);
}

}  // namespace

View slice_of(const View& v, int rank, int size) {
  return equal_slice(v, rank, size);
}

ConstView slice_of(const ConstView& v, int rank, int size) {
  return equal_slice(v, rank, size);
}

Messages gather_messages(int rank, int size, const View& dst, const ConstView& src,
                         std::int64_t chunk) {
  Messages m;
  reserve_for_others(m, size, src.count(), chunk);
  for_chunks(src.count(), chunk, [&](std::int64_t begin, std::int64_t n) {
    for (int k = 1; k < size; ++k) {
      const int to = (rank + k) % size, from = (rank + size - k) % size;
      m.out.push_back({to, elements(src, begin, n)});
      m.in.push_back({from, elements(slice_of(dst, from, size), begin, n)});
    }
  });
  return m;
}

Messages scatter_messages(int rank, int size, const View& dst, const ConstView& src,
                          std::int64_t chunk) {
  Messages m;
  reserve_for_others(m, size, dst.count(), chunk);
  for_chunks(dst.count(), chunk, [&](std::int64_t begin, std::int64_t n) {
    for (int k = 1; k < size; ++k) {
      const int to = (rank + size - k) % size, from = (rank + k) % size;
      m.out.push_back({to, elements(slice_of(src, to, size), begin, n)});
      m.in.push_back({from, elements(dst, begin, n)});
    }
  });
  return m;
}

Messages exchange_messages(int rank, std::span<const View> dst, std::span<const ConstView> src,
                           std::int64_t chunk) {
  Messages m;
  const int size = static_cast<int>(dst.size());
  for (int k = 1; k < size; ++k) {
    const int to = (rank + k) % size, from = (rank + size - k) % size;
    if (const auto& v = src[static_cast<std::size_t>(to)]) add_chunks(m.out, to, v, chunk);
    if (const auto& v = dst[static_cast<std::size_t>(from)]) add_chunks(m.in, from, v, chunk);
  }
  return m;
}

Messages send_messages(int to, const ConstView& v, std::int64_t chunk) {
  Messages m;
  add_chunks(m.out, to, v, chunk);
  return m;
}

Messages receive_messages(int from, const View& v, std::int64_t chunk) {
  Messages m;
  add_chunks(m.in, from, v, chunk);
  return m;
}

}  // namespace trireme::engine
