// Small programs report when their output cannot be written. All link to the same check; these run quickly, and use
// printf or std::cout.
// needs: programs: adder long_adder custom_op server spiral first_transformer gpt2_import t5 sentence_vectors marian
#include "support/program.h"

#include <seppo/models/marian.h>
#include <seppo/models/t5.h>
#include <seppo/nn/io/foreign_weights.h>

#include <cstdlib>

using namespace test;

BOOST_AUTO_TEST_CASE(a_full_disk_is_noticed, *boost::unit_test::precondition(test::ends_in_time)) {
  if (!fs::exists("/dev/full")) return;
  const Folder folder("small-output");
  const auto run = [&](const std::string& program, const std::string& to) {
    const std::string command =
        "cd '" + folder.path.string() + "' && '" + programs_folder() + "/" + program + "' > " + to + " 2> err";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  for (const char* program : {"custom_op", "server", "spiral", "first_transformer"}) {
    BOOST_CHECK_EQUAL(run(program, "out"), 0);
    BOOST_CHECK_MESSAGE(read(folder.path / "err").empty() && !read(folder.path / "out").empty(), program);
    BOOST_CHECK_MESSAGE(run(program, "/dev/full") == 74, program);
    BOOST_CHECK_EQUAL(read(folder.path / "err"), "standard output: cannot write\n");
  }
}

// A number with more behind it is no number; the file is not even opened.
BOOST_AUTO_TEST_CASE(tokens_are_numbers) {
  const Folder folder("small-output");
  const std::string expected = "gpt2_import: expected FILE HEADS TOKEN..., or nothing";
  for (const char* heads : {"12", "12x", "x", ""})
    for (const char* token : {"7", "7 ", "7.5", "0x7", "99999999999"}) {
      const bool are_numbers = heads == std::string("12") && token == std::string("7");
      check_refused(folder, {"gpt2_import", "none", heads, token}, are_numbers ? 74 : 2,
                    are_numbers ? "none" : expected);
    }
}

// Nor is a line of numbers one that ends with something else.
BOOST_AUTO_TEST_CASE(lines_are_numbers) {
  const Folder folder("small-output");
  const std::string lines = "7 8\n7 8 99999999999\n7 8 -\n7 8 x\n 7 8 \n";
  const Result served = folder.run({"server", "1", "1"}, lines);
  for (const char* refused : {"1:\n", "2:\n", "3:\n"}) BOOST_CHECK_NE(served.out.find(refused), std::string::npos);
  for (const char* answered : {"0: ", "4: "}) BOOST_CHECK_NE(served.out.find(answered), std::string::npos);

  const auto check = [&](const std::string& program) {
    for (const std::string line : {"7 8 99999999999", "7 8 -"}) {
      const Result r = folder.run({program, "."}, line + "\n");
      BOOST_CHECK_EQUAL(r.code, 1);
      BOOST_CHECK_EQUAL(r.err, program + ": expected token ids, got: " + line + "\n");
    }
  };
  check("sentence_vectors");
  seppo::Parameters of_t5(1), of_marian(1);
  folder.write("config.json", R"({"model_type": "t5", "vocab_size": 50, "d_model": 16, "num_heads": 2, "d_kv": 8,
    "d_ff": 32, "num_layers": 1, "feed_forward_proj": "relu"})");
  seppo::T5(
      of_t5.root(),
      {.vocabulary = 50, .d_model = 16, .n_heads = 2, .head_width = 8, .d_ff = 32, .enc_layers = 1, .dec_layers = 1});
  save_weights(folder.path / "model.safetensors", of_t5, seppo::t5_weights(false));
  check("t5");
  folder.write("config.json", R"({"model_type": "marian", "vocab_size": 50, "d_model": 16, "encoder_ffn_dim": 32,
    "encoder_attention_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "max_position_embeddings": 32,
    "decoder_start_token_id": 49, "eos_token_id": 0})");
  seppo::Marian(of_marian.root(), {.src_vocabulary = 50,
                                   .tgt_vocabulary = 50,
                                   .layer = {.d_model = 16, .n_heads = 2, .d_ff = 32},
                                   .enc_layers = 1,
                                   .dec_layers = 1,
                                   .max_length = 32});
  save_weights(folder.path / "model.safetensors", of_marian, seppo::marian_weights());
  check("marian");
}

// The record in docs/records.md: so few parameters, and sums that it was not trained on.
BOOST_AUTO_TEST_CASE(nine_parameters_add, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("small-output");
  const Result result = folder.run({"adder", "2", "1"});
  BOOST_CHECK_EQUAL(result.code, 0);
  BOOST_CHECK_MESSAGE(result.out.ends_with("9 parameters: 2010 of 2010 sums are right\n"), result.out);
}

// The record of length: sums of numbers that are six times as long as those of the training, with the longest carry.
BOOST_AUTO_TEST_CASE(nine_parameters_add_longer_numbers, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("small-output");
  const Result result = folder.run({"long_adder", "2", "20", "200"});
  BOOST_CHECK_EQUAL(result.code, 0);
  BOOST_CHECK_MESSAGE(result.out.ends_with("9 parameters, 200 digits: 20 of 20 sums right\n"), result.out);
  BOOST_CHECK(folder.run({"long_adder", "--help"}).out.starts_with("long_adder [SEED [SUMS [DIGITS ...]]]: "));
}
