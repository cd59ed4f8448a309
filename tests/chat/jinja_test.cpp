// The Python process that runs chat templates.
#include "lib/chat/jinja.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "lib/base/error.hpp"
#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;

const std::vector<OrderedJson> no_messages;
const OrderedJson no_tools = OrderedJson::array();

Jinja compiled(const char* text, OrderedJson variables = OrderedJson::object()) {
  return {text, std::move(variables), {"<g>", "</g>"}};
}
JinjaResult rendered(const char* text, OrderedJson variables = OrderedJson::object()) {
  return compiled(text).render({no_messages, no_tools, variables});
}

// As transformers sets Jinja up.
TEST(Jinja, HasTheSettingsOfTransformers) {
  EXPECT_EQ(rendered("{% if true %}\n  a\n{% endif %}\n  {% set x = 1 %}\nb\n").text, "  a\nb");
  EXPECT_EQ(rendered("{{ x | tojson }} {{ x | tojson(indent=1) }}",
                     {{"x", {{"ß<", {1.0, nullptr, 1e100}}, {"a", true}}}})
                .text,
            "{\"ß<\": [1.0, null, 1e+100], \"a\": true} "
            "{\n \"ß<\": [\n  1.0,\n  null,\n  1e+100\n ],\n \"a\": true\n}");
  EXPECT_EQ(rendered("{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}"
                     "{% endfor %}")
                .text,
            "13");
  EXPECT_EQ(rendered("a{% generation %}b{{ x }}{% endgeneration %}c", {{"x", 1}}).text,
            "a<g>b1</g>c");
  EXPECT_EQ(rendered("{{ strftime_now('%Y') | length }}{{ tools is none }}{{ messages | length }}"
                     "{{ add_generation_prompt }}{{ nothing }}")
                .text,
            "4True0False");
  EXPECT_EQ(rendered("{{ raise_exception('no ' + x) }}", {{"x", "ü"}}).error, "no ü");
  EXPECT_EQ(
      compiled("{{ b }}{{ s }}", {{"s", "<s>"}}).render({no_messages, no_tools, {{"b", 2}}}).text,
      "2<s>");
}

TEST(Jinja, NamesTheLineOfAMistake) {
  EXPECT_THAT(message_of<Error>([] { compiled("a\n{% for %}"); }),
              HasSubstr("not valid Jinja: line 2: "));
  EXPECT_THAT(message_of<Error>([] { compiled("{% generation %}"); }), HasSubstr("endgeneration"));
}

// A template comes from a stranger: it neither reads the machine nor takes it.
TEST(Jinja, HostileTemplatesAreStopped) {
  EXPECT_THAT(rendered("{{ ''.__class__.__mro__ }}").error, HasSubstr("unsafe"));
  EXPECT_THAT(rendered("{{ messages.append(1) }}").error, HasSubstr("unsafe"));
  EXPECT_NE(rendered("{% include '/etc/passwd' %}").error, "");
  EXPECT_THAT(rendered("{{ range(1000000) | length }}").error, HasSubstr("Range too big"));
  EXPECT_THAT(rendered("{{ ('a' * 3000000000) | length }}").error, HasSubstr("memory"));
  EXPECT_NE(rendered("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").error, "");
}

TEST(Jinja, EndlessTemplatesAreStopped) {
  const auto begin = std::chrono::steady_clock::now();
  const Jinja jinja(
      "{% set n = range(99999) %}{% for a in n %}{% for b in n %}{% for c in n %}{% endfor %}"
      "{% endfor %}{% endfor %}",
      OrderedJson::object(), {}, {.seconds = 1});
  // Callers must not ask again in another form.
  try {
    static_cast<void>(jinja.render({no_messages, no_tools, OrderedJson::object()}));
    ADD_FAILURE() << "it ended";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("takes too long"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Jinja, ManyThreadsMayRender) {
  const auto jinja = compiled("{{ n }}");
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const OrderedJson variables{{"n", 1000 * t + i}};
        EXPECT_EQ(jinja.render({no_messages, no_tools, variables}).text,
                  std::to_string(1000 * t + i));
      }
    });
}

TEST(Jinja, SaysWhatIsMissing) {
  ASSERT_EQ(setenv("TRIREME_PYTHON", "/no/python", 1), 0);
  EXPECT_THAT(message_of<Error>([] { compiled("a"); }),
              testing::AllOf(HasSubstr("Python is missing"), HasSubstr("python3-jinja2")));
  ASSERT_EQ(setenv("TRIREME_PYTHON", "/bin/true", 1), 0);
  EXPECT_THAT(message_of<Error>([] { compiled("a"); }),
              HasSubstr("/bin/true lacks the package jinja2"));
  ASSERT_EQ(unsetenv("TRIREME_PYTHON"), 0);
}

}  // namespace
}  // namespace trireme
