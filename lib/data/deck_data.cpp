#include "lib/data/deck_data.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme {

// Returns the number of a file's tokens that are trained on. The tail of the file is held out.
static std::int64_t training_tokens(const TokenFile& file, double held_out) {
  return file.count() - std::llround(static_cast<double>(file.count()) * held_out);
}

static bool has_weights(const TokenFile& file) {
  return file.header().weight_ranges > 0;
}

// `file_has_weights` is called for each file until one has weights.
template <class Files, class HasWeights>
static DocumentWeights document_weights(const DataConfig& config, const Files& files,
                                        const HasWeights& file_has_weights) {
  const bool any = !config.loss_weights.empty() || std::ranges::any_of(files, file_has_weights);
  return any ? DocumentWeights::present : DocumentWeights::absent;
}

DocumentWeights document_weights(const DataConfig& config) {
  return document_weights(config, training_files(config), [](const std::string& path) {
    std::error_code unknown;
    return std::filesystem::exists(path, unknown) && has_weights(TokenFile(path));
  });
}

// Returns one factor per training file. The further files of phases have the factor 1.
static std::vector<double> loss_weights_of(const DataConfig& config) {
  auto weights = config.loss_weights;
  if (!weights.empty()) weights.resize(training_files(config).size(), 1);
  return weights;
}

// Throws Error if two paths lead to one file. Its samples would be counted for each path.
static void require_distinct(const std::vector<std::string>& files) {
  for (std::size_t i = 0; i < files.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) {
      std::error_code none;
      require(
          files[i] == files[k] || !std::filesystem::equivalent(files[i], files[k], none),
          "{} and {} are the same file: use one path in data.path and in the [[phase]] sections",
          files[k], files[i]);
    }
}

std::vector<TokenFile> open_training_files(const DataConfig& config) {
  const auto paths = training_files(config);
  return {paths.begin(), paths.end()};
}

Dataset training_data(const DataConfig& config, std::int64_t T, std::int64_t vocab,
                      std::uint64_t seed, const PhasePlan& plan, std::int64_t most) {
  return training_data(config, open_training_files(config), T, vocab, seed, plan, most);
}

Dataset training_data(const DataConfig& config, std::vector<TokenFile> opened, std::int64_t T,
                      std::int64_t vocab, std::uint64_t seed, const PhasePlan& plan,
                      std::int64_t most) {
  expect(config.phases.empty() || !plan.history.phases.empty(), "the phases are planned");
  std::vector<TokenRange> ranges;
  const auto files = training_files(config);
  expect(opened.size() == files.size(), "each training file is open");
  if (!config.phases.empty()) require_distinct(files);
  const auto weights =
      document_weights(config, opened, [](const TokenFile& file) { return has_weights(file); });
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto& path = files[i];
    auto& file = opened[i];
    // Only the files of data.path have held-out data at their end.
    const bool held_out = std::ranges::find(config.path, path) != config.path.end();
    const std::int64_t all = training_tokens(file, held_out ? config.validation_fraction : 0);
    const std::int64_t end = most > 0 ? std::min(all, most) : all;
    ranges.push_back({std::move(file), 0, end});
  }
  return Dataset(std::move(ranges), {.T = T,
                                     .vocab = vocab,
                                     .shares = config.weights,
                                     .order = config.order,
                                     .seed = seed,
                                     .separator_masks = config.separator_masks,
                                     .packing = config.packing,
                                     .long_documents = config.long_documents,
                                     .attention = config.attention,
                                     .subset_shares = {},
                                     .phases = plan.history.phases,
                                     .numbers = plan.numbers,
                                     .document_weights = weights,
                                     .loss_weights = loss_weights_of(config)});
}

static Dataset in_sequence(const DataConfig& config, std::vector<TokenRange> ranges, std::int64_t T,
                           std::int64_t vocab, std::vector<double> subset_shares = {}) {
  return Dataset(std::move(ranges), {.T = T,
                                     .vocab = vocab,
                                     .shares = {},
                                     .order = SampleOrder::sequential,
                                     .seed = 0,
                                     .separator_masks = config.separator_masks,
                                     .packing = config.packing,
                                     .long_documents = config.long_documents,
                                     .attention = config.attention,
                                     .subset_shares = std::move(subset_shares),
                                     .document_weights = DocumentWeights::absent,
                                     .loss_weights = {}});
}

Dataset held_out_data(const DataConfig& config, const std::vector<std::string>& files,
                      std::int64_t T, std::int64_t vocab) {
  std::vector<TokenRange> ranges;
  for (const auto& path : files) {
    TokenFile file(path);
    const std::int64_t end = file.count();
    ranges.push_back({std::move(file), 0, end});
  }
  return in_sequence(config, std::move(ranges), T, vocab);
}

static void require_held_out(const DataConfig& config, const std::vector<std::string>& files,
                             std::string_view key) {
  for (const auto& path : files)
    for (const auto& trained : training_files(config)) {
      std::error_code none;
      require(!std::filesystem::equivalent(path, trained, none),
              "{} is used for both training and validation: remove it from {} or from {}", path,
              std::ranges::count(config.path, trained) > 0 ? "data.path" : "the [[phase]] section",
              key);
    }
}

std::vector<std::string> names_of_sets(std::span<const ValidationData> sets) {
  std::vector<std::string> names;
  for (const auto& set : sets) names.push_back(set.name);
  if (std::ranges::any_of(sets, [](const auto& set) { return set.weight > 0; }))
    names.emplace_back(mean_set);
  return names;
}

std::string label_of_set(const std::string& name) {
  return name.empty() ? "validation" : "validation[" + name + "]";
}

std::vector<ValidationData> validation_data(const DataConfig& config, std::int64_t T,
                                            std::int64_t vocab) {
  std::vector<ValidationData> all;
  if (!config.validation_files.empty()) {
    require_held_out(config, config.validation_files, "data.validation");
    all.push_back({"", held_out_data(config, config.validation_files, T, vocab)});
  }
  if (config.validation_fraction > 0) {
    std::vector<TokenRange> ranges;
    for (const auto& path : config.path) {
      TokenFile file(path);
      const std::int64_t begin = training_tokens(file, config.validation_fraction);
      const std::int64_t end = file.count();
      ranges.push_back({std::move(file), begin, end});
    }
    all.push_back({"", in_sequence(config, std::move(ranges), T, vocab, config.weights)});
  }
  for (const auto& set : config.sets) {
    require_held_out(config, set.path, fmt::format("the [[validation]] set {}", set.name));
    all.push_back({set.name, held_out_data(config, set.path, T, vocab), set.weight});
  }
  return all;
}

std::int64_t vocabulary_of(const DataConfig& config, std::int64_t given) {
  std::int64_t vocab = 0;
  const auto read = [&](const std::vector<std::string>& files) {
    for (const auto& path : files) {
      const TokenFile file(path);
      const auto& header = file.header();
      vocab = std::max(vocab, given > 0 ? header.largest + 1 : header.vocab);
    }
  };
  read(training_files(config));
  read(config.validation_files);
  for (const auto& set : config.sets) read(set.path);
  return vocab;
}

}  // namespace trireme
