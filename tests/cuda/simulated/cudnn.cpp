// cuDNN of a simulated device: graphs of one attention, held to what the frontend documents, and
// two engines for each.
#include <cudnn_frontend.h>

#include <algorithm>
#include <cstring>

#include "tests/cuda/simulated/attention.hpp"
#include "tests/cuda/simulated/cudnn.hpp"
#include "tests/cuda/simulated/memory.hpp"
#include "tests/cuda/simulated/streams.hpp"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

cudnnStatus_t cudnnCreate(cudnnHandle_t* out) {
  *out = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
std::size_t cudnnGetVersion() {
  return CUDNN_VERSION;
}
const char* cudnnGetErrorString(cudnnStatus_t) {
  return "an error of the simulation";
}
void cudnnGetLastErrorString(char* text, std::size_t most) {
  if (most > 0) *text = '\0';
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

namespace trireme::simulated {
namespace {

std::int64_t up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace
}  // namespace trireme::simulated

namespace cudnn_frontend {

error_object DeviceProperties::deserialize(const std::vector<std::uint8_t>&) {
  return error_object("a simulated cuDNN knows its own device alone");
}

error_object detail::get_workspace_size(const EngineConfig& e, std::int64_t& bytes) {
  bytes = e.workspace;
  return {};
}
std::string detail::get_engine_tag(const EngineConfig& e) {
  return e.tag;
}

namespace graph {

error_object Graph::must_be(int state, const char* what) const {
  return state_ >= state ? error_object() : error_object(std::string("called before ") + what);
}

Tensor Graph::tensor(const Tensor_attributes& t) {
  auto made = std::make_shared<Tensor_attributes>(t);
  if (made->type == DataType_t::NOT_SET) made->type = io_;
  return made;
}

std::array<Tensor, 2> Graph::sdpa(Tensor q, Tensor k, Tensor v, SDPA_attributes how) {
  const auto o = tensor({}), stats = how.stats ? tensor({}) : nullptr;
  tensors_ = {q, k, v, o, stats};
  scale_ = how.scale;
  if (how.alignment) right_bound_ = how.right_bound;
  bottom_right_ = how.alignment == DiagonalAlignment_t::BOTTOM_RIGHT;
  left_bound_ = how.left_bound;
  return {o, stats};
}

std::array<Tensor, 3> Graph::sdpa_backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor d_o,
                                           Tensor stats, SDPA_backward_attributes how) {
  const auto dq = tensor({}), dk = tensor({}), dv = tensor({});
  tensors_ = {q, k, v, o, stats, d_o, dq, dk, dv};
  scale_ = how.scale;
  if (how.alignment) right_bound_ = how.right_bound;
  bottom_right_ = how.alignment == DiagonalAlignment_t::BOTTOM_RIGHT;
  left_bound_ = how.left_bound;
  backward_ = true;
  deterministic_ = how.deterministic;
  return {dq, dk, dv};
}

error_object Graph::validate() {
  if (tensors_.empty()) return error_object("a graph of nothing");
  if (between_ != DataType_t::FLOAT || compute_ != DataType_t::FLOAT)
    return error_object("sums are f32");
  const auto wrong = [](std::size_t tensor, const char* how) {
    return error_object("tensor " + std::to_string(tensor) + " " + how);
  };
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto& t = tensors_[i];
    if (!t || t->uid < 0 || t->dim.size() != 4 || t->stride.size() != 4)
      return wrong(i, "is not described");
    const auto &q = tensors_[0]->dim, &k = tensors_[std::min<std::size_t>(i, 1)]->dim;
    const bool stats = i == 4, keys = i == 1 || i == 2 || i == 7 || i == 8;
    const bool result = backward_ ? i > 5 : i == 3 || i == 4;
    const std::vector<std::int64_t> dim{q[0], keys ? k[1] : q[1], keys ? k[2] : q[2],
                                        stats ? 1 : q[3]};
    if (t->dim != dim) return wrong(i, "has other extents");
    if (t->type != (stats ? DataType_t::FLOAT : DataType_t::BFLOAT16))
      return wrong(i, "has another type");
    if (t->output != result) return wrong(i, result ? "is no output" : "is an output");
  }
  const auto &q = tensors_[0]->dim, &k = tensors_[1]->dim;
  if (q[1] % k[1] != 0 || q[3] % 8 != 0 || q[3] > 256)
    return error_object("no engine has these heads");
  if (bottom_right_ && q[2] > k[2]) return error_object("more queries than keys");
  state_ = valid;
  return {};
}

error_object Graph::build_operation_graph(cudnnHandle_t) {
  if (auto e = must_be(valid, "validate"); e.is_bad()) return e;
  state_ = lowered;
  return {};
}

// rowsum(do o).
std::int64_t Graph::get_autotune_workspace_size() const {
  const auto& q = tensors_[0]->dim;
  return backward_ ? 4 * q[0] * q[1] * q[2] : 0;
}

error_object Graph::create_execution_plans(const std::vector<HeurMode_t>& modes) {
  if (auto e = must_be(lowered, "build_operation_graph"); e.is_bad() || modes.empty()) return e;
  const auto& q = tensors_[0]->dim;
  const auto heads = q[0] * q[1], keys = tensors_[1]->dim[2];
  std::int64_t bytes = 16;
  if (backward_) {
    bytes += deterministic_
                 ? 2 * heads * trireme::simulated::up(q[2], 64) * trireme::simulated::up(keys, 128)
                 : 4 * heads * q[2] * q[3];
    if (q[1] != tensors_[1]->dim[1]) bytes += 4 * heads * keys * q[3];  // dk and dv by query head
  }
  bytes = static_cast<std::int64_t>(static_cast<double>(bytes) * trireme::simulated::appetite());
  plans.configs = {{"one that needs too much", 4 * bytes + (1 << 20)}, {"one that fits", bytes}};
  state_ = planned;
  return {};
}

Graph& Graph::deselect_workspace_greater_than(std::int64_t bytes) {
  std::erase_if(plans.configs, [&](const EngineConfig& e) { return e.workspace > bytes; });
  return *this;
}

error_object Graph::check_support() {
  if (auto e = must_be(planned, "create_execution_plans"); e.is_bad()) return e;
  if (plans.configs.empty()) return error_object("no engine is left");
  state_ = supported;
  return {};
}

error_object Graph::build_plans(cudnnHandle_t) {
  if (auto e = must_be(supported, "check_support"); e.is_bad()) return e;
  state_ = built;
  return {};
}

error_object Graph::get_workspace_size(std::int64_t& bytes) const {
  bytes = plans.configs.front().workspace + get_autotune_workspace_size();
  return must_be(built, "build_plans");
}

error_object Graph::execute(cudnnHandle_t handle, std::unordered_map<std::int64_t, void*>& pointers,
                            void* workspace) const {
  using namespace trireme::simulated;
  std::int64_t scratch = 0;
  if (auto e = get_workspace_size(scratch); e.is_bad()) return e;
  const auto bytes = static_cast<std::size_t>(scratch);
  if (!on_device(workspace, bytes)) return error_object("the workspace is too small");
  AttentionCall call{{}, scale_, right_bound_, left_bound_, bottom_right_, deterministic_};
  for (const auto& t : tensors_) {
    const auto it = pointers.find(t->uid);
    if (it == pointers.end()) return error_object("a tensor has no address");
    Operand x{it->second, {}, {}, t->type == DataType_t::FLOAT};
    std::ranges::copy(t->dim, x.dim.begin());
    std::ranges::copy(t->stride, x.stride.begin());
    if (!x.aligned()) return error_object("a tensor's rows do not lie on 16 bytes");
    if (!on_device(x.data, x.bytes()))
      return error_object("a tensor is not in the device's memory");
    call.at.push_back(x);
  }
  const auto code = put(handle->stream, backward_ ? "attention's gradient" : "attention", [=] {
    std::memset(workspace, 0xff, bytes);  // the library's
    compute(call);
  });
  return code == cudaSuccess ? error_object() : error_object("the device has failed");
}

}  // namespace graph
}  // namespace cudnn_frontend
