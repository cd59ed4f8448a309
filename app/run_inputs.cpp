#include "app/run_inputs.hpp"

#include <string>
#include <string_view>
#include <system_error>
#include <variant>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/deck/table.hpp"
#include "lib/io/run_files.hpp"
#include "lib/train/objective.hpp"

namespace trireme {

namespace fs = std::filesystem;

namespace {

// Returns the path without links, because the name of a link does not show where its target is.
fs::path place_of(const fs::path& path) {
  std::error_code e;
  const auto place = fs::weakly_canonical(path, e);
  return e ? path : place;
}

bool is_within(const fs::path& place, const fs::path& folder) {
  const auto rest = place.lexically_relative(folder);
  return !rest.empty() && *rest.begin() != "..";
}

std::vector<std::string> paths_in(const KeyValue& value) {
  if (const auto* const one = std::get_if<std::string>(&value)) return {*one};
  if (const auto* const all = std::get_if<std::vector<std::string>>(&value)) return *all;
  return {};
}

bool names_paths(const Key& key) {
  return key.kind == ValueKind::path || key.kind == ValueKind::paths ||
         key.kind == ValueKind::fraction_or_paths;
}

}  // namespace

void require_inputs_survive_overwrite(const fs::path& deck_file, const Deck& deck,
                                      const fs::path& run) {
  if (!is_there(run)) return;
  std::vector<fs::path> removed;
  for (const auto& path : files_of_run(run).entries) removed.push_back(place_of(path));
  const auto whole = place_of(run);
  const auto require_kept = [&](std::string_view what, const fs::path& path) {
    if (path.empty()) return;
    const auto place = place_of(path);
    for (const auto& own : removed)
      require(place != whole && !is_within(place, own),
              "--overwrite would remove {}, which this run reads as {}. Nothing was removed: use "
              "another --run-dir, or copy it elsewhere first",
              path.string(), what);
  };
  require_kept("the deck", deck_file);
  for (const auto& section : deck_sections()) {
    for (const auto& key : section.keys)
      for (std::size_t row = 0; names_paths(key) && row < section.rows(deck); ++row)
        for (const auto& path : paths_in(key.access.get(deck, row))) require_kept(key.path(), path);
  }
}

void require_teacher_of_another_run(const Deck& deck, const fs::path& run) {
  require(traits_of(deck.train.objective).fixed != FixedModel::teacher ||
              !is_within(place_of(deck.distill.teacher), place_of(run / "checkpoints")),
          "distill.teacher: {} is a checkpoint of this run, which removes its older checkpoints. "
          "Use another --run-dir, or copy the teacher elsewhere",
          deck.distill.teacher);
}

}  // namespace trireme
