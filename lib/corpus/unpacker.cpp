#include "lib/corpus/unpacker.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <vector>

#include "lib/base/error.hpp"

namespace trireme {

namespace {

// Writes the rows of a Parquet file as JSON lines.
constexpr const char* rows_of_parquet = R"(
import json, sys
try:
    import pyarrow.parquet
except ImportError:
    sys.exit(3)
for batch in pyarrow.parquet.ParquetFile(sys.argv[1]).iter_batches(1024):
    for row in batch.to_pylist():
        print(json.dumps(row, ensure_ascii=False, default=str))
)";

struct Form {
  std::string_view magic;
  std::vector<std::string> command;
};

std::vector<Form> forms(const std::string& path) {
  return {{"\x1f\x8b", {"gzip", "-dc"}},
          {"\x28\xb5\x2f\xfd", {"zstd", "-dcq"}},
          {"PAR1", {"python3", "-c", rows_of_parquet, path}}};
}

}  // namespace

std::unique_ptr<Unpacker> Unpacker::start(int file, const std::string& path) {
  struct stat status {};
  std::array<char, 4> first{};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
  const auto n = pread(file, first.data(), first.size(), 0);
  require(n >= 0, "cannot read {}: {}", path, std::strerror(errno));
  if (n < std::ssize(first)) return nullptr;
  for (auto& [magic, command] : forms(path)) {
    if (!std::string_view(first.data(), first.size()).starts_with(magic)) continue;
    std::array<int, 2> ends{};
    require(pipe2(ends.data(), O_CLOEXEC) == 0, "cannot unpack {}: no pipes are left", path);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, file, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::vector<char*> words;
    for (auto& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    std::unique_ptr<Unpacker> unpacker(new Unpacker);
    unpacker->path_ = path;
    unpacker->program_ = command[0];
    unpacker->contents_ = ends[0];
    const int code =
        posix_spawnp(&unpacker->process_, words[0], &actions, nullptr, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (code != 0) unpacker->process_ = 0;
    require(code == 0, "{} needs the program {} to be read: install it", path, command[0]);
    return unpacker;
  }
  return nullptr;
}

Unpacker::~Unpacker() {
  if (contents_ >= 0) close(contents_);
  if (process_ == 0) return;
  kill(process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Unpacker::finish() {
  if (process_ == 0) return;
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = 0;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  require(code != 3 || program_ != "python3",
          "{0} is a Parquet file, which needs Python with the package pyarrow: install it, or "
          "convert the file elsewhere with pandas.read_parquet('{0}').to_json('lines.jsonl', "
          "orient='records', lines=True)",
          path_);
  require(code == 0, "{} cannot be unpacked: {} failed, so the file is probably damaged", path_,
          program_);
}

std::string unpacked_name(const std::string& path) {
  for (const std::string_view ending : {".gz", ".zst"})
    if (path.ends_with(ending)) return path.substr(0, path.size() - ending.size());
  return path;
}

}  // namespace trireme
