// The executor with a stage that computes nothing, between ranks that do not exist.
#include "lib/pipe/executor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "kernels/open/open.hpp"
#include "lib/pipe/schedule.hpp"

namespace trireme {
namespace {

const Shape crossing{2, 8, 16};  // 1024 bytes of f32
constexpr std::size_t tensor_bytes = 1024, saved_bytes = 4096;

Tensor take(Backend& b, MemoryKind kind, std::int64_t elements) {
  return Tensor::empty(b, {elements}, DType::f32, kind);
}

// Keeps each input with a block of its own until backward, and half of that until weight gradients
// that come by themselves; notes what it is called with.
class Fake final : public Stage {
 public:
  Fake(Backend& b, const Pipeline& pipe, int stage) : backend_(b), pipe_(pipe), stage_(stage) {}

  Boundary boundary() const override { return {crossing, DType::f32}; }
  Tensor forward(int m, int chunk, Tensor x) override {
    call({Do::forward, m, chunk});
    EXPECT_EQ(bool(x), at(chunk) > 0) << "microbatch " << m;
    kept_[{m, chunk}] = {std::move(x), take(backend_, MemoryKind::saved, saved_bytes / 4)};
    return at(chunk) + 1 == pipe_.virtual_stages() ? Tensor() : crossing_tensor();
  }
  Tensor backward(int m, int chunk, Tensor dy) override {
    call({Do::backward, m, chunk});
    return back(m, chunk, dy);
  }
  Tensor input_gradients(int m, int chunk, Tensor dy) override {
    call({Do::input_gradients, m, chunk});
    auto dx = back(m, chunk, dy);
    later_[{m, chunk}] = take(backend_, MemoryKind::gathered, saved_bytes / 8);
    return dx;
  }
  void weight_gradients(int m, int chunk) override {
    call({Do::weight_gradients, m, chunk});
    EXPECT_EQ(later_.erase({m, chunk}), 1U) << "microbatch " << m;
  }

  Program calls;
  std::optional<Instruction> fails_at;

 private:
  int at(int chunk) const { return pipe_.virtual_stage(stage_, chunk); }
  void call(const Instruction& i) {
    calls.push_back(i);
    if (i == fails_at) fail("the stage's own trouble");
  }
  Tensor back(int m, int chunk, const Tensor& dy) {
    EXPECT_EQ(bool(dy), at(chunk) + 1 < pipe_.virtual_stages()) << "microbatch " << m;
    kept_.erase({m, chunk});
    return at(chunk) == 0 ? Tensor() : crossing_tensor();
  }
  Tensor crossing_tensor() {
    return Tensor::empty(backend_, crossing, DType::f32, MemoryKind::transient);
  }
  Backend& backend_;
  Pipeline pipe_;
  int stage_;
  std::map<std::pair<int, int>, std::pair<Tensor, Tensor>> kept_;
  std::map<std::pair<int, int>, Tensor> later_;
};

// Every stage of up to 4 with up to 8 microbatches, on memory that is only counted.
class ExecutorOnDry : public testing::Test {
 protected:
  template <class Body>
  static void for_all(const Body& body) {
    for (int stages = 1; stages <= 4; ++stages)
      for (int microbatches = 1; microbatches <= 8; ++microbatches)
        for (int stage = 0; stage < stages; ++stage) {
          SCOPED_TRACE(testing::Message() << "stage " << stage << " of " << stages << ", "
                                          << microbatches << " microbatches");
          body(stages, microbatches, stage);
        }
  }
  static Pipe pipe_of(int stages, int stage) {
    const auto down = Communicator::pretend(stage, stages);
    return {down, down.pretend_split(stage, stages)};
  }
  static std::unique_ptr<Dry> open() {
    return std::make_unique<Dry>(dry_target({"host", 1, false}));
  }
  static Program work_of(const Program& program) {
    Program work;
    std::ranges::copy_if(program, std::back_inserter(work),
                         [](const Instruction& i) { return computes(i.what); });
    return work;
  }
  static std::size_t peak(const Dry& b, MemoryKind k) {
    return b.account().peak[static_cast<std::size_t>(k)];
  }
};

TEST_F(ExecutorOnDry, CallsTheStageInTheProgramsOrder) {
  for_all([](int stages, int microbatches, int stage) {
    const auto backend = open();
    const Pipeline plain{.stages = stages};
    Fake fake(*backend, plain, stage);
    const auto program = training_program(plain, microbatches, stage);

    execute(program, plain, fake, *backend, pipe_of(stages, stage));

    EXPECT_EQ(fake.calls, work_of(program));
  });
}

TEST_F(ExecutorOnDry, SendsEveryMicrobatchDownAndUp) {
  for_all([](int stages, int microbatches, int stage) {
    const auto backend = open();
    const Pipeline plain{.stages = stages};
    Fake fake(*backend, plain, stage);
    const auto pipe = pipe_of(stages, stage);

    execute(training_program(plain, microbatches, stage), plain, fake, *backend, pipe);

    const auto all = microbatches * static_cast<std::int64_t>(tensor_bytes);
    EXPECT_EQ(pipe.down.bytes_sent(), stage < stages - 1 ? all : 0);
    EXPECT_EQ(pipe.up.bytes_sent(), stage > 0 ? all : 0);
    EXPECT_EQ(pipe.down.abandoned(), std::vector<std::string>{});
    EXPECT_EQ(backend->races(), std::vector<std::string>{});
  });
}

// What 1F1B promises, read off the account: min(stages - stage, microbatches) inputs with what was
// saved for them, one tensor arriving, and one leaving in each direction beside the one being made.
TEST_F(ExecutorOnDry, HoldsFewInputs) {
  for_all([](int stages, int microbatches, int stage) {
    const auto backend = open();
    {
      const Pipeline plain{.stages = stages};
      Fake fake(*backend, plain, stage);
      execute(training_program(plain, microbatches, stage), plain, fake, *backend,
              pipe_of(stages, stage));
    }

    const auto held = static_cast<std::size_t>(std::min(stages - stage, microbatches));
    const bool above = stage > 0, below = stage < stages - 1;
    EXPECT_EQ(peak(*backend, MemoryKind::saved), held * saved_bytes);
    // A gradient arrives while all inputs are held; an activation is one of them.
    EXPECT_EQ(peak(*backend, MemoryKind::boundary),
              ((above ? held : 0) + (below ? 1 : 0)) * tensor_bytes);
    EXPECT_LE(peak(*backend, MemoryKind::transient), (1U + above + below) * tensor_bytes);
    EXPECT_EQ(backend->account().live_all, 0U);
  });
}

// Beside 1F1B's inputs, what weight gradients read of as many microbatches as they are late, and of
// the one at work.
TEST_F(ExecutorOnDry, ZeroBubbleHoldsTheInputsOf1F1B) {
  for_all([](int stages, int microbatches, int stage) {
    const auto backend = open();
    {
      const Pipeline halves{ScheduleKind::zero_bubble, stages};
      Fake fake(*backend, halves, stage);
      execute(training_program(halves, microbatches, stage), halves, fake, *backend,
              pipe_of(stages, stage));
    }

    const auto held = static_cast<std::size_t>(std::min(stages - stage, microbatches));
    const auto late = static_cast<std::size_t>(stage > 0 ? std::min(stage + 1, microbatches) : 0);
    EXPECT_EQ(peak(*backend, MemoryKind::saved), held * saved_bytes);
    EXPECT_EQ(peak(*backend, MemoryKind::gathered), late * saved_bytes / 2);
    EXPECT_EQ(backend->account().live_all, 0U);
  });
}

// Tensors go from chunk to chunk, by messages or within the one stage.
TEST_F(ExecutorOnDry, CallsChunksInTheProgramsOrder) {
  for (int stages = 1; stages <= 4; ++stages)
    for (int chunks = 2; chunks <= 3; ++chunks)
      for (int stage = 0; stage < stages; ++stage) {
        const Pipeline pipe{ScheduleKind::interleaved, stages, chunks};
        const auto backend = open();
        Fake fake(*backend, pipe, stage);
        const auto program = training_program(pipe, 2 * stages, stage);
        const auto comm = pipe_of(stages, stage);

        execute(program, pipe, fake, *backend, comm);

        EXPECT_EQ(fake.calls, work_of(program));
        const auto each = 2 * stages * static_cast<std::int64_t>(tensor_bytes);
        const bool first = stage == 0, last = stage == stages - 1;
        EXPECT_EQ(comm.down.bytes_sent(), stages == 1 ? 0 : (chunks - last) * each);
        EXPECT_EQ(comm.up.bytes_sent(), stages == 1 ? 0 : (chunks - first) * each);
        EXPECT_EQ(backend->races(), std::vector<std::string>{});
        EXPECT_EQ(backend->account().live_all, 0U);
      }
}

// Each message goes to the stage beside this one that has the chunk next to it, and the last stage
// hands on to itself. Of both chunks together a stage holds what the first stage of 1F1B does.
TEST_F(ExecutorOnDry, FoldsItsChunks) {
  for (int stages = 1; stages <= 4; ++stages)
    for (int stage = 0; stage < stages; ++stage) {
      const Pipeline pipe{ScheduleKind::zbv, stages, 2};
      const int microbatches = 2 * stages + 1;
      const auto backend = open();
      const auto comm = pipe_of(stages, stage);
      const auto program = training_program(pipe, microbatches, stage);
      {
        Fake fake(*backend, pipe, stage);
        execute(program, pipe, fake, *backend, comm);
        EXPECT_EQ(fake.calls, work_of(program));
      }

      const auto each = microbatches * static_cast<std::int64_t>(tensor_bytes);
      EXPECT_EQ(comm.down.bytes_sent(), stage < stages - 1 ? 2 * each : 0);
      EXPECT_EQ(comm.up.bytes_sent(), stage > 0 ? 2 * each : 0);
      EXPECT_EQ(peak(*backend, MemoryKind::saved),
                2 * static_cast<std::size_t>(stages) * saved_bytes);
      EXPECT_EQ(peak(*backend, MemoryKind::gathered),
                static_cast<std::size_t>(2 * stage + 1) * saved_bytes / 2);
      EXPECT_EQ(backend->races(), std::vector<std::string>{});
      EXPECT_EQ(backend->account().live_all, 0U);
    }
}

TEST_F(ExecutorOnDry, NamesWhatIsInFlightWhenAStageFails) {
  struct Case {
    Instruction at;
    std::vector<std::string> left;
  };
  const auto sent = [](int m) {
    return fmt::format("send of the stage boundary, microbatch {}", m);
  };
  // Of stage 1 of 3: two forwards ahead, then one of each in turn.
  for (const auto& [at, left] :
       {Case{{Do::forward, 0}, {}}, Case{{Do::forward, 1}, {sent(0)}},
        Case{{Do::backward, 0}, {sent(1)}}, Case{{Do::forward, 3}, {sent(2), sent(1)}}}) {
    SCOPED_TRACE(describe(at));
    const auto backend = open();
    const Pipeline plain{.stages = 3};
    std::optional<Fake> fake(std::in_place, *backend, plain, 1);
    fake->fails_at = at;

    const auto pipe = pipe_of(3, 1);
    EXPECT_THROW(execute(training_program(plain, 4, 1), plain, *fake, *backend, pipe), Error);

    auto named = pipe.down.abandoned();
    std::ranges::sort(named);
    auto expected = left;
    std::ranges::sort(expected);
    EXPECT_EQ(named, expected);
    fake.reset();
    EXPECT_EQ(backend->account().live_all, left.size() * tensor_bytes);  // MPI may still read it
    pipe.down.drain();
    EXPECT_EQ(pipe.down.abandoned(), std::vector<std::string>{});
    EXPECT_EQ(backend->account().live_all, 0U);
  }
}

TEST_F(ExecutorOnDry, StagesThatDoNotTrainRunForwardOnly) {
  const auto backend = open();
  const Pipeline plain{.stages = 3};
  Fake fake(*backend, plain, 1);

  execute(forward_program(plain, 4, 1), plain, fake, *backend, pipe_of(3, 1));

  EXPECT_EQ(fake.calls,
            (Program{{Do::forward, 0}, {Do::forward, 1}, {Do::forward, 2}, {Do::forward, 3}}));
}

}  // namespace
}  // namespace trireme
