#pragma once
// The progress line of a run on a terminal; prints nothing elsewhere.
#include <cstdint>
#include <string>

namespace trireme {

// hh:mm:ss; seconds below 0: unknown.
std::string clock_text(double seconds);

struct ProgressLine {
  std::int64_t done = 0, total = 0;  // steps
  double loss = 0, lr = 0, tokens_per_second = 0;
  double seconds_left = -1;  // below 0: unknown
};
// At most `columns` characters: a bar, as long as there is room for, then the numbers.
std::string progress_text(const ProgressLine&, int columns);

class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const ProgressLine&) const;

 private:
  bool terminal_;
};

}  // namespace trireme
