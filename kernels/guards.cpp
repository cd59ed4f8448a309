#include "kernels/guards.hpp"

#include <algorithm>
#include <cstdlib>

#include "kernels/arena.hpp"
#include "lib/base/log.hpp"

namespace trireme {

GuardedPlace guarded_place(std::size_t bytes, std::size_t page) {
  constexpr std::size_t most_watched = 4096;  // limit before a block, as device pages are large
  const auto up = [](std::size_t n, std::size_t to) {
    return std::max<std::size_t>(1, (n + to - 1) / to) * to;
  };
  const auto granules = up(bytes, Arena::granule), pages = up(granules, page);
  const auto begin = pages - granules;
  return {begin, begin + bytes, pages, begin - std::min(begin, most_watched)};
}

std::optional<std::string> guard_damage(std::span<const std::byte> before,
                                        std::span<const std::byte> behind, std::size_t bytes,
                                        MemoryKind kind) {
  const auto changed = [](std::byte b) { return b != known_byte; };
  if (const auto at = std::ranges::find_if(behind, changed); at != behind.end())
    return fmt::format("something was written {} bytes after the end of a block of {} bytes of {}",
                       at - behind.begin(), bytes, name_of(kind));
  const auto at = std::find_if(before.rbegin(), before.rend(), changed);
  if (at == before.rend()) return {};
  return fmt::format("something was written {} bytes before a block of {} bytes of {}",
                     at - before.rbegin() + 1, bytes, name_of(kind));
}

void end_for_damage(const std::string& what) noexcept {
  log_error("{}; run.guards found it when the block was freed", what);
  std::abort();
}

}  // namespace trireme
