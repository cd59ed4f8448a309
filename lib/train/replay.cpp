#include "lib/train/replay.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "lib/base/host_name.hpp"

namespace trireme {

ActivationDigests::ActivationDigests(Backend& b, const Model& model, std::vector<int> order)
    : backend_(b),
      parts_(model.parts().size()),
      order_(std::move(order)),
      digests_(Tensor::empty(b, {static_cast<std::int64_t>(2 * parts_ * order_.size())}, DType::i64,
                             MemoryKind::transient)) {
  b.put(Queue::compute, kernel::Fill{.dst = digests_.view(), .value = 0});
}

std::size_t ActivationDigests::index(Direction d, int m, std::size_t part) const {
  const auto of_step = static_cast<std::size_t>(order_[static_cast<std::size_t>(m)]);
  return of_step * 2 * parts_ + (d == Direction::forward ? part : 2 * parts_ - 1 - part);
}

void ActivationDigests::add(Direction d, int m, std::size_t part, const Tensor& x) {
  if (!x) return;
  const auto at = static_cast<std::int64_t>(index(d, m, part));
  backend_.put(Queue::compute,
               kernel::Digest{.out_N = digests_.slice(at, {1}).view(), .parts = {{x.view()}}});
}

std::vector<std::uint64_t> ActivationDigests::read(const Communicator& world) const {
  world.synchronize();
  std::vector<std::uint64_t> all(2 * parts_ * order_.size());
  backend_.download(Queue::compute, std::as_writable_bytes(std::span(all)), digests_.view());
  return all;
}

static bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool have_same_results(const Communicator& world, const Computation& a, const Computation& b) {
  double differs = a.activations != b.activations || a.gradients != b.gradients ||
                   !same_bits(a.loss, b.loss) || !same_bits(a.squares, b.squares);
  world.all_reduce_max({&differs, 1});
  return differs == 0;
}

static std::string rank_text(const Communicator& world) {
  return fmt::format("rank {} ({})", world.rank(), host_name());
}

// Returns the texts of the first ranks that have one, and the number of further ranks that have
// one.
static std::string gathered(const Communicator& world, const std::string& mine) {
  constexpr int most = 8;
  std::string all;
  int count = 0;
  for (const auto& text : world.all_gather(mine))
    if (!text.empty() && ++count <= most) all += (all.empty() ? "" : "; ") + text;
  if (count > most) all += fmt::format("; and on {} more ranks", count - most);
  return all;
}

std::string first_difference(const Communicator& world, const Model& model, const Computation& a,
                             const Computation& b) {
  // Micro-batches do not affect each other before their gradients are added. The earliest
  // difference within any micro-batch is therefore the first one.
  const auto parts = model.parts().size(), each = 2 * parts;
  constexpr auto none = std::numeric_limits<double>::infinity();
  double first = none;
  std::size_t microbatch = 0;
  for (std::size_t i = 0; i < a.activations.size(); ++i)
    if (a.activations[i] != b.activations[i] && static_cast<double>(i % each) < first) {
      first = static_cast<double>(i % each);
      microbatch = i / each;
    }
  double earliest = -first;
  world.all_reduce_max({&earliest, 1});
  if (earliest != -none) {
    const auto at = static_cast<std::size_t>(-earliest);
    const auto& part = *model.parts()[at < parts ? at : each - 1 - at];
    return fmt::format(
        "first in the {} of {}: {}", at < parts ? "forward pass" : "backward pass",
        model.spec().units[part.units()[0].unit.index()],
        gathered(world, first == -earliest
                            ? fmt::format("microbatch {} on {}", microbatch, rank_text(world))
                            : ""));
  }
  std::string mine;
  for (std::size_t p = 0; mine.empty() && p < a.gradients.of[0].size(); ++p)
    if (a.gradients.of[0][p] != b.gradients.of[0][p])
      mine = fmt::format("the gradient of {} on {}", model.spec().params[p].name, rank_text(world));
  const auto where = gathered(world, mine);
  return where.empty() ? "in the sum of the losses or of the squared gradients"
                       : "in the sum of " + where +
                             ", to which any rank that shares it may have added a wrong value";
}

std::string changed_arrays(const Communicator& world, const ModelSpec& spec,
                           const DigestTable& before, const DigestTable& now) {
  std::string mine;
  int count = 0;
  for (std::size_t k = 0; k < now.of.size(); ++k)
    for (std::size_t p = 0; p < now.of[k].size(); ++p) {
      const auto &was = before.of[k][p], &is = now.of[k][p];
      if (!was || !is || was == is) continue;
      if (++count == 1)
        mine = fmt::format("{} of {} (unit {})", now.arrays[k], spec.params[p].name,
                           spec.units[spec.params[p].unit.index()]);
    }
  if (count > 1) mine += fmt::format(" and {} more", count - 1);
  if (count > 0) mine += " on " + rank_text(world);
  return gathered(world, mine);
}

}  // namespace trireme
