#pragma once
// The contents of a checkpoint. Documented for users in docs/checkpoint.md.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/dtype.hpp"
#include "lib/base/hash.hpp"
#include "lib/base/view.hpp"

namespace trireme {

// Elements [begin, begin + count) of one parameter, flat in row-major order, held by one rank.
struct ParamSlice {
  std::string name;   // of the parameter
  std::string array;  // weights_array or another: the HDF5 group
  Shape shape;        // of the whole parameter
  std::int64_t begin = 0, count = 0;
  DType dtype = DType::f32;  // f32 or f64
  bool operator==(const ParamSlice&) const = default;
};

// What a run remembers beside its numbers. In files it is an object of texts, "extra", without
// those that are empty or 0; what has another name there is ignored
// and not written again.
struct RunExtra {
  std::string evaluation, history;  // the newest rows of the tables
  std::int64_t history_begins = 0;  // with this step; 0: not known
  std::string machine;              // its kind (kernels/open), which outcome.json names as well
  // How the order of few samples is drawn. Checkpoints without it drew it by
  // Permutation's network (lib/data/order.hpp).
  std::string order_of_few;
  std::int64_t skipped_in_row = 0;  // steps up to this one
  std::string token_files;          // a hash of what identifies them
  std::string base;                 // of adapters: identity_of_weights of what they stand beside
  std::string reference;            // of preferences: the same of what they are compared with
  std::string teacher;              // of distill: the same of what is learnt from
  // Of an imported model whose tokenizer's files do not have it: its generation_config.json.
  std::string generation;
  bool operator==(const RunExtra&) const = default;
};
// f(name in files, member) of each.
template <class Extra, class F>
void each_extra(Extra& e, F f) {
  f("evaluation", e.evaluation);
  f("history", e.history);
  f("history_begins", e.history_begins);
  f("machine", e.machine);
  f("order_of_few", e.order_of_few);
  f("skipped_in_row", e.skipped_in_row);
  f("token_files", e.token_files);
  f("base", e.base);
  f("reference", e.reference);
  f("teacher", e.teacher);
  f("generation", e.generation);
}

// A run's state but for the arrays.
struct CheckpointMeta {
  std::int64_t step = 0;     // finished steps
  std::int64_t samples = 0;  // consumed
  std::int64_t tokens = 0;
  std::vector<std::int64_t> skipped;            // steps that were skipped
  std::map<std::string, std::int64_t> updates;  // by parameter, since its arrays were fresh
  std::uint64_t seed = 0;
  std::string deck;     // effective deck, TOML
  std::string version;  // of the program
  std::string run;      // identity of the run: all files of a checkpoint have the same
  int pipe = 1, data = 1, seq = 1, expert = 1;
  std::string tokenizer_kind;  // empty: none
  std::string tokenizer;       // the model's bytes
  std::string chat_template;   // as its file has it, TOML; empty: none is known
  std::int64_t vocab = 0;
  RunExtra extra;
  bool operator==(const CheckpointMeta&) const = default;
};

// A chunk's elements are stored as they are at byte `at` of the file; HDF5's checksum follows.
struct ChunkRecord {
  std::int64_t at = 0;
  Hash128 hash;  // of the elements, without padding and checksum
  bool operator==(const ChunkRecord&) const = default;
};

struct SliceRecord {
  ParamSlice slice;
  std::int64_t chunk_elements = 0;  // of all chunks but the last
  std::vector<ChunkRecord> chunks;
  bool operator==(const SliceRecord&) const = default;
};

// `hash` is that of the file with each chunk's elements replaced by the 16 bytes of their hash
// (high word first, big-endian): one pass serves file and chunks. Without chunks it is the plain
// hash.
struct FileRecord {
  std::string name;
  std::int64_t size = 0;
  Hash128 hash;
  int rank = -1;  // -1: not a shard
  std::vector<SliceRecord> slices;
  bool operator==(const FileRecord&) const = default;
};

struct Manifest {
  CheckpointMeta meta;
  std::vector<FileRecord> files;
};

// What a shard says of its checkpoint, so that a lost manifest can be made again from all of them.
struct ShardRecord {
  CheckpointMeta meta;  // `extra` is the run's in rank 0's shard alone
  Hash128 tokenizer;    // of the tokenizer's bytes
  std::vector<SliceRecord> slices;
};

// How much of a checkpoint is checked.
enum class Check : std::uint8_t {
  sizes,     // and the manifest
  metadata,  // and every byte but the elements in chunks, which loading checks
  hashes     // and everything
};

// May a parameter have this name? It is that of a dataset in an HDF5 group.
bool is_dataset_name(std::string_view);

// For sending a rank's record to the rank that publishes.
std::string to_text(const FileRecord&);
FileRecord parse_file_record(std::string_view text);

std::string to_text(const Manifest&);
// Error when the text is not a whole, self-consistent manifest. `where` names it in messages. Every
// parameter is then covered exactly once; the tokenizer's bytes are read from their file later.
Manifest parse_manifest(std::string_view text, std::string_view where);

std::string to_text(const ShardRecord&);
// `size` is that of the shard's file.
ShardRecord parse_shard_record(std::string_view text, std::string_view where, std::int64_t size);

inline constexpr std::string_view manifest_name = "manifest.json", master_name = "master.h5",
                                  tokenizer_name = "tokenizer.bin",
                                  shard_record_name = "record.json";  // a dataset of every shard
inline constexpr std::int64_t max_chunk_bytes = std::int64_t{4} << 20;

}  // namespace trireme
