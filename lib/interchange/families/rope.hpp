#pragma once
// Rotary settings in config.json. Version 4 of transformers has rope_theta beside rope_scaling.
// Version 5 has all settings in rope_parameters. If a file has both objects, both versions use
// rope_scaling and ignore the other.
#include <string>

#include "lib/interchange/config_archive.hpp"

namespace trireme {

// How the class of a family reads rotary settings.
struct RopeRule {
  // Base of the frequencies if the file does not contain it.
  double theta = 10000;
  // Fraction of each head's channels that rotate if the file does not contain it. 0 means that the
  // class always rotates all channels.
  double rotary_fraction = 0;
  // Scaling if the file contains neither rope_scaling nor rope_parameters. Null means no scaling.
  const Json* scaling = nullptr;
};

// Reads or writes the rotary settings of all blocks. The sizes of the model must already be set.
void rope_config(ConfigArchive&, ModelConfig&, const RopeRule& = {});

// The next two functions read or write the settings of families whose layers with a window have
// unscaled rotary positions with a base of their own. In version 5, rope_parameters contains one
// object for layers with a window and one for the others.

// For families whose files of version 4 contain the base for layers with a window as `window_key`.
// `window_theta` is this base if the file does not contain it.
void rope_by_layer_config(ConfigArchive&, ModelConfig&, const RopeRule&, const char* window_key,
                          double window_theta);
// For families that use rope_theta in all layers in version 4. `theta` is the value of both bases
// if the file does not contain them. If the two bases differ, version 4 cannot read the written
// settings.
void rope_by_type_config(ConfigArchive&, ModelConfig&, double theta);

}  // namespace trireme
