#pragma once
// Labeled answers, from lines of JSON. Each of them is tokenized with its own prompt and, as its
// mismatched answer, with the prompt of the answer before it (Documents::labeled). The lines are
// divided into items, so an item also needs the line that follows it.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/json.hpp"
#include "lib/chat/conversation.hpp"
#include "lib/corpus/text_source.hpp"

namespace trireme {

// A prompt, an answer and its label. They are texts, or messages in `turns`.
struct LabeledAnswer {
  std::string prompt{}, answer{};
  LabeledTurns turns{};
  bool desirable = false;
  std::string place{};  // "file:line", for messages
};

// Reads {"prompt": .., "completion": .., "label": ..}, whose label is true or false. With `chat`,
// the prompt and the completion have the forms that labeled_turns_of() reads; otherwise they are
// texts. Throws Error, naming what is missing. The caller adds the file and line to the error.
LabeledAnswer labeled_answer_of(const OrderedJson&, bool chat);

// Calls f(line, number) for each line in a piece of JSON lines that is not blank. `text` is the
// text of the piece's item.
void each_line(std::string_view text, const TextPiece&,
               const std::function<void(std::string_view line, std::int64_t number)>& f);

// Passes each item to `emit` after setting TextItem::next to the first line of the next item. The
// last item gets the argument of finish() or, without it, the first line of the first item. Items
// without lines are dropped.
class FollowingLines {
 public:
  explicit FollowingLines(std::function<void(TextItem)> emit) : emit_(std::move(emit)) {}
  void add(TextItem);
  void finish(const std::optional<JsonLine>& next = {});

 private:
  std::function<void(TextItem)> emit_;
  std::optional<TextItem> held_;
  JsonLine first_;
};

}  // namespace trireme
