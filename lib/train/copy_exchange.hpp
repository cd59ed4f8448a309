#pragma once
// One rank's part in a memory copy: writes its shard into the memory of its node, sends the file to
// a rank on another node, and keeps the shards that it receives from ranks there.
//
// Nothing here is collective. The rank advances in poll(), which the progress engine calls between
// ops and during waits, and files are written and hashed on threads. A copy can therefore complete
// within one step of training. For each shard, the two ranks exchange these messages:
//
//   header   to the receiver: size and hash of the file, and the number of its ranges that differ
//            from the older file that it overwrites. A size of -1 says that the shard could not be
//            written, and 0 that the rank has none. Nothing follows in these two cases
//   reply    to the sender: whether the receiver has reserved memory for the file, and whether it
//            overwrites an older file of the same size
//   ranges   to the receiver: the ranges that differ, if it does
//   data     to the receiver: these ranges, or the whole file
//
// Weights that are not trained are thus sent once, and not again with each copy.
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/background_work.hpp"
#include "lib/base/byte_range.hpp"
#include "lib/base/mapped_file.hpp"
#include "lib/comm/byte_message.hpp"
#include "lib/io/checkpoint.hpp"

namespace trireme {

// The ranks with which a rank exchanges shards.
struct CopyPeers {
  int receiver = -1;         // keeps the copy of this rank's shard; -1 means none
  std::vector<int> senders;  // whose shards this rank keeps
};

// Exchanges the shards of one memory copy after another.
class CopyExchange {
 public:
  // `channel` must carry nothing else.
  CopyExchange(Communicator channel, CopyPeers);
  // Waits for threads. If messages are in flight, keeps their memory until the process ends.
  ~CopyExchange();

  // A shard in the directory of the copy: its record, with the hash of all its bytes, the file, and
  // the ranges of the file that differ from the older file that it overwrites. The receiver has a
  // copy of the older file, unless the ranges are the whole file.
  struct WrittenShard {
    FileRecord record;
    std::unique_ptr<MappedFile> file;
    std::vector<ByteRange> changed;
  };
  // Writes a rank's shard into the directory of the copy. Runs on a thread. Returns nullopt if the
  // rank has no shard.
  using Write = std::function<std::optional<WrittenShard>()>;
  // Begins a copy in the directory `partial`. working() must be false. Never throws: failures are
  // in failure().
  void begin(std::filesystem::path partial, Write);
  // Advances without blocking. Does nothing if no copy is in progress.
  void poll() noexcept;
  // Returns true while this rank writes, sends, receives or checks. Throws Error if a message
  // failed, after which no copy is possible.
  bool working() const;

  // The results, once working() returns false. `own` is the record of this rank's shard.
  // `not_finite` names an array of this rank that is infinite or NaN. `failure` says why this
  // rank's part failed. The texts are empty if there was no such problem.
  const std::optional<FileRecord>& own() const { return own_; }
  const std::string& not_finite() const { return not_finite_; }
  std::string failure() const;
  // Returns how many bytes of its shard this rank has sent.
  std::int64_t sent() const { return sent_; }
  // Describes what this rank still works on, for the error message of a wait that takes too long.
  std::string state() const;

 private:
  using Header = std::array<std::int64_t, 4>;  // size, the two halves of the hash, ranges
  template <class Stage>
  struct Transfer;
  struct Outgoing;
  struct Incoming;

  void end_writing();
  void advance_outgoing();
  void advance(Incoming&) const;

  Communicator channel_;
  CopyPeers peers_;
  std::filesystem::path partial_;
  std::unique_ptr<Outgoing> outgoing_;
  std::vector<std::unique_ptr<Incoming>> incoming_;
  std::string broken_;  // the error of a message
  std::optional<FileRecord> own_;
  std::string not_finite_, failure_;
  std::int64_t sent_ = 0;
  BackgroundWork writer_;  // declared last, so that it ends before the members it uses
};

}  // namespace trireme
