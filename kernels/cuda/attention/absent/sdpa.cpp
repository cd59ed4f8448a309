// Stub of attention through cuDNN, for builds without cuDNN's C++ frontend. It supports nothing.
#include "kernels/cuda/attention/sdpa.hpp"
#include "lib/base/error.hpp"

namespace trireme::cuda {
namespace {

constexpr const char* reason =
    "this trireme was built without cuDNN's C++ frontend (`make setup` downloads it; "
    "CUDNN_FRONTEND_DIR can name an existing copy)";

}  // namespace

struct Sdpa::Plans {};

std::string sdpa_library() {
  return {};
}

Sdpa::Sdpa(Determinism, int, std::size_t) {}
Sdpa::~Sdpa() = default;
Sdpa::Sdpa(Sdpa&&) noexcept = default;

bool Sdpa::supports(const AttentionShape&, DType, Direction) const {
  return false;
}
std::size_t Sdpa::workspace(const AttentionShape&, Direction) const {
  return 0;
}

bool Sdpa::run(void*, const kernel::Attention&) {
  fail("no attention through cuDNN: {}", reason);
}
bool Sdpa::run(void*, const kernel::AttentionGrad&) {
  fail("no attention through cuDNN: {}", reason);
}

std::vector<SdpaEngine> sdpa_engines(const SdpaKey&, const std::string&, int, std::string* why) {
  *why = reason;
  return {};
}

}  // namespace trireme::cuda
