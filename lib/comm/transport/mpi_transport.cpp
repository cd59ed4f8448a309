#include "lib/comm/transport/mpi_transport.hpp"

#include <mpi.h>

#include <string>
#include <vector>

#include "lib/base/error.hpp"

namespace trireme::transport {
namespace {

constexpr int all_ranks = -1, no_size = -1;

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

void check(int code, const char* call) {
  if (code != MPI_SUCCESS) fail("{} failed: {}", call, text_of(code));
}

class MpiTransport final : public HostTransport {
 public:
  explicit MpiTransport(MPI_Comm comm) : comm_(comm) {
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  }
  ~MpiTransport() override {
    int over = 0;
    if (MPI_Finalized(&over) == MPI_SUCCESS && !over) MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Request send(int to, int tag, std::span<const std::byte> bytes) override {
    return post("MPI_Isend", to, no_size, [&](Slot& s) {
      return MPI_Isend(bytes.data(), count(bytes.size()), MPI_BYTE, to, tag, comm_, &s.request);
    });
  }
  Request receive(int from, int tag, std::span<std::byte> bytes) override {
    return post("MPI_Irecv", from, count(bytes.size()), [&](Slot& s) {
      return MPI_Irecv(bytes.data(), s.expected, MPI_BYTE, from, tag, comm_, &s.request);
    });
  }
  Request broadcast(int root, std::span<std::byte> bytes) override {
    return post("MPI_Ibcast", root, no_size, [&](Slot& s) {
      return MPI_Ibcast(bytes.data(), count(bytes.size()), MPI_BYTE, root, comm_, &s.request);
    });
  }
  Request all_reduce(Reduction how, std::span<double> x) override {
    return post("MPI_Iallreduce", all_ranks, no_size, [&](Slot& s) {
      return MPI_Iallreduce(MPI_IN_PLACE, x.data(), count(x.size()), MPI_DOUBLE,
                            how == Reduction::sum ? MPI_SUM : MPI_MAX, comm_, &s.request);
    });
  }
  Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                     std::span<const int> bytes) override {
    count(all.size());  // checks that the last offset fits into an int
    return post("MPI_Iallgatherv", all_ranks, no_size, [&](Slot& s) {
      s.counts.assign(bytes.begin(), bytes.end());
      s.offsets.assign(1, 0);
      for (const int n : bytes) s.offsets.push_back(s.offsets.back() + n);
      return MPI_Iallgatherv(mine.data(), count(mine.size()), MPI_BYTE, all.data(), s.counts.data(),
                             s.offsets.data(), MPI_BYTE, comm_, &s.request);
    });
  }

  std::optional<int> arrived(int tag) override {
    int there = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_, &there, &status), "MPI_Iprobe");
    return there ? std::optional(status.MPI_SOURCE) : std::nullopt;
  }

  bool test(Request r) override {
    auto& s = slots_[static_cast<std::size_t>(r)];
    int done = 0;
    MPI_Status status;
    const int code = MPI_Test(&s.request, &done, &status);
    if (code != MPI_SUCCESS) fail("{}{} failed: {}", s.call, with(s), text_of(code));
    if (!done) return false;
    if (s.expected != no_size) {
      int arrived = 0;
      check(MPI_Get_count(&status, MPI_BYTE, &arrived), "MPI_Get_count");
      require(arrived == s.expected,
              "a message of {} bytes arrived from rank {}, but {} bytes were expected. To compare "
              "the operations of the ranks, set run.debug = true",
              arrived, s.peer, s.expected);
    }
    free_.push_back(static_cast<std::uint32_t>(r));
    return true;
  }

  std::unique_ptr<HostTransport> split(int color, int key) override {
    MPI_Comm made = MPI_COMM_NULL;
    check(MPI_Comm_split(comm_, color, key, &made), "MPI_Comm_split");
    return std::make_unique<MpiTransport>(made);
  }
  std::unique_ptr<HostTransport> duplicate() override {
    MPI_Comm made = MPI_COMM_NULL;
    check(MPI_Comm_dup(comm_, &made), "MPI_Comm_dup");
    return std::make_unique<MpiTransport>(made);
  }
  std::unique_ptr<HostTransport> node() override {
    MPI_Comm made = MPI_COMM_NULL;
    check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &made),
          "MPI_Comm_split_type");
    return std::make_unique<MpiTransport>(made);
  }

 private:
  struct Slot {
    MPI_Request request = MPI_REQUEST_NULL;
    const char* call = nullptr;
    int peer = all_ranks;
    int expected = no_size;            // bytes of the message to receive
    std::vector<int> counts, offsets;  // MPI reads them until the request completes
  };

  static int count(std::size_t n) {
    require(n <= std::size_t{1} << 30, "{} bytes are too many for one message", n);
    return static_cast<int>(n);
  }
  static std::string with(const Slot& s) {
    return s.peer == all_ranks ? std::string() : fmt::format(" with rank {}", s.peer);
  }

  template <class Call>
  Request post(const char* name, int peer, int expected, const Call& call) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    const auto at = free_.back();
    auto& s = slots_[at];
    s.call = name;
    s.peer = peer;
    s.expected = expected;
    const int code = call(s);
    if (code != MPI_SUCCESS) fail("{}{} failed: {}", name, with(s), text_of(code));
    free_.pop_back();
    return static_cast<Request>(at);
  }

  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace

std::unique_ptr<HostTransport> mpi_world() {
  // MPI reports errors outside any communicator to the error handler of MPI_COMM_WORLD or
  // MPI_COMM_SELF.
  for (const auto everywhere : {MPI_COMM_WORLD, MPI_COMM_SELF})
    check(MPI_Comm_set_errhandler(everywhere, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return std::make_unique<MpiTransport>(comm);
}

}  // namespace trireme::transport
