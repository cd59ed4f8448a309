// Runs a sequence of ops in chunks of tokens.
//   forward pass   y = f(x) chunk by chunk; only x is saved
//   backward pass  chunk by chunk, in the same order: recompute f on a tape, then its adjoint
#include <utility>

#include "kernels/trace.hpp"
#include "lib/autograd/tape.hpp"
#include "lib/autograd/token_chunks.hpp"

namespace trireme {

static Run run_of(const Run& all, const TokenChunk& c) {
  Run run = all;
  run.pass = pass_of(all.pass, c);
  return run;
}

static std::vector<TokenChunk> chunks_of(const Run& run, const Tensor& x_BTC) {
  return token_chunks(x_BTC.shape()[0], x_BTC.shape()[1], run.pass.chunk_tokens);
}

static std::vector<Value> leaves_of(Tape& tape, const std::vector<Tensor>& x, const TokenChunk& c,
                                    std::span<const std::uint8_t> wanted) {
  std::vector<Value> leaves;
  for (std::size_t i = 0; i < x.size(); ++i)
    leaves.push_back(tape.input(rows_of(x[i], c), wanted[i] != 0));
  return leaves;
}

static std::vector<std::int32_t> slots_of(const std::vector<Value>& values) {
  std::vector<std::int32_t> slots;
  for (const auto& v : values) slots.push_back(v.slot);
  return slots;
}

static void put_rows(Backend& b, const Tensor& to_BTC, const TokenChunk& c, const Tensor& from) {
  b.put(Queue::compute, kernel::Copy{.dst = rows_of(to_BTC, c).view(), .src = from.view()});
}

static Tensor room_for_all(Backend& b, const Shape& all, const Tensor& chunk, MemoryKind kind) {
  return Tensor::empty(b, {all[0], all[1], chunk.shape()[2]}, chunk.dtype(), kind);
}

// Returns the input of which `rows` is a chunk. Returns null if `rows` is a new tensor.
static const Tensor* passed(const std::vector<Tensor>& x, const TokenChunk& c, const Tensor& rows) {
  for (const auto& one : x)
    if (rows_of(one, c).view().data == rows.view().data) return &one;
  return nullptr;
}

std::vector<Value> Tape::apply(const Run& run, const TokenwiseOps& sequence,
                               std::vector<Value> in) {
  const auto chunks = chunks_of(run, in[0].data);
  if (chunks.size() == 1) return sequence.forward(*this, run, std::move(in));
  auto& b = run.backend;
  const TraceScope span(sequence.name(), run.pass.microbatch);
  Step s{.sequence = &sequence, .in = slots_of(in)};
  std::vector<Tensor> x, y;
  std::vector<std::uint8_t> wanted, flows;
  for (auto& v : in) {
    wanted.push_back(wanted_[static_cast<std::size_t>(v.slot)]);
    x.push_back(std::move(v.data));
  }
  in.clear();
  bool record = false;
  for (const auto& c : chunks) {
    Tape tape(Record::off);
    const auto out = sequence.forward(tape, run_of(run, c), leaves_of(tape, x, c, wanted));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const Tensor* const whole = passed(x, c, out[i].data);
      if (i == y.size()) {
        flows.push_back(tape.wanted_[static_cast<std::size_t>(out[i].slot)]);
        record = record || (record_ != Record::off && flows.back() != 0);
        y.push_back(whole ? *whole
                          : room_for_all(b, x[0].shape(), out[i].data,
                                         record ? MemoryKind::saved : MemoryKind::transient));
      }
      if (!whole) put_rows(b, y[i], c, out[i].data);
    }
  }
  std::vector<Value> out;
  for (std::size_t i = 0; i < y.size(); ++i) {
    out.push_back(input(std::move(y[i]), flows[i] != 0));
    s.out.push_back(out.back().slot);
  }
  if (!record) return out;
  s.saved.keep(std::move(x));
  steps_.push_back(std::move(s));
  return out;
}

Value Tape::finish(const Run& run, const TokenwiseOps& sequence, std::vector<Value> in) {
  if (record_ != Record::again || chunks_of(run, in[0].data).size() == 1)
    return std::move(apply(run, sequence, std::move(in))[0]);
  Step s{.sequence = &sequence, .in = slots_of(in)};
  std::vector<Tensor> x;
  for (auto& v : in) x.push_back(std::move(v.data));
  s.saved.keep(std::move(x));
  Value out = input({}, true);
  s.out = {out.slot};
  steps_.push_back(std::move(s));
  return out;
}

std::vector<Tensor> Tape::each_chunk_back(const Run& run, Step& s, std::vector<Tensor> grad_out,
                                          std::span<const std::uint8_t> wanted,
                                          const GoBack& go_back) {
  const auto& x = s.saved.as<std::vector<Tensor>>();
  std::vector<Tensor> grad_in(x.size());
  for (const auto& c : chunks_of(run, x[0])) {
    const auto here = run_of(run, c);
    Tape tape(Record::on);
    auto in = leaves_of(tape, x, c, wanted);
    const auto leaves = slots_of(in);
    const auto roots = slots_of(s.sequence->forward(tape, here, std::move(in)));
    std::vector<Tensor> seeds;
    for (const auto& g : grad_out) seeds.push_back(g ? rows_of(g, c) : Tensor{});
    const auto dx = go_back(tape, here, roots, std::move(seeds), leaves);
    for (std::size_t i = 0; i < dx.size(); ++i) {
      if (!wanted[i] || !dx[i]) continue;
      if (!grad_in[i])
        grad_in[i] = room_for_all(run.backend, x[i].shape(), dx[i], MemoryKind::transient);
      put_rows(run.backend, grad_in[i], c, dx[i]);
    }
  }
  return grad_in;
}

}  // namespace trireme
