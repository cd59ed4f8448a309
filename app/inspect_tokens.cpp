#include "app/inspect_tokens.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "app/output.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/data/packing.hpp"
#include "lib/data/token_file.hpp"
#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {
namespace {

std::int64_t targets_of(const TokenFile& file) {
  constexpr std::int64_t at_once = 1 << 20;
  std::int64_t targets = 0;
  for (std::int64_t i = 0; i < file.count(); i += at_once)
    targets += std::ranges::count(file.targets(i, std::min(at_once, file.count() - i)), true);
  return targets;
}

// Prints the distribution of lengths, from which users choose the length of samples.
void say_lengths(std::string_view what, std::vector<std::int64_t> all) {
  if (all.empty()) return;
  std::ranges::sort(all);
  const auto at = [&](double share) {
    return all[static_cast<std::size_t>(share * static_cast<double>(all.size() - 1))];
  };
  say("  tokens per {}: minimum {}, median {}, 90th percentile {}, maximum {}\n", what, at(0),
      at(0.5), at(0.9), at(1));
}

void say_contents(const TokenFile& file) {
  const auto& h = file.header();
  const auto spec = file.tokenizer();
  say("{}: {} of {} bytes, vocabulary size {}\n", file.path().string(), counted(h.count, "token"),
      h.token_bytes, h.vocab);
  say("  tokenizer: {}\n", spec.identity());
  if (!spec.chat.empty()) say("  chat template: stored in the file\n");
  if (h.has_mask) {
    const auto learnt = targets_of(file);
    say("  trained on: {} ({:.1f}%)\n", counted(learnt, "token"),
        100 * static_cast<double>(learnt) /
            static_cast<double>(std::max<std::int64_t>(1, h.count)));
  }
  if (h.weight_ranges > 0) {
    double sum = 0;
    file.each_weight([&](std::int64_t tokens, float weight) {
      sum += static_cast<double>(weight) * static_cast<double>(tokens);
    });
    say("  weights of documents: minimum {}, mean over tokens {:.6g}, maximum {}\n",
        h.smallest_weight, sum / static_cast<double>(h.count), h.largest_weight);
  }
  if (!h.separator) return say("  no separator: the file is one document\n");
  auto all = documents_of(file, 0, file.count());
  const auto names = names_of(h.kind);
  const bool single = h.kind == Documents::single;
  require(single || all.size() % 2 == 0,
          "{} is damaged: its header says that it contains {}, but its number of documents is odd",
          file.path().string(), names.many);
  say("  {}{}, each document followed by separator token {}\n",
      counted(std::ssize(all), "document"),
      single ? "" : fmt::format(", {}", counted(std::ssize(all) / 2, names.one)), *h.separator);
  if (h.kind == Documents::labeled)
    say("  {} desirable, {} undesirable\n", std::ranges::count(file.labels(), true),
        std::ranges::count(file.labels(), false));
  std::vector<std::int64_t> lengths;
  for (const auto& d : all) lengths.push_back(d.count);
  say_lengths("document, without separators", lengths);
  if (single) return;
  for (std::size_t i = 0; i < lengths.size() / 2; ++i)
    lengths[i] = lengths[2 * i] + lengths[2 * i + 1];
  lengths.resize(lengths.size() / 2);
  say_lengths(h.kind == Documents::pairs ? "pair, without separators"
                                         : "labeled answer and mismatched answer together",
              std::move(lengths));
}

// Returns what document n is in its pair.
std::string role_of(const TokenFile& file, std::int64_t n) {
  const auto kind = file.header().kind;
  const bool first = n % 2 == 0;
  if (kind == Documents::pairs)
    return fmt::format(", {} of pair {}", first ? "chosen" : "rejected", n / 2);
  if (kind == Documents::single) return "";
  if (!first) return fmt::format(", mismatched answer of labeled answer {}", n / 2);
  const auto labels = file.labels();
  const auto i = static_cast<std::size_t>(n / 2);
  return fmt::format(", labeled answer {}, {}", n / 2,
                     i < labels.size() && labels[i] ? "desirable" : "undesirable");
}

// Prints a document: one line for each run of consecutive tokens that are trained on, or that are
// only context.
void say_document(const TokenFile& file, std::int64_t n) {
  const auto& h = file.header();
  std::vector<PackedDocument> all{{0, file.count()}};
  if (h.separator) all = documents_of(file, 0, file.count());
  require(n < std::ssize(all), "--document {}: {} has {}, numbered from 0", n, file.path().string(),
          counted(std::ssize(all), "document"));
  const auto [begin, count] = all[static_cast<std::size_t>(n)];
  const auto end = std::min(begin + count + (h.separator ? 1 : 0), file.count());
  std::vector<std::int32_t> ids(static_cast<std::size_t>(end - begin));
  file.read(begin, ids);
  const auto learnt = file.targets(begin, end - begin);
  const auto spec = file.tokenizer();
  std::unique_ptr<Tokenizer> tokenizer;
  if (spec.kind != TokenizerKind::none) tokenizer = make_tokenizer(spec, file.path().string());
  say("document {}{}: tokens {} to {}{}\n", n, role_of(file, n), begin, end - 1,
      h.weight_ranges == 0                   ? ""
      : std::ranges::count(learnt, true) > 0 ? fmt::format(", weight {}", file.weights(begin, 1)[0])
                                             : ", no token is trained on (weight 0)");
  for (std::size_t i = 0; i < ids.size();) {
    auto j = i + 1;
    while (j < ids.size() && learnt[j] == learnt[i]) ++j;
    const auto run = std::span(ids).subspan(i, j - i);
    constexpr std::size_t whole = std::size_t{1} << 40;
    say("{} {}\n", learnt[i] ? "trained |" : "context |",
        tokenizer ? escaped(tokenizer->decode(run), whole)
                  : fmt::format("{}", fmt::join(run, " ")));
    i = j;
  }
}

}  // namespace

void inspect_tokens(const std::filesystem::path& path, std::optional<std::int64_t> document) {
  const TokenFile file(path);
  if (document)
    say_document(file, *document);
  else
    say_contents(file);
}

}  // namespace trireme
