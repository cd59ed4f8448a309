#pragma once
// Implements the command `trireme evaluate CHECKPOINT --multiple-choice FILE`.
#include <string>

#include "app/loaded_model.hpp"
#include "lib/base/draft.hpp"

namespace trireme {

// Evaluates a model on the multiple-choice questions in `file`, and returns the exit code. Rank 0
// reads `file` and prints the accuracies. If `output` is not empty, rank 0 also writes the answers
// to this path. `existing` determines whether an existing output file is replaced. `samples` is the
// maximum number of questions, where 0 means no limit. Collective.
int evaluate_choices(const Communicator& world, const ModelArguments&, const std::string& file,
                     const std::string& output, ExistingFile existing, std::int64_t samples);

}  // namespace trireme
