#pragma once
// A small model's state, saved by one rank or by several, for the tests of lib/io.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/array_names.hpp"
#include "lib/base/rng.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/io/checkpoint_save.hpp"
#include "tests/support/scratch.hpp"

namespace trireme::test {

using Folder = ScratchFolder;

struct Param {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
  bool moments = true;
};

// Two arrays of an optimizer, under names of its own.
inline const std::string_view sample_arrays[] = {weights_array, "moment1", "slow_2"};

// The table has more than one chunk; the bias is frozen; the scale is in f64.
inline const std::vector<Param>& sample_model() {
  static const std::vector<Param> model = {{"embedding.table", {1031, 2053}},
                                           {"block.0.bias", {77}, DType::f32, false},
                                           {"block.0.qkv", {3, 5, 7}},
                                           {"block.0.scale", {19, 11}, DType::f64}};
  return model;
}

// Finite numbers of bits without a pattern, a pure function of what they stand for.
inline std::vector<std::byte> sample_bytes(const Param& p, std::string_view array,
                                           std::int64_t step) {
  const auto n = static_cast<std::size_t>(p.shape.count()) * bytes_of(p.dtype);
  std::vector<std::byte> bytes(n + 8);
  const auto key = hash64(hash64(static_cast<std::uint64_t>(step), array), p.name);
  for (std::size_t i = 0; i < n; i += 8) {
    const auto x = mix64(key + i) & 0xbfffffff'bfffffff;  // no exponent is all ones
    std::memcpy(bytes.data() + i, &x, 8);
  }
  bytes.resize(n);
  return bytes;
}

inline CheckpointMeta sample_meta(std::int64_t step) {
  CheckpointMeta m;
  m.step = step;
  m.samples = 12 * step;
  m.tokens = 768 * step;
  m.skipped = {3, 5};
  for (const auto& p : sample_model()) m.updates[p.name] = step + static_cast<int>(p.name.size());
  m.seed = ~std::uint64_t{0};
  m.deck = "[model]\nwidth = 8 # \"eight\"\n";
  m.version = "0.1";
  m.run = "f00d";
  m.tokenizer_kind = "bytes";
  m.chat_template = "begin = \"\"\n\n[user]\n";
  m.tokenizer = std::string("\0\1model\xff", 8);
  m.vocab = 257;
  m.extra.machine = "block.0.bias";
  return m;
}

// Rank `rank` of `ranks`: an equal share of each parameter, the last rank the rest.
inline std::vector<ParamSlice> sample_slices(int rank, int ranks) {
  std::vector<ParamSlice> slices;
  for (const auto& p : sample_model()) {
    const auto n = p.shape.count(), share = n / ranks;
    const auto begin = share * rank, end = rank + 1 == ranks ? n : begin + share;
    for (const auto array : sample_arrays) {
      if (array != weights_array && !p.moments) continue;
      slices.push_back({p.name, std::string(array), p.shape, begin, end - begin, p.dtype});
    }
  }
  return slices;
}

// Serves slices out of the whole parameters.
class SampleSource {
 public:
  explicit SampleSource(std::int64_t step) : step_(step) {}
  void operator()(const ParamSlice& s, std::int64_t first, std::span<std::byte> to) {
    const auto& model = sample_model();
    const auto p =
        std::find_if(model.begin(), model.end(), [&](auto& q) { return q.name == s.name; });
    if (name_ != s.name || array_ != s.array) bytes_ = sample_bytes(*p, s.array, step_);
    name_ = s.name;
    array_ = s.array;
    const auto size = bytes_of(s.dtype);
    std::memcpy(to.data(), bytes_.data() + static_cast<std::size_t>(s.begin + first) * size,
                to.size());
  }

 private:
  std::int64_t step_;
  std::string name_;
  std::string array_;
  std::vector<std::byte> bytes_;
};

inline std::filesystem::path save_sample(const std::filesystem::path& checkpoints,
                                         std::int64_t step, int ranks = 1) {
  auto meta = sample_meta(step);
  if (ranks == 1) {
    return save_checkpoint(checkpoints, meta, sample_slices(0, 1), SampleSource(step));
  }
  meta.grid.data = ranks;
  const auto partial = begin_save(checkpoints, step);
  std::vector<FileRecord> records;
  for (int r = 0; r < ranks; ++r) {
    const auto record = write_shard(partial, r, meta, sample_slices(r, ranks), SampleSource(step));
    records.push_back(parse_file_record(to_text(record)));  // as it would travel
  }
  return publish(checkpoints, meta, std::move(records));
}

inline void expect_sample(CheckpointReader& reader, std::int64_t step) {
  for (const auto& p : sample_model()) {
    using Names = std::vector<std::string>;
    ASSERT_EQ(reader.arrays_of(p.name), p.moments ? Names({"moment1", "slow_2"}) : Names());
    for (const auto array : sample_arrays) {
      if (array != weights_array && !p.moments) continue;
      const auto expected = sample_bytes(p, array, step);
      std::vector<std::byte> found(expected.size());
      reader.read(p.name, array, 0, p.shape.count(), found);
      EXPECT_TRUE(found == expected) << array << "/" << p.name;
    }
  }
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace trireme::test
