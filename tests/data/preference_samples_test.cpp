// Pairs of documents: from a token file to samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>

#include "lib/corpus/tokenize.hpp"
#include "lib/data/deck_data.hpp"
#include "tests/corpus/pair_files.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;

using PairSamples = test::PairFiles;

DataConfig packed(const std::string& path) {
  DataConfig c;
  c.path = {path};
  c.packing = Packing::documents;
  c.attention = AttentionSpan::document;
  return c;
}

// A line of a pair with answers of these lengths behind a prompt of two bytes.
std::string line(int chosen, int rejected) {
  return R"({"prompt": "pp", "chosen": ")" + std::string(static_cast<std::size_t>(chosen), 'c') +
         R"(", "rejected": ")" + std::string(static_cast<std::size_t>(rejected), 'r') + "\"}\n";
}

TEST_F(PairSamples, StandWholeInASample) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += line(1 + i % 5, 1 + i % 3);
  tokenize(options(lines + line(9, 10)));  // 23 inputs
  for (const auto order : {SampleOrder::random, SampleOrder::sequential}) {
    auto config = packed(output_);
    config.order = order;
    const auto data = training_data(config, 22, 256, 1);
    EXPECT_EQ(data.kind(), Documents::pairs);
    const auto& totals = *data.packed(0);
    EXPECT_EQ(totals.pairs, 41);
    EXPECT_EQ(totals.long_pairs, 1);
    int found = 0;
    std::vector<std::int64_t> all;
    for (std::int64_t s = 0; s < data.samples_per_epoch(); ++s) all.push_back(s);
    const auto batch = read_batch(data, all);
    for (std::size_t s = 0; s < all.size(); ++s) {
      char last = 'r';  // what the document before has
      for (std::int64_t t = 0; t < batch.tokens_B[s]; ++t) {
        const auto at = s * 22 + static_cast<std::size_t>(t);
        if (batch.start_BT[at] != t) continue;
        const char now = static_cast<char>(batch.ids_BT[at + 2]);
        EXPECT_EQ(now, last == 'r' ? 'c' : 'r');
        last = now;
        found += now == 'r';
      }
      EXPECT_EQ(last, 'r');
    }
    EXPECT_EQ(found, 40);
    config.long_documents = LongDocuments::refuse;
    EXPECT_THAT(message_of<Error>([&] { training_data(config, 22, 256, 1); }),
                HasSubstr("the pair that begins at token"));
    config.long_documents = LongDocuments::drop;
    EXPECT_EQ(training_data(config, 22, 256, 1).packed(0)->in_samples(), 80);
    config.long_documents = LongDocuments::split;
    EXPECT_THAT(message_of<Error>([&] { training_data(config, 22, 256, 1); }),
                HasSubstr("which cannot be split"));
  }
}

// A pair belongs to where its first document begins, wherever the border lies.
TEST_F(PairSamples, AreHeldOutWhole) {
  std::string lines;
  for (int i = 0; i < 6; ++i) lines += line(2, 3);
  tokenize(options(lines));  // of 11 tokens each
  const auto count = TokenFile(output_).count();
  ASSERT_EQ(count, 66);
  for (std::int64_t border = 12; border < 55; ++border) {
    auto config = packed(output_);
    config.validation_fraction = static_cast<double>(count - border) / static_cast<double>(count);
    const auto training = training_data(config, 16, 256, 1);
    const auto held_out = validation_data(config, 16, 256).at(0).data;
    EXPECT_EQ(training.packed(0)->pairs, (border + 10) / 11) << border;
    EXPECT_EQ(held_out.packed(0)->pairs, 6 - (border + 10) / 11) << border;
  }
}

TEST_F(PairSamples, AreNotReadAsAnythingElse) {
  tokenize(options(line(2, 3)));
  auto config = packed(output_);
  EXPECT_NO_THROW(training_data(config, 16, 256, 1));
  EXPECT_THAT(message_of<Error>([&] { training_data(config, 8, 256, 1); }),
              HasSubstr("no pair fits"));
  config.packing = Packing::windows;
  EXPECT_THAT(message_of<Error>([&] { training_data(config, 4, 256, 1); }),
              HasSubstr("contains preference pairs"));
  TokenFileOptions o;
  o.separator = 0;
  config = packed(output_);
  config.path.push_back(write_token_file(scratch_ / "others", {1, 2, 0, 3, 4, 0}, o));
  EXPECT_THAT(message_of<Error>([&] { training_data(config, 16, 256, 1); }),
              HasSubstr("contains preference pairs (trireme tokenize --preference), but"));
}

// Scores follow their documents into whatever sample these stand.
TEST_F(PairSamples, BringTheScoresOfTheirDocuments) {
  std::string lines;
  for (int i = 0; i < 12; ++i) lines += line(1 + i % 5, 1 + i % 3);
  tokenize(options(line(9, 10) + lines));  // 23 inputs
  const auto all_scores = [&](std::int64_t T) {
    const auto data = training_data(packed(output_), T, 256, 5);
    auto documents = std::vector(data.documents(0).begin(), data.documents(0).end());
    std::ranges::sort(documents, {}, &PackedDocument::begin);
    const TokenFile file(output_);
    ReferenceLosses all{"pairs.scores", "", "", "", T, {}};
    all.files.push_back({"elsewhere", "of another file", {0}, {1}, {-1}});
    auto& f = all.files.emplace_back(FileLosses{output_, identity_text(file), {}, {}, {}});
    for (const auto& d : documents) {
      f.begin_D.push_back(d.begin);
      f.inputs_D.push_back(d.count);
      f.loss_D.push_back(static_cast<double>(1000 * d.begin + d.count));
    }
    return all;
  };
  const auto scores = all_scores(22);
  EXPECT_EQ(scores.files[1].begin_D.size(), 24U);
  for (const auto order : {SampleOrder::random, SampleOrder::sequential})
    for (const std::uint64_t seed : {1, 2}) {
      auto config = packed(output_);
      config.order = order;
      config.validation_fraction = 0.3;
      const auto training = training_data(config, 22, 256, seed).with_reference(scores);
      const auto held_out = validation_data(config, 22, 256).at(0).data.with_reference(scores);
      std::size_t found = 0;
      for (const auto* data : {&training, &held_out}) {
        std::vector<std::int64_t> samples(static_cast<std::size_t>(data->samples_per_epoch()));
        std::iota(samples.begin(), samples.end(), data->samples_per_epoch());  // the second epoch
        const auto batch = read_batch(*data, samples);
        std::size_t d = 0;
        for (std::size_t s = 0; s < samples.size(); ++s)
          for (std::int64_t t = 0, end; t < batch.tokens_B[s]; t = end) {
            const auto start = [&](std::int64_t i) {
              return batch.start_BT[s * 22 + static_cast<std::size_t>(i)];
            };
            for (end = t + 1; end < batch.tokens_B[s] && start(end) == t;) ++end;
            const auto begin = static_cast<std::int64_t>(batch.reference_D.at(d) / 1000);
            EXPECT_EQ(batch.reference_D[d++], static_cast<double>(1000 * begin + end - t));
            std::vector<std::int32_t> ids(static_cast<std::size_t>(end - t));
            TokenFile(output_).read(begin, ids);
            EXPECT_TRUE(std::ranges::equal(
                ids,
                std::span(batch.ids_BT).subspan(s * 22 + static_cast<std::size_t>(t), ids.size())));
          }
        EXPECT_EQ(d, batch.reference_D.size());
        found += d;
      }
      EXPECT_EQ(found, 24U);
    }

  // A longer sample holds a pair that was left out; other tokens under the same name are noticed.
  const auto refusal = [&](std::int64_t T) {
    return message_of<Error>(
        [&] { training_data(packed(output_), T, 256, 1).with_reference(scores); });
  };
  EXPECT_THAT(refusal(23), HasSubstr("the scores were made for samples of 22 tokens"));
  EXPECT_EQ(refusal(21), "");
  lines[lines.find("\"c\"") + 1] = 'd';
  tokenize(options(lines));
  EXPECT_THAT(refusal(22), HasSubstr("has no scores for the tokens in"));
}

TEST_F(PairSamples, MustBeAsManyAsTheHeaderSays) {
  tokenize(options(line(1, 2) + line(3, 4) + line(2, 2)));
  const auto text = contents_of(output_);
  const auto documents = TokenFile(output_).header().documents;
  for (const std::int64_t wrong : {documents - 2, documents + 2}) {
    auto bad = text;
    std::memcpy(bad.data() + 48, &wrong, sizeof wrong);
    std::fill(bad.begin() + 240, bad.begin() + 256, '\0');  // a header without a hash
    std::ofstream(output_, std::ios::binary) << bad;
    EXPECT_THAT(message_of<Error>([&] { training_data(packed(output_), 64, 256, 1); }),
                HasSubstr(fmt::format("says that it contains {} documents", wrong)));
  }
}

// Labels follow their answers into whatever sample these stand, and are those of the whole file.
TEST_F(PairSamples, BringTheLabelsOfTheirAnswers) {
  std::string lines;
  for (int i = 0; i < 40; ++i)
    lines += fmt::format(
        "{{\"prompt\": \"pp\", \"completion\": \"{}{}\", \"label\": {}}}\n", i % 3 == 0 ? 'y' : 'n',
        std::string(static_cast<std::size_t>(i % 7 == 3 ? 15 : i % 5), 'c'), i % 3 == 0);
  auto o = options(lines);
  o.documents = Documents::labeled;
  tokenize(o);
  auto config = packed(output_);
  config.validation_fraction = 0.4;
  for (const auto order : {SampleOrder::random, SampleOrder::sequential}) {
    config.order = order;
    const auto training = training_data(config, 22, 256, 1);
    const auto held_out = validation_data(config, 22, 256).at(0).data;
    EXPECT_EQ(training.kind(), Documents::labeled);
    EXPECT_GT(training.packed(0)->long_pairs, 0);
    std::int64_t desirable = 0, answers = 0;
    for (const auto* data : {&training, &held_out})
      for (std::int64_t s = 0; s < data->samples_per_epoch(); ++s) {
        const auto batch = read_batch(*data, std::vector{s});
        std::size_t document = 0;
        for (std::int64_t t = 0; t < batch.tokens_B[0]; ++t) {
          if (batch.start_BT[static_cast<std::size_t>(t)] != t) continue;
          if (document++ % 2 != 0) continue;
          const bool label = batch.ids_BT[static_cast<std::size_t>(t) + 2] == 'y';
          ASSERT_LT(document / 2, batch.desirable_A.size());
          EXPECT_EQ(batch.desirable_A[document / 2], label ? 1 : 0);
          desirable += label;
        }
        EXPECT_EQ(batch.desirable_A.size(), document / 2);
        answers += std::ssize(batch.desirable_A);
      }
    EXPECT_EQ(answers, (training.packed(0)->in_samples() + held_out.packed(0)->in_samples()) / 2);
    EXPECT_GT(desirable, 5);
    EXPECT_LT(desirable, answers - 5);
  }
}

// Of another writer.
TEST_F(PairSamples, ThatAreNoneAreFound) {
  const auto file_of = [&](const std::vector<std::int32_t>& ids) {
    TokenWriter writer(output_, ExistingFile::replaced, 2, TargetMask::present);
    PackedTokens packed;
    packed.append(ids, 2);
    packed.targets.assign(ids.size(), 1);
    writer.append(packed);
    writer.finish(256, 0, 0, {}, Documents::pairs);
  };
  const auto found = [&] {
    return message_of<Error>([&] { training_data(packed(output_), 16, 256, 1); });
  };
  file_of({1, 0, 2, 0, 3, 0});
  EXPECT_THAT(found(), HasSubstr("its last document is alone"));
  file_of({1, 0, 2, 0, 3, 0, 4});
  EXPECT_THAT(found(), HasSubstr("its last document is alone"));
  file_of({1, 0, 2, 0, 3});
  EXPECT_THAT(found(), HasSubstr("its last document is alone"));
  file_of({1, 0, 0, 2, 0});
  EXPECT_THAT(found(), HasSubstr("at token 2 belongs to another one, but is empty"));
}

}  // namespace
}  // namespace trireme
