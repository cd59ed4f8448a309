#pragma once
// A model of a machine: the rates in a machine file (lib/predict/machine_file.hpp), from which the
// time of a workload is computed. Unknown rates are absent. A function that needs an absent rate
// throws Error, naming the rate.
//
// All rates apply to one rank while the other ranks of its node are equally busy.
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/value_names.hpp"
#include "lib/data/config.hpp"
#include "lib/predict/recording.hpp"

namespace trireme {

template <>
inline constexpr auto value_names<Direction> = named<Direction>("forward", "backward");

// Rates of matrix products in FLOP/s, for every combination of M, N and K from three ascending
// lists. M varies slowest and K fastest.
struct ProductRates {
  DType dtype{};
  std::optional<MatmulLayout> layout{};  // absent: for all layouts
  std::vector<double> m, n, k, flops;
};

// Rates of attention in FLOP/s, by number of tokens in a sample (ascending). attention_flops()
// defines how FLOPs are counted. Rates of attention within documents (`span`) are indexed by
// Workload::tokens, and their FLOPs are those of the pairs within documents.
struct AttentionRates {
  DType dtype{};
  Direction direction{};
  std::int64_t head_dim = 0;
  std::vector<double> tokens, flops;
  AttentionSpan span = AttentionSpan::causal;
};

// Time of one operation, by the number of bytes that it reads and writes. The numbers of bytes are
// ascending.
struct OperationSeconds {
  std::string name;
  DType dtype{};
  std::vector<double> bytes, seconds;
};

// Rates of a link. `bandwidth` is in bytes/s in one direction while the other direction is equally
// busy.
struct LinkRates {
  std::optional<double> latency, bandwidth;
  std::int64_t shared_by = 1;  // ranks of a node that share the link
};

// All rates of a machine.
struct MachineModel {
  std::string file;          // source file, for messages
  std::string name;          // of the machine
  std::string source;        // origin of the numbers
  bool measured = false;     // true for a file of `trireme calibrate`
  std::string backend;       // "host" or "cuda"
  std::int64_t threads = 0;  // threads of a rank; 0 if irrelevant
  std::int64_t ranks_of_node = 1;
  std::optional<double> memory_bytes;      // memory of a rank
  std::optional<double> memory_bandwidth;  // bytes/s, reads and writes counted together
  std::optional<double> launch;      // seconds of host time to launch an operation on a device
  std::optional<double> operation;   // seconds of host time in addition to each operation
  std::optional<double> agreement;   // seconds in which the ranks of a node agree on numbers
  std::optional<double> disk_write;  // bytes/s of a rank
  std::map<DType, double> peak;      // FLOP/s
  std::optional<double> peak_tf32;
  std::vector<ProductRates> products;
  std::vector<AttentionRates> attention;
  std::vector<OperationSeconds> operations;
  LinkRates near, far;  // within a node, between nodes
};

// Returns the value of a field. If the value is absent, throws Error, naming the `field` and `why`
// it is needed.
double required(const MachineModel&, const std::optional<double>&, std::string_view field,
                std::string_view why);
// Returns the bandwidth in bytes/s of one rank while the other ranks that share the link are
// equally busy. Throws Error, naming NAME.bandwidth, if it is unknown.
double share_of(const MachineModel&, const LinkRates&, std::string_view name);

// Returns a rank's peak rate in FLOP/s for a data type, or nullopt if it is unknown.
std::optional<double> peak_of(const MachineModel&, DType, bool tf32);

// Returns true if predictions use the lengths of documents. On a device, attention within documents
// has kernels and therefore rates of its own. If the file has none for this type and head dim,
// predictions assume causal attention.
bool times_documents(const MachineModel&, DType, std::int64_t head_dim);

// Returns the seconds that a workload takes on its queue. Throws Error if a required rate is
// absent.
double seconds_of(const MachineModel&, const Workload&);

// How interpolate() extrapolates beyond the last `x`. `constant` returns the last value.
// `proportional` scales the last value in proportion to `at`. Values below the first `x` are
// constant, except that `proportional` also scales them if there is only one `x`.
enum class Extrapolation : std::uint8_t { constant, proportional };
// Interpolates y at `at` linearly between the logarithms of x and y. `x` must be in ascending
// order.
double interpolate(const std::vector<double>& x, const std::vector<double>& y, double at,
                   Extrapolation);

}  // namespace trireme
