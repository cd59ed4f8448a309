#pragma once
// Measures a machine and creates a machine file. Single operations and messages between ranks are
// measured, but never a training step.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/backend.hpp"
#include "lib/calibrate/stopwatch.hpp"
#include "lib/predict/machine.hpp"

namespace trireme {

// Settings of a calibration.
struct CalibrationSettings {
  std::vector<DType> dtypes;  // compute types
  int threads = 1;            // threads of a rank
  double least = 0.01;        // minimum seconds of a measurement, all passes together
  // Directory for test checkpoints. If empty, the disk is not measured.
  std::filesystem::path disk;
  std::optional<transport::OpenDevice> device{};  // opens the transport between devices
  std::string name;                               // name of the machine
  // Earlier measurements of operations. If present, only links, agreement and disk are measured.
  std::optional<MachineModel> operations{};
};

// Measures the machine. Collective. All ranks measure at the same time, as they would compute in a
// run. Links are measured only if there are several ranks.
MachineModel calibrate(Backend&, const Communicator& world, const CalibrationSettings&);

// Function that returns the rate of a matrix product in FLOP/s.
using ProductRate = std::function<double(std::int64_t m, std::int64_t n, std::int64_t k)>;
// Returns the rates of all M x N x K products whose sizes are in `sizes`, which must be ascending.
// K varies fastest. Products that would take too long or need too much device memory are not
// measured. They get the rate of the product whose largest size is the next smaller one.
std::vector<double> rates_by_size(const std::vector<double>& sizes, const ProductRate&);

// Functions of calibrate() that measure one compute type.
std::vector<ProductRates> product_rates(Backend&, const Stopwatch&, DType);
std::vector<AttentionRates> attention_rates(Backend&, const Stopwatch&, DType);
std::vector<OperationSeconds> operation_seconds(Backend&, const Stopwatch&, DType);

}  // namespace trireme
