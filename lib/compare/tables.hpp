#pragma once
// Finds where the tables of two runs first differ. Rows are matched by step, and numbers are
// compared bit by bit. All comparisons are pure.
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

// A column in which two rows differ.
struct ColumnDifference {
  std::string column;
  double a = 0, b = 0;
  bool is_count = false;  // whole numbers, which rounding does not change
};
// The result of comparing two tables.
struct TableComparison {
  std::int64_t steps = 0;  // number of steps for which both have a row
  std::int64_t last = 0;   // the last of these steps; 0 means none
  // Last step up to which all common rows are equal. 0 means none.
  std::int64_t equal_until = 0;
  std::optional<std::int64_t> first;     // the first step that differs
  std::vector<ColumnDifference> differ;  // the columns that differ in step `first`
};
// Compare the columns that a run computes: the loss, and in histories also the gradient norm and
// the learning rate. Time and memory are not compared.
TableComparison compare_histories(std::span<const HistoryRow> a, std::span<const HistoryRow> b);
TableComparison compare_evaluations(std::span<const EvaluationRow> a,
                                    std::span<const EvaluationRow> b);

// One tensor of a row of digests: one array of a parameter. Arrays are gradients, weights and the
// optimizer's arrays.
struct DigestPlace {
  std::string array;
  ParamId param;
  // "A" or "B" if that run lacks the tensor. Empty if both runs have it.
  std::string_view missing;
};
// The result of comparing two tables of digests.
struct DigestComparison {
  std::int64_t steps = 0, last = 0, equal_until = 0;  // as in TableComparison
  std::optional<std::int64_t> first;
  // All tensors that differ in step `first`. Gradients come first, because they cause the
  // differences in weights and optimizer arrays after the update. Within an array, tensors are in
  // model order.
  std::vector<DigestPlace> differ;
  std::size_t tensors = 0;  // number of tensors compared in step `first`
};
// Compares two tables of digests. Skips arrays that only one run has, for example those of
// different optimizers. Throws Error if the runs have different numbers of parameters.
DigestComparison compare_digests(std::span<const DigestRow> a, std::span<const DigestRow> b);

// Returns the tensors whose digests differ between `row` and `other`, in the order of `row`.
std::vector<DigestPlace> differing_tensors(const DigestTable& row, const DigestTable& other);

// Reads the complete rows of a digest file, ordered by step. If a step has several rows, the last
// one is used. Returns an empty vector if there is no file. Throws Error, naming the file and line,
// if a row is invalid.
std::vector<DigestRow> read_digests(const std::filesystem::path&);

}  // namespace trireme
