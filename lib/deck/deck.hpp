#pragma once
// A deck: everything that defines a run. A deck is read and checked once and then remains constant.
// It can be converted to text and parsed again.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/config.hpp"
#include "lib/io/config.hpp"
#include "lib/model/adapter.hpp"
#include "lib/model/config.hpp"
#include "lib/run/config.hpp"
#include "lib/shard/config.hpp"
#include "lib/train/config.hpp"

namespace trireme {

// The [zero] section. `copy_each_node` represents zero.shard = "node", which is replaced by a
// number once the number of ranks per node is known.
struct ZeroSection : ZeroConfig {
  bool copy_each_node = false;
  bool operator==(const ZeroSection&) const = default;
};

// All sections of a deck.
struct Deck {
  std::string preset;  // preset that the model's values started from, or empty
  ModelConfig model;
  std::string init_from;  // checkpoint with the initial weights, or empty
  AdapterConfig adapter;  // if its rank is not 0, everything else is frozen
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
  std::string name;  // file name of the deck without its suffix

  bool operator==(const Deck&) const = default;
};

// Reads a deck, applies overrides ("section.key=value", in order) and checks all rules that depend
// neither on the token files nor on the number of ranks. Relative paths become absolute, and
// `model` is completed. train.microbatch is set unless it depends on parallel.data = 0 (see
// lib/deck/resolve.hpp). Throws one Error that lists all problems, each with file:line:column or
// with its override.
Deck load_deck(const std::filesystem::path&, std::span<const std::string> overrides = {});
Deck parse_deck(std::string_view text, std::string source_name,
                std::span<const std::string> overrides = {});

// Parses the output of dump_deck. Throws Error if a preset refers to a checkpoint, which dump_deck
// never writes.
Deck parse_dumped_deck(std::string_view text, std::string source_name);

// Returns the deck with overrides ("section.key=value") applied and checked, as parse_deck() does
// for the overrides of a deck in a file.
Deck with_overrides(Deck, std::span<const std::string> overrides);

// Returns the part of an override that names the key, without blanks around it.
std::string overridden_key(const std::string& override_text);

// A model as a checkpoint describes it: the keys of [model], [adapter] and [[adapter_rank]].
struct ModelDescription {
  ModelConfig model;
  AdapterConfig adapter{};
  std::int64_t context = 0;  // tokens per sample, unless a run states another number; always > 0
  std::string init_from{};   // checkpoint of the adapters' base model
};
ModelDescription description_of(const Deck&);

// Converts a model to text with every key of [model] and [adapter], and back. parse_model() throws
// Error, naming `source_name`, if a value is out of range or the keys contradict each other.
std::string dump_model(const ModelDescription&);
ModelDescription parse_model(std::string_view text, std::string source_name);
// Returns a deck that has the model and is otherwise valid, but describes no run: it names no
// existing token files. `compute` is f32 or f64.
Deck deck_without_run(const ModelDescription&, DType compute, std::string name);

// Returns the number of tokens whose gradients are summed as one term with run.exactness =
// "invariant". Returns 0 with other values of run.exactness.
std::int64_t exact_chunk(const Deck&);

// Converts the deck to text with every key and its meaning. Parsing the text returns an equal Deck.
std::string dump_deck(const Deck&);

// A key whose values differ, in TOML. A value that is not given is "absent". `entry` names the
// entry of a repeated section, such as "name = \"code\"", unless the key itself does.
struct KeyChange {
  std::string key, before, after, entry;
};
// Returns every key whose values differ. deck_differences() returns "section.key: old -> new" for
// each of them, in repeated sections "section.key (entry): old -> new".
std::vector<KeyChange> deck_changes(const Deck& before, const Deck& after);
std::vector<std::string> deck_differences(const Deck& before, const Deck& after);
// Returns the keys of [model] that make the two models compute different results (see canonical()).
std::vector<KeyChange> model_changes(const ModelConfig& before, const ModelConfig& after);
// Returns "section.key: old -> new" for each of model_changes(). With descriptions, also compares
// the adapters.
std::vector<std::string> model_differences(const ModelConfig& before, const ModelConfig& after);
std::vector<std::string> model_differences(const ModelDescription& before,
                                           const ModelDescription& after);

// Returns a deck for users to start from. It contains the required keys with example values. All
// other keys are commented out and have their defaults.
std::string deck_template();
// Returns the meaning of "section.key", "key" or "section" as text for a terminal. Throws Error,
// naming the nearest name, if there is no such key.
std::string describe_key(std::string_view);
// Returns the text of docs/deck.md.
std::string deck_reference_markdown();

}  // namespace trireme
