#pragma once
// ShardedModel: the parts of a Store that updates of matrices use.
#include "lib/shard/gradients.hpp"
#include "lib/shard/layout.hpp"
#include "lib/shard/sharding.hpp"
#include "lib/shard/shards.hpp"

namespace trireme {

// Copies share the references, whose targets must outlive all of them.
struct ShardedModel {
  Backend& backend;
  const ModelSpec& spec;
  const Layout& layout;
  const Sharding& sharding;
  const Shards& shards;
  const GradientSums& gradients;
};

}  // namespace trireme
