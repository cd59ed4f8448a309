// trireme plan DECK, trireme check DECK
#include <nlohmann/json.hpp>
#include <optional>

#include "app/commands.hpp"
#include "app/output.hpp"
#include "app/run_support.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/host_name.hpp"
#include "lib/base/log.hpp"
#include "lib/base/sizes.hpp"
#include "lib/data/dataset.hpp"
#include "lib/deck/machine_file.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/posix_file.hpp"
#include "lib/predict/prediction.hpp"
#include "lib/predict/search.hpp"
#include "lib/train/state.hpp"

namespace trireme {

namespace {

struct PlanArguments {
  DeckArguments deck;
  std::int64_t ranks = 1;
  std::int64_t ranks_of_node = 0;  // 0: not given
  std::string device_memory;
  std::string machine, trace;
  bool json = false, search = false;
};

Prediction predict_run(const PlanArguments& a, const MachineModel& machine, const Deck& deck,
                       const PlanInput& input, const DryTarget& target, const Plan& plan) {
  const auto kinds = record_kinds(input, target, machine);
  const auto times = simulate(machine, kinds);
  double checkpoint = 0;
  for (const auto& r : plan.ranks) checkpoint = std::max(checkpoint, r.checkpoint_bytes);
  const RunInput run{total_steps(deck.train, deck.model.context), deck.checkpoint,
                     deck.precision.tf32};
  if (!a.trace.empty()) replace_atomically(a.trace, prediction_trace(kinds, times));
  return predict(input, run, machine, times, checkpoint);
}

// A plan is made for the machine of the file, whatever is here.
std::optional<MachineModel> machine_of(const PlanArguments& a, Deck& deck) {
  if (a.machine.empty()) return std::nullopt;
  auto machine = load_machine(a.machine);
  auto& backend = deck.run.backend;
  require(backend == "auto" || backend == machine.backend,
          "run.backend = \"{}\", and {} is of a machine for \"{}\"", backend, a.machine,
          machine.backend);
  backend = machine.backend;
  if (backend == "host" && deck.run.threads > 0 && deck.run.threads != machine.threads)
    log_warning("run.threads = {}, and {} is of ranks of {}", deck.run.threads, a.machine,
                machine.threads);
  if (machine.measured && a.ranks < machine.ranks_of_node)
    log_warning("{} is of {} ranks on a node at once: {} may be faster", a.machine,
                machine.ranks_of_node, a.ranks == 1 ? "one alone" : "fewer");
  require(
      !machine.measured || a.ranks <= machine.ranks_of_node || machine.far.bandwidth,
      "{} is of {} on a node, and {} are planned: calibrate with `mpiexec -n {}` if they are on "
      "one node; between nodes, add [far], what their network does",
      a.machine, counted(machine.ranks_of_node, "rank"), a.ranks, a.ranks);
  if (backend == "cuda" && deck.precision.compute == DType::f32 && deck.precision.tf32)
    log_warning("{} has no rates of products in tf32: those of f32 are taken, which are slower",
                a.machine);
  require(a.ranks_of_node == 0 || a.ranks_of_node == machine.ranks_of_node,
          "--ranks-per-node {}, and {} is of a machine with {} on a node", a.ranks_of_node,
          a.machine, counted(machine.ranks_of_node, "rank"));
  require(backend == "host" || a.ranks == 1 || !deck.run.share_gpu,
          "ranks that share a GPU send messages through the host, whose times are not predicted: "
          "set run.share_gpu = false");
  return machine;
}

// `ranks_of_node` 0: not known, which zero.shard = "node" does not allow.
Deck on_nodes(Deck deck, std::int64_t ranks_of_node) {
  if (deck.zero.shard != shard_of_node) return deck;
  const std::int64_t ranks = grid_of(deck).ranks();
  require(
      ranks_of_node > 0,
      "zero.shard = \"node\" depends on how many ranks a node runs: give --ranks-per-node or, to "
      "plan, --machine");
  require(ranks < ranks_of_node || ranks % ranks_of_node == 0,
          "zero.shard = \"node\" needs as many ranks on each node: {} are no multiple of {}", ranks,
          ranks_of_node);
  return with_shards_on_nodes(std::move(deck), ranks_of_node);
}

Deck deck_to_plan(const std::string& path, const std::vector<std::string>& overrides,
                  std::int64_t ranks) {
  auto deck = fit_to_ranks(load_deck(path, overrides), ranks);
  return deck.model.vocab == 0 ? with_vocab(std::move(deck)) : deck;
}

PlanInput input_on_nodes(const PlanArguments& a, Deck deck, TransportKind transport) {
  deck = on_nodes(std::move(deck), a.ranks_of_node);
  auto input = plan_input(deck, deck.precision.compute, transport);
  input.ranks_of_node = static_cast<int>(a.ranks_of_node);
  return input;
}

constexpr std::size_t most_named = 8;

struct Fit {
  std::vector<std::string> overrides;
  std::size_t needed;
};

// Sharding from what is asked to what takes least memory: weights gathered for a step take more
// than for a microbatch.
std::vector<std::vector<std::string>> zero_settings(const ZeroConfig& asked, std::int64_t ranks) {
  std::vector<std::vector<std::string>> all = {{}};
  if (ranks == 1) return all;
  for (auto stage = asked.stage + 1; stage < 3; ++stage)
    all.push_back({fmt::format("zero.stage={}", stage)});
  const bool gathered_often = asked.stage == 3 && asked.gather == ZeroCadence::microbatch;
  const bool reduced_often = asked.stage == 3 && asked.reduce == ZeroCadence::microbatch;
  if (asked.stage < 3) all.push_back({"zero.stage=3", "zero.gather=step", "zero.reduce=step"});
  if (!gathered_often && !reduced_often)
    all.push_back({"zero.stage=3", "zero.gather=microbatch", "zero.reduce=step"});
  if (!gathered_often || !reduced_often)
    all.push_back({"zero.stage=3", "zero.gather=microbatch", "zero.reduce=microbatch"});
  return all;
}

// Of all grids of that many ranks, those nearest to the asked one whose ranks reserve at most
// `limit`, each with the first setting of `zero` that does.
std::vector<Fit> what_fits(const PlanArguments& a, const PlanInput& asked, const DryTarget& target,
                           std::size_t limit) {
  auto grids = legal_grids({}, a.ranks);
  nearest_first(grids, asked.grid);
  std::vector<Fit> fitting;
  for (const auto& g : grids) {
    for (const auto& zero : zero_settings(asked.setup.zero, a.ranks)) {
      if (g == asked.grid && zero.empty()) continue;
      Fit fit{{fmt::format("parallel.pipe={}", g.pipe), fmt::format("parallel.data={}", g.data),
               fmt::format("parallel.seq={}", g.seq)},
              0};
      fit.overrides.insert(fit.overrides.end(), zero.begin(), zero.end());
      auto overrides = a.deck.overrides;
      overrides.emplace_back("parallel.stage_layers=[]");
      overrides.insert(overrides.end(), fit.overrides.begin(), fit.overrides.end());
      try {
        const auto deck = deck_to_plan(a.deck.path, overrides, a.ranks);
        const auto needed = needed_within(input_on_nodes(a, deck, asked.transport), target, limit);
        if (!needed) continue;
        fit.needed = *needed;
      } catch (const Error&) {
        break;  // the model or the batch does not fit this grid
      }
      fitting.push_back(std::move(fit));
      break;
    }
    if (fitting.size() == most_named) break;
  }
  return fitting;
}

// A line for each: what to set, and what it costs in memory, idle time and traffic.
std::string fits_text(const PlanArguments& a, const PlanInput& asked, DryTarget target,
                      const std::vector<Fit>& fitting) {
  target.order = false;
  std::size_t widest = 0;
  for (const auto& f : fitting)
    widest = std::max(widest, fmt::format("{}", fmt::join(f.overrides, " ")).size());
  std::string text =
      fmt::format("\n  {:<{}} {:>10} {:>7} {:>12}", "", widest, "needed", "bubble", "sends a step");
  for (const auto& f : fitting) {
    auto overrides = a.deck.overrides;
    overrides.emplace_back("parallel.stage_layers=[]");
    overrides.insert(overrides.end(), f.overrides.begin(), f.overrides.end());
    const auto deck = deck_to_plan(a.deck.path, overrides, a.ranks);
    const auto plan = make_plan(input_on_nodes(a, deck, asked.transport), target);
    double sent = 0;
    for (const auto& r : plan.ranks)
      sent = std::max(sent, static_cast<double>(r.step_traffic.shard + r.step_traffic.seq +
                                                r.step_traffic.pipe));
    text += fmt::format("\n  {:<{}} {:>10} {:>6.1f}% {:>12}",
                        fmt::format("{}", fmt::join(f.overrides, " ")), widest,
                        memory_text(static_cast<double>(f.needed)), 100 * bubble(plan.timeline),
                        traffic_text(sent));
  }
  return text;
}

std::optional<std::size_t> device_memory(const PlanArguments& a) {
  if (a.device_memory.empty()) return {};
  try {
    return static_cast<std::size_t>(parse_byte_count(a.device_memory));
  } catch (const Error& e) {
    fail("--device-memory: {}", e.what());
  }
}

void require_memory(const PlanArguments& a, std::size_t limit, const PlanInput& input,
                    const Plan& plan, const DryTarget& target) {
  if (plan.most_needed() <= limit) return;
  std::string others;
  if (a.ranks > 1) {
    const auto fitting = what_fits(a, input, target, limit);
    others = fitting.empty()
                 ? fmt::format("no other grid of {} ranks fits, at any zero.stage: ", a.ranks)
                 : fmt::format("on {} ranks these fit:{}\nor ", a.ranks,
                               fits_text(a, input, target, fitting));
  }
  fail(
      "a rank needs {} ({} bytes), more than --device-memory {}; {}lower train.microbatch or "
      "model.context, set model.recompute = \"block\"{}, or take more ranks",
      memory_text(static_cast<double>(plan.most_needed())), plan.most_needed(), a.device_memory,
      others,
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

// The fastest ways to run the deck, whose own grid and settings do not matter.
int search_plans(const PlanArguments& a, std::optional<std::size_t> limit) {
  require(a.ranks >= 1 && a.ranks <= std::int64_t{1} << 30,
          "--ranks {} is not a number of ranks from 1 to 2^30", a.ranks);
  const auto loaded = load_deck(a.deck.path, a.deck.overrides);
  auto deck = on_one_rank(loaded);
  deck.zero.prefetch = loaded.zero.prefetch;
  deck.zero.scatters = loaded.zero.scatters;
  if (deck.model.vocab == 0) deck = with_vocab(std::move(deck));
  const auto machine = machine_of(a, deck);
  const auto choice = backend_choice(deck, {});
  warn_of_slow_products(choice, deck.precision.compute);
  auto target = dry_target(choice);
  target.capacity = std::size_t{1} << 60;
  const auto memory = limit ? static_cast<double>(*limit) : machine->memory_bytes;
  const auto input =
      plan_input(deck, deck.precision.compute,
                 machine->backend == "cuda" ? TransportKind::device : TransportKind::host);
  const auto found = search(input, target, *machine, a.ranks, memory);
  require(found.choices > 0,
          "no grid of {} ranks divides {} layers, {} heads, {} tokens and a batch of {}: take "
          "another number of ranks",
          a.ranks, deck.model.layers, deck.model.heads, deck.model.context, deck.train.batch);
  fmt::print("{}", search_text(found, memory));
  std::string also;
  if (!loaded.parallel.stage_layers.empty()) also += " parallel.stage_layers=[]";
  if (loaded.zero.shard != 0) also += " zero.shard=0";
  if (!also.empty()) fmt::print("the deck has other settings than all of these: add{}\n", also);
  const bool flat =
      std::ranges::any_of(found.best, [](const Trial& t) { return t.choice.grid.pipe == 1; });
  if (flat && loaded.parallel.schedule != ScheduleKind::one_f_one_b)
    fmt::print("and to those on one stage: parallel.schedule=1f1b parallel.chunks=1\n");
  flush_output();  // before an error
  require(!found.best.empty(),
          "none of these fits: take more ranks, or a machine with more memory");
  return 0;
}

int plan(PlanArguments a) {
  const auto limit = device_memory(a);
  if (a.search) return search_plans(a, limit);
  auto deck = deck_to_plan(a.deck.path, a.deck.overrides, a.ranks);
  const auto machine = machine_of(a, deck);
  if (machine) a.ranks_of_node = machine->ranks_of_node;
  if (deck.zero.shard == shard_of_node && a.ranks_of_node > 0)
    tell_shards_on_nodes(deck, a.ranks_of_node);
  const auto choice = backend_choice(deck, {});
  warn_of_slow_products(choice, deck.precision.compute);
  // Not limited by this machine's memory: the run is elsewhere.
  auto target = dry_target(choice);
  target.capacity = std::size_t{1} << 60;
  const auto input = input_on_nodes(
      a, deck,
      machine && machine->backend == "cuda" ? TransportKind::device : transport_of(deck, choice));
  const auto plan = make_plan(input, target);
  std::optional<Prediction> predicted;
  if (machine) predicted = predict_run(a, *machine, deck, input, target, plan);
  if (a.json) {
    auto json = nlohmann::ordered_json::parse(plan_json(plan, input, target));
    if (predicted) json["predicted"] = prediction_json(*predicted, *machine);
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}{}", plan_text(plan, input, target),
               predicted ? prediction_text(*predicted, *machine) : "");
  }
  flush_output();  // before errors
  require_ordered(plan);
  if (limit) require_memory(a, *limit, input, plan, target);
  return 0;
}

struct CheckArguments {
  DeckArguments deck;
  std::int64_t ranks = 1;
  std::int64_t ranks_of_node = 0;  // 0: not given
  bool verify = false;
};

// Reads all of the files.
void verify(const std::vector<TokenRange>& ranges) {
  for (const auto& range : ranges)
    if (range.file.verify() == Verified::ids_only)
      fmt::print("{} has no hash: its ids are in the vocabulary, and no more can be said of them\n",
                 range.file.path().string());
}

// Checks the deck, its files, and that the model of one rank fits this machine.
int check(const CheckArguments& a) {
  const auto deck = on_nodes(
      with_vocab(fit_to_ranks(load_deck(a.deck.path, a.deck.overrides), a.ranks)), a.ranks_of_node);
  const auto training = training_data(deck.data, deck.model.context, deck.model.vocab,
                                      static_cast<std::uint64_t>(deck.train.seed));
  const auto validation = validation_data(deck.data, deck.model.context, deck.model.vocab);
  if (a.verify) {
    verify(training.ranges());
    if (validation) verify(validation->ranges());
  }
  if (!deck.run.machine.empty()) static_cast<void>(load_machine(deck.run.machine));
  const auto choice = backend_choice(deck, {});
  if (const auto& model = deck.model.init_from; !model.empty()) {
    const CheckpointReader reader(find_checkpoint(model));
    require_model(reader, make_spec(deck.model));
    require_tokens_of(reader.meta(), model, training.tokenizer());
  }
  const auto compute = usable_compute(choice, deck.precision.compute);
  warn_of_slow_products(choice, compute);
  auto target = dry_target(choice);
  const auto here = target.capacity;
  if (a.ranks > 1) target.capacity = std::size_t{1} << 60;  // they run elsewhere
  const auto plan = make_plan(plan_input(deck, compute, transport_of(deck, choice)), target);
  fmt::print("{} is sound: {:.2f}M parameters, {} samples an epoch, {} reserved a rank\n",
             a.deck.path, static_cast<double>(plan.parameters) * 1e-6, training.samples_per_epoch(),
             memory_text(static_cast<double>(plan.most_reserved())));
  if (plan.most_reserved() > here)
    log_warning("{} has {:.2f} GiB of memory, less than one of these ranks reserves", host_name(),
                static_cast<double>(here) / (1 << 30));
  return 0;
}

void add_ranks_of_node(CLI::App& command, std::int64_t& ranks) {
  command
      .add_option("--ranks-per-node", ranks,
                  "consecutive ranks that each node runs: zero.shard = \"node\" needs them, and "
                  "plan says what is sent to other nodes")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
}

}  // namespace

void add_plan(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand("plan", "memory, work and time of a run, before it takes any");
  auto a = std::make_shared<PlanArguments>();
  add_deck_arguments(*command, a->deck);
  command->add_option("--ranks", a->ranks, "ranks of the run")->capture_default_str();
  add_ranks_of_node(*command, a->ranks_of_node);
  command
      ->add_option("--device-memory", a->device_memory,
                   "fail when a rank needs more than this, such as 80G, 80GiB or 40GB")
      ->transform(with_environment());
  auto* machine =
      command->add_option("--machine", a->machine, "predict times on the machine of this file")
          ->transform(with_environment());
  auto* trace = command->add_option("--trace", a->trace,
                                    "write the predicted step there, as run.trace_steps does");
  trace->needs(machine)->transform(with_environment());
  auto* json = command->add_flag("--json", a->json, "as JSON");
  command
      ->add_flag("--search", a->search,
                 "the fastest grids and settings of that many ranks that fit --device-memory, or "
                 "the machine's")
      ->needs(machine)
      ->excludes(json)
      ->excludes(trace);
  command->callback([&chosen, a] { chosen = [a] { return plan(*a); }; });
}

void add_check(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand("check", "find all that is wrong before running");
  auto a = std::make_shared<CheckArguments>();
  add_deck_arguments(*command, a->deck);
  command->add_option("--ranks", a->ranks, "ranks of the run")->capture_default_str();
  add_ranks_of_node(*command, a->ranks_of_node);
  command->add_flag("--verify", a->verify, "read and hash all token files");
  command->callback([&chosen, a] { chosen = [a] { return check(*a); }; });
}

}  // namespace trireme
