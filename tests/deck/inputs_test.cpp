// The decks in inputs/: each can be read, and those for GPUs use their tensor cores.
#include <gtest/gtest.h>

#include <set>

#include "lib/base/posix_file.hpp"
#include "lib/deck/deck.hpp"
#include "tests/support/source_dir.hpp"

namespace trireme {
namespace {

// The others are for machines of a few dozen GB a rank, which are GPUs.
const std::set<std::string> for_cpus = {"quickstart", "shakespeare", "gpt2_124m"};

TEST(DecksOfInputs, AreReadAndSayBf16WhereTheyAreForGpus) {
  int decks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_dir() / "inputs")) {
    if (entry.path().extension() != ".toml") continue;
    if (read_text(entry.path()).find("theirs.checkpoint") != std::string::npos)
      continue;  // see tests/hf/guide_test.py
    SCOPED_TRACE(entry.path().string());
    const auto d = load_deck(entry.path());
    ++decks;
    EXPECT_EQ(d.precision.compute, for_cpus.contains(d.name) ? DType::f32 : DType::bf16);
  }
  EXPECT_GE(decks, 8);
}

TEST(DecksOfInputs, TheOneForAGpuTrainsTheSameModelAsTheOneForCpus) {
  const auto inputs = test::source_dir() / "inputs";
  auto cpu = load_deck(inputs / "gpt2_124m.toml"), gpu = load_deck(inputs / "gpt2_124m_gpu.toml");

  EXPECT_EQ(gpu.run.backend, "cuda");
  EXPECT_GE(gpu.train.microbatch, 32);
  cpu.name = gpu.name;
  cpu.run = gpu.run;
  cpu.precision = gpu.precision;
  cpu.train.microbatch = gpu.train.microbatch;
  EXPECT_EQ(cpu, gpu);
}

TEST(DecksOfInputs, TheOneForMuonDiffersInTheOptimizerAlone) {
  const auto inputs = test::source_dir() / "inputs";
  auto adamw = load_deck(inputs / "gpt2_124m_gpu.toml");
  const auto muon = load_deck(inputs / "muon.toml");

  EXPECT_EQ(muon.optimizer.name, OptimizerKind::muon);
  EXPECT_EQ(muon.optimizer.matrix_scale, MatrixScale::adamw);
  EXPECT_EQ(muon.optimizer.lr, adamw.optimizer.lr);
  adamw.name = muon.name;
  adamw.optimizer = muon.optimizer;
  EXPECT_EQ(muon, adamw);
}

}  // namespace
}  // namespace trireme
