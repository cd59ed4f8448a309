#pragma once
// The page of `trireme report`: one HTML file that contains its data, style and code, including
// Chart.js. It opens without a network.
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trireme {

// Returns the page. `report` is {"version", "made", "runs": as run_report() returns, each with
// "plan" (from plan_json, or null) and "differences" (from the deck of the first run)}. Throws
// Error if this build has no Chart.js.
std::string report_page(const nlohmann::ordered_json& report);

// Returns JSON text for a <script> element, escaped so that nothing in it ends the element.
std::string json_for_script(const nlohmann::ordered_json&);

}  // namespace trireme
