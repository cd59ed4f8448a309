#pragma once
// What a fixed model makes of the documents of token files: the reference of preferences
// (lib/train/preference.hpp), computed once and kept in a file (lib/io/scores_file.hpp).
//   D documents
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/data/packing.hpp"
#include "lib/data/token_file.hpp"

namespace trireme {

// Of one token file, by its documents' begins, ascending.
struct FileLosses {
  std::string file;                             // as it was named
  std::string identity;                         // identity_text of it
  std::vector<std::int64_t> begin_D, inputs_D;  // as of PackedDocument
  std::vector<double> loss_D;  // minus the log-probability of the targets that count, natural
  bool operator==(const FileLosses&) const = default;
};

struct ReferenceLosses {
  std::string source;        // the file of them, for messages
  std::string model;         // identity_of_weights of the checkpoint
  std::string checkpoint;    // where it was
  std::string compute;       // name of the type that it was computed in
  std::int64_t context = 0;  // tokens of a sample: longer pairs have no scores
  std::vector<FileLosses> files;
  bool operator==(const ReferenceLosses&) const = default;
};

// A hash of what identity_of says (lib/data/same_files.hpp).
std::string identity_text(const TokenFile&);

// The losses of these documents of a file. Throws Error where there is none of this file, with what
// it holds, or of one of them.
std::vector<double> losses_for(const ReferenceLosses&, const TokenFile&,
                               std::span<const PackedDocument>);

}  // namespace trireme
