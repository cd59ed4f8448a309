// Loaded before the C library (LD_PRELOAD), it makes chosen system calls of trireme go wrong:
//   TRIREME_FAULTS="CALL PATTERN N ACTION [@RANK]; ..."
//
// CALL: open read write fwrite sync rename exchange link mkdir remove truncate stat lock close
// thread.
//
// PATTERN: of the path, as in a shell, but * stands for / as well; of a thread, the directory that
// was made last.
//
// N: which matching call of the process; "3" is the third, "3+" the third and all later ones.
//
// ACTION: an errno (ENOSPC); short (half of it is written); torn (half, then SIGKILL); a signal
// before the call (SIGKILL) or behind it (then:SIGKILL); a wait before it, for milliseconds
// (sleep:20) or for a file to be there (until:FILE).
//
// RANK: of MPI, from PMI_RANK; without it every rank.
//
// TRIREME_FAULTS_HOST is the name of this host, as the program sees it.
//
// Each hit appends a line, "RULE CALL PATH", to the file TRIREME_FAULTS_LOG; rules count from 0.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

enum class Fault { none, error, half, torn, signal, signal_after, sleep, until };

struct FaultRule {
  char call[16], pattern[256];
  long n;
  int place;  // among the rules that were given
  bool later_too;
  Fault fault;
  int number;  // errno, signal or milliseconds
  char file[32];
  std::atomic<long> seen;
};

constexpr int most_rules = 16;
FaultRule rules[most_rules];
int rule_count = 0;
char made_last[PATH_MAX] = "-";

struct FaultName {
  const char* text;
  int number;
};
constexpr FaultName errors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},       {"EDQUOT", EDQUOT},
                                {"EROFS", EROFS},   {"ESTALE", ESTALE}, {"EACCES", EACCES},
                                {"EMFILE", EMFILE}, {"ENOENT", ENOENT}, {"EINTR", EINTR},
                                {"EFBIG", EFBIG},   {"EPERM", EPERM},   {"ENOLCK", ENOLCK},
                                {"EINVAL", EINVAL}, {"EAGAIN", EAGAIN}, {"ENOSYS", ENOSYS}};
constexpr FaultName signals[] = {{"SIGKILL", SIGKILL}, {"SIGTERM", SIGTERM}, {"SIGINT", SIGINT},
                                 {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"SIGHUP", SIGHUP},
                                 {"SIGSTOP", SIGSTOP}, {"SIGQUIT", SIGQUIT}, {"SIGPIPE", SIGPIPE},
                                 {"SIGABRT", SIGABRT}, {"SIGSEGV", SIGSEGV}};

[[noreturn]] void refuse(const char* what) {
  std::fprintf(stderr, "TRIREME_FAULTS: %s\n", what);
  std::_Exit(99);
}

template <std::size_t N>
bool find(const FaultName (&names)[N], const char* text, int& number) {
  for (const auto& name : names)
    if (std::strcmp(name.text, text) == 0) {
      number = name.number;
      return true;
    }
  return false;
}

void set_action(FaultRule& rule, const char* text) {
  if (std::strcmp(text, "short") == 0) {
    rule.fault = Fault::half;
  } else if (std::strcmp(text, "torn") == 0) {
    rule.fault = Fault::torn;
  } else if (find(errors, text, rule.number)) {
    rule.fault = Fault::error;
  } else if (find(signals, text, rule.number)) {
    rule.fault = Fault::signal;
  } else if (std::strncmp(text, "then:", 5) == 0 && find(signals, text + 5, rule.number)) {
    rule.fault = Fault::signal_after;
  } else if (std::strncmp(text, "sleep:", 6) == 0) {
    rule.fault = Fault::sleep;
    rule.number = std::atoi(text + 6);
  } else if (std::strncmp(text, "until:", 6) == 0) {
    rule.fault = Fault::until;
    std::strncpy(rule.file, text + 6, sizeof rule.file - 1);
  } else {
    refuse(text);
  }
}

void add_rule(const char* text, int place) {
  char n[16], action[32], rank[16] = "";
  auto& rule = rules[rule_count];
  if (std::sscanf(text, " %15s %255s %15s %31s %15s", rule.call, rule.pattern, n, action, rank) < 4)
    refuse(text);
  rule.place = place;
  rule.n = std::atol(n);
  rule.later_too = n[std::strlen(n) - 1] == '+';
  set_action(rule, action);
  const char* mine = std::getenv("PMI_RANK");
  if (rank[0] == '@' && std::atoi(rank + 1) != std::atoi(mine ? mine : "0")) return;
  if (++rule_count == most_rules) refuse("too many rules");
}

__attribute__((constructor)) void read_rules() {
  const char* given = std::getenv("TRIREME_FAULTS");
  char self[PATH_MAX] = "";
  if (!given || readlink("/proc/self/exe", self, sizeof self - 1) < 0) return;
  const char* name = std::strrchr(self, '/');
  if (!name || std::strcmp(name + 1, "trireme") != 0) return;
  static char text[4096];
  std::strncpy(text, given, sizeof text - 1);
  char* rest = nullptr;
  int place = 0;
  for (char* rule = strtok_r(text, ";", &rest); rule; rule = strtok_r(nullptr, ";", &rest))
    if (rule[std::strspn(rule, " ")] != '\0') add_rule(rule, place++);
}

void note(const FaultRule& rule, const char* path) {
  const char* file = std::getenv("TRIREME_FAULTS_LOG");
  if (!file) return;
  char line[PATH_MAX + 64];
  const int n = std::snprintf(line, sizeof line, "%d %s %s\n", rule.place, rule.call, path);
  const auto fd = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (fd < 0) return;
  (void)syscall(SYS_write, fd, line, n);
  (void)syscall(SYS_close, fd);
}

// The rule that this call meets, after what is to happen before it.
const FaultRule* met(const char* call, const char* path) {
  const FaultRule* found = nullptr;
  for (int i = 0; i < rule_count; ++i) {
    auto& rule = rules[i];
    if (std::strcmp(rule.call, call) != 0 || fnmatch(rule.pattern, path, 0) != 0) continue;
    const long n = ++rule.seen;
    if (n != rule.n && !(rule.later_too && n > rule.n)) continue;
    note(rule, path);
    if (rule.fault == Fault::sleep) usleep(static_cast<useconds_t>(rule.number) * 1000);
    while (rule.fault == Fault::until && syscall(SYS_access, rule.file, F_OK) != 0) usleep(5000);
    if (rule.fault == Fault::signal) kill(getpid(), rule.number);
    found = &rule;
  }
  return found;
}

const FaultRule* met(const char* call, int fd) {
  if (rule_count == 0) return nullptr;
  char link[32], path[PATH_MAX] = "";
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (readlink(link, path, sizeof path - 1) < 0) return nullptr;
  return met(call, path);
}

bool fails(const FaultRule* rule) {
  if (!rule || rule->fault != Fault::error) return false;
  errno = rule->number;
  return true;
}

// Passes the result on, after what is to happen behind the call.
template <class T>
T done(const FaultRule* rule, T result) {
  const int code = errno;
  if (rule && rule->fault == Fault::signal_after) kill(getpid(), rule->number);
  if (rule && rule->fault == Fault::torn) kill(getpid(), SIGKILL);
  errno = code;
  return result;
}

std::size_t part(const FaultRule* rule, std::size_t bytes) {
  const bool half = rule && (rule->fault == Fault::half || rule->fault == Fault::torn);
  return half && bytes > 1 ? bytes / 2 : bytes;
}

template <class F>
F* next(F*, const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define NEXT(name) next(&(name), #name)

// A call that fails with -1, by its path or descriptor.
#define PLAIN(call, name, where, parameters, ...) \
  int name parameters {                           \
    const auto* rule = met(call, where);          \
    if (fails(rule)) return -1;                   \
    return done(rule, NEXT(name)(__VA_ARGS__));   \
  }

// One that transfers bytes.
#define TRANSFER(call, name, parameters, fd, buffer, bytes, ...)                             \
  ssize_t name parameters {                                                                  \
    const auto* rule = met(call, fd);                                                        \
    if (fails(rule)) return -1;                                                              \
    return done(rule, NEXT(name)(fd, buffer, part(rule, bytes) __VA_OPT__(, ) __VA_ARGS__)); \
  }

#define OPEN(name, path, parameters, ...)                    \
  int name parameters {                                      \
    mode_t mode = 0;                                         \
    if ((flags & (O_CREAT | O_TMPFILE)) != 0) {              \
      va_list list;                                          \
      va_start(list, flags);                                 \
      mode = va_arg(list, mode_t);                           \
      va_end(list);                                          \
    }                                                        \
    const auto* rule = met("open", path);                    \
    if (fails(rule)) return -1;                              \
    return done(rule, NEXT(name)(__VA_ARGS__, flags, mode)); \
  }

extern "C" {

OPEN(open, path, (const char* path, int flags, ...), path)
OPEN(open64, path, (const char* path, int flags, ...), path)
OPEN(openat, path, (int at, const char* path, int flags, ...), at, path)
OPEN(openat64, path, (int at, const char* path, int flags, ...), at, path)

FILE* fopen(const char* path, const char* mode) {
  const auto* rule = met("open", path);
  if (fails(rule)) return nullptr;
  return done(rule, NEXT(fopen)(path, mode));
}
FILE* fopen64(const char* path, const char* mode) {
  const auto* rule = met("open", path);
  if (fails(rule)) return nullptr;
  return done(rule, NEXT(fopen64)(path, mode));
}
size_t fwrite(const void* p, size_t size, size_t n, FILE* f) {
  const auto* rule = met("fwrite", fileno(f));
  if (fails(rule)) return 0;
  return done(rule, NEXT(fwrite)(p, size, n, f));
}

TRANSFER("write", write, (int fd, const void* p, size_t n), fd, p, n)
TRANSFER("write", pwrite, (int fd, const void* p, size_t n, off_t at), fd, p, n, at)
TRANSFER("write", pwrite64, (int fd, const void* p, size_t n, off64_t at), fd, p, n, at)
TRANSFER("read", read, (int fd, void* p, size_t n), fd, p, n)
TRANSFER("read", pread, (int fd, void* p, size_t n, off_t at), fd, p, n, at)
TRANSFER("read", pread64, (int fd, void* p, size_t n, off64_t at), fd, p, n, at)

PLAIN("sync", fsync, fd, (int fd), fd)
PLAIN("sync", fdatasync, fd, (int fd), fd)
PLAIN("close", close, fd, (int fd), fd)
PLAIN("lock", flock, fd, (int fd, int operation) noexcept, fd, operation)
PLAIN("truncate", ftruncate, fd, (int fd, off_t n) noexcept, fd, n)
PLAIN("truncate", ftruncate64, fd, (int fd, off64_t n) noexcept, fd, n)
PLAIN("rename", rename, to, (const char* from, const char* to) noexcept, from, to)
PLAIN("exchange", renameat2, to,
      (int a, const char* from, int b, const char* to, unsigned flags) noexcept, a, from, b, to,
      flags)
PLAIN("link", link, to, (const char* from, const char* to) noexcept, from, to)
int gethostname(char* name, size_t size) noexcept {
  const char* given = std::getenv("TRIREME_FAULTS_HOST");
  if (!given) return NEXT(gethostname)(name, size);
  std::strncpy(name, given, size);
  return 0;
}
int mkdir(const char* path, mode_t mode) noexcept {
  std::strncpy(made_last, path, sizeof made_last - 1);
  const auto* rule = met("mkdir", path);
  if (fails(rule)) return -1;
  return done(rule, NEXT(mkdir)(path, mode));
}
PLAIN("remove", unlink, path, (const char* path) noexcept, path)
PLAIN("remove", unlinkat, path, (int at, const char* path, int flags) noexcept, at, path, flags)
PLAIN("remove", remove, path, (const char* path) noexcept, path)
PLAIN("remove", rmdir, path, (const char* path) noexcept, path)
PLAIN("stat", stat, path, (const char* path, struct stat* s) noexcept, path, s)
PLAIN("stat", stat64, path, (const char* path, struct stat64* s) noexcept, path, s)
PLAIN("stat", lstat, path, (const char* path, struct stat* s) noexcept, path, s)
PLAIN("stat", lstat64, path, (const char* path, struct stat64* s) noexcept, path, s)

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*work)(void*),
                   void* with) noexcept {
  const auto* rule = met("thread", made_last);
  if (fails(rule)) return errno;
  return NEXT(pthread_create)(thread, attributes, work, with);
}
}
