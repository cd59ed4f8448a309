#pragma once
// Numbers of the documents in a token file, as `trireme inspect --document` counts them.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "lib/data/packing.hpp"
#include "lib/data/token_file.hpp"

namespace trireme {

// The documents of a token file, in order. Document n is the one that `inspect --document n`
// prints.
class FileDocuments {
 public:
  explicit FileDocuments(const TokenFile& file) : all_{{0, file.count()}} {
    if (file.header().separator) all_ = documents_of(file, 0, file.count());
  }
  std::int64_t count() const { return std::ssize(all_); }
  const PackedDocument& at(std::int64_t n) const { return all_[static_cast<std::size_t>(n)]; }
  // Returns the numbers [first, last] of the documents with a token in [begin, end).
  std::pair<std::int64_t, std::int64_t> in(std::int64_t begin, std::int64_t end) const {
    const auto from = [&](std::int64_t token) {
      return std::ranges::upper_bound(all_, token, {}, &PackedDocument::begin) - all_.begin() - 1;
    };
    return {std::max<std::int64_t>(0, from(begin)), std::max<std::int64_t>(0, from(end - 1))};
  }

 private:
  std::vector<PackedDocument> all_;
};

}  // namespace trireme
