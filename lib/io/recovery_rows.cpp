#include "lib/io/recovery_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/counted.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/text_parts.hpp"

namespace trireme {

// time,job,restart,recovery,died,nodes_before,nodes_after,ranks,last_step,step,seconds
static std::optional<RecoveryRow> row_of(std::string_view line) {
  const auto fields = split(line, ',');
  if (fields.size() != 11) return {};
  const auto ranks = number_in<std::int64_t>(fields[7]);
  if (!ranks) return {};
  const auto text = [&](std::size_t i) { return std::string(fields[i]); };
  return RecoveryRow{text(0),
                     text(1),
                     text(4),
                     text(5),
                     text(6),
                     *ranks,
                     number_in<std::int64_t>(fields[8]),
                     number_in<std::int64_t>(fields[9]),
                     number_in<double>(fields[10])};
}

std::vector<RecoveryRow> read_recoveries(const std::filesystem::path& run) {
  const auto path = run / "recoveries.csv";
  std::vector<RecoveryRow> rows;
  if (!is_there(path)) return rows;
  const auto text = read_text(path);
  for (const auto line : whole_lines(text))
    if (auto row = row_of(line)) rows.push_back(*std::move(row));
  return rows;
}

static std::int64_t repeated_steps(const RecoveryRow& r) {
  return r.step ? std::max<std::int64_t>(0, r.last_step.value_or(0) - *r.step) : 0;
}

RecoveryTotals totals_of(const std::vector<RecoveryRow>& rows) {
  RecoveryTotals all;
  for (const auto& r : rows) {
    ++all.count;
    all.seconds += r.seconds.value_or(0);
    all.repeated_steps += repeated_steps(r);
  }
  return all;
}

std::string text_of(const RecoveryRow& r) {
  if (!r.step || !r.seconds) return r.died + "; the next start failed before it trained";
  const auto repeated = repeated_steps(r);
  return fmt::format(
      "{}; continued after step {} on {} ({}) {:.0f} s after the failed start had "
      "ended{}",
      r.died, *r.step, r.nodes_after, counted(r.ranks, "rank"), *r.seconds,
      repeated == 0
          ? ""
          : fmt::format("; {} repeated",
                        repeated == 1 ? "1 step was" : fmt::format("{} steps were", repeated)));
}

}  // namespace trireme
