// The only file that includes cuDNN's C++ frontend, which takes a gigabyte and half a minute to
// compile.
#include "kernels/cuda/attention/sdpa.hpp"

#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace trireme::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

const char* name_of(Direction d) {
  return d == Direction::forward ? "forward" : "backward";
}

std::string describe(const SdpaKey& key) {
  const auto [B, T, H, G, D, S] = key.extents;
  return fmt::format("attention {}{} of B {} T {} keys {} heads {}/{} D {}{}",
                     name_of(key.direction),
                     key.direction == Direction::backward && key.determinism == Determinism::on
                         ? ", deterministic,"
                         : "",
                     B, T, S, H, G, D, key.window > 0 ? fmt::format(" window {}", key.window) : "");
}

[[noreturn]] void refuse(const SdpaKey& key, const char* step, const std::string& words) {
  fail(
      "cuDNN {}: {} failed at {}: {} -- run on a newer GPU or cuDNN, choose a head dim of 64 or "
      "128, or run.backend = \"host\"",
      cudnnGetVersion(), describe(key), step, words);
}

void check(fe::error_object e, const SdpaKey& key, const char* step) {
  if (e.is_bad()) refuse(key, step, e.get_message());
}

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char words[512] = "";
  cudnnGetLastErrorString(words, sizeof words);
  fail("cuDNN {}: {} failed: {} {}", cudnnGetVersion(), call, cudnnGetErrorString(status), words);
}

class Handle {
 public:
  Handle() { check(cudnnCreate(&handle_), "cudnnCreate"); }
  ~Handle() { cudnnDestroy(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

// A graph that exposes the engines before one of them is built. The base class hides them.
struct Engines : Graph {
  fe::EngineConfigList list() { return plans.get_barred_engine_configs(); }
  // Returns the frontend's own workspace, which the engines' numbers do not include.
  std::int64_t own_bytes() const { return get_autotune_workspace_size(); }
};

const std::vector heuristics{fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK};

std::int64_t uid(std::size_t operand) {
  return static_cast<std::int64_t>(operand) + 1;
}

// Sets an operand's id, dims and strides. cuDNN's order of dims is B, heads, T, D, whatever the
// order in memory.
template <class Attributes>
Attributes& describe_operand(Attributes& t, const SdpaKey& key, std::size_t operand) {
  const auto [B, T, H, G, D, S] = key.extents;
  const auto [sB, sT, sH] = key.strides[operand];
  const bool keys =
      operand == sdpa_k || operand == sdpa_v || operand == sdpa_dk || operand == sdpa_dv;
  t.set_uid(uid(operand));
  if (operand == sdpa_lse)
    t.set_dim({B, H, T, 1}).set_stride({sB, sH, sT, 1}).set_data_type(fe::DataType_t::FLOAT);
  else
    t.set_dim({B, keys ? G : H, keys ? S : T, D}).set_stride({sB, sH, sT, 1});
  return t;
}

template <class Attributes>
void mask(Attributes& how, const SdpaKey& key) {
  using Side = fe::DiagonalAlignment_t;
  if (key.mask == SdpaMask::none) return;
  how.set_diagonal_alignment(key.mask == SdpaMask::causal ? Side::TOP_LEFT : Side::BOTTOM_RIGHT)
      .set_diagonal_band_right_bound(0);
  if (key.window > 0) how.set_diagonal_band_left_bound(key.window);
}

// Builds the graph of a call. `sm` is the architecture, e.g. 90, or 0 for that of the current
// device. An operation copies the graph's properties when it is added, so they are set first.
std::unique_ptr<Engines> graph_of(const SdpaKey& key, int sm) {
  auto graph = std::make_unique<Engines>();
  if (sm != 0) graph->set_sm_version(sm);
  graph->set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto input = [&](std::size_t operand) {
    fe::graph::Tensor_attributes t;
    return graph->tensor(describe_operand(t, key, operand));
  };
  const auto output = [&](const Tensor& t, std::size_t operand) {
    describe_operand(*t, key, operand).set_output(true);
  };
  const auto q = input(sdpa_q), k = input(sdpa_k), v = input(sdpa_v);
  const auto scale = static_cast<float>(key.scale);
  if (key.direction == Direction::forward) {
    auto how = fe::graph::SDPA_attributes()
                   .set_name("attention")
                   .set_generate_stats(true)
                   .set_attn_scale(scale);
    mask(how, key);
    const auto [o, lse] = graph->sdpa(q, k, v, how);
    output(o, sdpa_o);
    output(lse, sdpa_lse);
  } else {
    auto how = fe::graph::SDPA_backward_attributes()
                   .set_name("attention_grad")
                   .set_deterministic_algorithm(key.determinism == Determinism::on)
                   .set_attn_scale(scale);
    mask(how, key);
    const auto o = input(sdpa_o), d_o = input(sdpa_do), lse = input(sdpa_lse);
    const auto [dq, dk, dv] = graph->sdpa_backward(q, k, v, o, d_o, lse, how);
    output(dq, sdpa_dq);
    output(dk, sdpa_dk);
    output(dv, sdpa_dv);
  }
  return graph;
}

std::vector<SdpaEngine> engines_of(Engines& graph) {
  std::vector<SdpaEngine> found;
  for (auto& config : graph.list()) {
    std::int64_t bytes = 0;
    if (fe::detail::get_workspace_size(config, bytes).is_bad()) continue;
    found.push_back(
        {fe::detail::get_engine_tag(config), static_cast<std::size_t>(bytes + graph.own_bytes())});
  }
  return found;
}

struct Built {
  std::unique_ptr<Engines> graph;  // null if all engines need more than `most` bytes
  std::size_t least = 0;           // bytes of workspace: the plan's, or the smallest engine's
};

// Builds the best engine that needs at most `most` bytes of workspace.
Built build(const SdpaKey& key, cudnnHandle_t handle, std::size_t most) {
  auto graph = graph_of(key, 0);
  check(graph->validate(), key, "validation");
  check(graph->build_operation_graph(handle), key, "the operation graph");
  check(graph->create_execution_plans(heuristics), key, "heuristics");
  std::size_t least = SIZE_MAX;
  for (const auto& engine : engines_of(*graph)) least = std::min(least, engine.workspace);
  if (least > most && least < SIZE_MAX) return {nullptr, least};
  graph->deselect_workspace_greater_than(static_cast<std::int64_t>(most) - graph->own_bytes());
  check(graph->check_support(), key, "its check of support");
  check(graph->build_plans(handle), key, "building the plan");
  std::int64_t bytes = 0;
  check(graph->get_workspace_size(bytes), key, "asking for the workspace");
  // A plan may need more than its engine stated.
  if (static_cast<std::size_t>(bytes) > most) return {nullptr, static_cast<std::size_t>(bytes)};
  return {std::move(graph), static_cast<std::size_t>(bytes)};
}

std::byte* aligned(std::byte* p) {
  constexpr std::uintptr_t line = sdpa_alignment;
  return p + (line - reinterpret_cast<std::uintptr_t>(p) % line) % line;
}

}  // namespace

std::string sdpa_library() {
  return fmt::format("cudnn-frontend {}.{}.{}", CUDNN_FRONTEND_MAJOR_VERSION,
                     CUDNN_FRONTEND_MINOR_VERSION, CUDNN_FRONTEND_PATCH_VERSION);
}

struct Sdpa::Plans {
  Determinism determinism;
  int sm;
  std::size_t limit;  // for the workspace of a part, in bytes
  std::unique_ptr<Handle> handle;
  std::map<std::pair<SdpaKey, std::size_t>, Built> all;  // by key and workspace limit
  bool warned = false;

  const Built& of(const SdpaKey& key, std::size_t most) {
    auto at = all.find({key, most});
    if (at == all.end())
      at = all.emplace(std::pair{key, most}, build(key, handle->get(), most)).first;
    return at->second;
  }

  void warn(const SdpaKey& key, std::size_t least, std::size_t most, bool smaller) {
    if (std::exchange(warned, true)) return;
    log_warning(
        "cuDNN {}: {} needs {} bytes of workspace, but the plan has {}: {}. Attention is slower "
        "than with a cuDNN version that Trireme knows",
        cudnnGetVersion(), describe(key), least, most,
        smaller ? "smaller parts are computed one after the other"
                : "Trireme's own kernel computes it");
  }

  struct Call {
    const Graph* graph;
    SdpaKey key;
    SdpaOperands operands;
  };
  struct Operation {
    const SdpaOperands& operands;
    const AttentionShape& shape;
    Direction direction;
    std::size_t most;  // bytes of workspace
  };

  // Adds the calls that compute a part. Returns false if the part cannot be made small enough.
  bool add_calls(const Operation& o, const SdpaPart& part, std::vector<Call>& calls) {
    const auto operands = operands_of(o.operands, o.shape, part);
    const auto key = key_of(shape_of(o.shape, part), o.direction, determinism, operands);
    const auto& built = of(key, o.most);
    if (built.graph) {
      calls.push_back({built.graph.get(), key, operands});
      return true;
    }
    const auto halves = halves_of(part);
    const bool done = !halves.empty() && std::ranges::all_of(halves, [&](const auto& half) {
      return add_calls(o, half, calls);
    });
    warn(key, built.least, o.most, done);
    return done;
  }

  bool run(void* stream, Direction direction, const SdpaOperands& operands,
           const AttentionShape& shape, const View& workspace) {
    check_operands(shape, direction, operands);
    const auto needed = sdpa_workspace(shape, direction, determinism, limit);
    require(workspace.span_bytes() >= needed,
            "cuDNN attention: the workspace has {} bytes, attention_bytes says {}",
            workspace.span_bytes(), needed);
    if (!handle) handle = std::make_unique<Handle>();
    check(cudnnSetStream(handle->get(), static_cast<cudaStream_t>(stream)), "cudnnSetStream");
    const Operation operation{operands, shape, direction, needed - sdpa_alignment};
    std::vector<Call> calls;
    for (const auto& part : sdpa_parts(shape, direction, determinism, limit))
      if (!add_calls(operation, part, calls)) return false;
    for (const auto& call : calls) {
      std::unordered_map<std::int64_t, void*> pointers;
      for (std::size_t i = 0; i < operands_of(direction); ++i)
        pointers.emplace(uid(i), const_cast<std::byte*>(call.operands[i].data));
      check(call.graph->execute(handle->get(), pointers, aligned(workspace.data)), call.key,
            "execution");
    }
    return true;
  }
};

Sdpa::Sdpa(Determinism d, int sm, std::size_t limit)
    : plans_(new Plans{d, sm, limit, nullptr, {}, false}) {}
Sdpa::~Sdpa() = default;
Sdpa::Sdpa(Sdpa&&) noexcept = default;

bool Sdpa::supports(const AttentionShape& s, DType dtype, Direction direction) const {
  return sdpa_supports(s, dtype, direction, plans_->sm);
}
std::size_t Sdpa::workspace(const AttentionShape& s, Direction direction) const {
  return sdpa_workspace(s, direction, plans_->determinism, plans_->limit);
}

bool Sdpa::run(void* stream, const kernel::Attention& o) {
  return plans_->run(stream, Direction::forward,
                     {o.q_BTHD, o.k_BTGD, o.v_BTGD, o.o_BTHD, o.lse_BHT}, o.shape, o.workspace);
}

bool Sdpa::run(void* stream, const kernel::AttentionGrad& o) {
  return plans_->run(stream, Direction::backward,
                     {o.q_BTHD, o.k_BTGD, o.v_BTGD, o.o_BTHD, o.lse_BHT, o.do_BTHD, o.dq_BTHD,
                      o.dk_BTGD, o.dv_BTGD},
                     o.shape, o.workspace);
}

std::vector<SdpaEngine> sdpa_engines(const SdpaKey& key, const std::string& device, int sm,
                                     std::string* why) {
  const auto properties = std::make_shared<fe::DeviceProperties>();
  const std::vector<std::uint8_t> text(device.begin(), device.end());
  if (auto e = properties->deserialize(text); e.is_bad()) {
    fail("cuDNN {} does not take the device's properties: {}", cudnnGetVersion(), e.get_message());
  }
  auto graph = graph_of(key, sm);
  graph->set_device_properties(properties);
  auto e = graph->validate();
  if (e.is_good()) e = graph->build_operation_graph();
  if (e.is_good()) e = graph->create_execution_plans(heuristics);
  if (e.is_good()) e = graph->check_support();
  if (e.is_bad()) {
    *why = e.get_message();
    return {};
  }
  return engines_of(*graph);
}

}  // namespace trireme::cuda
