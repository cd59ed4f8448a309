#pragma once
// Reads messages and descriptions of tools from JSON (lib/chat/conversation.hpp describes their
// forms). Functions throw Error, naming the number of the message, if a part is missing or is not
// supported.
#include <cstddef>
#include <vector>

#include "lib/base/json.hpp"
#include "lib/chat/conversation.hpp"

namespace trireme {

// Reads a message. Error messages call it message `number`.
Message message_of(const OrderedJson&, std::size_t number);
// Reads a list of messages.
std::vector<Message> messages_in(const OrderedJson& list);
// Reads the member "tools" of a line, which is a list of objects or a JSON text of such a list.
// Returns an empty list if the line has no tools.
OrderedJson tools_in(const OrderedJson& line);
// Reads the member "chat_template_kwargs" of a line. Returns an empty object if there is none.
OrderedJson variables_in(const OrderedJson& line);
// Throws Error if `variables` is not an object, or sets a variable that the conversation sets. The
// error calls them `what`.
void require_variables(const OrderedJson& variables, std::string_view what);

}  // namespace trireme
