#pragma once
// A run of one rank recorded by this process on a backend of the test's own: what a program or a
// machine that computes something else would have left.
#include <filesystem>

#include "kernels/backend.hpp"
#include "lib/deck/deck.hpp"

namespace trireme::test {

// Trains the deck's steps into the new run directory `run`, with checkpoints and digests as the
// deck says and without evaluations. The deck is one of a run's (`effective.toml`), on one rank.
void record_run(const std::filesystem::path& run, const Deck&, Backend&);

}  // namespace trireme::test
