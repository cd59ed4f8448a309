#include "kernels/host/onednn.hpp"

#include <dnnl_debug.h>
#include <dnnl.hpp>

#include <array>
#include <unordered_map>
#include <vector>

#include "kernels/host/parallel.hpp"
#include "lib/base/error.hpp"

namespace trireme::host::onednn {
namespace {

using dnnl::memory;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

const dnnl::stream& stream() {
  static const thread_local dnnl::stream in_order(engine());
  return in_order;
}

void check(dnnl_status_t status, const char* call) {
  require(status == dnnl_success, "oneDNN: {} failed: {}", call, dnnl_status2str(status));
}

bool has(dnnl_cpu_isa_t wanted) {
  static const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
}

memory::data_type type_of(DType t) {
  switch (t) {
    case DType::f32:
      return memory::data_type::f32;
    case DType::bf16:
      return memory::data_type::bf16;
    default:
      fail("oneDNN multiplies f32 and bf16, not {}; use the ref backend", name_of(t));
  }
}

memory::desc describe(const ConstView& v) {
  return {{v.extent[0], v.extent[1]}, type_of(v.dtype), memory::dims{v.stride[0], v.stride[1]}};
}

dnnl::matmul::primitive_desc choose(const memory::desc& a, const memory::desc& b,
                                    const memory::desc& bias, const memory::desc& c,
                                    Accumulate how) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (how == Accumulate::add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attr.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), a, b, bias, c, attr};
#else
  return {dnnl::matmul::desc(a, b, bias, c), attr, engine()};
#endif
}

// A primitive and the memory objects for its operands. Each call reuses the memory objects.
class Primitive {
 public:
  explicit Primitive(const Product& p) {
    const auto md_a = describe(p.a), md_b = describe(p.b), md_c = describe(p.c);
    const auto cols = p.c.extent[1];
    const auto md_bias = p.bias ? memory::desc({1, cols}, type_of(p.c.dtype), memory::dims{cols, 1})
                                : memory::desc();
    const auto chosen = choose(md_a, md_b, md_bias, md_c, p.how);
    const auto md_scratch = chosen.scratchpad_desc();
    scratch_bytes_ = md_scratch.get_size();
    primitive_ = dnnl::matmul(chosen);
    operands_ = {memory(md_c, engine(), nullptr), memory(md_a, engine(), nullptr),
                 memory(md_b, engine(), nullptr), memory(md_scratch, engine(), nullptr)};
    if (p.bias) operands_.emplace_back(md_bias, engine(), nullptr);
    constexpr std::array roles{DNNL_ARG_DST, DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_SCRATCHPAD,
                               DNNL_ARG_BIAS};
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      arguments_.push_back({roles[i], operands_[i].get()});
    }
  }

  std::size_t scratch_bytes() const { return scratch_bytes_; }

  void run(const Product& p, const View& scratch) {
    expect(scratch.span_bytes() >= scratch_bytes_, "the product's scratch fits");
    const std::array<const std::byte*, 5> data{p.c.data, p.a.data, p.b.data, scratch.data,
                                               p.bias.data};
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      // oneDNN takes pointers to non-const data even for operands that it only reads.
      operands_[i].set_data_handle(const_cast<std::byte*>(data[i]));
    }
    check(dnnl_primitive_execute(primitive_.get(), stream().get(),
                                 static_cast<int>(arguments_.size()), arguments_.data()),
          "matmul");
  }

 private:
  dnnl::matmul primitive_;
  std::vector<memory> operands_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::size_t scratch_bytes_ = 0;
};

struct Key {
  std::array<std::int64_t, 10> value;
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  std::size_t operator()(const Key& k) const {
    std::uint64_t h = 0;
    for (auto v : k.value) h = hash64(h, static_cast<std::uint64_t>(v));
    return h;
  }
};

// Returns the primitive for a product. Each primitive is built once, because building it takes far
// longer than a small product. The number of threads is part of the key, because a primitive is
// built for that number. Each thread has its own cache.
Primitive& find(const Product& p) {
  static thread_local std::unordered_map<Key, Primitive, KeyHash> cache;
  const View& c = p.c;
  const ConstView &a = p.a, &b = p.b;
  const Key key{{c.extent[0], c.extent[1], a.extent[1], c.stride[0], a.stride[0], a.stride[1],
                 b.stride[0], b.stride[1],
                 static_cast<std::int64_t>(a.dtype) * 8 + static_cast<std::int64_t>(c.dtype),
                 threads() * 4 + (p.how == Accumulate::add ? 2 : 0) + (p.bias ? 1 : 0)}};
  const auto found = cache.find(key);
  if (found != cache.end()) return found->second;
  try {
    return cache.try_emplace(key, p).first->second;
  } catch (const dnnl::error& e) {
    fail("oneDNN has no product of {} for [{}, {}] x [{}, {}]: {}", name_of(a.dtype), a.extent[0],
         a.extent[1], b.extent[0], b.extent[1], e.what());
  }
}

}  // namespace

bool multiplies_bf16() {
  return has(dnnl_cpu_isa_avx512_core);
}

// Returns true if products of bf16 are faster than products of f32. Intel cores with AMX run plain
// bf16 dot products at half the rate of f32 (measured: 220 against 420 GFLOP/s), and some machines
// disable AMX. Zen and Cooper Lake run bf16 dot products at twice the rate of f32.
bool multiplies_bf16_fast() {
  if (has(dnnl_cpu_isa_avx512_core_amx)) return true;
  if (__builtin_cpu_is("intel") && !__builtin_cpu_is("cooperlake")) return false;
  return has(dnnl_cpu_isa_avx512_core_bf16);
}

std::string version_and_instructions() {
  const auto& v = *dnnl_version();
  std::string isa = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
  if (isa.starts_with("cpu_isa_")) isa.erase(0, 8);
  return fmt::format("oneDNN {}.{}.{} for {}", v.major, v.minor, v.patch, isa);
}

bool same_in_every_place() {
  return has(dnnl_cpu_isa_avx512_core);
}

std::size_t matmul_scratch(const Product& p) {
  return find(p).scratch_bytes();
}

void matmul(const Product& p, const View& scratch) {
  find(p).run(p, scratch);
}

void matmul_alone(const Product& p) {
  static thread_local std::vector<float> memory;
  constexpr std::size_t line = 64;  // bytes; as many are added to align the scratch
  const OneThread alone;
  auto& primitive = find(p);
  const auto floats = (primitive.scratch_bytes() + line) / sizeof(float) + 1;
  if (memory.size() < floats) memory.resize(floats);
  const auto at = (reinterpret_cast<std::uintptr_t>(memory.data()) + line - 1) / line * line;
  primitive.run(p, View(reinterpret_cast<std::byte*>(at), DType::f32,
                        Shape{static_cast<std::int64_t>(floats - line / sizeof(float))}));
}

void sgemm(const View& c, const ConstView& a, const ConstView& b, Accumulate how) {
  const auto letter = [](const ConstView& v) { return v.stride[1] == 1 ? 'N' : 'T'; };
  const auto leading = [](const ConstView& v) { return v.stride[v.stride[1] == 1 ? 0 : 1]; };
  check(dnnl_sgemm(letter(a), letter(b), c.extent[0], c.extent[1], a.extent[1], 1.0F,
                   reinterpret_cast<const float*>(a.data), leading(a),
                   reinterpret_cast<const float*>(b.data), leading(b),
                   how == Accumulate::add ? 1.0F : 0.0F, reinterpret_cast<float*>(c.data),
                   leading(c)),
        "sgemm");
}

}  // namespace trireme::host::onednn
