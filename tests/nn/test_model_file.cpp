// Model files: a model is restored from its file alone, and a file that was tampered with is refused.
#include <seppo/nn/io/model_file.h>
#include <seppo/nn/io/safetensors.h>
#include <seppo/nn/modules/linear.h>

#include "support/program.h"
#include "support/stored.h"

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <fstream>
#include <string>

using namespace seppo;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

enum class Shape2 { thin, thick };
std::span<const char* const> enum_names(Shape2) {
  static constexpr const char* kNames[] = {"thin", "thick"};
  return kNames;
}

// Two layers, of which the second exists only if the model is thick.
struct Model {
  struct Config {
    int width = 3, multiple = 1;
    Shape2 shape = Shape2::thick;
    void fields(ConfigVisitor& v) {
      v("width", width, {1, 1 << 16}, "width");
      v("multiple", multiple, {1, 64}, "divides the width");
      v("shape", shape, "shape");
    }
    void validate() const {
      check<ArgumentError>(width % multiple == 0, "model: width ", width, " is not a multiple of ", multiple);
    }
  };

  Model(const Scope& s, const Config& c) : config((check_config("model", c), c)), in(s / "in", c.width, 4) {
    if (c.shape == Shape2::thick) out.emplace_back(s / "out", 4, c.width);
  }

  Config config;
  Linear in;
  std::vector<Linear> out;
};

struct Folder {
  fs::path path = fs::temp_directory_path() / ("seppo-model-file-" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

std::string message(const fs::path& file) {
  try {
    load_model<Model>(file);
  } catch (const FormatError& e) {
    const std::string text = e.what();
    BOOST_CHECK_MESSAGE(text.find(file.filename()) != std::string::npos && text.find('\n') == std::string::npos, text);
    return text;
  }
  return "accepted";
}

// Rewrites the metadata of a file.
void set_metadata(const fs::path& file, const std::map<std::string, std::string>& metadata) {
  test::Stored content = test::read_stored(file);
  content.metadata = metadata;
  test::write_stored(file, content);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_model_comes_back_from_its_file_alone) {
  const Folder folder;
  const fs::path file = folder.path / "m";
  for (const Model::Config& config :
       {Model::Config{}, Model::Config{.width = 6, .multiple = 2, .shape = Shape2::thin}}) {
    Parameters parameters(1);
    const Model model(parameters.root(), config);
    save_model(file, parameters, model, {{"program", "test"}, {"seed", 5}});
    const SavedModel<Model> saved = load_model<Model>(file);
    BOOST_CHECK_EQUAL(saved.model.config.width, config.width);
    BOOST_CHECK(saved.model.config.shape == config.shape);
    BOOST_CHECK_EQUAL(saved.config["program"], "test");
    BOOST_CHECK_EQUAL(saved.config["model"]["width"], config.width);
    BOOST_CHECK(saved.config == read_model_config(SafeTensorsFile(file)));
    BOOST_CHECK(std::equal(parameters.values().begin(), parameters.values().end(), saved.parameters->values().begin(),
                           saved.parameters->values().end()));
    BOOST_CHECK_EQUAL(saved.model.in.weight.values()[3], model.in.weight.values()[3]);
  }
  Parameters parameters(1);
  const Model model(parameters.root(), {});
  save_model(file, parameters, model);
  BOOST_CHECK_EQUAL(load_model<Model>(file).config.size(), 1);
  BOOST_CHECK_THROW(save_model(file, parameters, model, {{"model", 1}}), ArgumentError);
  BOOST_CHECK_THROW(save_model(file, parameters, model, 3), ArgumentError);
  for (const int levels : {16, 17, 100'000}) {  // more would not be read again, and the stack would not do for many
    json extra = 1;
    for (int i = 1; i < levels; ++i) {
      json outer = json::array();
      outer.push_back(std::move(extra));
      extra = std::move(outer);
    }
    json object;
    object["nested"] = std::move(extra);
    if (levels > kMostNesting) {
      BOOST_CHECK_THROW(save_model(file, parameters, model, object), ArgumentError);
    } else {
      save_model(file, parameters, model, object);
      BOOST_CHECK(load_model<Model>(file).config.at("nested") == object.at("nested"));
    }
  }
  BOOST_CHECK_THROW(save_model(folder.path / "missing" / "m", parameters, model), FileError);
  parameters.edit()[0] = std::numeric_limits<real>::quiet_NaN();
  BOOST_CHECK_THROW(save_model(file, parameters, model), NumericError);
  BOOST_CHECK_NO_THROW(load_model<Model>(file));  // the previous file
  BOOST_CHECK_THROW(load_model<Model>(folder.path / "missing"), FileError);
}

BOOST_AUTO_TEST_CASE(foreign_and_corrupt_configurations_are_refused) {
  const Folder folder;
  const fs::path file = folder.path / "m";
  Parameters parameters(1);
  const Model model(parameters.root(), {});
  save_model(file, parameters, model);
  const std::string good = test::read_stored(file).metadata.at("seppo.config");
  const auto with = [&](const std::string& config) {
    set_metadata(file, {{"seppo.config", config}});
    return message(file);
  };
  const auto with_model = [&](const std::string& key, const json& value) {
    json config = json::parse(good);
    config["model"][key] = value;
    return with(config.dump());
  };
  BOOST_CHECK_EQUAL(with(good), "accepted");
  const std::vector<std::pair<std::string, std::string>> expected{
      {with_model("width", 0), "'width' is 0, not an integer in 1..65536"},
      {with_model("width", "3"), "'width'"},
      {with_model("heads", 3), "\"heads\" is not a known key"},
      {with_model("shape", "round"), "'shape' is \"round\""},
      {with_model("multiple", 2), "model: width 3 is not a multiple of 2"},
      {with_model("shape", "thin"), "the model has no out.weight"},
      {with_model("width", 4), "in.weight is [4,3] in the file, [4,4] in the model"},
      {with_model("width", 1 << 16), "more than the allowed"},  // memory is bounded by the file
      {with(""), "not valid JSON"},
      {with(good + std::string(1, '\0') + "x"), "a NUL"},
      {with(good + " x"), "not valid JSON"},
      {with("{\"model\":{},\"model\":{}}"), "the key 'model' is there twice"},
      {with("[]"), "not a JSON object"},
      {with("{}"), "with a key 'model'"},
      {with("{\"model\":3}"), "3 is not an object"},
      {with("{\"model\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}"), "nested too deeply"}};
  for (const auto& [text, part] : expected) BOOST_CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  set_metadata(file, {});
  BOOST_CHECK(message(file).find("no configuration of a model") != std::string::npos);
}

// A wrong byte is damage; in a file without a digest, as other tools write it, a wrong byte is either refused or leaves
// the width of the model as it was.
BOOST_AUTO_TEST_CASE(every_wrong_byte_is_refused_or_harmless) {
  const Folder folder;
  const fs::path file = folder.path / "m";
  Parameters parameters(1);
  const Model model(parameters.root(), {});
  save_model(file, parameters, model);
  std::ifstream stream(file, std::ios::binary);
  const std::string signed_file{std::istreambuf_iterator<char>(stream), {}};
  std::string foreign = signed_file;
  for (const char* key : {"seppo.digest", "seppo.format"}) foreign[foreign.find(key)] = 'x';
  for (const bool is_signed : {true, false}) {
    const std::string& whole = is_signed ? signed_file : foreign;
    const std::size_t begin = whole.find("seppo.config"), end = whole.find('}', begin) + 3;
    int refused = 0, accepted = 0;
    for (std::size_t i = begin; i < end; ++i)
      for (const char byte : {'\0', ' ', '0', '9', '-', 'e', '"', '{', '\\', '\xff'}) {
        if (byte == whole[i]) continue;
        std::string wrong = whole;
        wrong[i] = byte;
        test::write(file, wrong);
        try {
          const SavedModel<Model> saved = load_model<Model>(file);
          BOOST_CHECK_EQUAL(saved.model.config.width, 3);
          ++accepted;
        } catch (const FormatError&) {
          ++refused;
        }
      }
    BOOST_CHECK_GT(refused, 500);
    BOOST_CHECK_LE(accepted, is_signed ? 0 : refused);
  }
}
