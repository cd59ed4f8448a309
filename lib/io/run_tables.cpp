#include "lib/io/run_tables.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <span>
#include <tuple>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/text_parts.hpp"

namespace trireme {

namespace fs = std::filesystem;

constexpr std::size_t carried_rows = 1000;

// Returns true if the first line is cut, or if it has zeros, which a power cut may leave in the
// place of a file's data.
static bool is_damaged(std::string_view text, std::string_view header) {
  const auto line = text.substr(0, text.find('\n'));
  const bool cut = line == text && (header.starts_with(line) || line.starts_with(header));
  return cut || line.find('\0') != line.npos;
}

// Returns the text of a table, or nothing if the file is missing or empty. Throws Error if the file
// has other columns and is not damaged.
static std::optional<std::string> checked_text(const fs::path& path, std::string_view header) {
  if (!is_there(path)) return {};
  auto text = read_text(path);
  if (text.empty()) return {};
  require(text.starts_with(std::string(header) + "\n") || is_damaged(text, header),
          "{} does not have the columns that this version of Trireme writes -- move the file "
          "elsewhere, or choose another --run-dir",
          path.string());
  return text;
}

void require_columns(const fs::path& path, std::string_view header) {
  checked_text(path, header);
}

static OrderedTable table_of(const fs::path& path, std::string_view header,
                             const std::optional<TableStart>& start) {
  if (!start) return {std::string(header) + "\n", {}, false};
  return put_in_order(checked_text(path, header), header, *start);
}

static std::uint64_t inode_of(const fs::path& path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) fail_errno("look at", path, errno);
  return s.st_ino;
}

static PosixFile start_file(const fs::path& path, OrderedTable& table) {
  if (table.lossy) {
    const auto kept = damaged_name(path);
    replace_atomically(kept, read_text(path));
    table.remarks.push_back(fmt::format("the original is kept as {}", kept.filename().string()));
  }
  replace_atomically(path, table.text);
  return PosixFile::open_to_write(path);
}

CsvFile::CsvFile(const fs::path& path, std::string_view header,
                 const std::optional<TableStart>& start)
    : CsvFile(path, table_of(path, header, start)) {}

CsvFile::CsvFile(const fs::path& path, OrderedTable table)
    : file_(start_file(path, table)),
      inode_(inode_of(path)),
      end_(file_.size()),
      remarks_(table.remarks) {
  const auto lines = whole_lines(table.text);
  for (const auto row : std::span(lines).subspan(1)) remember(row);
}

void CsvFile::remember(std::string_view row) {
  if (!first_step_) first_step_ = number_in<std::int64_t>(row.substr(0, row.find(',')));
  newest_.emplace_back(row);
  if (newest_.size() > carried_rows) newest_.pop_front();
}

void CsvFile::append(std::string_view row) {
  const auto line = std::string(row) + "\n";
  try {
    file_.write_at(std::as_bytes(std::span(line)), end_);
  } catch (const Error&) {
    file_.resize(end_);
    throw;
  }
  end_ += static_cast<std::int64_t>(line.size());
  remember(row);
}

void CsvFile::sync() {
  file_.sync();
}

bool CsvFile::in_place() const {
  struct stat s {};
  // After other errors than ENOENT, the file may still be there.
  if (::stat(file_.path().c_str(), &s) != 0) return errno != ENOENT;
  return s.st_ino == inode_ && s.st_size >= end_;
}

void CsvFile::put_back() {
  const auto path = file_.path();
  std::string text(static_cast<std::size_t>(end_), '\0');
  file_.read_at(std::as_writable_bytes(std::span(text)), 0);
  if (is_there(path)) rename_path(path, damaged_name(path));
  replace_atomically(path, text);
  file_ = PosixFile::open_to_write(path);
  inode_ = inode_of(path);
}

std::string CsvFile::newest_rows() const {
  std::string text;
  for (const auto& row : newest_) text += row + "\n";
  return text;
}

static std::string columns_text(const std::optional<PreferenceColumns>& p) {
  if (!p) return {};
  return fmt::format(",{},{},{},{}", p->margin, p->accuracy, p->reward_chosen, p->reward_rejected);
}

std::string to_csv(const HistoryRow& r) {
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{}", r.step, r.tokens, r.loss, r.grad_norm,
                     r.lr, r.seconds, r.tokens_per_second,
                     r.mfu > 0 ? fmt::format("{:.4f}", r.mfu) : "", r.bytes_sent, r.bytes_peak,
                     r.trained_tokens ? fmt::format("{}", *r.trained_tokens) : "") +
         columns_text(r.preference);
}

std::string to_csv(const EvaluationRow& r) {
  return fmt::format("{},{},{},{}", r.step, r.tokens, r.loss,
                     r.perplexity == 0 ? "" : fmt::format("{}", r.perplexity)) +
         columns_text(r.preference);
}

static auto columns_in(std::string_view line) {
  return std::ranges::count(line, ',') + 1;
}

// Returns the layout of rows: that of their header or, if they have none, the one with the most
// columns that a row has. Returns an empty text if there is none.
static std::string_view layout_of(std::string_view rows, const TableColumns& columns) {
  const auto lines = whole_lines(rows);
  const auto has_it = [&](std::string_view layout) {
    if (layout.empty() || lines.empty()) return false;
    if (rows.starts_with("step,")) return lines[0] == layout;
    return std::ranges::any_of(lines,
                               [&](auto line) { return columns_in(line) == columns_in(layout); });
  };
  for (const auto layout :
       {columns.preferences, columns.older.preferences, columns.plain, columns.older.plain})
    if (has_it(layout)) return layout;
  return {};
}

bool has_header(std::string_view text, const TableColumns& columns) {
  return text.starts_with("step,") && !layout_of(text, columns).empty();
}

bool has_preferences(std::string_view rows, const TableColumns& columns) {
  const auto layout = layout_of(rows, columns);
  return !layout.empty() && (layout == columns.preferences || layout == columns.older.preferences);
}

std::string with_columns(const std::string& rows, const TableColumns& columns,
                         std::string_view layout) {
  const bool has_head = rows.starts_with("step,");
  const auto header = has_head ? layout_of(rows, columns) : std::string_view();
  const auto after = split(layout, ',');
  std::string text;
  for (const auto line : whole_lines(rows)) {
    const auto from = has_head ? header : layout_of(std::string(line) + "\n", columns);
    const auto before = split(from, ','), fields = split(line, ',');
    if (from.empty() || line == from || fields.size() != before.size()) {
      text.append(!from.empty() && line == from ? layout : line).append("\n");
      continue;
    }
    for (std::size_t c = 0; c < after.size(); ++c) {
      const auto at = std::ranges::find(before, after[c]) - before.begin();
      if (c > 0) text += ',';
      if (at < std::ssize(before)) text += fields[static_cast<std::size_t>(at)];
    }
    text += '\n';
  }
  return text;
}

std::string with_preferences(const std::string& rows, const TableColumns& columns) {
  return with_columns(rows, columns, columns.preferences);
}

// Returns the columns that the table at `path` has.
static std::string_view header_of(const fs::path& path, const TableColumns& columns) {
  const auto layout = is_there(path) ? layout_of(read_text(path), columns) : std::string_view();
  return layout.empty() ? columns.plain : layout;
}

void require_columns(const fs::path& path, const TableColumns& columns) {
  require_columns(path, header_of(path, columns));
}

static void read_number(std::string_view text, auto& to) {
  std::from_chars(text.data(), text.data() + text.size(), to);
}
static void read_number(std::string_view text, std::optional<std::int64_t>& to) {
  if (std::int64_t n = 0;
      std::from_chars(text.data(), text.data() + text.size(), n).ec == std::errc())
    to = n;
}

// Reads the rows of a table. `fields` returns references to a row's numbers, in the order of the
// columns. Empty fields keep the values of a new row.
template <class Row, class Fields>
static std::vector<Row> read_rows(const fs::path& path, const TableColumns& columns,
                                  Fields fields) {
  const auto header = header_of(path, columns);
  const auto text = checked_text(path, header);
  if (!text) return {};
  if (is_damaged(*text, header))
    log_warning("{} is damaged: its first rows are lost. `trireme train --restart` rebuilds it",
                path.string());
  const auto table =
      put_in_order(*text, header, {.step = std::numeric_limits<std::int64_t>::max()});
  const bool pairs = has_preferences(table.text, columns);
  const auto newest =
      with_columns(table.text, columns, pairs ? columns.preferences : columns.plain);
  std::vector<Row> rows;
  const auto lines = whole_lines(newest);
  for (const auto line : std::span(lines).subspan(1)) {
    const auto texts = split(line, ',');
    auto field = texts.begin();
    const auto parse = [&](auto&... to) { ((read_number(*field, to), ++field), ...); };
    Row& row = rows.emplace_back();
    std::apply(parse, fields(row));
    if (!pairs || texts.back().empty()) continue;
    auto& p = row.preference.emplace();
    parse(p.margin, p.accuracy, p.reward_chosen, p.reward_rejected);
  }
  return rows;
}

bool is_set_name(std::string_view name) {
  constexpr std::size_t most = 100;  // so that NAME.csv.damaged-2 is a file name, too
  const auto sound = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= most && std::ranges::all_of(name, sound);
}

constexpr std::string_view after_set = ".csv";

fs::path evaluation_table(const fs::path& run, std::string_view set) {
  if (set.empty()) return run / "evaluation.csv";
  return run / folder_of_sets / fmt::format("{}{}", set, after_set);
}

bool is_table_of_set(std::string_view name) {
  if (!name.ends_with(after_set)) return false;
  name.remove_suffix(after_set.size());
  return is_set_name(name);
}

std::vector<std::string> evaluated_sets(const fs::path& run) {
  std::vector<std::string> sets;
  std::error_code none;
  for (fs::directory_iterator it(run / folder_of_sets, none), end; !none && it != end;
       it.increment(none))
    if (const auto name = it->path().filename().string(); is_table_of_set(name))
      sets.push_back(name.substr(0, name.size() - after_set.size()));
  if (is_there(evaluation_table(run, ""))) sets.emplace_back();
  std::ranges::sort(sets);
  return sets;
}

std::vector<HistoryRow> read_history(const fs::path& path) {
  return read_rows<HistoryRow>(path, history_columns, [](HistoryRow& r) {
    return std::tie(r.step, r.tokens, r.loss, r.grad_norm, r.lr, r.seconds, r.tokens_per_second,
                    r.mfu, r.bytes_sent, r.bytes_peak, r.trained_tokens);
  });
}

std::vector<EvaluationRow> read_evaluations(const fs::path& path) {
  return read_rows<EvaluationRow>(path, evaluation_columns, [](EvaluationRow& r) {
    return std::tie(r.step, r.tokens, r.loss, r.perplexity);
  });
}

bool has_row(const fs::path& path, const TableColumns& columns, std::int64_t step) {
  const auto header = header_of(path, columns);
  const auto text = checked_text(path, header);
  if (!text) return false;
  const auto table = put_in_order(*text, header, {.step = step});
  return whole_lines(table.text).back().starts_with(fmt::format("{},", step));
}

}  // namespace trireme
