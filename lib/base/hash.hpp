#pragma once
// XXH3-128 (xxHash): detects accidental damage, not forgery.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;  // xxHash's own

namespace trireme {

struct Hash128 {
  std::uint64_t high = 0, low = 0;
  bool operator==(const Hash128&) const = default;
};

std::string to_string(Hash128);  // 32 hex digits, as `xxhsum -H2` prints them
std::optional<Hash128> parse_hash(std::string_view hex);

Hash128 hash128(std::span<const std::byte>);
Hash128 hash128(std::string_view);

// The same hash, of bytes given in pieces.
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
