#pragma once
// The progress line of a run. It is shown only if the output is a terminal.
#include <cstdint>
#include <string>

namespace trireme {

// Formats a duration as "hh:mm:ss". Negative seconds mean unknown and give "--:--:--".
std::string clock_text(double seconds);

// The contents of the progress line.
struct ProgressLine {
  std::int64_t done = 0, total = 0;  // steps
  double loss = 0, lr = 0, tokens_per_second = 0;
  double seconds_left = -1;  // negative means unknown
};
// Returns the text of the line, with at most `columns` characters: the numbers, preceded by a bar
// if there is room for it.
std::string progress_text(const ProgressLine&, int columns);

// Shows the progress line. The destructor clears it.
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
