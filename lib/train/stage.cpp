#include "lib/train/stage.hpp"

#include <utility>

namespace trireme {

Stage::Stage(const Model& model, const Session& session, Backend& backend,
             const Communicator& world, Recompute recompute)
    : model_(model), session_(session), backend_(backend), world_(world), recompute_(recompute) {}

Run Stage::run_of(const Microbatch& batch, const When& when, int m, const Weights& weights,
                  Gradients* gradients) const {
  Place place;
  place.phase = when.phase;
  place.seed = when.seed;
  place.step = when.step;
  place.microbatch = m;
  place.rows = {batch.sample_B.view(), 0};
  place.targets_BT = batch.targets_BT.view();
  place.scale = when.scale;
  return {backend_, world_, weights, gradients, session_.trainable(), place};
}

Tensor Stage::forward(int m, const Microbatch& batch, const When& when) {
  auto& kept = kept_[m];
  Tensor x = batch.ids_BT;
  for (const auto& part : model_.parts()) {
    const bool first = kept.empty();
    const bool replay = recompute_ == Recompute::block && part->recomputable();
    const auto weights = session_.gather(part->units());
    auto gradients = session_.gradients(part->units());
    const bool early = part->gradients_in() == GradientsIn::forward;
    const auto run = run_of(batch, when, m, weights, early ? &gradients : nullptr);
    Kept k{{}, Tape(replay ? Record::off : Record::on), -1, -1};
    if (replay) k.input = x;
    Value in = k.tape.input(std::move(x), !first);
    k.leaf = in.slot;
    Value out = part->forward(k.tape, run, std::move(in));
    k.root = out.slot;
    x = std::move(out.data);
    kept.push_back(std::move(k));
  }
  return x;
}

void Stage::backward(int m, const Microbatch& batch, const When& when) {
  auto kept = std::move(kept_.at(m));
  kept_.erase(m);
  Tensor dy;
  for (std::size_t i = kept.size(); i-- > 0;) {
    const Part& part = *model_.parts()[i];
    Kept k = std::move(kept[i]);
    const bool early = part.gradients_in() == GradientsIn::forward;
    const auto weights = session_.gather(
        part.backward_reads() == BackwardReads::weights ? part.units() : std::span<const Borrow>());
    auto gradients = session_.gradients(part.units());
    const auto run = run_of(batch, when, m, weights, early ? nullptr : &gradients);
    if (k.input) {
      k.tape = Tape(Record::on);
      Value in = k.tape.input(std::move(k.input), true);
      k.leaf = in.slot;
      k.root = part.forward(k.tape, run, std::move(in)).slot;
    }
    dy = std::move(k.tape).backward(run, k.root, std::move(dy), k.leaf);
  }
}

// The activations after the first `parts` parts, nothing recorded.
Tensor Stage::hidden(const Microbatch& batch, std::size_t parts) {
  Tensor x = batch.ids_BT;
  for (const auto& part : model_.parts().first(parts)) {
    const auto weights = session_.gather(part->units());
    Tape tape(Record::off);
    const auto run = run_of(batch, {.phase = Phase::evaluate}, 0, weights, nullptr);
    x = part->forward(tape, run, tape.input(std::move(x), false)).data;
  }
  return x;
}

Tensor Stage::evaluate(const Microbatch& batch) {
  return hidden(batch, model_.parts().size());
}

Tensor Stage::logits(const Microbatch& batch, std::int64_t t) {
  const auto& head = *model_.parts().back();
  const Tensor x_BTC = hidden(batch, model_.parts().size() - 1);
  const auto weights = session_.gather(head.units());
  const auto width = x_BTC.shape()[2];
  return model_.head().logits(run_of(batch, {.phase = Phase::evaluate}, 0, weights, nullptr),
                              x_BTC.slice(t * width, {1, width}).view());
}

}  // namespace trireme
