#include "lib/chat/unread_keys.hpp"

#include <algorithm>
#include <span>
#include <string_view>

#include "lib/base/json.hpp"

namespace trireme {

namespace {

using Keys = std::span<const std::string_view>;
constexpr std::string_view keys_of_line[] = {
    "messages",    "conversations", "prompt", "chosen", "rejected",
    "completion",  "label",         "system", "tools",  "chat_template_kwargs",
    "instruction", "input",         "output", "history"};
constexpr std::string_view keys_of_message[] = {"role",       "content",      "from",   "value",
                                                "tool_calls", "tool_call_id", "weight", "train"};
constexpr std::string_view keys_of_call[] = {"id", "type", "function", "name", "arguments"};
constexpr std::string_view keys_of_function[] = {"name", "arguments"};
constexpr std::string_view keys_of_part[] = {"type", "text"};

class Unread {
 public:
  explicit Unread(const std::function<bool(std::string_view)>& is_read) : is_read_(is_read) {}

  // Adds the keys of an object that are not in `known`.
  void look_at(const Json& object, Keys known, const std::string& place,
               const std::function<bool(std::string_view)>& is_read = {}) {
    if (!object.is_object()) return;
    for (const auto& [key, value] : object.items()) {
      const bool empty = value.is_null() || value == "" || value == Json::array();
      if (empty || std::ranges::find(known, key) != known.end() || (is_read && is_read(key)))
        continue;
      if (const auto full = place + key; std::ranges::find(keys, full) == keys.end())
        keys.push_back(full);
    }
  }
  void look_at_message(const Json& message, const std::string& place) {
    look_at(message, keys_of_message, place, is_read_);
    each(message, "content",
         [&](const Json& part) { look_at(part, keys_of_part, place + "content[]."); });
    each(message, "tool_calls", [&](const Json& call) {
      look_at(call, keys_of_call, place + "tool_calls[].");
      if (call.is_object() && call.contains("function"))
        look_at(call.at("function"), keys_of_function, place + "tool_calls[].function.");
    });
  }
  // Calls f for the elements of a list in an object, or for the value itself if it is an object.
  template <class F>
  static void each(const Json& object, std::string_view key, F f) {
    if (!object.is_object()) return;
    const auto found = object.find(key);
    if (found == object.end()) return;
    if (found->is_object()) f(*found);
    if (!found->is_array()) return;
    for (const auto& one : *found) f(one);
  }

  std::vector<std::string> keys;

 private:
  const std::function<bool(std::string_view)>& is_read_;
};

}  // namespace

std::vector<std::string> unread_keys(const Json& line,
                                     const std::function<bool(std::string_view)>& is_read) {
  Unread unread(is_read);
  unread.look_at(line, keys_of_line, "");
  if (const auto found = line.find("chat_template_kwargs"); line.is_object() && found != line.end())
    unread.look_at(*found, {}, "chat_template_kwargs.", is_read);
  for (const char* list :
       {"messages", "conversations", "prompt", "chosen", "rejected", "completion"})
    Unread::each(line, list, [&](const Json& message) {
      unread.look_at_message(message, std::string(list) + "[].");
    });
  return unread.keys;
}

}  // namespace trireme
