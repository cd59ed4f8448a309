// Machine files: what is wrong with one is said with its place.
#include "lib/predict/machine_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/keys/toml_reader.hpp"
#include "lib/predict/machine_table.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/source_dir.hpp"

namespace trireme {

using testing::AllOf;
using testing::HasSubstr;

static const std::string good =
    "[machine]\n"
    "name = \"a\"\n"
    "source = \"b\"\n"
    "backend = \"host\"\n"
    "ranks_of_node = 2\n";

static std::string refusal(const std::string& text) {
  return message_of([&] { parse_machine(text, "m.toml"); });
}

TEST(MachineFile, SaysWhereItIsWrong) {
  EXPECT_THAT(refusal("[machine]\nnam = \"x\"\n"),
              AllOf(HasSubstr("m.toml:2:1"), HasSubstr("did you mean 'name'?")));
  EXPECT_THAT(refusal("[machine]\nname = \"x\"\n"),
              AllOf(HasSubstr("m.toml:1:1"), HasSubstr("machine has no 'source'")));
  EXPECT_THAT(refusal(good + "[memery]\n"),
              AllOf(HasSubstr("m.toml:6:1"), HasSubstr("did you mean [memory]?")));
  EXPECT_THAT(refusal(good + "[memory]\nbandwidth = -1\n"),
              AllOf(HasSubstr("m.toml:7:13"),
                    HasSubstr("memory.bandwidth = -1 is out of range: at least 1e-15")));
  EXPECT_THAT(refusal(good + "[memory]\nbandwidth = \"fast\"\n"),
              AllOf(HasSubstr("m.toml:7:13"), HasSubstr("takes a number, not the text")));
  EXPECT_THAT(refusal(good + "[far]\nshared_by = 1.5\n"),
              HasSubstr("takes a whole number, not the number 1.5"));
  EXPECT_THAT(refusal(good + "[product]\n"),
              HasSubstr("section product must be written [[product]]"));
  EXPECT_THAT(refusal("x = 1\n"), HasSubstr("m.toml:1:1: key 'x' is not in any section"));
  EXPECT_THAT(refusal("# nothing\n"), HasSubstr("there is no section [machine]"));
  EXPECT_THAT(refusal(good + "[machine\n"), HasSubstr("m.toml:6"));
}

TEST(MachineFile, NumbersAreThoseOfMachines) {
  std::string many = good;
  many.replace(many.find("= 2"), 3, "= 4294967296");
  EXPECT_THAT(refusal(many),
              AllOf(HasSubstr("m.toml:5:17"), HasSubstr("out of range: 1 to 1073741824")));
  EXPECT_THAT(refusal(good + "[near]\nbandwidth = 1e-320\n"), HasSubstr("is out of range"));
}

TEST(MachineFile, OperationsAreThoseOfSteps) {
  const auto operation = [](const std::string& name) {
    return good + "[[operation]]\nname = \"" + name +
           "\"\ndtype = \"f32\"\nbytes = [1]\nseconds = [1]\n";
  };
  EXPECT_THAT(refusal(operation("emebdding")), AllOf(HasSubstr("m.toml:7:8: operation.name"),
                                                     HasSubstr("did you mean \"embedding\"")));
  EXPECT_THAT(refusal(operation("matmul")), HasSubstr("operation.name = \"matmul\" is not known"));
  for (const auto* name : {"copy", "add", "cross_entropy_grad", "activate_grad", "column_sum"})
    EXPECT_EQ(parse_machine(operation(name), "m.toml").operations.size(), 1U) << name;
}

TEST(MachineFile, NothingIsGivenTwice) {
  const auto product = [](const std::string& layout) {
    return "[[product]]\ndtype = \"f32\"\n" + layout + "m = [1]\nn = [1]\nk = [1]\nflops = [1]\n";
  };
  const std::string nt = "layout = \"nt\"\n";
  EXPECT_THAT(refusal(good + product("") + product("")),
              HasSubstr("m.toml:12:1: there is already a [[product]] with this dtype and layout"));
  EXPECT_EQ(parse_machine(good + product("") + product(nt), "m.toml").products.size(), 2U);
  const std::string copy =
      "[[operation]]\nname = \"copy\"\ndtype = \"f32\"\nbytes = [1]\nseconds = [1]\n";
  EXPECT_THAT(refusal(good + copy + copy),
              HasSubstr("there is already an [[operation]] with this name and dtype"));
}

TEST(MachineFile, ListsFitEachOther) {
  const std::string operation = good + "[[operation]]\nname = \"copy\"\ndtype = \"f32\"\n";
  EXPECT_THAT(refusal(operation + "bytes = [1, 2]\nseconds = [1]\n"),
              HasSubstr("operation.seconds must have 2 numbers, but has 1"));
  EXPECT_THAT(
      refusal(operation + "bytes = [2, 1]\nseconds = [1, 1]\n"),
      AllOf(HasSubstr("m.toml:9:13"), HasSubstr("must be in ascending order, but 1 follows 2")));
  EXPECT_THAT(
      refusal(good + "[[product]]\ndtype = \"f16\"\nm = [1]\nn = [1]\nk = [1]\nflops = [1]\n"),
      AllOf(HasSubstr("m.toml:7:9"), HasSubstr("\"f16\" is not known"),
            HasSubstr("\"bf16\", \"f32\" or \"f64\"")));
  EXPECT_THAT(
      refusal(good + "[[product]]\ndtype = \"f32\"\nm = [1]\nn = [1]\nk = [1, 2]\nflops = [1]\n"),
      HasSubstr("product.flops must have 2 numbers, but has 1"));
}

TEST(MachineFile, ReadsBackWhatItWrites) {
  MachineModel m = parse_machine(good, "m.toml");
  m.measured = true;
  m.threads = 3;
  m.memory_bytes = 8e9;
  m.memory_bandwidth = 1.5e10;
  m.launch = 2e-6;
  m.operation = 3e-7;
  m.agreement = 4e-6;
  m.disk_write = 2e8;
  m.near = {.latency = 1e-6, .bandwidth = 5e9, .shared_by = 2};
  m.far = {.latency = 1e-5, .bandwidth = 6e8, .shared_by = 4};
  m.peak = {{DType::bf16, 9.89e14}, {DType::f32, 6.7e13}, {DType::f64, 3.4e13}};
  m.peak_tf32 = 4.95e14;
  m.products = {{DType::f32, MatmulLayout::tn, {32, 24576}, {128}, {768}, {1e9, 2e9}}};
  m.attention = {
      {DType::bf16, Direction::backward, 64, {128, 256}, {3e9, 4e9}, AttentionSpan::document}};
  m.operations = {{"norm", DType::f32, {1e3, 1e6}, {1e-6, 1e-4}}};
  const auto text = machine_text(m);
  const auto again = parse_machine(text, "again.toml");

  EXPECT_EQ(machine_text(again), text);
  const auto written = read_toml(text, "again.toml");
  for (const auto& section : machine_sections()) {
    const auto found = std::ranges::find(written, section.name, &RawSection::name);
    ASSERT_NE(found, written.end()) << section.name;
    for (const auto& key : section.keys)
      EXPECT_EQ(std::ranges::count(found->entries, key.name, &RawEntry::key), 1)
          << section.name << "." << key.name;
  }
  EXPECT_EQ(again.products[0].m, m.products[0].m);
  EXPECT_EQ(again.products[0].layout, MatmulLayout::tn);
  EXPECT_EQ(again.attention[0].direction, Direction::backward);
  EXPECT_EQ(again.attention[0].span, AttentionSpan::document);
  EXPECT_EQ(again.near.bandwidth, 5e9);
  EXPECT_EQ(again.far.bandwidth, 6e8);
  EXPECT_EQ(again.peak_tf32, 4.95e14);
  EXPECT_EQ(again.disk_write, 2e8);
  EXPECT_TRUE(again.measured);
}

TEST(MachineFile, ShippedOnesAreSoundAndSayThatTheyAreNotMeasured) {
  int files = 0;
  for (const auto& e :
       std::filesystem::directory_iterator(test::source_dir() / "inputs/machines")) {
    const auto m = load_machine(e.path());
    EXPECT_FALSE(m.measured) << e.path();
    EXPECT_EQ(m.backend, "cuda");
    ++files;
  }
  EXPECT_EQ(files, 3);
}

TEST(MachineFileReference, DocsHaveItsTable) {
  std::ifstream page(test::source_dir() / "docs/scale.md");
  std::stringstream text;
  text << page.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr(machine_reference()))
      << "the table of docs/scale.md is not that of lib/predict/machine_table.cpp:\n"
      << machine_reference();
}

}  // namespace trireme
