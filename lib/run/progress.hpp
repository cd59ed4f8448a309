#pragma once
// The progress line of a run on a terminal; prints nothing elsewhere.
#include <cstdint>
#include <string>

namespace trireme {

// hh:mm:ss; seconds below 0: unknown.
std::string clock_text(double seconds);

class Progress {
 public:
  explicit Progress(std::int64_t total_steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` steps are finished; seconds_left below 0: unknown.
  void show(std::int64_t done, double loss, double tokens_per_second, double seconds_left) const;

 private:
  std::int64_t total_;
  bool terminal_;
};

}  // namespace trireme
