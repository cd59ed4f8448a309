#pragma once
// Where the tables of two runs first differ: rows by step, numbers by their bits. Pure.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/ids.hpp"
#include "lib/io/digests.hpp"
#include "lib/io/run_tables.hpp"

namespace trireme {

// A number of a row that differs.
struct ColumnDifference {
  std::string column;
  double a = 0, b = 0;
};
struct TableComparison {
  std::int64_t steps = 0;             // that both have a row of
  std::int64_t last = 0;              // the last of these; 0: none
  std::int64_t equal_until = 0;       // the last of these before which, and at which, all are equal
  std::optional<std::int64_t> first;  // the first that differs
  std::vector<ColumnDifference> differ;  // there
};
// Loss, gradient norm and learning rate: what a run computes. Time and memory are not compared.
TableComparison compare_histories(std::span<const HistoryRow> a, std::span<const HistoryRow> b);
TableComparison compare_evaluations(std::span<const EvaluationRow> a,
                                    std::span<const EvaluationRow> b);

// A tensor of a row of digests: an array (gradients first, then weights and the optimizer's) of a
// parameter.
struct DigestPlace {
  std::string array;
  ParamId param;
  // Which of both has none; empty: neither.
  std::string_view missing;
};
struct DigestComparison {
  std::int64_t steps = 0, last = 0, equal_until = 0;  // as in TableComparison
  std::optional<std::int64_t> first;
  // All tensors that differ there, in the order of cause and effect: gradients, then what the
  // update makes of them, each in the order of the model.
  std::vector<DigestPlace> differ;
  std::size_t tensors = 0;  // compared there
};
// Error when the runs have other numbers of parameters. Arrays that only one has, another
// optimizer's, are left out.
DigestComparison compare_digests(std::span<const DigestRow> a, std::span<const DigestRow> b);

// Tensors of `row` whose digests in `other` are others, in the same order.
std::vector<DigestPlace> differing_tensors(const DigestTable& row, const DigestTable& other);

// The whole rows of a file of digests, in order of their steps, of several for one step the last;
// empty if there is none. Error naming the file and the line of what is no row.
std::vector<DigestRow> read_digests(const std::filesystem::path&);

}  // namespace trireme
