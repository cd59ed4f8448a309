#include "lib/data/dataset.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/tokenizer/same_tokenizer.hpp"

namespace trireme {

namespace {

std::int64_t windows_of(const TokenRange& range, std::int64_t T) {
  return range.end > range.begin ? (range.end - range.begin - 1) / T : 0;
}

// Returns text such as "preference pairs (trireme tokenize --preference)".
std::string contents_of(const TokenFileHeader& h) {
  const auto names = names_of(h.kind);
  if (names.option.empty()) return std::string(names.many);
  return fmt::format("{} (trireme tokenize {})", names.many, names.option);
}

void check_range(const TokenRange& range, const Dataset::Settings& s) {
  const auto& header = range.file.header();
  const bool single = header.kind == Documents::single;
  const std::string name = range.file.path().string();
  require(header.largest < s.vocab,
          "{} has the id {} of a vocabulary of {}, but the model has a vocabulary of {}: tokenize "
          "with the model's tokenizer, or, for a new model, set model.vocab to {} or more",
          name, header.largest, header.vocab, s.vocab, header.vocab);
  if (header.vocab > s.vocab)  // as in Gemma 3, which has no row for the id of an image
    log_warning(
        "{} has a vocabulary of {}, but the model has one of {}. The file does not contain any ids "
        "above the model's vocabulary",
        name, header.vocab, s.vocab);
  require(!s.separator_masks || header.separator,
          "data.separator_masks is true, but {} has no separator id: tokenize again with "
          "--separator, or set data.separator_masks = false",
          name);
  require(s.attention == AttentionSpan::causal || header.separator,
          "data.attention is \"document\", but {} has no separator id, which would end each "
          "document: tokenize again with --separator, or set data.attention = \"causal\"",
          name);
  require(s.packing == Packing::windows || header.separator,
          "data.packing is \"documents\", but {} has no separator id, which would end each "
          "document: tokenize again with --separator, or set data.packing = \"windows\"",
          name);
  require(single || (s.packing == Packing::documents && s.attention == AttentionSpan::document),
          "{} contains {}: set data.packing = \"documents\" and data.attention = \"document\"",
          name, contents_of(header));
  require(single || s.loss_weights.empty(),
          "{} contains {}, whose losses have no weights: remove data.loss_weights", name,
          contents_of(header));
  require(single || s.long_documents != LongDocuments::split,
          "{} contains {}, which cannot be split: set data.long_documents = \"drop\" or "
          "\"refuse\"",
          name, contents_of(header));
}

void check_samples(const TokenRange& range, const Dataset::Settings& s, std::int64_t samples) {
  const char* const use = range.begin > 0 ? " held out by data.validation" : "";
  const auto kind = range.file.header().kind;
  require(samples > 0 || kind == Documents::single,
          "{}: no {}{} fits into a sample of {} tokens and has a target in both of its documents: "
          "give more data, change the validation data, or raise model.context",
          range.file.path().string(), names_of(kind).one, use, s.T);
  require(samples > 0 || s.packing == Packing::windows,
          "{}: no document{} has a target that counts in its first {} tokens: give more data, "
          "change the validation data, or raise model.context",
          range.file.path().string(), use, s.T);
  require(samples > 0,
          "{} has {} tokens{} (of {} in all), but one sample of {} needs {}: give more data, "
          "change the validation data, or lower model.context",
          range.file.path().string(), range.end - range.begin, use, range.file.count(), s.T,
          s.T + 1);
}

void check_same_tokenizer(const std::vector<TokenRange>& ranges) {
  const TokenRange* first = nullptr;
  TokenizerSpec theirs;
  for (const auto& range : ranges) {
    if (range.file.header().tokenizer == TokenizerKind::none) continue;
    const auto own = range.file.tokenizer();
    const auto name = range.file.path().string();
    if (first == nullptr) {
      first = &range;
      theirs = own;
    }
    require(compatible(theirs, first->file.path().string(), own, name),
            "{} was tokenized with {}, but {} with {}: use one tokenizer for all files",
            first->file.path().string(), theirs.identity(), name, own.identity());
    theirs = merged(theirs, own);
  }
}

// Returns the weight of a document of weight w in a range with this factor.
float weight_with(double factor, float w) {
  return static_cast<float>(factor * static_cast<double>(w));
}

void check_weights(const std::vector<TokenRange>& ranges, const Dataset::Settings& s) {
  expect(s.loss_weights.empty() || s.loss_weights.size() == ranges.size(), "one factor per range");
  for (std::size_t i = 0; i < s.loss_weights.size(); ++i) {
    const auto& header = ranges[i].file.header();
    const bool has_own = header.weight_ranges > 0;
    for (const float w :
         {has_own ? header.smallest_weight : 1, has_own ? header.largest_weight : 1})
      require(least_weight <= weight_with(s.loss_weights[i], w) &&
                  weight_with(s.loss_weights[i], w) <= most_weight,
              "{} has a document of weight {}, which data.loss_weights multiplies by {}, but a "
              "weight must be between 2^-20 and 65536: change data.loss_weights",
              ranges[i].file.path().string(), w, s.loss_weights[i]);
  }
}

std::vector<TokenRange> checked(std::vector<TokenRange> ranges, const Dataset::Settings& s) {
  require(!ranges.empty(), "no token files are given: set data.path");
  require(s.T > 0, "a sample has {} tokens: set model.context above zero", s.T);
  for (const auto& range : ranges) check_range(range, s);
  for (const auto& range : ranges)
    require(range.file.header().kind == ranges[0].file.header().kind,
            "{} contains {}, but {} contains {}: use files of one kind",
            ranges[0].file.path().string(), contents_of(ranges[0].file.header()),
            range.file.path().string(), contents_of(range.file.header()));
  check_same_tokenizer(ranges);
  check_weights(ranges, s);
  return ranges;
}

auto packings_of(const std::vector<TokenRange>& ranges, const Dataset::Settings& s) {
  std::vector<std::shared_ptr<const DocumentPacking>> all;
  if (s.packing == Packing::windows) return all;
  for (const auto& [file, begin, end] : ranges)
    all.push_back(std::make_shared<DocumentPacking>(
        file, begin, end, DocumentPacking::Settings{s.T, s.long_documents, s.order, s.seed}));
  return all;
}

WindowSequence sequence_of(const std::vector<std::int64_t>& samples, const Dataset::Settings& s) {
  const bool one_phase = s.phases.empty();
  require(!one_phase || s.shares.empty() || s.shares.size() == samples.size(),
          "data.weights has {} values for {} files: give one value per file", s.shares.size(),
          samples.size());
  expect(one_phase || samples.size() == s.numbers.size(), "each file has a number");
  std::vector<WindowSequence::File> files;
  DataPhase all{0, {}, s.shares};
  for (std::size_t i = 0; i < samples.size(); ++i) {
    files.push_back({one_phase ? static_cast<std::int32_t>(i) : s.numbers[i], samples[i]});
    all.files.push_back(files.back().number);
  }
  return {files, one_phase ? std::vector{std::move(all)} : s.phases, s.order, s.seed};
}

}  // namespace

Dataset::Dataset(std::vector<TokenRange> ranges, Settings settings)
    : ranges_(checked(std::move(ranges), settings)),
      settings_(std::move(settings)),
      packings_(packings_of(ranges_, settings_)),
      sequence_(sequence_of(samples_of_ranges(), settings_)) {}

std::vector<std::int64_t> Dataset::samples_of_ranges() const {
  std::vector<std::int64_t> samples;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    samples.push_back(packings_.empty() ? windows_of(ranges_[i], settings_.T)
                                        : packings_[i]->samples());
    check_samples(ranges_[i], settings_, samples.back());
  }
  return samples;
}

bool Dataset::has_common_epochs() const {
  const auto& first = phase_of(0);
  return has_one_phase() && (first.shares.empty() || first.files.size() == 1);
}

std::string Dataset::text_of(const DataPhase& phase) const {
  const double sum = std::accumulate(phase.shares.begin(), phase.shares.end(), 0.0);
  std::vector<std::string> files;
  const auto index_of = [&](std::int32_t number) {
    if (settings_.numbers.empty()) return static_cast<std::size_t>(number);
    const auto found = std::ranges::find(settings_.numbers, number);
    return static_cast<std::size_t>(found - settings_.numbers.begin());
  };
  for (std::size_t i = 0; i < phase.files.size(); ++i) {
    const auto range = index_of(phase.files[i]);
    files.push_back(range < ranges_.size() ? ranges_[range].file.path().filename().string()
                                           : "a file that is not in the deck");
    if (!phase.shares.empty())
      files.back() += fmt::format(" ({:.3g}%)", 100 * phase.shares[i] / sum);
  }
  return fmt::format("{}", fmt::join(files, ", "));
}

Dataset Dataset::with_reference(const ReferenceLosses& all) const {
  expect(kind() != Documents::single, "a reference is of two documents that belong together");
  auto with = *this;
  with.reference_.clear();
  for (std::size_t i = 0; i < ranges_.size(); ++i)
    with.reference_.push_back(std::make_shared<const std::vector<double>>(
        losses_for(all, ranges_[i].file, documents(i))));
  return with;
}

std::span<const double> Dataset::reference(std::int64_t sample) const {
  if (reference_.empty()) return {};
  const auto [begin, end] = documents_of(sample);
  const auto file = static_cast<std::size_t>(sequence_(sample).file);
  return std::span(*reference_[file]).subspan(begin, end - begin);
}

std::vector<std::uint8_t> Dataset::labels(std::int64_t sample) const {
  std::vector<std::uint8_t> all;
  if (kind() != Documents::labeled) return all;
  const auto [begin, end] = documents_of(sample);
  const auto& packing = *packings_[static_cast<std::size_t>(sequence_(sample).file)];
  for (auto d = begin; d < end; d += 2) all.push_back(packing.desirable(d) ? 1 : 0);
  return all;
}

std::vector<float> Dataset::weights(std::int64_t sample) const {
  std::vector<float> all;
  for (const auto& [range, begin, count] : sources(sample)) {
    const auto own = ranges_[range].file.weights(begin + 1, count);  // of the targets
    all.insert(all.end(), own.begin(), own.end());
    if (settings_.loss_weights.empty()) continue;
    for (auto& w : std::span(all).last(own.size()))
      w = weight_with(settings_.loss_weights[range], w);
  }
  all.resize(static_cast<std::size_t>(settings_.T), 1);  // padding
  return all;
}

DocumentPacking::Numbers Dataset::documents_of(std::int64_t sample) const {
  const Window window = sequence_(sample);
  return packings_[static_cast<std::size_t>(window.file)]->numbers(window.index);
}

Subset Dataset::subset(std::int64_t samples) const {
  expect(settings_.order == SampleOrder::sequential && settings_.shares.empty() &&
             settings_.phases.empty(),
         "a sample's number is its window's");
  const auto all = samples_per_epoch();
  return {samples_of_ranges(), settings_.subset_shares, samples > 0 ? samples : all};
}

TokenizerSpec Dataset::tokenizer() const {
  TokenizerSpec all;
  for (const auto& range : ranges_) all = merged(all, range.file.tokenizer());
  return all;
}

std::int64_t Dataset::read(std::int64_t sample, std::span<std::int32_t> ids_T,
                           std::span<std::int32_t> targets_T,
                           std::span<std::int32_t> start_T) const {
  const std::int64_t T = settings_.T;
  expect(static_cast<std::int64_t>(ids_T.size()) == T &&
             static_cast<std::int64_t>(targets_T.size()) == T,
         "room for one sample");
  const Window window = sequence_(sample);
  const auto file = static_cast<std::size_t>(window.file);
  const TokenRange& range = ranges_[file];
  if (settings_.attention == AttentionSpan::causal) start_T = {};
  if (packings_.empty())
    read_window(range, window.index, ids_T, targets_T, start_T);
  else
    read_documents(range, packings_[file]->sample(window.index), ids_T, targets_T, start_T);
  return T - std::ranges::count(targets_T, no_target);
}

std::vector<Dataset::Source> Dataset::sources(std::int64_t sample) const {
  const Window window = sequence_(sample);
  const auto range = static_cast<std::size_t>(window.file);
  if (packings_.empty())
    return {{range, ranges_[range].begin + window.index * settings_.T, settings_.T}};
  std::vector<Source> all;
  for (const auto& d : packings_[range]->sample(window.index))
    all.push_back({range, d.begin, d.count});
  return all;
}

std::int64_t Dataset::tokens(std::int64_t sample) const {
  std::int64_t sum = 0;
  for (const auto& source : sources(sample)) sum += source.count;
  return sum;
}

// Reads targets [begin, begin + n) of a file. Targets that do not count become no_target: those
// that the mask excludes, and those that follow `separator`.
static void read_targets(const TokenFile& file, std::int64_t begin,
                         std::span<const std::int32_t> ids, std::int32_t separator,
                         std::span<std::int32_t> targets) {
  file.read(begin, targets);
  const auto counts = file.targets(begin, static_cast<std::int64_t>(targets.size()));
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (ids[i] == separator || !counts[i]) targets[i] = no_target;
}

void Dataset::read_window(const TokenRange& range, std::int64_t window,
                          std::span<std::int32_t> ids_T, std::span<std::int32_t> targets_T,
                          std::span<std::int32_t> start_T) const {
  const auto separator = range.file.header().separator;
  const std::int64_t start = range.begin + window * settings_.T;
  range.file.read(start, ids_T);
  if (!start_T.empty()) find_documents(ids_T, *separator, start_T);
  // Without separator masks, the separator is -1, which no input equals.
  read_targets(range.file, start + 1, ids_T,
               settings_.separator_masks ? separator.value_or(-1) : -1, targets_T);
}

void Dataset::read_documents(const TokenRange& range, std::span<const PackedDocument> documents,
                             std::span<std::int32_t> ids_T, std::span<std::int32_t> targets_T,
                             std::span<std::int32_t> start_T) const {
  std::size_t t = 0;
  for (const auto& d : documents) {
    const auto n = static_cast<std::size_t>(d.count);
    const auto ids = ids_T.subspan(t, n);
    range.file.read(d.begin, ids);
    read_targets(range.file, d.begin + 1, ids, -1, targets_T.subspan(t, n));
    if (!start_T.empty()) std::ranges::fill(start_T.subspan(t, n), static_cast<std::int32_t>(t));
    t += n;
  }
  // The rest is padding. A separator that does not occur may be outside of the model's vocabulary.
  const auto separator = *range.file.header().separator;
  std::ranges::fill(ids_T.subspan(t), separator < settings_.vocab ? separator : 0);
  std::ranges::fill(targets_T.subspan(t), no_target);
  if (!start_T.empty())
    std::iota(start_T.begin() + static_cast<std::ptrdiff_t>(t), start_T.end(),
              static_cast<std::int32_t>(t));
}

void find_documents(std::span<const std::int32_t> ids_T, std::int32_t separator,
                    std::span<std::int32_t> start_T) {
  expect(start_T.size() == ids_T.size(), "a start for each token");
  std::int32_t start = 0;
  for (std::size_t t = 0; t < ids_T.size(); ++t) {
    if (t > 0 && ids_T[t - 1] == separator) start = static_cast<std::int32_t>(t);
    start_T[t] = start;
  }
}

Batch read_batch(const Dataset& data, std::span<const std::int64_t> samples) {
  const auto T = static_cast<std::size_t>(data.sample_length());
  Batch batch;
  batch.sample_B.assign(samples.begin(), samples.end());
  batch.ids_BT.resize(samples.size() * T);
  batch.targets_BT.resize(samples.size() * T);
  if (data.attention() == AttentionSpan::document) batch.start_BT.resize(samples.size() * T);
  const auto starts = [&](std::size_t b) {
    return batch.start_BT.empty() ? std::span<std::int32_t>()
                                  : std::span(batch.start_BT).subspan(b * T, T);
  };
  for (std::size_t b = 0; b < samples.size(); ++b) {
    batch.valid += data.read(samples[b], std::span(batch.ids_BT).subspan(b * T, T),
                             std::span(batch.targets_BT).subspan(b * T, T), starts(b));
    if (data.packed(0)) batch.tokens_B.push_back(data.tokens(samples[b]));
    const auto reference = data.reference(samples[b]);
    batch.reference_D.insert(batch.reference_D.end(), reference.begin(), reference.end());
    const auto labels = data.labels(samples[b]);
    batch.desirable_A.insert(batch.desirable_A.end(), labels.begin(), labels.end());
    if (data.document_weights() == DocumentWeights::absent) continue;
    const auto weights = data.weights(samples[b]);
    batch.weight_BT.insert(batch.weight_BT.end(), weights.begin(), weights.end());
  }
  return batch;
}

}  // namespace trireme
