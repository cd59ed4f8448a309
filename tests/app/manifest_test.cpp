#include "tests/app/training.hpp"
#include "tests/support/sealed.hpp"

namespace trireme {

// Manifests that are whole, and say what no program of ours writes: refused before anything of the
// size that they say is made.
TEST_F(Training, ManifestsThatSayWhatNoProgramWrites) {
  ASSERT_EQ(here("$TRIREME train deck.toml && mv runs/deck/checkpoints/step-00000012 c").code, 0);
  const auto manifest = nlohmann::json::parse(contents_of(folder / "c/manifest.json"));
  const auto with = [&](const std::string& line, const std::string& other) {
    auto content = manifest.at("content");
    for (const auto* field : {"model", "deck"})
      for (auto& l : content.at("checkpoint").at(field))
        if (l.get<std::string>().starts_with(line)) l = other;
    folder.write("c/manifest.json", test::sealed(content));
  };
  const auto refused = [&](const std::string& command, std::vector<std::string> words) {
    const auto r = here("$TRIREME " + command);
    EXPECT_TRUE(r.code > 0 && r.code < 124) << command << " ends with " << r.code;
    for (const auto& word : words)
      EXPECT_NE(r.err.find(word), std::string::npos) << command << "\n" << r.err;
  };
  with("preset = ", "preset = \"from:" + (folder / "c") + "\"");
  for (const char* command :
       {"evaluate c --data text.tokens", "generate c --prompt a", "export c hf", "compare c c",
        "check deck.toml 'model.preset=\"from:c\"'"})
    refused(command, {"cannot refer to another checkpoint"});
  refused("train deck.toml --restart c --run-dir more",
          {"rank-00000.h5: it belongs to another checkpoint"});
  with("layers = ", "layers = 10000");
  refused("evaluate c --data text.tokens", {"contains another model", "blocks.2."});
}

}  // namespace trireme
