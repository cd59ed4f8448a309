#include "lib/io/table_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "lib/base/counted.hpp"
#include "lib/base/limits.hpp"
#include "lib/base/text_parts.hpp"

namespace trireme {

namespace {

enum class Source : std::uint8_t { file, checkpoint };

struct Row {
  std::int64_t step;
  std::string_view text;  // without the line end
  Source source;
  std::int64_t line = 0;  // of the file
};

bool is_number(std::string_view field) {
  return field.empty() || number_in<double>(field);
}

// Returns the step of a line if the line is a row. A row has as many fields as there are columns,
// and a step in the first field. The other fields must be as the table requires.
std::optional<std::int64_t> step_of(std::string_view line, std::size_t columns,
                                    const TableStart& start) {
  const auto fields = split(line, ',');
  const auto step = number_in<std::int64_t>(fields[0]);
  if (fields.size() != columns || !step || *step < 0) return {};
  const bool row = start.is_row ? start.is_row(line) : std::ranges::all_of(fields, is_number);
  return row ? step : std::nullopt;
}

// What was wrong with a table.
struct Findings {
  bool headless = false;
  std::int64_t strange = 0, first_strange_line = 0;
  std::vector<std::int64_t> doubled, restored;
  std::vector<StepRange> missing;
};

// Sorts the rows and keeps one row for each step: the checkpoint's row if there is one, else the
// last row of the file.
void keep_one_a_step(std::vector<Row>& rows, Findings& found) {
  std::ranges::stable_sort(rows, [](const Row& a, const Row& b) {
    return a.step != b.step ? a.step < b.step : a.source < b.source;
  });
  std::vector<Row> kept;
  for (auto it = rows.begin(); it != rows.end();) {
    const auto end = std::find_if(it, rows.end(), [&](const Row& r) { return r.step != it->step; });
    const auto& last = *std::prev(end);
    const auto of_file = std::count_if(it, end, [](auto& r) { return r.source == Source::file; });
    const bool other = std::any_of(it, end, [&](auto& r) { return r.text != last.text; });
    if (of_file > 1 || other) found.doubled.push_back(it->step);
    if (of_file == 0) found.restored.push_back(it->step);
    kept.push_back(last);
    it = end;
  }
  rows = std::move(kept);
}

// Returns the missing steps. They are ranges, because the step in a checkpoint may be any number.
std::vector<StepRange> missing_in(const std::vector<Row>& rows, std::int64_t first,
                                  std::int64_t last, std::vector<std::int64_t> not_missing) {
  for (const auto& row : rows) not_missing.push_back(row.step);
  std::ranges::sort(not_missing);
  std::vector<StepRange> missing;
  for (const auto step : not_missing) {
    if (step > last) break;
    if (step > first) missing.push_back({first, step - 1});
    first = std::max(first, step + 1);
  }
  if (first <= last) missing.push_back({first, last});
  return missing;
}

std::vector<std::string> remarks_on(const Findings& f) {
  std::vector<std::string> remarks;
  if (f.headless) remarks.emplace_back("its first line is damaged");
  if (f.strange > 0)
    remarks.push_back(fmt::format("left out {} that cannot be read, beginning with line {}",
                                  counted(f.strange, "line"), f.first_strange_line));
  if (!f.doubled.empty())
    remarks.push_back(
        fmt::format("it had several rows for step {}: one is kept", steps_text(f.doubled)));
  if (!f.restored.empty())
    remarks.push_back(fmt::format("it had no row for step {}: restored from the checkpoint",
                                  steps_text(f.restored)));
  if (!f.missing.empty())
    remarks.push_back(fmt::format("it has no row for step {}, and neither has the checkpoint",
                                  steps_text(f.missing)));
  return remarks;
}

}  // namespace

std::optional<StepRange> number_range(std::string_view text, std::int64_t least) {
  const auto dash = text.find('-');
  const auto first = number_in<std::int64_t>(text.substr(0, dash));
  const auto last = dash == text.npos ? first : number_in<std::int64_t>(text.substr(dash + 1));
  if (!first || !last || *first < least || *last < *first || *last > most_counted)
    return std::nullopt;
  return StepRange{*first, *last};
}

std::string steps_text(const std::vector<std::int64_t>& steps) {
  std::vector<StepRange> ranges;
  for (const auto step : steps) {
    if (!ranges.empty() && ranges.back().last + 1 == step)
      ranges.back().last = step;
    else
      ranges.push_back({step, step});
  }
  return steps_text(ranges);
}

std::string steps_text(const std::vector<StepRange>& ranges) {
  constexpr std::size_t most = 8;
  std::vector<std::string> shown;
  for (const auto& r : ranges) {
    if (shown.size() == most)
      return fmt::format("{} and {} more ranges", fmt::join(shown, ", "), ranges.size() - most);
    shown.push_back(r.first == r.last ? fmt::format("{}", r.first)
                                      : fmt::format("{} to {}", r.first, r.last));
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

OrderedTable put_in_order(const std::optional<std::string>& file, std::string_view header,
                          const TableStart& start) {
  const auto columns = split(header, ',').size();
  std::vector<Row> rows, always;
  Findings found;
  std::int64_t line_number = 0;
  found.headless = file && !file->empty() && !file->starts_with(std::string(header) + "\n");
  for (const auto line : whole_lines(file ? *file : std::string_view())) {
    if (++line_number == 1 && !found.headless) continue;
    const auto step = step_of(line, columns, start);
    if (!step && ++found.strange == 1) found.first_strange_line = line_number;
    if (step && start.always && start.always(line))
      always.push_back({*step, line, Source::file, line_number});
    else if (step && *step <= start.step)
      rows.push_back({*step, line, Source::file, line_number});
  }
  for (const auto line : whole_lines(start.carried)) {
    const auto step = step_of(line, columns, start);
    if (step && *step <= start.step) rows.push_back({*step, line, Source::checkpoint});
  }
  keep_one_a_step(rows, found);
  if (!always.empty()) {
    rows.insert(rows.end(), always.begin(), always.end());
    std::ranges::sort(rows, {}, &Row::line);
  }
  if (start.first) found.missing = missing_in(rows, *start.first, start.step, start.optional);

  OrderedTable table{std::string(header) + "\n", remarks_on(found),
                     found.headless || found.strange > 0 || !found.doubled.empty()};
  if (found.headless && !start.first)
    table.remarks.push_back(
        rows.empty() ? fmt::format("its rows up to step {} are lost", start.step)
                     : fmt::format("rows before step {} may be lost", rows.front().step));
  for (const auto& row : rows) table.text.append(row.text).append("\n");
  return table;
}

}  // namespace trireme
