#include "lib/io/hdf5_handle.hpp"

#include <string>

namespace trireme {

static herr_t append_message(unsigned, const H5E_error2_t* e, void* text) {
  auto& all = *static_cast<std::string*>(text);
  const std::string_view message = e->desc ? e->desc : "";
  if (message.empty() || all.find(message) != std::string::npos) return 0;
  if (!all.empty()) all += "; ";
  all += message;
  return 0;
}

void fail_hdf5(std::string_view call, const std::filesystem::path& file) {
  std::string messages;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, append_message, &messages);
  H5Eclear2(H5E_DEFAULT);
  fail("{} failed on {}: {}", call, file.string(), messages.empty() ? "no message" : messages);
}

void silence_hdf5() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

}  // namespace trireme
