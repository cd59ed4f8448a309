#pragma once
// A deck: everything that defines a run, read once, checked, then constant. Text -> Deck -> text.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/config.hpp"
#include "lib/io/config.hpp"
#include "lib/model/config.hpp"
#include "lib/run/config.hpp"
#include "lib/shard/config.hpp"
#include "lib/train/config.hpp"

namespace trireme {

// zero.shard = "node" becomes a number where it is known how many ranks a node runs.
struct ZeroSection : ZeroConfig {
  bool copy_each_node = false;
  bool operator==(const ZeroSection&) const = default;
};

struct Deck {
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  DistillConfig distill;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  PrecisionConfig precision;
  ParallelConfig parallel;
  ZeroSection zero;
  std::vector<FreezeRule> freeze;
  EvaluateConfig evaluate;
  CheckpointConfig checkpoint;
  RunConfig run;
  std::string name;  // stem of the deck's file
  // Of distill.teacher, by read_teacher (lib/deck/teacher.hpp), to be run beside `model`.
  std::optional<ModelConfig> teacher;

  bool operator==(const Deck&) const = default;
};

// Reads, applies overrides ("section.key=value", in order) and checks everything that needs
// neither the token files nor the number of ranks. Throws one Error that lists all problems, each
// as file:line:column or by its override. Paths come back absolute. model is completed;
// train.microbatch is decided unless it depends on parallel.data = 0, see lib/deck/resolve.hpp.
Deck load_deck(const std::filesystem::path&, std::span<const std::string> overrides = {});
Deck parse_deck(std::string_view text, std::string source_name,
                std::span<const std::string> overrides = {});

// What dump_deck wrote: a preset that names a checkpoint has no place in it and is refused.
Deck parse_dumped_deck(std::string_view text, std::string source_name);

// With run.exactness = "invariant", tokens that are summed as one, else 0.
std::int64_t exact_chunk(const Deck&);

// The deck as text with every key and its meaning; parse_deck of it gives an equal Deck.
std::string dump_deck(const Deck&);

// "section.key: old -> new" for every key that differs.
std::vector<std::string> deck_differences(const Deck& before, const Deck& after);

// The same for the keys of [model] in which these compute otherwise (canonical).
std::vector<std::string> model_differences(const ModelConfig& before, const ModelConfig& after);

// A deck to start from: required keys with examples, all others commented out with their defaults.
std::string deck_template();
// What "section.key", "key" or "section" means, for the terminal. Throws Error naming the nearest.
std::string describe_key(std::string_view);
// docs/deck.md.
std::string deck_reference_markdown();

}  // namespace trireme
