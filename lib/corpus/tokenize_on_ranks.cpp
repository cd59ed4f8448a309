#include "lib/corpus/tokenize_on_ranks.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"
#include "lib/base/hash.hpp"
#include "lib/base/log.hpp"
#include "lib/base/seconds.hpp"
#include "lib/corpus/part_encoder.hpp"
#include "lib/corpus/part_file.hpp"
#include "lib/corpus/part_folder.hpp"
#include "lib/corpus/segments.hpp"
#include "lib/corpus/token_writer.hpp"
#include "lib/corpus/tokenize_settings.hpp"

namespace trireme {

namespace fs = std::filesystem;

namespace {

std::vector<ListedFile> listed_inputs(const TokenizeOptions& o) {
  std::vector<ListedFile> inputs;
  for (const auto& path : input_text_files(o))
    inputs.push_back({path, path == "-" ? FileStamp{} : stamp_of(path)});
  return inputs;
}

// Returns where an input that is not compressed may be divided. A document of text may be divided
// if neither the ids nor the number of separators in it can depend on the place.
Division division_of(const TokenizeOptions& o, const std::string& path) {
  if (holds_json_lines(o, path)) return Division::lines;
  const auto kind = o.tokenizer->spec().kind;
  const bool cuts = kind == TokenizerKind::huggingface || kind == TokenizerKind::bytes;
  const bool own_separator = !o.separator || o.separator == o.tokenizer->separator();
  return cuts && own_separator && o.format != InputFormat::text ? Division::text : Division::none;
}

std::int64_t bytes_of(const std::vector<ListedFile>& inputs) {
  std::int64_t total = 0;
  for (const auto& i : inputs) total += std::max<std::int64_t>(i.stamp.size, 0);
  return total;
}

// Runs `work` on rank 0. If it throws Stopped, all ranks throw StoppedJob. Collective.
void at_root_unless_stopped(const Communicator& world, const std::function<void()>& work) {
  std::string reason;
  at_root(world, Pace::slow, [&] {
    try {
      work();
    } catch (const Stopped& stop) {
      reason = stop.what();
    }
  });
  world.broadcast(reason);
  if (!reason.empty()) throw StoppedJob(reason);
}

class RanksJob {
 public:
  RanksJob(const Communicator& world, const TokenizeOptions& options)
      : world_(world), o_(options), job_{options} {}

  TokenizeSummary run() {
    const auto begin = std::chrono::steady_clock::now();
    agree_on_inputs();
    if (has_mask(o_)) number_lines();
    TextTotals totals;
    try {
      open_folder();
      encode(missing_parts());
      at_root_unless_stopped(world_, [&] { totals = join(); });
    } catch (const SharedError&) {
      if (folder_) folder_->keep_parts();
      throw;
    }
    auto& sum = totals.sum;
    sum.files = std::ssize(job_.inputs);
    sum.vocab = vocab_;
    sum.seconds = seconds_since(begin);
    return sum;
  }

 private:
  // Lists the inputs on rank 0, and divides them on all ranks.
  void agree_on_inputs() {
    std::string listed, settings;
    together(world_, Pace::slow, [&] {
      check_options(o_);
      vocab_ = o_.vocab.value_or(o_.tokenizer->vocab());
      job_.token_bytes = token_bytes_for(vocab_);
      settings = settings_text(o_);
    });
    const auto all = world_.all_gather(to_string(hash128(settings)));
    const auto other = std::ranges::find_if(all, [&](const auto& h) { return h != all[0]; });
    if (other != all.end())
      throw SharedError(fmt::format(
          "rank {} has another tokenizer, chat template or version of Trireme than rank 0: give "
          "all nodes the same files",
          other - all.begin()));
    std::string size;
    at_root(world_, Pace::slow, [&] {
      require_replaceable(o_.output, o_.existing);
      auto inputs = listed_inputs(o_);
      const auto part = o_.part_bytes > 0 ? o_.part_bytes : part_bytes_for(bytes_of(inputs));
      for (auto& i : inputs)
        if (i.stamp.size > part && !InputFile(i.path, Packed::unpacked).is_unpacked())
          i.division = division_of(o_, i.path);
      listed = text_of(inputs);
      size = std::to_string(part);
    });
    world_.broadcast(listed);
    world_.broadcast(size);
    job_.inputs = listed_files_of(listed);
    job_.parts = parts_of(job_.inputs, std::stoll(size));
    settings_ = std::move(settings);
    list_hash_ = to_string(hash128(listed));
  }

  // Counts the lines before each segment. Warnings about conversations and pairs name their lines.
  void number_lines() {
    std::vector<InputSegment*> ranges;
    for (auto& part : job_.parts)
      for (auto& s : part.segments)
        if (s.is_range) ranges.push_back(&s);
    std::vector<double> ends(ranges.size(), 0);
    together(world_, Pace::slow, [&] {
      for (std::size_t i = 0; i < ranges.size() && stop_reason(o_).empty(); ++i)
        if (static_cast<int>(i % static_cast<std::size_t>(world_.size())) == world_.rank())
          ends[i] = static_cast<double>(line_ends_of(job_.inputs[ranges[i]->file], *ranges[i]));
    });
    stop_if_a_rank_is_asked();
    world_.all_reduce(ends);
    std::int64_t before = 0;  // line ends in the file before a range
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      if (ranges[i]->begin == 0) before = 0;
      if (ranges[i]->begin > 0) ranges[i]->first_line = before + 2;
      before += static_cast<std::int64_t>(ends[i]);
    }
    job_.lines_are_known = true;
  }

  void open_folder() {
    std::string id;
    at_root(world_, Pace::slow, [&] { id = folder_.emplace(o_.output).id(); });
    world_.broadcast(id);
    path_ = part_folder_of(o_.output);
    together(world_, Pace::slow, [&] { require_shared_folder(path_, id); });
    for (const auto& part : job_.parts) job_.files.push_back(path_ / part_name(key_of(part)));
  }

  // Returns the name of a part's file: a hash of everything that decides its tokens.
  std::string key_of(const InputPart& part) const {
    auto text = settings_;
    for (const auto& s : part.segments)
      text += fmt::format("{}\n{} {} {}\n", text_of({&job_.inputs[s.file], 1}), s.begin, s.end,
                          s.first_line);
    // The mismatched answer of the last line is in another part.
    if (o_.documents == Documents::labeled) text += list_hash_;
    return to_string(hash128(text));
  }

  std::vector<std::size_t> missing_parts() {
    std::string there(job_.parts.size(), '0');
    at_root(world_, Pace::slow, [&] {
      const auto entries = entries_of(path_);
      for (std::size_t i = 0; i < there.size(); ++i)
        if (!job_.parts[i].is_stream && std::ranges::binary_search(entries, job_.files[i]) &&
            part_totals(job_.files[i]))
          there[i] = '1';
      const auto others = std::ranges::count_if(entries, [&](const auto& entry) {
        return is_finished_part(entry) && std::ranges::find(job_.files, entry) == job_.files.end();
      });
      if (others > 0)
        log_warning(
            "{} of an earlier job in {} fit neither these options nor these inputs. This job does "
            "not use them, and removes them at its end",
            counted(others, "finished part"), path_.string());
      if (const auto n = std::ranges::count(there, '1'); n > 0)
        log_info("continuing an earlier job: {} of {} are finished", n,
                 counted(std::ssize(there), "part"));
    });
    world_.broadcast(there);
    std::vector<std::size_t> missing;
    for (std::size_t i = 0; i < there.size(); ++i)
      if (there[i] == '0') missing.push_back(i);
    return missing;
  }

  void encode(const std::vector<std::size_t>& missing) {
    const auto rank_of = ranks_of(job_.parts, missing, world_.size());
    std::vector<std::size_t> mine;
    for (std::size_t i = 0; i < missing.size(); ++i)
      if (rank_of[i] == world_.rank()) mine.push_back(missing[i]);
    std::optional<PartFailure> failure;
    together(world_, Pace::slow, [&] {
      failure = write_parts(job_, mine, [&] { return end_is_announced(path_); });
      if (failure || !stop_reason(o_).empty()) announce_end(path_);
    });
    const auto all = world_.all_gather(
        failure ? fmt::format("{:020}{}", failure->part, failure->message) : std::string());
    std::string first;
    for (const auto& text : all)
      if (!text.empty() && (first.empty() || text < first)) first = text;
    constexpr std::size_t digits = 20;
    if (!first.empty()) throw SharedError(first.substr(digits));
    stop_if_a_rank_is_asked();
  }

  void stop_if_a_rank_is_asked() const {
    for (const auto& reason : world_.all_gather(stop_reason(o_)))
      if (!reason.empty()) throw StoppedJob(reason);
  }

  // Joins the parts to the token file.
  TextTotals join() {
    TextTotals totals;
    for (const auto& file : job_.files) {
      const auto part = part_totals(file);
      require(part.has_value(), "{} is missing or damaged: run the same command again",
              file.string());
      totals.add(*part);
    }
    require_useful(o_, totals);
    TokenWriter writer(o_.output, o_.existing, job_.token_bytes,
                       has_mask(o_) ? TargetMask::present : TargetMask::absent);
    for (const auto& file : job_.files)
      read_part(file, job_.token_bytes, [&](const PackedTokens& t) {
        stop_if_asked(o_);
        writer.append(t);
      });
    require(writer.count() == totals.sum.tokens,
            "the parts in {} do not fit together: remove this folder, and run the same command "
            "again",
            path_.string());
    writer.finish(vocab_, o_.separator, totals.sum.documents, stored_tokenizer(o_), o_.documents);
    try {
      folder_->remove();
    } catch (const Error& e) {
      log_warning("{} is complete, but {}", o_.output.string(), e.what());
    }
    return totals;
  }

  const Communicator& world_;
  const TokenizeOptions& o_;
  PartJob job_;
  std::int64_t vocab_ = 0;
  std::string settings_, list_hash_;
  fs::path path_;
  std::optional<PartFolder> folder_;  // on rank 0
};

}  // namespace

// Parts cost time and double the space, so a single rank makes them only on request, or continues
// those of an earlier job.
static bool has_parts(const Communicator& world, const TokenizeOptions& o) {
  check_options(o);
  if (imports_ids(o)) return false;
  return world.size() > 1 || o.part_bytes > 0 || is_there(part_folder_of(o.output));
}

TokenizeSummary tokenize_on_ranks(const Communicator& world, const TokenizeOptions& options) {
  bool parts = false;
  together(world, Pace::slow, [&] { parts = has_parts(world, options); });
  if (parts) return RanksJob(world, options).run();
  TokenizeSummary sum;
  at_root_unless_stopped(world, [&] { sum = tokenize(options); });
  return sum;
}

}  // namespace trireme
