#include "lib/keys/quantity.hpp"

#include <cmath>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/keys/value.hpp"

namespace trireme {

namespace {

// Returns the factor of a number's unit: 1 for no unit and B, 2^30 for G and GiB, 10^9 for GB.
// Returns 0 for an unknown unit.
double scale_of(std::string_view unit) {
  constexpr std::string_view letters = "kmgt";
  std::string lower(unit);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  if (lower.empty() || lower == "b") return 1;
  const auto power = letters.find(lower[0]);
  if (power == std::string_view::npos) return 0;
  const auto rest = lower.substr(1);
  const bool binary = rest.empty() || rest == "i" || rest == "ib";
  if (!binary && rest != "b") return 0;
  return std::pow(binary ? 1024.0 : 1000.0, static_cast<double>(power + 1));
}

}  // namespace

std::int64_t parse_byte_count(std::string_view text) {
  // No machine has less memory. A smaller number without a unit is one whose unit was forgotten.
  constexpr std::int64_t least_plain = 1 << 20;
  const auto last = text.find_last_of("0123456789.");
  const auto digits = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  auto unit = text.substr(digits.size());
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  double number = 0;
  std::int64_t bytes = 0;
  const double scale = scale_of(unit);
  require(scale > 0 && read_number(digits, number) && number >= 0 &&
              whole_number(std::floor(number * scale), bytes) &&
              (scale > 1 || static_cast<double>(bytes) == number),
          "'{}' is not a number of bytes; write one such as 80G or 80GiB (2^30 bytes each), 40GB "
          "(10^9), 512M or 8000000000",
          text);
  require(!unit.empty() || bytes >= least_plain || bytes == 0,
          "{0} has no unit: write {0}B for bytes, {0}M or {0}G for MiB or GiB (2^20 or 2^30 bytes "
          "each), or {0}GB for 10^9 bytes each",
          digits);
  return bytes;
}

double parse_duration(std::string_view text) {
  const auto refuse = [&] {
    fail("'{}' is not a duration; write hh:mm:ss, mm:ss, D-hh:mm:ss or a number of seconds", text);
  };
  std::vector<double> fields;
  std::string_view rest = text;
  // Days before a dash, as Slurm writes them. The next field is hours.
  double days = 0;
  const auto dash = text.find('-');
  const bool of_days = dash != std::string_view::npos && dash > 0;
  if (of_days) {
    if (!read_number(text.substr(0, dash), days) || !(days >= 0) || days != std::floor(days))
      refuse();
    rest.remove_prefix(dash + 1);
  }
  for (bool more = true; more;) {
    const auto colon = rest.find(':');
    more = colon != std::string_view::npos;
    double field = 0;
    if (!read_number(rest.substr(0, colon), field) || !(field >= 0) || std::isinf(field)) refuse();
    fields.push_back(field);
    if (more) rest.remove_prefix(colon + 1);
  }
  if (fields.size() > 3) refuse();
  if (of_days && (fields[0] >= 24 || fields[0] != std::floor(fields[0]))) refuse();
  double seconds = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0 && fields[i] >= 60) refuse();
    seconds = seconds * 60 + fields[i];
  }
  if (of_days)  // the first field is hours, however many follow
    for (auto i = fields.size(); i < 3; ++i) seconds *= 60;
  return days * 86400 + seconds;
}

}  // namespace trireme
