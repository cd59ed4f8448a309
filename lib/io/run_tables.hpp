#pragma once
// history.csv and evaluation.csv: one row a step, written as soon as it is known and synced to disk
// before a checkpoint. Numbers are written in the shortest form that reads back as the same double.
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/posix_file.hpp"
#include "lib/io/table_rows.hpp"

namespace trireme {

// A CSV file whose first column is the step.
class CsvFile {
 public:
  // Continues the file or, without a start, begins a new one. A damaged file is repaired; if a line
  // is lost, the original is kept as NAME.damaged, or NAME.damaged-2 and so on where that is taken.
  // Error if the file exists with another header.
  CsvFile(const std::filesystem::path&, std::string_view header, const std::optional<TableStart>&);
  // One row without its newline. On a full disk throws Error and leaves the whole rows.
  void append(std::string_view row);
  void sync();
  const std::filesystem::path& path() const { return file_.path(); }
  // Is it still what its name stands for, with all its rows? Somebody may have removed it.
  bool in_place() const;
  // Gives all rows that name again; what has it now is kept as NAME.damaged. Error if rows are
  // lost.
  void put_back();
  // The rows that a checkpoint stores, from which a lost table can be restored.
  std::string newest_rows() const;
  std::optional<std::int64_t> first_step() const { return first_step_; }  // none: no row
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  CsvFile(const std::filesystem::path&, OrderedTable);
  void remember(std::string_view row);

  PosixFile file_;
  std::uint64_t inode_;
  std::int64_t end_;
  std::deque<std::string> newest_;
  std::optional<std::int64_t> first_step_;
  std::vector<std::string> remarks_;
};

// A table's columns, and with those of train.objective = "dpo" behind them.
struct TableColumns {
  std::string_view plain, preferences;
};
inline constexpr TableColumns
    history_columns =
        {"step,tokens,loss,grad_norm,lr,seconds,tokens_per_second,mfu,bytes_sent,bytes_peak",
         "step,tokens,loss,grad_norm,lr,seconds,tokens_per_second,mfu,bytes_sent,bytes_peak,margin,"
         "accuracy,reward_chosen,reward_rejected"},
    evaluation_columns = {
        "step,tokens,loss,perplexity",
        "step,tokens,loss,perplexity,margin,accuracy,reward_chosen,reward_rejected"};

// Means over pairs of documents: of a step, or held out.
struct PreferenceColumns {
  double margin = 0, accuracy = 0, reward_chosen = 0, reward_rejected = 0;
};

struct HistoryRow {
  std::int64_t step = 0, tokens = 0;
  double loss = 0, grad_norm = 0, lr = 0, seconds = 0, tokens_per_second = 0;
  std::int64_t bytes_sent = 0, bytes_peak = 0;
  double mfu = 0;  // the model's FLOPs, of what the ranks' machines can do; 0: not known
  std::optional<PreferenceColumns> preference{};  // has the columns of its own
};
std::string to_csv(const HistoryRow&);  // mfu is empty where it is not known

struct EvaluationRow {
  std::int64_t step = 0, tokens = 0;
  double loss = 0, perplexity = 0;  // 0: a loss of pairs has none
  std::optional<PreferenceColumns> preference{};
};
std::string to_csv(const EvaluationRow&);  // perplexity is empty where there is none

// A run may change its objective with a restart. Columns of preferences, once there, stay, and are
// empty in the rows of other steps.
bool has_preferences(std::string_view rows, const TableColumns&);  // with the header or without
std::string with_preferences(const std::string& rows, const TableColumns&);  // likewise

// The whole rows of a table as far as it is there, in order of their steps, one a step. Error if it
// has other columns.
std::vector<HistoryRow> read_history(const std::filesystem::path&);
std::vector<EvaluationRow> read_evaluations(const std::filesystem::path&);

// Error if the table exists with other columns.
void require_columns(const std::filesystem::path&, std::string_view header);
void require_columns(const std::filesystem::path&, const TableColumns&);
// Is there a whole row for this step?
bool has_row(const std::filesystem::path&, const TableColumns&, std::int64_t step);

}  // namespace trireme
