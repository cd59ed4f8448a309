#pragma once
// Packs whole documents into samples. The longest documents are placed first, each in the sample
// with the least remaining space that is sufficient (best-fit decreasing; Ding et al. 2024, "Fewer
// Truncations Improve Language Modeling"). The seed determines the order of equally long documents,
// so each sample has the same documents in every epoch and run. With sequential order, documents
// are placed in file order.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/data/config.hpp"
#include "lib/data/token_file.hpp"

namespace trireme {

// Inputs [begin, begin + count) of a file. Their targets are one position later. The separator that
// ends a document is a target but not an input.
struct PackedDocument {
  std::int64_t begin = 0, count = 0;
  bool operator==(const PackedDocument&) const = default;
};

// Returns the documents with at least one input that begin at tokens [begin, end) of a file with a
// separator. A document begins at the start of the file and after each separator. The function
// reads all these tokens.
std::vector<PackedDocument> documents_of(const TokenFile&, std::int64_t begin, std::int64_t end);

// Statistics of a packing.
struct PackingTotals {
  std::int64_t documents = 0, samples = 0;
  // Number of inputs in samples, without padding.
  std::int64_t inputs = 0;
  // Number of targets that count in the loss, over all documents.
  std::int64_t targets = 0;
  // Number of documents that are longer than a sample.
  std::int64_t long_documents = 0;
  // Number of targets of long documents that were cut off or dropped.
  std::int64_t targets_lost = 0;
  // Number of long documents that were omitted because of `LongDocuments::drop`.
  std::int64_t dropped = 0;
  // Number of documents that were omitted because no target counts in the loss.
  std::int64_t left_out = 0;
  // Number of preference pairs or labeled answers, and the number of those longer than a sample.
  std::int64_t pairs = 0, long_pairs = 0;
  // Returns the number of documents of which at least a part is in a sample.
  std::int64_t in_samples() const { return documents - 2 * long_pairs - dropped - left_out; }
};

// The assignment of a file's documents to samples.
class DocumentPacking {
 public:
  struct Settings {
    std::int64_t T = 0;  // tokens of a sample
    LongDocuments too_long = LongDocuments::cut;
    SampleOrder order = SampleOrder::random;
    std::uint64_t seed = 0;
  };

  // Packs the documents that begin at tokens [begin, end) of a file with a separator. Reads all of
  // them once.
  //
  // If a document is longer than a sample and `too_long` is `refuse`, throws Error, naming the
  // file. A document is cut or split after the last trained-on answer that ends within T inputs. If
  // there is no such answer, it is cut after T inputs. Documents and parts without a target that
  // counts in the loss are omitted.
  //
  // In a file of preference pairs, both documents of a pair are in the same sample, with the chosen
  // document first. A pair is omitted if it is longer than a sample or if one of its documents has
  // no target. Throws Error if the documents are not in pairs. The same holds for a labeled answer
  // and its mismatched answer.
  DocumentPacking(const TokenFile&, std::int64_t begin, std::int64_t end, const Settings&);

  std::int64_t samples() const { return totals_.samples; }
  // Returns the documents of sample i, in order. Together, the documents have at most T inputs.
  std::span<const PackedDocument> sample(std::int64_t i) const;
  // Returns the documents of all samples, sample by sample.
  std::span<const PackedDocument> documents() const { return documents_; }
  // A range of indices in documents().
  struct Numbers {
    std::size_t begin, end;
  };
  // Returns the indices of sample i's documents.
  Numbers numbers(std::int64_t i) const;
  // Returns the label of the labeled answer that documents()[d] belongs to.
  bool desirable(std::size_t d) const { return desirable_[d / 2]; }
  const PackingTotals& totals() const { return totals_; }

 private:
  std::vector<PackedDocument> whole_pairs(const TokenFile&, std::int64_t begin, std::int64_t end,
                                          const Settings&);
  void pack(std::span<const PackedDocument>, std::size_t in_item, const Settings&);

  std::vector<PackedDocument> documents_;  // sample by sample
  std::vector<bool> desirable_;            // by two documents; empty unless answers are labeled
  std::vector<std::int64_t> first_;        // index of each sample's first document, and the total
  PackingTotals totals_;
};

// Numbers of targets in consecutive windows. `targets` is the number of targets that count in the
// loss. `cut_off` is the number of those targets whose document begins before their window.
struct BegunBefore {
  std::int64_t targets = 0, cut_off = 0;
};
// Counts the targets of tokens [begin, end) of a file with a separator, in windows of T inputs. The
// function reads all these tokens.
BegunBefore begun_before(const TokenFile&, std::int64_t begin, std::int64_t end, std::int64_t T);

}  // namespace trireme
