// Export and import stream: their memory is bounded by units, not by the model.
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/interchange/model_files.hpp"
#include "tests/support/process.hpp"

namespace trireme {

using namespace test;

// Largest resident set of a command in bytes.
static std::int64_t peak_of(const std::filesystem::path& where, const std::string& command) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::chdir(where.c_str()) != 0) ::_exit(126);
    const auto text = "exec $TRIREME " + command + " > /dev/null";
    ::execl("/bin/sh", "sh", "-c", text.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  struct rusage used {};
  EXPECT_EQ(::wait4(child, &status, 0, &used), child);
  EXPECT_EQ(status, 0) << command;
  return static_cast<std::int64_t>(used.ru_maxrss) * 1024;
}

// Beyond what the program takes to print its version: less than two units, of a model of ten.
TEST(InterchangeMemory, MemoryStaysBelowTwoUnits) {
  const ScratchFolder folder;
  const auto program = run(folder.path(), "echo $TRIREME").out;
  ::setenv("TRIREME", program.substr(0, program.find('\n')).c_str(), 1);
  auto gpt2 = small_gpt2();
  gpt2.layers = 10;
  gpt2.width = gpt2.ffn_width = 1152;  // all projections of a block: 6 width^2 = 8 M
  gpt2.heads = gpt2.kv_heads = 12;
  gpt2.head_dim = 96;
  auto llama = small_llama();
  llama.layers = 10;
  llama.width = llama.ffn_width = 1024;  // 7 width^2 with as many key heads as heads
  llama.heads = llama.kv_heads = 8;
  llama.head_dim = 128;
  const auto at_rest = peak_of(folder.path(), "version");
  for (const auto& model : {gpt2, llama}) {
    const auto spec = make_spec(model);
    std::int64_t unit = 0;
    for (const auto& p : spec.params)
      if (p.unit == spec.blocks[0].unit) unit += 4 * p.shape.count();
    ASSERT_GT(4 * spec.parameter_count(), 9 * unit);
    save_model(folder.path() / "run/checkpoints", model);
    for (const char* command : {"export run hf", "import hf back", "export run file --format hdf5"})
      EXPECT_LT(peak_of(folder.path(), command) - at_rest, 2 * unit) << command;
    for (const char* name : {"run", "hf", "back", "file"})
      std::filesystem::remove_all(folder / name);
  }
}

}  // namespace trireme
