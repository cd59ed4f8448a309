#include "lib/compare/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/base/counted.hpp"

namespace trireme {

std::string ModelPlaces::unit(ParamId p) const {
  return spec.units[spec.params[p.index()].unit.index()];
}

int ModelPlaces::stage(ParamId p) const {
  return stage_of_unit[spec.params[p.index()].unit.index()];
}

std::string tensor_text(const TensorName& t, const ModelPlaces& at) {
  return fmt::format("{} of {} (unit {}, stage {})", t.array, at.spec.params[t.param.index()].name,
                     at.unit(t.param), at.stage(t.param));
}

Report::Json tensor_json(const TensorName& t, const ModelPlaces& at) {
  return {{"array", t.array},
          {"parameter", at.spec.params[t.param.index()].name},
          {"unit", at.unit(t.param)},
          {"stage", at.stage(t.param)}};
}

void Report::say(const std::string& key, Json value, const std::string& line) {
  json_[key] = std::move(value);
  if (!line.empty()) text_ += line + "\n";
}

void Report::add(const char* key, Json value, const std::string& line) {
  json_[key].push_back(std::move(value));
  if (!line.empty()) text_ += line + "\n";
}

// Returns the distance in ulps, or null if it is unknown.
static Report::Json ulps_json(std::optional<std::uint64_t> ulps) {
  return ulps ? Report::Json(*ulps) : Report::Json();
}

static std::string ulps_text(std::optional<std::uint64_t> ulps) {
  return ulps ? counted(*ulps, "unit") + " in the last place" : "no number";
}

void Report::table(const std::string& key, const TableComparison& t) {
  Json json{{"steps", t.steps}, {"first", t.first ? Json(*t.first) : Json()}};
  if (t.steps == 0) return say(key, json, fmt::format("{}: no step in common", key));
  if (!t.first)
    return say(key, json,
               fmt::format("{}: {} in common, all equal up to step {}", key,
                           counted(t.steps, "step"), t.last));
  std::string line = fmt::format("{}: {} in common, step {} is the first that differs:", key,
                                 counted(t.steps, "step"), *t.first);
  for (const auto& c : t.differ) {
    const auto ulps = c.is_count ? std::nullopt : ulps_between(c.a, c.b);
    json["differ"].push_back(
        {{"column", c.column}, {"a", c.a}, {"b", c.b}, {"ulps", ulps_json(ulps)}});
    line += fmt::format("\n  {} {} and {}", c.column, c.a, c.b);
    if (!c.is_count) line += ", " + ulps_text(ulps);
  }
  say(key, json, line);
}

void Report::digests(const DigestComparison& d, const ModelPlaces& at) {
  Json json{{"steps", d.steps},
            {"equal_until", d.equal_until},
            {"first", d.first ? Json(*d.first) : Json()}};
  if (d.steps == 0) return say("digests", json);
  if (!d.first)
    return say("digests", json,
               fmt::format("digests: {} in common, all equal up to step {}",
                           counted(d.steps, "step"), d.last));
  const auto& first = d.differ[0];
  const TensorName name{first.array, first.param};
  json["tensors"] = d.tensors;
  for (const auto& place : d.differ)
    json["differ"].push_back(tensor_json({place.array, place.param}, at));
  say("digests", json,
      fmt::format(
          "digests: {} in common, {}; step {} is the first that differs, in {} of {} tensors\n  "
          "the first is {}{}",
          counted(d.steps, "step"),
          d.equal_until > 0 ? fmt::format("all equal until step {}", d.equal_until)
                            : "none equal before",
          *d.first, d.differ.size(), d.tensors, tensor_text(name, at),
          first.missing.empty() ? "" : fmt::format(", which {} does not have", first.missing)));
}

static std::string tally_text(const Tally& t) {
  auto text = fmt::format("{} of {} elements, from index {} on", t.differ, t.elements, t.first);
  if (t.largest_at >= 0)
    text += fmt::format("; the largest difference is {}, at index {}: {} and {}",
                        ulps_text(t.largest_ulps), t.largest_at, t.largest_a, t.largest_b);
  if (t.nans > 0) text += fmt::format("; {} are NaN in one or both", t.nans);
  return text;
}

static Report::Json tally_json(const Tally& t) {
  Report::Json json{{"elements", t.elements}, {"differ", t.differ}, {"first_index", t.first}};
  json["largest_ulps"] = t.largest_at >= 0 ? ulps_json(t.largest_ulps) : Report::Json();
  json["largest_index"] = t.largest_at;
  json["a"] = t.largest_a;
  json["b"] = t.largest_b;
  json["nans"] = t.nans;
  return json;
}

void Report::tensors(const std::string& what, const TensorDifferences& all, const ModelPlaces& at) {
  Json json{{"what", what}, {"tensors", all.size()}, {"differ", Json::array()}};
  for (const auto& d : all) {
    if (!d.differs()) continue;
    auto one = tensor_json(d.name, at);
    if (d.only_in.empty())
      one.update(tally_json(d.tally));
    else
      one["only_in"] = d.only_in;
    json["differ"].push_back(std::move(one));
  }
  const auto* first = first_differing(all);
  if (!first)
    return add("compared", json, fmt::format("{}: all {} tensors are equal", what, all.size()));
  add("compared", json,
      fmt::format("{}: {} of {} tensors differ\n  the first is {}\n  {}", what,
                  count_differing(all), all.size(), tensor_text(first->name, at),
                  first->only_in.empty() ? tally_text(first->tally)
                                         : fmt::format("only {} has it", first->only_in)));
}

}  // namespace trireme
