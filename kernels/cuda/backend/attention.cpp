// Attention. cuDNN computes the calls that it supports, and this project's own kernels compute all
// others. If keys come in pieces, cuDNN computes attention to each piece alone. The results of two
// pieces are joined by
//   lse' = log(exp(lse) + exp(lse2)),  o' = exp(lse - lse') o + exp(lse2 - lse') o2
// (Milakov, Gimelshein 2018). Gradients of pieces are added, because each is computed from o and
// lse of all keys.
#include <utility>

#include "kernels/cuda/attention/key_pieces.hpp"
#include "kernels/cuda/backend/operations.hpp"

namespace trireme::cuda {
namespace {

// Returns the workspace after its first `used` bytes.
View rest(const View& workspace, std::size_t used) {
  require(workspace.span_bytes() >= used, "attention: the workspace has {} bytes and needs {}",
          workspace.span_bytes(), used);
  const auto left = static_cast<std::int64_t>((workspace.span_bytes() - used) / 4);
  return {workspace.data + used, DType::f32, {left}};
}

// Returns the sums of dq between pieces as a [B, T, H, D] view. They are stored by head.
View sums_of(const kernel::AttentionGrad& o) {
  const auto& s = o.shape;
  View v(o.state.data, DType::f32, {s.batch, s.heads, s.tokens, s.head_dim});
  std::swap(v.extent[1], v.extent[2]);
  std::swap(v.stride[1], v.stride[2]);
  return v;
}

// Computes one piece through cuDNN. Returns false and does nothing if cuDNN does not support the
// call.
bool attend_piece(const kernel::Attention& o, const Resources& r) {
  const PieceResults piece(o.workspace.data, o.shape, Direction::forward);
  auto call = o;
  call.o_BTHD = piece.of_queries;
  call.lse_BHT = piece.lse;
  call.workspace = rest(o.workspace, piece.bytes);
  if (!r.sdpa.run(r.stream, call)) return false;
  join_piece(o, piece.of_queries, piece.lse, r.stream);
  return true;
}

bool attend_piece(const kernel::AttentionGrad& o, const Resources& r) {
  const PieceResults piece(o.workspace.data, o.shape, Direction::backward);
  const auto copy = [&](const View& dst, const ConstView& src, Accumulate how) {
    run(kernel::Copy{.dst = dst, .src = src, .how = how}, OnStream{r.stream, {}});
  };
  copy(piece.lse, o.lse_BHT, Accumulate::overwrite);
  auto call = o;
  call.dq_BTHD = piece.of_queries;
  call.dk_BTGD = piece.dk;
  call.dv_BTGD = piece.dv;
  call.lse_BHT = piece.lse;
  call.workspace = rest(o.workspace, piece.bytes);
  if (!r.sdpa.run(r.stream, call)) return false;
  copy(o.dk_BTGD, piece.dk, o.keys);
  copy(o.dv_BTGD, piece.dv, o.keys);
  if (o.piece == Piece::all) {
    copy(o.dq_BTHD, piece.of_queries, Accumulate::overwrite);
    return true;
  }
  const View sums = sums_of(o);
  copy(sums, piece.of_queries, begins_keys(o.piece) ? Accumulate::overwrite : Accumulate::add);
  if (ends_keys(o.piece)) copy(o.dq_BTHD, sums, Accumulate::overwrite);
  return true;
}

// Returns true if cuDNN can write its results directly to the operation's views.
bool is_direct(const kernel::Attention& o) {
  return o.piece == Piece::all && o.lse_BHT.dense();
}
bool is_direct(const kernel::AttentionGrad& o) {
  return o.piece == Piece::all && o.lse_BHT.dense() && o.keys == Accumulate::overwrite &&
         o.dk_BTGD.dtype == o.q_BTHD.dtype;
}

template <class O>
bool fused(const O& o, Direction d, const Resources& r) {
  if (o.start_BT || !r.sdpa.supports(o.shape, o.q_BTHD.dtype, d)) return false;
  if (piece_bytes(o.shape, d) > 0) return attend_piece(o, r);
  return is_direct(o) && r.sdpa.run(r.stream, o);
}

}  // namespace

void run(const kernel::Attention& o, const Resources& r) {
  if (!fused(o, Direction::forward, r)) attend(o, r.stream);
  if (o.sink_H && ends_keys(o.piece)) join_sinks(o, r.stream);
}

void run(const kernel::AttentionGrad& o, const Resources& r) {
  require(o.dk_BTGD.dtype != DType::i64,
          "attention_grad: GPUs do not support run.exactness = \"invariant\" yet; set run.backend "
          "= \"host\"");
  if (!fused(o, Direction::backward, r)) attend(o, r.stream);
}

}  // namespace trireme::cuda
