#pragma once
// Measures a machine for a machine file. Measures single operations and messages between ranks, but
// never a training step.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/backend.hpp"
#include "lib/calibrate/stopwatch.hpp"
#include "lib/predict/machine.hpp"

namespace trireme {

// What to measure, and how.
struct CalibrationSettings {
  std::vector<DType> dtypes;  // compute types
  int threads = 1;            // threads of a rank
  double least = 0.01;        // minimum seconds of a measurement, all passes together
  // Directory to which checkpoints would be written; empty skips the disk.
  std::filesystem::path disk;
  std::optional<transport::OpenDevice> device{};  // opens the transport between devices
  std::string name;                               // name of the machine
  // Earlier measurements of operations. If given, only links, agreement and disk are measured.
  std::optional<MachineModel> operations{};
};

// Measures the machine. Collective: all ranks measure at the same time, as they would compute.
// Links are measured only if there are several ranks.
MachineModel calibrate(Backend&, const Communicator& world, const CalibrationSettings&);

// A function that returns the rate of a matrix product in FLOP/s.
using ProductRate = std::function<double(std::int64_t m, std::int64_t n, std::int64_t k)>;
// Returns the rates for all M x N x K from ascending sizes; K varies fastest. A product that would
// take too long or too much device memory is not measured. Its rate is that of the product whose
// largest size is the next smaller one.
std::vector<double> rates_by_size(const std::vector<double>& sizes, const ProductRate&);

// The parts of calibrate() that measure one compute type.
std::vector<ProductRates> product_rates(Backend&, const Stopwatch&, DType);
std::vector<AttentionRates> attention_rates(Backend&, const Stopwatch&, DType);
std::vector<OperationSeconds> operation_seconds(Backend&, const Stopwatch&, DType);

}  // namespace trireme
