// The subwords of translations: shared by both languages, kept with the model, and never unknown.
// needs: programs: translate
#include "translate/data.h"
#include "translate/numbers.h"

#include <seppo/autograd/core/check.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <span>
#include <string>
#include <vector>

using namespace translate;

// Of a text in any language, and of bytes that are no text, every token is known.
BOOST_AUTO_TEST_CASE(subwords_are_shared_and_leave_nothing_unknown) {
  std::vector<Pair> pairs = draw_number_tasks(500, 1);
  pairs.push_back({"<unk> <bos> <eos> <unk> <bos> <eos>", "<|endoftext|> <|endoftext|>'"});
  DataConfig options;
  options.tokenizer = {.kind = Tokenizer::Kind::subwords};
  options.subwords = 400;
  const Languages languages = make_languages(options, pairs);
  BOOST_CHECK(languages.source.tokens() == languages.target.tokens());
  BOOST_CHECK_EQUAL(languages.source.size(), 400 + kSpecials);
  BOOST_CHECK(languages.source.contains("<C3>") && languages.source.contains("\xe2\x96\x81"));
  std::size_t tokens = 0, bytes = 0;
  for (const Pair& pair : pairs)
    for (const std::string& text : {pair.source, pair.target}) {
      const std::vector<int> ids = languages.encode(languages.source, text);
      BOOST_CHECK_EQUAL(languages.decode(ids), text);
      tokens += ids.size();
      bytes += text.size();
    }
  BOOST_CHECK_LT(2 * tokens, bytes);
  for (const std::string text : {"größte Zahl:\t305", "天地玄黄 <eos> ありがとう", "a  b ▁ <C3>", ""}) {
    const std::vector<int> ids = languages.encode(languages.source, text);
    BOOST_CHECK_EQUAL(languages.decode(ids), text);
    BOOST_CHECK_EQUAL(ids.back(), kEos);
    for (const int id : std::span(ids).first(ids.size() - 1)) BOOST_CHECK_GE(id, kSpecials);
  }
  BOOST_CHECK_EQUAL(languages.decode(languages.encode(languages.source, "a\xc3\nb")),
                    "a\xef\xbf\xbd\xef\xbf\xbd"
                    "b");
  const int letter = languages.encode(languages.source, "a")[0];
  BOOST_CHECK_EQUAL(languages.decode(std::vector<int>{kUnknown, letter, kBos, kEos, letter}), "a");

  const nlohmann::json saved = languages.to_json();
  const Languages again = Languages::from_json(saved);
  BOOST_CHECK(again.to_json() == saved && again.source.tokens() == languages.source.tokens());
  for (const Pair& pair : pairs)
    BOOST_CHECK(again.encode(again.source, pair.source) == languages.encode(languages.source, pair.source));
  nlohmann::json deep = nlohmann::json::parse(saved["subwords"].get<std::string>()), step{{"type", "Nmt"}};
  for (int level = 0; level < 10; ++level)
    step = {{"type", "Sequence"}, {"normalizers", nlohmann::json::array({step})}};
  deep["normalizer"] = step;
  for (const std::string& bad : std::vector<std::string>{"not JSON", "{}", "[1]", deep.dump()}) {
    nlohmann::json changed = saved;
    changed["subwords"] = bad;
    BOOST_CHECK_THROW(Languages::from_json(changed), seppo::FormatError);
  }
}
