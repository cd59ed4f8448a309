#include "lib/corpus/part_encoder.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "lib/base/error_text.hpp"
#include "lib/corpus/item_encoder.hpp"
#include "lib/corpus/item_reader.hpp"
#include "lib/corpus/ordered_pool.hpp"
#include "lib/corpus/part_file.hpp"
#include "lib/corpus/segments.hpp"
#include "lib/corpus/tokenize_settings.hpp"

namespace trireme {

namespace {

// Returns the line that follows a part. The first line of all follows the last part.
std::optional<JsonLine> line_after(const PartJob& job, std::size_t part) {
  for (std::size_t i = 1; i < job.parts.size(); ++i)
    if (auto line = first_line_of(*job.options.tokenizer, job.inputs,
                                  job.parts[(part + i) % job.parts.size()]))
      return line;
  return {};
}

bool has_lines_before(const PartJob& job, const InputSegment& s) {
  return s.begin > 0 && job.inputs[s.file].division == Division::lines;
}

// Passes the text of a part to `emit`. Returns its number of bytes.
std::int64_t read_part_text(const PartJob& job, std::size_t part, const InputPart& contents,
                            const std::function<void(TextItem)>& emit) {
  const auto add_inputs = [&](TextSource& source) {
    for (const auto& s : contents.segments) add_segment(job.options, job.inputs[s.file], s, source);
  };
  return read_items(job.options, add_inputs, emit, [&] { return line_after(job, part); });
}

// Encodes a part again, with the numbers of its lines. Returns the message of the error, or `usual`
// if there is no error this time.
std::string message_with_lines(const PartJob& job, std::size_t part, std::string usual) try {
  auto contents = job.parts[part];
  for (auto& s : contents.segments)
    if (has_lines_before(job, s)) {
      InputFile file(job.inputs[s.file].path);
      s.first_line = count_line_ends(file, 0, s.begin - 1) + 2;
    }
  const auto encode = item_encoder(job.options, job.token_bytes);
  read_part_text(job, part, contents, [&](const TextItem& item) { encode(item); });
  return usual;
} catch (const std::exception& e) {
  return error_text(e);
}

// The parts that this rank encodes at the moment. Their items pass through one pool, so that no
// thread waits at the end of a part.
class PartsWriter {
 public:
  explicit PartsWriter(const PartJob& job)
      : job_(job),
        pool_(threads_for(job.options), text_in_flight, item_encoder(job.options, job.token_bytes),
              [this](EncodedItem item) { take(std::move(item)); }) {}

  void add(std::size_t part) {
    open_.push_back({part});
    const auto bytes = read_part_text(job_, part, job_.parts[part], [&](TextItem item) {
      stop_if_asked(job_.options);
      const auto n = item.text.size();
      ++open_.back().items;
      encoding_ = true;
      pool_.add(std::move(item), n);
      encoding_ = false;
    });
    open_.back().totals.sum.bytes = bytes;
    open_.back().is_read = true;
    finish_parts();
  }
  void finish() {
    encoding_ = true;
    pool_.finish();
  }

  // Returns true if the exception that add() threw is from reading. The parts before can then be
  // finished.
  bool failed_to_read() const { return !encoding_ && !writing_; }
  // Describes an exception that add() or finish() threw.
  PartFailure failure(const std::exception& e) const {
    const auto part = encoding_ || writing_ ? open_.front().part : open_.back().part;
    auto message = error_text(e);
    const auto& segments = job_.parts[part].segments;
    const bool needs_lines =
        !writing_ && !job_.lines_are_known &&
        std::ranges::any_of(segments, [&](auto& s) { return has_lines_before(job_, s); });
    return {part, needs_lines ? message_with_lines(job_, part, message) : message};
  }

 private:
  struct OpenPart {
    std::size_t part;
    std::int64_t items = 0, done = 0;
    bool is_read = false;  // all items are counted
    TextTotals totals{};
    std::unique_ptr<PartWriter> writer{};
  };

  void take(EncodedItem item) {
    auto& o = open_.front();
    o.totals.add(job_.options, item);
    writing_ = true;
    writer(o).append(item.packed);
    writing_ = false;
    ++o.done;
    finish_parts();
  }

  PartWriter& writer(OpenPart& o) {
    if (!o.writer) o.writer = std::make_unique<PartWriter>(job_.files[o.part]);
    return *o.writer;
  }

  // Finishes the parts at the front whose items are all encoded.
  void finish_parts() {
    while (!open_.empty() && open_.front().is_read && open_.front().done == open_.front().items) {
      auto& o = open_.front();
      writing_ = true;
      writer(o).finish(o.totals);
      writing_ = false;
      open_.pop_front();
    }
  }

  const PartJob& job_;
  std::deque<OpenPart> open_;
  bool encoding_ = false, writing_ = false;  // stay true after an exception
  OrderedPool<TextItem, EncodedItem> pool_;
};

}  // namespace

std::optional<PartFailure> write_parts(const PartJob& job, std::span<const std::size_t> mine,
                                       const std::function<bool()>& stop) {
  PartsWriter writer(job);
  try {
    for (const auto part : mine) {
      if (stop()) break;
      writer.add(part);
    }
    writer.finish();
  } catch (const Stopped&) {
    return {};
  } catch (const std::exception& e) {
    const auto failure = writer.failure(e);
    if (!writer.failed_to_read()) return failure;
    try {
      writer.finish();
    } catch (const std::exception& earlier) {
      return writer.failure(earlier);
    }
    return failure;
  }
  return {};
}

}  // namespace trireme
