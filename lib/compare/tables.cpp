#include "lib/compare/tables.hpp"

#include <algorithm>
#include <bit>
#include <map>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/text_parts.hpp"

namespace trireme {

// Compares the rows of the steps that both tables have. Calls differ(comparison, row of a, row of
// b) until it returns true.
template <class Comparison, class Row, class F>
static Comparison compare(std::span<const Row> a, std::span<const Row> b, F differ) {
  Comparison c;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (i->step != j->step) {
      ++(i->step < j->step ? i : j);
      continue;
    }
    ++c.steps;
    c.last = i->step;
    if (!c.first && differ(c, *i, *j)) c.first = i->step;
    if (!c.first) c.equal_until = i->step;
    ++i;
    ++j;
  }
  return c;
}

static void add_if_other(TableComparison& c, const char* column, double a, double b) {
  if (std::bit_cast<std::uint64_t>(a) != std::bit_cast<std::uint64_t>(b))
    c.differ.push_back({column, a, b});
}

TableComparison compare_histories(std::span<const HistoryRow> a, std::span<const HistoryRow> b) {
  return compare<TableComparison>(
      a, b, [](TableComparison& c, const HistoryRow& x, const HistoryRow& y) {
        add_if_other(c, "loss", x.loss, y.loss);
        add_if_other(c, "grad_norm", x.grad_norm, y.grad_norm);
        add_if_other(c, "lr", x.lr, y.lr);
        const bool known = x.trained_tokens && y.trained_tokens;
        if (known && x.trained_tokens != y.trained_tokens)
          c.differ.push_back({.column = "trained_tokens",
                              .a = static_cast<double>(*x.trained_tokens),
                              .b = static_cast<double>(*y.trained_tokens),
                              .is_count = true});
        return !c.differ.empty();
      });
}

TableComparison compare_evaluations(std::span<const EvaluationRow> a,
                                    std::span<const EvaluationRow> b) {
  return compare<TableComparison>(
      a, b, [](TableComparison& c, const EvaluationRow& x, const EvaluationRow& y) {
        add_if_other(c, "loss", x.loss, y.loss);
        return !c.differ.empty();
      });
}

// Calls f(name, digests of row, digests of other) for each array that both have.
template <class F>
static void each_common(const DigestTable& row, const DigestTable& other, F f) {
  for (std::size_t i = 0; i < row.arrays.size(); ++i) {
    const auto j = std::ranges::find(other.arrays, row.arrays[i]) - other.arrays.begin();
    if (j == std::ssize(other.arrays)) continue;
    const auto &x = row.of[i], &y = other.of[static_cast<std::size_t>(j)];
    require(x.size() == y.size(),
            "A has digests of {} parameters, but B has digests of {}. The models differ, so their "
            "digests cannot be compared",
            x.size(), y.size());
    f(row.arrays[i], x, y);
  }
}

std::vector<DigestPlace> differing_tensors(const DigestTable& row, const DigestTable& other) {
  std::vector<DigestPlace> places;
  each_common(row, other, [&](const std::string& array, const auto& x, const auto& y) {
    for (std::size_t p = 0; p < x.size(); ++p)
      if (x[p] != y[p]) places.push_back({array, ParamId::at(p), !x[p] ? "A" : !y[p] ? "B" : ""});
  });
  return places;
}

DigestComparison compare_digests(std::span<const DigestRow> a, std::span<const DigestRow> b) {
  return compare<DigestComparison>(
      a, b, [](DigestComparison& c, const DigestRow& x, const DigestRow& y) {
        c.differ = differing_tensors(x, y);
        c.tensors = 0;
        each_common(
            x, y, [&](const std::string&, const auto& of, const auto&) { c.tensors += of.size(); });
        return !c.differ.empty();
      });
}

std::vector<DigestRow> read_digests(const std::filesystem::path& path) {
  if (!is_there(path)) return {};
  const auto text = read_text(path);
  if (text.empty()) return {};
  require(text.starts_with(std::string(digest_columns) + "\n"),
          "{} is damaged or from another version of Trireme: its first line is not {}",
          path.string(), digest_columns);
  std::map<std::int64_t, DigestRow> rows;
  const auto lines = whole_lines(text);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    try {
      auto row = parse_digest_row(lines[i]);
      const auto step = row.step;
      rows.insert_or_assign(step, std::move(row));
    } catch (const Error& e) {
      fail("{}, line {}: {}", path.string(), i + 1, e.what());
    }
  }
  std::vector<DigestRow> all;
  for (auto& [_, row] : rows) all.push_back(std::move(row));
  return all;
}

}  // namespace trireme
