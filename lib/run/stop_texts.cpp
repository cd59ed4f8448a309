#include "lib/run/stop_texts.hpp"

#include <algorithm>

namespace trireme {

std::size_t stop_at(std::string_view text, std::span<const std::string> stops) {
  auto first = std::string_view::npos;
  for (const auto& stop : stops) first = std::min(first, text.find(stop));
  return first;
}

std::size_t stable_bytes(std::string_view text, std::span<const std::string> stops) {
  constexpr std::string_view unfinished = "\xEF\xBF\xBD";
  auto size = std::min(text.size(), stop_at(text, stops));
  if (size < text.size()) return size;
  while (text.substr(0, size).ends_with(unfinished)) size -= unfinished.size();
  const auto whole = text.substr(0, size);
  const bool cut = whole.size() < text.size();
  for (const auto& stop : stops)
    for (auto n = std::min(stop.size() - 1, whole.size()); n > 0; --n) {
      // If an unfinished character follows, the stop text can only continue with a byte of a
      // multi-byte character.
      const bool goes_on = !cut || static_cast<unsigned char>(stop[n]) >= 0x80;
      if (goes_on && whole.ends_with(std::string_view(stop).substr(0, n))) {
        size = std::min(size, whole.size() - n);
        break;
      }
    }
  return size;
}

}  // namespace trireme
