#include "lib/launch/ucx.hpp"

#include "lib/base/early_settings.hpp"

namespace trireme::launch {

void reexec_with_ucx_settings(char** argv) {
  start_again_with({{"UCX_HANDLE_ERRORS", "none"}, {"UCX_LOG_FILE", "stderr"}}, argv);
}

}  // namespace trireme::launch
