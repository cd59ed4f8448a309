#pragma once
// The contents of a checkpoint: descriptions of its files, parameters and run state.
// docs/checkpoint.md documents the format for users.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/dtype.hpp"
#include "lib/base/hash.hpp"
#include "lib/base/view.hpp"
#include "lib/comm/grid.hpp"

namespace trireme {

// The elements [begin, begin + count) of one parameter's array, flat in row-major order, that one
// rank stores.
struct ParamSlice {
  std::string name;  // name of the parameter
  // HDF5 group that contains the array: weights_array or the name of an array of optimizer state.
  std::string array;
  // Shape of the whole array. Optimizers may have arrays with another shape than the parameter.
  Shape shape;
  std::int64_t begin = 0, count = 0;
  DType dtype = DType::f32;  // f32 or f64
  bool operator==(const ParamSlice&) const = default;
};

// Further state of a run, stored in checkpoints as a JSON object called "extra" whose values are
// strings. Members that are empty, absent or 0 are omitted. Unknown names in the object are ignored
// and not written again.
struct RunExtra {
  // Newest rows of evaluation.csv and history.csv.
  std::string evaluation, history;
  // Newest rows of the tables of [[validation]] sets. Each line begins with the name of its set and
  // a comma.
  std::string evaluation_of_sets;
  // First step in history.csv. 0 if unknown.
  std::int64_t history_begins = 0;
  // Kind of machine (kernels/open), as in outcome.json.
  std::string machine;
  // Algorithm that shuffles a small number of samples. Empty means the network of Permutation
  // (lib/data/order.hpp).
  std::string order_of_few;
  // Consecutive skipped steps up to and including this one.
  std::int64_t skipped_in_row = 0;
  // 1 if a decay of the learning rate ends with this step (schedule.decay_end_steps). The
  // checkpoint is then never removed.
  std::int64_t ends_decay = 0;
  // State of train.skip_above (SkipRules::state). Empty if the key is not set.
  std::string usual_steps;
  // Targets that counted in the loss of all updates so far. Absent in checkpoints of older
  // versions.
  std::optional<std::int64_t> trained_tokens{};
  // Hash of the identities of the token files.
  std::string token_files;
  // Hash of the tokens of each validation set by its name, as JSON text (hashes_of_sets).
  std::string validation_sets{};
  // Files and shares that the samples come from (DataHistory), as JSON text.
  std::string data_phases;
  // For adapters: hash of the base model's weights (CheckpointReader::identity_of_weights).
  std::string base;
  // For preference training: hash of the reference model's weights
  // (CheckpointReader::identity_of_weights).
  std::string reference;
  // For distillation: hash of the teacher's weights (CheckpointReader::identity_of_weights).
  std::string teacher;
  // Text of an imported model's generation_config.json, if the tokenizer does not contain this
  // file.
  std::string generation;
  // Members of an imported config.json that [model] does not represent, as JSON text (kept_config).
  std::string imported;
  bool operator==(const RunExtra&) const = default;
};
// Calls f(name, member) for each member of RunExtra. `name` is the member's name in files.
template <class Extra, class F>
void each_extra(Extra& e, F f) {
  f("evaluation", e.evaluation);
  f("evaluation_of_sets", e.evaluation_of_sets);
  f("history", e.history);
  f("history_begins", e.history_begins);
  f("machine", e.machine);
  f("order_of_few", e.order_of_few);
  f("skipped_in_row", e.skipped_in_row);
  f("ends_decay", e.ends_decay);
  f("usual_steps", e.usual_steps);
  f("trained_tokens", e.trained_tokens);
  f("token_files", e.token_files);
  f("validation_sets", e.validation_sets);
  f("data_phases", e.data_phases);
  f("base", e.base);
  f("reference", e.reference);
  f("teacher", e.teacher);
  f("generation", e.generation);
  f("imported", e.imported);
}

// Return a member of RunExtra as text. Empty if the member is empty, absent or, unless it is
// optional, 0.
inline std::string extra_text(const std::string& value) {
  return value;
}
inline std::string extra_text(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : "";
}
inline std::string extra_text(std::int64_t value) {
  return value == 0 ? "" : std::to_string(value);
}

// State of a run, except for arrays.
struct CheckpointMeta {
  std::int64_t step = 0;     // number of completed steps
  std::int64_t samples = 0;  // number of samples consumed
  std::int64_t tokens = 0;
  // Numbers of the skipped steps.
  std::vector<std::int64_t> skipped;
  // Number of optimizer updates to each parameter since its arrays were initialized.
  std::map<std::string, std::int64_t> updates;
  std::uint64_t seed = 0;
  // The model, in TOML (dump_model). Empty in checkpoints of formats 1 and 2, whose deck contains
  // the model.
  std::string model;
  // The effective deck, in TOML. Empty if no run wrote the checkpoint.
  std::string deck;
  // Version of the program that wrote the checkpoint.
  std::string version;
  // Identifier of the run. All files of a checkpoint contain the same identifier.
  std::string run;
  Grid grid;
  // Name of the tokenizer's kind. Empty if there is no tokenizer.
  std::string tokenizer_kind;
  // Serialized tokenizer (TokenizerSpec::bytes).
  std::string tokenizer;
  // Chat template with which the model was trained (TokenizerSpec::chat). Empty if there is none.
  std::string chat_template;
  std::int64_t vocab = 0;
  RunExtra extra;
  bool operator==(const CheckpointMeta&) const = default;
};

// One chunk of a slice. The chunk's elements are stored unchanged from byte `at` of the file on.
// HDF5's checksum follows.
struct ChunkRecord {
  std::int64_t at = 0;
  // Hash of the elements, without padding and checksum.
  Hash128 hash;
  bool operator==(const ChunkRecord&) const = default;
};

// A slice in a shard file, with its chunks.
struct SliceRecord {
  ParamSlice slice;
  // Elements in each chunk except the last.
  std::int64_t chunk_elements = 0;
  std::vector<ChunkRecord> chunks;
  bool operator==(const SliceRecord&) const = default;
};

// A file of a checkpoint. `hash` is the hash of the file after replacing each chunk's elements by
// the 16 bytes of their own hash (high word first, big-endian). One pass over the file therefore
// computes both kinds of hash. For a file without chunks, `hash` is the plain hash of the file.
struct FileRecord {
  std::string name;
  std::int64_t size = 0;
  Hash128 hash;
  int rank = -1;  // -1 if the file is not a shard
  std::vector<SliceRecord> slices;
  bool operator==(const FileRecord&) const = default;
};

// The contents of manifest.json, which lists all files of a checkpoint.
struct Manifest {
  CheckpointMeta meta;
  std::vector<FileRecord> files;
};

// Description of a checkpoint, which each shard contains. A lost manifest can be restored from the
// records of all shards.
struct ShardRecord {
  // State of the run. Only the record in rank 0's shard contains `extra`.
  CheckpointMeta meta;
  // Hash of the tokenizer's bytes.
  Hash128 tokenizer;
  std::vector<SliceRecord> slices;
};

// How thoroughly a checkpoint is checked. Each value includes the previous ones.
enum class Check : std::uint8_t {
  // Checks the manifest and the file sizes.
  sizes,
  // Checks every byte except the chunks' elements, which are checked when they are loaded.
  metadata,
  // Checks every byte.
  hashes
};

// Returns true if a parameter may have this name. The name must be valid for an HDF5 dataset in a
// group.
bool is_dataset_name(std::string_view);

// Convert a file record to text and back. The text is sent to the rank that publishes the
// checkpoint.
std::string to_text(const FileRecord&);
FileRecord parse_file_record(std::string_view text);

std::string to_text(const Manifest&);
// Parses a manifest. `where` is the name of the text in error messages. Throws Error if the text is
// incomplete or inconsistent. In the result, the slices cover every parameter exactly once. The
// tokenizer's bytes are empty, because they are in a separate file.
Manifest parse_manifest(std::string_view text, std::string_view where);

std::string to_text(const ShardRecord&);
// Parses the record in a shard. `where` is the name of the text in error messages. `size` is the
// size of the shard file in bytes.
ShardRecord parse_shard_record(std::string_view text, std::string_view where, std::int64_t size);

inline constexpr std::string_view manifest_name = "manifest.json", master_name = "master.h5",
                                  tokenizer_name = "tokenizer.bin",
                                  shard_record_name = "record.json";  // a dataset of every shard
inline constexpr std::int64_t max_chunk_bytes = std::int64_t{4} << 20;

}  // namespace trireme
