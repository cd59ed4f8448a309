#include "lib/comm/agree.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace trireme {

void together(const Communicator& world, const std::function<void()>& work) {
  std::string mine;
  try {
    work();
  } catch (const std::exception& e) {
    if (world.size() == 1) throw SharedError(e.what());
    mine = e.what();
    if (mine.empty()) mine = "an error without a message";
  }
  if (world.size() == 1) return;
  const auto said = world.all_gather(mine);
  std::vector<std::string> seen;
  std::string text;
  for (std::size_t r = 0; r < said.size(); ++r) {
    if (said[r].empty() || std::ranges::find(seen, said[r]) != seen.end()) continue;
    const auto times = std::ranges::count(said, said[r]);
    const auto who = times == world.size() ? std::string() : fmt::format("rank {}: ", r);
    text += (text.empty() ? "" : "\n") + who + said[r];
    seen.push_back(said[r]);
  }
  if (!text.empty()) throw SharedError(text);
}

void at_root(const Communicator& world, const std::function<void()>& work) {
  std::string why;
  double failed = 0;
  if (world.rank() == 0) {
    try {
      work();
    } catch (const std::exception& e) {
      failed = 1;
      why = e.what();
    }
  }
  world.all_reduce_max({&failed, 1});
  if (failed == 0) return;
  world.broadcast(why);
  throw SharedError(why);
}

}  // namespace trireme
