// llm: what it writes for other loaders, types and all; and generation_config.json, which they and it obey.
// needs: programs: llm
#include "app/run_program.h"
#include "llm/training.h"
#include "support/llm_models.h"
#include "support/stored.h"
#include "support/transformers.h"

#include <seppo/models/decoding/generate.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace test;
using nlohmann::json;

namespace {

const Words kTrain = with(with({"llm", "train"}, kTiny), kBrief);

void run(const Folder& folder, const Words& command) {
  const Result r = folder.run(command);
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
}

json object_of(const fs::path& file) { return json::parse(read(file)); }

// Every weight in the folder is of this type, and config.json says so.
void check_type(const fs::path& hf, const char* dtype, const char* name) {
  for (const StoredTensor& tensor : read_stored(hf / "model.safetensors").tensors)
    BOOST_CHECK_EQUAL(tensor.dtype, dtype);
  BOOST_CHECK_EQUAL(object_of(hf / "config.json")["torch_dtype"], name);
}

std::vector<float> values_of(const fs::path& model) {
  const llm::Folder folder = llm::open_folder(model);
  const auto values = folder.parameters->values();
  return {values.begin(), values.end()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(weights_keep_their_type_unless_asked) {
  const Folder folder("llm");
  write_text(folder);
  write_model(folder, "m");
  {
    const llm::Folder read = llm::open_folder(folder.path / "m");
    llm::write_folder(folder.path / "narrow", read.config, *read.parameters, folder.path / "m", nullptr,
                      seppo::WeightType::bfloat16);
  }
  BOOST_CHECK(llm::open_folder(folder.path / "m").type == seppo::WeightType::own);
  BOOST_CHECK(llm::open_folder(folder.path / "narrow").type == seppo::WeightType::bfloat16);
  const Words tune = with({"llm", "finetune", "--lora", "1"}, kBrief);
  run(folder, with(tune, {"--model", "narrow", "--out", "f"}));
  check_type(folder.path / "f/hf", "BF16", "bfloat16");
  run(folder, with(tune, {"--model", "narrow", "--out", "wide", "--dtype", "float32"}));
  check_type(folder.path / "wide/hf", "F32", "float32");
  const Words merge{"llm", "merge", "--model", "narrow", "--adapter", "f/adapter", "--out"};
  run(folder, with(merge, {"same"}));
  check_type(folder.path / "same", "BF16", "bfloat16");
  run(folder, with(merge, {"half", "--dtype", "float16"}));
  check_type(folder.path / "half", "F16", "float16");

  run(folder, with(kTrain, {"--out", "t"}));
  check_type(folder.path / "t/hf", "F32", "float32");
  run(folder, with(kTrain, {"--out", "b", "--dtype", "bfloat16"}));
  check_type(folder.path / "b/hf", "BF16", "bfloat16");
  const Stored wide = read_stored(folder.path / "t/model.safetensors");
  const Stored trained = read_stored(folder.path / "b/model.safetensors");
  BOOST_REQUIRE_EQUAL(wide.tensors.size(), trained.tensors.size());
  for (std::size_t i = 0; i < wide.tensors.size(); ++i) BOOST_CHECK(wide.tensors[i].bytes == trained.tensors[i].bytes);
  std::vector<float> rounded = values_of(folder.path / "t");
  for (float& x : rounded) x = seppo::BFloat::nearest(x);
  BOOST_CHECK(values_of(folder.path / "b") == rounded);
  check_refused(folder, with(kTrain, {"--dtype", "int8"}), 2, "--dtype");
}

// Runs of versions that had no --dtype are resumed.
BOOST_AUTO_TEST_CASE(a_part_of_a_config_may_be_missing_if_all_of_it_may) {
  const json none = json::object();
  BOOST_CHECK(examples::config_part<llm::ExportConfig>(none, "export").dtype == llm::Dtype::same);
  BOOST_CHECK_THROW(examples::config_part<seppo::LoraConfig>(none, "lora"), seppo::FormatError);
}

// Where a key is missing, Hugging Face's loaders assume a value, which may not even fit the model.
BOOST_AUTO_TEST_CASE(what_others_would_assume_is_stated) {
  const Folder folder("llm");
  const auto written = [&](const json& pad) {
    json config = kLlama;
    config["pad_token_id"] = pad;
    write_model(folder, "m", config);
    for (const char* file : {"config.json", "generation_config.json"})
      BOOST_CHECK(object_of(folder.path / "m" / file).contains("pad_token_id"));
    return object_of(folder.path / "m/config.json")["pad_token_id"];
  };
  BOOST_CHECK_EQUAL(written(5), 5);
  BOOST_CHECK(written(nullptr).is_null());
  BOOST_CHECK(written(257).is_null());  // no token

  write_text(folder);
  run(folder, with(kTrain, {"--out", "windows", "--shape", "gemma2"}));
  const json config = object_of(folder.path / "windows/hf/config.json");
  BOOST_CHECK(config["sliding_window"].is_number() && config["layer_types"] == json{"full_attention"});
  run(folder, with(kTrain, {"--out", "heads", "--head-width", "6"}));
  BOOST_CHECK_EQUAL(object_of(folder.path / "heads/hf/config.json")["head_dim"], 6);
  BOOST_CHECK_EQUAL(llm::open_folder(folder.path / "heads").model.config.layer.head_width, 6);
  run(folder, with(kTrain, {"--out", "biased", "--shape", "phi"}));
  const auto tensors = read_stored(folder.path / "biased/hf/model.safetensors").tensors;
  const auto is_bias = [](const StoredTensor& tensor) { return tensor.name == "lm_head.bias"; };
  BOOST_CHECK(std::ranges::any_of(tensors, is_bias));
}

// Options of the command line decide over the file, and the file over the defaults.
BOOST_AUTO_TEST_CASE(the_generation_config_is_obeyed) {
  const Folder folder("llm");
  write_model(folder, "m");
  const Words generate{"llm", "generate", "--model", "m", "--prompt", "ab", "--seed", "3", "--json"};
  const auto written = [&](const char* file, const Words& more) {
    folder.write("m/generation_config.json", file);
    const Result r = folder.run(with(generate, more));
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    return last_line(r.out);
  };
  const auto source = [](const Json& said, const char* option) {
    return said["options"][option]["from"].text() + " " + said["options"][option]["value"].dump();
  };
  const char* const greedy = R"({"do_sample": false, "max_new_tokens": 12, "repetition_penalty": 1.1})";
  Json said = written(greedy, {});
  BOOST_CHECK_EQUAL(source(said, "temperature"), "generation_config.json 0.0");
  BOOST_CHECK_EQUAL(source(said, "max_tokens"), "generation_config.json 12");
  BOOST_CHECK_EQUAL(source(said, "repetition_penalty"), "generation_config.json 1.1");
  BOOST_CHECK_EQUAL(source(said, "top_p"), "default 1.0");
  BOOST_CHECK_EQUAL(source(said, "stop"), "config.json [256,3]");
  BOOST_CHECK_EQUAL(said["prompt"].text(), "ab");
  const Words same{"--temperature", "0", "--max-tokens", "12", "--repetition-penalty", "1.1"};
  BOOST_CHECK(written("{}", same)["text"] == said["text"].text());

  said = written(greedy, {"--temperature", "1", "--max-tokens", "3"});
  BOOST_CHECK_EQUAL(source(said, "temperature"), "command line 1.0");
  BOOST_CHECK_EQUAL(source(said, "max_tokens"), "command line 3");
  BOOST_CHECK(said["tokens"] == 3);

  said = written(R"({"do_sample": true, "temperature": 0.5, "max_length": 7})", {});
  BOOST_CHECK_EQUAL(source(said, "temperature"), "generation_config.json 0.5");
  BOOST_CHECK_EQUAL(source(said, "top_k"), "generation_config.json 50");
  BOOST_CHECK_EQUAL(source(said, "max_tokens"), "generation_config.json 5");  // 7 with the prompt of 2

  std::string all_but_three = "0";
  for (int token = 1; token < 257; ++token)
    if (token != 120) all_but_three += "," + std::to_string(token);
  said = written(("{\"max_new_tokens\": 4, \"suppress_tokens\": [" + all_but_three + "]}").c_str(), {});
  BOOST_CHECK_EQUAL(said["text"].text(), "xxxx");
}

BOOST_AUTO_TEST_CASE(what_is_not_obeyed_is_named) {
  const Folder folder("llm");
  write_model(folder, "m");
  const Words generate{"llm", "generate", "--model", "m", "--prompt", "a", "--max-tokens", "1", "--json"};
  folder.write("m/generation_config.json", R"({"num_beams": 4, "penalty_alpha": 0.6})");
  const Result r = folder.run(generate);
  BOOST_CHECK_EQUAL(r.code, 0);
  BOOST_CHECK_MESSAGE(
      r.err.find("warning: m/generation_config.json asks for what is not done here: num_beams, penalty_alpha\n") == 0,
      r.err);
  BOOST_CHECK_EQUAL(last_line(r.out)["not_done"].dump(), R"(["num_beams","penalty_alpha"])");
  folder.write("m/generation_config.json", R"({"temperature": "hot"})");
  check_refused(folder, generate, 1, "m/generation_config.json: 'temperature' is no number");
}

namespace {

// Opens folders as a user of transformers does, and says what it hears, reads, computes and writes there.
constexpr const char* kOpenFolders = R"(
import io, json, logging, sys, warnings
warnings.simplefilter("error")
heard = io.StringIO()
import torch
import transformers
transformers.utils.logging.set_verbosity_warning()
transformers.utils.logging.disable_progress_bar()
logging.getLogger("transformers").addHandler(logging.StreamHandler(heard))
said = {}
for folder in sys.argv[2:]:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    dtype = str(model.dtype)
    inputs = tokenizer(sys.argv[1], return_tensors="pt")
    model = model.float()
    written = model.generate(**inputs, max_new_tokens=6, do_sample=False, pad_token_id=0)[0]
    said[folder] = {"dtype": dtype, "ids": inputs.input_ids[0].tolist(), "written": written.tolist(),
                    "text": tokenizer.decode(inputs.input_ids[0]), "logits": model(**inputs).logits[0].tolist(),
                    "stops": tokenizer.eos_token_id, "heard": heard.getvalue()}
    heard.truncate(0)
    heard.seek(0)
print(json.dumps(said))
)";

// What Hugging Face's loaders said of a folder is what we read, compute and write.
void check_the_same(const fs::path& folder, const std::string& prompt, const json& said) {
  const llm::Folder ours = llm::open_folder(folder);
  const std::vector<int> ids = ours.encode(prompt);
  BOOST_CHECK_EQUAL(said["heard"].get<std::string>(), "");
  BOOST_CHECK_EQUAL(said["text"].get<std::string>(), prompt);
  BOOST_REQUIRE(said["ids"].get<std::vector<int>>() == ids);
  seppo::Ragged start;
  start.add(ids);
  const seppo::Inference guard;
  const seppo::Tensor logits = ours.model(start);
  double most = 0;
  for (std::size_t i = 0; i < ids.size(); ++i)
    for (std::size_t j = 0; j < logits.cols(); ++j)
      most =
          std::max(most, std::abs(double{logits.values()[logits.cols() * i + j]} - said["logits"][i][j].get<double>()));
  BOOST_CHECK_LT(most, 5e-5);
  std::vector<int> written = ids;
  const auto texts =
      generate(ours.model, start, {.max_tokens = 6, .sampling = {.temperature = 0}, .stop = ours.config.stops});
  written.insert(written.end(), texts[0].begin(), texts[0].end());
  BOOST_CHECK(said["written"].get<std::vector<int>>() == written);
}

}  // namespace

// Hugging Face's own loaders open what is trained here, of every family, without a warning.
BOOST_AUTO_TEST_CASE(transformers_compute_and_write_the_same) {
  const Transformers transformers;
  if (!transformers.are_there("torch")) return;
  const Folder folder("llm");
  write_text(folder);
  Words script{"open.py", "abc"};
  for (const char* const family : enum_names(seppo::Architecture{})) {
    run(folder, with(kTrain, {"--out", family, "--shape", family}));
    script.push_back(std::string(family) + "/hf");
  }
  run(folder, with(kTrain, {"--out", "narrow", "--dtype", "bfloat16"}));
  script.push_back("narrow/hf");
  run(folder, with(kTrain, {"--out", "heads", "--head-width", "6"}));
  script.push_back("heads/hf");
  folder.write("open.py", kOpenFolders);
  const json said = transformers.run(folder, script);
  for (const auto& [name, of_folder] : said.items()) BOOST_TEST_CONTEXT(name) {
      BOOST_CHECK_EQUAL(of_folder["dtype"], name == "narrow/hf" ? "torch.bfloat16" : "torch.float32");
      check_the_same(folder.path / name, "abc", of_folder);
    }
}
