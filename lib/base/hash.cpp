#include "lib/base/hash.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace trireme {

static Hash128 from_xxh(XXH128_hash_t h) {
  return {h.high64, h.low64};
}

std::string to_string(Hash128 h) {
  return fmt::format("{:016x}{:016x}", h.high, h.low);
}

std::optional<Hash128> parse_hash(std::string_view hex) {
  if (hex.size() != 32) return {};
  std::uint64_t words[2] = {0, 0};
  for (std::size_t i = 0; i < 32; ++i) {
    const char c = hex[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return {};
    words[i / 16] = words[i / 16] << 4 | static_cast<std::uint64_t>(digit);
  }
  return Hash128{words[0], words[1]};
}

Hash128 hash128(std::span<const std::byte> bytes) {
  return from_xxh(XXH3_128bits(bytes.data(), bytes.size()));
}

Hash128 hash128(std::string_view text) {
  return hash128(std::as_bytes(std::span(text)));
}

void Hasher::Free::operator()(XXH3_state_s* s) const {
  XXH3_freeState(s);
}

Hasher::Hasher() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

void Hasher::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

Hash128 Hasher::digest() const {
  return from_xxh(XXH3_128bits_digest(state_.get()));
}

}  // namespace trireme
