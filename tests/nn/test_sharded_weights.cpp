// Weights in several files, of which a model takes a part: what it skips stays, and may be missing.
#include "support/program.h"

#include <seppo/nn/io/checkpoint.h>
#include <seppo/nn/io/sharded_weights.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

using namespace seppo;
using test::Folder;

namespace {

struct Model {
  Parameters parameters;
  Tensor body, head, bias;

  explicit Model(std::uint64_t seed)
      : parameters(seed),
        body(parameters.root().parameter("body", {3, 2}, init_normal(1))),
        head(parameters.root().parameter("head.weight", {2, 2}, init_normal(1))),
        bias(parameters.root().parameter("head.bias", {2}, init_normal(1))) {}
};

bool is_same(const Tensor& a, const Tensor& b) { return std::ranges::equal(a.values(), b.values()); }

}  // namespace

// As from one file (test_weights.cpp), wherever the tensors lie; no file has the bias of the head.
BOOST_AUTO_TEST_CASE(what_is_skipped_stays_and_may_be_missing) {
  for (const bool has_head_elsewhere : {false, true}) {
    const Folder folder("sharded-weights");
    const Model written(1);
    Model model(2);
    const Model before(2);
    const auto file_of = [&](const std::string& name) { return name == "body" || !has_head_elsewhere ? "0" : "1"; };
    nlohmann::json map;
    for (const char* name : {"body", "head.weight"}) map[name] = file_of(name);
    for (const std::string file : {"0", "1"}) {
      const auto is_elsewhere = [&](const std::string& name) { return name == "head.bias" || file_of(name) != file; };
      if (file == "0" || has_head_elsewhere)
        save_weights(folder.path / file, written.parameters, {.skip = is_elsewhere});
    }
    folder.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
    const auto is_head = [](const std::string& name) { return name.starts_with("head."); };
    load_weights(find_weights(folder.path), model.parameters, {.skip = is_head});
    BOOST_CHECK(is_same(model.body, written.body));
    BOOST_CHECK(is_same(model.head, before.head) && is_same(model.bias, before.bias));
  }
}

// What does not fit is told, and the rest loaded: no file has the bias, nor one of the stacked tensors of `pair`, and
// `head.weight` has another shape.
BOOST_AUTO_TEST_CASE(what_fits_is_loaded_if_asked_for) {
  const Folder folder("sharded-weights");
  Parameters written(1);
  for (const char* name : {"body", "more", "pair1", "pair2"}) written.root().parameter(name, {3, 2}, init_normal(1));
  written.root().parameter("head.weight", {5, 5}, init_normal(1));
  nlohmann::json map;
  for (const auto& [name, file] :
       {std::pair("body", "0"), {"pair1", "0"}, {"pair2", "1"}, {"head.weight", "1"}, {"more", "1"}})
    map[name] = file;
  for (const std::string file : {"0", "1"})
    save_weights(folder.path / file, written,
                 {.skip = [&](const std::string& name) { return map[name].get<std::string>() != file; }});
  folder.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  Model model(2);
  const Model before(2);
  const Tensor pair = model.parameters.root().parameter("pair", {9, 2}, init_ones());
  WeightOptions options{.rename = [](const std::string& name) {
    return name == "pair" ? std::vector<std::string>{"pair1", "pair2", "pair3"} : std::vector{name};
  }};
  BOOST_CHECK_EXCEPTION(
      load_weights(find_weights(folder.path), model.parameters, options), FormatError, [](const FormatError& e) {
        return std::string(e.what()).find("no file has head.bias; no file has pair3 for pair") != std::string::npos;
      });
  BOOST_CHECK(is_same(model.body, before.body));
  options.strict = false;
  std::string told;
  for (const std::string& line : load_weights(find_weights(folder.path), model.parameters, options))
    told += line + "\n";
  for (const char* name : {"head.weight", "head.bias", "pair", "more"})
    BOOST_CHECK_MESSAGE(told.find(name) != told.npos, name << " in " << told);
  BOOST_CHECK_MESSAGE(told.find("body") == told.npos, told);
  BOOST_CHECK(is_same(model.body, written.find("body")->tensor));
  BOOST_CHECK(is_same(model.head, before.head) && is_same(model.bias, before.bias));
  BOOST_CHECK(std::ranges::all_of(pair.values(), [](real x) { return x == 1; }));
}
