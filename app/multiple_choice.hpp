#pragma once
// trireme evaluate CHECKPOINT --multiple-choice FILE
#include <string>

#include "app/loaded_model.hpp"

namespace trireme {

// Collective; rank 0 reads the file, prints the table and writes `output`, unless that is empty.
int evaluate_choices(const Communicator& world, const ModelArguments&, const std::string& file,
                     const std::string& output, std::int64_t samples);

}  // namespace trireme
