#pragma once
// Starts and ends the ranks of a job, reports their errors, and reads the deck.
#include <functional>
#include <string>
#include <vector>

#include "app/run_support.hpp"
#include "lib/comm/communicator.hpp"

namespace trireme {

// Exit code of a job that stopped early and can be resumed (EX_TEMPFAIL of sysexits.h).
inline constexpr int exit_stopped_early = 75;

// Returns run.hang_timeout from the `overrides` on the command line, or the default. This value
// applies until the deck has been read. Does not report an invalid value, because read_deck()
// reports it later.
double hang_timeout_before_deck(const std::vector<std::string>& overrides);

// Error on a single rank that report_local_error() has already logged.
struct ReportedError : Error {
  using Error::Error;
};
// Logs an error message that begins with the number of this rank.
void report_local_error(const Communicator& world, const std::exception&);

// Starts MPI, calls `work` with the communicator of all ranks, and ends MPI. Returns the exit code.
// If `work` throws SharedError, rank 0 logs the error and all ranks end. If `work` throws another
// error on a single rank, this rank aborts the job.
int with_mpi(double hang_timeout, const std::function<int(const Communicator&)>& work);

// Checks how the ranks were started. Throws Error if the launcher started a different number of
// ranks than MPI sees. Throws SharedError if the `arguments` of any rank differ from those of rank
// 0, and names the first such rank. After this call, only rank 0 writes log messages. Collective.
void check_launch(const Communicator& world, const std::string& arguments);

// Runs `work` on all ranks that a launcher started, and returns the exit code. If there is no
// launcher, runs `work` on a single rank without MPI. `arguments` is the command line as text,
// which must be equal on all ranks.
int on_all_ranks(const std::string& arguments, const std::function<int(const Communicator&)>& work);

// Returns the deck, resolved for the ranks of this job. Throws SharedError if the deck does not fit
// the number of ranks. Collective.
Deck resolve_here(Deck, const Communicator& world, std::int64_t vocab);
// Reads the deck on rank 0 and resolves it on all ranks. Throws SharedError if the deck is invalid.
// Collective.
Deck read_deck(const Communicator& world, const DeckArguments&);

}  // namespace trireme
