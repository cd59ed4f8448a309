#include "lib/keys/rows.hpp"

namespace trireme {

KeyRow KeyRow::automatically(std::string rule) {
  automatic = std::move(rule);
  if (kind == ValueKind::choice) return *this;  // a choice has no empty value
  const auto is_empty = [](const auto& v) {
    if constexpr (requires { v.empty(); })
      return v.empty();
    else if constexpr (std::is_arithmetic_v<std::decay_t<decltype(v)>>)
      return v == 0;
    else
      return false;
  };
  access.get = [plain = access.get, is_empty](AnyStruct<const void> all, std::size_t row) {
    auto value = plain(all, row);
    return std::visit(is_empty, value) ? KeyValue(Automatic{}) : value;
  };
  return *this;
}

}  // namespace trireme
