#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "lib/io/describe.hpp"
#include "tests/io/sample_checkpoint.hpp"
#include "tests/support/sealed.hpp"

namespace trireme {

using namespace test;
using nlohmann::json;

static Manifest small_manifest() {
  FileRecord file{"rank-00000.h5", 1000, hash128("file"), 0, {}};
  file.slices.push_back({{"w", "weights", {4, 5}, 0, 20, DType::f32},
                         10,
                         {{100, hash128("a")}, {144, hash128("b")}}});
  return {sample_meta(3), {file}};
}

TEST(Manifest, RoundTrip) {
  const auto m = small_manifest();
  auto parsed = parse_manifest(to_text(m), "here");
  parsed.meta.tokenizer = m.meta.tokenizer;  // lives in a file of its own
  EXPECT_EQ(parsed.meta, m.meta);
  EXPECT_EQ(parsed.files, m.files);
}

TEST(Manifest, TextThatIsNotUtf8IsAnError) {
  auto m = small_manifest();
  m.meta.extra.machine = "\xff";
  EXPECT_TRUE(contains(message_of([&] { to_text(m); }), "UTF-8"));
}

// One thing wrong at a time, with the hash made right again.
TEST(Manifest, WhatCannotBeTrueIsRefused) {
  const auto good = json::parse(to_text(small_manifest()))["content"];
  EXPECT_EQ(message_of([&] { parse_manifest(sealed(good), "here"); }), "");
  const std::vector<std::pair<std::string, json>> edits = {
      {"/checkpoint/format", 99},
      {"/checkpoint/step", -1},
      {"/checkpoint/step", 1.5},
      {"/checkpoint/step", 18446744073709551615u},
      {"/checkpoint/step", "3"},
      {"/checkpoint/step", (std::int64_t{1} << 53) + 1},
      {"/checkpoint/samples", (std::int64_t{1} << 53) + 1},
      {"/checkpoint/tokens", std::numeric_limits<std::int64_t>::max()},
      {"/checkpoint/skipped", json::array({std::numeric_limits<std::int64_t>::max()})},
      {"/checkpoint/updates/block.0.bias", std::numeric_limits<std::int64_t>::max()},
      {"/checkpoint/vocab", std::int64_t{1} << 31},
      {"/checkpoint/seed", -1},
      {"/checkpoint/deck", "text"},
      {"/checkpoint/grid/pipe", 0},
      {"/checkpoint/skipped", json::array({"x"})},
      {"/files/0/name", "../rank-00000.h5"},
      {"/files/0/name", ""},
      {"/files/0/size", 120},
      {"/files/0/xxh3_128", "12"},
      {"/files/0/slices/0/group", "weights/x"},
      {"/files/0/slices/0/group", ""},
      {"/files/0/slices/0/name", std::string("w\0x", 3)},
      {"/files/0/slices/0/name", "a/w"},
      {"/files/0/slices/0/name", "."},
      {"/files/0/name", std::string("rank-00000.h5\0", 14)},
      {"/files/0/slices/0/shape", json::array({4, 6})},
      {"/files/0/slices/0/shape", json::array({4, -5})},
      {"/files/0/slices/0/shape", json::array({std::int64_t{1} << 40, std::int64_t{1} << 40})},
      {"/files/0/slices/0/shape", json::array({1, 1, 1, 1, 1, 4, 5})},
      {"/files/0/slices/0/begin", 1},
      {"/files/0/slices/0/count", 19},
      {"/files/0/slices/0/dtype", "bf16"},
      {"/files/0/slices/0/chunk_elements", 0},
      {"/files/0/slices/0/chunk_elements", 1 << 30},
      {"/files/0/slices/0/chunks", json::array()},
      {"/files/0/slices/0/chunks/0", json::array({100})},
      {"/files/0/slices/0/chunks/0/0", 9'000'000'000'000'000'000},
      {"/files/0/slices/0/group", "moment1"},
  };
  for (const auto& [where, value] : edits) {
    auto bad = good;
    bad[json::json_pointer(where)] = value;
    const auto message = message_of([&] { parse_manifest(sealed(bad), "here"); });
    EXPECT_TRUE(contains(message, "here is damaged")) << where << " " << value << ": " << message;
  }
}

// The arrays of an optimizer may have other shapes than the weights, but each has one.
TEST(Manifest, ArraysHaveShapesOfTheirOwn) {
  auto m = small_manifest();
  const auto square = [&](std::int64_t begin, std::int64_t count, Shape shape) {
    m.files[0].slices.push_back(
        {{"w", "left", shape, begin, count, DType::f32}, 16, {{300 + 4 * begin, hash128("c")}}});
  };
  square(0, 9, {4, 4});
  EXPECT_TRUE(contains(message_of([&] { parse_manifest(to_text(m), "here"); }),
                       "the slices of left/w end at element 9, but the array has 16 elements"));
  square(9, 7, {4, 4});
  EXPECT_EQ(message_of([&] { parse_manifest(to_text(m), "here"); }), "");
  m.files[0].slices.back().slice.shape = {2, 8};
  EXPECT_TRUE(contains(message_of([&] { parse_manifest(to_text(m), "here"); }),
                       "it contains two shapes or types for w"));
}

// Elements that lie in several places of the model, but in one of the file.
TEST(Manifest, SlicesAreNoLargerThanTheirFile) {
  auto m = small_manifest();
  m.files[0].slices[0].chunks = {{0, hash128("a")}, {0, hash128("a")}};
  for (const std::int64_t size : {80, 79}) {
    m.files[0].size = size;
    const auto message = message_of([&] { parse_manifest(to_text(m), "here"); });
    EXPECT_EQ(message, size == 80 ? ""
                                  : "here is damaged: the slices of rank-00000.h5 are larger "
                                    "than the file");
  }
}

TEST(Manifest, CountsOfTheLoopAreCounts) {
  auto good = json::parse(to_text(small_manifest()))["content"];
  auto& skipped = good["checkpoint"]["extra"]["skipped_in_row"];
  skipped = "12";
  EXPECT_EQ(parse_manifest(sealed(good), "here").meta.extra.skipped_in_row, 12);
  for (const char* text : {"-1", "1.5", "x", "1 ", "99999999999999999999", "9007199254740993"}) {
    skipped = text;
    EXPECT_TRUE(contains(message_of([&] { parse_manifest(sealed(good), "here"); }),
                         "must be a whole number"))
        << text;
  }
}

TEST(Manifest, NoTrainedTokensAreNotUnknownOnes) {
  auto m = small_manifest();
  EXPECT_FALSE(parse_manifest(to_text(m), "here").meta.extra.trained_tokens);
  for (const std::int64_t count : {0, 7}) {
    m.meta.extra.trained_tokens = count;
    EXPECT_EQ(parse_manifest(to_text(m), "here").meta.extra.trained_tokens, count);
  }
}

TEST(Manifest, Format1SaidAdamCounts) {
  const auto m = small_manifest();
  auto old = json::parse(to_text(m))["content"];
  auto& checkpoint = old["checkpoint"];
  checkpoint["format"] = 1;
  checkpoint["adam_counts"] = checkpoint["updates"];
  checkpoint.erase("updates");
  EXPECT_EQ(parse_manifest(sealed(old), "here").meta.updates, m.meta.updates);
  checkpoint["format"] = 2;
  EXPECT_TRUE(contains(message_of([&] { parse_manifest(sealed(old), "here"); }), "updates"));
}

TEST(Manifest, Format2HadNoModel) {
  auto m = small_manifest();
  m.meta.model = "[model]\nlayers = 2\n";
  EXPECT_EQ(parse_manifest(to_text(m), "here").meta.model, m.meta.model);
  auto old = json::parse(to_text(m))["content"];
  auto& checkpoint = old["checkpoint"];
  checkpoint.erase("model");
  EXPECT_TRUE(contains(message_of([&] { parse_manifest(sealed(old), "here"); }), "model"));
  checkpoint["format"] = 2;
  EXPECT_EQ(parse_manifest(sealed(old), "here").meta.model, "");
}

// Mutated bytes, and mutated values under a right hash: an Error or a manifest, never a crash.
TEST(Manifest, SurvivesMutations) {
  const auto text = to_text(small_manifest());
  std::uint64_t random = 1;
  const auto next = [&](std::uint64_t n) { return (random = mix64(random)) % n; };
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    auto bad = text;
    for (std::uint64_t edits = 1 + next(3); edits > 0; --edits) {
      const auto at = next(bad.size());
      switch (next(4)) {
        case 0:
          bad[at] = static_cast<char>(next(256));
          break;
        case 1:
          bad.erase(at, 1 + next(40));
          break;
        case 2:
          bad.insert(at, bad.substr(next(bad.size()), next(60)));
          break;
        default:
          bad[at] = "0123456789-{}[]\",:.e"[next(20)];
      }
      if (bad.empty()) bad = "{";
    }
    const auto whole = message_of([&] { parse_manifest(bad, "here"); });
    if (whole != "") ++refused;
    const auto content = json::parse(bad, nullptr, false);
    if (content.is_discarded() || !content.is_object() || !content.contains("content")) continue;
    message_of([&] { parse_manifest(sealed(content["content"]), "here"); });
  }
  EXPECT_GT(refused, 2900);  // an edit of white space alone goes unnoticed
  EXPECT_NE(message_of([&] { parse_manifest(std::string(100'000, '['), "here"); }), "");
}

TEST(Describe, ShowsWhatACheckpointHolds) {
  Folder folder;
  const CheckpointReader reader(save_sample(folder.path(), 7, 3));
  const auto text = describe(reader);
  for (const char* part :
       {"step-00000007", "84 samples, 5376 tokens", "pipe 1 x data 3 x seq 1", "rank-00002.h5",
        "embedding.table", "[1031, 2053]", "with moment1, slow_2", "width = 8", "block.0.bias"}) {
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  }
}

}  // namespace trireme
