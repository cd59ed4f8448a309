#include "lib/run/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/text_parts.hpp"
#include "lib/io/checkpoint_list.hpp"

namespace trireme {

static CsvFile open_table(const std::filesystem::path& path, std::string_view columns,
                          const std::optional<TableStart>& start) {
  CsvFile table(path, columns, start);
  const auto folder = path.parent_path().filename();
  const auto name = folder == folder_of_sets ? folder / path.filename() : path.filename();
  for (const auto& remark : table.remarks()) log_warning("{}: {}", name.string(), remark);
  return table;
}

static std::int64_t first_step(const CheckpointMeta& meta) {
  return std::max<std::int64_t>(1, meta.extra.history_begins);
}

static std::optional<TableStart> history_start(Origin origin, const CheckpointMeta& meta) {
  if (origin == Origin::fresh) return {};
  if (origin == Origin::another_run) return TableStart{.step = meta.step};
  return TableStart{.step = meta.step, .carried = meta.extra.history, .first = first_step(meta)};
}

// Adds the name of a set to the begin of each row, and returns the rows of one set without its
// name.
static std::string with_name_of_set(std::string_view rows, std::string_view set) {
  std::string all;
  for (const auto line : split(rows, '\n'))
    if (!line.empty()) all += fmt::format("{},{}\n", set, line);
  return all;
}
static std::string rows_of_set(std::string_view rows, std::string_view set) {
  const auto begin = fmt::format("{},", set);
  std::string all;
  for (const auto line : split(rows, '\n'))
    if (line.starts_with(begin)) all += fmt::format("{}\n", line.substr(begin.size()));
  return all;
}

// Returns the sets that have tables: those that are evaluated and, if the run continues, those that
// were. Tables of earlier sets must end at the restored step, because the sets may come back.
static std::set<std::string> sets_with_tables(const RunDirectory& directory, Origin origin,
                                              std::span<const std::string> evaluated,
                                              const CheckpointMeta& meta) {
  std::set<std::string> sets(evaluated.begin(), evaluated.end());
  if (origin != Origin::this_run) return sets;
  for (const auto& set : evaluated_sets(directory.path())) sets.insert(set);
  if (!meta.extra.evaluation.empty()) sets.emplace();
  for (const auto line : split(meta.extra.evaluation_of_sets, '\n'))
    // A damaged checkpoint must not name a file outside of the folder.
    if (const auto name = line.substr(0, line.find(',')); is_set_name(name)) sets.emplace(name);
  return sets;
}

static std::optional<TableStart> evaluation_start(Origin origin, const CheckpointMeta& meta,
                                                  const std::string& set) {
  if (origin == Origin::fresh) return {};
  if (origin == Origin::another_run) return TableStart{.step = meta.step};
  return TableStart{.step = meta.step,
                    .carried = set.empty() ? meta.extra.evaluation
                                           : rows_of_set(meta.extra.evaluation_of_sets, set)};
}

static std::optional<TableStart> digest_start(Origin origin, const CheckpointMeta& meta) {
  if (origin == Origin::fresh) return {};
  return TableStart{.is_row = is_digest_row, .step = meta.step};
}

// Describes where the routing table starts. A step that was skipped for lack of targets has no row.
static std::optional<TableStart> routing_start(Origin origin, const CheckpointMeta& meta) {
  if (origin == Origin::fresh) return {};
  TableStart start{.is_row = is_routing_row, .step = meta.step, .optional = meta.skipped};
  if (origin == Origin::this_run) start.first = first_step(meta);
  return start;
}

// Describes where the table of skipped steps starts. It keeps the steps because of which the run
// rolled back to a checkpoint, so that their samples can be found.
static std::optional<TableStart> skipped_start(Origin origin, const CheckpointMeta& meta,
                                               const std::filesystem::path& run) {
  if (origin == Origin::fresh) return {};
  return TableStart{.is_row = is_skipped_row,
                    .step = meta.step,
                    .always = [rollbacks = read_rollbacks(run)](std::string_view line) {
                      const auto row = skipped_row(line);
                      return row && is_left_out(*row, rollbacks);
                    }};
}

// Opens a table. If an existing table lacks columns that are needed, adds them first.
RunRecord::Table RunRecord::open_with_preferences(const std::filesystem::path& path,
                                                  const TableColumns& columns, Preferences wanted,
                                                  std::optional<TableStart> start) {
  const auto text = start && is_there(path) ? read_text(path) : std::string();
  if (has_preferences(text, columns) || (start && has_preferences(start->carried, columns)))
    wanted = Preferences::some;
  const auto header = wanted == Preferences::some ? columns.preferences : columns.plain;
  if (start) {
    const auto all = with_columns(text, columns, header);
    if (has_header(text, columns) && all != text) replace_atomically(path, all);
    start->carried = with_columns(start->carried, columns, header);
  }
  return {open_table(path, header, start), &columns, wanted};
}

void RunRecord::append(Table& table, const std::string& row) const {
  auto line = row + "\n";
  if (table.preferences == Preferences::some) line = with_preferences(line, *table.columns);
  line.pop_back();
  restored(table.file).append(line);
}

void require_tables(const RunDirectory& directory) {
  require_columns(directory.history(), history_columns);
  for (const auto& set : evaluated_sets(directory.path()))
    require_columns(directory.evaluation(set), evaluation_columns);
  require_columns(directory.digests(), digest_columns);
  require_columns(directory.routing(), routing_columns);
  require_columns(directory.skipped(), skipped_columns);
}

RunRecord::RunRecord(const RunDirectory& directory, Origin origin, Preferences preferences,
                     std::span<const std::string> evaluated, Digests digests, RoutingTable routing,
                     const CheckpointMeta& meta, JobStart start) {
  files_.emplace(Files{directory,
                       open_with_preferences(directory.history(), history_columns, preferences,
                                             history_start(origin, meta)),
                       {},
                       {},
                       {},
                       {},
                       0,
                       meta.extra.machine,
                       std::move(start),
                       {}});
  files_->history_begins = files_->history.file.first_step().value_or(meta.step + 1);
  const auto sets = sets_with_tables(directory, origin, evaluated, meta);
  if (std::ranges::any_of(sets, [](auto& set) { return !set.empty(); }))
    make_directory(directory.path() / folder_of_sets);
  for (const auto& set : sets)
    files_->evaluations.emplace(
        set, open_with_preferences(directory.evaluation(set), evaluation_columns, preferences,
                                   evaluation_start(origin, meta, set)));
  // The table of earlier steps must end at the restored step, even if no more rows are added. A new
  // run must not keep the rows of one that died before its first checkpoint.
  if (digests == Digests::some || is_there(directory.digests()))
    files_->digests.emplace(
        open_table(directory.digests(), digest_columns, digest_start(origin, meta)));
  if (is_there(directory.skipped()))
    files_->skipped.emplace(open_table(directory.skipped(), skipped_columns,
                                       skipped_start(origin, meta, directory.path())));
  else if (origin == Origin::this_run && !meta.skipped.empty())
    log_warning("{} is missing: it will not list the {} that the run has skipped so far",
                directory.skipped().string(), counted(std::ssize(meta.skipped), "step"));
  if (routing == RoutingTable::some)
    files_->routing.emplace(
        open_table(directory.routing(), routing_columns, routing_start(origin, meta)));
}

template <class Write>
void RunRecord::write_events(Write write) {
  if (!files_) return;
  try {
    write(files_->events);
  } catch (const Error& e) {
    files_->events.reset();
    log_warning("this run writes no more TensorBoard events, but still writes history.csv: {}",
                e.what());
  }
}

void RunRecord::open_tensorboard(std::int64_t step) {
  write_events([&](auto& events) { events.emplace(files_->directory.events(), step); });
}

void RunRecord::require_lock() const {
  if (files_) files_->directory.require_lock();
}

// Returns the table. If somebody removed or replaced the file, writes it again, so that no row is
// lost. If another process has taken the run directory, throws Error, because the file is that
// process's table.
CsvFile& RunRecord::restored(CsvFile& table) const {
  if (table.in_place()) return table;
  require_lock();
  table.put_back();
  log_warning("{} was removed or replaced: the run writes the file again", table.path().string());
  return table;
}

static void add_preference(EventFile& events, std::int64_t step, const std::string& group,
                           const std::optional<PreferenceColumns>& p) {
  if (!p) return;
  const std::string margin = group + "/margin", accuracy = group + "/accuracy",
                    chosen = group + "/reward_chosen", rejected = group + "/reward_rejected";
  events.add(step, std::array<Scalar, 4>{{{margin, p->margin},
                                          {accuracy, p->accuracy},
                                          {chosen, p->reward_chosen},
                                          {rejected, p->reward_rejected}}});
  if (!p->z0) return;
  const std::string z0 = group + "/z0";
  events.add(step, std::array<Scalar, 1>{{{z0, *p->z0}}});
}

void RunRecord::add(const HistoryRow& row) {
  if (!files_) return;
  append(files_->history, to_csv(row));
  write_events([&](auto& events) {
    if (!events) return;
    events->add(row.step,
                std::array<Scalar, 4>{{{"train/loss", row.loss},
                                       {"train/grad_norm", row.grad_norm},
                                       {"train/lr", row.lr},
                                       {"train/tokens_per_second", row.tokens_per_second}}});
    if (row.trained_tokens)
      events->add(row.step, std::array<Scalar, 1>{{{"train/trained_tokens",
                                                    static_cast<double>(*row.trained_tokens)}}});
    add_preference(*events, row.step, "train", row.preference);
  });
}

void RunRecord::add(const std::string& set, const EvaluationRow& row) {
  if (!files_) return;
  append(files_->evaluations.at(set), to_csv(row));
  write_events([&](auto& events) {
    if (!events) return;
    const auto group = set.empty() ? "held_out" : "held_out_" + set;
    const auto loss = group + "/loss", perplexity = group + "/perplexity";
    events->add(row.step, std::array<Scalar, 1>{{{loss, row.loss}}});
    if (row.perplexity != 0)
      events->add(row.step, std::array<Scalar, 1>{{{perplexity, row.perplexity}}});
    add_preference(*events, row.step, group, row.preference);
  });
}

void RunRecord::add_sample(std::int64_t step, const std::string& text) {
  write_events([&](auto& events) {
    if (events) events->add(step, "sample", text);
  });
}

void RunRecord::add(const DigestRow& row) {
  if (files_ && files_->digests) restored(*files_->digests).append(to_csv(row));
}

// Most runs skip no step, so the table begins with its first row.
void RunRecord::add(const SkippedRow& row) {
  if (!files_) return;
  auto& table = files_->skipped;
  if (!table) table.emplace(open_table(files_->directory.skipped(), skipped_columns, {}));
  restored(*table).append(to_csv(row));
}

void RunRecord::add(const RoutingRow& row) {
  if (!files_ || !files_->routing) return;
  restored(*files_->routing).append(to_csv(row));
  write_events([&](auto& events) {
    if (events)
      events->add(row.step, std::array<Scalar, 4>{{{"train/balance_loss", row.balance},
                                                   {"train/router_z_loss", row.z},
                                                   {"train/least_load", row.least()},
                                                   {"train/most_load", row.most()}}});
  });
}

void RunRecord::put_into(CheckpointMeta& meta) {
  if (!files_) return;
  restored(files_->history.file).sync();
  for (auto& [set, table] : files_->evaluations) restored(table.file).sync();
  for (auto* table : {&files_->digests, &files_->routing, &files_->skipped})
    if (*table) restored(**table).sync();
  put_rows_into(meta);
}

void RunRecord::put_rows_into(CheckpointMeta& meta) const {
  if (!files_) return;
  meta.extra.history = files_->history.file.newest_rows();
  if (!files_->evaluations.empty()) meta.extra.evaluation_of_sets.clear();
  for (const auto& [set, table] : files_->evaluations) {
    if (set.empty())
      meta.extra.evaluation = table.file.newest_rows();
    else
      meta.extra.evaluation_of_sets += with_name_of_set(table.file.newest_rows(), set);
  }
  meta.extra.history_begins = files_->history_begins;
}

void RunRecord::outcome(Outcome o) const {
  if (!files_) return;
  o.machine = files_->machine;
  o.start = files_->start;
  files_->directory.write_outcome(o);
}

std::vector<EvaluationRow> RunRecord::evaluations(const std::string& set) {
  if (!files_) return {};
  return read_evaluations(restored(files_->evaluations.at(set).file).path());
}

void RunRecord::saved(const Outcome& o, const CheckpointConfig& c,
                      const EvaluationRanking& ranking) {
  if (!files_) return;
  try {
    outcome(o);
    CheckpointConfig config = c;
    std::vector<std::int64_t> best, steps;
    if (c.keep_best > 0) {
      const auto rows = evaluations(ranking.set);
      // If the repair of the table lost rows, it is unknown which checkpoints were the best.
      if (!files_->evaluations.at(ranking.set).file.remarks().empty())
        for (const auto& info : list_checkpoints(files_->directory.checkpoints()))
          steps.push_back(info.step);
      best = without_row(steps, rows, ranking.every_steps);
      config.keep_best += std::ssize(best);
      std::ranges::copy(best_first(rows, ranking.by), std::back_inserter(best));
    }
    prune(files_->directory.checkpoints(), config, best);
  } catch (const Error& e) {
    log_warning("step {}: the checkpoint is saved, but {}", o.step, e.what());
  }
}

void drop_tables(CheckpointMeta& meta) {
  meta.extra.history.clear();
  meta.extra.evaluation.clear();
  meta.extra.evaluation_of_sets.clear();
  meta.extra.history_begins = 0;
}

}  // namespace trireme
