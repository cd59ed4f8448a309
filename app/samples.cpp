// The `trireme samples RUN` command: shows the data of a step, or the steps that read a document.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/commands.hpp"
#include "app/compare_side.hpp"
#include "app/file_documents.hpp"
#include "app/output.hpp"
#include "app/run_legs.hpp"
#include "app/run_support.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/base/log.hpp"
#include "lib/base/text_parts.hpp"
#include "lib/data/dataset.hpp"
#include "lib/io/rollback_rows.hpp"
#include "lib/io/skipped_rows.hpp"
#include "lib/io/table_rows.hpp"
#include "lib/run/run_length.hpp"
#include "lib/run/skip_rules.hpp"
#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

namespace {

struct SamplesArguments {
  std::string run, step, sample, document, show = "documents";
  std::optional<std::int64_t> rank;
  std::vector<SkippedRow> skipped{};  // of the run
};

// Accepts a number N or a range N-M. Neither may be less than `least`.
CLI::Validator range_from(std::int64_t least) {
  const auto description = fmt::format("N or N-M from {} on", least);
  return {[=](const std::string& text) {
            return number_range(text, least)
                       ? std::string()
                       : fmt::format(
                             "\"{}\" is neither a number from {} on nor a range such as 3-8", text,
                             least);
          },
          description};
}

// Prints one line of JSON for each part of a sample.
class SamplePrinter {
 public:
  SamplePrinter(const Dataset& data, std::string show) : data_(data), show_(std::move(show)) {
    if (show_ == "text") {
      const auto spec = data.tokenizer();
      require(spec.kind != TokenizerKind::none,
              "--show text needs a tokenizer, but the token files contain none: use --show ids");
      tokenizer_ = make_tokenizer(spec, data.ranges()[0].file.path().string());
    }
  }

  // Where a sample is read.
  struct Place {
    std::int64_t step = 0, data_rank = 0, microbatch = 0;
    bool left_out = false;
    std::string skipped{};  // reason for which the step is skipped; empty: it is not
  };
  void show(std::int64_t sample, const Place& place) {
    const auto weights = data_.document_weights() == DocumentWeights::present
                             ? weights_of(sample)
                             : std::vector<float>();
    std::int64_t at = 0;  // of the source in the sample
    for (const auto& source : data_.sources(sample)) {
      const auto& file = data_.ranges()[source.range].file;
      const auto [first, last] =
          documents(source.range).in(source.begin, source.begin + source.count);
      Json line = {{"step", place.step},
                   {"sample", sample},
                   {"epoch", data_.epoch_of(sample) + 1},
                   {"data_rank", place.data_rank},
                   {"microbatch", place.microbatch},
                   {"file", file.path().string()},
                   {"tokens", {source.begin, source.begin + source.count - 1}},
                   {"documents", {first, last}}};
      if (place.left_out) line["left_out"] = true;
      if (!place.skipped.empty()) line["skipped"] = place.skipped;
      if (!weights.empty()) line["weights"] = runs_of(std::span(weights).subspan(at, source.count));
      at += source.count;
      if (show_ != "documents") {
        std::vector<std::int32_t> ids(static_cast<std::size_t>(source.count));
        file.read(source.begin, ids);
        line[show_] = tokenizer_ ? Json(tokenizer_->decode(ids)) : Json(ids);
      }
      print(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    }
  }

 private:
  // Returns the weight of each target of a sample. Targets that do not count in the loss have the
  // weight 0.
  std::vector<float> weights_of(std::int64_t sample) const {
    auto all = data_.weights(sample);
    std::vector<std::int32_t> ids(all.size()), targets(all.size());
    data_.read(sample, ids, targets);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (targets[i] == no_target) all[i] = 0;
    return all;
  }
  // Returns pairs of a weight and the number of consecutive targets that have it.
  static Json runs_of(std::span<const float> weights) {
    auto list = Json::array();
    for (const auto weight : weights)
      if (list.empty() || list.back()[0] != weight)
        list.push_back({weight, 1});
      else
        list.back()[1] = list.back()[1].get<std::int64_t>() + 1;
    return list;
  }
  const FileDocuments& documents(std::size_t range) {
    const auto found = documents_.find(range);
    if (found != documents_.end()) return found->second;
    return documents_.emplace(range, FileDocuments(data_.ranges()[range].file)).first->second;
  }

  const Dataset& data_;
  std::string show_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::map<std::size_t, FileDocuments> documents_;  // by range
};

// Which steps are skipped, and why.
class SkippedSteps {
 public:
  // `listed` is train.skip_steps.
  SkippedSteps(const std::vector<SkippedRow>& rows, const std::vector<std::string>& listed)
      : listed_(parse_step_ranges(listed)) {
    for (const auto& row : rows) reasons_[{row.step, row.first_sample}] = row.reason;
  }
  // Returns the reason in skipped.csv. For a step without a row, looks at train.skip_steps. Returns
  // an empty text if the step is not skipped.
  std::string reason(std::int64_t step, std::int64_t first_sample) const {
    const auto row = reasons_.find({step, first_sample});
    if (row != reasons_.end()) return row->second;
    const auto listed = std::ranges::any_of(
        listed_, [&](const StepRange& r) { return r.first <= step && step <= r.last; });
    return listed ? "skip_steps" : "";
  }

 private:
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> reasons_;  // by step and sample
  std::vector<StepRange> listed_;
};

// The samples of a leg.
class LegSamples {
 public:
  LegSamples(const Leg& leg, const SamplesArguments& a)
      : leg_(leg),
        rank_(a.rank),
        data_(leg.data()),
        skipped_(a.skipped, leg.deck.train.skip_steps),
        printer_(data_, a.show) {
    const auto grid = grid_of(leg.deck);
    require(!rank_ || *rank_ < grid.ranks(),
            "--rank {}: the steps from {} on have {}, numbered from 0", rank_.value_or(0),
            leg.begin.step + 1, counted(grid.ranks(), "rank"));
  }
  const Dataset& data() const { return data_; }

  // Prints the samples of the steps for which wanted(sample) is true. Returns their number.
  std::int64_t show(const StepRange& steps, const std::function<bool(std::int64_t)>& wanted) {
    const auto grid = grid_of(leg_.deck);
    const auto each = leg_.deck.train.microbatch, data_ranks = std::int64_t{std::max(1, grid.data)};
    const auto batches = leg_.batches();
    std::int64_t found = 0;
    auto sample = leg_.samples_before(steps.first);
    for (auto step = steps.first; step <= steps.last; ++step) {
      const auto skipped = skipped_.reason(step, sample);
      for (std::int64_t i = 0, batch = batches.batch(step - 1); i < batch; ++i, ++sample) {
        const auto turn = i / each, data_rank = turn % data_ranks;
        if (rank_ && grid.at(static_cast<int>(*rank_)).data != data_rank) continue;
        if (!wanted(sample)) continue;
        printer_.show(sample, {step, data_rank, turn / data_ranks, step > leg_.last_step, skipped});
        ++found;
      }
    }
    return found;
  }

 private:
  const Leg& leg_;
  std::optional<std::int64_t> rank_;
  Dataset data_;
  SkippedSteps skipped_;
  SamplePrinter printer_;
};

// Warns if the run ends before `last`.
void warn_of_end(std::int64_t total, std::int64_t last) {
  if (last > total)
    log_warning(
        "the deck of the run ends with step {}. The run reads the samples of later steps only if a "
        "restart makes "
        "it longer and keeps the data and the batch",
        total);
}

// Logs which option shows the samples that a rollback left out.
void say_left_out(const StepRange& steps, const std::string& run) {
  for (const auto& row : read_rollbacks(run))
    if (steps.first <= row.last_skipped && row.step < steps.last)
      log_info(
          "the run rolled back from step {} to step {}. To see the samples that it left out, use "
          "--sample {}-{}",
          row.last_skipped, row.step, row.first_sample, row.next_sample() - 1);
}

int print_steps(const std::vector<Leg>& legs, std::int64_t total, const SamplesArguments& a) {
  auto [step, last] = number_range(a.step, 1).value();
  warn_of_end(total, last);
  say_left_out({step, last}, a.run);
  while (step <= last) {
    const auto& leg = leg_of_step(legs, step);
    const auto end = std::min(last, leg.last_step);
    LegSamples(leg, a).show({step, end}, [](std::int64_t) { return true; });
    step = end + 1;
  }
  return 0;
}

// Prints samples by their numbers, also those that a rollback left out.
int print_numbered(const std::vector<Leg>& legs, std::int64_t total, const SamplesArguments& a) {
  auto [sample, last] = number_range(a.sample, 0).value();
  if (const auto& leg = leg_of_sample(legs, last); &leg == &legs.back())
    warn_of_end(total, leg.step_of(last));
  while (sample <= last) {
    const auto& leg = leg_of_sample(legs, sample);
    const auto end = std::min(last, leg.last_sample);
    LegSamples(leg, a).show({leg.step_of(sample), leg.step_of(end)},
                            [&](std::int64_t s) { return s >= sample && s <= end; });
    sample = end + 1;
  }
  return 0;
}

// Returns a function that returns true for samples with a token of document `wanted` in the file.
// Returns null if the data does not contain the file.
std::function<bool(std::int64_t)> reads_document(const Dataset& data,
                                                 const std::filesystem::path& path,
                                                 std::int64_t wanted) {
  const auto& ranges = data.ranges();
  const auto file = std::ranges::find_if(ranges, [&](const TokenRange& r) {
    std::error_code unknown;
    return std::filesystem::equivalent(r.file.path(), path, unknown);
  });
  if (file == ranges.end()) return {};
  const FileDocuments documents(file->file);
  require(wanted < documents.count(), "--document {}:{}: the file has {}, numbered from 0",
          path.string(), wanted, counted(documents.count(), "document"));
  const auto range = static_cast<std::size_t>(file - ranges.begin());
  const auto begin = documents.at(wanted).begin;
  const auto end = begin + documents.at(wanted).count + 1;  // with the separator
  return [=, &data](std::int64_t sample) {
    return std::ranges::any_of(data.sources(sample), [&](const auto& s) {
      return s.range == range && s.begin < end && s.begin + s.count > begin;
    });
  };
}

// Prints the samples of all steps that read a token of the document.
int print_document(const std::vector<Leg>& legs, std::int64_t total, const SamplesArguments& a) {
  const auto colon = a.document.rfind(':');
  const auto number = colon == a.document.npos
                          ? std::nullopt
                          : number_in<std::int64_t>(a.document.substr(colon + 1));
  const auto wanted = number.value_or(-1);
  require(wanted >= 0, "--document {}: write FILE:K, with a document number from 0", a.document);
  const std::filesystem::path path = a.document.substr(0, colon);
  std::int64_t found = 0;
  bool known_file = false;
  for (const auto& leg : legs) {
    const StepRange steps{leg.begin.step + 1, std::min(leg.last_step, total)};
    if (steps.first > steps.last) continue;
    if (!leg.unknown.empty()) {
      log_warning("{}", leg.unknown);
      continue;
    }
    LegSamples samples(leg, a);
    const auto reads = reads_document(samples.data(), path, wanted);
    if (!reads) continue;
    known_file = true;
    found += samples.show(steps, reads);
  }
  require(known_file, "--document {}: no step trains on {}", a.document, path.string());
  if (found == 0) log_warning("no step of {} reads document {}", a.run, a.document);
  return 0;
}

int show_samples(SamplesArguments a) {
  const auto side = open_side("the run", a.run);
  require(side.is_run, "{} is a checkpoint: name its run directory", a.run);
  a.skipped = read_skipped(a.run);
  const auto legs = legs_of(side);
  const auto& now = legs.back();
  const auto total =
      std::max(side.step, steps_of_run(now.deck.train, now.deck.data.context, now.begin));
  if (!a.step.empty()) return print_steps(legs, total, a);
  if (!a.sample.empty()) return print_numbered(legs, total, a);
  return print_document(legs, total, a);
}

}  // namespace

void add_samples(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand(
      "samples", "Show which documents a step of a run reads, or which steps read a document");
  auto a = std::make_shared<SamplesArguments>();
  command->add_option("run", a->run, "Run directory")->required()->transform(with_environment());
  auto* step = command->add_option(
      "--step", a->step,
      "Show the samples of a step, or of a range of steps such as 3-8. Future steps are allowed");
  step->check(range_from(1));
  auto* sample = command->add_option("--sample", a->sample,
                                     "Show the samples with these numbers, such as 3-8, including "
                                     "those that a rollback left out. skipped.csv contains the "
                                     "numbers");
  sample->check(range_from(0))->excludes(step);
  command->add_option("--rank", a->rank, "Show only the samples of this rank")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 31));
  command
      ->add_option("--document", a->document,
                   "Show the samples that read document K of a token file, as FILE:K. Documents "
                   "are numbered as in `inspect --document`")
      ->excludes(step)
      ->excludes(sample);
  command
      ->add_option("--show", a->show,
                   "Content to print for each sample: documents (only their numbers), text or ids")
      ->check(CLI::IsMember({"documents", "text", "ids"}))
      ->capture_default_str();
  command->callback([&chosen, a] {
    if (a->step.empty() && a->sample.empty() && a->document.empty())
      throw CLI::ValidationError("samples", "needs --step, --sample or --document");
    chosen = [a] { return show_samples(*a); };
  });
}

}  // namespace trireme
