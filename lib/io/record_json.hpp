#pragma once
// Records of a checkpoint as JSON and back; for lib/io/manifest.cpp alone. A field that is missing,
// ill-typed or out of range is an Error that names it.
#include "lib/base/json.hpp"
#include "lib/io/checkpoint.hpp"

namespace trireme {

Json to_json(const SliceRecord&);
// `file_size` is that of the file that holds the chunks.
SliceRecord slice_from(const Json&, std::int64_t file_size);
Json to_json(const FileRecord&);
FileRecord file_from(const Json&);
Json to_json(const CheckpointMeta&);
CheckpointMeta meta_from(const Json&);

}  // namespace trireme
