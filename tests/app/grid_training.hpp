#pragma once
// The same folder, text and a deck that is legal on grids of 2 and 4 ranks.
#include "tests/app/training.hpp"

namespace trireme {

// Twelve steps with a checkpoint after every fourth and evaluations between.
inline constexpr const char* grid_deck = R"(
[model]
layers = 4
width = 32
heads = 4
context = 16
dropout = 0.1

[data]
path = "text.tokens"
validation = 0.2

[train]
batch = 12
microbatch = 3
steps = 12

[optimizer]
lr = 3e-3

[schedule]
warmup_steps = 2

[evaluate]
every_steps = 6
batches = 0

[checkpoint]
every_steps = 4
keep_last = 0

[run]
backend = "host"
threads = 1
)";

// A grid as overrides of the deck.
struct GridCase {
  int ranks;
  std::string overrides;
};

class GridTraining : public Training {
 protected:
  GridTraining() { folder.write("deck.toml", grid_deck); }

  // To be typed: `arguments` on N ranks.
  static std::string on(int ranks, const std::string& arguments) {
    return "$MPIEXEC -n " + std::to_string(ranks) + " $TRIREME " + arguments + " ";
  }
  static std::string train(const GridCase& grid, const std::string& arguments) {
    return on(grid.ranks, "train deck.toml " + grid.overrides + " " + arguments);
  }
  // A row of a table of the run, as numbers; the last one without `row`.
  std::vector<double> row_of(const std::string& file, std::size_t row = SIZE_MAX) {
    std::istringstream rows(contents_of(folder.path() / file));
    std::string line, last;
    std::getline(rows, line);
    for (std::size_t i = 0; i <= row && std::getline(rows, line); ++i) last = line;
    std::vector<double> numbers;
    std::istringstream fields(last);
    for (std::string field; std::getline(fields, field, ',');)
      numbers.push_back(field.empty() ? 0 : std::stod(field));
    return numbers;
  }
  static int count(const std::string& text, const std::string& what) {
    int n = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
  }
};

// Waits in the shell until the run has made so many steps.
inline std::string until_steps(const std::string& run, int steps) {
  return "while [ $(cat " + run + "/history.csv 2>/dev/null | wc -l) -le " + std::to_string(steps) +
         " ]; do sleep 0.02; done; ";
}

}  // namespace trireme
