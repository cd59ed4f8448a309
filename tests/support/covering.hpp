#pragma once
// Few choices among many settings, in which those of every few factors meet.
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace trireme::test {

using Choice = std::vector<std::size_t>;  // of a setting, by factor

// Every choice there is, in the order of an odometer. `settings`: how many each factor has.
void for_each_choice(std::span<const std::size_t> settings,
                     const std::function<void(const Choice&)>&);

// Every setting of every `size` factors from `first` on meets at least once.
std::vector<Choice> covering_choices(std::span<const std::size_t> settings, std::size_t size,
                                     std::size_t first);

}  // namespace trireme::test
