// Every order in which nodes write, send, publish and retire memory copies, with a failure between
// any two of these steps, where a copy is written over the files of a retired one: what a rescue
// finds afterwards is at least the newest complete copy. The decisions are those of the program,
// the files and nodes a model.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "lib/io/copy_partners.hpp"
#include "lib/io/rescue_choice.hpp"

namespace trireme {
namespace {

constexpr int generations = 3;

enum class CopyFlaw { none, retires_first, retires_early, overwrites_newest, keeps_one_copy };

// One node with one rank. Shards are bits, by generation.
struct CopyNode {
  std::array<unsigned, generations + 1> files{};
  std::array<bool, generations + 1> published{};
};

struct CopyWorld {
  std::vector<CopyNode> nodes;
  int generation = 1;
  enum class Phase { copying, publishing, retiring } phase = Phase::copying;
  int complete = 0;  // newest generation that all nodes have published
};

class CopySearch {
 public:
  CopySearch(int nodes, CopyFlaw flaw) : flaw_(flaw), count_(nodes) {
    std::vector<int> node_of;
    for (int n = 0; n < nodes; ++n) node_of.push_back(n);
    receivers_ = copy_receivers(node_of);
    if (flaw == CopyFlaw::keeps_one_copy) receivers_.assign(receivers_.size(), -1);
    CopyWorld first;
    first.nodes.resize(static_cast<std::size_t>(nodes));
    visit(first);
  }
  const std::string& wrong() const { return wrong_; }
  std::size_t states() const { return seen_.size(); }

 private:
  using Phase = CopyWorld::Phase;

  static std::string key_of(const CopyWorld& w) {
    std::string key{static_cast<char>(w.generation), static_cast<char>(w.phase),
                    static_cast<char>(w.complete)};
    for (const auto& n : w.nodes)
      for (int g = 1; g <= generations; ++g) {
        key += static_cast<char>(n.files[std::size_t(g)]);
        key += static_cast<char>(n.published[std::size_t(g)]);
      }
    return key;
  }

  // What the node holds of a generation once it has everything.
  unsigned all_of(int node) const {
    unsigned bits = 1u << node;
    for (int r = 0; r < count_; ++r)
      if (receivers_[std::size_t(r)] == node) bits |= 1u << r;
    return bits;
  }

  // The generation that a rescue on all nodes but `lost` finds, or 0.
  int rescued(const CopyWorld& w, int lost) const {
    std::vector<std::vector<CopyClaim>> claims;
    std::vector<const CopyNode*> left;
    for (int n = 0; n < count_; ++n) {
      if (n == lost) continue;
      left.push_back(&w.nodes[std::size_t(n)]);
      claims.emplace_back();
      for (int g = 1; g <= generations; ++g)
        if (left.back()->published[std::size_t(g)])
          claims.back().push_back({g, hash128(std::to_string(g))});
    }
    const std::vector<std::int64_t> bytes(std::size_t(count_), 1);
    for (const auto& candidate : candidates_of(claims)) {
      const auto g = static_cast<std::size_t>(candidate.copy.step);
      std::vector<std::string> intact;
      for (const auto* node : left) {
        intact.emplace_back();
        for (int r = 0; r < count_; ++r)
          intact.back() += node->published[g] && (node->files[g] >> r & 1u) ? '1' : '0';
      }
      const auto writers = writers_of(intact, bytes);
      if (std::ranges::find(writers, -1) == writers.end()) return static_cast<int>(g);
    }
    return 0;
  }

  void check(const CopyWorld& w) {
    for (int lost = -1; lost < count_; ++lost)
      if (const int found = rescued(w, lost); found < w.complete)
        wrong_ = "generation " + std::to_string(w.complete) + " was complete, but without node " +
                 std::to_string(lost) + " a rescue finds " + std::to_string(found);
    for (const auto& n : w.nodes)  // of each shard, a node has at most two files
      for (int r = 0; r < count_; ++r) {
        int held = 0;
        for (int g = 1; g <= generations; ++g) held += (n.files[std::size_t(g)] >> r & 1u) != 0;
        if (held > memory_copies_at_a_time) wrong_ = "a node holds too many copies";
      }
  }

  void visit(const CopyWorld& w) {
    if (!wrong_.empty() || !seen_.insert(key_of(w)).second) return;
    check(w);
    const auto g = std::size_t(w.generation);
    bool whole = true, published = true, retired = true;
    for (int n = 0; n < count_; ++n) {
      const auto& node = w.nodes[std::size_t(n)];
      whole = whole && node.files[g] == all_of(n);
      published = published && node.published[g];
      for (std::size_t old = 1; old < g; ++old) retired = retired && !node.published[old];
      write_and_receive(w, n);
      if (!node.published[g] && w.phase == Phase::publishing) {
        auto next = w;
        next.nodes[std::size_t(n)].published[g] = true;
        visit(next);
      }
      if (w.phase == Phase::retiring ||
          (flaw_ == CopyFlaw::retires_first && w.phase == Phase::copying) ||
          (flaw_ == CopyFlaw::retires_early && node.published[g])) {
        auto next = w;
        for (std::size_t old = 1; old < g; ++old) next.nodes[std::size_t(n)].published[old] = false;
        visit(next);
      }
    }
    // What all nodes agree on.
    auto next = w;
    if (w.phase == Phase::copying && whole) {
      next.phase = Phase::publishing;
      visit(next);
    } else if (w.phase == Phase::publishing && published) {
      next.phase = Phase::retiring;
      next.complete = w.generation;
      visit(next);
    } else if (w.phase == Phase::retiring && retired && w.generation < generations) {
      next.phase = Phase::copying;
      ++next.generation;
      visit(next);
    }
  }

  void write_and_receive(const CopyWorld& w, int n) {
    if (w.phase != Phase::copying) return;
    const auto g = std::size_t(w.generation);
    // The generation whose files become those of this one.
    const auto spare = g - (flaw_ == CopyFlaw::overwrites_newest ? 1 : 2);
    const auto add = [&](unsigned bit) {
      if (w.nodes[std::size_t(n)].files[g] & bit) return;
      auto next = w;
      auto& files = next.nodes[std::size_t(n)].files;
      files[g] |= bit;
      if (spare >= 1 && spare < g) files[spare] &= ~bit;
      visit(next);
    };
    add(1u << n);
    for (int r = 0; r < count_; ++r) {
      const bool written = (w.nodes[std::size_t(r)].files[g] >> r & 1u) != 0;
      if (receivers_[std::size_t(r)] == n && written) add(1u << r);
    }
  }

  CopyFlaw flaw_;
  int count_;
  std::vector<int> receivers_;
  std::set<std::string> seen_;
  std::string wrong_;
};

TEST(CopyModel, NoFailureOfOneNodeLosesACompleteCopy) {
  for (const int nodes : {2, 3, 4}) {
    const CopySearch search(nodes, CopyFlaw::none);
    EXPECT_EQ(search.wrong(), "") << nodes << " nodes";
    EXPECT_GT(search.states(), 30u) << nodes << " nodes";
  }
}

// A model that finds nothing proves nothing.
TEST(CopyModel, FindsWhatIsWrongWithOtherRules) {
  for (const auto flaw : {CopyFlaw::retires_first, CopyFlaw::retires_early,
                          CopyFlaw::overwrites_newest, CopyFlaw::keeps_one_copy})
    EXPECT_NE(CopySearch(3, flaw).wrong(), "") << static_cast<int>(flaw);
}

}  // namespace
}  // namespace trireme
