// Quantities with units as people type them: 80G, 01:30:00.
#include <cmath>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/deck/deck.hpp"
#include "lib/deck/value.hpp"

namespace trireme {

std::int64_t parse_byte_count(std::string_view text) {
  constexpr std::string_view letters = "KMGT";
  double scale = 1;
  std::string_view digits = text;
  const auto letter = text.empty() ? std::string_view::npos : letters.find(text.back());
  if (letter != std::string_view::npos) {
    scale = std::pow(1024.0, static_cast<double>(letter + 1));
    digits.remove_suffix(1);
  }
  double number = 0;
  std::int64_t bytes = 0;
  require(read_number(digits, number) && number >= 0 && whole_number(number * scale, bytes),
          "'{}' is not a number of bytes; write one such as 80G, 512M or 1000000", text);
  return bytes;
}

double parse_duration(std::string_view text) {
  const auto refuse = [&] {
    fail("'{}' is not a duration; write hh:mm:ss, mm:ss or seconds", text);
  };
  std::vector<double> fields;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const auto colon = rest.find(':');
    more = colon != std::string_view::npos;
    double field = 0;
    if (!read_number(rest.substr(0, colon), field) || !(field >= 0) || std::isinf(field)) refuse();
    fields.push_back(field);
    if (more) rest.remove_prefix(colon + 1);
  }
  if (fields.size() > 3) refuse();
  double seconds = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0 && fields[i] >= 60) refuse();
    seconds = seconds * 60 + fields[i];
  }
  return seconds;
}

}  // namespace trireme
