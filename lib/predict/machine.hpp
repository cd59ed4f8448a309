#pragma once
// What a machine takes for operations and messages: the contents of a machine file
// (lib/predict/machine_file.hpp), and from it the seconds of a workload. What is not known is
// absent; a duration that needs it is an Error that names it.
//
// All rates are those of one rank while the other ranks of its node are as busy.
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/value_names.hpp"
#include "lib/predict/recording.hpp"

namespace trireme {

template <>
inline constexpr auto value_names<Direction> = named<Direction>("forward", "backward");

// Rates of products, in FLOP/s, at all M x N x K of three ascending lists; M slowest, K fastest.
struct ProductRates {
  DType dtype{};
  std::optional<MatmulLayout> layout{};  // absent: of all
  std::vector<double> m, n, k, flops;
};

// Of attention, in FLOP/s as attention_flops counts, by tokens of a sample (ascending).
struct AttentionRates {
  DType dtype{};
  Direction direction{};
  std::int64_t head_dim = 0;
  std::vector<double> tokens, flops;
};

// Seconds of one operation by the bytes that it moves (ascending).
struct OperationSeconds {
  std::string name;
  DType dtype{};
  std::vector<double> bytes, seconds;
};

// What carries messages; bytes/s in one direction while the other is used as much.
struct LinkRates {
  std::optional<double> latency, bandwidth;
  std::int64_t shared_by = 1;  // ranks of a node that share it
};

struct MachineModel {
  std::string file;          // where it was read, for messages
  std::string name;          // of the machine
  std::string source;        // how its numbers came about
  bool measured = false;     // by `trireme calibrate`
  std::string backend;       // "host" or "cuda"
  std::int64_t threads = 0;  // of a rank; 0: does not matter
  std::int64_t ranks_of_node = 1;
  std::optional<double> memory_bytes;      // of a rank
  std::optional<double> memory_bandwidth;  // bytes read or written a second
  std::optional<double> launch;            // seconds of the host to put an operation on a device
  std::optional<double> operation;         // seconds of the host beside each operation
  std::optional<double> agreement;         // seconds for ranks of a node to agree on numbers
  std::optional<double> disk_write;        // bytes/s of a rank
  std::map<DType, double> peak;            // FLOP/s
  std::optional<double> peak_tf32;
  std::vector<ProductRates> products;
  std::vector<AttentionRates> attention;
  std::vector<OperationSeconds> operations;
  LinkRates near, far;  // within a node, between nodes
};

// The field, or an Error that says which is missing and what it is needed for.
double required(const MachineModel&, const std::optional<double>&, std::string_view field,
                std::string_view why);
// Bytes/s that a rank has of a link while the others that share it are as busy. Error naming
// NAME.bandwidth where that is not known.
double share_of(const MachineModel&, const LinkRates&, std::string_view name);

// FLOP/s of a rank's machine in this type; none: not known.
std::optional<double> peak_of(const MachineModel&, DType, bool tf32);

// Seconds on its queue.
double seconds_of(const MachineModel&, const Workload&);

// Piecewise linear in the logarithms of both. Outside of x as at its ends; `proportional`: above
// its end, and on both sides of a single size, as many times as `at` is.
enum class Extrapolation : std::uint8_t { constant, proportional };
double interpolate(const std::vector<double>& x, const std::vector<double>& y, double at,
                   Extrapolation);

}  // namespace trireme
