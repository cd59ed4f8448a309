#include "lib/data/same_files.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/hash.hpp"
#include "lib/base/host_name.hpp"
#include "lib/comm/agree.hpp"

namespace trireme {

FileIdentity identity_of(const TokenFile& file) {
  const auto& h = file.header();
  const auto number = [](std::int64_t n) { return fmt::format("{}", n); };
  const bool hashed = h.payload_hash != Hash128{};
  return {{"size", number(h.file_bytes())},
          {"tokens", number(h.count)},
          {"bytes a token", number(h.token_bytes)},
          {"vocabulary", number(h.vocab)},
          {"largest id", number(h.largest)},
          {"separator", number(h.separator.value_or(-1))},
          {"documents", number(h.documents)},
          {"mask", number(h.has_mask)},
          {"tokenizer", fmt::format("{} of {} bytes", name_of(h.tokenizer), h.tokenizer_bytes)},
          {hashed ? "hash of its contents" : "hash of blocks of its contents",
           hashed ? to_string(h.payload_hash) : file.hash_of_blocks()}};
}

std::string identity_lines(const TokenFile& file) {
  std::string lines;
  for (const auto& [_, value] : identity_of(file)) lines += value + "\n";
  return lines;
}

// Returns the JSON as a text. A path in it may contain bytes that are not UTF-8.
static std::string text_of(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Describes one rank's files, for the comparison with other ranks.
static nlohmann::json described(std::span<const TokenFile> files) {
  auto all = nlohmann::json::array();
  for (const auto& file : files) all.push_back({file.path().string(), identity_of(file)});
  return {{"host", host_name()}, {"files", std::move(all)}};
}

// Returns the first difference between a rank's description and rank 0's, or an empty text.
static std::string differences(const nlohmann::json& theirs, const nlohmann::json& mine) {
  std::string text;
  for (std::size_t f = 0; f < mine.at("files").size() && text.empty(); ++f) {
    const auto& a = mine.at("files")[f].at(1);
    const auto& b = theirs.at("files").at(f).at(1);
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i])
        text += fmt::format("{}{} {} instead of {}", text.empty() ? "" : ", ",
                            b[i][0].get<std::string>(), b[i][1].get<std::string>(),
                            a[i][1].get<std::string>());
    if (!text.empty())
      text =
          fmt::format("another file {} ({})", theirs.at("files")[f].at(0).get<std::string>(), text);
  }
  return text;
}

void require_same_files(const Communicator& world, std::span<const TokenFile> mine) {
  if (world.size() == 1) return;
  nlohmann::json here;
  together(world, Pace::slow, [&] { here = described(mine); });
  // Files are nearly always the same, and then comparing hashes is enough.
  const auto hashes = world.all_gather(to_string(hash128(text_of(here.at("files")))));
  std::size_t other = 0;
  while (other < hashes.size() && hashes[other] == hashes[0]) ++other;
  if (other == hashes.size()) return;
  std::string first = text_of(here), theirs = first;
  world.broadcast(first);
  world.broadcast(theirs, static_cast<int>(other));
  const auto a = nlohmann::json::parse(first), b = nlohmann::json::parse(theirs);
  const auto count =
      hashes.size() - static_cast<std::size_t>(std::ranges::count(hashes, hashes[0]));
  throw SharedError(fmt::format(
      "rank {} on {} reads {} than rank 0 on {}{}: give all nodes the same token files, or use "
      "token files on a shared file system",
      other, b.at("host").get<std::string>(), differences(b, a), a.at("host").get<std::string>(),
      count > 1 ? fmt::format(" ({} ranks in total differ from rank 0)", count) : ""));
}

}  // namespace trireme
