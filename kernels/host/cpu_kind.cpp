#include "kernels/host/cpu_kind.hpp"

#include <cpuid.h>
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "kernels/host/cpu.hpp"
#include "kernels/host/onednn.hpp"
#include "kernels/host/simd.hpp"

namespace trireme::host {

namespace {

using Registers = std::array<unsigned, 4>;  // eax, ebx, ecx, edx

Registers ask(unsigned leaf) {
  Registers r{};
  __get_cpuid(leaf, &r[0], &r[1], &r[2], &r[3]);  // r stays 0 if the CPU lacks this leaf
  return r;
}

std::string text_of(const Registers& r, std::initializer_list<std::size_t> which) {
  std::string text;
  for (const auto i : which)
    for (int byte = 0; byte < 4; ++byte) {
      const auto letter = static_cast<char>(r[i] >> (8 * byte));
      if (letter != '\0') text += letter;
    }
  return text;
}

// Returns family and model as the vendors number them, including the extended fields.
std::string family_and_model() {
  const auto eax = ask(1)[0];
  unsigned family = eax >> 8 & 0xF, model = eax >> 4 & 0xF;
  if (family == 0x6 || family == 0xF) model += (eax >> 16 & 0xF) << 4;
  if (family == 0xF) family += eax >> 20 & 0xFF;
  return fmt::format("family {} model {}", family, model);
}

std::string brand() {
  std::string text;
  for (unsigned leaf = 0x80000002; leaf <= 0x80000004; ++leaf)
    text += text_of(ask(leaf), {0, 1, 2, 3});
  while (text.starts_with(' ')) text.erase(0, 1);
  while (text.ends_with(' ')) text.pop_back();
  return text.empty() ? "no name" : text;
}

}  // namespace

std::string cpu_kind() {
  return fmt::format("{} {} ({}), {}, kernels for {}, {} numbers at once",
                     text_of(ask(0), {1, 3, 2}), family_and_model(), brand(),
                     onednn::version_and_instructions(), build_architecture(), lanes);
}

}  // namespace trireme::host
