// cuBLASLt of a simulated device: products by columns in f32, with the epilogues that the program
// asks for and the rules that NVIDIA's documentation of cublasLtMatmul gives for them.
#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "kernels/math/gelu.hpp"
#include "lib/base/dtype.hpp"
#include "tests/cuda/simulated/blaslt.hpp"
#include "tests/cuda/simulated/memory.hpp"
#include "tests/cuda/simulated/streams.hpp"

namespace trireme::simulated {
namespace {

// An attribute's bytes by its number.
class Attributes {
 public:
  cublasStatus_t set(int what, const void* value, std::size_t bytes) {
    const auto* const first = static_cast<const std::byte*>(value);
    values_[what].assign(first, first + bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  template <class T>
  T get(int what, T otherwise) const {
    const auto it = values_.find(what);
    if (it == values_.end() || it->second.size() != sizeof(T)) return otherwise;
    std::memcpy(&otherwise, it->second.data(), sizeof(T));
    return otherwise;
  }

 private:
  std::map<int, std::vector<std::byte>> values_;
};

struct Product {
  cublasComputeType_t arithmetic;
  Attributes attributes;
  bool transposes(cublasLtMatmulDescAttributes_t what) const {
    return attributes.get<std::int32_t>(what, CUBLAS_OP_N) == CUBLAS_OP_T;
  }
  cublasLtEpilogue_t epilogue() const {
    return static_cast<cublasLtEpilogue_t>(
        attributes.get<std::uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT));
  }
  template <class T>
  T* pointer(cublasLtMatmulDescAttributes_t what) const {
    return static_cast<T*>(attributes.get<void*>(what, nullptr));
  }
};

struct Matrix {
  cudaDataType type;
  std::int64_t rows, columns, ld;
  std::size_t bytes() const {
    const std::size_t element = type == CUDA_R_32F ? 4 : type == CUDA_R_8F_E4M3 ? 1 : 2;
    return static_cast<std::size_t>((columns - 1) * ld + rows) * element;
  }
};

// The scales of an operand in fp8. A scale belongs to 128 rows of one column, or to a tile of 128
// rows and 128 columns.
struct Scales {
  std::int32_t mode;
  const float* data;

  static constexpr auto tiles = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  bool known() const { return mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F || mode == tiles; }
  static std::int64_t padded(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }
  static std::int64_t groups(std::int64_t n) { return padded(n, 128) / 128; }
  std::size_t bytes(const Matrix& m) const {
    const auto n = mode == tiles ? groups(m.columns) * padded(groups(m.rows), 4)
                                 : groups(m.rows) * padded(m.columns, 4);
    return static_cast<std::size_t>(n) * sizeof(float);
  }
  float of(const Matrix& m, std::int64_t row, std::int64_t column) const {
    return mode == tiles ? data[column / 128 * padded(groups(m.rows), 4) + row / 128]
                         : data[row / 128 * padded(m.columns, 4) + column];
  }
};
Scales scales_of(const Product& p, cublasLtMatmulDescAttributes_t mode,
                 cublasLtMatmulDescAttributes_t pointer) {
  return {p.attributes.get<std::int32_t>(mode, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F),
          p.pointer<const float>(pointer)};
}
Scales scales_of_a(const Product& p) {
  return scales_of(p, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
}
Scales scales_of_b(const Product& p) {
  return scales_of(p, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
}

float from_fp8(std::uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const float magnitude = exponent == 15 && mantissa == 7 ? std::numeric_limits<float>::quiet_NaN()
                          : exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return code & 0x80 ? -magnitude : magnitude;
}

// What an algorithm was found for. The first that is recommended takes whole tiles alone: no other
// shapes than those whose numbers are multiples of 8.
struct Found {
  std::uint32_t magic, a, b, c, d;  // alignments
  std::uint32_t whole_tiles;
};
constexpr std::uint32_t magic = 0x7472696d;

template <class T>
T& as(void* p) {
  return *static_cast<T*>(p);
}
template <class T>
const T& as(const void* p) {
  return *static_cast<const T*>(p);
}

float load(cudaDataType t, const void* p, std::int64_t i) {
  if (t == CUDA_R_32F) return static_cast<const float*>(p)[i];
  return static_cast<float>(static_cast<const bf16*>(p)[i]);
}
void store(cudaDataType t, void* p, std::int64_t i, float x) {
  if (t == CUDA_R_32F)
    static_cast<float*>(p)[i] = x;
  else
    static_cast<bf16*>(p)[i] = bf16(x);
}

// 10 bits of a float's 23, to nearest, ties away from 0.
float tf32(float x) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000U) & 0xffffe000U);
}

// op(x), dense and by columns.
std::vector<float> read(const Matrix& x, const void* data, bool transposed, bool rounds,
                        const Scales& scales) {
  const auto rows = transposed ? x.columns : x.rows, columns = transposed ? x.rows : x.columns;
  std::vector<float> dense(static_cast<std::size_t>(rows * columns));
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto at = transposed ? c + r * x.ld : r + c * x.ld;
      const float v = x.type == CUDA_R_8F_E4M3
                          ? from_fp8(static_cast<const std::uint8_t*>(data)[at]) *
                                (transposed ? scales.of(x, c, r) : scales.of(x, r, c))
                          : load(x.type, data, at);
      dense[static_cast<std::size_t>(r + c * rows)] = rounds ? tf32(v) : v;
    }
  return dense;
}

struct Operands {
  Matrix a, b, d;
  const void *a_data, *b_data;
  void* d_data;
  float alpha, beta;
};

void multiply(const Product& p, const Operands& o) {
  const bool rounds = p.arithmetic == CUBLAS_COMPUTE_32F_FAST_TF32;
  const auto a =
      read(o.a, o.a_data, p.transposes(CUBLASLT_MATMUL_DESC_TRANSA), rounds, scales_of_a(p));
  const auto b =
      read(o.b, o.b_data, p.transposes(CUBLASLT_MATMUL_DESC_TRANSB), rounds, scales_of_b(p));
  const auto m = o.d.rows, n = o.d.columns, k = static_cast<std::int64_t>(a.size()) / m;
  const auto epilogue = p.epilogue();
  const bool bias =
      epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  auto* const vector = p.pointer<void>(CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  auto* const aux = p.pointer<void>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  const auto aux_ld = p.attributes.get<std::int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 0);
  std::vector<float> column(static_cast<std::size_t>(m));
  for (std::int64_t j = 0; j < n; ++j) {
    std::ranges::fill(column, 0.0F);
    for (std::int64_t i = 0; i < k; ++i) {
      const float factor = b[static_cast<std::size_t>(i + j * k)];
      const float* const from = a.data() + i * m;
      for (std::size_t r = 0; r < column.size(); ++r) column[r] += from[r] * factor;
    }
    for (std::int64_t r = 0; r < m; ++r) {
      float x = o.alpha * column[static_cast<std::size_t>(r)];
      // As some algorithms of cuBLASLt 13.1 do on an H100.
      if (o.d.type == CUDA_R_16BF) x = static_cast<float>(bf16(x));
      if (o.beta != 0) x += o.beta * load(o.d.type, o.d_data, r + j * o.d.ld);
      if (bias) x += load(o.d.type, vector, r);
      if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        store(o.d.type, aux, r + j * aux_ld, x);
        x = math::gelu(x);
      }
      if (epilogue == CUBLASLT_EPILOGUE_DGELU)
        x *= math::gelu_derivative(load(o.d.type, aux, r + j * aux_ld));
      store(o.d.type, o.d_data, r + j * o.d.ld, x);
    }
    if (epilogue == CUBLASLT_EPILOGUE_BGRADB) {
      float sum = 0;
      for (std::int64_t i = 0; i < k; ++i) sum += b[static_cast<std::size_t>(i + j * k)];
      store(o.d.type, vector, j, sum);
    }
  }
}

std::int64_t asked = 0;

bool takes(const cublasLtMatmulAlgo_t& algorithm, const Product& p, const Matrix& a,
           const Matrix& d) {
  Found found{};
  std::memcpy(&found, &algorithm, sizeof found);
  const auto k = p.transposes(CUBLASLT_MATMUL_DESC_TRANSA) ? a.rows : a.columns;
  return found.magic != magic || !found.whole_tiles || (d.rows | d.columns | k) % 8 == 0;
}

bool aligned(const void* p, std::uint32_t to) {
  return reinterpret_cast<std::uintptr_t>(p) % to == 0;
}

// Checks the rules for fp8 on a Hopper GPU. In both operands, the elements of K are adjacent. All
// sizes are multiples of 16. Each scale belongs to 128 elements, or to a tile in at most one of the
// operands.
cublasStatus_t valid_in_fp8(const Product& p, const Matrix& a, const Matrix& b, const Matrix& d) {
  const auto of_a = scales_of_a(p), of_b = scales_of_b(p);
  const bool layouts = p.transposes(CUBLASLT_MATMUL_DESC_TRANSA) &&
                       !p.transposes(CUBLASLT_MATMUL_DESC_TRANSB) &&
                       p.arithmetic == CUBLAS_COMPUTE_32F;
  const bool sizes = (a.rows | a.columns | a.ld | b.columns | b.ld) % 16 == 0;
  const bool types = a.type == b.type && (d.type == CUDA_R_16BF || d.type == CUDA_R_32F);
  const bool modes =
      of_a.known() && of_b.known() && !(of_a.mode == Scales::tiles && of_b.mode == Scales::tiles);
  if (!layouts || !sizes || !types || !modes) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!of_a.data || !of_b.data || !aligned(of_a.data, 16) || !aligned(of_b.data, 16))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (p.epilogue() == CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_SUCCESS;
  const auto bias_type = p.attributes.get<std::int32_t>(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, -1);
  return p.epilogue() == CUBLASLT_EPILOGUE_BIAS && bias_type == CUDA_R_16BF &&
                 d.type == CUDA_R_16BF && p.pointer<void>(CUBLASLT_MATMUL_DESC_BIAS_POINTER)
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_NOT_SUPPORTED;
}

// May these be multiplied, and with this epilogue?
cublasStatus_t valid(const Product& p, const Matrix& a, const Matrix& b, const Matrix& c,
                     const Matrix& d) {
  const auto shape = [](const Matrix& m, bool t) {
    return t ? std::pair(m.columns, m.rows) : std::pair(m.rows, m.columns);
  };
  const auto [m, k] = shape(a, p.transposes(CUBLASLT_MATMUL_DESC_TRANSA));
  const auto [k2, n] = shape(b, p.transposes(CUBLASLT_MATMUL_DESC_TRANSB));
  const bool fits = k == k2 && d.rows == m && d.columns == n && c.rows == m && c.columns == n &&
                    a.ld >= a.rows && b.ld >= b.rows && c.ld >= c.rows && d.ld >= d.rows;
  if (!fits || m == 0 || n == 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (a.type == CUDA_R_8F_E4M3)
    return c.type == d.type ? valid_in_fp8(p, a, b, d) : CUBLAS_STATUS_NOT_SUPPORTED;
  const bool types = a.type == b.type && c.type == d.type &&
                     (a.type == d.type || (a.type == CUDA_R_16BF && d.type == CUDA_R_32F));
  if (!types) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto aux_ld = p.attributes.get<std::int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 0);
  const auto* const aux = p.pointer<void>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  const auto* const vector = p.pointer<void>(CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  switch (p.epilogue()) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_BGRADB:
      return vector ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      if (!vector) return CUBLAS_STATUS_INVALID_VALUE;
      [[fallthrough]];
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_DGELU:
      if (!aux || aux_ld < m || aux_ld % 8 != 0 || !aligned(aux, 16))
        return CUBLAS_STATUS_INVALID_VALUE;
      return CUBLAS_STATUS_SUCCESS;
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

}  // namespace

std::int64_t heuristics_asked() {
  return asked;
}

}  // namespace trireme::simulated

using namespace trireme::simulated;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* out) {
  *out = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusName(cublasStatus_t) {
  return "a status of the simulation";
}
const char* cublasLtGetStatusString(cublasStatus_t code) {
  return code == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "an invalid value";
}
std::size_t cublasLtGetVersion() {
  return 0;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t arithmetic,
                                        cudaDataType scale) {
  if (scale != CUDA_R_32F ||
      (arithmetic != CUBLAS_COMPUTE_32F && arithmetic != CUBLAS_COMPUTE_32F_FAST_TF32))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *out = reinterpret_cast<cublasLtMatmulDesc_t>(new Product{arithmetic, {}});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t p) {
  delete reinterpret_cast<Product*>(p);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t p,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void* value, std::size_t bytes) {
  return reinterpret_cast<Product*>(p)->attributes.set(what, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  *out = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Matrix{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  delete reinterpret_cast<Matrix*>(l);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  *out = reinterpret_cast<cublasLtMatmulPreference_t>(new Attributes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  delete reinterpret_cast<Attributes*>(p);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void* value, std::size_t bytes) {
  return reinterpret_cast<Attributes*>(p)->set(what, value, bytes);
}

// Up to three algorithms, which compute the same.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t p,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t* results, int* n) {
  *n = 0;
  ++asked;
  const auto code =
      valid(as<Product>(p), as<Matrix>(a), as<Matrix>(b), as<Matrix>(c), as<Matrix>(d));
  if (code != CUBLAS_STATUS_SUCCESS) return code;
  const auto& given = as<Attributes>(preference);
  const auto alignment = [&](cublasLtMatmulPreferenceAttributes_t what) {
    return given.get<std::uint32_t>(what, 256);
  };
  Found found{magic,
              alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES),
              alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES),
              alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES),
              alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES),
              true};
  for (const bool whole_tiles : {true, false, false}) {
    cublasLtMatmulHeuristicResult_t r{};
    found.whole_tiles = whole_tiles;
    static_assert(sizeof found <= sizeof r.algo);
    std::memcpy(&r.algo, &found, sizeof found);
    r.workspaceSize = given.get<std::size_t>(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 0);
    r.state = CUBLAS_STATUS_SUCCESS;
    if (*n < most && takes(r.algo, as<Product>(p), as<Matrix>(a), as<Matrix>(d)))
      results[(*n)++] = r;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t p,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  result->workspaceSize = 0;
  if (!takes(*algorithm, as<Product>(p), as<Matrix>(a), as<Matrix>(d)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return valid(as<Product>(p), as<Matrix>(a), as<Matrix>(b), as<Matrix>(c), as<Matrix>(d));
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t p, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_of, const void* b,
                              cublasLtMatrixLayout_t b_of, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_of, void* d, cublasLtMatrixLayout_t d_of,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  const auto& product = as<Product>(p);
  const Operands o{as<Matrix>(a_of), as<Matrix>(b_of), as<Matrix>(d_of), a, b, d,
                   as<float>(alpha), as<float>(beta)};
  if (const auto code = valid(product, o.a, o.b, as<Matrix>(c_of), o.d);
      code != CUBLAS_STATUS_SUCCESS)
    return code;
  if (!takes(*algorithm, product, o.a, o.d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  Found found{};
  std::memcpy(&found, algorithm, sizeof found);
  const bool fits = found.magic == magic && aligned(a, found.a) && aligned(b, found.b) &&
                    aligned(c, found.c) && aligned(d, found.d) && c == d;
  const bool there = on_device(a, o.a.bytes()) && on_device(b, o.b.bytes()) &&
                     on_device(d, o.d.bytes()) && on_device(workspace, workspace_bytes);
  const auto scales_there = [&](const Scales& s, const Matrix& m) {
    return m.type != CUDA_R_8F_E4M3 || on_device(s.data, s.bytes(m));
  };
  if (!scales_there(scales_of_a(product), o.a) || !scales_there(scales_of_b(product), o.b))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!fits || !there) return CUBLAS_STATUS_INVALID_VALUE;
  const auto code = put(stream, "a product", [=] {
    std::memset(workspace, 0xff, std::min<std::size_t>(workspace_bytes, 4096));  // the library's
    multiply(product, o);
  });
  return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
