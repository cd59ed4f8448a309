#include <cstring>

#include "kernels/ref/kernels.hpp"
#include "lib/base/digest.hpp"

namespace trireme::ref {

// Returns the digest, computed word by word directly from the formula in lib/base/digest.hpp.
static std::uint64_t digest_of(const ConstView& x, std::int64_t first) {
  const auto size = static_cast<std::int64_t>(bytes_of(x.dtype));
  const auto bytes = x.count() * size;
  const auto word = [&](std::int64_t at) {
    std::uint32_t w = 0;
    if (4 * at < bytes)
      std::memcpy(&w, x.data + 4 * at,
                  static_cast<std::size_t>(std::min<std::int64_t>(4, bytes - 4 * at)));
    return w;
  };
  std::uint64_t sum = 0;
  for (std::int64_t begin = 0; 4 * begin < bytes; begin += 16) {
    const auto key = mix64(static_cast<std::uint64_t>((first * size + 4 * begin) / 64));
    for (int j = 0; j < 8; ++j) {
      const std::uint32_t a = word(begin + j) + static_cast<std::uint32_t>(key) +
                              static_cast<std::uint32_t>(mix64(~static_cast<std::uint64_t>(j)));
      const std::uint32_t b = word(begin + 8 + j) + static_cast<std::uint32_t>(key >> 32) +
                              static_cast<std::uint32_t>(mix64(~static_cast<std::uint64_t>(8 + j)));
      sum += static_cast<std::uint64_t>(a) * b;
    }
  }
  return sum;
}

void run(const kernel::Digest& o) {
  auto* out = reinterpret_cast<std::uint64_t*>(o.out_N.data);
  for (const auto& [x, first] : o.parts) {
    expect(x.dense(), "digest: of dense views");
    *out++ = digest_of(x, first);
  }
}

}  // namespace trireme::ref
