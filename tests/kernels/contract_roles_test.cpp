// Every operation on every backend: it reads, writes and adds as its operands' roles say, accesses
// nothing else, and agrees with the reference, roughly (the suites of single operations have tight
// bounds). Operations come from the list of all: one without examples does not compile.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "kernels/ref/ref.hpp"
#include "tests/kernels/examples/all.hpp"
#include "tests/support/contract.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

constexpr auto queue = Queue::compute;

// f(place, view, role, need) of each operand, absent ones too.
template <class O, class F>
void each_place(O& o, const F& f) {
  int place = 0;
  std::remove_const_t<O>::operands(
      o, [&](auto& view, Role role, Need need = Need::must) { f(place++, view, role, need); });
}

template <class O>
std::vector<Operand> operands_of(const O& o) {
  std::vector<Operand> there;
  each_place(o, [&](int place, const auto& view, Role role, Need) {
    if (view) there.push_back({place, view, role});
  });
  return there;
}

// One example in memory of a backend.
template <class O>
struct Trial {
  Trial(Backend& b, DType compute, DType tested, const Example<O>& example)
      : memory(b, compute, tested), operation(example.make(memory)) {
    memory.declare(operands_of(operation));
  }
  Trial(Lab& lab, const Example<O>& example)
      : Trial(lab.backend, lab.compute, lab.tested, example) {}

  void put() { memory.backend.put(queue, operation); }
  std::vector<Operands::Result> results() {
    return memory.results([this] { put(); });
  }

  Operands memory;
  O operation;
};

// f(example) of every operation's examples; failures say which.
template <class F>
void for_each_example(const F& f) {
  for_each_operation([&]<class O>(Of<O> of) {
    for (const auto& example : examples(of)) {
      SCOPED_TRACE(fmt::format("{}: {}", O::name, example.name));
      f(example);
    }
  });
}

class RolesContract : public ContractTest {
 protected:
  static bool has(const auto& example) {
    return !example.on_host_alone || GetParam().name.find("cuda") == std::string::npos;
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, RolesContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

// GPUs other than Hopper do not multiply in fp8.
template <class O>
bool multiplies(const Example<O>&, const Backend& b) {
  return !std::is_same_v<O, kernel::Fp8Matmul> || b.properties().fp8;
}

TEST_P(RolesContract, OperandsAreUsedAsTheirRolesSay) {
  run([](Lab& lab) {
    for_each_example([&](const auto& example) {
      if (!has(example) || !multiplies(example, lab.backend)) return;
      Trial trial(lab, example);
      EXPECT_THAT(trial.memory.broken_promises([&] { trial.put(); }), testing::IsEmpty());
    });
  });
}

TEST_P(RolesContract, ResultsAreThoseOfTheReference) {
  for_each_example([&](const auto& example) {
    if (!has(example)) return;
    std::vector<Operands::Result> want, got;
    oracle([&](Lab& lab) { want = Trial(lab, example).results(); });
    run([&](Lab& lab) {
      got = multiplies(example, lab.backend) ? Trial(lab, example).results() : want;
    });
    EXPECT_THAT(differences(got, want, GetParam().compute), testing::IsEmpty());
  });
}

// What is written to the operands at these places.
std::vector<std::vector<std::byte>> bytes_at(const std::vector<Operands::Result>& results,
                                             const std::vector<int>& places) {
  std::vector<std::vector<std::byte>> bytes;
  for (const auto& r : results)
    if (std::ranges::find(places, r.operand.place) != places.end()) bytes.push_back(r.bytes);
  return bytes;
}

// dx is operand 0, dw and db are 1 and 2. A device has other kernels for wider rows, and for those
// that are a multiple of what one access moves; of more rows than it takes at once it adds up sums.
TEST_P(RolesContract, PartsOfANormsGradientHaveItsBits) {
  for (const auto& [T, C] : {std::pair(1, 7),
                             {37, 7},
                             {37, 72},
                             {33, 129},
                             {9, 768},
                             {7, 776},
                             {5, 1600},
                             {5, 2312},
                             {3, 4104},
                             {on_device() ? 2150 : 215, 16},
                             {on_device() ? 1077 : 7, 776}})
    for (const auto& [kind, wanted, how] :
         {std::tuple(NormFlavour::layer, "xwb", Accumulate::overwrite),
          {NormFlavour::layer, "xwbs", Accumulate::add},
          {NormFlavour::rms, "xw", Accumulate::add},
          {NormFlavour::rms, "xws", Accumulate::overwrite}}) {
      const auto example = norm_grad_example(kind, wanted, how, T, C);
      SCOPED_TRACE(example.name);
      run([&](Lab& lab) {
        const auto all = Trial(lab, example).results();
        Trial input(lab, example), weights(lab, example);
        input.operation.dw_C = input.operation.db_C = {};
        weights.operation.dx_TC = {};
        EXPECT_TRUE(bytes_at(input.results(), {0}) == bytes_at(all, {0})) << "dx alone";
        EXPECT_TRUE(bytes_at(weights.results(), {1, 2}) == bytes_at(all, {1, 2})) << "dw, db alone";
      });
    }
}

// Places that may be absent are so in an example, and not in another. A workspace is there when
// the backend wants one.
TEST(Examples, HaveWhatMayBeAbsentAndLackIt) {
  Ref ref;
  for_each_operation([&]<class O>(Of<O> of) {
    std::map<int, std::pair<bool, bool>> seen;  // there, absent
    std::set<Accumulate> ways;
    for (const auto& example : examples(of)) {
      Operands memory(ref, DType::f32, DType::f32);
      const O o = example.make(memory);
      check_operands(o);
      each_place(o, [&](int place, const auto& view, Role role, Need need) {
        if (need == Need::must || role == Role::scratch) return;
        (view ? seen[place].first : seen[place].second) = true;
      });
      if constexpr (requires { o.how; }) ways.insert(o.how);
    }
    for (const auto& [place, both] : seen) {
      EXPECT_TRUE(both.first) << O::name << ": no example has operand " << place;
      EXPECT_TRUE(both.second) << O::name << ": no example lacks operand " << place;
    }
    if constexpr (requires(O o) { o.how; }) {
      EXPECT_EQ(ways.size(), 2U) << O::name << ": examples both overwrite and add";
    }
  });
}

TEST(Examples, AreRefusedWithoutWhatMustBeThere) {
  Ref ref;
  for_each_example([&]<class O>(const Example<O>& example) {
    Operands memory(ref, DType::f32, DType::f32);
    const O whole = example.make(memory);
    each_place(whole, [&](int lost, const auto&, Role, Need need) {
      O without = whole;
      each_place(without, [&](int place, auto& view, Role, Need) {
        if (place == lost) view = {};
      });
      const auto refused = message_of<Error>([&] { check_operands(without); });
      if (need == Need::may) {
        EXPECT_EQ(refused, "");
      } else {
        EXPECT_THAT(refused, testing::HasSubstr(fmt::format("{}: operand {} ", O::name, lost)));
      }
    });
  });
}

}  // namespace
}  // namespace trireme
