#pragma once
// Measures a machine: operations on their own and messages between ranks, never a training step.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/backend.hpp"
#include "lib/calibrate/stopwatch.hpp"
#include "lib/predict/machine.hpp"

namespace trireme {

struct CalibrationSettings {
  std::vector<DType> dtypes;   // to compute in
  int threads = 1;             // of a rank
  double least = 0.01;         // seconds that all passes of a measurement last at least
  std::filesystem::path disk;  // a directory that checkpoints would be written to
  std::optional<transport::OpenDevice> device{};  // what carries messages between devices
  std::string name;                               // of the machine
  // What was measured before: then links, agreement and disk alone are measured.
  std::optional<MachineModel> operations{};
};

// Collective: all ranks measure at the same time, as they would compute. Links are measured where
// there are several ranks.
MachineModel calibrate(Backend&, const Communicator& world, const CalibrationSettings&);

// FLOP/s of a product.
using ProductRate = std::function<double(std::int64_t m, std::int64_t n, std::int64_t k)>;
// At all M x N x K of ascending sizes, K fastest. What would take too long or more memory than a
// device may have is not measured: it has the rate with the next smaller of its largest size.
std::vector<double> rates_by_size(const std::vector<double>& sizes, const ProductRate&);

// Its parts.
std::vector<ProductRates> product_rates(Backend&, const Stopwatch&, DType);
std::vector<AttentionRates> attention_rates(Backend&, const Stopwatch&, DType);
std::vector<OperationSeconds> operation_seconds(Backend&, const Stopwatch&, DType);

}  // namespace trireme
