#include "app/launch.hpp"

#include <algorithm>

#include "lib/base/error_text.hpp"
#include "lib/base/hash.hpp"
#include "lib/base/log.hpp"
#include "lib/comm/agree.hpp"
#include "lib/comm/placement.hpp"
#include "lib/data/deck_data.hpp"
#include "lib/keys/quantity.hpp"
#include "lib/keys/value.hpp"
#include "lib/launch/mpi_job.hpp"

namespace trireme {

static void require_launch(const Communicator& world) {
  const int launched = launch::launched_ranks();
  require(launched == 0 || launched == world.size(),
          "the launcher started {} ranks, but MPI sees a world of {}: they would all write one run "
          "directory. Use the launcher of the MPI that trireme was built with (srun --mpi=pmi2, or "
          "its mpiexec)",
          launched, world.size());
}

static void require_same_arguments(const Communicator& world, const std::string& mine) {
  const auto all = world.all_gather(to_string(hash128(mine)));
  const auto other = std::ranges::find_if(all, [&](const auto& h) { return h != all[0]; });
  if (other != all.end())
    throw SharedError(
        fmt::format("rank {} was started with different arguments from rank 0: start all ranks "
                    "with the same command line",
                    other - all.begin()));
}

double hang_timeout_before_deck(const std::vector<std::string>& overrides) {
  constexpr std::string_view key = "run.hang_timeout=";
  double seconds = RunConfig{}.hang_timeout;
  for (const auto& o : overrides) {
    if (!o.starts_with(key)) continue;
    try {
      seconds = parse_duration(expand_environment(o.substr(key.size())));
    } catch (const Error&) {
    }
  }
  return seconds;
}

void report_local_error(const Communicator& world, const std::exception& e) {
  log_error("{}{}", world.size() > 1 ? fmt::format("rank {}: ", world.rank()) : "", error_text(e));
}

int with_mpi(double hang_timeout, const std::function<int(const Communicator&)>& work) {
  const launch::MpiJob job(hang_timeout);
  const auto& world = job.world();
  try {
    return work(world);
  } catch (const SharedError& e) {  // all ranks throw it together
    if (world.rank() == 0) log_error("{}", e.what());
    return 1;
  } catch (const std::exception& e) {
    if (!dynamic_cast<const ReportedError*>(&e)) report_local_error(world, e);
    if (world.size() == 1) return 1;
    job.abort(1);
  }
}

void check_launch(const Communicator& world, const std::string& arguments) {
  require_launch(world);
  if (world.rank() != 0) log_quietly();
  require_same_arguments(world, arguments);
}

int on_all_ranks(const std::string& arguments,
                 const std::function<int(const Communicator&)>& work) {
  if (launch::launched_ranks() < 2) return work(Communicator());
  return with_mpi(RunConfig{}.hang_timeout, [&](const Communicator& world) {
    check_launch(world, arguments);
    return work(world);
  });
}

Deck resolve_here(Deck deck, const Communicator& world, std::int64_t vocab) {
  const bool copy_each_node = deck.zero.copy_each_node;
  DeckContext here{.ranks = world.size(), .vocab = vocab};
  if (copy_each_node) here.ranks_of_node = placement_of(world).ranks_of_node;
  together(world, [&] { deck = resolve(std::move(deck), here); });
  if (copy_each_node) log_copy_each_node(deck, here.ranks_of_node);
  return deck;
}

Deck read_deck(const Communicator& world, const DeckArguments& a) {
  Deck deck;
  std::string text, name, vocab;
  at_root(world, [&] {
    deck = load_deck(a.path, a.overrides);
    vocab = std::to_string(vocabulary_of(deck.data, deck.model.vocab));
    text = dump_deck(deck);
    name = deck.name;
  });
  for (auto* of_root : {&text, &name, &vocab}) world.broadcast(*of_root);
  together(world, [&] {
    if (world.rank() == 0) return;
    deck = parse_deck(text, name);
    deck.name = name;
  });
  return resolve_here(std::move(deck), world, std::stoll(vocab));
}

}  // namespace trireme
