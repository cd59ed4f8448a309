#pragma once
// Chat templates: Jinja programs that write a conversation as text. Some are known by name. Others
// come from a file or from the tokenizer of a model.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.hpp"
#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

struct ChatTemplate {
  std::string name;  // for messages
  std::string jinja;
};

// Returns the names of the known templates.
std::vector<std::string> chat_template_names();
// Returns the template with this name. Throws Error, listing all names, if there is no such
// template.
ChatTemplate chat_template_named(std::string_view name);
// Reads a template from a file. Throws Error if the file is missing, too long, or a TOML template
// of Trireme 0.1.
ChatTemplate read_chat_template(const std::string& file);

// Returns the tokenizer's own template, from chat_template.jinja or tokenizer_config.json, or
// nullopt if there is none. If tokenizer_config.json contains a template for conversations with
// tools, the result selects between this template and the one with the name "default", as
// transformers does.
std::optional<ChatTemplate> own_chat_template(const Tokenizer&);

// Returns the tokens that templates may name, such as {"bos_token": "<s>"}, from the tokenizer's
// files. A tokenizer without these files has "<s>" and "</s>" if they are tokens.
OrderedJson token_variables(const Tokenizer&);

// Returns the texts of the form "<|..|>" in the template that are not tokens of the tokenizer. They
// are encoded as plain text, which usually means that the template belongs to another model.
std::vector<std::string> missing_tokens(const ChatTemplate&, const Tokenizer&);

// A template as token files and checkpoints store it: the Jinja program, the text that ends an
// answer (ChatWriter::end_of_answer), and the variables that were set for all conversations.
struct StoredChat {
  std::string jinja, end_of_answer;
  OrderedJson variables = OrderedJson::object();
};
// Convert between a StoredChat and its text. stored_chat() throws Error if the text is damaged.
// It returns nullopt if the text is a TOML template of Trireme 0.1.
std::string chat_text_of(const StoredChat&);
std::optional<StoredChat> stored_chat(std::string_view text, std::string_view where);

// Advice in errors about a TOML template of Trireme 0.1.
inline constexpr std::string_view advice_for_toml =
    "Trireme 0.1 wrote chat templates in TOML. Write the template in Jinja, for example {% for m "
    "in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}, and pass it with --template";

}  // namespace trireme
