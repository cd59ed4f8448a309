#pragma once
// cuDNN's C++ frontend on a simulated device, as far as attention uses it: the same names, graphs of
// one operation, engines of which the first needs too much workspace. cudnn.cpp computes.
#include <cudnn.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#define CUDNN_FRONTEND_MAJOR_VERSION 0
#define CUDNN_FRONTEND_MINOR_VERSION 0
#define CUDNN_FRONTEND_PATCH_VERSION 0

namespace cudnn_frontend {

class error_object {
 public:
  error_object() = default;
  explicit error_object(std::string words) : words_(std::move(words)) {}
  bool is_bad() const { return !words_.empty(); }
  bool is_good() const { return words_.empty(); }
  std::string get_message() const { return words_; }

 private:
  std::string words_;
};

enum class DataType_t { NOT_SET, FLOAT, BFLOAT16 };
enum class HeurMode_t { A, FALLBACK };
enum class DiagonalAlignment_t { TOP_LEFT, BOTTOM_RIGHT };

// Properties of other devices are for the real library alone.
struct DeviceProperties {
  error_object deserialize(const std::vector<std::uint8_t>&);
};

struct EngineConfig {
  std::string tag;
  std::int64_t workspace;  // without what the frontend needs itself
};
using EngineConfigList = std::vector<EngineConfig>;

namespace detail {
error_object get_workspace_size(const EngineConfig&, std::int64_t&);
std::string get_engine_tag(const EngineConfig&);
struct Execution_plan_list {
  EngineConfigList get_barred_engine_configs() const { return configs; }
  EngineConfigList configs;
};
}  // namespace detail

namespace graph {

struct Tensor_attributes {
  std::int64_t uid = -1;
  std::vector<std::int64_t> dim, stride;
  DataType_t type = DataType_t::NOT_SET;
  bool output = false;

  Tensor_attributes& set_uid(std::int64_t value) { return uid = value, *this; }
  Tensor_attributes& set_dim(std::vector<std::int64_t> value) { return dim = std::move(value), *this; }
  Tensor_attributes& set_stride(std::vector<std::int64_t> value) {
    return stride = std::move(value), *this;
  }
  Tensor_attributes& set_data_type(DataType_t value) { return type = value, *this; }
  Tensor_attributes& set_output(bool value) { return output = value, *this; }
};
using Tensor = std::shared_ptr<Tensor_attributes>;

template <class Derived>
struct Attention {
  float scale = 1;
  std::optional<DiagonalAlignment_t> alignment;
  std::optional<std::int64_t> right_bound;  // keys after the diagonal that a query sees
  std::optional<std::int64_t> left_bound;   // keys up to the diagonal that it sees

  Derived& set_name(const std::string&) { return self(); }
  Derived& set_attn_scale(float value) { return scale = value, self(); }
  Derived& set_diagonal_alignment(DiagonalAlignment_t value) { return alignment = value, self(); }
  Derived& set_diagonal_band_right_bound(std::int64_t value) { return right_bound = value, self(); }
  Derived& set_diagonal_band_left_bound(int value) { return left_bound = value, self(); }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
};
struct SDPA_attributes : Attention<SDPA_attributes> {
  bool stats = false;
  SDPA_attributes& set_generate_stats(bool value) { return stats = value, *this; }
};
struct SDPA_backward_attributes : Attention<SDPA_backward_attributes> {
  bool deterministic = false;
  SDPA_backward_attributes& set_deterministic_algorithm(bool value) {
    return deterministic = value, *this;
  }
};

class Graph {
 public:
  Graph& set_sm_version(int) { return *this; }
  Graph& set_device_properties(const std::shared_ptr<DeviceProperties>&) { return *this; }
  Graph& set_io_data_type(DataType_t value) { return io_ = value, *this; }
  Graph& set_intermediate_data_type(DataType_t value) { return between_ = value, *this; }
  Graph& set_compute_data_type(DataType_t value) { return compute_ = value, *this; }

  Tensor tensor(const Tensor_attributes&);
  std::array<Tensor, 2> sdpa(Tensor q, Tensor k, Tensor v, SDPA_attributes);
  std::array<Tensor, 3> sdpa_backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor d_o,
                                      Tensor stats, SDPA_backward_attributes);

  error_object validate();
  error_object build_operation_graph(cudnnHandle_t = nullptr);
  error_object create_execution_plans(const std::vector<HeurMode_t>&);
  Graph& deselect_workspace_greater_than(std::int64_t bytes);
  error_object check_support();
  error_object build_plans(cudnnHandle_t);
  error_object get_workspace_size(std::int64_t&) const;
  error_object execute(cudnnHandle_t, std::unordered_map<std::int64_t, void*>& pointers,
                       void* workspace) const;

 protected:
  std::int64_t get_autotune_workspace_size() const;
  detail::Execution_plan_list plans;

 private:
  DataType_t io_ = DataType_t::NOT_SET, between_ = DataType_t::NOT_SET,
             compute_ = DataType_t::NOT_SET;
  // q k v o stats, and backward do dq dk dv.
  std::vector<Tensor> tensors_;
  bool backward_ = false, deterministic_ = true;
  float scale_ = 1;
  std::optional<std::int64_t> right_bound_, left_bound_;
  bool bottom_right_ = false;
  enum { described, valid, lowered, planned, supported, built } state_ = described;
  error_object must_be(int state, const char* what) const;
};

}  // namespace graph
}  // namespace cudnn_frontend
