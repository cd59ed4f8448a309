#include "lib/chat/jinja.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <utility>

#include "lib/base/asset.hpp"
#include "lib/base/error.hpp"

TRIREME_ASSET(jinja_renderer, TRIREME_CHAT "/jinja_renderer.py")

namespace trireme {

namespace {

// The template's own limit does not interrupt a single operation of Python, but this one does.
std::chrono::seconds patience(const JinjaLimits& limits) {
  return std::chrono::seconds(2 * limits.seconds);
}
constexpr std::size_t longest_answer = std::size_t{1} << 30;

constexpr const char* too_late = "the chat template takes too long";
constexpr const char* advice =
    "Chat templates are Jinja programs, which need Python with the package jinja2: install "
    "python3-jinja2 (Debian) or `pip install jinja2`, or set TRIREME_PYTHON to a Python that has "
    "it";

std::vector<std::string> pythons() {
  if (const char* chosen = std::getenv("TRIREME_PYTHON"); chosen && *chosen) return {chosen};
  return {"python3", "/usr/bin/python3"};
}

}  // namespace

// A Python process that answers each line with a line.
class Jinja::Process {
 public:
  explicit Process(const std::string& python) {
    std::array<int, 2> ends{};
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0,
            "cannot start {}: no sockets are left", python);
    ours_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string name = python, option = "-c", script(asset_jinja_renderer());
    std::array<char*, 4> words{name.data(), option.data(), script.data(), nullptr};
    started_ =
        posix_spawnp(&process_, python.c_str(), &actions, nullptr, words.data(), environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (ours_ >= 0) close(ours_);
    if (!started_) return;
    // It may be busy with a template that never ends.
    if (!answered_) kill(process_, SIGKILL);
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  bool started() const { return started_; }

  // Returns the answer to a line, or nothing if the process ended. Throws Error if it does not
  // answer within `patience`.
  std::optional<Json> answer(const std::string& line, std::chrono::seconds patience) {
    const auto until = std::chrono::steady_clock::now() + patience;
    answered_ = false;
    std::string_view rest = line;
    while (!rest.empty()) {
      if (!wait_for(POLLOUT, until)) return std::nullopt;
      const auto n = send(ours_, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n < 0) return std::nullopt;
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
    std::string text;
    while (!text.ends_with('\n')) {
      std::array<char, 65536> part{};
      if (!wait_for(POLLIN, until)) return std::nullopt;
      const auto n = recv(ours_, part.data(), part.size(), MSG_DONTWAIT);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) return std::nullopt;
      text.append(part.data(), static_cast<std::size_t>(n));
      require(text.size() <= longest_answer, "the chat template writes more than 1 GiB");
    }
    answered_ = true;
    return parse_json(text);
  }

 private:
  bool wait_for(short what, std::chrono::steady_clock::time_point until) const {
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          until - std::chrono::steady_clock::now());
      require(left.count() > 0, "{}", too_late);
      pollfd one{ours_, what, 0};
      const int n = poll(&one, 1, static_cast<int>(left.count()) + 1);
      if (n > 0) return true;
      if (n < 0 && errno != EINTR) return false;
    }
  }

  int ours_ = -1;
  pid_t process_ = 0;
  bool started_ = false, answered_ = true;
};

Jinja::Jinja(std::string text, OrderedJson variables, GenerationMarks marks, JinjaLimits limits)
    : limits_(limits) {
  const OrderedJson setup{{"template", std::move(text)},
                          {"variables", std::move(variables)},
                          {"generation", {marks.begin, marks.end}},
                          {"now", std::time(nullptr)},
                          {"seconds", limits.seconds},
                          {"bytes", limits.bytes}};
  setup_ = setup.dump() + "\n";
  idle_.push_back(start());
}

Jinja::~Jinja() = default;

std::unique_ptr<Jinja::Process> Jinja::start() const {
  std::string found;
  for (const auto& python : pythons()) {
    auto process = std::make_unique<Process>(python);
    if (!process->started()) continue;
    found = python;
    const auto answer = process->answer(setup_, patience(limits_));
    if (!answer || answer->contains("absent")) continue;
    require(!answer->contains("late"), "{}", too_late);
    require(!answer->contains("error"), "the chat template is not valid Jinja: {}",
            answer->value("error", ""));
    return process;
  }
  fail("{}. {}", found.empty() ? "Python is missing" : found + " lacks the package jinja2", advice);
}

JinjaResult Jinja::render(const JinjaRequest& request) const {
  const OrderedJson asked{{"messages", request.messages},
                          {"tools", request.tools},
                          {"variables", request.variables},
                          {"add_generation_prompt", request.generation_prompt}};
  std::unique_ptr<Process> process;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      process = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!process) process = start();
  const auto answer = process->answer(asked.dump() + "\n", patience(limits_));
  require(answer.has_value(),
          "the Python process that renders the chat template ended: it may need too much memory");
  require(!answer->contains("late"), "{}", too_late);
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(process));
  return {answer->value("text", ""), answer->value("error", "")};
}

}  // namespace trireme
