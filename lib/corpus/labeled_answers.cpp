#include "lib/corpus/labeled_answers.hpp"

#include "lib/base/error.hpp"
#include "lib/base/text_parts.hpp"

namespace trireme {

static const std::string& text_in(const OrderedJson& object, const char* field) {
  const auto found = object.find(field);
  require(found != object.end(),
          "there is no field \"{}\": with --labeled, each line has the texts \"prompt\" and "
          "\"completion\", and a \"label\" that is true or false; for messages, add --chat",
          field);
  require(found->is_string(), "field \"{}\" is not a string: for messages, add --chat", field);
  return found->get_ref<const std::string&>();
}

LabeledAnswer labeled_answer_of(const OrderedJson& object, bool chat) {
  require(object.is_object(), "this line is JSON, but not a JSON object: each line must be one");
  LabeledAnswer a;
  const auto label = object.find("label");
  require(label != object.end() && label->is_boolean(),
          "there is no \"label\" that is true or false: with --labeled, it says whether the answer "
          "is desirable");
  a.desirable = label->get<bool>();
  if (chat) {
    a.turns = labeled_turns_of(object);
  } else {
    a.prompt = text_in(object, "prompt");
    a.answer = text_in(object, "completion");
  }
  return a;
}

void each_line(std::string_view text, const TextPiece& piece,
               const std::function<void(std::string_view line, std::int64_t number)>& f) {
  auto number = piece.first_line;
  for (const auto line : split(text.substr(piece.begin, piece.end - piece.begin), '\n')) {
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) f(line, number);
    ++number;
  }
}

void FollowingLines::add(TextItem item) {
  JsonLine first;
  for (const auto& piece : item.pieces)
    each_line(item.text, piece, [&](std::string_view line, std::int64_t number) {
      if (first.text.empty()) first = {std::string(line), piece.file, number};
    });
  if (first.text.empty()) return;
  if (held_) {
    held_->next = first;
    emit_(std::move(*held_));
  } else {
    first_ = std::move(first);
  }
  held_ = std::move(item);
}

void FollowingLines::finish(const std::optional<JsonLine>& next) {
  if (!held_) return;
  held_->next = next.value_or(first_);
  emit_(std::move(*held_));
  held_.reset();
}

}  // namespace trireme
