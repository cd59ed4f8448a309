#pragma once
// Counter-based random numbers. Each number is a pure function of a key and a counter, so it does
// not depend on the rank or on earlier draws. The generator is Philox4x32-10 from Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3", SC11. Tests check it against Random123's known
// answers.
#include <array>
#include <cstdint>
#include <string_view>

namespace trireme {

// Returns a well-mixed permutation of x: the finalizer of splitmix64 (Steele, Lea, Flood 2014).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Returns a hash of two or three integers, or of an integer and a text.
constexpr std::uint64_t hash64(std::uint64_t a, std::uint64_t b) {
  return mix64(mix64(a) ^ b);
}
constexpr std::uint64_t hash64(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return hash64(hash64(a, b), c);
}
constexpr std::uint64_t hash64(std::uint64_t seed, std::string_view text) {
  std::uint64_t h = hash64(seed, text.size());
  for (char c : text) h = hash64(h, static_cast<unsigned char>(c));
  return h;
}

using Random4 = std::array<std::uint32_t, 4>;

// Returns four random numbers for a key and a 128-bit counter.
constexpr Random4 philox4x32(std::uint64_t key, std::uint64_t counter_low,
                             std::uint64_t counter_high) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter_low);
  std::uint32_t c1 = static_cast<std::uint32_t>(counter_low >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(counter_high);
  std::uint32_t c3 = static_cast<std::uint32_t>(counter_high >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = static_cast<std::uint64_t>(0xD2511F53U) * c0;
    const std::uint64_t p1 = static_cast<std::uint64_t>(0xCD9E8D57U) * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {c0, c1, c2, c3};
}

// Converts 32 random bits to a float in [0, 1), a multiple of 2^-24.
constexpr float unit_float(std::uint32_t r) {
  return static_cast<float>(r >> 8) * 0x1p-24F;
}

// Key of a dropout layer, which determines the elements that the layer drops. Element e of a sample
// is position * width + channel. Its random number is lane e % 4 of philox4x32(key, counter = (e /
// 4, sample)). The element is dropped if unit_float() of that number is less than `p`.
struct DropoutKey {
  std::uint64_t key = 0;  // hash64(seed, step, dropout layer)
  float p = 0;
};

}  // namespace trireme
