#include "app/fixed_models.hpp"

#include <optional>
#include <string>

#include "lib/base/log.hpp"
#include "lib/comm/agree.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/deck/teacher.hpp"
#include "lib/io/checkpoint_choice.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/train/objective.hpp"
#include "lib/train/state.hpp"

namespace trireme {

namespace fs = std::filesystem;

static std::string identity_of(const CheckpointReader& reader) {
  return to_string(reader.identity_of_weights());
}

// A checkpoint whose weights the run reads and never changes.
struct Fixed {
  std::string_view key, was, keys;  // deck key; description; all ways to name the checkpoint
};

// Returns the checkpoint at `given`. If `wanted` is given, its weights must have that hash, and
// another checkpoint of the same run is returned if only that one has it. Call it on one rank.
static fs::path find_fixed(const fs::path& given, const Fixed& what, const std::string& wanted) {
  require(fs::exists(given), "{}: there is no {}: correct the path", what.key, given.string());
  const auto newest = find_checkpoint(given);
  if (wanted.empty()) return newest;
  const auto here = identity_of(CheckpointReader(newest));
  if (here == wanted) return newest;
  const bool of_run = fs::is_directory(given / "checkpoints");
  const auto beside = of_run ? given / "checkpoints" : fs::canonical(newest).parent_path();
  for (const auto& other : list_checkpoints(beside))
    if (!damage_of(other.directory, Check::sizes) &&
        identity_of(CheckpointReader(other.directory)) == wanted)
      return other.directory;
  fail(
      "{} is not {}: its weights have the hash {} instead of {}, and no checkpoint in the same "
      "folder has the right weights. Name the right checkpoint with {}",
      newest.string(), what.was, here, wanted, what.keys);
}

// Opens the checkpoint that find_fixed() finds. check(reader) throws Error to reject it.
// Collective.
template <class F>
static std::unique_ptr<CheckpointReader> open_found(const Communicator& world, std::string path,
                                                    const Fixed& what, const std::string& wanted,
                                                    const F& check) {
  at_root(world, Pace::slow,
          [&] { path = fs::absolute(find_fixed(path, what, wanted)).lexically_normal().string(); });
  world.broadcast(path);
  std::unique_ptr<CheckpointReader> reader;
  std::string identity;
  together(world, Pace::slow, [&] {
    reader = std::make_unique<CheckpointReader>(path);
    require(description_of(*reader).adapter.rank == 0,
            "{}: {} contains adapters without their base model. Merge them into the base model "
            "with `trireme export`, and convert the result with `trireme import`",
            what.key, path);
    check(*reader);
    identity = identity_of(*reader);
  });
  const auto all = world.all_gather(identity);
  for (std::size_t r = 1; r < all.size(); ++r)
    if (all[r] != all[0])
      throw SharedError(
          fmt::format("rank {} and rank 0 read different weights from {}: all ranks need the same "
                      "checkpoint there",
                      r, path));
  return reader;
}

// Opens the checkpoint in model.init_from. `base` is the hash of its weights, or empty if any
// weights are right.
static std::unique_ptr<CheckpointReader> open_initial(const Communicator& world, const Deck& deck,
                                                      const std::string& base) {
  const Fixed what{"model.init_from", "the base model that these adapters were trained with",
                   "model.init_from in `trireme train`, or with --base in other commands"};
  return open_found(world, deck.init_from, what, base, [&](const CheckpointReader& reader) {
    require_model(reader, make_spec(deck.model));
    if (const auto known = model_of(reader).max_context; deck.data.context > known)
      log_warning(
          "model.context = {}, but {} was trained only with positions up to {}. Lower "
          "model.context, or set model.rope_scaling",
          deck.data.context, reader.directory().string(), known);
  });
}

static std::unique_ptr<CheckpointReader> open_adapter_base(const Communicator& world,
                                                           const Deck& deck,
                                                           const CheckpointMeta* adapters) {
  require(!deck.init_from.empty(),
          "adapter.rank = {}: adapters need a base model. Name its checkpoint with model.init_from",
          deck.adapter.rank);
  at_root(world, Pace::slow, [&] {
    require(fs::exists(deck.init_from),
            "{}, the base model of these adapters, does not exist. Put this checkpoint back, or "
            "give its new path with {}",
            deck.init_from,
            adapters ? "model.init_from in `trireme train`, or with --base in other commands"
                     : "model.init_from");
  });
  return open_initial(world, deck, adapters ? adapters->extra.base : "");
}

FixedModels open_fixed_models(const Communicator& world, const Deck& deck,
                              const CheckpointMeta* from, ModelUse use) {
  FixedModels fixed;
  if (deck.adapter.rank > 0)
    fixed.initial = open_adapter_base(world, deck, from);
  else if (!deck.init_from.empty() && !from)
    fixed.initial = open_initial(world, deck, "");
  if (traits_of(deck.train.objective).fixed != FixedModel::teacher || use != ModelUse::training)
    return fixed;
  const Fixed what{"distill.teacher", "the teacher that this run was trained with",
                   "distill.teacher"};
  fixed.teacher = open_found(world, deck.distill.teacher, what, from ? from->extra.teacher : "",
                             [&](const CheckpointReader& reader) {
                               fixed.teacher_model = teacher_in(reader, deck);
                               require_model(reader, make_spec(*fixed.teacher_model));
                             });
  return fixed;
}

Deck with_base(Deck deck, const std::string& path) {
  if (!path.empty()) deck.init_from = fs::absolute(path).string();
  return deck;
}

Deck with_paths_of(const FixedModels& fixed, Deck deck) {
  if (deck.adapter.rank > 0) deck.init_from = fixed.initial->directory().string();
  if (fixed.teacher) deck.distill.teacher = fixed.teacher->directory().string();
  return deck;
}

void compare_with_initial(const Deck& deck, const CheckpointReader& initial) {
  const auto differences = model_differences(model_of(initial), deck.model);
  if (!differences.empty())
    log_warning("model.init_from: the model in {} computes differently from the deck's model: {}",
                initial.directory().string(), fmt::join(differences, "; "));
}

}  // namespace trireme
