#pragma once
// Reads messages and descriptions of tools from JSON (lib/chat/conversation.hpp describes their
// forms). Functions throw Error, naming the number of the message, if a part is missing or is not
// supported.
#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.hpp"
#include "lib/chat/conversation.hpp"
#include "lib/chat/python_json.hpp"

namespace trireme {

// Tools and arguments of calls as Python's json.dumps writes them, by their place in a line of
// JSON. They are computed when they are first needed. The text must outlive this object.
class Texts {
 public:
  explicit Texts(std::string_view text) : text_(text) {}
  const std::string& at(const JsonPlace& place) {
    if (!all_)
      all_ = python_json(text_, [](const JsonPlace& p) {
        return (p.size() == 2 && p[0] == "tools") ||
               (!p.empty() && p.back() == "arguments" && std::ranges::count(p, "tool_calls") > 0);
      });
    return all_->at(place);
  }

 private:
  std::string_view text_;
  std::optional<std::map<JsonPlace, std::string>> all_;
};

// Reads the message at `place` in the text. Error messages call it message `number`.
Message message_of(const Json&, const JsonPlace& place, std::size_t number, Texts&);
// Reads a list of messages, which is the member `name` of the line.
Conversation messages_in(const Json& list, const char* name, Texts&);
// Reads the member "tools" of a line, which is a list of objects or a JSON text of such a list.
// Returns an empty list if the line has no tools.
std::vector<std::string> tools_in(const Json& line, Texts&);

}  // namespace trireme
