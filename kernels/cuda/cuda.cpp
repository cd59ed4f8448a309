#include "kernels/cuda/cuda.hpp"

#include <algorithm>
#include <functional>

#include "kernels/cuda/views.hpp"

namespace trireme {
namespace {

using namespace cuda;

// f(T{}) for whatever a copy may meet.
template <class F>
void with_number(DType t, const F& f) {
  if (t == DType::f64) return f(double{});
  with_type(t, f);
}

AttentionDims dims_of(const AttentionShape& s) {
  require(s.head_dim <= widest_head, "attention on a GPU has a head dim of at most {}, not {}",
          widest_head, s.head_dim);
  require(s.batch * s.heads <= 65535,
          "attention on a GPU: {} samples x {} heads are more than 65535", s.batch, s.heads);
  return {s.batch, s.tokens, s.heads, s.kv_heads, s.head_dim, static_cast<float>(s.scale)};
}

CopyShape copy_shape(const View& dst, const ConstView& src) {
  CopyShape s{dst.dims, {}, {}, {}};
  for (int d = 0; d < dst.dims; ++d) {
    const auto i = static_cast<std::size_t>(d);
    s.extent[d] = dst.extent[i];
    s.to[d] = dst.stride[i];
    s.from[d] = src.stride[i];
  }
  return s;
}

Determinism determinism(CudaBits b) {
  return b == CudaBits::repeatable ? Determinism::on : Determinism::off;
}

}  // namespace

std::size_t cuda_attention_workspace(const AttentionShape& s, DType t, Direction d, CudaBits bits) {
  const auto own = d == Direction::forward
                       ? 0
                       : static_cast<std::size_t>(s.batch * s.heads * s.tokens) * sizeof(float);
  const bool fused = !sdpa_library().empty() && sdpa_supports(s, t, d);
  // On a device for which cuDNN has less than for Hopper it is the own kernel that runs.
  return fused ? std::max(own, sdpa_workspace(s, d, determinism(bits))) : own;
}

Cuda::Cuda(const CudaChoice& c)
    : choice_(c),
      runtime_(open_runtime(c.device)),
      timing_(*runtime_),
      queues_(*runtime_),
      graphs_(*runtime_, queues_),
      memory_(*runtime_, queues_),
      ring_(*runtime_),
      products_(c.bits, c.tf32 ? Tf32::on : Tf32::off, c.epilogues),
      sdpa_(determinism(c.bits), cuda_architecture(c.device)) {}

// Nothing may be under way when its memory goes.
Cuda::~Cuda() {
  for (int q = 0; q < queue_count; ++q) try {
      queues_.synchronize(static_cast<Queue>(q));
    } catch (const Error&) {  // was told when it was met first
    }
}

Block Cuda::take(std::size_t bytes, Kind kind, Queue first, Memory memory) {
  const auto b = memory_.take(bytes, kind, first, memory);
  if (choice_.debug && memory == Memory::device)
    runtime_->set_bytes(b.data, 0xff, b.bytes, queues_.stream(first));
  return b;
}

void Cuda::give(const Block& b, std::span<const Event> last) noexcept {
  memory_.give(b, last);
}

// Debugging and timing see each operation alone.
void Cuda::begin_graph(std::uint64_t which) {
  if (choice_.debug || timing_.on()) return;
  graphs_.begin(which);
  products_.may_measure(!graphs_.recording());
}

void Cuda::end_graph() {
  products_.may_measure(true);
  graphs_.end();
}

void Cuda::drop_graph() noexcept {
  products_.may_measure(true);
  graphs_.drop();
}

void Cuda::copy(Queue q, View dst, ConstView src, Accumulate how) {
  expect(dst.dims == src.dims && dst.extent == src.extent, "copy: both sides have one shape");
  if (dst.count() == 0) return;
  const auto shape = copy_shape(dst, src);
  put(q, "copy", moving({src}, how, {dst}), [&](Stream s) {
    if (dst.dtype == src.dtype && (dst.dtype == DType::i64 || dst.dtype == DType::i32)) {
      if (dst.dtype == DType::i64)
        return cuda::copy(s, at<std::int64_t>(dst), at<std::int64_t>(src), shape, into(how));
      require(how == Accumulate::overwrite, "copy does not add i32");  // 4 bytes are 4 bytes
      return cuda::copy(s, reinterpret_cast<float*>(dst.data),
                        reinterpret_cast<const float*>(src.data), shape, Into::overwrite);
    }
    with_number(dst.dtype, [&](auto to) {
      with_number(src.dtype, [&](auto from) {
        cuda::copy(s, at<decltype(to)>(dst), at<decltype(from)>(src), shape, into(how));
      });
    });
  });
}

void Cuda::fill(Queue q, View v, double value) {
  if (v.count() == 0) return;
  const auto shape = copy_shape(v, v);
  put(q, "fill", moving({v}), [&](Stream s) {
    if (v.dtype == DType::i32)
      return cuda::fill(s, at<std::int32_t>(v), static_cast<std::int32_t>(value), shape);
    if (v.dtype == DType::i64)
      return cuda::fill(s, at<std::int64_t>(v), static_cast<std::int64_t>(value), shape);
    if (v.dtype == DType::f64) return cuda::fill(s, at<double>(v), value, shape);
    with_type(v.dtype, [&](auto t) {
      cuda::fill(s, at<decltype(t)>(v), decltype(t)(static_cast<float>(value)), shape);
    });
  });
}

void Cuda::upload(Queue q, View dst, std::span<const std::byte> bytes) {
  expect(dst.dense() && dst.span_bytes() == bytes.size(), "upload fills a dense view");
  require(!graphs_.recording(), "an upload cannot be part of a graph");
  put(q, "upload", moving({dst}), [&](Stream s) { ring_.upload(dst.data, bytes, s); });
}

void Cuda::download(Queue q, std::span<std::byte> bytes, ConstView src) {
  expect(src.dense() && src.span_bytes() == bytes.size(), "download empties a dense view");
  require(!graphs_.recording(), "a download cannot be part of a graph");
  for (std::size_t at = 0; at < bytes.size();) {
    const auto rest = bytes.subspan(at);
    const auto n = std::min(rest.size(), memory_.copied_whole(rest.data()));
    runtime_->copy_to_host(rest.data(), src.data + at, n, queues_.stream(q));
    at += n;
  }
  try {
    queues_.synchronize(q);
  } catch (const Error& e) {
    fail(
        "an operation on the GPU failed before a download on queue {}: {}. run.debug = true names "
        "it",
        trireme::name_of(q), e.what());
  }
}

void Cuda::matmul(Queue q, View c, ConstView a, ConstView b, Accumulate how,
                  const Epilogue& epilogue) {
  auto work = moving({a, b}, how, {c});
  work.flops = product_flops(c, a);
  const auto separate = [&](View c_MN, Accumulate sum, const Epilogue& e) {
    if (e.gelu_MN && c_MN.dense()) {
      gelu(q, e.gelu_MN, c_MN);
    } else if (e.gelu_MN) {
      copy(q, e.gelu_MN, c_MN, Accumulate::overwrite);
      gelu(q, e.gelu_MN, e.gelu_MN);
    }
    if (e.gelu_input_MN) gelu_grad(q, c_MN, c_MN, e.gelu_input_MN);
    if (e.row_sum_M) column_sum(q, e.row_sum_M, sum, a.transposed());
  };
  bool whole = false;
  put(q, "matmul", work, [&](Stream s) {
    whole = products_.matmul(s, c, a, b, how, epilogue, scratch_, std::ref(separate));
  });
  if (!whole) separate(c, how, epilogue);
}

std::size_t Cuda::attention_workspace(const AttentionShape& s, DType t, Direction d) const {
  return cuda_attention_workspace(s, t, d, choice_.bits);
}

void Cuda::attention(Queue q, View o, View lse, ConstView q_, ConstView k, ConstView v,
                     const AttentionShape& shape, View workspace) {
  auto work = moving({q_, k, v, o, lse});
  work.flops = attention_flops(shape, Direction::forward);
  put(q, "attention", work, [&](Stream s) {
    if (sdpa_.supports(shape, o.dtype, Direction::forward))
      return sdpa_.forward(s, o, lse, q_, k, v, shape, workspace);
    with_type(o.dtype, [&](auto t) {
      using T = decltype(t);
      cuda::attention(s, heads<T>(o), at<float>(lse), heads<T>(q_), heads<T>(k), heads<T>(v),
                      dims_of(shape));
    });
  });
}

void Cuda::attention_grad(Queue q, View dq, View dk, View dv, ConstView d_o, ConstView o,
                          ConstView lse, ConstView q_, ConstView k, ConstView v,
                          const AttentionShape& shape, View workspace) {
  auto work = moving({q_, k, v, o, d_o, lse, dq, dk, dv});
  work.flops = attention_flops(shape, Direction::backward);
  put(q, "attention_grad", work, [&](Stream s) {
    if (sdpa_.supports(shape, o.dtype, Direction::backward))
      return sdpa_.backward(s, dq, dk, dv, d_o, o, lse, q_, k, v, shape, workspace);
    with_type(o.dtype, [&](auto t) {
      using T = decltype(t);
      cuda::attention_grad(s, heads<T>(dq), heads<T>(dk), heads<T>(dv), heads<T>(d_o), heads<T>(o),
                           at<float>(lse), heads<T>(q_), heads<T>(k), heads<T>(v), dims_of(shape),
                           reinterpret_cast<float*>(workspace.data));
    });
  });
}

std::unique_ptr<Backend> open_cuda(const CudaChoice& c) {
  std::string why;
  const int n = cuda_devices(&why);
  require(n > 0, "run.backend = \"cuda\": no CUDA device: {}", why);
  require(c.device < n, "run.backend = \"cuda\": device {} is wanted, there are {}", c.device, n);
  return std::make_unique<Cuda>(c);
}

static Cuda& opened(Backend& b) {
  auto* const cuda = dynamic_cast<Cuda*>(&b);
  require(cuda, "the {} backend is not on a CUDA device", b.name());
  return *cuda;
}

void start_cuda_timing(Backend& b) {
  opened(b).timing().start();
}

std::vector<OperationTime> stop_cuda_timing(Backend& b) {
  return opened(b).timing().stop();
}

std::int64_t cuda_fused_products(Backend& b) {
  return opened(b).products().fused();
}

std::size_t cuda_workspace_bytes() {
  return Products::workspace_bytes;
}

}  // namespace trireme
