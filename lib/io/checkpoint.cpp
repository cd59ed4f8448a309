#include "lib/io/checkpoint.hpp"

#include <charconv>

#include "lib/base/error.hpp"
#include "lib/base/limits.hpp"
#include "lib/base/quoted.hpp"

namespace trireme {

bool is_dataset_name(std::string_view name) {
  return !name.empty() && name != "." &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

std::int64_t extra_count(const CheckpointMeta& meta, const std::string& key,
                         std::int64_t otherwise) {
  const auto found = meta.extra.find(key);
  if (found == meta.extra.end() || found->second.empty()) return otherwise;
  const auto& text = found->second;
  std::int64_t n = 0;
  const auto [end, e] = std::from_chars(text.data(), text.data() + text.size(), n);
  require(e == std::errc() && end == text.data() + text.size() && 0 <= n && n <= most_counted,
          "'{}' in a checkpoint's 'extra' is no count: \"{}\"", key, quoted(text));
  return n;
}

}  // namespace trireme
