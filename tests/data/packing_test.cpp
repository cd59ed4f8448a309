// Samples of whole documents: against what the file holds, document by document.
#include "lib/data/packing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "lib/data/deck_data.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int32_t separator = 0, nothing = -7;

// Documents of these many tokens, the separator left out: ids that are not the separator.
std::vector<std::int32_t> tokens_of(const std::vector<int>& lengths) {
  std::vector<std::int32_t> all;
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    for (int i = 0; i < lengths[d]; ++i)
      all.push_back(1 + static_cast<std::int32_t>((7 * d + static_cast<std::size_t>(i)) % 250));
    all.push_back(separator);
  }
  return all;
}

TokenFileOptions ended() {
  TokenFileOptions o;
  o.separator = separator;
  return o;
}

DataConfig packed(const std::vector<std::string>& path) {
  DataConfig c;
  c.path = path;
  c.packing = Packing::documents;
  c.attention = AttentionSpan::document;
  return c;
}

struct Sample {
  std::vector<std::int32_t> ids, targets, starts;
  std::int64_t valid;
};
Sample read(const Dataset& data, std::int64_t i) {
  const auto T = static_cast<std::size_t>(data.sample_length());
  Sample s{std::vector(T, nothing), std::vector(T, nothing), std::vector(T, nothing), 0};
  s.valid = data.read(i, s.ids, s.targets, s.starts);
  // Behind them all is padding: separators, each a document of its own without a target.
  const auto tokens = data.tokens(i);
  EXPECT_EQ(tokens, T - static_cast<std::size_t>(std::ranges::count(s.ids, separator)));
  EXPECT_EQ(std::ranges::find(s.ids, separator) - s.ids.begin(), tokens);
  return s;
}

// A sample's documents, as inputs and targets: by its starts, without what pads it.
using Pair = std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>;
std::vector<Pair> documents_in(const Sample& s) {
  std::vector<Pair> all;
  for (std::size_t t = 0; t < s.ids.size(); ++t) {
    const auto start = static_cast<std::size_t>(s.starts[t]);
    EXPECT_TRUE(start == t || (t > 0 && s.starts[t] == s.starts[t - 1])) << t;
    if (s.ids[t] == separator) {  // padding, each alone
      EXPECT_EQ(start, t);
      EXPECT_EQ(s.targets[t], no_target);
      continue;
    }
    if (start == t) all.emplace_back();
    all.back().first.push_back(s.ids[t]);
    all.back().second.push_back(s.targets[t]);
  }
  return all;
}

// The separator may be an id that the model has no row for, where it does not occur.
TEST(Packing, PadsWithIdsOfTheModel) {
  const ScratchFolder scratch;
  auto options = ended();
  options.vocab = 1000;
  options.separator = 999;
  const Dataset data =
      training_data(packed({write_token_file(scratch / "a", {5, 6, 7, 8}, options)}), 6, 256, 1);
  const auto s = [&] {
    std::vector<std::int32_t> ids(6, nothing), targets(6, nothing), starts(6, nothing);
    data.read(0, ids, targets, starts);
    return ids;
  }();
  EXPECT_THAT(s, ElementsAre(5, 6, 7, 0, 0, 0));
}

TEST(Packing, HasEachDocumentOnceAnEpochAndWhole) {
  const ScratchFolder scratch;
  const std::vector<int> lengths{5, 0, 12, 3, 3, 16, 1, 7, 16, 2};
  const auto path = write_token_file(scratch / "a", tokens_of(lengths), ended());
  for (const auto order : {SampleOrder::random, SampleOrder::sequential}) {
    auto config = packed({path});
    config.order = order;
    const Dataset data = training_data(config, 16, 256, 3);
    EXPECT_LE(data.samples_per_epoch(), 6);  // 65 inputs, at best in 5
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::multiset<Pair> found, want;
      for (std::int64_t i = 0; i < data.samples_per_epoch(); ++i) {
        const auto s = read(data, epoch * data.samples_per_epoch() + i);
        std::int64_t valid = 0;
        for (auto& d : documents_in(s)) {
          valid += static_cast<std::int64_t>(d.second.size());
          found.insert(std::move(d));
        }
        EXPECT_EQ(s.valid, valid);
      }
      for (std::size_t d = 0; d < lengths.size(); ++d) {
        if (lengths[d] == 0) continue;
        const auto whole = tokens_of(lengths);
        const auto begin =
            whole.begin() + std::accumulate(lengths.begin(), lengths.begin() + static_cast<int>(d),
                                            static_cast<int>(d));
        want.insert({{begin, begin + lengths[d]}, {begin + 1, begin + lengths[d] + 1}});
      }
      EXPECT_EQ(found, want);
    }
  }
}

TEST(Packing, FillsSamplesOfConversations) {
  const ScratchFolder scratch;
  constexpr int T = 256;
  std::mt19937_64 random(5);
  std::lognormal_distribution<double> length(std::log(T / 4.0) - 0.32, 0.8);  // of mean T / 4
  std::vector<int> lengths;
  for (int i = 0; i < 2000; ++i)
    lengths.push_back(std::clamp(static_cast<int>(length(random)), 2, 4 * T));
  const TokenFile file(write_token_file(scratch / "a", tokens_of(lengths), ended()));
  const DocumentPacking p(file, 0, file.count(), {.T = T, .seed = 1});
  const auto& totals = p.totals();
  EXPECT_EQ(totals.documents, 2000);
  EXPECT_GE(static_cast<double>(totals.inputs), 0.95 * T * static_cast<double>(totals.samples));
  EXPECT_EQ(totals.long_documents, std::ranges::count_if(lengths, [](int n) { return n > T; }));
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < p.samples(); ++i) {
    std::int64_t all = 0;
    for (const auto& d : p.sample(i)) all += d.count;
    longest = std::max(longest, all);
  }
  EXPECT_LE(longest, T);
}

TEST(Packing, OfASeedIsItsOwn) {
  const ScratchFolder scratch;
  std::vector<int> lengths(200);
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = 1 + static_cast<int>(i * 37 % 29);
  const auto config = packed({write_token_file(scratch / "a", tokens_of(lengths), ended())});
  const Dataset one = training_data(config, 32, 256, 1), again = training_data(config, 32, 256, 1),
                other = training_data(config, 32, 256, 2);
  int differ = 0;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(read(one, i).ids, read(again, i).ids);
    differ += read(one, i).ids != read(other, i).ids;
  }
  EXPECT_GT(differ, 15);
}

// A file's last document may lack its separator.
TEST(Packing, TakesADocumentThatNothingEnds) {
  const ScratchFolder scratch;
  const auto path = write_token_file(scratch / "a", {5, 6, 0, 7, 8, 9}, ended());
  const Dataset data = training_data(packed({path}), 8, 256, 1);
  ASSERT_EQ(data.samples_per_epoch(), 1);
  const auto s = read(data, 0);
  EXPECT_THAT(s.ids, ElementsAre(5, 6, 7, 8, 0, 0, 0, 0));
  EXPECT_THAT(s.targets, ElementsAre(6, 0, 8, 9, -1, -1, -1, -1));
  EXPECT_THAT(s.starts, ElementsAre(0, 0, 2, 2, 4, 5, 6, 7));
  EXPECT_EQ(s.valid, 4);
}

// Two answers of a conversation, of which the second one has no place.
TEST(Packing, CutsBehindTheLastAnswerThatHasPlace) {
  const ScratchFolder scratch;
  auto options = ended();
  options.targets = {0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0};
  const auto path =
      write_token_file(scratch / "a", {11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 0}, options);
  for (const auto& [T, kept] :
       std::map<int, int>{{3, 3}, {4, 3}, {8, 3}, {9, 9}, {10, 10}, {2, 2}}) {
    const TokenFile file(path);
    const DocumentPacking p(file, 0, 11, {.T = T});
    EXPECT_THAT(p.sample(0), ElementsAre(PackedDocument{0, kept})) << T;
  }
  auto config = packed({path});
  config.long_documents = LongDocuments::refuse;
  EXPECT_THAT(message_of([&] { training_data(config, 8, 256, 1); }),
              HasSubstr("the document that begins at token 0 has 11 tokens, more than the 9 of a "
                        "sample: raise model.context, or set data.long_documents = \"cut\""));
}

// In the order of the file, whatever samples they are in.
std::vector<PackedDocument> all_of(const DocumentPacking& p) {
  std::vector<PackedDocument> all;
  for (std::int64_t i = 0; i < p.samples(); ++i)
    all.insert(all.end(), p.sample(i).begin(), p.sample(i).end());
  std::ranges::sort(all, {}, &PackedDocument::begin);
  return all;
}

TEST(Packing, SplitsIntoPartsThatHaveAllTargets) {
  const ScratchFolder scratch;
  constexpr int T = 8;
  const std::vector<int> lengths{3, 8, 9, 16, 17, 40, 0, 7};
  const TokenFile file(write_token_file(scratch / "a", tokens_of(lengths), ended()));
  const DocumentPacking p(file, 0, file.count(), {.T = T, .too_long = LongDocuments::split});
  std::vector<PackedDocument> want;
  std::int64_t begin = 0;
  for (const int n : lengths) {
    for (int i = 0; i < n; i += T) want.push_back({begin + i, std::min(T, n - i)});
    begin += n + 1;
  }
  EXPECT_EQ(all_of(p), want);
  EXPECT_EQ(p.totals().long_documents, 4);
  EXPECT_EQ(p.totals().targets_lost, 0);
  EXPECT_EQ(p.totals().targets, 100);
  EXPECT_EQ(p.totals().in_samples(), 7);
}

// A part ends with an answer, and one without an answer is left out.
TEST(Packing, SplitsConversationsBehindAnswers) {
  const ScratchFolder scratch;
  auto options = ended();
  options.targets = {0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1};
  options.targets.push_back(0);
  std::vector<std::int32_t> ids(options.targets.size(), 7);
  ids.back() = separator;
  const TokenFile file(write_token_file(scratch / "a", ids, options));
  const auto parts = [&](std::int64_t T) {
    return all_of(
        DocumentPacking(file, 0, file.count(), {.T = T, .too_long = LongDocuments::split}));
  };
  // The last token is the separator, which is not learnt.
  EXPECT_THAT(parts(7),
              ElementsAre(PackedDocument{0, 3}, PackedDocument{3, 6}, PackedDocument{9, 7}));
  EXPECT_THAT(parts(17), ElementsAre(PackedDocument{0, 17}));
  EXPECT_THAT(parts(4), ElementsAre(PackedDocument{0, 3}, PackedDocument{3, 4},
                                    PackedDocument{7, 2}, PackedDocument{13, 4}));
}

TEST(Packing, LeavesOutWhatIsTooLong) {
  const ScratchFolder scratch;
  const TokenFile file(write_token_file(scratch / "a", tokens_of({3, 8, 9, 40, 7}), ended()));
  const DocumentPacking p(file, 0, file.count(), {.T = 8, .too_long = LongDocuments::drop});
  EXPECT_THAT(all_of(p),
              ElementsAre(PackedDocument{0, 3}, PackedDocument{4, 8}, PackedDocument{64, 7}));
  EXPECT_EQ(p.totals().documents, 5);
  EXPECT_EQ(p.totals().dropped, 2);
  EXPECT_EQ(p.totals().in_samples(), 3);
  EXPECT_EQ(p.totals().targets_lost, 49);
}

TEST(Packing, HeldOutDocumentsAreNoneThatAreTrainedOn) {
  const ScratchFolder scratch;
  std::vector<int> lengths(40, 9);
  auto config = packed({write_token_file(scratch / "a", tokens_of(lengths), ended())});
  for (const double share : {0.1, 0.13, 0.25, 0.5}) {
    config.validation_fraction = share;
    const Dataset data = training_data(config, 16, 256, 1);
    const auto held_out = validation_data(config, 16, 256).at(0).data;
    std::multiset<Pair> all;
    std::size_t held = 0;
    for (std::int64_t i = 0; i < data.samples_per_epoch(); ++i)
      for (auto& d : documents_in(read(data, i))) all.insert(std::move(d));
    for (std::int64_t i = 0; i < held_out.samples_per_epoch(); ++i)
      for (auto& d : documents_in(read(held_out, i))) {
        all.insert(std::move(d));
        ++held;
      }
    EXPECT_EQ(all.size(), 40U);
    EXPECT_NEAR(static_cast<double>(held), 40 * share, 1);
  }
}

TEST(Packing, OfTwoFilesHasTheirShares) {
  const ScratchFolder scratch;
  auto config =
      packed({write_token_file(scratch / "a", tokens_of(std::vector<int>(30, 15)), ended()),
              write_token_file(scratch / "b", tokens_of(std::vector<int>(90, 5)), ended())});
  config.weights = {3, 1};
  const Dataset data = training_data(config, 16, 256, 1);
  int of_first = 0;
  for (int i = 0; i < 80; ++i) of_first += documents_in(read(data, i))[0].first.size() == 15;
  EXPECT_NEAR(of_first, 60, 2);
}

// Of a question that fills a sample alone nothing is learnt.
TEST(Packing, NeedsATargetThatHasPlace) {
  const ScratchFolder scratch;
  auto options = ended();
  options.targets = {0, 0, 0, 0, 0, 0, 1, 0};
  const auto config = packed({write_token_file(scratch / "a", {1, 2, 3, 4, 5, 6, 7, 0}, options)});
  EXPECT_EQ(training_data(config, 6, 256, 1).packed(0)->left_out, 0);
  EXPECT_THAT(message_of([&] { training_data(config, 5, 256, 1); }),
              HasSubstr("no document has a target that counts in its first 5 tokens"));
}

TEST(Packing, NeedsASeparator) {
  const ScratchFolder scratch;
  const auto path = write_token_file(scratch / "a", counting(100));
  auto config = packed({path});
  config.attention = AttentionSpan::causal;
  EXPECT_THAT(message_of([&] { training_data(config, 8, 256, 1); }),
              HasSubstr("data.packing is \"documents\", but"));
}

// Counted by hand: windows of 4 inputs over documents of 6 tokens, of which the last 3 are learnt.
TEST(Packing, CountsWhatWindowsCutOff) {
  const ScratchFolder scratch;
  auto options = ended();
  options.targets = {0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0};
  const TokenFile file(
      write_token_file(scratch / "a", {1, 2, 3, 4, 5, 0, 6, 7, 8, 9, 10, 0, 11}, options));
  // Targets 3, 4, 5 of the first document, 9, 10, 11 of the second: inputs 2, 3 | 4, and 8, 9, 10,
  // which are in the third window, where the document begins at 6, in the second.
  const auto found = begun_before(file, 0, file.count(), 4);
  EXPECT_EQ(found.targets, 6);
  EXPECT_EQ(found.cut_off, 4);
}

}  // namespace
}  // namespace trireme
