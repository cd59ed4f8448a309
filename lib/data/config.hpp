#pragma once
// The deck section [data]: the training tokens and their order.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/value_names.hpp"

namespace trireme {

enum class SampleOrder : std::uint8_t { random, sequential };
template <>
inline constexpr auto value_names<SampleOrder> = named<SampleOrder>("random", "sequential");
// Tokens that a token attends to: `causal` means all earlier tokens of its sample, and `document`
// means the earlier tokens of its own document.
enum class AttentionSpan : std::uint8_t { causal, document };
template <>
inline constexpr auto value_names<AttentionSpan> = named<AttentionSpan>("causal", "document");

// How a file is divided into samples: `windows` are consecutive ranges of tokens, and `documents`
// are whole documents that are packed together to fill each sample.
enum class Packing : std::uint8_t { windows, documents };
template <>
inline constexpr auto value_names<Packing> = named<Packing>("windows", "documents");
// Handling of a document that is longer than a sample, if samples consist of whole documents.
// `cut`: the rest of the document is dropped. `split`: the rest becomes a further document. `drop`:
// the document is omitted. `refuse`: an Error is thrown.
enum class LongDocuments : std::uint8_t { cut, split, drop, refuse };
template <>
inline constexpr auto value_names<LongDocuments> = named<LongDocuments>("cut", "split", "drop",
                                                                        "refuse");

// Whether documents have weights in the loss.
enum class DocumentWeights : std::uint8_t { absent, present };

// The name of the weighted mean of the [[validation]] sets, which no set may have.
inline constexpr std::string_view mean_set = "mean";

// A named set of validation data: a [[validation]] section.
struct ValidationSet {
  std::string name;
  std::vector<std::string> path;  // token files
  double weight = 0;              // in the weighted mean of the sets
  bool operator==(const ValidationSet&) const = default;
};

// A [[phase]] section: the files and shares that apply from some point of the run on.
struct PhaseConfig {
  // The first step of the phase, counted from 0, or the number of tokens before it. The other
  // member is 0.
  std::int64_t from_step = 0, from_tokens = 0;
  std::vector<std::string> path{};  // token files; empty: those of [data]
  // Relative share of each file. If both lists are empty, those of [data] apply.
  std::vector<double> weights{};
  bool operator==(const PhaseConfig&) const = default;
};

// The settings of the [data] section, and the [[phase]] and [[validation]] sections.
struct DataConfig {
  std::int64_t context = 1024;    // tokens per sample
  std::vector<std::string> path;  // token files
  // Relative share of each file among the samples. If empty, the shares are proportional to the
  // files' sizes.
  std::vector<double> weights;
  std::vector<PhaseConfig> phases;
  // Factor of the losses of each file's documents. If empty, all factors are 1.
  std::vector<double> loss_weights;
  // Token files with validation data. A deck sets either this or `validation_fraction`.
  std::vector<std::string> validation_files;
  // Fraction at the end of each training file that is reserved as validation data.
  double validation_fraction = 0;
  // Further validation sets, each of which is evaluated separately.
  std::vector<ValidationSet> sets;
  SampleOrder order = SampleOrder::random;
  Packing packing = Packing::windows;
  LongDocuments long_documents = LongDocuments::cut;
  AttentionSpan attention = AttentionSpan::causal;
  // Whether the first token after a separator is excluded from the loss.
  bool separator_masks = false;

  // Returns true if data.validation is set.
  bool has_main_set() const { return validation_fraction > 0 || !validation_files.empty(); }
  bool has_validation() const { return has_main_set() || !sets.empty(); }
  bool operator==(const DataConfig&) const = default;
};

}  // namespace trireme
