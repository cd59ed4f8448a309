#include "lib/io/stored_doubles.hpp"

#include <span>

#include "lib/base/array_names.hpp"
#include "lib/base/error.hpp"

namespace trireme {

DType stored_type(const CheckpointReader& reader) {
  const auto& params = reader.params();
  require(!params.empty(), "{} contains no parameters", reader.directory().string());
  for (const auto& p : params)
    require(p.dtype == params[0].dtype,
            "{} stores {} as {} but {} as {}; all parameters must have the same type",
            reader.directory().string(), params[0].name, name_of(params[0].dtype), p.name,
            name_of(p.dtype));
  return params[0].dtype;
}

template <class T>
static std::vector<double> read_as(CheckpointReader& reader, const std::string& param,
                                   std::int64_t begin, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  reader.read(param, weights_array, begin, count, std::as_writable_bytes(std::span(values)));
  return {values.begin(), values.end()};
}

std::vector<double> read_doubles(CheckpointReader& reader, const std::string& param,
                                 std::int64_t begin, std::int64_t count) {
  return stored_type(reader) == DType::f64 ? read_as<double>(reader, param, begin, count)
                                           : read_as<float>(reader, param, begin, count);
}

}  // namespace trireme
