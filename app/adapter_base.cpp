#include "app/adapter_base.hpp"

#include "lib/base/error.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/train/state.hpp"

namespace trireme {

CheckpointReader open_adapter_base(const Deck& deck, const CheckpointMeta* adapters) {
  const auto& from = deck.model.init_from;
  require(!from.empty(),
          "adapter.rank = {}: adapters stand beside weights that are there; name their checkpoint "
          "with model.init_from",
          deck.model.adapter.rank);
  CheckpointReader base(find_checkpoint(from));
  require_base(base, deck.model);
  const auto here = to_string(base.identity_of_weights());
  require(!adapters || adapters->extra.base == here,
          "{} is not what these adapters were trained beside: its weights are {}, theirs {}; name "
          "the right checkpoint with model.init_from",
          base.directory().string(), here, adapters ? adapters->extra.base : "");
  return base;
}

}  // namespace trireme
