#include "lib/corpus/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/hash.hpp"
#include "lib/base/text_parts.hpp"

namespace trireme {

std::int64_t part_bytes_for(std::int64_t total) {
  constexpr std::int64_t least = std::int64_t{8} << 20, most = std::int64_t{256} << 20;
  // A power of two rarely changes if a file is added, corrected or removed.
  const auto wanted = std::bit_ceil(static_cast<std::uint64_t>(total >> 14));
  return std::clamp(static_cast<std::int64_t>(wanted), least, most);
}

// Returns true if a part of several files ends with this one. The names and sizes of files decide
// this, so that other parts stay the same if a file is added, corrected or removed. The file is the
// last one with a probability of two parts its size, so a part has half of its bytes on average.
static bool ends_part(const ListedFile& file, std::int64_t part_bytes) {
  return static_cast<std::int64_t>(hash128(file.path).low %
                                   static_cast<std::uint64_t>(part_bytes)) < 2 * file.stamp.size;
}

std::vector<InputPart> parts_of(std::span<const ListedFile> files, std::int64_t part_bytes) {
  std::vector<InputPart> parts;
  InputPart files_together;
  const auto end_part = [&] {
    if (!files_together.segments.empty()) parts.push_back(std::exchange(files_together, {}));
  };
  for (std::size_t f = 0; f < files.size(); ++f) {
    const auto size = files[f].stamp.size;
    if (size < 0) {
      end_part();
      parts.push_back({.segments = {{.file = f}}, .is_stream = true});
    } else if (size > part_bytes && files[f].division != Division::none) {
      end_part();
      const auto count = (size + part_bytes - 1) / part_bytes, each = (size + count - 1) / count;
      for (std::int64_t begin = 0; begin < size; begin += each) {
        const auto end = std::min(begin + each, size);
        const InputSegment range{.file = f, .begin = begin, .end = end, .is_range = true};
        parts.push_back({.segments = {range}, .bytes = end - begin});
      }
    } else {
      if (files_together.bytes + size > part_bytes) end_part();
      files_together.segments.push_back({.file = f, .end = size});
      files_together.bytes += size;
      if (ends_part(files[f], part_bytes)) end_part();
    }
  }
  end_part();
  return parts;
}

std::vector<int> ranks_of(std::span<const InputPart> parts, std::span<const std::size_t> missing,
                          int ranks) {
  std::vector<std::size_t> order(missing.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](auto i) { return parts[missing[i]].bytes; });
  using Load = std::pair<std::int64_t, int>;  // bytes, rank
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int rank = 0; rank < ranks; ++rank) loads.emplace(0, rank);
  std::vector<int> rank_of(missing.size(), 0);
  for (const auto i : order) {
    const auto& part = parts[missing[i]];
    if (part.is_stream) continue;
    const auto [bytes, rank] = loads.top();
    loads.pop();
    // Opening a file takes time, too, so parts of empty files count.
    loads.emplace(bytes + part.bytes + std::ssize(part.segments), rank);
    rank_of[i] = rank;
  }
  return rank_of;
}

std::string text_of(std::span<const ListedFile> files) {
  std::string text;
  for (const auto& f : files)
    text += fmt::format("{}{}{} {} {}{}", f.path, '\0', f.stamp.size, f.stamp.modified,
                        static_cast<int>(f.division), '\0');
  return text;
}

std::vector<ListedFile> listed_files_of(std::string_view text) {
  std::vector<ListedFile> files;
  const auto next = [&] {
    const auto n = text.find('\0');
    expect(n != text.npos, "the text of inputs is whole");
    const auto field = text.substr(0, n);
    text.remove_prefix(n + 1);
    return field;
  };
  while (!text.empty()) {
    const auto path = next();
    const auto numbers = split(next(), ' ');
    expect(numbers.size() == 3, "an input has three numbers");
    files.push_back(
        {std::string(path),
         {number_in<std::int64_t>(numbers[0]).value(), number_in<std::int64_t>(numbers[1]).value()},
         static_cast<Division>(number_in<int>(numbers[2]).value())});
  }
  return files;
}

}  // namespace trireme
