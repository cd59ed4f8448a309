#pragma once
// The settings that suites of parity combine: factors, each of which changes a case to one of its
// settings. The first is the grid, which others ask for.
#include <functional>
#include <vector>

#include "tests/support/covering.hpp"
#include "tests/support/parity_cases.hpp"

namespace trireme::test {

using Change = std::function<void(ParityCase&)>;
using Factor = std::vector<Change>;  // its settings

Factor grids(int ranks);
enum class Objectives : std::uint8_t { tokens, all };
std::vector<Factor> factors(int ranks, Objectives = Objectives::all);
// With every optimizer, and with what parity in f64 has suites of its own for.
std::vector<Factor> exact_factors(std::vector<Factor>);

std::vector<std::size_t> settings_of(const std::vector<Factor>&);  // how many of each
ParityCase make_case(const std::vector<Factor>&, const Choice&);
// Every setting of every `size` factors meets.
std::vector<ParityCase> covering_cases(const std::vector<Factor>&, std::size_t size);

}  // namespace trireme::test
