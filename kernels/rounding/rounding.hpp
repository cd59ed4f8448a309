#pragma once
// A backend that wraps another one and perturbs each result at random by about the size of its
// rounding error. The results of a program on this backend are a random sample of the results that
// other summation orders could have given (Monte Carlo arithmetic: Parker, Pierce, Eggert 2000;
// CESTAC: Vignes 1993).
//
// Let u be half a unit in the last place of 1 in the type of sums. Each element x of a result is
// perturbed by an independent random number of mean 0 and standard deviation
//   u / sqrt(6) |a| |b|     for a matrix product of row a and column b. With K terms of size s and
//                           random signs, a sum of k of them has size s sqrt(k), each sum is
//                           rounded with variance u^2 / 3 times its square, and |a| |b| = K s
//   u sqrt(n / 6) rms(row)  for other sums of n terms (attention, statistics over rows)
//   u / sqrt(3) |x|         for all other results; the two above also get it, as an added variance
// The perturbed element is rounded to its type again. A random shift of at most half a unit in the
// last place is added as well, to undo the first rounding. Copies, the optimizer's own arithmetic,
// counts and choices are not perturbed.
#include <cstdint>
#include <memory>

#include "kernels/backend.hpp"

namespace trireme {

// Backend that adds random rounding errors to the results of another backend.
class Rounding final : public Backend {
 public:
  // Wraps a backend. Equal seeds and equal calls give equal numbers. Throws Error if the host
  // cannot access the backend's memory.
  Rounding(std::unique_ptr<Backend>, std::uint64_t seed);

  const BackendProperties& properties() const override { return inner_->properties(); }
  void put(Queue, const kernel::Operation&) override;
  AttentionBytes attention_bytes(const AttentionShape& s, DType t, Direction d) const override {
    return inner_->attention_bytes(s, t, d);
  }
  Block take(std::size_t bytes, MemoryKind k, Queue first, Memory m) override {
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
