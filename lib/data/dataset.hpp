#pragma once
// Reads samples of a fixed length T from token files. A global sample number determines the sample.
//   B samples of a batch, T tokens of a sample, D documents, A labeled answers
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/data/config.hpp"
#include "lib/data/order.hpp"
#include "lib/data/packing.hpp"
#include "lib/data/phases.hpp"
#include "lib/data/reference_losses.hpp"
#include "lib/data/subset.hpp"
#include "lib/data/token_file.hpp"

namespace trireme {

// The target of a position that does not count in the loss.
inline constexpr std::int32_t no_target = -1;

// Tokens [begin, end) of a file. Window w has the inputs [begin + w*T, begin + w*T + T). Its
// targets are one position later, so a range of n tokens has (n - 1) / T windows. If samples
// consist of whole documents, the range contains the documents that begin in it.
struct TokenRange {
  TokenFile file;
  std::int64_t begin = 0, end = 0;
};

// The samples of one or more token files. Immutable, cheap to copy, and safe to read from several
// threads.
class Dataset {
 public:
  struct Settings {
    std::int64_t T = 0;
    // Size of the model's vocabulary.
    std::int64_t vocab = 0;
    // Relative share of each range (TokenRange) among the samples. If there are no shares, each
    // window occurs once per epoch.
    std::vector<double> shares;
    SampleOrder order = SampleOrder::random;
    std::uint64_t seed = 0;
    bool separator_masks = false;
    Packing packing = Packing::windows;
    LongDocuments long_documents = LongDocuments::cut;
    AttentionSpan attention = AttentionSpan::causal;
    // Relative share of each range among a subset's samples. If empty, the shares are proportional
    // to the ranges' sizes.
    std::vector<double> subset_shares = {};
    // Phases, which replace `shares`, and the number of each range's file in them. If empty, there
    // is one phase.
    std::vector<DataPhase> phases = {};
    std::vector<std::int32_t> numbers = {};
    // If absent, all documents count the same, whatever the files say.
    DocumentWeights document_weights = DocumentWeights::absent;
    // Factor of the weights of each range's documents. If empty, all factors are 1.
    std::vector<double> loss_weights = {};
  };

  // Throws Error, naming the file, in these cases:
  // - A range contains no whole sample.
  // - An id exceeds the model's vocabulary, or the files were made with different tokenizers.
  // - The settings need a separator (to mask targets, to find documents, or to keep attention
  //   within them), and a file has none.
  // - The documents of the files are of different kinds (Documents).
  // - Files contain pairs or labeled answers, but samples are windows, attention is not kept within
  //   documents, long documents would be split, or there are factors of losses.
  // - A document's weight, multiplied by its range's factor, is not between the limits of a weight.
  Dataset(std::vector<TokenRange>, Settings);

  std::int64_t sample_length() const { return settings_.T; }
  AttentionSpan attention() const { return settings_.attention; }
  LongDocuments long_documents() const { return settings_.long_documents; }
  // Returns the number of samples in all files, also those of phases that have not begun.
  std::int64_t samples_per_epoch() const { return sequence_.samples_per_epoch(); }
  // Returns the number of epochs completed before this sample. With shares, counts the epochs of
  // the sample's file.
  std::int64_t epoch_of(std::int64_t sample) const { return sequence_(sample).epoch; }
  // Returns true if all files have the same epochs, because there is one phase, and it has no
  // shares or only one file.
  bool has_common_epochs() const;
  // Returns the phase that a sample belongs to.
  const DataPhase& phase_of(std::int64_t sample) const { return sequence_.phase_of(sample); }
  // Returns true if all samples belong to one phase.
  bool has_one_phase() const { return settings_.phases.size() < 2; }
  // Returns the number of samples in the files of a phase. Files that the deck no longer contains
  // do not count.
  std::int64_t samples_of(const DataPhase& phase) const { return sequence_.windows_of(phase); }
  // Returns the files of a phase and their shares, such as
  // "web.tokens (75%), code.tokens (25%)".
  std::string text_of(const DataPhase&) const;
  // Returns true if samples are drawn by shuffling a small number of windows
  // (WindowSequence::shuffles_few).
  bool shuffles_few() const { return sequence_.shuffles_few(); }
  const std::vector<TokenRange>& ranges() const { return ranges_; }
  // Returns what the documents of the samples are.
  Documents kind() const { return ranges_[0].file.header().kind; }
  // Returns the packing statistics of a range, or nullptr if samples are windows.
  const PackingTotals* packed(std::size_t range) const {
    return packings_.empty() ? nullptr : &packings_[range]->totals();
  }
  // Returns the documents in a range's samples, sample by sample. Empty if samples are windows.
  std::span<const PackedDocument> documents(std::size_t range) const {
    return packings_.empty() ? std::span<const PackedDocument>() : packings_[range]->documents();
  }
  // Returns a copy of the dataset that also provides the reference model's losses of the documents.
  // The dataset must not contain single documents. Throws Error, naming the file, if
  // `ReferenceLosses` lacks the file or one of its documents.
  Dataset with_reference(const ReferenceLosses&) const;
  // Returns the reference losses of a sample's documents, in order. Empty if there are no reference
  // losses.
  std::span<const double> reference(std::int64_t sample) const;
  // Returns the labels of a sample's labeled answers, in order: 1 for each desirable answer, 0 for
  // the others. Empty if the documents are of another kind.
  std::vector<std::uint8_t> labels(std::int64_t sample) const;
  // Returns whether samples have the weights of their documents.
  DocumentWeights document_weights() const { return settings_.document_weights; }
  // Returns the weight of each of a sample's T targets, which is the weight of the target's
  // document. Padding has the weight 1. Throws Error, naming the file, if it is damaged.
  std::vector<float> weights(std::int64_t sample) const;
  // Returns the range of a sample's documents in the list documents(range) of the sample's file.
  // Samples must consist of whole documents.
  DocumentPacking::Numbers documents_of(std::int64_t sample) const;
  // Returns a fixed selection of at most `samples` samples that represents one epoch. 0 selects
  // all. The order must be sequential.
  Subset subset(std::int64_t samples) const;
  // Returns the tokenizer of the files, merged from all files that contain one. Its kind is `none`
  // if no file contains a tokenizer.
  TokenizerSpec tokenizer() const;

  // Consecutive inputs of a sample: tokens [begin, begin + count) of the file of a range.
  struct Source {
    std::size_t range = 0;
    std::int64_t begin = 0, count = 0;
  };
  // Returns where the sample's inputs come from, in order: one window, or whole documents and parts
  // of long documents.
  std::vector<Source> sources(std::int64_t sample) const;
  // Returns how many of the sample's T inputs are not padding.
  std::int64_t tokens(std::int64_t sample) const;
  // Reads the inputs and targets of one sample. The sample number may be any number from 0 on.
  // Returns the number of targets that count in the loss. All other targets are no_target.
  //
  // If `start_T` is not empty and attention is kept within documents, it receives the start of each
  // token's document (see find_documents). If samples consist of whole documents, the rest of a
  // sample is padding. Each padding position is a separator that forms a separate document and has
  // no target.
  //
  // Throws Error, naming file, position and id, if an id is not in the vocabulary.
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
  // Packings, one per range. Empty if samples are windows.
  Packings packings_;
  // Losses per range, in the order of documents(range). Empty if there are no reference losses.
  std::vector<std::shared_ptr<const std::vector<double>>> reference_;
  WindowSequence sequence_;
};

// Determines, for each token, the position in the sample at which its document begins. A document
// begins after a separator. If the sample begins inside a document, that document's start is 0.
void find_documents(std::span<const std::int32_t> ids_T, std::int32_t separator,
                    std::span<std::int32_t> start_T);

// The inputs and targets of several samples.
struct Batch {
  std::vector<std::int32_t> ids_BT, targets_BT;
  std::vector<std::int64_t> sample_B;  // global sample numbers
  // Number of targets that are not no_target.
  std::int64_t valid = 0;
  // Start of each token's document (see find_documents). Covers all tokens of a sample, even if
  // this batch has only one rank's part of each sample. Empty if attention is not limited to
  // documents.
  std::vector<std::int32_t> start_BT{};
  // Number of tokens in each sample that are not padding. The padding is at the end. Counts all
  // tokens of a sample, even if this batch has only one rank's part of each sample. Empty if there
  // is no padding.
  std::vector<std::int64_t> tokens_B{};
  // Reference losses of the documents of all samples, concatenated (see Dataset::reference). Covers
  // all documents of a sample, even if this batch has only one rank's part of each sample. Empty if
  // there are no reference losses.
  std::vector<double> reference_D{};
  // Labels of the labeled answers of all samples, concatenated (see Dataset::labels). Covers all
  // answers of a sample, even if this batch has only one rank's part of each sample. Empty if the
  // documents are of another kind.
  std::vector<std::uint8_t> desirable_A{};
  // Weight of each target (see Dataset::weights). Empty if the data has no weights.
  std::vector<float> weight_BT{};
};

// Reads whole samples. Throws Error under the conditions of Dataset::read().
Batch read_batch(const Dataset&, std::span<const std::int64_t> samples);

}  // namespace trireme
