#pragma once
// The table routing.csv of a model with experts. It has one row per step with statistics of the
// routers.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Columns of the table. Each column after more_rounds contains one number per layer with experts,
// separated by spaces: the layer's number, and the least, mean and greatest load of its experts in
// this step.
inline constexpr std::string_view routing_columns =
    "step,tokens,balance_loss,router_z_loss,more_rounds,layer,least,mean,most";

// The loads of one layer's experts. A load is the number of choices of an expert in a step.
struct LayerLoad {
  std::int64_t layer = 0, least = 0;
  double mean = 0;
  std::int64_t most = 0;
};

// One row of routing.csv.
struct RoutingRow {
  std::int64_t step = 0, tokens = 0;
  // Losses of the routers, as in Routing (lib/train/routing.hpp).
  double balance = 0, z = 0;
  std::int64_t more_rounds = 0;
  std::vector<LayerLoad> loads;

  // least() and most() return the smallest and largest ratio of an expert's load to the mean load
  // of its layer, over all layers. Both are 1 if loads are even, and NaN if no expert was chosen.
  double least() const;
  double most() const;
};
std::string to_csv(const RoutingRow&);
// Parses a row of routing.csv. Throws Error, with the reason, if the row is invalid.
RoutingRow parse_routing_row(std::string_view);
bool is_routing_row(std::string_view);
// Returns the complete rows of the table, one per step, in the order of steps. Returns an empty
// list if the table does not exist. Throws Error if the table has other columns.
std::vector<RoutingRow> read_routing(const std::filesystem::path&);

}  // namespace trireme
