// The backend's operations on rows and elements: each a kernel of its own.
#include "kernels/cuda/cuda.hpp"
#include "kernels/cuda/views.hpp"
#include "kernels/math/update_factors.hpp"

namespace trireme {

using namespace cuda;

static void check_width(std::int64_t width) {
  require(width <= widest_norm, "norms on a GPU are at most {} wide, not {}", widest_norm, width);
}

void Cuda::layer_norm(Queue q, View y, View mean, View rstd, ConstView x, ConstView w, ConstView b,
                      double eps) {
  check_width(x.extent[1]);
  put(q, "layer_norm", moving({x, w, b, y, mean, rstd}), [&](Stream s) {
    with_type(x.dtype, [&](auto t) {
      using T = decltype(t);
      norm(s, at<T>(y), at<float>(mean), at<float>(rstd), at<T>(x), at<T>(w), at<T>(b), x.extent[0],
           x.extent[1], static_cast<float>(eps));
    });
  });
}

void Cuda::residual_norm_grad(Queue q, View dx, View dw, View db, Accumulate how, ConstView dsum,
                              ConstView dy, ConstView x, ConstView w, ConstView mean,
                              ConstView rstd) {
  const auto rows = x.extent[0], width = x.extent[1];
  check_width(width);
  auto* const partials = scratch<float>(norm_scratch(rows, width), "the gradient of a norm");
  put(q, "norm_grad", moving({dsum, dy, x, w, mean, rstd, dx}, how, {dw, db}), [&](Stream s) {
    with_type(x.dtype, [&](auto t) {
      using T = decltype(t);
      norm_grad(s, at<T>(dx), at<float>(dw), at<float>(db), into(how), at<T>(dsum), at<T>(dy),
                at<T>(x), at<T>(w), at<float>(mean), at<float>(rstd), rows, width, partials);
    });
  });
}

void Cuda::layer_norm_grad(Queue q, View dx, View dw, View db, Accumulate how, ConstView dy,
                           ConstView x, ConstView w, ConstView mean, ConstView rstd) {
  residual_norm_grad(q, dx, dw, db, how, {}, dy, x, w, mean, rstd);
}

void Cuda::rms_norm(Queue q, View y, View rstd, ConstView x, ConstView w, double eps) {
  layer_norm(q, y, {}, rstd, x, w, {}, eps);
}

void Cuda::rms_norm_grad(Queue q, View dx, View dw, Accumulate how, ConstView dy, ConstView x,
                         ConstView w, ConstView rstd) {
  residual_norm_grad(q, dx, dw, {}, how, {}, dy, x, w, {}, rstd);
}

void Cuda::rotary(Queue q, View x, ConstView table, Direction direction) {
  const float sign = direction == Direction::forward ? 1.0F : -1.0F;
  put(q, "rotary", moving({x, x, table}), [&](Stream s) {
    with_type(x.dtype, [&](auto t) {
      cuda::rotary(s, heads<decltype(t)>(x), at<float>(table), sign, x.extent[0], x.extent[1],
                   x.extent[2], x.extent[3]);
    });
  });
}

void Cuda::gelu(Queue q, View y, ConstView x) {
  put(q, "gelu", moving({x, y}), [&](Stream s) {
    with_type(x.dtype,
              [&](auto t) { cuda::gelu(s, at<decltype(t)>(y), at<decltype(t)>(x), x.count()); });
  });
}

void Cuda::gelu_grad(Queue q, View dx, ConstView dy, ConstView x) {
  put(q, "gelu_grad", moving({dy, x, dx}), [&](Stream s) {
    with_type(x.dtype, [&](auto t) {
      using T = decltype(t);
      cuda::gelu_grad(s, at<T>(dx), at<T>(dy), at<T>(x), x.count());
    });
  });
}

void Cuda::swiglu(Queue q, View y, ConstView gate_up) {
  put(q, "swiglu", moving({gate_up, y}), [&](Stream s) {
    with_type(y.dtype, [&](auto t) {
      using T = decltype(t);
      cuda::swiglu(s, at<T>(y), at<T>(gate_up), y.extent[0], y.extent[1]);
    });
  });
}

void Cuda::swiglu_grad(Queue q, View dgate_up, ConstView dy, ConstView gate_up) {
  put(q, "swiglu_grad", moving({dy, gate_up, dgate_up}), [&](Stream s) {
    with_type(dy.dtype, [&](auto t) {
      using T = decltype(t);
      cuda::swiglu_grad(s, at<T>(dgate_up), at<T>(dy), at<T>(gate_up), dy.extent[0], dy.extent[1]);
    });
  });
}

static DropoutRows where(const ConstView& x_BTC, const SampleRows& rows) {
  return {x_BTC.extent[0], x_BTC.extent[1], x_BTC.extent[2], rows.t0,
          at<std::int64_t>(rows.sample_B)};
}

void Cuda::residual_norm(Queue q, View sum, View y, View mean, View rstd, ConstView x,
                         ConstView skip, ConstView w, ConstView b, double eps,
                         const DropoutKey& key, const SampleRows& rows) {
  check_width(x.extent[2]);
  put(q, "residual_norm", moving({x, skip, w, b, sum, y, mean, rstd}), [&](Stream s) {
    with_type(x.dtype, [&](auto t) {
      using T = decltype(t);
      cuda::residual_norm(s, at<T>(sum), at<T>(y), at<float>(mean), at<float>(rstd), at<T>(x),
                          at<T>(skip), at<T>(w), at<T>(b), static_cast<float>(eps), key,
                          where(x, rows));
    });
  });
}

void Cuda::dropout(Queue q, View y, ConstView x, ConstView skip, const DropoutKey& key,
                   const SampleRows& rows) {
  put(q, "dropout", moving({x, skip, y}), [&](Stream s) {
    with_type(x.dtype, [&](auto t) {
      using T = decltype(t);
      cuda::dropout(s, at<T>(y), at<T>(x), at<T>(skip), key, where(x, rows));
    });
  });
}

void Cuda::embedding(Queue q, View y, ConstView ids, ConstView table) {
  auto work = moving({ids, y});
  work.bytes += bytes_of_rows(table, y.extent[0]);
  put(q, "embedding", work, [&](Stream s) {
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
  auto work = moving({dy, ids});
  work.bytes += 2 * bytes_of_rows(dtable, rows);
  put(q, "embedding_grad", work, [&](Stream s) {
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
  const bool gradient = what == Logits::become_gradient;
  put(q, "cross_entropy", moving({logits, gradient ? logits : View{}, target}), [&](Stream s) {
    with_type(logits.dtype, [&](auto t) {
      cuda::cross_entropy(s, at<double>(loss), into(how), at<decltype(t)>(logits),
                          at<std::int32_t>(target), rows, vocab, static_cast<float>(scale),
                          gradient, of_rows);
    });
  });
}

void Cuda::column_sum(Queue q, View out, Accumulate how, ConstView x) {
  const auto rows = x.extent[0], width = x.extent[1];
  auto* const partials = scratch<float>(column_scratch(rows, width), "column_sum");
  put(q, "column_sum", moving({x}, how, {out}), [&](Stream s) {
    with_type(x.dtype, [&](auto t) {
      cuda::column_sum(s, at<float>(out), into(how), at<decltype(t)>(x), rows, width, partials);
    });
  });
}

// f(T{}) for the type of the copies; where there is none, no kernel looks at it.
template <class Part, class F>
static void with_type_of_copies(std::span<const Part> parts, const F& f) {
  const auto with_copy =
      std::ranges::find_if(parts, [](const Part& p) { return static_cast<bool>(p.copy); });
  with_type(with_copy == parts.end() ? DType::bf16 : with_copy->copy.dtype, f);
}

void Cuda::sgd(Queue q, std::span<const SgdPart> parts) {
  Work work;
  for (const auto& p : parts) work += moving({p.master, p.grad, p.master, p.copy});
  put(q, "sgd", work, [&](Stream s) {
    with_type_of_copies(parts, [&]<class T>(T) {
      std::vector<SgdShard<T>> shards;
      for (const auto& p : parts)
        shards.push_back({at<float>(p.master), at<T>(p.copy), at<float>(p.grad), p.master.count(),
                          math::update_of(p.how)});
      cuda::sgd<T>(s, shards);
    });
  });
}

void Cuda::adamw(Queue q, std::span<const AdamWPart> parts) {
  Work work;
  for (const auto& p : parts)
    work += moving({p.master, p.m, p.v, p.grad, p.master, p.m, p.v, p.copy});
  put(q, "adamw", work, [&](Stream s) {
    with_type_of_copies(parts, [&]<class T>(T) {
      std::vector<AdamWShard<T>> shards;
      for (const auto& p : parts)
        shards.push_back({at<float>(p.master), at<float>(p.m), at<float>(p.v), at<T>(p.copy),
                          at<float>(p.grad), p.master.count(), math::update_of(p.how)});
      cuda::adamw<T>(s, shards);
    });
  });
}

void Cuda::sum_squares(Queue q, View out, std::span<const ConstView> x) {
  if (x.empty()) return;
  Work work;
  std::size_t bytes = 0;
  for (const auto& v : x) {
    work += moving({v});
    bytes += square_scratch(v.count());
  }
  auto* const parts = scratch<double>(bytes, "sum_squares");
  put(q, "sum_squares", work, [&](Stream s) {
    with_type(x[0].dtype, [&](auto t) {
      using T = decltype(t);
      std::vector<Array<T>> arrays;
      for (const auto& v : x) arrays.push_back({at<T>(v), v.count()});
      cuda::sum_squares<T>(s, at<double>(out), arrays, parts);
    });
  });
}

}  // namespace trireme
