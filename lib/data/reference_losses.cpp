#include "lib/data/reference_losses.hpp"

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/hash.hpp"
#include "lib/data/same_files.hpp"

namespace trireme {

std::string identity_text(const TokenFile& file) {
  std::string all;
  for (const auto& [name, value] : identity_of(file)) all += name + " " + value + "\n";
  return to_string(hash128(all));
}

std::vector<double> losses_for(const ReferenceLosses& all, const TokenFile& file,
                               std::span<const PackedDocument> documents) {
  const auto name = file.path().string();
  const auto found = std::ranges::find(all.files, identity_text(file), &FileLosses::identity);
  if (found == all.files.end()) {
    std::string held;
    bool known = false;
    for (const auto& f : all.files) {
      held += (held.empty() ? "" : ", ") + f.file;
      known = known || f.file == name;
    }
    fail(
        "{} has no scores for the tokens in {}, {}: run `trireme score` to make another file of "
        "scores",
        all.source, name,
        known ? "which has changed since the scores were made" : "only for those in " + held);
  }
  const auto& begins = found->begin_D;
  std::vector<double> losses;
  for (const auto& d : documents) {
    const auto at = std::ranges::lower_bound(begins, d.begin) - begins.begin();
    const auto i = static_cast<std::size_t>(at);
    require(i < begins.size() && begins[i] == d.begin && found->inputs_D[i] == d.count,
            "{} has no score for the document that begins at token {} of {} and has {} tokens (the "
            "scores were made for samples of {} tokens). Run `trireme score` with this deck to "
            "make another file",
            all.source, d.begin, name, d.count, all.context);
    losses.push_back(found->loss_D[i]);
  }
  return losses;
}

}  // namespace trireme
