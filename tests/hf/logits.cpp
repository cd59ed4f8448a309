// hf_logits CHECKPOINT IDS OUT [section.key=value ...]: logits of a checkpoint's model.
//
// IDS holds i32 in rows of model.context, OUT gets as many f64 rows of model.vocab: each position's
// logits, those of the first sample first. Overrides change the checkpoint's deck, so that any grid
// and precision can be asked for. Each position is asked for by itself, as generation does.
#include <cstring>
#include <fstream>
#include <iostream>

#include "app/machine.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/comm/agree.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/io/checkpoint_choice.hpp"
#include "lib/launch/mpi_job.hpp"
#include "lib/train/state.hpp"

namespace trireme {

static std::vector<std::int32_t> read_ids(const std::string& path, std::int64_t context) {
  const auto bytes = read_text(path);
  std::vector<std::int32_t> ids(bytes.size() / sizeof(std::int32_t));
  std::memcpy(ids.data(), bytes.data(), ids.size() * sizeof(std::int32_t));
  require(!ids.empty() && ids.size() % static_cast<std::size_t>(context) == 0,
          "{} holds {} ids, no whole samples of {}", path, ids.size(), context);
  return ids;
}

// By rank 0; the one rank that has the logits of a position hands them over.
static std::vector<double> logits(Trainer& trainer, std::span<const std::int32_t> ids) {
  std::vector<double> sum(static_cast<std::size_t>(trainer.model().spec().config.vocab), 0.0);
  const auto mine = trainer.logits(ids);
  if (!mine.empty()) sum = mine;
  trainer.axes().world.all_reduce(sum);
  return sum;
}

static void write_logits(const Communicator& world, const std::string& checkpoint,
                         const std::string& ids_path, const std::string& out,
                         std::span<const std::string> overrides) {
  CheckpointReader reader(find_checkpoint(checkpoint));
  const auto deck = resolve(with_overrides(deck_of(reader), overrides),
                            {.ranks = world.size(), .vocab = reader.meta().vocab});
  auto fixed = open_fixed_models(world, deck, &reader.meta(), ModelUse::evaluation);
  auto machine = choose_machine(world, deck, fixed, ModelUse::evaluation);
  machine.open(world);
  load_model(world, machine, fixed, &reader, 0);
  auto& trainer = *machine.trainer;

  const auto context = static_cast<std::size_t>(deck.data.context);
  const auto ids = read_ids(ids_path, deck.data.context);
  std::ofstream file;
  if (world.rank() == 0) file.open(out, std::ios::binary);
  for (std::size_t sample = 0; sample < ids.size(); sample += context)
    for (std::size_t n = 1; n <= context; ++n) {
      const auto z = logits(trainer, std::span(ids).subspan(sample, n));
      if (world.rank() == 0)
        file.write(reinterpret_cast<const char*>(z.data()),
                   static_cast<std::streamsize>(z.size() * sizeof(double)));
    }
  file.close();
  require(world.rank() != 0 || file, "cannot write {}", out);
}

}  // namespace trireme

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: hf_logits CHECKPOINT IDS OUT [section.key=value ...]\n";
    return 2;
  }
  const trireme::launch::MpiJob job(60);
  try {
    const std::vector<std::string> overrides(argv + 4, argv + argc);
    trireme::write_logits(job.world(), argv[1], argv[2], argv[3], overrides);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "hf_logits: " << e.what() << "\n";
    job.abort(1);
  }
}
