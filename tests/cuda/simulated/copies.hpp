#pragma once
// What threads of a simulated block bring to a meeting of their warp, and copies of 16 bytes that
// arrive as late as they may.
#include <cstddef>
#include <type_traits>

#include "tests/cuda/simulated/block.hpp"

namespace trireme::simulated {

// Bytes that a lane may bring.
inline constexpr std::size_t most_brought = 64;

// Waits for all 32 lanes of the warp. Returns what they brought, `most_brought` bytes apart, until
// this lane's next meeting.
const std::byte* meet_with(const void* brought, std::size_t bytes, const Where&);

template <class T>
class Lanes {
 public:
  explicit Lanes(const std::byte* first) : first_(first) {}
  const T& operator[](unsigned lane) const {
    return *reinterpret_cast<const T*>(first_ + lane * most_brought);
  }

 private:
  const std::byte* first_;
};
template <class T>
Lanes<T> meet_with(const T& brought, const Where& where) {
  static_assert(sizeof(T) <= most_brought && std::is_trivially_copyable_v<T>);
  return Lanes<T>(meet_with(&brought, sizeof(T), where));
}

// Copies of a thread, in groups. Nothing arrives before it is waited for. A null `from` stands for
// zeros. Throws Error if an address is not aligned to 16 bytes.
void start_copy(unsigned thread, void* to, const void* from);
void end_copies(unsigned thread);
void wait_for_copies(unsigned thread, int groups);
// Returns the number of copies that nobody waited for, and forgets all.
std::size_t forget_copies();

}  // namespace trireme::simulated
