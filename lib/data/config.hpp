#pragma once
// The [data] section of a deck: which tokens are trained on, and in which order.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/value_names.hpp"

namespace trireme {

enum class SampleOrder : std::uint8_t { random, sequential };
template <>
inline constexpr auto value_names<SampleOrder> = named<SampleOrder>("random", "sequential");
// Which tokens a token attends to. `causal`: all earlier tokens of its sample. `document`: the
// earlier tokens of its own document.
enum class AttentionSpan : std::uint8_t { causal, document };
template <>
inline constexpr auto value_names<AttentionSpan> = named<AttentionSpan>("causal", "document");

// How samples are cut from a file. `windows`: consecutive ranges of tokens. `documents`: whole
// documents, packed together so that they fill each sample.
enum class Packing : std::uint8_t { windows, documents };
template <>
inline constexpr auto value_names<Packing> = named<Packing>("windows", "documents");
// What happens to a document longer than a sample if samples consist of whole documents. `cut`: the
// rest of the document is dropped. `split`: the rest becomes a further document. `drop`: the
// document is left out. `refuse`: the document is an error.
enum class LongDocuments : std::uint8_t { cut, split, drop, refuse };
template <>
inline constexpr auto value_names<LongDocuments> = named<LongDocuments>("cut", "split", "drop",
                                                                        "refuse");

// The settings of the [data] section.
struct DataConfig {
  std::vector<std::string> path;  // token files
  // Relative share of each file among the samples. If empty, files contribute in proportion to
  // their sizes.
  std::vector<double> weights;
  // Token files with validation data. A deck sets either this or `validation_fraction`.
  std::vector<std::string> validation_files;
  // Fraction at the end of each training file that is held out as validation data.
  double validation_fraction = 0;
  SampleOrder order = SampleOrder::random;
  Packing packing = Packing::windows;
  LongDocuments long_documents = LongDocuments::cut;
  AttentionSpan attention = AttentionSpan::causal;
  // Excludes the first token after a separator from the loss.
  bool separator_masks = false;

  bool has_validation() const { return validation_fraction > 0 || !validation_files.empty(); }
  bool operator==(const DataConfig&) const = default;
};

}  // namespace trireme
