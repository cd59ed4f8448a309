#pragma once
// 128-bit hashes of files and texts with XXH3-128 from xxHash. The hashes detect accidental damage
// but do not protect against forgery.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace trireme {

// A 128-bit hash.
struct Hash128 {
  std::uint64_t high = 0, low = 0;
  bool operator==(const Hash128&) const = default;
};

// Formats a hash as 32 hex digits, like `xxhsum -H2`.
std::string to_string(Hash128);
// Parses the result of to_string(). Returns nullopt if the text is not 32 lower-case hex digits.
std::optional<Hash128> parse_hash(std::string_view hex);

Hash128 hash128(std::span<const std::byte>);
Hash128 hash128(std::string_view);

// Computes the hash128() of bytes that arrive in pieces.
class Hasher {
 public:
  Hasher();
  void update(std::span<const std::byte>);
  Hash128 digest() const;

 private:
  struct Free {
    void operator()(XXH3_state_s*) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace trireme
