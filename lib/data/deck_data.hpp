#pragma once
// Opens the data that a deck names: its training files and its sets of validation data.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/data/config.hpp"
#include "lib/data/dataset.hpp"
#include "lib/data/phases.hpp"

namespace trireme {

// Returns whether the training documents have weights: the section has loss weights, or a training
// file has weights. Files that do not exist have none.
DocumentWeights document_weights(const DataConfig&);

// Opens the deck's token files, in the order of training_files().
std::vector<TokenFile> open_training_files(const DataConfig&);
// Returns the training data of the deck sections [data] and [[phase]], without the validation data,
// from files that open_training_files() has opened. `plan` contains the phases. It may be empty if
// the deck has no [[phase]] section. If `most` is positive, only the first `most` tokens of each
// file are used.
Dataset training_data(const DataConfig&, std::vector<TokenFile> files, std::int64_t T,
                      std::int64_t vocab, std::uint64_t seed, const PhasePlan& plan,
                      std::int64_t most = 0);
// Like the function above, but also opens the files.
Dataset training_data(const DataConfig&, std::int64_t T, std::int64_t vocab, std::uint64_t seed,
                      const PhasePlan& plan = {}, std::int64_t most = 0);

// Returns the name of a validation set for messages, such as "validation" or "validation[code]".
std::string label_of_set(const std::string& name);

// A set of validation data, in sequential order.
struct ValidationData {
  std::string name;  // of a [[validation]] section; empty for data.validation
  Dataset data;
  double weight = 0;  // in the weighted mean of the sets

  std::string label() const { return label_of_set(name); }
};
// Opens the sets of validation data: first data.validation, if the deck has it, and then the
// [[validation]] sections. No token is in both the training and the validation data. If
// data.validation is a fraction, subsets have the shares of data.weights.
std::vector<ValidationData> validation_data(const DataConfig&, std::int64_t T, std::int64_t vocab);
// Returns the names of the sets, and mean_set if a set has a weight.
std::vector<std::string> names_of_sets(std::span<const ValidationData>);
// Opens these token files as one set of validation data, with the section's other settings. The
// files may be training files.
Dataset held_out_data(const DataConfig&, const std::vector<std::string>& files, std::int64_t T,
                      std::int64_t vocab);

// Returns the vocabulary size that the section's files require, including validation files. If
// `given` is 0, the result is the files' largest vocabulary size. Otherwise it is the largest id
// plus 1, because some models have fewer embedding rows than their tokenizer has ids.
std::int64_t vocabulary_of(const DataConfig&, std::int64_t given);

}  // namespace trireme
