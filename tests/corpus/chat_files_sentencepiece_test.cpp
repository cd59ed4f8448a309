#include <gtest/gtest.h>

#include <algorithm>

#include "lib/corpus/tokenize.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/scratch.hpp"
#include "tests/tokenizer/sentencepiece_model.hpp"

namespace trireme {

// Of SentencePiece, control tokens stand in no text, so that they are never taken for one.
TEST(ChatFiles, AreMadeWithSentencePiece) {
  const ScratchFolder scratch;
  const auto tokenizer = make_tokenizer(train_sentencepiece("bpe", "identity"), "here");
  const ChatWriter chat(chat_template_named("mistral"), *tokenizer);
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

}  // namespace trireme
