#include "lib/interchange/json_text.hpp"

#include <set>
#include <string>
#include <vector>

#include "lib/base/vendor_text.hpp"
#include "lib/io/posix_file.hpp"

namespace trireme {

// Deeper texts would overflow the stack.
constexpr int deepest = 64;

template <class Keep>
static Json parse(std::string_view text, std::string_view where, Keep keep) {
  std::vector<std::set<std::string>> names;  // by depth, of the objects around
  try {
    auto json = Json::parse(text, [&](int depth, Json::parse_event_t event, Json& value) {
      require(depth <= deepest, "it is nested more deeply than {} levels", deepest);
      const auto level = static_cast<std::size_t>(depth);
      if (event == Json::parse_event_t::object_start) {
        names.resize(level + 2);
        names[level + 1].clear();
      }
      if (event == Json::parse_event_t::key) {
        const auto& name = value.get_ref<const std::string&>();
        require(names[level].insert(name).second, "it gives '{}' twice", name);
      }
      return keep(depth, event, value);
    });
    require(json.is_object(), "it is no JSON object");
    return json;
  } catch (const Json::exception& e) {
    fail("{} is damaged: {}", where, without_tag(e.what()));
  } catch (const Error& e) {
    fail("{} is damaged: {}", where, e.what());
  }
}

Json parse_object(std::string_view text, std::string_view where) {
  return parse(text, where, [](int, Json::parse_event_t, Json&) { return true; });
}

Json read_object(const std::filesystem::path& path) {
  return parse_object(read_text(path), path.string());
}

Json parse_member(std::string_view text, std::string_view member, std::string_view where) {
  return parse(text, where, [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth != 1 || event != Json::parse_event_t::key) return true;
    return value.get_ref<const std::string&>() == member;
  });
}

std::string to_lines(const Json& json) {
  return json.dump(2) + "\n";
}

}  // namespace trireme
