// Command lines, config files and the configs in model files: whatever is accepted is within its ranges and survives
// being written and read back. The first byte chooses between them.
#include "app/command_line.h"
#include "app/run.h"
#include "fuzz/fuzz.h"

#include <seppo/autograd/core/check.h>
#include <seppo/models/transformer.h>
#include <seppo/nn/config.h>

#include <iostream>
#include <optional>
#include <streambuf>

namespace {

using examples::UsageError;
using fuzz::require;
using nlohmann::json;

template <class Config>
void require_survives(Config config) {
  seppo::detail::check_fields("fuzz", seppo::fields_of(config));
  const json saved = json::parse(seppo::to_json_object(config).dump());
  require(seppo::to_json_object(seppo::from_json_object<Config>(saved)) == saved, "a config changed in its file");
}

template <class Config>
void read_config(const json& object) {
  std::optional<Config> config;
  if (fuzz::refuses<seppo::FormatError>([&] { config = seppo::from_json_object<Config>(object); })) return;
  require_survives(*config);
  fuzz::refuses<seppo::ArgumentError>([&] { seppo::check_config("fuzz", *config); });  // rules between fields
}

// The options of a training program.
struct Training {
  seppo::TransformerConfig model{.src_vocabulary = 16, .tgt_vocabulary = 16, .layer = {.d_model = 32, .n_heads = 4}};
  examples::Run run{.out = "runs/fuzz"};

  void add_to(examples::CommandLine& line) {
    line.fields("model", model);
    run.add_to(line);
  }
  void check() const {
    require_survives(model);
    require_survives(run.training);
    seppo::check_config("fuzz", model);
    seppo::check_config("fuzz", run.training);
  }
};

// One option of each kind; ten times as fast to construct as Training.
struct Settings {
  int n_layers = 2, vocabulary = 16;
  double dropout = 0.1;
  std::array<double, 2> betas{0.9, 0.98};
  bool tied = true;
  std::uint64_t seed = 1;
  std::string name = "plain";
  seppo::Norm norm = seppo::Norm::post;

  void fields(seppo::ConfigVisitor& v) {
    v("n_layers", n_layers, {1, 64}, "how many");
    v("vocabulary", vocabulary, {1, 1e6}, "how large", {.source = seppo::Source::data});
    v("dropout", dropout, {0, 1}, "how much");
    v("betas", betas, {0, 1}, "how long");
    v("tied", tied, "whether or not");
    v("seed", seed, "which");
    v("name", name, "what");
    v("norm", norm, "where");
  }
  void validate() const { seppo::check<seppo::ArgumentError>(betas[0] <= betas[1], "betas are not in order"); }

  void add_to(examples::CommandLine& line) { line.fields("settings", *this); }
  void check() const {
    require_survives(*this);
    seppo::check_config("fuzz", *this);
  }
};

template <class Options>
struct Program {
  Options options;
  std::filesystem::path data;
  std::string title = "plain";
  examples::Arguments words;
  examples::CommandLine line{"fuzz train [options]", "A program like others."};

  explicit Program(bool takes_words) {
    line("data", data, "a file");
    line("title", title, "a text");
    line.must_exist("data");
    options.add_to(line);
    if (takes_words) line.words(&words);
  }

  void parse(const examples::Arguments& arguments) {
    bool goes_on = false;
    if (fuzz::refuses<UsageError>([&] { goes_on = line.parse(arguments); })) return;
    if (!goes_on) return;
    options.check();
    static fuzz::MemoryFile saved;
    Program again(false);
    require(again.line.parse({"--config", saved.hold(line.config().dump(2))}), "its own configuration is refused");
    require(again.line.config() == line.config(), "the options changed in config.json");
  }
};

void parse(int choice, bool takes_words, const examples::Arguments& arguments) {
  if (choice / 32 == 0)
    Program<Training>(takes_words).parse(arguments);
  else
    Program<Settings>(takes_words).parse(arguments);
}

// Arguments are separated by NUL.
examples::Arguments arguments_of(std::string_view text) {
  examples::Arguments arguments;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\0'), text.size());
    arguments.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return arguments;
}

// Discards help and other output.
struct Nowhere : std::streambuf {
  int overflow(int c) override { return c; }
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  static Nowhere nowhere;
  std::cout.rdbuf(&nowhere);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes bytes(std::string_view(reinterpret_cast<const char*>(data), size));
  const int choice = bytes.byte();
  const std::string text(bytes.rest());
  if (choice % 8 < 4) {
    parse(choice, choice & 16, arguments_of(text));
  } else if (choice % 8 == 4) {
    static fuzz::MemoryFile file;
    parse(choice, false, {"--config", file.hold(text)});
  } else {
    const json object = json::parse(text, nullptr, false);
    if (choice % 8 == 5) read_config<seppo::LayerConfig>(object);
    if (choice % 8 == 6) read_config<seppo::TransformerConfig>(object);
    if (choice % 8 == 7) read_config<seppo::TrainerConfig>(object);
  }
  return 0;
}
