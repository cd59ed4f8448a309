#pragma once
// history.csv and evaluation.csv: one row a step, on disk as soon as it is known. Numbers are
// written in the shortest form that reads back as the same double.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "lib/io/posix_file.hpp"

namespace trireme {

// A CSV file whose first column is the step.
class CsvFile {
 public:
  // Continues the file after `restored_step` (rows past it and a half-written last line are
  // dropped) or, without one, starts it anew. Error when it exists with another header.
  CsvFile(const std::filesystem::path&, std::string_view header,
          std::optional<std::int64_t> restored_step);
  // One row without its newline. When the disk is full the file keeps its whole rows and Error
  // comes.
  void append(std::string_view row);

 private:
  PosixFile file_;
  std::int64_t end_;
};

struct HistoryRow {
  std::int64_t step = 0, tokens = 0;
  double loss = 0, grad_norm = 0, lr = 0, seconds = 0, tokens_per_second = 0;
  std::optional<double> mfu;  // empty where the machine's peak is unknown
  std::int64_t bytes_sent = 0, bytes_peak = 0;
};

class HistoryFile {
 public:
  HistoryFile(const std::filesystem::path&, std::optional<std::int64_t> restored_step);
  void append(const HistoryRow&);

 private:
  CsvFile csv_;
};

struct EvaluationRow {
  std::int64_t step = 0, tokens = 0;
  double loss = 0, perplexity = 0;
};

class EvaluationFile {
 public:
  EvaluationFile(const std::filesystem::path&, std::optional<std::int64_t> restored_step);
  void append(const EvaluationRow&);

 private:
  CsvFile csv_;
};

}  // namespace trireme
