#pragma once
// Another backend, each of whose results is perturbed at random by about as much as rounding may:
// what a program computes with it is a draw from what any order of its sums would have given it
// (Monte Carlo arithmetic: Parker, Pierce, Eggert 2000; CESTAC: Vignes 1993).
//
// With u half a unit in the last place of 1 in the type of sums, and independent random numbers of
// mean 0, an element x of a result is perturbed with the standard deviation
//   u / sqrt(6) |a| |b|     a product's, of a row a and a column b: with K terms of size s and of
//                           random signs the sum of k of them is s sqrt(k), each is rounded with
//                           variance u^2 / 3 of that, and |a| |b| = K s
//   u sqrt(n / 6) rms(row)  a sum of n terms elsewhere (attention, statistics over rows)
//   u / sqrt(3) |x|         all else, and what is added to
// and rounded to its type again, from where it may have been before it was rounded at first. What
// is copied, and the optimizer's own arithmetic, stays as it is; so do counts and what is chosen.
#include <cstdint>
#include <memory>

#include "kernels/backend.hpp"

namespace trireme {

class Rounding final : public Backend {
 public:
  // Error for a backend whose memory the host cannot access. The same seed and calls give the same
  // numbers.
  Rounding(std::unique_ptr<Backend>, std::uint64_t seed);

  const BackendProperties& properties() const override { return inner_->properties(); }
  void put(Queue, const kernel::Operation&) override;
  AttentionBytes attention_bytes(const AttentionShape& s, DType t, Direction d) const override {
    return inner_->attention_bytes(s, t, d);
  }
  Block take(std::size_t bytes, Kind k, Queue first, Memory m) override {
    return inner_->take(bytes, k, first, m);
  }
  void give(const Block& b, std::span<const Event> last) noexcept override {
    inner_->give(b, last);
  }
  const Account& account() const override { return inner_->account(); }
  void lend_workspace(View v) override { inner_->lend_workspace(v); }
  Event record(Queue q) override { return inner_->record(q); }
  void wait(Queue q, Event e) override { inner_->wait(q, e); }
  bool done(Event e) override { return inner_->done(e); }
  void* native(Queue q) override { return inner_->native(q); }
  void upload(Queue q, View dst, std::span<const std::byte> bytes) override {
    inner_->upload(q, dst, bytes);
  }
  void download(Queue q, std::span<std::byte> bytes, ConstView src) override {
    inner_->download(q, bytes, src);
  }
  void touched(Queue q, ConstView read, View written) override {
    inner_->touched(q, read, written);
  }

 private:
  std::unique_ptr<Backend> inner_;
  std::uint64_t seed_, operations_ = 0;
};

}  // namespace trireme
