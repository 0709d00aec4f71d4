// Translation: the number tasks, text and vocabularies, the book's steps, and the program as a user runs it.
// needs: programs: translate
#include "support/program.h"
#include "translate/d2l.h"
#include "translate/data.h"
#include "translate/numbers.h"
#include "translate/score.h"

#include <seppo/nn/train/interrupts.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <set>

using namespace test;
using namespace translate;

// ---- number tasks --------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(numbers_in_words) {
  const std::vector<std::tuple<int, std::string, std::string>> known{
      {0, "zero", "null"},
      {1, "one", "eins"},
      {12, "twelve", "zwölf"},
      {16, "sixteen", "sechzehn"},
      {17, "seventeen", "siebzehn"},
      {21, "twenty-one", "einundzwanzig"},
      {30, "thirty", "dreißig"},
      {66, "sixty-six", "sechsundsechzig"},
      {77, "seventy-seven", "siebenundsiebzig"},
      {100, "one hundred", "einhundert"},
      {101, "one hundred and one", "einhunderteins"},
      {305, "three hundred and five", "dreihundertfünf"},
      {1000, "one thousand", "eintausend"},
      {1001, "one thousand and one", "eintausendeins"},
      {2007, "two thousand and seven", "zweitausendsieben"},
      {4100, "four thousand one hundred", "viertausendeinhundert"},
      {9999, "nine thousand nine hundred and ninety-nine", "neuntausendneunhundertneunundneunzig"}};
  for (const auto& [number, in_english, in_german] : known) {
    BOOST_CHECK_EQUAL(english(number), in_english);
    BOOST_CHECK_EQUAL(german(number), in_german);
  }
  BOOST_CHECK_THROW(english(-1), seppo::ArgumentError);
  BOOST_CHECK_THROW(german(10'000), seppo::ArgumentError);
}

BOOST_AUTO_TEST_CASE(dates_in_words) {
  const std::vector<std::tuple<Date, std::string, std::string>> known{
      {{1987, 5, 3}, "the third of May nineteen eighty-seven", "der dritte Mai neunzehnhundertsiebenundachtzig"},
      {{1900, 1, 1}, "the first of January nineteen hundred", "der erste Januar neunzehnhundert"},
      {{1907, 3, 7}, "the seventh of March nineteen oh seven", "der siebte März neunzehnhundertsieben"},
      {{2000, 2, 29}, "the twenty-ninth of February two thousand", "der neunundzwanzigste Februar zweitausend"},
      {{2005, 12, 31},
       "the thirty-first of December two thousand and five",
       "der einunddreißigste Dezember zweitausendfünf"},
      {{2010, 8, 20}, "the twentieth of August twenty ten", "der zwanzigste August zweitausendzehn"},
      {{2099, 10, 30},
       "the thirtieth of October twenty ninety-nine",
       "der dreißigste Oktober zweitausendneunundneunzig"}};
  for (const auto& [date, in_english, in_german] : known) {
    BOOST_CHECK_EQUAL(english(date), in_english);
    BOOST_CHECK_EQUAL(german(date), in_german);
  }
}

// Each task can be solved, and has only one answer.
BOOST_AUTO_TEST_CASE(every_number_task_has_one_answer) {
  std::set<std::string> sources, targets;
  for (int i = 0; i < kTasks; ++i) {
    const Pair pair = number_task(i);
    sources.insert(pair.source);
    targets.insert(pair.target);
  }
  BOOST_CHECK_EQUAL(sources.size(), kTasks);
  BOOST_CHECK_EQUAL(targets.size(), kTasks / 4 * 3);  // digits, each from two sources, and words in two languages
  BOOST_CHECK_EQUAL(number_task(kTasks - 1).source, "de 2099-12-31");
  BOOST_CHECK_THROW(number_task(kTasks), seppo::IndexError);

  const std::vector<Pair> drawn = draw_number_tasks(3000, 7), again = draw_number_tasks(3000, 7);
  std::set<std::string> distinct;
  std::size_t equal = 0;
  for (std::size_t i = 0; i < drawn.size(); ++i)
    distinct.insert(drawn[i].source), equal += drawn[i].source == again[i].source;
  BOOST_CHECK(distinct.size() == 3000 && equal == 3000);
  BOOST_CHECK_NE(draw_number_tasks(1, 8)[0].source, drawn[0].source);
}

// ---- text ----------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(vocabularies_hold_what_is_frequent) {
  const std::vector<std::vector<std::string>> texts{{"b", "a", "b"}, {"c", "a", "d", "<eos>", "<eos>"}};
  const seppo::Vocabulary two = make_vocabulary(texts, 2);
  BOOST_TEST(two.tokens() == (std::vector<std::string>{"<unk>", "<bos>", "<eos>", "a", "b"}));
  BOOST_CHECK_EQUAL(make_vocabulary(texts, 1).size(), 7);
  const Languages languages{{}, two, two};
  BOOST_TEST(languages.encode(two, " b  x\ta <eos> b") == (std::vector<int>{4, 0, 3, 0, 4, kEos}));
  BOOST_CHECK_EQUAL(languages.decode(std::vector<int>{4, 3, kEos, 4}), "b a");
}

BOOST_AUTO_TEST_CASE(words_and_characters_join_to_the_text) {
  const std::string text = "größte Zahl: 305";
  for (const Tokenizer::Kind kind : {Tokenizer::Kind::words, Tokenizer::Kind::characters}) {
    const Tokenizer tokenizer{.kind = kind};
    BOOST_CHECK_EQUAL(tokenizer.join(tokenizer.split(text)), text);
  }
  BOOST_CHECK_EQUAL(characters_of(text).size(), 16);
}

BOOST_AUTO_TEST_CASE(parallel_files) {
  const Folder folder("parallel");
  folder.write("two", "a b\nc\r\n");
  folder.write("three", "1\n2\n3\n");
  folder.write("tabs", "a b\tc\tmore\nd\te\n");
  folder.write("no_tab", "a\tb\nc d\n");
  folder.write("bytes", "a\tb\nc\t\xff\n");
  folder.write("empty", "");
  const auto refused = [&](const auto& read, const std::string& part) {
    BOOST_CHECK_EXCEPTION(read(), seppo::Error,
                          [&](const seppo::Error& e) { return std::string(e.what()).find(part) != std::string::npos; });
  };
  const std::vector<Pair> pairs = Files{.src = folder.path / "two", .tgt = folder.path / "two"}.read();
  BOOST_CHECK(pairs.size() == 2 && pairs[1].source == "c");
  const std::vector<Pair> tabs = Files{.pairs = folder.path / "tabs"}.read();
  BOOST_CHECK(tabs.size() == 2 && tabs[0].source == "a b" && tabs[0].target == "c");
  refused([&] { Files{.src = folder.path / "two", .tgt = folder.path / "three"}.read(); }, "2 lines");
  refused([&] { Files{.pairs = folder.path / "no_tab"}.read(); }, "no_tab:2");
  refused([&] { Files{.pairs = folder.path / "bytes"}.read(); }, "bytes:2:3: byte 0xff");
  refused([&] { Files{.pairs = folder.path / "empty"}.read(); }, "is empty");
  refused([&] { Files{.pairs = folder.path / "none"}.read(); }, "cannot open");
  BOOST_CHECK(characters_of("aé\xff日") == (std::vector<std::string>{"a", "é", "\xff", "日"}));
}

// ---- the book ------------------------------------------------------------------------------------

// All-one logits for ten classes, sequences of four tokens of which 4, 2 and 0 count: losses 2.3026, 1.1513, 0.
BOOST_AUTO_TEST_CASE(the_book_masks_losses) {
  const seppo::TapeMark mark;
  const std::vector<seppo::real> ones(40, 1);
  const seppo::Tensor logits = seppo::tensor({4, 10}, ones);
  const double expected[] = {2.3026, 1.1513, 0};
  for (int i = 0; i < 3; ++i) {
    std::vector<int> targets(4, -1);
    std::fill_n(targets.begin(), 4 - 2 * i, 1);
    const seppo::Tensor loss =
        seppo::cross_entropy(logits, targets, {.ignore_index = -1, .reduction = seppo::Reduction::sum});
    BOOST_CHECK_SMALL(loss.item() / 4 - expected[i], 5e-5);
  }
}

// The sizes printed in the book and in its first edition include <pad>, which ragged batches do not need; in the
// present edition, the source vocabulary lacks <bos>.
BOOST_AUTO_TEST_CASE(the_vocabularies_of_the_book) {
  const char* file = std::getenv("SEPPO_FRA_ENG_DATA");
  if (!file) {
    std::cout << "skipped: the book's own data; set SEPPO_FRA_ENG_DATA to its fra.txt\n";
    return;
  }
  const auto sizes = [&](int pairs) {
    DataConfig options;
    options.tokenizer.normalises = true;
    std::vector<Pair> all = Files{.pairs = file}.read();
    BOOST_CHECK_EQUAL(all.size(), 167'130);
    if (pairs > 0) all.resize(static_cast<std::size_t>(pairs));
    const Languages languages = make_languages(options, all);
    return std::pair(languages.source.size(), languages.target.size());
  };
  BOOST_TEST((sizes(601) == std::pair(184 - 1, 201 - 1)));
  BOOST_TEST((sizes(641) == std::pair(194 - 1 + 1, 214 - 1)));
  BOOST_TEST(sizes(0).first == 10'012 - 1);
}

// ---- model and program ---------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(scores_do_not_depend_on_batches) {
  const std::vector<Pair> pairs = draw_number_tasks(70, 3);
  DataConfig options;
  options.tokenizer.kind = Tokenizer::Kind::characters;
  options.min_frequency = 1;
  const Languages languages = make_languages(options, pairs);
  seppo::Parameters parameters(1);
  const seppo::Transformer model(parameters.root(), {.src_vocabulary = languages.source.size(),
                                                     .tgt_vocabulary = languages.target.size(),
                                                     .layer = {.d_model = 8, .n_heads = 2, .d_ff = 8},
                                                     .enc_layers = 1,
                                                     .dec_layers = 1,
                                                     .max_length = 100});
  const Examples examples = encode(languages, pairs);
  double loss_sum = 0, tokens = 0;
  for (int row = 0; row < 70; ++row) {
    const seppo::UseMode eval(seppo::Mode::eval);
    const seppo::TapeMark mark;
    const seppo::ShardLoss one = loss(model, examples.pick({{row}}), {});
    loss_sum += one.loss.item();
    tokens += one.count;
  }
  const seppo::BeamOptions beam{.bos = kBos, .eos = kEos, .max_length = 20, .beam = 3};
  const Score all = score(model, languages, examples, beam);
  BOOST_CHECK_CLOSE(all.loss, loss_sum / tokens, 1e-3);
  BOOST_CHECK_EQUAL(all.target.tokens + pairs.size(), tokens);  // each has an end
  for (const int i : {0, 31, 69}) {
    const auto alone = beam_search(model, examples.source.pick({i}), beam);
    BOOST_CHECK_EQUAL(languages.decode(alone[0][0].tokens), all.translations[static_cast<std::size_t>(i)]);
  }
}

// Signals are noticed between texts, and invalid UTF-8 is split byte by byte.
BOOST_AUTO_TEST_CASE(translating_is_interrupted) {
  const seppo::Vocabulary vocabulary = make_vocabulary(std::vector<Words>{{"a", "b"}}, 1);
  const Languages languages{{}, vocabulary, vocabulary};
  seppo::Parameters parameters(1);
  const seppo::Transformer model(parameters.root(), {.src_vocabulary = 5,
                                                     .tgt_vocabulary = 5,
                                                     .layer = {.d_model = 8, .n_heads = 2, .d_ff = 8},
                                                     .enc_layers = 1,
                                                     .dec_layers = 1,
                                                     .max_length = 10});
  const Examples examples = encode(languages, std::vector<Pair>(3, {"b", "a"}));
  const auto translate = [&] {
    return score(model, languages, examples, {.bos = kBos, .eos = kEos, .max_length = 5}).translations.size();
  };
  {
    const seppo::CatchInterrupts interrupts;
    BOOST_CHECK_EQUAL(translate(), 3);
    std::raise(SIGINT);
    BOOST_CHECK_EXCEPTION(translate(), seppo::Interrupted,
                          [](const seppo::Interrupted& e) { return e.signal == SIGINT; });
  }
  const seppo::CatchInterrupts none;  // does not see the earlier signal
  BOOST_CHECK_EQUAL(translate(), 3);
  const Tokenizer tokenizer{.kind = Tokenizer::Kind::characters};
  BOOST_CHECK(tokenizer.split("a\xff\xc3\xa9\xc3") == (Words{"a", "\xff", "\xc3\xa9", "\xc3"}));
}

BOOST_AUTO_TEST_CASE(long_texts_are_dropped_or_cut) {
  const std::vector<Pair> pairs{{"a b c", "a"}, {"a", "b"}, {"b", "a b c d"}, {"a b", "b a"}};
  DataConfig options;
  options.min_frequency = 1;
  const Languages languages = make_languages(options, pairs);
  const auto tokens = [](std::span<const int> ids) { return std::vector<int>(ids.begin(), ids.end()); };
  const Examples whole = encode(languages, pairs), dropped = whole.without_longer(3), cut = encode(languages, pairs, 3);
  BOOST_CHECK_EQUAL(whole.truncated, 0);
  BOOST_REQUIRE_EQUAL(dropped.size(), 2);
  for (const auto& [kept, from] : {std::pair(0UL, 1UL), {1, 3}}) {
    BOOST_TEST(tokens(dropped.source[kept]) == tokens(whole.source[from]));
    BOOST_TEST(tokens(dropped.target[kept]) == tokens(whole.target[from]));
  }
  BOOST_CHECK_EQUAL(cut.truncated, 2);
  const int a = whole.source[0][0], b = whole.source[0][1];
  BOOST_TEST(tokens(cut.source[0]) == (std::vector<int>{a, b, kEos}));
  BOOST_TEST(tokens(cut.target[0]) == tokens(whole.target[0]));
  BOOST_TEST(tokens(cut.target[2]) == (std::vector<int>{kBos, a, b, kEos}));
  BOOST_TEST(tokens(cut.source[2]) == tokens(whole.source[2]));
  BOOST_TEST(tokens(cut.source[3]) == tokens(whole.source[3]));
  BOOST_TEST(tokens(cut.target[3]) == tokens(whole.target[3]));
  BOOST_TEST(cut.lengths() == (std::vector<int>{3 + 3, 2 + 3, 2 + 4, 3 + 4}));
}

BOOST_AUTO_TEST_CASE(a_small_corpus_is_learnt_by_heart, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("translate");
  std::string pairs, sources, targets;
  for (const Pair& pair : draw_number_tasks(24, 5)) {
    pairs += pair.source + "\t" + pair.target + "\n";
    sources += pair.source + "\n";
    targets += pair.target + "\n";
  }
  folder.write("pairs.tsv", pairs);
  folder.write("src.txt", sources);
  folder.write("tgt.txt", targets);
  const std::vector<std::string> train =
      words("translate train --src src.txt --tgt tgt.txt --val-pairs pairs.tsv" + kSmallTranslator +
            "--epochs 120 --eval-interval 30 --schedule cosine --warmup-steps 50 --log-format none --json --report");
  const Result r = folder.run(train);
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  const auto summary = last_line(r.out);
  BOOST_CHECK_GE(summary["val_exact"].get<double>(), 0.95);
  BOOST_CHECK(fs::exists(folder.path / "runs/translate/report.html"));

  const Result e = folder.run({"translate", "eval", "--pairs", "pairs.tsv", "--json", "--out", "out.txt"});
  BOOST_REQUIRE_MESSAGE(e.code == 0, e.err);
  BOOST_CHECK_EQUAL(last_line(e.out)["val_exact"], summary["val_exact"]);
  BOOST_CHECK_EQUAL(last_line(e.out)["val_bleu"], summary["val_bleu"]);
  const std::string first = sources.substr(0, sources.find('\n'));
  const Result p = folder.run({"translate", "predict"}, sources);
  BOOST_CHECK_EQUAL(p.out, read(folder.path / "out.txt"));
  // With smaller weights, it is nearly the same model.
  const double loss = last_line(e.out)["val_loss"].get<double>();
  for (const char* format : {"bf16", "q8"}) {
    const Result small =
        folder.run({"translate", "eval", "--pairs", "pairs.tsv", "--json", "--out", "small.txt", "--weights", format});
    BOOST_REQUIRE_MESSAGE(small.code == 0, small.err);
    const double its_loss = last_line(small.out)["val_loss"].get<double>();
    BOOST_CHECK_NE(its_loss, loss);
    BOOST_CHECK_CLOSE_FRACTION(its_loss, loss, 0.1);
    const Result predicted = folder.run({"translate", "predict", "--weights", format, "--beam", "1"}, sources);
    BOOST_CHECK_EQUAL(predicted.out, folder.run({"translate", "predict", "--beam", "1"}, sources).out);
  }
  const Result n =
      folder.run({"translate", "predict", "--n-best", "3", first, "--attention", "--attention-out", "maps"});
  BOOST_CHECK_EQUAL(n.code, 0);
  BOOST_CHECK_NE(n.out.find("decoder.0.cross_attn"), std::string::npos);
  BOOST_CHECK(fs::exists(folder.path / "maps/decoder.0.cross_attn.npy"));
  // With several translations per text, each is preceded by its score.
  for (const char* count : {"1", "2"}) {
    const Result some = folder.run({"translate", "predict", "--beam", "2", "--n-best", count, first});
    BOOST_CHECK_EQUAL(std::count(some.out.begin(), some.out.end(), '\n'), std::stoi(count));
    const bool has_score = some.out.starts_with("  ") && some.out.find('.') < 9;
    BOOST_CHECK_MESSAGE(has_score == (count == std::string("2")), some.out);
  }

  check_refused(folder, {"translate", "predict", std::string(200, '7')}, 1, "at most 99");
  check_refused(folder, {"translate", "predict", "--n-best", "5", "x"}, 2, "--n-best");
  check_refused(folder, {"translate", "eval"}, 2, "--pairs");
  check_refused(folder, {"translate", "eval", "--src", "src.txt"}, 2, "--tgt");
  // The disk becomes full when the translations are written, but has room for what is printed.
  const std::size_t room = e.out.size() + 100;
  BOOST_REQUIRE_GT(p.out.size(), room);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{room, room};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(folder.run({"translate", "eval", "--pairs", "pairs.tsv", "--json", "--out", "full.txt"}).code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  BOOST_CHECK_EQUAL(WEXITSTATUS(status), 74);
}

// The config.json of a training is also one for `data`.
BOOST_AUTO_TEST_CASE(the_texts_of_a_training_are_shown) {
  const Folder folder("translate");
  folder.write("pairs", "a b\tb a\nb\ta\na\tb\nb b\ta a\n");
  const Result trained = folder.run(words("translate train --pairs pairs --val-pairs pairs" + kSmallTranslator +
                                          "--max-steps 1 --log-format none --out m"));
  BOOST_REQUIRE_MESSAGE(trained.code == 0, trained.err);
  const Result r = folder.run({"translate", "data", "--config", "m/config.json"});
  BOOST_CHECK_MESSAGE(r.code == 0 && r.out.starts_with("a b  ->  b a\n"), r.err);
  const Words drawn =
      words("translate train --preset numbers --seed 5" + kSmallTranslator + "--max-steps 1 --log-format none --out n");
  BOOST_REQUIRE_EQUAL(folder.run(drawn).code, 0);  // its rows are those of its seed
  const Words data{"translate", "data", "--preset", "numbers"};
  const std::string rows = folder.run(with(data, {"--config", "n/config.json"})).out;
  BOOST_CHECK_EQUAL(rows, folder.run(with(data, {"--seed", "5"})).out);
  BOOST_CHECK_NE(rows, folder.run(data).out);
  folder.write("other", R"({"recipes": {}})");
  check_refused(folder, {"translate", "data", "--config", "other"}, 2, "'recipes' is not known");
}

// For texts longer than the model's limit, the report shows the translation of their beginning, and the full reference.
BOOST_AUTO_TEST_CASE(long_texts_are_cut_for_the_report) {
  const Folder folder("translate-long");
  folder.write("pairs", "a b\tb a\nb\ta\na\tb\nb b\ta a\n");
  folder.write("long", "a b a b a b a b a b\tb a b a b a b a b a\na\tb\n");
  const Result r = folder.run(words("translate train --pairs pairs --val-pairs long" + kSmallTranslator +
                                    "--max-length 4 --epochs 1 --log-format none --report --out m"));
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  const std::string page = read(folder.path / "m/report.html");
  BOOST_CHECK_NE(page.find("a b a b a b a b a b"), std::string::npos);
  BOOST_CHECK_NE(page.find("b a b a b a b a b a"), std::string::npos);
}

BOOST_AUTO_TEST_CASE(bad_input) {
  const Folder folder("translate_bad");
  folder.write("two", "a\nb\n");
  folder.write("three", "a\nb\nc\n");
  folder.write("long", "a b c d\tb\ne f g h\tb\n");
  const auto refused = [&](std::vector<std::string> options, int code, const std::string& part) {
    options.insert(options.begin(), {"translate", "train"});
    check_refused(folder, options, code, part);
  };
  refused({"--src", "two"}, 2, "--tgt");
  refused({"--src", "two", "--tgt", "two", "--pairs", "two"}, 2, "--pairs");
  refused({"--val-src", "two", "--val-tgt", "two"}, 2, "--src");
  refused({"--src", "two", "--tgt", "three"}, 1, "3");
  refused({"--src", "two", "--tgt", "two"}, 2, "--validation");
  refused({"--pairs", "two"}, 1, "two:1");
  refused({"--pairs", "none"}, 2, "'none'");
  refused({"--pairs", "long", "--validation", "1", "--max-length", "3", "--tokens", "words"}, 2, "--max-length");
  refused({"--tokens", "letters"}, 2, "--tokens");
  refused({"--subwords", "100"}, 2, "--subwords");
  refused({"--pairs", "long", "--tokens", "words", "--subwords", "1000"}, 2, "--subwords");
  refused({"--pairs", "long", "--min-frequency", "1"}, 2, "--min-frequency: cannot be given with --tokens subwords");
  refused({"--batch-tokens", "100", "--in-order"}, 2, "--batch-tokens");
  refused({"--preset", "huge"}, 2, "--preset");
  refused({"--heads", "3"}, 2, "--d-model");
  refused({"--pairs", "long", "--val-pairs", "long", "--validation", "1"}, 2, "--validation");
  folder.write("kept", "of an earlier evaluation");
  check_refused(folder, {"translate", "eval", "--pairs", "long", "--out", "kept"}, 2, "there is no model");
  BOOST_CHECK_EQUAL(read(folder.path / "kept"), "of an earlier evaluation");
}
