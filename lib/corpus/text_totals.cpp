#include "lib/corpus/text_totals.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme {

namespace {

struct FoundName {
  const char* name;
  FoundLines TokenizeSummary::*in_sum;
  FoundLines EncodedItem::*in_item;
};
constexpr std::array found_names{
    FoundName{"same", &TokenizeSummary::same, &EncodedItem::same},
    FoundName{"alike", &TokenizeSummary::alike, &EncodedItem::alike},
    FoundName{"empty", &TokenizeSummary::empty, &EncodedItem::empty},
    FoundName{"left_out", &TokenizeSummary::left_out, &EncodedItem::left_out},
    FoundName{"untrained", &TokenizeSummary::untrained, &EncodedItem::untrained},
    FoundName{"left_out_thoughts", &TokenizeSummary::left_out_thoughts,
              &EncodedItem::left_out_thoughts},
    FoundName{"unweighted", &TokenizeSummary::unweighted, &EncodedItem::unweighted},
    FoundName{"plain_names", &TokenizeSummary::plain_names, &EncodedItem::plain_names},
};

void add_found(FoundLines& all, const FoundLines& here) {
  if (all.count == 0) all.first = here.first;
  all.count += here.count;
}

Json found_json(const FoundLines& found) {
  return {{"count", found.count}, {"first", found.first}};
}
FoundLines found_of(const Json& json) {
  const JsonFields fields{json};
  return {fields.integer("count"), fields.text("first")};
}

}  // namespace

void TextTotals::add(const TokenizeOptions& options, EncodedItem& item) {
  if (has_mask(options))
    sum.learnt = sum.learnt.value_or(0) + std::ranges::count(item.packed.targets, std::uint8_t{1});
  sum.documents += item.documents;
  sum.tokens += item.packed.count;
  for (const auto& f : found_names) add_found(sum.*f.in_sum, item.*f.in_item);
  roles.merge(item.roles);
  for (const auto& [key, found] : item.unread) add_found(sum.unread[key], found);
}

void TextTotals::add(const TextTotals& next) {
  if (next.sum.learnt) sum.learnt = sum.learnt.value_or(0) + *next.sum.learnt;
  sum.documents += next.sum.documents;
  sum.tokens += next.sum.tokens;
  sum.bytes += next.sum.bytes;
  for (const auto& f : found_names) add_found(sum.*f.in_sum, next.sum.*f.in_sum);
  roles.insert(next.roles.begin(), next.roles.end());
  for (const auto& [key, found] : next.sum.unread) add_found(sum.unread[key], found);
}

Json to_json(const TextTotals& totals) {
  const auto& s = totals.sum;
  Json json{{"documents", s.documents},        {"tokens", s.tokens},    {"bytes", s.bytes},
            {"learnt", s.learnt.value_or(-1)}, {"roles", totals.roles}, {"unread", Json::object()}};
  for (const auto& f : found_names) json[f.name] = found_json(s.*f.in_sum);
  for (const auto& [key, found] : s.unread) json["unread"][key] = found_json(found);
  return json;
}

TextTotals totals_of(const Json& json) {
  const JsonFields fields{json};
  TextTotals totals;
  auto& s = totals.sum;
  s.documents = fields.integer("documents");
  s.tokens = fields.integer("tokens");
  s.bytes = fields.integer("bytes");
  if (const auto learnt = fields.integer("learnt", -1); learnt >= 0) s.learnt = learnt;
  for (const auto& role : fields.array("roles")) totals.roles.insert(role.get<std::string>());
  for (const auto& f : found_names) s.*f.in_sum = found_of(fields.object(f.name));
  for (const auto& [key, found] : fields.object("unread").items()) s.unread[key] = found_of(found);
  return totals;
}

void require_useful(const TokenizeOptions& options, const TextTotals& totals) {
  const auto& s = totals.sum;
  const auto output = options.output.string();
  if (options.chat && !totals.roles.empty())
    for (const auto& role : options.chat->targets().roles)
      require(totals.roles.contains(role),
              "no message has the role \"{}\", which is to be trained on: the roles are {}. {} was "
              "not written",
              role, fmt::join(totals.roles, ", "), output);
  require(
      options.documents != Documents::labeled || s.documents != 2,
      "the inputs contain a single labeled answer, but KTO compares answers with those to other "
      "prompts: give at least two. {} was not written",
      output);
  require(s.same.count == 0 || s.tokens > 0,
          "both answers have the same tokens to train on in {}{}: {} was not written",
          s.same.count == 1 ? "the only pair, "
                            : fmt::format("all {} pairs, the first at ", s.same.count),
          s.same.first, output);
  require(s.tokens > 0, "the inputs contain no tokens: {} was not written", output);
  require(options.weight.empty() || s.unweighted.count < s.documents,
          "no line has the field \"{}\": name the field that contains the weight with --weight. {} "
          "was not written",
          options.weight, output);
  require(!s.learnt || *s.learnt > 0 || options.weight.empty() || options.chat,
          "all documents with targets have the weight 0, so {} was not written", output);
  require(!s.learnt || *s.learnt > 0,
          "the inputs contain nothing to learn, so {} was not written. Give conversations with an "
          "assistant message that is not empty and has neither \"weight\": 0 nor \"train\": false",
          output);
}

}  // namespace trireme
