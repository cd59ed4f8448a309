#include "app/run_support.hpp"

#include <algorithm>
#include <string>

#include "lib/base/counted.hpp"
#include "lib/base/log.hpp"
#include "lib/comm/agree.hpp"
#include "lib/data/deck_data.hpp"
#include "lib/io/scores_file.hpp"
#include "lib/keys/value.hpp"
#include "lib/launch/devices.hpp"
#include "lib/launch/threads.hpp"

namespace trireme {

CLI::Validator with_environment() {
  return {[](std::string& text) {
            try {
              text = expand_environment(text);
              return std::string();
            } catch (const Error& e) {
              return std::string(e.what());
            }
          },
          ""};
}

void add_deck_arguments(CLI::App& command, DeckArguments& a) {
  command.add_option("deck", a.path, "Deck: TOML file that describes the run (see trireme deck)")
      ->required()
      ->transform(with_environment());
  command.add_option("overrides", a.overrides,
                     "Values that replace those in the deck, as section.key=value, such as "
                     "train.steps=100");
}

void add_ranks(CLI::App& command, std::int64_t& ranks) {
  command
      .add_option(
          "--ranks", ranks,
          "Number of MPI ranks of the run (default: those that mpiexec or srun started, or 1)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30));
}

void add_ranks_of_node(CLI::App& command, std::int64_t& ranks_of_node) {
  command
      .add_option("--ranks-per-node", ranks_of_node,
                  "Number of ranks on each node, numbered consecutively. Needed for zero.shard = "
                  "\"node\", and for plan to report traffic between nodes")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
}

std::int64_t planned_vocabulary(const Deck& deck) {
  auto here = deck.data;
  const auto keep_present = [](std::vector<std::string>& files) {
    std::erase_if(files, [](const std::string& path) {
      std::error_code unknown;
      return !std::filesystem::exists(path, unknown);
    });
  };
  if (deck.model.vocab > 0) {
    keep_present(here.path);
    keep_present(here.validation_files);
    for (auto& set : here.sets) keep_present(set.path);
  }
  return vocabulary_of(here, deck.model.vocab);
}

void log_copy_each_node(const Deck& resolved, std::int64_t ranks_of_node) {
  if (resolved.zero.shard == 1)
    log_warning(
        "zero.shard = \"node\": with {} per node and {} per pipeline stage, no two ranks can share "
        "a copy within a node, so nothing is sharded",
        counted(ranks_of_node, "rank"), counted(grid_of(resolved).places(), "rank"));
  else
    log_info("zero.shard = \"node\": {} share each copy of the sharded state",
             counted(resolved.zero.shard, "rank"));
}

void warn_of_threads(const BackendChoice& choice, int processors) {
  if (choice.name == "cuda" || choice.threads <= processors) return;
  log_warning(
      "a rank computes with {} threads but may use only {} of this node, which is slow; lower "
      "run.threads (or OMP_NUM_THREADS, SLURM_CPUS_PER_TASK), or start fewer ranks on a node",
      choice.threads, counted(processors, "processor"));
}

void require_objective(const Deck& deck, const Dataset& data) {
  const auto wanted = traits_of(deck.train.objective).samples, found = data.kind();
  const auto name = data.ranges()[0].file.path().string();
  require(
      found == wanted || found == Documents::single,
      "{} contains {}, which train.objective = \"{}\" cannot train on: set train.objective = {}",
      name, names_of(found).many, name_of(deck.train.objective), objectives_for(found));
  require(found == wanted,
          "train.objective = \"{}\" needs {}, but {} contains none. Create them with `trireme "
          "tokenize {}`",
          name_of(deck.train.objective), names_of(wanted).many, name, names_of(wanted).option);
}

ReferenceLosses scores_of(const Deck& deck) {
  try {
    return read_scores(deck.train.dpo_scores);
  } catch (const Error& e) {
    fail("train.dpo_scores: {}", e.what());
  }
}

Dataset with_scores(const Deck& deck, Dataset data) {
  if (deck.train.dpo_scores.empty() || data.kind() == Documents::single) return data;
  return data.with_reference(scores_of(deck));
}

static double percent(std::int64_t part, std::int64_t of) {
  return 100 * static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, of));
}

static const char* what_becomes_of(LongDocuments l) {
  return l == LongDocuments::split  ? "are split into several"
         : l == LongDocuments::drop ? "are left out"
                                    : "are cut";
}

void log_packing(const Dataset& data, const std::string& set) {
  for (std::size_t i = 0; i < data.ranges().size(); ++i) {
    const auto* const p = data.packed(i);
    if (!p) continue;
    const auto file =
        data.ranges()[i].file.path().string() + (set.empty() ? "" : fmt::format(" ({})", set));
    const auto one = names_of(data.kind()).one;
    log_info("{}: {} packed into {} ({:.1f}% full)", file,
             counted(p->pairs > 0 ? p->in_samples() / 2 : p->in_samples(), one),
             counted(p->samples, "sample"), percent(p->inputs, p->samples * data.sample_length()));
    if (p->pairs > 0) {
      if (p->long_pairs + p->left_out > 0)
        log_warning(
            "{}: of {}, {} longer than a sample{} and {} with a document without a target are left "
            "out (`trireme inspect` shows the lengths)",
            file, counted(p->pairs, one), p->long_pairs,
            data.kind() == Documents::labeled ? " together with the mismatched answer" : "",
            p->left_out / 2);
      continue;
    }
    if (p->long_documents + p->left_out == 0) continue;
    log_warning(
        "{}: of {}, {} longer than a sample {}, which loses {:.1f}% of the targets; {} "
        "without a target are left out (`trireme inspect` shows their lengths)",
        file, counted(p->documents, "document"), p->long_documents,
        what_becomes_of(data.long_documents()), percent(p->targets_lost, p->targets), p->left_out);
  }
}

// Returns the word for the documents of a token file.
static const char* word_for_documents(const TokenFileHeader& header) {
  return header.chat_bytes > 0 ? "conversation" : "document";
}

void suggest_packing(const Dataset& data) {
  if (data.packed(0)) return;
  for (const auto& range : data.ranges()) {
    if (!range.file.header().has_mask || !range.file.header().separator) continue;
    log_warning(
        "{0} has a target mask, but samples may begin in the middle of a {1}, which changes the "
        "loss. For whole {1}s, set data.packing = \"documents\" and data.attention = \"document\" "
        "(`trireme check` shows how much of the data this concerns)",
        range.file.path().string(), word_for_documents(range.file.header()));
    return;
  }
}

void log_cut_documents(const Dataset& data) {
  for (const auto& [file, begin, end] : data.ranges()) {
    if (data.packed(0) || !file.header().has_mask || !file.header().separator) continue;
    const auto found = begun_before(file, begin, end, data.sample_length());
    if (found.cut_off > 0)
      log_warning(
          "{}: {:.1f}% of the tokens that are trained on are in a sample that does not contain the "
          "start of their document. To train on whole {}s, set data.packing = \"documents\" and "
          "data.attention = \"document\"",
          file.path().string(), percent(found.cut_off, found.targets),
          word_for_documents(file.header()));
  }
}

BackendChoice backend_choice(const Deck& d, const Communicator& world) {
  BackendChoice c{.name = d.run.backend,
                  .threads = launch::threads_of_rank(d.run.threads, world),
                  .debug = d.run.debug,
                  .guards = d.run.guards ? Guards::on : Guards::off};
  together(world, [&] { c.name = decide_backend(c.name); });
  const auto names = world.all_gather(c.name);
  together(world, [&] {
    launch::require_one_backend(names);
    require(d.run.exactness != Exactness::invariant || c.name != "cuda",
            "run.exactness = \"invariant\" works only with the backends host and ref, and "
            "run.backend = \"{}\" selects a GPU: set run.backend = \"host\"",
            d.run.backend);
  });
  together(world, [&] {
    require(d.run.replay_every == 0 || d.run.exactness != Exactness::fast || c.name != "cuda",
            "run.replay_every compares bits, which a GPU reproduces only with run.exactness = "
            "\"repeatable\": set that key too");
  });
  c.bits = d.run.exactness == Exactness::fast ? CudaBits::fast : CudaBits::repeatable;
  c.tf32 = d.precision.tf32;
  c.headroom = d.run.headroom_bytes();
  c.hang_timeout = d.run.hang_timeout;
  return c;
}

DType usable_compute(const BackendChoice& choice, DType wanted) {
  const auto usable = compute_type(choice, wanted);
  if (usable != wanted)
    log_warning("this processor cannot multiply {}: computing in {}", name_of(wanted),
                name_of(usable));
  return usable;
}

DType agreed_compute(const Communicator& world, const BackendChoice& choice, DType wanted) {
  DType usable{};
  together(world, [&] { usable = usable_compute(choice, wanted); });
  double wider = usable != wanted;
  world.all_reduce_max({&wider, 1});
  if (wider == 0 || usable != wanted) return usable;
  log_warning("the processor of another rank cannot multiply {}: computing in {}", name_of(wanted),
              name_of(wide(wanted)));
  return wide(wanted);
}

void warn_of_slow_products(const BackendChoice& choice, DType compute) {
  if (choice.name != "cuda" || compute != DType::f32 || choice.tf32) return;
  // Source: NVIDIA's data sheet of the H100 SXM, dense, in TFLOP/s.
  constexpr double f32 = 67, tf32 = 494.5, bf16 = 989;
  log_warning(
      "precision.compute = \"f32\" leaves a GPU's tensor cores idle: an H100 multiplies {:.1f} "
      "times as fast in bf16 (by its data sheet {:.0f} TFLOP/s, not {:.0f}), and {:.1f} times with "
      "precision.tf32 = true; set precision.compute = \"bf16\" unless you need f32",
      bf16 / f32, bf16, f32, tf32 / f32);
}

TransportKind transport_of(const Deck& d, const BackendChoice& choice) {
  return choice.name == "cuda" && !d.run.share_gpu ? TransportKind::device : TransportKind::host;
}

}  // namespace trireme
