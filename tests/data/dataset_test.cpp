#include "lib/data/deck_data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <set>

#include "lib/base/error.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/scratch.hpp"
#include "tests/tokenizer/letters.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct Predictions {
  std::vector<std::int32_t> ids_T, targets_T;
  std::int64_t valid = 0;
};

Predictions predictions(const Dataset& data, std::int64_t sample) {
  const auto T = static_cast<std::size_t>(data.sample_length());
  Predictions s{std::vector<std::int32_t>(T), std::vector<std::int32_t>(T), 0};
  s.valid = data.read(sample, s.ids_T, s.targets_T);
  return s;
}

DataConfig config_for(std::vector<std::string> path) {
  DataConfig config;
  config.path = std::move(path);
  return config;
}

TEST(Dataset, SequentialWindowsFollowEachOther) {
  const ScratchFolder scratch;
  auto config = config_for({write_token_file(scratch / "a", counting(13))});
  config.order = SampleOrder::sequential;
  const Dataset data = training_data(config, 4, 256, 0);
  EXPECT_EQ(data.samples_per_epoch(), 3);
  EXPECT_THAT(predictions(data, 0).ids_T, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(predictions(data, 0).targets_T, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(predictions(data, 2).ids_T, ElementsAre(8, 9, 10, 11));
  EXPECT_THAT(predictions(data, 2).targets_T, ElementsAre(9, 10, 11, 12));
  EXPECT_EQ(predictions(data, 2).valid, 4);
  // The next epoch begins again.
  EXPECT_THAT(predictions(data, 3).ids_T, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(data.epoch_of(2), 0);
  EXPECT_EQ(data.epoch_of(3), 1);
}

TEST(Dataset, RandomOrderPredictsEachTokenOnceAnEpoch) {
  const ScratchFolder scratch;
  const auto config = config_for({write_token_file(scratch / "a", counting(101, 101))});
  const Dataset data = training_data(config, 5, 256, 3);
  ASSERT_EQ(data.samples_per_epoch(), 20);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int32_t> targets;
    for (int i = 0; i < 20; ++i) {
      const Predictions s = predictions(data, epoch * 20 + i);
      for (std::size_t t = 0; t < 5; ++t) EXPECT_EQ(s.targets_T[t], s.ids_T[t] + 1);
      targets.insert(targets.end(), s.targets_T.begin(), s.targets_T.end());
    }
    EXPECT_FALSE(std::is_sorted(targets.begin(), targets.end()));
    std::sort(targets.begin(), targets.end());
    std::vector<std::int32_t> all(100);
    std::iota(all.begin(), all.end(), 1);
    EXPECT_EQ(targets, all);
  }
}

TEST(Dataset, MasksWhatTheFileMasks) {
  const ScratchFolder scratch;
  write_token_file(scratch / "a", counting(9),
                   {.targets = {true, false, true, true, false, false, false, false, false}});
  auto config = config_for({scratch / "a"});
  config.order = SampleOrder::sequential;
  const Dataset data = training_data(config, 4, 256, 0);
  EXPECT_THAT(predictions(data, 0).targets_T, ElementsAre(-1, 2, 3, -1));
  EXPECT_EQ(predictions(data, 0).valid, 2);
  EXPECT_EQ(predictions(data, 1).valid, 0);
}

TEST(Dataset, MasksTheFirstTokenAfterASeparator) {
  const ScratchFolder scratch;
  write_token_file(scratch / "a", {5, 6, 0, 7, 0, 8, 9, 0, 4}, {.separator = 0});
  auto config = config_for({scratch / "a"});
  config.order = SampleOrder::sequential;
  const auto targets = [&](std::int64_t i) {
    return predictions(training_data(config, 4, 256, 0), i).targets_T;
  };
  EXPECT_THAT(targets(0), ElementsAre(6, 0, 7, 0));
  config.separator_masks = true;
  EXPECT_THAT(targets(0), ElementsAre(6, 0, -1, 0));
  EXPECT_THAT(targets(1), ElementsAre(-1, 9, 0, -1));

  config.path = {write_token_file(scratch / "b", counting(20))};
  EXPECT_THAT(message_of<Error>([&] { training_data(config, 4, 256, 0); }),
              AllOf(HasSubstr(scratch / "b"), HasSubstr("--separator")));
}

TEST(Dataset, ADocumentBeginsBehindASeparator) {
  const auto starts = [](const std::vector<std::int32_t>& ids) {
    std::vector<std::int32_t> start(ids.size(), -1);
    find_documents(ids, 0, start);
    return start;
  };
  EXPECT_THAT(starts({5, 6, 0, 7, 8, 0, 9}), ElementsAre(0, 0, 0, 3, 3, 3, 6));
  EXPECT_THAT(starts({0, 0, 7, 0, 0, 8}), ElementsAre(0, 1, 2, 2, 4, 5));  // in a row
  EXPECT_THAT(starts({0, 0, 0, 0}), ElementsAre(0, 1, 2, 3));              // nothing else
  EXPECT_THAT(starts({5, 6, 7, 0}), ElementsAre(0, 0, 0, 0));              // the last of a sample
  EXPECT_THAT(starts({0}), ElementsAre(0));
  EXPECT_THAT(starts({1}), ElementsAre(0));
}

// A sample begins inside of a document, and positions begin there all the same.
TEST(Dataset, DocumentsOfASampleBeginInIt) {
  const ScratchFolder scratch;
  write_token_file(scratch / "a", {5, 6, 0, 7, 0, 8, 9, 0, 4}, {.separator = 0});
  auto config = config_for({scratch / "a"});
  config.order = SampleOrder::sequential;
  config.validation_files = {write_token_file(scratch / "held", {1, 0, 0, 2, 3}, {.separator = 0})};
  const std::vector<std::int64_t> both{0, 1}, one{0};
  EXPECT_TRUE(read_batch(training_data(config, 4, 256, 0), both).start_BT.empty());
  config.attention = AttentionSpan::document;
  EXPECT_THAT(read_batch(training_data(config, 4, 256, 0), both).start_BT,
              ElementsAre(0, 0, 0, 3, 0, 1, 1, 1));
  EXPECT_THAT(read_batch(validation_data(config, 4, 256).at(0).data, one).start_BT,
              ElementsAre(0, 0, 2, 3));

  config.path = {write_token_file(scratch / "b", counting(20))};
  EXPECT_THAT(message_of<Error>([&] { training_data(config, 4, 256, 0); }),
              AllOf(HasSubstr(scratch / "b"), HasSubstr("--separator")));
}

// Of 124 and 24 windows that two files hold out, as data.weights says; of files that are held out,
// as many as their size is of all.
TEST(Dataset, ASubsetOfWhatIsHeldOutIsOfAllFiles) {
  const ScratchFolder scratch;
  auto config = config_for({write_token_file(scratch / "a", counting(1000)),
                            write_token_file(scratch / "b", counting(200))});
  config.validation_fraction = 0.5;
  const auto of_first = [&](std::int64_t samples) {
    const auto held_out = validation_data(config, 4, 256).at(0).data;
    EXPECT_EQ(held_out.samples_per_epoch(), 148);
    const auto subset = held_out.subset(samples);
    std::int64_t count = 0;
    for (std::int64_t k = 0; k < subset.samples(); ++k) count += subset(k) < 124;
    return std::pair(count, subset.samples());
  };
  EXPECT_EQ(of_first(37), std::pair(31L, 37L));
  config.weights = {1, 1};
  EXPECT_EQ(of_first(36), std::pair(18L, 36L));
  EXPECT_EQ(of_first(100), std::pair(76L, 100L));
  EXPECT_EQ(of_first(0), std::pair(124L, 148L));

  config.validation_fraction = 0;
  config.validation_files = {write_token_file(scratch / "c", counting(500)),
                             write_token_file(scratch / "d", counting(100))};
  EXPECT_EQ(of_first(37), std::pair(31L, 37L));
}

TEST(Dataset, WeightsAreSharesOfSamples) {
  const ScratchFolder scratch;
  write_token_file(scratch / "a", std::vector<std::int32_t>(1001, 1));
  write_token_file(scratch / "b", std::vector<std::int32_t>(101, 2));
  auto config = config_for({scratch / "a", scratch / "b"});
  config.weights = {1, 3};
  const Dataset data = training_data(config, 10, 256, 0);
  EXPECT_EQ(data.samples_per_epoch(), 110);
  int from_b = 0;
  for (int i = 0; i < 400; ++i) from_b += predictions(data, i).ids_T[0] == 2;
  EXPECT_NEAR(from_b, 300, 2);
  // Each file has its own epochs.
  EXPECT_FALSE(data.has_common_epochs());
  std::array<int, 2> read{};
  for (int i = 0; i < 400; ++i) {
    const bool is_b = predictions(data, i).ids_T[0] == 2;
    EXPECT_EQ(data.epoch_of(i), read[is_b]++ / (is_b ? 10 : 100)) << i;
  }
  config.weights.clear();
  EXPECT_TRUE(training_data(config, 10, 256, 0).has_common_epochs());
}

TEST(Dataset, RefusesOneShareForTwoFiles) {
  const ScratchFolder scratch;
  auto config = config_for({write_token_file(scratch / "a", counting(100)),
                            write_token_file(scratch / "b", counting(100))});
  config.weights = {1};
  EXPECT_NE(message_of<Error>([&] {
              training_data(config, 10, 256, 0);
            }).find("data.weights has 1 values for 2 files"),
            std::string::npos);
}

TEST(Dataset, TakesFilesThatAreOpen) {
  const ScratchFolder scratch;
  const auto config = config_for({write_token_file(scratch / "a", counting(100))});
  auto files = open_training_files(config);
  std::filesystem::remove(scratch / "a");
  const auto data = training_data(config, std::move(files), 10, 256, 0, {});
  EXPECT_EQ(data.samples_per_epoch(), 9);
}

// A target has the weight of the document that it is in, whichever document its input is in.
TEST(Dataset, TargetsHaveTheWeightsOfTheirDocuments) {
  const ScratchFolder scratch;
  //                                 0  1  2  3  4  5  6  7  8  9
  write_token_file(scratch / "a", {5, 6, 0, 7, 0, 8, 9, 4, 0, 3},
                   {.separator = 0, .weights = {{3, 2}, {5, 0.25F}, {9, 4}, {10, 1}}});
  write_token_file(scratch / "b", {5, 6, 7, 0, 1, 2, 0}, {.separator = 0});
  auto config = config_for({scratch / "a", scratch / "b"});
  config.order = SampleOrder::sequential;
  const auto weights = [&](std::int64_t i) {
    const auto data = training_data(config, 4, 256, 0);
    EXPECT_EQ(data.document_weights(), DocumentWeights::present);
    EXPECT_EQ(read_batch(data, {{i}}).weight_BT, data.weights(i));
    return data.weights(i);
  };
  EXPECT_THAT(weights(0), ElementsAre(2, 2, 0.25F, 0.25F));
  EXPECT_THAT(weights(1), ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(weights(2), ElementsAre(1, 1, 1, 1));
  config.loss_weights = {2, 0.5};
  EXPECT_THAT(weights(0), ElementsAre(4, 4, 0.5F, 0.5F));
  EXPECT_THAT(weights(2), ElementsAre(0.5F, 0.5F, 0.5F, 0.5F));
  config.loss_weights.clear();
  config.packing = Packing::documents;
  config.attention = AttentionSpan::document;
  // The samples of a: {5, 6, 7, padding}, {8, 9, 4, padding}; the last document has no target.
  EXPECT_THAT(weights(0), ElementsAre(2, 2, 0.25F, 1));
  EXPECT_THAT(weights(1), ElementsAre(4, 4, 4, 1));
  // Evaluations have none.
  config.validation_files = {scratch.write("v", contents_of(scratch / "a"))};
  const auto v = validation_data(config, 4, 256);
  EXPECT_EQ(v[0].data.document_weights(), DocumentWeights::absent);
  EXPECT_TRUE(read_batch(v[0].data, {{0}}).weight_BT.empty());
  // Nor has training on files that have none.
  config.path = {scratch / "b"};
  EXPECT_EQ(training_data(config, 4, 256, 0).document_weights(), DocumentWeights::absent);
  config.path = {scratch / "a"};
  config.loss_weights = {32768};
  EXPECT_THAT(message_of<Error>([&] { training_data(config, 4, 256, 0); }),
              AllOf(HasSubstr(scratch / "a"), HasSubstr("weight 4"), HasSubstr("by 32768")));
}

TEST(Dataset, TheHeldOutTailSharesNoTokenWithTraining) {
  const ScratchFolder scratch;
  for (const double fraction : {0.1, 0.25, 0.5}) {
    auto config =
        config_for({write_token_file(scratch / "a", counting(1000, 1000), {.vocab = 1000}),
                    write_token_file(scratch / "b", counting(501, 501), {.vocab = 1000})});
    config.validation_fraction = fraction;
    const Dataset train = training_data(config, 7, 1000, 0);
    const auto sets = validation_data(config, 7, 1000);
    ASSERT_EQ(sets.size(), 1U);
    const auto& held_out = sets[0].data;
    EXPECT_NEAR(static_cast<double>(held_out.samples_per_epoch()) /
                    static_cast<double>(train.samples_per_epoch()),
                fraction / (1 - fraction), 0.03);
    for (std::size_t f = 0; f < 2; ++f) {
      const auto& t = train.ranges()[f];
      const auto& v = held_out.ranges()[f];
      EXPECT_EQ(t.end, v.begin);
      EXPECT_EQ(v.end, v.file.count());
    }
    std::int32_t last_trained = 0;
    for (std::int64_t i = 0; i < train.samples_per_epoch(); ++i) {
      const Predictions s = predictions(train, i);
      last_trained = std::max(last_trained, s.targets_T.back());
    }
    EXPECT_LT(last_trained, predictions(held_out, 0).ids_T.front());
  }
}

TEST(Dataset, ValidationFilesComeInSequence) {
  const ScratchFolder scratch;
  auto config = config_for({write_token_file(scratch / "a", counting(100))});
  EXPECT_TRUE(validation_data(config, 4, 256).empty());
  config.validation_files = {write_token_file(scratch / "v", counting(9))};
  const auto held_out = validation_data(config, 4, 256);
  ASSERT_EQ(held_out.size(), 1U);
  EXPECT_THAT(predictions(held_out[0].data, 1).ids_T, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(training_data(config, 4, 256, 0).samples_per_epoch(), 24);

  config.validation_files = {scratch / "a"};
  EXPECT_THAT(message_of<Error>([&] { validation_data(config, 4, 256); }),
              HasSubstr("used for both training and validation"));
}

TEST(Dataset, ValidationSetsFollowDataValidation) {
  const ScratchFolder scratch;
  auto config = config_for({write_token_file(scratch / "a", counting(100))});
  const auto b = write_token_file(scratch / "b", counting(9)),
             c = write_token_file(scratch / "c", counting(17));
  config.sets = {{"late", {b, c}}, {"code", {c}}};
  const auto names = [&] { return names_of_sets(validation_data(config, 4, 256)); };
  EXPECT_THAT(names(), ElementsAre("late", "code"));
  config.validation_fraction = 0.5;
  EXPECT_THAT(names(), ElementsAre("", "late", "code"));
  const auto sets = validation_data(config, 4, 256);
  EXPECT_EQ(sets[0].data.ranges()[0].begin, 50);
  EXPECT_EQ(sets[1].data.samples_per_epoch(), 2 + 4);
  EXPECT_EQ(sets[2].data.samples_per_epoch(), 4);
  EXPECT_EQ(sets[0].label(), "validation");
  EXPECT_EQ(sets[2].label(), "validation[code]");

  write_token_file(scratch / "c", counting(300, 300), {.vocab = 300});
  EXPECT_EQ(vocabulary_of(config, 0), 300);
  config.sets[1].path = {scratch / "a"};
  EXPECT_THAT(message_of<Error>([&] { validation_data(config, 4, 300); }),
              HasSubstr("remove it from data.path or from the [[validation]] set code"));
}

TEST(Dataset, NamesTheFileWithTooLittleData) {
  const ScratchFolder scratch;
  auto config = config_for({write_token_file(scratch / "a", counting(64))});
  const auto refusal = [&] {
    return message_of<Error>([&] { training_data(config, 64, 256, 0); });
  };
  EXPECT_THAT(refusal(), AllOf(HasSubstr(scratch / "a"), HasSubstr("64"), HasSubstr("65")));
  write_token_file(scratch / "a", counting(65));
  EXPECT_EQ(refusal(), "");
  config.validation_fraction = 0.1;
  EXPECT_THAT(refusal(), HasSubstr("58 tokens"));
  write_token_file(scratch / "a", counting(640));
  EXPECT_EQ(refusal(), "");
  EXPECT_THAT(message_of<Error>([&] { validation_data(config, 64, 256); }), HasSubstr("64 tokens"));
  config.path.clear();
  EXPECT_THAT(refusal(), HasSubstr("data.path"));
}

TEST(Dataset, RefusesAVocabularyBeyondTheModels) {
  const ScratchFolder scratch;
  const auto config =
      config_for({write_token_file(scratch / "a", counting(300, 300), {.vocab = 50257})});
  EXPECT_EQ(vocabulary_of(config, 0), 50257);
  EXPECT_EQ(vocabulary_of(config, 256), 300);
  EXPECT_THAT(message_of<Error>([&] { training_data(config, 8, 256, 0); }),
              AllOf(HasSubstr(scratch / "a"), HasSubstr("50257"), HasSubstr("256"),
                    HasSubstr("model.vocab")));
  EXPECT_EQ(training_data(config, 8, 50304, 0).samples_per_epoch(), 37);
  // Ids that the model has no rows for may be known where they do not occur.
  EXPECT_EQ(training_data(config, 8, 300, 0).samples_per_epoch(), 37);
  EXPECT_THAT(message_of<Error>([&] { training_data(config, 8, 299, 0); }), HasSubstr("id 299"));
}

TEST(Dataset, NamesAnIdBeyondTheVocabulary) {
  const ScratchFolder scratch;
  std::string bytes = contents_of(write_token_file(scratch / "a", counting(100)));
  bytes[256 + 2 * 42 + 1] = 1;  // token 42 becomes 298
  auto config = config_for({scratch.write("b", bytes)});
  config.order = SampleOrder::sequential;
  const Dataset data = training_data(config, 10, 256, 0);
  EXPECT_EQ(predictions(data, 3).valid, 10);
  EXPECT_THAT(message_of<Error>([&] { predictions(data, 4); }),
              AllOf(HasSubstr(scratch / "b"), HasSubstr("token 42"), HasSubstr("298")));
}

TEST(Dataset, RefusesTwoTokenizers) {
  const ScratchFolder scratch;
  const TokenizerSpec bytes{TokenizerKind::bytes, {}};
  const TokenizerSpec model = tokenizer_of_letters("abc");
  write_token_file(scratch / "a", counting(99), {.tokenizer = bytes});
  write_token_file(scratch / "b", counting(99), {.tokenizer = model});
  write_token_file(scratch / "c", counting(99));
  EXPECT_THAT(message_of<Error>([&] {
                training_data(config_for({scratch / "a", scratch / "b"}), 8, 256, 0);
              }),
              AllOf(HasSubstr(scratch / "a"), HasSubstr(scratch / "b"), HasSubstr("tokenizer")));
  const Dataset data = training_data(config_for({scratch / "c", scratch / "b"}), 8, 256, 0);
  EXPECT_EQ(data.tokenizer(), model);
}

TEST(Dataset, ABatchIsItsSamples) {
  const ScratchFolder scratch;
  write_token_file(scratch / "a", counting(100), {.targets = std::vector<bool>(100, true)});
  const Dataset data = training_data(config_for({scratch / "a"}), 6, 256, 0);
  const std::vector<std::int64_t> samples = {11, 3, 40};
  const Batch batch = read_batch(data, samples);
  EXPECT_EQ(batch.sample_B, samples);
  EXPECT_EQ(batch.valid, 18);
  for (std::size_t b = 0; b < 3; ++b) {
    const Predictions s = predictions(data, samples[b]);
    EXPECT_TRUE(std::equal(s.ids_T.begin(), s.ids_T.end(), batch.ids_BT.begin() + 6 * b));
    EXPECT_TRUE(
        std::equal(s.targets_T.begin(), s.targets_T.end(), batch.targets_BT.begin() + 6 * b));
  }
}

}  // namespace
}  // namespace trireme
