#include "kernels/cuda/cuda.hpp"

#include <algorithm>

#include "kernels/math/update_factors.hpp"

namespace trireme {
namespace {

using namespace cuda;

Into into(Accumulate how) {
  return how == Accumulate::add ? Into::add : Into::overwrite;
}

template <class T>
T* at(const View& v) {
  expect(!v || v.dtype == dtype_of<T>, "a kernel got a view of another type");
  return reinterpret_cast<T*>(v.data);
}
template <class T>
const T* at(const ConstView& v) {
  expect(!v || v.dtype == dtype_of<T>, "a kernel got a view of another type");
  return reinterpret_cast<const T*>(v.data);
}

// f(T{}) for a compute type.
template <class F>
void with_type(DType t, const F& f) {
  if (t == DType::f32) return f(float{});
  require(t == DType::bf16, "run.backend = \"cuda\" computes in f32 and bf16, not in {}",
          name_of(t));
  f(bf16{});
}

// f(T{}) for whatever a copy may meet.
template <class F>
void with_number(DType t, const F& f) {
  if (t == DType::f64) return f(double{});
  with_type(t, f);
}

template <class T>
Heads<T> heads(const View& v) {
  return {at<T>(v), v.stride[0], v.stride[1], v.stride[2]};
}
template <class T>
Heads<const T> heads(const ConstView& v) {
  return {at<T>(v), v.stride[0], v.stride[1], v.stride[2]};
}

AttentionDims dims_of(const AttentionShape& s) {
  require(s.head_dim <= widest_head, "attention on a GPU has a head dim of at most {}, not {}",
          widest_head, s.head_dim);
  require(s.batch * s.heads <= 65535,
          "attention on a GPU: {} samples x {} heads are more than 65535", s.batch, s.heads);
  return {s.batch, s.tokens, s.heads, s.kv_heads, s.head_dim, static_cast<float>(s.scale)};
}

void check_width(std::int64_t width) {
  require(width <= widest_norm, "norms on a GPU are at most {} wide, not {}", widest_norm, width);
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
      queues_(*runtime_),
      memory_(*runtime_, queues_),
      ring_(*runtime_),
      products_(c.bits == CudaBits::repeatable ? Choice::first : Choice::measured,
                c.tf32 ? Tf32::on : Tf32::off),
      sdpa_(determinism(c.bits), cuda_architecture(c.device)) {}

// Nothing may be under way when its memory goes.
Cuda::~Cuda() {
  for (int q = 0; q < queue_count; ++q) try {
      queues_.synchronize(static_cast<Queue>(q));
    } catch (const Error&) {  // was told when it was met first
    }
}

template <class F>
void Cuda::put(Queue q, const char* what, const F& f) {
  auto* const stream = queues_.stream(q);
  f(stream);
  if (!choice_.debug) return;
  try {
    runtime_->synchronize(stream);
  } catch (const Error& e) {
    fail("{} on queue {}: {}", what, trireme::name_of(q), e.what());
  }
}

template <class T>
T* Cuda::scratch(std::size_t bytes, const char* what) const {
  require(scratch_ && scratch_.span_bytes() >= bytes,
          "{} needs {} bytes of workspace, {} are lent: use a smaller train.microbatch", what,
          bytes, scratch_ ? scratch_.span_bytes() : 0);
  return reinterpret_cast<T*>(scratch_.data);
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

void Cuda::copy(Queue q, View dst, ConstView src, Accumulate how) {
  expect(dst.dims == src.dims && dst.extent == src.extent, "copy: both sides have one shape");
  if (dst.count() == 0) return;
  const auto shape = copy_shape(dst, src);
  put(q, "copy", [&](Stream s) {
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
  put(q, "fill", [&](Stream s) {
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
  put(q, "upload", [&](Stream s) { ring_.upload(dst.data, bytes, s); });
}

void Cuda::download(Queue q, std::span<std::byte> bytes, ConstView src) {
  expect(src.dense() && src.span_bytes() == bytes.size(), "download empties a dense view");
  runtime_->copy_to_host(bytes.data(), src.data, bytes.size(), queues_.stream(q));
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
  put(q, "matmul", [&](Stream s) { products_.matmul(s, c, a, b, how, epilogue.bias_N, scratch_); });
  if (!epilogue.gelu_MN) return;
  if (c.dense()) return gelu(q, epilogue.gelu_MN, c);
  copy(q, epilogue.gelu_MN, c, Accumulate::overwrite);
  gelu(q, epilogue.gelu_MN, epilogue.gelu_MN);
}

std::size_t Cuda::attention_workspace(const AttentionShape& s, DType t, Direction d) const {
  return cuda_attention_workspace(s, t, d, choice_.bits);
}

void Cuda::attention(Queue q, View o, View lse, ConstView q_, ConstView k, ConstView v,
                     const AttentionShape& shape, View workspace) {
  put(q, "attention", [&](Stream s) {
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
  put(q, "attention_grad", [&](Stream s) {
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

void Cuda::layer_norm(Queue q, View y, View mean, View rstd, ConstView x, ConstView w, ConstView b,
                      double eps) {
  check_width(x.extent[1]);
  put(q, "layer_norm", [&](Stream s) {
    with_type(x.dtype, [&](auto t) {
      using T = decltype(t);
      norm(s, at<T>(y), at<float>(mean), at<float>(rstd), at<T>(x), at<T>(w), at<T>(b), x.extent[0],
           x.extent[1], static_cast<float>(eps));
    });
  });
}

void Cuda::layer_norm_grad(Queue q, View dx, View dw, View db, Accumulate how, ConstView dy,
                           ConstView x, ConstView w, ConstView mean, ConstView rstd) {
  const auto rows = x.extent[0], width = x.extent[1];
  check_width(width);
  auto* const partials = scratch<float>(norm_scratch(rows, width), "layer_norm_grad");
  put(q, "layer_norm_grad", [&](Stream s) {
    with_type(x.dtype, [&](auto t) {
      using T = decltype(t);
      norm_grad(s, at<T>(dx), at<float>(dw), at<float>(db), into(how), at<T>(dy), at<T>(x),
                at<T>(w), at<float>(mean), at<float>(rstd), rows, width, partials);
    });
  });
}

void Cuda::rms_norm(Queue q, View y, View rstd, ConstView x, ConstView w, double eps) {
  layer_norm(q, y, {}, rstd, x, w, {}, eps);
}

void Cuda::rms_norm_grad(Queue q, View dx, View dw, Accumulate how, ConstView dy, ConstView x,
                         ConstView w, ConstView rstd) {
  layer_norm_grad(q, dx, dw, {}, how, dy, x, w, {}, rstd);
}

void Cuda::rotary(Queue q, View x, ConstView table, Direction direction) {
  const float sign = direction == Direction::forward ? 1.0F : -1.0F;
  put(q, "rotary", [&](Stream s) {
    with_type(x.dtype, [&](auto t) {
      cuda::rotary(s, heads<decltype(t)>(x), at<float>(table), sign, x.extent[0], x.extent[1],
                   x.extent[2], x.extent[3]);
    });
  });
}

void Cuda::gelu(Queue q, View y, ConstView x) {
  put(q, "gelu", [&](Stream s) {
    with_type(x.dtype,
              [&](auto t) { cuda::gelu(s, at<decltype(t)>(y), at<decltype(t)>(x), x.count()); });
  });
}

void Cuda::gelu_grad(Queue q, View dx, ConstView dy, ConstView x) {
  put(q, "gelu_grad", [&](Stream s) {
    with_type(x.dtype, [&](auto t) {
      using T = decltype(t);
      cuda::gelu_grad(s, at<T>(dx), at<T>(dy), at<T>(x), x.count());
    });
  });
}

void Cuda::swiglu(Queue q, View y, ConstView gate_up) {
  put(q, "swiglu", [&](Stream s) {
    with_type(y.dtype, [&](auto t) {
      using T = decltype(t);
      cuda::swiglu(s, at<T>(y), at<T>(gate_up), y.extent[0], y.extent[1]);
    });
  });
}

void Cuda::swiglu_grad(Queue q, View dgate_up, ConstView dy, ConstView gate_up) {
  put(q, "swiglu_grad", [&](Stream s) {
    with_type(dy.dtype, [&](auto t) {
      using T = decltype(t);
      cuda::swiglu_grad(s, at<T>(dgate_up), at<T>(dy), at<T>(gate_up), dy.extent[0], dy.extent[1]);
    });
  });
}

void Cuda::dropout(Queue q, View y, ConstView x, ConstView skip, const DropoutKey& key,
                   const SampleRows& rows) {
  const DropoutRows where{x.extent[0], x.extent[1], x.extent[2], rows.t0,
                          at<std::int64_t>(rows.sample_B)};
  put(q, "dropout", [&](Stream s) {
    with_type(x.dtype, [&](auto t) {
      using T = decltype(t);
      cuda::dropout(s, at<T>(y), at<T>(x), at<T>(skip), key, where);
    });
  });
}

void Cuda::embedding(Queue q, View y, ConstView ids, ConstView table) {
  put(q, "embedding", [&](Stream s) {
    with_type(y.dtype, [&](auto t) {
      using T = decltype(t);
      cuda::embedding(s, at<T>(y), at<std::int32_t>(ids), at<T>(table), y.extent[0], y.extent[1]);
    });
  });
}

void Cuda::embedding_grad(Queue q, View dtable, Accumulate how, ConstView dy, ConstView ids) {
  const auto rows = dy.extent[0], width = dy.extent[1];
  auto* const sorting = scratch<std::byte>(embedding_scratch(rows), "embedding_grad");
  if (how == Accumulate::overwrite) fill(q, dtable, 0);
  put(q, "embedding_grad", [&](Stream s) {
    with_type(dy.dtype, [&](auto t) {
      using T = decltype(t);
      cuda::embedding_grad(s, at<float>(dtable), at<T>(dy), at<std::int32_t>(ids), rows, width,
                           dtable.extent[0], sorting);
    });
  });
}

void Cuda::cross_entropy(Queue q, View loss, Accumulate how, View logits, ConstView target,
                         double scale, Logits what) {
  const auto rows = logits.extent[0], vocab = logits.extent[1];
  auto* const of_rows =
      scratch<double>(static_cast<std::size_t>(rows) * sizeof(double), "cross_entropy");
  put(q, "cross_entropy", [&](Stream s) {
    with_type(logits.dtype, [&](auto t) {
      cuda::cross_entropy(s, at<double>(loss), into(how), at<decltype(t)>(logits),
                          at<std::int32_t>(target), rows, vocab, static_cast<float>(scale),
                          what == Logits::become_gradient, of_rows);
    });
  });
}

void Cuda::column_sum(Queue q, View out, Accumulate how, ConstView x) {
  const auto rows = x.extent[0], width = x.extent[1];
  auto* const partials = scratch<float>(column_scratch(rows, width), "column_sum");
  put(q, "column_sum", [&](Stream s) {
    with_type(x.dtype, [&](auto t) {
      cuda::column_sum(s, at<float>(out), into(how), at<decltype(t)>(x), rows, width, partials);
    });
  });
}

void Cuda::sgd(Queue q, View master, View copy, ConstView grad, const Sgd& u) {
  put(q, "sgd", [&](Stream s) {
    cuda::sgd(s, at<float>(master), at<bf16>(copy), at<float>(grad), master.count(),
              math::update_of(u));
  });
}

void Cuda::adamw(Queue q, View master, View m, View v, View copy, ConstView grad, const AdamW& u) {
  put(q, "adamw", [&](Stream s) {
    cuda::adamw(s, at<float>(master), at<float>(m), at<float>(v), at<bf16>(copy), at<float>(grad),
                master.count(), math::update_of(u));
  });
}

void Cuda::sum_squares(Queue q, View out, ConstView x) {
  auto* const parts = scratch<double>(square_scratch(x.count()), "sum_squares");
  put(q, "sum_squares",
      [&](Stream s) { cuda::sum_squares(s, at<double>(out), at<float>(x), x.count(), parts); });
}

std::unique_ptr<Backend> open_cuda(const CudaChoice& c) {
  std::string why;
  const int n = cuda_devices(&why);
  require(n > 0, "run.backend = \"cuda\": no CUDA device: {}", why);
  require(c.device < n, "run.backend = \"cuda\": device {} is wanted, there are {}", c.device, n);
  return std::make_unique<Cuda>(c);
}

std::size_t cuda_workspace_bytes() {
  return Products::workspace_bytes;
}

}  // namespace trireme
