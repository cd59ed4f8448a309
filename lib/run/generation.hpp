#pragma once
// Generates continuations of many texts, token by token. Keys and values of earlier tokens are
// cached, so each token costs one row of computation. Once a text exceeds the model's context, each
// token costs a whole pass. The last `context` tokens then begin one token later for each new
// token, so all keys and values change.
//
// A sequence gets the same tokens as if it were generated alone. Its first pass contains no other
// sequence, and afterwards the bits of a row depend only on that row.
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

// Throws Error if an id is not below `vocab`. This can happen because a tokenizer may have more ids
// than its model.
void require_ids(std::span<const std::int32_t> ids, std::int64_t vocab);

// A text to continue.
struct Request {
  std::vector<std::int32_t> ids;  // the tokens of the text; not empty
  std::int64_t tokens = 100;      // maximum number of tokens to generate
  Sampling sampling;
};

// Reason for which a continuation ended.
enum class FinishReason : std::uint8_t { length, stop, end_of_text };
std::string_view name_of(FinishReason);  // "length", "stop" or "end of text"

// Result of a request: the generated continuation.
struct Continued {
  std::vector<std::int32_t> ids;  // the generated tokens, without an end-of-text token
  FinishReason ended = FinishReason::length;
};

// Settings that all requests share.
struct GenerationSettings {
  std::int32_t vocab = 0;               // generated ids are below it
  std::vector<std::int32_t> ends = {};  // end-of-text tokens; a sequence ends when one is drawn
  std::int64_t batch = 8;               // sequences generated at a time on each data-parallel rank
  bool cache = true;                    // false computes the whole context for every token
  // `stops` and `emit` are called after each token with a request's index and its generated tokens.
  // `stops` returns true to end the sequence. It must return the same value on every rank.
  std::function<bool(std::size_t, std::span<const std::int32_t>)> stops = {};
  std::function<void(std::size_t, std::span<const std::int32_t>)> emit = {};
  std::function<void(std::size_t, const Continued&)> ended = {};  // called once for each request
};

// Returns the continuations in the order of the requests. Collective, with the same arguments and
// results on every rank. Requests are assigned in order to data-parallel ranks with free capacity.
// Throws Error if a request is invalid, and SharedError if logits are not finite.
std::vector<Continued> generate(Trainer&, std::span<const Request>, const GenerationSettings&);

}  // namespace trireme
