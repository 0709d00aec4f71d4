// Normalizers on every code point: the classes of characters that the package tokenizers (0.23) has. Normal forms.
// needs: libraries: seppo::text
#include "support/tokenizer_files.h"

#include <seppo/nn/text/characters.h>
#include <seppo/nn/text/charsmap.h>
#include <seppo/nn/text/normalizers.h>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <functional>
#include <iostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace seppo;

namespace {

using Ranges = std::vector<std::pair<char32_t, char32_t>>;  // both ends included

bool has(const Ranges& ranges, char32_t code) {
  for (const auto& [first, last] : ranges)
    if (first <= code && code <= last) return true;
  return false;
}

// What becomes of each code point between two letters.
void check_all(const Normalizer& normalizer, const std::function<std::string(char32_t, const std::string&)>& expected) {
  Matcher matcher(8);
  for (char32_t code = 1; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;  // no characters
    std::string character;
    append_utf8(character, code);
    const std::string got = normalized(std::span(&normalizer, 1), "a" + character + "b", {}, matcher);
    BOOST_REQUIRE_MESSAGE(got == "a" + expected(code, character) + "b", "code point " << std::uint32_t{code});
  }
}

// A table that maps "a" to what stands there in the texts: of the root's children, the label is the index.
std::string table_of(const std::string& texts, std::uint32_t at) {
  constexpr std::uint32_t kLeafFlag = 1 << 8, kOne = 1 << 10, kValue = std::uint32_t{1} << 31;
  std::vector<std::uint32_t> units('a' + 1);
  units['a'] = 'a' | kLeafFlag | kOne;
  units['a' ^ 1] = kValue | at;
  std::string table = test::bytes_of(static_cast<std::uint32_t>(4 * units.size()));
  for (const std::uint32_t unit : units) table += test::bytes_of(unit);
  return table + texts;
}

}  // namespace

BOOST_AUTO_TEST_CASE(nmt_drops_controls_and_spaces_lines) {
  const Ranges dropped{{0x1, 0x8}, {0xB, 0xB}, {0xE, 0x1F}, {0x7F, 0x7F}, {0x8F, 0x8F}, {0x9F, 0x9F}};
  const Ranges spaces{{0x9, 0xA},       {0xC, 0xD},       {0x1680, 0x1680}, {0x200B, 0x200F},
                      {0x2028, 0x2029}, {0x2581, 0x2581}, {0xFEFF, 0xFEFF}, {0xFFFD, 0xFFFD}};
  check_all(NmtSpaces{}, [&](char32_t code, const std::string& character) {
    return has(dropped, code) ? "" : has(spaces, code) ? " " : character;
  });
}

BOOST_AUTO_TEST_CASE(bert_puts_spaces_around_ideographs) {
  const Ranges ideographs{{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},  {0x20000, 0x2A6DF},
                          {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  const BertCleaning bert{.cleans = false, .spaces_ideographs = true, .strips_accents = false, .is_lower = false};
  check_all(bert, [&](char32_t code, const std::string& character) {
    return has(ideographs, code) ? " " + character + " " : character;
  });
}

// What a table makes of a text is UTF-8 too: others begin within a character, or are refused.
BOOST_AUTO_TEST_CASE(tables_of_characters_give_characters) {
  test::refused([] { Charsmap(table_of("\xFF", 0), "x"); }, "x: 'precompiled_charsmap': a text is not UTF-8");
  test::refused([] { Charsmap(table_of("b\xC3", 0), "x"); }, "x: 'precompiled_charsmap': a text is not UTF-8");
  if (!has_unicode_tables()) return;
  const std::string texts = "\u00E9b" + std::string(1, '\0');
  const auto changed = [&](std::uint32_t at, const std::string& text, std::size_t most = 100) {
    return Charsmap(table_of(texts, at), "x").apply(text, most);
  };
  BOOST_CHECK_EQUAL(changed(0, "xa"), "x\u00E9b");
  BOOST_CHECK_EQUAL(changed(2, "xa"), "xb");
  for (const std::uint32_t at : {1U, 4U}) BOOST_CHECK_EQUAL(changed(at, "xa"), "xa");
  BOOST_CHECK_EQUAL(changed(0, std::string(1000, 'a')).size(), 102u);  // enough to be refused
}

// As in figure 6 of Unicode's annex 15; marks of equal classes keep their order.
BOOST_AUTO_TEST_CASE(normal_forms_order_marks) {
  if (!has_unicode_tables()) {
    std::cout << "skipped: utf8proc\n";
    return;
  }
  const std::string text = "\u1E9B\u0323";
  BOOST_CHECK_EQUAL(normal_form(text, NormalForm::nfc), text);
  BOOST_CHECK_EQUAL(normal_form(text, NormalForm::nfd), "\u017F\u0323\u0307");
  BOOST_CHECK_EQUAL(normal_form(text, NormalForm::nfkc), "\u1E69");
  BOOST_CHECK_EQUAL(normal_form(text, NormalForm::nfkd), "s\u0323\u0307");
  BOOST_CHECK_EQUAL(normal_form("\u00E1\u0300\u0323b\u0301", NormalForm::nfd), "a\u0323\u0301\u0300b\u0301");
  // To swap neighbours would take hours.
  const auto run = [](std::size_t count, const std::string& mark) {
    std::string marks;
    for (std::size_t i = 0; i < count; ++i) marks += mark;
    return marks;
  };
  const std::size_t count = 1'000'000;
  const std::string above = run(count, "\u0301"), below = run(count, "\u0323");
  BOOST_CHECK(normal_form("a" + above + below, NormalForm::nfd) == "a" + below + above);
  BOOST_CHECK(normal_form("a" + above + below, NormalForm::nfc) == "\u1EA1" + run(count - 1, "\u0323") + above);
}
