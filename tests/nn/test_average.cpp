// The mean of several models.
#include "support/program.h"

#include <seppo/nn/io/checkpoint.h>
#include <seppo/nn/io/text_file.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/run/average.h>
#include <seppo/nn/run/run_folder.h>

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

using namespace seppo;
using test::Folder;
namespace fs = std::filesystem;

namespace {

struct Model {
  explicit Model(std::uint64_t seed, int width = 3)
      : parameters(seed), a(parameters.root() / "a", width, 4), b(parameters.root() / "b", 4, 2) {}
  Parameters parameters;
  Linear a, b;
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_mean_of_models) {
  const Folder folder("average");
  std::vector<fs::path> paths;
  std::vector<double> sums;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const Model model(seed);
    paths.push_back(folder.path / std::to_string(seed));
    save_checkpoint(paths.back(), model.parameters, {});
    sums.resize(model.parameters.count());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(model.parameters.values()[i]);
  }
  Model mean(4);
  load_average(paths, mean.parameters);
  for (std::size_t i = 0; i < sums.size(); ++i)
    BOOST_CHECK_EQUAL(mean.parameters.values()[i], static_cast<real>(sums[i] / 3));
  const std::vector<real> before(mean.parameters.values().begin(), mean.parameters.values().end());
  Model partly(6);
  partly.parameters.freeze("b.");
  const std::vector<real> frozen(partly.b.weight.values().begin(), partly.b.weight.values().end());
  load_average(paths, partly.parameters);
  BOOST_CHECK(std::ranges::equal(partly.b.weight.values(), frozen));
  BOOST_CHECK(std::ranges::equal(partly.a.weight.values(), mean.a.weight.values()));
  save_checkpoint(paths[2], Model(5, 7).parameters, {});
  BOOST_CHECK_THROW(load_average(paths, mean.parameters), FormatError);
  BOOST_CHECK_THROW(load_average({}, mean.parameters), ArgumentError);
  BOOST_CHECK(std::equal(before.begin(), before.end(), mean.parameters.values().begin()));
}

// A run that is killed between a model and its checkpoint goes on from the previous one, whose mean is of the models
// up to it.
BOOST_AUTO_TEST_CASE(a_killed_run_has_the_models_of_its_mean) {
  const Folder folder("average");
  RunFolder run(folder.path / "run");
  const auto write = [](const fs::path& file) { write_text(file, "a model"); };
  for (int step = 1; step < 5; ++step) {
    run.save_last(step, 2, write);
    run.save_checkpoint(step, 1, write);
  }
  run.save_last(5, 2, write);
  run.go_on_from(4);
  const fs::path last = folder.path / "run/last";
  BOOST_CHECK(run.last_models(2) == (std::vector<fs::path>{last / "3.safetensors", last / "4.safetensors"}));
}
