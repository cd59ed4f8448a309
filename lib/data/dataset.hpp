#pragma once
// Samples of a fixed length T from token files, by global sample number.
//   B samples of a batch, T tokens of a sample
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/data/config.hpp"
#include "lib/data/order.hpp"
#include "lib/data/packing.hpp"
#include "lib/data/reference_losses.hpp"
#include "lib/data/subset.hpp"
#include "lib/data/token_file.hpp"

namespace trireme {

inline constexpr std::int32_t no_target = -1;

// Tokens [begin, end) of a file. Window w has inputs [begin + w*T, begin + w*T + T) and targets
// one later, so a range of n tokens has (n - 1) / T windows. Of whole documents it has those that
// begin in it.
struct TokenRange {
  TokenFile file;
  std::int64_t begin = 0, end = 0;
};

// Immutable, cheap to copy, safe to read from several threads.
class Dataset {
 public:
  struct Settings {
    std::int64_t T = 0;
    std::int64_t vocab = 0;      // of the model
    std::vector<double> shares;  // of samples per range; empty: each window once an epoch
    SampleOrder order = SampleOrder::random;
    std::uint64_t seed = 0;
    bool separator_masks = false;
    Packing packing = Packing::windows;
    LongDocuments long_documents = LongDocuments::cut;
    AttentionSpan attention = AttentionSpan::causal;
    std::vector<double> subset_shares = {};  // of a subset's samples per range; empty: by size
  };

  // Throws Error, naming the file, when a range holds no whole sample, when a vocabulary exceeds
  // the model's, when files were made with different tokenizers, or when separators are to mask
  // targets, to keep attention within documents or to end them, and a file names none; when some
  // files are of pairs and others not, or pairs are not to stand whole and apart.
  Dataset(std::vector<TokenRange>, Settings);

  std::int64_t sample_length() const { return settings_.T; }
  AttentionSpan attention() const { return settings_.attention; }
  LongDocuments long_documents() const { return settings_.long_documents; }
  std::int64_t samples_per_epoch() const { return sequence_.samples_per_epoch(); }
  // Epochs completed before this sample.
  std::int64_t epoch_of(std::int64_t sample) const { return sample / samples_per_epoch(); }
  bool shuffles_few() const { return sequence_.shuffles_few(); }
  const std::vector<TokenRange>& ranges() const { return ranges_; }
  // Are its samples of pairs of documents, chosen and rejected, as its files are?
  bool pairs() const { return ranges_[0].file.header().pairs; }
  // Of samples of whole documents, what is in those of a range.
  const PackingTotals* packed(std::size_t range) const {
    return packings_.empty() ? nullptr : &packings_[range]->totals();
  }
  // The documents of a range's samples, one behind the other; none where samples are windows.
  std::span<const PackedDocument> documents(std::size_t range) const {
    return packings_.empty() ? std::span<const PackedDocument>() : packings_[range]->documents();
  }
  // This one of pairs with what a fixed model made of its documents, which samples then bring.
  // Throws Error, naming the file, when scores lack it or one of its documents.
  Dataset with_reference(const ReferenceLosses&) const;
  // Of a sample, in order; empty without a reference.
  std::span<const double> reference(std::int64_t sample) const;
  // Which documents() of its range a sample has, where samples are of whole ones.
  DocumentPacking::Numbers documents_of(std::int64_t sample) const;
  // Which samples of an epoch in sequence stand for all of it, at most so many; 0: all.
  Subset subset(std::int64_t samples) const;
  // What the files were tokenized with, joined; kind none if none of them names it.
  TokenizerSpec tokenizer() const;

  // Of a sample's T inputs, those that are no padding.
  std::int64_t tokens(std::int64_t sample) const;
  // Fills T inputs and T targets of one sample (any number from 0) and returns how many targets
  // count; the others are no_target; also T starts of documents, where they are asked for and
  // attention is kept within them. Behind whole documents each position is a separator, a document
  // of its own without a target. Throws Error naming file, position and id for an id that is not
  // in the vocabulary.
  std::int64_t read(std::int64_t sample, std::span<std::int32_t> ids_T,
                    std::span<std::int32_t> targets_T, std::span<std::int32_t> start_T = {}) const;

 private:
  using Packings = std::vector<std::shared_ptr<const DocumentPacking>>;
  void read_window(const TokenRange&, std::int64_t window, std::span<std::int32_t> ids_T,
                   std::span<std::int32_t> targets_T, std::span<std::int32_t> start_T) const;
  void read_documents(const TokenRange&, std::span<const PackedDocument>,
                      std::span<std::int32_t> ids_T, std::span<std::int32_t> targets_T,
                      std::span<std::int32_t> start_T) const;
  std::vector<std::int64_t> samples_of_ranges() const;

  std::vector<TokenRange> ranges_;
  Settings settings_;
  Packings packings_;  // one a range, or none
  // One a range, by documents(range), or none.
  std::vector<std::shared_ptr<const std::vector<double>>> reference_;
  WindowSequence sequence_;
};

// The position in its sample where each token's document begins: a document begins behind a
// separator. The first tokens of a sample are of the document that they continue, from 0 on.
void find_documents(std::span<const std::int32_t> ids_T, std::int32_t separator,
                    std::span<std::int32_t> start_T);

// The training data of a deck's [data] section: without what is held out.
Dataset training_data(const DataConfig&, std::int64_t T, std::int64_t vocab, std::uint64_t seed);
// The held-out data, in sequence; none if the deck holds nothing out. Shares no token with the
// training data. A subset of tails that are held out has the shares of data.weights.
std::optional<Dataset> validation_data(const DataConfig&, std::int64_t T, std::int64_t vocab);

// What model.vocab is by all files of the section, held-out ones included, or, where one is given,
// has to be at least: some models have fewer rows than their tokenizers ids.
std::int64_t vocabulary_of(const DataConfig&, std::int64_t given);

struct Batch {
  std::vector<std::int32_t> ids_BT, targets_BT;
  std::vector<std::int64_t> sample_B;  // global sample numbers
  std::int64_t valid = 0;              // targets that are not masked
  // Of whole samples, also in a share of them; empty: no document stands apart.
  std::vector<std::int32_t> start_BT{};
  // Of whole samples, also in a share of them: the first so many tokens of each are no padding.
  // Empty: all are none.
  std::vector<std::int64_t> tokens_B{};
  // Of whole samples of pairs, also in a share of them: what Dataset::reference says of their
  // documents, one behind the other. Empty: nothing is said.
  std::vector<double> reference_D{};
};

Batch read_batch(const Dataset&, std::span<const std::int64_t> samples);

}  // namespace trireme
