#pragma once
// The command trireme evaluate CHECKPOINT --multiple-choice FILE.
#include <string>

#include "app/loaded_model.hpp"
#include "lib/base/draft.hpp"

namespace trireme {

// Evaluates a model on multiple-choice questions and returns the exit code. Rank 0 reads `file`,
// prints the table and, if `output` is not empty, writes `output`. `existing` determines the
// handling of an existing output file. `samples` is the maximum number of questions. 0 means no
// limit. Collective.
int evaluate_choices(const Communicator& world, const ModelArguments&, const std::string& file,
                     const std::string& output, ExistingFile existing, std::int64_t samples);

}  // namespace trireme
