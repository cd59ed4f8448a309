// hf_prompts TOKENIZER TEMPLATE CONVERSATIONS: ids with which `generate --chat` begins, a line of
// them for each line of a .jsonl.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/prompts.hpp"
#include "app/tokenizers.hpp"
#include "lib/base/error_text.hpp"
#include "lib/base/posix_file.hpp"

int main(int argc, char** argv) {
  using namespace trireme;
  try {
    require(argc == 4, "hf_prompts TOKENIZER TEMPLATE CONVERSATIONS");
    const auto tokenizer = tokenizer_at(argv[1]);
    const auto chat = chat_writer({argv[2], ""}, *tokenizer);
    for (const auto& prompt : parse_prompts(argv[3], read_text(argv[3]), PromptsAre::conversations))
      fmt::print("{}\n", fmt::join(ids_of(prompt, *tokenizer, chat.get()), " "));
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", error_text(e));
    return 1;
  }
}
