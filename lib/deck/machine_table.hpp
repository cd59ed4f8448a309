#pragma once
// The keys of a machine file, row by row: what each takes and where it goes.
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "lib/predict/machine.hpp"

namespace trireme {

// A machine as it is read: lists are gathered here until their section ends.
struct MachineBuilder {
  MachineModel machine;
  ProductRates product;
  AttentionRates attention;
  OperationSeconds operation;
};

using MachineValue = std::variant<std::string, double, std::vector<double>>;

// What a key takes.
enum class Takes : std::uint8_t { text, flag, number, count, ascending, list };

enum class Presence : std::uint8_t { required, optional };
enum class Times : std::uint8_t { once, many };  // [name], [[name]]

struct MachineKey {
  std::string name;
  Takes takes;
  std::string meaning;
  Presence presence;
  // Error (without a place) for a value that is none of the key's.
  std::function<void(MachineBuilder&, const MachineValue&)> set;
};

struct MachineSection {
  std::string name;
  std::string meaning;
  Times times;
  std::vector<MachineKey> keys;
};

const std::vector<MachineSection>& machine_sections();
// "a whole number".
std::string kind_text(Takes);

}  // namespace trireme
