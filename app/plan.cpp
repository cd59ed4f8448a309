// The `trireme plan DECK` command.
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "app/commands.hpp"
#include "app/fitting_grids.hpp"
#include "app/launch.hpp"
#include "app/output.hpp"
#include "app/planned_documents.hpp"
#include "app/settings_warnings.hpp"
#include "app/training_input.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/log.hpp"
#include "lib/base/sizes.hpp"
#include "lib/comm/agree.hpp"
#include "lib/data/deck_data.hpp"
#include "lib/deck/resolve.hpp"
#include "lib/keys/quantity.hpp"
#include "lib/predict/machine_file.hpp"
#include "lib/predict/prediction.hpp"
#include "lib/predict/search_text.hpp"
#include "lib/run/schedule.hpp"
#include "lib/train/batch_ramp.hpp"

namespace trireme {

namespace {

struct PlanArguments {
  PlannedRun run;
  std::string device_memory;
  std::string machine, trace;
  ExistingFile existing = ExistingFile::stays;  // what to do if the file `trace` exists
  bool json = false, search = false;
  std::int64_t generate = 0;  // texts at a time
};

// Replaces train.epochs, whose length only the token files tell.
Deck with_length(Deck deck) {
  if (deck.train.epochs == 0) return deck;
  const auto samples = training_data_of(deck).samples_per_epoch();
  return with_tokens_for_epochs(std::move(deck), samples);
}

// Returns the documents in the training samples, without their lengths if these have no effect on
// the predicted time.
DocumentLengths timed_documents(const Deck& deck, const PlanInput& input,
                                const MachineModel& machine) {
  auto documents = planned_documents(deck);
  if (!times_documents(machine, input.setup.compute, input.setup.model.head_dim))
    documents.lengths.clear();
  return documents;
}

// Returns the numbers of completed steps at which decays of the learning rate end, before the end
// of a run of `steps` steps.
std::vector<std::int64_t> decay_ends_before(const Deck& deck, std::int64_t steps) {
  auto ends = steps_of_decay_ends(deck.schedule, {deck.train, deck.data.context});
  std::erase_if(ends, [&](std::int64_t end) { return end >= steps; });
  // Several ends in tokens may be in one step.
  ends.erase(std::ranges::unique(ends).begin(), ends.end());
  return ends;
}

Prediction predict_run(const PlanArguments& a, const MachineModel& machine, const Deck& deck,
                       const PlanInput& input, const DryTarget& target, const Plan& plan) {
  const auto kinds = record_kinds(input, target, machine);
  const auto times = simulate(machine, kinds);
  SavedBytes saved;
  for (const auto& r : plan.ranks)
    saved = {std::max(saved.all, r.checkpoint_bytes), std::max(saved.changing, r.changing_bytes)};
  const auto steps = total_steps(deck.train, deck.data.context);
  const RunInput run{steps, saved_by_ramp(input, target, machine, steps, times.seconds),
                     decay_ends_before(deck, steps), deck.checkpoint, deck.precision.tf32};
  if (!a.trace.empty()) {
    write_output(a.trace, trace_file, a.existing, prediction_trace(kinds, times));
  }
  auto predicted = predict(input, run, machine, times, saved);
  predicted.operations = operation_seconds(machine, kinds);
  if (a.generate > 0) predicted.generation = predict_generation(input, target, machine, a.generate);
  return predicted;
}

std::optional<MachineModel> machine_of(const PlanArguments& a) {
  if (a.machine.empty()) return std::nullopt;
  auto machine = load_machine(a.machine);
  require(a.run.ranks_of_node == 0 || a.run.ranks_of_node == machine.ranks_of_node,
          "--ranks-per-node {}, but {} describes a machine with {} per node. Leave out "
          "--ranks-per-node, or use another machine file",
          a.run.ranks_of_node, a.machine, counted(machine.ranks_of_node, "rank"));
  return machine;
}

// Returns the deck with the backend of the machine file. This machine may have another backend.
Deck on(const MachineModel& machine, const PlanArguments& a, Deck deck) {
  auto& backend = deck.run.backend;
  require(backend == "auto" || backend == machine.backend,
          "run.backend = \"{}\", but {} describes a machine for \"{}\". Set run.backend = "
          "\"auto\", or use another machine file",
          backend, a.machine, machine.backend);
  backend = machine.backend;
  if (backend == "host" && deck.run.threads > 0 && deck.run.threads != machine.threads)
    log_warning("run.threads = {}, but the times in {} are for {} per rank", deck.run.threads,
                a.machine, counted(machine.threads, "thread"));
  if (machine.measured && a.run.ranks < machine.ranks_of_node)
    log_warning("{} was measured with {} ranks on each node: {} may be faster than predicted",
                a.machine, machine.ranks_of_node,
                a.run.ranks == 1 ? "one rank alone" : "fewer ranks");
  require(!machine.measured || a.run.ranks <= machine.ranks_of_node || machine.far.bandwidth,
          "{} describes {} on one node, but {} ranks are planned. If all of them run on one node, "
          "measure with `mpiexec -n {} trireme calibrate`; if not, add the network between nodes "
          "to the file as [far]",
          a.machine, counted(machine.ranks_of_node, "rank"), a.run.ranks, a.run.ranks);
  if (backend == "cuda" && deck.precision.compute == DType::f32 && deck.precision.tf32)
    log_warning(
        "{} has no rates for matrix products in tf32, so this plan uses the slower rates of f32",
        a.machine);
  require(backend == "host" || a.run.ranks == 1 || !deck.run.share_gpu,
          "ranks that share a GPU send messages through the host, and trireme cannot predict how "
          "long these take. Set run.share_gpu = false");
  return deck;
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
  if (a.run.ranks > 1) {
    log_info("--device-memory {} is too little for this grid: trying other grids of {} ranks",
             a.device_memory, a.run.ranks);
    const auto fitting = grids_that_fit(a.run, input, target, limit);
    others = fitting.empty()
                 ? fmt::format("No other grid of {} ranks fits, with any zero.stage. ", a.run.ranks)
                 : fmt::format("These settings fit on {} ranks:{}\n", a.run.ranks,
                               fitting_text(a.run, input, target, fitting));
  }
  fail(
      "a rank needs {} ({} bytes), more than --device-memory {}. {}To reduce this, lower "
      "train.microbatch or model.context, set model.recompute = \"block\"{}, or use more ranks",
      memory_text(static_cast<double>(plan.most_needed())), plan.most_needed(), a.device_memory,
      others,
      !target.properties.host_readable || input.snapshot == PlanSnapshot::left_out ? ""
      : input.copies == PlanCopies::included
          ? " or checkpoint.async = false and checkpoint.memory_every = 0"
          : " or checkpoint.async = false");
}

void require_ordered(const Plan& plan) {
  bool defect = false;
  for (const auto& r : plan.ranks)
    for (const auto& race : r.races) {
      log_error("defect on rank {}: {}", r.rank, race);
      defect = true;
    }
  require(!defect,
          "the step has memory accesses without a defined order. This is a defect in trireme: "
          "please report it");
}

// Prints the fastest grids and settings for the deck. The deck's own grid and settings do not
// matter.
void search_plans(const PlanArguments& a, std::optional<std::size_t> limit) {
  const auto loaded = load_deck(a.run.deck.path, a.run.deck.overrides);
  require(traits_of(loaded.train.objective).fixed != FixedModel::teacher,
          "--search does not support train.objective = \"{}\", which also runs a teacher. Search "
          "with train.objective=tokens, then plan the settings that it finds with the teacher",
          name_of(loaded.train.objective));
  const auto machine = machine_of(a);
  const auto deck = on(*machine, a, to_search(loaded, planned_vocabulary(loaded)));
  const auto choice = backend_choice(deck, {});
  warn_of_slow_products(choice, deck.precision.compute);
  auto target = dry_target(choice);
  target.capacity = std::size_t{1} << 60;
  const auto memory = limit ? static_cast<double>(*limit) : machine->memory_bytes;
  auto input =
      plan_input_of(deck, deck.precision.compute,
                    machine->backend == "cuda" ? TransportKind::device : TransportKind::host, {},
                    document_weights(deck.data));
  input.documents = timed_documents(deck, input, *machine);
  const auto found = search(input, target, *machine, a.run.ranks, memory);
  require(found.choices > 0,
          "no grid of {} ranks divides {} layers, {} heads, {} tokens{} and a batch of {}: use "
          "another number of ranks",
          a.run.ranks, deck.model.layers, deck.model.heads, deck.data.context,
          input.setup.exact_chunk > 0
              ? fmt::format(" in chunks of {} (run.exact_chunk)", input.setup.exact_chunk)
              : "",
          fmt::join(batches_of(deck.train), ", "));
  say("{}", search_text(found, memory, set_by(loaded)));
  flush_output();  // prints the table before an error
  require(!found.best.empty(),
          "none of these settings fits: use more ranks, or a machine with more memory");
}

void plan(PlanArguments a) {
  if (!a.trace.empty()) require_output(a.trace, trace_file, a.existing);
  const auto limit = device_memory(a);
  if (a.search) return search_plans(a, limit);
  const auto asked = load_deck(a.run.deck.path, a.run.deck.overrides);
  const auto machine = machine_of(a);
  if (machine) a.run.ranks_of_node = machine->ranks_of_node;
  const auto resolved = with_length(a.run.resolved(asked));
  const auto deck = machine ? on(*machine, a, resolved) : resolved;
  if (asked.zero.copy_each_node) log_copy_each_node(deck, a.run.ranks_of_node);
  const auto choice = backend_choice(deck, {});
  warn_of_slow_products(choice, deck.precision.compute);
  if (limit && !machine && deck.run.backend == "auto" && choice.name == "host")
    log_warning(
        "this plan is for the host backend, because this machine has no GPU. To plan for GPUs, add "
        "run.backend=cuda; --device-memory is then the memory of one GPU");
  warn_of_settings(deck, {}, nullptr);
  // The run will be elsewhere, so this machine's memory is no limit.
  auto target = dry_target(choice);
  target.capacity = std::size_t{1} << 60;
  auto input =
      a.run.input(deck, machine && machine->backend == "cuda" ? TransportKind::device
                                                              : transport_of(deck, choice));
  if (machine) input.documents = timed_documents(deck, input, *machine);
  const auto plan = make_plan(input, target);
  std::optional<Prediction> predicted;
  if (machine) predicted = predict_run(a, *machine, deck, input, target, plan);
  if (a.json) {
    auto json = nlohmann::ordered_json::parse(plan_json(plan, input, target));
    if (predicted) json["predicted"] = prediction_json(*predicted, *machine);
    fmt::print("{}\n", json.dump(2));  // not with say(): JSON has its own escapes
  } else {
    say("{}{}", plan_text(plan, input, target),
        predicted ? prediction_text(*predicted, *machine) : "");
  }
  flush_output();  // prints the plan before errors
  require_ordered(plan);
  if (limit) require_memory(a, *limit, input, plan, target);
}

}  // namespace

void add_plan(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand(
      "plan", "Predict the memory, communication and time of a run without running it");
  auto a = std::make_shared<PlanArguments>();
  add_deck_arguments(*command, a->run.deck);
  add_ranks(*command, a->run.ranks);
  add_ranks_of_node(*command, a->run.ranks_of_node);
  command
      ->add_option("--device-memory", a->device_memory,
                   "Fail if a rank needs more memory than this, such as 80G, 80GiB or 40GB")
      ->transform(with_environment());
  auto* machine =
      command
          ->add_option("--machine", a->machine,
                       "Predict times for the machine in this file (see trireme calibrate)")
          ->transform(with_environment());
  auto* trace =
      command->add_option("--trace", a->trace,
                          "Write a timeline of the predicted step to this file, as a Chrome trace");
  trace->needs(machine)->transform(file_named)->transform(with_environment());
  add_overwrite(*command, a->existing)->needs(trace);
  auto* generate =
      command
          ->add_option("--generate", a->generate,
                       "Also predict the time to generate this many texts at a time, with prompts "
                       "that fill the context")
          ->check(CLI::Range(1, 1024))
          ->needs(machine);
  auto* json = command->add_flag("--json", a->json, "Print JSON instead of text");
  command
      ->add_flag("--search", a->search,
                 "Find the fastest grids and settings for --ranks that fit in --device-memory "
                 "(default: the memory size in the machine file)")
      ->needs(machine)
      ->excludes(json)
      ->excludes(trace)
      ->excludes(generate);
  command->callback([&chosen, a] {
    chosen = [a] {
      return on_all_ranks("plan", [&](const Communicator& world) {
        if (a->run.ranks == 0) a->run.ranks = world.size();
        at_root(world, Pace::slow, [&] { plan(*a); });
        return 0;
      });
    };
  });
}

}  // namespace trireme
