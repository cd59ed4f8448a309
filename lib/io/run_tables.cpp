#include "lib/io/run_tables.hpp"

#include <charconv>

#include "lib/base/error.hpp"

namespace trireme {

namespace fs = std::filesystem;

// The header and the whole rows up to a step; rows are in order of their steps.
static std::string rows_up_to(const fs::path& path, std::string_view header, std::int64_t step) {
  const auto text = read_text(path);
  auto kept = std::string(header) + "\n";
  if (text.empty()) return kept;
  require(text.starts_with(kept),
          "{} has other columns than this program writes -- move it away, or train into another "
          "--run-dir",
          path.string());
  for (std::size_t at = kept.size();;) {
    const auto end = text.find('\n', at);
    if (end == std::string::npos) return kept;
    std::int64_t row_step = 0;
    const auto e = std::from_chars(text.data() + at, text.data() + end, row_step).ec;
    if (e != std::errc{} || row_step > step) return kept;
    kept.append(text, at, end + 1 - at);
    at = end + 1;
  }
}

static PosixFile start_file(const fs::path& path, std::string_view header,
                            std::optional<std::int64_t> restored_step) {
  std::error_code e;
  replace_atomically(path, restored_step && fs::exists(path, e)
                               ? rows_up_to(path, header, *restored_step)
                               : std::string(header) + "\n");
  return PosixFile::open_to_write(path);
}

CsvFile::CsvFile(const fs::path& path, std::string_view header,
                 std::optional<std::int64_t> restored_step)
    : file_(start_file(path, header, restored_step)), end_(file_.size()) {}

void CsvFile::append(std::string_view row) {
  const auto line = std::string(row) + "\n";
  try {
    file_.write_at(std::as_bytes(std::span(line)), end_);
  } catch (const Error&) {
    file_.resize(end_);
    throw;
  }
  end_ += static_cast<std::int64_t>(line.size());
}

HistoryFile::HistoryFile(const fs::path& path, std::optional<std::int64_t> restored_step)
    : csv_(path,
           "step,tokens,loss,grad_norm,lr,seconds,tokens_per_second,mfu,bytes_sent,bytes_peak",
           restored_step) {}

void HistoryFile::append(const HistoryRow& r) {
  csv_.append(fmt::format("{},{},{},{},{},{},{},{},{},{}", r.step, r.tokens, r.loss, r.grad_norm,
                          r.lr, r.seconds, r.tokens_per_second,
                          r.mfu ? fmt::format("{}", *r.mfu) : "", r.bytes_sent, r.bytes_peak));
}

EvaluationFile::EvaluationFile(const fs::path& path, std::optional<std::int64_t> restored_step)
    : csv_(path, "step,tokens,loss,perplexity", restored_step) {}

void EvaluationFile::append(const EvaluationRow& r) {
  csv_.append(fmt::format("{},{},{},{}", r.step, r.tokens, r.loss, r.perplexity));
}

}  // namespace trireme
