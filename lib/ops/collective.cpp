// All adjoints here follow one convention: the loss is the sum of all ranks' local losses. The
// adjoint of a collective is then its transpose, without a factor. These pairs are transposes of
// each other: all-gather and reduce-scatter (sum), an exchange and its inverse, an exchange that
// copies and an exchange that sums, send and receive. Tests check <Ax, y> = <x, A'y>, summed over
// ranks.
#include "lib/ops/collective.hpp"

#include "lib/ops/sequence_layout.hpp"

namespace trireme::ops {

namespace {

// The heads that each rank owns, as ranges of the packed heads of a token. The rank's tensor stores
// these heads contiguously.
class Ownership {
 public:
  Ownership(const Heads& h, int size, bool key_values) : dim(h.dim) {
    full = key_values ? h.query + 2 * h.kv : h.query;
    for (int d = 0; d < size; ++d) {
      const auto s = head_share(h, d, size);
      ranges.push_back({s.query});
      if (!key_values) continue;
      ranges.back().push_back({h.query + s.kv.begin, s.kv.count});
      ranges.back().push_back({h.query + h.kv + s.kv.begin, s.kv.count});
    }
  }
  std::int64_t owned(int d) const {
    std::int64_t n = 0;
    for (const auto& r : ranges[static_cast<std::size_t>(d)]) n += r.count;
    return n;
  }
  // Calls f for each range of heads that rank d owns. Arguments: the range in the packed tensor and
  // the index of its first head in rank d's tensor.
  template <class F>
  void each(int d, const F& f) const {
    std::int64_t at = 0;
    for (const auto& r : ranges[static_cast<std::size_t>(d)]) {
      f(r, at);
      at += r.count;
    }
  }

  std::int64_t full, dim;
  std::vector<std::vector<HeadRange>> ranges;  // by rank
};

// Buffer for data that is sent to or received from one rank. If that part of the tensor is dense,
// `view` refers to the tensor itself and `packed` is absent.
struct PeerBuffer {
  Tensor packed;
  View view;
};

PeerBuffer peer_buffer(Backend& b, View direct, const Shape& shape) {
  if (direct && direct.dense()) return {{}, direct.reshaped(shape)};
  PeerBuffer p{Tensor::empty(b, shape, direct.dtype, MemoryKind::transient), {}};
  p.view = p.packed.view();
  return p;
}

// Exchanges the buffers, which are indexed by rank of the group.
void exchange_buffers(const Run& run, const HeadRanks& group, std::span<const PeerBuffer> out,
                      std::span<const PeerBuffer> in, std::span<const Tensor> touched) {
  auto& b = run.backend;
  std::vector<ConstView> src(static_cast<std::size_t>(run.seq.size()));
  std::vector<View> dst(src.size());
  for (std::size_t d = 0; d < out.size(); ++d) {
    src[static_cast<std::size_t>(group.first) + d] = out[d].view;
    dst[static_cast<std::size_t>(group.first) + d] = in[d].view;
  }
  b.wait(Queue::exchange, b.record(Queue::compute));
  auto pending =
      run.seq.exchange(b, Queue::exchange, dst, src,
                       {OperationKind::exchange, "attention heads", run.pass.microbatch});
  const Event e = pending.wait(Queue::compute);
  for (const auto& p : out)
    if (p.packed) p.packed.used(e);
  for (const auto& p : in)
    if (p.packed) p.packed.used(e);
  for (const auto& t : touched) t.used(e);
}

// Sends each rank the heads that it owns: [B, t, full, D] -> [B, T, owned, D].
Tensor spread(const Run& run, const Tensor& x, const Ownership& own, MemoryKind kind) {
  auto& b = run.backend;
  const auto group = head_ranks(run);
  const int me = group.rank, size = group.size;
  const auto batch = x.shape()[0], t = x.shape()[1], mine = own.owned(me), dim = own.dim;
  const Tensor y = Tensor::empty(b, {batch, t * size, mine * dim}, x.dtype(), kind);
  const View x_BtFD = x.view().reshaped({batch, t, own.full, dim});
  const View y_BThD = y.view().reshaped({batch, t * size, mine, dim});
  const auto pack = [&](View to_BthD, int d) {
    own.each(d, [&](const HeadRange& r, std::int64_t at) {
      b.put(Queue::compute, kernel::Copy{.dst = to_BthD.slice(2, at, r.count),
                                         .src = x_BtFD.slice(2, r.begin, r.count)});
    });
  };
  std::vector<PeerBuffer> out(static_cast<std::size_t>(size)), in(out.size());
  for (int d = 0; d < size; ++d) {
    const View here_BthD = y_BThD.slice(1, d * t, t);
    if (d == me) {
      pack(here_BthD, d);
      continue;
    }
    View none;
    none.dtype = x.dtype();
    out[static_cast<std::size_t>(d)] = peer_buffer(b, none, {batch, t, own.owned(d), dim});
    pack(out[static_cast<std::size_t>(d)].view, d);
    in[static_cast<std::size_t>(d)] = peer_buffer(b, here_BthD, {batch, t, mine, dim});
  }
  exchange_buffers(run, group, out, in, std::array{y});
  for (int d = 0; d < size; ++d)
    if (const auto& p = in[static_cast<std::size_t>(d)]; p.packed)
      b.put(Queue::compute, kernel::Copy{.dst = y_BThD.slice(1, d * t, t), .src = p.view});
  return y;
}

// Reverses spread(): [B, T, owned, D] -> [B, t, full, D]. Heads that several ranks own are summed
// in rank order.
Tensor collect(const Run& run, const Tensor& y, const Ownership& own, MemoryKind kind) {
  auto& b = run.backend;
  const auto group = head_ranks(run);
  const int me = group.rank, size = group.size;
  const auto batch = y.shape()[0], t = y.shape()[1] / size, mine = own.owned(me), dim = own.dim;
  const Tensor x = Tensor::empty(b, {batch, t, own.full * dim}, y.dtype(), kind);
  const View x_BtFD = x.view().reshaped({batch, t, own.full, dim});
  const View y_BThD = y.view().reshaped({batch, t * size, mine, dim});
  std::vector<PeerBuffer> out(static_cast<std::size_t>(size)), in(out.size());
  for (int d = 0; d < size; ++d) {
    const View there_BthD = y_BThD.slice(1, d * t, t);
    if (d == me) {
      in[static_cast<std::size_t>(d)].view = there_BthD;
      continue;
    }
    auto& p = out[static_cast<std::size_t>(d)];
    p = peer_buffer(b, there_BthD, {batch, t, mine, dim});
    if (p.packed) b.put(Queue::compute, kernel::Copy{.dst = p.view, .src = there_BthD});
    View none;
    none.dtype = y.dtype();
    in[static_cast<std::size_t>(d)] = peer_buffer(b, none, {batch, t, own.owned(d), dim});
  }
  exchange_buffers(run, group, out, in, std::array{y});
  std::vector<std::uint8_t> written(static_cast<std::size_t>(own.full), 0);
  for (int d = 0; d < size; ++d)
    own.each(d, [&](const HeadRange& r, std::int64_t at) {
      for (std::int64_t h = 0; h < r.count;) {
        const auto before = written[static_cast<std::size_t>(r.begin + h)];
        std::int64_t n = 0;
        while (h + n < r.count && written[static_cast<std::size_t>(r.begin + h + n)] == before)
          written[static_cast<std::size_t>(r.begin + h + n++)] = 1;
        b.put(Queue::compute,
              kernel::Copy{.dst = x_BtFD.slice(2, r.begin + h, n),
                           .src = in[static_cast<std::size_t>(d)].view.slice(2, at + h, n),
                           .how = before ? Accumulate::add : Accumulate::overwrite});
        h += n;
      }
    });
  return x;
}

}  // namespace

Tensor all_heads(const Run& run, const Heads& heads, const Tensor& mine) {
  auto& b = run.backend;
  const auto group = head_ranks(run);
  const int me = group.rank, size = group.size;
  const Ownership own(heads, size, false);
  const auto batch = mine.shape()[0], t = mine.shape()[1];
  const Tensor x =
      Tensor::empty(b, {batch, t, own.full * own.dim}, mine.dtype(), MemoryKind::transient);
  std::vector<PeerBuffer> out(static_cast<std::size_t>(size)), in(out.size());
  View none;
  none.dtype = mine.dtype();
  for (int d = 0; d < size; ++d) {
    const auto i = static_cast<std::size_t>(d);
    in[i] = d == me ? PeerBuffer{{}, mine.view()}
                    : peer_buffer(b, none, {batch, t, own.owned(d) * own.dim});
    if (d != me) out[i].view = mine.view();
  }
  exchange_buffers(run, group, out, in, std::array{mine});
  const View x_BtFD = x.view().reshaped({batch, t, own.full, own.dim});
  for (int d = 0; d < size; ++d) {
    const auto from =
        in[static_cast<std::size_t>(d)].view.reshaped({batch, t, own.owned(d), own.dim});
    own.each(d, [&](const HeadRange& r, std::int64_t at) {
      b.put(Queue::compute, kernel::Copy{.dst = x_BtFD.slice(2, r.begin, r.count),
                                         .src = from.slice(2, at, r.count)});
    });
  }
  return x;
}

std::vector<Tensor> SplitHeads::forward(const Run& run, std::vector<Tensor> in,
                                        Saved* saved) const {
  return {spread(run, in[0], Ownership(heads_, head_ranks(run).size, true), kind_of(saved))};
}

std::vector<Tensor> SplitHeads::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                                Saved&, std::span<const std::uint8_t>) const {
  return {collect(run, grad_out[0], Ownership(heads_, head_ranks(run).size, true),
                  MemoryKind::transient)};
}

std::vector<Tensor> JoinHeads::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  return {collect(run, in[0], Ownership(heads_, head_ranks(run).size, false), kind_of(saved))};
}

std::vector<Tensor> JoinHeads::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                               Saved&, std::span<const std::uint8_t>) const {
  return {spread(run, grad_out[0], Ownership(heads_, head_ranks(run).size, false),
                 MemoryKind::transient)};
}

}  // namespace trireme::ops
