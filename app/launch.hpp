#pragma once
// How the ranks of a job start: checks of the launch, and the deck.
#include <functional>
#include <string>
#include <vector>

#include "app/run_support.hpp"
#include "lib/comm/communicator.hpp"

namespace trireme {

// Error when the launcher says that it started another number of ranks than MPI sees.
void require_launch(const Communicator& world);

// SharedError naming the first rank whose arguments, as text, are not rank 0's.
void require_same_arguments(const Communicator& world, const std::string& mine);

// run.hang_timeout as far as the command line says it, else its default: for the time before the
// deck is read. What is wrong with it is said when the deck is read.
double hang_timeout_before_deck(const std::vector<std::string>& overrides);

// Rank 0 reads the deck, fits it to the number of ranks and broadcasts the result. SharedError.
Deck read_deck(const Communicator& world, const DeckArguments&);

// A command that any number of ranks run: `work` with the world of this launch, on which errors end
// all ranks as they end `train`. Without a launcher MPI is left alone. `arguments`: the command
// line as text, the same on all ranks.
int on_all_ranks(const std::string& arguments, const std::function<int(const Communicator&)>& work);

}  // namespace trireme
