#pragma once
// A folder with a text, its tokens and a deck, where the program is run from the outside.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/process.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {

// Twelve steps of a tiny model with a checkpoint after every fourth.
inline constexpr const char* training_deck = R"(
[model]
layers = 2
width = 32
heads = 2
context = 16
dropout = 0.1

[data]
path = "text.tokens"
validation = 0.2

[train]
batch = 4
microbatch = 2
steps = 12

[optimizer]
lr = 3e-3

[schedule]
warmup_steps = 2

[evaluate]
every_steps = 6
batches = 1

[checkpoint]
every_steps = 4
keep_last = 0

[run]
backend = "host"
threads = 1
)";

class Training : public testing::Test {
 protected:
  Training() {
    std::string text;
    for (int i = 0; i < 200; ++i) text += "the quick brown fox jumps over the lazy dog, ";
    folder.write("text.txt", text);
    folder.write("deck.toml", training_deck);
    const auto made = here("$TRIREME tokenize text.txt --output text.tokens");
    EXPECT_EQ(made.code, 0) << made.err;
  }
  test::Finished here(const std::string& command, int limit = 60) {
    return test::run(folder.path(), command, limit);
  }
  // The rows of history.csv without the columns that measure time.
  std::string losses(const std::string& run_dir) {
    std::string kept;
    std::istringstream rows(contents_of(folder.path() / run_dir / "history.csv"));
    for (std::string row; std::getline(rows, row);) {
      std::size_t comma = 0;
      for (int i = 0; i < 5 && comma != std::string::npos; ++i) comma = row.find(',', comma + 1);
      kept += row.substr(0, comma) + "\n";
    }
    return kept;
  }
  double first_loss(const std::string& run_dir) {
    std::string row, field;
    std::istringstream rows(contents_of(folder.path() / run_dir / "history.csv"));
    std::getline(rows, row);
    for (int i = 0; i < 3; ++i) std::getline(rows, field, ',');
    return std::stod(field);
  }
  // The hashes of all weights and moments of a checkpoint.
  std::string arrays(const std::string& run_dir, const std::string& step) {
    const auto manifest = nlohmann::json::parse(
        contents_of(folder.path() / run_dir / "checkpoints" / ("step-" + step) / "manifest.json"));
    std::string all;
    for (const auto& file : manifest.at("content").at("files"))
      if (file.contains("slices"))
        for (const auto& slice : file.at("slices")) all += slice.at("chunks").dump();
    return all;
  }
  ScratchFolder folder;
};

}  // namespace trireme
