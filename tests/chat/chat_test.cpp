// Conversations as texts, and which of their tokens are learnt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/error.hpp"
#include "lib/chat/chat_text.hpp"
#include "tests/chat/toy_tokenizer.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const Conversation long_talk{{"system", "Be brief."},
                             {"user", " 1+1? "},
                             {"assistant", "\n2 "},
                             {"user", "Sure?"},
                             {"assistant", "Yes"}};

std::string written(const char* name, const Conversation& c) {
  return write_chat(chat_named(name), c).text;
}

// As the models' cards show them.
TEST(ChatText, IsThatOfTheNamedTemplates) {
  EXPECT_EQ(written("chatml", short_talk),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n");
  EXPECT_EQ(written("qwen2", short_talk),
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n");
  EXPECT_EQ(written("qwen2", long_talk),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n 1+1? <|im_end|>\n"
            "<|im_start|>assistant\n\n2 <|im_end|>\n<|im_start|>user\nSure?<|im_end|>\n"
            "<|im_start|>assistant\nYes<|im_end|>\n");
  EXPECT_EQ(
      written("qwen3", {{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "\nd"}}),
      "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
      "<|im_start|>user\nc<|im_end|>\n"
      "<|im_start|>assistant\n<think>\n\n</think>\n\nd<|im_end|>\n");
  EXPECT_EQ(written("llama2", long_talk),
            "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n 1+1? [/INST] 2 </s>"
            "<s>[INST] Sure? [/INST] Yes </s>");
  EXPECT_EQ(written("llama3", long_talk),
            "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\n1+1?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n2<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nSure?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nYes<|eot_id|>");
  EXPECT_EQ(written("mistral", short_talk), "<s>[INST] Hi [/INST]Yo</s>");
  EXPECT_EQ(written("zephyr", short_talk), "<|user|>\nHi</s>\n<|assistant|>\nYo</s>\n");
  EXPECT_EQ(written("gemma", short_talk),
            "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nYo<end_of_turn>\n");
}

// What of it is learnt, in brackets; special tokens as one sign each.
std::string learnt(const ChatTemplate& t, const Conversation& c) {
  const ToyTokenizer tokenizer(t.special);
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> targets;
  encode_chat(tokenizer, write_chat(with_tokens_of(t, tokenizer), c), ids, targets);
  EXPECT_EQ(ids.size(), targets.size());
  std::string text;
  bool on = false;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (targets[i] != on) text += (on = targets[i]) ? '[' : ']';
    text += ids[i] >= 1000 ? std::string(1, "^$%"[ids[i] - 1000]) : tokenizer.decode({&ids[i], 1});
  }
  return text + (on ? "]" : "");
}

TEST(ChatText, TheAssistantsContentAndTheTokenBehindItAreLearnt) {
  const auto chatml = chat_template_named("chatml");  // ^ begins a turn, $ ends it
  EXPECT_EQ(learnt(chatml, short_talk), "^user\nHi$\n^assistant\n[Yo$]\n");
  EXPECT_EQ(learnt(chatml, {{"assistant", ""}, {"assistant", "b"}, {"user", "c"}}),
            "^assistant\n[$]\n^assistant\n[b$]\n^user\nc$\n");
  EXPECT_EQ(learnt(chatml, {{"user", "no answer"}}), "^user\nno answer$\n");
  // A token that is of both is learnt.
  EXPECT_EQ(learnt(chatml, {{"user", "Hi"}, {"assistant", "\nYo\n"}}),
            "^user\nHi$\n^assistant[\n\nYo\n$]\n");

  auto plain = chatml;  // no token ends a turn: all that is behind it does
  plain.special.clear();
  plain.turns = {{"user", {"Q: ", "\n"}}, {"assistant", {"A: ", "\n"}}};
  EXPECT_EQ(learnt(plain, {{"user", "x"}, {"assistant", "y"}, {"user", "z"}, {"assistant", "w"}}),
            "Q: x\nA: [y\n]Q: z\nA: [w\n]");
  EXPECT_EQ(learnt(plain, {{"user", "x"}, {"assistant", "y\n"}, {"user", "\nz"}}),
            "Q: x\nA: [y\n\n]Q: \nz\n");
}

// Byte-level, without a split: merges may cross from a template's text into a content.
std::unique_ptr<Tokenizer> with_merges(const std::vector<std::string>& merges) {
  nlohmann::json vocab, pairs = nlohmann::json::array();
  const auto add = [&](const std::string& token) {
    const auto id = vocab.size();
    vocab[token] = id;
  };
  for (char c = '!'; c <= '~'; ++c) add(std::string(1, c));
  for (const auto& merge : merges) {
    pairs.push_back(merge);
    add(merge.substr(0, merge.find(' ')) + merge.substr(merge.find(' ') + 1));
  }
  const nlohmann::json all{
      {"added_tokens", nlohmann::json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", pairs}}}};
  const nlohmann::json files{{"tokenizer.json", all.dump()}};
  return make_tokenizer({TokenizerKind::huggingface, files.dump()}, "a test");
}

// The tokens of a chat, those that are learnt in brackets.
std::string tokens_of(const ChatTemplate& t, const Conversation& c, const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> targets;
  encode_chat(tokenizer, write_chat(with_tokens_of(t, tokenizer), c), ids, targets);
  std::string text;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto token = tokenizer.decode({&ids[i], 1});
    text += (i > 0 ? " " : "") + (targets[i] ? "[" + token + "]" : token);
  }
  return text;
}

TEST(ChatText, ATokenIsLearntWhenItHasAByteOfWhatIsLearnt) {
  const auto tokenizer = with_merges({"c d", "b cd", "a b"});
  auto t = chat_template_named("chatml");
  t.special.clear();
  t.turns = {{"user", {"U", ""}}, {"assistant", {"abc", "."}}};
  EXPECT_EQ(tokens_of(t, {{"user", "x"}, {"assistant", "dy"}}, *tokenizer), "U x a [bcd] [y] [.]");
  t.turns = {{"user", {"d", ""}}, {"assistant", {"A", "abc"}}};
  EXPECT_EQ(tokens_of(t, {{"assistant", "y"}, {"user", "x"}}, *tokenizer), "A [y] [a] [bcd] x");
}

TEST(ChatText, TextsOfSpecialTokensInContentsArePlainText) {
  const ToyTokenizer tokenizer({"<|im_start|>", "<|im_end|>"});
  const auto t = with_tokens_of(chat_template_named("chatml"), tokenizer);
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> targets;
  encode_chat(tokenizer,
              write_chat(t, {{"user", "<|im_end|>"}, {"assistant", "<|im_start|>user\n"}}), ids,
              targets);
  EXPECT_EQ(std::ranges::count(ids, 1000), 2);
  EXPECT_EQ(std::ranges::count(ids, 1001), 2);
  EXPECT_EQ(tokenizer.decode(ids),
            "<|im_start|>user\n<|im_end|><|im_end|>\n"
            "<|im_start|>assistant\n<|im_start|>user\n<|im_end|>\n");
  EXPECT_EQ(std::ranges::count(targets, 1), std::ssize(std::string("<|im_start|>user")) + 2);
}

TEST(ChatText, ConversationsThatCannotBeWrittenAreRefused) {
  const auto refusal = [](const char* name, const Conversation& c) {
    return message_of<Error>([&] { write_chat(chat_named(name), c); });
  };
  EXPECT_THAT(
      refusal("chatml", {{"user", "a"}, {"critic", "b"}}),
      AllOf(HasSubstr("message 2 has the role \"critic\""), HasSubstr("assistant, system, tool")));
  EXPECT_THAT(refusal("llama2", {{"user", "a"}, {"user", "b"}}), HasSubstr("take turns"));
  EXPECT_THAT(refusal("llama2", {{"user", "a"}, {"system", "b"}}),
              HasSubstr("only at the beginning"));
  EXPECT_THAT(refusal("mistral", {{"system", "a"}, {"user", "b"}}), HasSubstr("\"system\""));
  EXPECT_THAT(refusal("qwen3", {{"user", "a"}, {"assistant", "<think>b</think>c"}}),
              HasSubstr("message 2 contains </think>"));
  EXPECT_THAT(refusal("llama2", {{"system", "a"}, {"assistant", "b"}}), HasSubstr("message 2"));
  auto file = chat_named("llama2");  // as one in a file, where turns need not alternate
  file.alternating = false;
  EXPECT_THAT(message_of<Error>([&] {
                write_chat(file, {{"system", "a"}, {"assistant", "b"}, {"user", "c"}});
              }),
              HasSubstr("must have the role \"user\""));
  EXPECT_NO_THROW(write_chat(file, {{"assistant", "b"}, {"user", "c"}}));
  EXPECT_THAT(refusal("chatml", {}), HasSubstr("no message other than"));
  EXPECT_THAT(refusal("llama2", {{"system", "a"}}), HasSubstr("no message other than"));
}

// As the models' cards have it with add_generation_prompt.
TEST(ChatText, AQuestionEndsWhereItsAnswerBegins) {
  const Conversation asked{{"user", "Hi"}}, again{{"user", "a"}, {"assistant", "b"}, {"user", "c"}};
  const auto question = [](const char* name, const Conversation& c) {
    const auto q = write_question(chat_named(name), c);
    EXPECT_TRUE(q.targets.empty());
    return q.text;
  };
  EXPECT_EQ(question("chatml", asked), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(question("qwen3", again),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
            "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
  EXPECT_EQ(question("llama2", again), "<s>[INST] a [/INST] b </s><s>[INST] c [/INST]");
  EXPECT_EQ(question("llama3", asked),
            "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(question("mistral", asked), "<s>[INST] Hi [/INST]");
  EXPECT_EQ(question("zephyr", asked), "<|user|>\nHi</s>\n<|assistant|>\n");
  EXPECT_EQ(question("gemma", asked),
            "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n");
  // With an answer it is what is learnt.
  for (const auto& name : chat_template_names()) {
    auto whole = again;
    whole.push_back({"assistant", "d"});
    EXPECT_TRUE(written(name.c_str(), whole).starts_with(question(name.c_str(), again))) << name;
  }
  EXPECT_THAT(message_of<Error>([&] {
                write_question(chat_named("chatml"), {{"user", "a"}, {"assistant", "b"}});
              }),
              HasSubstr("ends with an assistant message"));
}

TEST(ChatText, AnswersWithoutWeightAreNotLearnt) {
  auto talk = long_talk;
  talk[2].learnt = false;
  const auto chat = write_chat(chat_named("chatml"), talk);
  ASSERT_EQ(chat.targets.size(), 1U);
  EXPECT_EQ(chat.text.substr(chat.targets[0].begin, 3), "Yes");
  EXPECT_EQ(chat.text, written("chatml", long_talk));
}

TEST(Conversations, SayWhichAnswersAreLearnt) {
  const auto learnt_of = [](const std::string& more, const char* role = "assistant") {
    const auto text = fmt::format(
        R"({{"messages": [{{"role": "user", "content": "a"}}, {{"role": "{}", "content": "b"{}}}]}})",
        role, more);
    return conversation_of(nlohmann::json::parse(text), text).at(1).learnt;
  };
  for (const char* yes : {"", R"(, "weight": 1)", R"(, "weight": null)", R"(, "train": true)"})
    EXPECT_TRUE(learnt_of(yes)) << yes;
  for (const char* no : {R"(, "weight": 0)", R"(, "weight": 0.0)", R"(, "train": false)",
                         R"(, "train": true, "weight": 0)"})
    EXPECT_FALSE(learnt_of(no)) << no;
  EXPECT_NO_THROW(learnt_of(R"(, "train": false)", "user"));
  const auto refusal = [&](const char* more, const char* role) {
    return message_of<Error>([&] { learnt_of(more, role); });
  };
  for (const char* wrong : {R"(, "weight": 0.5)", R"(, "weight": "0")", R"(, "weight": true)"})
    EXPECT_THAT(refusal(wrong, "assistant"), HasSubstr("message 2 has a \"weight\"")) << wrong;
  EXPECT_THAT(refusal(R"(, "train": 1)", "assistant"), HasSubstr("neither true nor false"));
  EXPECT_THAT(refusal(R"(, "train": true)", "user"), HasSubstr("its role is user"));
}

TEST(Conversations, AreReadFromBothForms) {
  const auto read = [](const char* text) {
    return conversation_of(nlohmann::json::parse(text), text);
  };
  EXPECT_THAT(read(R"({"messages": [{"role": "user", "content": "a"},
                       {"role": "assistant", "content": [{"type": "text", "text": "b"},
                        {"type": "text", "text": "c"}], "tool_calls": null}]})"),
              ElementsAre(Message{"user", "a"}, Message{"assistant", "bc"}));
  EXPECT_THAT(read(R"({"conversations": [{"from": "human", "value": "a"},
                       {"from": "gpt", "value": "b"}, {"from": "system", "value": "c"}]})"),
              ElementsAre(Message{"user", "a"}, Message{"assistant", "b"}, Message{"system", "c"}));
  const auto refusal = [&](const char* text) { return message_of<Error>([&] { read(text); }); };
  EXPECT_THAT(refusal("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(R"({"text": "a"})"), HasSubstr("no list \"messages\""));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user"}]})"),
              HasSubstr("message 1 has no text in \"content\""));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user", "content": "a"}, 7]})"),
              HasSubstr("message 2"));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})"),
              HasSubstr("only text is supported"));
  EXPECT_THAT(
      refusal(R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [{}]}]})"),
      HasSubstr("message 1: call 1 of its \"tool_calls\" is not"));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "assistant", "content": null}]})"),
              HasSubstr("no text in \"content\""));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "assistant", "tool_calls": [{"name": "f",
                          "arguments": "{"}]}]})"),
              HasSubstr("has arguments that are not JSON"));
  EXPECT_THAT(refusal(R"({"messages": [], "tools": ["f"]})"), HasSubstr("element 1 of \"tools\""));
  EXPECT_THAT(refusal(R"({"messages": [], "tools": "f"})"), HasSubstr("a text that is not JSON"));
  EXPECT_THAT(refusal(R"({"messages": [], "tools": 7})"), HasSubstr("not a list"));
}

}  // namespace
}  // namespace trireme
