#pragma once
// How the ranks of a job start and end: the launch, its errors, and the deck.
#include <functional>
#include <string>
#include <vector>

#include "app/run_support.hpp"
#include "lib/comm/communicator.hpp"

namespace trireme {

// run.hang_timeout as far as the command line says it, else its default: for the time before the
// deck is read. What is wrong with it is said when the deck is read.
double hang_timeout_before_deck(const std::vector<std::string>& overrides);

// An error on one rank that it has reported already.
struct ReportedError : Error {
  using Error::Error;
};
void report_local_error(const Communicator& world, const std::exception&);

// `work` with the world of a job of MPI's, which ends behind it. An error that all ranks share is
// said once and ends them, one of a single rank aborts the job.
int with_mpi(double hang_timeout, const std::function<int(const Communicator&)>& work);

// Collective. Error when the launcher says that it started another number of ranks than MPI sees,
// SharedError naming the first rank whose arguments, as text, are not rank 0's. From here on rank 0
// alone speaks.
void check_launch(const Communicator& world, const std::string& arguments);

// A command that any number of ranks run: `work` with all that were launched. Without a launcher
// MPI is left alone. `arguments`: the command line as text, the same on all ranks.
int on_all_ranks(const std::string& arguments, const std::function<int(const Communicator&)>& work);

// Collective. The deck resolved for the ranks of this job. SharedError.
Deck resolve_here(Deck, const Communicator& world, std::int64_t vocab);
// Rank 0 reads the deck, all resolve it. SharedError.
Deck read_deck(const Communicator& world, const DeckArguments&);

}  // namespace trireme
