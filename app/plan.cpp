// trireme plan DECK, trireme check DECK
#include <optional>

#include "app/commands.hpp"
#include "app/output.hpp"
#include "app/run_support.hpp"
#include "lib/base/host_name.hpp"
#include "lib/base/log.hpp"
#include "lib/data/dataset.hpp"
#include "lib/train/state.hpp"

namespace trireme {

namespace {

struct PlanArguments {
  DeckArguments deck;
  std::int64_t ranks = 1;
  std::string device_memory;
  bool json = false;
};

Deck deck_to_plan(const std::string& path, const std::vector<std::string>& overrides,
                  std::int64_t ranks) {
  auto deck = fit_to_ranks(load_deck(path, overrides), ranks);
  return deck.model.vocab == 0 ? with_vocab(std::move(deck)) : deck;
}

constexpr std::size_t most_grids_named = 8;

struct GridThatFits {
  Grid grid;
  std::size_t reserved;
};

// Of all grids of that many ranks, those nearest to the asked one whose ranks reserve at most
// `limit`. `more` overrides the deck further.
std::vector<GridThatFits> grids_that_fit(const PlanArguments& a, const PlanInput& asked,
                                         const DryTarget& target, std::size_t limit,
                                         const std::vector<std::string>& more) {
  auto grids = legal_grids({}, a.ranks);
  nearest_first(grids, asked.grid);
  std::vector<GridThatFits> fitting;
  for (const auto& g : grids) {
    if (g == asked.grid && more.empty()) continue;
    auto overrides = a.deck.overrides;
    overrides.insert(overrides.end(), more.begin(), more.end());
    overrides.insert(
        overrides.end(),
        {fmt::format("parallel.pipe={}", g.pipe), "parallel.stage_layers=[]",
         fmt::format("parallel.data={}", g.data), fmt::format("parallel.seq={}", g.seq)});
    std::optional<Deck> deck;
    try {
      deck = deck_to_plan(a.deck.path, overrides, a.ranks);
    } catch (const Error&) {
      continue;  // the model or the batch does not fit this grid
    }
    if (const auto reserved = reserved_within(
            plan_input(*deck, deck->precision.compute, asked.transport), target, limit))
      fitting.push_back({g, *reserved});
    if (fitting.size() == most_grids_named) break;
  }
  return fitting;
}

void require_memory(const PlanArguments& a, const PlanInput& input, const Plan& plan,
                    const DryTarget& target) {
  std::size_t limit = 0;
  try {
    limit = static_cast<std::size_t>(parse_byte_count(a.device_memory));
  } catch (const Error& e) {
    fail("--device-memory: {}", e.what());
  }
  if (plan.most_reserved() <= limit) return;
  const auto named = [&](const std::vector<std::string>& more) {
    std::string lines;
    for (const auto& [grid, reserved] : grids_that_fit(a, input, target, limit, more))
      lines += fmt::format(
          "\n  parallel.pipe={} parallel.data={} parallel.seq={}{}{} reserves about {:.3f} GiB a "
          "rank",
          grid.pipe, grid.data, grid.seq, more.empty() ? "" : " ", fmt::join(more, " "),
          static_cast<double>(reserved) / (1 << 30));
    return lines;
  };
  std::string fitting;
  if (a.ranks > 1) fitting = named({});
  if (a.ranks > 1 && fitting.empty() && input.setup.zero.stage != 3)
    fitting = named({"zero.stage=3"});
  const auto others = fitting.empty()
                          ? fmt::format("no other grid of {} ranks fits: ", a.ranks)
                          : fmt::format("grids of {} ranks that fit:{}\nor ", a.ranks, fitting);
  fail(
      "a rank reserves {} bytes, more than --device-memory {}; {}lower train.microbatch or "
      "model.context, set model.recompute = \"block\"{}{}, or take more ranks",
      plan.most_reserved(), a.device_memory, a.ranks == 1 ? "" : others,
      input.setup.zero.stage == 3 ? "" : " or zero.stage = 3",
      target.properties.host_readable && input.snapshot == PlanSnapshot::included
          ? " or checkpoint.async = false"
          : "");
}

void require_ordered(const Plan& plan) {
  bool defect = false;
  for (const auto& r : plan.ranks)
    for (const auto& race : r.races) {
      log_error("defect on rank {}: {}", r.rank, race);
      defect = true;
    }
  require(!defect, "the step has accesses that nothing orders: please report this");
}

int plan(const PlanArguments& a) {
  const auto deck = deck_to_plan(a.deck.path, a.deck.overrides, a.ranks);
  const auto choice = backend_choice(deck, {});
  // Not limited by this machine's memory: the run is elsewhere.
  auto target = dry_target(choice);
  target.capacity = std::size_t{1} << 60;
  const auto input = plan_input(deck, deck.precision.compute, transport_of(deck, choice));
  const auto plan = make_plan(input, target);
  fmt::print("{}", a.json ? plan_json(plan, input, target) : plan_text(plan, input, target));
  flush_output();  // before errors
  require_ordered(plan);
  if (!a.device_memory.empty()) require_memory(a, input, plan, target);
  return 0;
}

struct CheckArguments {
  DeckArguments deck;
  std::int64_t ranks = 1;
  bool verify = false;
};

// Checks the deck, its files, and that the model of one rank fits this machine.
int check(const CheckArguments& a) {
  const auto deck = with_vocab(fit_to_ranks(load_deck(a.deck.path, a.deck.overrides), a.ranks));
  const auto training = training_data(deck.data, deck.model.context, deck.model.vocab,
                                      static_cast<std::uint64_t>(deck.train.seed));
  const auto validation = validation_data(deck.data, deck.model.context, deck.model.vocab);
  if (a.verify) {
    for (const auto& range : training.ranges()) range.file.verify();
    if (validation)
      for (const auto& range : validation->ranges()) range.file.verify();
  }
  const auto choice = backend_choice(deck, {});
  if (!deck.model.init_from.empty())
    require_model(CheckpointReader(find_checkpoint(deck.model.init_from)), make_spec(deck.model));
  const auto compute = usable_compute(choice, deck.precision.compute);
  auto target = dry_target(choice);
  const auto here = target.capacity;
  if (a.ranks > 1) target.capacity = std::size_t{1} << 60;  // they run elsewhere
  const auto plan = make_plan(plan_input(deck, compute, transport_of(deck, choice)), target);
  fmt::print("{} is sound: {:.2f}M parameters, {} samples an epoch, {} bytes reserved a rank\n",
             a.deck.path, static_cast<double>(plan.parameters) * 1e-6, training.samples_per_epoch(),
             plan.most_reserved());
  if (plan.most_reserved() > here)
    log_warning("{} has {:.2f} GiB of memory, less than one of these ranks reserves", host_name(),
                static_cast<double>(here) / (1 << 30));
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand("plan", "memory and work of a run, before it takes any");
  auto a = std::make_shared<PlanArguments>();
  add_deck_arguments(*command, a->deck);
  command->add_option("--ranks", a->ranks, "ranks of the run")->capture_default_str();
  command
      ->add_option("--device-memory", a->device_memory,
                   "fail when a rank reserves more than this, such as 80G")
      ->transform(with_environment());
  command->add_flag("--json", a->json, "as JSON");
  command->callback([&chosen, a] { chosen = [a] { return plan(*a); }; });
}

void add_check(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand("check", "find all that is wrong before running");
  auto a = std::make_shared<CheckArguments>();
  add_deck_arguments(*command, a->deck);
  command->add_option("--ranks", a->ranks, "ranks of the run")->capture_default_str();
  command->add_flag("--verify", a->verify, "read and hash all token files");
  command->callback([&chosen, a] { chosen = [a] { return check(*a); }; });
}

}  // namespace trireme
