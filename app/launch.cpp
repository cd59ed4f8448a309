#include "app/launch.hpp"

#include <algorithm>

#include "app/node_shards.hpp"
#include "lib/base/hash.hpp"
#include "lib/base/log.hpp"
#include "lib/base/told.hpp"
#include "lib/comm/agree.hpp"
#include "lib/deck/value.hpp"
#include "lib/launch/mpi_job.hpp"

namespace trireme {

void require_launch(const Communicator& world) {
  const int launched = launch::launched_ranks();
  require(launched == 0 || launched == world.size(),
          "the launcher started {} ranks, but MPI sees a world of {}: they would all write one run "
          "directory. Use the launcher of the MPI that trireme was built with (srun --mpi=pmi2, or "
          "its mpiexec)",
          launched, world.size());
}

void require_same_arguments(const Communicator& world, const std::string& mine) {
  const auto all = world.all_gather(to_string(hash128(mine)));
  const auto other = std::ranges::find_if(all, [&](const auto& h) { return h != all[0]; });
  if (other != all.end())
    throw SharedError(fmt::format(
        "rank {} was started with different arguments from rank 0: start all ranks with "
        "one command line",
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

int on_all_ranks(const std::string& arguments,
                 const std::function<int(const Communicator&)>& work) {
  if (launch::launched_ranks() < 2) return work(Communicator());
  const launch::MpiJob job(RunConfig{}.hang_timeout);
  const auto& world = job.world();
  try {
    require_launch(world);
    if (world.rank() != 0) log_quietly();
    require_same_arguments(world, arguments);
    return work(world);
  } catch (const SharedError& e) {  // every rank is here
    if (world.rank() == 0) log_error("{}", e.what());
    return 1;
  } catch (const std::exception& e) {
    log_error("rank {}: {}", world.rank(), told(e));
    job.abort(1);
  }
}

Deck read_deck(const Communicator& world, const DeckArguments& a) {
  Deck deck;
  std::string text, name;
  at_root(world, [&] {
    deck = with_vocab(fit_to_ranks(load_deck(a.path, a.overrides), world.size()));
    text = dump_deck(deck);
    name = deck.name;
  });
  if (world.size() == 1) return with_shard_number_here(std::move(deck), world);
  world.broadcast(text);
  world.broadcast(name);
  together(world, [&] {
    if (world.rank() == 0) return;
    deck = parse_deck(text, name);
    deck.name = name;
  });
  return with_shard_number_here(std::move(deck), world);
}

}  // namespace trireme
