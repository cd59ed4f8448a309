#include "app/prompts.hpp"

#include <utility>

#include "app/json_lines.hpp"
#include "lib/base/error.hpp"
#include "lib/base/utf8_bytes.hpp"
#include "lib/run/generation.hpp"

namespace trireme {

Prompt prompt_of_user(std::string text) {
  require(well_formed_bytes(text) == text.size(), "the message of the user is not UTF-8 text");
  return {.text = {}, .chat = {.messages = {Message("user", std::move(text))}}};
}

static Prompt prompt_of(const FileLine& line, PromptsAre form) {
  const auto& where = line.where;
  Prompt p;
  Json row;
  if (form == PromptsAre::conversations) {
    row = object_in(line, "{\"messages\": [{\"role\": \"user\", \"content\": \"...\"}]}");
    try {
      p.chat = conversation_of(parse_ordered_json(line.text));
    } catch (const Error& e) {
      fail("{}: {}", where, e.what());
    }
  } else {
    row = object_in(line, "{\"prompt\": \"...\"}");
    require(row.contains("prompt") && row["prompt"].is_string(),
            "{} has no string \"prompt\". Each line must look like {{\"prompt\": \"...\"}}", where);
    p.text = row["prompt"].get<std::string>();
  }
  for (const auto& [name, value] : row.items()) {
    if (name == "tokens") {
      require(value.is_number_integer() && value >= 1 && value <= most_tokens,
              "{}: \"tokens\" is {}, not a whole number from 1 to {}", where, value.dump(),
              most_tokens);
      p.tokens = value.get<std::int64_t>();
    } else if (name == "seed") {
      require(value.is_number_unsigned(),
              "{}: \"seed\" is {}, not a whole number from 0 to 2^64 - 1", where, value.dump());
      p.seed = value.get<std::uint64_t>();
    }
  }
  return p;
}

std::vector<Prompt> parse_prompts(const std::filesystem::path& path, const std::string& text,
                                  PromptsAre form) {
  const bool json = path.extension() == ".jsonl";
  std::vector<Prompt> prompts;
  for (const auto& line : lines_of(path.string(), text))
    prompts.push_back(json                                ? prompt_of(line, form)
                      : form == PromptsAre::conversations ? prompt_of_user(line.text)
                                                          : Prompt{.text = line.text});
  require(!prompts.empty(), "{} contains no prompts", path.string());
  return prompts;
}

std::vector<std::int32_t> ids_of(const Prompt& prompt, const Tokenizer& tokenizer,
                                 const ChatWriter* chat) {
  if (!chat) return prompt_ids(tokenizer, prompt.text);
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> learnt;
  encode_chat(tokenizer, chat->question(prompt.chat), ids, learnt);
  return ids;
}

ContinuationWriter::ContinuationWriter(const std::string& path, const FileKind& kind,
                                       ExistingFile existing) {
  if (!path.empty()) file_.emplace(path, kind, existing);
}

void ContinuationWriter::add(std::size_t index, const Prompt& prompt, const std::string& text,
                             std::int64_t tokens, std::string_view ended) {
  OrderedJson row;
  for (const auto& m : prompt.chat.messages) row["messages"].push_back(m.fields);
  if (!prompt.chat.tools.empty()) row["tools"] = prompt.chat.tools;
  if (!prompt.chat.variables.empty()) row["chat_template_kwargs"] = prompt.chat.variables;
  if (prompt.chat.messages.empty()) {
    row["prompt"] = prompt.text;
    row["text"] = text;
  } else {
    row["messages"].push_back({{"role", "assistant"}, {"content", text}});
  }
  row["tokens"] = tokens;
  row["ended"] = std::string(ended);
  // A generated text may end within a UTF-8 character.
  waiting_[index] = row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  while (!waiting_.empty() && waiting_.begin()->first == next_) {
    const auto& line = waiting_.begin()->second;
    if (file_) {
      file_->write(line);
    } else {
      print(line);
      flush_output();
    }
    waiting_.erase(waiting_.begin());
    ++next_;
  }
}

void ContinuationWriter::finish() {
  if (file_) file_->finish();
}

}  // namespace trireme
