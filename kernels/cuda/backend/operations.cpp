#include "kernels/cuda/backend/operations.hpp"

#include <algorithm>

#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/cuda/kernels/views.hpp"
#include "lib/base/digest.hpp"

namespace trireme::cuda {
namespace {

// f(T{}) for every type that a copy may have.
template <class F>
void with_number(DType t, const F& f) {
  if (t == DType::f64) return f(double{});
  with_type(t, f);
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

// The lent workspace, if it has so many bytes.
template <class T, class O>
T* scratch(const O& o, const Resources& r, std::size_t bytes) {
  const auto& lent = r.scratch;
  require(lent && lent.span_bytes() >= bytes,
          "{} needs {} bytes of workspace, {} are lent: use a smaller train.microbatch", o.name,
          bytes, lent ? lent.span_bytes() : 0);
  return reinterpret_cast<T*>(lent.data);
}

AttentionDims dims_of(const AttentionShape& s) {
  require(s.head_dim <= widest_head, "attention on a GPU has a head dim of at most {}, not {}",
          widest_head, s.head_dim);
  require(s.batch * s.heads <= 65535,
          "attention on a GPU: {} samples x {} heads are more than 65535", s.batch, s.heads);
  return {s.batch, s.tokens, s.heads, s.kv_heads, s.head_dim, static_cast<float>(s.scale)};
}

template <class T, class O>
AttentionInputs<T> inputs_of(const O& o) {
  return {heads<T>(o.q_BTHD), heads<T>(o.k_BTGD), heads<T>(o.v_BTGD), dims_of(o.shape)};
}

void check_width(std::int64_t width) {
  require(width <= widest_norm, "norms on a GPU are at most {} wide, not {}", widest_norm, width);
}

template <class T>
NormRows<T> rows_of(const kernel::Norm& o) {
  const auto rows = o.x_TC.extent[0], width = o.x_TC.extent[1];
  check_width(width);
  return {.y = at<T>(o.y_TC),
          .means = at<float>(o.mean_T),
          .rstds = at<float>(o.rstd_T),
          .x = at<T>(o.x_TC),
          .w = at<T>(o.w_C),
          .b = at<T>(o.b_C),
          .rows = rows,
          .width = width,
          .each = 1.0F / static_cast<float>(width),
          .eps = static_cast<float>(o.eps)};
}

template <class T>
Dropped<T> dropped_of(const kernel::Dropout& o) {
  const auto& x = o.x_BTC;
  return {.y = at<T>(o.y_BTC),
          .x = at<T>(x),
          .skip = at<T>(o.skip_BTC),
          .key = o.key,
          .rows = {x.extent[0], x.extent[1], x.extent[2], o.rows.t0,
                   at<std::int64_t>(o.rows.sample_B)}};
}

// f(T{}) for the type of the copies; where there is none, no kernel looks at it.
template <class O, class F>
void with_type_of_copies(const O& o, const F& f) {
  const auto with_copy =
      std::ranges::find_if(o.shards, [](const auto& s) { return static_cast<bool>(s.copy_N); });
  with_type(with_copy == o.shards.end() ? DType::bf16 : with_copy->copy_N.dtype, f);
}

}  // namespace

void run(const kernel::Copy& o, const Resources& r) {
  expect(o.dst.dims == o.src.dims && o.dst.extent == o.src.extent,
         "copy: both sides have one shape");
  if (o.dst.count() == 0) return;
  const auto shape = copy_shape(o.dst, o.src);
  const auto type = o.dst.dtype;
  if (type == DType::i64 && o.src.dtype == type)
    return copy(r.stream, at<std::int64_t>(o.dst), at<std::int64_t>(o.src), shape, o.how);
  if (type == DType::i32 && o.src.dtype == type) {
    require(o.how == Accumulate::overwrite, "copy does not add i32");  // 4 bytes are 4 bytes
    return copy(r.stream, reinterpret_cast<float*>(o.dst.data),
                reinterpret_cast<const float*>(o.src.data), shape, o.how);
  }
  with_number(type, [&]<class To>(To) {
    with_number(o.src.dtype, [&]<class From>(From) {
      copy(r.stream, at<To>(o.dst), at<From>(o.src), shape, o.how);
    });
  });
}

void run(const kernel::Fill& o, const Resources& r) {
  const auto& v = o.dst;
  if (v.count() == 0) return;
  const auto shape = copy_shape(v, v);
  if (v.dtype == DType::i32)
    return fill(r.stream, at<std::int32_t>(v), static_cast<std::int32_t>(o.value), shape);
  if (v.dtype == DType::i64)
    return fill(r.stream, at<std::int64_t>(v), static_cast<std::int64_t>(o.value), shape);
  if (v.dtype == DType::f64) return fill(r.stream, at<double>(v), o.value, shape);
  with_type(v.dtype,
            [&]<class T>(T) { fill(r.stream, at<T>(v), T(static_cast<float>(o.value)), shape); });
}

void run(const kernel::Matmul& o, const Resources& r) {
  require(o.order == SumOrder::any,
          "matmul: a GPU's products do not sum in an order by shape or row alone; run.exactness = "
          "\"invariant\" needs the host");
  r.products.run(r.stream, o, r.scratch);
}

// Trainer refuses it before: BackendProperties::documents.
static void refuse_documents(const ConstView& starts_or_positions) {
  require(!starts_or_positions,
          "a GPU computes no attention within documents: give run.backend = \"host\"");
}

void run(const kernel::Attention& o, const Resources& r) {
  refuse_documents(o.start_BT);
  const auto type = o.o_BTHD.dtype;
  if (r.sdpa.supports(o.shape, type, Direction::forward) && r.sdpa.run(r.stream, o)) return;
  with_type(type, [&]<class T>(T) {
    attention(r.stream, heads<T>(o.o_BTHD), at<float>(o.lse_BHT), inputs_of<T>(o));
  });
}

void run(const kernel::AttentionGrad& o, const Resources& r) {
  refuse_documents(o.start_BT);
  const auto type = o.o_BTHD.dtype;
  if (r.sdpa.supports(o.shape, type, Direction::backward) && r.sdpa.run(r.stream, o)) return;
  with_type(type, [&]<class T>(T) {
    const AttentionGradients<T> gradients{.dq = heads<T>(o.dq_BTHD),
                                          .dk = heads<T>(o.dk_BTGD),
                                          .dv = heads<T>(o.dv_BTGD),
                                          .d_o = heads<T>(o.do_BTHD),
                                          .o = heads<T>(o.o_BTHD),
                                          .lse_BHT = at<float>(o.lse_BHT),
                                          .delta_BHT = reinterpret_cast<float*>(o.workspace.data)};
    attention_grad(r.stream, gradients, inputs_of<T>(o));
  });
}

void run(const kernel::CachedAttention&, const Resources&) {
  fail("cached_attention: a GPU keeps no keys and values yet: BackendProperties::caches says so");
}

void run(const kernel::Norm& o, const Resources& r) {
  with_type(o.x_TC.dtype, [&]<class T>(T) { norm(r.stream, rows_of<T>(o)); });
}

void run(const kernel::NormGrad& o, const Resources& r) {
  const auto rows = o.x_TC.extent[0], width = o.x_TC.extent[1];
  check_width(width);
  // What only dx is made of is multiplied all the same, with any row where it is absent.
  const ConstView w_C = o.w_C ? o.w_C : o.x_TC;
  with_type(o.x_TC.dtype, [&]<class T>(T) {
    norm_grad(r.stream,
              NormGradRows<T>{.dx = at<T>(o.dx_TC),
                              .dw = at<float>(o.dw_C),
                              .db = at<float>(o.db_C),
                              .how = o.how,
                              .onto = at<T>(o.dsum_TC),
                              .dy = at<T>(o.dy_TC),
                              .x = at<T>(o.x_TC),
                              .w = at<T>(w_C),
                              .means = at<float>(o.mean_T),
                              .rstds = at<float>(o.rstd_T),
                              .rows = rows,
                              .width = width,
                              .each = 1.0F / static_cast<float>(width),
                              .scratch = scratch<float>(o, r, norm_scratch(rows, width))});
  });
}

void run(const kernel::Dropout& o, const Resources& r) {
  with_type(o.x_BTC.dtype, [&]<class T>(T) { dropout(r.stream, dropped_of<T>(o)); });
}

void run(const kernel::ResidualNorm& o, const Resources& r) {
  if (!o.skip_BTC) return o.in_steps(o, [&](const auto& step) { run(step, r); });
  kernel::Dropout sum;
  kernel::Norm norm;
  o.in_steps(o, [&]<class Step>(const Step& step) {
    if constexpr (std::is_same_v<Step, kernel::Norm>)
      norm = step;
    else
      sum = step;
  });
  with_type(o.x_BTC.dtype,
            [&]<class T>(T) { residual_norm(r.stream, dropped_of<T>(sum), rows_of<T>(norm)); });
}

void run(const kernel::Rotary& o, const Resources& r) {
  refuse_documents(o.position_BT);
  const auto& x = o.x_BTHD;
  const float sign = o.direction == Direction::forward ? 1.0F : -1.0F;
  with_type(x.dtype, [&]<class T>(T) {
    rotary(r.stream, heads<T>(x), at<float>(o.table_T2E), sign, x.extent[0], x.extent[1],
           x.extent[2], x.extent[3]);
  });
}

void run(const kernel::Activate& o, const Resources& r) {
  with_type(o.x_N.dtype, [&]<class T>(T) {
    activate(r.stream, o.activation, at<T>(o.y_N), at<T>(o.x_N), o.x_N.count());
  });
}

void run(const kernel::ActivateGrad& o, const Resources& r) {
  with_type(o.x_N.dtype, [&]<class T>(T) {
    activate_grad(r.stream, o.activation, at<T>(o.dx_N), at<T>(o.dy_N), at<T>(o.x_N),
                  o.x_N.count());
  });
}

void run(const kernel::Swiglu& o, const Resources& r) {
  const auto& y = o.y_TF;
  with_type(y.dtype, [&]<class T>(T) {
    swiglu(r.stream, at<T>(y), at<T>(o.gate_up_T2F), y.extent[0], y.extent[1]);
  });
}

void run(const kernel::SwigluGrad& o, const Resources& r) {
  const auto& dy = o.dy_TF;
  with_type(dy.dtype, [&]<class T>(T) {
    swiglu_grad(r.stream, at<T>(o.dgate_up_T2F), at<T>(dy), at<T>(o.gate_up_T2F), dy.extent[0],
                dy.extent[1]);
  });
}

void run(const kernel::Embedding& o, const Resources& r) {
  const auto& y = o.y_TC;
  with_type(y.dtype, [&]<class T>(T) {
    embedding(r.stream, at<T>(y), at<std::int32_t>(o.ids_T), at<T>(o.table_VC), y.extent[0],
              y.extent[1]);
  });
}

void run(const kernel::EmbeddingGrad& o, const Resources& r) {
  const auto rows = o.dy_TC.extent[0], width = o.dy_TC.extent[1];
  auto* const sorting = scratch<std::byte>(o, r, embedding_scratch(rows));
  if (o.how == Accumulate::overwrite) run(kernel::Fill{.dst = o.dtable_VC}, r);
  with_type(o.dy_TC.dtype, [&]<class T>(T) {
    embedding_grad(r.stream, at<float>(o.dtable_VC), at<T>(o.dy_TC), at<std::int32_t>(o.ids_T),
                   rows, width, o.dtable_VC.extent[0], sorting);
  });
}

void run(const kernel::CrossEntropy& o, const Resources& r) {
  const auto rows = o.logits_TV.extent[0], vocab = o.logits_TV.extent[1];
  auto* const of_rows = scratch<double>(o, r, static_cast<std::size_t>(rows) * sizeof(double));
  with_type(o.logits_TV.dtype, [&]<class T>(T) {
    cross_entropy(r.stream, at<double>(o.loss), o.how, at<T>(o.logits_TV),
                  at<std::int32_t>(o.target_T), rows, vocab, static_cast<float>(o.scale),
                  o.logits == Logits::become_gradient, of_rows);
  });
}

void run(const kernel::AddFixed&, const Resources&) {
  fail("add_fixed: a GPU does not count quanta yet; run.exactness = \"invariant\" needs the host");
}

void run(const kernel::ColumnSum& o, const Resources& r) {
  const auto rows = o.x_TC.extent[0], width = o.x_TC.extent[1];
  auto* const partials = scratch<float>(o, r, column_scratch(rows, width));
  with_type(o.x_TC.dtype, [&]<class T>(T) {
    column_sum(r.stream, at<float>(o.out_C), o.how, at<T>(o.x_TC), rows, width, partials);
  });
}

void run(const kernel::Update& o, const Resources& r) {
  with_type_of_copies(o, [&]<class T>(T) {
    std::vector<UpdateShard<T>> shards;
    for (const auto& s : o.shards) {
      auto& shard = shards.emplace_back(UpdateShard<T>{.master = at<float>(s.master_N),
                                                       .copy = at<T>(s.copy_N),
                                                       .grad = at<float>(s.grad_N),
                                                       .state = {},
                                                       .count = s.master_N.count(),
                                                       .factors = s.factors});
      expect(s.state_N.size() == arrays_of(o.rule).size(), "a shard has its rule's arrays");
      std::ranges::transform(s.state_N, shard.state, [](const View& v) { return at<float>(v); });
    }
    update(r.stream, o.rule, std::span<const UpdateShard<T>>(shards));
  });
}

void run(const kernel::SumSquares& o, const Resources& r) {
  if (o.x.empty()) return;
  std::size_t bytes = 0;
  for (const auto& v : o.x) bytes += square_scratch(v.count());
  auto* const parts = scratch<double>(o, r, bytes);
  with_type(o.x[0].dtype, [&]<class T>(T) {
    std::vector<Array<T>> arrays;
    for (const auto& v : o.x) arrays.push_back({at<T>(v), v.count()});
    sum_squares<T>(r.stream, at<double>(o.out_N), arrays, parts);
  });
}

void run(const kernel::Digest& o, const Resources& r) {
  std::vector<DigestPart> parts;
  for (const auto& [x, first] : o.parts)
    parts.push_back({reinterpret_cast<const std::byte*>(x.data),
                     x.count() * static_cast<std::int64_t>(bytes_of(x.dtype)),
                     first * static_cast<std::int64_t>(bytes_of(x.dtype)) / digest::bytes_a_block});
  digest_parts(r.stream, at<std::int64_t>(o.out_N), parts,
               scratch<std::byte>(o, r, digest_scratch(parts)));
}

}  // namespace trireme::cuda
