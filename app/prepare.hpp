#pragma once
// From a deck to all that a run needs: data, ranks in their places, backend, model and its state.
#include <memory>
#include <optional>
#include <string>

#include "app/run_support.hpp"
#include "lib/data/dataset.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// What a run needs, made before anything of an earlier run is touched.
struct Prepared {
  Deck deck;
  Dataset training;
  std::optional<Dataset> validation;
  std::optional<CheckpointReader> from;
  CheckpointMeta meta;
  BackendChoice choice;
  DType compute{};
  Axes axes;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<Trainer> trainer;

  bool finished() const;  // all its steps are done
};

// On every rank; `from`: the checkpoint to go on from, empty for none. What is wrong on one rank is
// an Error on all. Nothing but data is opened where the run is finished already.
Prepared prepare(const Communicator& world, Deck, const std::string& from);

}  // namespace trireme
