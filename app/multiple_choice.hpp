#pragma once
// trireme evaluate CHECKPOINT --multiple-choice FILE
#include <string>

#include "app/loaded_model.hpp"
#include "lib/base/draft.hpp"

namespace trireme {

// Collective; rank 0 reads the file, prints the table and writes `output`, unless that is empty.
// `existing`: what becomes of a file of that name.
int evaluate_choices(const Communicator& world, const ModelArguments&, const std::string& file,
                     const std::string& output, ExistingFile existing, std::int64_t samples);

}  // namespace trireme
