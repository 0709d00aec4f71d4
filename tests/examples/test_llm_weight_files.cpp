// llm: weights in several files, split by a script independent of our code, and invalid indices.
// needs: programs: llm
#include <seppo/models/lora.h>
#include <seppo/nn/io/sharded_weights.h>
#include "llm/folder.h"
#include "support/program.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/ops.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <sys/prctl.h>
#include <cstdlib>
#include <functional>
#include <set>

using namespace test;
using nlohmann::json;

namespace {

// Distributes the tensors of model.safetensors, in order of name, round-robin over the files.
constexpr const char* kSplit = R"(
import json, os, struct, sys
folder, count = sys.argv[1], int(sys.argv[2])
data = open(folder + '/model.safetensors', 'rb').read()
size = struct.unpack('<Q', data[:8])[0]
header = json.loads(data[8:8 + size])
header.pop('__metadata__')
weight_map, total = {}, 0
for n in range(count):
    name = 'model-%05d-of-%05d.safetensors' % (n + 1, count)
    entries, body = {'__metadata__': {'format': 'pt'}}, b''
    for tensor in sorted(header)[n::count]:
        begin, end = header[tensor]['data_offsets']
        entries[tensor] = dict(header[tensor], data_offsets=[len(body), len(body) + end - begin])
        body += data[8 + size + begin:8 + size + end]
        weight_map[tensor] = name
    text = json.dumps(entries).encode()
    open(folder + '/' + name, 'wb').write(struct.pack('<Q', len(text)) + text + body)
    total += len(body)
index = {'metadata': {'total_size': total}, 'weight_map': weight_map}
open(folder + '/model.safetensors.index.json', 'w').write(json.dumps(index))
os.remove(folder + '/model.safetensors')
)";

json config_of(const char* type, int width = 8, int layers = 3) {
  if (type == std::string("gpt2"))
    return {{"model_type", "gpt2"}, {"n_embd", width},   {"n_layer", layers},
            {"n_head", 2},          {"vocab_size", 257}, {"n_positions", 16}};
  return {{"model_type", "llama"},          {"hidden_size", width},
          {"intermediate_size", 4 * width}, {"num_hidden_layers", layers},
          {"num_attention_heads", 4},       {"num_key_value_heads", 2},
          {"max_position_embeddings", 16},  {"vocab_size", 257},
          {"hidden_act", "silu"},           {"tie_word_embeddings", layers > 3}};
}

// A folder m with this model, untrained.
void write_model(const Folder& folder, const json& config) {
  fs::create_directory(folder.path / "m");
  folder.write("m/config.json", config.dump());
  const seppo::HfConfig read = seppo::read_hf_config(folder.path / "m/config.json");
  seppo::Parameters parameters(1);
  const seppo::LanguageModel model(parameters.root(), read.model);
  llm::write_folder(folder.path / "m", read, parameters, {});
}

void split(const Folder& folder, int count) {
  folder.write("split.py", kSplit);
  const std::string command = "python3 '" + (folder.path / "split.py").string() + "' '" + (folder.path / "m").string() +
                              "' " + std::to_string(count);
  BOOST_REQUIRE_EQUAL(std::system(command.c_str()), 0);
}

std::vector<float> values_of(const seppo::Parameters& parameters) {
  return {parameters.values().begin(), parameters.values().end()};
}

const Words kGenerate{"llm", "generate", "--model", "m", "--max-tokens", "5", "--prompt", "a", "--temperature", "0"};

}  // namespace

BOOST_AUTO_TEST_CASE(several_files_are_one_model) {
  for (const char* type : {"llama", "gpt2"})
    for (const int count : {1, 2, 3, 5, 100}) {
      const Folder folder("llm-files");
      write_model(folder, config_of(type));
      const std::vector<float> whole = values_of(*llm::open_folder(folder.path / "m").parameters);
      const std::string text = folder.run(kGenerate).out;
      const std::string single = read(folder.path / "m/model.safetensors");
      split(folder, count);
      BOOST_REQUIRE(!fs::exists(folder.path / "m/model.safetensors"));
      BOOST_CHECK(values_of(*llm::open_folder(folder.path / "m", 7).parameters) == whole);
      const Result r = folder.run(kGenerate);
      BOOST_CHECK_MESSAGE(r.code == 0 && r.out == text, r.err);
      // If there is also a single file, the others are not even opened.
      folder.write("m/model.safetensors.index.json", "{");
      folder.write("m/model.safetensors", single);
      BOOST_CHECK_EQUAL(folder.run(kGenerate).out, text);
    }
}

// We hold queries, keys and values in one matrix; if it is stored transposed, each part is transposed separately.
BOOST_AUTO_TEST_CASE(stacks_may_be_torn) {
  const Folder folder("llm-files");
  seppo::Parameters parameters(3);
  parameters.root().parameter("a", {6, 4}, seppo::init_normal(1));
  parameters.root().parameter("b", {8}, seppo::init_normal(1));
  const std::vector<float> before = values_of(parameters);
  for (const bool transposed : {false, true}) {
    const seppo::WeightOptions options{.rename =
                                           [](const std::string& name) {
                                             return Words{name + "1", name + "2", name + "3"};
                                           },
                                       .shares =
                                           [](const std::string& name) {
                                             return name == "a" ? std::vector{1, 3, 2} : std::vector{2, 1, 1};
                                           },
                                       .transpose = [=](const std::string&) { return transposed; }};
    fs::create_directories(folder.path / "m");
    fs::remove(folder.path / "m/model.safetensors.index.json");
    seppo::save_weights(folder.path / "m/model.safetensors", parameters, options);
    split(folder, 4);
    seppo::Parameters again(0);
    again.root().parameter("a", {6, 4}, seppo::init_zeros());
    again.root().parameter("b", {8}, seppo::init_zeros());
    seppo::load_weights(seppo::find_weights(folder.path / "m"), again, options);
    BOOST_CHECK(values_of(again) == before);
  }
}

// Only one of the files is in memory at a time.
BOOST_AUTO_TEST_CASE(several_files_take_no_more_memory) {
  if (takes_memory_itself()) return;
  const Folder folder("llm-files");
  write_model(folder, config_of("llama", 256, 12));
  const double megabytes = static_cast<double>(fs::file_size(folder.path / "m/model.safetensors")) / (1 << 20);
  ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);  // huge pages, of which the programs get one more or less from run to run
  const Result single = folder.run(kGenerate);
  split(folder, 6);
  const Result several = folder.run(kGenerate);
  ::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
  BOOST_REQUIRE_EQUAL(several.out, single.out);
  BOOST_TEST_MESSAGE("a model of " << megabytes << " MB: " << single.peak_mb << " MB in one file, " << several.peak_mb
                                   << " MB in six");
  BOOST_CHECK_LT(several.peak_mb, single.peak_mb + megabytes / 6);
}

BOOST_AUTO_TEST_CASE(indices_that_are_wrong_are_refused) {
  const Folder folder("llm-files");
  write_model(folder, config_of("llama"));
  split(folder, 3);
  const std::string path = "m/model.safetensors.index.json", first = "model-00001-of-00003.safetensors",
                    second = "model-00002-of-00003.safetensors";
  const json index = json::parse(read(folder.path / path));
  const std::string tensor = "model.layers.1.self_attn.k_proj.weight", home = index["weight_map"][tensor];
  const auto refused_text = [&](const std::string& text, const std::string& part) {
    folder.write(path, text);
    check_refused(folder, kGenerate, 1, part);
  };
  const auto refused = [&](const std::function<void(json&)>& change, const std::string& part) {
    json changed = index;
    change(changed);
    refused_text(changed.dump(), part);
  };
  const auto moved = [&](const json& to) { return [&, to](json& all) { all["weight_map"][tensor] = to; }; };
  const std::string at = path + ": tensor " + tensor;
  for (const char* way_out : {"../m/x.safetensors", "/etc/passwd", "a\\b", "..", ".", "", "x/"})
    refused(moved(way_out), at + ": " + json(way_out).dump().substr(0, 5));
  refused(moved(std::string("a\0b", 3)), tensor);
  for (const json& no_name : {json(7), json(nullptr), json::array({first}), json::object()})
    refused(moved(no_name), at + ": " + no_name.dump() + " is not the name of a file beside it");
  refused(moved("none.safetensors"), at + " is in the file 'none.safetensors', which is not there");
  refused(moved("config.json"),
          home + ": has the tensor " + tensor + ", of which " + path + " says that it is in config.json");
  const std::string other = home == first ? second : first;
  refused(moved(other), home + ": has the tensor " + tensor + ", of which " + path + " says that it is in " + other);
  refused([&](json& all) { all["weight_map"].erase(tensor); },
          home + ": has the tensor " + tensor + ", which is not in");
  refused([&](json& all) { all["weight_map"]["more"] = second; },
          second + ": has no tensor more, which " + path + " says it has");
  refused([](json& all) { all.erase("weight_map"); }, path + ": has no 'weight_map' of tensors");
  refused([](json& all) { all["weight_map"] = json::object(); }, "has no 'weight_map'");
  refused([](json& all) { all["weight_map"] = {"a"}; }, "has no 'weight_map'");
  refused_text("[]", "has no 'weight_map'");
  refused_text("", path + ":1:1: not valid JSON");
  refused_text(R"({"weight_map": {"a": ")" + first + R"(", "a": ")" + first + R"("}})", path + ":1:");
  folder.write(path, index.dump());

  // The same file under two names contains its tensors twice.
  fs::copy_file(folder.path / "m" / home, folder.path / "m/again.safetensors");
  refused(moved("again.safetensors"), "says that it is in again.safetensors");
  fs::remove(folder.path / "m/again.safetensors");
  folder.write("m/no.safetensors", "{}");
  refused([](json& all) { all["weight_map"]["a"] = "no.safetensors"; }, "m/no.safetensors: 2 bytes are too short");
  fs::remove(folder.path / "m/no.safetensors");
  folder.write(path, index.dump());
  // A truncated file, a missing file, a folder in place of a file, and a file with tensors of another shape.
  const std::string good = read(folder.path / "m" / second);
  folder.write("m/" + second, good.substr(0, good.size() - 1));
  check_refused(folder, kGenerate, 1, second + ": the tensors end at byte");
  fs::remove(folder.path / "m" / second);
  check_refused(folder, kGenerate, 1, "is in the file '" + second + "', which is not there");
  fs::create_directory(folder.path / "m" / second);
  check_refused(folder, kGenerate, 74, second);
  fs::remove(folder.path / "m" / second);
  folder.write("m/" + second, good);
  BOOST_CHECK_EQUAL(folder.run(kGenerate).code, 0);
  json narrow = config_of("llama");
  narrow["num_key_value_heads"] = 1;
  folder.write("m/config.json", narrow.dump());
  const Result r = folder.run(kGenerate);
  BOOST_CHECK_MESSAGE(
      r.code == 1 && r.err.find(tensor) != r.err.npos && r.err.find(".safetensors: does not fit") != r.err.npos, r.err);
  // A model with one layer more than the files.
  folder.write("m/config.json", config_of("llama", 8, 4).dump());
  const Result tall = folder.run(kGenerate);
  BOOST_CHECK_MESSAGE(
      tall.code == 1 && tall.err.starts_with("llm: " + path + ": does not fit the model; no file has model.layers.3."),
      tall.err);
  BOOST_CHECK_EQUAL(std::count(tall.err.begin(), tall.err.end(), '\n'), 1);
}

// No tensor in the files is silently left out.
BOOST_AUTO_TEST_CASE(what_the_model_does_not_have_is_refused) {
  const Folder folder("llm-files");
  write_model(folder, config_of("llama"));
  split(folder, 2);
  folder.write("m/config.json", config_of("llama", 8, 2).dump());
  const Result r = folder.run(kGenerate);
  BOOST_CHECK_MESSAGE(r.code == 1 && r.err.find("the model has no model.layers.2.") != r.err.npos, r.err);
}

// Merging adapters changes the weights, which invalidates everything computed from them.
BOOST_AUTO_TEST_CASE(backward_through_weights_that_were_merged_is_refused) {
  seppo::Parameters parameters(1);
  seppo::LanguageModelConfig config{.vocabulary = 11,
                                    .layer = {.d_model = 8, .n_heads = 2, .d_ff = 12, .dropout = 0},
                                    .n_layers = 1,
                                    .max_length = 8};
  seppo::set_architecture(seppo::Architecture::llama, config);
  seppo::LanguageModel model(parameters.root(), config);
  const seppo::Adapters adapters(parameters, model, {.lora = 3, .alpha = 6});
  seppo::Ragged tokens;
  tokens.add(std::vector<int>{1, 5, 2});
  for (const bool merges : {false, true}) {
    seppo::tape().clear();
    const seppo::Tensor loss = sum(square(adapters.apply()(tokens)));
    if (merges) {
      adapters.merge();
      BOOST_CHECK_THROW(seppo::tape().backward(loss), seppo::StateError);
    } else {
      BOOST_CHECK_NO_THROW(seppo::tape().backward(loss));
    }
  }
}
