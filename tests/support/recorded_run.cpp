#include "tests/support/recorded_run.hpp"

#include "lib/run/loop.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme::test {

static TrainerSetup setup_of(const Deck& d) {
  TrainerSetup s;
  s.model = d.model;
  s.adapter = d.adapter;
  s.context = d.data.context;
  s.dropout = d.train.dropout;
  s.recompute = d.train.recompute;
  s.offload = d.train.offload;
  s.optimizer = d.optimizer;
  s.freeze = d.freeze;
  s.compute = d.precision.compute;
  s.seed = static_cast<std::uint64_t>(d.train.seed);
  s.exact_chunk = exact_chunk(d);
  return s;
}

void record_run(const std::filesystem::path& run, const Deck& d, Backend& backend) {
  const auto training = training_data(d.data, d.data.context, d.model.vocab,
                                      static_cast<std::uint64_t>(d.train.seed));
  CheckpointMeta meta;
  meta.seed = static_cast<std::uint64_t>(d.train.seed);
  meta.deck = dump_deck(d);
  meta.version = "another";
  meta.run = "another";
  meta.vocab = d.model.vocab;
  for (const auto& p : make_spec(d.model, d.adapter).params) meta.updates[p.name] = 0;

  const RunDirectory directory(run, Existing::refuse);
  directory.write_deck(meta.deck);
  Workspace scratch(backend);
  Trainer trainer(backend, {}, setup_of(d));
  trainer.store().initialize(meta.seed, 1);
  RunRecord record(directory, Origin::fresh, Preferences::none, {}, Digests::some,
                   RoutingTable::none, meta);
  SignalWatch signals;
  LoopSettings settings;
  settings.train = d.train;
  settings.optimizer = d.optimizer;
  settings.schedule = d.schedule;
  settings.checkpoint = d.checkpoint;
  settings.run.log_every = 0;
  settings.run.digest_every = d.run.digest_every;
  settings.directory = run;
  settings.part_started = settings.process_started = std::chrono::steady_clock::now();
  TrainLoop({trainer, training, {}, record, signals}, settings, {meta}).run();
}

}  // namespace trireme::test
