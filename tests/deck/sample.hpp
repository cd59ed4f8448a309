#pragma once
// What the deck's tests share.
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "lib/deck/deck.hpp"
#include "tests/support/message_of.hpp"

namespace trireme {

// The shortest deck that is complete.
inline constexpr std::string_view least_deck =
    "[data]\n"
    "path = 'x.tokens'\n"
    "[train]\n"
    "steps = 10\n";

inline Deck parsed(std::string_view text, const std::vector<std::string>& overrides = {}) {
  return parse_deck(text, "d.toml", overrides);
}
inline Deck overridden(std::vector<std::string> overrides) {
  return parsed(least_deck, overrides);
}

// The message that a deck is refused with, or empty when it is not.
inline std::string refusal(std::string_view text, const std::vector<std::string>& overrides = {}) {
  return message_of([&] { parsed(text, overrides); });
}

// The same for the least deck with lines after it; the first of them is line 5.
inline std::string refusal_of_addition(const std::string& lines) {
  return refusal(std::string(least_deck) + lines);
}
inline std::string refusal_of_overrides(const std::vector<std::string>& overrides) {
  return refusal(least_deck, overrides);
}

}  // namespace trireme
