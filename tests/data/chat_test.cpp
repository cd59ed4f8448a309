// Conversations as texts, and which of their tokens are learnt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "lib/base/error.hpp"
#include "lib/data/chat_jinja.hpp"
#include "lib/data/chat_text.hpp"
#include "lib/data/tokenize.hpp"
#include "tests/data/sentencepiece_model.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// An id for a byte, one for a run of n line ends, 300 + n, and one for each special text; these are
// found where they are marked alone.
class ToyTokenizer final : public Tokenizer {
 public:
  explicit ToyTokenizer(std::vector<std::string> special,
                        std::map<std::string, std::string> files = {})
      : special_(std::move(special)), files_(std::move(files)) {}
  using Tokenizer::encode;
  void encode(std::string_view text, TextPlace, std::vector<std::int32_t>& ids) const override {
    for (std::size_t i = 0; i < text.size();) {
      const auto lines = std::min(text.find_first_not_of('\n', i), text.size()) - i;
      ids.push_back(lines > 0 ? 300 + static_cast<std::int32_t>(lines)
                              : static_cast<unsigned char>(text[i]));
      i += std::max<std::size_t>(lines, 1);
    }
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const auto id : ids)
      text += id >= 1000  ? special_[static_cast<std::size_t>(id - 1000)]
              : id >= 300 ? std::string(static_cast<std::size_t>(id - 300), '\n')
                          : std::string(1, static_cast<char>(id));
    return text;
  }
  std::int32_t vocab() const override { return 1100; }
  std::optional<std::int32_t> separator() const override { return 0; }
  const TokenizerSpec& spec() const override { return spec_; }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    const auto at = std::ranges::find(special_, token);
    if (at == special_.end()) return std::nullopt;
    return 1000 + static_cast<std::int32_t>(at - special_.begin());
  }
  std::vector<std::string> special_tokens() const override { return special_; }
  std::optional<std::string> file(std::string_view name) const override {
    const auto at = files_.find(std::string(name));
    return at == files_.end() ? std::nullopt : std::optional(at->second);
  }

 private:
  std::vector<std::string> special_;
  std::map<std::string, std::string> files_;
  TokenizerSpec spec_{TokenizerKind::bytes, {}};
};

const Conversation short_talk{{"user", "Hi"}, {"assistant", "Yo"}};
const Conversation long_talk{{"system", "Be brief."},
                             {"user", " 1+1? "},
                             {"assistant", "\n2 "},
                             {"user", "Sure?"},
                             {"assistant", "Yes"}};

ChatTemplate template_named(const char* name) {
  return with_tokens_of(chat_template_named(name),
                        ToyTokenizer({"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<think>",
                                      "</think>", "<|start_header_id|>", "<|end_header_id|>",
                                      "<|eot_id|>", "<start_of_turn>", "<end_of_turn>"}));
}
std::string written(const char* name, const Conversation& c) {
  return write_chat(template_named(name), c).text;
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
    return message_of<Error>([&] { write_chat(template_named(name), c); });
  };
  EXPECT_THAT(refusal("chatml", {{"user", "a"}, {"critic", "b"}}),
              AllOf(HasSubstr("message 2 is of \"critic\""), HasSubstr("assistant, system, tool")));
  EXPECT_THAT(refusal("llama2", {{"user", "a"}, {"user", "b"}}), HasSubstr("take turns"));
  EXPECT_THAT(refusal("llama2", {{"user", "a"}, {"system", "b"}}), HasSubstr("at the begin alone"));
  EXPECT_THAT(refusal("mistral", {{"system", "a"}, {"user", "b"}}), HasSubstr("\"system\""));
  EXPECT_THAT(refusal("qwen3", {{"user", "a"}, {"assistant", "<think>b</think>c"}}),
              HasSubstr("message 2 holds </think>"));
  EXPECT_THAT(refusal("llama2", {{"system", "a"}, {"assistant", "b"}}), HasSubstr("message 2"));
  auto file = template_named("llama2");  // as one in a file, where turns need not alternate
  file.alternating = false;
  EXPECT_THAT(message_of<Error>([&] {
                write_chat(file, {{"system", "a"}, {"assistant", "b"}, {"user", "c"}});
              }),
              HasSubstr("has to come first"));
  EXPECT_NO_THROW(write_chat(file, {{"assistant", "b"}, {"user", "c"}}));
  EXPECT_THAT(refusal("chatml", {}), HasSubstr("no turn"));
  EXPECT_THAT(refusal("llama2", {{"system", "a"}}), HasSubstr("no turn"));
}

TEST(ChatTemplates, TokensAreTheTokenizers) {
  const ToyTokenizer objects(
      {"<B>", "<E>"},
      {{"tokenizer_config.json", R"({"bos_token": {"content": "<B>"}, "eos_token": "<E>"})"}});
  EXPECT_EQ(write_chat(with_tokens_of(chat_template_named("mistral"), objects), short_talk).text,
            "<B>[INST] Hi [/INST]Yo<E>");
  EXPECT_THAT(message_of<Error>([&] { with_tokens_of(chat_template_named("chatml"), objects); }),
              HasSubstr("<|im_start|>, which the tokenizer lacks"));
  EXPECT_THAT(
      message_of<Error>([&] { with_tokens_of(chat_template_named("llama2"), *bytes_tokenizer()); }),
      HasSubstr("bos_token"));
  EXPECT_THAT(message_of<Error>([] { chat_template_named("none"); }),
              AllOf(HasSubstr("\"none\""), HasSubstr("chatml, qwen2")));
  // What the tokenizer's files do not name is not guessed.
  EXPECT_THAT(message_of<Error>([&] {
                with_tokens_of(chat_template_named("mistral"),
                               ToyTokenizer({"<s>", "</s>"}, {{"tokenizer_config.json", "{}"}}));
              }),
              HasSubstr("names no bos_token"));
}

// A template of a file need not say which of its texts are the tokenizer's tokens.
TEST(ChatTemplates, NoTokenOfTheTokenizerIsWrittenAsPlainText) {
  ChatTemplate t;
  t.name = "file";
  t.begin = "{bos}";
  t.turns = {{"user", {"<|user|>", ""}}, {"assistant", {"A: ", " <|end|>{eos}"}}};
  const ToyTokenizer tokenizer({"<s>", "</s>", "<|user|>", "<|end|>", "<|"});
  const auto full = with_tokens_of(t, tokenizer);
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> targets;
  encode_chat(tokenizer, write_chat(full, short_talk), ids, targets);
  EXPECT_THAT(ids, ElementsAre(1000, 1002, 'H', 'i', 'A', ':', ' ', 'Y', 'o', ' ', 1003, 1001));
  EXPECT_THAT(targets, ElementsAre(0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0));
  EXPECT_EQ(end_of_turn(full), "<|end|>");
  t.turns["assistant"].after = "\n";
  EXPECT_EQ(end_of_turn(with_tokens_of(t, tokenizer)), "");

  // Contents, and what is written as they are, are plain text.
  const auto refusal = [&](const ChatTemplate& wrong) {
    return message_of<Error>([&] { with_tokens_of(wrong, tokenizer); });
  };
  auto system = t;
  system.turns["system"] = {"", ""};
  EXPECT_EQ(refusal(system), "");
  system.default_system = "Be kind.<|end|>";
  EXPECT_THAT(refusal(system), AllOf(HasSubstr("<|end|>"), HasSubstr("plain text")));
  system.default_system = "{bos}Be kind.";
  EXPECT_THAT(refusal(system), AllOf(HasSubstr("{bos}"), HasSubstr("plain text")));
  system.default_system.clear();
  system.turns["system"] = {"<|user|>", ""};
  EXPECT_EQ(refusal(system), "");
  system.system = ChatTemplate::SystemPlace::first_user_turn;
  EXPECT_THAT(refusal(system), AllOf(HasSubstr("<|user|>"), HasSubstr("plain text")));
}

// A Jinja text that half of all models have.
const std::string jinja =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}";

TEST(ChatTemplates, ATokenizersOwnIsKnownByItsText) {
  const auto own = [](const std::string& file, const std::string& text) {
    return chat_template_of(ToyTokenizer({}, {{file, text}})).name;
  };
  const auto config = [](const nlohmann::json& t) {
    return nlohmann::json{{"chat_template", t}}.dump();
  };
  EXPECT_EQ(own("chat_template.jinja", jinja + "\n"), "chatml");
  EXPECT_EQ(own("tokenizer_config.json", config(jinja)), "chatml");
  EXPECT_EQ(own("tokenizer_config.json", config({{{"name", "tool_use"}, {"template", "?"}},
                                                 {{"name", "default"}, {"template", jinja}}})),
            "chatml");
  std::string escaped;
  for (const char c : jinja) escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
  EXPECT_EQ(own("chat_template.jinja", escaped), "chatml");

  const auto refusal = [&](const std::string& text) {
    return message_of<Error>([&] { own("chat_template.jinja", text); });
  };
  EXPECT_THAT(refusal(jinja + "{{ 'more' }}"),
              AllOf(HasSubstr("not known here; it looks like chatml"), HasSubstr("--template")));
  EXPECT_THAT(refusal("{{ messages }}"), AllOf(HasSubstr("not known here:"), HasSubstr("qwen3")));
  EXPECT_THAT(message_of<Error>([] { chat_template_of(*bytes_tokenizer()); }),
              HasSubstr("brings no chat template"));
}

TEST(Conversations, AreReadFromBothForms) {
  const auto read = [](const char* text) { return conversation_of(nlohmann::json::parse(text)); };
  EXPECT_THAT(read(R"({"messages": [{"role": "user", "content": "a"},
                       {"role": "assistant", "content": [{"type": "text", "text": "b"},
                        {"type": "text", "text": "c"}], "tool_calls": null}]})"),
              ElementsAre(Message{"user", "a"}, Message{"assistant", "bc"}));
  EXPECT_THAT(read(R"({"conversations": [{"from": "human", "value": "a"},
                       {"from": "gpt", "value": "b"}, {"from": "system", "value": "c"}]})"),
              ElementsAre(Message{"user", "a"}, Message{"assistant", "b"}, Message{"system", "c"}));
  const auto refusal = [&](const char* text) { return message_of<Error>([&] { read(text); }); };
  EXPECT_THAT(refusal("[]"), HasSubstr("not an object"));
  EXPECT_THAT(refusal(R"({"text": "a"})"), HasSubstr("no list \"messages\""));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user"}]})"),
              HasSubstr("message 1 has no text in \"content\""));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user", "content": "a"}, 7]})"),
              HasSubstr("message 2"));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})"),
              HasSubstr("no text, which is not supported"));
  EXPECT_THAT(
      refusal(R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [{}]}]})"),
      HasSubstr("tool_calls"));
}

// Of SentencePiece, control tokens stand in no text, so that they are never taken for one.
TEST(ChatFiles, AreMadeWithSentencePiece) {
  const ScratchFolder scratch;
  const auto tokenizer = make_tokenizer(train_sentencepiece("bpe", "identity"), "here");
  const auto chat = with_tokens_of(chat_template_named("mistral"), *tokenizer);
  TokenizeOptions o;
  o.inputs = {scratch.write("a.txt",
                            R"({"messages": [{"role": "user", "content": "the </s> sky"}, )"
                            R"({"role": "assistant", "content": "grey"}]})"
                            "\n\n")};
  o.output = scratch / "out.tokens";
  o.existing = ExistingFile::replaced;
  o.tokenizer = tokenizer.get();
  o.chat = &chat;
  tokenize(o);

  const auto ids = all_ids(o.output);
  const auto bos = *tokenizer->id_of("<s>"), eos = *tokenizer->id_of("</s>");
  EXPECT_EQ(ids.front(), bos);
  EXPECT_EQ(ids.back(), eos);
  EXPECT_EQ(std::ranges::count(ids, eos), 1);
  EXPECT_EQ(tokenizer->decode(ids), "[INST] the </s> sky [/INST]grey");
  const TokenFile file(o.output);
  std::vector<std::int32_t> targets;
  for (std::int64_t i = 0; i < file.count(); ++i)
    if (is_target(file, i)) targets.push_back(ids[static_cast<std::size_t>(i)]);
  EXPECT_EQ(targets.back(), eos);
  EXPECT_EQ(tokenizer->decode(targets), "grey");
}

TEST(ChatFiles, NameTheLineThatIsRefused) {
  const ScratchFolder scratch;
  const ToyTokenizer tokenizer({"<|im_start|>", "<|im_end|>"});
  const auto chat = with_tokens_of(chat_template_named("chatml"), tokenizer);
  const std::string question = R"({"messages": [{"role": "user", "content": "a"}]})";
  const std::string good =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
  TokenizeOptions o;
  o.output = scratch / "out.tokens";
  o.existing = ExistingFile::replaced;
  o.tokenizer = &tokenizer;
  o.chat = &chat;
  o.inputs = {
      scratch.write("a.jsonl", good + "\n" + R"({"messages": [{"role": "x", "content": ""}]})")};
  EXPECT_THAT(message_of<Error>([&] { tokenize(o); }),
              HasSubstr("a.jsonl:2: message 1 is of \"x\""));
  // A conversation is one document: what ends documents may not be in it.
  o.inputs = {scratch.write("b.jsonl", good)};
  o.separator = 1001;
  EXPECT_THAT(message_of<Error>([&] { tokenize(o); }),
              AllOf(HasSubstr("b.jsonl:1: the separator 1001"), HasSubstr("--separator none")));
  {  // the one that is named is there
    const ToyTokenizer more({"<|im_start|>", "<|im_end|>", "<pad>"});
    o.tokenizer = &more;
    EXPECT_THAT(message_of<Error>([&] { tokenize(o); }), HasSubstr("--separator '<pad>'"));
    o.tokenizer = &tokenizer;
  }
  o.separator = 0;
  EXPECT_EQ(tokenize(o).documents, 1);
  EXPECT_EQ(all_ids(o.output).back(), 0);
  EXPECT_FALSE(is_target(TokenFile(o.output), std::ssize(all_ids(o.output)) - 1));
  EXPECT_EQ(tokenize(o).learnt, 2);  // "b" and what ends the turn
  o.inputs = {
      scratch.write("c.jsonl", R"({"messages": [{"role": "user", "content": [{"type": 5}]}]})")};
  EXPECT_THAT(message_of<Error>([&] { tokenize(o); }),
              HasSubstr("c.jsonl:1: message 1 has a part"));
  o.inputs = {scratch.write("d.jsonl", question + "\n" + question)};
  EXPECT_THAT(message_of<Error>([&] { tokenize(o); }), HasSubstr("no conversation has a turn"));
}

}  // namespace
}  // namespace trireme
