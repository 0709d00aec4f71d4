// The AddSub task: its expressions, files and splits; its model and scores; its program.
// needs: programs: addsub
#include "addsub/model.h"
#include "support/program.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/nn/io/model_file.h>

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

using namespace addsub;

BOOST_AUTO_TEST_CASE(all_expressions_are_there_and_right) {
  std::set<std::string> texts;
  for (int i = 0; i < expressions(); ++i) {
    const Expression e = Expression::of(i);
    BOOST_REQUIRE_EQUAL(e.index(), i);
    BOOST_REQUIRE(std::abs(e.left) <= 49 && std::abs(e.right) <= 49);
    texts.insert(token_text(e.source()));
    const auto target = e.target();
    BOOST_REQUIRE(parse_result(std::span(target).subspan(1)) == e.result());
    const Expression back = parse_expression(token_text(e.source())),
                     from_arithmetic = parse_expression(e.arithmetic());
    BOOST_REQUIRE(back.index() == i && from_arithmetic.index() == i);
  }
  BOOST_CHECK_EQUAL(texts.size(), 19'602);
  BOOST_CHECK(texts.contains("BOS NEGATIVE 30 subtract NEGATIVE 34 EOS"));
  BOOST_CHECK_EQUAL(token_text(parse_expression("-30 - -34").target()), "BOS POSITIVE 04 EOS");
  BOOST_CHECK_EQUAL(token_text(parse_expression("0-0").source()), "BOS POSITIVE 00 subtract POSITIVE 00 EOS");
}

BOOST_AUTO_TEST_CASE(expressions_of_three_digits) {
  constexpr int kAll = 999 * 999 * 2;
  static_assert(expressions(3) == kAll);
  std::set<int> results;
  for (int i = 0; i < kAll; i += 997) {
    const Expression e = Expression::of(i, 3);
    BOOST_REQUIRE_EQUAL(e.index(), i);
    BOOST_REQUIRE(std::abs(e.left) <= 499 && std::abs(e.right) <= 499);
    const std::vector<int> target = e.target();
    BOOST_REQUIRE(parse_result(std::span(target).subspan(1), 3) == e.result());
    BOOST_REQUIRE_EQUAL(parse_expression(token_text(e.source()), 3).index(), i);
    results.insert(e.result());
  }
  BOOST_CHECK(results.size() > 1000);
  BOOST_CHECK_EQUAL(Expression::of(kAll - 1, 3).arithmetic(), "499 - 499");
  BOOST_CHECK_EQUAL(token_text(parse_expression("-7 - 492", 3).source()), "BOS NEGATIVE 007 subtract POSITIVE 492 EOS");
  BOOST_CHECK_EQUAL(token_text(parse_expression("-7 - 492", 3).target()), "BOS NEGATIVE 499 EOS");
  for (const char* text : {"500 + 1", "BOS POSITIVE 12 add POSITIVE 34 EOS"})
    BOOST_CHECK_THROW(parse_expression(text, 3), seppo::FormatError);
  const std::vector<int> two{kPositive, 4, 6, kEos};
  BOOST_CHECK(parse_result(two) == 46 && !parse_result(two, 3));
}

BOOST_AUTO_TEST_CASE(rows_of_generated_data) {
  const Dataset few = drawn_dataset(1, 2, 30), many = drawn_dataset(1);
  BOOST_CHECK_EQUAL(few.size(), 30u);
  for (std::size_t i = 0; i < few.size(); ++i) BOOST_CHECK_EQUAL(few.rows[i].index(), many.rows[i].index());
  const Dataset wide = drawn_dataset(1, 3, 30);
  for (const Expression& e : wide.rows) BOOST_CHECK(e.digits == 3 && e.source().size() == 11);
}

BOOST_AUTO_TEST_CASE(bad_expressions_are_refused) {
  for (const char* text : {"",
                           "12 +",
                           "+ 3",
                           "50 + 1",
                           "1 * 2",
                           "1 + 2 3",
                           "1 + 2 +",
                           "99999999999 + 1",
                           "1 + --2",
                           "BOS",
                           "BOS POSITIVE 12 add POSITIVE 3 EOS",
                           "BOS POSITIVE 12 add POSITIVE 034 EOS",
                           "BOS POSITIVE 12 add POSITIVE 50 EOS",
                           "BOS NEGATIVE 00 add POSITIVE 01 EOS",
                           "POSITIVE 12 add POSITIVE 34 EOS",
                           "BOS POSITIVE add 12 POSITIVE 34 EOS",
                           "BOS POSITIVE 12 plus POSITIVE 34 EOS",
                           "BOS POSITIVE \xd9\xa3\xd9\xa3 add POSITIVE 34 EOS",
                           "BOS POSITIVE 12 add POSITIVE 34 EOS EOS",
                           "\xe2\x88\x92"
                           "3 + 4"})
    BOOST_CHECK_THROW(parse_expression(text), seppo::Error);
}

BOOST_AUTO_TEST_CASE(drawn_data_depends_on_the_seed) {
  const Dataset a = drawn_dataset(1), b = drawn_dataset(1), c = drawn_dataset(2);
  BOOST_CHECK_EQUAL(a.rows.size(), 5000);
  std::set<int> distinct;
  int same = 0;
  for (std::size_t i = 0; i < a.rows.size(); ++i) {
    BOOST_CHECK_EQUAL(a.rows[i].index(), b.rows[i].index());
    same += a.rows[i].index() == c.rows[i].index();
    distinct.insert(a.rows[i].index());
  }
  BOOST_CHECK_LT(same, 10);
  BOOST_CHECK(distinct.size() > 4300 && distinct.size() < 4530);  // drawn with replacement: 4413 expected
}

BOOST_AUTO_TEST_CASE(the_course_split_is_numpys_permutation_of_seed_0) {
  const Split split = split_dataset(5000, "course");
  BOOST_CHECK_EQUAL(split.validation.size(), 500);
  BOOST_CHECK_EQUAL(split.train.size(), 4500);
  const std::vector<int> validation{398, 3833, 4836, 4572, 636}, train{3871, 4299, 4719, 3195};
  BOOST_CHECK(std::equal(validation.begin(), validation.end(), split.validation.begin()));
  BOOST_CHECK(std::equal(train.begin(), train.end(), split.train.begin()));
  for (const char* how : {"course", "0", "7"}) {
    const Split s = split_dataset(4321, how);
    std::set<int> all(s.train.begin(), s.train.end());
    for (const int row : s.validation) BOOST_CHECK(all.insert(row).second);
    BOOST_CHECK_EQUAL(all.size(), 4321);
    BOOST_CHECK_EQUAL(s.validation.size(), 433);
  }
  for (const char* how : {"", "x", "-1", "1.5", "1e3", " 1"})
    BOOST_CHECK_THROW(split_dataset(100, how), seppo::ArgumentError);
}

BOOST_AUTO_TEST_CASE(data_files_are_checked_row_by_row) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("seppo-addsub-" + std::to_string(::getpid()) + ".json");
  const std::string in = "BOS POSITIVE 12 add POSITIVE 34 EOS", out = "BOS POSITIVE 46 EOS";
  const auto content = [&](const std::string& row_in, const std::string& row_out) {
    nlohmann::json j;
    for (int i = 0; i < 10; ++i) {
      j["inp_expression"].push_back(i == 7 ? row_in : in);
      j["out_expression"].push_back(i == 7 ? row_out : out);
    }
    return j.dump();
  };
  const auto message = [&](const std::string& text) -> std::string {
    std::ofstream(path) << text;
    try {
      read_dataset(path);
    } catch (const seppo::Error& e) {
      BOOST_CHECK_MESSAGE(std::string(e.what()).find(path.filename()) != std::string::npos &&
                              std::string(e.what()).find('\n') == std::string::npos,
                          e.what());
      return e.what();
    }
    return "";
  };
  BOOST_CHECK_EQUAL(message(content(in, out)), "");
  const auto mentions = [&](const std::string& text, const std::string& part) {
    const std::string m = message(text);
    BOOST_CHECK_MESSAGE(m.find(part) != std::string::npos, "'" << part << "' is not in: " << m);
  };
  mentions(content("BOS POSITIVE 12 plus POSITIVE 34 EOS", out), "row 7: token 'plus' is neither digits nor POSITIVE");
  mentions(content("BOS POSITIVE 12 add POSITIVE 34", out), "row 7: expression");
  mentions(content(in, "BOS POSITIVE 4 EOS"), "row 7: result");
  mentions(content(in, ""), "row 7: result");
  mentions("", "JSON");
  mentions("{\"inp_expression\": [", "JSON");
  mentions("[]", "inp_expression");
  mentions("{\"inp_expression\": [], \"out_expression\": 3}", "out_expression");
  mentions("{\"inp_expression\": [], \"out_expression\": []}", "too few");
  mentions("{\"inp_expression\": [\"a\"], \"out_expression\": []}", "1 expressions but 0 results");
  for (const char* row : {"row 0", "is not text"})
    mentions("{\"inp_expression\": [1,2,3,4,5,6,7,8,9,0], \"out_expression\": [1,2,3,4,5,6,7,8,9,0]}", row);
  std::filesystem::remove(path);
  BOOST_CHECK_THROW(read_dataset(path), seppo::FileError);
  BOOST_CHECK_THROW(read_dataset("/dev/null"), seppo::FileError);
  BOOST_CHECK_THROW(read_dataset(std::filesystem::temp_directory_path()), seppo::FileError);
}

// The course's own file, if available: SEPPO_ADDSUB_DATA names it.
BOOST_AUTO_TEST_CASE(the_courses_file) {
  const char* file = std::getenv("SEPPO_ADDSUB_DATA");
  if (!file) {
    std::cout << "skipped: the course's own data; set SEPPO_ADDSUB_DATA to its two_digit_op.json\n";
    return;
  }
  const Dataset data = read_dataset(file);
  BOOST_CHECK_EQUAL(data.rows.size(), 5000);
  std::set<int> all, train;
  for (std::size_t i = 0; i < data.rows.size(); ++i) {
    all.insert(data.rows[i].index());
    BOOST_CHECK(std::ranges::equal(data.target[i], data.rows[i].target()));
  }
  BOOST_CHECK_EQUAL(all.size(), 4410);
  const Split split = split_dataset(5000, "course");
  for (const int row : split.train) train.insert(data.rows[static_cast<std::size_t>(row)].index());
  int leaked = 0;
  for (const int row : split.validation) leaked += train.contains(data.rows[static_cast<std::size_t>(row)].index());
  BOOST_CHECK_EQUAL(leaked, 107);
}

namespace {

ModelConfig tiny() {
  ModelConfig config;
  config.transformer.layer = {.d_model = 8, .n_heads = 2, .d_ff = 8, .dropout = 0};
  config.transformer.enc_layers = config.transformer.dec_layers = 1;
  return config;
}

}  // namespace

// With `others`, the right class keeps 1 - share and each of the other classes gets share / 15.
BOOST_AUTO_TEST_CASE(both_conventions_of_label_smoothing) {
  seppo::Parameters parameters(1);
  const Model model(parameters.root(), tiny());
  const Dataset batch = drawn_dataset(1).pick({{3, 14, 15, 92}});
  const auto loss_with = [&](double share) {
    const seppo::UseMode eval(seppo::Mode::eval);
    const seppo::TapeMark mark;
    return loss(model, batch, share).loss.item();
  };
  // The loss is linear in the smoothing share, so its two parts follow from two values.
  const double plain = loss_with(0), all = loss_with(0.5);        // 0.5 / 16 each
  const double mean_of_all = (all - 0.5 * plain) / 0.5;           // mean of -log p over all 16
  const double mean_of_others = (16 * mean_of_all - plain) / 15;  // and over the 15 wrong classes
  BOOST_CHECK_CLOSE(loss_with(smoothing_over_all(0.1, Smoothing::others)), 0.9 * plain + 0.1 * mean_of_others, 1e-3);
  BOOST_CHECK_CLOSE(loss_with(smoothing_over_all(0.1, Smoothing::all)), 0.9 * plain + 0.1 * mean_of_all, 1e-3);
}

BOOST_AUTO_TEST_CASE(accuracy_by_place) {
  seppo::Parameters parameters(2);
  const Model model(parameters.root(), tiny());
  const Dataset data = drawn_dataset(1);
  std::vector<int> rows(150);
  std::iota(rows.begin(), rows.end(), 0);
  const Score all = score(model, data.pick(rows));
  std::array<std::size_t, 4> expected{};
  double loss_sum = 0;
  for (const int row : rows) {
    const seppo::UseMode eval(seppo::Mode::eval);
    const seppo::TapeMark mark;
    const auto target = data.rows[static_cast<std::size_t>(row)].target();
    seppo::Ragged source, input;
    source.add(data.rows[static_cast<std::size_t>(row)].source());
    input.add(std::span(target).first(4));
    const seppo::Tensor logits = model.transformer.logits(source, input);
    const std::vector<int> best = argmax(logits);
    for (std::size_t place = 0; place < 4; ++place) {
      expected[place] += best[place] == target[place + 1];
      const auto at = [&](std::size_t c) { return static_cast<double>(logits.data()[place * 16 + c]); };
      double sum = 0;
      for (std::size_t c = 0; c < 16; ++c) sum += std::exp(at(c));
      loss_sum += std::log(sum) - at(static_cast<std::size_t>(target[place + 1]));
    }
  }
  double sum = 0;
  for (std::size_t place = 0; place < 4; ++place) {
    BOOST_CHECK_EQUAL(all.sums[places()[place]], expected[place]);
    sum += all.accuracy_at(places()[place]);
  }
  BOOST_CHECK_CLOSE(all.token_accuracy(), sum / 4, 1e-10);
  BOOST_CHECK_CLOSE(all.loss(), loss_sum / 600, 1e-3);
}

// Exact match over all rows, and over those with expressions not seen in training.
BOOST_AUTO_TEST_CASE(exact_match_of_all_and_of_fresh_expressions) {
  seppo::Parameters parameters(2);
  const Model model(parameters.root(), tiny());
  Dataset data;  // the model's own answers as targets, except for rows 1 and 2
  for (int row = 0; row < 5; ++row) {
    const Expression e{row, 7, false};
    seppo::Ragged source;
    source.add(e.source());
    std::vector<int> target = answers(model, source)[0];
    target.insert(target.begin(), kBos);
    target.resize(static_cast<std::size_t>(target_length()), kEos);
    if (row == 1 || row == 2) target[2] = (target[2] + 1) % 10;
    data.add(e, target);
  }
  const Score s = score(model, data, {data.rows[0].index(), data.rows[1].index()});
  BOOST_TEST(s.wrong == (std::vector<int>{1, 2}), boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(s.exact_match(), 0.6);
  BOOST_CHECK_EQUAL(s.fresh, 3);
  BOOST_CHECK_EQUAL(s.fresh_exact_match(), 2. / 3);
}

BOOST_AUTO_TEST_CASE(tiers_are_rounded_to_two_places_as_the_course_does) {
  for (const auto& [accuracy, tier] : {std::pair{0.7980, 5},
                                       {0.795, 5},
                                       {0.7949, 4},
                                       {0.74, 4},
                                       {0.7349, 3},
                                       {0.695, 3},
                                       {0.6250001, 2},
                                       {0.4949, 0},
                                       {0.495, 1},
                                       {1., 5},
                                       {0., 0}})
    BOOST_CHECK_MESSAGE(course_tier(accuracy) == tier, accuracy << ": " << course_tier(accuracy));
}

// The course applies dropout after the norm, and none to the embedded inputs.
BOOST_AUTO_TEST_CASE(dropout_after_the_norm) {
  ModelConfig config = tiny();
  config.transformer.layer.dropout = 0.25;
  for (const DropoutPlace place : {DropoutPlace::residual, DropoutPlace::norm}) {
    config.dropout_place = place;
    seppo::Parameters parameters(1);
    const Model model(parameters.root(), config);
    const bool after = place == DropoutPlace::norm;
    const auto& encoder = model.transformer.encoder.layers[0];
    const auto& decoder = model.transformer.decoder.layers[0];
    for (const auto* add_norm :
         {&encoder.add_norm_1, &encoder.add_norm_2, &decoder.add_norm_1, &decoder.add_norm_2, &decoder.add_norm_3}) {
      BOOST_CHECK_EQUAL(add_norm->options.dropout_after, after ? 0.25 : 0);
      BOOST_CHECK_EQUAL(add_norm->options.dropout_before, after ? 0 : 0.25);
    }
    BOOST_CHECK_EQUAL(model.transformer.embedding_dropout.p, after ? 0 : 0.25);
  }
  config.transformer.layer.norm = seppo::Norm::pre;
  seppo::Parameters parameters(1);
  BOOST_CHECK_THROW(Model(parameters.root(), config), seppo::ArgumentError);
}

BOOST_AUTO_TEST_CASE(a_model_is_built_again_from_its_file) {
  const test::Folder folder("addsub");
  ModelConfig config = tiny();
  config.transformer.layer.dropout = 0.2;
  config.transformer.layer.activation = seppo::Activation::gelu;
  config.dropout_place = DropoutPlace::norm;
  const Dataset batch = drawn_dataset(3).pick({{1, 2, 3}});
  for (const auto positions : {examples::Positions::floor_sinusoid, examples::Positions::learned,
                               examples::Positions::simple, examples::Positions::none}) {
    config.positions = positions;
    seppo::Parameters parameters(5);
    const Model model(parameters.root(), config);
    seppo::save_model(folder.path / "model.safetensors", parameters, model);
    const auto saved = seppo::load_model<Model>(folder.path / "model.safetensors");
    BOOST_CHECK(seppo::to_json_object(saved.model.config) == seppo::to_json_object(config));
    const auto loss_of = [&](const Model& m) {  // in training mode, so that dropout must also agree
      seppo::tape().clear();
      seppo::tape().random = {.seed = 1, .step = 1};
      return loss(m, batch).loss.item();
    };
    BOOST_CHECK_EQUAL(loss_of(model), loss_of(saved.model));
  }
}

// Every preset learns four expressions by heart; if a run does not, the program fails.
BOOST_AUTO_TEST_CASE(overfitting_reaches_100_percent_or_fails, *boost::unit_test::precondition(test::ends_in_time)) {
  const test::Folder folder("addsub");
  for (const char* preset : {"lab", "course", "large"}) {
    const test::Result r = folder.run({"addsub", "train", "--overfit", "--preset", preset, "--out", preset, "--json"});
    BOOST_CHECK_MESSAGE(r.code == 0, preset << r.err);
    BOOST_CHECK_EQUAL(test::last_line(r.out)["val_exact"].get<double>(), 1);
    BOOST_CHECK_LT(test::last_line(r.out)["val_loss"].get<double>(), 0.1);
    for (const char* absent : {"tier", "not in train"})
      BOOST_CHECK_MESSAGE(r.out.find(absent) == std::string::npos, r.out);
  }
  const test::Result r = folder.run({"addsub", "train", "--overfit", "--lr", "1e-9", "--epochs", "5", "--out", "m"});
  BOOST_CHECK_MESSAGE(r.code == 1 && r.err.find("--overfit: 4 of the 4 expressions") != std::string::npos, r.err);
}

// The record of docs/records.md in short: 15 of its 30 epochs.
BOOST_AUTO_TEST_CASE(a_quick_training_generalises, *boost::unit_test::precondition(test::ends_in_time)) {
  const test::Folder folder("addsub");
  const test::Result trained =
      folder.run({"addsub", "train", "--preset", "quick", "--epochs", "15", "--log-format", "none", "--out", "m"});
  BOOST_REQUIRE_MESSAGE(trained.code == 0, trained.err);
  const test::Result evaluated = folder.run({"addsub", "eval", "--model", "m", "--all", "--json"});
  BOOST_CHECK_GT(test::last_line(evaluated.out)["unseen_exact"].get<double>(), 0.98);
}

BOOST_AUTO_TEST_CASE(the_first_rows_of_the_data) {
  const test::Folder folder("addsub");
  const std::string in = "BOS NEGATIVE 30 subtract NEGATIVE 34 EOS", out = "BOS POSITIVE 04 EOS";
  nlohmann::json j;
  for (int i = 0; i < 10; ++i) j["inp_expression"].push_back(in), j["out_expression"].push_back(out);
  std::ofstream(folder.path / "data.json") << j.dump();
  const test::Result r = folder.run({"addsub", "data", "--data", "data.json", "--head", "2"});
  const std::string row = "-30 - -34 = 4\n  " + in + "  ->  " + out + "\n  14 11 3 0 13 11 3 4 15  ->  14 10 0 4 15\n";
  BOOST_CHECK_MESSAGE(r.code == 0 && r.out.starts_with(row + row + "2 of 10 rows"), r.out << r.err);
  BOOST_CHECK_EQUAL(folder.run({"addsub", "data", "--head", "0"}).code, 2);
  // A model is evaluated on the given data, or by default on the data of its training run.
  BOOST_REQUIRE_EQUAL(folder.run({"addsub", "train", "--max-steps", "1", "--out", "m", "--log-format", "none"}).code,
                      0);
  const auto counted = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"addsub", "eval", "--model", "m", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const test::Result found = folder.run(words);
    BOOST_REQUIRE_MESSAGE(found.code == 0, found.err);
    return test::last_line(found.out)["val_examples"].get<int>();
  };
  const int own = counted({}), given = counted({"--data", "data.json"});
  BOOST_CHECK_MESSAGE(own > 100 && given > 0 && given < 10, own << " and " << given);
}
