#include "kernels/cuda/matmul.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <compare>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "kernels/cuda/check.hpp"

namespace trireme::cuda {
namespace {

void check_blas(cublasStatus_t code, const char* call) {
  require(code == CUBLAS_STATUS_SUCCESS, "cuBLASLt: {} failed: {} ({})", call,
          cublasLtGetStatusString(code), cublasLtGetStatusName(code));
}

// Owns one of cuBLASLt's descriptors.
template <class T, cublasStatus_t (*destroy)(T)>
struct Destroy {
  using pointer = T;
  void operator()(T p) const { destroy(p); }
};
using Descriptor = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>,
                                   Destroy<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>,
                               Destroy<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>>;
using Preference =
    std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                    Destroy<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>>;

cudaDataType_t type_of(DType t) {
  require(t == DType::f32 || t == DType::bf16, "products on a GPU are of f32 and bf16, not of {}",
          name_of(t));
  return t == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
}

// A matrix as cuBLASLt stores them, by columns: rows x columns, `ld` elements between columns, used
// as it is or transposed.
struct Stored {
  std::int64_t rows, columns, ld;
  bool transposed;
  auto operator<=>(const Stored&) const = default;
};

// The transpose of a view, which by columns is the view itself where its rows are dense.
Stored transpose_of(const ConstView& v) {
  const auto [m, n] = std::pair(v.extent[0], v.extent[1]);
  if (v.stride[1] == 1 || n == 1) return {n, m, std::max(m == 1 ? n : v.stride[0], n), false};
  expect(v.stride[0] == 1 || m == 1, "one stride of a matrix is 1");
  return {m, n, std::max(n == 1 ? m : v.stride[1], m), true};
}

// The most that 16-byte steps of a pointer and of a column divide by: algorithms ask for it.
std::uint32_t alignment(const void* p, std::int64_t ld, DType t) {
  const auto at =
      reinterpret_cast<std::uintptr_t>(p) | static_cast<std::uintptr_t>(ld) * bytes_of(t);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(at & (~at + 1), 256));
}

Layout layout(const Stored& s, DType t) {
  cublasLtMatrixLayout_t l = nullptr;
  check_blas(cublasLtMatrixLayoutCreate(&l, type_of(t), static_cast<std::uint64_t>(s.rows),
                                        static_cast<std::uint64_t>(s.columns), s.ld),
             "cublasLtMatrixLayoutCreate");
  return Layout(l);
}

template <class T>
void set(const Descriptor& d, cublasLtMatmulDescAttributes_t what, T value) {
  check_blas(cublasLtMatmulDescSetAttribute(d.get(), what, &value, sizeof value),
             "cublasLtMatmulDescSetAttribute");
}
template <class T>
void set(const Preference& p, cublasLtMatmulPreferenceAttributes_t what, T value) {
  check_blas(cublasLtMatmulPreferenceSetAttribute(p.get(), what, &value, sizeof value),
             "cublasLtMatmulPreferenceSetAttribute");
}

// What decides how a product is computed.
struct Key {
  Stored left, right, out;
  DType in, result;
  bool add, bias;
  std::uint32_t left_alignment, right_alignment, out_alignment;
  auto operator<=>(const Key&) const = default;
};

// A product made ready: c' = b' a', all by columns.
struct Plan {
  Descriptor product;
  Layout left, right, out;
  cublasLtMatmulAlgo_t algorithm{};
};

struct Pointers {
  const void *left, *right;
  void* out;
};

}  // namespace

struct Products::Impl {
  Choice choice;
  Tf32 tf32;
  cublasLtHandle_t handle = nullptr;
  std::map<Key, Plan> plans;

  ~Impl() {
    if (handle) cublasLtDestroy(handle);
  }
  Plan describe(const Key&) const;
  std::vector<cublasLtMatmulHeuristicResult_t> candidates(const Key&, const Plan&) const;
  void run(const Plan&, const cublasLtMatmulAlgo_t&, const Pointers&, bool add,
           const View& workspace, cudaStream_t) const;
  double milliseconds(const Plan&, const cublasLtMatmulAlgo_t&, const Pointers&, bool add,
                      const View& workspace, cudaStream_t) const;
  const Plan& plan(const Key&, Pointers, const ConstView& bias, const View& workspace,
                   cudaStream_t);
};

Plan Products::Impl::describe(const Key& k) const {
  Plan p;
  cublasLtMatmulDesc_t d = nullptr;
  const auto arithmetic =
      k.in == DType::f32 && tf32 == Tf32::on ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check_blas(cublasLtMatmulDescCreate(&d, arithmetic, CUDA_R_32F), "cublasLtMatmulDescCreate");
  p.product.reset(d);
  const auto op = [](const Stored& s) { return s.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(p.product, CUBLASLT_MATMUL_DESC_TRANSA, op(k.left));
  set(p.product, CUBLASLT_MATMUL_DESC_TRANSB, op(k.right));
  if (k.bias) set(p.product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  p.left = layout(k.left, k.in);
  p.right = layout(k.right, k.in);
  p.out = layout(k.out, k.result);
  return p;
}

std::vector<cublasLtMatmulHeuristicResult_t> Products::Impl::candidates(const Key& k,
                                                                        const Plan& p) const {
  cublasLtMatmulPreference_t raw = nullptr;
  check_blas(cublasLtMatmulPreferenceCreate(&raw), "cublasLtMatmulPreferenceCreate");
  const Preference preference(raw);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes / 2);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, k.left_alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, k.right_alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, k.out_alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, k.out_alignment);
  std::vector<cublasLtMatmulHeuristicResult_t> found(choice == Choice::first ? 1 : 5);
  int n = 0;
  check_blas(cublasLtMatmulAlgoGetHeuristic(handle, p.product.get(), p.left.get(), p.right.get(),
                                            p.out.get(), p.out.get(), preference.get(),
                                            static_cast<int>(found.size()), found.data(), &n),
             "cublasLtMatmulAlgoGetHeuristic");
  found.resize(static_cast<std::size_t>(n));
  std::erase_if(found, [](const auto& f) { return f.state != CUBLAS_STATUS_SUCCESS; });
  require(!found.empty(), "cuBLASLt has no way to multiply [{}, {}] by [{}, {}] in {}",
          k.out.columns, k.left.transposed ? k.left.rows : k.left.columns,
          k.left.transposed ? k.left.rows : k.left.columns, k.out.rows, name_of(k.in));
  return found;
}

void Products::Impl::run(const Plan& p, const cublasLtMatmulAlgo_t& algorithm, const Pointers& at,
                         bool add, const View& workspace, cudaStream_t stream) const {
  const float alpha = 1, beta = add ? 1 : 0;
  check_blas(cublasLtMatmul(handle, p.product.get(), &alpha, at.left, p.left.get(), at.right,
                            p.right.get(), &beta, at.out, p.out.get(), at.out, p.out.get(),
                            &algorithm, workspace.data, workspace_bytes / 2, stream),
             "cublasLtMatmul");
}

// The shorter of two runs, after one to warm up.
double Products::Impl::milliseconds(const Plan& p, const cublasLtMatmulAlgo_t& algorithm,
                                    const Pointers& at, bool add, const View& workspace,
                                    cudaStream_t stream) const {
  std::array<cudaEvent_t, 2> mark{};
  for (auto& m : mark) check(cudaEventCreate(&m), "cudaEventCreate");
  float best = std::numeric_limits<float>::infinity();
  for (int i = 0; i < 3; ++i) {
    check(cudaEventRecord(mark[0], stream), "cudaEventRecord");
    run(p, algorithm, at, add, workspace, stream);
    check(cudaEventRecord(mark[1], stream), "cudaEventRecord");
    check(cudaEventSynchronize(mark[1]), "a product");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, mark[0], mark[1]), "cudaEventElapsedTime");
    if (i > 0) best = std::min(best, ms);
  }
  for (auto* m : mark) cudaEventDestroy(m);
  return static_cast<double>(best);
}

const Plan& Products::Impl::plan(const Key& k, Pointers at, const ConstView& bias,
                                 const View& workspace, cudaStream_t stream) {
  if (const auto it = plans.find(k); it != plans.end()) return it->second;
  if (!handle) check_blas(cublasLtCreate(&handle), "cublasLtCreate");
  auto p = describe(k);
  if (k.bias) set(p.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data);
  const auto found = candidates(k, p);
  p.algorithm = found[0].algo;
  // A sum that goes on must not be touched by a measurement: it goes to scratch, if it fits.
  const auto result = static_cast<std::size_t>(k.out.ld * k.out.columns) * bytes_of(k.result);
  const bool fits = result <= workspace_bytes / 2;
  if (k.add) at.out = workspace.data + workspace_bytes / 2;
  if (found.size() > 1 && (!k.add || fits)) {
    double least = std::numeric_limits<double>::infinity();
    for (const auto& f : found)
      if (const double ms = milliseconds(p, f.algo, at, k.add, workspace, stream); ms < least) {
        least = ms;
        p.algorithm = f.algo;
      }
  }
  return plans.emplace(k, std::move(p)).first->second;
}

Products::Products(Choice choice, Tf32 tf32) : impl_(std::make_unique<Impl>(choice, tf32)) {}

Products::~Products() = default;

void Products::matmul(void* stream, View c, ConstView a, ConstView b, Accumulate how,
                      ConstView bias, View workspace) {
  if (c.count() == 0) return;
  expect(workspace && workspace.span_bytes() >= workspace_bytes, "products have their workspace");
  if (c.stride[1] != 1 && c.extent[1] != 1) {  // its transpose has dense rows
    require(!bias, "a product with a bias has dense rows");
    return matmul(stream, c.transposed(), b.transposed(), a.transposed(), how, {}, workspace);
  }
  auto out = transpose_of(c);
  const Key key{.left = transpose_of(b),
                .right = transpose_of(a),
                .out = out,
                .in = a.dtype,
                .result = c.dtype,
                .add = how == Accumulate::add,
                .bias = static_cast<bool>(bias),
                .left_alignment = alignment(b.data, transpose_of(b).ld, b.dtype),
                .right_alignment = alignment(a.data, transpose_of(a).ld, a.dtype),
                .out_alignment = alignment(c.data, out.ld, c.dtype)};
  const Pointers at{b.data, a.data, c.data};
  auto* const s = static_cast<cudaStream_t>(stream);
  const auto& plan = impl_->plan(key, at, bias, workspace, s);
  if (bias)
    set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.data));
  impl_->run(plan, plan.algorithm, at, key.add, workspace, s);
}

}  // namespace trireme::cuda
