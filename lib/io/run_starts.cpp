#include "lib/io/run_starts.hpp"

#include <fmt/format.h>

#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"

namespace trireme {

static std::vector<RunStart> starts_in(const std::string& text) {
  std::vector<RunStart> starts;
  const auto all = parse_json(text);
  for (const auto& s : all.at("starts")) {
    starts.push_back({s.at("step").get<std::int64_t>(), s.at("samples").get<std::int64_t>(),
                      s.at("tokens").get<std::int64_t>(), s.at("phases").get<std::string>(),
                      s.at("token_files").get<std::string>(), s.at("deck").get<std::string>()});
    const auto& last = starts.back();
    require(last.step >= 0 && last.samples >= 0 && last.tokens >= 0, "a number is negative");
    require(starts.size() == 1 || starts[starts.size() - 2].samples < last.samples,
            "the starts are not in order");
  }
  return starts;
}

std::vector<RunStart> read_starts(const std::filesystem::path& run) {
  const auto path = run / starts_name;
  if (!is_there(path)) return {};
  const auto text = read_text(path);
  try {
    return starts_in(text);
  } catch (const std::exception& e) {
    throw DamagedStarts(fmt::format("{} is damaged: {}", path.string(), e.what()));
  }
}

void add_start(const std::filesystem::path& run, const RunStart& start, EarlierStarts earlier) {
  std::vector<RunStart> starts;
  try {
    if (earlier == EarlierStarts::kept) starts = read_starts(run);
  } catch (const DamagedStarts& e) {
    const auto kept = damaged_name(run / starts_name);
    rename_path(run / starts_name, kept);
    log_warning(
        "{}. It is kept as {}, and a new file begins, so `samples` may not know the data of "
        "earlier steps",
        e.what(), kept.filename().string());
  }
  std::erase_if(starts, [&](const RunStart& s) { return s.samples >= start.samples; });
  starts.push_back(start);
  OrderedJson all = OrderedJson::array();
  for (const auto& s : starts)
    all.push_back({{"step", s.step},
                   {"samples", s.samples},
                   {"tokens", s.tokens},
                   {"phases", s.phases},
                   {"token_files", s.token_files},
                   {"deck", s.deck}});
  const OrderedJson text = {{"starts", std::move(all)}};
  replace_atomically(run / starts_name,
                     text.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

}  // namespace trireme
