// --optimizer: every one is saved in the config, and kept by a run that is resumed.
// needs: programs: reverse
#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

using namespace test;
using Words = std::vector<std::string>;

BOOST_AUTO_TEST_CASE(every_optimiser_is_kept_by_a_resumed_run) {
  const Folder folder("optimisers");
  const auto run = [&](const Words& words) {
    const Result r = folder.run(words);
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  };
  std::set<std::string> models;
  for (const std::string optimizer : {"adam", "sgd", "adagrad"}) {
    const std::string whole = optimizer, cut = optimizer + "-cut";
    for (const auto& [out, steps] : {std::pair{whole, "30"}, {cut, "13"}})
      run({"reverse",      "train", "--optimizer",  optimizer, "--momentum",    "0.7", "--d-model", "8",
           "--dropout",    "0.1",   "--batch-size", "16",      "--epoch-steps", "9",   "--epochs",  "6",
           "--log-format", "none",  "--max-steps",  steps,     "--out",         out});
    run({"reverse", "train", "--resume", cut, "--max-steps", "30", "--threads", "2"});
    for (const char* file : {"checkpoints/30.safetensors", "model.safetensors", "config.json"})
      BOOST_CHECK_MESSAGE(read(folder.path / whole / file) == read(folder.path / cut / file), optimizer << file);
    models.insert(read(folder.path / whole / "model.safetensors"));
    const auto config = nlohmann::json::parse(read(folder.path / whole / "config.json"));
    BOOST_CHECK_EQUAL(config["training"]["optimizer"], optimizer);
    check_refused(folder, {"reverse", "train", "--resume", cut, "--optimizer", "sgd"}, 2,
                  "--optimizer: cannot be given with --resume");
  }
  BOOST_CHECK_EQUAL(models.size(), 3u);
}
