#pragma once
// Small token files for tests.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/corpus/token_writer.hpp"

namespace trireme {

struct TokenFileOptions {
  std::int64_t vocab = 256;
  std::optional<std::int32_t> separator = {};
  std::vector<bool> targets = {};  // empty: no mask
  TokenizerSpec tokenizer = {};
  std::vector<bool> labels = {};  // of two documents each
  std::vector<WeightRange> weights = {};
};

inline std::string write_token_file(const std::string& path, const std::vector<std::int32_t>& ids,
                                    const TokenFileOptions& o = {}) {
  const int width = token_bytes_for(o.vocab);
  TokenWriter writer(path, ExistingFile::replaced, width,
                     o.targets.empty() ? TargetMask::absent : TargetMask::present);
  PackedTokens packed;
  packed.append(ids, width);
  packed.targets.assign(o.targets.begin(), o.targets.end());
  packed.labels.assign(o.labels.begin(), o.labels.end());
  packed.weights = o.weights;
  writer.append(packed);
  writer.finish(o.vocab, o.separator, 2 * std::ssize(o.labels), o.tokenizer,
                o.labels.empty() ? Documents::single : Documents::labeled);
  return path;
}

inline bool is_target(const TokenFile& file, std::int64_t i) {
  return file.targets(i, 1)[0];
}

// 0, 1, 2, ... modulo vocab.
inline std::vector<std::int32_t> counting(std::int64_t n, std::int64_t vocab = 256) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < n; ++i) ids.push_back(static_cast<std::int32_t>(i % vocab));
  return ids;
}

inline std::vector<std::int32_t> all_ids(const std::string& path) {
  const TokenFile file(path);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file.count()));
  file.read(0, ids);
  return ids;
}

}  // namespace trireme
