#include "app/rescued_copy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

#include "lib/base/background_work.hpp"
#include "lib/base/log.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/checkpoint_save.hpp"
#include "lib/io/rescue_choice.hpp"
#include "lib/io/shard_reader.hpp"

namespace trireme {

namespace {

namespace fs = std::filesystem;

// Calls work(i) for each index on several threads. Throws an Error of one of the calls.
void on_threads(const std::vector<std::size_t>& indices,
                const std::function<void(std::size_t)>& work) {
  constexpr std::size_t most = 8;
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (auto i = next++; i < indices.size(); i = next++) work(indices[i]);
  };
  const auto cores = std::max<std::size_t>(1, std::thread::hardware_concurrency());
  std::vector<std::unique_ptr<BackgroundWork>> threads(std::min({indices.size(), cores, most}));
  std::exception_ptr error;
  for (auto& thread : threads) {
    thread = std::make_unique<BackgroundWork>();
    try {
      thread->start(run);
    } catch (const Error&) {  // the other threads do its share
      if (&thread == &threads.front()) run();
    }
  }
  for (auto& thread : threads) {
    try {
      thread->join();
    } catch (const Error&) {
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

// Names the new checkpoint in outcome.json. The other fields still describe the start that died.
void record_rescue(const RunDirectory& directory, std::int64_t step, const fs::path& checkpoint) {
  try {
    auto outcome = directory.read_outcome();
    if (!outcome) return;
    if (outcome->status == "running") outcome->step = step;  // a failed run has the step of its end
    outcome->last_good_checkpoint = checkpoint.string();
    directory.write_outcome(*outcome);
  } catch (const Error& e) {  // the checkpoint is published
    log_warning("outcome.json does not name {}: {}", checkpoint.string(), e.what());
  }
}

}  // namespace

RescuedCopy::RescuedCopy(const Communicator& world, const NodeCopies& own, Manifest manifest)
    : world_(world),
      own_(own),
      manifest_(std::move(manifest)),
      present_(own.present(manifest_)),
      wrote_(manifest_.files.size(), '0'),
      writer_(manifest_.files.size(), -1) {}

std::string RescuedCopy::find_lost() {
  assign();
  for (std::size_t i = 0; i < writer_.size(); ++i)
    if (writer_[i] < 0 && assigned_[i] < 0) return manifest_.files[i].name;
  return {};
}

std::string RescuedCopy::write(const fs::path& partial) {
  for (auto name = find_lost();; name = find_lost()) {
    if (!name.empty()) return name;
    if (std::ranges::find(writer_, -1) == writer_.end()) return {};
    write_assigned(partial);
  }
}

void RescuedCopy::publish(const fs::path& partial, const RunDirectory* directory) {
  std::string mine;
  together(world_, Pace::slow, [&] {  // HDF5 is not thread-safe
    for (std::size_t i = 0; i < wrote_.size(); ++i)
      if (wrote_[i] == '1' && !is_tokenizer(i))
        mine += to_text(record_of_shard(partial / manifest_.files[i].name)) + "\n";
  });
  for (std::size_t i = 0; i < writer_.size(); ++i)
    if (is_tokenizer(i)) world_.broadcast(manifest_.meta.tokenizer, writer_[i]);
  const auto all = world_.all_gather(mine);
  at_root(world_, Pace::slow, [&] {
    std::vector<FileRecord> shards;
    for (const auto& texts : all) {
      std::istringstream lines(texts);
      for (std::string line; std::getline(lines, line);) shards.push_back(parse_file_record(line));
    }
    std::ranges::sort(shards, {}, &FileRecord::rank);
    const auto checkpoint = trireme::publish(directory->checkpoints(), manifest_.meta,
                                             std::move(shards), [&] { directory->require_lock(); });
    record_rescue(*directory, step(), checkpoint);
  });
}

bool RescuedCopy::is_tokenizer(std::size_t i) const {
  return manifest_.files[i].name == tokenizer_name;
}

void RescuedCopy::assign() {
  std::vector<std::int64_t> bytes;
  for (std::size_t i = 0; i < writer_.size(); ++i)
    bytes.push_back(writer_[i] < 0 ? manifest_.files[i].size : 0);
  assigned_ = writers_of(world_.all_gather(present_), bytes);
}

std::string RescuedCopy::write_one(std::size_t i, const fs::path& partial) {
  const auto& file = manifest_.files[i];
  if (!is_tokenizer(i)) return own_.copy(file, step(), partial / file.name);
  auto bytes = own_.bytes_of(file, step());
  if (!bytes) return fmt::format("no copy of {} on this node matches its hash", file.name);
  manifest_.meta.tokenizer = std::move(*bytes);
  return {};
}

void RescuedCopy::write_assigned(const fs::path& partial) {
  std::string problems;
  together(world_, Pace::slow, [&] {
    std::vector<std::size_t> mine;
    for (std::size_t i = 0; i < writer_.size(); ++i)
      if (writer_[i] < 0 && assigned_[i] == world_.rank()) mine.push_back(i);
    std::mutex mutex;
    on_threads(mine, [&](std::size_t i) {
      const auto why = write_one(i, partial);
      const std::lock_guard lock(mutex);
      (why.empty() ? wrote_[i] = '1' : present_[i] = '0');
      if (!why.empty()) problems += (problems.empty() ? "" : "\n") + why;
    });
  });
  const auto wrote = world_.all_gather(wrote_);
  for (std::size_t r = 0; r < wrote.size(); ++r)
    for (std::size_t i = 0; i < writer_.size(); ++i)
      if (wrote[r][i] == '1') writer_[i] = static_cast<int>(r);
  for (const auto& text : world_.all_gather(problems))
    if (!text.empty() && world_.rank() == 0) log_warning("{}", text);
}

}  // namespace trireme
