#include "lib/chat/chat_named.hpp"

#include "lib/base/asset.hpp"

TRIREME_ASSET(chatml, TRIREME_CHAT "/templates/chatml.jinja")
TRIREME_ASSET(qwen2, TRIREME_CHAT "/templates/qwen2.jinja")
TRIREME_ASSET(qwen25, TRIREME_CHAT "/templates/qwen2.5.jinja")
TRIREME_ASSET(qwen3, TRIREME_CHAT "/templates/qwen3.jinja")
TRIREME_ASSET(smollm2, TRIREME_CHAT "/templates/smollm2.jinja")
TRIREME_ASSET(llama2, TRIREME_CHAT "/templates/llama2.jinja")
TRIREME_ASSET(llama3, TRIREME_CHAT "/templates/llama3.jinja")
TRIREME_ASSET(llama31, TRIREME_CHAT "/templates/llama3.1.jinja")
TRIREME_ASSET(mistral, TRIREME_CHAT "/templates/mistral.jinja")
TRIREME_ASSET(mistral_v3, TRIREME_CHAT "/templates/mistral-v3.jinja")
TRIREME_ASSET(zephyr, TRIREME_CHAT "/templates/zephyr.jinja")
TRIREME_ASSET(gemma, TRIREME_CHAT "/templates/gemma.jinja")

namespace trireme {

std::vector<NamedChat> named_chat_templates() {
  return {{"chatml", asset_chatml()},   {"qwen2", asset_qwen2()},
          {"qwen2.5", asset_qwen25()},  {"qwen3", asset_qwen3()},
          {"smollm2", asset_smollm2()}, {"llama2", asset_llama2()},
          {"llama3", asset_llama3()},   {"llama3.1", asset_llama31()},
          {"mistral", asset_mistral()}, {"mistral-v3", asset_mistral_v3()},
          {"zephyr", asset_zephyr()},   {"gemma", asset_gemma()}};
}

}  // namespace trireme
