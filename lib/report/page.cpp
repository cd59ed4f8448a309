#include "lib/report/page.hpp"

#include <nlohmann/json.hpp>
#include <string_view>

#include "lib/base/asset.hpp"
#include "lib/base/error.hpp"

TRIREME_ASSET(html, TRIREME_REPORT_PAGE "/page.html")
TRIREME_ASSET(css, TRIREME_REPORT_PAGE "/page.css")
TRIREME_ASSET(js, TRIREME_REPORT_PAGE "/page.js")
TRIREME_ASSET(chart, TRIREME_CHART_JS)

namespace trireme {

std::string json_for_script(const nlohmann::ordered_json& json) {
  // The name of a file or a comment in a deck may contain bytes that are not UTF-8.
  const auto text = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&')
      safe += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026";
    else
      safe += c;
  }
  return safe;
}

std::string report_page(const nlohmann::ordered_json& report) {
  require(
      !asset_chart().empty(),
      "this program was built without Chart.js, which draws the report: install libjs-chart.js, "
      "or give CHART_JS=/path/to/chart.min.js, and build again");
  std::string page(asset_html());
  const auto put = [&](std::string_view mark, std::string_view text) {
    const auto at = page.find(mark);
    ensure(at != std::string::npos, "the page has each mark once");
    page.replace(at, mark.size(), text);
  };
  // The data comes last, because it may contain text that looks like a mark.
  put("/*{style}*/", asset_css());
  put("/*{chart}*/", asset_chart());
  put("/*{script}*/", asset_js());
  put("/*{data}*/", json_for_script(report));
  return page;
}

}  // namespace trireme
