#include "lib/io/rollback_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/text_parts.hpp"

namespace trireme {

// Quotes a field of a CSV table (RFC 4180), and back.
static std::string field_of(std::string_view text) {
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? "\"\"" : std::string(1, c);
  return field + "\"";
}
static std::optional<std::string> unquoted(std::string_view field) {
  if (field.size() < 2 || field.front() != '"' || field.back() != '"') return std::nullopt;
  std::string text;
  for (std::size_t i = 1; i + 1 < field.size(); ++i) {
    if (field[i] == '"' && field[++i] != '"') return std::nullopt;
    text += field[i];
  }
  return text;
}

static RollbackRow row_of(std::string_view line, const std::filesystem::path& path) {
  std::array<std::int64_t, 4> numbers{};
  auto rest = line;
  bool good = true;
  for (auto& number : numbers) {
    const auto comma = rest.find(',');
    const auto n = number_in<std::int64_t>(rest.substr(0, comma));
    good = good && comma != rest.npos && n && *n >= 0;
    if (!good) break;
    number = *n;
    rest = rest.substr(comma + 1);
  }
  const auto phases = unquoted(rest);
  require(
      good && phases,
      "{} is damaged at the line \"{}\". Its rows say which samples the run leaves out: restore "
      "the file from a copy, or remove it to read these samples again",
      path.string(), line);
  return {numbers[0], numbers[1], numbers[2], numbers[3], *phases};
}

std::filesystem::path run_of_checkpoint(const std::filesystem::path& checkpoint) {
  auto path = std::filesystem::absolute(checkpoint).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (const auto run = path.parent_path().parent_path(); is_there(run / "effective.toml"))
    return run;
  return std::filesystem::weakly_canonical(path).parent_path().parent_path();
}

std::vector<RollbackRow> read_rollbacks(const std::filesystem::path& run) {
  const auto path = run / rollbacks_name;
  if (!is_there(path)) return {};
  std::vector<RollbackRow> rows;
  const auto text = read_text(path);
  for (const auto& line : split(text, '\n'))
    if (!line.empty() && line != rollback_columns) rows.push_back(row_of(line, path));
  return rows;
}

std::vector<RollbackRow> rollbacks_until(const std::filesystem::path& run,
                                         const CheckpointMeta& meta) {
  std::vector<RollbackRow> rows;
  auto first = meta.samples;  // left out by the next rollback to this checkpoint
  for (auto& row : read_rollbacks(run)) {
    const bool before = row.step < meta.step && row.next_sample() <= meta.samples;
    const bool to_it = row.step == meta.step && row.first_sample == first;
    if (!before && !to_it) continue;
    if (to_it) first = row.next_sample();
    rows.push_back(std::move(row));
  }
  return rows;
}

void write_rollbacks(const std::filesystem::path& run, std::span<const RollbackRow> rows) {
  const auto path = run / rollbacks_name;
  if (rows.empty()) {
    if (is_there(path)) remove_path(path);
    return;
  }
  std::string text(rollback_columns);
  for (const auto& r : rows)
    text += fmt::format("\n{},{},{},{},{}", r.step, r.last_skipped, r.first_sample, r.samples,
                        field_of(r.phases));
  replace_atomically(path, text + "\n");
}

std::optional<RollbackRow> last_rollback_to(std::span<const RollbackRow> rows, std::int64_t step) {
  const auto last = std::ranges::find(rows.rbegin(), rows.rend(), step, &RollbackRow::step);
  return last == rows.rend() ? std::nullopt : std::optional(*last);
}

void continue_after_rollback(CheckpointMeta& meta, std::span<const RollbackRow> rows) {
  const auto row = last_rollback_to(rows, meta.step);
  if (!row) return;
  meta.samples = row->next_sample();
  meta.extra.data_phases = row->phases;
}

}  // namespace trireme
