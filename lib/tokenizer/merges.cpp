#include "lib/tokenizer/merges.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <queue>
#include <tuple>

namespace trireme {

namespace {

// Up to this number of tokens, searching all ranks for each merge takes less time than a heap.
constexpr std::size_t short_word = 32;

}  // namespace

Merges::Merges(std::size_t count)
    : slots_(std::bit_ceil(2 * count + 2)),
      mask_(slots_.size() - 1),
      shift_(64 - std::countr_zero(slots_.size())) {}

void Merges::add(std::int32_t left, std::int32_t right, Result result) {
  const auto key = key_of(left, right);
  std::size_t i = place(key);
  while (slots_[i].key != empty && slots_[i].key != key) i = (i + 1) & mask_;
  slots_[i] = {key, result};
}

void Merges::apply(std::vector<std::int32_t>& ids) const {
  if (ids.size() <= short_word) {
    apply_to_short(ids);
  } else {
    apply_to_long(ids);
  }
}

void Merges::apply_to_short(std::vector<std::int32_t>& ids) const {
  std::array<Result, short_word> merges;  // merges of tokens i and i + 1
  std::size_t n = ids.size();
  if (n < 2) return;
  for (std::size_t i = 0; i + 1 < n; ++i) merges[i] = find(ids[i], ids[i + 1]);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i)
      if (merges[i].rank < merges[best].rank) best = i;
    if (merges[best].rank == none) break;
    ids[best] = merges[best].id;
    for (std::size_t i = best + 1; i + 1 < n; ++i) {
      ids[i] = ids[i + 1];
      merges[i - 1] = merges[i];
    }
    --n;
    if (best > 0) merges[best - 1] = find(ids[best - 1], ids[best]);
    if (best + 1 < n) merges[best] = find(ids[best], ids[best + 1]);
  }
  ids.resize(n);
}

void Merges::apply_to_long(std::vector<std::int32_t>& ids) const {
  constexpr std::size_t end = ~std::size_t{0};
  struct Token {
    std::int32_t id;
    std::size_t before, behind;
    bool gone;
  };
  using Candidate = std::tuple<std::int32_t, std::size_t, std::int32_t>;  // rank, left token, id
  std::vector<Token> tokens(ids.size());
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](std::size_t left) {
    if (left == end || tokens[left].behind == end) return;
    const auto merge = find(tokens[left].id, tokens[tokens[left].behind].id);
    if (merge.rank != none) queue.emplace(merge.rank, left, merge.id);
  };
  for (std::size_t i = 0; i < ids.size(); ++i)
    tokens[i] = {ids[i], i == 0 ? end : i - 1, i + 1 < ids.size() ? i + 1 : end, false};
  for (std::size_t i = 0; i < ids.size(); ++i) consider(i);
  while (!queue.empty()) {
    const auto [rank, left, id] = queue.top();
    queue.pop();
    auto& token = tokens[left];
    // One of the two may have been merged meanwhile.
    if (token.gone || token.behind == end) continue;
    auto& right = tokens[token.behind];
    if (find(token.id, right.id).rank != rank) continue;
    token.id = id;
    right.gone = true;
    token.behind = right.behind;
    if (token.behind != end) tokens[token.behind].before = left;
    consider(token.before);
    consider(left);
  }
  ids.clear();
  for (const auto& token : tokens)
    if (!token.gone) ids.push_back(token.id);
}

}  // namespace trireme
