#pragma once
// The page of `trireme report`: one HTML file that contains its data, style and code, including
// Chart.js. Viewing the page needs no network.
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trireme {

// Returns the page. `report` is {"version", "made", "runs"}. Each run is the result of run_report()
// with two more members: "plan" (the result of plan_json(), or null) and "differences" (from the
// deck of the first run). Throws Error if this build has no Chart.js.
std::string report_page(const nlohmann::ordered_json& report);

// Returns JSON text for a <script> element. The text is escaped so that it cannot end the element.
std::string json_for_script(const nlohmann::ordered_json&);

}  // namespace trireme
