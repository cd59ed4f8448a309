#pragma once
// Continuing texts, token by token, many at a time. Keys and values of what was read are kept, so a
// token costs one row of work; past the model's context each token costs a whole one, as the last
// `context` tokens then begin one later and every key and value changes.
//
// A sequence gets the tokens that it gets alone, whatever stands beside it: its first pass has no
// other sequence in it, and a row's bits depend on that row alone afterwards.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/run/sampling.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

inline constexpr std::int64_t most_tokens = std::int64_t{1} << 40;

// Error for an id that the model has no row for, as its tokenizer may have more ids.
void require_ids(std::span<const std::int32_t> ids, std::int64_t vocab);

struct Request {
  std::vector<std::int32_t> ids;  // what it begins with; not empty
  std::int64_t tokens = 100;      // at most so many more
  Sampling sampling;
};

enum class FinishReason : std::uint8_t { length, stop, end_of_text };
std::string_view name_of(FinishReason);  // "length", "stop", "end of text"

struct Continued {
  std::vector<std::int32_t> ids;  // new ones; an end of text is not among them
  FinishReason ended = FinishReason::length;
};

struct GenerationSettings {
  std::int32_t vocab = 0;               // ids below it are drawn
  std::vector<std::int32_t> ends = {};  // a sequence that draws one of them is at its end
  std::int64_t batch = 8;               // sequences at a time, on each data rank
  bool cache = true;                    // false: every token costs a whole context
  // Called with a sequence's number and its new tokens after each; `stops` on every rank alike.
  std::function<bool(std::size_t, std::span<const std::int32_t>)> stops = {};
  std::function<void(std::size_t, std::span<const std::int32_t>)> emit = {};
  std::function<void(std::size_t, const Continued&)> ended = {};  // once for each
};

// By request. Collective, with the same arguments and results on every rank; requests are dealt out
// to the data ranks in order, each as there is room.
std::vector<Continued> generate(Trainer&, std::span<const Request>, const GenerationSettings&);

}  // namespace trireme
