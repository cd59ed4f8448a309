// Attention of a simulated cuDNN: what its fused engines document, with their roundings: weights
// and their gradients are bf16 in products, sums are f32, and a key/value head adds what its query
// heads got in bf16.
#include <cudnn_frontend.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "lib/base/dtype.hpp"
#include "tests/cuda/simulated/chance.hpp"
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
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

namespace trireme::simulated {
namespace {

using cudnn_frontend::DataType_t;
using cudnn_frontend::graph::Tensor_attributes;

// A tensor [B, heads, T, D] where its strides put it.
struct Operand {
  void* data;
  std::array<std::int64_t, 4> dim, stride;
  DataType_t type;

  std::size_t bytes() const {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < 4; ++d) last += (dim[d] - 1) * stride[d];
    return static_cast<std::size_t>(last + 1) * (type == DataType_t::FLOAT ? 4 : 2);
  }
  std::int64_t offset(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return b * stride[0] + h * stride[1] + t * stride[2];
  }
  // Every row on 16 bytes, as its engines read them.
  bool aligned() const {
    if (type == DataType_t::FLOAT) return reinterpret_cast<std::uintptr_t>(data) % 4 == 0;
    bool all = reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride[3] == 1;
    for (std::size_t d = 0; d < 3; ++d) all = all && (dim[d] == 1 || stride[d] % 8 == 0);
    return all;
  }
};

// Rows of one head, dense in f32.
struct Rows {
  Rows(std::int64_t rows, std::int64_t width)
      : width(width), values(static_cast<std::size_t>(rows * width)) {}
  Rows(const Operand& x, std::int64_t b, std::int64_t h) : Rows(x.dim[2], x.dim[3]) {
    for (std::int64_t t = 0; t < x.dim[2]; ++t)
      for (std::int64_t d = 0; d < width; ++d) {
        const auto at = x.offset(b, h, t) + d;
        row(t)[d] = x.type == DataType_t::FLOAT
                        ? static_cast<const float*>(x.data)[at]
                        : static_cast<float>(static_cast<const bf16*>(x.data)[at]);
      }
  }
  void write(const Operand& x, std::int64_t b, std::int64_t h) const {
    for (std::int64_t t = 0; t < x.dim[2]; ++t)
      for (std::int64_t d = 0; d < width; ++d) {
        const auto at = x.offset(b, h, t) + d;
        if (x.type == DataType_t::FLOAT)
          static_cast<float*>(x.data)[at] = row(t)[d];
        else
          static_cast<bf16*>(x.data)[at] = bf16(row(t)[d]);
      }
  }
  float* row(std::int64_t t) { return values.data() + t * width; }
  const float* row(std::int64_t t) const { return values.data() + t * width; }

  std::int64_t width;
  std::vector<float> values;
};

float rounded(float x) {
  return static_cast<float>(bf16(x));
}
float dot(const float* a, const float* b, std::int64_t n) {
  return std::inner_product(a, a + n, b, 0.0F);
}
void add(float* to, float factor, const float* from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

struct Call {
  std::vector<Operand> at;  // q k v o stats do dq dk dv
  float scale;
  std::optional<std::int64_t> right_bound;
  bool deterministic;

  bool sees(std::int64_t query, std::int64_t key) const {
    return !right_bound || key <= query + *right_bound;
  }
  std::int64_t group() const { return at[0].dim[1] / at[1].dim[1]; }
};

void forward(const Call& c, std::int64_t b, std::int64_t h) {
  const Rows q(c.at[0], b, h), k(c.at[1], b, h / c.group()), v(c.at[2], b, h / c.group());
  Rows o(c.at[3].dim[2], c.at[3].dim[3]), stats(c.at[4].dim[2], 1);
  const auto T = c.at[0].dim[2], D = c.at[0].dim[3];
  std::vector<float> score(static_cast<std::size_t>(T));
  for (std::int64_t t = 0; t < T; ++t) {
    float most = -std::numeric_limits<float>::infinity(), sum = 0;
    for (std::int64_t s = 0; s < T; ++s) {
      auto& x = score[static_cast<std::size_t>(s)];
      x = c.sees(t, s) ? c.scale * dot(q.row(t), k.row(s), D)
                       : -std::numeric_limits<float>::infinity();
      most = std::max(most, x);
    }
    for (std::int64_t s = 0; s < T; ++s) {
      const float p = std::exp(score[static_cast<std::size_t>(s)] - most);
      sum += p;
      add(o.row(t), rounded(p), v.row(s), D);  // also where p is 0
    }
    for (std::int64_t d = 0; d < D; ++d) o.row(t)[d] /= sum;
    *stats.row(t) = most + std::log(sum);
  }
  o.write(c.at[3], b, h);
  stats.write(c.at[4], b, h);
}

// Gradients of one query head; dk and dv still by query head.
void backward(const Call& c, std::int64_t b, std::int64_t h, Rows& dk, Rows& dv) {
  const Rows q(c.at[0], b, h), k(c.at[1], b, h / c.group()), v(c.at[2], b, h / c.group()),
      o(c.at[3], b, h), stats(c.at[4], b, h), d_o(c.at[5], b, h);
  const auto T = c.at[0].dim[2], D = c.at[0].dim[3];
  Rows dq(T, D);
  // Blocks of keys add to dq: in order, or as they come.
  constexpr std::int64_t block = 16;
  std::vector<std::int64_t> order(static_cast<std::size_t>((T + block - 1) / block));
  std::iota(order.begin(), order.end(), 0);
  if (!c.deterministic) chance().shuffle(order);
  for (const auto first : order)
    for (std::int64_t t = 0; t < T; ++t) {
      const float delta = dot(d_o.row(t), o.row(t), D);
      for (auto s = first * block; s < std::min(T, (first + 1) * block); ++s) {
        if (!c.sees(t, s)) continue;
        const float p = std::exp(c.scale * dot(q.row(t), k.row(s), D) - *stats.row(t));
        const float ds = rounded(p * (dot(d_o.row(t), v.row(s), D) - delta));
        add(dv.row(s), rounded(p), d_o.row(t), D);
        add(dk.row(s), c.scale * ds, q.row(t), D);
        add(dq.row(t), c.scale * ds, k.row(s), D);
      }
    }
  dq.write(c.at[6], b, h);
}

void compute(const Call& c) {
  const auto B = c.at[0].dim[0], H = c.at[0].dim[1], T = c.at[0].dim[2], D = c.at[0].dim[3];
  for (std::int64_t b = 0; b < B; ++b) {
    if (c.at.size() == 5) {
      for (std::int64_t h = 0; h < H; ++h) forward(c, b, h);
      continue;
    }
    for (std::int64_t g = 0; g < c.at[1].dim[1]; ++g) {
      Rows dk(T, D), dv(T, D);
      for (std::int64_t h = g * c.group(); h < (g + 1) * c.group(); ++h) {
        Rows dk_h(T, D), dv_h(T, D);
        backward(c, b, h, dk_h, dv_h);
        for (auto* const part : {&dk_h, &dv_h})
          if (c.group() > 1) std::ranges::transform(part->values, part->values.begin(), rounded);
        add(dk.values.data(), 1, dk_h.values.data(), T * D);
        add(dv.values.data(), 1, dv_h.values.data(), T * D);
      }
      dk.write(c.at[7], b, g);
      dv.write(c.at[8], b, g);
    }
  }
}

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
  return {o, stats};
}

std::array<Tensor, 3> Graph::sdpa_backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor d_o,
                                           Tensor stats, SDPA_backward_attributes how) {
  const auto dq = tensor({}), dk = tensor({}), dv = tensor({});
  tensors_ = {q, k, v, o, stats, d_o, dq, dk, dv};
  scale_ = how.scale;
  if (how.alignment) right_bound_ = how.right_bound;
  backward_ = true;
  deterministic_ = how.deterministic;
  return {dq, dk, dv};
}

error_object Graph::validate() {
  if (tensors_.empty()) return error_object("a graph of nothing");
  if (between_ != DataType_t::FLOAT || compute_ != DataType_t::FLOAT)
    return error_object("sums are f32");
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto& t = tensors_[i];
    if (!t || t->uid < 0 || t->dim.size() != 4 || t->stride.size() != 4)
      return error_object("tensor " + std::to_string(i) + " is not described");
    if (t->type != (i == 4 ? DataType_t::FLOAT : DataType_t::BFLOAT16))
      return error_object("tensor " + std::to_string(i) + " has another type");
    const bool result = backward_ ? i > 5 : i == 3 || i == 4;
    if (t->output != result)
      return error_object("tensor " + std::to_string(i) + " is not an output, or is one");
    const auto &q = tensors_[0]->dim, &k = tensors_[1]->dim;
    const bool keys = i == 1 || i == 2 || i == 7 || i == 8;
    const std::vector<std::int64_t> dim{q[0], keys ? k[1] : q[1], q[2], i == 4 ? 1 : q[3]};
    if (t->dim != dim) return error_object("tensor " + std::to_string(i) + " has other extents");
  }
  const auto &q = tensors_[0]->dim, &k = tensors_[1]->dim;
  if (q[1] % k[1] != 0 || q[3] % 8 != 0 || q[3] > 256)
    return error_object("no engine has these heads");
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
  const auto heads = q[0] * q[1];
  std::int64_t bytes = 16;
  if (backward_) {
    bytes += deterministic_
                 ? 2 * heads * trireme::simulated::up(q[2], 64) * trireme::simulated::up(q[2], 128)
                 : 4 * heads * q[2] * q[3];
    if (q[1] != tensors_[1]->dim[1]) bytes += 4 * heads * q[2] * q[3];  // dk and dv by query head
  }
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
  Call call{{}, scale_, right_bound_, deterministic_};
  for (const auto& t : tensors_) {
    const auto it = pointers.find(t->uid);
    if (it == pointers.end()) return error_object("a tensor has no address");
    Operand x{it->second, {}, {}, t->type};
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
