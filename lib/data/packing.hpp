#pragma once
// Samples of whole documents: which documents of a token file share a sample. A document goes where
// it leaves least room, the longest first (best-fit decreasing; Ding et al. 2024, "Fewer
// Truncations Improve Language Modeling"), of equally long ones in an order that the seed decides;
// so what is in a sample is the same in every epoch and run. In sequence they go as they come.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/data/config.hpp"
#include "lib/data/token_file.hpp"

namespace trireme {

// Inputs [begin, begin + count) of a file, with targets one later. The separator that ends a
// document is no input.
struct PackedDocument {
  std::int64_t begin = 0, count = 0;
  bool operator==(const PackedDocument&) const = default;
};

// Documents with an input that begin at tokens [begin, end) of a file with a separator. One begins
// with the file and behind each separator. Reads all of them.
std::vector<PackedDocument> documents_of(const TokenFile&, std::int64_t begin, std::int64_t end);

struct PackingTotals {
  std::int64_t documents = 0, samples = 0;
  std::int64_t inputs = 0;                 // in samples
  std::int64_t targets = 0;                // that count, of all documents
  std::int64_t long_documents = 0;         // longer than a sample
  std::int64_t targets_lost = 0;           // of these
  std::int64_t dropped = 0;                // of these, left out
  std::int64_t left_out = 0;               // of the others, without a target that counts
  std::int64_t pairs = 0, long_pairs = 0;  // of files of pairs; those longer than a sample
  // Of which something is in a sample.
  std::int64_t in_samples() const { return documents - 2 * long_pairs - dropped - left_out; }
};

class DocumentPacking {
 public:
  struct Settings {
    std::int64_t T = 0;  // tokens of a sample
    LongDocuments too_long = LongDocuments::cut;
    SampleOrder order = SampleOrder::random;
    std::uint64_t seed = 0;
  };

  // Of the documents that begin at tokens [begin, end) of the file, which has a separator. Reads
  // them all once. Throws Error, naming the file, when a document is longer than a sample and that
  // is refused. What is cut or split ends with an answer that is learnt, where one ends in a
  // sample's length; documents, and parts of those split, without a target that counts are left
  // out. Of a file of pairs each stands in
  // one sample, in order, the chosen document first; pairs that are longer, or of which a document
  // has no target, are left out. Throws Error where documents are not in pairs.
  DocumentPacking(const TokenFile&, std::int64_t begin, std::int64_t end, const Settings&);

  std::int64_t samples() const { return totals_.samples; }
  // Of sample i, in order; at most T inputs together.
  std::span<const PackedDocument> sample(std::int64_t i) const;
  // Those of all samples, one behind the other, and which of them are sample i's.
  std::span<const PackedDocument> documents() const { return documents_; }
  struct Numbers {
    std::size_t begin, end;
  };
  Numbers numbers(std::int64_t i) const;
  const PackingTotals& totals() const { return totals_; }

 private:
  std::vector<PackedDocument> whole_pairs(const TokenFile&, std::int64_t begin, std::int64_t end,
                                          const Settings&);
  void pack(std::span<const PackedDocument>, std::size_t in_item, const Settings&);

  std::vector<PackedDocument> documents_;  // by sample
  std::vector<std::int64_t> first_;        // of each sample's, and the end
  PackingTotals totals_;
};

// Of samples that follow each other: how many of the targets that count stand in a sample that
// lacks the begin of their document.
struct BegunBefore {
  std::int64_t targets = 0, cut_off = 0;
};
// Of tokens [begin, end) of a file with a separator, in windows of T inputs. Reads all of them.
BegunBefore begun_before(const TokenFile&, std::int64_t begin, std::int64_t end, std::int64_t T);

}  // namespace trireme
