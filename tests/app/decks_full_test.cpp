// The decks in inputs/ of large models, planned.
#include "tests/app/training.hpp"

namespace trireme {

// What a deck's comments say of machines: their commands, word for word.
TEST_F(Training, DecksFitTheMachinesThatTheirCommentsName) {
  ASSERT_EQ(here("cp text.tokens corpus.tokens").code, 0);
  const std::string host = " model.vocab=32000 run.backend=host";
  for (const auto& [name, more] : {std::pair<std::string, std::string>("gpt2_124m_gpu", ""),
                                   {"llama_1b", host},
                                   {"llama_7b", host},
                                   {"llama_70b", host}}) {
    const auto path = std::filesystem::current_path() / "inputs" / (name + ".toml");
    const auto text = contents_of(path);
    const std::string begin = "build/trireme plan inputs/" + name + ".toml ";
    const auto at = text.find(begin);
    ASSERT_NE(at, std::string::npos) << name;
    const auto rest = text.substr(at + begin.size(), text.find('\n', at) - at - begin.size());
    ASSERT_NE(rest.find("--device-memory"), std::string::npos) << name;
    const auto r = here("$TRIREME plan " + path.string() + " " + rest + more);
    EXPECT_EQ(r.code, 0) << name << "\n" << r.err;
  }
}

}  // namespace trireme
