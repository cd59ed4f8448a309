#pragma once
// routing.csv, of a model with experts: a row a step, with what its routers did.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Behind more_rounds one number for each layer with experts, a space between two: the layer, and
// how many choices of the step's tokens its experts have, least, mean and most.
inline constexpr std::string_view routing_columns =
    "step,tokens,balance_loss,router_z_loss,more_rounds,layer,least,mean,most";

struct LayerLoad {
  std::int64_t layer = 0, least = 0;
  double mean = 0;
  std::int64_t most = 0;
};

struct RoutingRow {
  std::int64_t step = 0, tokens = 0;
  double balance = 0, z = 0;  // as of Routing (lib/train/routing.hpp)
  std::int64_t more_rounds = 0;
  std::vector<LayerLoad> loads;

  // Over all layers, an expert's load divided by its layer's mean: 1 and 1 where loads are even.
  // NaN without choices.
  double least() const;
  double most() const;
};
std::string to_csv(const RoutingRow&);
// Error saying what is wrong with the row.
RoutingRow parse_routing_row(std::string_view);
bool is_routing_row(std::string_view);
// The whole rows of the table as far as it is there, in order of their steps, one a step. Error if
// it has other columns.
std::vector<RoutingRow> read_routing(const std::filesystem::path&);

}  // namespace trireme
