#pragma once
// Creates a token file on several ranks. Each rank converts some parts of the inputs
// (lib/corpus/parts.hpp) to files in a folder next to the output (lib/corpus/part_folder.hpp). Rank
// 0 then joins these files. The token file has the same bytes for every number of ranks.
//
// Finished parts remain if the job fails, stops or is killed. The next job uses each part whose
// options, tokenizer and files (names, sizes and modification times) have not changed.
#include <cstdint>

#include "lib/comm/agree.hpp"
#include "lib/comm/communicator.hpp"
#include "lib/corpus/tokenize.hpp"

namespace trireme {

// Thrown on all ranks if TokenizeOptions::stopped_by asks a rank to stop. The message is the
// reason.
struct StoppedJob : SharedError {
  using SharedError::SharedError;
};

// Like tokenize(), on all ranks. Rank 0 returns the summary. The results of other ranks are
// incomplete. Throws SharedError, with the error of the first part that failed, or StoppedJob.
// While rank 0 joins the parts, only rank 0 can stop the job. Rank 0 alone converts token ids of
// other programs. A single rank makes parts only if TokenizeOptions::part_bytes is set, or if it
// continues a job. Collective.
TokenizeSummary tokenize_on_ranks(const Communicator& world, const TokenizeOptions&);

}  // namespace trireme
