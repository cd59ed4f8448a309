#pragma once
// The page of `trireme report`: one HTML file with its data, its style and its code, Chart.js
// among it, that opens without a network.
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trireme {

// Error when this build has no Chart.js. `report`: {"version", "made", "runs": as run_report()
// says, each with "plan" (plan_json's, or null) and "differences" (from the first run's deck)}.
std::string report_page(const nlohmann::ordered_json& report);

// JSON that stands in a <script> element: nothing in it ends the element.
std::string json_for_script(const nlohmann::ordered_json&);

}  // namespace trireme
