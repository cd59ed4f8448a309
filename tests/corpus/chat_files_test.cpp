// Token files of conversations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "lib/corpus/tokenize.hpp"
#include "tests/chat/toy_tokenizer.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ChatFiles, NameTheLineThatIsRefused) {
  const ScratchFolder scratch;
  const ToyTokenizer tokenizer({"<|im_start|>", "<|im_end|>"});
  const ChatWriter chat(chat_template_named("chatml"), tokenizer);
  const std::string question = R"({"messages": [{"role": "user", "content": "a"}]})";
  const std::string good =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
  TokenizeOptions o;
  o.output = scratch / "out.tokens";
  o.existing = ExistingFile::replaced;
  o.tokenizer = &tokenizer;
  o.chat = &chat;
  o.inputs = {scratch.write("a.jsonl",
                            good + "\n" + R"({"messages": [{"role": "system", "content": ""}]})")};
  EXPECT_THAT(message_of<Error>([&] { tokenize(o); }),
              HasSubstr("a.jsonl:2: the conversation has no message other than"));
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
  EXPECT_THAT(message_of<Error>([&] { tokenize(o); }),
              HasSubstr("no message has the role \"assistant\""));
  // A role that no message has is a mistake; conversations that teach nothing are counted.
  const ChatWriter others(chat_template_named("chatml"), tokenizer, {.roles = {"user", "tol"}});
  o.chat = &others;
  EXPECT_THAT(
      message_of<Error>([&] { tokenize(o); }),
      HasSubstr("no message has the role \"tol\", which is to be trained on: the roles are user"));
  o.chat = &chat;
  o.inputs = {scratch.write("d.jsonl", good + "\n" + question)};
  const auto untrained = tokenize(o).untrained;
  EXPECT_EQ(untrained.count, 1);
  EXPECT_THAT(untrained.first, HasSubstr("d.jsonl:2"));
  // Empty answers are not learnt, and other answers of their conversation are.
  const std::string empty =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": " \n"},
                       {"role": "user", "content": "c"}, {"role": "assistant", "content": "b"}]})";
  std::string line = empty;
  std::erase(line, '\n');
  o.inputs = {scratch.write("e.jsonl", good + "\n" + line + "\n" + line)};
  const auto sum = tokenize(o);
  EXPECT_EQ(sum.learnt, 6);
  EXPECT_EQ(sum.empty.count, 2);
  EXPECT_THAT(sum.empty.first, HasSubstr("e.jsonl:2"));
  EXPECT_TRUE(sum.unread.empty());
}

}  // namespace
}  // namespace trireme
