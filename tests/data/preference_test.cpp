// Pairs of documents: from JSON lines to a token file to samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "lib/data/chat_template_file.hpp"
#include "lib/data/dataset.hpp"
#include "lib/data/tokenize.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Pairs : public testing::Test {
 protected:
  TokenizeOptions options(const std::string& lines) const {
    TokenizeOptions o;
    o.inputs = {scratch_.write("in.jsonl", lines)};
    o.output = output_;
    o.existing = ExistingFile::replaced;
    o.format = InputFormat::jsonl;
    o.tokenizer = bytes_.get();
    o.separator = 0;
    o.preference = true;
    return o;
  }
  // What is learnt in capitals, the separator as '|' or, learnt, '!'.
  std::string text() const {
    const auto ids = all_ids(output_);
    const TokenFile file(output_);
    std::string t;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool learnt = is_target(file, static_cast<std::int64_t>(i));
      const char c = static_cast<char>(ids[i]);
      t += c == 0 ? (learnt ? '!' : '|') : learnt ? static_cast<char>(std::toupper(c)) : c;
    }
    return t;
  }
  std::string refusal(const std::string& lines) const {
    return message_of<Error>([&] { tokenize(options(lines)); });
  }

  const ScratchFolder scratch_;
  const std::string output_ = scratch_ / "out.tokens";
  const std::unique_ptr<Tokenizer> bytes_ = bytes_tokenizer();
};

TEST_F(Pairs, OfTexts) {
  const auto s = tokenize(options(R"({"prompt": "why ", "chosen": "so", "rejected": "no!"}
{"prompt": "", "chosen": "aa", "rejected": "b"}
{"prompt": "p", "chosen": "", "rejected": "c"})"));
  EXPECT_EQ(text(), "why SO!why NO!!AA!B!p!pC!");
  EXPECT_EQ(s.documents, 6);
  const TokenFile file(output_);
  EXPECT_TRUE(file.header().pairs);
  EXPECT_EQ(file.header().documents, 6);
}

// Trims contents.
const char* const turns = R"(special = []
plain = []
begin = ""
end = ""
default_system = ""
trim = true
alternating = false
refused = ""
[system]
before = "s:"
after = ";"
[user]
before = "u:"
after = ";"
[assistant]
before = "a:"
after = ";"
)";

TEST_F(Pairs, OfConversations) {
  const auto plain = with_tokens_of(parse_chat_template(turns, "turns.toml"), *bytes_);
  const auto as_text = [&](const std::string& line) {
    auto o = options(line);
    o.chat = &plain;
    tokenize(o);
    return text();
  };
  const std::string user = R"({"role": "user", "content": "x"})",
                    yes = R"({"role": "assistant", "content": "yes"})",
                    no = R"({"role": "assistant", "content": "no"})";
  const std::string want = "u:x;a:yes;u:x;a:YES;|u:x;a:yes;u:x;a:NO;|";
  EXPECT_EQ(as_text(R"({"chosen": [)" + user + "," + yes + "," + user + "," + yes +
                    R"(], "rejected": [)" + user + "," + yes + "," + user + "," + no + "]}"),
            want);
  EXPECT_EQ(as_text(R"({"prompt": [)" + user + "," + yes + "," + user + R"(], "chosen": [)" + yes +
                    R"(], "rejected": [)" + no + "]}"),
            want);
  // One is the other's begin: at least its own last answer is learnt.
  EXPECT_EQ(as_text(R"({"chosen": [)" + user + "," + yes + R"(], "rejected": [)" + user + "," +
                    yes + "," + user + "," + no + "]}"),
            "u:x;a:YES;|u:x;a:YES;u:x;a:NO;|");
  auto o = options(R"({"chosen": [)" + user + R"(], "rejected": [)" + user + "," + yes + "]}");
  o.chat = &plain;
  EXPECT_THAT(message_of<Error>([&] { tokenize(o); }),
              HasSubstr("\"chosen\" has no answer of an assistant"));
}

// As data sets have it: what is meant is in each the same conversation.
TEST_F(Pairs, AreReadFromAllForms) {
  const auto plain = with_tokens_of(parse_chat_template(turns, "turns.toml"), *bytes_);
  const auto as_text = [&](const std::string& line) {
    auto o = options(line);
    o.chat = &plain;
    tokenize(o);
    return text();
  };
  const auto made = [](const char* a, const char* b) {
    return [a, b](const std::string& role, const std::string& content) {
      return "{\"" + std::string(a) + "\": \"" + role + "\", \"" + b + "\": \"" + content + "\"}";
    };
  };
  const auto own = made("role", "content"), shared = made("from", "value");
  const auto x = own("user", "x"), y = own("assistant", "y"), n = own("assistant", "n"),
             s = own("system", "s"), from_x = shared("human", "x"), from_y = shared("gpt", "y"),
             from_n = shared("gpt", "n");
  const auto line = [](const std::string& prompt, const std::string& chosen,
                       const std::string& rejected) {
    return "{" + (prompt.empty() ? "" : prompt + ", ") + "\"chosen\": " + chosen +
           ", \"rejected\": " + rejected + "}";
  };
  const auto list = [](const auto&... m) {
    std::string all;
    ((all += (all.empty() ? "[" : ", ") + m), ...);
    return all + "]";
  };
  const std::string want = "u:x;a:Y;|u:x;a:N;|",
                    with_system = "s:s;" + want.substr(0, 9) + "s:s;" + want.substr(9);
  for (const auto& same : {
           line("\"prompt\": " + list(x), list(y), list(n)),
           line("", list(x, y), list(x, n)),
           line(R"("prompt": "")", list(x, y), list(x, n)),
           // ultrafeedback
           line(R"("prompt": "x")", list(x, y), list(x, n)),
           line(R"("prompt": "x", "messages": )" + list(x, y), list(x, y), list(x, n)),
           line(R"("prompt": "x")", list(y), list(n)),
           line(R"("prompt": "x")", y, n),
           line(R"("prompt": "x")", "\"y\"", "\"n\""),
           line("\"prompt\": " + list(x), "\"y\"", "\"n\""),
           line("\"prompt\": " + list(x), list(x, y), list(x, n)),
           // ShareGPT, as LLaMA-Factory reads it
           line("\"conversations\": " + list(from_x), from_y, from_n),
           line("\"conversations\": " + list(from_x), list(from_y), list(from_n)),
           line("\"conversations\": " + list(from_x) + ", \"system\": \"\"", y, n),
           line("", list(from_x, from_y), list(from_x, from_n)),
           line(R"("prompt": "", "conversations": )" + list(from_x), from_y, from_n),
           line(R"("prompt": [], "conversations": )" + list(from_x), from_y, from_n),
       })
    EXPECT_EQ(as_text(same), want) << same;
  for (const auto& same : {
           line("\"prompt\": " + list(s, x), list(y), list(n)),
           line("\"prompt\": " + list(x), list(s, x, y), list(s, x, n)),
           line(R"("prompt": "x")", list(s, x, y), list(s, x, n)),
           line(R"("system": "s", "prompt": "x")", list(x, y), list(x, n)),
           line("\"conversations\": " + list(from_x) + ", \"system\": \"s\"", from_y, from_n),
       })
    EXPECT_EQ(as_text(same), with_system) << same;
  // The text is what the last user asks; all of both is there.
  EXPECT_EQ(as_text(line(R"("prompt": "x")", list(own("user", "v"), n, x, y),
                         list(own("user", "v"), n, x, n))),
            "u:v;a:n;u:x;a:Y;|u:v;a:n;u:x;a:N;|");

  const auto refused = [&](const std::string& l) {
    auto o = options(l);
    o.chat = &plain;
    return message_of<Error>([&] { tokenize(o); });
  };
  EXPECT_THAT(refused(line(R"("prompt": "z")", list(x, y), list(x, n))),
              HasSubstr("in.jsonl:1: \"prompt\" is a text, and no message of a user"));
  EXPECT_THAT(refused(line("\"prompt\": " + list(x, y), list(x, y), list(x, n))),
              HasSubstr("begins with a message of the role user"));
  EXPECT_THAT(refused(line("\"prompt\": " + list(own("user", "z")), list(s, x, y), list(s, x, n))),
              HasSubstr("begins with a message of the role system"));
  EXPECT_THAT(refused(line(R"("prompt": "x", "conversations": )" + list(from_x), from_y, from_n)),
              HasSubstr("\"prompt\" and \"conversations\""));
  EXPECT_THAT(refused(line("", "\"y\"", "\"n\"")), HasSubstr("there is no \"prompt\""));
  EXPECT_THAT(refused(line("\"prompt\": 3", y, n)), HasSubstr("neither a text nor a list"));
  EXPECT_THAT(refused(R"({"prompt": "x", "chosen": "y"})"), HasSubstr("no \"rejected\""));
  EXPECT_THAT(refused(line(R"("system": "t", "prompt": "x")", list(s, x, y), list(s, x, n))),
              HasSubstr("another text than that of the conversation's own"));
}

// What the template makes the same, or differs in what is not learnt, teaches nothing.
TEST_F(Pairs, OfTheSameAnswersAreLeftOut) {
  const auto s = tokenize(options(R"({"prompt": "a", "chosen": "b", "rejected": "b"}
{"prompt": "a", "chosen": "b", "rejected": "c"}
{"prompt": "", "chosen": "b", "rejected": "c"})"));
  EXPECT_EQ(text(), "aB!aC!");
  EXPECT_EQ(s.documents, 2);
  EXPECT_EQ(s.learnt, 4);
  EXPECT_EQ(s.same.count, 2);
  EXPECT_THAT(s.same.first, HasSubstr("in.jsonl:1"));
  EXPECT_THAT(refusal(R"({"prompt": "a", "chosen": "b", "rejected": "b"})"),
              HasSubstr("the two answers of all 1 pairs are the same tokens"));

  const auto plain = with_tokens_of(parse_chat_template(turns, "turns.toml"), *bytes_);
  const auto pair = [](const char* ask, const char* yes, const char* ask_too, const char* no) {
    return fmt::format(
        R"({{"chosen": [{{"role": "user", "content": "{}"}}, {{"role": "assistant", "content": "{}"}}],)"
        R"( "rejected": [{{"role": "user", "content": "{}"}}, {{"role": "assistant", "content": "{}"}}]}})"
        "\n",
        ask, yes, ask_too, no);
  };
  auto o = options(pair("x", "y", "x", "n") + pair("x", "y", "x", " y ") +
                   pair("x", "y", "z", "y") + pair("x", "y", "x", "y"));
  o.chat = &plain;
  const auto chats = tokenize(o);
  EXPECT_EQ(text(), "u:x;a:Y;|u:x;a:N;|");
  EXPECT_EQ(chats.same.count, 3);
  EXPECT_THAT(chats.same.first, HasSubstr("in.jsonl:2"));
}

TEST_F(Pairs, AreRefusedByLine) {
  EXPECT_THAT(refusal("\n"
                      R"({"prompt": "a", "chosen": "b"})"),
              HasSubstr("in.jsonl:2: there is no field \"rejected\""));
  EXPECT_THAT(refusal(R"({"conversations": [], "chosen": {}, "rejected": {}})"),
              HasSubstr("for messages add --chat"));
  EXPECT_THAT(refusal(R"({"prompt": "", "chosen": "b", "rejected": ""})"),
              HasSubstr("a document of the pair is empty"));
  EXPECT_THAT(refusal(R"({"prompt": "", "chosen": [], "rejected": ""})"), HasSubstr("add --chat"));
  EXPECT_THAT(refusal(R"({"prompt": "a\u0000", "chosen": "b", "rejected": "c"})"),
              HasSubstr("the separator 0 stands inside"));
  auto o = options(R"({"prompt": "a", "chosen": "b", "rejected": "c"})");
  o.separator = std::nullopt;
  EXPECT_THAT(message_of<Error>([&] { tokenize(o); }), HasSubstr("need a separator"));
}

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

TEST_F(Pairs, StandWholeInASample) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += line(1 + i % 5, 1 + i % 3);
  tokenize(options(lines + line(9, 10)));  // 23 inputs
  for (const auto order : {SampleOrder::random, SampleOrder::sequential}) {
    auto config = packed(output_);
    config.order = order;
    const auto data = training_data(config, 22, 256, 1);
    EXPECT_TRUE(data.pairs());
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
                HasSubstr("the pair of documents from token"));
    config.long_documents = LongDocuments::drop;
    EXPECT_EQ(training_data(config, 22, 256, 1).packed(0)->in_samples(), 80);
    config.long_documents = LongDocuments::split;
    EXPECT_THAT(message_of<Error>([&] { training_data(config, 22, 256, 1); }),
                HasSubstr("of which none is split"));
  }
}

// A pair belongs to where its first document begins, wherever the border lies.
TEST_F(Pairs, AreHeldOutWhole) {
  std::string lines;
  for (int i = 0; i < 6; ++i) lines += line(2, 3);
  tokenize(options(lines));  // of 11 tokens each
  const auto count = TokenFile(output_).count();
  ASSERT_EQ(count, 66);
  for (std::int64_t border = 12; border < 55; ++border) {
    auto config = packed(output_);
    config.validation_fraction = static_cast<double>(count - border) / static_cast<double>(count);
    const auto training = training_data(config, 16, 256, 1);
    const auto held_out = validation_data(config, 16, 256);
    EXPECT_EQ(training.packed(0)->pairs, (border + 10) / 11) << border;
    EXPECT_EQ(held_out->packed(0)->pairs, 6 - (border + 10) / 11) << border;
  }
}

TEST_F(Pairs, AreNotReadAsAnythingElse) {
  tokenize(options(line(2, 3)));
  auto config = packed(output_);
  EXPECT_NO_THROW(training_data(config, 16, 256, 1));
  EXPECT_THAT(message_of<Error>([&] { training_data(config, 8, 256, 1); }),
              HasSubstr("no pair of documents"));
  config.packing = Packing::windows;
  EXPECT_THAT(message_of<Error>([&] { training_data(config, 4, 256, 1); }),
              HasSubstr("is of pairs of documents"));
  TokenFileOptions o;
  o.separator = 0;
  config = packed(output_);
  config.path.push_back(write_token_file(scratch_ / "others", {1, 2, 0, 3, 4, 0}, o));
  EXPECT_THAT(message_of<Error>([&] { training_data(config, 16, 256, 1); }),
              HasSubstr("one is of pairs of documents"));
}

// Scores follow their documents into whatever sample these stand.
TEST_F(Pairs, BringTheScoresOfTheirDocuments) {
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
      const auto held_out = validation_data(config, 22, 256)->with_reference(scores);
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
  EXPECT_THAT(refusal(23), HasSubstr("it was made with samples of 22 tokens"));
  EXPECT_EQ(refusal(21), "");
  lines[lines.find("\"c\"") + 1] = 'd';
  tokenize(options(lines));
  EXPECT_THAT(refusal(22), HasSubstr("holds no scores of the tokens that are in"));
}

// Of another writer.
TEST_F(Pairs, ThatAreNoneAreFound) {
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
  EXPECT_THAT(found(), HasSubstr("the last one stands alone"));
  file_of({1, 0, 2, 0, 3, 0, 4});
  EXPECT_THAT(found(), HasSubstr("the last one stands alone"));
  file_of({1, 0, 2, 0, 3});
  EXPECT_THAT(found(), HasSubstr("the last one stands alone"));
  file_of({1, 0, 0, 2, 0});
  EXPECT_THAT(found(), HasSubstr("at token 2, one of a pair, is empty"));
}

}  // namespace
}  // namespace trireme
