#include "lib/comm/engine/roll_call.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/host_name.hpp"

namespace trireme::engine {

constexpr int tag = 1;

template <std::size_t N>
static void put(std::array<char, N>& field, const std::string& text) {
  std::memcpy(field.data(), text.data(), std::min(text.size(), N - 1));
}

template <std::size_t N>
static std::string text_of(const std::array<char, N>& field) {
  return {field.data(), ::strnlen(field.data(), N)};
}

RollCall::RollCall(std::unique_ptr<transport::HostTransport> host) : host_(std::move(host)) {
  const auto ranks = static_cast<std::size_t>(host_->size());
  struct Packed {
    std::array<char, 240> host{};
    std::int32_t process = 0;
  } mine;
  put(mine.host, host_name());
  mine.process = ::getpid();
  std::vector<Packed> all(ranks);
  const std::vector<int> sizes(ranks, sizeof mine);
  const auto gathered = host_->all_gather(std::as_bytes(std::span(&mine, 1)),
                                          std::as_writable_bytes(std::span(all)), sizes);
  while (!host_->test(gathered)) std::this_thread::yield();
  if (rank() != 0) all.resize(1);
  for (const auto& p : all) processes_.push_back({text_of(p.host), p.process});
  if (rank() != 0) return;
  for (auto* flags : {&alarmed_, &answered_, &overdue_}) flags->resize(ranks);
  answers_.resize(ranks);
}

// Does not free messages that a silent rank has not received, because MPI may still read them.
RollCall::~RollCall() {
  try {
    while (const auto from = host_->arrived(tag)) receive(*from);
    forget_sent();
  } catch (const Error&) {
  }
  if (!leaving_.empty()) static_cast<void>(new std::deque<Leaving>(std::move(leaving_)));
}

void RollCall::forget_sent() {
  while (!leaving_.empty() && host_->test(leaving_.front().request)) leaving_.pop_front();
}

void RollCall::send(int to, Meaning meaning, const Wait& wait, bool overdue) {
  forget_sent();
  auto& l = leaving_.emplace_back();
  l.message.meaning = meaning;
  l.message.question = question_;
  l.message.overdue = overdue;
  put(l.message.what, wait.what);
  put(l.message.state, wait.state);
  l.request = host_->send(to, tag, std::as_bytes(std::span(&l.message, 1)));
}

RollCall::Message RollCall::receive(int from) {
  Message m;
  const auto r = host_->receive(from, tag, std::as_writable_bytes(std::span(&m, 1)));
  while (!host_->test(r)) std::this_thread::yield();  // the message has arrived
  return m;
}

void RollCall::note(std::size_t rank, const Message& m) {
  answered_[rank] = 1;
  overdue_[rank] = m.overdue != 0;
  answers_[rank] = {text_of(m.what), text_of(m.state)};
}

bool RollCall::poll(const std::function<Wait()>& own, bool overdue) {
  while (const auto from = host_->arrived(tag)) {
    const auto m = receive(*from);
    const auto r = static_cast<std::size_t>(*from);
    switch (m.meaning) {
      case Meaning::question:
        question_ = m.question;
        heard_ = true;
        send(0, Meaning::answer, own(), overdue);
        break;
      case Meaning::answer:
        if (m.question == question_) note(r, m);  // other answers are to an earlier question
        break;
      case Meaning::alarm:
        alarmed_[r] = 1;
        note(r, m);
        break;
      case Meaning::withdrawal:
        alarmed_[r] = overdue_[r] = 0;
        break;
    }
  }
  return std::ranges::count(alarmed_, 1) > 0;
}

void RollCall::alarm(const Wait& own) {
  heard_ = false;
  send(0, Meaning::alarm, own, true);
}

void RollCall::withdraw() noexcept {
  try {
    send(0, Meaning::withdrawal);
  } catch (const Error&) {  // the job is broken and ends anyway
  }
}

void RollCall::ask() {
  ++question_;
  for (auto* flags : {&alarmed_, &answered_, &overdue_}) std::ranges::fill(*flags, std::uint8_t{0});
  answered_[0] = 1;
  for (int r = 1; r < host_->size(); ++r) send(r, Meaning::question);
}

bool RollCall::everyone_answered() const {
  return std::ranges::count(answered_, 0) == 0;
}

bool RollCall::anyone_overdue() const {
  return std::ranges::count(overdue_, 1) > 0;
}

// Returns the ranks as text, for example "0-2, 5".
static std::string ranges_of(const std::vector<std::size_t>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    auto end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[i]);
    if (end - i > 1) text += fmt::format("{}{}", end - i == 2 ? ", " : "-", ranks[end - 1]);
    i = end;
  }
  return text;
}

static const char* plural(std::size_t n) {
  return n == 1 ? "" : "s";
}

std::string RollCall::account(const Wait& own) const {
  constexpr std::size_t most_lines = 16;
  std::map<std::string, std::vector<std::size_t>> waiting;
  std::vector<std::size_t> silent;
  for (std::size_t r = 0; r < answered_.size(); ++r)
    if (answered_[r])
      waiting[r == 0 ? own.what : answers_[r].what].push_back(r);
    else
      silent.push_back(r);
  std::string text;
  std::size_t lines = 0;
  for (const auto& [what, ranks] : waiting) {
    if (++lines > most_lines) continue;
    const auto first = ranks.front();
    text += fmt::format("\n  rank{} {} wait{} for {} ({})", plural(ranks.size()), ranges_of(ranks),
                        ranks.size() == 1 ? "s" : "", what,
                        first == 0 ? own.state : answers_[first].state);
  }
  if (lines > most_lines)
    text += fmt::format("\n  and for {} other operations", lines - most_lines);
  for (std::size_t i = 0; i < std::min(silent.size(), most_lines); ++i) {
    const auto& process = processes_[silent[i]];
    text += fmt::format(
        "\n  rank {} (process {} on {}) does not answer: it has died, is stuck or "
        "still computes",
        silent[i], process.id, process.host);
  }
  if (silent.size() > most_lines)
    text += fmt::format("\n  {} more ranks do not answer; all ranks without an answer: {}",
                        silent.size() - most_lines, ranges_of(silent));
  if (silent.empty())
    text += waiting.size() > 1 ? "\n  all ranks answer, but wait for different operations: a "
                                 "message is lost, or one of them calls operations in another order"
                               : "\n  all ranks answer, and wait for the same operation: a message "
                                 "is lost, or the operation takes longer";
  return text;
}

}  // namespace trireme::engine
