#pragma once
// Which tokens are trained on, and in which order: the [data] section of a deck.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/value_names.hpp"

namespace trireme {

enum class SampleOrder : std::uint8_t { random, sequential };
template <>
inline constexpr auto value_names<SampleOrder> = named<SampleOrder>("random", "sequential");
// causal: a token sees all earlier ones of its sample; document: only those of its document.
enum class AttentionSpan : std::uint8_t { causal, document };
template <>
inline constexpr auto value_names<AttentionSpan> = named<AttentionSpan>("causal", "document");

// windows: samples follow each other in the file; documents: whole ones, as many as a sample holds.
enum class Packing : std::uint8_t { windows, documents };
template <>
inline constexpr auto value_names<Packing> = named<Packing>("windows", "documents");
// Those longer than a sample, of which samples of whole documents are. split: what does not fit
// goes on as a further document; drop: they are left out.
enum class LongDocuments : std::uint8_t { cut, split, drop, refuse };
template <>
inline constexpr auto value_names<LongDocuments> = named<LongDocuments>("cut", "split", "drop",
                                                                        "refuse");

struct DataConfig {
  std::vector<std::string> path;              // token files
  std::vector<double> weights;                // share of samples per file; empty: by size
  std::vector<std::string> validation_files;  // token files held out; at most one of this and
  double validation_fraction = 0;             // the share of each file's tail that is held out
  SampleOrder order = SampleOrder::random;
  Packing packing = Packing::windows;
  LongDocuments long_documents = LongDocuments::cut;
  AttentionSpan attention = AttentionSpan::causal;
  bool separator_masks = false;  // no loss on the first token after a separator

  bool has_validation() const { return validation_fraction > 0 || !validation_files.empty(); }
  bool operator==(const DataConfig&) const = default;
};

}  // namespace trireme
