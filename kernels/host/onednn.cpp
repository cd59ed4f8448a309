#include "kernels/host/onednn.hpp"

#include <dnnl_debug.h>
#include <dnnl.hpp>

#include <array>
#include <unordered_map>
#include <vector>

#include "kernels/host/parallel.hpp"

namespace trireme::host::onednn {
namespace {

using dnnl::memory;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

const dnnl::stream& stream() {
  static const dnnl::stream in_order(engine());
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

// A primitive with the memory objects that carry its operands from call to call.
class Product {
 public:
  Product(const View& c, const ConstView& a, const ConstView& b, Accumulate how, bool with_bias) {
    const auto md_c = describe(c);
    const auto md_bias =
        with_bias ? memory::desc({1, c.extent[1]}, type_of(c.dtype), memory::dims{c.extent[1], 1})
                  : memory::desc();
    const auto chosen = choose(describe(a), describe(b), md_bias, md_c, how);
    const auto md_scratch = chosen.scratchpad_desc();
    scratch_bytes_ = md_scratch.get_size();
    primitive_ = dnnl::matmul(chosen);
    operands_ = {memory(md_c, engine(), nullptr), memory(describe(a), engine(), nullptr),
                 memory(describe(b), engine(), nullptr), memory(md_scratch, engine(), nullptr)};
    if (with_bias) operands_.emplace_back(md_bias, engine(), nullptr);
    constexpr std::array roles{DNNL_ARG_DST, DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_SCRATCHPAD,
                               DNNL_ARG_BIAS};
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      arguments_.push_back({roles[i], operands_[i].get()});
    }
  }

  std::size_t scratch_bytes() const { return scratch_bytes_; }

  void run(const View& c, const ConstView& a, const ConstView& b, const ConstView& bias,
           const View& scratch) {
    expect(scratch.span_bytes() >= scratch_bytes_, "the product's scratch fits");
    const std::array<const std::byte*, 5> data{c.data, a.data, b.data, scratch.data, bias.data};
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      // oneDNN takes sources without const.
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

// Building a primitive takes far longer than a small product, so each is built once. The number of
// threads is part of it.
Product& find(const View& c, const ConstView& a, const ConstView& b, Accumulate how,
              bool with_bias) {
  static std::unordered_map<Key, Product, KeyHash> cache;
  const Key key{{c.extent[0], c.extent[1], a.extent[1], c.stride[0], a.stride[0], a.stride[1],
                 b.stride[0], b.stride[1],
                 static_cast<std::int64_t>(a.dtype) * 8 + static_cast<std::int64_t>(c.dtype),
                 threads() * 4 + (how == Accumulate::add ? 2 : 0) + (with_bias ? 1 : 0)}};
  const auto found = cache.find(key);
  if (found != cache.end()) return found->second;
  try {
    return cache.try_emplace(key, c, a, b, how, with_bias).first->second;
  } catch (const dnnl::error& e) {
    fail("oneDNN has no product of {} for [{}, {}] x [{}, {}]: {}", name_of(a.dtype), a.extent[0],
         a.extent[1], b.extent[0], b.extent[1], e.what());
  }
}

}  // namespace

bool multiplies_bf16() {
  return has(dnnl_cpu_isa_avx512_core);
}

// Intel cores that have AMX run their plain bf16 dot product at half the rate of f32 (measured:
// 220 against 420 GFLOP/s), and some machines switch AMX off; Zen and Cooper Lake run it at twice.
bool multiplies_bf16_fast() {
  if (has(dnnl_cpu_isa_avx512_core_amx)) return true;
  if (__builtin_cpu_is("intel") && !__builtin_cpu_is("cooperlake")) return false;
  return has(dnnl_cpu_isa_avx512_core_bf16);
}

bool same_in_every_place() {
  return has(dnnl_cpu_isa_avx512_core);
}

std::size_t matmul_scratch(const View& c, const ConstView& a, const ConstView& b, Accumulate how,
                           const ConstView& bias) {
  return find(c, a, b, how, static_cast<bool>(bias)).scratch_bytes();
}

void matmul(const View& c, const ConstView& a, const ConstView& b, Accumulate how,
            const ConstView& bias, const View& scratch) {
  find(c, a, b, how, static_cast<bool>(bias)).run(c, a, b, bias, scratch);
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
