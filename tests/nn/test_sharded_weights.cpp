// Weights in several files, of which a model takes a part: what it skips stays, and may be missing.
#include "support/program.h"

#include <seppo/nn/io/checkpoint.h>
#include <seppo/nn/io/sharded_weights.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
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
