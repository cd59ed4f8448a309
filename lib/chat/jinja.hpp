#pragma once
// Runs chat templates, which are Jinja programs, in a Python process with the package jinja2
// (jinja_renderer.py). The settings of Jinja and the functions that templates may call are those of
// transformers. Templates run in Jinja's sandbox, with limits on time and memory.
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/base/json.hpp"

namespace trireme {

// A conversation to render. The referenced values must outlive the call of render().
struct JinjaRequest {
  const std::vector<OrderedJson>& messages;
  const OrderedJson& tools;      // None in the template if the list is empty
  const OrderedJson& variables;  // more variables of the template
  bool generation_prompt = false;
};

// A rendered text, or the reason why the template failed.
struct JinjaResult {
  std::string text, error;
};

// Characters that the renderer puts around what a template writes between {% generation %} and
// {% endgeneration %}.
struct GenerationMarks {
  std::string begin, end;
};

// Limits on the time to render a text, and on the memory of the process.
struct JinjaLimits {
  int seconds = 10;
  std::int64_t bytes = std::int64_t{2} << 30;
};

// A template, and the processes that render it. Several threads may call the functions at once.
class Jinja {
 public:
  // Compiles the template. `variables` are the tokenizer's, such as bos_token. Throws Error if
  // Python or jinja2 is missing, or if the template is not valid.
  Jinja(std::string text, OrderedJson variables, GenerationMarks, JinjaLimits = {});
  ~Jinja();

  // Renders a conversation. If the template fails or needs too much memory, returns the reason in
  // JinjaResult::error. Throws Error if the template exceeds the time limit, if the process ends,
  // or if the text is longer than 1 GiB.
  JinjaResult render(const JinjaRequest&) const;

 private:
  class Process;
  std::unique_ptr<Process> start() const;

  std::string setup_;
  JinjaLimits limits_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Process>> idle_;
};

}  // namespace trireme
