#pragma once
#include <filesystem>

namespace trireme::test {

// The source tree's root. __FILE__ does not serve: compilers and caches may make it relative.
std::filesystem::path source_dir();

}  // namespace trireme::test
