#pragma once
// All weights of a store by their names.
#include <map>
#include <string>
#include <vector>

#include "tests/support/tiny.hpp"

namespace trireme::test {

// All parameters of an f64 store, by name.
using Weights = std::map<std::string, std::vector<double>>;
inline Weights weights_of(Store& store) {
  Weights all;
  for (std::size_t i = 0; i < store.spec().params.size(); ++i)
    all[store.spec().params[i].name] = read<double>(store, ParamId::at(i));
  return all;
}
inline void write_all(Store& store, const Weights& weights) {
  for (std::size_t i = 0; i < store.spec().params.size(); ++i)
    write<double>(store, ParamId::at(i), weights.at(store.spec().params[i].name));
}

}  // namespace trireme::test
