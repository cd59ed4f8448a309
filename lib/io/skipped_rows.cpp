#include "lib/io/skipped_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/base/posix_file.hpp"
#include "lib/base/text_parts.hpp"

namespace trireme {

std::string to_csv(const SkippedRow& r) {
  return fmt::format("{},{},{},{},{},{}", r.step, r.reason, r.loss, r.grad_norm, r.first_sample,
                     r.samples);
}

std::optional<SkippedRow> skipped_row(std::string_view line) {
  const auto fields = split(line, ',');
  if (fields.size() != 6 || fields[1].empty()) return {};
  const auto step = number_in<std::int64_t>(fields[0]), first = number_in<std::int64_t>(fields[4]),
             samples = number_in<std::int64_t>(fields[5]);
  if (!step || !first || !samples) return {};
  const auto none = std::nan("");
  return SkippedRow{*step,
                    std::string(fields[1]),
                    number_in<double>(fields[2]).value_or(none),
                    number_in<double>(fields[3]).value_or(none),
                    *first,
                    *samples};
}

bool is_skipped_row(std::string_view line) {
  return skipped_row(line).has_value();
}

bool is_left_out(const SkippedRow& row, std::span<const RollbackRow> rollbacks) {
  return std::ranges::any_of(rollbacks, [&](const RollbackRow& r) {
    return row.first_sample >= r.first_sample && row.first_sample < r.next_sample();
  });
}

std::vector<SkippedRow> read_skipped(const std::filesystem::path& run) {
  const auto path = run / "skipped.csv";
  std::vector<SkippedRow> rows;
  if (!is_there(path)) return rows;
  const auto text = read_text(path);
  for (const auto line : whole_lines(text))
    if (auto row = skipped_row(line)) rows.push_back(*std::move(row));
  return rows;
}

}  // namespace trireme
