// Conversations as texts, and which of their tokens are learnt.
#include "lib/chat/chat_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/error.hpp"
#include "tests/chat/toy_tokenizer.hpp"
#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const Conversation long_talk = talk_of({{"system", "Be brief."},
                                        {"user", " 1+1? "},
                                        {"assistant", "\n2 "},
                                        {"user", "Sure?"},
                                        {"assistant", "Yes"}});

std::string written(const char* name, const Conversation& c) {
  return chat_named(name).write(c).text;
}

// As the models' cards show them.
TEST(ChatWriter, IsThatOfTheNamedTemplates) {
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
      written("qwen3",
              talk_of({{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "\nd"}})),
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
std::string learnt(const std::string& jinja, const Conversation& c,
                   const std::vector<std::string>& special = {}, const ChatTargets& targets = {}) {
  const ToyTokenizer tokenizer(special);
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> masks;
  encode_chat(tokenizer, ChatWriter({"t", jinja}, tokenizer, targets).write(c), ids, masks);
  EXPECT_EQ(ids.size(), masks.size());
  std::string text;
  bool on = false;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (masks[i] != on) text += (on = masks[i]) ? '[' : ']';
    text += ids[i] >= 1000 ? std::string(1, "^$%"[ids[i] - 1000]) : tokenizer.decode({&ids[i], 1});
  }
  return text + (on ? "]" : "");
}

const std::vector<std::string> im{"<|im_start|>", "<|im_end|>"};
const std::string chatml = chat_template_named("chatml").jinja;

TEST(ChatWriter, TheAssistantsContentAndTheTokenBehindItAreLearnt) {
  // ^ begins a turn, $ ends it
  EXPECT_EQ(learnt(chatml, short_talk, im), "^user\nHi$\n^assistant\n[Yo$]\n");
  EXPECT_EQ(learnt(chatml, talk_of({{"assistant", ""}, {"assistant", "b"}, {"user", "c"}}), im),
            "^assistant\n[$]\n^assistant\n[b$]\n^user\nc$\n");
  EXPECT_EQ(learnt(chatml, talk_of({{"user", "no answer"}, {"user", ""}}), im),
            "^user\nno answer$\n^user\n$\n");
  // A token that is of both is learnt.
  EXPECT_EQ(learnt(chatml, talk_of({{"user", "Hi"}, {"assistant", "\nYo\n"}}), im),
            "^user\nHi$\n^assistant[\n\nYo\n$]\n");
  // No token ends a turn: all that is behind it does.
  const std::string plain =
      "{% for m in messages %}{{ ('Q: ' if m.role == 'user' else 'A: ') + m.content + '\n' }}"
      "{% endfor %}{% if add_generation_prompt %}A: {% endif %}";
  EXPECT_EQ(learnt(plain,
                   talk_of({{"user", "x"}, {"assistant", "y"}, {"user", "z"}, {"assistant", "w"}})),
            "Q: x\nA: [y\n]Q: z\nA: [w\n]");
  EXPECT_EQ(learnt(plain, talk_of({{"user", "x"}, {"assistant", "y\n"}, {"user", "\nz"}})),
            "Q: x\nA: [y\n\n]Q: \nz\n");
}

TEST(ChatWriter, OtherMessagesAreLearntWhenAskedFor) {
  const auto talk = talk_of({{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}});
  EXPECT_EQ(learnt(chatml, talk, im, {.only_last = true}),
            "^user\na$\n^assistant\nb$\n^user\nc$\n^assistant\n[d$]\n");
  EXPECT_EQ(learnt(chatml, talk, im, {.roles = {"user"}}),
            "^user\n[a$]\n^assistant\nb$\n^user\n[c$]\n^assistant\nd$\n");
  EXPECT_EQ(learnt(chatml, talk, im, {.roles = {"user"}, .only_last = true, .end_of_turn = false}),
            "^user\na$\n^assistant\nb$\n^user\n[c]$\n^assistant\nd$\n");
  auto weighted = talk;
  weighted.messages[0].learnt = true;
  weighted.messages[3].learnt = false;
  EXPECT_EQ(learnt(chatml, weighted, im),
            "^user\n[a$]\n^assistant\n[b$]\n^user\nc$\n^assistant\nd$\n");
}

// {% generation %} says what is learnt; transformers passes no mark to the text.
TEST(ChatWriter, MarksOfTheTemplateAreLearnt) {
  const std::string marked =
      "{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %} {{ m.content }}$"
      "{% endgeneration %}!{% else %}Q:{{ m.content }}{% endif %}{% endfor %}";
  const auto talk = talk_of({{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}});
  EXPECT_EQ(learnt(marked, talk), "Q:aA:[ b$]!Q:cA:[ d$]!");
  EXPECT_EQ(learnt(marked, talk, {}, {.only_last = true}), "Q:aA: b$!Q:cA:[ d$]!");
  auto empty = talk;
  empty.messages[1] = Message("assistant", "");
  empty.messages[1].learnt = false;
  EXPECT_EQ(learnt(marked, empty), "Q:aA: $!Q:cA:[ d$]!");
  EXPECT_EQ(learnt(marked, talk, {}, {.roles = {"assistant", "user"}}),
            "Q:[a]A:[ b$]!Q:[c]A:[ d$]!");
}

// An answer begins where the prompt for it ends, whatever the template puts before its content.
TEST(ChatWriter, WhatPrecedesAnAnswerIsLearntUnlessThePromptHasIt) {
  const auto thinking = [](const char* prompt) {
    return std::string(
               "{% for m in messages %}^{{ m.role }}:{% if m.role == 'assistant' and "
               "loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}"
               "{{ m.content.split('</think>')[-1] }}${% endfor %}"
               "{% if add_generation_prompt %}^assistant:") +
           prompt + "{% endif %}";
  };
  auto talk = talk_of(
      {{"user", "a"}, {"assistant", "<think>x</think>b"}, {"user", "c"}, {"assistant", "d"}});
  talk.messages[3].fields["reasoning"] = "why";
  EXPECT_EQ(learnt(thinking(""), talk, {"^", "$"}),
            "^user:a$^assistant:[b$]^user:c$^assistant:[<think>why</think>d$]");
  EXPECT_EQ(learnt(thinking("<think>"), talk, {"^", "$"}),
            "^user:a$^assistant:[b$]^user:c$^assistant:<think>[why</think>d$]");
  talk.messages[3].fields["reasoning"] = "";
  EXPECT_EQ(learnt(thinking("<think></think>"), talk, {"^", "$"}),
            "^user:a$^assistant:[b$]^user:c$^assistant:<think></think>[d$]");
}

// Templates take the thought out of such a content, so that no mark may be left behind it.
TEST(ChatWriter, ContentsMayEndWithAThought) {
  const ChatWriter& qwen = chat_named("qwen3");
  auto talk = talk_of({{"user", "a"},
                       {"assistant", "<think>\nwhy\n</think>\n\n"},
                       {"tool", "c"},
                       {"assistant", "d"}});
  talk.messages[1].fields["tool_calls"] =
      OrderedJson::array({{{"type", "function"},
                           {"function", {{"name", "f"}, {"arguments", OrderedJson::object()}}}}});
  const std::string call =
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call><|im_end|>";
  EXPECT_THAT(learnt_of(qwen.write(talk)), ElementsAre("<think>\nwhy\n</think>\n\n" + call,
                                                       "<think>\n\n</think>\n\nd<|im_end|>"));
  talk.messages.resize(2);
  talk.messages[1].fields.erase("tool_calls");
  EXPECT_THAT(learnt_of(qwen.write(talk)), ElementsAre("<think>\nwhy\n</think>\n\n<|im_end|>"));
  talk.messages[1] = Message("assistant", "");  // as in a pair of answers
  EXPECT_THAT(learnt_of(qwen.write(talk)), ElementsAre("<think>\n\n</think>\n\n<|im_end|>"));
}

TEST(ChatWriter, WhatIsNotCertainIsRefused) {
  // The beginning of the text depends on the generation prompt.
  const std::string modes =
      "{{ 'MODE chat' if add_generation_prompt else 'MODE train' }}{% for m in messages %}^{{ "
      "m.role }}:{{ m.content|trim }}${% endfor %}{{ '^assistant:' if add_generation_prompt }}";
  EXPECT_EQ(learnt(modes, talk_of({{"user", ""}, {"assistant", "b"}}), {"^", "$"}),
            "MODE train^user:$^assistant:[b$]");
  // White space of Unicode at an end, which Python's strip() removes, too.
  EXPECT_EQ(learnt(modes, talk_of({{"user", "a\u00a0"}, {"assistant", "b\u3000"}}), {"^", "$"}),
            "MODE train^user:a$^assistant:[b$]");
  // A template that escapes the name of a token.
  const std::string escaping =
      "{% for m in messages %}^{{ m.content|urlencode }}${% endfor %}{{ '^' if "
      "add_generation_prompt }}";
  EXPECT_THAT(message_of<Error>([&] {
                learnt(escaping, talk_of({{"user", "a"}, {"assistant", "$"}}), {"^", "$"});
              }),
              HasSubstr("contains the name of a special token"));
}

// As in GLM-4, where the next turn's token ends an answer, and gpt-oss, where the last answer ends
// with a token of its own.
TEST(ChatWriter, AnswersEndWithTheTokenBehindThem) {
  const auto talk = talk_of({{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}});
  EXPECT_EQ(learnt("{% for m in messages %}{{ '^' if m.role == 'user' else '%' }}{{ m.content }}"
                   "{% endfor %}{{ '%' if add_generation_prompt }}",
                   talk, {"^", "$", "%"}),
            "^a%[b^]c%[d]");
  EXPECT_EQ(learnt("{% for m in messages %}^{{ m.role }}:{{ m.content }}{% if loop.last and m.role "
                   "== 'assistant' %}%{% else %}${% endif %}{% endfor %}{{ '^assistant:' if "
                   "add_generation_prompt }}",
                   talk, {"^", "$", "%"}),
            "^user:a$^assistant:[b$]^user:c$^assistant:[d%]");
  // Several tokens end a turn, and another one the conversation.
  EXPECT_EQ(learnt("{% for m in messages %}{{ m.content }}^$\n{% endfor %}"
                   "{{ '\n' if add_generation_prompt else '%' }}",
                   talk, {"^", "$", "%"}),
            "a^$\n[b^$]\nc^$\n[d^$]\n%");
}

// Where the template changes contents, prompts of the conversation's beginning are compared.
TEST(ChatWriter, ChangedContentsAreFoundByTheirPrompts) {
  const auto talk = talk_of({{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}});
  const std::string turns =
      "{% for m in messages %}^{{ m.role }}:{{ m.content|length }}{{ m.content|upper }}$"
      "{% endfor %}";
  EXPECT_EQ(learnt(turns + "{{ '^assistant:' if add_generation_prompt }}", talk, {"^", "$"}),
            "^user:1A$^assistant:[1B$]^user:1C$^assistant:[1D$]");
  EXPECT_EQ(learnt(turns, talk, {"^", "$"}), "^user:1A$^assistant:[1B$]^user:1C$^assistant:[1D$]");
  EXPECT_THAT(message_of<Error>([&] {
                learnt(turns + "{{ messages|length }}{{ '^assistant:' if add_generation_prompt }}",
                       talk, {"^", "$"});
              }),
              HasSubstr("message 2 in the text is not certain"));
}

TEST(ChatWriter, ContentsThatAreLeftOutAreCounted) {
  const ToyTokenizer tokenizer({});
  const ChatWriter writer({"t",
                           "{% for m in messages if m.role != 'system' %}{{ m.role + ':' }}"
                           "{{ '' if m.tool_calls else m.content }}{{ m.tool_calls[0].function."
                           "name if m.tool_calls }};{% endfor %}{{ 'assistant:' if "
                           "add_generation_prompt }}"},
                          tokenizer);
  auto talk = talk_of({{"system", "s"}, {"user", "a"}, {"assistant", "b"}, {"assistant", "c"}});
  talk.messages[2].fields["tool_calls"] = OrderedJson::array(
      {{{"type", "function"}, {"function", {{"name", "f"}, {"arguments", {}}}}}});
  const auto chat = writer.write(talk);
  EXPECT_THAT(chat.left_out, ElementsAre(1U, 3U));
  EXPECT_EQ(chat.text, "user:a;assistant:f;assistant:c;");
  EXPECT_THAT(learnt_of(chat), ElementsAre("f;", "c;"));
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
std::string tokens_of(const std::string& jinja, const Conversation& c, const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> targets;
  encode_chat(tokenizer, ChatWriter({"t", jinja}, tokenizer).write(c), ids, targets);
  std::string text;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto token = tokenizer.decode({&ids[i], 1});
    text += (i > 0 ? " " : "") + (targets[i] ? "[" + token + "]" : token);
  }
  return text;
}

TEST(ChatWriter, ATokenIsLearntWhenItHasAByteOfWhatIsLearnt) {
  const auto tokenizer = with_merges({"c d", "b cd", "a b"});
  const auto jinja = [](const char* user, const char* before, const char* after) {
    return fmt::format(
        "{{% for m in messages %}}{{{{ '{}' + m.content if m.role == 'user' else '{}' + m.content "
        "+ '{}' }}}}{{% endfor %}}{{{{ '{}' if add_generation_prompt }}}}",
        user, before, after, before);
  };
  EXPECT_EQ(
      tokens_of(jinja("U", "abc", "."), talk_of({{"user", "x"}, {"assistant", "dy"}}), *tokenizer),
      "U x a [bcd] [y] [.]");
  EXPECT_EQ(
      tokens_of(jinja("d", "A", "abc"), talk_of({{"assistant", "y"}, {"user", "x"}}), *tokenizer),
      "A [y] [a] [bcd] x");
}

TEST(ChatWriter, TextsOfSpecialTokensInMessagesArePlainText) {
  const ToyTokenizer tokenizer(im);
  const ChatWriter writer(chat_template_named("chatml"), tokenizer);
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> targets;
  encode_chat(tokenizer,
              writer.write(talk_of({{"user", "<|im_end|>"}, {"assistant", "<|im_start|>user\n"}})),
              ids, targets);
  EXPECT_EQ(std::ranges::count(ids, 1000), 2);
  EXPECT_EQ(std::ranges::count(ids, 1001), 2);
  EXPECT_EQ(tokenizer.decode(ids),
            "<|im_start|>user\n<|im_end|><|im_end|>\n"
            "<|im_start|>assistant\n<|im_start|>user\n<|im_end|>\n");
  EXPECT_EQ(std::ranges::count(targets, 1), std::ssize(std::string("<|im_start|>user")) + 2);
  // Pairs that the template looks for divide a content; <s> and </s> are no such pair.
  const ToyTokenizer pairs({"<s>", "</s>", "<think>", "</think>", "<x>", "</x>"});
  const ChatWriter looking({"t",
                            "{% for m in messages %}{{ m.content.split('</think>')[-1] }}</s>"
                            "{% endfor %}"},
                           pairs);
  const auto cut =
      looking.write(talk_of({{"user", "a</s><x></x>"}, {"assistant", "<think>b</think>c"}}));
  EXPECT_EQ(cut.text, "a</s><x></x></s>c</s>");
  EXPECT_EQ(cut.special.size(), 2U);
  // Also in keys and texts of tools, and across private characters of the data.
  const auto& qwen = chat_named("qwen2.5");
  auto talk = talk_of({{"user", "\U000F0001\U000F8001a"}, {"assistant", "b"}});
  talk.tools = OrderedJson::array({{{"<|im_end|>", {"<|im_start|>x"}}}});
  const auto chat = qwen.write(talk);
  EXPECT_THAT(chat.text, AllOf(HasSubstr(R"({"<|im_end|>": ["<|im_start|>x"]})"),
                               HasSubstr("\U000F0001\U000F8001a")));
  EXPECT_EQ(chat.special.size(), 6U);
  EXPECT_THAT(learnt_of(chat), ElementsAre("b<|im_end|>"));
  talk.messages[0] = Message("user", "\U000F0001\U00100001a");
  EXPECT_THAT(message_of<Error>([&] { qwen.write(talk); }), HasSubstr("private-use characters"));
  talk.messages[0] = Message("user", "\U0010F001");
  EXPECT_THAT(message_of<Error>([&] { qwen.write(talk); }), HasSubstr("U+10F001"));
}

TEST(ChatWriter, ConversationsThatCannotBeWrittenAreRefused) {
  const auto refusal = [](const char* name, std::vector<Message> messages) {
    return message_of<Error>([&] { chat_named(name).write(talk_of(std::move(messages))); });
  };
  EXPECT_THAT(refusal("qwen3", {{"user", "a"}, {"critic", "b"}}),
              HasSubstr("refuses the conversation: the role critic is unknown"));
  EXPECT_THAT(refusal("llama2", {{"user", "a"}, {"user", "b"}}), HasSubstr("take turns"));
  EXPECT_THAT(refusal("mistral", {{"system", "a"}, {"user", "b"}}), HasSubstr("take turns"));
  EXPECT_THAT(refusal("chatml", {}), HasSubstr("no message other than"));
  EXPECT_THAT(refusal("llama2", {{"system", "a"}}), HasSubstr("no message other than"));
}

TEST(ChatWriter, RolesOfOthersAreThoseOfTheTemplate) {
  const ToyTokenizer tokenizer({});
  const auto text = [&](const char* jinja) {
    return ChatWriter({"t", jinja}, tokenizer)
        .write(talk_of({{"developer", "a"}, {"user", "b"}}))
        .text;
  };
  EXPECT_EQ(text("{% for m in messages %}{{ m.role }};{% endfor %}"), "system;user;");
  const auto others = [&](const char* jinja) {
    const auto c = talk_of({{"human", "a"}, {"gpt", "b"}, {"Assistant", "c"}});
    return learnt_of(ChatWriter({"t", jinja}, tokenizer).write(c));
  };
  EXPECT_THAT(others("{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{{ "
                     "'assistant:' if add_generation_prompt }}"),
              ElementsAre("b;", "c;"));
  EXPECT_EQ(text("{# developer #}{% for m in messages %}{{ m.role }};{% endfor %}"),
            "developer;user;");
}

// As the models' cards have it with add_generation_prompt.
TEST(ChatWriter, AQuestionEndsWhereItsAnswerBegins) {
  const auto asked = talk_of({{"user", "Hi"}}),
             again = talk_of({{"user", "a"}, {"assistant", "b"}, {"user", "c"}});
  const auto question = [](const char* name, const Conversation& c) {
    const auto q = chat_named(name).question(c);
    EXPECT_TRUE(q.targets.empty());
    return q.text;
  };
  EXPECT_EQ(question("chatml", asked), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(question("qwen3", again),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
            "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n");
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
    whole.messages.emplace_back("assistant", "d");
    EXPECT_TRUE(written(name.c_str(), whole).starts_with(question(name.c_str(), again))) << name;
  }
  EXPECT_THAT(message_of<Error>([&] {
                chat_named("chatml").question(talk_of({{"user", "a"}, {"assistant", "b"}}));
              }),
              HasSubstr("ends with an assistant message"));
}

TEST(ChatWriter, VariablesReachTheTemplate) {
  const ToyTokenizer tokenizer(chat_tokens);
  const ChatWriter writer(chat_template_named("qwen3"), tokenizer, {},
                          OrderedJson{{"enable_thinking", false}});
  auto talk = talk_of({{"user", "a"}});
  const std::string begin = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n",
                    empty = "<think>\n\n</think>\n\n";
  EXPECT_EQ(writer.question(talk).text, begin + empty);
  talk.variables["enable_thinking"] = true;
  EXPECT_EQ(writer.question(talk).text, begin);
  talk = short_talk;
  EXPECT_THAT(learnt_of(writer.write(talk)), ElementsAre("Yo<|im_end|>"));
  EXPECT_THAT(learnt_of(chat_named("qwen3").write(talk)), ElementsAre(empty + "Yo<|im_end|>"));
}

TEST(ChatWriter, KnowsTheEndOfAnAnswer) {
  for (const auto& [name, end] : std::map<std::string, std::string>{{"chatml", "<|im_end|>"},
                                                                    {"llama2", "</s>"},
                                                                    {"llama3.1", "<|eot_id|>"},
                                                                    {"mistral-v3", "</s>"},
                                                                    {"gemma", "<end_of_turn>"},
                                                                    {"qwen3", "<|im_end|>"}})
    EXPECT_EQ(chat_named(name).end_of_answer(), end) << name;
  const ToyTokenizer tokenizer({});
  const auto end = [&](const char* jinja) {
    return ChatWriter({"t", jinja}, tokenizer).end_of_answer();
  };
  EXPECT_EQ(end("{% for m in messages %}{{ m.role }}:{{ m.content }}\n\n{% endfor %}"), "\n\n");
  EXPECT_EQ(end("{% for m in messages %}{{ m.role }}:{{ m.content }}{% endfor %}"), "");
  EXPECT_EQ(end("{{ raise_exception('never') }}"), "");
}

}  // namespace
}  // namespace trireme
