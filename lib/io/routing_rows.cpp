#include "lib/io/routing_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/text_parts.hpp"
#include "lib/io/table_rows.hpp"

namespace trireme {

double RoutingRow::least() const {
  double x = std::numeric_limits<double>::infinity();
  for (const auto& l : loads) x = std::min(x, static_cast<double>(l.least) / l.mean);
  return x;
}

double RoutingRow::most() const {
  double x = 0;
  for (const auto& l : loads) x = std::max(x, static_cast<double>(l.most) / l.mean);
  return x;
}

std::string to_csv(const RoutingRow& r) {
  std::vector<std::int64_t> layer, least, most;
  std::vector<double> mean;
  for (const auto& l : r.loads) {
    layer.push_back(l.layer);
    least.push_back(l.least);
    mean.push_back(l.mean);
    most.push_back(l.most);
  }
  return fmt::format("{},{},{},{},{},{},{},{},{}", r.step, r.tokens, r.balance, r.z, r.more_rounds,
                     fmt::join(layer, " "), fmt::join(least, " "), fmt::join(mean, " "),
                     fmt::join(most, " "));
}

template <class T>
static T number(std::string_view text) {
  const auto x = number_in<T>(text);
  require(x.has_value(), "\"{}\" in a row of routing is not a number", text);
  return *x;
}

RoutingRow parse_routing_row(std::string_view text) {
  const auto fields = split(text, ',');
  require(fields.size() == 9, "a row of routing must have the columns {}", routing_columns);
  RoutingRow r{number<std::int64_t>(fields[0]), number<std::int64_t>(fields[1]),
               number<double>(fields[2]),       number<double>(fields[3]),
               number<std::int64_t>(fields[4]), {}};
  const auto layer = split(fields[5], ' '), least = split(fields[6], ' '),
             mean = split(fields[7], ' '), most = split(fields[8], ' ');
  require(
      least.size() == layer.size() && mean.size() == layer.size() && most.size() == layer.size(),
      "a row of routing must have as many loads as layers");
  for (std::size_t i = 0; i < layer.size(); ++i)
    r.loads.push_back({number<std::int64_t>(layer[i]), number<std::int64_t>(least[i]),
                       number<double>(mean[i]), number<std::int64_t>(most[i])});
  return r;
}

bool is_routing_row(std::string_view text) {
  try {
    parse_routing_row(text);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<RoutingRow> read_routing(const std::filesystem::path& path) {
  if (!is_there(path)) return {};
  const auto text = read_text(path);
  require(text.empty() || text.starts_with(std::string(routing_columns) + "\n"),
          "{} is damaged or from another version of Trireme: its first line is not {}",
          path.string(), routing_columns);
  const auto table =
      put_in_order(text, routing_columns,
                   {.is_row = is_routing_row, .step = std::numeric_limits<std::int64_t>::max()});
  std::vector<RoutingRow> rows;
  auto lines = whole_lines(table.text);
  for (std::size_t i = 1; i < lines.size(); ++i) rows.push_back(parse_routing_row(lines[i]));
  return rows;
}

}  // namespace trireme
