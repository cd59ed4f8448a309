#include "lib/ops/repeat_heads.hpp"

namespace trireme::ops {

// Calls f(heads in qkv, the corresponding heads in `all`, mode) for each pair. The mode is
// `overwrite` for the first copy of a head and `add` for further copies.
void RepeatHeads::each_pair(const Tensor& qkv, const Tensor& all,
                            const std::function<void(View, View, Accumulate)>& f) const {
  const auto& [query, kv, dim] = heads_;
  const auto batch = qkv.shape()[0], tokens = qkv.shape()[1], each = query / kv;
  const View few = qkv.view().reshaped({batch, tokens, query + 2 * kv, dim}),
             many = all.view().reshaped({batch, tokens, 3 * query, dim});
  f(few.slice(2, 0, query), many.slice(2, 0, query), Accumulate::overwrite);
  for (std::int64_t g = 0; g < 2 * kv; ++g)
    for (std::int64_t copy = 0; copy < each; ++copy)
      f(few.slice(2, query + g, 1), many.slice(2, query + g * each + copy, 1),
        copy == 0 ? Accumulate::overwrite : Accumulate::add);
}

std::vector<Tensor> RepeatHeads::forward(const Run& run, std::vector<Tensor> in,
                                         Saved* saved) const {
  const Tensor& qkv = in[0];
  Tensor all =
      Tensor::empty(run.backend, {qkv.shape()[0], qkv.shape()[1], 3 * heads_.query * heads_.dim},
                    qkv.dtype(), kind_of(saved));
  each_pair(qkv, all, [&](View few, View many, Accumulate) {
    run.backend.put(Queue::compute, kernel::Copy{.dst = many, .src = few});
  });
  return {all};
}

std::vector<Tensor> RepeatHeads::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                                 Saved&, std::span<const std::uint8_t>) const {
  const Tensor& all = grad_out[0];
  Tensor dqkv = Tensor::empty(run.backend, {all.shape()[0], all.shape()[1], heads_.packed()},
                              all.dtype(), MemoryKind::transient);
  each_pair(dqkv, all, [&](View few, View many, Accumulate how) {
    run.backend.put(Queue::compute, kernel::Copy{.dst = few, .src = many, .how = how});
  });
  return {dqkv};
}

}  // namespace trireme::ops
