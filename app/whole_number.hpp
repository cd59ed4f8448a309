#pragma once
// A check of options that are whole numbers without an upper limit.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "lib/base/text_parts.hpp"

namespace trireme {

// Returns a validator of whole numbers. Unlike that of CLI::Range, its messages do not show the
// largest number of the type.
inline CLI::Validator whole_number_from(std::int64_t least) {
  return {[=](const std::string& text) {
            return number_in<std::int64_t>(text).value_or(least - 1) >= least
                       ? std::string()
                       : fmt::format("\"{}\" is not a whole number from {} on", text, least);
          },
          fmt::format("from {} on", least)};
}

}  // namespace trireme
