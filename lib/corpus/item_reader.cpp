#include "lib/corpus/item_reader.hpp"

#include <string_view>
#include <utility>

#include "lib/corpus/labeled_answers.hpp"

namespace trireme {

std::int64_t read_items(const TokenizeOptions& o,
                        const std::function<void(TextSource&)>& add_inputs,
                        const std::function<void(TextItem)>& emit,
                        const std::function<std::optional<JsonLine>()>& line_after) {
  FollowingLines following(emit);
  const bool labeled = o.documents == Documents::labeled;
  TextSource source(
      [&](TextItem item) { labeled ? following.add(std::move(item)) : emit(std::move(item)); },
      longest_line,
      [&](std::string_view text, std::size_t limit) { return o.tokenizer->cut(text, limit); });
  add_inputs(source);
  source.finish();
  if (labeled) following.finish(line_after ? line_after() : std::nullopt);
  return source.bytes();
}

}  // namespace trireme
