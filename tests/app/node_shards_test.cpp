// zero.shard = "node": each node has a copy. MPICH can pretend that one machine is several nodes.
#include "tests/app/grid_training.hpp"

namespace trireme {
namespace {

class NodeShards : public GridTraining {
 protected:
  // On four ranks, in two pretended nodes.
  std::string train_on_nodes(const std::string& run, const std::string& arguments,
                             const std::string& environment = "MPIR_CVAR_CLIQUES_BY_BLOCK=1") {
    return "MPIR_CVAR_NUM_CLIQUES=2 " + environment + " " +
           train({4, "zero.stage=3"}, "train.steps=3 --run-dir " + run + " " + arguments);
  }
};

TEST_F(NodeShards, AreAsLargeAsTheNode) {
  const auto nodes = here(train_on_nodes("nodes", "zero.shard=node"));
  ASSERT_EQ(nodes.code, 0) << nodes.err;
  const auto two = here(train({4, "zero.stage=3"}, "train.steps=3 --run-dir two zero.shard=2"));
  ASSERT_EQ(two.code, 0) << two.err;

  EXPECT_NE(contents_of(folder / "nodes/effective.toml").find("\nshard = 2 "), std::string::npos);
  EXPECT_EQ(losses("nodes"), losses("two"));
  // All on one node: there is one copy.
  const auto one = here(train({4, "zero.stage=3"}, "train.steps=1 --run-dir one zero.shard=node"));
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_NE(contents_of(folder / "one/effective.toml").find("\nshard = 4 "), std::string::npos);
}

TEST_F(NodeShards, NeedRanksInBlocks) {
  const auto r = here(train_on_nodes("run", "zero.shard=node", ""), 30);
  EXPECT_NE(r.code, 0);
  EXPECT_NE(r.err.find("do not follow each other"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("--distribution=block"), std::string::npos) << r.err;
}

TEST_F(NodeShards, NeedNodesAlike) {
  const auto r =
      here("MPIR_CVAR_NUM_CLIQUES=2 MPIR_CVAR_CLIQUES_BY_BLOCK=1 " +
               train({3, "zero.stage=3 train.microbatch=2"}, "--run-dir run zero.shard=node"),
           30);
  EXPECT_NE(r.code, 0);
  EXPECT_NE(r.err.find("nodes run between 1 and 2 ranks"), std::string::npos) << r.err;
}

TEST_F(NodeShards, ArePlannedForSoManyRanksANode) {
  const std::string plan = "$TRIREME plan deck.toml zero.stage=3 --ranks 4 --json ";
  const auto json = [&](const std::string& arguments) {
    const auto r = here(plan + arguments);
    EXPECT_EQ(r.code, 0) << r.err;
    return nlohmann::json::parse(r.out).at("ranks")[0];
  };
  const auto unknown = here(plan + "zero.shard=node");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("--ranks-per-node"), std::string::npos) << unknown.err;

  const auto nodes = json("zero.shard=node --ranks-per-node 2"), all = json("--ranks-per-node 2"),
             one = json("--ranks-per-node 4");
  const auto far = "sent_bytes_a_step_to_other_nodes", sent = "sent_bytes_a_step";
  EXPECT_EQ(nodes.at("reserved_bytes"), json("zero.shard=2").at("reserved_bytes"));
  EXPECT_EQ(one.at(far).at("shard"), 0);
  // Two of the three others are on the other node.
  EXPECT_EQ(3 * all.at(far).at("shard").get<double>(), 2 * all.at(sent).at("shard").get<double>());
  // Sums of the copies alone: a slice of each shard to and fro.
  EXPECT_LT(nodes.at(far).at("shard"), all.at(far).at("shard"));
  EXPECT_GT(nodes.at(far).at("shard"), 0);
  EXPECT_FALSE(json("").contains(far));
}

}  // namespace
}  // namespace trireme
