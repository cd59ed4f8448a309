#pragma once
// Converts checkpoint records to JSON and back. Only lib/io/manifest.cpp uses this header. The
// functions throw Error, naming the field, if a field is missing, has the wrong type or is out of
// range.
#include "lib/base/json.hpp"
#include "lib/io/checkpoint.hpp"

namespace trireme {

Json to_json(const SliceRecord&);
// Parses a slice record. `file_size` is the size of the file that contains the chunks.
SliceRecord slice_from(const Json&, std::int64_t file_size);
Json to_json(const FileRecord&);
FileRecord file_from(const Json&);
Json to_json(const CheckpointMeta&);
CheckpointMeta meta_from(const Json&);

}  // namespace trireme
