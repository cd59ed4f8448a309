#include "lib/io/digests.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/base/error.hpp"
#include "lib/base/text_parts.hpp"

namespace trireme {

constexpr std::size_t digits = 16;

std::string to_csv(const DigestRow& row) {
  std::string text = fmt::format("{},{},", row.step, fmt::join(row.arrays, " "));
  for (const auto& of_array : row.of)
    for (const auto& d : of_array)
      text += d ? fmt::format("{:016x}", *d) : std::string(digits, '-');
  return text;
}

static std::optional<std::uint64_t> parse_digest(std::string_view text) {
  if (text == std::string(digits, '-')) return {};
  const auto value = number_in<std::uint64_t>(text, 16);
  require(value.has_value(), "a digest must have 16 hexadecimal digits, but is \"{}\"", text);
  return value;
}

DigestRow parse_digest_row(std::string_view text) {
  const auto fields = split(text, ',');
  require(fields.size() == 3, "a row of digests must have the columns {}", digest_columns);
  const auto step = number_in<std::int64_t>(fields[0]);
  require(step.has_value(), "a row of digests must begin with its step, not with \"{}\"",
          fields[0]);
  DigestRow row;
  row.step = *step;
  const auto all = fields[2];
  if (!fields[1].empty())
    for (const auto name : split(fields[1], ' ')) row.arrays.emplace_back(name);
  const auto a_parameter = row.arrays.size() * digits;
  require(a_parameter > 0 && all.size() % a_parameter == 0,
          "a row has {} characters of digests, but must have a multiple of 16 for each of its {} "
          "arrays",
          all.size(), row.arrays.size());
  const auto params = all.size() / a_parameter;
  for (std::size_t i = 0; i < row.arrays.size() * params; ++i) {
    if (i % params == 0) row.of.emplace_back();
    row.of.back().push_back(parse_digest(all.substr(i * digits, digits)));
  }
  return row;
}

bool is_digest_row(std::string_view text) {
  try {
    parse_digest_row(text);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace trireme
